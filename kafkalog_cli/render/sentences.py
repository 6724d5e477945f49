"""Sentences in lines of a given width; a command in a sentence is not broken, so that it can be pasted."""

from __future__ import annotations

import re
from textwrap import wrap
from typing import Final

from kafkalog_cli.render.cells import safe_text

__all__ = ["closed", "command_text", "sentence_lines", "wrapped_lines"]

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
