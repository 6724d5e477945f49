"""Chunks of record and batch rows as Arrow batches that stay valid: bounded by rows and bytes, wanted columns alone.

Kernels copy what is wanted out of a chunk into Arrow's own memory; no Python object is made for a row.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from kafkalog_core.findings import found
from kafkalog_core.format import kernels
from kafkalog_core.format.kernels import gather_numbers as numbers
from kafkalog_core.spark.buffers import Buffers
from kafkalog_core.spark.constants import Constants
from kafkalog_core.spark.rows import rows_to_arrow
from kafkalog_core.spark.schema import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.reading.chunks import BatchChunk, Place, RecordChunk
    from kafkalog_core.tables import Table

__all__ = ["BATCH_BYTES", "BATCH_ROWS", "ArrowRows", "ReplacedKeys", "header_key_finding", "rows_to_arrow"]

BATCH_ROWS: Final = 50_000
BATCH_BYTES: Final = 64 * 1024 * 1024
MOST_BYTES: Final = 1 << 30  # Arrow counts the bytes of a column with 31 bits
_ORIGIN: Final = frozenset({"topic", "partition", "segment", "path", "resynced"})  # of all rows of a batch


class ReplacedKeys(NamedTuple):
    """Keys of headers of one file that are no UTF-8: Arrow has them as a Java client does, with U+FFFD."""

    place: Place
    keys: int
    offset: int  # of the first record with such a key


class ArrowRows:
    """Gathers rows of chunks into Arrow batches; each holds rows of one file.

    Args:
        table: of records or of batches, with or without their path.
        names: the columns that are wanted, in this order; None: all.
        batch_rows: the most rows of a batch.
        batch_bytes: the most bytes of keys, values and headers in a batch, unless one row alone has more.
        dictionary: names and places as dictionaries, for Parquet files; a data source must not have them.
    """

    def __init__(
        self,
        table: Table,
        names: Sequence[str] | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
        batch_bytes: int = BATCH_BYTES,
        dictionary: bool = False,
    ) -> None:
        self._columns = columns_of(table, names)
        self._gathered = [column for column in self._columns if column.name not in _ORIGIN]
        self._is_record = "headers" in table.names
        self._batch_rows = max(1, batch_rows)
        self._batch_bytes = min(batch_bytes, MOST_BYTES)
        self._constants = Constants(dictionary=dictionary)
        self._buffers: Buffers | None = None
        self._done = array("q", [0] * numbers.DONE_SIZE)
        self._picked = array("q")
        self._origin: tuple[Place, bool] | None = None
        self.replaced: list[ReplacedKeys] = []

    @property
    def replaced_header_keys(self) -> int:
        """How many header keys were no UTF-8, in the batches that have come out."""
        return sum(one.keys for one in self.replaced)

    def add(self, chunk: RecordChunk | BatchChunk) -> Iterator[pa.RecordBatch]:
        """Take the rows of a chunk, which may be reused afterwards; batches that are full come out."""
        parts = chunk.columns()
        origin = (parts.place, parts.resynced)
        if origin != self._origin:
            yield from self.flush()
            self._origin = origin
        buffers = self._buffers
        if buffers is None:
            buffers = Buffers(self._gathered, self._batch_rows, self._constants, is_record=self._is_record)
            self._buffers = buffers
        columns = parts.batches if parts.records is None else parts.records
        if len(self._picked) < columns.count:
            self._picked = array("q", [0] * columns.count)
        row = 0
        while True:
            before = self._done[:]
            left = self._batch_rows - before[numbers.DONE_ROWS]
            row, count = kernels.measure_rows(
                columns, parts.selection, row, left, self._batch_bytes, buffers.wanted, self._done, self._picked
            )
            if count:
                buffers.gather(parts, self._picked, count, before, self._done)
            if row >= columns.count:
                return
            yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """What is left, as a batch."""
        rows = self._done[numbers.DONE_ROWS]
        if not rows or self._origin is None or self._buffers is None:
            return
        place, resynced = self._origin
        self._note_replaced(place, *self._buffers.replaced)
        origin = {**place._asdict(), "resynced": resynced}
        gathered = iter(self._buffers.take(self._gathered, rows))
        self._done = array("q", [0] * numbers.DONE_SIZE)
        arrays = [
            self._constants.array(column, origin[column.name], rows) if column.name in _ORIGIN else next(gathered)
            for column in self._columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=[column.name for column in self._columns])

    def _note_replaced(self, place: Place, keys: int, offset: int) -> None:
        if not keys:
            return
        if self.replaced and self.replaced[-1].place == place:
            last = self.replaced.pop()
            keys, offset = keys + last.keys, last.offset
        self.replaced.append(ReplacedKeys(place, keys, offset))


def header_key_finding(rows: ArrowRows) -> Finding | None:
    """What there is to tell of header keys that are no UTF-8; it names the first file that has some."""
    if not rows.replaced:
        return None
    place, _, offset = rows.replaced[0]
    return found(
        "export.header-keys",
        place.path or place.segment,
        topic=place.topic,
        partition=place.partition,
        offset=offset,
        keys=rows.replaced_header_keys,
    )
