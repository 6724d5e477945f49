"""The hot loop that writes lines of records and batches, JSON or CSV, straight from columns into a buffer.

A `Template` (template.py) says what a line is: for each format a program of operations, each with the literal text
before it, made from `tables.py`. This file only carries the programs out. Every `_put_*` function writes at `at` and
returns the position behind what it wrote; `write_rows` has made sure that the worst case fits.
"""

from __future__ import annotations

from array import array

from kafkalog_core.format.kernels._cython import cython
from kafkalog_core.format.kernels.constants import *
from kafkalog_core.format.kernels.fields import bytes_of, cells_of, control_kind, room_of, sequence_of
from kafkalog_core.format.kernels.programs import *
from kafkalog_core.format.kernels.text import (
    exact_bytes,
    most_bytes,
    put_again,
    put_csv_bytes,
    put_encoded,
    put_int,
    put_piece,
    put_quoted,
    put_text,
)

__all__ = ["put_bytes", "put_headers", "write_rows"]


def write_rows(
    memory: object, batches: object, records: object, selection: object, first: cython.Py_ssize_t,
    template: object, out: object,
) -> tuple[int, int]:  # fmt: skip
    """Write lines of rows from `first` on into `out` until it is full.

    Rows are records, or batches where `records` is None; `selection` is None or a byte a row, 0 for those that are left
    out. Returns (next row, bytes written), or (row, -n) where `out` is too small for the line of `row`: it takes n.
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    b_capacity: cython.Py_ssize_t = batches.capacity
    r: cython.pointer[cython.longlong] = cells_of(batches.cells if records is None else records.cells)
    r_capacity: cython.Py_ssize_t = 0 if records is None else records.capacity
    h: cython.pointer[cython.longlong] = cells_of(batches.cells if records is None else records.headers.cells)
    h_capacity: cython.Py_ssize_t = 0 if records is None else records.headers.capacity
    t: cython.pointer[cython.const[cython.uchar]] = bytes_of(template.text)
    s: cython.pointer[cython.longlong] = cells_of(template.starts)
    o: cython.pointer[cython.longlong] = cells_of(template.operations)
    e: cython.pointer[cython.longlong] = cells_of(template.entries)
    m: cython.pointer[cython.const[cython.uchar]] = bytes_of(b"\x01" if selection is None else selection)
    w: cython.pointer[cython.uchar] = room_of(out)
    copied = array("q", [-1] * C_SIZE)
    c: cython.pointer[cython.longlong] = cells_of(copied)
    count: cython.Py_ssize_t = batches.count if records is None else records.count
    mode: cython.Py_ssize_t = template.mode
    text_mode: cython.Py_ssize_t = template.text_mode
    literals: cython.longlong = template.bound
    size: cython.Py_ssize_t = len(out)
    at: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t = first
    batch: cython.Py_ssize_t
    bound: cython.longlong
    while row < count:
        if selection is not None and m[row] == 0:
            row += 1
            continue
        batch = r[R_BATCH * r_capacity + row] if r_capacity else row
        bound = literals + (most_bytes(r, r_capacity, h, h_capacity, row) if r_capacity else 0)
        if bound > size - at:
            if at > 0:
                break
            bound = literals + (exact_bytes(p, r, r_capacity, h, h_capacity, row, text_mode, mode) if r_capacity else 0)
            if bound > size:
                return row, -bound
        at = _put_line(
            p, b, b_capacity, batch, r, r_capacity, h, h_capacity, row, t, s, o,
            e[b[B_FORMAT * b_capacity + batch]], mode, c, w, at,
        )  # fmt: skip
        row += 1
    return row, at


@cython.cfunc
@cython.exceptval(check=False)
def _put_line(
    p: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    o: cython.pointer[cython.longlong],
    step: cython.Py_ssize_t,
    mode: cython.Py_ssize_t,
    c: cython.pointer[cython.longlong],
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """One line: the program of the batch's format, from operation `step` on. `c`: the last head and tail."""
    operation: cython.longlong
    x: cython.longlong
    y: cython.longlong
    start: cython.Py_ssize_t
    line: cython.Py_ssize_t = at
    if c[C_HEAD_BATCH] == batch:
        at = put_again(c[C_HEAD_START], c[C_HEAD_SIZE], w, at)
        step = c[C_HEAD_STEP]
    while True:
        operation = o[step * OPERATION_SIZE]
        x = o[step * OPERATION_SIZE + 1]
        y = o[step * OPERATION_SIZE + 2]
        at = put_piece(t, s, o[step * OPERATION_SIZE + 3], w, at)
        step += 1
        if operation == OP_RECORD_INT:
            at = put_int(r[x * r_capacity + row], w, at)
        elif operation == OP_BATCH_INT:
            at = put_int(b[x * b_capacity + batch], w, at)
        elif operation == OP_BATCH_BIT:
            at = put_piece(t, s, y + ((b[B_ATTRIBUTES * b_capacity + batch] & x) != 0), w, at)
        elif operation == OP_TEXT:
            start = r[x * r_capacity + row]
            at = put_bytes(p, start, r[(x + 1) * r_capacity + row], t, s, y, mode, w, at)
        elif operation == OP_HEADERS:
            start = r[R_HEADERS * r_capacity + row]
            at = put_headers(p, h, h_capacity, start, r[R_HEADER_COUNT * r_capacity + row], t, s, y, mode, w, at)
        elif operation == OP_SEQUENCE:
            at = put_int(sequence_of(b, b_capacity, batch, r[R_OFFSET * r_capacity + row]), w, at)
        elif operation == OP_HEAD:
            _keep_head(c, batch, line, at, step)
        elif operation == OP_TAIL:
            if c[C_TAIL_BATCH] == batch and c[C_TAIL_SIZE] > 0:
                return put_again(c[C_TAIL_START], c[C_TAIL_SIZE], w, at)
            c[C_TAIL_BATCH] = batch if _tails_are_alike(b, b_capacity, batch) else -1
            c[C_TAIL_START] = at
            c[C_TAIL_SIZE] = 0
        elif operation == OP_END:
            if c[C_TAIL_BATCH] == batch:
                c[C_TAIL_SIZE] = at - c[C_TAIL_START]
            return at
        else:
            at = _put_rare(
                operation, x, y, p, b, b_capacity, batch, r, r_capacity, h, h_capacity, row, t, s, mode, w, at
            )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _keep_head(
    c: cython.pointer[cython.longlong],
    batch: cython.Py_ssize_t,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    step: cython.Py_ssize_t,
) -> cython.void:
    """Remember what the lines of a batch begin with."""
    c[C_HEAD_BATCH] = batch
    c[C_HEAD_START] = start
    c[C_HEAD_SIZE] = end - start
    c[C_HEAD_STEP] = step


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _tails_are_alike(
    b: cython.pointer[cython.longlong], capacity: cython.Py_ssize_t, batch: cython.Py_ssize_t
) -> cython.bint:
    """Whether all records of a batch have the same values behind their headers."""
    return b[B_SEQUENCE * capacity + batch] < 0 and (b[B_ATTRIBUTES * capacity + batch] & CONTROL) == 0


@cython.cfunc
@cython.exceptval(check=False)
def _put_rare(
    operation: cython.longlong,
    x: cython.longlong,
    y: cython.longlong,
    p: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    mode: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Operations of batches, of tails, of old formats, and of CSV."""
    value: cython.longlong
    if operation == OP_CSV_TEXT:
        return put_csv_bytes(p, r[x * r_capacity + row], r[(x + 1) * r_capacity + row], t, s, mode, w, at)
    if operation == OP_CSV_HEADERS:
        value = put_headers(
            p,
            h,
            h_capacity,
            r[R_HEADERS * r_capacity + row],
            r[R_HEADER_COUNT * r_capacity + row],
            t,
            s,
            y,
            mode,
            w,
            at,
        )
        return put_quoted(w, at, value)
    if operation == OP_BATCH_NAME:
        return put_piece(t, s, y + b[x * b_capacity + batch], w, at)
    if operation == OP_CONTROL:
        return _put_control(p, b, b_capacity, batch, r, r_capacity, row, t, s, y, w, at)
    if operation == OP_RECORD_NAME:
        return put_piece(t, s, y + r[x * r_capacity + row], w, at)
    if operation == OP_BATCH_CRC_OK:
        value = b[B_COMPUTED * b_capacity + batch]
        if value < 0:
            return put_piece(t, s, PIECE_NULL, w, at)
        return put_piece(t, s, y + (value == b[B_CRC * b_capacity + batch]), w, at)
    if operation == OP_V07_MAGIC:
        return put_int(1 if r[R_ATTRIBUTES * r_capacity + row] >= 0 else 0, w, at)
    if operation == OP_BATCH_INT_IF:
        if (b[B_ATTRIBUTES * b_capacity + batch] & y) == 0:
            return put_piece(t, s, PIECE_NULL, w, at)
        return put_int(b[x * b_capacity + batch], w, at)
    value = r[x * r_capacity + row] if operation == OP_RECORD_INT_OR_NULL else b[x * b_capacity + batch]
    if value < 0:
        return put_piece(t, s, PIECE_NULL, w, at)
    return put_int(value, w, at)


@cython.cfunc
@cython.exceptval(check=False)
def _put_control(
    p: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    first_name: cython.longlong,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Name of the control type in the record's key (ControlRecordType.parseTypeId)."""
    if (b[B_ATTRIBUTES * b_capacity + batch] & CONTROL) == 0:
        return put_piece(t, s, PIECE_NULL, w, at)
    return put_piece(t, s, first_name + control_kind(p, r, r_capacity, row), w, at)


# --- members of a JSON object that hold bytes: keys, values and headers -----------------------------------------------
@cython.cfunc
@cython.exceptval(check=False)
def put_headers(
    p: cython.pointer[cython.const[cython.uchar]],
    h: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    pieces: cython.Py_ssize_t,
    mode: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """The headers of a record as an array; pieces as of the operation `headers`."""
    k: cython.Py_ssize_t
    q: cython.Py_ssize_t
    end: cython.Py_ssize_t
    w[at] = 0x5B  # [
    at += 1
    for k in range(first, first + count):
        if k > first:
            w[at] = 0x2C  # ,
            at += 1
        q = h[H_KEY * capacity + k]
        end = put_text(p, q, q + h[H_KEY_SIZE * capacity + k], w, put_piece(t, s, pieces, w, at))
        if end >= 0:
            at = end
        else:
            at = put_piece(t, s, pieces + 1, w, at)
            at = put_encoded(p, q, q + h[H_KEY_SIZE * capacity + k], t, s, max(1, mode), w, at)
        q = h[H_VALUE * capacity + k]
        at = put_bytes(p, q, h[H_VALUE_SIZE * capacity + k], t, s, pieces + 2, mode, w, at)
        at = put_piece(t, s, pieces + 6, w, at)
    w[at] = 0x5D  # ]
    return at + 1


@cython.cfunc
@cython.exceptval(check=False)
def put_bytes(
    p: cython.pointer[cython.const[cython.uchar]],
    q: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    pieces: cython.Py_ssize_t,
    mode: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """A bytes member with its name: pieces + 0 null, + 1 text, + 2 base64, + 3 hex."""
    end: cython.Py_ssize_t
    if size < 0:
        return put_piece(t, s, pieces, w, at)
    if mode == MODE_TEXT:
        end = put_text(p, q, q + size, w, put_piece(t, s, pieces + 1, w, at))
        if end >= 0:
            return end
        mode = MODE_BASE64
    return put_encoded(p, q, q + size, t, s, mode, w, put_piece(t, s, pieces + 1 + mode, w, at))
