"""Arrow's memory for gathered rows: filled by kernels, given away as arrays, used again where little was in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafkalog_core.format import kernels
from kafkalog_core.format.columns import RECORD_FIELDS
from kafkalog_core.format.gather import Cells, GatherPlan, Headers, Texts
from kafkalog_core.format.kernels import gather_numbers as numbers
from kafkalog_core.spark.schema import arrow_type

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from kafkalog_core.format.gather import Room
    from kafkalog_core.ops.reading.chunks import ChunkColumns
    from kafkalog_core.spark.constants import Constants
    from kafkalog_core.tables import Column

__all__ = ["Buffers"]

FIRST_BYTES: Final = 1024 * 1024  # of each buffer of texts; it grows with what comes
FIRST_HEADERS: Final = 16 * 1024
_NAMED: Final = frozenset({"string", "bool"})


class Buffers:
    """Room for so many rows of these columns.

    Args:
        columns: of records or batches; none of those that all rows of a file have alike.
        rows: the most there will be.
        constants: what makes the arrays of names.
        is_record: rows are records.
    """

    def __init__(self, columns: Sequence[Column], rows: int, constants: Constants, *, is_record: bool) -> None:
        self._rows = rows
        self._constants = constants
        self._plan = GatherPlan(columns, is_record=is_record)
        self._slots = {column.name: slot for slot, column in enumerate(self._plan.columns)}
        self._cells = Cells(self._plan, rows, _allocate)
        self._texts = {column.name: Texts(rows, FIRST_BYTES, _allocate) for column in columns if column.kind == "bytes"}
        self._headers: Headers | None = None
        if self._plan.wanted & numbers.WANTS_HEADERS:
            self._headers = Headers(rows, FIRST_HEADERS, FIRST_BYTES, _allocate)

    @property
    def wanted(self) -> int:
        """What of a record takes room of its own (`WANTS_*`)."""
        return self._plan.wanted

    @property
    def replaced(self) -> tuple[int, int]:
        """How many keys of headers are no UTF-8, and the offset of the first record with one."""
        if self._headers is None:
            return 0, -1
        return self._headers.told[numbers.TOLD_NOT_TEXT], self._headers.told[numbers.TOLD_OFFSET]

    def gather(
        self, parts: ChunkColumns, picked: array[int], count: int, before: array[int], after: array[int]
    ) -> None:
        """Append picked rows; `before` and `after` say how much there was and will be (`DONE_*`)."""
        memory, batches, records = parts[:3]
        at = before[numbers.DONE_ROWS]
        if self._plan.slots:
            kernels.gather_rows(memory, batches, records, picked, count, self._plan, self._cells, at)
        if records is None:
            return
        for name, texts in self._texts.items():
            total = numbers.DONE_KEYS if name == "key" else numbers.DONE_VALUES
            texts.texts.reserve(after[total], before[total])
            field = RECORD_FIELDS.index(f"{name}_start")
            kernels.gather_texts(memory, records, picked, count, field, texts, at)
        if self._headers is not None:
            self._headers.reserve(before, after)
            kernels.gather_headers(memory, batches, records, picked, count, self._headers, at)

    def take(self, columns: Sequence[Column], rows: int) -> list[pa.Array]:
        """The rows, column by column; there are none afterwards."""
        is_full = 2 * rows >= self._rows
        arrays = [self._array(column, rows, is_full=is_full) for column in columns]
        self._cells.clear(renewed=is_full)
        for texts in self._texts.values():
            texts.clear()
        if self._headers is not None:
            self._headers.clear()
        return arrays

    def _array(self, column: Column, rows: int, *, is_full: bool) -> pa.Array:
        if column.name in self._texts:
            texts = self._texts[column.name]
            buffers = _binary(texts.starts, texts.bits, texts.texts, rows, texts.nulls)
            return pa.Array.from_buffers(pa.binary(), rows, buffers, texts.nulls)
        if column.kind == "headers" and self._headers is not None:
            return _headers_array(self._headers, column, rows)
        return self._slot_array(column, rows, is_full=is_full)

    def _slot_array(self, column: Column, rows: int, *, is_full: bool) -> pa.Array:
        slot, cells = self._slots[column.name], self._cells
        nulls, uniform, names = cells.nulls(slot), cells.uniform(slot), self._plan.names[slot]
        if column.kind in _NAMED and uniform is not None and nulls in {0, rows}:
            value = None if nulls else names[uniform] if column.kind == "string" else bool(uniform)
            return self._constants.array(column, value, rows, names)
        room = cells.room
        values, bits = (
            room.owner.slice(start, size) if is_full else pa.py_buffer(bytes(room.view[start : start + size]))
            for start, size in cells.spans(slot, rows)
        )
        buffers = [bits if nulls else None, values]
        if column.kind in _NAMED:
            return self._constants.named(column, pa.Array.from_buffers(pa.int8(), rows, buffers, nulls), names)
        return pa.Array.from_buffers(arrow_type(column.kind), rows, buffers, nulls)


def _headers_array(headers: Headers, column: Column, rows: int) -> pa.Array:
    count = headers.starts.cells[rows]
    nulls, null_values, not_text, _ = headers.told
    buffers = _binary(headers.value_starts, headers.value_bits, headers.values, count, null_values)
    values = pa.Array.from_buffers(pa.binary(), count, buffers, null_values)
    buffers = _binary(headers.key_starts, None, headers.keys, count, 0)
    if not_text:
        raw = pa.Array.from_buffers(pa.binary(), count, buffers, 0).to_pylist()
        keys = pa.array([str(key, "utf-8", "replace") for key in raw], pa.string())
    else:
        keys = pa.Array.from_buffers(pa.string(), count, buffers, 0)
    kind = arrow_type(column.kind)
    pairs = pa.Array.from_buffers(kind.value_type, count, [None], 0, children=[keys, values])
    bits = _give(headers.bits, -(-rows // 8)) if nulls else None
    return pa.Array.from_buffers(kind, rows, [bits, _give(headers.starts, 4 * (rows + 1))], nulls, children=[pairs])


def _binary(starts: Room, bits: Room | None, texts: Room, rows: int, nulls: int) -> list[pa.Buffer | None]:
    """Validity, starts and bytes of a column of bytes."""
    size = starts.cells[rows]
    valid = _give(bits, -(-rows // 8)) if bits is not None and nulls else None
    return [valid, _give(starts, 4 * (rows + 1)), _give(texts, size)]


def _allocate(size: int) -> pa.Buffer:
    """From the system's allocator, which gives the pages of the last batch again; Arrow's own gives fresh ones."""
    return pa.allocate_buffer(size, memory_pool=pa.system_memory_pool())


def _give(room: Room, size: int) -> pa.Buffer:
    """The first bytes of a room: its own buffer where that is well filled, which is replaced then; else a copy."""
    if 2 * size < len(room.view):
        return pa.py_buffer(bytes(room.view[:size]))
    owner = room.owner
    room.renew()
    return owner.slice(0, size)
