# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The hot loops: batch walk, checksum, columnar record decode. One source, run as it is or compiled by Cython.

Rules of this file: integers only, spans instead of slices, no object per record, bounds checked before every read. What the
interpreter and C would do differently is written so that they agree: 64-bit wrap-around goes through `_wrapped`, varints are
put together unsigned and masked, and every multi-byte read says its sign. Both twins are tested on the same bytes.

Layouts: `layout.py`. Rules: DefaultRecordBatch, DefaultRecord, AbstractLegacyRecordBatch, ByteUtils (Kafka 4.3), kafka.message (0.7).
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format import _cython as cython

from kafkalog_core.format import layout
from kafkalog_core.format.checksums import crc32 as _crc32
from kafkalog_core.format.checksums import crc32c as _crc32c
from kafkalog_core.format.columns import BATCH_FIELDS, FORMAT_V07, HEADER_FIELDS, RECORD_FIELDS

COMPILED = cython.compiled
SOURCE_SHA256 = "interpreted"

# --- why a walk stopped -----------------------------------------------------------------------------------------------
STOP_END = 0  # every byte was walked, or the columns are full
STOP_MORE = 1  # the entry at `next` goes on beyond the bytes at hand
STOP_LENGTH = 2  # its size cannot be true
STOP_MAGIC = 3  # no known magic
STOP_LIMIT = 4  # larger than the limit
STOP_CHECKSUM = 5  # its row is filled but not counted
STOP_ORDER = 6  # offsets go back; its row is counted

# --- why a decode stopped ---------------------------------------------------------------------------------------------
DECODE_DONE = 0
DECODE_FULL = 1
DECODE_GROW = -1  # one record holds more headers than the header columns: make them larger, call again
DECODE_ERRORS = (
    "",
    "",
    "record-length",  # 2: a record's length is negative or passes the end of its batch
    "record-varint",  # 3: a varint is cut or longer than its type
    "record-key",  # 4
    "record-value",  # 5
    "record-headers",  # 6: header count or a header's length
    "record-trailing",  # 7: a record's fields end before its length does
    "record-count",  # 8: bytes behind the last record, or a count that the bytes cannot hold
    "message-length",  # 9: legacy: the size of an inner message
    "message-key",  # 10
    "message-value",  # 11
    "message-magic",  # 12
    "message-nested",  # 13: a wrapper inside a wrapper (0.8+)
    "message-cut",  # 14: the inner set ends inside a message
    "message-empty",  # 15: a wrapper without a message
    "message-offset",  # 16: inner offsets pass the wrapper's
)
DONE = cython.declare(cython.Py_ssize_t, 0)
FULL = cython.declare(cython.Py_ssize_t, 1)
GROW = cython.declare(cython.Py_ssize_t, -1)
E_LENGTH = cython.declare(cython.Py_ssize_t, 2)
E_VARINT = cython.declare(cython.Py_ssize_t, 3)
E_KEY = cython.declare(cython.Py_ssize_t, 4)
E_VALUE = cython.declare(cython.Py_ssize_t, 5)
E_HEADERS = cython.declare(cython.Py_ssize_t, 6)
E_TRAILING = cython.declare(cython.Py_ssize_t, 7)
E_COUNT = cython.declare(cython.Py_ssize_t, 8)
E_MESSAGE_LENGTH = cython.declare(cython.Py_ssize_t, 9)
E_MESSAGE_KEY = cython.declare(cython.Py_ssize_t, 10)
E_MESSAGE_VALUE = cython.declare(cython.Py_ssize_t, 11)
E_MESSAGE_MAGIC = cython.declare(cython.Py_ssize_t, 12)
E_MESSAGE_NESTED = cython.declare(cython.Py_ssize_t, 13)
E_MESSAGE_CUT = cython.declare(cython.Py_ssize_t, 14)
E_MESSAGE_EMPTY = cython.declare(cython.Py_ssize_t, 15)
E_MESSAGE_OFFSET = cython.declare(cython.Py_ssize_t, 16)

# --- layout, as C integers --------------------------------------------------------------------------------------------
OVERHEAD = cython.declare(cython.Py_ssize_t, layout.LOG_OVERHEAD)
MAGIC_AT = cython.declare(cython.Py_ssize_t, layout.MAGIC_POSITION)
HEADER_MIN = cython.declare(cython.Py_ssize_t, layout.HEADER_SIZE_UP_TO_MAGIC)
ENTRY_MIN = cython.declare(cython.Py_ssize_t, layout.MIN_ENTRY_SIZE)
SIZE_AT = cython.declare(cython.Py_ssize_t, layout.ENVELOPE.at("size"))
V2_SIZE = cython.declare(cython.Py_ssize_t, layout.RECORD_BATCH_OVERHEAD)
V2_EPOCH_AT = cython.declare(cython.Py_ssize_t, layout.V2_LEADER_EPOCH)
V2_CRC_AT = cython.declare(cython.Py_ssize_t, layout.V2_CRC)
V2_ATTRIBUTES_AT = cython.declare(cython.Py_ssize_t, layout.V2_ATTRIBUTES)
V2_DELTA_AT = cython.declare(cython.Py_ssize_t, layout.V2_LAST_OFFSET_DELTA)
V2_BASE_TIME_AT = cython.declare(cython.Py_ssize_t, layout.V2_BASE_TIMESTAMP)
V2_MAX_TIME_AT = cython.declare(cython.Py_ssize_t, layout.V2_MAX_TIMESTAMP)
V2_PID_AT = cython.declare(cython.Py_ssize_t, layout.V2_PRODUCER_ID)
V2_PEPOCH_AT = cython.declare(cython.Py_ssize_t, layout.V2_PRODUCER_EPOCH)
V2_SEQUENCE_AT = cython.declare(cython.Py_ssize_t, layout.V2_BASE_SEQUENCE)
V2_COUNT_AT = cython.declare(cython.Py_ssize_t, layout.V2_RECORDS_COUNT)
LEGACY_CRC_AT = cython.declare(cython.Py_ssize_t, layout.LEGACY_CRC)
LEGACY_ATTRIBUTES_AT = cython.declare(cython.Py_ssize_t, layout.LEGACY_ATTRIBUTES)
V1_TIME_AT = cython.declare(cython.Py_ssize_t, layout.V1_TIMESTAMP)
V0_KEY_AT = cython.declare(cython.Py_ssize_t, layout.V0_KEY_LENGTH)
V1_KEY_AT = cython.declare(cython.Py_ssize_t, layout.V1_KEY_LENGTH)
V07_MIN = cython.declare(cython.Py_ssize_t, layout.V07_MIN_LENGTH)
V07_PREFIX = cython.declare(cython.Py_ssize_t, layout.V07_LENGTH_SIZE)
V07_CODECS = cython.declare(cython.Py_ssize_t, layout.V07_CODEC_MASK)
V07 = cython.declare(cython.longlong, FORMAT_V07)
CODECS = cython.declare(cython.longlong, layout.CODEC_MASK)
APPEND_TIME = cython.declare(cython.longlong, layout.TIMESTAMP_TYPE_BIT)

# Literals over 31 bits would be Python integers in compiled code.
MASK32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
SIGN32 = cython.declare(cython.longlong, 0x80000000)

# --- columns ----------------------------------------------------------------------------------------------------------
B_POSITION = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("position"))
B_SIZE = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("size_bytes"))
B_FORMAT = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("format"))
B_ATTRIBUTES = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("attributes"))
B_CODEC = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("codec"))
B_BASE_OFFSET = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("base_offset"))
B_LAST_OFFSET = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("last_offset"))
B_COUNT = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("record_count"))
B_EPOCH = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("leader_epoch"))
B_BASE_TIME = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("base_timestamp_ms"))
B_MAX_TIME = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("max_timestamp_ms"))
B_PID = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("producer_id"))
B_PEPOCH = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("producer_epoch"))
B_SEQUENCE = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("base_sequence"))
B_CRC = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("crc_stored"))
B_COMPUTED = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("crc_computed"))
B_START = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("payload_start"))
B_END = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("payload_end"))
R_BATCH = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("batch"))
R_OFFSET = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("offset"))
R_TIME = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("timestamp_ms"))
R_KEY = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("key_start"))
R_KEY_SIZE = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("key_size"))
R_VALUE = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("value_start"))
R_VALUE_SIZE = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("value_size"))
R_HEADERS = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("first_header"))
R_HEADER_COUNT = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("header_count"))
R_NEXT = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("next_offset"))
R_ATTRIBUTES = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("attributes"))
R_CRC = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("crc_stored"))
R_CRC_OK = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("crc_ok"))
H_KEY = cython.declare(cython.Py_ssize_t, HEADER_FIELDS.index("key_start"))
H_KEY_SIZE = cython.declare(cython.Py_ssize_t, HEADER_FIELDS.index("key_size"))
H_VALUE = cython.declare(cython.Py_ssize_t, HEADER_FIELDS.index("value_start"))
H_VALUE_SIZE = cython.declare(cython.Py_ssize_t, HEADER_FIELDS.index("value_size"))
# --- decode state: array('q') that a caller keeps between the calls ---------------------------------------------------
S_BATCH = cython.declare(cython.Py_ssize_t, 0)  # row of the batch in hand
S_POSITION = cython.declare(cython.Py_ssize_t, 1)  # byte in the buffer where its next record starts; -1: not begun
S_ORDINAL = cython.declare(cython.Py_ssize_t, 2)  # records of it decoded so far
S_SHIFT = cython.declare(cython.Py_ssize_t, 3)  # what makes its inner offsets absolute (magic 1 wrappers)
S_ROW = cython.declare(cython.Py_ssize_t, 4)  # rows filled in this call
S_HEADER = cython.declare(cython.Py_ssize_t, 5)  # header rows filled in this call
STATE_SIZE = 6


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _wrapped(value: cython.longlong) -> cython.longlong:
    """The value as a signed 64-bit integer; C has wrapped it already."""
    if cython.compiled:
        return value
    return (value + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _int16(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = p[i]
    value = (value << 8) | p[i + 1]
    return value - ((value & 0x8000) << 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _uint32(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = p[i]
    value = (value << 8) | p[i + 1]
    value = (value << 8) | p[i + 2]
    return (value << 8) | p[i + 3]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _int32(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = _uint32(p, i)
    return value - ((value & SIGN32) << 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _int64(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.longlong:
    high: cython.longlong = _int32(p, i)
    return (high << 32) | _uint32(p, i + 4)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varint(
    p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t, end: cython.Py_ssize_t, bits: cython.Py_ssize_t
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """Zigzag value of `bits` bits (32 or 64) and the next position; position -1 where it is cut or too long.

    Overlong forms are read and surplus high bits of the last byte dropped, as ByteUtils.readVarint and readVarlong do.
    """
    raw: cython.ulonglong = 0
    byte: cython.ulonglong
    shift: cython.Py_ssize_t = 0
    while i < end:
        byte = p[i]
        i += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if bits == 32:
                raw &= MASK32
            elif not cython.compiled:  # C has dropped what passes 64 bits
                raw &= 0xFFFFFFFFFFFFFFFF
            half: cython.longlong = raw >> 1
            sign: cython.longlong = raw & 1
            return (half ^ -sign, i)
        shift += 7
        if shift >= bits:
            break
    return (0, -1)


# --- walk -------------------------------------------------------------------------------------------------------------
def walk(
    memory: object,
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    file_position: cython.longlong,
    previous_offset: cython.longlong,
    max_bytes: cython.longlong,
    check: cython.bint,
    columns: object,
) -> tuple[int, int]:
    """Walk entries of magic 0, 1 and 2 in `memory[begin:end]` and fill the batch columns.

    `file_position` is the file position of `memory[0]`; `previous_offset` the last offset before `begin`; `max_bytes` the largest
    entry; `check` whether checksums are computed. Returns (stop reason, position in `memory` of the first entry not counted).
    """
    data: cython.const[cython.uchar][::1] = memory
    cells_view: cython.longlong[::1] = columns.cells
    capacity: cython.Py_ssize_t = columns.capacity
    p: cython.pointer[cython.const[cython.uchar]]
    cells: cython.pointer[cython.longlong]
    i: cython.Py_ssize_t = begin
    row: cython.Py_ssize_t = 0
    size: cython.longlong
    magic: cython.longlong
    stop: cython.Py_ssize_t = STOP_END
    if end <= begin:
        columns.count = 0
        return STOP_END, begin
    if cython.compiled:
        p = cython.address(data[0])
        cells = cython.address(cells_view[0])
    else:
        p = data
        cells = cells_view
    while i < end and row < capacity:
        if i + HEADER_MIN > end:
            stop = STOP_MORE
            break
        size = _int32(p, i + SIZE_AT)
        magic = p[i + MAGIC_AT]
        if size < ENTRY_MIN or (magic == 2 and size + OVERHEAD < V2_SIZE):
            stop = STOP_LENGTH
            break
        if magic > 2:
            stop = STOP_MAGIC
            break
        if size + OVERHEAD > max_bytes:
            stop = STOP_LIMIT
            break
        if i + OVERHEAD + size > end:
            stop = STOP_MORE
            break
        if magic == 2:
            _fill_v2(p, i, cells, capacity, row)
        else:
            _fill_legacy(p, i, size, magic, cells, capacity, row)
        cells[B_POSITION * capacity + row] = file_position + i
        cells[B_SIZE * capacity + row] = OVERHEAD + size
        if check and not _checksum_agrees(memory, i, size, magic, cells, capacity, row):
            stop = STOP_CHECKSUM
            break
        i += OVERHEAD + size
        row += 1
        if _first_known_offset(cells, capacity, row - 1) <= previous_offset:
            stop = STOP_ORDER
            break
        previous_offset = cells[B_LAST_OFFSET * capacity + row - 1]
    columns.count = row
    return stop, i


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _first_known_offset(
    cells: cython.pointer[cython.longlong], capacity: cython.Py_ssize_t, row: cython.Py_ssize_t
) -> cython.longlong:
    """Base offset, or of a legacy wrapper, whose base only its content tells, the last one."""
    if cells[B_COUNT * capacity + row] < 0 and cells[B_FORMAT * capacity + row] < 2:
        return cells[B_LAST_OFFSET * capacity + row]
    return cells[B_BASE_OFFSET * capacity + row]


@cython.cfunc
def _checksum_agrees(
    memory: object,
    i: cython.Py_ssize_t,
    size: cython.longlong,
    magic: cython.longlong,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.bint:
    end: cython.Py_ssize_t = i + OVERHEAD + size
    computed: cython.longlong
    if magic == 2:
        computed = _crc32c(memory[i + V2_ATTRIBUTES_AT : end])
    else:
        computed = _crc32(memory[i + MAGIC_AT : end])
    cells[B_COMPUTED * capacity + row] = computed
    return computed == cells[B_CRC * capacity + row]


@cython.cfunc
@cython.exceptval(check=False)
def _fill_v2(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.void:
    base: cython.longlong = _int64(p, i)
    cells[B_FORMAT * capacity + row] = 2
    cells[B_ATTRIBUTES * capacity + row] = _int16(p, i + V2_ATTRIBUTES_AT)
    cells[B_CODEC * capacity + row] = _int16(p, i + V2_ATTRIBUTES_AT) & CODECS
    cells[B_BASE_OFFSET * capacity + row] = base
    cells[B_LAST_OFFSET * capacity + row] = _wrapped(base + _int32(p, i + V2_DELTA_AT))
    cells[B_COUNT * capacity + row] = _int32(p, i + V2_COUNT_AT)
    cells[B_EPOCH * capacity + row] = _int32(p, i + V2_EPOCH_AT)
    cells[B_BASE_TIME * capacity + row] = _int64(p, i + V2_BASE_TIME_AT)
    cells[B_MAX_TIME * capacity + row] = _int64(p, i + V2_MAX_TIME_AT)
    cells[B_PID * capacity + row] = _int64(p, i + V2_PID_AT)
    cells[B_PEPOCH * capacity + row] = _int16(p, i + V2_PEPOCH_AT)
    cells[B_SEQUENCE * capacity + row] = _int32(p, i + V2_SEQUENCE_AT)
    cells[B_CRC * capacity + row] = _uint32(p, i + V2_CRC_AT)
    cells[B_COMPUTED * capacity + row] = -1
    cells[B_START * capacity + row] = i + V2_SIZE
    cells[B_END * capacity + row] = i + OVERHEAD + _int32(p, i + SIZE_AT)


@cython.cfunc
@cython.exceptval(check=False)
def _fill_legacy(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    size: cython.longlong,
    magic: cython.longlong,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.void:
    offset: cython.longlong = _int64(p, i)
    attributes: cython.longlong = p[i + LEGACY_ATTRIBUTES_AT]
    compressed: cython.bint = (attributes & CODECS) != 0
    timestamp: cython.longlong = -1
    if magic == 1 and size >= V1_KEY_AT - OVERHEAD:
        timestamp = _int64(p, i + V1_TIME_AT)
    cells[B_FORMAT * capacity + row] = magic
    cells[B_ATTRIBUTES * capacity + row] = attributes
    cells[B_CODEC * capacity + row] = attributes & CODECS
    cells[B_BASE_OFFSET * capacity + row] = -1 if compressed else offset
    cells[B_LAST_OFFSET * capacity + row] = offset
    cells[B_COUNT * capacity + row] = -1 if compressed else 1
    cells[B_EPOCH * capacity + row] = -1
    cells[B_BASE_TIME * capacity + row] = timestamp
    cells[B_MAX_TIME * capacity + row] = timestamp
    cells[B_PID * capacity + row] = -1
    cells[B_PEPOCH * capacity + row] = -1
    cells[B_SEQUENCE * capacity + row] = -1
    cells[B_CRC * capacity + row] = _uint32(p, i + LEGACY_CRC_AT)
    cells[B_COMPUTED * capacity + row] = -1
    cells[B_START * capacity + row] = i
    cells[B_END * capacity + row] = i + OVERHEAD + size
    if compressed:
        _fill_wrapper_span(p, i, i + OVERHEAD + size, magic, cells, capacity, row)


@cython.cfunc
@cython.exceptval(check=False)
def _fill_wrapper_span(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    magic: cython.longlong,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.void:
    """Span of the wrapper's value; -1, -1 where key and value lengths do not fit the message or the value is null."""
    at: cython.Py_ssize_t = i + (V1_KEY_AT if magic == 1 else V0_KEY_AT)
    length: cython.longlong
    cells[B_START * capacity + row] = -1
    cells[B_END * capacity + row] = -1
    if at + 4 > end:
        return
    length = _int32(p, at)
    at += 4
    if length > 0:
        if length > end - at:
            return
        at += length
    if at + 4 > end:
        return
    length = _int32(p, at)
    at += 4
    if length < 0 or length > end - at:
        return
    cells[B_START * capacity + row] = at
    cells[B_END * capacity + row] = at + length


def walk_v07(
    memory: object,
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    file_position: cython.longlong,
    base_address: cython.longlong,
    max_bytes: cython.longlong,
    check: cython.bint,
    columns: object,
) -> tuple[int, int]:
    """Walk Kafka 0.7 messages; `base_address` is the number in the file name. Otherwise as `walk`."""
    data: cython.const[cython.uchar][::1] = memory
    cells_view: cython.longlong[::1] = columns.cells
    capacity: cython.Py_ssize_t = columns.capacity
    p: cython.pointer[cython.const[cython.uchar]]
    cells: cython.pointer[cython.longlong]
    i: cython.Py_ssize_t = begin
    row: cython.Py_ssize_t = 0
    length: cython.longlong
    payload: cython.Py_ssize_t
    stop: cython.Py_ssize_t = STOP_END
    computed: cython.longlong
    if end <= begin:
        columns.count = 0
        return STOP_END, begin
    if cython.compiled:
        p = cython.address(data[0])
        cells = cython.address(cells_view[0])
    else:
        p = data
        cells = cells_view
    while i < end and row < capacity:
        if i + V07_PREFIX + 1 > end:
            stop = STOP_MORE
            break
        length = _int32(p, i)
        if length < V07_MIN:
            stop = STOP_LENGTH
            break
        if p[i + V07_PREFIX] > 1:
            stop = STOP_MAGIC
            break
        if length < V07_MIN + p[i + V07_PREFIX]:
            stop = STOP_LENGTH
            break
        if length + V07_PREFIX > max_bytes:
            stop = STOP_LIMIT
            break
        if i + V07_PREFIX + length > end:
            stop = STOP_MORE
            break
        payload = _fill_v07(p, i, length, file_position + i, base_address, cells, capacity, row)
        if check:
            computed = _crc32(memory[payload : i + V07_PREFIX + length])
            cells[B_COMPUTED * capacity + row] = computed
            if computed != cells[B_CRC * capacity + row]:
                stop = STOP_CHECKSUM
                break
        i += V07_PREFIX + length
        row += 1
    columns.count = row
    return stop, i


@cython.cfunc
@cython.exceptval(check=False)
def _fill_v07(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    length: cython.longlong,
    position: cython.longlong,
    base_address: cython.longlong,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Fill one row; returns where the payload starts. The span is the payload of a wrapper, else the whole message."""
    magic: cython.Py_ssize_t = p[i + V07_PREFIX]
    at: cython.Py_ssize_t = i + V07_PREFIX + 1 + magic  # of the crc
    attributes: cython.longlong = -1
    if magic == 1:
        attributes = p[i + V07_PREFIX + 1]
    compressed: cython.bint = magic == 1 and (attributes & V07_CODECS) != 0
    cells[B_POSITION * capacity + row] = position
    cells[B_SIZE * capacity + row] = V07_PREFIX + length
    cells[B_FORMAT * capacity + row] = V07
    cells[B_ATTRIBUTES * capacity + row] = attributes
    cells[B_CODEC * capacity + row] = attributes & V07_CODECS if compressed else 0
    cells[B_BASE_OFFSET * capacity + row] = base_address + position
    cells[B_LAST_OFFSET * capacity + row] = base_address + position + V07_PREFIX + length
    cells[B_COUNT * capacity + row] = -1 if compressed else 1
    cells[B_EPOCH * capacity + row] = -1
    cells[B_BASE_TIME * capacity + row] = -1
    cells[B_MAX_TIME * capacity + row] = -1
    cells[B_PID * capacity + row] = -1
    cells[B_PEPOCH * capacity + row] = -1
    cells[B_SEQUENCE * capacity + row] = -1
    cells[B_CRC * capacity + row] = _uint32(p, at)
    cells[B_COMPUTED * capacity + row] = -1
    cells[B_START * capacity + row] = at + 4 if compressed else i
    cells[B_END * capacity + row] = i + V07_PREFIX + length
    return at + 4


# --- search -----------------------------------------------------------------------------------------------------------
def find_candidate(
    memory: object,
    begin: cython.Py_ssize_t,
    rest: cython.longlong,
    low_offset: cython.longlong,
    high_offset: cython.longlong,
    max_bytes: cython.longlong,
) -> int:
    """First position from `begin` on where an entry of magic 0, 1 or 2 could stand, checksum aside; -1: none.

    `rest` is the number of bytes from `memory[0]` to the file's end. All fields that cannot hold every value must hold a
    possible one, because each candidate costs a checksum over its whole length.
    """
    data: cython.const[cython.uchar][::1] = memory
    p: cython.pointer[cython.const[cython.uchar]]
    i: cython.Py_ssize_t
    last: cython.Py_ssize_t = data.shape[0] - V2_SIZE
    size: cython.longlong
    offset: cython.longlong
    if rest <= data.shape[0]:  # the file's last bytes: no longer entry can follow, a short legacy one can
        last = rest - HEADER_MIN - 9
    if last < begin:
        return -1
    if cython.compiled:
        p = cython.address(data[0])
    else:
        p = data
    for i in range(begin, last + 1):
        if p[i + MAGIC_AT] > 2:
            continue
        size = _int32(p, i + SIZE_AT)
        if size < ENTRY_MIN or size + OVERHEAD > max_bytes or size + OVERHEAD > rest - i:
            continue
        offset = _int64(p, i)
        if offset < low_offset or offset > high_offset:
            continue
        if p[i + MAGIC_AT] == 2:
            if size + OVERHEAD >= V2_SIZE and _possible_v2(p, i):
                return i
        elif _possible_legacy(p, i, size):
            return i
    return -1


@cython.cfunc
@cython.exceptval(check=False)
def _possible_v2(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.bint:
    delta: cython.longlong = _int32(p, i + V2_DELTA_AT)
    count: cython.longlong = _int32(p, i + V2_COUNT_AT)
    return (
        delta >= 0
        and 0 <= count <= delta + 1
        and _int32(p, i + V2_EPOCH_AT) >= -1
        and _int64(p, i + V2_PID_AT) >= -1
        and _int16(p, i + V2_PEPOCH_AT) >= -1
        and _int32(p, i + V2_SEQUENCE_AT) >= -1
    )


@cython.cfunc
@cython.exceptval(check=False)
def _possible_legacy(
    p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t, size: cython.longlong
) -> cython.bint:
    """Attributes and the key's length; the value's length may lie beyond the window and is left to the checksum."""
    at: cython.Py_ssize_t = V1_KEY_AT if p[i + MAGIC_AT] == 1 else V0_KEY_AT
    if p[i + LEGACY_ATTRIBUTES_AT] > 15 or size + OVERHEAD < at + 8:
        return False
    return -1 <= _int32(p, i + at) <= size + OVERHEAD - at - 8


def find_candidate_v07(memory: object, begin: cython.Py_ssize_t, rest: cython.longlong, max_bytes: cython.longlong) -> int:
    """First position from `begin` on where a message of Kafka 0.7 could stand, checksum aside; -1: none. As `find_candidate`."""
    data: cython.const[cython.uchar][::1] = memory
    p: cython.pointer[cython.const[cython.uchar]]
    i: cython.Py_ssize_t
    last: cython.Py_ssize_t = data.shape[0] - V07_PREFIX - V07_MIN - 1
    length: cython.longlong
    if rest <= data.shape[0]:
        last = rest - V07_PREFIX - V07_MIN
    if last < begin:
        return -1
    if cython.compiled:
        p = cython.address(data[0])
    else:
        p = data
    for i in range(begin, last + 1):
        if p[i + V07_PREFIX] > 1 or (p[i + V07_PREFIX] == 1 and p[i + V07_PREFIX + 1] > 2):
            continue
        length = _int32(p, i)
        if V07_MIN + p[i + V07_PREFIX] <= length <= max_bytes and length + V07_PREFIX <= rest - i:
            return i
    return -1


# --- decode -----------------------------------------------------------------------------------------------------------
def decode(memory: object, batches: object, last_batch: cython.Py_ssize_t, state: object, records: object) -> int:
    """Decode the records of batches from `state` on, up to row `last_batch` (exclusive), into the record columns.

    `memory` is the buffer that the payload spans refer to: plain records, or decompressed ones. Returns DECODE_DONE; DECODE_FULL
    (call again); DECODE_GROW; or the number of an error in DECODE_ERRORS: then `state` names the batch and the byte of the
    record that could not be read, and `records` holds what stands before it.
    """
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
    result: cython.Py_ssize_t = DONE
    kind: cython.longlong
    if cython.compiled:
        p = cython.address(data[0]) if data.shape[0] else cython.NULL
        b = cython.address(b_view[0])
        r = cython.address(r_view[0])
        h = cython.address(h_view[0])
        s = cython.address(s_view[0])
    else:
        p, b, r, h, s = data, b_view, r_view, h_view, s_view
    s[S_ROW] = 0
    s[S_HEADER] = 0
    while s[S_BATCH] < last_batch:
        kind = b[B_FORMAT * b_capacity + s[S_BATCH]]
        if s[S_POSITION] < 0:
            s[S_POSITION] = b[B_START * b_capacity + s[S_BATCH]]
            s[S_ORDINAL] = 0
            s[S_SHIFT] = 0
        if kind == 2:
            result = _decode_v2(p, b, b_capacity, r, r_capacity, h, h_capacity, s)
        elif kind == V07:
            result = _decode_v07(memory, p, b, b_capacity, r, r_capacity, s)
        else:
            result = _decode_legacy(p, b, b_capacity, r, r_capacity, s)
        if result != DONE:
            break
        s[S_BATCH] += 1
        s[S_POSITION] = -1
    records.count = s[S_ROW]
    records.headers.count = s[S_HEADER]  # of DECODE_GROW: how many it takes
    return result


@cython.cfunc
def _decode_v2(
    p: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    batch: cython.Py_ssize_t = s[S_BATCH]
    end: cython.Py_ssize_t = b[B_END * b_capacity + batch]
    count: cython.longlong = b[B_COUNT * b_capacity + batch]
    base_offset: cython.longlong = b[B_BASE_OFFSET * b_capacity + batch]
    base_time: cython.longlong = b[B_BASE_TIME * b_capacity + batch]
    append_time: cython.bint = (b[B_ATTRIBUTES * b_capacity + batch] & APPEND_TIME) != 0
    max_time: cython.longlong = b[B_MAX_TIME * b_capacity + batch]
    q: cython.Py_ssize_t = s[S_POSITION]
    row: cython.Py_ssize_t = s[S_ROW]
    result: cython.Py_ssize_t = DONE
    length: cython.longlong
    if count < 0:
        return E_COUNT
    while s[S_ORDINAL] < count:
        if row == r_capacity:
            result = FULL
            break
        length, q = _varint(p, s[S_POSITION], end, 32)
        if q < 0:
            result = E_VARINT
            break
        if length < 0 or length > end - q:
            result = E_LENGTH
            break
        result = _record_v2(p, q, q + length, r, r_capacity, row, h, h_capacity, s)
        if result != DONE:
            break
        r[R_BATCH * r_capacity + row] = batch
        r[R_OFFSET * r_capacity + row] = _wrapped(base_offset + r[R_OFFSET * r_capacity + row])
        r[R_NEXT * r_capacity + row] = _wrapped(r[R_OFFSET * r_capacity + row] + 1)
        if append_time:
            r[R_TIME * r_capacity + row] = max_time
        else:
            r[R_TIME * r_capacity + row] = _wrapped(base_time + r[R_TIME * r_capacity + row])
        row += 1
        s[S_ORDINAL] += 1
        s[S_POSITION] = q + length
    s[S_ROW] = row
    if result == DONE and s[S_POSITION] != end:
        return E_COUNT
    return result


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _record_v2(
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
        return E_TRAILING
    r[R_ATTRIBUTES * capacity + row] = p[q]
    value, q = _varint(p, q + 1, end, 64)
    if q < 0:
        return E_VARINT
    r[R_TIME * capacity + row] = value
    value, q = _varint(p, q, end, 32)
    if q < 0:
        return E_VARINT
    r[R_OFFSET * capacity + row] = value
    value, q = _varint(p, q, end, 32)
    if q < 0 or value > end - q:
        return E_KEY
    r[R_KEY * capacity + row] = q
    r[R_KEY_SIZE * capacity + row] = value if value >= 0 else -1
    if value > 0:
        q += value
    value, q = _varint(p, q, end, 32)
    if q < 0 or value > end - q:
        return E_VALUE
    r[R_VALUE * capacity + row] = q
    r[R_VALUE_SIZE * capacity + row] = value if value >= 0 else -1
    if value > 0:
        q += value
    r[R_CRC * capacity + row] = 0
    r[R_CRC_OK * capacity + row] = 1
    value, q = _varint(p, q, end, 32)
    if q < 0 or value < 0 or value > end - q:
        return E_HEADERS
    r[R_HEADERS * capacity + row] = s[S_HEADER]
    r[R_HEADER_COUNT * capacity + row] = value
    if value == 0:
        return DONE if q == end else E_TRAILING
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
            return FULL
        s[S_HEADER] = count
        return GROW
    while count:
        length, q = _varint(p, q, end, 32)
        if q < 0 or length < 0 or length > end - q:
            return E_HEADERS
        h[H_KEY * capacity + at] = q
        h[H_KEY_SIZE * capacity + at] = length
        q += length
        length, q = _varint(p, q, end, 32)
        if q < 0 or length > end - q:
            return E_HEADERS
        h[H_VALUE * capacity + at] = q
        h[H_VALUE_SIZE * capacity + at] = length if length >= 0 else -1
        if length > 0:
            q += length
        at += 1
        count -= 1
    s[S_HEADER] = at
    return DONE if q == end else E_TRAILING


@cython.cfunc
def _decode_legacy(
    p: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """Messages of magic 0 and 1: one plain entry, or the decompressed set of a wrapper."""
    batch: cython.Py_ssize_t = s[S_BATCH]
    end: cython.Py_ssize_t = b[B_END * b_capacity + batch]
    attributes: cython.longlong = b[B_ATTRIBUTES * b_capacity + batch]
    wrapper: cython.bint = (attributes & CODECS) != 0
    q: cython.Py_ssize_t = s[S_POSITION]
    row: cython.Py_ssize_t = 0
    size: cython.longlong = 0
    result: cython.Py_ssize_t = DONE
    if wrapper and s[S_ORDINAL] == 0 and b[B_FORMAT * b_capacity + batch] == 1:
        result = _shift_inner_offsets(p, q, end, b[B_LAST_OFFSET * b_capacity + batch], s)
    while result == DONE and q < end:
        row = s[S_ROW]
        if row == capacity:
            result = FULL
        elif q + HEADER_MIN > end:
            result = E_MESSAGE_CUT
        else:
            size = _int32(p, q + SIZE_AT)
            if size < ENTRY_MIN:
                result = E_MESSAGE_LENGTH
            elif size > end - q - OVERHEAD:
                result = E_MESSAGE_CUT
            else:
                result = _message(p, q, q + OVERHEAD + size, wrapper, r, capacity, row)
        if result == DONE:
            r[R_BATCH * capacity + row] = batch
            r[R_OFFSET * capacity + row] = _wrapped(_int64(p, q) + s[S_SHIFT])
            r[R_NEXT * capacity + row] = _wrapped(r[R_OFFSET * capacity + row] + 1)
            if wrapper and (attributes & APPEND_TIME) and b[B_FORMAT * b_capacity + batch] == 1:
                r[R_TIME * capacity + row] = b[B_MAX_TIME * b_capacity + batch]
            q += OVERHEAD + size
            s[S_ROW] = row + 1
            s[S_ORDINAL] += 1
    s[S_POSITION] = q
    if result == DONE and s[S_ORDINAL] == 0:
        return E_MESSAGE_EMPTY
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
    """What is added to relative inner offsets: wrapper - last inner; 0 for a wrapper of offset 0 (librdkafka), as a 4.3 reader does."""
    size: cython.longlong
    last: cython.longlong = -1
    while q + HEADER_MIN <= end:
        size = _int32(p, q + SIZE_AT)
        if size < ENTRY_MIN or size > end - q - OVERHEAD:
            break
        last = _int64(p, q)
        q += OVERHEAD + size
    if last < 0 or wrapper_offset == 0:
        return DONE
    if wrapper_offset < last:
        return E_MESSAGE_OFFSET
    s[S_SHIFT] = wrapper_offset - last
    return DONE


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
        return E_MESSAGE_MAGIC
    if at + 4 > end:
        return E_MESSAGE_LENGTH
    if inner and (p[q + LEGACY_ATTRIBUTES_AT] & CODECS) != 0:
        return E_MESSAGE_NESTED
    r[R_ATTRIBUTES * capacity + row] = p[q + LEGACY_ATTRIBUTES_AT]
    r[R_CRC * capacity + row] = _uint32(p, q + LEGACY_CRC_AT)
    r[R_CRC_OK * capacity + row] = 1
    r[R_TIME * capacity + row] = _int64(p, q + V1_TIME_AT) if magic == 1 else -1
    r[R_HEADERS * capacity + row] = 0
    r[R_HEADER_COUNT * capacity + row] = 0
    length = _int32(p, at)
    at += 4
    if length > end - at:
        return E_MESSAGE_KEY
    r[R_KEY * capacity + row] = at
    r[R_KEY_SIZE * capacity + row] = length if length >= 0 else -1
    if length > 0:
        at += length
    if at + 4 > end:
        return E_MESSAGE_VALUE
    length = _int32(p, at)
    at += 4
    if length > end - at:
        return E_MESSAGE_VALUE
    r[R_VALUE * capacity + row] = at
    r[R_VALUE_SIZE * capacity + row] = length if length >= 0 else -1
    return DONE


@cython.cfunc
def _decode_v07(
    memory: object,
    p: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """Messages of Kafka 0.7: one plain message, or the flat set of a wrapper (nested ones are opened before)."""
    batch: cython.Py_ssize_t = s[S_BATCH]
    end: cython.Py_ssize_t = b[B_END * b_capacity + batch]
    address: cython.longlong = b[B_BASE_OFFSET * b_capacity + batch]
    row: cython.Py_ssize_t
    length: cython.longlong = 0
    payload: cython.Py_ssize_t = 0
    magic: cython.Py_ssize_t
    computed: cython.longlong
    while s[S_POSITION] < end:
        q: cython.Py_ssize_t = s[S_POSITION]
        row = s[S_ROW]
        if row == capacity:
            return FULL
        if q + V07_PREFIX + 1 > end:
            return E_MESSAGE_CUT
        length = _int32(p, q)
        magic = p[q + V07_PREFIX]
        if magic > 1:
            return E_MESSAGE_MAGIC
        if length < V07_MIN + magic:
            return E_MESSAGE_LENGTH
        if length > end - q - V07_PREFIX:
            return E_MESSAGE_CUT
        payload = q + V07_PREFIX + V07_MIN + magic
        computed = _crc32(memory[payload : q + V07_PREFIX + length])
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
        r[R_CRC * capacity + row] = _uint32(p, payload - 4)
        r[R_CRC_OK * capacity + row] = computed == _uint32(p, payload - 4)
        q += V07_PREFIX + length
        r[R_NEXT * capacity + row] = b[B_LAST_OFFSET * b_capacity + batch] if q >= end else address
        s[S_POSITION] = q
        s[S_ROW] = row + 1
        s[S_ORDINAL] += 1
    return DONE
