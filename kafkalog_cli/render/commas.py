r"""CSV output (RFC 4180: comma, CRLF, a header line once).

The columns are those of all row types that the command may yield, so they follow from the command line and never from
the data; a row leaves the fields empty that its type lacks. A null is an empty field, an empty text is `""`. A bytes
column is two in auto mode, `key` for exact UTF-8 and `key_b64` for the rest, and one in the others: `key_b64` or
`key_hex`. Headers and maps are JSON text. The summary has no place in such a table: it goes to stderr as a sentence.

CSV cannot escape, and a terminal obeys control characters: a key or value that has any but tab, LF and CR counts as no
text and is `key_b64`; in names and sentences they stand as `\u001b`.
"""

from __future__ import annotations

import base64
import re
import sys
from typing import TYPE_CHECKING, Final

import click

from kafkalog_cli.render.summary import summary_sentence
from kafkalog_core.format.json_form import json_text
from kafkalog_core.ops.rows import json_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog_cli.render.writer import Settings
    from kafkalog_core.ops.rows import BytesMode, Chunk
    from kafkalog_core.tables import Column, Table

__all__ = ["CsvWriter", "csv_columns"]

_NEEDS_QUOTES: Final = frozenset(',"\r\n')
_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class CsvWriter:
    """One table of all row types, `type` first."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stream = sys.stdout.buffer
        self._names = csv_columns(settings.tables, settings.bytes_mode)
        self._stream.write(_line(self._names))

    def write(self, chunk: Chunk) -> None:
        """Write one line a row."""
        table, mode = chunk.table, self._settings.bytes_mode
        for row in chunk.rows():
            fields = json_object(table, row, mode)
            if mode == "auto":
                _take_controls_out(table, fields)
            unknown = fields.keys() - self._names
            if unknown:
                raise LookupError(f"{table.name} row with columns that the CSV header lacks: {sorted(unknown)}")
            self._stream.write(_line(_field(fields.get(name)) for name in self._names))
        if self._settings.live:
            self._stream.flush()

    def finish(self, summary: Mapping[str, object]) -> None:
        """Say the summary on stderr."""
        self._stream.flush()
        click.echo(f"kafkalog: {summary_sentence(summary)}", err=True)


def csv_columns(tables: Iterable[Table], bytes_mode: BytesMode) -> dict[str, None]:
    """Names of the columns in order, each once."""
    names: dict[str, None] = {}
    for table in tables:
        for column in table.columns:
            names.update(dict.fromkeys(_names_of(column, bytes_mode)))
    return names


def _names_of(column: Column, bytes_mode: BytesMode) -> tuple[str, ...]:
    if column.kind != "bytes":
        return (column.name,)
    if bytes_mode == "auto":
        return (column.name, f"{column.name}_b64")
    return (f"{column.name}_{'hex' if bytes_mode == 'hex' else 'b64'}",)


def _line(fields: Iterable[str]) -> bytes:
    return (",".join(fields) + "\r\n").encode("utf-8", "backslashreplace")


def _take_controls_out(table: Table, fields: dict[str, object]) -> None:
    """Keys and values with control characters become base64."""
    for column in table.columns:
        text = fields.get(column.name)
        if column.kind == "bytes" and isinstance(text, str) and _CONTROLS.search(text):
            del fields[column.name]
            fields[f"{column.name}_b64"] = base64.b64encode(text.encode()).decode("ascii")


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _field(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = _CONTROLS.sub(_escaped, value) if isinstance(value, str) else json_text(value)
    if text == "" or not _NEEDS_QUOTES.isdisjoint(text):
        return '"' + text.replace('"', '""') + '"'
    return text
