"""What consumer groups of KIP-848 and share groups (KIP-932) have in common: members, epochs, heartbeats, sessions.

This follows `ModernGroup`, `GroupMetadataManager` and `TargetAssignmentBuilder` of Kafka 4.3. A change of
members, subscriptions or topics raises the group's epoch and gives a new target; members move to it at heartbeats.
Groups are values: each change makes a new one, which counts once it is written. Time is an argument.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar

from kafkalog_core.errors import KafkalogError
from kafkalog_core.serve.groups.group_members import GroupState
from kafkalog_core.structs import Struct, field, replace
from kafkalog_core.topics.modern_group_records import MemberSubscription
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from threading import RLock

    from kafkalog_core.format.names import TopicPartition

__all__ = [
    "JOINS",
    "LEAVES",
    "Heartbeat",
    "HeartbeatAnswer",
    "MemberState",
    "ModernGroup",
    "ModernGroups",
    "ModernLimits",
    "ModernMember",
    "unknown_member",
]

JOINS: Final = 0
LEAVES: Final = -1
"""Epochs by which a member joins and leaves."""


class MemberState(StrEnum):
    """Where a member is on its way to its target (`MemberState`)."""

    STABLE = "stable"
    UNREVOKED = "unrevoked partitions"
    UNRELEASED = "unreleased partitions"


class ModernLimits(Struct, frozen=True, kw_only=True):
    """Bounds, with Kafka's settings of consumer groups in brackets; share groups have settings named alike.

    Args:
        session_s: until a silent member is removed [group.consumer.session.timeout.ms].
        heartbeat_ms: between two heartbeats [group.consumer.heartbeat.interval.ms].
        max_members: of a group [group.consumer.max.size].
    """

    session_s: float = 45.0
    heartbeat_ms: int = 5000
    max_members: int = 10_000


class Heartbeat(NamedTuple):
    """A ConsumerGroupHeartbeat or ShareGroupHeartbeat; None: the member says nothing new about it.

    `describes`: whether the member may describe a topic that its regular expression matches; None: it may. Members of
    share groups state nothing of what is after `topics`.
    """

    group_id: str
    member_id: str
    epoch: int
    client_id: str
    client_host: str
    rack_id: str | None = None
    topics: frozenset[str] | None = None
    instance_id: str | None = None
    rebalance_ms: int = -1
    pattern: str | None = None
    assignor: str | None = None
    owned: frozenset[TopicPartition] | None = None
    describes: Callable[[str], bool] | None = None


class HeartbeatAnswer(NamedTuple):
    """What a member gets; `assignment` None: it is as before."""

    code: ErrorCode
    member_id: str = ""
    epoch: int = 0
    assignment: frozenset[TopicPartition] | None = None
    message: str | None = None


class ModernMember(Struct, frozen=True):
    """A member: what it wants, what it has, and what it must give up before it gets more (in consumer groups)."""

    member_id: str
    subscription: MemberSubscription
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: frozenset[TopicPartition] = frozenset()
    revoking: frozenset[TopicPartition] = frozenset()
    deadline_s: float = 0.0
    revoke_until_s: float | None = None

    @property
    def held(self) -> frozenset[TopicPartition]:
        """Partitions that no other member of a consumer group may read yet."""
        return self.assigned | self.revoking

    @property
    def rebalance_s(self) -> float:
        """How long it may take to give up partitions."""
        return self.subscription.rebalance_ms / 1000

    def reached(self, epoch: int, assigned: frozenset[TopicPartition]) -> ModernMember:
        """Return the member once it has moved to the target of an epoch."""
        previous = self.previous_epoch if self.epoch == epoch else self.epoch
        return replace(self, epoch=epoch, previous_epoch=previous, assigned=assigned)

    def is_overdue(self, now_s: float) -> bool:
        """Return whether its session is over, or it has not given up in time what it must."""
        return now_s >= self.deadline_s or (self.revoke_until_s is not None and now_s >= self.revoke_until_s)


_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class ModernGroup(Struct, frozen=True):
    """A group; `target`: of each member, made for `target_epoch`."""

    group_id: str
    epoch: int = 0
    target_epoch: int = 0
    members: Mapping[str, ModernMember] = field(default_factory=lambda: _NONE)
    target: Mapping[str, frozenset[TopicPartition]] = field(default_factory=lambda: _NONE)

    @property
    def state(self) -> GroupState:
        """The state that clients see."""
        return GroupState.STABLE if self.members else GroupState.EMPTY

    @property
    def assignor(self) -> str:
        """The name of the assignor, which each kind of group has its own way to find."""
        raise NotImplementedError

    def with_member(self, member: ModernMember) -> Self:
        """Return the group with a member, which replaces the member with its id."""
        return replace(self, members={**self.members, member.member_id: member})

    def without(self, gone: Iterable[str]) -> Self:
        """Return the group without some of its members, in a new epoch."""
        names = set(gone)
        return replace(
            self,
            members={name: each for name, each in self.members.items() if name not in names},
            target={name: each for name, each in self.target.items() if name not in names},
            epoch=self.epoch + 1,
        )


GroupT = TypeVar("GroupT", bound=ModernGroup)


class ModernGroups(ABC, Generic[GroupT]):
    """All groups of one kind. Thread-safe.

    Attributes:
        limits_of: returns the bounds of a group by its name.
        rebalances: number of rebalances since the start: each new epoch of a group begins one.
    """

    not_found: ClassVar[str] = "Group {} not found."
    full: ClassVar[str | None] = None
    fenced: ClassVar[str] = "The member's epoch is {}, not {}: it must abandon its partitions."
    """What clients read about a group that there is not, one with as many members as it may have, and a wrong epoch."""

    def __init__(
        self,
        new_group: Callable[[str], GroupT],
        clock: Callable[[], float],
        limits_of: Callable[[str], ModernLimits],
        save: Callable[[GroupT, GroupT | None], None] | None,
        lock: RLock | None = None,
    ) -> None:
        """Begin without groups.

        Args:
            new_group: returns a group of a name, without members.
            clock: monotonic seconds.
            limits_of: returns the bounds of a group by its name.
            save: writes how a group changes; None as its second argument deletes it. It raises KafkalogError if that
                fails: the change has not happened then. None: groups are in memory alone.
            lock: of all groups of a broker.
        """
        self._new_group = new_group
        self._clock = clock
        self.limits_of = limits_of
        self._save = save
        self._groups: dict[str, GroupT] = {}
        self._lock = lock or threading.RLock()
        self.rebalances = 0

    def load(self, group: GroupT) -> None:
        """Take a group that the log holds: its members have a session from now on."""
        now_s, deadline_s = self._clock(), self._deadline_s(group.group_id)
        members = {
            name: replace(
                each,
                deadline_s=deadline_s,
                revoke_until_s=now_s + each.rebalance_s if each.state is MemberState.UNREVOKED else None,
            )
            for name, each in group.members.items()
        }
        with self._lock:
            self._groups[group.group_id] = replace(group, members=members)

    def _deadline_s(self, group_id: str) -> float:
        return self._clock() + self.limits_of(group_id).session_s

    def _change(self, before: GroupT | None, after: GroupT) -> None:
        """Write a change, then let it count. Raises KafkalogError."""
        if self._save is not None:
            self._save(before or self._new_group(after.group_id), after)
        self._groups[after.group_id] = after
        self.rebalances += after.epoch > (0 if before is None else before.epoch)

    def _delete(self, group: GroupT) -> None:
        """Write that a group is deleted, then forget it. Raises KafkalogError."""
        if self._save is not None:
            self._save(group, None)
        del self._groups[group.group_id]

    # --- heartbeats ---------------------------------------------------------------------------------------------------
    @staticmethod
    @abstractmethod
    def problem_of(beat: Heartbeat) -> HeartbeatAnswer | None:
        """Return why a heartbeat is not valid, whatever groups there are; None: it is."""

    def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Answer a heartbeat."""
        problem = self.problem_of(beat)
        if problem is not None:
            return problem
        with self._lock:
            try:
                return self._leave(beat) if beat.epoch <= LEAVES else self._beat(beat)
            except (KafkalogError, OSError):
                return HeartbeatAnswer(ErrorCode.NOT_COORDINATOR)

    def _beat(self, beat: Heartbeat) -> HeartbeatAnswer:
        known = self._groups.get(beat.group_id)
        if known is None and beat.epoch != JOINS:
            return HeartbeatAnswer(ErrorCode.GROUP_ID_NOT_FOUND, message=self.not_found.format(beat.group_id))
        found = self._member(known or self._new_group(beat.group_id), beat)
        if isinstance(found, HeartbeatAnswer):
            return found
        group, member, is_new = found
        noted = replace(member, subscription=self._noted(member.subscription, beat))
        group, has_changed = self._with_topics(group.with_member(noted), beat)
        if is_new or has_changed or _wishes(noted) != _wishes(member):
            group = replace(group, epoch=group.epoch + 1)
        if group.target_epoch < group.epoch:
            group = self._aimed(group)
        moved = replace(self._reconciled(group, noted, beat), deadline_s=self._deadline_s(group.group_id))
        self._change(known, group.with_member(moved))
        is_sent = self._is_full(beat) or moved.assigned != member.assigned
        return HeartbeatAnswer(ErrorCode.NONE, moved.member_id, moved.epoch, moved.assigned if is_sent else None)

    def _member(self, group: GroupT, beat: Heartbeat) -> tuple[GroupT, ModernMember, bool] | HeartbeatAnswer:
        """Return the group, the member that sends a heartbeat, and whether it is a new one."""
        member = group.members.get(beat.member_id)
        if member is None and beat.epoch == JOINS:
            most = self.limits_of(group.group_id).max_members
            if len(group.members) >= most:
                message = None if self.full is None else self.full.format(most)
                return HeartbeatAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED, message=message)
            subscription = MemberSubscription(
                client_id=beat.client_id, client_host=beat.client_host, instance_id=beat.instance_id
            )
            return group, ModernMember(beat.member_id, subscription), True
        if member is None:
            return unknown_member(beat)
        if beat.epoch in {JOINS, member.epoch} or self._is_late(member, beat):
            return group, member, False
        message = self.fenced.format(member.epoch, beat.epoch)
        return HeartbeatAnswer(ErrorCode.FENCED_MEMBER_EPOCH, message=message)

    @staticmethod
    @abstractmethod
    def _is_late(member: ModernMember, beat: Heartbeat) -> bool:
        """Return whether a member has not got the answer that raised its epoch, and may go on."""

    @classmethod
    def _noted(cls, subscription: MemberSubscription, beat: Heartbeat) -> MemberSubscription:
        """Return what a member wants to read after a heartbeat."""
        return replace(
            subscription,
            rack_id=beat.rack_id or subscription.rack_id,
            topics=subscription.topics if beat.topics is None else beat.topics,
            pattern=subscription.pattern if beat.pattern is None else beat.pattern,
            rebalance_ms=beat.rebalance_ms if beat.rebalance_ms > 0 else subscription.rebalance_ms,
            assignor=beat.assignor or subscription.assignor,
        )

    @staticmethod
    @abstractmethod
    def _is_full(beat: Heartbeat) -> bool:
        """Return whether the member states all that there is to say, and gets all that it has."""

    @abstractmethod
    def _with_topics(self, group: GroupT, beat: Heartbeat) -> tuple[GroupT, bool]:
        """Return a group with the topics that its target is made of, and whether they have changed."""

    # --- targets ------------------------------------------------------------------------------------------------------
    def _aimed(self, group: GroupT) -> GroupT:
        """Return a group with the target of its epoch."""
        target = {name: frozenset(places) for name, places in self._assignment(group).items()}
        kept = {name: group.target[name] if group.target.get(name) == each else each for name, each in target.items()}
        return replace(group, target=kept, target_epoch=group.epoch)

    @staticmethod
    @abstractmethod
    def _assignment(group: GroupT) -> Mapping[str, set[TopicPartition]]:
        """Return what each member is to read, as the assignor says."""

    @abstractmethod
    def _reconciled(self, group: GroupT, member: ModernMember, beat: Heartbeat) -> ModernMember:
        """Return a member a step nearer to its target."""

    # --- the end of members -------------------------------------------------------------------------------------------
    @abstractmethod
    def _leave(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Answer the last heartbeat of a member. Raises KafkalogError."""

    def expire(self) -> None:
        """Remove members whose session is over, or that do not give up what they must. A timer calls this."""
        with self._lock:
            now_s = self._clock()
            for group in list(self._groups.values()):
                gone = [name for name, member in group.members.items() if member.is_overdue(now_s)]
                if gone:
                    with suppress(KafkalogError, OSError):  # if it cannot be written now, then at the next call
                        self._change(group, group.without(gone))

    # --- what others ask ----------------------------------------------------------------------------------------------
    def groups(self) -> dict[str, GroupState]:
        """Return the state of each group."""
        with self._lock:
            groups = list(self._groups.values())
        return {each.group_id: each.state for each in groups}

    def group(self, group_id: str) -> GroupT | None:
        """Return a group; None: there is none."""
        with self._lock:
            return self._groups.get(group_id)

    def has_members(self, group_id: str) -> bool:
        """Return whether a group has members."""
        group = self.group(group_id)
        return group is not None and bool(group.members)


def unknown_member(beat: Heartbeat) -> HeartbeatAnswer:
    """Return the answer to a heartbeat of a member that its group does not have."""
    message = f"Member {beat.member_id} is not a member of group {beat.group_id}."
    return HeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID, message=message)


def _wishes(member: ModernMember) -> tuple[object, ...]:
    """Return what the assignment may depend on."""
    return member.subscription.topics, member.subscription.pattern, member.subscription.assignor
