r"""How long a line of a record can become: a cheap worst case, and an exact size for records that are large.

A byte may take six in JSON (`\\u00xx`), so the worst case of a large value is far from what it needs; memory is taken
for what it needs.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

__all__ = ["exact_bytes", "most_bytes"]

from kafkalog_core.format.kernels.constants import (
    H_KEY,
    H_KEY_SIZE,
    H_VALUE,
    H_VALUE_SIZE,
    R_HEADER_COUNT,
    R_HEADERS,
    R_KEY,
    R_KEY_SIZE,
    R_VALUE,
    R_VALUE_SIZE,
)
from kafkalog_core.format.kernels.json_text import text_size
from kafkalog_core.format.kernels.programs import BOUND_BYTE, BOUND_NAMES


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def most_bytes(
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.longlong:
    """The most that key, value and headers of a record can take, by their sizes alone."""
    bound: cython.longlong = 0
    k: cython.Py_ssize_t
    first: cython.Py_ssize_t = r[R_HEADERS * r_capacity + row]
    if r[R_KEY_SIZE * r_capacity + row] > 0:
        bound += r[R_KEY_SIZE * r_capacity + row]
    if r[R_VALUE_SIZE * r_capacity + row] > 0:
        bound += r[R_VALUE_SIZE * r_capacity + row]
    for k in range(first, first + r[R_HEADER_COUNT * r_capacity + row]):
        bound += h[H_KEY_SIZE * h_capacity + k] + BOUND_NAMES
        if h[H_VALUE_SIZE * h_capacity + k] > 0:
            bound += h[H_VALUE_SIZE * h_capacity + k]
    return bound * BOUND_BYTE


@cython.cfunc
@cython.exceptval(check=False)
def exact_bytes(
    p: cython.pointer[cython.const[cython.uchar]],
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    text_mode: cython.Py_ssize_t,
    mode: cython.Py_ssize_t,
) -> cython.longlong:
    """What key and value of a record take in one mode, and its headers in another, but for the names around them."""
    bound: cython.longlong = text_size(p, r[R_KEY * r_capacity + row], r[R_KEY_SIZE * r_capacity + row], text_mode)
    k: cython.Py_ssize_t
    first: cython.Py_ssize_t = r[R_HEADERS * r_capacity + row]
    bound += text_size(p, r[R_VALUE * r_capacity + row], r[R_VALUE_SIZE * r_capacity + row], text_mode)
    for k in range(first, first + r[R_HEADER_COUNT * r_capacity + row]):
        bound += text_size(p, h[H_KEY * h_capacity + k], h[H_KEY_SIZE * h_capacity + k], mode) + BOUND_NAMES
        bound += text_size(p, h[H_VALUE * h_capacity + k], h[H_VALUE_SIZE * h_capacity + k], mode)
    return bound
