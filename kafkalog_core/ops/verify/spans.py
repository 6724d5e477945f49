"""Places in a file or a log: so many as can be told apart, and in a number of cells of equal size."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkalog_core.ops.verify.verdict import SegmentVerdict

__all__ = ["MOST_SPANS", "Spans", "damage_map"]

MOST_SPANS: Final = 4096
"""So many are told apart; of more, those with the least between them are joined."""
_ROOM: Final = 4  # so many times as many wait to be joined together, as that takes a look at all of them


class Spans:
    """Spans (first, last), put in as they come; those that touch are one.

    Beyond `MOST_SPANS` those are joined that have the least between them: `more` counts the joints, `between` adds up
    what they cover that no span has.
    """

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []
        self.more = 0
        self.between = 0

    def add(self, first: int, last: int) -> None:
        """One more; mostly it lies behind the others."""
        spans = self._spans
        if spans and spans[-1][1] + 1 == first:
            spans[-1] = spans[-1][0], max(last, spans[-1][1])
            return
        spans.append((first, last))
        if len(spans) > _ROOM * MOST_SPANS:
            self._join()

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """All of them, in the order in which they came as long as none were joined."""
        if len(self._spans) > MOST_SPANS:
            self._join()
        return tuple(self._spans)

    def _join(self) -> None:
        spans = sorted(self._spans)
        too_many = len(spans) - MOST_SPANS
        widest = sorted([behind - last for (_, last), (behind, _) in pairwise(spans)])[too_many - 1]
        joined = spans[:1]
        for first, last in spans[1:]:
            before, end = joined[-1]
            if first - end > widest or not too_many:
                joined.append((first, last))
                continue
            too_many -= 1
            self.more += 1
            self.between += first - end - 1 if first > end else 0
            joined[-1] = before, max(last, end)
        self._spans = joined


def damage_map(segment: SegmentVerdict, cells: int) -> list[bool]:
    """Whether something is damaged in each of `cells` parts of the log; a single damaged byte shows."""
    damaged = [False] * cells
    size_bytes = max(segment.size_bytes, 1)
    for position, span_bytes in segment.damage:
        first = min(position * cells // size_bytes, cells - 1)
        last = min((position + max(span_bytes, 1) - 1) * cells // size_bytes, cells - 1)
        damaged[first : last + 1] = [True] * (last - first + 1)
    return damaged
