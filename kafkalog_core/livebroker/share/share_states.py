"""The share coordinator: how far each share group is in each partition, in the topic `__share_group_state` (KIP-932).

Every change is a record; what the records say is in memory. (`ShareCoordinatorShard` and `ShareCoordinatorService` of
Kafka 4.3, and `DefaultStatePersister`, without a network between.)
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import ProtocolError
from kafkalog_core.format.textfile import uuid_text
from kafkalog_core.structs import replace
from kafkalog_core.topics.share_state_records import (
    ShareKey,
    ShareState,
    StateBatch,
    encode_snapshot,
    encode_state_tombstone,
    encode_update,
    replay_share_state,
    updated,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkalog_core.livebroker.transactions.coordinator_logs import CoordinatorLog
    from kafkalog_core.topics.group_records import Record

__all__ = ["ShareStates"]

_UPDATES: Final = 500  # share.coordinator.snapshot.update.records.per.snapshot
_COLD_MS: Final = 300_000  # share.coordinator.cold.partition.snapshot.interval.ms


class ShareStates:
    """The states of all groups. Thread-safe."""

    def __init__(self, log: CoordinatorLog, clock_ms: Callable[[], int]) -> None:
        """Replay the log. clock_ms: time of day, in milliseconds since 1970."""
        self._log = log
        self._clock_ms = clock_ms
        self._states: dict[ShareKey, ShareState] = {}
        self._snapshots: dict[int, dict[ShareKey, int]] = {}
        self._ends: dict[int, int] = {}
        self._pruned: dict[int, int] = {}
        self._births: dict[ShareKey, int] = {}
        # Reentrant: `forget_topic` deletes under the lock that `delete` takes again.
        self._lock = threading.RLock()
        self.problems: list[str] = []
        for number, offset, key, value in log.placed_records():
            try:
                self._replay(number, offset, key, value)
            except ProtocolError as error:
                self.problems.append(str(error))

    def state(self, key: ShareKey) -> ShareState | None:
        """Return the state of a partition; None: it has none."""
        with self._lock:
            return self._states.get(key)

    def incarnation(self, key: ShareKey) -> int:
        """Return how often the state was begun or deleted: what was read of an earlier one does not count any more."""
        with self._lock:
            return self._births.get(key, 0)

    def keys_of(self, group: str) -> list[ShareKey]:
        """Return the partitions of a group that have a state."""
        with self._lock:
            return [key for key in self._states if key.group == group]

    # --- changes ------------------------------------------------------------------------------------------------------
    def initialize(self, key: ShareKey, *, state_epoch: int, start: int) -> None:
        """Give a partition a new state. start: its start offset, -1: where the group's settings say.

        `ShareCoordinatorShard.initializeState`. Raises KafkalogError.
        """
        with self._lock:
            before = self._states.get(key)
            state = ShareState(
                snapshot_epoch=0 if before is None else before.snapshot_epoch + 1,
                state_epoch=state_epoch,
                start=start,
                complete_count=-1 if start < 0 else 0,
                created_ms=self._clock_ms(),
            )
            self._append(key, encode_snapshot(key, state))
            self._births[key] = self._births.get(key, 0) + 1

    def write(
        self, key: ShareKey, *, leader_epoch: int, start: int, complete_count: int, batches: Sequence[StateBatch]
    ) -> None:
        """Note what has changed: an update, or a snapshot after many of them. Raises KafkalogError.

        `ShareCoordinatorShard.generateShareStateRecord`.
        """
        with self._lock:
            before = self._states.get(key, ShareState())
            update = ShareState(
                snapshot_epoch=before.snapshot_epoch,
                leader_epoch=leader_epoch,
                start=start,
                complete_count=complete_count,
                batches=tuple(batches),
            )
            # Every so often a whole snapshot, so that a start does not replay all updates since the first one.
            if before.updates < _UPDATES:
                self._append(key, encode_update(key, update))
            else:
                self._append(key, encode_snapshot(key, self._next_snapshot(updated(before, update))))

    def delete(self, keys: Iterable[ShareKey]) -> None:
        """Delete states. Raises KafkalogError."""
        with self._lock:
            for key in keys:
                if key in self._states:
                    self._append(key, encode_state_tombstone(key))
                    self._births[key] = self._births.get(key, 0) + 1

    def forget_topic(self, topic_id: bytes) -> None:
        """Delete the states of a topic that was deleted (`maybeCleanupShareState`). Raises KafkalogError."""
        # By id, not by name: a topic that was created again has its own states.
        with self._lock:
            self.delete([key for key in self._states if key.topic_id == topic_id])

    def prune(self) -> None:
        """Write snapshots of states that have not changed for long, and drop records that newer ones replace.

        `snapshotColdPartitions` and `performRecordPruning`. Raises KafkalogError.
        """
        with self._lock:
            now_ms = self._clock_ms()
            for key, state in list(self._states.items()):
                if state.updates and now_ms - state.created_ms >= _COLD_MS:
                    self._append(key, encode_snapshot(key, self._next_snapshot(state)))
            for number, offsets in self._snapshots.items():
                # Every state's last snapshot is needed, so only records before the earliest of them can be dropped.
                first = min(offsets.values(), default=self._ends[number])
                if first > self._pruned.get(number, 0):
                    self._log.advance_start(number, first)
                    self._pruned[number] = first

    def _next_snapshot(self, state: ShareState) -> ShareState:
        return replace(state, snapshot_epoch=state.snapshot_epoch + 1, created_ms=self._clock_ms(), updates=0)

    def _append(self, key: ShareKey, record: Record) -> None:
        name = _name_of(key)
        # The log comes first: a state in memory that was not written would be gone after a start.
        offset = self._log.append(name, [record])
        self._replay(self._log.partition_of(name), offset, *record)

    def _replay(self, number: int, offset: int, key: bytes, value: bytes | None) -> None:
        self._ends[number] = offset + 1
        share_key, is_whole = replay_share_state(self._states, key, value)
        snapshots = self._snapshots.setdefault(number, {})
        if value is None:
            snapshots.pop(share_key, None)
        # An update without a snapshot before it may be all that there is of a state, so its record is kept.
        elif is_whole or share_key not in snapshots:
            snapshots[share_key] = offset


def _name_of(key: ShareKey) -> str:
    """Return the text whose hash is the partition of the log (`SharePartitionKey.asCoordinatorKey`)."""
    return f"{key.group}:{uuid_text(key.topic_id)}:{key.partition}"
