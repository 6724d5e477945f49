"""Messages of ZooKeeper servers about their data directories, and of those that depend on their nodes.

The lines of servers are those that 3.4.10 to 3.9.3 wrote on damaged copies (tests/integration/test_zookeeper.py).
"""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import BrokerMessage

__all__ = ["ZOOKEEPER_MESSAGES"]

_TREE: Final = "kafkalog zookeeper ZOOKEEPER_DATA_DIR"
_COMMANDS: Final = (_TREE,)

ZOOKEEPER_MESSAGES: Final = (
    # FileTxnLog.FileTxnIterator.next
    BrokerMessage(
        "broker.zookeeper-log-checksum",
        "error",
        ("CRC check failed",),
        "The checksum of a transaction in a log of ZooKeeper is wrong.",
        "The disk changed bytes of the log, or somebody did.",
        "The ZooKeeper server does not start.",
        "See what is left, and compare it with the other servers of the ensemble. A server whose version-2 was moved "
        "away fetches everything from the leader, while a majority of the others runs.",
        ("zookeeper.log-damaged", "zookeeper.gap"),
        _COMMANDS,
        is_elsewhere=True,
    ),
    # Util.readTxnBytes
    BrokerMessage(
        "broker.zookeeper-log-partial",
        "warning",
        ("Last transaction was partial.",),
        "A log of ZooKeeper ends in a transaction that is not whole.",
        "The server was killed while it wrote it. If transactions follow, the log is damaged there.",
        "The ZooKeeper server ends the log there and starts, without the transactions that follow in the same file.",
        "See whether transactions follow: then this server lacks what the others have.",
        ("zookeeper.log-torn", "zookeeper.log-hidden"),
        _COMMANDS,
        is_elsewhere=True,
    ),
    # FileTxnSnapLog.restore, EMPTY_SNAPSHOT_WARNING
    BrokerMessage(
        "broker.zookeeper-no-snapshot",
        "error",
        ("No snapshot found, but there are log entries",),
        "ZooKeeper found transaction logs and no snapshot that it can use.",
        "The snapshots were deleted or are damaged; or a server of 3.4 never wrote one, and was upgraded.",
        "The ZooKeeper server does not start, unless zookeeper.snapshot.trust.empty is true.",
        "See whether the logs begin with the first transaction: only then does zookeeper.snapshot.trust.empty=true "
        "bring everything back.",
        ("zookeeper.no-snapshot", "zookeeper.snapshot-damaged", "zookeeper.gap"),
        _COMMANDS,
        is_elsewhere=True,
    ),
    # FileSnap.deserialize
    BrokerMessage(
        "broker.zookeeper-snapshot-damaged",
        "warning",
        ("problem reading snap file {other}",),
        "ZooKeeper cannot read a snapshot.",
        "The server was killed while it wrote the file, or the disk is damaged.",
        "The ZooKeeper server takes the next older snapshot, and every transaction since that.",
        "Nothing needs to be done if the logs since the older snapshot are there.",
        ("zookeeper.snapshot-damaged",),
        _COMMANDS,
        is_elsewhere=True,
    ),
    # DataTree.reportDigestMismatch, FileTxnSnapLog.restore
    BrokerMessage(
        "broker.zookeeper-digest",
        "error",
        (
            "Digests are not matching. Value is Zxid",
            "First digest mismatch on txn",
            "is not covering the snapshot digest zxid",
        ),
        "The tree of a ZooKeeper server is not the one that the ensemble had.",
        "A log or a snapshot is missing, is damaged or is of another server.",
        "The ZooKeeper server starts with that tree.",
        "Stop the server before it leads, and compare its data directory with those of the others.",
        ("zookeeper.digest", "zookeeper.gap"),
        _COMMANDS,
        is_elsewhere=True,
    ),
    # KafkaZkClient.CheckedEphemeral, since 1.1; ZkUtils.registerBrokerInZk before
    BrokerMessage(
        "broker.zookeeper-registered",
        "error",
        (
            "Error while creating ephemeral at {other}, node already exists and owner",
            "A broker is already registered on the path {other}",
        ),
        "Another session owns the node in ZooKeeper with which the broker registers.",
        "The session of the broker's last run has not expired yet, or two brokers have the same id.",
        "Does not start. It changes nothing on the disk.",
        "Wait for zookeeper.session.timeout.ms and start the broker again. If it fails again, look for another broker "
        "with the same broker.id: the node has its endpoints.",
        (),
        ("kafkalog zookeeper --get NODE ZOOKEEPER_DATA_DIR",),
        is_elsewhere=True,
    ),
    # ZookeeperConsumerConnector.ZKRebalancerListener.syncedRebalance, 0.7 to 1.x
    BrokerMessage(
        "broker.zookeeper-rebalance",
        "error",
        ("can't rebalance after {number} retries",),
        "An old consumer could not take its partitions, because others still own them in ZooKeeper.",
        "A consumer of the group is dead and its session has not expired, or rebalance.max.retries times "
        "rebalance.backoff.ms is shorter than zookeeper.session.timeout.ms.",
        "Does nothing to a log directory.",
        "See which partition has another owner than it should have.",
        (),
        ("kafkalog zookeeper --rebalance GROUP ZOOKEEPER_DATA_DIR",),
        is_elsewhere=True,
    ),
)
