"""Broker messages about the metadata log: where it is, its batches, records, snapshots, voters and elections."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import BrokerMessage

__all__ = ["METADATA"]

_CLUSTER: Final = "kafkalog cluster {log_dir}"
_HISTORY: Final = "kafkalog cluster --history {log_dir}"
_PREFLIGHT: Final = "kafkalog preflight {log_dir}"

METADATA: Final = (
    BrokerMessage(
        "broker.metadata-record-refused",
        "error",
        (
            # QuorumController.QuorumMetaLogListener, MetadataBatchLoader, MetadataLoader
            "Unable to apply {other} record at offset {offset} on {reason}",
            "Unable to apply {other} record from snapshot {reason}",
            "Error loading metadata log record from offset {offset}",
            "Error loading metadata log record {number} in snapshot at offset {offset}",
        ),
        "The node could not apply a record of the cluster metadata log.",
        "The exception after this line has the reason: a later release wrote the record, or a record before it is "
        "missing or was changed.",
        "Ends its process: the controller and the broker each stop at this record, at every start.",
        "If a later release wrote the log, start that release again. Else restore the directory of the metadata log "
        "from another controller, or format the node again while a majority of the controllers runs.",
        ("metadata-log.no-snapshot", "cluster.contradiction"),
        (_HISTORY, _PREFLIGHT),
    ),
    BrokerMessage(
        "broker.metadata-level-unknown",
        "error",
        (
            "but this controller only supports versions {old}-{new}",  # FeatureControlManager.replay
            "No MetadataVersion with feature level {version}. Valid feature levels are from {old} to {new}.",
            "No MetadataVersion with feature level {version}",
        ),
        "The metadata log sets a feature to a level that this release does not support.",
        "A later release raised the level, usually metadata.version, and then an earlier one was started: a rollback.",
        "Ends its process before it serves anything.",
        "Start the release that wrote the log. A controller of that release lowers metadata.version with "
        "kafka-features.sh downgrade, if no record format changed in between.",
        (),
        (_PREFLIGHT, _CLUSTER),
    ),
    BrokerMessage(
        "broker.setting-refused",
        "error",
        ("Invalid value {other} for configuration {reason}",),  # ConfigException
        "A setting has a value that this release refuses, {other}: {reason}.",
        "server.properties, a topic in the metadata log, or the request of a client has the value. Since 4.1 "
        "segment.bytes is at least 1 MiB; a topic of an earlier release may have less.",
        "Does not start if server.properties has it, or if a topic in the metadata log has segment.bytes below 1 MiB. "
        "It refuses the request of a client.",
        "Correct the value in server.properties. If a topic has it, start the earlier release again, change the "
        "setting of the topic with kafka-configs.sh, and then upgrade.",
        (),
        (_PREFLIGHT,),
    ),
    BrokerMessage(
        "broker.metadata-snapshot-missing",
        "error",
        # KafkaRaftLog.recoverSnapshots, KafkaMetadataLog of 3.x
        ("Inconsistent snapshot state: there must be a snapshot at an offset larger",),
        "The metadata log begins above offset 0, and no snapshot has what was before.",
        "The snapshot, a file named OFFSET-EPOCH.checkpoint in the directory of this log, was deleted or moved.",
        "Does not start.",
        "Put the snapshot back, from a backup or from another controller. If a majority of the controllers runs, move "
        "this node's metadata directory away, format it with the same cluster id, and start it: it fetches a snapshot.",
        ("metadata-log.no-snapshot",),
        (_CLUSTER, "kafkalog verify {log_dir}"),
    ),
    BrokerMessage(
        "broker.metadata-epoch-mismatch",
        "error",
        ("but the given epoch, {new}, did not match the current broker epoch, {old}",),  # ClusterDelta
        "A metadata record is about another registration of a broker than the present one: it names broker epoch "
        "{new}, but the registration has broker epoch {old}.",
        "A record between the two is missing: a part of the metadata log was lost, or mixed with that of another node.",
        "Ends its process at this record.",
        "Restore the directory of the metadata log from another controller.",
        ("cluster.contradiction",),
        (_HISTORY, _PREFLIGHT),
    ),
    BrokerMessage(
        "broker.voters-differ",
        "error",
        # QuorumState.initialize up to 3.8
        ("Configured voter set: {other} is different from the voter set read from the state file: {reason}. Check if",),
        "controller.quorum.voters has other nodes than quorum-state: it has {other}, and the file {reason}.",
        "The setting was changed, or the directory is of another node or another cluster.",
        "Does not start.",
        "Compare the setting with that of the other controllers, and correct it. The line advises to wipe out the "
        "file: do so only if the quorum was changed on purpose, and while all controllers are stopped.",
        ("quorum-state.no-voter",),
        (_CLUSTER,),
    ),
    BrokerMessage(
        "broker.quorum-unattached",
        "info",
        ("Completed transition to UnattachedState({reason}", "Completed transition to Unattached({reason}"),
        "The node knows of no leader of the metadata quorum.",
        "This is normal for moments at a start and in an election. If it recurs, a majority of the voters is not "
        "reachable: they are stopped, or their addresses have changed.",
        "Waits for a leader, or begins an election. A broker does not serve before it has read the metadata log.",
        "If it recurs, compare the voters and their addresses with what runs.",
        (),
        (_CLUSTER,),
    ),
    # AbstractApiMessageSerde.read, and the reading of a record of a version that the release does not know
    BrokerMessage(
        "broker.metadata-of-later-release",
        "error",
        ("Failed to deserialize record with type {number}", "Can't read version {version} of {other}"),
        "The node cannot read a record of the metadata log.",
        "A later release has written it: this node was downgraded, or runs an earlier release than the controllers.",
        "Does not start.",
        "Start the release that ran here before, or a later one.",
        (),
        ("kafkalog preflight --compat {log_dir}",),
    ),
    # MetadataLoader.stillNeedToCatchUp
    BrokerMessage(
        "broker.metadata-not-known",
        "info",
        ("the loader is still catching up because we still don't know the high water mark yet",),
        "The node does not know yet how far the metadata log is committed.",
        "This is normal for a moment at each start. If the line repeats, the metadata quorum has no leader: a majority "
        "of the voters is not reachable, or this node has lost its metadata log (an earlier line then has voters=[]).",
        "Waits for a leader without end, and serves nothing.",
        "If it repeats, compare the voters with what runs, and look for __cluster_metadata-0 in this node's log "
        "directories.",
        (),
        (_PREFLIGHT,),
    ),
    BrokerMessage(
        "broker.metadata-elsewhere",
        "error",
        (
            (
                "Found unexpected metadata location in data directory `{entry}` (the configured metadata directory is "
                "{dir})."
            ),
        ),
        "The metadata log is in {entry}, but the settings have {dir} as its log directory.",
        "Two disks are mounted in the place of each other, or metadata.log.dir or the order of log.dirs has changed.",
        "Does not start. The files do not change.",
        "Mount the disks as before, or correct the settings.",
        ("dir.metadata-elsewhere",),
    ),
    BrokerMessage(
        "broker.quorum-state-unreadable",
        "error",
        ("Error while reading the Quorum status from the file {path}",),
        "The node could not read {path}.",
        "A loss of power, a full disk or an editor left it empty or damaged.",
        "Does not start.",
        "Correct the file by hand, or restore a copy of this node's own file. Do not let the node create a new one: it "
        "would forget its vote, and may vote twice in one epoch.",
        ("quorum-state",),
        ("kafkalog verify {log_dir}",),
    ),
    # KafkaRaftLog.truncateToEndOffset, in a node that runs
    BrokerMessage(
        "broker.metadata-truncation-refused",
        "error",
        ("The leader requested truncation to offset {offset}, which is below the current high watermark",),
        "The leader of the metadata log ends at offset {offset}, before what this node has of it as committed.",
        "The controllers have lost the end of their metadata log: by an older copy of a disk, or by a forced quorum.",
        "Ends its process.",
        "Compare the metadata logs before this node starts again: it truncates its own then. To keep what it has, move "
        "its __cluster_metadata-0 away first.",
        ("metadata-log",),
        ("kafkalog quorum {log_dir} CONTROLLER_LOG_DIR",),
    ),
    BrokerMessage(
        "broker.metadata-batch-empty",
        "error",
        ("Batch must contain at least one record; baseOffset = {offset}; epoch = {number}",),
        "The metadata log has a batch without records at offset {offset}.",
        "A tool replaced a damaged batch, as is right in the logs of topics.",
        "Does not start: Kafka's raft client refuses a batch without records in this log.",
        "If other controllers are healthy, remove this one from the quorum and add it again. Otherwise restore a copy "
        "of the metadata log.",
        ("metadata-log.empty-batch",),
        ("kafkalog verify {log_dir}",),
    ),
    # QuorumState.initialize
    BrokerMessage(
        "broker.quorum-epoch-back",
        "warning",
        (
            (
                "Epoch from quorum store file ({path}) is {old}, which is smaller than last written epoch {new} in the "
                "log"
            ),
        ),
        "quorum-state has leader epoch {old}, and the metadata log has records of epoch {new}.",
        "quorum-state is an older copy, or was not written before a crash.",
        "Continues with the epoch of the log, in which it has not voted.",
        "Nothing needs to be done.",
        ("quorum-state",),
        ("kafkalog dump --files {path}",),
    ),
    # SnapshotGenerator, FileRawSnapshotWriter, Snapshots.createTempFile, Snapshots.moveRename
    BrokerMessage(
        "broker.metadata-snapshot-not-written",
        "error",
        (
            "Error creating temporary file, logDir = {other}, snapshotId = {reason}.",
            "Error creating snapshot writer. path = {path}, snapshotId {reason}.",
            "Error writing file snapshot, temp path = {path}, snapshotId = {reason}.",
            "Error freezing file snapshot, temp path = {path}, snapshotId = {reason}.",
            "Error closing snapshot writer, temp path = {path}, snapshotId {reason}.",
            "Error calculating snapshot size. temp path = {path}, snapshotId = {reason}.",
            "Error renaming snapshot file from {path} to {other}.",
        ),
        "The node could not write a snapshot of the metadata log.",
        "The disk is full or has failed: the exception in the lines after shows which.",
        "Keeps the metadata log, which no snapshot replaces yet.",
        "Free space on the disk of the metadata log, or replace the disk.",
        ("metadata-log",),
        ("df -h {log_dir}", _PREFLIGHT),
    ),
)
