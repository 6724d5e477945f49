"""The offsets that groups have committed: in memory over a dead disk, or in the log of a live broker."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.topics.group_records import encode_group, encode_offset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalog_core.topics.group_offsets import CommittedOffset, GroupOffsets

__all__ = ["CommittedOffsets", "GroupLog", "LiveOffsets", "OffsetStore"]

_CONSUMER: Final = "consumer"

Place = tuple[str, int]
"""A topic and a partition number."""


class OffsetStore(Protocol):
    """Committed offsets of all groups. Thread-safe."""

    def groups(self) -> dict[str, str]:
        """Return the protocol type of each group that has ever committed; empty: unknown."""

    def of_group(self, group: str) -> dict[Place, CommittedOffset]:
        """Return all offsets of a group."""

    def unstable(self, group: str) -> set[Place]:
        """Return the partitions whose offset is in an open transaction (KIP-447)."""

    def commit(
        self,
        group: str,
        offsets: Mapping[Place, CommittedOffset],
        *,
        producer: tuple[int, int] | None = None,
        expire_ms: int = -1,
    ) -> None:
        """Keep offsets; with a producer, id and epoch, once its transaction is committed. Raises KafkalogError."""

    def delete(self, group: str, places: Iterable[Place]) -> None:
        """Delete offsets. Raises KafkalogError."""


class CommittedOffsets:
    """Offsets that the disks hold, and over them those of consumers since the start, until the broker stops."""

    def __init__(self, on_disk: GroupOffsets) -> None:
        self._on_disk = on_disk
        self._in_memory: dict[str, dict[Place, CommittedOffset]] = {}
        self._lock = threading.Lock()

    def groups(self) -> dict[str, str]:
        """See OffsetStore."""
        with self._lock:
            return dict.fromkeys(self._in_memory, _CONSUMER) | dict(self._on_disk.names())

    def of_group(self, group: str) -> dict[Place, CommittedOffset]:
        """See OffsetStore."""
        with self._lock:
            return self._on_disk.offsets.get(group, {}) | self._in_memory.get(group, {})

    def unstable(self, group: str) -> set[Place]:
        """See OffsetStore: those that were in a transaction when the cluster stopped."""
        return self._on_disk.pending_of(group)

    def commit(
        self,
        group: str,
        offsets: Mapping[Place, CommittedOffset],
        *,
        producer: tuple[int, int] | None = None,
        expire_ms: int = -1,
    ) -> None:
        """See OffsetStore; transactions and expiry have no place in memory."""
        del producer, expire_ms
        with self._lock:
            self._in_memory.setdefault(group, {}).update(offsets)

    def delete(self, group: str, places: Iterable[Place]) -> None:
        """See OffsetStore; what the disk holds remains."""
        with self._lock:
            for place in places:
                self._in_memory.get(group, {}).pop(place, None)


class GroupLog(Protocol):
    """The log of the coordinator, `__consumer_offsets`."""

    def append(
        self,
        name: str,
        records: Sequence[tuple[bytes, bytes | None]],
        /,
        *,
        producer: tuple[int, int] | None = None,
    ) -> int:
        """Append records of a group as one batch. Raises KafkalogError."""


class LiveOffsets:
    """Offsets in the log, and in memory what it says: each record is replayed once it is written."""

    def __init__(self, log: GroupLog, found: GroupOffsets, clock_ms: Callable[[], int]) -> None:
        """Take what the log says at the start. clock_ms: time of day, in milliseconds since 1970."""
        self._log = log
        self._state = found
        self._started_ms = clock_ms()
        self._lock = threading.RLock()

    def groups(self) -> dict[str, str]:
        """See OffsetStore."""
        with self._lock:
            return dict(self._state.names())

    def of_group(self, group: str) -> dict[Place, CommittedOffset]:
        """See OffsetStore."""
        with self._lock:
            return dict(self._state.offsets.get(group, {}))

    def unstable(self, group: str) -> set[Place]:
        """See OffsetStore."""
        with self._lock:
            return self._state.pending_of(group)

    def commit(
        self,
        group: str,
        offsets: Mapping[Place, CommittedOffset],
        *,
        producer: tuple[int, int] | None = None,
        expire_ms: int = -1,
    ) -> None:
        """See OffsetStore."""
        records = [encode_offset(group, *place, offset, expire_ms=expire_ms) for place, offset in offsets.items()]
        self.write(group, records, producer=producer)

    def delete(self, group: str, places: Iterable[Place]) -> None:
        """See OffsetStore: tombstones."""
        self.write(group, [encode_offset(group, *place, None) for place in places])

    def delete_group(self, group: str) -> None:
        """Delete a group with all its offsets."""
        with self._lock:
            records = [encode_offset(group, *place, None) for place in self._state.offsets.get(group, {})]
            if group in self._state.groups:
                records.append(encode_group(group, None))
            self.write(group, records)

    def write(
        self, group: str, records: Sequence[tuple[bytes, bytes | None]], *, producer: tuple[int, int] | None = None
    ) -> None:
        """Append records of a group, then replay them. Raises KafkalogError."""
        if not records:
            return
        with self._lock:
            self._log.append(group, records, producer=producer)
            for key, value in records:
                self._state.replay(key, value, None if producer is None else producer[0])

    def complete_transaction(self, producer_id: int, is_commit: bool) -> None:
        """Let the offsets of a transaction count, or forget them: its marker is in the log."""
        with self._lock:
            self._state.end_transaction(producer_id, is_commit=is_commit)

    def forget_topic(self, topic: str) -> None:
        """Delete the offsets of a topic that was deleted. Raises KafkalogError."""
        with self._lock:
            for group, offsets in list(self._state.offsets.items()):
                self.delete(group, [place for place in offsets if place[0] == topic])

    def expire(self, now_ms: int, retention_ms: int, has_members: Callable[[str], bool]) -> None:
        """Delete offsets of groups without members that are older than offsets.retention.minutes.

        When a group became empty is not in every record, so the start of this broker counts: an offset is kept longer
        than a broker would keep it that has run all the time, never shorter. Raises KafkalogError.
        """
        if now_ms - self._started_ms < retention_ms:
            return
        with self._lock:
            groups = list(self._state.offsets)
        for group in groups:
            if not has_members(group):  # not under our lock: a group that is saved holds its own one, and asks for ours
                self._expire_group(group, now_ms - retention_ms)

    def _expire_group(self, group: str, oldest_ms: int) -> None:
        with self._lock:
            offsets, pending = self._state.offsets.get(group, {}), self._state.pending_of(group)
            old = [
                place
                for place, offset in offsets.items()
                if place not in pending and offset.commit_timestamp_ms <= oldest_ms
            ]
            if len(old) == len(offsets):
                self.delete_group(group)
            else:
                self.delete(group, old)
