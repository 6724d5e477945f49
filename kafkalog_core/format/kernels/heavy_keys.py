"""The keys with most bytes of a log, in a table that does not grow (weighted Space-Saving, in sets).

A digest leads to a set of a few counters. A key that has none takes the place of the one with the least bytes of its
set, and inherits its bytes as what it may have had before: so they are known up to that.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.clean_numbers import (
    WHY_EXPIRED,
    WHY_LATEST,
    WHY_SUPERSEDED,
    WHY_TOMBSTONE,
    Y_BEFORE,
    Y_BYTES,
    Y_HIGH,
    Y_KEY_SIZE,
    Y_LOW,
    Y_NAME,
    Y_RECORDS,
    Y_SETS,
    Y_SIZE,
    Y_WAYS,
)
from kafkalog_core.format.kernels.constants import R_KEY, R_KEY_SIZE, R_VALUE_SIZE

__all__ = ["weigh_keys"]


def weigh_keys(
    memory: object, records: object, reasons: object, digests: object, counters: object, names: object
) -> None:
    """Count the keys and values of those records that were looked up in the offset map.

    Args:
        memory: the buffer that the records refer to.
        records: record columns.
        reasons: `WHY_*` of each of them.
        digests: of the keys of those that were looked up.
        counters: the `H_*` cells of all counters.
        names: room for the first bytes of the key of each counter.
    """
    data: cython.const[cython.uchar][::1] = memory
    r_view: cython.longlong[::1] = records.cells
    capacity: cython.Py_ssize_t = records.capacity
    count: cython.Py_ssize_t = records.count
    w_view: cython.const[cython.uchar][::1] = reasons
    d_view: cython.longlong[::1] = digests
    h_view: cython.longlong[::1] = counters
    n_view: cython.uchar[::1] = names
    row: cython.Py_ssize_t
    why: cython.uchar
    size: cython.longlong
    at: cython.Py_ssize_t
    if cython.compiled:
        p = cython.address(data[0]) if data.shape[0] else cython.NULL
        r = cython.address(r_view[0])
        h = cython.address(h_view[0])
        names_at = cython.address(n_view[0])
    else:
        p, r, h, names_at = data, r_view, h_view, n_view
    for row in range(count):
        why = w_view[row]
        if why != WHY_LATEST and why != WHY_SUPERSEDED and why != WHY_TOMBSTONE and why != WHY_EXPIRED:
            continue
        size = r[R_KEY_SIZE * capacity + row]
        if size < 0:
            continue
        at = _counter_of(d_view[2 * row], d_view[2 * row + 1], h)
        if h[at + Y_RECORDS] == 0 or h[at + Y_LOW] != d_view[2 * row] or h[at + Y_HIGH] != d_view[2 * row + 1]:
            h[at + Y_LOW] = d_view[2 * row]
            h[at + Y_HIGH] = d_view[2 * row + 1]
            h[at + Y_BEFORE] += h[at + Y_BYTES]
            h[at + Y_BYTES] = 0
            h[at + Y_RECORDS] = 0
            h[at + Y_KEY_SIZE] = size
            _name(p, r[R_KEY * capacity + row], size, names_at, at // Y_SIZE * Y_NAME)
        h[at + Y_RECORDS] += 1
        h[at + Y_BYTES] += size
        if r[R_VALUE_SIZE * capacity + row] > 0:
            h[at + Y_BYTES] += r[R_VALUE_SIZE * capacity + row]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _counter_of(low: cython.longlong, high: cython.longlong, h: cython.pointer[cython.longlong]) -> cython.Py_ssize_t:
    """The first cell of a key's counter, else of the one with the least bytes of its set."""
    at: cython.Py_ssize_t = (low & (Y_SETS - 1)) * Y_WAYS * Y_SIZE
    end: cython.Py_ssize_t = at + Y_WAYS * Y_SIZE
    least: cython.Py_ssize_t = at
    while at < end:
        if h[at + Y_LOW] == low and h[at + Y_HIGH] == high and h[at + Y_RECORDS] > 0:
            return at
        if h[at + Y_BYTES] + h[at + Y_BEFORE] < h[least + Y_BYTES] + h[least + Y_BEFORE]:
            least = at
        at += Y_SIZE
    return least


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _name(
    p: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    size: cython.longlong,
    names: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.void:
    """Keep the first bytes of a key."""
    index: cython.Py_ssize_t
    kept: cython.Py_ssize_t = min(size, Y_NAME)
    for index in range(kept):
        names[at + index] = p[start + index]
