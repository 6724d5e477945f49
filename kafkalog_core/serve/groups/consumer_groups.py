"""Consumer groups of KIP-848: the broker assigns, and members move to their target at heartbeats.

This follows `ConsumerGroup`, `GroupMetadataManager.consumerGroupHeartbeat` and `CurrentAssignmentBuilder` of Kafka
4.3. A member first gives up what it loses, then gets what nobody else has any more.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import KafkalogError
from kafkalog_core.serve.groups.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Subscriber
from kafkalog_core.serve.groups.group_members import GroupState
from kafkalog_core.serve.groups.modern_groups import (
    JOINS,
    HeartbeatAnswer,
    MemberState,
    ModernGroup,
    ModernGroups,
    ModernLimits,
)
from kafkalog_core.serve.network.patterns import PatternError, compiled
from kafkalog_core.structs import field, replace
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from threading import RLock

    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.serve.groups.modern_groups import Heartbeat, ModernMember
    from kafkalog_core.serve.logs.partition_access import KnownTopics

__all__ = ["ConsumerGroup", "ConsumerGroups"]

PAUSES: Final = -2
"""The epoch by which a static member leaves for a while (KIP-345)."""
_RESOLVED_S: Final = 600  # GroupMetadataManager.REGEX_BATCH_REFRESH_MAX_INTERVAL_MS
_COMMITS_OF_MEMBERS: Final = 9  # OffsetCommit since this version


class ConsumerGroup(ModernGroup, frozen=True):
    """A group; `seen`: the topics that its target was made of.

    `patterns`: regular expressions whose topics are in the log, stored by another broker. `hidden`: topics that no
    regular expression matches, because they may not be described; `resolved`: what that was found for.
    """

    seen: Mapping[str, int] = field(default_factory=dict)
    patterns: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    resolved: tuple[object, ...] = ()

    @property
    def state(self) -> GroupState:
        """The state that clients see."""
        if not self.members:
            return GroupState.EMPTY
        is_stable = self.epoch == self.target_epoch and all(
            member.state is MemberState.STABLE and member.epoch == self.target_epoch for member in self.members.values()
        )
        return GroupState.STABLE if is_stable else GroupState.RECONCILING

    @property
    def assignor(self) -> str:
        """The assignor that most members prefer."""
        preferred = [member.subscription.assignor for member in self.members.values()]
        votes = Counter(each for each in preferred if each is not None)
        return votes.most_common(1)[0][0] if votes else DEFAULT_ASSIGNOR

    @property
    def subscribed(self) -> frozenset[str]:
        """The topics that any member names."""
        return frozenset[str]().union(*{each.subscription.topics for each in self.members.values()})

    @property
    def expressions(self) -> frozenset[str]:
        """The regular expressions of members."""
        return frozenset(each.subscription.pattern for each in self.members.values() if each.subscription.pattern)


class ConsumerGroups(ModernGroups[ConsumerGroup]):
    """All groups of this protocol. Thread-safe."""

    def __init__(
        self,
        topics: KnownTopics,
        clock: Callable[[], float],
        new_member_id: Callable[[str], str],
        limits_of: Callable[[str], ModernLimits] | None = None,
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
            save: see ModernGroups.
            lock: see ModernGroups.
        """
        super().__init__(ConsumerGroup, clock, limits_of or (lambda _: ModernLimits()), save, lock)
        self._topics = topics
        self._new_member_id = new_member_id

    # --- heartbeats ---------------------------------------------------------------------------------------------------
    @staticmethod
    def problem_of(beat: Heartbeat) -> HeartbeatAnswer | None:
        """See ModernGroups (`throwIfConsumerGroupHeartbeatRequestIsInvalid`)."""
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
        # RE2/J in a broker: its syntax decides which expressions are valid.
        try:
            compiled(beat.pattern or "")
        except PatternError as error:
            return HeartbeatAnswer(ErrorCode.INVALID_REGULAR_EXPRESSION, message=str(error))
        return None

    def _member(
        self, group: ConsumerGroup, beat: Heartbeat
    ) -> tuple[ConsumerGroup, ModernMember, bool] | HeartbeatAnswer:
        """See ModernGroups: a static member may come back under another id, and clients may leave the id to us."""
        former = None
        if beat.instance_id is not None:
            members = group.members.values()
            former = next((each for each in members if each.subscription.instance_id == beat.instance_id), None)
        if former is not None and former.member_id != beat.member_id:
            return self._replaced(group, former, beat)
        member_id = beat.member_id or self._new_member_id(beat.client_id)
        return super()._member(group, beat._replace(member_id=member_id))

    def _replaced(
        self, group: ConsumerGroup, former: ModernMember, beat: Heartbeat
    ) -> tuple[ConsumerGroup, ModernMember, bool] | HeartbeatAnswer:
        """Let a static member come back under a new id, if its former self has left for a while."""
        if beat.epoch != JOINS:
            return HeartbeatAnswer(ErrorCode.FENCED_INSTANCE_ID)
        # UNRELEASED_INSTANCE_ID: two processes with one instance id would take turns.
        if former.epoch != PAUSES:
            message = f"Static member {beat.instance_id} is still in the group."
            return HeartbeatAnswer(ErrorCode.UNRELEASED_INSTANCE_ID, message=message)
        member_id = beat.member_id or self._new_member_id(beat.client_id)
        subscription = replace(former.subscription, client_id=beat.client_id, client_host=beat.client_host)
        member = replace(
            former, member_id=member_id, subscription=subscription, epoch=former.previous_epoch, previous_epoch=0
        )
        members = {name: each for name, each in group.members.items() if each is not former} | {member_id: member}
        target = {member_id if name == former.member_id else name: each for name, each in group.target.items()}
        return replace(group, members=members, target=target), member, False

    @staticmethod
    def _is_late(member: ModernMember, beat: Heartbeat) -> bool:
        """See ModernGroups: it must not have more than it is known to have."""
        return 0 < beat.epoch == member.previous_epoch and beat.owned is not None and beat.owned <= member.assigned

    @staticmethod
    def _is_full(beat: Heartbeat) -> bool:
        """See ModernGroups."""
        has_topics = beat.topics is not None or beat.pattern is not None
        return beat.epoch == JOINS or (beat.rebalance_ms != -1 and has_topics and beat.owned is not None)

    # --- topics -------------------------------------------------------------------------------------------------------
    def _with_topics(self, group: ConsumerGroup, beat: Heartbeat) -> tuple[ConsumerGroup, bool]:
        """See ModernGroups."""
        group = self._resolved(group, beat)
        counts = self._counts_of(group)
        return replace(group, seen=counts), counts != group.seen

    def _counts_of(self, group: ConsumerGroup) -> Mapping[str, int]:
        """Return the partitions of the topics that any member reads."""
        counts = self._topics.partition_counts()
        by_pattern = (_matching(pattern, counts) - group.hidden for pattern in group.expressions)
        return {topic: counts[topic] for topic in (group.subscribed & counts.keys()).union(*by_pattern)}

    def _resolved(self, group: ConsumerGroup, beat: Heartbeat) -> ConsumerGroup:
        """Return a group whose regular expressions match no topic that the member may not describe.

        As on a broker, that holds for the whole group until topics or regular expressions change, or for ten minutes
        (`GroupMetadataManager.maybeUpdateRegularExpressions`, `TopicRegexResolver`).
        """
        describes, patterns = beat.describes, group.expressions
        if describes is None or not patterns:
            return group
        # Once for the whole group: a heartbeat must not match every topic name against every expression.
        topics = self._topics.partition_counts()
        resolved = patterns, frozenset(topics), int(self._clock() / _RESOLVED_S)
        if resolved == group.resolved:
            return group
        found = frozenset[str]().union(*(_matching(each, topics) for each in patterns))
        return replace(group, hidden=frozenset(each for each in found if not describes(each)), resolved=resolved)

    # --- targets ------------------------------------------------------------------------------------------------------
    @staticmethod
    def _assignment(group: ConsumerGroup) -> Mapping[str, set[TopicPartition]]:
        """See ModernGroups."""
        seen = group.seen.keys() - group.hidden
        by_pattern = {pattern: _matching(pattern, seen) for pattern in {"", *group.expressions}}
        members = {
            name: Subscriber(
                (member.subscription.topics & group.seen.keys()) | by_pattern[member.subscription.pattern],
                group.target.get(name, frozenset()),
            )
            for name, member in group.members.items()
        }
        return ASSIGNORS[group.assignor](members, group.seen)

    def _reconciled(self, group: ConsumerGroup, member: ModernMember, beat: Heartbeat) -> ModernMember:
        """See ModernGroups (`CurrentAssignmentBuilder.build`)."""
        owned = beat.owned
        # Nothing to do until the target changes.
        if member.state is MemberState.STABLE and member.epoch == group.target_epoch:
            return member
        # The member has not given up its partitions yet, and nothing moves before (CurrentAssignmentBuilder.build).
        if member.state is MemberState.UNREVOKED and (owned is None or owned & member.revoking):
            return member
        target = group.target.get(member.member_id, frozenset())
        kept, lost, wanted = member.assigned & target, member.assigned - target, target - member.assigned
        others = (each.held for each in group.members.values() if each.member_id != member.member_id)
        # Only what no other member holds, also while it gives it up.
        free = wanted.difference(*others)
        if lost and (owned is None or owned & lost):
            until_s = self._clock() + member.rebalance_s
            return replace(member, state=MemberState.UNREVOKED, assigned=kept, revoking=lost, revoke_until_s=until_s)
        return replace(
            member.reached(group.target_epoch, kept | free),
            state=MemberState.UNRELEASED if wanted - free else MemberState.STABLE,
            revoking=frozenset(),
            revoke_until_s=None,
        )

    # --- the end of members -------------------------------------------------------------------------------------------
    def _leave(self, beat: Heartbeat) -> HeartbeatAnswer:
        """See ModernGroups."""
        group = self._groups.get(beat.group_id)
        member = None if group is None else group.members.get(beat.member_id)
        if group is None or member is None:
            return HeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID)
        if beat.instance_id is not None and member.subscription.instance_id != beat.instance_id:
            return HeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID)
        # Its partitions are kept for it until its session ends
        if beat.epoch == PAUSES:
            after = group.with_member(replace(member, previous_epoch=member.epoch, epoch=PAUSES))
        else:
            after = group.without([member.member_id])
        try:
            self._change(group, after)
        except (KafkalogError, OSError):
            return HeartbeatAnswer(ErrorCode.NOT_COORDINATOR, beat.member_id, beat.epoch)
        return HeartbeatAnswer(ErrorCode.NONE, beat.member_id, beat.epoch)

    def forget(self, group_id: str) -> None:
        """Delete a group without members, if there is one. Raises KafkalogError if that cannot be written."""
        with self._lock:
            group = self._groups.get(group_id)
            if group is not None and not group.members:
                self._delete(group)

    # --- what others ask ----------------------------------------------------------------------------------------------
    def check_commit(
        self, group_id: str, member_id: str, epoch: int, *, version: int | None = None
    ) -> ErrorCode | None:
        """Return whether a member may commit (`ConsumerGroup.validateOffsetCommit`); None: no such group.

        version: of OffsetCommit; None: the commit is part of a transaction.
        """
        group = self.group(group_id)
        if group is None:
            return None
        # A consumer without a group may commit while the group is empty (ConsumerGroup.validateOffsetCommit).
        if epoch < 0 and (not group.members or (version is None and not member_id)):
            return ErrorCode.NONE
        member = group.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        # Earlier versions of OffsetCommit cannot carry STALE_MEMBER_EPOCH.
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
        return frozenset() if group is None else group.subscribed.union(self._counts_of(group))


def _matching(pattern: str, topics: Iterable[str]) -> frozenset[str]:
    """Return the topics whose whole name matches; an empty pattern matches none."""
    if not pattern:
        return frozenset()
    matches = compiled(pattern)
    return frozenset(topic for topic in topics if matches(topic))


def _problem_of_join(beat: Heartbeat) -> str | None:
    if beat.rebalance_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if beat.owned is None or beat.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if beat.topics is None and beat.pattern is None:
        return "SubscribedTopicNames or SubscribedTopicRegex must be set in first request."
    return None
