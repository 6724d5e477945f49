"""`groups` on ZooKeeper's directories: offsets and owners of old consumers, as Kafka's own checker printed them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support.znodes import unpacked

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["groups", "--jobs", "1", *map(str, arguments)])


def rows(kind: str, *arguments: object) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in run("--ndjson", *arguments).stdout.splitlines()]
    return [row for row in found if row["type"] == kind]


def test_offsets_members_and_owners_without_any_log(tmp_path: Path) -> None:
    directory = unpacked("groups-0.8.2.2", tmp_path)
    found = {row["group"]: row for row in rows("group", directory)}
    assert list(found) == ["dual", "kafkaoff", "zkgrp1", "zkgrp2", "zklive"]
    assert {(row["group_type"], row["lag"]) for row in found.values()} == {("zookeeper", None)}
    assert (found["zklive"]["state"], found["zklive"]["members"], found["zkgrp1"]["state"]) == ("Stable", 2, "Empty")
    offsets = rows("group_offset", "--group", "zklive", directory)
    assert [(row["partition"], row["offset"], row["member_id"], row["state"]) for row in offsets] == [
        (0, 4, "zklive_c1-0", "not-here"),
        (1, 4, "zklive_c2-0", "not-here"),
    ]
    members = rows("group_member", "--group", "zklive", directory)
    assert [(row["member_id"], row["assignment"]) for row in members] == [
        ("zklive_c1", {"alpha": [0]}),
        ("zklive_c2", {"alpha": [1]}),
    ]


def test_offsets_are_exported_for_a_cluster_of_today(tmp_path: Path) -> None:
    directory = unpacked("groups-0.8.2.2", tmp_path)
    assert run("--export", "csv", "--group", "zkgrp1", directory).stdout == "alpha,0,11\nalpha,1,0\n"
    assert run("--export", "csv", "--group", "zkgrp1", "--group", "zkgrp2", directory).stdout == (
        "zkgrp1,alpha,0,11\nzkgrp1,alpha,1,0\nzkgrp2,beta,0,5\n"
    )


def test_groups_of_07_are_not_left_out_silently(tmp_path: Path) -> None:
    done = run("--export", "csv", unpacked("k07-0.7.2", tmp_path))
    assert (done.exit_code, done.stdout) == (0, "")
    assert "left out: the groups of 0.7, whose offsets are bytes in the logs of brokers (zkgrp, zklive)" in done.stderr


def test_a_group_that_is_not_there_and_a_topic(tmp_path: Path) -> None:
    directory = unpacked("groups-0.8.2.2", tmp_path)
    done = run("--group", "zkgrp", directory)
    assert (done.exit_code, "is zkgrp2 or zkgrp1 meant?" in done.stderr or "meant" in done.stderr) == (3, True)
    assert [row["topic"] for row in rows("group_offset", "--topic", "be*", directory)] == ["beta"]
    assert run("--topic", "none*", directory).exit_code == 3


def test_the_history_is_that_of_nodes(tmp_path: Path) -> None:
    directory = unpacked("groups-0.8.2.2", tmp_path)
    done = run("--history", "zkgrp1", directory)
    assert done.exit_code == 2
    assert f"kafkalog zookeeper --history /consumers/zkgrp1 {directory}" in done.stderr


def test_a_moment_is_that_of_the_transactions(tmp_path: Path) -> None:
    directory = unpacked("groups-0.8.2.2", tmp_path)
    found = rows("group", "--at", "2026-11-21T02:46:50Z", directory)
    assert [row["group"] for row in found] == ["zkgrp1"]


def test_groups_of_0_7_are_left_out_and_named(tmp_path: Path) -> None:
    text = run(unpacked("k07-0.7.2", tmp_path)).stdout
    assert "left out: the groups of 0.7" in text
    assert "kafkalog zookeeper --under /consumers --tree" in text
