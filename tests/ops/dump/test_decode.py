"""Rows of Kafka's own topics: what key and value say, in every form of output, and what does not decode."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_cli.commands.dump import row_types
from kafkalog_core.engine import chunks
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.filters.expression import Filters
from kafkalog_core.format.names import FileKind, parse_file_name
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.follow import follow
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import csv_columns, json_line
from kafkalog_core.topics.group_offsets import CommittedOffset
from kafkalog_core.topics.group_records import encode_offset
from tests.support.build import COMMIT, GZIP, Record, batch_v2, message_v1, txn_marker
from tests.support.logs import dump_rows, records, write_segments

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GROUPS = "__consumer_offsets-7"
KEY = {"type": 1, "name": "OffsetCommit", "data": {"group": "käse", "topic": "orders", "partition": 3}}


def commit(offset: int, *, is_tombstone: bool = False) -> Record:
    where = CommittedOffset(offset=40 + offset, leader_epoch=2, metadata="m", commit_timestamp_ms=9)
    key, value = encode_offset("käse", "orders", 3, None if is_tombstone else where)
    return Record(offset=offset, timestamp_ms=1000 + offset, key=key, value=value)


def strange(offset: int) -> Record:
    """A record of a later release."""
    return Record(offset=offset, timestamp_ms=1000 + offset, key=b"\0\x63k%d" % offset, value=b"v")


def value_of(offset: int) -> dict[str, Any]:
    data = {"offset": 40 + offset, "leaderEpoch": 2, "metadata": "m", "commitTimestamp": 9}
    return {"version": 3, "data": data}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Commits, a tombstone, a marker of a transaction, a record that is none, and a compressed batch."""
    data = batch_v2([commit(0), commit(1), commit(2, is_tombstone=True)])
    data += batch_v2([commit(3)], is_transactional=True, producer_id=4, producer_epoch=0, base_sequence=0)
    data += txn_marker(COMMIT, offset=4, producer_id=4, producer_epoch=0)
    data += batch_v2([strange(5), strange(6)]) + batch_v2([commit(7)], codec=GZIP)
    return write_segments(tmp_path / GROUPS, {0: data})


def chunks_of(log: Path, **options: Any) -> Iterator[Any]:
    request = DumpRequest(targets=tuple(resolve([str(log)])), level="records", **{"decode": "auto", **options})
    return dump(request, Report())


def records_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["type"] == "record"]


def test_rows_have_what_key_and_value_say(log: Path) -> None:
    rows = records_of(dump_rows(log, level="records", decode="auto"))
    assert [row["decoded_key"] for row in rows] == [KEY, KEY, KEY, KEY, None, None, None, KEY]
    assert [row["decoded_value"] for row in rows] == [
        value_of(0), value_of(1), None, value_of(3), None, None, None, value_of(7),
    ]  # fmt: skip
    assert all(tuple(row) == tables.RECORD_DECODED.names for row in rows)
    raw = records_of(dump_rows(log, level="records"))
    assert all(tuple(row) == tables.RECORD.names for row in raw)
    assert [{name: row[name] for name in tables.RECORD.names} for row in rows] == raw, "the bytes are in both"


def test_what_does_not_decode_is_one_finding_for_each_kind(log: Path) -> None:
    report = Report()
    (finding,) = [row for row in dump_rows(log, level="records", decode="auto", report=report) if "code" in row]
    assert finding["code"] == "record.not-decoded"
    assert finding["message"] == (
        "Records do not decode because the key has the unknown type 99: 2 records, the first at offset 5."
    )
    assert (finding["topic"], finding["partition"], finding["offset"]) == ("__consumer_offsets", 7, 5)
    assert finding["severity"] == "warning"
    assert report.exit_status == 0
    assert not [row for row in dump_rows(log, level="records") if "code" in row], "nothing was decoded"


@pytest.mark.parametrize("mode", ["auto", "base64", "hex"])
@pytest.mark.parametrize("path", [False, True])
def test_lines_are_those_of_the_rows(log: Path, mode: Any, path: bool) -> None:
    by_lines = b"".join(part for chunk in chunks_of(log, path=path) for part in map(bytes, chunk.parts(mode)))
    by_rows = b"".join(json_line(chunk.table, row, mode) for chunk in chunks_of(log, path=path) for row in chunk.rows())
    assert by_lines == by_rows


def test_long_lines_come_in_pieces(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [bytes(chunk.ndjson("auto")) for chunk in chunks_of(log)]
    monkeypatch.setattr(chunks, "LONG_BYTES", 10)
    monkeypatch.setattr(chunks.LineBuffer.__init__, "__defaults__", (300,))
    assert [b"".join(map(bytes, chunk.parts("auto"))) for chunk in chunks_of(log)] == whole


def test_csv_has_json_text(log: Path) -> None:
    request = DumpRequest(targets=tuple(resolve([str(log)])), level="records", decode="auto")
    header = tuple(csv_columns(row_types(request), "auto"))
    lines = b"".join(part for chunk in dump(request, Report()) for part in chunk.csv(header, "auto"))
    rows = [dict(zip(header, line, strict=True)) for line in csv.reader(io.StringIO(lines.decode(), newline=""))]
    assert json.loads(rows[0]["decoded_key"]) == KEY
    assert json.loads(rows[0]["decoded_value"]) == value_of(0)
    assert [row["decoded_value"] for row in rows[2:3]] == [""]
    assert rows[-1]["code"] == "record.not-decoded"


def test_only_selected_records_are_decoded(log: Path) -> None:
    rows = dump_rows(log, level="records", decode="auto", filters=Filters(key=b"\0\x63k5"))
    assert [row.get("offset") for row in rows] == [5, 5]
    assert rows[1]["message"].endswith(": 1 record, the first at offset 5.")
    rows = dump_rows(log, level="records", decode="auto", filters=Filters(offsets=(0, 1)))
    assert [row["type"] for row in rows] == ["record"] * 2
    rows = dump_rows(log, level="records", decode="auto", counts=True)
    assert [row["type"] for row in rows] == ["count"]


def test_filters_test_the_bytes(log: Path) -> None:
    assert not records_of(dump_rows(log, level="records", decode="auto", filters=Filters(contains=b"OffsetCommit")))
    assert (
        len(records_of(dump_rows(log, level="records", decode="auto", filters=Filters(contains="käse".encode())))) == 5
    )


@pytest.mark.parametrize(
    "options",
    [
        {"newest_first": True},
        {"limit": 6},
        {"before": 1, "after": 1, "filters": Filters(key=b"\0\x63k5")},
        {"committed": "log-end"},
        {"resync": True},
    ],
    ids=lambda options: next(iter(options)),
)
def test_with_every_way_to_read(log: Path, options: dict[str, Any]) -> None:
    rows = dump_rows(log, level="records", decode="auto", **options)
    shown = {row["offset"]: row["decoded_value"] for row in records_of(rows)}
    assert shown
    wanted = {0: value_of(0), 1: value_of(1), 3: value_of(3), 7: value_of(7)}
    assert shown == {offset: wanted.get(offset) for offset in shown}
    assert [row["code"] for row in rows if "code" in row] == ["record.not-decoded"]


def test_files_of_another_name_are_decoded_by_the_name_of_a_topic(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "rescued-0"
    log.rename(other)
    assert "decoded_key" not in dump_rows(other, level="records", decode="auto")[0]
    assert dump_rows(other, level="records", decode="__consumer_offsets")[0]["decoded_key"] == KEY
    file = other / f"{0:020d}.log"
    assert dump_rows(file, level="records", decode="__consumer_offsets")[0]["decoded_key"] == KEY
    wrong = dump_rows(other, level="records", decode="__transaction_state")
    assert [row["decoded_key"] for row in records_of(wrong)] == [None] * 8
    messages = [row["message"] for row in wrong if "code" in row]
    assert messages[0] == (
        "Records do not decode because the key has the unknown type 1: 5 records, the first at offset 0."
    )


def test_old_formats(tmp_path: Path) -> None:
    """Of 0.8.2 on; a 0.7 log has no such topic, and its rows are not decoded."""
    one = commit(0)
    log = write_segments(tmp_path / GROUPS, {0: message_v1(one)})
    assert dump_rows(log, level="records", decode="auto")[0]["decoded_value"] == value_of(0)


def test_many_kinds_of_problems_are_one_finding(tmp_path: Path) -> None:
    some = [Record(offset=at, key=(100 + at).to_bytes(2, "big"), value=b"") for at in range(40)]
    log = write_segments(tmp_path / GROUPS, {0: batch_v2(some)})
    found = [row["message"] for row in dump_rows(log, level="records", decode="auto") if "code" in row]
    assert len(found) == 21
    what = "of still other problems (the key has the unknown type 120)"
    assert found[-1] == f"Records do not decode because {what}: 20 records, the first at offset 20."


def test_a_log_that_grows(log: Path) -> None:
    """Each kind of problem is reported once for a file."""
    file = log / f"{0:020d}.log"
    turns = iter(
        (batch_v2([strange(8), strange(9)]) + batch_v2([commit(11)]), batch_v2([Record(offset=12, key=b"", value=b"")]))
    )

    def wait() -> bool:
        more = next(turns, None)
        if more is None:
            return True
        with file.open("ab") as stream:
            stream.write(more)
        return False

    request = DumpRequest(targets=tuple(resolve([str(log)])), level="records", decode="auto")
    lines = [
        json.loads(line)
        for chunk in follow(request, Report(), wait=wait)
        for line in bytes(chunk.ndjson("hex")).splitlines()
    ]
    assert {row["offset"]: row["decoded_value"] for row in records_of(lines)}[11] == value_of(11)
    assert [row["message"].partition(": ")[2] for row in lines if "code" in row] == [
        "2 records, the first at offset 5.",
        "1 record, the first at offset 12.",
    ]


def test_snapshots_of_the_metadata_log(corpus: Path) -> None:
    seen = {FileKind.LOG: 0, FileKind.KRAFT_SNAPSHOT: 0}
    for directory in sorted(corpus.glob("modern/08-internal-*/logdir/__cluster_metadata-0")):
        files = [*directory.glob("*.log"), *directory.glob("*.checkpoint")]
        for file in files:
            rows = dump_rows(file, level="records", decode="auto")
            assert not [row for row in rows if "code" in row]
            found = [row["decoded_value"] is not None for row in records_of(rows) if row["control_type"] is None]
            assert all(found)
            seen[parse_file_name(file.name).kind] += len(found)
    assert min(seen.values()) > 20


def test_csv_columns_are_only_there_where_they_may_be_filled(log: Path, tmp_path: Path) -> None:
    other = write_segments(tmp_path / "orders-0", {0: batch_v2(records(0, 1))})

    def header(*paths: Path, decode: str = "auto", is_following: bool = False) -> set[str]:
        targets = tuple(resolve([*map(str, paths)]))
        request = DumpRequest(targets=targets, level="records", decode=decode)
        return set(csv_columns(row_types(request, is_following=is_following), "auto")) & {"decoded_key"}

    assert header(log)
    assert header(log, other)
    assert header(other, decode="__cluster_metadata")
    assert header(tmp_path)
    assert not header(other)
    assert not header(log, decode="none")
    (tmp_path / GROUPS).rename(tmp_path / "payments-0")
    assert not header(tmp_path)
    assert header(tmp_path, is_following=True), "the topic may be created later"
