"""What a catalogue holds, as DataFrames: all of its last commit, and nothing else."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from kafkalog_core.errors import RefusedError, SelectionError
from kafkalog_core.rows.chunk import RowChunk, bytes_member
from kafkalog_core.rows.kinds import new_table
from kafkalog_core.rows.tables import FINDING, RECORD, Column, Table
from kafkalog_core.spark.catalog.catalog import CATALOG_KIND
from kafkalog_core.spark.commit.commit import roll_forward
from kafkalog_core.spark.commit.manifest import INNER, live_files, lost_files
from kafkalog_core.spark.export.export import EXPORT_KIND
from kafkalog_core.spark.export.task import COLUMNS
from kafkalog_core.spark.session.errors import local_paths
from kafkalog_core.spark.session.schema import CATALOG_TABLES, SPARK_TABLES, struct_type
from kafkalog_core.spark.source.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import DataType

    from kafkalog_core.rows.chunk import BytesMode
    from kafkalog_core.rows.kinds import Kind
    from kafkalog_core.rows.tables import Table

__all__ = [
    "VIEWS",
    "Sources",
    "check_options",
    "chunks",
    "plain",
    "query",
    "read_catalog",
    "read_export",
    "read_export_findings",
    "register_views",
    "table_of",
]


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
    for folder, table in CATALOG_TABLES.items():
        files = [f"{path}/{name}" for name in names if name.startswith(f"{folder}/")]
        schema = struct_type(table)
        frames[folder] = spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)
    return frames


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


VIEWS: Final = (*SPARK_TABLES, "partitions")
"""All views there may be; `partitions` comes from a catalogue alone."""
_OF_CATALOG: Final = frozenset({"batches", "segments", "findings", "partitions"})
_LOOKS: Final = re.compile(r"\s*(?:show|desc|describe|explain)\b", re.IGNORECASE)
"""Statements that are no queries, and change nothing either."""
_COMMENTS: Final = re.compile(r"(?P<text>'(?:[^'\\]|\\.)*')|--[^\n]*|/\*.*?\*/", re.DOTALL)
"""Comments; two dashes inside of a text are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where rows come from.

    Args:
        paths: log directories, partitions or files: all four tables, read from the disks.
        options: of the data source, by name; each goes to the tables that it is for.
        catalog: a catalogue, for batches, segments, findings and partitions, in place of the disks.
        export: an export, for records, in place of the disks.
    """

    paths: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    catalog: str | None = None
    export: str | None = None


def query(spark: SparkSession, text: str, sources: Sources) -> DataFrame:
    """The result of a query over the views; nothing is computed before its rows are asked for.

    Raises SelectionError where a table is asked for that there is no source of, and for options that there are not;
    what is wrong with the query itself is told by Spark's own errors.
    """
    statement = text.strip().rstrip(";").rstrip()
    register_views(spark, sources, views_in(statement))
    if not _LOOKS.match(_without_comments(statement)):
        _check_query(spark, statement)
    return spark.sql(statement)


def _check_query(spark: SparkSession, statement: str) -> None:
    """Have it read at a place where only a query can stand. Raises SelectionError for what would change something."""
    from pyspark.errors import ParseException  # noqa: PLC0415 - heavy

    try:
        spark.sql(f"SELECT * FROM (\n{statement}\n)")  # noqa: S608 - it is the user's own, on a machine of theirs
    except ParseException:
        spark.sql(f"EXPLAIN {statement}")  # tells where it is wrong, and carries nothing out
        raise SelectionError(
            "only queries are taken: SELECT, WITH ... SELECT, VALUES, SHOW, DESCRIBE, EXPLAIN; nothing has been done"
        ) from None


def views_in(statement: str) -> list[str]:
    """The views that a statement may mean; SHOW means all."""
    text = _without_comments(statement).lower()
    if text.lstrip().startswith("show"):
        return list(VIEWS)
    return [name for name in VIEWS if re.search(rf"\b{name}\b", text)]


def _without_comments(statement: str) -> str:
    return _COMMENTS.sub(lambda found: found["text"] or " ", statement)


def register_views(spark: SparkSession, sources: Sources, names: Iterable[str] = VIEWS) -> list[str]:
    """Make temporary views of these tables, as far as there is a source of them; the names of those made.

    A view is one look at the disks: what is written later is in it when it is registered anew. Raises SelectionError.
    """
    check_options(sources.options)
    wanted = list(names)
    frames: dict[str, DataFrame] = {}
    if sources.paths:
        paths = list(local_paths(sources.paths))
        frames |= {name: _from_disks(spark, name, paths, sources.options) for name in wanted if name in SPARK_TABLES}
    if sources.catalog is not None and _OF_CATALOG.intersection(wanted):
        frames |= read_catalog(spark, *local_paths([sources.catalog]))
    if sources.export is not None and "records" in wanted:
        frames["records"] = read_export(spark, *local_paths([sources.export]))
    made = [name for name in wanted if name in frames]
    for name in made:
        frames[name].createOrReplaceTempView(name)
    if wanted and not made:
        raise SelectionError(f"no source of {', '.join(wanted)}: {_missing(wanted)}")
    return made


def check_options(options: Mapping[str, str]) -> None:
    """Raises SelectionError for an option that the data source does not have."""
    names = {name.lower() for name in OPTIONS} - {"table", "path", "paths"}
    for name in options:
        if name.lower() not in names:
            known = ", ".join(each for each in OPTIONS if each.lower() in names)
            raise SelectionError(f"no option {name!r}; there are {known}")


def _missing(wanted: Iterable[str]) -> str:
    """What would be one."""
    texts = []
    if "records" in wanted:
        texts.append("name log directories, or an export")
    elif "partitions" in wanted:
        texts.append("name a catalogue")
    else:
        texts.append("name log directories, or a catalogue")
    return ", ".join(texts)


def _from_disks(spark: SparkSession, name: str, paths: list[str], options: Mapping[str, str]) -> DataFrame:
    uses = {each.lower(): option.tables for each, option in OPTIONS.items()}
    own = {each: value for each, value in options.items() if not uses[each.lower()] or name in uses[each.lower()]}
    return spark.read.format("kafkalog").option("table", name).options(**own).load(paths)


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
