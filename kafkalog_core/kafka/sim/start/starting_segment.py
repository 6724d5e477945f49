"""A segment during the simulated start of a broker: what is known of it so far, and the reads that depend on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.kafka.sim.start.replay import ReplaySegment, SegmentReads
from kafkalog_core.kafka.sim.start.results import LoadedSegment
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from kafkalog_core.kafka.sim.start.candidates import Occasion
    from kafkalog_core.kafka.sim.start.recovery import SegmentRecovery
    from kafkalog_core.kafka.sim.start.replay import OffsetIndex
    from kafkalog_core.storage.listing import Segment

__all__ = ["StartingSegment", "listed_span", "reaches_beyond", "reading_of"]


class StartingSegment(Struct):
    """A segment during the start; `end_offset`, and whether its offsets go back, are known once it was recovered."""

    base_offset: int
    segment: Segment | None
    size_bytes: int
    end_offset: int | None = None
    recovery: SegmentRecovery | None = None
    occasion: Occasion | None = None
    is_emptied: bool = False
    rebuilt_index: bytes | None = None
    is_disordered: bool = False

    @property
    def log_path(self) -> str | None:
        """Path of its log; None: it has none yet."""
        return None if self.segment is None or self.segment.log is None else self.segment.log.path

    def forget(self) -> None:
        """Release the indexes that were built of a log that is not truncated."""
        if self.segment is None or self.size_bytes == self.segment.size_bytes:
            self.recovery = None

    def frozen(self) -> LoadedSegment:
        """Return it as a result."""
        return LoadedSegment(
            base_offset=self.base_offset,
            segment=self.segment,
            size_bytes=self.size_bytes,
            recovery=self.recovery,
            occasion=self.occasion,
            is_emptied=self.is_emptied,
        )


def listed_span(live: StartingSegment, source: Source) -> tuple[int, int] | None:
    """Return the bytes of a log that the listing has, where the file is longer; None: it has all of them.

    The listing of a plan's result has logs that the plan truncates, and the files are as they were.
    """
    listed = source.size_bytes if live.segment is None else live.segment.size_bytes
    return (0, listed) if listed < source.size_bytes else None


def reaches_beyond(live: StartingSegment, end_offset: int) -> bool:
    """Return whether a batch of a recovered segment reaches beyond its end, which is after its last batch."""
    if live.log_path is None:
        return False
    with Source.open(live.log_path) as source:
        return SegmentReads(source, live.size_bytes, live.base_offset, None, search="last").highest() >= end_offset


def reading_of(live: StartingSegment) -> ReplaySegment:
    """Return how the producers of a segment are read."""
    index: OffsetIndex | None = None if live.segment is None else live.segment.index
    is_whole = live.end_offset is not None
    if live.rebuilt_index is not None:
        index, is_whole = live.rebuilt_index, False
    return ReplaySegment(live.base_offset, live.log_path, live.size_bytes, index, is_whole)
