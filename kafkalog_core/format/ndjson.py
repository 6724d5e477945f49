# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The hot loop that writes JSON lines of records and batches straight from columns into a buffer.

A `Template` (template.py) says what a line is: for each format a program of operations, each with the literal text before it,
made from `tables.py`. This file only carries the programs out. Rules: those of `kernels.py`. Every `_put_*` function writes at
`at` and returns the position behind what it wrote; the caller has made sure that the worst case fits.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format import _cython as cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy

from kafkalog_core.format import layout
from kafkalog_core.format.columns import BATCH_FIELDS, FORMAT_V07, HEADER_FIELDS, RECORD_FIELDS

COMPILED = cython.compiled
SOURCE_SHA256 = "interpreted"

# --- operations: (operation, a, b, piece before it) -------------------------------------------------------------------
OPERATION_SIZE = 4
SLACK = 16  # bytes behind texts and buffers that a copy in whole steps may touch
OPERATIONS = (
    "end",  # of the program; the piece ends the line
    "record_int",  # integer of record column a
    "record_int_or_null",  # the same, null where it is negative
    "record_name",  # piece b + value of record column a
    "batch_int",  # integer of batch column a
    "batch_int_or_null",
    "batch_int_if",  # integer of batch column a, null unless attribute bits b are set
    "batch_bit",  # piece b, or b + 1 where attribute bits a are set
    "batch_name",  # piece b + value of batch column a
    "batch_crc_ok",  # pieces b, b + 1; null where no checksum was computed
    "text",  # bytes at record columns a (start) and a + 1 (size), with the pieces b to b + 3: null, text, base64, hex
    "headers",  # pieces b to b + 6: key as text, key as bytes, value null, text, base64, hex, end
    "sequence",  # sequence number of the record
    "control",  # null, or piece b + control type
    "v07_magic",  # 0 or 1
)
O_SIZE = cython.declare(cython.Py_ssize_t, OPERATION_SIZE)
OP_END = cython.declare(cython.Py_ssize_t, OPERATIONS.index("end"))
OP_RECORD_INT = cython.declare(cython.Py_ssize_t, OPERATIONS.index("record_int"))
OP_RECORD_INT_OR_NULL = cython.declare(cython.Py_ssize_t, OPERATIONS.index("record_int_or_null"))
OP_RECORD_NAME = cython.declare(cython.Py_ssize_t, OPERATIONS.index("record_name"))
OP_BATCH_INT = cython.declare(cython.Py_ssize_t, OPERATIONS.index("batch_int"))
OP_BATCH_INT_OR_NULL = cython.declare(cython.Py_ssize_t, OPERATIONS.index("batch_int_or_null"))
OP_BATCH_INT_IF = cython.declare(cython.Py_ssize_t, OPERATIONS.index("batch_int_if"))
OP_BATCH_BIT = cython.declare(cython.Py_ssize_t, OPERATIONS.index("batch_bit"))
OP_BATCH_NAME = cython.declare(cython.Py_ssize_t, OPERATIONS.index("batch_name"))
OP_BATCH_CRC_OK = cython.declare(cython.Py_ssize_t, OPERATIONS.index("batch_crc_ok"))
OP_TEXT = cython.declare(cython.Py_ssize_t, OPERATIONS.index("text"))
OP_HEADERS = cython.declare(cython.Py_ssize_t, OPERATIONS.index("headers"))
OP_SEQUENCE = cython.declare(cython.Py_ssize_t, OPERATIONS.index("sequence"))
OP_CONTROL = cython.declare(cython.Py_ssize_t, OPERATIONS.index("control"))
OP_V07_MAGIC = cython.declare(cython.Py_ssize_t, OPERATIONS.index("v07_magic"))

# --- the first pieces of every template -------------------------------------------------------------------------------
FIRST_PIECES = (b"null", b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", b"0123456789abcdef")
PIECE_NULL = cython.declare(cython.Py_ssize_t, 0)
PIECE_BASE64 = cython.declare(cython.Py_ssize_t, 1)
PIECE_HEX = cython.declare(cython.Py_ssize_t, 2)
MODE_TEXT = cython.declare(cython.Py_ssize_t, 0)
MODE_BASE64 = cython.declare(cython.Py_ssize_t, 1)
BOUND_INT = cython.declare(cython.longlong, 24)  # an int64 with its sign, rounded up
MAX_DIGITS = cython.declare(cython.Py_ssize_t, 20)  # of an unsigned 64-bit integer
# literals over 31 bits would be Python integers in compiled code
ONES = cython.declare(cython.ulonglong, 0x0101010101010101)
HIGHS = cython.declare(cython.ulonglong, 0x8080808080808080)
SPACES = cython.declare(cython.ulonglong, 0x2020202020202020)
QUOTES = cython.declare(cython.ulonglong, 0x2222222222222222)
SLASHES = cython.declare(cython.ulonglong, 0x5C5C5C5C5C5C5C5C)
BOUND_BYTE = cython.declare(cython.longlong, 6)  # a byte as \\u00xx

# --- columns that are read by name (see columns.py) -------------------------------------------------------------------
B_FORMAT = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("format"))
B_ATTRIBUTES = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("attributes"))
B_BASE_OFFSET = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("base_offset"))
B_SEQUENCE = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("base_sequence"))
B_CRC = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("crc_stored"))
B_COMPUTED = cython.declare(cython.Py_ssize_t, BATCH_FIELDS.index("crc_computed"))
R_BATCH = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("batch"))
R_OFFSET = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("offset"))
R_KEY = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("key_start"))
R_KEY_SIZE = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("key_size"))
R_VALUE_SIZE = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("value_size"))
R_HEADERS = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("first_header"))
R_HEADER_COUNT = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("header_count"))
R_ATTRIBUTES = cython.declare(cython.Py_ssize_t, RECORD_FIELDS.index("attributes"))
H_KEY = cython.declare(cython.Py_ssize_t, HEADER_FIELDS.index("key_start"))
H_KEY_SIZE = cython.declare(cython.Py_ssize_t, HEADER_FIELDS.index("key_size"))
H_VALUE = cython.declare(cython.Py_ssize_t, HEADER_FIELDS.index("value_start"))
H_VALUE_SIZE = cython.declare(cython.Py_ssize_t, HEADER_FIELDS.index("value_size"))
V07 = cython.declare(cython.longlong, FORMAT_V07)
CONTROL = cython.declare(cython.longlong, layout.CONTROL_BIT)
CONTROL_TYPES = cython.declare(cython.longlong, len(layout.CONTROL_TYPE_NAMES))
MAX_SEQUENCE = cython.declare(cython.longlong, layout.MAX_INT32)


def write_rows(
    memory: object,
    batches: object,
    records: object,
    selection: object,
    first: cython.Py_ssize_t,
    template: object,
    out: object,
) -> tuple[int, int]:
    """Write lines of rows from `first` on into `out` until it is full.

    Rows are records, or batches where `records` is None; `selection` is None or a byte a row, 0 for those that are left out.
    Returns (next row, bytes written); with 0 bytes written and rows left, `out` is too small for one line.
    """
    data: cython.const[cython.uchar][::1] = memory
    b_view: cython.longlong[::1] = batches.cells
    b_capacity: cython.Py_ssize_t = batches.capacity
    r_view: cython.longlong[::1] = batches.cells if records is None else records.cells
    r_capacity: cython.Py_ssize_t = 0 if records is None else records.capacity
    h_view: cython.longlong[::1] = batches.cells if records is None else records.headers.cells
    h_capacity: cython.Py_ssize_t = 0 if records is None else records.headers.capacity
    t_view: cython.const[cython.uchar][::1] = template.text
    s_view: cython.longlong[::1] = template.starts
    o_view: cython.longlong[::1] = template.operations
    e_view: cython.longlong[::1] = template.entries
    m_view: cython.const[cython.uchar][::1] = b"\x01" if selection is None else selection
    w_view: cython.uchar[::1] = out
    selects: cython.bint = selection is not None
    count: cython.Py_ssize_t = batches.count if records is None else records.count
    mode: cython.Py_ssize_t = template.mode
    literals: cython.longlong = template.bound
    size: cython.Py_ssize_t = len(out)
    at: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t = first
    batch: cython.Py_ssize_t
    p: cython.pointer[cython.const[cython.uchar]]
    t: cython.pointer[cython.const[cython.uchar]]
    b: cython.pointer[cython.longlong]
    r: cython.pointer[cython.longlong]
    h: cython.pointer[cython.longlong]
    s: cython.pointer[cython.longlong]
    o: cython.pointer[cython.longlong]
    w: cython.pointer[cython.uchar]
    if cython.compiled:
        p = cython.address(data[0]) if data.shape[0] else cython.NULL
        b, r, h = cython.address(b_view[0]), cython.address(r_view[0]), cython.address(h_view[0])
        t, s, o = cython.address(t_view[0]), cython.address(s_view[0]), cython.address(o_view[0])
        w = cython.address(w_view[0])
    else:
        p, b, r, h, t, s, o, w = data, b_view, r_view, h_view, t_view, s_view, o_view, w_view
    while row < count:
        if selects and m_view[row] == 0:
            row += 1
            continue
        batch = row
        if r_capacity:
            batch = r[R_BATCH * r_capacity + row]
            if literals + _bytes_bound(r, r_capacity, h, h_capacity, row) > size - at:
                break
        elif literals > size - at:
            break
        at = _put_line(
            p, b, b_capacity, batch, r, r_capacity, h, h_capacity, row, t, s, o,
            e_view[b[B_FORMAT * b_capacity + batch]], mode, w, at,
        )  # fmt: skip
        row += 1
    return row, at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _bytes_bound(
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.longlong:
    """The most that key, value and headers of a record can take."""
    bound: cython.longlong = 0
    k: cython.Py_ssize_t
    if r[R_KEY_SIZE * r_capacity + row] > 0:
        bound += r[R_KEY_SIZE * r_capacity + row]
    if r[R_VALUE_SIZE * r_capacity + row] > 0:
        bound += r[R_VALUE_SIZE * r_capacity + row]
    for k in range(r[R_HEADERS * r_capacity + row], r[R_HEADERS * r_capacity + row] + r[R_HEADER_COUNT * r_capacity + row]):
        bound += h[H_KEY_SIZE * h_capacity + k] + BOUND_INT
        if h[H_VALUE_SIZE * h_capacity + k] > 0:
            bound += h[H_VALUE_SIZE * h_capacity + k]
    return bound * BOUND_BYTE


@cython.cfunc
@cython.exceptval(check=False)
def _put_line(
    p: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    o: cython.pointer[cython.longlong],
    step: cython.Py_ssize_t,
    mode: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """One line: the program of the batch's format, from operation `step` on."""
    operation: cython.longlong
    x: cython.longlong
    y: cython.longlong
    start: cython.Py_ssize_t
    while True:
        operation = o[step * O_SIZE]
        x = o[step * O_SIZE + 1]
        y = o[step * O_SIZE + 2]
        at = _put_piece(t, s, o[step * O_SIZE + 3], w, at)
        step += 1
        if operation == OP_RECORD_INT:
            at = _put_int(r[x * r_capacity + row], w, at)
        elif operation == OP_BATCH_INT:
            at = _put_int(b[x * b_capacity + batch], w, at)
        elif operation == OP_BATCH_BIT:
            at = _put_piece(t, s, y + ((b[B_ATTRIBUTES * b_capacity + batch] & x) != 0), w, at)
        elif operation == OP_BATCH_NAME:
            at = _put_piece(t, s, y + b[x * b_capacity + batch], w, at)
        elif operation == OP_TEXT:
            start = r[x * r_capacity + row]
            at = _put_bytes(p, start, r[(x + 1) * r_capacity + row], t, s, y, mode, w, at)
        elif operation == OP_HEADERS:
            start = r[R_HEADERS * r_capacity + row]
            at = _put_headers(p, h, h_capacity, start, r[R_HEADER_COUNT * r_capacity + row], t, s, y, mode, w, at)
        elif operation == OP_SEQUENCE:
            at = _put_int(_sequence(b, b_capacity, batch, r[R_OFFSET * r_capacity + row]), w, at)
        elif operation == OP_CONTROL:
            at = _put_control(p, b, b_capacity, batch, r, r_capacity, row, t, s, y, w, at)
        elif operation == OP_END:
            return at
        else:
            at = _put_rare(operation, x, y, b, b_capacity, batch, r, r_capacity, row, t, s, w, at)


@cython.cfunc
@cython.exceptval(check=False)
def _put_rare(
    operation: cython.longlong,
    x: cython.longlong,
    y: cython.longlong,
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Operations of batches and of old formats."""
    value: cython.longlong
    if operation == OP_RECORD_NAME:
        return _put_piece(t, s, y + r[x * r_capacity + row], w, at)
    if operation == OP_BATCH_CRC_OK:
        value = b[B_COMPUTED * b_capacity + batch]
        if value < 0:
            return _put_piece(t, s, PIECE_NULL, w, at)
        return _put_piece(t, s, y + (value == b[B_CRC * b_capacity + batch]), w, at)
    if operation == OP_V07_MAGIC:
        return _put_int(1 if r[R_ATTRIBUTES * r_capacity + row] >= 0 else 0, w, at)
    if operation == OP_BATCH_INT_IF:
        if (b[B_ATTRIBUTES * b_capacity + batch] & y) == 0:
            return _put_piece(t, s, PIECE_NULL, w, at)
        return _put_int(b[x * b_capacity + batch], w, at)
    value = r[x * r_capacity + row] if operation == OP_RECORD_INT_OR_NULL else b[x * b_capacity + batch]
    if value < 0:
        return _put_piece(t, s, PIECE_NULL, w, at)
    return _put_int(value, w, at)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _sequence(
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
    offset: cython.longlong,
) -> cython.longlong:
    """Sequence number of a record: base + offset delta, wrapping at 2^31 (DefaultRecordBatch.incrementSequence)."""
    base: cython.longlong = b[B_SEQUENCE * capacity + batch]
    delta: cython.longlong = offset - b[B_BASE_OFFSET * capacity + batch]
    if base < 0:
        return -1
    if base > MAX_SEQUENCE - delta:
        return delta - (MAX_SEQUENCE - base) - 1
    return base + delta


@cython.cfunc
@cython.exceptval(check=False)
def _put_control(
    p: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    first_name: cython.longlong,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Name of the control type in the record's key (ControlRecordType.parseTypeId)."""
    kind: cython.longlong = CONTROL_TYPES
    start: cython.Py_ssize_t = r[R_KEY * r_capacity + row]
    if (b[B_ATTRIBUTES * b_capacity + batch] & CONTROL) == 0:
        return _put_piece(t, s, PIECE_NULL, w, at)
    if r[R_KEY_SIZE * r_capacity + row] >= 4 and p[start] < 0x80 and p[start + 2] == 0 and p[start + 3] < CONTROL_TYPES:
        kind = p[start + 3]
    return _put_piece(t, s, first_name + kind, w, at)


@cython.cfunc
@cython.exceptval(check=False)
def _put_headers(
    p: cython.pointer[cython.const[cython.uchar]],
    h: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    pieces: cython.Py_ssize_t,
    mode: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    k: cython.Py_ssize_t
    q: cython.Py_ssize_t
    end: cython.Py_ssize_t
    w[at] = 0x5B  # [
    at += 1
    for k in range(first, first + count):
        if k > first:
            w[at] = 0x2C  # ,
            at += 1
        q = h[H_KEY * capacity + k]
        end = _put_text(p, q, q + h[H_KEY_SIZE * capacity + k], w, _put_piece(t, s, pieces, w, at))
        if end >= 0:
            at = end
        else:
            at = _put_piece(t, s, pieces + 1, w, at)
            at = _put_encoded(p, q, q + h[H_KEY_SIZE * capacity + k], t, s, max(1, mode), w, at)
        q = h[H_VALUE * capacity + k]
        at = _put_bytes(p, q, h[H_VALUE_SIZE * capacity + k], t, s, pieces + 2, mode, w, at)
        at = _put_piece(t, s, pieces + 6, w, at)
    w[at] = 0x5D  # ]
    return at + 1


@cython.cfunc
@cython.exceptval(check=False)
def _put_bytes(
    p: cython.pointer[cython.const[cython.uchar]],
    q: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    pieces: cython.Py_ssize_t,
    mode: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """A bytes member with its name: pieces + 0 null, + 1 text, + 2 base64, + 3 hex."""
    end: cython.Py_ssize_t
    if size < 0:
        return _put_piece(t, s, pieces, w, at)
    if mode == MODE_TEXT:
        end = _put_text(p, q, q + size, w, _put_piece(t, s, pieces + 1, w, at))
        if end >= 0:
            return end
        mode = MODE_BASE64
    return _put_encoded(p, q, q + size, t, s, mode, w, _put_piece(t, s, pieces + 1 + mode, w, at))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_piece(
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    piece: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    k: cython.Py_ssize_t = 0
    start: cython.Py_ssize_t = s[piece]
    size: cython.Py_ssize_t = s[piece + 1] - start
    if cython.compiled:
        while k < size:  # up to 15 bytes too many are copied, one instruction each time; both ends have that room
            memcpy(cython.address(w[at + k]), cython.address(t[start + k]), 16)
            k += 16
    else:
        w[at : at + size] = t[start : start + size]
    return at + size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_int(value: cython.longlong, w: cython.pointer[cython.uchar], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    left: cython.ulonglong
    if 0 <= value < 10:
        w[at] = 0x30 + value
        return at + 1
    if value < 0:
        w[at] = 0x2D  # -
        at += 1
        left = -(value + 1)
        left += 1
    else:
        left = value
    return _put_digits(left, w, at)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_digits(left: cython.ulonglong, w: cython.pointer[cython.uchar], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Digits are counted first and then written in their places, the last ones first, two at a time."""
    rest: cython.ulonglong
    limit: cython.ulonglong = 10
    two: cython.Py_ssize_t
    end: cython.Py_ssize_t
    q: cython.Py_ssize_t = at + 1
    while q - at < MAX_DIGITS and left >= limit:
        limit *= 10
        q += 1
    end = q
    while left >= 100:
        rest = left // 100
        two = left - rest * 100
        q -= 2
        w[q] = 0x30 + two // 10
        w[q + 1] = 0x30 + two % 10
        left = rest
    q -= 1
    w[q] = 0x30 + left % 10
    if left >= 10:
        w[q - 1] = 0x30 + left // 10
    return end


@cython.cfunc
@cython.exceptval(check=False)
def _put_text(
    p: cython.pointer[cython.const[cython.uchar]],
    q: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Escaped text with its closing quote; -1 where the bytes are not exact UTF-8."""
    c: cython.uchar
    seen: cython.uchar = _survey(p, q, end)
    if seen > 0x7F and not _is_utf8(p, q, end):
        return -1
    if not seen & 1:
        if cython.compiled:
            memcpy(cython.address(w[at]), cython.address(p[q]), end - q)
        else:
            w[at : at + end - q] = p[q:end]
        at += end - q
        w[at] = 0x22
        return at + 1
    while q < end:
        c = p[q]
        if c < 0x20 or c == 0x22 or c == 0x5C:
            at = _put_escape(c, w, at)
        else:
            w[at] = c
            at += 1
        q += 1
    w[at] = 0x22
    return at + 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _survey(
    p: cython.pointer[cython.const[cython.uchar]], q: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.uchar:
    """Bit 7: a byte is not ASCII; bit 0: one must be escaped."""
    c: cython.uchar
    seen: cython.uchar = 0
    x: cython.ulonglong = 0
    quote: cython.ulonglong
    slash: cython.ulonglong
    odd: cython.ulonglong = 0
    high: cython.ulonglong = 0
    if cython.compiled:  # eight bytes at a time (Bit Twiddling Hacks: a byte less than n, a byte equal to n)
        while end - q >= 8:
            memcpy(cython.address(x), cython.address(p[q]), 8)
            quote = x ^ QUOTES
            slash = x ^ SLASHES
            odd |= ((x - SPACES) & ~x) | ((quote - ONES) & ~quote) | ((slash - ONES) & ~slash)
            high |= x
            q += 8
        seen = ((odd & HIGHS) != 0) | (((high & HIGHS) != 0) << 7)
    while q < end:
        c = p[q]
        seen |= (c & 0x80) | (c < 0x20) | (c == 0x22) | (c == 0x5C)
        q += 1
    return seen


@cython.cfunc
@cython.exceptval(check=False)
def _is_utf8(
    p: cython.pointer[cython.const[cython.uchar]], q: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.bint:
    """Whether bytes are exact UTF-8 (RFC 3629: no surrogates, nothing overlong, nothing above U+10FFFF).

    A byte is wrong when it is a continuation and should not be, or the reverse, by the three bytes before it, or when it
    does not fit the narrower range behind E0, ED, F0 and F4. Without branches, so that a compiler can vectorize it.
    """
    k: cython.Py_ssize_t
    wrong: cython.uchar = 0
    c: cython.uchar
    p1: cython.uchar
    p2: cython.uchar
    p3: cython.uchar
    for k in range(q, end if end - q < 3 else q + 3):  # the first bytes have fewer before them
        c = p[k]
        p1 = p[k - 1] if k > q else 0
        p2 = p[k - 2] if k > q + 1 else 0
        wrong |= _wrong_utf8(c, p1, p2, 0)
    for k in range(q + 3, end):
        c = p[k]
        p1 = p[k - 1]
        p2 = p[k - 2]
        p3 = p[k - 3]
        wrong |= _wrong_utf8(c, p1, p2, p3)
    wrong |= end > q and p[end - 1] >= 0xC0
    wrong |= end - q > 1 and p[end - 2] >= 0xE0
    wrong |= end - q > 2 and p[end - 3] >= 0xF0
    return wrong == 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _wrong_utf8(c: cython.uchar, p1: cython.uchar, p2: cython.uchar, p3: cython.uchar) -> cython.uchar:
    """1 where `c` cannot stand behind `p3 p2 p1` (Unicode, table 3-7)."""
    continues: cython.uchar = (c & 0xC0) == 0x80
    expected: cython.uchar = (p1 >= 0xC0) | (p2 >= 0xE0) | (p3 >= 0xF0)
    odd: cython.uchar = (continues ^ expected) | (c == 0xC0) | (c == 0xC1) | (c >= 0xF5)
    odd |= (p1 == 0xE0) & (c < 0xA0)
    odd |= (p1 == 0xED) & (c > 0x9F)
    odd |= (p1 == 0xF0) & (c < 0x90)
    odd |= (p1 == 0xF4) & (c > 0x8F)
    return odd


@cython.cfunc
@cython.exceptval(check=False)
def _put_escape(c: cython.uchar, w: cython.pointer[cython.uchar], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    r"""`\" \\ \b \t \n \f \r`, else `\u00xx`."""
    letter: cython.uchar = 0
    if c == 0x22 or c == 0x5C:
        letter = c
    elif c == 0x08:
        letter = 0x62
    elif c == 0x09:
        letter = 0x74
    elif c == 0x0A:
        letter = 0x6E
    elif c == 0x0C:
        letter = 0x66
    elif c == 0x0D:
        letter = 0x72
    w[at] = 0x5C
    if letter:
        w[at + 1] = letter
        return at + 2
    w[at + 1] = 0x75
    w[at + 2] = 0x30
    w[at + 3] = 0x30
    w[at + 4] = 0x30 + (c >> 4)
    c &= 0x0F
    w[at + 5] = 0x30 + c if c < 10 else 0x57 + c
    return at + 6


@cython.cfunc
@cython.exceptval(check=False)
def _put_encoded(
    p: cython.pointer[cython.const[cython.uchar]],
    q: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    mode: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Base64 or hexadecimal with its closing quote."""
    alphabet: cython.Py_ssize_t = s[PIECE_BASE64] if mode == MODE_BASE64 else s[PIECE_HEX]
    bits: cython.Py_ssize_t
    if mode != MODE_BASE64:
        while q < end:
            w[at] = t[alphabet + (p[q] >> 4)]
            w[at + 1] = t[alphabet + (p[q] & 0x0F)]
            at += 2
            q += 1
    while q < end:
        bits = p[q] << 16
        if q + 1 < end:
            bits |= p[q + 1] << 8
        if q + 2 < end:
            bits |= p[q + 2]
        w[at] = t[alphabet + (bits >> 18)]
        w[at + 1] = t[alphabet + ((bits >> 12) & 0x3F)]
        w[at + 2] = t[alphabet + ((bits >> 6) & 0x3F)] if q + 1 < end else 0x3D
        w[at + 3] = t[alphabet + (bits & 0x3F)] if q + 2 < end else 0x3D
        at += 4
        q += 3
    w[at] = 0x22
    return at + 1
