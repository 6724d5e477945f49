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
from tests.corpus import archives, faults
from tests.corpus.snapshots import snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.corpus.tree import Tree

pytestmark = pytest.mark.corpus

_NOW = ("--now", "1796000000000")


@pytest.fixture(scope="session")
def log_dirs(tree: Tree) -> list[str]:
    """Every log dir that was copied whole, and those of the faults before a broker started on them."""
    plain = {str(tree.corpus / snapshot.log_dir) for snapshot in snapshots() if snapshot.fault is None}
    faulty = {
        str(tree.partition_dir(snapshot).parent)
        for snapshot in snapshots()
        if snapshot.fault is not None and snapshot.state == faults.BEFORE
    }
    return sorted(plain) + sorted(faulty)


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
        ("verify", "--level", "checksums"),
        ("retain", *_NOW),
        ("retain", *_NOW, "--what-if", "retention.ms=1000"),
        ("compact", *_NOW, "--set", "cleanup.policy=compact"),
        ("compact", *_NOW),
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


def test_compact_writes_what_it_writes_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    demo = str(archives.FIXTURES / "demo")
    settings = (*_NOW, "--kafka", "4.3.1", "--set", "cleanup.policy=compact", "--set", "min.cleanable.dirty.ratio=0")
    _run("compact", *settings, "--apply", "--to", str(tmp_path / "plain"), demo)
    _run("spark", "compact", *settings, "--to", str(tmp_path / "spark"), demo)
    assert _tree(tmp_path / "spark") == _tree(tmp_path / "plain")


def _tree(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns if path.suffix == ".log" else 0)
        for path in directory.rglob("*")
        if path.is_file()
    }
