"""The Parquet files of the export: one a task, written under a name of its own, and those that are cut by a reload."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Self

from kafkalog_core import tables
from kafkalog_core.errors import NotFoundError
from kafkalog_core.spark.commit import Part, attempt_name, sync_file
from kafkalog_core.storage.changing.writer import WriteError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.reading.chunks import RecordChunk
    from kafkalog_core.spark.arrow import ArrowRows
    from kafkalog_core.spark.parquet import Compression, ParquetFile

__all__ = ["COLUMNS", "RecordFile", "keep_before", "write_error"]

COLUMNS: Final = tuple(name for name in tables.RECORD.names if name not in {"type", "topic", "partition"})
"""Of the files: topic and partition are those of their directories' names."""


class RecordFile:
    """A Parquet file of records, which is begun when there is a record for it. Entered, a failed one is taken away.

    Args:
        staging: the directory that it is written into.
        stem: how its name begins.
        folder: the directory that it comes to lie in, below the output.
        compression: of its pages.
        syncs: whether it is brought to the disk.
    """

    def __init__(self, staging: str, stem: str, folder: str, compression: Compression, *, syncs: bool = True) -> None:
        self._staged = attempt_name(stem)
        self._folder = folder
        self._path = f"{staging}/{self._staged}"
        self._compression = compression
        self._syncs = syncs
        self._file: ParquetFile | None = None
        self._rows: ArrowRows | None = None
        self._first: int | None = None
        self._last: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._file is not None and kind is not None:
            self._file.__exit__(kind, *rest)  # type: ignore[arg-type]

    def add(self, chunk: RecordChunk) -> None:
        """Add rows of a reader. Raises WriteError."""
        self._begin()
        if self._rows is not None:
            for batch in self._rows.add(chunk):
                self.write(batch)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows of the file's columns. Raises WriteError."""
        import pyarrow.compute as pc  # noqa: PLC0415 -- where there is work for it

        self._begin()
        bounds = pc.min_max(batch.column(COLUMNS.index("offset"))).as_py()
        if bounds["min"] is not None:
            self._first = bounds["min"] if self._first is None else min(self._first, bounds["min"])
            self._last = bounds["max"] if self._last is None else max(self._last, bounds["max"])
        if self._file is not None:
            try:
                self._file.write(batch)
            except OSError as error:
                raise write_error(self._path, error) from error

    def finish(self) -> Part | None:
        """The finished file; null: it has no record. Raises WriteError."""
        if self._rows is not None:
            for batch in self._rows.flush():
                self.write(batch)
        if self._file is None:
            return None
        try:
            written = self._file.close()
        except OSError as error:
            raise write_error(self._path, error) from error
        if self._syncs:
            sync_file(self._path)
        info = {"first_offset": self._first, "last_offset": self._last}
        return Part(self._staged, f"{self._folder}/{self._staged}", written.rows, os.path.getsize(self._path), info)

    def finding(self) -> Finding | None:
        """Header keys that had to be changed, as a column of text holds nothing else."""
        if self._rows is None:
            return None
        from kafkalog_core.spark.arrow import header_key_finding  # noqa: PLC0415 -- where there is work for it

        return header_key_finding(self._rows)

    def _begin(self) -> None:
        if self._file is not None:
            return
        from kafkalog_core.spark.parquet import ParquetFile  # noqa: PLC0415 -- where there is work for it

        try:
            self._file = ParquetFile(self._path, tables.RECORD, COLUMNS, compression=self._compression)
        except OSError as error:
            raise write_error(self._path, error) from error
        self._rows = self._file.gatherer()


def keep_before(
    path: str,
    offset: int,
    staging: str,
    stem: str,
    folder: str,
    compression: Compression,
    advance: Callable[[int], None],
) -> Part | None:
    """A task: a file again, with its records below an offset alone; null: there is none. Raises WriteError."""
    import pyarrow.compute as pc  # noqa: PLC0415 -- where there is work for it
    import pyarrow.parquet as pq  # noqa: PLC0415

    if not os.path.lexists(path):
        raise NotFoundError(
            "an earlier run has written this file, and it is gone: put it back from a backup, or reload the whole "
            "partition (--reload without a place to begin)",
            path=path,
        )
    with RecordFile(staging, stem, folder, compression) as file, pq.ParquetFile(path) as source:
        for batch in source.iter_batches(columns=list(COLUMNS)):
            kept = batch.filter(pc.less(batch.column("offset"), offset))
            if kept.num_rows:
                file.write(kept)
        advance(0)
        return file.finish()


def write_error(path: str, error: OSError) -> WriteError:
    """Why a file that another library writes could not be."""
    reason = (error.strerror or str(error)).lower()
    return WriteError(f"cannot be written: {reason}", path=path, number=error.errno)
