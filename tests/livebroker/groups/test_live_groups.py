"""Groups of a live broker without sockets: what becomes of them and of their offsets, in the log and over a restart."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.errors import StorageError
from kafkalog_core.livebroker.transactions.coordinator_logs import CoordinatorLog
from kafkalog_core.serve.groups.assignors import ASSIGNORS, Subscriber
from kafkalog_core.serve.network.answers import PendingAnswer
from kafkalog_core.topics.group_records import decode_group
from kafkalog_core.topics.modern_group_records import CONSUMER_RECORDS, StoredModernGroup
from kafkalog_core.wire.error_codes import ErrorCode
from tests.serve.groups.group_requests import OF_T, commit_offset, committed, described_group, join
from tests.support.asking import response
from tests.support.live_state import Live, Payer, living

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.live

OFFSETS = "__consumer_offsets"
DAY_MS = 86_400_000


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """A live broker with a topic."""
    with living(tmp_path) as found:
        found.create("t")
        yield found


def beat(live: Live, epoch: int = 0, member: str = "m", **fields: Any) -> dict[str, Any]:
    """A heartbeat of a member of a group of KIP-848, which joins with epoch 0."""
    is_join = epoch == 0
    body = {
        "group_id": "g",
        "member_id": member,
        "member_epoch": epoch,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout_ms": 10_000 if is_join else -1,
        "subscribed_topic_names": ["t"] if is_join else None,
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [] if is_join else None,
    }
    return live.ask("ConsumerGroupHeartbeat", 1, **(body | fields))


def by_pattern(live: Live, pattern: str) -> dict[str, Any]:
    """The answer to a member that joins with a regular expression."""
    return beat(live, subscribed_topic_names=None, subscribed_topic_regex=pattern)


def listed(live: Live) -> dict[str, tuple[str, str]]:
    """State and type of each group."""
    answer = live.ask("ListGroups", 5, states_filter=[], types_filter=[])
    return {each["group_id"]: (each["group_state"], each["group_type"]) for each in answer["groups"]}


def leave(live: Live, member: str) -> None:
    """Let a member of a classic group leave."""
    live.ask("LeaveGroup", 1, group_id="g", member_id=member)


def records(live: Live) -> list[tuple[bytes, bytes | None]]:
    """The records of the coordinator's log."""
    return list(CoordinatorLog(live.disks, OFFSETS, live.clock, lambda *_: None).records())


def stored(live: Live) -> dict[str, StoredModernGroup]:
    """What the log says of the groups of KIP-848."""
    groups: dict[str, StoredModernGroup] = {}
    for key, value in records(live):
        CONSUMER_RECORDS.replay(groups, key, value)
    return groups


def refuse_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every write of a group fail from now on."""

    def fail(*_: object, **__: object) -> int:
        raise StorageError("no space left on device")

    monkeypatch.setattr(CoordinatorLog, "append", fail)


# --- from one protocol to the other -----------------------------------------------------------------------------------
def test_a_group_without_members_is_that_of_the_next_members_protocol(live: Live) -> None:
    assert beat(live)["error_code"] == 0
    assert listed(live)["g"] == ("Stable", "consumer")
    refused = live.ask(
        "JoinGroup",
        5,
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )
    assert refused["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert beat(live, -1)["error_code"] == 0
    member = join(live, "g")
    assert commit_offset(live, "g", "t", 4, member_id=member, generation_id_or_member_epoch=1) == 0
    assert listed(live)["g"] == ("Stable", "classic")
    assert stored(live) == {}
    assert beat(live)["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND
    leave(live, member)
    before = len(records(live))
    assert beat(live, rebalance_timeout_ms=-1)["error_code"] == ErrorCode.INVALID_REQUEST
    assert listed(live)["g"] == ("Empty", "classic")
    assert beat(live)["error_code"] == 0
    assert listed(live)["g"] == ("Stable", "consumer")
    assert committed(live, "g", "t") == (4, 0)
    kinds = [(int.from_bytes(key[:2], "big"), value is None) for key, value in records(live)[before:]]
    assert kinds[0] == (2, True), "a broker refuses to load records of the other kind before the tombstone"
    assert [kind for kind, _ in kinds[1:]] == [5, 3, 7, 6, 8]


# --- what the log says ------------------------------------------------------------------------------------------------
def test_a_group_of_kip_848_goes_on_after_a_restart(tmp_path: Path) -> None:
    with living(tmp_path) as live:
        live.create("t", 2)
        first = beat(live, instance_id="i", rack_id="r", server_assignor="range")
        assert first["member_epoch"] == 1
        held = first["assignment"]["topic_partitions"]
        assert [each["partitions"] for each in held] == [[0, 1]]
    with living(tmp_path) as live:
        assert listed(live)["g"] == ("Stable", "consumer")
        (described,) = live.ask("ConsumerGroupDescribe", 1, group_ids=["g"], include_authorized_operations=False)[
            "groups"
        ]
        (member,) = described["members"]
        assert (described["group_epoch"], described["assignment_epoch"], described["assignor_name"]) == (1, 1, "range")
        assert (member["instance_id"], member["rack_id"], member["subscribed_topic_names"]) == ("i", "r", ["t"])
        assert [each["partitions"] for each in member["assignment"]["topic_partitions"]] == [[0, 1]]
        again = beat(live, 1, instance_id="i")
        assert (again["error_code"], again["assignment"]) == (0, None)
        assert beat(live, -1, instance_id="i")["error_code"] == 0
        group = stored(live)["g"]
        assert (group.subscriptions, group.targets, group.currents) == ({}, {}, {})
    with living(tmp_path) as live:
        assert listed(live)["g"] == ("Empty", "consumer")
        assert live.ask("DeleteGroups", 1, groups_names=["g"])["results"][0]["error_code"] == 0
        assert stored(live) == {}
    with living(tmp_path) as live:
        assert listed(live) == {}


def test_a_rebalance_timeout_is_logged_to_the_millisecond(live: Live) -> None:
    assert beat(live, rebalance_timeout_ms=1001)["error_code"] == 0
    assert stored(live)["g"].subscriptions["m"].rebalance_ms == 1001


def test_only_what_changes_is_written(live: Live) -> None:
    epoch = beat(live)["member_epoch"]
    before = len(records(live))
    for _ in range(3):
        assert beat(live, epoch)["error_code"] == 0
    assert len(records(live)) == before


@pytest.mark.parametrize("seed", range(6))
def test_the_log_says_what_the_members_have(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with living(tmp_path) as live:
        live.create("t", 5)
        live.create("u", 3)
        owned: dict[str, tuple[int, list[dict[str, Any]]]] = {}
        for number in range(60):
            name = f"m{chance.randrange(4)}"
            if name not in owned:
                topics = chance.choice((["t"], ["u"], ["t", "u"]))
                answer = beat(live, 0, name, subscribed_topic_names=topics)
                owned[name] = answer["member_epoch"], answer["assignment"]["topic_partitions"]
                continue
            epoch, rows = owned[name]
            if chance.random() < 0.1:
                assert beat(live, -1, name)["error_code"] == 0
                del owned[name]
                continue
            answer = beat(live, epoch, name, topic_partitions=rows)
            assert answer["error_code"] == 0, (number, name)
            held = rows if answer["assignment"] is None else answer["assignment"]["topic_partitions"]
            owned[name] = answer["member_epoch"], held
        group = stored(live)["g"]
        assert group.subscriptions.keys() == group.currents.keys() == owned.keys()
        for name, (epoch, rows) in owned.items():
            current = group.currents[name]
            assert current.epoch == epoch
            assert current.assigned == {bytes(each["topic_id"]): tuple(each["partitions"]) for each in rows}
    with living(tmp_path) as live:
        for name, (epoch, rows) in owned.items():
            assert beat(live, epoch, name, topic_partitions=rows)["error_code"] == 0


def test_a_change_that_cannot_be_written_has_not_happened(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    epoch = beat(live)["member_epoch"]
    body = {
        "group_id": "static",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "group_instance_id": "one",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"x"}],
    }
    joined = live.send("JoinGroup", 9, **body)
    assert isinstance(joined, PendingAnswer)
    live.broker.sweep()
    first = response("JoinGroup", 9, joined.take(0))
    names = {"generation_id": 1, "member_id": first["member_id"], "group_instance_id": "one"}
    live.send("SyncGroup", 3, group_id="static", assignments=[], **names)
    with monkeypatch.context() as patch:
        refuse_writes(patch)
        assert live.ask("JoinGroup", 9, **body)["error_code"] == ErrorCode.NOT_COORDINATOR
        assert beat(live, 0, "other")["error_code"] == ErrorCode.NOT_COORDINATOR
        assert beat(live, -1)["error_code"] == ErrorCode.NOT_COORDINATOR
        live.clock.now_ms += 60_000
        live.broker.sweep()
    assert live.ask("Heartbeat", 3, group_id="static", **names)["error_code"] in {0, ErrorCode.UNKNOWN_MEMBER_ID}
    assert beat(live, epoch)["error_code"] == 0, "its removal could not be written"
    (described,) = live.ask("ConsumerGroupDescribe", 1, group_ids=["g"], include_authorized_operations=False)["groups"]
    assert [each["member_id"] for each in described["members"]] == ["m"]


def test_the_record_of_a_group_says_when_it_lost_its_last_member(live: Live) -> None:
    member = join(live, "g")
    live.clock.now_ms += 5_000
    leave(live, member)
    values = [found[1] for key, value in records(live) if value is not None and (found := decode_group(key, value))]
    assert [(each.state_ms, len(each.members)) for each in values if each] == [
        (live.clock.now_ms - 5_000, 1),
        (live.clock.now_ms, 0),
    ]


# --- which offsets expire ---------------------------------------------------------------------------------------------
def test_offsets_age_from_when_their_group_became_empty(live: Live) -> None:
    member = join(live, "g")
    assert commit_offset(live, "g", "t", 4, member_id=member, generation_id_or_member_epoch=1) == 0
    live.clock.now_ms += 8 * DAY_MS
    live.broker.expire_offsets()
    assert committed(live, "g", "t") == (4, 0), "a member reads the topic"
    leave(live, member)
    live.clock.now_ms += 7 * DAY_MS - 1
    live.broker.expire_offsets()
    assert committed(live, "g", "t") == (4, 0)
    live.clock.now_ms += 1
    live.broker.expire_offsets()
    assert committed(live, "g", "t") == (-1, 0)
    assert listed(live) == {}, "nothing is left of the group"


def test_a_group_without_members_and_offsets_is_deleted(live: Live) -> None:
    leave(live, join(live, "g"))
    beat(live, group_id="new")
    beat(live, -1, group_id="new")
    beat(live, group_id="used")
    assert listed(live).keys() == {"g", "new", "used"}
    live.broker.expire_offsets()
    assert listed(live).keys() == {"used"}


def test_a_commit_may_say_how_long_it_is_kept(live: Live) -> None:
    place = {"partition_index": 0, "committed_offset": 4, "committed_metadata": ""}
    for group, days in (("long", 30), ("short", 1)):
        answer = live.ask(
            "OffsetCommit",
            2,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            retention_time_ms=days * DAY_MS,
            topics=[{"name": "t", "partitions": [place]}],
        )
        assert answer["topics"][0]["partitions"][0]["error_code"] == 0
    live.clock.now_ms += 2 * DAY_MS
    live.broker.expire_offsets()
    live.clock.now_ms += 6 * DAY_MS
    live.broker.expire_offsets()
    assert (committed(live, "long", "t"), committed(live, "short", "t")) == ((4, 0), (-1, 0))


def test_offsets_of_an_open_transaction_keep_those_that_are_there(live: Live) -> None:
    payer = Payer(live)
    commit_offset(live, "g", "t", 1)
    payer.commit_offsets("g", "t", 3)
    live.clock.now_ms += 8 * DAY_MS
    live.broker.expire_offsets()
    assert committed(live, "g", "t") == (1, 0)


# --- who may commit, fetch and delete offsets -------------------------------------------------------------------------
def test_members_of_kip_848_are_checked(live: Live) -> None:
    epoch = beat(live)["member_epoch"]
    names = {"member_id": "m", "generation_id_or_member_epoch": epoch}
    assert commit_offset(live, "g", "t", 4, **names) == ErrorCode.UNSUPPORTED_VERSION
    place = {"partition_index": 0, "committed_offset": 4, "committed_leader_epoch": -1, "committed_metadata": ""}
    topics = [{"name": "t", "partitions": [place]}]
    answer = live.ask("OffsetCommit", 9, group_id="g", group_instance_id=None, topics=topics, **names)
    assert answer["topics"][0]["partitions"][0]["error_code"] == 0
    for member, offered, code in (
        ("m", epoch, 0),
        ("m", epoch + 5, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", epoch, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, -1, 0),
    ):
        group = {"group_id": "g", "member_id": member, "member_epoch": offered}
        group["topics"] = [{"name": "t", "partition_indexes": [0]}]
        (found,) = live.ask("OffsetFetch", 9, groups=[group], require_stable=False)["groups"]
        assert found["error_code"] == code
        assert bool(found["topics"]) == (not code)
    deleted = live.ask("OffsetDelete", 0, group_id="g", topics=OF_T)
    assert deleted["topics"][0]["partitions"][0]["error_code"] == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert committed(live, "g", "t") == (4, 0)


def test_a_group_without_offsets_is_one_to_delete_offsets_of(live: Live) -> None:
    beat(live)
    assert live.ask("OffsetDelete", 0, group_id="g", topics=OF_T)["error_code"] == 0
    assert live.ask("OffsetDelete", 0, group_id="no", topics=OF_T)["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_a_former_topic_are_not_those_of_its_successor(live: Live) -> None:
    live.create("u")
    topic_id = live.disks.topic_id("u")
    assert topic_id is not None
    place = {"partition_index": 0, "committed_offset": 4, "committed_leader_epoch": -1, "committed_metadata": ""}
    body = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    answer = live.ask("OffsetCommit", 10, topics=[{"topic_id": topic_id, "partitions": [place]}], **body)
    assert answer["topics"][0]["partitions"][0]["error_code"] == 0
    wanted = {"group_id": "g", "member_id": None, "member_epoch": -1}
    wanted["topics"] = [{"topic_id": topic_id, "partition_indexes": [0]}]
    (found,) = live.ask("OffsetFetch", 10, groups=[wanted], require_stable=False)["groups"]
    assert found["topics"][0]["partitions"][0]["committed_offset"] == 4


def test_a_transaction_may_commit_offsets_while_members_are_assigned(live: Live) -> None:
    member = join(live, "g")
    body = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": member,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"other"}],
    }
    live.send("JoinGroup", 5, **body)
    live.broker.sweep()
    assert described_group(live, "g")[0] == "CompletingRebalance"
    payer = Payer(live)
    live.ask("AddOffsetsToTxn", 3, group_id="g", **payer.identity)
    place = {"partition_index": 0, "committed_offset": 3, "committed_leader_epoch": -1, "committed_metadata": ""}
    names = {"generation_id_or_member_epoch": 2, "member_id": member, "group_instance_id": None}
    answer = live.ask(
        "TxnOffsetCommit",
        3,
        group_id="g",
        topics=[{"name": "t", "partitions": [place]}],
        **names,
        **payer.identity,
    )
    assert answer["topics"][0]["partitions"][0]["error_code"] == 0
    assert commit_offset(live, "g", "t", 4, **names) == ErrorCode.REBALANCE_IN_PROGRESS


# --- offsets of transactions ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(("plain_is_later", "wanted"), [(True, 20), (False, 3)])
def test_the_later_record_counts_when_a_transaction_ends(
    tmp_path: Path, plain_is_later: bool, wanted: int, restarts: bool
) -> None:
    with living(tmp_path) as live:
        live.create("t")
        payer = Payer(live)
        if not plain_is_later:
            assert commit_offset(live, "g", "t", 20) == 0
        payer.commit_offsets("g", "t", 3)
        if plain_is_later:
            assert commit_offset(live, "g", "t", 20) == 0
        assert payer.end(is_commit=True) == 0
        assert restarts or committed(live, "g", "t") == (wanted, 0)
    if restarts:
        with living(tmp_path) as live:
            assert committed(live, "g", "t") == (wanted, 0)


def test_offsets_of_a_deleted_group_do_not_come_back_with_the_end_of_a_transaction(live: Live) -> None:
    payer = Payer(live)
    commit_offset(live, "g", "t", 1)
    payer.commit_offsets("g", "t", 3)
    assert live.ask("DeleteGroups", 1, groups_names=["g"])["results"][0]["error_code"] == 0
    assert committed(live, "g", "t", is_stable=True) == (-1, 0)
    payer.end(is_commit=True)
    assert committed(live, "g", "t") == (-1, 0)


# --- regular expressions and assignors --------------------------------------------------------------------------------
@pytest.mark.parametrize("pattern", [r"(a)\1", "a(?=b)", "a(?!b)", "(", "*"])
def test_what_re2_does_not_know_is_refused(live: Live, pattern: str) -> None:
    assert by_pattern(live, pattern)["error_code"] == ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize("pattern", ["a{99999999999999999999}", "(" * 5000 + ")" * 5000, "(a+)+" * 200, "\0"])
def test_an_odd_pattern_gets_an_answer(live: Live, pattern: str) -> None:
    live.create("a" * 200 + "-")
    assert by_pattern(live, pattern)["error_code"] in {0, ErrorCode.INVALID_REGULAR_EXPRESSION}


def test_patterns_are_those_of_re2(live: Live) -> None:
    assert by_pattern(live, "[[:alpha:]]")["assignment"]["topic_partitions"]


@pytest.mark.parametrize("seed", range(5))
def test_members_of_different_subscriptions_get_as_equal_shares_as_can_be(seed: int) -> None:
    chance = random.Random(seed)
    counts = {f"t{number}": chance.randint(1, 60) for number in range(8)}
    members = {
        f"m{number:03}": Subscriber(frozenset(chance.sample(sorted(counts), chance.randint(1, 8))), frozenset())
        for number in range(chance.randint(1, 60))
    }
    found = ASSIGNORS["uniform"](members, counts)
    for giver, places in found.items():
        for taker, each in members.items():
            if len(places) - len(found[taker]) > 1:
                assert not any(topic in each.topics for topic, _ in places), (giver, taker)


def test_a_subscription_that_cannot_be_read_may_be_of_any_topic(live: Live) -> None:
    body = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "group_instance_id": "one",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": struct.pack(">hi", 0, 7)}],
    }
    joined = live.send("JoinGroup", 5, **body)
    assert isinstance(joined, PendingAnswer)
    live.broker.sweep()
    answer = live.ask("OffsetDelete", 0, group_id="g", topics=OF_T)
    assert answer["topics"][0]["partitions"][0]["error_code"] == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
