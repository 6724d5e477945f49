"""Forecasts of retention for people: the first line says what will happen and when, the rest says why."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Final, cast

from rich.text import Text

from kafkalog_cli.render.cells import human_bytes, plain, safe_text
from kafkalog_cli.render.columns import Shown
from kafkalog_cli.render.findings import finding_lines
from kafkalog_cli.render.retention_columns import EVENTS, PARTITIONS, SEGMENTS, directory_of, word
from kafkalog_cli.render.retention_timeline import timeline
from kafkalog_cli.render.sentences import sentence_lines
from kafkalog_cli.render.table import open_console
from kafkalog_cli.render.widths import choose_layout
from kafkalog_core.findings import Finding
from kafkalog_core.ops.releases.assumptions import forecast_note
from kafkalog_core.ops.retention.headline import headline
from kafkalog_core.ops.retention.rows import event_rows, partition_rows, segment_rows
from kafkalog_core.ops.retention.what_if import totals
from kafkalog_core.words import count_of, duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog_core.ops.retain import Retained
    from kafkalog_core.ops.retention.survey import Survey
    from kafkalog_core.ops.retention.what_if import Outcome

__all__ = ["RetentionTable"]

Row = dict[str, object]

SHOWN_IN_FULL: Final = 6
SHOWN_PARTITIONS: Final = 200
SHOWN_SEGMENTS: Final = 30
SHOWN_EVENTS: Final = 100
KEPT_FINDINGS: Final = 500
_INDENT: Final = "    "
_STYLES: Final = {"delete": "red", "unknown": "yellow"}
_STATES: Final = {"deletes": "red", "held": "yellow"}
_IN_TIME: Final = frozenset({"retention.ms", "local.retention.ms", "file.delete.delay.ms"})


class RetentionTable:
    """Keeps all that is said, as the first line tells of all of it.

    Args:
        until_ms: how far checks are played forward; null: not at all.
    """

    def __init__(self, until_ms: int | None) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        self._console = open_console()
        self._is_solid = self._console.encoding.lower().replace("-", "") == "utf8"
        self._until_ms = until_ms
        self._surveys: list[Survey] = []
        self._retained: list[Retained] = []
        self._findings: list[Finding] = []

    def begin(self, survey: Survey) -> None:
        """Keep it for the rules that count."""
        self._surveys.append(survey)

    def write(self, each: Retained | Finding) -> None:
        """Keep it."""
        if isinstance(each, Finding):
            self._findings.append(each)
            return
        self._retained.append(each)
        self._findings += each.findings

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show everything."""
        sentences = headline(self._retained, self._until_ms)
        lines = self._assumptions()
        lines += self._wrapped(f"{sentences[0]}.", "bold", "")
        lines += [line for text in sentences[1:] for line in self._wrapped(text, "", _INDENT)]
        lines += [line for survey in self._surveys for line in self._release(survey)]
        lines += self._settings()
        lines += self._partitions()
        lines += self._what_if()
        lines += self._events()
        if self._findings:
            rows = [finding.row() for finding in self._findings[:KEPT_FINDINGS]]
            lines += [Text(), Text("Findings", "bold"), *finding_lines(rows, self._console.width)]
        lines += [Text(), Text(f"exit status {summary.get('exit_status')}", "dim")]
        self._console.print(*lines, sep="\n", soft_wrap=True)

    def _assumptions(self) -> list[Text]:
        """What the forecast rests on, before all else."""
        assumed = list(dict.fromkeys(one for each in self._retained for one in each.assumptions))
        return self._wrapped(forecast_note(assumed), "bold yellow", "") if assumed else []

    # --- what counts --------------------------------------------------------------------------------------------------
    def _release(self, survey: Survey) -> list[Text]:
        certain = "" if survey.guess.is_certain else ", as far as can be told"
        evidence = "; ".join(survey.guess.evidence)
        where = f" in {survey.site.root}" if len(self._surveys) > 1 else ""
        text = f"by the rules of Kafka {survey.guess.release}{where}{certain}: {evidence}"
        return self._wrapped(text, "dim", _INDENT)

    def _settings(self) -> list[Text]:
        """Each setting once, with its topics where they differ in it."""
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
            lines += self._wrapped(f"{name} = {_shown(name, value)} ({origin}){of_topics}", "dim", _INDENT)
        return lines

    def _rows(self) -> list[Row]:
        return [dict(row) for each in self._retained for row in partition_rows(each).rows()]

    # --- tables -------------------------------------------------------------------------------------------------------
    def _partitions(self) -> list[Text]:
        if len(self._retained) > SHOWN_IN_FULL:
            return self._table(PARTITIONS, self._rows(), "partition", SHOWN_PARTITIONS)
        return [line for each in self._retained for line in self._in_full(each)]

    def _in_full(self, each: Retained) -> list[Text]:
        """One partition: what becomes of it, its picture, its segments."""
        (row,) = partition_rows(each).rows()
        head = f"{directory_of(row)}: {row['message']}"
        lines = [Text(), *self._wrapped(head, "bold cyan", "")]
        lines += self._wrapped(_bounds(row), "dim", _INDENT)
        lines += timeline(each.forecast, self._console.width, is_solid=self._is_solid)
        now = {"now_ms": each.forecast.question.now_ms}
        rows = [dict(row) | now for row in segment_rows(each.forecast).rows()]
        shown = _around_the_border(rows)
        lines += self._table(SEGMENTS, shown, "segment", SHOWN_SEGMENTS)
        if len(shown) < len(rows):
            rest = count_of(len(rows) - len(shown), "segment")
            lines.append(Text(f"... {rest} further from the border left out: --output ndjson has all of them"))
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
        columns = [Shown("what would stay", lambda row: plain(row["name"]))]
        columns += [word(_scenario(scenario), _scenario(scenario)) for scenario in scenarios]
        lines = self._table(columns, list(cells.values()), "partition", SHOWN_PARTITIONS)
        note = "bytes, segments and offsets that stay; of a log that was compacted records are fewer than offsets"
        return [*lines, Text(f"{_INDENT}{note}", "dim")]

    def _events(self) -> list[Text]:
        rows = [
            dict(row) for each in self._retained for row in event_rows(each.forecast.question.view, each.events).rows()
        ]
        rows.sort(key=lambda row: cast("int", row["time_ms"]))
        return self._table(EVENTS, rows, "event", SHOWN_EVENTS)

    def _table(self, columns: Sequence[Shown], rows: Sequence[Row], noun: str, most: int) -> list[Text]:
        if not rows:
            return []
        cells = [[column.cell(row) for column in columns] for row in rows[:most]]
        layout = choose_layout(columns, cells, self._console.width)
        lines = [Text(), Text(layout.line(layout.titles), "bold underline")]
        for row, texts in zip(rows, cells, strict=False):
            style = _STYLES.get(str(row.get("verdict"))) or _STATES.get(str(row.get("state")), "")
            lines.append(Text(layout.line(texts), style))
        if len(rows) > most:
            lines.append(Text(f"... and {count_of(len(rows) - most, f'more {noun}')}: --output ndjson has all"))
        return lines

    def _wrapped(self, text: str, style: str, indent: str) -> list[Text]:
        """Lines of a text."""
        lines = sentence_lines(text, self._console.width, first=indent, indent=_INDENT)
        return [Text(line, style) for line in lines]


def _around_the_border(rows: list[Row]) -> list[Row]:
    """Of many segments those around the first one that stays, and the last one."""
    if len(rows) <= SHOWN_SEGMENTS:
        return rows
    border = next((number for number, row in enumerate(rows) if row["verdict"] != "delete"), len(rows))
    first = max(0, min(border - SHOWN_SEGMENTS // 3, len(rows) - SHOWN_SEGMENTS))
    return [*rows[first : first + SHOWN_SEGMENTS - 1], rows[-1]]


def _bounds(row: Mapping[str, object]) -> str:
    runner = "nobody" if row["runner"] == "nobody" else f"the {row['runner']} thread"
    return (
        f"log start {row['log_start_offset']} ({row['log_start_origin']}), high watermark {row['high_watermark']} "
        f"({row['high_watermark_origin']}), log end {row['log_end_offset']}; rules in their order: "
        f"{str(row['passes']).replace(',', ', ') or 'none'}, run by {runner}"
    )


def _shown(name: str, value: str) -> str:
    """A value with what it comes to: `604800000, 7 d`."""
    if name in _IN_TIME and value.isdigit():
        return f"{value}, {duration(int(value))}"
    if name.endswith(".bytes") and value.isdigit():
        return f"{value}, {human_bytes(int(value))}"
    return value or "(none)"


def _scenario(text: str | None) -> str:
    return "as things are" if text is None else safe_text(text)


def _cell(outcome: Outcome) -> str:
    return f"{human_bytes(outcome.kept_bytes)}, {outcome.kept_segments:,} seg, {outcome.kept_offsets:,}"
