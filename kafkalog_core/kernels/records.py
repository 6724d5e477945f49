"""Records of all formats into record columns; see `decode` in the package for the arguments."""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import bytes_of, cells_of, crc32_of, int32, int64, uint32, varint, wrapped

__all__ = ["decode_messages", "decode_v2"]


def decode_v2(memory: object, batches: object, last_batch: cython.Py_ssize_t, state: object, records: object) -> int:
    """Decode batches of magic 2 from `state` on, up to another format or row `last_batch`; see `decode`."""
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    b_capacity: cython.Py_ssize_t = batches.capacity
    r: cython.pointer[cython.longlong] = cells_of(records.cells)
    r_capacity: cython.Py_ssize_t = records.capacity
    h: cython.pointer[cython.longlong] = cells_of(records.headers.cells)
    h_capacity: cython.Py_ssize_t = records.headers.capacity
    s: cython.pointer[cython.longlong] = cells_of(state)
    result: cython.Py_ssize_t = DECODE_DONE
    # p: payloads; b: batch columns; r, h: record and header columns; s: state. The batches before s[S_BATCH] are
    # decoded.
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
    """Decode the rest of the current batch, as far as the columns have room."""
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
    # p: the buffer; r, h: record and header columns; s: state. s[S_ORDINAL] records of the batch, up to byte
    # s[S_POSITION], are decoded into rows before `row`. A record that fails leaves the state at its start.
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
    """Decode a record body `p[q:end]` into row `row`, offset and timestamp as deltas (DefaultRecord.readFrom).

    Each field is checked against `end` before it is read. A null key or value has size -1.
    """
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
    """Decode the spans of `count` headers, which must end where the record ends."""
    at: cython.Py_ssize_t = s[S_HEADER]
    length: cython.longlong
    if count > capacity - at:
        if row:
            return DECODE_FULL
        s[S_HEADER] = count
        return DECODE_GROW
    # `count` headers are left; those before header row `at` are decoded, up to byte `q`.
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


# --- messages of magic 0 and 1, and of 0.7 ----------------------------------------------------------------------------
# Plain entries, and the decompressed sets of wrappers.
def decode_messages(
    memory: object, batches: object, last_batch: cython.Py_ssize_t, state: object, records: object
) -> int:
    """Decode entries of magic 0 and 1, or of 0.7, up to another format or row `last_batch`; see `decode`."""
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    b_capacity: cython.Py_ssize_t = batches.capacity
    r: cython.pointer[cython.longlong] = cells_of(records.cells)
    r_capacity: cython.Py_ssize_t = records.capacity
    s: cython.pointer[cython.longlong] = cells_of(state)
    form: cython.longlong
    is_v07: cython.bint = b[B_FORMAT * b_capacity + s[S_BATCH]] == V07
    result: cython.Py_ssize_t = DECODE_DONE
    # p: payloads; b: batch columns; r: record columns; s: state. The entries before s[S_BATCH] are decoded.
    while s[S_BATCH] < last_batch:
        form = b[B_FORMAT * b_capacity + s[S_BATCH]]
        if form == MAGIC_V2 or (form == V07) != is_v07:
            break
        if s[S_POSITION] < 0:
            s[S_POSITION] = b[B_START * b_capacity + s[S_BATCH]]
            s[S_ORDINAL] = 0
            s[S_SHIFT] = 0
        if is_v07:
            result = _v07_entry(memory, p, b, b_capacity, r, r_capacity, s)
        else:
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
    """Decode the rest of the current entry: one plain message, or the decompressed set of a wrapper."""
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
    # Messages before byte `q` are decoded into rows before s[S_ROW]; s[S_SHIFT] makes inner offsets absolute (KIP-31).
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
            if wrapper:  # the outer checksum covers the compressed bytes; consumers check the inner one too
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
    """Set S_SHIFT, which is added to relative inner offsets: offset of the wrapper - last inner offset.

    It is 0 for a wrapper with offset 0, which librdkafka writes (AbstractLegacyRecordBatch.DeepRecordsIterator, 4.3).
    """
    size: cython.longlong
    last: cython.longlong = -1
    # p: the decompressed set. `last` is the offset of the last message before byte `q`.
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
    """Decode a message of magic 0 or 1 in `p[q:end]`, which has at least 17 bytes."""
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
    """Decode the rest of the current entry: one plain message, or the flat set of a wrapper."""
    batch: cython.Py_ssize_t = s[S_BATCH]
    end: cython.Py_ssize_t = b[B_END * b_capacity + batch]
    address: cython.longlong = b[B_BASE_OFFSET * b_capacity + batch]
    row: cython.Py_ssize_t
    length: cython.longlong = 0
    payload: cython.Py_ssize_t = 0
    magic: cython.Py_ssize_t
    computed: cython.longlong
    known: cython.longlong = -1
    if b[B_CODEC * b_capacity + batch] == 0:  # the entry is the message itself: the walk may have computed its checksum
        known = b[B_COMPUTED * b_capacity + batch]
    if s[S_ROW] == 0:
        s[S_FIRST] = s[S_POSITION]
    span_end: cython.Py_ssize_t = s[S_FIRST] + SPAN_BYTES
    # Messages before byte s[S_POSITION] are decoded into rows before s[S_ROW]. All records of a wrapper have its
    # address.
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
