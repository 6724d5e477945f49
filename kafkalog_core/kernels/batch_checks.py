"""Checks of batch headers, and totals of a segment from its headers, in one pass."""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import cells_of, wrapped

__all__ = ["check_batches", "find_contradiction", "find_outside", "joins_before"]


def check_batches(batches: object, first: cython.Py_ssize_t, state: object) -> int:
    """Check rows from `first` on. Return the first one that is odd and not muted, or the number of rows.

    `state` has the `BC_*` cells: totals including the returned row, and in BC_ODD the `ODD_*` bits of that row.
    """
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    s: cython.pointer[cython.longlong] = cells_of(state)
    capacity: cython.Py_ssize_t = batches.capacity
    count: cython.Py_ssize_t = batches.count
    row: cython.Py_ssize_t = first
    if s[BC_BATCHES] == 0 and row < count:
        s[BC_FIRST] = b[B_BASE_OFFSET * capacity + row]
    # b: batch columns, `capacity` cells each; s: state. Rows before `row` are in the totals of s. A stretch of magic
    # 2 is one call, which keeps its totals in registers.
    while row < count:
        s[BC_ODD] = 0
        s[BC_FORMATS] |= 1 << b[B_FORMAT * capacity + row]
        if b[B_FORMAT * capacity + row] == MAGIC_V2:
            row = _pass_v2(b, capacity, row, count, s)
        else:
            _legacy(b, capacity, row, s)
            row += 1
        if s[BC_ODD] & s[BC_MUTED]:
            _count_muted(s)
        if s[BC_ODD]:
            return row - 1
    return count


@cython.cfunc
@cython.exceptval(check=False)
def _pass_v2(
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """Check batches of magic 2 up to the first odd one or another format. Return the row after the last checked one."""
    begun: cython.Py_ssize_t = row
    unordered: cython.Py_ssize_t = -2  # row of the last batch whose offsets decrease
    base: cython.longlong
    last: cython.longlong
    records: cython.longlong
    time: cython.longlong
    base_time: cython.longlong
    epoch: cython.longlong = s[BC_EPOCH]
    expected: cython.longlong = wrapped(s[BC_PREVIOUS] + 1)
    latest: cython.longlong = s[BC_MAX_TIME]
    future: cython.longlong = s[BC_FUTURE_FROM]
    largest: cython.longlong = s[BC_LARGEST]
    total: cython.longlong = 0
    thinned: cython.longlong = 0
    producers: cython.longlong = 0
    if s[BC_PREVIOUS] == -2:
        expected = b[B_BASE_OFFSET * capacity + row]
    # Invariant: `expected` is the offset after the previous batch, `latest` the largest timestamp and `epoch` the last
    # leader epoch of rows before `row`; the totals are those from row `begun` on.
    while row < count and b[B_FORMAT * capacity + row] == MAGIC_V2:
        base = b[B_BASE_OFFSET * capacity + row]
        last = b[B_LAST_OFFSET * capacity + row]
        records = b[B_COUNT * capacity + row]
        time = b[B_MAX_TIME * capacity + row]
        base_time = b[B_BASE_TIME * capacity + row]
        total += records if records > 0 else 0
        thinned += records <= wrapped(last - base)
        if base != expected:
            if base < expected:  # out of order, which the walk reports: no gap follows
                unordered = row
            elif unordered < row - 1 and joins_before(b, capacity, row):
                s[BC_EXPECTED] = expected
                s[BC_ODD] |= ODD_GAP
        producers += b[B_PID * capacity + row] >= 0
        if time > latest:
            s[BC_FIRST_TIME] = time if latest < 0 else s[BC_FIRST_TIME]
            latest = time
        if time > future or time < -1 or base_time < -1:
            _odd_times(b, capacity, row, s)
        if b[B_EPOCH * capacity + row] != epoch:
            epoch = _epoch(b[B_EPOCH * capacity + row], epoch, s)
        if time < base_time or b[B_ATTRIBUTES * capacity + row] & CLOSE_LOOK or last > largest:
            s[BC_ODD] |= _odd_header(b, capacity, row, s)
        expected = wrapped(last + 1)
        row += 1
        if s[BC_ODD]:
            break
    s[BC_BATCHES] += row - begun
    s[BC_EPOCH] = epoch
    s[BC_LAST] = wrapped(expected - 1)
    s[BC_PREVIOUS] = s[BC_LAST] if unordered < row - 1 else -2
    s[BC_MAX_TIME] = latest
    s[BC_RECORDS] += total
    s[BC_THINNED] += thinned
    s[BC_PRODUCERS] += producers
    return row


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def joins_before(
    b: cython.pointer[cython.longlong], capacity: cython.Py_ssize_t, row: cython.Py_ssize_t
) -> cython.bint:
    """Return whether a batch starts where the previous one of the run ends, so that no damage is between them."""
    end: cython.longlong
    if row == 0:
        return True
    end = wrapped(b[B_POSITION * capacity + row - 1] + b[B_SIZE * capacity + row - 1])
    return b[B_POSITION * capacity + row] == end


@cython.cfunc
@cython.exceptval(check=False)
def _odd_times(
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.void:
    """Count timestamps in the future and below -1. A base timestamp may be a delete horizon, in the future."""
    largest: cython.longlong = b[B_MAX_TIME * capacity + row]
    if largest > s[BC_FUTURE_FROM]:
        if s[BC_FUTURE] == 0:
            s[BC_FUTURE_AT] = b[B_POSITION * capacity + row]
        s[BC_FUTURE] += 1
    if largest < -1 or b[B_BASE_TIME * capacity + row] < -1:
        if s[BC_NEGATIVE] == 0:
            s[BC_NEGATIVE_AT] = b[B_POSITION * capacity + row]
        s[BC_NEGATIVE] += 1


@cython.cfunc
@cython.exceptval(check=False)
def _epoch(epoch: cython.longlong, before: cython.longlong, s: cython.pointer[cython.longlong]) -> cython.longlong:
    """Note a change of the leader epoch. Return the epoch that the next batch is compared with."""
    if epoch < -1:
        s[BC_ODD] |= ODD_EPOCH
    if epoch < 0:  # -1: a batch that the cleaner converted from an older format
        return before
    s[BC_ODD] |= ODD_EPOCH_START if epoch > before else ODD_EPOCH_BACK
    s[BC_BEFORE] = before
    return epoch


@cython.cfunc
@cython.exceptval(check=False)
def _odd_header(
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.longlong:
    """Return the odd bits of attributes, relative offset, and base and maximum timestamp if both are of records."""
    odd: cython.longlong = 0
    attributes: cython.longlong = b[B_ATTRIBUTES * capacity + row]
    magic: cython.longlong = b[B_FORMAT * capacity + row]
    if attributes & (UNKNOWN_V2 if magic == MAGIC_V2 else UNKNOWN_V1 if magic == 1 else UNKNOWN_V0):
        odd = ODD_ATTRIBUTES
    if attributes & CODECS > (CODEC_ZSTD if magic == MAGIC_V2 else CODEC_LZ4):
        odd |= ODD_CODEC
    if b[B_LAST_OFFSET * capacity + row] > s[BC_LARGEST]:
        s[BC_LARGEST] = MAX_OFFSET
        odd |= ODD_OVERFLOW
    if (
        b[B_MAX_TIME * capacity + row] < b[B_BASE_TIME * capacity + row]
        and (attributes & (APPEND_TIME | HORIZON)) == 0
        and b[B_COUNT * capacity + row] > 0
    ):
        odd |= ODD_TIMES
    return odd


@cython.cfunc
@cython.exceptval(check=False)
def _legacy(
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.void:
    """Check a message of v07, v0 or v1: one record, or a wrapper, whose header has neither count nor first offset."""
    base: cython.longlong = b[B_BASE_OFFSET * capacity + row]
    time: cython.longlong = b[B_MAX_TIME * capacity + row]
    s[BC_BATCHES] += 1
    if b[B_COUNT * capacity + row] < 0:
        s[BC_WRAPPERS] += 1
    else:
        s[BC_RECORDS] += b[B_COUNT * capacity + row]
        if (
            s[BC_PREVIOUS] != -2
            and base > wrapped(s[BC_PREVIOUS] + 1)
            and b[B_FORMAT * capacity + row] != V07
            and joins_before(b, capacity, row)
        ):
            s[BC_EXPECTED] = wrapped(s[BC_PREVIOUS] + 1)
            s[BC_ODD] |= ODD_GAP
    s[BC_PREVIOUS] = s[BC_LAST] = b[B_LAST_OFFSET * capacity + row]
    if b[B_FORMAT * capacity + row] == V07:
        return
    if time > s[BC_MAX_TIME]:
        s[BC_FIRST_TIME] = time if s[BC_MAX_TIME] < 0 else s[BC_FIRST_TIME]
        s[BC_MAX_TIME] = time
    _odd_times(b, capacity, row, s)
    s[BC_ODD] |= _odd_header(b, capacity, row, s)


@cython.cfunc
@cython.exceptval(check=False)
def _count_muted(s: cython.pointer[cython.longlong]) -> cython.void:
    """Count and clear the muted bits of BC_ODD."""
    bit: cython.Py_ssize_t
    # s: state. The bits below `bit` are counted in their cells from BC_MORE on.
    for bit in range(ODD_BITS):
        if s[BC_ODD] & s[BC_MUTED] & (1 << bit):
            s[BC_MORE + bit] += 1
    s[BC_ODD] &= ~s[BC_MUTED]


# --- headers ----------------------------------------------------------------------------------------------------------
def find_contradiction(batches: object, first: cython.Py_ssize_t) -> int:
    """Return the first row from `first` on whose offsets and record count contradict, or the number of rows."""
    cells: cython.pointer[cython.longlong] = cells_of(batches.cells)
    capacity: cython.Py_ssize_t = batches.capacity
    count: cython.Py_ssize_t = batches.count
    row: cython.Py_ssize_t = first
    base: cython.longlong
    last: cython.longlong
    span: cython.longlong
    records: cython.longlong
    # cells: batch columns. The headers of the rows before `row` agree with themselves.
    while row < count:
        if cells[B_FORMAT * capacity + row] == MAGIC_V2:
            base = cells[B_BASE_OFFSET * capacity + row]
            last = cells[B_LAST_OFFSET * capacity + row]
            records = cells[B_COUNT * capacity + row]
            span = wrapped(last - base)
            if span < 0 or last < base or records < 0 or records - 1 > span:
                return row
        row += 1
    return count


def find_outside(batches: object, records: object, first: cython.Py_ssize_t) -> int:
    """Return the first record from row `first` on with an offset outside its batch of magic 2, or the number of rows.

    Records of a batch whose last offset is below its first one are skipped: the header has no valid range.
    """
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    b_capacity: cython.Py_ssize_t = batches.capacity
    r: cython.pointer[cython.longlong] = cells_of(records.cells)
    r_capacity: cython.Py_ssize_t = records.capacity
    count: cython.Py_ssize_t = records.count
    row: cython.Py_ssize_t = first
    batch: cython.Py_ssize_t
    base: cython.longlong
    last: cython.longlong
    offset: cython.longlong
    # b: batch columns; r: record columns. The records before `row` have offsets of their batches.
    while row < count:
        batch = r[R_BATCH * r_capacity + row]
        base = b[B_BASE_OFFSET * b_capacity + batch]
        last = b[B_LAST_OFFSET * b_capacity + batch]
        offset = r[R_OFFSET * r_capacity + row]
        if (offset < base or offset > last) and base <= last and b[B_FORMAT * b_capacity + batch] == MAGIC_V2:
            return row
        row += 1
    return count
