"""The cleaner's output: batches copied, emptied, or written again without the records that go."""

from __future__ import annotations

from kafkalog_core.format.kernels._cython import cython
from kafkalog_core.format.kernels.constants import *
from kafkalog_core.format.kernels.fields import bytes_of, cells_of, crc32c_of, room_of, wrapped
from kafkalog_core.format.kernels.walk import fill_legacy, fill_v2

__all__ = ["base_time_of", "finish_batch", "note_batch", "put_header", "put_records", "write_batches", "write_records"]

if cython.compiled:
    from cython.cimports.libc.string import memcpy


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
    c: cython.pointer[cython.const[cython.uchar]] = bytes_of(window)
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    b_capacity: cython.Py_ssize_t = batches.capacity
    r: cython.pointer[cython.longlong] = cells_of(records.cells)
    capacity: cython.Py_ssize_t = records.capacity
    count: cython.Py_ssize_t = records.count
    h: cython.pointer[cython.longlong] = cells_of(records.headers.cells)
    h_capacity: cython.Py_ssize_t = records.headers.capacity
    w: cython.pointer[cython.const[cython.uchar]] = bytes_of(reasons)
    k: cython.pointer[cython.longlong] = cells_of(cells)
    o: cython.pointer[cython.uchar] = room_of(output)
    n: cython.pointer[cython.longlong] = cells_of(columns.cells)
    n_capacity: cython.Py_ssize_t = columns.capacity
    s: cython.pointer[cython.longlong] = cells_of(state)
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
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    r: cython.pointer[cython.longlong] = cells_of(records.cells)
    h: cython.pointer[cython.longlong] = cells_of(records.headers.cells)
    w: cython.pointer[cython.const[cython.uchar]] = bytes_of(reasons)
    k: cython.pointer[cython.longlong] = cells_of(cells)
    o: cython.pointer[cython.uchar] = room_of(output)
    s: cython.pointer[cython.longlong] = cells_of(state)
    is_done: cython.bint
    is_done = put_records(
        p,
        b,
        batches.capacity,
        r,
        records.capacity,
        records.count,
        h,
        records.headers.capacity,
        w,
        k,
        o,
        len(output),
        s,
    )
    return WRITE_DONE if is_done else WRITE_ROOM


def finish_batch(batches: object, cells: object, output: object, columns: object, state: object) -> None:
    """Write the header of batch O_BATCH, of magic 2, whose payload ends at O_END, and go on behind it.

    Arguments as of `write_batches`.
    """
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    k: cython.pointer[cython.longlong] = cells_of(cells)
    o: cython.pointer[cython.uchar] = room_of(output)
    s: cython.pointer[cython.longlong] = cells_of(state)
    put_header(output, b, batches.capacity, k, o, s)
    note_batch(cells, output, columns, state)


def note_batch(cells: object, output: object, columns: object, state: object) -> None:
    """Take note of the entry that was made of batch O_BATCH, from O_FILLED to O_END, and go on behind it.

    Arguments as of `write_batches`.
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


# --- records of magic 2 as the cleaner writes them (DefaultRecord.writeTo) --------------------------------------------
if cython.compiled:
    from cython.cimports.libc.string import memcpy


LOW_BITS = cython.declare(cython.ulonglong, 0x7F)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def base_time_of(k: cython.pointer[cython.longlong], cells: cython.Py_ssize_t) -> cython.longlong:
    """What the timestamps of a rebuilt batch are told from."""
    return k[cells + K_HORIZON] if k[cells + K_HORIZON] >= 0 else k[cells + K_TIME]


@cython.cfunc
@cython.exceptval(check=False)
def put_records(
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
    o: cython.pointer[cython.uchar],
    room: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.bint:
    """The kept records of batch O_BATCH from row O_RECORD on, at O_END; false: O_NEED bytes are not there."""
    batch: cython.Py_ssize_t = s[O_BATCH]
    cells: cython.Py_ssize_t = batch * K_SIZE
    base: cython.longlong = k[cells + K_FIRST]
    base_time: cython.longlong = base_time_of(k, cells)
    row: cython.Py_ssize_t = s[O_RECORD]
    at: cython.Py_ssize_t = s[O_END]
    content: cython.longlong
    if b[B_FORMAT * b_capacity + batch] == MAGIC_V2:
        base = b[B_BASE_OFFSET * b_capacity + batch]
    while row < count and r[R_BATCH * capacity + row] == batch:
        if w[row] < WHY_SUPERSEDED:
            content = _content_bytes(r, capacity, row, h, h_capacity)
            if content + RECORD_ROOM > room - at:
                s[O_NEED] = at - s[O_FILLED] + content + RECORD_ROOM
                return False
            at = _put_record(p, r, capacity, row, h, h_capacity, base, base_time, o, at)
        row += 1
    s[O_RECORD] = row
    s[O_END] = at
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _content_bytes(
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
) -> cython.longlong:
    """The most that key, value and headers take."""
    size: cython.longlong = 0
    i: cython.Py_ssize_t
    if r[R_KEY_SIZE * capacity + row] > 0:
        size += r[R_KEY_SIZE * capacity + row]
    if r[R_VALUE_SIZE * capacity + row] > 0:
        size += r[R_VALUE_SIZE * capacity + row]
    for i in range(r[R_HEADERS * capacity + row], r[R_HEADERS * capacity + row] + r[R_HEADER_COUNT * capacity + row]):
        size += HEADER_ROOM + h[H_KEY_SIZE * h_capacity + i]
        if h[H_VALUE_SIZE * h_capacity + i] > 0:
            size += h[H_VALUE_SIZE * h_capacity + i]
    return size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_record(
    p: cython.pointer[cython.const[cython.uchar]],
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    base: cython.longlong,
    base_time: cython.longlong,
    o: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """One record; returns the byte behind it."""
    time: cython.longlong = wrapped(r[R_TIME * capacity + row] - base_time)
    offset: cython.longlong = wrapped(r[R_OFFSET * capacity + row] - base)
    key: cython.longlong = r[R_KEY_SIZE * capacity + row]
    value: cython.longlong = r[R_VALUE_SIZE * capacity + row]
    first: cython.Py_ssize_t = r[R_HEADERS * capacity + row]
    count: cython.Py_ssize_t = r[R_HEADER_COUNT * capacity + row]
    i: cython.Py_ssize_t
    size: cython.longlong = 1 + _varint_bytes(time) + _varint_bytes(offset) + _sized_bytes(key) + _sized_bytes(value)
    size += _varint_bytes(count)
    for i in range(first, first + count):
        size += _sized_bytes(h[H_KEY_SIZE * h_capacity + i]) + _sized_bytes(h[H_VALUE_SIZE * h_capacity + i])
    at = _put_varint(o, at, size)
    o[at] = 0
    at = _put_varint(o, at + 1, time)
    at = _put_varint(o, at, offset)
    at = _put_sized(p, r[R_KEY * capacity + row], key, o, at)
    at = _put_sized(p, r[R_VALUE * capacity + row], value, o, at)
    at = _put_varint(o, at, count)
    for i in range(first, first + count):
        at = _put_sized(p, h[H_KEY * h_capacity + i], h[H_KEY_SIZE * h_capacity + i], o, at)
        at = _put_sized(p, h[H_VALUE * h_capacity + i], h[H_VALUE_SIZE * h_capacity + i], o, at)
    return at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _sized_bytes(size: cython.longlong) -> cython.longlong:
    """Bytes of a field and of its size in front; -1: it is null."""
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
    """A field behind its size; returns the byte behind it."""
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
    """Bytes of a zigzag varint of up to 64 bits."""
    size: cython.longlong = 1
    rest: cython.longlong = value ^ (value >> 63)  # as many bits as the zigzag form has, but for its lowest
    rest >>= 6
    while rest > 0:
        rest >>= 7
        size += 1
    return size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_varint(o: cython.pointer[cython.uchar], at: cython.Py_ssize_t, value: cython.longlong) -> cython.Py_ssize_t:
    """A zigzag varint of up to 64 bits; returns the byte behind it."""
    raw: cython.ulonglong
    if cython.compiled:
        raw = (cython.cast(cython.ulonglong, value) << 1) ^ cython.cast(cython.ulonglong, value >> 63)
    else:
        raw = 2 * value if value >= 0 else -2 * value - 1
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
    """The header of a batch of magic 2, rebuilt or emptied, and its checksum."""
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
    _put_int(o, at, base, 8)
    _put_int(o, at + SIZE_AT, end - at - OVERHEAD, 4)
    _put_int(o, at + V2_EPOCH_AT, b[B_EPOCH * capacity + batch], 4)
    o[at + MAGIC_AT] = MAGIC_V2
    _put_int(o, at + V2_ATTRIBUTES_AT, attributes, 2)
    _put_int(o, at + V2_DELTA_AT, wrapped(last - base), 4)
    _put_int(o, at + V2_BASE_TIME_AT, -1 if is_empty else base_time_of(k, cells), 8)
    _put_int(o, at + V2_MAX_TIME_AT, max_time, 8)
    _put_int(o, at + V2_PID_AT, b[B_PID * capacity + batch], 8)
    _put_int(o, at + V2_PEPOCH_AT, b[B_PEPOCH * capacity + batch], 2)
    _put_int(o, at + V2_SEQUENCE_AT, b[B_SEQUENCE * capacity + batch], 4)
    _put_int(o, at + V2_COUNT_AT, k[cells + K_KEPT], 4)
    _put_int(o, at + V2_CRC_AT, crc32c_of(output, o, at + V2_ATTRIBUTES_AT, end), 4)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_int(
    o: cython.pointer[cython.uchar], at: cython.Py_ssize_t, value: cython.longlong, size: cython.Py_ssize_t
) -> cython.void:
    """The low bytes of an integer, big-endian."""
    while size > 0:
        size -= 1
        o[at + size] = value & 0xFF
        value >>= 8
