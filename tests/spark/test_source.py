"""The data source: its rows are a dump's and a check's, whatever is asked for and however a plan is used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.filters.expression import Filters
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.spark.session.schema import SPARK_TABLES, columns_of
from tests.support.build import ABORT, COMMIT, GZIP, Record, batch_v2, meta_properties, txn_marker
from tests.support.logs import Row, dump_rows, records, write_segments

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

LEVELS = {"records": "record", "batches": "batch", "segments": "segment"}


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A broker's log directory: two topics, several segments, damage, transactions, headers."""
    path = tmp_path_factory.mktemp("kafka")
    (path / "meta.properties").write_bytes(meta_properties({"version": "0", "broker.id": "1", "cluster.id": "c"}))
    plain = b"".join(batch_v2(records(n * 10, 10, size=50)) for n in range(100))
    bad = bytearray(batch_v2(records(1000, 10)))
    bad[-1] ^= 1
    write_segments(path / "orders-0", {0: plain, 1000: bytes(bad) + batch_v2(records(1010, 100), codec=GZIP)})
    headers = ((b"trace", b"1"), (b"empty", None), (b"trace", b""))
    odd = [Record(offset=n, timestamp_ms=5000, key=None, value=None, headers=headers) for n in range(5)]
    write_segments(path / "orders-3", {0: batch_v2(odd)})
    data = [batch_v2(records(n * 5, 5), producer_id=n % 2, is_transactional=True) for n in range(2)]
    marks = [txn_marker(COMMIT, offset=10, producer_id=0), txn_marker(ABORT, offset=11, producer_id=1)]
    write_segments(path / "payments-0", {0: b"".join([*data, *marks])})
    return path


def load(spark: SparkSession, *paths: Path, schema: str | None = None, **options: Any) -> DataFrame:
    reader = spark.read.format("kafkalog").options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load([str(path) for path in paths] if len(paths) > 1 else str(paths[0]))


def told(frame: DataFrame) -> list[str]:
    """Rows of a frame as comparable text, in any order."""
    return sorted(_text(row) for row in frame.toArrow().to_pylist())


def expected(table: str, rows: list[Row]) -> list[str]:
    names = [column.name for column in columns_of(SPARK_TABLES[table])]
    chosen = [row for row in rows if row["type"] == LEVELS[table]]
    return sorted(_text({name: row.get(name) for name in names}) for row in chosen)


def _text(row: Row) -> str:
    row = dict(row)
    if row.get("headers") is not None:
        headers = [(h["key"].encode(), h["value"]) if isinstance(h, dict) else h for h in row["headers"]]
        row["headers"] = headers
    return repr(sorted(row.items()))


# --- the same rows ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("table", LEVELS)
def test_rows_are_those_of_a_dump(spark: SparkSession, disk: Path, table: str) -> None:
    frame = (
        load(spark, disk, table=table, splitBytes=3000, batchRows=7)
        if table != "segments"
        else load(spark, disk, table=table)
    )
    rows = dump_rows(disk, level=table, path=True)
    assert told(frame) == expected(table, rows) != []


def test_findings_are_those_of_verify(spark: SparkSession, disk: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_segments(other / "orders-0", {0: batch_v2(records(0, 3))})
    (other / "meta.properties").write_bytes(meta_properties({"version": "0", "broker.id": "2", "cluster.id": "d"}))
    (other / "recovery-point-offset-checkpoint").write_text("0\n1\npayments 0 3\n")
    now_ms = 1_900_000_000_000
    targets = tuple(resolve([str(disk), str(other)]))
    verdicts = verify(VerifyRequest(targets=targets, now_ms=now_ms))
    findings = [finding.row() for verdict in verdicts for finding in verdict.findings]
    names = [column.name for column in columns_of(SPARK_TABLES["findings"])]
    whole = sorted(_text({name: row.get(name) for name in names}) for row in findings)
    assert told(load(spark, disk, other, table="findings", now=now_ms)) == whole
    assert any("there is one in" in row["message"] for row in findings)


def test_options_choose_as_a_dump_does(spark: SparkSession, disk: Path) -> None:
    def offsets(**options: Any) -> list[tuple[str, int, int]]:
        frame = load(spark, disk, schema="topic string, partition int, offset bigint", **options)
        return sorted((row["topic"], row["partition"], row["offset"]) for row in frame.toArrow().to_pylist())

    assert offsets(topics="pay*") == [("payments", 0, n) for n in range(12)]
    assert offsets(topics="pay*", committed="true") == [("payments", 0, n) for n in range(5)]
    assert offsets(excludeTopics="pay*", PARTITIONS="1-9") == [("orders", 3, n) for n in range(5)]
    assert offsets(topicRegex="ord.*", partitions="0", minOffset=997, maxOffset=1011) == [
        ("orders", 0, n) for n in (997, 998, 999, 1010, 1011)
    ]
    assert offsets(partitions=0, topics="orders", since=1_000_000_000_000, until="2030-01-01") == []
    assert offsets(header="trace=1", maxOffset=3) == [("orders", 3, n) for n in range(4)]
    assert offsets(keyRegex="^K10(09|1[0-2])$", ignoreCase="true") == [("orders", 0, n) for n in (1010, 1011, 1012)]
    ours = dump_rows(disk, level="records", filters=Filters(times_ms=(5000, 5000)))
    assert offsets(since="1970-01-01T00:00:05Z", until="1970-01-01T00:00:05Z") == sorted(
        (row["topic"], row["partition"], row["offset"]) for row in ours if row["type"] == "record"
    )


# --- one plan, several uses -------------------------------------------------------------------------------------------
def test_one_frame_in_several_filtered_branches(spark: SparkSession, disk: Path) -> None:
    frame = load(spark, disk, splitBytes=30_000)
    orders, payments = frame.where("topic = 'orders' and partition = 3"), frame.where("topic = 'payments'")
    assert (orders.count(), payments.count(), frame.count()) == (5, 12, 1117)
    assert orders.union(payments).count() == 17
    assert orders.alias("a").crossJoin(payments.alias("b")).count() == 60
    joined = orders.alias("a").join(frame.where("topic = 'payments'").alias("b"), "offset")
    assert sorted(row.offset for row in joined.select("offset").collect()) == [0, 1, 2, 3, 4]
    frame.createOrReplaceTempView("all_records")
    both = spark.sql(
        "select (select count(*) from all_records where topic = 'payments') p, "
        "(select count(*) from all_records where offset < 3) o, (select count(*) from all_records) a"
    )
    assert both.collect() == [(12, 9, 1117)]
    assert frame.limit(3).count() == 3
    spark.sql(f"create or replace temp view v using kafkalog options (path '{disk}', table 'batches')")
    assert spark.sql("select count(*) c from v where is_control").collect() == [(2,)]


def test_a_schema_chooses_columns_in_any_order(spark: SparkSession, disk: Path) -> None:
    frame = load(
        spark,
        disk,
        schema="value binary, headers array<struct<key:string,value:binary>>, path string",
        topics="orders",
        partitions=3,
    )
    headers = [{"key": "trace", "value": b"1"}, {"key": "empty", "value": None}, {"key": "trace", "value": b""}]
    path = str(disk / "orders-3" / f"{0:020d}.log")
    assert frame.toArrow().to_pylist() == [{"value": None, "headers": headers, "path": path}] * 5
    assert frame.columns == ["value", "headers", "path"]


# --- what is refused --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tabel": "records"}, "has no option 'tabel'"),
        ({"inferSchema": "true"}, "has no option 'inferschema'"),
        ({"table": "rows"}, "option table must be records or batches or segments or findings, not 'rows'"),
        ({"table": "findings", "minOffset": "3"}, "does not apply to table findings"),
        ({"minOffset": "-3"}, "option minOffset must be a whole number"),
        ({"topics": "nothing*"}, "no partition matches topic 'nothing"),
        ({"startingOffsets": "latest"}, "does not apply to table records"),
        ({"schema": "offset int"}, "column 'offset' of rows of record is bigint, not int"),
        ({"schema": "ofset bigint"}, "rows of record have no column 'ofset'"),
    ],
)
def test_a_wrong_option_is_said_on_the_driver(
    spark: SparkSession, disk: Path, options: dict[str, str], sentence: str
) -> None:
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - the extra may be missing when tests are collected

    schema = options.pop("schema", None)
    with pytest.raises(AnalysisException) as error:
        load(spark, disk, schema=schema, **options).count()
    assert sentence in str(error.value)


def test_a_path_that_is_none(spark: SparkSession, disk: Path) -> None:
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - the extra may be missing when tests are collected

    for path, sentence in (
        (disk / "nothing", "no such file or directory"),
        ("s3a://bucket/logs", "mount the file system"),
    ):
        with pytest.raises(AnalysisException) as error:
            spark.read.format("kafkalog").load(str(path)).count()
        assert sentence in str(error.value)


def test_an_empty_log_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    log = write_segments(tmp_path / "topic-0", {0: b""})
    assert load(spark, log, minOffset=5, table="batches").count() == 0
    assert load(spark, log).schema.json() == load(spark, log, table="records").schema.json()


# --- without a session ------------------------------------------------------------------------------------------------
def test_the_work_travels_small(disk: Path) -> None:
    import pickle  # noqa: PLC0415 - here alone

    from kafkalog_core.spark.source.options import source_options  # noqa: PLC0415
    from kafkalog_core.spark.source.reader import plan, read  # noqa: PLC0415

    options = source_options({"paths": json.dumps([str(disk)]), "splitbytes": "1000"})
    work = plan(options, ("offset",), 0)
    assert len(work) > 8
    assert all(len(pickle.dumps(piece)) < 4000 for piece in work)
    batches = [batch for piece in work for batch in read(piece, options, ("offset",))]
    assert sum(batch.num_rows for batch in batches) == 1117
    assert batches[0].schema.names == ["offset"]
    report = Report()
    dump_rows(disk, level="records", report=report)
    assert report.records == 1117
