"""Plans for people: the first line says what would happen or has happened; losses come before changes."""

from __future__ import annotations

import io
import sys
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from rich.text import Text

from kafkalog_cli.render.cells import NONE, human_bytes, plain, safe_text, span, time_cell
from kafkalog_cli.render.columns import Shown
from kafkalog_cli.render.table import choose_layout, open_console
from kafkalog_cli.render.text import closed, command_text, finding_lines, sentence_lines
from kafkalog_core.rows import tables
from kafkalog_core.text import count_of, sizes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog_core.ops.repair.plan_rows import PlanRows

__all__ = ["PlanTable"]

Row = dict[str, object]

SHOWN_ROWS: Final = 50
_INDENT: Final = "    "
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


def _size(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: human_bytes(row.get(name)), right=True, rank=rank)


def _number(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: f"{row[name]:,}" if isinstance(row.get(name), int) else NONE, right=True, rank=rank)


def _word(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: plain(row.get(name)), rank=rank)


_CHANGES: Final = (
    _word("change", "kind"),
    Shown("file", lambda row: safe_text(str(row["shown"]))),
    _size("before", "bytes_before", 1),
    _size("after", "bytes_after", 1),
    Shown("why", lambda row: plain(row.get("why")), flexible=True),
)
_LOSSES: Final = (
    Shown("lost from", lambda row: safe_text(str(row["shown"]))),
    Shown("offsets", lambda row: span(row.get("first_offset"), _last(row)), right=True),
    _number("records", "records"),
    _number("committed", "committed_records"),
    _size("bytes", "bytes"),
    Shown("from", lambda row: time_cell(row.get("first_timestamp_ms")), rank=1),
    Shown("to", lambda row: time_cell(row.get("max_timestamp_ms")), rank=1),
    _number("transactions", "transactions", 2),
    _number("producers", "producers", 2),
)
_JOURNALS: Final = (
    _word("run", "run"),
    Shown("made", lambda row: time_cell(row.get("created_ms"))),
    _word("command", "command"),
    _word("state", "state"),
    _number("files", "files"),
    _size("holds", "held_bytes"),
)
_DETAILS: Final = {
    tables.TEXT_FILE.name: (
        _word("verdict", "verdict"),
        Shown("text file", lambda row: safe_text(str(row["shown"]))),
        _number("entries", "entries"),
        _number("lines changed", "lines", 1),
        Shown("problem", lambda row: plain(row.get("problem")), flexible=True),
    ),
    tables.TEXT_LINE.name: (
        Shown("text file", lambda row: safe_text(str(row["shown"]))),
        _number("line", "line"),
        Shown("old", lambda row: plain(row.get("old"))),
        Shown("new", lambda row: plain(row.get("new"))),
        Shown("why", lambda row: plain(row.get("problem")), flexible=True),
    ),
}


class PlanTable:
    """A sheet at a time."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        self._console = open_console()
        self._is_first = True

    def write(self, sheet: PlanRows) -> None:
        """Show a sheet."""
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
            lines += [Text(), Text("Findings", "bold"), *finding_lines(sheet.findings, self._console.width)]
        lines += self._table(_CHANGES, [_named(row, sheet) for row in sheet.changes], "change")
        self._console.print(*lines, sep="\n", soft_wrap=True)

    def finish(self, summary: Mapping[str, object]) -> None:
        """Each sheet has said it; what a script sees is said too."""
        self._console.print(Text(f"exit status {summary.get('exit_status')}", "dim"), soft_wrap=True)

    def _head(self, sheet: PlanRows) -> list[Text]:
        plan = sheet.plan
        state = str(plan["state"])
        lines = self._wrapped(f"{_WORDS[state]}: {plan['command']}: {closed(str(plan['message']))}", _STYLES[state])
        for obstacle in _split(plan.get("obstacles")):
            lines += self._wrapped(f"{_INDENT}- {obstacle}", "red")
        for assumption in _split(None if state == "refused" else plan.get("assumptions")):
            lines += self._wrapped(f"{_INDENT}assumed (--assume-defaults): {assumption}", "yellow")
        if plan.get("next_command"):
            lines.append(Text(f"{_INDENT}next: {command_text(plan['next_command'])}", "bold"))
        lines += self._release(plan)
        lines += [
            Text(f"{_INDENT}{plain(row['name'])} = {plain(row['value'])} ({plain(row['origin'])})", "dim")
            for row in sheet.settings
        ]
        if plan["state"] in {"planned", "refused"}:
            lines += [Text(f"{_INDENT}{_room(each.path, each.needed_bytes, each.free_bytes)}") for each in sheet.spaces]
        return lines

    def _release(self, plan: Row) -> list[Text]:
        if plan.get("release") is None:
            return []
        certain = "" if plan.get("is_release_certain") else ", as far as can be told"
        evidence = "; ".join(_split(plan.get("release_evidence")))
        return self._wrapped(f"{_INDENT}by the rules of Kafka {plan['release']}{certain}: {evidence}", "dim")

    def _losses(self, sheet: PlanRows) -> list[Text]:
        rows = [_named(row, sheet) for row in sheet.losses]
        lines = self._table(_LOSSES, rows, "loss")
        for cure in dict.fromkeys(str(row["cure"]) for row in rows if row.get("cure")):
            lines += self._wrapped(f"{_INDENT}{cure}")
        return lines

    def _table(self, columns: Sequence[Shown], rows: Sequence[Row], noun: str, count: int | None = None) -> list[Text]:
        """Lines of a table of the first rows; `count` is the number of all of them, where it is not that of `rows`."""
        count = len(rows) if count is None else count
        if not rows:
            return []
        cells = [[column.cell(row) for column in columns] for row in rows[:SHOWN_ROWS]]
        layout = choose_layout(columns, cells, self._console.width)
        lines = [Text(), Text(layout.line(layout.titles), "bold underline")]
        style = "bold red" if noun == "loss" else ""
        lines += [Text(layout.line(texts), style) for texts in cells]
        if count > SHOWN_ROWS:
            lines.append(Text(f"... and {count_of(count - SHOWN_ROWS, f'more {noun}')}: --output ndjson has all"))
        return lines

    def _wrapped(self, text: str, style: str = "") -> list[Text]:
        """Lines of a text, all but the first indented."""
        return [Text(line, style) for line in sentence_lines(text, self._console.width, indent=_INDENT)]


def _named(row: Row, sheet: PlanRows) -> Row:
    """The row with the name that its file has below the root."""
    return row | {"shown": str(row["file"]).removeprefix(f"{sheet.plan['root']}/")}


def _split(text: object) -> list[str]:
    return str(text).split("\n") if text else []


def _room(path: str, needed_bytes: int, free_bytes: int) -> str:
    needed, free = sizes(needed_bytes, free_bytes)
    return f"needs {needed} of the {free} that are free at {safe_text(path)}"


def _last(row: Mapping[str, object]) -> int | None:
    end = row.get("next_offset")
    return None if end is None else cast("int", end) - 1
