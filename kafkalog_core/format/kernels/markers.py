"""What the control batches of producers say: the end of a transaction, COMMIT or ABORT (EndTransactionMarker)."""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.constants import (
    B_ATTRIBUTES,
    B_CODEC,
    B_COUNT,
    B_END,
    B_FORMAT,
    B_PID,
    B_START,
    CONTROL,
    M_COORDINATOR,
    M_ROW,
    M_SIZE,
    M_TYPE,
    MAGIC_V2,
    MARKER_ABORT,
    MARKER_COMMIT,
    MARKER_KEY_SIZE,
    MARKER_VALUE_SIZE,
)
from kafkalog_core.format.kernels.integers import int16, int32, varint

__all__ = ["find_odd_marker", "read_markers"]


def read_markers(memory: object, columns: object, markers: object) -> cython.Py_ssize_t:
    """Read the markers of all producers' control batches in a run; returns how many rows of `markers` are filled.

    Args:
        memory: the buffer that the payload spans refer to.
        columns: batch columns.
        markers: room for a marker for each row, `M_SIZE` cells each. Empty control batches get none; of those that hold
            no marker, that are compressed or that lie outside of the buffer, the type is -1.
    """
    data: cython.const[cython.uchar][::1] = memory
    b_view: cython.longlong[::1] = columns.cells
    m_view: cython.longlong[::1] = markers
    p: cython.pointer[cython.const[cython.uchar]]
    b: cython.pointer[cython.longlong]
    m: cython.pointer[cython.longlong]
    capacity: cython.Py_ssize_t = columns.capacity
    count: cython.Py_ssize_t = columns.count
    size: cython.Py_ssize_t = len(memory)
    row: cython.Py_ssize_t
    k: cython.Py_ssize_t = 0
    if count == 0 or size == 0:
        return 0
    if cython.compiled:
        p = cython.address(data[0])
        b = cython.address(b_view[0])
        m = cython.address(m_view[0])
    else:
        p, b, m = data, b_view, m_view
    for row in range(count):
        if (
            b[B_ATTRIBUTES * capacity + row] & CONTROL
            and b[B_FORMAT * capacity + row] == MAGIC_V2
            and b[B_PID * capacity + row] >= 0
            and b[B_COUNT * capacity + row] != 0
        ):
            m[k + M_ROW] = row
            if (
                b[B_CODEC * capacity + row] != 0
                or b[B_END * capacity + row] > size
                or not _fill_marker(p, b[B_START * capacity + row], b[B_END * capacity + row], m, k)
            ):
                m[k + M_TYPE] = -1
            k += M_SIZE
    return k // M_SIZE


def find_odd_marker(memory: object, columns: object, first: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """First row from `first` on of a producer's control batch that is not one plain marker, byte for byte; else count.

    An empty control batch is plain: brokers pass over it.

    Args:
        memory: the buffer that the payload spans refer to.
        columns: batch columns.
        first: row to start with.
    """
    data: cython.const[cython.uchar][::1] = memory
    b_view: cython.longlong[::1] = columns.cells
    p: cython.pointer[cython.const[cython.uchar]]
    b: cython.pointer[cython.longlong]
    capacity: cython.Py_ssize_t = columns.capacity
    count: cython.Py_ssize_t = columns.count
    size: cython.Py_ssize_t = len(memory)
    row: cython.Py_ssize_t
    if count == 0 or size == 0:
        return count
    if cython.compiled:
        p = cython.address(data[0])
        b = cython.address(b_view[0])
    else:
        p, b = data, b_view
    for row in range(first, count):
        if (
            b[B_ATTRIBUTES * capacity + row] & CONTROL
            and b[B_FORMAT * capacity + row] == MAGIC_V2
            and b[B_PID * capacity + row] >= 0
            and b[B_COUNT * capacity + row] != 0
            and (
                b[B_COUNT * capacity + row] != 1
                or b[B_CODEC * capacity + row] != 0
                or b[B_END * capacity + row] > size
                or not _is_plain(p, b[B_START * capacity + row], b[B_END * capacity + row])
            )
        ):
            return row
    return count


@cython.cfunc
@cython.exceptval(check=False)
def _is_plain(
    p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.bint:
    """Whether these bytes are one record, a marker, and nothing else."""
    length: cython.longlong
    key_type: cython.longlong
    length, i = varint(p, i, end, 32)
    if i < 0 or length < 1 or length != end - i:
        return False
    length, i = varint(p, i + 1, end, 64)  # the timestamp delta, behind the attributes
    if i < 0:
        return False
    length, i = varint(p, i, end, 32)  # the offset delta
    if i < 0:
        return False
    length, i = varint(p, i, end, 32)
    if i < 0 or length < MARKER_KEY_SIZE or length > end - i or int16(p, i) < 0:
        return False
    key_type = int16(p, i + 2)
    length, i = varint(p, i + length, end, 32)
    if i < 0 or length < MARKER_VALUE_SIZE or length > end - i or int16(p, i) < 0:
        return False
    i += length
    if key_type != MARKER_ABORT and key_type != MARKER_COMMIT:
        return False
    return i == end - 1 and p[i] == 0  # no headers, and nothing behind


@cython.cfunc
@cython.exceptval(check=False)
def _fill_marker(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    m: cython.pointer[cython.longlong],
    k: cython.Py_ssize_t,
) -> cython.bint:
    """Type and coordinator epoch of the first record of a batch; False: it is no marker."""
    length: cython.longlong
    length, i = varint(p, i, end, 32)
    if i < 0 or length < 1 or length > end - i:
        return False
    end = i + length
    length, i = varint(p, i + 1, end, 64)  # the timestamp delta, behind the attributes
    if i < 0:
        return False
    length, i = varint(p, i, end, 32)  # the offset delta
    if i < 0:
        return False
    length, i = varint(p, i, end, 32)
    if i < 0 or length < MARKER_KEY_SIZE or length > end - i or int16(p, i) < 0:
        return False
    m[k + M_TYPE] = int16(p, i + 2)
    length, i = varint(p, i + length, end, 32)
    if i < 0 or length < MARKER_VALUE_SIZE or length > end - i or int16(p, i) < 0:
        return False
    m[k + M_COORDINATOR] = int32(p, i + 2)
    return m[k + M_TYPE] == MARKER_ABORT or m[k + M_TYPE] == MARKER_COMMIT
