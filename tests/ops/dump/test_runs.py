"""What is wrong in batches that are whole, what is counted, and what was not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.filters.expression import Filters
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest
from tests.support.build import GZIP, Record, batch_v2, message_v07, message_v1, wrapper_v07, wrapper_v1
from tests.support.logs import Row, dump_rows, offsets_of, records, write_segments

if TYPE_CHECKING:
    from pathlib import Path

A, B, C = (batch_v2(records(first, 3)) for first in (0, 3, 6))
NO_GZIP = batch_v2(base_offset=3, last_offset=7, records_count=5, codec=GZIP, payload=b"no gzip")


def log_of(tmp_path: Path, data: bytes, base_offset: int = 0) -> Path:
    return write_segments(tmp_path / "topic-0", {base_offset: data}) / f"{base_offset:020d}.log"


def damage_of(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["type"] == "damage"]


def summary_of(*paths: Path, **request: Any) -> Row:
    report = Report()
    dump_rows(*paths, report=report, **request)
    return report.summary_row()


# --- which offsets are lost -------------------------------------------------------------------------------------------
def cut_records(count: int, said: int) -> bytes:
    """A batch of `said` records whose bytes end in the middle of the last one that is there."""
    whole = batch_v2(records(3, count), last_offset=3 + said - 1, records_count=said)
    return batch_v2(records_count=said, base_offset=3, last_offset=3 + said - 1, payload=whole[61:-3])


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize(
    ("batch", "next_offset", "sentence"),
    [
        (NO_GZIP, 3, "; offsets 3 to 7 are not read"),
        (
            cut_records(3, 5),
            5,
            "record 3 of 5 cannot be read, although the checksum is correct; offsets 5 to 7 are not read",
        ),
        (cut_records(5, 5), 7, "record 5 of 5 cannot be read, although the checksum is correct; offset 7 is not read"),
        (cut_records(1500, 1500), 1502, "record 1500 of 1500 cannot be read"),
        (
            batch_v2(records(3, 3), last_offset=7, records_count=2),
            5,
            "bytes follow the last of its 2 records, although the checksum is correct; offsets 5 to 7 are not read",
        ),
        (wrapper_v1(records(3, 5), inner=b"x" * 30, offset=7), None, "; its records up to offset 7 are not read"),
    ],
)
def test_payload_damage_names_what_is_lost(
    tmp_path: Path, batch: bytes, next_offset: int | None, sentence: str, newest_first: bool
) -> None:
    rows = dump_rows(log_of(tmp_path, A + batch), level="records", newest_first=newest_first)
    (row,) = damage_of(rows)
    assert (row["size_bytes"], row["next_offset"]) == (0, next_offset)
    assert sentence in row["detail"]


def test_the_wrapper_of_07_is_at_its_address(tmp_path: Path) -> None:
    first = message_v07(b"first")
    path = write_segments(tmp_path / "t-0", {0: first + message_v07(b"no gzip", attributes=1)}, suffix="kafka")
    (row,) = damage_of(dump_rows(path, level="records"))
    assert row["next_offset"] == row["position"] == len(first)


# --- headers and records that lie -------------------------------------------------------------------------------------
LYING = batch_v2(records(3, 3), last_offset=4)


@pytest.mark.parametrize(
    "request_", [{"level": "batches"}, {"level": "records"}, {"stats": True}, {"level": "segments"}]
)
def test_a_header_that_contradicts_itself(tmp_path: Path, request_: dict[str, Any]) -> None:
    report = Report()
    path = log_of(tmp_path, A + LYING + C)
    rows = dump_rows(path, report=report, **request_)
    told = damage_of(rows)
    assert told[0] == damage_of(dump_rows(path, newest_first=True))[0]
    assert (told[0]["reason"], told[0]["position"], told[0]["size_bytes"]) == ("header-contradiction", len(A), 0)
    assert (told[0]["next_offset"], told[0]["severity"]) == (3, "error")
    reasons = ["header-contradiction"] + ["record-offset"] * (request_.get("level") == "records")
    assert [row["reason"] for row in told] == reasons
    assert report.exit_status == 4
    for row in rows:
        assert row.get("damage_count") in {None, 1}


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_record_outside_of_a_large_batch_is_told_once(tmp_path: Path, newest_first: bool) -> None:
    batch = batch_v2([Record(offset=n) for n in range(3000)], last_offset=9, records_count=3000)
    rows = dump_rows(log_of(tmp_path, batch), level="records", newest_first=newest_first)
    reasons = ["header-contradiction", "record-offset"]
    assert sorted(row["reason"] for row in damage_of(rows)) == reasons
    assert len(offsets_of(rows)) == 3000


def test_a_wrong_message_of_07_is_told_backwards_too(tmp_path: Path) -> None:
    inner = [message_v07(b"one"), message_v07(b"two", crc=0x1234), message_v07(b"three")]
    path = write_segments(tmp_path / "t-0", {0: wrapper_v07(inner) + message_v07(b"four")}, suffix="kafka")
    rows = dump_rows(path, level="records")
    (told,) = damage_of(rows)
    assert (told["reason"], "stores checksum 0x00001234" in told["detail"]) == ("message-crc", True)
    assert sorted(map(str, dump_rows(path, level="records", newest_first=True))) == sorted(map(str, rows))


# --- the way back -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("level", ["batches", "records"])
@pytest.mark.parametrize("codec", [0, GZIP])
def test_lines_of_the_way_back_are_those_of_the_way_there(tmp_path: Path, level: str, codec: int) -> None:
    data = b"".join(batch_v2(records(7 * n, 7, size=n % 300), codec=codec * (n % 3 > 0)) for n in range(400))
    log_of(tmp_path, data)
    lines: list[list[bytes]] = []
    for newest_first in (False, True):
        targets = tuple(resolve([str(tmp_path / "topic-0")]))
        request = DumpRequest(targets=targets, level=level, newest_first=newest_first)  # type: ignore[arg-type]
        lines.append([line for chunk in dump(request, Report()) for line in bytes(chunk.ndjson("auto")).splitlines()])
    assert len(lines[0]) == {"batches": 400, "records": 2800}[level]
    assert lines[1] == lines[0][::-1]


# --- what is counted --------------------------------------------------------------------------------------------------
WRAPPED = wrapper_v1(records(0, 4)) + message_v1(Record(offset=4)) + wrapper_v1(records(5, 3))


@pytest.mark.parametrize(
    ("request_", "counts"),
    [
        ({"level": "batches"}, (3, 3, 1, 2)),
        ({"level": "batches", "limit": 2}, (3, 3, 1, 1)),
        ({"level": "batches", "limit": 1, "newest_first": True}, (3, 3, 0, 1)),
        ({"level": "records"}, (3, 0, 8, 0)),
        ({"level": "records", "newest_first": True}, (3, 0, 8, 0)),
        ({"level": "records", "limit": 1}, (3, 2, 1, 0)),
        ({"level": "records", "limit": 1, "newest_first": True}, (3, 2, 1, 0)),
        ({"level": "records", "filters": Filters(codec="none")}, (3, 2, 1, 0)),
        ({"level": "segments"}, (3, 1, 8, 0)),
        ({"stats": True}, (3, 1, 8, 0)),
    ],
)
def test_what_the_summary_counts(tmp_path: Path, request_: dict[str, Any], counts: tuple[int, ...]) -> None:
    summary = summary_of(log_of(tmp_path, WRAPPED), **request_)
    names = ("batches", "unopened_batches", "records", "uncounted_batches")
    assert tuple(summary[name] for name in names) == counts


def test_records_are_counted_up_to_the_limit(tmp_path: Path) -> None:
    assert summary_of(log_of(tmp_path, A + B + C), limit=2)["records"] == 6


def test_times_of_wrappers_are_those_of_their_records(tmp_path: Path) -> None:
    (row,) = [row for row in dump_rows(log_of(tmp_path, wrapper_v1(records(0, 4))), stats=True) if "records" in row]
    assert (row["min_base_timestamp_ms"], row["max_timestamp_ms"]) == (1000, 1003)


# --- what was not read ------------------------------------------------------------------------------------------------
TOTALS = ("files", "files_total", "partitions", "partitions_total", "bytes", "bytes_total")


def home_of(tmp_path: Path) -> Path:
    for number in range(3):
        write_segments(tmp_path / "data" / f"topic-{number}", {0: A + B, 6: C})
    (tmp_path / "data" / "meta.properties").write_text("version=0\nbroker.id=1\n")
    return tmp_path / "data"


def totals(*paths: Path, **request: Any) -> tuple[int, ...]:
    summary = summary_of(*paths, **request)
    return tuple(summary[name] for name in TOTALS)


def test_all_was_read(tmp_path: Path) -> None:
    size = len(A + B + C)
    for request in ({"level": "batches"}, {"level": "records"}, {"level": "segments"}, {"stats": True}):
        assert totals(home_of(tmp_path), **request) == (6, 6, 3, 3, 3 * size, 3 * size)
    read = totals(home_of(tmp_path), files=True)
    assert read[::2] == read[1::2]


def test_a_limit_leaves_a_rest(tmp_path: Path) -> None:
    size = len(A + B + C)
    home = home_of(tmp_path)
    assert totals(home, limit=1) == (1, 2, 1, 3, len(A + B), size)
    assert totals(home, limit=5) == (3, 4, 2, 3, size + len(A + B), 2 * size)
    assert totals(home, limit=1, newest_first=True) == (1, 2, 1, 3, len(C), size)
    assert totals(home, limit=1, stats=True) == (2, 2, 1, 3, size, size)
    assert totals(home, limit=1, files=True)[:4] == (1, 1, 0, 3)  # a line of meta.properties
    assert totals(home / "topic-0", limit=1, files=True)[:2] == (1, 6)


def test_files_by_themselves(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    files = sorted((home / "topic-0").glob("*.log")) + sorted((home / "topic-0").glob("*.index"))
    assert totals(*files, limit=1)[:2] == (2, 4)  # the empty index, and the log
    assert totals(*files) == (4, 4, 0, 0, len(A + B + C), len(A + B + C))


def test_offsets_that_leave_segments_out(tmp_path: Path) -> None:
    assert totals(home_of(tmp_path) / "topic-0", filters=Filters(offsets=(7, None)))[:2] == (1, 2)
