"""Forecasts of compaction for people: the answer first, then the partitions, then each of the few that matter."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.cells import NONE, human_bytes, plain
from kafkalog_cli.render.columns import Shown
from kafkalog_cli.render.compact_detail import detail_lines, table_lines, wrapped
from kafkalog_cli.render.compact_words import headline, number, partition_name, saved_bytes
from kafkalog_cli.render.findings import finding_lines
from kafkalog_cli.render.summary import summary_sentence, verdict
from kafkalog_cli.render.table import VERDICT_STYLES, open_console
from kafkalog_core.ops.releases.assumptions import forecast_note
from kafkalog_core.words import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.cleaning.forecast import CompactForecast
    from kafkalog_core.ops.releases.assumptions import Assumption

__all__ = ["CompactTable"]

KEPT_FINDINGS: Final = 500
SHOWN_PARTITIONS: Final = 200
SHOWN_DETAILS: Final = 3


def _ratio(row: Mapping[str, object]) -> str:
    value = row.get("dirty_ratio")
    return NONE if value is None else f"{value:.3f}"


def _saved(row: Mapping[str, object]) -> str:
    return human_bytes(saved_bytes(row)) if row.get("passes") and row.get("bytes_after") is not None else NONE


def _records(row: Mapping[str, object]) -> str:
    if row.get("records_after") is None:
        return NONE
    return f"{number(row, 'records_before'):,} -> {number(row, 'records_after'):,}"


_COLUMNS: Final = (
    Shown("partition", lambda row: partition_name(dict(row))),
    Shown("state", lambda row: plain(row.get("state"))),
    Shown("dirty ratio", _ratio, right=True),
    Shown("log", lambda row: human_bytes(row.get("bytes_before")), right=True),
    Shown("saves", _saved, right=True),
    Shown("records", _records, right=True, rank=3),
    Shown("cleans", lambda row: plain(row.get("passes")), right=True, rank=4),
    Shown("held back by", lambda row: plain(row.get("held_back_by")), rank=1),
    Shown("behind the bound", lambda row: human_bytes(row.get("uncleanable_bytes")), right=True, rank=2),
)


class CompactTable:
    """Takes all forecasts before it shows the first line, which is about all of them."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        self._console = open_console()
        self._rows: list[dict[str, object]] = []
        self._assumed: list[tuple[Assumption, ...]] = []
        self._most: list[CompactForecast] = []
        self._findings: list[Finding] = []
        self._left_out = 0

    def write(self, forecast: CompactForecast) -> None:
        """Keep what is to be shown: every partition's row, and all of those that matter most."""
        self._rows.append(forecast.partition)
        self._assumed.append(forecast.assumptions)
        room = KEPT_FINDINGS - len(self._findings)
        self._findings += forecast.findings[:room]
        self._left_out += max(0, len(forecast.findings) - room)
        self._most = sorted([*self._most, forecast], key=_weight, reverse=True)[:SHOWN_DETAILS]

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show everything, the summary last."""
        width = self._console.width
        lines: list[Text] = []
        assumed = list(dict.fromkeys(one for each in self._assumed for one in each))
        if assumed:
            lines += wrapped(forecast_note(assumed), width, "bold yellow")
        if self._rows:
            sentence, style = headline(self._rows)
            lines += wrapped(sentence, width, style)
        compacted = [row for row in self._rows if row["state"] != "not-compacted"]
        if len(self._rows) > 1:
            lines += table_lines(_COLUMNS, compacted[:SHOWN_PARTITIONS], width)
            if len(compacted) > SHOWN_PARTITIONS:
                rest = count_of(len(compacted) - SHOWN_PARTITIONS, "more partition")
                lines.append(Text(f"... and {rest}: --output ndjson has them all", "dim"))
        for forecast in self._most:
            if forecast.partition["state"] != "not-compacted":
                lines += detail_lines(forecast, width, has_title=len(self._rows) > 1)
        if len(compacted) > len(self._most):
            lines += [Text(), Text("of the others: kafkalog compact on one partition shows them in full", "dim")]
        lines += self._finding_lines(width)
        lines += [Text(), Text(summary_sentence(summary), VERDICT_STYLES[verdict(summary)])]
        self._console.print(*lines, sep="\n", soft_wrap=True)

    def _finding_lines(self, width: int) -> list[Text]:
        if not self._findings:
            return []
        lines = [Text(), Text("Findings", "bold")]
        lines += finding_lines([finding.row() for finding in self._findings], width)
        if self._left_out:
            lines.append(Text(f"... and {count_of(self._left_out, 'more finding')}: --output ndjson has all of them"))
        return lines


def _weight(forecast: CompactForecast) -> tuple[bool, bool, int]:
    """What is shown in full first: what fails, then what is compacted, then what saves most."""
    row = forecast.partition
    return row["state"] == "fails", row["state"] != "not-compacted", saved_bytes(row)
