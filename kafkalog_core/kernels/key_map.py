"""The cleaner's offset map (SkimpyOffsetMap): the latest offset of every key, identified by its MD5.

An entry has three cells: the two halves of the digest (the lowest bit of the second one: the key has another record),
and the offset + 1. The search for an entry starts at the slot that the digest gives. Digests of many keys are computed
at once (in SIMD), and the slots are prefetched meanwhile.
"""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import bytes_of, cells_of, constant_cells_of, room_of, wrapped

__all__ = [
    "digest_ahead",
    "entry_of",
    "find_key",
    "map_records",
    "merge_entries",
    "pack_entries",
    "put_key",
    "weigh_keys",
]

if cython.compiled:
    from cython.cimports.kafkalog_core.kernels.key_digests import key_digests, key_fetch


MASK_LOW = cython.declare(cython.ulonglong, 0xFFFFFFFF)


def map_records(
    memory: object,
    batches: object,
    bits: object,
    records: object,
    last: cython.Py_ssize_t,
    state: object,
    table: object,
    digests: object,
) -> cython.Py_ssize_t:
    """Put the keys of decoded records into the map. Return MAP_DONE, or MAP_FULL if a key does not fit.

    Args:
        memory: the buffer that the records refer to.
        batches: batch columns.
        bits: one byte for each batch; batches with only BIT_DISCARD are skipped, and control batches.
        records: record columns of batches from Q_BATCH on.
        last: row after the last batch whose last record is in them.
        state: the `Q_*` cells. After MAP_FULL, Q_BATCH is the row of the batch of that record.
        table: the entries.
        digests: room for two cells for each record.
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    b_capacity: cython.Py_ssize_t = batches.capacity
    f: cython.pointer[cython.const[cython.uchar]] = bytes_of(bits)
    r: cython.pointer[cython.longlong] = cells_of(records.cells)
    capacity: cython.Py_ssize_t = records.capacity
    count: cython.Py_ssize_t = records.count
    q: cython.pointer[cython.longlong] = cells_of(state)
    t: cython.pointer[cython.longlong] = cells_of(table)
    d: cython.pointer[cython.longlong] = cells_of(digests)
    row: cython.Py_ssize_t = 0
    ready: cython.Py_ssize_t = 0
    batch: cython.Py_ssize_t
    enters: cython.bint
    # p: bytes of `memory`; b, r: batch and record columns; f: bits; q: state; t: table; d: digests. Records before
    # `row` are in the map, digests of records before `ready` are computed.
    while q[Q_BATCH] < last or row < count:
        batch = q[Q_BATCH]
        enters = (f[batch] & BITS_REMOVED) != BIT_DISCARD and not (
            b[B_FORMAT * b_capacity + batch] == MAGIC_V2 and b[B_ATTRIBUTES * b_capacity + batch] & CONTROL
        )
        while row < count and r[R_BATCH * capacity + row] == batch:
            while ready < count and ready < row + KEYS_AHEAD:
                ready = digest_ahead(memory, p, r, capacity, ready, count, q[Q_SLOTS], t, d)
            q[Q_RECORDS] += 1
            if enters and r[R_KEY_SIZE * capacity + row] >= 0 and r[R_OFFSET * capacity + row] >= q[Q_START]:
                if q[Q_KEYS] >= q[Q_CAPACITY]:
                    return MAP_FULL
                _put(d[2 * row], d[2 * row + 1], r[R_OFFSET * capacity + row], q, t)
            row += 1
        if batch >= last:  # the next records are of this batch too
            break
        if q[Q_FOLLOWS] and b[B_LAST_OFFSET * b_capacity + batch] >= q[Q_START]:
            q[Q_LATEST] = b[B_LAST_OFFSET * b_capacity + batch]
        q[Q_BATCH] += 1
    return MAP_DONE


def put_key(key: object, offset: cython.longlong, state: object, table: object) -> None:
    """Put one key into the map, which has room for it."""
    q: cython.pointer[cython.longlong] = cells_of(state)
    t: cython.pointer[cython.longlong] = cells_of(table)
    low: cython.longlong
    high: cython.longlong
    low, high = _digest_of(key)
    _put(low, high, offset, q, t)


def find_key(key: object, state: object, table: object) -> cython.longlong:
    """Return the offset of one key; -1: it is not in the map."""
    q: cython.pointer[cython.longlong] = cells_of(state)
    t: cython.pointer[cython.longlong] = cells_of(table)
    low: cython.longlong
    high: cython.longlong
    at: cython.Py_ssize_t
    low, high = _digest_of(key)
    at = entry_of(low, high, q[Q_SLOTS], t)
    return -1 if at < 0 else wrapped(t[at + ENTRY_OFFSET] - 1)


def _digest_of(key: object) -> tuple[int, int]:
    """Return both halves of a key's MD5."""
    from hashlib import md5  # noqa: PLC0415 -- it loads OpenSSL, which takes a hundredth of the start

    digest = md5(key, usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "little", signed=True), int.from_bytes(digest[8:], "little", signed=True)


@cython.cfunc
@cython.exceptval(-1, check=False)
def digest_ahead(
    memory: object,
    p: cython.pointer[cython.const[cython.uchar]],
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    slots: cython.longlong,
    t: cython.pointer[cython.longlong],
    d: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """Compute the digests of up to KEYS_AHEAD keys from row `first` on, and prefetch their slots.

    Return the row after them.
    """
    row: cython.Py_ssize_t
    start: cython.Py_ssize_t
    last: cython.Py_ssize_t = first + KEYS_AHEAD
    last = min(last, count)
    if cython.compiled:
        key_digests(
            p,
            cython.address(r[R_KEY * capacity + first]),
            cython.address(r[R_KEY_SIZE * capacity + first]),
            last - first,
            cython.address(d[2 * first]),
        )
        key_fetch(t, slots, cython.address(d[2 * first]), last - first)
    else:
        # r: record columns; d: two cells a row. The digests of rows before `row` are computed.
        for row in range(first, last):
            start = r[R_KEY * capacity + row]
            if r[R_KEY_SIZE * capacity + row] >= 0:
                d[2 * row], d[2 * row + 1] = _digest_of(memory[start : start + r[R_KEY_SIZE * capacity + row]])
    return last


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def entry_of(
    low: cython.longlong, high: cython.longlong, slots: cython.longlong, t: cython.pointer[cython.longlong]
) -> cython.Py_ssize_t:
    """Return the first cell of a key's entry, or of the free one for it; -1: the table is full."""
    place: cython.ulonglong = ((low & MASK_LOW) * slots) >> 32
    at: cython.Py_ssize_t = place * ENTRY_SIZE
    end: cython.Py_ssize_t = slots * ENTRY_SIZE
    left: cython.longlong = slots
    # The entry is not in the slots from `place` to `at`; `left` slots remain.
    while left > 0:
        if t[at + ENTRY_OFFSET] == 0:
            return at
        if t[at + ENTRY_LOW] == low and (t[at + ENTRY_HIGH] | 1) == (high | 1):
            return at
        at += ENTRY_SIZE
        if at == end:
            at = 0
        left -= 1
    return -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put(
    low: cython.longlong,
    high: cython.longlong,
    offset: cython.longlong,
    q: cython.pointer[cython.longlong],
    t: cython.pointer[cython.longlong],
) -> cython.void:
    """Put a digest into the map, which has room for it."""
    at: cython.Py_ssize_t = entry_of(low, high, q[Q_SLOTS], t)
    if at < 0:
        return
    if t[at + ENTRY_OFFSET] == 0:
        t[at + ENTRY_LOW] = low
        t[at + ENTRY_HIGH] = (high | 1) - 1
        q[Q_KEYS] += 1
    else:
        t[at + ENTRY_HIGH] |= 1
    t[at + ENTRY_OFFSET] = wrapped(offset + 1)
    q[Q_LATEST] = offset


# --- merging the offset maps of two parts of a log --------------------------------------------------------------------
# The entries of a map are packed in the order of their places. Merged into a map of the same size, each is put near the
# one before it, so that memory is accessed from one end to the other.
def pack_entries(
    table: object, first: cython.Py_ssize_t, last: cython.Py_ssize_t, entries: object
) -> cython.Py_ssize_t:
    """Copy the entries of some slots one after the other. Return their number.

    Args:
        table: the entries of a map.
        first: the first slot.
        last: the slot after the last one.
        entries: room for an entry for each slot.
    """
    t: cython.pointer[cython.longlong] = cells_of(table)
    e: cython.pointer[cython.longlong] = cells_of(entries)
    slot: cython.Py_ssize_t
    at: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    # t: the table; e: packed entries. The entries of slots before `slot` are in `e`, up to cell `to`.
    for slot in range(first, last):
        at = slot * ENTRY_SIZE
        if t[at + ENTRY_OFFSET] != 0:
            e[to + ENTRY_LOW] = t[at + ENTRY_LOW]
            e[to + ENTRY_HIGH] = t[at + ENTRY_HIGH]
            e[to + ENTRY_OFFSET] = t[at + ENTRY_OFFSET]
            to += ENTRY_SIZE
    return to // ENTRY_SIZE


def merge_entries(entries: object, count: cython.Py_ssize_t, state: object, table: object) -> cython.Py_ssize_t:
    """Put packed entries of a later part of the log into a map. Return MAP_DONE, or MAP_FULL if one does not fit.

    Args:
        entries: those of `pack_entries`.
        count: number of entries.
        state: the `Q_*` cells of the map.
        table: its entries.
    """
    e: cython.pointer[cython.const[cython.longlong]] = constant_cells_of(entries)
    q: cython.pointer[cython.longlong] = cells_of(state)
    t: cython.pointer[cython.longlong] = cells_of(table)
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    of: cython.Py_ssize_t
    if count == 0:
        return MAP_DONE
    # e: packed entries; q: state; t: the table. The entries before `row` are in the table.
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


# --- the keys with most bytes -----------------------------------------------------------------------------------------
# Weighted Space-Saving in sets: a digest selects a set of a few counters. A key without a counter replaces the key with
# the fewest bytes of its set, and inherits its bytes as an upper bound of its own earlier ones.
def weigh_keys(
    memory: object, records: object, reasons: object, digests: object, counters: object, names: object
) -> None:
    """Count the bytes of the records that were looked up in the offset map, by key.

    Args:
        memory: the buffer that the records refer to.
        records: record columns.
        reasons: the `WHY_*` of each record.
        digests: digests of the keys that were looked up.
        counters: the `Y_*` cells of all counters.
        names: Y_NAME bytes for each counter: the first bytes of its key.
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    r: cython.pointer[cython.longlong] = cells_of(records.cells)
    capacity: cython.Py_ssize_t = records.capacity
    count: cython.Py_ssize_t = records.count
    w: cython.pointer[cython.const[cython.uchar]] = bytes_of(reasons)
    d: cython.pointer[cython.longlong] = cells_of(digests)
    h: cython.pointer[cython.longlong] = cells_of(counters)
    names_at: cython.pointer[cython.uchar] = room_of(names)
    row: cython.Py_ssize_t
    why: cython.uchar
    size: cython.longlong
    at: cython.Py_ssize_t
    # w: reasons; r: record columns. The records before `row` are counted.
    for row in range(count):
        why = w[row]
        if why != WHY_LATEST and why != WHY_SUPERSEDED and why != WHY_TOMBSTONE and why != WHY_EXPIRED:
            continue
        size = r[R_KEY_SIZE * capacity + row]
        if size < 0:
            continue
        at = _counter_of(d[2 * row], d[2 * row + 1], h)
        if h[at + Y_RECORDS] == 0 or h[at + Y_LOW] != d[2 * row] or h[at + Y_HIGH] != d[2 * row + 1]:
            h[at + Y_LOW] = d[2 * row]
            h[at + Y_HIGH] = d[2 * row + 1]
            h[at + Y_BEFORE] += h[at + Y_BYTES]
            h[at + Y_BYTES] = 0
            h[at + Y_RECORDS] = 0
            h[at + Y_KEY_SIZE] = size
            _name(p, r[R_KEY * capacity + row], size, names_at, at // Y_SIZE * Y_NAME)
        h[at + Y_RECORDS] += 1
        h[at + Y_BYTES] += size
        if r[R_VALUE_SIZE * capacity + row] > 0:
            h[at + Y_BYTES] += r[R_VALUE_SIZE * capacity + row]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _counter_of(low: cython.longlong, high: cython.longlong, h: cython.pointer[cython.longlong]) -> cython.Py_ssize_t:
    """Return the first cell of a key's counter, else of the counter with the fewest bytes of its set."""
    at: cython.Py_ssize_t = (low & (Y_SETS - 1)) * Y_WAYS * Y_SIZE
    end: cython.Py_ssize_t = at + Y_WAYS * Y_SIZE
    least: cython.Py_ssize_t = at
    # h: counters of the set, up to cell `end`. `least` has the fewest bytes of those before `at`.
    while at < end:
        if h[at + Y_LOW] == low and h[at + Y_HIGH] == high and h[at + Y_RECORDS] > 0:
            return at
        if h[at + Y_BYTES] + h[at + Y_BEFORE] < h[least + Y_BYTES] + h[least + Y_BEFORE]:
            least = at
        at += Y_SIZE
    return least


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _name(
    p: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    size: cython.longlong,
    names: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.void:
    """Store the first bytes of a key."""
    index: cython.Py_ssize_t
    kept: cython.Py_ssize_t = min(size, Y_NAME)
    # p: the buffer; names: Y_NAME bytes a counter, those of this one from `at` on.
    for index in range(kept):
        names[at + index] = p[start + index]
