"""The newest record of each key of a log: its key and value are copied, and a later value takes the place of it.

A key has a row of N_SIZE adjacent cells, since rows are accessed one at a time, and each is then a line or two of the
processor's cache. An offset map (`key_map`) leads from the digest of a key to its row: the entry has the number of the
row instead of an offset. Rows are in the order in which their keys came first.
"""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import bytes_of, cells_of, constant_cells_of, room_of
from kafkalog_core.kernels.key_map import digest_ahead, entry_of

__all__ = ["join_newest", "keep_newest"]

if cython.compiled:
    from cython.cimports.libc.string import memcpy


def keep_newest(
    memory: object,
    records: object,
    marks: object,
    digests: object,
    state: object,
    table: object,
    rows: object,
    data: object,
) -> cython.bint:
    """Keep the marked records that have a key. Return whether all are; else there is no room for that in row N_NEXT.

    Args:
        memory: the buffer that the records refer to.
        records: record columns.
        marks: a byte for each record; those with 0 are left out.
        digests: room for two cells for each record.
        state: the `Q_*` cells of the map, and the `N_*` cells after them.
        table: the entries of the map.
        rows: the kept rows, with room for Q_CAPACITY of them.
        data: the bytes of keys and values.
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    r: cython.pointer[cython.longlong] = cells_of(records.cells)
    m: cython.pointer[cython.const[cython.uchar]] = bytes_of(marks)
    d: cython.pointer[cython.longlong] = cells_of(digests)
    q: cython.pointer[cython.longlong] = cells_of(state)
    t: cython.pointer[cython.longlong] = cells_of(table)
    k: cython.pointer[cython.longlong] = cells_of(rows)
    w: cython.pointer[cython.uchar] = room_of(data)
    capacity: cython.Py_ssize_t = records.capacity
    count: cython.Py_ssize_t = records.count
    room: cython.Py_ssize_t = len(data)
    row: cython.Py_ssize_t = q[N_NEXT]
    ready: cython.Py_ssize_t = row
    # p: bytes of `memory`; r: record columns; m: marks; q: state; t: table; k: rows; w: data. Records before `row` are
    # done, digests of records before `ready` are computed. The record is passed on as the row N_RECORD of the state.
    while row < count:
        while ready < count and ready < row + KEYS_AHEAD:
            ready = digest_ahead(memory, p, r, capacity, ready, count, q[Q_SLOTS], t, d)
        if m[row] != 0 and r[R_KEY_SIZE * capacity + row] >= 0:
            q[N_RECORD + N_LOW] = d[2 * row]
            q[N_RECORD + N_HIGH] = d[2 * row + 1]
            q[N_RECORD + N_OFFSET] = r[R_OFFSET * capacity + row]
            q[N_RECORD + N_TIME] = r[R_TIME * capacity + row]
            q[N_RECORD + N_KEY] = r[R_KEY * capacity + row]
            q[N_RECORD + N_KEY_SIZE] = r[R_KEY_SIZE * capacity + row]
            q[N_RECORD + N_VALUE] = r[R_VALUE * capacity + row]
            q[N_RECORD + N_VALUE_SIZE] = r[R_VALUE_SIZE * capacity + row]
            q[N_RECORD + N_TOMBSTONE] = q[N_RECORD + N_OFFSET] if q[N_RECORD + N_VALUE_SIZE] < 0 else -1
            q[N_RECORD + N_REPLACED] = -1
            if not _keep_row(memory, p, q, N_RECORD, q, t, k, w, room, data):
                q[N_NEXT] = row
                return False
        row += 1
    q[N_NEXT] = count
    return True


def join_newest(
    later: object,
    count: cython.Py_ssize_t,
    later_data: object,
    state: object,
    table: object,
    rows: object,
    data: object,
) -> cython.bint:
    """Add the rows of a later part of the log. Return whether all are; else there is no room for that in row N_NEXT.

    Args:
        later: the rows that `keep_newest` has kept of it.
        count: number of these rows.
        later_data: the bytes that they refer to.
        state: as in `keep_newest`, and so are the others.
        table: the entries of the map.
        rows: the kept rows.
        data: the bytes of keys and values.
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(later_data)
    e: cython.pointer[cython.const[cython.longlong]] = constant_cells_of(later)
    q: cython.pointer[cython.longlong] = cells_of(state)
    t: cython.pointer[cython.longlong] = cells_of(table)
    k: cython.pointer[cython.longlong] = cells_of(rows)
    w: cython.pointer[cython.uchar] = room_of(data)
    room: cython.Py_ssize_t = len(data)
    row: cython.Py_ssize_t
    # e: rows to add; q: state; t: table; k: rows; w: data. The rows before `row` are added.
    for row in range(q[N_NEXT], count):
        if not _keep_row(later_data, p, e, row * N_SIZE, q, t, k, w, room, data):
            q[N_NEXT] = row
            return False
    q[N_NEXT] = count
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _keep_row(
    memory: object,
    p: cython.pointer[cython.const[cython.uchar]],
    e: cython.pointer[cython.const[cython.longlong]],
    of: cython.Py_ssize_t,
    q: cython.pointer[cython.longlong],
    t: cython.pointer[cython.longlong],
    k: cython.pointer[cython.longlong],
    w: cython.pointer[cython.uchar],
    room: cython.Py_ssize_t,
    data: object,
) -> cython.bint:
    """Keep what the row at cell `of` of `e` says of a key. Return whether there is room; else nothing has changed."""
    at: cython.Py_ssize_t = entry_of(e[of + N_LOW], e[of + N_HIGH], q[Q_SLOTS], t)
    is_new: cython.bint
    row: cython.Py_ssize_t
    key_size: cython.Py_ssize_t = 0
    value_size: cython.Py_ssize_t = e[of + N_VALUE_SIZE]
    value_room: cython.Py_ssize_t = 0
    if at < 0:
        return False
    is_new = t[at + ENTRY_OFFSET] == 0
    if is_new:
        if q[Q_KEYS] >= q[Q_CAPACITY]:
            return False
        row = q[Q_KEYS] * N_SIZE
        key_size = e[of + N_KEY_SIZE]
    else:
        row = (t[at + ENTRY_OFFSET] - 1) * N_SIZE
        value_room = k[row + N_ROOM]
    # A value that grows gets twice its room, so that all rooms that were left are smaller than those in use.
    if value_size > value_room:
        value_room = max(value_size, 2 * value_room)
        if q[N_BYTES] + key_size + value_room > room:
            return False
    elif q[N_BYTES] + key_size > room:
        return False
    if is_new:
        t[at + ENTRY_LOW] = e[of + N_LOW]
        t[at + ENTRY_HIGH] = e[of + N_HIGH]
        q[Q_KEYS] += 1
        t[at + ENTRY_OFFSET] = q[Q_KEYS]
        k[row + N_LOW] = e[of + N_LOW]
        k[row + N_HIGH] = e[of + N_HIGH]
        k[row + N_KEY] = q[N_BYTES]
        k[row + N_KEY_SIZE] = key_size
        _copy_field(memory, p, e[of + N_KEY], key_size, w, data, q[N_BYTES])
        q[N_BYTES] += key_size
        k[row + N_ROOM] = 0
        k[row + N_VALUE_SIZE] = -1
        k[row + N_TOMBSTONE] = -1
        k[row + N_REPLACED] = -1
    if e[of + N_TOMBSTONE] >= 0:
        if k[row + N_VALUE_SIZE] >= 0:
            k[row + N_REPLACED] = k[row + N_OFFSET]
        k[row + N_TOMBSTONE] = e[of + N_TOMBSTONE]
    if e[of + N_REPLACED] >= 0:
        k[row + N_REPLACED] = e[of + N_REPLACED]
    if value_room > k[row + N_ROOM]:
        k[row + N_VALUE] = q[N_BYTES]
        k[row + N_ROOM] = value_room
        q[N_BYTES] += value_room
    if value_size > 0:
        _copy_field(memory, p, e[of + N_VALUE], value_size, w, data, k[row + N_VALUE])
    k[row + N_VALUE_SIZE] = value_size
    k[row + N_OFFSET] = e[of + N_OFFSET]
    k[row + N_TIME] = e[of + N_TIME]
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _copy_field(
    memory: object,
    p: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    data: object,
    at: cython.Py_ssize_t,
) -> cython.void:
    """Copy bytes of `memory`, to which `p` points, to `data`, to which `w` points."""
    if cython.compiled:
        memcpy(w + at, p + start, size)
    else:
        data[at : at + size] = memory[start : start + size]
