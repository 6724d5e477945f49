"""The image of a cluster: what all records of its metadata log make together (`MetadataImage` of Kafka).

`ClusterImage.replay` is the state machine, record by record: the rules of `ClusterDelta`, `TopicsDelta`, `TopicDelta`,
`PartitionRegistration.merge`, `ConfigurationDelta`, `FeaturesDelta`, `ClientQuotasDelta`, `AclsDelta`, `ScramDelta`,
`DelegationTokenDelta` and `ProducerIdsDelta`, which are the same from 3.3 to 4.4. A record that contradicts those
before it is left out, and the reason is returned: a node ends its process there.

A cluster of ZooKeeper has the same things, without ids of directories and ACLs: what it does not have is empty.

Ids of topics, directories and processes are text as `Uuid.toString` has it: base64url of 22 characters.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as hidden
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafkalog_core.format.control import KRaftVersion, KRaftVoters, LeaderChange
from kafkalog_core.format.textfile import uuid_text
from kafkalog_core.structs import Struct, field
from kafkalog_core.topics.metadata_records import METADATA_VERSION, SAME_LEADER, TOPIC_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalog_core.format.control import ControlValue, KRaftVoter
    from kafkalog_core.topics.metadata_records import MetadataRecord

__all__ = [
    "NO_LEADER",
    "AclEntry",
    "BrokerState",
    "ClusterImage",
    "ControllerState",
    "DelegationToken",
    "FeatureRange",
    "NodeListener",
    "PartitionRegistration",
    "QuotaEntity",
    "ScramCredential",
    "TopicState",
    "id_text",
]

NO_LEADER: Final = -1
_KRAFT_VERSION: Final = "kraft.version"

QuotaEntity: TypeAlias = "tuple[tuple[str, str | None], ...]"
"""Who a quota is for: pairs of a type (`user`, `client-id`, `ip`) and a name, by type; None: the type's default."""


class NodeListener(Struct, frozen=True):
    """An address of a broker or a controller; `security_protocol`: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    name: str
    host: str
    port: int
    security_protocol: int


class FeatureRange(Struct, frozen=True):
    """The levels of a feature that a node's release supports, both ends included."""

    lowest: int
    highest: int


class BrokerState(Struct, kw_only=True):
    """A registered broker (`BrokerRegistration`).

    Args:
        node_id: its id.
        epoch: of this registration: the offset of its record; in ZooKeeper the zxid of its node.
        incarnation_id: of its process, in base64url; empty: unknown.
        listeners: its addresses.
        features: that its release supports, by name.
        rack: of the broker; None: none is set.
        is_fenced: whether clients do not see it: it has not caught up, or does not send heartbeats.
        in_controlled_shutdown: whether it gives its leaderships away, to stop.
        log_dirs: ids of its online log directories (KIP-858); empty: unknown.
        cordoned_log_dirs: those that get no new replicas (4.3); None: unknown.
        is_migrating: whether it is a ZooKeeper broker that registered with a migrating quorum (KIP-866).
    """

    node_id: int
    epoch: int = -1
    incarnation_id: str = ""
    listeners: tuple[NodeListener, ...] = ()
    features: dict[str, FeatureRange] = field(default_factory=dict)
    rack: str | None = None
    is_fenced: bool = False
    in_controlled_shutdown: bool = False
    log_dirs: tuple[str, ...] = ()
    cordoned_log_dirs: tuple[str, ...] | None = None
    is_migrating: bool = False


class ControllerState(Struct, kw_only=True):
    """A registered controller (`ControllerRegistration`, from metadata.version 3.7-IV0 on)."""

    node_id: int
    incarnation_id: str = ""
    listeners: tuple[NodeListener, ...] = ()
    features: dict[str, FeatureRange] = field(default_factory=dict)
    is_migration_ready: bool = False


class PartitionRegistration(Struct, kw_only=True):
    """A partition (`PartitionRegistration`).

    Args:
        replicas: node ids, the preferred leader first.
        isr: node ids of the in-sync replicas.
        leader: node id; -1: none.
        leader_epoch: rises with each election.
        partition_epoch: rises with each change; in ZooKeeper the version of the state's node.
        removing: replicas that a reassignment removes.
        adding: replicas that a reassignment adds.
        directories: ids of the log directories of `replicas`, in the same order; empty: unknown.
        elr: eligible leader replicas (KIP-966), not in the ISR.
        last_known_elr: the last members of the ISR that had an unclean shutdown.
        is_recovering: whether the leader was elected uncleanly and has not yet recovered (LeaderRecoveryState).
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int = NO_LEADER
    leader_epoch: int = -1
    partition_epoch: int = -1
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    directories: tuple[str, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    is_recovering: bool = False

    def directory_of(self, node_id: int) -> str | None:
        """Return the id of the log directory that holds a node's replica; None: it is unknown."""
        return dict(zip(self.replicas, self.directories, strict=False)).get(node_id)


class TopicState(Struct):
    """A topic: its name, its id (empty before topic ids), and its partitions by number."""

    name: str
    topic_id: str
    partitions: dict[int, PartitionRegistration] = field(default_factory=dict)


class AclEntry(Struct, frozen=True, kw_only=True):
    """An access control entry. The numbers are those of ResourceType, PatternType, AclOperation, AclPermissionType."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """What a cluster keeps of a user's password (KIP-900); `mechanism`: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    user: str
    mechanism: int
    salt: bytes = hidden(repr=False)
    stored_key: bytes = hidden(repr=False)
    server_key: bytes = hidden(repr=False)
    iterations: int


class DelegationToken(Struct, frozen=True, kw_only=True):
    """A delegation token (KIP-48). Its secret is not stored: brokers compute it from their secret key and the id."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int


class ClusterImage(Struct):
    """The state of a cluster.

    Args:
        features: finalized levels by name; kraft.version is in `kraft_version`.
        brokers: by node id.
        controllers: by node id.
        topics: by topic id; by name where the cluster has no topic ids.
        topic_ids: the keys of `topics` by name.
        configs: settings by the type (`ConfigResource.Type`) and the name of a resource; no secret is left out.
        quotas: values by key, by entity.
        acls: by the id of the entry; by a number where the cluster has no ids of them.
        users: by name and mechanism.
        tokens: by id.
        next_producer_id: the first id that no block given to a broker contains.
        kraft_version: 1: the voters are in the log (KIP-853).
        voters: of the quorum by the log; empty: they are configured (controller.quorum.voters).
        leader_change: the last one; None: none was read, as snapshots have none.
        is_of_zookeeper: whether ZooKeeper has it, and no metadata log: `brokers` are those that were alive.
        zk_migration: the last state of a migration from ZooKeeper (ZkMigrationState); None: no record has one.
    """

    features: dict[str, int] = field(default_factory=dict)
    brokers: dict[int, BrokerState] = field(default_factory=dict)
    controllers: dict[int, ControllerState] = field(default_factory=dict)
    topics: dict[str, TopicState] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    acls: dict[str, AclEntry] = field(default_factory=dict)
    users: dict[tuple[str, int], ScramCredential] = field(default_factory=dict)
    tokens: dict[str, DelegationToken] = field(default_factory=dict)
    next_producer_id: int = 0
    kraft_version: int = 0
    voters: tuple[KRaftVoter, ...] = ()
    leader_change: LeaderChange | None = None
    zk_migration: int | None = None
    is_of_zookeeper: bool = False

    @property
    def level(self) -> int | None:
        """The finalized level of metadata.version; None: the log has none."""
        return self.features.get(METADATA_VERSION)

    @property
    def partition_count(self) -> int:
        """The number of partitions of all topics."""
        return sum(len(topic.partitions) for topic in self.topics.values())

    @property
    def nodes_with_replicas(self) -> set[int]:
        """The ids of the nodes that have a replica of a partition."""
        return {node for topic in self.topics.values() for each in topic.partitions.values() for node in each.replicas}

    def topic(self, name: str) -> TopicState | None:
        """Return a topic by its name; None: it does not exist."""
        return self.topics.get(self.topic_ids.get(name, ""))

    def partition(self, topic_id: str, number: int) -> PartitionRegistration | None:
        """Return a partition by the id of its topic; None: it does not exist."""
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(number)

    def configs_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return the settings of a resource."""
        return self.configs.get((resource_type, name), {})

    def replay_control(self, value: ControlValue) -> None:
        """Replay a control record: the version, the voters and the leader of the quorum. Others change nothing."""
        if isinstance(value, KRaftVoters):
            self.voters = value.voters
        elif isinstance(value, KRaftVersion):
            self.kraft_version = value.kraft_version
        elif isinstance(value, LeaderChange):
            self.leader_change = value

    def replay(self, record: MetadataRecord) -> str:
        """Replay a data record; return why it contradicts those before it, and changes nothing; empty: it does not."""
        replay = _REPLAYS.get(record.name)
        return "" if replay is None else replay(self, record.fields)


# --- texts that repeat ------------------------------------------------------------------------------------------------
_ID_TEXTS: Final[dict[bytes, str]] = {}
_TUPLES: Final[dict[tuple[int, ...], tuple[int, ...]]] = {}
_KEPT: Final = 1 << 16
"""Ids of topics and directories, and lists of replicas, repeat in most records: one object is used for all of them."""


def id_text(value: bytes) -> str:
    """Return the text of an id of 16 bytes, as `uuid_text` does; ids that come again have one text."""
    text = _ID_TEXTS.get(value)
    if text is None:
        if len(_ID_TEXTS) >= _KEPT:
            _ID_TEXTS.clear()
        text = _ID_TEXTS[value] = uuid_text(value)
    return text


def _ids(values: Iterable[bytes]) -> tuple[str, ...]:
    return tuple([id_text(value) for value in values])


def _nodes(values: Sequence[int] | None) -> tuple[int, ...]:
    if not values:
        return ()
    given = tuple(values)
    if len(_TUPLES) >= _KEPT:
        _TUPLES.clear()
    return _TUPLES.setdefault(given, given)


# --- nodes ------------------------------------------------------------------------------------------------------------
def _listeners(fields: dict[str, Any]) -> tuple[NodeListener, ...]:
    return tuple([NodeListener(*(each[key] for key in _LISTENER)) for each in fields["end_points"]])


_LISTENER: Final = ("name", "host", "port", "security_protocol")


def _features(fields: dict[str, Any]) -> dict[str, FeatureRange]:
    return {
        each["name"]: FeatureRange(each["min_supported_version"], each["max_supported_version"])
        for each in fields["features"]
    }


def _register_broker(image: ClusterImage, fields: dict[str, Any]) -> str:
    cordoned = fields["cordoned_log_dirs"]
    image.brokers[fields["broker_id"]] = BrokerState(
        node_id=fields["broker_id"],
        epoch=fields["broker_epoch"],
        incarnation_id=id_text(fields["incarnation_id"]),
        listeners=_listeners(fields),
        features=_features(fields),
        rack=fields["rack"],
        is_fenced=fields["fenced"],
        in_controlled_shutdown=fields["in_controlled_shutdown"],
        log_dirs=_ids(fields["log_dirs"]),
        cordoned_log_dirs=None if cordoned is None else _ids(cordoned),
        is_migrating=fields["is_migrating_zk_broker"],
    )
    return ""


def _register_controller(image: ClusterImage, fields: dict[str, Any]) -> str:
    image.controllers[fields["controller_id"]] = ControllerState(
        node_id=fields["controller_id"],
        incarnation_id=id_text(fields["incarnation_id"]),
        listeners=_listeners(fields),
        features=_features(fields),
        is_migration_ready=fields["zk_migration_ready"],
    )
    return ""


def _broker_of(image: ClusterImage, what: str, node_id: int, epoch: int) -> BrokerState | str:
    """Return the broker that a record is about, or why it cannot be replayed (`ClusterDelta.getBrokerOrThrow`)."""
    broker = image.brokers.get(node_id)
    if broker is None:
        return f"{what} is about broker {node_id}, which no record before it registers"
    if broker.epoch != epoch:
        return f"{what} is about broker {node_id} with epoch {epoch}, but its registration has epoch {broker.epoch}"
    return broker


def _unregister_broker(image: ClusterImage, fields: dict[str, Any]) -> str:
    found = _broker_of(image, "UnregisterBrokerRecord", fields["broker_id"], fields["broker_epoch"])
    if isinstance(found, str):
        return found
    del image.brokers[found.node_id]
    return ""


def _fence(what: str, *, is_fenced: bool) -> Callable[[ClusterImage, dict[str, Any]], str]:
    def replay(image: ClusterImage, fields: dict[str, Any]) -> str:
        found = _broker_of(image, what, fields["id"], fields["epoch"])
        if isinstance(found, str):
            return found
        found.is_fenced = is_fenced
        return ""

    return replay


def _change_broker(image: ClusterImage, fields: dict[str, Any]) -> str:
    found = _broker_of(image, "BrokerRegistrationChangeRecord", fields["broker_id"], fields["broker_epoch"])
    if isinstance(found, str):
        return found
    if fields["fenced"]:  # BrokerRegistrationFencingChange: 1 fence, -1 unfence
        found.is_fenced = fields["fenced"] > 0
    if fields["in_controlled_shutdown"]:
        found.in_controlled_shutdown = True
    if fields["log_dirs"]:
        found.log_dirs = _ids(fields["log_dirs"])
    if fields["cordoned_log_dirs"] is not None:
        found.cordoned_log_dirs = _ids(fields["cordoned_log_dirs"])
    return ""


def _unregister_controller(image: ClusterImage, fields: dict[str, Any]) -> str:
    image.controllers.pop(fields["controller_id"], None)
    return ""


# --- topics -----------------------------------------------------------------------------------------------------------
def _unknown_topic(what: str, topic_id: str) -> str:
    return f"{what} is about the topic with id {topic_id}, which no record before it creates"


def _topic(image: ClusterImage, fields: dict[str, Any]) -> str:
    topic_id = id_text(fields["topic_id"])
    image.topics[topic_id] = TopicState(fields["name"], topic_id)
    image.topic_ids[fields["name"]] = topic_id
    return ""


def _remove_topic(image: ClusterImage, fields: dict[str, Any]) -> str:
    topic_id = id_text(fields["topic_id"])
    topic = image.topics.pop(topic_id, None)
    if topic is None:
        return _unknown_topic("RemoveTopicRecord", topic_id)
    if image.topic_ids.get(topic.name) == topic_id:
        del image.topic_ids[topic.name]
    image.configs.pop((TOPIC_RESOURCE, topic.name), None)  # MetadataDelta.replay(RemoveTopicRecord)
    return ""


def _partition(image: ClusterImage, fields: dict[str, Any]) -> str:
    topic_id = id_text(fields["topic_id"])
    topic = image.topics.get(topic_id)
    if topic is None:
        return _unknown_topic("PartitionRecord", topic_id)
    topic.partitions[fields["partition_id"]] = PartitionRegistration(
        replicas=_nodes(fields["replicas"]),
        isr=_nodes(fields["isr"]),
        leader=fields["leader"],
        leader_epoch=fields["leader_epoch"],
        partition_epoch=fields["partition_epoch"],
        removing=_nodes(fields["removing_replicas"]),
        adding=_nodes(fields["adding_replicas"]),
        directories=_ids(fields["directories"]),
        elr=_nodes(fields["eligible_leader_replicas"]),
        last_known_elr=_nodes(fields["last_known_elr"]),
        is_recovering=bool(fields["leader_recovery_state"]),
    )
    return ""


def _change_further(partition: PartitionRegistration, fields: dict[str, Any]) -> None:
    if fields["removing_replicas"] is not None:
        partition.removing = _nodes(fields["removing_replicas"])
    if fields["adding_replicas"] is not None:
        partition.adding = _nodes(fields["adding_replicas"])
    if fields["eligible_leader_replicas"] is not None:
        partition.elr = _nodes(fields["eligible_leader_replicas"])
    if fields["last_known_elr"] is not None:
        partition.last_known_elr = _nodes(fields["last_known_elr"])
    if fields["directories"] is not None:
        partition.directories = _ids(fields["directories"])


def _change_partition(image: ClusterImage, fields: dict[str, Any]) -> str:
    """`PartitionRegistration.merge`."""
    topic_id, number = id_text(fields["topic_id"]), fields["partition_id"]
    topic = image.topics.get(topic_id)
    if topic is None:
        return _unknown_topic("PartitionChangeRecord", topic_id)
    partition = topic.partitions.get(number)
    if partition is None:
        what = "PartitionChangeRecord"
        return f"{what} is about partition {number} of {topic.name}, which no record before it creates"
    # None keeps what there is. Most records change the ISR and the leader alone.
    if fields["isr"] is not None:
        partition.isr = _nodes(fields["isr"])
    if fields["replicas"] is not None:
        partition.replicas = _nodes(fields["replicas"])
    _change_further(partition, fields)
    if fields["leader"] != SAME_LEADER:  # the same leader again is an election too
        partition.leader = fields["leader"]
        partition.leader_epoch += 1
    if fields["leader_recovery_state"] >= 0:
        partition.is_recovering = bool(fields["leader_recovery_state"])
    partition.partition_epoch += 1
    return ""


def _clear_elr(image: ClusterImage, fields: dict[str, Any]) -> str:
    """`TopicsDelta.replay(ClearElrRecord)`: an empty name is all topics."""
    name = fields["topic_name"]
    topic = image.topic(name)
    if name and topic is None:
        return f"ClearElrRecord is about topic {name}, which no record before it creates"
    for each in image.topics.values() if topic is None else (topic,):
        for partition in each.partitions.values():
            if partition.elr or partition.last_known_elr:
                partition.elr = partition.last_known_elr = ()
                partition.partition_epoch += 1
    return ""


# --- settings and security --------------------------------------------------------------------------------------------
def _config(image: ClusterImage, fields: dict[str, Any]) -> str:
    resource = fields["resource_type"], fields["resource_name"]
    given = image.configs.setdefault(resource, {})
    if fields["value"] is not None:
        given[fields["name"]] = fields["value"]
    else:
        given.pop(fields["name"], None)
    if not given:
        del image.configs[resource]
    return ""


def _feature_level(image: ClusterImage, fields: dict[str, Any]) -> str:
    name = fields["name"]
    if name == _KRAFT_VERSION:  # FeaturesDelta.replay ignores it: a control record has it
        return ""
    if fields["feature_level"] or name == METADATA_VERSION:
        image.features[name] = fields["feature_level"]
    else:
        image.features.pop(name, None)
    return ""


def _quota(image: ClusterImage, fields: dict[str, Any]) -> str:
    pairs = [(each["entity_type"], each["entity_name"]) for each in fields["entity"]]
    entity = tuple(sorted(pairs, key=lambda pair: (pair[0], pair[1] is not None, pair[1] or "")))
    given = image.quotas.setdefault(entity, {})
    if not fields["remove"]:
        given[fields["key"]] = fields["value"]
    else:
        given.pop(fields["key"], None)
    if not given:
        del image.quotas[entity]
    return ""


def _producer_ids(image: ClusterImage, fields: dict[str, Any]) -> str:
    image.next_producer_id = fields["next_producer_id"]
    return ""


_ACL_FIELDS: Final = tuple(AclEntry.__struct_fields__)


def _acl(image: ClusterImage, fields: dict[str, Any]) -> str:
    image.acls[id_text(fields["id"])] = AclEntry(**{name: fields[name] for name in _ACL_FIELDS})
    return ""


def _remove_acl(image: ClusterImage, fields: dict[str, Any]) -> str:
    acl_id = id_text(fields["id"])
    if image.acls.pop(acl_id, None) is None:  # AclsDelta.replay
        return f"RemoveAccessControlEntryRecord is about the ACL with id {acl_id}, which no record before it creates"
    return ""


def _user(image: ClusterImage, fields: dict[str, Any]) -> str:
    names = ("mechanism", "salt", "stored_key", "server_key", "iterations")
    credential = ScramCredential(user=fields["name"], **{name: fields[name] for name in names})
    image.users[credential.user, credential.mechanism] = credential
    return ""


def _remove_user(image: ClusterImage, fields: dict[str, Any]) -> str:
    image.users.pop((fields["name"], fields["mechanism"]), None)
    return ""


def _token(image: ClusterImage, fields: dict[str, Any]) -> str:
    image.tokens[fields["token_id"]] = DelegationToken(
        token_id=fields["token_id"],
        owner=fields["owner"],
        requester=fields["requester"],
        renewers=tuple(fields["renewers"]),
        issued_ms=fields["issue_timestamp"],
        max_ms=fields["max_timestamp"],
        expires_ms=fields["expiration_timestamp"],
    )
    return ""


def _remove_token(image: ClusterImage, fields: dict[str, Any]) -> str:
    image.tokens.pop(fields["token_id"], None)
    return ""


def _migration(image: ClusterImage, fields: dict[str, Any]) -> str:
    image.zk_migration = fields["zk_migration_state"]
    return ""


_REPLAYS: Final[Mapping[str, Callable[[ClusterImage, dict[str, Any]], str]]] = {
    "RegisterBrokerRecord": _register_broker,
    "UnregisterBrokerRecord": _unregister_broker,
    "TopicRecord": _topic,
    "PartitionRecord": _partition,
    "ConfigRecord": _config,
    "PartitionChangeRecord": _change_partition,
    "FenceBrokerRecord": _fence("FenceBrokerRecord", is_fenced=True),
    "UnfenceBrokerRecord": _fence("UnfenceBrokerRecord", is_fenced=False),
    "RemoveTopicRecord": _remove_topic,
    "DelegationTokenRecord": _token,
    "UserScramCredentialRecord": _user,
    "FeatureLevelRecord": _feature_level,
    "ClientQuotaRecord": _quota,
    "ProducerIdsRecord": _producer_ids,
    "BrokerRegistrationChangeRecord": _change_broker,
    "AccessControlEntryRecord": _acl,
    "RemoveAccessControlEntryRecord": _remove_acl,
    "ZkMigrationStateRecord": _migration,
    "RemoveUserScramCredentialRecord": _remove_user,
    "RemoveDelegationTokenRecord": _remove_token,
    "RegisterControllerRecord": _register_controller,
    "ClearElrRecord": _clear_elr,
    "UnregisterControllerRecord": _unregister_controller,
}
"""Records that are not here change nothing: NoOpRecord, and those of `metadata_transactions`."""
