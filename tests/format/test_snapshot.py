"""Producer snapshots: one that Kafka 2.8.2 wrote, and everything that can be wrong with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.errors import ChecksumError, FieldError, FormatError, TruncatedError, UnsupportedError
from kafkalog_core.format import snapshot
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.layout import SNAPSHOT_ENTRY, SNAPSHOT_HEADER

# Written by Kafka 2.8.2: three transactional producers, each with a last batch of two records.
GOLDEN = bytes.fromhex(
    "0001 14a692f3 00000003"
    "0000000000000000 0000 00000001 0000000000000010 00000001 000001a1fbf7a320 00000000 ffffffffffffffff"
    "0000000000000001 0000 00000001 0000000000000013 00000001 000001a1fbf7a3ee 00000000 ffffffffffffffff"
    "0000000000000002 0000 00000001 0000000000000016 00000001 000001a1fbf7a493 00000000 ffffffffffffffff"
)
# What Kafka writes where there is no producer: the CRC-32C of a count of zero.
EMPTY = bytes.fromhex("0001 48674bc7 00000000")
INT16, INT32, INT64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (15, 31, 63))
ENTRIES = st.lists(st.tuples(INT64, INT16, INT32, INT64, INT32, INT64, INT32, INT64), max_size=20)


def build(entries: list[tuple[int, ...]], *, version: int = 1, count: int | None = None) -> bytes:
    body = (len(entries) if count is None else count).to_bytes(4, "big", signed=True)
    body += b"".join(SNAPSHOT_ENTRY.struct.pack(*entry) for entry in entries)
    return version.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


def test_golden() -> None:
    entries = tuple(snapshot.decode_snapshot(GOLDEN))
    assert [entry.producer_id for entry in entries] == [0, 1, 2]
    assert entries[1] == snapshot.ProducerEntry(
        producer_id=1,
        producer_epoch=0,
        last_sequence=1,
        last_offset=19,
        offset_delta=1,
        timestamp_ms=1795228673006,
        coordinator_epoch=0,
        current_txn_first_offset=-1,
    )
    assert (entries[1].first_offset, entries[1].first_sequence) == (18, 0)


@pytest.mark.parametrize("data", [GOLDEN, EMPTY])
def test_golden_is_written_again(data: bytes) -> None:
    assert snapshot.encode_snapshot(snapshot.decode_snapshot(data), order="java") == data


@given(ENTRIES, st.sampled_from(["java", "scala"]))
def test_what_is_written_is_read(entries: list[tuple[int, ...]], order: snapshot.SnapshotOrder) -> None:
    producers = tuple(snapshot.decode_snapshot(build(entries)))
    written = snapshot.decode_snapshot(snapshot.encode_snapshot(producers, order=order))
    assert sorted(written, key=repr) == sorted(producers, key=repr)


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 200), max_size=60))
def test_producers_that_are_there_twice(producer_ids: list[int]) -> None:
    data = build([(producer_id, 0, 0, 0, 0, 0, 0, -1) for producer_id in producer_ids])
    assert snapshot.repeated_producers(data) == {each for each in producer_ids if producer_ids.count(each) > 1}


def test_no_producer() -> None:
    assert tuple(snapshot.decode_snapshot(EMPTY)) == ()
    assert build([]) == EMPTY


def test_every_cut_is_a_truncation() -> None:
    for length in range(len(GOLDEN)):
        with pytest.raises(TruncatedError):
            snapshot.decode_snapshot(GOLDEN[:length])


def test_every_flipped_byte_is_noticed() -> None:
    expected = {0: UnsupportedError, 1: UnsupportedError} | dict.fromkeys(range(6, 9), (FieldError, TruncatedError))
    for position in range(len(GOLDEN)):
        flipped = bytearray(GOLDEN)
        flipped[position] ^= 0xFF
        with pytest.raises(expected.get(position, (ChecksumError, TruncatedError))):
            snapshot.decode_snapshot(flipped)


def test_bytes_behind_the_last_entry_are_refused() -> None:
    with pytest.raises(FieldError, match="2 bytes follow the last of 3 producers") as caught:
        snapshot.decode_snapshot(GOLDEN + b"\0\0")
    assert caught.value.position == len(GOLDEN)


def test_a_count_is_refused_before_anything_is_made_of_it() -> None:
    with pytest.raises(TruncatedError, match="2147483647 producers take 98784247772 bytes, the file has 10"):
        snapshot.decode_snapshot(build([], count=2**31 - 1))
    with pytest.raises(FieldError, match="of -1 entries"):
        snapshot.decode_snapshot(build([], count=-1))


def test_the_checksum_error_names_both() -> None:
    with pytest.raises(ChecksumError) as caught:
        snapshot.decode_snapshot(GOLDEN[:-1] + b"\0")
    assert caught.value.stored == 0x14A692F3
    assert "stored 0x14a692f3, computed 0x" in str(caught.value)


def test_only_version_1_exists() -> None:
    for version in (0, 2, 0x7FFF):
        with pytest.raises(UnsupportedError, match=f"version {version}; only 1 exists"):
            snapshot.decode_snapshot(build([], version=version))


def test_a_producer_of_whom_a_marker_alone_is_known() -> None:
    (entry,) = snapshot.decode_snapshot(build([(7, 2, -1, -1, 0, 1795227331710, 0, -1)]))
    assert not entry.has_batch
    assert entry.first_offset is None
    assert entry.first_sequence is None


def test_the_first_sequence_wraps() -> None:
    (entry,) = snapshot.decode_snapshot(build([(7, 0, 1, 100, 3, 0, -1, -1)]))
    assert entry.first_sequence == 2**31 - 2  # 2147483646, 2147483647, 0, 1


def test_entries_one_by_one() -> None:
    header, position = snapshot.decode_snapshot_header(GOLDEN)
    assert (header.entry_count, header.size_bytes, position) == (3, len(GOLDEN), SNAPSHOT_HEADER.size)
    found = []
    while position < len(GOLDEN):
        entry, position = snapshot.decode_producer_entry(GOLDEN, position)
        found.append(entry)
    assert tuple(found) == tuple(snapshot.decode_snapshot(GOLDEN))
    with pytest.raises(TruncatedError):
        snapshot.decode_producer_entry(GOLDEN, position)


@given(ENTRIES)
def test_round_trip(entries: list[tuple[int, ...]]) -> None:
    data = build(entries)
    decoded = tuple(snapshot.decode_snapshot(memoryview(data)))
    assert [tuple(getattr(entry, name) for name in entry.__struct_fields__) for entry in decoded] == entries
    assert list(snapshot.iter_producer_entries(data[SNAPSHOT_HEADER.size :])) == entries


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    for attempt in (data, b"\0\x01" + data, b"\0\x01" + crc32c(data).to_bytes(4, "big") + data):
        try:
            snapshot.decode_snapshot(attempt)
        except FormatError:
            continue
