"""A catalog as it was after earlier runs, and what is gone since."""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from kafkalog_cli.main import cli
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import NotFoundError, RefusedError, SelectionError
from kafkalog_core.spark.catalog.catalog import CATALOG_KIND, CatalogRequest, catalog
from kafkalog_core.spark.lake import run_signs
from kafkalog_core.spark.lake.output import OutputRun
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.spark.notebook import Disks
from kafkalog_core.spark.source.sql import open_catalog
from tests.spark.dying import DyingDisk, KilledError
from tests.spark.exporting import batches, write_log
from tests.spark.judging import version_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NOW_MS = time.time_ns() // 1_000_000 - 60_000
GONE = (
    "select topic, partition, base_offset, record_count, size_bytes from segments_at_1 anti join segments using (path) "
    "order by topic, partition, base_offset"
)


def run(out: Path, disk: Path, number: int, disk_of_output: DyingDisk | None = None) -> None:
    request = CatalogRequest(targets=tuple(resolve([str(disk)])), output=Store.of(str(out)), now_ms=NOW_MS + number)
    list(catalog(None, request, Report(), run_id=f"run-{number}", disk=disk_of_output))


def fence(out: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A run that finds what a dead run of another machine has left, commits that it may not commit, and ends."""
    Store(str(out)).write(f"_kafkalog/notes/other-{number}.kafkalog.000001.json", b"{}")
    with monkeypatch.context() as patched:
        patched.setattr(run_signs, "is_dead", lambda *_: False)
        patched.setattr(run_signs, "is_silent", lambda *_: True)
        with OutputRun(Store(str(out)), CATALOG_KIND, f"fencing-{number}"):
            pass


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalog of three runs. Versions 1, 3 and 4, as a fence is version 2: a segment and a partition are gone."""
    disk, out = tmp_path / "disk", tmp_path / "out"
    for name in ("t-0", "u-0"):
        write_log(disk / name, 0, batches(0, 50))
        write_log(disk / name, 50, batches(50, 100))
    run(out, disk, 1)
    fence(out, monkeypatch, 1)
    (disk / "t-0" / f"{0:020}.log").unlink()
    run(out, disk, 2)
    shutil.rmtree(disk / "u-0")
    run(out, disk, 3)
    assert version_of(out / "runs") == 4
    return out


def segments(spark: SparkSession, out: Path, version: int | None) -> list[tuple[str, int]]:
    frame = open_catalog(spark, str(out), at_version=version)["segments"]
    return sorted((row.topic, row.base_offset) for row in frame.collect())


def query(out: Path, text: str, *options: str) -> list[dict[str, Any]]:
    arguments = ["spark", "sql", "--output", "ndjson", "--catalog", str(out), *options, text]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = map(json.loads, result.stdout.splitlines())
    return [{name: value for name, value in row.items() if name != "type"} for row in rows if row["type"] == "row"]


def refusal(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["spark", "sql", *arguments], catch_exceptions=False)
    return result.exit_code, result.stderr


def test_each_version_shows_what_was_there(out: Path, spark: SparkSession) -> None:
    first = [("t", 0), ("t", 50), ("u", 0), ("u", 50)]
    assert segments(spark, out, 1) == segments(spark, out, 2) == first
    assert segments(spark, out, 3) == first[1:]
    assert segments(spark, out, 4) == segments(spark, out, None) == [("t", 50)]
    records = {"batches": 200, "partitions": 2, "findings": 0, "segments": 4}
    then = open_catalog(spark, str(out), at_version=1)
    assert then["batches"].agg({"record_count": "sum"}).collect()[0][0] == records["batches"]
    assert then["partitions"].count() == records["partitions"]


def test_what_is_gone_since(out: Path, spark: SparkSession) -> None:
    """One command, on the tables of a version and those of now."""
    gone = [(row["topic"], row["base_offset"], row["record_count"]) for row in query(out, GONE)]
    assert gone == [("t", 0, 50), ("u", 0, 50), ("u", 50, 50)]
    text = "select topic from partitions_at_1 anti join partitions_at_3 using (path)"
    assert query(out, text) == []
    assert query(out, text.replace("at_3", "at_4")) == [{"topic": "u"}]
    assert query(out, "select count(*) n from segments", "--at-version", "3") == [{"n": 3}]
    both = "select (select count(*) from batches) a, (select count(*) from batches_at_4) b"
    assert query(out, both, "--at-version", "1") == [{"a": 40, "b": 10}]
    assert query(out, both, "--at-version", "4") == [{"a": 10, "b": 10}]
    frame = Disks(spark).sql("select count(*) n from segments", catalog=str(out), at_version=1)
    assert frame.collect()[0].n == 4


def test_runs_and_their_versions(out: Path, spark: SparkSession) -> None:
    wanted = [{"version": version, "run": f"run-{number}"} for number, version in ((1, 1), (2, 3), (3, 4))]
    for _ in range(2):
        assert query(out, "select version, run from runs order by version") == wanted
        DeltaTable(str(out / "runs")).optimize.compact()
    assert segments(spark, out, 3) == [("t", 50), ("u", 0), ("u", 50)]


def test_versions_that_there_are_not(out: Path, spark: SparkSession) -> None:
    for version in (0, 5, 10**12):
        with pytest.raises(SelectionError, match=rf"no version {version}, or it can no longer be read.*table runs"):
            open_catalog(spark, str(out), at_version=version)
    assert refusal("--at-version", "1", "--export", str(out), "select 1")[0] == 2
    status, said = refusal("--catalog", str(out), "select * from segments_at_9")
    assert (status, "the catalog has no version 9" in said, len(said.splitlines())) == (3, True, 1)
    status, said = refusal("select * from segments_at_9 join segments using (path)", str(out.parent / "disk"))
    assert (status, "no source for segments_at_9; name a catalog: --catalog DIR" in said) == (3, True)


def test_files_of_a_version_that_were_deleted(out: Path, spark: SparkSession) -> None:
    for name in ("segments", "batches", "partitions", "findings"):
        table = DeltaTable(str(out / name))
        table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(
        RefusedError, match=r"Name a later version: later runs replaced the files of this one, .*--at-version N QUERY$"
    ):
        open_catalog(spark, str(out), at_version=1)
    assert segments(spark, out, 4) == segments(spark, out, None) == [("t", 50)]
    next((out / "segments").glob("*.parquet")).unlink()
    with pytest.raises(RefusedError, match=r"Run the catalog again, .*: kafkalog spark catalog --to \S+ PATH$"):
        open_catalog(spark, str(out))
    run(out, out.parent / "disk", 9)
    assert segments(spark, out, None) == [("t", 50)]


def test_a_row_of_a_run_that_was_deleted(out: Path, spark: SparkSession) -> None:
    next((out / "runs").glob("run-2*.parquet")).unlink()
    with pytest.raises(
        RefusedError,
        match=r"Query the last run: .*: kafkalog spark sql --catalog \S+ QUERY$",
    ):
        open_catalog(spark, str(out), at_version=1)
    assert segments(spark, out, None) == [("t", 50)]


def test_a_log_that_no_longer_goes_back_to_a_version(out: Path, spark: SparkSession) -> None:
    table = DeltaTable(str(out / "runs"))
    table.create_checkpoint()
    for version in range(3):
        (out / f"runs/_delta_log/{version:020}.json").unlink()
    rows = query(out, "select version, run from runs order by run")
    assert [row["version"] for row in rows] == [None, 3, 4]
    with pytest.raises(SelectionError, match="can no longer be read"):
        open_catalog(spark, str(out), at_version=1)
    assert segments(spark, out, 3) == [("t", 50), ("u", 0), ("u", 50)]


def test_a_catalog_without_a_finished_run(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run died before its commit, but after those of the other tables; then another was killed after its fence."""
    disk, out = tmp_path / "disk", tmp_path / "out"
    write_log(disk / "t-0", 0, batches(0, 50))
    at = 0
    while version_of(out / "segments") < 1:
        at += 1
        with pytest.raises(KilledError):
            run(out, disk, 1, DyingDisk(at))
    fence(out, monkeypatch, 1)
    assert (version_of(out / "runs"), version_of(out / "segments")) == (1, 1)
    with pytest.raises(NotFoundError, match="no run of kafkalog spark catalog has finished in this directory"):
        open_catalog(spark, str(out))
    status, said = refusal("--catalog", str(out), "select * from runs")
    assert (status, "no run of kafkalog spark catalog has finished" in said) == (3, True)
    run(out, disk, 2)
    assert segments(spark, out, None) == [("t", 0)]
    assert query(out, "select version, run from runs") == [{"version": 2, "run": "run-2"}]
