"""What a catalogue holds, as DataFrames: all of its last commit, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.spark.catalog import CATALOG_KIND, CATALOG_TABLES
from kafkalog_core.spark.census.driver import BATCHES_FOLDER
from kafkalog_core.spark.commit import roll_forward
from kafkalog_core.spark.manifest import live_files
from kafkalog_core.spark.schema import BATCHES, struct_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kafkalog_core.tables import Table

__all__ = ["READ_TABLES", "read_catalog"]

READ_TABLES: Final[Mapping[str, Table]] = {**CATALOG_TABLES, BATCHES_FOLDER: BATCHES}
"""The tables of a catalogue by their names."""


def read_catalog(spark: SparkSession, path: str) -> dict[str, DataFrame]:
    """The tables of a catalogue by their names: segments, findings, partitions, batches.

    A commit whose files are not all in place, as its run died, is finished before. The DataFrames show the files that
    are there now: read them anew after the next run.

    Raises NotFoundError where no catalogue was made, RefusedError where it is something else, LockedError where a run
    is putting files in place at this moment.
    """
    roll_forward(path, CATALOG_KIND)
    names = sorted(live_files(path))
    frames = {}
    for folder, table in READ_TABLES.items():
        files = [f"{path}/{name}" for name in names if name.startswith(f"{folder}/")]
        schema = struct_type(table)
        frames[folder] = spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)
    return frames
