"""The offsets that groups commit, in the log of a live broker."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kafkalog_core.topics.group_offsets import has_expired
from kafkalog_core.topics.group_records import encode_offset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.livebroker.transactions.coordinator_logs import CoordinatorLog
    from kafkalog_core.topics.group_offsets import CommittedOffset
    from kafkalog_core.topics.group_states import GroupStates

__all__ = ["LiveOffsets"]


class LiveOffsets:
    """Offsets in the log, and in memory what it says: each record is replayed once it is written."""

    def __init__(self, log: CoordinatorLog, found: GroupStates) -> None:
        """Take what the log says at the start."""
        self._log = log
        self._state = found
        self._offsets = found.offsets
        self._lock = threading.RLock()

    def groups(self) -> dict[str, str]:
        """See `OffsetStore`."""
        with self._lock:
            return self._state.protocol_types()

    def of_group(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """See `OffsetStore`."""
        with self._lock:
            return dict(self._offsets.offsets.get(group, {}))

    def unstable(self, group: str) -> set[TopicPartition]:
        """See `OffsetStore`."""
        with self._lock:
            return self._offsets.pending_of(group)

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        producer: tuple[int, int] | None = None,
    ) -> None:
        """See `OffsetStore`."""
        self.write(
            group, [encode_offset(group, *place, offset) for place, offset in offsets.items()], producer=producer
        )

    def delete(self, group: str, places: Iterable[TopicPartition] | None = None) -> None:
        """See `OffsetStore`: tombstones."""
        with self._lock:
            known = self._offsets.offsets.get(group, {}).keys() | self._offsets.pending_of(group)
            gone = known if places is None else known & set(places)
            self.write(group, [encode_offset(group, *place, None) for place in sorted(gone)])

    def write(
        self, group: str, records: Sequence[tuple[bytes, bytes | None]], *, producer: tuple[int, int] | None = None
    ) -> None:
        """Append records of a group, then replay them. Raises KafkalogError."""
        if not records:
            return
        with self._lock:
            # Written first: what counts in memory is in the log.
            base = self._log.append(group, records, producer=producer)
            for number, (key, value) in enumerate(records):
                self._state.replay(key, value, base + number, None if producer is None else producer[0])

    def complete_transaction(self, producer_id: int, is_commit: bool) -> None:
        """Let the offsets of a transaction count, or forget them: its marker is in the log."""
        with self._lock:
            self._state.end_transaction(producer_id, is_commit=is_commit)

    def forget_topic(self, topic: str) -> None:
        """Delete the offsets of a topic that was deleted. Raises KafkalogError."""
        with self._lock:
            pending = {group for offsets in self._offsets.pending.values() for group, _ in offsets}
            for group in pending.union(self._offsets.offsets):
                places = self._offsets.offsets.get(group, {}).keys() | self._offsets.pending_of(group)
                self.delete(group, [place for place in places if place[0] == topic])

    def expire(
        self, group: str, is_read: Callable[[str], bool], *, empty_since_ms: int, now_ms: int, retention_ms: int
    ) -> bool:
        """Delete the offsets of a group that have expired; return whether none is left, in no open transaction either.

        is_read: returns whether a member reads a topic, whose offsets do not expire then. empty_since_ms: see
        `has_expired`. Raises KafkalogError.
        """
        with self._lock:
            offsets, pending = self._offsets.offsets.get(group, {}), self._offsets.pending_of(group)
            old = [
                place
                for place, offset in offsets.items()
                # An offset in an open transaction has not expired: its commit may come.
                if place not in pending
                and not is_read(place[0])
                and has_expired(offset, empty_since_ms=empty_since_ms, now_ms=now_ms, retention_ms=retention_ms)
            ]
            is_last = len(old) == len(offsets) and not pending
            self.delete(group, old)
            return is_last
