"""Parquet files of a table in an object store as a DataFrame, read by kafkalog's tasks: Spark needs no jar for it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.spark.session.schema import columns_of, struct_type
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kafkalog_core.output.tables import Column, Table
    from kafkalog_core.spark.lake.store import Store
    from kafkalog_core.spark.lake.tables import TableFile

__all__ = ["read_files"]

_ROWS: Final = 16 * 1024
_sources = count()


def read_files(spark: SparkSession, store: Store, files: Iterable[TableFile], table: Table) -> DataFrame:
    """Return the rows of some files of a table.

    Args:
        spark: the session.
        store: directory of the table.
        files: its files; each is read by one task.
        table: its columns: those that files of earlier builds have not are null, and the values of those by which it is
            partitioned come from the files' entries.
    """
    known, schema = list(files), struct_type(table)
    if not known:
        return spark.createDataFrame([], schema)
    source = _source(f"kafkalog_files_{next(_sources)}", _Reader(store, columns_of(table)), known, schema)
    spark.dataSource.register(source)
    return spark.read.format(source.name()).load()


def _source(source_name: str, reader: _Reader, files: list[TableFile], wanted: StructType) -> Any:
    """Return a data source of Spark's for these files: the store with its secrets is in the class, not in an option."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition  # noqa: PLC0415 -- heavy

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition((file.name, dict(file.values))) for file in files]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            return reader.rows(*partition.value)

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return source_name

        def schema(self) -> StructType:
            return wanted

        def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 -- it is the source's own
            return Reader()

    return Source


class _Reader(Struct, frozen=True):
    """The work of a task: it yields the rows of a file."""

    store: Store
    columns: tuple[Column, ...]

    def rows(self, name: str, values: dict[str, str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415 -- where there is work for it
        import pyarrow.parquet as pq  # noqa: PLC0415

        from kafkalog_core.spark.session.arrow import completed  # noqa: PLC0415

        kinds = {"partition": pa.int32()}
        with self.store.open(name) as opened, pq.ParquetFile(opened) as file:
            there = {*file.schema_arrow.names}
            for batch in file.iter_batches(
                _ROWS, columns=[column.name for column in self.columns if column.name in there]
            ):
                for column, value in values.items():
                    batch = batch.append_column(  # noqa: PLW2901 -- the same rows
                        column, pa.array([value] * batch.num_rows).cast(kinds.get(column, pa.string()))
                    )
                yield completed(batch, self.columns)
