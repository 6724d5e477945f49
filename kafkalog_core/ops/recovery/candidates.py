"""Which segments of a partition a broker recovers when it starts: one rule for everybody who asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.format.names import METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["first_recovered", "is_candidate"]


def is_candidate(
    next_base_offset: int | None, recovery_point: int | None, *, is_clean: bool | None, topic: str | None = None
) -> bool:
    """Whether a start recovers a segment: reads all of it, cuts it if it is bad, builds its indexes anew.

    That is so for every segment of the metadata log at every start, and after an unclean stop for those from the one
    that holds the recovery point on: the last one in any case. False where it is not known how the broker was stopped.
    A segment without an offset index is recovered besides, for itself alone, whatever this says.

    Args:
        next_base_offset: of the segment behind it; null: it is the last one.
        recovery_point: null: none is known, and 0 counts.
        is_clean: whether the last stop was clean; null: not known.
        topic: of the partition.
    """
    if topic == METADATA_TOPIC:
        return True
    if is_clean is not False:
        return False
    return next_base_offset is None or (recovery_point or 0) < next_base_offset


def first_recovered(
    base_offsets: Sequence[int],
    recovery_point: int | None,
    *,
    is_clean: bool | None,
    topic: str | None = None,
    only_last: bool = False,
) -> int | None:
    """Index of the first segment that is recovered, all behind it are too; null: none is, as far as is known.

    Args:
        base_offsets: of all segments, ascending.
        recovery_point: null: none is known.
        is_clean: whether the last stop was clean; null: not known.
        topic: of the partition.
        only_last: whether the release (0.8.0) recovers the last segment alone.
    """
    nexts = (*base_offsets[1:], None) if base_offsets else ()
    found = (
        index
        for index, next_base_offset in enumerate(nexts)
        if (next_base_offset is None or not only_last)
        and is_candidate(next_base_offset, recovery_point, is_clean=is_clean, topic=topic)
    )
    return next(found, None)
