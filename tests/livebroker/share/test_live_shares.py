"""Share groups of a live broker without sockets: members, sessions, records, offsets, settings, and a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.errors import SettingError, StorageError
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.livebroker.disks.live_settings import LiveSettings
from kafkalog_core.livebroker.groups.group_configs import milliseconds_of
from kafkalog_core.livebroker.share.share_sessions import SessionKey, SessionObserver, ShareSessions
from kafkalog_core.livebroker.transactions.coordinator_logs import CoordinatorLog
from kafkalog_core.serve.groups.assignors import Subscriber, share_assignment
from kafkalog_core.serve.logs.partition_access import PartitionError
from kafkalog_core.serve.network.answers import NO_OBSERVER, CloseReason, PendingAnswer, Reply
from kafkalog_core.serve.topics.traffic import Traffic
from kafkalog_core.storage.framing import LogFraming
from kafkalog_core.wire.codec import codec
from kafkalog_core.wire.error_codes import ErrorCode
from tests.serve.groups.group_requests import join
from tests.support.asking import FROM
from tests.support.live_state import Live, Payer, batch_of, living, sent_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalog_core.serve.network.answers import Answer

pytestmark = pytest.mark.live

STATE: Final = "share.coordinator.state.topic.num.partitions=2"
EARLIEST: Final = {"share.auto.offset.reset": "earliest"}
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
HEADER: Final = 5  # correlation id, and no tagged fields
Acquired = list[tuple[int, int, int]]


class Member:
    """A member of group g that reads partition 0 of topic t."""

    def __init__(self, live: Live, name: str = "m", topic: str = "t", group: str = "g") -> None:
        self.live, self.name, self.group = live, name, group
        self.topic_id = live.disks.topic_id(topic)
        self.joined = self.beat(0, subscribed_topic_names=[topic])
        self.epoch = 0

    def beat(self, epoch: int, **fields: Any) -> dict[str, Any]:
        """A heartbeat."""
        body = {"group_id": self.group, "member_id": self.name, "member_epoch": epoch, "rack_id": None}
        return self.live.ask("ShareGroupHeartbeat", 1, **(body | {"subscribed_topic_names": None} | fields))

    def _topics(self, batches: list[tuple[int, int, list[int]]]) -> list[dict[str, Any]]:
        rows = [
            {"first_offset": first, "last_offset": last, "acknowledge_types": kinds} for first, last, kinds in batches
        ]
        return [{"topic_id": self.topic_id, "partitions": [{"partition_index": 0, "acknowledgement_batches": rows}]}]

    def send(self, *batches: tuple[int, int, list[int]], epoch: int | None = None, **fields: Any) -> Answer:
        """Send a fetch, with acknowledgements, in the session."""
        body = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch if epoch is None else epoch,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": self._topics(list(batches)) if batches or not self.epoch else [],
            "forgotten_topics_data": [],
        }
        answer = self.live.send("ShareFetch", 2, **(body | fields))
        self.epoch += epoch is None
        return answer

    def fetch(self, *batches: tuple[int, int, list[int]], **fields: Any) -> dict[str, Any]:
        """The body of the response to a fetch."""
        return decoded(self.send(*batches, **fields))

    def take(self, *batches: tuple[int, int, list[int]], **fields: Any) -> Acquired:
        """What a fetch acquires."""
        return acquired(self.fetch(*batches, **fields))

    def say(self, *batches: tuple[int, int, list[int]], epoch: int | None = None, **fields: Any) -> int:
        """The error of an acknowledgement, of the request or of the partition."""
        body = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch if epoch is None else epoch,
            "topics": self._topics(list(batches)) if batches else [],
        }
        answer = self.live.ask("ShareAcknowledge", 2, **(body | fields))
        self.epoch += epoch is None
        if answer["error_code"] or not batches:
            code: int = answer["error_code"]
        else:
            code = answer["responses"][0]["partitions"][0]["error_code"]
        return code


def decoded(answer: Answer) -> dict[str, Any]:
    """The body of a response to ShareFetch."""
    body, _ = codec("ShareFetchResponse", 2).decode(sent_bytes(answer), HEADER)
    return body


def rows(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The partitions of a response."""
    assert body["error_code"] == 0, body
    return [row for topic in body["responses"] for row in topic["partitions"]]


def acquired(body: dict[str, Any]) -> Acquired:
    """What a response says is acquired, in any partition; the batches that it sends hold it."""
    found = []
    for row in rows(body):
        assert row["error_code"] == row["acknowledge_error_code"] == 0
        got = [(each["first_offset"], each["last_offset"], each["delivery_count"]) for each in row["acquired_records"]]
        if got:
            columns = BatchColumns(100)
            memory = memoryview(bytes(row["records"]))
            LogFraming(0).walk(memory, 0, -1, MAX_INT64, check=False, into=columns)
            firsts, lasts = columns.column("base_offset"), columns.column("last_offset")
            assert firsts[0] <= got[0][0] <= lasts[0]
            assert firsts[-1] <= got[-1][1] <= lasts[-1]
        found += got
    return found


def configure(live: Live, configs: dict[str, str], group: str = "g") -> tuple[int, str | None]:
    """Change settings of a group."""
    rows = [{"name": name, "config_operation": 0, "value": value} for name, value in configs.items()]
    resource = {"resource_type": 32, "resource_name": group, "configs": rows}
    answer = live.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
    (row,) = answer["responses"]
    return row["error_code"], row["error_message"]


def offset(live: Live, group: str = "g", topic: str = "t") -> tuple[int, int]:
    """Start offset and lag of partition 0."""
    topics = [{"topic_name": topic, "partitions": [0]}]
    answer = live.ask("DescribeShareGroupOffsets", 1, groups=[{"group_id": group, "topics": topics}])
    row = answer["groups"][0]["topics"][0]["partitions"][0]
    assert row["error_code"] == 0
    return row["start_offset"], row["lag"]


def described(live: Live, group: str = "g") -> dict[str, Any]:
    """A group."""
    answer = live.ask("ShareGroupDescribe", 1, group_ids=[group], include_authorized_operations=False)
    found: dict[str, Any] = answer["groups"][0]
    return found


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """A live broker with topic t, of which group g reads all."""
    with living(tmp_path, None, STATE) as found:
        found.create("t")
        assert configure(found, EARLIEST) == (0, None)
        yield found


def produce(live: Live, *sizes: int) -> None:
    """Append batches of so many records."""
    for size in sizes:
        assert live.produce("t", batch_of(*[b"x"] * size))["error_code"] == 0


# --- members ----------------------------------------------------------------------------------------------------------
def test_members_share_partitions_and_leave(live: Live) -> None:
    first, second = Member(live, "a"), Member(live, "b")
    wanted = [{"topic_id": first.topic_id, "partitions": [0]}]
    for each in (first, second):
        assert [
            {**row, "topic_id": bytes(row["topic_id"])} for row in each.joined["assignment"]["topic_partitions"]
        ] == wanted
    assert (first.joined["member_epoch"], second.joined["member_epoch"]) == (1, 2)
    beat = first.beat(1)
    assert (beat["error_code"], beat["member_epoch"], beat["assignment"]) == (0, 2, None)
    assert first.beat(7)["error_code"] == ErrorCode.FENCED_MEMBER_EPOCH
    group = described(live)
    assert (group["group_state"], group["group_epoch"], group["assignor_name"]) == ("Stable", 2, "simple")
    assert [each["member_id"] for each in group["members"]] == ["a", "b"]
    assert first.beat(-1)["error_code"] == 0
    assert first.beat(2)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    live.clock.now_ms += 45_000
    live.broker.sweep()
    assert described(live)["group_state"] == "Empty"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": []}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 3}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "h", "member_epoch": 3}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"group_id": "h", "member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_heartbeats_are_refused_as_brokers_refuse_them(live: Live, fields: dict[str, Any], code: ErrorCode) -> None:
    Member(live)
    body = {"group_id": "g", "member_id": "x", "member_epoch": 0, "rack_id": None, "subscribed_topic_names": ["t"]}
    assert live.ask("ShareGroupHeartbeat", 1, **(body | fields))["error_code"] == code


def test_new_partitions_and_topics_are_assigned(live: Live) -> None:
    member = Member(live)
    topics = [{"name": "t", "count": 3, "assignments": None}]
    live.ask("CreatePartitions", 3, topics=topics, timeout_ms=1000, validate_only=False)
    rows = member.beat(1)["assignment"]["topic_partitions"]
    assert [each["partitions"] for each in rows] == [[0, 1, 2]]
    member.beat(2, subscribed_topic_names=["t", "later"])
    live.create("later")
    assert len(member.beat(3)["assignment"]["topic_partitions"]) == 2
    live.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=1000)
    assert len(member.beat(4)["assignment"]["topic_partitions"]) == 1
    assert offset(live)[0] == -1


def test_a_name_is_that_of_one_kind_of_group(live: Live) -> None:
    Member(live)
    assert live.ask("ListGroups", 5, states_filter=[], types_filter=["share"])["groups"] == [
        {"group_id": "g", "protocol_type": "share", "group_state": "Stable", "group_type": "share"}
    ]
    with pytest.raises(AssertionError):
        join(live, "g")
    join(live, "classic")
    assert Member(live, group="classic").joined["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND
    assert described(live, "classic")["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND


# --- fetch ------------------------------------------------------------------------------------------------------------
def test_records_are_acquired_accepted_and_not_delivered_again(live: Live) -> None:
    member = Member(live)
    produce(live, 3, 3)
    assert member.take(max_records=2) == [(0, 2, 1)]
    assert member.take((0, 1, [ACCEPT]), (2, 2, [RELEASE])) == [(2, 2, 2), (3, 5, 1)]
    assert offset(live) == (2, 4)
    assert member.say((2, 5, [ACCEPT, REJECT, ACCEPT, 0])) == 0
    assert offset(live) == (6, 0)
    assert member.take() == []
    assert member.say((2, 5, [ACCEPT])) == 0  # what is done with may be acknowledged again


def test_a_new_group_begins_at_the_end(live: Live) -> None:
    produce(live, 3)
    member = Member(live, group="h")
    assert member.take() == []
    produce(live, 2)
    assert member.take() == [(3, 4, 1)]


def test_a_new_group_begins_at_a_time(live: Live) -> None:
    assert configure(live, {"share.auto.offset.reset": "by_duration:PT1H"})[0] == 0
    live.produce("t", batch_of(b"old", time_ms=live.clock.now_ms - 2 * 3_600_000))
    member = Member(live)
    assert [row["error_code"] for row in rows(member.fetch())] == [ErrorCode.OFFSET_NOT_AVAILABLE]
    live.produce("t", batch_of(b"new", time_ms=live.clock.now_ms))
    assert member.take() == [(1, 1, 1)]


def test_locks_end_and_records_that_nobody_accepts_are_archived(live: Live) -> None:
    member = Member(live)
    produce(live, 1)
    for count in range(1, 6):
        assert member.take() == [(0, 0, count)]
        live.clock.now_ms += 29_999
        live.broker.sweep()
        assert member.take() == []
        live.clock.now_ms += 1
        live.broker.sweep()
    assert member.take() == []
    assert offset(live) == (1, 0)


def test_locks_are_renewed(live: Live) -> None:
    member = Member(live)
    produce(live, 1)
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0}
    assert member.take() == [(0, 0, 1)]
    live.clock.now_ms += 20_000
    assert member.say((0, 0, [RENEW])) == ErrorCode.INVALID_REQUEST
    assert member.say((0, 0, [RENEW]), is_renew_ack=True) == 0
    live.clock.now_ms += 20_000
    live.broker.sweep()
    assert member.take((0, 0, [RENEW]), is_renew_ack=True, **nothing) == []
    assert member.fetch((0, 0, [RENEW]), is_renew_ack=True, epoch=9)["error_code"] == ErrorCode.INVALID_REQUEST
    assert configure(live, {"share.renew.acknowledge.enable": "false"})[0] == 0
    assert member.say((0, 0, [RENEW]), is_renew_ack=True) == ErrorCode.INVALID_RECORD_STATE
    assert member.say((0, 0, [ACCEPT])) == 0


def test_a_fetch_waits_for_an_append_or_a_release(live: Live) -> None:
    first, second = Member(live, "a"), Member(live, "b")
    waiting = first.send(max_wait_ms=1000)
    assert isinstance(waiting, PendingAnswer)
    produce(live, 2)
    assert acquired(decoded(waiting)) == [(0, 1, 1)]
    waiting = second.send(max_wait_ms=1000)
    assert isinstance(waiting, PendingAnswer)
    assert waiting.take(live.clock.seconds()) is None
    assert first.say((1, 1, [RELEASE])) == 0
    assert acquired(decoded(waiting)) == [(1, 1, 2)]
    late, abandoned = first.send(max_wait_ms=1000), second.send(max_wait_ms=1000)
    assert isinstance(late, PendingAnswer)
    assert isinstance(abandoned, PendingAnswer)
    abandoned.abandon()
    answer = late.take(live.clock.seconds() + 2)
    assert isinstance(answer, Reply)
    assert acquired(decoded(answer)) == []
    produce(live, 1)
    assert first.take() == [(2, 2, 1)]


def test_a_fetch_waits_for_as_many_bytes_as_it_wants(live: Live) -> None:
    member = Member(live)
    produce(live, 1)
    waiting = member.send(max_wait_ms=1000, min_bytes=100)
    assert isinstance(waiting, PendingAnswer)
    assert waiting.take(live.clock.seconds()) is None
    produce(live, 1)
    assert acquired(decoded(waiting)) == [(0, 1, 1)]


def test_a_fetch_over_the_quota_is_answered_without_records_and_counts_by_topic_once_it_has_them(
    tmp_path: Path,
) -> None:
    """`KafkaApis.processShareFetchResponse`: what is throttled is not counted, acknowledgements are answered."""
    traffic = Traffic()
    with living(tmp_path, None, STATE, traffic=traffic) as live:
        live.create("t")
        assert configure(live, EARLIEST) == (0, None)
        for _ in range(3):
            live.produce("t", batch_of(b"x" * 60_000))
        entity = [{"entity_type": "user", "entity_name": None}]
        operations = [{"key": "consumer_byte_rate", "value": 10_000.0, "remove": False}]
        live.ask("AlterClientQuotas", 1, entries=[{"entity": entity, "ops": operations}], validate_only=False)
        member, other = Member(live, "a"), Member(live, "b")
        assert member.take(max_records=1) == [(0, 0, 1)]
        sent = traffic.counts().topics["t"]
        assert (sent.fetches, 60_000 < sent.bytes_out < 60_200) == (1, True)
        answer = member.send((0, 0, [ACCEPT]), max_records=1)
        assert isinstance(answer, Reply)
        assert answer.mute_s == pytest.approx(2, rel=0.1)
        body = decoded(answer)
        assert body["throttle_time_ms"] == round(answer.mute_s * 1000)
        assert [(bytes(row["records"]), row["acquired_records"]) for row in rows(body)] == [(b"", [])]
        assert rows(body)[0]["acknowledge_error_code"] == ErrorCode.NONE
        assert offset(live)[0] == 1, "it was accepted"
        assert traffic.counts().topics["t"] == sent
        waiting = other.send(max_records=1, max_wait_ms=500, min_bytes=1 << 20)
        assert isinstance(waiting, Reply), "enough for the quota is enough"
        assert waiting.mute_s > 0
        live.clock.now_ms += 11_000
        assert other.take(max_records=1) == [(1, 1, 1)], "its records were given back"
        assert traffic.counts().topics["t"].fetches == 2


def test_a_fetch_of_kafkas_own_topic_is_answered_at_its_deadline(live: Live) -> None:
    other = Member(live)
    produce(live, 1)
    assert other.take() == [(0, 0, 1)]
    member = Member(live, topic="__share_group_state", group="h")
    waiting = member.send(max_wait_ms=1000)
    assert isinstance(waiting, PendingAnswer)
    assert other.say((0, 0, [ACCEPT])) == 0
    assert waiting.take(live.clock.seconds()) is None
    answer = waiting.take(live.clock.seconds() + 2)
    assert isinstance(answer, Reply)
    assert decoded(answer)["error_code"] == 0


def test_the_first_fetch_sends_what_is_there_first(live: Live) -> None:
    topics = [{"name": "t", "count": 2, "assignments": None}]
    live.ask("CreatePartitions", 3, topics=topics, timeout_ms=1000, validate_only=False)
    member = Member(live)
    for number in range(2):
        live.produce("t", batch_of(b"x"), number)
    wanted = [{"partition_index": number, "acknowledgement_batches": []} for number in range(2)]
    first = rows(member.fetch(topics=[{"topic_id": member.topic_id, "partitions": wanted}]))
    second = rows(member.fetch())
    assert [[row["partition_index"] for row in answer] for answer in (first, second)] == [[0], [1]]
    for number in range(2):
        live.produce("t", batch_of(b"x"), number)
    assert [row["partition_index"] for row in rows(member.fetch())] == [0, 1]


def test_a_strict_member_gets_part_of_a_batch(live: Live) -> None:
    first, second = Member(live, "a"), Member(live, "b")
    produce(live, 10)
    assert first.take(max_records=4, share_acquire_mode=1) == [(0, 3, 1)]
    assert second.take(max_records=4) == [(4, 9, 1)]


def test_the_limit_of_records_in_flight(live: Live) -> None:
    assert configure(live, {"share.partition.max.record.locks": "100"})[0] == 0
    first, second = Member(live, "a"), Member(live, "b")
    produce(live, 60, 60, 60)
    assert first.take() == [(0, 119, 1)]
    assert second.take() == []
    assert first.say((0, 59, [ACCEPT])) == 0
    assert second.take() == [(120, 179, 1)]


def test_records_that_are_deleted_are_not_delivered(live: Live) -> None:
    member = Member(live)
    produce(live, 2, 2)
    assert member.take(max_records=1) == [(0, 1, 1)]
    partition = {"partition_index": 0, "offset": 3}
    live.ask("DeleteRecords", 2, topics=[{"name": "t", "partitions": [partition]}], timeout_ms=1000)
    assert member.take((0, 1, [ACCEPT])) == [(3, 3, 1)]


def test_read_committed_groups_get_no_aborted_records(live: Live) -> None:
    assert configure(live, {"share.isolation.level": "read_committed"})[0] == 0
    member, other = Member(live), Member(live, group="h")
    assert other.take() == []
    payer = Payer(live)
    for is_commit in (False, True, False):
        payer.add("t")
        payer.send("t", b"a", b"b")
        payer.end(is_commit=is_commit)
    payer.add("t")
    payer.send("t", b"open")
    got = member.take()
    assert got == [(2, 5, 1), (8, 8, 1)]  # 2, 5 and 8 are markers, which clients skip
    assert member.say((2, 5, [ACCEPT]), (8, 8, [ACCEPT])) == 0
    assert other.take() == [(0, 9, 1)]
    payer.end(is_commit=False)
    assert member.take() == [(10, 10, 1)]


def test_many_aborted_records_are_passed_over(live: Live) -> None:
    assert configure(live, {"share.isolation.level": "read_committed"})[0] == 0
    member, payer = Member(live), Payer(live)
    payer.add("t")
    for _ in range(3):
        payer.send("t", b"x" * 700_000)
    payer.end(is_commit=False)
    produce(live, 1)
    assert member.take() == [(3, 4, 1)]


# --- sessions ---------------------------------------------------------------------------------------------------------
def test_sessions_have_epochs(live: Live) -> None:
    member = Member(live)
    assert member.fetch(epoch=3)["error_code"] == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert member.fetch((0, 0, [ACCEPT]), epoch=0)["error_code"] == ErrorCode.INVALID_REQUEST
    assert member.say((0, 0, [ACCEPT]), epoch=0) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.take() == []
    assert member.fetch(epoch=7)["error_code"] == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.say(epoch=7) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.say() == 0
    assert member.fetch(group_id=None)["error_code"] == ErrorCode.INVALID_REQUEST
    assert member.fetch(member_id="")["error_code"] == ErrorCode.INVALID_REQUEST


def test_the_end_of_a_session_releases_what_it_has(live: Live) -> None:
    first, second = Member(live, "a"), Member(live, "b")
    produce(live, 2, 2)
    assert first.take(max_records=1) == [(0, 1, 1)]
    assert first.take((0, 0, [ACCEPT]), epoch=-1) == []
    assert second.take() == [(1, 1, 2), (2, 3, 1)]
    assert second.say((1, 1, [ACCEPT]), epoch=-1) == 0
    assert second.say(epoch=-1) == ErrorCode.SHARE_SESSION_NOT_FOUND
    first.epoch = 0
    assert first.take() == [(2, 3, 2)]
    forget = [{"topic_id": first.topic_id, "partitions": [0]}]
    assert first.take((2, 3, [RELEASE]), forgotten_topics_data=forget) == []


@pytest.mark.parametrize(
    "batches",
    [
        [(1, 0, [ACCEPT])],
        [(0, 1, [])],
        [(0, 1, [ACCEPT, ACCEPT, ACCEPT])],
        [(0, 1, [5])],
        [(0, 1, [ACCEPT]), (0, 1, [ACCEPT])],
    ],
)
def test_acknowledgements_that_are_not_valid(live: Live, batches: list[tuple[int, int, list[int]]]) -> None:
    member = Member(live)
    produce(live, 2)
    member.take()
    assert member.say(*batches) == ErrorCode.INVALID_REQUEST
    assert member.say((0, 1, [ACCEPT])) == 0


def test_unknown_topics_are_reported(live: Live) -> None:
    member = Member(live)
    member.topic_id = bytes(15) + b"\1"
    assert [row["error_code"] for row in rows(member.fetch())] == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert member.say((0, 0, [ACCEPT])) == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_session_ends_with_its_connection() -> None:
    sessions = ShareSessions()
    observer = SessionObserver(sessions, NO_OBSERVER)
    observer.connection_opened(FROM)
    for name in "ab":
        assert sessions.fetch(
            SessionKey("g", name), 0, FROM.connection_id, added=[(b"t", 0)], forgotten=[], has_acknowledgements=False
        ) == [(b"t", 0)]
    sessions.close(SessionKey("g", "b"))
    observer.connection_closed(FROM, CloseReason.PEER, "", None)
    assert sessions.take_closed() == [SessionKey("g", "a")]
    assert sessions.take_closed() == []
    with pytest.raises(PartitionError):
        sessions.acknowledge(SessionKey("g", "a"), 1)


# --- offsets and groups -----------------------------------------------------------------------------------------------
def alter(live: Live, start: int, group: str = "g", topic: str = "t") -> tuple[int, int]:
    """Set the start offset of partition 0."""
    topics = [{"topic_name": topic, "partitions": [{"partition_index": 0, "start_offset": start}]}]
    answer = live.ask("AlterShareGroupOffsets", 0, group_id=group, topics=topics)
    parts = [each["error_code"] for topic in answer["responses"] for each in topic["partitions"]]
    return answer["error_code"], parts[0] if parts else -1


def drop(live: Live, group: str = "g", topic: str = "t") -> tuple[int, int]:
    """Delete the offsets of a topic."""
    answer = live.ask("DeleteShareGroupOffsets", 0, group_id=group, topics=[{"topic_name": topic}])
    return answer["error_code"], answer["responses"][0]["error_code"] if answer["responses"] else -1


def test_offsets_are_set_and_deleted(live: Live) -> None:
    produce(live, 4, 4)
    member = Member(live)
    assert member.take(max_records=1) == [(0, 3, 1)]
    assert alter(live, 6) == drop(live) == (ErrorCode.NON_EMPTY_GROUP, -1)
    member.beat(-1)
    assert alter(live, 6) == (0, 0)
    assert offset(live) == (6, 2)
    assert Member(live, "n").take() == [(6, 7, 1)]
    Member(live, "n").beat(-1)
    assert alter(live, 0, topic="nowhere") == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert drop(live, topic="nowhere") == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert drop(live) == (0, 0)
    assert offset(live) == (-1, -1)
    assert drop(live) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert Member(live, "o").take() == [(0, 7, 1)]


def test_a_group_that_is_not_there_gets_offsets(live: Live) -> None:
    produce(live, 4)
    assert drop(live, "new") == (ErrorCode.GROUP_ID_NOT_FOUND, -1)
    assert alter(live, 2, "new") == (0, 0)
    answer = live.ask("DescribeShareGroupOffsets", 1, groups=[{"group_id": "new", "topics": None}])
    assert [topic["topic_name"] for topic in answer["groups"][0]["topics"]] == ["t"]
    assert Member(live, group="new").take() == [(2, 3, 1)]
    join(live, "classic")
    assert alter(live, 2, "classic") == (ErrorCode.GROUP_ID_NOT_FOUND, -1)


def test_groups_are_deleted(live: Live) -> None:
    member = Member(live)
    produce(live, 1)
    member.take()

    def delete() -> int:
        code: int = live.ask("DeleteGroups", 2, groups_names=["g"])["results"][0]["error_code"]
        return code

    assert delete() == ErrorCode.NON_EMPTY_GROUP
    member.beat(-1)
    assert delete() == 0
    assert delete() == ErrorCode.GROUP_ID_NOT_FOUND
    assert offset(live) == (-1, -1)


# --- settings ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.auto.offset.reset", "none"),
        ("share.auto.offset.reset", "by_duration:1h"),
        ("share.isolation.level", "serializable"),
        ("share.record.lock.duration.ms", "14999"),
        ("share.record.lock.duration.ms", "60001"),
        ("share.delivery.count.limit", "many"),
        ("share.assignment.interval.ms", "1"),
        ("retention.ms", "1"),
    ],
)
def test_settings_that_no_group_can_have(live: Live, name: str, value: str) -> None:
    assert configure(live, {name: value})[0] == ErrorCode.INVALID_CONFIG


def test_settings_of_groups_are_shown(live: Live) -> None:
    resource = {"resource_type": 32, "resource_name": "g", "configuration_keys": None}
    answer = live.ask("DescribeConfigs", 4, resources=[resource], include_synonyms=False, include_documentation=False)
    found = {each["name"]: (each["value"], each["config_source"]) for each in answer["results"][0]["configs"]}
    assert found["share.auto.offset.reset"] == ("earliest", 8)
    assert found["share.record.lock.duration.ms"] == ("30000", 5)


def test_durations() -> None:
    assert milliseconds_of("by_duration:P1DT2H3M4.5S") == 93_784_500
    assert milliseconds_of("by_duration:PT0.001S") == 1
    assert [milliseconds_of(each) for each in ("by_duration:P", "by_duration:PT", "PT1S", "by_duration:P1H")] == [
        None
    ] * 4


def test_settings_of_the_broker_that_contradict_each_other(tmp_path: Path) -> None:
    assert LiveSettings.of(["group.share.record.lock.duration.ms=2000"])
    with (
        pytest.raises(SettingError, match=r"group\.share\.record\.lock\.duration\.ms=2000 is not between"),
        living(tmp_path, None, "group.share.record.lock.duration.ms=2000"),
    ):
        pass


# --- the log ----------------------------------------------------------------------------------------------------------
def test_groups_go_on_after_a_restart(tmp_path: Path) -> None:
    with living(tmp_path, None, STATE) as live:
        live.create("t", 1)
        configure(live, EARLIEST)
        member = Member(live)
        produce(live, 4, 4)
        assert member.take() == [(0, 7, 1)]
        assert member.say((2, 2, [RELEASE]), (3, 4, [ACCEPT]), (6, 6, [REJECT])) == 0
        before, clock = described(live), live.clock
    with living(tmp_path, clock, STATE) as live:
        assert described(live) == before
        assert offset(live) == (0, 5)
        member = Member(live)
        assert member.take() == [(0, 1, 1), (2, 2, 2), (5, 5, 1), (7, 7, 1)]
        assert member.say((0, 2, [ACCEPT]), (5, 5, [ACCEPT]), (7, 7, [ACCEPT])) == 0
        assert offset(live) == (8, 0)
        member.beat(-1)
        live.ask("DeleteGroups", 2, groups_names=["g"])
        configs = live.disks.topic_configs("__share_group_state")
        assert (configs["cleanup.policy"], configs["retention.ms"]) == ("delete", "-1")
    with living(tmp_path, clock, STATE) as live:
        assert described(live)["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND
        assert offset(live) == (-1, -1)
        assert live.disks.group_configs("g") == EARLIEST


def test_what_cannot_be_written_has_not_happened(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    member = Member(live)
    produce(live, 2)
    assert member.take() == [(0, 1, 1)]

    def fail(*_: object, **__: object) -> int:
        raise StorageError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(CoordinatorLog, "append", fail)
        assert member.say((0, 1, [ACCEPT])) == ErrorCode.KAFKA_STORAGE_ERROR
        assert Member(live, "b").joined["error_code"] == ErrorCode.NOT_COORDINATOR
    assert [each["member_id"] for each in described(live)["members"]] == ["m"]
    assert member.say((0, 1, [ACCEPT])) == 0


def test_the_log_of_states_is_pruned(live: Live) -> None:
    member = Member(live)
    member.take()
    for number in range(520):
        produce(live, 1)
        member.take()
        assert member.say((number, number, [ACCEPT])) == 0
    tasks = live.broker._shares.tasks()
    ((_, prune),) = tasks.values()
    prune()
    logs = [live.disks.partition("__share_group_state", number) for number in range(2)]
    starts = [log.log_start_offset for log in logs if log is not None]
    assert max(starts) == 501  # the snapshot after the first one and 500 updates
    live.clock.now_ms += 300_000
    prune()
    assert max(log.log_start_offset for log in logs if log is not None) == 521
    assert offset(live) == (520, 0)


# --- the assignor -----------------------------------------------------------------------------------------------------
TOPICS: Final = st.frozensets(st.sampled_from("tuv"), min_size=1)
PLACES: Final = st.sets(st.tuples(st.sampled_from("tuv"), st.integers(0, 3)))


@given(st.dictionaries(st.sampled_from("abcdef"), st.tuples(TOPICS, PLACES)), PLACES)
def test_every_partition_has_a_member_that_wants_it(
    wishes: dict[str, tuple[frozenset[str], set[tuple[str, int]]]], places: set[tuple[str, int]]
) -> None:
    members = {name: Subscriber(topics, frozenset(former)) for name, (topics, former) in wishes.items()}
    found = share_assignment(members, places)
    assert found.keys() == members.keys()
    for name, taken in found.items():
        assert taken <= places
        assert {topic for topic, _ in taken} <= members[name].topics
    wanted = {place for place in places if any(place[0] in each.topics for each in members.values())}
    assert set().union(*found.values()) == wanted
    if len({each.topics for each in members.values()}) == 1 and wanted:
        sizes = [len(taken) for taken in found.values()]
        assert max(sizes) - min(sizes) <= 1
    again = share_assignment(
        {name: Subscriber(each.topics, frozenset(found[name])) for name, each in members.items()}, places
    )
    assert again == found
