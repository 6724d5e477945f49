"""Varints as ByteUtils reads them: 5 or 10 bytes at most, overlong forms taken, surplus bits of the last dropped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core import kernels
from kafkalog_core.kernels import fields
from tests.support.build import batch_v2, varint
from tests.support.twins import TWINS, decode_all, walked

MIN_INT32, MAX_INT32 = -(2**31), 2**31 - 1
MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1
# bytes in hex, value as 32 bits, value as 64 bits; None: refused
EDGES = [
    ("00", 0, 0),
    ("01", -1, -1),
    ("02", 1, 1),
    ("7f", -64, -64),
    ("80 01", 64, 64),
    ("fe ff ff ff 0f", MAX_INT32, MAX_INT32),
    ("ff ff ff ff 0f", MIN_INT32, MIN_INT32),
    ("80 80 80 80 10", 0, 2**31),  # of 32 bits the 33rd is dropped
    ("fe ff ff ff 7f", MAX_INT32, 2**34 - 1),
    ("ff ff ff ff 7f", MIN_INT32, -(2**34)),
    ("80 00", 0, 0),  # overlong
    ("81 00", -1, -1),
    ("80 80 80 80 00", 0, 0),
    ("81 80 80 80 00", -1, -1),
    ("80 80 80 80 80", None, None),  # the fifth byte says that a sixth follows; then that is cut
    ("80 80 80 80 80 00", None, 0),
    ("ff ff ff ff ff 00", None, -(2**34)),
    ("fe ff ff ff ff ff ff ff ff 01", None, MAX_INT64),
    ("ff ff ff ff ff ff ff ff ff 01", None, MIN_INT64),
    ("ff ff ff ff ff ff ff ff ff 7f", None, MIN_INT64),  # of the tenth byte only the lowest bit is taken
    ("80 80 80 80 80 80 80 80 80 02", None, 0),
    ("80 80 80 80 80 80 80 80 80 00", None, 0),
    ("80 80 80 80 80 80 80 80 80 80 00", None, None),  # eleven bytes
    ("ff ff ff ff ff ff ff ff ff 81 00", None, None),
]


def decoded(name: str, time_delta: bytes, offset_delta: bytes) -> tuple[int, int] | str:
    """Timestamp and offset of a record with these deltas, or the word of the error."""
    body = b"\0" + time_delta + offset_delta + bytes.fromhex("01 01 00")
    data = batch_v2(payload=varint(len(body)) + body, records_count=1, base_offset=0, base_timestamp_ms=0)
    calls, result = decode_all(name, data, walked(data))
    if result != kernels.DECODE_DONE:
        return kernels.DECODE_ERRORS[result]
    ((row,),) = calls
    return row.timestamp_ms, row.offset


@pytest.mark.parametrize(("text", "int32", "int64"), EDGES)
def test_edges(twin_name, text, int32, int64):
    raw = bytes.fromhex(text)
    refused = "record-varint"
    if int64 is not None:
        assert decoded(twin_name, raw, b"\0") == (int64, 0)
    if int32 is None:
        assert isinstance(decoded(twin_name, b"\0", raw), str)
    else:
        assert decoded(twin_name, b"\0", raw) == (0, int32)
    for cut in range(len(raw)):
        if cut == 0 or raw[cut - 1] & 0x80:
            # the record ends within it: nothing follows that could complete it
            body = b"\0" + raw[:cut]
            data = batch_v2(payload=varint(len(body)) + body, records_count=1)
            calls, result = decode_all(twin_name, data, walked(data))
            assert (calls, kernels.DECODE_ERRORS[result]) == ([[]], refused)


@pytest.mark.parametrize(("text", "int32", "int64"), EDGES)
def test_edges_of_the_one_function(text, int32, int64):
    raw = bytes.fromhex(text)
    for bits, value in ((32, int32), (64, int64)):
        for pad in (b"", b"\xff"):
            expected = (0, -1) if value is None else (value, len(raw) + 3)
            if value is not None or not pad:
                assert fields.varint(bytes(3) + raw + pad, 3, 3 + len(raw), bits) == expected


@given(st.integers(MIN_INT64, MAX_INT64), st.integers(MIN_INT32, MAX_INT32))
def test_every_value_comes_back(time_delta, offset_delta):
    for name in TWINS:
        assert decoded(name, varint(time_delta), varint(offset_delta)) == (time_delta, offset_delta)


@given(st.binary(min_size=1, max_size=12), st.binary(min_size=1, max_size=12))
def test_twins_read_any_bytes_alike(time_delta, offset_delta):
    assert len({decoded(name, time_delta, offset_delta) for name in TWINS}) == 1


@given(st.binary(max_size=12), st.sampled_from([32, 64]))
def test_a_varint_is_read_within_its_end(raw, bits):
    value, position = fields.varint(raw, 0, len(raw), bits)
    if position < 0:
        assert value == 0
    else:
        assert 0 < position <= min(len(raw), {32: 5, 64: 10}[bits])
        assert -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)
