"""`kafkalog reindex` on the command line: its plan, its exit statuses, and there and back again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from kafkalog_cli.main import cli
from tests.build import Record, batch_v2, offset_index

if TYPE_CHECKING:
    from pathlib import Path

FIRST = "00000000000000000000"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["reindex", "--kafka", "4.3", "--output", "ndjson", *map(str, arguments)])


def rows(result: Result, kind: str) -> list[dict[str, Any]]:
    return [row for row in map(json.loads, result.stdout.splitlines()) if row["type"] == kind]


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    directory = tmp_path / "t-0"
    directory.mkdir()
    batches = [batch_v2([Record(offset=offset, timestamp_ms=offset, value=b"v" * 3000)]) for offset in range(6)]
    (directory / f"{FIRST}.log").write_bytes(b"".join(batches))
    return directory


def names(partition: Path) -> set[str]:
    return {path.name for path in partition.iterdir() if path.is_file()}


def test_there_and_back_again(partition: Path) -> None:
    planned = run(partition)
    assert planned.exit_code == 0
    assert [(row["kind"], row["state"], row["why"]) for row in rows(planned, "change")] == [
        ("create", "planned", "it is missing; 2 entries"),
        ("create", "planned", "it is missing; 3 entries"),
        ("create", "planned", "it is missing; 0 epochs before, 1 after"),
    ]
    assert names(partition) == {f"{FIRST}.log"}
    assert run(partition, "--apply").exit_code == 0
    assert names(partition) == {f"{FIRST}.log", f"{FIRST}.index", f"{FIRST}.timeindex", "leader-epoch-checkpoint"}
    again = run(partition)
    assert (again.exit_code, rows(again, "plan")[0]["state"]) == (0, "nothing")
    undone = CliRunner().invoke(cli, ["undo", str(partition), "--apply"])
    assert undone.exit_code == 0
    assert names(partition) == {f"{FIRST}.log"}


def test_a_wrong_index_is_an_error_until_it_is_mended(partition: Path) -> None:
    run(partition, "--apply")
    (partition / f"{FIRST}.index").write_bytes(offset_index([(1, 7)]))
    planned = run(partition)
    assert planned.exit_code == 4
    assert [row["code"] for row in rows(planned, "finding")] == ["index.wrong-position"]
    assert run(partition, "--apply").exit_code == 0
    assert run(partition).exit_code == 0


def test_damage_is_refused_with_the_next_command(partition: Path) -> None:
    log = partition / f"{FIRST}.log"
    data = bytearray(log.read_bytes())
    data[5000] ^= 1
    log.write_bytes(data)
    refused = run(partition)
    assert refused.exit_code == 4
    (finding,) = (row for row in rows(refused, "finding") if row["code"] == "reindex.damaged")
    assert "kafkalog dump --resync" in finding["cure"]
    assert rows(refused, "change") == []
    planned = run(partition, "--as-broker")
    assert planned.exit_code == 4
    assert [row["kind"] for row in rows(planned, "change")][:3] == ["create", "create", "cut"]
    assert rows(planned, "loss")[0]["records"] == 4
    assert run(partition, "--as-broker", "--apply").exit_code == 0


def test_settings_and_usage(partition: Path) -> None:
    assert run(partition, "--set", "log.index.interval.bytes=no").exit_code != 0
    assert run(partition / "absent").exit_code == 3
    made = run(partition, "--topic-config", "t:index.interval.bytes=100")
    assert rows(made, "change")[0]["why"] == "it is missing; 5 entries"
    assert {row["name"]: row["value"] for row in rows(made, "setting")}["index.interval.bytes"] == "100"
