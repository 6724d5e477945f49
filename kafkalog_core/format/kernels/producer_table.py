"""The producers of a replay: found by id, added, and their open transactions, the one that began first in front.

A producer is a row of cells (`P_*`); `slots` finds it by its id: an open-addressing table of row + 1, 0 where nothing
is. Open transactions are a binary heap by first offset, because the transaction index asks for the first; its places
are cells of the rows too, from the first row on.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.constants import (
    E_ABORTED,
    E_FIRST,
    E_LAST,
    E_PID,
    E_SIZE,
    E_STABLE,
    G_CAPACITY,
    G_COUNT,
    G_ENDED,
    G_HOLES,
    G_MASK,
    G_OPEN,
    P_BATCHES,
    P_COORDINATOR,
    P_DATA_TIME,
    P_EPOCH,
    P_HEAP,
    P_HOLES,
    P_MARKER,
    P_PID,
    P_PLACE,
    P_SIZE,
    P_TIME,
    P_TXN_FIRST,
)
from kafkalog_core.format.kernels.integers import wrapped

__all__ = ["begin_transaction", "end_empty", "end_transaction", "find", "find_producer", "index_producers", "insert"]


def find_producer(producer_id: cython.longlong, state: object, producers: object, slots: object) -> cython.Py_ssize_t:
    """The first cell of a producer; -1: it is not known."""
    g_view: cython.longlong[::1] = state
    r_view: cython.longlong[::1] = producers
    s_view: cython.longlong[::1] = slots
    g: cython.pointer[cython.longlong]
    r: cython.pointer[cython.longlong]
    s: cython.pointer[cython.longlong]
    if cython.compiled:
        g = cython.address(g_view[0])
        r = cython.address(r_view[0])
        s = cython.address(s_view[0])
    else:
        g, r, s = g_view, r_view, s_view
    return find(producer_id, g, r, s)


def index_producers(state: object, producers: object, slots: object) -> None:
    """Fill an empty table of ids."""
    g_view: cython.longlong[::1] = state
    r_view: cython.longlong[::1] = producers
    s_view: cython.longlong[::1] = slots
    g: cython.pointer[cython.longlong]
    r: cython.pointer[cython.longlong]
    s: cython.pointer[cython.longlong]
    number: cython.Py_ssize_t
    if cython.compiled:
        g = cython.address(g_view[0])
        r = cython.address(r_view[0])
        s = cython.address(s_view[0])
    else:
        g, r, s = g_view, r_view, s_view
    for number in range(g[G_COUNT]):
        s[_slot(r[number * P_SIZE + P_PID], g, r, s)] = number + 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def find(
    pid: cython.longlong,
    g: cython.pointer[cython.longlong],
    r: cython.pointer[cython.longlong],
    s: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """The first cell of a producer; -1: it is not known."""
    slot: cython.Py_ssize_t = _slot(pid, g, r, s)
    return (s[slot] - 1) * P_SIZE if s[slot] != 0 else -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _slot(
    pid: cython.longlong,
    g: cython.pointer[cython.longlong],
    r: cython.pointer[cython.longlong],
    s: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """Where a producer stands in the table, or would: ids are folded to 32 bits and spread by a multiplication."""
    mask: cython.longlong = g[G_MASK]
    slot: cython.Py_ssize_t = ((((pid ^ (pid >> 32)) & 0xFFFFFFFF) * 0x61C88647) >> 15) & mask
    while s[slot] != 0 and r[(s[slot] - 1) * P_SIZE + P_PID] != pid:
        slot = (slot + 1) & mask
    return slot


@cython.cfunc
@cython.exceptval(check=False)
def insert(
    pid: cython.longlong,
    epoch: cython.longlong,
    g: cython.pointer[cython.longlong],
    r: cython.pointer[cython.longlong],
    s: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """A new producer, of whom nothing but the epoch is known; -1: there is no room."""
    at: cython.Py_ssize_t = g[G_COUNT] * P_SIZE
    if g[G_COUNT] >= g[G_CAPACITY]:
        return -1
    g[G_COUNT] += 1
    s[_slot(pid, g, r, s)] = g[G_COUNT]
    r[at + P_PID] = pid
    r[at + P_EPOCH] = epoch
    r[at + P_COORDINATOR] = -1
    r[at + P_TIME] = r[at + P_DATA_TIME] = -1
    r[at + P_MARKER] = -1
    r[at + P_TXN_FIRST] = -1
    r[at + P_PLACE] = -1
    r[at + P_HOLES] = g[G_HOLES]
    r[at + P_BATCHES] = -1
    return at


# --- open transactions ------------------------------------------------------------------------------------------------
@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def begin_transaction(
    r: cython.pointer[cython.longlong],
    at: cython.Py_ssize_t,
    offset: cython.longlong,
    g: cython.pointer[cython.longlong],
) -> cython.void:
    """Put a transaction into the heap."""
    r[at + P_TXN_FIRST] = offset
    g[G_OPEN] += 1
    _rise(r, at, g[G_OPEN] - 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def end_transaction(
    r: cython.pointer[cython.longlong],
    at: cython.Py_ssize_t,
    offset: cython.longlong,
    is_aborted: cython.bint,
    g: cython.pointer[cython.longlong],
    e: cython.pointer[cython.longlong],
) -> cython.void:
    """Take a transaction out of the heap and give it out, with the first offset of those that are still open."""
    place: cython.Py_ssize_t = r[at + P_PLACE]
    last: cython.Py_ssize_t
    first: cython.longlong = r[at + P_TXN_FIRST]
    g[G_OPEN] -= 1
    last = r[g[G_OPEN] * P_SIZE + P_HEAP]
    if last != at:
        if r[last + P_TXN_FIRST] < r[at + P_TXN_FIRST]:
            _rise(r, last, place)
        else:
            _sink(r, last, place, g[G_OPEN])
    _give_out(r, at, first, offset, is_aborted, g, e)
    r[at + P_TXN_FIRST] = -1
    r[at + P_PLACE] = -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def end_empty(
    r: cython.pointer[cython.longlong],
    at: cython.Py_ssize_t,
    offset: cython.longlong,
    is_aborted: cython.bint,
    g: cython.pointer[cython.longlong],
    e: cython.pointer[cython.longlong],
) -> cython.void:
    """Give out a transaction without data: it begins and ends at its marker (ProducerAppendInfo before 2.8)."""
    _give_out(r, at, offset, offset, is_aborted, g, e)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _give_out(
    r: cython.pointer[cython.longlong],
    at: cython.Py_ssize_t,
    first: cython.longlong,
    offset: cython.longlong,
    is_aborted: cython.bint,
    g: cython.pointer[cython.longlong],
    e: cython.pointer[cython.longlong],
) -> cython.void:
    """Fill the next row of ended transactions."""
    out: cython.Py_ssize_t = g[G_ENDED] * E_SIZE
    g[G_ENDED] += 1
    e[out + E_PID] = r[at + P_PID]
    e[out + E_FIRST] = first
    e[out + E_LAST] = offset
    e[out + E_ABORTED] = is_aborted
    e[out + E_STABLE] = wrapped(offset + 1) if g[G_OPEN] == 0 else r[r[P_HEAP] + P_TXN_FIRST]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _rise(r: cython.pointer[cython.longlong], at: cython.Py_ssize_t, place: cython.Py_ssize_t) -> cython.void:
    """Give a transaction a place from `place` on up, behind those that began before it."""
    above: cython.Py_ssize_t
    other: cython.Py_ssize_t
    while place > 0:
        above = (place - 1) >> 1
        other = r[above * P_SIZE + P_HEAP]
        if r[other + P_TXN_FIRST] <= r[at + P_TXN_FIRST]:
            break
        r[place * P_SIZE + P_HEAP] = other
        r[other + P_PLACE] = place
        place = above
    r[place * P_SIZE + P_HEAP] = at
    r[at + P_PLACE] = place


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _sink(
    r: cython.pointer[cython.longlong], at: cython.Py_ssize_t, place: cython.Py_ssize_t, count: cython.Py_ssize_t
) -> cython.void:
    """Give a transaction a place from `place` on down, before those that began behind it; `count` have a place."""
    below: cython.Py_ssize_t
    other: cython.Py_ssize_t
    while 2 * place + 1 < count:
        below = 2 * place + 1
        other = r[below * P_SIZE + P_HEAP]
        if below + 1 < count and r[r[(below + 1) * P_SIZE + P_HEAP] + P_TXN_FIRST] < r[other + P_TXN_FIRST]:
            below += 1
            other = r[below * P_SIZE + P_HEAP]
        if r[other + P_TXN_FIRST] >= r[at + P_TXN_FIRST]:
            break
        r[place * P_SIZE + P_HEAP] = other
        r[other + P_PLACE] = place
        place = below
    r[place * P_SIZE + P_HEAP] = at
    r[at + P_PLACE] = place
