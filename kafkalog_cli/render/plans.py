"""Plans on their way out: rows for programs, or sheets for people. The form's module is imported when it is chosen."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from kafkalog_cli.render.writer import Settings, Writer, open_writer
from kafkalog_core import tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.ops.plans.sheet import Sheet

__all__ = ["PlanWriter", "open_plans"]

_TABLES: Final = (
    tables.PLAN,
    tables.TEXT_FILE,
    tables.TEXT_LINE,
    tables.SETTING,
    tables.JOURNAL,
    tables.LOSS,
    tables.FINDING,
    tables.CHANGE,
)


class PlanWriter(Protocol):
    """Takes sheets as they come, and the summary last."""

    def write(self, sheet: Sheet) -> None:
        """Show a sheet."""

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show the summary."""


class RowPlans:
    """Sheets as rows."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def write(self, sheet: Sheet) -> None:
        """Write the rows, the plan's own first."""
        for chunk in sheet.chunks():
            self._writer.write(chunk)

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the summary row."""
        self._writer.finish(summary)


def open_plans(output: str) -> PlanWriter:
    """The writer of one form onto standard output: `table`, `json`, `ndjson` or `csv`."""
    if output == "table":
        return cast("PlanWriter", import_module("kafkalog_cli.render.plan_table").PlanTable())
    return RowPlans(open_writer(output, Settings(tables=_TABLES)))
