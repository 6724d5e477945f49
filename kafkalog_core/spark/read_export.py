"""What an export has written, as a DataFrame: all of what is committed, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import RefusedError
from kafkalog_core.spark.commit import roll_forward
from kafkalog_core.spark.export import EXPORT_KIND
from kafkalog_core.spark.export_file import COLUMNS
from kafkalog_core.spark.manifest import INNER, live_files, lost_files
from kafkalog_core.spark.schema import struct_type
from kafkalog_core.tables import FINDING, RECORD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_export", "read_export_findings"]

_BY_DIRECTORY: Final = ("topic", "partition")


def read_export(spark: SparkSession, path: str) -> DataFrame:
    """The records of an export; columns are those of `record` rows, topic and partition first.

    A commit whose files are not all in place, as its run died, is finished before. The DataFrame shows the files that
    are there now: read it anew after the next run.

    Raises NotFoundError where nothing was exported, RefusedError where it is something else or files of it were taken
    away, LockedError where a run is putting files in place at this moment.
    """
    roll_forward(path, EXPORT_KIND)
    lost = lost_files(path)
    if lost:
        raise RefusedError(
            f"{len(lost)} of its files are not there, or not as they were committed: the next kafkalog spark export "
            "into it names them, and --reload makes them again",
            path=f"{path}/{min(lost)}",
        )
    frame = spark.read.schema(struct_type(RECORD, [*COLUMNS, *_BY_DIRECTORY])).parquet(path)
    return frame.select(*_BY_DIRECTORY, *COLUMNS)


def read_export_findings(spark: SparkSession, path: str) -> DataFrame:
    """What all runs of an export have found; raises as `read_export`."""
    roll_forward(path, EXPORT_KIND)
    schema = struct_type(FINDING)
    files = [name for name in live_files(path) if name.startswith(f"{INNER}/findings/")]
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*(f"{path}/{name}" for name in files))
