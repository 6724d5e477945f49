"""Parquet files: any reader gets the rows back, and the way they are stored is the one that was measured."""

from __future__ import annotations

import errno
import resource
import signal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkalog_core.engine.chunks import Lines, RecordChunk, RowOrigin
from kafkalog_core.output import tables
from kafkalog_core.spark.lake.parquet import ParquetFile
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.spark.session.arrow import ArrowRows, arrow_schema, rows_to_arrow
from kafkalog_core.spark.session.schema import FINDINGS, RECORDS, struct_type
from tests.support.build import Record, batch_v2, message_v0
from tests.support.logs import record_chunks, records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def chunks(files: int, each: int = 30) -> Iterator[RecordChunk]:
    """Records of several files of a partition, with what may be null in them."""
    for number in range(files):
        first = number * 1000
        run = [
            Record(
                offset=one.offset, timestamp_ms=one.timestamp_ms, key=one.key, value=one.value, headers=((b"h", None),)
            )
            for one in records(first, each)
        ]
        data = batch_v2([*run, Record(offset=first + each, key=None, value=None)]) + message_v0(
            Record(offset=first + 99)
        )
        name = f"{first:020d}.log"
        for chunk in record_chunks(data, capacity=1000):
            parts = chunk.columns()
            place = RowOrigin("t", 0, name, f"/mnt/a/t-0/{name}")
            yield RecordChunk(Lines(place), _Run(parts.memory, parts.batches, parts.records), resynced=False)


class _Run:
    def __init__(self, memory, batches, records_) -> None:
        self.memory, self.batches, self.records = memory, batches, records_


def plain(files: int) -> pa.Table:
    rows = ArrowRows(RECORDS)
    batches = [batch for chunk in chunks(files) for batch in rows.add(chunk)]
    return pa.Table.from_batches([*batches, *rows.flush()])


def new_file(path, *columns, **options) -> ParquetFile:
    return ParquetFile(Store(str(path.parent)), path.name, *columns, **options)


def write(path, files: int, **options) -> tuple[int, int]:
    with new_file(path, RECORDS, **options) as file:
        rows = file.gatherer()
        for chunk in chunks(files):
            for batch in rows.add(chunk):
                file.write(batch)
        for batch in rows.flush():
            file.write(batch)
        return file.close()


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_rows_are_read_back(tmp_path, compression):
    """Of more files than a byte can count, in one row group: their dictionaries are made one."""
    written = write(tmp_path / "a.parquet", 140, compression=compression)
    table = pq.read_table(tmp_path / "a.parquet")
    assert table == plain(140)
    assert table.schema == arrow_schema(RECORDS), "readers see texts, whatever they were written from"
    bounds = {"topic": ("t", "t"), "partition": (0, 0), "offset": (0, 139_099), "timestamp_ms": (0, 140_029)}
    nulls = {name: table[name].null_count for name in bounds}
    assert written == (140 * 32, (tmp_path / "a.parquet").stat().st_size, bounds, nulls)
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    assert metadata.num_row_groups == 1
    assert metadata.row_group(0).column(5).compression == {"none": "UNCOMPRESSED"}.get(compression, compression.upper())


def test_row_groups_and_how_they_are_stored(tmp_path):
    write(tmp_path / "a.parquet", 12, row_group_bytes=10_000)
    assert pq.read_table(tmp_path / "a.parquet") == plain(12)
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    assert metadata.num_row_groups > 2
    columns = {
        column.path_in_schema: column
        for column in (metadata.row_group(1).column(index) for index in range(metadata.num_columns))
    }
    offsets = columns["offset"]
    assert "DELTA_BINARY_PACKED" in offsets.encodings
    assert offsets.statistics.min > metadata.row_group(0).column(5).statistics.max
    for name in (
        "segment",
        "path",
        "codec",
        "leader_epoch",
        "position",
        "headers.list.element.key",
        "headers.list.element.value",
    ):
        assert columns[name].has_dictionary_page, name
    for name in ("key", "value"):
        assert not columns[name].has_dictionary_page, name
        assert columns[name].statistics is None, name


def test_spark_reads_it(tmp_path, spark: SparkSession):
    write(tmp_path / "a.parquet", 3)
    frame = spark.read.schema(struct_type(RECORDS)).parquet(str(tmp_path / "a.parquet"))
    assert frame.toArrow().to_pylist() == plain(3).to_pylist()
    assert frame.where("offset >= 2000 and value is null").count() == 2
    assert [*spark.read.parquet(str(tmp_path / "a.parquet")).columns] == arrow_schema(RECORDS).names


def test_columns_of_a_part(tmp_path):
    names = ["offset", "value"]
    with new_file(tmp_path / "a.parquet", RECORDS, names) as file:
        rows = file.gatherer()
        for chunk in chunks(2):
            for batch in rows.add(chunk):
                file.write(batch)
        for batch in rows.flush():
            file.write(batch)
    assert pq.read_table(tmp_path / "a.parquet") == plain(2).select(names)


def test_rows_that_are_dicts_and_no_rows(tmp_path):
    with new_file(tmp_path / "a.parquet", FINDINGS) as file:
        file.write(rows_to_arrow(FINDINGS, [{"code": "a", "partition": 4}]))
        file.write(rows_to_arrow(FINDINGS, [{"code": "b"}]))
    assert pq.read_table(tmp_path / "a.parquet").column("code").to_pylist() == ["a", "b"]
    for table in (FINDINGS, RECORDS, tables.STATS):
        path = tmp_path / f"{table.name}.parquet"
        assert new_file(path, table).close().rows == 0
        assert pq.read_table(path).schema.names == arrow_schema(table).names
        assert pq.read_table(path).num_rows == 0


def test_batches_of_both_kinds_in_one_file(tmp_path):
    """What was gathered for the file, and what was read from another one."""
    with new_file(tmp_path / "a.parquet", RECORDS) as file:
        rows = file.gatherer()
        for batch in (*(one for chunk in chunks(2) for one in rows.add(chunk)), *rows.flush()):
            file.write(batch)
        for batch in plain(2).to_batches():
            file.write(batch)
    assert pq.read_table(tmp_path / "a.parquet") == pa.concat_tables([plain(2), plain(2)])


def test_what_ends_by_an_exception_is_taken_away(tmp_path):
    def interrupted() -> None:
        with new_file(tmp_path / "a.parquet", RECORDS) as file:
            for batch in plain(2).to_batches():
                file.write(batch)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [*tmp_path.iterdir()] == []


def test_a_disk_that_is_full(tmp_path):
    """An error of the system's with its number, and no file."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write(tmp_path / "a.parquet", 40)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.errno == errno.EFBIG
    assert [*tmp_path.iterdir()] == []
