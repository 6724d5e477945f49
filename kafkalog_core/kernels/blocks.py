"""Blocks of lz4 and snappy: the libraries decompress those of many batches; lz4 is compressed with Kafka's matches.

`unpack_rows` reads the framing around the blocks of many small batches and calls the library for each block.
`pack_lz4` is liblz4's fast compressor for inputs of up to 64 KiB.
Kafka uses LZ4Factory.fastestInstance, which is liblz4 through JNI if lz4-java has it for the system. The search for
matches has had three forms in the versions of lz4-java. (The pure Java compressors, for other systems, have the first
two and kept the second.) Python's libraries find other matches in the same bytes.
"""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import bytes_of, cells_of, int32, int64, room_of, uint32

__all__ = ["pack_lz4", "unpack_rows"]

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBUF_READ, PyBUF_WRITE
    from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory
    from cython.cimports.libc.string import memcpy


# --- decompression ----------------------------------------------------------------------------------------------------
def unpack_rows(
    memory: object,
    batches: object,
    columns: object,
    row: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    room: object,
    filled: cython.Py_ssize_t,
    enough: cython.Py_ssize_t,
    decompress: object,
) -> int:
    """Decompress payloads of one codec, lz4 or snappy, one after another. Return the row that it stopped at.

    It stops after the row that fills the room up to byte `enough`, at another codec, and at a row that it leaves to the
    caller: in another framing than that of Java's clients, damaged, or with more content than there is room for.

    Args:
        memory: the buffer that the payload spans of `batches` refer to.
        batches: batch columns.
        columns: a copy of `batches`, whose payload spans will refer to `room`.
        row: the first row.
        last: row to stop before.
        room: the bytes to fill. No content of it may exceed the caller's limit.
        filled: bytes of it that are in use.
        enough: see above.
        decompress: the library's function for one block: `decompress_block_into` of `cramjam.lz4`, or
            `decompress_raw_into` of `cramjam.snappy`. Both fill a buffer and return how many bytes of it.
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    c: cython.pointer[cython.longlong] = cells_of(columns.cells)
    o: cython.pointer[cython.uchar] = room_of(room)
    b_capacity: cython.Py_ssize_t = batches.capacity
    c_capacity: cython.Py_ssize_t = columns.capacity
    size: cython.Py_ssize_t = len(memory)
    capacity: cython.Py_ssize_t = len(room)
    codec: cython.longlong = b[B_CODEC * b_capacity + row]
    start: cython.Py_ssize_t
    end: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    is_excused: cython.bint
    # p: payloads; b, c: batch columns, the old and the new ones; o: contents, those of the rows before `row` up to byte
    # `filled`.
    while row < last and filled < enough and b[B_CODEC * b_capacity + row] == codec:
        start = b[B_START * b_capacity + row]
        end = b[B_END * b_capacity + row]
        # A payload that is larger than the room consists of blocks without content: the caller limits their number.
        if start < 0 or end <= start or end > size or end - start > capacity:
            break
        if codec == CODEC_LZ4:
            is_excused = b[B_FORMAT * b_capacity + row] == MAGIC_V0
            stop = _lz4_content(memory, p, start, end, is_excused, o, room, filled, capacity, decompress)
        else:
            stop = _snappy_content(memory, p, start, end, o, room, filled, capacity, decompress)
        if stop < 0:
            break
        c[B_START * c_capacity + row] = filled
        c[B_END * c_capacity + row] = stop
        filled = stop
        row += 1
    return row


@cython.cfunc
@cython.exceptval(-2, check=True)
def _lz4_content(
    memory: object,
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    is_excused: cython.bint,
    o: cython.pointer[cython.uchar],
    room: object,
    filled: cython.Py_ssize_t,
    capacity: cython.Py_ssize_t,
    decompress: object,
) -> cython.Py_ssize_t:
    """Decompress a frame of blocks. Return the end of its content in the room; -1: it is left to the caller.

    `is_excused`: the header's checksum is not compared, as in messages of magic 0 (KAFKA-3160).
    """
    size: cython.longlong
    high: cython.longlong
    most: cython.Py_ssize_t
    if end - at < LZ4_HEADER_SIZE or (uint32(p, at) << 16 | p[at + 4] << 8 | p[at + 5]) != LZ4_HEADER:
        return -1
    if p[at + 6] != LZ4_HEADER_CHECKSUM and not is_excused:
        return -1
    at += LZ4_HEADER_SIZE
    # Blocks before `at` are decompressed, up to byte `filled` of the room. The end mark is a block size of 0.
    while end - at >= 4:
        high = p[at + 3]
        size = p[at] | p[at + 1] << 8 | p[at + 2] << 16 | high << 24
        at += 4
        if size == 0:
            return filled if at == end else -1
        if size & LZ4_STORED:
            size -= LZ4_STORED
            if size > end - at or size > LZ4_BLOCK or size > capacity - filled:
                return -1
            if cython.compiled:
                memcpy(o + filled, p + at, size)
            else:
                o[filled : filled + size] = p[at : at + size]
            filled += size
        else:
            if size > end - at or size > LZ4_BLOCK:
                return -1
            most = capacity - filled if capacity - filled < LZ4_BLOCK else LZ4_BLOCK
            try:
                filled += decompress(_part(memory, p, at, size), _rest(room, o, filled, most), most)
            except Exception:  # noqa: BLE001 - the caller finds the reason
                return -1
        at += size
    return -1


@cython.cfunc
@cython.exceptval(-2, check=True)
def _snappy_content(
    memory: object,
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    o: cython.pointer[cython.uchar],
    room: object,
    filled: cython.Py_ssize_t,
    capacity: cython.Py_ssize_t,
    decompress: object,
) -> cython.Py_ssize_t:
    """Decompress a block stream. Return the end of its content in the room; -1: it is left to the caller."""
    size: cython.longlong
    if end - at < XERIAL_SIZE or int64(p, at) != XERIAL_MAGIC or int64(p, at + 8) != XERIAL_VERSIONS:
        return -1
    at += XERIAL_SIZE
    # Blocks before `at` are decompressed, up to byte `filled` of the room.
    while end - at >= 4:
        size = int32(p, at)
        at += 4
        if size <= 0 or size > end - at:
            return -1
        try:
            filled += decompress(_part(memory, p, at, size), _rest(room, o, filled, capacity - filled))
        except Exception:  # noqa: BLE001 - the caller finds the reason
            return -1
        at += size
    return filled if at == end else -1


@cython.cfunc
@cython.inline
def _part(
    memory: object, p: cython.pointer[cython.const[cython.uchar]], start: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> object:
    """Return `memory[start : start + size]`, to which `p` points; the library does not keep it."""
    if cython.compiled:
        return PyMemoryView_FromMemory(cython.cast(cython.p_char, p + start), size, PyBUF_READ)
    return memory[start : start + size]


@cython.cfunc
@cython.inline
def _rest(room: object, o: cython.pointer[cython.uchar], filled: cython.Py_ssize_t, size: cython.Py_ssize_t) -> object:
    """Return `size` bytes of the room from byte `filled` on, as `_part` does."""
    if cython.compiled:
        return PyMemoryView_FromMemory(cython.cast(cython.p_char, o + filled), size, PyBUF_WRITE)
    return memoryview(room)[filled : filled + size]


# --- compression ------------------------------------------------------------------------------------------------------
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
    # t: positions by hash; none is known at the start.
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
    # p: the block. The bytes from the starts up to `at` and `before` are the same.
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
    # o: output. `size` is the rest that the bytes before `end` have no room for.
    while size >= 255:
        o[end] = 255
        end += 1
        size -= 255
    o[end] = size
    return end + 1
