"""Two neighbouring batches in the wrong order, such as after a copy by hand: nothing else is wrong with them.

A broker takes them as they are, and a consumer skips the earlier one: its next fetch starts after the later one. Where
each continues the other, and both together continue the batches around them, they are put in order.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from kafkalog_core.ops.recover.places import DamagedPlace

__all__ = ["EXCHANGED", "in_order", "with_neighbour"]

EXCHANGED: Final = "exchanged"
_Batch = tuple[int, int, int, int]
"""Start, end, first offset and last offset."""


def with_neighbour(place: DamagedPlace) -> DamagedPlace:
    """Return the place of both batches where a misplaced one was exchanged with its neighbour; else the place itself.

    Raises StorageError.
    """
    if place.kind != "misplaced" or not place.is_whole:
        return place
    with Source.open(place.path) as source:
        batches = _batches(source, place.segment.base_offset)
    for number, (one, other) in enumerate(pairwise(batches)):
        if place.start not in {one[0], other[0]} or one[1] != other[0]:
            continue
        before = batches[number - 1][3] if number else None
        after = batches[number + 2][2] if number + 2 < len(batches) else None
        follows = other[2] >= 0 and (before is None or before + 1 == other[2])
        # The first offset of a compressed message of magic 0 and 1 is not in its header (-1): nothing continues it
        if follows and other[3] + 1 == one[2] and (after is None or one[3] + 1 == after):
            return replace(
                place,
                start=one[0],
                end=other[1],
                kind=EXCHANGED,
                first_offset=other[2],
                last_offset=one[3],
                header=None,
            )
    return place


def in_order(place: DamagedPlace) -> bytes:
    """Return the two batches of an exchanged place in the order of their offsets. Raises StorageError."""
    with Source.open(place.path) as source:
        own = [each for each in _batches(source, place.segment.base_offset) if place.start <= each[0] < place.end]
        return b"".join(bytes(source.read(start, end - start)) for start, end, _, _ in reversed(own))


def _batches(source: Source, base_offset: int) -> list[_Batch]:
    """Return the readable batches of a log."""
    found: list[_Batch] = []
    for item in scan(source, base_offset=base_offset, options=ScanOptions(resync=True)):
        if isinstance(item, Run):
            columns = map(item.batches.column, ("position", "size_bytes", "base_offset", "last_offset"))
            found += [(at, at + size, first, last) for at, size, first, last in zip(*columns, strict=True)]
    return found
