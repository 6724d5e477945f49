"""A Kafka cluster by its nodes in ZooKeeper: brokers, topics, configs, ACLs, users, old groups, migration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_core.structs import Struct, field
from kafkalog_core.topics.zookeeper_nodes import DEFAULT_ENTITY, chroots, entity_name, read_node, scram_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.format.zookeeper.snapshots import Znode
    from kafkalog_core.topics.cluster_image import QuotaEntity

__all__ = ["KafkaState", "OldGroup", "OldOffset", "PartitionNodes", "TopicNodes", "kafka_states"]

Fields = dict[str, Any]
Place = tuple[str, str]
"""A topic, and the name of a partition's node: its number, or broker-number with 0.7."""


class PartitionNodes(Struct, kw_only=True):
    """A partition: its replicas and its state, and the version of the state's node; None: it has no state node."""

    replicas: list[int]
    leader: int | None = None
    leader_epoch: int | None = None
    isr: list[int] | None = None
    version: int | None = None
    is_recovering: bool = False
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)


class TopicNodes(Struct, kw_only=True):
    """A topic: its id, its partitions; of 0.7: the number of partitions on each broker."""

    topic_id: str | None = None
    partitions: dict[int, PartitionNodes] = field(default_factory=dict)
    partitions_07: dict[int, int] = field(default_factory=dict)
    is_deleted: bool = False


class OldOffset(Struct, frozen=True):
    """An offset of an old consumer: the next to be read (0.7: a byte in the log of a broker), and when it was set."""

    offset: int
    time_ms: int


class OldGroup(Struct, kw_only=True):
    """A group of old consumers: subscriptions by consumer id, owners and offsets by topic and partition node."""

    consumers: dict[str, Fields] = field(default_factory=dict)
    owners: dict[Place, str] = field(default_factory=dict)
    offsets: dict[Place, OldOffset] = field(default_factory=dict)

    @property
    def is_07(self) -> bool:
        """Whether its partitions are those of 0.7, broker-number."""
        return any("-" in place for _, place in (*self.offsets, *self.owners))


class KafkaState(Struct, kw_only=True):
    """One cluster.

    Args:
        chroot: of zookeeper.connect; empty: the root.
        cluster_id: None: before 0.10.1, or there is none.
        brokers: registrations by id: those that were alive. `epoch` is the czxid of the node.
        controller: the fields of the node; None: there was none.
        controller_epoch: None: there is no such node.
        topics: by name.
        configs: entity type, entity and settings.
        quotas: entity and settings of users and clients, and of addresses, as `configs` has them; the name of an entity
            is None where it is the default of its type.
        acls: resource type, pattern, resource, principal, permission, operation and host of each.
        users: SCRAM credentials by user and mechanism.
        tokens: delegation tokens by id.
        groups: of old consumers.
        migration: the fields of /migration; None: no migration to KRaft was begun.
        features: None: there is no such node.
        producer_ids: the last block of producer ids; None: there is no such node.
        reassignments: partitions in /admin/reassign_partitions.
        problems: sentences about nodes that cannot be read.
    """

    chroot: str = ""
    cluster_id: str | None = None
    brokers: dict[int, Fields] = field(default_factory=dict)
    controller: Fields | None = None
    controller_epoch: int | None = None
    topics: dict[str, TopicNodes] = field(default_factory=dict)
    configs: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    quotas: list[tuple[QuotaEntity, dict[str, str]]] = field(default_factory=list)
    acls: list[dict[str, str]] = field(default_factory=list)
    users: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    tokens: dict[str, Fields] = field(default_factory=dict)
    groups: dict[str, OldGroup] = field(default_factory=dict)
    migration: Fields | None = None
    features: Fields | None = None
    producer_ids: Fields | None = None
    reassignments: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def partitions(self) -> int:
        """The number of partitions of all topics."""
        return sum(len(topic.partitions) + sum(topic.partitions_07.values()) for topic in self.topics.values())


def kafka_states(nodes: Mapping[str, Znode]) -> list[KafkaState]:
    """Return the cluster of each chroot, the root first."""
    return [_state_of(chroot, nodes) for chroot in chroots(nodes)]


def _state_of(chroot: str, nodes: Mapping[str, Znode]) -> KafkaState:
    state = KafkaState(chroot=chroot)
    prefix = f"{chroot}/"
    for path, node in nodes.items():
        if not path.startswith(prefix):
            continue
        read = read_node(path[len(chroot) :], node.data)
        if read is None:
            continue
        if read.problem is not None:
            state.problems.append(f"{path}: {read.problem}")
            continue
        take = _TAKE.get(read.kind)
        if take is not None:
            take(state, read.fields, node)
    # Nodes are in no order: a parent comes before its children, and that is all.
    state.topics = {name: state.topics[name] for name in sorted(state.topics)}
    state.groups = {name: state.groups[name] for name in sorted(state.groups)}
    for topic in state.topics.values():
        topic.partitions = {number: topic.partitions[number] for number in sorted(topic.partitions)}
    state.configs.sort(key=lambda each: each[:2])
    state.quotas.sort(key=lambda each: [(kind, name or "") for kind, name in each[0]])
    state.acls.sort(key=lambda each: (each["pattern"], each["resource_type"], each["resource"]))
    state.problems.sort()
    return state


def _take_broker(state: KafkaState, fields: Fields, node: Znode) -> None:
    # KafkaZkClient.registerBroker: the czxid of the node is the epoch of the broker.
    state.brokers[fields["broker"]] = fields | {"epoch": node.stat.czxid}


def _topic(state: KafkaState, fields: Fields) -> TopicNodes:
    topic = state.topics.get(fields["topic"])
    if topic is None:
        topic = state.topics[fields["topic"]] = TopicNodes()
    return topic


def _take_topic(state: KafkaState, fields: Fields, node: Znode) -> None:
    del node
    topic = _topic(state, fields)
    topic.topic_id = fields.get("topic_id")
    for number, replicas in fields["replicas"].items():
        topic.partitions[number] = PartitionNodes(
            replicas=replicas,
            adding=fields["adding"].get(number, []),
            removing=fields["removing"].get(number, []),
        )


def _take_partition(state: KafkaState, fields: Fields, node: Znode) -> None:
    topic = _topic(state, fields)
    partition = topic.partitions.get(fields["partition"])
    if partition is None:
        partition = topic.partitions[fields["partition"]] = PartitionNodes(replicas=[])
    partition.leader, partition.leader_epoch = fields["leader"], fields["leader_epoch"]
    partition.isr, partition.is_recovering = fields["isr"], fields["recovering"]
    partition.version = node.stat.version


def _take_07(state: KafkaState, fields: Fields, node: Znode) -> None:
    del node
    _topic(state, fields).partitions_07[fields["broker"]] = fields["value"]


def _take_deletion(state: KafkaState, fields: Fields, node: Znode) -> None:
    del node
    _topic(state, fields).is_deleted = True


def _take_config(state: KafkaState, fields: Fields, node: Znode) -> None:
    del node
    config = fields["config"]
    if "user" in fields:
        kind, name = "users/clients", f"{entity_name(fields['user'])}/{entity_name(fields['client'])}"
    else:
        kind, name = fields["type"], fields["name"]
        name = entity_name(name) if kind in {"users", "clients"} else name
    credentials = scram_of(config) if kind == "users" else {}
    if credentials:
        state.users[name] = credentials
    rest = {key: value for key, value in sorted(config.items()) if key not in credentials}
    if rest:
        state.configs.append((kind, name, rest))
        entity = _quota_entity(fields)
        if entity:
            state.quotas.append((entity, rest))


def _quota_entity(fields: Fields) -> QuotaEntity:
    """Return whose quotas a node has (ZkConfigMigrationClient.iterateClientQuotas); empty: it has no quotas."""
    if "user" in fields:
        names = {"client-id": fields["client"], "user": fields["user"]}
    elif fields["type"] in _QUOTA_TYPES:
        names = {_QUOTA_TYPES[fields["type"]]: fields["name"]}
    else:
        return ()
    return tuple((kind, None if name == DEFAULT_ENTITY else entity_name(name)) for kind, name in names.items())


_QUOTA_TYPES = {"clients": "client-id", "ips": "ip", "users": "user"}
"""The entities of quotas, by the node below /config."""


def _take_acls(state: KafkaState, fields: Fields, node: Znode) -> None:
    del node
    place = {
        "resource_type": fields["resource_type"],
        "pattern": fields.get("pattern", "literal"),
        "resource": fields["resource"],
    }
    state.acls += [place | acl for acl in fields["acls"]]


def _group(state: KafkaState, fields: Fields) -> OldGroup:
    return state.groups.setdefault(fields["group"], OldGroup())


def _take_group(state: KafkaState, fields: Fields, node: Znode) -> None:
    del node
    _group(state, fields)


def _take_consumer(state: KafkaState, fields: Fields, node: Znode) -> None:
    del node
    _group(state, fields).consumers[fields["consumer"]] = fields


def _take_owner(state: KafkaState, fields: Fields, node: Znode) -> None:
    del node
    _group(state, fields).owners[fields["topic"], fields["place"]] = fields["thread"]


def _take_offset(state: KafkaState, fields: Fields, node: Znode) -> None:
    offset = OldOffset(fields["value"], node.stat.mtime_ms)
    _group(state, fields).offsets[fields["topic"], fields["place"]] = offset


def _take_cluster_id(state: KafkaState, fields: Fields, node: Znode) -> None:
    del node
    value = fields.get("id")
    state.cluster_id = value if isinstance(value, str) else None


def _take_controller(state: KafkaState, fields: Fields, node: Znode) -> None:
    del node
    state.controller = fields


def _take_controller_epoch(state: KafkaState, fields: Fields, node: Znode) -> None:
    del node
    state.controller_epoch = fields["value"]


def _take_reassignment(state: KafkaState, fields: Fields, node: Znode) -> None:
    del node
    partitions = fields.get("partitions")
    state.reassignments = len(partitions) if isinstance(partitions, list) else 0


def _take_migration(state: KafkaState, fields: Fields, node: Znode) -> None:
    del node
    state.migration = fields


def _take_features(state: KafkaState, fields: Fields, node: Znode) -> None:
    del node
    state.features = fields


def _take_producer_ids(state: KafkaState, fields: Fields, node: Znode) -> None:
    del node
    state.producer_ids = fields


def _take_token(state: KafkaState, fields: Fields, node: Znode) -> None:
    del node
    state.tokens[fields["token"]] = fields


_TAKE = {
    "broker": _take_broker,
    "topic": _take_topic,
    "partition": _take_partition,
    "broker-partitions": _take_07,
    "topic-deletion": _take_deletion,
    "config": _take_config,
    "acl": _take_acls,
    "group": _take_group,
    "consumer": _take_consumer,
    "owner": _take_owner,
    "offset": _take_offset,
    "cluster-id": _take_cluster_id,
    "controller": _take_controller,
    "controller-epoch": _take_controller_epoch,
    "reassignment": _take_reassignment,
    "migration": _take_migration,
    "features": _take_features,
    "producer-ids": _take_producer_ids,
    "token": _take_token,
}
