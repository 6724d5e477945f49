"""The pages in man/ are those that the command tree, the layouts, the tables and the catalog make."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from kafkalog_cli.short_lines import SHARED
from tests.support.for_each import for_each
from tools.make_man import MAN, pages

PAGES = pages()


def test_the_pages_are_up_to_date():
    there = {path.name: path.read_text(encoding="utf-8") for path in MAN.glob("*.[1-9]")}
    assert there.keys() == PAGES.keys(), "run: python -m tools.make_man"
    assert [name for name, text in PAGES.items() if there[name] != text] == [], "run: python -m tools.make_man"


@for_each([name for name in PAGES if name.startswith("kafkalog-") and name.endswith(".1")])
def test_a_command_page_is_complete(name):
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"):
        assert f".SH {section}\n" in PAGES[name], section


@for_each(PAGES)
def test_nothing_that_only_click_understands_is_left(name):
    assert "\\eb" not in PAGES[name]
    assert "\b" not in PAGES[name]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
@for_each(PAGES)
def test_roff_has_nothing_to_say(name):
    result = subprocess.run(
        ["groff", "-man", "-ww", "-z", "-Tutf8"], input=PAGES[name], capture_output=True, text=True, check=True
    )
    assert result.stderr == ""


def test_one_section_of_the_manual_has_the_whole_texts() -> None:
    section = PAGES["kafkalog.1"].partition(".SH SHARED OPTIONS\n")[2].partition(".SH ")[0]
    assert section.count(".TP\n") == len(SHARED)
    whole = "Leave out topics whose name matches GLOB"
    assert whole in section
    assert [name for name, text in PAGES.items() if whole in text] == ["kafkalog.1"]
