"""The differences between the copies of a partition: how many records each lacks or has alone, and where."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.ops.copies.comparison import NO_TIMES, Share, span_of
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalog_core.ops.copies.comparison import Absence, Stretch, Times

__all__ = ["MANY", "AtRisk", "CopyCounts", "Differences", "Range", "RangeKind"]


RangeKind = Literal["divergent", "damaged", "gap", "behind", "epoch", "trimmed", "compacted", "missing"]
"""What differs in a range; a `gap` becomes `compacted` or `missing` after all copies are read."""


MANY: Final = 100
"""Number of ranges of one kind that are kept apart; later ones are added to the last of their kind."""


_LOSSES: Final = frozenset({"damaged", "behind"})


_WORDS: Final[dict[str, str]] = {
    "damaged": "damaged",
    "gap": "no records",
    "behind": "no records (the log ends before)",
    "trimmed": "no records (the log starts after)",
}


class AtRisk(Struct):
    """Records by their number, offsets and times.

    Args:
        records: how many there are.
        first_offset: the lowest offset; None: there is no record.
        last_offset: the highest offset.
        times: the earliest and the latest timestamp.
        owners: numbers of the copies that have some of them.
    """

    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    times: Times = NO_TIMES
    owners: frozenset[int] = frozenset()

    def add(self, records: int, first_offset: int, last_offset: int, times: Times, owners: Iterable[int]) -> None:
        """Add that many records, which are between these offsets."""
        if records:
            self.records += records
            self.first_offset = first_offset if self.first_offset is None else min(self.first_offset, first_offset)
            self.last_offset = last_offset if self.last_offset is None else max(self.last_offset, last_offset)
            self.times = span_of((self.times, times))
            self.owners = self.owners.union(owners)


class CopyCounts(Struct):
    """Counts of records of one copy.

    Args:
        only_here: records that no other copy has.
        at_risk: records of other copies that are lost if only this copy is kept.
        in_gaps: records of other copies where this one has a gap, or fewer records.
        lacks: records of each other copy that this one lacks, by the number of that copy and the reason.
    """

    only_here: int = 0
    at_risk: AtRisk = field(default_factory=AtRisk)
    in_gaps: int = 0
    lacks: dict[tuple[int, Absence], int] = field(default_factory=dict)

    def lacks_of(self, others: Iterable[int], why: Absence) -> int:
        """Return the number of records that one of these copies has and this one lacks for this reason."""
        return max((self.lacks.get((other, why), 0) for other in others), default=0)

    def has_all_of(self, other: int) -> bool:
        """Return whether this copy lacks no record of another one."""
        return not any(records for (number, _), records in self.lacks.items() if number == other)


class Range(Struct):
    """Offsets at which copies differ in the same way; `has` is a text for each copy."""

    kind: RangeKind
    first: int
    last: int
    records: int
    has: tuple[str, ...]
    owners: frozenset[int]
    """Numbers of the copies with records there."""
    gaps: tuple[int, ...]
    """Number of records that each copy lacks there because of a gap."""
    times: Times
    """The earliest and the latest timestamp of the records there, in all copies."""


class Differences:
    """Adds up the stretches of some copies. No range crosses `cleaned_to`, the offset that a cleaner has reached."""

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
        """Add the next stretch."""
        parts = stretch.parts
        first = parts[0]
        if isinstance(first, Share) and not first.lacks and all(part == first for part in parts[1:]):
            self._is_adjacent = False
            return
        self._count(stretch)
        self._note_pairs(stretch)
        kind, has = _kind(parts), _texts(parts)
        records = max((part.records for part in parts if isinstance(part, Share)), default=0)
        if kind is None or (
            records == 0 and kind in {"gap", "behind", "trimmed"}
        ):  # compaction has left an empty batch
            return
        shares = _shares_of(parts)
        owners, times = frozenset(shares), span_of(part.times for part in shares.values())
        gaps = tuple(part.lacks if isinstance(part, Share) else records * (part == "gap") for part in parts)
        self._add_range(Range(kind, stretch.first, stretch.last, records, has, owners, gaps, times))

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
        last.times = span_of((last.times, new.times))
        last.gaps = tuple(one + other for one, other in zip(last.gaps, new.gaps, strict=True))

    def _key(self, each: Range) -> tuple[RangeKind, tuple[str, ...], bool]:
        """Return the key of a range; adjacent ranges with one key are merged."""
        return each.kind, each.has, each.last < self._cleaned_to

    def _count(self, stretch: Stretch) -> None:
        parts, shares = stretch.parts, _shares_of(stretch.parts)
        most: dict[int, int] = {}
        members: dict[int, int] = {}
        for share in shares.values():
            most[share.group] = max(most.get(share.group, 0), share.records + share.lacks)
            members[share.group] = members.get(share.group, 0) + 1
        total = sum(most.values())
        for counts, part in zip(self.tallies, parts, strict=True):
            if isinstance(part, Share):
                counts.only_here += part.records if members[part.group] == 1 else 0
                others = {number: other for number, other in shares.items() if other.group != part.group}
                _add_risk(counts.at_risk, total - most[part.group], stretch, others)
                counts.in_gaps += part.lacks
                continue
            _add_risk(counts.at_risk, total if part in _LOSSES else 0, stretch, shares)
            counts.in_gaps += total if part == "gap" else 0
            for number, other in shares.items():
                counts.lacks[number, part] = counts.lacks.get((number, part), 0) + other.records

    def _note_pairs(self, stretch: Stretch) -> None:
        for pair in stretch.against:
            self.diverged.setdefault(pair, stretch.first)
        if stretch.is_batch:
            for (one, first), (other, second) in combinations(_shares_of(stretch.parts).items(), 2):
                if first.leader_epoch != second.leader_epoch:
                    self.epochs_differ.setdefault((one, other), stretch.first)


def _shares_of(parts: Sequence[Share | Absence]) -> dict[int, Share]:
    """Return the parts with records, by the numbers of their copies."""
    return {number: part for number, part in enumerate(parts) if isinstance(part, Share)}


def _add_risk(risk: AtRisk, records: int, stretch: Stretch, shares: Mapping[int, Share]) -> None:
    """Add records that these shares have."""
    risk.add(records, stretch.first, stretch.last, span_of(part.times for part in shares.values()), shares)


def _kind(parts: Sequence[Share | Absence]) -> RangeKind | None:
    """Return the worst difference of a stretch; None: the copies agree."""
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
