"""Text output of the kernels: literal pieces, integers, JSON and CSV text, base64, hexadecimal, and sizes of lines.

Every `put_*` function writes to `w` at `at` and returns the position after the written bytes. The caller has checked
that the worst case fits. `p` are the input bytes, `q` to `end` the span to write; `t` and `s` the template's pieces.
"""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.programs import *

__all__ = [
    "exact_bytes",
    "has_c1",
    "is_ascii",
    "is_utf8",
    "most_bytes",
    "put_again",
    "put_csv_bytes",
    "put_encoded",
    "put_int",
    "put_piece",
    "put_quoted",
    "put_text",
    "text_size",
]

if cython.compiled:
    from cython.cimports.kafkalog_core.kernels.json_copy import (
        JSON_NO_TEXT,
        csv_copy,
        json_copy,
        json_copy_escaped,
        json_integer,
    )
    from cython.cimports.libc.string import memcpy

# In compiled code a literal over 31 bits is a Python integer.
ONES = cython.declare(cython.ulonglong, 0x0101010101010101)
HIGHS = cython.declare(cython.ulonglong, 0x8080808080808080)
SPACES = cython.declare(cython.ulonglong, 0x2020202020202020)
QUOTES = cython.declare(cython.ulonglong, 0x2222222222222222)
SLASHES = cython.declare(cython.ulonglong, 0x5C5C5C5C5C5C5C5C)
DELETES = cython.declare(cython.ulonglong, 0x7F7F7F7F7F7F7F7F)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put_piece(
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    piece: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write a piece of the template's text `t`; piece n starts at `s[n]`."""
    k: cython.Py_ssize_t = 0
    start: cython.Py_ssize_t = s[piece]
    size: cython.Py_ssize_t = s[piece + 1] - start
    if cython.compiled:
        while k < size:  # in steps of 16: up to 15 extra bytes are copied; both buffers have that room (SLACK)
            memcpy(cython.address(w[at + k]), cython.address(t[start + k]), 16)
            k += 16
    else:
        w[at : at + size] = t[start : start + size]
    return at + size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put_again(
    start: cython.Py_ssize_t, size: cython.Py_ssize_t, w: cython.pointer[cython.uchar], at: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Copy `size` bytes that were written before at `start`."""
    if cython.compiled:
        memcpy(cython.address(w[at]), cython.address(w[start]), size)
    else:
        w[at : at + size] = w[start : start + size]
    return at + size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put_int(value: cython.longlong, w: cython.pointer[cython.uchar], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write an int64 in decimal."""
    if cython.compiled:
        at += json_integer(value, w + at)
    else:
        digits = b"%d" % value
        w[at : at + len(digits)] = digits
        at += len(digits)
    return at


@cython.cfunc
@cython.exceptval(check=False)
def put_text(
    p: cython.pointer[cython.const[cython.uchar]],
    q: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write escaped text with the closing quote; return -1 if the bytes are not exact UTF-8."""
    seen: cython.Py_ssize_t
    if cython.compiled and json_copy != cython.NULL:
        seen = json_copy(p + q, end - q, w + at)
        if seen >= JSON_NO_TEXT:
            return -1
    else:
        seen = _survey(p, q, end)
        if seen > 0x7F:
            if not is_utf8(p, q, end):
                return -1
            seen = (seen & 1) | has_c1(p, q, end)
        if not seen:
            if cython.compiled:
                memcpy(cython.address(w[at]), cython.address(p[q]), end - q)
            else:
                w[at : at + end - q] = p[q:end]
    at = at + end - q if not seen else _put_escaped(p, q, end, w, at)
    w[at] = 0x22
    return at + 1


@cython.cfunc
@cython.exceptval(check=False)
def _put_escaped(
    p: cython.pointer[cython.const[cython.uchar]],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write text with characters that must be escaped."""
    c: cython.uchar
    q: cython.Py_ssize_t = begin
    if cython.compiled and json_copy_escaped != cython.NULL:
        return at + json_copy_escaped(p + begin, end - begin, w + at)
    # p: the text; w: output. The bytes before `q` are written up to byte `at`.
    while q < end:
        c = p[q]
        if c < 0x20 or c == 0x22 or c == 0x5C or c == 0x7F:
            at = _put_escape(c, w, at)
        elif (
            0x80 <= c < 0xA0 and q > begin and p[q - 1] == 0xC2
        ):  # the first byte of U+0080 to U+009F was already written
            at = _put_escape(c, w, at - 1)
        else:
            w[at] = c
            at += 1
        q += 1
    return at


@cython.cfunc
@cython.exceptval(check=False)
def text_size(
    p: cython.pointer[cython.const[cython.uchar]],
    q: cython.Py_ssize_t,
    size: cython.longlong,
    mode: cython.Py_ssize_t,
) -> cython.longlong:
    """Return an upper bound of `size` bytes at `q` as text, base64 or hexadecimal; 0 for null."""
    k: cython.Py_ssize_t
    c: cython.uchar
    before: cython.uchar = 0
    escapes: cython.longlong = 0
    if size < 0:
        return 0
    if mode > MODE_BASE64:
        return 2 * size
    if mode == MODE_BASE64 or (_survey(p, q, q + size) > 0x7F and not is_utf8(p, q, q + size)):
        return 2 * size + 4  # base64 is shorter, but the key of a header may be hexadecimal
    # p: the bytes. `escapes` counts those before `k` that are written as an escape of up to six characters.
    for k in range(q, q + size):
        c = p[k]
        escapes += (c < 0x20) | (c == 0x22) | (c == 0x5C) | (c == 0x7F) | ((before == 0xC2) & (c < 0xA0))
        before = c
    return size + 5 * escapes


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _survey(
    p: cython.pointer[cython.const[cython.uchar]], q: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.uchar:
    """Return bit 7 if a byte is not ASCII, bit 0 if an ASCII byte must be escaped."""
    c: cython.uchar
    seen: cython.uchar = 0
    x: cython.ulonglong = 0
    quote: cython.ulonglong
    slash: cython.ulonglong
    delete: cython.ulonglong
    odd: cython.ulonglong = 0
    high: cython.ulonglong = 0
    if cython.compiled:  # eight bytes at a time (Bit Twiddling Hacks: a byte less than n, a byte equal to n)
        # p: the text. `seen` describes the bytes before `q`.
        while end - q >= 8:
            memcpy(cython.address(x), cython.address(p[q]), 8)
            quote = x ^ QUOTES
            slash = x ^ SLASHES
            delete = x ^ DELETES
            odd |= ((x - SPACES) & ~x) | ((quote - ONES) & ~quote)
            odd |= ((slash - ONES) & ~slash) | ((delete - ONES) & ~delete)
            high |= x
            q += 8
        seen = ((odd & HIGHS) != 0) | (((high & HIGHS) != 0) << 7)
    while q < end:
        c = p[q]
        seen |= (c & 0x80) | (c < 0x20) | (c == 0x22) | (c == 0x5C) | (c == 0x7F)
        q += 1
    return seen


@cython.cfunc
@cython.exceptval(check=False)
def has_c1(p: cython.pointer[cython.const[cython.uchar]], q: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.uchar:
    """Return 1 if UTF-8 has a C1 control character (U+0080 to U+009F), which terminals interpret."""
    k: cython.Py_ssize_t
    c: cython.uchar
    before: cython.uchar
    seen: cython.uchar = 0
    # p: the text. UTF-8 has C1 characters as byte 0xC2, then 0x80 to 0x9F; `seen` describes the bytes before `k`.
    for k in range(q + 1, end):
        c = p[k]
        before = p[k - 1]
        seen |= (before == 0xC2) & (c < 0xA0)
    return seen


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_ascii(
    p: cython.pointer[cython.const[cython.uchar]], q: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.bint:
    """Return whether no byte is above 0x7F."""
    k: cython.Py_ssize_t
    bits: cython.uchar = 0
    # No branch within the loop, so that a compiler can vectorize it.
    for k in range(q, end):
        bits |= p[k]
    return bits < 0x80


@cython.cfunc
@cython.exceptval(check=False)
def is_utf8(p: cython.pointer[cython.const[cython.uchar]], q: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """Return whether bytes are exact UTF-8 (RFC 3629: no surrogates, no overlong forms, no code above U+10FFFF).

    A byte is wrong if the three bytes before it require a continuation byte and it is not one, or the reverse, or if it
    is outside the narrower range after E0, ED, F0 and F4. There are no branches, so that a compiler can vectorize it.
    """
    k: cython.Py_ssize_t
    wrong: cython.uchar = 0
    c: cython.uchar
    p1: cython.uchar
    p2: cython.uchar
    p3: cython.uchar
    for k in range(q, end if end - q < 3 else q + 3):  # the first three bytes have fewer bytes before them
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
    """Return 1 if `c` must not follow `p3 p2 p1` (Unicode, table 3-7)."""
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
    r"""Write the short escape of a control character, quote or backslash, or `\u00xx`."""
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
def put_encoded(
    p: cython.pointer[cython.const[cython.uchar]],
    q: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    mode: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write base64 or hexadecimal with the closing quote."""
    alphabet: cython.Py_ssize_t = s[PIECE_BASE64] if mode == MODE_BASE64 else s[PIECE_HEX]
    bits: cython.Py_ssize_t
    if mode != MODE_BASE64:
        while q < end:
            w[at] = t[alphabet + (p[q] >> 4)]
            w[at + 1] = t[alphabet + (p[q] & 0x0F)]
            at += 2
            q += 1
    while end - q >= 3:
        bits = (p[q] << 16) | (p[q + 1] << 8) | p[q + 2]
        w[at] = t[alphabet + (bits >> 18)]
        w[at + 1] = t[alphabet + ((bits >> 12) & 0x3F)]
        w[at + 2] = t[alphabet + ((bits >> 6) & 0x3F)]
        w[at + 3] = t[alphabet + (bits & 0x3F)]
        at += 4
        q += 3
    if q < end:
        bits = p[q] << 16
        if q + 1 < end:
            bits |= p[q + 1] << 8
        w[at] = t[alphabet + (bits >> 18)]
        w[at + 1] = t[alphabet + ((bits >> 12) & 0x3F)]
        w[at + 2] = t[alphabet + ((bits >> 6) & 0x3F)] if q + 1 < end else 0x3D  # =
        w[at + 3] = 0x3D
        at += 4
    w[at] = 0x22
    return at + 1


# --- fields of CSV (RFC 4180): text, quoted if necessary, else base64 -------------------------------------------------
@cython.cfunc
@cython.exceptval(check=False)
def put_csv_bytes(
    p: cython.pointer[cython.const[cython.uchar]],
    q: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    t: cython.pointer[cython.const[cython.uchar]],
    s: cython.pointer[cython.longlong],
    mode: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write bytes as two fields, text and base64, of which one is empty; in modes other than text as one field."""
    end: cython.Py_ssize_t
    if mode == MODE_TEXT:
        end = at if size < 0 else _put_text(p, q, q + size, w, at)
        if end >= 0:
            w[end] = 0x2C  # ,
            return end + 1
        w[at] = 0x2C
        at += 1
        mode = MODE_BASE64
    if size < 0:
        return at
    if size == 0:
        return put_quoted(w, at, at)
    return put_encoded(p, q, q + size, t, s, mode, w, at) - 1  # without the closing quote


@cython.cfunc
@cython.exceptval(check=False)
def _put_text(
    p: cython.pointer[cython.const[cython.uchar]],
    q: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    w: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write text as one field; return -1 if it is not exact UTF-8, or has control characters except tab, LF, CR."""
    k: cython.Py_ssize_t
    c: cython.uchar
    high: cython.uchar = 0
    odd: cython.uchar = 0
    special: cython.uchar = 0
    size: cython.Py_ssize_t
    if cython.compiled and csv_copy != cython.NULL:
        size = csv_copy(p + q, end - q, w + at)
        return -1 if size < 0 else at + size
    # p: the text. `high`, `odd` and `special` tell of the bytes before `k`.
    for k in range(q, end):
        c = p[k]
        high |= c
        odd |= ((c < 0x20) & (c != 0x09) & (c != 0x0A) & (c != 0x0D)) | (c == 0x7F)
        special |= (c == 0x22) | (c == 0x2C) | (c == 0x0A) | (c == 0x0D)
    if odd or (high >= 0x80 and (not is_utf8(p, q, end) or has_c1(p, q, end))):
        return -1
    if cython.compiled:
        memcpy(cython.address(w[at]), cython.address(p[q]), end - q)
    else:
        w[at : at + end - q] = p[q:end]
    if special or end == q:
        return put_quoted(w, at, at + end - q)
    return at + end - q


@cython.cfunc
@cython.exceptval(check=False)
def put_quoted(w: cython.pointer[cython.uchar], start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Quote the bytes written from `start` to `end`, and double the quotes in them; keep an empty array as it is."""
    k: cython.Py_ssize_t
    quotes: cython.Py_ssize_t = 0
    to: cython.Py_ssize_t
    if end - start == 2 and w[start] == 0x5B and w[start + 1] == 0x5D:  # []
        return end
    # w: the field, from `start` to `end`, which will end at `to` with its quotes.
    for k in range(start, end):
        quotes += w[k] == 0x22
    to = end + quotes + 1
    w[to] = 0x22
    for k in range(end - 1, start - 1, -1):  # backwards, because the text grows in place
        to -= 1
        w[to] = w[k]
        if w[k] == 0x22:
            to -= 1
            w[to] = 0x22
    w[start] = 0x22
    return end + quotes + 2


# --- the size of a line, at most and exactly --------------------------------------------------------------------------
# A byte may take six in JSON (`\\u00xx`), so the bound of a large value is far above its real size: lines that do not
# fit by the bound are measured exactly.
@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def most_bytes(
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.longlong:
    """Return an upper bound of key, value and headers of a record, by their sizes only."""
    bound: cython.longlong = 0
    k: cython.Py_ssize_t
    first: cython.Py_ssize_t = r[R_HEADERS * r_capacity + row]
    if r[R_KEY_SIZE * r_capacity + row] > 0:
        bound += r[R_KEY_SIZE * r_capacity + row]
    if r[R_VALUE_SIZE * r_capacity + row] > 0:
        bound += r[R_VALUE_SIZE * r_capacity + row]
    # h: header columns; k: rows of the record's headers.
    for k in range(first, first + r[R_HEADER_COUNT * r_capacity + row]):
        bound += h[H_KEY_SIZE * h_capacity + k] + BOUND_NAMES
        if h[H_VALUE_SIZE * h_capacity + k] > 0:
            bound += h[H_VALUE_SIZE * h_capacity + k]
    return bound * BOUND_BYTE


@cython.cfunc
@cython.exceptval(check=False)
def exact_bytes(
    p: cython.pointer[cython.const[cython.uchar]],
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    text_mode: cython.Py_ssize_t,
    mode: cython.Py_ssize_t,
) -> cython.longlong:
    """Return the size of key and value of a record in `text_mode` and of its headers in `mode`, without names."""
    bound: cython.longlong = text_size(p, r[R_KEY * r_capacity + row], r[R_KEY_SIZE * r_capacity + row], text_mode)
    k: cython.Py_ssize_t
    first: cython.Py_ssize_t = r[R_HEADERS * r_capacity + row]
    bound += text_size(p, r[R_VALUE * r_capacity + row], r[R_VALUE_SIZE * r_capacity + row], text_mode)
    # p: the buffer; h: header columns; k: rows of the record's headers.
    for k in range(first, first + r[R_HEADER_COUNT * r_capacity + row]):
        bound += text_size(p, h[H_KEY * h_capacity + k], h[H_KEY_SIZE * h_capacity + k], mode) + BOUND_NAMES
        bound += text_size(p, h[H_VALUE * h_capacity + k], h[H_VALUE_SIZE * h_capacity + k], mode)
    return bound
