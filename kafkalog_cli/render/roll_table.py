"""Forecasts of `kafkalog roll` for people: the answer first, then partitions, then the segments of a few of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from rich.text import Text

from kafkalog_cli.render.cells import NONE, counts_cell, directory_name, origin_cell, plain, safe_text
from kafkalog_cli.render.grid import TableColumn, count_column, size_column, table_lines, time_column, word_column
from kafkalog_cli.render.summary import SummaryTable, wrapped_texts
from kafkalog_core.ops.roll.forecast import RollForecast

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RollTable"]

Row = dict[str, object]

SHOWN_PARTITIONS: Final = 200
SHOWN_DETAILS: Final = 3
SHOWN_SEGMENTS: Final = 40


def _at_most(row: Mapping[str, object]) -> str:
    """Return the number of segments there would be, with jitter as a range: `3 to 5`."""
    after, most = row.get("segments_after"), row.get("segments_at_most")
    return plain(after) if most in {None, after} else f"{after} to {most}"


_PARTITIONS: Final = (
    TableColumn("partition", directory_name, flexible=True),
    word_column("state", "state", 1),
    count_column("segments", "segments_before"),
    TableColumn("would be", _at_most, right=True),
    count_column("begin alike", "same_bases", 2),
    TableColumn("rolled by", lambda row: counts_cell(row.get("rolls")) or NONE),
    size_column("log", "bytes"),
    size_column("smallest closed", "smallest_bytes", 3),
    size_column("largest", "largest_bytes", 3),
)
_SEGMENTS: Final = (
    count_column("base offset", "base_offset"),
    TableColumn("there", lambda row: "yes" if row.get("is_there") else "new"),
    size_column("log", "bytes"),
    count_column("batches", "batches", 1),
    time_column("first time (UTC)", "first_timestamp_ms", 3),
    count_column("index entries", "offset_entries", 4),
    word_column("rolls by", "roll_reason", 2),
    word_column("because", "detail"),
)


class RollTable(SummaryTable[RollForecast]):
    """The forecasts of all partitions; segments are shown of those where most would be new."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[Row] = []
        self._most: list[RollForecast] = []

    def write(self, forecast: RollForecast) -> None:
        """Keep the row of the partition, its findings, and the segments of a few partitions."""
        self._rows.append(forecast.partition)
        self.add_findings(finding.row() for finding in forecast.findings)
        self._most = sorted([*self._most, forecast], key=_weight, reverse=True)[:SHOWN_DETAILS]

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return the answer, the partitions, the rules, and the segments of a few partitions."""
        del summary
        lines: list[Text] = []
        if self._rows:
            lines += wrapped_texts(_headline(self._rows), self.width, "bold")
            lines += table_lines(_PARTITIONS, self._rows, self.width, noun="partition", most=SHOWN_PARTITIONS)
            lines += [Text(), *self._rules()]
        for forecast in self._most:
            if len(self._rows) > 1 and forecast.segments:
                lines += [Text(), Text(directory_name(forecast.partition), "bold")]
            lines += table_lines(_SEGMENTS, forecast.segments, self.width, noun="segment", most=SHOWN_SEGMENTS)
        if len(self._rows) > len(self._most):
            lines += [
                Text(),
                Text("to see the segments of the others, name one partition or use --output ndjson", "dim"),
            ]
        return lines

    def _rules(self) -> list[Text]:
        """Return the release and the settings of the first partition; the rows of others show where theirs differ."""
        row = self._rows[0]
        evidence = "; ".join(safe_text(str(row.get("release_evidence") or "")).split("\\n"))
        settings = cast("Mapping[str, Mapping[str, object]]", row.get("settings") or {})
        by_origin: dict[str, list[str]] = {}
        for name, each in settings.items():
            by_origin.setdefault(origin_cell(each["origin"], row), []).append(f"{name}={plain(each['value'])}")
        values = ", ".join(f"{', '.join(texts)} ({origin})" for origin, texts in by_origin.items())
        whose = "" if len(self._rows) == 1 else f" of {directory_name(row)}"
        return [
            *wrapped_texts(f"rules: Kafka {plain(row.get('release'))}: {evidence}", self.width, "dim"),
            *wrapped_texts(f"settings{whose}: {values}", self.width, "dim"),
        ]


def _weight(forecast: RollForecast) -> tuple[int, int]:
    """Return the order of details: partitions with most new segments first, then those with most segments."""
    return sum(not segment["is_there"] for segment in forecast.segments), len(forecast.segments)


def _headline(rows: list[Row]) -> str:
    """Return the answer in one sentence."""
    written = next((row["to"] for row in rows if row.get("to") is not None), None)
    if len(rows) == 1:
        sentence = str(rows[0]["reason"])
    else:
        before, after = (sum(cast("int", row[name]) for row in rows) for name in ("segments_before", "segments_after"))
        sentence = f"{after:,} segments instead of {before:,}, in {len(rows):,} partitions"
    if written is None:
        return sentence
    return f"{sentence}; written to {safe_text(str(written))}, on which a broker starts without recovery"
