"""The search for the next position after damage where an entry may start."""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import bytes_of, int16, int32, int64

__all__ = ["find_candidate", "find_candidate_v07", "next_candidate"]


def find_candidate(
    memory: object,
    begin: cython.Py_ssize_t,
    rest: cython.longlong,
    low_offset: cython.longlong,
    high_offset: cython.longlong,
    max_bytes: cython.longlong,
) -> int:
    """Return the first position from `begin` on where an entry of magic 0, 1 or 2 may start; -1: none.

    `rest`: number of bytes from `memory[0]` to the file's end. The checksum is not verified, but every field must have
    a possible value, because each candidate costs a checksum over its whole length.
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    size_bytes: cython.Py_ssize_t = len(memory)
    last: cython.Py_ssize_t = size_bytes - V2_SIZE
    if rest <= size_bytes:  # at the end of the file only a short legacy entry fits
        last = rest - HEADER_MIN - 9
    if last < begin:
        return -1
    return next_candidate(p, begin, last, rest, low_offset, high_offset, max_bytes)


@cython.cfunc
@cython.exceptval(check=False)
def next_candidate(
    p: cython.pointer[cython.const[cython.uchar]],
    begin: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    rest: cython.longlong,
    low_offset: cython.longlong,
    high_offset: cython.longlong,
    max_bytes: cython.longlong,
) -> cython.Py_ssize_t:
    """Return the same up to position `last`; a whole header at `last` is within the available bytes."""
    i: cython.Py_ssize_t
    size: cython.longlong
    offset: cython.longlong
    # p: available bytes. The magic is tested first: it excludes most positions at the cost of one byte.
    for i in range(begin, last + 1):
        if p[i + MAGIC_AT] > 2:
            continue
        size = int32(p, i + SIZE_AT)
        if size < ENTRY_MIN or size + OVERHEAD > max_bytes or size + OVERHEAD > rest - i:
            continue
        offset = int64(p, i)
        if offset < low_offset or offset > high_offset:
            continue
        if p[i + MAGIC_AT] == 2:
            if size + OVERHEAD >= V2_SIZE and _possible_v2(p, i):
                return i
        elif _possible_legacy(p, i, size):
            return i
    return -1


@cython.cfunc
@cython.exceptval(check=False)
def _possible_v2(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.bint:
    delta: cython.longlong = int32(p, i + V2_DELTA_AT)
    count: cython.longlong = int32(p, i + V2_COUNT_AT)
    return (
        delta >= 0
        and 0 <= count <= delta + 1
        and int32(p, i + V2_EPOCH_AT) >= -1
        and int64(p, i + V2_PID_AT) >= -1
        and int16(p, i + V2_PEPOCH_AT) >= -1
        and int32(p, i + V2_SEQUENCE_AT) >= -1
    )


@cython.cfunc
@cython.exceptval(check=False)
def _possible_legacy(
    p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t, size: cython.longlong
) -> cython.bint:
    """Check attributes and key length. The value length may be outside the window; the checksum covers it."""
    at: cython.Py_ssize_t = V1_KEY_AT if p[i + MAGIC_AT] == 1 else V0_KEY_AT
    if p[i + LEGACY_ATTRIBUTES_AT] > 15 or size + OVERHEAD < at + 8:
        return False
    return -1 <= int32(p, i + at) <= size + OVERHEAD - at - 8


def find_candidate_v07(
    memory: object, begin: cython.Py_ssize_t, rest: cython.longlong, max_bytes: cython.longlong
) -> int:
    """Return the first position from `begin` on where a message of Kafka 0.7 may start; -1: none.

    `rest` as for `find_candidate`.
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    i: cython.Py_ssize_t
    size_bytes: cython.Py_ssize_t = len(memory)
    last: cython.Py_ssize_t = size_bytes - V07_PREFIX - V07_MIN - 1
    length: cython.longlong
    if rest <= size_bytes:
        last = rest - V07_PREFIX - V07_MIN
    if last < begin:
        return -1
    # p: available bytes. Magic, then codec are tested first: they exclude most positions.
    for i in range(begin, last + 1):
        if p[i + V07_PREFIX] > 1 or (p[i + V07_PREFIX] == 1 and p[i + V07_PREFIX + 1] > 2):
            continue
        length = int32(p, i)
        if V07_MIN + p[i + V07_PREFIX] <= length <= max_bytes and length + V07_PREFIX <= rest - i:
            return i
    return -1
