"""Plan what a clean makes of logs: a plan that replaces segments in place.

The plan's changes are in this order. A broker may be started, by mistake or by a watchdog, between any two of them; it
then loses nothing that the plan keeps, and finds no offset twice:

- `.cleaned` files, which a cleaner of the broker did not finish, are deleted first, as at a start: with them, a start
  could delete a replacement that is half done.
- Groups of segments follow from the first to the last, each replaced at once (`storage.changing.replacement`): a
  tombstone or a marker may be deleted only after the records that it deletes, or the transaction that it ends, are
  deleted. Undo restores them from the last to the first.
- The cleaner's checkpoint comes last, for all logs: with the old one, the cleaner begins too early, and cleans again
  what is clean.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, cast

from kafkalog_core.errors import CleanError, RefusedError
from kafkalog_core.findings import found
from kafkalog_core.format.checkpoint import encode_offset_checkpoint
from kafkalog_core.format.index import encode_txn_entry
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.format.names import FileKind, FileState, fixed_file_name, segment_file_name
from kafkalog_core.kafka.rules.cleaner_rules import cleaner_settings, cleaning_rules
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.rules.rule_table import append_rules, rules_of
from kafkalog_core.kafka.rules.setting_table import producer_expiration_name
from kafkalog_core.kafka.sim.cleaner.log import read_clean_log
from kafkalog_core.kafka.sim.start.segment_views import check_now
from kafkalog_core.ops.compact.compact import tasks_of
from kafkalog_core.ops.compact.forecast import CompactRequest, assumptions_of, watermark_findings
from kafkalog_core.ops.compact.simulation import Cleaning, failure_of, last_clean
from kafkalog_core.ops.repair.context import (
    distinct_settings,
    waiting_replacement,
)
from kafkalog_core.ops.repair.copied_files import (
    check_untouched,
    checkpointed_offsets,
)
from kafkalog_core.ops.repair.plan import PlanReport
from kafkalog_core.refusals import Refused, of_partitions, place_of
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.rules.setting_table import Setting
    from kafkalog_core.kafka.sim.cleaner.clean import CleanPass, Group
    from kafkalog_core.kafka.sim.evidence import ReleaseGuess
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir, Key
    from kafkalog_core.kafka.sim.start.segment_views import PartitionView
    from kafkalog_core.ops.compact.forecast import CompactTask
    from kafkalog_core.ops.repair.assumptions import Assumption
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "NewSegment",
    "compacted_bytes",
    "groups_of",
    "is_certain",
    "key_of",
    "plan_compact",
    "replaced_files",
    "replacement_finding",
    "retention_findings",
    "stage_checkpoint",
    "stage_clean",
]


_NS_PER_MS: Final = 1_000_000


class NewSegment:
    """The segment that a group of segments becomes: its log in pieces, and after these its other files."""

    def __init__(self, group: Group) -> None:
        self._group = group

    @property
    def mtime_ns(self) -> int:
        """The modification time of log and indexes; a broker sets it in milliseconds."""
        # LogSegment.setLastModified takes milliseconds. With more digits, a cleaned copy would differ from what a
        # broker writes.
        return self._group.mtime_ns // _NS_PER_MS * _NS_PER_MS

    def log(self) -> Iterator[memoryview]:
        """Yield the log, each piece valid until the next. Raises CleanError and StorageError."""
        for chunk in self._group.chunks():
            yield chunk.data

    def indexes(self) -> Iterator[tuple[FileKind, bytes]]:
        """Yield the offset index, and the time index if the release has one."""
        yield FileKind.OFFSET_INDEX, self._group.indexes.offset_index
        time_index = self._group.indexes.time_index
        if time_index is not None:
            yield FileKind.TIME_INDEX, time_index

    def txn_index(self) -> bytes:
        """Return the transaction index; empty: there is none."""
        return b"".join(
            encode_txn_entry(txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
            for txn in self._group.aborted
        )


def stage_clean(work: CleanPass, partition: Partition, cleaning: Cleaning, stage: Stage) -> None:
    """Stage all changes in the directory of a partition. Raises CleanError and StorageError."""
    # LogLoader.removeTempFilesAndCollectSwapFiles takes the smallest offset among `.cleaned` files as the mark of an
    # interrupted split, and deletes every `.swap` at or above it.
    for file in partition.files:
        if file.name.state is FileState.CLEANED:
            stage.remove(file.path, why="an unfinished clean left it")
    for group, sources in groups_of(work, partition):
        _stage_group(NewSegment(group), sources, cleaning, stage)


def groups_of(work: CleanPass, partition: Partition) -> Iterator[tuple[Group, Sequence[Segment]]]:
    """Yield the segments that a clean makes, each with the segments of the log that it replaces.

    Its own sources are other segments if the log needed several cleans: those that the clean before it made.
    """
    bases = [group.base_offset for group in work.groups]
    covered = [segment for segment in partition.segments if segment.base_offset < work.end_offset]
    # Groups and covered segments by offset, not by name: after several cleans the sources are temporary files.
    for number, group in enumerate(work.run()):
        first = bisect_left(covered, bases[number], key=_base_offset)
        end = bisect_left(covered, bases[number + 1], key=_base_offset) if number + 1 < len(bases) else len(covered)
        yield group, covered[first:end]


def replaced_files(sources: Sequence[Segment], cleaning: Cleaning) -> Iterator[str]:
    """Yield the files that a new segment replaces: from 2.8 on, with the snapshots of all segments but the first."""
    # LocalLog.replaceSegments deletes the snapshots of segments that vanish (2.8 and later); the first segment keeps
    # its base offset, and so its snapshot.
    takes_snapshots = rules_of(cleaning.rules.release).removes_stray_snapshots
    for source in sources:
        for file in source.files:
            if file.name.kind is not FileKind.SNAPSHOT or (takes_snapshots and source is not sources[0]):
                yield file.path


def _stage_group(new: NewSegment, sources: Sequence[Segment], cleaning: Cleaning, stage: Stage) -> None:
    """Stage the replacement of segments by one, which gets the name of the first."""
    base = sources[0].base_offset
    like = sources[0].files[0].path
    directory = like.rpartition("/")[0]
    what = f"segment {base} cleaned"
    if len(sources) > 1:
        what = f"segments {base} to {sources[-1].base_offset} cleaned and merged"
    # The log and its companions have one `swap` mark: the journal replaces them together, as LocalLog.replaceSegments
    # does by the suffix `.swap`.
    stage.write(like, new.log(), why=what, like=like, mtime_ns=new.mtime_ns, swap=base)
    for kind, content in new.indexes():
        path = f"{directory}/{segment_file_name(base, kind)}"
        stage.write(path, [content], why=what, like=like, mtime_ns=new.mtime_ns, swap=base)
    txn_index, path = new.txn_index(), f"{directory}/{segment_file_name(base, FileKind.TXN_INDEX)}"
    # Here, after the last byte of the group was read: a source that changed while it was read has given a mixture.
    check_untouched(source.files[0] for source in sources)
    if txn_index:
        # Only `.log`, `.index` and `.timeindex` get the time of the last source segment (Cleaner.cleanSegments,
        # LogSegment.setLastModified); a transaction index has the time of its writing.
        stage.write(path, [txn_index], why=what, like=like, swap=base)
    else:
        # LocalLog.collectAbortedTransactions trusts the index: entries of transactions without records would be part of
        # every read_committed fetch.
        stage.remove(path, why="no aborted transaction has records left here", swap=base)
    own = {file.path for file in sources[0].files}
    for path in replaced_files(sources, cleaning):
        if path not in own:
            stage.remove(path, why=f"its remaining records are in segment {base}", swap=base)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def stage_checkpoint(broker_dir: BrokerDir, cleaned: Mapping[Key, int], stage: Stage) -> None:
    """Stage the cleaner's checkpoint; entries of partitions that are not in this log directory are removed."""
    known = checkpointed_offsets(broker_dir, FileKind.CLEANER_OFFSET) or {}
    # LogCleanerManager.updateCheckpoints drops the entries of partitions without a log here.
    entries = {key: offset for key, offset in known.items() if key in broker_dir.served} | dict(cleaned)
    path = f"{broker_dir.path}/{fixed_file_name(FileKind.CLEANER_OFFSET)}"
    content = encode_offset_checkpoint((*key, offset) for key, offset in entries.items())
    stage.write(path, [content], why="how far each log was cleaned", like=_model_of_checkpoint(broker_dir))


def _model_of_checkpoint(broker_dir: BrokerDir) -> str:
    """Return the file whose owner and mode the checkpoint gets: itself, else another checkpoint, else the directory."""
    kinds = {FileKind.CLEANER_OFFSET, FileKind.RECOVERY_POINT, FileKind.HIGH_WATERMARK}
    live = [file for file in broker_dir.log_dir.files if file.name.state is FileState.LIVE and file.name.kind in kinds]
    # The cleaner takes a log directory offline if it may not read the checkpoint, so owner and mode matter.
    live.sort(key=lambda file: file.name.kind is not FileKind.CLEANER_OFFSET)
    return live[0].path if live else broker_dir.path


_SHOWN: Final = 3
_READS: Final = 2


def plan_compact(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """Plan `kafkalog compact --apply`: stage the cleans of all partitions.

    Options: `kafka` (of a SettingsRequest), `memory_bytes`, `max_passes`, `max_batch_bytes` (each may be None) and
    `force`. Logs that a broker would not clean now are not changed; the note names them.

    Raises:
        SelectionError: single files were named.
        SettingError: a broker refuses the settings.
        RefusedError: a clean would fail.
    """
    return _Planner(request, stage, progress).plan()


def compacted_bytes(request: PlanRequest) -> int:
    """Return the size of the logs that are compacted, in bytes."""
    return sum(task.size_bytes for task in _tasks(request) if task.view is not None)


def _tasks(request: PlanRequest) -> list[CompactTask]:
    options = request.options
    asked = CompactRequest(
        targets=(),
        now_ms=request.now_ms,
        kafka=request.settings,
        memory_bytes=cast("int | None", options.get("memory_bytes")),
        max_passes=cast("int | None", options.get("max_passes")),
        force=bool(options.get("force")),
        max_batch_bytes=cast("int", options.get("max_batch_bytes") or MAX_BATCH_BYTES),
    )
    return list(tasks_of(request.target, asked))


class _Planner:
    def __init__(self, request: PlanRequest, stage: Stage, progress: Progress) -> None:
        self._request = request
        self._stage = stage
        self._progress = progress
        self._cleaned: dict[Key, int] = {}
        self._left: list[str] = []
        self._findings: list[Finding] = []
        self._refusals: list[Finding] = []
        self._settings: list[Setting] = []
        self._assumptions: dict[Assumption, None] = {}
        self._failed: list[Refused] = []

    def plan(self) -> PlanReport:
        """Clean one log after another, then stage the cleaner's checkpoint."""
        tasks = _tasks(self._request)
        check_now([task.view for task in tasks if task.view is not None], self._request.now_ms)
        # Mapping reads the dirty part, cleaning the whole: twice the size is the most that is read.
        self._progress.expect(_READS * sum(task.size_bytes for task in tasks if task.view is not None))
        for task in tasks:
            self._clean(task)
        if self._failed:
            every = of_partitions(self._failed, " to clean the others").before_any_change()
            raise RefusedError(every, path=place_of(self._failed, self._request.target.root))
        context = tasks[0].context if tasks else None
        guess = None if context is None else context.guess
        # After all logs: with the checkpoint first, a crash would leave dirty records that the cleaner counts as clean.
        if context is not None and context.broker_dir is not None and self._cleaned:
            stage_checkpoint(context.broker_dir, self._cleaned, self._stage)
        return PlanReport(
            findings=tuple(self._findings),
            refusals=tuple(self._refusals),
            settings=distinct_settings(self._settings),
            release=guess,
            needs_release=guess is not None and not is_certain(guess),
            assumptions=tuple(self._assumptions),
            held=tuple(dict.fromkeys(held for task in tasks for held in task.held)),
            note=self._note(),
        )

    def _clean(self, task: CompactTask) -> None:
        name = f"{task.topic}-{task.partition}"
        self._findings += () if task.stray is None else (task.stray,)
        if task.never is not None or task.view is None:
            self._left.append(f"{name}: {'no segment can be read' if task.never is None else task.never[1]}")
            return
        finding = replacement_finding(task.view)
        if finding is not None:
            self._refusals.append(finding)
            return
        names = cleaner_settings(task.context.release)
        self._settings += [setting for setting in task.of_topic.settings if setting.name in names]
        cleaning = Cleaning.of(task, self._progress)
        log = read_clean_log(task.view, task.context.broker_dir, cleaning.rules, cleaning.config, task.options.now_ms)
        try:
            # The last of several cleans: only its segments are written in place, the ones in between exist as temporary
            # files.
            with last_clean(log, cleaning) as (before, work):
                if work is not None:
                    stage_clean(work, task.view.partition, cleaning, self._stage)
                    self._note_end(task, work.end_offset)
                    self._assumptions.update(dict.fromkeys(assumptions_of(task, task.view)))
                    self._findings += (*watermark_findings(task, task.view), *retention_findings(task))
                    return
                self._left.append(f"{name}: {before.why}")
                # The cleaner does so when it considers the log, even if it does not clean it
                # (LogCleanerManager.cleanableOffsets forces an update of the checkpoint).
                if before.resets_checkpoint:
                    self._note_end(task, before.first_dirty)
        # The whole plan is refused, since a broker marks the log as uncleanable at the same place
        # (LogCleanerManager.markPartitionUncleanable).
        except CleanError as error:
            self._failed.append(failure_of(task, error))

    def _note_end(self, task: CompactTask, offset: int) -> None:
        key = None if task.view is None else key_of(task.context.broker_dir, task.view)
        if key is not None:
            self._cleaned[key] = offset

    def _note(self) -> str | None:
        if not self._left:
            return None
        more = len(self._left) - _SHOWN
        shown = [
            *self._left[:_SHOWN],
            *([f"and {more} more (kafkalog compact without --apply names them)"] if more > 0 else []),
        ]
        return f"not changed: {'; '.join(shown)}"


def key_of(broker_dir: BrokerDir | None, view: PartitionView) -> Key | None:
    """Return the key of a partition in checkpoints; None: it has none, or the broker serves another directory."""
    if broker_dir is None or view.topic is None or view.number is None:
        return None
    return (view.topic, view.number) if broker_dir.is_served(view.partition.name) else None


def replacement_finding(view: PartitionView) -> Finding | None:
    """Return a finding if a finished replacement of segments is waiting, which a clean must not mix with; else None."""
    file = waiting_replacement(view.partition)
    if file is None:
        return None
    name = file.path.rpartition("/")[2]
    return found("compaction.replacement", file.path, topic=view.topic, partition=view.number, name=name)


def retention_findings(task: CompactTask) -> tuple[Finding, ...]:
    """Return the finding that retention follows the clean, if the cleanup policy includes delete."""
    # LogCleaner deletes old segments of `compact,delete` topics after each clean: the plan shows the clean alone.
    if "delete" not in task.of_topic.cleanup_policy:
        return ()
    return (found("compaction.retention-follows", task.path, topic=task.topic, partition=task.partition),)


def is_certain(guess: ReleaseGuess) -> bool:
    """Return whether the release is known, or all possible releases clean in the same way."""
    return guess.agree(_rules)


def _rules(release: Release) -> object:
    """Return the rules of a release on which a clean depends: cleaner, indexes, snapshots, producer expiration."""
    return (
        # The release itself is in these rules; it is set to one value so that only differences of behaviour count.
        replace(cleaning_rules(release), release=LATEST),
        append_rules(release).bits,
        rules_of(release).removes_stray_snapshots,
        producer_expiration_name(release),
    )
