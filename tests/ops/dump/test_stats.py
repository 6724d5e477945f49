"""Figures of a partition: the same as a recount of its rows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.engine.report import Report
from tests.support import strategies
from tests.support.build import (
    COMMIT,
    GZIP,
    LZ4,
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
from tests.support.logs import Row, dump_rows, records, write_segments

if TYPE_CHECKING:
    from pathlib import Path

TRANSACTIONS = (
    batch_v2(records(0, 3), producer_id=1, is_transactional=True)
    + batch_v2(records(3, 4), producer_id=2, is_transactional=True, codec=GZIP)
    + txn_marker(COMMIT, offset=7, producer_id=1, timestamp_ms=1007)
    + empty_batch(8, 9, producer_id=2)
    + batch_v2(records(10, 2))
)
LOGS: dict[str, bytes] = {
    "v0": b"".join(message_v0(record) for record in records(5, 7)) + wrapper_v0(records(12, 2000)),
    "v1": wrapper_v1(records(5, 2000), codec=LZ4) + b"".join(message_v1(record) for record in records(2005, 7)),
    "v2": b"".join(batch_v2(records(10 * n, 10), codec=n % 5, producer_id=n % 3) for n in range(50)),
    "transactions": TRANSACTIONS,
    "upgraded": message_v0(Record(offset=0)) + wrapper_v1(records(1, 3)) + batch_v2(records(4, 3)),
    "damaged": TRANSACTIONS + TRANSACTIONS[:-1] + b"\xff" + b"torn",
    "undecodable": wrapper_v1(records(0, 3), inner=b"x" * 30, offset=2) + batch_v2(records(3, 2)),
}


def recount(rows: list[Row], batches: list[Row]) -> Row:
    """What the figures must be, from record and batch rows."""
    shown = [row for row in rows if row["type"] == "record"]
    damage = [row for row in rows if row["type"] == "damage"]
    batches = [row for row in batches if row["type"] == "batch"]
    of_codec: Counter[str] = Counter()
    for row in batches:
        of_codec[row["codec"]] += row["size_bytes"]
    return {
        "bytes": sum(row["size_bytes"] for row in batches),
        "batches": len(batches),
        "records": len(shown),
        "control_records": sum(row["control_type"] is not None for row in shown),
        "transactional_records": sum(bool(row["is_transactional"]) and not row["control_type"] for row in shown),
        "first_offset": min((row["offset"] for row in shown), default=None),
        "formats": Counter(row["format"] for row in batches),
        "codecs": Counter(row["codec"] for row in batches),
        "codec_bytes": of_codec,
        "producers": Counter(str(row["producer_id"]) for row in shown if row["producer_id"] not in {None, -1}),
        "damage_count": len(damage),
        "damage_bytes": sum(row["size_bytes"] for row in damage),
    }


def stats_of(path: Path) -> Row:
    (row,) = [row for row in dump_rows(path, stats=True) if row["type"] == "stats"]
    return row


def check(path: Path) -> Row:
    row = stats_of(path)
    expected = recount(dump_rows(path, level="records"), dump_rows(path))
    assert {name: row[name] for name in expected} == expected
    assert sum(row["batch_sizes"].values()) == row["batches"]
    assert row["producer_count"] == len(row["producers"])
    return row


@pytest.mark.parametrize("name", LOGS)
def test_a_recount(tmp_path: Path, name: str) -> None:
    check(write_segments(tmp_path / "topic-0", {0: LOGS[name]}))


def test_a_recount_of_07(tmp_path: Path) -> None:
    plain = [message_v07(b"%d" % n) for n in range(2000)]
    data = plain[0] + wrapper_v07(plain) + wrapper_v07([wrapper_v07(plain[:3])]) + plain[1]
    row = check(write_segments(tmp_path / "topic-0", {1000: data}, suffix="kafka"))
    assert row["records"] == 2005
    assert (row["first_offset"], row["last_offset"]) == (1000, 1000 + len(data) - len(plain[1]))
    assert (row["min_base_timestamp_ms"], row["max_timestamp_ms"]) == (None, None)


def test_several_segments(tmp_path: Path) -> None:
    row = check(write_segments(tmp_path / "topic-0", {0: TRANSACTIONS, 20: batch_v2(records(20, 5))}))
    assert (row["topic"], row["partition"], row["segments"]) == ("topic", 0, 2)
    assert (row["first_offset"], row["last_offset"]) == (0, 24)


def test_an_empty_log(tmp_path: Path) -> None:
    row = stats_of(write_segments(tmp_path / "topic-0", {0: b""}))
    assert (row["batches"], row["records"], row["first_offset"], row["last_offset"]) == (0, 0, None, None)
    assert (row["formats"], row["batch_sizes"]) == ({}, {})


def test_times(tmp_path: Path) -> None:
    """Neither a delete horizon nor what a producer said where the broker's time counts is a record's time."""
    data = batch_v2([Record(timestamp_ms=5000)], log_append_time_ms=7000)
    data += batch_v2([Record(offset=1, timestamp_ms=6000)], delete_horizon_ms=10)
    data += batch_v2([Record(offset=2, timestamp_ms=-1)])
    row = stats_of(write_segments(tmp_path / "topic-0", {0: data}))
    assert (row["min_base_timestamp_ms"], row["max_timestamp_ms"]) == (6000, 7000)


def test_sizes_are_powers_of_two(tmp_path: Path) -> None:
    data = empty_batch(0, 0) + batch_v2(records(1, 1, size=100)) + batch_v2(records(2, 1, size=1000))
    row = stats_of(write_segments(tmp_path / "topic-0", {0: data}))
    assert row["batch_sizes"] == {"64": 1, "256": 1, "2048": 1}


def test_the_largest_producers(tmp_path: Path) -> None:
    data = b"".join(batch_v2(records(100 * n, n + 1), producer_id=n) for n in range(30))
    row = stats_of(write_segments(tmp_path / "topic-0", {0: data}))
    assert row["producers"] == {str(n): n + 1 for n in range(29, 9, -1)} | {"other": sum(range(1, 11))}
    assert row["producer_count"] == 30


def test_a_limit_counts_partitions(tmp_path: Path) -> None:
    home = tmp_path / "data"
    for number in range(3):
        write_segments(home / f"topic-{number}", {0: TRANSACTIONS})
    (home / "meta.properties").write_text("version=0\nbroker.id=1\n")
    report = Report()
    rows = [row for row in dump_rows(home, stats=True, limit=2, report=report) if row["type"] == "stats"]
    assert [row["partition"] for row in rows] == [0, 1]


def test_segment_rows_say_the_same(tmp_path: Path) -> None:
    path = write_segments(tmp_path / "topic-0", {0: LOGS["damaged"]})
    (row,) = [row for row in dump_rows(path, level="segments") if row["type"] == "segment"]
    stats = stats_of(path)
    for name in (
        "first_offset",
        "last_offset",
        "min_base_timestamp_ms",
        "max_timestamp_ms",
        "damage_count",
        "damage_bytes",
    ):
        assert row[name] == stats[name]
    assert (row["batch_count"], row["record_count"]) == (stats["batches"], stats["records"])
    assert (row["formats"], row["codecs"]) == ("v2", "gzip,none")


@settings(max_examples=30, deadline=None)
@given(
    built=st.sampled_from([strategies.batches_v2, strategies.messages_v1, strategies.messages_v0]).flatmap(
        strategies.logs
    )
)
def test_any_log(built: list[strategies.Built], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "stats" / f"{0:020d}.log"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(one.data for one in built))
    check(path)
