"""Forecasts of compaction on their way out: rows for programs, or a table for people."""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from rich.text import Text

from kafkalog_cli.render.cells import NONE, bytes_cell, plain
from kafkalog_cli.render.columns import Shown
from kafkalog_cli.render.lines import Settings, Writer, open_writer
from kafkalog_cli.render.table import Layout, choose_layout, open_console
from kafkalog_core.findings import Finding
from kafkalog_core.ops.replicas.compare import rows_of
from kafkalog_core.ops.retain.forecaster import totals
from kafkalog_core.ops.retain.rows import retained_rows, what_if_rows
from kafkalog_core.ops.verify.engine import rows_of_verdict
from kafkalog_core.rows import tables
from kafkalog_core.text import count_of, json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_cli.outfile import OutFile
    from kafkalog_cli.render.report.data import RunFacts
    from kafkalog_core.ops.compact.forecast import CompactForecast
    from kafkalog_core.ops.repair.plan_rows import PlanRows
    from kafkalog_core.ops.replicas.compare import Comparison
    from kafkalog_core.ops.retain.forecaster import RetentionForecaster, ScenarioResult
    from kafkalog_core.ops.retain.retain import Retained
    from kafkalog_core.ops.roll.forecast import RollForecast
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict
    from kafkalog_core.rows.chunk import BytesMode, Chunk
    from kafkalog_core.rows.kinds import Column, Table

__all__ = [
    "CompactWriter",
    "PlanWriter",
    "ReplicaWriter",
    "RetentionWriter",
    "RollWriter",
    "RowRetention",
    "VerdictWriter",
    "open_compactions",
    "open_exports",
    "open_plans",
    "open_query",
    "open_replicas",
    "open_report",
    "open_retention",
    "open_rolls",
    "open_verdicts",
]


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


def open_exports(output: str, place: str, commit_of: Callable[[], int]) -> Writer:
    """The writer of one form onto standard output: `table`, `json`, `ndjson` or `csv`.

    Args:
        output: the form.
        place: the directory that is written.
        commit_of: the number of its last commit, asked at the end; 0: there is none.
    """
    if output == "table":
        table = import_module("kafkalog_cli.render.job_tables").ExportTable(place, commit_of)
        return cast("Writer", table)
    return open_writer(output, Settings(tables=(tables.EXPORT, tables.FINDING)))


_PLANS_TABLES: Final = (
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

    def write(self, sheet: PlanRows) -> None:
        """Show a sheet."""

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show the summary."""


class RowPlans:
    """Sheets as rows."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def write(self, sheet: PlanRows) -> None:
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
    return RowPlans(open_writer(output, Settings(tables=_PLANS_TABLES)))


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


_REPLICAS_TABLES: Final = (tables.REPLICA, tables.REPLICA_COPY, tables.REPLICA_RANGE, tables.FINDING)


class ReplicaWriter(Protocol):
    """Takes comparisons as they come, and the summary last."""

    def write(self, item: Comparison | Finding) -> None:
        """Show a comparison, or what of it is to be shown; or a finding that is of none."""

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show what is left, then the summary."""


class RowReplicas:
    """Comparisons as rows."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def write(self, item: Comparison | Finding) -> None:
        """Write the rows."""
        for chunk in rows_of(item):
            self._writer.write(chunk)

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the summary row."""
        self._writer.finish(summary)


def open_replicas(output: str) -> ReplicaWriter:
    """The writer of one form onto standard output: `table`, `json`, `ndjson` or `csv`."""
    if output == "table":
        return cast("ReplicaWriter", import_module("kafkalog_cli.render.job_tables").ReplicaTable())
    return RowReplicas(open_writer(output, Settings(tables=_REPLICAS_TABLES)))


class RetentionWriter(Protocol):
    """Takes what is said of partition after partition, and the summary last."""

    def begin(self, forecaster: RetentionForecaster) -> None:
        """Begin with a site."""

    def write(self, each: Retained | Finding) -> None:
        """Show what is said of a partition, or keep it."""

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show what is left, then the summary."""


def open_retention(output: str, *, until_ms: int | None) -> RetentionWriter:
    """The writer of one form onto standard output; `until_ms`: how far checks are played forward."""
    if output == "table":
        module = import_module("kafkalog_cli.render.retention_table")
        return cast("RetentionWriter", module.RetentionTable(until_ms))
    module = import_module("kafkalog_cli.render.writers")
    return cast("RetentionWriter", module.RowRetention(output))


_ROLLS_TABLES: Final = (tables.ROLLING, tables.ROLLED_SEGMENT, tables.FINDING)


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
    return RowRolls(open_writer(output, Settings(tables=_ROLLS_TABLES)))


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
        for chunk in rows_of_verdict(verdict):
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
    return cast("VerdictWriter", import_module("kafkalog_cli.render.report.page").HtmlReport(file, run))


_ROWS_TABLES: Final = (
    tables.RETENTION,
    tables.RETAINED_SEGMENT,
    tables.RETENTION_WHAT_IF,
    tables.RETENTION_EVENT,
    tables.FINDING,
)


class RowRetention:
    """Everything as rows, in one form: `json`, `ndjson` or `csv`."""

    def __init__(self, output: str) -> None:
        self._writer = open_writer(output, Settings(tables=_ROWS_TABLES))
        self._outcomes: list[ScenarioResult] = []
        self._count = 0

    def begin(self, forecaster: RetentionForecaster) -> None:
        """Each row says what counts for it."""

    def write(self, each: Retained | Finding) -> None:
        """Write the rows, the partition's own first."""
        for chunk in retained_rows(each):
            self._put(chunk)
        if not isinstance(each, Finding):
            self._outcomes += each.outcomes

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write what all scenarios come to, and the summary row."""
        if self._outcomes:
            self._put(what_if_rows(totals(self._outcomes)))
        self._writer.finish({**summary, "rows": self._count})

    def _put(self, chunk: Chunk) -> None:
        self._count += chunk.count
        self._writer.write(chunk)
