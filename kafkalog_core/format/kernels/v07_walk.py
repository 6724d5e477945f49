"""The walk over messages of Kafka 0.7: one row of the batch columns each."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.checksum import crc32_of
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
    STOP_CHECKSUM,
    STOP_END,
    STOP_LENGTH,
    STOP_LIMIT,
    STOP_MAGIC,
    STOP_MORE,
    V07,
    V07_CODECS,
    V07_MIN,
    V07_PREFIX,
)
from kafkalog_core.format.kernels.integers import int32, uint32, wrapped

__all__ = ["walk_v07"]


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
        length = int32(p, i)
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
            computed = crc32_of(memory, p, payload, i + V07_PREFIX + length)
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
    cells[B_BASE_OFFSET * capacity + row] = wrapped(base_address + position)
    cells[B_LAST_OFFSET * capacity + row] = wrapped(base_address + position + V07_PREFIX + length)
    cells[B_COUNT * capacity + row] = -1 if compressed else 1
    cells[B_EPOCH * capacity + row] = -1
    cells[B_BASE_TIME * capacity + row] = -1
    cells[B_MAX_TIME * capacity + row] = -1
    cells[B_PID * capacity + row] = -1
    cells[B_PEPOCH * capacity + row] = -1
    cells[B_SEQUENCE * capacity + row] = -1
    cells[B_CRC * capacity + row] = uint32(p, at)
    cells[B_COMPUTED * capacity + row] = -1
    cells[B_START * capacity + row] = at + 4 if compressed else i
    cells[B_END * capacity + row] = i + V07_PREFIX + length
    return at + 4
