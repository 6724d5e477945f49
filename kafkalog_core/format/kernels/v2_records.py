"""Records of magic 2 into columns."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.constants import (
    APPEND_TIME,
    B_ATTRIBUTES,
    B_BASE_OFFSET,
    B_BASE_TIME,
    B_COUNT,
    B_END,
    B_FORMAT,
    B_MAX_TIME,
    B_START,
    DECODE_COUNT,
    DECODE_DONE,
    DECODE_FULL,
    DECODE_GROW,
    DECODE_HEADERS,
    DECODE_KEY,
    DECODE_LENGTH,
    DECODE_TRAILING,
    DECODE_VALUE,
    DECODE_VARINT,
    H_KEY,
    H_KEY_SIZE,
    H_VALUE,
    H_VALUE_SIZE,
    MAGIC_V2,
    R_ATTRIBUTES,
    R_BATCH,
    R_CRC,
    R_CRC_OK,
    R_HEADER_COUNT,
    R_HEADERS,
    R_KEY,
    R_KEY_SIZE,
    R_NEXT,
    R_OFFSET,
    R_TIME,
    R_VALUE,
    R_VALUE_SIZE,
    S_BATCH,
    S_FIRST,
    S_HEADER,
    S_ORDINAL,
    S_POSITION,
    S_ROW,
    SPAN_BYTES,
)
from kafkalog_core.format.kernels.integers import varint, wrapped

__all__ = ["decode_v2"]


def decode_v2(memory: object, batches: object, last_batch: cython.Py_ssize_t, state: object, records: object) -> int:
    """Decode batches of magic 2 from `state` on, up to another format or row `last_batch`; see `decode`."""
    data: cython.const[cython.uchar][::1] = memory
    b_view: cython.longlong[::1] = batches.cells
    b_capacity: cython.Py_ssize_t = batches.capacity
    r_view: cython.longlong[::1] = records.cells
    r_capacity: cython.Py_ssize_t = records.capacity
    h_view: cython.longlong[::1] = records.headers.cells
    h_capacity: cython.Py_ssize_t = records.headers.capacity
    s_view: cython.longlong[::1] = state
    p: cython.pointer[cython.const[cython.uchar]]
    b: cython.pointer[cython.longlong]
    r: cython.pointer[cython.longlong]
    h: cython.pointer[cython.longlong]
    s: cython.pointer[cython.longlong]
    result: cython.Py_ssize_t = DECODE_DONE
    if cython.compiled:
        p = cython.address(data[0]) if data.shape[0] else cython.NULL
        b = cython.address(b_view[0])
        r = cython.address(r_view[0])
        h = cython.address(h_view[0])
        s = cython.address(s_view[0])
    else:
        p, b, r, h, s = data, b_view, r_view, h_view, s_view
    while s[S_BATCH] < last_batch and b[B_FORMAT * b_capacity + s[S_BATCH]] == MAGIC_V2:
        if s[S_POSITION] < 0:
            s[S_POSITION] = b[B_START * b_capacity + s[S_BATCH]]
            s[S_ORDINAL] = 0
        result = _v2_batch(p, b, b_capacity, r, r_capacity, h, h_capacity, s)
        if result != DECODE_DONE:
            break
        s[S_BATCH] += 1
        s[S_POSITION] = -1
    return result


@cython.cfunc
@cython.exceptval(check=False)
def _v2_batch(
    p: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """The rest of the batch in hand, as far as the columns have room."""
    batch: cython.Py_ssize_t = s[S_BATCH]
    end: cython.Py_ssize_t = b[B_END * b_capacity + batch]
    count: cython.longlong = b[B_COUNT * b_capacity + batch]
    base_offset: cython.longlong = b[B_BASE_OFFSET * b_capacity + batch]
    base_time: cython.longlong = b[B_BASE_TIME * b_capacity + batch]
    append_time: cython.bint = (b[B_ATTRIBUTES * b_capacity + batch] & APPEND_TIME) != 0
    max_time: cython.longlong = b[B_MAX_TIME * b_capacity + batch]
    q: cython.Py_ssize_t = s[S_POSITION]
    row: cython.Py_ssize_t = s[S_ROW]
    result: cython.Py_ssize_t = DECODE_DONE
    length: cython.longlong
    if count < 0:
        return DECODE_COUNT
    if row == 0:
        s[S_FIRST] = q
    span_end: cython.Py_ssize_t = s[S_FIRST] + SPAN_BYTES
    while s[S_ORDINAL] < count:
        if row == r_capacity:
            result = DECODE_FULL
            break
        length, q = varint(p, s[S_POSITION], end, 32)
        if q < 0:
            result = DECODE_VARINT
            break
        if length < 0 or length > end - q:
            result = DECODE_LENGTH
            break
        if q + length > span_end and row > 0:
            result = DECODE_FULL
            break
        result = _v2_record(p, q, q + length, r, r_capacity, row, h, h_capacity, s)
        if result != DECODE_DONE:
            break
        r[R_BATCH * r_capacity + row] = batch
        r[R_OFFSET * r_capacity + row] = wrapped(base_offset + r[R_OFFSET * r_capacity + row])
        r[R_NEXT * r_capacity + row] = wrapped(r[R_OFFSET * r_capacity + row] + 1)
        if append_time:
            r[R_TIME * r_capacity + row] = max_time
        else:
            r[R_TIME * r_capacity + row] = wrapped(base_time + r[R_TIME * r_capacity + row])
        row += 1
        s[S_ORDINAL] += 1
        s[S_POSITION] = q + length
    s[S_ROW] = row
    if result == DECODE_DONE and s[S_POSITION] != end:
        return DECODE_COUNT
    return result


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _v2_record(
    p: cython.pointer[cython.const[cython.uchar]],
    q: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """One record body `p[q:end]` into row `row`; offset and timestamp as deltas."""
    value: cython.longlong
    if q >= end:
        return DECODE_TRAILING
    r[R_ATTRIBUTES * capacity + row] = p[q]
    value, q = varint(p, q + 1, end, 64)
    if q < 0:
        return DECODE_VARINT
    r[R_TIME * capacity + row] = value
    value, q = varint(p, q, end, 32)
    if q < 0:
        return DECODE_VARINT
    r[R_OFFSET * capacity + row] = value
    value, q = varint(p, q, end, 32)
    if q < 0 or value > end - q:
        return DECODE_KEY
    r[R_KEY * capacity + row] = q
    r[R_KEY_SIZE * capacity + row] = value if value >= 0 else -1
    if value > 0:
        q += value
    value, q = varint(p, q, end, 32)
    if q < 0 or value > end - q:
        return DECODE_VALUE
    r[R_VALUE * capacity + row] = q
    r[R_VALUE_SIZE * capacity + row] = value if value >= 0 else -1
    if value > 0:
        q += value
    r[R_CRC * capacity + row] = 0
    r[R_CRC_OK * capacity + row] = 1
    value, q = varint(p, q, end, 32)
    if q < 0 or value < 0 or value > end - q:
        return DECODE_HEADERS
    r[R_HEADERS * capacity + row] = s[S_HEADER]
    r[R_HEADER_COUNT * capacity + row] = value
    if value == 0:
        return DECODE_DONE if q == end else DECODE_TRAILING
    return _headers(p, q, end, value, row, h, h_capacity, s)


@cython.cfunc
@cython.exceptval(check=False)
def _headers(
    p: cython.pointer[cython.const[cython.uchar]],
    q: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
    row: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """Spans of `count` headers, which must end where the record does."""
    at: cython.Py_ssize_t = s[S_HEADER]
    length: cython.longlong
    if count > capacity - at:
        if row:
            return DECODE_FULL
        s[S_HEADER] = count
        return DECODE_GROW
    while count:
        length, q = varint(p, q, end, 32)
        if q < 0 or length < 0 or length > end - q:
            return DECODE_HEADERS
        h[H_KEY * capacity + at] = q
        h[H_KEY_SIZE * capacity + at] = length
        q += length
        length, q = varint(p, q, end, 32)
        if q < 0 or length > end - q:
            return DECODE_HEADERS
        h[H_VALUE * capacity + at] = q
        h[H_VALUE_SIZE * capacity + at] = length if length >= 0 else -1
        if length > 0:
            q += length
        at += 1
        count -= 1
    s[S_HEADER] = at
    return DECODE_DONE if q == end else DECODE_TRAILING
