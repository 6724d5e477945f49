"""The hot loops that copy rows of records and batches into buffers as Arrow lays them out, column after column.

A `GatherPlan` (gather.py of the formats) says for each format what stands in which slot. Values of a batch are written
for all of its rows at once. `measure_rows` (gather_texts.py) has picked the rows and told what room there must be.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.constants import (
    B_ATTRIBUTES,
    B_COMPUTED,
    B_CRC,
    B_FORMAT,
    CONTROL,
    R_ATTRIBUTES,
    R_BATCH,
    R_OFFSET,
)
from kafkalog_core.format.kernels.gather_numbers import (
    G_BATCH_BIT,
    G_BATCH_CRC_OK,
    G_BATCH_INT,
    G_BATCH_INT_IF,
    G_BATCH_INT_OR_NULL,
    G_BATCH_NAME,
    G_CONSTANT,
    G_CONTROL,
    G_RECORD_INT,
    G_RECORD_INT_OR_NULL,
    G_RECORD_NAME,
    G_SEQUENCE,
    GATHER_SIZE,
    SLOT_FIRST,
    SLOT_MIXED,
    SLOT_NULLS,
    SLOT_SIZE,
    SLOT_START,
    SLOT_VALID,
    SLOT_WIDTH,
)
from kafkalog_core.format.kernels.record_values import control_kind, sequence_of

__all__ = ["gather_rows"]


def gather_rows(
    memory: object, batches: object, records: object, picked: object, count: cython.Py_ssize_t, plan: object,
    cells: object, at: cython.Py_ssize_t,
) -> None:  # fmt: skip
    """Write the slots of the first `count` picked rows, from row `at` of the cells on, which have room for them.

    Rows are records, or batches where `records` is None. Bits of validity are all set before; those of nulls are taken
    away, and their values are 0.
    """
    data: cython.const[cython.uchar][::1] = memory
    b_view: cython.longlong[::1] = batches.cells
    r_view: cython.longlong[::1] = batches.cells if records is None else records.cells
    k_view: cython.longlong[::1] = picked
    o_view: cython.longlong[::1] = plan.operations
    e_view: cython.longlong[::1] = plan.entries
    s_view: cython.longlong[::1] = cells.slots
    w1_view: cython.uchar[::1] = cells.by_1
    w2_view: cython.short[::1] = cells.by_2
    w4_view: cython.int[::1] = cells.by_4
    w8_view: cython.longlong[::1] = cells.by_8
    b_capacity: cython.Py_ssize_t = batches.capacity
    r_capacity: cython.Py_ssize_t = 0 if records is None else records.capacity
    slots: cython.Py_ssize_t = plan.slots
    first: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    batch: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    step: cython.Py_ssize_t
    p: cython.pointer[cython.const[cython.uchar]]
    b: cython.pointer[cython.longlong]
    r: cython.pointer[cython.longlong]
    k: cython.pointer[cython.longlong]
    o: cython.pointer[cython.longlong]
    s: cython.pointer[cython.longlong]
    w1: cython.pointer[cython.uchar]
    w2: cython.pointer[cython.short]
    w4: cython.pointer[cython.int]
    w8: cython.pointer[cython.longlong]
    if cython.compiled:
        p = cython.address(data[0]) if data.shape[0] else cython.NULL
        b, r, k = cython.address(b_view[0]), cython.address(r_view[0]), cython.address(k_view[0])
        o, s, w8 = cython.address(o_view[0]), cython.address(s_view[0]), cython.address(w8_view[0])
        w1, w2, w4 = cython.address(w1_view[0]), cython.address(w2_view[0]), cython.address(w4_view[0])
    else:
        p, b, r, k, o, s, w1, w2, w4, w8 = (
            data,
            b_view,
            r_view,
            k_view,
            o_view,
            s_view,
            w1_view,
            w2_view,
            w4_view,
            w8_view,
        )
    while first < count:
        batch = r[R_BATCH * r_capacity + k[first]] if r_capacity else k[first]
        end = first + 1
        if r_capacity:
            while end < count and r[R_BATCH * r_capacity + k[end]] == batch:
                end += 1
        step = e_view[b[B_FORMAT * b_capacity + batch]]
        for slot in range(slots):
            _fill_slot(
                p, b, b_capacity, batch, r, r_capacity, k, first, end, o, (step + slot) * GATHER_SIZE,
                s, slot * SLOT_SIZE, w1, w2, w4, w8, at + first,
            )  # fmt: skip
        first = end


@cython.cfunc
@cython.exceptval(check=False)
def _fill_slot(
    p: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    k: cython.pointer[cython.longlong],
    first: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    o: cython.pointer[cython.longlong],
    step: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
    slot: cython.Py_ssize_t,
    w1: cython.pointer[cython.uchar],
    w2: cython.pointer[cython.short],
    w4: cython.pointer[cython.int],
    w8: cython.pointer[cython.longlong],
    at: cython.Py_ssize_t,
) -> cython.void:
    """One slot of the picked rows from `first` to `end` (exclusive), all of one batch."""
    operation: cython.longlong = o[step]
    x: cython.longlong = o[step + 1]
    y: cython.longlong = o[step + 2]
    i: cython.Py_ssize_t
    value: cython.longlong
    is_null: cython.bint
    start: cython.Py_ssize_t = s[slot + SLOT_START] + at - first
    if operation == G_RECORD_INT and s[slot + SLOT_WIDTH] == 8:
        for i in range(first, end):
            w8[start + i] = r[x * r_capacity + k[i]]
    elif operation >= G_RECORD_INT and not (
        operation == G_CONTROL and (b[B_ATTRIBUTES * b_capacity + batch] & CONTROL) == 0
    ):
        for i in range(first, end):
            value = _value_of_record(operation, x, y, p, b, b_capacity, batch, r, r_capacity, k[i])
            is_null = operation == G_RECORD_INT_OR_NULL and value < 0
            _spread_value(value, is_null, 1, s, slot, w1, w2, w4, w8, at + i - first)
    else:
        value = _value_of_batch(operation, x, y, b, b_capacity, batch)
        is_null = _is_null_in_batch(operation, y, b, b_capacity, batch, value)
        _spread_value(value, is_null, end - first, s, slot, w1, w2, w4, w8, at)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _value_of_record(
    operation: cython.longlong,
    x: cython.longlong,
    y: cython.longlong,
    p: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.longlong:
    """The value of one record."""
    if operation == G_SEQUENCE:
        return sequence_of(b, b_capacity, batch, r[R_OFFSET * r_capacity + row])
    if operation <= G_RECORD_INT_OR_NULL:
        return r[x * r_capacity + row]
    if operation == G_RECORD_NAME:
        return y + r[x * r_capacity + row]
    if operation == G_CONTROL:
        return y + control_kind(p, r, r_capacity, row)
    return 1 if r[R_ATTRIBUTES * r_capacity + row] >= 0 else 0  # the magic of 0.7


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
    """The value of all rows of a batch; whatever where it is null."""
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
    """Whether all rows of a batch are null there; control types of those that are no control batches are."""
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
    value: cython.longlong,
    is_null: cython.bint,
    count: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
    slot: cython.Py_ssize_t,
    w1: cython.pointer[cython.uchar],
    w2: cython.pointer[cython.short],
    w4: cython.pointer[cython.int],
    w8: cython.pointer[cython.longlong],
    at: cython.Py_ssize_t,
) -> cython.void:
    """The same value, or null, in `count` rows of a slot."""
    width: cython.longlong = s[slot + SLOT_WIDTH]
    start: cython.Py_ssize_t = s[slot + SLOT_START] + at
    bits: cython.Py_ssize_t = s[slot + SLOT_VALID]
    i: cython.Py_ssize_t
    if is_null:
        value = 0
        s[slot + SLOT_NULLS] += count
        for i in range(at, at + count):
            w1[bits + (i >> 3)] &= ~(1 << (i & 7)) & 0xFF
    if at == 0:
        s[slot + SLOT_FIRST] = value
    elif s[slot + SLOT_FIRST] != value:
        s[slot + SLOT_MIXED] = 1
    if width == 8:
        for i in range(start, start + count):
            w8[i] = value
    elif width == 4:
        for i in range(start, start + count):
            w4[i] = value
    elif width == 2:
        for i in range(start, start + count):
            w2[i] = value
    else:
        for i in range(start, start + count):
            w1[i] = value & 0xFF
