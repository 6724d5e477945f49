"""Batches that are written: those of the cleaner copied, emptied, or rebuilt without some records, and stamps."""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import bytes_of, cells_of, crc32c_of, int32, put_big_endian, room_of, wrapped
from kafkalog_core.kernels.walk import fill_legacy, fill_v2

__all__ = [
    "base_time_of",
    "finish_batch",
    "note_batch",
    "put_header",
    "put_records",
    "stamp_batches",
    "write_batches",
    "write_records",
]

if cython.compiled:
    from cython.cimports.libc.string import memcpy


@cython.final
@cython.cclass
class _Output:
    """The buffers of one call that writes records. Pointers are valid during the call."""

    log: cython.pointer[cython.const[cython.uchar]]  # bytes of the log from file position O_BEGINS on
    data: cython.pointer[cython.const[cython.uchar]]  # the bytes that the records refer to
    batches: cython.pointer[cython.longlong]
    batch_capacity: cython.Py_ssize_t
    records: cython.pointer[cython.longlong]
    record_capacity: cython.Py_ssize_t
    record_count: cython.Py_ssize_t
    headers: cython.pointer[cython.longlong]
    header_capacity: cython.Py_ssize_t
    reasons: cython.pointer[cython.const[cython.uchar]]  # the `WHY_*` of each record
    cells: cython.pointer[cython.longlong]  # K_SIZE cells for each batch
    output: object
    out: cython.pointer[cython.uchar]  # the bytes of `output`
    room: cython.Py_ssize_t  # its size
    columns: cython.pointer[cython.longlong]  # batch columns of the output
    column_capacity: cython.Py_ssize_t
    state: cython.pointer[cython.longlong]  # the `O_*` cells

    def __init__(
        self, memory: object, batches: object, records: object, reasons: object, cells: object, output: object,
        state: object,
    ) -> None:  # fmt: skip
        self.data = bytes_of(memory)
        self.batches, self.batch_capacity = cells_of(batches.cells), batches.capacity
        self.records, self.record_capacity, self.record_count = cells_of(records.cells), records.capacity, records.count
        self.headers, self.header_capacity = cells_of(records.headers.cells), records.headers.capacity
        self.reasons, self.cells, self.state = bytes_of(reasons), cells_of(cells), cells_of(state)
        self.output, self.out, self.room = output, room_of(output), len(output)


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
    """Write the retained part of batches from O_BATCH on, up to row `last` (exclusive). Return a WRITE number.

    Args:
        window: the log's bytes, from file position O_BEGINS on.
        memory: the buffer that the records refer to.
        batches: batch columns.
        records: record columns; O_RECORD is the row of the first record of batch O_BATCH.
        reasons: the `WHY_*` of each record.
        cells: the `K_*` cells of each batch.
        last: row after the last batch.
        output: the buffer to write to, from byte O_FILLED on.
        columns: batch columns of the output, with room for these batches.
        state: the `O_*` cells.
    """
    io: _Output = _Output(memory, batches, records, reasons, cells, output, state)
    io.log, io.columns, io.column_capacity = bytes_of(window), cells_of(columns.cells), columns.capacity
    io.state[O_ROWS] = columns.count
    result: cython.Py_ssize_t = _write_all(io, last)
    columns.count = io.state[O_ROWS]
    return result


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_all(io: _Output, last: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write the batches of a call; see `write_batches`."""
    outcome: cython.longlong
    result: cython.Py_ssize_t
    # Batches before O_BATCH are written, up to byte O_FILLED; O_RECORD is the first record of O_BATCH. Before a batch
    # is written, O_END is its end as far as it is known, and room for it is checked.
    while io.state[O_BATCH] < last:
        outcome = io.cells[io.state[O_BATCH] * K_SIZE + K_OUTCOME]
        while (
            io.state[O_RECORD] < io.record_count
            and io.records[R_BATCH * io.record_capacity + io.state[O_RECORD]] < io.state[O_BATCH]
        ):
            io.state[O_RECORD] += 1
        if outcome == OUTCOME_REMOVED:
            io.state[O_BATCH] += 1
            continue
        result = _make_room(io.batches, io.batch_capacity, io.cells, io.room, io.state)
        if result != WRITE_DONE:
            return result
        if outcome == OUTCOME_VERBATIM:
            _copy(io.log, io.batches, io.batch_capacity, io.out, io.state)
        else:
            if outcome == OUTCOME_REBUILT:
                if not put_records(io):
                    return WRITE_ROOM
                if io.batches[B_CODEC * io.batch_capacity + io.state[O_BATCH]] != 0:
                    return WRITE_PACK
            put_header(io.output, io.batches, io.batch_capacity, io.cells, io.out, io.state)
        _enter(io.cells, io.out, io.columns, io.column_capacity, io.state)
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
    """Set O_END of a batch that is not removed, as far as its size is known. Return WRITE_DONE, or why it must wait."""
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
    """Copy a batch unchanged from the log."""
    start: cython.Py_ssize_t = b[B_POSITION * capacity + s[O_BATCH]] - s[O_BEGINS]
    if cython.compiled:
        memcpy(cython.address(o[s[O_FILLED]]), cython.address(c[start]), s[O_END] - s[O_FILLED])
    else:
        o[s[O_FILLED] : s[O_END]] = c[start : start + s[O_END] - s[O_FILLED]]


def write_records(
    memory: object, batches: object, records: object, reasons: object, cells: object, output: object, state: object
) -> cython.Py_ssize_t:
    """Write some of the records of batch O_BATCH, which is rebuilt, at O_END. Return WRITE_DONE or WRITE_ROOM.

    Arguments as for `write_batches`.
    """
    io: _Output = _Output(memory, batches, records, reasons, cells, output, state)
    return WRITE_DONE if put_records(io) else WRITE_ROOM


def finish_batch(batches: object, cells: object, output: object, columns: object, state: object) -> None:
    """Write the header of batch O_BATCH, of magic 2, whose payload ends at O_END, and advance to the next batch.

    Arguments as for `write_batches`.
    """
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    k: cython.pointer[cython.longlong] = cells_of(cells)
    o: cython.pointer[cython.uchar] = room_of(output)
    s: cython.pointer[cython.longlong] = cells_of(state)
    put_header(output, b, batches.capacity, k, o, s)
    note_batch(cells, output, columns, state)


def note_batch(cells: object, output: object, columns: object, state: object) -> None:
    """Add the entry of batch O_BATCH, from O_FILLED to O_END, to the columns, and advance to the next batch.

    Arguments as for `write_batches`.
    """
    k: cython.pointer[cython.longlong] = cells_of(cells)
    o: cython.pointer[cython.uchar] = room_of(output)
    n: cython.pointer[cython.longlong] = cells_of(columns.cells)
    s: cython.pointer[cython.longlong] = cells_of(state)
    s[O_ROWS] = columns.count
    _enter(k, o, n, columns.capacity, s)
    columns.count = s[O_ROWS]


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
    """Fill the row of an entry of the output."""
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


# --- records of magic 2 as the cleaner writes them (DefaultRecord.writeTo) --------------------------------------------
LOW_BITS = cython.declare(cython.ulonglong, 0x7F)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def base_time_of(k: cython.pointer[cython.longlong], cells: cython.Py_ssize_t) -> cython.longlong:
    """Return the base timestamp of a rebuilt batch: its delete horizon, else its first timestamp."""
    return k[cells + K_HORIZON] if k[cells + K_HORIZON] >= 0 else k[cells + K_TIME]


@cython.cfunc
@cython.exceptval(check=False)
def put_records(io: _Output) -> cython.bint:
    """Write the retained records of batch O_BATCH from row O_RECORD on at O_END; false: O_NEED bytes are needed."""
    batch: cython.Py_ssize_t = io.state[O_BATCH]
    cells: cython.Py_ssize_t = batch * K_SIZE
    base: cython.longlong = io.cells[cells + K_FIRST]
    base_time: cython.longlong = base_time_of(io.cells, cells)
    row: cython.Py_ssize_t = io.state[O_RECORD]
    at: cython.Py_ssize_t = io.state[O_END]
    content: cython.longlong
    if io.batches[B_FORMAT * io.batch_capacity + batch] == MAGIC_V2:
        base = io.batches[B_BASE_OFFSET * io.batch_capacity + batch]
    # Records before `row` are written, up to byte `at`; RECORD_ROOM and HEADER_ROOM bound all but keys and values.
    while row < io.record_count and io.records[R_BATCH * io.record_capacity + row] == batch:
        if io.reasons[row] < WHY_SUPERSEDED:
            content = _content_bytes(io, row)
            if content + RECORD_ROOM > io.room - at:
                io.state[O_NEED] = at - io.state[O_FILLED] + content + RECORD_ROOM
                return False
            at = _put_record(io, row, base, base_time, at)
        row += 1
    io.state[O_RECORD] = row
    io.state[O_END] = at
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _content_bytes(io: _Output, row: cython.Py_ssize_t) -> cython.longlong:
    """Return an upper bound of key, value and headers."""
    size: cython.longlong = 0
    i: cython.Py_ssize_t
    if io.records[R_KEY_SIZE * io.record_capacity + row] > 0:
        size += io.records[R_KEY_SIZE * io.record_capacity + row]
    if io.records[R_VALUE_SIZE * io.record_capacity + row] > 0:
        size += io.records[R_VALUE_SIZE * io.record_capacity + row]
    # i: rows of the record's headers.
    for i in range(
        io.records[R_HEADERS * io.record_capacity + row],
        io.records[R_HEADERS * io.record_capacity + row] + io.records[R_HEADER_COUNT * io.record_capacity + row],
    ):
        size += HEADER_ROOM + io.headers[H_KEY_SIZE * io.header_capacity + i]
        if io.headers[H_VALUE_SIZE * io.header_capacity + i] > 0:
            size += io.headers[H_VALUE_SIZE * io.header_capacity + i]
    return size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_record(
    io: _Output, row: cython.Py_ssize_t, base: cython.longlong, base_time: cython.longlong, at: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write a record. Return the position after it."""
    time: cython.longlong = wrapped(io.records[R_TIME * io.record_capacity + row] - base_time)
    offset: cython.longlong = wrapped(io.records[R_OFFSET * io.record_capacity + row] - base)
    key: cython.longlong = io.records[R_KEY_SIZE * io.record_capacity + row]
    value: cython.longlong = io.records[R_VALUE_SIZE * io.record_capacity + row]
    first: cython.Py_ssize_t = io.records[R_HEADERS * io.record_capacity + row]
    count: cython.Py_ssize_t = io.records[R_HEADER_COUNT * io.record_capacity + row]
    i: cython.Py_ssize_t
    size: cython.longlong = 1 + _varint_bytes(time) + _varint_bytes(offset) + _sized_bytes(key) + _sized_bytes(value)
    size += _varint_bytes(count)
    # i: rows of the record's headers. First their sizes: a record starts with its length (DefaultRecord.writeTo).
    for i in range(first, first + count):
        size += _sized_bytes(io.headers[H_KEY_SIZE * io.header_capacity + i]) + _sized_bytes(
            io.headers[H_VALUE_SIZE * io.header_capacity + i]
        )
    at = _put_varint(io.out, at, size)
    io.out[at] = 0
    at = _put_varint(io.out, at + 1, time)
    at = _put_varint(io.out, at, offset)
    at = _put_sized(io.data, io.records[R_KEY * io.record_capacity + row], key, io.out, at)
    at = _put_sized(io.data, io.records[R_VALUE * io.record_capacity + row], value, io.out, at)
    at = _put_varint(io.out, at, count)
    for i in range(first, first + count):
        at = _put_sized(
            io.data,
            io.headers[H_KEY * io.header_capacity + i],
            io.headers[H_KEY_SIZE * io.header_capacity + i],
            io.out,
            at,
        )
        at = _put_sized(
            io.data,
            io.headers[H_VALUE * io.header_capacity + i],
            io.headers[H_VALUE_SIZE * io.header_capacity + i],
            io.out,
            at,
        )
    return at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _sized_bytes(size: cython.longlong) -> cython.longlong:
    """Return the bytes of a field with its size; size -1: null."""
    return _varint_bytes(size) + (size if size > 0 else 0)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_sized(
    p: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    size: cython.longlong,
    o: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write a size and the field. Return the position after it."""
    at = _put_varint(o, at, size)
    if size > 0:
        if cython.compiled:
            memcpy(cython.address(o[at]), cython.address(p[start]), size)
        else:
            o[at : at + size] = p[start : start + size]
        at += size
    return at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varint_bytes(value: cython.longlong) -> cython.longlong:
    """Return the bytes of a zigzag varint of up to 64 bits."""
    size: cython.longlong = 1
    rest: cython.longlong = value ^ (value >> 63)  # as many bits as the zigzag form without its lowest bit
    rest >>= 6
    # `rest` are the bits that the `size` bytes so far have no room for.
    while rest > 0:
        rest >>= 7
        size += 1
    return size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_varint(o: cython.pointer[cython.uchar], at: cython.Py_ssize_t, value: cython.longlong) -> cython.Py_ssize_t:
    """Write a zigzag varint of up to 64 bits. Return the position after it."""
    raw: cython.ulonglong
    if cython.compiled:
        raw = (cython.cast(cython.ulonglong, value) << 1) ^ cython.cast(cython.ulonglong, value >> 63)
    else:
        raw = 2 * value if value >= 0 else -2 * value - 1
    # o: output. `raw` are the bits that are not written before byte `at`.
    while raw > LOW_BITS:
        o[at] = (raw & LOW_BITS) | 0x80
        raw >>= 7
        at += 1
    o[at] = raw
    return at + 1


# --- batch headers of magic 2 (DefaultRecordBatch.writeHeader, writeEmptyHeader) --------------------------------------
@cython.cfunc
def put_header(
    output: object,
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    k: cython.pointer[cython.longlong],
    o: cython.pointer[cython.uchar],
    s: cython.pointer[cython.longlong],
) -> cython.void:
    """Write the header of a batch of magic 2, rebuilt or emptied, with its checksum."""
    batch: cython.Py_ssize_t = s[O_BATCH]
    at: cython.Py_ssize_t = s[O_FILLED]
    end: cython.Py_ssize_t = s[O_END]
    cells: cython.Py_ssize_t = batch * K_SIZE
    is_v2: cython.bint = b[B_FORMAT * capacity + batch] == MAGIC_V2
    is_empty: cython.bint = k[cells + K_OUTCOME] != OUTCOME_REBUILT
    attributes: cython.longlong = b[B_ATTRIBUTES * capacity + batch] & KEPT_BITS
    base: cython.longlong = b[B_BASE_OFFSET * capacity + batch] if is_v2 else k[cells + K_FIRST]
    last: cython.longlong = b[B_LAST_OFFSET * capacity + batch] if is_v2 else k[cells + K_LAST]
    max_time: cython.longlong = k[cells + K_MAX_TIME]
    if b[B_FORMAT * capacity + batch] == MAGIC_V0:
        attributes &= CODECS
    elif not is_v2:
        attributes &= CODECS | APPEND_TIME
    if is_empty:
        attributes &= ~CODECS
    elif k[cells + K_HORIZON] >= 0:
        attributes |= HORIZON
    if is_empty or attributes & APPEND_TIME:
        max_time = b[B_MAX_TIME * capacity + batch]
    put_big_endian(o, at, base, 8)
    put_big_endian(o, at + SIZE_AT, end - at - OVERHEAD, 4)
    put_big_endian(o, at + V2_EPOCH_AT, b[B_EPOCH * capacity + batch], 4)
    o[at + MAGIC_AT] = MAGIC_V2
    put_big_endian(o, at + V2_ATTRIBUTES_AT, attributes, 2)
    put_big_endian(o, at + V2_DELTA_AT, wrapped(last - base), 4)
    put_big_endian(o, at + V2_BASE_TIME_AT, -1 if is_empty else base_time_of(k, cells), 8)
    put_big_endian(o, at + V2_MAX_TIME_AT, max_time, 8)
    put_big_endian(o, at + V2_PID_AT, b[B_PID * capacity + batch], 8)
    put_big_endian(o, at + V2_PEPOCH_AT, b[B_PEPOCH * capacity + batch], 2)
    put_big_endian(o, at + V2_SEQUENCE_AT, b[B_SEQUENCE * capacity + batch], 4)
    put_big_endian(o, at + V2_COUNT_AT, k[cells + K_KEPT], 4)
    put_big_endian(o, at + V2_CRC_AT, crc32c_of(output, o, at + V2_ATTRIBUTES_AT, end), 4)


# --- what a leader writes into batches of producers (LogValidator) ----------------------------------------------------
def stamp_batches(memory: object, offset: cython.longlong, epoch: cython.longlong) -> int:
    """Write base offsets and a leader epoch into the batches of magic 2 of a buffer; return the offset after them.

    Their checksums do not cover either. It ends at the first length that does not fit; what it has written by then
    is of no use.
    """
    p: cython.pointer[cython.uchar] = room_of(memory)
    end: cython.Py_ssize_t = len(memory)
    i: cython.Py_ssize_t = 0
    size: cython.longlong
    # The batches before byte `i` have their offsets, `offset` is the next one.
    while i + V2_SIZE <= end:
        size = OVERHEAD + int32(p, i + SIZE_AT)
        if size < V2_SIZE or size > end - i:
            break
        put_big_endian(p, i, offset, 8)
        put_big_endian(p, i + V2_EPOCH_AT, epoch, 4)
        offset = wrapped(offset + int32(p, i + V2_DELTA_AT) + 1)
        i += size
    return offset
