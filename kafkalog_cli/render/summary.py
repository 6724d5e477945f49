"""The one shape of a verb's result for people: headline, tables, findings, and the summary line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from rich.text import Text

from kafkalog_cli.render.grid import more_line, open_console
from kafkalog_cli.render.summary_line import VERDICT_STYLES, summary_sentence, verdict
from kafkalog_cli.render.text import finding_lines, sentence_lines, wrapped_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["INDENT", "KEPT_FINDINGS", "SummaryTable", "sentence_texts", "wrapped_texts"]

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
        self.show([*lines[first:], self.last_line(summary)])

    def show(self, lines: Sequence[Text]) -> None:
        """Print lines."""
        self.console.print(*lines, sep="\n", soft_wrap=True)


def sentence_texts(text: str, width: int, style: str = "", *, first: str = "", indent: str = INDENT) -> list[Text]:
    """Return the lines of a sentence in a style; all lines but the first begin with `indent`."""
    return [Text(line, style) for line in sentence_lines(text, width, first=first, indent=indent)]


def wrapped_texts(text: str, width: int, style: str = "", *, first: str = "", indent: str = INDENT) -> list[Text]:
    """Return the lines of a text in which everything that does not print is escaped already."""
    return [Text(line, style) for line in wrapped_lines(text, width, first=first, indent=indent)]
