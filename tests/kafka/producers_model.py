"""Producer state by the book, one batch after another: what ProducerStateManager does, in plain Python."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.snapshot import ProducerEntry
from kafkalog_core.kafka.rules.producers import CompletedTxn, Marker

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_core.kafka.rules.producers import SnapshotStyle

CONTROL, TRANSACTIONAL = 0x20, 0x10


class Batch(NamedTuple):
    """One batch; `marker` is what the record of a control batch says."""

    base_offset: int
    last_offset: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    attributes: int = 0
    max_timestamp_ms: int = 0
    record_count: int = 1
    format: int = 2
    marker: Marker | None = None


def columns_of(batches: Sequence[Batch]) -> tuple[BatchColumns, dict[int, Marker]]:
    """Batch columns, and the markers by row."""
    columns = BatchColumns(max(1, len(batches)))
    columns.count = len(batches)
    for name in Batch._fields[:-1]:
        columns.column(name)[:] = memoryview(_cells(getattr(batch, name) for batch in batches))
    columns.column("position")[:] = memoryview(_cells(100 * row for row in range(len(batches))))
    return columns, {row: batch.marker for row, batch in enumerate(batches) if batch.marker}


def _cells(values: Iterable[int]) -> memoryview:
    return memoryview(array("q", values))


@dataclass
class Producer:
    """ProducerStateEntry."""

    epoch: int = -1
    coordinator_epoch: int = -1
    timestamp_ms: int = -1
    data_time_ms: int = -1
    txn_first: int | None = None
    batches: list[tuple[int, int, int]] = field(default_factory=list)


class Model:
    """ProducerStateManager, with a batch an append; `style` and `ends_empty` are those of a release."""

    def __init__(self, style: SnapshotStyle = "marker-time", *, ends_empty: bool = False) -> None:
        self.style = style
        self.ends_empty = ends_empty
        self.producers: dict[int, Producer] = {}
        self.completed: list[CompletedTxn] = []

    def append(self, batch: Batch) -> None:
        if batch.format != 2 or batch.producer_id < 0:
            return
        if batch.attributes & CONTROL:
            if not batch.record_count:
                self.producers.setdefault(batch.producer_id, Producer())
            elif batch.marker and batch.marker.type_id in {0, 1}:
                self._marker(batch, batch.marker)
            return
        producer = self._at_epoch(batch)
        delta = batch.last_offset - batch.base_offset
        last_sequence = -1 if batch.base_sequence == -1 else batch.base_sequence + delta
        if last_sequence > 2**31 - 1:
            last_sequence -= 2**31
        producer.batches = [*producer.batches, (last_sequence, batch.last_offset, delta)][-5:]
        producer.timestamp_ms = producer.data_time_ms = batch.max_timestamp_ms
        if batch.attributes & TRANSACTIONAL and producer.txn_first is None:
            producer.txn_first = batch.base_offset

    def _at_epoch(self, batch: Batch) -> Producer:
        producer = self.producers.setdefault(batch.producer_id, Producer())
        if producer.epoch != batch.producer_epoch:
            producer.epoch = batch.producer_epoch
            producer.batches = []
            producer.data_time_ms = -1
        return producer

    def _marker(self, batch: Batch, marker: Marker) -> None:
        producer = self._at_epoch(batch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.timestamp_ms = batch.max_timestamp_ms
        if self.style == "marker-is-batch":
            last_sequence = producer.batches[-1][0] if producer.batches else -1
            producer.batches = [*producer.batches[:-1], (last_sequence, batch.base_offset, 0)]
        first, producer.txn_first = producer.txn_first, None
        if first is None and self.ends_empty:
            first = batch.base_offset
        if first is not None:
            others = [other.txn_first for other in self.producers.values() if other.txn_first is not None]
            stable = min(others, default=batch.base_offset + 1)
            self.completed.append(
                CompletedTxn(batch.producer_id, first, batch.base_offset, marker.type_id == 0, stable)
            )

    def entries(self) -> list[ProducerEntry]:
        """What a snapshot holds."""
        return [
            ProducerEntry(
                producer_id=producer_id,
                producer_epoch=one.epoch,
                last_sequence=one.batches[-1][0] if one.batches else -1,
                last_offset=one.batches[-1][1] if one.batches else -1,
                offset_delta=one.batches[-1][2] if one.batches else 0,
                timestamp_ms=one.data_time_ms if self.style == "data-time" else one.timestamp_ms,
                coordinator_epoch=one.coordinator_epoch,
                current_txn_first_offset=-1 if one.txn_first is None else one.txn_first,
            )
            for producer_id, one in self.producers.items()
        ]

    def open(self) -> list[tuple[int, int]]:
        """Producer id and first offset of the open transactions, the earliest first."""
        found = [(one.txn_first, number) for number, one in self.producers.items() if one.txn_first is not None]
        return [(number, first) for first, number in sorted(found)]
