"""The walk that goes on over entries whose checksum alone is wrong, and over offsets that go back."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.batch_checks import joins_before
from kafkalog_core.format.kernels.constants import (
    B_BASE_OFFSET,
    B_COMPUTED,
    B_CRC,
    B_FORMAT,
    B_LAST_OFFSET,
    B_POSITION,
    B_SIZE,
    CHECKED_PER_BYTE,
    D_FIRST,
    D_POSITION,
    D_PREVIOUS,
    D_ROW,
    D_SECOND,
    D_SIZE,
    FREE_CHECKS,
    HEADER_MIN,
    LEAST,
    MAGIC_AT,
    MAGIC_V2,
    OVERHEAD,
    ROW_DAMAGE,
    SIZE_AT,
    STOP_CHECKSUM,
    STOP_END,
    STOP_ORDER,
    V2_SIZE,
    W_FILE_END,
    W_HIGH,
    W_MAX_BYTES,
    W_POSITION,
    W_PREVIOUS,
    W_SEARCHED,
    W_SEARCHED_BYTES,
    W_TRUSTED,
    W_WRONG,
)
from kafkalog_core.format.kernels.integers import int32
from kafkalog_core.format.kernels.log_walk import (
    checksum_agrees,
    entry_stop,
    fill_legacy,
    fill_v2,
    first_known_offset,
)
from kafkalog_core.format.kernels.search import next_candidate

__all__ = ["walk_over", "weave"]


def walk_over(memory: object, state: object, columns: object, damaged: object) -> tuple[int, int]:
    """Walk entries of magic 0, 1 and 2 in `memory`, checksums computed, and fill the batch columns with the whole ones.

    An entry whose checksum alone is wrong is passed over and becomes a row of `damaged` where its length is right: it
    ends by W_TRUSTED, or the entries from it on lead to a whole one, or to the file's end, in these bytes; and no
    whole entry may start inside of it, unless it ends by W_SEARCHED. A batch of magic 2 whose offsets were there before
    gets a row of size 0 beside its own.

    Args:
        memory: bytes of the file.
        state: the `W_*` cells.
        columns: batch columns.
        damaged: damage columns.

    Returns (stop reason, position in `memory` of the first entry in neither). The columns may be full at STOP_END.
    """
    data: cython.const[cython.uchar][::1] = memory
    state_view: cython.longlong[::1] = state
    cells_view: cython.longlong[::1] = columns.cells
    bad_view: cython.longlong[::1] = damaged.cells
    end: cython.Py_ssize_t = len(memory)
    if end == 0:
        columns.count = damaged.count = 0
        return STOP_END, 0
    if cython.compiled:
        stop, i, row, bad = _pass_entries(
            memory,
            cython.address(data[0]),
            end,
            cython.address(state_view[0]),
            cython.address(cells_view[0]),
            columns.capacity,
            cython.address(bad_view[0]),
            damaged.capacity,
        )
    else:
        stop, i, row, bad = _pass_entries(
            memory, data, end, state_view, cells_view, columns.capacity, bad_view, damaged.capacity
        )
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
    """Stop reason, position of the first entry not counted, and how many rows of both kinds are filled."""
    i: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t = 0
    bad: cython.Py_ssize_t = 0
    chain: cython.Py_ssize_t = -1  # where entries begin of which nothing tells yet that their lengths are right
    chain_bad: cython.Py_ssize_t = 0
    size: cython.longlong
    previous: cython.longlong = s[W_PREVIOUS]
    stop: cython.Py_ssize_t = STOP_END
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
    """Rows of the batch columns, and one for what is damaged between two of them: with ROW_DAMAGE for a format."""
    b_view: cython.longlong[::1] = columns.cells
    w_view: cython.longlong[::1] = into.cells
    capacity: cython.Py_ssize_t = columns.capacity
    w_capacity: cython.Py_ssize_t = into.capacity
    count: cython.Py_ssize_t = columns.count
    fields: cython.Py_ssize_t = len(columns.fields)
    b: cython.pointer[cython.longlong]
    w: cython.pointer[cython.longlong]
    row: cython.Py_ssize_t
    field: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    end: cython.longlong
    if cython.compiled:
        b, w = cython.address(b_view[0]), cython.address(w_view[0])
    else:
        b, w = b_view, w_view
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
    """Fill a row; whether its checksum agrees."""
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
    """Whether a whole entry starts inside of one, or these bytes do not suffice to tell."""
    rest: cython.longlong = s[W_FILE_END] - s[W_POSITION]
    last: cython.Py_ssize_t = i + OVERHEAD + size - 1
    at: cython.Py_ssize_t = i + 1
    inner: cython.longlong
    short: cython.Py_ssize_t
    s[W_SEARCHED_BYTES] += OVERHEAD + size
    if rest <= end:  # no longer entry can follow the file's last bytes, a short legacy one can
        short = rest - HEADER_MIN - 9
        last = short if short < last else last
    elif last > end - V2_SIZE:
        return True
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
    """Whether one more place of this size may be looked at closely; see `storage.resync`."""
    size_class: cython.Py_ssize_t = 0
    free: cython.longlong = FREE_CHECKS
    rest: cython.longlong = size
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
    """An entry with a wrong checksum, which stands in a row of the batch columns that is not counted."""
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
    """A whole batch whose offsets were there before."""
    d[D_POSITION * bad_capacity + bad] = cells[B_POSITION * capacity + row]
    d[D_SIZE * bad_capacity + bad] = 0
    d[D_ROW * bad_capacity + bad] = row + 1
    d[D_PREVIOUS * bad_capacity + bad] = previous
    d[D_FIRST * bad_capacity + bad] = cells[B_BASE_OFFSET * capacity + row]
    d[D_SECOND * bad_capacity + bad] = cells[B_LAST_OFFSET * capacity + row]
