"""The replay of a partition's producer state: findings about its batches, transactions and snapshots."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import found
from kafkalog_core.findings.catalog import Sink, SinkPart
from kafkalog_core.format.checkpoint import CheckpointEpoch
from kafkalog_core.format.names import FileKind
from kafkalog_core.kafka.rules.producer_anomalies import ANOMALIES
from kafkalog_core.kafka.rules.producers import CompletedTxn, ProducerStates, sequences_of
from kafkalog_core.kafka.sim.logfiles import is_compacted
from kafkalog_core.ops.verify.txn_index import AbortedTxns, check_snapshot
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_core.findings import Finding, Severity
    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.format.names import DirectoryName
    from kafkalog_core.kafka.rules.producer_anomalies import Anomaly, Marker
    from kafkalog_core.kafka.sim.logdir.text_files import EpochText
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir, PartitionContext
    from kafkalog_core.ops.verify.verdict import SegmentEpochStart
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "ProducerChecks",
    "ProducerPlace",
    "add_before_start",
    "add_beyond_end",
    "check_epochs",
    "check_partition_offsets",
    "first_start_offset",
]


_CODES: Final = {
    "sequence-gap": "producer.sequence-gap",
    "sequence-back": "producer.sequence-back",
    "duplicate-batch": "producer.duplicate-batch",
    "epoch-back": "producer.epoch-back",
    "epoch-start": "producer.epoch-start",
    "coordinator-epoch-back": "producer.coordinator-epoch-back",
    "transaction-cut": "txn.cut",
    "plain-in-transaction": "txn.plain-inside",
    "marker-without-transaction": "txn.marker-alone",
    "marker-unreadable": "txn.marker-unreadable",
}
_FIELD_KINDS: Final = frozenset({"epoch-missing", "sequence-missing", "control-fields", "producer-missing"})
_EXPLAINED: Final = frozenset({"sequence-gap", "sequence-back", "epoch-start", "transaction-cut"})
"""Findings that show no damage where batches are missing through compaction or damage that is reported itself."""


class ProducerPlace(Struct, frozen=True, kw_only=True):
    """Progress of a replay, without the producers' states; the findings are those since the last place.

    `reached` is the offset up to which snapshots have been checked.
    """

    found: SinkPart
    explained: SinkPart
    reached: int
    hole_end: int | None
    is_behind_hole: bool


class ProducerChecks:
    """The checks of producers, fed with the batches of a partition in the order of its log."""

    def __init__(self, partition: Partition, context: PartitionContext, start_offset: int) -> None:
        self._start_offset = start_offset
        self._sink = Sink(partition.topic, partition.partition)
        self._explained = Sink(partition.topic, partition.partition)
        self._snapshots = [
            (file.name.base_offset, file.path) for file in partition.snapshots if file.name.base_offset is not None
        ]
        compacted = is_compacted(partition.topic, is_cleaned=context.is_cleaned)
        self._sequences = sequences_of(partition.topic, is_compacted=compacted)
        self._states = ProducerStates(sequences=self._sequences)
        self._states.ends_empty = True
        self._path = ""
        self._hole_end: int | None = None
        self._is_behind_hole = False
        self._reached = -1
        self._aborted = AbortedTxns()

    def begin(self, path: str, base_offset: int) -> None:
        """Begin the log at `path`."""
        self._path = path
        self._check_snapshots(base_offset)
        self._aborted = AbortedTxns()

    def replay(self, batches: BatchColumns, markers: Mapping[int, Marker], holes: Sequence[int] = ()) -> None:
        """Replay batches in order, in parts that end at snapshots; before rows `holes` a part of the log is missing."""
        lasts, bases = batches.column("last_offset"), batches.column("base_offset")
        if self._is_behind_hole:
            self._is_behind_hole = False
            self._hole_end = bases[0] - 1
        first = 0
        while self._snapshots and self._snapshots[0][0] <= lasts[-1]:
            row = max(first, bisect_left(lasts, self._snapshots[0][0]))
            self._advance(batches, markers, holes, first, row)
            if row in holes:  # the snapshot may be of an offset in the missing part
                self._states.hole()
                self._hole_end = bases[row] - 1
            self._check_snapshots(self._snapshots[0][0])
            first = row
        self._advance(batches, markers, holes, first, batches.count)
        self._reached = max(self._reached, lasts[-1])

    def hole(self) -> None:
        """Note that a part of the log is missing here."""
        self._states.hole()
        self._is_behind_hole = True

    @property
    def aborted(self) -> AbortedTxns:
        """Transactions whose ABORT marker is in this log, in the order of the markers."""
        return self._aborted

    @property
    def states(self) -> ProducerStates:
        """State of all producers at the offset that the replay has reached."""
        return self._states

    def take_place(self) -> ProducerPlace:
        """Return the progress of the replay, with the findings since the last call."""
        return ProducerPlace(
            found=self._sink.take_part(),
            explained=self._explained.take_part(),
            reached=self._reached,
            hole_end=self._hole_end,
            is_behind_hole=self._is_behind_hole,
        )

    def resume(self, path: str, place: ProducerPlace) -> None:
        """Continue after the log at `path`; called for logs in their order, then `resume_states`."""
        self._path = path
        self._sink.add_part(place.found)
        self._explained.add_part(place.explained)
        self._reached = place.reached
        self._hole_end = place.hole_end
        self._is_behind_hole = place.is_behind_hole

    def resume_states(self, data: bytes) -> None:
        """Continue with the result of `ProducerStates.state_bytes`. Raises FieldError."""
        self._states = ProducerStates.from_state(data, sequences=self._sequences)
        self._states.ends_empty = True
        self._snapshots = [(offset, path) for offset, path in self._snapshots if offset > self._reached]

    def finish(self, end_offset: int | None, *, is_compacted: bool, is_whole: bool) -> list[Finding]:
        """Return all findings; the log ends at `end_offset`; None: unknown.

        `is_compacted`: missing batches are normal. `is_whole`: the log was never compacted, so none may be missing.
        """
        if end_offset is not None:
            self._check_snapshots(end_offset)
        for offset, path in self._snapshots:
            if end_offset is not None:
                self._sink.add("snapshot.beyond-end", path, offset=offset, end=end_offset)
            check_snapshot(path, offset, None, self._start_offset, self._sink, self._explained)
        for transaction in self._states.open_transactions():
            if not transaction.is_behind_hole:
                producer, first = transaction.producer_id, transaction.first_offset
                self._sink.add("txn.open", self._path, offset=first, producer=producer)
        findings = list(self._sink.findings)
        if is_compacted:
            return findings
        explained = self._explained.findings
        if is_whole:
            explained = tuple(
                replace(item, severity="error") if item.code == "snapshot.unknown-producer" else item
                for item in explained
            )
        return [*findings, *explained]

    def _advance(
        self, batches: BatchColumns, markers: Mapping[int, Marker], holes: Sequence[int], first: int, last: int
    ) -> None:
        if first >= last:
            return
        passed = holes[bisect_left(holes, first) : bisect_left(holes, last)]
        if passed:
            self._hole_end = batches.column("base_offset")[passed[-1]] - 1
        for event in self._states.replay(batches, markers, holes=passed, first=first, last=last):
            if not isinstance(event, CompletedTxn):
                self._odd(event)
            elif event.is_aborted:
                self._aborted.add(event)

    def _odd(self, anomaly: Anomaly) -> None:
        kind = anomaly.kind
        is_explained = self._hole_end is not None if kind == "marker-without-transaction" else anomaly.behind_hole
        if is_explained and (kind in _EXPLAINED or kind == "marker-without-transaction"):
            return
        code = "producer.fields" if kind in _FIELD_KINDS else _CODES.get(kind)
        if code is None:
            return
        sink = self._explained if kind in _EXPLAINED else self._sink
        sink.add(
            code,
            self._path,
            position=anomaly.position,
            offset=anomaly.offset,
            producer=anomaly.producer_id,
            epoch=anomaly.producer_epoch,
            expected=anomaly.expected,
            actual=anomaly.actual,
            missing=anomaly.missing,
            related=anomaly.related_offset,
            what=ANOMALIES[kind].meaning.rstrip("."),
        )

    def _check_snapshots(self, offset: int) -> None:
        """Check the snapshots up to an offset that the replay has reached."""
        self._reached = max(self._reached, offset)
        while self._snapshots and self._snapshots[0][0] <= offset:
            at, path = self._snapshots.pop(0)
            is_known = at >= self._start_offset and not self._is_behind_hole
            start_offset = self._start_offset if self._hole_end is None else self._hole_end + 1
            check_snapshot(path, at, self._states if is_known else None, start_offset, self._sink, self._explained)


def check_epochs(
    text: EpochText,
    starts: Sequence[SegmentEpochStart],
    extent: tuple[int, int | None],
    sink: Sink,
    *,
    is_clean: bool,
    is_compacted: bool,
    is_cut: bool = False,
) -> None:
    """Compare the leader-epoch-checkpoint with the epochs of the log, and the log with it.

    An entry may name an epoch without batches: a leader that wrote none, or whose batches were deleted.

    Args:
        text: the file.
        starts: first batches of the epochs of the log, in its order.
        extent: first base offset and log end offset; None: unknown.
        sink: takes the findings.
        is_clean: whether the last shutdown was clean, so that the broker wrote all that it had to.
        is_compacted: whether the cleaner may have left batches with other leader epochs than before.
        is_cut: whether `starts` are only the first epochs of the log.
    """
    start_offset, end_offset = extent
    # In order of epochs, although the file may not be: the look-ups below bisect.
    epochs, offsets = _in_order(text)
    ends = [start.last_before for start in starts[1:]]
    # Without the last segments, the last epoch may go on after them: only its first offset is sure.
    ends += [start.offset for start in starts[-1:]] if end_offset is None or is_cut else [end_offset - 1]
    for start, end in zip(starts, ends, strict=False):
        at = bisect_right(epochs, start.epoch) - 1
        if at < 0 or epochs[at] != start.epoch:
            sink.add("epochs.missing-entry", text.path, offset=start.offset, epoch=start.epoch)
            continue
        behind = offsets[at + 1] if at + 1 < len(offsets) else None
        said = offsets[at]
        last = min(start.offset, end) if is_compacted else end  # an offset above the end is wrong itself
        if said > start.offset:
            # LeaderEpochFileCache.endOffsetFor: only a request of an earlier epoch gets the start of the first one
            code = "epochs.late-first" if at == 0 and start is starts[0] else "epochs.wrong-start"
            sink.add(code, text.path, offset=start.offset, epoch=start.epoch, said=said)
        elif behind is not None and behind <= last:
            following = epochs[at + 1]
            sink.add("epochs.early-start", text.path, offset=last, epoch=following, said=behind, before=start.epoch)
    add_before_start(text, start_offset, sink, is_clean=is_clean)
    if end_offset is not None:
        add_beyond_end(text, end_offset, sink)


def add_before_start(text: EpochText, start_offset: int, sink: Sink, *, is_clean: bool) -> None:
    """Add a finding if the first entry starts before the log does; after a clean shutdown records were lost then."""
    first = next((placed for placed in text.entries if isinstance(placed.entry, CheckpointEpoch)), None)
    if first is not None and isinstance(first.entry, CheckpointEpoch) and 0 <= first.entry.start_offset < start_offset:
        sink.add(
            "epochs.before-start",
            text.path,
            position=first.position,
            size_bytes=first.size_bytes,
            offset=first.entry.start_offset,
            severity="error" if is_clean else None,
            epoch=first.entry.leader_epoch,
            start=start_offset,
        )


def add_beyond_end(text: EpochText, end_offset: int, sink: Sink) -> None:
    """Add a finding for each entry whose epoch starts after the log end offset."""
    for placed in text.entries:
        entry = placed.entry
        if isinstance(entry, CheckpointEpoch) and entry.start_offset > end_offset:
            sink.add(
                "epochs.beyond-end",
                text.path,
                position=placed.position,
                size_bytes=placed.size_bytes,
                offset=entry.start_offset,
                epoch=entry.leader_epoch,
                said=entry.start_offset,
                end=end_offset,
            )


def first_start_offset(text: EpochText) -> int | None:
    """Return the start offset of the first entry; `None`: there is no entry."""
    return text.entries.start_offsets[0] if text.entries else None


def _in_order(text: EpochText) -> tuple[Sequence[int], Sequence[int]]:
    """Return epochs and their start offsets, ascending; a valid file has them in this order."""
    epochs, offsets = text.entries.epochs, text.entries.start_offsets
    if all(before < after for before, after in pairwise(epochs)):
        return epochs, offsets
    order = sorted(range(len(epochs)), key=lambda at: (epochs[at], offsets[at]))
    return array("i", (epochs[at] for at in order)), array("q", (offsets[at] for at in order))


def check_partition_offsets(
    broker_dir: BrokerDir,
    name: DirectoryName,
    path: str,
    log_start_offset: int | None,
    log_end_offset: int | None,
    *,
    is_end_sure: bool = True,
) -> Iterator[Finding]:
    """Yield findings about the entries that the checkpoints have for one partition that a broker serves.

    Args:
        broker_dir: the log directory of the partition.
        name: of the partition directory.
        path: of the partition directory.
        log_start_offset: base offset of the first segment; None: there is none.
        log_end_offset: offset after the last record; None: there is no segment.
        is_end_sure: whether the log ends with a whole batch. Until it does, and where there is no segment,
            `kafkalog checkpoint` leaves the entries as they are, so no finding names it.
    """
    is_end_sure = is_end_sure and log_end_offset is not None
    if log_start_offset is None or log_end_offset is None:  # a broker creates a segment there
        log_start_offset = log_end_offset = max(broker_dir.offset(FileKind.LOG_START_OFFSET, name) or 0, 0)
    check = _OffsetCheck(broker_dir, name, path, log_start_offset, log_end_offset, is_end_sure=is_end_sure)
    yield from check.recovery_point()
    yield from check.high_watermark()
    yield from check.beyond(FileKind.LOG_START_OFFSET, "log-start.beyond-end")
    yield from check.beyond(FileKind.CLEANER_OFFSET, "cleaner-offset.beyond-end")


class _OffsetCheck:
    def __init__(
        self, broker_dir: BrokerDir, name: DirectoryName, path: str, start: int, end: int, *, is_end_sure: bool
    ) -> None:
        self._broker_dir = broker_dir
        self._name = name
        self._path = path
        self._start = start
        self._end = end
        self._is_end_sure = is_end_sure

    def recovery_point(self) -> Iterator[Finding]:
        """Check the recovery point: a clean shutdown sets it to the log end offset."""
        is_clean = self._broker_dir.log_dir.is_clean
        value = self._broker_dir.offset(FileKind.RECOVERY_POINT, self._name)
        if value is None:
            if self._end > self._start and self._is_written(FileKind.RECOVERY_POINT):
                # `LogManager.shutdown` writes all recovery points before the clean shutdown file.
                severity: Severity = "warning" if is_clean else "info"
                yield found(
                    "recovery-point.none",
                    self._path,
                    topic=self._name.topic,
                    partition=self._name.partition,
                    severity=severity,
                )
        elif value > self._end:
            yield self._finding("recovery-point.beyond-end", FileKind.RECOVERY_POINT, value)
        elif is_clean and 0 <= value < self._end:
            yield self._finding("recovery-point.not-at-end", FileKind.RECOVERY_POINT, value)

    def high_watermark(self) -> Iterator[Finding]:
        """Check that the high watermark is between the log start offset and the log end offset."""
        value = self._broker_dir.offset(FileKind.HIGH_WATERMARK, self._name)
        if value is None or value < 0:
            return
        start = max(self._start, self._broker_dir.offset(FileKind.LOG_START_OFFSET, self._name) or 0)
        if value > self._end:
            code = "high-watermark.maybe-beyond" if self._may_be_copied() else "high-watermark.beyond-end"
            yield self._finding(code, FileKind.HIGH_WATERMARK, value)
        elif value < start <= self._end:
            yield self._finding("high-watermark.below-start", FileKind.HIGH_WATERMARK, value, start=start)
        elif value < self._end and self._broker_dir.log_dir.is_clean:
            yield self._finding("high-watermark.below-end", FileKind.HIGH_WATERMARK, value)

    def beyond(self, kind: FileKind, code: str) -> Iterator[Finding]:
        """Report an offset after the end of the log, where it never is."""
        value = self._broker_dir.offset(kind, self._name)
        if value is not None and value > self._end:
            yield self._finding(code, kind, value)

    def _may_be_copied(self) -> bool:
        """Return whether all flushed data is there, and the rest may just not have been copied or written yet."""
        flushed = self._broker_dir.offset(FileKind.RECOVERY_POINT, self._name) or 0
        return not self._broker_dir.log_dir.is_clean and flushed <= self._end and self._start < self._end

    def _is_written(self, kind: FileKind) -> bool:
        """Return whether the checkpoint names any partition; an empty one is reported once for all of them."""
        text = self._broker_dir.offsets.get(kind)
        return text is not None and not text.is_refused and bool(text.file.entries)

    def _finding(self, code: str, kind: FileKind, value: int, *, start: int | None = None) -> Finding:
        text = self._broker_dir.offsets[kind].file
        placed = text.entries[self._name.topic or "", self._name.partition or 0]
        finding = found(
            code,
            text.path,
            topic=self._name.topic,
            partition=self._name.partition,
            position=placed.position,
            size_bytes=placed.size_bytes,
            value=value,
            end=self._end,
            missing=_offsets_text(abs(value - self._end)),
            start=start,
        )
        return replace(finding, offset=value, next_step=finding.next_step if self._is_end_sure else None)


def _offsets_text(count: int) -> str:
    return "1 offset" if count == 1 else f"{count:,} offsets"
