"""The walk over the entries of a log: each becomes a row of the batch columns."""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.batch_checks import joins_before
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import (
    bytes_of,
    cells_of,
    crc32_of,
    crc32c_of,
    int16,
    int32,
    int64,
    uint32,
    wrapped,
)
from kafkalog_core.kernels.search import next_candidate

__all__ = [
    "checksum_agrees",
    "entry_stop",
    "fill_legacy",
    "fill_v2",
    "first_known_offset",
    "walk",
    "walk_over",
    "walk_v07",
    "weave",
]


def walk(
    memory: object,
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    file_position: cython.longlong,
    previous_offset: cython.longlong,
    max_bytes: cython.longlong,
    check: cython.bint,
    columns: object,
) -> tuple[int, int]:
    """Walk entries of magic 0, 1 and 2 in `memory[begin:end]` and fill the batch columns.

    Args:
        memory: bytes of the file.
        begin: position in `memory` of the first entry.
        end: position in `memory` to stop at.
        file_position: file position of `memory[0]`.
        previous_offset: last offset before `begin`.
        max_bytes: size of the largest allowed entry.
        check: whether checksums are computed.
        columns: batch columns to fill.

    Returns (stop reason, position in `memory` of the first entry not counted).
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    cells: cython.pointer[cython.longlong] = cells_of(columns.cells)
    capacity: cython.Py_ssize_t = columns.capacity
    i: cython.Py_ssize_t = begin
    row: cython.Py_ssize_t = 0
    size: cython.longlong
    magic: cython.longlong
    stop: cython.Py_ssize_t = STOP_END
    if end <= begin:
        columns.count = 0
        return STOP_END, begin
    # p: bytes of `memory`; cells: batch columns, `capacity` cells each. Entries before byte `i` are in rows before
    # `row`; `previous_offset` is the last offset of the last of them. entry_stop() checks that the whole entry is
    # available.
    while i < end and row < capacity:
        stop = entry_stop(p, i, end, max_bytes)
        if stop != STOP_END:
            break
        size = int32(p, i + SIZE_AT)
        magic = p[i + MAGIC_AT]
        if magic == 2:
            fill_v2(p, i, cells, capacity, row)
        else:
            fill_legacy(p, i, size, magic, cells, capacity, row)
        cells[B_POSITION * capacity + row] = file_position + i
        cells[B_SIZE * capacity + row] = OVERHEAD + size
        if check and not checksum_agrees(memory, p, i, size, magic, cells, capacity, row):
            stop = STOP_CHECKSUM
            break
        i += OVERHEAD + size
        row += 1
        if first_known_offset(cells, capacity, row - 1) <= previous_offset:
            stop = STOP_ORDER
            break
        previous_offset = cells[B_LAST_OFFSET * capacity + row - 1]
    columns.count = row
    return stop, i


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def entry_stop(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    max_bytes: cython.longlong,
) -> cython.Py_ssize_t:
    """Return why the bytes at `i` are not a whole entry, without its checksum; STOP_END: they are.

    The checks are those of FileLogInputStream.nextBatch; a size below ENTRY_MIN is corrupt for every magic.
    """
    size: cython.longlong
    magic: cython.longlong
    if i + HEADER_MIN > end:
        return STOP_MORE
    size = int32(p, i + SIZE_AT)
    magic = p[i + MAGIC_AT]
    if size < ENTRY_MIN or (magic == 2 and size + OVERHEAD < V2_SIZE):
        return STOP_LENGTH
    if magic > 2:
        return STOP_MAGIC
    if size + OVERHEAD > max_bytes:
        return STOP_LIMIT
    return STOP_MORE if i + OVERHEAD + size > end else STOP_END


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def first_known_offset(
    cells: cython.pointer[cython.longlong], capacity: cython.Py_ssize_t, row: cython.Py_ssize_t
) -> cython.longlong:
    """Return the base offset; for a legacy wrapper, whose header lacks it, the last offset."""
    if cells[B_COUNT * capacity + row] < 0 and cells[B_FORMAT * capacity + row] < 2:
        return cells[B_LAST_OFFSET * capacity + row]
    return cells[B_BASE_OFFSET * capacity + row]


@cython.cfunc
def checksum_agrees(
    memory: object,
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    size: cython.longlong,
    magic: cython.longlong,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.bint:
    """Compute the checksum of an entry into its row. Return whether it is the stored one."""
    end: cython.Py_ssize_t = i + OVERHEAD + size
    computed: cython.longlong
    if magic == 2:
        computed = crc32c_of(memory, p, i + V2_ATTRIBUTES_AT, end)
    else:
        computed = crc32_of(memory, p, i + MAGIC_AT, end)
    cells[B_COMPUTED * capacity + row] = computed
    return computed == cells[B_CRC * capacity + row]


@cython.cfunc
@cython.exceptval(check=False)
def fill_v2(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.void:
    """Fill a row with a batch of magic 2."""
    base: cython.longlong = int64(p, i)
    cells[B_FORMAT * capacity + row] = 2
    cells[B_ATTRIBUTES * capacity + row] = int16(p, i + V2_ATTRIBUTES_AT)
    cells[B_CODEC * capacity + row] = int16(p, i + V2_ATTRIBUTES_AT) & CODECS
    cells[B_BASE_OFFSET * capacity + row] = base
    cells[B_LAST_OFFSET * capacity + row] = wrapped(base + int32(p, i + V2_DELTA_AT))
    cells[B_COUNT * capacity + row] = int32(p, i + V2_COUNT_AT)
    cells[B_EPOCH * capacity + row] = int32(p, i + V2_EPOCH_AT)
    cells[B_BASE_TIME * capacity + row] = int64(p, i + V2_BASE_TIME_AT)
    cells[B_MAX_TIME * capacity + row] = int64(p, i + V2_MAX_TIME_AT)
    cells[B_PID * capacity + row] = int64(p, i + V2_PID_AT)
    cells[B_PEPOCH * capacity + row] = int16(p, i + V2_PEPOCH_AT)
    cells[B_SEQUENCE * capacity + row] = int32(p, i + V2_SEQUENCE_AT)
    cells[B_CRC * capacity + row] = uint32(p, i + V2_CRC_AT)
    cells[B_COMPUTED * capacity + row] = -1
    cells[B_START * capacity + row] = i + V2_SIZE
    cells[B_END * capacity + row] = i + OVERHEAD + int32(p, i + SIZE_AT)


@cython.cfunc
@cython.exceptval(check=False)
def fill_legacy(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    size: cython.longlong,
    magic: cython.longlong,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.void:
    """Fill a row with a message of magic 0 or 1."""
    offset: cython.longlong = int64(p, i)
    attributes: cython.longlong = p[i + LEGACY_ATTRIBUTES_AT]
    compressed: cython.bint = (attributes & CODECS) != 0
    timestamp: cython.longlong = -1
    if magic == 1 and size >= V1_KEY_AT - OVERHEAD:
        timestamp = int64(p, i + V1_TIME_AT)
    cells[B_FORMAT * capacity + row] = magic
    cells[B_ATTRIBUTES * capacity + row] = attributes
    cells[B_CODEC * capacity + row] = attributes & CODECS
    cells[B_BASE_OFFSET * capacity + row] = -1 if compressed else offset
    cells[B_LAST_OFFSET * capacity + row] = offset
    cells[B_COUNT * capacity + row] = -1 if compressed else 1
    cells[B_EPOCH * capacity + row] = -1
    cells[B_BASE_TIME * capacity + row] = timestamp
    cells[B_MAX_TIME * capacity + row] = timestamp
    cells[B_PID * capacity + row] = -1
    cells[B_PEPOCH * capacity + row] = -1
    cells[B_SEQUENCE * capacity + row] = -1
    cells[B_CRC * capacity + row] = uint32(p, i + LEGACY_CRC_AT)
    cells[B_COMPUTED * capacity + row] = -1
    cells[B_START * capacity + row] = i
    cells[B_END * capacity + row] = i + OVERHEAD + size
    if compressed:
        _fill_wrapper_span(p, i, i + OVERHEAD + size, magic, cells, capacity, row)


@cython.cfunc
@cython.exceptval(check=False)
def _fill_wrapper_span(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    magic: cython.longlong,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.void:
    """Fill in the span of the wrapper's value; -1, -1 if the lengths do not fit the message or the value is null."""
    at: cython.Py_ssize_t = i + (V1_KEY_AT if magic == 1 else V0_KEY_AT)
    length: cython.longlong
    cells[B_START * capacity + row] = -1
    cells[B_END * capacity + row] = -1
    if at + 4 > end:
        return
    length = int32(p, at)
    at += 4
    if length > 0:
        if length > end - at:
            return
        at += length
    if at + 4 > end:
        return
    length = int32(p, at)
    at += 4
    if length < 0 or length > end - at:
        return
    cells[B_START * capacity + row] = at
    cells[B_END * capacity + row] = at + length


# --- messages of 0.7 --------------------------------------------------------------------------------------------------
def walk_v07(
    memory: object,
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    file_position: cython.longlong,
    base_address: cython.longlong,
    max_bytes: cython.longlong,
    check: cython.bint,
    columns: object,
) -> tuple[int, int]:
    """Walk messages of Kafka 0.7. `base_address`: the number in the file name. Otherwise as `walk`."""
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    cells: cython.pointer[cython.longlong] = cells_of(columns.cells)
    capacity: cython.Py_ssize_t = columns.capacity
    i: cython.Py_ssize_t = begin
    row: cython.Py_ssize_t = 0
    length: cython.longlong
    payload: cython.Py_ssize_t
    stop: cython.Py_ssize_t = STOP_END
    computed: cython.longlong
    if end <= begin:
        columns.count = 0
        return STOP_END, begin
    # As in walk(): entries before byte `i` are in rows before `row`.
    while i < end and row < capacity:
        if i + V07_PREFIX + 1 > end:
            stop = STOP_MORE
            break
        length = int32(p, i)
        if length < V07_MIN:
            stop = STOP_LENGTH
            break
        if p[i + V07_PREFIX] > 1:
            stop = STOP_MAGIC
            break
        if length < V07_MIN + p[i + V07_PREFIX]:
            stop = STOP_LENGTH
            break
        if length + V07_PREFIX > max_bytes:
            stop = STOP_LIMIT
            break
        if i + V07_PREFIX + length > end:
            stop = STOP_MORE
            break
        payload = _fill_v07(p, i, length, file_position + i, base_address, cells, capacity, row)
        if check:
            computed = crc32_of(memory, p, payload, i + V07_PREFIX + length)
            cells[B_COMPUTED * capacity + row] = computed
            if computed != cells[B_CRC * capacity + row]:
                stop = STOP_CHECKSUM
                break
        i += V07_PREFIX + length
        row += 1
    columns.count = row
    return stop, i


@cython.cfunc
@cython.exceptval(check=False)
def _fill_v07(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    length: cython.longlong,
    position: cython.longlong,
    base_address: cython.longlong,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Fill a row. Return the start of the payload. The span is the payload of a wrapper, else the whole message."""
    magic: cython.Py_ssize_t = p[i + V07_PREFIX]
    at: cython.Py_ssize_t = i + V07_PREFIX + 1 + magic  # of the crc
    attributes: cython.longlong = -1
    if magic == 1:
        attributes = p[i + V07_PREFIX + 1]
    compressed: cython.bint = magic == 1 and (attributes & V07_CODECS) != 0
    cells[B_POSITION * capacity + row] = position
    cells[B_SIZE * capacity + row] = V07_PREFIX + length
    cells[B_FORMAT * capacity + row] = V07
    cells[B_ATTRIBUTES * capacity + row] = attributes
    cells[B_CODEC * capacity + row] = attributes & V07_CODECS if compressed else 0
    cells[B_BASE_OFFSET * capacity + row] = wrapped(base_address + position)
    cells[B_LAST_OFFSET * capacity + row] = wrapped(base_address + position + V07_PREFIX + length)
    cells[B_COUNT * capacity + row] = -1 if compressed else 1
    cells[B_EPOCH * capacity + row] = -1
    cells[B_BASE_TIME * capacity + row] = -1
    cells[B_MAX_TIME * capacity + row] = -1
    cells[B_PID * capacity + row] = -1
    cells[B_PEPOCH * capacity + row] = -1
    cells[B_SEQUENCE * capacity + row] = -1
    cells[B_CRC * capacity + row] = uint32(p, at)
    cells[B_COMPUTED * capacity + row] = -1
    cells[B_START * capacity + row] = at + 4 if compressed else i
    cells[B_END * capacity + row] = i + V07_PREFIX + length
    return at + 4


# --- the walk that continues after wrong checksums and decreasing offsets ---------------------------------------------
def walk_over(memory: object, state: object, columns: object, damaged: object) -> tuple[int, int]:
    """Walk entries of magic 0, 1 and 2 in `memory`, check checksums, and fill the batch columns with the correct ones.

    An entry with a wrong checksum is skipped and becomes a row of `damaged` if its length is right: it ends by
    W_TRUSTED, or the entries after it lead to a correct one, or to the file's end, in these bytes; and no correct entry
    starts within it, unless it ends by W_SEARCHED. A batch of magic 2 whose offsets are not above the previous ones
    gets a row of size 0 in addition to its own.

    Args:
        memory: bytes of the file.
        state: the `W_*` cells.
        columns: batch columns.
        damaged: damage columns.

    Returns (stop reason, position in `memory` of the first entry in neither). The columns may be full at STOP_END.
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    s: cython.pointer[cython.longlong] = cells_of(state)
    cells: cython.pointer[cython.longlong] = cells_of(columns.cells)
    d: cython.pointer[cython.longlong] = cells_of(damaged.cells)
    end: cython.Py_ssize_t = len(memory)
    if end == 0:
        columns.count = damaged.count = 0
        return STOP_END, 0
    stop, i, row, bad = _pass_entries(memory, p, end, s, cells, columns.capacity, d, damaged.capacity)
    columns.count, damaged.count = row, bad
    return stop, i


@cython.cfunc
def _pass_entries(
    memory: object,
    p: cython.pointer[cython.const[cython.uchar]],
    end: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    d: cython.pointer[cython.longlong],
    bad_capacity: cython.Py_ssize_t,
) -> tuple[cython.Py_ssize_t, cython.Py_ssize_t, cython.Py_ssize_t, cython.Py_ssize_t]:
    """Return the stop reason, the position of the first entry not counted, and the number of rows of both kinds."""
    i: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t = 0
    bad: cython.Py_ssize_t = 0
    chain: cython.Py_ssize_t = -1  # start of the entries whose lengths are not confirmed yet; -1: none
    chain_bad: cython.Py_ssize_t = 0
    size: cython.longlong
    previous: cython.longlong = s[W_PREVIOUS]
    stop: cython.Py_ssize_t = STOP_END
    # p: bytes of `memory`; s: state; cells: batch columns; d: damage columns. Entries before byte `i` are in rows
    # before `row` or damage rows before `bad`. Damage rows from `chain_bad` on (bytes from `chain` on) have
    # unconfirmed lengths: a correct entry confirms them; if none follows, the walk stops at `chain`.
    while i < end and row < capacity and bad < bad_capacity:
        stop = entry_stop(p, i, end, s[W_MAX_BYTES])
        if stop != STOP_END:
            break
        size = int32(p, i + SIZE_AT)
        if _is_whole(memory, p, i, size, cells, capacity, row, s):
            chain = -1
            if first_known_offset(cells, capacity, row) <= previous:
                if p[i + MAGIC_AT] != MAGIC_V2:
                    stop = STOP_ORDER
                else:
                    _put_order(cells, capacity, row, previous, d, bad_capacity, bad)
                    bad += 1
            previous = cells[B_LAST_OFFSET * capacity + row]
            row += 1
        else:
            _put_damage(cells, capacity, row, previous, d, bad_capacity, bad)
            if s[W_POSITION] + i + OVERHEAD + size > s[W_SEARCHED] and _may_hide_entry(
                memory, p, i, size, end, cells, capacity, row, s
            ):
                stop = STOP_CHECKSUM
                break
            if chain < 0 and s[W_POSITION] + i + OVERHEAD + size > s[W_TRUSTED]:
                chain = i
                chain_bad = bad
            bad += 1
        i += OVERHEAD + size
        if stop != STOP_END:
            break
    if chain >= 0 and not (i == end and s[W_POSITION] + end == s[W_FILE_END]):
        stop, i, bad = STOP_CHECKSUM, chain, chain_bad
    return stop, i, row, bad


def weave(columns: object, into: object) -> None:
    """Copy batch rows, and insert a row with format ROW_DAMAGE for the bytes between two batches that do not adjoin."""
    b: cython.pointer[cython.longlong] = cells_of(columns.cells)
    w: cython.pointer[cython.longlong] = cells_of(into.cells)
    capacity: cython.Py_ssize_t = columns.capacity
    w_capacity: cython.Py_ssize_t = into.capacity
    count: cython.Py_ssize_t = columns.count
    fields: cython.Py_ssize_t = len(columns.fields)
    row: cython.Py_ssize_t
    field: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    end: cython.longlong
    # b: batch columns; w: those to fill. The rows before `row` are in `w`, up to row `to`.
    for row in range(count):
        if not joins_before(b, capacity, row):
            end = b[B_POSITION * capacity + row - 1] + b[B_SIZE * capacity + row - 1]
            w[B_POSITION * w_capacity + to] = end
            w[B_SIZE * w_capacity + to] = b[B_POSITION * capacity + row] - end
            w[B_FORMAT * w_capacity + to] = ROW_DAMAGE
            w[B_BASE_OFFSET * w_capacity + to] = w[B_LAST_OFFSET * w_capacity + to] = LEAST
            to += 1
        for field in range(fields):
            w[field * w_capacity + to] = b[field * capacity + row]
        to += 1
    into.count = to


@cython.cfunc
def _is_whole(
    memory: object,
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    size: cython.longlong,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.bint:
    """Fill a row. Return whether the checksum is correct."""
    magic: cython.longlong = p[i + MAGIC_AT]
    if magic == MAGIC_V2:
        fill_v2(p, i, cells, capacity, row)
    else:
        fill_legacy(p, i, size, magic, cells, capacity, row)
    cells[B_POSITION * capacity + row] = s[W_POSITION] + i
    cells[B_SIZE * capacity + row] = OVERHEAD + size
    return checksum_agrees(memory, p, i, size, magic, cells, capacity, row)


@cython.cfunc
def _may_hide_entry(
    memory: object,
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    size: cython.longlong,
    end: cython.Py_ssize_t,
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.bint:
    """Return whether a correct entry starts within an entry, or the available bytes do not suffice to decide it."""
    rest: cython.longlong = s[W_FILE_END] - s[W_POSITION]
    last: cython.Py_ssize_t = i + OVERHEAD + size - 1
    at: cython.Py_ssize_t = i + 1
    inner: cython.longlong
    short: cython.Py_ssize_t
    s[W_SEARCHED_BYTES] += OVERHEAD + size
    if rest <= end:  # at the end of the file only a short legacy entry fits
        short = rest - HEADER_MIN - 9
        last = short if short < last else last
    elif last > end - V2_SIZE:
        return True
    # No correct entry starts in bytes i + 1 to `at`.
    while True:
        at = next_candidate(p, at, last, rest, 0, s[W_HIGH], s[W_MAX_BYTES])
        if at < 0:
            return False
        inner = int32(p, at + SIZE_AT)
        if _affords(OVERHEAD + inner, s) and (
            at + OVERHEAD + inner > end or _is_whole(memory, p, at, inner, cells, capacity, row, s)
        ):
            return True
        at += 1


@cython.cfunc
@cython.exceptval(check=False)
def _affords(size: cython.longlong, s: cython.pointer[cython.longlong]) -> cython.bint:
    """Return whether one more candidate of this size may be checked: the cost remains linear."""
    size_class: cython.Py_ssize_t = 0
    free: cython.longlong = FREE_CHECKS
    rest: cython.longlong = size
    # `rest` loses a bit a turn, so that `size_class` becomes the bit length of the size, and `free` grows with it.
    while rest > 0:
        rest >>= 1
        free <<= 1
        size_class += 1
    if s[W_WRONG + size_class] + size > CHECKED_PER_BYTE * s[W_SEARCHED_BYTES] + free:
        return False
    s[W_WRONG + size_class] += size
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_damage(
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    previous: cython.longlong,
    d: cython.pointer[cython.longlong],
    bad_capacity: cython.Py_ssize_t,
    bad: cython.Py_ssize_t,
) -> cython.void:
    """Add a damage row for an entry with a wrong checksum, which is in an uncounted row of the batch columns."""
    d[D_POSITION * bad_capacity + bad] = cells[B_POSITION * capacity + row]
    d[D_SIZE * bad_capacity + bad] = cells[B_SIZE * capacity + row]
    d[D_ROW * bad_capacity + bad] = row
    d[D_PREVIOUS * bad_capacity + bad] = previous
    d[D_FIRST * bad_capacity + bad] = cells[B_CRC * capacity + row]
    d[D_SECOND * bad_capacity + bad] = cells[B_COMPUTED * capacity + row]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_order(
    cells: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    previous: cython.longlong,
    d: cython.pointer[cython.longlong],
    bad_capacity: cython.Py_ssize_t,
    bad: cython.Py_ssize_t,
) -> cython.void:
    """Add a damage row for a correct batch whose offsets are not above the previous ones."""
    d[D_POSITION * bad_capacity + bad] = cells[B_POSITION * capacity + row]
    d[D_SIZE * bad_capacity + bad] = 0
    d[D_ROW * bad_capacity + bad] = row + 1
    d[D_PREVIOUS * bad_capacity + bad] = previous
    d[D_FIRST * bad_capacity + bad] = cells[B_BASE_OFFSET * capacity + row]
    d[D_SECOND * bad_capacity + bad] = cells[B_LAST_OFFSET * capacity + row]
