"""The cleaner's decisions: a reason for every record, an outcome for every batch (Cleaner, MemoryRecords.filterTo)."""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import bytes_of, cells_of, room_of, wrapped
from kafkalog_core.kernels.key_map import digest_ahead, entry_of

__all__ = ["judge", "take_rows"]


def take_rows(
    batches: object, bits: object, first: cython.Py_ssize_t, last: cython.Py_ssize_t, most: cython.longlong
) -> cython.Py_ssize_t:
    """Return the row after those from `first` on that one call can decode, or that are all skipped: at least one.

    They are all compressed or all plain; by `bits` all decoded or all skipped; and have at most `most` records.
    """
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    capacity: cython.Py_ssize_t = batches.capacity
    f: cython.pointer[cython.const[cython.uchar]] = bytes_of(bits)
    row: cython.Py_ssize_t
    count: cython.longlong
    total: cython.longlong = 0
    is_removed: cython.bint = (f[first] & BITS_REMOVED) == BIT_DISCARD
    is_plain: cython.bint = b[B_CODEC * capacity + first] == 0
    # b: batch columns; f: bits of the batches. The rows before `row` can be decoded in one call, or are all skipped.
    for row in range(first, last):
        if is_removed != ((f[row] & BITS_REMOVED) == BIT_DISCARD):
            return row
        if not is_removed:
            count = b[B_COUNT * capacity + row]
            if is_plain != (b[B_CODEC * capacity + row] == 0) or (row > first and count > most - total):
                return row
            total += count if count > 0 else 0
    return last


@cython.final
@cython.cclass
class _Judge:
    """The buffers of one call of `judge`. Pointers are valid during the call."""

    memory: object
    data: cython.pointer[cython.const[cython.uchar]]  # the bytes of `memory`, which the records refer to
    batches: cython.pointer[cython.longlong]
    batch_capacity: cython.Py_ssize_t
    bits: cython.pointer[cython.const[cython.uchar]]  # the `BIT_*` of each batch
    records: cython.pointer[cython.longlong]
    record_capacity: cython.Py_ssize_t
    record_count: cython.Py_ssize_t
    state: cython.pointer[cython.longlong]  # the `J_*` cells
    map_state: cython.pointer[cython.longlong]  # the `Q_*` cells of the offset map
    table: cython.pointer[cython.longlong]  # the entries of the offset map
    digests: cython.pointer[cython.longlong]  # two cells for each record
    reasons: cython.pointer[cython.uchar]  # the `WHY_*` of each record
    cells: cython.pointer[cython.longlong]  # K_SIZE cells for each batch
    tally: cython.pointer[cython.longlong]  # the `T_*` cells

    def __init__(self, memory: object, batches: object, bits: object, records: object) -> None:
        self.memory, self.data = memory, bytes_of(memory)
        self.batches, self.batch_capacity, self.bits = cells_of(batches.cells), batches.capacity, bytes_of(bits)
        self.records, self.record_capacity, self.record_count = cells_of(records.cells), records.capacity, records.count


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
    """Judge the records of batches `first` to `last` (exclusive), and the batches, if all their records are there.

    Return the row of the first batch with K_TROUBLE, or `last`.

    Args:
        memory: the buffer that the records refer to.
        batches: batch columns.
        bits: the `BIT_*` of each batch.
        records: record columns of only these batches.
        first: row of the first batch.
        last: row after the last one.
        is_whole: false: one batch, whose other records come in later calls.
        state: the `J_*` cells.
        map_state: the `Q_*` cells of the map.
        table: the entries of the map.
        digests: room for two cells for each record.
        reasons: room for a byte for each record: `WHY_*`.
        cells: the `K_*` cells of each batch, initially 0.
        tally: the `T_*` cells; they grow.
    """
    io: _Judge = _Judge(memory, batches, bits, records)
    io.state, io.map_state, io.table = cells_of(state), cells_of(map_state), cells_of(table)
    io.digests, io.reasons, io.cells, io.tally = cells_of(digests), room_of(reasons), cells_of(cells), cells_of(tally)
    return _judge_batches(io, first, last, is_whole)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _judge_batches(
    io: _Judge, first: cython.Py_ssize_t, last: cython.Py_ssize_t, is_whole: cython.bint
) -> cython.Py_ssize_t:
    """Judge the batches of a call; see `judge`."""
    row: cython.Py_ssize_t = 0
    ready: cython.Py_ssize_t = 0
    batch: cython.Py_ssize_t
    result: cython.Py_ssize_t = last
    # Records before `row` are judged; digests of records before `ready` are computed.
    for batch in range(first, last):
        if (io.bits[batch] & BITS_REMOVED) == BIT_DISCARD:
            _remove(io, batch)
            continue
        while row < io.record_count and io.records[R_BATCH * io.record_capacity + row] == batch:
            ready = max(ready, row)
            if (
                ready < io.record_count
                and ready < row + KEYS_AHEAD
                and (
                    not io.state[J_RULES] & RULE_PAST
                    or io.records[R_OFFSET * io.record_capacity + ready] <= io.map_state[Q_LATEST]
                )
            ):
                ready = digest_ahead(
                    io.memory,
                    io.data,
                    io.records,
                    io.record_capacity,
                    ready,
                    io.record_count,
                    io.map_state[Q_SLOTS],
                    io.table,
                    io.digests,
                )
            io.reasons[row] = _reason_of(io, batch, io.bits[batch], row)
            _account(io, row, io.reasons[row], batch * K_SIZE)
            row += 1
        if is_whole:
            _decide(io, batch, io.bits[batch], batch * K_SIZE)
            if io.cells[batch * K_SIZE + K_TROUBLE] != 0 and result == last:
                result = batch
    return result


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_control(io: _Judge, batch: cython.Py_ssize_t) -> cython.bint:
    return (
        io.batches[B_FORMAT * io.batch_capacity + batch] == MAGIC_V2
        and (io.batches[B_ATTRIBUTES * io.batch_capacity + batch] & CONTROL) != 0
    )


@cython.cfunc
@cython.exceptval(check=False)
def _remove(io: _Judge, batch: cython.Py_ssize_t) -> cython.void:
    """Count the records of a batch that is not decoded, by its header."""
    if io.batches[B_COUNT * io.batch_capacity + batch] > 0:
        io.tally[WHY_MARKER if _is_control(io, batch) else WHY_ABORTED] += io.batches[
            B_COUNT * io.batch_capacity + batch
        ]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _reason_of(
    io: _Judge, batch: cython.Py_ssize_t, bits: cython.Py_ssize_t, row: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Return why a record is retained or removed: `WHY_*` (Cleaner.shouldRetainRecord)."""
    offset: cython.longlong = io.records[R_OFFSET * io.record_capacity + row]
    at: cython.Py_ssize_t
    is_control: cython.bint = _is_control(io, batch)
    if bits & BIT_DISCARD:
        return WHY_MARKER if is_control else WHY_ABORTED
    if is_control and not io.state[J_RULES] & RULE_CONTROL_KEYS:
        return WHY_CONTROL
    if io.state[J_RULES] & RULE_PAST and offset > io.map_state[Q_LATEST]:
        return WHY_CONTROL if is_control else WHY_PAST
    if io.records[R_KEY_SIZE * io.record_capacity + row] < 0:
        return WHY_NO_KEY
    at = entry_of(io.digests[2 * row], io.digests[2 * row + 1], io.map_state[Q_SLOTS], io.table)
    if at >= 0 and io.table[at + ENTRY_OFFSET] == 0:
        at = -1
    if at >= 0 and offset < wrapped(io.table[at + ENTRY_OFFSET] - 1):
        if not io.table[at + ENTRY_HIGH] & 1:
            io.table[at + ENTRY_HIGH] |= 1
        return WHY_SUPERSEDED
    if io.records[R_VALUE_SIZE * io.record_capacity + row] >= 0:
        return WHY_CONTROL if is_control else WHY_LATEST
    if at < 0 or not io.table[at + ENTRY_HIGH] & 1:
        io.tally[T_LONE] += 1
    return WHY_TOMBSTONE if _retains_tombstones(io, batch) else WHY_EXPIRED


@cython.cfunc
@cython.exceptval(check=False)
def _retains_tombstones(io: _Judge, batch: cython.Py_ssize_t) -> cython.bint:
    """Return whether tombstones of a batch are retained.

    Magic 0 and 1, and releases without delete horizons: as J_RETAINS says, by the age of the segment. Else the batch
    has no horizon yet, or its horizon is not reached (KIP-534).
    """
    if io.batches[B_FORMAT * io.batch_capacity + batch] != MAGIC_V2 or not io.state[J_RULES] & RULE_HORIZONS:
        return io.state[J_RETAINS] != 0
    return (
        not io.batches[B_ATTRIBUTES * io.batch_capacity + batch] & HORIZON
        or io.state[J_NOW] < io.batches[B_BASE_TIME * io.batch_capacity + batch]
    )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _account(io: _Judge, row: cython.Py_ssize_t, why: cython.Py_ssize_t, at: cython.Py_ssize_t) -> cython.void:
    """Add a judged record to the cells of its batch and to the tally."""
    io.tally[why] += 1
    if io.records[R_KEY_SIZE * io.record_capacity + row] > 0:
        io.tally[T_BYTES + why] += io.records[R_KEY_SIZE * io.record_capacity + row]
    if io.records[R_VALUE_SIZE * io.record_capacity + row] > 0:
        io.tally[T_BYTES + why] += io.records[R_VALUE_SIZE * io.record_capacity + row]
    if why >= WHY_SUPERSEDED:
        io.cells[at + K_DROPPED] += 1
        return
    if io.cells[at + K_KEPT] == 0:
        io.cells[at + K_FIRST] = io.records[R_OFFSET * io.record_capacity + row]
        io.cells[at + K_TIME] = io.records[R_TIME * io.record_capacity + row]
        io.cells[at + K_MAX_TIME] = -1
    elif io.records[R_OFFSET * io.record_capacity + row] <= io.cells[at + K_LAST]:
        io.cells[at + K_TROUBLE] |= TROUBLE_ORDER
    io.cells[at + K_KEPT] += 1
    io.cells[at + K_LAST] = io.records[R_OFFSET * io.record_capacity + row]
    io.cells[at + K_MAX_TIME] = max(io.cells[at + K_MAX_TIME], io.records[R_TIME * io.record_capacity + row])
    if io.records[R_TIME * io.record_capacity + row] < -1:
        io.cells[at + K_TROUBLE] |= TROUBLE_TIME
    if io.records[R_VALUE_SIZE * io.record_capacity + row] < 0:
        io.cells[at + K_TOMBSTONES] += 1


@cython.cfunc
@cython.exceptval(check=False)
def _decide(io: _Judge, batch: cython.Py_ssize_t, bits: cython.Py_ssize_t, at: cython.Py_ssize_t) -> cython.void:
    """Decide the outcome of a batch whose records are all judged."""
    is_v2: cython.bint = io.batches[B_FORMAT * io.batch_capacity + batch] == MAGIC_V2
    converts: cython.bint = not is_v2 and (io.state[J_RULES] & RULE_CONVERT) != 0
    io.cells[at + K_HORIZON] = -1
    if io.cells[at + K_KEPT] == 0:
        io.cells[at + K_TROUBLE] = 0
        io.cells[at + K_OUTCOME] = OUTCOME_EMPTIED if bits & BIT_RETAIN_EMPTY else OUTCOME_REMOVED
        if bits & BIT_RETAIN_EMPTY and not is_v2:
            io.cells[at + K_TROUBLE] = TROUBLE_EMPTY
        return
    io.cells[at + K_OUTCOME] = OUTCOME_VERBATIM if io.cells[at + K_DROPPED] == 0 and not converts else OUTCOME_REBUILT
    if io.state[J_RULES] & RULE_HORIZONS and (is_v2 or converts):
        if is_v2 and io.batches[B_ATTRIBUTES * io.batch_capacity + batch] & HORIZON:
            io.cells[at + K_HORIZON] = io.batches[B_BASE_TIME * io.batch_capacity + batch]
        elif io.cells[at + K_TOMBSTONES] > 0 or bits & BIT_EMPTY_TXN:
            io.cells[at + K_HORIZON] = io.state[J_HORIZON]
            io.cells[at + K_OUTCOME] = OUTCOME_REBUILT
    if io.cells[at + K_OUTCOME] == OUTCOME_VERBATIM or (not is_v2 and io.state[J_RULES] & RULE_COPY):
        io.cells[at + K_TROUBLE] = 0
    elif is_v2 and not _is_writable(io, batch):
        io.cells[at + K_TROUBLE] |= TROUBLE_PRODUCER


@cython.cfunc
@cython.exceptval(check=False)
def _is_writable(io: _Judge, batch: cython.Py_ssize_t) -> cython.bint:
    """Return whether MemoryRecordsBuilder accepts the producer fields of a batch."""
    if io.batches[B_PID * io.batch_capacity + batch] == -1:
        return (io.batches[B_ATTRIBUTES * io.batch_capacity + batch] & TRANSACTIONAL) == 0
    if io.batches[B_PEPOCH * io.batch_capacity + batch] == -1:
        return False
    return (
        io.batches[B_SEQUENCE * io.batch_capacity + batch] >= 0
        or (io.batches[B_ATTRIBUTES * io.batch_capacity + batch] & CONTROL) != 0
    )
