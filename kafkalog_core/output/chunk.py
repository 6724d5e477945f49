"""Rows of output: the protocol of a chunk, and how one row becomes a JSON object or a line of CSV.

This is the written rule of the JSON form. The compiled kernel writes record and batch lines by itself and must produce
these bytes exactly; a test compares the two. `json_text` defines how text is escaped.

The columns of CSV are those of all row types of the output, each once; a row leaves those empty that its type lacks. A
bytes column is two in auto mode, `key` for text and `key_b64` for the rest, and one in the others: `key_b64` or
`key_hex`. `csv_field` defines the form of a field.
"""

from __future__ import annotations

import base64
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, Protocol, cast

from kafkalog_core.text import csv_field, csv_line, has_controls, json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.output.tables import Column, Table

__all__ = [
    "BytesMode",
    "Chunk",
    "RowChunk",
    "bytes_member",
    "csv_columns",
    "csv_fields",
    "csv_row",
    "json_line",
    "json_object",
]

_ROWS_OF_PART: Final = 1000

BytesMode = Literal["auto", "base64", "hex"]
"""How bytes become text: as UTF-8 if they are exactly that, else base64; or always base64; or always hexadecimal."""


class Chunk(Protocol):
    """A run of rows of one type."""

    @property
    def table(self) -> Table:
        """The row type."""

    @property
    def count(self) -> int:
        """Number of rows."""

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield the rows in order: bytes are bytes, headers are lists of `(key, value)`, maps are dicts."""

    def row_views(self) -> Iterator[dict[str, object]]:
        """Yield the same rows without copies: their bytes may be memoryviews, valid until the next chunk."""

    def ndjson(self, bytes_mode: BytesMode) -> bytes:
        r"""Return all rows as JSON lines, each ending in `\n`."""

    def parts(self, bytes_mode: BytesMode) -> Iterator[bytes | memoryview]:
        """Yield the same piece by piece, each valid until the next one."""

    def csv(self, header: tuple[str, ...], bytes_mode: BytesMode) -> Iterator[bytes | memoryview]:
        r"""Yield all rows as CSV lines under these columns, each ending in `\r\n`, piece by piece as in `parts`."""


class RowChunk:
    """The simple chunk: a table and rows that are dicts or become dicts. Columns that a row lacks are null."""

    __slots__ = ("_rows", "table")

    def __init__(self, table: Table, rows: Collection[Mapping[str, object]]) -> None:
        self.table = table
        self._rows = rows

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield the rows with every column of the table, in its order."""
        name, names = self.table.name, self.table.names[1:]
        for row in self._rows:
            yield {"type": name} | {column: row.get(column) for column in names}

    def row_views(self) -> Iterator[dict[str, object]]:
        """Yield the same."""
        return self.rows()

    def ndjson(self, bytes_mode: BytesMode) -> bytes:
        r"""Return all rows as JSON lines, each ending in `\n`."""
        return b"".join(self.parts(bytes_mode))

    def parts(self, bytes_mode: BytesMode) -> Iterator[bytes]:
        """Yield the same, some rows at a time."""
        made = _objects(self.table, bytes_mode)
        lines = (_line(made(row)) for row in self._rows)
        while part := b"".join(islice(lines, _ROWS_OF_PART)):
            yield part

    def csv(self, header: tuple[str, ...], bytes_mode: BytesMode) -> Iterator[bytes]:
        r"""Yield all rows as CSV lines under these columns, each ending in `\r\n`."""
        for row in self._rows:
            yield csv_row(self.table, row, header, bytes_mode)


def bytes_member(name: str, value: bytes | None, bytes_mode: BytesMode) -> tuple[str, str | None]:
    """Return name and text of a bytes value in a JSON object: `key`, `key_b64` or `key_hex`."""
    if bytes_mode == "auto":
        if value is None:
            return name, None
        try:
            return name, str(value, "utf-8")
        except UnicodeDecodeError:
            return f"{name}_b64", base64.b64encode(value).decode("ascii")
    if bytes_mode == "hex":
        return f"{name}_hex", None if value is None else value.hex()
    return f"{name}_b64", None if value is None else base64.b64encode(value).decode("ascii")


def json_object(table: Table, row: Mapping[str, object], bytes_mode: BytesMode) -> dict[str, object]:
    """Return one row as a JSON object with every column of its table, in its order; `type` first.

    Header keys are text in Kafka, so they are text in every mode if they are exact UTF-8; otherwise they are `key_b64`,
    or `key_hex` in hex mode.
    """
    return _objects(table, bytes_mode)(row)


def _objects(table: Table, bytes_mode: BytesMode) -> Callable[[Mapping[str, object]], dict[str, object]]:
    """Return what makes the JSON objects of the rows of a table."""
    names = table.names
    columns = [column for column in table.columns if column.kind in {"bytes", "headers"}]

    def made(row: Mapping[str, object]) -> dict[str, object]:
        result: dict[str, object] = dict(zip(names, map(row.get, names), strict=True))
        result["type"] = table.name
        for column in columns:
            value = result[column.name]
            if column.kind == "bytes":
                name, text = bytes_member(column.name, cast("bytes | None", value), bytes_mode)
                if name != column.name:  # it takes the same place
                    result = {name if key == column.name else key: each for key, each in result.items()}
                result[name] = text
            elif value is not None:
                headers = cast("Iterable[tuple[bytes, bytes | None]]", value)
                result[column.name] = [_header_object(key, item, bytes_mode) for key, item in headers]
        return result

    return made


def json_line(table: Table, row: Mapping[str, object], bytes_mode: BytesMode) -> bytes:
    r"""Return one row as a JSON line, `\n` included.

    File names that are not UTF-8 come from the system with lone surrogates in them; they are written as the JSON escape
    `\udcxx`, so that the line is valid UTF-8 and the name can be restored.
    """
    return _line(json_object(table, row, bytes_mode))


def _line(value: dict[str, object]) -> bytes:
    return (json_text(value) + "\n").encode("utf-8", "backslashreplace")


def csv_columns(tables: Iterable[Table], bytes_mode: BytesMode) -> dict[str, None]:
    """Return the names of the columns in order, each once."""
    names: dict[str, None] = {}
    for table in tables:
        for column in table.columns:
            names.update(dict.fromkeys(_names_of(column, bytes_mode)))
    return names


def csv_row(table: Table, row: Mapping[str, object], header: Sequence[str], bytes_mode: BytesMode) -> bytes:
    """Return one row as a line of CSV."""
    fields = csv_fields(table, row, bytes_mode)
    return csv_line([csv_field(fields.get(name)) for name in header])


def csv_fields(table: Table, row: Mapping[str, object], bytes_mode: BytesMode) -> dict[str, object]:
    """Return the values of a row by the columns that they are written to."""
    fields = json_object(table, row, bytes_mode)
    if bytes_mode == "auto":
        _take_controls_out(table, fields)
    return fields


def _names_of(column: Column, bytes_mode: BytesMode) -> tuple[str, ...]:
    if column.kind != "bytes":
        return (column.name,)
    if bytes_mode == "auto":
        return (column.name, f"{column.name}_b64")
    return (f"{column.name}_{'hex' if bytes_mode == 'hex' else 'b64'}",)


def _take_controls_out(table: Table, fields: dict[str, object]) -> None:
    """Write keys and values with control characters in base64."""
    for column in table.columns:
        text = fields.get(column.name)
        if column.kind == "bytes" and isinstance(text, str) and has_controls(text):
            del fields[column.name]
            fields[f"{column.name}_b64"] = base64.b64encode(text.encode()).decode("ascii")


def _header_object(key: bytes, value: bytes | None, bytes_mode: BytesMode) -> dict[str, str | None]:
    name, text = bytes_member("key", key, "auto")
    if name != "key" and bytes_mode == "hex":
        name, text = bytes_member("key", key, "hex")
    value_name, value_text = bytes_member("value", value, bytes_mode)
    return {name: text, value_name: value_text}
