"""An export for people: what has come of it, the partitions with errors, then the largest, then the findings."""

from __future__ import annotations

import io
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.cells import human_bytes, place_of, plain, safe_text
from kafkalog_cli.render.columns import Shown
from kafkalog_cli.render.compact_detail import table_lines, wrapped
from kafkalog_cli.render.compact_words import number
from kafkalog_cli.render.findings import finding_lines
from kafkalog_cli.render.summary import summary_sentence, verdict
from kafkalog_cli.render.table import VERDICT_STYLES, open_console
from kafkalog_core.words import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_core.ops.reading.rows import Chunk

__all__ = ["ExportTable"]

Row = dict[str, object]

SHOWN_PARTITIONS: Final = 100
KEPT_FINDINGS: Final = 1000
_HOLES: Final = frozenset({"export.gone-before", "segment.gap"})


def _number(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: plain(row.get(name)), right=True, rank=rank)


_COLUMNS: Final = (
    Shown("partition", lambda row: place_of({"topic": row.get("topic"), "partition": row.get("partition")})),
    Shown("state", lambda row: plain(row.get("state"))),
    _number("records", "records"),
    _number("from", "from_offset", rank=2),
    _number("next offset", "next_offset"),
    _number("files", "files", rank=2),
    Shown("written", lambda row: human_bytes(row.get("file_bytes")), right=True, rank=1),
    Shown("log read", lambda row: human_bytes(row.get("log_bytes")), right=True, rank=3),
    _number("removed", "removed_records", rank=3),
    _number("errors", "errors"),
    _number("warnings", "warnings", rank=1),
)


class ExportTable:
    """Takes all rows before it shows the first line, which is about all of them; then the worst come first."""

    def __init__(self, place: str, commit_of: Callable[[], int]) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        self._console = open_console()
        self._place = place
        self._commit_of = commit_of
        self._rows: list[Row] = []
        self._findings: list[Row] = []
        self._codes: Counter[str] = Counter()

    def write(self, chunk: Chunk) -> None:
        """Keep it."""
        for row in chunk.rows():
            if row["type"] != "finding":
                self._rows.append(row)
                continue
            self._codes[str(row["code"])] += 1
            if len(self._findings) < KEPT_FINDINGS:
                self._findings.append(row)

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show everything, the summary last."""
        width = self._console.width
        style = VERDICT_STYLES[verdict(summary)]
        lines = wrapped(self._headline(is_cut_short=bool(summary.get("interrupted"))), width, f"bold {style}")
        news = sorted((row for row in self._rows if _is_news(row)), key=_rank)
        lines += table_lines(_COLUMNS, news[:SHOWN_PARTITIONS], width)
        if len(news) > SHOWN_PARTITIONS:
            rest = count_of(len(news) - SHOWN_PARTITIONS, "more partition")
            lines.append(Text(f"... and {rest} exported: --output ndjson has them all", "dim"))
        if news and len(news) < len(self._rows):
            lines.append(Text(f"{count_of(len(self._rows) - len(news), 'more partition')} without news", "dim"))
        if self._findings:
            lines += [Text(), *finding_lines(self._findings, width)]
        rest_of_findings = self._codes.total() - len(self._findings)
        if rest_of_findings:
            lines.append(
                Text(f"... and {count_of(rest_of_findings, 'more finding')}: --output ndjson has them all", "dim")
            )
        lines += [Text(), Text(summary_sentence(summary), style)]
        self._console.print(*lines, sep="\n", soft_wrap=True)

    def _headline(self, *, is_cut_short: bool) -> str:
        """`2,345 records of 21 partitions exported to DIR (commit 1); 2 partitions with errors`."""
        commit, place = self._commit_of(), safe_text(self._place)
        exported = [row for row in self._rows if row["state"] == "exported"]
        records = sum(number(row, "records") for row in exported)
        removed = sum(number(row, "removed_records") for row in exported)
        if exported:
            text = f"{records:,} records of {_partitions(len(exported))} exported to {place} (commit {commit})"
            text += f", in the place of {removed:,} that were there" if removed else ""
        elif is_cut_short:
            text = f"Interrupted before anything was added to {place}"
        else:
            since = f"commit {commit}" if commit else "the start"
            text = f"Nothing new since {since} of {place}, in {_partitions(len(self._rows))}"
        stopped = sum(row["state"] == "stopped" for row in self._rows)
        damaged = sum(number(row, "errors") > 0 for row in self._rows) - stopped
        holes = sum(self._codes[code] for code in _HOLES)
        parts = [
            f"{_partitions(stopped)} stopped: the log is not the one that was exported" if stopped else "",
            f"{_partitions(damaged)} with errors" if damaged else "",
            f"{holes:,} {'hole' if holes == 1 else 'holes'} in the offsets" if holes else "",
        ]
        return "; ".join([text, *filter(None, parts)])


def _is_news(row: Row) -> bool:
    return row["state"] != "unchanged" or bool(number(row, "errors") or number(row, "warnings"))


def _rank(row: Row) -> tuple[int, int, int, str, int]:
    """The worst first, then the largest."""
    return (
        -number(row, "errors"),
        -number(row, "warnings"),
        -number(row, "records"),
        str(row["topic"]),
        number(row, "partition"),
    )


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"
