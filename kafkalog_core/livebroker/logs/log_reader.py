"""Reads of a log that is written meanwhile: ranges of its segments, offsets by time, leader epochs.

Readers see an immutable list of segments, so that a fetch goes on while segments are rolled and deleted.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.sim.batch_places import PlaceBounds
from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochCache, history
from kafkalog_core.serve.logs.batch_map import first_record_at, map_batches
from kafkalog_core.serve.logs.file_ranges import FileRange
from kafkalog_core.serve.logs.partition_view import (
    AbortedTransaction,
    FetchedRange,
    OffsetOutOfRangeError,
    TimedOffset,
)
from kafkalog_core.serve.logs.served_holes import HoleReports
from kafkalog_core.storage.access import open_error
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalog_core.kafka.rules.producers import CompletedTxn
    from kafkalog_core.serve.logs.batch_map import BatchMap, ReadStart
    from kafkalog_core.serve.logs.file_ranges import SharedFile
    from kafkalog_core.serve.logs.segment_cache import SegmentCache
    from kafkalog_core.serve.logs.served_holes import ServedHole

__all__ = ["CHECKED", "LiveLogReader", "LiveSegment"]

_UNDEFINED: Final = -1
_NO_EPOCH: Final = (-1, -1)
_LATEST_OFFSET: Final = -1
_EARLIEST_OFFSET: Final = -2
_HEADERS: Final = ScanOptions(check=False)
CHECKED: Final = ScanOptions(check=True, resync=True)
"""How a log is scanned whose damaged batches are holes."""


class LiveSegment(Struct):
    """A segment; `batches`: its map while it is the active one. `mtime_ms` is that of the log once it was rolled."""

    base_offset: int
    path: str
    file: SharedFile | None = None
    size_bytes: int = 0
    end_offset: int = 0
    max_timestamp_ms: int = _UNDEFINED
    mtime_ms: int = 0
    batches: BatchMap | None = None
    aborted: bytearray = field(default_factory=bytearray)


class LiveLogReader(ABC):
    """The reading half of a log. Thread-safe."""

    def __init__(
        self,
        path: str,
        cache: SegmentCache,
        clock_ms: Callable[[], int],
        notify: Callable[[ServedHole], None] | None = None,
    ) -> None:
        """Begin without segments. clock_ms: time of day, in milliseconds since 1970. notify: as for `HoleReports`."""
        self.path = path
        self.log_start_offset = 0
        self.leader_epoch = 0
        self.is_deleted = False
        self._cache = cache
        self._clock_ms = clock_ms
        self._holes = HoleReports(notify)
        self._lock = threading.RLock()
        self._segments: tuple[LiveSegment, ...] = ()
        self._aborted: list[CompletedTxn] = []
        self._epochs = EpochCache((), LATEST)
        self._bounds: dict[int, PlaceBounds] = {}  # of the segments that were there when the log was opened

    @property
    @abstractmethod
    def log_end_offset(self) -> int:
        """The offset after the last batch."""

    @abstractmethod
    def last_stable_offset(self) -> int:
        """Return the first offset of the open transactions, else the high watermark."""

    @property
    def high_watermark(self) -> int:
        """The log end offset, as there is no other replica; if a hole is before it, the offset before that hole."""
        return self._end_before(self.log_end_offset)

    def _end_before(self, limit: int) -> int:
        """Return the offset after the last batch that ends before a limit, as `ServedPartition` does.

        That is the limit itself, unless a hole is before it, which no consumer would pass.
        """
        # Without a hole the log end is the limit, and nothing has to be mapped.
        if not self._holes.any_found:
            return limit
        for segment in reversed(self._segments):
            if segment.base_offset >= limit:
                continue
            batches = segment.batches or self._cache.get(segment.path)
            # A consumer that comes to the hole has mapped it
            if batches is None:
                break
            end = batches.end_before(limit, partial(self._bytes, segment))
            if end is not None:
                return max(end, self.log_start_offset)
        return limit

    # --- reading ------------------------------------------------------------------------------------------------------
    def read(self, offset: int, max_bytes: int, *, is_committed: bool, minimum_one: bool = True) -> FetchedRange:
        """Return what a fetch returns, as `ServedPartition.read` does."""
        nothing = FetchedRange(aborted=() if is_committed else None)
        # Outside the lock: appends go on while a closed segment is read.
        self._map_before(offset)
        with self._lock:
            if self.is_deleted:
                raise StorageError("the partition was deleted", path=self.path)
            # UnifiedLog.read: the log end offset itself is in range.
            if not self.log_start_offset <= offset <= self.log_end_offset:
                raise OffsetOutOfRangeError(f"offset {offset} is outside of the log", path=self.path)
            limit = self.last_stable_offset() if is_committed else self.high_watermark
            found = self._find(offset) if offset < limit else None
            if found is None:
                return nothing
            segment, batches, place = found
            end = batches.range_end(place.position, place.position + max(max_bytes, 0))
            if end < place.end:
                if not minimum_one:
                    return nothing
                end = place.end
            # The batch that holds the limit is not sent, nor is anything after it.
            if limit < segment.end_offset:
                stretch = batches.stretch_of(limit)
                if stretch is not None:
                    end = min(end, batches.read_start(stretch, limit, partial(self._bytes, segment)).position)
            if end <= place.position:
                return nothing
            # And from the batch that is sent, not from a hole before it
            last = batches.last_offset_before(end)
            aborted = self._aborted_between(place.last_offset, last) if is_committed else None
            file = self._hold(segment)
        size = end - place.position
        return FetchedRange((FileRange(file, place.position, size),), size, place.magic, aborted)

    def _aborted_between(self, first: int, last: int) -> tuple[AbortedTransaction, ...]:
        start = bisect_left(self._aborted, first, key=lambda each: each.last_offset)
        return tuple(
            AbortedTransaction(each.producer_id, each.first_offset)
            for each in self._aborted[start:]
            if each.first_offset <= last
        )

    def _find(self, offset: int) -> tuple[LiveSegment, BatchMap, ReadStart] | None:
        segments = self._segments
        # The floor segment (LogSegments.floorSegment).
        number = max(bisect_right(segments, offset, key=lambda each: each.base_offset) - 1, 0)
        for segment in segments[number:]:
            batches = self._map(segment)
            stretch = batches.stretch_of(offset)
            if stretch is not None:
                return segment, batches, batches.read_start(stretch, offset, partial(self._bytes, segment))
        return None

    def _map_before(self, offset: int) -> None:
        """Map the segments that a read of an offset needs, outside of the lock: appends go on meanwhile."""
        segments = self._segments
        number = max(bisect_right(segments, offset, key=lambda each: each.base_offset) - 1, 0)
        for segment in segments[number:]:
            try:
                if segment.batches is not None or self._map(segment).stretch_of(offset) is not None:
                    return
            except StorageError:
                if self._has(segment):
                    raise
                # It was deleted or cleaned meanwhile: the read sees the segments of now
                return

    def _has(self, segment: LiveSegment) -> bool:
        """Return whether a segment is one of the log now: only then its path is that of its own bytes."""
        return not self.is_deleted and any(each is segment for each in self._segments)

    def _map(self, segment: LiveSegment) -> BatchMap:
        """Return the map of a segment; that of the active one changes under the lock."""
        batches = segment.batches
        if batches is not None:
            return batches
        return self._cache.mapped(segment.path, partial(self._new_map, segment))

    def _new_map(self, segment: LiveSegment) -> BatchMap:
        if self.is_deleted:
            raise StorageError("the partition was deleted", path=self.path)
        with Source.open(segment.path) as source:
            known = self._bounds.get(segment.base_offset) or PlaceBounds(base_offset=segment.base_offset)
            # A clean may have joined segments
            bounds = replace(known, next_base=segment.end_offset)
            found = map_batches(source, bounds, options=CHECKED)
        self._holes.report(segment.path, found)
        segment.max_timestamp_ms = max(segment.max_timestamp_ms, found.max_timestamp_ms)
        return found

    def _hold(self, segment: LiveSegment) -> SharedFile:
        if segment.file is None:
            return self._cache.hold(segment.path)
        segment.file.hold()
        return segment.file

    def _bytes(self, segment: LiveSegment, start: int, end: int) -> memoryview:
        with self._lock:
            # The path may belong to another segment by now, which a clean has put there.
            if not self._has(segment):
                raise StorageError("the segment was deleted or cleaned meanwhile", path=segment.path)
            file = self._hold(segment)
        try:
            # pread: several threads read one descriptor, which has one file position.
            return memoryview(os.pread(file.descriptor, end - start, start))
        except OSError as error:
            raise open_error(segment.path, error) from error
        finally:
            file.release()

    def batches_from(self, offset: int) -> Iterator[Run]:
        """Yield runs of the segments that end after an offset, each segment whole: batches before the offset come too.

        The segments are those of the moment at which the first run is requested; what is appended to them until they
        are read comes too, so the caller bounds the offsets on both sides. Checksums are not checked.
        """
        with self._lock:
            segments = [each for each in self._segments if each.end_offset > offset]
        for segment in segments:
            with Source.open(segment.path) as source:
                for item in scan(source, base_offset=None, options=_HEADERS):
                    if isinstance(item, Run):
                        yield item

    # --- offsets ------------------------------------------------------------------------------------------------------
    def earliest(self) -> TimedOffset:
        """Return the log start offset, with the leader epoch there."""
        return TimedOffset(self.log_start_offset, leader_epoch=self._epoch_at(self.log_start_offset))

    def latest(self, *, is_committed: bool) -> TimedOffset:
        """Return the last stable offset or the high watermark, with the leader epoch there."""
        offset = self.last_stable_offset() if is_committed else self.high_watermark
        return TimedOffset(offset, leader_epoch=self._epoch_at(offset))

    def offset_for_time(self, timestamp_ms: int) -> TimedOffset | None:
        """Return the first record with a timestamp at or after a time; None: there is none."""
        segments = self._segments
        try:
            return self._first_from(segments, timestamp_ms)
        except StorageError:
            # Nothing has changed meanwhile: the error is the file's own.
            if all(map(self._has, segments)):
                raise
            # Some were deleted or cleaned meanwhile
            return self._first_from(self._segments, timestamp_ms)

    def _first_from(self, segments: Sequence[LiveSegment], timestamp_ms: int) -> TimedOffset | None:
        for segment in segments:
            if not segment.size_bytes:
                continue
            batches = self._map(segment)
            if batches.max_timestamp_ms < timestamp_ms:
                continue
            # An append changes the map of the active segment
            with self._lock:
                stretches = list(batches.stretches_from_time(timestamp_ms))
            for start, end in stretches:
                found = first_record_at(self._bytes(segment, start, end), timestamp_ms, self.log_start_offset)
                if found is not None:
                    return TimedOffset(*found, self._epoch_at(found[0]))
        return None

    def offset_of_max_timestamp(self) -> TimedOffset | None:
        """Return the first record with the largest timestamp (KIP-734); None: there is none."""
        latest = max((self._map(each).max_timestamp_ms for each in self._segments), default=_UNDEFINED)
        return None if latest < 0 else self.offset_for_time(latest)

    def offsets_before(self, timestamp_ms: int, max_count: int) -> list[int]:
        """Return offsets of segments by their modification times, as `ServedPartition.offsets_before` does."""
        with self._lock:
            now_ms = self._clock_ms()
            start = self.log_start_offset
            entries = [(max(each.base_offset, start), each.mtime_ms or now_ms) for each in self._segments]
            if self._segments[-1].size_bytes:
                entries.append((self.log_end_offset, now_ms))
        if timestamp_ms == _EARLIEST_OFFSET:
            entries = entries[:1]
        # The oldest protocol knows segments alone: their modification times are used instead of record times.
        elif timestamp_ms != _LATEST_OFFSET:
            while entries and entries[-1][1] > timestamp_ms:
                entries.pop()
        return [offset for offset, _ in entries[::-1][:max_count]]

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to a given one, and the offset at which it ends; (-1, -1): unknown."""
        entries = self._epochs.entries
        if epoch == self.leader_epoch:
            return epoch, self.log_end_offset
        if not entries or epoch < 0 or epoch > entries[-1].epoch:
            return _NO_EPOCH
        # LeaderEpochFileCache.endOffsetFor
        return history(entries, (), self.log_end_offset).up_to(epoch) or (epoch, entries[0].start_offset)

    def _epoch_at(self, offset: int) -> int:
        if offset >= self.log_end_offset:
            return self.leader_epoch
        entries = self._epochs.entries
        number = bisect_right(entries, offset, key=lambda each: each.start_offset) - 1
        return entries[number].epoch if number >= 0 else _UNDEFINED
