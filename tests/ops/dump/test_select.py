"""Every filter, of batches and of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.errors import SelectionError
from kafkalog_core.filters.expression import Filters
from tests.support.build import (
    ABORT,
    COMMIT,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    Record,
    batch_v2,
    empty_batch,
    message_v0,
    message_v07,
    message_v1,
    txn_marker,
    wrapper_v0,
    wrapper_v07,
    wrapper_v1,
)
from tests.support.logs import Row, dump_rows, offsets_of, records, write_segments

if TYPE_CHECKING:
    from pathlib import Path

# offsets 0-2, 10-12, 20-21 (transactional, marker 22), 30 (LogAppendTime), 40-41 (delete horizon)
LOG = (
    batch_v2(records(0, 3)),
    batch_v2(records(10, 3), codec=GZIP, producer_id=5, producer_epoch=0),
    batch_v2(records(20, 2), codec=ZSTD, producer_id=7, producer_epoch=0, is_transactional=True),
    txn_marker(COMMIT, offset=22, producer_id=7, timestamp_ms=1022),
    batch_v2(records(30, 1), log_append_time_ms=5000),
    batch_v2(records(40, 2), delete_horizon_ms=9000),
)
STARTS = [sum(map(len, LOG[:index])) for index in range(len(LOG))]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_segments(tmp_path / "topic-0", {0: b"".join(LOG)})


def batches(log: Path, **filters: Any) -> list[int]:
    return offsets_of(dump_rows(log, filters=Filters(**filters)), "batch")


def found(log: Path, **filters: Any) -> list[int]:
    return offsets_of(dump_rows(log, filters=Filters(**filters), level="records"))


EVERYTHING = [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 40, 41]


def test_no_filter_takes_everything(log: Path) -> None:
    assert batches(log) == [0, 10, 20, 22, 30, 40]
    assert found(log) == EVERYTHING


# --- ranges ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("bounds", "its_batches", "its_records"),
    [
        ((11, None), [10, 20, 22, 30, 40], EVERYTHING[4:]),
        ((None, 11), [0, 10], EVERYTHING[:5]),
        ((2, 10), [0, 10], [2, 10]),
        ((12, 12), [10], [12]),
        ((13, 19), [], []),
        ((42, None), [], []),
        ((None, -1), [], []),
        ((0, 0), [0], [0]),
    ],
)
def test_offsets(log: Path, bounds: Any, its_batches: list[int], its_records: list[int]) -> None:
    assert batches(log, offsets=bounds) == its_batches
    assert found(log, offsets=bounds) == its_records


def test_positions(log: Path) -> None:
    assert batches(log, positions=(STARTS[1], STARTS[2])) == [10, 20]
    assert batches(log, positions=(STARTS[1] + 1, STARTS[2] - 1)) == []
    assert found(log, positions=(None, STARTS[0])) == [0, 1, 2]
    assert found(log, positions=(STARTS[5], None)) == [40, 41]


@pytest.mark.parametrize(
    ("bounds", "its_batches", "its_records"),
    [
        ((1011, 1020), [10, 20], [11, 12, 20]),
        ((None, 1001), [0], [0, 1]),
        ((1012, 1019), [10], [12]),  # its largest timestamp tells
        ((1003, 1009), [], []),
        ((1040, 1040), [40], [40]),
        ((5000, None), [30], [30]),
        ((5000, 5000), [30], [30]),
        ((None, 4999), [0, 10, 20, 22, 40], [0, 1, 2, 10, 11, 12, 20, 21, 22, 40, 41]),
        ((1030, 1030), [], []),  # the producer's time of a batch with LogAppendTime
        ((1041, 1041), [40], [41]),  # whose base timestamp is the delete horizon
        ((5001, None), [], []),
    ],
)
def test_times(log: Path, bounds: Any, its_batches: list[int], its_records: list[int]) -> None:
    assert batches(log, times_ms=bounds) == its_batches
    assert found(log, times_ms=bounds) == its_records


def test_records_without_a_time_are_in_no_range(tmp_path: Path) -> None:
    log = write_segments(
        tmp_path / "topic-0",
        {0: batch_v2([Record(offset=0, timestamp_ms=-1)]) + message_v0(Record(offset=1)) + empty_batch(2, 3)},
    )
    assert found(log, times_ms=(None, 2**60)) == []
    assert batches(log, times_ms=(0, None)) == []


def test_times_of_magic_1(tmp_path: Path) -> None:
    data = b"".join(message_v1(record) for record in records(0, 3))
    data += wrapper_v1(records(3, 3)) + wrapper_v1(records(6, 3), log_append_time_ms=5000)
    log = write_segments(tmp_path / "topic-0", {0: data})
    assert offsets_of(dump_rows(log, filters=Filters(times_ms=(1001, 1001)), level="records")) == [1]
    for low, high, last_offsets in ((1001, 1001, [1]), (1003, 1004, [5]), (1005, 1005, [5]), (0, 1003, [0, 1, 2, 5])):
        shown = [row["last_offset"] for row in dump_rows(log, filters=Filters(times_ms=(low, high)))]
        assert shown == last_offsets  # a wrapper's oldest is known to its content alone
    assert found(log, times_ms=(1004, 1004)) == [4]
    assert found(log, times_ms=(2000, None)) == [6, 7, 8]


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize(
    ("times", "bounds", "is_shown"),
    [
        ((1000, 500, 2000), (None, 600), True),  # what stands first in a batch need not be its oldest
        ((1000, 500, 2000), (None, 499), False),
        ((1000, 500, 2000), (501, 999), False),  # between its oldest and its newest, and none of its records
        ((1000, 1500, 2000), (1400, 1600), True),
        ((1000, 1500, 2000), (1001, 1499), False),
        ((1000, 1500, 2000), (None, 999), False),
        ((1000, -1, 2000), (None, 999), False),
    ],
)
def test_a_batch_is_shown_where_one_of_its_records_would_be(
    tmp_path: Path, times: tuple[int, ...], bounds: Any, is_shown: bool, codec: int
) -> None:
    batch = batch_v2([Record(offset=n, timestamp_ms=time) for n, time in enumerate(times)], codec=codec)
    log = write_segments(tmp_path / "topic-0", {0: batch})
    assert bool(found(log, times_ms=bounds)) is is_shown
    for newest_first in (False, True):
        rows = dump_rows(log, filters=Filters(times_ms=bounds), newest_first=newest_first)
        assert offsets_of(rows, "batch") == [0] * is_shown


def test_a_batch_that_cannot_be_opened_to_look_for_a_time_stays(tmp_path: Path) -> None:
    batch = batch_v2(
        records_count=3, last_offset=2, base_timestamp_ms=1000, max_timestamp_ms=3000, codec=GZIP, payload=b"no gzip"
    )
    log = write_segments(tmp_path / "topic-0", {0: batch})
    rows = dump_rows(log, filters=Filters(times_ms=(2000, 2100)))
    assert [row["type"] for row in rows] == ["damage", "batch"]
    assert [row["type"] for row in dump_rows(log, filters=Filters(times_ms=(1000, 2100)))] == ["batch"]


# --- what a batch says of itself --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("filters", "its_batches", "its_records"),
    [
        ({"producer_id": 5}, [10], [10, 11, 12]),
        ({"producer_id": 7}, [20, 22], [20, 21, 22]),
        ({"producer_id": -1}, [0, 30, 40], [0, 1, 2, 30, 40, 41]),
        ({"producer_id": 99}, [], []),
        ({"transactional": True}, [20, 22], [20, 21, 22]),
        ({"transactional": False}, [0, 10, 30, 40], [0, 1, 2, 10, 11, 12, 30, 40, 41]),
        ({"control": True}, [22], [22]),
        ({"control": False, "transactional": True}, [20], [20, 21]),
        ({"codec": "none"}, [0, 22, 30, 40], [0, 1, 2, 22, 30, 40, 41]),
        ({"codec": "gzip"}, [10], [10, 11, 12]),
        ({"codec": "zstd"}, [20], [20, 21]),
        ({"codec": "snappy"}, [], []),
    ],
)
def test_flags(log: Path, filters: dict[str, Any], its_batches: list[int], its_records: list[int]) -> None:
    assert batches(log, **filters) == its_batches
    assert found(log, **filters) == its_records


def test_formats_without_transactions(tmp_path: Path) -> None:
    """Bits 4 and 5 mean nothing in magic 0 and 1."""
    log = write_segments(tmp_path / "topic-0", {0: message_v1(Record(offset=0, value=b"x"), attributes=0x30)})
    assert batches(log, transactional=True) == batches(log, control=True) == []
    assert batches(log, transactional=False, control=False, producer_id=-1) == [0]


# --- what is inside ---------------------------------------------------------------------------------------------------
CONTENT = [
    Record(offset=0, key=b"alpha", value=b"red", headers=((b"a", b"1"), (b"b", None))),
    Record(offset=1, key=None, value=b"green", headers=((b"a", b"2"),)),
    Record(offset=2, key=b"", value=None),
    Record(offset=3, key=b"alphabet", value="grün".encode(), headers=((b"a", b"1"), (b"a", b"2"))),
    Record(offset=4, key=b"\xff\x00", value=b"\x00\xff", headers=((b"", b""),)),
]


@pytest.fixture(params=[NONE, GZIP, SNAPPY, LZ4, ZSTD], ids=["none", "gzip", "snappy", "lz4", "zstd"])
def content(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_segments(tmp_path / "topic-0", {0: batch_v2(CONTENT, codec=request.param)})


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"key": b"alpha"}, [0]),
        ({"key": b""}, [2]),
        ({"key": b"\xff\x00"}, [4]),
        ({"key": b"beta"}, []),
        ({"key_regex": "^alpha"}, [0, 3]),
        ({"key_regex": "^$"}, [2]),
        ({"key_regex": ""}, [0, 2, 3, 4]),  # a null is no text
        ({"value_regex": "gr"}, [1, 3]),
        ({"value_regex": "ü"}, [3]),
        ({"value_regex": r"^\x00"}, [4]),
        ({"key_regex": "alpha", "value_regex": "red"}, [0]),
        ({"headers": ((b"a", None),)}, [0, 1, 3]),
        ({"headers": ((b"a", b"1"),)}, [0, 3]),
        ({"headers": ((b"a", b"1"), (b"a", b"2"))}, [3]),
        ({"headers": ((b"b", None),)}, [0]),
        ({"headers": ((b"b", b""),)}, []),
        ({"headers": ((b"", b""),)}, [4]),
        ({"headers": ((b"a", b"1"),), "offsets": (1, None)}, [3]),
        ({"key": b"alpha", "times_ms": (1, None)}, []),
    ],
)
def test_content(content: Path, filters: dict[str, Any], expected: list[int]) -> None:
    assert found(content, **filters) == expected


def test_control_records_are_filtered_like_others(tmp_path: Path) -> None:
    log = write_segments(tmp_path / "topic-0", {0: txn_marker(ABORT, offset=0, producer_id=1)})
    assert found(log, key_regex=r"^\x00\x00\x00\x00$") == [0]
    assert found(log, key=b"x") == []


# --- wrappers ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("wrapper", [wrapper_v0, wrapper_v1])
def test_offsets_inside_of_wrappers(tmp_path: Path, wrapper: Any) -> None:
    log = write_segments(tmp_path / "topic-0", {0: wrapper(records(0, 5)) + wrapper(records(5, 5))})
    assert found(log, offsets=(3, 6)) == [3, 4, 5, 6]
    assert found(log, offsets=(7, 7)) == [7]
    assert len(dump_rows(log, filters=Filters(offsets=(None, 4)))) == 2  # the second may begin anywhere
    assert len(dump_rows(log, filters=Filters(offsets=(5, None)))) == 1


def test_addresses_of_07(tmp_path: Path) -> None:
    messages = [message_v07(b"one"), wrapper_v07([message_v07(b"two"), message_v07(b"three")]), message_v07(b"four")]
    second, third = 1000 + len(messages[0]), 1000 + len(messages[0]) + len(messages[1])
    log = write_segments(tmp_path / "topic-0", {1000: b"".join(messages)}, suffix="kafka")
    assert [row["value"] for row in rows_07(log, (second, second))] == [b"two", b"three"]
    assert [row["value"] for row in rows_07(log, (second + 1, None))] == [b"four"]
    assert [row["value"] for row in rows_07(log, (None, third))] == [b"one", b"two", b"three", b"four"]
    assert [row["value"] for row in rows_07(log, (None, third - 1))] == [b"one", b"two", b"three"]


def test_a_07_message_at_the_last_wanted_address_behind_a_window(tmp_path: Path) -> None:
    big = message_v07(b"x" * 1_100_000)
    log = write_segments(tmp_path / "topic-0", {0: big + message_v07(b"last")}, suffix="kafka")
    assert [row["value"] for row in rows_07(log, (1, len(big)))] == [b"last"]


def rows_07(log: Path, bounds: tuple[int | None, int | None]) -> list[Row]:
    return dump_rows(log, filters=Filters(offsets=bounds), level="records")


# --- what is no filter ------------------------------------------------------------------------------------------------
def test_what_cannot_be_looked_for() -> None:
    for filters in (Filters(key_regex="("), Filters(value_regex="*")):
        with pytest.raises(SelectionError, match="is not a regular expression"):
            filters.check()
    with pytest.raises(SelectionError, match="is not a codec of Kafka"):
        Filters(codec="brotli").check()


def test_segments_outside_of_the_range_are_not_even_opened(tmp_path: Path) -> None:
    log = write_segments(
        tmp_path / "topic-0",
        {0: b"garbage", 10: batch_v2(records(10, 5)), 20: batch_v2(records(20, 5)), 30: b"garbage"},
    )
    rows = dump_rows(log, filters=Filters(offsets=(12, 22)), level="records")
    assert "damage" not in {row["type"] for row in rows}
    assert offsets_of(rows) == [12, 13, 14, 20, 21, 22]
