"""The cells of records and batches, made from columns: what `SHOWN` makes of their rows, several times as fast.

A row as a dict costs more than its line. Cells that batches have in common are made once, from a whole row, and of a
key or value no more is touched than is shown. Batches of the older formats and records of Kafka 0.7 take the way of
all rows.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalog_cli.render.cells import (
    NONE,
    SHOWN_HEADERS,
    bytes_cell,
    headers_cell,
    human_bytes,
    time_cell,
)
from kafkalog_cli.render.columns import SHOWN, producer_cell, record_notes, row_style
from kafkalog_core.format.columns import FORMAT_V07
from kafkalog_core.format.layout import CONTROL_BIT, DELETE_HORIZON_BIT, MAGIC_V0, MAGIC_V2, TRANSACTIONAL_BIT
from kafkalog_core.ops.reading.chunks import BatchChunk, RecordChunk, control_type_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.columns import BatchColumns, RecordColumns
    from kafkalog_core.ops.reading.chunks import ChunkColumns
    from kafkalog_core.ops.reading.rows import Chunk

__all__ = ["column_cells"]

Cells = tuple[str, ...]
_Row = TypeVar("_Row")

_RECORD: Final = (
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
_PRODUCER: Final = ("producer_id", "producer_epoch", "base_sequence")
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
        _values(batches, _PRODUCER),
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
                NONE if producer[0] == -1 else producer_cell(dict(zip(_PRODUCER, producer, strict=True))),
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
        columns, _values(records, _RECORD)
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
