"""Forecasts of `kafkalog retain` for people: the answer, a picture of each log over time, and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from rich.text import Text

from kafkalog_cli.render.answer import (
    Answer,
    AnswerTable,
    PartitionLine,
    assumed_lines,
    counted_rest,
    impact_line,
    rule_lines,
    unknown_lines,
)
from kafkalog_cli.render.cells import NONE, human_bytes, plain, safe_text, time_cell
from kafkalog_cli.render.grid import (
    TableColumn,
    count_column,
    draws_blocks,
    sentence_column,
    size_column,
    table_lines,
    time_column,
    word_column,
)
from kafkalog_cli.render.summary import INDENT, sentence_texts
from kafkalog_core.findings import Finding
from kafkalog_core.ops.repair.assumptions import RETENTION, unknown_topics
from kafkalog_core.ops.repair.held_options import held_note
from kafkalog_core.ops.retain.forecaster import RetainForecast, RetentionForecaster, totals
from kafkalog_core.ops.retain.rows import (
    blocked_of,
    checks_of,
    event_rows,
    next_of,
    parent_name,
    partition_rows,
    segment_rows,
    state_of,
    until_of,
    verdict_of,
    why_deleted,
)
from kafkalog_core.text import count_of, duration, moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog_core.kafka.sim.retention.forecast import Fate, Forecast
    from kafkalog_core.ops.retain.forecaster import ScenarioResult
    from kafkalog_core.ops.retain.rows import Blocked

__all__ = ["RetentionTable", "timeline"]


MAX_CELLS: Final = 100
MIN_CELLS: Final = 24
_AHEAD: Final = 4
"""The part of the axis after now is at most this fraction (1/4) of the part before now."""
_NEAR: Final = 3
"""A mark is shown if its distance from the log is at most this many times the length of the log."""
_STYLES: Final = {"delete": "red", "keep": "green", "unknown": "yellow", "active": "cyan"}
_ORDER: Final = ("delete", "unknown", "active", "keep")
_WORDS: Final = {"delete": "deleted", "keep": "kept", "active": "active segment", "unknown": "remote storage decides"}


class _Axis(NamedTuple):
    """A time axis: first and last time, in ms since 1970, and its length in terminal cells."""

    first_ms: int
    last_ms: int
    cells: int

    def cell(self, time_ms: int) -> int:
        """Return the cell of a time."""
        span = max(1, self.last_ms - self.first_ms)
        return min(self.cells - 1, max(0, (time_ms - self.first_ms) * self.cells // (span + 1)))


def timeline(forecast: Forecast, width: int, *, is_solid: bool) -> list[Text]:
    """Return the picture of a log over time and its legend; nothing for a log without records.

    Args:
        forecast: the forecast of the log.
        width: width of the terminal, in cells.
        is_solid: whether the terminal shows block characters; otherwise ASCII is used.
    """
    fates = [fate for fate in forecast.fates if fate.segment.size_bytes]
    if not fates:
        return []
    now_ms = forecast.question.now_ms
    axis, marks = _axis(fates, _limit(forecast), now_ms, max(MIN_CELLS, min(MAX_CELLS, width - len(INDENT) - 2)))
    kinds = _kinds(fates, axis)
    signs = _signs(is_solid)
    line = Text(f"{INDENT}{'▕' if is_solid else '['}")
    for kind in kinds:
        line.append(signs.get(kind, "·" if is_solid else "."), _STYLES.get(kind, "dim"))
    line.append("▏" if is_solid else "]")
    last_ms = max(fate.segment.largest_timestamp_ms for fate in fates)
    if last_ms > axis.last_ms:
        line.append(f" continues to {time_cell(last_ms)}", "yellow")
    return [line, *_scale(axis, marks, now_ms), _legend(kinds, signs)]


def _axis(fates: Sequence[Fate], limit_ms: int | None, now_ms: int, cells: int) -> tuple[_Axis, dict[str, int]]:
    """Return the axis and the marks on it; a mark so far away that the log would shrink to a dot is left out."""
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
    """Return the time before which retention.ms deletes; `None` if it does not apply."""
    rules = forecast.question.rules
    if "time" not in rules.passes or rules.retention_ms < 0:
        return None
    return forecast.question.now_ms - rules.retention_ms


def _kinds(fates: Sequence[Fate], axis: _Axis) -> list[str]:
    """Return the kind of each cell, from the segments whose times are in it."""
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
    """Return which of two kinds is shown in one cell: `delete` hides `keep`."""
    return there if there and _ORDER.index(there) < _ORDER.index(kind) else kind


def _scale(axis: _Axis, marks: dict[str, int], now_ms: int) -> list[Text]:
    """Return the marks below the line, and their times."""
    row = [" "] * axis.cells
    for mark in marks.values():
        row[axis.cell(mark)] = "^"
    limit = f", limit {time_cell(marks['limit'])}" if "limit" in marks else ""
    far = "" if "now" in marks else f", {duration(now_ms - axis.last_ms)} later"
    times = [
        f"from {time_cell(axis.first_ms)} to {time_cell(axis.last_ms)}",
        f"now {time_cell(now_ms)}{far}{limit}",
    ]
    lines = [Text(f"{INDENT} {''.join(row).rstrip()}")] if marks else []
    return [*lines, *(Text(f"{INDENT}{text}", "dim") for text in times)]


def _signs(is_solid: bool) -> dict[str, str]:
    if is_solid:
        return {"delete": "░", "keep": "█", "active": "▓", "unknown": "▒"}
    return {"delete": "x", "keep": "#", "active": "+", "unknown": "?"}


def _legend(kinds: Sequence[str], signs: dict[str, str]) -> Text:
    line = Text()
    for kind, sign in signs.items():
        if kind in kinds:
            line.append("   " if line else INDENT).append(f"{sign} ", _STYLES[kind]).append(_WORDS[kind], "dim")
    return line


# --- tables -----------------------------------------------------------------------------------------------------------
Row = dict[str, object]

SHOWN_PARTITIONS: Final = 200
SHOWN_SEGMENTS: Final = 30
SHOWN_EVENTS: Final = 100
_TABLE_STYLES: Final = {"delete": "red", "unknown": "yellow"}
_STATES: Final = {"deletes": "red", "held": "yellow"}
_IN_TIME: Final = frozenset({"retention.ms", "local.retention.ms", "file.delete.delay.ms"})


def _partition_of(row: Mapping[str, object]) -> str:
    return safe_text(f"{row.get('topic')}-{row.get('partition')}") if row.get("topic") else plain(row.get("path"))


def _largest(row: Mapping[str, object]) -> str:
    text = time_cell(row.get("largest_timestamp_ms")).replace(".000Z", "Z")
    return text if row.get("is_record_timestamp") else f"{text} (file)"


def _due(row: Mapping[str, object]) -> str:
    due_ms, now_ms = row.get("due_ms"), row.get("now_ms")
    if row.get("verdict") == "delete":
        return "now"
    if not isinstance(due_ms, int) or not isinstance(now_ms, int):
        return NONE
    return f"in {duration(due_ms - now_ms)}"


_SEGMENTS: Final = (
    word_column("verdict", "verdict"),
    word_column("segment", "segment"),
    size_column("log", "size_bytes", 2),
    TableColumn("largest time", _largest, rank=3),
    word_column("rule", "rule", 1),
    TableColumn("due", _due, rank=1),
    sentence_column("why", "reason"),
)
_EVENTS: Final = (
    time_column("time", "time_ms"),
    word_column("event", "event"),
    TableColumn("segment", lambda row: f"{_partition_of(row)}/{plain(row.get('segment'))}"),
    size_column("size", "size_bytes"),
    word_column("rule", "rule"),
    count_column("log start", "log_start_offset", 1),
    size_column("log then", "log_bytes", 2),
)


class RetentionTable(AnswerTable[RetentionForecaster | RetainForecast | Finding]):
    """The forecasts of all partitions.

    `until_ms`: the time up to which retention checks are simulated; `None`: no simulation. `impact`: the command that
    shows what the check means for groups of consumers; `None`: there is none.
    """

    def __init__(
        self, until_ms: int | None, impact: str | None = None, *, has_details: bool = False, explains: bool = False
    ) -> None:
        super().__init__(has_details=has_details, explains=explains)
        self._is_solid = draws_blocks(self.console)
        self._until_ms = until_ms
        self._impact = impact
        self._forecasters: list[RetentionForecaster] = []
        self._retained: list[RetainForecast] = []
        self._blocked: dict[str, Blocked] = {}

    def write(self, item: RetentionForecaster | RetainForecast | Finding) -> None:
        """Keep the rules of a log directory, the forecast of a partition, or a finding."""
        if isinstance(item, RetentionForecaster):
            self._forecasters.append(item)
        elif isinstance(item, Finding):
            self.add_findings([item.row()])
        else:
            self._retained.append(item)
            self.add_findings(finding.row() for finding in item.findings)
            blocked = blocked_of(item.forecast)
            if blocked is not None:
                self._blocked[item.forecast.question.view.path] = blocked

    def answer(self) -> Answer:
        """Return the verdict, and the rows: logs in which segments wait, then those that lose most, then by time."""
        held = list(dict.fromkeys(one for each in self._retained for one in each.held))
        below = [held_note(held)] if held else []
        below += [] if self._until_ms is None else [f"{until_of(self._retained, self._until_ms)}."]
        if any(each.forecast.deleted for each in self._retained) and next_of(self._retained):
            below.append(f"After that {next_of(self._retained)}.")
        lines, rest = [], []
        for each in sorted(self._retained, key=self._weight):
            state = state_of(each.forecast)
            if state in {"never", "empty"} and not self.has_details and len(self._retained) > 1:
                rest.append(_why_never(each.forecast))
            else:
                lines.append(self._line(each))
        verdict = verdict_of(self._retained, self._blocked)
        if any(each.assumptions for each in self._retained if each.forecast.deleted):
            verdict += ", if the assumed settings below hold"
        return Answer(
            verdict=verdict,
            below=tuple(below),
            lines=tuple(lines),
            rest=counted_rest(rest, "in which nothing is to be deleted", others=bool(lines)),
        )

    def details(self) -> list[Text]:
        """Return the logs in full if they are asked for, and the tables of --what-if and --until."""
        shown = self._retained if self.has_details else []
        lines = [line for each in shown for line in self._in_full(each)]
        return [*lines, *self._what_if(), *self._events()]

    def basis(self) -> list[Text]:
        """Return assumed values, the release, and with --explain the settings."""
        assumed = list(dict.fromkeys(one for each in self._retained for one in each.assumptions))
        lines = assumed_lines(assumed, self.width)
        kept = [each.forecast.question.topic for each in self._retained if not each.forecast.deleted]
        lines += unknown_lines(unknown_topics(kept, RETENTION), self.width)
        if self._retained:
            now = f"now is {moment(self._retained[0].forecast.question.now_ms)}"
            checks = checks_of(self._retained)
            lines += sentence_texts(f"{now}; {checks}" if checks else now, self.width, "dim")
        lines += [line for forecaster in self._forecasters for line in self._release(forecaster)]
        if self._impact is not None and any(each.forecast.deleted for each in self._retained):
            lines.append(impact_line(self._impact))
        return [*lines, *(self._settings() if self.explains else [])]

    # --- rows ---------------------------------------------------------------------------------------------------------
    def _weight(self, each: RetainForecast) -> tuple[int, int]:
        blocked = self._blocked.get(each.forecast.question.view.path)
        if blocked is not None:
            return 0, -blocked.size_bytes
        if each.forecast.deleted:
            return 1, -each.forecast.deleted_bytes
        due = each.forecast.next_due
        return (2, 0) if due is None else (3, due.due_ms or 0)

    def _line(self, each: RetainForecast) -> PartitionLine:
        forecast = each.forecast
        view, due, state = forecast.question.view, forecast.next_due, state_of(forecast)
        blocked = self._blocked.get(view.path)
        count, when = f"{len(view.segments):,} segment{'' if len(view.segments) == 1 else 's'}", NONE
        if forecast.deleted:
            what, amount, when = (
                f"delete {len(forecast.deleted):,} of {count}",
                human_bytes(forecast.deleted_bytes),
                "now",
            )
            why = why_deleted(forecast)
        else:
            what, amount = ("keep " if due is None else "keep for now ") + count, human_bytes(view.size_bytes)
            why = forecast.fates[0].reason if forecast.fates and blocked is None else NONE
            if due is not None:
                when = f"in {duration((due.due_ms or 0) - forecast.question.now_ms)}"
        return PartitionLine(
            partition=parent_name(view.path),
            what=what,
            amount=amount,
            when=when,
            why=why,
            note="" if blocked is None else blocked.sentence,
            style="yellow" if blocked is not None else _STATES.get(state, ""),
        )

    # --- rules --------------------------------------------------------------------------------------------------------
    def _release(self, forecaster: RetentionForecaster) -> list[Text]:
        guess = forecaster.context.guess
        where = f" in {forecaster.context.target.root}" if len(self._forecasters) > 1 else ""
        return rule_lines(
            guess.release, guess.evidence, self.width, is_certain=guess.is_certain, explains=self.explains, where=where
        )

    def _settings(self) -> list[Text]:
        """Return each setting once, with its topics if they have different values."""
        topics: dict[tuple[str, str, str], dict[str, None]] = {}
        for row in self._rows():
            settings = cast("dict[str, dict[str, str]]", row["settings"])
            for name, setting in settings.items():
                key = (name, setting["value"], setting["origin"])
                topics.setdefault(key, {})[str(row["topic"])] = None
        names = [name for name, _, _ in topics]
        lines: list[Text] = []
        for (name, value, origin), of in topics.items():
            which = ", ".join(list(of)[:3]) + (f" and {len(of) - 3} more" if len(of) > 3 else "")
            of_topics = f" for {which}" if names.count(name) > 1 else ""
            lines += sentence_texts(f"{name} = {_shown(name, value)} ({origin}){of_topics}", self.width, "dim")
        return lines

    def _rows(self) -> list[Row]:
        return [dict(row) for each in self._retained for row in partition_rows(each).rows()]

    # --- tables -------------------------------------------------------------------------------------------------------
    def _in_full(self, each: RetainForecast) -> list[Text]:
        """Return the lines of one partition: its bounds, the picture, the segments."""
        (row,) = partition_rows(each).rows()
        name = f"{parent_name(str(row['path']))}: " if len(self._retained) > 1 else ""
        lines = [Text(), *sentence_texts(f"{name}{_bounds(row, explains=self.explains)}", self.width)]
        lines += timeline(each.forecast, self.width, is_solid=self._is_solid)
        now = {"now_ms": each.forecast.question.now_ms}
        rows = [dict(row) | now for row in segment_rows(each.forecast).rows()]
        shown = _around_the_border(rows)
        lines += self._table(_SEGMENTS, shown, "segment", SHOWN_SEGMENTS)
        if len(shown) < len(rows):
            rest = count_of(len(rows) - len(shown), "segment")
            lines.append(Text(f"... and {rest} further from the first kept one: --output ndjson has them all"))
        return lines

    def _what_if(self) -> list[Text]:
        outcomes = [outcome for each in self._retained for outcome in each.outcomes]
        if not outcomes:
            return []
        scenarios = list(dict.fromkeys(outcome.scenario for outcome in outcomes))
        cells: dict[str, Row] = {}
        for outcome in (*outcomes, *totals(outcomes)):
            name = "all" if outcome.topic is None else f"{outcome.topic}-{outcome.partition}"
            cells.setdefault(name, {"name": name})[_scenario(outcome.scenario)] = _cell(outcome)
        columns = [TableColumn("what would be kept", lambda row: plain(row["name"]))]
        columns += [word_column(_scenario(scenario), _scenario(scenario)) for scenario in scenarios]
        lines = self._table(columns, list(cells.values()), "partition", SHOWN_PARTITIONS)
        note = "bytes, segments and offsets that are kept; a compacted log has fewer records than offsets"
        return [*lines, Text(f"{INDENT}{note}", "dim")]

    def _events(self) -> list[Text]:
        rows = [
            dict(row) for each in self._retained for row in event_rows(each.forecast.question.view, each.events).rows()
        ]
        rows.sort(key=lambda row: cast("int", row["time_ms"]))
        return self._table(_EVENTS, rows, "event", SHOWN_EVENTS)

    def _table(self, columns: Sequence[TableColumn], rows: Sequence[Row], noun: str, most: int) -> list[Text]:
        return table_lines(columns, rows, self.width, noun=noun, most=most, style_of=_style_of)


def _style_of(row: Mapping[str, object]) -> str:
    return _TABLE_STYLES.get(str(row.get("verdict"))) or _STATES.get(str(row.get("state")), "")


def _around_the_border(rows: list[Row]) -> list[Row]:
    """Return the rows of segments around the first one that is kept, and of the last one, if there are many."""
    if len(rows) <= SHOWN_SEGMENTS:
        return rows
    border = next((number for number, row in enumerate(rows) if row["verdict"] != "delete"), len(rows))
    first = max(0, min(border - SHOWN_SEGMENTS // 3, len(rows) - SHOWN_SEGMENTS))
    return [*rows[first : first + SHOWN_SEGMENTS - 1], rows[-1]]


def _bounds(row: Mapping[str, object], *, explains: bool) -> str:
    text = (
        f"log start {row['log_start_offset']} ({row['log_start_origin']}), high watermark {row['high_watermark']} "
        f"({row['high_watermark_origin']}), log end {row['log_end_offset']}"
    )
    if not explains:
        return text
    runner = "no thread" if row["runner"] == "nobody" else f"the {row['runner']} thread"
    return f"{text}; rules in their order: {str(row['passes']).replace(',', ', ') or 'none'}, run by {runner}"


def _why_never(forecast: Forecast) -> str:
    """Return why nothing is ever deleted, without the figures of one log."""
    policy = forecast.question.topic.cleanup_policy
    if state_of(forecast) == "empty":
        return "empty"
    return forecast.fates[0].reason.replace("; ", ", ") if "delete" in policy else f"cleanup.policy={','.join(policy)}"


def _shown(name: str, value: str) -> str:
    """Return a value with its meaning: `604800000, 7 d`."""
    if name in _IN_TIME and value.isdigit():
        return f"{value}, {duration(int(value))}"
    if name.endswith(".bytes") and value.isdigit():
        return f"{value}, {human_bytes(int(value))}"
    return value or "(none)"


def _scenario(text: str | None) -> str:
    return "current settings" if text is None else safe_text(text)


def _cell(outcome: ScenarioResult) -> str:
    return f"{human_bytes(outcome.kept_bytes)}, {outcome.kept_segments:,} seg, {outcome.kept_offsets:,}"
