"""Marks of the rows that an expression selects: a byte for each batch or record, made by kernels.

What cannot be selected never becomes an object: records are excluded by their columns and by searches for literals in
their bytes. Only for the rest, or where an expression requires no literal, is a regular expression tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core import kernels
from kafkalog_core.filters.expression import ANY, ContentCondition, Filters, Range
from kafkalog_core.format.columns import FORMAT_V07
from kafkalog_core.format.layout import CODEC_NAMES, CONTROL_BIT, MAX_INT64, TRANSACTIONAL_BIT
from kafkalog_core.kernels import constants as k
from kafkalog_core.kernels.programs import WANTS_HEADERS, WANTS_KEY, WANTS_VALUE

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

    from kafkalog_core.format.columns import BatchColumns, RecordColumns
    from kafkalog_core.format.decode import RecordRun

__all__ = ["batch_marks", "batches_in_times", "content_marks", "range_marks", "undecided"]

_ONE: Final = b"\x01"
_UNDECIDED: Final = bytes(bool(mark & k.MARK_UNDECIDED) for mark in range(256))
_DECIDED: Final = bytes(bool(mark) for mark in range(256))


# --- batches ----------------------------------------------------------------------------------------------------------
def batch_marks(filters: Filters, batches: BatchColumns) -> bytearray | None:
    """Return the marks of the batches that the expression may select, by their headers; None: of all of them.

    Marks other than 1 are of batches whose records decide; see `undecided`.
    """
    if not filters.looks_at_batches:
        return None
    marks = bytearray(_ONE) * batches.count
    if filters.codec is not None:
        codec = CODEC_NAMES.index(filters.codec)
        kernels.keep_within(batches, k.B_CODEC, codec, codec, marks)
    if filters.producer_id is not None:
        kernels.keep_within(batches, k.B_PID, filters.producer_id, filters.producer_id, marks)
    for bits, is_set in ((TRANSACTIONAL_BIT, filters.transactional), (CONTROL_BIT, filters.control)):
        if is_set is not None:
            kernels.keep_bits(batches, bits, is_set, marks)
    if filters.positions != ANY:
        kernels.keep_within(batches, k.B_POSITION, *_limits(filters.positions), marks)
    if filters.offsets != ANY and batches.count:
        low, high = _limits(filters.offsets)
        # The records of a compressed message of 0.7 have its address. The first offset of a wrapper is unknown, -1: the
        # wrapper is opened.
        is_v07 = batches.column("format")[0] == FORMAT_V07
        kernels.keep_within(batches, k.B_BASE_OFFSET if is_v07 else k.B_LAST_OFFSET, low, MAX_INT64, marks)
        kernels.keep_within(batches, k.B_BASE_OFFSET, -MAX_INT64 - 1, high, marks)
    if filters.times_ms != ANY:
        kernels.keep_times(batches, *_limits(filters.times_ms), marks)
    return marks


def undecided(marks: bytearray) -> tuple[bytearray, bytearray]:
    """Return plain marks, and those of the batches whose headers do not show whether a timestamp is in the range."""
    return marks.translate(_DECIDED), marks.translate(_UNDECIDED)


def batches_in_times(bounds: Range, records: RecordColumns) -> set[int]:
    """Return the rows of the batches that contain a record in the range."""
    marks = bytearray(_ONE) * records.count
    _keep_times(bounds, records, marks)
    return {batch for batch, mark in zip(records.column("batch"), marks, strict=True) if mark}


def _limits(bounds: Range) -> tuple[int, int]:
    low, high = bounds
    least, most = -MAX_INT64 - 1, MAX_INT64
    return least if low is None else max(low, least), most if high is None else min(high, most)


# --- records ----------------------------------------------------------------------------------------------------------
def range_marks(filters: Filters, records: RecordColumns) -> bytearray | None:
    """Return the marks of the records in the ranges of offsets and times; None: of all of them."""
    if filters.offsets == ANY and filters.times_ms == ANY:
        return None
    marks = bytearray(_ONE) * records.count
    if filters.offsets != ANY:
        kernels.keep_within(records, k.R_OFFSET, *_limits(filters.offsets), marks)
    if filters.times_ms != ANY:
        _keep_times(filters.times_ms, records, marks)
    return marks


def _keep_times(bounds: Range, records: RecordColumns, marks: bytearray) -> None:
    low, high = _limits(bounds)
    kernels.keep_within(records, k.R_TIME, max(low, 0), high, marks)  # -1: the record has no timestamp


def content_marks(filters: Filters, run: RecordRun, among: bytearray | None) -> bytearray | None:
    """Return the marks of the records whose keys, values and headers are selected; None: of all of them.

    `among`: the marks of the records that are looked at; None: of all of them. It is not changed.
    """
    if not filters.looks_at_content:
        return None
    marks = bytearray(_ONE) * run.records.count if among is None else bytearray(among)
    _keep_content(filters, run, marks)
    if not filters.inverted:
        return marks
    if among is None:
        return bytearray(not mark for mark in marks)
    return bytearray(is_asked and not mark for is_asked, mark in zip(among, marks, strict=True))


def _keep_content(filters: Filters, run: RecordRun, marks: bytearray) -> None:
    """Clear the marks of records that do not meet a condition: the cheap conditions first, until none is left."""
    memory, records = run.memory, run.records
    for part, text in filters.exact:
        if not kernels.keep_equal(memory, records, _FIELDS[part], text, marks):
            return
    for key, value in filters.headers:
        if not kernels.keep_header(memory, records, key, value, marks):
            return
    for content in filters.content:
        wanted = sum(_WANTED[part] for part in content.parts)
        for literals in content.literals:
            if not kernels.keep_holding(memory, records, wanted, literals, marks):
                return
    for content in filters.content:
        if content.pattern is not None:
            _keep_matching(content, content.pattern, run, marks)


def _keep_matching(content: ContentCondition, pattern: re.Pattern[bytes], run: RecordRun, marks: bytearray) -> None:
    """Clear the marks of records in none of whose parts the pattern matches."""
    if content.parts[0] in _FIELDS and len(content.parts) == 1 and 2 * marks.count(1) > len(marks):
        _keep_matching_fields(content.parts[0], content, pattern, run, marks)
        return
    row = marks.find(1)
    while row >= 0:
        if not any(pattern.search(text) is not None for text in _texts(content.parts, run, row)):
            marks[row] = 0
        row = marks.find(1, row + 1)


def _keep_matching_fields(
    name: str, content: ContentCondition, pattern: re.Pattern[bytes], run: RecordRun, marks: bytearray
) -> None:
    """Do the same for all keys or all values: where the pattern allows it, as they are in the buffer, not cut out."""
    memory, search = run.memory, pattern.search
    spans = zip(marks, run.records.column(f"{name}_start"), run.records.column(f"{name}_size"), strict=True)
    if content.sees_its_place:
        marks[:] = [
            1 if mark and size >= 0 and search(memory[start : start + size]) is not None else 0
            for mark, start, size in spans
        ]
    else:
        marks[:] = [
            1 if mark and size >= 0 and search(memory, start, start + size) is not None else 0
            for mark, start, size in spans
        ]


_FIELDS: Final = {"key": k.R_KEY, "value": k.R_VALUE}
_WANTED: Final = {"key": WANTS_KEY, "value": WANTS_VALUE, "headers": WANTS_HEADERS}


def _texts(parts: Iterable[str], run: RecordRun, row: int) -> Iterator[memoryview]:
    """Yield the parts of a record that are not null."""
    records = run.records
    for part in parts:
        if part in _FIELDS:
            yield from _text(run.memory, records.column(f"{part}_start")[row], records.column(f"{part}_size")[row])
            continue
        first = records.column("first_header")[row]
        for index in range(first, first + records.column("header_count")[row]):
            header = records.headers.row(index)
            yield from _text(run.memory, header["key_start"], header["key_size"])
            yield from _text(run.memory, header["value_start"], header["value_size"])


def _text(memory: memoryview, start: int, size: int) -> Iterator[memoryview]:
    if size >= 0:
        yield memory[start : start + size]
