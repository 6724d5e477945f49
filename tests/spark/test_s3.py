"""Outputs in an object store: a real S3 server, on which everything happens that happens in a directory."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.errors import KafkalogError, LockedError, RefusedError
from kafkalog_core.ops.reading.report import Report
from kafkalog_core.ops.reading.targets import resolve
from kafkalog_core.spark.catalog.catalog import CatalogRequest, catalog
from kafkalog_core.spark.export.export import EXPORT_KIND
from kafkalog_core.spark.lake.output import Output, check_place
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.spark.source.sql import open_catalog, open_export, open_export_findings
from tests.ops.inline import Inline
from tests.s3 import BUCKET, Server, bad_line
from tests.spark.exporting import NOW_MS, START_MS, Run, batches, offsets_in, write_log
from tests.spark.judging import data_of, names_of, version_of
from tests.spark.test_output import Meanwhile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("s3") / "data")
    yield running
    running.close()


class There:
    """A prefix of the bucket: `store` for kafkalog, `files` for the judge."""

    number = 0

    def __init__(self, server: Server) -> None:
        There.number += 1
        self.uri = f"s3://{BUCKET}/out-{There.number}"
        self.store = Store.of(self.uri, server.options())
        self.files = server.files / f"out-{There.number}"

    def assert_tidy(self) -> None:
        """No file is there that no commit knows."""
        assert data_of(self.files / "records") == names_of(self.files / "records")
        inner = self.files / "_kafkalog"
        assert [path for path in (inner / "runs").rglob("*") if path.is_file()] == []
        assert len([path for path in (inner / "states").iterdir() if path.is_file()]) == 1


@pytest.fixture
def there(server: Server) -> There:
    return There(server)


# --- one run after another --------------------------------------------------------------------------------------------
def test_export_and_going_on(disk: Path, there: There, spark: SparkSession) -> None:
    Run(there.store, disk)
    assert Run(there.store, disk).exported["t-0"]["state"] == "unchanged"
    assert version_of(there.files / "records") == 1
    write_log(disk / "t-0", 100, batches(100, 120))
    Run(there.store, disk)
    assert (offsets_in(there.files, "t"), offsets_in(there.files, "u")) == ([*range(120)], [*range(100)])
    there.assert_tidy()
    frame = open_export(spark, there.uri, dict(there.store.options))
    assert sorted((row.topic, row.partition, row.offset) for row in frame.collect()) == [
        *(("t", 0, offset) for offset in range(120)),
        *(("u", 0, offset) for offset in range(100)),
    ]
    assert frame.where("topic = 't' and offset < 10").count() == 10


def test_reload_a_changed_log_and_damage(disk: Path, there: There, spark: SparkSession) -> None:
    Run(there.store, disk)
    Run(there.store, disk, reload=True, from_offset=33)
    assert offsets_in(there.files, "t") == offsets_in(there.files, "u") == [*range(100)]
    write_log(disk / "t-0", 50, batches(50, 80) + batches(80, 90, word="w", leader_epoch=3))
    assert Run(there.store, disk).codes == ["export.log-shorter"]
    Run(there.store, disk, on_change="reload")
    assert offsets_in(there.files, "t") == [*range(90)]
    data = bytearray((disk / "u-0" / f"{0:020}.log").read_bytes())
    data[30] ^= 0xFF
    (disk / "u-0" / f"{0:020}.log").write_bytes(data)
    assert Run(there.store, disk / "u-0", reload=True).codes == ["batch.crc-mismatch"]
    findings = open_export_findings(spark, there.uri, dict(there.store.options)).collect()
    assert sorted(row.code for row in findings) == ["batch.crc-mismatch", "export.changed-by-choice"]


def test_a_file_that_somebody_deleted(disk: Path, there: There) -> None:
    Run(there.store, disk)
    next((there.files / "records/topic=t").rglob("*.parquet")).unlink()
    assert Run(there.store, disk).codes == ["export.file-lost"]
    assert not Run(there.store, disk / "t-0", reload=True).findings
    assert offsets_in(there.files, "t") == [*range(100)]


def test_a_thousand_small_partitions(tmp_path: Path, there: There) -> None:
    for number in range(1000):
        write_log(tmp_path / "disk" / f"t-{number}", 0, batches(0, 5))
    Run(there.store, tmp_path / "disk")
    begun = time.monotonic()
    assert {row["state"] for row in Run(there.store, tmp_path / "disk").exported.values()} == {"unchanged"}
    assert time.monotonic() - begun < 60  # no request for each partition
    assert len(names_of(there.files / "records")) == 1000
    there.assert_tidy()


def test_a_catalog(disk: Path, there: There, spark: SparkSession) -> None:
    def run(number: int) -> list[dict[str, object]]:
        targets = tuple(resolve([str(disk)]))
        request = CatalogRequest(targets=targets, output=there.store, now_ms=NOW_MS)
        chunks = catalog(Inline(), request, Report(), run_id=f"run-{number}")
        return [row for chunk in chunks for row in chunk.rows()]

    assert sum(int(str(row["unchanged_bytes"])) for row in run(1)) == 0
    assert sum(int(str(row["read_bytes"])) for row in run(2)) == 0
    write_log(disk / "t-0", 100, batches(100, 120))
    run(3)
    frames = open_catalog(spark, there.uri, dict(there.store.options))
    assert frames["segments"].count() == 5
    assert frames["batches"].agg({"record_count": "sum"}).collect()[0][0] == 220
    assert sorted(row.partition for row in frames["partitions"].collect()) == [0, 0]


@pytest.mark.usefixtures("spark")
def test_the_commands(disk: Path, there: There, monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets come from the environment, or from options, and are not shown."""
    options = dict(there.store.options)
    secret = options.pop("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    given = [word for name, value in options.items() for word in ("--storage-option", f"{name}={value}")]
    common = ["--master", "local[2]", "--output", "ndjson", *given]
    for job in ("export", "catalog"):
        result = CliRunner().invoke(cli, ["spark", job, *common, "--to", f"{there.uri}/{job}", str(disk)])
        assert result.exit_code in {0, 4}, result.output
        assert secret not in result.output
    sources = ["--export", f"{there.uri}/export", "--catalog", f"{there.uri}/catalog"]
    query = "select (select count(*) from records) r, (select sum(record_count) from batches) b"
    result = CliRunner().invoke(cli, ["spark", "sql", *common, query, *sources])
    (row, _) = map(json.loads, result.stdout.splitlines())
    assert (row["r"], row["b"]) == (200, 200)
    result = CliRunner().invoke(cli, ["spark", "export", "--storage-option", secret, "--to", there.uri, str(disk)])
    assert result.exit_code == 2
    assert secret not in result.output


def test_what_is_refused(server: Server, there: There) -> None:
    there.store.write("mine.txt", b"mine")
    with pytest.raises(RefusedError, match=r"not empty.*'mine.txt'"):
        check_place(there.store, EXPORT_KIND)
    wrong = Store.of(there.uri, {**server.options(), "AWS_SECRET_ACCESS_KEY": "wrong"})
    with pytest.raises(KafkalogError, match="privileges"):
        Output(wrong, EXPORT_KIND)
    with pytest.raises(KafkalogError):
        Output(Store.of("s3://no-such-bucket/x", server.options()), EXPORT_KIND)
    assert "only-for-tests" not in repr(there.store)


def test_plain_files(disk: Path, there: There, spark: SparkSession) -> None:
    Run(there.store, disk, format="parquet")
    assert {path.name for path in there.files.iterdir() if any(path.rglob("*.parquet")) or path.is_file()} == {
        "records",
        "_SUCCESS",
    }
    assert sum(pq.ParquetFile(file).metadata.num_rows for file in (there.files / "records").rglob("*.parquet")) == 200
    assert open_export(spark, there.uri, dict(there.store.options)).where("topic = 't'").count() == 100
    with pytest.raises(RefusedError, match="it holds a finished export"):
        Run(there.store, disk, format="parquet")
    (there.files / "_SUCCESS").unlink()
    with pytest.raises(RefusedError, match="an unfinished export, whose run was killed, and can be deleted"):
        Run(there.store, disk, format="parquet")


def test_two_runs_of_plain_files(disk: Path, there: There) -> None:
    def other() -> None:
        with pytest.raises(LockedError, match="another run is writing into this directory"):
            Run(there.store, disk, format="parquet")

    Run(there.store, disk, format="parquet", workers=Meanwhile(other))
    assert (there.files / "_SUCCESS").exists()


@pytest.mark.parametrize("seed", range(3))
def test_plain_files_on_a_line_on_which_much_fails(disk: Path, server: Server, there: There, seed: int) -> None:
    with bad_line(server.port, seed) as port:
        try:
            Run(Store.of(there.uri, server.options(port)), disk, format="parquet")
        except KafkalogError as error:
            assert "s3://" in str(error)  # noqa: PT017 -- most of the time nothing fails
    if (there.files / "_SUCCESS").exists():
        files = (there.files / "records").rglob("*.parquet")
        assert sum(pq.ParquetFile(file).metadata.num_rows for file in files) == 200


# --- two at once, killed, and a bad line ------------------------------------------------------------------------------
def test_two_runs_of_different_partitions_both_commit(disk: Path, there: There) -> None:
    Run(there.store, disk / "t-0", workers=Meanwhile(lambda: Run(there.store, disk / "u-0")))
    assert offsets_in(there.files, "t") == offsets_in(there.files, "u") == [*range(100)]
    there.assert_tidy()


def test_of_two_runs_of_one_partition_the_second_says_so(disk: Path, there: There) -> None:
    with pytest.raises(LockedError, match="another run has exported t-0 since this one began"):
        Run(there.store, disk, workers=Meanwhile(lambda: Run(there.store, disk / "t-0")))
    Run(there.store, disk)
    assert offsets_in(there.files, "t") == offsets_in(there.files, "u") == [*range(100)]
    there.assert_tidy()


PROGRAM = """
import json, sys
from pathlib import Path
from kafkalog_core.errors import KafkalogError
from kafkalog_core.spark.lake.store import Store
from tests.spark.exporting import Run
uri, options, disk, number, commit_bytes = sys.argv[1:]
Run.number = int(number)
print(flush=True)
try:
    Run(Store.of(uri, json.loads(options)), Path(disk), commit_bytes=int(commit_bytes))
except KafkalogError as error:
    print(f"{type(error).__name__}: {error}")
"""


def begin(there: There, disk: Path, number: int, commit_bytes: int = 1 << 30) -> subprocess.Popen[str]:
    options = json.dumps(dict(there.store.options))
    command = [sys.executable, "-c", PROGRAM, there.uri, options, str(disk), str(number), str(commit_bytes)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("seed", range(30))
def test_a_process_that_is_killed_at_any_time(disk: Path, there: There, seed: int) -> None:
    dice = random.Random(seed)
    if seed % 3:
        Run(there.store, disk / "t-0")
    with begin(there, disk, 5000, dice.choice([1, 1 << 30])) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(dice.random() * 0.8)
        process.send_signal(signal.SIGKILL)
    for name in ("t", "u"):
        found = offsets_in(there.files, name)
        assert found == list(range(len(found)))
    Run(there.store, disk)
    assert offsets_in(there.files, "t") == offsets_in(there.files, "u") == [*range(100)]
    there.assert_tidy()


@pytest.mark.parametrize("turn", range(20))
def test_two_processes_at_once(disk: Path, there: There, turn: int) -> None:
    """Of the same partitions, or of others: nothing is there twice, and who could not commit says so."""
    both = [begin(there, disk, 6000, 1), begin(there, disk if turn % 2 else disk / "u-0", 7000, 1)]
    said = [process.communicate(timeout=60)[0].strip() for process in both]
    assert all(not each or "since this one began" in each for each in said), said
    for name in ("t", "u"):
        found = offsets_in(there.files, name)
        assert found == list(range(len(found)))
    Run(there.store, disk)
    assert offsets_in(there.files, "t") == offsets_in(there.files, "u") == [*range(100)]
    there.assert_tidy()


def test_lines_on_which_much_fails(disk: Path, server: Server) -> None:
    """Connections are reset, cut in a request, slow, or answered with 503: it goes on, or ends with a sentence.

    Twenty lines; several at once, as they mostly wait.
    """
    places = [There(server) for _ in range(20)]
    with ThreadPoolExecutor(10) as threads:
        list(threads.map(lambda seed: _over_a_bad_line(disk, server, places[seed], seed), range(20)))


def _over_a_bad_line(disk: Path, server: Server, there: There, seed: int) -> None:
    if seed % 2:
        Run(there.store, disk / "t-0")
    with bad_line(server.port, seed) as port:
        bad = Store.of(there.uri, server.options(port))
        for _ in range(2):
            try:
                Run(bad, disk)
            except KafkalogError as error:
                assert "s3://" in str(error)  # noqa: PT017 -- most of the time nothing fails
    for name in ("t", "u"):
        found = offsets_in(there.files, name)
        assert found == list(range(len(found)))
    Run(there.store, disk)
    assert offsets_in(there.files, "t") == offsets_in(there.files, "u") == [*range(100)]
    there.assert_tidy()


def test_offsets_and_times_begin_where_they_should(disk: Path, there: There) -> None:
    Run(there.store, disk / "t-0", from_time_ms=START_MS + 40_500)
    assert offsets_in(there.files, "t") == [*range(41, 100)]
    assert os.listdir(there.files / "records/topic=t") == ["partition=0"]


# --- inputs -----------------------------------------------------------------------------------------------------------
DEMO = ROOT / "fixtures" / "demo"
REPLICAS = ROOT / "fixtures" / "replicas"


def rows_of(*arguments: str, top: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(cli, [*arguments, "--master", "local[2]", "--output", "ndjson"])
    assert result.exit_code in {0, 4}, result.output
    assert "only-for-tests" not in result.output
    return result.exit_code, [line.replace(top, "TOP") for line in result.stdout.splitlines()]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("job", ["verify", "export", "catalog", "sql", "replicas"])
def test_jobs_read_a_bucket_as_a_directory(
    job: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (DEMO, REPLICAS):
        shutil.copytree(place, server.files / place.name, dirs_exist_ok=True)
    options = server.options()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options.pop("AWS_SECRET_ACCESS_KEY"))
    given = [word for name, value in options.items() for word in ("--storage-option", f"{name}={value}")]
    query = "select topic, count(*), sum(offset), count(distinct value) from records group by topic order by topic"
    found = []
    for top, words in ((str(ROOT / "fixtures"), []), (f"s3://{BUCKET}", given)):
        output = ["--to", str(tmp_path / f"out-{len(found)}")] if job in {"export", "catalog"} else []
        paths = [f"{top}/replicas/broker-{number}" for number in (1, 2, 3)] if job == "replicas" else [f"{top}/demo"]
        found.append(rows_of("spark", job, *words, *output, *([query] if job == "sql" else []), *paths, top=top))
    assert found[1] == found[0]


def test_the_data_source_reads_a_bucket(server: Server, spark: SparkSession) -> None:
    shutil.copytree(DEMO, server.files / "demo", dirs_exist_ok=True)
    for table in ("records", "batches", "segments", "findings"):
        here, there = (
            spark.read.format("kafkalog")
            .option("table", table)
            .options(**options)
            .load(path)
            .drop("file", "path", "mtime_ms")
            for options, path in (({}, str(DEMO)), (server.options(), f"s3://{BUCKET}/demo"))
        )
        assert sorted(map(str, there.collect())) == sorted(map(str, here.collect()))


def test_the_data_source_says_what_is_wrong(server: Server, spark: SparkSession) -> None:
    reader = spark.read.format("kafkalog").options(**server.options() | {"AWS_SECRET_ACCESS_KEY": "wrong-secret"})
    with pytest.raises(Exception, match="denies access") as caught:
        reader.load(f"s3://{BUCKET}/demo").count()
    assert "wrong-secret" not in str(caught.value)
    stream = spark.readStream.format("kafkalog").options(**server.options()).load(f"s3://{BUCKET}/demo")
    with pytest.raises(Exception, match="objects never grow"):
        stream.writeStream.format("noop").start().processAllAvailable()


@pytest.mark.parametrize("seed", range(4))
def test_an_export_from_a_bucket_on_a_line_on_which_much_fails(
    seed: int, disk: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(disk, server.files / f"in-{seed}")
    uri = f"s3://{BUCKET}/in-{seed}"
    with bad_line(server.port, seed) as port:
        for name, value in server.options(port).items():
            monkeypatch.setenv(name, value)
        try:
            Run(tmp_path / "out", uri)
        except KafkalogError as error:
            assert uri in str(error)  # noqa: PT017 -- most of the time nothing fails
    for name, value in server.options().items():
        monkeypatch.setenv(name, value)
    Run(tmp_path / "out", uri)
    assert offsets_in(tmp_path / "out", "t") == offsets_in(tmp_path / "out", "u") == [*range(100)]


def test_a_plan_shows_no_secret(server: Server, spark: SparkSession) -> None:
    shutil.copytree(DEMO, server.files / "demo", dirs_exist_ok=True)
    reader = spark.read.format("kafkalog").options(**server.options()).load(f"s3://{BUCKET}/demo")
    reader.createOrReplaceTempView("shown")
    for text in ("EXPLAIN EXTENDED SELECT * FROM shown", "EXPLAIN FORMATTED SELECT * FROM shown"):
        assert "only-for-tests" not in str(spark.sql(text).collect())
