"""Disks as one broker has them, and what clients learn of their topics."""

from __future__ import annotations

import shutil
import threading
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.selection import Selection
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import RefusedError, SelectionError
from kafkalog_core.format.names import DirectoryState
from kafkalog_core.serve.disks import served_disks
from kafkalog_core.serve.disks.served_disks import DiskOptions, FinalizedFeatures, ServedDisks
from kafkalog_core.serve.network.answers import Close, Reply
from kafkalog_core.serve.network.requests import RequestDispatcher
from kafkalog_core.serve.topics import topic_requests
from kafkalog_core.serve.topics.topic_requests import NodeAddress, TopicRequests
from kafkalog_core.wire.error_codes import ErrorCode
from tests.support.asking import FROM, ask, response, send
from tests.support.build import Record, batch_v2, epoch_checkpoint, meta_properties, partition_metadata
from tests.support.clusters import partition_change_record, partition_record, topic_record, write_metadata_log
from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
DEMO = FIXTURES / "demo"
PLAIN = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
ALL = {"topics": None} | PLAIN
ORDERS_ID = "L7SswL6USw27RIhq2tAhSA"
TOPICS = ["__consumer_offsets", "__transaction_state", "customers", "orders", "payments"]


def disks_of(*paths: Path | str, **options: Any) -> ServedDisks:
    return ServedDisks(resolve([str(path) for path in paths], Selection()), DiskOptions(**options))


def dispatcher_of(disks: ServedDisks) -> RequestDispatcher:
    requests = TopicRequests(disks, lambda _: NodeAddress(disks.node_id, "there", 9092))
    return RequestDispatcher(requests.handlers())


@pytest.fixture
def demo() -> Iterator[RequestDispatcher]:
    disks = disks_of(DEMO)
    yield dispatcher_of(disks)
    disks.close()


def log_of(place: Path, name: str, count: int, *, epoch: int | None = None) -> Path:
    """A partition directory with that many records, in a log directory."""
    path = place / name
    path.mkdir(parents=True)
    data = batch_v2([Record(offset=at, key=b"k", value=b"v", timestamp_ms=1) for at in range(count)])
    (path / f"{0:020}.log").write_bytes(data)
    if epoch is not None:
        (path / "leader-epoch-checkpoint").write_bytes(epoch_checkpoint([(epoch, 0)]))
    return path


# --- disks ------------------------------------------------------------------------------------------------------------
def test_the_topics_and_ids_of_a_log_directory() -> None:
    disks = disks_of(DEMO)
    assert list(disks.topics) == TOPICS  # the metadata log is for controllers
    assert disks.cluster_id == "ZGVtby1rYWZrYWxvZy0wMQ"
    assert disks.node_id == 1
    topic_id = disks.topic_id("orders")
    assert topic_id is not None
    assert disks.topic_name(topic_id) == "orders"
    assert disks.topic_id("nothing") is None
    assert disks.topic_name(bytes(16)) is None
    assert disks.has_partition("orders", 1)
    assert not disks.has_partition("orders", 2)
    assert disks.partition("orders", 2) is None
    assert disks.partition("nothing", 0) is None


def test_features_are_those_of_the_metadata_log() -> None:
    """As Kafka's DumpLogSegments shows them."""
    levels = {"metadata.version": 30, "transaction.version": 2}
    levels |= dict.fromkeys(
        ("eligible.leader.replicas.version", "group.version", "share.version", "streams.version"), 1
    )
    disks = disks_of(DEMO)
    assert disks.features == FinalizedFeatures(levels, 52)
    disks.close()
    with serving(DEMO) as broker:
        body = {"client_software_name": "test", "client_software_version": "1"}
        answer = ask(broker.dispatcher, "ApiVersions", 4, body)
    found = {each["name"]: each["max_version_level"] for each in answer["finalized_features"]}
    assert levels.items() - found.items() == {("transaction.version", 2), ("streams.version", 1)}, "not served"
    assert answer["finalized_features_epoch"] == 52


def test_a_partition_is_opened_once() -> None:
    disks = disks_of(DEMO)
    assert disks.partition("orders", 0) is disks.partition("orders", 0)
    disks.close()


def test_of_two_copies_the_later_epoch_is_served_then_the_longer_log(tmp_path: Path) -> None:
    for name, orders, payments in (("a", (9, 1), (5, 2)), ("b", (4, 2), (6, 2))):
        log_of(tmp_path / name, "orders-0", orders[0], epoch=orders[1])
        log_of(tmp_path / name, "payments-0", payments[0], epoch=payments[1])
    for paths in (("a", "b"), ("b", "a")):
        disks = disks_of(*(tmp_path / each for each in paths))
        found = [disks.partition(topic, 0) for topic in ("orders", "payments")]
        assert [each is not None and each.path for each in found] == [
            str(tmp_path / "b" / "orders-0"),
            str(tmp_path / "b" / "payments-0"),
        ]
        disks.close()


def test_of_copies_that_end_alike_the_one_with_older_records_is_served(tmp_path: Path) -> None:
    log_of(tmp_path / "a", "orders-0", 9, epoch=1)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "a" / "log-start-offset-checkpoint").write_text("0\n1\norders 0 4\n")
    for paths in (("a", "b"), ("b", "a")):
        disks = disks_of(*(tmp_path / each for each in paths))
        found = disks.partition("orders", 0)
        assert found is not None
        assert (found.path, found.log_start_offset) == (str(tmp_path / "b" / "orders-0"), 0)
        disks.close()


def test_disks_of_two_clusters_are_not_mixed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        log_of(tmp_path / name, "orders-0", 1)
        (tmp_path / name / "meta.properties").write_bytes(meta_properties({"cluster.id": name, "node.id": "1"}))
    with pytest.raises(RefusedError, match="2 clusters"):
        disks_of(tmp_path / "a", tmp_path / "b")


def test_a_single_file_is_refused() -> None:
    with pytest.raises(SelectionError, match="directory of its partition"):
        disks_of(next(DEMO.glob("orders-0/*.log")))


def test_directories_that_a_broker_set_aside_are_served_on_request(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(meta_properties({"cluster.id": "c", "node.id": "3"}))
    log_of(tmp_path, "orders-0", 3)
    log_of(tmp_path, f"orders-0.{uuid.uuid4().hex}-delete", 5)
    log_of(tmp_path, f"orders-1.{uuid.uuid4().hex}-stray", 7)
    log_of(tmp_path, f"orders-2.{uuid.uuid4().hex}-future", 7)
    disks = disks_of(tmp_path)
    assert list(disks.topics) == ["orders"]
    assert [note[:26] for note in disks.notes] == ["not served: 1 directory th"] * 2
    both = disks_of(tmp_path, set_aside=frozenset({DirectoryState.DELETE, DirectoryState.STRAY}))
    assert list(both.topics) == ["orders", "orders.delete", "orders.stray"]
    assert not both.notes
    opened = both.partition("orders.delete", 0)
    assert opened is not None
    assert opened.latest(is_committed=False).offset == 5


def test_a_topic_that_was_created_again_has_two_names(tmp_path: Path) -> None:
    shutil.copytree(DEMO, tmp_path / "d")
    old = tmp_path / "e" / "orders-1"
    log_of(tmp_path / "e", "orders-1", 1)
    (tmp_path / "e" / "meta.properties").write_bytes((DEMO / "meta.properties").read_bytes())
    (old / "partition.metadata").write_bytes(b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    disks = disks_of(tmp_path / "d", tmp_path / "e")
    assert list(disks.topics["orders"].copies) == [0, 1]
    assert list(disks.topics["orders.AAAAAAAAAAAAAAAAAAAAAQ"].copies) == [1]
    assert "topic orders has another id" in disks.notes[0]


def test_made_up_ids_are_the_same_at_every_start(tmp_path: Path) -> None:
    log_of(tmp_path, "orders-0", 1)
    log_of(tmp_path, "payments-0", 1)
    first, second = disks_of(tmp_path), disks_of(tmp_path)
    assert first.topic_id("orders") == second.topic_id("orders") != first.topic_id("payments")


# --- Metadata ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(14))
def test_metadata_of_every_version(version: int, demo: RequestDispatcher) -> None:
    found = ask(demo, "Metadata", version, ALL | {"topics": []} if version == 0 else ALL)
    assert [each["name"] for each in found["topics"]] == TOPICS
    assert [(each["node_id"], each["host"], each["port"]) for each in found["brokers"]] == [(1, "there", 9092)]
    orders = found["topics"][3]
    assert [each["partition_index"] for each in orders["partitions"]] == [0, 1]
    assert {each["leader_id"] for each in orders["partitions"]} == {1}
    if version >= 7:
        assert {each["leader_epoch"] for each in orders["partitions"]} == {0}
    if version >= 1:
        assert [each["is_internal"] for each in found["topics"]] == [True, True, False, False, False]
    if version >= 2:
        assert found["cluster_id"] == "ZGVtby1rYWZrYWxvZy0wMQ"


def test_no_topics_are_asked_for_with_an_empty_list_since_version_1(demo: RequestDispatcher) -> None:
    assert ask(demo, "Metadata", 1, {"topics": []})["topics"] == []


def test_unknown_topics_are_errors_and_never_created(demo: RequestDispatcher) -> None:
    names = [{"name": name} for name in ("orders", "nothing", "no/name")]
    found = ask(demo, "Metadata", 9, PLAIN | {"topics": names, "include_topic_authorized_operations": True})
    codes = [each["error_code"] for each in found["topics"]]
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert found["topics"][0]["topic_authorized_operations"] == 1 << 3 | 1 << 8 | 1 << 10


def test_a_topic_that_is_asked_for_many_times_is_answered_once(demo: RequestDispatcher) -> None:
    """As by a broker, which makes a set of them: else a small request has a large answer."""
    rows = ask(demo, "Metadata", 1, {"topics": [{"name": name} for name in ("orders", "none", "orders", "none")]})
    assert [each["name"] for each in rows["topics"]] == ["orders", "none"]
    resource = {"resource_type": 2, "resource_name": "orders", "configuration_keys": None}
    assert len(ask(demo, "DescribeConfigs", 0, {"resources": [resource] * 3})["results"]) == 1


@pytest.mark.parametrize(("version", "has_error"), [(1, False), (12, False), (13, True)])
def test_a_request_with_far_more_elements_than_exist_is_refused(version: int, has_error: bool) -> None:
    disks = disks_of(DEMO)
    requests = TopicRequests(disks, lambda _: NodeAddress(disks.node_id, "there", 9092))
    counts = [0]
    dispatcher = RequestDispatcher(requests.handlers(), partitions=lambda: counts[0])
    body: dict[str, Any] = {"topics": [{"name": "x", "topic_id": bytes(16)}] * 20_001}
    if version > 1:
        body["include_topic_authorized_operations"] = False
    answer = send(dispatcher, "Metadata", version, body)
    if has_error:
        assert isinstance(answer, Reply)
        assert answer.then_close
        assert response("Metadata", version, answer)["error_code"] == ErrorCode.INVALID_REQUEST
    else:
        assert answer == Close(
            f"Metadata of version {version}: topics has 20001 elements, and at most 20000 more are read of this message"
        )
    counts[0] = 1
    assert len(ask(dispatcher, "Metadata", version, body)["topics"]) == 1, "in proportion to what exists"
    disks.close()


def test_topics_by_id(demo: RequestDispatcher) -> None:
    by_name = ask(demo, "Metadata", 12, PLAIN | {"topics": [{"name": "orders", "topic_id": bytes(16)}]})["topics"][0]
    topic_id = bytes(by_name["topic_id"])
    asked = [{"name": None, "topic_id": each} for each in (topic_id, b"\1" * 16)]
    found = ask(demo, "Metadata", 12, PLAIN | {"topics": asked})["topics"]
    assert [each["name"] for each in found] == ["orders", None]
    assert [each["error_code"] for each in found] == [0, ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_partition_that_is_on_no_disk_has_no_leader(tmp_path: Path) -> None:
    log_of(tmp_path, "orders-0", 1)
    log_of(tmp_path, "orders-2", 1)
    dispatcher = dispatcher_of(disks_of(tmp_path))
    partitions = ask(dispatcher, "Metadata", 8, ALL)["topics"][0]["partitions"]
    assert [each["leader_id"] for each in partitions] == [0, -1, 0]
    assert partitions[1]["error_code"] == ErrorCode.LEADER_NOT_AVAILABLE
    assert partitions[1]["offline_replicas"] == [0]


def test_replicas_are_those_of_the_metadata_log(tmp_path: Path) -> None:
    """This node leads what it has, as clients read from leaders; the ISR is that of the last record."""
    topic_id = uuid.UUID(int=1)
    for number in range(3):
        path = log_of(tmp_path, f"orders-{number}", 1)
        (path / "partition.metadata").write_bytes(partition_metadata(urlsafe_b64encode(topic_id.bytes).decode()[:22]))
    log_of(tmp_path, "others-0", 1)
    (tmp_path / "meta.properties").write_bytes(meta_properties({"version": "1", "cluster.id": "c", "node.id": "1"}))
    write_metadata_log(
        tmp_path,
        topic_record("orders"),
        *(partition_record(number, (1, 2, 3)) for number in range(3)),
        partition_change_record(1, (), -1),
        partition_change_record(2, (3,), 3),
    )
    orders, others = ask(dispatcher_of(disks_of(tmp_path)), "Metadata", 8, ALL)["topics"]
    told = [(each["leader_id"], each["replica_nodes"], each["isr_nodes"]) for each in orders["partitions"]]
    assert told == [(1, [1, 2, 3], [1, 2, 3]), (1, [1, 2, 3], []), (1, [1, 2, 3], [3])]
    assert [each["offline_replicas"] for each in orders["partitions"]] == [[2, 3]] * 3
    assert (others["partitions"][0]["replica_nodes"], others["partitions"][0]["isr_nodes"]) == ([1], [1])


def test_a_partition_that_cannot_be_served_has_no_leader(tmp_path: Path) -> None:
    log_of(tmp_path, "orders-0", 1)
    (tmp_path / "orders-1").mkdir()
    (tmp_path / "orders-1" / f"{0:020}.kafka").write_bytes(b"")
    disks = disks_of(tmp_path)
    assert disks.notes == ["not served: the logs of Kafka 0.7 in 1 partition; kafkalog dump reads them"]
    partitions = ask(dispatcher_of(disks), "Metadata", 8, ALL)["topics"][0]["partitions"]
    assert [each["leader_id"] for each in partitions] == [0, -1]


# --- DescribeTopicPartitions ------------------------------------------------------------------------------------------
def test_described_topics_come_in_pages(demo: RequestDispatcher) -> None:
    seen, cursor = [], None
    for _ in range(10):
        body = {"topics": [], "response_partition_limit": 1, "cursor": cursor}
        found = ask(demo, "DescribeTopicPartitions", 0, body)
        seen += [(topic["name"], each["partition_index"]) for topic in found["topics"] for each in topic["partitions"]]
        assert all(each["eligible_leader_replicas"] == [] for topic in found["topics"] for each in topic["partitions"])
        cursor = found["next_cursor"]
        if cursor is None:
            break
    assert seen == [(name, at) for name in TOPICS for at in range(2 if name == "orders" else 1)]


def test_a_described_topic_that_is_not_there(demo: RequestDispatcher) -> None:
    found = ask(demo, "DescribeTopicPartitions", 0, {"topics": [{"name": "nothing"}]})
    assert [each["error_code"] for each in found["topics"]] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


# --- the cluster ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(3))
def test_the_cluster(version: int, demo: RequestDispatcher) -> None:
    found = ask(demo, "DescribeCluster", version, PLAIN | {"include_fenced_brokers": False})
    assert [each["broker_id"] for each in found["brokers"]] == [1]
    assert found["cluster_id"] == "ZGVtby1rYWZrYWxvZy0wMQ"


def test_no_controller_is_served(demo: RequestDispatcher) -> None:
    body = {"include_cluster_authorized_operations": False, "include_fenced_brokers": False}
    codes = [ask(demo, "DescribeCluster", 2, body | {"endpoint_type": each})["error_code"] for each in (1, 2, 3)]
    assert codes == [0, ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE]


@pytest.mark.parametrize("version", range(5))
def test_the_settings_of_topics_in_the_metadata_log(version: int, demo: RequestDispatcher) -> None:
    def described(*asked: tuple[int, str, list[str] | None]) -> list[tuple[int, dict[str, str]]]:
        """The error and the settings of each resource."""
        names = ("resource_type", "resource_name", "configuration_keys")
        resources = [dict(zip(names, each, strict=True)) for each in asked]
        results = ask(demo, "DescribeConfigs", version, {"resources": resources})["results"]
        return [(row["error_code"], {each["name"]: each["value"] for each in row["configs"]}) for row in results]

    found = described((2, "customers", None), (2, "nothing", None), (4, "1", None), (4, "2", None))
    codes = [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0, ErrorCode.INVALID_REQUEST]
    assert [code for code, _ in found] == codes
    assert found[0][1]["cleanup.policy"] == "compact"  # as the demo's metadata log sets it
    assert [configs for _, configs in found[1:]] == [{}] * 3
    assert described((2, "customers", ["segment.ms"])) == [(0, {})]
    keys: list[list[str] | None] = [["cleanup.policy"], ["a", "b"], ["cleanup.policy"]]
    assert described(*((2, "customers", each) for each in keys)) == [(0, {"cleanup.policy": "compact"})]
    assert described(*((2, "customers", each) for each in (*keys, None, ["a"]))) == found[:1]


def test_a_broker_says_where_it_is() -> None:
    resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    with serving(DEMO) as broker:
        (found,) = ask(broker.dispatcher, "DescribeConfigs", 4, {"resources": [resource]})["results"]
        port = broker.addresses[0].port
    values = {each["name"]: each["value"] for each in found["configs"]}
    assert values == {
        "node.id": "1",
        "broker.id": "1",
        "log.dirs": str(DEMO),
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "auto.create.topics.enable": "false",
    }


@pytest.mark.parametrize("version", range(6))
def test_the_sizes_of_logs(version: int, demo: RequestDispatcher) -> None:
    (found,) = ask(demo, "DescribeLogDirs", version, {"topics": None})["results"]
    assert found["log_dir"] == str(DEMO)
    sizes = {
        (topic["name"], each["partition_index"]): each["partition_size"]
        for topic in found["topics"]
        for each in topic["partitions"]
    }
    assert sizes["orders", 1] == sum(each.stat().st_size for each in DEMO.glob("orders-1/*.log"))
    (one,) = ask(demo, "DescribeLogDirs", version, {"topics": [{"topic": "orders", "partitions": [1]}]})["results"]
    assert [topic["name"] for topic in one["topics"]] == ["orders"]


@pytest.mark.parametrize(
    ("name", "body", "module", "reads"),
    [
        ("DescribeLogDirs", {"topics": None}, topic_requests, "read_partition"),
        (
            "DescribeConfigs",
            {"resources": [{"resource_type": 2, "resource_name": "orders", "configuration_keys": None}]},
            served_disks,
            "read_copies",
        ),
    ],
)
def test_what_is_read_of_the_disk_for_a_description_is_counted(
    demo: RequestDispatcher, monkeypatch: pytest.MonkeyPatch, name: str, body: dict[str, Any], module: Any, reads: str
) -> None:
    """A request that reads more than its thread of the network may is handled by another thread."""
    read_by = set()
    real = getattr(module, reads)

    def read(*given: Any) -> Any:
        read_by.add(threading.current_thread().name)
        return real(*given)

    monkeypatch.setattr(module, reads, read)
    (found,) = ask(demo, name, 1, body)["results"]
    assert found["error_code"] == 0
    assert read_by == {"kafkalog-requests-0"}


def test_what_a_broker_without_authorizer_and_reassignments_answers(demo: RequestDispatcher) -> None:
    names = ("resource_name_filter", "principal_filter", "host_filter")
    asked = {"resource_type_filter": 1, "operation": 1, "permission_type": 1} | dict.fromkeys(names)
    assert ask(demo, "DescribeAcls", 3, asked)["error_code"] == ErrorCode.SECURITY_DISABLED
    assert ask(demo, "ListPartitionReassignments", 0, {"topics": None})["topics"] == []


# --- refusals ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(14))
def test_produce_is_refused(version: int, demo: RequestDispatcher) -> None:
    data = {"name": "orders", "topic_id": b"\1" * 16, "partition_data": [{"index": 1, "records": b"x" * 80}]}
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 1000, "topic_data": [data]}
    answer = send(demo, "Produce", version, body)
    assert isinstance(answer, Reply)
    ((topic,), _) = response("Produce", version, answer)["responses"], None
    (partition,) = topic["partition_responses"]
    assert partition["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert version < 8 or "read-only" in partition["error_message"]
    assert isinstance(send(demo, "Produce", version, body | {"acks": 0}), Close)


# --- ApiVersions and what is not served -------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(5))
def test_api_versions(version: int, demo: RequestDispatcher) -> None:
    found = ask(demo, "ApiVersions", version, {"client_software_name": "a-b.c", "client_software_version": "1.0"})
    ranges = {each["api_key"]: (each["min_version"], each["max_version"]) for each in found["api_keys"]}
    assert ranges[3] == (0, 13)
    assert ranges[18] == (0, 4)
    assert ranges.keys() == {0, 3, 18, 29, 32, 35, 46, 60, 75}
    assert found["error_code"] == 0


def test_a_client_whose_name_is_no_name(demo: RequestDispatcher) -> None:
    found = ask(demo, "ApiVersions", 3, {"client_software_name": "-", "client_software_version": "1"})
    assert found["error_code"] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [5, 99])
def test_api_versions_of_a_later_client_are_answered_in_version_0(version: int, demo: RequestDispatcher) -> None:
    frame = (18).to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\0\1c\0\2a\2b\0\0\0\0\0\0"
    answer = demo.handle(memoryview(frame), FROM)
    assert isinstance(answer, Reply)
    found = response("ApiVersions", 0, answer)
    assert found["error_code"] == ErrorCode.UNSUPPORTED_VERSION
    assert {"api_key": 18, "min_version": 0, "max_version": 4} in found["api_keys"]


@pytest.mark.parametrize(
    "frame", [b"", b"\0" * 7, b"\0\3\0\x63" + bytes(8), b"\x7f\0\0\0" + bytes(8), b"\0\3\0\1" + bytes(5)]
)
def test_what_is_no_request_closes_its_connection(frame: bytes, demo: RequestDispatcher) -> None:
    assert isinstance(demo.handle(memoryview(frame), FROM), Close)


def test_an_api_that_is_not_served_closes_its_connection(demo: RequestDispatcher) -> None:
    answer = send(demo, "CreateTopics", 5, {"topics": [], "timeout_ms": 1, "validate_only": False})
    assert isinstance(answer, Close)
    assert "CreateTopics is not served" in answer.detail
