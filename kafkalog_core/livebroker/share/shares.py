"""Share groups of a live broker: their coordinators, their partitions, and the handlers of their requests (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.livebroker.groups.group_configs import GroupConfigs
from kafkalog_core.livebroker.groups.share_groups import ShareGroups
from kafkalog_core.livebroker.share.share_group_requests import ShareGroupRequests
from kafkalog_core.livebroker.share.share_partitions import SharePartitions
from kafkalog_core.livebroker.share.share_requests import ShareRequests
from kafkalog_core.livebroker.share.share_sessions import SessionObserver, ShareSessions
from kafkalog_core.livebroker.share.share_states import ShareStates
from kafkalog_core.livebroker.transactions.coordinator_logs import CoordinatorLog
from kafkalog_core.topics.share_state_records import SHARE_STATE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_core.livebroker.disks.live_disks import LiveDisks
    from kafkalog_core.livebroker.groups.share_groups import ShareGroup
    from kafkalog_core.livebroker.logs.append_waiters import AppendWaiters
    from kafkalog_core.serve.groups.group_registry import GroupRegistry
    from kafkalog_core.serve.network.answers import NetworkObserver
    from kafkalog_core.serve.topics.traffic import Traffic
    from kafkalog_core.topics.group_records import Record

__all__ = ["Shares"]

_PRUNE_MS: Final = 300_000  # share.coordinator.state.topic.prune.interval.ms


class _StateLog(CoordinatorLog):
    """The log of states; the first record of all makes share groups a feature of the cluster."""

    def __init__(self, disks: LiveDisks, clock_ms: Callable[[], int], appended: Callable[[str, int], None]) -> None:
        super().__init__(disks, SHARE_STATE_TOPIC, clock_ms, appended)
        self._enable = disks.enable_share_groups

    def append(self, name: str, records: Sequence[Record], *, producer: tuple[int, int] | None = None) -> int:
        """See CoordinatorLog."""
        self._enable()
        return super().append(name, records, producer=producer)


class Shares:
    """All parts of share groups."""

    def __init__(
        self,
        disks: LiveDisks,
        save: Callable[[ShareGroup, ShareGroup | None], None],
        waiters: AppendWaiters,
        clock: Callable[[], float],
        clock_ms: Callable[[], int],
        traffic: Traffic | None = None,
    ) -> None:
        """Load the states.

        Args:
            disks: what is served.
            save: writes how a group changes; see `ShareGroups`.
            waiters: where fetches wait for records.
            clock: monotonic seconds.
            clock_ms: time of day, in milliseconds since 1970.
            traffic: counts what members read.

        Raises SettingError for settings of the broker that contradict each other.
        """
        self._disks = disks
        self.configs = GroupConfigs(disks.settings, disks.group_configs)
        self._states = ShareStates(_StateLog(disks, clock_ms, waiters.notify), clock_ms)
        self.problems = self._states.problems
        self.groups = ShareGroups(disks, clock, self._states, self.configs.share_limits, save)
        self._sessions = ShareSessions()
        partitions = SharePartitions(disks, self._states, self.configs, clock, clock_ms, waiters.notify)
        self._requests = ShareRequests(partitions, self._sessions, disks, clock, waiters, traffic)

    def handlers(self, registry: GroupRegistry) -> tuple[ShareRequests, ShareGroupRequests]:
        """Return the handlers of all requests. registry: all groups of the broker."""
        return self._requests, ShareGroupRequests(registry, self.groups, self._states, self._disks)

    def watching(self, observer: NetworkObserver) -> NetworkObserver:
        """Return an observer that ends the sessions of connections that are closed, and passes every event on."""
        return SessionObserver(self._sessions, observer)

    def expire(self) -> None:
        """Release what members no longer have. A timer calls this. Raises KafkalogError and OSError."""
        self._requests.expire()

    def tasks(self) -> dict[str, tuple[int, Callable[[], None]]]:
        """Return what is to be done in the background, with its interval in milliseconds."""
        return {"the pruning of share states": (_PRUNE_MS, self._states.prune)}
