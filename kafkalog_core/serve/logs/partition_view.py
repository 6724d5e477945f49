"""One partition of a dead disk, read as its leader would read it: ranges of its files, offsets, times and epochs.

Segments are mapped when they are first read (`batch_map`); the log end offset needs the end of the last one alone. A
range is sent from the file as it is. Transactions come from `kafka.sim.read_committed`, as for `dump --committed`.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core.errors import KafkalogError, StorageError, UnsupportedError
from kafkalog_core.format.layout import MAGIC_V2, MAX_BATCH_BYTES, MAX_INT64
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.batch_places import partition_bounds
from kafkalog_core.kafka.sim.fetch import EARLIEST as EARLIEST_OFFSET
from kafkalog_core.kafka.sim.fetch import LATEST as LATEST_OFFSET
from kafkalog_core.kafka.sim.fetch import offsets_before
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds
from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochStart, History, history, read_epoch_file
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
from kafkalog_core.kafka.sim.logfiles import Checkpoints, Compaction, unit_of_partition
from kafkalog_core.kafka.sim.producer_states import read_producer_states
from kafkalog_core.kafka.sim.read_committed import read_committed_view
from kafkalog_core.serve.logs.batch_map import first_record_at, map_batches
from kafkalog_core.serve.logs.file_ranges import FileRange
from kafkalog_core.serve.logs.log_tail import LogTail, find_tail
from kafkalog_core.serve.logs.segment_cache import SegmentCache
from kafkalog_core.serve.logs.served_holes import HoleReports
from kafkalog_core.storage.access import open_error
from kafkalog_core.storage.lookup import PartitionLookup
from kafkalog_core.storage.lookup_trace import Trace
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import ScanOptions
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.format.snapshot import ProducerEntry
    from kafkalog_core.kafka.sim.batch_places import PlaceBounds
    from kafkalog_core.kafka.sim.read_committed import CommittedView
    from kafkalog_core.serve.logs.batch_map import BatchMap, ReadStart
    from kafkalog_core.serve.logs.served_holes import ServedHole
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.segment_lookup import RecordPlace

__all__ = [
    "AbortedTransaction",
    "FetchedRange",
    "OffsetOutOfRangeError",
    "OnDamage",
    "ServedPartition",
    "TimedOffset",
    "ViewOptions",
]

OnDamage = Literal["skip", "stop"]
"""Whether damaged bytes are left out of what is sent, or sent as a broker would send them."""

_UNDEFINED: Final = -1
_NO_EPOCH: Final = (-1, -1)


class OffsetOutOfRangeError(KafkalogError):
    """An offset before the log start offset or after the log end offset."""


class ViewOptions(Struct, frozen=True, kw_only=True):
    """How a partition is read.

    Args:
        on_damage: what becomes of damaged batches.
        high_watermark: the checkpointed high watermark; None: the log end offset is used.
        log_start_offset: the checkpointed log start offset; None: it is the base offset of the first segment.
        until_ms: the log ends at its first batch with a later timestamp, in milliseconds since 1970; None: at its end.
        max_batch_bytes: larger batches are damage, in bytes.
        notify: receives each hole once, on the thread that meets it.
    """

    on_damage: OnDamage = "skip"
    high_watermark: int | None = None
    log_start_offset: int | None = None
    until_ms: int | None = None
    max_batch_bytes: int = MAX_BATCH_BYTES
    notify: Callable[[ServedHole], None] | None = None

    @property
    def scan_options(self) -> ScanOptions:
        """How logs are scanned: where damage is sent too, checksums do not matter."""
        skips = self.on_damage == "skip"
        return ScanOptions(max_batch_bytes=self.max_batch_bytes, check=skips, resync=skips)


class AbortedTransaction(NamedTuple):
    """A transaction whose records a read_committed consumer drops, from its first offset to its abort marker."""

    producer_id: int
    first_offset: int


class TimedOffset(NamedTuple):
    """An offset, the timestamp of its record in milliseconds, and the leader epoch of its batch; -1: none."""

    offset: int
    timestamp_ms: int = _UNDEFINED
    leader_epoch: int = _UNDEFINED


class FetchedRange(Struct, frozen=True):
    """What a fetch returns of a log (Kafka's `FetchDataInfo`).

    Args:
        pieces: at most one range of one file; the caller releases it, once it is sent or dropped.
        size_bytes: of the range.
        magic: of every batch in it; 2 if it is empty.
        aborted: the aborted transactions in it; None for isolation level read_uncommitted.
    """

    pieces: tuple[FileRange, ...] = ()
    size_bytes: int = 0
    magic: int = MAGIC_V2
    aborted: tuple[AbortedTransaction, ...] | None = None


class ServedPartition:
    """A partition directory as it was when it was opened: nothing writes to it. Thread-safe."""

    def __init__(self, partition: Partition, options: ViewOptions, cache: SegmentCache) -> None:
        """Take a partition that was listed; see `open`."""
        self.path = partition.path
        self._partition = partition
        self._options = options
        self._cache = cache
        self._segments = tuple(segment for segment in partition.segments if segment.log is not None)
        self._bases = [segment.base_offset for segment in self._segments]
        self._bounds: dict[int, PlaceBounds] | None = None
        self._lock = threading.Lock()
        self._view: CommittedView | None = None
        self._found_tail: tuple[int, int] | None = None
        self._found_tail_on_disk: LogTail | None = None
        self._found_history: History | None = None
        self._found_producers: tuple[ProducerEntry, ...] | None = None
        self._ends: dict[int, int] = {}
        self._found_renamed: tuple[int, ...] | None = None
        self._holes = HoleReports(options.notify)
        # LogLoader.load takes the larger of checkpoint and first base offset.
        context = PartitionContext(log_start_offset=options.log_start_offset)
        first_base = self._bases[0] if self._bases else None
        self.log_start_offset = log_bounds(first_base, context, rules_of(LATEST)).local_start

    @classmethod
    def open(cls, path: str, options: ViewOptions | None = None, cache: SegmentCache | None = None) -> ServedPartition:
        """List a partition directory, and find its log end offset.

        `cache`: what partitions share; None: its own. Raises StorageError if it cannot be read, and UnsupportedError
        for a log of Kafka 0.7.
        """
        partition = read_partition(path)
        if partition.format != "log":
            raise UnsupportedError(
                "a log of Kafka 0.7, which today's clients cannot read: use kafkalog dump", path=path
            )
        opened = cls(partition, options or ViewOptions(), cache or SegmentCache())
        opened._tail  # noqa: B018 - a log that cannot be read is an error here, not in a later request
        return opened

    # --- bounds -------------------------------------------------------------------------------------------------------
    # Found once each, but not by `cached_property`: before Python 3.12, all partitions would share its lock.
    @property
    def _tail(self) -> tuple[int, int]:
        """The log end offset, and the leader epoch of the last batch; -1: the segment with it has none."""
        found = self._found_tail
        if found is None:
            found = self._found_tail = self._find_tail()
        return found

    def _find_tail(self) -> tuple[int, int]:
        end, epoch, _ = self._tail_on_disk
        if self._options.until_ms is None:
            return end, epoch
        with self._lookup() as lookup:
            end_at = lookup.end_at(self._options.until_ms)
        # The time is after the last record: the whole log is served.
        if end_at is None or end_at >= end:
            return end, epoch
        end = self._end_before(max(end_at, self.log_start_offset))
        epochs = self._epochs_before(end)
        return end, epochs[-1].epoch if epochs else _UNDEFINED

    @property
    def _is_cut(self) -> bool:
        """Whether the disk holds more than what is served."""
        return self._tail[0] < self._tail_on_disk.end

    def _epochs_before(self, offset: int) -> list[EpochStart]:
        """Return the leader epochs of the last segment with batches before an offset, up to there."""
        number = max(bisect_left(self._bases, offset) - 1, 0)
        return [EpochStart(*each) for each in self._map(number).epochs if each[1] < offset]

    @property
    def _tail_on_disk(self) -> LogTail:
        """The end of the log on the disk."""
        found = self._found_tail_on_disk
        if found is None:
            options, start = self._options.scan_options, self.log_start_offset
            found = find_tail(self._segments, start, options=options, bounds_of=self._bounds_of, map_of=self._map)
            self._found_tail_on_disk = found
        return found

    @property
    def log_end_offset(self) -> int:
        """The offset after the last batch, served or not."""
        return self._tail[0]

    @property
    def high_watermark(self) -> int:
        """The checkpointed high watermark, within the log; without a checkpoint, the offset after the last batch.

        That is the log end offset, unless the last segment is empty and starts later, or what is in the last batch
        cannot be read.
        """
        mark = self._options.high_watermark
        # A checkpointed high watermark above the log end is lowered (UnifiedLog.updateHighWatermark).
        return self._end_before(self.log_end_offset if mark is None else min(mark, self.log_end_offset))

    def _end_before(self, limit: int) -> int:
        """Return the offset after the last batch that ends before a limit, which no consumer passes.

        Only the batch after a hole takes a consumer past it. If the hole is right before the limit, no consumer gets
        that batch, so waiting for the limit itself would never end.
        """
        if limit >= self._tail_on_disk.readable:
            return self._tail_on_disk.readable
        found = self._ends.get(limit)
        if found is None:
            found = self._ends[limit] = self._find_end_before(limit)
        return found

    def _find_end_before(self, limit: int) -> int:
        for number in range(bisect_right(self._bases, limit) - 1, -1, -1):
            end = self._map(number).end_before(limit, partial(self._bytes, number))
            if end is not None:
                return max(end, self.log_start_offset)
        return self.log_start_offset

    @property
    def size_bytes(self) -> int:
        """The size of all segments."""
        return sum(segment.size_bytes for segment in self._segments)

    def known_stable_offset(self) -> int | None:
        """Return the last stable offset; None: no client has asked for it yet. To find it costs a read of the log."""
        return None if self._view is None else self.last_stable_offset()

    def last_stable_offset(self) -> int:
        """Return the offset before which read_committed consumers read. Its first use reads the whole log's headers."""
        end = self._committed.end_offset
        return self.high_watermark if end is None else self._end_before(min(end, self.high_watermark))

    @property
    def _committed(self) -> CommittedView:
        """The transactions in the log, which is read once."""
        found = self._view
        if found is None:
            # Checked again under the lock: another thread may have read the log meanwhile.
            with self._lock:
                found = self._view = self._view or self._read_committed()
        return found

    def _read_committed(self) -> CommittedView:
        options = ScanOptions(max_batch_bytes=self._options.max_batch_bytes, resync=True)
        unit, checkpoints = unit_of_partition(self._partition, os.path.dirname(self.path)), Checkpoints()
        compaction = Compaction(unit, checkpoints, options)
        end = self.log_end_offset if self._is_cut else None
        wrong = {_log_path(segment): self._map(number).holes for number, segment in enumerate(self._segments)}
        return read_committed_view(
            unit.files, options, None, self.log_start_offset, compaction=compaction, log_end_offset=end, wrong=wrong
        )

    # --- reading ------------------------------------------------------------------------------------------------------
    def read(self, offset: int, max_bytes: int, *, is_committed: bool, minimum_one: bool = True) -> FetchedRange:
        """Return what a fetch from an offset returns: part of one segment, which may end within a batch.

        It begins with the batch that holds the offset, or the first one after it, and it ends where the magic changes:
        clients expect one in a response. An empty range: there is nothing (yet) for this isolation level.

        Args:
            offset: from the log start offset to the log end offset.
            max_bytes: of the range, if the first batch is not larger.
            is_committed: isolation level read_committed.
            minimum_one: whether the first batch is returned whole even if it is larger than `max_bytes` (KIP-74).

        Raises OffsetOutOfRangeError, and StorageError.
        """
        # UnifiedLog.read: an offset outside the log is OFFSET_OUT_OF_RANGE, and the client's reset policy decides.
        if not self.log_start_offset <= offset <= self.log_end_offset:
            bounds = f"{self.log_start_offset} to {self.log_end_offset}"
            raise OffsetOutOfRangeError(f"offset {offset} is outside of the log's offsets, {bounds}", path=self.path)
        limit = self.last_stable_offset() if is_committed else self.high_watermark
        nothing = FetchedRange(aborted=() if is_committed else None)
        found = self._find(offset) if offset < limit else None
        if found is None:
            return nothing
        number, place = found
        batches = self._map(number)
        end = batches.range_end(place.position, place.position + max(max_bytes, 0))
        if is_committed:
            # A transaction without a marker in this log cannot be known to be committed: nothing from it on is sent.
            limit = min(limit, self._committed.end_of_unmarked(place.last_offset))
        stop = self._position_of(number, batches, limit)
        last_offset = batches.last_offset_before(max(end, place.end))
        if end < place.end:
            if not minimum_one:
                return nothing
            # KIP-74: the first batch is returned whole.
            end = place.end
        if stop is not None and stop < end:
            end = stop
        if end <= place.position:
            return nothing
        aborted = None
        if is_committed:
            # Not from `offset` on, where a hole may be: a client drops a producer's records until it sees an abort
            # marker, and after the last batch of a transaction, that marker may belong to the next one.
            aborted = tuple(
                AbortedTransaction(span.producer_id, span.first)
                for span in self._committed.hidden_between(place.last_offset, max(last_offset, place.last_offset))
            )
        size = end - place.position
        # Released when the range is sent, or is not to be sent.
        file = self._cache.hold(_log_path(self._segments[number]))
        return FetchedRange((FileRange(file, place.position, size),), size, place.magic, aborted)

    def _find(self, offset: int) -> tuple[int, ReadStart] | None:
        """Return the segment and the place of the first batch that ends at an offset or after it; None: none does."""
        first = max(bisect_right(self._bases, offset) - 1, 0)
        after = range(first + 1, len(self._segments))
        found: tuple[int, ReadStart] | None = None
        for number in chain((first,), self._overlapping(first, offset), after):
            found = self._place_in(number, offset)
            if found is not None:
                break
        # None where it should be: a file that was renamed may hold it
        if found is None or found[0] > first:
            others = [self._place_in(number, offset) for number in self._renamed]
            found = min((each for each in (found, *others) if each), key=lambda each: each[1].last_offset, default=None)
        return found

    def _place_in(self, number: int, offset: int) -> tuple[int, ReadStart] | None:
        """Return the first batch of a segment that ends at an offset or after it; None: none does."""
        batches = self._map(number)
        stretch = batches.stretch_of(offset)
        return None if stretch is None else (number, batches.read_start(stretch, offset, partial(self._bytes, number)))

    @property
    def _renamed(self) -> tuple[int, ...]:
        """The segments whose first batch has lower offsets than their names. Raises StorageError."""
        found = self._found_renamed
        if found is None:
            firsts = ((number, bytes(self._bytes(number, 0, 8))) for number in range(len(self._bases)))
            found = tuple(
                number
                for number, first in firsts
                if first and 0 <= int.from_bytes(first, "big", signed=True) < self._bases[number]
            )
            self._found_renamed = found
        return found

    def _overlapping(self, number: int, offset: int) -> Iterator[int]:
        """Yield the segment that holds an offset although a later one, by its name, should."""
        for earlier in range(number - 1, -1, -1):
            batches = self._map(earlier)
            if batches.stretch_of(offset) is not None:
                yield earlier
            if batches.end:
                return

    def _position_of(self, number: int, batches: BatchMap, offset: int) -> int | None:
        """Return the position of the batch that holds an offset in a segment; None: it is after its last batch."""
        stretch = batches.stretch_of(offset) if offset < self._tail_on_disk.end else None
        return None if stretch is None else batches.read_start(stretch, offset, partial(self._bytes, number)).position

    # --- offsets ------------------------------------------------------------------------------------------------------
    def earliest(self) -> TimedOffset:
        """Return the log start offset, with the leader epoch there."""
        return TimedOffset(self.log_start_offset, leader_epoch=self._epoch_at(self.log_start_offset))

    def latest(self, *, is_committed: bool) -> TimedOffset:
        """Return the last stable offset or the high watermark, with the leader epoch there."""
        offset = self.last_stable_offset() if is_committed else self.high_watermark
        return TimedOffset(offset, leader_epoch=self._epoch_at(offset))

    def offset_for_time(self, timestamp_ms: int) -> TimedOffset | None:
        """Return the first record with a timestamp at or after a time; None: there is none. Raises StorageError."""
        with self._lookup() as lookup:
            record = lookup.find_time(timestamp_ms)
        if record is None:
            return None
        offset, time_ms = record.offset, record.timestamp_ms or 0
        # It is in a hole: the maps know the others
        if not self._is_served(record):
            found = self._first_from(timestamp_ms)
            if found is None:
                return None
            offset, time_ms = found
        # Kafka hides offsets at or above the high watermark from time look-ups (Partition.fetchOffsetForTimestamp).
        return None if offset >= self.high_watermark else TimedOffset(offset, time_ms, self._epoch_at(offset))

    def _is_served(self, record: RecordPlace) -> bool:
        """Return whether the batch of a record is served."""
        found = self._find(record.offset)
        if found is None:
            return False
        number, place = found
        batch = record.batch
        return self._bases[number] == batch.segment.base_offset and place.position == batch.position

    def _first_from(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Return offset and timestamp of the first record at or after a time in what is served."""
        for number in range(len(self._segments)):
            for start, end in self._map(number).stretches_from_time(timestamp_ms):
                found = first_record_at(self._bytes(number, start, end), timestamp_ms, self.log_start_offset)
                if found is not None:
                    return found
        return None

    def offset_of_max_timestamp(self) -> TimedOffset | None:
        """Return the first record with the largest timestamp (KIP-734); None: there is none. Raises StorageError."""
        end = self.log_end_offset
        largest = max(
            (
                # Up to the log end that is served, after which the disk may hold more (`until_ms`).
                self._map(number).max_timestamp_before(end, partial(self._bytes, number))
                for number, base in enumerate(self._bases)
                if base < end
            ),
            default=-1,
        )
        return None if largest < 0 else self.offset_for_time(largest)

    def offsets_before(self, timestamp_ms: int, max_count: int) -> list[int]:
        """Return offsets of segments as for ListOffsets of version 0: -1 the latest first, -2 the earliest.

        A segment counts by the modification time of its log, and the log end offset as now (`getOffsetsBefore`).
        """
        end, most = self.log_end_offset, max_count + len(self._bases)
        with self._lookup() as lookup:
            found = [each.offset for each in offsets_before(lookup, timestamp_ms, most, MAX_INT64, Trace())]
        if timestamp_ms != EARLIEST_OFFSET:
            found = [*([end] if timestamp_ms == LATEST_OFFSET else []), *(each for each in found if each < end)]
        return found[:max_count]

    def _lookup(self) -> PartitionLookup:
        options = ScanOptions(max_batch_bytes=self._options.max_batch_bytes, resync=True)
        return PartitionLookup(self._segments, log_start_offset=self.log_start_offset, options=options)

    # --- leader epochs ------------------------------------------------------------------------------------------------
    @property
    def _history(self) -> History:
        """The leader epochs in the checkpoint and, where it lacks the latest ones, in the last segment with any."""
        found = self._found_history
        if found is None:
            found = self._found_history = self._find_history()
        return found

    def _find_history(self) -> History:
        file = read_epoch_file(self.path)
        in_file = () if file is None else file.entries
        if self._is_cut:
            # Of a log that ends earlier, later epochs have not begun.
            in_file = tuple(each for each in in_file if each.start_offset < self.log_end_offset)
            return history(in_file, self._epochs_before(self.log_end_offset), self.log_end_offset)
        in_log: list[tuple[int, int]] = []
        if not in_file or in_file[-1].epoch < self._tail[1]:
            number = len(self._segments) - 1
            if number > 0 and self._tail[1] == _UNDEFINED and not self._segments[-1].size_bytes:
                # The last one was rolled, and not written to since
                number -= 1
            in_log = self._map(number).epochs if number >= 0 else []
        return history(in_file, [EpochStart(*each) for each in in_log], self.log_end_offset)

    @property
    def leader_epoch(self) -> int:
        """The latest leader epoch, of the checkpoint or of a batch; 0 for a log without epochs (magic 0 and 1)."""
        latest = self._history.latest
        return 0 if latest is None else max(latest, 0)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to a given one, and the offset at which it ends; (-1, -1): unknown.

        `LeaderEpochFileCache.endOffsetFor`: an epoch after the latest is unknown, one before the first ends where the
        first starts.
        """
        # LeaderEpochFileCache.endOffsetFor returns an undefined end for unknown epochs.
        epochs = self._history.epochs
        if not epochs or epoch < 0 or epoch > epochs[-1].epoch:
            return _NO_EPOCH
        return self._history.up_to(epoch) or (epoch, epochs[0].start_offset)

    def _epoch_at(self, offset: int) -> int:
        """Return the leader epoch of an offset; -1: unknown."""
        starts = [each.start_offset for each in self._history.epochs]
        number = bisect_right(starts, offset) - 1
        return self._history.epochs[number].epoch if number >= 0 else _UNDEFINED

    # --- producers ----------------------------------------------------------------------------------------------------
    def _find_producers(self) -> tuple[ProducerEntry, ...]:
        options = ScanOptions(max_batch_bytes=self._options.max_batch_bytes, resync=True)
        states = read_producer_states(
            self._partition, options, log_start_offset=self.log_start_offset, end_offset=self.log_end_offset
        )
        return tuple(states.snapshot_entries())

    def active_producers(self) -> tuple[ProducerEntry, ...]:
        """Return all producers, as they were at the end of the log. Raises StorageError."""
        found = self._found_producers
        if found is None:
            found = self._found_producers = self._find_producers()
        return found

    # --- segments -----------------------------------------------------------------------------------------------------
    def _map(self, number: int) -> BatchMap:
        """Return the map of a segment. Raises StorageError."""
        segment = self._segments[number]
        return self._cache.mapped(_log_path(segment), partial(self._new_map, segment))

    def _new_map(self, segment: Segment) -> BatchMap:
        with Source.open(_log_path(segment)) as source:
            found = map_batches(source, self._bounds_of(segment), options=self._options.scan_options)
        self._holes.report(_log_path(segment), found)
        tail = self._found_tail_on_disk
        # Others are within its range
        if tail is not None and found.end and found.end_offset > tail.readable:
            end = max(found.log_end_offset, tail.end)
            self._found_tail_on_disk, self._found_tail = LogTail(end, tail.epoch, found.end_offset), None
        return found

    def _bounds_of(self, segment: Segment) -> PlaceBounds:
        """Return what bounds the offsets of a segment."""
        found = self._bounds
        if found is None:
            found = self._bounds = partition_bounds(self._partition)
        return found[segment.base_offset]

    def _bytes(self, number: int, start: int, end: int) -> memoryview:
        """Return bytes of a segment's log. Raises StorageError."""
        path = _log_path(self._segments[number])
        file = self._cache.hold(path)
        try:
            return memoryview(os.pread(file.descriptor, end - start, start))
        except OSError as error:
            raise open_error(path, error) from error
        finally:
            file.release()


def _log_path(segment: Segment) -> str:
    if segment.log is None:
        raise StorageError("the segment has no log")
    return segment.log.path
