"""One Parquet file of rows, written by the task that has them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from kafkalog_core.spark.arrow import ArrowRows
from kafkalog_core.spark.schema import arrow_schema, columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from kafkalog_core.tables import Table

__all__ = ["Compression", "ParquetFile", "Written"]

Compression = Literal["none", "snappy", "zstd"]
ROW_GROUP_BYTES: Final = 128 * 1024 * 1024


class Written(NamedTuple):
    """What a file holds."""

    rows: int
    size_bytes: int


class ParquetFile:
    """A Parquet file in the making. What ends by an exception is closed and taken away."""

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
        self._names = tuple(column.name for column in columns_of(table, names))
        self._rows = 0
        self._writer = pq.ParquetWriter(path, arrow_schema(table, names), compression=compression, store_schema=False)

    def gatherer(self) -> ArrowRows:
        """What makes batches for it out of chunks."""
        return ArrowRows(self._table, self._names, batch_rows=200_000, dictionary=True)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._writer.write_batch(batch)
        self._rows += batch.num_rows

    def close(self) -> Written:
        """Finish the file."""
        self._writer.close()
        return Written(self._rows, os.path.getsize(self._path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
