"""What a leader writes into batches of producers (`LogValidator`)."""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython  # noqa: TC001 -- as in all kernels
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import int32, put_big_endian, room_of, wrapped

__all__ = ["stamp_batches"]


def stamp_batches(memory: object, offset: cython.longlong, epoch: cython.longlong) -> int:
    """Write base offsets and a leader epoch into the batches of magic 2 of a buffer; return the offset after them.

    Their checksums do not cover either. It ends at the first length that does not fit; what it has written by then
    is of no use.
    """
    p: cython.pointer[cython.uchar] = room_of(memory)
    end: cython.Py_ssize_t = len(memory)
    i: cython.Py_ssize_t = 0
    size: cython.longlong
    # The batches before byte `i` have their offsets, `offset` is the next one.
    while i + V2_SIZE <= end:
        size = OVERHEAD + int32(p, i + SIZE_AT)
        if size < V2_SIZE or size > end - i:
            break
        put_big_endian(p, i, offset, 8)
        put_big_endian(p, i + V2_EPOCH_AT, epoch, 4)
        offset = wrapped(offset + int32(p, i + V2_DELTA_AT) + 1)
        i += size
    return offset
