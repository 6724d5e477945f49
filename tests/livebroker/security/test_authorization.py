"""What an authorizer lets clients of a live broker do, API by API, without sockets.

The cases are those of Kafka's AuthorizerIntegrationTest: what is refused without ACLs, and which ACLs let it pass.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from kafkalog_core.livebroker.cluster.acls import AclBinding, AclOperation, AclPermission
from kafkalog_core.livebroker.security.authorization import host_text
from kafkalog_core.serve.network import requests
from kafkalog_core.serve.network.answers import Close, ConnectionFacts, NoResponse, PendingAnswer, Reply
from kafkalog_core.structs import replace
from kafkalog_core.wire.error_codes import ErrorCode
from kafkalog_core.wire.frames import decode_request
from kafkalog_core.wire.schemas import apis
from tests.support.asking import response, send
from tests.support.authorization import (
    ALTER,
    ALTER_CONFIGS,
    ANY_ACL,
    CASES,
    CLUSTER,
    COMMIT,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    HEARTBEAT,
    IN_BATCH,
    OFFSET,
    READ,
    REFUSED,
    TOPIC,
    TXN,
    WRITE,
    Case,
    allow,
    case,
    fetch_body,
    produce_body,
    refusals,
)
from tests.support.live_state import Live, batch_of, living

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STANDARD: Final = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
NO_ID: Final = bytes(16)


class Client:
    """A client of a live broker that has proved to be a user."""

    def __init__(self, live: Live, user: str | None = "alice") -> None:
        self.live = live
        self.facts = ConnectionFacts(1, "127.0.0.1", 50000, "PLAINTEXT", 0, lambda: user)

    def may(self, *bindings: AclBinding) -> None:
        """Replace the ACLs of the cluster."""
        self.live.disks.change_acls((), self.live.disks.acls.by_id())
        self.live.disks.change_acls(bindings, ())

    def send(self, name: str, version: int, **body: Any) -> Any:
        return send(self.live.broker.dispatcher, name, version, body, self.facts)

    def ask(self, name: str, version: int, **body: Any) -> dict[str, Any]:
        answer = self.send(name, version, **body)
        if isinstance(answer, PendingAnswer):
            self.live.clock.now_ms += 60_000
            answer = answer.take(self.live.clock.seconds())
        assert isinstance(answer, Reply), answer
        return response(name, version, answer)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A client of a broker with a topic, whose only super user is admin."""
    with living(tmp_path, None, STANDARD, "super.users=User:admin") as live:
        found = Client(live)
        live.disks.create_topic("t", 1, {})
        yield found


SHARE_OFFSETS: Final = [{"topic_name": "t", "partitions": [{"partition_index": 0, "start_offset": 0}]}]
USER: Final = {"name": "u", "mechanism": 1}
CASES += [
    case(
        "DescribeClientQuotas",
        1,
        {"components": [{"entity_type": "user", "match_type": 1, "match": None}], "strict": False},
        [(CLUSTER, DESCRIBE_CONFIGS)],
    ),
    case(
        "AlterClientQuotas",
        1,
        {"validate_only": True} | {"entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}], "ops": []}]},
        [(CLUSTER, ALTER_CONFIGS)],
    ),
    case("DescribeUserScramCredentials", 0, {"users": []}, [(CLUSTER, DESCRIBE)]),
    case("AlterUserScramCredentials", 0, {"deletions": [USER], "upsertions": []}, [(CLUSTER, ALTER)]),
    case(
        "ShareGroupHeartbeat",
        1,
        {"group_id": "g", "member_id": "m", "member_epoch": 0, "rack_id": None, "subscribed_topic_names": ["t"]},
        [(GROUP, READ), (TOPIC, DESCRIBE)],
    ),
    case("ShareGroupDescribe", 1, {"group_ids": ["g"], "include_authorized_operations": True}, [(GROUP, DESCRIBE)]),
    case(
        "DescribeShareGroupOffsets",
        1,
        {"groups": [{"group_id": "g", "topics": [{"topic_name": "t", "partitions": [0]}]}]},
        [(GROUP, DESCRIBE), (TOPIC, DESCRIBE)],
    ),
    case("AlterShareGroupOffsets", 0, {"group_id": "g", "topics": SHARE_OFFSETS}, [(GROUP, READ), (TOPIC, READ)]),
]
SHARED: Final = {"ShareFetch", "ShareAcknowledge", "DeleteShareGroupOffsets"}
"""They need a session or a group: see the tests of share groups."""
SILENT: Final = {"DescribeCluster", "ListGroups", "ListTransactions"}
"""Nothing is refused: what a client may not see is left out."""
OPEN: Final = {"ApiVersions"}


def test_every_api_has_a_case(client: Client) -> None:
    served = {each["api_key"] for each in client.ask("ApiVersions", 0)["api_keys"]}
    named = {api.key for api in apis().values() if api.name in {each.name for each in CASES} | SHARED | SILENT | OPEN}
    assert named == served


@pytest.mark.parametrize("each", CASES, ids=lambda each: f"{each.name}-{each.version}")
def test_what_a_request_needs(client: Client, each: Case) -> None:
    for needs in each.needs:
        bindings = [allow(*need) for need in needs]
        for number, (kind, _) in enumerate(needs):
            client.may(*bindings[:number])
            expected = {REFUSED[kind if each.refused is None else each.refused]}
            assert refusals(client.ask(each.name, each.version, **each.body)) == expected
        client.may(*bindings)
        assert not refusals(client.ask(each.name, each.version, **each.body))
        client.may(*bindings, bindings[-1]._replace(permission=AclPermission.DENY, operation=AclOperation.ALL))
        assert refusals(client.ask(each.name, each.version, **each.body)), "DENY wins"
        client.may(*(binding._replace(principal="User:bob") for binding in bindings))
        assert refusals(client.ask(each.name, each.version, **each.body)), "the ACL of somebody else"


def test_a_super_user_may_do_everything(client: Client) -> None:
    kinds = (TOPIC, GROUP, CLUSTER, TXN)
    denied = {"permission": AclPermission.DENY, "principal": "User:*", "operation": AclOperation.ALL}
    client.may(*(allow(kind, READ)._replace(**denied) for kind in kinds))
    admin = Client(client.live, "admin")
    for each in sorted(CASES, key=lambda each: ["Fetch", each.name, "DeleteTopics"].index(each.name)):
        assert not refusals(admin.ask(each.name, each.version, **each.body)), each


# --- what is left out silently, and what a response says --------------------------------------------------------------
def metadata(client: Client, *names: str, version: int = 10, **fields: Any) -> dict[str, Any]:
    """The topics in a response to Metadata, by name; no names: all topics."""
    topics = [{"name": each, "topic_id": NO_ID} for each in names] or None
    flags = {"allow_auto_topic_creation": False, "include_cluster_authorized_operations": False}
    body = {"topics": topics, "include_topic_authorized_operations": False} | flags | fields
    return {each["name"]: each for each in client.ask("Metadata", version, **body)["topics"]}


def test_topics_that_a_client_may_not_describe_are_not_listed(client: Client) -> None:
    client.live.disks.create_topic("hidden", 1, {})
    client.may(allow(TOPIC, READ))
    assert set(metadata(client)) == {"t"}
    assert {name: each["error_code"] for name, each in metadata(client, "t", "hidden", "none").items()} == {
        "t": 0,
        "hidden": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "none": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }, "whether a topic exists is not said"
    assert {each["topic_id"] for each in metadata(client, "hidden").values()} == {NO_ID}
    for page in (
        client.ask("DescribeTopicPartitions", 0, topics=[], cursor=None),
        client.ask("DescribeTopicPartitions", 0, topics=[], cursor=None, response_partition_limit=1),
    ):
        assert ([each["name"] for each in page["topics"]], page["next_cursor"]) == (["t"], None)
    client.may()
    assert client.ask("DescribeTopicPartitions", 0, topics=[], cursor=None)["topics"] == []
    assert metadata(client) == {}


def test_version_0_of_metadata_lists_nothing_instead_of_everything_if_all_names_are_refused(client: Client) -> None:
    (found,) = client.ask("Metadata", 0, topics=[{"name": "t"}])["topics"]
    assert (found["name"], found["error_code"]) == ("t", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert client.ask("Metadata", 0, topics=[])["topics"] == []


def test_ids_of_topics_are_answered_with_their_ids(client: Client) -> None:
    topic_id = client.live.disks.topic_id("t")
    assert topic_id is not None
    flags = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    body = {"topics": [{"name": None, "topic_id": each} for each in (topic_id, b"?" * 16)]} | flags
    known, unknown = sorted(client.ask("Metadata", 12, **body)["topics"], key=lambda each: each["error_code"])
    assert (known["error_code"], known["name"], known["topic_id"]) == (REFUSED[TOPIC], None, topic_id)
    assert (unknown["error_code"], unknown["topic_id"]) == (ErrorCode.UNKNOWN_TOPIC_ID, b"?" * 16)
    row = {"topic_id": topic_id}
    (fetched,) = client.ask("Fetch", 13, **fetch_body(row))["responses"]
    assert (fetched["topic_id"], fetched["partitions"][0]["error_code"]) == (topic_id, REFUSED[TOPIC])
    produced = produce_body(batch_of(b"a"))
    produced["topic_data"] = [{"topic_id": topic_id, "partition_data": produced["topic_data"][0]["partition_data"]}]
    (refused,) = client.ask("Produce", 13, **produced)["responses"]
    assert (refused["topic_id"], refused["partition_responses"][0]["error_code"]) == (topic_id, REFUSED[TOPIC])
    committed = COMMIT | {"topics": [{"topic_id": topic_id, "partitions": [OFFSET]}]}
    client.may(allow(GROUP, READ))
    assert refusals(client.ask("OffsetCommit", 10, **committed)) == {REFUSED[TOPIC]}
    gone = client.ask("DeleteTopics", 6, topics=[{"name": None, "topic_id": topic_id}], timeout_ms=10_000)["responses"]
    assert [(each["name"], each["error_code"]) for each in gone] == [(None, REFUSED[TOPIC])]
    client.may(allow(TOPIC, DESCRIBE))
    gone = client.ask("DeleteTopics", 6, topics=[{"name": None, "topic_id": topic_id}], timeout_ms=10_000)["responses"]
    assert [(each["name"], each["error_code"]) for each in gone] == [("t", REFUSED[TOPIC])]


def test_the_rest_of_a_request_is_done(client: Client) -> None:
    client.live.disks.create_topic("u", 1, {})
    client.may(allow(TOPIC, WRITE, "u"), allow(TOPIC, READ, "u"), allow(GROUP, READ))
    batch = batch_of(b"a")
    data = [{"name": each, "partition_data": [{"index": 0, "records": batch}]} for each in ("t", "u")]
    answer = client.ask("Produce", 9, **produce_body(batch, topic_data=data))
    codes = {each["name"]: each["partition_responses"][0]["error_code"] for each in answer["responses"]}
    assert codes == {"t": REFUSED[TOPIC], "u": 0}
    assert (client.live.log("t").log_end_offset, client.live.log("u").log_end_offset) == (0, 1)
    topics = [{"name": each, "partitions": [OFFSET]} for each in ("t", "u")]
    answer = client.ask("OffsetCommit", 8, **(COMMIT | {"topics": topics}))
    codes = {each["name"]: each["partitions"][0]["error_code"] for each in answer["topics"]}
    assert codes == {"t": REFUSED[TOPIC], "u": 0}
    found = client.ask("OffsetFetch", 7, group_id="g", require_stable=False, topics=None)["topics"]
    assert [each["name"] for each in found] == ["u"]
    client.may(allow(GROUP, DESCRIBE))
    everything: dict[str, Any] = {"groups": [{"group_id": "g", "topics": None}], "require_stable": False}
    assert client.ask("OffsetFetch", 8, **everything)["groups"][0]["topics"] == [], "left out silently"


def test_acks_0_has_no_answer_and_a_refusal_closes_the_connection(client: Client) -> None:
    assert isinstance(client.send("Produce", 9, **produce_body(batch_of(b"a"), acks=0)), Close)
    assert isinstance(client.send("Produce", 9, **produce_body(IN_BATCH, acks=0, transactional_id="x")), Close)
    client.may(allow(TOPIC, WRITE))
    assert isinstance(client.send("Produce", 9, **produce_body(batch_of(b"a"), acks=0)), NoResponse)


def test_a_topic_is_created_by_a_consumer_only_with_create(client: Client) -> None:
    client.may(allow(TOPIC, DESCRIBE, "*"))
    (refused,) = metadata(client, "new", allow_auto_topic_creation=True).values()
    assert refused["error_code"] == REFUSED[TOPIC]
    assert "new" not in client.live.disks.topics
    assert metadata(client, "new")["new"]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for right in (allow(TOPIC, CREATE, "new"), allow(CLUSTER, CREATE)):
        client.may(allow(TOPIC, DESCRIBE, "*"), right)
        metadata(client, "new", allow_auto_topic_creation=True)
        assert "new" in client.live.disks.topics
        client.live.disks.delete_topic("new")


def test_settings_of_a_new_topic_are_answered_with_describe_configs_alone(client: Client) -> None:
    def created(name: str) -> dict[str, Any]:
        topic = {"name": name, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
        (row,) = client.ask("CreateTopics", 7, topics=[topic], timeout_ms=10_000, validate_only=False)["topics"]
        return row

    client.may(allow(TOPIC, CREATE, "*"))
    hidden = created("a")
    assert (hidden["error_code"], hidden["topic_config_error_code"]) == (0, REFUSED[TOPIC])
    assert (hidden["num_partitions"], hidden["replication_factor"], hidden["configs"]) == (-1, -1, [])
    client.may(allow(TOPIC, CREATE, "*"), allow(TOPIC, DESCRIBE_CONFIGS, "*"))
    shown = created("b")
    assert (shown["num_partitions"], shown["topic_config_error_code"]) == (2, 0)
    assert shown["configs"]
    client.may(allow(CLUSTER, CREATE))
    assert created("__cluster_metadata")["error_code"] == ErrorCode.INVALID_REQUEST


def test_groups_that_a_client_may_not_describe_are_not_listed(client: Client) -> None:
    admin = Client(client.live, "admin")
    admin.ask("OffsetCommit", 8, **COMMIT)
    assert client.ask("ListGroups", 4, states_filter=[])["groups"] == []
    for right in (allow(GROUP, READ), allow(CLUSTER, DESCRIBE)):
        client.may(right)
        assert [each["group_id"] for each in client.ask("ListGroups", 4, states_filter=[])["groups"]] == ["g"]


def test_transactions_that_a_client_may_not_describe_are_not_listed(client: Client) -> None:
    admin = Client(client.live, "admin")
    begun = admin.ask("InitProducerId", 4, transactional_id="x", transaction_timeout_ms=1000)
    producer = {key: begun[key] for key in ("producer_id", "producer_epoch")}
    body = {f"v3_and_below_{key}": value for key, value in (producer | {"transactional_id": "x"}).items()}
    admin.ask("AddPartitionsToTxn", 3, **body, v3_and_below_topics=[{"name": "t", "partitions": [0]}])
    listing = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
    assert client.ask("ListTransactions", 1, **listing)["transaction_states"] == []
    client.may(allow(TXN, DESCRIBE))
    assert [
        each["transactional_id"] for each in client.ask("ListTransactions", 1, **listing)["transaction_states"]
    ] == ["x"]
    (state,) = client.ask("DescribeTransactions", 0, transactional_ids=["x"])["transaction_states"]
    assert (state["error_code"], state["topics"]) == (0, [])
    client.may(allow(TXN, DESCRIBE), allow(TOPIC, DESCRIBE))
    (state,) = client.ask("DescribeTransactions", 0, transactional_ids=["x"])["transaction_states"]
    assert [each["topic"] for each in state["topics"]] == ["t"]


def test_a_transaction_takes_all_topics_of_a_request_or_none(client: Client) -> None:
    client.live.disks.create_topic("u", 1, {})
    begun = Client(client.live, "admin").ask("InitProducerId", 4, transactional_id="x", transaction_timeout_ms=1000)
    producer = {key: begun[key] for key in ("producer_id", "producer_epoch")}
    body = {f"v3_and_below_{key}": value for key, value in (producer | {"transactional_id": "x"}).items()}
    topics = [{"name": each, "partitions": [0]} for each in ("t", "u")]
    client.may(allow(TXN, WRITE), allow(TOPIC, WRITE))
    rows = client.ask("AddPartitionsToTxn", 3, **body, v3_and_below_topics=topics)["results_by_topic_v3_and_below"]
    codes = {each["name"]: each["results_by_partition"][0]["partition_error_code"] for each in rows}
    assert codes == {"t": ErrorCode.OPERATION_NOT_ATTEMPTED, "u": REFUSED[TOPIC]}


def bits(*operations: AclOperation) -> int:
    return sum(1 << each for each in operations)


def test_authorized_operations(client: Client) -> None:
    client.may(allow(TOPIC, READ), allow(TOPIC, ALTER_CONFIGS), allow(GROUP, READ), allow(CLUSTER, ALTER))
    (topic,) = metadata(client, "t", version=10, include_topic_authorized_operations=True).values()
    assert topic["topic_authorized_operations"] == bits(READ, DESCRIBE, ALTER_CONFIGS, DESCRIBE_CONFIGS)
    (topic,) = client.ask("DescribeTopicPartitions", 0, topics=[{"name": "t"}], cursor=None)["topics"]
    assert topic["topic_authorized_operations"] == bits(READ, DESCRIBE, ALTER_CONFIGS, DESCRIBE_CONFIGS)
    (topic,) = metadata(client, "t", version=10).values()
    assert topic["topic_authorized_operations"] == -(1 << 31), "not asked for"
    Client(client.live, "admin").ask("OffsetCommit", 8, **COMMIT)
    (group,) = client.ask("DescribeGroups", 5, groups=["g"], include_authorized_operations=True)["groups"]
    assert group["authorized_operations"] == bits(READ, DESCRIBE)
    cluster = client.ask("DescribeCluster", 0, include_cluster_authorized_operations=True)
    assert cluster["cluster_authorized_operations"] == bits(ALTER, DESCRIBE)
    cluster = client.ask("DescribeCluster", 0, include_cluster_authorized_operations=False)
    assert cluster["cluster_authorized_operations"] == -(1 << 31)
    client.may(allow(CLUSTER, CREATE))
    cluster = client.ask("DescribeCluster", 0, include_cluster_authorized_operations=True)
    assert cluster["cluster_authorized_operations"] == 0, "without DESCRIBE nothing is said"


# --- topics that a request does not name ------------------------------------------------------------------------------
def test_a_share_session_reads_and_acknowledges_where_it_may(client: Client) -> None:
    client.live.disks.create_topic("u", 1, {})
    admin = Client(client.live, "admin")
    for name in ("t", "u"):
        data = [{"name": name, "partition_data": [{"index": 0, "records": batch_of(b"a")}]}]
        assert not refusals(admin.ask("Produce", 9, **produce_body(b"", topic_data=data)))
    settings = {"resource_type": 32, "resource_name": "g", "configs": [{"name": "share.auto.offset.reset"}]}
    settings["configs"] = [{"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}]
    admin.ask("IncrementalAlterConfigs", 1, resources=[settings], validate_only=False)
    ids = {name: client.live.disks.topic_id(name) for name in ("t", "u")}

    def rows(*names: str, acknowledged: bool = False) -> list[dict[str, Any]]:
        batch = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
        partition = {"partition_index": 0, "acknowledgement_batches": [batch] if acknowledged else []}
        return [{"topic_id": ids[each], "partitions": [partition]} for each in names]

    def fetched(epoch: int, *names: str) -> dict[str, Any]:
        limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000, "max_records": 10, "batch_size": 10}
        session = {"group_id": "g", "member_id": "m", "share_session_epoch": epoch, "forgotten_topics_data": []}
        body = {"is_renew_ack": False, "share_acquire_mode": 0, "topics": rows(*names)} | limits | session
        return client.ask("ShareFetch", 2, **body)

    assert fetched(0, "t", "u")["error_code"] == REFUSED[GROUP]
    client.may(allow(GROUP, READ))
    codes = {each["topic_id"]: each["partitions"][0]["error_code"] for each in fetched(0, "t", "u")["responses"]}
    assert codes == {ids["t"]: REFUSED[TOPIC], ids["u"]: REFUSED[TOPIC]}
    client.may(allow(GROUP, READ), allow(TOPIC, WRITE))
    codes = {each["topic_id"]: each["partitions"][0]["error_code"] for each in fetched(1)["responses"]}
    assert codes == {ids["t"]: REFUSED[TOPIC], ids["u"]: REFUSED[TOPIC]}, "in the session, and still refused"
    body = {"group_id": "g", "member_id": "m", "share_session_epoch": 2, "is_renew_ack": False}
    answer = client.ask("ShareAcknowledge", 2, **body, topics=rows("t", acknowledged=True))
    assert refusals(answer) == {REFUSED[TOPIC]}


def test_offsets_of_a_share_group_are_deleted_where_a_client_may_read(client: Client) -> None:
    for epoch in (0, -1):
        beat = {"group_id": "g", "member_id": "m", "member_epoch": epoch, "rack_id": None}
        Client(client.live, "admin").ask("ShareGroupHeartbeat", 1, **beat, subscribed_topic_names=["t"])
    body: dict[str, Any] = {"group_id": "g", "topics": [{"topic_name": "t"}]}
    assert refusals(client.ask("DeleteShareGroupOffsets", 0, **body)) == {REFUSED[GROUP]}
    client.may(allow(GROUP, DELETE))
    assert refusals(client.ask("DeleteShareGroupOffsets", 0, **body)) == {REFUSED[TOPIC]}
    client.may(allow(GROUP, DELETE), allow(TOPIC, READ))
    assert not refusals(client.ask("DeleteShareGroupOffsets", 0, **body))


def test_a_regular_expression_matches_no_topic_that_a_member_may_not_describe(client: Client) -> None:
    client.live.disks.create_topic("tt", 1, {})
    client.may(allow(GROUP, READ), allow(TOPIC, DESCRIBE))
    wanted = {"subscribed_topic_names": None, "subscribed_topic_regex": "t+"}

    def assigned() -> set[str | None]:
        beat = client.ask("ConsumerGroupHeartbeat", 1, **(HEARTBEAT | wanted))
        assert beat["error_code"] == 0
        return {client.live.disks.topic_name(each["topic_id"]) for each in beat["assignment"]["topic_partitions"]}

    assert [assigned(), assigned()] == [{"t"}] * 2  # the first one created __consumer_offsets
    client.may(allow(GROUP, READ), allow(TOPIC, DESCRIBE, "*"))
    assert assigned() == {"t"}, "as on a broker, regular expressions are not resolved at each heartbeat"
    client.live.clock.now_ms += 600_000
    assert assigned() == {"t", "tt"}


# --- who a client is --------------------------------------------------------------------------------------------------
def test_a_client_that_proves_nothing_is_anonymous(client: Client) -> None:
    anonymous = Client(client.live, None)
    client.may(allow(TOPIC, READ, user="ANONYMOUS"))
    assert set(metadata(anonymous)) == {"t"}
    assert metadata(client) == {}


def test_hosts_are_addresses_as_java_writes_them(client: Client) -> None:
    client.may(allow(TOPIC, READ)._replace(host="127.0.0.2"))
    assert metadata(client) == {}
    client.may(allow(TOPIC, READ)._replace(host="127.0.0.1"))
    assert set(metadata(client)) == {"t"}
    assert host_text("::1") == "0:0:0:0:0:0:0:1"
    assert host_text("2001:db8::ff00:42:8329") == "2001:db8:0:0:0:ff00:42:8329"


# --- the metadata log -------------------------------------------------------------------------------------------------
def test_acls_survive_a_restart(tmp_path: Path) -> None:
    kept = [allow(TOPIC, READ), allow(GROUP, READ)]
    with living(tmp_path, None, STANDARD) as live:
        Client(live).may(*kept, allow(CLUSTER, ALTER))
        live.disks.change_acls((), [key for key, each in live.disks.acls.by_id().items() if each.operation == ALTER])
        live.disks.change_acls((), [b"?" * 16])  # a controller could not replay that, so it is not written
    with living(tmp_path, None, STANDARD) as live:
        assert Counter(live.disks.acls.by_id().values()) == Counter(kept)
        assert not live.broker.notes
    with living(tmp_path) as live:
        (note,) = live.broker.notes
        assert note.startswith(
            "warning: ACLs in the metadata log are not enforced (2): add --set authorizer.class.name="
        )
        answer = Client(live).ask("DescribeAcls", 3, **ANY_ACL)
        assert answer["error_code"] == ErrorCode.SECURITY_DISABLED


def test_a_directory_without_a_metadata_log_takes_no_acls(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=c\n")
    with living(tmp_path, None, STANDARD, "super.users=User:admin") as live:
        creation = allow(TOPIC, READ)
        row = {"resource_type": 2, "resource_name": "t", "principal": creation.principal, "host": "*"}
        row |= {"operation": 3, "permission_type": 3}
        (refused,) = Client(live, "admin").ask("CreateAcls", 3, creations=[row])["results"]
        assert refused["error_code"] == ErrorCode.UNSUPPORTED_VERSION
        assert "the log directory of this broker has none" in refused["error_message"]


# --- many names -------------------------------------------------------------------------------------------------------
MANY: Final = 100


class Name(str):
    """A name in a request, which counts how often names are compared."""

    __slots__ = ()
    compared: ClassVar = Counter[str]()

    def __eq__(self, other: object) -> bool:
        Name.compared[""] += 1
        return str.__eq__(self, other)  # type: ignore[arg-type]  # anything compares

    __hash__ = str.__hash__


def named(value: Any) -> Any:
    """A decoded body with its texts as names."""
    if isinstance(value, dict):
        return {key: named(each) for key, each in value.items()}
    if isinstance(value, list):
        return [named(each) for each in value]
    return Name(value) if isinstance(value, str) else value


def topics_of(name: str = "name", **fields: Any) -> list[dict[str, Any]]:
    return [{name: f"n{number}", **fields} for number in range(MANY)]


TEXTS: Final = [f"n{number}" for number in range(MANY)]
NEW: Final = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
LOOK: Final = {"include_authorized_operations": True}
GROUP_ROWS: Final = [{"group_id": each, "member_id": None, "member_epoch": -1, "topics": None} for each in TEXTS]
NUMBER: Final = {"partition_index": 0}
SETTINGS_OF: Final = [{"resource_type": 2, "resource_name": each} for each in TEXTS]


@pytest.mark.parametrize("user", ["alice", "admin"])
@pytest.mark.parametrize(
    ("name", "version", "body"),
    [
        ("CreateTopics", 7, {"topics": topics_of(**NEW), "timeout_ms": 0, "validate_only": True}),
        ("DeleteTopics", 5, {"topic_names": TEXTS, "timeout_ms": 0}),
        ("DeleteTopics", 6, {"topics": topics_of(topic_id=NO_ID), "timeout_ms": 0}),
        (
            "CreatePartitions",
            3,
            {"topics": topics_of(count=2, assignments=None), "timeout_ms": 0, "validate_only": True},
        ),
        ("DeleteRecords", 2, {"topics": topics_of(partitions=[{**NUMBER, "offset": 0}]), "timeout_ms": 0}),
        ("Metadata", 7, {"topics": topics_of(), "allow_auto_topic_creation": False}),
        ("DescribeTopicPartitions", 0, {"topics": topics_of(), "response_partition_limit": 2000, "cursor": None}),
        ("DescribeProducers", 0, {"topics": topics_of(partition_indexes=[0])}),
        ("DescribeTransactions", 0, {"transactional_ids": TEXTS}),
        ("DescribeConfigs", 4, {"resources": [each | {"configuration_keys": TEXTS[:5]} for each in SETTINGS_OF]}),
        (
            "IncrementalAlterConfigs",
            1,
            {"resources": [each | {"configs": []} for each in SETTINGS_OF], "validate_only": True},
        ),
        ("DescribeGroups", 5, {"groups": TEXTS, **LOOK}),
        ("ConsumerGroupDescribe", 1, {"group_ids": TEXTS, **LOOK}),
        ("ShareGroupDescribe", 1, {"group_ids": TEXTS, **LOOK}),
        ("DeleteGroups", 2, {"groups_names": TEXTS}),
        ("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": TEXTS}),
        ("OffsetFetch", 8, {"groups": GROUP_ROWS, "require_stable": False}),
        ("OffsetCommit", 8, COMMIT | {"topics": topics_of(partitions=[OFFSET])}),
        ("OffsetDelete", 0, {"group_id": "g", "topics": topics_of(partitions=[NUMBER])}),
        ("DescribeShareGroupOffsets", 1, {"groups": [{"group_id": each, "topics": None} for each in TEXTS]}),
        (
            "ListOffsets",
            5,
            {"topics": topics_of(partitions=[{**NUMBER, "timestamp": -1}]), "isolation_level": 0, "replica_id": -1},
        ),
        ("DescribeLogDirs", 1, {"topics": topics_of("topic", partitions=[0])}),
    ],
)
def test_twice_as_many_names_are_compared_twice_as_often(
    client: Client, monkeypatch: pytest.MonkeyPatch, name: str, version: int, body: dict[str, Any], user: str
) -> None:
    """A client may send ten thousand of them, and the others wait meanwhile."""
    monkeypatch.setattr(
        requests, "decode_request", lambda *given: replace(found := decode_request(*given), body=named(found.body))
    )
    counts = []
    for count in (MANY // 2, MANY):
        Name.compared.clear()
        assert Client(client.live, user).ask(
            name, version, **{key: value[:count] if isinstance(value, list) else value for key, value in body.items()}
        )
        counts.append(Name.compared[""])
    assert counts[1] <= 2 * counts[0] + MANY // 10, "in proportion to the names"


@pytest.mark.parametrize("named", [[], [{"name": "t", "partition_indexes": [0]}]])
def test_a_group_that_is_named_twice_shows_no_topic_that_is_hidden(client: Client, named: list[dict[str, Any]]) -> None:
    Client(client.live, "admin").ask("OffsetCommit", 8, **COMMIT)
    client.may(allow(GROUP, DESCRIBE))
    rows = [{"group_id": "g", "topics": None}, {"group_id": "g", "topics": named}]
    for asked in (rows, rows[::-1]):
        groups = client.ask("OffsetFetch", 8, groups=asked, require_stable=False)["groups"]
        assert [topic for group in groups for topic in group["topics"]] == []
    client.may(allow(GROUP, DESCRIBE), allow(TOPIC, DESCRIBE))
    (group,) = client.ask("OffsetFetch", 8, groups=rows, require_stable=False)["groups"]
    assert [topic["name"] for topic in group["topics"]] == ["t"]
