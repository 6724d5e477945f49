"""`kafkalog dump`, run in this process, and its lines read back."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from click.testing import CliRunner

from kafkalog_cli.main import cli

if TYPE_CHECKING:
    from pathlib import Path

Row = dict[str, object]

CLEAN = 0
DAMAGED = 4
_LIVE = (".log", ".kafka")


@dataclass(frozen=True, slots=True)
class Dump:
    """The rows of a dump, by type, and its exit status."""

    rows: list[Row]
    exit_status: int

    def of_type(self, name: str) -> list[Row]:
        """Rows of one type, in order."""
        return [row for row in self.rows if row["type"] == name]

    def live(self, name: str) -> list[Row]:
        """Rows of one type from files that a broker would serve: those to be deleted lie in the same directory."""
        return [row for row in self.of_type(name) if str(row["segment"]).endswith(_LIVE)]


def dump(path: Path, *options: str) -> Dump:
    """Run `kafkalog dump` on a path; anything but success and damage found is a failure of the test."""
    arguments = ["dump", "--output", "ndjson", "--bytes", "base64", *options, str(path)]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code in {CLEAN, DAMAGED}, f"kafkalog {' '.join(arguments)}: {result.exit_code}\n{result.stderr}"
    rows = [_row(json.loads(line)) for line in result.stdout_bytes.splitlines()]
    assert rows, "not even a summary"
    assert rows[-1]["type"] == "summary"
    assert rows[-1]["exit_status"] == result.exit_code
    return Dump(rows, result.exit_code)


def _row(line: Row) -> Row:
    """Bytes are bytes again, headers pairs of them."""
    row = {name.removesuffix("_b64"): _value(name, value) for name, value in line.items()}
    headers = line.get("headers")
    if isinstance(headers, list):
        row["headers"] = [tuple(_value(name, value) for name, value in header.items()) for header in headers]
    return row


def _value(name: str, value: object) -> object:
    return base64.b64decode(value, validate=True) if name.endswith("_b64") and isinstance(value, str) else value
