"""A small table as one Parquet file, written by the driver."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from kafkalog_core.spark.census.volume import writing
from kafkalog_core.spark.commit import Part, attempt_name, sync_file
from kafkalog_core.spark.parquet import ParquetFile
from kafkalog_core.spark.rows import rows_to_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.tables import Table

__all__ = ["write_table"]

_ROWS: Final = 50_000


def write_table(staging: str, name: str, run_id: str, table: Table, rows: Iterator[Mapping[str, object]]) -> Part:
    """Write rows into the staging directory, for the directory `name` of the output. Raises WriteError."""
    staged = attempt_name(name)
    with writing(staging), ParquetFile(f"{staging}/{staged}", table, compression="zstd") as file:
        while some := [*islice(rows, _ROWS)]:
            file.write(rows_to_arrow(table, some))
        written = file.close()
    sync_file(f"{staging}/{staged}")
    return Part(staged, f"{name}/part-{run_id}.parquet", written.rows, written.size_bytes)
