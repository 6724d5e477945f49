"""Other engines read the tables: the same rows, the same bounds, the same sums over keys and values."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from kafkalog_core.spark.source.sql import open_export
from tests.spark.exporting import Run, batches, write_log
from tests.spark.judging import parquet_rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

PLACE = ["topic", "partition", "offset"]
TOPICS = [("007", 0), ("orders", 0), ("orders", 1)]
Answer = tuple[int, int, int, int]


def answer(rows: Iterable[tuple[int, bytes | None, bytes | None]]) -> Answer:
    """Number of rows, least and greatest offset, and a sum over keys and values."""
    known = [(offset, zlib.crc32((key or b"") + b"|" + (value or b""))) for offset, key, value in rows]
    offsets = [offset for offset, _ in known]
    return len(known), min(offsets), max(offsets), sum(crc for _, crc in known)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An export of three partitions, after a reload, and with a file made of several."""
    for name in ("orders-0", "orders-1", "007-0"):
        write_log(tmp_path / "disk" / name, 0, batches(0, 50))
        write_log(tmp_path / "disk" / name, 50, batches(50, 100))
    Run(tmp_path / "out", tmp_path / "disk")
    Run(tmp_path / "out", tmp_path / "disk" / "orders-1", reload=True, from_offset=33)
    write_log(tmp_path / "disk" / "orders-0", 100, batches(100, 150))
    Run(tmp_path / "out", tmp_path / "disk")
    DeltaTable(str(tmp_path / "out/records")).optimize.compact(partition_filters=[("topic", "=", "007")])
    return tmp_path / "out"


def test_all_engines_read_the_same(out: Path, spark: SparkSession) -> None:
    table = str(out / "records")
    wanted = answer((row["offset"], row["key"], row["value"]) for rows in parquet_rows(out).values() for row in rows)  # type: ignore[misc]
    assert wanted[:3] == (350, 0, 149)
    ours = open_export(spark, str(out)).select("offset", "key", "value").toArrow()
    arrow = DeltaTable(table).to_pyarrow_table(columns=["offset", "key", "value"])
    polars = pl.scan_delta(table).select("offset", "key", "value").collect()
    records = DeltaTable(table).to_pyarrow_dataset()
    duck = duckdb.sql('select "offset", key, value from records').fetchall()
    assert records.count_rows() == 350
    for name, rows in (
        ("open_export", zip(*(column.to_pylist() for column in ours.columns), strict=True)),
        ("deltalake", zip(*(column.to_pylist() for column in arrow.columns), strict=True)),
        ("Polars", polars.iter_rows()),
        ("DuckDB", duck),
    ):
        assert answer(rows) == wanted, name


def test_all_engines_read_plain_files(tmp_path: Path, spark: SparkSession) -> None:
    """As the documentation writes it: a topic that is a number is a text."""
    for name in ("orders-0", "orders-1", "007-0"):
        write_log(tmp_path / "disk" / name, 0, batches(0, 100))
    Run(tmp_path / "out", tmp_path / "disk", format="parquet")
    top = str(tmp_path / "out/records")
    wanted = [(topic, partition, offset) for topic, partition in TOPICS for offset in range(100)]
    for rows in (
        map(tuple, spark.read.parquet(top).select("topic", "partition", "offset").collect()),
        pl.scan_parquet(f"{top}/*.parquet").select("topic", "partition", "offset").collect().iter_rows(),
        map(tuple, map(dict.values, ds.dataset(top).to_table(columns=PLACE).to_pylist())),
        duckdb.sql(f"select topic, partition, \"offset\" from read_parquet('{top}/*.parquet')").fetchall(),  # noqa: S608
    ):
        assert sorted(rows) == wanted


def test_engines_skip_by_partition_and_by_offset(out: Path) -> None:
    table = str(out / "records")
    by_partition = pl.scan_delta(table).filter((pl.col("topic") == "007") & (pl.col("offset") < 10)).collect()
    assert by_partition.height == 10
    tail = DeltaTable(table).to_pyarrow_dataset().to_table(filter=pc.field("offset") >= 140)
    assert sorted(tail.column("offset").to_pylist()) == list(range(140, 150))
    files = DeltaTable(table).to_pyarrow_dataset().get_fragments(filter=pc.field("offset") >= 140)
    assert len(list(files)) < 3  # by the statistics in the table's log


def test_earlier_versions_are_there(out: Path) -> None:
    table = str(out / "records")
    counts = [DeltaTable(table, version=version).to_pyarrow_dataset().count_rows() for version in range(1, 5)]
    assert counts == [300, 300, 350, 350]
