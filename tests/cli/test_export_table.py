"""The table of an export: its first line, what is folded, and the order of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_cli.render.writers import EXPORTS, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.findings import found
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk

if TYPE_CHECKING:
    import pytest


def row(partition: int, records: int = 0, state: str = "", **more: object) -> dict[str, object]:
    state = state or ("exported" if records else "unchanged")
    zeros = dict.fromkeys(("removed_records", "errors", "warnings", "file_bytes", "log_bytes"), 0)
    return {"topic": "t", "partition": partition, "state": state, "records": records, **zeros, **more}


def shown(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    rows: list[dict[str, object]],
    *codes: str,
    commit: int = 7,
    **summary: Any,
) -> list[str]:
    monkeypatch.setenv("COLUMNS", "150")
    writer = open_results(EXPORTS, "table", "/data/out", lambda: commit)
    report = Report()
    findings = [
        found(code, "/kafka/t-0", topic="t", partition=0, offset=5, last=9, previous="0.log").row() for code in codes
    ]
    for finding in findings:
        report.add_finding(finding)
    writer.write(RowChunk(tables.FINDING, findings))
    writer.write(RowChunk(tables.EXPORT, rows))
    writer.finish(report.summary_row() | summary)
    return capsys.readouterr().out.splitlines()


def test_what_was_exported_comes_first(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(0), row(1, 5), row(2, 2340), row(3, 1, errors=1), row(4)]
    lines = shown(capsys, monkeypatch, rows, "segment.gap")
    assert lines[0] == (
        "2,346 records of 3 partitions exported to /data/out/records (commit 7); 1 partition with errors; "
        "1 gap in the offsets"
    )
    assert [line.split()[0] for line in lines if line.startswith("t-")] == ["t-3", "t-2", "t-1"]
    assert "2 more partitions without changes" in lines


def test_nothing_new(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(capsys, monkeypatch, [row(0), row(1)])
    assert lines[0] == "Nothing new since commit 7 of /data/out, in 2 partitions"
    assert not [line for line in lines if line.startswith("t-")]
    assert shown(capsys, monkeypatch, [row(0)], commit=0)[0] == "No records to export to /data/out, in 1 partition"
    interrupted = shown(capsys, monkeypatch, [], interrupted=True)
    assert interrupted[0] == "Interrupted before anything was added to /data/out"


def test_what_is_stopped_and_what_is_replaced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row(0, state="stopped", errors=1), row(1, 10, removed_records=8)]
    lines = shown(capsys, monkeypatch, rows)
    assert " ".join(line.strip() for line in lines[:2]) == (
        "10 records of 1 partition exported to /data/out/records (commit 7), which replace 8 records that were "
        "exported before; 1 partition stopped: the log differs from the exported one"
    )


def test_thousands_of_partitions(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(capsys, monkeypatch, [row(number, 1) for number in range(1000)], *["segment.gap"] * 1500)
    assert "... and 900 more partitions: --output ndjson has them all" in lines
    assert "... and 500 more findings: --output ndjson has them all" in lines
    assert len([line for line in lines if line.startswith("t-")]) == 100
