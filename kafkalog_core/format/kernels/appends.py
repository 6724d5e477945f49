"""What a leader writes into batches of producers, and what it checks of them (`LogValidator`, `ProducerAppendInfo`)."""

from __future__ import annotations

from kafkalog_core.format.kernels._cython import cython  # noqa: TC001 -- as in all kernels
from kafkalog_core.format.kernels.constants import *
from kafkalog_core.format.kernels.fields import cells_of, int32, put_big_endian, room_of, wrapped

__all__ = ["are_usual", "stamp_batches"]


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


def are_usual(
    batches: object, records: object, least: cython.longlong, most: cython.longlong, keyed: cython.bint
) -> int:
    """Return 1 if batches of magic 2 may follow each other in a log, with all their records, else 0.

    They are of one producer or of none, no markers and not transactional; their offsets and sequence numbers follow
    each other, and each has a record for each of its offsets.

    Args:
        batches: batch columns, at least one row.
        records: the record columns, with the records of all batches.
        least: the smallest timestamp that a record may have.
        most: the largest timestamp.
        keyed: whether each record must have a key.
    """
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    r: cython.pointer[cython.longlong] = cells_of(records.cells)
    capacity: cython.Py_ssize_t = batches.capacity
    count: cython.Py_ssize_t = batches.count
    room: cython.Py_ssize_t = records.capacity
    total: cython.Py_ssize_t = records.count
    row: cython.Py_ssize_t = 0
    record: cython.Py_ssize_t = 0
    offset: cython.longlong = b[B_BASE_OFFSET * capacity]
    sequence: cython.longlong = b[B_SEQUENCE * capacity]
    left: cython.longlong
    if b[B_PID * capacity] >= 0 and sequence < 0:
        return 0
    # Batches before `row` are usual and have the records before `record`; `offset` is the next one, and `sequence` of
    # their producer.
    while row < count:
        left = b[B_COUNT * capacity + row]
        if left <= 0 or left > total - record or b[B_BASE_OFFSET * capacity + row] != offset:
            return 0
        if b[B_LAST_OFFSET * capacity + row] != wrapped(offset + left - 1):
            return 0
        if b[B_FORMAT * capacity + row] != MAGIC_V2 or b[B_ATTRIBUTES * capacity + row] & (CONTROL | TRANSACTIONAL):
            return 0
        if b[B_PID * capacity + row] != b[B_PID * capacity]:
            return 0
        if b[B_PID * capacity] >= 0:
            if b[B_PEPOCH * capacity + row] != b[B_PEPOCH * capacity] or b[B_SEQUENCE * capacity + row] != sequence:
                return 0
            sequence = (sequence + left) & MAX_SEQUENCE
        while left > 0:
            if r[R_BATCH * room + record] != row or r[R_OFFSET * room + record] != offset:
                return 0
            if r[R_TIME * room + record] < least or r[R_TIME * room + record] > most:
                return 0
            if keyed and r[R_KEY_SIZE * room + record] < 0:
                return 0
            record += 1
            offset = wrapped(offset + 1)
            left -= 1
        row += 1
    return record == total
