"""Columns of Spark and Arrow, made from `tables.py` and from nothing else: one declaration of every row.

The column `type` is left out, as a table holds rows of one type. Every column may be null. Times stay what they are in
all other outputs, integers of milliseconds (`timestamp_millis(timestamp_ms)` in SQL), as -1 is a time that is stored.
Nothing here imports pyspark or pyarrow before it is asked for one of their schemas.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import SelectionError
from kafkalog_core.tables import BATCH, FINDING, RECORD, SEGMENT, with_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

    from kafkalog_core.tables import Column, Kind, Table

__all__ = [
    "BATCHES",
    "FINDINGS",
    "RECORDS",
    "SEGMENTS",
    "SPARK_TABLES",
    "arrow_schema",
    "arrow_type",
    "columns_of",
    "ddl",
    "spark_text",
    "struct_type",
]

RECORDS: Final = with_path(RECORD)
BATCHES: Final = with_path(BATCH)
SEGMENTS: Final = with_path(SEGMENT)
FINDINGS: Final = FINDING
SPARK_TABLES: Final[dict[str, Table]] = {
    "records": RECORDS,
    "batches": BATCHES,
    "segments": SEGMENTS,
    "findings": FINDINGS,
}
"""The tables of the data source by their names there."""

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
}


def columns_of(table: Table, names: Sequence[str] | None = None) -> tuple[Column, ...]:
    """The columns of a table that are asked for, in the order asked for; all without any names.

    Raises SelectionError for a name that it does not have, and for one that is asked for twice.
    """
    columns = {column.name: column for column in table.columns if column.name != "type"}
    if names is None:
        return tuple(columns.values())
    for name in names:
        if name not in columns:
            raise SelectionError(f"rows of {table.name} have no column {name!r}; they have {', '.join(columns)}")
    if len(set(names)) < len(names):
        raise SelectionError(f"a column of {table.name} is asked for twice: {', '.join(names)}")
    return tuple(columns[name] for name in names)


def ddl(table: Table, names: Sequence[str] | None = None) -> str:
    """The schema as Spark spells it: what `spark.read.schema(...)` takes."""
    return ", ".join(f"`{column.name}` {_DDL[column.kind]}" for column in columns_of(table, names))


def struct_type(table: Table, names: Sequence[str] | None = None) -> StructType:
    """The schema as PySpark has it, each column with its meaning as comment."""
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
    }[kind]


def arrow_schema(table: Table, names: Sequence[str] | None = None) -> pa.Schema:
    """The schema as Arrow has it, exactly the one that Spark makes of `struct_type`."""
    import pyarrow as pa  # noqa: PLC0415 - heavy

    return pa.schema([(column.name, arrow_type(column.kind)) for column in columns_of(table, names)])


@cache
def arrow_type(kind: Kind) -> pa.DataType:
    """The Arrow type of a kind of column."""
    import pyarrow as pa  # noqa: PLC0415 - heavy

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    return {
        "string": pa.string(),
        "int8": pa.int8(),
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "uint32": pa.int64(),
        "double": pa.float64(),
        "bool": pa.bool_(),
        "bytes": pa.binary(),
        "headers": pa.list_(pa.field("element", header)),
        "map": pa.map_(pa.string(), pa.int64()),
    }[kind]


def spark_text(text: str) -> str:
    r"""A text as Spark can hold it: names of files that are no UTF-8 have `\udcxx` for such bytes, as in JSON lines."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
