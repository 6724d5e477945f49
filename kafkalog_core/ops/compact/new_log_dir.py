"""Write what a clean makes of logs into a new log directory; nothing in the directory that is read changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.targets import check_topics
from kafkalog_core.errors import CleanError, RefusedError, SelectionError
from kafkalog_core.format.names import FileKind, FileState, segment_file_name
from kafkalog_core.kafka.sim.cleaner.log import read_clean_log
from kafkalog_core.kafka.sim.start.segment_views import check_now, read_partition_view
from kafkalog_core.ops.compact.compact import count_forecast, tasks_of
from kafkalog_core.ops.compact.forecast import CompactRequest, ForecastRows, assumptions_of
from kafkalog_core.ops.compact.planning import (
    NewSegment,
    groups_of,
    is_certain,
    key_of,
    replaced_files,
    replacement_finding,
    retention_findings,
)
from kafkalog_core.ops.compact.simulation import Cleaning, assumed_by, failure_of, last_clean, simulate
from kafkalog_core.ops.repair.assumptions import refusal
from kafkalog_core.ops.repair.context import (
    only_target_dir,
    stray_first,
    target_dirs,
)
from kafkalog_core.ops.repair.copied_files import (
    check_not_running,
    check_untouched,
    checkpointed_offsets,
    copy_file,
    write_broker_files,
)
from kafkalog_core.ops.repair.held_options import held_refusal
from kafkalog_core.progress import NO_PROGRESS, Advance, Progress
from kafkalog_core.refusals import Refusal, Refused, WayOut, of_partitions, place_of
from kafkalog_core.storage.changing.new_dir import NewDir
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from kafkalog_core.engine.pool import Workers
    from kafkalog_core.engine.report import Report
    from kafkalog_core.kafka.sim.cleaner.offset_map import KnownMap
    from kafkalog_core.kafka.sim.logdir.top_files import Key
    from kafkalog_core.kafka.sim.start.segment_views import PartitionView
    from kafkalog_core.ops.compact.forecast import CompactForecast, CompactTask
    from kafkalog_core.ops.repair.assumptions import Assumption
    from kafkalog_core.ops.repair.context import TargetDir
    from kafkalog_core.storage.changing.new_dir import NewTree, TaskAttempts
    from kafkalog_core.storage.partition import Partition

__all__ = ["WrittenPartition", "compact_to", "write_apart", "write_partition"]


_NEW_FILES_BYTES: Final = 64 * 1024
"""Room for the small files of a partition, in whole blocks."""


def compact_to(
    request: CompactRequest,
    to: str,
    report: Report,
    progress: Progress = NO_PROGRESS,
    *,
    disk: Disk | None = None,
    workers: Workers | None = None,
) -> Generator[CompactForecast, None, None]:
    """Write the cleaned logs into a new log directory, and yield the forecast of each partition.

    The directory is complete before the first forecast. Files that are not cleaned are copied unchanged.

    Args:
        request: what to clean.
        to: the directory.
        report: counts what was read and every row.
        progress: shows the bytes that this process reads.
        disk: the door through which this process writes.
        workers: they clean, each one partition after another, into directories of their own; None: this process does.

    Raises:
        SelectionError: single files were named, or parts of several log directories.
        SettingError: a broker refuses the settings.
        RefusedError: the new directory cannot be created, or a clean fails; then nothing of it is left.
        LockedError: a broker runs on the log directory that is read.
    """
    check_topics(request.kafka.topics, request.targets)
    target = only_target_dir(target_dirs(request.targets))
    for forecast in _Writing(request, target, to, disk or Disk(), workers).forecasts(progress):
        count_forecast(forecast, report)
        yield forecast


class _Writing:
    """Writes a new log directory."""

    def __init__(
        self, request: CompactRequest, target: TargetDir, to: str, disk: Disk, workers: Workers | None
    ) -> None:
        self._target = target
        self._to = to
        self._disk = disk
        self._workers = workers
        self._command_line = request.command_line
        self._tasks = list(tasks_of(target, request, workers))
        check_now([task.view for task in self._tasks if task.view is not None], request.now_ms)
        held = [held for task in self._tasks for held in task.held]
        if held and not request.kafka.topics:
            raise RefusedError(held_refusal(held, request.command_line), path=target.root)

    def forecasts(self, progress: Progress) -> list[CompactForecast]:
        """Write the directory, and return the forecasts of all partitions."""
        # Checked at both ends of the work: a broker that was started in between has appended to what was read.
        check_not_running(self._target.log_dir)
        if not self._tasks:
            raise SelectionError("there is no partition to write", path=self._target.root)
        progress.expect(sum(task.expected_bytes for task in self._tasks))
        partitions = [read_partition(task.path) for task in self._tasks]
        needs_bytes = sum(map(_least_bytes, self._tasks, partitions))
        broker_dir = self._tasks[0].context.broker_dir
        with NewDir(self._to, disk=self._disk, like=self._target.root, needs_bytes=needs_bytes) as new:
            written = self._write(new, partitions, progress)
            ends = dict(each.end for each in written if each.end is not None)
            cleaned = dict(each.cleaned for each in written if each.cleaned is not None)
            # Without the clean shutdown file in the source, a start must recover what was copied unchanged.
            is_whole = broker_dir is not None and broker_dir.log_dir.is_clean
            known = checkpointed_offsets(broker_dir, FileKind.CLEANER_OFFSET) or {}
            # Checkpoints last: a directory that was interrupted before has none, and recovers everything.
            write_broker_files(new, broker_dir, ends, cleaned=known | cleaned, is_whole=is_whole)
            check_untouched(file for partition in partitions for file in partition.files)
            check_not_running(self._target.log_dir)
            new.commit()
        return [stray_first(each.forecast, task.stray) for task, each in zip(self._tasks, written, strict=True)]

    def _write(self, new: NewDir, partitions: Sequence[Partition], progress: Progress) -> list[WrittenPartition]:
        # Processes write into directories of their own, which are renamed into place: one writer's crash leaves no half
        # of a partition under its name.
        pairs = list(zip(self._tasks, partitions, strict=True))
        written: list[WrittenPartition] = []
        try:
            if self._workers is None:
                for task, partition in pairs:
                    written.append(write_partition(new, task, partition, progress))
                return written
            attempts = new.task_attempts()
            pieces = ((task.light(), partition, attempts) for task, partition in pairs)
            for each, partition in zip(self._workers.map(write_apart, pieces), partitions, strict=True):
                new.adopt(each.home, partition.name.raw)
                written.append(each)
        except RefusedError as error:
            self._refuse(self._tasks[len(written) :], progress)
            raise error from error.__cause__
        return written

    def _refuse(self, tasks: Sequence[CompactTask], progress: Progress) -> None:
        """Raise RefusedError for all of these tasks that are refused for a value, or because their clean fails."""
        failed: list[Refused] = []
        assumed: dict[Assumption, None] = {}
        for task in tasks:
            try:
                assumed.update(dict.fromkeys(assumed_by(task, progress)))
            except CleanError as error:
                failed.append(failure_of(task, error))
        if failed:
            every = of_partitions(failed, " to write the others")
            every = replace(every, reason=f"{every.reason}; the unfinished copy has been removed")
            raise RefusedError(every, path=place_of(failed, self._target.root))
        if assumed:
            raise RefusedError(refusal(list(assumed), self._command_line), path=self._target.root)


class WrittenPartition(Struct, frozen=True, kw_only=True):
    """The result of one partition.

    Args:
        forecast: its forecast.
        home: the directory in which its directory was written.
        end: its key in checkpoints and its log end offset; None: checkpoints do not contain it.
        cleaned: its key and the offset up to which it was cleaned; None: it was not, or checkpoints do not contain it.
    """

    forecast: CompactForecast
    home: str
    end: tuple[Key, int] | None
    cleaned: tuple[Key, int] | None


def write_apart(
    task: CompactTask,
    partition: Partition,
    attempts: TaskAttempts,
    advance: Callable[[int], None],
    known: KnownMap | None = None,
) -> WrittenPartition:
    """Write a partition into a directory of its own: the work of one worker. Raises as `compact_to` does."""
    with attempts.tree(partition.name.raw, Disk()) as tree:
        written = write_partition(tree, task, partition, Advance(advance), known)
        # Before the parent adopts it: the directory is only renamed there, and its content must be on disk by then.
        tree.sync()
    return written


def write_partition(
    new: NewTree, task: CompactTask, partition: Partition, progress: Progress, known: KnownMap | None = None
) -> WrittenPartition:
    """Write one partition: cleaned segments, and all other files unchanged. Raises as `compact_to` does.

    Args:
        new: the directory in which the partition's directory is written.
        task: the partition, and how it is cleaned.
        partition: its files.
        progress: shows the bytes that are read.
        known: the map of the first clean, if other processes have filled it; else None.
    """
    new.directory(partition.name.raw)
    view = task.view
    if view is None and partition.segments:
        view = read_partition_view(partition, task.context.broker_dir, task.of_topic, task.context.release)
    key = None if view is None else key_of(task.context.broker_dir, view)
    forecast, end, left = None, None, set[str]()
    if task.view is not None and task.never is None:
        forecast, end, left = _clean(new, task, task.view, Cleaning.of(task, progress, known))
    # Files of other states (`.deleted`, `.cleaned`) are what a start deletes; the copy need not have them.
    for file in partition.files:
        if file.name.state is FileState.LIVE and file.path not in left:
            copy_file(new, file, partition.name.raw)
    return WrittenPartition(
        forecast=forecast or simulate(task, progress.advance, known),
        home=new.home,
        end=None if key is None or view is None else (key, view.end_offset),
        cleaned=None if key is None or end is None else (key, end),
    )


def _clean(
    new: NewTree, task: CompactTask, view: PartitionView, cleaning: Cleaning
) -> tuple[CompactForecast | None, int | None, set[str]]:
    """Write the segments that a clean makes of a log.

    Return the forecast, the offset up to which the log is clean, and the replaced files; None: nothing was cleaned.
    """
    finding = replacement_finding(view)
    if finding is not None:
        raise RefusedError(f"{finding.message} {finding.cure}", path=finding.path)
    log = read_clean_log(view, task.context.broker_dir, cleaning.rules, cleaning.config, task.options.now_ms)
    rows = ForecastRows(task, view, log, cleaning.config)
    replaced: set[str] = set()
    try:
        with last_clean(log, cleaning, rows.add) as (first, work):
            if work is None:
                return None, None, replaced
            if not is_certain(task.context.guess):
                reason = f"the release of Kafka is not certain, and cleaners differ: {task.context.guess.describe()}"
                state = WayOut("state the release", options="--kafka VERSION")
                # A refusal, where `--apply` would ask: a new directory is written at once, without a plan.
                raise RefusedError(Refusal(reason, (state,)), path=task.path)
            assumed = () if task.options.kafka.assume_defaults else tuple(assumptions_of(task, view))
            if assumed:
                raise RefusedError(refusal(assumed, task.options.command_line), path=task.path)
            for group, sources in groups_of(work, view.partition):
                _write_segment(new, view.partition.name.raw, NewSegment(group), group.base_offset)
                replaced.update(replaced_files(sources, cleaning))
            end = work.end_offset
    except CleanError as error:
        failed = failure_of(task, error)
        raise RefusedError(of_partitions([failed], " to write the others"), path=failed.path) from error
    forecast = rows.forecast(first)
    return replace(forecast, findings=(*forecast.findings, *retention_findings(task))), end, replaced


def _least_bytes(task: CompactTask, partition: Partition) -> int:
    """Return the least space that a partition needs, in bytes.

    Of a partition that may be cleaned, only the active segment is certainly kept. If more is kept than fits, the
    writing stops, and everything written is deleted.
    """
    may_shrink = task.view is not None and task.never is None and partition.segments
    files = partition.segments[-1].files if may_shrink else partition.files
    return _NEW_FILES_BYTES + sum(file.size_bytes for file in files)


def _write_segment(new: NewTree, directory: str, segment: NewSegment, base_offset: int) -> None:
    def path(kind: FileKind) -> str:
        return f"{directory}/{segment_file_name(base_offset, kind)}"

    with new.file(path(FileKind.LOG), mtime_ns=segment.mtime_ns) as log:
        for piece in segment.log():
            log.write(piece)
    for kind, content in segment.indexes():
        new.add(path(kind), content, mtime_ns=segment.mtime_ns)
    txn_index = segment.txn_index()
    if txn_index:
        new.add(path(FileKind.TXN_INDEX), txn_index)
