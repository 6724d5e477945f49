"""The offsets that groups have committed: on a dead disk, and in memory what its readers have committed since."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.topics.group_offsets import CommittedOffset
    from kafkalog_core.topics.group_states import GroupStates

__all__ = ["CommittedOffsets", "OffsetStore"]

_CONSUMER: Final = "consumer"


class OffsetStore(Protocol):
    """Committed offsets of all groups. Thread-safe."""

    def groups(self) -> dict[str, str]:
        """Return the protocol type of each group that has ever committed; empty: unknown."""

    def of_group(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """Return all offsets of a group."""

    def unstable(self, group: str) -> set[TopicPartition]:
        """Return the partitions whose offset is in an open transaction (KIP-447)."""

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        producer: tuple[int, int] | None = None,
    ) -> None:
        """Keep offsets; with a producer, id and epoch, once its transaction is committed. Raises KafkalogError."""

    def delete(self, group: str, places: Iterable[TopicPartition] | None = None) -> None:
        """Delete offsets, also pending ones of open transactions; None: all of the group. Raises KafkalogError."""


class CommittedOffsets:
    """Offsets on the disks, overridden by what consumers commit from the start of the broker to its stop."""

    def __init__(self, on_disk: GroupStates) -> None:
        self._on_disk = on_disk
        self._in_memory: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._lock = threading.Lock()

    def groups(self) -> dict[str, str]:
        """See OffsetStore."""
        with self._lock:
            return dict.fromkeys(self._in_memory, _CONSUMER) | self._on_disk.protocol_types()

    def of_group(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """See OffsetStore."""
        with self._lock:
            return self._on_disk.offsets.offsets.get(group, {}) | self._in_memory.get(group, {})

    def unstable(self, group: str) -> set[TopicPartition]:
        """See OffsetStore: the offsets that were in a transaction when the cluster stopped."""
        return self._on_disk.offsets.pending_of(group)

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        producer: tuple[int, int] | None = None,
    ) -> None:
        """See OffsetStore; transactions have no place in memory."""
        del producer
        with self._lock:
            self._in_memory.setdefault(group, {}).update(offsets)

    def delete(self, group: str, places: Iterable[TopicPartition] | None = None) -> None:
        """See OffsetStore; what the disk holds remains."""
        with self._lock:
            of_group = self._in_memory.get(group, {})
            for place in list(of_group) if places is None else places:
                of_group.pop(place, None)
