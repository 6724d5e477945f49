"""The result of a query as rows for every form of output: any columns, with the values that JSON has."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from kafkalog_core.ops.reading.rows import RowChunk, bytes_member
from kafkalog_core.table_kinds import Column, new_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import DataType

    from kafkalog_core.ops.reading.rows import BytesMode
    from kafkalog_core.table_kinds import Kind, Table

__all__ = ["chunks", "table_of"]

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
