"""Segments as retention and the cleaner see them: offsets, sizes, times. Closed logs are not read.

The largest timestamp of a closed segment is its last time index entry (`LogSegment.maxTimestampSoFar`); the last
segment is read from its last index entry on. Where the offset index is missing, a broker reads the whole log at its
next start, and this code does too.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import RefusedError, StorageError
from kafkalog_core.format.index import iter_time_entries, split_size, used_entries
from kafkalog_core.format.layout import TIME_INDEX_ENTRY
from kafkalog_core.kafka.logdir.bounds import log_bounds, read_extent
from kafkalog_core.kafka.logdir.top_files import PartitionContext
from kafkalog_core.kafka.rules import fetch_rules, rules_of
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct
from kafkalog_core.text import moment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.kafka.logdir.bounds import Extent, LogBounds
    from kafkalog_core.kafka.logdir.top_files import BrokerDir
    from kafkalog_core.kafka.releases import Release
    from kafkalog_core.kafka.setting_table import TopicSettings
    from kafkalog_core.storage.listing import FileInfo, Segment
    from kafkalog_core.storage.partition import Partition

__all__ = ["NO_TIMESTAMP", "PartitionView", "SegmentView", "check_now", "read_partition_view"]

NO_TIMESTAMP: Final = -1
_NS_PER_MS: Final = 1_000_000
_FRAMES: Final = ScanOptions(check=False)
_TAIL_ENTRIES: Final = 1024

_OF_INDEX: Final = "last entry of the time index"
_OF_LOG: Final = "read from the log, as the offset index is missing"
_OF_ACTIVE: Final = "read from the log"
_UNREADABLE: Final = "cannot be read"
_BY_FILE: Final = "{}, so that the file's modification time counts"
_OLD: Final = _BY_FILE.format("releases before 0.10.1 know no timestamps")
_NO_TIME_INDEX: Final = _BY_FILE.format("no time index, of which a broker makes an empty one")
_EMPTY_TIME_INDEX: Final = _BY_FILE.format("the time index is empty")
_NO_TIMES: Final = _BY_FILE.format("no record has a timestamp")


class SegmentView(Struct, frozen=True, kw_only=True):
    """A segment by its files.

    Args:
        base_offset: of its name.
        next_offset: base offset of the next segment, of the last one the end of the log.
        size_bytes: of the log.
        max_timestamp_ms: the largest of its records; -1: none, or none that a broker knows.
        max_timestamp_origin: where that comes from.
        mtime_ms: when the log file was modified last.
        is_active: whether it is the last one.
        path: of the log.
        index_bytes: size of the offset index; None: none.
        timeindex_bytes: size of the time index; None: none.
    """

    base_offset: int
    next_offset: int
    size_bytes: int
    max_timestamp_ms: int
    max_timestamp_origin: str
    mtime_ms: int
    is_active: bool
    path: str
    index_bytes: int | None = None
    timeindex_bytes: int | None = None

    @property
    def largest_timestamp_ms(self) -> int:
        """The time that a broker compares: the largest timestamp, else the file's modification time."""
        return self.max_timestamp_ms if self.max_timestamp_ms >= 0 else self.mtime_ms

    @property
    def has_timestamp(self) -> bool:
        """Whether any record has a timestamp."""
        return self.max_timestamp_ms >= 0


class PartitionView(Struct, frozen=True, kw_only=True):
    """A partition as retention and the cleaner see it.

    Args:
        partition: the directory.
        segments: by base offset, the active one last; empty: there is none, or the last one cannot be read.
        bounds: its log start offset, high watermark and log end offset as a broker sets them when it starts.
        is_tiered: whether `remote.storage.enable` is set, so that earlier segments may be in remote storage.
    """

    partition: Partition
    segments: tuple[SegmentView, ...]
    bounds: LogBounds
    is_tiered: bool

    @property
    def log_start_offset(self) -> int:
        """The first offset that a broker serves."""
        return self.bounds.log_start.offset

    @property
    def high_watermark(self) -> int:
        """The first offset that replicas may not have."""
        return self.bounds.high_watermark.offset

    @property
    def end_offset(self) -> int:
        """The log end offset, after the last record."""
        return self.segments[-1].next_offset if self.segments else self.log_start_offset

    @property
    def path(self) -> str:
        """Path of the directory."""
        return self.partition.path

    @property
    def topic(self) -> str | None:
        """Topic of the directory's name."""
        return self.partition.topic

    @property
    def number(self) -> int | None:
        """Partition number of the directory's name."""
        return self.partition.partition

    @property
    def size_bytes(self) -> int:
        """The size of all logs."""
        return sum(segment.size_bytes for segment in self.segments)


def read_partition_view(
    partition: Partition, broker_dir: BrokerDir | None, settings: TopicSettings, release: Release
) -> PartitionView | None:
    """Return the view of a partition; None: it has no segment, is of 0.7, or its last segment cannot be read.

    Args:
        partition: its directory.
        broker_dir: the log directory around it, whose checkpoints count; None: none.
        settings: of the topic.
        release: whose rules are used.
    """
    extent = read_extent(partition)
    if extent is None:
        return None
    is_tiered = settings.remote_storage_enable
    context = PartitionContext() if broker_dir is None else broker_dir.context(partition.name)
    bases = [segment.base_offset for segment in partition.segments]
    ends = [*(following for _, following in pairwise(bases)), extent.end]
    return PartitionView(
        partition=partition,
        segments=tuple(
            _segment_view(segment, end, extent, release) for segment, end in zip(partition.segments, ends, strict=True)
        ),
        bounds=log_bounds(extent.start, context, rules_of(release), is_tiered=is_tiered, end_offset=extent.end),
        is_tiered=is_tiered,
    )


def check_now(views: Iterable[PartitionView], now_ms: int) -> None:
    """Raise RefusedError where all of the data, by its timestamps and by its files, is later than now."""
    signs = [
        (min(segment.largest_timestamp_ms, segment.mtime_ms), segment.path)
        for view in views
        for segment in view.segments
        if segment.size_bytes
    ]
    first_ms, path = min(signs, default=(now_ms, ""))
    if first_ms > now_ms:
        raise RefusedError(
            f"the time that counts as now, {moment(now_ms)}, is before all of the data: the oldest segment was "
            f"written at {moment(first_ms)}. Is the clock right, or another --now meant?",
            path=path,
        )


def _segment_view(segment: Segment, next_offset: int, extent: Extent, release: Release) -> SegmentView:
    log = segment.files[0]
    is_active = log.path == extent.log
    max_timestamp_ms, origin = _max_timestamp(segment, extent if is_active else None, release)
    return SegmentView(
        base_offset=segment.base_offset,
        next_offset=next_offset,
        size_bytes=log.size_bytes,
        max_timestamp_ms=max_timestamp_ms,
        max_timestamp_origin=origin,
        mtime_ms=log.mtime_ns // _NS_PER_MS,
        is_active=is_active,
        path=log.path,
        index_bytes=None if segment.index is None else segment.index.size_bytes,
        timeindex_bytes=None if segment.timeindex is None else segment.timeindex.size_bytes,
    )


def _max_timestamp(segment: Segment, active: Extent | None, release: Release) -> tuple[int, str]:
    """Return the largest timestamp, and where it comes from; `active`: what was read at the end of the last segment."""
    if not fetch_rules(release).has_times:
        return NO_TIMESTAMP, _OLD
    try:
        # LogSegment.sanityCheck: without an offset index the segment is recovered, and its time index built again
        if segment.index is None and segment.size_bytes:
            return _with_origin(_scanned(segment), _OF_LOG, _NO_TIMES)
        # LogSegment.readMaxTimestampAndOffsetSoFar: the last entry of the time index
        indexed = last_time(segment.timeindex)
    except StorageError as error:
        return NO_TIMESTAMP, _BY_FILE.format(f"{_UNREADABLE}: {error.message}")
    if active is not None:
        return _with_origin(max(indexed, active.max_timestamp_ms), _OF_ACTIVE, _NO_TIMES)
    return _with_origin(indexed, _OF_INDEX, _NO_TIME_INDEX if segment.timeindex is None else _EMPTY_TIME_INDEX)


def _with_origin(timestamp_ms: int, origin: str, else_origin: str) -> tuple[int, str]:
    return (timestamp_ms, origin) if timestamp_ms >= 0 else (NO_TIMESTAMP, else_origin)


def last_time(file: FileInfo | None) -> int:
    """Return the timestamp of the last entry, before the zero tail that a crash leaves; -1: none."""
    if file is None or not file.size_bytes:
        return NO_TIMESTAMP
    with Source.open(file.path) as source:
        count, _ = split_size(TIME_INDEX_ENTRY, source.size_bytes)
        wanted = 1
        while count:
            # a sparse file may have any size: the zeros of a hole are not read
            count = -(-source.data_end(count * TIME_INDEX_ENTRY.size) // TIME_INDEX_ENTRY.size)
            first = max(0, count - wanted)
            run = source.read(first * TIME_INDEX_ENTRY.size, (count - first) * TIME_INDEX_ENTRY.size)
            used = used_entries(TIME_INDEX_ENTRY, run)
            if used:
                return list(iter_time_entries(run))[used - 1][0]
            count, wanted = first, _TAIL_ENTRIES
    return NO_TIMESTAMP


def _scanned(segment: Segment) -> int:
    largest = NO_TIMESTAMP
    with Source.open(segment.files[0].path) as source:
        for item in scan(source, base_offset=segment.base_offset, options=_FRAMES):
            if isinstance(item, Run):
                largest = max(largest, *item.batches.column("max_timestamp_ms"))
    return largest
