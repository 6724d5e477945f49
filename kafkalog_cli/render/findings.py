"""Findings for people: those that differ only in the file stand together; the worst come last, next to the summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.cells import plain
from kafkalog_cli.render.sentences import command_text, sentence_lines
from kafkalog_core.words import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["finding_lines"]

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
