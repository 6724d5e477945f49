"""A real broker's directory after kill -9, and a day later: what its operator and its clients did in between."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli

ARCHIVE = Path(__file__).resolve().parents[3] / "fixtures" / "two-days" / "yesterday-today.tar.gz"


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("days")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(directory, filter="data")
    return directory


def run(*arguments: object) -> str:
    done = CliRunner().invoke(cli, ["diff", "--jobs", "1", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def rows(*arguments: object) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in run("--ndjson", *arguments).splitlines()]
    return [row for row in found if row["type"] == "difference"]


def test_what_changed_since_yesterday(days: Path) -> None:
    found = rows(days / "yesterday", days / "today")
    shown = {(row["kind"], row["change"], row["what"]): (row["before"], row["after"], row["records"]) for row in found}
    assert shown == {
        ("topic", "new", "invoices"): (None, None, 5),
        ("topic", "being-deleted", "t-part"): (None, None, 0),
        ("config", "changed", "topic orders retention.ms"): ("-1", "3600000", None),
        ("partition", "log-start", "audit-0"): ("0", "700", None),
        ("offset", "moved", "reporting orders-0"): ("33", "90", None),
        ("partition", "added", "payments-0"): ("509", "709", 200),
        ("partition", "added", "__consumer_offsets-3"): ("1", "2", 1),
    }


def test_it_is_on_the_first_screen(days: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(days / "yesterday", days / "today").splitlines()
    screen = "\n".join(lines[:24])
    assert lines[0].startswith("7 changes: 1 topic new, 1 topic being deleted, 1 setting changed, 1 partition")
    for text in ("invoices", "t-part", "3 partitions", "retention.ms", "700", "payments-0", "reporting"):
        assert text in screen, text
    assert "As before, set aside to be deleted: obsolete." in "\n".join(lines)
    assert all(len(line) <= 80 for line in lines if "kafkalog " not in line)


def test_the_page_shows_it(days: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = (ARCHIVE.parents[2] / "docs" / "diff.md").read_text(encoding="utf-8")
    shown = page.split("```text\n", 1)[1].split("```", 1)[0]
    assert run(days / "yesterday", days / "today").startswith(shown)


def test_nothing_between_a_day_and_its_copy(days: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(days / "today", tmp_path / "copy", copy_function=shutil.copyfile)
    assert rows(days / "today", copy) == []
    assert run(days / "today", copy).startswith("NO DIFFERENCE between ")


def test_one_topic(days: Path) -> None:
    found = rows("--topic", "orders", days / "yesterday", days / "today")
    assert [(row["kind"], row["change"]) for row in found] == [("config", "changed"), ("offset", "moved")]


def test_back_to_yesterday(days: Path) -> None:
    changes = {(row["change"], row["what"]) for row in rows(days / "today", days / "yesterday")}
    assert ("truncated", "payments-0") in changes
    assert ("backwards", "reporting orders-0") in changes
    assert ("gone", "invoices") in changes
    assert ("new", "t-part") in changes
