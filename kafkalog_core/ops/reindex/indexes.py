"""The offset and the time index of a segment, old against new: which of them is to be written, and why.

An index that a running broker wrote may differ from the one that its recovery writes and still be correct: the broker
started to count bytes again after a restart, or appended several batches at once. Such an index is kept, unless all
indexes are to be written.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import NotFoundError
from kafkalog_core.findings.sink import Sink
from kafkalog_core.format.checkpoint import CheckpointEpoch, encode_epoch_checkpoint
from kafkalog_core.format.kernels import constants as k
from kafkalog_core.format.layout import MAX_INT64, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kafkalog_core.format.names import METADATA_TOPIC, FileKind, fixed_file_name, segment_file_name
from kafkalog_core.kafka.leader_epochs import EpochCache, EpochStart
from kafkalog_core.kafka.logdir.bounds import LogBounds, log_bounds
from kafkalog_core.kafka.logdir.faults import EntryFile
from kafkalog_core.kafka.logdir.text_files import read_epochs
from kafkalog_core.kafka.rules import rules_of
from kafkalog_core.kafka.start.sweep import first_recovered
from kafkalog_core.ops.reindex.steps import Step
from kafkalog_core.ops.verify import verdict
from kafkalog_core.ops.verify.indexes import EntryWindows, OffsetIndexCheck, TimeIndexCheck
from kafkalog_core.ops.verify.producers import check_epochs, first_start_offset
from kafkalog_core.storage.scan import Damage
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.layout import Layout
    from kafkalog_core.kafka.logdir.text_files import EpochText
    from kafkalog_core.kafka.releases import Release
    from kafkalog_core.kafka.start.recovery import SegmentRecovery
    from kafkalog_core.ops.reindex.steps import ReindexTask
    from kafkalog_core.ops.verify.check import SegmentTask
    from kafkalog_core.storage.listing import FileInfo, Segment
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import Run

__all__ = [
    "EpochExtent",
    "SegmentIndexes",
    "epoch_extent",
    "epochs_step",
    "is_same",
    "leaving",
    "next_base",
    "recovered_from",
    "rising",
    "what_is_wrong",
]


class _Kind(NamedTuple):
    kind: FileKind
    layout: Layout
    is_time: bool


_KINDS: Final = (
    _Kind(FileKind.OFFSET_INDEX, OFFSET_INDEX_ENTRY, is_time=False),
    _Kind(FileKind.TIME_INDEX, TIME_INDEX_ENTRY, is_time=True),
)


@dataclass(frozen=True, slots=True)
class _Old:
    """An index that is there: entries before the zeros at its end, and bytes of zeros after them."""

    entries: int
    zero_bytes: int


class SegmentIndexes:
    """Listens to the recovery of a segment, and compares when that has ended.

    `disorder` is the first place where offsets go back; None: they do not. `kept` counts indexes that differ and stay.

    Args:
        task: the segment.
    """

    def __init__(self, task: SegmentTask) -> None:
        self._segment = task.segment
        # 4.4.0 does not trim them at a clean stop, 4.3.1 does; every release recovers the metadata log at every start
        self._may_have_room = task.topic == METADATA_TOPIC and task.is_last
        self._sink = Sink(task.topic, task.partition)
        self._checks = (OffsetIndexCheck(task, self._sink), TimeIndexCheck(task, self._sink))
        self.kept = 0
        self.disorder: Damage | None = None

    def listen(self, item: Run | Damage) -> None:
        """Return what the recovery reads."""
        if isinstance(item, Damage) and not item.size_bytes and self.disorder is None:
            self.disorder = item
        for check in self._checks:
            if isinstance(item, Damage):
                check.damage(item)
            else:
                check.run(item)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with the old indexes."""
        return self._sink.findings

    def steps(self, recovery: SegmentRecovery, *, writes_all: bool) -> Iterator[Step]:
        """Yield the indexes that are to be written. Raises StorageError."""
        for check in self._checks:
            check.finish(recovery.size_bytes)
        for each, new in zip(_KINDS, (recovery.offset_index, recovery.time_index), strict=True):
            if new is not None:
                step = self._step(each, new, writes_all=writes_all, is_empty=recovery.size_bytes == 0)
                if step is not None:
                    yield step

    def _step(self, each: _Kind, new: bytes, *, writes_all: bool, is_empty: bool) -> Step | None:
        file = _file_of(self._segment, each.kind)
        count = len(new) // each.layout.size
        log_path = "" if self._segment.log is None else self._segment.log.path
        if file is None:
            if is_empty:  # a broker makes the indexes of a new segment when it first appends to it
                return None
            path = f"{log_path.rpartition('/')[0]}/{segment_file_name(self._segment.base_offset, each.kind)}"
            return Step(kind="write", path=path, why=f"it is missing; {_entries(count)}", content=new, like=log_path)
        if is_same(file.path, new):
            return None
        old = _measure(file.path, each)
        why = what_is_wrong(self.findings, file.path)
        if why is None and old.zero_bytes and not self._may_have_room:
            why = f"{old.zero_bytes} bytes of zeros follow its entries"
        if why is None:
            if not writes_all:
                self.kept += 1
                return None
            why = "it is not the one that a recovery writes"
        text = f"{why}; {_entries(old.entries)} before, {count} after"
        return Step(kind="write", path=file.path, why=text, content=new, like=log_path)


def is_same(path: str, content: bytes) -> bool:
    """Return whether a file has this content. Raises StorageError."""
    with Source.open(path) as source:
        if source.size_bytes != len(content):
            return False
        position = 0
        while position < len(content):
            window = source.window(position)
            if not window or window != content[position : position + len(window)]:
                return False
            position += len(window)
    return True


def what_is_wrong(findings: Iterable[Finding], path: str) -> str | None:
    """Return the codes of what is wrong with a file, in a few words; None: nothing worse than a word in passing."""
    counts: Counter[str] = Counter()
    for finding in findings:
        if finding.path == path and finding.severity != "info":
            counts[finding.code] += finding.more + 1
    return ", ".join(f"{code}" + (f" ({count})" if count > 1 else "") for code, count in counts.items()) or None


def _measure(path: str, each: _Kind) -> _Old:
    windows = EntryWindows(path, each.layout, is_time=each.is_time)
    windows.open(array("q", bytes(8 * k.INDEX_STATE)))
    return _Old(windows.used, (windows.count - windows.used) * each.layout.size)


def _file_of(segment: Segment, kind: FileKind) -> FileInfo | None:
    return segment.index if kind is FileKind.OFFSET_INDEX else segment.timeindex


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


class EpochExtent(NamedTuple):
    """The part of a log whose leader epochs are known.

    Args:
        first_offset: no epoch starts before it.
        log_start: from here on the file must know all.
        end_offset: of the log.
        has_legacy: whether messages of older formats are in it, at which a broker forgets the epochs before.
        is_start_known: whether `log_start` is what the broker had; else the first entry of the file may be higher.
    """

    first_offset: int
    log_start: int
    end_offset: int
    has_legacy: bool
    is_start_known: bool


def epochs_step(
    partition: Partition,
    log_epochs: Sequence[EpochStart],
    extent: EpochExtent,
    release: Release,
    sink: Sink,
    *,
    writes_all: bool,
) -> Step | None:
    """Return the file, where it is to be written. Raises StorageError.

    The epochs that a broker reads from the file are kept, and those that it lacks are added, as a recovery does. Where
    the file contradicts the batches, the batches count.

    Args:
        partition: has a segment.
        log_epochs: leader epochs of the batches, each with its first offset, ascending.
        extent: from where to where epochs are known.
        release: whose rules.
        sink: takes what is wrong with it.
        writes_all: whether it is written again where it is right and differs.
    """
    path = f"{partition.path}/{fixed_file_name(FileKind.LEADER_EPOCH)}"
    text = _read(path, partition)
    found = Sink()
    if text is not None:
        for finding in text.findings:
            found.put(finding)
        whole = (extent.first_offset, extent.end_offset)
        known_from = extent.log_start if extent.is_start_known else max(extent.log_start, first_start_offset(text) or 0)
        starts = _starts(log_epochs, known_from, has_legacy=extent.has_legacy)
        check_epochs(text, starts, whole, found, is_clean=False, is_compacted=True)
    for finding in found.findings:
        sink.put(finding)
    wrong = what_is_wrong(found.findings, path)
    old = [] if text is None else _epochs_entries(text)
    cache = EpochCache(old if wrong is None else _agreeing(old, log_epochs), release)
    for each in log_epochs:
        cache.assign(each)
    cache.cut_start(extent.log_start)
    cache.cut_end(extent.end_offset)
    content = encode_epoch_checkpoint(cache.entries)
    why = wrong
    if text is None:
        why = "it is missing" if log_epochs else None
    elif why is None and writes_all:
        why = "it is not the one that a recovery leaves"
    if why is None or (text is not None and is_same(path, content)):
        return None
    log = partition.segments[-1].log
    text_of_counts = f"{why}; {len(old)} epochs before, {len(cache.entries)} after"
    return Step(kind="write", path=path, why=text_of_counts, content=content, like="" if log is None else log.path)


def _starts(log_epochs: Sequence[EpochStart], known_from: int, *, has_legacy: bool) -> list[verdict.EpochStart]:
    """Return what the file must know: nothing of what a broker forgot when it went back to an older format."""
    if has_legacy:
        return []
    return [
        verdict.EpochStart(each.epoch, each.start_offset, 0, each.start_offset - 1)
        for each in log_epochs
        if each.start_offset >= known_from
    ]


def _read(path: str, partition: Partition) -> EpochText | None:
    if not os.path.lexists(path):
        return None
    file = EntryFile(path=path, kind=FileKind.LEADER_EPOCH, topic=partition.topic, partition=partition.partition)
    try:
        return read_epochs(file)
    except NotFoundError:
        return None


def _epochs_entries(text: EpochText) -> list[EpochStart]:
    return [
        EpochStart(placed.entry.leader_epoch, placed.entry.start_offset)
        for placed in text.entries
        if isinstance(placed.entry, CheckpointEpoch) and min(placed.entry.leader_epoch, placed.entry.start_offset) >= 0
    ]


def _agreeing(old: Sequence[EpochStart], log_epochs: Sequence[EpochStart]) -> list[EpochStart]:
    """Return the epochs of the log, and those between them that had no batches, where they may have been."""
    epochs = [each.epoch for each in log_epochs]
    agreeing = list(log_epochs)
    for each in old:
        at = bisect_left(epochs, each.epoch)
        if at < len(epochs) and epochs[at] == each.epoch:
            continue
        is_behind = at == 0 or log_epochs[at - 1].start_offset < each.start_offset
        is_before = at == len(epochs) or each.start_offset < log_epochs[at].start_offset
        if is_behind and is_before:
            agreeing.append(each)
    return sorted(agreeing)


def recovered_from(task: ReindexTask, segments: Sequence[Segment]) -> int:
    """Return the base offset from which a broker recovers all segments at its next start, as far as known."""
    if not segments or task.facts.context.is_clean is not False:
        return MAX_INT64
    bases = [segment.base_offset for segment in segments]
    only_last = rules_of(task.facts.release).recovers == "last"
    first = first_recovered(
        bases, task.facts.context.recovery_point or 0, is_clean=False, topic=None, only_last=only_last
    )
    return MAX_INT64 if first is None else bases[first]


def leaving(
    task: ReindexTask, segments: Sequence[Segment], recovered_from: int, log_start: int
) -> Callable[[int], bool]:
    """Return whether the next start deletes the snapshot of an offset, unless the log ends there.

    After an unclean stop ProducerStateManager.truncateAndReload deletes those beyond the base of the first segment that
    is recovered, and those up to the log start; the recovery writes one at each base offset again. From 2.8 on
    removeStraySnapshots deletes the others that are at no base offset. So the one of an earlier clean stop is deleted.
    """
    bases = frozenset(segment.base_offset for segment in segments)
    sweeps = rules_of(task.facts.release).removes_stray_snapshots

    def is_leaving(offset: int) -> bool:
        if task.facts.context.is_clean is not False:
            return False
        return offset <= log_start or (offset not in bases and (sweeps or offset > recovered_from))

    return is_leaving


def next_base(segments: Sequence[Segment], segment: Segment) -> int:
    """Base offset of the segment after one; the largest offset where it is the last."""
    at = bisect_right(segments, segment.base_offset, key=lambda each: each.base_offset)
    return segments[at].base_offset if at < len(segments) else MAX_INT64


def rising(epochs: Sequence[EpochStart]) -> list[EpochStart]:
    """Return those that are higher than all before them."""
    found: list[EpochStart] = []
    for each in epochs:
        if not found or each.epoch > found[-1].epoch:
            found.append(each)
    return found


def log_bounds_of(task: ReindexTask, first_base: int) -> LogBounds:
    """Return the bounds of a log as the next start sets them, without its end."""
    facts = task.facts
    is_tiered = facts.settings.remote_storage_enable
    return log_bounds(first_base, facts.context, rules_of(facts.release), is_tiered=is_tiered)


def epoch_extent(task: ReindexTask, first_base: int, end_offset: int, *, has_legacy: bool) -> EpochExtent:
    """Return the part of the log whose leader epochs are known."""
    checkpoint = task.facts.context.log_start_offset
    return EpochExtent(
        first_offset=first_base if checkpoint is None else min(first_base, checkpoint),
        log_start=log_bounds_of(task, first_base).epochs_start,
        end_offset=end_offset,
        has_legacy=has_legacy,
        is_start_known=task.facts.context.is_start_known,
    )
