"""Consumer groups of KIP-848, in memory: the broker assigns, and members move to their target at heartbeats.

The rules are those of `ConsumerGroup`, `GroupMetadataManager.consumerGroupHeartbeat` and `CurrentAssignmentBuilder` of
Kafka 4.3. A change of members, subscriptions or topics raises the group's epoch and gives a new target; a member first
gives up what it loses, then gets what nobody else has any more. Time is an argument. Members are not in the log: after
a restart they join again.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafkalog_core.broker.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Place, Subscriber
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ConsumerGroups", "ConsumerLimits", "ConsumerMember", "Heartbeat", "HeartbeatAnswer", "KnownTopics"]

JOINS: Final = 0
LEAVES: Final = -1
PAUSES: Final = -2
"""Epochs by which a member joins, leaves, and leaves for a while as a static one (KIP-345)."""


class MemberState(StrEnum):
    """Where a member is on its way to its target (`MemberState`)."""

    STABLE = "stable"
    UNREVOKED = "unrevoked partitions"
    UNRELEASED = "unreleased partitions"


class ConsumerGroupState(StrEnum):
    """The states of a group, as clients see them."""

    EMPTY = "Empty"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class KnownTopics(Protocol):
    """The topics that can be assigned."""

    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of each topic, Kafka's own among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerLimits:
    """Bounds, with Kafka's settings in brackets.

    Args:
        session_s: until a silent member is removed [group.consumer.session.timeout.ms].
        heartbeat_ms: between two heartbeats [group.consumer.heartbeat.interval.ms].
        max_members: of a group [group.consumer.max.size].
    """

    session_s: float = 45.0
    heartbeat_ms: int = 5000
    max_members: int = 10_000


class Heartbeat(NamedTuple):
    """A ConsumerGroupHeartbeat; None: the member says nothing new about it."""

    group_id: str
    member_id: str
    epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_ms: int = -1
    topics: frozenset[str] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: frozenset[Place] | None = None

    @property
    def is_full(self) -> bool:
        """Whether the member states all that there is to say."""
        has_topics = self.topics is not None or self.pattern is not None
        return self.epoch == JOINS or (self.rebalance_ms != -1 and has_topics and self.owned is not None)


class HeartbeatAnswer(NamedTuple):
    """What a member gets; `assignment` None: it is as before."""

    code: ErrorCode
    member_id: str = ""
    epoch: int = 0
    assignment: frozenset[Place] | None = None
    message: str | None = None


@dataclass(slots=True)
class ConsumerMember:
    """A member: what it wants, what it has, and what it must give up before it gets more."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_s: float = 45.0
    topics: frozenset[str] = frozenset()
    pattern: str = ""
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: frozenset[Place] = frozenset()
    revoking: frozenset[Place] = frozenset()
    deadline_s: float = 0.0
    revoke_until_s: float | None = None

    @property
    def held(self) -> frozenset[Place]:
        """What nobody else may read yet."""
        return self.assigned | self.revoking


@dataclass(slots=True)
class ConsumerGroup:
    """A group; `target`: of each member, made for `target_epoch`."""

    group_id: str
    epoch: int = 0
    target_epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    target: dict[str, frozenset[Place]] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)

    @property
    def state(self) -> ConsumerGroupState:
        """The state that clients see."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        is_stable = self.epoch == self.target_epoch and all(
            member.state is MemberState.STABLE and member.epoch == self.target_epoch for member in self.members.values()
        )
        return ConsumerGroupState.STABLE if is_stable else ConsumerGroupState.RECONCILING

    @property
    def assignor(self) -> str:
        """The assignor that most members prefer."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return votes.most_common(1)[0][0] if votes else DEFAULT_ASSIGNOR


class ConsumerGroups:
    """All groups of this protocol. Thread-safe."""

    def __init__(
        self,
        topics: KnownTopics,
        clock: Callable[[], float],
        new_member_id: Callable[[str], str],
        limits: ConsumerLimits | None = None,
    ) -> None:
        """Begin without groups.

        clock: monotonic seconds. new_member_id: returns an id that is used once, from the client's id.
        """
        self._topics = topics
        self._clock = clock
        self._new_member_id = new_member_id
        self.limits = limits or ConsumerLimits()
        self._groups: dict[str, ConsumerGroup] = {}
        self._lock = threading.RLock()

    # --- heartbeats ---------------------------------------------------------------------------------------------------
    def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Answer a heartbeat."""
        problem = _problem_of(beat)
        if problem is not None:
            return problem
        with self._lock:
            if beat.epoch in {LEAVES, PAUSES}:
                return self._leave(beat)
            group = self._groups.get(beat.group_id)
            if group is None:
                if beat.epoch != JOINS:
                    return HeartbeatAnswer(ErrorCode.GROUP_ID_NOT_FOUND, message=f"Group {beat.group_id} not found.")
                group = self._groups[beat.group_id] = ConsumerGroup(beat.group_id)
            found = self._member(group, beat)
            if isinstance(found, HeartbeatAnswer):
                return found
            return self._beat(group, found, beat)

    def _member(self, group: ConsumerGroup, beat: Heartbeat) -> ConsumerMember | HeartbeatAnswer:
        """Return the member that sends a heartbeat, a new one if it joins."""
        if beat.instance_id is not None:
            former = next((each for each in group.members.values() if each.instance_id == beat.instance_id), None)
            if former is not None and former.member_id != beat.member_id:
                return self._replaced(group, former, beat)
        member = group.members.get(beat.member_id)
        if beat.epoch == JOINS:
            if member is None:
                if len(group.members) >= self.limits.max_members:
                    return HeartbeatAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED)
                member_id = beat.member_id or self._new_member_id(beat.client_id)
                member = ConsumerMember(member_id, beat.client_id, beat.client_host, beat.instance_id)
            return member
        if member is None:
            message = f"Member {beat.member_id} is not a member of group {group.group_id}."
            return HeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID, message=message)
        if beat.epoch > member.epoch or (beat.epoch < member.epoch and not _is_late(member, beat)):
            message = f"The member's epoch is {member.epoch}, not {beat.epoch}: it must abandon its partitions."
            return HeartbeatAnswer(ErrorCode.FENCED_MEMBER_EPOCH, message=message)
        return member

    def _replaced(
        self, group: ConsumerGroup, former: ConsumerMember, beat: Heartbeat
    ) -> ConsumerMember | HeartbeatAnswer:
        """Let a static member come back under a new id, if its former self has left for a while."""
        if beat.epoch != JOINS:
            return HeartbeatAnswer(ErrorCode.FENCED_INSTANCE_ID)
        if former.epoch != PAUSES:
            message = f"Static member {beat.instance_id} is still in the group."
            return HeartbeatAnswer(ErrorCode.UNRELEASED_INSTANCE_ID, message=message)
        member_id = beat.member_id or self._new_member_id(beat.client_id)
        del group.members[former.member_id]
        if former.member_id in group.target:
            group.target[member_id] = group.target.pop(former.member_id)
        former.member_id, former.epoch, former.previous_epoch = member_id, former.previous_epoch, 0
        former.client_id, former.client_host = beat.client_id, beat.client_host
        group.members[member_id] = former
        return former

    def _beat(self, group: ConsumerGroup, member: ConsumerMember, beat: Heartbeat) -> HeartbeatAnswer:
        is_new = member.member_id not in group.members
        group.members[member.member_id] = member
        has_changed = self._note(member, beat) or is_new
        counts = self._counts_of(group)
        if has_changed or counts != group.seen:
            group.seen = counts
            group.epoch += 1
        if group.target_epoch < group.epoch:
            self._aim(group)
        before = member.assigned
        self._reconcile(group, member, beat.owned)
        member.deadline_s = self._clock() + self.limits.session_s
        assignment = member.assigned if beat.is_full or member.assigned != before else None
        return HeartbeatAnswer(ErrorCode.NONE, member.member_id, member.epoch, assignment)

    @staticmethod
    def _note(member: ConsumerMember, beat: Heartbeat) -> bool:
        """Note what a heartbeat says; return whether the assignment may depend on it."""
        before = member.topics, member.pattern, member.assignor
        member.topics = member.topics if beat.topics is None else beat.topics
        member.pattern = member.pattern if beat.pattern is None else beat.pattern
        member.assignor = beat.assignor or member.assignor
        member.rack_id = beat.rack_id or member.rack_id
        if beat.rebalance_ms > 0:
            member.rebalance_s = beat.rebalance_ms / 1000
        return before != (member.topics, member.pattern, member.assignor)

    # --- targets ------------------------------------------------------------------------------------------------------
    def _subscription(self, member: ConsumerMember, counts: dict[str, int]) -> frozenset[str]:
        matches = re.compile(member.pattern).fullmatch if member.pattern else None
        by_pattern = {topic for topic in counts if matches is not None and matches(topic)}
        return frozenset(by_pattern | (member.topics & counts.keys()))

    def _counts_of(self, group: ConsumerGroup) -> dict[str, int]:
        """Return the partitions of the topics that any member reads."""
        counts = self._topics.partition_counts()
        wanted = frozenset[str]().union(*(self._subscription(each, counts) for each in group.members.values()))
        return {topic: counts[topic] for topic in wanted}

    def _aim(self, group: ConsumerGroup) -> None:
        """Make the target of the group's epoch."""
        members = {
            name: Subscriber(self._subscription(member, group.seen), group.target.get(name, frozenset()))
            for name, member in group.members.items()
        }
        target = ASSIGNORS[group.assignor](members, group.seen)
        group.target = {name: frozenset(places) for name, places in target.items()}
        group.target_epoch = group.epoch

    def _reconcile(self, group: ConsumerGroup, member: ConsumerMember, owned: frozenset[Place] | None) -> None:
        """Move a member towards its target (`CurrentAssignmentBuilder.build`)."""
        if member.state is MemberState.STABLE and member.epoch == group.target_epoch:
            return
        if member.state is MemberState.UNREVOKED and (owned is None or owned & member.revoking):
            return
        target = group.target.get(member.member_id, frozenset())
        kept, lost, wanted = member.assigned & target, member.assigned - target, target - member.assigned
        held = frozenset[Place]().union(*(each.held for each in group.members.values() if each is not member))
        free = wanted - held
        if lost and (owned is None or owned & lost):
            member.state, member.assigned, member.revoking = MemberState.UNREVOKED, kept, lost
            member.revoke_until_s = self._clock() + member.rebalance_s
            return
        member.state = MemberState.UNRELEASED if wanted - free else MemberState.STABLE
        member.assigned, member.revoking, member.revoke_until_s = kept | free, frozenset(), None
        if member.epoch != group.target_epoch:
            member.previous_epoch, member.epoch = member.epoch, group.target_epoch

    # --- the end of members -------------------------------------------------------------------------------------------
    def _leave(self, beat: Heartbeat) -> HeartbeatAnswer:
        group = self._groups.get(beat.group_id)
        member = None if group is None else group.members.get(beat.member_id)
        if group is None or member is None:
            return HeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID)
        if beat.instance_id is not None and member.instance_id != beat.instance_id:
            return HeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID)
        if beat.epoch == PAUSES:  # its partitions are kept for it until its session ends
            member.previous_epoch, member.epoch = member.epoch, PAUSES
        else:
            self._remove(group, member)
        return HeartbeatAnswer(ErrorCode.NONE, beat.member_id, beat.epoch)

    @staticmethod
    def _remove(group: ConsumerGroup, member: ConsumerMember) -> None:
        del group.members[member.member_id]
        group.target.pop(member.member_id, None)
        group.epoch += 1

    def expire(self) -> None:
        """Remove members whose session is over, or that do not give up what they must. A timer calls this."""
        with self._lock:
            now_s = self._clock()
            for group in self._groups.values():
                for member in list(group.members.values()):
                    is_stuck = member.revoke_until_s is not None and now_s >= member.revoke_until_s
                    if now_s >= member.deadline_s or is_stuck:
                        self._remove(group, member)

    # --- what others ask ----------------------------------------------------------------------------------------------
    def check_commit(self, group_id: str, member_id: str, epoch: int) -> ErrorCode | None:
        """Return whether a commit is that of a member (`ConsumerGroup.validateOffsetCommit`); None: no such group."""
        with self._lock:
            group = self._groups.get(group_id)
            if group is None or (epoch < 0 and not group.members):
                return None
            member = group.members.get(member_id)
            if member is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def groups(self) -> dict[str, ConsumerGroupState]:
        """Return the state of each group."""
        with self._lock:
            return {name: group.state for name, group in self._groups.items()}

    def group(self, group_id: str) -> ConsumerGroup | None:
        """Return a group; None: there is none."""
        with self._lock:
            return self._groups.get(group_id)

    def has_members(self, group_id: str) -> bool:
        """Return whether a group has members."""
        with self._lock:
            group = self._groups.get(group_id)
            return group is not None and bool(group.members)

    def forget(self, group_id: str) -> None:
        """Forget a group without members."""
        with self._lock:
            if not self.has_members(group_id):
                self._groups.pop(group_id, None)


def _is_late(member: ConsumerMember, beat: Heartbeat) -> bool:
    """Return whether a member has not got the answer that raised its epoch, and may go on."""
    return beat.epoch == member.previous_epoch and beat.owned is not None and beat.owned <= member.assigned


def _problem_of_join(beat: Heartbeat) -> str | None:
    if beat.rebalance_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if beat.owned is None or beat.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if beat.topics is None and beat.pattern is None:
        return "SubscribedTopicNames or SubscribedTopicRegex must be set in first request."
    return None


def _problem_of(beat: Heartbeat) -> HeartbeatAnswer | None:
    """Return why a heartbeat is not valid (`throwIfConsumerGroupHeartbeatRequestIsInvalid`); None: it is."""
    problem = None
    if not beat.group_id.strip():
        problem = "GroupId can't be empty."
    elif beat.epoch < PAUSES:
        problem = "MemberEpoch is invalid."
    elif beat.epoch != JOINS and not beat.member_id:
        problem = "MemberId can't be empty."
    elif beat.epoch == PAUSES and beat.instance_id is None:
        problem = "InstanceId can't be null."
    elif beat.epoch == JOINS:
        problem = _problem_of_join(beat)
    if problem is not None:
        return HeartbeatAnswer(ErrorCode.INVALID_REQUEST, message=problem)
    if beat.assignor is not None and beat.assignor not in ASSIGNORS:
        message = f"ServerAssignor {beat.assignor} is not supported. Supported assignors: {', '.join(ASSIGNORS)}."
        return HeartbeatAnswer(ErrorCode.UNSUPPORTED_ASSIGNOR, message=message)
    try:
        re.compile(beat.pattern or "")
    except re.error as error:
        return HeartbeatAnswer(ErrorCode.INVALID_REGULAR_EXPRESSION, message=str(error))
    return None
