"""Rows of a query on their way out: any columns, as rows for programs or as a table for people."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.cells import NONE, bytes_cell, plain
from kafkalog_cli.render.columns import Shown
from kafkalog_cli.render.table import open_console
from kafkalog_cli.render.widths import Layout, choose_layout
from kafkalog_cli.render.writer import Settings, open_writer
from kafkalog_core.format.json_form import json_text
from kafkalog_core.words import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_cli.render.writer import Writer
    from kafkalog_core.ops.reading.rows import BytesMode, Chunk
    from kafkalog_core.table_kinds import Column, Table

__all__ = ["open_query"]

SAMPLE_ROWS: Final = 200


class QueryTable:
    """Columns as the query has them; their widths are those of the first rows."""

    def __init__(self, table: Table) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        self._console = open_console()
        self._shown = tuple(_shown(column) for column in table.columns[1:])
        self._layout: Layout | None = None
        self._pending: list[list[str]] = []

    def write(self, chunk: Chunk) -> None:
        """Show the rows; the first ones wait until there are enough to choose widths by."""
        for row in chunk.rows():
            self._pending.append([column.cell(row) for column in self._shown])
        if self._layout is not None or len(self._pending) >= SAMPLE_ROWS:
            self._flush()

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show what is left, and how many rows there were."""
        self._flush()
        self._console.print(Text(count_of(summary.get("rows"), "row"), "dim"), soft_wrap=True)

    def _flush(self) -> None:
        rows, self._pending = self._pending, []
        if self._layout is None and rows:
            self._layout = choose_layout(self._shown, rows, self._console.width)
            self._console.print(Text(self._layout.line(self._layout.titles), "bold underline"), soft_wrap=True)
        if self._layout is not None and rows:
            text = "\n".join([self._layout.line(cells) for cells in rows])
            self._console.print(Text(text), soft_wrap=True)


def _shown(column: Column) -> Shown:
    is_number = column.kind in {"int64", "double"}

    def cell(row: Mapping[str, object]) -> str:
        value = row.get(column.name)
        if value is None:
            return NONE
        if column.kind == "bytes":
            return bytes_cell(value)
        return plain(json_text(value) if isinstance(value, list | dict | bool) else value)

    return Shown(column.name, cell, right=is_number, flexible=not is_number)


def open_query(output: str, table: Table, bytes_mode: BytesMode) -> Writer:
    """The writer of one form onto standard output: `table`, `json`, `ndjson` or `csv`."""
    if output == "table":
        return QueryTable(table)
    return open_writer(output, Settings(tables=(table,), bytes_mode=bytes_mode))
