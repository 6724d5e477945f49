"""Table output for people: streams, keeps its widths, and makes damage impossible to overlook, colour or not."""

from __future__ import annotations

import io
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from rich.console import Console
from rich.text import Text

from kafkalog_cli.render.cells import human_bytes, plain, safe_text
from kafkalog_cli.render.column_cells import column_cells
from kafkalog_cli.render.columns import DAMAGE_STYLE, SHOWN, heading_of, kind_of, partition_of, row_style
from kafkalog_cli.render.findings import finding_lines
from kafkalog_cli.render.stats import stats_lines
from kafkalog_cli.render.summary import summary_sentence, verdict
from kafkalog_cli.render.widths import Layout, choose_layout
from kafkalog_core.words import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_cli.render.writer import Settings
    from kafkalog_core.ops.reading.rows import Chunk

__all__ = ["VERDICT_STYLES", "TableWriter", "open_console"]

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
