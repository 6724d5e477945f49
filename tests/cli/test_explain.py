"""`kafkalog explain`: codes, lines and whole logs, for people and for programs."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.findings.broker_messages import BROKER_MESSAGES
from kafkalog_core.ops.explain import candidates, entries, texts_of
from tests.ops.broker_layouts import LAYOUTS, SAMPLES, written
from tests.support.for_each import for_each

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

LINE = (
    "[2026-11-21 02:35:01,000] WARN Corruption found in segment 551 of log torn-0, truncating to offset 606. "
    "(kafka.log.Log)"
)


def explain(*arguments: str, data: bytes | None = None, columns: int = 100) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, ["explain", *arguments], input=data)


def test_a_code() -> None:
    result = explain("segment.index-missing")
    assert result.exit_code == 0
    assert result.stdout.startswith("segment.index-missing  (finding, warning)\n")
    for label in ("  says", "  means", "  broker", "  cure"):
        assert f"\n{label}" in result.stdout


def test_all_codes_a_line_each() -> None:
    result = explain()
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert [line.split()[0] for line in lines] == list(entries())
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(("word", "hint"), [("crc-mismtch", "crc-mismatch"), ("0000", "kafkalog explain lists all")])
def test_an_unknown_code_is_wrong_usage(word: str, hint: str) -> None:
    result = explain(word)
    assert result.exit_code == 2
    assert hint in result.stderr


def test_a_word_lists_all_codes_that_have_it() -> None:
    result = explain("crc")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == [entry.code for entry in candidates("crc")]
    assert explain("inner-crc").stdout == explain("record.inner-crc").stdout  # the only one


def test_a_line_of_a_broker() -> None:
    result = explain(LINE)
    assert result.exit_code == 0
    assert result.stdout.startswith("ERROR  broker.truncated-at-corruption\n")
    assert "truncated the log there: it ends at offset 606" in " ".join(result.stdout.split())
    assert "\n  run     kafkalog recover LOG_DIR\n" in result.stdout


def test_a_line_without_quotes_is_one_line() -> None:
    assert explain(*LINE.split()).stdout == explain(" ".join(LINE.split())).stdout


def test_several_lines_are_a_log() -> None:
    result = explain(f"{LINE}\nERROR strange\x1b[2J\n{LINE}\nINFO Broken pipe")
    assert "the text: 4 lines, 3 of them recognised" in result.stdout
    assert "2 times, lines 1 to 3" in result.stdout
    assert "Not about the log directory:\n  broker.elsewhere-network: line 4" in result.stdout
    assert "Not recognised: 1 line of level WARN, ERROR or FATAL\n  line 2: ERROR strange\\x1b[2J\n" in result.stdout


def test_an_unknown_line_is_said_to_be_unknown() -> None:
    result = explain("Something else happened")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert "kafkalog verify LOG_DIR" in result.stderr


@pytest.mark.parametrize("form", ["plain", "gzip", "dash", "stdin"])
def test_a_whole_log(tmp_path: Path, form: str) -> None:
    text = f"INFO start\n{'x' * 100_000} ERROR far too long\n{LINE}\n".encode() + b"\xff\xfe WARN not utf-8\n"
    path = tmp_path / "server.log"
    path.write_bytes(gzip.compress(text) if form == "gzip" else text)
    given = {"dash": ["--log", "-"], "stdin": []}.get(form, ["--log", str(path)])
    result = explain(*given, data=text if form in {"dash", "stdin"} else None)
    assert result.exit_code == 0
    assert ": 4 lines, 1 of them recognised" in result.stdout
    assert "ERROR    broker.truncated-at-corruption: line 3\n" in result.stdout
    assert "Not recognised: 1 line" in result.stdout


def test_an_unknown_line_leads_to_the_log_directory_that_the_log_shows() -> None:
    result = explain(data=f"\tlog.dirs = /data 1\n{LINE}\nERROR nobody knows this\n".encode())
    assert "is the cause: kafkalog preflight '/data 1'\n" in result.stdout


@pytest.mark.parametrize("way", ["argument", "log", "stdin"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_message_in_every_layout(tmp_path: Path, way: str, layout: str) -> None:
    """The texts and commands are those of the values that the broker wrote, which name one log directory."""
    for samples in SAMPLES:
        lines, expected = [], {}
        for name, message in BROKER_MESSAGES.items():
            text, values = written(message.wordings[0], samples)
            lines.append(LAYOUTS[layout](text))
            expected[name] = texts_of(message, values, samples["dir"])
        data = "\n".join(lines)
        path = tmp_path / "server.log"
        path.write_text(data)
        given = {"argument": [data], "log": ["--log", str(path)], "stdin": []}[way]
        result = explain(*given, "--output", "ndjson", data=data.encode() if way == "stdin" else None)
        *rows, summary = map(json.loads, result.stdout.splitlines())
        assert summary["exit_status"] == 0
        assert {row["name"]: {key: row[key] for key in expected[row["name"]]} for row in rows} == expected


def test_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    missing = explain("--log", str(tmp_path / "none"))
    assert (missing.exit_code, missing.stdout) == (3, "")
    assert "no such file" in missing.stderr
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(LINE.encode() * 99)[:-9])
    assert explain("--log", str(broken)).exit_code == 3
    assert explain("--log", str(tmp_path)).exit_code == 3
    assert explain("--log", str(broken), "crc-mismatch").exit_code == 2


def test_rows() -> None:
    *rows, summary = json.loads(explain("meta", "--output", "json").stdout)
    assert {row["type"] for row in rows} == {"explanation"}
    assert [row["code"] for row in rows] == [code for code in entries() if code.startswith("meta.")]
    assert (summary["rows"], summary["exit_status"]) == (len(rows), 0)
    row, summary = map(json.loads, explain(LINE, "--output", "ndjson").stdout.splitlines())
    assert (row["type"], row["name"], row["count"]) == ("broker_message", "broker.truncated-at-corruption", 1)
    assert row["commands"].splitlines() == ["kafkalog recover LOG_DIR", "kafkalog dump --segments LOG_DIR/torn-0"]
    assert row["line"] == LINE
    assert len(explain("--output", "csv").stdout.splitlines()) == len(entries()) + 1
    assert json.loads(explain("nothing known", "--output", "json").stdout)[0]["exit_status"] == 3


@for_each(BROKER_MESSAGES)
def test_every_message_can_be_looked_up(name: str) -> None:
    result = explain(name)
    assert result.exit_code == 0, result.output
