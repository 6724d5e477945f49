"""Plans for people: the first line reports what would happen or has happened; losses come before changes."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from rich.text import Text

from kafkalog_cli.render.cells import plain, safe_text, span
from kafkalog_cli.render.grid import TableColumn, count_column, size_column, table_lines, time_column, word_column
from kafkalog_cli.render.summary import INDENT, SummaryTable, closed, command_text, finding_lines, sentence_texts
from kafkalog_core.ops.repair.plan_rows import ACTIONS, PlanRows
from kafkalog_core.rows import tables
from kafkalog_core.text import sizes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["PlanTable"]

Row = dict[str, object]

SHOWN_ROWS: Final = 50
_STYLES: Final = {
    "planned": "bold yellow",
    "refused": "bold red",
    "applied": "bold green",
    "nothing": "bold",
    "listed": "bold",
}
_WORDS: Final = {
    "planned": "PLAN",
    "refused": "NOT POSSIBLE",
    "applied": "DONE",
    "nothing": "NOTHING TO DO",
    "listed": "UNDO",
}


def _last(row: Mapping[str, object]) -> int | None:
    end = row.get("next_offset")
    return None if end is None else cast("int", end) - 1


_CHANGES: Final = (
    TableColumn("change", lambda row: ACTIONS[str(row["kind"])][0]),
    TableColumn("file", lambda row: safe_text(str(row["shown"]))),
    size_column("before", "bytes_before", 1),
    size_column("after", "bytes_after", 1),
    word_column("why", "why", flexible=True),
)
_LOSSES: Final = (
    TableColumn("lost from", lambda row: safe_text(str(row["shown"]))),
    TableColumn("offsets", lambda row: span(row.get("first_offset"), _last(row)), right=True),
    count_column("records", "records"),
    count_column("committed", "committed_records"),
    size_column("bytes", "bytes"),
    time_column("from", "first_timestamp_ms", 1),
    time_column("to", "max_timestamp_ms", 1),
    count_column("transactions", "transactions", 2),
    count_column("producers", "producers", 2),
)
_JOURNALS: Final = (
    word_column("run", "run"),
    time_column("created", "created_ms"),
    word_column("command", "command"),
    word_column("state", "state"),
    count_column("files", "files"),
    size_column("holds", "held_bytes"),
)
_DETAILS: Final = {
    tables.TEXT_FILE.name: (
        word_column("verdict", "verdict"),
        TableColumn("text file", lambda row: safe_text(str(row["shown"]))),
        count_column("entries", "entries"),
        count_column("lines changed", "lines", 1),
        word_column("problem", "problem", flexible=True),
    ),
    tables.TEXT_LINE.name: (
        TableColumn("text file", lambda row: safe_text(str(row["shown"]))),
        count_column("line", "line"),
        word_column("old", "old"),
        word_column("new", "new"),
        word_column("why", "problem", flexible=True),
    ),
}


class PlanTable(SummaryTable[PlanRows]):
    """Plans, each printed as soon as it is complete: the answer, then losses, findings, and changes."""

    def __init__(self) -> None:
        super().__init__()
        self._is_first = True

    def write(self, sheet: PlanRows) -> None:
        """Print a plan."""
        lines = [] if self._is_first else [Text()]
        self._is_first = False
        lines += self._head(sheet)
        lines += self._table(_JOURNALS, sheet.journals, "journal")
        for chunk in sheet.details:
            rows = [_named(row, sheet) for row in islice(chunk.rows(), SHOWN_ROWS)]
            noun = chunk.table.name.replace("_", " ")
            lines += self._table(_DETAILS[chunk.table.name], rows, noun, count=chunk.count)
        lines += self._losses(sheet)
        if sheet.findings:
            lines += [Text(), Text("Findings", "bold"), *finding_lines(sheet.findings, self.width)]
        lines += self._table(_CHANGES, [_named(row, sheet) for row in sheet.changes], "change")
        self.show(lines)

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return nothing: every plan is printed already."""
        del summary
        return []

    def last_line(self, summary: Mapping[str, object]) -> Text:
        """Return the exit status."""
        return Text(f"exit status {summary.get('exit_status')}", "dim")

    def _head(self, sheet: PlanRows) -> list[Text]:
        plan = sheet.plan
        state = str(plan["state"])
        lines = self._wrapped(f"{_WORDS[state]}: {plan['command']}: {closed(str(plan['message']))}", _STYLES[state])
        for refusal in sheet.refusals:
            lines += self._wrapped(f"{INDENT}- {refusal.headline}", "red")
            lines += [Text(f"{INDENT * 2}{command_text(command)}", "bold") for command in refusal.commands]
        for assumption in _split(None if state == "refused" else plan.get("assumptions")):
            lines += self._wrapped(f"{INDENT}assumed (--assume-defaults): {assumption}", "yellow")
        if plan.get("next_command"):
            lines.append(Text(f"{INDENT}next: {command_text(plan['next_command'])}", "bold"))
        lines += self._release(plan)
        lines += [
            Text(f"{INDENT}{plain(row['name'])} = {plain(row['value'])} ({plain(row['origin'])})", "dim")
            for row in sheet.settings
        ]
        if plan["state"] in {"planned", "refused"}:
            lines += [Text(f"{INDENT}{_room(each.path, each.needed_bytes, each.free_bytes)}") for each in sheet.spaces]
        return lines

    def _release(self, plan: Row) -> list[Text]:
        if plan.get("release") is None:
            return []
        certain = "" if plan.get("is_release_certain") else " (the latest release that fits)"
        evidence = "; ".join(_split(plan.get("release_evidence")))
        return self._wrapped(f"{INDENT}by the rules of Kafka {plan['release']}{certain}: {evidence}", "dim")

    def _losses(self, sheet: PlanRows) -> list[Text]:
        rows = [_named(row, sheet) for row in sheet.losses]
        lines = self._table(_LOSSES, rows, "loss")
        for cure in dict.fromkeys(str(row["cure"]) for row in rows if row.get("cure")):
            lines += self._wrapped(f"{INDENT}{cure}")
        return lines

    def _table(
        self, columns: Sequence[TableColumn], rows: Sequence[Row], noun: str, count: int | None = None
    ) -> list[Text]:
        """Return a table of the first rows; `count` is the number of all rows if `rows` are only the first ones."""
        style = "bold red" if noun == "loss" else ""
        return table_lines(columns, rows, self.width, noun=noun, most=SHOWN_ROWS, count=count, style_of=lambda _: style)

    def _wrapped(self, text: str, style: str = "") -> list[Text]:
        """Return the lines of a text, all but the first one indented."""
        return sentence_texts(text, self.width, style)


def _named(row: Row, sheet: PlanRows) -> Row:
    """Return the row with the name of its file below the root."""
    return row | {"shown": str(row["file"]).removeprefix(f"{sheet.plan['root']}/")}


def _split(text: object) -> list[str]:
    return str(text).split("\n") if text else []


def _room(path: str, needed_bytes: int, free_bytes: int) -> str:
    needed, free = sizes(needed_bytes, free_bytes)
    return f"needs {needed} of {free} free space at {safe_text(path)}"
