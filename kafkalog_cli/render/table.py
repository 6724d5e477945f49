"""Column widths of a table that streams: chosen from the first rows, then kept."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, cast

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from kafkalog_cli.render.cells import NONE, human_bytes, place_of, plain, safe_text, span, time_cell
from kafkalog_cli.render.columns import DAMAGE_STYLE, SHOWN, column_cells, heading_of, kind_of, partition_of, row_style
from kafkalog_cli.render.text import finding_lines, summary_sentence, verdict
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_cli.render.columns import Shown
    from kafkalog_cli.render.lines import Settings
    from kafkalog_core.rows.chunk import Chunk

__all__ = ["VERDICT_STYLES", "Layout", "TableWriter", "choose_layout", "fitted", "open_console", "stats_lines"]


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


BAR_WIDTH: Final = 30
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def stats_lines(row: Mapping[str, object], encoding: str) -> list[Text]:
    """One block: a bold heading, the figures, then a chart for each spread that has anything in it."""
    solid = encoding.lower().replace("-", "") == "utf8"
    lines = [Text(), Text(place_of(row) or "(no partition)", "bold cyan")]
    unread = row.get("unread_segments")
    if unread:
        of_all = f"{unread} of {count_of(row.get('segments'), 'segment')} could not be read"
        lines.append(
            Text(f"  {of_all}{'' if row.get('batches') is None else '; the figures are of the rest'}", "bold red")
        )
    if row.get("batches") is None:
        return lines
    read = ", ".join(count_of(row.get(f"{name}s"), name) for name in ("segment", "record"))
    lines.append(Text(f"  {read}, {count_of(row.get('batches'), 'batch')}, {human_bytes(row.get('bytes'))}"))
    lines.append(Text(f"  offsets  {span(row.get('first_offset'), row.get('last_offset'))}"))
    if row.get("max_timestamp_ms") is not None:
        times = f"{time_cell(row.get('min_base_timestamp_ms'))} to {time_cell(row['max_timestamp_ms'])}"
        lines.append(Text(f"  times    {times}"))
    if row.get("control_records") or row.get("transactional_records"):
        transactional, control = (
            row.get("transactional_records"),
            count_of(row.get("control_records"), "control record"),
        )
        lines.append(Text(f"  transactions  {count_of(transactional, 'record')} in them, {control}"))
    if row.get("damage_count"):
        place = count_of(row["damage_count"], "place")
        lines.append(Text(f"  DAMAGE in {place}, {human_bytes(row.get('damage_bytes'))}", "bold red"))
    lines += _chart("batches by format", row.get("formats"), solid=solid)
    lines += _chart("batches by codec", row.get("codecs"), solid=solid)
    lines += _chart("bytes by codec", row.get("codec_bytes"), solid=solid, sizes=True)
    lines += _chart("batches by size, up to", row.get("batch_sizes"), solid=solid, size_names=True)
    producers = f"records by producer id ({count_of(row.get('producer_count'), 'producer')})"
    lines += _chart(producers, row.get("producers"), solid=solid)
    return lines


def _chart(title: str, counts: object, *, solid: bool, sizes: bool = False, size_names: bool = False) -> list[Text]:
    spread = cast("dict[str, int]", counts or {})
    if not spread:
        return []
    names = [human_bytes(int(name)) if size_names else safe_text(str(name)) for name in spread]
    figures = [human_bytes(count) if sizes else str(count) for count in spread.values()]
    name_width, figure_width = max(map(len, names)), max(map(len, figures))
    largest, total = max(spread.values()), sum(spread.values())
    lines = [Text(f"  {title}", "bold")]
    for name, figure, count in zip(names, figures, spread.values(), strict=True):
        share = f"{100 * count / total:5.1f} %" if total else ""
        line = Text(f"    {name:>{name_width}}  {figure:>{figure_width}}  {share}  ")
        line.append(_bar(count, largest, solid=solid), "cyan")
        lines.append(line)
    return lines


def _bar(count: int, largest: int, *, solid: bool) -> str:
    """A bar of up to `BAR_WIDTH` cells; anything above zero shows."""
    if count <= 0 or largest <= 0:
        return ""
    if not solid:
        return "#" * max(1, round(count / largest * BAR_WIDTH))
    eighths = max(1, round(count / largest * BAR_WIDTH * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


SAMPLE_ROWS: Final = 200
MAX_WAIT_SECONDS: Final = 0.5
KEPT_FINDINGS: Final = 1000
PIPED_WIDTH: Final = 160
_PLACE: Final = "text"
VERDICT_STYLES: Final = {
    "DAMAGE": DAMAGE_STYLE,
    "ERRORS": DAMAGE_STYLE,
    "warnings": "yellow",
    "clean": "green",
}


class _Line(NamedTuple):
    """A row made ready: its cells, or one text for a line that keeps to no columns."""

    heading: str
    cells: Sequence[str]
    style: str = ""
    text: str | None = None


class _Console(Console):
    """rich's console, which leaves a broken pipe to `main`."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


class TableWriter:
    """Rows in columns below the place that they come from, findings below them, the summary last."""

    def __init__(self, settings: Settings) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        self._console = open_console()
        self._settings = settings
        self._kind = ""
        self._layout: Layout | None = None
        self._heading = ""
        self._pending: list[_Line] = []
        self._pending_since = 0.0
        self._findings: list[Mapping[str, object]] = []
        self._finding_count = 0
        self._marks: dict[str, tuple[str, str]] = {}

    def write(self, chunk: Chunk) -> None:
        """Take the rows; they appear as soon as their widths are known."""
        take = {"damage": self._take_damage, "finding": self._take_finding, "stats": self._take_stats}
        cells = column_cells(chunk)
        if cells is not None:
            self._take_cells(chunk, cells)
        else:
            taken = take.get(chunk.table.name, self._take_row)
            for row in chunk.row_views():
                taken(row)
        if self._layout is not None or self._settings.live or self._has_waited():
            self._flush()
        if self._settings.live:
            self._console.file.flush()

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show what is pending, the findings and the summary."""
        self._flush()
        if self._findings:
            self._print(Text(), Text("Findings", "bold"))
            self._print(*finding_lines(self._findings, self._console.width))
        if self._finding_count > len(self._findings) and not self._settings.live:
            rest = self._finding_count - len(self._findings)
            self._print(Text(f"... and {count_of(rest, 'more finding')}: --output ndjson has all of them", "bold"))
        self._print(Text(), Text(summary_sentence(summary), VERDICT_STYLES[verdict(summary)]))

    def _take_cells(self, chunk: Chunk, rows: Iterator[tuple[Sequence[str], str]]) -> None:
        """Rows of one file, as cells."""
        self._begin(chunk.table.name)
        heading = ""
        for cells, style in rows:
            heading = heading or heading_of(next(chunk.row_views()))
            self._fit(cells)
            self._add(_Line(heading, cells, style))

    def _begin(self, kind: str) -> None:
        """Rows of a kind follow: those of another one have other columns."""
        if kind != self._kind:
            self._flush()
            self._kind, self._layout = kind, None

    def _fit(self, cells: Sequence[str]) -> None:
        """A row that has something in a column which was left out as empty wants new columns."""
        if self._layout is not None and self._layout.empty and self._layout.hides(cells):
            self._flush()
            self._layout = None

    def _take_stats(self, row: Mapping[str, object]) -> None:
        self._flush()
        self._print(*stats_lines(row, self._console.encoding))

    def _take_row(self, row: Mapping[str, object]) -> None:
        kind = kind_of(row)
        self._begin(kind)
        cells = [column.cell(row) for column in SHOWN[kind]]
        self._fit(cells)
        self._add(_Line(heading_of(row), cells, row_style(row)))
        for text in _texts_below(row):
            self._add(_Line(heading_of(row), (), "dim", text))

    def _take_damage(self, row: Mapping[str, object]) -> None:
        """Damage stands where it was met: among the rows of its file, or among the segments of its partition."""
        by_partition = self._settings.tables[0].name == "segment"
        heading = partition_of(row) if by_partition else heading_of(row)
        style = "" if row.get("severity") == "info" else DAMAGE_STYLE
        self._add(_Line(heading, (), style, damage_text(row, names_file=by_partition)))

    def _take_finding(self, row: Mapping[str, object]) -> None:
        self._finding_count += 1
        if self._settings.live:
            self._print(*finding_lines([row], self._console.width))
        elif len(self._findings) < KEPT_FINDINGS:
            self._findings.append(row)

    def _add(self, line: _Line) -> None:
        if not self._pending:
            self._pending_since = time.monotonic()
        self._pending.append(line)
        if len(self._pending) >= SAMPLE_ROWS:
            self._flush()

    def _has_waited(self) -> bool:
        """Whether rows have been held back for so long that somebody may be waiting for them."""
        return bool(self._pending) and time.monotonic() - self._pending_since > MAX_WAIT_SECONDS

    def _flush(self) -> None:
        """Write what is pending, columns' titles first where the widths are new."""
        lines, self._pending = self._pending, []
        sample = [line.cells for line in lines if line.text is None]
        texts: list[str] = []
        if self._layout is None and sample:
            self._layout = choose_layout(SHOWN[self._kind], sample, self._console.width)
            texts.append("")
            self._put_heading(lines[0], texts)
            texts += [self._styled(text, style) for text, style in _title_lines(self._layout)]
        for line in lines:
            self._put_heading(line, texts)
            text = line.text
            if text is None and self._layout is not None:
                text = self._layout.line(line.cells)
            if text is not None:
                texts.append(self._styled(text, line.style) if line.style else text)
        if texts:
            texts.append("")
            self._console.file.write("\n".join(texts))  # by rich a line costs more than all else that is done for it

    def _put_heading(self, line: _Line, texts: list[str]) -> None:
        """The place that the line comes from, where it is another than that of the line before."""
        if line.heading != self._heading:
            self._heading = line.heading
            texts.append(self._styled(line.heading, "bold cyan"))

    def _styled(self, text: str, style: str) -> str:
        """The text in the style as this terminal, or no terminal, wants it; rich is asked once for each style."""
        if style not in self._marks:
            with self._console.capture() as capture:
                self._console.print(Text(_PLACE, style), end="", soft_wrap=True)
            before, _, after = capture.get().partition(_PLACE)
            self._marks[style] = (before, after)
        before, after = self._marks[style]
        return f"{before}{text}{after}" if text else text

    def _print(self, *texts: Text) -> None:
        if texts:
            self._console.print(*texts, sep="\n", soft_wrap=True)


def damage_text(row: Mapping[str, object], *, names_file: bool = False) -> str:
    """One damaged place as a line that starts with the word."""
    word = "-- harmless" if row.get("severity") == "info" else "!! DAMAGE"
    text = f"{word} {plain(row.get('reason'))} at byte {plain(row.get('position'))}"
    text += f" of {plain(row.get('segment'))}" if names_file else ""
    size = human_bytes(row.get("size_bytes")) if row.get("size_bytes") != 0 else "in a whole batch"
    text += f", {size}: {plain(row.get('detail'))}"
    if row.get("next_offset") is not None and row.get("size_bytes") != 0:
        text += f" (next offset expected: {row['next_offset']})"
    return text


def _texts_below(row: Mapping[str, object]) -> list[str]:
    """What a search says of its answer, and its steps, a line each."""
    if row.get("type") != "seek":
        return []
    texts = [] if row.get("detail") is None else [f"  {plain(row['detail'])}"]
    steps = row.get("steps")
    if isinstance(steps, list):
        texts += [f"  {number}. {safe_text(step['text'])}" for number, step in enumerate(steps, 1)]
    return texts


def _title_lines(layout: Layout) -> list[tuple[str, str]]:
    """Lines above a table, and their styles."""
    lines = [(layout.line(layout.titles), "bold underline")]
    if layout.narrow:
        left_out = ", ".join(layout.titles[index] for index in layout.narrow)
        lines.append((f"(the line is too short for: {left_out}; --output ndjson has everything)", "dim"))
    return lines


def open_console() -> Console:
    """Standard output as a console, 160 columns wide where it is no terminal."""
    console = _Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    columns = os.environ.get("COLUMNS", "")
    if not columns.isdecimal() or int(columns) == 0:
        console.width = shutil.get_terminal_size().columns if console.is_terminal else PIPED_WIDTH
    return console
