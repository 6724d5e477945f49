"""The rows about ZooKeeper's data directories: servers, clusters, nodes, their changes, and owners of partitions."""

from __future__ import annotations

from typing import Final

from kafkalog_core.output.schema import Column, new_table

__all__ = ["ZNODE", "ZNODE_CHANGE", "ZOOKEEPER", "ZOOKEEPER_OWNER", "ZOOKEEPER_SERVER"]

_PATH: Final = Column("path", "string", "path of the node")

ZOOKEEPER_SERVER: Final = new_table(
    "zookeeper_server",
    Column("path", "string", "the data directory"),
    Column("server_id", "int64", "myid; null: a single server"),
    Column("epoch", "int64", "epoch by which the server is elected"),
    Column("last_zxid", "int64", "its last transaction"),
    Column("time_ms", "int64", "when that was made; null: it is in a snapshot alone"),
    Column("is_read", "bool", "whether the other rows are of this server: the one that an election prefers"),
)
ZOOKEEPER: Final = new_table(
    "zookeeper",
    Column("path", "string", "the data directory that was read"),
    Column("chroot", "string", "of zookeeper.connect; empty: the root; null: there is no Kafka in this tree"),
    Column("can_be_restored", "bool", "whether no transaction is missing, and the digests agree"),
    Column("missing", "int64", "transactions that are in no file"),
    Column("digest_is_equal", "bool", "whether the tree has the recorded digest; null: none is recorded (before 3.6)"),
    Column("snapshot", "string", "file with which the tree begins; null: none"),
    Column("transactions", "int64", "transactions that were applied after it"),
    Column("last_zxid", "int64", "the last one"),
    Column("time_ms", "int64", "when that was made; null: no log has it"),
    Column("znodes", "int64", "nodes of the whole tree"),
    Column("sessions", "int64", "sessions that were open"),
    Column("cluster_id", "string", "null: before 0.10.1, or there is none"),
    Column(
        "brokers", "json", "brokers that were alive, by id: endpoints, host, port, rack, epoch, timestamp_ms, version"
    ),
    Column("controller", "int32", "id of the controller; null: there was none"),
    Column("controller_epoch", "int32", "null: there is no such node"),
    Column("topics", "int64", "topics"),
    Column("partitions", "int64", "their partitions"),
    Column("deletions", "int64", "topics that wait for their deletion"),
    Column("reassignments", "int64", "partitions in /admin/reassign_partitions"),
    Column("configs", "int64", "topics, brokers, users, clients and addresses with settings"),
    Column("acls", "int64", "ACLs"),
    Column("users", "int64", "users with SCRAM credentials"),
    Column("tokens", "int64", "delegation tokens"),
    Column("old_groups", "int64", "groups of consumers that keep their offsets in ZooKeeper"),
    Column("migration", "json", "the fields of /migration; null: no migration to KRaft was begun"),
    Column("features", "json", "the fields of /feature; null: there is no such node"),
    Column("producer_ids", "json", "the last block of producer ids; null: there is no such node"),
)
ZNODE: Final = new_table(
    "znode",
    _PATH,
    Column("data", "bytes", "its data, without passwords and keys unless they are asked for; null: none"),
    Column("czxid", "int64", "transaction that created it"),
    Column("mzxid", "int64", "transaction that changed its data last"),
    Column("pzxid", "int64", "transaction that created or deleted a child last"),
    Column("ctime_ms", "int64", "when it was created"),
    Column("mtime_ms", "int64", "when its data was changed last"),
    Column("version", "int32", "number of changes of its data"),
    Column("cversion", "int32", "number of changes of its children, as a client is shown it"),
    Column("aversion", "int32", "number of changes of its ACL"),
    Column("ephemeral_owner", "int64", "session with which it ends; null: it is not ephemeral"),
    Column("lifetime", "string", "persistent, ephemeral, container or ttl"),
    Column("children", "int64", "its children"),
    Column("acl", "string", "scheme:id:rights of each entry; null: the table of ACLs does not have it"),
    Column(
        "meaning", "string", "what it is to Kafka: broker, topic, partition, config, acl, offset, ...; null: nothing"
    ),
    Column("fields", "json", "the values that Kafka reads in it; null: none"),
    Column("problem", "string", "why Kafka cannot read it; null: it can"),
)
ZNODE_CHANGE: Final = new_table(
    "znode_change",
    _PATH,
    Column(
        "change",
        "string",
        "created, set, set-acl, deleted, session-closed, in-snapshot (the oldest known state), missing (transactions "
        "before this one are in no file); between two trees created, changed or deleted",
    ),
    Column("zxid", "int64", "its transaction; deleted between two trees: null"),
    Column("time_ms", "int64", "when it was made"),
    Column("session_id", "int64", "session of the client; null: unknown"),
    Column("version", "int32", "of the data after it; null: the node is gone"),
    Column("data", "bytes", "data after it"),
    Column("before", "bytes", "data before it"),
)
ZOOKEEPER_OWNER: Final = new_table(
    "zookeeper_owner",
    Column("group", "string", "group of old consumers"),
    Column("topic", "string", "topic"),
    Column("partition", "string", "partition number; 0.7: broker-number"),
    Column("expected", "string", "thread that should own it by the rule of the consumers; null: none wants it"),
    Column("owner", "string", "thread in the owner node; null: there is none"),
    Column("state", "string", "ok, not-owned, other-owner, or dead-owner (its consumer is not registered)"),
)
