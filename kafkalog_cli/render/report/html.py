"""Elements of an HTML page: whatever is not markup already is escaped, so that no name from a disk can become any."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Final

from kafkalog_cli.render.cells import NONE, safe_text, time_cell

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Html", "element", "join", "moment", "number", "text"]

LONGEST_TEXT: Final = 2000
_VOID: Final = frozenset({"meta", "input", "br"})


class Html(str):
    """Markup, as against text."""

    __slots__ = ()


def text(value: object) -> Html:
    """A value as text: what does not print and what HTML would take for markup is escaped; a very long one is cut."""
    if isinstance(value, Html):
        return value
    shown = str(value)
    if len(shown) > LONGEST_TEXT:
        shown = shown[:LONGEST_TEXT] + "..."
    return Html(html.escape(safe_text(shown)))


def join(children: Iterable[object]) -> Html:
    """Children one behind the other; null is nothing."""
    return Html("".join(text(child) for child in children if child is not None))


def element(name: str, /, *children: object, **attributes: object) -> Html:
    """One element.

    Attributes: a trailing underscore is dropped, others become dashes; null and false leave the attribute out, true
    gives it no value.
    """
    opened = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{opened}>")
    return Html(f"<{name}{opened}>{join(children)}</{name}>")


def number(value: object) -> str:
    """`1,234`, or a dash where it is not known."""
    return f"{value:,}" if isinstance(value, int) else NONE


def moment(time_ms: object) -> str:
    """A time to the second, UTC, where nobody needs it closer: `2023-11-14 22:13:20`."""
    return time_cell(time_ms).replace("T", " ").partition(".")[0]


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{text(f"{value:.1f}" if isinstance(value, float) else value)}"'
