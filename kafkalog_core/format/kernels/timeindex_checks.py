"""The time index against the log: entries and batches, both in file order, merged in one pass."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.constants import (
    B_FORMAT,
    B_LAST_OFFSET,
    B_MAX_TIME,
    B_POSITION,
    FAULT_BEYOND,
    FAULT_GAP,
    FAULT_MAXIMUM,
    FAULT_ROWS,
    FAULT_TIME,
    FAULT_UNSORTED,
    I_BASE,
    I_ENTRY,
    I_FAULTS,
    I_GOOD,
    I_GOOD_FIRST,
    I_HOLE,
    I_LAST,
    I_ROW,
    I_SLOT,
    I_TOP,
    I_TOP_OFFSET,
    I_TOP_POSITION,
    I_TOP_V2,
    INDEX_DONE,
    INDEX_FULL,
    INDEX_MORE,
    ROW_DAMAGE,
    ROW_END,
    TIME_ENTRY,
)
from kafkalog_core.format.kernels.index_faults import add_fault, first_offset, set_good
from kafkalog_core.format.kernels.integers import int32, int64, wrapped

__all__ = ["check_time_entries"]


def check_time_entries(
    memory: object,
    count: cython.Py_ssize_t,
    has_more: cython.bint,
    marks: object,
    batches: object,
    state: object,
    faults: object,
) -> int:
    """Check entries of a time index against batches. Otherwise as `check_offset_entries`."""
    data: cython.const[cython.uchar][::1] = memory
    marked: cython.const[cython.uchar][::1] = marks
    cells: cython.longlong[::1] = batches.cells
    s: cython.longlong[::1] = state
    found: cython.longlong[::1] = faults
    capacity: cython.Py_ssize_t = batches.capacity
    rows: cython.Py_ssize_t = batches.count
    result: cython.Py_ssize_t
    if cython.compiled:
        result = _merge_times(
            cython.address(data[0]),
            count,
            has_more,
            cython.address(marked[0]),
            cython.address(cells[0]),
            capacity,
            rows,
            cython.address(s[0]),
            cython.address(found[0]),
        )
    else:
        result = _merge_times(data, count, has_more, marked, cells, capacity, rows, s, found)
    return result


@cython.cfunc
@cython.exceptval(check=False)
def _merge_times(
    p: cython.pointer[cython.const[cython.uchar]],
    count: cython.Py_ssize_t,
    has_more: cython.bint,
    marked: cython.pointer[cython.const[cython.uchar]],
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    rows: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
    found: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    positions: cython.Py_ssize_t = B_POSITION * capacity
    formats: cython.Py_ssize_t = B_FORMAT * capacity
    lasts: cython.Py_ssize_t = B_LAST_OFFSET * capacity
    times: cython.Py_ssize_t = B_MAX_TIME * capacity
    base: cython.longlong = s[I_BASE]
    row: cython.Py_ssize_t = s[I_ROW]
    entry: cython.Py_ssize_t = s[I_ENTRY]
    form: cython.longlong
    last: cython.longlong
    timestamp: cython.longlong
    offset: cython.longlong
    mark: cython.longlong
    result: cython.Py_ssize_t = INDEX_DONE
    while row < rows and result == INDEX_DONE:
        form = cells[formats + row]
        if form == ROW_DAMAGE:
            s[I_HOLE] = 1
            row += 1
            continue
        last = cells[lasts + row]
        while entry < count:
            offset = wrapped(base + int32(p, TIME_ENTRY * entry + 8))
            mark = marked[entry]
            if offset > last and mark == 0 and form != ROW_END:
                break
            timestamp = int64(p, TIME_ENTRY * entry)
            if (
                offset == last
                and timestamp == cells[times + row]
                and timestamp > s[I_TOP]
                and mark == 0
                and form == 2
                and timestamp > s[I_GOOD_FIRST]
            ):
                set_good(s, s[I_SLOT] + entry, timestamp, offset)  # nearly all are like this
            elif s[I_FAULTS] > FAULT_ROWS - 3:
                result = INDEX_FULL
                break
            elif mark:
                add_fault(found, s, mark, s[I_SLOT] + entry, timestamp, offset, -1, -1, -1, -1)
            else:
                _judge_time(s, found, s[I_SLOT] + entry, timestamp, offset, cells, capacity, row)
            entry += 1
        if result == INDEX_DONE and entry == count and has_more:
            result = INDEX_MORE
        if result == INDEX_DONE:
            if form >= 0:
                _pass_batch(s, last, cells[times + row], cells[positions + row], form)
            row += 1
    s[I_ROW] = row
    s[I_ENTRY] = entry
    return result


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _pass_batch(
    s: cython.pointer[cython.longlong],
    last: cython.longlong,
    timestamp: cython.longlong,
    position: cython.longlong,
    form: cython.longlong,
) -> cython.void:
    """Take the batch's timestamp into the largest ones."""
    s[I_LAST] = last
    s[I_HOLE] = 0
    if timestamp > s[I_TOP]:
        s[I_TOP] = timestamp
        s[I_TOP_POSITION] = position
        s[I_TOP_OFFSET] = last
    if timestamp > s[I_TOP_V2] and form == 2:
        s[I_TOP_V2] = timestamp


@cython.cfunc
@cython.exceptval(check=False)
def _judge_time(
    s: cython.pointer[cython.longlong],
    found: cython.pointer[cython.longlong],
    slot: cython.longlong,
    timestamp: cython.longlong,
    offset: cython.longlong,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.void:
    """One entry whose offset is not behind the batch."""
    position: cython.longlong = cells[B_POSITION * capacity + row]
    last: cython.longlong = cells[B_LAST_OFFSET * capacity + row]
    base: cython.longlong = first_offset(s, cells, capacity, row)
    form: cython.longlong = cells[B_FORMAT * capacity + row]
    held: cython.longlong = cells[B_MAX_TIME * capacity + row]
    code: cython.longlong = 0
    if form == ROW_END:
        if s[I_HOLE]:
            return
        code = FAULT_BEYOND
        last = s[I_LAST]
    elif offset < base:
        if s[I_HOLE]:  # what holds it may be what is damaged
            return
        code = FAULT_GAP
    elif form > 0 and timestamp != held:
        code = FAULT_TIME
    elif s[I_TOP] > timestamp:
        code = FAULT_MAXIMUM
        held = s[I_TOP]
    elif s[I_GOOD] >= 0 and timestamp <= s[I_GOOD_FIRST]:
        code = FAULT_UNSORTED
    if code:
        add_fault(found, s, code, slot, timestamp, offset, position, base, last, held)
    else:
        set_good(s, slot, timestamp, offset)
