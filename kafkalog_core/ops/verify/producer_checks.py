"""The replay of a partition's producer state, and what is odd of its batches: findings, transactions, snapshots."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.ops.logdirs.compaction import is_compacted
from kafkalog_core.ops.producing.producer_anomalies import ANOMALIES
from kafkalog_core.ops.producing.producers import CompletedTxn, ProducerStates, sequences_of
from kafkalog_core.ops.sink import Sink, SinkPart
from kafkalog_core.ops.verify.aborted import AbortedTxns
from kafkalog_core.ops.verify.snapshots import check_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.ops.logdirs.context import PartitionContext
    from kafkalog_core.ops.producing.producer_anomalies import Anomaly, Marker
    from kafkalog_core.storage.partition import Partition

__all__ = ["ProducerChecks", "ProducerPlace"]

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
"""What is no sign of damage where batches are missing for another reason: compaction, or damage that is told itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerPlace:
    """How far a replay is, without the producers' states; findings are those since the place before.

    `reached` is the offset up to which snapshots have been checked.
    """

    found: SinkPart
    explained: SinkPart
    reached: int
    hole_end: int | None
    is_behind_hole: bool


class ProducerChecks:
    """Fed with the batches of a partition in the order of its log."""

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
        """The log at `path` comes next."""
        self._path = path
        self._check_snapshots(base_offset)
        self._aborted = AbortedTxns()

    def replay(self, batches: BatchColumns, markers: Mapping[int, Marker], holes: Sequence[int] = ()) -> None:
        """Batches in order, cut where a snapshot was taken; before rows `holes` something of the log is missing."""
        lasts, bases = batches.column("last_offset"), batches.column("base_offset")
        if self._is_behind_hole:
            self._is_behind_hole = False
            self._hole_end = bases[0] - 1
        first = 0
        while self._snapshots and self._snapshots[0][0] <= lasts[-1]:
            row = max(first, bisect_left(lasts, self._snapshots[0][0]))
            self._advance(batches, markers, holes, first, row)
            if row in holes:  # the snapshot may have been taken in what is missing
                self._states.hole()
                self._hole_end = bases[row] - 1
            self._check_snapshots(self._snapshots[0][0])
            first = row
        self._advance(batches, markers, holes, first, batches.count)
        self._reached = max(self._reached, lasts[-1])

    def hole(self) -> None:
        """Something of the log is missing here."""
        self._states.hole()
        self._is_behind_hole = True

    @property
    def aborted(self) -> AbortedTxns:
        """Transactions whose ABORT marker is in the log at hand, in the order of the markers."""
        return self._aborted

    @property
    def states(self) -> ProducerStates:
        """All producers at the place that the replay has come to."""
        return self._states

    def take_place(self) -> ProducerPlace:
        """How far the replay is, and what it found since the last call."""
        return ProducerPlace(
            found=self._sink.take_part(),
            explained=self._explained.take_part(),
            reached=self._reached,
            hole_end=self._hole_end,
            is_behind_hole=self._is_behind_hole,
        )

    def resume(self, path: str, place: ProducerPlace) -> None:
        """Go on behind the log at `path`, in the order of logs; the last call is followed by `resume_states`."""
        self._path = path
        self._sink.add_part(place.found)
        self._explained.add_part(place.explained)
        self._reached = place.reached
        self._hole_end = place.hole_end
        self._is_behind_hole = place.is_behind_hole

    def resume_states(self, data: bytes) -> None:
        """Go on with what `ProducerStates.state_bytes` gave. Raises FieldError."""
        self._states = ProducerStates.from_state(data, sequences=self._sequences)
        self._states.ends_empty = True
        self._snapshots = [(offset, path) for offset, path in self._snapshots if offset > self._reached]

    def finish(self, end_offset: int | None, *, is_compacted: bool, is_whole: bool) -> list[Finding]:
        """The log ends at `end_offset`, where that is known: what was found.

        `is_compacted`: missing batches are nothing odd. `is_whole`: the log dir has never compacted it, and it shows.
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
        """Those that were taken up to an offset that the replay has reached."""
        self._reached = max(self._reached, offset)
        while self._snapshots and self._snapshots[0][0] <= offset:
            at, path = self._snapshots.pop(0)
            is_known = at >= self._start_offset and not self._is_behind_hole
            start_offset = self._start_offset if self._hole_end is None else self._hole_end + 1
            check_snapshot(path, at, self._states if is_known else None, start_offset, self._sink, self._explained)
