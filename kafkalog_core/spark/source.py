"""The data source `kafkalog`: records, batches, segments and findings of log directories as tables of Spark.

    spark.read.format("kafkalog").option("table", "batches").load("/var/lib/kafka")

This module is imported by every Spark job that looks for a data source, so what reads is imported when it is needed.
Filters are not pushed down, on purpose: with PySpark 4.3 a plan that is used twice would give wrong rows without a word
(the scan with its filters is shared between the uses). The options leave out topics, partitions, offsets and times;
`.schema("offset bigint, key binary")` leaves out columns.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader
    from pyspark.sql.types import StructType

    from kafkalog_core.spark.source_options import SourceOptions

__all__ = ["KafkaLog"]


class KafkaLog(DataSource):
    """The data source; its options are in `source_options.OPTIONS`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return "kafkalog"

    def schema(self) -> StructType:
        """All columns of the table."""
        from kafkalog_core.spark.schema import SPARK_TABLES, struct_type  # noqa: PLC0415 - see above

        options = self.options.get("table", "records").strip().lower()
        return struct_type(SPARK_TABLES.get(options, SPARK_TABLES["records"]))  # the reader refuses another one

    def reader(self, schema: StructType) -> KafkaLogReader:
        """Read what there is now."""
        from kafkalog_core.spark.schema import SPARK_TABLES  # noqa: PLC0415 - see above
        from kafkalog_core.spark.source_options import source_options  # noqa: PLC0415 - see above
        from kafkalog_core.spark.source_reader import names_of  # noqa: PLC0415 - see above

        options = source_options(self.options)
        return KafkaLogReader(options, names_of(schema, SPARK_TABLES[options.table]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Read records as they come."""
        from kafkalog_core.spark.stream import KafkaLogStream  # noqa: PLC0415 - see above

        return KafkaLogStream(dict(self.options), schema)


class KafkaLogReader(DataSourceReader):
    """Plans on the driver what tasks read; plain values, as it travels to all of them."""

    def __init__(self, options: SourceOptions, names: tuple[str, ...]) -> None:
        self._options = options
        self._names = names

    def partitions(self) -> Sequence[InputPartition]:
        """The work, about evenly cut; an empty list becomes one partition whose value is null."""
        from kafkalog_core.spark.source_reader import plan  # noqa: PLC0415 - see above

        return [InputPartition(work) for work in plan(self._options, self._names, time.time_ns() // 1_000_000)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one piece."""
        from kafkalog_core.spark.source_reader import read  # noqa: PLC0415 - see above

        work: Any = partition.value
        if work is not None:
            yield from read(work, self._options, self._names)
