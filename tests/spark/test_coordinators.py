"""`kafkalog spark groups` and `spark transactions`: the rows of the commands without Spark, in a notebook too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.errors import SelectionError
from kafkalog_core.spark import Disks
from tests.support.corpus.archives import FIXTURES
from tests.support.groups import GroupLog, data_log

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result
    from pyspark.sql import SparkSession

DEMO = str(FIXTURES / "demo")
REPLICAS = [str(FIXTURES / "replicas" / f"broker-{node}") for node in (1, 2, 3)]
NOW_MS = 1_763_714_640_000
NOW = ("--now", str(NOW_MS))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), catch_exceptions=False)


def as_without_spark(*arguments: str) -> list[dict[str, Any]]:
    """The rows of a job, which are those of the command of the same name, as its exit status and its messages are."""
    mine, theirs = run("spark", *arguments, *NOW, "--ndjson"), run(*arguments, *NOW, "--ndjson")
    assert (mine.exit_code, mine.stdout, mine.stderr) == (theirs.exit_code, theirs.stdout, theirs.stderr)
    return [json.loads(line) for line in mine.stdout.splitlines()]


def test_groups(spark: SparkSession, tmp_path: Path) -> None:
    assert {row["type"] for row in as_without_spark("groups", DEMO)} == {"group", "group_offset", "summary"}
    disks = [tmp_path / "1", tmp_path / "2"]
    data_log(disks[0], "t-0", 0, 30)
    for number in range(12):
        log = GroupLog(disks[number % 2], number)
        for offset in range(20):
            log.commit(offset, group=f"g{number}", time_ms=1000 + offset)
    places = [str(disk) for disk in disks]
    rows = as_without_spark("groups", *places)
    assert sum(row["type"] == "group" for row in rows) == 12
    then = as_without_spark("groups", "--group", "g3", "--topic", "t*", "--at", "5", *places)
    assert [row["offset"] for row in then if row["type"] == "group_offset"] == [5]
    as_without_spark("groups", "--group", "g33", *places)
    as_without_spark("groups", *REPLICAS)  # which have no __consumer_offsets


def test_transactions(spark: SparkSession) -> None:
    rows = as_without_spark("transactions", DEMO)
    assert {row["type"] for row in rows} == {"transaction", "transaction_part", "stable_offset", "summary"}
    narrow = as_without_spark("transactions", "--transactional-id", "payments-1", "--topic", "payments", DEMO)
    assert sum(row["type"] == "transaction_part" for row in narrow) == 4
    as_without_spark("transactions", "--producer", "4711", DEMO)
    as_without_spark("transactions", *REPLICAS)


def test_for_people(spark: SparkSession) -> None:
    for name in ("groups", "transactions"):
        mine, theirs = run("spark", name, *NOW, DEMO), run(name, *NOW, DEMO)
        assert mine.exit_code == 0
        assert mine.stdout == theirs.stdout
    assert run("spark", "groups", "s3a://bucket/logs").exit_code == 3


def test_in_a_notebook(spark: SparkSession) -> None:
    disks = Disks(spark, DEMO, topics="orders,payments")
    groups = disks.groups("billing", now_ms=NOW_MS)
    command = [
        json.loads(line) for line in run("groups", *NOW, "--group", "billing", "--ndjson", DEMO).stdout.splitlines()
    ]
    for kind in ("group", "group_offset"):
        mine = [json.loads(json.dumps(row)) for row in groups.rows(kind)]
        assert [{"type": kind} | row for row in mine] == [row for row in command if row["type"] == kind]
    assert groups.frame("group_offset").count() == 2
    assert groups.frame("group").select("problems").first()[0] == "{}"  # type: ignore[index]
    with pytest.raises(SelectionError, match=r"these logs begin at .*, after that moment: --history billing"):
        disks.groups("billing", at_ms=1)
    found = disks.transactions("payments-1", now_ms=NOW_MS)
    assert found.frame("transaction_part").count() == 4
    assert [row["topic"] for row in disks.transactions(now_ms=NOW_MS).rows("stable_offset")] == ["payments"]
