"""Consumer groups of the classic protocol: who is a member, which generation it is, who reads what.

This follows `ClassicGroup` and `GroupMetadataManager` of Kafka 4.3, whose rules were `GroupCoordinator`'s before.
A group goes from Empty to PreparingRebalance while members join, to CompletingRebalance while the leader assigns, to
Stable. A join or a sync that has to wait is a `PendingAnswer`, so no network thread is held up. Time is an argument.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import KafkalogError
from kafkalog_core.serve.groups.group_members import (
    ClassicGroup,
    GroupLimits,
    GroupState,
    JoinRequest,
    Member,
    MemberIdentity,
    Waiting,
    saved_member,
    topics_of,
)
from kafkalog_core.serve.network.answers import PendingAnswer
from kafkalog_core.topics.group_records import GroupValue
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import RLock

    from kafkalog_core.serve.network.answers import Answer, Reply
    from kafkalog_core.serve.network.requests import Body

__all__ = ["GroupCoordinator", "join_error"]

_MARGIN_S: Final = 5.0
_NAMES_UNKNOWN_GROUPS: Final = 9  # OffsetCommit since this version: GROUP_ID_NOT_FOUND
_NOBODY: Final = MemberIdentity("")
_CONSUMER: Final = "consumer"


class GroupCoordinator:
    """All groups. Thread-safe; answers that wait are completed from the thread that makes them possible.

    Attributes:
        rebalances: number of rebalances since the start.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        clock_ms: Callable[[], int],
        new_member_id: Callable[[str], str],
        limits: GroupLimits | None = None,
        *,
        save: Callable[[str, GroupValue | None], None] | None = None,
        lock: RLock | None = None,
    ) -> None:
        """Begin without groups.

        Args:
            clock: the clock of the network, in seconds.
            clock_ms: time of day, in milliseconds since 1970.
            new_member_id: returns an id that is used once, from the client's id.
            limits: bounds.
            save: writes a group's record, without a value its tombstone; it raises KafkalogError if that fails. None:
                groups are in memory alone.
            lock: of all groups of a broker.
        """
        self._save = save
        self._clock = clock
        self._clock_ms = clock_ms
        self._new_member_id = new_member_id
        self._limits = limits or GroupLimits()
        self._groups: dict[str, ClassicGroup] = {}
        self._lock = lock or threading.RLock()
        self.rebalances = 0

    def load(self, name: str, value: GroupValue) -> None:
        """Take a group that the log holds: its members have a session from now on (`loadGroup`)."""
        with self._lock:
            group = ClassicGroup(name, generation=value.generation, protocol_type=value.protocol_type)
            for each in value.members:
                request = JoinRequest(
                    identity=MemberIdentity(each.member_id, each.instance_id),
                    client_id=each.client_id,
                    client_host=each.client_host,
                    session_s=each.session_ms / 1000,
                    # Version 0 of the record has no rebalance timeout, and the session's counts.
                    rebalance_s=max(each.rebalance_ms, each.session_ms if each.rebalance_ms < 0 else 0) / 1000,
                    protocol_type=value.protocol_type,
                    protocols=((value.protocol or "", each.subscription),),
                    needs_id=True,
                )
                member = Member(request.identity, request, self._clock() + request.session_s, each.assignment)
                group.members[each.member_id] = member
                if each.instance_id is not None:
                    group.static[each.instance_id] = each.member_id
            group.state_ms = value.state_ms
            if group.members:
                group.state, group.protocol, group.leader = GroupState.STABLE, value.protocol, value.leader
            self._groups[name] = group

    def forget(self, name: str) -> None:
        """Delete a group without members, if there is one. Raises KafkalogError if that cannot be written."""
        # A group without members has nobody who could be left without an answer.
        with self._lock:
            group = self._groups.get(name)
            if group is None or group.members:
                return
            if self._save is not None:
                self._save(name, None)
            del self._groups[name]

    def _enter(self, group: ClassicGroup, state: GroupState) -> None:
        group.state, group.state_ms = state, self._clock_ms()

    def _saved(self, group: ClassicGroup, *, is_stable: bool) -> ErrorCode:
        """Write the group's record, as it is once all have their assignment, or without members."""
        if self._save is None:
            return ErrorCode.NONE
        members = group.members.values() if is_stable else ()
        value = GroupValue(
            protocol_type=group.protocol_type,
            generation=group.generation,
            protocol=group.protocol if is_stable else None,
            leader=group.leader if is_stable else None,
            state_ms=group.state_ms,
            members=tuple(saved_member(each, group.protocol or "") for each in members),
        )
        try:
            self._save(group.group_id, value)
        except (KafkalogError, OSError):
            return ErrorCode.NOT_COORDINATOR  # as an append that timed out: clients look for the coordinator again
        return ErrorCode.NONE

    # --- joining ------------------------------------------------------------------------------------------------------
    def join(self, group_id: str, request: JoinRequest, reply: Callable[[Body], Reply]) -> Answer:
        """Answer JoinGroup (`GroupMetadataManager.classicGroupJoin`)."""
        if not group_id:
            return reply(join_error(ErrorCode.INVALID_GROUP_ID, request))
        # group.min.session.timeout.ms and group.max.session.timeout.ms.
        if not self._limits.min_session_s <= request.session_s <= self._limits.max_session_s:
            return reply(join_error(ErrorCode.INVALID_SESSION_TIMEOUT, request))
        with self._lock:
            group = self._groups.get(group_id)
            if group is None:
                # A member id of another broker, or of a time before a restart without a log: the client joins without
                # one.
                if request.identity.member_id:
                    return reply(join_error(ErrorCode.UNKNOWN_MEMBER_ID, request))
                group = self._groups[group_id] = ClassicGroup(group_id, state_ms=self._clock_ms())
            if not self._fits(group, request):
                return reply(join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request))
            return self._join(group, request, reply)

    def _fits(self, group: ClassicGroup, request: JoinRequest) -> bool:
        """Return whether one protocol remains that all members support (`ClassicGroup.supportsProtocols`)."""
        if not request.protocol_type or not request.protocols:
            return False
        others = [member for key, member in group.members.items() if key != request.identity.member_id]
        if not others:
            return True
        common = set.intersection(*(set(member.protocols) for member in others))
        return request.protocol_type == group.protocol_type and not common.isdisjoint(dict(request.protocols))

    def _join(self, group: ClassicGroup, request: JoinRequest, reply: Callable[[Body], Reply]) -> Answer:
        member_id, instance_id = request.identity
        # KIP-345: the instance id names the member, whatever member id it brings.
        if instance_id is not None and instance_id in group.static:
            return self._join_static(group, request, reply)
        if not member_id:
            return self._join_first(group, request, reply)
        # The id was given out before, and waits for this join (KIP-394).
        if group.expected.pop(member_id, None) is not None:
            return self._add(group, member_id, request, reply)
        if member_id not in group.members:
            return reply(join_error(ErrorCode.UNKNOWN_MEMBER_ID, request))
        return self._rejoin(group, group.members[member_id], request, reply)

    def _join_first(self, group: ClassicGroup, request: JoinRequest, reply: Callable[[Body], Reply]) -> Answer:
        """Let a client without a member id join, or give it the id with which it has to join again (KIP-394)."""
        if len(group.members) + len(group.expected) >= self._limits.max_members:
            return reply(join_error(ErrorCode.GROUP_MAX_SIZE_REACHED, request))
        instance_id = request.identity.instance_id
        new_id = self._new_member_id(instance_id or request.client_id)
        if instance_id is None and request.needs_id:
            group.expected[new_id] = self._clock() + request.session_s
            return reply(join_error(ErrorCode.MEMBER_ID_REQUIRED, request) | {"member_id": new_id})
        return self._add(group, new_id, request, reply)

    def _join_static(self, group: ClassicGroup, request: JoinRequest, reply: Callable[[Body], Reply]) -> Answer:
        """Let a static member take over from its former self, whose id is fenced from now on (KIP-345)."""
        member_id, instance_id = request.identity
        known_id = group.static[instance_id or ""]
        if member_id and member_id != known_id:
            return reply(join_error(ErrorCode.FENCED_INSTANCE_ID, request))
        member = group.members[known_id]
        if member_id:
            return self._rejoin(group, member, request, reply)
        new_id = self._new_member_id(instance_id or "")
        former = member.request
        self._rename(group, member, new_id, request)
        # the others go on undisturbed, whatever the member's metadata is, unless they would elect another protocol
        goes_on = group.state is GroupState.STABLE and self._elected(group) == group.protocol
        code = self._saved(group, is_stable=True) if goes_on else ErrorCode.NONE
        if code:
            self._rename(group, member, known_id, former)
            return reply(join_error(code, request))
        for waiting in (member.join, member.sync):
            if waiting is not None:
                body = join_error(ErrorCode.FENCED_INSTANCE_ID, request) | {"assignment": b""}
                waiting.answer.complete(waiting.reply(body | {"member_id": known_id}))
        member.join = member.sync = None
        if goes_on:
            self._touch(member)
            body = self._joined_body(group, member)
            if group.leader != new_id:
                return reply(body)
            # the assignment is as before: the leader makes no other one (KIP-814), an older client not as a follower
            return reply(body | ({"skip_assignment": True} if request.skips else {"leader": known_id, "members": []}))
        return self._rejoin(group, member, request, reply, is_new=True)

    @staticmethod
    def _rename(group: ClassicGroup, member: Member, member_id: str, request: JoinRequest) -> None:
        """Give a static member another id, and what it asks for under it."""
        known_id, instance_id = member.identity
        group.members = {member_id if key == known_id else key: each for key, each in group.members.items()}
        group.static[instance_id or ""] = member_id
        member.identity, member.request = MemberIdentity(member_id, instance_id), request
        if group.leader == known_id:
            group.leader = member_id

    def _add(self, group: ClassicGroup, member_id: str, request: JoinRequest, reply: Callable[[Body], Reply]) -> Answer:
        identity = MemberIdentity(member_id, request.identity.instance_id)
        member = Member(identity, request, self._clock() + request.session_s)
        if not group.members:
            group.protocol_type = request.protocol_type
        # In the order of joining: the first one becomes the leader.
        group.members[member_id] = member
        if identity.instance_id is not None:
            group.static[identity.instance_id] = member_id
        now, delay = self._clock(), self._limits.initial_delay_s
        # While an initial delay runs, each new member extends it, up to the longest rebalance timeout
        # (GroupMetadataManager.tryCompleteInitialRebalanceElseSchedule).
        if group.state is GroupState.PREPARING and group.longest_s:
            group.deadline_s = min(now + delay, group.longest_s)
        return self._rejoin(group, member, request, reply, is_new=True)

    def _rejoin(
        self,
        group: ClassicGroup,
        member: Member,
        request: JoinRequest,
        reply: Callable[[Body], Reply],
        *,
        is_new: bool = False,
    ) -> Answer:
        is_same = not is_new and dict(request.protocols) == member.protocols
        member.request = request
        self._touch(member)
        is_leader = member.identity.member_id == group.leader
        # Nothing has changed for this member: a client that repeats its join gets the answer again.
        if is_same and (group.state is GroupState.COMPLETING or (group.state is GroupState.STABLE and not is_leader)):
            return reply(self._joined_body(group, member))
        waiting_s = request.rebalance_s + request.session_s + _MARGIN_S
        body = join_error(ErrorCode.REBALANCE_IN_PROGRESS, request)
        pending = PendingAnswer(self._clock() + waiting_s, lambda: reply(body))
        # The client has asked again: its former request was lost
        if member.join is not None:
            member.join.answer.complete(member.join.reply(body))
        member.join = Waiting(pending, reply)
        if group.state is not GroupState.PREPARING:
            self._prepare(group)
        self._complete_joins(group)
        return pending

    # --- rebalances ---------------------------------------------------------------------------------------------------
    def _prepare(self, group: ClassicGroup) -> None:
        """Begin a rebalance: every member has to join again (`ClassicGroup.prepareRebalance`)."""
        now = self._clock()
        is_initial = group.state is GroupState.EMPTY
        for member in group.members.values():
            # Syncs of the former generation must not wait for an assignment that never comes.
            member.assignment = b""
            self._answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, group)
        longest = max((member.request.rebalance_s for member in group.members.values()), default=0.0)
        group.longest_s = now + longest if is_initial and self._limits.initial_delay_s else 0.0
        group.deadline_s = (
            min(now + self._limits.initial_delay_s, group.longest_s) if group.longest_s else now + longest
        )
        self._enter(group, GroupState.PREPARING)

    def _complete_joins(self, group: ClassicGroup) -> None:
        """End the phase of joins once every member has joined, or its time is over."""
        if group.state is not GroupState.PREPARING:
            return
        is_over = self._clock() >= group.deadline_s
        have_joined = not group.expected and all(member.join is not None for member in group.members.values())
        # During an initial delay even a complete group waits: more members may be starting.
        if not is_over and (group.longest_s or not have_joined):
            return
        for member in [each for each in group.members.values() if each.join is None]:
            # A static one is a member until its session ends
            if member.identity.instance_id is None:
                self._drop(group, member)
        group.generation += 1
        self.rebalances += 1
        group.longest_s = 0.0
        if not group.members:
            self._enter(group, GroupState.EMPTY)
            group.protocol, group.leader = None, None
            self._saved(group, is_stable=False)
            return
        group.protocol = self._elected(group)
        # The leader keeps its office over rebalances, as long as it is a member.
        if group.leader not in group.members:
            group.leader = next(iter(group.members))
        self._enter(group, GroupState.COMPLETING)
        group.deadline_s = self._clock() + max(member.request.rebalance_s for member in group.members.values())
        # Sessions begin again: waiting for the others must not count against a member.
        for member in group.members.values():
            if member.join is not None:
                self._touch(member)
                member.join.answer.complete(member.join.reply(self._joined_body(group, member)))
                member.join = None

    @staticmethod
    def _elected(group: ClassicGroup) -> str:
        """Return the protocol with most votes. A member votes for its first protocol that all members support."""
        common = group.supported()
        votes = Counter(
            next(name for name, _ in member.request.protocols if name in common) for member in group.members.values()
        )
        return votes.most_common(1)[0][0]

    def _joined_body(self, group: ClassicGroup, member: Member) -> Body:
        """Return the answer to a join; the leader gets all members with their metadata."""
        members = []
        if member.identity.member_id == group.leader:
            members = [
                {
                    "member_id": each.identity.member_id,
                    "group_instance_id": each.identity.instance_id,
                    "metadata": each.protocols.get(group.protocol or "", b""),
                }
                for each in group.members.values()
            ]
        return {
            "throttle_time_ms": 0,
            "error_code": ErrorCode.NONE,
            "generation_id": group.generation,
            "protocol_type": group.protocol_type,
            "protocol_name": group.protocol,
            "leader": group.leader,
            "skip_assignment": False,
            "member_id": member.identity.member_id,
            "members": members,
        }

    def sync(
        self,
        group_id: str,
        identity: MemberIdentity,
        generation: int,
        assignments: dict[str, bytes],
        reply: Callable[[Body], Reply],
    ) -> Answer:
        """Answer SyncGroup: the leader's gives everybody the assignment."""
        with self._lock:
            group, member, error = self._member(group_id, identity, generation)
            if group is None or member is None or error:
                return reply(_sync_body(error))
            self._touch(member)
            # The rebalance began after this member joined: it must join again.
            if group.state is GroupState.PREPARING:
                return reply(_sync_body(ErrorCode.REBALANCE_IN_PROGRESS))
            # A member that repeats its sync gets the assignment again.
            if group.state is GroupState.STABLE:
                return reply(_sync_body(ErrorCode.NONE, group, member.assignment))
            body = _sync_body(ErrorCode.REBALANCE_IN_PROGRESS)
            pending = PendingAnswer(group.deadline_s + _MARGIN_S, lambda: reply(body))
            member.sync = Waiting(pending, reply)
            if identity.member_id == group.leader:
                self._assign(group, assignments)
            return pending

    def _assign(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        """Give every member its assignment, once the group is in the log."""
        for each in group.members.values():
            each.assignment = assignments.get(each.identity.member_id, b"")
        code = self._saved(group, is_stable=True)
        # The group is not in the log, so nobody may work by the assignment.
        if code:
            for each in group.members.values():
                each.assignment = b""
                self._answer_sync(each, code, group)
            self._prepare(group)
            return
        self._enter(group, GroupState.STABLE)
        for each in group.members.values():
            self._answer_sync(each, ErrorCode.NONE, group)

    def _answer_sync(self, member: Member, error: ErrorCode, group: ClassicGroup) -> None:
        if member.sync is not None:
            self._touch(member)
            member.sync.answer.complete(member.sync.reply(_sync_body(error, group, member.assignment)))
            member.sync = None

    # --- signs of life ------------------------------------------------------------------------------------------------
    def heartbeat(self, group_id: str, identity: MemberIdentity, generation: int) -> ErrorCode:
        """Note that a member lives; return what it has to do."""
        with self._lock:
            group, member, error = self._member(group_id, identity, generation)
            if group is None or member is None or error:
                return error
            self._touch(member)
            return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE

    def leave(self, group_id: str, identity: MemberIdentity) -> ErrorCode:
        """Remove a member; a static one may be named by its instance id alone (KIP-345)."""
        with self._lock:
            group = self._groups.get(group_id)
            if group is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if group.expected.pop(identity.member_id, None) is not None:
                self._complete_joins(group)
                return ErrorCode.NONE
            member_id = identity.member_id
            if identity.instance_id is not None:
                known = group.static.get(identity.instance_id)
                if known is None:
                    return ErrorCode.UNKNOWN_MEMBER_ID
                if member_id and member_id != known:
                    return ErrorCode.FENCED_INSTANCE_ID
                member_id = known
            if member_id not in group.members:
                return ErrorCode.UNKNOWN_MEMBER_ID
            self._remove(group, group.members[member_id])
            return ErrorCode.NONE

    def expire(self) -> None:
        """Remove members whose sessions are over, and end rebalances whose time is over.

        A timer calls this: nothing happens when heartbeats stop, and a closed connection does not remove a member.
        """
        with self._lock:
            now = self._clock()
            for group in self._groups.values():
                group.expected = {key: until for key, until in group.expected.items() if until > now}
                for member in list(group.members.values()):
                    # A member that waits for an answer has sent all it can.
                    is_waiting = member.join is not None or member.sync is not None
                    if not is_waiting and now >= member.deadline_s:
                        self._remove(group, member)
                # Members without a sync in time are removed, and the rest begins again.
                if group.state is GroupState.COMPLETING and now >= group.deadline_s:
                    for member in [each for each in group.members.values() if each.sync is None]:
                        self._drop(group, member)
                    self._prepare(group)
                self._complete_joins(group)

    def check_commit(
        self, group_id: str, identity: MemberIdentity, generation: int, *, version: int | None = None
    ) -> ErrorCode:
        """Return whether a member, or a consumer without a group, may commit (`validateOffsetCommit`).

        version: of OffsetCommit; None: the commit is part of a transaction.
        """
        with self._lock:
            group = self._groups.get(group_id)
            if generation < 0 and (group is None or group.state is GroupState.EMPTY):
                return ErrorCode.NONE
            # Later versions of OffsetCommit have an error of their own for a group that does not exist.
            if group is None:
                is_new = version is not None and version >= _NAMES_UNKNOWN_GROUPS
                return ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
            if version is None and generation < 0 and identity == _NOBODY:
                # Producers before KIP-447 do not say whose offsets they commit
                return ErrorCode.NONE
            _, member, error = self._member(group_id, identity, generation)
            if member is None or error:
                return error
            # The assignment is being changed: the offset may be of a partition that another member gets.
            if version is not None and group.state is GroupState.COMPLETING:
                return ErrorCode.REBALANCE_IN_PROGRESS
            self._touch(member)
            return ErrorCode.NONE

    # --- looking at groups --------------------------------------------------------------------------------------------
    def states(self) -> dict[str, tuple[GroupState, str]]:
        """Return state and protocol type of each group."""
        with self._lock:
            return {key: (group.state, group.protocol_type) for key, group in self._groups.items()}

    def describe(self, group_id: str) -> tuple[GroupState, str, str, list[Member]] | None:
        """Return state, protocol type, protocol and members of a group; None: there is none."""
        with self._lock:
            group = self._groups.get(group_id)
            if group is None:
                return None
            return group.state, group.protocol_type, group.protocol or "", list(group.members.values())

    def has_members(self, group_id: str) -> bool:
        """Return whether a group has members."""
        with self._lock:
            group = self._groups.get(group_id)
            return group is not None and bool(group.members or group.expected)

    def subscribed_topics(self, group_id: str) -> set[str] | None:
        """Return the topics that members of a group have subscribed to (`ClassicGroup.subscribedTopics`).

        None: it cannot be known, so that it may be any.
        """
        with self._lock:
            group = self._groups.get(group_id)
            if group is None or group.protocol_type != _CONSUMER:
                return set()
            topics = [topics_of(member.protocols.get(group.protocol or "", b"")) for member in group.members.values()]
            return None if None in topics else {topic for each in topics for topic in each or ()}

    def empty_since_ms(self, group_id: str) -> int | None:
        """Return from when on the offsets of a group age (`ClassicGroup.offsetExpirationCondition`).

        -1: each from its own commit; None: they do not, because a rebalance goes on or the topics are unknown.
        """
        with self._lock:
            group = self._groups.get(group_id)
            if group is None or not group.protocol_type:
                return -1
            if group.state is GroupState.EMPTY:
                return group.state_ms
            is_known = group.state is GroupState.STABLE and group.protocol_type == _CONSUMER
            return -1 if is_known and self.subscribed_topics(group_id) is not None else None

    # --- members ------------------------------------------------------------------------------------------------------
    def _member(
        self, group_id: str, identity: MemberIdentity, generation: int
    ) -> tuple[ClassicGroup | None, Member | None, ErrorCode]:
        """Return a group and its member, or what is wrong with how it names itself."""
        group = self._groups.get(group_id)
        if group is None:
            return None, None, ErrorCode.UNKNOWN_MEMBER_ID
        if identity.instance_id is not None:
            known = group.static.get(identity.instance_id)
            if known is None:
                return group, None, ErrorCode.UNKNOWN_MEMBER_ID
            if known != identity.member_id:
                return group, None, ErrorCode.FENCED_INSTANCE_ID
        member = group.members.get(identity.member_id)
        if member is None:
            return group, None, ErrorCode.UNKNOWN_MEMBER_ID
        if generation != group.generation:
            return group, member, ErrorCode.ILLEGAL_GENERATION
        return group, member, ErrorCode.NONE

    def _touch(self, member: Member) -> None:
        member.deadline_s = self._clock() + member.request.session_s

    def _remove(self, group: ClassicGroup, member: Member) -> None:
        """Remove a member, which begins a rebalance or may end one."""
        self._drop(group, member)
        if group.state in {GroupState.STABLE, GroupState.COMPLETING}:
            self._prepare(group)
        self._complete_joins(group)

    @staticmethod
    def _drop(group: ClassicGroup, member: Member) -> None:
        del group.members[member.identity.member_id]
        if member.identity.instance_id is not None:
            group.static.pop(member.identity.instance_id, None)
        for waiting, body in (
            (member.join, join_error(ErrorCode.UNKNOWN_MEMBER_ID, member.request)),
            (member.sync, _sync_body(ErrorCode.UNKNOWN_MEMBER_ID)),
        ):
            if waiting is not None:
                waiting.answer.complete(waiting.reply(body))


def join_error(code: ErrorCode, request: JoinRequest) -> Body:
    """Return the answer to a join that is refused."""
    return {
        "throttle_time_ms": 0,
        "error_code": code,
        "generation_id": -1,
        "protocol_type": None,
        "protocol_name": "",
        "leader": "",
        "member_id": request.identity.member_id,
        "members": [],
    }


def _sync_body(code: ErrorCode, group: ClassicGroup | None = None, assignment: bytes = b"") -> Body:
    return {
        "throttle_time_ms": 0,
        "error_code": code,
        "protocol_type": None if group is None else group.protocol_type,
        "protocol_name": None if group is None else group.protocol,
        "assignment": assignment,
    }
