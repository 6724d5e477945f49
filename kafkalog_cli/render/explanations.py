"""Explanations for people: plain lines, wrapped to the terminal; texts from a log are escaped."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Final

from kafkalog_cli.render.cells import safe_text
from kafkalog_cli.render.text import command_text
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.ops.explain import Digest, Entry, Heading

__all__ = ["code_lines", "digest_lines", "entry_lines", "heading_lines"]

MAX_WIDTH: Final = 120
_LABEL: Final = 10
_FIELDS: Final = (("what", "happened"), ("why", "why"), ("broker", "broker_action"), ("do", "cure"))


def entry_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the lines of each entry in full."""
    for entry in entries:
        yield f"{entry.code}  ({entry.kind}, {entry.severity})"
        if entry.message != entry.meaning:
            yield from _labelled("says", entry.message)
        yield from _labelled("means", entry.meaning)
        yield from _labelled("broker", entry.broker_action)
        yield from _labelled("cure", entry.cure)
        yield ""


def code_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield a line for each entry: code, severity, and the beginning of its meaning."""
    listed = list(entries)
    longest = max(len(entry.code) for entry in listed)
    for entry in listed:
        start = f"{entry.code:{longest}}  {entry.severity:7}  "
        yield start + textwrap.shorten(entry.meaning, max(_width() - len(start), 20), placeholder=" ...")


def heading_lines(heading: Heading) -> Iterator[str]:
    """Yield the lines of one message: what it means and what to do next."""
    row = heading.row()
    if heading.message.is_elsewhere:
        yield f"Not about the log directory: {heading.message.name}"
    else:
        yield f"{heading.message.severity.upper()}  {heading.message.name}"
    for label, name in _FIELDS:
        yield from _labelled(label, safe_text(str(row[name])))
    yield from _commands(row)


def digest_lines(digest: Digest, source: str) -> Iterator[str]:
    """Yield the lines of all messages of a log, the most severe first, then the lines that were not recognised."""
    headings = digest.headings()
    severe = [heading for heading in headings if heading.message.severity != "info"]
    quiet = [heading for heading in headings if heading.message.severity == "info" and not heading.message.is_elsewhere]
    elsewhere = [heading for heading in headings if heading.message.is_elsewhere]
    yield f"{safe_text(source)}: {count_of(digest.lines, 'line')}, {digest.recognised} of them recognised"
    for heading in severe:
        yield ""
        yield f"{heading.message.severity.upper():7}  {heading.message.name}: {_lines_of(heading)}"
        row = heading.row()
        yield from _labelled("line", safe_text(heading.sample))
        for label, name in _FIELDS:
            yield from _labelled(label, safe_text(str(row[name])))
        if heading.count > 1 and heading.places:
            yield from _labelled("where", ", ".join(map(safe_text, heading.places)) + " ..." * heading.has_more_places)
        yield from _commands(row)
    yield from _quiet_lines("Normal operation:", quiet)
    yield from _quiet_lines("Not about the log directory:", elsewhere)
    if digest.unknown:
        yield ""
        yield f"Not recognised: {count_of(digest.unknown, 'line')} of level WARN, ERROR or FATAL"
        yield from (f"  line {number}: {safe_text(text)}" for number, text in digest.unknown_samples)


def _quiet_lines(title: str, headings: list[Heading]) -> Iterator[str]:
    if headings:
        yield ""
        yield title
        yield from (f"  {heading.message.name}: {_lines_of(heading)}" for heading in headings)


def _lines_of(heading: Heading) -> str:
    if heading.count == 1:
        return f"line {heading.first_line}"
    return f"{heading.count} times, lines {heading.first_line} to {heading.last_line}"


def _commands(row: dict[str, object]) -> Iterator[str]:
    """Yield command lines, which are never broken, and the codes to look up."""
    for command in str(row["commands"]).splitlines():
        yield f"{'  run':{_LABEL}}{command_text(command)}"
    if row["codes"]:
        yield from _labelled("see", f"kafkalog explain CODE, for {row['codes']}")


def _labelled(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _width(),
        initial_indent=f"{'  ' + label:{_LABEL}}",
        subsequent_indent=" " * _LABEL,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _width() -> int:
    return min(shutil.get_terminal_size().columns, MAX_WIDTH)
