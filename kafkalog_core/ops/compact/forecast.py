"""A compaction: its request, the task of each partition, the rows of its forecast, and the values that it assumes.

A clean drops records because the topic is compacted, from a segment that is old enough (min.compaction.lag.ms), below
the high watermark, and tombstones once delete.retention.ms is over. Whether a broker would do it now (dirty ratio,
max.compaction.lag.ms) and how it divides the result into segments and passes drops no other record.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import found
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.kafka.rules.cleaner_rules import clean_config, cleaner_settings, cleaning_rules
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.cleaner.clean import Counts
from kafkalog_core.ops.repair.assumptions import assumed_of_broker, assumed_of_topic, assumed_watermark
from kafkalog_core.ops.repair.held_options import held_options
from kafkalog_core.output import plans, tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.storage.partition import partition_name
from kafkalog_core.structs import Struct, field, replace
from kafkalog_core.text import moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.command_lines import CommandLine
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.errors import StorageError
    from kafkalog_core.findings import Finding
    from kafkalog_core.format.run_filter import HeavyKey
    from kafkalog_core.kafka.rules.cleaner_rules import CleanConfig
    from kafkalog_core.kafka.rules.setting_table import TopicSettings
    from kafkalog_core.kafka.sim.cleaner.clean import CleanPass
    from kafkalog_core.kafka.sim.cleaner.log import Cleanability, CleanLog, CleanSegment
    from kafkalog_core.kafka.sim.start.segment_views import PartitionView
    from kafkalog_core.ops.repair.assumptions import Assumption
    from kafkalog_core.ops.repair.context import DirContext
    from kafkalog_core.ops.repair.held_options import HeldOption

__all__ = [
    "CompactForecast",
    "CompactRequest",
    "CompactTask",
    "ForecastRows",
    "HoldingTransaction",
    "assumptions_of",
    "head_row",
    "watermark_findings",
]


_READS: Final = 2
"""Passes over the log: a clean reads the dirty part twice and the rest once, and most of a log is dirty."""


class CompactRequest(Struct, frozen=True, kw_only=True):
    """What to simulate.

    Args:
        targets: partitions and log directories, from `targets.resolve`.
        now_ms: the time that counts as now, in milliseconds since 1970.
        kafka: release and settings.
        memory_bytes: size of the offset map, in bytes; None: that of the settings.
        max_passes: most cleans of a partition; None: until nothing more is cleanable.
        force: whether a log is also cleaned below the dirty ratio.
        biggest: the number of largest keys to report.
        jobs: processes, each with its own offset map.
        max_batch_bytes: size of the largest batch that is read, in bytes, decompressed too.
        command_line: the command line, for commands to paste; None: unknown.
        asks_after_transactions: whether a clean is simulated as if the transaction had ended that holds the cleaner
            back: it reads the log once more, and no row has the result.
    """

    targets: tuple[Target, ...]
    now_ms: int
    kafka: SettingsRequest = field(default_factory=SettingsRequest)
    memory_bytes: int | None = None
    max_passes: int | None = None
    force: bool = False
    biggest: int = 0
    jobs: int = 1
    max_batch_bytes: int = MAX_BATCH_BYTES
    command_line: CommandLine | None = None
    asks_after_transactions: bool = False


class CompactTask(Struct, frozen=True, kw_only=True):
    """One partition to simulate or to clean: plain values, which can be sent to other processes.

    Args:
        path: path of its directory.
        topic: topic of the directory's name.
        partition: partition number of the directory's name.
        context: what is known of its log directory.
        options: the request, without its targets.
        of_topic: settings of its topic.
        never: state of a log that no cleaner cleans, and why; None: the log is compacted.
        stray: why the broker does not keep the partition at its next start; None: it keeps it.
        view: its segments; None: it has none, or it is never cleaned.
        size_bytes: size of its logs, in bytes.
    """

    path: str
    topic: str | None
    partition: int | None
    context: DirContext
    options: CompactRequest
    of_topic: TopicSettings
    never: tuple[str, str] | None
    stray: Finding | None
    view: PartitionView | None = None
    size_bytes: int = 0

    @property
    def expected_bytes(self) -> int:
        """Bytes of log that a simulation reads."""
        return 0 if self.never is not None or self.view is None else _READS * self.size_bytes

    @property
    def held(self) -> Iterator[HeldOption]:
        """Options that do not act on the topic, because it is not named."""
        names = cleaner_settings(self.context.release)
        return held_options(self.topic, (setting for setting in self.of_topic.settings if setting.name in names))

    def config(self) -> CleanConfig:
        """Return the cleaner's settings for the log, unless it is never cleaned. Raises SettingError."""
        config = clean_config(self.context.settings, self.of_topic, memory_bytes=self.options.memory_bytes)
        # `never` has the other case; up to 0.8 the cleaner is off by default
        return replace(config, is_cleaner_on=True)

    def light(self) -> CompactTask:
        """Return the task without what its log directory contains about other partitions, for another process."""
        return replace(self, context=self.context.only(partition_name(self.path)))

    def place(self) -> dict[str, object]:
        """Return the columns that name the partition."""
        return {"topic": self.topic, "partition": self.partition}


_MIN_LAG: Final = "min.compaction.lag.ms"
_LOSING: Final = ("cleanup.policy", _MIN_LAG, "delete.retention.ms")


def assumptions_of(task: CompactTask, view: PartitionView) -> Iterator[Assumption]:
    """Yield the assumed values on which a clean of a log depends."""
    rules = cleaning_rules(task.context.release)
    # min.compaction.lag.ms came with 0.10.1 (KIP-58).
    yield from assumed_of_topic(task.of_topic, [name for name in _LOSING if rules.has_min_lag or name != _MIN_LAG])
    # log.cleaner.enable is a broker's setting: with false, no Cleaner exists and no record of any topic is dropped.
    yield from assumed_of_broker([task.context.settings.broker("log.cleaner.enable")])
    # LogCleanerManager.cleanableOffsets bounds a clean by the last stable offset, which is below the high watermark in
    # 3.x and later; 0.11 to 2.8 took the first unstable offset alone.
    if rules.heeds_high_watermark:
        yield from assumed_watermark(view)


Row = dict[str, object]


class HoldingTransaction(Struct, frozen=True, kw_only=True):
    """The open transaction that holds the cleaner back.

    Args:
        producer_id: of its producer.
        producer_epoch: of its producer; None: unknown.
        first_offset: of the transaction.
        transactional_id: as the transaction log on the same disk has it; None: it has none.
        start_ms: when it began, by the transaction log; None: unknown.
        bytes_after: size of the log after a clean once the transaction has committed; None: such a clean fails, has
            nothing to do, or is the first of several.
    """

    producer_id: int
    producer_epoch: int | None
    first_offset: int
    transactional_id: str | None = None
    start_ms: int | None = None
    bytes_after: int | None = None

    @property
    def sentence(self) -> str:
        """Whose transaction it is, and since when it is open."""
        name = "" if self.transactional_id is None else f" of transactional id {self.transactional_id}"
        since = "" if self.start_ms is None else f" ({moment(self.start_ms)})"
        epoch = "" if self.producer_epoch is None else f", epoch {self.producer_epoch}"
        producer = f"producer id {self.producer_id}{epoch}"
        return f"The transaction{name}, {producer}, is open since offset {self.first_offset}{since}"


class CompactForecast(Struct, frozen=True, kw_only=True):
    """Rows of one partition by the tables in `output.plans`; columns that a row lacks are None.

    Args:
        partition: the `compaction` row.
        passes: a `cleaning_pass` row for each clean.
        segments: a `cleaned_segment` row for each segment of the log before the first clean.
        keys: `big_key` rows, the largest first.
        findings: what prevents a clean, and damage that was found.
        assumptions: assumed values because of which records would be dropped.
        idle: the settings of the topic by which the cleaner leaves the log alone; None: it does not.
        held: options that do not act on the topic, because it is not named.
        held_by: the open transaction that holds the cleaner back; None: none does.
    """

    partition: Row
    passes: tuple[Row, ...] = ()
    segments: tuple[Row, ...] = ()
    keys: tuple[Row, ...] = ()
    findings: tuple[Finding, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    idle: TopicSettings | None = None
    held: tuple[HeldOption, ...] = ()
    held_by: HoldingTransaction | None = None

    def chunks(self) -> Iterator[RowChunk]:
        """Yield all rows, the `compaction` row first."""
        yield RowChunk(plans.COMPACTION, [self.partition])
        for table, rows in (
            (plans.CLEANING_PASS, self.passes),
            (plans.CLEANED_SEGMENT, self.segments),
            (plans.BIG_KEY, self.keys),
            (tables.FINDING, tuple(finding.row() for finding in self.findings)),
        ):
            if rows:
                yield RowChunk(table, rows)


_BROKER_SETTINGS: Final = ("log.cleaner.dedupe.buffer.size", "log.cleaner.threads")


def head_row(task: CompactTask, state: str, reason: str) -> Row:
    """Return the columns of a `compaction` row that every partition has."""
    return task.place() | {
        "path": task.path,
        "state": state,
        "reason": reason,
        "would_run": False,
        "release": str(task.context.release),
        "is_release_certain": task.context.guess.is_certain,
        "release_evidence": "\n".join(task.context.guess.evidence),
        "settings": _settings(task),
        "now_ms": task.options.now_ms,
        "bytes_before": task.size_bytes,
        "segments_before": None if task.view is None else len(task.view.segments),
    }


def _settings(task: CompactTask) -> Mapping[str, object]:
    names = cleaner_settings(task.context.release)
    used = [setting for setting in task.of_topic.settings if setting.name in names]
    used += [
        *(task.context.settings.broker(name) for name in _BROKER_SETTINGS),
        task.context.settings.producer_expiration(),
    ]
    return {setting.name: {"value": setting.text, "origin": setting.source} for setting in used}


class _Clean(Struct, frozen=True, kw_only=True):
    """One finished clean: the state before it, and its counts; without its map."""

    before: Cleanability
    end_offset: int
    is_full: bool
    mapped_keys: int
    map_capacity: int
    groups: tuple[tuple[int, ...], ...]
    counts: Counts
    by_source: Mapping[int, Counts]
    lone_tombstone_keys: int
    heavy_keys: tuple[HeavyKey, ...]


class ForecastRows:
    """The rows of a partition, added clean by clean; it keeps no clean's memory.

    Args:
        task: the task.
        view: the partition.
        log: the log before the first clean.
        config: the cleaner's settings for it.
    """

    def __init__(self, task: CompactTask, view: PartitionView, log: CleanLog, config: CleanConfig) -> None:
        self._task = task
        self._view = view
        self._log = log
        self._config = config
        self._done: list[_Clean] = []
        self._stopped: list[Finding] = []

    @property
    def cleans(self) -> int:
        """Number of cleans that were added."""
        return len(self._done)

    def add(self, before: Cleanability, work: CleanPass) -> None:
        """Add a clean whose last chunk has been read; `before` is the cleanability of the log before it."""
        clean = _Clean(
            before=before,
            end_offset=work.end_offset,
            is_full=work.is_full,
            mapped_keys=work.mapped_keys,
            map_capacity=work.map_capacity,
            groups=tuple(tuple(source.base_offset for source in group.sources) for group in work.groups),
            counts=work.counts,
            by_source=work.by_source,
            lone_tombstone_keys=work.lone_tombstone_keys,
            heavy_keys=tuple(work.heavy_keys),
        )
        self._done.append(clean)

    def forecast(self, first: Cleanability) -> CompactForecast:
        """Return all rows; `first` is the cleanability of the log before the first clean."""
        sources, groups = self._by_source(), self._groups()
        return CompactForecast(
            partition=self._partition(first, sources),
            passes=tuple(self._pass_row(number, clean) for number, clean in enumerate(self._done, 1)),
            segments=tuple(
                self._segment_row(number, first, sources, groups) for number in range(len(self._log.segments))
            ),
            keys=self._keys(),
            findings=tuple(self._findings()),
            assumptions=tuple(self._assumptions()),
            held=tuple(self._task.held),
        )

    def stop(self, code: str, error: StorageError) -> None:
        """Note why no clean is simulated after the one that is added next."""
        path = error.path or self._task.path
        finding = found(code, path, topic=self._task.topic, partition=self._task.partition, problem=error.message)
        self._stopped.append(finding)

    def _findings(self) -> Iterator[Finding]:
        """Yield why no further clean is simulated, and whether cleans never reach the end of the dirty part."""
        yield from self._stopped
        if self._done:
            yield from watermark_findings(self._task, self._view)
        for clean in self._done[-1:]:
            # A full map ends a clean early, and the next one continues. Without a full map, a clean that ends below its
            # bound ends there every time.
            if not clean.is_full and clean.end_offset < clean.before.bound:
                yield found(
                    "compaction.never-ends",
                    self._task.path,
                    topic=self._task.topic,
                    partition=self._task.partition,
                    offset=clean.end_offset,
                    bound=clean.before.bound,
                )

    def _partition(self, first: Cleanability, sources: Mapping[int, Counts]) -> Row:
        log, done = self._log, self._done
        # --force skips the dirty ratio (min.cleanable.dirty.ratio), and nothing else that prevents a clean.
        is_forced = self._task.options.force and first.state == "not-dirty-enough" and first.has_work
        row = head_row(self._task, first.state, first.why) | {
            "would_run": first.would_run or is_forced,
            "held_back_by": first.hold_back.kind,
            "held_back_detail": first.hold_back.detail,
            "held_back_until_ms": first.hold_back.until_ms,
            "first_dirty_offset": first.first_dirty,
            "first_dirty_origin": first.first_dirty_origin,
            "first_uncleanable_offset": first.bound,
            "log_start_offset": log.log_start_offset,
            "last_stable_offset": log.last_stable_offset,
            "high_watermark": self._view.high_watermark if self._view.bounds.high_watermark.is_known else None,
            "log_end_offset": log.end_offset,
            "clean_bytes": first.clean_bytes,
            "cleanable_bytes": first.cleanable_bytes,
            "uncleanable_bytes": first.uncleanable_bytes,
            "dirty_ratio": first.ratio,
            "min_cleanable_dirty_ratio": self._config.min_dirty_ratio,
            "passes": len(done),
            "memory_bytes": self._config.memory_bytes,
            "assumptions": "\n".join(one.sentence for one in self._assumptions()) or None,
        }
        return row | self._totals(sources) if done else row

    def _assumptions(self) -> Iterator[Assumption]:
        """Yield the assumed values on which the cleans depend."""
        if self._done:
            yield from assumptions_of(self._task, self._view)

    def _totals(self, sources: Mapping[int, Counts]) -> Row:
        """Return the counts of all cleans: what the last one kept, and what all of them dropped."""
        first, last = self._done[0], self._done[-1]
        before = sum(segment.size_bytes for segment in self._log.segments)
        dropped_records: Counter[str] = Counter()
        dropped_bytes: Counter[str] = Counter()
        for clean in self._done:
            dropped_records.update(clean.counts.dropped_records)
            dropped_bytes.update(clean.counts.dropped_bytes)
        whole = self._whole(sources)
        return _counts_row(replace(whole, dropped_records=dropped_records, dropped_bytes=dropped_bytes)) | {
            "bytes_before": before,
            "bytes_after": before - whole.bytes_before + whole.bytes_after,
            # Segments after the cleaned part keep their bytes; only the part that was read is exchanged.
            "segments_after": len(self._log.segments) - self._taken() + len(last.groups),
            "keys": sum(clean.mapped_keys for clean in self._done),
            "lone_tombstone_keys": first.lone_tombstone_keys,
            "map_keys": first.map_capacity,
            "checkpoint_offset": last.end_offset,
        }

    def _taken(self) -> int:
        """Return the number of segments that the cleans have read."""
        # LogSegments.values(0, end): a clean reads every segment below its end, the clean head too.
        end = self._done[-1].end_offset
        return sum(segment.base_offset < end for segment in self._log.segments)

    def _whole(self, sources: Mapping[int, Counts]) -> Counts:
        """Return the counts before the first clean and after the last one, which reads again what the others wrote."""
        counts = Counts()
        counts.add(self._done[-1].counts)
        for name in ("batches", "records", "bytes"):
            setattr(counts, f"{name}_before", sum(getattr(each, f"{name}_before") for each in sources.values()))
        return counts

    def _by_source(self) -> dict[int, Counts]:
        """Return, for each segment of the log, the counts of the first clean that read it."""
        found_in: dict[int, Counts] = {}
        # Backwards, so that the first clean that read a segment wins.
        for clean in reversed(self._done):
            found_in.update(clean.by_source)
        return found_in

    def _groups(self) -> dict[int, int]:
        """Return, for each segment of the log, the segment that it becomes part of in the first clean that reads it."""
        found_in: dict[int, int] = {}
        for clean in reversed(self._done):
            found_in.update({base_offset: group[0] for group in clean.groups for base_offset in group})
        return found_in

    def _pass_row(self, number: int, clean: _Clean) -> Row:
        before = clean.before
        return self._task.place() | {
            "pass": number,
            "first_dirty_offset": before.first_dirty,
            "first_uncleanable_offset": before.bound,
            "end_offset": clean.end_offset,
            "is_map_full": clean.is_full,
            "keys": clean.mapped_keys,
            "dirty_ratio": before.ratio,
            "groups": len(clean.groups),
            "sources": sum(map(len, clean.groups)),
            **_counts_row(clean.counts),
        }

    def _segment_row(
        self, number: int, first: Cleanability, sources: Mapping[int, Counts], groups: Mapping[int, int]
    ) -> Row:
        segments = self._log.segments
        segment = segments[number]
        counts = sources.get(segment.base_offset)
        row = self._task.place() | {
            "segment": segment.path.rpartition("/")[2],
            "base_offset": segment.base_offset,
            "state": _state(segments, number, first),
            "group": groups.get(segment.base_offset),
            "max_timestamp_ms": segment.largest_timestamp_ms,
            "bytes_before": segment.size_bytes,
            "bytes_after": segment.size_bytes,
        }
        return row if counts is None else row | _counts_row(counts)

    def _keys(self) -> tuple[Row, ...]:
        if not self._done:
            return ()
        return tuple(
            self._task.place() | {"rank": rank} | each._asdict()
            for rank, each in enumerate(self._done[0].heavy_keys, 1)
        )


def _counts_row(counts: Counts) -> Row:
    return {
        "batches_before": counts.batches_before,
        "batches_after": counts.batches_after,
        "records_before": counts.records_before,
        "records_after": counts.records_after,
        "bytes_before": counts.bytes_before,
        "bytes_after": counts.bytes_after,
        "kept_records": dict(counts.kept_records),
        "kept_bytes": dict(counts.kept_bytes),
        "dropped_records": dict(counts.dropped_records),
        "dropped_bytes": dict(counts.dropped_bytes),
        "tombstones_after": counts.tombstones_after,
        "next_horizon_ms": counts.next_horizon_ms,
    }


def _state(segments: tuple[CleanSegment, ...], number: int, first: Cleanability) -> str:
    segment = segments[number]
    # The active segment is never cleaned (LogCleanerManager.cleanableOffsets).
    if number == len(segments) - 1:
        return "active"
    # Rounded down to a segment: LogToClean takes the base offset of the segment that contains the bound.
    if segment.base_offset >= first.bound:
        return "uncleanable"
    if segment.base_offset >= first.first_dirty:
        return "dirty"
    # A checkpoint within a segment leaves it half clean: its records count as clean below the offset.
    return "clean" if segments[number + 1].base_offset <= first.first_dirty else "mixed"


def watermark_findings(task: CompactTask, view: PartitionView) -> Iterator[Finding]:
    """Yield a finding if the high watermark of a log is unknown and its cleaner does not clean above it."""
    if cleaning_rules(task.context.release).heeds_high_watermark and not view.bounds.high_watermark.is_known:
        offset = view.end_offset
        yield found("compaction.no-watermark", task.path, topic=task.topic, partition=task.partition, offset=offset)
