"""Segments as retention and the cleaner see them: offsets, sizes, times. Closed logs are not read.

The largest timestamp of a segment is that of its last time index entry (`LogSegment.readMaxTimestampAndOffsetSoFar`
takes `TimeIndex.lastEntry`), of the active segment too: a start reads no record for it. Every whole entry of the file
counts, so that zeros after the entries are the time 0, in 1970. Only a segment that the next start recovers gets a new
time index (`LogSegment.recover`): then its records count. So they do in the last segment where it is unknown whether
the last shutdown was clean, because zeros after its entries show a crash.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import RefusedError, StorageError
from kafkalog_core.format.index import decode_time_entry, iter_time_entries, split_size, used_entries
from kafkalog_core.format.layout import MAX_INT64, TIME_INDEX_ENTRY
from kafkalog_core.kafka.rules.rule_table import fetch_rules, rules_of
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds, read_extent
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
from kafkalog_core.kafka.sim.start.candidates import first_recovered, lone_occasion
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.replay import end_of_log
from kafkalog_core.kafka.sim.start.results import LoadOptions
from kafkalog_core.kafka.sim.start.snapshots import SnapshotOptions
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.rules.setting_table import TopicSettings
    from kafkalog_core.kafka.sim.logdir.bounds import Extent, LogBounds
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir
    from kafkalog_core.kafka.sim.start.results import LoadResult
    from kafkalog_core.storage.listing import FileInfo, Segment
    from kafkalog_core.storage.partition import Partition

__all__ = ["NO_TIMESTAMP", "PartitionView", "SegmentView", "check_now", "read_partition_view"]

NO_TIMESTAMP: Final = -1
_NS_PER_MS: Final = 1_000_000
_FRAMES: Final = ScanOptions(check=False)
_TAIL_ENTRIES: Final = 1024

_OF_INDEX: Final = "last entry of the time index"
_OF_ZEROS: Final = "last entry of the time index, which is zeros"
_OF_LOG: Final = "read from the log, as the offset index is missing"
_OF_RECOVERED: Final = "read from the log"
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

    @property
    def has_zero_time(self) -> bool:
        """Whether the largest timestamp is that of an index that ends with zeros."""
        return self.max_timestamp_origin == _OF_ZEROS


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
    partition: Partition,
    broker_dir: BrokerDir | None,
    settings: TopicSettings,
    release: Release,
    *,
    after_start: bool = False,
) -> PartitionView | None:
    """Return the view of a partition; None: it has no segment, is of 0.7, or its last segment cannot be read.

    Args:
        partition: its directory.
        broker_dir: the log directory around it, whose checkpoints count; None: none.
        settings: of the topic.
        release: whose rules are used.
        after_start: whether the logs are those that the next start of a broker leaves, if it truncates one.
    """
    is_tiered = settings.remote_storage_enable
    context = PartitionContext() if broker_dir is None else broker_dir.context(partition.name)
    bases = [segment.base_offset for segment in partition.segments]
    first = first_recovered(bases, context, partition.topic, release)
    extent = read_extent(partition)
    if extent is None:
        return None
    if first is None or partition.segments[first].base_offset > extent.active:
        extent = replace(extent, end=_trusted_end(partition.segments, extent, release))
    truncated = None
    if after_start and (first is not None or _recovers_one(partition.segments, release)):
        truncated = _truncated(partition, context, settings, release)
    if first is None and context.is_clean is None:
        first = len(bases) - 1
    end = extent.end if truncated is None else truncated.end_offset
    segments = _segments_of(partition.segments, extent, release, first)
    if truncated is not None:
        segments = tuple(_after_start(segments, truncated))
    return PartitionView(
        partition=partition,
        segments=segments,
        bounds=log_bounds(extent.start, context, rules_of(release), is_tiered=is_tiered, end_offset=end),
        is_tiered=is_tiered,
    )


def _trusted_end(segments: Sequence[Segment], extent: Extent, release: Release) -> int:
    """Return the log end offset that a start takes from the last segment by its index, without a check of either."""
    last = next(each for each in segments if each.files[0].path == extent.log)
    rules = rules_of(release)
    with suppress(StorageError):  # the reader of the file reports it
        if last.index is not None and lone_occasion(last, rules, has_index=True) is None:
            end = end_of_log(extent.log, last.size_bytes, last.base_offset, last.index, search=rules.search)
            return extent.end if end.obstacle is not None else end.offset
    return extent.end


def _segments_of(
    segments: Sequence[Segment], extent: Extent, release: Release, first_recovered: int | None
) -> tuple[SegmentView, ...]:
    ends = [*(following.base_offset for following in segments[1:]), extent.end]
    return tuple(
        _segment_view(
            segment, end, extent, release, is_recovered=first_recovered is not None and number >= first_recovered
        )
        for number, (segment, end) in enumerate(zip(segments, ends, strict=True))
    )


def _recovers_one(segments: Sequence[Segment], release: Release) -> bool:
    """Return whether the start recovers a segment for its indexes, although the last shutdown was clean."""
    rules = rules_of(release)
    with suppress(StorageError):  # an index that cannot be read: its reader reports it
        return any(lone_occasion(each, rules, has_index=each.index is not None) for each in segments)
    return False


def _truncated(
    partition: Partition, context: PartitionContext, settings: TopicSettings, release: Release
) -> LoadResult | None:
    """Return the log after the start that recovers it; None: the start truncates nothing, or fails."""
    snapshots = SnapshotOptions.of_release(release, now_ms=0, expiration_ms=MAX_INT64)  # of no effect on the log
    load = PartitionLoad(partition, context, LoadOptions(release=release, settings=settings, snapshots=snapshots))
    deque(load.run(), maxlen=0)
    result = load.result
    is_shorter = result.problem is None and bool(result.lost_bytes or result.removed) and not result.moved
    return result if is_shorter else None


def _after_start(segments: Sequence[SegmentView], result: LoadResult) -> Iterator[SegmentView]:
    """Yield the segments that the start leaves."""
    left = {each.base_offset: each for each in result.segments}
    for segment in segments:
        loaded = left.get(segment.base_offset)
        if loaded is None:
            continue
        if loaded.lost_bytes:
            timestamp_ms = NO_TIMESTAMP if loaded.recovery is None else loaded.recovery.max_timestamp_ms
            known_ms, origin = _with_origin(timestamp_ms, _OF_RECOVERED, _NO_TIMES)
            segment = replace(  # noqa: PLW2901 - the same segment, shorter
                segment, size_bytes=loaded.size_bytes, max_timestamp_ms=known_ms, max_timestamp_origin=origin
            )
        is_active = loaded is result.segments[-1]
        yield replace(segment, next_offset=result.end_offset, is_active=True) if is_active else segment


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
        reason = (
            f"the time that counts as now, {moment(now_ms)}, is before all of the data: the oldest segment was "
            f"written at {moment(first_ms)}"
        )
        ways = (WayOut("set the clock"), WayOut("state the time that is meant", options="--now TIME"))
        raise RefusedError(Refusal(reason, ways), path=path)


def _segment_view(
    segment: Segment, next_offset: int, extent: Extent, release: Release, *, is_recovered: bool
) -> SegmentView:
    log = segment.files[0]
    is_active = log.path == extent.log
    max_timestamp_ms, origin = _max_timestamp(
        segment, extent if is_active else None, release, is_recovered=is_recovered
    )
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


def _max_timestamp(segment: Segment, active: Extent | None, release: Release, *, is_recovered: bool) -> tuple[int, str]:
    """Return the largest timestamp, and where it comes from.

    Args:
        segment: with its indexes.
        active: what was read at the end of the last segment; None: it is another one.
        release: whose rules are used.
        is_recovered: whether the next start recovers the segment after an unclean shutdown.
    """
    if not fetch_rules(release).has_times:
        return NO_TIMESTAMP, _OLD
    try:
        if segment.index is None and segment.size_bytes:
            return _with_origin(_scanned(segment), _OF_LOG, _NO_TIMES)
        occasion = lone_occasion(segment, rules_of(release), has_index=segment.index is not None)
        if is_recovered or occasion == "odd-index":
            return _rebuilt(segment, active)
        time_ms = trusted_last_time(segment.timeindex)
    except StorageError as error:
        return NO_TIMESTAMP, _BY_FILE.format(f"{_UNREADABLE}: {error.message}")
    return _with_origin(
        time_ms,
        _OF_INDEX if time_ms else _OF_ZEROS,
        _NO_TIME_INDEX if segment.timeindex is None else _EMPTY_TIME_INDEX,
    )


def _rebuilt(segment: Segment, active: Extent | None) -> tuple[int, str]:
    """Return the largest timestamp in the time index that recovery builds, and where it comes from.

    A roll adds the entry of the largest timestamp (`LogSegment.onBecomeInactiveSegment`), so that the log of a closed
    segment is read only if its index ends with zeros or has no entry.
    """
    indexed = last_time(segment.timeindex)
    if active is not None:
        return _with_origin(max(indexed, active.max_timestamp_ms), _OF_RECOVERED, _NO_TIMES)
    if indexed > 0 and indexed == trusted_last_time(segment.timeindex):
        return indexed, _OF_INDEX
    return _with_origin(_scanned(segment), _OF_RECOVERED, _NO_TIMES)


def _with_origin(timestamp_ms: int, origin: str, else_origin: str) -> tuple[int, str]:
    return (timestamp_ms, origin) if timestamp_ms >= 0 else (NO_TIMESTAMP, else_origin)


def trusted_last_time(file: FileInfo | None) -> int:
    """Return the timestamp of the last whole entry, zeros too, as a broker that trusts the index does; -1: none.

    `TimeIndex.lastEntryFromIndexFile`: an existing file has as many entries as its size allows. Neither a start, which
    extends the index of the active segment (`resizeIndexes`), nor a clean shutdown shortens it.
    """
    if file is None:
        return NO_TIMESTAMP
    with Source.open(file.path) as source:
        count, _ = split_size(TIME_INDEX_ENTRY, source.size_bytes)
        if not count:
            return NO_TIMESTAMP
        last = source.read((count - 1) * TIME_INDEX_ENTRY.size, TIME_INDEX_ENTRY.size)
    return decode_time_entry(last)[0].timestamp_ms


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
