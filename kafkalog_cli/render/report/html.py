"""Elements of an HTML page. Everything that is not markup already is escaped: no name on a disk can become markup."""

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
    """A text that is markup already."""

    __slots__ = ()


def text(value: object) -> Html:
    """Return a value as text: unprintable characters and HTML markup are escaped, a very long text is cut."""
    if isinstance(value, Html):
        return value
    shown = str(value)
    if len(shown) > LONGEST_TEXT:
        shown = shown[:LONGEST_TEXT] + "..."
    return Html(html.escape(safe_text(shown)))


def join(children: Iterable[object]) -> Html:
    """Return the children one after the other, without those that are None."""
    return Html("".join(text(child) for child in children if child is not None))


def element(name: str, /, *children: object, **attributes: object) -> Html:
    """Return one element.

    Names of attributes: a trailing underscore is dropped, other underscores become dashes. An attribute of None or
    False is left out, one of True has no value.
    """
    opened = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{opened}>")
    return Html(f"<{name}{opened}>{join(children)}</{name}>")


def number(value: object) -> str:
    """Return a number as `1,234`; a dash if it is None."""
    return f"{value:,}" if isinstance(value, int) else NONE


def moment(time_ms: object) -> str:
    """Return a time in UTC to the second: `2023-11-14 22:13:20`."""
    return time_cell(time_ms).replace("T", " ").partition(".")[0]


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{text(f"{value:.1f}" if isinstance(value, float) else value)}"'
