"""A segment during the simulated start of a broker: what is known of it so far, and the reads that depend on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.errors import StorageError
from kafkalog_core.kafka.sim.broker_walk import walk_as_broker
from kafkalog_core.kafka.sim.start.replay import ReplaySegment, SegmentReads
from kafkalog_core.kafka.sim.start.results import LoadedSegment
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from kafkalog_core.kafka.sim.start.candidates import Occasion
    from kafkalog_core.kafka.sim.start.recovery import SegmentRecoverer, SegmentRecovery
    from kafkalog_core.kafka.sim.start.replay import OffsetIndex
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.scan import Damage, Run, ScanPlace

__all__ = ["LogReading", "StartingSegment", "listed_span", "reaches_beyond", "reading_of"]


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


class LogReading:
    """A log that a start recovers, for the one that reads it: `take` for what a broker reads of it, or `walk`.

    Args:
        segment: of the log.
        path: of the log.
        recoverer: its recovery.
        takes_v2_magic: as of `walk_as_broker`.
        byte_range: the part that the listing has, where the file is longer; None: all of it.
    """

    def __init__(
        self,
        segment: Segment | None,
        path: str,
        recoverer: SegmentRecoverer,
        *,
        takes_v2_magic: bool,
        byte_range: tuple[int, int] | None,
    ) -> None:
        self.segment = segment
        self.limit_bytes = recoverer.limit_bytes
        self.is_whole = byte_range is None
        self.error: StorageError | None = None
        self._path = path
        self._recoverer = recoverer
        self._takes_v2_magic = takes_v2_magic
        self._byte_range = byte_range

    def take(self, item: Run | Damage) -> bool:
        """Take whole batches in the order of the log, or damage of size 0; return whether the recovery goes on."""
        return self._recoverer.take(item)

    def walk(self, place: ScanPlace | None = None) -> None:
        """Read the log as a broker does, after the place up to which another one has read it."""
        base_offset = self._recoverer.base_offset
        try:
            with Source.open(self._path) as source:
                for item in walk_as_broker(
                    source,
                    base_offset=base_offset,
                    max_batch_bytes=self.limit_bytes,
                    takes_v2_magic=self._takes_v2_magic,
                    byte_range=self._byte_range,
                    place=place,
                ):
                    if not self._recoverer.take(item):
                        break
        except StorageError as error:  # it ends the start, which waits for the result
            self.error = error


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
