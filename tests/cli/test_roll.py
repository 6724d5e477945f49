"""`kafkalog roll` on the command line: what it shows, how it ends, and what it refuses."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from kafkalog_cli.main import cli
from kafkalog_core.errors import SettingError
from tests.support.roll_logs import make_dir

if TYPE_CHECKING:
    from pathlib import Path

SMALL = ("--set", "internal.segment.bytes=2000", "--kafka", "4.3")


def run(*arguments: str | Path, output: str = "ndjson") -> Result:
    return CliRunner().invoke(cli, ["roll", "--output", output, "--jobs", "1", *map(str, arguments)])


def rows(result: Result, kind: str) -> list[dict[str, Any]]:
    return [row for row in map(json.loads, result.stdout.splitlines()) if row["type"] == kind]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return make_dir(tmp_path / "logs")


def test_rows(log_dir: Path) -> None:
    result = run(log_dir, *SMALL)
    assert result.exit_code == 0
    (rolling,) = rows(result, "rolling")
    segments = rows(result, "rolled_segment")
    assert rolling["segments_after"] == len(segments)
    assert rolling["rolls"] == {"bytes": len(segments) - 1}
    (summary,) = rows(result, "summary")
    assert (summary["records"], summary["batches"], summary["partitions"], summary["exit_status"]) == (40, 40, 1, 0)
    assert summary["rows"] == len(segments) + 1


@pytest.mark.parametrize("output", ["json", "csv", "table"])
def test_other_forms(log_dir: Path, output: str) -> None:
    result = run(log_dir, *SMALL, "--details", output=output)
    assert result.exit_code == 0
    assert "2000" in result.stdout


def test_the_table_names_directories_and_counts_one_segment_as_one(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    moving = f"t-0.{'0123456789abcdef' * 2}-future"
    shutil.copytree(log_dir / "t-0", log_dir / moving)
    lines = run(log_dir, *SMALL, output="table").stdout.splitlines()
    assert [line.split()[0] for line in lines[3:5]] == ["t-0", moving]
    alone = run(log_dir / "t-0", "--kafka", "4.3", output="table").stdout
    assert alone.startswith("WOULD ROLL: t-0: 1 segment instead of 2; each batch counts as one append.")


def test_the_table_says_what_comes_out_and_why(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    shutil.copytree(log_dir / "t-0", log_dir / "t-1")
    shutil.copytree(log_dir / "t-0", log_dir / "t-2")
    shutil.copytree(log_dir / "t-0", log_dir / "t-3")
    asked = (log_dir, *SMALL, "--segment-jitter-ms", "5", "--segment-ms", "10")
    text = run(*asked, output="table").stdout
    lines = text.splitlines()
    assert lines[0] == "WOULD ROLL INTO 36 segments instead of 8; 4 of 4 partitions differ."
    assert "by the rules of Kafka 4.3\n" in text
    assert "next batch" not in text
    assert "4 findings of severity info" in text
    assert lines[-1] == "exit status 0"
    full = run(*asked, "--details", "--explain", output="table").stdout
    assert "by the rules of Kafka 4.3: --kafka 4.3" in full
    assert "segment.bytes=2000, segment.ms=10, segment.jitter.ms=5 (--set)" in " ".join(full.split())
    assert "next batch" in full
    assert "roll.jitter" in full


def test_partitions_that_stay_as_they_are_are_counted(log_dir: Path) -> None:
    shutil.copytree(log_dir / "t-0", log_dir / "t-1")
    text = run(log_dir, "--kafka", "4.3", "--set", "segment.bytes=1048576", output="table").stdout
    new = run(log_dir, "--kafka", "4.3", "--apply", "--to", log_dir.parent / "new", output="table")
    assert new.exit_code == 0
    assert "WOULD ROLL INTO 2 segments instead of 4" in text
    same = run(log_dir.parent / "new", "--kafka", "4.3", output="table").stdout
    assert same.startswith("WOULD ROLL INTO the same 2 segments as on the disk, in 2 partitions.")
    assert "2 partitions with the same segments as on the disk" in same


def test_many_segments_are_not_all_shown(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr("kafkalog_cli.render.roll_table.SHOWN_SEGMENTS", 3)
    monkeypatch.setattr("kafkalog_cli.render.answer.SHOWN_PARTITIONS", 1)
    shutil.copytree(log_dir / "t-0", log_dir / "t-1")
    text = run(log_dir, *SMALL, "--details", output="table").stdout
    assert "... and 1 more partition: --output ndjson has them all" in text
    assert "more segments: --output ndjson has them all" in text


def test_a_directory_is_written(log_dir: Path, tmp_path: Path) -> None:
    result = run(log_dir, *SMALL, "--apply", "--to", tmp_path / "new", output="table")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert text.startswith("WRITTEN: t-0: 9 segments instead of 2; each batch counts as one append, in ")
    assert f"in {tmp_path}/new, on which a broker starts without recovery" in text
    assert (tmp_path / "new/meta.properties").exists()
    again = run(log_dir, *SMALL, "--apply", "--to", tmp_path / "new")
    assert again.exit_code == 3
    assert "not empty" in again.stderr
    assert run(tmp_path / "new", *SMALL).exit_code == 0


def test_a_damaged_log_is_an_error_and_is_not_written(log_dir: Path, tmp_path: Path) -> None:
    path = log_dir / "t-0" / f"{0:020d}.log"
    content = path.read_bytes()
    path.write_bytes(content[:-3])
    told = run(log_dir, *SMALL)
    assert (told.exit_code, [row["code"] for row in rows(told, "finding")]) == (4, ["roll.damaged"])
    refused = run(log_dir, *SMALL, "--apply", "--to", tmp_path / "new")
    assert refused.exit_code == 3
    assert "kafkalog recover" in refused.stderr
    assert not (tmp_path / "new").exists()


def test_what_can_be_read_is_shown_though_another_path_cannot(log_dir: Path, tmp_path: Path) -> None:
    result = run(log_dir, tmp_path / "nowhere", *SMALL)
    assert result.exit_code == 3
    assert len(rows(result, "rolling")) == 1
    assert "nowhere" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--apply",), "--apply and --to DIR need each other"),
        (("--to", "x"), "--apply and --to DIR need each other"),
        (("--segment-bytes", "-5"), "out of range"),
        (("--segment-ms", "0"), "out of range"),
        (("--segment-bytes", "many"), "whole number"),
        (("--segment-bytes", "5000000", "--set", "segment.bytes=6000000"), "contradict each other"),
        (("--jitter-seed", "-1"), "--jitter-seed"),
    ],
)
def test_nonsense_is_a_usage_error(log_dir: Path, arguments: tuple[str, ...], words: str) -> None:
    result = run(log_dir, *arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


def test_what_no_broker_takes_is_refused(log_dir: Path) -> None:
    result = run(log_dir, "--kafka", "4.3", "--segment-bytes", "1000")
    assert result.exit_code == 3
    assert "Kafka 4.3 requires at least 1048576" in result.stderr


def test_an_error_behind_rows_ends_with_its_status(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkalog_cli.commands import roll as command  # noqa: PLC0415 - what is patched

    real = command.roll

    def fails(request: Any, report: Any, progress: Any) -> Any:
        yield from real(request, report, progress)
        raise SettingError("of another topic")

    monkeypatch.setattr(command, "roll", fails)
    result = run(log_dir, *SMALL)
    assert result.exit_code == 3
    assert rows(result, "summary")[0]["exit_status"] == 3


def test_findings_beyond_what_is_kept_are_counted(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog_cli.render.summary.KEPT_FINDINGS", 0)
    jitter = ("--segment-jitter-ms", "5", "--details")
    assert "1 more finding" not in run(log_dir, *SMALL, *jitter, output="table").stdout
    monkeypatch.setattr("kafkalog_cli.render.summary.KEPT_FINDINGS", 1)
    shutil.copytree(log_dir / "t-0", log_dir / "t-1")
    text = run(log_dir, *SMALL, *jitter, output="table").stdout
    assert "... and 1 more finding: --output ndjson has them all" in text


def test_an_interrupted_run_says_so(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkalog_cli.commands import roll as command  # noqa: PLC0415 - what is patched
    from kafkalog_cli.commands.running import Stopped  # noqa: PLC0415

    def stopped(*_: object) -> Any:
        raise Stopped
        yield

    monkeypatch.setattr(command, "roll", stopped)
    result = run(log_dir, *SMALL)
    assert result.exit_code == 1
    assert rows(result, "summary")[0]["interrupted"] is True
