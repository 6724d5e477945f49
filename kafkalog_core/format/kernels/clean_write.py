"""The cleaner's output: batches copied, emptied, or written again without the records that go."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.clean_header import put_header
from kafkalog_core.format.kernels.clean_numbers import (
    K_BYTES,
    K_OUTCOME,
    K_SIZE,
    O_BATCH,
    O_BEGINS,
    O_END,
    O_FILLED,
    O_NEED,
    O_OUTPUT,
    O_RECORD,
    O_ROWS,
    O_RULES,
    OUTCOME_REBUILT,
    OUTCOME_REMOVED,
    OUTCOME_VERBATIM,
    RULE_CONVERT,
    WRITE_DONE,
    WRITE_LEGACY,
    WRITE_PACK,
    WRITE_ROOM,
)
from kafkalog_core.format.kernels.clean_records import put_records
from kafkalog_core.format.kernels.constants import (
    B_CODEC,
    B_FORMAT,
    B_POSITION,
    B_SIZE,
    MAGIC_AT,
    MAGIC_V2,
    OVERHEAD,
    R_BATCH,
    V2_SIZE,
)
from kafkalog_core.format.kernels.log_walk import fill_legacy, fill_v2

if cython.compiled:
    from cython.cimports.libc.string import memcpy

__all__ = ["finish_batch", "note_batch", "write_batches", "write_records"]


def write_batches(
    window: object,
    memory: object,
    batches: object,
    records: object,
    reasons: object,
    cells: object,
    last: cython.Py_ssize_t,
    output: object,
    columns: object,
    state: object,
) -> cython.Py_ssize_t:
    """Write what is left of batches from O_BATCH on, up to row `last` (exclusive); returns a WRITE number.

    Args:
        window: the log's bytes, from file position O_BEGINS on.
        memory: the buffer that the records refer to.
        batches: batch columns.
        records: record columns; O_RECORD is the row of the first record of batch O_BATCH.
        reasons: the `WHY_*` of each record.
        cells: the `K_*` cells of each batch.
        last: row behind the last batch.
        output: where it is written, from byte O_FILLED on.
        columns: batch columns of the output, which have room for as many.
        state: the `O_*` cells.
    """
    c_view: cython.const[cython.uchar][::1] = window
    data: cython.const[cython.uchar][::1] = memory
    b_view: cython.longlong[::1] = batches.cells
    b_capacity: cython.Py_ssize_t = batches.capacity
    r_view: cython.longlong[::1] = records.cells
    capacity: cython.Py_ssize_t = records.capacity
    count: cython.Py_ssize_t = records.count
    h_view: cython.longlong[::1] = records.headers.cells
    h_capacity: cython.Py_ssize_t = records.headers.capacity
    w_view: cython.const[cython.uchar][::1] = reasons
    k_view: cython.longlong[::1] = cells
    o_view: cython.uchar[::1] = output
    n_view: cython.longlong[::1] = columns.cells
    n_capacity: cython.Py_ssize_t = columns.capacity
    s_view: cython.longlong[::1] = state
    if cython.compiled:
        c = cython.address(c_view[0])
        p = cython.address(data[0]) if data.shape[0] else cython.NULL
        b = cython.address(b_view[0])
        r = cython.address(r_view[0])
        h = cython.address(h_view[0])
        w = cython.address(w_view[0])
        k = cython.address(k_view[0])
        o = cython.address(o_view[0])
        n = cython.address(n_view[0])
        s = cython.address(s_view[0])
    else:
        c, p, b, r, h, w, k, o, n, s = (c_view, data, b_view, r_view, h_view, w_view, k_view, o_view, n_view, s_view)
    s[O_ROWS] = columns.count
    result: cython.Py_ssize_t = _write_all(
        output, len(output), c, p, b, b_capacity, r, capacity, count, h, h_capacity, w, k, last, o, n, n_capacity, s
    )
    columns.count = s[O_ROWS]
    return result


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_all(
    output: object,
    room: cython.Py_ssize_t,
    c: cython.pointer[cython.const[cython.uchar]],
    p: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    w: cython.pointer[cython.const[cython.uchar]],
    k: cython.pointer[cython.longlong],
    last: cython.Py_ssize_t,
    o: cython.pointer[cython.uchar],
    n: cython.pointer[cython.longlong],
    n_capacity: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """The same, by pointers."""
    outcome: cython.longlong
    result: cython.Py_ssize_t
    while s[O_BATCH] < last:
        outcome = k[s[O_BATCH] * K_SIZE + K_OUTCOME]
        while s[O_RECORD] < count and r[R_BATCH * capacity + s[O_RECORD]] < s[O_BATCH]:
            s[O_RECORD] += 1
        if outcome == OUTCOME_REMOVED:
            s[O_BATCH] += 1
            continue
        result = _make_room(b, b_capacity, k, room, s)
        if result != WRITE_DONE:
            return result
        if outcome == OUTCOME_VERBATIM:
            _copy(c, b, b_capacity, o, s)
        else:
            if outcome == OUTCOME_REBUILT:
                if not put_records(p, b, b_capacity, r, capacity, count, h, h_capacity, w, k, o, room, s):
                    return WRITE_ROOM
                if b[B_CODEC * b_capacity + s[O_BATCH]] != 0:
                    return WRITE_PACK
            put_header(output, b, b_capacity, k, o, s)
        _enter(k, o, n, n_capacity, s)
    return WRITE_DONE


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _make_room(
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    k: cython.pointer[cython.longlong],
    room: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """Set O_END of a batch that is not removed, as far as its size is known; returns why it cannot be written."""
    batch: cython.Py_ssize_t = s[O_BATCH]
    size: cython.longlong = V2_SIZE
    if k[batch * K_SIZE + K_OUTCOME] == OUTCOME_VERBATIM:
        size = b[B_SIZE * capacity + batch]
    elif b[B_FORMAT * capacity + batch] < MAGIC_V2 and not s[O_RULES] & RULE_CONVERT:
        return WRITE_LEGACY
    s[O_END] = s[O_FILLED] + size
    s[O_NEED] = size
    return WRITE_DONE if s[O_END] <= room else WRITE_ROOM


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _copy(
    c: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    o: cython.pointer[cython.uchar],
    s: cython.pointer[cython.longlong],
) -> cython.void:
    """A batch as it stands in the log."""
    start: cython.Py_ssize_t = b[B_POSITION * capacity + s[O_BATCH]] - s[O_BEGINS]
    if cython.compiled:
        memcpy(cython.address(o[s[O_FILLED]]), cython.address(c[start]), s[O_END] - s[O_FILLED])
    else:
        o[s[O_FILLED] : s[O_END]] = c[start : start + s[O_END] - s[O_FILLED]]


def write_records(
    memory: object, batches: object, records: object, reasons: object, cells: object, output: object, state: object
) -> cython.Py_ssize_t:
    """Write a part of the records of batch O_BATCH, which is rebuilt, at O_END; returns WRITE_DONE or WRITE_ROOM.

    Arguments as of `write_batches`.
    """
    data: cython.const[cython.uchar][::1] = memory
    b_view: cython.longlong[::1] = batches.cells
    r_view: cython.longlong[::1] = records.cells
    h_view: cython.longlong[::1] = records.headers.cells
    w_view: cython.const[cython.uchar][::1] = reasons
    k_view: cython.longlong[::1] = cells
    o_view: cython.uchar[::1] = output
    s_view: cython.longlong[::1] = state
    is_done: cython.bint
    p: cython.pointer[cython.const[cython.uchar]]
    if cython.compiled:
        p = cython.address(data[0]) if data.shape[0] else cython.NULL
        is_done = put_records(
            p,
            cython.address(b_view[0]),
            batches.capacity,
            cython.address(r_view[0]),
            records.capacity,
            records.count,
            cython.address(h_view[0]),
            records.headers.capacity,
            cython.address(w_view[0]),
            cython.address(k_view[0]),
            cython.address(o_view[0]),
            len(output),
            cython.address(s_view[0]),
        )
    else:
        is_done = put_records(
            data,
            b_view,
            batches.capacity,
            r_view,
            records.capacity,
            records.count,
            h_view,
            records.headers.capacity,
            w_view,
            k_view,
            o_view,
            len(output),
            s_view,
        )
    return WRITE_DONE if is_done else WRITE_ROOM


def finish_batch(batches: object, cells: object, output: object, columns: object, state: object) -> None:
    """Write the header of batch O_BATCH, of magic 2, whose payload ends at O_END, and go on behind it.

    Arguments as of `write_batches`.
    """
    b_view: cython.longlong[::1] = batches.cells
    k_view: cython.longlong[::1] = cells
    o_view: cython.uchar[::1] = output
    s_view: cython.longlong[::1] = state
    if cython.compiled:
        put_header(
            output,
            cython.address(b_view[0]),
            batches.capacity,
            cython.address(k_view[0]),
            cython.address(o_view[0]),
            cython.address(s_view[0]),
        )
    else:
        put_header(output, b_view, batches.capacity, k_view, o_view, s_view)
    note_batch(cells, output, columns, state)


def note_batch(cells: object, output: object, columns: object, state: object) -> None:
    """Take note of the entry that was made of batch O_BATCH, from O_FILLED to O_END, and go on behind it.

    Arguments as of `write_batches`.
    """
    k_view: cython.longlong[::1] = cells
    o_view: cython.uchar[::1] = output
    n_view: cython.longlong[::1] = columns.cells
    s_view: cython.longlong[::1] = state
    s_view[O_ROWS] = columns.count
    if cython.compiled:
        _enter(
            cython.address(k_view[0]),
            cython.address(o_view[0]),
            cython.address(n_view[0]),
            columns.capacity,
            cython.address(s_view[0]),
        )
    else:
        _enter(k_view, o_view, n_view, columns.capacity, s_view)
    columns.count = s_view[O_ROWS]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _enter(
    k: cython.pointer[cython.longlong],
    o: cython.pointer[cython.uchar],
    n: cython.pointer[cython.longlong],
    n_capacity: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.void:
    """The row of an entry of the output."""
    at: cython.Py_ssize_t = s[O_FILLED]
    row: cython.Py_ssize_t = s[O_ROWS]
    if o[at + MAGIC_AT] == MAGIC_V2:
        fill_v2(o, at, n, n_capacity, row)
    else:
        fill_legacy(o, at, s[O_END] - at - OVERHEAD, o[at + MAGIC_AT], n, n_capacity, row)
    n[B_POSITION * n_capacity + row] = s[O_OUTPUT] + at
    n[B_SIZE * n_capacity + row] = s[O_END] - at
    k[s[O_BATCH] * K_SIZE + K_BYTES] = s[O_END] - at
    s[O_FILLED] = s[O_END]
    s[O_ROWS] += 1
    s[O_BATCH] += 1
