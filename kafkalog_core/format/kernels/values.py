"""What of a record no column holds: it follows from its batch, or from its key."""

from __future__ import annotations

from kafkalog_core.format.kernels._cython import cython
from kafkalog_core.format.kernels.constants import *
from kafkalog_core.format.kernels.fields import wrapped

__all__ = ["control_kind", "sequence_of"]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def sequence_of(
    b: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    batch: cython.Py_ssize_t,
    offset: cython.longlong,
) -> cython.longlong:
    """Sequence number of a record: base + offset delta, wrapping at 2^31 (DefaultRecordBatch.incrementSequence)."""
    base: cython.longlong = b[B_SEQUENCE * capacity + batch]
    delta: cython.longlong = wrapped(offset - b[B_BASE_OFFSET * capacity + batch])
    if base < 0:
        return -1
    if base > MAX_SEQUENCE - delta:
        return delta - (MAX_SEQUENCE - base) - 1
    return base + delta


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def control_kind(
    p: cython.pointer[cython.const[cython.uchar]],
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.longlong:
    """The control type in the key of a control record (ControlRecordType.parseTypeId); CONTROL_TYPES: unknown."""
    start: cython.Py_ssize_t = r[R_KEY * r_capacity + row]
    if r[R_KEY_SIZE * r_capacity + row] >= 4 and p[start] < 0x80 and p[start + 2] == 0 and p[start + 3] < CONTROL_TYPES:
        return p[start + 3]
    return CONTROL_TYPES
