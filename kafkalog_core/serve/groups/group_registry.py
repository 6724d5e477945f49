"""All groups of a broker in one namespace: classic groups, KIP-848 groups, share groups, and offsets alone.

A name belongs to one kind of group at a time. A group without members changes its kind when a consumer joins by the
other protocol. Consumers of both protocols in one group are not served. A share group remains a share group.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafkalog_core.errors import KafkalogError
from kafkalog_core.serve.groups.classic_groups import GroupCoordinator, join_error
from kafkalog_core.serve.groups.consumer_groups import ConsumerGroups
from kafkalog_core.serve.groups.group_members import GroupState
from kafkalog_core.serve.groups.modern_groups import JOINS, HeartbeatAnswer
from kafkalog_core.serve.logs.partition_access import error_of
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_core.serve.groups.committed_offsets import OffsetStore
    from kafkalog_core.serve.groups.consumer_groups import ConsumerGroup
    from kafkalog_core.serve.groups.group_members import GroupLimits, JoinRequest, MemberIdentity
    from kafkalog_core.serve.groups.modern_groups import Heartbeat, ModernGroup
    from kafkalog_core.serve.logs.partition_access import KnownTopics
    from kafkalog_core.serve.network.answers import Answer, Reply
    from kafkalog_core.serve.network.requests import Body
    from kafkalog_core.topics.group_records import GroupValue

__all__ = ["GroupRegistry", "GroupStore", "KnownGroup"]

_CLASSIC: Final = "classic"
_CONSUMER: Final = "consumer"
_SHARE: Final = "share"


class KnownGroup(NamedTuple):
    """A group as a list shows it; `kind`: `classic`, `consumer` or `share`."""

    state: str
    protocol_type: str
    kind: str


class GroupStore(Protocol):
    """Where groups are kept. Its methods raise KafkalogError."""

    def save_classic(self, name: str, value: GroupValue | None, /) -> None:
        """Write a classic group; None: it is deleted."""

    def save_consumers(self, before: ConsumerGroup, after: ConsumerGroup | None, /) -> None:
        """Write what changes about a group of KIP-848; None: it is deleted."""


class ShareGroupTable(Protocol):
    """The share groups of a broker that writes: see `livebroker.groups.share_groups.ShareGroups`."""

    def group(self, group_id: str, /) -> ModernGroup | None:
        """Return a group; None: there is none."""

    def groups(self) -> Mapping[str, str]:
        """Return the state of each group."""

    def heartbeat(self, beat: Heartbeat, /) -> HeartbeatAnswer:
        """Answer a heartbeat."""

    def expire(self) -> None:
        """End the sessions whose time is over."""

    def delete(self, group_id: str, /) -> ErrorCode | None:
        """Delete a group; None: there is no such group. Raises KafkalogError."""


class ExpireOffsets(Protocol):
    """Deletes offsets of a group that have expired: see `livebroker.groups.live_offsets.LiveOffsets.expire`."""

    def __call__(self, group: str, is_read: Callable[[str], bool], /, *, empty_since_ms: int) -> bool:
        """Return whether the group has none left. Raises KafkalogError."""


class GroupRegistry:
    """All groups. Thread-safe: one lock for the groups of both protocols. The lock of the offsets is taken under it."""

    def __init__(
        self,
        offsets: OffsetStore,
        topics: KnownTopics,
        clock: Callable[[], float],
        clock_ms: Callable[[], int],
        new_member_id: Callable[[str], str],
        limits: GroupLimits | None = None,
        store: GroupStore | None = None,
        shares: ShareGroupTable | None = None,
    ) -> None:
        """Begin with the groups that have offsets.

        Args:
            offsets: what groups have committed.
            topics: what can be assigned.
            clock: the clock of the network, in seconds.
            clock_ms: time of day, in milliseconds since 1970.
            new_member_id: returns an id that is used once, from the client's id.
            limits: bounds of classic groups.
            store: where groups are kept; None: in memory alone.
            shares: the share groups; None: they are not served.
        """
        self.offsets = offsets
        self.shares = shares
        self._lock = threading.RLock()
        self.classic = GroupCoordinator(
            clock,
            clock_ms,
            new_member_id,
            limits,
            save=None if store is None else store.save_classic,
            lock=self._lock,
        )
        self.consumers = ConsumerGroups(
            topics, clock, new_member_id, save=None if store is None else store.save_consumers, lock=self._lock
        )

    # --- membership ---------------------------------------------------------------------------------------------------
    def join(self, name: str, request: JoinRequest, reply: Callable[[Body], Reply]) -> Answer:
        """Answer JoinGroup: a group of KIP-848 without members becomes a classic one."""
        # One lock for both protocols: a group must not be of two kinds for a moment.
        with self._lock:
            if self.consumers.has_members(name) or self._is_share(name):
                return reply(join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request))
            try:
                self.consumers.forget(name)
            except (KafkalogError, OSError):
                return reply(join_error(ErrorCode.NOT_COORDINATOR, request))
            return self.classic.join(name, request, reply)

    def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Answer ConsumerGroupHeartbeat: a classic group without members becomes one of KIP-848."""
        with self._lock:
            if self.classic.has_members(beat.group_id) or self._is_share(beat.group_id):
                message = f"Group {beat.group_id} is not a consumer group."
                return HeartbeatAnswer(ErrorCode.GROUP_ID_NOT_FOUND, message=message)
            if beat.epoch == JOINS and self.consumers.problem_of(beat) is None:
                # Before the first record of the new kind: a broker cannot load a group of two kinds
                try:
                    self.classic.forget(beat.group_id)
                except (KafkalogError, OSError):
                    return HeartbeatAnswer(ErrorCode.NOT_COORDINATOR)
            return self.consumers.heartbeat(beat)

    def share_heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Answer ShareGroupHeartbeat."""
        with self._lock:
            if self.shares is None or self.is_other(beat.group_id):
                message = f"Group {beat.group_id} is not a share group."
                return HeartbeatAnswer(ErrorCode.GROUP_ID_NOT_FOUND, message=message)
            return self.shares.heartbeat(beat)

    def _is_share(self, name: str) -> bool:
        return self.shares is not None and self.shares.group(name) is not None

    def is_other(self, name: str) -> bool:
        """Return whether a name belongs to a group that is not a share group."""
        with self._lock:
            is_consumers = self.consumers.group(name) is not None
            return is_consumers or self.classic.describe(name) is not None or name in self.offsets.groups()

    def expire(self) -> None:
        """End the sessions and rebalances whose time is over. A timer calls this."""
        self.classic.expire()
        self.consumers.expire()
        if self.shares is not None:
            self.shares.expire()

    # --- what may be done with offsets --------------------------------------------------------------------------------
    def check_commit(
        self, name: str, identity: MemberIdentity, generation: int, *, version: int | None = None
    ) -> ErrorCode:
        """Return whether a member of either protocol, or a consumer without a group, may commit.

        version: of OffsetCommit; None: the commit is part of a transaction.
        """
        with self._lock:
            # ShareGroup.validateOffsetCommit
            if self._is_share(name):
                return ErrorCode.GROUP_ID_NOT_FOUND
            code = self.consumers.check_commit(name, identity.member_id, generation, version=version)
            return self.classic.check_commit(name, identity, generation, version=version) if code is None else code

    def check_offset_delete(self, name: str) -> ErrorCode:
        """Return whether offsets of a group may be deleted one by one (`validateOffsetDelete`)."""
        with self._lock:
            found = self.classic.describe(name)
            if found is not None and found[0] is not GroupState.EMPTY and found[1] != _CONSUMER:
                return ErrorCode.NON_EMPTY_GROUP
            is_known = found is not None or self.consumers.group(name) is not None or name in self.offsets.groups()
            return ErrorCode.NONE if is_known else ErrorCode.GROUP_ID_NOT_FOUND

    def is_read(self, name: str, topic: str) -> bool:
        """Return whether members of a group read a topic, or may read it."""
        return self._reads(name)(topic)

    def _reads(self, name: str) -> Callable[[str], bool]:
        subscribed = self.classic.subscribed_topics(name)
        if subscribed is None:
            return lambda _: True
        return (subscribed | self.consumers.subscribed_topics(name)).__contains__

    # --- the end of groups --------------------------------------------------------------------------------------------
    def delete(self, name: str) -> ErrorCode:
        """Delete a group with its offsets; one with members is refused."""
        with self._lock:
            if self.shares is not None:
                try:
                    code = self.shares.delete(name)
                except (KafkalogError, OSError) as error:
                    return error_of(error)
                if code is not None:
                    return code
            found = self.classic.describe(name)
            if (found is not None and found[3]) or self.consumers.has_members(name):
                return ErrorCode.NON_EMPTY_GROUP
            if found is None and self.consumers.group(name) is None and name not in self.offsets.groups():
                return ErrorCode.GROUP_ID_NOT_FOUND
            try:
                self.offsets.delete(name)
                self._forget(name)
            except (KafkalogError, OSError) as error:
                return error_of(error)
            return ErrorCode.NONE

    def _forget(self, name: str) -> None:
        self.classic.forget(name)
        self.consumers.forget(name)

    def expire_offsets(self, expire: ExpireOffsets) -> None:
        """Delete offsets that have expired, and groups without members that have none left.

        `GroupCoordinatorShard.cleanupGroupMetadata`. Raises KafkalogError.
        """
        for name in self.listed():
            with self._lock:
                since_ms = self.classic.empty_since_ms(name)
                if since_ms is None:
                    continue
                # KIP-211: offsets age from when the group became empty, not from their commit.
                is_last = expire(name, self._reads(name), empty_since_ms=since_ms)
                if is_last and not self.classic.has_members(name):
                    self._forget(name)

    # --- looking at groups --------------------------------------------------------------------------------------------
    def listed(self) -> dict[str, KnownGroup]:
        """Return all groups. A group that has only offsets is empty."""
        with self._lock:
            found = {name: KnownGroup(GroupState.EMPTY, kind, _CLASSIC) for name, kind in self.offsets.groups().items()}
            found |= {name: KnownGroup(state, kind, _CLASSIC) for name, (state, kind) in self.classic.states().items()}
            states = self.consumers.groups().items()
            found |= {name: KnownGroup(state, _CONSUMER, _CONSUMER) for name, state in states}
            shared = {} if self.shares is None else self.shares.groups()
            return found | {name: KnownGroup(state, _SHARE, _SHARE) for name, state in shared.items()}
