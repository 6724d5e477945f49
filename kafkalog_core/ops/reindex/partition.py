"""The replay of one partition's log, and the steps that repair the files which are built from it.

Indexes depend on their log alone. Producer snapshots and transaction indexes depend on everything that producers did
before. After a segment that cannot be read to its end that is unknown, until the next readable snapshot.
"""

from __future__ import annotations

import os
from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.engine.spool import send
from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.findings.catalog import Sink
from kafkalog_core.format.checksums import ZLIB
from kafkalog_core.format.layout import MAX_INT32
from kafkalog_core.kafka.rules.producers import ProducerStates
from kafkalog_core.kafka.rules.releases import Release, with_log_files
from kafkalog_core.kafka.rules.rule_table import RecoveryRules, recovery_rules, rules_of
from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochStart
from kafkalog_core.kafka.sim.logfiles import is_compacted, may_be_compacted
from kafkalog_core.kafka.sim.start.recovery import RecoveryWatch, SegmentRecoverer, recover_segment, split_parts
from kafkalog_core.kafka.sim.start.snapshots import is_deleted_by_start
from kafkalog_core.ops.reindex.indexes import (
    SegmentIndexes,
    epochs_step,
    log_bounds_of,
    next_base,
    recovered_from,
)
from kafkalog_core.ops.reindex.producers import Snapshots, load_states, txn_index_step
from kafkalog_core.ops.reindex.steps import (
    ReindexReport,
    ReindexTask,
    Step,
    split_steps,
    taken_name,
)
from kafkalog_core.ops.repair.loss import measure_loss
from kafkalog_core.ops.repair.plan_rows import MENDED_BY_PLAN
from kafkalog_core.ops.verify.request import SegmentCheck
from kafkalog_core.ops.verify.txn_index import Doubt
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import ScanOptions
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.engine.spool import OutputStream
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.start.recovery import ProblemKind, SegmentRecovery, SplitPart
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.planned import FileSlice
    from kafkalog_core.storage.scan import Damage, Run

__all__ = ["PartitionReindex", "rebuild", "rules_of_indexes", "with_repaired"]


# What an interrupted append leaves; after it there is no batch.
_TAIL: Final = frozenset({"torn-tail", "zero-filled"})
_CODES: Final[dict[ProblemKind, str]] = {
    "first-offset": "reindex.disorder",
    "invalid-offset": "reindex.disorder",
    "overflow": "reindex.overflow",
    "index-full": "reindex.index-full",
    "bad-marker": "reindex.bad-records",
    "empty-marker": "reindex.bad-records",
    "bad-message": "reindex.bad-records",
    "txn-state": "reindex.bad-records",
    "txn-order": "reindex.bad-records",
    "unreadable": "reindex.unread",
    "over-limit": "reindex.over-limit",
}
_SHOWN: Final = frozenset({"segment.index-missing", "segment.timeindex-missing"})
_LAST: Final = 2
_MISSING: Final = {"segment.index-missing": ".index", "segment.timeindex-missing": ".timeindex"}


class _OpenedSegment(NamedTuple):
    """A segment while it is recovered.

    Args:
        segment: its files.
        indexes: listen to the recovery.
        steps: those from within the segment.
        watch: callbacks of the recovery.
        saved: the producers at its base offset, if it may have to be split.
        is_known: whether these are known.
        is_meant: whether it is requested.
        is_indexed: whether its offset and time indexes are, too.
    """

    segment: Segment
    indexes: SegmentIndexes
    steps: list[Step]
    watch: RecoveryWatch
    saved: bytes | None
    is_known: bool
    is_meant: bool
    is_indexed: bool


def _unchanged(content: bytes | FileSlice) -> bytes | FileSlice:
    return content


class PartitionReindex:
    """The work on one partition: `steps`, and then its `report`.

    A recovery that reads segments for another purpose may be followed (`follow`) before `steps`: these are not read
    again. What was followed counts only if that recovery has read all of each of them.

    Args:
        task: the partition.
        advance: called with the bytes of log that are read.
        held: returns the content of a file in a form that takes less memory, for steps that are kept.
        partition: its files; None: they are listed.
    """

    def __init__(
        self,
        task: ReindexTask,
        advance: Callable[[int], None],
        held: Callable[[bytes | FileSlice], bytes | FileSlice] = _unchanged,
        partition: Partition | None = None,
    ) -> None:
        self._task = task
        self._advance = advance
        self._held = held
        self._partition = partition or read_partition(task.path)
        self._waiting = deque(segment for segment in self._partition.segments if segment.log is not None)
        self._followed: list[Step] = []
        self._opened: tuple[_OpenedSegment, SegmentRecoverer] | None = None
        self._sink = Sink(self._partition.topic, self._partition.partition)
        self._refusals = Sink(self._partition.topic, self._partition.partition)
        self._losses: list[Loss] = []
        self._is_compacted = is_compacted(self._partition.topic, is_cleaned=task.facts.context.is_cleaned)
        segments = self._partition.segments
        self._recovered_from = recovered_from(task, segments)
        self._kept = 0
        self._tail_bytes = 0
        self._may_hide = False
        self._has_legacy = False
        self._states: ProducerStates | None = None
        self._epochs: list[EpochStart] | None = []
        self._start_offset = segments[0].base_offset if segments else 0
        self._end_offset: int | None = self._start_offset
        self._snapshots = Snapshots(
            self._partition,
            task.rules,
            self._start_offset,
            self._sink,
            is_deleted=self._is_deleted,
            writes_all=task.writes_all,
        )

    @property
    def report(self) -> ReindexReport:
        """The findings, refusals and losses, after the last step."""
        findings = self._sink.findings
        # For single files, the findings about other segments of the partition are not asked for.
        if self._task.bases is None:
            findings = (*(each for each in self._partition.findings if each.code in _SHOWN), *findings)
        if self._kept:
            partition = self._partition
            kept = found(
                "reindex.kept",
                partition.path,
                topic=partition.topic,
                partition=partition.partition,
                count=self._kept,
            )
            findings = (*findings, kept)
        return ReindexReport(
            findings=findings,
            refusals=self._refusals.findings,
            losses=tuple(self._losses),
            tail_bytes=self._tail_bytes,
            may_hide_batches=self._may_hide,
        )

    def steps(self) -> Iterator[Step]:
        """Yield the changes, in the order in which they are made."""
        if self._partition.format == "v07":
            self._sink.add("reindex.no-index", self._partition.path)
            return
        yield from self._followed
        yield from map(self._holding, self._up_to(None))
        if self._has_producer_files and self._partition.segments:
            yield from self._at_end()

    def _holding(self, step: Step) -> Step:
        content = self._held(step.content)
        return step if content is step.content else replace(step, content=content)

    def follow(self, segment: Segment) -> Callable[[Run | Damage], object]:
        """Return what takes all that a recovery reads of a segment; those before it are read here first.

        A segment that was followed before is ignored: its recovery reads it again.
        """
        base_offset = segment.base_offset
        self._followed += map(self._holding, self._up_to(base_offset))
        if not self._waiting or self._waiting[0].base_offset != base_offset:
            return _look_away
        self._followed += self._begin(self._waiting[0])
        task, opened = self._task, self._open(self._waiting.popleft())
        recoverer = SegmentRecoverer(
            segment.size_bytes,
            base_offset,
            rules=task.rules,
            settings=task.facts.settings,
            states=self._replayed,
            max_batch_bytes=task.max_batch_bytes,
            watch=opened.watch,
        )
        self._opened = opened, recoverer
        return recoverer.take

    # --- one segment --------------------------------------------------------------------------------------------------
    def _up_to(self, base_offset: int | None) -> Iterator[Step]:
        """Yield the steps of the segments below an offset that are left, after the followed one; None: of all."""
        if self._opened is not None:
            opened, recoverer = self._opened
            self._opened = None
            yield from self._refusing(opened.segment, self._close(opened, recoverer.finish()))
        while self._waiting and (base_offset is None or self._waiting[0].base_offset < base_offset):
            segment = self._waiting.popleft()
            yield from self._refusing(segment, self._segment(segment))

    def _refusing(self, segment: Segment, steps: Iterator[Step]) -> Iterator[Step]:
        """Yield the steps of a segment, which is refused where it cannot be read.

        The next ones are still indexed: their offset and time indexes depend on their own log alone.
        """
        try:
            yield from steps
        except StorageError as error:
            self._refusals.add("reindex.unread", error.path or segment.files[0].path, problem=error.message)
            self._forget(segment)
        self._advance(segment.size_bytes)

    def _segment(self, segment: Segment) -> Iterator[Step]:
        # The snapshot steps of a segment come before its index steps: the producers at its base offset are needed by
        # its transaction index.
        yield from self._begin(segment)
        opened = self._open(segment)
        with Source.open(segment.files[0].path) as source:
            recovery = self._recover(source, segment.base_offset, opened.watch)
        yield from self._close(opened, recovery)

    def _open(self, segment: Segment) -> _OpenedSegment:
        """Return a segment whose recovery begins."""
        is_last = segment is self._partition.segments[-1]
        is_meant = self._task.bases is None or segment.base_offset in self._task.bases
        indexes = SegmentIndexes(self._segment_task(segment, is_last=is_last))
        steps: list[Step] = []

        def reached(offset: int) -> None:
            # Held back until the recovery has ended: if it fails, the steps from within the segment are not made.
            steps.extend(self._visit(offset, makes=False))

        # Snapshots within a segment, left by a clean shutdown before later appends: the replay pauses there to compare
        # them.
        pauses = self._snapshots.between(segment.base_offset, next_base(self._partition.segments, segment))
        is_known = self._states is not None
        is_indexed = is_meant and segment.base_offset not in self._task.unindexed
        watch = RecoveryWatch(
            listen=indexes.listen if is_indexed else _look_away, pauses=pauses if is_known else (), reached=reached
        )
        return _OpenedSegment(segment, indexes, steps, watch, self._saved(segment), is_known, is_meant, is_indexed)

    def _close(self, opened: _OpenedSegment, recovery: SegmentRecovery) -> Iterator[Step]:
        """Yield the steps of a segment whose recovery has ended."""
        segment, indexes, is_meant = opened.segment, opened.indexes, opened.is_meant
        path = segment.files[0].path
        if recovery.problem is not None:
            yield from self._problem(segment, recovery, opened.saved, is_meant=is_meant)
            return
        yield from opened.steps
        # LogSegment.recover would truncate here. Without --as-broker nothing is truncated, and an index up to the
        # damage would hide what follows it.
        is_tail = segment is self._partition.segments[-1] and recovery.stop in _TAIL
        if recovery.stop is not None and not is_tail and not self._task.as_broker:
            if is_meant:
                self._refuse_damage(path, recovery)
            self._forget(segment)
            return
        # Offsets that go back break OffsetIndex.append (InvalidOffsetException) only at an index point; whether one is
        # there depends on index.interval.bytes, so the log is refused in any case.
        if indexes.disorder is not None and is_meant and not self._task.as_broker:
            self._refusals.add(
                "reindex.disorder",
                path,
                position=indexes.disorder.position,
                offset=indexes.disorder.next_offset,
                problem=indexes.disorder.detail,
            )
            self._forget(segment)
            return
        self._pass(recovery)
        self._may_hide |= indexes.has_wrong_header
        self._may_hide |= recovery.end_offset > next_base(self._partition.segments, segment)
        self._may_hide |= recovery.has_legacy and self._task.facts.load_options.loader.search == "base"
        if is_meant:
            # An index must not name what is truncated
            is_new = recovery.stop is not None
            if opened.is_indexed:
                yield from indexes.steps(recovery, writes_all=is_new or self._writes_all(segment))
            self._kept += indexes.kept
            for finding in indexes.findings:
                self._sink.put(finding)
            # Without known producers, a transaction that began before this segment would be missing in the index.
            if opened.is_known and self._task.rules.has_producers:
                yield from self._txn_index(segment, recovery)
            # After the indexes: a broker that starts in between finds shorter indexes of a longer log, which it can
            # serve, or recovers the segment.
            if recovery.cut_bytes and self._task.as_broker:
                yield from self._cut(path, recovery)

    def _writes_all(self, segment: Segment) -> bool:
        """Return whether correct indexes are written too: those that a broker rebuilds at its next start anyway."""
        return self._task.writes_all or segment.base_offset >= self._recovered_from

    def _recover(
        self, source: Source, base_offset: int, watch: RecoveryWatch, byte_range: tuple[int, int] | None = None
    ) -> SegmentRecovery:
        task = self._task
        return recover_segment(
            source,
            base_offset,
            rules=task.rules,
            settings=task.facts.settings,
            states=self._replayed,
            max_batch_bytes=task.max_batch_bytes,
            watch=watch,
            byte_range=byte_range,
        )

    @property
    def _replayed(self) -> ProducerStates:
        """The producers that a recovery updates."""
        # Placeholder states: the offset and time index need none, and what the replay of producers gives is not used.
        return ProducerStates(sequences="unchecked") if self._states is None else self._states

    def _pass(self, recovery: SegmentRecovery) -> None:
        """Continue the log after a recovered segment."""
        self._end_offset = recovery.end_offset
        self._tail_bytes = 0 if self._task.as_broker else recovery.cut_bytes
        self._has_legacy = self._has_legacy or recovery.has_legacy
        if self._epochs is not None:
            self._epochs += [EpochStart(*each) for each in recovery.epochs]

    def _segment_task(self, segment: Segment, *, is_last: bool) -> SegmentCheck:
        return SegmentCheck(
            segment=segment,
            topic=self._partition.topic,
            partition=self._partition.partition,
            is_v07=False,
            is_last=is_last,
            level="checksums",
            now_ms=self._task.facts.now_ms,
            max_batch_bytes=self._task.max_batch_bytes,
        )

    def _cut(self, path: str, recovery: SegmentRecovery) -> Iterator[Step]:
        """Yield the truncation of the log, after its indexes are shorter: they never name what the log lacks."""
        cuts = [(path, recovery.valid_bytes)]
        loss = measure_loss(self._partition, cuts, self._task.facts.high_watermark)
        if loss is not None:
            self._losses.append(loss)
        why = f"{recovery.stop} at byte {recovery.valid_bytes}: a broker that rebuilds the index truncates it here"
        yield Step(kind="cut", path=path, size_bytes=recovery.valid_bytes, why=why)

    def _txn_index(self, segment: Segment, recovery: SegmentRecovery) -> Iterator[Step]:
        sink = Sink(self._partition.topic, self._partition.partition)
        step = self._txn_index_step(segment, recovery, sink, is_compacted=self._is_compacted)
        # Two judgements, the second only if the first would write: to decide whether the log was compacted means to
        # read it.
        if step is not None and not self._is_compacted and self._may_be_compacted:
            sink = Sink(self._partition.topic, self._partition.partition)
            step = self._txn_index_step(segment, recovery, sink, is_compacted=True)
        for finding in sink.findings:
            self._sink.put(finding)
        if step is not None:
            yield step

    def _txn_index_step(
        self, segment: Segment, recovery: SegmentRecovery, sink: Sink, *, is_compacted: bool
    ) -> Step | None:
        doubt = Doubt(start_offset=self._start_offset, damage=(), is_compacted=is_compacted, is_rebuilt=False)
        is_whole = self._task.facts.context.is_cleaned is False
        return txn_index_step(segment, recovery, doubt, sink, is_whole=is_whole, writes_all=self._task.writes_all)

    @cached_property
    def _may_be_compacted(self) -> bool:
        """Whether missing batches explain a file that contradicts the log; asked only then, because it reads the log.

        Compaction removes batches whose producers and transactions the files still name. Rebuilt from the rest, a
        producer snapshot forgets sequences and a transaction index forgets aborted transactions.
        """
        return may_be_compacted(
            [
                (segment.log.path, segment.base_offset)
                for segment in self._partition.segments
                if segment.log is not None
            ],
            self._partition.topic,
            is_cleaned=self._task.facts.context.is_cleaned,
            options=ScanOptions(max_batch_bytes=self._task.max_batch_bytes),
        )

    # --- what cannot be indexed ---------------------------------------------------------------------------------------
    def _problem(
        self, segment: Segment, recovery: SegmentRecovery, saved: bytes | None, *, is_meant: bool
    ) -> Iterator[Step]:
        """Yield the split of a segment whose recovery fails for its offsets; else report why it cannot be reindexed.

        `saved`: the producers at its base offset, if it may have to be split.
        """
        problem = recovery.problem
        if problem is None or segment.log is None:
            return
        path, text = segment.log.path, problem.detail
        if problem.kind == "overflow" and is_meant:
            # Only a cleaned log has a gap of that length; else the offset of the batch is wrong.
            self._may_hide |= not self._is_compacted
            with Source.open(path) as source:
                # LocalLog.splitOverflowedSegment, offline: each part gets the base offset of its first batch.
                parts = split_parts(source, segment.base_offset, max_batch_bytes=self._task.max_batch_bytes)
                if not isinstance(parts, str):
                    # A leftover of an earlier split has the name already: to overwrite it would lose its records.
                    parts = taken_name(segment, parts) or parts
                if not isinstance(parts, str):
                    yield from self._split(source, segment, parts, saved)
                    return
            text = f"{text}; {parts}"
        if is_meant:
            self._refusals.add(_CODES[problem.kind], path, position=problem.position, problem=text)
        self._forget(segment)

    def _split(self, source: Source, segment: Segment, parts: list[SplitPart], saved: bytes | None) -> Iterator[Step]:
        if saved is not None:
            # The replay has run over the segment once; its parts are replayed again from the state before it.
            self._states = ProducerStates.from_state(ZLIB.decompress(saved), sequences="unchecked")
        recoveries = []
        for part in parts:
            recovery = self._recover(source, part.base_offset, RecoveryWatch(), (part.start, part.end))
            if recovery.problem is not None:
                text = f"split at offset {part.base_offset}: {recovery.problem.detail}"
                # Positions in a part count from its start; the report names the byte in the file.
                position = part.start + recovery.problem.position
                self._refusals.add(_CODES[recovery.problem.kind], source.path, position=position, problem=text)
                self._forget(segment)
                return
            recoveries.append(recovery)
            self._pass(recovery)
        yield from split_steps(segment, parts, recoveries)

    def _refuse_damage(self, path: str, recovery: SegmentRecovery) -> None:
        self._refusals.add(
            "reindex.damaged",
            path,
            position=recovery.valid_bytes,
            size_bytes=recovery.cut_bytes,
            offset=recovery.end_offset,
            problem=f"{recovery.stop}: {recovery.stop_detail}",
        )

    def _forget(self, segment: Segment) -> None:
        """Forget producers and leader epochs: after this segment they are unknown."""
        is_last = segment is self._partition.segments[-1]
        if self._epochs is not None and self._has_producer_files and not is_last:
            self._sink.add("reindex.producers-unknown", self._partition.path, offset=segment.base_offset)
        # All three at once: epochs and the end of the log are as unknown as the producers, after bytes that were not
        # read.
        self._states = self._epochs = self._end_offset = None

    # --- producers and epochs -----------------------------------------------------------------------------------------
    @property
    def _has_producer_files(self) -> bool:
        """Whether snapshots and epochs are requested, and the release has any."""
        return self._task.bases is None and self._task.rules.has_producers

    def _begin(self, segment: Segment) -> Iterator[Step]:
        """Yield the producers at the base offset of a segment."""
        if not self._task.rules.has_producers:
            self._states = None
            return
        is_first = segment is self._partition.segments[0]
        if self._states is None:
            # A snapshot at the base offset starts the knowledge again: it holds the state before the segment, whatever
            # the earlier segments hold.
            self._states = None if segment.snapshot is None else load_states(segment.snapshot.path)
        if self._states is None and is_first:
            # At the first segment without a snapshot, a broker starts with no producers too
            # (ProducerStateManager.truncateAndReload).
            self._states = ProducerStates(sequences="unchecked")
        # An empty last segment begins at the log end: its snapshot is the one of `_at_end`.
        is_end = not segment.size_bytes and segment is self._partition.segments[-1]
        if not is_end and not self._snapshots.is_deleted(segment.base_offset):
            yield from self._visit(segment.base_offset, makes=self._makes_at(segment))

    def _makes_at(self, segment: Segment) -> bool:
        """Return whether a recovery of all segments leaves a snapshot at the base offset of a segment."""
        task, segments = self._task, self._partition.segments
        # 2.1 and earlier kept the snapshots of about the last two segments; later releases keep one for each segment.
        is_kept = rules_of(task.facts.release).keeps_segment_snapshots or segment in segments[-_LAST:]
        return task.writes_all and is_kept and segment.base_offset > self._log_start

    def _visit(self, offset: int, *, makes: bool) -> Iterator[Step]:
        if self._states is not None and self._has_producer_files:
            yield from self._snapshots.visit(offset, self._states, makes=makes, is_doubtful=self._is_doubtful)

    def _is_doubtful(self) -> bool:
        return self._is_compacted or self._may_be_compacted

    def _at_end(self) -> Iterator[Step]:
        """Yield the snapshots at the log end offset and after it, and the leader epochs."""
        end_offset, states = self._end_offset, self._states
        if end_offset is not None and states is not None:
            last_base = self._partition.segments[-1].base_offset
            # A clean start without any snapshot makes empty ones (UnifiedLog.rebuildProducerState), and every producer
            # and open transaction is forgotten.
            is_needed = states.count > 0 and not self._snapshots.is_good_from(last_base)
            is_recovered = self._task.facts.context.is_clean is False  # a recovery leaves one here, of no producers too
            makes = end_offset > self._log_start and (is_needed or is_recovered or self._task.writes_all)
            yield from self._visit(end_offset, makes=makes)
            yield from self._snapshots.deleted(end_offset)
            yield from self._snapshots.after_end(end_offset)
        if end_offset is not None and self._epochs is not None:
            step = epochs_step(
                self._task, self._partition, self._epochs, end_offset, self._sink, has_legacy=self._has_legacy
            )
            if step is not None:
                yield step

    @property
    def _log_start(self) -> int:
        return log_bounds_of(self._task, self._start_offset).log_start.offset

    def _is_deleted(self, offset: int) -> bool:
        """Return whether the next start deletes the snapshot of an offset, unless the log ends there."""
        facts = self._task.facts
        # Only an unclean start replays, and deletes what is at no segment's base offset
        # (ProducerStateManager.removeStraySnapshots).
        return facts.context.is_clean is False and is_deleted_by_start(
            offset,
            {segment.base_offset for segment in self._partition.segments},
            log_start=self._log_start,
            recovered_from=self._recovered_from,
            removes_stray=rules_of(facts.release).removes_stray_snapshots,
        )

    def _saved(self, segment: Segment) -> bytes | None:
        """Return the producers before a segment that may have to be split; None: they are unknown, or it need not be.

        It may hold offsets that its indexes cannot hold if the next segment does not begin before them.
        """
        # Offsets are relative to the base offset, in 31 bits (LogSegment.canConvertToRelativeOffset). If the next
        # segment begins within them, none can overflow.
        if self._states is None or next_base(self._partition.segments, segment) - segment.base_offset <= MAX_INT32:
            return None
        # 208 bytes a producer, most of them zeros
        saved: bytes = ZLIB.compress(self._states.state_bytes(), 1)
        return saved


def _look_away(_: object) -> None:
    """Do nothing: the indexes of the segment are not requested."""


def with_repaired(report: ReindexReport, written: set[str]) -> ReindexReport:
    """Return the report of a partition, with the plan as the cure of the findings about files that it writes."""
    findings = tuple(
        replace(each, cure=MENDED_BY_PLAN, next_step=None)
        # A missing index is reported for the log, and the plan writes the index: the pair is one finding.
        if each.severity != "info" and (each.path in written or _missing_index(each) in written)
        else each
        for each in report.findings
    )
    return replace(report, findings=findings)


def _missing_index(finding: Finding) -> str | None:
    """Return the path of the index that a finding about a segment's log says is missing; None: none."""
    suffix = _MISSING.get(finding.code)
    return None if suffix is None else f"{os.path.splitext(finding.path)[0]}{suffix}"


def rebuild(task: ReindexTask, stream: OutputStream, advance: Callable[[int], None]) -> ReindexReport:
    """Send the steps of one partition, in its own process, and return its report."""
    work = PartitionReindex(task, advance)
    for step in work.steps():
        send(stream, step)
    return work.report


def rules_of_indexes(release: Release) -> RecoveryRules:
    """Return the rules of a release that has indexes: for 0.7 those of the next one.

    A control batch that the cleaner has emptied does not prevent an index, although releases before 2.0 fail at it.
    """
    return replace(recovery_rules(with_log_files(release)), reads_empty_markers=True)
