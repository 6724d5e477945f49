"""The offset index against the log: entries and batches, both in file order, merged in one pass."""

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
    B_POSITION,
    B_SIZE,
    FAULT_BEYOND,
    FAULT_GAP,
    FAULT_INSIDE,
    FAULT_OFFSET,
    FAULT_POSITION,
    FAULT_REACH,
    FAULT_ROWS,
    I_BASE,
    I_ENTRY,
    I_FAULTS,
    I_INDEXED,
    I_LAST,
    I_OPEN,
    I_OPEN_OFFSET,
    I_OPEN_POSITION,
    I_ROW,
    I_SLOT,
    I_START,
    I_STRETCH,
    I_STRETCH_START,
    INDEX_DONE,
    INDEX_FULL,
    INDEX_MORE,
    OFFSET_ENTRY,
    ROW_DAMAGE,
    ROW_END,
)
from kafkalog_core.format.kernels.index_faults import add_fault, first_offset, set_good
from kafkalog_core.format.kernels.integers import int32, wrapped

__all__ = ["check_offset_entries"]


def check_offset_entries(
    memory: object,
    count: cython.Py_ssize_t,
    has_more: cython.bint,
    marks: object,
    batches: object,
    state: object,
    faults: object,
) -> int:
    """Check entries of an offset index against batches, both from where `state` stands.

    `has_more`: whether the file has entries behind these. Returns INDEX_DONE, INDEX_MORE or INDEX_FULL.
    """
    data: cython.const[cython.uchar][::1] = memory
    marked: cython.const[cython.uchar][::1] = marks
    cells: cython.longlong[::1] = batches.cells
    s: cython.longlong[::1] = state
    found: cython.longlong[::1] = faults
    capacity: cython.Py_ssize_t = batches.capacity
    rows: cython.Py_ssize_t = batches.count
    result: cython.Py_ssize_t
    if cython.compiled:
        result = _merge_offsets(
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
        result = _merge_offsets(data, count, has_more, marked, cells, capacity, rows, s, found)
    return result


@cython.cfunc
@cython.exceptval(check=False)
def _merge_offsets(
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
    sizes: cython.Py_ssize_t = B_SIZE * capacity
    formats: cython.Py_ssize_t = B_FORMAT * capacity
    lasts: cython.Py_ssize_t = B_LAST_OFFSET * capacity
    base: cython.longlong = s[I_BASE]
    row: cython.Py_ssize_t = s[I_ROW]
    entry: cython.Py_ssize_t = s[I_ENTRY]
    position: cython.longlong
    end: cython.longlong
    offset: cython.longlong
    place: cython.longlong
    mark: cython.longlong
    result: cython.Py_ssize_t = INDEX_DONE
    while row < rows and result == INDEX_DONE:
        position = cells[positions + row]
        end = position + cells[sizes + row]
        while entry < count:
            place = int32(p, OFFSET_ENTRY * entry + 4)
            mark = marked[entry]
            if place >= end and mark == 0:
                break
            offset = wrapped(base + int32(p, OFFSET_ENTRY * entry))
            if place == position and offset == cells[lasts + row] and mark == 0 and s[I_OPEN] < 0:
                _pass_place(s, place)  # what brokers of today write, ahead of all else
                set_good(s, s[I_SLOT] + entry, offset, place)
            elif s[I_FAULTS] > FAULT_ROWS - 3:
                result = INDEX_FULL
                break
            elif mark:
                add_fault(found, s, mark, s[I_SLOT] + entry, offset, place, -1, -1, -1, -1)
            elif cells[formats + row] != ROW_DAMAGE:
                _judge_offset(s, found, s[I_SLOT] + entry, offset, place, cells, capacity, row)
            entry += 1
        if result == INDEX_DONE and entry == count and has_more:
            result = INDEX_MORE
        if result == INDEX_DONE:
            if s[I_OPEN] >= 0:
                _close_entry(s, found, cells, capacity, row)
            if cells[formats + row] >= 0:
                s[I_LAST] = cells[lasts + row]
                s[I_START] = position
            row += 1
    s[I_ROW] = row
    s[I_ENTRY] = entry
    return result


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _pass_place(s: cython.pointer[cython.longlong], place: cython.longlong) -> cython.void:
    """Measure the stretch without an entry that ends at the place of one."""
    stretch: cython.longlong = s[I_START] - s[I_INDEXED]
    if stretch > s[I_STRETCH]:
        s[I_STRETCH] = stretch
        s[I_STRETCH_START] = s[I_INDEXED]
    s[I_INDEXED] = place


@cython.cfunc
@cython.exceptval(check=False)
def _judge_offset(
    s: cython.pointer[cython.longlong],
    found: cython.pointer[cython.longlong],
    slot: cython.longlong,
    offset: cython.longlong,
    place: cython.longlong,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.void:
    """One entry that names a place in a batch, or behind the end of the log."""
    position: cython.longlong = cells[B_POSITION * capacity + row]
    last: cython.longlong = cells[B_LAST_OFFSET * capacity + row]
    base: cython.longlong = first_offset(s, cells, capacity, row)
    code: cython.longlong
    if s[I_OPEN] >= 0:  # no entry reaches over the place of the next one
        code = FAULT_GAP if s[I_OPEN_OFFSET] < base else FAULT_REACH
        if cells[B_FORMAT * capacity + row] == ROW_END:
            code = FAULT_BEYOND
            last = s[I_LAST]
        add_fault(found, s, code, s[I_OPEN], s[I_OPEN_OFFSET], s[I_OPEN_POSITION], position, base, last, -1)
        s[I_OPEN] = -1
    if cells[B_FORMAT * capacity + row] == ROW_END:
        add_fault(found, s, FAULT_BEYOND, slot, offset, place, position, base, s[I_LAST], -1)
    elif place != position:
        add_fault(found, s, FAULT_POSITION, slot, offset, place, position, base, last, -1)
    else:
        _pass_place(s, place)
        if offset < base:
            add_fault(found, s, FAULT_OFFSET, slot, offset, place, position, base, last, -1)
        elif offset > last:
            s[I_OPEN] = slot
            s[I_OPEN_OFFSET] = offset
            s[I_OPEN_POSITION] = place
        elif _is_inside(cells, capacity, row, offset):
            add_fault(found, s, FAULT_INSIDE, slot, offset, place, position, base, last, -1)
        else:
            set_good(s, slot, offset, place)


@cython.cfunc
@cython.exceptval(check=False)
def _close_entry(
    s: cython.pointer[cython.longlong],
    found: cython.pointer[cython.longlong],
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.void:
    """Whether the batch in hand holds the offset of the last entry, whose place is this batch or one before."""
    code: cython.longlong = 0
    position: cython.longlong = cells[B_POSITION * capacity + row]
    base: cython.longlong = first_offset(s, cells, capacity, row)
    last: cython.longlong = cells[B_LAST_OFFSET * capacity + row]
    if cells[B_FORMAT * capacity + row] == ROW_DAMAGE:
        s[I_OPEN] = -1
        return
    if cells[B_FORMAT * capacity + row] == ROW_END:
        code = FAULT_BEYOND
        last = s[I_LAST]
    elif s[I_OPEN_OFFSET] > last:
        return
    elif s[I_OPEN_OFFSET] < base:
        code = FAULT_GAP
    elif _is_inside(cells, capacity, row, s[I_OPEN_OFFSET]):
        code = FAULT_INSIDE
    if code:
        add_fault(found, s, code, s[I_OPEN], s[I_OPEN_OFFSET], s[I_OPEN_POSITION], position, base, last, -1)
    else:
        set_good(s, s[I_OPEN], s[I_OPEN_OFFSET], s[I_OPEN_POSITION])
    s[I_OPEN] = -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_inside(
    cells: cython.pointer[cython.longlong], capacity: cython.Py_ssize_t, row: cython.Py_ssize_t, offset: cython.longlong
) -> cython.bint:
    """Whether the offset is neither first nor last of a batch that holds all records that were appended with it.

    Of a batch that compaction has thinned out, old releases wrote the offset of the last record left.
    """
    base: cython.longlong = cells[B_BASE_OFFSET * capacity + row]
    last: cython.longlong = cells[B_LAST_OFFSET * capacity + row]
    whole: cython.bint = cells[B_FORMAT * capacity + row] == 2 and cells[B_COUNT * capacity + row] == wrapped(
        last - base + 1
    )
    return whole and base < offset < last
