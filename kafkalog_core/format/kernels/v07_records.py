"""Messages of Kafka 0.7 into columns."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.checksum import crc32_of
from kafkalog_core.format.kernels.constants import (
    B_BASE_OFFSET,
    B_CODEC,
    B_COMPUTED,
    B_END,
    B_FORMAT,
    B_LAST_OFFSET,
    B_START,
    DECODE_DONE,
    DECODE_FULL,
    DECODE_MESSAGE_CUT,
    DECODE_MESSAGE_LENGTH,
    DECODE_MESSAGE_MAGIC,
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
    S_ORDINAL,
    S_POSITION,
    S_ROW,
    SPAN_BYTES,
    V07,
    V07_MIN,
    V07_PREFIX,
)
from kafkalog_core.format.kernels.integers import int32, uint32

__all__ = ["decode_v07"]


def decode_v07(memory: object, batches: object, last_batch: cython.Py_ssize_t, state: object, records: object) -> int:
    """Decode messages of Kafka 0.7 from `state` on, up to another format or row `last_batch`; see `decode`."""
    data: cython.const[cython.uchar][::1] = memory
    b_view: cython.longlong[::1] = batches.cells
    b_capacity: cython.Py_ssize_t = batches.capacity
    r_view: cython.longlong[::1] = records.cells
    r_capacity: cython.Py_ssize_t = records.capacity
    s_view: cython.longlong[::1] = state
    p: cython.pointer[cython.const[cython.uchar]]
    b: cython.pointer[cython.longlong]
    r: cython.pointer[cython.longlong]
    s: cython.pointer[cython.longlong]
    result: cython.Py_ssize_t = DECODE_DONE
    if cython.compiled:
        p = cython.address(data[0]) if data.shape[0] else cython.NULL
        b = cython.address(b_view[0])
        r = cython.address(r_view[0])
        s = cython.address(s_view[0])
    else:
        p, b, r, s = data, b_view, r_view, s_view
    while s[S_BATCH] < last_batch and b[B_FORMAT * b_capacity + s[S_BATCH]] == V07:
        if s[S_POSITION] < 0:
            s[S_POSITION] = b[B_START * b_capacity + s[S_BATCH]]
            s[S_ORDINAL] = 0
        result = _v07_entry(memory, p, b, b_capacity, r, r_capacity, s)
        if result != DECODE_DONE:
            break
        s[S_BATCH] += 1
        s[S_POSITION] = -1
    return result


@cython.cfunc
def _v07_entry(
    memory: object,
    p: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """The rest of the entry in hand: one plain message, or the flat set of a wrapper, nested ones opened."""
    batch: cython.Py_ssize_t = s[S_BATCH]
    end: cython.Py_ssize_t = b[B_END * b_capacity + batch]
    address: cython.longlong = b[B_BASE_OFFSET * b_capacity + batch]
    row: cython.Py_ssize_t
    length: cython.longlong = 0
    payload: cython.Py_ssize_t = 0
    magic: cython.Py_ssize_t
    computed: cython.longlong
    known: cython.longlong = -1
    if b[B_CODEC * b_capacity + batch] == 0:  # the entry is the message: a walk may have computed its checksum
        known = b[B_COMPUTED * b_capacity + batch]
    if s[S_ROW] == 0:
        s[S_FIRST] = s[S_POSITION]
    span_end: cython.Py_ssize_t = s[S_FIRST] + SPAN_BYTES
    while s[S_POSITION] < end:
        q: cython.Py_ssize_t = s[S_POSITION]
        row = s[S_ROW]
        if row == capacity:
            return DECODE_FULL
        if q + V07_PREFIX + 1 > end:
            return DECODE_MESSAGE_CUT
        length = int32(p, q)
        magic = p[q + V07_PREFIX]
        if magic > 1:
            return DECODE_MESSAGE_MAGIC
        if length < V07_MIN + magic:
            return DECODE_MESSAGE_LENGTH
        if length > end - q - V07_PREFIX:
            return DECODE_MESSAGE_CUT
        if q + V07_PREFIX + length > span_end and row > 0:
            return DECODE_FULL
        payload = q + V07_PREFIX + V07_MIN + magic
        computed = known if known >= 0 else crc32_of(memory, p, payload, q + V07_PREFIX + length)
        r[R_BATCH * capacity + row] = batch
        r[R_OFFSET * capacity + row] = address
        r[R_TIME * capacity + row] = -1
        r[R_KEY * capacity + row] = payload
        r[R_KEY_SIZE * capacity + row] = -1
        r[R_VALUE * capacity + row] = payload
        r[R_VALUE_SIZE * capacity + row] = q + V07_PREFIX + length - payload
        r[R_HEADERS * capacity + row] = 0
        r[R_HEADER_COUNT * capacity + row] = 0
        r[R_ATTRIBUTES * capacity + row] = p[q + V07_PREFIX + 1] if magic == 1 else -1
        r[R_CRC * capacity + row] = uint32(p, payload - 4)
        r[R_CRC_OK * capacity + row] = computed == uint32(p, payload - 4)
        q += V07_PREFIX + length
        r[R_NEXT * capacity + row] = b[B_LAST_OFFSET * b_capacity + batch] if q >= end else address
        s[S_POSITION] = q
        s[S_ROW] = row + 1
        s[S_ORDINAL] += 1
    return DECODE_DONE
