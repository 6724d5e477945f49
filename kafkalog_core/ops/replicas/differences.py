"""The differences between the copies of a partition: record counts of each copy, and ranges of offsets that differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.ops.replicas.comparison import Share

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_core.ops.replicas.comparison import Absence, Stretch

__all__ = ["MANY", "CopyCounts", "Differences", "Range", "RangeKind"]


RangeKind = Literal["divergent", "damaged", "gap", "behind", "epoch", "trimmed", "compacted", "missing"]
"""A `gap` becomes compacted or missing once all is read."""


MANY: Final = 100
"""Number of ranges of one kind that are kept apart; what follows them is added to the last one of its kind."""


_LOSSES: Final = frozenset({"damaged", "behind"})


_WORDS: Final[dict[str, str]] = {
    "damaged": "damaged",
    "gap": "nothing",
    "behind": "nothing: it ends before",
    "trimmed": "nothing: it starts after",
}


@dataclass(slots=True)
class CopyCounts:
    """Counts of records of one copy.

    Args:
        only_here: that no other copy has.
        at_risk: that others have, and that are gone when this one alone is kept; gaps do not count.
        in_gaps: that others have where this one has a gap, or fewer records.
        lacks: that each other copy has and this one does not, by the number of that copy and by why.
    """

    only_here: int = 0
    at_risk: int = 0
    in_gaps: int = 0
    lacks: dict[tuple[int, Absence], int] = field(default_factory=dict)

    def lacks_of(self, others: Iterable[int], why: Absence) -> int:
        """Return records that one of these copies has and this one does not, for this reason."""
        return max((self.lacks.get((other, why), 0) for other in others), default=0)


@dataclass(slots=True)
class Range:
    """Offsets at which copies differ in the same way; `has` is a text for each copy."""

    kind: RangeKind
    first: int
    last: int
    records: int
    has: tuple[str, ...]
    owners: frozenset[int]
    """Copies which have records there."""
    gaps: tuple[int, ...]
    """Records that each copy lacks there because of a gap."""


class Differences:
    """Adds up the stretches of that many copies. No range is on both sides of the offset that a cleaner has come to."""

    def __init__(self, copies: int, cleaned_to: int = 0) -> None:
        self._cleaned_to = cleaned_to
        self.tallies = [CopyCounts() for _ in range(copies)]
        self.ranges: list[Range] = []
        self.diverged: dict[tuple[int, int], int] = {}
        """First offset at which two copies hold different records."""
        self.epochs_differ: dict[tuple[int, int], int] = {}
        """First offset at which two copies hold the same records of different leader epochs."""
        self._counts: dict[RangeKind, int] = {}
        self._last_of: dict[tuple[RangeKind, tuple[str, ...], bool], Range] = {}
        self._is_adjacent = False

    def add(self, stretch: Stretch) -> None:
        """Take the next stretch."""
        parts = stretch.parts
        first = parts[0]
        if isinstance(first, Share) and not first.lacks and all(part == first for part in parts[1:]):
            self._is_adjacent = False
            return
        self._count(parts)
        self._note_pairs(stretch)
        kind, has = _kind(parts), _texts(parts)
        records = max((part.records for part in parts if isinstance(part, Share)), default=0)
        if kind is None or (records == 0 and kind in {"gap", "behind", "trimmed"}):  # what compaction leaves of a batch
            return
        owners = frozenset(number for number, part in enumerate(parts) if isinstance(part, Share))
        gaps = tuple(part.lacks if isinstance(part, Share) else records * (part == "gap") for part in parts)
        self._add_range(Range(kind, stretch.first, stretch.last, records, has, owners, gaps))

    def _add_range(self, new: Range) -> None:
        last = self.ranges[-1] if self.ranges and self._is_adjacent else None
        self._is_adjacent = True
        key = self._key(new)
        if last is None or self._key(last) != key:
            last = self._last_of.get(key) if self._counts.get(new.kind, 0) >= MANY else None
            if last is None:
                self._counts[new.kind] = self._counts.get(new.kind, 0) + 1
                self._last_of[key] = new
                self.ranges.append(new)
                return
        last.last = new.last
        last.records += new.records
        last.gaps = tuple(one + other for one, other in zip(last.gaps, new.gaps, strict=True))

    def _key(self, each: Range) -> tuple[RangeKind, tuple[str, ...], bool]:
        """Ranges of one key may become one."""
        return each.kind, each.has, each.last < self._cleaned_to

    def _count(self, parts: Sequence[Share | Absence]) -> None:
        most: dict[int, int] = {}
        members: dict[int, int] = {}
        for part in parts:
            if isinstance(part, Share):
                most[part.group] = max(most.get(part.group, 0), part.records + part.lacks)
                members[part.group] = members.get(part.group, 0) + 1
        total = sum(most.values())
        for counts, part in zip(self.tallies, parts, strict=True):
            if isinstance(part, Share):
                counts.only_here += part.records if members[part.group] == 1 else 0
                counts.at_risk += total - most[part.group]
                counts.in_gaps += part.lacks
                continue
            counts.at_risk += total if part in _LOSSES else 0
            counts.in_gaps += total if part == "gap" else 0
            for number, other in enumerate(parts):
                if isinstance(other, Share):
                    counts.lacks[number, part] = counts.lacks.get((number, part), 0) + other.records

    def _note_pairs(self, stretch: Stretch) -> None:
        for pair in stretch.against:
            self.diverged.setdefault(pair, stretch.first)
        if stretch.is_batch:
            shares = [(number, part) for number, part in enumerate(stretch.parts) if isinstance(part, Share)]
            for (one, first), (other, second) in combinations(shares, 2):
                if first.leader_epoch != second.leader_epoch:
                    self.epochs_differ.setdefault((one, other), stretch.first)


def _kind(parts: Sequence[Share | Absence]) -> RangeKind | None:
    """Return the worst of what is true."""
    shares = [part for part in parts if isinstance(part, Share)]
    if len({share.group for share in shares}) > 1:
        return "divergent"
    if "damaged" in parts:
        return "damaged"
    if "gap" in parts or any(share.lacks for share in shares):
        return "gap"
    if "behind" in parts:
        return "behind"
    if len({share.leader_epoch for share in shares}) > 1:
        return "epoch"
    return "trimmed" if "trimmed" in parts else None


def _texts(parts: Sequence[Share | Absence]) -> tuple[str, ...]:
    shares = [part for part in parts if isinstance(part, Share)]
    is_divergent = len({share.group for share in shares}) > 1
    says_epoch = len({share.leader_epoch for share in shares}) > 1 or is_divergent
    texts = []
    for part in parts:
        if not isinstance(part, Share):
            texts.append(_WORDS[part])
            continue
        text = f"version {part.group + 1} of the records" if is_divergent else "the records"
        text = "fewer records" if part.lacks else text
        texts.append(f"{text}, leader epoch {part.leader_epoch}" if says_epoch and part.leader_epoch >= 0 else text)
    return tuple(texts)
