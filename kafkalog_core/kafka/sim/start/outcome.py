"""What the next start of a broker does with one place in a log, taken from one simulated start of its partition.

verify takes what it reports about a broker from here, and truncate plans with the same simulation.
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
    from kafkalog_core.kafka.sim.start.results import LoadedSegment, LoadOptions, LoadProblem, LoadResult
    from kafkalog_core.kafka.sim.start.snapshots import SnapshotFate
    from kafkalog_core.storage.partition import Partition

__all__ = ["STOPS", "Fate", "Outcome", "Start", "offset_at"]

STOPS: Final = frozenset({"fatal", "offline", "old-release", "first-offset"})
"""The kinds of problems with which the broker does not start, or not with this log directory."""
_HEADERS: Final = ScanOptions(check=False)

Fate = Literal["stops", "unknown", "deleted", "truncated", "kept", "unread"]
"""`stops`: the broker does not load the partition; `unknown`: the simulation does not go that far; `deleted`: the start
deletes the whole segment; `truncated`: it truncates the log, at or before the place; `kept`: it recovers the segment
and keeps the place; `unread`: it does not read the place.
"""


class Outcome(Struct, frozen=True, kw_only=True):
    """What a start does with the bytes of a log from a place on.

    Args:
        fate: of the place.
        position: byte at which the log is truncated; None: it is not.
        lost_bytes: bytes of logs that the start deletes from there on, those of later segments included.
        later: number of later segments that it deletes.
        why: why it deletes or recovers the segment, a clause; empty: there is nothing to say.
        problem: why the broker does not start, or why it is unknown what it does; None: it starts.
        is_at_place: whether the problem is at the place or, where its byte is not known, in its file.
    """

    fate: Fate
    position: int | None = None
    lost_bytes: int = 0
    later: int = 0
    why: str = ""
    problem: LoadProblem | None = None
    is_at_place: bool = False


class Start:
    """One start of a broker on one partition, simulated when it is asked for the first time.

    Args:
        partition: its files as they are, of 0.8.0 or later.
        context: what its log directory says of it; whether the last shutdown was clean is known.
        options: the release and the settings.
    """

    def __init__(self, partition: Partition, context: PartitionContext, options: LoadOptions) -> None:
        self._partition = partition
        self._context = context
        self._options = options

    @property
    def release(self) -> Release:
        """The release whose rules are used."""
        return self._options.release

    @property
    def is_clean(self) -> bool:
        """Whether the start follows a clean shutdown."""
        return bool(self._context.is_clean)

    @cached_property
    def result(self) -> LoadResult:
        """What becomes of the partition."""
        load = PartitionLoad(self._partition, self._context, self._options)
        deque(load.run(), maxlen=0)
        return load.result

    def after(self, *, is_clean: bool) -> Start:
        """Return the same start after a clean shutdown, or after none."""
        return Start(self._partition, replace(self._context, is_clean=is_clean), self._options)

    @cached_property
    def with_each_entry(self) -> Start | None:
        """The same start with an index entry due after each batch; None: index.interval.bytes is not assumed."""
        settings = self._options.settings
        if settings.setting("index.interval.bytes").gap is None:
            return None
        options = replace(self._options, settings=replace(settings, index_interval_bytes=0))
        return Start(self._partition, self._context, options)

    @property
    def index_interval_bytes(self) -> int:
        """The value of index.interval.bytes."""
        return self._options.settings.index_interval_bytes

    def at(self, path: str, base_offset: int, position: int, size_bytes: int = 0) -> Outcome:
        """Return what the start does with a place.

        Args:
            path: of the log.
            base_offset: of its segment.
            position: first byte of the place.
            size_bytes: of the place.
        """
        result = self.result
        if result.problem is not None:
            return _stopped(result.problem, path, range(position, position + max(1, size_bytes)))
        segment = self._segments.get(base_offset)
        if segment is not None:
            return self._of_segment(segment, position + size_bytes)
        return self._deleted.get(base_offset) or Outcome(fate="deleted", why=self._swept.get(path, ""))

    def why_recovered(self, base_offset: int) -> str | None:
        """Return why the start recovers a segment; empty: it does not; None: it stops, or the segment is not kept."""
        segment = None if self.result.problem is not None else self._segments.get(base_offset)
        return None if segment is None else segment.why

    def snapshot_fate(self, offset: int) -> SnapshotFate | None:
        """Return what becomes of a producer snapshot; None: the start stops, or no broker reads the file."""
        return None if self.result.problem is not None else self.result.snapshots.get(offset)

    @cached_property
    def _segments(self) -> dict[int, LoadedSegment]:
        """Segments that were there before the start and are after it, by base offset."""
        return {each.base_offset: each for each in self.result.segments if each.segment is not None}

    @cached_property
    def _deleted_bytes(self) -> int:
        """Bytes in the logs of all segments that the start deletes after a truncation."""
        return sum(each.segment.size_bytes for each in self.result.removed)

    @cached_property
    def _swept(self) -> dict[str, str]:
        """Why a file is deleted before the first segment is opened, by path."""
        return {file.path: why for file, why in self.result.swept}

    @cached_property
    def _deleted(self) -> dict[int, Outcome]:
        """Outcomes of the segments that the start deletes, by base offset, each with those after it."""
        found: dict[int, Outcome] = {}
        lost_bytes = 0
        for later, removed in enumerate(reversed(self.result.removed)):
            lost_bytes += removed.segment.size_bytes
            base_offset = removed.segment.base_offset
            found[base_offset] = Outcome(fate="deleted", lost_bytes=lost_bytes, later=later, why=removed.why)
        return found

    def _of_segment(self, segment: LoadedSegment, end: int) -> Outcome:
        if segment.occasion is None:
            return Outcome(fate="unread")
        if not segment.lost_bytes or segment.size_bytes >= max(1, end):
            return Outcome(fate="kept", why=segment.why)
        return Outcome(
            fate="truncated",
            position=segment.size_bytes,
            lost_bytes=segment.lost_bytes + self._deleted_bytes,
            later=len(self._deleted),
            why=segment.why,
        )


def offset_at(partition: Partition, path: str, position: int) -> int | None:
    """Return the offset at which a log has to end so that a start does not come to a byte; None: it is in no log.

    Raises StorageError.
    """
    segment = next((each for each in partition.segments if each.log is not None and each.log.path == path), None)
    if segment is None:
        return None
    offset = segment.base_offset
    with Source.open(path) as source:
        for item in scan(source, base_offset=None, options=_HEADERS, end=min(position, source.size_bytes)):
            if not isinstance(item, Damage):
                offset = item.batches.column("last_offset")[-1] + 1
    return offset


def _stopped(problem: LoadProblem, path: str, place: range) -> Outcome:
    is_in_file = problem.path == path
    is_at_place = is_in_file and (problem.position is None or problem.position in place)
    fate: Fate = "stops" if problem.kind in STOPS else "unknown"
    return Outcome(fate=fate, problem=problem, is_at_place=is_at_place)
