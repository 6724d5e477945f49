"""`kafkalog reindex` on the command line: its plan, its exit statuses, and there and back again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from kafkalog_cli.main import cli
from tests.support.build import Record, batch_v2, offset_index

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


def test_what_a_run_has_mended_is_no_error_any_more(partition: Path) -> None:
    """A wrong index, a missing one among others, a producer snapshot and leader epochs that a broker refuses."""
    second = "00000000000000000006"
    (partition / f"{second}.log").write_bytes(batch_v2([Record(offset=6, timestamp_ms=6)]))
    assert run(partition, "--apply").exit_code == 0
    (partition / f"{FIRST}.index").write_bytes(offset_index([(1, 5)]))
    (partition / f"{second}.timeindex").unlink()
    (partition / "00000000000000000007.snapshot").write_bytes(b"xx")
    with (partition / "leader-epoch-checkpoint").open("a") as epochs:
        epochs.write("garbage\n")
    wrong = {"index.wrong-position", "segment.timeindex-missing", "snapshot.corrupt", "checkpoint.malformed-line"}
    planned, applied = run(partition), run(partition, "--apply")
    for result, severities, cure in (
        (planned, {"error", "warning"}, "This plan repairs it."),
        (applied, {"info"}, "This run has repaired it."),
    ):
        found = [row for row in rows(result, "finding") if row["code"] in wrong]
        assert {row["code"] for row in found} == wrong
        assert {row["severity"] for row in found} == severities
        assert {(row["cure"], row["next_command"]) for row in found} == {(cure, None)}
    assert rows(applied, "summary")[0]["severities"].keys() == {"info"}
    assert not wrong & {row["code"] for row in rows(run(partition), "finding")}


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
    assert "kafkalog dump --records --resync" in finding["cure"]
    assert finding["next_command"].startswith("kafkalog recover ")
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
