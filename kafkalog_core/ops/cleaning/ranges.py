"""Which segments hold a range of offsets, as Kafka's `LogSegments.values(from, to)` tells."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.ops.cleaning.log import CleanSegment
    from kafkalog_core.ops.cleaning.rules import CleaningRules

__all__ = ["segments_in"]


def segments_in(
    segments: Sequence[CleanSegment], first_offset: int, end_offset: int, rules: CleaningRules
) -> Sequence[CleanSegment]:
    """Segments from the one that holds `first_offset` on, that start before `end_offset`.

    Args:
        segments: by base offset.
        first_offset: one below the first base offset gives all from the first segment on.
        end_offset: exclusive; not below `first_offset`.
        rules: up to 0.10.0 a range from an offset to itself has the segment that holds it.
    """
    if first_offset == end_offset and rules.shortcuts_empty_ranges:
        return ()
    bases = [segment.base_offset for segment in segments]
    first = max(0, bisect_right(bases, first_offset) - 1)
    return segments[first : max(first, bisect_left(bases, end_offset))]
