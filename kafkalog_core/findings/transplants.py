"""Findings of `kafkalog transplant`: what the new cluster makes of the directories of the old one."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import CLEAN_MARK, FindingType

__all__ = ["TRANSPLANTS"]

_OF_PLAN: Final = "Nothing: this is about the plan."

TRANSPLANTS: Final = {
    "transplant.stray": FindingType(
        "error",
        "The new cluster does not keep this partition on node {node_id}: {why}. The plan leaves it as it is.",
        "Renames the directory to end in -stray at its next start, and keeps its files.",
        "To keep the partition, create the topic in the new cluster with this node among its replicas, and plan again.",
        "A KRaft broker keeps a partition if the metadata log has its topic id and names the broker as a replica "
        "(LogManager.isStrayReplica).",
    ),
    "transplant.unknown-topics": FindingType(
        "error",
        "This log directory has no metadata log, so it is unknown which of its partitions ({count}) the new cluster "
        "keeps.",
        "Renames every partition to end in -stray whose topic id is unknown to its cluster.",
        "Name the topics of the new cluster too: --topic-ids with the output of kafka-topics.sh --describe, or with a "
        "log directory of the new cluster.",
        "Without --topic-ids only the ids in meta.properties change.",
    ),
    "transplant.epochs": FindingType(
        "info",
        "Leader epochs up to {highest} in the logs become 0 (batches: {count}), because a new cluster begins at 0.",
        "As a leader with a lower epoch than the log, it drops the old epochs, and then refuses fetches of followers "
        "that have them.",
        "Nothing needs to be done: the checksum of a batch does not cover the leader epoch.",
        "A leader answers OFFSET_OUT_OF_RANGE to a follower whose last epoch it does not know (Partition.readRecords).",
    ),
    "transplant.producers": FindingType(
        "info",
        "Producer snapshots keep only producers with an open transaction.",
        "Gives out producer ids from the start of the new cluster on. It would take a new producer for an old one with "
        "the same id.",
        "Nothing needs to be done.",
        "A batch with a producer id, epoch and sequence that the leader knows is a duplicate: it is not written again.",
    ),
    "transplant.offsets": FindingType(
        "info",
        "Committed offsets ({count}) keep their offsets, and lose the leader epochs and topic ids of the old cluster.",
        _OF_PLAN,
        "Nothing needs to be done: groups continue at their offsets.",
        "A consumer whose committed offset has a leader epoch that the leader does not know resets its position.",
    ),
    "transplant.offsets-compressed": FindingType(
        "warning",
        "Committed offsets in {count} compressed batches keep the leader epochs of the old cluster.",
        _OF_PLAN,
        "Set the offsets of these groups again: kafka-consumer-groups.sh --reset-offsets.",
        "A change in a compressed batch changes its size. offsets.topic.compression.codec says whether they are "
        "compressed; it is off by default.",
    ),
    "transplant.by-topic-id": FindingType(
        "warning",
        "The records of {internal} name topics by their ids in the old cluster, so the new one does not find {what}.",
        _OF_PLAN,
        "Plan for it: share groups begin again, and segments in tiered storage are not found.",
        "Both topics have topic ids in their keys, which the plan does not change.",
    ),
    "transplant.directory-id": FindingType(
        "warning",
        "The id of this log directory of node {node_id} in the new cluster is unknown, so directory.id is kept.",
        _OF_PLAN,
        "If the node has several log directories, take --topic-ids from a log directory of the new cluster, or name "
        "the id with --directory-id.",
        "The output of kafka-topics.sh has no ids of log directories; a metadata log has them (KIP-858).",
    ),
    "transplant.metadata-copied": FindingType(
        "info",
        "The metadata log of the new cluster, {source}, replaces that of the old one (files: {count}).",
        _OF_PLAN,
        "Start no broker on the directory that it was copied from: two nodes would have one identity.",
        "A node keeps its metadata log in its first log directory, or in metadata.log.dir.",
    ),
    "transplant.metadata-elsewhere": FindingType(
        "warning",
        "The node is a controller of the new cluster, but this directory has no metadata log that could be replaced by "
        "that of {source}.",
        _OF_PLAN,
        "Keep the metadata log where it is: set metadata.log.dir of this node to that directory.",
        "Without its metadata log a controller has lost its vote. A plan makes no directories.",
    ),
    "transplant.metadata-removed": FindingType(
        "info",
        "The metadata log of the old cluster is removed (files: {count}).",
        "Fetches the metadata log from the controllers of its cluster.",
        "Nothing needs to be done for a node that is only a broker. Of a controller, name its own log directory with "
        "--topic-ids. To look at the old cluster later, undo the run, or keep a copy of this directory.",
        "A node that starts with the metadata log of another cluster believes in the topics of that one.",
    ),
    "transplant.producer-ids": FindingType(
        "warning",
        "Transactional ids in __transaction_state keep producer ids of the old cluster, and the new one gives out ids "
        "from {next_id} on: a new producer may get the same id.",
        "Refuses a batch whose producer epoch is lower than the last one of its producer id in the partition.",
        "Unless transactions of the old cluster must go on, delete __transaction_state in the new cluster, and plan "
        "again: producers with a transactional id then get new ids.",
        "The next producer id is in the metadata log (ProducerIdsRecord), and each cluster begins at 0.",
    ),
    "transplant.unclean": FindingType(
        "warning",
        f"There is no clean shutdown file ({CLEAN_MARK}): the broker of the old cluster did not stop cleanly.",
        "Recovers the logs, and takes producers from their records again.",
        "Recover the logs first: kafkalog recover. Then plan again.",
        "After an unclean shutdown a start reads the batches after the recovery point, with their producers.",
        next_step="kafkalog recover {file}",
    ),
    "transplant.no-broker-epoch": FindingType(
        "warning",
        "The clean shutdown file keeps a broker epoch of the old cluster: the one of node {node_id} in the new cluster "
        "is unknown.",
        _OF_PLAN,
        "Take --topic-ids from a log directory of the new cluster, which has the epoch.",
        "The file holds the epoch of the last registration (CleanShutdownFileHandler).",
    ),
    "transplant.shorter": FindingType(
        "error",
        "This replica of node {node_id} ends at offset {end}, but {other} ends at {other_end}. The new cluster takes "
        "both for in sync.",
        "As the leader, it makes its followers truncate to its own log end offset.",
        "Take this node out of the replicas of the partition in the new cluster, and plan again. Add it afterwards.",
        "A new topic has all its replicas in the ISR, whatever their logs hold.",
    ),
    "transplant.maybe-shorter": FindingType(
        "warning",
        "It is not known that node {node_id} was in sync for {count} of these partitions, and no other replica was "
        "named to compare with: {what}.",
        "As the leader, it makes its followers truncate to its own log end offset.",
        "Name the log directories of all replicas in one command: it compares their ends.",
        "A node that stops before others is no longer in the ISR, also where its log is complete. After a crash its "
        "own copy of the metadata log does not show that.",
    ),
}
