"""Broker messages about small files: checkpoints, meta.properties, partition.metadata, names."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import BrokerMessage

__all__ = ["FILES"]

_OFFLINE: Final = (
    "From 1.0 on takes the whole log directory offline; where it is the only one it halts. Earlier releases do not "
    "start. The records are untouched."
)
_TEXT_FILE: Final = (
    "Stop the broker; kafkalog checkpoint repairs the bad lines and keeps the others. By hand: 0 in line 1, "
    "the number of entries in line 2, then one line for each entry. cleaner-offset-checkpoint may be removed "
    "instead. Do not remove replication-offset-checkpoint, as followers without leader epochs (before 0.11) "
    "truncate their logs by it, nor recovery-point-offset-checkpoint: after an unclean shutdown everything is "
    "recovered then."
)
_DUMP: Final = ("kafkalog dump --files {path}", "kafkalog verify {place}", "kafkalog checkpoint {path}")
_META: Final = ("kafkalog dump --files {log_dir}/meta.properties",)
_META_FIX: Final = (
    "Write into the file what the broker's other log directories have; never invent a cluster.id or node.id."
)

FILES: Final = (
    BrokerMessage(
        "broker.checkpoint-malformed",
        "error",
        (
            "Malformed line in checkpoint file [{path}]: {reason}",
            "Malformed line in checkpoint file ({path}): {reason}",
            "Malformed line in offset checkpoint file: {reason}",
        ),
        "A line of {path} is not what it should be: {reason}.",
        "The file was written by hand, truncated by a full disk, or is another file.",
        _OFFLINE,
        _TEXT_FILE,
        ("checkpoint.malformed-line",),
        _DUMP,
    ),
    BrokerMessage(
        "broker.checkpoint-count",
        "error",
        (
            "Expected [{count}] entries in checkpoint file [{path}], but found only [{number}]",
            "Expected {count} entries in checkpoint file ({path}), but found only {number}",
            "Expected {count} entries but found only {number}",
        ),
        "Line 2 of {path} gives {count} entries, but the file has {number}.",
        "A line was added or removed by hand without changing the second line, or the file was truncated.",
        _OFFLINE,
        _TEXT_FILE,
        ("checkpoint.count-mismatch",),
        _DUMP,
    ),
    BrokerMessage(
        "broker.checkpoint-version",
        "error",
        (
            "Unrecognised version:{version}, expected version: {number} in checkpoint file at: {path}",
            "Unrecognized version of the checkpoint file ({path})",
            "Unrecognized version of the highwatermark checkpoint file {version}",
        ),
        "The first line of {path} is {version}, not 0.",
        "The file is damaged or of something else.",
        _OFFLINE,
        _TEXT_FILE,
        ("checkpoint.unsupported-version",),
        _DUMP,
    ),
    BrokerMessage(
        "broker.checkpoint-start-reset",
        "error",
        ("Error occurred while reading log-start-offset-checkpoint file of directory {dir}, resetting",),
        "log-start-offset-checkpoint of {dir} could not be read; all partitions start at their first segment.",
        "A malformed line, a wrong count, or a failing disk: the line before names it.",
        "4.x loads the partitions and then takes the whole directory offline, except where only a number was bad. "
        "Records that had been deleted by request may be seen again.",
        _TEXT_FILE
        + (" log-start-offset-checkpoint may be removed if no records are deleted by request and no topic is tiered."),
        ("checkpoint",),
        (
            "kafkalog dump --files {dir}/log-start-offset-checkpoint",
            "kafkalog verify {dir}",
            "kafkalog checkpoint {dir}",
        ),
    ),
    BrokerMessage(
        "broker.checkpoint-recovery-reset",
        "error",
        (
            "Error occurred while reading recovery-point-offset-checkpoint file of directory {dir}, resetting",
            "Error occurred while reading recovery-point-offset-checkpoint file of directory {dir}",
        ),
        "recovery-point-offset-checkpoint of {dir} could not be read: every segment counts as not yet flushed.",
        "A malformed line, a wrong count, or a failing disk: the line before names it.",
        "After an unclean shutdown it recovers every segment of every partition, and damage anywhere then "
        "deletes all records after it. 4.x takes the directory offline afterwards, except where only a number "
        "was bad.",
        "Verify the directory before the next start; correct the file rather than remove it.",
        ("checkpoint", "dir.unclean"),
        (
            "kafkalog dump --files {dir}/recovery-point-offset-checkpoint",
            "kafkalog verify {dir}",
            "kafkalog checkpoint {dir}",
        ),
    ),
    BrokerMessage(
        "broker.checkpoint-unreadable",
        "error",
        ("Error while reading checkpoint file {path}", "Failed to read checkpoint file {path}"),
        "{path} could not be read.",
        "The lines after this one name the reason: a malformed line, a wrong count or version, or a failing disk.",
        "From 1.0 on takes the log directory offline. leader-epoch-checkpoint: its partition is not loaded either.",
        _TEXT_FILE,
        ("checkpoint",),
        _DUMP,
    ),
    BrokerMessage(
        "broker.checkpoint-write-deleted",
        "info",
        (
            "Failed to write to checkpoint file {path} This is ok if the topic/partition is being deleted",
            "Failed to write to checkpoint file {path}. This is ok if the topic/partition is being deleted",
        ),
        "{path} could not be written because its directory is gone.",
        "The partition was deleted or renamed (-delete, -stray) meanwhile.",
        "Goes on.",
        "Nothing needs to be done, if the partition was meant to go.",
        ("dir.delete", "dir.stray"),
    ),
    BrokerMessage(
        "broker.checkpoint-unwritable",
        "error",
        (
            "Error while writing to checkpoint file {path}",
            "Disk error while writing to recovery point file in directory {path}",
            "Disk error while writing recovery offsets checkpoint in directory {path}",
            "Disk error while writing to logStartOffset file in directory {path}",
            "Disk error while writing log start offsets checkpoint in directory {path}",
            "Error while writing to highwatermark file in directory {path}",
        ),
        "{path} could not be written.",
        "The disk is full, read-only or failing, or the file belongs to another user.",
        _OFFLINE,
        "Look at free space, the mount and dmesg; give the directory's files to the broker's user.",
        ("file.foreign-owner", "file.unreadable"),
        ("ls -ln {path}", "df -h {path}"),
    ),
    BrokerMessage(
        "broker.partition-metadata",
        "error",
        (
            "Malformed line in partition metadata file [{path}]: {reason}",
            "Invalid topic ID in partition metadata file ({path})",
            "Error while reading partition metadata file {path}",
            "Unrecognized version of partition metadata file",
        ),
        "{path} is damaged: it must hold two lines, version: 0 and topic_id: with 22 characters.",
        "It was written by hand, truncated, or is another file.",
        "Does not load the partition and takes the log directory offline. An empty file, or an invalid id, "
        "stops the broker.",
        "Write the two lines; partition.metadata of the topic's other partitions and replicas holds the topic id.",
        ("partition-metadata",),
        _DUMP,
    ),
    BrokerMessage(
        "broker.partition-metadata-empty",
        "error",
        ('Cannot invoke "java.lang.CharSequence.length()" because "this.text" is null',),
        "A partition.metadata file is empty or has one line, and the broker stops on it.",
        "A crash or a full disk left it empty.",
        "Does not start. It does not say which file it is: verify finds it.",
        "Write the two lines version: 0 and topic_id: ID; partition.metadata of the topic's other partitions "
        "and replicas holds the id.",
        ("partition-metadata.too-short",),
        ("kafkalog verify {place}", "kafkalog checkpoint {place}"),
    ),
    BrokerMessage(
        "broker.topic-id-mismatch",
        "error",
        (
            "Tried to assign topic ID {reason} to log for topic partition {partition}",
            "Topic ID in memory: {reason} does not match",
        ),
        "The topic id on the disk of {partition} is not the one that the cluster knows.",
        "The topic was deleted and made again while this broker was down, or the directory is of another cluster.",
        "Refuses the partition; it remains offline here.",
        "If the records on this disk are not needed, stop the broker and move the partition's directory away: it "
        "fetches the new topic's. Else salvage them first.",
        ("partition-metadata",),
        ("kafkalog dump --files {place}/partition.metadata", "kafkalog dump --records {place}"),
    ),
    BrokerMessage(
        "broker.meta-missing-kraft",
        "error",
        ("No `meta.properties` found in {dir} (have you run `kafka-storage.sh` to format the directory?)",),
        "{dir} has no meta.properties.",
        "The file was deleted, the disk is not mounted, or the directory is new.",
        "Does not start.",
        "First look whether the right disk is mounted. Then put the file back, with cluster.id and node.id of the "
        "broker's other directories. Never format a directory that holds partitions without --ignore-formatted.",
        ("meta.missing-kraft",),
        ("kafkalog verify {dir}", "kafkalog checkpoint {dir} --beside DIR"),
    ),
    BrokerMessage(
        "broker.meta-missing",
        "info",
        ("No meta.properties file under dir {path}",),
        "There is no {path} yet.",
        "The first start of a ZooKeeper broker, or the file was removed.",
        "Makes one with its broker.id.",
        "Nothing needs to be done on a first start.",
        ("meta.missing",),
        ("kafkalog verify {log_dir}",),
    ),
    BrokerMessage(
        "broker.meta-unreadable",
        "error",
        (
            "Error while reading meta.properties file {path}",
            "Failed to read meta.properties file under dir {path}",
            "Error: node ID not found in {path}",
            "Failed to find required property {reason}",
        ),
        "meta.properties could not be read, or lacks what it must have ({path}).",
        "It is empty, damaged, not a file, or not readable for the broker's user.",
        "Takes the log directory offline; does not start if it is the metadata log's directory or the only one.",
        _META_FIX,
        ("meta",),
        _META,
    ),
    BrokerMessage(
        "broker.cluster-id-mismatch",
        "error",
        (
            "Invalid cluster.id in: {path} Expected {old}, but read {new}",
            "Invalid cluster.id in: {path}. Expected {reason}, but read {other}",
            "Invalid cluster.id in: {path}",
            "The Cluster ID {other} doesn't match stored clusterId {reason} in meta.properties",
        ),
        "The log directory belongs to another cluster than the one that the broker joins.",
        "A disk of another cluster is mounted; ZooKeeper's or the controllers' data was lost and made again; "
        "or zookeeper.connect leads elsewhere.",
        "Does not start. Nothing on the disk is changed.",
        "Find out which of the two is right. Do not delete meta.properties to get past this: in the wrong "
        "cluster the broker renames or deletes the partitions as strays.",
        ("meta",),
        _META,
    ),
    BrokerMessage(
        "broker.node-id-mismatch",
        "error",
        (
            "Stored node id {number} doesn't match previous node id {old}",
            "Configured broker.id {number} doesn't match stored broker.id {reason} in meta.properties",
            "Configured brokerId {number} doesn't match stored brokerId {reason} in meta.properties",
            "Unexpected node ID {reason}",
        ),
        "The log directory belongs to another node than node.id (broker.id) names, or two directories differ.",
        "Disks were swapped between brokers, or the configuration is of another one.",
        "Does not start. Nothing on the disk is changed.",
        "Put the disk into the broker whose id it has, or correct node.id (broker.id) in server.properties.",
        ("meta", "dir.other-node"),
        _META,
    ),
    BrokerMessage(
        "broker.meta-inconsistent",
        "error",
        (
            "BrokerMetadata is not consistent across log.dirs",
            "Duplicate directory ID {reason} found",
            "Found duplicate directory.id",
        ),
        "The log directories of this broker contradict each other.",
        "A directory was copied with its meta.properties, or is of another broker.",
        "Does not start.",
        "A copied directory: remove the line directory.id from its meta.properties. One of another broker: take it "
        "out of log.dirs.",
        ("meta",),
        _META,
    ),
    BrokerMessage(
        "broker.high-watermark-unknown",
        "info",
        (
            "No checkpointed highwatermark is found for partition {partition}",
            "No previously checkpointed highwatermark value found for topic {reason} partition {number}",
            "No highwatermark file is found. Returning {number} as the highwatermark for partition {partition}",
        ),
        "No high watermark has been checkpointed for the partition; it starts at 0 or the log's start.",
        "A new partition; or replication-offset-checkpoint was removed.",
        "Agrees on a new one with the replicas.",
        "Nothing needs to be done for a new partition.",
        ("high-watermark.unknown",),
    ),
    BrokerMessage(
        "broker.epoch-unknown",
        "info",
        ("Unable to read the broker epoch in {dir}",),
        "{dir} has no readable .kafka_cleanshutdown.",
        "The last shutdown was not clean, or it is the first start.",
        "Registers as a broker without a previous epoch: the controller takes it out of the in-sync replicas until "
        "it has caught up.",
        "Normal after a crash.",
        ("dir.unclean", "clean-shutdown.malformed"),
        ("kafkalog verify {dir}",),
    ),
)
