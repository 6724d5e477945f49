"""Forecasts of rolling on their way out: rows for programs, or tables for people."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from kafkalog_cli.render.writer import Settings, Writer, open_writer
from kafkalog_core import tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.ops.rolling.forecast import RollForecast

__all__ = ["RollWriter", "open_rolls"]

_TABLES: Final = (tables.ROLLING, tables.ROLLED_SEGMENT, tables.FINDING)


class RollWriter(Protocol):
    """Takes forecasts as they come, and the summary last."""

    def write(self, forecast: RollForecast) -> None:
        """Show a forecast, or keep what of it is to be shown."""

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show what is left, then the summary."""


class RowRolls:
    """Forecasts as rows."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def write(self, forecast: RollForecast) -> None:
        """Write the rows."""
        for chunk in forecast.chunks():
            self._writer.write(chunk)

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the summary row."""
        self._writer.finish(summary)


def open_rolls(output: str) -> RollWriter:
    """The writer of one form onto standard output: `table`, `json`, `ndjson` or `csv`."""
    if output == "table":
        return cast("RollWriter", import_module("kafkalog_cli.render.roll_table").RollTable())
    return RowRolls(open_writer(output, Settings(tables=_TABLES)))
