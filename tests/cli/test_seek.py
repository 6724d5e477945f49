"""`kafkalog seek` as its users run it: options, forms of output, exit statuses."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support.brokers import Appended, write_segment
from tests.support.build import Record, batch_v2

if TYPE_CHECKING:
    from click.testing import Result

START_MS = 1_700_000_000_000
DAMAGED = Path(__file__).resolve().parents[2] / "fixtures" / "damaged" / "orders-0"


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    directory = tmp_path / "orders-0"
    batches = []
    for first in range(0, 30, 10):
        records = [Record(offset=n, timestamp_ms=START_MS + n, value=b"v" * 20) for n in range(first, first + 10)]
        batches.append(Appended(batch_v2(records), first + 9, START_MS + first + 9))
    write_segment(directory, 0, batches)
    return directory


def run(*arguments: object, columns: int = 120) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, ["seek", "--ndjson", *map(str, arguments)])


def test_lines_of_json(orders: Path) -> None:
    result = run("--offset", 12, orders)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert [row["type"] for row in rows] == ["seek", "summary"]
    assert (rows[0]["offset"], rows[0]["base_offset"], rows[0]["steps"]) == (12, 10, None)


def test_a_table_with_steps(orders: Path) -> None:
    result = run("--offset", 12, "--explain", "--output", "table", orders)
    assert "orders-0/00000000000000000000.log" in result.stdout
    assert "found" in result.stdout
    assert "not found" in run("--offset", 99, "--output", "table", orders).stdout
    assert "  1. the rules of Kafka " in result.stdout
    assert "00000000000000000000.index, 2 entries: reads slot 0 on page 0" in result.stdout


def test_columns_of_csv(orders: Path) -> None:
    result = run("--offset", 12, "--read", 100, "--explain", "--output", "csv", orders)
    rows = list(csv.DictReader(io.StringIO(result.stdout, newline="")))
    assert [row["type"] for row in rows] == ["seek", "batch", "fetch"]
    assert json.loads(rows[0]["steps"])[0]["step"] == "release"


@pytest.mark.parametrize(
    ("arguments", "offset"),
    [
        (("--timestamp", START_MS + 15), 15),
        (("--timestamp", "2023-11-14T22:13:20.015"), 15),
        (("--earliest",), 0),
        (("--latest",), 30),
        (("--before", "-1"), 30),
        (("--before", "-2"), 0),
        (("--before", "-1", "--max", 5), 30),
        (("--before", "2100-01-01"), 30),
    ],
)
def test_questions(orders: Path, arguments: tuple[object, ...], offset: int) -> None:
    result = run(*arguments, orders)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[0])["offset"] == offset


def test_a_byte_needs_one_file(orders: Path) -> None:
    write_segment(orders, 30, [])
    assert run("--position", 0, orders).exit_code == 3
    assert run("--position", 0, orders / "00000000000000000000.log").exit_code == 0


@pytest.mark.parametrize("arguments", [("--offset", 31), ("--timestamp", "2100-01-01"), ("--before", "1990-01-01")])
def test_nothing_found_is_status_3(orders: Path, arguments: tuple[object, ...]) -> None:
    result = run(*arguments, orders)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 3
    assert rows[0]["outcome"] in {"none", "out-of-range"}
    assert rows[-1]["exit_status"] == 3
    assert result.stderr == ""


def test_found_in_one_of_two_is_status_0(orders: Path) -> None:
    write_segment(orders.parent / "orders-1", 0, [])
    result = run("--offset", 12, orders, orders.parent / "orders-1")
    assert [json.loads(line).get("outcome") for line in result.stdout.splitlines()] == ["found", "out-of-range", None]
    assert result.exit_code == 0


def test_damage_on_the_way_is_status_4(orders: Path) -> None:
    log = orders / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    assert run("--earliest", orders).exit_code == 4
    assert run("--offset", 25, orders).exit_code == 0  # the index leads past it


def test_a_filter_alone_asks_for_its_first_record(orders: Path) -> None:
    result = run("--value-regex", "^", orders)
    assert json.loads(result.stdout.splitlines()[0])["query"] == "earliest"
    assert run("--key", "nobody has it", orders).exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "give one of --offset"),
        (("--offset", 1, "--latest"), "give one of --offset"),
        (("--before", "-1", "--read", "1k"), "--read cannot be combined with it"),
        (("--latest", "--key", "a"), "--latest asks for one place; filters on keys, values and headers do not apply"),
        (("--position", 1, "--contains", "a"), "--position asks for one place"),
        (("--invert",), "--invert needs a filter on keys, values or headers"),
        (("--before", "-3"), "not a time"),
        (("--offset", "-1"), "-1"),
        (("--timestamp", "12345"), "is ambiguous"),
        (("--offset", 1, "--kafka", "5"), "5"),
    ],
)
def test_what_cannot_be_asked(orders: Path, arguments: tuple[object, ...], sentence: str) -> None:
    result = run(*arguments, orders)
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_no_such_directory(tmp_path: Path) -> None:
    assert run("--latest", tmp_path / "gone").exit_code == 3


@pytest.mark.parametrize("more", [[], ["--explain"]])
def test_a_lost_record_is_the_first_line_of_the_answer(more: list[str]) -> None:
    """Not `found 74`, and below it that 60 is what is lost."""
    result = CliRunner().invoke(cli, ["seek", "--offset", "60", *more, str(DAMAGED)])
    lines = result.stdout.splitlines()
    assert lines[2].startswith("offset 60 is lost or damaged, and the next record has offset 74: ")
    assert lines[3].split()[0] == "answer"
    assert lines[4].split()[:2] == ["next", "74"]
    assert result.exit_code == 4
