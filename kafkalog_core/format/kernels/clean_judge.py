"""What the cleaner keeps: a reason for every record, an outcome for every batch (Cleaner, MemoryRecords.filterTo)."""

from __future__ import annotations

from kafkalog_core.format.kernels._cython import cython
from kafkalog_core.format.kernels.constants import *
from kafkalog_core.format.kernels.fields import bytes_of, cells_of, room_of, wrapped
from kafkalog_core.format.kernels.key_map import digest_ahead, entry_of

__all__ = ["judge", "take_rows"]


def take_rows(
    batches: object, bits: object, first: cython.Py_ssize_t, last: cython.Py_ssize_t, most: cython.longlong
) -> cython.Py_ssize_t:
    """The row behind those from `first` on that can be decoded by one call, or need not be: at least one.

    They are all compressed or all plain; all opened or none, as `bits` say; they count no more than `most` records.
    """
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    capacity: cython.Py_ssize_t = batches.capacity
    f: cython.pointer[cython.const[cython.uchar]] = bytes_of(bits)
    row: cython.Py_ssize_t
    count: cython.longlong
    total: cython.longlong = 0
    is_removed: cython.bint = (f[first] & BITS_REMOVED) == BIT_DISCARD
    is_plain: cython.bint = b[B_CODEC * capacity + first] == 0
    for row in range(first, last):
        if is_removed != ((f[row] & BITS_REMOVED) == BIT_DISCARD):
            return row
        if not is_removed:
            count = b[B_COUNT * capacity + row]
            if is_plain != (b[B_CODEC * capacity + row] == 0) or (row > first and count > most - total):
                return row
            total += count if count > 0 else 0
    return last


def judge(
    memory: object,
    batches: object,
    bits: object,
    records: object,
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    is_whole: cython.bint,
    state: object,
    map_state: object,
    table: object,
    digests: object,
    reasons: object,
    cells: object,
    tally: object,
) -> cython.Py_ssize_t:
    """Judge the records of batches `first` to `last` (exclusive), and these, unless more records of them are to come.

    Returns the row of the first batch that is in trouble, or `last`.

    Args:
        memory: the buffer that the records refer to.
        batches: batch columns.
        bits: the `BIT_*` of each batch.
        records: record columns, of these batches alone.
        first: row of the first batch.
        last: row behind the last one.
        is_whole: false: it is one batch, whose other records come in further calls.
        state: the `J_*` cells.
        map_state: the `Q_*` cells of the map.
        table: its entries.
        digests: room for two cells for each record.
        reasons: room for a byte for each record: `WHY_*`.
        cells: the `K_*` cells of each batch, zeros at first.
        tally: the `T_*` cells, which grow.
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    b_capacity: cython.Py_ssize_t = batches.capacity
    f: cython.pointer[cython.const[cython.uchar]] = bytes_of(bits)
    r: cython.pointer[cython.longlong] = cells_of(records.cells)
    j: cython.pointer[cython.longlong] = cells_of(state)
    q: cython.pointer[cython.longlong] = cells_of(map_state)
    t: cython.pointer[cython.longlong] = cells_of(table)
    d: cython.pointer[cython.longlong] = cells_of(digests)
    w: cython.pointer[cython.uchar] = room_of(reasons)
    k: cython.pointer[cython.longlong] = cells_of(cells)
    a: cython.pointer[cython.longlong] = cells_of(tally)
    return _judge_batches(
        memory, p, b, b_capacity, f, r, records.capacity, records.count, first, last, is_whole, j, q, t, d, w, k, a
    )


@cython.cfunc
@cython.exceptval(-1, check=False)
def _judge_batches(
    memory: object,
    p: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    f: cython.pointer[cython.const[cython.uchar]],
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    is_whole: cython.bint,
    j: cython.pointer[cython.longlong],
    q: cython.pointer[cython.longlong],
    t: cython.pointer[cython.longlong],
    d: cython.pointer[cython.longlong],
    w: cython.pointer[cython.uchar],
    k: cython.pointer[cython.longlong],
    a: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """The same, by pointers."""
    row: cython.Py_ssize_t = 0
    ready: cython.Py_ssize_t = 0
    batch: cython.Py_ssize_t
    result: cython.Py_ssize_t = last
    for batch in range(first, last):
        if (f[batch] & BITS_REMOVED) == BIT_DISCARD:
            _remove(b, b_capacity, batch, a)
            continue
        while row < count and r[R_BATCH * capacity + row] == batch:
            ready = max(ready, row)
            if (
                ready < count
                and ready < row + KEYS_AHEAD
                and (not j[J_RULES] & RULE_PAST or r[R_OFFSET * capacity + ready] <= q[Q_LATEST])
            ):
                ready = digest_ahead(memory, p, r, capacity, ready, count, q[Q_SLOTS], t, d)
            w[row] = _reason_of(b, b_capacity, batch, f[batch], r, capacity, row, j, q, t, d, a)
            _account(r, capacity, row, w[row], k, batch * K_SIZE, a)
            row += 1
        if is_whole:
            _decide(b, b_capacity, batch, f[batch], j, k, batch * K_SIZE)
            if k[batch * K_SIZE + K_TROUBLE] != 0 and result == last:
                result = batch
    return result


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_control(
    b: cython.pointer[cython.longlong], b_capacity: cython.Py_ssize_t, batch: cython.Py_ssize_t
) -> cython.bint:
    return b[B_FORMAT * b_capacity + batch] == MAGIC_V2 and (b[B_ATTRIBUTES * b_capacity + batch] & CONTROL) != 0


@cython.cfunc
@cython.exceptval(check=False)
def _remove(
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
    a: cython.pointer[cython.longlong],
) -> cython.void:
    """Count the records of a batch that is not opened, as its header does."""
    if b[B_COUNT * b_capacity + batch] > 0:
        a[WHY_MARKER if _is_control(b, b_capacity, batch) else WHY_ABORTED] += b[B_COUNT * b_capacity + batch]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _reason_of(
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
    bits: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    j: cython.pointer[cython.longlong],
    q: cython.pointer[cython.longlong],
    t: cython.pointer[cython.longlong],
    d: cython.pointer[cython.longlong],
    a: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """Why a record stays or goes: `WHY_*`."""
    offset: cython.longlong = r[R_OFFSET * capacity + row]
    at: cython.Py_ssize_t
    is_control: cython.bint = _is_control(b, b_capacity, batch)
    if bits & BIT_DISCARD:
        return WHY_MARKER if is_control else WHY_ABORTED
    if is_control and not j[J_RULES] & RULE_CONTROL_KEYS:
        return WHY_CONTROL
    if j[J_RULES] & RULE_PAST and offset > q[Q_LATEST]:
        return WHY_CONTROL if is_control else WHY_PAST
    if r[R_KEY_SIZE * capacity + row] < 0:
        return WHY_NO_KEY
    at = entry_of(d[2 * row], d[2 * row + 1], q[Q_SLOTS], t)
    if at >= 0 and t[at + ENTRY_OFFSET] == 0:
        at = -1
    if at >= 0 and offset < wrapped(t[at + ENTRY_OFFSET] - 1):
        if not t[at + ENTRY_HIGH] & 1:
            t[at + ENTRY_HIGH] |= 1
        return WHY_SUPERSEDED
    if r[R_VALUE_SIZE * capacity + row] >= 0:
        return WHY_CONTROL if is_control else WHY_LATEST
    a[T_TOMBSTONES] += 1
    if at < 0 or not t[at + ENTRY_HIGH] & 1:
        a[T_LONE] += 1
    return WHY_TOMBSTONE if _retains_tombstones(b, b_capacity, batch, j) else WHY_EXPIRED


@cython.cfunc
@cython.exceptval(check=False)
def _retains_tombstones(
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
    j: cython.pointer[cython.longlong],
) -> cython.bint:
    """Whether the time of a batch's tombstones has not come."""
    if b[B_FORMAT * b_capacity + batch] != MAGIC_V2 or not j[J_RULES] & RULE_HORIZONS:
        return j[J_RETAINS] != 0
    return not b[B_ATTRIBUTES * b_capacity + batch] & HORIZON or j[J_NOW] < b[B_BASE_TIME * b_capacity + batch]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _account(
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    why: cython.Py_ssize_t,
    k: cython.pointer[cython.longlong],
    at: cython.Py_ssize_t,
    a: cython.pointer[cython.longlong],
) -> cython.void:
    """Add a judged record to what is known of its batch and of all."""
    a[why] += 1
    if r[R_KEY_SIZE * capacity + row] > 0:
        a[T_BYTES + why] += r[R_KEY_SIZE * capacity + row]
    if r[R_VALUE_SIZE * capacity + row] > 0:
        a[T_BYTES + why] += r[R_VALUE_SIZE * capacity + row]
    if why >= WHY_SUPERSEDED:
        k[at + K_DROPPED] += 1
        return
    if k[at + K_KEPT] == 0:
        k[at + K_FIRST] = r[R_OFFSET * capacity + row]
        k[at + K_TIME] = r[R_TIME * capacity + row]
        k[at + K_MAX_TIME] = -1
    elif r[R_OFFSET * capacity + row] <= k[at + K_LAST]:
        k[at + K_TROUBLE] |= TROUBLE_ORDER
    k[at + K_KEPT] += 1
    k[at + K_LAST] = r[R_OFFSET * capacity + row]
    k[at + K_MAX_TIME] = max(k[at + K_MAX_TIME], r[R_TIME * capacity + row])
    if r[R_TIME * capacity + row] < -1:
        k[at + K_TROUBLE] |= TROUBLE_TIME
    if r[R_VALUE_SIZE * capacity + row] < 0:
        k[at + K_TOMBSTONES] += 1


@cython.cfunc
@cython.exceptval(check=False)
def _decide(
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
    bits: cython.Py_ssize_t,
    j: cython.pointer[cython.longlong],
    k: cython.pointer[cython.longlong],
    at: cython.Py_ssize_t,
) -> cython.void:
    """What becomes of a batch all of whose records are judged."""
    is_v2: cython.bint = b[B_FORMAT * b_capacity + batch] == MAGIC_V2
    converts: cython.bint = not is_v2 and (j[J_RULES] & RULE_CONVERT) != 0
    k[at + K_HORIZON] = -1
    if k[at + K_KEPT] == 0:
        k[at + K_TROUBLE] = 0
        k[at + K_OUTCOME] = OUTCOME_EMPTIED if bits & BIT_RETAIN_EMPTY else OUTCOME_REMOVED
        if bits & BIT_RETAIN_EMPTY and not is_v2:
            k[at + K_TROUBLE] = TROUBLE_EMPTY
        return
    k[at + K_OUTCOME] = OUTCOME_VERBATIM if k[at + K_DROPPED] == 0 and not converts else OUTCOME_REBUILT
    if j[J_RULES] & RULE_HORIZONS and (is_v2 or converts):
        if is_v2 and b[B_ATTRIBUTES * b_capacity + batch] & HORIZON:
            k[at + K_HORIZON] = b[B_BASE_TIME * b_capacity + batch]
        elif k[at + K_TOMBSTONES] > 0 or bits & BIT_EMPTY_TXN:
            k[at + K_HORIZON] = j[J_HORIZON]
            k[at + K_OUTCOME] = OUTCOME_REBUILT
    if k[at + K_OUTCOME] == OUTCOME_VERBATIM or (not is_v2 and j[J_RULES] & RULE_COPY):
        k[at + K_TROUBLE] = 0
    elif is_v2 and not _is_writable(b, b_capacity, batch):
        k[at + K_TROUBLE] |= TROUBLE_PRODUCER


@cython.cfunc
@cython.exceptval(check=False)
def _is_writable(
    b: cython.pointer[cython.longlong], b_capacity: cython.Py_ssize_t, batch: cython.Py_ssize_t
) -> cython.bint:
    """Whether Kafka's builder of batches would take this producer's."""
    if b[B_PID * b_capacity + batch] == -1:
        return (b[B_ATTRIBUTES * b_capacity + batch] & TRANSACTIONAL) == 0
    if b[B_PEPOCH * b_capacity + batch] == -1:
        return False
    return b[B_SEQUENCE * b_capacity + batch] >= 0 or (b[B_ATTRIBUTES * b_capacity + batch] & CONTROL) != 0
