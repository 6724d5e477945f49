"""`verify`, `retain` and `compact` through Spark give the rows of the commands without it, over all of the corpus.

Both commands run once over every log dir, and every fault, at the same moment; line by line what they print is the
same. Only summaries may count otherwise what they alone know of.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.spark.judging import Row, parquet_rows
from tests.support.corpus import archives, faults
from tests.support.corpus.dumping import CLEAN, DAMAGED, dump
from tests.support.corpus.snapshots import Snapshot, snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.corpus.tree import Tree

pytestmark = pytest.mark.corpus

_NOW = ("--now", "1796000000000")


@pytest.fixture(scope="session")
def log_dirs(tree: Tree) -> list[str]:
    """Every log dir that was copied whole, and those of the faults before a broker started on them.

    A log dir of a fault has one partition. Of those that are links to the same files of a base the first one is here.
    """
    plain = {str(tree.corpus / snapshot.log_dir) for snapshot in snapshots() if snapshot.fault is None}
    faulty: dict[str, Snapshot] = {}
    for snapshot in snapshots():
        if snapshot.fault is not None and snapshot.state == faults.BEFORE:
            faulty.setdefault(snapshot.same_as or snapshot.id, snapshot)
    return sorted(plain) + sorted(str(tree.partition_dir(snapshot).parent) for snapshot in faulty.values())


def _run(*arguments: str) -> tuple[int, list[dict[str, object]]]:
    result = CliRunner().invoke(cli, [*arguments, "--output", "ndjson"], catch_exceptions=False)
    rows = [json.loads(line) for line in result.stdout_bytes.splitlines()]
    assert rows, f"kafkalog {' '.join(arguments[:3])} ...: {result.exit_code}, nothing but {result.stderr}"
    return result.exit_code, rows


def _assert_same(found: list[dict[str, object]], wanted: list[dict[str, object]]) -> None:
    for one, other in zip(found, wanted, strict=False):
        assert one == other
    assert len(found) == len(wanted)


@pytest.mark.parametrize(
    "command",
    [
        ("verify",),
        ("verify", "--kafka", "0.10.0", "--set", "log.index.interval.bytes=1"),
        ("retain", *_NOW, "--what-if", "retention.ms=1000"),
        ("compact", *_NOW, "--set", "cleanup.policy=compact"),
    ],
    ids=" ".join,
)
def test_the_rows_are_those_of_the_command_without_spark(
    spark: SparkSession, log_dirs: list[str], command: tuple[str, ...]
) -> None:
    status, wanted = _run(*command, *log_dirs)
    found_status, found = _run("spark", *command, *log_dirs)
    _assert_same(found, wanted)
    assert found_status == status


def test_export_through_spark_is_what_a_dump_shows(spark: SparkSession, tmp_path: Path) -> None:
    """Over a log dir that is whole, and a partition that is damaged."""
    for name, status in (("demo", CLEAN), ("damaged", DAMAGED)):
        source, output = archives.FIXTURES / name, tmp_path / name
        found_status, _ = _run("spark", "export", str(source), "--to", str(output))
        assert found_status == status
        exported = parquet_rows(output)
        dumped: dict[tuple[str, int], list[Row]] = {}
        for row in dump(source, "--records").live("record"):
            dumped.setdefault((str(row.pop("topic")), int(str(row.pop("partition")))), []).append(row)
            del row["type"]
        assert exported == dumped


def test_findings_of_the_data_source_are_those_of_verify(spark: SparkSession, log_dirs: list[str]) -> None:
    chosen = log_dirs[::4]
    plain = _run("verify", *chosen)[1]
    source = spark.read.format("kafkalog").option("table", "findings")
    found = source.load(chosen).collect()  # type: ignore[arg-type] -- a list of paths is taken
    wanted = [
        {name: value for name, value in row.items() if name != "type"} for row in plain if row["type"] == "finding"
    ]
    key = json.dumps
    assert sorted((row.asDict() for row in found), key=key) == sorted(wanted, key=key)


def test_compact_writes_what_it_writes_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    demo = str(archives.FIXTURES / "demo")
    settings = (*_NOW, "--kafka", "4.3.1", "--set", "cleanup.policy=compact", "--set", "min.cleanable.dirty.ratio=0")
    settings = (*settings, "--assume-defaults")
    _run("compact", *settings, "--apply", "--to", str(tmp_path / "plain"), demo)
    _run("spark", "compact", *settings, "--to", str(tmp_path / "spark"), demo)
    assert _tree(tmp_path / "spark") == _tree(tmp_path / "plain")


def _tree(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns if path.suffix == ".log" else 0)
        for path in directory.rglob("*")
        if path.is_file()
    }
