"""Share groups: their members, and which partitions each of them reads (KIP-932).

The rules follow `ShareGroup`, `GroupMetadataManager.shareGroupHeartbeat` and `ShareGroupAssignmentBuilder` of
Kafka 4.3. A member has its target at once, because members may read the same partition. A partition is assigned once it
has a state in the share coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from kafkalog_core.serve.groups.assignors import Subscriber, share_assignment
from kafkalog_core.serve.groups.modern_groups import (
    JOINS,
    LEAVES,
    HeartbeatAnswer,
    ModernGroup,
    ModernGroups,
    unknown_member,
)
from kafkalog_core.structs import field, replace
from kafkalog_core.topics.modern_group_records import SharedTopics, TopicNumbers
from kafkalog_core.topics.share_state_records import ShareKey
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.serve.groups.modern_groups import Heartbeat, ModernLimits, ModernMember
    from kafkalog_core.serve.logs.partition_access import KnownTopics
    from kafkalog_core.topics.modern_group_records import MemberSubscription

__all__ = ["ShareGroup", "ShareGroups"]


class PartitionStates(Protocol):
    """Where states of partitions begin and end: see `livebroker.share.share_states.ShareStates`."""

    def keys_of(self, group: str, /) -> list[ShareKey]:
        """Return the partitions of a group that have a state."""

    def initialize(self, key: ShareKey, /, *, state_epoch: int, start: int) -> None:
        """Give a partition a new state. Raises KafkalogError."""

    def delete(self, keys: Iterable[ShareKey], /) -> None:
        """Delete states. Raises KafkalogError."""

    def forget_topic(self, topic_id: bytes, /) -> None:
        """Delete the states of a topic that was deleted. Raises KafkalogError."""


class ShareGroup(ModernGroup, frozen=True):
    """A group; `topics`: the partitions that have a state."""

    topics: SharedTopics = field(default_factory=SharedTopics)

    @property
    def assignor(self) -> str:
        """The one assignor of share groups."""
        return "simple"


class ShareGroups(ModernGroups[ShareGroup]):
    """All share groups. Thread-safe."""

    not_found: ClassVar[str] = "Share group {} not found."
    full: ClassVar[str | None] = "The share group has reached its maximum capacity of {} members."
    fenced: ClassVar[str] = "The member's epoch is {}, not {}: it must abandon its partitions and join again."

    def __init__(
        self,
        topics: KnownTopics,
        clock: Callable[[], float],
        states: PartitionStates,
        limits_of: Callable[[str], ModernLimits],
        save: Callable[[ShareGroup, ShareGroup | None], None],
    ) -> None:
        """Begin without groups.

        Args:
            topics: what can be assigned.
            clock: monotonic seconds.
            states: where states of partitions begin and end.
            limits_of: returns the bounds of a group by its name.
            save: see ModernGroups.
        """
        super().__init__(ShareGroup, clock, limits_of, save)
        self._topics = topics
        self._states = states

    # --- heartbeats ---------------------------------------------------------------------------------------------------
    @staticmethod
    def problem_of(beat: Heartbeat) -> HeartbeatAnswer | None:
        """See ModernGroups (`throwIfShareGroupHeartbeatRequestIsInvalid`)."""
        problem = None
        if not beat.member_id.strip():
            problem = "MemberId can't be empty."
        elif not beat.group_id.strip():
            problem = "GroupId can't be empty."
        elif beat.rack_id is not None and not beat.rack_id.strip():
            problem = "RackId can't be empty."
        elif beat.epoch == JOINS and not beat.topics:
            problem = "SubscribedTopicNames must be set in first request."
        elif beat.epoch < LEAVES:
            problem = "MemberEpoch is invalid."
        return None if problem is None else HeartbeatAnswer(ErrorCode.INVALID_REQUEST, message=problem)

    @staticmethod
    def _is_late(member: ModernMember, beat: Heartbeat) -> bool:
        """See ModernGroups (`throwIfShareGroupMemberEpochIsInvalid`)."""
        return beat.epoch == member.previous_epoch

    @classmethod
    def _noted(cls, subscription: MemberSubscription, beat: Heartbeat) -> MemberSubscription:
        """See ModernGroups: a member may come back from elsewhere."""
        noted = super()._noted(subscription, beat)
        return replace(noted, client_id=beat.client_id, client_host=beat.client_host)

    @staticmethod
    def _is_full(beat: Heartbeat) -> bool:
        """See ModernGroups."""
        return beat.epoch == JOINS or beat.topics is not None

    def _leave(self, beat: Heartbeat) -> HeartbeatAnswer:
        """See ModernGroups."""
        group = self._groups.get(beat.group_id)
        if group is None:
            return HeartbeatAnswer(ErrorCode.GROUP_ID_NOT_FOUND, message=f"Group {beat.group_id} not found.")
        if beat.member_id not in group.members:
            return unknown_member(beat)
        self._change(group, group.without([beat.member_id]))
        return HeartbeatAnswer(ErrorCode.NONE, beat.member_id, beat.epoch)

    # --- targets ------------------------------------------------------------------------------------------------------
    def _with_topics(self, group: ShareGroup, beat: Heartbeat) -> tuple[ShareGroup, bool]:
        """See ModernGroups."""
        del beat
        initialized = self._initialized(group)
        return replace(group, topics=initialized), initialized != group.topics

    def _initialized(self, group: ShareGroup) -> SharedTopics:
        """Give every partition that a member reads a state, and forget topics that are gone.

        `GroupMetadataManager.subscribedTopicsChangeMap`, `maybeCleanupShareGroupState`. A broker first writes what it
        is about to initialize, because its share coordinator may be another one.
        """
        counts = self._topics.partition_counts()
        wanted = frozenset[str]().union(*(each.subscription.topics for each in group.members.values()))
        kept = {
            topic_id: each
            for topic_id, each in group.topics.initialized.items()
            if self._topics.topic_name(topic_id) is not None
        }
        for topic in sorted(wanted & counts.keys()):
            topic_id = self._topics.topic_id(topic)
            if topic_id is None:
                continue
            present = kept[topic_id].numbers if topic_id in kept else ()
            # Partitions were added to the topic, or none has a state yet.
            if len(present) >= counts[topic]:
                continue
            for number in set(range(counts[topic])) - set(present):
                key = ShareKey(group.group_id, topic_id, number)
                # -1: the first fetch decides, by share.auto.offset.reset.
                self._states.initialize(key, state_epoch=group.epoch + 1, start=-1)
            kept[topic_id] = TopicNumbers(topic, tuple(range(counts[topic])))
        return SharedTopics(initialized=kept)

    @staticmethod
    def _assignment(group: ShareGroup) -> Mapping[str, set[TopicPartition]]:
        """See ModernGroups."""
        members = {
            name: Subscriber(member.subscription.topics, group.target.get(name, frozenset()))
            for name, member in group.members.items()
        }
        places = [(each.name, number) for each in group.topics.initialized.values() for number in each.numbers]
        return share_assignment(members, places)

    def _reconciled(self, group: ShareGroup, member: ModernMember, beat: Heartbeat) -> ModernMember:
        """See ModernGroups."""
        del beat
        topics = member.subscription.topics
        # A target may be older than the subscription.
        target = group.target[member.member_id]
        return member.reached(group.target_epoch, frozenset(place for place in target if place[0] in topics))

    # --- offsets ------------------------------------------------------------------------------------------------------
    def set_offsets(self, group: ShareGroup, topic: str, offsets: Mapping[int, int]) -> None:
        """Set the start offsets of partitions of a topic for an empty group (`alterShareGroupOffsets`).

        Raises KafkalogError.
        """
        topic_id = self._topics.topic_id(topic)
        if topic_id is None or not offsets:
            return
        with self._lock:
            current = self._groups.get(group.group_id, group)
            for number, offset in offsets.items():
                key = ShareKey(current.group_id, topic_id, number)
                self._states.initialize(key, state_epoch=current.epoch, start=offset)
            known = current.topics.initialized
            numbers = {*offsets, *(known[topic_id].numbers if topic_id in known else ())}
            initialized = {**known, topic_id: TopicNumbers(topic, tuple(sorted(numbers)))}
            self._change(current, replace(current, topics=SharedTopics(initialized=initialized)))

    def delete_offsets(self, group: ShareGroup, topic_id: bytes) -> None:
        """Delete the states of a topic for an empty group. Raises KafkalogError."""
        with self._lock:
            self._states.delete(key for key in self._states.keys_of(group.group_id) if key.topic_id == topic_id)
            current = self._groups[group.group_id]
            rest = {each: names for each, names in current.topics.initialized.items() if each != topic_id}
            self._change(current, replace(current, topics=SharedTopics(initialized=rest)))

    def forget_topics(self) -> None:
        """Forget topics that were deleted. Raises KafkalogError."""
        with self._lock:
            for group in list(self._groups.values()):
                gone = {each for each in group.topics.initialized if self._topics.topic_name(each) is None}
                for topic_id in gone:
                    self._states.forget_topic(topic_id)
                if gone:
                    rest = {each: names for each, names in group.topics.initialized.items() if each not in gone}
                    self._change(group, replace(group, topics=SharedTopics(initialized=rest), epoch=group.epoch + 1))

    def delete(self, group_id: str) -> ErrorCode | None:
        """Delete a group with its states; one with members is refused. None: there is no such group.

        Raises KafkalogError.
        """
        with self._lock:
            group = self._groups.get(group_id)
            if group is None:
                return None
            if group.members:
                return ErrorCode.NON_EMPTY_GROUP
            # States before the group: what is left over after an error can still be found by the group's name.
            self._states.delete(self._states.keys_of(group_id))
            self._delete(group)
            return ErrorCode.NONE
