"""Rows as a table that appears while they are read: widths are chosen from the first rows, then kept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from rich.text import Text

from kafkalog_cli.render.cells import human_bytes, place_of, plain, safe_text, span, time_cell
from kafkalog_cli.render.columns import (
    DAMAGE_STYLE,
    SHOWN,
    column_cells,
    heading_of,
    kind_of,
    kind_of_chunk,
    partition_of,
    row_style,
)
from kafkalog_cli.render.grid import choose_layout, draws_blocks, more_line, narrow_notes, open_console
from kafkalog_cli.render.summary import KEPT_FINDINGS, finding_lines, last_lines, sentence_texts
from kafkalog_cli.render.summary_line import VERDICT_STYLES, summary_sentence, verdict
from kafkalog_core.output import tables
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_cli.render.grid import TableLayout
    from kafkalog_cli.render.writers import RowSettings
    from kafkalog_core.output.chunk import Chunk

__all__ = ["TableWriter", "stats_lines"]


SAMPLE_ROWS: Final = 200
MAX_WAIT_SECONDS: Final = 0.5
_PLACE: Final = "text"


class _Line(NamedTuple):
    """A row as its cells, or as one text for a line without columns; `leads`: such a text is above the titles too."""

    heading: str
    cells: Sequence[str]
    style: str = ""
    text: str | None = None
    leads: bool = False


class TableWriter:
    """Rows in columns below the file that they come from, then the findings, then the summary line."""

    def __init__(self, settings: RowSettings) -> None:
        self._console = open_console()
        self._settings = settings
        self._kind = ""
        self._layout: TableLayout | None = None
        self._heading = ""
        self._pending: list[_Line] = []
        self._pending_since = 0.0
        self._findings: list[Mapping[str, object]] = []
        self._finding_count = 0
        self._marks: dict[str, tuple[str, str]] = {}
        self._without = 0
        for note in settings.notes:
            self._print(*sentence_texts(note, self._console.width, "bold yellow"))

    def write(self, chunk: Chunk) -> None:
        """Take the rows of a chunk; they appear as soon as the widths are known."""
        take = {"damage": self._take_damage, "finding": self._take_finding, "stats": self._take_stats}
        cells = column_cells(chunk, self._settings.transactions)
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
        """Show the pending rows, the findings and the summary line."""
        self._flush()
        self._end_table()
        if self._without:
            self._print(Text(f"no such record in {count_of(self._without, 'log')}"))
        if self._findings:
            self._print(Text(), Text("Findings", "bold"))
            self._print(*finding_lines(self._findings, self._console.width))
        if not self._settings.live:
            self._print(*more_line(self._finding_count - len(self._findings), "finding"))
        last = Text(summary_sentence(summary), VERDICT_STYLES[verdict(summary)])
        self._print(Text(), *last_lines(last, self._console))

    def _take_cells(self, chunk: Chunk, rows: Iterator[tuple[Sequence[str], str]]) -> None:
        """Take rows of one file that are cells already."""
        self._begin(kind_of_chunk(chunk))
        heading = ""
        for cells, style in rows:
            heading = heading or heading_of(next(chunk.row_views()))
            self._fit(cells)
            self._add(_Line(heading, cells, style))

    def _begin(self, kind: str) -> None:
        """Begin with rows of a kind; rows of another kind have other columns."""
        if kind != self._kind:
            self._flush()
            self._end_table()
            self._kind = kind

    def _fit(self, cells: Sequence[str]) -> None:
        """Choose the columns again if a row has something in a column that was left out as empty."""
        if self._layout is not None and self._layout.empty and self._layout.hides(cells):
            self._flush()
            self._end_table()

    def _end_table(self) -> None:
        """Name the columns below the table for which it is too narrow; the next row begins another table."""
        if self._layout is not None:
            self._print(*(Text(note, "dim") for note in narrow_notes(self._layout)))
        self._layout = None

    def _take_stats(self, row: Mapping[str, object]) -> None:
        self._flush()
        self._print(*stats_lines(row, solid=draws_blocks(self._console)))

    def _take_row(self, row: Mapping[str, object]) -> None:
        kind = kind_of(row)
        if kind == tables.COUNT.name and not row.get("records"):
            self._without += 1  # the logs that have such records are the answer; the others are counted
            return
        self._begin(kind)
        cells = [column.cell(row) for column in SHOWN[kind]]
        self._fit(cells)
        if row.get("type") == tables.SEEK.name and row.get("detail") is not None:
            self._add(_Line(heading_of(row), (), "bold", plain(row["detail"]), leads=True))
        self._add(_Line(heading_of(row), cells, row_style(row)))
        for text in _steps_below(row):
            self._add(_Line(heading_of(row), (), "dim", text))

    def _take_damage(self, row: Mapping[str, object]) -> None:
        """Show damage where it was found: among the rows of its file, or among the segments of its partition."""
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
        """Return whether rows have been pending for so long that a user may be waiting for them."""
        return bool(self._pending) and time.monotonic() - self._pending_since > MAX_WAIT_SECONDS

    def _flush(self) -> None:
        """Write the pending rows, after the titles of the columns if the widths are new."""
        lines, self._pending = self._pending, []
        sample = [line.cells for line in lines if line.text is None]
        texts: list[str] = []
        if self._layout is None and sample:
            self._layout = choose_layout(SHOWN[self._kind], sample, self._console.width, self._settings.kept)
            texts.append("")
            while lines[0].leads:
                self._put_line(lines.pop(0), texts)
            self._put_heading(lines[0], texts)
            texts.append(self._styled(self._layout.line(self._layout.titles), "bold underline"))
        for line in lines:
            self._put_line(line, texts)
        if texts:
            texts.append("")
            self._console.file.write("\n".join(texts))  # rich takes longer for a line than everything before it

    def _put_line(self, line: _Line, texts: list[str]) -> None:
        """Write a line, after its file if that differs from the one of the line before."""
        self._put_heading(line, texts)
        text = line.text
        if text is None and self._layout is not None:
            text = self._layout.line(line.cells)
        if text is not None:
            texts.append(self._styled(text, line.style) if line.style else text)

    def _put_heading(self, line: _Line, texts: list[str]) -> None:
        """Write the file that the line comes from, if it differs from that of the line before."""
        if line.heading != self._heading:
            self._heading = line.heading
            texts.append(self._styled(line.heading, "bold cyan"))

    def _styled(self, text: str, style: str) -> str:
        """Return the text in the style, as this terminal or pipe shows it; rich renders each style once."""
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
    """Return the line of one damaged place."""
    word = "-- harmless" if row.get("severity") == "info" else "!! DAMAGE"
    text = f"{word} {plain(row.get('reason'))} at byte {plain(row.get('position'))}"
    text += f" of {plain(row.get('segment'))}" if names_file else ""
    size = human_bytes(row.get("size_bytes")) if row.get("size_bytes") != 0 else "in a whole batch"
    text += f", {size}: {plain(row.get('detail'))}"
    if row.get("next_offset") is not None and row.get("size_bytes") != 0:
        text += f" (next offset expected: {row['next_offset']})"
    return text


def _steps_below(row: Mapping[str, object]) -> list[str]:
    """Return the steps of a search, a line each."""
    steps = row.get("steps") if row.get("type") == tables.SEEK.name else None
    if not isinstance(steps, list):
        return []
    return [f"  {number}. {safe_text(step['text'])}" for number, step in enumerate(steps, 1)]


# --- figures of --stats -----------------------------------------------------------------------------------------------
_BAR_WIDTH: Final = 30
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def stats_lines(row: Mapping[str, object], *, solid: bool) -> list[Text]:
    """Return the figures of a partition: a heading, counts, then a chart for each distribution that is not empty."""
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
        counted = count_of(row.get("transactional_records"), "record")
        lines.append(Text(f"  transactions  {counted}, {count_of(row.get('control_records'), 'control record')}"))
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
    """Return a bar of up to `_BAR_WIDTH` cells; every count above zero gets at least a part of a cell."""
    if count <= 0 or largest <= 0:
        return ""
    if not solid:
        return "#" * max(1, round(count / largest * _BAR_WIDTH))
    eighths = max(1, round(count / largest * _BAR_WIDTH * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
