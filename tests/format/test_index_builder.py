"""Indexes made of columns: entries of single batches and of whole calls, and where they end with an error."""

from __future__ import annotations

import pytest

from kafkalog_core.errors import FieldError, LimitError
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.index import IndexBuilder, first_offset_inside, name_records, offset_of_time
from kafkalog_core.kernels import constants as k
from tests.support.build import GZIP, Record, batch_v2, message_v1, offset_index, time_index, wrapper_v0, wrapper_v1
from tests.support.twins import walked

NEW = k.REBUILD_LAST + k.REBUILD_TIMES + k.REBUILD_RANGE
OLD = k.REBUILD_TIMES
NO_TIMES = 0


def builder(bits: int = NEW, *, base_offset: int = 0, interval: int = 4096, room: int = 2**20) -> IndexBuilder:
    return IndexBuilder(base_offset, bits=bits, interval_bytes=interval, max_index_bytes=room)


def columns(count: int, *, size: int = 1000, base_offset: int = 0, times: list[int] | None = None) -> BatchColumns:
    """Batches of two records each."""
    batches = BatchColumns(count)
    batches.count = count
    for row in range(count):
        first = base_offset + 2 * row
        values = {
            "position": row * size,
            "size_bytes": size,
            "format": 2,
            "base_offset": first,
            "last_offset": first + 1,
            "record_count": 2,
            "leader_epoch": -1,
            "max_timestamp_ms": times[row] if times else row,
        }
        for name, value in values.items():
            batches.column(name)[row] = value
    return batches


def test_an_entry_where_more_than_the_interval_lies_behind_the_last_one() -> None:
    for interval, positions in ((4096, [5000, 10000]), (4999, [5000, 10000]), (5000, [6000])):
        indexes = builder(interval=interval)
        indexes.add_batches(columns(12))
        indexes.close()
        assert indexes.offset_index == offset_index([(position // 500 + 1, position) for position in positions])
        times = [position // 1000 for position in positions]
        assert indexes.time_index == time_index([*((time, 2 * time + 1) for time in times), (11, 23)])


def test_in_parts_it_is_the_same() -> None:
    whole, parts = builder(), builder()
    batches = columns(5000)
    whole.add_batches(batches)
    for first in range(0, 5000, 7):
        parts.add_batches(batches, first, min(first + 7, 5000))
    assert whole.offset_index == parts.offset_index
    assert whole.time_index == parts.time_index
    assert whole.entries == parts.entries == (len(whole.offset_index) // 8, len(whole.time_index) // 12)


def test_an_offset_is_told_from_the_base() -> None:
    indexes = builder(base_offset=1000, interval=0)
    indexes.add_batches(columns(2, base_offset=1010))
    assert indexes.offset_index == offset_index([(13, 1000)])


def test_the_last_time_is_written_once_and_only_when_it_is_later() -> None:
    indexes = builder(interval=0)
    indexes.add_batches(columns(3, times=[5, 3, 9]))
    indexes.close()
    indexes.close()
    assert indexes.time_index == time_index([(5, 1), (9, 5)])
    assert indexes.max_timestamp_ms == 9
    nothing = builder(interval=0)
    nothing.add_batches(columns(3, times=[-1, -1, -1]))
    nothing.close()
    assert nothing.time_index == b""


def test_without_a_time_index_there_is_none() -> None:
    indexes = builder(NO_TIMES, interval=0)
    indexes.add_batches(columns(3))
    indexes.close()
    assert indexes.time_index == b""
    assert indexes.offset_index == offset_index([(2, 1000), (4, 2000)])
    indexes.add_set(position=5000, first_offset=6, last_offset=9, max_timestamp_ms=1, offset_of_max=9)
    assert indexes.offset_index == offset_index([(2, 1000), (4, 2000), (6, 5000)])


def test_a_call_of_several_batches_gets_one_entry() -> None:
    for bits, named in ((NEW, 199), (OLD, 100)):
        indexes = builder(bits)
        for position, first, time in ((0, 0, 7), (4096, 50, 9), (5000, 100, 8), (9096, 200, 1), (9097, 300, 1)):
            last = first + 49 if first < 100 else first + 99
            indexes.add_set(
                position=position, first_offset=first, last_offset=last, max_timestamp_ms=time, offset_of_max=last - 1
            )
        indexes.close()
        later = 399 if bits == NEW else 300
        assert indexes.offset_index == offset_index([(named, 5000), (later, 9097)])
        assert indexes.time_index == time_index([(9, 98)])


def test_room_and_the_slot_that_is_kept() -> None:
    indexes = builder(interval=0, room=36)
    assert (indexes.room, indexes.is_full, indexes.is_offset_index_full) == (2, False, False)
    indexes.add_batches(columns(3))
    assert (indexes.room, indexes.is_full, indexes.is_offset_index_full) == (0, True, False)
    indexes.close()
    assert indexes.entries == (2, 2)
    with pytest.raises(LimitError, match="has room for no more entries"):
        indexes.add_batches(columns(4), 3)
    with pytest.raises(LimitError, match="has room for no more entries"):
        indexes.add_set(position=9000, first_offset=8, last_offset=9, max_timestamp_ms=1, offset_of_max=9)
    assert builder(NO_TIMES, room=8).room == 1


def test_what_no_index_can_hold() -> None:
    for base_offset in (2**31, 2**63 - 20):
        with pytest.raises(
            FieldError, match=f"no index of a segment that starts at 0 can hold offset {base_offset + 1}"
        ):
            builder().add_batches(columns(1, base_offset=base_offset))
    with pytest.raises(FieldError, match="starts at 5 can hold offset 4"):
        builder(base_offset=5).add_set(position=0, first_offset=3, last_offset=4, max_timestamp_ms=1, offset_of_max=4)
    low_bits = builder(OLD, interval=0)
    low_bits.add_set(position=10, first_offset=2**32 + 7, last_offset=2**32 + 7, max_timestamp_ms=3, offset_of_max=5)
    assert low_bits.offset_index == offset_index([(7, 10)])


def test_offsets_that_do_not_ascend() -> None:
    indexes = builder(interval=0)
    indexes.add_batches(columns(3))
    with pytest.raises(FieldError, match="offset 3 is not above the offset of the previous index entry"):
        indexes.add_batches(columns(5, base_offset=-6), 4)
    with pytest.raises(FieldError, match="offset 5 is not above the offset of the previous index entry"):
        indexes.add_set(position=9000, first_offset=5, last_offset=5, max_timestamp_ms=1, offset_of_max=5)
    message = "offset 1 of the largest timestamp is below the offset of the previous time index entry"
    with pytest.raises(FieldError, match=message):
        indexes.add_set(position=9000, first_offset=9, last_offset=9, max_timestamp_ms=99, offset_of_max=1)


def test_times_get_the_names_of_records() -> None:
    indexes = builder(interval=0)
    indexes.add_batches(columns(3))
    indexes.rename_times(12, lambda offset: offset - 1)
    indexes.add_batches(columns(5, times=[9] * 5), 4)
    indexes.close()
    assert indexes.time_index == time_index([(1, 3), (2, 4), (9, 9)])


# --- offsets within a batch -------------------------------------------------------------------------------------------
FOUR = [Record(offset=10 + at, timestamp_ms=time_ms, value=b"v") for at, time_ms in enumerate((5, 9, 9, 3))]


@pytest.mark.parametrize(
    ("log", "offset"),
    [
        (batch_v2(FOUR), 11),
        (batch_v2(FOUR[2:]), 12),
        (batch_v2(FOUR, last_offset=20), 11),
        (batch_v2(FOUR, max_timestamp_ms=10), 13),
        (batch_v2(FOUR, log_append_time_ms=9), 13),
        (batch_v2(FOUR, codec=GZIP), 13),
        (wrapper_v1(FOUR, offset=13), 13),
        (message_v1(FOUR[1]), 11),
    ],
    ids=["first of two", "first", "compacted", "no such time", "append time", "compressed", "wrapper", "message"],
)
def test_the_offset_of_the_largest_timestamp(log: bytes, offset: int) -> None:
    assert offset_of_time(memoryview(log), walked(log), 0) == offset


def test_the_second_batch_is_asked_for_itself() -> None:
    log = batch_v2(FOUR) + batch_v2([Record(offset=20, timestamp_ms=7), Record(offset=21, timestamp_ms=1)])
    assert offset_of_time(memoryview(log), walked(log), 1) == 20


def test_records_that_cannot_be_read_have_no_offset_of_a_time() -> None:
    log = batch_v2(payload=b"\x7f", records_count=3, last_offset=12, max_timestamp_ms=5)
    with pytest.raises(FieldError):
        offset_of_time(memoryview(log), walked(log), 0)


@pytest.mark.parametrize(
    ("log", "offset"),
    [
        (batch_v2(FOUR, base_offset=8), 8),
        (message_v1(Record(offset=0, value=b"v")), 0),
        (wrapper_v1(FOUR, offset=13), 10),
        (wrapper_v0(FOUR[1:]), 11),
    ],
    ids=["batch", "message", "wrapper of magic 1", "wrapper of magic 0"],
)
def test_the_first_offset_of_a_batch(log: bytes, offset: int) -> None:
    assert first_offset_inside(memoryview(log), walked(log), 0) == offset


def test_a_wrapper_that_does_not_open_has_no_first_offset() -> None:
    log = message_v1(Record(offset=13, value=b"no gzip"), attributes=GZIP)
    with pytest.raises(FieldError):
        first_offset_inside(memoryview(log), walked(log), 0)


def test_time_entries_get_the_offsets_of_their_records() -> None:
    """As brokers before 3.9 write them that give offsets themselves; those of compressed batches are as they were."""
    log = batch_v2([Record(offset=0)]) + batch_v2(FOUR)
    log += batch_v2([Record(offset=20, timestamp_ms=30), Record(offset=21, timestamp_ms=1)])
    log += batch_v2([Record(offset=30, timestamp_ms=40), Record(offset=31, timestamp_ms=1)], codec=GZIP)
    indexes = builder(interval=0)
    batches = walked(log)
    for row in range(batches.count):
        indexes.add_batches(batches, row, row + 1)
    indexes.close()
    assert indexes.time_index == time_index([(9, 13), (30, 21), (40, 31)])
    name_records(indexes, memoryview(log), batches, 0, batches.count, times_before=0)
    assert indexes.time_index == time_index([(9, 11), (30, 20), (40, 31)])
