"""Rows that are dicts already, as Arrow: findings, segments, summaries, and whatever else a job has to tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow as pa

from kafkalog_core.spark.schema import arrow_schema, arrow_type, columns_of, spark_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalog_core.tables import Column, Table

__all__ = ["arrow_column", "rows_to_arrow"]


def rows_to_arrow(
    table: Table, rows: Iterable[Mapping[str, object]], names: Sequence[str] | None = None
) -> pa.RecordBatch:
    """Rows by column name as one batch. What a row lacks is null; what is not asked for is left out."""
    held = [*rows]
    columns = columns_of(table, names)
    arrays = [arrow_column(column, [row.get(column.name) for row in held]) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(table, names))


def arrow_column(column: Column, values: Sequence[object]) -> pa.Array:
    """Values of one column."""
    if column.kind == "string":
        values = [None if value is None else spark_text(str(value)) for value in values]
    elif column.kind == "headers":
        values = [None if value is None else [*map(_header, cast("Iterable[object]", value))] for value in values]
    elif column.kind == "map":
        values = [None if value is None else [*cast("Mapping[str, int]", value).items()] for value in values]
    return pa.array(values, type=arrow_type(column.kind))


def _header(header: object) -> dict[str, object]:
    """A header as a Java client reads it: its key is text, with U+FFFD for what is no UTF-8."""
    key, value = cast("tuple[bytes, bytes | None]", header)
    return {"key": key.decode("utf-8", "replace"), "value": value}
