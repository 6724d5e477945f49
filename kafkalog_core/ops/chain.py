"""How the segments of a partition follow each other: offsets that are in none of them, and offsets that are in two.

A command that reads the segments anyway fills an `OffsetSpan` for each of them. On a compacted log offsets are missing
everywhere, so a hole between two segments says nothing there; anywhere else it is a segment that was lost.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.decode import PayloadDamage, decode_run
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.ops.checkpoints import Checkpoints
    from kafkalog_core.ops.logfiles import LogFile, Unit
    from kafkalog_core.storage.scan import Run

__all__ = ["COMPACTED_TOPICS", "OffsetSpan", "chain_findings", "looks_compacted"]

COMPACTED_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
"""Kafka's own topics that every broker compacts."""


@dataclass(slots=True)
class OffsetSpan:
    """The offsets of one segment, from its base to its last batch; filled item by item of its scan, in any order."""

    path: str
    base_offset: int
    last_offset: int | None = None
    batches_end: int = 0
    damage_end: int = 0

    def add(self, item: Run | Damage) -> None:
        """What the scan gave out: of batches the last two, as offsets ascend but where the last one goes back."""
        if isinstance(item, Damage):
            if item.size_bytes:
                self.damage_end = max(self.damage_end, item.position + item.size_bytes)
            return
        batches = item.batches
        last = max(batches.column("last_offset")[-2:])
        self.last_offset = last if self.last_offset is None else max(self.last_offset, last)
        end = batches.column("position")[-1] + batches.column("size_bytes")[-1]
        self.batches_end = max(self.batches_end, end)

    @property
    def next_offset(self) -> int:
        """The offset behind the last one, the base offset where there is none."""
        return self.base_offset if self.last_offset is None else max(self.base_offset, self.last_offset + 1)

    @property
    def ends_in_damage(self) -> bool:
        """Whether what could not be read stands behind its last batch."""
        return self.damage_end > self.batches_end


def chain_findings(
    spans: Iterable[OffsetSpan | None],
    *,
    is_compacted: Callable[[], bool],
    topic: str | None = None,
    partition: int | None = None,
) -> Iterator[Finding]:
    """What is missing between the segments of a partition, and what is there twice.

    Args:
        spans: Its live segments in the order of their base offsets; None for one that was not read to its end.
        is_compacted: Asked, once, where offsets are missing for no other reason: whether the log is a compacted one.
        topic: Topic of the findings.
        partition: Partition number of the findings.
    """
    compacted: bool | None = None
    furthest: OffsetSpan | None = None
    for span in spans:
        if span is None:
            furthest = None
            continue
        if furthest is not None:
            previous, start, expected = os.path.basename(furthest.path), span.base_offset, furthest.next_offset
            code, offset, last = "segment.overlap", start, expected - 1
            if start > expected:
                if compacted is None and not furthest.ends_in_damage:
                    compacted = is_compacted()
                code = "segment.gap-compacted" if compacted and not furthest.ends_in_damage else "segment.gap"
                offset, last = expected, start - 1
            if start != expected:
                yield found(
                    code, span.path, topic=topic, partition=partition, offset=offset, last=last, previous=previous
                )
        if furthest is None or span.next_offset >= furthest.next_offset:
            furthest = span


def looks_compacted(unit: Unit, checkpoints: Checkpoints, options: ScanOptions) -> bool:
    """Whether a log is compacted: by its topic, by what a broker has cleaned of it, else by holes in its segments.

    For holes the segments are read once more, those first that are compacted first, up to the first hole.
    """
    if unit.topic in COMPACTED_TOPICS or checkpoints.is_cleaned(unit):
        return True
    return any(_has_holes(file, options) for file in unit.files)


def _has_holes(file: LogFile, options: ScanOptions) -> bool:
    """Whether offsets are missing inside of a segment without damage being the reason: what compaction leaves."""
    try:
        with Source.open(file.path) as source:
            expected = file.base_offset
            for item in scan(source, base_offset=file.base_offset, options=options):
                if isinstance(item, Damage):
                    expected = None
                    continue
                offsets = _offsets_of(item, options)
                if offsets is None:
                    expected = None
                    continue
                first, last, count = offsets
                if last - first + 1 > count or (expected is not None and first > expected):
                    return True
                expected = last + 1
    except StorageError:
        return False
    return False


def _offsets_of(run: Run, options: ScanOptions) -> tuple[int, int, int] | None:
    """First offset, last offset and number of records of a run; None where its records cannot be read."""
    counts = run.batches.column("record_count")
    last = max(run.batches.column("last_offset"))
    if min(counts) >= 0:
        return min(run.batches.column("base_offset")), last, sum(counts)
    first, count = last, 0
    for item in decode_run(run.memory, run.batches, max_bytes=options.max_batch_bytes):
        if isinstance(item, PayloadDamage):
            return None
        first = min(first, min(item.records.column("offset"), default=first))
        count += item.records.count
    return first, last, count
