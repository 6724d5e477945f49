"""Where a release is only inferred, every command that prints the release whose rules it uses says so."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.support.figures import run

DEMO: Final = Path("fixtures/demo")
_COMMANDS: Final = (
    ("usage",),
    ("compact",),
    ("roll", "--set", "segment.bytes=1048576"),
    ("impact",),
    ("retain",),
    ("truncate", "--as-broker"),
    ("preflight",),
)


@pytest.mark.parametrize("command", _COMMANDS, ids=lambda command: command[0])
def test_an_inferred_release_is_shown_as_such(command: tuple[str, ...], tmp_path: Path) -> None:
    """Without the metadata log nothing on the demo's disk rules out the latest release; with it one release fits."""
    copy = tmp_path / "demo"
    shutil.copytree(DEMO, copy, ignore=shutil.ignore_patterns("__cluster_metadata-0", "bootstrap.checkpoint"))
    name, *options = command
    [inferred] = _release_lines(name, copy, *options)
    assert "(the latest release that fits" in inferred
    [named] = _release_lines(name, copy, *options, "--kafka", "4.3")
    assert named == "by the rules of Kafka 4.3"


def _release_lines(name: str, *arguments: object) -> list[str]:
    text = run(name, *arguments, output="table").text
    return [line for line in text.splitlines() if line.startswith("by the rules of Kafka")]
