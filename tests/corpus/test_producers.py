"""The replay of producer state against what brokers wrote: every producer snapshot and every transaction index.

On a log that was compacted batches are gone that the broker saw, so its snapshots and indexes say more than the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalog_core.format.index import iter_txn_entries
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.format.snapshot import ProducerEntry, decode_snapshot
from kafkalog_core.kafka.rules.producer_anomalies import ANOMALIES, Anomaly, markers_of
from kafkalog_core.kafka.rules.producers import CompletedTxn, ProducerStates, sequences_of
from kafkalog_core.kafka.sim.logfiles import Checkpoints, Compaction, unit_of_partition
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import replace
from tests.support.corpus.snapshots import Snapshot, snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition
    from tests.support.corpus.tree import Tree

pytestmark = pytest.mark.corpus

Aborted = tuple[int, int, int, int]


class Replayed(NamedTuple):
    """What a partition's log says, and what the broker's files next to it say."""

    is_compacted: bool
    states: list[tuple[ProducerEntry, ProducerEntry]]
    aborted: list[tuple[list[Aborted], list[Aborted]]]
    odd: list[Anomaly]


def _healthy() -> list[Snapshot]:
    return [snapshot for snapshot in snapshots() if snapshot.fault is None]


def _replayed(path: Path) -> Replayed:
    partition = read_partition(str(path))
    unit = unit_of_partition(partition, str(path.parent))
    is_compacted = partition.format == "log" and Compaction(unit, Checkpoints(), ScanOptions()).explains_lost_segments
    result = Replayed(is_compacted, [], [], [])
    if partition.format == "log":
        _replay(partition, ProducerStates(sequences=sequences_of(unit.topic, is_compacted=is_compacted)), result)
    return result


def _replay(partition: Partition, states: ProducerStates, result: Replayed) -> None:
    markers_at: dict[int, int] = {}
    for segment in partition.segments:
        ours = {entry.producer_id: entry for entry in states.snapshot_entries()}
        result.states.extend(
            (ours[entry.producer_id], _as_later_releases_say(entry, ours[entry.producer_id], markers_at))
            for entry in _entries(segment)
            if entry.producer_id in ours
        )
        aborted: list[Aborted] = []
        assert segment.log is not None
        with Source.open(segment.log.path) as source:
            for item in scan(source, base_offset=segment.base_offset):
                if not isinstance(item, Run):
                    continue
                markers = markers_of(item.memory, item.batches, max_bytes=MAX_BATCH_BYTES)
                for event in states.replay(item.batches, markers):
                    if isinstance(event, Anomaly):
                        result.odd.append(event)
                        if event.kind == "marker-without-transaction":
                            markers_at[event.producer_id] = event.offset
                        continue
                    markers_at[event.producer_id] = event.last_offset
                    if event.is_aborted:
                        aborted.append(_as_listed(event))
        result.aborted.append((aborted, _listed(segment)))


def _as_later_releases_say(entry: ProducerEntry, ours: ProducerEntry, markers_at: dict[int, int]) -> ProducerEntry:
    """0.11 takes a marker for the last batch of its producer, of the sequence number of the one before."""
    if entry.offset_delta == 0 and entry.last_offset == markers_at.get(entry.producer_id):
        return replace(entry, last_offset=ours.last_offset, offset_delta=ours.offset_delta)
    return entry


def _as_listed(txn: CompletedTxn) -> Aborted:
    return txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset


def _entries(segment: Segment) -> tuple[ProducerEntry, ...]:
    file = segment.snapshot
    return tuple(decode_snapshot(_bytes(file.path))) if file is not None and file.size_bytes else ()


def _listed(segment: Segment) -> list[Aborted]:
    file = segment.txnindex
    return [] if file is None else [entry[1:] for entry in iter_txn_entries(_bytes(file.path))]


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


@pytest.mark.parametrize("snapshot", _healthy(), ids=lambda snapshot: snapshot.id)
def test_replay_gives_what_the_broker_wrote(tree: Tree, snapshot: Snapshot) -> None:
    replayed = _replayed(tree.partition_dir(snapshot))
    for ours, listed in replayed.aborted:
        if replayed.is_compacted:
            assert {(row[0], row[2]) for row in ours} <= {(row[0], row[2]) for row in listed}
        else:
            assert ours == listed
    for ours, theirs in replayed.states:
        if replayed.is_compacted:
            assert (ours.producer_epoch, ours.coordinator_epoch) <= (theirs.producer_epoch, theirs.coordinator_epoch)
        else:
            assert ours == theirs
    assert not [anomaly for anomaly in replayed.odd if ANOMALIES[anomaly.kind].severity != "info"]


def test_there_is_something_to_compare(tree: Tree) -> None:
    found = [_replayed(tree.partition_dir(snapshot)) for snapshot in _healthy()]
    exact = [replayed for replayed in found if not replayed.is_compacted]
    assert sum(len(replayed.states) for replayed in exact) > 20
    assert sum(len(ours) for replayed in exact for ours, _ in replayed.aborted) > 20
