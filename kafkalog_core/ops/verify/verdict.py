"""What is known of a segment and of a partition when they have been checked: plain values that go between processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalog_core.findings import Finding

__all__ = [
    "EpochStart",
    "OffsetGap",
    "PartitionVerdict",
    "PlaceVerdict",
    "SegmentVerdict",
    "ends_in_damage",
    "next_offset",
]


@dataclass(frozen=True, slots=True)
class EpochStart:
    """The first batch of a leader epoch in a segment, as its headers say, where the epoch before it was another.

    `last_before`: the last offset before it, with which the epoch before it ends.
    """

    epoch: int
    offset: int
    position: int
    last_before: int


@dataclass(frozen=True, slots=True)
class OffsetGap:
    """Offsets that are in no batch, before the batch at `position`."""

    position: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentVerdict:
    """One checked segment. Offsets and timestamps are null where there is no batch, or none that has one.

    Args:
        path: of its log.
        base_offset: the number in its name.
        size_bytes: of the log.
        is_last: whether it is the active segment.
        mtime_ms: modification time of the log.
        batches: whole ones.
        records: in them, as far as headers count them or they were decoded.
        first_offset: of the first batch.
        last_offset: of the last batch.
        first_timestamp_ms: the largest timestamp of the first batch that has one.
        max_timestamp_ms: the largest.
        formats: of its batches.
        epochs: where leader epochs start, of very many the first.
        is_thinned: whether batches hold fewer records than their offsets span: the mark of compaction.
        gaps: offsets between two batches that are in none, the first ones, where nothing is damaged.
        gap_count: all such places.
        damage: damaged spans (position, size_bytes), in order and not touching; of very many, neighbours are joined.
        lost_offsets: spans of offsets (first, last) that may have been in them; joined where damage is.
        findings: about its log and indexes.
        damage_joined: how many damaged places were joined with the one before.
        whole_between: whole bytes in joined spans.
        epoch_behind: the last leader epoch, where `epochs` are not all.
        is_unread: the log was not read to its end: it could not be opened, or it vanished. The figures are of what was
            read before, and nothing may be concluded from what they lack.
        unopened_batches: those whose records were not decoded.
        uncounted_batches: those of them that do not say how many records they have.
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
    epochs: tuple[EpochStart, ...]
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
        """The last leader epoch; -1: there is none."""
        if self.epoch_behind is not None:
            return self.epoch_behind
        return self.epochs[-1].epoch if self.epochs else -1

    @property
    def damage_count(self) -> int:
        """Damaged places."""
        return len(self.damage) + self.damage_joined

    @property
    def damage_bytes(self) -> int:
        """Bytes in damaged places."""
        return sum(size_bytes for _, size_bytes in self.damage) - self.whole_between


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdict:
    """One checked partition; `findings` hold those of its segments too, in the order of the files.

    `log_start_offset` and `log_end_offset` are what a broker would find: null where there is no segment.
    """

    path: str
    topic: str | None
    partition: int | None
    segments: tuple[SegmentVerdict, ...]
    findings: tuple[Finding, ...]
    log_start_offset: int | None
    log_end_offset: int | None
    at_risk_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceVerdict:
    """What was found about a log directory, or about a file that was named itself."""

    path: str
    findings: tuple[Finding, ...]


def next_offset(verdict: SegmentVerdict) -> int:
    """Return the offset after the last one of a segment; of one that was not read, the least that is possible."""
    return verdict.base_offset if verdict.last_offset is None else max(verdict.base_offset, verdict.last_offset + 1)


def ends_in_damage(verdict: SegmentVerdict) -> bool:
    """Whether what stands at the end of a segment's log is damaged."""
    return bool(verdict.damage) and sum(verdict.damage[-1]) >= verdict.size_bytes
