"""The header of a batch of magic 2 as the cleaner writes it (DefaultRecordBatch.writeHeader, writeEmptyHeader)."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.checksum import crc32c_of
from kafkalog_core.format.kernels.clean_numbers import (
    K_FIRST,
    K_HORIZON,
    K_KEPT,
    K_LAST,
    K_MAX_TIME,
    K_OUTCOME,
    K_SIZE,
    KEPT_BITS,
    O_BATCH,
    O_END,
    O_FILLED,
    OUTCOME_REBUILT,
)
from kafkalog_core.format.kernels.clean_records import base_time_of
from kafkalog_core.format.kernels.constants import (
    APPEND_TIME,
    B_ATTRIBUTES,
    B_BASE_OFFSET,
    B_EPOCH,
    B_FORMAT,
    B_LAST_OFFSET,
    B_MAX_TIME,
    B_PEPOCH,
    B_PID,
    B_SEQUENCE,
    CODECS,
    HORIZON,
    MAGIC_AT,
    MAGIC_V0,
    MAGIC_V2,
    OVERHEAD,
    SIZE_AT,
    V2_ATTRIBUTES_AT,
    V2_BASE_TIME_AT,
    V2_COUNT_AT,
    V2_CRC_AT,
    V2_DELTA_AT,
    V2_EPOCH_AT,
    V2_MAX_TIME_AT,
    V2_PEPOCH_AT,
    V2_PID_AT,
    V2_SEQUENCE_AT,
)
from kafkalog_core.format.kernels.integers import wrapped

__all__ = ["put_header"]


@cython.cfunc
def put_header(
    output: object,
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    k: cython.pointer[cython.longlong],
    o: cython.pointer[cython.uchar],
    s: cython.pointer[cython.longlong],
) -> cython.void:
    """The header of a batch of magic 2, rebuilt or emptied, and its checksum."""
    batch: cython.Py_ssize_t = s[O_BATCH]
    at: cython.Py_ssize_t = s[O_FILLED]
    end: cython.Py_ssize_t = s[O_END]
    cells: cython.Py_ssize_t = batch * K_SIZE
    is_v2: cython.bint = b[B_FORMAT * capacity + batch] == MAGIC_V2
    is_empty: cython.bint = k[cells + K_OUTCOME] != OUTCOME_REBUILT
    attributes: cython.longlong = b[B_ATTRIBUTES * capacity + batch] & KEPT_BITS
    base: cython.longlong = b[B_BASE_OFFSET * capacity + batch] if is_v2 else k[cells + K_FIRST]
    last: cython.longlong = b[B_LAST_OFFSET * capacity + batch] if is_v2 else k[cells + K_LAST]
    max_time: cython.longlong = k[cells + K_MAX_TIME]
    if b[B_FORMAT * capacity + batch] == MAGIC_V0:
        attributes &= CODECS
    elif not is_v2:
        attributes &= CODECS | APPEND_TIME
    if is_empty:
        attributes &= ~CODECS
    elif k[cells + K_HORIZON] >= 0:
        attributes |= HORIZON
    if is_empty or attributes & APPEND_TIME:
        max_time = b[B_MAX_TIME * capacity + batch]
    _put_int(o, at, base, 8)
    _put_int(o, at + SIZE_AT, end - at - OVERHEAD, 4)
    _put_int(o, at + V2_EPOCH_AT, b[B_EPOCH * capacity + batch], 4)
    o[at + MAGIC_AT] = MAGIC_V2
    _put_int(o, at + V2_ATTRIBUTES_AT, attributes, 2)
    _put_int(o, at + V2_DELTA_AT, wrapped(last - base), 4)
    _put_int(o, at + V2_BASE_TIME_AT, -1 if is_empty else base_time_of(k, cells), 8)
    _put_int(o, at + V2_MAX_TIME_AT, max_time, 8)
    _put_int(o, at + V2_PID_AT, b[B_PID * capacity + batch], 8)
    _put_int(o, at + V2_PEPOCH_AT, b[B_PEPOCH * capacity + batch], 2)
    _put_int(o, at + V2_SEQUENCE_AT, b[B_SEQUENCE * capacity + batch], 4)
    _put_int(o, at + V2_COUNT_AT, k[cells + K_KEPT], 4)
    _put_int(o, at + V2_CRC_AT, crc32c_of(output, o, at + V2_ATTRIBUTES_AT, end), 4)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_int(
    o: cython.pointer[cython.uchar], at: cython.Py_ssize_t, value: cython.longlong, size: cython.Py_ssize_t
) -> cython.void:
    """The low bytes of an integer, big-endian."""
    while size > 0:
        size -= 1
        o[at + size] = value & 0xFF
        value >>= 8
