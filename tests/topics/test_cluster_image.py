"""The state machine of the metadata log, rule by rule of Kafka's deltas."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalog_core.format.control import KRaftVersion, KRaftVoter, KRaftVoters, LeaderChange, Voter
from kafkalog_core.topics.cluster_image import ClusterImage, FeatureRange, NodeListener
from kafkalog_core.topics.metadata_records import MetadataRecord, decode_record, encode_record
from kafkalog_core.topics.metadata_transactions import MetadataTransactions

TOPIC_ID, OTHER_ID = (bytes([number]) * 16 for number in (1, 2))
DIR_1, DIR_2 = (bytes([number]) * 16 for number in (8, 9))
TOPIC, OTHER = "AQEBAQEBAQEBAQEBAQEBAQ", "AgICAgICAgICAgICAgICAg"


def record(name: str, version: int = 0, /, **fields: Any) -> MetadataRecord:
    """A record as it is read: every field is there."""
    return decode_record(encode_record(f"{name}Record", version, fields))


def partition(number: int = 0, **fields: Any) -> MetadataRecord:
    """A PartitionRecord of version 2 with three replicas, led by the first."""
    given = {"replicas": [1, 2, 3], "isr": [1, 2, 3], "removing_replicas": [], "adding_replicas": [], "leader": 1}
    given |= {"leader_epoch": 4, "partition_epoch": 7, "directories": []}
    return record("Partition", 2, **{"partition_id": number, "topic_id": TOPIC_ID, **given, **fields})


def change(number: int = 0, **fields: Any) -> MetadataRecord:
    """A PartitionChangeRecord."""
    return record("PartitionChange", 2, partition_id=number, topic_id=TOPIC_ID, **fields)


@pytest.fixture
def image() -> ClusterImage:
    """A cluster with one topic of one partition, and one broker."""
    image = ClusterImage()
    for each in (record("Topic", name="t", topic_id=TOPIC_ID), partition(), broker(1)):
        assert image.replay(each) == ""
    return image


def broker(node_id: int, epoch: int = 10, **fields: Any) -> MetadataRecord:
    """A RegisterBrokerRecord of version 4."""
    given: dict[str, Any] = {"incarnation_id": OTHER_ID, "end_points": [], "features": [], "rack": None}
    return record("RegisterBroker", 4, **{"broker_id": node_id, "broker_epoch": epoch, **given, **fields})


# --- partitions -------------------------------------------------------------------------------------------------------
def test_a_partition_is_set_completely(image: ClusterImage) -> None:
    state = image.topics[TOPIC].partitions[0]
    assert (state.replicas, state.isr, state.leader, state.leader_epoch, state.partition_epoch) == (
        (1, 2, 3),
        (1, 2, 3),
        1,
        4,
        7,
    )
    image.replay(change(eligible_leader_replicas=[2]))
    image.replay(partition(isr=[3], leader=3, leader_epoch=9, partition_epoch=1))
    state = image.topics[TOPIC].partitions[0]
    assert (state.isr, state.leader, state.leader_epoch, state.partition_epoch, state.elr) == ((3,), 3, 9, 1, ())


@pytest.mark.parametrize(
    ("fields", "leader", "leader_epoch"),
    [
        ({"isr": [1, 2]}, 1, 4),
        ({"leader": 2}, 2, 5),
        ({"leader": 1}, 1, 5),
        ({"leader": -1}, -1, 5),
    ],
    ids=["no leader", "another", "the same again", "none"],
)
def test_a_named_leader_raises_the_leader_epoch_and_each_change_the_partition_epoch(
    image: ClusterImage, fields: dict[str, Any], leader: int, leader_epoch: int
) -> None:
    """`PartitionRegistration.merge`."""
    assert image.replay(change(**fields)) == ""
    state = image.topics[TOPIC].partitions[0]
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (leader, leader_epoch, 8)


def test_what_a_change_leaves_out_is_kept(image: ClusterImage) -> None:
    image.replay(
        change(
            isr=[],
            replicas=[4, 5],
            removing_replicas=[5],
            adding_replicas=[4],
            leader_recovery_state=1,
            directories=[DIR_1, DIR_2],
            eligible_leader_replicas=[4],
            last_known_elr=[5],
        )
    )
    image.replay(change(isr=[4]))
    state = image.topics[TOPIC].partitions[0]
    assert (state.replicas, state.removing, state.adding, state.elr, state.last_known_elr) == (
        (4, 5),
        (5,),
        (4,),
        (4,),
        (5,),
    )
    assert state.is_recovering
    assert state.isr == (4,)
    assert state.directory_of(5) == "CQkJCQkJCQkJCQkJCQkJCQ"
    assert state.directory_of(6) is None
    image.replay(change(leader_recovery_state=0, removing_replicas=[]))
    assert not state.is_recovering
    assert state.removing == ()


def test_a_deleted_topic_takes_its_settings_and_its_name_with_it(image: ClusterImage) -> None:
    image.replay(record("Config", resource_type=2, resource_name="t", name="retention.ms", value="1"))
    image.replay(record("Topic", name="t", topic_id=OTHER_ID))
    assert image.topic_ids == {"t": OTHER}, "it was created again before the old one was removed"
    assert image.replay(record("RemoveTopic", topic_id=TOPIC_ID)) == ""
    assert image.topic_ids == {"t": OTHER}
    assert set(image.topics) == {OTHER}
    assert image.configs == {}
    assert image.replay(record("RemoveTopic", topic_id=OTHER_ID)) == ""
    assert (image.topics, image.topic_ids) == ({}, {})


def test_elr_is_cleared_where_there_is_one(image: ClusterImage) -> None:
    image.replay(partition(1))
    image.replay(change(eligible_leader_replicas=[2]))
    image.replay(change(1))
    before = image.topics[TOPIC].partitions[1].partition_epoch
    assert image.replay(record("ClearElr", topic_name="")) == ""
    states = image.topics[TOPIC].partitions
    assert (states[0].elr, states[0].partition_epoch) == ((), 9)
    assert states[1].partition_epoch == before
    assert image.replay(record("ClearElr", topic_name="t")) == ""
    assert image.replay(record("ClearElr", topic_name="u")).startswith("ClearElrRecord is about topic u")


# --- nodes ------------------------------------------------------------------------------------------------------------
def test_a_registration_replaces_the_one_before(image: ClusterImage) -> None:
    listener = {"name": "PLAINTEXT", "host": "h", "port": 40000, "security_protocol": 0}
    feature = {"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 33}
    image.replay(broker(1, 11, end_points=[listener], features=[feature], rack="r", log_dirs=[DIR_1], fenced=True))
    state = image.brokers[1]
    assert (state.epoch, state.rack, state.is_fenced, state.log_dirs) == (11, "r", True, ("CAgICAgICAgICAgICAgICA",))
    assert state.listeners == (NodeListener("PLAINTEXT", "h", 40000, 0),)
    assert state.features == {"metadata.version": FeatureRange(7, 33)}
    assert state.cordoned_log_dirs is None


def test_changes_of_a_registration(image: ClusterImage) -> None:
    def registration(version: int, **fields: Any) -> str:
        return image.replay(record("BrokerRegistrationChange", version, broker_id=1, broker_epoch=10, **fields))

    state = image.brokers[1]
    assert state.is_fenced
    assert registration(0, fenced=-1) == ""
    assert not state.is_fenced
    assert registration(1, in_controlled_shutdown=1) == ""
    assert registration(2, log_dirs=[DIR_1]) == ""
    assert registration(3, cordoned_log_dirs=[]) == ""
    assert state.in_controlled_shutdown
    assert (state.log_dirs, state.cordoned_log_dirs) == (("CAgICAgICAgICAgICAgICA",), ())
    assert registration(3, fenced=1) == ""
    assert state.is_fenced
    assert state.log_dirs, "no directories in the record: unchanged"
    assert image.replay(record("UnfenceBroker", id=1, epoch=10)) == ""
    assert not state.is_fenced
    assert image.replay(record("FenceBroker", id=1, epoch=10)) == ""
    assert state.is_fenced
    assert image.replay(record("UnregisterBroker", broker_id=1, broker_epoch=10)) == ""
    assert image.brokers == {}


def test_controllers_come_and_go() -> None:
    image, empty = ClusterImage(), {"end_points": [], "features": [], "zk_migration_ready": False}
    image.replay(record("RegisterController", controller_id=3, incarnation_id=OTHER_ID, **empty))
    assert image.controllers[3].incarnation_id == OTHER
    image.replay(record("UnregisterController", controller_id=3))
    assert image.controllers == {}


@pytest.mark.parametrize(
    ("each", "why"),
    [
        (record("RemoveTopic", topic_id=OTHER_ID), f"RemoveTopicRecord is about the topic with id {OTHER}"),
        (partition(topic_id=OTHER_ID), f"PartitionRecord is about the topic with id {OTHER}"),
        (change(5), "PartitionChangeRecord is about partition 5 of t"),
        (record("FenceBroker", id=9, epoch=1), "FenceBrokerRecord is about broker 9, which no record before it"),
        (record("FenceBroker", id=1, epoch=9), "broker 1 with epoch 9, but its registration has epoch 10"),
        (record("UnregisterBroker", broker_id=1, broker_epoch=9), "with epoch 9"),
        (record("RemoveAccessControlEntry", id=OTHER_ID), "is about the ACL with id"),
    ],
)
def test_a_contradiction_changes_nothing(image: ClusterImage, each: MetadataRecord, why: str) -> None:
    before = repr(image)
    assert why in image.replay(each)
    assert repr(image) == before


# --- settings and security --------------------------------------------------------------------------------------------
def test_settings_features_quotas() -> None:
    image = ClusterImage()
    config = {"resource_type": 4, "resource_name": "", "name": "log.retention.ms"}
    quota = {"entity": [{"entity_type": "user", "entity_name": None}], "key": "producer_byte_rate", "value": 2.5}
    for each in (
        record("Config", **config, value="1"),
        record("Config", **config, value="2"),
        record("FeatureLevel", name="metadata.version", feature_level=30),
        record("FeatureLevel", name="group.version", feature_level=1),
        record("FeatureLevel", name="kraft.version", feature_level=1),
        record("ClientQuota", **quota, remove=False),
        record("ProducerIds", broker_id=1, broker_epoch=1, next_producer_id=3000),
        record("ZkMigrationState", zk_migration_state=2),
        record("NoOp"),
    ):
        assert image.replay(each) == ""
    assert image.configs == {(4, ""): {"log.retention.ms": "2"}}
    assert image.features == {"metadata.version": 30, "group.version": 1}, "a control record has kraft.version"
    assert image.level == 30
    assert image.quotas == {(("user", None),): {"producer_byte_rate": 2.5}}
    assert (image.next_producer_id, image.zk_migration) == (3000, 2)
    image.replay(record("Config", **config, value=None))
    image.replay(record("Config", **config, value=None))
    image.replay(record("FeatureLevel", name="group.version", feature_level=0))
    image.replay(record("ClientQuota", **quota, remove=True))
    assert (image.configs, image.quotas, image.features) == ({}, {}, {"metadata.version": 30})


def test_acls_users_tokens() -> None:
    image = ClusterImage()
    acl = {"resource_type": 2, "resource_name": "t", "pattern_type": 3, "principal": "User:a", "host": "*"}
    keys = {"salt": b"s", "stored_key": b"k", "server_key": b"v"}
    token = {"owner": "User:a", "requester": "User:b", "renewers": ["User:c"], "token_id": "id"}
    times = {"issue_timestamp": 1, "max_timestamp": 3, "expiration_timestamp": 2}
    image.replay(record("AccessControlEntry", id=TOPIC_ID, **acl, operation=3, permission_type=3))
    image.replay(record("UserScramCredential", name="a", mechanism=1, iterations=4096, **keys))
    image.replay(record("DelegationToken", **token, **times))
    assert image.acls[TOPIC].principal == "User:a"
    user = image.users["a", 1]
    assert (user.salt, user.stored_key, user.server_key, user.iterations) == (b"s", b"k", b"v", 4096)
    assert "k'" not in repr(user), "keys are in no error message"
    assert (image.tokens["id"].issued_ms, image.tokens["id"].expires_ms, image.tokens["id"].max_ms) == (1, 2, 3)
    image.replay(record("RemoveAccessControlEntry", id=TOPIC_ID))
    image.replay(record("RemoveUserScramCredential", name="a", mechanism=1))
    image.replay(record("RemoveDelegationToken", token_id=token["token_id"]))
    assert (image.acls, image.users, image.tokens) == ({}, {}, {})


def test_control_records() -> None:
    image = ClusterImage()
    voter = KRaftVoter(voter_id=1, directory_id=TOPIC, endpoints=(), min_kraft_version=0, max_kraft_version=1)
    leader = LeaderChange(version=0, leader_id=1, voters=(Voter(voter_id=1),), granting_voters=())
    for each in (KRaftVersion(version=0, kraft_version=1), KRaftVoters(version=0, voters=(voter,)), leader):
        image.replay_control(each)
    assert (image.kraft_version, image.voters, image.leader_change) == (1, (voter,), leader)


# --- transactions -----------------------------------------------------------------------------------------------------
def test_a_transaction_takes_effect_at_its_end_or_never() -> None:
    transactions, noop = MetadataTransactions(), record("NoOp")
    begin, end, abort = (record(f"{word}Transaction") for word in ("Begin", "End", "Abort"))
    assert transactions.push(0, noop) == ((0, noop),)
    assert [transactions.push(*each) for each in ((1, begin), (2, noop), (3, noop))] == [()] * 3
    assert transactions.pending == [(2, noop), (3, noop)]
    assert transactions.push(4, end) == [(2, noop), (3, noop)]
    assert transactions.pending is None
    assert [transactions.push(*each) for each in ((5, begin), (6, noop), (7, abort))] == [()] * 3
    assert (transactions.pending, transactions.aborted) == (None, 1)
