"""Share groups: their members, and which partitions each of them reads (KIP-932).

The rules are those of `ShareGroup`, `GroupMetadataManager.shareGroupHeartbeat` and `ShareGroupAssignmentBuilder` of
Kafka 4.3. A member has its target at once, because members may read the same partition. A partition is assigned once it
has a state in the share coordinator. Groups are values: each change makes a new one, which counts once it is written.
Time is an argument.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kafkalog_core.broker.groups.assignors import Place, Subscriber, share_assignment
from kafkalog_core.broker.logs.partition_access import TopicIds
from kafkalog_core.broker.network.disk_threads import leave_network
from kafkalog_core.errors import KafkalogError
from kafkalog_core.topics.share_group_records import SharedTopics, TopicNumbers
from kafkalog_core.topics.share_state_records import ShareKey
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalog_core.broker.groups.group_configs import GroupConfigs
    from kafkalog_core.broker.share.share_states import ShareStates

__all__ = ["ShareGroup", "ShareGroups", "ShareHeartbeat", "ShareHeartbeatAnswer", "ShareMember", "SharedTopicIds"]

JOINS: Final = 0
LEAVES: Final = -1
_MAX_MEMBERS: Final = 200  # group.share.max.size


class ShareGroupState(StrEnum):
    """The states of a group, as clients see them."""

    EMPTY = "Empty"
    STABLE = "Stable"


class SharedTopicIds(TopicIds, Protocol):
    """The topics that exist, with the numbers of their partitions."""

    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of each topic, Kafka's own among them."""


class ShareHeartbeat(NamedTuple):
    """A ShareGroupHeartbeat; None: the member says nothing new about it."""

    group_id: str
    member_id: str
    epoch: int
    client_id: str
    client_host: str
    rack_id: str | None = None
    topics: frozenset[str] | None = None


class ShareHeartbeatAnswer(NamedTuple):
    """What a member gets; `assignment` None: it is as before."""

    code: ErrorCode
    member_id: str = ""
    epoch: int = 0
    assignment: frozenset[Place] | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member: what it wants, and what it has."""

    member_id: str
    client_id: str
    client_host: str
    rack_id: str | None = None
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = 0
    assigned: frozenset[Place] = frozenset()
    deadline_s: float = 0.0


_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ShareGroup:
    """A group; `target`: of each member, made for `target_epoch`; `topics`: the partitions that have a state."""

    group_id: str
    epoch: int = 0
    target_epoch: int = 0
    members: Mapping[str, ShareMember] = field(default_factory=lambda: _NONE)
    target: Mapping[str, frozenset[Place]] = field(default_factory=lambda: _NONE)
    topics: SharedTopics = field(default_factory=SharedTopics)

    @property
    def state(self) -> ShareGroupState:
        """The state that clients see."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY


class ShareGroups:
    """All share groups. Thread-safe."""

    def __init__(
        self,
        topics: SharedTopicIds,
        clock: Callable[[], float],
        states: ShareStates,
        configs: GroupConfigs,
        save: Callable[[ShareGroup, ShareGroup | None], None],
    ) -> None:
        """Begin without groups.

        Args:
            topics: what can be assigned.
            clock: monotonic seconds.
            states: where states of partitions begin and end.
            configs: settings by group.
            save: writes how a group changes; None as its second argument deletes it. It raises KafkalogError if that
                fails: the change has not happened then.
        """
        self._topics = topics
        self._clock = clock
        self._states = states
        self.configs = configs
        self._save = save
        self._groups: dict[str, ShareGroup] = {}
        self._lock = threading.RLock()

    def load(self, group: ShareGroup) -> None:
        """Take a group that the log holds: its members have a session from now on."""
        deadline_s = self._deadline_s(group.group_id)
        members = {name: replace(each, deadline_s=deadline_s) for name, each in group.members.items()}
        with self._lock:
            self._groups[group.group_id] = replace(group, members=members)

    def _deadline_s(self, group_id: str) -> float:
        return self._clock() + self.configs.number(group_id, "share.session.timeout.ms") / 1000

    def _change(self, before: ShareGroup | None, after: ShareGroup) -> None:
        """Write a change, then let it count. Raises KafkalogError."""
        self._save(before or ShareGroup(after.group_id), after)
        self._groups[after.group_id] = after

    # --- heartbeats ---------------------------------------------------------------------------------------------------
    def heartbeat(self, beat: ShareHeartbeat) -> ShareHeartbeatAnswer:
        """Answer a heartbeat."""
        problem = _problem_of(beat)
        if problem is not None:
            return ShareHeartbeatAnswer(ErrorCode.INVALID_REQUEST, message=problem)
        with self._lock:
            try:
                return self._leave(beat) if beat.epoch == LEAVES else self._beat(beat)
            except (KafkalogError, OSError):
                return ShareHeartbeatAnswer(ErrorCode.NOT_COORDINATOR)

    def _beat(self, beat: ShareHeartbeat) -> ShareHeartbeatAnswer:
        known = self._groups.get(beat.group_id)
        if known is None and beat.epoch != JOINS:
            return ShareHeartbeatAnswer(ErrorCode.GROUP_ID_NOT_FOUND, message=f"Share group {beat.group_id} not found.")
        group = known or ShareGroup(beat.group_id)
        former = group.members.get(beat.member_id)
        problem = _problem_of_member(group, former, beat)
        if problem is not None:
            return problem
        member = former or ShareMember(beat.member_id, beat.client_id, beat.client_host)
        noted = replace(
            member,
            client_id=beat.client_id,
            client_host=beat.client_host,
            rack_id=beat.rack_id or member.rack_id,
            topics=member.topics if beat.topics is None else beat.topics,
        )
        group = replace(group, members={**group.members, noted.member_id: noted})
        initialized = self._initialized(group)
        if former is None or noted.topics != member.topics or initialized != group.topics:
            group = replace(group, epoch=group.epoch + 1, topics=initialized)
        if group.target_epoch < group.epoch:
            group = self._aimed(group)
        moved = self._at_target(group, noted)
        group = replace(group, members={**group.members, moved.member_id: moved})
        self._change(known, group)
        is_full = beat.epoch == JOINS or beat.topics is not None or moved.assigned != member.assigned
        return ShareHeartbeatAnswer(ErrorCode.NONE, moved.member_id, moved.epoch, moved.assigned if is_full else None)

    def _at_target(self, group: ShareGroup, member: ShareMember) -> ShareMember:
        has_reached = member.epoch == group.target_epoch
        return replace(
            member,
            epoch=group.target_epoch,
            previous_epoch=member.previous_epoch if has_reached else member.epoch,
            assigned=frozenset(place for place in group.target[member.member_id] if place[0] in member.topics),
            deadline_s=self._deadline_s(group.group_id),
        )

    def _initialized(self, group: ShareGroup) -> SharedTopics:
        """Give every partition that a member reads a state, and forget topics that are gone.

        `GroupMetadataManager.subscribedTopicsChangeMap`, `maybeCleanupShareGroupState`. A broker first writes what it
        is about to initialize, because its share coordinator may be another one.
        """
        counts = self._topics.partition_counts()
        kept = {
            topic_id: each
            for topic_id, each in group.topics.initialized.items()
            if self._topics.topic_name(topic_id) is not None
        }
        for topic in sorted(frozenset[str]().union(*(each.topics for each in group.members.values())) & counts.keys()):
            topic_id = self._topics.topic_id(topic)
            if topic_id is None:
                continue
            present = kept[topic_id].numbers if topic_id in kept else ()
            if len(present) >= counts[topic]:
                continue
            leave_network()  # the first state creates the topic of states, and finalizes share.version
            for number in set(range(counts[topic])) - set(present):
                key = ShareKey(group.group_id, topic_id, number)
                self._states.initialize(key, state_epoch=group.epoch + 1, start=-1)
            kept[topic_id] = TopicNumbers(topic, tuple(range(counts[topic])))
        return SharedTopics(initialized=kept)

    def _aimed(self, group: ShareGroup) -> ShareGroup:
        """Return a group with the target of its epoch."""
        members = {
            name: Subscriber(member.topics, group.target.get(name, frozenset()))
            for name, member in group.members.items()
        }
        places = [(each.name, number) for each in group.topics.initialized.values() for number in each.numbers]
        target = {name: frozenset(taken) for name, taken in share_assignment(members, places).items()}
        kept = {name: group.target[name] if group.target.get(name) == each else each for name, each in target.items()}
        return replace(group, target=kept, target_epoch=group.epoch)

    # --- the end of members -------------------------------------------------------------------------------------------
    def _leave(self, beat: ShareHeartbeat) -> ShareHeartbeatAnswer:
        group = self._groups.get(beat.group_id)
        if group is None:
            return ShareHeartbeatAnswer(ErrorCode.GROUP_ID_NOT_FOUND, message=f"Group {beat.group_id} not found.")
        if beat.member_id not in group.members:
            return _unknown_member(group, beat)
        self._change(group, _without(group, {beat.member_id}))
        return ShareHeartbeatAnswer(ErrorCode.NONE, beat.member_id, beat.epoch)

    def expire(self) -> None:
        """Remove members whose session is over. A timer calls this."""
        with self._lock:
            now_s = self._clock()
            for group in list(self._groups.values()):
                gone = {name for name, member in group.members.items() if now_s >= member.deadline_s}
                if gone:
                    with suppress(KafkalogError, OSError):  # if it cannot be written now, then at the next call
                        self._change(group, _without(group, gone))

    # --- what others ask ----------------------------------------------------------------------------------------------
    def group(self, group_id: str) -> ShareGroup | None:
        """Return a group; None: there is none."""
        with self._lock:
            return self._groups.get(group_id)

    def groups(self) -> dict[str, ShareGroupState]:
        """Return the state of each group."""
        with self._lock:
            groups = list(self._groups.values())
        return {each.group_id: each.state for each in groups}

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
            self._states.delete(self._states.keys_of(group_id))
            self._save(group, None)
            del self._groups[group_id]
            return ErrorCode.NONE


def _without(group: ShareGroup, gone: Iterable[str]) -> ShareGroup:
    """Return a group without some of its members."""
    names = set(gone)
    return replace(
        group,
        members={name: each for name, each in group.members.items() if name not in names},
        target={name: each for name, each in group.target.items() if name not in names},
        epoch=group.epoch + 1,
    )


def _unknown_member(group: ShareGroup, beat: ShareHeartbeat) -> ShareHeartbeatAnswer:
    message = f"Member {beat.member_id} is not a member of group {group.group_id}."
    return ShareHeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID, message=message)


def _problem_of_member(
    group: ShareGroup, member: ShareMember | None, beat: ShareHeartbeat
) -> ShareHeartbeatAnswer | None:
    """Return why a member may not send this heartbeat (`throwIfShareGroupMemberEpochIsInvalid`); None: it may."""
    if member is None and beat.epoch != JOINS:
        return _unknown_member(group, beat)
    if member is None and len(group.members) >= _MAX_MEMBERS:
        message = f"The share group has reached its maximum capacity of {_MAX_MEMBERS} members."
        return ShareHeartbeatAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED, message=message)
    if member is None or beat.epoch in {JOINS, member.epoch, member.previous_epoch}:
        return None
    message = f"The member's epoch is {member.epoch}, not {beat.epoch}: it must abandon its partitions and join again."
    return ShareHeartbeatAnswer(ErrorCode.FENCED_MEMBER_EPOCH, message=message)


def _problem_of(beat: ShareHeartbeat) -> str | None:
    """Return why a heartbeat is not valid (`throwIfShareGroupHeartbeatRequestIsInvalid`); None: it is."""
    if not beat.member_id.strip():
        return "MemberId can't be empty."
    if not beat.group_id.strip():
        return "GroupId can't be empty."
    if beat.rack_id is not None and not beat.rack_id.strip():
        return "RackId can't be empty."
    if beat.epoch == JOINS and not beat.topics:
        return "SubscribedTopicNames must be set in first request."
    if beat.epoch < LEAVES:
        return "MemberEpoch is invalid."
    return None
