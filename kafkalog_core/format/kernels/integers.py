"""How the kernels read integers: big-endian fields and zigzag varints, at a position of a buffer.

Callers have checked that fields of a fixed size are there. What the interpreter and C would do differently is written
so that they agree: `wrapped` wraps at 64 bits, varints are put together unsigned and masked, every read says its sign.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

__all__ = ["int16", "int32", "int64", "uint32", "varint", "wrapped"]

# A literal over 31 bits would be a Python integer in compiled code, and so would all that is computed with it.
MASK32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
SIGN32 = cython.declare(cython.longlong, 0x80000000)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def wrapped(value: cython.longlong) -> cython.longlong:
    """The value as a signed 64-bit integer; C has wrapped it already."""
    if not cython.compiled:
        value = (value + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000
    return value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def int16(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.longlong:
    """Signed, at position `i`."""
    value: cython.longlong = p[i]
    value = (value << 8) | p[i + 1]
    return value - ((value & 0x8000) << 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def uint32(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.longlong:
    """Unsigned, at position `i`."""
    value: cython.longlong = p[i]
    value = (value << 8) | p[i + 1]
    value = (value << 8) | p[i + 2]
    return (value << 8) | p[i + 3]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def int32(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.longlong:
    """Signed, at position `i`."""
    value: cython.longlong = uint32(p, i)
    return value - ((value & SIGN32) << 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def int64(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.longlong:
    """Signed, at position `i`."""
    high: cython.longlong = int32(p, i)
    return (high << 32) | uint32(p, i + 4)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def varint(
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
