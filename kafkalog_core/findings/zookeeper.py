"""Findings about the data directories of ZooKeeper servers.

What a server does with them is in the messages: `broker_action` is about brokers of Kafka, which read none of these.
"""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["ZOOKEEPER"]

_NOT_A_BROKER: Final = "Nothing: ZooKeeper alone reads the file."
_OTHER_SERVERS: Final = (
    "Name the data directories of all servers of the ensemble: kafkalog zookeeper compares them, and reads the one "
    "that has the most."
)
_FILE_WITH_OTHERS: Final = "kafkalog zookeeper {above} OTHER_DATA_DIR"
_WITH_OTHERS: Final = "kafkalog zookeeper {file} OTHER_DATA_DIR"

ZOOKEEPER: Final = {
    "zookeeper.snapshot-damaged": FindingType(
        "warning",
        "The snapshot cannot be used: {problem}. A ZooKeeper server takes the next older one, and needs every "
        "transaction since that.",
        _NOT_A_BROKER,
        f"Nothing needs to be done if an older snapshot and its logs are there. Else: {_OTHER_SERVERS}",
        "The checksum of the file is wrong, or it ends early: the server was killed while it wrote the file, or the "
        "disk is damaged.",
        next_step=_FILE_WITH_OTHERS,
    ),
    "zookeeper.log-damaged": FindingType(
        "error",
        "The log has {size_bytes} bytes that cannot be read as transactions: {problem}. A ZooKeeper server does not "
        "start on such a log.",
        _NOT_A_BROKER,
        f"{_OTHER_SERVERS} Delete version-2 of the damaged server while a majority of the others runs: it fetches "
        "everything from the leader.",
        "The disk changed the bytes, or somebody did. Transactions after the damage are read here, and the zxids show "
        "which ones are missing.",
        next_step=_FILE_WITH_OTHERS,
    ),
    "zookeeper.log-torn": FindingType(
        "info",
        "The log ends with {size_bytes} bytes of a transaction that was not written as a whole. A ZooKeeper server "
        "ignores it.",
        _NOT_A_BROKER,
        "Nothing needs to be done: no client was answered before the transaction was whole.",
        "The server was killed while it wrote the last transaction.",
    ),
    "zookeeper.log-hidden": FindingType(
        "error",
        "A ZooKeeper server ends the log here, at {problem}, and does not read the transactions that follow "
        "{size_bytes} bytes later.",
        _NOT_A_BROKER,
        f"They are read here, and the zxids show what is missing. {_OTHER_SERVERS}",
        "A log is preallocated with zeros, and its last transaction may not be whole: a server takes both for the end. "
        "Before other transactions they are a write that the disk lost, or damage.",
        next_step=_FILE_WITH_OTHERS,
    ),
    "zookeeper.gap": FindingType(
        "error",
        "Transactions {first} to {last} are in no file. A ZooKeeper server applies the later ones all the same, "
        "and has another tree than the ensemble had.",
        _NOT_A_BROKER,
        f"Look for the missing log in backups and in dataLogDir (--txn-log-dir). {_OTHER_SERVERS}",
        "A leader counts zxids without a gap, and every server logs each of them. A log was deleted or damaged, or the "
        "snapshot that it followed was.",
        next_step=_WITH_OTHERS,
    ),
    "zookeeper.no-log": FindingType(
        "warning",
        "There is a snapshot of {zxid}, but no transaction log: later transactions are unknown.",
        _NOT_A_BROKER,
        f"If zoo.cfg has dataLogDir, name that directory too, with --txn-log-dir. {_OTHER_SERVERS}",
        "A server logs each transaction before it is in a snapshot, and keeps the logs since the last ones.",
        next_step="kafkalog zookeeper --txn-log-dir DATA_LOG_DIR {file}",
    ),
    "zookeeper.no-snapshot": FindingType(
        "info",
        "There are transaction logs, but no snapshot that can be used. ZooKeeper 3.5.4 and later do not start on them, "
        "unless zookeeper.snapshot.trust.empty is true.",
        _NOT_A_BROKER,
        "Nothing needs to be done if the logs begin with the first transaction, as the logs of a young server of 3.4 "
        "do.",
        "The tree begins empty, and every transaction since the first one is needed.",
    ),
    "zookeeper.digest": FindingType(
        "error",
        "The tree after {zxid} does not have the digest that this transaction recorded. A ZooKeeper server logs the "
        "mismatch, and goes on with the tree.",
        _NOT_A_BROKER,
        _OTHER_SERVERS,
        "Each transaction of ZooKeeper 3.6 and later records a digest of the whole tree. A snapshot or a log is of "
        "another server, or was changed.",
        next_step=_WITH_OTHERS,
    ),
    "zookeeper.behind": FindingType(
        "warning",
        "The server has the transactions up to {last}, but {other} has those up to {newest}.",
        _NOT_A_BROKER,
        "Start the servers with the most transactions first: the others fetch the rest from the leader.",
        "A server that was down, or lagged, when the others went on. Alone it has an old tree.",
    ),
    "zookeeper.diverges": FindingType(
        "error",
        "The server's last transaction {last} is not in the log of {other}.",
        _NOT_A_BROKER,
        "If the transaction is not needed, let a majority of the others elect a leader first. This server then follows "
        "it, and gives up what it has in addition.",
        "A leader logged transactions that no majority got, and another leader went on without them; or the disks are "
        "of two ensembles.",
        next_step=_WITH_OTHERS,
    ),
    "zookeeper.same-zxid": FindingType(
        "error",
        "The server's last transaction {last} is another one than {other} has under this zxid. Servers compare zxids "
        "alone: each goes on with its own tree.",
        _NOT_A_BROKER,
        "Find out which tree is the right one. Delete version-2 of the other server while a majority of the others "
        "runs: it fetches everything from the leader.",
        "Each of the servers ran by itself and logged transactions, or the disks are of two ensembles.",
        next_step=_WITH_OTHERS,
    ),
    "zookeeper.other-cluster": FindingType(
        "error",
        "The log directory has cluster.id {found}, but ZooKeeper has {expected}: the directory belongs to another "
        "cluster, or the ensemble was set up again.",
        "Does not start: it refuses the cluster id of ZooKeeper (InconsistentClusterIdException).",
        "Find the ZooKeeper data of the old ensemble, and start it with that. Do not delete meta.properties to avoid "
        "the error: this cluster does not know the partitions.",
        "A broker compares both ids when it starts.",
        next_step="kafkalog checkpoint {parent}",
    ),
}
