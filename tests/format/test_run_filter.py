"""The cleaner's map and filter: Kafka's own results, and a slow judge next to them, on both twins of the kernels."""

from __future__ import annotations

import random
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.format import compression, decode, run_filter, skimpy_offset_map
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.run_filter import (
    BIT_DISCARD,
    BIT_RETAIN_EMPTY,
    OUTCOME_EMPTIED,
    OUTCOME_REBUILT,
    OUTCOME_REMOVED,
    OUTCOME_VERBATIM,
    REASONS,
    FilterRules,
    RunFilter,
)
from kafkalog_core.format.skimpy_offset_map import ENTRY_BYTES, OffsetMap
from kafkalog_core.structs import replace
from tests.support.build import (
    ABORT,
    COMMIT,
    GZIP,
    LZ4,
    Record,
    batch_v2,
    empty_batch,
    message_v1,
    txn_marker,
    wrapper_v1,
)
from tests.support.twins import TWINS, Row, rows_of, twin, walked

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = 5_000_000
RETENTION = 100_000


@pytest.fixture(params=TWINS)
def each_twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The modules under test run on one twin of the kernels after another."""
    for module in (compression, run_filter, decode, skimpy_offset_map):
        monkeypatch.setattr(module, "kernels", twin(request.param))
    return str(request.param)


def a_map(slots: int = 1000, load_factor: float = 0.9) -> OffsetMap:
    return OffsetMap(slots * ENTRY_BYTES, load_factor)


def mapped(log: bytes, *, start: int = 0, slots: int = 1000, **options: object) -> OffsetMap:
    offsets = a_map(slots)
    run = walked(log, capacity=max(64, len(log) // 20))
    result = offsets.map_run(memoryview(log), run, start=start, **options)  # type: ignore[arg-type]
    assert result.damage is None
    return offsets


def filtered(
    log: bytes,
    offsets: OffsetMap,
    bits: Sequence[int] | None = None,
    rules: FilterRules | None = None,
    *,
    now_ms: int = NOW,
    retains_legacy: bool = True,
) -> tuple[bytes, run_filter.Filtered, run_filter.Tally]:
    runs = RunFilter(offsets, rules, now_ms=now_ms, delete_retention_ms=RETENTION)
    run = walked(log, capacity=max(64, len(log) // 20))
    result = runs.filter(memoryview(log), run, None if bits is None else bytes(bits), retains_legacy=retains_legacy)
    return bytes(result.data), result, runs.tally


def entries(log: bytes) -> list[bytes]:
    """The batches one by one."""
    columns = walked(log, capacity=max(64, len(log) // 20))
    positions, sizes = columns.column("position"), columns.column("size_bytes")
    return [log[at : at + size] for at, size in zip(positions, sizes, strict=True)]


# --- the worked trace: run on the real cleaner of 4.3.1, leader epoch 3 -----------------------------------------------
def a_record(offset: int, key: str | None, value: str | None) -> Record:
    return Record(
        offset=offset,
        timestamp_ms=1000 + offset,
        key=None if key is None else key.encode(),
        value=None if value is None else value.encode(),
    )


TRACE = (
    batch_v2(
        [a_record(0, "a", "1"), a_record(1, "b", "1"), a_record(2, None, "n")],
        leader_epoch=3,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
    ),
    wrapper_v1([a_record(3, "c", "1"), a_record(4, "d", "1"), a_record(5, "c", "2")], codec=GZIP),
    batch_v2(
        [a_record(6, "x", "1"), a_record(7, "a", "9")],
        leader_epoch=3,
        producer_id=9,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    ),
    txn_marker(ABORT, offset=8, timestamp_ms=1008, producer_id=9, leader_epoch=3),
    batch_v2(
        [a_record(9, "y", "1")],
        leader_epoch=3,
        producer_id=11,
        producer_epoch=4,
        base_sequence=0,
        is_transactional=True,
    ),
    txn_marker(COMMIT, offset=10, timestamp_ms=1010, producer_id=11, producer_epoch=5, leader_epoch=3),
    batch_v2([a_record(11, "b", None), a_record(12, "e", "1")], leader_epoch=3),
    batch_v2([a_record(13, "y", "2"), a_record(14, "z", "1")], leader_epoch=3),
    batch_v2([a_record(15, "a", "3")], leader_epoch=3, producer_id=8, producer_epoch=0, base_sequence=0),
    batch_v2([a_record(16, "z", "3")], leader_epoch=3),
)


def test_first_pass_of_the_worked_trace(each_twin: str) -> None:
    log = b"".join(TRACE)
    skips = bytes([0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
    offsets = mapped(log, skips=skips)
    assert (offsets.latest_offset, offsets.size) == (16, 7)
    assert {key: offsets.get(key.encode()) for key in "abcdexyz"} == dict(
        zip("abcdexyz", (15, 11, 5, 4, 12, -1, 13, 16), strict=True)
    )
    bits = [BIT_RETAIN_EMPTY, 0, BIT_DISCARD | BIT_RETAIN_EMPTY, 0, 0, 0, 0, 0, BIT_RETAIN_EMPTY, 0]
    data, result, tally = filtered(log, offsets, bits)
    out = entries(data)
    assert [len(entry) for entry in out[:1] + out[2:3]] == [61, 61]
    assert out[0] == empty_batch(
        0, 2, leader_epoch=3, producer_id=7, producer_epoch=0, base_sequence=0, max_timestamp_ms=1002
    )
    assert out[2] == empty_batch(
        6,
        7,
        leader_epoch=3,
        producer_id=9,
        producer_epoch=0,
        base_sequence=0,
        max_timestamp_ms=1007,
        is_transactional=True,
    )
    converted = walked(out[1])
    assert converted.row(0)["leader_epoch"] == -1
    assert (converted.row(0)["base_offset"], converted.row(0)["last_offset"]) == (4, 5)
    assert out[3] == TRACE[3]
    assert out[4] == TRACE[5]
    assert out[5] == batch_v2(
        [a_record(11, "b", None), a_record(12, "e", "1")], leader_epoch=3, delete_horizon_ms=5_100_000
    )
    assert (len(TRACE[6]), len(out[5])) == (78, 84)
    assert out[6] == batch_v2([a_record(13, "y", "2")], leader_epoch=3, last_offset=14)
    assert out[7:] == list(TRACE[8:])
    assert list(result.outcomes) == [
        OUTCOME_EMPTIED,
        OUTCOME_REBUILT,
        OUTCOME_EMPTIED,
        OUTCOME_VERBATIM,
        OUTCOME_REMOVED,
        OUTCOME_VERBATIM,
        OUTCOME_REBUILT,
        OUTCOME_REBUILT,
        OUTCOME_VERBATIM,
        OUTCOME_VERBATIM,
    ]
    assert dict(zip(REASONS, tally.records, strict=True)) == {
        "latest": 6,
        "past-map": 0,
        "control": 2,
        "tombstone": 1,
        "superseded": 5,
        "tombstone-expired": 0,
        "null-key": 1,
        "aborted": 2,
        "marker-expired": 0,
    }


# --- what cannot be done ----------------------------------------------------------------------------------------------
def stopped(log: bytes, bits: Sequence[int] | None = None, newest: int = -1) -> tuple[str, int, bytes]:
    """Why the filter stops, at which row, and what it has written until then."""
    offsets = a_map()
    if newest >= 0:
        offsets.put(b"old", newest)
        offsets.latest_offset = newest
    else:
        offsets.latest_offset = 10_000
    columns = BatchColumns(16)
    twin("interpreted").walk(log, 0, len(log), 0, -(2**63), 2**40, False, columns)
    runs = RunFilter(offsets, now_ms=NOW, delete_retention_ms=RETENTION)
    result = runs.filter(memoryview(log), columns, None if bits is None else bytes(bits), retains_legacy=True)
    assert result.damage is not None
    assert result.rows == result.damage.batch == len(result.sizes)
    return result.damage.reason, result.rows, bytes(result.data)


GOOD, LATER = (batch_v2([Record(offset=offset, key=b"k", value=b"v")]) for offset in (0, 100))


def test_a_batch_that_cannot_be_read_stops_the_filter(each_twin: str) -> None:
    cases = {
        "record-varint": batch_v2([Record(offset=1)], payload=b"\x02\x00", records_count=1),
        "payload": batch_v2([Record(offset=1)], codec=GZIP, payload=b"no stream at all", records_count=1),
        "record-count": batch_v2([Record(offset=1, key=b"k")], records_count=-1),
    }
    for reason, bad in cases.items():
        assert stopped(GOOD + bad + LATER) == (reason, 1, GOOD)
        bits = [0, BIT_DISCARD, 0]  # what is removed is not even opened
        data, result, _ = filtered(GOOD + bad + LATER, mapped(GOOD), bits)
        assert (data, result.rows) == (GOOD + LATER, 3)


def test_a_batch_that_cannot_be_written_again_stops_the_filter(each_twin: str) -> None:
    old = Record(offset=1, key=b"old", value=b"v")
    kept = Record(offset=2, key=b"k", value=b"v")
    late = replace(kept, offset=5)
    cases = {
        "record-order": batch_v2([old, late, kept], base_offset=1, last_offset=5),
        "record-time": batch_v2([old, replace(kept, timestamp_ms=-7)]),
        "producer-fields": batch_v2([old, kept], producer_id=4, base_sequence=-1),
    }
    for reason, bad in cases.items():
        assert stopped(GOOD + bad, newest=9) == (reason, 1, GOOD)
        assert filtered(GOOD + bad, a_map())[0] == GOOD + bad  # as it stands it may stay
    message = message_v1(Record(offset=1, key=None, value=b"v"))
    assert stopped(GOOD + message, [0, BIT_RETAIN_EMPTY]) == ("empty-legacy", 1, GOOD)


def test_nothing_is_left_of_nothing(each_twin: str) -> None:
    columns = BatchColumns(1)
    runs = RunFilter(a_map(), now_ms=NOW, delete_retention_ms=RETENTION)
    result = runs.filter(memoryview(b""), columns, retains_legacy=True)
    assert (result.rows, bytes(result.data), result.batches.count) == (0, b"", 0)


# --- tallies ----------------------------------------------------------------------------------------------------------
def test_tombstones_whose_keys_have_nothing_else(each_twin: str) -> None:
    log = batch_v2([a_record(0, "a", "1"), a_record(1, "b", None), a_record(2, "c", None), a_record(3, "c", None)])
    log += batch_v2([a_record(4, "a", None), a_record(5, "d", None), a_record(6, "e", "1")])
    _, _, tally = filtered(log, mapped(log))
    assert tally.lone_tombstones == 2  # of a, b, c and d: b's and d's
    _, _, tally = filtered(log, mapped(log, start=4))  # the clean part is not in the map
    assert tally.lone_tombstones == 4


def test_tallies_grow_and_are_compared(each_twin: str) -> None:
    log = batch_v2([a_record(0, "a", "12"), a_record(1, "a", "3")])
    runs = RunFilter(mapped(log), now_ms=NOW, delete_retention_ms=RETENTION)
    runs.filter(memoryview(log), walked(log), retains_legacy=True)
    before = runs.tally.copy()
    runs.filter(memoryview(log), walked(log), retains_legacy=True)
    names = REASONS.index("latest"), REASONS.index("superseded")
    assert [runs.tally.records[i] for i in names] == [2, 2]
    grown = runs.tally.since(before)
    assert [(grown.records[i], grown.bytes[i]) for i in names] == [(1, 2), (1, 3)]


# --- larger than the first room ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("codec", [0, LZ4])
def test_output_larger_than_the_first_room(codec: int) -> None:
    """Batches of some MiB of records that do not shrink, of which some stay as they are and some are written again."""
    rng = random.Random(codec)
    log, expected = b"", []
    for first in (0, 10, 20):
        records = [Record(offset=first + i, key=b"k%d" % (first + i), value=rng.randbytes(400_000)) for i in range(6)]
        log += batch_v2(records, codec=codec)
        expected += [record for record in records if record.offset not in {10, 14}]
    offsets = a_map()
    for offset in (10, 14):
        offsets.put(b"k%d" % offset, 100)
    offsets.latest_offset = 100
    data, result, _ = filtered(log, offsets)
    assert list(result.outcomes) == [OUTCOME_VERBATIM, OUTCOME_REBUILT, OUTCOME_VERBATIM]
    assert [(row.offset, row.value) for row in read(data)] == [(record.offset, record.value) for record in expected]


def test_a_batch_of_more_records_than_the_columns_hold() -> None:
    """With headers too, for which the columns grow meanwhile."""
    records = [
        Record(offset=i, key=b"%d" % (i % 5000), value=b"v", headers=((b"h", b"x"), (b"", None)) * (i % 3))
        for i in range(10_000)
    ]
    log = batch_v2(records)
    data, result, tally = filtered(log, mapped(log, slots=10_000))
    assert data == batch_v2(records[5000:], base_offset=0)
    assert (result.kept[0], tally.records[REASONS.index("superseded")]) == (5000, 5000)
    log = wrapper_v1([replace(record, headers=()) for record in records], codec=LZ4)
    data, _, _ = filtered(log, mapped(log, slots=10_000), rules=FilterRules(converts_legacy=False))
    assert [row.offset for row in read(data)] == list(range(5000, 10_000))


def test_a_batch_of_very_many_records_takes_a_byte_for_each() -> None:
    count = 200_000
    log = batch_v2([Record(offset=i, key=b"k", value=b"") for i in range(count)])
    runs = RunFilter(mapped(log), now_ms=NOW, delete_retention_ms=RETENTION)
    run = walked(log)
    tracemalloc.start()
    result = runs.filter(memoryview(log), run, retains_legacy=True)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.kept[0] == 1
    assert peak_bytes < 8 * count


def read(log: bytes) -> list[Row]:
    """All records, as the product's reader decodes them."""
    columns = walked(log)
    rows = []
    for run in decode.decode_run(memoryview(log), columns, max_bytes=2**24):
        assert isinstance(run, decode.RecordRun)
        rows += rows_of(run.memory, run.records)
    return rows
