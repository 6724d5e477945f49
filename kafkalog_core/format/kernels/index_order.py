"""The order of an index's entries.

An entry that is out of order would drag a merge with the log to a wrong place, so such entries are marked before: they
are those that the longest ordered chain of entries leaves out.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.constants import (
    FAULT_BASE,
    FAULT_BEYOND,
    FAULT_POSITION,
    FAULT_UNSORTED,
    I_LEAST,
    I_LIMIT,
    OFFSET_ENTRY,
    TIME_ENTRY,
)
from kafkalog_core.format.kernels.integers import int32

__all__ = ["is_ordered", "mark_disorder"]


def is_ordered(memory: object, count: cython.Py_ssize_t, is_time: cython.bint, state: object) -> bool:
    """Whether all entries can be true by themselves and stand in order; then `state` names what may follow them."""
    data: cython.const[cython.uchar][::1] = memory
    cells: cython.longlong[::1] = state
    p: cython.pointer[cython.const[cython.uchar]]
    i: cython.Py_ssize_t
    size: cython.Py_ssize_t = TIME_ENTRY if is_time else OFFSET_ENTRY
    key_at: cython.Py_ssize_t = size - 4
    offset_at: cython.Py_ssize_t = key_at if is_time else 0
    step: cython.longlong = 0 if is_time else 1
    least: cython.longlong = cells[I_LEAST]
    limit: cython.longlong = cells[I_LIMIT]
    key: cython.longlong
    if count == 0:
        return True
    if cython.compiled:
        p = cython.address(data[0])
    else:
        p = data
    for i in range(count):
        key = int32(p, i * size + key_at)
        if key < least or key >= limit or int32(p, i * size + offset_at) < 0:
            return False
        least = key + step
    cells[I_LEAST] = least
    return True


def mark_disorder(
    memory: object, count: cython.Py_ssize_t, is_time: cython.bint, state: object, marks: object, links: object
) -> None:
    """Mark each entry that cannot be true by itself, and those that the longest ordered chain leaves out.

    `marks` is a byte for each entry and takes its fault, 0: none; `links` has two cells for each.
    """
    data: cython.const[cython.uchar][::1] = memory
    cells: cython.longlong[::1] = state
    faults: cython.uchar[::1] = marks
    chain: cython.longlong[::1] = links
    p: cython.pointer[cython.const[cython.uchar]]
    i: cython.Py_ssize_t
    size: cython.Py_ssize_t = TIME_ENTRY if is_time else OFFSET_ENTRY
    key_at: cython.Py_ssize_t = size - 4
    offset_at: cython.Py_ssize_t = key_at if is_time else 0
    step: cython.longlong = 0 if is_time else 1
    least: cython.longlong = cells[I_LEAST]
    key: cython.longlong
    length: cython.Py_ssize_t = 0
    low: cython.Py_ssize_t
    high: cython.Py_ssize_t
    middle: cython.Py_ssize_t
    if cython.compiled:
        p = cython.address(data[0])
    else:
        p = data
    for i in range(count):
        key = int32(p, i * size + key_at)
        if int32(p, i * size + offset_at) < 0:
            faults[i] = FAULT_BASE
        elif key >= cells[I_LIMIT]:
            faults[i] = FAULT_BEYOND
        elif key < step:  # the first batch is never indexed
            faults[i] = FAULT_POSITION
        else:
            faults[i] = FAULT_UNSORTED
            if key < least:
                continue
            low = 0
            high = length
            while low < high:  # chain[length]: the entry with the smallest key that ends a chain that long
                middle = (low + high) >> 1
                if int32(p, chain[middle] * size + key_at) + step <= key:
                    low = middle + 1
                else:
                    high = middle
            chain[count + i] = chain[low - 1] if low else -1
            chain[low] = i
            if low == length:
                length += 1
    if length:
        i = chain[length - 1]
        cells[I_LEAST] = int32(p, i * size + key_at) + step
        while i >= 0:
            faults[i] = 0
            i = chain[count + i]
