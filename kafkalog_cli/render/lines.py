"""What every form of output has in common, and the choice of one. A form's module is imported when it is chosen."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, Self, cast

import click

from kafkalog_cli.render.text import end_progress, summary_sentence
from kafkalog_core.progress import Progress
from kafkalog_core.rows import tables
from kafkalog_core.rows.chunk import csv_columns, json_line
from kafkalog_core.text import csv_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_core.rows.chunk import BytesMode, Chunk
    from kafkalog_core.rows.tables import Table

__all__ = ["Bar", "CsvWriter", "JsonWriter", "NdjsonWriter", "Settings", "Writer", "open_progress", "open_writer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`tables`: the row types that may come, which CSV makes its header of. `live`: show each chunk at once."""

    tables: tuple[Table, ...]
    bytes_mode: BytesMode = "auto"
    live: bool = False


class Writer(Protocol):
    """Takes a result chunk by chunk, in bounded memory, and its summary last."""

    def write(self, chunk: Chunk) -> None:
        """Show the rows of a chunk."""

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show what is left, then the summary row."""


class Bar(Progress, Protocol):
    """A progress listener with a beginning and an end."""

    def __enter__(self) -> Self:
        """Begin to listen."""

    def __exit__(self, *error: object) -> None:
        """Take the bar away."""


_WRITERS: Final = {
    "ndjson": "kafkalog_cli.render.lines:NdjsonWriter",
    "json": "kafkalog_cli.render.lines:JsonWriter",
    "csv": "kafkalog_cli.render.lines:CsvWriter",
    "table": "kafkalog_cli.render.table:TableWriter",
}


def open_writer(output: str, settings: Settings) -> Writer:
    """The writer of one form (`table`, `json`, `ndjson` or `csv`) onto standard output."""
    module_name, _, class_name = _WRITERS[output].partition(":")
    factory = cast("Callable[[Settings], Writer]", getattr(import_module(module_name), class_name))
    return factory(settings)


def open_progress(*, shares_terminal: bool) -> Bar:
    """The bar on stderr; `shares_terminal`: the rows themselves go to a terminal and show how far things are."""
    factory = cast("Callable[..., Bar]", import_module("kafkalog_cli.render.text").ProgressBar)
    return factory(shares_terminal=shares_terminal)


class NdjsonWriter:
    """JSON lines, straight to the file behind standard output."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stream = sys.stdout.buffer

    def write(self, chunk: Chunk) -> None:
        """Write the chunk's lines as they are."""
        for part in chunk.parts(self._settings.bytes_mode):
            self._stream.write(part)
        if self._settings.live:
            self._stream.flush()

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the summary as the last line."""
        self._stream.write(json_line(tables.SUMMARY, summary, self._settings.bytes_mode))
        self._stream.flush()


class JsonWriter:
    """One JSON array of all rows, an element a line, written as the rows come."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stream = sys.stdout.buffer
        self._opening = b"[\n"

    def write(self, chunk: Chunk) -> None:
        """Write the chunk's lines, each with a comma: the summary always follows. A newline is never inside a line."""
        self._open()
        for part in chunk.parts(self._settings.bytes_mode):
            self._stream.write(bytes(part).replace(b"\n", b",\n"))
        if self._settings.live:
            self._stream.flush()

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the summary as the last element, and close the array."""
        self._open()
        self._stream.write(json_line(tables.SUMMARY, summary, self._settings.bytes_mode) + b"]\n")
        self._stream.flush()

    def _open(self) -> None:
        """Begin the array before its first element: an error before that leaves nothing."""
        self._stream.write(self._opening)
        self._opening = b""


class CsvWriter:
    """One table of all row types, `type` first."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stream = sys.stdout.buffer
        self._header = tuple(csv_columns(settings.tables, settings.bytes_mode))
        self._stream.write(csv_line(self._header))

    def write(self, chunk: Chunk) -> None:
        """Write one line a row."""
        table, mode = chunk.table, self._settings.bytes_mode
        unknown = csv_columns([table], mode).keys() - set(self._header)
        if unknown:
            raise LookupError(f"{table.name} row with columns that the CSV header lacks: {sorted(unknown)}")
        for part in chunk.csv(self._header, mode):
            self._stream.write(part)
        if self._settings.live:
            self._stream.flush()

    def finish(self, summary: Mapping[str, object]) -> None:
        """Say the summary on stderr."""
        self._stream.flush()
        end_progress()
        click.echo(f"kafkalog: {summary_sentence(summary)}", err=True)
