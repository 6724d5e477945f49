"""Matching records and their context, as `grep` shows them: records before and after each one, and at most N matches.

Marks are a byte for each record of a run, 1 for those that are meant; `None` means all of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalog_core.output.tables import Table

__all__ = ["Hits"]


class Hits:
    """The matching records of one log, run by run, in the order in which they are shown."""

    def __init__(self, before: int, after: int, most: int | None) -> None:
        self._before = before
        self._after = after
        self._left = most
        self._to_show = 0  # records after the last matching one
        self._kept: deque[tuple[Table, dict[str, object]]] = deque(maxlen=before)

    @property
    def is_needed(self) -> bool:
        """Whether other records are shown than those that match."""
        return bool(self._before or self._after or self._left is not None)

    @property
    def is_over(self) -> bool:
        """Whether all matching records that are asked for, and what is shown after them, were shown."""
        return self._left is not None and self._left <= 0 and self._to_show <= 0

    def widen(
        self, among: bytearray | None, hits: bytearray | None, count: int
    ) -> tuple[list[tuple[Table, dict[str, object]]], bytearray]:
        """Return the records of earlier runs to show first, and the marks of the run's records that are shown.

        Args:
            among: the records that may be shown.
            hits: the matching ones of them.
            count: number of records of the run.
        """
        shown = bytearray(count)
        if self._to_show <= 0 and hits is not None and not any(hits):
            return [], shown
        earlier: list[tuple[Table, dict[str, object]]] = []
        recent: deque[int] = deque(maxlen=self._before)  # rows that were passed and are not shown
        is_first = True
        for row in range(count):
            if among is not None and not among[row]:
                continue
            if (hits is None or hits[row]) and self._left != 0:
                if is_first and self._to_show <= 0 and len(recent) < self._before:
                    earlier = [*self._kept][len(recent) - self._before :]
                for passed in recent:
                    shown[passed] = 1
                recent.clear()
                self._left = None if self._left is None else self._left - 1
                self._to_show = self._after + 1
            if self._to_show > 0:
                shown[row] = 1
                self._to_show -= 1
                is_first = False
            else:
                recent.append(row)
        return earlier, shown

    def last_hidden(self, among: bytearray | None, shown: bytearray, count: int) -> list[int]:
        """Return the last rows of a run after those that are shown: a match may follow in the next run.

        What was kept before is forgotten if a record is shown, because the next context starts after it.
        """
        rows: list[int] = []
        if 1 in shown:
            self._kept.clear()
        for row in range(count - 1, -1, -1):
            if len(rows) == self._before or shown[row]:
                break
            if among is None or among[row]:
                rows.append(row)
        return rows[::-1]

    def keep(self, table: Table, row: dict[str, object]) -> None:
        """Keep a record of a run, for what is shown before a match in the next run."""
        self._kept.append((table, row))
