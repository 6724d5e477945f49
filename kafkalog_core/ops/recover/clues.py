"""What other files of a partition show about a place: producers by snapshots, outcomes of transactions by indexes.

A transaction index has an entry for each ABORT marker (`TransactionIndex.append`), so an entry proves one. That none is
there proves a COMMIT only where the index had reached the disk: a later entry is there, or the segment was flushed.
`__transaction_state` has the decision of the coordinator about each transaction, until compaction removes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FormatError, StorageError
from kafkalog_core.format.index import iter_txn_entries
from kafkalog_core.format.layout import MAGIC_V2, MAX_INT64, TXN_INDEX_ENTRY
from kafkalog_core.format.snapshot import decode_snapshot
from kafkalog_core.kafka.rules.producers import ProducerStates
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.logdir.leader_epochs import read_epoch_file
from kafkalog_core.kafka.sim.start.candidates import txn_index_fault
from kafkalog_core.kafka.sim.start.snapshots import SnapshotFiles
from kafkalog_core.kafka.sim.transactions import prepared_transactions
from kafkalog_core.ops.recover.headers import PlaceHeader
from kafkalog_core.ops.recover.replacements import Clues, LostBatch, ProvedMarker
from kafkalog_core.storage.source import Source
from kafkalog_core.topics.transactions import TransactionPhase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_core.format.snapshot import ProducerEntry
    from kafkalog_core.ops.recover.places import DamagedPlace
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.topics.transactions import TransactionValue

__all__ = ["ClueReader"]

_CLOCKS_MS: Final = 60_000
"""By how much the clocks of two brokers are taken to differ at most."""


class ClueReader:
    """Reads what is known of the places of one partition.

    Args:
        partition: its files.
        facts: its log directory and the release.
        transaction_logs: directories of `__transaction_state` on the same disks, one copy of each partition; they are
            read when a marker needs them.
    """

    def __init__(self, partition: Partition, facts: PartitionFacts, transaction_logs: Sequence[str]) -> None:
        self._partition = partition
        self._facts = facts
        self._logs = transaction_logs
        # One snapshot is kept: places come in the order of the log
        self._decoded: tuple[int, dict[int, ProducerEntry]] = (-1, {})
        self._unreadable: set[int] = set()
        self._decided: list[TransactionValue] | None = None
        file = read_epoch_file(partition.path)
        self._epochs = () if file is None or file.refusal is not None else file.entries
        self._snapshots = SnapshotFiles.of(partition)

    def of(self, place: DamagedPlace, states: Callable[[], ProducerStates | None]) -> Clues:
        """Return the clues for a place. Raises StorageError.

        states: returns the producers at the base of its segment, for which the log before it may be read; None: they
            are unknown.
        """
        rules = self._facts.load_options.recovery
        batches: tuple[LostBatch, ...] = ()
        markers: tuple[ProvedMarker, ...] = ()
        first, last = place.first_offset, place.last_offset
        # A batch that was read is what it says, and a release without producers has no such files
        is_lost = place.kind in {"damage", "refused"} and first is not None and place.magic == MAGIC_V2
        if is_lost and first is not None and last is not None and rules_of(self._facts.release).has_producers:
            batches = self._batches(first, last)
            markers = tuple(each for each in self._markers(place, first, last, states) if each.producer_epoch >= 0)
        return Clues(
            epochs=self._epochs,
            batches=batches,
            markers=markers,
            reads_empty_markers=rules.reads_empty_markers,
            now_ms=self._facts.now_ms,
        )

    # --- producers ----------------------------------------------------------------------------------------------------
    def _entries_after(self, offset: int) -> tuple[int, dict[int, ProducerEntry]]:
        """Return the offset and the entries of the first snapshot after an offset that can be read."""
        for at in self._snapshots:
            if at > offset and at not in self._unreadable:
                if self._decoded[0] != at:
                    try:
                        entries = decode_snapshot(self._snapshots.read(at) or b"")
                        self._decoded = at, {each.producer_id: each for each in entries}
                    except FormatError:
                        self._unreadable.add(at)
                        continue
                return self._decoded
        return MAX_INT64, {}

    def _batches(self, first: int, last: int) -> tuple[LostBatch, ...]:
        """Return the batches of a range of offsets that the first snapshot after it names.

        It has the last batch of each producer up to there (`ProducerStateManager.takeSnapshot`).
        """
        at, entries = self._entries_after(last)
        found = [each for each in entries.values() if first <= each.last_offset <= last and each.has_batch]
        return tuple(LostBatch(each, at) for each in sorted(found, key=lambda each: each.last_offset))

    # --- markers ------------------------------------------------------------------------------------------------------
    def _markers(
        self, place: DamagedPlace, first: int, last: int, states: Callable[[], ProducerStates | None]
    ) -> tuple[ProvedMarker, ...]:
        header = place.header
        aborts, latest = self._aborts(place.segment, first, last)
        own = header if header is not None and header.has_valid_producer and header.is_control else None
        if own is None:
            name = place.segment.txnindex
            proof = f"{'' if name is None else name.name.raw} has it"
            known = states() if aborts else None
            return tuple(self._marker(offset, pid, last, known, proof) for offset, pid in aborts.items())
        if last - first != own.last_offset_delta:
            return ()
        if aborts.get(first) == own.producer_id and place.segment.txnindex is not None:
            return (self._marker(first, own.producer_id, last, own, f"{place.segment.txnindex.name.raw} has it"),)
        if not aborts and (latest > last or self._is_flushed(place.segment)):
            proof = f"the transaction index of segment {place.segment.base_offset} has no ABORT of it"
            return (self._marker(first, own.producer_id, last, own, proof, is_commit=True),)
        return self._by_coordinator(first, own)

    def _aborts(self, segment: Segment, first: int, last: int) -> tuple[dict[int, int], int]:
        """Return the producers of ABORT markers in a range of offsets, by offset, and the highest offset of any entry.

        None of an index that a broker would not trust.
        """
        found: dict[int, int] = {}
        highest = -1
        file = segment.txnindex
        if file is None or txn_index_fault(file.path, segment.base_offset) is not None:
            return found, highest
        try:
            with Source.open(file.path) as source:
                content = source.read(0, source.size_bytes - source.size_bytes % TXN_INDEX_ENTRY.size)
        except StorageError:
            return found, highest
        for _, producer_id, _, marker_offset, _ in iter_txn_entries(content):
            # TransactionIndex.append: the offsets of markers ascend
            if marker_offset <= highest or producer_id < 0:
                return {}, -1
            highest = marker_offset
            if first <= marker_offset <= last:
                found[marker_offset] = producer_id
        return found, highest

    def _is_flushed(self, segment: Segment) -> bool:
        """Return whether a whole segment, with its transaction index, was flushed (`LogSegment.flush`)."""
        bases = [each.base_offset for each in self._partition.segments]
        number = bases.index(segment.base_offset)
        if self._facts.context.is_clean:
            return True
        point = self._facts.context.recovery_point
        return number + 1 < len(bases) and point is not None and bases[number + 1] <= point

    def _by_coordinator(self, offset: int, header: PlaceHeader) -> tuple[ProvedMarker, ...]:
        """Return the marker by the decisions of the transaction's coordinator in `__transaction_state`.

        The coordinator sends the markers of a decision after it has written it, and decides about no other transaction
        of the producer before they are written (`TransactionCoordinator.endTransaction`). So the marker is of the last
        decision before it. The clocks of the coordinator and of the leader may differ, so all decisions around that
        time must be the same.
        """
        if self._decided is None:
            self._decided = [*prepared_transactions(self._logs)]
        name = self._partition.name
        mine = sorted(
            (each.update_ms, each.state is TransactionPhase.PREPARE_COMMIT)
            for each in self._decided
            if (each.producer_id, each.producer_epoch) == (header.producer_id, header.producer_epoch)
            and (name.topic, name.partition) in each.partitions
        )
        time_ms = header.max_timestamp_ms
        before = [each for each in mine if each[0] < time_ms - _CLOCKS_MS][-1:]
        around = [each for each in mine if abs(each[0] - time_ms) <= _CLOCKS_MS]
        near = [*before, *around]
        outcomes = {is_commit for _, is_commit in near}
        if len(outcomes) != 1 or near[0][0] > time_ms:
            return ()
        is_commit = outcomes.pop()
        decision = "PrepareCommit" if is_commit else "PrepareAbort"
        proof = f"__transaction_state has the decision {decision} of its coordinator"
        return (self._marker(offset, header.producer_id, offset, header, proof, is_commit=is_commit),)

    def _marker(
        self,
        offset: int,
        producer_id: int,
        last: int,
        source: PlaceHeader | ProducerStates | None,
        proof: str,
        *,
        is_commit: bool = False,
    ) -> ProvedMarker:
        """Return a marker; `source`: what has the epoch of its producer, its header or the producers before it."""
        known = self._entries_after(last)[1].get(producer_id)
        if isinstance(source, ProducerStates):
            known = known or source.entry(producer_id)
        epoch = (
            source.producer_epoch if isinstance(source, PlaceHeader) else -1 if known is None else known.producer_epoch
        )
        return ProvedMarker(
            offset=offset,
            producer_id=producer_id,
            producer_epoch=epoch,
            # A broker fences a marker whose coordinator epoch is below the last one it has seen
            # (ProducerAppendInfo.checkCoordinatorEpoch), so it must not be too high
            coordinator_epoch=0 if known is None else max(0, known.coordinator_epoch),
            is_commit=is_commit,
            proof=proof,
        )
