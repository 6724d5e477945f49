"""The leader-epoch-checkpoint of a partition: bad lines go, and what the batches say of leader epochs is put in.

An epoch without batches is known from the file alone, so every line that may be true stays. What the file says against
the batches of the log is not true.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.checkpoint import EpochEntry, parse_epoch_entry
from kafkalog_core.format.checkpoint_text import CheckpointMend
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.ops.logdirs.textfiles import EpochText, read_epochs
from kafkalog_core.ops.mending.mend import Mend, read_text
from kafkalog_core.ops.reading.entry_faults import EntryFile
from kafkalog_core.ops.sink import Sink
from kafkalog_core.ops.verify.epochs import add_beyond_end
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.ops.logdirs.extents import Extent
    from kafkalog_core.ops.progress import Progress
    from kafkalog_core.storage.partition import Partition

__all__ = ["EpochRun", "log_epochs", "mend_epochs"]


class EpochRun(NamedTuple):
    """Batches of one leader epoch: the first offset, and the one behind the last."""

    epoch: int
    first: int
    end: int


_CODES: Final = frozenset(
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


def mend_epochs(
    partition: Partition, extent: Extent | None, progress: Progress, *, is_compacted: bool = False
) -> Mend | None:
    """What becomes of the file; null: there is none, and none is missed.

    The log is read only where the file is bad. `is_compacted`: its batches may have another leader epoch than they were
    written with, as the cleaner joins them.
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
    mend = Mend(
        path=path,
        kind=FileKind.LEADER_EPOCH,
        topic=partition.topic,
        partition=partition.partition,
        entries=None if text is None else len(text.entries),
        findings=findings,
        mended=_CODES,
    )
    is_empty = text is not None and not text.entries and extent is not None and extent.is_v2
    if not findings and not is_empty:
        return mend
    if text is not None and data is None:
        return replace(mend, verdict="left")
    runs = log_epochs(partition, progress)
    if is_empty and not findings:
        missing = [
            file.finding("epochs.missing-entry", offset=run.first, epoch=run.epoch) for run in (runs or ())[:_SHOWN]
        ]
        if not missing:
            return mend
        mend = replace(mend, findings=tuple(missing))
    if is_compacted and runs is not None:
        runs = [run._replace(end=run.first + 1) for run in runs]
    return _rebuilt(mend, data or b"", runs, extent)


def log_epochs(partition: Partition, progress: Progress) -> list[EpochRun] | None:
    """The leader epochs of the batches; null: damage hides some, or they do not rise."""
    runs: list[EpochRun] = []
    logs = [segment.log for segment in partition.segments if segment.log is not None]
    progress.expect(sum(log.size_bytes for log in logs))
    for log in logs:
        try:
            with Source.open(log.path) as source:
                for item in scan(source, base_offset=log.name.base_offset, options=_FRAMES):
                    if isinstance(item, Damage):
                        if log is not logs[-1] or item.position + item.size_bytes < source.size_bytes:
                            return None
                    else:
                        _add_runs(runs, item.batches)
        except StorageError:
            return None
        progress.advance(log.size_bytes)
    return runs if all(before.epoch < after.epoch for before, after in pairwise(runs)) else None


def _add_runs(runs: list[EpochRun], batches: BatchColumns) -> None:
    last_offsets = batches.column("last_offset")
    if runs and batches.holds_only("leader_epoch", runs[-1].epoch):
        runs[-1] = runs[-1]._replace(end=max(runs[-1].end, last_offsets[-1] + 1))
        return
    for epoch, first, last in zip(
        batches.column("leader_epoch"), batches.column("base_offset"), last_offsets, strict=True
    ):
        if runs and epoch == runs[-1].epoch:
            runs[-1] = runs[-1]._replace(end=last + 1)
        elif epoch >= 0:
            runs.append(EpochRun(epoch, first, last + 1))


def _findings(file: EntryFile, text: EpochText | None, extent: Extent | None) -> tuple[Finding, ...]:
    """What is wrong with the file by itself, and against the end of the log."""
    has_epochs = extent is not None and extent.is_v2
    if text is None:
        if not has_epochs or os.path.lexists(file.path):
            return ()
        return (found("epochs.missing", file.path, topic=file.topic, partition=file.partition),)
    findings = list(text.findings)
    if text.is_cut and has_epochs:
        findings.append(file.finding("epochs.cut"))
    sink = Sink(file.topic, file.partition)  # a file may have a million of such lines
    if extent is not None and extent.is_sure:
        add_beyond_end(text, extent.end, sink)
    return (*findings, *sink.findings)


def _is_beyond(entry: EpochEntry, extent: Extent) -> bool:
    return extent.is_sure and entry.start_offset > extent.end


def _rebuilt(mend: Mend, data: bytes, runs: list[EpochRun] | None, extent: Extent | None) -> Mend:
    """Put together what of the file may be true and what the batches say; `runs` null: the file alone."""
    text: CheckpointMend[EpochEntry] = CheckpointMend(data, parse_epoch_entry)
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
        elif epoch in of_log and epoch not in kept.epochs:
            kept.add(epoch, of_log[epoch])
            text.replace(line, f"{epoch} {of_log[epoch]}", problem)
        else:
            text.drop(line, problem)
    for epoch, first in of_log.items():
        if epoch not in kept.epochs:
            text.add(f"{epoch} {first}", "the batches have this leader epoch")
    content, edits = text.content(lambda entry: entry.leader_epoch)
    if not edits:
        return replace(mend, verdict="left")
    refusals = () if runs is not None else (_without_log(mend),)
    return replace(mend, verdict="mended", content=content, edits=edits, refusals=refusals)


class _Log:
    """The epochs of the batches, ready to be asked about each of a million lines.

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

    def problem_of(self, entry: EpochEntry) -> str | None:
        """Why an entry cannot be true next to the log; None: it may be."""
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
    """The lines that are kept so far: the largest epoch and offset decide what may follow.

    `epochs` are those of them that the log has too: the file may have millions of others.
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

    def problem_of(self, entry: EpochEntry) -> str | None:
        """Why an entry cannot follow the lines that are kept; None: it can."""
        follows = entry.leader_epoch > self._largest_epoch and entry.start_offset > self._largest_first
        return None if follows else "it does not come after the lines before it"


def _without_log(mend: Mend) -> Finding:
    return found("epochs.not-from-log", mend.path, topic=mend.topic, partition=mend.partition)
