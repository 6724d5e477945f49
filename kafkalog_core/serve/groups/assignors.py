"""The assignors of a broker: which member of a group reads which partitions (KIP-848, KIP-932).

`UniformAssignor` gives every member about as many partitions, and takes away as few as possible. `RangeAssignor` gives
each member a contiguous range of every topic. `SimpleAssignor` serves share groups, whose members read the same
partitions where there are more members than partitions. All are functions of values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.format.names import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["ASSIGNORS", "DEFAULT_ASSIGNOR", "Subscriber", "by_topic", "share_assignment"]


class Subscriber(NamedTuple):
    """A member: the topics that it reads, and what it was to read so far."""

    topics: frozenset[str]
    assigned: frozenset[TopicPartition]


def _uniform(members: Mapping[str, Subscriber], partitions: Mapping[str, int]) -> dict[str, set[TopicPartition]]:
    """Give every member its share, and leave it what it has of it."""
    found: dict[str, set[TopicPartition]] = {name: set() for name in members}
    readers = _readers(members, partitions)
    places = [(topic, number) for topic, names in readers.items() if names for number in range(partitions[topic])]
    if not members:
        return found
    share, larger = divmod(len(places), len(members))
    wanted, taken = set(places), set[TopicPartition]()
    # Members with most partitions first: they have most to give up.
    by_size = sorted(members, key=lambda name: (-len(members[name].assigned), name))
    for name in by_size:
        kept = sorted(place for place in members[name].assigned if place in wanted and place[0] in members[name].topics)
        room = share + (1 if larger > 0 and len(kept) > share else 0)
        larger -= room > share
        found[name].update([place for place in kept if place not in taken][:room])
        taken |= found[name]
    for place in places:
        if place not in taken:
            found[min(readers[place[0]], key=lambda name: len(found[name]))].add(place)
    return _levelled(found, readers)


def _levelled(
    found: dict[str, set[TopicPartition]], readers: Mapping[str, Sequence[str]]
) -> dict[str, set[TopicPartition]]:
    """Move partitions to members that have at least two fewer, where members subscribe to different topics.

    Each move makes the sum of the squares of their numbers smaller, so this ends.
    """
    has_moved = True
    while has_moved:
        has_moved = False
        least = min(map(len, found.values()))
        for giver in sorted(found, key=lambda name: (-len(found[name]), name)):
            if len(found[giver]) - least <= 1:
                break
            for topic, numbers in by_topic(found[giver]).items():
                for number in numbers:
                    taker = min(readers[topic], key=lambda name: len(found[name]))
                    if len(found[giver]) - len(found[taker]) <= 1:
                        break  # this topic has no reader with at least two fewer
                    found[giver].remove((topic, number))
                    found[taker].add((topic, number))
                    has_moved = True
    return found


def _readers(members: Mapping[str, Subscriber], partitions: Mapping[str, int]) -> dict[str, list[str]]:
    """Return the members that read each topic, all in order."""
    return {topic: sorted(name for name in members if topic in members[name].topics) for topic in sorted(partitions)}


def _range(members: Mapping[str, Subscriber], partitions: Mapping[str, int]) -> dict[str, set[TopicPartition]]:
    """Give the members of each topic contiguous ranges, the first ones one more where it does not divide."""
    found: dict[str, set[TopicPartition]] = {name: set() for name in members}
    for topic, readers in _readers(members, partitions).items():
        start = 0
        for number, name in enumerate(readers):
            size = partitions[topic] // len(readers) + (number < partitions[topic] % len(readers))
            found[name].update((topic, each) for each in range(start, start + size))
            start += size
    return found


ASSIGNORS: Final[dict[str, Callable[[Mapping[str, Subscriber], Mapping[str, int]], dict[str, set[TopicPartition]]]]] = {
    "uniform": _uniform,
    "range": _range,
}
DEFAULT_ASSIGNOR: Final = "uniform"


def share_assignment(
    members: Mapping[str, Subscriber], places: Iterable[TopicPartition]
) -> dict[str, set[TopicPartition]]:
    """Return what each member of a share group reads (`SimpleAssignor`): every partition has a member, if there is one.

    Where all subscribe to the same topics, the partitions of all topics are shared out together. Otherwise they are
    shared out topic by topic.
    """
    wanted = sorted(places)
    found: dict[str, set[TopicPartition]] = {name: set() for name in members}
    if len({each.topics for each in members.values()}) <= 1:
        parts = [list(members)]
        topics = [[place for place in wanted if all(place[0] in each.topics for each in members.values())]]
    else:
        names = sorted({topic for topic, _ in wanted})
        parts = [[name for name in members if topic in members[name].topics] for topic in names]
        topics = [[place for place in wanted if place[0] == topic] for topic in names]
    for readers, of_topics in zip(parts, topics, strict=True):
        for name, taken in _shared({each: members[each].assigned for each in sorted(readers)}, of_topics).items():
            found[name] |= taken
    return found


def _shared(
    members: Mapping[str, frozenset[TopicPartition]], places: Sequence[TopicPartition]
) -> dict[str, set[TopicPartition]]:
    """Give each partition as many members; `members`: what each has so far (`SimpleHomogeneousAssignmentBuilder`)."""
    if not members or not places:
        return {name: set() for name in members}
    sharing = -(-len(members) // len(places))
    # the share of member n is ceil(share * (n + 1)) - ceil(share * n), where share = sharing * places / members
    ends = [-(-sharing * len(places) * number // len(members)) for number in range(len(members) + 1)]
    quota = {name: ends[number + 1] - ends[number] for number, name in enumerate(members)}
    readers: dict[TopicPartition, set[str]] = {place: set() for place in places}
    found: dict[str, set[TopicPartition]] = {name: set() for name in members}

    def give(place: TopicPartition, name: str) -> None:
        found[name].add(place)
        readers[place].add(name)

    for name, former in members.items():
        for place in sorted(former & readers.keys()):
            if len(found[name]) < quota[name] and len(readers[place]) < sharing:
                give(place, name)
    for place in places:
        while len(readers[place]) < sharing:
            free = [name for name in members if len(found[name]) < quota[name] and name not in readers[place]]
            if not free:
                break
            give(place, min(free, key=lambda name: len(found[name])))
    return found


def by_topic(places: Iterable[TopicPartition]) -> dict[str, Sequence[int]]:
    """Return partitions by topic, in order."""
    found: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        found.setdefault(topic, []).append(number)
    return dict(found)
