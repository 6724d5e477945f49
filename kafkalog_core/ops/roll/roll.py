"""`kafkalog roll`: where logs would have rolled under other settings, and the same logs in such segments.

It writes only into a new log directory. Existing files do not change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path
from kafkalog_core.engine.pool import run_all
from kafkalog_core.engine.targets import check_topics
from kafkalog_core.errors import RefusedError, SelectionError
from kafkalog_core.findings import found
from kafkalog_core.format.checkpoint import encode_epoch_checkpoint
from kafkalog_core.format.index import encode_txn_entry
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, fixed_file_name, segment_file_name
from kafkalog_core.format.snapshot import encode_snapshot
from kafkalog_core.kafka.rules.cleaner_rules import cleaning_rules
from kafkalog_core.kafka.rules.producer_anomalies import markers_of
from kafkalog_core.kafka.rules.producers import CompletedTxn, ProducerStates
from kafkalog_core.kafka.rules.rule_table import append_rules, recovery_rules
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochStart, read_epoch_file
from kafkalog_core.kafka.sim.start.snapshots import SnapshotFiles
from kafkalog_core.ops.reindex.producers import load_states
from kafkalog_core.ops.repair.context import (
    only_target_dir,
    read_context,
    stray_first,
    target_dirs,
    waiting_replacement,
)
from kafkalog_core.ops.repair.copied_files import (
    check_not_running,
    check_untouched,
    copy_beside,
    copy_directory,
    write_broker_files,
)
from kafkalog_core.ops.roll.forecast import RollForecast, RollTask, forecast, play
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.refusals import Refusal, Refused, WayOut, of_partitions, place_of
from kafkalog_core.storage.changing.new_dir import NewDir
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.rules.append import OpenSegment, Roll
    from kafkalog_core.kafka.rules.producers import Marker
    from kafkalog_core.kafka.rules.rule_table import RecoveryRules
    from kafkalog_core.kafka.sim.logdir.top_files import Key
    from kafkalog_core.ops.repair.context import DirContext, TargetDir
    from kafkalog_core.storage.changing.new_dir import NewTree
    from kafkalog_core.storage.changing.writer import NewFile
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import Run

__all__ = ["PartitionFiles", "RollRequest", "roll"]


_NO_MARKERS: Final[dict[int, Marker]] = {}


class PartitionFiles:
    """An `AppendSink` that writes the files of one partition as a clean shutdown leaves them.

    Args:
        new: the new log directory.
        partition: the partition whose log is appended.
        rules: which files the release has next to the logs.
        max_batch_bytes: the largest batch that is decompressed.
    """

    def __init__(self, new: NewTree, partition: Partition, rules: RecoveryRules, *, max_batch_bytes: int) -> None:
        self._new = new
        self._partition = partition
        self._name = partition.name.raw
        self._rules = rules
        self._max_batch_bytes = max_batch_bytes
        self._snapshots = SnapshotFiles.of(partition)
        self._states = self._first_states()
        self._log: NewFile | None = None
        self._aborted = bytearray()
        self._epochs: list[tuple[int, int]] = []
        self._markers: tuple[Run | None, dict[int, Marker]] = (None, _NO_MARKERS)
        self.mtime_ns: int | None = None
        """Modification time of the log that is being read; retention uses it for records without timestamps."""
        new.directory(self._name)

    # --- an AppendSink ------------------------------------------------------------------------------------------------
    def begin(self, segment: OpenSegment) -> None:
        """Begin a log."""
        self._log = self._new.begin(self._path(segment.base_offset, FileKind.LOG))

    def append(self, data: memoryview, run: Run, first: int, last: int) -> None:
        """Append bytes to the log, and replay their producers."""
        if self._log is not None:
            self._log.write(data)
        # Most logs have no idempotent producer: the replay is the slow part, and it would change nothing.
        if not self._rules.has_producers or run.batches.holds_only("producer_id", -1):
            return
        # One run may be divided over several segments, and its control batches are decompressed once.
        if self._markers[0] is not run:
            self._markers = run, markers_of(run.memory, run.batches, max_bytes=self._max_batch_bytes)
        for event in self._states.replay(run.batches, self._markers[1], first=first, last=last):
            if isinstance(event, CompletedTxn) and event.is_aborted:
                self._aborted += encode_txn_entry(*event[:3], event.last_stable_offset)

    def end(self, segment: OpenSegment, roll: Roll | None) -> None:
        """Complete the log, and write the other files of its segment."""
        base_offset, indexes = segment.base_offset, segment.indexes
        if self._log is not None:
            self._new.end(self._log, mtime_ns=self.mtime_ns)
        self._new.add(self._path(base_offset, FileKind.OFFSET_INDEX), bytes(indexes.offset_index))
        if self._rules.has_time_index:
            self._new.add(self._path(base_offset, FileKind.TIME_INDEX), bytes(indexes.time_index))
        if self._aborted:
            self._new.add(self._path(base_offset, FileKind.TXN_INDEX), bytes(self._aborted))
            self._aborted.clear()
        # Epochs only rise (LeaderEpochFileCache.assign): the next segment repeats the last one of the segment before
        # it.
        self._epochs += [each for each in indexes.epochs if not self._epochs or each[0] > self._epochs[-1][0]]
        # UnifiedLog.roll takes a snapshot at the base offset of the new segment, UnifiedLog.close one at the log end.
        self._snapshot(segment.end_offset if roll is None else roll.next_base)

    def flush(self, end_offset: int) -> None:
        """Do nothing: complete files are flushed."""

    # --- the rest -----------------------------------------------------------------------------------------------------
    def finish(self, end_offset: int) -> None:
        """Write the leader epochs and partition.metadata.

        Raises RefusedError if the leader epochs contradict the log.
        """
        if self._rules.has_producers:
            self._write_epochs(end_offset)
        copy_beside(self._new, self._partition.path, self._name, FileKind.PARTITION_METADATA)

    def _write_epochs(self, end_offset: int) -> None:
        file = read_epoch_file(self._partition.path)
        entries: list[tuple[int, int]] = self._epochs
        if file is not None and file.refusal is None:
            # The file knows epochs that retention or the cleaner removed from the log, so it comes before what the
            # batches show.
            entries = [(each.epoch, each.start_offset) for each in file.entries]
            # A start deletes epochs that begin at or after the log end offset (LeaderEpochFileCache.truncateFromEnd); a
            # copy that loses an epoch in silence is refused.
            beyond = next((EpochStart(*each) for each in entries if each[1] > end_offset), None)
            if beyond is not None:
                reason = (
                    f"leader epoch {beyond.epoch} starts at offset {beyond.start_offset}, after the log end offset "
                    f"{end_offset}"
                )
                repair = f"kafkalog recover {shell_path(self._partition.path)}"
                raise RefusedError(Refusal(reason, (WayOut("repair the file first", repair),)), path=file.path)
        name = fixed_file_name(FileKind.LEADER_EPOCH)
        self._new.add(f"{self._name}/{name}", encode_epoch_checkpoint(entries))

    # --- producers ----------------------------------------------------------------------------------------------------
    def _first_states(self) -> ProducerStates:
        """Return the producers at the start of the log: those of the first segment's snapshot, or none."""
        first = self._partition.segments[0].snapshot
        known = None if first is None else load_states(first.path)
        states = ProducerStates(sequences="unchecked") if known is None else known
        states.ends_empty = self._rules.lists_empty_transactions
        return states

    def _snapshot(self, offset: int) -> None:
        """Write the snapshot of an offset: the broker's own if it is readable, because it has silent producers too."""
        # A start deletes snapshots at or below the log start offset (ProducerStateManager.truncateAndReload).
        if not self._rules.has_producers or offset <= self._partition.segments[0].base_offset:
            return
        content = None
        if offset in [*self._snapshots] and load_states(self._snapshot_path(offset)) is not None:
            content = self._snapshots.read(offset)
        if content is None:
            rules = self._rules
            entries = self._states.snapshot_entries(rules.snapshot_style)
            content = encode_snapshot(entries, order=rules.snapshot_order)
        self._new.add(self._path(offset, FileKind.SNAPSHOT), content)

    def _snapshot_path(self, offset: int) -> str:
        return f"{self._partition.path}/{segment_file_name(offset, FileKind.SNAPSHOT)}"

    def _path(self, offset: int, kind: FileKind) -> str:
        return f"{self._name}/{segment_file_name(offset, kind)}"


_NEW_FILES_BYTES: Final = 64 * 1024
"""Room for the small files of a partition, whole blocks of them."""
_SERVED: Final = frozenset({DirectoryState.CURRENT})


class RollRequest(Struct, frozen=True, kw_only=True):
    """The request of `kafkalog roll`.

    Args:
        targets: partitions and log directories, from `targets.resolve`.
        kafka: release and settings.
        seed: of the jitter; None: no jitter is subtracted.
        to: the new log directory; None: nothing is written.
        jobs: the largest number of processes.
        max_batch_bytes: the largest batch that is read.
    """

    targets: tuple[Target, ...]
    kafka: SettingsRequest = field(default_factory=SettingsRequest)
    seed: int | None = None
    to: str | None = None
    jobs: int = 1
    max_batch_bytes: int = MAX_BATCH_BYTES


def roll(
    request: RollRequest, report: Report, progress: Progress = NO_PROGRESS, *, disk: Disk | None = None
) -> Generator[RollForecast, None, None]:
    """Yield the forecast of each partition, in the order of the targets.

    With `to`, `disk` writes the new log directory, which is complete before the first forecast is yielded.

    Raises:
        SelectionError: The request names a single file or, with `to`, parts of several log directories.
        SettingError: No broker accepts these settings.
        RefusedError: The new directory cannot be written, or not from this log; nothing of it is left.
        LockedError: A broker runs on the log directory that is to be copied.
    """
    check_topics(request.kafka.topics, request.targets)
    targets = [each for each in target_dirs(request.targets) if each.partitions or each.files]
    for target in targets:
        target.check_no_files("kafkalog roll works on whole logs: name the directory of the partition")
    if request.to is not None:
        writing = _Writing(request, only_target_dir(targets), request.to, disk or Disk())
        yield from _counted(writing.forecasts(progress), report)
        return
    tasks = [task for target in targets for task, _ in _tasks(_context(target, request), request)]
    report.expect(partitions=len(tasks))
    size_bytes = sum(task.size_bytes for task in tasks)
    progress.expect(size_bytes)
    forecasts = run_all(forecast, [(task,) for task in tasks], request.jobs, size_bytes, progress)
    yield from _counted((stray_first(each, task.stray) for task, each in zip(tasks, forecasts, strict=True)), report)


def _context(target: TargetDir, request: RollRequest) -> DirContext:
    """Return what is known of a directory; no rule of a roll depends on the current time, so it is 0.

    A roll writes every record into a copy, so its options act on topics that are not named too.
    """
    return read_context(target, replace(request.kafka, names_topics=True), 0, needs_log_files=True)


def _tasks(context: DirContext, request: RollRequest) -> Iterator[tuple[RollTask, Partition]]:
    """Yield the partitions, except the cluster metadata log, which has its own settings and rules."""
    for place in context.target.partitions:
        if place.name.state is DirectoryState.DELETE or place.name.topic == METADATA_TOPIC:
            continue
        partition = read_partition(place.path)
        task = RollTask(
            path=place.path,
            guess=context.guess,
            settings=context.settings.for_topic(partition.topic),
            seed=request.seed,
            max_batch_bytes=request.max_batch_bytes,
            size_bytes=sum(segment.size_bytes for segment in partition.segments),
            stray=context.assigned_elsewhere.get(place.path),
        )
        yield task, partition


def _counted(forecasts: Iterator[RollForecast], report: Report) -> Iterator[RollForecast]:
    """Yield the forecasts, and count what was read and every row."""
    for each in forecasts:
        row = each.partition
        report.partitions += 1
        report.files += _number(row, "segments_before")
        report.bytes += _number(row, "bytes")
        report.batches += _number(row, "batches")
        report.records += _number(row, "records")
        report.uncounted_batches += _number(row, "uncounted_batches")
        for finding in each.findings:
            report.add_finding(finding.row())
        report.rows += sum(chunk.count for chunk in each.chunks())
        yield each


def _number(row: Mapping[str, object], name: str) -> int:
    value = row.get(name)
    return value if isinstance(value, int) else 0


class _Writing:
    """Writes the logs of a log directory, rolled again, into a new one."""

    def __init__(self, request: RollRequest, target: TargetDir, to: str, disk: Disk) -> None:
        self._request = request
        self._target = target
        self._context = _context(target, request)
        self._to = to
        self._disk = disk
        self._ends: dict[Key, int] = {}
        self._cleaned: dict[Key, int] = {}
        self._seen: list[FileInfo] = []

    def forecasts(self, progress: Progress) -> Iterator[RollForecast]:
        """Write the new directory, then yield the forecasts."""
        log_dir = self._target.log_dir
        # A live broker appends to the segments that are read.
        check_not_running(log_dir)
        tasks = _tasks(self._context, self._request)
        work = [(task, partition) for task, partition in tasks if partition.name.state in _SERVED]
        if not work:
            raise SelectionError("a broker serves none of these partitions", path=self._target.root)
        size_bytes = sum(task.size_bytes for task, _ in work)
        progress.expect(size_bytes)
        self._check(work)
        done: list[RollForecast] = []
        needs_bytes = size_bytes + _NEW_FILES_BYTES * len(work)
        # Nothing is visible under the final name until `commit`: an interrupted copy cannot be mistaken for a log
        # directory.
        with NewDir(self._to, disk=self._disk, like=work[0][1].path, needs_bytes=needs_bytes) as new:
            for task, partition in work:
                done.append(stray_first(self._write(new, task, partition, progress), task.stray))
            # The metadata log is copied as it is: segments of the raft log are not rolled by topic settings.
            for place in self._target.partitions:
                if place.name.topic == METADATA_TOPIC:
                    copy_directory(new, place.path, place.name.raw)
            write_broker_files(new, self._context.broker_dir, self._ends, cleaned=self._cleaned)
            # After the last byte was read and before the directory gets its name.
            check_untouched(self._seen)
            check_not_running(log_dir)
            new.commit()
        left_out = tuple(self._left_out())
        done[-1] = replace(done[-1], findings=(*done[-1].findings, *left_out))
        yield from done

    def _check(self, work: Sequence[tuple[RollTask, Partition]]) -> None:
        """Raise RefusedError for all partitions that cannot be written, before any is."""
        refused = [
            Refused(partition.path, partition.name.raw, partition.name.topic, why)
            for task, partition in work
            if (why := _why_refused(task, partition)) is not None
        ]
        if refused:
            refusal = of_partitions(refused)
            waiting = [
                shell_path(partition.path) for _, partition in work if waiting_replacement(partition) is not None
            ]
            see = f"kafkalog truncate --as-broker {' '.join(waiting)}"
            ways = (WayOut("see what a broker does with a replacement", see),) if waiting else ()
            raise RefusedError(replace(refusal, ways=(*ways, *refusal.ways)), path=place_of(refused, self._target.root))

    def _write(self, new: NewDir, task: RollTask, partition: Partition, progress: Progress) -> RollForecast:
        name = partition.name
        if not task.guess.agree(lambda release: (append_rules(release), recovery_rules(release))):
            reason = f"the release of Kafka is not certain, and indexes differ: {task.guess.describe()}"
            state = WayOut("state the release", options="--kafka VERSION")
            raise RefusedError(Refusal(reason, (state,)), path=partition.path)
        self._seen += (segment.files[0] for segment in partition.segments)
        rules = recovery_rules(task.guess.release)
        files = PartitionFiles(new, partition, rules, max_batch_bytes=task.max_batch_bytes)
        result = play(task, partition, progress.advance, files=files, to=self._to)
        if not result.is_whole:
            problem = next(finding for finding in result.findings if finding.severity == "error")
            raise RefusedError(f"{problem.message} {problem.cure}", path=problem.path)
        files.finish(result.end_offset)
        # Entries for the checkpoints by topic and partition, as OffsetCheckpointFile writes them.
        if name.topic is not None and name.partition is not None:
            self._ends[name.topic, name.partition] = result.end_offset
            self._note_cleaned((name.topic, name.partition), task, partition, result)
        return result

    def _note_cleaned(self, key: Key, task: RollTask, partition: Partition, result: RollForecast) -> None:
        """Note how far a log was cleaned; before 0.10.1 a cleaner fails at a checkpoint that is within a segment."""
        cleaned = self._context.offset(FileKind.CLEANER_OFFSET, partition.name)
        if cleaned is None:
            return
        # 0.8.2 to 0.10.0: the cleaner raises an error if the checkpoint is not the base offset of a segment.
        if cleaning_rules(task.guess.release).starts_at_segment:
            bases = [base for row in result.segments if isinstance(base := row["base_offset"], int) and base <= cleaned]
            cleaned = max(bases, default=cleaned)
        self._cleaned[key] = cleaned

    def _left_out(self) -> Iterator[Finding]:
        for place in self._target.partitions:
            if place.name.state not in _SERVED:
                yield found("roll.left-out", place.path, topic=place.name.topic, partition=place.name.partition)


def _why_refused(task: RollTask, partition: Partition) -> str | None:
    """Return why the segments of a partition cannot be written again, a clause; None: they can."""
    if partition.format == "v07" or not partition.segments:
        return "it has no segment of Kafka 0.8 or later"
    if waiting_replacement(partition) is not None:
        return "a finished replacement of segments is waiting here"
    if task.settings.remote_storage_enable:
        return "the topic has remote storage, which identifies segments by offset, and new segments would have others"
    return None
