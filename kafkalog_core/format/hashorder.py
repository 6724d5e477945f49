"""The order in which a broker's hash map gives out the producers of a snapshot, which is that of the file.

Until it is full to three quarters a table keeps its size, 16 at first; then it doubles, and it never shrinks. What
stands in one bucket is in the order of its insertion (java.util.HashMap), or in the reverse of it, which every doubling
turns round (scala.collection.mutable.HashMap up to Scala 2.12).
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["java_order", "scala_order"]

_FIRST_SIZE: Final = 16
_NONE: Final = -1
_MASK32: Final = 0xFFFFFFFF
_SWAP: Final = 0x9E3775CD  # scala.util.hashing.byteswap32


def java_order(ids: Sequence[int]) -> Sequence[int]:
    """Places of `ids`, as they were inserted, in the order of a java.util.HashMap."""
    size = _FIRST_SIZE
    while 4 * len(ids) > 3 * size:
        size *= 2

    def bucket(each: int) -> int:
        value = _hash(each)
        return (value ^ value >> 16) & (size - 1)

    # Sorted by counting: the first place of each bucket, then the next one that is free in it.
    free = array("q", bytes(8 * (size + 1)))
    for each in ids:
        free[bucket(each) + 1] += 1
    free = array("q", accumulate(free))
    places = array("q", bytes(8 * len(ids)))
    for place, each in enumerate(ids):
        at = bucket(each)
        places[free[at]] = place
        free[at] += 1
    return places


def scala_order(ids: Sequence[int]) -> Sequence[int]:
    """Places of `ids`, as they were inserted, in the order of a mutable.HashMap of Scala 2.11 and 2.12."""
    firsts = array("q", [_NONE]) * _FIRST_SIZE  # of each bucket; what is new goes in front
    following = array("q", [_NONE]) * len(ids)
    for place, each in enumerate(ids):
        _put_first(place, _scala_bucket(each, len(firsts)), firsts, following)
        if 4 * (place + 1) > 3 * len(firsts):
            doubled = array("q", [_NONE]) * (2 * len(firsts))
            for moved in _walk(firsts, following):
                _put_first(moved, _scala_bucket(ids[moved], len(doubled)), doubled, following)
            firsts = doubled
    return array("q", _walk(firsts, following))


def _put_first(place: int, bucket: int, firsts: array[int], following: array[int]) -> None:
    following[place] = firsts[bucket]
    firsts[bucket] = place


def _walk(firsts: array[int], following: array[int]) -> Iterator[int]:
    """Yield every place, the last bucket first; the caller may move a place once it has it."""
    for first in reversed(firsts):
        place = first
        while place != _NONE:
            after = following[place]
            yield place
            place = after


def _scala_bucket(each: int, size: int) -> int:
    value = _hash(each) * _SWAP & _MASK32
    value = int.from_bytes(value.to_bytes(4, "big"), "little") * _SWAP & _MASK32
    turn = (size - 1).bit_count()
    value = (value >> turn | value << (32 - turn)) & _MASK32
    return value >> (32 - turn)


def _hash(each: int) -> int:
    """`Long.hashCode`, unsigned; Scala's is the same for what is not negative."""
    return (each ^ each >> 32) & _MASK32
