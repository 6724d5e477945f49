"""The declaration of a row type: its columns, with names, kinds and meanings; the columns that many rows share."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

__all__ = ["DAMAGE_COUNTS", "MAX_TIMESTAMP", "PLACE", "Column", "Kind", "Table", "new_table"]

Kind = Literal[
    "string",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint32",
    "double",
    "bool",
    "bytes",
    "headers",
    "map",
    "json",
    "timestamp",
]
"""`timestamp`, a moment in UTC, is a kind of columns in tables that Spark's jobs write; other rows have none.

`json` is an object of any form: as it is in JSON, and its text in CSV and in Spark's tables.
"""


class Column(NamedTuple):
    """One column: `kind` defines its type in JSON and Arrow; every column except `type` may be null."""

    name: str
    kind: Kind
    doc: str


class Table(NamedTuple):
    """A row type: `name` is the value of its `type` column."""

    name: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The column names, in order."""
        return tuple(column.name for column in self.columns)


def new_table(name: str, *columns: Column) -> Table:
    """Return a row type of that name; its first column is `type`."""
    return Table(name, (Column("type", "string", f"always {name!r}"), *columns))


PLACE: Final = (
    Column("topic", "string", "topic of the directory; null for a single file outside a partition directory"),
    Column("partition", "int32", "partition number of the directory"),
    Column("segment", "string", "file name"),
)
DAMAGE_COUNTS: Final = (
    Column("damage_count", "int64", "damaged places"),
    Column("damage_bytes", "int64", "bytes in them"),
)
MAX_TIMESTAMP: Final = Column("max_timestamp_ms", "int64", "largest timestamp; null: none")
