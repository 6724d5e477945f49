"""Sentences in lines of a given width; a command in a sentence is not broken, so that it can be pasted."""

from __future__ import annotations

import re
import sys
import time
from textwrap import wrap
from typing import TYPE_CHECKING, Final, Self, cast

from rich.text import Text

from kafkalog_cli.render.cells import counts_cell, human_bytes, plain, safe_text
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.progress import Progress

__all__ = [
    "ProgressBar",
    "closed",
    "command_text",
    "end_progress",
    "finding_lines",
    "sentence_lines",
    "sound_partitions",
    "summary_sentence",
    "verdict",
    "verdict_sentence",
    "wrapped_lines",
]


_MIN_WIDTH: Final = 40
_GLUE: Final = "\ue000"
"""Replaces a space within a command while lines are made; `safe_text` escapes this character in the text itself."""
_PLAIN: Final = r"[^\s'\"$\\;()]"
_WORD: Final = rf"(?:{_PLAIN}|'[^']*'|\"[^\"]*\"|\$'(?:[^'\\]|\\.)*')+"
_COMMAND: Final = re.compile(
    rf"(?:(?<=: )|(?<=\())(?:kafkalog|cd|chown|cp|setfattr) {_WORD}(?:(?<![a-z][.,]) {_WORD})*"
)
"""A command follows a colon or is in parentheses; it ends at a semicolon, a parenthesis or the end of the sentence."""


def command_text(command: object) -> str:
    """Return a command as it is: it is quoted already (`command_lines`), and its backslashes must not be doubled."""
    text = str(command)
    return text if text.isprintable() else safe_text(text)


def sentence_lines(text: str, width: int, *, first: str = "", indent: str = "    ") -> list[str]:
    """Return a text, which may name files and commands, in lines as `wrapped_lines` makes them.

    Everything that does not print is escaped; a command is not broken between its words.
    """
    pieces: list[str] = []
    end = 0
    for match in _COMMAND.finditer(text):
        pieces += [safe_text(text[end : match.start()]), command_text(match[0]).replace(" ", _GLUE)]
        end = match.end()
    pieces.append(safe_text(text[end:]))
    return [line.replace(_GLUE, " ") for line in wrapped_lines("".join(pieces), width, first=first, indent=indent)]


def closed(text: str) -> str:
    """Return a text with a period at its end; after a command there is none, as it would be pasted with it."""
    ends = [match.end() for match in _COMMAND.finditer(text)]
    return text if len(text) in ends else f"{text}."


def wrapped_lines(text: str, width: int, *, first: str = "", indent: str = "    ") -> list[str]:
    """Return a text that prints in lines of at most `width` cells; words, and with them paths, are not broken.

    Args:
        text: one sentence or several.
        width: in terminal cells; at least 40 are used.
        first: what the first line begins with.
        indent: what all others begin with.
    """
    return wrap(
        text,
        max(width, _MIN_WIDTH),
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


SHOWN_FILES: Final = 10
SHOWN_COMMANDS: Final = 5
_INDENT: Final = " " * 8
_RANK: Final = {"info": 0, "warning": 1, "error": 2}
_STYLES: Final = {"error": "bold red", "warning": "yellow"}
_CAUSE: Final = "dir.interrupted"
_COMMON: Final = ("severity", "code", "message", "broker_action", "cure")


def finding_lines(findings: Iterable[Mapping[str, object]], width: int) -> list[Text]:
    """What was found, what a broker will do about it, the cure, and the files, in lines of at most `width` cells."""
    groups: dict[tuple[str, ...], list[Mapping[str, object]]] = {}
    for row in findings:
        groups.setdefault(tuple(str(row.get(name)) for name in _COMMON), []).append(row)
    lines: list[Text] = []
    for common, rows in sorted(groups.items(), key=_place):
        lines += _group_lines(dict(zip(_COMMON, common, strict=True)), rows, width)
    return lines


def _place(group: tuple[tuple[str, ...], object]) -> tuple[bool, int]:
    """The worst last, next to the verdict; but first of all what may be the cause of everything else."""
    common = dict(zip(_COMMON, group[0], strict=True))
    return common["code"] != _CAUSE, _RANK.get(common["severity"], 0)


def _group_lines(common: Mapping[str, str], rows: list[Mapping[str, object]], width: int) -> list[Text]:
    severity = common["severity"]
    lines = _wrapped(f"{severity.upper():<8}{common['code']}: {common['message']}", width, _STYLES.get(severity, ""))
    for label, name in (("a broker", "broker_action"), ("cure", "cure")):
        if rows[0].get(name):
            lines += _wrapped(f"{_INDENT}{label}: {common[name]}", width)
    commands = list(dict.fromkeys(command_text(row["next_command"]) for row in rows if row.get("next_command")))
    lines += [Text(f"{_INDENT}next: {command}", "bold") for command in commands[:SHOWN_COMMANDS]]
    lines += [Text(f"{_INDENT}{_where(row)}") for row in rows[:SHOWN_FILES]]
    if len(rows) > SHOWN_FILES:
        rest = count_of(len(rows) - SHOWN_FILES, "more file")
        lines.append(Text(f"{_INDENT}and {rest}; --output ndjson names them all"))
    return lines


def _wrapped(text: str, width: int, style: str = "") -> list[Text]:
    """A text in lines, all but the first below the indent."""
    return [Text(line, style) for line in sentence_lines(text, width, indent=_INDENT)]


def _where(row: Mapping[str, object]) -> str:
    position = row.get("position")
    return plain(row.get("file")) + ("" if position is None else f" at byte {position}")


_REFUSED: Final = 3
_NOT_ALL: Final = "not all of it could be read"


def verdict(summary: Mapping[str, object]) -> str:
    """`DAMAGE`, `ERRORS`, `warnings` or `clean`: the word that the sentence starts with."""
    severities = cast("dict[str, int]", summary.get("severities") or {})
    if severities.get("error"):
        return "DAMAGE" if summary.get("damage_count") else "ERRORS"
    return "warnings" if severities.get("warning") else "clean"


def summary_sentence(summary: Mapping[str, object]) -> str:
    """One line, without a line end."""
    parts = ["nothing is finished" if _is_nothing_finished(summary) else verdict(summary)]
    if summary.get("damage_count"):
        size_bytes = summary.get("damage_bytes")
        size = human_bytes(size_bytes) if size_bytes else "inside of whole batches"
        place = f"{count_of(summary['damage_count'], 'place')}, {size}"
        parts[0] += f" in {place}" if parts[0] == "DAMAGE" else f", but bytes that hold no batch in {place}"
    elif any(_is_part(summary, name) for name in ("files", "partitions", "bytes")):
        parts[0] += " in what was read"
    if summary.get("interrupted"):
        parts.insert(0, "interrupted")
    elif summary.get("no_answer"):  # no column: a search says it of itself
        parts.insert(0, "not found")
    elif summary.get("exit_status") == _REFUSED:
        parts.insert(0, _NOT_ALL)
    if summary.get("codes"):
        parts.append(counts_cell(summary["codes"]))
    parts += [f"{_counted(summary)}; {_read(summary)}; {count_of(summary.get('rows'), 'row')} shown"]
    parts.append(f"exit status {summary.get('exit_status')}")
    return " | ".join(parts)


def _is_nothing_finished(summary: Mapping[str, object]) -> bool:
    """Return whether a run was interrupted before it had looked at anything to its end."""
    known = ("files", "partitions", "severities", "damage_count")
    return bool(summary.get("interrupted")) and not any(summary.get(name) for name in known)


def _counted(summary: Mapping[str, object]) -> str:
    """`90 batches (not opened: damage inside of them is not noticed), 319 records`."""
    parts = []
    if summary.get("batches") is not None:
        parts.append(count_of(summary["batches"], "batch") + _unopened(summary))
    if summary.get("records") is not None:
        uncounted = summary.get("uncounted_batches")
        more = f" and those in {count_of(uncounted, 'compressed message')} that were not counted" if uncounted else ""
        parts.append(count_of(summary["records"], "record") + more)
    return ", ".join(parts)


def _unopened(summary: Mapping[str, object]) -> str:
    unopened = summary.get("unopened_batches")
    if not unopened:
        return ""
    which = "not opened" if unopened == summary.get("batches") else f"{unopened} not opened"
    return f" ({which}: what is damaged inside is not noticed)"


def _read(summary: Mapping[str, object]) -> str:
    """`12.0 MiB of 400.0 MiB of log read from 3 of 10 files in 1 of 40 partitions`; no files where none is finished."""
    size_bytes = cast("int", summary.get("bytes") or 0) + cast("int", summary.get("unfinished_bytes") or 0)
    read = f"{human_bytes(size_bytes)} of "
    if _is_part(summary, "bytes"):
        read += f"{human_bytes(summary.get('bytes_total'))} of "
    if not summary.get("files") and size_bytes:
        return f"{read}log read, no file to its end"
    read += f"log read from {_of_all(summary, 'files', 'file')}"
    if summary.get("partitions_total") or summary.get("partitions"):
        read += f" in {_of_all(summary, 'partitions', 'partition')}"
    return read


def _of_all(summary: Mapping[str, object], name: str, noun: str) -> str:
    if not _is_part(summary, name):
        return count_of(summary.get(name), noun)
    return f"{summary[name]} of {count_of(summary[f'{name}_total'], noun)}"


def _is_part(summary: Mapping[str, object], name: str) -> bool:
    """Whether there was more of it than was read."""
    read, total = summary.get(name), summary.get(f"{name}_total")
    return isinstance(read, int) and isinstance(total, int) and read < total


def verdict_sentence(summary: Mapping[str, object], states: Mapping[str, int]) -> str:
    """Return the last line of `verify`: what is wrong in how many partitions, what was found, how much was read.

    Args:
        summary: the `summary` row.
        states: how many partitions there are of each state of `ops.verify.rows.state_of`.
    """
    parts = [_judgement(summary, states)]
    if summary.get("exit_status") == _REFUSED:
        parts.insert(0, _NOT_ALL)
    elif summary.get("exit_status") not in {0, 4}:
        parts.insert(0, "interrupted" if summary.get("interrupted") else "not finished")
        parts[1] += "" if parts[1].startswith("no ") else " so far"
    if summary.get("damage_count") and not states.get("damaged"):
        size = human_bytes(summary.get("damage_bytes"))
        parts.append(f"{size} that hold no batch in {count_of(summary['damage_count'], 'place')}")
    severities = cast("dict[str, int]", summary.get("severities") or {})
    found = [count_of(severities[name], name) for name in ("error", "warning") if severities.get(name)]
    if found:
        parts.append(", ".join(found))
    read = f"{human_bytes(summary.get('bytes'))} of log in {count_of(summary.get('files'), 'file')}"
    parts.append(f"{read}, {_counted(summary)}")
    if summary.get("unchanged_bytes"):
        parts.append(f"{human_bytes(summary['unchanged_bytes'])} of it not read again")
    unfinished = cast("int", summary.get("unfinished_bytes") or 0)  # no column: only an interrupted run has it
    if unfinished:
        parts.append(f"{human_bytes(unfinished)} read of partitions that were not finished")
    parts.append(f"exit status {summary.get('exit_status')}")
    return " | ".join(parts)


def _judgement(summary: Mapping[str, object], states: Mapping[str, int]) -> str:
    """`DAMAGED: 1 of 4 partitions`, `warnings: 3 of 4 partitions without damage, 1 not read`."""
    word, damaged, total = verdict(summary), states.get("damaged", 0), sum(states.values())
    if damaged:
        text = f"DAMAGED: {damaged} of {count_of(total, 'partition')}"
        return text + (f", {states['unread']} not read" if states.get("unread") else "")
    if word in {"DAMAGE", "ERRORS"}:
        return f"ERRORS: {sound_partitions(summary, states)}" if total else "ERRORS"
    if not total:
        is_begun = summary.get("exit_status") in {0, 4} or word != "clean"
        return word if is_begun else "no partition is finished"
    return f"{word}: {sound_partitions(summary, states)}"


def sound_partitions(summary: Mapping[str, object], states: Mapping[str, int]) -> str:
    """Return how many partitions have no error: `4 partitions without damage`, `3 of 4 partitions ..., 1 not read`.

    Bytes that hold no batch and are no error, such as a preallocated tail, are not called damage, and their partitions
    are not called partitions without damage.
    """
    total, unread, damaged = sum(states.values()), states.get("unread", 0), states.get("damaged", 0)
    without = "without errors" if summary.get("damage_count") else "without damage"
    sound = total - unread - damaged
    text = f"{count_of(total, 'partition')} {without}" if sound == total else ""
    text = text or f"{sound} of {count_of(total, 'partition')} {without}"
    return f"{text}, {unread} not read" if unread else text


QUIET_SECONDS: Final = 1.0
_SHOWN: Final[list[ProgressBar]] = []


class ProgressBar:
    """Listens to an operation (`expect`, `advance`) and shows how far it is.

    Nothing appears where stderr is no terminal, nor where rows go to the same terminal and say it themselves.
    """

    def __init__(self, *, shares_terminal: bool) -> None:
        self._wanted = sys.__stderr__ is not None and sys.stderr.isatty() and not shares_terminal
        self._started_at = time.monotonic()
        self._bar: Progress | None = None
        self._expected_bytes = 0
        self._done_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the bar off the terminal for good."""
        self._wanted = False
        if self._bar is not None:
            _SHOWN.remove(self)
            self._bar.stop()
            self._bar = None

    def expect(self, size_bytes: int) -> None:
        """So many more bytes are to be read."""
        self._expected_bytes += size_bytes

    def advance(self, size_bytes: int) -> None:
        """So many more bytes have been read."""
        self._done_bytes += size_bytes
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done_bytes, total=self._expected_bytes or None)
        elif self._wanted and time.monotonic() - self._started_at > QUIET_SECONDS:
            self._start()

    def _start(self) -> None:
        from rich import console, progress  # noqa: PLC0415 - what takes less than a second does without

        self._bar = progress.Progress(
            progress.BarColumn(),
            progress.DownloadColumn(binary_units=True),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            console=console.Console(stderr=True),
            transient=True,
        )
        self._bar.add_task("read", total=self._expected_bytes or None, completed=self._done_bytes)
        self._bar.start()
        _SHOWN.append(self)


def end_progress() -> None:
    """Take the bar off the terminal: what follows is the end of the output, which a bar would overwrite."""
    for bar in _SHOWN:
        bar.stop()
