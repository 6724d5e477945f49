"""Where in a file something is, in a number of cells of equal size."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalog_core.ops.verify.verdict import SegmentVerdict

__all__ = ["damage_map"]


def damage_map(segment: SegmentVerdict, cells: int) -> list[bool]:
    """Whether something is damaged in each of `cells` parts of the log; a single damaged byte shows."""
    damaged = [False] * cells
    size_bytes = max(segment.size_bytes, 1)
    for position, span_bytes in segment.damage:
        first = min(position * cells // size_bytes, cells - 1)
        last = min((position + max(span_bytes, 1) - 1) * cells // size_bytes, cells - 1)
        damaged[first : last + 1] = [True] * (last - first + 1)
    return damaged
