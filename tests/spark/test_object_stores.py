"""Outputs in S3, Azure and Google's store: on each of them happens what happens in a directory."""

from __future__ import annotations

import json
import random
import re
import time
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import AccessError, DeniedError, KafkalogError, LockedError, NotFoundError, RefusedError
from kafkalog_core.spark.catalog.catalog import CatalogRequest, catalog
from kafkalog_core.spark.export.export import EXPORT_KIND
from kafkalog_core.spark.lake.output import Output, check_place
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.spark.source.sql import open_catalog, open_export, open_export_findings
from tests.spark.exporting import NOW_MS, START_MS, Run, batches, offsets_in, write_log
from tests.spark.judging import names_of, version_of
from tests.spark.places import CLOUDS, There
from tests.support.bad_line import bad_line
from tests.support.inline import Inline, Meanwhile
from tests.support.s3 import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.forking import Exporter, Forks
    from tests.support.clouds import Cloud
    from tests.support.s3 import Server


@pytest.fixture(scope="module", params=CLOUDS)
def cloud(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud | Server]:
    running = CLOUDS[request.param](tmp_path_factory.mktemp(request.param) / "data")
    yield running
    running.close()


@pytest.fixture
def there(cloud: Cloud | Server, tmp_path: Path) -> There:
    return There(cloud, tmp_path)


def times(on_s3: int, elsewhere: int) -> list[tuple[str, int]]:
    """How often a test runs, which draws what happens."""
    return [(name, number) for name in CLOUDS for number in range(on_s3 if name == "s3" else elsewhere)]


def all_offsets(there: There) -> dict[str, list[int]]:
    files = there.files
    return {name: offsets_in(files, name) for name in ("t", "u")}


# --- one run after another --------------------------------------------------------------------------------------------
def test_export_and_going_on(disk: Path, there: There, spark: SparkSession) -> None:
    Run(there.store, disk)
    assert Run(there.store, disk).exported["t-0"]["state"] == "unchanged"
    assert version_of(there.files / "records") == 1
    write_log(disk / "t-0", 100, batches(100, 120))
    Run(there.store, disk)
    files = there.files
    assert (offsets_in(files, "t"), offsets_in(files, "u")) == ([*range(120)], [*range(100)])
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
    assert all_offsets(there) == {"t": [*range(100)], "u": [*range(100)]}
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
    there.store.delete([next(name for name in there.store.files("records") if name.endswith(".parquet"))])
    assert Run(there.store, disk).codes == ["export.file-lost"]
    assert not Run(there.store, disk, reload=True).findings
    assert offsets_in(there.files, "t") == [*range(100)]


@pytest.mark.parametrize("cloud", ["s3"], indirect=True)
def test_what_s3_refuses_is_said_in_the_words_of_inputs(disk: Path, there: There) -> None:
    options = dict(there.store.options)
    for change, kind, said in (
        ({"AWS_SECRET_ACCESS_KEY": "x"}, DeniedError, "the object store denies access: it cannot be listed"),
        ({"AWS_ACCESS_KEY_ID": "x"}, DeniedError, "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"),
    ):
        with pytest.raises(kind, match=said):
            Run(Store.of(there.uri, {**options, **change}), disk)
    with pytest.raises(NotFoundError, match="there is no bucket 'none'; check its name, AWS_ENDPOINT_URL"):
        Run(Store.of("s3://none/a", options), disk)


@pytest.mark.parametrize("format", ["delta", "parquet"])
@pytest.mark.parametrize("uri", ["s3://bucket/a", "gs://bucket/a"])
def test_a_store_that_is_down_is_named_soon(disk: Path, uri: str, format: str) -> None:  # noqa: A002 -- the option
    place = f"http://127.0.0.1:{free_port()}"
    given = {"AWS_ENDPOINT_URL": place, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "only-for-tests", "STORAGE_EMULATOR_HOST": place}
    begun = time.monotonic()
    with pytest.raises(AccessError) as caught:
        Run(Store.of(uri, {**given, **keys}), disk, format=format)
    assert time.monotonic() - begun < 30  # the tries of the libraries take about a minute
    assert "only-for-tests" not in str(caught.value)
    if uri.startswith("s3"):
        assert str(caught.value) == (
            f"{uri}: the connection to the object store fails: it cannot be listed after 3 attempts; check "
            "AWS_ENDPOINT_URL and the network, and run the command again"
        )


@pytest.mark.parametrize(("cloud", "count"), [("s3", 1000), ("azure", 100), ("google", 100)], indirect=["cloud"])
def test_many_small_partitions(tmp_path: Path, there: There, count: int) -> None:
    for number in range(count):
        write_log(tmp_path / "disk" / f"t-{number}", 0, batches(0, 5))
    Run(there.store, tmp_path / "disk", task_bytes=1 << 20)
    begun = time.monotonic()
    assert {row["state"] for row in Run(there.store, tmp_path / "disk").exported.values()} == {"unchanged"}
    assert time.monotonic() - begun < 60
    assert len(names_of(there.files / "records")) == 1
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
    secret = options.pop(there.hidden, "only-for-tests")
    if there.hidden:
        monkeypatch.setenv(there.hidden, secret)
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


def test_what_is_refused(cloud: Cloud | Server, there: There, disk: Path) -> None:
    there.store.write("mine.txt", b"mine")
    with pytest.raises(RefusedError, match=r"not empty.*'mine.txt'"):
        check_place(there.store, EXPORT_KIND)
    if there.hidden:
        wrong = Store.of(there.uri, {**cloud.options(), there.hidden: "d3Jvbmc="})
        with pytest.raises(KafkalogError, match=r"cannot be read: .*privileges.*: (SignatureDoes|Authorization)"):
            Output(wrong, EXPORT_KIND)
    with pytest.raises(KafkalogError, match=r"NoSuchBucket: |ContainerNotFound: |no bucket named"):
        Run(Store.of(re.sub("//[a-z]+", "//no-such-place", there.uri), cloud.options()), disk)
    assert not any(value in repr(there.store) for value in cloud.options().values())


def test_plain_files(disk: Path, there: There, spark: SparkSession) -> None:
    Run(there.store, disk, format="parquet")
    assert {name.split("/")[0] for name in there.store.files()} == {"records", "_SUCCESS"}
    assert sum(pq.ParquetFile(file).metadata.num_rows for file in (there.files / "records").rglob("*.parquet")) == 200
    assert open_export(spark, there.uri, dict(there.store.options)).where("topic = 't'").count() == 100
    with pytest.raises(RefusedError, match="it holds a finished export"):
        Run(there.store, disk, format="parquet")
    there.store.delete(["_SUCCESS"])
    with pytest.raises(RefusedError, match="an unfinished export, whose run was killed, and can be deleted"):
        Run(there.store, disk, format="parquet")


def test_two_runs_of_plain_files(disk: Path, there: There) -> None:
    def other() -> None:
        with pytest.raises(LockedError, match="another run is writing into this directory"):
            Run(there.store, disk, format="parquet")

    Run(there.store, disk, format="parquet", workers=Meanwhile(other))
    assert "_SUCCESS" in there.store.files()


def test_two_runs_of_different_partitions_both_commit(disk: Path, there: There) -> None:
    Run(there.store, disk / "t-0", workers=Meanwhile(lambda: Run(there.store, disk / "u-0")))
    assert all_offsets(there) == {"t": [*range(100)], "u": [*range(100)]}
    there.assert_tidy()


def test_of_two_runs_of_one_partition_the_second_says_so(disk: Path, there: There) -> None:
    with pytest.raises(LockedError, match="another run has exported t-0 since this one began"):
        Run(there.store, disk, workers=Meanwhile(lambda: Run(there.store, disk / "t-0")))
    Run(there.store, disk)
    assert all_offsets(there) == {"t": [*range(100)], "u": [*range(100)]}
    there.assert_tidy()


def test_a_whole_container(disk: Path, cloud: Cloud | Server, tmp_path: Path, spark: SparkSession) -> None:
    for format_ in ("delta", "parquet"):
        name = f"whole-{format_}"
        cloud.create(name)
        store = Store.of(cloud.uri("", name).rstrip("/"), cloud.options())
        Run(store, disk, format=format_)
        assert {file.split("/")[0] for file in store.files()} <= {"records", "_kafkalog", "_SUCCESS"}
        assert open_export(spark, store.root, dict(store.options)).where("topic = 't'").count() == 100
        if format_ == "delta":
            assert Run(store, disk).exported["t-0"]["state"] == "unchanged"


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("abfss://lake@account.dfs.core.windows.net/a", {"AZURE_STORAGE_SAS_TOKEN": "no-token"}),
        ("gs://lake/a", {"GOOGLE_APPLICATION_CREDENTIALS": "/no/such/file.json"}),
    ],
)
def test_credentials_that_cannot_be(disk: Path, uri: str, options: dict[str, str]) -> None:
    for format_ in ("delta", "parquet"):
        with pytest.raises(AccessError, match=r"cannot be listed: Generic ") as caught:
            Run(Store.of(uri, options), disk, format=format_)
        assert str(caught.value).startswith(f"{uri}: ")
        assert "\x1b" not in str(caught.value)
        assert "\n" not in str(caught.value)


# --- two at once, and killed ------------------------------------------------------------------------------------------
def begin(forks: Forks, there: There, disk: Path, number: int, commit_bytes: int = 1 << 30) -> Exporter:
    return forks.export(there.uri, disk, number, dict(there.store.options), commit_bytes=commit_bytes)


@pytest.mark.parametrize(("cloud", "seed"), times(30, 10), indirect=["cloud"])
def test_a_process_that_is_killed_at_any_time(disk: Path, there: There, forks: Forks, seed: int) -> None:
    dice = random.Random(seed)
    if seed % 3:
        Run(there.store, disk / "t-0")
    with begin(forks, there, disk, 5000, dice.choice([1, 1 << 30])) as process:
        time.sleep(dice.random() * 0.8)
        process.kill()
    assert all(found == list(range(len(found))) for found in all_offsets(there).values())
    Run(there.store, disk)
    assert all_offsets(there) == {"t": [*range(100)], "u": [*range(100)]}
    there.assert_tidy()


@pytest.mark.parametrize(("cloud", "turn"), times(20, 6), indirect=["cloud"])
def test_two_processes_at_once(disk: Path, there: There, forks: Forks, turn: int) -> None:
    """Of the same partitions, or of others: nothing is there twice, and who could not commit says so."""
    with (
        begin(forks, there, disk, 6000, 1) as one,
        begin(forks, there, disk if turn % 2 else disk / "u-0", 7000, 1) as other,
    ):
        said = [process.communicate() for process in (one, other)]
    assert all(not each or "since this one began" in each for each in said), said
    assert all(found == list(range(len(found))) for found in all_offsets(there).values())
    Run(there.store, disk)
    assert all_offsets(there) == {"t": [*range(100)], "u": [*range(100)]}
    there.assert_tidy()


# --- a bad line -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("cloud", "seed"), times(0, 6), indirect=["cloud"])
def test_lines_on_which_much_fails(disk: Path, cloud: Cloud | Server, there: There, seed: int) -> None:
    """Connections are reset, cut in a request, slow, or answered with 503: it goes on, or ends with a sentence.

    See `test_s3` for lines to S3.
    """
    if seed % 2:
        Run(there.store, disk / "t-0")
    with bad_line(cloud.port, seed) as port:
        bad = Store.of(there.uri, cloud.options(port))
        for _ in range(2):
            try:
                Run(bad, disk)
            except KafkalogError as error:
                assert there.uri in str(error)  # noqa: PT017 -- most of the time nothing fails
    assert all(found == list(range(len(found))) for found in all_offsets(there).values())
    Run(there.store, disk)
    assert all_offsets(there) == {"t": [*range(100)], "u": [*range(100)]}
    there.assert_tidy()


def test_offsets_and_times_begin_where_they_should(disk: Path, there: There) -> None:
    Run(there.store, disk / "t-0", from_time_ms=START_MS + 40_500)
    assert offsets_in(there.files, "t") == [*range(41, 100)]
    assert not offsets_in(there.files, "u")
