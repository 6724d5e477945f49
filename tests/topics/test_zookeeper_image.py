"""Nodes of Kafka in ZooKeeper to the image of a cluster: what Kafka reads is there, what it cannot read is named."""

from __future__ import annotations

from typing import Any

from kafkalog_core.format.zookeeper.snapshots import ACL_AND_STAT, Stat, Znode
from kafkalog_core.topics.cluster_image import ClusterImage, NodeListener
from kafkalog_core.topics.zookeeper_image import image_of_zookeeper
from kafkalog_core.topics.zookeeper_state import kafka_states


def image(nodes: dict[str, bytes], **stat: Any) -> tuple[ClusterImage, list[str]]:
    """The image of nodes by path; `stat`: numbers of each of them."""
    packed = ACL_AND_STAT.pack(*Stat._make([0] * len(Stat._fields))._replace(**stat))
    tree = {path: Znode(data, packed) for path, data in {"/brokers/ids": None, **nodes}.items()}
    (state,) = kafka_states(tree)
    return image_of_zookeeper(state)


def test_listeners_have_the_protocols_that_the_registration_maps_them_to() -> None:
    found, left = image(
        {
            "/brokers/ids/1": b'{"version":5,"endpoints":["IN://h:9092","OUT://[::1]:9093","BAD://h:1","nothing"],'
            b'"listener_security_protocol_map":{"IN":"SASL_SSL","OUT":"PLAINTEXT"},"rack":"r"}',
            "/brokers/ids/2": b'{"version":2,"endpoints":["SSL://h:9094"]}',
            "/brokers/ids/3": b'{"version":1,"host":"h","port":9095}',
        },
        czxid=77,
    )
    first = found.brokers[1]
    assert (first.rack, first.epoch) == ("r", 77)
    assert first.listeners == (NodeListener("IN", "h", 9092, 3), NodeListener("OUT", "::1", 9093, 0))
    assert found.brokers[2].listeners == (NodeListener("SSL", "h", 9094, 1),)
    assert found.brokers[3].listeners == (NodeListener("PLAINTEXT", "h", 9095, 0),)
    assert [text.split(",")[0] for text in left] == [
        "left out: the endpoint BAD://h:1 of broker 1",
        "left out: the endpoint nothing of broker 1",
    ]


def test_partitions_without_a_state_and_those_of_a_topic_that_is_deleted_have_no_leader() -> None:
    found, _ = image(
        {
            "/brokers/topics/t": b'{"version":1,"partitions":{"0":[1,2],"1":[2,1],"2":[1]}}',
            "/brokers/topics/t/partitions/0/state": b'{"leader":2,"leader_epoch":4,"isr":[2],'
            b'"leader_recovery_state":1}',
            "/brokers/topics/t/partitions/2/state": b'{"leader":-2,"leader_epoch":5,"isr":[]}',
        },
        version=9,
    )
    topic = found.topics["t"]
    assert topic.topic_id == ""
    led, fresh, deleted = (topic.partitions[number] for number in (0, 1, 2))
    assert (led.leader, led.leader_epoch, led.isr, led.partition_epoch, led.is_recovering) == (2, 4, (2,), 9, True)
    assert (fresh.leader, fresh.leader_epoch, fresh.isr, fresh.replicas) == (-1, -1, (), (2, 1))
    assert deleted.leader == -1


def test_default_entities_and_names_with_slashes_are_not_mixed_up() -> None:
    rate = b'{"version":1,"config":{"producer_byte_rate":"10"}}'
    found, left = image(
        {
            "/config/users/<default>": rate,
            "/config/users/%3Cdefault%3E": rate,
            "/config/users/a%2Fb/clients/<default>": rate,
            "/config/ips/10.0.0.1": b'{"version":1,"config":{"connection_creation_rate":"many"}}',
            "/config/brokers/<default>": b'{"version":1,"config":{"log.cleaner.threads":"2"}}',
        }
    )
    assert set(found.quotas) == {
        (("user", None),),
        (("user", "<default>"),),
        (("client-id", None), ("user", "a/b")),
    }
    assert found.configs == {(4, ""): {"log.cleaner.threads": "2"}}
    assert left == ["left out: quotas of ip 10.0.0.1 that are not numbers (connection_creation_rate)"]


def test_words_and_keys_that_no_release_reads_are_left_out_and_named() -> None:
    acl = b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"%s","host":"*"}]}'
    found, left = image(
        {
            "/kafka-acl/Topic/t": acl % b"DescribeConfigs",
            "/kafka-acl/Topic/u": acl % b"Juggle",
            "/config/users/a": b'{"config":{"SCRAM-SHA-256":"salt=!,stored_key=YQ==,server_key=YQ==,iterations=4096"}}',
        }
    )
    assert [(entry.resource_name, entry.operation) for entry in found.acls.values()] == [("t", 10)]
    assert not found.users
    assert len(left) == 2


def test_features_of_both_versions_of_the_node_tokens_and_producer_ids() -> None:
    found, _ = image(
        {
            "/feature": b'{"version":1,"features":{"a":{"min_version_level":1,"max_version_level":3}},"status":1}',
            "/latest_producer_id_block": b'{"version":1,"broker":0,"block_start":"1000","block_end":"1999"}',
            "/delegation_token/tokens/x": b'{"version":3,"owner":"User:a","tokenRequester":"User:b",'
            b'"renewers":["User:c"],"issueTimestamp":1,"maxTimestamp":3,"expiryTimestamp":2,"tokenId":"x"}',
        }
    )
    assert found.features == {"a": 3}
    assert found.next_producer_id == 2000
    token = found.tokens["x"]
    assert (token.owner, token.requester, token.renewers) == ("User:a", "User:b", ("User:c",))
    assert (token.issued_ms, token.expires_ms, token.max_ms) == (1, 2, 3)
    assert image({"/feature": b'{"version":2,"features":{"a":4},"status":1}'})[0].features == {"a": 4}
