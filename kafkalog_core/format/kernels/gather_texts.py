"""The hot loops that pick rows, and copy their keys, values and headers into buffers as Arrow lays them out."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.constants import (
    B_FORMAT,
    H_KEY,
    H_KEY_SIZE,
    H_VALUE,
    H_VALUE_SIZE,
    MAGIC_V2,
    R_BATCH,
    R_HEADER_COUNT,
    R_HEADERS,
    R_KEY_SIZE,
    R_OFFSET,
    R_VALUE_SIZE,
)
from kafkalog_core.format.kernels.gather_numbers import (
    DONE_HEADER_KEYS,
    DONE_HEADER_VALUES,
    DONE_HEADERS,
    DONE_KEYS,
    DONE_ROWS,
    DONE_VALUES,
    TOLD_NOT_TEXT,
    TOLD_NULL_VALUES,
    TOLD_NULLS,
    TOLD_OFFSET,
    WANTS_HEADERS,
    WANTS_KEY,
    WANTS_VALUE,
)
from kafkalog_core.format.kernels.json_text import is_utf8

if cython.compiled:
    from cython.cimports.libc.string import memcpy

__all__ = ["gather_headers", "gather_texts", "measure_rows"]


def measure_rows(
    columns: object, selection: object, first: cython.Py_ssize_t, rows: cython.Py_ssize_t, most: cython.longlong,
    wanted: cython.longlong, done: object, picked: object,
) -> tuple[int, int]:  # fmt: skip
    """Pick rows from `first` on, as many as fit: at most `rows`, and of texts at most `most` bytes in all.

    `columns` are of records, or of batches where no texts are `wanted`; `selection` is None or a byte a row, 0 for
    those that are left out. `done` is what was gathered before, and that with the picked rows afterwards. Where
    nothing was gathered before, the first row fits in any case. Returns (next row, rows picked).
    """
    r_view: cython.longlong[::1] = columns.cells
    h_view: cython.longlong[::1] = columns.headers.cells if wanted else columns.cells
    n_view: cython.longlong[::1] = done
    k_view: cython.longlong[::1] = picked
    m_view: cython.const[cython.uchar][::1] = b"\x01" if selection is None else selection
    capacity: cython.Py_ssize_t = columns.capacity
    h_capacity: cython.Py_ssize_t = columns.headers.capacity if wanted else 0
    total: cython.Py_ssize_t = columns.count
    is_all: cython.bint = selection is None
    row: cython.Py_ssize_t = first
    count: cython.Py_ssize_t = 0
    n: cython.pointer[cython.longlong]
    r: cython.pointer[cython.longlong]
    h: cython.pointer[cython.longlong]
    if cython.compiled:
        r, h, n = cython.address(r_view[0]), cython.address(h_view[0]), cython.address(n_view[0])
    else:
        r, h, n = r_view, h_view, n_view
    while row < total:
        if is_all or m_view[row] != 0:
            if count == rows or (wanted and not _takes_row(r, capacity, h, h_capacity, row, wanted, most, n)):
                break
            n[DONE_ROWS] += 1
            k_view[count] = row
            count += 1
        row += 1
    return row, count


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _takes_row(
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    wanted: cython.longlong,
    most: cython.longlong,
    n: cython.pointer[cython.longlong],
) -> cython.bint:
    """Add the bytes of a row, unless they are too many."""
    k: cython.Py_ssize_t
    first: cython.Py_ssize_t = r[R_HEADERS * capacity + row]
    headers: cython.longlong = r[R_HEADER_COUNT * capacity + row] if wanted & WANTS_HEADERS else 0
    key: cython.longlong = _bytes_of_text(r[R_KEY_SIZE * capacity + row]) if wanted & WANTS_KEY else 0
    value: cython.longlong = _bytes_of_text(r[R_VALUE_SIZE * capacity + row]) if wanted & WANTS_VALUE else 0
    header_keys: cython.longlong = 0
    header_values: cython.longlong = 0
    before: cython.longlong = n[DONE_KEYS] + n[DONE_VALUES] + n[DONE_HEADER_KEYS] + n[DONE_HEADER_VALUES]
    for k in range(first, first + headers):
        header_keys += _bytes_of_text(h[H_KEY_SIZE * h_capacity + k])
        header_values += _bytes_of_text(h[H_VALUE_SIZE * h_capacity + k])
    if n[DONE_ROWS] > 0 and before + key + value + header_keys + header_values > most:
        return False
    n[DONE_KEYS] += key
    n[DONE_VALUES] += value
    n[DONE_HEADERS] += headers
    n[DONE_HEADER_KEYS] += header_keys
    n[DONE_HEADER_VALUES] += header_values
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _bytes_of_text(size: cython.longlong) -> cython.longlong:
    """How many bytes there are; of null, whose size is -1, none."""
    return size if size > 0 else 0


def gather_texts(
    memory: object, records: object, picked: object, count: cython.Py_ssize_t, field: cython.Py_ssize_t,
    out: object, at: cython.Py_ssize_t,
) -> None:  # fmt: skip
    """Append the bytes at column `field` (size in the next one) of the first `count` picked records, as row `at`."""
    data: cython.const[cython.uchar][::1] = memory
    r_view: cython.longlong[::1] = records.cells
    k_view: cython.longlong[::1] = picked
    f_view: cython.int[::1] = out.starts.cells
    v_view: cython.uchar[::1] = out.bits.cells
    w_view: cython.uchar[::1] = out.texts.cells
    capacity: cython.Py_ssize_t = records.capacity
    nulls: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = f_view[at]
    size: cython.longlong
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    p: cython.pointer[cython.const[cython.uchar]]
    w: cython.pointer[cython.uchar]
    v: cython.pointer[cython.uchar]
    if cython.compiled:
        p = cython.address(data[0]) if data.shape[0] else cython.NULL
        w, v = cython.address(w_view[0]), cython.address(v_view[0])
    else:
        p, w, v = data, w_view, v_view
    for i in range(count):
        row = k_view[i]
        size = r_view[(field + 1) * capacity + row]
        if size < 0:
            nulls += 1
            _clear_bit(v, at + i)
        else:
            _copy_bytes(p, r_view[field * capacity + row], size, w, end)
            end += size
        f_view[at + i + 1] = end
    out.nulls += nulls


def gather_headers(
    memory: object, batches: object, records: object, picked: object, count: cython.Py_ssize_t, out: object,
    at: cython.Py_ssize_t,
) -> None:  # fmt: skip
    """Append the headers of the first `count` picked records to the buffers `out`, as row `at`."""
    data: cython.const[cython.uchar][::1] = memory
    b_view: cython.longlong[::1] = batches.cells
    r_view: cython.longlong[::1] = records.cells
    h_view: cython.longlong[::1] = records.headers.cells
    k_view: cython.longlong[::1] = picked
    f_view: cython.int[::1] = out.starts.cells
    v_view: cython.uchar[::1] = out.bits.cells
    fk_view: cython.int[::1] = out.key_starts.cells
    fv_view: cython.int[::1] = out.value_starts.cells
    vv_view: cython.uchar[::1] = out.value_bits.cells
    wk_view: cython.uchar[::1] = out.keys.cells
    wv_view: cython.uchar[::1] = out.values.cells
    t_view: cython.longlong[::1] = out.told
    b_capacity: cython.Py_ssize_t = batches.capacity
    capacity: cython.Py_ssize_t = records.capacity
    h_capacity: cython.Py_ssize_t = records.headers.capacity
    header: cython.Py_ssize_t = f_view[at]
    size: cython.longlong
    start: cython.Py_ssize_t
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    row: cython.Py_ssize_t
    p: cython.pointer[cython.const[cython.uchar]]
    wk: cython.pointer[cython.uchar]
    wv: cython.pointer[cython.uchar]
    v: cython.pointer[cython.uchar]
    vv: cython.pointer[cython.uchar]
    if cython.compiled:
        p = cython.address(data[0]) if data.shape[0] else cython.NULL
        wk, wv = cython.address(wk_view[0]), cython.address(wv_view[0])
        v, vv = cython.address(v_view[0]), cython.address(vv_view[0])
    else:
        p, wk, wv, v, vv = data, wk_view, wv_view, v_view, vv_view
    for i in range(count):
        row = k_view[i]
        if b_view[B_FORMAT * b_capacity + r_view[R_BATCH * capacity + row]] != MAGIC_V2:
            t_view[TOLD_NULLS] += 1
            _clear_bit(v, at + i)
        else:
            start = r_view[R_HEADERS * capacity + row]
            for j in range(start, start + r_view[R_HEADER_COUNT * capacity + row]):
                size = _bytes_of_text(h_view[H_KEY_SIZE * h_capacity + j])
                if not _copy_if_text(p, h_view[H_KEY * h_capacity + j], size, wk, fk_view[header]):
                    if t_view[TOLD_NOT_TEXT] == 0:
                        t_view[TOLD_OFFSET] = r_view[R_OFFSET * capacity + row]
                    t_view[TOLD_NOT_TEXT] += 1
                fk_view[header + 1] = fk_view[header] + size
                size = h_view[H_VALUE_SIZE * h_capacity + j]
                if size < 0:
                    t_view[TOLD_NULL_VALUES] += 1
                    _clear_bit(vv, header)
                    size = 0
                _copy_bytes(p, h_view[H_VALUE * h_capacity + j], size, wv, fv_view[header])
                fv_view[header + 1] = fv_view[header] + size
                header += 1
        f_view[at + i + 1] = header


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _clear_bit(v: cython.pointer[cython.uchar], bit: cython.Py_ssize_t) -> cython.void:
    """Say that a row is null."""
    v[bit >> 3] &= ~(1 << (bit & 7)) & 0xFF


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _copy_bytes(
    p: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.void:
    if cython.compiled:
        memcpy(w + at, p + start, size)
    else:
        w[at : at + size] = p[start : start + size]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _copy_if_text(
    p: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.bint:
    """Copy, and tell whether it is exact UTF-8."""
    high: cython.uchar = 0
    i: cython.Py_ssize_t
    for i in range(start, start + size):
        high |= p[i]
    _copy_bytes(p, start, size, w, at)
    return high < 0x80 or is_utf8(p, start, start + size)
