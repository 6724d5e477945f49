"""The open transactions of one copy of a partition, and the records that wait for the end of the first of them.

The producers are those that a broker knows when it has loaded the log: the newest snapshot, and the batches after it.
Where damage in that part may hide a marker, the whole log is read as for a read_committed consumer, and a transaction
whose marker may be in the damage is not certain.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import DENIED, Finding, found
from kafkalog_core.format.layout import CONTROL_BIT, DELETE_HORIZON_BIT, MAGIC_V2, TRANSACTIONAL_BIT
from kafkalog_core.kafka.rules.producer_anomalies import markers_of
from kafkalog_core.kafka.rules.producers import CompletedTxn, ProducerStates
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.copies import copy_rank
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds, read_extent
from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochStart, history, read_epoch_file
from kafkalog_core.kafka.sim.logfiles import Checkpoints, Compaction, unit_of_partition
from kafkalog_core.kafka.sim.producer_states import read_producer_states
from kafkalog_core.kafka.sim.read_committed import read_committed_view, txn_entries
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "CopyState",
    "CopyTask",
    "EndedTransaction",
    "MarkerDamage",
    "OpenTransaction",
    "damage_in",
    "rank_of",
    "read_copy_state",
    "tail_bytes",
]

_UNREAD: Final = frozenset({"segment.log-unreadable", "file.not-readable", DENIED})
"""Findings of a listing that there is a log, or another file, that cannot be read."""


class CopyTask(Struct, frozen=True, kw_only=True):
    """A copy of a partition to read: plain values, which can be sent to other processes.

    Args:
        topic: of the partition.
        partition: number of the partition.
        path: of the directory.
        context: what the checkpoints around it have of it.
        max_batch_bytes: larger batches are damage.
        producer_ids: whose ended transactions are listed too; the whole log is read for them.
        has_others: whether there are other copies of the partition, so that its rank matters.
        size_bytes: of the logs that are to be read, at least.
    """

    topic: str
    partition: int
    path: str
    context: PartitionContext
    max_batch_bytes: int
    producer_ids: frozenset[int] = frozenset()
    has_others: bool = False
    size_bytes: int = 0

    @property
    def options(self) -> ScanOptions:
        """How logs are scanned: what comes after damage counts."""
        return ScanOptions(max_batch_bytes=self.max_batch_bytes, resync=True)


class OpenTransaction(Struct, frozen=True, kw_only=True):
    """A transaction that no marker in the log has ended.

    Args:
        producer_id: of its producer.
        producer_epoch: of its last batch.
        coordinator_epoch: of the last marker of the producer; -1: there was none.
        first_offset: of its first batch.
        first_timestamp_ms: of its first record, by the clock of the client; None: no batch of it was read.
        last_timestamp_ms: of the last batch of the producer.
        records: number of its records, by the headers of its batches.
        is_certain: whether it is open; else its marker may be in a part of the log that cannot be read.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    first_offset: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int
    records: int
    is_certain: bool


class EndedTransaction(Struct, frozen=True, kw_only=True):
    """A transaction that a marker has ended.

    Args:
        producer_id: of its producer.
        first_offset: of its first batch.
        last_offset: of the marker.
        is_aborted: whether the marker is ABORT.
        is_listed: whether a transaction index of the partition has an entry for the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    is_listed: bool


class MarkerDamage(Struct, frozen=True):
    """Damage in a log that may hide a marker."""

    path: str
    damage: Damage


class CopyState(Struct, frozen=True, kw_only=True):
    """What one copy of a partition shows of transactions.

    Args:
        task: the copy.
        rank: of `copy_rank`; lower than all others where the copy cannot be read.
        log_start_offset: the first offset that a broker serves.
        end_offset: the log end offset.
        last_stable_offset: the first offset of the earliest open transaction, else the log end offset.
        waiting_records: records from the last stable offset on.
        last_timestamp_ms: the largest timestamp of these; None: there are none.
        open: the open transactions, the earliest first.
        ended: the ended ones of the producers that were asked for, in the order of their markers.
        aborted: number of aborted transactions in the transaction indexes, by producer id.
        producer_ids: all producers that a broker remembers here.
        damage: damage that may hide markers.
        forgets: whether a start forgets the producers: there is no snapshot after a clean shutdown.
        findings: why the directory, or a file of it, was not read.
    """

    task: CopyTask
    rank: tuple[int, int, int] = (-1, -1, 0)
    log_start_offset: int = 0
    end_offset: int = 0
    last_stable_offset: int = 0
    waiting_records: int = 0
    last_timestamp_ms: int | None = None
    open: tuple[OpenTransaction, ...] = ()
    ended: tuple[EndedTransaction, ...] = ()
    aborted: dict[int, int] = field(default_factory=dict)
    producer_ids: frozenset[int] = frozenset()
    damage: tuple[MarkerDamage, ...] = ()
    forgets: bool = False
    findings: tuple[Finding, ...] = ()


def tail_bytes(path: str, *, is_whole: bool) -> int:
    """Return the size of the last segment of a partition, or of all its segments; 0 where it cannot be listed."""
    try:
        sizes = [segment.size_bytes for segment in read_partition(path).segments]
    except StorageError:
        return 0
    return sum(sizes) if is_whole else sum(sizes[-1:])


def damage_in(path: str, options: ScanOptions) -> Iterator[MarkerDamage]:
    """Yield the damage in the logs of a partition, without a torn append at the end. Raises StorageError."""
    for segment in read_partition(path).segments:
        if segment.log is None:
            continue
        with Source.open(segment.log.path) as source:
            for item in scan(source, base_offset=segment.base_offset, options=options):
                if isinstance(item, Damage) and not item.is_plain_tail:
                    yield MarkerDamage(segment.log.path, item)


def rank_of(path: str, context: PartitionContext) -> tuple[int, int, int]:
    """Return the rank of a copy among the copies of its partition (`copy_rank`). Raises StorageError."""
    partition = read_partition(path)
    start, end = _bounds(partition, context)
    return _rank(partition, start, end)


def read_copy_state(task: CopyTask, advance: Callable[[int], None]) -> CopyState:
    """Read a copy. What cannot be read is a finding: an error never ends the command."""
    state = CopyState(task=task)
    try:
        partition = read_partition(task.path)
        if partition.format != "log":  # Kafka 0.7 has no producers
            return state
        state = _read(task, partition, state)
        advance(task.size_bytes)
    except StorageError as error:
        return replace(state, findings=(_unread(task, error),))
    return state


def _unread(task: CopyTask, error: StorageError) -> Finding:
    path = error.path or task.path
    return found(code_of_error(error), path, topic=task.topic, partition=task.partition, reason=error.message)


def _read(task: CopyTask, partition: Partition, state: CopyState) -> CopyState:
    start, end = _bounds(partition, task.context)
    damage: list[MarkerDamage] = []
    states = read_producer_states(
        partition,
        task.options,
        log_start_offset=start,
        end_offset=end,
        on_damage=lambda path, each: damage.append(MarkerDamage(path, each)),
    )
    firsts = {each.producer_id: each.first_offset for each in states.open_transactions()}
    certain = firsts if not damage else _certain(task, partition, start)
    firsts |= certain
    stable = max(start, min(certain.values(), default=end))
    waiting = _Waiting(firsts, stable)
    if firsts:
        waiting.read(partition.segments, task.options, end)
    opened = [_open_transaction(states, waiting, each, first, certain) for each, first in firsts.items()]
    listed: list[tuple[int, int]] = []
    findings = [each for each in partition.findings if each.code in _UNREAD]
    for segment in partition.segments:
        try:
            listed += _index_entries(segment)
        except StorageError as error:
            findings.append(_unread(task, error))
    return replace(
        state,
        rank=_rank(partition, start, end) if task.has_others else state.rank,
        log_start_offset=start,
        end_offset=end,
        last_stable_offset=min(stable, end),
        waiting_records=waiting.waiting_records,
        last_timestamp_ms=waiting.last_timestamp_ms,
        open=tuple(sorted(opened, key=lambda each: each.first_offset)),
        ended=tuple(_ended(task, partition, frozenset(listed))) if task.producer_ids else (),
        aborted=dict(Counter(producer_id for producer_id, _ in listed)),
        producer_ids=frozenset(each.producer_id for each in states.snapshot_entries()),
        damage=tuple(damage),
        findings=tuple(findings),
        forgets=bool(task.context.is_clean) and not partition.snapshots,  # UnifiedLog.rebuildProducerState
    )


def _bounds(partition: Partition, context: PartitionContext) -> tuple[int, int]:
    """Return the log start offset and the log end offset. Raises StorageError for a last segment that is not readable.

    It is not taken for an empty one: a transaction may be open in it.
    """
    extent = read_extent(partition)
    logs = [segment.log for segment in partition.segments if segment.log is not None]
    if extent is None and logs:
        with Source.open(logs[-1].path):
            pass
    bounds = log_bounds(
        None if extent is None else extent.start,
        context,
        rules_of(LATEST),
        end_offset=None if extent is None else extent.end,
    )
    return bounds.local_start, max(bounds.local_start, bounds.log_end or 0)


def _rank(partition: Partition, start: int, end: int) -> tuple[int, int, int]:
    file = read_epoch_file(partition.path)
    in_file = () if file is None or file.refusal is not None else file.entries
    latest = history(in_file, _last_epochs(partition), end).latest
    return copy_rank(0 if latest is None else max(latest, 0), end, start)


def _last_epochs(partition: Partition) -> list[EpochStart]:
    """Return the leader epochs of the batches in the last segment that has any."""
    for segment in reversed(partition.segments):
        if segment.log is None or not segment.size_bytes:
            continue
        starts: dict[int, int] = {}
        with Source.open(segment.log.path) as source:
            for item in scan(source, base_offset=segment.base_offset, options=ScanOptions(check=False)):
                if isinstance(item, Run):
                    for epoch, base in zip(
                        item.batches.column("leader_epoch"), item.batches.column("base_offset"), strict=True
                    ):
                        starts.setdefault(epoch, base)
        return [EpochStart(epoch, base) for epoch, base in starts.items() if epoch >= 0]
    return []


def _certain(task: CopyTask, partition: Partition, start: int) -> dict[int, int]:
    """Return the first offset of each transaction that is known to be open in a damaged log, by producer id."""
    unit = unit_of_partition(partition, os.path.dirname(partition.path))
    compaction = Compaction(unit, Checkpoints(), task.options)
    view = read_committed_view(unit.files, task.options, None, start, compaction=compaction)
    return {span.producer_id: span.first for span in view.open_transactions}


def _open_transaction(
    states: ProducerStates, waiting: _Waiting, producer_id: int, first: int, certain: dict[int, int]
) -> OpenTransaction:
    entry = states.entry(producer_id)
    return OpenTransaction(
        producer_id=producer_id,
        producer_epoch=-1 if entry is None else entry.producer_epoch,
        coordinator_epoch=-1 if entry is None else entry.coordinator_epoch,
        first_offset=first,
        first_timestamp_ms=waiting.first_timestamps.get(producer_id),
        last_timestamp_ms=-1 if entry is None else entry.timestamp_ms,
        records=waiting.records[producer_id],
        is_certain=producer_id in certain,
    )


class _Waiting:
    """Counts the records from the last stable offset on, and those of each open transaction.

    Args:
        firsts: the first offset of each open transaction, by producer id.
        stable: the last stable offset.
    """

    def __init__(self, firsts: dict[int, int], stable: int) -> None:
        self._firsts = firsts
        self._stable = stable
        self.waiting_records = 0
        self.last_timestamp_ms: int | None = None
        self.first_timestamps: dict[int, int] = {}
        self.records = Counter[int]()

    def read(self, segments: Sequence[Segment], options: ScanOptions, end: int) -> None:
        """Read the segments from the one with the first of the transactions on, up to an offset."""
        bases = [segment.base_offset for segment in segments]
        number = max(0, bisect_right(bases, min(self._firsts.values())) - 1)
        for segment in segments[number:]:
            if segment.log is None:
                continue
            with Source.open(segment.log.path) as source:
                for item in scan(source, base_offset=segment.base_offset, options=replace(options, check=False)):
                    if isinstance(item, Run):
                        self._add(item.batches, end)

    def _add(self, batches: BatchColumns, end: int) -> None:
        names = ("format", "attributes", "base_offset", "last_offset", "record_count", "producer_id")
        times = zip(batches.column("base_timestamp_ms"), batches.column("max_timestamp_ms"), strict=True)
        rows = zip(*map(batches.column, names), times, strict=True)
        for magic, attributes, base, last, count, producer_id, (base_ms, max_ms) in rows:
            if base >= end or (magic == MAGIC_V2 and attributes & CONTROL_BIT):
                continue
            if last >= self._stable:
                self.waiting_records += count if count >= 0 else 1  # a compressed message of magic 0 or 1 is not opened
                self.last_timestamp_ms = max(max_ms, -1 if self.last_timestamp_ms is None else self.last_timestamp_ms)
            if magic == MAGIC_V2 and attributes & TRANSACTIONAL_BIT and base >= self._firsts.get(producer_id, end):
                self.records[producer_id] += count
                # a delete horizon takes the place of the base timestamp (KIP-534)
                first_ms = max_ms if attributes & DELETE_HORIZON_BIT else base_ms
                self.first_timestamps.setdefault(producer_id, first_ms)


def _index_entries(segment: Segment) -> Iterator[tuple[int, int]]:
    """Yield producer id and offset of the marker of each entry of a transaction index. Raises StorageError."""
    if segment.txnindex is not None and segment.txnindex.size_bytes:
        with Source.open(segment.txnindex.path) as source:
            yield from ((producer_id, last) for _, producer_id, _, last, _ in txn_entries(source))


def _ended(task: CopyTask, partition: Partition, listed: frozenset[tuple[int, int]]) -> Iterator[EndedTransaction]:
    """Replay the whole log, and yield the transactions of some producers that a marker ended."""
    states = ProducerStates(sequences="unchecked")
    for segment in partition.segments:
        if segment.log is None:
            continue
        with Source.open(segment.log.path) as source:
            for item in scan(source, base_offset=segment.base_offset, options=task.options):
                if isinstance(item, Damage):
                    if not item.is_plain_tail:
                        states.hole()
                    continue
                markers = markers_of(item.memory, item.batches, max_bytes=task.max_batch_bytes)
                for event in states.replay(item.batches, markers):
                    if isinstance(event, CompletedTxn) and event.producer_id in task.producer_ids:
                        yield EndedTransaction(
                            producer_id=event.producer_id,
                            first_offset=event.first_offset,
                            last_offset=event.last_offset,
                            is_aborted=event.is_aborted,
                            is_listed=(event.producer_id, event.last_offset) in listed,
                        )
