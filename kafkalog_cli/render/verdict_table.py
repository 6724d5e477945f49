"""Verdicts of `kafkalog verify` for people: partitions with findings and the places of damage in their files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, cast

from rich.text import Text

from kafkalog_cli.render.cells import NONE, directory_name, human_bytes, offsets_cell, plain
from kafkalog_cli.render.grid import TableColumn, count_column, draws_blocks, size_column, table_lines
from kafkalog_cli.render.summary import SummaryTable
from kafkalog_cli.render.summary_line import VERDICT_STYLES, verdict_sentence
from kafkalog_cli.render.summary_line import verdict as verdict_word
from kafkalog_core.ops.verify.engine import partition_row, state_of
from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict, damage_map
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.ops.verify.verdict import SegmentVerdict

__all__ = ["QuietVerdicts", "VerdictTable"]

MAP_CELLS: Final = 48
KEPT_PARTITIONS: Final = 200
SHOWN_SEGMENTS: Final = 8
_STYLES: Final = {"damaged": "bold red", "unread": "yellow", "warnings": "yellow", "clean": "green"}
_WORDS: Final = {"damaged": "DAMAGED", "unread": "not read"}


def _damage_cell(row: Mapping[str, object]) -> str:
    """Return the size of damage; a torn tail after a crash and preallocated space are not damage."""
    is_damage = bool(row.get("damage_count")) and row["state"] == "damaged"
    return human_bytes(row["damage_bytes"]) if is_damage else NONE


_COLUMNS: Final = (
    TableColumn("partition", directory_name),
    TableColumn("state", lambda row: _WORDS.get(str(row["state"]), str(row["state"]))),
    count_column("errors", "errors"),
    count_column("warnings", "warnings"),
    count_column("segments", "segments", 2),
    count_column("records", "records", 3),
    TableColumn("offsets", offsets_cell, right=True, rank=4),
    size_column("log", "bytes", 1),
    TableColumn("damage", _damage_cell, right=True),
    TableColumn("at risk", lambda row: human_bytes(row["at_risk_bytes"]) if row.get("at_risk_bytes") else NONE, rank=5),
)


class VerdictTable(SummaryTable[PartitionVerdict | PlaceVerdict]):
    """A table of the partitions that are not clean; clean ones and findings of severity info are only counted.

    Partitions with damaged logs come first, then those with other errors: on a disk of thousands not all have a row.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_solid = draws_blocks(self.console)
        self._states: dict[str, int] = {}
        self._rows: tuple[list[Mapping[str, object]], ...] = ([], [], [])
        self._infos = 0

    def write(self, verdict: PartitionVerdict | PlaceVerdict) -> None:
        """Count a verdict; keep its findings, and its row if the partition is not clean."""
        self.add_findings(finding.row() for finding in verdict.findings if finding.severity != "info")
        self._infos += sum(finding.severity == "info" for finding in verdict.findings)
        if not isinstance(verdict, PartitionVerdict):
            return
        state = state_of(verdict)
        self._states[state] = self._states.get(state, 0) + 1
        has_damage = any(segment.damage for segment in verdict.segments)
        rows = self._rows[2 if state != "damaged" else 0 if has_damage else 1]
        if state != "clean" and len(rows) < KEPT_PARTITIONS:
            rows.append(partition_row(verdict) | {"maps": self._maps(verdict)})

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return the table of partitions, with a map of each damaged segment."""
        del summary
        return table_lines(
            _COLUMNS,
            [row for rows in self._rows for row in rows][:KEPT_PARTITIONS],
            self.width,
            noun="partition",
            count=sum(count for state, count in self._states.items() if state != "clean"),
            style_of=lambda row: _STYLES[str(row["state"])],
            below=lambda row: cast("list[Text]", row["maps"]),
        )

    def notes(self) -> list[Text]:
        """Return the line about findings of severity info."""
        if not self._infos:
            return []
        note = f"{count_of(self._infos, 'normal finding')} of severity info: --output ndjson has them"
        return [Text(note, "dim")]

    def last_line(self, summary: Mapping[str, object]) -> Text:
        """Return the summary line, with the partitions by state."""
        return Text(verdict_sentence(summary, self._states), VERDICT_STYLES[verdict_word(summary)])

    def _maps(self, verdict: PartitionVerdict) -> list[Text]:
        """Return a line for each segment with damage: its name, and where in the file the damage is."""
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
    """A writer of the summary line alone, to stderr."""

    def __init__(self) -> None:
        self._states: dict[str, int] = {}

    def write(self, verdict: PartitionVerdict | PlaceVerdict) -> None:
        """Count a verdict."""
        if isinstance(verdict, PartitionVerdict):
            state = state_of(verdict)
            self._states[state] = self._states.get(state, 0) + 1

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the line."""
        sys.stderr.write(f"{verdict_sentence(summary, self._states)}\n")
