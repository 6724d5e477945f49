"""Offsets that are in no batch of a partition: inside of its segments, and between them."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from kafkalog_core.findings.partitions import GAP_LOST, GAP_UNKNOWN, LOST_CURE
from kafkalog_core.ops.logdirs.compaction import FEW_GAPS, LogPart, shows_no_compaction
from kafkalog_core.ops.reading.chain import OffsetSpan, chain_findings
from kafkalog_core.ops.verify.verdict import ends_in_damage, next_offset
from kafkalog_core.storage.scan import ScanOptions
from kafkalog_core.storage.segment import SegmentState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.findings import Finding, Severity
    from kafkalog_core.ops.logdirs.context import PartitionContext
    from kafkalog_core.ops.sink import Sink
    from kafkalog_core.ops.verify.verdict import SegmentVerdict
    from kafkalog_core.storage.partition import Partition

__all__ = ["Gaps"]


class Gaps:
    """All gaps of a partition whose segments have been read.

    Args:
        partition: its listing.
        context: what its log directory says of it.
        verdicts: what was found in its segments.
        is_compacted: whether the log is known to be a compacted one, or batches show that it is.
    """

    def __init__(
        self,
        partition: Partition,
        context: PartitionContext,
        verdicts: Sequence[SegmentVerdict],
        *,
        is_compacted: bool,
    ) -> None:
        self._partition = partition
        self._context = context
        self._verdicts = verdicts
        self._is_compacted = is_compacted

    @cached_property
    def count(self) -> int:
        """Places inside of segments and between them where offsets are missing."""
        return sum(verdict.gap_count for verdict in self._verdicts) + len(self._between)

    @property
    def is_compacted(self) -> bool:
        """Whether the log is a compacted one, or has so many gaps as a follower that has copied one."""
        return self._is_compacted or self.count > FEW_GAPS

    @cached_property
    def is_whole(self) -> bool:
        """Whether no offset may be missing: nobody has compacted the log, neither here nor on the leader of a copy."""
        is_unknown = any(verdict.is_unread for verdict in self._verdicts)
        if self._context.is_cleaned is not False or self.is_compacted or is_unknown:
            return False
        return not self.count or shows_no_compaction(self._before_the_gap(), ScanOptions())

    def findings(self, sink: Sink) -> list[Finding]:
        """What is missing between segments, and what is there twice; gaps inside of segments go into `sink`."""
        self._put_inside(sink)
        gaps = chain_findings(
            [None if verdict.is_unread else _span(verdict) for verdict in self._verdicts],
            is_compacted=lambda: self._is_compacted,
            topic=self._partition.topic,
            partition=self._partition.partition,
        )
        return [self._with_rescue(self._judged(gap)) for gap in gaps]

    @cached_property
    def _between(self) -> list[int]:
        """Numbers of the segments before which offsets are missing, for another reason than damage."""
        pairs = enumerate(pairwise(self._verdicts), start=1)
        return [
            index
            for index, (one, following) in pairs
            if following.base_offset > next_offset(one) and not ends_in_damage(one) and not one.is_unread
        ]

    def _before_the_gap(self) -> Iterator[LogPart]:
        """What stands before the only gap, the nearest first."""
        for index, verdict in enumerate(self._verdicts):
            if verdict.gaps:
                yield LogPart(verdict.path, verdict.base_offset, verdict.gaps[0].position)
                yield from self._segments_before(index)
        for index in self._between:
            yield from self._segments_before(index)

    def _segments_before(self, index: int) -> Iterator[LogPart]:
        for verdict in reversed(self._verdicts[:index]):
            yield LogPart(verdict.path, verdict.base_offset, verdict.size_bytes)

    def _put_inside(self, sink: Sink) -> None:
        """Offsets that are in no batch, in a log of which nothing says that it was compacted."""
        gaps = [] if self._is_compacted else [(one, gap) for one in self._verdicts for gap in one.gaps]
        if not gaps:
            return
        verdict, gap = gaps[0]
        if self.count > FEW_GAPS:
            code, judged = "batch.gaps", ""
            severity: Severity | None = "info" if self._context.is_cleaned is None else "warning"
        else:
            code, judged = "batch.gap", GAP_LOST if self.is_whole else GAP_UNKNOWN
            severity = None if self.is_whole else "warning"
        sink.add(
            code,
            verdict.path,
            position=gap.position,
            offset=gap.first_offset,
            severity=severity,
            last=gap.last_offset,
            count=self.count,
            judged=judged,
        )

    def _judged(self, gap: Finding) -> Finding:
        """A gap between segments that nothing explains is a loss."""
        if gap.code != "segment.gap" or not self.is_whole:
            return gap
        replacements = (other for other in self._partition.other_segments if other.state is SegmentState.SWAP)
        if any(other.base_offset == gap.offset for other in replacements):  # it is about to be filled
            return gap
        return replace(gap, severity="error", cure=LOST_CURE)

    def _with_rescue(self, gap: Finding) -> Finding:
        """A gap with the file that may fill it: what waits for its deletion goes at the next start."""
        if gap.code != "segment.gap":
            return gap
        for other in self._partition.other_segments:
            if other.state is SegmentState.DELETED and other.log is not None and other.base_offset == gap.offset:
                name = os.path.basename(other.log.path)
                cure = f"{name} may hold them: copy it away before a broker starts, which deletes it. {gap.cure}"
                return replace(gap, cure=cure)
        return gap


def _span(verdict: SegmentVerdict) -> OffsetSpan:
    damage_end = verdict.size_bytes if ends_in_damage(verdict) else 0
    return OffsetSpan(verdict.path, verdict.base_offset, verdict.last_offset, batches_end=0, damage_end=damage_end)
