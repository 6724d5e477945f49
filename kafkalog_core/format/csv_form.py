r"""CSV as all output has it (RFC 4180): what a field looks like.

A null is an empty field, an empty text is `""`; lists and maps are JSON text. CSV cannot escape, and a terminal obeys
control characters: but for tab, LF and CR they stand as `\u001b`. Of a key or value they would not be the bytes that
were meant: one that has any counts as no text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.json_form import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["csv_field", "csv_line", "csv_text", "has_controls", "needs_quotes"]

_NEEDS_QUOTES: Final = frozenset(',"\r\n')
_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def csv_field(value: object) -> str:
    """One value as a field."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = _CONTROLS.sub(_escaped, value) if isinstance(value, str) else json_text(value)
    return f'"{csv_text(text)}"' if text == "" or needs_quotes(text) else text


def needs_quotes(text: str) -> bool:
    """Whether a text would end its field or its line."""
    return not _NEEDS_QUOTES.isdisjoint(text)


def csv_text(text: str) -> str:
    """A text, or a part of one, as it is written between quotes."""
    return text.replace('"', '""')


def csv_line(fields: Iterable[str]) -> bytes:
    """Fields as a line; file names that are no UTF-8 come with lone surrogates in them."""
    return (",".join(fields) + "\r\n").encode("utf-8", "backslashreplace")


def has_controls(text: str) -> bool:
    """Whether a text has control characters that a terminal would obey."""
    return _CONTROLS.search(text) is not None


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
