"""Two directories of one partition on one command line: how their rows are reported apart in each form of output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from kafkalog_cli.main import cli
from tests.support.build import batch_v2
from tests.support.logs import records, write_segments

if TYPE_CHECKING:
    from pathlib import Path

LOG = f"{0:020d}.log"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A directory with a partition, and another one of its name that waits for its deletion."""
    for name, count in (("t-0", 3), ("t-0.0123-delete", 2), ("u-0", 1)):
        write_segments(tmp_path / name, {0: batch_v2(records(0, count))})
    return tmp_path


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["dump", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result


@pytest.mark.parametrize("level", ["--batches", "--records", "--segments", "--stats"])
def test_a_table_shows_the_paths(disk: Path, level: str) -> None:
    lines = run("--output", "table", level, str(disk)).stdout.splitlines()
    file = "" if level in {"--segments", "--stats"} else f"/{LOG}"
    headings = [line for line in lines if line.startswith(str(disk)) and "segment" not in line]
    expected = [f"{disk / name}{file}" for name in ("t-0", "t-0.0123-delete", "u-0")]
    assert [heading for heading in headings if heading in expected] == expected


def test_a_table_of_one_directory_each_shows_names(disk: Path) -> None:
    text = run("--output", "table", "--exclude", "t", str(disk)).stdout
    assert f"u-0/{LOG}" in text
    assert str(disk) not in text


@pytest.mark.parametrize("output", ["json", "ndjson", "csv"])
def test_other_forms_say_that_there_is_an_option(disk: Path, output: str) -> None:
    result = run("--output", output, str(disk))
    assert "several directories of t-0; --path adds a column" in result.stderr
    assert "path" not in result.stdout.partition("\n")[0].replace("file", "")
    assert "--path" not in run("--output", output, "--path", str(disk)).stderr
    assert "--path" not in run("--output", output, "--topic", "u", str(disk)).stderr


def test_json_lines_with_paths(disk: Path) -> None:
    rows = [json.loads(line) for line in run("--output", "ndjson", "--path", str(disk)).stdout.splitlines()]
    places = [row["path"] for row in rows if row["type"] == "batch"]
    assert places == [f"{disk / name}/{LOG}" for name in ("t-0", "t-0.0123-delete", "u-0")]


def test_csv_with_paths(disk: Path) -> None:
    header, first, *_ = run("--output", "csv", "--path", str(disk)).stdout.splitlines()
    assert header.split(",")[:5] == ["type", "topic", "partition", "segment", "path"]
    assert first.split(",")[4] == f"{disk / 't-0'}/{LOG}"


def test_many_partitions_are_named_shortly(tmp_path: Path) -> None:
    for number in range(8):
        for name in (f"t-{number}", f"t-{number}.0123-delete"):
            write_segments(tmp_path / name, {0: b""})
    assert "t-4 and 3 more; --path" in run("--output", "ndjson", str(tmp_path)).stderr
