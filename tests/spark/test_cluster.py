"""A real standalone cluster: what it takes to run on one, and an export while its processes are killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet
import pytest

from kafkalog_core import kernels
from tests.spark.cluster import Cluster
from tests.spark.cluster_export import TASK_BYTES
from tests.spark.judging import data_of, names_of
from tests.support.build import Record, batch_v2
from tests.support.s3 import BUCKET, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "orders"
PARTITIONS, PIECES, RECORDS, VALUE_BYTES = 4, 16, 64, 1024
PROGRAM = """
import sys
from kafkalog_core.spark.session.session import SessionSettings, spark_session
from kafkalog_core.spark.session.workers import SparkWorkers
confs = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
with spark_session(SessionSettings(master=sys.argv[1], archives=sys.argv[2:3], confs=confs, is_light=True)) as spark:
    print(*sorted(set(SparkWorkers(spark).map(print_where, ((number,) for number in range(8))))), sep="\\n")
    print(spark.read.format("kafkalog").load(sys.argv[3]).where("offset % 2 = 0").count())
"""
WHERE = """
def print_where(number, advance):
    import sys, pyarrow, kafkalog_core.kernels as kernels
    return f"{sys.executable} {kernels.COMPILED} {kernels.__file__} {pyarrow.__file__}"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("log-dir")
    for number in range(PARTITIONS):
        write_partition(directory / f"{TOPIC}-{number}", number)
    return directory


def records_of(partition: int) -> list[Record]:
    chance = random.Random(partition)
    return [
        Record(offset=n, timestamp_ms=1_700_000_000_000 + n, key=b"%d" % n, value=chance.randbytes(VALUE_BYTES))
        for n in range(PIECES * RECORDS)
    ]


def write_partition(directory: Path, number: int) -> None:
    """A few batches in each piece of an export. Half of them have two segments, and the others one for each piece.

    A segment in an object store is read by one task.
    """
    directory.mkdir()
    records = records_of(number)
    step = RECORDS if number % 2 else len(records) // 2
    for base in range(0, len(records), step):
        with (directory / f"{base:020}.log").open("wb") as file:
            for first in range(base, base + step, 16):
                file.write(batch_v2(records[first : first + 16]))
        (directory / f"{base:020}.index").touch()
        (directory / f"{base:020}.timeindex").touch()


def run(*arguments: str | Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_archive_is_all_that_executors_need(cluster, log_dir, tmp_path):
    """Their Python has nothing but itself: no kafkalog, no pyarrow, no codec."""
    cluster.start_workers()
    venv.create(tmp_path / "bare", symlinks=True)
    archive = tmp_path / "kafkalog.tar.gz"
    packing = run("-m", "kafkalog_cli", "spark", "pack", archive)
    assert packing.communicate(timeout=900)[1] == ""
    python = str(tmp_path / "bare" / "bin" / "python")
    working = run("-c", WHERE + PROGRAM, cluster.url, archive, log_dir, PYSPARK_PYTHON=python)
    out, err = working.communicate(timeout=900)
    assert (err, working.returncode) == ("", 0)
    *places, count = out.splitlines()
    assert int(count) == PARTITIONS * PIECES * RECORDS // 2
    assert len(places) == 2
    for place in places:
        interpreter, compiled, ours, arrow = place.split()
        assert (interpreter, compiled) == (python, str(kernels.COMPILED))
        for path in (ours, arrow):
            assert path.startswith(str(cluster.directory / "work-of-worker-"))
            assert "/kafkalog/" in path


class Place(NamedTuple):
    """Where the logs and the output are, and the directory in which the output's files are seen."""

    logs: str
    output: str
    files: Path
    environment: dict[str, str]


@pytest.fixture(params=["directory", "s3"])
def place(request, log_dir, tmp_path) -> Iterator[Place]:
    if request.param == "directory":
        yield Place(str(log_dir), str(tmp_path / "out"), tmp_path / "out", {})
        return
    server = Server(tmp_path / "data")
    shutil.copytree(log_dir, server.files / "logs")
    yield Place(f"s3://{BUCKET}/logs", f"s3://{BUCKET}/out", server.files / "out", server.options())
    server.close()


def test_what_is_killed_in_the_middle_of_an_export(cluster, place):
    """A process of Python's, an executor, a worker daemon: every record is there exactly once."""
    cluster.start_workers()
    output = place.files
    exporting = run("-m", "tests.spark.cluster_export", cluster.url, place.logs, place.output, **place.environment)
    try:
        when_staged(output, 3, exporting, lambda: kill(cluster.pythons()[0].pid))
        when_staged(output, 12, exporting, lambda: kill(cluster.executors()[0].pid))
        when_staged(output, 24, exporting, cluster.kill_worker)
        out, err = exporting.communicate(timeout=900)
    finally:
        exporting.kill()
    assert (err, exporting.returncode) == ("", 0)
    assert out.count("'records': 1024") == PARTITIONS, out
    for number in range(PARTITIONS):
        rows = [
            (row["offset"], row["key"], row["value"])
            for name in names_of(output / "records")
            for row in pyarrow.parquet.ParquetFile(output / "records" / name).read().to_pylist()
            if (row["topic"], row["partition"]) == (TOPIC, number)
        ]
        assert sorted(rows) == [(record.offset, record.key, record.value) for record in records_of(number)]
    assert data_of(output / "records") == names_of(output / "records")
    assert [path for path in (output / "_kafkalog/runs").rglob("*") if path.is_file()] == []


def test_executors_that_cannot_start(cluster, log_dir, tmp_path):
    """The master starts ten of them, then it removes the application."""
    cluster.start_workers()
    options = ("--master", cluster.url, "--conf", f"spark.executorEnv.JAVA_HOME={tmp_path}/none")
    exporting = run("-m", "kafkalog_cli", "spark", "export", log_dir, "--to", tmp_path / "out", *options)
    _, err = exporting.communicate(timeout=900)
    assert "the master removed the application: its executors failed" in err
    assert "Traceback" not in err
    assert exporting.returncode not in (0, None)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def when_staged(output: Path, files: int, exporting: subprocess.Popen[str], act: Callable[[], None]) -> None:
    """Do it when tasks have written that many files, none of which is committed."""
    deadline = time.monotonic() + 600
    while len(list(output.rglob("*.parquet"))) < files:
        assert exporting.poll() is None, exporting.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not list(output.glob("records/_delta_log/*1.json"))
    act()


def test_the_pieces_of_the_export_are_many(log_dir):
    assert sum(path.stat().st_size for path in log_dir.rglob("*.log")) > 60 * TASK_BYTES
