"""Columns whose rows are all alike, or have one of a few names: made once, cut to size for each batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalog_core.spark.schema import arrow_type, spark_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.tables import Column

__all__ = ["Constants"]


class Constants:
    """Arrays of equal values. With `dictionary`, texts are numbers into a dictionary of their column."""

    def __init__(self, *, dictionary: bool) -> None:
        self._dictionary = dictionary
        self._made: dict[str, tuple[object, pa.Array]] = {}
        self._names: dict[str, pa.Array] = {}

    def array(self, column: Column, value: object, rows: int, names: Sequence[str] | None = None) -> pa.Array:
        """The value in every row. `names`: what the column may hold, where that is known."""
        held, made = self._made.get(column.name, (None, None))
        if made is None or held != value or len(made) < rows:
            made = self._repeat(column, value, rows, names)
            self._made[column.name] = value, made
        return made[:rows]

    def named(self, column: Column, numbered: pa.Array, names: Sequence[str]) -> pa.Array:
        """A column of names, or truths, by their numbers."""
        if column.kind == "bool":
            return numbered.cast(pa.bool_())
        dictionary = self._dictionary_of(column, names)
        if self._dictionary:
            return pa.DictionaryArray.from_arrays(numbered, dictionary)
        return dictionary.take(numbered)

    def _dictionary_of(self, column: Column, names: Sequence[str]) -> pa.Array:
        if column.name not in self._names:
            self._names[column.name] = pa.array(names, pa.string())
        return self._names[column.name]

    def _repeat(self, column: Column, value: object, rows: int, names: Sequence[str] | None) -> pa.Array:
        kind = arrow_type(column.kind)
        if column.kind != "string":
            return pa.nulls(rows, kind) if value is None else pa.repeat(pa.scalar(value, kind), rows)
        if not self._dictionary:
            return pa.nulls(rows, kind) if value is None else pa.repeat(pa.scalar(spark_text(str(value)), kind), rows)
        if names is not None:
            number = None if value is None else names.index(str(value))
            dictionary, width = self._dictionary_of(column, names), pa.int8()
        else:
            number = None if value is None else 0
            dictionary, width = pa.array([] if value is None else [spark_text(str(value))], pa.string()), pa.int32()
        numbered = pa.nulls(rows, width) if number is None else pa.repeat(pa.scalar(number, width), rows)
        return pa.DictionaryArray.from_arrays(numbered, dictionary)
