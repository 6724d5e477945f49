"""What a person sees of copies that differ, in a narrow terminal too."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from kafkalog_cli.render.writers import REPLICAS, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.findings import found
from kafkalog_core.ops.replicas.replicas import ReplicasRequest, replicas, work_of
from tests.support.replica_copies import batches, lay

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


_TIMES = "1970-01-01T00:00:00.020Z to 1970-01-01T00:00:00.024Z"


def _shown(monkeypatch: pytest.MonkeyPatch, columns: int, *log_dirs: Path) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    monkeypatch.setattr(sys, "stdout", stdout)
    writer, report = open_results(REPLICAS, "table"), Report()
    writer.write(found("dir.unreadable", "/gone", reason="no permission to read it"))
    for item in replicas(work_of(ReplicasRequest(targets=tuple(resolve([str(path) for path in log_dirs])))), report):
        writer.write(item)
    writer.finish(report.summary_row())
    stdout.seek(0)
    return stdout.read()


def test_each_kind_of_difference_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = batches(0, 99)
    broken = [*log[:4], log[4][:-1] + bytes([log[4][-1] ^ 0xFF]), *log[5:]]
    lost = [part for row, part in enumerate(log) if row % 2 == 0 or row > 18]
    dirs = [lay(tmp_path, 1, {0: broken}), lay(tmp_path, 2, {0: lost}), lay(tmp_path, 3, {0: log})]
    text = _shown(monkeypatch, 1000, *dirs)  # temporary paths may be long
    assert "t-0: damaged, 3 copies" in text
    assert (
        f"Keep {tmp_path}/broker-3/t-0: all copies have the same history, and this one lacks the fewest records."
        in text
    )
    assert "broker 1: Damaged at byte" in text
    assert "broker 2: It has lost 45 records, and no broker notices that" in text
    assert f"offsets 20..24, damaged, 5 records, {_TIMES}: damaged in broker 1; the records in broker 2, " in text
    assert "dir.unreadable" in text
    assert text.splitlines()[0] == (
        "Keep broker 3's copy of t-0; no other copy has a record that it lacks. 1 partition: 1 damaged"
    )
    narrow = _shown(monkeypatch, 60, *dirs)
    assert max(len(line.replace(str(tmp_path), "")) for line in narrow.splitlines()[:-1]) < 200
    assert "the line is too short" not in narrow or "state" in narrow


def test_the_worst_comes_first_and_what_would_be_lost_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    common = batches(0, 19)
    old = lay(tmp_path, 1, {0: common + batches(20, 44, word=" old")})
    new = lay(tmp_path, 2, {0: common + batches(20, 34, epoch=3, word=" new")}, epochs=((0, 0), (3, 20)))
    for name, parts in (("a-0", common[:2]), ("a-1", common)):
        for root, kept in ((old, common), (new, parts)):
            (root / name).mkdir()
            (root / name / "00000000000000000000.log").write_bytes(b"".join(kept))
    lines = _shown(monkeypatch, 200, old, new).splitlines()
    assert lines[0] == (
        "Keep broker 2's copy of t-0; 25 records are only on broker 1: offsets 20..44, 1970-01-01T00:00:00.020Z to "
        "1970-01-01T00:00:00.044Z. 3 partitions: 1 divergent, 1 behind, 1 identical"
    )
    titles = [line for line in lines if line.endswith("2 copies")]
    assert titles == ["t-0: divergent from offset 20 on, 2 copies", "a-0: behind, 2 copies"]


def test_many_ranges_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = batches(0, 499)
    lost = [part for row, part in enumerate(log) if row % 2 == 0]
    text = _shown(monkeypatch, 160, lay(tmp_path, 1, {0: lost}), lay(tmp_path, 2, {0: log}))
    assert "... and 30 more ranges: --output ndjson has them all" in text


def test_rows_for_programs(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    log = batches(0, 9)
    dirs = [lay(tmp_path, 1, {0: log}), lay(tmp_path, 2, {0: log[:1]})]
    writer, report = open_results(REPLICAS, "csv"), Report()
    for item in replicas(work_of(ReplicasRequest(targets=tuple(resolve([str(path) for path in dirs])))), report):
        writer.write(item)
    writer.finish(report.summary_row())
    header, *lines = capfdbinary.readouterr().out.decode().splitlines()
    assert header.startswith("type,topic,partition,state,copies,keep")
    assert [line.partition(",")[0] for line in lines] == [
        "replica",
        "replica_copy",
        "replica_copy",
        "replica_range",
        "finding",
    ]
