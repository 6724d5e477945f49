"""Which columns of each row type a person sees, in which order, and how each is written."""

from __future__ import annotations

import os
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kafkalog_cli.render.cells import (
    NONE,
    SHOWN_HEADERS,
    bytes_cell,
    headers_cell,
    human_bytes,
    place_of,
    plain,
    safe_text,
    span,
    time_cell,
)
from kafkalog_core.format.columns import FORMAT_V07
from kafkalog_core.format.layout import CONTROL_BIT, DELETE_HORIZON_BIT, MAGIC_V0, MAGIC_V2, TRANSACTIONAL_BIT
from kafkalog_core.ops.reading.chunks import BatchChunk, RecordChunk, control_type_name
from kafkalog_core.text import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkalog_core.format.columns import BatchColumns, RecordColumns
    from kafkalog_core.ops.reading.chunks import ChunkColumns
    from kafkalog_core.rows.chunk import Chunk

__all__ = [
    "DAMAGE_STYLE",
    "EVENTS",
    "PARTITIONS",
    "SEGMENTS",
    "SHOWN",
    "Shown",
    "column_cells",
    "directory_of",
    "heading_of",
    "kind_of",
    "partition_of",
    "producer_cell",
    "record_notes",
    "row_style",
    "word",
]


DAMAGE_STYLE: Final = "bold red"


class Shown(NamedTuple):
    """One column: `cell` makes its text of a row. `flexible` ones may be cut to fit, the others never are.

    `rank`: on a narrow terminal columns are left out by rank, the highest first; those of rank 0 always stay.
    """

    title: str
    cell: Callable[[Mapping[str, object]], str]
    right: bool = False
    flexible: bool = False
    rank: int = 0


def _number(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: plain(row.get(name)), right=True, rank=rank)


def _word(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: plain(row.get(name)), rank=rank)


def _size(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: human_bytes(row.get(name)), right=True, rank=rank)


def _time(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: time_cell(row.get(name)), rank=rank)


def _range(title: str, first: str, last: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: span(row.get(first), row.get(last)), right=True, rank=rank)


def producer_cell(row: Mapping[str, object]) -> str:
    """`7/0 #12`: producer id, epoch and sequence; those of -1 are left out."""
    if row.get("producer_id") in {None, -1}:
        return NONE
    sequence = row.get("base_sequence", row.get("sequence"))
    text = f"{row['producer_id']}/{plain(row.get('producer_epoch'))}"
    return text if sequence in {None, -1} else f"{text} #{sequence}"


def _batch_notes(row: Mapping[str, object]) -> str:
    flags = (("is_transactional", "txn"), ("is_control", "control"), ("resynced", "RESYNCED"))
    notes = [note for name, note in flags if row.get(name)]
    if row.get("timestamp_type") == "append":
        notes.append("log-append-time")
    if row.get("delete_horizon_ms") is not None:
        notes.append(f"horizon {time_cell(row['delete_horizon_ms'])}")
    return " ".join(notes) or NONE


def record_notes(row: Mapping[str, object]) -> str:
    """What is special about a record: markers, transactions, damage next to it."""
    notes = [str(row["control_type"]).upper()] if row.get("control_type") else []
    if row.get("is_transactional"):
        notes.append("txn")
    if row.get("producer_id") not in {None, -1} and (row.get("is_transactional") or row.get("control_type")):
        notes.append(f"{row['producer_id']}/{plain(row.get('producer_epoch'))}")
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
    _number("position", "position"),
    _size("size", "size_bytes"),
    _range("offsets", "base_offset", "last_offset"),
    _number("records", "record_count"),
    _word("format", "format", rank=4),
    _word("codec", "codec", rank=1),
    _time("max time (UTC)", "max_timestamp_ms", rank=1),
    _number("epoch", "leader_epoch", rank=3),
    Shown("producer", producer_cell, rank=2),
    Shown("crc", _crc_cell),
    Shown("notes", _batch_notes, flexible=True),
)
_RECORD: Final = (
    _number("offset", "offset"),
    _number("next offset", "next_offset", rank=2),
    _number("batch at", "position", rank=2),
    _time("time (UTC)", "timestamp_ms", rank=1),
    Shown("notes", record_notes),
    Shown("key", lambda row: bytes_cell(row.get("key")), flexible=True),
    Shown("headers", lambda row: headers_cell(row.get("headers")), flexible=True, rank=3),
    Shown("value", lambda row: bytes_cell(row.get("value")), flexible=True),
)
_SEGMENT: Final = (
    _word("segment", "segment"),
    _word("state", "state", rank=1),
    _size("size", "size_bytes"),
    _range("offsets", "first_offset", "last_offset"),
    _number("batches", "batch_count", rank=2),
    _number("records", "record_count"),
    _time("from (UTC)", "min_base_timestamp_ms", rank=3),
    _time("to (UTC)", "max_timestamp_ms", rank=1),
    _word("formats", "formats", rank=5),
    _word("codecs", "codecs", rank=4),
    _size("index", "index_bytes", rank=6),
    _size("timeindex", "timeindex_bytes", rank=6),
    _size("txnindex", "txnindex_bytes", rank=7),
    _size("snapshot", "snapshot_bytes", rank=7),
    _time("modified (UTC)", "mtime_ms", rank=8),
    Shown("damage", _damage_cell),
)
_ENTRY_START: Final = (_number("slot", "slot"), _number("position", "position", rank=2))
_OFFSET_ENTRY: Final = (*_ENTRY_START, _number("offset", "offset"), _number("position in log", "log_position"))
_TIME_ENTRY: Final = (*_ENTRY_START, _time("time (UTC)", "timestamp_ms"), _number("offset", "offset"))
_TXN_ENTRY: Final = (
    *_ENTRY_START,
    _number("producer id", "producer_id"),
    _range("aborted offsets", "first_offset", "last_offset"),
    _number("last stable offset", "last_stable_offset"),
    _number("version", "version", rank=1),
)
_PRODUCER: Final = (
    _number("producer id", "producer_id"),
    _number("epoch", "producer_epoch"),
    _number("last sequence", "last_sequence"),
    _number("last offset", "last_offset"),
    _number("offset delta", "offset_delta", rank=2),
    _time("time (UTC)", "timestamp_ms", rank=1),
    _number("coordinator epoch", "coordinator_epoch", rank=3),
    _number("open transaction from", "current_txn_first_offset"),
)
_OFFSET_CHECKPOINT: Final = (
    _number("line", "line", rank=1),
    _word("topic", "topic"),
    _number("partition", "partition"),
    _number("offset", "offset"),
)
_EPOCH_CHECKPOINT: Final = (
    _number("line", "line", rank=1),
    _number("leader epoch", "leader_epoch"),
    _number("start offset", "offset"),
)
_PROPERTY: Final = (_word("key", "key"), Shown("value", lambda row: plain(row.get("value")), flexible=True))
_SEEK: Final = (
    _word("answer", "outcome"),
    _number("offset", "offset"),
    _time("time (UTC)", "timestamp_ms", rank=1),
    _number("batch at", "position"),
    _size("size", "size_bytes", rank=2),
    _range("batch offsets", "base_offset", "last_offset", rank=3),
)
_FETCH: Final = (
    _word("fetch", "outcome"),
    _number("from byte", "position"),
    _number("bytes", "size_bytes"),
    _number("batches", "batches"),
    _number("to offset", "last_offset"),
    _number("cut batch at", "partial_position", rank=1),
    _number("bytes of it", "partial_bytes"),
    _number("asked for", "asked_bytes", rank=2),
    _number("fetches", "tries", rank=2),
)

_CATALOG: Final = (
    Shown("partition", lambda row: plain(os.path.basename(str(row.get("path")))), flexible=True),
    _word("state", "state"),
    _number("errors", "errors"),
    _number("warnings", "warnings"),
    _number("segments", "segments", rank=3),
    _number("batches", "batches", rank=4),
    _number("records", "records", rank=3),
    _size("log", "bytes", rank=1),
    _size("read", "read_bytes", rank=2),
    _size("unchanged", "unchanged_bytes", rank=2),
)

SHOWN: Final[dict[str, tuple[Shown, ...]]] = {
    "batch": _BATCH,
    "record": _RECORD,
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
}


def row_style(row: Mapping[str, object]) -> str:
    """The style of a row: damaged, or found only by a search."""
    if row.get("crc_ok") is False or bool(row.get("damage_count")):
        return DAMAGE_STYLE
    return "yellow" if row.get("resynced") else ""


def kind_of(row: Mapping[str, object]) -> str:
    """The key in `SHOWN` that a row belongs to."""
    kind = f"{row.get('type')} {row.get('kind')}"
    return kind if kind in SHOWN else str(row.get("type"))


def heading_of(row: Mapping[str, object]) -> str:
    """The place that a run of rows has in common, written once above them."""
    if row.get("type") in {"segment", "catalog"}:
        return partition_of(row)
    if "file" in row:
        return f"{plain(row.get('file'))} ({plain(row.get('kind'))})"
    return place_of(row)


def partition_of(row: Mapping[str, object]) -> str:
    """`orders-0`, or nothing for a file alone; its path where rows have one."""
    if row.get("path") is not None:
        return safe_text(os.path.dirname(str(row["path"])) or ".")
    return place_of({"topic": row.get("topic"), "partition": row.get("partition")})


def _columns_number(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: f"{row[name]:,}" if isinstance(row.get(name), int) else NONE, right=True, rank=rank)


def word(title: str, name: str, rank: int = 0) -> Shown:
    """A column of a word."""
    return Shown(title, lambda row: plain(row.get(name)), rank=rank)


def directory_of(row: Mapping[str, object]) -> str:
    """`orders-0`, or `orders-0.<uuid>-future`: the directory's own name, as it is."""
    return os.path.basename(str(row["path"]))


def _partition_of(row: Mapping[str, object]) -> str:
    return safe_text(f"{row.get('topic')}-{row.get('partition')}") if row.get("topic") else plain(row.get("path"))


def _largest(row: Mapping[str, object]) -> str:
    text = time_cell(row.get("largest_timestamp_ms")).replace(".000Z", "Z")
    return text if row.get("is_record_timestamp") else f"{text} (file)"


def _due(row: Mapping[str, object]) -> str:
    due_ms, now_ms = row.get("due_ms"), row.get("now_ms")
    if row.get("verdict") == "delete":
        return "now"
    if not isinstance(due_ms, int) or not isinstance(now_ms, int):
        return NONE
    return f"in {duration(due_ms - now_ms)}"


PARTITIONS: Final = (
    Shown("partition", lambda row: safe_text(directory_of(row))),
    word("state", "state"),
    _columns_number("segments", "segments", 2),
    _columns_number("go", "deleted_segments"),
    _size("log", "bytes", 1),
    _size("goes", "deleted_bytes"),
    _time("next due", "next_due_ms", 3),
    Shown("what", lambda row: plain(row.get("message")), flexible=True),
)
SEGMENTS: Final = (
    word("verdict", "verdict"),
    word("segment", "segment"),
    _size("log", "size_bytes", 2),
    Shown("largest time", _largest, rank=3),
    word("rule", "rule"),
    Shown("due", _due, rank=1),
    word("why", "reason"),
)
EVENTS: Final = (
    _time("time", "time_ms"),
    word("event", "event"),
    Shown("segment", lambda row: f"{_partition_of(row)}/{plain(row.get('segment'))}"),
    _size("size", "size_bytes"),
    word("rule", "rule"),
    _columns_number("log start", "log_start_offset", 1),
    _size("log then", "log_bytes", 2),
)


Cells = tuple[str, ...]
_Row = TypeVar("_Row")

_COLUMN_CELLS_RECORD: Final = (
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
_OWN: Final = ("position", "size_bytes", "base_offset", "last_offset", "record_count", "max_timestamp_ms")
_COLUMN_CELLS_PRODUCER: Final = ("producer_id", "producer_epoch", "base_sequence")
_SHARED: Final = ("attributes", "leader_epoch", "crc_stored", "crc_computed", "base_timestamp_ms")


def column_cells(chunk: Chunk) -> Iterator[tuple[Cells, str]] | None:
    """The cells of each row in the order of `SHOWN`, and its style; None: the rows are to be taken one by one."""
    if not isinstance(chunk, BatchChunk | RecordChunk):
        return None
    columns = chunk.columns()
    if columns.records is not None:
        is_v07 = bool(columns.batches.count) and columns.batches.column("format")[0] == FORMAT_V07
        return None if is_v07 else _record_cells(columns, columns.records)
    return _batch_cells(chunk, columns) if columns.batches.holds_only("format", MAGIC_V2) else None


def _values(columns: BatchColumns | RecordColumns, names: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
    return zip(*(columns.column(name).tolist() for name in names), strict=True)


class _Times:
    """`time_cell`, which makes the text of a second once for all times in it."""

    def __init__(self) -> None:
        self._second: int | None = None
        self._prefix = ""

    def cell(self, timestamp_ms: int) -> str:
        """The text of a timestamp."""
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
def _batch_cells(chunk: BatchChunk | RecordChunk, columns: ChunkColumns) -> Iterator[tuple[Cells, str]]:
    """Cells of batches of magic 2; most of a log has the same attributes and leader epoch."""
    batches, times = columns.batches, _Times()
    shared: dict[tuple[object, ...], tuple[Cells, str]] = {}
    rows = zip(
        range(batches.count),
        _values(batches, _OWN),
        _values(batches, _COLUMN_CELLS_PRODUCER),
        _values(batches, _SHARED),
        strict=True,
    )
    for number, own, producer, (attributes, epoch, stored, computed, base_ms) in _shown(columns, rows):
        horizon_ms = base_ms if attributes & DELETE_HORIZON_BIT else None
        key = attributes, epoch, computed < 0, stored == computed, horizon_ms
        if key not in shared:
            row = chunk.row_view(number)
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
                NONE if producer[0] == -1 else producer_cell(dict(zip(_COLUMN_CELLS_PRODUCER, producer, strict=True))),
                crc,
                notes,
            ),
            style,
        )


def _shown(columns: ChunkColumns, rows: Iterator[_Row]) -> Iterator[_Row]:
    """The rows that are selected."""
    return rows if columns.selection is None else compress(rows, columns.selection)


# --- records ----------------------------------------------------------------------------------------------------------
class _Batches:
    """What the records of a batch have in common: where it starts, whether they have times, and their notes."""

    def __init__(self, columns: ChunkColumns) -> None:
        names = ("position", "format", "attributes", "producer_id", "producer_epoch")
        self._rows = [columns.batches.column(name) for name in names]
        self._resynced = columns.resynced
        self._notes: dict[tuple[object, ...], str] = {}

    def of(self, number: int) -> tuple[str, bool, str, bool]:
        """Position, whether there are times, notes, and whether each record has a key to show."""
        position, batch_format, attributes, producer_id, epoch = [column[number] for column in self._rows]
        is_v2 = batch_format == MAGIC_V2
        is_control = is_v2 and bool(attributes & CONTROL_BIT)
        notes = self._noted(is_v2 and bool(attributes & TRANSACTIONAL_BIT), producer_id if is_v2 else None, epoch)
        return str(position), batch_format != MAGIC_V0, notes, is_control

    def of_marker(self, number: int, key: memoryview | None) -> str:
        """The notes of one record of a control batch."""
        _, _, attributes, producer_id, epoch = [column[number] for column in self._rows]
        control_type = control_type_name(None if key is None else bytes(key))
        return self._noted(bool(attributes & TRANSACTIONAL_BIT), producer_id, epoch, control_type)

    def _noted(self, is_transactional: bool, producer_id: int | None, epoch: int, control_type: str = "") -> str:
        key = is_transactional, producer_id, epoch, control_type
        if key not in self._notes:
            row = {"is_transactional": is_transactional, "producer_id": producer_id, "producer_epoch": epoch}
            self._notes[key] = record_notes({**row, "control_type": control_type, "resynced": self._resynced})
        return self._notes[key]


def _record_cells(columns: ChunkColumns, records: RecordColumns) -> Iterator[tuple[Cells, str]]:
    memory, times, batches = columns.memory, _Times(), _Batches(columns)
    style = row_style({"resynced": columns.resynced})
    current, position, has_times, notes, is_control = -1, "", False, "", False
    for batch, offset, timestamp_ms, key_start, key_size, value_start, value_size, first, count in _shown(
        columns, _values(records, _COLUMN_CELLS_RECORD)
    ):
        if batch != current:
            current = batch
            position, has_times, notes, is_control = batches.of(batch)
        key = memory[key_start : key_start + key_size] if key_size >= 0 else None
        yield (
            (
                str(offset),
                NONE,
                position,
                times.cell(timestamp_ms) if has_times else NONE,
                batches.of_marker(batch, key) if is_control else notes,
                bytes_cell(key),
                _headers(columns, records, first, count) if count else NONE,
                bytes_cell(memory[value_start : value_start + value_size] if value_size >= 0 else None),
            ),
            style,
        )


def _headers(columns: ChunkColumns, records: RecordColumns, first: int, count: int) -> str:
    """`headers_cell` of no more of them than it shows."""
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
