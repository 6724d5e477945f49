"""`--newest-first` is the forward dump in reverse: every level, every format, damage included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.engine.report import Report
from kafkalog_core.filters.expression import Filters
from tests.support import strategies
from tests.support.build import (
    ABORT,
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

MANY = 3000  # several calls of the decoder for one batch


def broken(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 0xFF])


V07_MANY = [message_v07(b"%d" % n) for n in range(MANY)]
LOGS: dict[str, bytes] = {
    "v0": b"".join(message_v0(record) for record in records(0, 20)),
    "v1": b"".join(message_v1(record) for record in records(0, 20)),
    "v0 wrappers": wrapper_v0(records(0, MANY), codec=SNAPPY) + wrapper_v0(records(MANY, 5), codec=LZ4),
    "v1 wrappers": wrapper_v1(records(0, MANY), codec=GZIP) + wrapper_v1(records(MANY, 5), codec=LZ4),
    **{
        f"v2 codec {codec}": batch_v2(records(0, 3), codec=codec)
        + batch_v2(records(3, MANY), codec=codec)
        + batch_v2(records(3 + MANY, 3), codec=codec)
        for codec in (NONE, GZIP, SNAPPY, LZ4, ZSTD)
    },
    "many batches": b"".join(batch_v2(records(3 * n, 3), codec=n % 2) for n in range(4200)),
    "transactions": batch_v2(records(0, 3), producer_id=1, is_transactional=True)
    + txn_marker(ABORT, offset=3, producer_id=1)
    + empty_batch(4, 9),
    "larger than a window": b"".join(batch_v2(records(n, 1, size=700_000)) for n in range(4)),
    "wrong checksums": batch_v2(records(0, 3)) + broken(batch_v2(records(3, 3))) + batch_v2(records(6, 3)),
    "a torn tail": batch_v2(records(0, 3)) + batch_v2(records(3, 3))[:-1],
    "zeros": batch_v2(records(0, 3)) + bytes(5000),
    "offsets that go back": batch_v2(records(10, 3)) + batch_v2(records(0, 3)) + batch_v2(records(3, 3)),
    "negative offsets": batch_v2(records(0, 3))
    + batch_v2([Record(offset=-(2**40))])
    + batch_v2([Record(offset=-(2**39))])
    + batch_v2(records(3, 3)),
    "undecodable records": batch_v2(records(0, MANY), records_count=MANY + 5)
    + batch_v2(records(MANY, 2), codec=GZIP, payload=b"no gzip")
    + batch_v2(records(MANY + 2, 2)),
}
LOGS_07: dict[str, bytes] = {
    "plain": b"".join(V07_MANY[:50]),
    "wrappers": wrapper_v07(V07_MANY) + message_v07(b"plain") + wrapper_v07([wrapper_v07(V07_MANY[:3]), V07_MANY[3]]),
    "damage": b"".join(V07_MANY[:5]) + broken(V07_MANY[5]) + message_v07(b"not gzip", attributes=1) + V07_MANY[6],
    "torn": b"".join(V07_MANY[:5]) + V07_MANY[5][:-1],
}


def both_ways(path: Path, **request: object) -> list[Row]:
    """The rows of the forward dump, once it is proven that the other one is its reverse."""
    forwards, backwards = Report(), Report()
    rows = dump_rows(path, report=forwards, **request)
    assert dump_rows(path, report=backwards, newest_first=True, **request) == rows[::-1]
    assert backwards.summary_row() == forwards.summary_row()
    return rows


@pytest.mark.parametrize("level", ["batches", "records"])
@pytest.mark.parametrize("name", LOGS)
def test_a_log_in_reverse(tmp_path: Path, name: str, level: str) -> None:
    log = write_segments(tmp_path / "topic-0", {0: LOGS[name]})
    assert both_ways(log / f"{0:020d}.log", level=level)


@pytest.mark.parametrize("level", ["batches", "records"])
@pytest.mark.parametrize("name", LOGS_07)
def test_a_07_log_in_reverse(tmp_path: Path, name: str, level: str) -> None:
    log = write_segments(tmp_path / "topic-0", {1000: LOGS_07[name]}, suffix="kafka")
    assert both_ways(log / f"{1000:020d}.kafka", level=level)


@pytest.mark.parametrize("level", ["segments", "batches", "records"])
def test_segments_in_reverse(tmp_path: Path, level: str) -> None:
    data = {first: batch_v2(records(first, 5)) + batch_v2(records(first + 5, 5), codec=GZIP) for first in (0, 10, 20)}
    log = write_segments(tmp_path / "topic-0", data)
    rows = [row for row in dump_rows(log, level=level) if row["type"] != "finding"]
    newest = [row for row in dump_rows(log, level=level, newest_first=True) if row["type"] != "finding"]
    assert newest == rows[::-1]
    assert len(rows) == {"segments": 3, "batches": 6, "records": 30}[level]


@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize("limit", [0, 1, 2, 2055, 2056, 2057, 2500, 4000])
def test_a_limit_takes_the_newest(tmp_path: Path, limit: int, codec: int) -> None:
    log = write_segments(
        tmp_path / "topic-0", {0: batch_v2(records(0, 500)) + batch_v2(records(500, MANY), codec=codec)}
    )
    rows = dump_rows(log, level="records", newest_first=True, limit=limit)
    assert offsets_of(rows) == list(range(MANY + 499, -1, -1))[:limit]


def test_filters_and_resync_in_reverse(tmp_path: Path) -> None:
    data = (
        batch_v2(records(0, 5)) + b"\xff" * 99 + batch_v2(records(5, MANY), codec=GZIP) + batch_v2(records(MANY + 5, 5))
    )
    path = write_segments(tmp_path / "topic-0", {0: data}) / f"{0:020d}.log"
    rows = both_ways(path, level="records", resync=True, filters=Filters(offsets=(3, MANY + 6)))
    assert offsets_of(rows) == list(range(3, MANY + 7))
    assert [row["resynced"] for row in rows if row["type"] == "record"] == [False] * 2 + [True] * (MANY + 2)
    rows = both_ways(path, level="batches", resync=True, filters=Filters(codec="gzip"))
    assert offsets_of(rows, "batch") == [5]


@settings(max_examples=40, deadline=None)
@given(
    built=st.sampled_from([strategies.batches_v2, strategies.messages_v1, strategies.messages_v0]).flatmap(
        strategies.logs
    ),
    cut=st.integers(0, 30),
)
def test_any_log_in_reverse(built: list[strategies.Built], cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    data = b"".join(one.data for one in built)
    path = tmp_path_factory.getbasetemp() / "backwards" / f"{0:020d}.log"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data[: len(data) - cut])
    for level in ("batches", "records"):
        both_ways(path, level=level)
