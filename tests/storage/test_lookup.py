"""Offsets and times are found where a full scan finds them, in every format, whatever the indexes hold."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.format import decode
from kafkalog_core.kafka.sim.fetch import Broker, broker_offset, broker_time
from kafkalog_core.storage.lookup import PartitionLookup, floor_index
from kafkalog_core.storage.lookup_trace import Trace
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import replace
from tests.support import strategies
from tests.support.brokers import Appended, write_segment
from tests.support.build import (
    Record,
    batch_v2,
    empty_batch,
    message_v0,
    message_v07,
    message_v1,
    offset_index,
    wrapper_v07,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.support.strategies import Built

BATCHES = {"v2": strategies.batches_v2, "v1": strategies.messages_v1, "v0": strategies.messages_v0}
BROKER = Broker(has_warm_section=True, recovers_from=99)
Found = tuple[int, int | None]


def appended(built: Built, kind: str) -> list[Appended]:
    """The entries of what a strategy has built, one by one: plain messages of the old formats stand alone."""
    times = [-1 if kind == "v0" else record.timestamp_ms for record in built.records]
    if kind == "v2" or built.codec:
        position = built.data
        last = int.from_bytes(position[:8], "big")
        if kind == "v2":
            last += int.from_bytes(position[23:27], "big")
        return [Appended(built.data, last, max(times))]
    entries, at = [], 0
    for record, time_ms in zip(built.records, times, strict=True):
        size = 12 + int.from_bytes(built.data[at + 8 : at + 12], "big")
        entries.append(Appended(built.data[at : at + size], record.offset, time_ms))
        at += size
    return entries


@st.composite
def partitions(draw: st.DrawFn) -> tuple[list[tuple[int, list[Appended]]], list[Found]]:
    """Segments of one format or of several, as (base offset, entries), and all records in them, with their times."""
    start = draw(st.integers(0, 2**40))
    segments: list[tuple[int, list[Appended]]] = []
    records: list[Found] = []
    for _ in range(draw(st.integers(1, 2))):
        base, entries = start, []
        for _ in range(draw(st.integers(1, 4))):
            kind = draw(st.sampled_from(sorted(BATCHES)))
            built = draw(BATCHES[kind](start))
            entries += appended(built, kind)
            has_times = built.timestamp_type is not None
            records += [(one.offset, one.timestamp_ms if has_times else None) for one in built.records]
            start = entries[-1].last_offset + draw(st.sampled_from([1, 1, 5]))
        segments.append((base, entries))
    return segments, records


def write(directory: Path, segments: Sequence[tuple[int, Sequence[Appended]]], interval_bytes: int) -> Path:
    for base, entries in segments:
        write_segment(directory, base, entries, interval_bytes=interval_bytes)
    return directory


def lookup_of(directory: Path, **given: object) -> PartitionLookup:
    partition = read_partition(str(directory))
    return PartitionLookup(partition.segments, is_v07=partition.format == "v07", **given)  # type: ignore[arg-type]


def found_offset(lookup: PartitionLookup, offset: int) -> int | None:
    located = lookup.find_offset(offset, Trace())
    return None if located is None or located.record is None else located.record.offset


def found_time(lookup: PartitionLookup, time_ms: int) -> Found | None:
    record = lookup.find_time(time_ms, Trace())
    return None if record is None else (record.offset, record.timestamp_ms)


def first(records: Sequence[Found], is_wanted: Callable[[Found], bool]) -> Found | None:
    return next((record for record in records if is_wanted(record)), None)


def grid(records: Sequence[Found]) -> list[int]:
    times = {time_ms for _, time_ms in records if time_ms is not None}
    return sorted({0, 2**50} | {time_ms + step for time_ms in times for step in (-1, 0, 1) if time_ms + step >= 0})


def assert_as_scanned(lookup: PartitionLookup, records: Sequence[Found], log_start_offset: int = 0) -> None:
    for offset in sorted({at + step for at, _ in records for step in (-1, 0, 1)}):
        wanted = first(records, lambda record, offset=offset: record[0] >= offset)  # type: ignore[misc]
        assert found_offset(lookup, offset) == (None if wanted is None else wanted[0]), offset
    for time_ms in grid(records):
        wanted = first(
            records,
            lambda record, time_ms=time_ms: (  # type: ignore[misc]
                record[1] is not None and record[1] >= time_ms and record[0] >= log_start_offset
            ),
        )
        assert found_time(lookup, time_ms) == wanted, time_ms


@given(built=partitions(), interval_bytes=st.sampled_from([0, 100, 4096]), warm=st.booleans())
@settings(max_examples=50)
def test_every_offset_and_time_is_found_where_a_scan_finds_it(tmp_path_factory, built, interval_bytes, warm):
    segments, records = built
    directory = write(tmp_path_factory.mktemp("log") / "t-0", segments, interval_bytes)
    with lookup_of(directory, has_warm_section=warm) as lookup:
        assert_as_scanned(lookup, records)
        assert lookup.log_end(Trace()) == (
            segments[-1][1][-1].last_offset + 1,
            sum(len(entry.data) for entry in segments[-1][1]),
        )


@given(built=partitions(), cut=st.integers(0, 40))
@settings(max_examples=25)
def test_records_below_the_log_start_are_not_found_by_time(tmp_path_factory, built, cut):
    segments, records = built
    directory = write(tmp_path_factory.mktemp("log") / "t-0", segments, 50)
    start = records[cut % len(records)][0]
    with lookup_of(directory, log_start_offset=start) as lookup:
        assert_as_scanned(lookup, records, start)


def spoil(path: Path, how: str, data: bytes) -> None:
    """Something that happens to index files."""
    before = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "zeros":
        path.write_bytes(bytes(len(before)))
    elif how == "zero tail":
        path.write_bytes(before + bytes(1200))
    elif how == "random":
        path.write_bytes((data * (len(before) + 30))[: len(before) + 24] if data else b"")
    elif how == "cut":
        path.write_bytes(before[: len(before) // 2])
    elif how == "byte":
        at = len(before) // 2
        path.write_bytes(before[:at] + bytes(255 - byte for byte in before[at : at + 1]) + before[at + 1 :])
    elif how == "beyond":
        path.write_bytes(before + (b"\x00\x00\xff\xff" * 6))
    elif how == "twice":
        path.write_bytes(before + before)


@given(
    built=partitions(),
    offset_how=st.sampled_from(["", "missing", "zeros", "zero tail", "random", "cut", "byte", "beyond", "twice"]),
    time_how=st.sampled_from(["", "missing", "zeros", "zero tail", "random", "cut", "byte", "beyond", "twice"]),
    data=st.binary(max_size=30),
    interval_bytes=st.sampled_from([0, 100]),
)
@settings(max_examples=80)
def test_the_answer_is_right_whatever_the_indexes_hold(
    tmp_path_factory, built, offset_how, time_how, data, interval_bytes
):
    segments, records = built
    directory = write(tmp_path_factory.mktemp("log") / "t-0", segments, interval_bytes)
    for index in directory.glob("*.index"):
        spoil(index, offset_how, data)
    for index in directory.glob("*.timeindex"):
        spoil(index, time_how, data)
    with lookup_of(directory) as lookup:
        assert_as_scanned(lookup, records)
        assert lookup.log_end(Trace())[0] == segments[-1][1][-1].last_offset + 1
        for offset, time_ms in records:  # a broker may be wrong, or fail; we say which
            assert broker_offset(lookup, offset, BROKER).outcome in {"found", "none", "fails"}
            assert broker_time(lookup, time_ms or 0, BROKER, Trace()).outcome in {"found", "none", "fails"}


# --- single cases -----------------------------------------------------------------------------------------------------
def batch(first: int, count: int, *, time_ms: int = 1000, size: int = 0, last: int | None = None) -> Appended:
    records = [Record(offset=first + n, timestamp_ms=time_ms + n, key=b"k", value=b"v" * size) for n in range(count)]
    last = first + count - 1 if last is None else last
    return Appended(batch_v2(records, last_offset=last), last, time_ms + count - 1)


def place(lookup: PartitionLookup, offset: int) -> tuple[int, int, int | None]:
    """Where a fetch starts, where the record's batch starts, and its offset."""
    located = lookup.find_offset(offset, Trace())
    assert located is not None
    record = located.record
    return located.batch.position, -1 if record is None else record.batch.position, record and record.offset


def test_a_segment_is_found_by_halves():
    assert floor_index([0, 100, 200, 300], 250) == (2, [200, 300])
    assert floor_index([10, 20], 9) == (None, [20, 10])
    assert floor_index([], 9) == (None, [])


def test_an_entry_that_names_the_last_offset_of_several_batches_appended_at_once(tmp_path):
    """As 2.x writes it: the offsets in between are served from an earlier entry."""
    directory = tmp_path / "t-0"
    batches = [batch(0, 5), batch(5, 5), batch(10, 5), batch(15, 5)]
    log = write_segment(directory, 0, batches)
    log.with_suffix(".index").write_bytes(offset_index([(14, len(batches[0].data))]))  # batches 1 and 2 in one append
    with lookup_of(directory) as lookup:
        for offset in range(20):
            trace = Trace()
            located = lookup.find_offset(offset, trace)
            assert located is not None
            assert located.record is not None
            assert located.record.offset == offset
            assert not trace.doubts


def test_a_fetch_starts_at_a_batch_that_compaction_has_emptied_at_its_end(tmp_path):
    whole = batch(0, 3, last=9)
    emptied = Appended(empty_batch(10, 19), 19, -1)
    after = batch(20, 2)
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [whole, emptied, after])
    at = len(whole.data)
    with lookup_of(directory) as lookup:
        assert place(lookup, 2) == (0, 0, 2)
        assert place(lookup, 5) == (0, at + 61, 20)
        assert place(lookup, 15) == (at, at + 61, 20)
        assert lookup.find_offset(22, Trace()) is None


def test_a_gap_at_the_end_of_a_segment_goes_on_with_the_next(tmp_path):
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [batch(0, 3)])
    write_segment(directory, 50, [])
    write_segment(directory, 100, [batch(100, 3)])
    with lookup_of(directory) as lookup:
        assert place(lookup, 3) == (0, 0, 100)
        assert lookup.log_end(Trace()) == (103, len(batch(100, 3).data))


def test_segments_that_overlap_hide_nothing(tmp_path):
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [batch(0, 10), batch(10, 10)])
    write_segment(directory, 5, [])
    write_segment(directory, 20, [batch(20, 5)])
    with lookup_of(directory) as lookup:
        trace = Trace()
        assert place(lookup, 12)[2] == 12
        assert lookup.find_offset(12, trace) is not None
        assert trace.has_overlap
        assert broker_offset(lookup, 12, BROKER).batch.base_offset == 20


@pytest.mark.parametrize("tail", [b"", b"\0" * 100, b"\0\0\0\0\0\0\0\x07\0\0\x10\0garbage that goes on", b"\1" * 9])
def test_the_end_of_the_log_is_behind_the_last_whole_batch(tmp_path, tail):
    directory = tmp_path / "t-0"
    log = write_segment(directory, 0, [batch(0, 3), batch(3, 4)])
    whole = log.read_bytes()
    log.write_bytes(whole + tail)
    with lookup_of(directory) as lookup:
        assert lookup.log_end(Trace()) == (7, len(whole))


def test_addresses_of_kafka_07(tmp_path):
    directory = tmp_path / "t-0"
    directory.mkdir()
    messages = [message_v07(b"one"), wrapper_v07([message_v07(b"two"), message_v07(b"three")]), message_v07(b"four")]
    ends = [sum(map(len, messages[: n + 1])) for n in range(3)]
    (directory / f"{0:020d}.kafka").write_bytes(messages[0])
    (directory / f"{ends[0]:020d}.kafka").write_bytes(messages[1] + messages[2])
    with lookup_of(directory) as lookup:
        for address in (0, ends[0], ends[1]):
            assert place(lookup, address)[2] == address
        assert place(lookup, ends[0] + 1) == (len(messages[1]), len(messages[1]), ends[1])  # in the wrapper
        assert lookup.log_end(Trace())[0] == ends[2]
        assert lookup.find_time(0, Trace()) is None


def test_the_batch_at_a_byte(tmp_path):
    directory = tmp_path / "t-0"
    batches = [batch(0, 2), batch(2, 2), batch(4, 2)]
    log = write_segment(directory, 0, batches)
    size = len(batches[0].data)
    with lookup_of(directory) as lookup:
        for position in range(3 * size):
            located = lookup.batch_at(0, position, Trace())
            assert located is not None
            assert located.batch.position == position // size * size
        assert lookup.batch_at(0, 3 * size, Trace()) is None
    log.write_bytes(log.read_bytes()[:size] + bytes(size) + batches[2].data)
    with lookup_of(directory) as lookup:
        assert lookup.batch_at(0, size + 5, Trace()) is None
        assert lookup.batch_at(0, 2 * size + 5, Trace()).batch.base_offset == 4


def fetch_of(lookup: PartitionLookup, offset: int, size_bytes: int, *, max_bytes: int = 2**20, new: bool = True):
    located = lookup.find_offset(offset, Trace())
    assert located is not None
    return lookup.fetch(located.batch, size_bytes, max_bytes=max_bytes, has_whole_first=new, trace=Trace())


def test_a_fetch_takes_the_first_batch_whole_and_cuts_the_last(tmp_path):
    directory = tmp_path / "t-0"
    batches = [batch(0, 2, size=100), batch(2, 2, size=10), batch(4, 2, size=10)]
    write_segment(directory, 0, batches)
    write_segment(directory, 6, [batch(6, 2)])
    sizes = [len(one.data) for one in batches]
    with lookup_of(directory) as lookup:
        cut = fetch_of(lookup, 1, 50)
        assert (cut.position, cut.size_bytes, cut.is_too_large) == (0, sizes[0], False)
        assert fetch_of(lookup, 1, sizes[0] + 20).size_bytes == sizes[0] + 20
        assert fetch_of(lookup, 3, 10_000).size_bytes == sizes[1] + sizes[2]  # one segment alone
        assert fetch_of(lookup, 7, 10_000).size_bytes == len(batch(6, 2).data)


def test_a_client_of_the_old_protocol_doubles(tmp_path):
    directory = tmp_path / "t-0"
    message = message_v0(Record(offset=0, key=b"k", value=b"v" * 1000))
    write_segment(directory, 0, [Appended(message, 0, -1), Appended(message_v0(Record(offset=1)), 1, -1)])
    with lookup_of(directory) as lookup:
        cut = fetch_of(lookup, 0, 100, new=False)
        assert cut.asked == (100, 200, 400, 800, 1600)
        assert cut.size_bytes == len(message) + 26
        assert not cut.is_too_large
        cut = fetch_of(lookup, 0, 100, new=False, max_bytes=1000)
        assert cut.asked == (100, 200, 400, 800)
        assert (cut.size_bytes, cut.is_too_large) == (800, True)


# --- what a broker answers --------------------------------------------------------------------------------------------
def test_a_broker_that_trusts_a_wrong_index(tmp_path):
    directory = tmp_path / "t-0"
    batches = [batch(n, 1, time_ms=1000 + n) for n in range(10)]
    log = write_segment(directory, 0, batches, interval_bytes=0)
    size = len(batches[0].data)
    log.with_suffix(".index").write_bytes(offset_index([(1, 5 * size)]))
    with lookup_of(directory) as lookup:
        trace = Trace()
        assert lookup.find_offset(3, trace).record.offset == 3
        assert "but that batch starts at offset 5" in trace.doubts[0].problem
        assert broker_offset(lookup, 3, BROKER).batch.base_offset == 5
    log.with_suffix(".index").write_bytes(offset_index([(1, 10**6)]))
    with lookup_of(directory) as lookup:
        assert lookup.find_offset(3, Trace()).record.offset == 3
        assert broker_offset(lookup, 3, BROKER).outcome == "none"
    log.with_suffix(".index").write_bytes(offset_index([(1, 19)]))  # zeros of a timestamp where a size is read
    with lookup_of(directory) as lookup:
        assert broker_offset(lookup, 3, BROKER).outcome == "fails"
        assert broker_offset(lookup, 3, replace(BROKER, recovers_from=0)).batch.base_offset == 3


def test_a_broker_steps_over_a_header_that_is_too_short(tmp_path):
    """It looks at the size alone, which leads on to the next batch."""
    directory = tmp_path / "t-0"
    log = write_segment(directory, 0, [batch(0, 1), batch(1, 1)])
    size = len(batch(0, 1).data)
    data = log.read_bytes()
    log.write_bytes(data[:size] + struct.pack(">qiib", 1, 30, 0, 2) + bytes(25) + data[size:])
    with lookup_of(directory) as lookup:
        assert broker_offset(lookup, 1, BROKER).batch.base_offset == 1


def test_a_broker_looks_for_a_time_in_one_segment_alone(tmp_path):
    """The first segment that claims to reach the time has it below the log start: it does not go on."""
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [batch(0, 1, time_ms=9000), batch(1, 1, time_ms=1000)])
    write_segment(directory, 2, [batch(2, 1, time_ms=9500)])
    with lookup_of(directory, log_start_offset=1) as lookup:
        assert found_time(lookup, 9000) == (2, 9500)
        answer = broker_time(lookup, 9000, BROKER, Trace())
        assert (answer.outcome, answer.record) == ("none", None)


def test_a_broker_goes_by_modification_times_where_there_are_no_time_entries(tmp_path):
    directory = tmp_path / "t-0"
    message = Appended(message_v0(Record(offset=0, value=b"no time")), 0, -1)
    log = write_segment(directory, 0, [message])
    os.utime(log, (5, 5))
    write_segment(directory, 1, [Appended(message_v1(Record(offset=1, timestamp_ms=7000)), 1, 7000)])
    with lookup_of(directory) as lookup:
        assert found_time(lookup, 4000) == (1, 7000)
        assert broker_time(lookup, 4000, BROKER, Trace()).outcome == "none"  # it believes the file of magic 0
        assert broker_time(lookup, 6000, BROKER, Trace()).record.offset == 1


def test_a_search_by_time_looks_at_each_batch_once(tmp_path, monkeypatch):
    """Batches without records are opened one after another; 200,000 of them once took ten minutes."""
    looked_at = []
    spans = decode._spans

    def counting(batches, wanted):
        looked_at.append(batches.count)
        return spans(batches, wanted)

    monkeypatch.setattr(decode, "_spans", counting)
    path = tmp_path / "t-0"
    path.mkdir()
    emptied = [empty_batch(at, at, max_timestamp_ms=1000) for at in range(300)]
    (path / f"{0:020}.log").write_bytes(b"".join(emptied))
    with lookup_of(path) as lookup:
        assert found_time(lookup, 1000) is None
    assert sum(looked_at) <= 300, "each batch alone"
