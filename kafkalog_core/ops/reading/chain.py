"""How the segments of a partition follow each other: offsets that are in none of them, and offsets that are in two.

A command that reads the segments anyway fills an `OffsetSpan` for each of them. On a compacted log offsets are missing
everywhere, so a hole between two segments says nothing there; anywhere else it is a segment that was lost.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalog_core.findings import Finding, found
from kafkalog_core.findings.partitions import LOST_CURE
from kafkalog_core.storage.scan import Damage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.storage.scan import Run

__all__ = ["OffsetSpan", "chain_findings"]


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
                finding = found(
                    code, span.path, topic=topic, partition=partition, offset=offset, last=last, previous=previous
                )
                is_cut = code == "segment.gap" and furthest.ends_in_damage
                yield replace(finding, cure=LOST_CURE) if is_cut else finding
        if furthest is None or span.next_offset >= furthest.next_offset:
            furthest = span
