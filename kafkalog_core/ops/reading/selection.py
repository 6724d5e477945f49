"""Selections from a command line: which partitions, which batches and records, and how ranges and times are written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
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
    from collections.abc import Callable, Iterable

    from kafkalog_core.format.columns import BatchColumns, RecordColumns
    from kafkalog_core.format.decode import RecordRun

__all__ = [
    "ANY",
    "Filters",
    "Range",
    "Selection",
    "batch_filter",
    "describe_topics",
    "has_time_in_range",
    "parse_range",
    "parse_size",
    "parse_time_ms",
    "parse_times",
    "record_selection",
    "undecided_by_times",
    "whole_number",
]


_NAMES_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The partitions of the targets that are selected.

    `topics` and `excludes` are globs that respect case; `topic_regex` must match the whole name, as in Kafka's own
    tools. All given conditions must hold; without any, everything is selected. A file that is not a partition's is
    selected only if no topic or partition is given.
    """

    topics: tuple[str, ...] = ()
    topic_regex: str | None = None
    excludes: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether no condition is given."""
        return not (self.topics or self.topic_regex is not None or self.excludes or self.partitions)

    def takes(self, topic: str | None, partition: int | None) -> bool:
        """Return whether a partition is selected. Raises SelectionError if the pattern is not a regular expression."""
        if self.partitions and partition not in self.partitions:
            return False
        if topic is None:
            return not self.topics and self.topic_regex is None
        if any(fnmatchcase(topic, pattern) for pattern in self.excludes):
            return False
        if self.topics and not any(fnmatchcase(topic, pattern) for pattern in self.topics):
            return False
        return self._regex_matches(topic)

    def _regex_matches(self, topic: str) -> bool:
        if self.topic_regex is None:
            return True
        try:
            return re.fullmatch(self.topic_regex, topic) is not None
        except re.error as error:
            raise SelectionError(f"topic pattern {self.topic_regex!r} is not a regular expression: {error}") from error

    def __str__(self) -> str:
        parts = [f"topic {topic!r}" for topic in self.topics]
        parts += [] if self.topic_regex is None else [f"topic pattern {self.topic_regex!r}"]
        parts += [f"a topic other than {pattern!r}" for pattern in self.excludes]
        parts += [f"partition {number}" for number in self.partitions]
        return ", ".join(parts)


def describe_topics(partitions: Iterable[tuple[str | None, int | None]]) -> str:
    """Return a clause with the topics and their partition numbers: `there are orders (0-3, 7)`."""
    topics: dict[str, set[int]] = {}
    for topic, partition in partitions:
        if topic is not None and partition is not None:
            topics.setdefault(topic, set()).add(partition)
    if not topics:
        return "no partition was named"
    shown = [f"{topic} ({_ranges(topics[topic])})" for topic in sorted(topics)[:_NAMES_SHOWN]]
    more = f" and {len(topics) - _NAMES_SHOWN} more topics" if len(topics) > _NAMES_SHOWN else ""
    return f"there are {', '.join(shown)}{more}"


def _ranges(numbers: Iterable[int]) -> str:
    """Return numbers as ranges: `0-3, 7` for 0, 1, 2, 3, 7."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [f"{first}" if first == last else f"{first}-{last}" for first, last in runs[:_NAMES_SHOWN]]
    return ", ".join(texts) + (f" and {len(runs) - _NAMES_SHOWN} more" if len(runs) > _NAMES_SHOWN else "")


Range = tuple[int | None, int | None]
ANY: Final[Range] = (None, None)


@dataclass(frozen=True, kw_only=True)
class Filters:
    """The batches and records that are selected; ranges include both ends, None is open. By default all are.

    Args:
        offsets: Kafka offsets (0.7: byte addresses).
        positions: bytes of the file at which batches start.
        times_ms: timestamps in ms; a record without one is never in a range. A batch is in the range if one of its
            records is; a batch without records if its largest timestamp is.
        key: the exact key.
        key_regex: pattern searched in the key, as bytes of UTF-8.
        value_regex: the same for the value.
        headers: (key, value) pairs that a record must all have; value None means any.
        producer_id: producer id of the batch.
        transactional: attribute bit 4; False in formats that lack it.
        control: attribute bit 5; False in formats that lack it.
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
        """Columns and their compiled patterns. Raises SelectionError for a pattern that is not a regular expression."""
        found = []
        for column, pattern in (("key", self.key_regex), ("value", self.value_regex)):
            if pattern is not None:
                try:
                    found.append((column, re.compile(pattern.encode("utf-8", "surrogateescape"))))
                except re.error as error:
                    raise SelectionError(f"{pattern!r} is not a regular expression: {error}") from error
        return tuple(found)

    def check(self) -> None:
        """Raise SelectionError for a pattern or a codec that is not valid."""
        _ = self.patterns
        if self.codec is not None and self.codec not in CODEC_NAMES:
            raise SelectionError(f"{self.codec!r} is not a codec of Kafka: {', '.join(CODEC_NAMES)}")

    @property
    def looks_at_batches(self) -> bool:
        """Whether a batch can be skipped by its header."""
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
    """Return a test for rows of the batch columns; None: every batch is selected."""
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
        last = first  # the records of a compressed message have its address
    if low is not None and last < low:
        return False
    return high is None or first <= high  # the first offset of a wrapper is unknown, -1: the wrapper is opened


def _overlaps_times(bounds: Range, batches: BatchColumns, row: int) -> bool:
    """Return whether a batch may contain a record in the range, by its header."""
    if bounds == ANY:
        return True
    low, high = bounds
    batch_format, newest = batches.column("format")[row], batches.column("max_timestamp_ms")[row]
    if newest < 0 and batch_format != MAGIC_V2:
        return batches.column("codec")[row] != 0 and batch_format == MAGIC_V1
    if (low is not None and newest < low) or high is None or newest <= high:
        return low is None or newest >= low
    if batches.column("attributes")[row] & TIMESTAMP_TYPE_BIT:  # LogAppendTime: all records have the batch's timestamp
        return False
    if batch_format != MAGIC_V2:
        return batches.column("codec")[row] != 0
    count = batches.column("record_count")[row]
    return count > 1 or (count == 1 and _first_time(batches, row) is None) or _starts_inside(bounds, batches, row)


def _first_time(batches: BatchColumns, row: int) -> int | None:
    """Return the timestamp of the first record of a batch of magic 2; None: the header has the delete horizon."""
    horizon = batches.column("attributes")[row] & DELETE_HORIZON_BIT
    first: int = batches.column("base_timestamp_ms")[row]
    return None if horizon else first


def _starts_inside(bounds: Range, batches: BatchColumns, row: int) -> bool:
    first = _first_time(batches, row)
    return batches.column("record_count")[row] > 0 and first is not None and _inside(first, bounds)


def undecided_by_times(bounds: Range, batches: BatchColumns, row: int) -> bool:
    """Return whether only the records of a batch that `batch_filter` selects show if one of them is in the range.

    The header has the first timestamp and the largest. If neither is in the range, one between them may be, or one
    older than the first: the first record of a batch is not always its oldest.
    """
    if bounds == ANY or _inside(batches.column("max_timestamp_ms")[row], bounds):
        return False
    return batches.column("format")[row] != MAGIC_V2 or not _starts_inside(bounds, batches, row)


def has_time_in_range(bounds: Range, records: RecordColumns) -> set[int]:
    """Return the rows of the batches that contain a record in the range."""
    batches, times = records.column("batch"), records.column("timestamp_ms")
    return {batch for batch, time in zip(batches, times, strict=True) if time >= 0 and _inside(time, bounds)}


def record_selection(filters: Filters, run: RecordRun) -> bytearray | None:
    """Return a byte for each record, 0 for those that are left out; None: all are selected."""
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


_MAX_INT64: Final = 2**63 - 1
_SIZE: Final = re.compile(r"(\d+)\s*(?:([kmgt])(i?b)?|b)?", re.IGNORECASE)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MIN_PLAIN_MS: Final = 10**11  # 1973-03-03: a smaller number is rather seconds, or a date without dashes
_MIN_SECONDS: Final = 10**8  # 1973-03-03, as seconds
_DATE_DIGITS: Final = (4, 6, 8)  # of 2025, 202510, 20251009
_ONE_DAY: Final = timedelta(days=1)


def parse_size(text: str) -> int:
    """Return the bytes of `4096`, `64k`, `64KiB` or `64kB`: powers of 1024, with `kB` of 1000."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise SelectionError(f"{text!r} is not a size; write bytes as 1048576, 1m or 1MiB (1024^2), or 1MB (1000^2)")
    power = "kmgt".find(match[2].lower()) + 1 if match[2] else 0
    base = 1000 if (match[3] or "").lower() == "b" else 1024
    size_bytes: int = int(match[1]) * base**power
    if not 0 < size_bytes <= _MAX_INT64:
        raise SelectionError(f"{text!r} is out of range: 1 byte to 2^63-1")
    return size_bytes


def parse_range(text: str) -> Range:
    """Return the range of `A..B`, `A..`, `..B` or `A` alone; both ends are included."""
    return _range(text, whole_number, whole_number)


def parse_times(text: str) -> Range:
    """Return a range of epoch milliseconds or ISO 8601 times; a last day without a time of day is included whole."""
    return _range(text, parse_time_ms, lambda last: parse_time_ms(last, end_of_day=True))


def parse_time_ms(text: str, *, end_of_day: bool = False) -> int:
    """Return the epoch milliseconds of a time: all digits are milliseconds, else it is ISO 8601, by default in UTC.

    Digits before 1973-03-03 are refused: they are more likely a date without dashes, or seconds.
    """
    stripped = text.strip()
    if stripped.isascii() and stripped.isdigit():
        time_ms = whole_number(stripped)
        if time_ms < _MIN_PLAIN_MS:
            raise SelectionError(_two_readings(stripped, time_ms))
        return time_ms
    try:
        moment = datetime.fromisoformat(stripped)
    except ValueError:
        raise SelectionError(
            f"{text!r} is not a time; write 2024-05-01, 2024-05-01T12:00:00.500, 2024-05-01T12:00+02:00, "
            "or milliseconds since 1970"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    time_ms = (moment - _EPOCH) // timedelta(milliseconds=1)
    names_a_day_alone = end_of_day and ":" not in stripped and "T" not in stripped.upper()
    return time_ms + _ONE_DAY // timedelta(milliseconds=1) - 1 if names_a_day_alone else time_ms


def _two_readings(text: str, time_ms: int) -> str:
    """Return why a small number is refused: the times that it may mean, each as it should be written."""
    as_ms = (_EPOCH + timedelta(milliseconds=time_ms)).replace(tzinfo=None).isoformat(timespec="milliseconds")
    readings = [f"{as_ms} ({text} milliseconds after the start of 1970)"]
    date = "-".join(part for part in (text[:4], text[4:6], text[6:]) if part)
    first_day = date + "-01-01"[len(date) - 4 :]
    if len(text) in _DATE_DIGITS and _is_day(first_day):
        readings.insert(0, f"{first_day} (if {date} was meant)")
    elif time_ms >= _MIN_SECONDS:
        as_seconds = (_EPOCH + timedelta(seconds=time_ms)).replace(tzinfo=None).isoformat()
        readings.insert(0, f"{as_seconds} (if seconds were meant)")
    return f"{text!r} is ambiguous; write {' or '.join(readings)}"


def _is_day(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _range(text: str, first_of: Callable[[str], int], last_of: Callable[[str], int]) -> Range:
    first_text, dots, last_text = text.strip().partition("..")
    if not dots:
        last_text = first_text
    first = first_of(first_text) if first_text else None
    last = last_of(last_text) if last_text else None
    if first is None and last is None:
        raise SelectionError(f"{text!r} is not a range; write A..B, A.. or ..B, both ends included")
    if first is not None and last is not None and first > last:
        raise SelectionError(f"{text!r} is empty: its end is before its start")
    return first, last


def whole_number(text: str) -> int:
    """Return a number from 0 to 2^63-1; `_` may separate digits. Raises SelectionError, as all of these do."""
    digits = text.strip().replace("_", "")
    if not (digits.isascii() and digits.isdigit()) or int(digits) > _MAX_INT64:
        raise SelectionError(f"{text!r} is not a whole number from 0 to 2^63-1; a range is written A..B, A.. or ..B")
    return int(digits)
