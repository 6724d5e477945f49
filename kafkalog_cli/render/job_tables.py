"""Results of jobs on Spark for people: exports, comparisons of replicas, and queries."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.cells import NONE, bytes_cell, number, place_of, plain, safe_text, span
from kafkalog_cli.render.grid import (
    TableColumn,
    choose_layout,
    more_line,
    number_column,
    open_console,
    size_column,
    table_lines,
    word_column,
)
from kafkalog_cli.render.summary import SummaryTable, wrapped_texts
from kafkalog_cli.render.summary_line import VERDICT_STYLES, verdict
from kafkalog_core.findings import Finding
from kafkalog_core.text import count_of, json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalog_cli.render.grid import TableLayout
    from kafkalog_core.ops.replicas.compare import Comparison
    from kafkalog_core.output.chunk import Chunk
    from kafkalog_core.output.schema import Column, Table

__all__ = ["ExportTable", "QueryTable", "ReplicaTable"]

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


SHOWN_REPLICAS: Final = 100
SHOWN_RANGES: Final = 20
_BAD: Final = frozenset({"divergent", "damaged", "missing", "another-topic"})
_ORDER: Final = (
    "divergent",
    "damaged",
    "missing",
    "another-topic",
    "behind",
    "compacted",
    "trimmed",
    "identical",
    "alone",
)
_ALIKE: Final = frozenset({"identical", "alone"})
_LACKS: Final = ("damaged", "missing", "behind", "compacted", "trimmed")


def _lacks(row: Mapping[str, object]) -> str:
    parts = [f"{row[f'lacks_{name}']} {name}" for name in _LACKS if row.get(f"lacks_{name}")]
    return ", ".join(parts) or NONE


def _offsets(row: Mapping[str, object]) -> str:
    start, end = row.get("log_start_offset"), row.get("log_end_offset")
    if not isinstance(start, int) or not isinstance(end, int):
        return NONE
    return span(start, end - 1) if end > start else "none"


_COPIES: Final = (
    word_column("copy", "path"),
    word_column("broker", "node_id", 4),
    word_column("state", "state"),
    number_column("epoch", "leader_epoch"),
    TableColumn("offsets", _offsets, right=True),
    number_column("high watermark", "high_watermark", 2),
    number_column("records", "records", 3),
    number_column("only here", "only_here"),
    TableColumn("lacks", _lacks, rank=1),
)


class ReplicaTable(SummaryTable["Comparison | Finding"]):
    """The comparisons of replicas, the worst first; partitions whose copies are identical are only counted."""

    def __init__(self) -> None:
        super().__init__()
        self._states: Counter[str] = Counter()
        self._at_risk = 0
        self._worst: list[Comparison] = []

    def write(self, item: Comparison | Finding) -> None:
        """Count a comparison, and keep it if it is among the worst; keep a finding."""
        if isinstance(item, Finding):
            self.add_findings([item.row()])
            return
        state = str(item.replica["state"])
        self._states[state] += 1
        self._at_risk += number(item.replica, "records_at_risk")
        self.add_findings(finding.row() for finding in item.findings if not finding.code.startswith("replicas."))
        if state not in _ALIKE:
            self._worst = sorted([*self._worst, item], key=_severity)[:SHOWN_REPLICAS]

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return the answer and the partitions whose copies differ."""
        del summary
        sentence, style = self._headline()
        lines = wrapped_texts(sentence, self.width, style)
        for item in self._worst:
            lines += _lines(item, self.width)
        differ = sum(count for state, count in self._states.items() if state not in _ALIKE)
        return lines + more_line(differ - len(self._worst), "partition")

    def _headline(self) -> tuple[str, str]:
        """Return `12 partitions: 1 divergent, 11 identical; 50 records are lost if ...`, and its style."""
        parts = [f"{self._states[state]} {state}" for state in _ORDER if self._states[state]]
        text = f"{count_of(sum(self._states.values()), 'partition')}: {', '.join(parts) or 'none'}"
        if self._at_risk:
            records = count_of(self._at_risk, "record")
            text += f"; {records} are lost if only the copies marked keep are kept: save them first"
        return text, "bold red" if any(self._states[state] for state in _BAD) else "bold green"


def _severity(item: Comparison) -> tuple[int, int, str, int]:
    """Return the order of a comparison: by state, the worst first, then by records at risk."""
    row = item.replica
    return (
        _ORDER.index(str(row["state"])),
        -number(row, "records_at_risk"),
        str(row["topic"]),
        number(row, "partition"),
    )


def _lines(item: Comparison, width: int) -> list[Text]:
    row = item.replica
    state = str(row["state"])
    since = "" if row.get("divergent_offset") is None else f" from offset {row['divergent_offset']} on"
    title = f"{plain(row['topic'])}-{row['partition']}: {state}{since}, {count_of(row['copies'], 'copy')}"
    lines = [Text(), *wrapped_texts(title, width, "bold red" if state in _BAD else "bold cyan")]
    lines += wrapped_texts(plain(row.get("reason")), width, "bold")
    lines += table_lines(_COPIES, item.copies, width, noun="copy")
    names = _names(item.copies)
    for copy in item.copies:
        if copy["state"] not in {"keep", "identical"}:
            lines += wrapped_texts(f"{names[copy['path']]}: {plain(copy['advice'])}", width, "")
    return lines + _range_lines(item.ranges, names, width)


def _names(copies: Sequence[Row]) -> dict[object, str]:
    """Return the names of copies in sentences, by their paths: `broker 1` if only one copy is of that broker."""
    nodes = Counter(copy.get("node_id") for copy in copies)
    return {
        copy["path"]: f"broker {plain(copy['node_id'])}"
        if copy.get("node_id") is not None and nodes[copy["node_id"]] == 1
        else plain(copy["path"])
        for copy in copies
    }


def _range_lines(ranges: Sequence[Row], names: Mapping[object, str], width: int) -> list[Text]:
    lines: list[Text] = []
    for row in ranges[:SHOWN_RANGES]:
        has = row["has"] if isinstance(row["has"], dict) else {}
        texts: dict[str, list[str]] = {}
        for path, text in has.items():
            texts.setdefault(text, []).append(names.get(path, plain(path)))
        what = "; ".join(f"{text} in {', '.join(paths)}" for text, paths in texts.items())
        offsets = span(row["first_offset"], row["last_offset"])
        lines += wrapped_texts(
            f"offsets {offsets}, {row['kind']}, {count_of(row['records'], 'record')}: {what}", width, ""
        )
    return lines + more_line(len(ranges) - SHOWN_RANGES, "range")


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
