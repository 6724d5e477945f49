"""A log along the time: what goes, what stays, the limit and now, in one line of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rich.text import Text

from kafkalog_cli.render.cells import time_cell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.ops.retention.forecast import Fate, Forecast

__all__ = ["timeline"]

MAX_CELLS: Final = 100
MIN_CELLS: Final = 24
_INDENT: Final = "    "
_AHEAD: Final = 4
"""Of what lies ahead of now a part is shown as long as this part of what lies behind."""
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
    times = [fate.segment.largest_timestamp_ms for fate in fates]
    limit_ms = _limit(forecast)
    marks = [now_ms] if limit_ms is None or limit_ms < min(times) - (max(times) - min(times)) else [limit_ms, now_ms]
    cells = max(MIN_CELLS, min(MAX_CELLS, width - len(_INDENT) - 2))
    first_ms, last_ms = min(*times, *marks), max(*times, *marks)
    near_ms = now_ms + (now_ms - first_ms) // _AHEAD
    axis = _Axis(first_ms, min(last_ms, near_ms), cells)
    kinds = _kinds(fates, axis)
    signs = _signs(is_solid)
    line = Text(f"{_INDENT}{'▕' if is_solid else '['}")
    for kind in kinds:
        line.append(signs.get(kind, "·" if is_solid else "."), _STYLES.get(kind, "dim"))
    line.append("▏" if is_solid else "]")
    if last_ms > near_ms:
        line.append(f" and on to {time_cell(last_ms)}", "yellow")
    return [line, *_scale(axis, limit_ms if len(marks) > 1 else None, now_ms), _legend(kinds, signs)]


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


def _scale(axis: _Axis, limit_ms: int | None, now_ms: int) -> list[Text]:
    """Marks below the line, and a line for each of them."""
    marks = {axis.cell(now_ms): "now"} if limit_ms is None else {axis.cell(limit_ms): "limit", axis.cell(now_ms): "now"}
    row = [" "] * axis.cells
    for cell in marks:
        row[cell] = "^"
    told = [] if limit_ms is None else [f"limit {time_cell(limit_ms)}: what is older is due"]
    told = [f"from {time_cell(axis.first_ms)} to {time_cell(axis.last_ms)}", *told, f"now {time_cell(now_ms)}"]
    return [Text(f"{_INDENT} {''.join(row).rstrip()}"), Text(f"{_INDENT}{', '.join(told)}", "dim")]


def _signs(is_solid: bool) -> dict[str, str]:
    if is_solid:
        return {"delete": "░", "keep": "█", "active": "▓", "unknown": "▒"}
    return {"delete": "x", "keep": "#", "active": "+", "unknown": "?"}


def _legend(kinds: Sequence[str], signs: dict[str, str]) -> Text:
    line = Text(_INDENT)
    for kind, sign in signs.items():
        if kind in kinds:
            line.append(f"{sign} ", _STYLES[kind]).append(f"{_WORDS[kind]}   ", "dim")
    return line
