"""Index entries as Kafka 2.8.2 wrote them, transactions aborted on one partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.errors import TruncatedError
from kafkalog_core.format import index
from kafkalog_core.format.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, TXN_INDEX_ENTRY

INT16, INT32, INT64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (15, 31, 63))

# Written by Kafka 2.8.2: the first entries of an index with base offset 0, and the three of a transaction index.
OFFSETS = bytes.fromhex("0000000800000562 00000012000009d6 0000001600000c91")
TIMES = bytes.fromhex("000001a1fbf796a200000007 000001a1fbf7994c00000010")
ABORTED = bytes.fromhex(
    "0000 0000000000000001 0000000000000006 0000000000000008 0000000000000009"
    "0000 0000000000000000 000000000000000f 0000000000000011 0000000000000012"
    "0000 0000000000000002 0000000000000015 0000000000000017 0000000000000018"
)
KINDS = [
    (OFFSETS, OFFSET_INDEX_ENTRY, index.decode_offset_entry, index.iter_offset_entries),
    (TIMES, TIME_INDEX_ENTRY, index.decode_time_entry, index.iter_time_entries),
    (ABORTED, TXN_INDEX_ENTRY, index.decode_txn_entry, index.iter_txn_entries),
]


def test_golden_offset_entries() -> None:
    assert list(index.iter_offset_entries(OFFSETS)) == [(8, 1378), (18, 2518), (22, 3217)]
    assert index.decode_offset_entry(OFFSETS, 8) == (index.OffsetEntry(relative_offset=18, log_position=2518), 16)


def test_golden_time_entries() -> None:
    assert list(index.iter_time_entries(TIMES)) == [(1795228669602, 7), (1795228670284, 16)]
    assert index.decode_time_entry(TIMES) == (index.TimeEntry(timestamp_ms=1795228669602, relative_offset=7), 12)


def test_golden_txn_entries() -> None:
    assert list(index.iter_txn_entries(ABORTED)) == [(0, 1, 6, 8, 9), (0, 0, 15, 17, 18), (0, 2, 21, 23, 24)]
    entry, position = index.decode_txn_entry(ABORTED, 34)
    assert position == 68
    assert entry == index.TxnEntry(version=0, producer_id=0, first_offset=15, last_offset=17, last_stable_offset=18)


def test_golden_entries_are_written_again() -> None:
    assert b"".join(index.encode_time_entry(*entry) for entry in index.iter_time_entries(TIMES)) == TIMES
    assert b"".join(index.encode_txn_entry(*entry[1:]) for entry in index.iter_txn_entries(ABORTED)) == ABORTED


def test_an_offset_that_does_not_fit_a_time_entry_is_cut() -> None:
    assert index.encode_time_entry(-1, 2**31 + 5)[8:] == b"\x80\0\0\5"


@pytest.mark.parametrize(("data", "layout", "decode", "iterate"), KINDS)
def test_a_partial_entry_is_left_alone(data, layout, decode, iterate) -> None:
    whole = list(iterate(data))
    for missing in range(1, layout.size + 1):
        assert list(iterate(data[:-missing])) == whole[:-1]
    assert index.split_size(layout, len(data) - 1) == (len(whole) - 1, layout.size - 1)


@pytest.mark.parametrize(("data", "layout", "decode", "iterate"), KINDS)
def test_drop_last_byte(data, layout, decode, iterate) -> None:
    for length in range(layout.size):
        with pytest.raises(TruncatedError) as caught:
            decode(data[:length])
        assert caught.value.position == 0
    with pytest.raises(TruncatedError):
        decode(data, len(data))
    with pytest.raises(TruncatedError):
        decode(data, -1)


@pytest.mark.parametrize(("data", "layout", "decode", "iterate"), KINDS)
def test_every_bytes_like_is_read(data, layout, decode, iterate) -> None:
    for buffer in (bytearray(data), memoryview(data)):
        assert list(iterate(buffer)) == list(iterate(data))
        assert decode(buffer) == decode(data)


@given(st.lists(st.tuples(INT32, INT32)))
def test_offset_round_trip(entries: list[tuple[int, int]]) -> None:
    data = b"".join(OFFSET_INDEX_ENTRY.struct.pack(*entry) for entry in entries)
    assert list(index.iter_offset_entries(data)) == entries


@given(st.lists(st.tuples(INT16, INT64, INT64, INT64, INT64)))
def test_txn_round_trip(entries: list[tuple[int, ...]]) -> None:
    data = b"".join(TXN_INDEX_ENTRY.struct.pack(*entry) for entry in entries)
    assert list(index.iter_txn_entries(data)) == entries


@given(st.integers(0, 50), st.integers(0, 50))
def test_used_entries_ends_with_the_last_that_is_not_zeros(used: int, zeros: int) -> None:
    data = OFFSET_INDEX_ENTRY.struct.pack(0, 1) * used + bytes(8 * zeros)
    assert index.used_entries(OFFSET_INDEX_ENTRY, data) == used
    data = OFFSET_INDEX_ENTRY.struct.pack(1 << 24, 0) * used + bytes(8 * zeros)  # one bit, at the start of the entry
    assert index.used_entries(OFFSET_INDEX_ENTRY, data) == used
