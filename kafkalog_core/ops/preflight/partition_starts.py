"""What the next start of a broker does to one partition: its steps, what is lost, and what remains wrong silently."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.findings.logs import STARTS_LATER
from kafkalog_core.format.names import METADATA_TOPIC, FileKind, fixed_file_name, parse_file_name, segment_file_name
from kafkalog_core.kafka.sim.logdir.leader_epochs import read_epoch_file
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.starting_segment import LogReading
from kafkalog_core.ops.cluster.losses import measure_losses
from kafkalog_core.ops.truncate.as_broker import truncate_as_broker, voided_replacements
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.start.disk import Fate
    from kafkalog_core.kafka.sim.start.results import LoadedSegment, LoadResult
    from kafkalog_core.kafka.sim.start.snapshots import SnapshotFiles
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "CutCount",
    "Loading",
    "PartitionStart",
    "StartStep",
    "load_partition",
    "total_of",
    "with_findings",
]

StepKind = Literal["recovered", "truncated", "emptied", "deleted", "renamed", "created", "written", "rewritten"]
_IN_A_LOG: Final = frozenset({"log", "batch", "record", "segment", "txn"})
_OF_INDEXES: Final = frozenset({"index", "timeindex", "txnindex"})
_REBUILT: Final = frozenset({"segment.index-missing", "segment.timeindex-missing"})
_UNLISTED: Final = "segment.swap-txnindex-missing"
_LOST_BEFORE: Final = frozenset({"high-watermark.beyond-end", "high-watermark.maybe-beyond"})
"""The log has lost committed records before the start, which lowers the high watermark silently."""
_HOLES: Final = frozenset({"segment.gap", "batch.gaps", _UNLISTED, *_LOST_BEFORE})
"""Warnings about records that are missing, or are served though they were aborted: nobody reports that after the start.
"""
_OF_THE_START: Final = frozenset({"log.stops-broker", "log.end-unreadable", "log.end-hidden", *STARTS_LATER.values()})
"""Findings that are themselves about the start."""
_EPOCHS: Final = fixed_file_name(FileKind.LEADER_EPOCH)


class StartStep(Struct, frozen=True, kw_only=True):
    """One thing that a start does to one file.

    Args:
        kind: what it does.
        path: of the file.
        position: byte from which on a log is truncated.
        offset: of that byte, or of the file.
        size_bytes: bytes of a log that are deleted.
        why: a clause; empty: that is normal.
        reason: of the damage at which a log is truncated, as in `SegmentRecovery.stop`; None: there is none.
    """

    kind: StepKind
    path: str
    position: int | None = None
    offset: int | None = None
    size_bytes: int = 0
    why: str = ""
    reason: str | None = None


class PartitionStart(Struct, frozen=True, kw_only=True):
    """One partition and its start.

    Args:
        place: its directory.
        log_dir: path of the log directory.
        result: of its load; None: it is not simulated.
        steps: what it does to its files; of a load that does not come to its end none.
        losses: what it deletes.
        cut: how records are lost: by a truncation, because the log ends below its start, or because a replacement of
            segments has less; None: none are.
        recovery_bytes: bytes that recovery reads.
        records: number of records before the start, as far as headers count them.
        last_offset: the last offset in the last segment before the start; None: unknown, or none.
        fate: what becomes of it.
        silent: findings about what the start neither repairs nor notices.
    """

    place: PartitionPath
    log_dir: str
    result: LoadResult | None
    steps: tuple[StartStep, ...] = ()
    losses: tuple[Loss, ...] = ()
    cut: Literal["truncated", "below-start", "replaced"] | None = None
    recovery_bytes: int = 0
    records: int = 0
    last_offset: int | None = None
    fate: Fate = "loaded"
    silent: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """The name of its directory."""
        return self.place.name.raw

    @property
    def lost_records(self) -> int | None:
        """Records that the start deletes; None: they cannot be counted."""
        return total_of(loss.records for loss in self.losses)

    @property
    def lost_committed(self) -> int | None:
        """Those below the checkpointed high watermark; None: unknown."""
        return total_of(loss.committed_records for loss in self.losses)

    @property
    def first_lost(self) -> int | None:
        """The first offset that is lost: where the log is truncated, or of what is deleted; None: unknown, or none."""
        cut = next((step.offset for step in self.steps if step.kind in {"truncated", "emptied"}), None)
        if self.place.name.topic == METADATA_TOPIC:  # what is before its snapshot is not lost
            cut = None
        firsts = [loss.first_offset for loss in self.losses if loss.first_offset is not None]
        return min(firsts, default=None) if cut is None else cut

    @property
    def lost_bytes(self) -> int:
        """Bytes of log that it deletes; those that a replacement of segments holds do not count."""
        return sum(loss.bytes for loss in self.losses)

    @property
    def hidden_offsets(self) -> int:
        """Offsets after the log end offset that the broker finds; it assigns them again where it serves the log."""
        result = self.result
        if result is None or self.fate != "loaded" or self.last_offset is None:
            return 0
        if self.is_truncated and not result.is_end_lost:  # what is after the end is lost, not hidden
            return 0
        return max(0, self.last_offset + 1 - result.end_offset)

    @property
    def has_disorder_of_metadata(self) -> bool:
        """Whether it is a metadata log whose offsets go back: a node may end at the records, or replay them twice."""
        is_metadata = self.place.name.topic == METADATA_TOPIC
        return is_metadata and any(finding.code == "batch.offset-order" for finding in self.silent)

    @property
    def is_cut(self) -> bool:
        """Whether the start truncates its log, be it a torn end."""
        return any(step.kind in {"truncated", "emptied"} for step in self.steps)

    @property
    def is_truncated(self) -> bool:
        """Whether the start truncates or deletes its log, or replaces segments of it by less."""
        return bool(self.losses) or self.is_cut

    @property
    def is_harmed(self) -> bool:
        """Whether records are lost, hidden, or not served."""
        is_served = self.fate in {"loaded", "deleted", "set-aside"}
        return bool(not is_served or self.losses or self.hidden_offsets)

    @property
    def is_touched(self) -> bool:
        """Whether there is something to say of this partition, and not of its log directory alone."""
        has_own_fate = self.fate in {"refused", "stray", "unknown"}
        is_changed = bool(self.losses or self.hidden_offsets) or any(step.why for step in self.steps)
        return has_own_fate or is_changed or bool(self.silent)


def load_partition(place: PartitionPath, log_dir: str, facts: PartitionFacts) -> PartitionStart:
    """Simulate the load of one partition, and measure what it deletes."""
    try:
        partition = read_partition(place.path)
    except StorageError:  # verify reports it
        return PartitionStart(place=place, log_dir=log_dir, result=None)
    loading = Loading(partition, facts)
    loading.go_on()
    return loading.start(place, log_dir)


class Loading:
    """The simulated load of one partition while its logs are read.

    Args:
        partition: its files.
        facts: its log directory and the release.
    """

    def __init__(self, partition: Partition, facts: PartitionFacts) -> None:
        self._partition = partition
        self._facts = facts
        self._read: list[int] = []
        # Kafka 0.7 keeps no index and no checkpoint: its start is that of `truncate --as-broker`
        self._load: PartitionLoad | None = None
        if partition.format != "v07" and facts.context.is_clean is not None:
            self._load = PartitionLoad(partition, facts.context, facts.load_options, advance=self._read.append)
        self._steps = iter(()) if self._load is None else self._load.steps()

    def go_on(self, until: int | None = None) -> LogReading | None:
        """Go on up to the recovery of a log that another one reads: of the segment at a base offset or a later one.

        It is called again when that log is read. None: the load has ended. `until` None: no other one reads a log.
        """
        for item in self._steps:
            if isinstance(item, LogReading):
                if until is not None and item.segment is not None and item.segment.base_offset >= until:
                    return item
                item.walk()
        return None

    def start(self, place: PartitionPath, log_dir: str, count: CutCount | None = None) -> PartitionStart:
        """Return the start after its end; `count` has what was counted of what it deletes."""
        if self._load is None:
            return PartitionStart(place=place, log_dir=log_dir, result=None)
        partition, result, watermark = self._partition, self._load.result, self._facts.high_watermark
        start = PartitionStart(place=place, log_dir=log_dir, result=result, recovery_bytes=sum(self._read))
        if result.problem is not None:
            return start
        losses: list[Loss] = []
        for cuts in _cuts(partition, self._facts, result):
            if count is not None and count.cuts == cuts:
                losses += [] if count.loss is None else [count.loss]
            else:
                losses += measure_losses(partition, cuts, watermark)
        return replace(
            start,
            steps=tuple(_steps(partition, result, self._load.snapshots)),
            losses=tuple(losses),
            cut=_cause(result) if losses else None,
        )


class CutCount(NamedTuple):
    """The loss of parts of logs that follow each other: the path of each, and the byte from which it is deleted."""

    cuts: list[tuple[str, int]]
    loss: Loss | None


def _cause(result: LoadResult) -> Literal["truncated", "below-start", "replaced"]:
    if any(each.lost_bytes for each in result.segments):
        return "truncated"
    return "below-start" if result.removed else "replaced"


def total_of(counts: Iterable[int | None]) -> int | None:
    """Return the sum of numbers; None: one of them is unknown."""
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)


def with_findings(start: PartitionStart, findings: Sequence[Finding]) -> PartitionStart:
    """Return a start with the findings of the partition that are true after it, as before it."""
    result = start.result
    # what the broker renames to -stray it never reads again, so nobody meets what is wrong in it
    if result is None or result.problem is not None or start.fate not in {"loaded", "unserved"}:
        return start
    gone = _Gone(start, result)
    silent = [finding for finding in findings if _is_wrong(finding) and not gone.has(finding)]
    return replace(start, silent=tuple(silent))


def _is_wrong(finding: Finding) -> bool:
    return (finding.severity == "error" or finding.code in _HOLES) and finding.code not in _OF_THE_START


# --- what is deleted --------------------------------------------------------------------------------------------------
def _cuts(partition: Partition, facts: PartitionFacts, result: LoadResult) -> Iterator[list[tuple[str, int]]]:
    """Yield the deleted parts, each a list of logs that follow each other, with the byte from which each is deleted."""
    shorter = [(each.segment.files[0].path, each.size_bytes) for each in result.segments if _is_shorter(each)]  # type: ignore[union-attr]
    removed = [(each.segment.files[0].path, 0) for each in result.removed if each.segment.log is not None]
    apart = len(shorter) - bool(removed)
    # a log that is truncated and the segments that are deleted after it lose one range of offsets
    yield from ([cut] for cut in shorter[: max(0, apart)])
    if removed:
        yield [*shorter[max(0, apart) :], *removed]
    yield from ([cut] for cut in voided_replacements(partition, facts.load_options.loader))
    if result.moved:  # what replaces segments may lack records of theirs
        completion = truncate_as_broker(partition, facts, NO_PROGRESS.advance).completion
        yield from ([cut] for cut in (() if completion is None else completion.lost))


def _is_shorter(each: LoadedSegment) -> bool:
    return each.segment is not None and each.segment.log is not None and each.lost_bytes > 0


# --- steps ------------------------------------------------------------------------------------------------------------
def _steps(partition: Partition, result: LoadResult, snapshots: SnapshotFiles) -> Iterator[StartStep]:
    """Yield what a start does, in the order of `LogLoader.load`."""
    for file, why in result.swept:
        is_log = file.name.kind is FileKind.LOG
        yield StartStep(kind="deleted", path=file.path, size_bytes=file.size_bytes if is_log else 0, why=why)
    for file in result.moved:
        yield StartStep(kind="renamed", path=file.path, why="the broker completes the replacement of segments")
    for file in result.orphans:
        yield StartStep(kind="deleted", path=file.path, why="it has no log")
    for each in result.segments:
        yield from _of_segment(partition, each)
    for removed in result.removed:
        segment = removed.segment
        yield StartStep(
            kind="deleted",
            path=segment.files[0].path,
            offset=segment.base_offset,
            size_bytes=segment.size_bytes,
            why=removed.why,
        )
    for offset, path in snapshots.deleted.items():
        yield StartStep(kind="deleted", path=path, offset=offset)
    for offset in snapshots.written:
        name = segment_file_name(offset, FileKind.SNAPSHOT)
        yield StartStep(kind="written", path=f"{partition.path}/{name}", offset=offset)
    if _are_epochs_changed(partition, result):
        yield StartStep(kind="rewritten", path=f"{partition.path}/{_EPOCHS}")


def _of_segment(partition: Partition, each: LoadedSegment) -> Iterator[StartStep]:
    if each.segment is None:
        path = f"{partition.path}/{segment_file_name(each.base_offset, FileKind.LOG)}"
        yield StartStep(kind="created", path=path, offset=each.base_offset)
        return
    path = each.segment.files[0].path
    if each.is_emptied:
        why = "its offsets go back where an index entry is due"
        yield StartStep(
            kind="emptied", path=path, position=0, offset=each.base_offset, size_bytes=each.lost_bytes, why=why
        )
    elif each.lost_bytes:
        recovery = each.recovery
        offset = each.base_offset if recovery is None else recovery.end_offset
        why = "no whole batch follows" if recovery is None else recovery.stop_detail or "no whole batch follows"
        yield StartStep(
            kind="truncated",
            path=path,
            position=each.size_bytes,
            offset=offset,
            size_bytes=each.lost_bytes,
            why=why,
            reason=None if recovery is None else recovery.stop,
        )
    elif each.occasion is not None:
        why = "" if each.occasion in {"unclean-stop", "metadata-log"} else each.why
        yield StartStep(kind="recovered", path=path, offset=each.base_offset, why=why)


def _are_epochs_changed(partition: Partition, result: LoadResult) -> bool:
    if result.epochs is None:
        return False
    file = read_epoch_file(partition.path)
    return tuple(() if file is None else file.entries) != tuple(result.epochs)


# --- what remains wrong -----------------------------------------------------------------------------------------------
class _Gone:
    """What of the files before a start is not there after it, or was built again."""

    def __init__(self, start: PartitionStart, result: LoadResult) -> None:
        self._kept = {
            each.segment.log.path: each
            for each in result.segments
            if each.segment is not None and each.segment.log is not None
        }
        self._unrecovered = {each.base_offset for each in result.segments if each.occasion is None}
        self._by_stem = {path.rpartition(".")[0]: each for path, each in self._kept.items()}
        self._forgets = result.forgets_producers
        self._changed = {step.path for step in start.steps if step.kind in {"deleted", "written", "rewritten"}}

    def has(self, finding: Finding) -> bool:
        """Return whether a finding is no longer true after the start, or is not about the content of files."""
        if finding.code == _UNLISTED:  # a recovery of the segment rebuilds the transaction index too
            return parse_file_name(os.path.basename(finding.path)).base_offset not in self._unrecovered
        # UnifiedLog.updateHighWatermark takes the log end offset for a larger one, and logs no warning
        if finding.code in _LOST_BEFORE:
            return False
        # UnifiedLog.rebuildProducerState writes empty snapshots where a clean shutdown left none
        if finding.code == "snapshot.missing" and self._forgets:
            return False
        return finding.path in self._changed or self._is_rebuilt(finding)

    def _is_rebuilt(self, finding: Finding) -> bool:
        """Return whether a finding is about a part of a log or an index that the start deletes or writes again."""
        subject = finding.code.partition(".")[0]
        if subject in _IN_A_LOG:
            each = self._kept.get(finding.path)
            if finding.code in _REBUILT and each is not None:  # LogSegment.recover builds both indexes
                return each.occasion is not None or each.is_emptied
            if each is None:
                return subject != "segment" or parse_file_name(os.path.basename(finding.path)).kind is FileKind.LOG
            return finding.position is not None and finding.position >= each.size_bytes and each.lost_bytes > 0
        if subject in _OF_INDEXES:
            each = self._by_stem.get(finding.path.rpartition(".")[0])
            return each is None or each.occasion is not None or each.is_emptied
        return subject not in {"snapshot", "producer", "epochs"}
