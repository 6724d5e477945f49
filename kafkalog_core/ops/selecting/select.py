"""Which batches and records are wanted: ranges, bytes, patterns, flags.

A batch is passed over whole where its header says enough, before its records are inflated; what is left is looked
at record by record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import SelectionError
from kafkalog_core.format.columns import FORMAT_V07
from kafkalog_core.format.layout import (
    CODEC_NAMES,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    MAGIC_V1,
    MAGIC_V2,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.format.columns import BatchColumns, RecordColumns
    from kafkalog_core.format.decode import RecordRun

__all__ = ["ANY", "Filters", "Range", "batch_filter", "has_time_in_range", "record_selection", "undecided_by_times"]

Range = tuple[int | None, int | None]
ANY: Final[Range] = (None, None)


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What is asked for; ranges hold both their ends, None is open. Nothing given takes everything.

    Args:
        offsets: Kafka offsets (0.7: byte addresses).
        positions: bytes in the file where the batch starts.
        times_ms: timestamps in ms; records without one are never in a range. A batch is in it where one of its
            records is; one without any by its largest timestamp.
        key: the exact key.
        key_regex: pattern searched in the key, as bytes of UTF-8.
        value_regex: the same for the value.
        headers: (key, value) pairs that must all be there; value None means any.
        producer_id: of the batch.
        transactional: attribute bit 4; of formats that lack it: False.
        control: attribute bit 5; the same.
        codec: Kafka's name of a codec.
    """

    offsets: Range = ANY
    positions: Range = ANY
    times_ms: Range = ANY
    key: bytes | None = None
    key_regex: str | None = None
    value_regex: str | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    producer_id: int | None = None
    transactional: bool | None = None
    control: bool | None = None
    codec: str | None = None

    @cached_property
    def patterns(self) -> tuple[tuple[str, re.Pattern[bytes]], ...]:
        """Column and compiled pattern. Raises SelectionError for a pattern that is no regular expression."""
        found = []
        for column, pattern in (("key", self.key_regex), ("value", self.value_regex)):
            if pattern is not None:
                try:
                    found.append((column, re.compile(pattern.encode("utf-8", "surrogateescape"))))
                except re.error as error:
                    raise SelectionError(f"{pattern!r} is no regular expression: {error}") from error
        return tuple(found)

    def check(self) -> None:
        """Raise SelectionError for what cannot be looked for."""
        _ = self.patterns
        if self.codec is not None and self.codec not in CODEC_NAMES:
            raise SelectionError(f"{self.codec!r} is no codec of Kafka: {', '.join(CODEC_NAMES)}")

    @property
    def looks_at_batches(self) -> bool:
        """Whether a batch can be passed over by its header."""
        ranged = any(part != ANY for part in (self.offsets, self.positions, self.times_ms))
        flags = (self.producer_id, self.transactional, self.control, self.codec)
        return ranged or any(flag is not None for flag in flags)

    @property
    def looks_at_records(self) -> bool:
        """Whether records of a wanted batch may be left out."""
        ranged = self.offsets != ANY or self.times_ms != ANY
        return ranged or self.key is not None or bool(self.headers) or bool(self.patterns)


def _inside(value: int, bounds: Range) -> bool:
    low, high = bounds
    return (low is None or value >= low) and (high is None or value <= high)


def batch_filter(filters: Filters, batches: BatchColumns) -> Callable[[int], bool] | None:
    """A test by row of the batch columns; None where every batch is wanted."""
    if not filters.looks_at_batches:
        return None
    codec = None if filters.codec is None else CODEC_NAMES.index(filters.codec)
    formats, attributes = batches.column("format"), batches.column("attributes")
    codecs, producers = batches.column("codec"), batches.column("producer_id")
    positions = batches.column("position")

    def is_wanted(row: int) -> bool:
        flags = attributes[row] if formats[row] == MAGIC_V2 else 0
        return (
            (codec is None or codecs[row] == codec)
            and (filters.producer_id is None or producers[row] == filters.producer_id)
            and (filters.transactional is None or bool(flags & TRANSACTIONAL_BIT) == filters.transactional)
            and (filters.control is None or bool(flags & CONTROL_BIT) == filters.control)
            and _inside(positions[row], filters.positions)
            and _overlaps_offsets(filters.offsets, batches, row)
            and _overlaps_times(filters.times_ms, batches, row)
        )

    return is_wanted


def _overlaps_offsets(bounds: Range, batches: BatchColumns, row: int) -> bool:
    if bounds == ANY:
        return True
    low, high = bounds
    first, last = batches.column("base_offset")[row], batches.column("last_offset")[row]
    if batches.column("format")[row] == FORMAT_V07:
        last = first  # all records of a message are found at its address
    if low is not None and last < low:
        return False
    return high is None or first <= high  # a wrapper's first offset is unknown, -1: it is opened


def _overlaps_times(bounds: Range, batches: BatchColumns, row: int) -> bool:
    """Whether the header lets a batch hold a record in the range."""
    if bounds == ANY:
        return True
    low, high = bounds
    batch_format, newest = batches.column("format")[row], batches.column("max_timestamp_ms")[row]
    if newest < 0 and batch_format != MAGIC_V2:
        return batches.column("codec")[row] != 0 and batch_format == MAGIC_V1
    if (low is not None and newest < low) or high is None or newest <= high:
        return low is None or newest >= low
    if batches.column("attributes")[row] & TIMESTAMP_TYPE_BIT:  # of LogAppendTime all records have the batch's own
        return False
    if batch_format != MAGIC_V2:
        return batches.column("codec")[row] != 0
    count = batches.column("record_count")[row]
    return count > 1 or (count == 1 and _first_time(batches, row) is None) or _starts_inside(bounds, batches, row)


def _first_time(batches: BatchColumns, row: int) -> int | None:
    """Timestamp of the first record of a batch of magic 2; None where the delete horizon stands in its place."""
    horizon = batches.column("attributes")[row] & DELETE_HORIZON_BIT
    first: int = batches.column("base_timestamp_ms")[row]
    return None if horizon else first


def _starts_inside(bounds: Range, batches: BatchColumns, row: int) -> bool:
    first = _first_time(batches, row)
    return batches.column("record_count")[row] > 0 and first is not None and _inside(first, bounds)


def undecided_by_times(bounds: Range, batches: BatchColumns, row: int) -> bool:
    """Of a batch that `batch_filter` lets pass: whether only its records tell if one of them is in the range.

    The header tells the first timestamp and the largest. Where neither is in the range, one between them may be, and
    one older than the first: what stands first in a batch need not be its oldest.
    """
    if bounds == ANY or _inside(batches.column("max_timestamp_ms")[row], bounds):
        return False
    return batches.column("format")[row] != MAGIC_V2 or not _starts_inside(bounds, batches, row)


def has_time_in_range(bounds: Range, records: RecordColumns) -> set[int]:
    """Rows of the batches that hold a record in the range."""
    batches, times = records.column("batch"), records.column("timestamp_ms")
    return {batch for batch, time in zip(batches, times, strict=True) if time >= 0 and _inside(time, bounds)}


def record_selection(filters: Filters, run: RecordRun) -> bytearray | None:
    """A byte a record, 0 for those that are left out; None where all are wanted."""
    if not filters.looks_at_records:
        return None
    records = run.records
    selection = bytearray(b"\x01") * records.count
    if filters.offsets != ANY:
        _drop(selection, [_inside(offset, filters.offsets) for offset in records.column("offset")])
    if filters.times_ms != ANY:
        times = records.column("timestamp_ms")
        _drop(selection, [time >= 0 and _inside(time, filters.times_ms) for time in times])
    if filters.key is not None or filters.patterns or filters.headers:
        for row in range(records.count):
            if selection[row] and not _content_matches(filters, run.memory, records, row):
                selection[row] = 0
    return selection


def _drop(selection: bytearray, wanted: list[bool]) -> None:
    for row, is_wanted in enumerate(wanted):
        if not is_wanted:
            selection[row] = 0


def _content_matches(filters: Filters, memory: memoryview, records: RecordColumns, row: int) -> bool:
    if filters.key is not None:
        key = _span(memory, records, "key", row)
        if key is None or bytes(key) != filters.key:
            return False
    for column, pattern in filters.patterns:
        text = _span(memory, records, column, row)
        if text is None or pattern.search(text) is None:
            return False
    if not filters.headers:
        return True
    found = _headers(memory, records, row)
    return all(any(key == wanted and value in {None, held} for wanted, held in found) for key, value in filters.headers)


def _span(memory: memoryview, records: RecordColumns, name: str, row: int) -> memoryview | None:
    size = records.column(f"{name}_size")[row]
    start = records.column(f"{name}_start")[row]
    return None if size < 0 else memory[start : start + size]


def _headers(memory: memoryview, records: RecordColumns, row: int) -> list[tuple[bytes, bytes | None]]:
    first = records.column("first_header")[row]
    found: list[tuple[bytes, bytes | None]] = []
    for index in range(first, first + records.column("header_count")[row]):
        header = records.headers.row(index)
        key = bytes(memory[header["key_start"] : header["key_start"] + header["key_size"]])
        start, size = header["value_start"], header["value_size"]
        found.append((key, None if size < 0 else bytes(memory[start : start + size])))
    return found
