"""A filter on any column of any table finds the same rows in every engine: no file is skipped that has some of them."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import duckdb
import polars as pl
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import functions as f

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.spark.catalog.catalog import CatalogRequest, catalog
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.spark.source.sql import open_catalog, open_export, open_export_findings
from tests.spark.exporting import NOW_MS, Run, batches, damage, records, write_log
from tests.spark.judging import files_of
from tests.support.build import LZ4, message_v0, message_v1, wrapper_v1
from tests.support.inline import Inline

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

FEW: Final = 4
"""Values that are looked for in a column, and null."""


def write_disk(disk: Path) -> None:
    """Logs in which many columns are null in all rows of some files, and in some rows of others."""
    old = [message_v0(record) for record in records(range(40))]
    new = [message_v1(record) for record in records(range(40, 60))] + [wrapper_v1(records(range(60, 80)))]
    write_log(disk / "old-0", 0, b"".join([*old, *new]))
    write_log(
        disk / "new-0", 0, batches(0, 60, codec=LZ4, leader_epoch=3, producer_id=7, producer_epoch=1, base_sequence=0)
    )
    write_log(disk / "new-0", 60, batches(60, 100))
    damage(write_log(disk / "new-1", 0, batches(0, 100)))


def write_catalog(out: Path, disk: Path, run_id: str) -> None:
    request = CatalogRequest(targets=tuple(resolve([str(disk)])), output=Store.of(str(out)), now_ms=NOW_MS)
    for _ in catalog(Inline(), request, Report(), run_id=run_id):
        pass


def forget_bounded(table: Path) -> None:
    """Leave a table as a release did that named no bounded columns and counted no nulls."""
    for path in (table / "_delta_log").glob("*.json"):
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        for entry in entries:
            entry.get("metaData", {}).update(configuration={})
            if "add" in entry:
                stats = json.loads(entry["add"]["stats"])
                stats.pop("nullCount", None)
                entry["add"]["stats"] = json.dumps(stats)
        path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def in_pyarrow(table: DeltaTable, column: str, value: object) -> int:
    field = pc.field(column)
    return table.to_pyarrow_dataset().to_table(filter=field.is_null() if value is None else field == value).num_rows


def in_pandas(table: DeltaTable, column: str, value: object) -> int:
    field = pc.field(column)
    return len(table.to_pandas(filters=field.is_null() if value is None else field == value))


def in_polars(table: DeltaTable, column: str, value: object) -> int:
    field = pl.col(column)
    frame = pl.scan_delta(table.table_uri).filter(field.is_null() if value is None else field == value)
    return int(frame.select(pl.len()).collect().item())


def in_duckdb(table: DeltaTable, column: str, value: object) -> int:
    rows = duckdb.from_arrow(table.to_pyarrow_dataset())
    name = duckdb.ColumnExpression(column)
    is_there = name.isnull() if value is None else name == duckdb.ConstantExpression(value)
    return len(rows.filter(is_there).fetchall())


def in_deltalake(table: DeltaTable, column: str, value: object) -> int:
    word = f"x'{value.hex()}'" if isinstance(value, bytes) else f"'{value}'" if isinstance(value, str) else str(value)
    word = f"timestamp '{value.isoformat()}'" if isinstance(value, datetime) else word
    where = f'"{column}" is null' if value is None else f'"{column}" = {word}'
    found = QueryBuilder().register("t", table).execute(f"select count(*) as n from t where {where}")  # noqa: S608
    return int(found.read_all()["n"][0].as_py())


ENGINES: Final[dict[str, Callable[[DeltaTable, str, object], int]]] = {
    "pyarrow": in_pyarrow,
    "pandas": in_pandas,
    "Polars": in_polars,
    "DuckDB": in_duckdb,
    "deltalake": in_deltalake,
}


def wanted(table: Path, columns: list[str]) -> dict[str, Counter[Any]]:
    """How often each column has which value, by the files themselves."""
    rows: list[dict[str, Any]] = []
    for file in files_of(table):
        by_directory = {name.removeprefix("partition."): value for name, value in file.items() if "partition." in name}
        rows += [by_directory | row for row in pq.ParquetFile(table / file["path"]).read().to_pylist()]
    assert rows, table
    return {name: Counter(row[name] for row in rows) for name in columns}


def assert_same(table: Path, frame: DataFrame) -> None:
    """All engines against the files, for some values of each column and for null."""
    delta = DeltaTable(table)
    plain = [
        field.name
        for field in frame.schema.fields
        if field.dataType.simpleString().partition("<")[0] not in {"array", "map"}
    ]
    counts = wanted(table, plain)
    asked = [(name, value, counts[name][value]) for name in plain for value in [*[*counts[name]][:FEW], None]]
    wrong = []
    for engine, count_in in ENGINES.items():
        for name, value, count in asked:
            found = count_in(delta, name, value)
            if found != count:
                wrong.append(f"{engine}: {table.name}.{name} = {value!r}: {found} rows, not {count}")
    sums = [
        f.count_if(f.col(f"`{name}`").isNull() if value is None else f.col(f"`{name}`") == f.lit(value))
        for name, value, _ in asked
    ]
    for (name, value, count), found in zip(asked, frame.agg(*sums).collect()[0], strict=True):
        if found != count:
            wrong.append(f"Spark: {table.name}.{name} = {value!r}: {found} rows, not {count}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("was_written_before", [False, True])
def test_an_export(tmp_path: Path, spark: SparkSession, was_written_before: bool) -> None:
    disk, out = tmp_path / "disk", tmp_path / "out"
    write_disk(disk)
    Run(out, disk)
    if was_written_before:
        for name in ("records", "findings"):
            forget_bounded(out / name)
        write_log(disk / "new-0", 100, batches(100, 150))
        Run(out, disk)
    assert_same(out / "records", open_export(spark, str(out)))
    assert_same(out / "findings", open_export_findings(spark, str(out)))


@pytest.mark.parametrize("was_written_before", [False, True])
def test_a_catalog(tmp_path: Path, spark: SparkSession, was_written_before: bool) -> None:
    disk, out = tmp_path / "disk", tmp_path / "out"
    write_disk(disk)
    write_catalog(out, disk, "first")
    if was_written_before:
        for table in (path for path in out.iterdir() if (path / "_delta_log").is_dir()):
            forget_bounded(table)
        write_log(disk / "new-0", 100, batches(100, 150))
        write_catalog(out, disk, "second")
    for name, frame in open_catalog(spark, str(out)).items():
        assert_same(out / name, frame)
