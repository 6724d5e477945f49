"""Integers, buffers and checksums for all kernels: big-endian fields and zigzag varints at a position of a buffer.

The caller has checked that fixed-size fields are within the buffer. The interpreter and C must agree: `wrapped` wraps
at 64 bits, varints are assembled unsigned and masked, and the name of every read states its sign.
"""

from __future__ import annotations

from kafkalog_core.format.checksums import crc32, crc32c
from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.constants import *

__all__ = [
    "bytes_of",
    "cells_of",
    "constant_cells_of",
    "control_kind",
    "crc32_of",
    "crc32c_of",
    "int16",
    "int32",
    "int64",
    "ints_of",
    "put_big_endian",
    "room_of",
    "sequence_of",
    "shorts_of",
    "uint32",
    "uncleared",
    "varint",
    "wrapped",
]

# In compiled code a literal over 31 bits is a Python integer, and so is every value computed from it.
MASK32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
SIGN32 = cython.declare(cython.longlong, 0x80000000)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def wrapped(value: cython.longlong) -> cython.longlong:
    """Return the value as a signed 64-bit integer; C has wrapped it already."""
    if not cython.compiled:
        value = (value + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000
    return value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def int16(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.longlong:
    """Read a signed big-endian integer at position `i`."""
    value: cython.longlong = p[i]
    value = (value << 8) | p[i + 1]
    return value - ((value & 0x8000) << 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def uint32(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.longlong:
    """Read an unsigned big-endian integer at position `i`."""
    value: cython.longlong = p[i]
    value = (value << 8) | p[i + 1]
    value = (value << 8) | p[i + 2]
    return (value << 8) | p[i + 3]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def int32(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.longlong:
    """Read a signed big-endian integer at position `i`."""
    value: cython.longlong = uint32(p, i)
    return value - ((value & SIGN32) << 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def int64(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.longlong:
    """Read a signed big-endian integer at position `i`."""
    high: cython.longlong = int32(p, i)
    return (high << 32) | uint32(p, i + 4)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def varint(
    p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t, end: cython.Py_ssize_t, bits: cython.Py_ssize_t
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """Return a zigzag value of `bits` bits (32 or 64) and the next position; position -1: it is cut or too long.

    Overlong forms are accepted and surplus high bits of the last byte dropped, as by ByteUtils.readVarint, readVarlong.
    """
    raw: cython.ulonglong = 0
    byte: cython.ulonglong
    shift: cython.Py_ssize_t = 0
    # `raw` has the bits of the bytes before `i`, `shift` of them.
    while i < end:
        byte = p[i]
        i += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if bits == 32:
                raw &= MASK32
            elif not cython.compiled:  # C has dropped the bits above 64
                raw &= 0xFFFFFFFFFFFFFFFF
            half: cython.longlong = raw >> 1
            sign: cython.longlong = raw & 1
            return (half ^ -sign, i)
        shift += 7
        if shift >= bits:
            break
    return (0, -1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put_big_endian(
    o: cython.pointer[cython.uchar], at: cython.Py_ssize_t, value: cython.longlong, size: cython.Py_ssize_t
) -> cython.void:
    """Write the low `size` bytes of an integer, big-endian."""
    # o: output. The bytes from `at + size` on are written, the lowest one last.
    while size > 0:
        size -= 1
        o[at + size] = value & 0xFF
        value >>= 8


# --- buffers ----------------------------------------------------------------------------------------------------------
if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize


def uncleared(size_bytes: cython.Py_ssize_t) -> bytearray:
    """Return a buffer of arbitrary content where the kernels are compiled: clearing it would take noticeable time."""
    if cython.compiled:
        room = PyByteArray_FromStringAndSize(cython.NULL, size_bytes)
    else:
        room = bytearray(size_bytes)
    return room


@cython.cfunc
def bytes_of(memory: object) -> cython.pointer[cython.const[cython.uchar]]:
    """Return a pointer to the bytes of a buffer, NULL for an empty one; the buffer itself where not compiled.

    The pointer is valid as long as the caller holds the object and does not resize it. The same is true for the others.
    """
    view: cython.const[cython.uchar][::1] = memory
    if cython.compiled:
        return cython.address(view[0]) if view.shape[0] else cython.NULL
    return view


@cython.cfunc
def room_of(memory: object) -> cython.pointer[cython.uchar]:
    """Return a pointer to bytes that may be written, as `bytes_of` does."""
    view: cython.uchar[::1] = memory
    if cython.compiled:
        return cython.address(view[0]) if view.shape[0] else cython.NULL
    return view


@cython.cfunc
def cells_of(cells: object) -> cython.pointer[cython.longlong]:
    """Return a pointer to int64 cells (of columns or of a state), as `bytes_of` does."""
    view: cython.longlong[::1] = cells
    if cython.compiled:
        return cython.address(view[0]) if view.shape[0] else cython.NULL
    return view


@cython.cfunc
def constant_cells_of(cells: object) -> cython.pointer[cython.const[cython.longlong]]:
    """Return a pointer to int64 cells that are not written, as `bytes_of` does."""
    view: cython.const[cython.longlong][::1] = cells
    if cython.compiled:
        return cython.address(view[0]) if view.shape[0] else cython.NULL
    return view


@cython.cfunc
def ints_of(cells: object) -> cython.pointer[cython.int]:
    """Return a pointer to int32 cells, as `bytes_of` does."""
    view: cython.int[::1] = cells
    if cython.compiled:
        return cython.address(view[0]) if view.shape[0] else cython.NULL
    return view


@cython.cfunc
def shorts_of(cells: object) -> cython.pointer[cython.short]:
    """Return a pointer to int16 cells, as `bytes_of` does."""
    view: cython.short[::1] = cells
    if cython.compiled:
        return cython.address(view[0]) if view.shape[0] else cython.NULL
    return view


# --- checksums --------------------------------------------------------------------------------------------------------
if cython.compiled:
    from cython.cimports.kafkalog_core.kernels.short_crc import (
        short_crc32,
        short_crc32_bytes,
        short_crc32c,
        short_crc32c_bytes,
    )


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def crc32_of(
    memory: object, p: cython.pointer[cython.const[cython.uchar]], start: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.longlong:
    """Return the CRC-32 of `memory[start:end]`; `p` points to the bytes of `memory`.

    Short spans are computed in C without a Python call, longer ones by the library.
    """
    if cython.compiled and end - start <= short_crc32_bytes:
        return short_crc32(p + start, end - start)
    return crc32(memory[start:end])


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def crc32c_of(
    memory: object, p: cython.pointer[cython.const[cython.uchar]], start: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.longlong:
    """Return the CRC-32C of `memory[start:end]`, as `crc32_of` does."""
    if cython.compiled and end - start <= short_crc32c_bytes:
        return short_crc32c(p + start, end - start)
    return crc32c(memory[start:end])


# --- fields of a record that no column holds --------------------------------------------------------------------------
@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def sequence_of(
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
    offset: cython.longlong,
) -> cython.longlong:
    """Return the sequence number of a record: base + offset delta (DefaultRecordBatch.incrementSequence wraps it)."""
    base: cython.longlong = b[B_SEQUENCE * capacity + batch]
    delta: cython.longlong = wrapped(offset - b[B_BASE_OFFSET * capacity + batch])
    if base < 0:
        return -1
    if base > MAX_SEQUENCE - delta:
        return delta - (MAX_SEQUENCE - base) - 1
    return base + delta


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def control_kind(
    p: cython.pointer[cython.const[cython.uchar]],
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.longlong:
    """Return the type in the key of a control record (ControlRecordType.parseTypeId); CONTROL_TYPES: unknown."""
    start: cython.Py_ssize_t = r[R_KEY * r_capacity + row]
    if r[R_KEY_SIZE * r_capacity + row] >= 4 and p[start] < 0x80 and p[start + 2] == 0 and p[start + 3] < CONTROL_TYPES:
        return p[start + 3]
    return CONTROL_TYPES
