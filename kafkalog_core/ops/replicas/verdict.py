"""Which copy is to be kept, and why: leader epochs first, then the high watermark, then what each copy lacks.

The copy with the latest leader epoch holds the history that the cluster went on with: every other one cuts its log to
it (`epochs`). Among the copies of that history the one to keep is the one that lacks least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core.ops.replicas.epochs import History, truncation_offset

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_core.ops.replicas.copies import Copy
    from kafkalog_core.ops.replicas.cursor import Cursor
    from kafkalog_core.ops.replicas.ledger import Ledger, Tally

__all__ = ["STATES", "Basis", "Lacks", "Read", "State", "Verdict", "judge"]

State = Literal["divergent", "damaged", "missing", "behind", "compacted", "trimmed", "identical", "keep"]
Basis = Literal["leader-epoch", "high-watermark", "length"]
STATES: Final[tuple[State, ...]] = (
    "divergent",
    "damaged",
    "missing",
    "behind",
    "compacted",
    "trimmed",
    "identical",
)
"""The worst first."""


class Read(NamedTuple):
    """One copy after it was read."""

    copy: Copy
    cursor: Cursor
    history: History
    tally: Tally
    in_gaps: tuple[int, int]
    """Records that are missing in it, and those that compaction took."""

    def lacks(self, others: Iterable[int]) -> Lacks:
        """What it lacks of what these copies have."""
        missing, compacted = self.in_gaps
        return Lacks(
            damaged=self.tally.lacks_of(others, "damaged"),
            missing=missing,
            behind=self.tally.lacks_of(others, "behind"),
            compacted=compacted,
            trimmed=self.tally.lacks_of(others, "trimmed"),
        )


class Lacks(NamedTuple):
    """Numbers of records by why a copy lacks them."""

    damaged: int
    missing: int
    behind: int
    compacted: int
    trimmed: int

    @property
    def lost(self) -> int:
        """Those that it should have."""
        return self.damaged + self.missing + self.behind


@dataclass(frozen=True, slots=True)
class Verdict:
    """`keep` is the number of the copy to keep, null: nothing tells; the other lists are by number of copy."""

    keep: int | None
    basis: Basis | None
    states: tuple[State, ...]
    divergent_at: tuple[int | None, ...]
    truncates_to: tuple[int | None, ...]
    silent: tuple[bool, ...]
    """Divergent below where its broker cuts it, so that a broker never notices."""
    lacks: tuple[Lacks, ...]
    """What each copy lacks of what those of the true history have."""

    @property
    def state(self) -> State:
        """The worst of all copies; the one to keep may lack something too."""
        states: list[State] = [state for state in self.states if state != "keep"]
        lacks = None if self.keep is None else self.lacks[self.keep]
        if lacks is not None and lacks.damaged:
            states.append("damaged")
        if lacks is not None and lacks.missing:
            states.append("missing")
        return min(states, key=STATES.index)

    @property
    def divergent_offset(self) -> int | None:
        """Where the first of them diverges."""
        return min((offset for offset in self.divergent_at if offset is not None), default=None)


def judge(reads: Sequence[Read], ledger: Ledger) -> Verdict:
    """The verdict over copies that were read to their ends."""
    truth, basis = _true_one(reads, ledger)
    numbers = range(len(reads))
    if truth is None:
        firsts = [
            min((offset for pair, offset in ledger.diverged.items() if number in pair), default=None)
            for number in numbers
        ]
        states: tuple[State, ...] = tuple("identical" if offset is None else "divergent" for offset in firsts)
        lacks = tuple(read.lacks(numbers) for read in reads)
        return Verdict(None, None, states, tuple(firsts), (None,) * len(reads), (False,) * len(reads), lacks)
    same = [number for number in numbers if _departs(reads, ledger, number, truth) is None]
    lacks = tuple(read.lacks(same) for read in reads)
    keep = min(same, key=lambda number: _rank(reads[number], lacks[number]))
    divergent = tuple(_departs(reads, ledger, number, keep) for number in numbers)
    cuts = tuple(_cut(reads, number, keep) for number in numbers)
    silent = tuple(
        offset is not None and (cut is None or cut > offset) for offset, cut in zip(divergent, cuts, strict=True)
    )
    states = tuple(
        "keep" if number == keep else _state(reads[number], lacks[number], divergent[number]) for number in numbers
    )
    return Verdict(keep, basis, states, divergent, cuts, silent, lacks)


def _rank(read: Read, lacks: Lacks) -> tuple[int, ...]:
    """The copy to keep comes first: least lost, fewest damaged places, then most old records, then the leader."""
    latest = -1 if read.history.latest is None else read.history.latest
    return lacks.lost, read.cursor.damage_count, read.copy.log_start, lacks.compacted, -latest


def _true_one(reads: Sequence[Read], ledger: Ledger) -> tuple[int | None, Basis | None]:
    """A copy of the true history, and what tells it; null: copies contradict each other, and nothing tells."""
    numbers = range(len(reads))
    epochs = [-1 if read.history.latest is None else read.history.latest for read in reads]
    best = max(numbers, key=lambda number: (epochs[number], reads[number].cursor.end_offset))
    others = [number for number in numbers if _departs(reads, ledger, number, best) is not None]
    if not others:
        return best, None
    if epochs[best] > max(epochs[number] for number in others):
        return best, "leader-epoch"
    first = min(offset for number in others if (offset := _departs(reads, ledger, number, best)) is not None)
    marks = [reads[number].copy.place.high_watermark or 0 for number in numbers]
    best = max(numbers, key=lambda number: marks[number])
    if marks[best] > first and all(marks[number] < marks[best] for number in others if number != best):
        return best, "high-watermark"
    ends = [read.cursor.end_offset for read in reads]
    best = max(numbers, key=lambda number: ends[number])
    if ends.count(ends[best]) == 1:
        return best, "length"
    return None, None


def _diverged(ledger: Ledger, one: int, other: int) -> int | None:
    return ledger.diverged.get((min(one, other), max(one, other)))


def _departs(reads: Sequence[Read], ledger: Ledger, number: int, truth: int) -> int | None:
    """First offset at which a copy is of another history than the true one; null: nowhere.

    Records may differ, or the leader epoch of the same records, or the true one may have begun an epoch before the
    copy's end.
    """
    if number == truth:
        return None
    offsets = [_diverged(ledger, number, truth)]
    cut = _cut(reads, number, truth)
    later = (reads[truth].history.latest or -1) > (reads[number].history.latest or -1)
    if later and cut is not None and cut < reads[number].cursor.end_offset:
        offsets.append(max(cut, reads[number].copy.log_start))
    pair = (min(number, truth), max(number, truth))
    offsets.append(ledger.epochs_differ.get(pair))
    return min((offset for offset in offsets if offset is not None), default=None)


def _cut(reads: Sequence[Read], number: int, leader: int) -> int | None:
    """Where a broker cuts the copy; null: it does not."""
    if number == leader:
        return None
    offset = truncation_offset(reads[number].history, reads[leader].history)
    return offset if offset is not None and offset < reads[number].cursor.end_offset else None


def _state(read: Read, lacks: Lacks, divergent_at: int | None) -> State:
    if divergent_at is not None:
        return "divergent"
    if lacks.damaged or read.cursor.damage_count > _harmless(read.cursor):
        return "damaged"
    if lacks.missing:
        return "missing"
    if lacks.behind:
        return "behind"
    if lacks.compacted:
        return "compacted"
    return "trimmed" if lacks.trimmed else "identical"


def _harmless(cursor: Cursor) -> int:
    """Torn tails and preallocated space are no damage; what is left of them is in front of no batch."""
    return len(cursor.flaws) if all(flaw.reason in {"torn-tail", "zero-filled"} for flaw in cursor.flaws) else 0
