"""Findings of damage with the place that each is in, and what a broker does there at its next start."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings.logs import DAMAGE_REASONS, ZERO_TAIL
from kafkalog_core.findings.of_07 import V07_SUFFIX
from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.ops.verify.disposition import DamagePlace, SegmentExtent, disposition
from kafkalog_core.ops.verify.metadata_log import snapshot_damage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.logdirs.context import PartitionContext
    from kafkalog_core.ops.verify.verdict import PartitionVerdict

__all__ = ["damage_places", "with_dispositions"]

_V07_ACTION: Final = (
    "Cuts it off: after an unclean stop 0.7 reads its last file, up to the first message that is not whole."
)
_V07_CURE: Final = "Nothing needs to be done: the next start cuts it, and no whole message is in it."


def damage_places(verdict: PartitionVerdict) -> Iterator[tuple[Finding, DamagePlace | None]]:
    """All findings of a partition; where one is of damage in a log of 0.8 or later, with its place among the logs."""
    extents = [SegmentExtent(segment.base_offset, segment.size_bytes) for segment in verdict.segments]
    indexes = {
        segment.path: index for index, segment in enumerate(verdict.segments) if not segment.path.endswith(V07_SUFFIX)
    }
    for finding in verdict.findings:
        reason = DAMAGE_REASONS.get(finding.code)
        index = indexes.get(finding.path)
        if reason is None or index is None or finding.position is None:
            yield finding, None
            continue
        index_name = segment_file_name(extents[index].base_offset, FileKind.OFFSET_INDEX)
        has_index = os.path.lexists(f"{os.path.dirname(finding.path)}/{index_name}")
        extents[index] = replace(extents[index], has_index=has_index)
        place = DamagePlace(
            reason=reason,
            position=finding.position,
            size_bytes=finding.size_bytes or 0,
            segments=extents,
            index=index,
            topic=verdict.topic,
            is_zeros=finding.code == ZERO_TAIL,
        )
        yield finding, place


def with_dispositions(verdict: PartitionVerdict, context: PartitionContext) -> Iterator[Finding]:
    """All findings of a partition; those of damage with what a broker does about it in this place."""
    last = verdict.segments[-1] if verdict.segments else None
    last_v07 = last.path if last is not None and last.path.endswith(V07_SUFFIX) else None
    for finding, place in damage_places(verdict):
        if place is not None:
            result = disposition(place, context)
            severity, cure = result.severity or finding.severity, result.cure or finding.cure
            step = result.next_step or finding.next_step
            yield replace(finding, broker_action=result.broker_action, severity=severity, cure=cure, next_step=step)
        elif finding.code == "log.torn-tail" and finding.path == last_v07 and context.is_clean is not True:
            yield replace(finding, severity="info", broker_action=_V07_ACTION, cure=_V07_CURE)
        else:
            yield snapshot_damage(finding) if finding.path.endswith(".checkpoint") else finding
