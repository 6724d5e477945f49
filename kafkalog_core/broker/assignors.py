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
    places = [
        (topic, number)
        for topic in sorted(partitions)
        for number in range(partitions[topic])
        if any(topic in member.topics for member in members.values())
    ]
    found: dict[str, set[Place]] = {name: set() for name in members}
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
            able = [name for name in sorted(members) if place[0] in members[name].topics]
            found[min(able, key=lambda name: len(found[name]))].add(place)
    return _levelled(found, members)


def _levelled(found: dict[str, set[Place]], members: Mapping[str, Subscriber]) -> dict[str, set[Place]]:
    """Move partitions to members that have at least two fewer, where members subscribe to different topics."""
    while True:
        moves = (
            (len(found[giver]) - len(found[taker]), giver, taker, place)
            for giver in sorted(found)
            for taker in sorted(found)
            if len(found[giver]) - len(found[taker]) > 1
            for place in sorted(found[giver])
            if place[0] in members[taker].topics
        )
        best = max(moves, default=None)
        if best is None:
            return found
        _, giver, taker, place = best
        found[giver].remove(place)
        found[taker].add(place)


def _range(members: Mapping[str, Subscriber], partitions: Mapping[str, int]) -> dict[str, set[Place]]:
    """Give the members of each topic contiguous ranges, the first ones one more where it does not divide."""
    found: dict[str, set[Place]] = {name: set() for name in members}
    for topic, count in sorted(partitions.items()):
        readers = sorted(name for name, member in members.items() if topic in member.topics)
        start = 0
        for number, name in enumerate(readers):
            size = count // len(readers) + (number < count % len(readers))
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
