"""Compressed payloads of many batches, inflated one behind the other by C, as far as that vouches for them."""

from __future__ import annotations

from kafkalog_core.format.kernels._cython import cython
from kafkalog_core.format.kernels.constants import *

__all__ = ["inflate_rows", "uncleared"]

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize
    from cython.cimports.kafkalog_core.format.kernels.inflate_copy import INFLATE_ROOM
    from cython.cimports.kafkalog_core.format.kernels.inflate_gzip import inflate_gzip
    from cython.cimports.kafkalog_core.format.kernels.inflate_lz4 import inflate_lz4
    from cython.cimports.kafkalog_core.format.kernels.inflate_snappy import inflate_snappy


def uncleared(size_bytes: cython.Py_ssize_t) -> bytearray:
    """A buffer with whatever stood in that memory before: to clear it would take a noticeable part of the time."""
    if cython.compiled:
        room = PyByteArray_FromStringAndSize(cython.NULL, size_bytes)
    else:
        room = bytearray(size_bytes)
    return room


def inflate_rows(
    memory: object,
    batches: object,
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    max_bytes: cython.longlong,
    arena: object,
    size: cython.Py_ssize_t,
    enough: cython.Py_ssize_t,
    columns: object,
) -> int:
    """Inflate the payloads of rows `first` to `last` (exclusive) into `arena`, from byte `size` of it on.

    Ends behind the row that fills the arena up to byte `enough` or beyond it, or at a row that is not vouched for: it
    can be good all the same. Returns the row where it ends; of a row that only the room is missing for, its complement.
    The spans of what is inflated go into `columns`, a copy of `batches`. The interpreted twin vouches for nothing.
    """
    if not cython.compiled:
        return first
    data: cython.const[cython.uchar][::1] = memory
    b_view: cython.longlong[::1] = batches.cells
    b_capacity: cython.Py_ssize_t = batches.capacity
    c_view: cython.longlong[::1] = columns.cells
    c_capacity: cython.Py_ssize_t = columns.capacity
    a_view: cython.uchar[::1] = arena
    capacity: cython.Py_ssize_t = a_view.shape[0]
    row: cython.Py_ssize_t = first
    start: cython.Py_ssize_t
    end: cython.Py_ssize_t
    is_excused: cython.bint
    most: cython.Py_ssize_t
    written: cython.Py_ssize_t
    if data.shape[0] == 0 or capacity == 0 or max_bytes < 0:
        return first
    p: cython.pointer[cython.const[cython.uchar]] = cython.address(data[0])
    readable: cython.pointer[cython.const[cython.uchar]] = p + data.shape[0]
    a: cython.pointer[cython.uchar] = cython.address(a_view[0])
    b: cython.pointer[cython.longlong] = cython.address(b_view[0])
    c: cython.pointer[cython.longlong] = cython.address(c_view[0])
    while row < last and size < enough:
        start = b[B_START * b_capacity + row]
        end = b[B_END * b_capacity + row]
        # A stream that is longer than the room has no content that fits into it, but for what is odd.
        if start < 0 or end <= start or end > data.shape[0] or end - start > capacity:
            break
        if b[B_FORMAT * b_capacity + row] > MAGIC_V2:
            break
        most = capacity - size if capacity - size < max_bytes else max_bytes
        if b[B_CODEC * b_capacity + row] == CODEC_LZ4:
            is_excused = b[B_FORMAT * b_capacity + row] == MAGIC_V0
            written = inflate_lz4(p + start, end - start, readable, a + size, most, a + capacity, is_excused)
        elif b[B_CODEC * b_capacity + row] == CODEC_SNAPPY:
            written = inflate_snappy(p + start, end - start, readable, a + size, most, a + capacity)
        elif b[B_CODEC * b_capacity + row] == CODEC_GZIP:
            written = inflate_gzip(p + start, end - start, readable, a + size, most, a + capacity)
        else:
            break
        if written < 0:
            if written == INFLATE_ROOM and size > 0 and most < max_bytes:
                return ~row
            break
        c[B_START * c_capacity + row] = size
        size += written
        c[B_END * c_capacity + row] = size
        row += 1
    return row
