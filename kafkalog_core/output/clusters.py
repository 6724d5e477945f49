"""The rows about a cluster: what its metadata log, or its ZooKeeper, says of nodes, topics, settings and security."""

from __future__ import annotations

from typing import Final

from kafkalog_core.output.schema import PLACE, Column, new_table

__all__ = [
    "CLUSTER",
    "CLUSTER_ACL",
    "CLUSTER_BROKER",
    "CLUSTER_CONFIG",
    "CLUSTER_CONTROLLER",
    "CLUSTER_DIFFERENCE",
    "CLUSTER_DIRECTORY",
    "CLUSTER_EVENT",
    "CLUSTER_FEATURE",
    "CLUSTER_PARTITION",
    "CLUSTER_QUOTA",
    "CLUSTER_TABLES",
    "CLUSTER_TOKEN",
    "CLUSTER_TOPIC",
    "CLUSTER_USER",
    "QUORUM_DISK",
    "QUORUM_PARTITION",
]

_TOPIC: Final = Column("topic", "string", "name of the topic")
_NODE: Final = Column("node_id", "int32", "id of the node")
_LISTENERS: Final = Column("listeners", "map", "its addresses: name, host, port, protocol")
_RELEASE: Final = Column(
    "release", "string", "of Kafka, by the highest metadata.version that it registered; null: unknown"
)
_FEATURES: Final = Column("features", "json", "lowest and highest level of each feature that its release supports")

CLUSTER: Final = new_table(
    "cluster",
    Column("path", "string", "the metadata log, the file, or the data directory of ZooKeeper, that was read"),
    Column("cluster_id", "string", "in meta.properties next to it, or in ZooKeeper; null: there is none"),
    Column("snapshot", "string", "path of the snapshot that the image begins with; null: it begins with the log"),
    Column("base_offset", "int64", "offset of that snapshot, or 0; null: ZooKeeper"),
    Column("end_offset", "int64", "after the last record that the image has; null: ZooKeeper"),
    Column("leader_epoch", "int32", "of that record; with ZooKeeper the controller's epoch"),
    Column("last_timestamp_ms", "int64", "of that record or transaction; null: none was read"),
    Column("is_whole", "bool", "whether no record up to there is missing, damaged or unknown"),
    Column("leader_id", "int32", "the last leader of the quorum, or the controller in ZooKeeper; null: unknown"),
    Column("kraft_version", "int32", "1: the voters are in the log (KIP-853); null: ZooKeeper"),
    Column("voters", "map", "of the quorum: node id, directory id, listeners; empty: unknown"),
    Column("metadata_version", "int32", "finalized level; null: none"),
    Column("release", "string", "of Kafka that has this level; null: none, or a newer one"),
    Column("brokers", "int64", "registered brokers; with ZooKeeper those that were alive"),
    Column("fenced", "int64", "of them those that are fenced"),
    Column("controllers", "int64", "registered controllers"),
    Column("topics", "int64", "topics"),
    Column("partitions", "int64", "partitions"),
    Column("leaderless", "int64", "partitions without a leader"),
    Column("under_replicated", "int64", "partitions whose ISR lacks a replica"),
    Column("acls", "int64", "access control entries"),
    Column("users", "int64", "SCRAM credentials"),
    Column("next_producer_id", "int64", "the first producer id that was not given to a broker"),
    Column("copies", "map", "of the metadata log on these disks: path, node id, end offset, leader epoch"),
    Column("zxid", "int64", "the last transaction of ZooKeeper that the image has; null: it is of a metadata log"),
    Column("chroot", "string", "node of ZooKeeper that the cluster is below; empty: the root; null: as zxid"),
    Column("dead", "map", "nodes with replicas that were not alive in ZooKeeper; null: as zxid"),
)
CLUSTER_FEATURE: Final = new_table(
    "cluster_feature",
    Column("name", "string", "name of a finalized feature"),
    Column("level", "int32", "its level"),
)
CLUSTER_BROKER: Final = new_table(
    "cluster_broker",
    _NODE,
    Column("epoch", "int64", "of its registration: the offset of the record, or the zxid in ZooKeeper"),
    Column("incarnation_id", "string", "of its process"),
    _RELEASE,
    _LISTENERS,
    Column("rack", "string", "null: none is set"),
    Column("is_fenced", "bool", "whether clients do not see it"),
    Column("in_controlled_shutdown", "bool", "whether it was stopping"),
    Column("log_dirs", "map", "ids of its log directories; empty: unknown"),
    Column("cordoned_log_dirs", "map", "those that get no new replicas; null: unknown"),
    Column("replicas", "int64", "replicas that it has"),
    Column("leaders", "int64", "partitions that it leads"),
    Column("paths", "map", "its log directories that are named here"),
    _FEATURES,
)
CLUSTER_CONTROLLER: Final = new_table(
    "cluster_controller",
    _NODE,
    Column("incarnation_id", "string", "of its process; null: it is not registered"),
    _RELEASE,
    _LISTENERS,
    Column("is_voter", "bool", "whether it is a voter; null: the voters are unknown"),
    Column("directory_id", "string", "of the voter's metadata log; null: unknown"),
    Column("path", "string", "its metadata log, if it is named here"),
    Column("end_offset", "int64", "where that log ends"),
    _FEATURES,
)
CLUSTER_TOPIC: Final = new_table(
    "cluster_topic",
    _TOPIC,
    Column("topic_id", "string", "its id; null: the cluster has none"),
    Column("partitions", "int64", "number of partitions"),
    Column("replication_factor", "int64", "the largest number of replicas"),
    Column("leaderless", "int64", "partitions without a leader"),
    Column("under_replicated", "int64", "partitions whose ISR lacks a replica"),
    Column("last_leaders", "map", "the leaders, and of partitions without one those before"),
    Column("configs", "map", "its settings"),
    Column("here", "int64", "directories of its partitions on these disks, with its topic id"),
    Column("other_ids", "map", "topic ids of directories of this name that are not its own"),
)
CLUSTER_PARTITION: Final = new_table(
    "cluster_partition",
    _TOPIC,
    Column("topic_id", "string", "id of the topic"),
    Column("partition", "int32", "partition number"),
    Column("leader", "int32", "node id; -1: none"),
    Column("leader_epoch", "int32", "its epoch"),
    Column("last_leader", "int32", "the last other leader that this disk has a record of; null: none"),
    Column("last_leader_until_ms", "int64", "when that one ceased to lead; null: none"),
    Column("replicas", "map", "node ids, the preferred leader first"),
    Column("isr", "map", "node ids of the in-sync replicas"),
    Column("elr", "map", "eligible leader replicas (KIP-966)"),
    Column("last_known_elr", "map", "last members of the ISR that had an unclean shutdown"),
    Column("adding", "map", "replicas that a reassignment adds"),
    Column("removing", "map", "replicas that a reassignment removes"),
    Column("directories", "map", "ids of the log directories of the replicas; empty: unknown"),
    Column("partition_epoch", "int32", "rises with each change"),
    Column("is_recovering", "bool", "whether an uncleanly elected leader has not yet recovered"),
    Column("paths", "map", "its directories on these disks"),
)
CLUSTER_CONFIG: Final = new_table(
    "cluster_config",
    Column("resource_type", "string", "topic, broker, group, client-metrics, or its number"),
    Column("resource", "string", "name; empty: all brokers"),
    Column("name", "string", "of the setting"),
    Column("value", "string", "null: hidden (--show-secrets)"),
    Column("is_secret", "bool", "whether it is a password, a key or the like"),
)
CLUSTER_ACL: Final = new_table(
    "cluster_acl",
    Column("acl_id", "string", "id of the entry; null: ZooKeeper has none"),
    Column("resource_type", "string", "TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER"),
    Column("resource", "string", "name"),
    Column("pattern_type", "string", "LITERAL or PREFIXED"),
    Column("principal", "string", "who"),
    Column("host", "string", "from where"),
    Column("operation", "string", "what"),
    Column("permission", "string", "ALLOW or DENY"),
)
CLUSTER_QUOTA: Final = new_table(
    "cluster_quota",
    Column("entity", "json", "names by type: user, client-id, ip; null: the default of the type"),
    Column("name", "string", "of the quota"),
    Column("value", "double", "its value"),
)
CLUSTER_USER: Final = new_table(
    "cluster_user",
    Column("user", "string", "name of the user"),
    Column("mechanism", "string", "SCRAM-SHA-256 or SCRAM-SHA-512"),
    Column("iterations", "int32", "of the key"),
    Column("salt", "string", "in base64; null: hidden (--show-secrets)"),
    Column("stored_key", "string", "in base64; null: hidden (--show-secrets)"),
    Column("server_key", "string", "in base64; null: hidden (--show-secrets)"),
)
CLUSTER_TOKEN: Final = new_table(
    "cluster_token",
    Column("token_id", "string", "id of the delegation token"),
    Column("owner", "string", "its owner"),
    Column("requester", "string", "who asked for it"),
    Column("renewers", "map", "who may renew it"),
    Column("issued_ms", "int64", "when it was issued"),
    Column("expires_ms", "int64", "when it expires"),
    Column("max_ms", "int64", "until when it may be renewed"),
)
CLUSTER_DIRECTORY: Final = new_table(
    "cluster_directory",
    Column("path", "string", "a log directory that is named here"),
    Column("cluster_id", "string", "in its meta.properties; null: none"),
    Column("node_id", "int32", "in its meta.properties; null: none"),
    Column("directory_id", "string", "in its meta.properties; null: none"),
    Column("registered_by", "int32", "node that registered the directory id; null: none did"),
    Column("assigned", "int64", "partitions that the cluster has in this directory; null: unknown"),
    Column("found", "int64", "of them those that are here"),
    Column("missing", "map", "assigned partitions that are not here, at most 20"),
    Column("strays", "map", "directories of partitions that are not assigned to this node, at most 20"),
    Column("detail", "string", "what is wrong; null: nothing is"),
)
CLUSTER_EVENT: Final = new_table(
    "cluster_event",
    Column("offset", "int64", "offset of the record; in a snapshot the offset before that of the snapshot"),
    Column("timestamp_ms", "int64", "of the record"),
    Column(
        "event",
        "string",
        "topic-created, topic-deleted, partition-created, leader, isr, replicas, elr, config, feature, broker, "
        "broker-fenced, broker-unfenced, broker-stopping, broker-removed, controller, controller-removed, acl, "
        "acl-removed, user, user-removed, quota, token, token-removed, voters, quorum-leader, kraft-version or "
        "snapshot",
    ),
    Column("topic", "string", "name of the topic; null: it is about something else"),
    Column("partition", "int32", "partition number"),
    Column("node_id", "int32", "of a broker or a controller; of an election the leader"),
    Column("detail", "string", "what the record changes"),
)
CLUSTER_DIFFERENCE: Final = new_table(
    "cluster_difference",
    Column("kind", "string", "the row type that differs, such as cluster_topic"),
    Column("what", "string", "which: a topic, a partition, a setting"),
    Column("change", "string", "added, removed or changed"),
    Column("column", "string", "what of it; null: all of it"),
    Column("before", "string", "in the first image; null: nothing"),
    Column("after", "string", "in the second one; null: nothing"),
)
QUORUM_DISK: Final = new_table(
    "quorum_disk",
    Column("path", "string", "directory of the metadata log"),
    Column("node_id", "int32", "of the node, by meta.properties; null: unknown"),
    Column("directory_id", "string", "of the log directory, by meta.properties; null: it has none"),
    Column("role", "string", "voter, or observer: a broker, or a voter's id on another disk"),
    Column("is_longest", "bool", "whether no named voter has a longer log: this one wins an election"),
    Column("last_epoch", "int32", "leader epoch of the last record"),
    Column("end_offset", "int64", "offset after the last record that a start keeps"),
    Column("common_offset", "int64", "up to this offset it has the same records as the longest log"),
    Column("only_here", "int64", "offsets after that, which it truncates if the longest log leads"),
    Column("epoch", "int32", "highest epoch that the node has seen, by quorum-state or the log"),
    Column("leader_id", "int32", "leader of that epoch by quorum-state; null: unknown"),
    Column("snapshot_offset", "int64", "end of the newest snapshot; null: there is none"),
    Column("voters", "string", "ids of the voters, by this disk; null: unknown"),
    Column("kraft_version", "int32", "1: the voters are in the log; 0: they are controller.quorum.voters"),
    Column("problem", "string", "what is wrong with the log; null: nothing"),
)
QUORUM_PARTITION: Final = new_table(
    "quorum_partition",
    *PLACE[:2],
    Column("replicas", "string", "node ids"),
    Column("in_sync", "string", "node ids of the ISR"),
    Column("remaining", "string", "replicas on nodes whose disks are not gone; null: none"),
    Column(
        "outcome",
        "string",
        "in-sync: a remaining replica is in the ISR, or is eligible; outdated: so it is by this log, but no longer by "
        "a later one; out-of-sync: only an unclean election elects one; none: no replica is left",
    ),
)

CLUSTER_TABLES: Final = (
    CLUSTER,
    CLUSTER_FEATURE,
    CLUSTER_BROKER,
    CLUSTER_CONTROLLER,
    CLUSTER_TOPIC,
    CLUSTER_PARTITION,
    CLUSTER_CONFIG,
    CLUSTER_ACL,
    CLUSTER_QUOTA,
    CLUSTER_USER,
    CLUSTER_TOKEN,
    CLUSTER_DIRECTORY,
    CLUSTER_EVENT,
    CLUSTER_DIFFERENCE,
    QUORUM_DISK,
    QUORUM_PARTITION,
)
