"""Records of magic 2 as the cleaner writes them again (DefaultRecord.writeTo)."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.clean_numbers import (
    HEADER_ROOM,
    K_FIRST,
    K_HORIZON,
    K_SIZE,
    K_TIME,
    O_BATCH,
    O_END,
    O_FILLED,
    O_NEED,
    O_RECORD,
    RECORD_ROOM,
    WHY_SUPERSEDED,
)
from kafkalog_core.format.kernels.constants import (
    B_BASE_OFFSET,
    B_FORMAT,
    H_KEY,
    H_KEY_SIZE,
    H_VALUE,
    H_VALUE_SIZE,
    MAGIC_V2,
    R_BATCH,
    R_HEADER_COUNT,
    R_HEADERS,
    R_KEY,
    R_KEY_SIZE,
    R_OFFSET,
    R_TIME,
    R_VALUE,
    R_VALUE_SIZE,
)
from kafkalog_core.format.kernels.integers import wrapped

if cython.compiled:
    from cython.cimports.libc.string import memcpy

__all__ = ["base_time_of", "put_records"]

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
