"""Markers of transactions, and what is odd in the batches of a producer: epochs, sequence numbers, transactions."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.errors import FormatError
from kafkalog_core.format.control import EndTxnMarker, decode_control_key, decode_control_value
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, MAX_INT32, TRANSACTIONAL_BIT
from kafkalog_core.kernels.constants import M_COORDINATOR, M_ROW, M_SIZE, M_TYPE
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Severity
    from kafkalog_core.format.columns import BatchColumns

__all__ = [
    "ANOMALIES",
    "Anomaly",
    "AnomalyType",
    "Header",
    "Known",
    "Marker",
    "Recent",
    "Sequences",
    "diagnose",
    "markers_of",
]


def markers_of(memory: memoryview, batches: BatchColumns, *, max_bytes: int) -> dict[int, Marker]:
    """Return the markers of a run by row, in order. Control batches that are empty or hold no marker are left out.

    Args:
        memory: the buffer that the spans of `batches` refer to.
        batches: rows filled by a walk.
        max_bytes: the largest decompressed payload of one batch.
    """
    cells = array("q", bytes(8 * M_SIZE * batches.count))
    end = M_SIZE * kernels.read_markers(memory, batches, cells)
    rows, types, epochs = (cells[column:end:M_SIZE] for column in (M_ROW, M_TYPE, M_COORDINATOR))
    markers = dict(zip(rows, map(Marker, types, epochs), strict=True))
    if -1 in types:
        unread = {row for row, marker in markers.items() if marker.type_id < 0}
        return {
            row: marker
            for row, marker in (markers | _inflated(memory, batches, unread, max_bytes)).items()
            if marker.type_id >= 0
        }
    return markers


def _inflated(memory: memoryview, batches: BatchColumns, unread: set[int], max_bytes: int) -> dict[int, Marker]:
    """Return the decompressed payload; nothing writes compressed markers, but a broker would read them."""
    codecs = batches.column("codec")
    rows = {row for row in unread if codecs[row]}
    if not rows:
        return {}
    markers: dict[int, Marker] = {}
    seen: set[int] = set()
    for item in decode_run(memory, batches, max_bytes=max_bytes, wanted=rows.__contains__):
        if not isinstance(item, RecordRun):
            continue
        for index, row in enumerate(item.records.column("batch")):
            if row not in seen:
                seen.add(row)
                marker = _first_marker(item, index)
                if marker is not None:
                    markers[row] = marker
    return markers


def _first_marker(run: RecordRun, index: int) -> Marker | None:
    cells = run.records.row(index)
    key_start, value_start = cells["key_start"], cells["value_start"]
    try:
        key, _ = decode_control_key(run.memory[key_start : key_start + max(0, cells["key_size"])])
        value, _ = decode_control_value(key.type, run.memory[value_start : value_start + max(0, cells["value_size"])])
    except FormatError:
        return None
    return Marker(key.type, value.coordinator_epoch) if isinstance(value, EndTxnMarker) else None


Sequences = Literal["continuous", "gaps", "unchecked"]
"""What is expected of sequence numbers: that each follows the last; that they ascend, as on a compacted log; nothing.
"""

_NO_PRODUCER: Final = -1
_UNSET: Final = frozenset({-1, 0})
"""What clients without idempotence write for the missing epoch and sequence."""


class AnomalyType(NamedTuple):
    """A kind of anomaly. `severity` holds for a log that was not compacted and whose earlier records are all there."""

    severity: Severity
    meaning: str


ANOMALIES: Final = {
    "sequence-gap": AnomalyType("warning", "Sequence numbers are missing: batches of the producer are lost."),
    "sequence-back": AnomalyType("warning", "Sequence numbers go back, to those of no batch that is remembered."),
    "duplicate-batch": AnomalyType("warning", "Epoch and sequence numbers are those of one of the last five batches."),
    "epoch-back": AnomalyType("warning", "The producer epoch is lower than before: the batch of a fenced producer."),
    "epoch-start": AnomalyType("warning", "A new producer epoch does not begin at sequence 0: its first is lost."),
    "coordinator-epoch-back": AnomalyType("warning", "The marker of a coordinator that another had followed."),
    "transaction-cut": AnomalyType("warning", "A new epoch writes in an open transaction: a marker is missing."),
    "plain-in-transaction": AnomalyType("error", "A batch outside of transactions while one is open: brokers refuse."),
    "hole-in-transaction": AnomalyType("info", "A marker of the transaction may be in what is missing of the log."),
    "marker-without-transaction": AnomalyType("info", "A marker that ends nothing: legal, as after a retry."),
    "marker-unreadable": AnomalyType("error", "A control batch of a producer that holds no COMMIT and no ABORT."),
    "epoch-missing": AnomalyType("warning", "A producer id without an epoch."),
    "sequence-missing": AnomalyType("warning", "A producer id without a sequence number."),
    "control-fields": AnomalyType("warning", "A marker with a sequence number, or outside of transactions."),
    "producer-missing": AnomalyType("warning", "A transactional batch without a producer, or a negative producer id."),
    "stranger-fields": AnomalyType("info", "An epoch or a sequence number without a producer."),
}


class Marker(NamedTuple):
    """The record of a control batch: `type_id` 0 ABORT, 1 COMMIT."""

    type_id: int
    coordinator_epoch: int


class Recent(NamedTuple):
    """A batch that is remembered of a producer."""

    first_offset: int
    first_sequence: int
    last_sequence: int


class Known(NamedTuple):
    """What was known of a producer before a batch.

    `recent` are its last batches, the last one first. `is_new_epoch`: its epoch began and has no batch yet.
    `is_behind_hole`: a part of the log is missing since it was last seen.
    """

    epoch: int
    coordinator_epoch: int
    txn_first_offset: int | None
    recent: tuple[Recent, ...]
    is_new_epoch: bool
    is_behind_hole: bool


class Header(NamedTuple):
    """The fields of a batch that matter here."""

    position: int
    base_offset: int
    attributes: int
    record_count: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int


class Anomaly(Struct, frozen=True, kw_only=True):
    """Something odd in one batch.

    Args:
        kind: key of `ANOMALIES`.
        producer_id: as stored.
        producer_epoch: as stored.
        offset: base offset of the batch.
        position: byte in its file where the batch starts.
        expected: the sequence number or epoch that would be regular.
        actual: the one that is stored.
        related_offset: first offset of the batch that it repeats, or of the open transaction.
        behind_hole: whether a part of the log is missing since the producer was last seen, which explains gaps.
    """

    kind: str
    producer_id: int
    producer_epoch: int
    offset: int
    position: int
    expected: int | None = None
    actual: int | None = None
    related_offset: int | None = None
    behind_hole: bool = False

    @property
    def missing(self) -> int | None:
        """The number of missing records of the producer in a `sequence-gap`; they may be more by multiples of 2^31."""
        if self.kind != "sequence-gap" or self.expected is None or self.actual is None:
            return None
        return _distance(self.expected, self.actual)


def diagnose(header: Header, known: Known | None, marker: Marker | None, *, sequences: Sequences) -> Iterator[Anomaly]:
    """Yield everything that is odd in a batch (`ProducerAppendInfo.checkProducerEpoch`, `checkSequence`).

    Args:
        header: of the batch.
        known: its producer; None: not seen before.
        marker: the content of a control batch; None: it could not be read.
        sequences: what is expected of sequence numbers.
    """
    if header.producer_id < 0:
        yield from _stranger(header)
        return
    if header.producer_epoch < 0:
        yield _anomaly("epoch-missing", header, known, actual=header.producer_epoch)
    if header.attributes & CONTROL_BIT:
        yield from _control(header, known, marker)
    else:
        yield from _data(header, known, sequences=sequences)


def _anomaly(kind: str, header: Header, known: Known | None, **fields: int | None) -> Anomaly:
    return Anomaly(
        kind=kind,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        offset=header.base_offset,
        position=header.position,
        behind_hole=known is not None and known.is_behind_hole,
        **fields,
    )


def _stranger(header: Header) -> Iterator[Anomaly]:
    if header.producer_id != _NO_PRODUCER or header.attributes & TRANSACTIONAL_BIT:
        yield _anomaly("producer-missing", header, None)
    elif header.producer_epoch not in _UNSET or header.base_sequence not in _UNSET:
        yield _anomaly("stranger-fields", header, None, actual=header.base_sequence)


def _data(header: Header, known: Known | None, *, sequences: Sequences) -> Iterator[Anomaly]:
    if header.base_sequence < 0:
        yield _anomaly("sequence-missing", header, known, actual=header.base_sequence)
    if known is None:
        return
    yield from _open_transaction(header, known)
    if header.base_sequence >= 0:
        if header.producer_epoch == known.epoch:
            yield from _sequence(header, known, sequences=sequences)
        elif header.producer_epoch > known.epoch and header.base_sequence and sequences == "continuous":
            yield _anomaly("epoch-start", header, known, expected=0, actual=header.base_sequence)
    if header.producer_epoch < known.epoch:
        yield _anomaly("epoch-back", header, known, expected=known.epoch, actual=header.producer_epoch)


def _open_transaction(header: Header, known: Known) -> Iterator[Anomaly]:
    """Yield what is odd in data of a producer that has an open transaction."""
    first = known.txn_first_offset
    if first is None:
        return
    if known.is_behind_hole:
        yield _anomaly("hole-in-transaction", header, known, related_offset=first)
    if not header.attributes & TRANSACTIONAL_BIT:
        yield _anomaly("plain-in-transaction", header, known, related_offset=first)
    elif header.producer_epoch > known.epoch:
        yield _anomaly(
            "transaction-cut",
            header,
            known,
            expected=known.epoch,
            actual=header.producer_epoch,
            related_offset=first,
        )


def _sequence(header: Header, known: Known, *, sequences: Sequences) -> Iterator[Anomaly]:
    """Yield what is odd in sequence numbers of the same epoch; from an unknown producer any are accepted."""
    if sequences == "unchecked" or not (known.recent or known.is_new_epoch):
        return
    expected = _after(known.recent[0].last_sequence) if known.recent else 0
    actual = header.base_sequence
    if actual == expected:
        return
    for batch in known.recent:
        if (batch.first_sequence, batch.last_sequence) == (actual, header.last_sequence):
            yield _anomaly(
                "duplicate-batch", header, known, expected=expected, actual=actual, related_offset=batch.first_offset
            )
            return
    is_back = _distance(expected, actual) > MAX_INT32 // 2
    if is_back or sequences == "continuous":
        kind = "sequence-back" if is_back else "sequence-gap"
        yield _anomaly(kind, header, known, expected=expected, actual=actual)


def _control(header: Header, known: Known | None, marker: Marker | None) -> Iterator[Anomaly]:
    if header.base_sequence != -1 or not header.attributes & TRANSACTIONAL_BIT:
        yield _anomaly("control-fields", header, known, expected=-1, actual=header.base_sequence)
    if header.record_count == 0:
        return
    if marker is None:
        yield _anomaly("marker-unreadable", header, known)
        return
    if known is None or known.txn_first_offset is None:
        yield _anomaly("marker-without-transaction", header, known)
    elif known.is_behind_hole:
        yield _anomaly("hole-in-transaction", header, known, related_offset=known.txn_first_offset)
    if known is None:
        return
    if header.producer_epoch < known.epoch:
        yield _anomaly("epoch-back", header, known, expected=known.epoch, actual=header.producer_epoch)
    if marker.coordinator_epoch < known.coordinator_epoch:
        expected, actual = known.coordinator_epoch, marker.coordinator_epoch
        yield _anomaly("coordinator-epoch-back", header, known, expected=expected, actual=actual)


def _after(sequence: int) -> int:
    return 0 if sequence == MAX_INT32 else sequence + 1


def _distance(expected: int, actual: int) -> int:
    """Return how far a sequence number is ahead, on a circle of 2^31."""
    return (actual - expected) & MAX_INT32
