"""CSV output: a header line once, then a line a row; what a line looks like says `rows`.

The columns follow from the command line and never from the data. The summary has no place in such a table: it goes to
stderr as a sentence.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kafkalog_cli.render.progress import end_progress
from kafkalog_cli.render.summary import summary_sentence
from kafkalog_core.format.csv_form import csv_line
from kafkalog_core.ops.reading.rows import csv_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_cli.render.writer import Settings
    from kafkalog_core.ops.reading.rows import Chunk

__all__ = ["CsvWriter"]


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
