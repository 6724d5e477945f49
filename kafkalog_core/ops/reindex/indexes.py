"""Indexes and leader epochs of a partition, old against new: which files are to be written, and why.

An index that a running broker wrote may differ from the one that its recovery writes and still be correct: the broker
started to count bytes again after a restart, or appended several batches at once. Such an index is kept, unless all
indexes are to be written.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections import Counter
from operator import lt
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import NotFoundError
from kafkalog_core.findings import for_rules
from kafkalog_core.findings.catalog import Sink
from kafkalog_core.format.checkpoint import CheckpointEpoch, encode_epoch_checkpoint
from kafkalog_core.format.layout import MAX_INT64, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kafkalog_core.format.names import METADATA_TOPIC, FileKind, fixed_file_name, segment_file_name
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.logdir.bounds import LogBounds, log_bounds
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochCache, EpochStart
from kafkalog_core.kafka.sim.logdir.text_files import read_epochs
from kafkalog_core.kafka.sim.start.candidates import first_recovered
from kafkalog_core.ops.reindex.steps import Step
from kafkalog_core.ops.verify import verdict
from kafkalog_core.ops.verify.companions import lost_remote_epochs
from kafkalog_core.ops.verify.indexes import EntryWindows, OffsetIndexCheck, TimeIndexCheck
from kafkalog_core.ops.verify.producers import check_epochs, first_start_offset
from kafkalog_core.storage.paths import exists
from kafkalog_core.storage.scan import Damage
from kafkalog_core.storage.source import Source
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.layout import Layout
    from kafkalog_core.kafka.sim.logdir.text_files import EpochText
    from kafkalog_core.kafka.sim.start.recovery import SegmentRecovery
    from kafkalog_core.ops.reindex.steps import ReindexTask
    from kafkalog_core.ops.verify.request import SegmentCheck
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import Run

__all__ = [
    "NOT_A_RECOVERY",
    "SegmentIndexes",
    "epochs_step",
    "is_same",
    "log_bounds_of",
    "next_base",
    "recovered_from",
    "what_is_wrong",
]


NOT_A_RECOVERY: Final = "it is not the one that a recovery writes"
_KINDS: Final = ((FileKind.OFFSET_INDEX, OFFSET_INDEX_ENTRY), (FileKind.TIME_INDEX, TIME_INDEX_ENTRY))


class SegmentIndexes:
    """The offset and the time index of a segment: listens to its recovery, and compares at its end.

    `disorder` is the first place where offsets go back; None: there is none. `has_wrong_header` is whether a batch has
    a magic of no release, or a last offset below its first one. `kept` counts valid indexes that differ from those of a
    recovery.
    """

    def __init__(self, task: SegmentCheck) -> None:
        self._segment = task.segment
        # 4.4.0 does not trim them at a clean stop, 4.3.1 does; every release recovers the metadata log at every start
        self._may_have_room = task.topic == METADATA_TOPIC and task.is_last
        self._is_last = task.is_last
        self._sink = Sink(task.topic, task.partition)
        self._checks = (OffsetIndexCheck(task, self._sink), TimeIndexCheck(task, self._sink))
        self.kept = 0
        self.disorder: Damage | None = None
        self.has_wrong_header = False

    def listen(self, item: Run | Damage) -> None:
        """Compare the old indexes with what the recovery reads."""
        if isinstance(item, Damage) and not item.size_bytes:
            if item.reason == "unknown-magic":
                self.has_wrong_header = True
                return
            self.disorder = self.disorder or item
        if isinstance(item, Damage):
            for check in self._checks:
                check.damage(item)
            return
        for check in self._checks:
            check.run(item)
        # Of compressed messages of magic 0 and 1 the first offset is -1 here
        lasts, firsts = map(item.batches.column, ("last_offset", "base_offset"))
        self.has_wrong_header |= any(map(lt, lasts, firsts))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with the old indexes."""
        return self._sink.findings

    def steps(self, recovery: SegmentRecovery, *, writes_all: bool) -> Iterator[Step]:
        """Yield the indexes that are to be written. Raises StorageError."""
        for check in self._checks:
            check.finish(recovery.size_bytes)
        for (kind, layout), new in zip(_KINDS, (recovery.offset_index, recovery.time_index), strict=True):
            if new is not None:
                yield from self._step(kind, layout, new, writes_all=writes_all, is_empty=recovery.size_bytes == 0)

    def _step(self, kind: FileKind, layout: Layout, new: bytes, *, writes_all: bool, is_empty: bool) -> Iterator[Step]:
        segment = self._segment
        file = segment.index if kind is FileKind.OFFSET_INDEX else segment.timeindex
        count = len(new) // layout.size
        log_path = "" if segment.log is None else segment.log.path
        if file is None:
            # A broker creates the indexes of a new segment when it first appends to it (lazily, LogSegment.append); an
            # empty last segment without them is as a roll leaves it. One that compaction has emptied has them, and a
            # broker recovers it if they are missing.
            if not (is_empty and self._is_last):
                path = f"{os.path.dirname(log_path)}/{segment_file_name(segment.base_offset, kind)}"
                text = f"it is missing; {count_of(count, 'entry')}"
                yield Step(kind="write", path=path, why=text, content=new, like=log_path)
            return
        if is_same(file.path, new):
            return
        entries, zero_bytes = _measure(file.path, layout, is_time=kind is FileKind.TIME_INDEX)
        why = what_is_wrong(self.findings, file.path)
        # The active segment of a live broker is preallocated to segment.index.bytes; a closed one is trimmed
        # (LogSegment.onBecomeInactiveSegment, LogSegment.close).
        if why is None and zero_bytes and not self._may_have_room:
            why = f"{zero_bytes} bytes of zeros follow its entries"
        # A valid index of another release or setting is kept: to write it would change a file for no reader's benefit.
        if why is None and not writes_all:
            self.kept += 1
            return
        text = f"{why or NOT_A_RECOVERY}; {count_of(entries, 'entry')} before, {count} after"
        yield Step(kind="write", path=file.path, why=text, content=new, like=log_path)


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
    """Return the codes of what is wrong with a file, with their counts; None: nothing worse than `info`."""
    # `more` counts the findings of one kind that were only counted, and not listed.
    counts: Counter[str] = Counter()
    for finding in findings:
        if finding.path == path and finding.severity != "info":
            counts[finding.code] += finding.more + 1
    return ", ".join(f"{code}" + (f" ({count})" if count > 1 else "") for code, count in counts.items()) or None


def _measure(path: str, layout: Layout, *, is_time: bool) -> tuple[int, int]:
    """Return the number of entries of an index before the zeros at its end, and the bytes of those zeros."""
    windows = EntryWindows(path, layout, is_time=is_time)
    windows.measure()
    return windows.used, (windows.count - windows.used) * layout.size


def epochs_step(
    task: ReindexTask,
    partition: Partition,
    epochs: Sequence[EpochStart],
    end_offset: int,
    sink: Sink,
    *,
    has_legacy: bool,
) -> Step | None:
    """Return the leader-epoch-checkpoint if it is to be written; None: it is not. Raises StorageError.

    The epochs that a broker reads from the file are kept, and those that it lacks are added, as a recovery does. Where
    the file contradicts the batches, the batches decide.

    Args:
        task: release, bounds and options.
        partition: has a segment.
        epochs: leader epochs of the batches, each with its first offset, in the order of the log.
        end_offset: the log end offset.
        sink: receives what is wrong with the file.
        has_legacy: whether there are messages of magic 0 or 1, at which a broker forgets the epochs before.
    """
    log_epochs = _rising(epochs)
    context, first_base = task.facts.context, partition.segments[0].base_offset
    # LogLoader.load truncates the epochs at the checkpointed log start offset; 2.8 at the raised one. `epochs_start`
    # has the release's rule.
    bounds = log_bounds_of(task, first_base)
    log_start, checkpoint = bounds.epochs_start, context.log_start_offset
    first_offset = min(first_base, bounds.log_start.offset if checkpoint is None else checkpoint)
    path = f"{partition.path}/{fixed_file_name(FileKind.LEADER_EPOCH)}"
    text = _read(path, partition)
    found = Sink()
    # A partition without the file: LeaderEpochFileCache starts empty, and assigns the epochs of the batches that a
    # recovery reads.
    if text is not None:
        for finding in text.findings:
            found.put(finding)
        # of an unknown log start, the file may know only epochs from its first entry on
        known_from = log_start if context.is_start_known else max(log_start, first_start_offset(text) or 0)
        starts = _starts(log_epochs, known_from, has_legacy=has_legacy)
        # As after an unclean shutdown, and as if compacted: entries that only retention or the cleaner may explain are
        # not called wrong.
        check_epochs(text, starts, (first_offset, end_offset), found, is_clean=False, is_compacted=True)
    for finding in found.findings:
        sink.put(for_rules(finding, rules_of(task.facts.release)))
    wrong = what_is_wrong(found.findings, path)
    old = [] if text is None else _epochs_entries(text)
    if bounds.lacks_remote_epochs(min((each.start_offset for each in old), default=None)):
        sink.put(lost_remote_epochs(path, bounds))
        return None
    # If the file contradicts the batches, keep of it only what fits between them.
    cache = EpochCache(old if wrong is None else _agreeing(old, log_epochs), task.facts.release)
    # LogSegment.recover assigns each epoch that is higher than the latest one.
    for each in log_epochs:
        cache.assign(each)
    # In this order in LogLoader.load, and so here: the first entry that is left begins at the log start offset.
    cache.truncate_start(log_start)
    cache.truncate_end(end_offset)
    content = encode_epoch_checkpoint(cache.entries)
    why = wrong
    if text is None:
        why = "it is missing" if log_epochs else None
    elif why is None and task.writes_all:
        why = NOT_A_RECOVERY
    if why is None or (text is not None and is_same(path, content)):
        return None
    log = partition.segments[-1].log
    why = f"{why}; {len(old)} epochs before, {len(cache.entries)} after"
    return Step(kind="write", path=path, why=why, content=content, like="" if log is None else log.path)


def _starts(log_epochs: Sequence[EpochStart], known_from: int, *, has_legacy: bool) -> list[verdict.SegmentEpochStart]:
    """Return the epochs that the file must have: none if a broker forgot them when it went back to an older format."""
    if has_legacy:
        return []
    return [
        verdict.SegmentEpochStart(each.epoch, each.start_offset, 0, each.start_offset - 1)
        for each in log_epochs
        if each.start_offset >= known_from
    ]


def _read(path: str, partition: Partition) -> EpochText | None:
    if not exists(path):
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
        # LeaderEpochFileCache.assign throws for negative epochs and offsets: a start fails at such a line.
        if isinstance(placed.entry, CheckpointEpoch) and min(placed.entry.leader_epoch, placed.entry.start_offset) >= 0
    ]


def _agreeing(old: Sequence[EpochStart], log_epochs: Sequence[EpochStart]) -> list[EpochStart]:
    """Return the epochs of the log, and those of the file between them that may have been without batches."""
    epochs = [each.epoch for each in log_epochs]
    agreeing = list(log_epochs)
    for each in old:
        at = bisect_left(epochs, each.epoch)
        if at < len(epochs) and epochs[at] == each.epoch:
            # the first epoch of the log may begin before it, in tiered storage
            if at == 0 and each.start_offset < log_epochs[0].start_offset:
                agreeing[0] = each
            continue
        # Epochs between two epochs of the log belonged to leaders that appended nothing, or whose batches were cleaned
        # away: they are legal if their offsets are in order too.
        is_after = at == 0 or log_epochs[at - 1].start_offset < each.start_offset
        is_before = at == len(epochs) or each.start_offset < log_epochs[at].start_offset
        if is_after and is_before:
            agreeing.append(each)
    return sorted(agreeing)


def recovered_from(task: ReindexTask, segments: Sequence[Segment]) -> int:
    """Return the base offset from which a broker recovers all segments at its next start, as far as known."""
    bases = [segment.base_offset for segment in segments]
    # LogLoader.recoverLog begins at the segment that contains the recovery point; earlier ones are trusted.
    first = first_recovered(bases, task.facts.context, None, task.facts.release)
    return MAX_INT64 if first is None else bases[first]


def next_base(segments: Sequence[Segment], segment: Segment) -> int:
    """Return the base offset of the next segment; the largest offset if there is none."""
    at = bisect_right(segments, segment.base_offset, key=lambda each: each.base_offset)
    return segments[at].base_offset if at < len(segments) else MAX_INT64


def _rising(epochs: Sequence[EpochStart]) -> list[EpochStart]:
    """Return the epochs that are higher than all before them."""
    found: list[EpochStart] = []
    for each in epochs:
        if not found or each.epoch > found[-1].epoch:
            found.append(each)
    return found


def log_bounds_of(task: ReindexTask, first_base: int) -> LogBounds:
    """Return the bounds of a log as the next start sets them, without its end."""
    facts = task.facts
    return log_bounds(
        first_base, facts.context, rules_of(facts.release), is_tiered=facts.settings.remote_storage_enable or None
    )
