"""The columns of Spark's tables, from the one declaration of every row in `kafkalog_core.output.tables`.

The column `type` is left out, because a table holds rows of one type. Every column may be null. Times are integers of
milliseconds as in all other outputs, because -1 is a timestamp that Kafka stores; in the tables of exports and catalogs
a column of type timestamp is next to each of them. This module imports pyspark only for `struct_type`, and never
pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import SelectionError
from kafkalog_core.output.schema import Column, new_table
from kafkalog_core.output.tables import BATCH, FINDING, PARTITION, RECORD_DECODED, SEGMENT, Table, with_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import DataType, StructType

    from kafkalog_core.output.tables import Kind

__all__ = [
    "BATCHES",
    "CATALOG_TABLES",
    "EXPORTED",
    "FINDINGS",
    "IS_COMMITTED",
    "RECORDS",
    "RUNS",
    "SEGMENTS",
    "SPARK_TABLES",
    "columns_of",
    "ddl",
    "is_derived",
    "spark_text",
    "struct_type",
    "time_name",
]


RECORDS: Final = with_path(RECORD_DECODED)
"""All records have the decoded columns, as JSON text; they are null in topics that are not Kafka's own."""
BATCHES: Final = with_path(BATCH)
SEGMENTS: Final = with_path(SEGMENT)
FINDINGS: Final = FINDING


SPARK_TABLES: Final[dict[str, Table]] = {
    "records": RECORDS,
    "batches": BATCHES,
    "segments": SEGMENTS,
    "findings": FINDINGS,
}
"""The tables of the data source, by the value of its option `table`."""

_MS: Final = "_ms"


def time_name(column: Column) -> str | None:
    """Return the name of the timestamp column next to one of milliseconds; None: it holds no moment."""
    return column.name.removesuffix(_MS) if column.kind == "int64" and column.name.endswith(_MS) else None


def _with_times(table: Table) -> Table:
    """Return a table with a timestamp column after each one of milliseconds since 1970."""
    columns: list[Column] = []
    for column in table.columns:
        columns.append(column)
        if name := time_name(column):
            columns.append(
                Column(name, "timestamp", f"{column.name} as a moment; null: none, or not in years 1 to 9999")
            )
    return Table(table.name, tuple(columns))


IS_COMMITTED: Final = "is_committed"


def is_derived(column: Column) -> bool:
    """Return whether a column of a table is made from others or from other batches, and not read from the log."""
    return column.kind == "timestamp" or column.name == IS_COMMITTED


_AFTER: Final = RECORD_DECODED.names.index("is_transactional") + 1
EXPORTED: Final = _with_times(
    Table(
        RECORD_DECODED.name,
        (
            *RECORD_DECODED.columns[:_AFTER],
            Column(
                IS_COMMITTED,
                "bool",
                "whether read_committed consumers get it; null: control records, and outcomes unknown at the export",
            ),
            *RECORD_DECODED.columns[_AFTER:],
        ),
    )
)
"""The records of an export."""

CATALOG_TABLES: Final[dict[str, Table]] = {
    "segments": _with_times(SEGMENTS),
    "findings": FINDINGS,
    "partitions": _with_times(PARTITION),
    "batches": _with_times(BATCHES),
}
"""The tables of a catalog, by the names of their directories."""

RUNS: Final = _with_times(
    new_table(
        "run",
        Column("run", "string", "id of the run"),
        Column("time_ms", "int64", "time of the checks, in ms since 1970"),
        Column("level", "string", "depth of the checks"),
        Column("partitions", "int64", "number of partition directories"),
        Column("segments", "int64", "number of segments"),
        Column("findings", "int64", "number of findings"),
        *(
            Column(f"{name}_version", "int64", f"version of the table `{name}` that belongs to the run")
            for name in CATALOG_TABLES
        ),
    )
)
"""One row for each run of a catalog that found something new."""


_DDL: Final[dict[Kind, str]] = {
    "string": "string",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint32": "bigint",  # Spark has no unsigned integers
    "double": "double",
    "bool": "boolean",
    "bytes": "binary",
    "headers": "array<struct<key:string,value:binary>>",
    "map": "map<string,bigint>",
    "json": "string",
    "timestamp": "timestamp",
}


def columns_of(table: Table, names: Sequence[str] | None = None) -> tuple[Column, ...]:
    """Return the columns of a table with these names, in this order; None: all columns.

    Raises SelectionError for a name that the table does not have, and for a name that is given twice.
    """
    columns = {column.name: column for column in table.columns if column.name != "type"}
    if names is None:
        return tuple(columns.values())
    for name in names:
        if name not in columns:
            known = ", ".join(columns)
            raise SelectionError(f"rows of {table.name} have no column {name!r}; their columns are {known}")
    if len(set(names)) < len(names):
        raise SelectionError(f"a column of {table.name} is selected twice: {', '.join(names)}")
    return tuple(columns[name] for name in names)


def ddl(table: Table, names: Sequence[str] | None = None) -> str:
    """Return the schema as DDL text, for `spark.read.schema(...)`."""
    return ", ".join(f"`{column.name}` {_DDL[column.kind]}" for column in columns_of(table, names))


def struct_type(table: Table, names: Sequence[str] | None = None) -> StructType:
    """Return the schema as a PySpark type, with the meaning of each column as its comment."""
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415 - heavy, and of no use to most tasks

    return StructType(
        [
            StructField(column.name, _spark_type(column.kind), nullable=True, metadata={"comment": column.doc})
            for column in columns_of(table, names)
        ]
    )


def _spark_type(kind: Kind) -> DataType:
    from pyspark.sql import types  # noqa: PLC0415 - heavy

    header = types.StructType(
        [types.StructField("key", types.StringType()), types.StructField("value", types.BinaryType())]
    )
    return {
        "string": types.StringType(),
        "int8": types.ByteType(),
        "int16": types.ShortType(),
        "int32": types.IntegerType(),
        "int64": types.LongType(),
        "uint32": types.LongType(),
        "double": types.DoubleType(),
        "bool": types.BooleanType(),
        "bytes": types.BinaryType(),
        "headers": types.ArrayType(header),
        "map": types.MapType(types.StringType(), types.LongType()),
        "json": types.StringType(),
        "timestamp": types.TimestampType(),
    }[kind]


def spark_text(text: str) -> str:
    r"""Return a text that Spark can hold: a byte of a name that is not UTF-8 becomes `\udcxx`, as in JSON lines."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
