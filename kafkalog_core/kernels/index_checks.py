"""Checks of the offset index and the time index against the log: a merge of entries and batches in file order."""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import bytes_of, cells_of, int32, int64, room_of, wrapped

__all__ = [
    "add_fault",
    "check_entries",
    "first_offset",
    "is_ordered",
    "mark_disorder",
    "set_good",
]


def check_entries(
    memory: object,
    count: cython.Py_ssize_t,
    has_more: cython.bint,
    is_time: cython.bint,
    marks: object,
    batches: object,
    state: object,
    faults: object,
) -> int:
    """Check entries of an offset index or a time index against batches. Return INDEX_DONE, INDEX_MORE or INDEX_FULL.

    Args:
        memory: the available entries.
        count: their number.
        has_more: whether the file has entries after these.
        is_time: whether they are of a time index.
        marks: for each entry the fault that `mark_disorder` found, or 0.
        batches: batch columns; damage is a row with format ROW_DAMAGE, the end of the log one with ROW_END.
        state: the `I_*` cells: the entry and the batch to continue with.
        faults: room for FAULT_ROWS faults (`F_*` cells).
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    marked: cython.pointer[cython.const[cython.uchar]] = bytes_of(marks)
    cells: cython.pointer[cython.longlong] = cells_of(batches.cells)
    s: cython.pointer[cython.longlong] = cells_of(state)
    found: cython.pointer[cython.longlong] = cells_of(faults)
    capacity: cython.Py_ssize_t = batches.capacity
    rows: cython.Py_ssize_t = batches.count
    if is_time:
        return _merge_times(p, count, has_more, marked, cells, capacity, rows, s, found)
    return _merge_offsets(p, count, has_more, marked, cells, capacity, rows, s, found)


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
    # p: entries; marked: marks; cells: batch columns; s: state; found: faults. Entries before `entry` are checked:
    # their positions are before the end of batch `row`. One may still be open (I_OPEN): its batch comes later.
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
                _pass_place(s, place)  # the entry that current brokers write; tested first for speed
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
    """Measure the stretch of batches without an entry that ends at an entry's position."""
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
    """Check an entry with a position in a batch, or after the end of the log."""
    position: cython.longlong = cells[B_POSITION * capacity + row]
    last: cython.longlong = cells[B_LAST_OFFSET * capacity + row]
    base: cython.longlong = first_offset(s, cells, capacity, row)
    code: cython.longlong
    if s[I_OPEN] >= 0:  # the offset of an entry is not beyond the next entry's batch
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
    """Check whether the current batch has the offset of the open entry, whose position is this batch or before it."""
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
    """Return whether an offset is neither first nor last in a batch that still has all its records.

    For a batch without some of its records, old cleaners wrote the offset of the last remaining one.
    """
    base: cython.longlong = cells[B_BASE_OFFSET * capacity + row]
    last: cython.longlong = cells[B_LAST_OFFSET * capacity + row]
    whole: cython.bint = cells[B_FORMAT * capacity + row] == 2 and cells[B_COUNT * capacity + row] == wrapped(
        last - base + 1
    )
    return whole and base < offset < last


# --- the time index ---------------------------------------------------------------------------------------------------
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
    # As in _merge_offsets; entries before `entry` have offsets of batches up to `row`. I_TOP is the largest timestamp
    # of the batches before `row`.
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
                set_good(s, s[I_SLOT] + entry, timestamp, offset)  # nearly all entries; tested first for speed
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
    """Update the largest timestamps by a batch."""
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
    """Check an entry whose offset is not after the current batch."""
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
        if s[I_HOLE]:  # the batch with this offset may be the damaged one
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


# --- faults and the last good entry, of both indexes ------------------------------------------------------------------
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
    """Add a fault, or extend the previous one if this entry follows with the same fault."""
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
    """Remember the last good entry."""
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
    """Return the first offset of a batch; for a legacy wrapper, whose header lacks it, the lowest possible one."""
    if cells[B_COUNT * capacity + row] < 0 and cells[B_FORMAT * capacity + row] < 2:
        return wrapped(s[I_LAST] + 1)
    return cells[B_BASE_OFFSET * capacity + row]


# --- the order of the entries of an index -----------------------------------------------------------------------------
# An entry out of order would lead the merge with the log to a wrong place. So such entries are marked first: those that
# are not in the longest ordered chain of entries.
def is_ordered(memory: object, count: cython.Py_ssize_t, is_time: cython.bint, state: object) -> bool:
    """Return whether all entries are possible and in order; then update the lowest key that may follow in `state`."""
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    cells: cython.pointer[cython.longlong] = cells_of(state)
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
    # p: entries. Those before `i` are in order; the next key is at least `least`.
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
    """Mark each impossible entry, and those that are not in the longest ordered chain.

    `marks`: a byte for each entry, its fault or 0; `links`: two cells for each entry.
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    cells: cython.pointer[cython.longlong] = cells_of(state)
    faults: cython.pointer[cython.uchar] = room_of(marks)
    chain: cython.pointer[cython.longlong] = cells_of(links)
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
    # Patience sorting: chain[n] is the entry with the smallest key that ends an ordered chain of n + 1 of the entries
    # before `i`; chain[count + i] links an entry to the previous one of its chain.
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
            while low < high:
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
