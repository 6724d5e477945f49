"""`kafkalog dump` of Kafka's own topics, as people and scripts see it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_cli.render.cells import decoded_cell
from tests.support.build import ABORT, Record, batch_v2, txn_marker
from tests.support.logs import write_segments

DEMO = Path(__file__).parents[2] / "fixtures" / "demo"
COMMITS = str(DEMO / "__consumer_offsets-0")


def dump(*arguments: str, columns: int = 120) -> str:
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, ["dump", "--records", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def rows_of(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("form", ["ndjson", "json"])
def test_json_has_objects(form: str) -> None:
    text = dump("--output", form, COMMITS)
    rows = rows_of(text) if form == "ndjson" else json.loads(text)
    key = {"type": 1, "name": "OffsetCommit", "data": {"group": "billing", "topic": "orders", "partition": 0}}
    assert rows[2]["decoded_key"] == key
    assert rows[2]["decoded_value"]["data"]["offset"] == 17
    assert rows[2]["key"] == "\0\1\0\x07billing\0\x06orders\0\0\0\0", "the bytes are there too"


def test_without_decoding_rows_are_those_of_any_topic() -> None:
    rows = rows_of(dump("--decode", "none", "--output", "ndjson", COMMITS))
    assert "decoded_key" not in rows[0]
    header = dump("--decode", "none", "--output", "csv", COMMITS).partition("\n")[0]
    assert "decoded" not in header


def test_csv_has_json_text() -> None:
    rows = list(csv.DictReader(io.StringIO(dump("--output", "csv", COMMITS, str(DEMO / "customers-0")), newline="")))
    commit = next(row for row in rows if row["topic"] == "__consumer_offsets" and row["offset"] == "2")
    assert json.loads(commit["decoded_value"])["data"]["offset"] == 17
    assert {row["decoded_key"] for row in rows if row["topic"] == "customers"} == {""}


def test_a_table_has_a_line_for_a_person() -> None:
    text = dump("--output", "table", COMMITS, columns=200)
    assert "  OffsetCommit group=billing topic=orders partition=0  v4 offset=17 leaderEpoch=-1 " in text
    assert "\\x00" not in text


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_a_narrow_table_leaves_room_for_what_records_say(columns: int) -> None:
    text = dump("--output", "table", COMMITS, columns=columns)
    table = text.partition("\n\n")[0].splitlines()
    assert max(map(len, table)) <= columns
    assert sum("OffsetCommit group=billing" in line for line in table) == 2


def test_other_topics_have_their_own_table() -> None:
    text = dump("--output", "table", str(DEMO / "customers-0"), COMMITS, columns=160)
    titles = [line for line in text.splitlines() if line.startswith("offset ")]
    assert len(titles) == 2


def test_a_table_shows_bytes_of_what_does_not_decode_and_how_transactions_ended(tmp_path: Path) -> None:
    key = b"\0\1\0\1g\0\1t\0\0\0\0"
    ids = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    data = batch_v2([Record(offset=0, key=key, value=b"\0\x63\xff")], is_transactional=True, **ids)
    data += txn_marker(ABORT, offset=1, producer_id=5) + batch_v2([Record(offset=2, key=key)])
    log = write_segments(tmp_path / "__consumer_offsets-0", {0: data})
    text = dump("--output", "table", str(log), columns=160)
    lines = text.splitlines()
    first = next(line for line in lines if line.startswith("     0  "))
    assert "ABORTED" in first
    assert first.split()[-4:] == ["group=g", "topic=t", "partition=0", "x'0063ff'"]
    assert next(line for line in lines if line.startswith("     2  ")).endswith("partition=0  null")
    assert (
        "WARNING record.not-decoded: Records do not decode because OffsetCommitValue has no version 99: 1 record"
        in text
    )
    assert "--decode none" in text


def test_the_name_of_a_topic_decodes_files_of_any_name(tmp_path: Path) -> None:
    file = tmp_path / "rescued.log"
    file.write_bytes((Path(COMMITS) / f"{0:020d}.log").read_bytes())
    done = CliRunner().invoke(cli, ["dump", "--decode", "__consumer_offsets", "--output", "ndjson", str(file)])
    assert done.exit_code == 0
    assert rows_of(done.stdout)[2]["decoded_value"]["data"]["offset"] == 17
    refused = CliRunner().invoke(cli, ["dump", "--decode", "__consumer_offsets", "--batches", str(file)])
    assert refused.exit_code == 2
    assert "--decode TOPIC needs --records, not --batches" in refused.stderr
    unknown = CliRunner().invoke(cli, ["dump", "--records", "--decode", "orders", str(file)])
    assert unknown.exit_code == 2


def test_a_line_cannot_be_forged() -> None:
    """Names in records may be anything: what is no plain word is JSON, and what does not print is escaped."""
    data = {"group": "a b=c", "topic": "\u202e\x1b[31m", "plain": "ok", "none": None, "list": [1, "x"], "empty": ""}
    text = decoded_cell({"type": 1, "name": "OffsetCommit", "data": data}, b"raw")
    assert text == ('OffsetCommit group="a b=c" topic="\\u202e\\u001b[31m" plain=ok none=null list=[1,"x"] empty=""')
    assert decoded_cell(None, b"raw") == "raw"
    assert len(decoded_cell({"version": 3, "data": {"metadata": "x" * 40_000}}, b"")) < 3000
