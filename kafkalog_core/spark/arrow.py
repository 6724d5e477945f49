"""Chunks of record and batch rows as Arrow batches that stay valid: bounded by rows and bytes, wanted columns alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.spark.rows import rows_to_arrow
from kafkalog_core.spark.schema import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from kafkalog_core.ops.reading.rows import Chunk
    from kafkalog_core.tables import Table

__all__ = ["BATCH_BYTES", "BATCH_ROWS", "ArrowRows", "rows_to_arrow"]

BATCH_ROWS: Final = 50_000
BATCH_BYTES: Final = 64 * 1024 * 1024


class ArrowRows:
    """Gathers rows of chunks into Arrow batches."""

    def __init__(
        self,
        table: Table,
        names: Sequence[str] | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
        batch_bytes: int = BATCH_BYTES,
        dictionary: bool = False,
    ) -> None:
        self._table = table
        self._names = tuple(column.name for column in columns_of(table, names))
        self._batch_rows = batch_rows
        self._rows: list[Mapping[str, object]] = []
        self.replaced_header_keys = 0

    def add(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Take the rows of a chunk; batches that are full come out."""
        for row in chunk.rows():
            self._rows.append(row)
            if len(self._rows) >= self._batch_rows:
                yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """What is left, as a batch."""
        rows, self._rows = self._rows, []
        if rows:
            yield rows_to_arrow(self._table, rows, self._names)
