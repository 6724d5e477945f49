"""Tables on a terminal: columns, their widths, and the console that they are printed on."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from functools import cache
from textwrap import wrap
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from kafkalog_cli.render.cells import NONE, human_bytes, plain, span, time_cell
from kafkalog_cli.standard_streams import ReaderGoneError
from kafkalog_core.structs import Struct
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

__all__ = [
    "TableColumn",
    "TableLayout",
    "choose_layout",
    "count_column",
    "draws_blocks",
    "fitted",
    "fitted_words",
    "line_width",
    "more_line",
    "narrow_notes",
    "number_column",
    "open_console",
    "range_column",
    "sentence_column",
    "size_column",
    "table_lines",
    "time_column",
    "word_column",
]

PIPED_WIDTH: Final = 1_000_000
_GAP: Final = "  "
_GAP_SIZE: Final = 2
_MIN_FLEXIBLE_WIDTH: Final = 10
_MIN_SENTENCE_WIDTH: Final = 60
_ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"
_ZWJ: Final = "\N{ZERO WIDTH JOINER}"
_VS16: Final = "\N{VARIATION SELECTOR-16}"
_NARROW: Final = re.compile("[ -~\xa1-\xac\xae-\u02ff\u0370-\u0482]+")
"""Characters of Latin, Greek and Cyrillic that take one cell each."""


# --- columns ----------------------------------------------------------------------------------------------------------
class TableColumn(NamedTuple):
    """One column of a table.

    title: the heading.
    cell: returns the text of a row.
    right: whether the texts are right-aligned.
    flexible: whether a text may be cut to fit the line; texts of other columns are never cut.
    rank: on a narrow terminal columns are left out by rank, the highest first; those of rank 0 are always shown.
    has_words: whether a flexible column has sentences, which are cut between two words only.
    least: the smallest width of a flexible column, in terminal cells, unless its texts are shorter.
    """

    title: str
    cell: Callable[[Mapping[str, object]], str]
    right: bool = False
    flexible: bool = False
    rank: int = 0
    has_words: bool = False
    least: int = _MIN_FLEXIBLE_WIDTH


def number_column(title: str, name: str, rank: int = 0) -> TableColumn:
    """Return a column of an offset, an id or a position, without separators."""
    return TableColumn(title, lambda row: plain(row.get(name)), right=True, rank=rank)


def count_column(title: str, name: str, rank: int = 0) -> TableColumn:
    """Return a column of a count with thousands separators: `1,234`."""
    return TableColumn(
        title, lambda row: f"{row[name]:,}" if isinstance(row.get(name), int) else NONE, right=True, rank=rank
    )


def size_column(title: str, name: str, rank: int = 0) -> TableColumn:
    """Return a column of a size in bytes: `1.5 KiB`."""
    return TableColumn(title, lambda row: human_bytes(row.get(name)), right=True, rank=rank)


def time_column(title: str, name: str, rank: int = 0) -> TableColumn:
    """Return a column of a time in milliseconds, as ISO 8601 in UTC."""
    return TableColumn(title, lambda row: time_cell(row.get(name)), rank=rank)


def range_column(title: str, first: str, last: str, rank: int = 0) -> TableColumn:
    """Return a column of a range of offsets: `A..B`."""
    return TableColumn(title, lambda row: span(row.get(first), row.get(last)), right=True, rank=rank)


def word_column(title: str, name: str, rank: int = 0) -> TableColumn:
    """Return a column of a word or a name, which is never cut."""
    return TableColumn(title, lambda row: plain(row.get(name)), rank=rank)


def sentence_column(title: str, name: str, rank: int = 0) -> TableColumn:
    """Return a column of sentences, which are cut between two words to fit the line."""
    return TableColumn(title, lambda row: plain(row.get(name)), flexible=True, rank=rank, has_words=True)


# --- widths -----------------------------------------------------------------------------------------------------------
class TableLayout(Struct, frozen=True, kw_only=True):
    """The columns that fit on a line, and their widths.

    shown: all columns of the table.
    columns, widths: indexes of the columns that are shown, and their widths in terminal cells.
    empty: indexes of the columns that are left out because no row of the sample has anything in them.
    narrow: indexes of the columns that are left out because the line is too short.
    line_width: width of the line, in terminal cells.
    plan: for each column that is shown: index, width, whether it is right-aligned, whether it may be cut, whether it is
        the last one.
    """

    shown: Sequence[TableColumn]
    columns: tuple[int, ...]
    widths: tuple[int, ...]
    empty: tuple[int, ...]
    narrow: tuple[int, ...]
    line_width: int
    plan: tuple[tuple[int, int, bool, bool, bool], ...]

    @property
    def titles(self) -> list[str]:
        """The titles of all columns, shown or not."""
        return [column.title for column in self.shown]

    def hides(self, cells: Sequence[str]) -> bool:
        """Return whether a row has something in a column that was left out as empty, so that a new layout is needed."""
        return any(cells[index] != NONE for index in self.empty)

    def line(self, cells: Sequence[str]) -> str:
        """Return the line of a row. Only flexible columns are cut; the last column takes the rest of the line."""
        parts: list[str] = []
        used = 0
        for index, width, is_right, is_flexible, is_last in self.plan:
            text = cells[index]
            size = len(text) if text.isascii() else width + 1 if is_flexible else cell_len(text)
            if is_flexible and size > width:
                cut = fitted_words if self.shown[index].has_words else fitted
                text, size = cut(text, max(width, self.line_width - used) if is_last else width)
            if size < width:
                padding = " " * (width - size)
                text, size = padding + text if is_right else text + padding, width
            parts.append(text)
            used += size + _GAP_SIZE
        return _GAP.join(parts).rstrip()


def choose_layout(
    shown: Sequence[TableColumn],
    sample: Sequence[Sequence[str]],
    line_width: int,
    kept: Collection[str] = (),
) -> TableLayout:
    """Return the layout for a sample of rows, each with a text for every column of `shown`.

    `kept`: titles of the columns that are never left out, whatever their rank, because the user has asked for them;
    where they are empty, that is the answer, except for flexible ones.
    """
    indexes = range(len(shown))
    empty = [
        index
        for index in indexes
        if all(cells[index] == NONE for cells in sample) and (shown[index].title not in kept or shown[index].flexible)
    ]
    wanted = {
        index: max(cell_len(text) for text in (shown[index].title, *(cells[index] for cells in sample)))
        for index in indexes
        if index not in empty
    }
    narrow: list[int] = []
    while _least_width(shown, wanted) > line_width:
        ranks = {index: shown[index].rank for index in wanted if shown[index].title not in kept}
        candidate = max(ranks, key=ranks.__getitem__, default=None)
        if candidate is None or ranks[candidate] == 0:
            break
        del wanted[candidate]
        narrow.append(candidate)
    widths = _shared_out(shown, wanted, line_width)
    return TableLayout(
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


def _least_width(shown: Sequence[TableColumn], wanted: dict[int, int]) -> int:
    least = [min(width, _least(shown[index])) if shown[index].flexible else width for index, width in wanted.items()]
    return sum(least) + _GAP_SIZE * (len(least) - 1)


def _least(column: TableColumn) -> int:
    return _MIN_SENTENCE_WIDTH if column.has_words else column.least


def _shared_out(shown: Sequence[TableColumn], wanted: dict[int, int], line_width: int) -> dict[int, int]:
    """Return widths: fixed columns get what they need, small flexible ones too, large ones share the rest equally."""
    flexible = sorted((index for index in wanted if shown[index].flexible), key=lambda index: wanted[index])
    fixed_width = sum(width for index, width in wanted.items() if index not in flexible)
    room = line_width - fixed_width - _GAP_SIZE * (len(wanted) - 1)
    widths = dict(wanted)
    for number, index in enumerate(flexible):
        fair = max(_least(shown[index]), room // (len(flexible) - number))
        widths[index] = min(wanted[index], fair)
        room -= widths[index]
    return widths


def fitted(text: str, room: int) -> tuple[str, int]:
    """Return a text, cut if it takes more than `room` terminal cells, and the number of cells of the result.

    Only the part of the text that can be shown is measured.
    """
    if text.isascii():
        size = len(text)
        return (text, size) if size <= room else (text[: room - 1] + _ELLIPSIS, room)
    if _ZWJ in text or _VS16 in text:  # with them a text takes fewer cells than its characters do
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
            kept = kept if room > 1 else 0  # a character of no width would be drawn over the ellipsis
            return text[:kept] + " " * (room - 1 - kept_size) + _ELLIPSIS, room
    return text, size


def fitted_words(text: str, room: int) -> tuple[str, int]:
    """Return a sentence as `fitted` does, cut after a whole word; a first word without room is cut within it."""
    shown, size = fitted(text, room)
    head = shown.removesuffix(_ELLIPSIS).rstrip()
    if shown == text or text[len(head) :].startswith(" "):
        return shown, size
    words = head.rpartition(" ")[0].rstrip(" ,;:")
    return (words + _ELLIPSIS, cell_len(words) + 1) if words else (shown, size)


@cache
def _cells(character: str) -> int:
    return cell_len(character)


# --- tables -----------------------------------------------------------------------------------------------------------
def table_lines(
    columns: Sequence[TableColumn],
    rows: Sequence[Mapping[str, object]],
    width: int,
    *,
    noun: str = "row",
    most: int | None = None,
    count: int | None = None,
    style_of: Callable[[Mapping[str, object]], str] = lambda _: "",
    below: Callable[[Mapping[str, object]], Sequence[Text]] = lambda _: (),
) -> list[Text]:
    """Return a table after an empty line; nothing if there are no rows.

    Args:
        columns: the columns.
        rows: the rows.
        width: width of the terminal, in cells.
        noun: what a row is, for the line about rows that are not shown.
        most: number of rows that are shown at most; None: all of them.
        count: number of all rows, where `rows` are only the first ones.
        style_of: gives the style of a row.
        below: gives the lines below a row.
    """
    shown = rows if most is None else rows[:most]
    if not shown:
        return []
    cells = [[column.cell(row) for column in columns] for row in shown]
    layout = choose_layout(columns, cells, width)
    lines = [Text(), Text(layout.line(layout.titles), "bold underline")]
    for row, texts in zip(shown, cells, strict=True):
        lines += [Text(layout.line(texts), style_of(row)), *below(row)]
    lines += more_line((len(rows) if count is None else count) - len(shown), noun)
    return lines + [Text(note, "dim") for note in narrow_notes(layout)]


def narrow_notes(layout: TableLayout) -> list[str]:
    """Return the lines below a table that name the columns for which it is too narrow; nothing if there are none."""
    if not layout.narrow:
        return []
    left_out = ", ".join(layout.titles[index] for index in layout.narrow)
    return wrap(f"(no room for: {left_out}; a wider terminal or --output ndjson has them)", layout.line_width)


def more_line(count: int, noun: str) -> list[Text]:
    """Return the line about `count` rows or findings that are not shown; nothing if there are none."""
    if count <= 0:
        return []
    return [Text(f"... and {count_of(count, f'more {noun}')}: --output ndjson has them all", "bold")]


# --- console ----------------------------------------------------------------------------------------------------------
class _Console(Console):
    """rich's console, which leaves it to the command what it does without a reader."""

    def on_broken_pipe(self) -> NoReturn:
        raise ReaderGoneError


def open_console() -> Console:
    """Return standard output as a console, whose lines are not broken if it is not a terminal.

    Characters that the encoding of standard output lacks are escaped.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    console = _Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    console.width = line_width(is_terminal=console.is_terminal)
    return console


def line_width(*, is_terminal: bool | None = None) -> int:
    """Return the width of the lines of standard output: COLUMNS, else that of the terminal; a pipe breaks no line.

    `is_terminal`: whether it counts as a terminal; None: whether it is one.
    """
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    counts = sys.stdout.isatty() if is_terminal is None else is_terminal
    return shutil.get_terminal_size().columns if counts else PIPED_WIDTH


def draws_blocks(console: Console) -> bool:
    """Return whether the console shows block characters; ASCII pictures replace them elsewhere."""
    return console.encoding.lower().replace("-", "") == "utf8"
