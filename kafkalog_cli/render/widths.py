"""Column widths of a table that streams: chosen from the first rows, then kept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size

from kafkalog_cli.render.cells import NONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_cli.render.columns import Shown

__all__ = ["Layout", "choose_layout", "fitted"]

GAP: Final = "  "
MIN_FLEXIBLE_WIDTH: Final = 12
_ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"
_ZWJ: Final = "\N{ZERO WIDTH JOINER}"
_VS16: Final = "\N{VARIATION SELECTOR-16}"
_NARROW: Final = re.compile("[ -~\xa1-\xac\xae-\u02ff\u0370-\u0482]+")
"""Characters of Latin, Greek and Cyrillic that take one cell each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """`columns` are the indexes that are shown, `widths` theirs in terminal cells.

    `plan` has what a line needs of each: index, width, whether it is right-aligned, may be cut, and is the last.
    `empty` are left out because no row of the sample has anything in them, `narrow` because the line is too short.
    """

    shown: Sequence[Shown]
    columns: tuple[int, ...]
    widths: tuple[int, ...]
    empty: tuple[int, ...]
    narrow: tuple[int, ...]
    line_width: int
    plan: tuple[tuple[int, int, bool, bool, bool], ...]

    @property
    def titles(self) -> list[str]:
        """Titles of all columns, shown or not."""
        return [column.title for column in self.shown]

    def hides(self, cells: Sequence[str]) -> bool:
        """Whether a row has something in a column that was left out as empty, so that a new layout is due."""
        return any(cells[index] != NONE for index in self.empty)

    def line(self, cells: Sequence[str]) -> str:
        """One row. Only flexible columns are cut; the last column takes what is left of the line."""
        parts: list[str] = []
        used = 0
        for index, width, is_right, is_flexible, is_last in self.plan:
            text = cells[index]
            size = len(text) if text.isascii() else width + 1 if is_flexible else cell_len(text)
            if is_flexible and size > width:
                text, size = fitted(text, max(width, self.line_width - used) if is_last else width)
            if size < width:
                padding = " " * (width - size)
                text, size = padding + text if is_right else text + padding, width
            parts.append(text)
            used += size + len(GAP)
        return GAP.join(parts).rstrip()


def choose_layout(shown: Sequence[Shown], sample: Sequence[Sequence[str]], line_width: int) -> Layout:
    """Widths for a sample of rows, each a text for every column of `shown`."""
    indexes = range(len(shown))
    empty = [index for index in indexes if all(cells[index] == NONE for cells in sample)]
    wanted = {
        index: max(cell_len(text) for text in (shown[index].title, *(cells[index] for cells in sample)))
        for index in indexes
        if index not in empty
    }
    narrow: list[int] = []
    while _least_width(shown, wanted) > line_width:
        candidate = max(wanted, key=lambda index: shown[index].rank)
        if shown[candidate].rank == 0:
            break
        del wanted[candidate]
        narrow.append(candidate)
    widths = _shared_out(shown, wanted, line_width)
    return Layout(
        shown=shown,
        columns=tuple(wanted),
        widths=tuple(widths[index] for index in wanted),
        empty=tuple(empty),
        narrow=tuple(sorted(narrow)),
        line_width=line_width,
        plan=tuple(
            (index, widths[index], shown[index].right, shown[index].flexible, index == max(wanted)) for index in wanted
        ),
    )


def _least_width(shown: Sequence[Shown], wanted: dict[int, int]) -> int:
    least = [min(width, MIN_FLEXIBLE_WIDTH) if shown[index].flexible else width for index, width in wanted.items()]
    return sum(least) + len(GAP) * (len(least) - 1)


def _shared_out(shown: Sequence[Shown], wanted: dict[int, int], line_width: int) -> dict[int, int]:
    """Give the flexible columns what the others leave: small ones what they want, the rest in equal parts."""
    flexible = sorted((index for index in wanted if shown[index].flexible), key=lambda index: wanted[index])
    fixed_width = sum(width for index, width in wanted.items() if index not in flexible)
    room = line_width - fixed_width - len(GAP) * (len(wanted) - 1)
    widths = dict(wanted)
    for number, index in enumerate(flexible):
        fair = max(MIN_FLEXIBLE_WIDTH, room // (len(flexible) - number))
        widths[index] = min(wanted[index], fair)
        room -= widths[index]
    return widths


def fitted(text: str, room: int) -> tuple[str, int]:
    """Return a text, cut where it takes more than `room` terminal cells, and the number of cells that it takes then.

    No more of the text is measured than can be shown.
    """
    if text.isascii():
        size = len(text)
        return (text, size) if size <= room else (text[: room - 1] + _ELLIPSIS, room)
    if _ZWJ in text or _VS16 in text:  # they make the cells of a text others than those of its characters
        size = cell_len(text)
        return (text, size) if size <= room else (set_cell_size(text, room - 1) + _ELLIPSIS, room)
    size = kept = kept_size = end = 0
    while end < len(text):
        start, before = end, size
        run = _NARROW.match(text, start, start + room + 1 - before)
        end = start + 1 if run is None else run.end()
        size = before + (_cells(text[start]) if run is None else end - start)
        if size < room:
            kept, kept_size = end, size
        elif run is not None and before < room:
            kept, kept_size = start + room - 1 - before, room - 1
        if size > room:
            return text[:kept] + " " * (room - 1 - kept_size) + _ELLIPSIS, room
    return text, size


@cache
def _cells(character: str) -> int:
    return cell_len(character)
