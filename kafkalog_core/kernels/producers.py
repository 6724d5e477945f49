"""The replay of producer state over batch columns: each batch updates its producer as in a broker.

Sources: ProducerAppendInfo, ProducerStateEntry, ProducerStateManager (4.3.1), origin REPLICATION, which checks only
epochs. The kernel applies batches that a leader would have accepted. At the first other batch it stops: the caller
reports the anomaly and has the batch applied without checks (mode ANY).
"""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import cells_of, wrapped

__all__ = [
    "begin_transaction",
    "end_empty",
    "end_transaction",
    "find",
    "find_producer",
    "index_producers",
    "insert",
    "replay",
]


def replay(
    columns: object,
    markers: object,
    holes: object,
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    mode: cython.Py_ssize_t,
    state: object,
    producers: object,
    slots: object,
    ended: object,
) -> cython.Py_ssize_t:
    """Apply batches `first` to `last` (exclusive), up to the first that is not plain. Return its row, or `last`.

    Args:
        columns: batch columns.
        markers: the `M_*` cells of the control batches with a marker, by row.
        holes: ascending rows before which a part of the log is missing; the last one is above `last`.
        first: row to start with.
        last: row to stop before.
        mode: PLAIN; PLAIN_WITH_GAPS (sequence numbers may jump forward, as in a compacted log); PLAIN_UNSEQUENCED
            (they are not checked); or ANY (nothing is checked).
        state: the `G_*` cells; G_ENDED: the number of filled rows of `ended`, from 0 on in each call.
        producers: the `P_*` cells, `P_SIZE` for each producer.
        slots: the table of producer ids.
        ended: room for an ended transaction for each row, `E_SIZE` cells each.

    In every mode it stops if there is no room for a new producer, and at a control batch without a marker.
    """
    b: cython.pointer[cython.longlong] = cells_of(columns.cells)
    m: cython.pointer[cython.longlong] = cells_of(markers)
    h: cython.pointer[cython.longlong] = cells_of(holes)
    g: cython.pointer[cython.longlong] = cells_of(state)
    r: cython.pointer[cython.longlong] = cells_of(producers)
    s: cython.pointer[cython.longlong] = cells_of(slots)
    e: cython.pointer[cython.longlong] = cells_of(ended)
    g[G_ENDED] = 0
    if first >= last:
        return first
    return _apply_batches(b, columns.capacity, m, h, first, last, mode, g, r, s, e)


@cython.cfunc
@cython.exceptval(check=False)
def _apply_batches(
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    m: cython.pointer[cython.longlong],
    h: cython.pointer[cython.longlong],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    mode: cython.Py_ssize_t,
    g: cython.pointer[cython.longlong],
    r: cython.pointer[cython.longlong],
    s: cython.pointer[cython.longlong],
    e: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """Apply batches `first` to `last` (exclusive), up to the first that is not plain. Return its row, or `last`."""
    row: cython.Py_ssize_t
    k: cython.Py_ssize_t = 0
    hole: cython.Py_ssize_t = 0
    row = first
    while h[hole] < first:
        hole += 1
    # b: batch columns; m: markers; h: holes; g: totals; r: producers; s: slots; e: ended transactions. Rows before
    # `row` are applied; h[hole] is the next hole at or after `row`, m[k] the next marker.
    while row < last:
        if h[hole] == row:
            g[G_HOLES] += 1
            hole += 1
        if b[B_FORMAT * capacity + row] == MAGIC_V2:
            if b[B_PID * capacity + row] < 0:
                if mode and not _is_plain_stranger(b, capacity, row):
                    break
            elif not b[B_ATTRIBUTES * capacity + row] & CONTROL:
                if not _data(b, capacity, row, mode, g, r, s):
                    break
            else:
                while m[k + M_ROW] < row:
                    k += M_SIZE
                if not _marker(b, capacity, row, m, k, mode, g, r, s, e):
                    break
        row += 1
    return row


# --- one batch --------------------------------------------------------------------------------------------------------
@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_plain_stranger(
    b: cython.pointer[cython.longlong], capacity: cython.Py_ssize_t, row: cython.Py_ssize_t
) -> cython.bint:
    """Return whether a batch without a producer is plain; some clients write epoch or sequence 0 instead of -1."""
    epoch: cython.longlong = b[B_PEPOCH * capacity + row]
    sequence: cython.longlong = b[B_SEQUENCE * capacity + row]
    if b[B_PID * capacity + row] != -1 or b[B_ATTRIBUTES * capacity + row] & TRANSACTIONAL:
        return False
    return (epoch == -1 or epoch == 0) and (sequence == -1 or sequence == 0)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _data(
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    mode: cython.Py_ssize_t,
    g: cython.pointer[cython.longlong],
    r: cython.pointer[cython.longlong],
    s: cython.pointer[cython.longlong],
) -> cython.bint:
    """Apply a batch of records. Return false if it is not plain, or there is no room."""
    pid: cython.longlong = b[B_PID * capacity + row]
    epoch: cython.longlong = b[B_PEPOCH * capacity + row]
    sequence: cython.longlong = b[B_SEQUENCE * capacity + row]
    base: cython.longlong = b[B_BASE_OFFSET * capacity + row]
    last: cython.longlong = b[B_LAST_OFFSET * capacity + row]
    is_transactional: cython.bint = (b[B_ATTRIBUTES * capacity + row] & TRANSACTIONAL) != 0
    at: cython.Py_ssize_t = find(pid, g, r, s)
    delta: cython.longlong = wrapped(last - base)
    recent: cython.Py_ssize_t
    if mode and (epoch < 0 or sequence < 0):
        return False
    if at < 0:
        at = insert(pid, epoch, g, r, s)
        if at < 0:
            return False
    elif mode and not _follows(r, at, epoch, sequence, is_transactional, mode, g[G_HOLES]):
        return False
    r[at + P_HOLES] = g[G_HOLES]
    if r[at + P_EPOCH] != epoch:
        r[at + P_EPOCH] = epoch
        r[at + P_BATCHES] = 0
    if r[at + P_BATCHES] == -1:
        r[at + P_BATCHES] = 0
    recent = r[at + P_BATCHES]
    if recent >= RECENT:
        recent -= RECENT
    r[at + P_OFFSET + recent] = last
    r[at + P_DELTA + recent] = delta
    r[at + P_SEQUENCE + recent] = _last_sequence(sequence, delta)
    r[at + P_BATCHES] = RECENT if r[at + P_BATCHES] == 2 * RECENT - 1 else r[at + P_BATCHES] + 1
    r[at + P_TIME] = r[at + P_DATA_TIME] = b[B_MAX_TIME * capacity + row]
    r[at + P_MARKER] = -1
    if is_transactional and r[at + P_TXN_FIRST] < 0 <= base:  # negative: a damaged offset; -1 means none
        begin_transaction(r, at, base, g)
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _follows(
    r: cython.pointer[cython.longlong],
    at: cython.Py_ssize_t,
    epoch: cython.longlong,
    sequence: cython.longlong,
    is_transactional: cython.bint,
    mode: cython.Py_ssize_t,
    holes: cython.longlong,
) -> cython.bint:
    """Return whether a leader would have accepted this batch after the last one of its producer."""
    is_open: cython.bint = r[at + P_TXN_FIRST] >= 0
    batches: cython.longlong = r[at + P_BATCHES]
    expected: cython.longlong = 0
    if r[at + P_HOLES] != holes or (is_open and not is_transactional):
        return False
    if epoch != r[at + P_EPOCH]:
        return epoch > r[at + P_EPOCH] and not is_open and (sequence == 0 or mode != PLAIN)
    if batches < 0 or mode == PLAIN_UNSEQUENCED:
        return True
    if batches > 0:
        expected = r[at + P_SEQUENCE + (batches - 1 - RECENT if batches > RECENT else batches - 1)]
        expected = 0 if expected == MAX_SEQUENCE else expected + 1
    if sequence == expected:
        return True
    if mode != PLAIN_WITH_GAPS:
        return False
    return ((sequence - expected) & MAX_SEQUENCE) <= MAX_SEQUENCE // 2


@cython.cfunc
@cython.exceptval(check=False)
def _marker(
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    m: cython.pointer[cython.longlong],
    k: cython.Py_ssize_t,
    mode: cython.Py_ssize_t,
    g: cython.pointer[cython.longlong],
    r: cython.pointer[cython.longlong],
    s: cython.pointer[cython.longlong],
    e: cython.pointer[cython.longlong],
) -> cython.bint:
    """Apply a control batch. Return false if it is not plain, has no marker, or there is no room."""
    pid: cython.longlong = b[B_PID * capacity + row]
    epoch: cython.longlong = b[B_PEPOCH * capacity + row]
    coordinator: cython.longlong = m[k + M_COORDINATOR]
    at: cython.Py_ssize_t
    if mode and (
        epoch < 0 or b[B_SEQUENCE * capacity + row] != -1 or not b[B_ATTRIBUTES * capacity + row] & TRANSACTIONAL
    ):
        return False
    at = find(pid, g, r, s)
    if b[B_COUNT * capacity + row] == 0:  # emptied by the cleaner: its producer is known from here on, without an epoch
        return at >= 0 or insert(pid, -1, g, r, s) >= 0
    if m[k + M_ROW] != row:
        return False
    if mode and not (
        at >= 0
        and r[at + P_HOLES] == g[G_HOLES]
        and r[at + P_TXN_FIRST] >= 0
        and epoch >= r[at + P_EPOCH]
        and coordinator >= r[at + P_COORDINATOR]
    ):
        return False
    if at < 0:
        at = insert(pid, epoch, g, r, s)
        if at < 0:
            return False
    # P_HOLES is not changed: a marker has no sequence number, so the next batch still follows one from before the hole.
    if r[at + P_EPOCH] != epoch:
        r[at + P_EPOCH] = epoch
        r[at + P_BATCHES] = 0
        r[at + P_DATA_TIME] = -1
    r[at + P_COORDINATOR] = coordinator
    r[at + P_TIME] = b[B_MAX_TIME * capacity + row]
    r[at + P_MARKER] = b[B_BASE_OFFSET * capacity + row]
    if r[at + P_TXN_FIRST] >= 0:
        end_transaction(r, at, b[B_BASE_OFFSET * capacity + row], m[k + M_TYPE] == MARKER_ABORT, g, e)
    elif g[G_EMPTY]:
        end_empty(r, at, b[B_BASE_OFFSET * capacity + row], m[k + M_TYPE] == MARKER_ABORT, g, e)
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _last_sequence(sequence: cython.longlong, delta: cython.longlong) -> cython.longlong:
    """Return the last sequence number, as DefaultRecordBatch.lastSequence: 0 follows the highest number.

    Sums wrap as Java's int: a damaged header may have a negative delta.
    """
    if sequence == -1:
        return -1
    if sequence > _int32(MAX_SEQUENCE - delta):
        return _int32(delta - (MAX_SEQUENCE - sequence) - 1)
    return _int32(sequence + delta)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _int32(value: cython.longlong) -> cython.longlong:
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


# --- the table of producers -------------------------------------------------------------------------------------------
# A producer is a row of cells (`P_*`). `slots` is an open-addressing hash table of ids: row + 1, or 0 for a free slot.
# Open transactions are a binary heap by first offset, because the last stable offset is the first of them; place i of
# the heap is the cell P_HEAP of row i.
def find_producer(producer_id: cython.longlong, state: object, producers: object, slots: object) -> cython.Py_ssize_t:
    """Return the first cell of a producer; -1: it is unknown."""
    g: cython.pointer[cython.longlong] = cells_of(state)
    r: cython.pointer[cython.longlong] = cells_of(producers)
    s: cython.pointer[cython.longlong] = cells_of(slots)
    return find(producer_id, g, r, s)


def index_producers(state: object, producers: object, slots: object) -> None:
    """Fill an empty table of slots."""
    g: cython.pointer[cython.longlong] = cells_of(state)
    r: cython.pointer[cython.longlong] = cells_of(producers)
    s: cython.pointer[cython.longlong] = cells_of(slots)
    number: cython.Py_ssize_t
    # r: producers; s: slots. The producers before `number` have a slot, which holds their number + 1.
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
    """Return the first cell of a producer; -1: it is unknown."""
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
    """Return the slot of a producer, or the free one for it. Ids are folded to 32 bits and multiplied."""
    mask: cython.longlong = g[G_MASK]
    slot: cython.Py_ssize_t = ((((pid ^ (pid >> 32)) & 0xFFFFFFFF) * 0x61C88647) >> 15) & mask
    # Linear probing: no slot from the first to this one is free or of this producer.
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
    """Add a producer with an epoch and nothing else. Return its first cell; -1: there is no room."""
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
    """Add a transaction to the heap."""
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
    """Remove a transaction from the heap and add it to the ended ones."""
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
    _put_ended(r, at, first, offset, is_aborted, g, e)
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
    """Add a transaction without data: it begins and ends at its marker (ProducerAppendInfo before 2.8)."""
    _put_ended(r, at, offset, offset, is_aborted, g, e)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_ended(
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
    """Move a transaction from heap place `place` up to below those that began before it."""
    above: cython.Py_ssize_t
    other: cython.Py_ssize_t
    # `place` is free; every transaction below it begins after the one that is moved.
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
    """Move a transaction from heap place `place` down to above those that began after it. `count`: heap size."""
    below: cython.Py_ssize_t
    other: cython.Py_ssize_t
    # `place` is free; every transaction above it begins before the one that is moved.
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
