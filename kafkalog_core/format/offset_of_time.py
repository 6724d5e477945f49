"""Offsets inside of batches that indexes name: of the first message in a wrapper, of the largest timestamp."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from kafkalog_core.errors import FieldError
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.layout import MAGIC_V2, MAX_BATCH_BYTES, TIMESTAMP_TYPE_BIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.format.index_builder import IndexBuilder

__all__ = ["first_offset_inside", "name_records", "offset_of_time"]


def first_offset_inside(memory: memoryview, batches: BatchColumns, row: int) -> int:
    """First offset of a batch; a compressed message is opened for it. Raises FieldError where it does not open."""
    known: int = batches.column("base_offset")[row]
    if known >= 0:
        return known
    for run in _records(memory, batches, row):
        first: int = run.records.column("offset")[0]
        return first
    raise FieldError("a compressed message that does not open")


def offset_of_time(memory: memoryview, batches: BatchColumns, row: int) -> int:
    """Where brokers before 3.9 that give offsets themselves find the largest timestamp of a batch.

    That is the record's own offset in an uncompressed batch of magic 2 whose producer gave the times; else its last.
    Raises FieldError where the records cannot be read.
    """
    last: int = batches.column("last_offset")[row]
    is_plain = batches.column("format")[row] == MAGIC_V2 and batches.column("codec")[row] == 0
    if not is_plain or batches.column("attributes")[row] & TIMESTAMP_TYPE_BIT:
        return last
    latest = batches.column("max_timestamp_ms")[row]
    for run in _records(memory, batches, row):
        times = run.records.column("timestamp_ms").tolist()
        if latest in times:
            offset: int = run.records.column("offset")[times.index(latest)]
            return offset
    return last


def name_records(
    indexes: IndexBuilder, memory: memoryview, batches: BatchColumns, first: int, last: int, *, times_before: int
) -> None:
    """Give the time entries that rows have just made the offsets of the very records.

    Args:
        indexes: with the rows appended, each as one call.
        memory: what the spans of `batches` refer to.
        batches: the rows.
        first: of them.
        last: behind the last of them.
        times_before: bytes that the time index had before them.
    """

    def own(offset: int) -> int:
        row = bisect_left(lasts, offset, first, last)
        return offset_of_time(memory, batches, row) if row < last and lasts[row] == offset else offset

    lasts = batches.column("last_offset")
    indexes.rename_times(times_before, own)


def _records(memory: memoryview, batches: BatchColumns, row: int) -> Iterator[RecordRun]:
    for item in decode_run(memory, batches.part(row, row + 1), max_bytes=MAX_BATCH_BYTES):
        if not isinstance(item, RecordRun):
            raise FieldError(item.detail)
        yield item
