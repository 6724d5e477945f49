"""`kafkalog excise` on the command line: plan files, undo elsewhere or none, and a broker that uses the directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support.excising import read_offsets, write
from tests.support.repairs import LOCK_HOLDER, names_of_ours, snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.excising import Written

KEPT = [each for each in range(36) if not 15 <= each <= 17]


def damaged(root: Path) -> Written:
    written = write(root)
    written.flip(12, written.at(12, 1)[1] - 5)
    return written


def excise(written: Written, *options: str | Path) -> tuple[int, list[dict[str, Any]], str]:
    """Run it; its exit status, rows, and what it says on standard error."""
    arguments = ["excise", "--kafka", "4.3", "--ndjson", *map(str, options), str(written.partition)]
    done = CliRunner().invoke(cli, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done.stderr


def test_a_plan_changes_nothing_and_says_first_what_is_lost(tmp_path: Path) -> None:
    written = damaged(tmp_path)
    before = snapshot(tmp_path)
    status, rows, _ = excise(written, "--offset", "16")
    assert status == 4
    assert rows[0]["type"] == "plan"
    assert "3 records (at least 3 of them committed) are lost" in rows[0]["message"]
    (loss,) = [row for row in rows if row["type"] == "loss"]
    assert (loss["first_offset"], loss["next_offset"], loss["records"]) == (15, 18, 3)
    assert (loss["first_timestamp_ms"], loss["max_timestamp_ms"]) == (1015, 1017)
    assert snapshot(tmp_path) == before


def test_a_plan_file_is_applied(tmp_path: Path) -> None:
    written = damaged(tmp_path / "disk")
    assert excise(written, "--offset", "16", "--plan-out", tmp_path / "plan.json")[0] == 4
    done = CliRunner().invoke(cli, ["apply", str(tmp_path / "plan.json")])
    assert done.exit_code == 0, done.output
    assert read_offsets(written.partition) == KEPT


def test_the_journal_may_be_elsewhere_or_nowhere(tmp_path: Path) -> None:
    for name, options in (("a", ("--undo-to", tmp_path / "undo")), ("b", ("--no-undo",))):
        written = damaged(tmp_path / name)
        assert excise(written, "--offset", "16", "--apply", *options)[0] == 0
        assert read_offsets(written.partition) == KEPT
        assert names_of_ours(written.partition) == []
    assert os.listdir(tmp_path / "undo")


def test_a_directory_that_a_broker_uses_is_refused(tmp_path: Path) -> None:
    written = damaged(tmp_path)
    (tmp_path / ".lock").touch()
    before = snapshot(tmp_path)
    command = [sys.executable, "-c", LOCK_HOLDER, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        status, _, errors = excise(written, "--offset", "16", "--apply")
        holder.kill()
    assert status == 3
    assert "lock" in errors
    assert snapshot(tmp_path) == before


def test_an_offset_is_required_and_belongs_to_one_partition(tmp_path: Path) -> None:
    written = damaged(tmp_path)
    assert excise(written)[0] == 2
    other = write(tmp_path / "other")
    other.partition.rename(tmp_path / "t-1")
    done = CliRunner().invoke(cli, ["excise", "--offset", "16", "--kafka", "4.3", str(tmp_path)])
    assert done.exit_code == 3
    assert "one partition directory" in done.output
