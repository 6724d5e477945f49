"""Rows of records and batches copied into buffers in Arrow's layout, column after column.

A `GatherPlan` (format/gather.py) defines for each format the value of each slot. A value of a batch is written for all
its rows at once. `measure_rows` picks the rows first and computes the required room.
"""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import (
    bytes_of,
    cells_of,
    control_kind,
    ints_of,
    room_of,
    sequence_of,
    shorts_of,
)
from kafkalog_core.kernels.programs import *
from kafkalog_core.kernels.text import is_utf8

__all__ = ["gather_headers", "gather_rows", "gather_texts", "measure_rows"]


@cython.final
@cython.cclass
class _Slots:
    """The buffers of one call of `gather_rows`. Pointers are valid during the call."""

    data: cython.pointer[cython.const[cython.uchar]]  # the bytes that the keys of control records are in
    batches: cython.pointer[cython.longlong]
    batch_capacity: cython.Py_ssize_t
    records: cython.pointer[cython.longlong]
    record_capacity: cython.Py_ssize_t  # 0: rows are batches
    picked: cython.pointer[cython.longlong]  # the rows to gather
    operations: cython.pointer[cython.longlong]  # GATHER_SIZE cells for each format and slot
    slots: cython.pointer[cython.longlong]  # SLOT_SIZE cells for each slot
    by_1: cython.pointer[cython.uchar]  # the cells, as integers of 1, 2, 4 and 8 bytes: all the same memory
    by_2: cython.pointer[cython.short]
    by_4: cython.pointer[cython.int]
    by_8: cython.pointer[cython.longlong]

    def __init__(
        self, memory: object, batches: object, records: object, picked: object, plan: object, cells: object
    ) -> None:
        self.data = bytes_of(memory)
        self.batches, self.batch_capacity = cells_of(batches.cells), batches.capacity
        self.records = cells_of(batches.cells if records is None else records.cells)
        self.record_capacity = 0 if records is None else records.capacity
        self.picked, self.operations, self.slots = cells_of(picked), cells_of(plan.operations), cells_of(cells.slots)
        self.by_1, self.by_2 = room_of(cells.by_1), shorts_of(cells.by_2)
        self.by_4, self.by_8 = ints_of(cells.by_4), cells_of(cells.by_8)


def gather_rows(
    memory: object, batches: object, records: object, picked: object, count: cython.Py_ssize_t, plan: object,
    cells: object, at: cython.Py_ssize_t,
) -> None:  # fmt: skip
    """Write the slots of the first `count` picked rows, from row `at` of the cells on, which have room for them.

    Rows are records, or batches where `records` is None. The validity bits are all set before the call; those of null
    values are cleared, and the values are 0.
    """
    io: _Slots = _Slots(memory, batches, records, picked, plan, cells)
    e: cython.pointer[cython.longlong] = cells_of(plan.entries)
    slots: cython.Py_ssize_t = plan.slots
    first: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    batch: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    step: cython.Py_ssize_t
    # `first` to `end` are the picked rows of one batch; all rows before `first` are written. A value of a batch is
    # written for all of them at once.
    while first < count:
        batch = io.records[R_BATCH * io.record_capacity + io.picked[first]] if io.record_capacity else io.picked[first]
        end = first + 1
        if io.record_capacity:
            while end < count and io.records[R_BATCH * io.record_capacity + io.picked[end]] == batch:
                end += 1
        step = e[io.batches[B_FORMAT * io.batch_capacity + batch]]
        for slot in range(slots):
            _fill_slot(io, batch, first, end, (step + slot) * GATHER_SIZE, slot * SLOT_SIZE, at + first)
        first = end


@cython.cfunc
@cython.exceptval(check=False)
def _fill_slot(
    io: _Slots,
    batch: cython.Py_ssize_t,
    first: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    step: cython.Py_ssize_t,
    slot: cython.Py_ssize_t,
    at: cython.Py_ssize_t,
) -> cython.void:
    """Write one slot of the picked rows from `first` to `end` (exclusive), all of one batch."""
    operation: cython.longlong = io.operations[step]
    x: cython.longlong = io.operations[step + 1]
    y: cython.longlong = io.operations[step + 2]
    i: cython.Py_ssize_t
    value: cython.longlong
    is_null: cython.bint
    start: cython.Py_ssize_t = io.slots[slot + SLOT_START] + at - first
    if operation == G_RECORD_INT and io.slots[slot + SLOT_WIDTH] == 8:
        # io.picked: rows of the records; row `i` of these becomes row `at + i - first` of the slot.
        for i in range(first, end):
            io.by_8[start + i] = io.records[x * io.record_capacity + io.picked[i]]
    elif operation >= G_RECORD_INT and not (
        operation == G_CONTROL and (io.batches[B_ATTRIBUTES * io.batch_capacity + batch] & CONTROL) == 0
    ):
        for i in range(first, end):
            value = _value_of_record(io, operation, x, y, batch, io.picked[i])
            is_null = operation == G_RECORD_INT_OR_NULL and value < 0
            _spread_value(io, value, is_null, 1, slot, at + i - first)
    else:
        value = _value_of_batch(operation, x, y, io.batches, io.batch_capacity, batch)
        is_null = _is_null_in_batch(operation, y, io.batches, io.batch_capacity, batch, value)
        _spread_value(io, value, is_null, end - first, slot, at)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _value_of_record(
    io: _Slots,
    operation: cython.longlong,
    x: cython.longlong,
    y: cython.longlong,
    batch: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.longlong:
    """Return the value of one record."""
    if operation == G_SEQUENCE:
        return sequence_of(io.batches, io.batch_capacity, batch, io.records[R_OFFSET * io.record_capacity + row])
    if operation <= G_RECORD_INT_OR_NULL:
        return io.records[x * io.record_capacity + row]
    if operation == G_RECORD_NAME:
        return y + io.records[x * io.record_capacity + row]
    if operation == G_CONTROL:
        return y + control_kind(io.data, io.records, io.record_capacity, row)
    return 1 if io.records[R_ATTRIBUTES * io.record_capacity + row] >= 0 else 0  # the magic of 0.7


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _value_of_batch(
    operation: cython.longlong,
    x: cython.longlong,
    y: cython.longlong,
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
) -> cython.longlong:
    """Return the value of all rows of a batch; undefined if it is null."""
    if G_BATCH_INT <= operation <= G_BATCH_INT_IF:
        return b[x * capacity + batch]
    if operation == G_BATCH_BIT:
        return y + ((b[B_ATTRIBUTES * capacity + batch] & x) != 0)
    if operation == G_BATCH_NAME:
        return y + b[x * capacity + batch]
    if operation == G_CONSTANT:
        return y
    return y + (b[B_COMPUTED * capacity + batch] == b[B_CRC * capacity + batch])


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_null_in_batch(
    operation: cython.longlong,
    y: cython.longlong,
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
    value: cython.longlong,
) -> cython.bint:
    """Return whether all rows of a batch are null, as the control type of a batch that is not a control batch."""
    if operation == G_BATCH_INT_OR_NULL:
        return value < 0
    if operation == G_BATCH_INT_IF:
        return (b[B_ATTRIBUTES * capacity + batch] & y) == 0
    if operation == G_BATCH_CRC_OK:
        return b[B_COMPUTED * capacity + batch] < 0
    return not G_CONSTANT <= operation <= G_BATCH_NAME


@cython.cfunc
@cython.exceptval(check=False)
def _spread_value(
    io: _Slots,
    value: cython.longlong,
    is_null: cython.bint,
    count: cython.Py_ssize_t,
    slot: cython.Py_ssize_t,
    at: cython.Py_ssize_t,
) -> cython.void:
    """Write one value, or null, to `count` rows of a slot."""
    width: cython.longlong = io.slots[slot + SLOT_WIDTH]
    start: cython.Py_ssize_t = io.slots[slot + SLOT_START] + at
    bits: cython.Py_ssize_t = io.slots[slot + SLOT_VALID]
    i: cython.Py_ssize_t
    if is_null:
        value = 0
        io.slots[slot + SLOT_NULLS] += count
        # Bit `i & 7` of byte `bits + (i >> 3)` is the validity of row `i`; all bits are set before.
        for i in range(at, at + count):
            io.by_1[bits + (i >> 3)] &= ~(1 << (i & 7)) & 0xFF
    if at == 0:
        io.slots[slot + SLOT_FIRST] = value
    elif io.slots[slot + SLOT_FIRST] != value:
        io.slots[slot + SLOT_MIXED] = 1
    if width == 8:
        for i in range(start, start + count):
            io.by_8[i] = value
    elif width == 4:
        for i in range(start, start + count):
            io.by_4[i] = value
    elif width == 2:
        for i in range(start, start + count):
            io.by_2[i] = value
    else:
        for i in range(start, start + count):
            io.by_1[i] = value & 0xFF


# --- keys, values and headers -----------------------------------------------------------------------------------------
if cython.compiled:
    from cython.cimports.libc.string import memcpy


def measure_rows(
    columns: object, selection: object, first: cython.Py_ssize_t, rows: cython.Py_ssize_t, most: cython.longlong,
    wanted: cython.longlong, done: object, picked: object,
) -> tuple[int, int]:  # fmt: skip
    """Pick rows from `first` on: at most `rows`, with at most `most` bytes of texts in all.

    `columns`: records, or batches if no texts are `wanted`. `selection`: `None`, or a byte for each row, 0 for rows to
    leave out. `done`: the totals (`DONE_*`) before the call, and afterwards those with the picked rows. If nothing was
    gathered before, the first row always fits. Return (next row, number of picked rows).
    """
    r: cython.pointer[cython.longlong] = cells_of(columns.cells)
    h: cython.pointer[cython.longlong] = cells_of(columns.headers.cells if wanted else columns.cells)
    n: cython.pointer[cython.longlong] = cells_of(done)
    k: cython.pointer[cython.longlong] = cells_of(picked)
    m: cython.pointer[cython.const[cython.uchar]] = bytes_of(b"\x01" if selection is None else selection)
    capacity: cython.Py_ssize_t = columns.capacity
    h_capacity: cython.Py_ssize_t = columns.headers.capacity if wanted else 0
    total: cython.Py_ssize_t = columns.count
    is_all: cython.bint = selection is None
    row: cython.Py_ssize_t = first
    count: cython.Py_ssize_t = 0
    # Rows before `row` are decided; k[0:count] are the picked ones, n their totals.
    while row < total:
        if is_all or m[row] != 0:
            if count == rows or (wanted and not _takes_row(r, capacity, h, h_capacity, row, wanted, most, n)):
                break
            n[DONE_ROWS] += 1
            k[count] = row
            count += 1
        row += 1
    return row, count


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _takes_row(
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    wanted: cython.longlong,
    most: cython.longlong,
    n: cython.pointer[cython.longlong],
) -> cython.bint:
    """Add the bytes of a row to the totals and return true, unless they exceed `most`."""
    k: cython.Py_ssize_t
    first: cython.Py_ssize_t = r[R_HEADERS * capacity + row]
    headers: cython.longlong = r[R_HEADER_COUNT * capacity + row] if wanted & WANTS_HEADERS else 0
    key: cython.longlong = _bytes_of_text(r[R_KEY_SIZE * capacity + row]) if wanted & WANTS_KEY else 0
    value: cython.longlong = _bytes_of_text(r[R_VALUE_SIZE * capacity + row]) if wanted & WANTS_VALUE else 0
    header_keys: cython.longlong = 0
    header_values: cython.longlong = 0
    before: cython.longlong = n[DONE_KEYS] + n[DONE_VALUES] + n[DONE_HEADER_KEYS] + n[DONE_HEADER_VALUES]
    # h: header columns; n: totals. Sums over the row's headers, added to the totals only if the row is taken.
    for k in range(first, first + headers):
        header_keys += _bytes_of_text(h[H_KEY_SIZE * h_capacity + k])
        header_values += _bytes_of_text(h[H_VALUE_SIZE * h_capacity + k])
    if n[DONE_ROWS] > 0 and before + key + value + header_keys + header_values > most:
        return False
    n[DONE_KEYS] += key
    n[DONE_VALUES] += value
    n[DONE_HEADERS] += headers
    n[DONE_HEADER_KEYS] += header_keys
    n[DONE_HEADER_VALUES] += header_values
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _bytes_of_text(size: cython.longlong) -> cython.longlong:
    """Return the number of bytes; 0 for null, whose size is -1."""
    return size if size > 0 else 0


def gather_texts(
    memory: object, records: object, picked: object, count: cython.Py_ssize_t, field: cython.Py_ssize_t,
    out: object, at: cython.Py_ssize_t,
) -> None:  # fmt: skip
    """Append the bytes at column `field` (size in the next one) of the first `count` picked records, as row `at`."""
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    r: cython.pointer[cython.longlong] = cells_of(records.cells)
    k: cython.pointer[cython.longlong] = cells_of(picked)
    f: cython.pointer[cython.int] = ints_of(out.starts.cells)
    v: cython.pointer[cython.uchar] = room_of(out.bits.cells)
    w: cython.pointer[cython.uchar] = room_of(out.texts.cells)
    capacity: cython.Py_ssize_t = records.capacity
    nulls: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = f[at]
    size: cython.longlong
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    # Rows k[0:i] are copied: `end` bytes of `w`. f[n] is the start of the bytes of row n, f[n + 1] their end.
    for i in range(count):
        row = k[i]
        size = r[(field + 1) * capacity + row]
        if size < 0:
            nulls += 1
            _clear_bit(v, at + i)
        else:
            _copy_bytes(p, r[field * capacity + row], size, w, end)
            end += size
        f[at + i + 1] = end
    out.nulls += nulls


def gather_headers(
    memory: object, batches: object, records: object, picked: object, count: cython.Py_ssize_t, out: object,
    at: cython.Py_ssize_t,
) -> None:  # fmt: skip
    """Append the headers of the first `count` picked records to the buffers `out`, as row `at`."""
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    r: cython.pointer[cython.longlong] = cells_of(records.cells)
    h: cython.pointer[cython.longlong] = cells_of(records.headers.cells)
    k: cython.pointer[cython.longlong] = cells_of(picked)
    f: cython.pointer[cython.int] = ints_of(out.starts.cells)
    v: cython.pointer[cython.uchar] = room_of(out.bits.cells)
    fk: cython.pointer[cython.int] = ints_of(out.key_starts.cells)
    fv: cython.pointer[cython.int] = ints_of(out.value_starts.cells)
    vv: cython.pointer[cython.uchar] = room_of(out.value_bits.cells)
    wk: cython.pointer[cython.uchar] = room_of(out.keys.cells)
    wv: cython.pointer[cython.uchar] = room_of(out.values.cells)
    t: cython.pointer[cython.longlong] = cells_of(out.summary)
    b_capacity: cython.Py_ssize_t = batches.capacity
    capacity: cython.Py_ssize_t = records.capacity
    h_capacity: cython.Py_ssize_t = records.headers.capacity
    header: cython.Py_ssize_t = f[at]
    size: cython.longlong
    start: cython.Py_ssize_t
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    row: cython.Py_ssize_t
    # The headers of rows k[0:i] are copied: `header` headers. fk, fv: starts of keys and values; wk, wv: their bytes.
    for i in range(count):
        row = k[i]
        if b[B_FORMAT * b_capacity + r[R_BATCH * capacity + row]] != MAGIC_V2:
            t[SUMMARY_NULLS] += 1
            _clear_bit(v, at + i)
        else:
            start = r[R_HEADERS * capacity + row]
            for j in range(start, start + r[R_HEADER_COUNT * capacity + row]):
                size = _bytes_of_text(h[H_KEY_SIZE * h_capacity + j])
                if not _copy_if_text(p, h[H_KEY * h_capacity + j], size, wk, fk[header]):
                    if t[SUMMARY_NOT_TEXT] == 0:
                        t[SUMMARY_OFFSET] = r[R_OFFSET * capacity + row]
                    t[SUMMARY_NOT_TEXT] += 1
                fk[header + 1] = fk[header] + size
                size = h[H_VALUE_SIZE * h_capacity + j]
                if size < 0:
                    t[SUMMARY_NULL_VALUES] += 1
                    _clear_bit(vv, header)
                    size = 0
                _copy_bytes(p, h[H_VALUE * h_capacity + j], size, wv, fv[header])
                fv[header + 1] = fv[header] + size
                header += 1
        f[at + i + 1] = header


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _clear_bit(v: cython.pointer[cython.uchar], bit: cython.Py_ssize_t) -> cython.void:
    """Clear the validity bit of a row: it is null."""
    v[bit >> 3] &= ~(1 << (bit & 7)) & 0xFF


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _copy_bytes(
    p: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.void:
    if cython.compiled:
        memcpy(w + at, p + start, size)
    else:
        w[at : at + size] = p[start : start + size]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _copy_if_text(
    p: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.bint:
    """Copy bytes. Return whether they are exact UTF-8."""
    high: cython.uchar = 0
    i: cython.Py_ssize_t
    # p: the bytes. `high` has bit 7 if one of those before `i` is not ASCII.
    for i in range(start, start + size):
        high |= p[i]
    _copy_bytes(p, start, size, w, at)
    return high < 0x80 or is_utf8(p, start, start + size)
