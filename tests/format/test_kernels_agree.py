"""All twins give the same for any bytes: results, state, and every cell, counted or not."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core import kernels
from kafkalog_core.format.columns import FORMAT_V07, BatchColumns
from kafkalog_core.kernels import fields
from tests.support import strategies
from tests.support.build import batch_v2, message_v07, message_v1, record_v2, varint
from tests.support.strategies import record_runs
from tests.support.twins import TWINS, all_agree, decode_once, state_at, twin, walked

PAYLOADS = st.one_of(
    st.binary(max_size=120),
    st.lists(st.binary(max_size=30).map(lambda body: varint(len(body)) + body), max_size=5).map(b"".join),
    record_runs(0, max_size=4).map(
        lambda run: b"".join(record_v2(record, base_offset=0, base_timestamp_ms=0) for record in run)
    ),
)
INNER_SETS = st.one_of(
    st.binary(max_size=120),
    record_runs(0, max_size=4).map(lambda run: b"".join(message_v1(record) for record in run)),
    st.lists(st.binary(max_size=20), max_size=4).map(lambda values: b"".join(map(message_v07, values))),
)


@st.composite
def bent(draw: st.DrawFn, base: st.SearchStrategy[bytes]) -> bytes:
    """Bytes with a few of them changed, or cut."""
    data = bytearray(draw(base))
    for position in draw(st.lists(st.integers(0, max(0, len(data) - 1)), max_size=3)):
        if data:
            data[position] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.none() | st.integers(0, len(data)))])


LOGS = st.one_of(
    st.binary(max_size=150),
    strategies.logs(strategies.batches_v2).map(lambda log: b"".join(one.data for one in log)),
    strategies.logs(strategies.messages_v0).map(lambda log: b"".join(one.data for one in log)),
    strategies.logs(strategies.messages_v1).map(lambda log: b"".join(one.data for one in log)),
    strategies.sets_v07().map(lambda one: one[0]),
    st.integers(0, 40).map(lambda zeros: bytes(zeros) + batch_v2([], base_offset=5)),
)


@given(bent(PAYLOADS), st.integers(-2, 9), st.sampled_from([1, 2, 3, 16]), st.sampled_from([0, 8]))
def test_records_of_magic_2(payload, count, capacity, attributes):
    extremes = {"base_offset": 2**63 - 2, "base_timestamp_ms": -(2**63), "max_timestamp_ms": 2**63 - 1}
    data = batch_v2(payload=payload, records_count=count, attributes=attributes, last_offset=2**63 - 1, **extremes)
    batches = walked(data, check=False)
    all_agree([decode_once(name, data, batches, capacity=capacity) for name in TWINS])


@given(
    bent(INNER_SETS),
    st.sampled_from([0, 1, FORMAT_V07]),
    st.sampled_from([1, 9]),
    st.sampled_from([0, 1, 2**63 - 1, -(2**63), -1]),
    st.sampled_from([1, 2, 16]),
)
def test_inner_sets(inner, batch_format, attributes, last_offset, capacity):
    batches = BatchColumns(1)
    batches.count = 1
    fields = {
        "format": batch_format,
        "attributes": attributes,
        "codec": 1,
        "base_offset": last_offset,
        "last_offset": last_offset,
        "record_count": -1,
        "max_timestamp_ms": 77,
        "payload_end": len(inner),
    }
    for field, value in fields.items():
        batches.column(field)[0] = value
    all_agree([decode_once(name, inner, batches, capacity=capacity) for name in TWINS])


@pytest.mark.slow
@pytest.mark.parametrize("is_v07", [False, True])
@given(
    data=bent(LOGS),
    previous=st.sampled_from([-1, 0, 2**62, 2**63 - 1, -(2**63)]),
    max_bytes=st.sampled_from([100, 2**28]),
    check=st.booleans(),
)
def test_walks_and_what_they_lead_to(is_v07, data, previous, max_bytes, check):
    outcomes = []
    for name in TWINS:
        batches = BatchColumns(8)
        walk = twin(name).walk_v07 if is_v07 else twin(name).walk
        stopped = walk(data, 0, len(data), 2**40, previous, max_bytes, check, batches)
        outcomes.append((stopped, batches.count, batches.cells.tobytes()))
        if batches.count and not any(batches.column("codec")):
            outcomes[-1] += (decode_once(name, data, batches),)
    all_agree(outcomes)


@given(bent(LOGS), st.integers(0, 40), st.integers(0, 400), st.sampled_from([0, 2**62]), st.sampled_from([60, 2**28]))
def test_candidates(data, begin, more, low, max_bytes):
    rest = len(data) + more
    found = all_agree([twin(name).find_candidate(data, begin, rest, low, 2**63 - 1, max_bytes) for name in TWINS])
    assert found == -1 or begin <= found < len(data)
    found = all_agree([twin(name).find_candidate_v07(data, begin, rest, max_bytes) for name in TWINS])
    assert found == -1 or begin <= found < len(data)


@given(
    st.lists(st.one_of(strategies.batches_v2(), strategies.messages_v1()), min_size=1, max_size=3), st.integers(1, 5)
)
def test_states_lead_through_a_log_in_step(log, capacity):
    data = b"".join(one.data for one in log if one.codec == 0)
    batches = BatchColumns(32)
    kernels.walk(data, 0, len(data), 0, -(2**63), 2**28, False, batches)
    states = [state_at(0) for _ in TWINS]
    for _ in range(100):
        calls = [
            decode_once(name, data, batches, capacity=capacity, state=state)
            for name, state in zip(TWINS, states, strict=True)
        ]
        all_agree(calls)
        if calls[0].result != kernels.DECODE_FULL:
            break
    assert calls[0].result in {kernels.DECODE_DONE, kernels.DECODE_GROW}


def test_big_endian_fields_are_what_struct_reads():
    for value in (0, 1, -1, 2**63 - 1, -(2**63), 0x0102030405060708, -0x0102030405060708):
        raw = struct.pack(">q", value)
        assert fields.int64(raw, 0) == value
        assert fields.int32(raw, 0) == struct.unpack_from(">i", raw)[0]
        assert fields.uint32(raw, 4) == struct.unpack_from(">I", raw, 4)[0]
        assert fields.int16(raw, 6) == struct.unpack_from(">h", raw, 6)[0]
