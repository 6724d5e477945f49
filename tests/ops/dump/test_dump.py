"""A dump as a whole: what becomes of limits, damage, unreadable files and a broker at work."""

from __future__ import annotations

import errno
import os
import struct
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import AccessError, NotFoundError
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.storage.source import Source
from tests.support.build import GZIP, NONE, batch_v2, meta_properties
from tests.support.logs import Row, dump_rows, offsets_of, records, write_segments

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

A, B, C = (batch_v2(records(first, 3)) for first in (0, 3, 6))


def of(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["type"] == kind]


# --- limits ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("limit", [0, 1, 1031, 2055, 2056, 2057, 2999, 3000, 3001, 3100, 9000])
def test_a_limit_across_chunks_and_files(tmp_path: Path, limit: int, codec: int) -> None:
    first = batch_v2(records(0, 2500), codec=codec) + batch_v2(records(2500, 500), codec=codec)
    log = write_segments(tmp_path / "topic-0", {0: first, 3000: batch_v2(records(3000, 200))})
    report = Report()
    rows = dump_rows(log, level="records", limit=limit, report=report)
    assert offsets_of(rows) == list(range(min(limit, 3200)))
    assert report.records == min(limit, 3200)


@pytest.mark.parametrize("limit", [0, 1, 4104, 4105, 8210])
def test_a_limit_of_batches(tmp_path: Path, limit: int) -> None:
    data = b"".join(batch_v2(records(n, 1)) for n in range(8300))
    log = write_segments(tmp_path / "topic-0", {0: data})
    assert offsets_of(dump_rows(log, limit=limit), "batch") == list(range(limit))


def test_a_limit_across_partitions(tmp_path: Path) -> None:
    logs = [write_segments(tmp_path / f"topic-{n}", {0: A + B}) for n in range(3)]
    rows = dump_rows(*logs, level="records", limit=8)
    assert [(row["partition"], row["offset"]) for row in of(rows, "record")] == [
        *((0, n) for n in range(6)),
        (1, 0),
        (1, 1),
    ]


@pytest.mark.parametrize(("limit", "expected"), [(1, 1), (2, 2), (4, 4), (5, 5), (7, 7), (9, 8)])
def test_a_limit_counts_entries_of_files_too(tmp_path: Path, limit: int, expected: int) -> None:
    log = write_segments(tmp_path / "topic-0", {0: A + B})
    (log / f"{0:020d}.index").write_bytes(b"".join(struct.pack(">ii", n, n * 80) for n in range(1, 4)))
    (log / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 2\n2 4\n")
    rows = [row for row in dump_rows(log, files=True, limit=limit) if row["type"] not in {"finding", "damage"}]
    assert len(rows) == expected
    (index_rows,) = [dump_rows(log / f"{0:020d}.index", limit=limit)]
    assert len([row for row in index_rows if row["type"] == "index_entry"]) == min(limit, 3)


def test_a_torn_tail_is_no_append_where_another_segment_follows(tmp_path: Path) -> None:
    log = write_segments(tmp_path / "topic-0", {0: (A + B)[:-5], 6: C[:-5]})
    first, last = of(dump_rows(log), "damage")
    assert (first["reason"], first["severity"]) == (last["reason"], last["severity"]) == ("torn-tail", "error")
    assert "the file was truncated, because another segment follows it" in first["detail"]
    assert "append" not in first["detail"]
    assert "the rest is missing" in last["detail"]


def test_a_limit_counts_rows_not_damage(tmp_path: Path) -> None:
    broken = B[:-1] + bytes([B[-1] ^ 0xFF])
    log = write_segments(tmp_path / "topic-0", {0: A + broken + C})
    rows = dump_rows(log, level="records", limit=4)
    assert [row["type"] for row in rows] == ["record"] * 3 + ["damage", "record"]


# --- damage ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("level", ["segments", "batches", "records"])
def test_damage_never_ends_it(tmp_path: Path, level: str) -> None:
    broken = B[:-1] + bytes([B[-1] ^ 0xFF])
    log = write_segments(tmp_path / "topic-0", {0: A + broken + b"\xff" * 40, 6: C})
    report = Report()
    rows = dump_rows(log, level=level, report=report)
    (damage,) = of(rows, "damage")
    assert (damage["topic"], damage["partition"], damage["segment"]) == ("topic", 0, f"{0:020d}.log")
    assert (damage["position"], damage["size_bytes"], damage["next_offset"]) == (len(A), len(broken) + 40, 3)
    assert (report.exit_status, report.damage_count, report.bytes) == (4, 1, len(A + broken + C) + 40)
    if level == "records":
        assert offsets_of(rows) == [0, 1, 2, 6, 7, 8]


@pytest.mark.parametrize("level", ["batches", "records"])
def test_an_undecodable_payload_stands_where_its_records_would(tmp_path: Path, level: str) -> None:
    bad = batch_v2(records(3, 3), codec=GZIP, payload=b"no gzip at all")
    log = write_segments(tmp_path / "topic-0", {0: A + bad + C})
    report = Report()
    rows = of(dump_rows(log, level=level, report=report), "damage")
    assert [(row["position"], row["size_bytes"]) for row in rows] == ([(len(A), 0)] if level == "records" else [])
    assert report.bytes == len(A + bad + C)


@pytest.mark.parametrize(("mark", "exit_status"), [("none", 0), ("file", 4), ("broken link", 0)])
def test_a_zero_tail_is_an_error_where_no_broker_will_cut_it(tmp_path: Path, mark: str, exit_status: int) -> None:
    home = tmp_path / "data"
    log = write_segments(home / "topic-0", {0: A + bytes(1000)})
    (home / "meta.properties").write_bytes(meta_properties({"version": "0", "broker.id": "1"}))
    if mark == "file":
        (home / ".kafka_cleanshutdown").touch()
    elif mark == "broken link":
        (home / ".kafka_cleanshutdown").symlink_to(home / "nothing")
    report = Report()
    (damage,) = of(dump_rows(log, report=report), "damage")
    assert (damage["reason"], damage["size_bytes"]) == ("zero-filled", 1000)
    assert report.exit_status == exit_status


# --- files that cannot be read ----------------------------------------------------------------------------------------
def refusing(path: Path, number: int) -> Callable[[type[Source], str], Source]:
    """`Source.open` that is refused one file."""
    original = Source.open.__func__  # type: ignore[attr-defined]

    def opened(kind: type[Source], name: str) -> Source:
        if os.fspath(name) == str(path):
            error = NotFoundError if number == errno.ENOENT else AccessError
            raise error(os.strerror(number), path=str(path))
        return original(kind, name)  # type: ignore[no-any-return]

    return opened


@pytest.mark.parametrize(("number", "code"), [(errno.ENOENT, "file.vanished"), (errno.EACCES, "file.not-readable")])
@pytest.mark.parametrize("request_", [{"level": "records"}, {"level": "segments"}, {"stats": True}])
def test_a_file_that_cannot_be_opened_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str, request_: dict[str, Any]
) -> None:
    log = write_segments(tmp_path / "topic-0", {0: A, 3: B, 6: C})
    path = log / f"{3:020d}.log"
    monkeypatch.setattr(Source, "open", classmethod(refusing(path, number)))
    rows = dump_rows(log, **request_)
    assert [row["file"] for row in of(rows, "finding") if row["code"] == code] == [str(path)]
    if request_ == {"level": "records"}:
        assert offsets_of(rows) == [0, 1, 2, 6, 7, 8]


def test_a_file_that_was_named_itself_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_segments(tmp_path / "topic-0", {0: A}) / f"{0:020d}.log"
    request = DumpRequest(targets=tuple(resolve([str(path)])))
    monkeypatch.setattr(Source, "open", classmethod(refusing(path, errno.EACCES)))
    with pytest.raises(AccessError):
        list(dump(request, Report()))


def test_blocks_that_the_disk_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_segments(tmp_path / "topic-0", {0: batch_v2(records(0, 1, size=20_000)) + A}) / f"{0:020d}.log"
    original = Source._pread

    def pread(source: Source, target: memoryview, position: int) -> int:
        if position < 2 * 4096 and position + len(target) > 4096:
            raise OSError(errno.EIO, "bad sector")
        return original(source, target, position)

    request = DumpRequest(targets=tuple(resolve([str(path)])), level="records")
    monkeypatch.setattr(Source, "_pread", pread)
    report = Report()
    rows = [row for chunk in dump(request, report) for row in chunk.rows()]
    assert [row["reason"] for row in of(rows, "damage")] == ["unreadable"]
    assert offsets_of(rows) == [0, 1, 2]
    assert report.bytes == path.stat().st_size


# --- a broker at work -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda path: path.write_bytes(A + B + C), "file.grew"),
        (lambda path: os.truncate(path, len(A)), "file.shrank"),
        (lambda path: path.write_bytes(A + C + C), "file.shrank"),  # cut behind A, and longer than before
        (lambda path: (path.unlink(), path.write_bytes(C)), "file.replaced"),
        (lambda path: os.utime(path, ns=(1, 1)), "file.modified"),
    ],
)
@pytest.mark.parametrize("newest_first", [False, True])
def test_a_file_that_changes_while_it_is_read(
    tmp_path: Path, change: Callable[[Path], object], code: str, newest_first: bool
) -> None:
    path = write_segments(tmp_path / "topic-0", {0: A + B}) / f"{0:020d}.log"
    report = Report()
    request = DumpRequest(targets=tuple(resolve([str(path)])), level="records", newest_first=newest_first)
    chunks = dump(request, report)
    rows = list(next(chunks).rows())
    change(path)
    rows += [row for chunk in chunks for row in chunk.rows()]
    assert sorted(offsets_of(rows))[:3] in ([0, 1, 2], [3, 4, 5])
    assert [row["code"] for row in of(rows, "finding")] == [code]
    assert report.exit_status == 0


@pytest.mark.parametrize("newest_first", [False, True])
def test_preallocated_space_is_cut_off_while_it_is_read(tmp_path: Path, newest_first: bool) -> None:
    """A broker rolled the segment: no record is lost, and nothing that was shown is deleted."""
    path = write_segments(tmp_path / "topic-0", {0: A + B + bytes(500)}) / f"{0:020d}.log"
    report = Report()
    request = DumpRequest(targets=tuple(resolve([str(path)])), level="records", newest_first=newest_first)
    chunks = dump(request, report)
    rows = list(next(chunks).rows())
    os.truncate(path, len(A + B))
    rows += [row for chunk in chunks for row in chunk.rows()]
    assert sorted(offsets_of(rows)) == [0, 1, 2, 3, 4, 5]
    assert [row["code"] for row in of(rows, "finding")] == ["file.trimmed"]


# --- sums -----------------------------------------------------------------------------------------------------------
def test_the_summary_adds_up(tmp_path: Path) -> None:
    broken = B[:-1] + bytes([B[-1] ^ 0xFF])
    log = write_segments(tmp_path / "topic-0", {0: A + broken, 6: C + b"torn"})
    report = Report()
    rows = dump_rows(log, level="records", report=report)
    summary = report.summary_row()
    assert summary["rows"] == len(rows)
    assert (summary["files"], summary["partitions"]) == (2, 1)
    assert (summary["batches"], summary["records"]) == (2, 6)
    assert summary["bytes"] == len(A + broken + C) + 4
    assert (summary["damage_count"], summary["damage_bytes"]) == (2, len(broken) + 4)
    assert {code: count for code, count in summary["codes"].items() if "-" in code} == {  # type: ignore[attr-defined]
        "crc-mismatch": 1,
        "torn-tail": 1,
    }
