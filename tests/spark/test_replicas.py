"""`kafkalog spark replicas`: the rows of the comparison without Spark, and what a person sees."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.replicas.replicas import ReplicasRequest, replicas, rows_of, work_of
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC
from tests.support.corpus.archives import FIXTURES
from tests.support.group_logs import commit_record, write_commits

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

DISKS = [str(FIXTURES / "replicas" / f"broker-{node}") for node in (1, 2, 3)]


def test_rows_are_those_without_spark(spark: SparkSession) -> None:
    result = CliRunner().invoke(cli, ["spark", "replicas", "--output", "ndjson", *DISKS], catch_exceptions=False)
    assert result.exit_code == 4
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    report = Report()
    request = ReplicasRequest(targets=tuple(resolve(DISKS)))
    lines = [chunk.ndjson("auto") for item in replicas(work_of(request), report) for chunk in rows_of(item)]
    wanted = [json.loads(line) for text in lines for line in text.splitlines()]
    assert rows[:-1] == wanted
    assert rows[-1]["type"] == "summary"
    assert rows[-1] == {"type": "summary"} | json.loads(json.dumps(report.summary_row()))


def test_the_command_without_spark_prints_the_same_bytes(spark: SparkSession, tmp_path: Path) -> None:
    """In each form for programs, with what the choices cost groups and what the metadata log says."""
    dirs = [*DISKS, str(tmp_path / "commits")]
    write_commits(tmp_path / "commits" / f"{OFFSETS_TOPIC}-0", [commit_record("g", "rep.diverged", 0, 140, 2)])
    for form in ("ndjson", "json", "csv"):
        (of_spark, alone) = (
            CliRunner().invoke(cli, [*words, "--output", form, *dirs], catch_exceptions=False).stdout
            for words in (["spark", "replicas"], ["replicas"])
        )
        assert alone == of_spark
        assert "impact" in alone


def test_a_person_sees_what_to_keep(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    result = CliRunner().invoke(cli, ["spark", "replicas", "--output", "table", *DISKS], catch_exceptions=False)
    text = " ".join(result.stdout.split())
    assert "rep.diverged-0: divergent from offset 100 on, 3 copies" in text
    assert "its leader epoch 5 is the latest" in text
    assert "broker 1: Its broker truncates it at offset 100 and fetches the rest again: save the 50 records" in text
    assert "version 1 of the records, leader epoch 2 in broker 1" in text
    assert "2 partitions: 1 divergent, 1 identical" in text
    assert result.exit_code == 4


def test_in_sync_is_fine_and_one_disk_is_refused(spark: SparkSession) -> None:
    fine = CliRunner().invoke(cli, ["spark", "replicas", "--topic", "rep.same", "--output", "table", *DISKS])
    assert fine.exit_code == 0
    assert "1 partition: 1 identical" in fine.stdout
    refused = CliRunner().invoke(cli, ["spark", "replicas", DISKS[0]])
    assert refused.exit_code == 3
    assert "none of 2 partitions has two copies" in refused.stderr
