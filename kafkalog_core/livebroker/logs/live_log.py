"""The log of one partition that is written: appended to, rolled, shortened at its start, and read meanwhile.

`kafka.rules.append` decides what is written when; this module holds the files (Kafka's `UnifiedLog` and `LocalLog`).
Indexes of the active segment are in memory until it is rolled or closed: after a crash, recovery builds them from the
log, as it does for a broker whose mapped index pages were lost. Readers see an immutable list of segments, so that a
fetch goes on while segments are rolled and deleted.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import FieldError, StorageError
from kafkalog_core.format.checkpoint import encode_epoch_checkpoint
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.index import MAX_TXN_INDEX_BYTES, IndexBuilder, encode_txn_entry, iter_txn_entries
from kafkalog_core.format.layout import CONTROL_BIT, MAX_BATCH_BYTES, MAX_INT32, MAX_INT64
from kafkalog_core.format.names import FileKind, FileState, fixed_file_name, segment_file_name
from kafkalog_core.format.snapshot import encode_snapshot
from kafkalog_core.kafka.rules.append import Appender, OpenSegment
from kafkalog_core.kafka.rules.producer_anomalies import markers_of
from kafkalog_core.kafka.rules.producers import CompletedTxn, ProducerStates
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.rules.rule_table import append_rules, recovery_rules
from kafkalog_core.kafka.sim.batch_places import partition_bounds
from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochCache, EpochStart, read_epoch_file
from kafkalog_core.kafka.sim.producer_states import read_producer_states
from kafkalog_core.kafka.sim.start.segment_views import last_time
from kafkalog_core.livebroker.logs.log_dir_failure import ClosedLogError, LogDirFailure
from kafkalog_core.livebroker.logs.log_reader import CHECKED, LiveLogReader, LiveSegment
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.serve.logs.batch_map import BatchMap, check_places, map_batches
from kafkalog_core.serve.logs.file_ranges import SharedFile
from kafkalog_core.serve.logs.partition_view import OffsetOutOfRangeError
from kafkalog_core.storage.changing.writer import Attributes
from kafkalog_core.storage.framing import LogFraming
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from kafkalog_core.format.snapshot import ProducerEntry
    from kafkalog_core.kafka.rules.append import AppendLimits, Roll
    from kafkalog_core.kafka.rules.producer_anomalies import Known
    from kafkalog_core.serve.logs.segment_cache import SegmentCache
    from kafkalog_core.serve.logs.served_holes import ServedHole
    from kafkalog_core.storage.changing.writer import Disk
    from kafkalog_core.storage.listing import Segment

__all__ = ["Appended", "LiveLog", "LiveSegment", "LogFacts"]

_RULES: Final = append_rules(LATEST)
_RECOVERY: Final = recovery_rules(LATEST)
_SCAN: Final = ScanOptions(check=False)
_ROWS: Final = 64
_UNDEFINED: Final = -1
_NS_PER_MS: Final = 1_000_000
_SEGMENT_KINDS: Final = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)


class Appended(NamedTuple):
    """Offsets of a batch that was appended."""

    base_offset: int
    last_offset: int


class LogFacts(Struct, frozen=True, kw_only=True):
    """What a log is opened with.

    Args:
        limits: the settings of its topic for appends.
        log_start_offset: the checkpointed one; None: the base offset of the first segment.
        leader_epoch: of what is appended.
    """

    limits: AppendLimits
    log_start_offset: int | None = None
    leader_epoch: int = 0


class _Sink:
    """What an appender writes to: the segments of a log."""

    def __init__(self, log: LiveLog) -> None:
        self._log = log

    def begin(self, segment: OpenSegment) -> None:
        """Begin a segment."""
        self._log.begin_segment(segment)

    def append(self, data: memoryview, run: Run, first: int, last: int) -> None:
        """Append batches."""
        self._log.append_rows(data, run, first, last)

    def end(self, segment: OpenSegment, roll: Roll | None) -> None:
        """End a segment."""
        self._log.end_segment(segment, roll)

    def flush(self, end_offset: int) -> None:
        """Flush."""
        del end_offset
        self._log.flush()


class LiveLog(LiveLogReader):
    """The log of one partition. Thread-safe; appends are made one at a time."""

    def __init__(
        self,
        path: str,
        disk: Disk,
        cache: SegmentCache,
        facts: LogFacts,
        *,
        clock_ms: Callable[[], int],
        failure: LogDirFailure | None = None,
        notify: Callable[[ServedHole], None] | None = None,
    ) -> None:
        """Open a log that was recovered, or begin a new one in an empty directory. Raises StorageError.

        clock_ms: time of day, in milliseconds since 1970. failure: of its log directory; None: one of its own. notify:
        receives each damaged place that is not served, once.
        """
        super().__init__(path, cache, clock_ms, notify)
        self._disk = disk
        self._failure = failure or LogDirFailure(path)
        name = os.path.basename(path)
        self._appending, self._changing = (
            self._failure.writing(f"{what} {name}") for what in ("an append to", "a change of")
        )
        self._columns = BatchColumns(_ROWS)
        self._unsynced: list[LiveSegment] = []
        self._is_closed = False
        partition = read_partition(path)
        self._bounds = partition_bounds(partition)
        found = [each for each in partition.segments if each.log is not None]
        file = read_epoch_file(path)
        self._epochs = EpochCache(() if file is None else file.entries, LATEST)
        self._has_new_epoch = False  # which is not in the file yet
        self.leader_epoch = max([facts.leader_epoch, *(each.epoch for each in self._epochs.entries[-1:])])
        self._segments = tuple(_sealed(each, after.base_offset) for each, after in pairwise(found))
        self._states = ProducerStates(sequences="unchecked")
        self._snapshots: set[int] = set()
        first = found[0].base_offset if found else facts.log_start_offset or 0
        self.log_start_offset = max(first, facts.log_start_offset or 0)
        last = ProducerStates(sequences="unchecked")  # of the last segment alone
        self._appender = self._continued(found[-1], facts.limits, last) if found else self._new(first, facts.limits)
        self.log_start_offset = min(self.log_start_offset, self._appender.end_offset)
        snapshots = {each.name.base_offset or 0 for each in partition.snapshots if each.name.canonical}
        self._states = read_producer_states(
            partition, _SCAN, log_start_offset=self.log_start_offset, end_offset=self.log_end_offset
        )
        self._states.recall(last)
        self._snapshots |= snapshots
        # What was there was recovered
        self._synced = self.log_end_offset
        for segment in found:
            self._read_aborted(segment)

    # --- opening ------------------------------------------------------------------------------------------------------
    def _new(self, base_offset: int, limits: AppendLimits, segment: OpenSegment | None = None) -> Appender:
        return Appender(
            _Sink(self), base_offset, limits=limits, rules=_RULES, now_ms=self._clock_ms(), segment=segment, rows=_ROWS
        )

    def _continued(self, last: Segment, limits: AppendLimits, states: ProducerStates) -> Appender:
        """Return the appender that goes on with the last segment, and replay its producers to `states`."""
        path, base = _path_of(last), last.base_offset
        indexes = IndexBuilder(
            base,
            bits=_RULES.bits,
            interval_bytes=limits.index_interval_bytes,
            max_index_bytes=limits.segment_index_bytes,
            rows=_ROWS,
        )
        segment = OpenSegment(base_offset=base, indexes=indexes, created_ms=self._clock_ms(), end_offset=base)
        live = LiveSegment(base, path)
        with Source.open(path) as source:
            live.batches = map_batches(source, self._bounds[base], options=CHECKED)
            directory = shell_path(os.path.dirname(path))
            check_places(live.batches, path)
            for item in scan(source, base_offset=None, options=_SCAN):
                if isinstance(item, Damage):
                    break
                try:
                    _count(segment, item)
                # No checksum covers the base offset
                except FieldError as error:
                    see = WayOut("see which one, and what to do", f"kafkalog verify {directory}")
                    raise StorageError(Refusal(f"{error}: a wrong base offset", (see,)), path=path) from error
                states.replay(item.batches, markers_of(item.memory, item.batches, max_bytes=MAX_BATCH_BYTES))
        live.size_bytes, live.end_offset = segment.size_bytes, segment.end_offset
        live.max_timestamp_ms = max(live.batches.max_timestamp_ms, last_time(last.timeindex))
        # Zeros of preallocated space, or a tail that recovery would cut
        if last.size_bytes > segment.size_bytes:
            place = f"bytes {segment.size_bytes} to {last.size_bytes - 1}"
            reason = f"{place} do not form a batch, although the last shutdown was clean: nothing could be appended"
            see = WayOut("see what they are", f"kafkalog verify {directory}")
            restore = WayOut("restore the file from a replica or a backup")
            log_dir = shell_path(os.path.dirname(os.path.dirname(path)))
            cut = WayOut("stop this broker and truncate the log there", f"kafkalog recover {log_dir} --apply")
            raise StorageError(Refusal(reason, (see, restore, cut)), path=path)
        self._holes.report(path, live.batches)
        live.file = SharedFile(self._disk.open_log(path))
        self._segments = (*self._segments, live)
        return self._new(base, limits, segment)

    def _read_aborted(self, segment: Segment) -> None:
        if segment.txnindex is None:
            return
        with Source.open(segment.txnindex.path) as source:
            if source.size_bytes > MAX_TXN_INDEX_BYTES:
                raise StorageError(
                    f"{source.size_bytes} bytes, larger than any transaction index; kafkalog reindex rebuilds it",
                    path=source.path,
                )
            content = bytes(source.window(0, source.size_bytes))
        entries = [CompletedTxn(*each[1:4], True, each[4]) for each in iter_txn_entries(content)]
        self._aborted += entries
        if segment.base_offset == self._segments[-1].base_offset:
            self._segments[-1].aborted += b"".join(_entry_of(each) for each in entries)

    # --- bounds -------------------------------------------------------------------------------------------------------
    @property
    def log_end_offset(self) -> int:
        """The offset after the last batch."""
        return self._appender.end_offset

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is on the disk."""
        with self._lock:
            # Segments that were rolled and not fsynced yet hold the recovery point back.
            return self._unsynced[0].base_offset if self._unsynced else self._synced

    @property
    def size_bytes(self) -> int:
        """The size of all segments."""
        return sum(each.size_bytes for each in self._segments)

    @property
    def segments(self) -> tuple[LiveSegment, ...]:
        """The segments, the active one last."""
        return self._segments

    def last_stable_offset(self) -> int:
        """Return the first offset of the open transactions, else the high watermark."""
        with self._lock:
            unstable = self._states.first_unstable_offset
            end = self.log_end_offset if unstable is None else max(unstable, self.log_start_offset)
            return self._end_before(end)

    def known_stable_offset(self) -> int:
        """Return the last stable offset, which is always known here."""
        return self.last_stable_offset()

    # --- appends ------------------------------------------------------------------------------------------------------
    def known_producer(self, producer_id: int) -> Known | None:
        """Return what is known of a producer; None: nothing. Call it under `lock` to act on it."""
        return self._states.known(producer_id)

    def is_next(self, producer_id: int, epoch: int, sequence: int) -> bool:
        """Return whether a batch follows the last one of its producer, as nearly every one does."""
        return self._states.last_sequence(producer_id, epoch) == (sequence - 1) & MAX_INT32

    def has_transaction(self, producer_id: int) -> bool:
        """Return whether a producer has a transaction open here."""
        known = self._states.known(producer_id) if self._states.first_unstable_offset is not None else None
        return known is not None and known.txn_first_offset is not None

    @property
    def lock(self) -> threading.RLock:
        """What an append holds; for a check and an append that belong together."""
        return self._lock

    def producers(self) -> ProducerStates:
        """Return the producers; call it under `lock`."""
        return self._states

    def active_producers(self) -> list[ProducerEntry]:
        """Return all producers."""
        with self._lock:
            return list(self._states.snapshot_entries())

    def append(self, batch: bytearray, rows: BatchColumns | None = None) -> Appended:
        """Append a whole batch of magic 2 at the log end offset. Raises WriteError, and StorageError if it is deleted.

        Its base offset and leader epoch are written into `batch`; its checksum does not cover them.

        rows: its header as a walk found it, whose offsets are changed as in `batch`; None: it is read here.
        """
        with self._lock:
            # Checked under the lock: a topic that was deleted meanwhile takes no batch.
            self._check_open()
            base, now_ms = self.log_end_offset, self._clock_ms()
            # DefaultRecordBatch.setLastOffset and setPartitionLeaderEpoch: both fields are outside the checksum.
            kernels.stamp_batches(batch, base, self.leader_epoch)
            memory = memoryview(batch)
            if rows is None:
                rows = self._columns
                LogFraming(0).walk(memory, 0, _UNDEFINED, MAX_INT64, check=False, into=rows)
            else:
                _move(rows, base, self.leader_epoch)
            with self._appending:
                self._note_epoch(base)
                self._appender.append_set(Run(memory, rows, False), now_ms=now_ms)
            return Appended(base, self.log_end_offset - 1)

    @property
    def segment_bytes(self) -> int:
        """The size of a segment, which is the most that one batch may have."""
        return self._appender.segment_bytes

    def _note_epoch(self, offset: int) -> None:
        latest = self._epochs.entries[-1].epoch if self._epochs.entries else _UNDEFINED
        if self.leader_epoch > latest:
            self._epochs.assign(EpochStart(self.leader_epoch, offset))
            # `sync` writes it, on another thread. Until then the recovery point is not after this batch, so that a
            # crash loses nothing: recovery assigns the epochs of all batches from there on (LogLoader.recoverLog).
            self._has_new_epoch = True

    def _write_epochs(self) -> None:
        content = encode_epoch_checkpoint((each.epoch, each.start_offset) for each in self._epochs.entries)
        self._replace(fixed_file_name(FileKind.LEADER_EPOCH), content)
        self._has_new_epoch = False

    def limit(self, limits: AppendLimits) -> None:
        """Change the settings of the topic."""
        with self._lock:
            self._appender.limit(limits)

    # --- files --------------------------------------------------------------------------------------------------------
    def begin_segment(self, segment: OpenSegment) -> None:
        """Begin a segment. Like `LogSegment.open` it fsyncs nothing: requests do not wait for the disk."""
        path = f"{self.path}/{segment_file_name(segment.base_offset, FileKind.LOG)}"
        # With owner and mode of the directory: the broker that takes over must be able to append.
        file = SharedFile(self._disk.new_log(path, Attributes.of_new_file(self.path, self._disk.trusted)))
        base = segment.base_offset
        self._segments = (*self._segments, LiveSegment(base, path, file, end_offset=base, batches=BatchMap(base)))

    def append_rows(self, data: memoryview, run: Run, first: int, last: int) -> None:
        """Write batches to the active segment, and replay their producers."""
        live, rows = self._segments[-1], run.batches
        if live.file is None or live.batches is None:
            raise ClosedLogError("the log is closed", path=self.path)
        # The file first, then the map: a reader must not see a batch that is not there.
        self._disk.append(live.file.descriptor, live.path, data, live.size_bytes)
        position = live.size_bytes
        cell, last_offset, has_producer, is_control = rows.cell, _UNDEFINED, False, 0
        for row in range(first, last):
            end, last_offset = position + cell("size_bytes", row), cell("last_offset", row)
            live.batches.append(position, end, last_offset, cell("max_timestamp_ms", row))
            has_producer |= cell("producer_id", row) != _UNDEFINED
            is_control |= cell("attributes", row) & CONTROL_BIT
            position = end
        live.size_bytes, live.end_offset = position, last_offset + 1
        live.max_timestamp_ms = max(live.max_timestamp_ms, live.batches.max_timestamp_ms)
        if has_producer:
            markers = markers_of(run.memory, rows, max_bytes=MAX_BATCH_BYTES) if is_control else {}
            for event in self._states.replay(rows, markers, first=first, last=last):
                if isinstance(event, CompletedTxn) and event.is_aborted:
                    self._aborted.append(event)
                    live.aborted += _entry_of(event)

    def end_segment(self, segment: OpenSegment, roll: Roll | None) -> None:
        """Write the indexes of a segment that is rolled or closed, and the producers at its end."""
        live = self._segments[-1]
        names = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
        for kind, content in zip(names, (segment.indexes.offset_index, segment.indexes.time_index), strict=True):
            # Indexes are written when a segment is closed: until then they are in memory, and a crash loses nothing
            # that recovery cannot build.
            self._replace(segment_file_name(live.base_offset, kind), bytes(content))
        if live.aborted:
            self._replace(segment_file_name(live.base_offset, FileKind.TXN_INDEX), bytes(live.aborted))
        live.mtime_ms = os.stat(live.path).st_mtime_ns // _NS_PER_MS
        self._write_snapshot(live.end_offset if roll is None else roll.next_base)
        if roll is not None:
            if live.batches is not None:
                self._cache.put(live.path, live.batches)
            live.batches = None
            self._unsynced.append(live)

    def flush(self) -> None:
        """Fsync, as flush.messages asks for; a segment that was just rolled is left to `sync`, on another thread."""
        if self._segments[-1] not in self._unsynced:
            self.sync()

    def _write_snapshot(self, offset: int) -> None:
        self._sweep_snapshots(offset)
        # Not below the log start: a start would delete it (ProducerStateManager.truncateAndReload).
        if offset <= self.log_start_offset or offset in self._snapshots:
            return
        entries = self._states.snapshot_entries(_RECOVERY.snapshot_style)
        content = encode_snapshot(entries, order=_RECOVERY.snapshot_order)
        self._replace(segment_file_name(offset, FileKind.SNAPSHOT), content)
        self._snapshots.add(offset)

    def _sweep_snapshots(self, offset: int) -> None:
        """Delete the snapshot of an earlier stop, which is that of no segment (`removeStraySnapshots`)."""
        bases = {each.base_offset for each in self._segments}
        for stray in [each for each in self._snapshots if each not in bases and each != offset]:
            path = f"{self.path}/{segment_file_name(stray, FileKind.SNAPSHOT)}"
            if os.path.lexists(path):
                self._disk.unlink(path)
            self._snapshots.discard(stray)

    def _replace(self, name: str, content: bytes) -> None:
        self._disk.replace_file(f"{self.path}/{name}", content, self.path)

    # --- the rest of a log's life -------------------------------------------------------------------------------------
    def sync(self, *, with_active: bool = True) -> None:
        """Fsync what was appended; without the active segment only those that were rolled. Raises WriteError."""
        with self._lock:
            # Epochs before the recovery point moves: recovery assigns only the epochs of what it reads.
            if self._has_new_epoch and not self.is_deleted:
                with self._changing:
                    self._write_epochs()
            waiting, active, end = list(self._unsynced), self._segments[-1], self.log_end_offset
            wanted = [*waiting, active] if with_active else waiting
            held = [(live.file, live.path) for live in wanted if live.file is not None]
            # Retention may delete one of them meanwhile
            for file, _ in held:
                file.hold()
        try:
            # Outside the lock: fsync may take seconds, and appends must go on.
            with self._changing:
                for file, path in held:
                    self._disk.sync(file.descriptor, path)
        finally:
            for file, _ in held:
                file.release()
        with self._lock:
            for live in waiting:
                # A clean or retention has removed it meanwhile.
                if live not in self._unsynced:
                    continue
                self._unsynced.remove(live)
                if live.file is not None:
                    live.file.release()
                    live.file = None
            self._synced = max(self._synced, end if with_active else active.base_offset)

    def close(self) -> None:
        """Write all that a clean shutdown leaves: the log on the disk, its indexes, producers and epochs."""
        with self._lock:
            if self.is_deleted or self._is_closed:
                return
            # Else the next start recovers it, as after a crash
            if not self._failure.is_offline:
                # The log first, then its indexes, snapshot and epochs.
                self.sync()
                with self._changing:
                    self._appender.close()
                    self._write_epochs()
            self._is_closed = True
            self._release()

    def _check_open(self) -> None:
        if self.is_deleted or self._is_closed:
            raise ClosedLogError(f"the partition was {'deleted' if self.is_deleted else 'closed'}", path=self.path)

    def _release(self) -> None:
        for live in self._segments:
            if live.file is not None:
                live.file.release()
                live.file = None

    def delete(self) -> None:
        """Stop using the files: the directory is about to be deleted. Ranges that are being sent stay readable."""
        with self._lock:
            self.is_deleted = True
            self._release()
            for live in self._segments:
                self._cache.forget(live.path)

    def roll(self) -> None:
        """Begin a new segment, unless the active one is empty."""
        with self._lock:
            self._check_open()
            if self._segments[-1].size_bytes:
                with self._changing:
                    self._appender.roll(self._clock_ms())

    def advance_start(self, offset: int) -> None:
        """Raise the log start offset (DeleteRecords, retention). Raises OffsetOutOfRangeError."""
        with self._lock:
            if not 0 <= offset <= self.log_end_offset:
                raise OffsetOutOfRangeError(f"offset {offset} is above the high watermark", path=self.path)
            if offset > self.log_start_offset:
                self._check_open()
                with self._changing:
                    self.log_start_offset = offset
                    self._epochs.truncate_start(offset)
                    self._write_epochs()

    def delete_segments(self, bases: Sequence[int]) -> int:
        """Delete the first segments, which `bases` names; the active one is rolled first. Return how many are gone."""
        with self._lock:
            self._check_open()
            if bases and bases[-1] == self._segments[-1].base_offset:
                self.roll()
            gone = [live for live in self._segments[:-1] if live.base_offset in set(bases)]
            with self._changing:
                self._segments = tuple(live for live in self._segments if live not in gone)
                self.advance_start(max(self.log_start_offset, self._segments[0].base_offset))
                self._forget_segments(gone)
                self._sweep_snapshots(max(self._snapshots, default=0))
            self._aborted = [each for each in self._aborted if each.last_offset >= self.log_start_offset]
        return len(gone)

    def exchange(self, new: LiveSegment, old: Sequence[LiveSegment]) -> bool:
        """Put a cleaned segment, whose files end in .swap, in the place of others (`LocalLog.replaceSegments`).

        Return whether it was done: not if one of them is gone by now. A start completes what a crash interrupts here.
        """
        with self._lock:
            if self.is_deleted or self._is_closed or any(each not in self._segments for each in old):
                return False
            first = self._segments.index(old[0])
            with self._changing:
                self._forget_segments(old)
                for kind in _SEGMENT_KINDS:
                    path = f"{self.path}/{segment_file_name(new.base_offset, kind, FileState.SWAP)}"
                    if os.path.lexists(path):
                        self._disk.rename(path, f"{self.path}/{segment_file_name(new.base_offset, kind)}")
                self._disk.sync_directory(self.path)
            self._cache.forget(new.path)  # what a reader has opened between the two
            self._segments = (*self._segments[:first], new, *self._segments[first + len(old) :])
        return True

    def _forget_segments(self, gone: Sequence[LiveSegment]) -> None:
        """Delete the files of segments: a range that is being sent holds its file open."""
        for live in gone:
            if live in self._unsynced:
                self._unsynced.remove(live)
            if live.file is not None:
                live.file.release()
                live.file = None
            self._cache.forget(live.path)
            for kind in _SEGMENT_KINDS:
                path = f"{self.path}/{segment_file_name(live.base_offset, kind)}"
                if os.path.lexists(path):
                    self._disk.unlink(path)


def _move(rows: BatchColumns, base_offset: int, leader_epoch: int) -> None:
    """Change the offsets and the leader epoch of a header as an append changes those of its batch."""
    bases, lasts = rows.column("base_offset"), rows.column("last_offset")
    lasts[0] += base_offset - bases[0]
    bases[0] = base_offset
    rows.column("leader_epoch")[0] = leader_epoch


def _count(segment: OpenSegment, run: Run) -> None:
    """Add batches that are in a log already to its segment and indexes."""
    rows = run.batches
    if not segment.size_bytes:
        segment.first_timestamp_ms = rows.column("max_timestamp_ms")[0]
    segment.indexes.add_batches(rows)
    segment.size_bytes = rows.column("position")[-1] + rows.column("size_bytes")[-1]
    segment.batches += rows.count
    segment.end_offset = rows.column("last_offset")[-1] + 1


def _sealed(segment: Segment, end_offset: int) -> LiveSegment:
    """Return a segment that is not written any more; `end_offset`: where the next one begins."""
    if segment.log is None:
        raise StorageError("the segment has no log")
    return LiveSegment(
        segment.base_offset,
        segment.log.path,
        size_bytes=segment.size_bytes,
        mtime_ms=segment.log.mtime_ns // _NS_PER_MS,
        end_offset=end_offset,
        max_timestamp_ms=last_time(segment.timeindex),
    )


def _path_of(segment: Segment) -> str:
    return "" if segment.log is None else segment.log.path


def _entry_of(transaction: CompletedTxn) -> bytes:
    return encode_txn_entry(*transaction[:3], transaction.last_stable_offset)
