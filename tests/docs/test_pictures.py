"""The picture of a terminal in README.md and docs/verify.md is what the command prints today.

After a change of a text, `python -m tools.make_pictures` draws it again.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from tools.console_blocks import ROOT
from tools.make_pictures import PICTURE, terminal

NAMESPACE = "http://www.w3.org/2000/svg"


def test_the_terminal_is_that_of_today() -> None:
    assert PICTURE.read_text(encoding="utf-8") == terminal(), "run: python -m tools.make_pictures"


def test_the_terminal_needs_no_other_host() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    assert set(re.findall(r"\w+://[^\s\"')]+", text)) == {NAMESPACE}
    assert "@font-face" not in text


def test_the_terminal_shows_the_verdict_and_fits_on_a_page() -> None:
    tree = ET.fromstring(PICTURE.read_text(encoding="utf-8"))  # noqa: S314 - our own picture
    lines = [node.text.replace("\xa0", " ") for node in tree.iter(f"{{{NAMESPACE}}}text") if node.text]
    assert any(re.fullmatch(r"DAMAGED: .* \| exit status 4", line) for line in lines)
    assert float(tree.attrib["height"]) < 0.6 * float(tree.attrib["width"])


@pytest.mark.parametrize("page", ["README.md", "docs/verify.md"])
def test_the_page_shows_the_terminal(page: str) -> None:
    assert f"{PICTURE.relative_to((ROOT / page).parent)})" in (ROOT / page).read_text(encoding="utf-8")
