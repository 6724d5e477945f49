"""Appends to a log: when a broker rolls a new segment, and which index entries it writes (`LogSegment.append`)."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from kafkalog_core.errors import LimitError
from kafkalog_core.format.columns import BATCH_ROWS
from kafkalog_core.format.index import IndexBuilder, first_offset_inside, name_records, offset_of_time
from kafkalog_core.format.layout import MAGIC_V2, MAX_INT32, MAX_INT64
from kafkalog_core.kernels import constants as k
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.kafka.rules.rule_table import AppendRules
    from kafkalog_core.kafka.rules.setting_table import TopicSettings
    from kafkalog_core.storage.scan import Run

__all__ = [
    "AppendLimits",
    "AppendSet",
    "AppendSink",
    "Appender",
    "OpenSegment",
    "Roll",
    "RollReason",
    "limits_of",
    "roll_reason",
]


RollReason = Literal["bytes", "time", "offset-index", "time-index", "offset-range"]
"""Why a new segment begins, in the order in which brokers check (`LogSegment.shouldRoll`)."""


class AppendLimits(Struct, frozen=True, kw_only=True):
    """The settings segment.bytes and .ms, segment.index.bytes, index.interval.bytes, flush.messages and .ms."""

    segment_bytes: int
    segment_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    flush_messages: int = MAX_INT64
    flush_ms: int = MAX_INT64


class OpenSegment(Struct, kw_only=True):
    """The active segment.

    Args:
        base_offset: of the segment.
        indexes: as they grow.
        jitter_ms: what is subtracted from segment.ms for this one.
        created_ms: when it was opened; None: unknown, and where its records have no time it never reaches segment.ms.
        size_bytes: of its log.
        batches: in it.
        first_timestamp_ms: largest timestamp of its first append; -1: none.
        end_offset: after its last batch.
    """

    base_offset: int
    indexes: IndexBuilder
    jitter_ms: int = 0
    created_ms: int | None = None
    size_bytes: int = 0
    batches: int = 0
    first_timestamp_ms: int = -1
    end_offset: int = 0


class AppendSet(NamedTuple):
    """One append call: its bytes, its largest timestamp, its first (-1: unknown) and last offset."""

    size_bytes: int
    max_timestamp_ms: int
    first_offset: int
    last_offset: int


class Roll(NamedTuple):
    """Why a new segment begins, its base offset, and the append that does not fit into the one before."""

    reason: RollReason
    next_base: int
    batch: AppendSet


def roll_reason(
    segment: OpenSegment, batch: AppendSet, limits: AppendLimits, rules: AppendRules, *, now_ms: int | None = None
) -> RollReason | None:
    """Return why a broker rolls a new segment before an append, the first reason in its order; None: it does not.

    `LogSegment.shouldRoll`. `now_ms` None: the time is unknown, so that only records show how old a segment is.
    """
    # strictly above: a set that fills the segment to exactly segment.bytes does not roll it
    added = batch.size_bytes if rules.counts_set else 0
    if segment.size_bytes > limits.segment_bytes - added:
        return "bytes"
    if segment.size_bytes > 0:
        waited = _waited(segment, batch.max_timestamp_ms, rules, now_ms)
        # LogSegment.shouldRoll: timeWaitedForRoll > segment.ms - rollJitterMs, only in a segment with bytes
        if waited is not None and waited > limits.segment_ms - segment.jitter_ms:
            return "time"
    # OffsetIndex.isFull; TimeIndex.isFull keeps one slot for the last entry
    if segment.indexes.is_full:
        return "offset-index" if segment.indexes.is_offset_index_full else "time-index"
    # LogSegment.canConvertToRelativeOffset
    if rules.bounds_offsets and batch.last_offset - segment.base_offset > MAX_INT32:
        return "offset-range"
    return None


def _waited(segment: OpenSegment, max_timestamp_ms: int, rules: AppendRules, now_ms: int | None) -> int | None:
    # LogSegment.timeWaitedForRoll: by the times of records where the first batch has one, else by the clock
    if rules.ages_by_records and segment.first_timestamp_ms >= 0:
        return max_timestamp_ms - segment.first_timestamp_ms
    return None if now_ms is None or segment.created_ms is None else now_ms - segment.created_ms


class AppendSink(Protocol):
    """Receives the segments and batches that an appender produces, in the order of the log."""

    def begin(self, segment: OpenSegment) -> None:
        """Begin a new, empty segment."""

    def append(self, data: memoryview, run: Run, first: int, last: int) -> None:
        """Append rows `first` to `last` (exclusive) of a run to its log. They are valid until the call returns."""

    def end(self, segment: OpenSegment, roll: Roll | None) -> None:
        """End the segment, with closed indexes; without a roll the log ends with it."""

    def flush(self, end_offset: int) -> None:
        """Flush every record below an offset to disk."""


class Appender:
    """Appends to the log of one partition.

    Args:
        sink: receives the segments and batches.
        base_offset: of the first segment.
        limits: settings of the topic.
        rules: of the release.
        jitter: what is subtracted from segment.ms for a segment, by its base offset.
        now_ms: when the first segment is opened; None: unknown.
        segment: the active segment of a log that is continued; None: a new log begins.
        rows: batches that an append call has at most, or that are indexed at a time (`IndexBuilder`).
    """

    def __init__(
        self,
        sink: AppendSink,
        base_offset: int,
        *,
        limits: AppendLimits,
        rules: AppendRules,
        jitter: Callable[[int], int] = lambda _: 0,
        now_ms: int | None = None,
        segment: OpenSegment | None = None,
        rows: int = BATCH_ROWS,
    ) -> None:
        self._sink = sink
        self._rows = rows
        self._limits = limits
        self._rules = rules
        self._jitter = jitter
        self.end_offset = base_offset
        self.recovery_point = base_offset
        self._flushed_ms = now_ms
        if segment is not None:
            self.end_offset = self.recovery_point = segment.end_offset
        self._segment = segment or self._open(base_offset, now_ms)

    @property
    def segment(self) -> OpenSegment:
        """The active segment."""
        return self._segment

    @property
    def segment_bytes(self) -> int:
        """The size of a segment, which is the most that one append call may have."""
        return self._limits.segment_bytes

    def limit(self, limits: AppendLimits) -> None:
        """Change the settings; the indexes of the active segment keep theirs until it is rolled."""
        self._limits = limits

    # --- appends ------------------------------------------------------------------------------------------------------
    def append_batches(self, run: Run, first: int = 0, last: int | None = None, *, now_ms: int | None = None) -> None:
        """Append batches of a run, each as one call. Raises LimitError or FieldError as a broker's append fails.

        A batch that is larger than a segment may be, which a broker would refuse, gets a segment of its own.
        """
        batches = run.batches
        last = batches.count if last is None else last
        starts = list(batches.column("position"))
        while first < last:
            row, reason = self._next_roll(batches, starts, first, last, now_ms)
            if row > first:
                self._write(run, starts, first, row)
            if reason is not None:
                self._roll(reason, self._set(batches, row, row + 1), now_ms)
            first = row

    def append_set(self, run: Run, first: int = 0, last: int | None = None, *, now_ms: int | None = None) -> None:
        """Append batches of a run in one call. Raises LimitError or FieldError as a broker's append fails."""
        batches = run.batches
        last = batches.count if last is None else last
        if first >= last:
            return
        batch = self._set(batches, first, last)
        # UnifiedLog.append throws RecordBatchTooLargeException
        if batch.size_bytes > self._limits.segment_bytes:
            raise LimitError(f"{batch.size_bytes} bytes at once, more than segment.bytes={self._limits.segment_bytes}")
        reason = roll_reason(self._segment, batch, self._limits, self._rules, now_ms=now_ms)
        if reason is not None:
            self._roll(reason, batch, now_ms)
        self._write(run, list(batches.column("position")), first, last, is_set=True)

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log end offset, as a broker does before it deletes the active one."""
        self._roll("time", AppendSet(0, -1, -1, self.end_offset), now_ms)

    def tick(self, now_ms: int) -> None:
        """Flush as a broker does every flush period, where the last flush is flush.ms ago."""
        if self._flushed_ms is None or now_ms - self._flushed_ms >= self._limits.flush_ms:
            self.flush()
            self._flushed_ms = now_ms

    def flush(self) -> None:
        """Flush everything to disk."""
        if self.end_offset > self.recovery_point:
            self._sink.flush(self.end_offset)
            self.recovery_point = self.end_offset

    def close(self) -> None:
        """End the last segment as a clean shutdown does."""
        self._segment.indexes.close()
        self._sink.end(self._segment, None)

    # --- segments -----------------------------------------------------------------------------------------------------
    def _open(self, base_offset: int, now_ms: int | None) -> OpenSegment:
        limits = self._limits
        indexes = IndexBuilder(
            base_offset,
            bits=self._rules.bits,
            interval_bytes=limits.index_interval_bytes,
            max_index_bytes=limits.segment_index_bytes,
            rows=self._rows,
        )
        segment = OpenSegment(
            base_offset=base_offset,
            indexes=indexes,
            jitter_ms=self._jitter(base_offset),
            created_ms=now_ms,
            end_offset=base_offset,
        )
        self._sink.begin(segment)
        return segment

    def _roll(self, reason: RollReason, batch: AppendSet, now_ms: int | None) -> None:
        """Begin the next segment; everything below it is flushed, which brokers do in the background."""
        next_base = self.end_offset
        # UnifiedLog.maybeRoll: max of the log end offset and what the set shows of its first offset
        if self._rules.names_segment == "first" and batch.first_offset >= 0:
            next_base = max(next_base, batch.first_offset)
        elif self._rules.names_segment != "end":
            next_base = max(next_base, batch.last_offset - MAX_INT32)
        self._segment.indexes.close()
        self._sink.end(self._segment, Roll(reason, next_base, batch))
        self.flush()
        self._segment = self._open(next_base, now_ms)

    @staticmethod
    def _set(batches: BatchColumns, first: int, last: int) -> AppendSet:
        """Return what a broker knows of batches before it appends them: old formats do not store their first offset."""
        cell, is_one = batches.cell, last - first == 1
        is_known = cell("format", first) == MAGIC_V2
        return AppendSet(
            cell("position", last - 1) + cell("size_bytes", last - 1) - cell("position", first),
            cell("max_timestamp_ms", first) if is_one else max(batches.column("max_timestamp_ms")[first:last]),
            cell("base_offset", first) if is_known else -1,
            cell("last_offset", last - 1),
        )

    # --- where the next one begins ------------------------------------------------------------------------------------
    def _next_roll(
        self, batches: BatchColumns, starts: list[int], first: int, last: int, now_ms: int | None
    ) -> tuple[int, RollReason | None]:
        """Return the first row that does not fit into this segment, and why; or one up to which all do.

        The result is that of `roll_reason` for each row, which a property test proves; rows that cannot be the first
        one are skipped in bulk.
        """
        segment, limits, rules = self._segment, self._limits, self._rules
        room = limits.segment_bytes - segment.size_bytes
        ends = self._row_behind(batches, starts, first, last, room)
        ends = min(ends, first + max(segment.indexes.room, 0))
        if rules.bounds_offsets:
            ends = min(ends, bisect_right(batches.column("last_offset"), segment.base_offset + MAX_INT32, first, last))
        ends = self._row_too_late(batches, first, ends, now_ms)
        if ends >= last:
            return last, None
        if not segment.size_bytes and ends == first:  # an empty segment is not rolled
            is_beyond = rules.bounds_offsets and batches.column("last_offset")[first] - segment.base_offset > MAX_INT32
            return (first, "offset-range") if is_beyond else (first + 1, None)
        return ends, self._reason_at(batches, starts, first, ends, now_ms)

    def _row_behind(self, batches: BatchColumns, starts: list[int], first: int, last: int, room: int) -> int:
        """Return the first row that does not fit into segment.bytes."""
        if not self._rules.counts_set:
            return bisect_right(starts, starts[first] + room, first, last)
        row = bisect_right(starts, starts[first] + room, first, last) - 1
        while row < last and starts[row] + batches.column("size_bytes")[row] - starts[first] <= room:
            row += 1
        return max(row, first)

    def _row_too_late(self, batches: BatchColumns, first: int, last: int, now_ms: int | None) -> int:
        """Return the first row that is later than segment.ms allows."""
        segment, times = self._segment, batches.column("max_timestamp_ms")
        begun = segment.first_timestamp_ms
        row = first
        if not segment.size_bytes:
            begun = times[first]
            row += 1
        span = self._limits.segment_ms - segment.jitter_ms
        if not self._rules.ages_by_records or begun < 0:
            is_old = now_ms is not None and segment.created_ms is not None and now_ms - segment.created_ms > span
            return min(row, last) if is_old else last
        latest = begun + span
        if row < last and max(times[row:last]) > latest:
            return next(each for each in range(row, last) if times[each] > latest)
        return last

    def _reason_at(
        self, batches: BatchColumns, starts: list[int], first: int, row: int, now_ms: int | None
    ) -> RollReason | None:
        """Return why a row begins a new segment, with those before it appended; None: the indexes have room for it."""
        if row > first and self._segment.indexes.room <= row - first:
            return None  # how many entries they get is known only when they are appended
        segment = self._segment
        seen = OpenSegment(
            base_offset=segment.base_offset,
            indexes=segment.indexes,
            jitter_ms=segment.jitter_ms,
            created_ms=segment.created_ms,
            size_bytes=segment.size_bytes + starts[row] - starts[first],
            first_timestamp_ms=segment.first_timestamp_ms
            if segment.size_bytes
            else batches.column("max_timestamp_ms")[first],
        )
        return roll_reason(seen, self._set(batches, row, row + 1), self._limits, self._rules, now_ms=now_ms)

    # --- bytes and indexes --------------------------------------------------------------------------------------------
    def _write(self, run: Run, starts: list[int], first: int, last: int, *, is_set: bool = False) -> None:
        """Append rows to the segment: first to the sink, as a broker does, then to the indexes."""
        segment, batches = self._segment, run.batches
        size_bytes = starts[last - 1] + batches.cell("size_bytes", last - 1) - starts[first]
        begin = starts[first] - (starts[0] if run.begins is None else run.begins)
        self._sink.append(run.memory[begin : begin + size_bytes], run, first, last)
        if not segment.size_bytes:
            times = batches.column("max_timestamp_ms")
            # up to 3.8 LogSegment.rollingBasedTimestamp is the largest timestamp of the first append call
            segment.first_timestamp_ms = (
                max(times[first:last]) if is_set and self._rules.indexes_calls else times[first]
            )
        positions = batches.column("position")[first:last]
        if last - first == 1:
            positions[0] = segment.size_bytes
        else:
            sizes = batches.column("size_bytes")[first : last - 1]
            positions[:] = array("q", accumulate(sizes, initial=segment.size_bytes))
        if is_set and self._rules.indexes_calls and last - first > 1:
            self._index_set(run, first, last)
        else:
            self._index(run, first, last)
        positions[:] = array("q", starts[first:last])
        segment.size_bytes += size_bytes
        segment.batches += last - first
        self.end_offset = segment.end_offset = batches.cell("last_offset", last - 1) + 1
        # UnifiedLog.append flushes after flush.messages unflushed messages
        if self.end_offset - self.recovery_point >= self._limits.flush_messages:
            self.flush()

    def _index(self, run: Run, first: int, last: int) -> None:
        indexes, first_offset = self._segment.indexes, None
        times = len(indexes.time_index)
        row = first
        while True:
            row, stop = indexes.advance(run.batches, row, last, first_offset=first_offset)
            if stop != k.REBUILD_FIRST:
                break
            first_offset = first_offset_inside(run.memory, run.batches, row)
        indexes.check(stop, run.batches, row)
        if self._rules.names_record:
            name_records(indexes, run.memory, run.batches, first, last, times_before=times)

    def _index_set(self, run: Run, first: int, last: int) -> None:
        batches, indexes = run.batches, self._segment.indexes
        times = batches.column("max_timestamp_ms")
        latest = max(times[first:last])
        row = next(each for each in range(first, last) if times[each] == latest)
        names_record = self._rules.names_record
        indexes.add_set(
            position=batches.column("position")[first],
            first_offset=first_offset_inside(run.memory, batches, first),
            last_offset=batches.column("last_offset")[last - 1],
            max_timestamp_ms=latest,
            offset_of_max=offset_of_time(run.memory, batches, row)
            if names_record
            else batches.column("last_offset")[row],
        )


def limits_of(settings: TopicSettings) -> AppendLimits:
    """Return the settings for appends; max.compaction.lag.ms limits segment.ms of a compacted topic."""
    is_compacted = "compact" in settings.cleanup_policy
    lag_ms = settings.max_compaction_lag_ms if is_compacted else settings.segment_ms
    return AppendLimits(
        segment_bytes=settings.segment_bytes,
        segment_ms=min(settings.segment_ms, lag_ms),
        segment_index_bytes=settings.segment_index_bytes,
        index_interval_bytes=settings.index_interval_bytes,
        flush_messages=settings.flush_messages,
        flush_ms=settings.flush_ms,
    )
