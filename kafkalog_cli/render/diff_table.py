"""What changed between two copies, for people: one line that counts it, then a row for each change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.cells import number, plain
from kafkalog_cli.render.grid import TableColumn, count_column, table_lines
from kafkalog_cli.render.summary import INDENT, SummaryTable, closed, command_text, sentence_texts, status_line
from kafkalog_core.text import count_of, first_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.ops.diff.request import DiffFound

__all__ = ["DiffTable"]

SHOWN: Final = 100
SHOWN_COMMANDS: Final = 3
_LOST: Final = frozenset({"truncated", "missing", "damaged"})
_STYLES: Final = dict.fromkeys(_LOST, "bold red") | dict.fromkeys(
    ("gone", "being-deleted", "recreated", "stray", "backwards", "hanging"), "yellow"
)
_NAMED: Final = frozenset({"group", "transaction", "broker", "topic", "acl", "quota", "user", "token", "feature"})
"""Kinds that the first column names; a partition, an offset of a group and a setting show what they are."""
_WORDS: Final = {
    "added": ("with new records", "partition"),
    "truncated": ("truncated", "partition"),
    "missing": ("that lacks records", "partition"),
    "damaged": ("damaged", "partition"),
    "log-start": ("whose log start moved", "partition"),
    "deleted": ("with segments deleted", "partition"),
    "tail": ("with a torn tail in one copy", "partition"),
}
"""How the first line counts changes of logs: the words after the number and the noun."""


def _what(row: Mapping[str, object]) -> str:
    kind = str(row["kind"])
    if kind == "offset":
        return f"group {plain(row['what'])}"
    return f"{kind} {plain(row['what'])}" if kind in _NAMED else plain(row["what"])


def _change(row: Mapping[str, object]) -> str:
    column = row.get("column")
    is_value = column is not None and column != "value"
    return f"{plain(row['change'])} {plain(column)}" if is_value else plain(row["change"])


_BY_HEADERS: Final = (
    "Batches were compared by their headers and the checksums stored there: --deep finds changed bytes in them too."
)
_COLUMNS: Final = (
    TableColumn("what", _what, flexible=True, least=24),
    TableColumn("change", _change),
    TableColumn("before", lambda row: plain(row.get("before")), flexible=True),
    TableColumn("after", lambda row: plain(row.get("after")), flexible=True),
    count_column("segments", "segments", 1),
    count_column("records", "records"),
)


class DiffTable(SummaryTable["DiffFound"]):
    """The one result of `kafkalog diff`."""

    def __init__(self) -> None:
        super().__init__()
        self._found: DiffFound | None = None

    def write(self, found: DiffFound) -> None:
        """Keep the result."""
        self._found = found
        self.add_findings(found.findings)

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return the answer, the changes, and the commands that show more."""
        del summary
        found = self._found
        if found is None:
            return []
        rows = found.differences
        style = "bold red" if any(row["change"] in _LOST for row in rows) else "bold" if rows else "bold green"
        if found.findings:
            style = "bold yellow" if not rows else style
        depth = "" if rows or found.is_deep else f" {_BY_HEADERS}"
        lines = sentence_texts(f"{closed(_answer(found))}{depth}", self.width, style)
        details = [row.get("detail") for row in rows[:SHOWN]]
        # Rows with one cause have it once, below the last of them.
        ends = {id(row) for row, one, other in zip(rows, details, [*details[1:], None], strict=False) if one != other}
        lines += table_lines(
            _COLUMNS,
            rows,
            self.width,
            noun="change",
            most=SHOWN,
            style_of=lambda row: _STYLES.get(str(row["change"]), ""),
            below=lambda row: self._below(row) if id(row) in ends else [],
        )
        commands = [command_text(row["next_command"]) for row in rows if row.get("next_command")]
        if commands:
            lines += [Text(), *(Text(command, "bold") for command in commands[:SHOWN_COMMANDS])]
        return lines

    def _below(self, row: Mapping[str, object]) -> list[Text]:
        """Return the line below a change: what is known of its cause."""
        detail = row.get("detail")
        return [] if detail is None else sentence_texts(f"{INDENT}{detail}", self.width, "dim")

    def notes(self) -> list[Text]:
        """Return what was not compared."""
        found = self._found
        notes = [] if found is None else [*found.notes]
        if found is not None and found.differences and not found.is_deep:
            notes.append(_BY_HEADERS)
        lines = [line for note in notes for line in sentence_texts(closed(note.rstrip(".")), self.width, "dim")]
        return [Text(), *lines] if lines else []

    def last_line(self, summary: Mapping[str, object]) -> Text:
        """Return the exit status, and whether something is missing above."""
        return status_line(summary)


def _answer(found: DiffFound) -> str:
    """Return the first line: how many changes of what."""
    where = f"between {first_of(found.old)} and {first_of(found.new)}"
    unread = "; what cannot be read may differ too" if found.findings else ""
    if not found.differences:
        return f"NO DIFFERENCE {where}, in {count_of(found.partitions, 'partition')}{unread}"
    counts: dict[str, list[int]] = {}
    nouns: dict[str, tuple[str, str]] = {}
    for row in found.differences:
        kind, change = str(row["kind"]), str(row["change"])
        words, noun = _words(kind, change)
        counts.setdefault(words, [0, 0])
        nouns[words] = (words, noun)
        counts[words][0] += 1
        counts[words][1] += number(row, "records")
    texts = []
    for words, (count, records) in counts.items():
        noun = nouns[words][1]
        amount = "1 record" if records == 1 else f"{records:,} records"
        of_records = f" ({amount})" if noun == "partition" and records else ""
        texts.append(f"{count_of(count, noun)} {nouns[words][0]}".rstrip() + of_records)
    return f"{count_of(len(found.differences), 'change')}: {', '.join(texts)}{unread}"


def _words(kind: str, change: str) -> tuple[str, str]:
    """Return the words and the noun of a change in the first line."""
    if kind == "partition":
        return _WORDS.get(change, (change.replace("-", " "), "partition"))
    noun = {"config": "setting", "offset": "committed offset", "acl": "ACL"}.get(kind, kind)
    return change.replace("-", " "), noun
