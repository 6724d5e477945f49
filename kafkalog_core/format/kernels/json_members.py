"""Members of JSON objects that hold bytes: keys, values and headers, in whatever form they can be told."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.constants import H_KEY, H_KEY_SIZE, H_VALUE, H_VALUE_SIZE
from kafkalog_core.format.kernels.json_text import put_encoded, put_piece, put_text
from kafkalog_core.format.kernels.programs import MODE_BASE64, MODE_TEXT

__all__ = ["put_bytes", "put_headers"]


@cython.cfunc
@cython.exceptval(check=False)
def put_headers(
    p: cython.pointer[cython.const[cython.uchar]],
    h: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    pieces: cython.Py_ssize_t,
    mode: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """The headers of a record as an array; pieces as of the operation `headers`."""
    k: cython.Py_ssize_t
    q: cython.Py_ssize_t
    end: cython.Py_ssize_t
    w[at] = 0x5B  # [
    at += 1
    for k in range(first, first + count):
        if k > first:
            w[at] = 0x2C  # ,
            at += 1
        q = h[H_KEY * capacity + k]
        end = put_text(p, q, q + h[H_KEY_SIZE * capacity + k], w, put_piece(t, s, pieces, w, at))
        if end >= 0:
            at = end
        else:
            at = put_piece(t, s, pieces + 1, w, at)
            at = put_encoded(p, q, q + h[H_KEY_SIZE * capacity + k], t, s, max(1, mode), w, at)
        q = h[H_VALUE * capacity + k]
        at = put_bytes(p, q, h[H_VALUE_SIZE * capacity + k], t, s, pieces + 2, mode, w, at)
        at = put_piece(t, s, pieces + 6, w, at)
    w[at] = 0x5D  # ]
    return at + 1


@cython.cfunc
@cython.exceptval(check=False)
def put_bytes(
    p: cython.pointer[cython.const[cython.uchar]],
    q: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    pieces: cython.Py_ssize_t,
    mode: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """A bytes member with its name: pieces + 0 null, + 1 text, + 2 base64, + 3 hex."""
    end: cython.Py_ssize_t
    if size < 0:
        return put_piece(t, s, pieces, w, at)
    if mode == MODE_TEXT:
        end = put_text(p, q, q + size, w, put_piece(t, s, pieces + 1, w, at))
        if end >= 0:
            return end
        mode = MODE_BASE64
    return put_encoded(p, q, q + size, t, s, mode, w, put_piece(t, s, pieces + 1 + mode, w, at))
