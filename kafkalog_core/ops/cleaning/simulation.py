"""One partition's cleans, simulated one after the other, and what there is to say of them as rows."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import CleanError, StorageError
from kafkalog_core.findings import found
from kafkalog_core.ops.cleaning.config import CLEANER_SETTINGS, clean_config
from kafkalog_core.ops.cleaning.course import next_pass
from kafkalog_core.ops.cleaning.forecast import CompactForecast
from kafkalog_core.ops.cleaning.log import read_clean_log
from kafkalog_core.ops.cleaning.rules import cleaning_rules
from kafkalog_core.ops.cleaning.spool import Spool
from kafkalog_core.ops.cleaning.stats import Counts
from kafkalog_core.ops.reading.file_codes import code_of_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_core.ops.cleaning.bounds import Cleanability
    from kafkalog_core.ops.cleaning.course import CleanPass
    from kafkalog_core.ops.cleaning.log import CleanLog, CleanSegment
    from kafkalog_core.ops.logdirs.brokerdir import BrokerDir
    from kafkalog_core.ops.logdirs.segment_views import PartitionView
    from kafkalog_core.ops.releases.release_evidence import ReleaseGuess
    from kafkalog_core.ops.releases.settings import Setting, Settings, TopicSettings

__all__ = ["CompactTask", "simulate"]

Row = dict[str, object]

_READS: Final = 2
"""A clean reads the dirty part twice, and all the rest once; most logs are dirty."""
_BROKER_SETTINGS: Final = ("log.cleaner.dedupe.buffer.size", "log.cleaner.threads", "producer.id.expiration.ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask:
    """One partition, as it goes to a process: plain values only.

    Args:
        path: of its directory.
        topic: of the directory.
        partition: its number.
        view: its segments; null: none, or it is never cleaned.
        broker_dir: the log directory around it; null: none.
        guess: the release whose rules count.
        settings: of the broker.
        of_topic: of its topic.
        never: the state of a log that no cleaner ever takes, and why; null: it is compacted.
        size_bytes: of its logs.
        now_ms: the time that counts as now.
        memory_bytes: of the offset map; null: as the settings say.
        max_passes: at most so many cleans; null: until nothing more is cleanable.
        force: the dirty ratio does not matter.
        biggest: so many of the biggest keys.
        max_batch_bytes: the largest batch that is read, inflated too.
    """

    path: str
    topic: str | None
    partition: int | None
    view: PartitionView | None
    broker_dir: BrokerDir | None
    guess: ReleaseGuess
    settings: Settings
    of_topic: TopicSettings
    never: tuple[str, str] | None
    size_bytes: int
    now_ms: int
    memory_bytes: int | None
    max_passes: int | None
    force: bool
    biggest: int
    max_batch_bytes: int

    @property
    def expected_bytes(self) -> int:
        """Of log to be read."""
        return 0 if self.never is not None or self.view is None else _READS * self.size_bytes

    def place(self) -> Row:
        """The columns that say where."""
        return {"topic": self.topic, "partition": self.partition}


def simulate(task: CompactTask, advance: Callable[[int], None]) -> CompactForecast:
    """The forecast of one partition; `advance` is told the bytes that were read."""
    if task.never is not None:
        state, reason = task.never
        return CompactForecast(partition=_head(task, state, reason))
    if task.view is None:
        reason = "it has no segment, or its last one cannot be read"
        return CompactForecast(partition=_head(task, "nothing-cleanable", reason))
    try:
        return _Simulation(task, task.view, advance).forecast()
    except StorageError as error:
        code = "compaction.clean-fails" if isinstance(error, CleanError) else code_of_error(error)
        finding = found(
            code,
            error.path or task.path,
            problem=error.message,
            reason=error.message,
            topic=task.topic,
            partition=task.partition,
            position=error.position if isinstance(error, CleanError) else None,
        )
        return CompactForecast(partition=_head(task, "fails", error.message), findings=(finding,))


def _head(task: CompactTask, state: str, reason: str) -> Row:
    """The columns that are known of any partition."""
    return task.place() | {
        "path": task.path,
        "state": state,
        "reason": reason,
        "would_run": False,
        "release": str(task.guess.release),
        "release_evidence": "\n".join(task.guess.evidence),
        "settings": _settings(task),
        "now_ms": task.now_ms,
        "bytes_before": task.size_bytes,
        "segments_before": None if task.view is None else len(task.view.segments),
    }


def _settings(task: CompactTask) -> Mapping[str, object]:
    told = [setting for setting in task.of_topic.settings if setting.name in CLEANER_SETTINGS]
    told += [task.settings.broker(name) for name in _BROKER_SETTINGS]
    return {setting.name: {"value": _text(setting), "origin": setting.origin} for setting in told}


def _text(setting: Setting) -> str:
    value = setting.value
    return ",".join(value) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True, slots=True)
class _Done:
    """One clean: what was known before, and what it counted."""

    before: Cleanability
    work: CleanPass


class _Simulation:
    """The cleans of one partition: until the bound is reached, or so many were asked for."""

    def __init__(self, task: CompactTask, view: PartitionView, advance: Callable[[int], None]) -> None:
        self._task = task
        self._rules = cleaning_rules(task.guess.release)
        self._config = clean_config(task.settings, task.of_topic, memory_bytes=task.memory_bytes)
        self._progress = _Advance(advance)
        self._log = read_clean_log(view, task.broker_dir, self._rules, self._config, task.now_ms)
        self._view = view
        self._done: list[_Done] = []

    def forecast(self) -> CompactForecast:
        """Raises CleanError and StorageError."""
        with ExitStack() as spools:
            first = last = self._one(self._log, spools, forced=True)
            while self._goes_on(last):
                last = self._one(self._after, spools, forced=self._task.force)
        return CompactForecast(
            partition=self._partition(first),
            passes=tuple(self._pass_row(number, done) for number, done in enumerate(self._done, 1)),
            segments=tuple(self._segment_row(number, first) for number in range(len(self._log.segments))),
            keys=self._keys(),
        )

    def _one(self, log: CleanLog, spools: ExitStack, *, forced: bool) -> Cleanability:
        """Simulate one clean, where there is one; what was known before it. One spool is open afterwards, or none."""
        task = self._task
        before, work = next_pass(
            log,
            self._config,
            self._rules,
            task.now_ms,
            force=forced,
            heavy_keys=task.biggest if not self._done else 0,
            progress=self._progress,
            max_batch_bytes=task.max_batch_bytes,
        )
        if work is None:
            return before
        work.build()
        if work.is_full:
            with ExitStack() as new:
                self._after = new.enter_context(Spool(self._config, self._rules)).carry_out(work)
                spools.close()
                spools.push(new.pop_all())
        else:
            for group in work.run():
                for _ in group.chunks():
                    pass
        self._done.append(_Done(before, work))
        return before

    def _goes_on(self, last: Cleanability) -> bool:
        """Whether another clean follows: the map was full, and a cleaner would take the log, or is made to."""
        if not self._done or not self._done[-1].work.is_full or self._done[-1].before is not last:
            return False
        if self._task.max_passes is not None and len(self._done) >= self._task.max_passes:
            return False
        return last.would_run or self._task.force

    # --- rows ---------------------------------------------------------------------------------------------------------
    def _partition(self, first: Cleanability) -> Row:
        log, done = self._log, self._done
        is_forced = self._task.force and first.state == "not-dirty-enough" and first.has_work
        row = _head(self._task, first.state, first.why) | {
            "would_run": first.would_run or is_forced,
            "held_back_by": first.hold_back.kind,
            "held_back_detail": first.hold_back.detail,
            "first_dirty_offset": first.first_dirty,
            "first_dirty_origin": first.first_dirty_origin,
            "first_uncleanable_offset": first.bound,
            "log_start_offset": log.log_start_offset,
            "last_stable_offset": log.last_stable_offset,
            "high_watermark": self._view.high_watermark if self._view.is_high_watermark_known else None,
            "log_end_offset": log.end_offset,
            "clean_bytes": first.clean_bytes,
            "cleanable_bytes": first.cleanable_bytes,
            "uncleanable_bytes": first.uncleanable_bytes,
            "dirty_ratio": first.ratio,
            "min_cleanable_dirty_ratio": self._config.min_dirty_ratio,
            "passes": len(done),
            "memory_bytes": self._config.memory_bytes,
        }
        return row | self._totals() if done else row

    def _totals(self) -> Row:
        """Of all cleans together: what the last one kept, and what any of them dropped."""
        first, last = self._done[0].work, self._done[-1].work
        before = sum(segment.size_bytes for segment in self._log.segments)
        dropped_records: Counter[str] = Counter()
        dropped_bytes: Counter[str] = Counter()
        for done in self._done:
            dropped_records.update(done.work.counts.dropped_records)
            dropped_bytes.update(done.work.counts.dropped_bytes)
        whole = self._whole()
        return _counts_row(replace(whole, dropped_records=dropped_records, dropped_bytes=dropped_bytes)) | {
            "bytes_before": before,
            "bytes_after": before - whole.bytes_before + whole.bytes_after,
            "segments_after": len(self._log.segments) - self._taken() + len(last.groups),
            "keys": sum(done.work.mapped_keys for done in self._done),
            "lone_tombstone_keys": first.lone_tombstone_keys,
            "map_keys": first.map_capacity,
            "checkpoint_offset": last.end_offset,
        }

    def _taken(self) -> int:
        """Segments of the log that any of the cleans has read."""
        end = self._done[-1].work.end_offset
        return sum(segment.base_offset < end for segment in self._log.segments)

    def _whole(self) -> Counts:
        """From before the first clean to after the last one, which reads again all that those before it wrote."""
        counts = Counts()
        counts.add(self._done[-1].work.counts)
        seen = self._by_source()
        for name in ("batches", "records", "bytes"):
            setattr(counts, f"{name}_before", sum(getattr(each, f"{name}_before") for each in seen.values()))
        return counts

    def _by_source(self) -> dict[int, Counts]:
        """Of each segment of the log, the counts of the first clean that read it."""
        found_in: dict[int, Counts] = {}
        for done in reversed(self._done):
            found_in.update(done.work.by_source)
        return found_in

    def _pass_row(self, number: int, done: _Done) -> Row:
        before, work = done.before, done.work
        return self._task.place() | {
            "pass": number,
            "first_dirty_offset": before.first_dirty,
            "first_uncleanable_offset": before.bound,
            "end_offset": work.end_offset,
            "is_map_full": work.is_full,
            "keys": work.mapped_keys,
            "dirty_ratio": before.ratio,
            "groups": len(work.groups),
            "sources": sum(len(group.sources) for group in work.groups),
            **_counts_row(work.counts),
        }

    def _segment_row(self, number: int, first: Cleanability) -> Row:
        segments = self._log.segments
        segment = segments[number]
        counts = self._by_source().get(segment.base_offset)
        row = self._task.place() | {
            "segment": segment.path.rpartition("/")[2],
            "base_offset": segment.base_offset,
            "state": _state(segments, number, first),
            "group": self._group_of(segment),
            "max_timestamp_ms": segment.largest_timestamp_ms,
            "bytes_before": segment.size_bytes,
            "bytes_after": segment.size_bytes,
        }
        return row if counts is None else row | _counts_row(counts)

    def _group_of(self, segment: CleanSegment) -> int | None:
        """The segment that one goes into in the first clean that reads it."""
        for done in self._done:
            for group in done.work.groups:
                if any(source.base_offset == segment.base_offset for source in group.sources):
                    return group.base_offset
        return None

    def _keys(self) -> tuple[Row, ...]:
        if not self._done:
            return ()
        names = ("key", "records", "bytes", "records_at_least", "bytes_at_least")
        return tuple(
            self._task.place() | {"rank": rank} | dict(zip(names, each, strict=True))
            for rank, each in enumerate(self._done[0].work.heavy_keys, 1)
        )


class _Advance:
    """Progress that only goes on: what is expected has been said."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance = advance

    def expect(self, size_bytes: int) -> None:
        """Nothing: that has been said."""

    def advance(self, size_bytes: int) -> None:
        """So many more bytes have been read."""
        self._advance(size_bytes)


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
    if number == len(segments) - 1:
        return "active"
    if segment.base_offset >= first.bound:
        return "uncleanable"
    if segment.base_offset >= first.first_dirty:
        return "dirty"
    return "clean" if segments[number + 1].base_offset <= first.first_dirty else "mixed"
