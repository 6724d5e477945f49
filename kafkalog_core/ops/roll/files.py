"""The files of a partition whose log is appended again, in a new directory: segments, indexes, snapshots, epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import RefusedError
from kafkalog_core.format.checkpoint import encode_epoch_checkpoint
from kafkalog_core.format.index import encode_txn_entry
from kafkalog_core.format.names import FileKind, fixed_file_name, segment_file_name
from kafkalog_core.format.snapshot import encode_snapshot
from kafkalog_core.kafka.leader_epochs import EpochStart, read_epoch_file
from kafkalog_core.kafka.producer_anomalies import markers_of
from kafkalog_core.kafka.producers import CompletedTxn, ProducerStates
from kafkalog_core.kafka.snapshots import SnapshotFiles
from kafkalog_core.ops.reindex.producers import load_states
from kafkalog_core.ops.repair.copied_files import copy_beside

if TYPE_CHECKING:
    from kafkalog_core.kafka.append import OpenSegment, Roll
    from kafkalog_core.kafka.producers import Marker
    from kafkalog_core.kafka.rules import RecoveryRules
    from kafkalog_core.storage.changing.new_dir import NewTree
    from kafkalog_core.storage.changing.writer import NewFile
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import Run

__all__ = ["PartitionFiles"]


_NO_MARKERS: Final[dict[int, Marker]] = {}


class PartitionFiles:
    """A `Sink` that writes the files of one partition as a broker leaves them that stops cleanly.

    Args:
        new: the directory that they go into.
        partition: where the log comes from.
        rules: what the release has apart from logs.
        max_batch_bytes: the largest batch that is inflated.
    """

    def __init__(self, new: NewTree, partition: Partition, rules: RecoveryRules, *, max_batch_bytes: int) -> None:
        self._new = new
        self._partition = partition
        self._name = partition.name.raw
        self._rules = rules
        self._max_batch_bytes = max_batch_bytes
        self._snapshots = SnapshotFiles.of(partition)
        self._states = self._first_states()
        self._log: NewFile | None = None
        self._aborted = bytearray()
        self._epochs: list[tuple[int, int]] = []
        self._markers: tuple[Run | None, dict[int, Marker]] = (None, _NO_MARKERS)
        self.mtime_ns: int | None = None
        """Modification time of the source's log that is being read: a broker uses it if records have no time."""
        new.directory(self._name)

    # --- a Sink -------------------------------------------------------------------------------------------------------
    def begin(self, segment: OpenSegment) -> None:
        """Begin a log."""
        self._log = self._new.begin(self._path(segment.base_offset, FileKind.LOG))

    def append(self, data: memoryview, run: Run, first: int, last: int) -> None:
        """Put bytes into the log, and carry the producers on."""
        if self._log is not None:
            self._log.write(data)
        if not self._rules.has_producers or run.batches.holds_only("producer_id", -1):
            return
        if self._markers[0] is not run:
            self._markers = run, markers_of(run.memory, run.batches, max_bytes=self._max_batch_bytes)
        for event in self._states.replay(run.batches, self._markers[1], first=first, last=last):
            if isinstance(event, CompletedTxn) and event.is_aborted:
                self._aborted += encode_txn_entry(*event[:3], event.last_stable_offset)

    def end(self, segment: OpenSegment, roll: Roll | None) -> None:
        """Complete the log, and write the other files of its segment."""
        base_offset, indexes = segment.base_offset, segment.indexes
        if self._log is not None:
            self._new.end(self._log, mtime_ns=self.mtime_ns)
        self._new.add(self._path(base_offset, FileKind.OFFSET_INDEX), bytes(indexes.offset_index))
        if self._rules.has_time_index:
            self._new.add(self._path(base_offset, FileKind.TIME_INDEX), bytes(indexes.time_index))
        if self._aborted:
            self._new.add(self._path(base_offset, FileKind.TXN_INDEX), bytes(self._aborted))
            self._aborted.clear()
        self._epochs += [each for each in indexes.epochs if not self._epochs or each[0] > self._epochs[-1][0]]
        self._snapshot(segment.end_offset if roll is None else roll.next_base)

    def flush(self, end_offset: int) -> None:
        """Nothing is left to be done: a file that is complete is on the disk."""

    # --- the rest -----------------------------------------------------------------------------------------------------
    def finish(self, end_offset: int) -> None:
        """Leader epochs, and what does not change with the segments.

        Raises RefusedError where the leader epochs contradict the log.
        """
        if self._rules.has_producers:
            self._write_epochs(end_offset)
        copy_beside(self._new, self._partition.path, self._name, FileKind.PARTITION_METADATA)

    def _write_epochs(self, end_offset: int) -> None:
        file = read_epoch_file(self._partition.path)
        entries: list[tuple[int, int]] = self._epochs
        if file is not None and file.refusal is None:
            entries = [(each.epoch, each.start_offset) for each in file.entries]
            beyond = next((EpochStart(*each) for each in entries if each[1] > end_offset), None)
            if beyond is not None:
                raise RefusedError(
                    f"leader epoch {beyond.epoch} starts at offset {beyond.start_offset}, after the log end offset "
                    f"{end_offset}; repair the file first: kafkalog checkpoint --apply",
                    path=file.path,
                )
        name = fixed_file_name(FileKind.LEADER_EPOCH)
        self._new.add(f"{self._name}/{name}", encode_epoch_checkpoint(entries))

    # --- producers ----------------------------------------------------------------------------------------------------
    def _first_states(self) -> ProducerStates:
        """Return the producers at the start of the log: those of the first segment's snapshot, where it has one."""
        first = self._partition.segments[0].snapshot
        known = None if first is None else load_states(first.path)
        states = ProducerStates(sequences="unchecked") if known is None else known
        states.ends_empty = self._rules.lists_empty_transactions
        return states

    def _snapshot(self, offset: int) -> None:
        """Return the producers at an offset: as a broker knew them there, who no longer wrote by then included."""
        if not self._rules.has_producers or offset <= self._partition.segments[0].base_offset:
            return
        content = None
        if offset in [*self._snapshots] and load_states(self._snapshot_path(offset)) is not None:
            content = self._snapshots.read(offset)
        if content is None:
            rules = self._rules
            entries = self._states.snapshot_entries(rules.snapshot_style)
            content = encode_snapshot(entries, order=rules.snapshot_order)
        self._new.add(self._path(offset, FileKind.SNAPSHOT), content)

    def _snapshot_path(self, offset: int) -> str:
        return f"{self._partition.path}/{segment_file_name(offset, FileKind.SNAPSHOT)}"

    def _path(self, offset: int, kind: FileKind) -> str:
        return f"{self._name}/{segment_file_name(offset, kind)}"
