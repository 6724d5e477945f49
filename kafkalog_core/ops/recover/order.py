"""Two neighbouring batches in the wrong order, such as after a copy by hand: nothing else is wrong with them.

A broker takes them as they are, and a consumer skips the earlier one: its next fetch starts after the later one. Where
each continues the other, and both together continue the batches around them, they are put in order.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source

__all__ = ["ExchangedBatches", "exchanged_batches", "in_order"]


class _Batch(NamedTuple):
    start: int
    end: int
    first_offset: int
    last_offset: int


class ExchangedBatches(NamedTuple):
    """The place of two exchanged batches, and the offsets of both together."""

    start: int
    end: int
    first_offset: int
    last_offset: int


def exchanged_batches(path: str, base_offset: int, start: int) -> ExchangedBatches | None:
    """Return the place of the batch at a byte and of the neighbour that it was exchanged with; None: it was not.

    Raises StorageError.
    """
    batches = _batches(path, base_offset)
    for number, (one, other) in enumerate(pairwise(batches)):
        if start not in {one.start, other.start} or one.end != other.start:
            continue
        before = batches[number - 1].last_offset if number else None
        after = batches[number + 2].first_offset if number + 2 < len(batches) else None
        # The first offset of a compressed message of magic 0 and 1 is not in its header (-1): it continues nothing
        follows = other.first_offset >= 0 and (before is None or before + 1 == other.first_offset)
        is_followed = after is None or one.last_offset + 1 == after
        if follows and other.last_offset + 1 == one.first_offset and is_followed:
            return ExchangedBatches(one.start, other.end, other.first_offset, one.last_offset)
    return None


def in_order(path: str, base_offset: int, start: int, end: int) -> bytes:
    """Return the two batches between two bytes in the order of their offsets. Raises StorageError."""
    own = [each for each in _batches(path, base_offset) if start <= each.start < end]
    with Source.open(path) as source:
        return b"".join(bytes(source.read(each.start, each.end - each.start)) for each in reversed(own))


def _batches(path: str, base_offset: int) -> list[_Batch]:
    """Return the readable batches of a log."""
    found: list[_Batch] = []
    with Source.open(path) as source:
        for item in scan(source, base_offset=base_offset, options=ScanOptions(resync=True)):
            if isinstance(item, Run):
                columns = map(item.batches.column, ("position", "size_bytes", "base_offset", "last_offset"))
                found += [_Batch(at, at + size, first, last) for at, size, first, last in zip(*columns, strict=True)]
    return found
