"""One Parquet file of rows, written by the task that has them.

What was measured decides how: names and places travel as numbers into dictionaries, what steps from row to row
(offsets, times) is stored as differences, keys and values as they are, and minima and maxima are kept only where a
reader can skip by them.
"""

from __future__ import annotations

import errno
import math
import os
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, cast

import pyarrow as pa
import pyarrow.parquet as pq

from kafkalog_core.rows.chunk import RowChunk, bytes_member
from kafkalog_core.rows.kinds import new_table
from kafkalog_core.rows.tables import TABLES, Column, Table
from kafkalog_core.spark.session.arrow import ArrowRows, arrow_schema, columns_of
from kafkalog_core.text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import DataType

    from kafkalog_core.ops.reading.report import Report
    from kafkalog_core.rows.chunk import BytesMode, Chunk
    from kafkalog_core.rows.kinds import Kind

__all__ = ["GATHERED_ROWS", "ROW_GROUP_BYTES", "Compression", "ParquetFile", "Result", "Written", "chunks", "table_of"]


Compression = Literal["none", "snappy", "zstd"]
ROW_GROUP_BYTES: Final = 64 * 1024 * 1024  # in memory; twice as much costs a tenth more time
GATHERED_ROWS: Final = 100_000
_ROWS_AT_ONCE: Final = 16 * 1024  # that the encoders take; by 1,024, as they would, costs a tenth
_STEPPING: Final = frozenset({"offset", "base_offset", "last_offset", "timestamp_ms", "max_timestamp_ms", "sequence"})
_OWN: Final = frozenset({"key", "value"})
"""No two are alike, as a rule: a dictionary costs time and gains nothing."""


class Written(NamedTuple):
    """What a file holds."""

    rows: int
    size_bytes: int


class ParquetFile:
    """A Parquet file in the making, finished by `close`. Rows are held until they make a row group.

    As a context manager it is closed at the end, or taken away where an exception ends it. Nothing is synced to disk
    here: whoever makes the file part of something does that.

    Args:
        path: the file, which must not be there.
        table: of its rows.
        names: its columns, in this order; None: all.
        compression: of its pages.
        row_group_bytes: so much of rows in memory becomes a row group.

    Raises OSError, wherever the file is worked on, where it cannot be written.
    """

    def __init__(
        self,
        path: str,
        table: Table,
        names: Sequence[str] | None = None,
        *,
        compression: Compression = "snappy",
        row_group_bytes: int = ROW_GROUP_BYTES,
    ) -> None:
        self._path = path
        self._table = table
        self._columns = columns_of(table, names)
        self._names = [column.name for column in self._columns]
        self._compression = compression
        self._row_group_bytes = row_group_bytes
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._rows = 0
        self._writer: pq.ParquetWriter | None = None
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._sink = pa.OSFile(path, "wb")

    def gatherer(self) -> ArrowRows:
        """What makes batches for it out of chunks of records or batches."""
        return ArrowRows(self._table, self._names, batch_rows=GATHERED_ROWS, dictionary=True)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows: of its gatherer, or with exactly the columns of `arrow_schema`."""
        if self._held and not batch.schema.equals(self._held[0].schema):
            self._write_held()
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        self._rows += batch.num_rows
        if self._held_bytes >= self._row_group_bytes:
            self._write_held()

    def close(self) -> Written:
        """Finish the file."""
        self._write_held()
        if self._writer is None:
            self._writer = self._open(arrow_schema(self._table, self._names))
        self._writer.close()
        self._sink.close()
        return Written(self._rows, os.path.getsize(self._path))

    def abandon(self) -> None:
        """Take it away."""
        with suppress(OSError, pa.ArrowException):
            if self._writer is not None:
                self._writer.close()
        with suppress(OSError, pa.ArrowException):
            self._sink.close()
        with suppress(OSError):
            os.unlink(self._path)

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
        """What is held, as one row group."""
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
        stepping = [name for name in self._names if name in _STEPPING]
        skipped_by = [name for name in stepping if name != "sequence"]
        dictionaries = [path for column in self._columns if column.name not in _STEPPING for path in _paths(column)]
        return pq.ParquetWriter(
            self._sink,
            schema,
            compression=self._compression,
            use_dictionary=dictionaries or False,
            column_encoding=dict.fromkeys(stepping, "DELTA_BINARY_PACKED") or None,
            write_statistics=(skipped_by or False) if is_of_records else True,
            write_batch_size=_ROWS_AT_ONCE,
            memory_pool=pa.system_memory_pool(),  # see buffers.py
            store_schema=False,  # it would tell readers of dictionaries, which are ours alone
        )


def _paths(column: Column) -> Iterator[str]:
    """What of a column is written with a dictionary, as Parquet names it."""
    if column.kind == "headers":
        yield f"{column.name}.list.element.key"
        yield f"{column.name}.list.element.value"
    elif column.name not in _OWN and column.kind not in {"bool", "map", "double"}:
        yield column.name


def _one_table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """All rows, whose dictionaries are made one where they differ: a row group has one of a column."""
    return pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches]).unify_dictionaries()


ResultRow = dict[str, object]


class Result:
    """Rows of the tables in `kafkalog_core.TABLES`, the same that the command of that name writes.

    `summary` is the row that stands last there: counts by severity and code, and the `exit_status`.
    """

    def __init__(self, spark: SparkSession, chunks: Iterable[Chunk], report: Report) -> None:
        self._spark = spark
        self._rows: dict[str, list[ResultRow]] = {}
        for chunk in chunks:
            self._rows.setdefault(chunk.table.name, []).extend(chunk.rows())
        self.summary: Mapping[str, object] = report.summary_row()

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} {len(rows)}" for name, rows in self._rows.items()) or "no rows"
        return f"<Result: {counts}; exit status {self.summary['exit_status']}>"

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that there are rows of."""
        return tuple(self._rows)

    def rows(self, table: str) -> list[ResultRow]:
        """The rows of a table, as dicts by column; none where the job found none."""
        return self._rows.get(table, [])

    def frame(self, table: str) -> DataFrame:
        """The rows of a table as a DataFrame; maps are JSON text in it. Raises KeyError for a table that is none."""
        from kafkalog_core.spark.session.arrow import rows_to_arrow  # noqa: PLC0415 - imports pyarrow

        flat = _flat(TABLES[table])
        texts = {column.name for column in TABLES[table].columns if column.kind == "map"}
        rows = [
            {name: json_text(value) if name in texts and value is not None else value for name, value in row.items()}
            for row in self.rows(table)
        ]
        import pyarrow as pa  # noqa: PLC0415 - heavy

        return self._spark.createDataFrame(pa.Table.from_batches([rows_to_arrow(flat, rows)]))


def _flat(table: Table) -> Table:
    """The table with texts in place of maps, whose values are of many kinds."""
    return Table(
        table.name,
        tuple(Column(name, "string" if kind == "map" else kind, doc) for name, kind, doc in table.columns),
    )


_CHUNK_ROWS: Final = 1000
_KINDS: Final[Mapping[str, Kind]] = {"binary": "bytes", "boolean": "bool", "double": "double", "float": "double"}
_NO_NUMBERS: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})


def table_of(frame: DataFrame) -> Table:
    """The result's columns as a table of `row` rows; names that stand there twice get a number."""
    names: list[str] = ["type"]
    for each in frame.schema.names:
        name, number = each, 2
        while name in names:
            name, number = f"{each}_{number}", number + 1
        names.append(name)
    kinds = [_kind(each.dataType) for each in frame.schema.fields]
    return new_table("row", *(Column(name, kind, "") for name, kind in zip(names[1:], kinds, strict=True)))


def _kind(of: DataType) -> Kind:
    name = of.simpleString()
    return "int64" if name in _INTEGERS else _KINDS.get(name, "string")


def chunks(frame: DataFrame, table: Table, bytes_mode: BytesMode = "auto") -> Iterator[RowChunk]:
    """The rows of a result, some at a time; one part of it is in memory."""
    types = [each.dataType for each in frame.schema.fields]
    names = table.names[1:]
    rows = frame.toLocalIterator()
    while True:
        some = [_row(names, types, row, bytes_mode) for row in islice(rows, _CHUNK_ROWS)]
        if not some:
            return
        yield RowChunk(table, some)


def _row(names: tuple[str, ...], types: list[DataType], row: Row, mode: BytesMode) -> dict[str, object]:
    return {
        name: bytes(value) if isinstance(value, bytes | bytearray) else plain(value, kind, mode)
        for name, kind, value in zip(names, types, row, strict=True)
    }


def plain(value: Any, of: DataType, mode: BytesMode) -> object:
    """A value of Spark's as JSON has it: moments in UTC, decimals exact, structs as objects."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _NO_NUMBERS[str(value)]
    if isinstance(value, dict | list | tuple):
        return _nested(value, of, mode)
    if isinstance(value, bytes | bytearray):
        return bytes_member("value", bytes(value), mode)[1]
    return _moment(value, of) if isinstance(value, datetime) else str(value)


def _moment(value: datetime, of: DataType) -> str:
    """A timestamp of Spark's comes as a local time without a zone; one that never had a zone stays as it is."""
    if of.typeName() != "timestamp":
        return value.isoformat()
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def _nested(value: Any, of: Any, mode: BytesMode) -> object:
    if isinstance(value, dict):
        return {str(plain(key, of.keyType, mode)): plain(item, of.valueType, mode) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item, of.elementType, mode) for item in value]
    result: dict[str, object] = {}
    for each, item in zip(of.fields, value, strict=True):
        if each.dataType.typeName() == "binary":
            name, text = bytes_member(each.name, cast("bytes | None", item and bytes(item)), mode)
            result[name] = text
        else:
            result[each.name] = plain(item, each.dataType, mode)
    return result
