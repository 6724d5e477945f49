"""The walk over entries of magic 0, 1 and 2: one row of the batch columns each."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.checksum import crc32_of, crc32c_of
from kafkalog_core.format.kernels.constants import (
    B_ATTRIBUTES,
    B_BASE_OFFSET,
    B_BASE_TIME,
    B_CODEC,
    B_COMPUTED,
    B_COUNT,
    B_CRC,
    B_END,
    B_EPOCH,
    B_FORMAT,
    B_LAST_OFFSET,
    B_MAX_TIME,
    B_PEPOCH,
    B_PID,
    B_POSITION,
    B_SEQUENCE,
    B_SIZE,
    B_START,
    CODECS,
    ENTRY_MIN,
    HEADER_MIN,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_CRC_AT,
    MAGIC_AT,
    OVERHEAD,
    SIZE_AT,
    STOP_CHECKSUM,
    STOP_END,
    STOP_LENGTH,
    STOP_LIMIT,
    STOP_MAGIC,
    STOP_MORE,
    STOP_ORDER,
    V0_KEY_AT,
    V1_KEY_AT,
    V1_TIME_AT,
    V2_ATTRIBUTES_AT,
    V2_BASE_TIME_AT,
    V2_COUNT_AT,
    V2_CRC_AT,
    V2_DELTA_AT,
    V2_EPOCH_AT,
    V2_MAX_TIME_AT,
    V2_PEPOCH_AT,
    V2_PID_AT,
    V2_SEQUENCE_AT,
    V2_SIZE,
)
from kafkalog_core.format.kernels.integers import (
    int16,
    int32,
    int64,
    uint32,
    wrapped,
)

__all__ = ["checksum_agrees", "entry_stop", "fill_legacy", "fill_v2", "first_known_offset", "walk"]


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

    `file_position` is the file position of `memory[0]`; `previous_offset` the last offset before `begin`; `max_bytes`
    the largest entry; `check` whether checksums are computed. Returns (stop reason, position in `memory` of the first
    entry not counted).
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
        stop = entry_stop(p, i, end, max_bytes)
        if stop != STOP_END:
            break
        size = int32(p, i + SIZE_AT)
        magic = p[i + MAGIC_AT]
        if magic == 2:
            fill_v2(p, i, cells, capacity, row)
        else:
            fill_legacy(p, i, size, magic, cells, capacity, row)
        cells[B_POSITION * capacity + row] = file_position + i
        cells[B_SIZE * capacity + row] = OVERHEAD + size
        if check and not checksum_agrees(memory, p, i, size, magic, cells, capacity, row):
            stop = STOP_CHECKSUM
            break
        i += OVERHEAD + size
        row += 1
        if first_known_offset(cells, capacity, row - 1) <= previous_offset:
            stop = STOP_ORDER
            break
        previous_offset = cells[B_LAST_OFFSET * capacity + row - 1]
    columns.count = row
    return stop, i


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def entry_stop(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    max_bytes: cython.longlong,
) -> cython.Py_ssize_t:
    """Why the bytes at `i` are no entry that is whole, its checksum aside; STOP_END: they are."""
    size: cython.longlong
    magic: cython.longlong
    if i + HEADER_MIN > end:
        return STOP_MORE
    size = int32(p, i + SIZE_AT)
    magic = p[i + MAGIC_AT]
    if size < ENTRY_MIN or (magic == 2 and size + OVERHEAD < V2_SIZE):
        return STOP_LENGTH
    if magic > 2:
        return STOP_MAGIC
    if size + OVERHEAD > max_bytes:
        return STOP_LIMIT
    return STOP_MORE if i + OVERHEAD + size > end else STOP_END


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def first_known_offset(
    cells: cython.pointer[cython.longlong], capacity: cython.Py_ssize_t, row: cython.Py_ssize_t
) -> cython.longlong:
    """Base offset, or of a legacy wrapper, whose base only its content tells, the last one."""
    if cells[B_COUNT * capacity + row] < 0 and cells[B_FORMAT * capacity + row] < 2:
        return cells[B_LAST_OFFSET * capacity + row]
    return cells[B_BASE_OFFSET * capacity + row]


@cython.cfunc
def checksum_agrees(
    memory: object,
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    size: cython.longlong,
    magic: cython.longlong,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.bint:
    """Compute the checksum of an entry into its row; whether it is the one that is stored."""
    end: cython.Py_ssize_t = i + OVERHEAD + size
    computed: cython.longlong
    if magic == 2:
        computed = crc32c_of(memory, p, i + V2_ATTRIBUTES_AT, end)
    else:
        computed = crc32_of(memory, p, i + MAGIC_AT, end)
    cells[B_COMPUTED * capacity + row] = computed
    return computed == cells[B_CRC * capacity + row]


@cython.cfunc
@cython.exceptval(check=False)
def fill_v2(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.void:
    """Fill a row with a batch of magic 2."""
    base: cython.longlong = int64(p, i)
    cells[B_FORMAT * capacity + row] = 2
    cells[B_ATTRIBUTES * capacity + row] = int16(p, i + V2_ATTRIBUTES_AT)
    cells[B_CODEC * capacity + row] = int16(p, i + V2_ATTRIBUTES_AT) & CODECS
    cells[B_BASE_OFFSET * capacity + row] = base
    cells[B_LAST_OFFSET * capacity + row] = wrapped(base + int32(p, i + V2_DELTA_AT))
    cells[B_COUNT * capacity + row] = int32(p, i + V2_COUNT_AT)
    cells[B_EPOCH * capacity + row] = int32(p, i + V2_EPOCH_AT)
    cells[B_BASE_TIME * capacity + row] = int64(p, i + V2_BASE_TIME_AT)
    cells[B_MAX_TIME * capacity + row] = int64(p, i + V2_MAX_TIME_AT)
    cells[B_PID * capacity + row] = int64(p, i + V2_PID_AT)
    cells[B_PEPOCH * capacity + row] = int16(p, i + V2_PEPOCH_AT)
    cells[B_SEQUENCE * capacity + row] = int32(p, i + V2_SEQUENCE_AT)
    cells[B_CRC * capacity + row] = uint32(p, i + V2_CRC_AT)
    cells[B_COMPUTED * capacity + row] = -1
    cells[B_START * capacity + row] = i + V2_SIZE
    cells[B_END * capacity + row] = i + OVERHEAD + int32(p, i + SIZE_AT)


@cython.cfunc
@cython.exceptval(check=False)
def fill_legacy(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    size: cython.longlong,
    magic: cython.longlong,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.void:
    """Fill a row with a message of magic 0 or 1."""
    offset: cython.longlong = int64(p, i)
    attributes: cython.longlong = p[i + LEGACY_ATTRIBUTES_AT]
    compressed: cython.bint = (attributes & CODECS) != 0
    timestamp: cython.longlong = -1
    if magic == 1 and size >= V1_KEY_AT - OVERHEAD:
        timestamp = int64(p, i + V1_TIME_AT)
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
    cells[B_CRC * capacity + row] = uint32(p, i + LEGACY_CRC_AT)
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
    length = int32(p, at)
    at += 4
    if length > 0:
        if length > end - at:
            return
        at += length
    if at + 4 > end:
        return
    length = int32(p, at)
    at += 4
    if length < 0 or length > end - at:
        return
    cells[B_START * capacity + row] = at
    cells[B_END * capacity + row] = at + length
