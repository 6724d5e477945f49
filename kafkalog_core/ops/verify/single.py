"""A file that was named itself: a file of a segment is checked with the others of its segment, as they explain it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.format.names import CHECKPOINT_KINDS, LOG_KINDS, SEGMENT_KINDS, FileKind
from kafkalog_core.ops.logdirs.textfiles import read_epochs, read_offsets, read_properties
from kafkalog_core.ops.reading.entry_faults import EntryFile
from kafkalog_core.ops.sink import Sink
from kafkalog_core.ops.verify.check import SegmentTask
from kafkalog_core.ops.verify.handover import NO_CHAIN
from kafkalog_core.ops.verify.segment import check_segment
from kafkalog_core.ops.verify.snapshots import check_snapshot
from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.segment import Segment, SegmentState

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.selecting.targets import FileTarget
    from kafkalog_core.ops.verify.work import Depth

__all__ = ["check_file"]

_PROPERTY_KINDS: Final = frozenset(
    {FileKind.META_PROPERTIES, FileKind.PARTITION_METADATA, FileKind.CLEAN_SHUTDOWN, FileKind.QUORUM_STATE}
)


def check_file(target: FileTarget, depth: Depth, advance: Callable[[int], None]) -> PartitionVerdict | PlaceVerdict:
    """Check one file. Raises StorageError where it cannot be opened."""
    kind = target.kind
    if kind in LOG_KINDS or kind in SEGMENT_KINDS - {FileKind.SNAPSHOT}:
        segment, is_last = _segment_of(target)
        if segment.log is not None:
            return _segment_verdict(target, segment, depth, advance, is_last=is_last)
    if kind is FileKind.KRAFT_SNAPSHOT:
        segment = Segment(base_offset=0, state=SegmentState.CLOSED, log=target.file)
        return _segment_verdict(target, segment, depth, advance, is_last=True)
    return PlaceVerdict(path=target.path, findings=_small_file(target, lambda: advance(0)))


def _segment_of(target: FileTarget) -> tuple[Segment, bool]:
    """The segment that a file belongs to, and whether nothing follows it; a log that stands alone is one by itself."""
    try:
        partition = read_partition(os.path.dirname(target.path) or ".")
    except StorageError:
        partition = None
    if partition is not None:
        for segment in (*partition.segments, *partition.other_segments):
            if any(os.path.basename(file.path) == os.path.basename(target.path) for file in segment.files):
                return segment, segment is partition.segments[-1] if partition.segments else True
    log = target.file if target.kind in LOG_KINDS else None
    return Segment(base_offset=target.file.name.base_offset or 0, state=SegmentState.UNREAD, log=log), True


def _segment_verdict(
    target: FileTarget, segment: Segment, depth: Depth, advance: Callable[[int], None], *, is_last: bool
) -> PartitionVerdict:
    task = SegmentTask(
        segment=segment,
        topic=target.topic,
        partition=target.partition,
        is_v07=segment.log is not None and segment.log.name.kind is FileKind.LOG_V07,
        is_last=is_last,
        level=depth.level,
        now_ms=depth.now_ms,
        max_batch_bytes=depth.max_batch_bytes,
    )
    verdict = check_segment(task, NO_CHAIN, advance)
    return PartitionVerdict(
        path=target.path,
        topic=target.topic,
        partition=target.partition,
        segments=(verdict,),
        findings=verdict.findings,
        log_start_offset=verdict.first_offset,
        log_end_offset=None if verdict.last_offset is None else verdict.last_offset + 1,
        at_risk_bytes=None,
    )


def _small_file(target: FileTarget, look: Callable[[], None]) -> tuple[Finding, ...]:
    file = EntryFile(path=target.path, kind=target.kind, topic=target.topic, partition=target.partition)
    if target.kind is FileKind.SNAPSHOT:
        sink = Sink(target.topic, target.partition)
        check_snapshot(target.path, target.file.name.base_offset, None, 0, sink, sink)
        return sink.findings
    if target.kind is FileKind.LEADER_EPOCH:
        return read_epochs(file, look).findings
    if target.kind in CHECKPOINT_KINDS:
        offsets = read_offsets(target.path, target.kind)
        return () if offsets is None else offsets.findings
    if target.kind in _PROPERTY_KINDS:
        properties = read_properties(file)
        return () if properties is None else properties.findings
    return ()
