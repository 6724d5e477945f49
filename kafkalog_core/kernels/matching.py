"""Conditions on rows: on the integers of their columns, and on the bytes of keys, values and headers.

Every `keep_*` function clears the mark of each marked row that does not meet one condition, and returns the number of
rows that are still marked. Only marked rows are looked at. A mark is a byte: 0, or MARKED with further bits.
"""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import bytes_of, cells_of, room_of
from kafkalog_core.kernels.programs import *

__all__ = ["keep_bits", "keep_equal", "keep_header", "keep_holding", "keep_times", "keep_within"]

if cython.compiled:
    from cython.cimports.kafkalog_core.kernels.find_bytes import find_bytes, find_literal
    from cython.cimports.libc.string import memcmp


def keep_within(
    columns: object, field: cython.Py_ssize_t, low: cython.longlong, high: cython.longlong, marks: object
) -> int:
    """Keep rows in which a field of the columns is `low` to `high`, both included."""
    c: cython.pointer[cython.longlong] = cells_of(columns.cells)
    m: cython.pointer[cython.uchar] = room_of(marks)
    start: cython.Py_ssize_t = field * columns.capacity
    count: cython.Py_ssize_t = columns.count
    row: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    # c: columns; the field is in `c[start:start + count]`. The marks before `row` are final, `kept` of them are set.
    for row in range(count):
        if m[row] and (c[start + row] < low or c[start + row] > high):
            m[row] = 0
        kept += m[row] != 0
    return kept


def keep_bits(batches: object, bits: cython.longlong, is_set: cython.bint, marks: object) -> int:
    """Keep batches with (or without) attribute bits that only magic 2 has; in other formats they are not set."""
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    m: cython.pointer[cython.uchar] = room_of(marks)
    capacity: cython.Py_ssize_t = batches.capacity
    count: cython.Py_ssize_t = batches.count
    row: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    has: cython.bint
    # b: batch columns. The marks before `row` are final, `kept` of them are set.
    for row in range(count):
        has = b[B_FORMAT * capacity + row] == MAGIC_V2 and (b[B_ATTRIBUTES * capacity + row] & bits) != 0
        if m[row] and has != is_set:
            m[row] = 0
        kept += m[row] != 0
    return kept


# --- times of batches -------------------------------------------------------------------------------------------------
def keep_times(batches: object, low: cython.longlong, high: cython.longlong, marks: object) -> int:
    """Keep batches that may contain a record with a timestamp of `low` to `high`, by their headers.

    A batch has MARK_UNDECIDED too if only its records show whether it does: the header has the first timestamp and the
    largest. If neither is in the range, one between them may be, or one older than the first: the first record of a
    batch is not always its oldest.
    """
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    m: cython.pointer[cython.uchar] = room_of(marks)
    capacity: cython.Py_ssize_t = batches.capacity
    count: cython.Py_ssize_t = batches.count
    row: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    # b: batch columns. The marks before `row` are final, `kept` of them are set.
    for row in range(count):
        if m[row]:
            m[row] = _mark_of_times(b, capacity, row, low, high)
        kept += m[row] != 0
    return kept


@cython.cfunc
@cython.exceptval(check=False)
def _mark_of_times(
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    low: cython.longlong,
    high: cython.longlong,
) -> cython.Py_ssize_t:
    form: cython.longlong = b[B_FORMAT * capacity + row]
    newest: cython.longlong = b[B_MAX_TIME * capacity + row]
    first: cython.longlong = b[B_BASE_TIME * capacity + row]
    attributes: cython.longlong = b[B_ATTRIBUTES * capacity + row]
    records: cython.longlong = b[B_COUNT * capacity + row]
    is_wrapper: cython.bint = b[B_CODEC * capacity + row] != 0 and form != MAGIC_V2
    if low <= newest <= high and (newest >= 0 or form == MAGIC_V2):
        return MARKED
    if newest < 0 and form != MAGIC_V2:  # magic 0 and 0.7 have no timestamps; those of a wrapper of magic 1 are inside
        return MARKED | MARK_UNDECIDED if is_wrapper and form == 1 else 0
    if newest < low:  # the largest one is older
        return 0
    if attributes & APPEND_TIME:  # all records have the timestamp of the batch
        return 0
    if form != MAGIC_V2:
        return MARKED | MARK_UNDECIDED if is_wrapper else 0
    if attributes & HORIZON:  # the header has the delete horizon instead of the first timestamp
        return MARKED | MARK_UNDECIDED if records > 0 else 0
    if records > 0 and low <= first <= high:
        return MARKED
    return MARKED | MARK_UNDECIDED if records > 1 else 0


# --- bytes ------------------------------------------------------------------------------------------------------------
@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_same(
    memory: object,
    p: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    text: object,
    t: cython.pointer[cython.const[cython.uchar]],
    size: cython.Py_ssize_t,
) -> cython.bint:
    """Return whether `memory` has `text` at `start`; `p` and `t` point to their bytes, `size` bytes are there."""
    if not cython.compiled:
        return bytes(memory[start : start + size]) == text
    return size == 0 or memcmp(p + start, t, size) == 0


def keep_equal(memory: object, records: object, field: cython.Py_ssize_t, text: object, marks: object) -> int:
    """Keep records whose key or value is `text`; `field`: R_KEY or R_VALUE. A null never is."""
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    t: cython.pointer[cython.const[cython.uchar]] = bytes_of(text)
    r: cython.pointer[cython.longlong] = cells_of(records.cells)
    m: cython.pointer[cython.uchar] = room_of(marks)
    capacity: cython.Py_ssize_t = records.capacity
    count: cython.Py_ssize_t = records.count
    size: cython.Py_ssize_t = len(text)
    row: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    # r: record columns; the size follows the start. The marks before `row` are final, `kept` of them are set.
    for row in range(count):
        if m[row] and (
            r[(field + 1) * capacity + row] != size or not _is_same(memory, p, r[field * capacity + row], text, t, size)
        ):
            m[row] = 0
        kept += m[row] != 0
    return kept


def keep_header(memory: object, records: object, key: object, value: object, marks: object) -> int:
    """Keep records with a header of this key; `value`: None for any value, else the header has exactly these bytes."""
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    k: cython.pointer[cython.const[cython.uchar]] = bytes_of(key)
    is_any: cython.bint = value is None
    wanted: object = b"" if is_any else value
    v: cython.pointer[cython.const[cython.uchar]] = bytes_of(wanted)
    r: cython.pointer[cython.longlong] = cells_of(records.cells)
    h: cython.pointer[cython.longlong] = cells_of(records.headers.cells)
    m: cython.pointer[cython.uchar] = room_of(marks)
    capacity: cython.Py_ssize_t = records.capacity
    h_capacity: cython.Py_ssize_t = records.headers.capacity
    count: cython.Py_ssize_t = records.count
    key_size: cython.Py_ssize_t = len(key)
    value_size: cython.Py_ssize_t = len(wanted)
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    last: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    # r, h: record and header columns. The marks before `row` are final, `kept` of them are set.
    for row in range(count):
        if m[row] == 0:
            continue
        at = r[R_HEADERS * capacity + row]
        last = at + r[R_HEADER_COUNT * capacity + row]
        while at < last:  # the headers before `at` are others
            if (
                h[H_KEY_SIZE * h_capacity + at] == key_size
                and (is_any or h[H_VALUE_SIZE * h_capacity + at] == value_size)
                and _is_same(memory, p, h[H_KEY * h_capacity + at], key, k, key_size)
                and (is_any or _is_same(memory, p, h[H_VALUE * h_capacity + at], wanted, v, value_size))
            ):
                break
            at += 1
        if at < last:
            kept += 1
        else:
            m[row] = 0
    return kept


@cython.final
@cython.cclass
class _Search:
    """The literal and the memory of one call. Pointers are valid during the call."""

    memory: object
    text: object
    folds: cython.bint
    has_classes: cython.bint
    table: cython.pointer[cython.longlong]  # of classes: the positions, as bits, at which each byte is not allowed
    p: cython.pointer[cython.const[cython.uchar]]
    t: cython.pointer[cython.const[cython.uchar]]
    mask: cython.pointer[cython.const[cython.uchar]]
    size: cython.Py_ssize_t
    first: cython.Py_ssize_t
    second: cython.Py_ssize_t
    end: cython.Py_ssize_t

    def __init__(self, memory: object, literal: object) -> None:
        self.memory, self.p, self.end = memory, bytes_of(memory), len(memory)
        self.has_classes = hasattr(literal, "table")
        if self.has_classes:
            self.table, self.size = cells_of(literal.table), literal.size
        else:
            self.text, self.folds, self.size = literal.text, literal.folds, len(literal.text)
            self.t, self.mask = bytes_of(literal.text), bytes_of(literal.mask)
            self.first, self.second = literal.first, literal.second


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _holds(search: _Search, start: cython.Py_ssize_t, size: cython.longlong) -> cython.bint:
    """Return whether a field has the literal in it; size -1: it is null."""
    if size < search.size:
        return False
    if search.has_classes:
        return _holds_classes(search, start, size)
    if not cython.compiled:
        field = bytes(search.memory[start : start + size])
        return search.text in (field.lower() if search.folds else field)
    literal = cython.declare(find_literal)
    literal.text = search.t
    literal.mask = search.mask
    literal.size = search.size
    literal.first = search.first
    literal.second = search.second
    return find_bytes(search.p + start, size, search.end - start, cython.address(literal))


@cython.cfunc
@cython.exceptval(check=False)
def _holds_classes(search: _Search, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.bint:
    """Return whether a field has the classes in it: shift-or (Baeza-Yates and Gonnet, CACM 35, 1992), no branches."""
    p: cython.pointer[cython.const[cython.uchar]] = search.p
    table: cython.pointer[cython.longlong] = search.table
    state: cython.longlong = -1
    seen: cython.longlong = -1
    at: cython.Py_ssize_t
    # p: the memory. Bit i of `state` is 0 if the classes up to i match the bytes that end before `at`; `seen` has the
    # bits that were 1 all the time.
    for at in range(start, start + size):
        state = (state << 1) | table[p[at]]
        if not cython.compiled:
            state &= 0xFFFFFFFF
        seen &= state
    return (seen >> (search.size - 1)) & 1 == 0


def keep_holding(memory: object, records: object, parts: cython.Py_ssize_t, literals: object, marks: object) -> int:
    """Keep records that have one of the literals in one of their parts.

    Args:
        memory: the buffer that the spans of the records refer to.
        records: record columns.
        parts: the `WANTS_*` bits of the parts that are searched: key, value, keys and values of headers.
        literals: `ByteLiteral` and `ByteClasses` objects, none of them empty.
        marks: a byte for each record.
    """
    r: cython.pointer[cython.longlong] = cells_of(records.cells)
    h: cython.pointer[cython.longlong] = cells_of(records.headers.cells)
    m: cython.pointer[cython.uchar] = room_of(marks)
    capacity: cython.Py_ssize_t = records.capacity
    h_capacity: cython.Py_ssize_t = records.headers.capacity
    count: cython.Py_ssize_t = records.count
    row: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    # r, h: record and header columns. Each literal is searched in the marked rows that have none of those before it;
    # rows that have one get MARK_FOUND, and at the end the others lose their marks.
    for literal in literals:
        search: _Search = _Search(memory, literal)
        for row in range(count):
            if m[row] == MARKED and _row_holds(search, r, capacity, row, h, h_capacity, parts):
                m[row] = MARKED | MARK_FOUND
    for row in range(count):
        m[row] = MARKED if m[row] & MARK_FOUND else 0
        kept += m[row]
    return kept


@cython.cfunc
@cython.exceptval(check=False)
def _row_holds(
    search: _Search,
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    parts: cython.Py_ssize_t,
) -> cython.bint:
    """Return whether one of the parts of a record has the literal in it."""
    at: cython.Py_ssize_t
    last: cython.Py_ssize_t
    if parts & WANTS_VALUE and _holds(search, r[R_VALUE * capacity + row], r[R_VALUE_SIZE * capacity + row]):
        return True
    if parts & WANTS_KEY and _holds(search, r[R_KEY * capacity + row], r[R_KEY_SIZE * capacity + row]):
        return True
    if parts & WANTS_HEADERS:
        at = r[R_HEADERS * capacity + row]
        last = at + r[R_HEADER_COUNT * capacity + row]
        while at < last:  # the headers before `at` do not have it
            if _holds(search, h[H_KEY * h_capacity + at], h[H_KEY_SIZE * h_capacity + at]) or _holds(
                search, h[H_VALUE * h_capacity + at], h[H_VALUE_SIZE * h_capacity + at]
            ):
                return True
            at += 1
    return False
