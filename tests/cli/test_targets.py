"""Several targets of which one cannot be read: the others are, it is said, and the exit status tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support.build import batch_v2
from tests.support.logs import records, write_segments

FIXTURES = Path(__file__).parents[2] / "fixtures"
REFUSED = 3
SEARCH = "log.dirs in server.properties lists the log directories of a broker; this command finds them too:"


def run(*arguments):
    return CliRunner(env={"COLUMNS": "160"}).invoke(cli, list(map(str, arguments)))


def said(result):
    """What was said on stderr, but for what the interpreted twin says of itself."""
    return [line for line in result.stderr.splitlines() if "no compiled kernels" not in line]


@pytest.fixture
def partition(tmp_path):
    return write_segments(tmp_path / "t-0", {0: batch_v2(records(0, 3))})


@pytest.fixture
def empty(tmp_path):
    (tmp_path / "disk-7").mkdir()
    return tmp_path / "disk-7"


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_the_others_are_read(partition, empty, tmp_path, command):
    result = run(command, "--output", "ndjson", tmp_path / "gone", partition, empty)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert rows[-1]["batches"] == 1
    assert result.exit_code == rows[-1]["exit_status"] == REFUSED
    what = "an empty directory; a partition directory, a log directory or a file of one was expected"
    assert said(result) == [
        f"kafkalog: {tmp_path}/gone: no such file or directory",
        f"kafkalog: {empty}: {what}; {SEARCH} find {tmp_path} -name recovery-point-offset-checkpoint",
    ]


@pytest.mark.parametrize(
    "command",
    ["dump", "verify", "seek --latest", "retain", "truncate --at-damage", "reindex", "compact", "checkpoint", "roll"],
)
def test_a_log_directory_without_partitions_is_reported_with_what_to_look_for(tmp_path, command):
    """Rows alone do not show that the broker's records are in another directory."""
    (tmp_path / "data").mkdir()
    for name in ("meta.properties", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (tmp_path / "data" / name).write_bytes((FIXTURES / "demo" / name).read_bytes())
    result = run(*command.split(), tmp_path / "data")
    assert result.exit_code == (REFUSED if command.startswith("seek") else 0)
    search = f"find {tmp_path} -name recovery-point-offset-checkpoint"
    assert [line for line in said(result) if "a log directory without partitions; " in line and search in line]


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_what_lacks_something_is_not_called_damaged_alone(partition, tmp_path, command):
    """What was found is in the rows; that something was not read would be seen nowhere else."""
    log = partition / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    assert run(command, partition).exit_code == 4
    result = run(command, "--output", "ndjson", partition, tmp_path / "gone")
    assert json.loads(result.stdout.splitlines()[-1])["severities"]["error"] >= 1
    assert result.exit_code == REFUSED


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_the_summary_says_so(partition, tmp_path, command):
    result = run(command, "--output", "table", partition, tmp_path / "gone")
    assert "not everything could be read | " in result.stdout
    assert "exit status 3" in result.stdout


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_where_none_can_be_read_all_are_named(empty, tmp_path, command):
    result = run(command, tmp_path / "gone", empty)
    assert result.stdout == ""
    assert [line.split(": ")[1] for line in said(result)] == [f"{tmp_path}/gone", str(empty)]
    assert result.exit_code == REFUSED


def test_a_pattern_of_which_some_matches_are_nothing(partition, empty, tmp_path):
    result = run("verify", "--quiet", tmp_path / "*")
    assert f"kafkalog: {empty}: an empty directory" in result.stderr
    assert "1 partition" in result.stderr
    assert result.exit_code == REFUSED


def test_the_page_names_what_could_not_be_read(partition, tmp_path):
    page = tmp_path / "page.html"
    result = run("verify", "--quiet", "--report", page, partition, tmp_path / "gone")
    assert result.exit_code == REFUSED
    text = page.read_text()
    assert "Not everything could be read" in text
    assert "What could not be read" in text
    assert f"{tmp_path}/gone: no such file or directory" in text


def test_a_page_of_all_says_nothing_of_it(partition, tmp_path):
    page = tmp_path / "page.html"
    run("verify", "--quiet", "--report", page, partition)
    assert "could not be read" not in page.read_text()
