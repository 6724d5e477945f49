"""README and docs show real output: each console block is run, and prints what the page shows.

After a change of a text, `python -m tools.console_blocks --update` writes the new output into the pages.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tools.console_blocks import ROOT, Block, arguments_of, blocks_of, environment, matches, pages, refreshed, run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BLOCKS = [block for page in pages() for block in blocks_of(page)]


def _named(block: Block) -> object:
    """Name a block by its page; pytest numbers the blocks of one page."""
    marks = [pytest.mark.spark] if block.needs_spark else []
    return pytest.param(block, id=str(block.page.relative_to(ROOT)), marks=marks)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 12_000


def test_there_are_examples() -> None:
    assert sum(block.page.name == "README.md" for block in BLOCKS) >= 5
    assert len(BLOCKS) >= 20


@pytest.mark.parametrize("block", [_named(block) for block in BLOCKS])
def test_a_page_shows_what_is_printed(block: Block) -> None:
    has_many = block.needs_spark and len(block.steps) > 1
    printed_lines = run(block, in_one_session if has_many else None)
    for step, printed in zip(block.steps, printed_lines, strict=True):
        assert matches(step.shown, printed), "\n".join(printed)


def in_one_session(commands: Sequence[str], directory: Path) -> list[str]:
    """Run commands in one process, since each session of Spark costs half a minute of a processor."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.one_session", json.dumps([*map(arguments_of, commands)])],
        cwd=directory,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        check=True,
    )
    texts: list[str] = json.loads(done.stdout)
    return texts


def test_no_output_is_shown_that_is_not_run() -> None:
    """A prompt is in console blocks alone."""
    for page in pages():
        lines = page.read_text(encoding="utf-8").split("\n")
        inside = {number for block in blocks_of(page) for number in range(block.first, block.last)}
        assert [
            number for number, line in enumerate(lines, 1) if line.startswith("$ ") and number - 1 not in inside
        ] == []


# --- the tool ---------------------------------------------------------------------------------------------------------
def test_lines_that_are_left_out() -> None:
    printed = ["a", "b", "c", "", "d"]
    assert matches(printed, printed)
    assert matches(["a", "...", "d"], printed)
    assert matches(["a", "b", "...", "", "d"], printed)
    assert not matches(["a", "c", "...", "d"], printed)
    assert not matches(["a", "b", "c"], printed)


def test_an_update_keeps_what_is_left_out() -> None:
    shown = ["PLAN: two files go", "row 1", "...", "", "Findings", "one", "...", "end of 3 lines"]
    printed = ["PLAN: 2 files are deleted", "row 1", "row 2", "", "Findings", "one", "two", "end of 4 lines"]
    assert refreshed(shown, printed) == [
        "PLAN: 2 files are deleted",
        "row 1",
        "...",
        "",
        "Findings",
        "one",
        "...",
        "end of 4 lines",
    ]


def test_an_update_of_a_whole_output() -> None:
    assert refreshed(["", "old"], ["new", "lines"]) == ["", "new", "lines"]


def test_a_command_of_several_lines(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('```console\n$ kafkalog spark sql "\n  SELECT 1"\n1\n$ kafkalog bench\n```\n')
    (block,) = blocks_of(page)
    assert [step.command for step in block.steps] == ['kafkalog spark sql "\n  SELECT 1"', "kafkalog bench"]
    assert [step.shown for step in block.steps] == [["1"], []]
    assert block.needs_spark


def test_a_block_in_a_copy_of_a_fixture(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    command = "$ kafkalog verify --output ndjson /var/lib/kafka"
    page.write_text(f"<!-- copy fixtures/damaged as /var/lib/kafka -->\n```console\n{command}\n```\n")
    (block,) = blocks_of(page)
    (lines,) = run(block)
    assert "/var/lib/kafka/orders-0" in lines[0]
    assert "kkk" not in "".join(lines)
