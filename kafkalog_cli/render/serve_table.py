"""The live table of `kafkalog serve` on a terminal: what clients do now, and the last lines of the log below it.

Lines are never lost to the table: those that leave the last few go into the terminal's scrollback above it, and at the
end all of them are there as if there had been no table. rich draws (`rich.live`), on a thread of ours alone, so that a
terminal that does not take any more (Ctrl-S) holds up neither clients nor the end.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Final, NamedTuple, Self, cast

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from kafkalog_cli.line_writer import write_to_stderr
from kafkalog_cli.render.grid import TableColumn, choose_layout, count_column, fitted, size_column, word_column
from kafkalog_core.text import count_of, duration, size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalog_core.serve.metrics.status import GroupStatus
    from kafkalog_core.serve.topics.traffic import TopicTraffic

__all__ = ["LiveTable", "ServeFigures", "frame"]

_REFRESH_S: Final = 1.0
_PAUSED_S: Final = 3.0
_RATE_S: Final = 5.0
_END_S: Final = 2.0
_MOST_ROWS: Final = 8
_LAST_LINES: Final = 5
_KEPT_LINES: Final = 1000
_TABLE_LINES: Final = 3  # an empty line, the titles, and how many rows are not shown

Row = dict[str, object]

_TOPICS: Final = (
    word_column("Topic", "topic"),
    TableColumn("In", lambda row: f"{size(_whole(row['in']))}/s", right=True),
    TableColumn("Out", lambda row: f"{size(_whole(row['out']))}/s", right=True),
    TableColumn("Records in", lambda row: f"{_whole(row['records']):,}/s", right=True, rank=1),
    size_column("In total", "total_in", rank=2),
    size_column("Out total", "total_out", rank=2),
)
_READ_TOPICS: Final = (_TOPICS[0], _TOPICS[2], _TOPICS[5])
"""Those of a broker that nobody writes to."""
_GROUPS: Final = (
    word_column("Group", "name"),
    word_column("State", "state"),
    count_column("Members", "members"),
    count_column("Lag", "lag"),
)


class ServeFigures(NamedTuple):
    """Sums since the start and what is so now, at a time of the monotonic clock, in seconds.

    groups: those to be shown; `lags`: by their names, None: unknown; `group_count`: of all groups. holes: None where
    damage is not skipped, in a live broker.
    """

    time_s: float
    connections: int
    requests: int
    bytes_in: int
    bytes_out: int
    topics: Mapping[str, TopicTraffic]
    groups: Sequence[GroupStatus]
    lags: Mapping[str, int | None]
    group_count: int
    holes: int | None


# --- a frame ----------------------------------------------------------------------------------------------------------
def frame(
    title: str, history: Sequence[ServeFigures], last_lines: Sequence[str], width: int, height: int
) -> list[Text]:
    """Return the lines of the table, at most `height`, none wider than `width`.

    title: what is served. history: the figures of the last seconds, the latest one last. last_lines: of the log.
    """
    first, now = history[0], history[-1]
    seconds = max(now.time_s - first.time_s, 0.001)
    rates = [
        ("requests", f"{(now.requests - first.requests) / seconds:,.0f}/s"),
        ("in", f"{size(int((now.bytes_in - first.bytes_in) / seconds))}/s"),
        ("out", f"{size(int((now.bytes_out - first.bytes_out) / seconds))}/s"),
    ]
    figures = [("connections", f"{now.connections:,}"), *rates]
    if now.holes is not None:
        figures.append(("holes", f"{now.holes:,}"))
    lines = [Text(fitted(title, width)[0], "bold cyan"), _figures_line(figures, width)][: max(height, 0)]
    room = height - len(lines)
    shown_lines = last_lines[-max(1, min(_LAST_LINES, room // 4)) :] if room > 1 else []
    room -= len(shown_lines) + bool(shown_lines)
    topics, groups = _topic_rows(first, now, seconds), _group_rows(now)
    most = _shares(len(topics), len(groups), room)
    columns = _TOPICS if now.holes is None else _READ_TOPICS
    lines += _table(columns, topics, most[0], len(now.topics), "topic", width)
    lines += _table(_GROUPS, groups, most[1], now.group_count, "group", width)
    if shown_lines:
        lines += [Text(), *(Text(fitted(each, width)[0], "dim") for each in shown_lines)]
    return lines


def _figures_line(figures: Sequence[tuple[str, str]], width: int) -> Text:
    line = Text()
    for name, value in figures:
        if len(line) + len(name) + len(value) + 4 > width:
            break
        line.append(f"{'   ' if line else ''}{name} ")
        line.append(value, "bold")
    return line


def _topic_rows(first: ServeFigures, now: ServeFigures, seconds: float) -> list[Row]:
    """Return a row for each topic that clients use, the busiest first."""
    rows: list[Row] = []
    for topic, sums in now.topics.items():
        before = first.topics.get(topic)
        before_in, before_records, before_out = (
            (0, 0, 0) if before is None else (before.bytes_in, before.records_in, before.bytes_out)
        )
        rates = [
            (after - earlier) / seconds
            for after, earlier in (
                (sums.bytes_in, before_in), (sums.bytes_out, before_out), (sums.records_in, before_records)
            )
        ]  # fmt: skip
        named: Row = dict(zip(("in", "out", "records"), rates, strict=True))
        rows.append({"topic": topic, **named, "total_in": sums.bytes_in, "total_out": sums.bytes_out})
    rows.sort(key=lambda row: (-_whole(row["in"]) - _whole(row["out"]), -_whole(row["total_out"]), str(row["topic"])))
    return rows


def _group_rows(now: ServeFigures) -> list[Row]:
    return [
        {"name": each.name, "state": each.state, "members": each.members, "lag": now.lags.get(each.name)}
        for each in now.groups
    ]


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _shares(topics: int, groups: int, room: int) -> tuple[int, int]:
    """Return how many rows of each table fit in `room` lines: half of them each, or what the other one leaves."""
    if topics and groups:
        half = room // 2 - _TABLE_LINES
        first = max(min(topics, half), min(topics, room - groups - 2 * _TABLE_LINES))
        return _at_most(first), _at_most(room - max(first, 0) - 2 * _TABLE_LINES)
    return _at_most(room - _TABLE_LINES), _at_most(room - _TABLE_LINES)


def _at_most(rows: int) -> int:
    return max(0, min(rows, _MOST_ROWS))


def _table(
    columns: Sequence[TableColumn], rows: Sequence[Row], most: int, count: int, noun: str, width: int
) -> list[Text]:
    """Return a table of the first rows after an empty line; nothing if there is no row or no room."""
    shown = rows[:most]
    if not shown:
        return []
    cells = [[column.cell(row) for column in columns] for row in shown]
    layout = choose_layout(columns, cells, width)
    lines = [Text(), Text(layout.line(layout.titles), "bold underline"), *(Text(layout.line(each)) for each in cells)]
    if count > len(shown):
        lines.append(Text(f"and {count_of(count - len(shown), f'more {noun}')}", "dim"))
    return [Text(fitted(each.plain, width)[0], each.style) for each in lines]


# --- the terminal -----------------------------------------------------------------------------------------------------
class LiveTable:
    """Lines on stderr, and between `start` and `stop` a table below them. Thread-safe; `write` waits for nobody then.

    Without a terminal, with TERM=dumb, or while the process is a background job of its terminal, there is no table.
    """

    def __init__(self, *, wanted: bool) -> None:
        """Begin without a table. wanted: whether there may be one."""
        self._wanted = wanted and sys.__stderr__ is not None and sys.stderr.isatty()
        self._wanted = self._wanted and not Console(stderr=True).is_dumb_terminal
        self._lock = threading.Lock()
        self._waiting: deque[str] = deque()
        self._lost = 0
        self._recent: deque[str] = deque()
        self._history: deque[ServeFigures] = deque()
        self._drawing: _Drawing | None = None  # None: no table is on the terminal
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._title: Callable[[str], str] = str
        self._figures: Callable[[], ServeFigures] | None = None

    def write(self, line: str) -> None:
        """Write a line, or leave it to the thread that draws; a thousand lines may wait, further ones are counted."""
        with self._lock:
            is_drawn = self._thread is not None
            if is_drawn and len(self._waiting) < _KEPT_LINES:
                self._waiting.append(line)
            elif is_drawn:
                self._lost += 1
        if not is_drawn:  # without the lock: a terminal that takes nothing must not hold up the process
            _echo(line)

    def start(self, title: Callable[[str], str], figures: Callable[[], ServeFigures]) -> None:
        """Show the table, where there may be one.

        title: returns the first line, from how long it is since the start. figures: returns the figures of now; it is
        called about once a second, on a thread of the table.
        """
        if not self._wanted:
            return
        self._title, self._figures = title, figures
        with self._lock:
            self._thread = threading.Thread(target=self._run, name="kafkalog-table", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Remove the table; further lines are written at once. A terminal that takes nothing is left as it is."""
        thread = self._thread
        if thread is None:
            return
        self._ended.set()
        thread.join(_END_S)
        if not thread.is_alive():
            with self._lock:
                self._thread = None
                rest, self._waiting = self._waiting, deque()
            for line in rest:
                _echo(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- the thread ---------------------------------------------------------------------------------------------------
    def _run(self) -> None:
        started_s = time.monotonic()
        try:
            while True:
                self._draw(started_s)
                drawn_s = time.monotonic()
                if self._ended.wait(_REFRESH_S):
                    break
                if time.monotonic() - drawn_s > _PAUSED_S:
                    self._drawing = None  # the process was stopped (Ctrl-Z), and the shell has written below the table
        except OSError:  # the terminal is gone
            self._recent.clear()
        else:
            with suppress(OSError):
                self._end()

    def _draw(self, started_s: float) -> None:
        """Write the lines that have come, and the table again where the last one was."""
        if self._figures is None:
            return
        self._history.append(self._figures())
        while len(self._history) > 2 and self._history[-1].time_s - self._history[0].time_s > _RATE_S:
            self._history.popleft()
        self._recent.extend(self._taken())
        if not _is_foreground():
            self._drawing = None  # the shell has written over it
            self._end()
            return
        width, height = _terminal_size()
        over = max(0, len(self._recent) - _LAST_LINES)
        above = [self._recent.popleft() for _ in range(over)]
        title = self._title(duration(int(time.monotonic() - started_s) * 1000))
        if self._drawing is None:
            self._drawing = _Drawing()
        table = frame(title, self._history, list(self._recent), width, height - 1)
        self._drawing.show(above, table, width, height)

    def _taken(self) -> list[str]:
        with self._lock:
            lines, self._waiting = list(self._waiting), deque()
            lost, self._lost = self._lost, 0
        return (
            [*lines, f"kafkalog: {count_of(lost, 'line')} more were not written: too many at once"] if lost else lines
        )

    def _end(self) -> None:
        """Remove the table, and leave the last lines."""
        self._recent.extend(self._taken())
        if self._drawing is not None:
            self._drawing.show([*self._recent], [], *_terminal_size())
            self._drawing.stop()
            self._drawing = None
        else:
            for line in self._recent:
                write_to_stderr(line)
        self._recent.clear()


class _Drawing:
    """A table on the terminal, from its first frame to `stop`. To be forgotten where others have written below it."""

    def __init__(self) -> None:
        self._terminal = _Terminal()
        self._console = _Console(
            file=cast("IO[str]", self._terminal), force_terminal=True, highlight=False, markup=False, emoji=False
        )
        self._live = Live(
            console=self._console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._widths: list[int] = []  # of the lines of the last frame, in cells
        self._live.start()

    def show(self, above: Sequence[str], table: Sequence[Text], width: int, height: int) -> None:
        """Write lines above the table, and the table again; one write, so that nothing flickers."""
        # rich does not know that a terminal which became narrower has wrapped the lines of the last frame.
        wrapped = sum(max(0, -(-cells // width) - 1) for cells in self._widths)
        if wrapped:
            self._terminal.write(f"\r\x1b[{wrapped}A\x1b[J")
        self._console.size = (width, height)  # rich would ask standard input first
        with self._console:
            self._live.update(Group(*table), refresh=True)
            if above:
                self._console.print(Text("\n".join(above)), soft_wrap=True)
        self._widths = [line.cell_len for line in table]

    def stop(self) -> None:
        """Remove the table."""
        self._live.stop()


class _Console(Console):
    """Leaves the cursor visible: after a process that was killed it would stay hidden."""

    def show_cursor(self, show: bool = True) -> bool:
        """Do nothing."""
        del show
        return False


class _Terminal:
    """The terminal that stderr is, as a file; what is written reaches it at `flush`.

    It has the descriptor, not the stream: a thread that waits there must not hold a lock that the process needs to end.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []

    def write(self, text: str) -> int:
        """Keep a text."""
        self._texts.append(text)
        return len(text)

    def flush(self) -> None:
        """Write what was kept. Raises OSError if the terminal is gone."""
        text, self._texts = "".join(self._texts), []
        data = memoryview(text.encode(sys.stderr.encoding or "utf-8", "backslashreplace"))
        while data:
            data = data[os.write(sys.stderr.fileno(), data) :]


def _echo(line: str) -> None:
    """Write a line to stderr; a broker does not end because nobody can read what it reports any more."""
    with suppress(OSError, ValueError):
        write_to_stderr(line)


def _terminal_size() -> tuple[int, int]:
    """Return columns and rows of the terminal that stderr is."""
    try:
        found = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):
        return 80, 24
    return found.columns or 80, found.lines or 24


def _is_foreground() -> bool:
    """Return whether this process is not a background job of its terminal, where a table would disturb the shell."""
    try:
        return os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return True
