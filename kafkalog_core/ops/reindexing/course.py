"""Where the segments of a partition stand among each other, as far as a reindex asks."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.ops.recovery.candidates import first_recovered
from kafkalog_core.ops.recovery.loader_rules import rules_of
from kafkalog_core.ops.reindexing.epochs import EpochExtent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_core.ops.recovery.epochs import EpochStart
    from kafkalog_core.ops.reindexing.task import ReindexTask
    from kafkalog_core.storage.segment import Segment

__all__ = ["epoch_extent", "leaving", "next_base", "recovered_from", "rising"]


def recovered_from(task: ReindexTask, segments: Sequence[Segment]) -> int:
    """The base offset from which on a broker recovers all segments at its next start, as far as that is known."""
    if not segments or task.context.is_clean is not False:
        return MAX_INT64
    bases = [segment.base_offset for segment in segments]
    only_last = rules_of(task.release).recovers == "last"
    first = first_recovered(bases, task.context.recovery_point or 0, is_clean=False, topic=None, only_last=only_last)
    return MAX_INT64 if first is None else bases[first]


def leaving(
    task: ReindexTask, segments: Sequence[Segment], recovered_from: int, log_start: int
) -> Callable[[int], bool]:
    """Return whether the next start deletes the snapshot of an offset, unless the log ends there.

    After an unclean stop ProducerStateManager.truncateAndReload deletes those beyond the base of the first segment that
    is recovered, and those up to the log start; the recovery writes one at each base offset again. From 2.8 on
    removeStraySnapshots deletes the others that are at no base offset. So the one of an earlier clean stop is deleted.
    """
    bases = frozenset(segment.base_offset for segment in segments)
    sweeps = rules_of(task.release).removes_stray_snapshots

    def is_leaving(offset: int) -> bool:
        if task.context.is_clean is not False:
            return False
        return offset <= log_start or (offset not in bases and (sweeps or offset > recovered_from))

    return is_leaving


def next_base(segments: Sequence[Segment], segment: Segment) -> int:
    """Base offset of the segment behind one; the largest offset where it is the last."""
    at = bisect_right(segments, segment.base_offset, key=lambda each: each.base_offset)
    return segments[at].base_offset if at < len(segments) else MAX_INT64


def rising(epochs: Sequence[EpochStart]) -> list[EpochStart]:
    """Those that are higher than all before them."""
    found: list[EpochStart] = []
    for each in epochs:
        if not found or each.epoch > found[-1].epoch:
            found.append(each)
    return found


def epoch_extent(task: ReindexTask, first_base: int, end_offset: int, *, has_legacy: bool) -> EpochExtent:
    """What part of the log its leader epochs are told of."""
    checkpoint = task.context.log_start_offset
    by_checkpoint = rules_of(task.release).epochs_from_checkpoint
    return EpochExtent(
        first_offset=first_base if checkpoint is None else min(first_base, checkpoint),
        log_start=checkpoint or 0 if by_checkpoint else max(first_base, checkpoint or 0),
        end_offset=end_offset,
        has_legacy=has_legacy,
        is_start_known=task.context.is_start_known,
    )
