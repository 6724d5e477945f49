"""SQL over the disks, a catalog and an export: views for the tables, and the rows of a query's result."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from kafkalog_core.command_lines import shell_word
from kafkalog_core.errors import RefusedError, SelectionError
from kafkalog_core.output.chunk import RowChunk, bytes_member
from kafkalog_core.output.schema import new_table
from kafkalog_core.output.tables import FINDING, Column, Table
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.spark.catalog.catalog import CATALOG_KIND
from kafkalog_core.spark.export.export import EXPORT_KIND
from kafkalog_core.spark.lake.clouds import output_path
from kafkalog_core.spark.lake.output import Output
from kafkalog_core.spark.lake.plain import read_output
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.spark.session.errors import local_paths
from kafkalog_core.spark.session.schema import CATALOG_TABLES, EXPORTED, RUNS, SPARK_TABLES, struct_type
from kafkalog_core.spark.source.files import read_files
from kafkalog_core.spark.source.options import OPTIONS
from kafkalog_core.storage.object_paths import is_object
from kafkalog_core.storage.objects import options_of
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import DataType

    from kafkalog_core.output.chunk import BytesMode
    from kafkalog_core.output.schema import Kind
    from kafkalog_core.output.tables import Table
    from kafkalog_core.spark.lake.output import Committed
    from kafkalog_core.spark.lake.tables import TableFile

__all__ = [
    "VIEWS",
    "Sources",
    "check_options",
    "chunks",
    "open_catalog",
    "open_export",
    "open_export_findings",
    "plain",
    "query",
    "register_views",
    "table_of",
]


def open_catalog(
    spark: SparkSession, path: str, storage: Mapping[str, str] | None = None, *, at_version: int | None = None
) -> dict[str, DataFrame]:
    """Return the tables of a catalog by name: segments, findings, partitions, batches, as a run left them.

    The DataFrames show the files that exist now: open the catalog again after the next run.

    Args:
        spark: the session.
        path: directory of the catalog, or its place in an object store.
        storage: how to reach an object store; see `Store`.
        at_version: the version of the table of runs that the run has committed; None: the last run.

    Raises NotFoundError if no run has finished there, SelectionError for a version that does not exist, RefusedError if
    the directory holds something else or files were deleted.
    """
    catalog = Output.read(Store.of(path, storage), CATALOG_KIND)
    return _tables(spark, catalog, CATALOG_TABLES, at_version)


def _tables(spark: SparkSession, catalog: Output, names: Iterable[str], at_version: int | None) -> dict[str, DataFrame]:
    """Return some tables of a catalog by name, as they were at a version of the table of runs."""
    if at_version is not None:
        # Before any file is looked up: each table is read as it was at its own version.
        catalog.versions = _versions_at(spark, catalog, at_version)
        later = "name a later version: later runs replaced the files of this one, and a VACUUM deleted them"
        catalog.cures = (WayOut(later, "kafkalog spark sql --catalog {place} --at-version N QUERY"),)
    return {
        name: _frame(spark, catalog, name, CATALOG_TABLES[name]) if name in CATALOG_TABLES else _runs(spark, catalog)
        for name in names
    }


def _runs(spark: SparkSession, catalog: Output) -> DataFrame:
    """Return all runs of a catalog, each with the version of the table of runs that it has committed.

    The version is None if the table's log does not go back to it: no reader of Delta tables finds it any more.
    """
    last = WayOut("query the last run: earlier ones cannot be listed", "kafkalog spark sql --catalog {place} QUERY")
    versions = spark.createDataFrame([*catalog.head.versions().items()], "run string, version bigint")
    rows = _frame(spark, catalog, "runs", RUNS, (last,))
    return versions.join(rows, "run", "right").select("version", *RUNS.names[1:])


def _versions_at(spark: SparkSession, catalog: Output, version: int) -> dict[str, int]:
    """Return the versions of the other tables that belong to a version of the table of runs."""
    rows = _runs(spark, catalog).where(f"version <= {version}").orderBy("version").tail(1)
    if not rows or version > (catalog.head.version or 0):
        raise SelectionError(
            f"the catalog has no version {version}, or it can no longer be read; the table runs has those that can be",
            path=catalog.store.root,
        )
    return {name: rows[0][f"{name}_version"] for name in CATALOG_TABLES}


def open_export(spark: SparkSession, path: str, storage: Mapping[str, str] | None = None) -> DataFrame:
    """Return the records of an export, with the columns of `record` rows, `is_committed` and times as timestamps.

    The DataFrame shows the files that exist now: open the export again after the next run. Arguments are those of
    `open_catalog`.

    Raises NotFoundError if nothing was exported, RefusedError if the directory holds something else or files of the
    export were deleted.
    """
    export = read_output(Store.of(path, storage), EXPORT_KIND)
    return _frame(spark, export, "records", EXPORTED).select(*EXPORTED.names[1:])


def open_export_findings(spark: SparkSession, path: str, storage: Mapping[str, str] | None = None) -> DataFrame:
    """Return the findings of all runs of an export. Raises what `open_export` raises."""
    return _frame(spark, read_output(Store.of(path, storage), EXPORT_KIND), "findings", FINDING)


def _frame(
    spark: SparkSession, output: Committed, name: str, table: Table, cures: tuple[WayOut, ...] = ()
) -> DataFrame:
    """Return a table of an output. Raises RefusedError, with what to do, if files of it are missing."""
    # Refused as a whole: a query over the files that are left would give wrong sums.
    lost = output.lost(name)
    if lost:
        reason = (
            f"files of the {output.kind.name} are missing or changed since they were committed ({len(lost)}, this one "
            "among them)"
        )
        place = shell_word(output.store.root)
        ways = (WayOut(way.purpose, str(way.command).format(place=place)) for way in cures or output.cures)
        raise RefusedError(Refusal(reason, tuple(ways)), path=output.store.path(f"{name}/{min(lost)}"))
    return _rows(spark, output.store.below(name), output.files(name), table)


def _rows(spark: SparkSession, store: Store, files: Mapping[str, TableFile], table: Table) -> DataFrame:
    """Return the rows of a table's files, by their names: a run that goes on has others in the directory."""
    # Spark takes a path with brackets for a pattern, and its own reader of an object store needs other settings.
    if not files or not store.is_local or set(store.root) & set("[]{}*?"):  # which Spark takes for those of a glob
        return read_files(spark, store, files.values(), table)
    return spark.read.schema(struct_type(table)).option("basePath", store.root).parquet(*map(store.path, sorted(files)))


VIEWS: Final = (*SPARK_TABLES, "partitions", "runs")
"""All views; `partitions` and `runs` are read only from a catalog."""
_NAMES: Final = re.compile(rf"\b(?:{'|'.join(VIEWS)}|(?:{'|'.join(CATALOG_TABLES)})_at_\d{{1,18}})\b")
_LOOKS: Final = re.compile(r"\s*(?:show|desc|describe|explain)\b", re.IGNORECASE)
"""Statements that are not queries, but change nothing."""
_COMMENTS: Final = re.compile(r"(?P<text>'(?:[^'\\]|\\.)*')|--[^\n]*|/\*.*?\*/", re.DOTALL)
"""Comments; two dashes within a string literal do not start one."""


class Sources(Struct, frozen=True, kw_only=True):
    """Where the rows of a query come from.

    Args:
        paths: log directories, partitions or files, from which all four tables are read.
        options: options of the data source, by name; each applies to the tables that accept it.
        catalog: directory or URI of a catalog to take batches, segments, findings and partitions from; None: the disks.
        at_version: version of the catalog's table of runs whose run left the tables; None: the last run.
        export: directory or URI of an export to take records from; None: the disks.
        storage: how to reach an object store; see `Store`.
    """

    paths: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    catalog: str | None = None
    at_version: int | None = None
    export: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict)


def query(spark: SparkSession, text: str, sources: Sources) -> DataFrame:
    """Return the result of a query over the views; Spark computes it when its rows are read.

    Raises SelectionError for a table without a source and for unknown options. Errors in the query are Spark's own.
    """
    statement = text.strip().rstrip(";").rstrip()
    register_views(spark, sources, views_in(statement))
    # SHOW, DESCRIBE and EXPLAIN cannot be subqueries.
    if not _LOOKS.match(_without_comments(statement)):
        _check_query(spark, statement)
    return spark.sql(statement)


def _check_query(spark: SparkSession, statement: str) -> None:
    """Parse a statement as a subquery. Raises SelectionError for a statement that would change something."""
    from pyspark.errors import ParseException  # noqa: PLC0415 - heavy

    try:
        # As a subquery, Spark parses it as a query alone: an INSERT or a DROP is a syntax error there.
        spark.sql(f"SELECT * FROM (\n{statement}\n)")  # noqa: S608 - it is the user's own, on a machine of theirs
    except ParseException:
        spark.sql(f"EXPLAIN {statement}")  # raises an error with the place of a syntax error, and executes nothing
        raise SelectionError(
            "the statement is not a query; write SELECT, WITH ... SELECT, VALUES, SHOW, DESCRIBE or EXPLAIN; "
            "nothing was executed"
        ) from None


def views_in(statement: str) -> list[str]:
    """Return the views that a statement may name, such as `segments` and `segments_at_3`; SHOW needs all."""
    # In text without literals and comments, so that a value 'batches' does not open a table.
    text = _COMMENTS.sub(" ", statement).lower()  # without string literals too
    if text.lstrip().startswith("show"):
        return list(VIEWS)
    return list(dict.fromkeys(_NAMES.findall(text)))


def _without_comments(statement: str) -> str:
    return _COMMENTS.sub(lambda found: found["text"] or " ", statement)


def register_views(spark: SparkSession, sources: Sources, names: Iterable[str] = VIEWS) -> list[str]:
    """Register temporary views of the tables that have a source, and return their names.

    A view shows the disks at the time when it was registered. Raises SelectionError if none of the tables has a source.
    """
    check_options(sources.options)
    wanted = list(names)
    frames: dict[str, DataFrame] = {}
    if sources.paths:
        paths = list(local_paths(sources.paths))
        options = sources.options
        if any(map(is_object, paths)):  # complete: the session may have begun in another environment
            options = {**dict(options_of(sources.storage)), **options}
        # Only what the statement names: each view lists the disks.
        frames |= {name: _from_disks(spark, name, paths, options) for name in wanted if name in SPARK_TABLES}
    if sources.catalog is not None:
        frames |= _from_catalog(spark, sources, output_path(sources.catalog), wanted)
    if sources.export is not None and "records" in wanted:
        frames["records"] = open_export(spark, output_path(sources.export), sources.storage)
    registered = [name for name in wanted if name in frames]
    for name in registered:
        frames[name].createOrReplaceTempView(name)
    # A version of a catalog never falls back to another source.
    missing = [name for name in wanted if name not in frames and (not registered or "_at_" in name)]
    if missing:
        raise SelectionError(f"there is no source for {', '.join(missing)}; {_missing(missing)}")
    return registered


def _from_catalog(spark: SparkSession, sources: Sources, path: str, names: Iterable[str]) -> dict[str, DataFrame]:
    """Return those of some views that a catalog has: each version of it is opened once."""
    found: dict[int | None, dict[str, str]] = {}
    for name in names:
        table, _, version = name.partition("_at_")
        if table == "runs" or table in CATALOG_TABLES:
            found.setdefault(int(version) if version else sources.at_version, {})[name] = table
    frames: dict[str, DataFrame] = {}
    for at_version, views in found.items():
        catalog = Output.read(Store.of(path, sources.storage), CATALOG_KIND)
        tables = _tables(spark, catalog, views.values(), at_version)
        frames |= {name: tables[table] for name, table in views.items()}
    return frames


def check_options(options: Mapping[str, str]) -> None:
    """Raise SelectionError for an option that the data source does not have."""
    names = {name.lower() for name in OPTIONS} - {"table", "path", "paths"}
    for name in options:
        if name.lower() not in names:
            known = ", ".join(each for each in OPTIONS if each.lower() in names)
            raise SelectionError(f"the data source has no option {name!r}; its options are {known}")


def _missing(wanted: Iterable[str]) -> str:
    """Return which source the caller has to name."""
    if "records" in wanted:
        return "name log directories or an export"
    return "name log directories or a catalog" if SPARK_TABLES.keys() & {*wanted} else "name a catalog: --catalog DIR"


def _from_disks(spark: SparkSession, name: str, paths: list[str], options: Mapping[str, str]) -> DataFrame:
    uses = {each.lower(): option.tables for each, option in OPTIONS.items()}
    # Options of other tables are left out here, since one command names them for all views.
    own = {each: value for each, value in options.items() if not uses[each.lower()] or name in uses[each.lower()]}
    return spark.read.format("kafkalog").option("table", name).options(**own).load(paths)


_CHUNK_ROWS: Final = 1000
_KINDS: Final[Mapping[str, Kind]] = {"binary": "bytes", "boolean": "bool", "double": "double", "float": "double"}
_NO_NUMBERS: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})


def table_of(frame: DataFrame) -> Table:
    """Return the columns of a result as a table of `row` rows; a repeated name gets a number."""
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
    """Yield the rows of a result in chunks; one partition of it is in memory at a time."""
    types = [each.dataType for each in frame.schema.fields]
    names = table.names[1:]
    # Not `collect`: a result may be larger than the driver's memory.
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
    """Return a value of Spark's as a JSON value: timestamps in UTC, exact decimals, structs as objects."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        # JSON has no such numbers: they become text.
        return value if math.isfinite(value) else _NO_NUMBERS[str(value)]
    if isinstance(value, dict | list | tuple):
        return _nested(value, of, mode)
    if isinstance(value, bytes | bytearray):
        return bytes_member("value", bytes(value), mode)[1]
    return _moment(value, of) if isinstance(value, datetime) else str(value)


def _moment(value: datetime, of: DataType) -> str:
    """Return a timestamp as ISO 8601, in UTC; `timestamp_ntz` has no zone and is not changed.

    PySpark returns a `timestamp` as a local time without a zone.
    """
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
