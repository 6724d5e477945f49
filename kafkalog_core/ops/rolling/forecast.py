"""What rolling makes of one partition: its course, and the rows and findings that tell it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core import roll_tables, tables
from kafkalog_core.errors import AccessError, FormatError, NotFoundError
from kafkalog_core.ops.reading.rows import RowChunk
from kafkalog_core.ops.rolling.course import Course, limits_of, seeded_jitter
from kafkalog_core.ops.rolling.reading import LogDamage, log_runs
from kafkalog_core.ops.rolling.rules import append_rules
from kafkalog_core.ops.sink import Sink
from kafkalog_core.storage.partition import read_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.releases.release_evidence import ReleaseGuess
    from kafkalog_core.ops.releases.setting_values import TopicSettings
    from kafkalog_core.ops.rolling.course import RolledSegment
    from kafkalog_core.ops.rolling.files import PartitionFiles
    from kafkalog_core.storage.partition import Partition

__all__ = ["RollForecast", "RollTask", "forecast", "play"]

USED: Final = (
    "segment.bytes",
    "segment.ms",
    "segment.jitter.ms",
    "segment.index.bytes",
    "index.interval.bytes",
)
_COMPACTED: Final = ("cleanup.policy", "max.compaction.lag.ms")

Row = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class RollTask:
    """What to find out.

    Args:
        path: of the partition directory.
        guess: whose rules count.
        settings: of the topic.
        seed: of the jitter; null: none is taken off, and the most is told beside it.
        max_batch_bytes: the largest batch that is read.
        size_bytes: of its logs.
        stray: why the broker does not keep the partition at its next start; None: it does.
    """

    path: str
    guess: ReleaseGuess
    settings: TopicSettings
    seed: int | None
    max_batch_bytes: int
    size_bytes: int = 0
    stray: Finding | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollForecast:
    """What comes out.

    Args:
        partition: the `rolling` row.
        segments: a `rolled_segment` row for each segment.
        findings: what cannot be told, and why.
        end_offset: behind the last batch.
        is_whole: whether all of the log was played.
    """

    partition: Row
    segments: tuple[Row, ...]
    findings: tuple[Finding, ...]
    end_offset: int
    is_whole: bool

    def chunks(self) -> Iterator[RowChunk]:
        """All rows, that of the partition first."""
        yield RowChunk(roll_tables.ROLLING, [self.partition])
        if self.segments:
            yield RowChunk(roll_tables.ROLLED_SEGMENT, self.segments)
        if self.findings:
            yield RowChunk(tables.FINDING, [finding.row() for finding in self.findings])


def forecast(task: RollTask, advance: Callable[[int], None]) -> RollForecast:
    """Where a log would have rolled. Raises StorageError where it cannot be read."""
    return play(task, read_partition(task.path), advance)


def play(
    task: RollTask,
    partition: Partition,
    advance: Callable[[int], None],
    *,
    files: PartitionFiles | None = None,
    to: str | None = None,
) -> RollForecast:
    """Append a log anew.

    Args:
        task: what is asked for.
        partition: the directory.
        advance: is told of bytes of log as they are read.
        files: takes what is appended; null: nothing is written, and checksums are not computed.
        to: the directory that is written.
    """
    return _Play(task, partition, files, to).play(advance)


class _Play:
    def __init__(self, task: RollTask, partition: Partition, files: PartitionFiles | None, to: str | None) -> None:
        self._task = task
        self._partition = partition
        self._files = files
        self._to = to
        self._sink = Sink(partition.topic, partition.partition)
        self._rules = append_rules(task.guess.release)
        limits = limits_of(task.settings)
        self._course = Course(limits=limits, rules=self._rules, sink=files)
        jitter_ms = min(task.settings.segment_jitter_ms, limits.segment_ms)
        self._most = Course(limits=limits, rules=self._rules) if jitter_ms and task.seed is None else None
        self._jitter_ms = jitter_ms
        self._is_whole = True
        self._at: tuple[str, int] = partition.path, 0
        self._bases = {segment.base_offset for segment in partition.segments}

    def play(self, advance: Callable[[int], None]) -> RollForecast:
        """Append all of it."""
        segments = self._partition.segments
        if self._partition.format == "v07":
            self._sink.add("roll.old-format", self._partition.path)
        elif segments:
            self._begin(segments[0].base_offset)
            try:
                self._append(advance)
                self._end()
            except FormatError as error:
                path, position = self._at
                self._sink.add("roll.not-appendable", path, position=position, problem=error.message)
                self._is_whole = False
            except (AccessError, NotFoundError) as error:
                if self._files is not None:
                    raise
                self._sink.add("roll.unreadable", error.path or self._partition.path, problem=error.message)
                self._is_whole = False
                self._end()
        self._explain()
        return RollForecast(
            partition=self._partition_row(),
            segments=tuple(self._segment_row(segment) for segment in self._course.segments),
            findings=self._sink.findings,
            end_offset=self._course.end_offset,
            is_whole=self._is_whole,
        )

    def _begin(self, base_offset: int) -> None:
        seed, name = self._task.seed, self._partition.name.raw
        jitter = seeded_jitter(self._task.settings, name, seed) if seed is not None else _no_jitter
        self._course.begin(base_offset, jitter)
        if self._most is not None:
            self._most.begin(base_offset, lambda _: self._jitter_ms)

    def _append(self, advance: Callable[[int], None]) -> None:
        for item in log_runs(
            self._partition,
            max_batch_bytes=self._task.max_batch_bytes,
            checks=self._files is not None,
            advance=advance,
        ):
            if isinstance(item, LogDamage):
                self._damage(item)
                return
            segment, run = item
            log = segment.files[0]
            self._at = log.path, run.batches.column("position")[0]
            if self._files is not None:
                self._files.mtime_ns = log.mtime_ns
            self._course.append(run)
            if self._most is not None:
                self._most.append(run)

    def _damage(self, found: LogDamage) -> None:
        damage = found.damage
        code = "roll.torn-tail" if found.is_tail else "roll.damaged"
        self._is_whole = found.is_tail
        self._sink.add(
            code,
            found.path,
            position=damage.position,
            size_bytes=damage.size_bytes,
            offset=damage.next_offset,
            problem=f"{damage.reason}: {damage.detail}",
        )

    def _end(self) -> None:
        self._course.end()
        if self._most is not None:
            self._most.end()

    # --- words --------------------------------------------------------------------------------------------------------
    def _explain(self) -> None:
        path, segments = self._partition.path, self._course.segments
        if self._course.oversized:
            limit = self._course.limits.segment_bytes
            self._sink.add("roll.oversized", path, count=self._course.oversized, limit=limit)
        if segments and not self._rules.ages_by_records:
            why = f"Kafka {self._task.guess.release} goes by its own clock"
            self._sink.add("roll.wall-clock", path, why=why)
        elif any(segment.batches and segment.first_timestamp_ms < 0 for segment in segments):
            self._sink.add("roll.wall-clock", path, why="the first batch of a segment has no timestamp")
        if self._most is not None and segments:
            self._sink.add("roll.jitter", path, jitter_ms=self._jitter_ms)

    def _reason(self) -> str:
        segments, before = self._course.segments, len(self._partition.segments)
        if not self._is_whole:
            return "only what stands before the damage, or the file that cannot be read, is told"
        if not segments:
            return "there is no segment that could roll"
        same = self._same_bases()
        if same == before == len(segments):
            return "the same segments as there are, each batch counted as one append"
        verb = "was" if self._to is not None else "would be"
        noun = "segment" if len(segments) == 1 else "segments"
        there = f"there {'is' if before == 1 else 'are'} {before}"
        return f"{len(segments)} {noun} where {there}, each batch counted as one append that {verb} made"

    def _same_bases(self) -> int:
        return sum(segment.base_offset in self._bases for segment in self._course.segments)

    def _state(self) -> str:
        if not self._is_whole:
            return "damaged"
        if not self._course.segments:
            return "empty"
        return "predicted" if self._to is None else "written"

    def _partition_row(self) -> Row:
        partition, segments, guess = self._partition, self._course.segments, self._task.guess
        closed = [segment.size_bytes for segment in segments[:-1]]
        return {
            "topic": partition.topic,
            "partition": partition.partition,
            "path": partition.path,
            "state": self._state(),
            "reason": self._reason(),
            "release": str(guess.release),
            "release_evidence": "\n".join(guess.evidence),
            "settings": self._settings(),
            "segments_before": len(partition.segments),
            "segments_after": len(segments),
            "segments_at_most": None if self._most is None else len(self._most.segments),
            "same_bases": self._same_bases(),
            "rolls": self._course.rolls,
            "bytes": sum(segment.size_bytes for segment in segments),
            "batches": sum(segment.batches for segment in segments),
            "records": self._course.records,
            "uncounted_batches": self._course.uncounted,
            "log_start_offset": partition.segments[0].base_offset if partition.segments else None,
            "log_end_offset": self._course.end_offset if segments else None,
            "smallest_bytes": min(closed, default=None),
            "largest_bytes": max((segment.size_bytes for segment in segments), default=None),
            "oversized_batches": self._course.oversized,
            "to": self._to,
        }

    def _settings(self) -> dict[str, dict[str, str]]:
        settings = self._task.settings
        names = USED + (_COMPACTED if "compact" in settings.cleanup_policy else ())
        return {
            each.name: {"value": _text(each.value), "origin": each.source}
            for each in settings.settings
            if each.name in names
        }

    def _segment_row(self, segment: RolledSegment) -> Row:
        partition = self._partition
        offsets, times = segment.entries
        return {
            "topic": partition.topic,
            "partition": partition.partition,
            "base_offset": segment.base_offset,
            "next_offset": segment.next_offset,
            "is_there": segment.base_offset in self._bases,
            "bytes": segment.size_bytes,
            "batches": segment.batches,
            "first_timestamp_ms": _or_none(segment.first_timestamp_ms),
            "max_timestamp_ms": _or_none(segment.max_timestamp_ms),
            "offset_entries": offsets,
            "time_entries": times if self._rules.has_time_index else None,
            "jitter_ms": segment.jitter_ms,
            "roll_reason": None if segment.roll is None else segment.roll.reason,
            "detail": segment.detail,
        }


def _text(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _no_jitter(_: int) -> int:
    return 0


def _or_none(timestamp_ms: int) -> int | None:
    return None if timestamp_ms < 0 else timestamp_ms
