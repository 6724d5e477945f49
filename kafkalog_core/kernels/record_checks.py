"""Checks of decoded records against the headers of their batches, and transaction markers.

Offsets outside the batch are found by `find_outside` (batch_checks.py).
"""

from __future__ import annotations

from kafkalog_core.kernels._cython import cython
from kafkalog_core.kernels.batch_checks import joins_before
from kafkalog_core.kernels.constants import *
from kafkalog_core.kernels.fields import bytes_of, cells_of, int16, int32, uint32, varint, wrapped
from kafkalog_core.kernels.text import is_ascii, is_utf8

__all__ = ["check_records", "find_odd_marker", "read_markers"]


def check_records(memory: object, batches: object, records: object, first: cython.Py_ssize_t, state: object) -> int:
    """Check records from row `first` on. Return the row to continue with; RC_ODD is 0 if all rows before it are fine.

    Args:
        memory: the buffer that the spans of the records refer to.
        batches: their batch columns.
        records: record columns; no rows: the current batch ends.
        first: row to start with.
        state: the `RC_*` cells. RC_ODD: `ODD_*` bits of the batch in row RC_ABOUT and the record in row RC_ROW.
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    b: cython.pointer[cython.longlong] = cells_of(batches.cells)
    r: cython.pointer[cython.longlong] = cells_of(records.cells)
    h: cython.pointer[cython.longlong] = cells_of(records.headers.cells)
    s: cython.pointer[cython.longlong] = cells_of(state)
    b_capacity: cython.Py_ssize_t = batches.capacity
    r_capacity: cython.Py_ssize_t = records.capacity
    h_capacity: cython.Py_ssize_t = records.headers.capacity
    h_count: cython.Py_ssize_t = records.headers.count
    size: cython.Py_ssize_t = len(memory)
    count: cython.Py_ssize_t = records.count
    row: cython.Py_ssize_t = first
    odd: cython.longlong = 0
    s[RC_ODD] = 0
    # p: bytes of `memory`; b, r, h: batch, record and header columns; s: state. s[RC_BATCH] is the current batch, whose
    # records before `row` are in the cells RC_COUNT to RC_MARKER; its end is checked when a record of another batch
    # follows.
    while row < count:
        if r[R_BATCH * r_capacity + row] != s[RC_BATCH]:
            _end_batch(b, b_capacity, s)
            if s[RC_ODD]:
                return row
            odd = _begin_batch(b, b_capacity, r, r_capacity, row, s)
        row = _pass_records(p, size, b, b_capacity, r, r_capacity, h, h_capacity, h_count, row, count, odd, s)
        odd = 0
        if s[RC_ODD]:
            return row
    if count == 0:
        _end_batch(b, b_capacity, s)
    return count


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _begin_batch(
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.longlong:
    """Start a batch. Return the odd bits of its first record: the start of a wrapper is known from its content only."""
    batch: cython.Py_ssize_t = r[R_BATCH * r_capacity + row]
    offset: cython.longlong = r[R_OFFSET * r_capacity + row]
    before: cython.longlong = s[RC_BEFORE]
    s[RC_BATCH] = batch
    s[RC_COUNT] = s[RC_SAID] = s[RC_MARKER] = 0
    s[RC_INNER] = offset
    s[RC_OFFSET] = s[RC_TIME] = LEAST
    if s[RC_RECORDS] == 0:
        s[RC_FIRST] = offset
    if b[B_FORMAT * b_capacity + batch] >= MAGIC_V2 or b[B_CODEC * b_capacity + batch] == 0:
        return 0
    if batch > 0:
        before = b[B_LAST_OFFSET * b_capacity + batch - 1]
    if offset <= before:
        return ODD_OVERLAP
    if offset > wrapped(before + 1) and (batch > 0 or s[RC_JOINED]) and joins_before(b, b_capacity, batch):
        if s[RC_GAPS] == 0:
            s[RC_GAP_AT] = b[B_POSITION * b_capacity + batch]
            s[RC_GAP_FROM] = before + 1
            s[RC_GAP_TO] = offset - 1
        s[RC_GAPS] += 1
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def _end_batch(
    b: cython.pointer[cython.longlong], b_capacity: cython.Py_ssize_t, s: cython.pointer[cython.longlong]
) -> cython.void:
    """Check the current batch after its last record."""
    batch: cython.Py_ssize_t = s[RC_BATCH]
    odd: cython.longlong = 0
    if batch < 0:
        return
    s[RC_BATCH] = -1
    if b[B_FORMAT * b_capacity + batch] < MAGIC_V2 and b[B_CODEC * b_capacity + batch] != 0:
        if s[RC_COUNT] <= wrapped(s[RC_OFFSET] - s[RC_INNER]):
            s[RC_HOLES] += 1
        if s[RC_OFFSET] != b[B_LAST_OFFSET * b_capacity + batch]:
            odd = ODD_LAST
    if _knows_times(b, b_capacity, batch) and s[RC_TIME] < b[B_MAX_TIME * b_capacity + batch]:
        odd |= ODD_TIME_UNDER
    if odd:
        _say(odd, batch, -1, s)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _knows_times(
    b: cython.pointer[cython.longlong], b_capacity: cython.Py_ssize_t, batch: cython.Py_ssize_t
) -> cython.bint:
    """Return whether the header's largest timestamp must be that of a record: magic 1 and 2 with CreateTime."""
    if b[B_ATTRIBUTES * b_capacity + batch] & APPEND_TIME:
        return False
    return b[B_FORMAT * b_capacity + batch] == MAGIC_V2 or b[B_FORMAT * b_capacity + batch] == 1


@cython.cfunc
@cython.exceptval(check=False)
def _pass_records(
    p: cython.pointer[cython.const[cython.uchar]],
    size: cython.Py_ssize_t,
    b: cython.pointer[cython.longlong],
    b_capacity: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    h_count: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    odd: cython.longlong,
    s: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """Check records of the current batch up to an odd one; `odd`: bits of the first. Return the next row."""
    batch: cython.Py_ssize_t = s[RC_BATCH]
    begun: cython.Py_ssize_t = row
    previous: cython.longlong = s[RC_OFFSET]
    latest: cython.longlong = s[RC_TIME]
    top: cython.longlong = MAX_OFFSET
    offset: cython.longlong
    time: cython.longlong
    ascends: cython.bint = b[B_FORMAT * b_capacity + batch] != V07
    form: cython.longlong = b[B_FORMAT * b_capacity + batch]
    is_wrapper: cython.bint = ascends and form < MAGIC_V2 and b[B_CODEC * b_capacity + batch] != 0
    control: cython.bint = form == MAGIC_V2 and b[B_ATTRIBUTES * b_capacity + batch] & CONTROL
    if _knows_times(b, b_capacity, batch):
        top = b[B_MAX_TIME * b_capacity + batch]
    # `previous` and `latest`: last offset and largest timestamp of the batch's records before `row`; `top`: the largest
    # timestamp that the header allows.
    while row < count and r[R_BATCH * r_capacity + row] == batch:
        offset = r[R_OFFSET * r_capacity + row]
        time = r[R_TIME * r_capacity + row]
        # no record is before the first one, whose offset may be the least of all
        if ascends and offset <= previous and s[RC_COUNT] + row - begun > 0:
            odd |= ODD_ORDER
        if time > latest:
            latest = time
            if time > top:
                odd |= ODD_TIME_OVER
        if r[R_CRC_OK * r_capacity + row] == 0:
            odd |= ODD_CRC
        if ascends and (r[R_KEY_SIZE * r_capacity + row] < 0 or r[R_VALUE_SIZE * r_capacity + row] < 0):
            odd |= _odd_lengths(p, size, form, r, r_capacity, row)
        if r[R_HEADER_COUNT * r_capacity + row] > 0:
            odd |= _odd_headers(p, size, h, h_capacity, h_count, r, r_capacity, row)
        if is_wrapper and _is_of_other_magic(p, size, form, r, r_capacity, row):
            odd |= ODD_MAGIC
        if control:
            odd |= _odd_control(p, r, r_capacity, row, s[RC_COUNT] + row - begun, s)
        previous = offset
        row += 1
        if odd:
            _say(odd, batch, row - 1, s)
            odd = 0
            if s[RC_ODD]:
                break
    s[RC_OFFSET] = previous
    s[RC_TIME] = latest
    s[RC_COUNT] += row - begun
    s[RC_RECORDS] += row - begun
    if b[B_FORMAT * b_capacity + batch] != MAGIC_V2 and b[B_CODEC * b_capacity + batch] != 0:
        s[RC_WRAPPED] += row - begun
    return row


# --- what no column holds: read again from the bytes, within the `size` bytes of the buffer ---------------------------
@cython.cfunc
@cython.exceptval(check=False)
def _odd_lengths(
    p: cython.pointer[cython.const[cython.uchar]],
    size: cython.Py_ssize_t,
    form: cython.longlong,
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.longlong:
    """Return the odd bit of a record whose key or value is None with another length than -1."""
    key: cython.Py_ssize_t = r[R_KEY * capacity + row]
    key_size: cython.longlong = r[R_KEY_SIZE * capacity + row]
    start: cython.Py_ssize_t = key - 1
    if key_size < 0:
        # p: the record. Before `start` is the varint of the offset delta, whose last byte has not the highest bit.
        while form == MAGIC_V2 and 0 < start <= size and p[start - 1] >= 0x80:
            start -= 1
        if _is_below_null(p, size, form, start, key):
            return ODD_LENGTH
        key_size = 0
    if r[R_VALUE_SIZE * capacity + row] < 0 and _is_below_null(
        p, size, form, key + key_size, r[R_VALUE * capacity + row]
    ):
        return ODD_LENGTH
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def _is_below_null(
    p: cython.pointer[cython.const[cython.uchar]],
    size: cython.Py_ssize_t,
    form: cython.longlong,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.bint:
    """Return whether the length in `p[start:end]`, which ends before byte `end`, is below -1."""
    length: cython.longlong
    if form != MAGIC_V2:
        return 4 <= end <= size and int32(p, end - 4) < -1
    if start < 0 or end > size:
        return False
    length, start = varint(p, start, end, 32)
    return length < -1


@cython.cfunc
@cython.exceptval(check=False)
def _odd_headers(
    p: cython.pointer[cython.const[cython.uchar]],
    size: cython.Py_ssize_t,
    h: cython.pointer[cython.longlong],
    h_capacity: cython.Py_ssize_t,
    h_count: cython.Py_ssize_t,
    r: cython.pointer[cython.longlong],
    r_capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.longlong:
    """Return the odd bits of the headers of a record."""
    odd: cython.longlong = 0
    at: cython.Py_ssize_t = r[R_HEADERS * r_capacity + row]
    left: cython.longlong = r[R_HEADER_COUNT * r_capacity + row]
    start: cython.Py_ssize_t
    end: cython.Py_ssize_t
    # p: the records; h: header columns. `left` headers from row `at` on are not checked.
    while left > 0 and 0 <= at < h_count:
        start = h[H_KEY * h_capacity + at]
        end = start + h[H_KEY_SIZE * h_capacity + at]
        if start < 0 or end > size:
            break
        # Most keys are short and ASCII, for which one look at each byte is enough.
        if not is_ascii(p, start, end) and not is_utf8(p, start, end):
            odd |= ODD_HEADER_KEY
        if h[H_VALUE_SIZE * h_capacity + at] < 0 and _is_below_null(
            p, size, MAGIC_V2, end, h[H_VALUE * h_capacity + at]
        ):
            odd |= ODD_LENGTH
        at += 1
        left -= 1
    return odd


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_of_other_magic(
    p: cython.pointer[cython.const[cython.uchar]],
    size: cython.Py_ssize_t,
    form: cython.longlong,
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.bint:
    """Return whether an inner message has not the magic of its wrapper: its checksum is then at another distance."""
    key_at: cython.Py_ssize_t = (V1_KEY_AT if form == 1 else V0_KEY_AT) + 4
    start: cython.Py_ssize_t = r[R_KEY * capacity + row] - key_at + LEGACY_CRC_AT
    return 0 <= start <= size - 4 and uint32(p, start) != r[R_CRC * capacity + row]


# --- control records --------------------------------------------------------------------------------------------------
@cython.cfunc
@cython.exceptval(check=False)
def _odd_control(
    p: cython.pointer[cython.const[cython.uchar]],
    r: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    ordinal: cython.Py_ssize_t,
    s: cython.pointer[cython.longlong],
) -> cython.longlong:
    """Return the odd bits of a control record: its key, and a transaction marker. The caller checks other types."""
    odd: cython.longlong = 0
    kind: cython.longlong
    at: cython.Py_ssize_t = r[R_KEY * capacity + row]
    if s[RC_MARKER]:
        odd = ODD_MARKERS
    if r[R_KEY_SIZE * capacity + row] < MARKER_KEY_SIZE or int16(p, at) < 0:
        return odd | ODD_CONTROL_KEY
    kind = int16(p, at + 2)
    if kind != MARKER_ABORT and kind != MARKER_COMMIT:
        return odd | ODD_CONTROL
    if ordinal == 0:
        s[RC_MARKER] = 1
    if r[R_VALUE_SIZE * capacity + row] < MARKER_VALUE_SIZE or int16(p, r[R_VALUE * capacity + row]) < 0:
        odd |= ODD_CONTROL_VALUE
    return odd


@cython.cfunc
@cython.exceptval(check=False)
def _say(
    odd: cython.longlong, batch: cython.Py_ssize_t, row: cython.Py_ssize_t, s: cython.pointer[cython.longlong]
) -> cython.void:
    """Set RC_ODD to the bits that were not reported of the batch yet and are not muted."""
    muted: cython.longlong
    bit: cython.Py_ssize_t
    odd &= ~s[RC_SAID]
    s[RC_SAID] |= odd & ~ODD_CONTROL
    muted = odd & s[RC_MUTED]
    if muted:
        # s: state. The bits below `bit` are counted in their cells from RC_MORE on.
        for bit in range(ODD_RECORD_BITS):
            if muted & (1 << bit):
                s[RC_MORE + bit] += 1
    s[RC_ODD] = odd & ~muted
    s[RC_ABOUT] = batch
    s[RC_ROW] = row


# --- transaction markers (EndTransactionMarker) -----------------------------------------------------------------------
def read_markers(memory: object, columns: object, markers: object) -> cython.Py_ssize_t:
    """Read the transaction markers of the control batches in a run. Return the number of filled rows of `markers`.

    Args:
        memory: the buffer that the payload spans refer to.
        columns: batch columns.
        markers: room for a marker for each row, `M_SIZE` cells each. Empty control batches have none; the type is -1
            for batches without a marker, compressed ones, and those outside the buffer.
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    b: cython.pointer[cython.longlong] = cells_of(columns.cells)
    m: cython.pointer[cython.longlong] = cells_of(markers)
    capacity: cython.Py_ssize_t = columns.capacity
    count: cython.Py_ssize_t = columns.count
    size: cython.Py_ssize_t = len(memory)
    row: cython.Py_ssize_t
    k: cython.Py_ssize_t = 0
    if count == 0 or size == 0:
        return 0
    # p: payloads; b: batch columns; m: markers. The control batches before `row` have their markers in `m`.
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
    """Return the first row from `first` on of a control batch that is not one plain marker, or the number of rows.

    An empty control batch is plain: brokers skip it.

    Args:
        memory: the buffer that the payload spans refer to.
        columns: batch columns.
        first: row to start with.
    """
    p: cython.pointer[cython.const[cython.uchar]] = bytes_of(memory)
    b: cython.pointer[cython.longlong] = cells_of(columns.cells)
    capacity: cython.Py_ssize_t = columns.capacity
    count: cython.Py_ssize_t = columns.count
    size: cython.Py_ssize_t = len(memory)
    row: cython.Py_ssize_t
    if count == 0 or size == 0:
        return count
    # p: payloads; b: batch columns. The control batches before `row` are plain markers, or empty.
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
    """Return whether these bytes are one record, a marker, and nothing else."""
    length: cython.longlong
    key_type: cython.longlong
    length, i = varint(p, i, end, 32)
    if i < 0 or length < 1 or length != end - i:
        return False
    length, i = varint(p, i + 1, end, 64)  # the timestamp delta, after the attributes
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
    return i == end - 1 and p[i] == 0  # no headers, and no more bytes


@cython.cfunc
@cython.exceptval(check=False)
def _fill_marker(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    m: cython.pointer[cython.longlong],
    k: cython.Py_ssize_t,
) -> cython.bint:
    """Read type and coordinator epoch of the first record of a batch. Return false if it is not a marker."""
    length: cython.longlong
    length, i = varint(p, i, end, 32)
    if i < 0 or length < 1 or length > end - i:
        return False
    end = i + length
    length, i = varint(p, i + 1, end, 64)  # the timestamp delta, after the attributes
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
