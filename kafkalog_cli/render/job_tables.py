"""Results of jobs on Spark for people: exports and queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.cells import NONE, bytes_cell, number, place_of, plain, safe_text
from kafkalog_cli.render.grid import (
    TableColumn,
    choose_layout,
    number_column,
    open_console,
    size_column,
    table_lines,
    word_column,
)
from kafkalog_cli.render.summary import SummaryTable, wrapped_texts
from kafkalog_cli.render.summary_line import VERDICT_STYLES, verdict
from kafkalog_core.text import count_of, json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_cli.render.grid import TableLayout
    from kafkalog_core.output.chunk import Chunk
    from kafkalog_core.output.schema import Column, Table

__all__ = ["ExportTable", "QueryTable"]

SAMPLE_ROWS: Final = 200
Row = dict[str, object]

SHOWN_PARTITIONS: Final = 100
_GAPS: Final = frozenset({"export.gone-before", "segment.gap"})


_COLUMNS: Final = (
    TableColumn("partition", lambda row: place_of({"topic": row.get("topic"), "partition": row.get("partition")})),
    word_column("state", "state"),
    number_column("records", "records"),
    number_column("from", "from_offset", rank=2),
    number_column("next offset", "next_offset"),
    number_column("files", "files", rank=2),
    size_column("written", "file_bytes", 1),
    size_column("log read", "log_bytes", 3),
    number_column("removed", "removed_records", rank=3),
    number_column("errors", "errors"),
    number_column("warnings", "warnings", rank=1),
)


class ExportTable(SummaryTable["Chunk"]):
    """The result of an export: the partitions with errors, then the largest ones.

    `commit_of` returns the number of the last commit in `place`, the directory of the export; 0: there is none.
    """

    def __init__(self, place: str, commit_of: Callable[[], int]) -> None:
        super().__init__()
        self._place = place
        self._commit_of = commit_of
        self._rows: list[Row] = []
        self._gaps = 0

    def write(self, chunk: Chunk) -> None:
        """Keep the rows of partitions and the findings."""
        for row in chunk.rows():
            if row["type"] != "finding":
                self._rows.append(row)
                continue
            self._gaps += row["code"] in _GAPS
            self.add_findings([row])

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return the answer and the partitions that have changed or have findings."""
        style = VERDICT_STYLES[verdict(summary)]
        lines = wrapped_texts(
            self._headline(is_cut_short=bool(summary.get("interrupted"))), self.width, f"bold {style}"
        )
        news = sorted((row for row in self._rows if _is_news(row)), key=_rank)
        lines += table_lines(_COLUMNS, news, self.width, noun="partition", most=SHOWN_PARTITIONS)
        if news and len(news) < len(self._rows):
            lines.append(Text(f"{count_of(len(self._rows) - len(news), 'more partition')} without changes", "dim"))
        return lines

    def _headline(self, *, is_cut_short: bool) -> str:
        """Return `2,345 records of 21 partitions exported to DIR/records (commit 1); 2 partitions with errors`."""
        commit, place = self._commit_of(), safe_text(self._place)
        exported = [row for row in self._rows if row["state"] == "exported"]
        records = sum(number(row, "records") for row in exported)
        removed = sum(number(row, "removed_records") for row in exported)
        if exported:
            text = f"{records:,} records of {_partitions(len(exported))} exported to {place}/records"  # what to open
            text += f" (commit {commit})" if commit else ""
            text += f", which replace {removed:,} records that were exported before" if removed else ""
        elif is_cut_short:
            text = f"Interrupted before anything was added to {place}"
        else:
            nothing = f"Nothing new since commit {commit} of {place}" if commit else f"No records to export to {place}"
            text = f"{nothing}, in {_partitions(len(self._rows))}"
        stopped = sum(row["state"] == "stopped" for row in self._rows)
        damaged = sum(number(row, "errors") > 0 for row in self._rows) - stopped
        parts = [
            f"{_partitions(stopped)} stopped: the log differs from the exported one" if stopped else "",
            f"{_partitions(damaged)} with errors" if damaged else "",
            f"{self._gaps:,} {'gap' if self._gaps == 1 else 'gaps'} in the offsets" if self._gaps else "",
        ]
        return "; ".join([text, *filter(None, parts)])


def _is_news(row: Row) -> bool:
    return row["state"] != "unchanged" or bool(number(row, "errors") or number(row, "warnings"))


def _rank(row: Row) -> tuple[int, int, int, str, int]:
    """Return the order of a partition: the worst first, then the largest."""
    return (
        -number(row, "errors"),
        -number(row, "warnings"),
        -number(row, "records"),
        str(row["topic"]),
        number(row, "partition"),
    )


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"


class QueryTable:
    """The rows of a query, in its columns; the widths are chosen from the first rows."""

    def __init__(self, table: Table) -> None:
        self._console = open_console()
        self._shown = tuple(_column_of(column) for column in table.columns[1:])
        self._layout: TableLayout | None = None
        self._pending: list[list[str]] = []

    def write(self, chunk: Chunk) -> None:
        """Show the rows, as soon as there are enough of them to choose the widths."""
        for row in chunk.rows():
            self._pending.append([column.cell(row) for column in self._shown])
        if self._layout is not None or len(self._pending) >= SAMPLE_ROWS:
            self._flush()

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show the pending rows and the number of rows."""
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


def _column_of(column: Column) -> TableColumn:
    is_number = column.kind in {"int64", "double"}

    def cell(row: Mapping[str, object]) -> str:
        value = row.get(column.name)
        if value is None:
            return NONE
        if column.kind == "bytes":
            return bytes_cell(value)
        return plain(json_text(value) if isinstance(value, list | dict | bool) else value)

    return TableColumn(column.name, cell, right=is_number, flexible=not is_number)
