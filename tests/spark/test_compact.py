"""`compact` on Spark: giants whose map is made in parts, cleaned logs written by tasks, what fails and what dies."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import RefusedError
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.compact import new_log_dir
from kafkalog_core.ops.compact.compact import compact as compact_here
from kafkalog_core.ops.compact.forecast import CompactRequest
from kafkalog_core.spark.jobs import compact
from kafkalog_core.spark.session.workers import SparkWorkers
from tests.support.keyed_logs import NOW_MS, Writer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kafkalog_core.ops.compact.forecast import CompactForecast

KAFKA = SettingsRequest(
    kafka="4.3.1", assignments=("cleanup.policy=compact", "min.cleanable.dirty.ratio=0"), assume_defaults=True
)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """One large partition, and three small ones with transactions and tombstones too."""
    root = tmp_path / "log-dir"
    root.mkdir()
    Writer(11, 9, keys=4000).write(root)
    for number in (1, 2, 3):
        other = tmp_path / f"other{number}"
        other.mkdir()
        (Writer(number, 2).write(other) / "t-0").rename(root / f"t-{number}")
    return root


def request(root: Path, *, memory_bytes: int | None = None) -> CompactRequest:
    return CompactRequest(
        targets=tuple(resolve([str(root)])), now_ms=NOW_MS, kafka=KAFKA, memory_bytes=memory_bytes, biggest=5
    )


def rows(forecasts: Iterable[CompactForecast]) -> list[dict[str, object]]:
    return [row for forecast in forecasts for chunk in forecast.chunks() for row in chunk.rows()]


def tree(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns if path.suffix == ".log" else 0)
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("memory_bytes", [None, 24 * 30], ids=["all keys fit", "the map fills up"])
def test_a_giant_is_told_as_in_one_pass(spark: SparkSession, log_dir: Path, memory_bytes: int | None) -> None:
    asked = request(log_dir, memory_bytes=memory_bytes)
    mine, theirs = Report(), Report()
    found = rows(compact(SparkWorkers(spark), asked, mine, giant_bytes=1))
    assert found == rows(compact_here(asked, theirs))
    assert mine.summary_row() == theirs.summary_row()
    assert len({row["partition"] for row in found}) == 4


class Counting:
    """Progress that adds up."""

    def __init__(self) -> None:
        self.read_bytes = 0

    def expect(self, size_bytes: int) -> None:
        """Nothing is made of it."""

    def advance(self, size_bytes: int) -> None:
        """Add it."""
        self.read_bytes += size_bytes


def test_the_parts_of_a_giant_read_no_more_than_one_pass_does(spark: SparkSession, log_dir: Path) -> None:
    """So the map that they make is the one that was used."""
    shared, whole = Counting(), Counting()
    rows(compact(SparkWorkers(spark, shared), request(log_dir), Report(), giant_bytes=1))
    rows(compact(SparkWorkers(spark, whole), request(log_dir), Report()))
    assert shared.read_bytes == whole.read_bytes > 0


def test_what_tasks_write_is_what_one_process_writes(spark: SparkSession, log_dir: Path) -> None:
    before, around = tree(log_dir), log_dir.parent
    asked = request(log_dir)
    expected = rows(new_log_dir.compact_to(asked, str(around / "here"), Report()))
    for name, giant_bytes in (("tasks", 1 << 40), ("giant", 1)):
        found = rows(compact(SparkWorkers(spark), asked, Report(), to=str(around / name), giant_bytes=giant_bytes))
        assert found == expected
        assert tree(around / name) == tree(around / "here")
        assert {path.stat().st_mode for path in (around / name).rglob("*.log")} == {
            path.stat().st_mode for path in (around / "here").rglob("*.log")
        }
    assert tree(log_dir) == before
    assert not [path for path in around.iterdir() if "kafkalog" in path.name]


def test_where_one_clean_fails_nothing_is_left(spark: SparkSession, log_dir: Path) -> None:
    damaged = min((log_dir / "t-2").glob("*.log"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    before = sorted(os.listdir(log_dir.parent))
    with pytest.raises(RefusedError, match="a clean fails here"):
        rows(compact(SparkWorkers(spark), request(log_dir), Report(), to=str(log_dir.parent / "to"), giant_bytes=1))
    assert sorted(os.listdir(log_dir.parent)) == before


def test_a_worker_that_dies_is_replaced_and_leaves_nothing(
    spark: SparkSession, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies in the middle of a file; another attempt finds its name taken, and takes another one."""
    around = log_dir.parent
    expected = rows(new_log_dir.compact_to(request(log_dir), str(around / "here"), Report()))
    monkeypatch.setattr(new_log_dir, "write_apart", Dying(str(around / "died")))
    assert rows(compact(SparkWorkers(spark), request(log_dir), Report(), to=str(around / "to"))) == expected
    assert (around / "died").exists()
    assert tree(around / "to") == tree(around / "here")
    assert not [path for path in around.iterdir() if "kafkalog" in path.name]


class Dying:
    """`write_apart`, but the first process that comes to partition 2 is killed when it has written something."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.real = new_log_dir.write_apart

    def __call__(self, task: object, partition: object, parts: object, advance: object) -> object:
        if getattr(task, "partition", None) == 2 and not os.path.exists(self.mark):
            place = f"{getattr(parts, 'path', '')}/t-2.1"
            os.mkdir(place)
            with open(f"{place}/half.log", "wb") as file:
                file.write(b"half")
            with open(self.mark, "wb"):
                os.kill(os.getpid(), 9)
        return self.real(task, partition, parts, advance)  # type: ignore[arg-type]


def test_the_command(spark: SparkSession, log_dir: Path) -> None:
    settings = ("--now", str(NOW_MS), "--kafka", "4.3.1", "--set", "cleanup.policy=compact", "--output", "ndjson")
    plain = CliRunner().invoke(cli, ["compact", *settings, str(log_dir)])
    shared = CliRunner().invoke(cli, ["spark", "compact", "--giant", "1", *settings, str(log_dir)])
    assert (shared.exit_code, shared.stdout) == (plain.exit_code, plain.stdout)
    assert json.loads(shared.stdout.splitlines()[-1])["partitions"] == 4
    for wrong, words in (
        (("--to", "s3a://bucket/x"), "kafkalog does not read s3a: URLs"),
        (("--memory", "3"), "too small for an offset map"),
        (("--to", str(log_dir / "t-9")), "in a broker's directory"),
    ):
        refused = CliRunner().invoke(cli, ["spark", "compact", *settings, *wrong, str(log_dir)])
        assert refused.exit_code in {2, 3}
        assert words in refused.stderr
        assert "Traceback" not in refused.stderr
