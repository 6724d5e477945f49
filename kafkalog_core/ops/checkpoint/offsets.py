"""The four offset checkpoints: which lines are removed, which get another offset, and which are missing.

An offset that replaces a lost or impossible one never makes a broker lose more data:

- recovery point: beyond the end, the end of the log, as a broker lowers it. Lost, after an unclean stop the base of the
  last segment: with a lower one a broker checks older segments, and cuts at the first bad batch all that is after it.
  Lost after a clean stop, the end of the log.
- high watermark: beyond the end, the end of the log, as a broker lowers it. Lost, none: brokers agree on it again. Lost
  before 0.11, the end of the log, as followers of those releases cut their logs off at it.
- log start: beyond the end, none, as a broker would delete the whole partition. Lost, none: what had been deleted by
  request may come back.
- cleaner: beyond the end, lost or of a partition that is not there, none: it cleans from the start again.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.findings.catalog import Sink
from kafkalog_core.format.checkpoint import (
    CheckpointEpoch,
    CheckpointMend,
    CheckpointOffset,
    EntryLine,
    LineEdit,
    encode_offset_checkpoint,
    parse_epoch_entry,
    parse_offset_entry,
)
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, fixed_file_name
from kafkalog_core.format.textfile import parse_int32
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import EpochText, read_epochs
from kafkalog_core.ops.checkpoint.file_repair import FileRepair, read_text
from kafkalog_core.ops.verify.companions import lost_remote_epochs
from kafkalog_core.ops.verify.producers import add_beyond_end, check_partition_offsets, first_start_offset
from kafkalog_core.storage.paths import exists
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.kafka.sim.logdir.bounds import Extent, LogBounds
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir, Key
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.storage.partition import Partition

__all__ = ["EpochRun", "PartitionExtents", "log_epochs", "offset_findings", "repair_epochs", "repair_offsets"]


_Lines = CheckpointMend[CheckpointOffset]
_Line = EntryLine[CheckpointOffset]

_TEXT_CODES: Final = frozenset(
    f"checkpoint.{word}"
    for word in (
        "count-mismatch",
        "invalid-utf8",
        "malformed-line",
        "negative-count",
        "negative-offset",
        "repeated",
        "unsupported-version",
    )
)
_CODES: Final = {
    FileKind.RECOVERY_POINT: {"recovery-point.beyond-end"},
    FileKind.HIGH_WATERMARK: {"high-watermark.beyond-end", "high-watermark.maybe-beyond"},
    FileKind.LOG_START_OFFSET: {"log-start.beyond-end"},
    FileKind.CLEANER_OFFSET: {"cleaner-offset.beyond-end", "checkpoint.no-partition"},
}
_EMPTY_HEAD: Final = tuple(
    LineEdit(None, None, "0", f"{what} is missing") for what in ("the version", "the number of the entries")
)
_LOST_CODES: Final = frozenset({"checkpoint.missing", "checkpoint.emptied"})
_AT_END: Final = frozenset({FileKind.RECOVERY_POINT, FileKind.HIGH_WATERMARK})
_NOT_AT_END: Final = "recovery-point.not-at-end"


class PartitionExtents(Struct, frozen=True, kw_only=True):
    """The partitions of a log directory, and the extents of those that a broker serves or fills; None: unknown.

    `cuts_at_watermark`: whether followers of this release truncate their logs at the high watermark.
    """

    broker_dir: BrokerDir
    places: Mapping[Key, PartitionPath]
    extents: Mapping[Key, Extent | None]
    named: frozenset[Key]
    cuts_at_watermark: bool = False

    def rebuilds(self, kind: FileKind) -> bool:
        """Return whether lost entries are added again."""
        return kind is FileKind.RECOVERY_POINT or (kind is FileKind.HIGH_WATERMARK and self.cuts_at_watermark)


def offset_findings(measured: PartitionExtents) -> Iterator[Finding]:
    """Yield how the checkpoints contradict the extents of the partitions."""
    for key, place in measured.places.items():
        extent = measured.extents[key]
        # `-future` directories share the key with the current one in another log directory, whose checkpoint is another
        # file.
        if extent is not None and place.name.state is DirectoryState.CURRENT:
            yield from check_partition_offsets(measured.broker_dir, place.name, place.path, extent.start, extent.end)


def repair_offsets(
    measured: PartitionExtents, kind: FileKind, findings: tuple[Finding, ...], *, to_end: bool
) -> FileRepair | None:
    """Return the repair of one checkpoint; None: there is no such file, and none is needed.

    Args:
        measured: the log directory.
        kind: which checkpoint.
        findings: those about this file.
        to_end: whether the file becomes as a clean shutdown leaves it, with every recovery point at its log end offset.
    """
    path = f"{measured.broker_dir.path}/{fixed_file_name(kind)}"
    text = measured.broker_dir.offsets.get(kind)
    codes = {finding.code for finding in findings}
    data = b"" if text is None else read_text(path)
    # Lost entries are worth a new file only if a value is known for them (the rules at the top).
    is_kept = (measured.rebuilds(kind) or to_end) and "checkpoint.missing" in codes
    if text is None and not is_kept and not (to_end and kind is FileKind.RECOVERY_POINT and measured.places):
        return FileRepair(path=path, kind=kind, verdict="missing", findings=findings) if findings else None
    # Bytes that are not UTF-8 cannot be kept line by line.
    if data is None or (text is not None and text.file.lost is not None):
        return FileRepair(path=path, kind=kind, verdict="left", findings=findings)
    checkpoint = _OffsetRepair(measured, kind, data, to_end=to_end)
    content, edits = checkpoint.repaired(is_emptied=bool(codes & _LOST_CODES))
    # A clean shutdown leaves no empty file
    if to_end and not edits and codes & _LOST_CODES:
        content, edits = encode_offset_checkpoint([]), _EMPTY_HEAD
    repaired = _TEXT_CODES | _CODES[kind] | ({_NOT_AT_END} if to_end else set())
    repaired |= _LOST_CODES if measured.rebuilds(kind) or to_end else set()
    is_left = any(finding.severity == "error" and (finding.code not in repaired or not edits) for finding in findings)
    return FileRepair(
        path=path,
        kind=kind,
        entries=None if text is None else len(text.file.entries),
        verdict="mended" if edits else "left" if is_left else "good",
        content=content if edits else None,
        edits=edits,
        findings=findings,
        repaired_codes=frozenset(repaired),
    )


class _OffsetRepair:
    """One checkpoint under repair."""

    def __init__(self, measured: PartitionExtents, kind: FileKind, data: bytes, *, to_end: bool) -> None:
        self._measured = measured
        self._kind = kind
        self._to_end = to_end
        self._text: _Lines = CheckpointMend(data, parse_offset_entry)
        # The last line of a partition counts: OffsetCheckpointFile.read puts the lines into a map in turn.
        self._last = {_key(line.entry): line.number for line in self._text.lines if line.entry is not None}

    def repaired(self, *, is_emptied: bool) -> tuple[bytes, Sequence[LineEdit]]:
        """Return new content and edits; `is_emptied`: entries were lost without a trace."""
        for line in self._text.lines:
            if line.entry is None:
                self._judge_none(line)
            else:
                self._judge(line, line.entry)
        if self._measured.rebuilds(self._kind) and (is_emptied or self._to_end or self._text.has_lost):
            # Partitions without a line are added only if lines were lost.
            for key in sorted(self._measured.places.keys() - self._last.keys()):
                offset = self._lost_offset(key)
                if offset is not None:
                    self._text.add(_line(key, offset), "its entry was lost" if not self._to_end else "it had no entry")
        return self._text.content()

    def _judge(self, line: _Line, entry: CheckpointOffset) -> None:
        key = _key(entry)
        extent = self._measured.extents.get(key)
        if entry.partition < 0:
            self._text.drop(line, "partition numbers are not negative")
        elif self._last[key] != line.number:
            self._text.drop(line, f"line {self._last[key]} is of the same partition, and counts")
        elif entry.offset < 0:
            self._put(line, key, self._lost_offset(key), "offsets are not negative")
        # `is_sure`: the log was read to its end. After damage, an end may be only the last one that was found.
        elif extent is not None and extent.is_sure and entry.offset > extent.end:
            end = extent.end if self._kind in _AT_END else None
            self._put(line, key, end, f"the log ends at {extent.end}")
        elif extent is not None and self._to_end and self._kind is FileKind.RECOVERY_POINT:
            if entry.offset != extent.end:
                self._put(line, key, extent.end, f"the log ends at {extent.end}")
        elif self._kind is FileKind.CLEANER_OFFSET and key not in self._measured.named:
            # LogCleanerManager.updateCheckpoints drops such a line at its next write.
            self._text.drop(line, "this log directory has no such partition")

    def _judge_none(self, line: _Line) -> None:
        """Judge a line that is not an entry, and may still name its partition."""
        words = line.text.split()
        number = parse_int32(words[1]) if len(words) > 1 else None
        if number is None or self._text.is_written(line):
            return
        key = words[0], number
        offset = self._lost_offset(key)
        # A repeated or damaged line counts for the partition only if no good line does.
        if offset is not None and self._last.setdefault(key, line.number) == line.number:
            self._text.replace(line, _line(key, offset), line.problem)

    def _put(self, line: _Line, key: Key, offset: int | None, problem: str) -> None:
        if offset is None:
            self._text.drop(line, problem)
        else:
            self._text.replace(line, _line(key, offset), problem)

    def _lost_offset(self, key: Key) -> int | None:
        """Return the replacement of an unknown offset; None: no entry."""
        extent = self._measured.extents.get(key)
        if extent is None or not self._measured.rebuilds(self._kind):
            # A value that is nowhere on this disk is not invented.
            return None
        if self._kind is FileKind.HIGH_WATERMARK:
            return extent.end if extent.is_sure else None
        is_clean = self._measured.broker_dir.log_dir.is_clean or self._to_end
        # After an unclean stop the base offset of the active segment, for the reason at the top.
        return extent.end if is_clean and extent.is_sure else extent.active


def _key(entry: CheckpointOffset) -> Key:
    return entry.topic, entry.partition


def _line(key: Key, offset: int) -> str:
    return f"{key[0]} {key[1]} {offset}"


class EpochRun(NamedTuple):
    """The batches of one leader epoch: their first offset, and the offset after their last one."""

    epoch: int
    first: int
    end: int


_EPOCHS_CODES: Final = frozenset(
    {
        "checkpoint.count-mismatch",
        "checkpoint.invalid-utf8",
        "checkpoint.malformed-line",
        "checkpoint.negative-count",
        "checkpoint.negative-epoch",
        "checkpoint.unsupported-version",
        "epochs.beyond-end",
        "epochs.cut",
        "epochs.missing",
        "epochs.missing-entry",
        "epochs.not-ascending",
    }
)
_SHOWN: Final = 20
_FRAMES: Final = ScanOptions(check=False)


def repair_epochs(
    partition: Partition,
    extent: Extent | None,
    progress: Progress,
    *,
    bounds: LogBounds,
    is_compacted: bool = False,
) -> FileRepair | None:
    """Return the repair of a leader-epoch-checkpoint; None: there is no such file, and none is needed.

    The log is read only if the file is bad. `bounds` are those of the next start. `is_compacted`: batches may have
    another leader epoch than they were written with, because the cleaner merges them.
    """
    path = f"{partition.path}/{fixed_file_name(FileKind.LEADER_EPOCH)}"
    file = EntryFile(path=path, kind=FileKind.LEADER_EPOCH, topic=partition.topic, partition=partition.partition)
    data = read_text(path)
    try:
        text = read_epochs(file)
    except StorageError:
        text = None
    findings = _findings(file, text, extent)
    if text is None and not findings:
        return None
    repair = FileRepair(
        path=path,
        kind=FileKind.LEADER_EPOCH,
        topic=partition.topic,
        partition=partition.partition,
        entries=None if text is None else len(text.entries),
        findings=findings,
        repaired_codes=_EPOCHS_CODES,
    )
    is_empty = text is not None and not text.entries and extent is not None and extent.is_v2
    if not findings and not is_empty:
        return repair
    # A file that is too large or unreadable is left for a person.
    if text is not None and data is None:
        return replace(repair, verdict="left")
    if bounds.lacks_remote_epochs(None if text is None else first_start_offset(text)):
        return replace(repair, verdict="left", findings=(lost_remote_epochs(path, bounds),))
    runs = log_epochs(partition, progress)
    if is_empty and not findings:
        missing = [
            file.finding("epochs.missing-entry", offset=run.first, epoch=run.epoch) for run in (runs or ())[:_SHOWN]
        ]
        if not missing:
            return repair
        repair = replace(repair, findings=tuple(missing))
    if is_compacted and runs is not None:
        # The cleaner merges batches under the leader epoch of one of them, so where an epoch ends is unknown; only its
        # first offset is used.
        runs = [run._replace(end=run.first + 1) for run in runs]
    return _rebuilt(repair, data or b"", runs, extent)


def log_epochs(partition: Partition, progress: Progress) -> list[EpochRun] | None:
    """Return the leader epochs of the batches; None: damage hides some, or they do not rise."""
    runs: list[EpochRun] = []
    logs = [segment.log for segment in partition.segments if segment.log is not None]
    progress.expect(sum(log.size_bytes for log in logs))
    for log in logs:
        try:
            with Source.open(log.path) as source:
                for item in scan(source, base_offset=log.name.base_offset, options=_FRAMES):
                    if isinstance(item, Damage):
                        # Damage in the middle may hide the first batch of an epoch, and with it its start offset.
                        if log is not logs[-1] or item.position + item.size_bytes < source.size_bytes:
                            return None
                    else:
                        _add_runs(runs, item.batches)
        except StorageError:
            return None
        progress.advance(log.size_bytes)
    # None for epochs that go back: no file could list them in order (LeaderEpochFileCache.assign).
    return runs if all(before.epoch < after.epoch for before, after in pairwise(runs)) else None


def _add_runs(runs: list[EpochRun], batches: BatchColumns) -> None:
    last_offsets = batches.column("last_offset")
    # Fast path: nearly all runs have one epoch.
    if runs and batches.holds_only("leader_epoch", runs[-1].epoch):
        runs[-1] = runs[-1]._replace(end=max(runs[-1].end, last_offsets[-1] + 1))
        return
    for epoch, first, last in zip(
        batches.column("leader_epoch"), batches.column("base_offset"), last_offsets, strict=True
    ):
        if runs and epoch == runs[-1].epoch:
            runs[-1] = runs[-1]._replace(end=last + 1)
        # Magic 0 and 1 have no leader epoch (-1).
        elif epoch >= 0:
            runs.append(EpochRun(epoch, first, last + 1))


def _findings(file: EntryFile, text: EpochText | None, extent: Extent | None) -> tuple[Finding, ...]:
    """Return what is wrong with the file itself, and with its entries after the log end offset."""
    has_epochs = extent is not None and extent.is_v2
    if text is None:
        # A broker recovers all of the metadata log at every start, and with it the leader epochs
        if not has_epochs or exists(file.path) or file.topic == METADATA_TOPIC:
            return ()
        return (found("epochs.missing", file.path, topic=file.topic, partition=file.partition),)
    findings = list(text.findings)
    if text.is_cut and has_epochs:
        findings.append(file.finding("epochs.cut"))
    sink = Sink(file.topic, file.partition)  # a file may have a million of such lines
    if extent is not None and extent.is_sure:
        add_beyond_end(text, extent.end, sink)
    return (*findings, *sink.findings)


def _is_beyond(entry: CheckpointEpoch, extent: Extent) -> bool:
    # At the end itself is legal: a new leader has an epoch before its first batch (UnifiedLog.assignEpochStartOffset).
    return extent.is_sure and entry.start_offset > extent.end


def _rebuilt(repair: FileRepair, data: bytes, runs: list[EpochRun] | None, extent: Extent | None) -> FileRepair:
    """Return the repair: lines that may be true, and the epochs of the batches; `runs` None: only the lines."""
    text: CheckpointMend[CheckpointEpoch] = CheckpointMend(data, parse_epoch_entry)
    of_log = {run.epoch: run.first for run in runs or ()}
    log, kept = _Log(runs or [], extent), _Kept(of_log)
    for line in text.lines:
        entry = line.entry
        if entry is None:
            continue
        epoch = entry.leader_epoch
        problem = log.problem_of(entry) or kept.problem_of(entry)
        if problem is None:
            kept.add(epoch, entry.start_offset)
        # The log knows better: the line is kept with the offset of the first batch.
        elif epoch in of_log and epoch not in kept.epochs:
            kept.add(epoch, of_log[epoch])
            text.replace(line, f"{epoch} {of_log[epoch]}", problem)
        else:
            text.drop(line, problem)
    for epoch, first in of_log.items():
        if epoch not in kept.epochs:
            text.add(f"{epoch} {first}", "the batches have this leader epoch")
    # LeaderEpochCheckpointFile has ascending epochs; added lines are put in order.
    content, edits = text.content(lambda entry: entry.leader_epoch)
    if not edits:
        return replace(repair, verdict="left")
    refusals = () if runs is not None else (_without_log(repair),)
    return replace(repair, verdict="mended", content=content, edits=edits, refusals=refusals)


class _Log:
    """The epochs of the batches, prepared to check a million lines.

    Args:
        runs: the epochs, ascending; their offsets may go back where segments overlap.
        extent: of the log; None: unknown.
    """

    def __init__(self, runs: Sequence[EpochRun], extent: Extent | None) -> None:
        self._runs = runs
        self._extent = extent
        self._epochs = [run.epoch for run in runs]
        # of the runs up to each one, the one that ends last; of those from each one on, the one that starts first
        self._last = list(accumulate(runs, _ends_last))
        self._first = list(accumulate(reversed(runs), _starts_first))[::-1]

    def problem_of(self, entry: CheckpointEpoch) -> str | None:
        """Return why an entry contradicts the log; None: it may be true."""
        epoch, offset = entry.leader_epoch, entry.start_offset
        if min(epoch, offset) < 0:
            return "neither epochs nor offsets are negative"
        if self._extent is not None and _is_beyond(entry, self._extent):
            return f"the log ends at {self._extent.end}"
        at = bisect_left(self._epochs, epoch)
        if at and offset < self._last[at - 1].end:
            return _other_epoch(self._last[at - 1])
        if at < len(self._runs) and self._runs[at].epoch == epoch:
            if offset > self._runs[at].first:
                return f"a batch of the epoch starts at {self._runs[at].first}"
            at += 1
        if at < len(self._runs) and offset >= self._first[at].first:
            return _other_epoch(self._first[at])
        return None


def _ends_last(best: EpochRun, run: EpochRun) -> EpochRun:
    return run if run.end > best.end else best


def _starts_first(best: EpochRun, run: EpochRun) -> EpochRun:
    return run if run.first <= best.first else best


def _other_epoch(run: EpochRun) -> str:
    return f"there are batches of epoch {run.epoch} from {run.first} to {run.end - 1}"


class _Kept:
    """The lines that are kept so far: their largest epoch and offset decide which line may follow.

    `epochs` are the epochs that the log has too: the file may have millions of others.
    """

    def __init__(self, of_log: Container[int]) -> None:
        self.epochs: set[int] = set()
        self._of_log = of_log
        self._largest_epoch = self._largest_first = -1

    def add(self, epoch: int, first: int) -> None:
        """Keep a line."""
        if epoch in self._of_log:
            self.epochs.add(epoch)
        self._largest_epoch = max(self._largest_epoch, epoch)
        self._largest_first = max(self._largest_first, first)

    def problem_of(self, entry: CheckpointEpoch) -> str | None:
        """Return why an entry cannot follow the lines that are kept; None: it can."""
        # LeaderEpochFileCache.assign drops every entry that does not rise in both epoch and offset.
        follows = entry.leader_epoch > self._largest_epoch and entry.start_offset > self._largest_first
        return None if follows else "it does not come after the lines before it"


def _without_log(repair: FileRepair) -> Finding:
    return found("epochs.not-from-log", repair.path, topic=repair.topic, partition=repair.partition)
