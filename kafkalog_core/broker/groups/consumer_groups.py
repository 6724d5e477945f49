"""Consumer groups of KIP-848: the broker assigns, and members move to their target at heartbeats.

The rules are those of `ConsumerGroup`, `GroupMetadataManager.consumerGroupHeartbeat` and `CurrentAssignmentBuilder` of
Kafka 4.3. A change of members, subscriptions or topics raises the group's epoch and gives a new target; a member first
gives up what it loses, then gets what nobody else has any more. Groups are values: each change makes a new one, which
counts once it is written. Time is an argument.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import re2

from kafkalog_core.broker.groups.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Place, Subscriber
from kafkalog_core.errors import KafkalogError
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from threading import RLock

__all__ = [
    "ConsumerGroup",
    "ConsumerGroups",
    "ConsumerLimits",
    "ConsumerMember",
    "Heartbeat",
    "HeartbeatAnswer",
    "KnownTopics",
    "MemberState",
    "problem_of",
]

JOINS: Final = 0
LEAVES: Final = -1
PAUSES: Final = -2
"""Epochs by which a member joins, leaves, and leaves for a while as a static one (KIP-345)."""
_PATTERN_BYTES: Final = 1 << 20  # of memory for one regular expression
_RESOLVED_S: Final = 600  # GroupMetadataManager.REGEX_BATCH_REFRESH_MAX_INTERVAL_MS
_COMMITS_OF_MEMBERS: Final = 9  # OffsetCommit since this version


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
    """A ConsumerGroupHeartbeat; None: the member says nothing new about it.

    `describes`: whether the member may describe a topic that its regular expression matches; None: it may.
    """

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
    describes: Callable[[str], bool] | None = None

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


@dataclass(frozen=True, slots=True)
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


_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """A group; `target`: of each member, made for `target_epoch`; `seen`: the topics that it was made of.

    `patterns`: those of which the log holds topics that another broker has stored. `hidden`: topics that no regular
    expression matches, because they may not be described; `resolved`: what that was found for.
    """

    group_id: str
    epoch: int = 0
    target_epoch: int = 0
    members: Mapping[str, ConsumerMember] = field(default_factory=lambda: _NONE)
    target: Mapping[str, frozenset[Place]] = field(default_factory=lambda: _NONE)
    seen: Mapping[str, int] = field(default_factory=lambda: _NONE)
    patterns: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    resolved: tuple[object, ...] = ()

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
    """All groups of this protocol. Thread-safe.

    Attributes:
        rebalances: number of rebalances since the start: each new epoch of a group begins one.
    """

    def __init__(
        self,
        topics: KnownTopics,
        clock: Callable[[], float],
        new_member_id: Callable[[str], str],
        limits_of: Callable[[str], ConsumerLimits] | None = None,
        *,
        save: Callable[[ConsumerGroup, ConsumerGroup | None], None] | None = None,
        lock: RLock | None = None,
    ) -> None:
        """Begin without groups.

        Args:
            topics: what can be assigned.
            clock: monotonic seconds.
            new_member_id: returns an id that is used once, from the client's id.
            limits_of: returns the bounds of a group by its name; None: all groups have Kafka's defaults.
            save: writes how a group changes; None as its second argument deletes it. It raises KafkalogError if that
                fails: the change has not happened then. None: groups are in memory alone.
            lock: of all groups of a broker.
        """
        self._topics = topics
        self._clock = clock
        self._new_member_id = new_member_id
        self.limits_of = limits_of or (lambda _: ConsumerLimits())
        self._save = save
        self._groups: dict[str, ConsumerGroup] = {}
        self._lock = lock or threading.RLock()
        self.rebalances = 0

    def load(self, group: ConsumerGroup) -> None:
        """Take a group that the log holds: its members have a session from now on."""
        now_s = self._clock()
        members = {
            name: replace(
                each,
                deadline_s=now_s + self.limits_of(group.group_id).session_s,
                revoke_until_s=now_s + each.rebalance_s if each.state is MemberState.UNREVOKED else None,
            )
            for name, each in group.members.items()
        }
        with self._lock:
            self._groups[group.group_id] = replace(group, members=members)

    def _change(self, before: ConsumerGroup | None, after: ConsumerGroup) -> bool:
        """Write a change, then let it count; return whether it could be written."""
        if self._save is not None:
            try:
                self._save(before or ConsumerGroup(after.group_id), after)
            except (KafkalogError, OSError):
                return False
        self._groups[after.group_id] = after
        self.rebalances += after.epoch > (0 if before is None else before.epoch)
        return True

    # --- heartbeats ---------------------------------------------------------------------------------------------------
    def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Answer a heartbeat."""
        problem = problem_of(beat)
        if problem is not None:
            return problem
        with self._lock:
            if beat.epoch in {LEAVES, PAUSES}:
                return self._leave(beat)
            known = self._groups.get(beat.group_id)
            if known is None and beat.epoch != JOINS:
                return HeartbeatAnswer(ErrorCode.GROUP_ID_NOT_FOUND, message=f"Group {beat.group_id} not found.")
            found = self._member(known or ConsumerGroup(beat.group_id), beat)
            if isinstance(found, HeartbeatAnswer):
                return found
            group, member, is_new = found
            before = member.assigned
            group, member = self._beat(group, member, beat, is_new=is_new)
            if not self._change(known, group):
                return HeartbeatAnswer(ErrorCode.NOT_COORDINATOR)
            assignment = member.assigned if beat.is_full or member.assigned != before else None
            return HeartbeatAnswer(ErrorCode.NONE, member.member_id, member.epoch, assignment)

    def _member(
        self, group: ConsumerGroup, beat: Heartbeat
    ) -> tuple[ConsumerGroup, ConsumerMember, bool] | HeartbeatAnswer:
        """Return the group, the member that sends a heartbeat, and whether it is a new one."""
        if beat.instance_id is not None:
            former = next((each for each in group.members.values() if each.instance_id == beat.instance_id), None)
            if former is not None and former.member_id != beat.member_id:
                return self._replaced(group, former, beat)
        member = group.members.get(beat.member_id)
        if member is None and beat.epoch == JOINS:
            if len(group.members) >= self.limits_of(group.group_id).max_members:
                return HeartbeatAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED)
            member_id = beat.member_id or self._new_member_id(beat.client_id)
            return group, ConsumerMember(member_id, beat.client_id, beat.client_host, beat.instance_id), True
        if member is None:
            message = f"Member {beat.member_id} is not a member of group {group.group_id}."
            return HeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID, message=message)
        if beat.epoch in {JOINS, member.epoch} or _is_late(member, beat):
            return group, member, False
        message = f"The member's epoch is {member.epoch}, not {beat.epoch}: it must abandon its partitions."
        return HeartbeatAnswer(ErrorCode.FENCED_MEMBER_EPOCH, message=message)

    def _replaced(
        self, group: ConsumerGroup, former: ConsumerMember, beat: Heartbeat
    ) -> tuple[ConsumerGroup, ConsumerMember, bool] | HeartbeatAnswer:
        """Let a static member come back under a new id, if its former self has left for a while."""
        if beat.epoch != JOINS:
            return HeartbeatAnswer(ErrorCode.FENCED_INSTANCE_ID)
        if former.epoch != PAUSES:
            message = f"Static member {beat.instance_id} is still in the group."
            return HeartbeatAnswer(ErrorCode.UNRELEASED_INSTANCE_ID, message=message)
        member_id = beat.member_id or self._new_member_id(beat.client_id)
        member = replace(
            former,
            member_id=member_id,
            epoch=former.previous_epoch,
            previous_epoch=0,
            client_id=beat.client_id,
            client_host=beat.client_host,
        )
        members = {name: each for name, each in group.members.items() if each is not former} | {member_id: member}
        target = {member_id if name == former.member_id else name: each for name, each in group.target.items()}
        return replace(group, members=members, target=target), member, False

    def _beat(
        self, group: ConsumerGroup, member: ConsumerMember, beat: Heartbeat, *, is_new: bool
    ) -> tuple[ConsumerGroup, ConsumerMember]:
        """Return group and member after a heartbeat."""
        noted = _noted(member, beat)
        group = replace(group, members={**group.members, noted.member_id: noted})
        group = self._resolved(group, beat)
        counts = self._counts_of(group)
        has_changed = is_new or _wishes(noted) != _wishes(member)
        if has_changed or counts != group.seen:
            group = replace(group, seen=counts, epoch=group.epoch + 1)
        if group.target_epoch < group.epoch:
            group = self._aimed(group)
        deadline_s = self._clock() + self.limits_of(group.group_id).session_s
        moved = replace(self._reconciled(group, noted, beat.owned), deadline_s=deadline_s)
        return replace(group, members={**group.members, moved.member_id: moved}), moved

    # --- targets ------------------------------------------------------------------------------------------------------
    def _counts_of(self, group: ConsumerGroup) -> Mapping[str, int]:
        """Return the partitions of the topics that any member reads."""
        counts = self._topics.partition_counts()
        members = group.members.values()
        wanted = frozenset[str]().union(*{each.topics for each in members}) & counts.keys()
        patterns = {each.pattern for each in members if each.pattern}
        by_pattern = (_matching(pattern, counts) - group.hidden for pattern in patterns)
        return {topic: counts[topic] for topic in wanted.union(*by_pattern)}

    def _resolved(self, group: ConsumerGroup, beat: Heartbeat) -> ConsumerGroup:
        """Return a group whose regular expressions match no topic that the member may not describe.

        As on a broker, that holds for the whole group until topics or regular expressions change, or for ten minutes
        (`GroupMetadataManager.maybeUpdateRegularExpressions`, `TopicRegexResolver`).
        """
        describes, patterns = beat.describes, frozenset(each.pattern for each in group.members.values() if each.pattern)
        if describes is None or not patterns:
            return group
        topics = self._topics.partition_counts()
        resolved = patterns, frozenset(topics), int(self._clock() / _RESOLVED_S)
        if resolved == group.resolved:
            return group
        found = frozenset[str]().union(*(_matching(each, topics) for each in patterns))
        return replace(group, hidden=frozenset(each for each in found if not describes(each)), resolved=resolved)

    @staticmethod
    def _aimed(group: ConsumerGroup) -> ConsumerGroup:
        """Return a group with the target of its epoch."""
        seen = group.seen.keys() - group.hidden
        by_pattern = {each.pattern: _matching(each.pattern, seen) for each in group.members.values()}
        members = {
            name: Subscriber(
                (member.topics & group.seen.keys()) | by_pattern[member.pattern],
                group.target.get(name, frozenset()),
            )
            for name, member in group.members.items()
        }
        target = {name: frozenset(places) for name, places in ASSIGNORS[group.assignor](members, group.seen).items()}
        kept = {name: group.target[name] if group.target.get(name) == each else each for name, each in target.items()}
        return replace(group, target=kept, target_epoch=group.epoch)

    def _reconciled(
        self, group: ConsumerGroup, member: ConsumerMember, owned: frozenset[Place] | None
    ) -> ConsumerMember:
        """Return a member a step nearer to its target (`CurrentAssignmentBuilder.build`)."""
        if member.state is MemberState.STABLE and member.epoch == group.target_epoch:
            return member
        if member.state is MemberState.UNREVOKED and (owned is None or owned & member.revoking):
            return member
        target = group.target.get(member.member_id, frozenset())
        kept, lost, wanted = member.assigned & target, member.assigned - target, target - member.assigned
        others = (each.held for each in group.members.values() if each.member_id != member.member_id)
        free = wanted.difference(*others)
        if lost and (owned is None or owned & lost):
            until_s = self._clock() + member.rebalance_s
            return replace(member, state=MemberState.UNREVOKED, assigned=kept, revoking=lost, revoke_until_s=until_s)
        has_reached = member.epoch == group.target_epoch
        return replace(
            member,
            state=MemberState.UNRELEASED if wanted - free else MemberState.STABLE,
            assigned=kept | free,
            revoking=frozenset(),
            revoke_until_s=None,
            previous_epoch=member.previous_epoch if has_reached else member.epoch,
            epoch=group.target_epoch,
        )

    # --- the end of members -------------------------------------------------------------------------------------------
    def _leave(self, beat: Heartbeat) -> HeartbeatAnswer:
        group = self._groups.get(beat.group_id)
        member = None if group is None else group.members.get(beat.member_id)
        if group is None or member is None:
            return HeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID)
        if beat.instance_id is not None and member.instance_id != beat.instance_id:
            return HeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID)
        if beat.epoch == PAUSES:  # its partitions are kept for it until its session ends
            paused = replace(member, previous_epoch=member.epoch, epoch=PAUSES)
            after = replace(group, members={**group.members, member.member_id: paused})
        else:
            after = _without(group, [member])
        code = ErrorCode.NONE if self._change(group, after) else ErrorCode.NOT_COORDINATOR
        return HeartbeatAnswer(code, beat.member_id, beat.epoch)

    def expire(self) -> None:
        """Remove members whose session is over, or that do not give up what they must. A timer calls this."""
        with self._lock:
            now_s = self._clock()
            for group in list(self._groups.values()):
                gone = [
                    member
                    for member in group.members.values()
                    if now_s >= member.deadline_s
                    or (member.revoke_until_s is not None and now_s >= member.revoke_until_s)
                ]
                if gone:
                    self._change(group, _without(group, gone))  # if it cannot be written now, then at the next call

    # --- what others ask ----------------------------------------------------------------------------------------------
    def check_commit(
        self, group_id: str, member_id: str, epoch: int, *, version: int | None = None
    ) -> ErrorCode | None:
        """Return whether a commit is that of a member (`ConsumerGroup.validateOffsetCommit`); None: no such group.

        version: of OffsetCommit; None: the commit is part of a transaction.
        """
        group = self.group(group_id)
        if group is None:
            return None
        if epoch < 0 and (not group.members or (version is None and not member_id)):
            return ErrorCode.NONE
        member = group.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if version is not None and version < _COMMITS_OF_MEMBERS:
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.epoch:
            return ErrorCode.NONE
        return ErrorCode.ILLEGAL_GENERATION if version is None else ErrorCode.STALE_MEMBER_EPOCH

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Return whether offsets are fetched by a member, or by none (`ConsumerGroup.validateOffsetFetch`)."""
        group = self.group(group_id)
        if group is None or (member_id is None and epoch < 0):
            return ErrorCode.NONE
        member = group.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def subscribed_topics(self, group_id: str) -> frozenset[str]:
        """Return the topics that members of a group read."""
        group = self.group(group_id)
        if group is None:
            return frozenset()
        return frozenset(self._counts_of(group)).union(*(each.topics for each in group.members.values()))

    def groups(self) -> dict[str, ConsumerGroupState]:
        """Return the state of each group."""
        with self._lock:
            groups = list(self._groups.values())
        return {each.group_id: each.state for each in groups}

    def group(self, group_id: str) -> ConsumerGroup | None:
        """Return a group; None: there is none."""
        with self._lock:
            return self._groups.get(group_id)

    def has_members(self, group_id: str) -> bool:
        """Return whether a group has members."""
        group = self.group(group_id)
        return group is not None and bool(group.members)

    def forget(self, group_id: str) -> None:
        """Delete a group without members, if there is one. Raises KafkalogError if that cannot be written."""
        with self._lock:
            group = self._groups.get(group_id)
            if group is None or group.members:
                return
            if self._save is not None:
                self._save(group, None)
            del self._groups[group_id]


def _wishes(member: ConsumerMember) -> tuple[object, ...]:
    """Return what the assignment may depend on."""
    return member.topics, member.pattern, member.assignor


def _noted(member: ConsumerMember, beat: Heartbeat) -> ConsumerMember:
    """Return a member with what a heartbeat says."""
    return replace(
        member,
        topics=member.topics if beat.topics is None else beat.topics,
        pattern=member.pattern if beat.pattern is None else beat.pattern,
        assignor=beat.assignor or member.assignor,
        rack_id=beat.rack_id or member.rack_id,
        rebalance_s=beat.rebalance_ms / 1000 if beat.rebalance_ms > 0 else member.rebalance_s,
    )


def _without(group: ConsumerGroup, gone: Iterable[ConsumerMember]) -> ConsumerGroup:
    """Return a group without some of its members."""
    names = {each.member_id for each in gone}
    return replace(
        group,
        members={name: each for name, each in group.members.items() if name not in names},
        target={name: each for name, each in group.target.items() if name not in names},
        epoch=group.epoch + 1,
    )


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Callable[[str], object]:
    """Return what matches a regular expression as brokers do (RE2: in time linear in the name).

    Raises re2.error and UnicodeError.
    """
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_BYTES
    fullmatch: Callable[[str], object] = re2.compile(pattern, options=options).fullmatch
    return fullmatch


def _matching(pattern: str, topics: Iterable[str]) -> frozenset[str]:
    """Return the topics whose whole name matches; an empty pattern matches none."""
    if not pattern:
        return frozenset()
    matches = _compiled(pattern)
    return frozenset(topic for topic in topics if matches(topic))


def _is_late(member: ConsumerMember, beat: Heartbeat) -> bool:
    """Return whether a member has not got the answer that raised its epoch, and may go on."""
    return 0 < beat.epoch == member.previous_epoch and beat.owned is not None and beat.owned <= member.assigned


def _problem_of_join(beat: Heartbeat) -> str | None:
    if beat.rebalance_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if beat.owned is None or beat.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if beat.topics is None and beat.pattern is None:
        return "SubscribedTopicNames or SubscribedTopicRegex must be set in first request."
    return None


def problem_of(beat: Heartbeat) -> HeartbeatAnswer | None:
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
        _compiled(beat.pattern or "")
    except (re2.error, UnicodeError) as error:
        return HeartbeatAnswer(ErrorCode.INVALID_REGULAR_EXPRESSION, message=str(error))
    return None
