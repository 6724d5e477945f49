"""Where a log begins new segments when its batches are appended again, one after another."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.layout import MAX_INT32
from kafkalog_core.storage.append import Appender
from kafkalog_core.storage.roll_rules import AppendLimits
from kafkalog_core.words import duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.ops.releases.setting_values import TopicSettings
    from kafkalog_core.storage.append import Sink
    from kafkalog_core.storage.items import Run
    from kafkalog_core.storage.roll_rules import AppendRules, OpenSegment, Roll

__all__ = ["Course", "RolledSegment", "limits_of", "seeded_jitter"]

_SEED_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledSegment:
    """A segment that would be there.

    Args:
        base_offset: of the segment.
        next_offset: base offset of the next one; of the last one the end of the log.
        size_bytes: of its log.
        batches: in it.
        first_timestamp_ms: largest timestamp of its first batch; -1: none.
        max_timestamp_ms: the largest; -1: none.
        entries: of the offset and of the time index.
        jitter_ms: what is taken off segment.ms.
        roll: why the next one begins; null: the log ends.
        detail: the figures that were compared, a sentence without its point.
    """

    base_offset: int
    next_offset: int
    size_bytes: int
    batches: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    entries: tuple[int, int]
    jitter_ms: int
    roll: Roll | None
    detail: str


def limits_of(settings: TopicSettings) -> AppendLimits:
    """The settings that count for appends; a compacted topic's segments grow no older than its compaction lag."""
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


def seeded_jitter(settings: TopicSettings, name: str, seed: int) -> Callable[[int], int]:
    """What is taken off segment.ms for a segment, by its base offset: as if drawn, and the same for the same seed."""
    most = min(settings.segment_jitter_ms, settings.segment_ms)

    def jitter(base_offset: int) -> int:
        digest = hashlib.sha256(f"{seed} {name} {base_offset}".encode()).digest()
        return (int.from_bytes(digest[:_SEED_BYTES]) & MAX_INT32) % most if most > 0 else 0

    return jitter


@dataclass(slots=True, kw_only=True)
class Course:
    """Takes the batches of a log in their order, and knows in the end which segments there would be.

    Args:
        limits: settings of the topic.
        rules: of the release.
        sink: gets what is appended too; null: nobody.
        segments: that are complete.
        oversized: batches larger than a segment may be.
        records: counted by the batch headers.
        uncounted: batches that do not say how many they have.
    """

    limits: AppendLimits
    rules: AppendRules
    sink: Sink | None = None
    segments: list[RolledSegment] = field(default_factory=list)
    oversized: int = 0
    records: int = 0
    uncounted: int = 0
    _appender: Appender | None = None

    def begin(self, base_offset: int, jitter: Callable[[int], int]) -> None:
        """The log starts here."""
        self._appender = Appender(_Listener(self), base_offset, limits=self.limits, rules=self.rules, jitter=jitter)

    def append(self, run: Run) -> None:
        """Go on with a run. Raises LimitError or FieldError for batches that no broker appends in this order."""
        if self._appender is not None:
            counts = run.batches.column("record_count")
            uncounted = 0 if min(counts, default=0) >= 0 else sum(count < 0 for count in counts)
            self.records += sum(counts) + uncounted  # compressed messages count as -1
            self.uncounted += uncounted
            sizes = run.batches.column("size_bytes")
            if max(sizes, default=0) > self.limits.segment_bytes:
                self.oversized += sum(size > self.limits.segment_bytes for size in sizes)
            self._appender.append_batches(run)

    def end(self) -> None:
        """The log ends here. Raises FieldError."""
        if self._appender is not None:
            self._appender.close()

    @property
    def end_offset(self) -> int:
        """Behind the last batch."""
        return 0 if self._appender is None else self._appender.end_offset

    @property
    def rolls(self) -> dict[str, int]:
        """New segments by reason."""
        return dict(Counter(segment.roll.reason for segment in self.segments if segment.roll is not None))


class _Listener:
    """Keeps what a segment was, and lets the sink of the course do its work."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._sink = course.sink

    def begin(self, segment: OpenSegment) -> None:
        """A new segment."""
        if self._sink is not None:
            self._sink.begin(segment)

    def append(self, data: memoryview, run: Run, first: int, last: int) -> None:
        """More of its log."""
        if self._sink is not None:
            self._sink.append(data, run, first, last)

    def end(self, segment: OpenSegment, roll: Roll | None) -> None:
        """It is complete."""
        course = self._course
        course.segments.append(
            RolledSegment(
                base_offset=segment.base_offset,
                next_offset=segment.end_offset if roll is None else roll.next_base,
                size_bytes=segment.size_bytes,
                batches=segment.batches,
                first_timestamp_ms=segment.first_timestamp_ms,
                max_timestamp_ms=segment.indexes.max_timestamp_ms,
                entries=segment.indexes.entries,
                jitter_ms=segment.jitter_ms,
                roll=roll,
                detail=_detail(segment, roll, course.limits, course.rules),
            )
        )
        if self._sink is not None:
            self._sink.end(segment, roll)

    def flush(self, end_offset: int) -> None:
        """Bring it to the disk."""
        if self._sink is not None:
            self._sink.flush(end_offset)


def _detail(segment: OpenSegment, roll: Roll | None, limits: AppendLimits, rules: AppendRules) -> str:
    """The figures that were compared, short enough for a line of a table."""
    if roll is None:
        return "the log ends here"
    reason, batch = roll.reason, roll.batch
    if reason == "bytes":
        added = f" + {batch.size_bytes} of the next batch" if rules.counts_set else ""
        return f"{segment.size_bytes}{added} > segment.bytes={limits.segment_bytes}"
    if reason == "time":
        waited = duration(batch.max_timestamp_ms - segment.first_timestamp_ms)
        jitter = f" - {segment.jitter_ms} of jitter" if segment.jitter_ms else ""
        return f"next batch {waited} after the first > segment.ms={limits.segment_ms}{jitter}"
    if reason == "offset-range":
        return f"next batch ends at {batch.last_offset}, over 2^31-1 above the base"
    count = segment.indexes.entries[reason == "time-index"]
    return f"{count} entries: it is full at segment.index.bytes={limits.segment_index_bytes}"
