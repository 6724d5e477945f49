"""Answers of a seek as rows: every question, files and partitions, releases, what is wrong on the way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import SelectionError
from kafkalog_core.filters.expression import Filters
from kafkalog_core.kafka.sim.logdir.top_files import read_broker_dir
from kafkalog_core.ops.seek import SeekQuestion, SeekRequest, seek
from kafkalog_core.storage.logdir import read_log_dir
from tests.support.brokers import Appended, write_segment
from tests.support.build import (
    GZIP,
    Record,
    batch_v2,
    message_v0,
    message_v07,
    offset_checkpoint,
    offset_index,
    partition_metadata,
    time_index,
    wrapper_v1,
)

if TYPE_CHECKING:
    from pathlib import Path

Row = dict[str, Any]
NOW_MS = 2_000_000


def ask(
    path: Path, kind: str, value: int = 0, *, count: int = 1, report: Report | None = None, **given: Any
) -> list[Row]:
    given = {"now_ms": NOW_MS, "kafka": "4.3", **given}
    request = SeekRequest(
        targets=tuple(resolve([str(path)])),
        question=SeekQuestion(kind, value, count),  # type: ignore[arg-type]
        **given,
    )
    return [row for chunk in seek(request, report or Report()) for row in chunk.rows()]


def one(path: Path, kind: str, value: int = 0, **given: Any) -> Row:
    (row,) = (row for row in ask(path, kind, value, **given) if row["type"] == "seek")
    return row


def batch(first: int, count: int, *, time_ms: int = 1000, size: int = 0) -> Appended:
    records = [Record(offset=first + n, timestamp_ms=time_ms + n, value=b"v" * size) for n in range(count)]
    return Appended(batch_v2(records), first + count - 1, time_ms + count - 1)


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Two segments of a partition in a log directory: offsets 0 to 9 and 20 to 29, a batch each five."""
    log_dir = tmp_path / "kafka"
    directory = log_dir / "orders-0"
    write_segment(directory, 0, [batch(0, 5), batch(5, 5, time_ms=2000)])
    write_segment(directory, 20, [batch(20, 5, time_ms=3000), batch(25, 5, time_ms=4000)])
    (directory / "partition.metadata").write_bytes(partition_metadata("d2hhdCBhIHRvcGljIGlkIQ"))
    (log_dir / "log-start-offset-checkpoint").write_bytes(offset_checkpoint([("orders", 0, 3)]))
    (log_dir / ".kafka_cleanshutdown").write_bytes(b"")
    return directory


def test_an_offset(orders: Path) -> None:
    row = one(orders, "offset", 27)
    assert row | {"steps": None} == {
        "type": "seek",
        "topic": "orders",
        "partition": 0,
        "segment": "00000000000000000020.log",
        "query": "offset",
        "asked": 27,
        "outcome": "found",
        "position": len(batch(20, 5).data),
        "offset": 27,
        "timestamp_ms": 4002,
        "size_bytes": len(batch(25, 5).data),
        "base_offset": 25,
        "last_offset": 29,
        "fetch_position": len(batch(20, 5).data),
        "log_start_offset": 3,
        "log_end_offset": None,
        "detail": None,
        "steps": None,
    }


def test_what_is_before_the_segments_of_a_tiered_log_is_in_remote_storage(orders: Path) -> None:
    """A real 4.3.1 broker served all 300 records of a log whose disk had the last 100: its checkpoint had offset 0."""
    (orders / f"{0:020}.log").unlink()
    (orders.parent / "log-start-offset-checkpoint").write_bytes(offset_checkpoint([("orders", 0, 3)]))
    remote = "a broker serves offsets 3 to 19 from remote storage"
    earliest, before = one(orders, "earliest"), one(orders, "offset", 12)
    assert (earliest["offset"], earliest["detail"]) == (20, remote)
    assert (before["outcome"], before["detail"]) == ("out-of-range", f"offsets of this log are 20 to 29, and {remote}")


def test_an_offset_that_no_record_has(orders: Path) -> None:
    row = one(orders, "offset", 12)
    assert (row["outcome"], row["offset"], row["segment"]) == ("next", 20, "00000000000000000020.log")
    assert row["detail"] == "no record has offset 12; the next record has offset 20"


@pytest.mark.parametrize(
    ("offset", "detail"), [(31, ""), (99, ""), (2, "; offset 2, below the log start offset, is still on the disk at")]
)
def test_an_offset_out_of_range(orders: Path, offset: int, detail: str) -> None:
    row = one(orders, "offset", offset)
    assert (row["outcome"], row["offset"], row["position"]) == ("out-of-range", None, None)
    assert (row["log_start_offset"], row["log_end_offset"]) == (3, 30)
    assert row["detail"].startswith("offsets of this log are 3 to 29" + detail)


def test_the_end_of_the_log_is_no_error(orders: Path) -> None:
    by_offset, latest = one(orders, "offset", 30), one(orders, "latest")
    for row in (by_offset, latest):
        assert (row["outcome"], row["offset"], row["position"], row["size_bytes"]) == (
            "end",
            30,
            len(batch(20, 5).data) * 2,
            None,
        )


def test_the_earliest_record_is_at_the_log_start(orders: Path) -> None:
    row = one(orders, "earliest")
    assert (row["offset"], row["log_start_offset"], row["asked"]) == (3, 3, None)


@pytest.mark.parametrize("line", ["orders 0 x", "orders 0", "orders 0 4 4"])
def test_a_checkpoint_that_a_broker_refuses_says_no_log_start(orders: Path, line: str) -> None:
    """One bad line, and none of the others counts: for a broker, for the bounds of a log, and for `seek`."""
    log_dir = orders.parent
    (log_dir / "log-start-offset-checkpoint").write_text(f"0\n2\norders 0 3\n{line}\n")
    broker_dir = read_broker_dir(read_log_dir(str(log_dir)))
    (place,) = broker_dir.log_dir.partitions
    assert broker_dir.context(place.name).log_start_offset is None
    row = one(orders, "earliest")
    assert (row["offset"], row["log_start_offset"]) == (0, 0)


@pytest.mark.parametrize(
    ("time_ms", "offset"), [(0, 3), (1003, 3), (1004, 4), (1005, 5), (2004, 9), (2005, 20), (4004, 29), (4005, None)]
)
def test_a_time(orders: Path, time_ms: int, offset: int | None) -> None:
    row = one(orders, "timestamp", time_ms)
    assert (row["outcome"], row["offset"]) == ("none" if offset is None else "found", offset)


def test_the_first_record_of_a_content(tmp_path: Path) -> None:
    """From the answer on: in the same batch, in a later one, in a later segment, and past damage."""
    keys = [b"a", b"b", b"c", b"a", b"b", b"c", b"a", b"b"]
    made = [Record(offset=at, timestamp_ms=1000 * at, key=key, value=b"v%d" % at) for at, key in enumerate(keys)]
    directory = tmp_path / "kafka" / "orders-0"
    write_segment(
        directory, 0, [Appended(batch_v2(made[:3], codec=GZIP), 2, 2000), Appended(batch_v2(made[3:5]), 4, 4000)]
    )
    write_segment(directory, 5, [Appended(batch_v2(made[5:]), 7, 7000)])
    second = len(batch_v2(made[:3], codec=GZIP))
    for kind, value, filters, offset, position in (
        ("earliest", 0, Filters(key=b"a"), 0, 0),
        ("offset", 1, Filters(key=b"a"), 3, second),
        ("offset", 4, Filters(key_regex="[ac]"), 5, 0),
        ("timestamp", 3500, Filters(contains=b"V6", ignores_case=True), 6, 0),
        ("timestamp", 3500, Filters(key=b"b", inverted=True), 5, 0),
    ):
        row = one(directory, kind, value, filters=filters)
        assert (row["outcome"], row["offset"], row["timestamp_ms"]) == ("found", offset, 1000 * offset)
        assert row["position"] == row["fetch_position"] == position
    row = one(directory, "offset", 1, filters=Filters(key=b"d"))
    assert (row["outcome"], row["offset"]) == ("none", None)
    assert row["detail"] == "no record from offset 1 on meets the filters"
    log = directory / "00000000000000000000.log"
    log.write_bytes(log.read_bytes()[:-1])
    rows = ask(directory, "offset", 1, filters=Filters(key=b"a"))
    assert [(row["type"], row.get("offset"), row.get("reason")) for row in rows][:2] == [
        ("seek", 6, None),
        ("damage", None, "torn-tail"),
    ]


def test_the_first_record_of_a_content_in_old_formats(tmp_path: Path) -> None:
    made = [Record(offset=at, timestamp_ms=1000, key=b"k%d" % at, value=b"v") for at in range(4)]
    directory = tmp_path / "kafka" / "orders-0"
    write_segment(directory, 0, [Appended(wrapper_v1(made), 3, 1000)])
    assert one(directory, "earliest", filters=Filters(key=b"k2"))["offset"] == 2
    assert one(directory, "offset", 3, filters=Filters(key=b"k2"))["outcome"] == "none"


def test_a_byte_of_a_file(orders: Path) -> None:
    log = orders / "00000000000000000020.log"
    size = len(batch(20, 5).data)
    assert one(log, "position", size - 1)["base_offset"] == 20
    assert one(log, "position", size)["base_offset"] == 25
    row = one(log, "position", 2 * size)
    assert (row["outcome"], row["detail"]) == ("out-of-range", f"the file has {2 * size} bytes")
    with pytest.raises(SelectionError, match="name the file"):
        ask(orders, "position", 5)


def test_a_file_by_itself_knows_its_own_offsets_alone(orders: Path) -> None:
    log = orders / "00000000000000000020.log"
    assert one(log, "offset", 22)["offset"] == 22
    row = one(log, "offset", 5)
    assert (row["outcome"], row["detail"]) == ("out-of-range", "offsets of this file are 20 to 29")
    with pytest.raises(SelectionError, match="not a log"):
        ask(orders / "00000000000000000020.index", "offset", 5)


def test_a_log_without_an_offset_in_its_name(orders: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.log"
    copy.write_bytes((orders / "00000000000000000020.log").read_bytes())
    assert one(copy, "offset", 27)["offset"] == 27
    assert one(copy, "timestamp", 3001)["offset"] == 21


def test_steps_say_what_was_looked_at(orders: Path) -> None:
    steps = one(orders, "offset", 27, explain=True)["steps"]
    assert [step["step"] for step in steps] == ["release", "segment", "index", "scan"]
    assert steps[1]["compared"] == [20]
    assert (steps[2]["slots"], steps[2]["pages"], steps[2]["slot"]) == ([0], [0], None)
    assert steps[3]["position"] == 0
    assert one(orders, "offset", 29, explain=True)["steps"][2]["log_position"] == len(batch(20, 5).data)


# --- the oldest request -----------------------------------------------------------------------------------------------
@pytest.fixture
def dated(orders: Path) -> Path:
    os.utime(orders / "00000000000000000000.log", (100, 100))
    os.utime(orders / "00000000000000000020.log", (200, 200))
    return orders


@pytest.mark.parametrize(
    ("time_ms", "count", "kafka", "offsets"),
    [
        (-1, 1, "0.8.2", [30]),
        (-1, 9, "0.8.2", [30, 20, 0]),
        (-1, 9, "2.8", [30, 20, 3]),  # the log starts in the first segment
        (-2, 9, "0.8.2", [0]),
        (NOW_MS, 1, "0.8.2", [30]),
        (NOW_MS - 1, 9, "0.8.2", [20, 0]),
        (200_000, 1, "0.8.2", [20]),
        (199_999, 9, "0.8.2", [0]),
        (99_999, 9, "0.8.2", []),
    ],
)
def test_offsets_before(dated: Path, time_ms: int, count: int, kafka: str, offsets: list[int]) -> None:
    rows = ask(dated, "before", time_ms, count=count, kafka=kafka)
    if not offsets:
        assert [(row["outcome"], row["offset"]) for row in rows] == [("none", None)]
        return
    assert [row["offset"] for row in rows] == offsets
    times = {30: NOW_MS, 20: 200_000}
    assert [row["timestamp_ms"] for row in rows] == [times.get(offset, 100_000) for offset in offsets]


def test_an_empty_last_segment_has_no_end_before(dated: Path) -> None:
    write_segment(dated, 30, [])
    os.utime(dated / f"{30:020d}.log", (300, 300))
    assert [row["offset"] for row in ask(dated, "before", -1, count=2, kafka="0.9")] == [30, 20]


# --- fetches ----------------------------------------------------------------------------------------------------------
def fetched(path: Path, offset: int, size_bytes: int, **given: Any) -> tuple[Row, list[int]]:
    """The `fetch` row, and the base offsets of the batches before it."""
    rows = ask(path, "offset", offset, read_bytes=size_bytes, **given)
    (fetch,) = (row for row in rows if row["type"] == "fetch")
    return fetch, [row["base_offset"] for row in rows if row["type"] == "batch"]


def test_a_fetch(orders: Path) -> None:
    size = len(batch(0, 5).data)
    fetch, batches = fetched(orders, 7, 10)
    assert (fetch["position"], fetch["size_bytes"], fetch["outcome"], batches) == (size, size, "whole", [5])
    fetch, batches = fetched(orders, 3, size + 30)
    assert (fetch["outcome"], fetch["partial_position"], fetch["partial_bytes"]) == ("partial", size, 30)
    assert (fetch["first_offset"], fetch["last_offset"], fetch["batches"], batches) == (0, 4, 1, [0])
    fetch, batches = fetched(orders, 3, 10**6)
    assert (fetch["size_bytes"], fetch["outcome"], batches) == (2 * size, "whole", [0, 5])


def test_a_fetch_of_the_old_protocol(tmp_path: Path) -> None:
    messages = [message_v0(Record(offset=n, value=b"v" * 500)) for n in range(3)]
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [Appended(data, n, -1) for n, data in enumerate(messages)])
    fetch, batches = fetched(directory, 1, 100, kafka="0.8.2")
    assert (fetch["asked_bytes"], fetch["tries"], fetch["outcome"], batches) == (800, 4, "partial", [1])
    assert fetch["partial_bytes"] == 800 - len(messages[1])
    fetch, batches = fetched(directory, 1, 100, kafka="0.8.2", max_read_bytes=400)
    assert (fetch["asked_bytes"], fetch["outcome"], batches) == (400, "too-large", [])
    fetch, _ = fetched(directory, 1, 100, kafka="0.10.1")
    assert (fetch["size_bytes"], fetch["outcome"]) == (len(messages[1]), "whole")


def test_damage_inside_of_a_fetch_is_told(orders: Path) -> None:
    log = orders / "00000000000000000020.log"
    write_segment(orders, 20, [batch(20, 5), batch(25, 5), batch(30, 5)])
    data = bytearray(log.read_bytes())
    size = len(batch(20, 5).data)
    data[size + 70] ^= 1
    log.write_bytes(data)
    rows = ask(orders, "offset", 20, read_bytes=10**6)
    assert [row["type"] for row in rows] == ["seek", "batch", "batch", "fetch", "damage"]
    assert rows[-1]["position"] == size


# --- other formats ----------------------------------------------------------------------------------------------------
def test_addresses_of_kafka_07(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    messages = [message_v07(b"one"), message_v07(b"three"), message_v07(b"four")]
    (directory / f"{100:020d}.kafka").write_bytes(b"".join(messages))
    second = 100 + len(messages[0])
    row = one(directory, "offset", second, kafka=None)
    assert (row["offset"], row["position"], row["timestamp_ms"]) == (second, len(messages[0]), None)
    assert "no message starts at address" in one(directory, "offset", second + 1)["detail"]
    assert one(directory, "timestamp", 5)["detail"].startswith("no record has a timestamp")
    fetch, batches = fetched(directory, 100, 5, kafka=None)
    assert (fetch["tries"], batches, fetch["last_offset"]) == (3, [100], 100)


def test_times_inside_of_a_compressed_message(tmp_path: Path) -> None:
    records = [Record(offset=n, timestamp_ms=1000 + 10 * n) for n in range(5)]
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [Appended(wrapper_v1(records, codec=GZIP), 4, 1040)])
    row = one(directory, "timestamp", 1015, kafka="0.10.2")
    assert (row["offset"], row["timestamp_ms"], row["base_offset"], row["last_offset"]) == (2, 1020, None, 4)


# --- what is wrong ----------------------------------------------------------------------------------------------------
def codes(rows: list[Row]) -> list[str]:
    return [row["code"] for row in rows if row["type"] == "finding"]


def test_a_missing_index_is_told(orders: Path) -> None:
    (orders / "00000000000000000020.index").unlink()
    rows = ask(orders, "offset", 27)
    assert rows[0]["offset"] == 27
    assert codes(rows) == ["segment.index-missing"]


def test_an_index_that_lies_is_told_and_what_a_broker_makes_of_it(orders: Path) -> None:
    (orders / "00000000000000000000.index").write_bytes(offset_index([(2, len(batch(0, 5).data))]))
    rows = ask(orders, "offset", 3)
    assert rows[0]["offset"] == 3
    assert codes(rows) == ["lookup.broker-differs", "lookup.index-not-used"]
    assert f"the batch at byte {len(batch(0, 5).data)} of" in rows[1]["message"]
    assert "that batch starts at offset 5" in rows[2]["message"]


def test_before_2_0_a_broker_checks_its_indexes_itself(orders: Path) -> None:
    (orders / "00000000000000000000.index").write_bytes(offset_index([(2, len(batch(0, 5).data))]))
    assert codes(ask(orders, "offset", 3, kafka="1.1")) == ["lookup.index-not-used"]


def test_a_tail_of_zeros_matters_after_a_clean_stop_alone(orders: Path) -> None:
    index = orders / "00000000000000000020.timeindex"
    index.write_bytes(index.read_bytes() + bytes(120))
    rows = ask(orders, "timestamp", 3001)
    assert rows[0]["offset"] == 21
    assert codes(rows) == ["lookup.broker-differs"]  # it takes the segment's largest time for 1970
    (orders.parent / ".kafka_cleanshutdown").unlink()
    assert codes(ask(orders, "timestamp", 3001)) == []  # it recovers the last segment


def test_a_time_index_of_another_log(orders: Path) -> None:
    (orders / "00000000000000000000.timeindex").write_bytes(time_index([(1, 4), (2, 9)]))
    rows = ask(orders, "timestamp", 1004)
    assert rows[0]["offset"] == 4
    assert codes(rows)[0] == "lookup.broker-differs"


def test_damage_on_the_way_is_told(orders: Path) -> None:
    log = orders / "00000000000000000020.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    report = Report()
    rows = ask(orders, "offset", 21, report=report)
    assert rows[0]["offset"] == 25
    assert [(row["reason"], row["position"]) for row in rows if row["type"] == "damage"] == [("crc-mismatch", 0)]
    assert report.exit_status == 4


def test_a_batch_whose_records_cannot_be_read(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    broken = batch_v2([Record(offset=0)], codec=GZIP, payload=b"no gzip")
    write_segment(directory, 0, [Appended(broken, 0, 0)])
    rows = ask(directory, "offset", 0)
    assert (rows[0]["outcome"], rows[0]["offset"], rows[0]["fetch_position"]) == ("none", None, 0)
    assert any(row["type"] == "damage" for row in rows)


def test_a_partition_without_segments(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / "partition.metadata").write_bytes(partition_metadata("d2hhdCBhIHRvcGljIGlkIQ"))
    for kind in ("offset", "timestamp", "earliest", "latest", "before"):
        assert one(directory, kind)["outcome"] == "none"


def test_a_log_directory_gives_an_answer_a_partition(orders: Path) -> None:
    write_segment(orders.parent / "orders-1", 0, [batch(0, 5)])
    rows = ask(orders.parent, "offset", 27)
    assert [(row["partition"], row["outcome"]) for row in rows] == [(0, "found"), (1, "out-of-range")]


def test_a_record_that_is_lost_in_damage_is_said_to_be(orders: Path) -> None:
    log = orders / "00000000000000000020.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    detail = one(orders, "offset", 21)["detail"]
    damage = "crc-mismatch at byte 0 of 00000000000000000020.log"
    assert detail == f"offset 21 is lost or damaged, and the next record has offset 25: {damage}"
    assert one(orders, "offset", 21)["outcome"] == "next"
