"""The results of a check: verdicts of segments, partitions and places, with their figures and findings."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kafkalog_core.kafka.rules.batch_checks import OffsetGap, SegmentEpochStart
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from kafkalog_core.findings import Finding

__all__ = [
    "MOST_SPANS",
    "OffsetGap",
    "PartitionMetadata",
    "PartitionVerdict",
    "PlaceVerdict",
    "SegmentEpochStart",
    "SegmentVerdict",
    "Spans",
    "damage_map",
    "ends_in_damage",
    "next_offset",
]


MOST_SPANS: Final = 4096
"""Number of spans that are kept apart; of more, those with the smallest distances are joined."""
_ROOM: Final = 4  # times as many are collected before they are joined: a join looks at all of them


class Spans:
    """A collection of spans (first, last); a span that continues the one before extends it.

    Beyond `MOST_SPANS` those with the smallest distances are joined: `more` counts the joins, `between` adds up the
    numbers in joined spans that no added span has.
    """

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []
        self.more = 0
        self.between = 0

    def add(self, first: int, last: int) -> None:
        """Add a span, mostly after the others."""
        spans = self._spans
        if spans and spans[-1][1] + 1 == first:
            spans[-1] = spans[-1][0], max(last, spans[-1][1])
            return
        spans.append((first, last))
        if len(spans) > _ROOM * MOST_SPANS:
            self._join()

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """All spans, in the order in which they were added unless some were joined, then ascending."""
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
    """Return whether each of `cells` equal parts of the log holds damage, be it a single byte."""
    damaged = [False] * cells
    size_bytes = max(segment.size_bytes, 1)
    for position, span_bytes in segment.damage:
        first = min(position * cells // size_bytes, cells - 1)
        last = min((position + max(span_bytes, 1) - 1) * cells // size_bytes, cells - 1)
        damaged[first : last + 1] = [True] * (last - first + 1)
    return damaged


class SegmentVerdict(Struct, frozen=True, kw_only=True):
    """One checked segment. Offsets and timestamps are None if no batch has one.

    Args:
        path: of its log.
        base_offset: the number in its name.
        size_bytes: of the log.
        is_last: whether it is the active segment.
        mtime_ms: modification time of the log.
        batches: number of whole batches.
        records: number of records in them, as far as headers count them or they were decoded.
        first_offset: of the first batch.
        last_offset: of the last batch.
        first_timestamp_ms: the largest timestamp of the first batch that has one.
        max_timestamp_ms: the largest of all batches.
        formats: of its batches.
        epochs: starts of leader epochs; of very many the first.
        is_thinned: whether batches hold fewer records than their offsets span: the sign of compaction.
        gaps: the first places between two batches where offsets are missing and nothing is damaged.
        gap_count: number of all such places.
        damage: damaged ranges of bytes (position, size_bytes), in order and apart; of very many, neighbours are joined.
        lost_offsets: spans of offsets (first, last) that may have been in them; joined like the damage.
        findings: about its log and indexes.
        damage_joined: number of damaged places that were joined with the one before.
        whole_between: undamaged bytes in joined ranges.
        epoch_behind: the last leader epoch, if `epochs` are not all.
        is_unread: whether the log was not read to its end: it could not be opened, or it vanished. The figures are of
            the part that was read; nothing may be concluded from what they lack.
        unopened_batches: number of batches whose records were not decoded.
        uncounted_batches: number of those whose headers do not count their records.
    """

    path: str
    base_offset: int
    size_bytes: int
    is_last: bool
    mtime_ms: int
    batches: int
    records: int
    first_offset: int | None
    last_offset: int | None
    first_timestamp_ms: int | None
    max_timestamp_ms: int | None
    formats: tuple[str, ...]
    epochs: tuple[SegmentEpochStart, ...]
    is_thinned: bool
    gaps: tuple[OffsetGap, ...]
    gap_count: int
    damage: tuple[tuple[int, int], ...]
    lost_offsets: tuple[tuple[int, int], ...]
    findings: tuple[Finding, ...]
    damage_joined: int = 0
    whole_between: int = 0
    epoch_behind: int | None = None
    is_unread: bool = False
    unopened_batches: int = 0
    uncounted_batches: int = 0

    @property
    def last_epoch(self) -> int:
        """The last leader epoch; -1: none."""
        if self.epoch_behind is not None:
            return self.epoch_behind
        return self.epochs[-1].epoch if self.epochs else -1

    @property
    def damage_count(self) -> int:
        """Number of damaged places."""
        return len(self.damage) + self.damage_joined

    @property
    def damage_bytes(self) -> int:
        """Number of damaged bytes."""
        return sum(size_bytes for _, size_bytes in self.damage) - self.whole_between


class PartitionMetadata(Struct, frozen=True):
    """The partition.metadata at `path`; `topic_id`: None: a broker refuses the file, or it cannot be read."""

    path: str
    topic_id: str | None
    findings: tuple[Finding, ...]


class PartitionVerdict(Struct, frozen=True, kw_only=True):
    """One checked partition; `findings` include those of its segments, errors first, then in the order of the files.

    `log_start_offset` and `log_end_offset` are those that a broker would find; None without segments.
    `at_risk_bytes`: bytes that a start recovers and may truncate; None: unknown.
    `metadata`: its partition.metadata; `findings` do not have those of it. None: it has none.
    """

    path: str
    topic: str | None
    partition: int | None
    segments: tuple[SegmentVerdict, ...]
    findings: tuple[Finding, ...]
    log_start_offset: int | None
    log_end_offset: int | None
    at_risk_bytes: int | None
    metadata: PartitionMetadata | None = None


class PlaceVerdict(Struct, frozen=True, kw_only=True):
    """The findings about a log directory, or about a file that was named itself."""

    path: str
    findings: tuple[Finding, ...]


def next_offset(verdict: SegmentVerdict) -> int:
    """Return the offset after the last one of a segment; the lowest possible one if it was not read."""
    return verdict.base_offset if verdict.last_offset is None else max(verdict.base_offset, verdict.last_offset + 1)


def ends_in_damage(verdict: SegmentVerdict) -> bool:
    """Return whether the end of a segment's log is damaged."""
    return bool(verdict.damage) and sum(verdict.damage[-1]) >= verdict.size_bytes
