"""Which modules a run need not list."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.marks import NAMES, may_match

FAST = "not corpus and not java and not live and not slow and not spark"
ALL = "\npytestmark = pytest.mark.corpus\n"
ONE = "@pytest.mark.corpus\ndef test_one(): ...\ndef test_two(): ...\n"


@pytest.mark.parametrize(
    ("text", "expression", "may"),
    [
        ("", FAST, True),
        (ALL, FAST, False),
        (ONE, FAST, True),
        ("", "corpus and not spark", False),
        (ALL, "corpus and not spark", True),
        (ONE, "corpus and not spark", True),
        ("", "(slow or live) and not java and not spark", False),
        ("@pytest.mark.slow", "(slow or live) and not java and not spark", True),
        ("slower, alive", "(slow or live) and not java and not spark", False),
        ("", "spark", True),
    ],
)
def test_a_module_is_listed_where_a_test_may_match(text: str, expression: str, may: bool) -> None:
    assert may_match(text, expression) is may


def test_all_marks_are_known() -> None:
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    marks = settings["tool"]["pytest"]["ini_options"]["markers"]
    assert {mark.partition(":")[0] for mark in marks} == set(NAMES)


def test_marks_are_in_the_text_of_the_module_that_has_them() -> None:
    others = [path for path in Path(__file__).parent.rglob("*.py") if not path.name.startswith("test_")]
    given = re.compile(r"\bmark\.(corpus|java|live|slow)\b")
    assert [path.name for path in others if given.search(path.read_text("utf-8"))] == []
