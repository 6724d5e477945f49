"""What changed in a cluster, for people: how much of what comes first, then the changes, then the summary line."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.cells import counts_cell, time_cell
from kafkalog_cli.render.columns import SHOWN
from kafkalog_cli.render.grid import table_lines
from kafkalog_cli.render.summary import SummaryTable, closed, sentence_texts
from kafkalog_core.ops.cluster.request import ChangeBasis
from kafkalog_core.output import clusters, tables
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.output.chunk import RowChunk

__all__ = ["DifferenceTable", "HistoryTable"]

KEPT: Final = 2000
_ABNORMAL: Final = "bold red"


class _ChangeTable(SummaryTable["RowChunk | ChangeBasis"]):
    """A writer that keeps some of the changes, and counts all."""

    def __init__(self, is_selected: bool) -> None:
        """Take whether the changes of some topics or nodes alone are asked for."""
        super().__init__()
        self._what = "OF WHAT IS ASKED FOR " if is_selected else ""
        self._basis = ChangeBasis(between=())
        self._count = 0

    def write(self, item: RowChunk | ChangeBasis) -> None:
        """Keep an item, or the part of it that is shown."""
        if isinstance(item, ChangeBasis):
            self._basis = item
        elif item.table.name == tables.FINDING.name:
            self.add_findings(item.rows())
        else:
            for row in item.rows():
                self._count += 1
                self.take(row)

    @abstractmethod
    def take(self, row: Mapping[str, object]) -> None:
        """Keep a change, or count it."""

    def notes(self) -> list[Text]:
        """Return what the answer depends on."""
        return [line for note in self._basis.notes for line in (Text(), *sentence_texts(note, self.width, "dim"))]

    def answer(self, text: str) -> list[Text]:
        """Return the lines of the first sentence, with what is unknown."""
        gaps = self._basis.gaps
        style = _ABNORMAL if gaps else "bold"
        return sentence_texts(closed("; ".join((*gaps, text))), self.width, style)


class HistoryTable(_ChangeTable):
    """The changes of a metadata log: the last ones."""

    def __init__(self, is_selected: bool) -> None:
        """Take whether the changes of some topics or nodes alone are asked for."""
        super().__init__(is_selected)
        self._rows: deque[Mapping[str, object]] = deque(maxlen=KEPT)
        self._events: Counter[str] = Counter()
        self._first_ms: object = None

    def take(self, row: Mapping[str, object]) -> None:
        """Keep a change, and forget the oldest one of many."""
        if not self._events:
            self._first_ms = row["timestamp_ms"]
        self._events[str(row["event"])] += 1
        self._rows.append(row)

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return the answer, and the last changes."""
        del summary
        log = ", ".join(self._basis.between)
        if not self._count:
            return self.answer(f"NO CHANGE {self._what}is in {log}")
        rows = [*self._rows]
        times = f"{time_cell(self._first_ms)} to {time_cell(rows[-1]['timestamp_ms'])}"
        number = count_of(self._count, "CHANGE").upper()
        text = f"{number} {self._what}in {log}, {times}: {counts_cell(_most(self._events))}"
        left = self._count - len(rows)
        more = [Text(), Text(f"the last {len(rows):,} changes; --output ndjson has all")] if left else []
        columns = SHOWN[clusters.CLUSTER_EVENT.name]
        return [*self.answer(text), *more, *table_lines(columns, rows, self.width, noun="change")]


class DifferenceTable(_ChangeTable):
    """The differences of two images: the first ones."""

    def __init__(self, is_selected: bool) -> None:
        """Take whether the changes of some topics alone are asked for."""
        super().__init__(is_selected)
        self._rows: list[Mapping[str, object]] = []
        self._things: Counter[str] = Counter()
        self._last: tuple[object, object] | None = None

    def take(self, row: Mapping[str, object]) -> None:
        """Keep a difference if there are not too many yet. Those of one thing follow each other."""
        thing = row["kind"], row["what"]
        if thing != self._last:
            self._last = thing
            self._things[f"{str(row['kind']).removeprefix('cluster_')} {row['change']}"] += 1
        if len(self._rows) < KEPT:
            self._rows.append(row)

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return the answer, and the differences."""
        del summary
        before, after = self._basis.between or ("", "")
        if not self._count:
            return self.answer(f"NO DIFFERENCE {self._what}between {before} and {after}")
        things = count_of(self._things.total(), "CHANGE").upper()
        text = f"{things} {self._what}from {before} to {after}: {counts_cell(_most(self._things))}"
        columns = SHOWN[clusters.CLUSTER_DIFFERENCE.name]
        lines = table_lines(columns, self._rows, self.width, noun="difference", count=self._count)
        return [*self.answer(text), *lines]


def _most(counts: Counter[str]) -> dict[str, int]:
    """Return the counts, the largest first."""
    return dict(counts.most_common())
