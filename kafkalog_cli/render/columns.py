"""The columns of each row type that a person sees, and the cells of whole chunks of batches and records."""

from __future__ import annotations

import json
import os
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from kafkalog_cli.render.cells import (
    NONE,
    SHOWN_HEADERS,
    bytes_cell,
    decoded_cell,
    headers_cell,
    human_bytes,
    place_of,
    plain,
    safe_text,
    time_cell,
)
from kafkalog_cli.render.grid import (
    TableColumn,
    number_column,
    range_column,
    sentence_column,
    size_column,
    time_column,
    word_column,
)
from kafkalog_core.engine.chunks import BatchChunk, RecordChunk
from kafkalog_core.engine.decoded import DecodedChunk
from kafkalog_core.format.columns import FORMAT_V07
from kafkalog_core.format.control import control_type_name
from kafkalog_core.format.layout import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    MAGIC_V0,
    MAGIC_V2,
    MAX_INT32,
    TRANSACTIONAL_BIT,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.engine.chunks import ChunkColumns, RowOrigin
    from kafkalog_core.format.columns import BatchColumns, RecordColumns
    from kafkalog_core.kafka.sim.outcomes import Outcome
    from kafkalog_core.output.chunk import Chunk

__all__ = [
    "DAMAGE_STYLE",
    "SHOWN",
    "Transactions",
    "column_cells",
    "heading_of",
    "kind_of",
    "kind_of_chunk",
    "partition_of",
    "producer_cell",
    "record_notes",
    "row_style",
]


DAMAGE_STYLE: Final = "bold red"


def producer_cell(row: Mapping[str, object]) -> str:
    """Return the producer as `7/0 #12`: producer id, epoch and sequence; values of -1 are left out."""
    if row.get("producer_id") in {None, -1}:
        return NONE
    sequence = row.get("base_sequence", row.get("sequence"))
    text = f"{row['producer_id']}/{plain(row.get('producer_epoch'))}"
    return text if sequence in {None, -1} else f"{text} #{sequence}"


_OUTCOMES: Final = {"aborted": "ABORTED", "open": "OPEN", "unknown": "UNDECIDED"}
"""Notes about transactional data that a read_committed consumer does not get."""


def _transaction_note(row: Mapping[str, object]) -> str:
    """Return `txn`, or how a transaction that was not committed ended; rows themselves do not have `outcome`."""
    return _OUTCOMES.get(str(row.get("outcome")), "txn")


def _batch_notes(row: Mapping[str, object]) -> str:
    notes = [_transaction_note(row)] if row.get("is_transactional") else []
    notes += [note for name, note in (("is_control", "control"), ("resynced", "RESYNCED")) if row.get(name)]
    if row.get("timestamp_type") == "append":
        notes.append("log-append-time")
    if row.get("delete_horizon_ms") is not None:
        notes.append(f"horizon {time_cell(row['delete_horizon_ms'])}")
    return " ".join(notes) or NONE


def record_notes(row: Mapping[str, object]) -> str:
    """Return notes about a record: its control type, its transaction, damage next to it."""
    notes = []
    if row.get("control_type"):
        notes.append(str(row["control_type"]).upper())
    elif row.get("is_transactional"):
        notes.append(_transaction_note(row))
    if row.get("resynced"):
        notes.append("RESYNCED")
    if row.get("crc_ok") is False:
        notes.append("BAD-CRC")
    return safe_text(" ".join(notes)) or NONE


def _crc_cell(row: Mapping[str, object]) -> str:
    agrees = row.get("crc_ok")
    if agrees is None:
        return NONE
    return "ok" if agrees else "BAD"


def _damage_cell(row: Mapping[str, object]) -> str:
    if not row.get("damage_count"):
        return NONE
    return f"{row['damage_count']} ({human_bytes(row.get('damage_bytes'))})"


_BATCH: Final = (
    number_column("position", "position", rank=1),
    size_column("size", "size_bytes", rank=6),
    range_column("offsets", "base_offset", "last_offset"),
    number_column("records", "record_count", rank=5),
    word_column("format", "format", rank=8),
    word_column("codec", "codec", rank=7),
    time_column("max time (UTC)", "max_timestamp_ms", rank=2),
    number_column("epoch", "leader_epoch", rank=4),
    TableColumn("producer", producer_cell, rank=3),
    TableColumn("crc", _crc_cell),
    TableColumn("notes", _batch_notes, flexible=True, has_words=True),
)
_RECORD: Final = (
    number_column("offset", "offset"),
    number_column("next offset", "next_offset", rank=2),
    number_column("batch at", "position", rank=6),
    time_column("time (UTC)", "timestamp_ms", rank=1),
    number_column("epoch", "leader_epoch", rank=5),
    TableColumn("producer", producer_cell, rank=2),
    TableColumn("notes", record_notes),
    TableColumn("key", lambda row: bytes_cell(row.get("key")), flexible=True),
    TableColumn("headers", lambda row: headers_cell(row.get("headers")), flexible=True, rank=4),
    TableColumn("value", lambda row: bytes_cell(row.get("value")), flexible=True),
)
_DECODED: Final = (
    *_RECORD[:7],
    TableColumn("key", lambda row: decoded_cell(row.get("decoded_key"), row.get("key")), flexible=True, least=30),
    _RECORD[8],
    TableColumn("value", lambda row: decoded_cell(row.get("decoded_value"), row.get("value")), flexible=True, least=20),
)
"""Records of Kafka's own topics: bytes are only shown of what does not decode."""
_SEGMENT: Final = (
    word_column("segment", "segment"),
    word_column("state", "state", rank=1),
    size_column("size", "size_bytes"),
    range_column("offsets", "first_offset", "last_offset"),
    number_column("batches", "batch_count", rank=2),
    number_column("records", "record_count"),
    time_column("from (UTC)", "min_base_timestamp_ms", rank=3),
    time_column("to (UTC)", "max_timestamp_ms", rank=1),
    word_column("formats", "formats", rank=5),
    word_column("codecs", "codecs", rank=4),
    size_column("index", "index_bytes", rank=6),
    size_column("timeindex", "timeindex_bytes", rank=6),
    size_column("txnindex", "txnindex_bytes", rank=7),
    size_column("snapshot", "snapshot_bytes", rank=7),
    time_column("modified (UTC)", "mtime_ms", rank=8),
    TableColumn("damage", _damage_cell),
)
_ENTRY_START: Final = (number_column("slot", "slot"), number_column("position", "position", rank=2))
_OFFSET_ENTRY: Final = (
    *_ENTRY_START,
    number_column("offset", "offset"),
    number_column("position in log", "log_position"),
)
_TIME_ENTRY: Final = (*_ENTRY_START, time_column("time (UTC)", "timestamp_ms"), number_column("offset", "offset"))
_TXN_ENTRY: Final = (
    *_ENTRY_START,
    number_column("producer id", "producer_id"),
    range_column("aborted offsets", "first_offset", "last_offset"),
    number_column("last stable offset", "last_stable_offset"),
    number_column("version", "version", rank=1),
)
_PRODUCER: Final = (
    number_column("producer id", "producer_id"),
    number_column("epoch", "producer_epoch"),
    number_column("last sequence", "last_sequence"),
    number_column("last offset", "last_offset"),
    number_column("offset delta", "offset_delta", rank=2),
    time_column("time (UTC)", "timestamp_ms", rank=1),
    number_column("coordinator epoch", "coordinator_epoch", rank=3),
    number_column("open transaction from", "current_txn_first_offset"),
)
_OFFSET_CHECKPOINT: Final = (
    number_column("line", "line", rank=1),
    word_column("topic", "topic"),
    number_column("partition", "partition"),
    number_column("offset", "offset"),
)
_EPOCH_CHECKPOINT: Final = (
    number_column("line", "line", rank=1),
    number_column("leader epoch", "leader_epoch"),
    number_column("start offset", "offset"),
)
_PROPERTY: Final = (word_column("key", "key"), TableColumn("value", lambda row: plain(row.get("value")), flexible=True))
_SEEK: Final = (
    word_column("answer", "outcome"),
    number_column("offset", "offset"),
    time_column("time (UTC)", "timestamp_ms", rank=1),
    number_column("batch at", "position"),
    size_column("size", "size_bytes", rank=2),
    range_column("batch offsets", "base_offset", "last_offset", rank=3),
)
_FETCH: Final = (
    word_column("fetch", "outcome"),
    number_column("from byte", "position"),
    number_column("bytes", "size_bytes"),
    number_column("batches", "batches"),
    number_column("to offset", "last_offset"),
    number_column("partial batch at", "partial_position", rank=1),
    number_column("partial bytes", "partial_bytes"),
    number_column("asked for", "asked_bytes", rank=2),
    number_column("fetches", "tries", rank=2),
)

_CATALOG: Final = (
    TableColumn("partition", lambda row: plain(os.path.basename(str(row.get("path"))))),
    word_column("state", "state"),
    number_column("errors", "errors"),
    number_column("warnings", "warnings"),
    number_column("segments", "segments", rank=3),
    number_column("batches", "batches", rank=4),
    number_column("records", "records", rank=3),
    size_column("log", "bytes", rank=1),
    size_column("read", "read_bytes", rank=2),
    size_column("unchanged", "unchanged_bytes", rank=2),
)

_COUNT: Final = (
    word_column("topic", "topic"),
    number_column("partition", "partition"),
    word_column("path", "path"),
    number_column("records", "records"),
)

_GROUP_EVENT: Final = (
    time_column("time (UTC)", "timestamp_ms"),
    number_column("record", "record_offset", 4),
    word_column("event", "event"),
    TableColumn(
        "partition", lambda row: place_of({"topic": row.get("topic"), "partition": row.get("partition")}) or NONE
    ),
    number_column("offset", "offset"),
    number_column("epoch", "epoch", 2),
    number_column("producer", "producer_id", 3),
    word_column("member", "member_id", 1),
    sentence_column("detail", "detail"),
)
_CLUSTER_EVENT: Final = (
    time_column("time (UTC)", "timestamp_ms"),
    number_column("offset", "offset", 2),
    word_column("event", "event"),
    TableColumn(
        "partition", lambda row: place_of({"topic": row.get("topic"), "partition": row.get("partition")}) or NONE
    ),
    number_column("node", "node_id", 1),
    sentence_column("detail", "detail"),
)
_CLUSTER_DIFFERENCE: Final = (
    TableColumn("of", lambda row: plain(row.get("kind")).removeprefix("cluster_")),
    word_column("what", "what"),
    word_column("change", "change", 1),
    word_column("column", "column"),
    TableColumn("before", lambda row: plain(row.get("before")), flexible=True),
    TableColumn("after", lambda row: plain(row.get("after")), flexible=True),
)
SHOWN: Final[dict[str, tuple[TableColumn, ...]]] = {
    "batch": _BATCH,
    "record": _RECORD,
    "record decoded": _DECODED,
    "segment": _SEGMENT,
    "index_entry offset": _OFFSET_ENTRY,
    "index_entry time": _TIME_ENTRY,
    "index_entry txn": _TXN_ENTRY,
    "producer": _PRODUCER,
    "checkpoint": _OFFSET_CHECKPOINT,
    "checkpoint leader_epoch": _EPOCH_CHECKPOINT,
    "property": _PROPERTY,
    "seek": _SEEK,
    "fetch": _FETCH,
    "catalog": _CATALOG,
    "count": _COUNT,
    "group_event": _GROUP_EVENT,
    "cluster_event": _CLUSTER_EVENT,
    "cluster_difference": _CLUSTER_DIFFERENCE,
}


def row_style(row: Mapping[str, object]) -> str:
    """Return the style of a row: damaged, found only by --resync, or no data for a read_committed consumer."""
    if row.get("crc_ok") is False or bool(row.get("damage_count")):
        return DAMAGE_STYLE
    if row.get("resynced"):
        return "yellow"
    return "dim" if row.get("outcome") in _OUTCOMES else ""


def kind_of_chunk(chunk: Chunk) -> str:
    """Return the key of the columns of a chunk that has cells."""
    return "record decoded" if isinstance(chunk, DecodedChunk) else chunk.table.name


def kind_of(row: Mapping[str, object]) -> str:
    """Return the key of a row's columns in `SHOWN`."""
    kind = f"{row.get('type')} {'decoded' if 'decoded_key' in row else row.get('kind')}"
    return kind if kind in SHOWN else str(row.get("type"))


def heading_of(row: Mapping[str, object]) -> str:
    """Return the file of a row, which is written once above consecutive rows of the same file."""
    if row.get("type") in {"segment", "catalog"}:
        return partition_of(row)
    if row.get("type") in {"count", "cluster_event", "cluster_difference"}:
        return ""
    if row.get("type") == "group_event":
        return plain(row.get("group"))
    if "file" in row:
        return f"{plain(row.get('file'))} ({plain(row.get('kind'))})"
    return place_of(row)


def partition_of(row: Mapping[str, object]) -> str:
    """Return the partition of a row, `orders-0`, or its path where rows have one; empty for a file alone."""
    if row.get("path") is not None:
        return safe_text(os.path.dirname(str(row["path"])) or ".")
    return place_of({"topic": row.get("topic"), "partition": row.get("partition")})


# --- cells of whole chunks --------------------------------------------------------------------------------------------
Cells = tuple[str, ...]
_Row = TypeVar("_Row")

_RECORD_FIELDS: Final = (
    "batch",
    "offset",
    "timestamp_ms",
    "key_start",
    "key_size",
    "value_start",
    "value_size",
    "first_header",
    "header_count",
)
_OWN_FIELDS: Final = ("position", "size_bytes", "base_offset", "last_offset", "record_count", "max_timestamp_ms")
_PRODUCER_FIELDS: Final = ("producer_id", "producer_epoch", "base_sequence")
_SHARED_FIELDS: Final = ("attributes", "leader_epoch", "crc_stored", "crc_computed", "base_timestamp_ms")


class Transactions(Protocol):
    """How transactions ended."""

    def outcome_of(self, place: RowOrigin, producer_id: int, offset: int, /) -> Outcome | None:
        """Return how the transaction ended that has data of a producer at an offset of a log; None: that is unknown."""


def column_cells(chunk: Chunk, transactions: Transactions | None = None) -> Iterator[tuple[Cells, str]] | None:
    """Return the cells of each row in the order of `SHOWN`, and its style; `None`: the chunk has to be read by rows.

    `transactions` None: how they ended is not shown.
    """
    if not isinstance(chunk, BatchChunk | RecordChunk):
        return None
    columns = chunk.columns()
    if isinstance(chunk, DecodedChunk):
        return _decoded_cells(chunk, _record_cells(columns, chunk.records, _Outcomes(columns, transactions)))
    if columns.records is not None:
        is_v07 = bool(columns.batches.count) and columns.batches.column("format")[0] == FORMAT_V07
        return None if is_v07 else _record_cells(columns, columns.records, _Outcomes(columns, transactions))
    is_v2 = columns.batches.holds_only("format", MAGIC_V2)
    return _batch_cells(chunk, columns, _Outcomes(columns, transactions)) if is_v2 else None


class _Outcomes:
    """How the transaction of each batch of a chunk ended; the log is read for the first one with such data."""

    def __init__(self, columns: ChunkColumns, transactions: Transactions | None) -> None:
        self._columns = columns
        self._transactions = transactions

    def of(self, attributes: int, producer_id: int, offset: int) -> Outcome | None:
        """Return how the transaction with this data ended; None: that is unknown, or the data is of none."""
        if self._transactions is None or not attributes & TRANSACTIONAL_BIT or attributes & CONTROL_BIT:
            return None
        return self._transactions.outcome_of(self._columns.place, producer_id, offset)


def _values(columns: BatchColumns | RecordColumns, names: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
    return zip(*(columns.column(name).tolist() for name in names), strict=True)


class _Times:
    """A faster `time_cell`: it formats a second once for all times in it."""

    def __init__(self) -> None:
        self._second: int | None = None
        self._prefix = ""

    def cell(self, timestamp_ms: int) -> str:
        """Return the text of a timestamp."""
        if timestamp_ms < 0:
            return time_cell(timestamp_ms)
        second, rest_ms = divmod(timestamp_ms, 1000)
        if second != self._second:
            text = time_cell(second * 1000)
            if not text.endswith("Z"):  # beyond the year 9999
                return time_cell(timestamp_ms)
            self._second, self._prefix = second, text.removesuffix("000Z")
        return f"{self._prefix}{rest_ms:03d}Z"


# --- batches ----------------------------------------------------------------------------------------------------------
def _batch_cells(
    chunk: BatchChunk | RecordChunk, columns: ChunkColumns, outcomes: _Outcomes
) -> Iterator[tuple[Cells, str]]:
    """Yield the cells of batches of magic 2.

    Most batches of a log have the same attributes and leader epoch: the cells of these are computed once.
    """
    batches, times = columns.batches, _Times()
    shared: dict[tuple[object, ...], tuple[Cells, str]] = {}
    rows = zip(
        range(batches.count),
        _values(batches, _OWN_FIELDS),
        _values(batches, _PRODUCER_FIELDS),
        _values(batches, _SHARED_FIELDS),
        strict=True,
    )
    for number, own, producer, (attributes, epoch, stored, computed, base_ms) in _shown(columns, rows):
        horizon_ms = base_ms if attributes & DELETE_HORIZON_BIT else None
        outcome = outcomes.of(attributes, producer[0], own[2])
        key = attributes, epoch, computed < 0, stored == computed, horizon_ms, outcome
        if key not in shared:
            row = {**chunk.row_view(number), "outcome": outcome}
            shared[key] = tuple(column.cell(row) for column in SHOWN["batch"]), row_style(row)
        (_, _, _, _, format_cell, codec, _time, epoch_cell, _producer, crc, notes), style = shared[key]
        position, size, first, last, count, newest_ms = own
        yield (
            (
                str(position),
                human_bytes(size),
                f"{first}..{last}",
                str(count),
                format_cell,
                codec,
                times.cell(newest_ms),
                epoch_cell,
                NONE if producer[0] == -1 else producer_cell(dict(zip(_PRODUCER_FIELDS, producer, strict=True))),
                crc,
                notes,
            ),
            style,
        )


def _shown(columns: ChunkColumns, rows: Iterator[_Row]) -> Iterator[_Row]:
    """Return the selected rows."""
    return rows if columns.selection is None else compress(rows, columns.selection)


# --- records ----------------------------------------------------------------------------------------------------------
class _Batch(NamedTuple):
    """What the records of a batch share; `sequence` is that of the offset `base_offset`, -1: none."""

    position: str
    has_times: bool
    epoch: str
    producer: str
    base_offset: int
    sequence: int
    notes: str
    style: str
    is_control: bool

    def producer_of(self, offset: int) -> str:
        """Return the producer of a record with its sequence number, as `producer_cell` does."""
        # DefaultRecordBatch.incrementSequence: after 2^31-1 comes 0
        return f"{self.producer} #{(self.sequence + offset - self.base_offset) & MAX_INT32}"


class _Batches:
    """The batches of a chunk of records."""

    def __init__(self, columns: ChunkColumns, outcomes: _Outcomes) -> None:
        names = ("position", "format", "attributes", "leader_epoch", *_PRODUCER_FIELDS, "base_offset")
        self._rows = [columns.batches.column(name) for name in names]
        self._resynced = columns.resynced
        self._outcomes = outcomes

    def of(self, number: int) -> _Batch:
        """Return one batch."""
        position, batch_format, attributes, leader_epoch, producer_id, epoch, sequence, base_offset = (
            column[number] for column in self._rows
        )
        is_v2 = batch_format == MAGIC_V2
        attributes = attributes if is_v2 else 0
        row = {
            "is_transactional": bool(attributes & TRANSACTIONAL_BIT),
            "outcome": self._outcomes.of(attributes, producer_id, base_offset),
            "resynced": self._resynced,
            "producer_id": producer_id if is_v2 else None,
            "producer_epoch": epoch,
        }
        return _Batch(
            position=str(position),
            has_times=batch_format != MAGIC_V0,
            epoch=str(leader_epoch) if is_v2 else NONE,
            producer=producer_cell(row),
            base_offset=base_offset,
            sequence=sequence if is_v2 and producer_id != -1 else -1,
            notes=record_notes(row),
            style=row_style(row),
            is_control=bool(attributes & CONTROL_BIT),
        )

    def marker_notes(self, key: memoryview | None) -> str:
        """Return the notes of one record of a control batch."""
        control_type = control_type_name(None if key is None else bytes(key))
        return record_notes({"control_type": control_type, "resynced": self._resynced})


def _record_cells(columns: ChunkColumns, records: RecordColumns, outcomes: _Outcomes) -> Iterator[tuple[Cells, str]]:
    memory, times, batches = columns.memory, _Times(), _Batches(columns, outcomes)
    current, of_batch = -1, _NO_BATCH
    for batch, offset, timestamp_ms, key_start, key_size, value_start, value_size, first, count in _shown(
        columns, _values(records, _RECORD_FIELDS)
    ):
        if batch != current:
            current = batch
            of_batch = batches.of(batch)
        key = memory[key_start : key_start + key_size] if key_size >= 0 else None
        yield (
            (
                str(offset),
                NONE,
                of_batch.position,
                times.cell(timestamp_ms) if of_batch.has_times else NONE,
                of_batch.epoch,
                of_batch.producer if of_batch.sequence < 0 else of_batch.producer_of(offset),
                batches.marker_notes(key) if of_batch.is_control else of_batch.notes,
                bytes_cell(key),
                _headers(columns, records, first, count) if count else NONE,
                bytes_cell(memory[value_start : value_start + value_size] if value_size >= 0 else None),
            ),
            of_batch.style,
        )


def _decoded_cells(chunk: DecodedChunk, rows: Iterator[tuple[Cells, str]]) -> Iterator[tuple[Cells, str]]:
    """Yield the cells of records of Kafka's own topics, from those of any records."""
    for (cells, style), text in zip(rows, chunk.texts(), strict=True):
        *before, key, headers, value = cells
        key = key if text.key is None else decoded_cell(json.loads(text.key), None)
        value = value if text.value is None else decoded_cell(json.loads(text.value), None)
        yield (*before, key, headers, value), style


_NO_BATCH: Final = _Batch(
    "", has_times=False, epoch="", producer="", base_offset=0, sequence=-1, notes="", style="", is_control=False
)


def _headers(columns: ChunkColumns, records: RecordColumns, first: int, count: int) -> str:
    """Return `headers_cell` of the headers that it shows; no others are read."""
    found = []
    for number in range(first, first + min(count, SHOWN_HEADERS + 1)):
        header = records.headers.row(number)
        key, value = (
            None if header[f"{name}_size"] < 0 else columns.memory[start : start + header[f"{name}_size"]]
            for name in ("key", "value")
            for start in [header[f"{name}_start"]]
        )
        found.append((key, value))
    return headers_cell(found)
