"""Producer snapshots as a broker keeps them while it loads a log: `ProducerStateManager` over files in memory.

Nothing is written: `SnapshotFiles` holds which snapshots there would be in the end, and their content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Self

from kafkalog_core.errors import FieldError, FormatError, StorageError
from kafkalog_core.format.layout import MAX_INT32
from kafkalog_core.format.names import FileState
from kafkalog_core.format.snapshot import (
    decode_snapshot,
    decode_snapshot_header,
    encode_snapshot,
    repeated_producers,
)
from kafkalog_core.kafka.rules.producers import ProducerStates
from kafkalog_core.kafka.rules.rule_table import recovery_rules, rules_of
from kafkalog_core.kafka.sim.start.replay import replay_producers
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from kafkalog_core.format.snapshot import ProducerEntry, SnapshotOrder
    from kafkalog_core.kafka.rules.producers import SnapshotStyle
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.rules.rule_table import OffsetSearch
    from kafkalog_core.kafka.sim.start.replay import Obstacle, ReplaySegment
    from kafkalog_core.storage.partition import Partition

__all__ = ["ProducerLoad", "ProducerManager", "SnapshotFate", "SnapshotFiles", "SnapshotOptions", "is_deleted_by_start"]


_MAX_BYTES: Final = 256 * 1024 * 1024


class SnapshotOptions(Struct, frozen=True, kw_only=True):
    """How snapshots are read and written.

    Args:
        order: of the producers in a file.
        style: what a marker changes in the content of a file.
        now_ms: the time at which the broker starts.
        expiration_ms: a producer without an open transaction that was silent for this long is not loaded.
        drops_below_start: whether producers whose last batch is below the log start offset are not loaded either.
        reads_empty_markers: as in `RecoveryRules`, for the batches after a snapshot.
        reads_apart: whether a producer counts as unknown while batches are read to recover a segment: up to 2.7
            `Log.loadProducersFromLog` asks the log's own producers, which are not loaded yet.
        expirations_ms: the shortest and the longest expiration of the releases that the disk may be of.
        max_entries: a file with more producers is corrupt.
    """

    order: SnapshotOrder
    style: SnapshotStyle
    now_ms: int
    expiration_ms: int
    drops_below_start: bool = False
    reads_empty_markers: bool = True
    reads_apart: bool = False
    expirations_ms: tuple[int, int] = (0, 0)
    max_entries: int = MAX_INT32

    @classmethod
    def of_release(
        cls, release: Release, *, now_ms: int, expiration_ms: int, expirations_ms: tuple[int, int] | None = None
    ) -> Self:
        """Return the options of a release; `expirations_ms` None: the release is known."""
        rules = recovery_rules(release)
        return cls(
            order=rules.snapshot_order,
            style=rules.snapshot_style,
            now_ms=now_ms,
            expiration_ms=expiration_ms,
            drops_below_start=rules_of(release).drops_old_producers,
            reads_empty_markers=rules.reads_empty_markers,
            reads_apart=rules_of(release).reads_apart,
            expirations_ms=expirations_ms or (expiration_ms, expiration_ms),
            max_entries=rules_of(release).max_snapshot_entries,
        )


SnapshotFate = Literal["deleted", "written", "loaded", "unread"]
"""`written`: with other content than before; `unread`: it is left as it is, and nothing is taken from it."""


class SnapshotFiles:
    """Snapshots by their offset: files on the disk, new ones, and removed ones.

    `loaded`: the offsets of those from which producers were taken. `is_expiration_decisive`: whether a producer that
    was loaded or dropped was silent for a time after which only some of the releases that the disk may be of forget it.

    Args:
        paths: those on the disk, by offset.
    """

    def __init__(self, paths: dict[int, str]) -> None:
        self.is_expiration_decisive = False
        self.loaded: set[int] = set()
        self._on_disk = dict(paths)
        self._there: dict[int, bytes | None] = dict.fromkeys(paths)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._there))

    def __len__(self) -> int:
        return len(self._there)

    @classmethod
    def of(cls, partition: Partition) -> Self:
        """Return the snapshots of a partition that a broker reads."""
        files = (file for file in partition.snapshots if file.name.canonical and file.name.state is FileState.LIVE)
        return cls({file.name.base_offset: file.path for file in files if file.name.base_offset is not None})

    @property
    def latest(self) -> int | None:
        """The highest offset."""
        return max(self._there, default=None)

    def read(self, offset: int) -> bytes | None:
        """Return the content of one; None: the disk cannot read it, or it is too large for a snapshot."""
        content = self._there[offset]
        return self._read_disk(offset) if content is None else content

    def put(self, offset: int, content: bytes) -> None:
        """Write one, or replace it."""
        is_same = offset in self._on_disk and self._read_disk(offset) == content
        self._there[offset] = None if is_same else content

    def remove(self, offset: int) -> None:
        """Remove one."""
        self._there.pop(offset, None)

    @property
    def written(self) -> dict[int, bytes]:
        """The snapshots that differ from the disk, by offset."""
        return {offset: content for offset, content in sorted(self._there.items()) if content is not None}

    @property
    def deleted(self) -> dict[int, str]:
        """The paths of removed snapshots, by offset."""
        return {offset: path for offset, path in sorted(self._on_disk.items()) if offset not in self._there}

    @property
    def fates(self) -> dict[int, SnapshotFate]:
        """What became of the snapshots on the disk, by offset."""
        fates: dict[int, SnapshotFate] = {}
        for offset in self._on_disk:
            if offset not in self._there:
                fates[offset] = "deleted"
            elif self._there[offset] is not None:
                fates[offset] = "written"
            else:
                fates[offset] = "loaded" if offset in self.loaded else "unread"
        return fates

    def _read_disk(self, offset: int) -> bytes | None:
        try:
            with Source.open(self._on_disk[offset]) as source:
                return bytes(source.read(0, source.size_bytes)) if source.size_bytes <= _MAX_BYTES else None
        except StorageError:
            return None


class ProducerManager:
    """The producers of a partition at one offset, on top of its snapshots.

    `end_offset` is where `states` are, `last_snapshot` the offset of the last snapshot loaded or taken.
    """

    def __init__(self, files: SnapshotFiles, options: SnapshotOptions) -> None:
        self.files = files
        self._options = options
        self.states = ProducerStates(sequences="unchecked")
        self.end_offset = 0
        self.last_snapshot = 0

    def truncate_and_reload(self, start_offset: int, end_offset: int) -> None:
        """Delete the snapshots that are outside of the log, and load the newest of the others.

        Where the log ends at offset 0, as before its first segment, none is loaded, and none is taken at or below the
        log start (`ProducerStateManager.onLogStartOffsetIncremented`, `truncateHead` before 2.8).
        """
        for offset in self.files:
            # ProducerStateManager.truncateAndReload
            if offset > end_offset or offset <= start_offset:
                self.files.remove(offset)
        if end_offset != self.end_offset:
            self._load(start_offset)
        else:
            self.end_offset = max(self.end_offset, start_offset)
            self.last_snapshot = start_offset if self.files.latest is None else self.files.latest

    def take(self) -> None:
        """Write a snapshot of the states, if they are after the last one."""
        # ProducerStateManager.takeSnapshot: only where mapEndOffset > lastSnapOffset
        if self.end_offset > self.last_snapshot:
            entries = self.states.snapshot_entries(self._options.style)
            self.files.put(self.end_offset, encode_snapshot(entries, order=self._options.order))
            self.last_snapshot = self.end_offset

    def update(self, read: ProducerStates) -> None:
        """Merge producers that were read as unknown ones (`ProducerStateEntry.update`).

        They replace what was known of a producer, its open transaction too; only its last batch is kept, where none was
        read and the epoch is the same.
        """
        style = self._options.style
        known = {entry.producer_id: entry for entry in self.states.snapshot_entries(style)}
        for entry in read.snapshot_entries(style):
            old = known.get(entry.producer_id)
            is_kept = old is not None and not entry.has_batch and old.producer_epoch == entry.producer_epoch
            known[entry.producer_id] = entry
            if old is not None and is_kept:
                known[entry.producer_id] = replace(
                    entry,
                    last_sequence=old.last_sequence,
                    last_offset=old.last_offset,
                    offset_delta=old.offset_delta,
                )
        self.states = ProducerStates.from_snapshot(known.values(), sequences="unchecked")

    def _load(self, start_offset: int) -> None:
        self.states = ProducerStates(sequences="unchecked")
        while (latest := self.files.latest) is not None:
            content = self.files.read(latest) or b""
            try:
                entries = self._loaded(content, start_offset)
                self.states = ProducerStates.from_snapshot(entries, sequences="unchecked")
            # ProducerStateManager.loadFromSnapshot deletes a CorruptSnapshotException's file and tries the one before
            except FormatError:
                self.files.remove(latest)
                continue
            self.files.loaded.add(latest)
            self.end_offset = self.last_snapshot = latest
            return
        self.end_offset = self.last_snapshot = start_offset

    def _loaded(self, content: bytes, start_offset: int) -> Iterator[ProducerEntry]:
        """Yield the producers that a broker takes from a snapshot; of two entries of one producer the last one counts.

        Raises FormatError.
        """
        count = decode_snapshot_header(content)[0].entry_count
        if count > self._options.max_entries:
            raise FieldError(f"{count} producers are more than {self._options.max_entries}")
        repeated = repeated_producers(content)
        last: dict[int, ProducerEntry] = {}
        if repeated:
            kept = (entry for entry in decode_snapshot(content) if not self._is_dropped(entry, start_offset))
            last = {entry.producer_id: entry for entry in kept if entry.producer_id in repeated}
        for entry in decode_snapshot(content):
            if self._is_dropped(entry, start_offset):
                continue
            if entry.producer_id not in repeated:
                yield entry
            elif entry.producer_id in last:
                yield last.pop(entry.producer_id)

    def _is_dropped(self, entry: ProducerEntry, start_offset: int) -> bool:
        options = self._options
        if options.drops_below_start and entry.last_offset < start_offset:
            return True
        # ProducerStateManager.isProducerExpired: a producer with an open transaction never expires
        if entry.current_txn_first_offset >= 0:
            return False
        silent_ms, (shortest_ms, longest_ms) = options.now_ms - entry.timestamp_ms, options.expirations_ms
        self.files.is_expiration_decisive |= shortest_ms <= silent_ms < longest_ms
        return silent_ms >= options.expiration_ms


class ProducerLoad:
    """The producers of one partition while it is loaded.

    Args:
        files: its snapshots; updated in place.
        options: how they are read and written.
        marks_last_segments: whether snapshots are taken at the base offsets of the last two segments that are passed,
            and after the last batch.
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
        self.has_forgotten = False
        """Whether `at_end` has found no snapshot after a clean shutdown, so that there are no producers."""

    def before(
        self, readings: Sequence[ReplaySegment], start_offset: int, base_offset: int
    ) -> tuple[ProducerManager, tuple[str, Obstacle] | None]:
        """Return the producers at the base offset of a segment that is recovered, and the place where the broker stops.

        Args:
            readings: the segments that are known by then.
            start_offset: the checkpointed log start offset.
            base_offset: of the segment.
        """
        manager = ProducerManager(self.files, self._options)
        reads_apart = self._options.reads_apart
        obstacle = self._rebuild(manager, readings, start_offset, base_offset, reads_apart=reads_apart)
        return manager, obstacle

    def at_end(
        self, readings: Sequence[ReplaySegment], start_offset: int, end_offset: int, *, is_clean: bool
    ) -> tuple[str, Obstacle] | None:
        """Load the producers at the end of the log (`UnifiedLog.rebuildProducerState`); return where it stops."""
        manager = ProducerManager(self.files, self._options)
        # UnifiedLog.rebuildProducerState: without a snapshot after a clean shutdown, empty ones are written
        if is_clean and not len(self.files):
            self.has_forgotten = True
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
        """Remove snapshots at no base offset, except the newest after the last segment (`removeStraySnapshots`)."""
        stray = [offset for offset in self.files if offset not in base_offsets]
        for offset in stray:
            if offset != stray[-1] or (base_offsets and offset < max(base_offsets)):
                self.files.remove(offset)

    def _rebuild(
        self,
        manager: ProducerManager,
        readings: Sequence[ReplaySegment],
        start_offset: int,
        last_offset: int,
        *,
        reads_apart: bool = False,
    ) -> tuple[str, Obstacle] | None:
        # UnifiedLog.rebuildProducerState takes snapshots at the bases of the last two segments (offsetsToSnapshot)
        marked = {reading.base_offset for reading in readings[-2:]} if self._marks_last_segments else set()
        is_at_end = manager.end_offset >= last_offset  # a fresh one, so that it is empty too
        manager.truncate_and_reload(start_offset, last_offset)
        if last_offset > manager.end_offset and not is_at_end:
            floor = next((each for each in reversed(readings) if each.base_offset <= last_offset), None)
            lost: set[int] = set()
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
                    lost=lost,
                )
                if obstacle is not None and reading.path is not None:
                    return reading.path, obstacle
                if reads_apart:
                    manager.update(states)
        manager.end_offset = last_offset
        manager.take()
        return None


def _between(readings: Sequence[ReplaySegment], first_offset: int, end_offset: int) -> Sequence[ReplaySegment]:
    """Return the segments from the one that holds an offset on, up to those that start at or after another."""
    found = [reading for reading in readings if reading.base_offset < end_offset]
    floor = max((reading.base_offset for reading in found if reading.base_offset <= first_offset), default=first_offset)
    return [reading for reading in found if reading.base_offset >= floor]


def is_deleted_by_start(
    offset: int, base_offsets: Container[int], *, log_start: int, recovered_from: int, removes_stray: bool
) -> bool:
    """Return whether a start after an unclean shutdown deletes the snapshot of an offset below the log end offset.

    ProducerStateManager.truncateAndReload deletes those up to the log start offset, and those after the base offset of
    the first segment that is recovered; the recovery writes one at each base offset again. Since 2.8
    removeStraySnapshots deletes the others that are at no base offset: that of an earlier clean shutdown, say.

    Args:
        offset: of the snapshot.
        base_offsets: of all segments.
        log_start: the log start offset.
        recovered_from: base offset of the first segment that is recovered.
        removes_stray: whether the release deletes snapshots at no base offset.
    """
    return offset <= log_start or (offset not in base_offsets and (removes_stray or offset > recovered_from))
