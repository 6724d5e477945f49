"""Which columns of each row type a person sees, in which order, and how each is written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_cli.render.cells import (
    NONE,
    bytes_cell,
    headers_cell,
    human_bytes,
    place_of,
    plain,
    safe_text,
    span,
    time_cell,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "DAMAGE_STYLE",
    "SHOWN",
    "Shown",
    "heading_of",
    "kind_of",
    "partition_of",
    "producer_cell",
    "record_notes",
    "row_style",
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
