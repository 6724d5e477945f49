"""Consumer groups without sockets and without time: members join, sync, live and leave by a clock of the test."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from kafkalog_core.serve.groups.classic_groups import GroupCoordinator
from kafkalog_core.serve.groups.group_members import GroupLimits, GroupState, JoinRequest, MemberIdentity
from kafkalog_core.serve.network.answers import PendingAnswer, Reply
from kafkalog_core.wire.error_codes import ErrorCode

RANGE = (("range", b"r"), ("roundrobin", b"rr"))


@dataclass
class Clock:
    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Group:
    """A coordinator, and what a client does with it."""

    clock: Clock = field(default_factory=Clock)
    limits: GroupLimits = field(default_factory=lambda: GroupLimits(initial_delay_s=0.0))
    bodies: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ids = count(1)
        self.coordinator = GroupCoordinator(
            self.clock, lambda: int(self.clock() * 1000), lambda client: f"{client}-{next(ids)}", self.limits
        )

    def reply(self, body: dict[str, Any]) -> Reply:
        answer = Reply((b"",))
        self.bodies[id(answer)] = body | {"kept": answer}
        return answer

    def body(self, answer: object) -> dict[str, Any] | None:
        """The body of an answer; None: it waits."""
        if isinstance(answer, PendingAnswer):
            taken = answer.take(self.clock())
            answer = taken if taken is not None else answer
        return self.bodies.get(id(answer))

    def join(self, member_id: str = "", **changes: Any) -> Any:
        instance = changes.pop("instance", None)
        given = {
            "identity": MemberIdentity(member_id, instance),
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "session_s": 10.0,
            "rebalance_s": 30.0,
            "protocol_type": "consumer",
            "protocols": RANGE,
            "needs_id": False,
        }
        return self.coordinator.join("g", JoinRequest(**(given | changes)), self.reply)

    def sync(self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None) -> Any:
        return self.coordinator.sync("g", MemberIdentity(member_id), generation, assignments or {}, self.reply)

    def heartbeat(self, member_id: str, generation: int) -> ErrorCode:
        return self.coordinator.heartbeat("g", MemberIdentity(member_id), generation)

    def later(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.coordinator.expire()

    def state(self) -> GroupState:
        found = self.coordinator.describe("g")
        assert found is not None
        return found[0]

    def stable(self, count_of_members: int) -> list[str]:
        """Member ids of a stable group of that many."""
        waiting = self.join()
        self.later(self.limits.initial_delay_s)
        first = self.body(waiting)
        assert first is not None
        ids = [first["member_id"]]
        for _ in range(count_of_members - 1):
            joins = {"new": self.join()} | {each: self.join(each) for each in ids}
            found = {key: self.body(answer) for key, answer in joins.items()}
            assert all(body is not None for body in found.values())
            ids = [body["member_id"] for body in found.values() if body is not None]
        generation = self.generation()
        leader = self.leader()
        others = [self.sync(each, generation) for each in ids if each != leader]
        led = self.body(self.sync(leader, generation, {each: each.encode() for each in ids}))
        assert led is not None
        for each, answer in zip([other for other in ids if other != leader], others, strict=True):
            body = self.body(answer)
            assert body is not None
            assert body["assignment"] == each.encode()
        assert self.state() is GroupState.STABLE
        return sorted(ids)

    def generation(self) -> int:
        return self.coordinator._groups["g"].generation

    def leader(self) -> str:
        leader = self.coordinator._groups["g"].leader
        assert leader is not None
        return leader


# --- joining ----------------------------------------------------------------------------------------------------------
def test_the_first_member_leads_and_gets_the_members() -> None:
    group = Group()
    body = group.body(group.join())
    assert body is not None
    assert (body["error_code"], body["generation_id"], body["leader"]) == (0, 1, body["member_id"])
    assert [(each["member_id"], each["metadata"]) for each in body["members"]] == [(body["member_id"], b"r")]
    assert body["protocol_name"] == "range"


def test_a_client_that_must_join_with_an_id_gets_one() -> None:
    group = Group()
    refused = group.body(group.join(needs_id=True))
    assert refused is not None
    assert refused["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
    joined = group.body(group.join(refused["member_id"], needs_id=True))
    assert joined is not None
    assert joined["member_id"] == refused["member_id"]


def test_a_rebalance_waits_for_an_id_that_was_given_out_until_it_expires() -> None:
    group = Group()
    group.join(needs_id=True)
    waiting = group.join()
    assert group.body(waiting) is None
    group.later(10)
    assert group.body(waiting) is not None


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"session_s": 5.9}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_s": 1801.0}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_joins_that_are_refused(changes: dict[str, Any], code: ErrorCode) -> None:
    group = Group()
    body = group.body(group.join(**changes))
    assert body is not None
    assert body["error_code"] == code


@pytest.mark.parametrize("changes", [{"protocols": (("sticky", b""),)}, {"protocol_type": "connect"}])
def test_a_member_without_a_common_protocol_is_refused_when_it_joins(changes: dict[str, Any]) -> None:
    group = Group()
    ids = group.stable(1)
    body = group.body(group.join(**changes))
    assert body is not None
    assert body["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.heartbeat(ids[0], group.generation()) == ErrorCode.NONE


def test_a_group_has_a_largest_size() -> None:
    group = Group(limits=GroupLimits(initial_delay_s=0.0, max_members=1))
    group.stable(1)
    body = group.body(group.join())
    assert body is not None
    assert body["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_an_empty_group_waits_for_more_members_and_again_for_each() -> None:
    group = Group(limits=GroupLimits(initial_delay_s=3.0))
    first = group.join()
    group.later(2)
    second = group.join()
    group.later(2)
    assert group.body(first) is None
    group.later(1)
    bodies = [group.body(each) for each in (first, second)]
    assert [body is not None and body["generation_id"] for body in bodies] == [1, 1]


def test_the_protocol_with_most_votes_is_chosen() -> None:
    group = Group(limits=GroupLimits(initial_delay_s=1.0))
    prefers = (("roundrobin", b"rr"), ("range", b"r"))
    answers = [group.join(), group.join(protocols=prefers), group.join(protocols=prefers)]
    group.later(1)
    bodies = [group.body(each) for each in answers]
    assert {body["protocol_name"] for body in bodies if body is not None} == {"roundrobin"}


# --- rebalances -------------------------------------------------------------------------------------------------------
def test_a_new_member_makes_the_others_join_again() -> None:
    group = Group()
    (old,) = group.stable(1)
    new = group.join()
    assert group.body(new) is None
    assert group.heartbeat(old, group.generation()) == ErrorCode.REBALANCE_IN_PROGRESS
    again = group.body(group.join(old))
    joined = group.body(new)
    assert again is not None
    assert joined is not None
    assert again["generation_id"] == joined["generation_id"] == 2
    assert len(again["members"]) == 2
    assert joined["members"] == []


def test_a_member_that_does_not_join_again_is_dropped_when_the_time_is_over() -> None:
    group = Group()
    (old,) = group.stable(1)
    new = group.join(session_s=60.0)
    for _ in range(4):
        group.later(9)
        group.heartbeat(old, 1)
    body = group.body(new)
    assert body is not None
    assert body["leader"] == body["member_id"]
    assert group.heartbeat(old, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_asks_again_with_the_same_metadata_gets_the_present_generation() -> None:
    group = Group()
    ids = group.stable(2)
    follower = next(each for each in ids if each != group.leader())
    body = group.body(group.join(follower))
    assert body is not None
    assert body["generation_id"] == group.generation()
    assert group.state() is GroupState.STABLE
    assert group.body(group.join(follower, protocols=(("range", b"other"),))) is None
    assert group.state() is GroupState.PREPARING


def test_the_leader_can_ask_for_a_rebalance() -> None:
    group = Group()
    group.stable(2)
    assert group.body(group.join(group.leader())) is None
    assert group.state() is GroupState.PREPARING


def test_a_sync_waits_for_the_leader_and_fails_when_it_does_not_come() -> None:
    group = Group()
    group.stable(2)
    leader = group.leader()
    ids = list(group.coordinator._groups["g"].members)
    for each in ids:
        group.join(each)
    group.join(leader)
    follower = next(each for each in ids if each != leader)
    waiting = group.sync(follower, group.generation())
    assert group.body(waiting) is None
    group.later(31)
    body = group.body(waiting)
    assert body is not None
    assert body["error_code"] in {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID}


@pytest.mark.parametrize(
    ("member", "generation", "code"),
    [("old", 1, ErrorCode.NONE), ("old", 2, ErrorCode.ILLEGAL_GENERATION), ("x", 1, ErrorCode.UNKNOWN_MEMBER_ID)],
)
def test_heartbeats_and_syncs_name_member_and_generation(member: str, generation: int, code: ErrorCode) -> None:
    group = Group()
    (old,) = group.stable(1)
    member_id = old if member == "old" else member
    assert group.heartbeat(member_id, generation) == code
    body = group.body(group.sync(member_id, generation))
    assert body is not None
    assert body["error_code"] == code


def test_of_an_unknown_group_every_member_is_unknown() -> None:
    group = Group()
    assert group.heartbeat("x", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.coordinator.leave("g", MemberIdentity("x")) == ErrorCode.UNKNOWN_MEMBER_ID


# --- ends -------------------------------------------------------------------------------------------------------------
def test_heartbeats_that_stop_end_a_session() -> None:
    group = Group()
    ids = group.stable(2)
    for _ in range(3):
        group.later(4)
        group.heartbeat(ids[0], group.generation())
    assert list(group.coordinator._groups["g"].members) == [ids[0]]
    assert group.heartbeat(ids[0], group.generation()) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_leaves_makes_room_at_once() -> None:
    group = Group()
    ids = group.stable(2)
    assert group.coordinator.leave("g", MemberIdentity(ids[0])) == ErrorCode.NONE
    body = group.body(group.join(ids[1]))
    assert body is not None
    assert [each["member_id"] for each in body["members"]] == [ids[1]]
    assert group.coordinator.leave("g", MemberIdentity(ids[1])) == ErrorCode.NONE
    assert group.state() is GroupState.EMPTY


# --- static members ---------------------------------------------------------------------------------------------------
def test_a_static_member_that_comes_back_keeps_its_assignment_and_fences_its_former_self() -> None:
    group = Group()
    first = group.body(group.join(instance="one"))
    assert first is not None
    old = first["member_id"]
    group.coordinator.sync("g", MemberIdentity(old, "one"), 1, {old: b"mine"}, group.reply)
    back = group.body(group.join(instance="one", skips=True, protocols=(("range", b"other"),)))
    assert back is not None
    assert (back["error_code"], back["generation_id"], back["skip_assignment"]) == (0, 1, True)
    assert [back["leader"], len(back["members"])] == [back["member_id"], 1]
    assert back["member_id"] != old
    assert group.coordinator.heartbeat("g", MemberIdentity(old, "one"), 1) == ErrorCode.FENCED_INSTANCE_ID
    fenced = group.body(group.join(old, instance="one"))
    assert fenced is not None
    assert fenced["error_code"] == ErrorCode.FENCED_INSTANCE_ID
    assert group.coordinator.leave("g", MemberIdentity("", "one")) == ErrorCode.NONE
    assert group.coordinator.leave("g", MemberIdentity("", "one")) == ErrorCode.UNKNOWN_MEMBER_ID


# --- commits ----------------------------------------------------------------------------------------------------------
def test_who_may_commit() -> None:
    group = Group()
    nobody = MemberIdentity("")
    assert group.coordinator.check_commit("g", nobody, -1) == ErrorCode.NONE
    assert group.coordinator.check_commit("g", nobody, 3, version=8) == ErrorCode.ILLEGAL_GENERATION
    assert group.coordinator.check_commit("g", nobody, 3, version=9) == ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = group.stable(1)
    assert group.coordinator.check_commit("g", nobody, -1, version=0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.coordinator.check_commit("g", nobody, -1) == ErrorCode.NONE, "a producer that does not say whose"
    assert group.coordinator.check_commit("g", MemberIdentity(member), 1) == ErrorCode.NONE
    assert group.coordinator.check_commit("g", MemberIdentity(member), 0) == ErrorCode.ILLEGAL_GENERATION
    group.join()
    assert group.coordinator.check_commit("g", MemberIdentity(member), 1, version=9) == ErrorCode.NONE
    group.join(member)
    assert group.coordinator.check_commit("g", MemberIdentity(member), 2, version=9) == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.coordinator.check_commit("g", MemberIdentity(member), 2) == ErrorCode.NONE


# --- all of it, at random ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(20))
def test_whatever_members_do_a_rebalance_ends(seed: int) -> None:
    """After the deadlines of those that are gone, the members that follow the protocol are stable, with one leader."""
    choose = random.Random(seed)
    group = Group(limits=GroupLimits(initial_delay_s=choose.choice([0.0, 0.5])))
    ids: list[str] = []
    for _ in range(60):
        group.later(choose.random() * 3)
        step = choose.randrange(4)
        if step == 0 or not ids:
            body = group.body(group.join(needs_id=choose.random() < 0.5))
            if body is not None and body["member_id"]:
                ids.append(body["member_id"])
        elif step == 1:
            group.join(choose.choice(ids), protocols=choose.choice([RANGE, (("range", b"x"),)]))
        elif step == 2:
            group.coordinator.leave("g", MemberIdentity(choose.choice(ids)))
        else:
            group.sync(choose.choice(ids), group.generation(), dict.fromkeys(ids, b"a"))
    for _ in range(100):
        group.later(1)
    assert group.state() is GroupState.EMPTY
    assert len(group.stable(3)) == 3
