"""What a batch of magic 2 says of itself, held against itself and against its records."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.constants import (
    B_BASE_OFFSET,
    B_COUNT,
    B_FORMAT,
    B_LAST_OFFSET,
    MAGIC_V2,
    R_BATCH,
    R_OFFSET,
)
from kafkalog_core.format.kernels.integers import wrapped

__all__ = ["find_contradiction", "find_outside"]


def find_contradiction(batches: object, first: cython.Py_ssize_t) -> int:
    """The first row from `first` on whose offsets and record count cannot all be true; the number of rows: none."""
    cells_view: cython.longlong[::1] = batches.cells
    capacity: cython.Py_ssize_t = batches.capacity
    count: cython.Py_ssize_t = batches.count
    row: cython.Py_ssize_t = first
    cells: cython.pointer[cython.longlong]
    base: cython.longlong
    last: cython.longlong
    span: cython.longlong
    records: cython.longlong
    if cython.compiled:
        cells = cython.address(cells_view[0])
    else:
        cells = cells_view
    while row < count:
        if cells[B_FORMAT * capacity + row] == MAGIC_V2:
            base = cells[B_BASE_OFFSET * capacity + row]
            last = cells[B_LAST_OFFSET * capacity + row]
            records = cells[B_COUNT * capacity + row]
            span = wrapped(last - base)
            if span < 0 or last < base or records < 0 or records - 1 > span:
                return row
        row += 1
    return count


def find_outside(batches: object, records: object, first: cython.Py_ssize_t) -> int:
    """The first record from row `first` on at an offset outside of its batch of magic 2; the number of rows: none.

    A batch whose last offset lies before its first one holds no offsets at all: its records are passed over.
    """
    b_view: cython.longlong[::1] = batches.cells
    b_capacity: cython.Py_ssize_t = batches.capacity
    r_view: cython.longlong[::1] = records.cells
    r_capacity: cython.Py_ssize_t = records.capacity
    count: cython.Py_ssize_t = records.count
    row: cython.Py_ssize_t = first
    batch: cython.Py_ssize_t
    b: cython.pointer[cython.longlong]
    r: cython.pointer[cython.longlong]
    base: cython.longlong
    last: cython.longlong
    offset: cython.longlong
    if cython.compiled:
        b, r = cython.address(b_view[0]), cython.address(r_view[0])
    else:
        b, r = b_view, r_view
    while row < count:
        batch = r[R_BATCH * r_capacity + row]
        base = b[B_BASE_OFFSET * b_capacity + batch]
        last = b[B_LAST_OFFSET * b_capacity + batch]
        offset = r[R_OFFSET * r_capacity + row]
        if (offset < base or offset > last) and base <= last and b[B_FORMAT * b_capacity + batch] == MAGIC_V2:
            return row
        row += 1
    return count
