"""Findings about the text files of a broker: what they say beside the logs, and beside each other."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import CLEAN_MARK, MARK_OF_ALL, FindingType

__all__ = ["CHECKPOINTS", "METADATA_MADE", "MISSING_METADATA"]

MISSING_METADATA: Final = "partition-metadata.missing"
METADATA_MADE: Final = "Takes the partition for the one of the topic of its name, and writes the file."
"""What releases before 3.7 do about a partition without partition.metadata (seen of 3.5.2 and 3.6.2)."""

_REPLICA: Final = "Where other replicas exist, let them elect a leader before this broker is started."
_BEHIND: Final = "The log ends before what a broker wrote down of it: records are gone, or this is the log of another."

CHECKPOINTS: Final = {
    "checkpoint.repeated": FindingType(
        "error",
        "Line {line} is a second entry of {name}; the last one counts.",
        "Takes the last one; 0.8.2 to 0.10.0 refuse the file.",
        "With the broker stopped: kafkalog checkpoint drops the lines that do not count.",
        "A broker writes one entry a partition: the file was edited or put together by hand.",
    ),
    "checkpoint.negative-offset": FindingType(
        "error",
        "Line {line} gives {value} for {name}; neither offsets nor partition numbers are negative.",
        "Raises a negative high watermark or log start offset to the start of the log, and recovers every "
        "segment after "
        "an unclean stop for a negative recovery point.",
        "With the broker stopped: kafkalog checkpoint drops the line, or gives it the offset of the log.",
        "A broker never writes a negative number into this file.",
    ),
    "checkpoint.no-partition": FindingType(
        "warning",
        "There is no directory here of {names}, which {lines}{elsewhere}.",
        "Ignores such entries and drops them when it next writes the file.",
        "Look for the directory: lost, moved to another log directory, or deleted on purpose.",
        "A checkpoint names partitions that are not in its log directory. Normal shortly after a deletion or a move, "
        "and in a copy that leaves partitions out. A partition that several checkpoints name is counted at the first.",
    ),
    "checkpoint.missing": FindingType(
        "error",
        "The log directory has no {name}, which every broker of its release makes when it starts.",
        "Makes an empty one: {effect}.",
        "Restore it from a backup of the same time as the logs. Without one, verify the partitions before the broker "
        "starts and makes an empty one.",
        "A file that a broker has in each of its log directories is not there: it was deleted, or not copied.",
    ),
    "checkpoint.emptied": FindingType(
        "warning",
        "The file is empty, and there are {count} partitions beside it.",
        "Takes it for empty: {effect}.",
        "Restore it from a backup of the same time as the logs. Without one, verify the partitions before the broker "
        "starts and writes a new one.",
        "An empty file is what a broker makes at its very first start. After a clean stop it always holds something, "
        "so that an empty one was cut: an error then.",
    ),
    "recovery-point.beyond-end": FindingType(
        "error",
        "The recovery point is {value}, the log ends at {end}: {missing} that had been flushed to disk went missing.",
        "Lowers it to the end of the log and goes on without them; after a crash it recovers the last segment alone.",
        f"Look for what was lost. {_REPLICA}",
        _BEHIND,
    ),
    "recovery-point.not-at-end": FindingType(
        "error",
        "The recovery point is {value}, the log ends at {end}, and there is the mark of a clean stop, which "
        "leaves both "
        "the same.",
        "Believes the mark and recovers nothing: damage in the log stays unseen.",
        f"With the broker stopped, delete {CLEAN_MARK}: the next start recovers from the recovery point. {MARK_OF_ALL}",
        "A clean stop flushes every log and writes its end down. So the mark of the clean stop is not of these "
        "files, or "
        "they were changed after it.",
    ),
    "recovery-point.none": FindingType(
        "info",
        "There is no recovery point for it.",
        "Takes 0: recovers all segments after an unclean stop.",
        "Nothing has to be done; recovery may take long.",
        "The checkpoint of recovery points does not name the partition: it is new, or it was moved here by "
        "hand. After a "
        "clean stop every partition is named: a warning then.",
    ),
    "high-watermark.beyond-end": FindingType(
        "error",
        "The high watermark is {value}, the log ends at {end}: {missing} that had been committed went missing.",
        "Lowers it to the end of the log. As a leader it goes on without them, and followers cut them off theirs.",
        f"Look for what was lost. {_REPLICA}",
        _BEHIND,
    ),
    "high-watermark.maybe-beyond": FindingType(
        "warning",
        "The high watermark is {value}, the log ends at {end}, and the broker was not stopped cleanly: {missing} that "
        "had been committed were lost, or this is a copy in which the log is older than the checkpoint.",
        "Lowers it to the end of the log. As a leader it goes on without them, and followers cut them off theirs.",
        "If it was copied from a running broker: copy the partition again, or from a stopped one. Else look for what "
        f"was lost. {_REPLICA}",
        "All that was flushed is there. A loss of power takes what was not; and who copies a running broker copies a "
        "partition before the checkpoint, which the broker writes every 5 seconds.",
    ),
    "high-watermark.below-end": FindingType(
        "info",
        "The high watermark is {value}, the log ends at {end}: the rest, {missing}, may not be on all replicas.",
        "Shows consumers nothing above it until the replicas agree on another.",
        "Nothing has to be done.",
        "Normal on a partition with several replicas. A single replica stops with both the same.",
    ),
    "high-watermark.below-start": FindingType(
        "warning",
        "The high watermark is {value}, below the start of the log, {start}.",
        "Raises it to the start of the log.",
        "Nothing has to be done if the broker had just deleted old segments; else look for those that are missing.",
        "A high watermark never stands below the start of the log, but for some seconds after old segments were "
        "deleted.",
    ),
    "log-start.beyond-end": FindingType(
        "error",
        "The log start offset is {value}, the log ends at {end}.",
        "Deletes every segment of the partition at its next start, and begins anew at offset {value}.",
        "Do not start the broker: kafkalog checkpoint drops the line from log-start-offset-checkpoint.",
        "A broker takes this for a log that was cut by mistake and throws all of it away (2.8 and later).",
    ),
    "cleaner-offset.beyond-end": FindingType(
        "warning",
        "The log was compacted up to offset {value}, it says, and ends at {end}.",
        "Ignores the entry and compacts from the start of the log again.",
        "Look whether records are missing at the end of the log.",
        "Compaction never reaches the end of the log, so the log was cut behind its back.",
    ),
    "epochs.not-ascending": FindingType(
        "error",
        "Line {line} (epoch {epoch} from offset {offset}) does not come after epoch {before_epoch} from offset "
        "{before_offset}.",
        "Drops the earlier entries that contradict it, or the entry itself, from its memory; followers may then "
        "be told "
        "to cut their logs at wrong places.",
        "With the broker stopped: kafkalog checkpoint takes the leader epochs from the batches.",
        "Leader epochs and their first offsets both go up from line to line.",
    ),
    "epochs.missing": FindingType(
        "error",
        "The partition has no leader-epoch-checkpoint, though its batches have leader epochs.",
        "Makes an empty one: followers find the place to cut their logs by the high watermark, which may lose records.",
        "With the broker stopped: kafkalog checkpoint makes it from the leader epochs of the batches.",
        "Every broker since 0.11 makes this file with the partition.",
    ),
    "epochs.cut": FindingType(
        "error",
        "The leader-epoch-checkpoint ends behind its version, and the log has leader epochs.",
        "Takes it for empty: followers find the place to cut their logs by the high watermark, which may lose records.",
        "With the broker stopped: kafkalog checkpoint takes the leader epochs from the batches.",
        "Whatever a broker writes into this file has a second line, the number of entries.",
    ),
    "epochs.not-from-log": FindingType(
        "warning",
        "The leader epochs cannot be taken from the log: it is damaged, or its batches contradict each other.",
        "Lets followers find the place to cut their logs by the lines that are left.",
        "Mend the log first, then run kafkalog checkpoint again; or copy the file from another replica.",
        "Lines of a leader-epoch-checkpoint were lost, and only a whole log says what was in them.",
    ),
    MISSING_METADATA: FindingType(
        "error",
        "The partition has no partition.metadata and so no topic id.",
        "Does not take it for its own: renames the directory to one that ends in -stray, and makes an empty partition.",
        "With the broker stopped: kafkalog checkpoint takes the id from the topic's other partitions or the metadata "
        "log; else write the file: `version: 0`, and in a second line `topic_id: ` with the id that kafka-topics.sh "
        "--describe shows.",
        "A KRaft broker knows partitions by the id of their topic. Releases before 3.7 write the file where it is "
        "missing.",
    ),
    "partition-metadata.odd-name": FindingType(
        "error",
        "Line {line} does not begin with '{name}', as every broker writes it.",
        "Does not look at the name, only at what is behind the colon.",
        "Write the name as it should be, or copy the file from another partition of the topic.",
        "The names in partition.metadata are always the same: the file was changed.",
    ),
    "partition-metadata.odd-version": FindingType(
        "error",
        "Its version is {version}; every broker writes 0.",
        "Kafka 2.8 refuses the file; 4.x takes any number that is not negative.",
        "Write 0 behind 'version: ', with the broker stopped.",
        "There is one version of partition.metadata: the file was changed.",
    ),
    "partition-metadata.other-topic-id": FindingType(
        "error",
        "Its topic id is {topic_id}, that of {other}, a partition of the same topic, is {other_id}.",
        "Does not take for its own the one whose id the cluster does not know: renames its directory to one "
        "that ends in "
        "-stray, and makes an empty partition.",
        "Find the id with kafka-topics.sh --describe. A directory with another id is of a topic that was deleted and "
        "made again, or was put here by hand.",
        "All partitions of a topic have its id.",
    ),
    "partition-metadata.not-assigned": FindingType(
        "error",
        "Its topic id is {topic_id}; the metadata log ({metadata_log}) has {expected} for the topic.",
        "Loads the partition, renames its directory to end in -stray, and, if node {node_id} is a replica, serves an "
        "empty partition instead.",
        "Start no broker on it yet. Put the topic id of the metadata log into partition.metadata, unless the topic was "
        "deleted and created again: then the directory holds the records of the deleted topic.",
        "A KRaft broker finds a partition by its topic id, not by its name (LogManager.isStrayReplica). Releases "
        "before 3.7 delete the directory.",
    ),
    "partition-metadata.shared-topic-id": FindingType(
        "error",
        "Its topic id, {topic_id}, is that of {other} too, a partition of another topic.",
        "Renames the directory to one that ends in -stray where the id is not that of the topic of its name.",
        "Find the ids with kafka-topics.sh --describe: one of the two was renamed or copied by hand.",
        "Each topic has an id of its own.",
    ),
    "partition-metadata.no-id": FindingType(
        "error",
        "The topic's id is nowhere on this disk: no other partition of the topic is here, and no metadata log.",
        "Does not start, or takes the log directory offline; without the file it renames the directory to one that "
        "ends in -stray.",
        "Name the broker's other log directories with --beside, or write the file: `version: 0`, and in a second line "
        "`topic_id: ` with the id that kafka-topics.sh --describe shows.",
        "A topic's id is made by the cluster and cannot be worked out from the log.",
    ),
    "partition-metadata.several-ids": FindingType(
        "error",
        "The topic has several ids here: {names}.",
        "Does not take for its own a partition whose id the cluster does not know: renames its directory to one that "
        "ends in -stray, and makes an empty partition.",
        "Find the id with kafka-topics.sh --describe and write the file: `version: 0`, and in a second line "
        "`topic_id: ` and the id.",
        "Only one of several ids is that of the topic; the others are of a topic that was deleted.",
    ),
    "meta.directory-id-lost": FindingType(
        "error",
        "The directory.id is lost, and the metadata log that knows it is not at hand.",
        "Makes a new one when it starts (3.7 and later). The cluster knows the partitions in the old one, so that they "
        "may stay without a leader.",
        "Name the broker's other log directories with --beside, the one with __cluster_metadata-0 among them. With one "
        "log directory nothing has to be done.",
        "Since 3.7 the cluster keeps for each partition the id of the log directory that it is in.",
    ),
    "meta.not-known": FindingType(
        "error",
        "What the file must say is nowhere to be had: {problem}.",
        "Does not start, or takes the log directory offline where it is not the only one.",
        "Name the broker's other log directories with --beside and its server.properties with --config; the cluster id "
        "stands in meta.properties of every broker of the cluster.",
        "meta.properties is lost, and neither the broker's other log directories nor its configuration are at hand.",
    ),
    "meta.no-version": FindingType(
        "error",
        "The file has no version.",
        "Kafka 0.9 to 3.x do not start: they ask for the property. 4.x takes the file for one of a ZooKeeper broker.",
        "Put back the line version=1, of a ZooKeeper broker version=0, as in its other log directories.",
        "Every broker writes a version into meta.properties: the line was lost, or its key changed.",
    ),
    "meta.no-broker-id": FindingType(
        "error",
        "The file is one of a ZooKeeper broker and has no broker.id.",
        "Asks for the property and does not start (0.9 to 3.x); 4.x goes by what else is there.",
        "Put back the line broker.id=N with the number of the broker, as in its other log directories.",
        "Every broker that writes version 0 of meta.properties writes its own number into it.",
    ),
    "meta.no-directory-id": FindingType(
        "info",
        "The log directory has no directory.id.",
        "Makes one at its next start (3.7 and later).",
        "Nothing has to be done, unless the line was deleted: then put it back, as the cluster knows where "
        "partitions are "
        "by this id.",
        "Releases before 3.7 do not know it.",
    ),
    "quorum-state.other-cluster": FindingType(
        "error",
        "Its cluster id is {cluster_id}, that in meta.properties is {other_id}.",
        "Does not start.",
        "Find out of which cluster the directory is, and put back the other file.",
        "The metadata log and the log directory around it are of two clusters.",
    ),
    "file.too-large": FindingType(
        "error",
        "It has {size_bytes} bytes, where files of this kind have some hundred; it was not read.",
        "Reads all of it into memory, and refuses what is in it.",
        "Put it back from a copy, with the broker stopped; do not start one without the file.",
        "A file of some lines has grown beyond any of its kind.",
    ),
    "file.more-lines": FindingType(
        "warning",
        "There is more behind what a broker reads.",
        "Does not read it.",
        "Delete what does not belong there.",
        "Kafka writes one or two lines into this file.",
    ),
}
