"""Appends as brokers make them: the order of reasons to roll, the strictness of each, indexes, flushes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalog_core.errors import FieldError, LimitError
from kafkalog_core.kafka.rules.append import AppendSet, OpenSegment, roll_reason
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.rule_table import append_rules
from tests.support.appending import DAY_MS, Kept, appended, appender, limits, runs
from tests.support.brokers import Appended, indexes
from tests.support.build import (
    GZIP,
    Record,
    batch_v2,
    message_v0,
    message_v1,
    offset_index,
    time_index,
    wrapper_v0,
    wrapper_v1,
)

if TYPE_CHECKING:
    from pathlib import Path

OVERHEAD = 68  # of a batch of one record with a short value


def batch(offset: int, size_bytes: int = 1000, time_ms: int = 0, count: int = 1, **fields: Any) -> bytes:
    """A batch of this size, of the next possible one where there is none of it."""
    records = [Record(offset=offset + number, timestamp_ms=time_ms) for number in range(count - 1)]
    for length in range(size_bytes - OVERHEAD - 9 * count, size_bytes):
        last = Record(offset=offset + count - 1, timestamp_ms=time_ms, value=b"v" * max(0, length))
        data = batch_v2([*records, last], **fields)
        if len(data) >= size_bytes:
            return data
    raise AssertionError(size_bytes)


def log(count: int, **fields: Any) -> bytes:
    return b"".join(batch(offset, **fields) for offset in range(count))


# --- when a segment ends -------------------------------------------------------------------------------------------
def test_a_batch_that_fills_a_segment_to_the_last_byte_does_not_roll(tmp_path: Path) -> None:
    assert appended(tmp_path, log(7), segment_bytes=3000).bases == [0, 3, 6]
    assert appended(tmp_path, log(7), segment_bytes=2999).bases == [0, 2, 4, 6]
    assert appended(tmp_path, log(3), segment_bytes=3000).reasons == [None]


def test_0_8_0_looks_at_what_is_there_alone(tmp_path: Path) -> None:
    old = appended(tmp_path, log(7), segment_bytes=2500, release="0.8.0")
    assert [len(segment[1]) for segment in old.segments] == [3000, 3000, 1000]
    assert appended(tmp_path, log(7), segment_bytes=2500, release="0.8.2").bases == [0, 2, 4, 6]


@pytest.mark.parametrize(("late_ms", "bases"), [(1000, [0]), (1001, [0, 1])])
def test_a_batch_rolls_that_is_more_than_segment_ms_later_than_the_first(
    tmp_path: Path, late_ms: int, bases: list[int]
) -> None:
    data = batch(0, time_ms=50) + batch(1, time_ms=50 + late_ms)
    assert appended(tmp_path, data, segment_ms=1000).bases == bases


def test_the_age_counts_from_the_first_batch_and_earlier_times_never_roll(tmp_path: Path) -> None:
    times = (5000, 10, 5900, 6001, 20, 7001, 7002)
    data = b"".join(batch(offset, time_ms=time_ms) for offset, time_ms in enumerate(times))
    sink = appended(tmp_path, data, segment_ms=1000)
    assert sink.bases == [0, 3, 6]
    assert sink.reasons == ["time", "time", None]


def test_jitter_is_taken_off(tmp_path: Path) -> None:
    data = b"".join(batch(offset, time_ms=offset * 300) for offset in range(6))
    assert appended(tmp_path, data, segment_ms=1000).bases == [0, 4]
    assert appended(tmp_path, data, segment_ms=1000, jitter=lambda base: 500 if base == 0 else 0).bases == [0, 2]


def test_without_timestamps_nothing_is_known_of_age_but_by_the_clock(tmp_path: Path) -> None:
    data = b"".join(message_v0(Record(offset=offset, value=b"v")) for offset in range(3))
    assert appended(tmp_path, data, segment_ms=1, release="0.10.2").bases == [0]
    for release in ("0.8.2", "0.10.2"):
        sink = Kept()
        target = appender(sink, release=release, segment_ms=1000, now_ms=10_000)
        for run in runs(tmp_path / "log", data):
            target.append_batches(run, 0, 1, now_ms=11_000)
            target.append_batches(run, 1, 2, now_ms=11_001)
            target.append_batches(run, 2, 3, now_ms=11_002)
        target.close()
        assert sink.bases == [0, 1]
        assert sink.reasons == ["time", None]


def test_before_0_10_1_the_clock_counts_though_messages_have_times(tmp_path: Path) -> None:
    data = b"".join(message_v1(Record(offset=offset, timestamp_ms=offset * DAY_MS)) for offset in range(3))
    assert appended(tmp_path, data, segment_ms=1000, release="0.10.0").bases == [0]
    assert appended(tmp_path, data, segment_ms=1000, release="0.10.1").bases == [0, 1, 2]


def test_a_full_index_rolls_before_the_next_batch(tmp_path: Path) -> None:
    same_time = appended(tmp_path, log(9, time_ms=-1), index_interval_bytes=500, segment_index_bytes=24)
    assert same_time.reasons == ["offset-index", "offset-index", None]  # 3 entries; the first batch has none
    assert same_time.bases == [0, 4, 8]
    data = b"".join(batch(offset, time_ms=offset) for offset in range(9))
    sink = appended(tmp_path, data, index_interval_bytes=500, segment_index_bytes=36)
    assert sink.reasons == ["time-index", "time-index", None]  # 3 entries, one slot kept for the end
    assert sink.bases == [0, 3, 6]
    assert [len(segment[3]) for segment in sink.segments] == [36 - 12, 36 - 12, 36 - 12]


def test_an_offset_that_no_index_can_hold_rolls(tmp_path: Path) -> None:
    data = batch(0) + batch(2**31 - 1) + batch(2**31)
    sink = appended(tmp_path, data)
    assert sink.bases == [0, 2**31]
    assert sink.reasons == ["offset-range", None]
    assert appended(tmp_path, data, release="0.10.1").bases == [0]


@pytest.mark.parametrize(
    ("release", "base"), [("4.3", 2**32), ("2.8", 2**32), ("1.1", 2**32 - 2**31 + 1), ("0.11", 2**32 - 2**31 + 1)]
)
def test_the_next_segment_is_named_after_what_is_appended(tmp_path: Path, release: str, base: int) -> None:
    assert appended(tmp_path, batch(0) + batch(2**32), release=release).bases == [0, base]


def test_the_first_reason_of_several_is_told() -> None:
    sink = Kept()
    target = appender(sink, segment_index_bytes=8)
    segment = OpenSegment(base_offset=0, indexes=target._segment.indexes, size_bytes=900, first_timestamp_ms=0)
    late = AppendSet(size_bytes=200, max_timestamp_ms=8 * DAY_MS, first_offset=2**31, last_offset=2**31)
    rules = append_rules(parse_release("4.3"))

    def reason(**given: int) -> str | None:
        return roll_reason(segment, late, limits(**given), rules)

    assert segment.indexes.is_full
    assert reason(segment_bytes=1000) == "bytes"
    assert reason() == "time"
    assert reason(segment_ms=9 * DAY_MS) == "time-index"


def test_an_empty_segment_takes_a_batch_of_any_size_and_none_follows_it(tmp_path: Path) -> None:
    data = batch(0, 500) + batch(1, 5000) + batch(2, 500) + batch(3, 500)
    sink = appended(tmp_path, data, segment_bytes=1000)
    assert [(base, len(content)) for base, content, _, _ in sink.segments] == [(0, 500), (1, 5000), (2, 1000)]


# --- what is in the files ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("release", "offsets"),
    [("4.3", [(5, 5000), (10, 10000)]), ("3.9", [(5, 5000), (10, 10000)]), ("2.8", [(13, 12000)])],
)
def test_one_call_of_several_batches(tmp_path: Path, release: str, offsets: list[tuple[int, int]]) -> None:
    """Run on real 3.9.1 and 2.8.2 logs: an append of 12 batches, then one of 2."""
    sink = Kept()
    target = appender(sink, release=release)
    for run in runs(tmp_path / "log", log(14)):
        target.append_set(run, 0, 12)
        target.append_set(run, 12, 14)
    target.close()
    assert sink.segments[0][2] == offset_index(offsets)


def test_a_call_is_one_append_to_the_rules_of_rolling(tmp_path: Path) -> None:
    sink = Kept()
    target = appender(sink, segment_bytes=5000)
    for run in runs(tmp_path / "log", log(7)):
        target.append_set(run, 0, 3)
        target.append_set(run, 3, 6)
        target.append_set(run, 6, 6)
        with pytest.raises(LimitError, match=r"7000 bytes at once, more than segment\.bytes=5000"):
            target.append_set(run)
        target.append_set(run, 6)
    target.close()
    assert sink.bases == [0, 3]


@pytest.mark.parametrize(("release", "named"), [("1.1", 5), ("2.8", 6)])
def test_indexes_name_the_first_offset_and_then_the_last(tmp_path: Path, release: str, named: int) -> None:
    data = b"".join(batch(offset, count=2) for offset in range(0, 12, 2))
    assert appended(tmp_path, data, release=release, index_interval_bytes=2500).segments[0][2][:8] == offset_index(
        [(named + (release == "1.1"), 3000) if release == "1.1" else (7, 3000)]
    )


@pytest.mark.parametrize(("release", "wrapper"), [("0.9", wrapper_v0), ("0.10.0", wrapper_v1), ("0.10.2", wrapper_v1)])
def test_a_compressed_message_is_named_by_the_first_one_inside(tmp_path: Path, release: str, wrapper: Any) -> None:
    messages = [
        wrapper([Record(offset=first + number, value=b"v" * 50) for number in range(3)], codec=GZIP)
        for first in (0, 3, 6)
    ]
    sink = appended(tmp_path, b"".join(messages), release=release, index_interval_bytes=len(messages[0]))
    assert sink.segments[0][2] == offset_index([(6, len(messages[0]) + len(messages[1]))])


def test_a_compressed_message_that_does_not_open(tmp_path: Path) -> None:
    broken = message_v0(Record(offset=1, value=b"no gzip"), attributes=GZIP)
    with pytest.raises(FieldError):
        appended(tmp_path, broken + broken, release="0.9", index_interval_bytes=0)


@pytest.mark.parametrize(("release", "offset"), [("2.8", 4), ("0.11", 4), ("3.9", 5), ("4.3", 5)])
def test_the_time_index_names_the_very_record_before_3_9(tmp_path: Path, release: str, offset: int) -> None:
    first = batch_v2([Record(offset=number, timestamp_ms=1000 + number) for number in range(3)])
    times = {3: 2000, 4: 9000, 5: 3000}
    second = batch_v2([Record(offset=number, timestamp_ms=time_ms) for number, time_ms in times.items()])
    sink = appended(tmp_path, first + second, release=release, index_interval_bytes=0)
    assert sink.segments[0][3] == time_index([(9000, offset)])
    appended_times = batch_v2([Record(offset=3), Record(offset=4)], log_append_time_ms=9000)
    sink = appended(tmp_path, first + appended_times, release=release, index_interval_bytes=0)
    assert sink.segments[0][3] == time_index([(9000, 4)])


def test_the_name_of_the_record_outlives_the_run_that_had_it(tmp_path: Path) -> None:
    records = [Record(offset=0, timestamp_ms=500), Record(offset=1, timestamp_ms=10)]
    data = batch_v2(records) + batch(2) + batch(3)
    sink = Kept()
    target = appender(sink, release="2.8", index_interval_bytes=0)
    for run in runs(tmp_path / "log", data):
        target.append_batches(run, 0, 1)
        target.append_batches(run, 1, 3)
    target.close()
    assert sink.segments[0][3] == time_index([(500, 0)])


def test_a_run_is_left_as_it_was(tmp_path: Path) -> None:
    for run in runs(tmp_path / "log", log(9)):
        before = run.batches.column("position").tolist()
        appender(Kept(), segment_bytes=2000).append_batches(run)
        assert run.batches.column("position").tolist() == before


# --- what is fsynced -----------------------------------------------------------------------------------
def test_flushes_by_messages_by_time_and_at_a_roll(tmp_path: Path) -> None:
    sink = Kept()
    target = appender(sink, segment_bytes=4000, flush_messages=3, flush_ms=1000, now_ms=0)
    for run in runs(tmp_path / "log", log(8)):
        for row, flushed in enumerate(([], [], [3], [3], [3, 4], [3, 4])):
            target.append_batches(run, row, row + 1)
            assert sink.flushed == flushed, row
        target.tick(999)
        assert sink.flushed == [3, 4]
        target.tick(1000)
        assert sink.flushed == [3, 4, 6]
        target.append_batches(run, 6, 8)
        target.tick(1999)
        target.tick(2000)
        target.flush()
    assert sink.flushed == [3, 4, 6, 8]
    assert target.recovery_point == 8


# --- in bulk and one by one ----------------------------------------------------------------------------------------
BATCHES = st.lists(
    st.tuples(st.integers(80, 700), st.integers(-1, 4000), st.sampled_from([1, 1, 1, 2, 2**30])),
    min_size=1,
    max_size=60,
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    batches=BATCHES,
    release=st.sampled_from(["0.8.0", "0.8.2", "0.10.0", "0.10.2", "0.11", "2.8", "3.9", "4.3"]),
    segment_bytes=st.sampled_from([300, 1000, 2500, 2**30]),
    segment_ms=st.sampled_from([1, 500, 2000, DAY_MS]),
    index_bytes=st.sampled_from([8, 24, 36, 2**20]),
    interval=st.sampled_from([0, 100, 1000]),
)
def test_in_bulk_it_is_as_one_by_one(
    tmp_path: Path,
    batches: list[tuple[int, int, int]],
    release: str,
    segment_bytes: int,
    segment_ms: int,
    index_bytes: int,
    interval: int,
) -> None:
    """`roll_reason` for each batch by itself, as a broker asks, against what passes over many at once."""
    pieces, offset = [], 0
    for size_bytes, time_ms, step in batches:
        pieces.append(batch(offset, size_bytes, time_ms, base_timestamp_ms=time_ms, max_timestamp_ms=time_ms))
        offset += step
    figures = {
        "segment_bytes": segment_bytes,
        "segment_ms": segment_ms,
        "segment_index_bytes": index_bytes,
        "index_interval_bytes": interval,
    }
    bulk = appended(tmp_path, b"".join(pieces), release=release, **figures)
    single = Kept()
    target = appender(single, release=release, **figures)
    for run in runs(tmp_path / "log", b"".join(pieces)):
        for row in range(run.batches.count):
            alone = target._set(run.batches, row, row + 1)
            reason = roll_reason(target._segment, alone, target._limits, target._rules)
            if reason is not None and target._segment.size_bytes:
                target._roll(reason, alone, None)
            target._write(run, run.batches.column("position").tolist(), row, row + 1)
    target.close()
    assert (bulk.segments, bulk.reasons) == (single.segments, single.reasons)
    assert b"".join(segment[1] for segment in bulk.segments) == b"".join(pieces)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(batches=BATCHES.map(lambda each: [(size, time, 1) for size, time, _ in each]), interval=st.integers(0, 1500))
def test_indexes_are_those_of_the_rules_written_down_by_themselves(
    tmp_path: Path, batches: list[tuple[int, int, int]], interval: int
) -> None:
    known = [
        Appended(batch(offset, size, time_ms, base_timestamp_ms=time_ms, max_timestamp_ms=time_ms), offset, time_ms)
        for offset, (size, time_ms, _) in enumerate(batches)
    ]
    sink = appended(tmp_path, b"".join(each.data for each in known), index_interval_bytes=interval)
    assert sink.segments[0][2:] == indexes(known, 0, interval)
