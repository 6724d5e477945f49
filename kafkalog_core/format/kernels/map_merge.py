"""Offset maps of parts of a log, put together: what is in one goes into that of the parts before it.

A map's entries are packed in the order of their places. Where they go into one of the same size, each goes near the one
before it, so that memory is read from one end to the other.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.clean_numbers import (
    ENTRY_HIGH,
    ENTRY_LOW,
    ENTRY_OFFSET,
    ENTRY_SIZE,
    MAP_DONE,
    MAP_FULL,
    Q_CAPACITY,
    Q_KEYS,
    Q_SLOTS,
)
from kafkalog_core.format.kernels.key_map import entry_of

__all__ = ["merge_entries", "pack_entries"]


def pack_entries(
    table: object, first: cython.Py_ssize_t, last: cython.Py_ssize_t, entries: object
) -> cython.Py_ssize_t:
    """Copy the entries of some slots one behind the other; returns how many there are.

    Args:
        table: the entries of a map.
        first: slot to begin with.
        last: slot behind the last one.
        entries: room for as many as there are slots.
    """
    t_view: cython.longlong[::1] = table
    e_view: cython.longlong[::1] = entries
    slot: cython.Py_ssize_t
    at: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    if cython.compiled:
        t = cython.address(t_view[0])
        e = cython.address(e_view[0])
    else:
        t, e = t_view, e_view
    for slot in range(first, last):
        at = slot * ENTRY_SIZE
        if t[at + ENTRY_OFFSET] != 0:
            e[to + ENTRY_LOW] = t[at + ENTRY_LOW]
            e[to + ENTRY_HIGH] = t[at + ENTRY_HIGH]
            e[to + ENTRY_OFFSET] = t[at + ENTRY_OFFSET]
            to += ENTRY_SIZE
    return to // ENTRY_SIZE


def merge_entries(entries: object, count: cython.Py_ssize_t, state: object, table: object) -> cython.Py_ssize_t:
    """Put packed entries of a later part into a map; returns MAP_DONE, or MAP_FULL where there is no room for one.

    Args:
        entries: those of `pack_entries`.
        count: how many there are.
        state: the `Q_*` cells of the map.
        table: its entries.
    """
    e_view: cython.const[cython.longlong][::1] = entries
    q_view: cython.longlong[::1] = state
    t_view: cython.longlong[::1] = table
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    of: cython.Py_ssize_t
    if count == 0:
        return MAP_DONE
    if cython.compiled:
        e = cython.address(e_view[0])
        q = cython.address(q_view[0])
        t = cython.address(t_view[0])
    else:
        e, q, t = e_view, q_view, t_view
    for row in range(count):
        of = row * ENTRY_SIZE
        at = entry_of(e[of + ENTRY_LOW], e[of + ENTRY_HIGH], q[Q_SLOTS], t)
        if at < 0:
            return MAP_FULL
        if t[at + ENTRY_OFFSET] == 0:
            if q[Q_KEYS] >= q[Q_CAPACITY]:
                return MAP_FULL
            t[at + ENTRY_LOW] = e[of + ENTRY_LOW]
            t[at + ENTRY_HIGH] = e[of + ENTRY_HIGH]
            q[Q_KEYS] += 1
        else:
            t[at + ENTRY_HIGH] |= 1
        t[at + ENTRY_OFFSET] = e[of + ENTRY_OFFSET]
    return MAP_DONE
