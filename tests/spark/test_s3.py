"""S3: inputs in a bucket, and lines to it on which much fails."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.errors import KafkalogError
from kafkalog_core.spark.lake.store import Store
from tests.spark.exporting import Run, offsets_in
from tests.spark.places import There
from tests.support.bad_line import bad_line
from tests.support.s3 import BUCKET, Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("s3") / "data")
    yield running
    running.close()


@pytest.fixture
def there(server: Server, tmp_path: Path) -> There:
    return There(server, tmp_path)


# --- bad lines --------------------------------------------------------------------------------------------------------
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


def test_lines_on_which_much_fails(disk: Path, server: Server, tmp_path: Path) -> None:
    """Connections are reset, cut in a request, slow, or answered with 503: it goes on, or ends with a sentence.

    Twenty lines; several at once, as they mostly wait.
    """
    places = [There(server, tmp_path) for _ in range(20)]
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
