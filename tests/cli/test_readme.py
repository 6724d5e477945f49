"""README shows real output: each `$ kafkalog` block is run, and what it prints is what stands there.

A line `...` stands for any lines. The blocks were taken at 100 columns from the project's root.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"```console\n\$ kafkalog (.*)\n((?:.*\n)*?)```", (ROOT / "README.md").read_text(encoding="utf-8"))


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 5


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_readme_shows_what_is_printed(command: str, shown: str) -> None:
    environment = os.environ | {"COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}
    result = subprocess.run(
        [sys.executable, "-m", "kafkalog_cli", *shlex.split(command)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    lines = "\n".join(line.rstrip() for line in result.stdout.strip("\n").split("\n"))
    parts = [re.escape(part.strip("\n")) for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE)]
    assert re.fullmatch(r"\n(?:.*\n)*".join(parts), lines), lines
