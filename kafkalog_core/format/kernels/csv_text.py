"""How the kernels write fields of CSV (RFC 4180): text as it is, in quotes where it must be, else base64."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.json_text import has_c1, is_utf8, put_encoded
from kafkalog_core.format.kernels.programs import MODE_BASE64, MODE_TEXT

if cython.compiled:
    from cython.cimports.libc.string import memcpy

__all__ = ["put_csv_bytes", "put_quoted"]


@cython.cfunc
@cython.exceptval(check=False)
def put_csv_bytes(
    p: cython.pointer[cython.const[cython.uchar]],
    q: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    mode: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Bytes as two fields, text and base64, of which one is empty; in other modes than that of text as one field."""
    end: cython.Py_ssize_t
    if mode == MODE_TEXT:
        end = at if size < 0 else _put_text(p, q, q + size, w, at)
        if end >= 0:
            w[end] = 0x2C  # ,
            return end + 1
        w[at] = 0x2C
        at += 1
        mode = MODE_BASE64
    if size < 0:
        return at
    if size == 0:
        return put_quoted(w, at, at)
    return put_encoded(p, q, q + size, t, s, mode, w, at) - 1  # without the closing quote


@cython.cfunc
@cython.exceptval(check=False)
def _put_text(
    p: cython.pointer[cython.const[cython.uchar]],
    q: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """A text as one field; -1 where it is no exact UTF-8, or has control characters but tab, LF and CR."""
    k: cython.Py_ssize_t
    c: cython.uchar
    high: cython.uchar = 0
    odd: cython.uchar = 0
    special: cython.uchar = 0
    for k in range(q, end):
        c = p[k]
        high |= c
        odd |= ((c < 0x20) & (c != 0x09) & (c != 0x0A) & (c != 0x0D)) | (c == 0x7F)
        special |= (c == 0x22) | (c == 0x2C) | (c == 0x0A) | (c == 0x0D)
    if odd or (high >= 0x80 and (not is_utf8(p, q, end) or has_c1(p, q, end))):
        return -1
    if cython.compiled:
        memcpy(cython.address(w[at]), cython.address(p[q]), end - q)
    else:
        w[at : at + end - q] = p[q:end]
    if special or end == q:
        return put_quoted(w, at, at + end - q)
    return at + end - q


@cython.cfunc
@cython.exceptval(check=False)
def put_quoted(w: cython.pointer[cython.uchar], start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Put what was written from `start` to `end` into quotes, and those inside of it twice; not an empty array."""
    k: cython.Py_ssize_t
    quotes: cython.Py_ssize_t = 0
    to: cython.Py_ssize_t
    if end - start == 2 and w[start] == 0x5B and w[start + 1] == 0x5D:  # []
        return end
    for k in range(start, end):
        quotes += w[k] == 0x22
    to = end + quotes + 1
    w[to] = 0x22
    for k in range(end - 1, start - 1, -1):  # from behind, as it grows in its place
        to -= 1
        w[to] = w[k]
        if w[k] == 0x22:
            to -= 1
            w[to] = 0x22
    w[start] = 0x22
    return end + quotes + 2
