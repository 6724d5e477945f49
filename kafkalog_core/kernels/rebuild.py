"""Rebuilding of indexes from batches: entries of the offset and the time index, and leader epochs (LogSegment.recover).

Entries are written as the bytes of the files, big-endian.
"""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import cells_of, put_big_endian, room_of, wrapped

__all__ = ["rebuild"]


def rebuild(
    columns: object,
    last: cython.Py_ssize_t,
    rules: cython.Py_ssize_t,
    state: object,
    entries: object,
    times: object,
    epochs: object,
) -> cython.Py_ssize_t:
    """Add batches from row X_ROW of `state` to `last` (exclusive). Return why it stopped, a REBUILD number.

    Args:
        columns: batch columns.
        last: row to stop before.
        rules: rules of the release, REBUILD_LAST to REBUILD_EPOCHS.
        state: the `X_*` cells. X_ROW: the row that it stopped at; X_NEW_ENTRIES, X_NEW_TIMES and X_EPOCHS: the filled
            rows of the three buffers that follow, from 0 on in each call.
        entries: room for an entry of the offset index for each row.
        times: the same for the time index.
        epochs: room for a leader epoch and its first offset for each row, two cells each.

    After REBUILD_FIRST put the first offset in the compressed message into X_FIRST and call again.
    """
    b: cython.pointer[cython.longlong] = cells_of(columns.cells)
    x: cython.pointer[cython.longlong] = cells_of(state)
    o: cython.pointer[cython.uchar] = room_of(entries)
    t: cython.pointer[cython.uchar] = room_of(times)
    e: cython.pointer[cython.longlong] = cells_of(epochs)
    capacity: cython.Py_ssize_t = columns.capacity
    row: cython.Py_ssize_t
    stop: cython.Py_ssize_t = REBUILD_DONE
    x[X_NEW_ENTRIES] = x[X_NEW_TIMES] = x[X_EPOCHS] = 0
    row = x[X_ROW]
    # b: batch columns; x: state; o, t, e: new offset entries, time entries and epochs. All rows before `row` are in
    # them.
    while row < last:
        stop = _batch(b, capacity, row, rules, x, o, t)
        if stop != REBUILD_DONE:
            break
        if (
            rules & REBUILD_EPOCHS
            and b[B_FORMAT * capacity + row] == MAGIC_V2
            and b[B_EPOCH * capacity + row] > x[X_EPOCH]
        ):
            x[X_EPOCH] = b[B_EPOCH * capacity + row]
            e[2 * x[X_EPOCHS]] = x[X_EPOCH]
            e[2 * x[X_EPOCHS] + 1] = b[B_BASE_OFFSET * capacity + row]
            x[X_EPOCHS] += 1
        row += 1
    x[X_ROW] = row
    return stop


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _batch(
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    rules: cython.Py_ssize_t,
    x: cython.pointer[cython.longlong],
    o: cython.pointer[cython.uchar],
    t: cython.pointer[cython.uchar],
) -> cython.Py_ssize_t:
    """Add one batch: the largest timestamp so far, and index entries if the interval has passed."""
    last_offset: cython.longlong = b[B_LAST_OFFSET * capacity + row]
    relative: cython.longlong = wrapped(last_offset - x[X_BASE])
    if rules & REBUILD_RANGE and (last_offset < x[X_BASE] or relative < 0 or relative > MAX_RELATIVE):
        return REBUILD_OVERFLOW
    if b[B_MAX_TIME * capacity + row] > x[X_MAX_TIME]:
        x[X_MAX_TIME] = b[B_MAX_TIME * capacity + row]
        x[X_MAX_OFFSET] = last_offset
    if b[B_POSITION * capacity + row] - x[X_INDEXED] <= x[X_INTERVAL]:
        return REBUILD_DONE
    return _index(b, capacity, row, rules, x, o, t)


@cython.cfunc
@cython.exceptval(check=False)
def _index(
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    rules: cython.Py_ssize_t,
    x: cython.pointer[cython.longlong],
    o: cython.pointer[cython.uchar],
    t: cython.pointer[cython.uchar],
) -> cython.Py_ssize_t:
    """Add the entries of a batch that is more than the interval after the last one with entries."""
    offset: cython.longlong = b[B_LAST_OFFSET * capacity + row]
    position: cython.longlong = b[B_POSITION * capacity + row]
    at: cython.Py_ssize_t
    if not rules & REBUILD_LAST:
        offset = b[B_BASE_OFFSET * capacity + row]
        if b[B_FORMAT * capacity + row] < MAGIC_V2 and b[B_COUNT * capacity + row] < 0:
            if x[X_FIRST] == LEAST:
                return REBUILD_FIRST
            offset = x[X_FIRST]
            x[X_FIRST] = LEAST
    if x[X_ENTRIES] >= x[X_ROOM]:
        return REBUILD_FULL
    if x[X_ENTRIES] > 0 and offset <= x[X_LAST_OFFSET]:
        return REBUILD_DISORDER
    if rules & REBUILD_TIMES:
        if x[X_TIMES] >= x[X_TIME_ROOM]:
            return REBUILD_FULL
        if x[X_TIMES] > 0 and x[X_MAX_OFFSET] < x[X_TIME_LAST_OFFSET]:
            return REBUILD_DISORDER
        if x[X_MAX_TIME] > x[X_TIME_LAST]:
            at = x[X_NEW_TIMES] * TIME_ENTRY
            put_big_endian(t, at, x[X_MAX_TIME], 8)
            put_big_endian(t, at + 8, wrapped(x[X_MAX_OFFSET] - x[X_BASE]), 4)
            x[X_NEW_TIMES] += 1
            x[X_TIMES] += 1
            x[X_TIME_LAST] = x[X_MAX_TIME]
            x[X_TIME_LAST_OFFSET] = x[X_MAX_OFFSET]
    at = x[X_NEW_ENTRIES] * OFFSET_ENTRY
    put_big_endian(o, at, wrapped(offset - x[X_BASE]), 4)
    put_big_endian(o, at + 4, position, 4)
    x[X_NEW_ENTRIES] += 1
    x[X_ENTRIES] += 1
    x[X_LAST_OFFSET] = offset
    x[X_INDEXED] = position
    return REBUILD_DONE
