"""The assignors of a broker (KIP-848): which member of a consumer group reads which partitions.

`UniformAssignor` gives every member about as many partitions, and leaves it those that it has; `RangeAssignor` gives
each member a contiguous range of every topic. Both are functions of values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["ASSIGNORS", "DEFAULT_ASSIGNOR", "Place", "Subscriber", "by_topic"]

Place = tuple[str, int]
"""A topic and a partition number."""


class Subscriber(NamedTuple):
    """A member: the topics that it reads, and what it was to read so far."""

    topics: frozenset[str]
    assigned: frozenset[Place]


def _uniform(members: Mapping[str, Subscriber], partitions: Mapping[str, int]) -> dict[str, set[Place]]:
    """Give every member its share, and leave it what it has of it."""
    found: dict[str, set[Place]] = {name: set() for name in members}
    readers = _readers(members, partitions)
    places = [(topic, number) for topic, names in readers.items() if names for number in range(partitions[topic])]
    if not members:
        return found
    share, larger = divmod(len(places), len(members))
    wanted, taken = set(places), set[Place]()
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


def _levelled(found: dict[str, set[Place]], readers: Mapping[str, Sequence[str]]) -> dict[str, set[Place]]:
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


def _range(members: Mapping[str, Subscriber], partitions: Mapping[str, int]) -> dict[str, set[Place]]:
    """Give the members of each topic contiguous ranges, the first ones one more where it does not divide."""
    found: dict[str, set[Place]] = {name: set() for name in members}
    for topic, readers in _readers(members, partitions).items():
        start = 0
        for number, name in enumerate(readers):
            size = partitions[topic] // len(readers) + (number < partitions[topic] % len(readers))
            found[name].update((topic, each) for each in range(start, start + size))
            start += size
    return found


ASSIGNORS: Final[dict[str, Callable[[Mapping[str, Subscriber], Mapping[str, int]], dict[str, set[Place]]]]] = {
    "uniform": _uniform,
    "range": _range,
}
DEFAULT_ASSIGNOR: Final = "uniform"


def by_topic(places: Iterable[Place]) -> dict[str, Sequence[int]]:
    """Return partitions by topic, in order."""
    found: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        found.setdefault(topic, []).append(number)
    return dict(found)
