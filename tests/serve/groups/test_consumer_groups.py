"""Consumer groups of KIP-848 without sockets and without time: heartbeats of members, and what nobody reads twice."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.serve.groups.assignors import ASSIGNORS, Subscriber
from kafkalog_core.serve.groups.consumer_groups import ConsumerGroups
from kafkalog_core.serve.groups.group_members import GroupState
from kafkalog_core.serve.groups.modern_groups import Heartbeat, ModernLimits
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafkalog_core.format.names import TopicPartition

T = frozenset({"t"})


@dataclass
class Topics:
    """The topics of a cluster."""

    counts: dict[str, int] = field(default_factory=lambda: {"t": 6})

    def partition_counts(self) -> dict[str, int]:
        return dict(self.counts)


@dataclass
class Client:
    """A member as a client plays it: it gives up what it is told to, one heartbeat later."""

    cluster: Cluster
    member_id: str
    topics: frozenset[str] = T
    instance_id: str | None = None
    epoch: int = 0
    owned: frozenset[TopicPartition] = frozenset()

    def beat(self, **fields: object) -> ErrorCode:
        """One heartbeat."""
        is_join = self.epoch == 0
        beat = Heartbeat(
            group_id="g",
            member_id=self.member_id,
            epoch=self.epoch,
            client_id="c",
            client_host="/h",
            instance_id=self.instance_id,
            rebalance_ms=10_000 if is_join else -1,
            topics=self.topics if is_join else None,
            owned=frozenset() if is_join else self.owned,
        )._replace(**fields)
        answer = self.cluster.groups.heartbeat(beat)
        if answer.code == ErrorCode.NONE:
            self.epoch = answer.epoch
            if answer.assignment is not None:
                self.owned = answer.assignment
        elif answer.code in {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}:
            self.epoch, self.owned = 0, frozenset()
        return answer.code


@dataclass
class Cluster:
    """Groups with a clock of the test."""

    topics: Topics = field(default_factory=Topics)
    now_s: float = 100.0

    def __post_init__(self) -> None:
        ids = count(1)
        limits = ModernLimits(session_s=45, max_members=5)
        self.groups = ConsumerGroups(
            self.topics, lambda: self.now_s, lambda client: f"{client}-{next(ids)}", lambda _: limits
        )

    def state(self) -> GroupState:
        """The group's state."""
        return self.groups.groups()["g"]


def settle(*clients: Client) -> None:
    """Heartbeats until nothing changes."""
    for _ in range(6):
        for each in clients:
            assert each.beat() == ErrorCode.NONE


def all_of(topics: Topics) -> set[TopicPartition]:
    return {(topic, number) for topic, size in topics.counts.items() for number in range(size)}


def test_members_share_the_partitions_and_take_over_what_others_leave() -> None:
    cluster = Cluster()
    one, two = Client(cluster, "a"), Client(cluster, "b")
    settle(one)
    assert one.owned == all_of(cluster.topics)
    assert two.beat() == ErrorCode.NONE
    assert two.owned == frozenset(), "the other one has them still"
    assert cluster.state() is GroupState.RECONCILING
    settle(one, two)
    assert (len(one.owned), len(two.owned)) == (3, 3)
    assert cluster.state() is GroupState.STABLE
    assert two.beat(epoch=-1) == ErrorCode.NONE
    settle(one)
    assert one.owned == all_of(cluster.topics)
    cluster.topics.counts["t"] = 8
    settle(one)
    assert len(one.owned) == 8
    cluster.now_s += 46
    cluster.groups.expire()
    assert cluster.state() is GroupState.EMPTY
    assert one.beat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_give_up_its_partitions_is_removed() -> None:
    cluster = Cluster()
    one, two = Client(cluster, "a"), Client(cluster, "b")
    settle(one)
    two.beat()
    one.beat()
    for _ in range(3):
        cluster.now_s += 4
        one.beat(owned=frozenset(all_of(cluster.topics)))
        two.beat()
        cluster.groups.expire()
    assert one.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    settle(two)
    assert len(two.owned) == 6


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 1, "member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"owned": None}, ErrorCode.INVALID_REQUEST),
        ({"topics": None}, ErrorCode.INVALID_REQUEST),
        ({"assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"pattern": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"epoch": 3}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"epoch": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_heartbeat_that_no_broker_takes_is_refused(fields: dict[str, object], code: ErrorCode) -> None:
    assert Client(Cluster(), "a").beat(**fields) == code


def test_epochs_fence_members_and_a_lost_answer_does_not() -> None:
    cluster = Cluster()
    one = Client(cluster, "a")
    settle(one)
    before = one.epoch
    Client(cluster, "b").beat()
    one.beat()
    one.beat()
    assert one.epoch == before + 1
    assert cluster.groups.check_commit("g", "a", one.epoch, version=9) == ErrorCode.NONE
    assert cluster.groups.check_commit("g", "a", before, version=9) == ErrorCode.STALE_MEMBER_EPOCH
    assert cluster.groups.check_commit("g", "a", before) == ErrorCode.ILLEGAL_GENERATION
    assert cluster.groups.check_commit("g", "x", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert cluster.groups.check_commit("other", "x", 1) is None
    assert one.beat(epoch=before) == ErrorCode.NONE, "it has not got the answer with its new epoch"
    assert one.beat(epoch=before + 7) == ErrorCode.FENCED_MEMBER_EPOCH
    late = Client(cluster, "a")
    assert late.beat(epoch=before - 1 or -9) in {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.INVALID_REQUEST}


def test_a_static_member_comes_back_to_what_it_had() -> None:
    cluster = Cluster()
    one, two = Client(cluster, "a", instance_id="i"), Client(cluster, "b")
    settle(one, two)
    had = one.owned
    again = Client(cluster, "a2", instance_id="i")
    assert again.beat() == ErrorCode.UNRELEASED_INSTANCE_ID
    assert again.beat(epoch=4) == ErrorCode.FENCED_INSTANCE_ID
    assert one.beat(epoch=-2) == ErrorCode.NONE
    settle(two)
    assert len(two.owned) == 3, "its partitions are kept for it"
    assert again.beat() == ErrorCode.NONE
    assert again.owned == had


def test_patterns_and_full_groups() -> None:
    cluster = Cluster(Topics({"t": 2, "u": 2, "x": 1}))
    one = Client(cluster, "", topics=frozenset())
    assert one.beat(pattern="[tu]") == ErrorCode.NONE
    one.member_id = next(iter(cluster.groups.group("g").members))  # type: ignore[union-attr]
    assert one.owned == {("t", 0), ("t", 1), ("u", 0), ("u", 1)}
    cluster.topics.counts["u"] = 3
    settle(one)
    assert ("u", 2) in one.owned
    for number in range(4):
        assert Client(cluster, f"m{number}").beat() == ErrorCode.NONE
    assert Client(cluster, "m9").beat() == ErrorCode.GROUP_MAX_SIZE_REACHED
    cluster.groups.forget("g")
    assert cluster.groups.has_members("g")


@pytest.mark.parametrize("seed", range(15))
def test_no_partition_is_ever_read_by_two_members_and_all_are_in_the_end(seed: int) -> None:
    chance = random.Random(seed)
    cluster = Cluster(Topics({"t": chance.randint(1, 9), "u": chance.randint(1, 5)}))
    clients: list[Client] = []
    names = count()
    for _ in range(120):
        action = chance.random()
        if (action < 0.1 and len(clients) < 5) or not clients:
            topics = frozenset(chance.choice((["t"], ["u"], ["t", "u"])))
            clients.append(Client(cluster, f"m{next(names)}", topics))
        elif action < 0.15:
            clients.pop(chance.randrange(len(clients))).beat(epoch=-1)
        elif action < 0.18:
            cluster.topics.counts["t"] += 1
        for each in chance.sample(clients, chance.randint(0, len(clients))):
            each.beat()
        held = [place for each in clients for place in each.owned]
        assert len(held) == len(set(held))
    for _ in clients:
        settle(*clients)
    wanted = {place for place in all_of(cluster.topics) if any(place[0] in each.topics for each in clients)}
    assert {place for each in clients for place in each.owned} == wanted


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("seed", range(20))
def test_assignors_give_each_partition_to_one_subscriber(name: str, seed: int) -> None:
    chance = random.Random(seed)
    counts = {topic: chance.randint(0, 7) for topic in "abc"}
    members = {
        f"m{number}": Subscriber(frozenset(chance.sample("abc", chance.randint(1, 3))), frozenset())
        for number in range(chance.randint(1, 6))
    }
    found = ASSIGNORS[name](members, counts)
    places = [place for each in found.values() for place in each]
    assert len(places) == len(set(places))
    readable = {topic for member in members.values() for topic in member.topics}
    assert set(places) == {(topic, number) for topic in readable for number in range(counts[topic])}
    assert all(place[0] in members[member].topics for member, given in found.items() for place in given)
    if name == "uniform" and all(member.topics == frozenset("abc") for member in members.values()):
        assert max(map(len, found.values())) - min(map(len, found.values())) <= 1
    again = ASSIGNORS[name](
        {key: Subscriber(member.topics, frozenset(found[key])) for key, member in members.items()}, counts
    )
    assert again == found, "nothing moves without a reason"
