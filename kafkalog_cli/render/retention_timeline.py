"""A log along the time: what goes, what stays, the limit and now, in one line of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rich.text import Text

from kafkalog_cli.render.cells import time_cell
from kafkalog_core.words import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.ops.retention.forecast import Fate, Forecast

__all__ = ["timeline"]

MAX_CELLS: Final = 100
MIN_CELLS: Final = 24
_INDENT: Final = "    "
_AHEAD: Final = 4
"""Of what lies ahead of now a part is shown as long as this part of what lies behind."""
_NEAR: Final = 3
"""So many times as far from the log as it is long a mark may lie."""
_STYLES: Final = {"delete": "red", "keep": "green", "unknown": "yellow", "active": "cyan"}
_ORDER: Final = ("delete", "unknown", "active", "keep")
_WORDS: Final = {"delete": "goes", "keep": "stays", "active": "active segment", "unknown": "remote storage decides"}


class _Axis(NamedTuple):
    """From where to where, in how many cells."""

    first_ms: int
    last_ms: int
    cells: int

    def cell(self, time_ms: int) -> int:
        """Where a time is."""
        span = max(1, self.last_ms - self.first_ms)
        return min(self.cells - 1, max(0, (time_ms - self.first_ms) * self.cells // (span + 1)))


def timeline(forecast: Forecast, width: int, *, is_solid: bool) -> list[Text]:
    """The picture and its legend; nothing for a log without records.

    Args:
        forecast: what is shown.
        width: of the terminal.
        is_solid: whether it shows blocks; else letters.
    """
    fates = [fate for fate in forecast.fates if fate.segment.size_bytes]
    if not fates:
        return []
    now_ms = forecast.question.now_ms
    axis, marks = _axis(fates, _limit(forecast), now_ms, max(MIN_CELLS, min(MAX_CELLS, width - len(_INDENT) - 2)))
    kinds = _kinds(fates, axis)
    signs = _signs(is_solid)
    line = Text(f"{_INDENT}{'▕' if is_solid else '['}")
    for kind in kinds:
        line.append(signs.get(kind, "·" if is_solid else "."), _STYLES.get(kind, "dim"))
    line.append("▏" if is_solid else "]")
    last_ms = max(fate.segment.largest_timestamp_ms for fate in fates)
    if last_ms > axis.last_ms:
        line.append(f" and on to {time_cell(last_ms)}", "yellow")
    return [line, *_scale(axis, marks, now_ms), _legend(kinds, signs)]


def _axis(fates: Sequence[Fate], limit_ms: int | None, now_ms: int, cells: int) -> tuple[_Axis, dict[str, int]]:
    """From where to where, and which marks lie there: those that are not so far off that the log would be a dot."""
    times = [fate.segment.largest_timestamp_ms for fate in fates]
    first_ms, last_ms = min(times), max(times)
    span = max(1, min(last_ms, max(now_ms, first_ms)) - first_ms)
    marks = {"now": now_ms} if limit_ms is None else {"limit": limit_ms, "now": now_ms}
    marks = {name: mark for name, mark in marks.items() if first_ms - span <= mark <= last_ms + _NEAR * span}
    first_ms, last_ms = min(first_ms, *marks.values(), first_ms), max(last_ms, *marks.values(), last_ms)
    if first_ms < now_ms:
        last_ms = min(last_ms, max(now_ms + (now_ms - first_ms) // _AHEAD, first_ms + 1))
    return _Axis(first_ms, last_ms, cells), marks


def _limit(forecast: Forecast) -> int | None:
    """Up to where time deletes; null: it does not."""
    rules = forecast.question.rules
    if "time" not in rules.passes or rules.retention_ms < 0:
        return None
    return forecast.question.now_ms - rules.retention_ms


def _kinds(fates: Sequence[Fate], axis: _Axis) -> list[str]:
    """What stands in each cell, of the segments whose times are there."""
    kinds = [""] * axis.cells
    before_ms = fates[0].segment.largest_timestamp_ms
    for fate in fates:
        largest_ms = fate.segment.largest_timestamp_ms
        kind = "active" if fate.segment.is_active and fate.verdict == "keep" else fate.verdict
        first = min(axis.cell(largest_ms), axis.cell(min(before_ms, largest_ms)) + (before_ms < largest_ms))
        for cell in range(first, axis.cell(largest_ms) + 1):
            kinds[cell] = _first_of(kinds[cell], kind)
        before_ms = largest_ms
    return kinds


def _first_of(there: str, kind: str) -> str:
    """What is shown of two in one cell: what goes, before what stays."""
    return there if there and _ORDER.index(there) < _ORDER.index(kind) else kind


def _scale(axis: _Axis, marks: dict[str, int], now_ms: int) -> list[Text]:
    """Marks below the line, and what they are."""
    row = [" "] * axis.cells
    for mark in marks.values():
        row[axis.cell(mark)] = "^"
    limit = f", limit {time_cell(marks['limit'])}" if "limit" in marks else ""
    far = "" if "now" in marks else f", {duration(now_ms - axis.last_ms)} further on"
    told = [
        f"from {time_cell(axis.first_ms)} to {time_cell(axis.last_ms)}",
        f"now {time_cell(now_ms)}{far}{limit}",
    ]
    lines = [Text(f"{_INDENT} {''.join(row).rstrip()}")] if marks else []
    return [*lines, *(Text(f"{_INDENT}{text}", "dim") for text in told)]


def _signs(is_solid: bool) -> dict[str, str]:
    if is_solid:
        return {"delete": "░", "keep": "█", "active": "▓", "unknown": "▒"}
    return {"delete": "x", "keep": "#", "active": "+", "unknown": "?"}


def _legend(kinds: Sequence[str], signs: dict[str, str]) -> Text:
    line = Text()
    for kind, sign in signs.items():
        if kind in kinds:
            line.append("   " if line else _INDENT).append(f"{sign} ", _STYLES[kind]).append(_WORDS[kind], "dim")
    return line
