"""The order in which a broker's hash map gives out the producers of a snapshot, which is that of the file.

Until it is full to three quarters a table keeps its size, 16 at first; then it doubles, and it never shrinks. What
stands in one bucket is in the order of its insertion (java.util.HashMap), or in the reverse of it, which every doubling
turns round (scala.collection.mutable.HashMap up to Scala 2.12).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["java_order", "scala_order"]

_FIRST_SIZE: Final = 16
_MASK32: Final = 0xFFFFFFFF
_SWAP: Final = 0x9E3775CD  # scala.util.hashing.byteswap32


def java_order(ids: Sequence[int]) -> list[int]:
    """Places of `ids`, as they were inserted, in the order of a java.util.HashMap."""
    size = _FIRST_SIZE
    while 4 * len(ids) > 3 * size:
        size *= 2

    def bucket(place: int) -> int:
        value = _hash(ids[place])
        return (value ^ value >> 16) & (size - 1)

    return sorted(range(len(ids)), key=bucket)


def scala_order(ids: Sequence[int]) -> list[int]:
    """Places of `ids`, as they were inserted, in the order of a mutable.HashMap of Scala 2.11 and 2.12."""
    table: list[list[int]] = [[] for _ in range(_FIRST_SIZE)]
    for place, each in enumerate(ids):
        table[_scala_bucket(each, len(table))].insert(0, place)
        if 4 * (place + 1) > 3 * len(table):
            table = _doubled(table, ids)
    return [place for bucket in reversed(table) for place in bucket]


def _doubled(table: list[list[int]], ids: Sequence[int]) -> list[list[int]]:
    doubled: list[list[int]] = [[] for _ in range(2 * len(table))]
    for bucket in reversed(table):
        for place in bucket:
            doubled[_scala_bucket(ids[place], len(doubled))].insert(0, place)
    return doubled


def _scala_bucket(each: int, size: int) -> int:
    value = _hash(each) * _SWAP & _MASK32
    value = int.from_bytes(value.to_bytes(4, "big"), "little") * _SWAP & _MASK32
    turn = (size - 1).bit_count()
    value = (value >> turn | value << (32 - turn)) & _MASK32
    return value >> (32 - turn)


def _hash(each: int) -> int:
    """`Long.hashCode`, unsigned; Scala's is the same for what is not negative."""
    return (each ^ each >> 32) & _MASK32
