"""Compression of LZ4 blocks with the same matches as Kafka's: liblz4's fast compressor for inputs of up to 64 KiB.

Kafka uses LZ4Factory.fastestInstance, which is liblz4 through JNI if lz4-java has it for the system. The search for
matches has had three forms in the versions of lz4-java. (The pure Java compressors, for other systems, have the first
two and kept the second.) Python's libraries find other matches in the same bytes.
"""

from __future__ import annotations

from kafkalog_core.format.kernels._cython import cython
from kafkalog_core.format.kernels.constants import *
from kafkalog_core.format.kernels.fields import bytes_of, cells_of, room_of

__all__ = ["pack_lz4"]

if cython.compiled:
    from cython.cimports.libc.string import memcpy


LOW_32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
MULTIPLIER = cython.declare(cython.ulonglong, 2654435761)


def pack_lz4(data: object, table: object, output: object, form: cython.longlong) -> cython.Py_ssize_t:
    """Compress a block of up to 64 KiB. Return the compressed size.

    Args:
        data: the block.
        table: room for `LZ4_HASHES` cells.
        output: room for the size of the block, a 255th more, and 16 bytes.
        form: the form of the search for matches, one of `LZ4_FORM_*`.
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(data)
    t: cython.pointer[cython.longlong] = cells_of(table)
    o: cython.pointer[cython.uchar] = room_of(output)
    size: cython.Py_ssize_t = len(data)
    index: cython.Py_ssize_t
    for index in range(LZ4_HASHES):
        t[index] = 0
    if size == 0:
        o[0] = 0
        return 1
    return _pack(p, size, t, o, form)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _pack(
    p: cython.pointer[cython.const[cython.uchar]],
    size: cython.Py_ssize_t,
    t: cython.pointer[cython.longlong],
    o: cython.pointer[cython.uchar],
    form: cython.longlong,
) -> cython.Py_ssize_t:
    """Compress a block that is not empty; see `pack_lz4`."""
    at: cython.Py_ssize_t = 1
    ahead: cython.Py_ssize_t
    before: cython.Py_ssize_t = 0
    anchor: cython.Py_ssize_t = 0  # the first byte that is not written yet
    end: cython.Py_ssize_t = 0  # of the output
    token: cython.Py_ssize_t
    step: cython.Py_ssize_t
    tries: cython.Py_ssize_t
    cell: cython.Py_ssize_t
    last_start: cython.Py_ssize_t = size - LZ4_LAST_MATCH
    # Older forms stop one position earlier, and the oldest one starts to skip positions four tries earlier.
    last_ahead: cython.Py_ssize_t = last_start + 1 if form == LZ4_FORM_1_5 else last_start
    first_tries: cython.Py_ssize_t = (1 << LZ4_SKIP_SHIFT) + (4 if form == LZ4_FORM_1_2 else 0)
    # p: the block; t: the last position of each hash of 4 bytes; o: the output. Bytes before `anchor` are written as
    # sequences up to byte `end` of the output. Each turn searches for the next match, `before` for `at`, and extends
    # it.
    while last_start > 0:
        ahead = at
        step = 1
        tries = first_tries
        while True:
            at = ahead
            ahead += step
            step = tries >> LZ4_SKIP_SHIFT
            tries += 1
            if ahead > last_ahead:
                return _literals(p, anchor, size, o, end)
            cell = _cell_of(p, at)
            before = t[cell]
            t[cell] = at
            if _word(p, before) == _word(p, at):
                break
        while at > anchor and before > 0 and p[at - 1] == p[before - 1]:
            at -= 1
            before -= 1
        token = end
        end = _literals(p, anchor, at, o, end)
        while True:
            o[end] = (at - before) & 0xFF
            o[end + 1] = (at - before) >> 8
            cell = _match_bytes(p, at, before, size - LZ4_END_LITERALS)
            at += cell
            end = _match_size(o, token, end + 2, cell - LZ4_LEAST_MATCH)
            if at > last_start:
                return _literals(p, at, size, o, end)
            t[_cell_of(p, at - 2)] = at - 2
            cell = _cell_of(p, at)
            before = t[cell]
            t[cell] = at
            if _word(p, before) != _word(p, at):
                break
            token = end
            o[token] = 0
            end += 1
        anchor = at
        at += 1
    return _literals(p, anchor, size, o, end)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _word(p: cython.pointer[cython.const[cython.uchar]], at: cython.Py_ssize_t) -> cython.ulonglong:
    """Return four bytes as a little-endian integer."""
    low: cython.ulonglong = p[at] | p[at + 1] << 8
    high: cython.ulonglong = p[at + 2] | p[at + 3] << 8
    return low | high << 16


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _cell_of(p: cython.pointer[cython.const[cython.uchar]], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the cell of the hash table for the four bytes at `at`."""
    return ((_word(p, at) * MULTIPLIER) & LOW_32) >> LZ4_HASH_SHIFT


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _match_bytes(
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    before: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Return the length of a match, whose first four bytes are known to be the same."""
    start: cython.Py_ssize_t = at
    at += LZ4_LEAST_MATCH
    before += LZ4_LEAST_MATCH
    while at < end and p[at] == p[before]:
        at += 1
        before += 1
    return at - start


@cython.cfunc
@cython.exceptval(check=False)
def _literals(
    p: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    o: cython.pointer[cython.uchar],
    end: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write a token and literals. Return the position after them."""
    size: cython.Py_ssize_t = stop - start
    token: cython.Py_ssize_t = end
    end += 1
    if size < 15:
        o[token] = size << 4
    else:
        o[token] = 0xF0
        end = _more_size(o, end, size - 15)
    if cython.compiled:
        memcpy(o + end, p + start, size)
    else:
        o[end : end + size] = p[start:stop]
    return end + size


@cython.cfunc
@cython.exceptval(check=False)
def _match_size(
    o: cython.pointer[cython.uchar], token: cython.Py_ssize_t, end: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write the size of a match to its token, and the rest after `end`. Return the position after it."""
    if size < 15:
        o[token] |= size
        return end
    o[token] |= 15
    return _more_size(o, end, size - 15)


@cython.cfunc
@cython.exceptval(check=False)
def _more_size(o: cython.pointer[cython.uchar], end: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write the rest of a size that exceeds its token. Return the position after it."""
    while size >= 255:
        o[end] = 255
        end += 1
        size -= 255
    o[end] = size
    return end + 1
