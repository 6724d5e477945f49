"""The export with Spark: tasks on executors, the command, and what Spark reads back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from kafkalog_cli.main import cli
from kafkalog_core.errors import NotFoundError, RefusedError
from kafkalog_core.output.tables import RECORD_DECODED
from kafkalog_core.spark.catalog.catalog import CATALOG_KIND
from kafkalog_core.spark.lake.output import OutputRun
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.spark.session.workers import SparkWorkers
from kafkalog_core.spark.source.sql import open_export, open_export_findings
from tests.spark.dying import DyingDisk, KilledError
from tests.spark.exporting import Run, batches, offsets_in, write_log
from tests.spark.judging import version_of
from tests.support.build import Record, batch_v2

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A log directory of three partitions; one topic is a number."""
    disk = tmp_path / "disk"
    for name in ("orders-0", "orders-1", "007-0"):
        write_log(disk / name, 0, batches(0, 50))
        write_log(disk / name, 50, batches(50, 100))
    headers = ((b"h", None), (b"", b"\x00\xff"))
    write_log(disk / "odd-0", 0, batch_v2([Record(value=b"", headers=headers)]))
    return disk


def command(*arguments: str | Path) -> Result:
    return CliRunner().invoke(
        cli, ["spark", "export", "--master", "local[2]", "--output", "ndjson", *map(str, arguments)]
    )


def rows(result: Result, kind: str) -> list[dict[str, Any]]:
    return [row for row in map(json.loads, result.stdout.splitlines()) if row["type"] == kind]


def test_what_was_exported_is_read_back(spark: SparkSession, disk: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = Run(out, disk, workers=SparkWorkers(spark))
    assert {name: row["records"] for name, row in run.exported.items()} == {
        "007-0": 100,
        "odd-0": 1,
        "orders-0": 100,
        "orders-1": 100,
    }
    frame = open_export(spark, str(out))
    assert set(frame.columns) == set(RECORD_DECODED.names) - {"type"} | {"timestamp", "is_committed"}
    assert frame.columns[:2] == ["topic", "partition"]
    counted = frame.groupBy("topic", "partition").count().collect()
    assert sorted(map(tuple, counted)) == [("007", 0, 100), ("odd", 0, 1), ("orders", 0, 100), ("orders", 1, 100)]
    (odd,) = frame.where("topic = 'odd'").collect()
    assert (odd.key, bytes(odd.value), odd.segment) == (None, b"", f"{0:020}.log")
    assert [(header.key, header.value and bytes(header.value)) for header in odd.headers] == [
        ("h", None),
        ("", b"\x00\xff"),
    ]
    both = frame.where("partition = 1").union(frame.where("topic = '007' and offset < 10"))
    assert both.count() == 110, "one DataFrame in two branches"
    assert open_export_findings(spark, str(out)).count() == 0


def test_findings_of_a_run_that_died_right_after_its_commit(spark: SparkSession, disk: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    Run(out, disk / "orders-0")
    data = bytearray((disk / "orders-1" / f"{0:020}.log").read_bytes())
    data[30] ^= 0xFF
    (disk / "orders-1" / f"{0:020}.log").write_bytes(data)
    at = 0
    while version_of(out / "records") < 2:
        at += 1
        with pytest.raises(KilledError):
            Run(out, disk / "orders-1", disk=DyingDisk(at))
    assert version_of(out / "findings") == -1
    assert open_export(spark, str(out)).where("partition = 1").count() == len(offsets_in(out, "orders", 1)) > 0
    for version in (-1, 1):
        assert version_of(out / "findings") == version
        (finding,) = open_export_findings(spark, str(out)).collect()
        assert (finding.code, finding.topic, finding.partition) == ("batch.crc-mismatch", "orders", 1)
        Run(out, disk / "orders-1")


def test_what_is_no_export(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nothing was committed"):
        open_export(spark, str(tmp_path / "none"))
    with OutputRun(Store.of(str(tmp_path / "out")), CATALOG_KIND, "x") as lake:
        lake.commit(lambda _: {}, [], now_ms=1)
    with pytest.raises(RefusedError, match="not an output of kafkalog spark export"):
        open_export(spark, str(tmp_path / "out"))


@pytest.mark.usefixtures("spark")
def test_the_command(disk: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = command("--to", out, "--topic", "orders", disk)
    assert result.exit_code == 0, result.output
    assert [(row["topic"], row["partition"], row["records"]) for row in rows(result, "export")] == [
        ("orders", 0, 100),
        ("orders", 1, 100),
    ]
    (summary,) = rows(result, "summary")
    assert (summary["records"], summary["partitions"], summary["exit_status"]) == (200, 2, 0)
    with (disk / "orders-0" / f"{50:020}.log").open("ab") as file:
        file.write(batches(100, 120))
    result = command("--to", out, disk)
    assert {row["topic"]: row["state"] for row in rows(result, "export") if row["partition"] == 1} == {
        "orders": "unchanged"
    }
    assert sum(row["records"] for row in rows(result, "export")) == 121
    assert offsets_in(out, "orders", 0) == list(range(120))
    write_log(disk / "orders-0", 50, batches(50, 60))
    result = command("--to", out, "--topic", "orders", disk)
    assert result.exit_code == 4
    assert [row["code"] for row in rows(result, "finding")] == ["export.log-shorter"]
    result = command("--to", out, "--topic", "orders", "--on-change", "reload", "--compression", "zstd", disk)
    assert result.exit_code == 0
    assert offsets_in(out, "orders", 0) == list(range(60))


@pytest.mark.usefixtures("spark")
def test_what_the_command_refuses(disk: Path, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").touch()
    for arguments, status, said in (
        (("--to", full, disk), 3, "not empty"),
        (("--to", tmp_path / "no/where", disk), 3, "the directory for the output does not exist"),
        (("--to", "s3a://bucket/x", disk), 3, "does not write to s3a: URLs"),
        (("--to", disk / "out", disk), 3, "which is read"),
        (("--to", disk / "orders-0" / "out", disk), 3, "within Kafka's own directory"),
        (("--to", tmp_path / "out", "hdfs://x/y"), 3, "does not read hdfs: URLs"),
        (("--to", tmp_path / "out", disk / f"orders-0/{0:020}.log"), 3, "not single files"),
        (
            ("--to", tmp_path / "out", "--from-offset", "1", "--from-time", "2025-01-01", disk),
            2,
            "give only one of them",
        ),
        ((disk,), 2, "--to"),
    ):
        result = command(*arguments)  # type: ignore[arg-type]
        assert result.exit_code == status, (arguments, result.output)
        assert said in str(result.exception or "") + result.output
