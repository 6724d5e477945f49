"""Verdicts for people: partitions that are not clean and where in their files, what was found, one line at last."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Final, cast

from rich.text import Text

from kafkalog_cli.render.cells import NONE, human_bytes, plain, safe_text, span
from kafkalog_cli.render.columns import Shown
from kafkalog_cli.render.table import VERDICT_STYLES, choose_layout, open_console
from kafkalog_cli.render.text import finding_lines, verdict_sentence
from kafkalog_cli.render.text import verdict as verdict_word
from kafkalog_core.ops.verify.engine import partition_row, state_of
from kafkalog_core.ops.verify.verdict import PartitionVerdict, damage_map
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.verify.verdict import PlaceVerdict, SegmentVerdict

__all__ = ["QuietVerdicts", "VerdictTable"]

MAP_CELLS: Final = 48
KEPT_FINDINGS: Final = 500
KEPT_PARTITIONS: Final = 200
SHOWN_SEGMENTS: Final = 8
_STYLES: Final = {"damaged": "bold red", "unread": "yellow", "warnings": "yellow", "clean": "green"}
_WORDS: Final = {"damaged": "DAMAGED", "unread": "not read"}
_RANK: Final = {"error": 0, "warning": 1, "info": 2}


def _number(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: f"{row[name]:,}" if isinstance(row.get(name), int) else NONE, right=True, rank=rank)


def _is_damaged(row: Mapping[str, object]) -> bool:
    """Return whether bytes that hold no batch are damage, and not what a crash or preallocation leaves."""
    return bool(row.get("damage_count")) and row["state"] == "damaged"


_COLUMNS: Final = (
    Shown("partition", lambda row: safe_text(str(row["name"])), flexible=True),
    Shown("state", lambda row: _WORDS.get(str(row["state"]), str(row["state"]))),
    _number("errors", "errors"),
    _number("warnings", "warnings"),
    _number("segments", "segments", 2),
    _number("records", "records", 3),
    Shown("offsets", lambda row: span(row.get("log_start_offset"), _last(row)), right=True, rank=4),
    Shown("log", lambda row: human_bytes(row.get("bytes")), right=True, rank=1),
    Shown("damage", lambda row: human_bytes(row["damage_bytes"]) if _is_damaged(row) else NONE, right=True),
    Shown("at risk", lambda row: human_bytes(row["at_risk_bytes"]) if row.get("at_risk_bytes") else NONE, rank=5),
)


class VerdictTable:
    """Clean partitions are counted, the others are shown when all have been checked, the findings below them."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        self._console = open_console()
        self._is_solid = self._console.encoding.lower().replace("-", "") == "utf8"
        self._states: dict[str, int] = {}
        self._rows: list[tuple[Mapping[str, object], list[Text]]] = []
        self._findings: list[Finding] = []
        self._left_out = 0
        self._infos = 0

    def write(self, verdict: PartitionVerdict | PlaceVerdict) -> None:
        """Count a verdict, and keep what of it is to be shown."""
        self._keep_findings(verdict.findings)
        if not isinstance(verdict, PartitionVerdict):
            return
        state = state_of(verdict)
        self._states[state] = self._states.get(state, 0) + 1
        if state != "clean" and len(self._rows) < KEPT_PARTITIONS:
            self._rows.append((partition_row(verdict) | {"name": _name(verdict)}, self._maps(verdict)))

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show everything, the summary last."""
        lines = self._partition_lines()
        if self._findings:
            lines += [Text(), Text("Findings", "bold")]
            lines += finding_lines([finding.row() for finding in self._findings], self._console.width)
        if self._left_out:
            lines.append(Text(f"... and {count_of(self._left_out, 'more finding')}: --output ndjson has all of them"))
        if self._infos:
            note = f"{count_of(self._infos, 'finding')} of severity info, which are normal: --output ndjson has them"
            lines.append(Text(note, "dim"))
        lines += [Text(), Text(verdict_sentence(summary, self._states), VERDICT_STYLES[verdict_word(summary)])]
        self._console.print(*lines, sep="\n", soft_wrap=True)

    def _keep_findings(self, findings: tuple[Finding, ...]) -> None:
        for finding in findings:
            if finding.severity == "info":
                self._infos += 1
            elif len(self._findings) < KEPT_FINDINGS:
                self._findings.append(finding)
            else:
                self._left_out += 1

    def _partition_lines(self) -> list[Text]:
        if not self._rows:
            return []
        cells = [[column.cell(row) for column in _COLUMNS] for row, _ in self._rows]
        layout = choose_layout(_COLUMNS, cells, self._console.width)
        lines = [Text(layout.line(layout.titles), "bold underline")]
        for (row, maps), texts in zip(self._rows, cells, strict=True):
            lines.append(Text(layout.line(texts), _STYLES[str(row["state"])]))
            lines += maps
        hidden = sum(count for state, count in self._states.items() if state != "clean") - len(self._rows)
        if hidden > 0:
            lines.append(Text(f"... and {count_of(hidden, 'more partition')}: --output ndjson names them all"))
        return lines

    def _maps(self, verdict: PartitionVerdict) -> list[Text]:
        """A line for each segment with damage: its name, and where in the file it is damaged."""
        damaged = [segment for segment in verdict.segments if segment.damage]
        lines = [self._map(segment) for segment in damaged[:SHOWN_SEGMENTS]]
        if len(damaged) > SHOWN_SEGMENTS:
            lines.append(Text(f"    and {count_of(len(damaged) - SHOWN_SEGMENTS, 'more segment')} with damage"))
        return lines

    def _map(self, segment: SegmentVerdict) -> Text:
        whole, broken, left, right = ("█", "░", "▕", "▏") if self._is_solid else ("#", "!", "[", "]")
        line = Text(f"    {plain(segment.path.rpartition('/')[2])}  {left}")
        for is_damaged in damage_map(segment, MAP_CELLS):
            line.append(broken if is_damaged else whole, "bold red" if is_damaged else "green")
        position, size_bytes = segment.damage[0]
        where = f"{right}  {human_bytes(size_bytes)} at byte {position:,} of {segment.size_bytes:,}"
        more = segment.damage_count - 1
        return line.append(where + (f", and {count_of(more, 'more place')}" if more else ""))


class QuietVerdicts:
    """One line on stderr, when all is done."""

    def __init__(self) -> None:
        self._states: dict[str, int] = {}

    def write(self, verdict: PartitionVerdict | PlaceVerdict) -> None:
        """Count it."""
        if isinstance(verdict, PartitionVerdict):
            state = state_of(verdict)
            self._states[state] = self._states.get(state, 0) + 1

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the line."""
        sys.stderr.write(f"{verdict_sentence(summary, self._states)}\n")


def _name(verdict: PartitionVerdict) -> str:
    """The directory's own name, which tells a `-delete` one from the one that is served."""
    return verdict.path.rstrip("/").rpartition("/")[2]


def _last(row: Mapping[str, object]) -> int | None:
    end = row.get("log_end_offset")
    return None if end is None else cast("int", end) - 1
