"""Plans and forecasts on terminals and on a pipe: the verdict first, a row a partition, what it depends on last.

One table of what each command says, held to each width.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.cells import cell_len

from kafkalog_cli.render.answer import Answer, PartitionLine, answer_lines, counted_rest
from tests.cli.terminals import run

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
NOW = "2025-10-16T09:09:45"
WIDTHS = (80, 120, 200, None)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CUT_IN_NUMBER = re.compile(r"\d\N{HORIZONTAL ELLIPSIS}")


class Case(NamedTuple):
    """A command over a directory: its first line, the row of a partition, and what only --details has."""

    command: tuple[str, ...]
    place: str
    verdict: str
    row: str
    detail: str


CASES = (
    Case(
        ("retain", "--now", NOW),
        "demo",
        "WOULD DELETE NOW: 4 of 9 segments, 7.2 KiB of 15.7 KiB, in 3 of 6 partitions, if the assumed settings below "
        "hold.",
        r"orders-0 +delete 2 of 2 segments +4\.3 KiB +now",
        f"delete   {0:020}.log",
    ),
    Case(
        ("compact", "--topic-config", "orders:cleanup.policy=compact", "--now", "2026-12-01"),
        "demo",
        "WOULD CLEAN 2 of ",
        r"orders-0 +clean +saves 1\.3 KiB of 4\.3 KiB \(30\.6 %\) +now",
        "removed: superseded by a later record",
    ),
    Case(
        ("roll", "--set", "internal.segment.bytes=1500"),
        "demo",
        "WOULD ROLL INTO ",
        r"orders-0 +4 segments, not 2 +4\.3 KiB",
        "1497 + 790 of the next batch",
    ),
    Case(
        ("truncate", "--at-damage", "--kafka", "4.3"),
        "damaged",
        "PLAN: truncate would create 1 file, truncate 2 and delete 5 in",
        r"orders-0 +create 1, truncate 2, delete 5 files",
        "lost from",
    ),
    Case(
        ("reindex", "--all", "--kafka", "4.3"),
        "demo",
        "PLAN: reindex would ",
        r"orders-0 +.*replace \d+",
        "change ",
    ),
    Case(("checkpoint", "--kafka", "4.3"), "demo", "NOTHING TO DO: checkpoint changes nothing in", "", "text file  "),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("demo", "damaged"):
        shutil.copytree(FIXTURES / name, tmp_path / name)
    return tmp_path


def shown(monkeypatch: pytest.MonkeyPatch, arguments: list[str], width: int | None) -> list[str]:
    ended = run(monkeypatch, [*arguments, "--output", "table"], width=width)
    return _COLOURS.sub("", ended.stdout).splitlines()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.command[0])
def test_the_answer_comes_first(root: Path, monkeypatch: pytest.MonkeyPatch, case: Case, width: int | None) -> None:
    lines = shown(monkeypatch, [*case.command, str(root / case.place)], width)
    text = "\n".join(lines)
    assert " ".join(text.split()).startswith(case.verdict)
    assert re.search(rf"^{case.row}", text, re.MULTILINE)
    assert lines[-1].startswith("exit status ")
    assert case.detail not in text
    assert "clean |" not in text
    assert "rules in their order" not in text
    assert _CUT_IN_NUMBER.search(text) is None
    wide = [line for line in lines if width is not None and cell_len(line) > width]  # a pipe has no width
    assert [line for line in wide if str(root) not in line] == [], "paths and commands are never broken"
    full = "\n".join(shown(monkeypatch, [*case.command, "--details", str(root / case.place)], width))
    assert case.detail in full


@pytest.mark.parametrize("case", [case for case in CASES if case.row], ids=lambda case: case.command[0])
def test_a_partition_that_is_named_is_shown_in_full(root: Path, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    assert case.detail in "\n".join(shown(monkeypatch, [*case.command, str(root / case.place / "orders-0")], 120))


def lines_of(*rows: PartitionLine, width: int = 80) -> list[str]:
    return [line.plain for line in answer_lines(Answer(verdict="V", lines=rows), width)]


def test_reasons_without_room_are_below_their_rows_and_the_same_one_once() -> None:
    why = "a reason that is much too long for the rest of a line of eighty columns"
    rows = [PartitionLine(f"t-{number}", "keep", why=why) for number in range(3)]
    assert lines_of(*rows, PartitionLine("u-0", "keep", why="short")) == [
        "V.",
        "",
        "partition  what",
        "t-0        keep",
        "t-1        keep",
        "t-2        keep",
        f"    {why}",
        "u-0        keep",
        "    short",
    ]
    assert lines_of(*rows, width=120)[3] == f"t-0        keep  {why}"


def test_a_note_is_below_its_row() -> None:
    rows = (PartitionLine("t-0", "keep", why="w", note="A note."), PartitionLine("t-1", "keep", why="w"))
    assert lines_of(*rows)[2:] == ["partition  what  why", "t-0        keep  w", "    A note.", "t-1        keep  w"]


def test_names_that_are_too_long_for_a_table_have_lines_of_their_own() -> None:
    name = "application-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog-12"
    rows = (PartitionLine(name, "delete 8 of 9 segments", "14.0 KiB", "now", "too old", "A note."),)
    assert lines_of(*rows)[1:] == [
        "",
        name,
        "    delete 8 of 9 segments; 14.0 KiB; now; too old",
        "    A note.",
    ]


def test_the_rest_is_counted_in_one_line() -> None:
    assert counted_rest([], "x", others=True) == ""
    assert counted_rest(["a"], "with nothing", others=False) == "1 partition with nothing: a"
    assert counted_rest(["a", "b", "a"], "with nothing", others=True) == (
        "and 3 other partitions with nothing: a (2); b (1)"
    )
    many = [*"aaabbcdef"]
    assert counted_rest(many, "x", others=True).endswith("other partitions x: a (3); b (2); c (1); other reasons (3)")
