"""Copies side by side: stretches of offsets, and what each copy has of them.

Where batches of all copies agree in their headers, whole columns are compared at once. Where they do not, the stretch
is what the shortest of them covers, and its records are compared. Memory: a window of each copy, and the digests of one
batch of each.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core.ops.replicas.contents import Contents, contents_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.ops.replicas.cursor import Cursor, Head

__all__ = ["Absence", "Share", "Stretch", "lockstep"]

Absence = Literal["damaged", "gap", "behind", "trimmed"]
"""Why a copy has nothing there: damage; offsets that no batch has; behind its end; before its start."""
_HARMLESS_TAILS: Final = frozenset({"torn-tail", "zero-filled"})


class Share(NamedTuple):
    """What a copy has: `group` is the same for copies that agree; `lacks`: records that others of its group have."""

    leader_epoch: int
    records: int
    group: int = 0
    lacks: int = 0


class Stretch(NamedTuple):
    """Offsets `first` to `last`, and what each copy has of them.

    `against`: pairs of copies, by number, that have other records at one offset. `is_batch`: what they have is the same
    batch, but perhaps for its leader epoch.
    """

    first: int
    last: int
    parts: tuple[Share | Absence, ...]
    against: frozenset[tuple[int, int]] = frozenset()
    is_batch: bool = False


@dataclass(slots=True)
class _Lane:
    """A copy on its way: `at` is the first offset of the head that was not compared yet."""

    cursor: Cursor
    at: int = -1
    contents: Contents | None = None
    trust: int = field(default=1 << 20)

    @property
    def head(self) -> Head | None:
        return self.cursor.head

    @property
    def start(self) -> int:
        """Where what is left of the head starts; it has one."""
        head = self.cursor.head
        return self.at if head is None else max(head.first, self.at)

    def absence(self, first: int) -> Absence:
        """Why there is nothing from `first` on, up to the head."""
        cursor = self.cursor
        if first < cursor.log_start:
            return "trimmed"
        if cursor.head is None:
            is_torn = all(flaw.reason in _HARMLESS_TAILS for flaw in cursor.flaws)
            return "behind" if is_torn else "damaged"
        return "damaged" if cursor.flaws else "gap"

    def look(self, max_bytes: int) -> Contents:
        """The records of the head."""
        if self.contents is None:
            self.contents = contents_of(*self.cursor.batch(), max_bytes)
        return self.contents

    def skip(self, count: int) -> None:
        self.contents = None
        self.cursor.skip(count)


def lockstep(cursors: Sequence[Cursor], max_bytes: int) -> Iterator[Stretch]:
    """Stretches in the order of their offsets; offsets that no copy has are in one only where damage is the reason."""
    lanes = [_Lane(cursor) for cursor in cursors]
    frontier = min(cursor.log_start for cursor in cursors)
    while any(lane.head is not None for lane in lanes):
        live = [lane for lane in lanes if lane.head is not None]
        low = min(lane.start for lane in live)
        if low > frontier:
            absences = tuple(lane.absence(frontier) for lane in lanes)
            if "damaged" in absences:
                yield Stretch(frontier, low - 1, absences)
        here = [lane for lane in live if lane.start == low]
        stretch = _same(lanes, here, low) or _compared(lanes, here, low, max_bytes)
        yield stretch
        frontier = stretch.last + 1


def _limit(lanes: Sequence[_Lane], here: Sequence[_Lane], low: int) -> int:
    """Last offset up to which those that have nothing at `low` have nothing, for one and the same reason."""
    limit = 1 << 63
    for lane in lanes:
        if lane in here:
            continue
        if lane.head is not None:
            limit = min(limit, lane.start - 1)
        if low < lane.cursor.log_start:
            limit = min(limit, lane.cursor.log_start - 1)
    return limit


def _same(lanes: Sequence[_Lane], here: Sequence[_Lane], low: int) -> Stretch | None:
    """As many batches at once as are the same in all copies that have them; null: the first ones differ."""
    first = here[0]
    if any(lane.head is None or lane.head.first != low for lane in here):
        return None
    limit = _limit(lanes, here, low)
    count = min(min(lane.cursor.rows_left, lane.trust) for lane in here)
    if first.cursor.last_offset_at(count - 1) > limit:
        count = _rows_up_to(first.cursor, count, limit)
    epoch = first.head.leader_epoch if first.head is not None else -1
    while count:
        pattern = first.cursor.ahead(count)
        if all(lane.cursor.ahead(count) == pattern for lane in here[1:]):
            break
        count //= 2
    for lane in here:
        lane.trust = max(1, 2 * count)
    if not count:
        return None
    last, records = first.cursor.last_offset_at(count - 1), first.cursor.records_in(count)
    parts = tuple(Share(epoch, records) if lane in here else lane.absence(low) for lane in lanes)
    for lane in here:
        lane.skip(count)
    return Stretch(low, last, parts)


def _rows_up_to(cursor: Cursor, count: int, limit: int) -> int:
    """Batches from the head on that end by `limit`."""
    return bisect_left(range(count), True, key=lambda row: cursor.last_offset_at(row) > limit)


def _compared(lanes: Sequence[_Lane], here: Sequence[_Lane], low: int, max_bytes: int) -> Stretch:
    """A stretch of batches that are cut otherwise, or are not the same: by their records."""
    high = _limit(lanes, here, low)
    for lane in here:
        high = min(high, lane.head.last if lane.head is not None else high)
    numbers = [number for number, lane in enumerate(lanes) if lane in here]
    is_batch = _is_one_batch(here, low, high)
    digests = [] if is_batch else [lane.look(max_bytes).between(low, high) for lane in here]
    shares = iter(_of_batch(here) if is_batch else _shares(here, digests))
    parts: list[Share | Absence] = [next(shares) if lane in here else lane.absence(low) for lane in lanes]
    against = frozenset(
        (numbers[one], numbers[other])
        for one, other in combinations(range(len(digests)), 2)
        if not _agree(digests[one], digests[other])
    )
    for lane in here:
        if lane.head is not None and lane.head.last == high:
            lane.skip(1)
        else:
            lane.at = high + 1
    return Stretch(low, high, tuple(parts), against, is_batch)


def _is_one_batch(here: Sequence[_Lane], low: int, high: int) -> bool:
    """Whether all have the same batch there; the leader epoch is outside of its checksum."""
    heads = {(head.first, head.last, head[2:4], head.crc) for lane in here if (head := lane.head) is not None}
    return len(heads) == 1 and next(iter(heads))[:2] == (low, high)


def _of_batch(here: Sequence[_Lane]) -> list[Share]:
    return [Share(lane.head.leader_epoch, lane.head.records) for lane in here if lane.head is not None]


def _shares(here: Sequence[_Lane], digests: Sequence[dict[int, bytes]]) -> list[Share]:
    """Groups of copies of which no record contradicts another one.

    Where there is one group, leader epochs say nothing: compaction may join batches of several.
    """
    unions: list[dict[int, bytes]] = []
    groups: list[int] = []
    for each in digests:
        number = next((at for at, union in enumerate(unions) if _agree(each, union)), len(unions))
        if number == len(unions):
            unions.append({})
        unions[number].update(each)
        groups.append(number)
    epochs = [lane.head.leader_epoch if lane.head is not None and len(unions) > 1 else -1 for lane in here]
    return [
        Share(epoch, len(each), group, len(unions[group]) - len(each))
        for epoch, each, group in zip(epochs, digests, groups, strict=True)
    ]


def _agree(one: dict[int, bytes], other: dict[int, bytes]) -> bool:
    """Whether no offset of both has two records."""
    return all(one[offset] == other[offset] for offset in one.keys() & other.keys())
