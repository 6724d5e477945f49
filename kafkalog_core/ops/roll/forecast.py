"""Where a log would have rolled: its batches are appended again under a topic's settings."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.errors import AccessError, FormatError, NotFoundError
from kafkalog_core.findings.catalog import Sink
from kafkalog_core.format.layout import MAX_INT32
from kafkalog_core.kafka.rules.append import Appender, AppendLimits, AppendSink, limits_of
from kafkalog_core.kafka.rules.rule_table import append_rules
from kafkalog_core.output import plans, tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, offset_order, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, field
from kafkalog_core.text import count_of, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.rules.append import OpenSegment, Roll
    from kafkalog_core.kafka.rules.rule_table import AppendRules
    from kafkalog_core.kafka.rules.setting_table import TopicSettings
    from kafkalog_core.kafka.sim.evidence import ReleaseGuess
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "LogDamage",
    "RollForecast",
    "RollSimulation",
    "RollTask",
    "RolledSegment",
    "forecast",
    "log_runs",
    "play",
    "seeded_jitter",
]


class LogDamage(Struct, frozen=True):
    """Damage at which the appended log ends; `is_tail`: an interrupted append, which a start truncates."""

    path: str
    damage: Damage
    is_tail: bool


def log_runs(
    partition: Partition, *, max_batch_bytes: int, checks: bool, advance: Callable[[int], None]
) -> Iterator[tuple[Segment, Run] | LogDamage]:
    """Yield the whole batches of a log with their segments, in their order, up to the first damage.

    Args:
        partition: its directory.
        max_batch_bytes: the largest batch that is read.
        checks: whether checksums are computed; else only the headers of batches are read.
        advance: called with the bytes of log that are read.
    """
    options = ScanOptions(max_batch_bytes=max_batch_bytes, check=checks)
    next_offset = 0
    for segment in partition.segments:
        log = segment.files[0]
        with Source.open(log.path) as source:
            for item in scan(source, base_offset=segment.base_offset, options=options, end=source.size_bytes):
                if isinstance(item, Damage):
                    is_last = segment is partition.segments[-1]
                    # A torn tail is what a crash leaves and recovery cuts; anything else in the middle makes the rest
                    # of the log unknown.
                    yield LogDamage(log.path, item, is_tail=is_last and item.is_plain_tail)
                    return
                lasts = item.batches.column("last_offset")
                # Offsets that another segment already has: an append below the log end offset is impossible, so the
                # replay ends.
                if lasts[0] < next_offset:
                    position = item.batches.column("position")[0]
                    first = item.batches.column("base_offset")[0]
                    yield LogDamage(log.path, offset_order(position, first, lasts[0], next_offset), is_tail=False)
                    return
                next_offset = lasts[-1] + 1
                yield segment, item
                advance(sum(item.batches.column("size_bytes")))


_SEED_BYTES: Final = 4


class RolledSegment(Struct, frozen=True, kw_only=True):
    """A segment of the log as it would have rolled.

    Args:
        base_offset: of the segment.
        next_offset: base offset of the next segment; of the last one the log end offset.
        size_bytes: size of its log.
        batches: number of its batches.
        first_timestamp_ms: largest timestamp of its first batch; -1: none.
        max_timestamp_ms: its largest timestamp; -1: none.
        entries: number of entries of the offset index and of the time index.
        jitter_ms: what is subtracted from segment.ms.
        roll: why the next segment begins; None: the log ends.
        detail: the figures that were compared, a sentence without its full stop.
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


def seeded_jitter(settings: TopicSettings, name: str, seed: int) -> Callable[[int], int]:
    """Return the jitter subtracted from segment.ms, by base offset: pseudo-random, and the same for the same seed."""
    bound = _jitter_bound(settings)

    def jitter(base_offset: int) -> int:
        digest = hashlib.sha256(f"{seed} {name} {base_offset}".encode()).digest()
        # As `LogConfig.randomSegmentJitter`: the remainder of a non-negative int. Only the source of the number is
        # ours, so that a forecast can be repeated.
        return (int.from_bytes(digest[:_SEED_BYTES]) & MAX_INT32) % bound if bound > 0 else 0

    return jitter


def _jitter_bound(settings: TopicSettings) -> int:
    """Return the number that every jitter is below, in ms; 0: there is none (`LogConfig.randomSegmentJitter`).

    It is a remainder by the smaller of segment.jitter.ms and segment.ms, whatever max.compaction.lag.ms is.
    """
    return min(settings.segment_jitter_ms, settings.segment_ms)


def _largest_jitter_ms(settings: TopicSettings) -> int:
    """Return the largest jitter of a broker, in ms: it draws an int of Java."""
    return max(0, min(_jitter_bound(settings) - 1, MAX_INT32))


class RollSimulation(Struct, kw_only=True):
    """Appends the batches of a log in their order, and keeps the segments that result; itself the sink of the appender.

    Args:
        limits: settings of the topic.
        rules: of the release.
        sink: another sink that receives everything; None: there is none.
        segments: the complete segments.
        oversized: number of batches that are larger than a segment may be.
        records: number of records, by the batch headers.
        uncounted: number of batches whose header does not give the number of records.
    """

    limits: AppendLimits
    rules: AppendRules
    sink: AppendSink | None = None
    segments: list[RolledSegment] = field(default_factory=list)
    oversized: int = 0
    records: int = 0
    uncounted: int = 0
    _appender: Appender | None = None

    def start(self, base_offset: int, jitter: Callable[[int], int]) -> None:
        """Start the log at an offset; `jitter`: what is subtracted from segment.ms, by base offset."""
        self._appender = Appender(self, base_offset, limits=self.limits, rules=self.rules, jitter=jitter)

    def append_run(self, run: Run) -> None:
        """Append a run. Raises LimitError or FieldError for batches that no broker appends in this order."""
        if self._appender is not None:
            counts = run.batches.column("record_count")
            uncounted = 0 if min(counts, default=0) >= 0 else sum(count < 0 for count in counts)
            # Compressed messages count as -1
            self.records += sum(counts) + uncounted
            self.uncounted += uncounted
            sizes = run.batches.column("size_bytes")
            # UnifiedLog.append raises RecordBatchTooLargeException for a set larger than segment.bytes.
            if max(sizes, default=0) > self.limits.segment_bytes:
                self.oversized += sum(size > self.limits.segment_bytes for size in sizes)
            self._appender.append_batches(run)

    def close(self) -> None:
        """Close the last segment. Raises FieldError."""
        if self._appender is not None:
            self._appender.close()

    @property
    def end_offset(self) -> int:
        """The offset after the last batch."""
        return 0 if self._appender is None else self._appender.end_offset

    @property
    def rolls(self) -> dict[str, int]:
        """The number of new segments by reason."""
        return dict(Counter(segment.roll.reason for segment in self.segments if segment.roll is not None))

    # --- an AppendSink ------------------------------------------------------------------------------------------------
    def begin(self, segment: OpenSegment) -> None:
        """Begin a new, empty segment."""
        if self.sink is not None:
            self.sink.begin(segment)

    def append(self, data: memoryview, run: Run, first: int, last: int) -> None:
        """Append rows of a run to the log of the segment."""
        if self.sink is not None:
            self.sink.append(data, run, first, last)

    def end(self, segment: OpenSegment, roll: Roll | None) -> None:
        """Keep a complete segment."""
        self.segments.append(
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
                detail=_detail(segment, roll, self.limits, self.rules),
            )
        )
        if self.sink is not None:
            self.sink.end(segment, roll)

    def flush(self, end_offset: int) -> None:
        """Flush every record below an offset to disk."""
        if self.sink is not None:
            self.sink.flush(end_offset)


def _detail(segment: OpenSegment, roll: Roll | None, limits: AppendLimits, rules: AppendRules) -> str:
    """Return the figures that were compared, short enough for a line of a table."""
    if roll is None:
        return "the log ends here"
    reason, batch = roll.reason, roll.batch
    if reason == "bytes":
        # Log.maybeRoll of 0.8.0 ignored the size of the set, so segments could be larger than segment.bytes.
        added = f" + {batch.size_bytes} of the next batch" if rules.counts_set else ""
        return f"{segment.size_bytes}{added} > segment.bytes={limits.segment_bytes}"
    if reason == "time":
        # LogSegment.timeWaitedForRoll compares timestamps of records, and the clock only where there are none.
        waited = duration(batch.max_timestamp_ms - segment.first_timestamp_ms)
        jitter = f" - {segment.jitter_ms} of jitter" if segment.jitter_ms else ""
        return f"next batch {waited} after the first > segment.ms={limits.segment_ms}{jitter}"
    # LogSegment.canConvertToRelativeOffset: an index entry stores the offset as an int above the base offset.
    if reason == "offset-range":
        return f"next batch ends at {batch.last_offset}, over 2^31-1 above the base"
    count = segment.indexes.entries[reason == "time-index"]
    return f"{count} entries: it is full at segment.index.bytes={limits.segment_index_bytes}"


USED: Final = (
    "segment.bytes",
    "segment.ms",
    "segment.jitter.ms",
    "segment.index.bytes",
    "index.interval.bytes",
)
_COMPACTED: Final = ("cleanup.policy", "max.compaction.lag.ms")

Row = dict[str, object]


class RollTask(Struct, frozen=True, kw_only=True):
    """The request for one partition.

    Args:
        path: of the partition directory.
        guess: the release whose rules are used.
        settings: of the topic.
        seed: of the jitter; None: no jitter is subtracted, and the result with the largest jitter is reported too.
        max_batch_bytes: the largest batch that is read.
        size_bytes: size of its logs.
        stray: why the broker does not keep the partition at its next start; None: it does.
    """

    path: str
    guess: ReleaseGuess
    settings: TopicSettings
    seed: int | None
    max_batch_bytes: int
    size_bytes: int = 0
    stray: Finding | None = None


class RollForecast(Struct, frozen=True, kw_only=True):
    """Where a log would have rolled.

    Args:
        partition: the `rolling` row.
        segments: a `rolled_segment` row for each segment.
        findings: what is unknown, and why.
        end_offset: the offset after the last batch.
        is_whole: whether the whole log was appended.
    """

    partition: Row
    segments: tuple[Row, ...]
    findings: tuple[Finding, ...]
    end_offset: int
    is_whole: bool

    def chunks(self) -> Iterator[RowChunk]:
        """Yield all rows, that of the partition first."""
        yield RowChunk(plans.ROLLING, [self.partition])
        if self.segments:
            yield RowChunk(plans.ROLLED_SEGMENT, self.segments)
        if self.findings:
            yield RowChunk(tables.FINDING, [finding.row() for finding in self.findings])


def forecast(task: RollTask, advance: Callable[[int], None]) -> RollForecast:
    """Return where a log would have rolled. Raises StorageError where it cannot be read."""
    return play(task, read_partition(task.path), advance)


class LogFiles(AppendSink, Protocol):
    """A sink that writes files; `mtime_ns`: modification time of the log file that is being read."""

    mtime_ns: int | None


def play(
    task: RollTask,
    partition: Partition,
    advance: Callable[[int], None],
    *,
    files: LogFiles | None = None,
    to: str | None = None,
) -> RollForecast:
    """Append a log again, and return where it rolls.

    Args:
        task: the request.
        partition: the directory.
        advance: called with the bytes of log that are read.
        files: receives what is appended; None: nothing is written, and checksums are not computed.
        to: the directory that is written.
    """
    return _Play(task, partition, files, to).play(advance)


class _Play:
    def __init__(self, task: RollTask, partition: Partition, files: LogFiles | None, to: str | None) -> None:
        self._task = task
        self._partition = partition
        self._files = files
        self._to = to
        self._sink = Sink(partition.topic, partition.partition)
        self._rules = append_rules(task.guess.release)
        limits = limits_of(task.settings)
        self._simulation = RollSimulation(limits=limits, rules=self._rules, sink=files)
        jitter_ms = _largest_jitter_ms(task.settings)
        # Two runs of the same log, one read: they differ in the jitter only.
        self._most = RollSimulation(limits=limits, rules=self._rules) if jitter_ms and task.seed is None else None
        self._jitter_ms = jitter_ms
        self._is_whole = True
        self._at: tuple[str, int] = partition.path, 0
        self._bases = {segment.base_offset for segment in partition.segments}

    def play(self, advance: Callable[[int], None]) -> RollForecast:
        """Append the whole log."""
        segments = self._partition.segments
        if self._partition.format == "v07":
            self._sink.add("roll.old-format", self._partition.path)
        elif segments:
            self._begin(segments[0].base_offset)
            try:
                self._append(advance)
                self._end()
            # An append that no broker makes ends the replay; what was appended before is still a forecast.
            except FormatError as error:
                path, position = self._at
                self._sink.add("roll.not-appendable", path, position=position, problem=error.message)
                self._is_whole = False
            except (AccessError, NotFoundError) as error:
                # With files to write, a hole in the source is a refusal, because the copy would be shorter than it
                # looks.
                if self._files is not None:
                    raise
                self._sink.add("roll.unreadable", error.path or self._partition.path, problem=error.message)
                self._is_whole = False
                self._end()
        self._explain()
        return RollForecast(
            partition=self._partition_row(),
            segments=tuple(self._segment_row(segment) for segment in self._simulation.segments),
            findings=self._sink.findings,
            end_offset=self._simulation.end_offset,
            is_whole=self._is_whole,
        )

    def _begin(self, base_offset: int) -> None:
        seed, name = self._task.seed, self._partition.name.raw
        jitter = seeded_jitter(self._task.settings, name, seed) if seed is not None else _no_jitter
        self._simulation.start(base_offset, jitter)
        if self._most is not None:
            self._most.start(base_offset, lambda _: self._jitter_ms)

    def _append(self, advance: Callable[[int], None]) -> None:
        for item in log_runs(
            self._partition,
            max_batch_bytes=self._task.max_batch_bytes,
            # Checksums only if the bytes are written: a forecast needs headers alone, and reads a fraction of the log.
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
            self._simulation.append_run(run)
            if self._most is not None:
                self._most.append_run(run)

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
        self._simulation.close()
        if self._most is not None:
            self._most.close()

    # --- the report ---------------------------------------------------------------------------------------------------
    def _explain(self) -> None:
        path, segments = self._partition.path, self._simulation.segments
        if self._simulation.oversized:
            limit = self._simulation.limits.segment_bytes
            self._sink.add("roll.oversized", path, count=self._simulation.oversized, limit=limit)
        # Up to 0.10.0 the age of a segment is the time since it was created (KIP-33 changed it): the disk does not show
        # when that was.
        if segments and not self._rules.ages_by_records:
            why = f"Kafka {self._task.guess.release} uses the broker's clock"
            self._sink.add("roll.wall-clock", path, why=why)
        elif any(segment.batches and segment.first_timestamp_ms < 0 for segment in segments):
            self._sink.add("roll.wall-clock", path, why="the first batch of a segment has no timestamp")
        if self._most is not None and segments:
            self._sink.add("roll.jitter", path, jitter_ms=self._task.settings.segment_jitter_ms, most=self._jitter_ms)

    def _reason(self) -> str:
        segments, before = self._simulation.segments, len(self._partition.segments)
        if not self._is_whole:
            return "the forecast ends at the damage, or at the file that cannot be read"
        if not segments:
            return "the log has no segment"
        same = self._same_bases()
        if same == before == len(segments):
            return "the same segments as on the disk; each batch counts as one append"
        return f"{count_of(len(segments), 'segment')} instead of {before}; each batch counts as one append"

    def _same_bases(self) -> int:
        return sum(segment.base_offset in self._bases for segment in self._simulation.segments)

    def _state(self) -> str:
        if not self._is_whole:
            return "damaged"
        if not self._simulation.segments:
            return "empty"
        return "predicted" if self._to is None else "written"

    def _partition_row(self) -> Row:
        partition, segments, guess = self._partition, self._simulation.segments, self._task.guess
        closed = [segment.size_bytes for segment in segments[:-1]]
        return {
            "topic": partition.topic,
            "partition": partition.partition,
            "path": partition.path,
            "state": self._state(),
            "reason": self._reason(),
            "release": str(guess.release),
            "is_release_certain": guess.is_certain,
            "release_evidence": "\n".join(guess.evidence),
            "settings": self._settings(),
            "segments_before": len(partition.segments),
            "segments_after": len(segments),
            "segments_at_most": None if self._most is None else len(self._most.segments),
            "same_bases": self._same_bases(),
            "rolls": self._simulation.rolls,
            "bytes": sum(segment.size_bytes for segment in segments),
            "batches": sum(segment.batches for segment in segments),
            "records": self._simulation.records,
            "uncounted_batches": self._simulation.uncounted,
            "log_start_offset": partition.segments[0].base_offset if partition.segments else None,
            "log_end_offset": self._simulation.end_offset if segments else None,
            "smallest_bytes": min(closed, default=None),
            "largest_bytes": max((segment.size_bytes for segment in segments), default=None),
            "oversized_batches": self._simulation.oversized,
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
