"""Groups of the classic protocol as values: states, members, what a member asks for, and what the log says of it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import ProtocolError
from kafkalog_core.structs import Struct, field
from kafkalog_core.topics.group_records import GroupMember
from kafkalog_core.wire.codec import codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.serve.network.answers import PendingAnswer, Reply
    from kafkalog_core.serve.network.requests import Body

__all__ = [
    "ClassicGroup",
    "GroupLimits",
    "GroupState",
    "JoinRequest",
    "Member",
    "MemberIdentity",
    "Waiting",
    "saved_member",
    "topics_of",
]


_VERSION_BYTES: Final = 2
_LAST_SUBSCRIPTION: Final = 3  # a later version is read as this one


class GroupState(StrEnum):
    """The states of groups of all kinds, as clients see them (`GroupState`)."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupLimits(Struct, frozen=True, kw_only=True):
    """Bounds of groups, with Kafka's settings in brackets.

    Args:
        min_session_s: the shortest session timeout [group.min.session.timeout.ms].
        max_session_s: the longest one [group.max.session.timeout.ms].
        max_members: of a group [group.max.size].
        initial_delay_s: how long an empty group waits for more members, again for each of them
            [group.initial.rebalance.delay.ms, 3 s in Kafka]; a disk is read by few consumers, which should not wait.
    """

    min_session_s: float = 6.0
    max_session_s: float = 1800.0
    max_members: int = 10_000
    initial_delay_s: float = 0.3


class MemberIdentity(NamedTuple):
    """How a member names itself: its id, and the group.instance.id of a static one (KIP-345)."""

    member_id: str
    instance_id: str | None = None


class JoinRequest(Struct, frozen=True, kw_only=True):
    """A JoinGroup request.

    `needs_id`: the client knows that it must join again with the id that it gets (KIP-394). `skips`: it knows that a
    leader may have to leave the assignment as it is (KIP-814).
    """

    identity: MemberIdentity
    client_id: str
    client_host: str
    session_s: float
    rebalance_s: float
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    needs_id: bool
    skips: bool = False


class Waiting(Struct):
    """A join or a sync that waits for its answer."""

    answer: PendingAnswer
    reply: Callable[[Body], Reply]


class Member(Struct):
    """A member of a group; `deadline_s`: when its session ends without another sign of life."""

    identity: MemberIdentity
    request: JoinRequest
    deadline_s: float
    assignment: bytes = b""
    join: Waiting | None = None
    sync: Waiting | None = None

    @property
    def protocols(self) -> dict[str, bytes]:
        """The metadata of each protocol that it supports, the preferred one first."""
        return dict(self.request.protocols)


class ClassicGroup(Struct):
    """A group; `expected` are member ids that were given out, each with the time until which it may be used.

    `state_ms`: when it came into its state, in milliseconds since 1970; -1: unknown.
    `deadline_s`: of the joins of a rebalance, or of its syncs. `longest_s`: until when an initial delay may be
    extended; 0: it is not an initial one.
    """

    group_id: str
    state: GroupState = GroupState.EMPTY
    state_ms: int = -1
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    expected: dict[str, float] = field(default_factory=dict)
    deadline_s: float = 0.0
    longest_s: float = 0.0

    def supported(self) -> set[str]:
        """The protocols that every member supports."""
        names = [set(member.protocols) for member in self.members.values()]
        return set.intersection(*names) if names else set()


def saved_member(member: Member, protocol: str) -> GroupMember:
    """Return a member as the log has it, with its metadata of one protocol."""
    request = member.request
    return GroupMember(
        member_id=member.identity.member_id,
        instance_id=member.identity.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_ms=int(request.rebalance_s * 1000),
        session_ms=int(request.session_s * 1000),
        subscription=member.protocols.get(protocol, b""),
        assignment=member.assignment,
    )


def topics_of(subscription: bytes) -> list[str] | None:
    """Return the topics of a consumer's metadata; None: it is none (`ConsumerProtocol.deserializeSubscription`)."""
    version = min(int.from_bytes(subscription[:_VERSION_BYTES], "big", signed=True), _LAST_SUBSCRIPTION)
    try:
        found, _ = codec("ConsumerProtocolSubscription", version).decode(memoryview(subscription)[_VERSION_BYTES:])
    except ProtocolError:
        return None
    return list(found["topics"])
