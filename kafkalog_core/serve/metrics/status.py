"""What a broker is doing now, for people and monitoring systems: its partitions, its groups, and their lag.

A look costs no lock for long: each partition and each group is asked for itself. Over dead disks, partitions that no
client has used are not opened only to be listed; those in which a group has an offset are, some at each look, because
a lag needs the log end offset.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafkalog_core.errors import KafkalogError
from kafkalog_core.serve.groups.group_members import GroupState
from kafkalog_core.serve.logs.partition_access import PartitionOffsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.serve.disks.served_disks import ServedTopic
    from kafkalog_core.serve.groups.group_registry import GroupRegistry, KnownGroup

__all__ = ["BrokerStatus", "GroupLag", "GroupStatus", "PartitionStatus", "WatchedDisks", "WatchedPartition"]

_MAX_OPENED: Final = 20


class WatchedPartition(PartitionOffsets, Protocol):
    """What is asked of a partition."""

    @property
    def size_bytes(self) -> int:
        """The size of all segments."""

    def known_stable_offset(self) -> int | None:
        """Return the last stable offset; None: it would have to be read from the whole log first."""


class WatchedDisks(Protocol):
    """What is asked of the disks."""

    @property
    def topics(self) -> Mapping[str, ServedTopic]:
        """The topics by name."""

    def opened(self) -> Mapping[TopicPartition, WatchedPartition]:
        """Return the partitions that were used so far."""

    def partition(self, name: str, number: int, /) -> WatchedPartition | None:
        """Return a partition; None: it is not here. Raises KafkalogError if it cannot be opened."""


class PartitionStatus(NamedTuple):
    """Offsets and size of a partition; `stable_lag`: offsets from the last stable one to the end; None: unknown."""

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    size_bytes: int
    stable_lag: int | None


class GroupLag(NamedTuple):
    """A committed offset, and how many offsets are after it; None: the partition is not here."""

    topic: str
    partition: int
    offset: int
    lag: int | None


class GroupStatus(NamedTuple):
    """A group; `kind`: `classic`, `consumer` or `share`."""

    name: str
    state: str
    kind: str
    members: int


class BrokerStatus:
    """Looks at the disks and the groups of a broker. Thread-safe."""

    def __init__(self, disks: WatchedDisks, groups: GroupRegistry) -> None:
        """Take the disks and the groups."""
        self._disks = disks
        self._groups = groups

    # --- partitions ---------------------------------------------------------------------------------------------------
    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of each topic."""
        return {name: topic.partition_count for name, topic in self._disks.topics.items()}

    def partitions(self) -> list[PartitionStatus]:
        """Return the partitions that were used so far, by topic and number."""
        topics, found = self._disks.topics, []
        for (topic, number), log in sorted(self._disks.opened().items()):
            if topic not in topics:
                continue
            try:
                end, stable = log.log_end_offset, log.known_stable_offset()
                lag = None if stable is None else max(0, end - stable)
                found.append(PartitionStatus(topic, number, log.log_start_offset, end, log.size_bytes, lag))
            except (KafkalogError, OSError):
                continue  # it was deleted meanwhile, or its disk has failed
        return found

    # --- groups -------------------------------------------------------------------------------------------------------
    @property
    def rebalances(self) -> int:
        """The number of rebalances since the start."""
        return self._groups.classic.rebalances + self._groups.consumers.rebalances

    def groups(self) -> list[GroupStatus]:
        """Return all groups by name."""
        return [self._status_of(name, group) for name, group in sorted(self._groups.listed().items())]

    def first_groups(self, most: int) -> tuple[list[GroupStatus], int]:
        """Return some groups by name, groups with members first, and the number of all groups."""
        listed = self._groups.listed()
        first = nsmallest(most, listed.items(), key=lambda item: (str(item[1].state) == GroupState.EMPTY, item[0]))
        return [self._status_of(name, group) for name, group in first], len(listed)

    def _status_of(self, name: str, group: KnownGroup) -> GroupStatus:
        described, modern = self._groups.classic.describe(name), self._groups.consumers.group(name)
        members = len(described[3] if described is not None else ()) + len(modern.members if modern is not None else ())
        return GroupStatus(name, str(group.state), group.kind, members)

    def lags(self, names: Iterable[str], most: int) -> dict[str, list[GroupLag]]:
        """Return the lag of groups, by partition; `most`: number of partitions of all groups together."""
        found: dict[str, list[GroupLag]] = {}
        opened = dict(self._disks.opened())
        may_open, left = _MAX_OPENED, most
        for name in names:
            rows = found[name] = []
            for place, committed in sorted(self._groups.offsets.of_group(name).items()):
                if left <= 0:
                    return found
                left -= 1
                log = opened.get(place)
                if log is None and may_open > 0 and place[0] in self._disks.topics:
                    may_open -= 1
                    log = self._opened(place)
                rows.append(GroupLag(*place, committed.offset, _lag(log, committed.offset)))
        return found

    def _opened(self, place: TopicPartition) -> WatchedPartition | None:
        try:
            return self._disks.partition(*place)
        except (KafkalogError, OSError):
            return None


def _lag(log: WatchedPartition | None, offset: int) -> int | None:
    """Return the offsets from a committed one to the high watermark, as `kafka-consumer-groups.sh` shows them.

    It is negative where a group has committed past the end of the log (`ConsumerGroupService.getLag`).
    """
    if log is None:
        return None
    try:
        return log.high_watermark - offset
    except (KafkalogError, OSError):
        return None
