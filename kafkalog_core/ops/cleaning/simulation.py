"""One partition's cleans, simulated one after the other."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import CleanError, RefusedError, StorageError
from kafkalog_core.findings import found
from kafkalog_core.ops.cleaning.config import clean_config
from kafkalog_core.ops.cleaning.course import next_pass
from kafkalog_core.ops.cleaning.forecast import CompactForecast
from kafkalog_core.ops.cleaning.forecast_rows import ForecastRows, head_row
from kafkalog_core.ops.cleaning.log import read_clean_log
from kafkalog_core.ops.cleaning.rules import cleaning_rules
from kafkalog_core.ops.cleaning.spool import Spool
from kafkalog_core.ops.progress import Advance
from kafkalog_core.storage.file_codes import code_of_error
from kafkalog_core.storage.partition import partition_name, read_partition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.command_lines import CommandLine
    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.cleaning.bounds import Cleanability
    from kafkalog_core.ops.cleaning.config import CleanConfig
    from kafkalog_core.ops.cleaning.course import CleanPass
    from kafkalog_core.ops.cleaning.log import CleanLog
    from kafkalog_core.ops.cleaning.mapping import KnownMap
    from kafkalog_core.ops.logdirs.brokerdir import BrokerDir
    from kafkalog_core.ops.logdirs.segment_views import PartitionView
    from kafkalog_core.ops.releases.release_evidence import ReleaseGuess
    from kafkalog_core.ops.releases.setting_values import TopicSettings
    from kafkalog_core.ops.releases.settings import Settings

__all__ = ["CompactTask", "simulate"]

Row = dict[str, object]

_READS: Final = 2
"""A clean reads the dirty part twice, and all the rest once; most logs are dirty."""
_OVER_DAMAGE: Final = "compaction.over-damage"
_GOES_ON: Final = "damage that a broker's cleaner would not see, and that is not cleaned over here: "
_UNSEEN: Final = frozenset({"crc-mismatch", "offset-order"})
"""Damage that no cleaner looks for."""
_OUR_LIMIT: Final = "over-limit"
"""What is no damage: batches that this run was told not to read."""


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
        assume_defaults: a clean may depend on assumed values.
        command_line: what was typed, for commands to paste; None: unknown.
        stray: why the broker does not keep the partition at its next start; None: it does.
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
    assume_defaults: bool = False
    command_line: CommandLine | None = None
    stray: Finding | None = None

    @property
    def expected_bytes(self) -> int:
        """Of log to be read."""
        return 0 if self.never is not None or self.view is None else _READS * self.size_bytes

    def config(self) -> CleanConfig:
        """What counts for its cleans. Raises SettingError; not for one that no cleaner ever takes."""
        config = clean_config(self.settings, self.of_topic, memory_bytes=self.memory_bytes)
        return replace(config, is_cleaner_on=True)  # else `never` says so; by default it was off once

    def light(self) -> CompactTask:
        """The same with what the log directory says of other partitions left out: for another process."""
        around = self.broker_dir
        if around is None or self.topic is None or self.partition is None:
            return self
        return replace(self, broker_dir=around.only(partition_name(self.path)), settings=self.settings.for_one())

    def place(self) -> Row:
        """The columns that say where."""
        return {"topic": self.topic, "partition": self.partition}


def simulate(task: CompactTask, advance: Callable[[int], None], known: KnownMap | None = None) -> CompactForecast:
    """The forecast of one partition.

    Args:
        task: what is to be simulated.
        advance: told the bytes that were read.
        known: what the first clean fills its map with, where others have found that out.
    """
    if task.never is not None:
        state, reason = task.never
        return CompactForecast(partition=head_row(task, state, reason))
    if task.view is None:
        return _without_view(task)
    try:
        return _Simulation(task, task.view, advance, known).forecast()
    except StorageError as error:
        code = _code_of(error)
        finding = found(
            code,
            error.path or task.path,
            problem=error.message,
            reason=error.message,
            topic=task.topic,
            partition=task.partition,
            position=error.position if isinstance(error, CleanError) else None,
        )
        why = f"{_GOES_ON if code == _OVER_DAMAGE else ''}{error.message}{_place_of(error)}"
        return CompactForecast(partition=head_row(task, "fails", why), findings=(finding,))


def _without_view(task: CompactTask) -> CompactForecast:
    """Of a log whose end cannot be told."""
    partition = read_partition(task.path)
    if not partition.segments:
        return CompactForecast(partition=head_row(task, "nothing-cleanable", "it has no segment"))
    problem = "it is of Kafka 0.7" if partition.format == "v07" else "its last segment cannot be read"
    finding = found("compaction.not-foreseen", task.path, problem=problem, topic=task.topic, partition=task.partition)
    return CompactForecast(partition=head_row(task, "fails", problem), findings=(finding,))


def _place_of(error: StorageError) -> str:
    """` (byte 17 of 00000000000000000000.log)`, as far as it is known."""
    if error.path is None:
        return ""
    name = os.path.basename(error.path)
    position = error.position if isinstance(error, CleanError) else None
    return f" ({name})" if position is None else f" (byte {position} of {name})"


def _code_of(error: StorageError) -> str:
    if not isinstance(error, CleanError):
        return code_of_error(error)
    if error.reason == _OUR_LIMIT:
        return "compaction.not-foreseen"
    return _OVER_DAMAGE if error.reason in _UNSEEN else "compaction.clean-fails"


class _Simulation:
    """The cleans of one partition: until the bound is reached, or so many were asked for."""

    def __init__(
        self, task: CompactTask, view: PartitionView, advance: Callable[[int], None], known: KnownMap | None
    ) -> None:
        self._task = task
        self._rules = cleaning_rules(task.guess.release)
        self._config = task.config()
        self._progress = Advance(advance)
        self._log = read_clean_log(view, task.broker_dir, self._rules, self._config, task.now_ms)
        self._rows = ForecastRows(task, view, self._log, self._config)
        self._known = known

    def forecast(self) -> CompactForecast:
        """Raises CleanError and StorageError."""
        with ExitStack() as spools:
            first = last = self._one(self._log, spools, forced=True)
            while self._goes_on(last):
                last = self._one(self._after, spools, forced=self._task.force)
        return self._rows.forecast(first)

    def _one(self, log: CleanLog, spools: ExitStack, *, forced: bool) -> Cleanability:
        """Simulate one clean, where there is one; what was known before it. One spool is open afterwards, or none."""
        task = self._task
        before, work = next_pass(
            log,
            self._config,
            self._rules,
            task.now_ms,
            force=forced,
            heavy_keys=0 if self._rows.cleans else task.biggest,
            progress=self._progress,
            max_batch_bytes=task.max_batch_bytes,
        )
        self._is_full = False
        if work is None:
            return before
        work.build(self._known)
        self._known = None  # of the first clean alone
        self._is_full = work.is_full and self._is_kept(work, spools)
        if not self._is_full:
            for group in work.run():
                for _ in group.chunks():
                    pass
        self._rows.add(before, work)
        work.release()
        return before

    def _is_kept(self, work: CleanPass, spools: ExitStack) -> bool:
        """Do a clean that another one follows; false where there is no room for what it leaves."""
        with ExitStack() as new:
            try:
                self._after = new.enter_context(Spool()).carry_out(work)
            except RefusedError as error:
                self._rows.stop("compaction.no-room", error)
                return False
            spools.close()
            spools.push(new.pop_all())
        return True

    def _goes_on(self, last: Cleanability) -> bool:
        """Whether another clean follows: the map was full, and a cleaner would take the log, or is made to."""
        if self._task.max_passes is not None and self._rows.cleans >= self._task.max_passes:
            return False
        return self._is_full and (last.would_run or self._task.force)
