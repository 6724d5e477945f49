"""Messages of magic 0 and 1 into columns: plain entries, and the decompressed sets of wrappers."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.checksum import crc32_of
from kafkalog_core.format.kernels.constants import (
    APPEND_TIME,
    B_ATTRIBUTES,
    B_END,
    B_FORMAT,
    B_LAST_OFFSET,
    B_MAX_TIME,
    B_START,
    CODECS,
    DECODE_DONE,
    DECODE_FULL,
    DECODE_MESSAGE_CUT,
    DECODE_MESSAGE_EMPTY,
    DECODE_MESSAGE_KEY,
    DECODE_MESSAGE_LENGTH,
    DECODE_MESSAGE_MAGIC,
    DECODE_MESSAGE_NESTED,
    DECODE_MESSAGE_OFFSET,
    DECODE_MESSAGE_VALUE,
    ENTRY_MIN,
    HEADER_MIN,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_CRC_AT,
    MAGIC_AT,
    MAGIC_V2,
    OVERHEAD,
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
    S_SHIFT,
    SIZE_AT,
    SPAN_BYTES,
    V0_KEY_AT,
    V1_KEY_AT,
    V1_TIME_AT,
)
from kafkalog_core.format.kernels.integers import int32, int64, uint32, wrapped

__all__ = ["decode_legacy"]


def decode_legacy(
    memory: object, batches: object, last_batch: cython.Py_ssize_t, state: object, records: object
) -> int:
    """Decode entries of magic 0 and 1 from `state` on, up to another format or row `last_batch`; see `decode`."""
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
    while s[S_BATCH] < last_batch and b[B_FORMAT * b_capacity + s[S_BATCH]] < MAGIC_V2:
        if s[S_POSITION] < 0:
            s[S_POSITION] = b[B_START * b_capacity + s[S_BATCH]]
            s[S_ORDINAL] = 0
            s[S_SHIFT] = 0
        result = _legacy_entry(memory, p, b, b_capacity, r, r_capacity, s)
        if result != DECODE_DONE:
            break
        s[S_BATCH] += 1
        s[S_POSITION] = -1
    return result


@cython.cfunc
def _legacy_entry(
    memory: object,
    p: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """The rest of the entry in hand: one plain message, or the decompressed set of a wrapper."""
    batch: cython.Py_ssize_t = s[S_BATCH]
    end: cython.Py_ssize_t = b[B_END * b_capacity + batch]
    attributes: cython.longlong = b[B_ATTRIBUTES * b_capacity + batch]
    wrapper: cython.bint = (attributes & CODECS) != 0
    q: cython.Py_ssize_t = s[S_POSITION]
    row: cython.Py_ssize_t = 0
    size: cython.longlong = 0
    result: cython.Py_ssize_t = DECODE_DONE
    if s[S_ROW] == 0:
        s[S_FIRST] = q
    span_end: cython.Py_ssize_t = s[S_FIRST] + SPAN_BYTES
    if wrapper and s[S_ORDINAL] == 0 and b[B_FORMAT * b_capacity + batch] == 1:
        result = _shift_inner_offsets(p, q, end, b[B_LAST_OFFSET * b_capacity + batch], s)
    while result == DECODE_DONE and q < end:
        row = s[S_ROW]
        if row == capacity:
            result = DECODE_FULL
        elif q + HEADER_MIN > end:
            result = DECODE_MESSAGE_CUT
        else:
            size = int32(p, q + SIZE_AT)
            if size < ENTRY_MIN:
                result = DECODE_MESSAGE_LENGTH
            elif size > end - q - OVERHEAD:
                result = DECODE_MESSAGE_CUT
            elif q + OVERHEAD + size > span_end and row > 0:
                result = DECODE_FULL
            else:
                result = _message(p, q, q + OVERHEAD + size, wrapper, r, capacity, row)
        if result == DECODE_DONE:
            r[R_BATCH * capacity + row] = batch
            r[R_OFFSET * capacity + row] = wrapped(int64(p, q) + s[S_SHIFT])
            r[R_NEXT * capacity + row] = wrapped(r[R_OFFSET * capacity + row] + 1)
            if wrapper:  # the outer checksum covers what is compressed, consumers look at this one too
                r[R_CRC_OK * capacity + row] = (
                    crc32_of(memory, p, q + MAGIC_AT, q + OVERHEAD + size) == r[R_CRC * capacity + row]
                )
            if wrapper and (attributes & APPEND_TIME) and b[B_FORMAT * b_capacity + batch] == 1:
                r[R_TIME * capacity + row] = b[B_MAX_TIME * b_capacity + batch]
            q += OVERHEAD + size
            s[S_ROW] = row + 1
            s[S_ORDINAL] += 1
    s[S_POSITION] = q
    if result == DECODE_DONE and s[S_ORDINAL] == 0:
        return DECODE_MESSAGE_EMPTY
    return result


@cython.cfunc
@cython.exceptval(check=False)
def _shift_inner_offsets(
    p: cython.pointer[cython.const[cython.uchar]],
    q: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    wrapper_offset: cython.longlong,
    s: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """What is added to relative inner offsets: wrapper - last inner.

    0 for a wrapper of offset 0, which librdkafka writes, as in AbstractLegacyRecordBatch.DeepRecordsIterator of 4.3.
    """
    size: cython.longlong
    last: cython.longlong = -1
    while q + HEADER_MIN <= end:
        size = int32(p, q + SIZE_AT)
        if size < ENTRY_MIN or size > end - q - OVERHEAD:
            break
        last = int64(p, q)
        q += OVERHEAD + size
    if last < 0 or wrapper_offset == 0:
        return DECODE_DONE
    if wrapper_offset < last:
        return DECODE_MESSAGE_OFFSET
    s[S_SHIFT] = wrapper_offset - last
    return DECODE_DONE


@cython.cfunc
@cython.exceptval(check=False)
def _message(
    p: cython.pointer[cython.const[cython.uchar]],
    q: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    inner: cython.bint,
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """One message of magic 0 or 1 in `p[q:end]`, whose first 17 bytes are known to be there."""
    magic: cython.Py_ssize_t = p[q + MAGIC_AT]
    at: cython.Py_ssize_t = q + (V1_KEY_AT if magic == 1 else V0_KEY_AT)
    length: cython.longlong
    if magic > 1:
        return DECODE_MESSAGE_MAGIC
    if at + 4 > end:
        return DECODE_MESSAGE_LENGTH
    if inner and (p[q + LEGACY_ATTRIBUTES_AT] & CODECS) != 0:
        return DECODE_MESSAGE_NESTED
    r[R_ATTRIBUTES * capacity + row] = p[q + LEGACY_ATTRIBUTES_AT]
    r[R_CRC * capacity + row] = uint32(p, q + LEGACY_CRC_AT)
    r[R_CRC_OK * capacity + row] = 1
    r[R_TIME * capacity + row] = int64(p, q + V1_TIME_AT) if magic == 1 else -1
    r[R_HEADERS * capacity + row] = 0
    r[R_HEADER_COUNT * capacity + row] = 0
    length = int32(p, at)
    at += 4
    if length > end - at:
        return DECODE_MESSAGE_KEY
    r[R_KEY * capacity + row] = at
    r[R_KEY_SIZE * capacity + row] = length if length >= 0 else -1
    if length > 0:
        at += length
    if at + 4 > end:
        return DECODE_MESSAGE_VALUE
    length = int32(p, at)
    at += 4
    if length > end - at:
        return DECODE_MESSAGE_VALUE
    r[R_VALUE * capacity + row] = at
    r[R_VALUE_SIZE * capacity + row] = length if length >= 0 else -1
    return DECODE_DONE
