"""One partition, reindexed: its logs are read once, in their order, and the files next to them are compared on the way.

Indexes depend on their log alone. Producer snapshots and transaction indexes depend on all that producers did before;
after a segment that cannot be read to its end that is not known, until a snapshot says it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.findings.sink import Sink
from kafkalog_core.format.checksums import ZLIB
from kafkalog_core.format.layout import MAX_INT32
from kafkalog_core.kafka.leader_epochs import EpochStart
from kafkalog_core.kafka.producers import ProducerStates
from kafkalog_core.kafka.rules import rules_of
from kafkalog_core.kafka.start.recovery import RecoveryWatch, recover_segment, split_parts
from kafkalog_core.ops.reading.compaction import is_compacted, may_be_compacted
from kafkalog_core.ops.reindex.indexes import (
    SegmentIndexes,
    epoch_extent,
    epochs_step,
    leaving,
    log_bounds_of,
    next_base,
    recovered_from,
    rising,
)
from kafkalog_core.ops.reindex.producers import Snapshots, load_states, txn_index_step
from kafkalog_core.ops.reindex.steps import ReindexReport, Step, split_steps, taken_name
from kafkalog_core.ops.repair.loss import measure_loss
from kafkalog_core.ops.verify.check import SegmentTask
from kafkalog_core.ops.verify.txn_index import Doubt
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import ScanOptions
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.start.recovery import ProblemKind, SegmentRecovery, SplitPart
    from kafkalog_core.ops.reindex.steps import ReindexTask
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.storage.listing import Segment

__all__ = ["PartitionReindex"]

_TAIL: Final = frozenset({"torn-tail", "zero-filled"})
_CODES: Final[dict[ProblemKind, str]] = {
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


class PartitionReindex:
    """The work on one partition: `steps`, and then what there is to say.

    Args:
        task: the partition.
        advance: called with the bytes of log that are read.
    """

    def __init__(self, task: ReindexTask, advance: Callable[[int], None]) -> None:
        self._task = task
        self._advance = advance
        self._partition = read_partition(task.path)
        self._sink = Sink(self._partition.topic, self._partition.partition)
        self._refusals = Sink(self._partition.topic, self._partition.partition)
        self._losses: list[Loss] = []
        self._is_compacted = is_compacted(self._partition.topic, is_cleaned=task.facts.context.is_cleaned)
        segments = self._partition.segments
        self._recovered_from = recovered_from(task, segments)
        self._kept = 0
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
            leaving=leaving(task, segments, self._recovered_from, self._log_start),
            writes_all=task.writes_all,
        )

    @property
    def said(self) -> ReindexReport:
        """To be asked for after the last step."""
        findings = self._sink.findings
        if self._task.bases is None:
            findings = (*(each for each in self._partition.findings if each.code in _SHOWN), *findings)
        if self._kept:
            findings = (*findings, self._kept_finding())
        return ReindexReport(findings=findings, refusals=self._refusals.findings, losses=tuple(self._losses))

    def steps(self) -> Iterator[Step]:
        """Yield what is to be done, in its order."""
        if self._partition.format == "v07":
            self._sink.add("reindex.no-index", self._partition.path)
            return
        for segment in self._partition.segments:
            if segment.log is None:
                continue
            try:
                yield from self._segment(segment, segment.log.path)
            except StorageError as error:
                self._refusals.add("reindex.unread", error.path or segment.log.path, problem=error.message)
                self._forget(segment)
            self._advance(segment.size_bytes)
        if self._has_producer_files and self._partition.segments:
            yield from self._at_end()

    # --- one segment --------------------------------------------------------------------------------------------------
    def _segment(self, segment: Segment, path: str) -> Iterator[Step]:
        yield from self._begin(segment)
        is_last = segment is self._partition.segments[-1]
        is_meant = self._task.bases is None or segment.base_offset in self._task.bases
        indexes = SegmentIndexes(self._segment_task(segment, is_last=is_last))
        steps: list[Step] = []

        def reached(offset: int) -> None:
            steps.extend(self._visit(offset, makes=False))

        pauses = self._snapshots.between(segment.base_offset, next_base(self._partition.segments, segment))
        watch = RecoveryWatch(
            listen=indexes.listen if is_meant else _look_away,
            pauses=() if self._states is None else pauses,
            reached=reached,
        )
        is_known = self._states is not None
        saved = self._saved(segment)
        with Source.open(path) as source:
            recovery = self._recover(source, segment.base_offset, watch)
        if recovery.problem is not None:
            yield from self._problem(segment, recovery, saved, is_meant=is_meant)
            return
        yield from steps
        if recovery.stop is not None and not self._is_tail(recovery, is_last=is_last) and not self._task.as_broker:
            if is_meant:
                self._refuse_damage(path, recovery)
            self._forget(segment)
            return
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
        if is_meant:
            is_new = recovery.stop is not None  # an index must not name what is cut
            yield from indexes.steps(recovery, writes_all=is_new or self._writes_all(segment))
            self._kept += indexes.kept
            for finding in indexes.findings:
                self._sink.put(finding)
            if is_known and self._task.rules.has_producers:
                yield from self._txn_index(segment, recovery)
            if recovery.cut_bytes and self._task.as_broker:
                yield from self._cut(path, recovery)

    def _writes_all(self, segment: Segment) -> bool:
        """Return whether correct indexes are written too: those that a broker rebuilds at its next start anyway."""
        return self._task.writes_all or segment.base_offset >= self._recovered_from

    def _recover(
        self, source: Source, base_offset: int, watch: RecoveryWatch, span: tuple[int, int] | None = None
    ) -> SegmentRecovery:
        task = self._task
        states = ProducerStates(sequences="unchecked") if self._states is None else self._states
        return recover_segment(
            source,
            base_offset,
            rules=task.rules,
            settings=task.facts.settings,
            states=states,
            max_batch_bytes=task.max_batch_bytes,
            watch=watch,
            span=span,
        )

    def _pass(self, recovery: SegmentRecovery) -> None:
        """Continue the log after a recovered segment."""
        self._end_offset = recovery.end_offset
        self._has_legacy = self._has_legacy or recovery.has_legacy
        if self._epochs is not None:
            self._epochs += [EpochStart(*each) for each in recovery.epochs]

    def _is_tail(self, recovery: SegmentRecovery, *, is_last: bool) -> bool:
        """Return whether the log is cut where an append was cut short, so that no batch is lost."""
        return is_last and recovery.stop in _TAIL

    def _segment_task(self, segment: Segment, *, is_last: bool) -> SegmentTask:
        return SegmentTask(
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
        """Yield the log, when its indexes are shorter: they never say more than it holds."""
        spans = [(path, recovery.valid_bytes)]
        loss = measure_loss(self._partition, spans, self._task.facts.high_watermark)
        if loss is not None:
            self._losses.append(loss)
        why = f"{recovery.stop} at byte {recovery.valid_bytes}: a broker that rebuilds the index cuts it here"
        yield Step(kind="cut", path=path, size_bytes=recovery.valid_bytes, why=why)

    def _txn_index(self, segment: Segment, recovery: SegmentRecovery) -> Iterator[Step]:
        sink = Sink(self._partition.topic, self._partition.partition)
        step = self._txn_index_step(segment, recovery, sink, is_compacted=self._is_compacted)
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
        """Whether missing batches explain a file that contradicts the log: asked only then, as it reads the log again.

        Compaction removes batches whose producers and transactions the files still name. Written again from what is
        left, a producer snapshot forgets sequences and a transaction index forgets aborted transactions.
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
        """`saved` are the states at the segment's base offset, where it may have to be split."""
        problem = recovery.problem
        if problem is None or segment.log is None:
            return
        path, text = segment.log.path, problem.detail
        if problem.kind == "overflow" and is_meant:
            with Source.open(path) as source:
                parts = split_parts(source, segment.base_offset, max_batch_bytes=self._task.max_batch_bytes)
                if not isinstance(parts, str):
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
            self._states = ProducerStates.from_state(ZLIB.decompress(saved), sequences="unchecked")
        recoveries = []
        for part in parts:
            recovery = self._recover(source, part.base_offset, RecoveryWatch(), (part.start, part.end))
            if recovery.problem is not None:
                text = f"split at offset {part.base_offset}: {recovery.problem.detail}"
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
            behind_bytes=recovery.cut_bytes,
        )

    def _forget(self, segment: Segment) -> None:
        """Forget producers and leader epochs: after this segment they are unknown."""
        is_last = segment is self._partition.segments[-1]
        if self._epochs is not None and self._has_producer_files and not is_last:
            self._sink.add("reindex.producers-unknown", self._partition.path, offset=segment.base_offset)
        self._states = self._epochs = self._end_offset = None

    # --- producers and epochs -----------------------------------------------------------------------------------------
    @property
    def _has_producer_files(self) -> bool:
        """Whether snapshots and epochs are meant, and the release has any."""
        return self._task.bases is None and self._task.rules.has_producers

    def _begin(self, segment: Segment) -> Iterator[Step]:
        """Yield the producers at the base offset of a segment."""
        if not self._task.rules.has_producers:
            self._states = None
            return
        is_first = segment is self._partition.segments[0]
        if self._states is None:
            self._states = None if segment.snapshot is None else load_states(segment.snapshot.path)
        if self._states is None and is_first:
            self._states = ProducerStates(sequences="unchecked")
        is_end = not segment.size_bytes and segment is self._partition.segments[-1]
        if not is_end and not self._snapshots.is_deleted(segment.base_offset):
            yield from self._visit(segment.base_offset, makes=self._makes_at(segment))

    def _makes_at(self, segment: Segment) -> bool:
        """Return whether a recovery of all leaves a snapshot at the base of a segment."""
        task, segments = self._task, self._partition.segments
        is_kept = rules_of(task.facts.release).keeps_segment_snapshots or segment in segments[-_LAST:]
        return task.writes_all and is_kept and segment.base_offset > self._log_start

    def _visit(self, offset: int, *, makes: bool) -> Iterator[Step]:
        if self._states is not None and self._has_producer_files:
            yield from self._snapshots.visit(offset, self._states, makes=makes, is_doubtful=self._is_doubtful)

    def _is_doubtful(self) -> bool:
        return self._is_compacted or self._may_be_compacted

    def _at_end(self) -> Iterator[Step]:
        """Snapshots at the end of the log and after it; leader epochs."""
        end_offset, states = self._end_offset, self._states
        if end_offset is not None and states is not None:
            last_base = self._partition.segments[-1].base_offset
            is_needed = states.count > 0 and not self._snapshots.is_good_from(last_base)
            is_recovered = self._task.facts.context.is_clean is False  # a recovery leaves one here, of no producers too
            makes = end_offset > self._log_start and (is_needed or is_recovered or self._task.writes_all)
            yield from self._visit(end_offset, makes=makes)
            yield from self._snapshots.deleted(end_offset)
            yield from self._snapshots.behind(end_offset)
        if end_offset is not None and self._epochs is not None:
            step = epochs_step(
                self._partition,
                rising(self._epochs),
                epoch_extent(self._task, self._start_offset, end_offset, has_legacy=self._has_legacy),
                self._task.facts.release,
                self._sink,
                writes_all=self._task.writes_all,
            )
            if step is not None:
                yield step

    @property
    def _log_start(self) -> int:
        return log_bounds_of(self._task, self._start_offset).log_start.offset

    def _saved(self, segment: Segment) -> bytes | None:
        """Return the producers before a segment that may have to be split; None: unknown, or it cannot have to.

        It may hold offsets that its indexes cannot, where the next segment does not begin before them.
        """
        if self._states is None or next_base(self._partition.segments, segment) - segment.base_offset <= MAX_INT32:
            return None
        saved: bytes = ZLIB.compress(self._states.state_bytes(), 1)  # 208 bytes a producer, most of them zeros
        return saved

    def _kept_finding(self) -> Finding:
        partition = self._partition
        return found(
            "reindex.kept",
            partition.path,
            topic=partition.topic,
            partition=partition.partition,
            count=self._kept,
        )


def _look_away(_: object) -> None:
    """Its indexes are not meant."""
