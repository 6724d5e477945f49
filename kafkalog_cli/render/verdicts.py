"""Verdicts on their way out: rows for programs, a table for people, or one line."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from kafkalog_cli.render.writer import Settings, Writer, open_writer
from kafkalog_core import tables
from kafkalog_core.ops.verify.rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_cli.outfile import OutFile
    from kafkalog_cli.render.report_data import RunFacts
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict

__all__ = ["VerdictWriter", "open_report", "open_verdicts"]


class VerdictWriter(Protocol):
    """Takes verdicts as they come, and the summary last."""

    def write(self, verdict: PartitionVerdict | PlaceVerdict) -> None:
        """Show a verdict, or keep what of it is to be shown."""

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show what is left, then the summary."""


class RowVerdicts:
    """Findings and partitions as rows."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def write(self, verdict: PartitionVerdict | PlaceVerdict) -> None:
        """Write the rows."""
        for chunk in rows_of(verdict):
            self._writer.write(chunk)

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the summary row."""
        self._writer.finish(summary)


def open_verdicts(output: str) -> VerdictWriter:
    """The writer of one form: `table`, `quiet`, or one of rows (`json`, `ndjson`, `csv`), onto standard output."""
    if output in {"table", "quiet"}:
        module = import_module("kafkalog_cli.render.verdict_table")
        return cast("VerdictWriter", module.QuietVerdicts() if output == "quiet" else module.VerdictTable())
    return RowVerdicts(open_writer(output, Settings(tables=(tables.PARTITION, tables.FINDING))))


def open_report(file: OutFile, run: RunFacts) -> VerdictWriter:
    """The writer of the HTML report, which is in its file when it has been finished."""
    return cast("VerdictWriter", import_module("kafkalog_cli.render.report").HtmlReport(file, run))
