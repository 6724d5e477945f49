"""Segments whose names are above their first batch: files that were renamed, or copied, to a higher base offset.

The indexes of a segment hold offsets relative to its base offset, so no index holds a lower one
(`LogSegment.canConvertToRelativeOffset`). A broker that recovers such a segment tries to split it
(`LogLoader.retryOnOffsetOverflow`), which needs an offset that is too high (`LocalLog.splitOverflowedSegment`), and
stops.

A segment of which another one has every batch is a copy, and is deleted. Any other gets the name of its first offset,
if it fits between the segments there.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.kafka.sim.batch_places import misplaced_batches, partition_bounds
from kafkalog_core.ops.recover.segment_reading import neighbour
from kafkalog_core.storage.planned import FileSlice, Pieces
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.kafka.sim.batch_places import PlaceBounds
    from kafkalog_core.ops.recover.segment_reading import Neighbour
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition

__all__ = ["MisnamedSegment", "misnamed_segment", "stage_renaming"]

_OPTIONS: Final = ScanOptions(resync=True)
_Batch = tuple[int, int, int]
"""First offset, last offset and checksum of a batch; of a compressed message of magic 0 or 1, the last offset twice."""


class MisnamedSegment(NamedTuple):
    """A segment whose name is above its first batch; `is_copy`: every batch of it is in other segments too."""

    segment: Segment
    first_offset: int
    is_copy: bool

    @property
    def log_name(self) -> str:
        """The name that its log has to have."""
        return segment_file_name(self.first_offset, FileKind.LOG)


def misnamed_segment(partition: Partition) -> MisnamedSegment | None:
    """Return the first segment whose name is above its first batch, and that can be renamed or deleted; None: none.

    Raises StorageError.
    """
    segments = [segment for segment in partition.segments if segment.log is not None]
    bounds = partition_bounds(partition)
    for segment in segments:
        first = _first_offset(segment, bounds[segment.base_offset])
        if first is None:
            continue
        others = [each for each in segments if each is not segment]
        own = {*_batches(segment)}
        last = max(last for _, last, _ in own)
        # One batch alone may have a wrong offset itself: it has to be before another segment
        if len(own) == 1 and all(other.base_offset <= last for other in others):
            continue
        overlaps, left = False, {*own}
        for other in others:
            for batch in _batches(other):
                left.discard(batch)
                overlaps = overlaps or (batch[0] <= last and batch[1] >= first)
        is_taken = any(other.base_offset == first for other in others)
        if not left or not (overlaps or is_taken):
            return MisnamedSegment(segment, first, is_copy=not left)
    return None


def _first_offset(segment: Segment, bounds: PlaceBounds) -> int | None:
    """Return the first offset of a segment if its first batch is below its name, which may be wrong; None: it is not.

    Of several batches, a single one below the base offset has a wrong offset itself (`batch_places`), unless the next
    one continues it.
    """
    with Source.open(segment.files[0].path) as source:
        start = [*islice(_neighbours(source, segment), 2)]
        # An index has the last offsets of batches: one that only begins below the base offset stops no broker
        if not start or start[0].last_offset >= segment.base_offset or not start[0].is_open:
            return None
        first = start[0]
        # Asked here too, because the rule does not open compressed messages for their first offsets
        if len(start) == 1 or start[1].first_offset == first.last_offset + 1:
            return first.first_offset
        renamed = misplaced_batches(source, bounds, _OPTIONS).renamed
        return first.first_offset if renamed is not None and renamed.last_offset == first.last_offset else None


def _neighbours(source: Source, segment: Segment) -> Iterator[Neighbour]:
    for run in _runs(source, segment):
        yield from (neighbour(run, row) for row in range(run.batches.count))


def _runs(source: Source, segment: Segment) -> Iterator[Run]:
    items = scan(source, base_offset=segment.base_offset, options=_OPTIONS)
    return (item for item in items if isinstance(item, Run))


def _batches(segment: Segment) -> Iterator[_Batch]:
    with Source.open(segment.files[0].path) as source:
        for run in _runs(source, segment):
            columns: Sequence[Sequence[int]] = [*map(run.batches.column, ("base_offset", "last_offset", "crc_stored"))]
            for base, last, crc in zip(*columns, strict=True):
                yield base if base >= 0 else last, last, crc


def stage_renaming(misnamed: MisnamedSegment, stage: Stage) -> None:
    """Stage the new name of a segment, or the deletion of a copy. Its indexes are left to be built from the log.

    The new log is written before the old one is deleted: a broker that starts in between finds every batch. Snapshots
    are not of a segment but of an offset (`ProducerStateManager`), and keep their names.
    """
    segment, directory = misnamed.segment, misnamed.segment.files[0].path.rpartition("/")[0]
    why = f"its name is above its first offset, {misnamed.first_offset}"
    why += ", and other segments have every batch of it" if misnamed.is_copy else f": it becomes {misnamed.log_name}"
    kept = () if misnamed.is_copy else (segment.log, segment.txnindex)
    for file in kept:
        if file is not None:
            # A transaction index holds no positions, and no offsets relative to its name (`AbortedTxn`)
            path = f"{directory}/{segment_file_name(misnamed.first_offset, file.name.kind)}"
            content = Pieces((FileSlice(file.path, 0, file.size_bytes),))
            stage.write(path, content, why=why, like=file.path, mtime_ns=file.mtime_ns)
    for file in segment.files:
        if file.name.kind is not FileKind.SNAPSHOT:
            stage.remove(file.path, why=why)
