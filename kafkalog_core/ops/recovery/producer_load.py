"""How a broker loads the producers of a partition: the newest snapshot, then the batches behind it, and new snapshots.

Rules of `UnifiedLog.rebuildProducerState` (`Log.loadProducerState` before 2.8) and `LogLoader.recoverSegment`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.ops.producing.producers import ProducerStates
from kafkalog_core.ops.recovery.replay import replay_producers
from kafkalog_core.ops.recovery.snapshots import ProducerManager

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.ops.recovery.loader_rules import OffsetSearch
    from kafkalog_core.ops.recovery.replay import Obstacle, Reading
    from kafkalog_core.ops.recovery.snapshots import SnapshotFiles, SnapshotOptions

__all__ = ["ProducerLoad"]


class ProducerLoad:
    """The producers of one partition while it is loaded.

    Args:
        files: its snapshots; are changed.
        options: how they are read and written.
        marks_last_segments: whether snapshots are taken at the base offsets of the last two segments that are passed,
            and behind the last batch.
        search: how the release looks for an offset in a log.
    """

    def __init__(
        self, files: SnapshotFiles, options: SnapshotOptions, *, marks_last_segments: bool, search: OffsetSearch
    ) -> None:
        self._search = search
        self.files = files
        self._options = options
        self._marks_last_segments = marks_last_segments
        self.at_end_of_log: ProducerStates | None = None
        """All producers, once `at_end` has loaded them."""
        self.first_ended: int | None = None
        """The lowest first offset of the transactions that ended in what `at_end` has read."""

    def before(
        self, readings: Sequence[Reading], start_offset: int, base_offset: int
    ) -> tuple[ProducerManager, tuple[str, Obstacle] | None]:
        """The producers at the base offset of a segment that is recovered; with the place that cannot be read past.

        Args:
            readings: the segments that are known by then.
            start_offset: the checkpointed log start.
            base_offset: of the segment.
        """
        manager = ProducerManager(self.files, self._options)
        reads_apart = self._options.reads_apart
        obstacle = self._rebuild(manager, readings, start_offset, base_offset, reads_apart=reads_apart)
        return manager, obstacle

    def at_end(
        self, readings: Sequence[Reading], start_offset: int, end_offset: int, *, is_clean: bool
    ) -> tuple[str, Obstacle] | None:
        """Load them for good, up to the end of the log; the place that cannot be read past, where there is one."""
        manager = ProducerManager(self.files, self._options)
        if is_clean and not len(self.files):
            for offset in (*(reading.base_offset for reading in readings[-2:]), end_offset):
                manager.end_offset = offset
                manager.take()
            return None
        self.first_ended = None
        obstacle = self._rebuild(manager, readings, start_offset, end_offset)
        self.at_end_of_log = manager.states if obstacle is None else None
        return obstacle

    def _end(self, first_offset: int) -> None:
        self.first_ended = first_offset if self.first_ended is None else min(self.first_ended, first_offset)

    def remove_stray(self, base_offsets: set[int]) -> None:
        """Snapshots that are at no base offset go, except the newest where it lies behind the last segment."""
        stray = [offset for offset in self.files if offset not in base_offsets]
        for offset in stray:
            if offset != stray[-1] or (base_offsets and offset < max(base_offsets)):
                self.files.remove(offset)

    def _rebuild(
        self,
        manager: ProducerManager,
        readings: Sequence[Reading],
        start_offset: int,
        last_offset: int,
        *,
        reads_apart: bool = False,
    ) -> tuple[str, Obstacle] | None:
        marked = {reading.base_offset for reading in readings[-2:]} if self._marks_last_segments else set()
        is_at_end = manager.end_offset >= last_offset  # a fresh one, so that it is empty too
        manager.truncate_and_reload(start_offset, last_offset)
        if last_offset > manager.end_offset and not is_at_end:
            floor = next((each for each in reversed(readings) if each.base_offset <= last_offset), None)
            for reading in _between(readings, manager.end_offset, last_offset):
                manager.end_offset = max(reading.base_offset, manager.end_offset, start_offset)
                if reading.base_offset in marked:
                    manager.take()
                states = ProducerStates(sequences="unchecked") if reads_apart else manager.states
                obstacle = replay_producers(
                    reading,
                    states,
                    from_offset=manager.end_offset,
                    end_offset=last_offset if reading is floor else None,
                    search=self._search,
                    reads_empty_markers=self._options.reads_empty_markers,
                    style=self._options.style,
                    ended=self._end,
                )
                if obstacle is not None and reading.path is not None:
                    return reading.path, obstacle
                if reads_apart:
                    manager.update(states)
        manager.end_offset = last_offset
        manager.take()
        return None


def _between(readings: Sequence[Reading], first_offset: int, end_offset: int) -> Sequence[Reading]:
    """Segments from the one that holds an offset on, up to those that start at or behind another."""
    found = [reading for reading in readings if reading.base_offset < end_offset]
    floor = max((reading.base_offset for reading in found if reading.base_offset <= first_offset), default=first_offset)
    return [reading for reading in found if reading.base_offset >= floor]
