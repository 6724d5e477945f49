"""Results as lines for people: sentences, findings, and the table that ends with the summary line."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from textwrap import wrap
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from rich.text import Text

from kafkalog_cli.command import ExitStatus
from kafkalog_cli.render.cells import plain, safe_text
from kafkalog_cli.render.grid import more_line, open_console
from kafkalog_cli.render.summary_line import VERDICT_STYLES, summary_sentence, verdict
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console

__all__ = [
    "INDENT",
    "KEPT_FINDINGS",
    "SummaryTable",
    "closed",
    "command_text",
    "finding_lines",
    "last_lines",
    "sentence_lines",
    "sentence_texts",
    "wrapped_lines",
    "wrapped_texts",
]


_MIN_WIDTH: Final = 40
_GLUE: Final = "\ue000"
"""Replaces a space within a command while lines are broken; `safe_text` escapes this character in the text itself."""
_PLAIN: Final = r"[^\s'\"$\\;()]"
_WORD: Final = rf"(?:{_PLAIN}|'[^']*'|\"[^\"]*\"|\$'(?:[^'\\]|\\.)*')+"
_COMMAND: Final = re.compile(
    rf"(?:(?<=: )|(?<=\())(?:kafkalog|cd|chown|cp|setfattr) {_WORD}(?:(?<![a-z][.,]) {_WORD})*"
)
"""A command follows a colon or is in parentheses; it ends at a semicolon, a parenthesis or the end of the sentence."""

_UNIT: Final = r"\d (?:(?:ms|s|min|h|d|B|[KMGTPE]iB)\b|%)"
_QUANTITY: Final = re.compile(rf"[\d,.]*{_UNIT}(?: [\d,.]*{_UNIT})?|exit status \d")
"""A number with its unit, a duration of two units, and an exit status, which are never broken."""


def command_text(command: object) -> str:
    """Return a command as it is: `command_lines` has quoted it already, and its backslashes must not be doubled."""
    text = str(command)
    return text if text.isprintable() else safe_text(text)


def sentence_lines(text: str, width: int, *, first: str = "", indent: str = "    ") -> list[str]:
    """Return a text in lines, like `wrapped_lines`; a command is never broken, even between its words.

    Everything that does not print is escaped.
    """
    pieces: list[str] = []
    end = 0
    for match in _COMMAND.finditer(text):
        pieces += [safe_text(text[end : match.start()]), command_text(match[0]).replace(" ", _GLUE)]
        end = match.end()
    pieces.append(safe_text(text[end:]))
    return wrapped_lines("".join(pieces), width, first=first, indent=indent)


def closed(text: str) -> str:
    """Return a text with a period at its end; without one after a command, with which it would be pasted."""
    ends = [match.end() for match in _COMMAND.finditer(text)]
    return text if len(text) in ends else f"{text}."


def wrapped_lines(text: str, width: int, *, first: str = "", indent: str = "    ") -> list[str]:
    """Return a printable text in lines of at most `width` cells; words, and so paths, are never broken.

    Args:
        text: one sentence or several.
        width: in terminal cells; less than 40 counts as 40.
        first: beginning of the first line.
        indent: beginning of all other lines.
    """
    lines = wrap(
        _QUANTITY.sub(lambda match: match[0].replace(" ", _GLUE), text),
        max(width, _MIN_WIDTH),
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_GLUE, " ") for line in lines]


SHOWN_FILES: Final = 10
SHOWN_COMMANDS: Final = 5
_INDENT: Final = " " * 8
_RANK: Final = {"error": 0, "warning": 1}
_STYLES: Final = {"error": "bold red", "warning": "yellow"}
_CAUSE: Final = "dir.interrupted"
_COMMON: Final = ("severity", "code", "message", "broker_action", "cure")


def finding_lines(findings: Iterable[Mapping[str, object]], width: int) -> list[Text]:
    """Return findings in lines of at most `width` cells: message, broker action, cure, and files.

    Findings with the same texts are one group; errors are first, then warnings.
    """
    groups: dict[tuple[str, ...], list[Mapping[str, object]]] = {}
    for row in findings:
        groups.setdefault(tuple(str(row.get(name)) for name in _COMMON), []).append(row)
    lines: list[Text] = []
    for common, rows in sorted(groups.items(), key=_place):
        lines += _group_lines(dict(zip(_COMMON, common, strict=True)), rows, width)
    return lines


def _place(group: tuple[tuple[str, ...], object]) -> tuple[bool, int]:
    """Return the order of a group: the worst first, after an interrupted run, which may be the cause of the others."""
    common = dict(zip(_COMMON, group[0], strict=True))
    return common["code"] != _CAUSE, _RANK.get(common["severity"], len(_RANK))


def _group_lines(common: Mapping[str, str], rows: list[Mapping[str, object]], width: int) -> list[Text]:
    severity = common["severity"]
    lines = sentence_texts(
        f"{severity.upper():<8}{common['code']}: {common['message']}", width, _STYLES.get(severity, ""), indent=_INDENT
    )
    for label, name in (("a broker", "broker_action"), ("cure", "cure")):
        if rows[0].get(name):
            lines += sentence_texts(f"{_INDENT}{label}: {common[name]}", width, indent=_INDENT)
    commands = list(dict.fromkeys(command_text(row["next_command"]) for row in rows if row.get("next_command")))
    lines += [Text(f"{_INDENT}next: {command}", "bold") for command in commands[:SHOWN_COMMANDS]]
    lines += [Text(f"{_INDENT}{_where(row)}") for row in rows[:SHOWN_FILES]]
    if len(rows) > SHOWN_FILES:
        rest = count_of(len(rows) - SHOWN_FILES, "more file")
        lines.append(Text(f"{_INDENT}and {rest}: --output ndjson has them all"))
    return lines


def _where(row: Mapping[str, object]) -> str:
    position = row.get("position")
    return plain(row.get("file")) + ("" if position is None else f" at byte {position}")


INDENT: Final = "    "
KEPT_FINDINGS: Final = 1000
"""Findings that a table shows; further ones are counted."""
Item = TypeVar("Item")


class SummaryTable(ABC, Generic[Item]):
    """A writer for people that keeps what it shows until the end, because the first line is about all of it.

    A subclass keeps items (`write`) and gives the lines above the findings (`body`).
    """

    def __init__(self) -> None:
        self.console = open_console()
        self.width = self.console.width
        self._findings: list[Mapping[str, object]] = []
        self._more_findings = 0

    @abstractmethod
    def write(self, item: Item) -> None:
        """Keep the part of an item that is shown."""

    @abstractmethod
    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return the lines above the findings."""

    def notes(self) -> list[Text]:
        """Return the lines below the findings."""
        return []

    def last_line(self, summary: Mapping[str, object]) -> Text:
        """Return the summary line."""
        return Text(summary_sentence(summary), VERDICT_STYLES[verdict(summary)])

    def add_findings(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Keep `finding` rows, up to `KEPT_FINDINGS`, and count the others."""
        for row in rows:
            if len(self._findings) < KEPT_FINDINGS:
                self._findings.append(row)
            else:
                self._more_findings += 1

    def finish(self, summary: Mapping[str, object]) -> None:
        """Print everything, the summary line last."""
        lines = self.body(summary)
        if self._findings:
            lines += [Text(), Text("Findings", "bold"), *finding_lines(self._findings, self.width)]
            lines += more_line(self._more_findings, "finding")
        lines += self.notes()
        if lines:
            lines.append(Text())
        first = 1 if lines and not lines[0].plain else 0  # the output never begins with an empty line
        self.show([*lines[first:], *last_lines(self.last_line(summary), self.console)])

    def show(self, lines: Sequence[Text]) -> None:
        """Print lines."""
        self.console.print(*lines, sep="\n", soft_wrap=True)


def status_line(summary: Mapping[str, object], interrupted: str = "nothing was finished") -> Text:
    """Return the exit status, and whether something is missing above; `interrupted`: what is, after an interrupt."""
    text = f"exit status {summary.get('exit_status')}"
    if summary.get("interrupted"):
        return Text(f"interrupted: {interrupted} | {text}", "bold yellow")
    if summary.get("exit_status") == ExitStatus.REFUSED:
        return Text(f"not everything could be read | {text}", "bold yellow")
    return Text(text, "dim")


def last_lines(text: Text, console: Console) -> list[Text]:
    """Return the summary line: in lines on a terminal, which would break it within words, and as it is elsewhere."""
    return wrapped_texts(text.plain, console.width, str(text.style)) if console.is_terminal else [text]


def sentence_texts(text: str, width: int, style: str = "", *, first: str = "", indent: str = INDENT) -> list[Text]:
    """Return the lines of a sentence in a style; all lines but the first begin with `indent`."""
    return [Text(line, style) for line in sentence_lines(text, width, first=first, indent=indent)]


def wrapped_texts(text: str, width: int, style: str = "", *, first: str = "", indent: str = INDENT) -> list[Text]:
    """Return the lines of a text in which everything that does not print is escaped already."""
    return [Text(line, style) for line in wrapped_lines(text, width, first=first, indent=indent)]
