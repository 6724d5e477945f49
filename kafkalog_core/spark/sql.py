"""SQL over what is on the disks, in a catalogue or in an export: the tables are views, and only queries are taken."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from kafkalog_core.errors import SelectionError
from kafkalog_core.ops.reading.rows import RowChunk, bytes_member
from kafkalog_core.spark.paths import local_paths
from kafkalog_core.spark.schema import SPARK_TABLES
from kafkalog_core.spark.source_options import OPTIONS
from kafkalog_core.table_kinds import Column, new_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import DataType

    from kafkalog_core.ops.reading.rows import BytesMode
    from kafkalog_core.table_kinds import Kind, Table

__all__ = ["Sources", "VIEWS", "chunks", "query", "register_views", "table_of"]

VIEWS: Final = (*SPARK_TABLES, "partitions")
"""All views there may be; `partitions` comes from a catalogue alone."""
_OF_CATALOG: Final = frozenset({"batches", "segments", "findings", "partitions"})
_CHUNK_ROWS: Final = 1000
_LOOKS: Final = re.compile(r"\s*(?:show|desc|describe|explain)\b", re.IGNORECASE)
"""Statements that are no queries, and change nothing either."""
_COMMENTS: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_KINDS: Final[Mapping[str, Kind]] = {"binary": "bytes", "boolean": "bool", "double": "double", "float": "double"}
_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})


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
    register_views(spark, sources, names_in(statement))
    if not _LOOKS.match(_COMMENTS.sub(" ", statement)):
        spark.sql(f"SELECT * FROM (\n{statement}\n)")  # where only a query can stand: what changes anything is refused
    return spark.sql(statement)


def names_in(statement: str) -> list[str]:
    """The views that a statement may mean; SHOW means all."""
    text = _COMMENTS.sub(" ", statement).lower()
    if text.lstrip().startswith("show"):
        return list(VIEWS)
    return [name for name in VIEWS if re.search(rf"\b{name}\b", text)]


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
        from kafkalog_core.spark.read_catalog import read_catalog  # noqa: PLC0415 - imports pyspark

        frames |= read_catalog(spark, *local_paths([sources.catalog]))
    if sources.export is not None and "records" in wanted:
        from kafkalog_core.spark.read_export import read_export  # noqa: PLC0415 - imports pyspark

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


# --- rows for other forms of output -----------------------------------------------------------------------------------
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
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray):
        return bytes_text(bytes(value), mode)
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, datetime.datetime):
        return _moment(value, is_local=of.typeName() == "timestamp")
    if isinstance(value, dict | list | tuple):
        return _nested(value, of, mode)
    return str(value)


def bytes_text(value: bytes, mode: BytesMode) -> str:
    """Bytes inside of other values: text where they are exactly that, else base64; or as is asked for."""
    return bytes_member("value", value, mode)[1] or ""


def _moment(value: datetime.datetime, *, is_local: bool) -> str:
    """A timestamp of Spark's comes as a local time without a zone."""
    if is_local:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return value.isoformat() + "Z"
    return value.isoformat()


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
