"""Checksums of spans of the buffer: short ones without leaving C where the kernels are compiled, else the library's."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.checksums import crc32, crc32c

if cython.compiled:
    from cython.cimports.kafkalog_core.format.kernels.short_crc import (
        short_crc32,
        short_crc32_bytes,
        short_crc32c,
        short_crc32c_bytes,
    )

__all__ = ["crc32_of", "crc32c_of"]


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def crc32_of(
    memory: object, p: cython.pointer[cython.const[cython.uchar]], start: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.longlong:
    """CRC-32 of `memory[start:end]`, whose bytes `p` points to."""
    if cython.compiled and end - start <= short_crc32_bytes:
        return short_crc32(p + start, end - start)
    return crc32(memory[start:end])


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def crc32c_of(
    memory: object, p: cython.pointer[cython.const[cython.uchar]], start: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.longlong:
    """CRC-32C of `memory[start:end]`, whose bytes `p` points to."""
    if cython.compiled and end - start <= short_crc32c_bytes:
        return short_crc32c(p + start, end - start)
    return crc32c(memory[start:end])
