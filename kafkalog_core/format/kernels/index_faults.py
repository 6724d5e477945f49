"""What the checks of both indexes share: how a fault is written down, and what the last good entry was."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.constants import (
    B_BASE_OFFSET,
    B_COUNT,
    B_FORMAT,
    F_BASE,
    F_CODE,
    F_COUNT,
    F_FIRST,
    F_GOOD,
    F_GOOD_FIRST,
    F_GOOD_SECOND,
    F_HELD,
    F_LAST,
    F_POSITION,
    F_SECOND,
    F_SLOT,
    FAULT_SIZE,
    I_FAULTS,
    I_GOOD,
    I_GOOD_FIRST,
    I_GOOD_SECOND,
    I_LAST,
)
from kafkalog_core.format.kernels.integers import wrapped

__all__ = ["add_fault", "first_offset", "set_good"]


@cython.cfunc
@cython.exceptval(check=False)
def add_fault(
    faults: cython.pointer[cython.longlong],
    state: cython.pointer[cython.longlong],
    code: cython.longlong,
    slot: cython.longlong,
    first: cython.longlong,
    second: cython.longlong,
    position: cython.longlong,
    base: cython.longlong,
    last: cython.longlong,
    held: cython.longlong,
) -> cython.void:
    """Write down a fault, or count it to the one before where it goes on from there."""
    at: cython.Py_ssize_t = FAULT_SIZE * state[I_FAULTS]
    if (
        at
        and faults[at - FAULT_SIZE + F_CODE] == code
        and faults[at - FAULT_SIZE + F_SLOT] + faults[at - FAULT_SIZE + F_COUNT] == slot
    ):
        faults[at - FAULT_SIZE + F_COUNT] += 1
        return
    faults[at + F_CODE] = code
    faults[at + F_SLOT] = slot
    faults[at + F_COUNT] = 1
    faults[at + F_FIRST] = first
    faults[at + F_SECOND] = second
    faults[at + F_POSITION] = position
    faults[at + F_BASE] = base
    faults[at + F_LAST] = last
    faults[at + F_HELD] = held
    faults[at + F_GOOD] = state[I_GOOD]
    faults[at + F_GOOD_FIRST] = state[I_GOOD_FIRST]
    faults[at + F_GOOD_SECOND] = state[I_GOOD_SECOND]
    state[I_FAULTS] += 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def set_good(
    state: cython.pointer[cython.longlong], slot: cython.longlong, first: cython.longlong, second: cython.longlong
) -> cython.void:
    """Remember the last entry that was found good."""
    state[I_GOOD] = slot
    state[I_GOOD_FIRST] = first
    state[I_GOOD_SECOND] = second


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def first_offset(
    s: cython.pointer[cython.longlong],
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.longlong:
    """The batch's first offset; of a legacy wrapper, whose content alone knows it, the lowest that it can be."""
    if cells[B_COUNT * capacity + row] < 0 and cells[B_FORMAT * capacity + row] < 2:
        return wrapped(s[I_LAST] + 1)
    return cells[B_BASE_OFFSET * capacity + row]
