"""Forecasts of compaction on their way out: rows for programs, or a table for people."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from kafkalog_cli.render.writer import Settings, Writer, open_writer
from kafkalog_core import tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.ops.cleaning.forecast import CompactForecast

__all__ = ["CompactWriter", "open_compactions"]

_TABLES: Final = (
    tables.COMPACTION,
    tables.CLEANING_PASS,
    tables.CLEANED_SEGMENT,
    tables.BIG_KEY,
    tables.FINDING,
)


class CompactWriter(Protocol):
    """Takes forecasts as they come, and the summary last."""

    def write(self, forecast: CompactForecast) -> None:
        """Show a forecast, or keep what of it is to be shown."""

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show what is left, then the summary."""


class RowCompactions:
    """Forecasts as rows."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def write(self, forecast: CompactForecast) -> None:
        """Write the rows."""
        for chunk in forecast.chunks():
            self._writer.write(chunk)

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the summary row."""
        self._writer.finish(summary)


def open_compactions(output: str) -> CompactWriter:
    """The writer of one form onto standard output: `table`, `json`, `ndjson` or `csv`."""
    if output == "table":
        return cast("CompactWriter", import_module("kafkalog_cli.render.compact_table").CompactTable())
    return RowCompactions(open_writer(output, Settings(tables=_TABLES)))
