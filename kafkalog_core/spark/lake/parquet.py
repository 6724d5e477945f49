"""One Parquet file of rows, written by the task that has the rows.

The encodings were chosen by measurement: strings with few distinct values are dictionary-encoded, columns that grow
from row to row (offsets, times) are delta-encoded, keys and values are plain, and statistics are written only for the
columns by which a reader can skip row groups.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from kafkalog_core.errors import StorageError
from kafkalog_core.spark.lake.store import attempt_name, writing
from kafkalog_core.spark.lake.tables import BOUNDED, TableFile
from kafkalog_core.spark.session.arrow import ArrowRows, arrow_schema, completed, rows_to_arrow
from kafkalog_core.spark.session.schema import columns_of, is_derived

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from kafkalog_core.output.tables import Column, Table
    from kafkalog_core.spark.lake.store import Store

__all__ = ["GATHERED_ROWS", "ROW_GROUP_BYTES", "Compression", "ParquetFile", "WrittenFile", "gatherer", "write_table"]


Compression = Literal["none", "snappy", "zstd"]
ROW_GROUP_BYTES: Final = 64 * 1024 * 1024  # in memory; twice as much costs a tenth more time
GATHERED_ROWS: Final = 100_000
_TABLE_ROWS: Final = 50_000
_ROWS_AT_ONCE: Final = 16 * 1024  # that the encoders take; by 1,024, as they would, costs a tenth
_PLACE: Final = ("topic", "partition")
_STEPPING: Final = (BOUNDED - {*_PLACE}) | {"sequence"}
_OWN: Final = frozenset({"key", "value", "decoded_value"})
"""Columns whose values are almost all distinct: a dictionary would cost time and save nothing."""


def gatherer(table: Table) -> ArrowRows:
    """Return a gatherer that turns chunks of records or batches into Arrow batches for files of a table."""
    names = [column.name for column in columns_of(table) if not is_derived(column)]
    return ArrowRows(table, names, batch_rows=GATHERED_ROWS, dictionary=True)


class WrittenFile(NamedTuple):
    """Rows and size of a finished file, and what a commit says of its bounded columns: see `TableFile`."""

    rows: int
    size_bytes: int
    bounds: Mapping[str, tuple[int, int]]
    nulls: Mapping[str, int]


class ParquetFile:
    """A Parquet file that is being written; `close` finishes it. Rows are held until they fill a row group.

    As a context manager it is closed at the end of the block, or deleted if an exception ends the block. The file is
    not fsynced: the caller does that before a commit names the file.

    Args:
        store: the store in which it is created.
        name: its name there, which no other file has.
        table: the table of its rows.
        names: its columns, in this order; None: all.
        compression: codec of its pages.
        row_group_bytes: size of the rows of a row group, in bytes of memory.

    Every method raises OSError if the file cannot be written.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        table: Table,
        names: Sequence[str] | None = None,
        *,
        compression: Compression = "snappy",
        row_group_bytes: int = ROW_GROUP_BYTES,
    ) -> None:
        self._store = store
        self._name = name
        self._table = table
        self._columns = columns_of(table, names)
        self._names = [column.name for column in self._columns]
        self._compression = compression
        self._row_group_bytes = row_group_bytes
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._rows = 0
        self._writer: pq.ParquetWriter | None = None
        self._sink = store.create(name)

    def gatherer(self) -> ArrowRows:
        """Return a gatherer that turns chunks of records or batches into Arrow batches for this file."""
        return gatherer(self._table)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch of rows: from the gatherer, or with columns of `arrow_schema`; see `completed` for others."""
        batch = completed(batch, self._columns)
        if self._held and not batch.schema.equals(self._held[0].schema):
            self._write_held()
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        self._rows += batch.num_rows
        if self._held_bytes >= self._row_group_bytes:
            self._write_held()

    def close(self) -> WrittenFile:
        """Finish the file; return its rows, its size and the bounds of its columns."""
        self._write_held()
        if self._writer is None:
            self._writer = self._open(arrow_schema(self._table, self._names))
        self._writer.close()
        size_bytes = self._sink.tell()
        self._sink.close()
        return WrittenFile(self._rows, size_bytes, *_bounds(self._writer.writer.metadata))

    def abandon(self) -> None:
        """Delete the file."""
        with suppress(OSError, pa.ArrowException):
            if self._writer is not None:
                self._writer.close()
        with suppress(OSError, pa.ArrowException):
            self._sink.close()
        with suppress(StorageError):
            self._store.delete([self._name])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            if not self._sink.closed:
                self.close()
        else:
            self.abandon()

    def _write_held(self) -> None:
        """Write the held rows as one row group."""
        if not self._held:
            return
        held, self._held, self._held_bytes = self._held, [], 0
        rows = _one_table(held)
        if self._writer is None:
            self._writer = self._open(rows.schema)
        if rows.schema != self._writer.schema:
            rows = rows.cast(self._writer.schema)
        self._writer.write_table(rows, row_group_size=rows.num_rows)

    def _open(self, schema: pa.Schema) -> pq.ParquetWriter:
        is_of_records = "headers" in self._table.names
        stepping = [column.name for column in self._columns if column.name in _STEPPING or column.kind == "timestamp"]
        skipped_by = [*(name for name in stepping if name != "sequence"), *(n for n in _PLACE if n in self._names)]
        dictionaries = [path for column in self._columns if column.name not in stepping for path in _paths(column)]
        return pq.ParquetWriter(
            self._sink,
            schema,
            compression=self._compression,
            use_dictionary=dictionaries or False,
            column_encoding=dict.fromkeys(stepping, "DELTA_BINARY_PACKED") or None,
            write_statistics=(skipped_by or False) if is_of_records else True,
            write_batch_size=_ROWS_AT_ONCE,
            memory_pool=pa.system_memory_pool(),  # see `arrow._allocate`
            store_schema=False,  # readers would get dictionary types, which only this writer wants
        )


def write_table(
    store: Store,
    folder: str,
    run_id: str,
    table: Table,
    rows: Iterable[Mapping[str, object]],
    compression: Compression = "zstd",
) -> TableFile:
    """Write rows as one new file of a table, and fsync it. Raises WriteError."""
    name, left = attempt_name(run_id, folder), iter(rows)
    path = f"{folder}/{name}"
    with writing(store.path(path)), ParquetFile(store, path, table, compression=compression) as file:
        while some := [*islice(left, _TABLE_ROWS)]:
            file.write(rows_to_arrow(table, some))
        written = file.close()
    store.finish(path)
    return TableFile(name, written.rows, written.size_bytes, {}, written.bounds, written.nulls)


def _bounds(footer: pq.FileMetaData) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    """Return the least and greatest values of the bounded columns, and how many nulls each has.

    A column that is null in all rows has no least value.
    """
    bounds: dict[str, tuple[int, int]] = {}
    nulls: dict[str, int] = {}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    for index in range(footer.num_columns if groups else 0):
        name = groups[0].column(index).path_in_schema
        if name not in BOUNDED:
            continue
        statistics = [group.column(index).statistics for group in groups]
        nulls[name] = sum(each.null_count for each in statistics)
        known = [each for each in statistics if each.has_min_max]
        if known:
            bounds[name] = (min(each.min for each in known), max(each.max for each in known))
    return bounds, nulls


def _paths(column: Column) -> Iterator[str]:
    """Yield the Parquet paths of the dictionary-encoded parts of a column."""
    if column.kind == "headers":
        yield f"{column.name}.list.element.key"
        yield f"{column.name}.list.element.value"
    elif column.name not in _OWN and column.kind not in {"bool", "map", "double"}:
        yield column.name


def _one_table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Return all rows as one table with unified dictionaries: a row group has one dictionary a column."""
    return pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches]).unify_dictionaries()
