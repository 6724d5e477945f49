"""Lines of records and batches, JSON or CSV, written from columns into a buffer.

A `Template` (templates.py) defines a line: for each format a program of operations, each with the literal piece before
it. This module executes the programs. Every `put_*` function writes at `at` and returns the position after the written
bytes; `write_rows` has checked that the worst case fits.
"""

from __future__ import annotations

from array import array

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import bytes_of, cells_of, control_kind, room_of, sequence_of
from kafkalog_core.kernels.programs import *
from kafkalog_core.kernels.text import (
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


@cython.final
@cython.cclass
class _Lines:
    """The buffers of one call: rows, the program of their lines, and the output. Pointers are valid during the call."""

    data: cython.pointer[cython.const[cython.uchar]]  # the bytes that keys, values and headers refer to
    batches: cython.pointer[cython.longlong]
    batch_capacity: cython.Py_ssize_t
    records: cython.pointer[cython.longlong]
    record_capacity: cython.Py_ssize_t  # 0: rows are batches
    headers: cython.pointer[cython.longlong]
    header_capacity: cython.Py_ssize_t
    text: cython.pointer[cython.const[cython.uchar]]  # the literal pieces of the template, one after the other
    starts: cython.pointer[cython.longlong]  # where each piece starts in `text`
    operations: cython.pointer[cython.longlong]
    entries: cython.pointer[cython.longlong]  # the first operation for each format
    mode: cython.Py_ssize_t
    text_mode: cython.Py_ssize_t
    out: cython.pointer[cython.uchar]
    cache: cython.pointer[cython.longlong]  # the `C_*` cells: the last head and tail that may be copied

    def __init__(
        self, memory: object, batches: object, records: object, template: object, out: object, cache: object
    ) -> None:
        rows = batches if records is None else records
        headers = batches if records is None else records.headers
        self.data = bytes_of(memory)
        self.batches, self.batch_capacity = cells_of(batches.cells), batches.capacity
        self.records, self.record_capacity = cells_of(rows.cells), 0 if records is None else records.capacity
        self.headers, self.header_capacity = cells_of(headers.cells), headers.capacity
        self.text, self.starts = bytes_of(template.text), cells_of(template.starts)
        self.operations, self.entries = cells_of(template.operations), cells_of(template.entries)
        self.mode, self.text_mode = template.mode, template.text_mode
        self.out, self.cache = room_of(out), cells_of(cache)


def write_rows(
    memory: object, batches: object, records: object, selection: object, first: cython.Py_ssize_t,
    template: object, out: object,
) -> tuple[int, int]:  # fmt: skip
    """Write the lines of rows from row `first` on into `out` until it is full.

    Rows are records, or batches where `records` is None; `selection` is None, or a byte for each row, 0 for rows to
    leave out. Returns (next row, bytes written), or (row, -n) where the line of `row` needs n bytes and `out` is
    smaller.
    """
    cache = array("q", [-1] * C_SIZE)
    io: _Lines = _Lines(memory, batches, records, template, out, cache)
    m: cython.pointer[cython.const[cython.uchar]] = bytes_of(b"\x01" if selection is None else selection)
    count: cython.Py_ssize_t = batches.count if records is None else records.count
    literals: cython.longlong = template.bound
    size: cython.Py_ssize_t = len(out)
    at: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t = first
    batch: cython.Py_ssize_t
    bound: cython.longlong
    # Lines up to `row` are written, up to byte `at`. Before a line is written its worst case is known to fit, so that
    # no function below checks the end of `out`. The cheap bound comes first; only for the first line of a call, which
    # must not fail for it, the exact size is computed.
    while row < count:
        if selection is not None and m[row] == 0:
            row += 1
            continue
        batch = io.records[R_BATCH * io.record_capacity + row] if io.record_capacity else row
        bound = literals + (_most_bytes_of(io, row) if io.record_capacity else 0)
        if bound > size - at:
            if at > 0:
                break
            bound = literals + (_exact_bytes_of(io, row) if io.record_capacity else 0)
            if bound > size:
                return row, -bound
        at = _put_line(io, batch, row, io.entries[io.batches[B_FORMAT * io.batch_capacity + batch]], at)
        row += 1
    return row, at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _most_bytes_of(io: _Lines, row: cython.Py_ssize_t) -> cython.longlong:
    return most_bytes(io.records, io.record_capacity, io.headers, io.header_capacity, row)


@cython.cfunc
@cython.exceptval(check=False)
def _exact_bytes_of(io: _Lines, row: cython.Py_ssize_t) -> cython.longlong:
    return exact_bytes(
        io.data, io.records, io.record_capacity, io.headers, io.header_capacity, row, io.text_mode, io.mode
    )


@cython.cfunc
@cython.exceptval(check=False)
def _put_line(
    io: _Lines, batch: cython.Py_ssize_t, row: cython.Py_ssize_t, step: cython.Py_ssize_t, at: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write a line: the program of the batch's format, from operation `step` on."""
    operation: cython.longlong
    x: cython.longlong
    y: cython.longlong
    start: cython.Py_ssize_t
    line: cython.Py_ssize_t = at
    if io.cache[C_HEAD_BATCH] == batch:
        at = put_again(io.cache[C_HEAD_START], io.cache[C_HEAD_SIZE], io.out, at)
        step = io.cache[C_HEAD_STEP]
    # `step` is the next operation, `at` the end of the line so far. Heads and tails that are the same in all lines of a
    # batch are copied from the previous line (`io.cache`).
    while True:
        operation = io.operations[step * OPERATION_SIZE]
        x = io.operations[step * OPERATION_SIZE + 1]
        y = io.operations[step * OPERATION_SIZE + 2]
        at = put_piece(io.text, io.starts, io.operations[step * OPERATION_SIZE + 3], io.out, at)
        step += 1
        if operation == OP_RECORD_INT:
            at = put_int(io.records[x * io.record_capacity + row], io.out, at)
        elif operation == OP_BATCH_INT:
            at = put_int(io.batches[x * io.batch_capacity + batch], io.out, at)
        elif operation == OP_BATCH_BIT:
            at = put_piece(
                io.text, io.starts, y + ((io.batches[B_ATTRIBUTES * io.batch_capacity + batch] & x) != 0), io.out, at
            )
        elif operation == OP_TEXT:
            start = io.records[x * io.record_capacity + row]
            at = put_bytes(io, start, io.records[(x + 1) * io.record_capacity + row], y, at)
        elif operation == OP_HEADERS:
            start = io.records[R_HEADERS * io.record_capacity + row]
            at = put_headers(io, start, io.records[R_HEADER_COUNT * io.record_capacity + row], y, at)
        elif operation == OP_SEQUENCE:
            at = put_int(
                sequence_of(io.batches, io.batch_capacity, batch, io.records[R_OFFSET * io.record_capacity + row]),
                io.out,
                at,
            )
        elif operation == OP_HEAD:
            _keep_head(io.cache, batch, line, at, step)
        elif operation == OP_TAIL:
            if io.cache[C_TAIL_BATCH] == batch and io.cache[C_TAIL_SIZE] > 0:
                return put_again(io.cache[C_TAIL_START], io.cache[C_TAIL_SIZE], io.out, at)
            io.cache[C_TAIL_BATCH] = batch if _tails_are_alike(io.batches, io.batch_capacity, batch) else -1
            io.cache[C_TAIL_START] = at
            io.cache[C_TAIL_SIZE] = 0
        elif operation == OP_END:
            if io.cache[C_TAIL_BATCH] == batch:
                io.cache[C_TAIL_SIZE] = at - io.cache[C_TAIL_START]
            return at
        else:
            at = _put_rare(io, operation, x, y, batch, row, at)


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
    """Remember the head of the lines of a batch."""
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
    """Return whether all records of a batch have the same values after their headers."""
    return b[B_SEQUENCE * capacity + batch] < 0 and (b[B_ATTRIBUTES * capacity + batch] & CONTROL) == 0


@cython.cfunc
@cython.exceptval(check=False)
def _put_rare(
    io: _Lines,
    operation: cython.longlong,
    x: cython.longlong,
    y: cython.longlong,
    batch: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Execute an operation of batches, of tails, of old formats, or of CSV."""
    value: cython.longlong
    if operation == OP_CSV_TEXT:
        return put_csv_bytes(
            io.data,
            io.records[x * io.record_capacity + row],
            io.records[(x + 1) * io.record_capacity + row],
            io.text,
            io.starts,
            io.mode,
            io.out,
            at,
        )
    if operation == OP_CSV_HEADERS:
        value = put_headers(
            io,
            io.records[R_HEADERS * io.record_capacity + row],
            io.records[R_HEADER_COUNT * io.record_capacity + row],
            y,
            at,
        )
        return put_quoted(io.out, at, value)
    if operation == OP_BATCH_NAME:
        return put_piece(io.text, io.starts, y + io.batches[x * io.batch_capacity + batch], io.out, at)
    if operation == OP_CONTROL:
        return _put_control(io, batch, row, y, at)
    if operation == OP_RECORD_NAME:
        return put_piece(io.text, io.starts, y + io.records[x * io.record_capacity + row], io.out, at)
    if operation == OP_BATCH_CRC_OK:
        value = io.batches[B_COMPUTED * io.batch_capacity + batch]
        if value < 0:
            return put_piece(io.text, io.starts, PIECE_NULL, io.out, at)
        return put_piece(io.text, io.starts, y + (value == io.batches[B_CRC * io.batch_capacity + batch]), io.out, at)
    if operation == OP_V07_MAGIC:
        return put_int(1 if io.records[R_ATTRIBUTES * io.record_capacity + row] >= 0 else 0, io.out, at)
    if operation == OP_BATCH_INT_IF:
        if (io.batches[B_ATTRIBUTES * io.batch_capacity + batch] & y) == 0:
            return put_piece(io.text, io.starts, PIECE_NULL, io.out, at)
        return put_int(io.batches[x * io.batch_capacity + batch], io.out, at)
    value = (
        io.records[x * io.record_capacity + row]
        if operation == OP_RECORD_INT_OR_NULL
        else io.batches[x * io.batch_capacity + batch]
    )
    if value < 0:
        return put_piece(io.text, io.starts, PIECE_NULL, io.out, at)
    return put_int(value, io.out, at)


@cython.cfunc
@cython.exceptval(check=False)
def _put_control(
    io: _Lines, batch: cython.Py_ssize_t, row: cython.Py_ssize_t, first_name: cython.longlong, at: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write the name of the control type in the record's key (ControlRecordType.parseTypeId)."""
    if (io.batches[B_ATTRIBUTES * io.batch_capacity + batch] & CONTROL) == 0:
        return put_piece(io.text, io.starts, PIECE_NULL, io.out, at)
    return put_piece(
        io.text, io.starts, first_name + control_kind(io.data, io.records, io.record_capacity, row), io.out, at
    )


# --- members of a JSON object that hold bytes: keys, values and headers -----------------------------------------------
@cython.cfunc
@cython.exceptval(check=False)
def put_headers(
    io: _Lines, first: cython.Py_ssize_t, count: cython.Py_ssize_t, pieces: cython.Py_ssize_t, at: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write the headers of a record as an array; `pieces` as for the operation `headers`."""
    k: cython.Py_ssize_t
    q: cython.Py_ssize_t
    end: cython.Py_ssize_t
    io.out[at] = 0x5B  # [
    at += 1
    # k: rows of the record's headers. Those before are written up to byte `at` of the output.
    for k in range(first, first + count):
        if k > first:
            io.out[at] = 0x2C  # ,
            at += 1
        q = io.headers[H_KEY * io.header_capacity + k]
        end = put_text(
            io.data,
            q,
            q + io.headers[H_KEY_SIZE * io.header_capacity + k],
            io.out,
            put_piece(io.text, io.starts, pieces, io.out, at),
        )
        if end >= 0:
            at = end
        else:
            at = put_piece(io.text, io.starts, pieces + 1, io.out, at)
            at = put_encoded(
                io.data,
                q,
                q + io.headers[H_KEY_SIZE * io.header_capacity + k],
                io.text,
                io.starts,
                max(1, io.mode),
                io.out,
                at,
            )
        q = io.headers[H_VALUE * io.header_capacity + k]
        at = put_bytes(io, q, io.headers[H_VALUE_SIZE * io.header_capacity + k], pieces + 2, at)
        at = put_piece(io.text, io.starts, pieces + 6, io.out, at)
    io.out[at] = 0x5D  # ]
    return at + 1


@cython.cfunc
@cython.exceptval(check=False)
def put_bytes(
    io: _Lines, q: cython.Py_ssize_t, size: cython.Py_ssize_t, pieces: cython.Py_ssize_t, at: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write a bytes member with its name: pieces + 0 null, + 1 text, + 2 base64, + 3 hex."""
    end: cython.Py_ssize_t
    mode: cython.Py_ssize_t = io.mode
    if size < 0:
        return put_piece(io.text, io.starts, pieces, io.out, at)
    if mode == MODE_TEXT:
        end = put_text(io.data, q, q + size, io.out, put_piece(io.text, io.starts, pieces + 1, io.out, at))
        if end >= 0:
            return end
        mode = MODE_BASE64
    return put_encoded(
        io.data,
        q,
        q + size,
        io.text,
        io.starts,
        mode,
        io.out,
        put_piece(io.text, io.starts, pieces + 1 + mode, io.out, at),
    )
