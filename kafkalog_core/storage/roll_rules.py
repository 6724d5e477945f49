"""When a broker starts a new segment: the rules, settings and figures that it goes by, and its order of questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from kafkalog_core.format.kernels.constants import REBUILD_TIMES
from kafkalog_core.format.layout import MAX_INT32, MAX_INT64

if TYPE_CHECKING:
    from kafkalog_core.format.index_builder import IndexBuilder

__all__ = ["AppendLimits", "AppendRules", "AppendSet", "OpenSegment", "Roll", "RollReason", "roll_reason"]

RollReason = Literal["bytes", "time", "offset-index", "time-index", "offset-range"]
"""Why a new segment begins, in the order in which brokers ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRules:
    """What a release does when it appends.

    Args:
        bits: of its indexes, REBUILD_LAST to REBUILD_RANGE.
        counts_set: the bytes that are being appended count with those that are there; 0.8.0 compares what is there.
        ages_by_records: a segment is as old as timestamps say, once its first batch has one; else by the wall clock.
        bounds_offsets: offsets that no index of the segment can hold start a new one.
        names_segment: after the first offset appended, the end of the log, or what is between them in 0.11 and 1.x.
        indexes_calls: the indexes look at a whole append call as if it were one batch.
        names_record: a time entry has the offset of the very record, where a batch is not compressed.
    """

    bits: int
    counts_set: bool
    ages_by_records: bool
    bounds_offsets: bool
    names_segment: Literal["first", "bounded", "end"]
    indexes_calls: bool
    names_record: bool

    @property
    def has_time_index(self) -> bool:
        """Whether there is a time index."""
        return bool(self.bits & REBUILD_TIMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendLimits:
    """Settings that count: segment.bytes and .ms, segment.index.bytes, index.interval.bytes, flush.messages and .ms."""

    segment_bytes: int
    segment_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    flush_messages: int = MAX_INT64
    flush_ms: int = MAX_INT64


@dataclass(slots=True, kw_only=True)
class OpenSegment:
    """The segment that is appended to.

    Args:
        base_offset: of the segment.
        indexes: as they grow.
        jitter_ms: what is taken off segment.ms for this one.
        created_ms: when it was opened; null: nobody knows, and where its records have no time it never grows old.
        size_bytes: of its log.
        batches: in it.
        first_timestamp_ms: largest timestamp of its first append; -1: none.
        end_offset: behind its last batch.
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
    """What one append call brings: its bytes, its largest timestamp, its first (-1: unknown) and last offset."""

    size_bytes: int
    max_timestamp_ms: int
    first_offset: int
    last_offset: int


class Roll(NamedTuple):
    """Why a new segment begins, its base offset, and the append that does not go into the one before."""

    reason: RollReason
    next_base: int
    batch: AppendSet


def roll_reason(
    segment: OpenSegment, batch: AppendSet, limits: AppendLimits, rules: AppendRules, *, now_ms: int | None = None
) -> RollReason | None:
    """Why a broker starts a new segment before an append, the first reason in its order; null: it does not.

    `LogSegment.shouldRoll`. `now_ms` null: nobody knows the time, so that only records tell how old a segment is.
    """
    added = batch.size_bytes if rules.counts_set else 0
    if segment.size_bytes > limits.segment_bytes - added:
        return "bytes"
    if segment.size_bytes > 0:
        waited = _waited(segment, batch.max_timestamp_ms, rules, now_ms)
        if waited is not None and waited > limits.segment_ms - segment.jitter_ms:
            return "time"
    if segment.indexes.is_full:
        return "offset-index" if segment.indexes.is_offset_index_full else "time-index"
    if rules.bounds_offsets and batch.last_offset - segment.base_offset > MAX_INT32:
        return "offset-range"
    return None


def _waited(segment: OpenSegment, max_timestamp_ms: int, rules: AppendRules, now_ms: int | None) -> int | None:
    if rules.ages_by_records and segment.first_timestamp_ms >= 0:
        return max_timestamp_ms - segment.first_timestamp_ms
    return None if now_ms is None or segment.created_ms is None else now_ms - segment.created_ms
