"""Forecasts of rolling for people: the answer first, then the partitions, then the segments of a few of them."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Final, cast

from rich.text import Text

from kafkalog_cli.render.cells import NONE, counts_cell, human_bytes, plain, safe_text, time_cell
from kafkalog_cli.render.columns import Shown
from kafkalog_cli.render.compact_table import table_lines, wrapped
from kafkalog_cli.render.table import VERDICT_STYLES, open_console
from kafkalog_cli.render.text import finding_lines, summary_sentence, verdict
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.roll.forecast import RollForecast

__all__ = ["RollTable"]

Row = dict[str, object]

KEPT_FINDINGS: Final = 500
SHOWN_PARTITIONS: Final = 200
SHOWN_DETAILS: Final = 3
SHOWN_SEGMENTS: Final = 40


def _number(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: f"{row[name]:,}" if isinstance(row.get(name), int) else NONE, right=True, rank=rank)


def _size(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: human_bytes(row.get(name)), right=True, rank=rank)


def _at_most(row: Mapping[str, object]) -> str:
    """How many segments there would be; with jitter from how many to how many."""
    after, most = row.get("segments_after"), row.get("segments_at_most")
    return plain(after) if most in {None, after} else f"{after} to {most}"


def _partition_name(row: Mapping[str, object]) -> str:
    """The directory's name, which tells a partition that is being moved or set aside from the one that is served."""
    return safe_text(os.path.basename(str(row["path"])))


_PARTITIONS: Final = (
    Shown("partition", _partition_name, flexible=True),
    Shown("state", lambda row: plain(row.get("state")), rank=1),
    _number("segments", "segments_before"),
    Shown("would be", _at_most, right=True),
    _number("begin alike", "same_bases", 2),
    Shown("rolled by", lambda row: counts_cell(row.get("rolls")) or NONE),
    _size("log", "bytes"),
    _size("smallest closed", "smallest_bytes", 3),
    _size("largest", "largest_bytes", 3),
)
_SEGMENTS: Final = (
    _number("base offset", "base_offset"),
    Shown("there", lambda row: "yes" if row.get("is_there") else "new"),
    _size("log", "bytes"),
    _number("batches", "batches", 1),
    Shown("first time (UTC)", lambda row: time_cell(row.get("first_timestamp_ms")), rank=3),
    _number("index entries", "offset_entries", 4),
    Shown("rolls by", lambda row: plain(row.get("roll_reason")), rank=2),
    Shown("because", lambda row: plain(row.get("detail"))),
)


class RollTable:
    """Takes all forecasts before it shows the first line, which is about all of them."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        self._console = open_console()
        self._rows: list[Row] = []
        self._most: list[RollForecast] = []
        self._findings: list[Finding] = []
        self._left_out = 0

    def write(self, forecast: RollForecast) -> None:
        """Keep what is to be shown: every partition's row, and the segments of a few."""
        self._rows.append(forecast.partition)
        room = KEPT_FINDINGS - len(self._findings)
        self._findings += forecast.findings[:room]
        self._left_out += max(0, len(forecast.findings) - room)
        self._most = sorted([*self._most, forecast], key=_weight, reverse=True)[:SHOWN_DETAILS]

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show everything, the summary last."""
        width = self._console.width
        lines: list[Text] = []
        if self._rows:
            lines += wrapped(_headline(self._rows), width, "bold")
            lines += table_lines(_PARTITIONS, self._rows[:SHOWN_PARTITIONS], width)
            if len(self._rows) > SHOWN_PARTITIONS:
                lines.append(_more(len(self._rows) - SHOWN_PARTITIONS, "partition"))
            lines += [Text(), *self._rules(width)]
        for forecast in self._most:
            if len(self._rows) > 1 and forecast.segments:
                lines += [Text(), Text(_partition_name(forecast.partition), "bold")]
            lines += table_lines(_SEGMENTS, forecast.segments[:SHOWN_SEGMENTS], width)
            if len(forecast.segments) > SHOWN_SEGMENTS:
                lines.append(_more(len(forecast.segments) - SHOWN_SEGMENTS, "segment"))
        if len(self._rows) > len(self._most):
            lines += [Text(), Text("segments of the others: name one partition, or --output ndjson", "dim")]
        lines += self._finding_lines(width)
        lines += [Text(), Text(summary_sentence(summary), VERDICT_STYLES[verdict(summary)])]
        self._console.print(*lines, sep="\n", soft_wrap=True)

    def _rules(self, width: int) -> list[Text]:
        """Whose rules and which settings, of the first partition; those of topics that differ are in its row."""
        row = self._rows[0]
        evidence = "; ".join(safe_text(str(row.get("release_evidence") or "")).split("\\n"))
        settings = cast("Mapping[str, Mapping[str, object]]", row.get("settings") or {})
        told: dict[str, list[str]] = {}
        for name, each in settings.items():
            told.setdefault(plain(each["origin"]), []).append(f"{name}={plain(each['value'])}")
        values = ", ".join(f"{', '.join(texts)} ({origin})" for origin, texts in told.items())
        whose = "" if len(self._rows) == 1 else f" of {_partition_name(row)}"
        return [
            *wrapped(f"rules: Kafka {plain(row.get('release'))}: {evidence}", width, "dim"),
            *wrapped(f"settings{whose}: {values}", width, "dim"),
        ]

    def _finding_lines(self, width: int) -> list[Text]:
        if not self._findings:
            return []
        lines = [Text(), Text("Findings", "bold")]
        lines += finding_lines([finding.row() for finding in self._findings], width)
        if self._left_out:
            lines.append(Text(f"... and {count_of(self._left_out, 'more finding')}: --output ndjson has all of them"))
        return lines


def _weight(forecast: RollForecast) -> tuple[int, int]:
    """Whose segments are shown first: where most would be new, then where most are."""
    return sum(not segment["is_there"] for segment in forecast.segments), len(forecast.segments)


def _headline(rows: list[Row]) -> str:
    """The answer in one sentence."""
    written = next((row["to"] for row in rows if row.get("to") is not None), None)
    if len(rows) == 1:
        sentence = str(rows[0]["reason"])
    else:
        before, after = (sum(cast("int", row[name]) for row in rows) for name in ("segments_before", "segments_after"))
        sentence = f"{after:,} segments where there are {before:,}, in {len(rows):,} partitions"
    if written is None:
        return sentence
    return f"{sentence}; written to {safe_text(str(written))}, which a broker starts on without recovery"


def _more(count: int, noun: str) -> Text:
    return Text(f"... and {count_of(count, f'more {noun}')}: --output ndjson has them all", "dim")
