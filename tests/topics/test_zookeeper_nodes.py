"""What Kafka's nodes in ZooKeeper mean: those of real clusters as their admin clients described them, and odd ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.kafka.rules.old_consumers import BadPatternError, divide, threads_by_topic
from kafkalog_core.kafka.sim.zookeeper.data_dir import read_data_dir
from kafkalog_core.kafka.sim.zookeeper.restoring import restore
from kafkalog_core.topics.zookeeper_nodes import chroots, hide_secrets, read_node
from kafkalog_core.topics.zookeeper_state import kafka_states
from tests.support.for_each import for_each
from tests.support.znodes import unpacked

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.topics.zookeeper_state import KafkaState


def state_of(data_dir: Path) -> KafkaState:
    (state,) = kafka_states(restore(read_data_dir(str(data_dir))).tree.nodes)
    return state


@pytest.fixture
def secured(tmp_path: Path) -> Path:
    """The ZooKeeper of a cluster of 3.9.2 with users, ACLs, quotas and settings, and what its admin client was told."""
    return unpacked("kafka-3.9.2", tmp_path)


def told(run: Path, kind: str) -> list[list[str]]:
    lines = [line.split("\t") for line in (run / "live.txt").read_text().splitlines()]
    return sorted(rest for first, *rest in lines if first == kind)


def test_topics_are_those_that_the_live_cluster_described(secured: Path) -> None:
    state = state_of(secured / "data")
    assert [[state.cluster_id, str(state.controller and state.controller["broker"])]] == told(secured, "cluster")
    assert (state.chroot, list(state.brokers)) == ("/kafka/prod", [1])
    assert told(secured, "partition") == [
        [name, topic.topic_id, str(number), str(each.leader), str(each.replicas), str(each.isr)]
        for name, topic in sorted(state.topics.items())
        for number, each in topic.partitions.items()
    ]


def test_acls_are_those_that_the_live_cluster_described(secured: Path) -> None:
    def upper(camel: str) -> str:
        return "".join(f"_{each}" if each.isupper() else each for each in camel).upper().lstrip("_")

    names = ("resource_type", "pattern", "resource", "principal", "permissionType", "operation", "host")
    raw = {"resource", "principal", "host"}
    found = [
        [acl[name] if name in raw else upper(acl[name]) for name in names] for acl in state_of(secured / "data").acls
    ]
    assert sorted(found) == told(secured, "acl")


def test_users_and_settings_are_those_that_the_live_cluster_described(secured: Path) -> None:
    state = state_of(secured / "data")
    found = [
        [user, mechanism, credential["iterations"]]
        for user, credentials in state.users.items()
        for mechanism, credential in credentials.items()
    ]
    assert sorted(found) == told(secured, "user")
    configs = {(kind, name): values for kind, name, values in state.configs}
    assert sorted(
        ["topics", name, *pair]
        for (kind, name), values in configs.items()
        if kind == "topics"
        for pair in values.items()
    ) == told(secured, "config")
    assert told(secured, "quota") == [
        ["{client-id=app 1, user=alice}", "{consumer_byte_rate=2048.0}"],
        ["{client-id=null}", "{request_percentage=50.0}"],
        ["{user=alice}", "{producer_byte_rate=1024.0}"],
    ]
    assert configs["users/clients", "alice/app 1"] == {"consumer_byte_rate": "2048"}
    assert configs["users", "alice"] == {"producer_byte_rate": "1024"}
    assert configs["clients", "<default>"] == {"request_percentage": "50.0"}


def test_a_migration_to_kraft_is_read(tmp_path: Path) -> None:
    state = state_of(unpacked("migrating-3.9.2", tmp_path) / "data")
    assert state.migration is not None
    assert state.migration["kraft_controller_id"] == 3000
    assert state.controller == {"broker": 3000, "timestamp_ms": state.controller["timestamp_ms"], "kraft_epoch": 1}  # type: ignore[index]


def test_the_nodes_of_0_7(tmp_path: Path) -> None:
    state = state_of(unpacked("k07-0.7.2", tmp_path))
    assert state.topics["plain"].partitions_07 == {0: 2}
    assert state.brokers[0]["endpoints"] == ["127.0.0.1:19211"]
    group = state.groups["zklive"]
    assert group.is_07
    assert group.consumers["zklive_c1"]["streams"] == {"gzip": 1}
    assert {place: each.offset for place, each in group.offsets.items()} == {("gzip", "0-0"): 761}


def test_no_key_and_no_password_is_shown(secured: Path) -> None:
    nodes = restore(read_data_dir(str(secured / "data"))).tree.nodes
    shown = b"\n".join(hide_secrets(node.data) for node in nodes.values() if node.data is not None)
    assert b"stored_key=(hidden)" in shown
    assert b"encryptedPassword:(hidden)" in shown
    alice = nodes["/kafka/prod/config/users/alice"].data
    assert alice is not None
    secrets = re.findall(rb"(?:salt|stored_key|server_key)=([^,\"]+)", alice)
    assert len(secrets) == 6
    assert [secret for secret in secrets if secret in shown] == []


@for_each(
    [
        ("/controller", b"7", {"broker": 7}),
        ("/brokers/ids/3", b"host-123:h:9092", {"endpoints": ["h:9092"], "broker": 3}),
        ("/brokers/ids/3", b'{"version":1,"host":"h","port":9092}', {"endpoints": ["PLAINTEXT://h:9092"]}),
        ("/consumers/g/ids/c", b"*2*a.*b*", {"pattern": "white_list", "streams": {"a.*b": 2}}),
        ("/consumers/g/ids/c", b"!1!x!", {"pattern": "black_list", "streams": {"x": 1}}),
        ("/config/topics/t", b"", {"config": {}}),
        ("/kafka-acl/Topic/a/b", b'{"acls":[7]}', {"acls": [], "resource": "a/b"}),
        ("/brokers/topics/t/partitions/4/state", b'{"leader":"1","isr":[1,"x"]}', {"leader": 1, "isr": [1]}),
        ("/brokers/topics/t/partitions/4/state", b' {"leader":1}\n', {"leader": 1}),
    ]
)
def test_a_node_is_read_in_the_forms_of_all_releases(case: tuple[str, bytes, dict[str, object]]) -> None:
    path, data, fields = case
    node = read_node(path, data)
    assert node is not None
    assert node.problem is None
    assert {name: node.fields[name] for name in fields} == fields


@for_each(
    [
        ("/controller", b"\xff", "is not UTF-8"),
        ("/cluster/id", b"[" * 100_000, "is not JSON"),
        ("/cluster/id", b"[]", "is not a JSON object"),
        ("/cluster/id", b'{"id":"a"}{}', "is not JSON"),
        ("/brokers/ids/3", None, "has no data"),
        ("/brokers/ids/3", b"x", "neither JSON"),
        ("/consumers/g/offsets/t/0", b"many", "is not a number"),
    ]
)
def test_what_kafka_does_not_write_is_a_problem(case: tuple[str, bytes | None, str]) -> None:
    path, data, text = case
    node = read_node(path, data)
    assert node is not None
    assert node.problem is not None
    assert text in node.problem


def test_other_nodes_mean_nothing() -> None:
    assert read_node("/zookeeper/quota", b"") is None
    assert read_node("/hbase/master", b"x") is None


def test_each_chroot_is_a_cluster() -> None:
    paths = ["/brokers/ids", "/other/kafka/brokers/topics", "/consumers/brokers/ids", "/brokers/topics/x/brokers/ids"]
    assert chroots(paths) == ["", "/other/kafka"]
    assert chroots(["/hbase"]) == []


@for_each(
    [
        (5, ["a-0", "b-0"], {"0": "a-0", "1": "a-0", "2": "a-0", "3": "b-0", "4": "b-0"}),
        (2, ["a-0", "b-0", "c-0"], {"0": "a-0", "1": "b-0"}),
        (4, ["a-0"], dict.fromkeys("0123", "a-0")),
        (1, [], {}),
    ]
)
def test_partitions_are_divided_as_consumers_divided_them(case: tuple[int, list[str], dict[str, str]]) -> None:
    count, threads, owners = case
    assert divide([str(number) for number in range(count)], threads) == owners


def test_threads_are_sorted_as_text_and_patterns_match_topics() -> None:
    consumers = {
        "g_b": {"pattern": "static", "streams": {"t": 11}},
        "g_a": {"pattern": "white_list", "streams": {"'t , x.*'": 1}},
        "g_c": {"pattern": "black_list", "streams": {"t": 1}},
    }
    wanted = threads_by_topic(consumers, ["t", "x1", "__consumer_offsets", "y"])
    assert wanted["t"][:4] == ["g_a-0", "g_b-0", "g_b-1", "g_b-10"]
    assert {topic: threads for topic, threads in wanted.items() if topic != "t"} == {
        "x1": ["g_a-0", "g_c-0"],
        "y": ["g_c-0"],
    }
    with pytest.raises(BadPatternError):
        threads_by_topic({"c": {"pattern": "white_list", "streams": {"(": 1}}}, ["t"])
