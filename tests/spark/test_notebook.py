"""The notebook's way to everything: the same rows as the commands', and a whole round over catalog and export."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import kafkalog_core.spark as api
from kafkalog_cli.main import cli
from kafkalog_core.errors import SelectionError
from kafkalog_core.spark import Disks, open_catalog, open_export, open_session
from tests.support.corpus.archives import FIXTURES
from tests.support.logs import dump_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DEMO = str(FIXTURES / "demo")
NOW_MS = 1_800_000_000_000


def _command(*arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(cli, [*arguments, "--output", "ndjson", DEMO], catch_exceptions=False)
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_importing_it_imports_no_spark() -> None:
    code = "import sys, kafkalog_core.spark as s; s.Disks; print('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    assert dir(api) == sorted(api.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = api.nonsense


def test_tables_with_a_choice_of_columns_and_partitions(spark: SparkSession) -> None:
    disks = Disks(spark, DEMO, topics="orders, payments", partitions=[0])
    rows = disks.records("topic", "partition", "offset").collect()
    wanted = [row for row in dump_rows(FIXTURES / "demo", level="records") if row["topic"] in {"orders", "payments"}]
    assert {tuple(row) for row in rows} == {
        (row["topic"], row["partition"], row["offset"]) for row in wanted if row["partition"] == 0
    }
    assert disks.batches(minOffset=1).count() <= disks.batches().count()
    assert disks.segments().count() == len({(row["topic"], row["segment"]) for row in wanted if row["partition"] == 0})
    assert disks.sql("SELECT count(*) AS n FROM records").first()["n"] == len(rows)  # type: ignore[index]
    with pytest.raises(SelectionError):
        disks.records("nonsense")


def test_jobs_give_the_rows_of_the_commands(spark: SparkSession) -> None:
    disks = Disks(open_session(), DEMO)
    verified = disks.verify(now_ms=NOW_MS)
    of_command = [row for row in _command("verify") if row["type"] == "partition"]
    assert [row["path"] for row in verified.rows("partition")] == [row["path"] for row in of_command]
    assert verified.frame("partition").count() == len(of_command)
    retained = disks.retain(now_ms=NOW_MS)
    of_command = [row for row in _command("retain", "--now", str(NOW_MS)) if row["type"] == "retention"]
    assert [json.loads(json.dumps(row)) for row in retained.rows("retention")] == of_command
    assert retained.frame("retention").select("settings").first()[0].startswith("{")  # type: ignore[index]
    compacted = disks.compact(now_ms=NOW_MS, force=True)
    of_command = [row for row in _command("compact", "--now", str(NOW_MS), "--force") if row["type"] == "compaction"]
    assert [json.loads(json.dumps(row)) for row in compacted.rows("compaction")] == of_command
    assert "compaction" in repr(compacted)


def test_replicas(spark: SparkSession) -> None:
    result = Disks(spark, str(FIXTURES / "replicas" / "broker-*")).replicas()
    states = {row["topic"]: row["state"] for row in result.rows("replica")}
    assert states == {"rep.diverged": "divergent", "rep.same": "identical"}
    assert result.summary["exit_status"] == 4
    assert result.frame("replica_copy").where("state = 'keep'").count() == 2
    assert result.frame("replica_range").count() == 2
    assert result.frame("stats").count() == 0


def test_a_catalog_and_an_export(spark: SparkSession, tmp_path: Path) -> None:
    disks = Disks(spark, DEMO)
    catalog, export = str(tmp_path / "catalog"), str(tmp_path / "export")
    made = disks.catalog(catalog, now_ms=NOW_MS)
    assert made.summary["exit_status"] == 0
    exported = disks.export(export, now_ms=NOW_MS)
    assert exported.summary["exit_status"] == 0
    wanted = sum(row["type"] == "record" for row in dump_rows(FIXTURES / "demo", level="records"))
    assert open_export(spark, export).count() == wanted
    tables = open_catalog(spark, catalog)
    assert {"segments", "batches", "findings", "partitions"} <= tables.keys()
    assert tables["batches"].count() == disks.batches().count()
    both = disks.sql(
        "SELECT (SELECT count(*) FROM records), (SELECT sum(record_count) FROM batches), count(*) FROM partitions",
        catalog=catalog,
        export=export,
    ).first()
    assert both is not None
    assert both[0] == both[1] == wanted
    again = Disks(spark, DEMO).export(export, now_ms=NOW_MS)
    assert again.summary["records"] == 0
