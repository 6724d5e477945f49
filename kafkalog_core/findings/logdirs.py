"""Findings about a log directory: directories in it, its own files."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import (
    CLEAN_MARK,
    MARK_OF_ALL,
    MOVE_DIRECTORY,
    RECOVER,
    RECOVER_WITH_OTHERS,
    VERIFY_WITH_OTHERS,
    WRITE_TOPIC_ID,
    FindingType,
    Variant,
)

__all__ = [
    "CHECKPOINTS",
    "EMPTY_STRAY",
    "FILE_IN_PLACE",
    "LOG_DIRS",
    "MISSING_METADATA",
    "NO_NODE_ID",
    "STRAY_DELETED",
]


EMPTY_STRAY: Final = "Renames the directory to end in -stray, because it has no topic id."
"""What a KRaft broker does with a partition without segments and without partition.metadata (seen of 4.3.1)."""
STRAY_DELETED: Final = (
    "Loads the partition, renames its directory to end in -delete, and deletes it with all its records after "
    "file.delete.delay.ms (log.segment.delete.delay.ms, 1 minute), unless the controllers' metadata log continues "
    "after this copy and assigns it."
)
"""What releases before 3.7 do with a partition that the metadata log does not assign to them (seen of 3.5.2, 3.6.2)."""

FILE_IN_PLACE: Final = (
    "Cannot create the directory, because a file has its name: takes the whole log directory offline."
)
"""What a broker does where a file is in the place of a partition that is assigned to it (seen of 4.3.1)."""
NO_NODE_ID: Final = "Does not start, because it finds no id of the node."
"""What a broker does with a meta.properties of version 0 without broker.id (`MetaPropertiesEnsemble.verify`)."""
LOG_DIRS: Final = {
    "dir.not-a-partition": FindingType(
        "error",
        "A directory in a broker's log directory does not have the name of a partition: {problem}.",
        "Does not start.",
        "Move it out of the log directory.",
        "The name of each directory in a log directory must be topic-number; a broker does not start with another "
        "one. The usual case is lost+found.",
        next_step=MOVE_DIRECTORY,
    ),
    "dir.not-a-partition-here": FindingType(
        "warning",
        "A directory next to partitions does not have the name of a partition: {problem}.",
        "Does not start on it.",
        "Move the directory away before a broker starts here.",
        "The same as dir.not-a-partition, in a directory that may not be a broker's log directory.",
    ),
    "dir.is-a-file": FindingType(
        "warning",
        "A file in a broker's log directory has the name of a partition, {name}.",
        "Ignores it at its start. If the partition belongs here, the broker cannot create its directory, and takes the "
        "whole log directory offline.",
        "Move the file out of the log directory, and look for the directory of the partition.",
        "A partition is a directory; a file of that name is in its place.",
        next_step=MOVE_DIRECTORY,
    ),
    "dir.duplicate-partition": FindingType(
        "error",
        "This is a second directory of partition {partition}; the other one is {other}.",
        "Does not start: a partition may be in a log directory only once.",
        "Compare the two directories and move one out of the log directory.",
        "Two directories belong to one partition: a copy, an interrupted move, or numbers like 0 and 00.",
        next_step=MOVE_DIRECTORY,
    ),
    "dir.future-beside-current": FindingType(
        "warning",
        "An unfinished copy is in the same log directory as the partition itself, {other}.",
        "Cannot replace the partition with it: takes the log directory offline when it tries, or does not start.",
        "Move one of the two directories out of the log directory.",
        "A broker creates a -future directory only in another log directory than the partition's own.",
        next_step=MOVE_DIRECTORY,
    ),
    "dir.no-directory": FindingType(
        "error",
        "The entry has the name of a partition, but is not a directory: {problem}.",
        "Skips it and the partition's records. If the partition is assigned to the broker, it cannot create the "
        "directory and takes the whole log directory offline.",
        "Restore the partition directory, or move this entry out of the log directory.",
        "A broken link, a pipe or a device has the name of a partition directory.",
    ),
    "dir.odd-name": FindingType(
        "info",
        "No broker writes the partition number in this way.",
        "Reads it as partition {partition}.",
        "Nothing needs to be done, unless the partition also exists under its plain name.",
        "A broker reads a number such as 007 or +7 as 7, but does not write it: a person created the directory.",
    ),
    "dir.illegal-topic": FindingType(
        "info",
        "No broker creates a topic of this name: {problem}.",
        "Loads it.",
        "Nothing needs to be done.",
        "Kafka's tools refuse these characters or this length. Brokers do not check the name when they load the topic.",
    ),
    "dir.delete": FindingType(
        "info",
        "The partition waits for deletion.",
        "Deletes it about a minute after its next start.",
        "If you need the partition, copy it away before a broker starts.",
        "The topic was deleted or the replica was moved away. The segments are complete until a broker deletes the "
        "directory.",
    ),
    "dir.future": FindingType(
        "info",
        "This copy was being moved here from another log directory.",
        "Loads it as the unfinished copy of a partition.",
        "If no log directory has the partition itself, copy this directory away before the broker starts.",
        "The broker was moving a replica between two of its log directories.",
    ),
    "dir.future-assigned": FindingType(
        "warning",
        "The metadata log ({metadata_log}) assigns the partition to this log directory, where only an unfinished copy "
        "of it is{other}.",
        "Puts this copy in the place of the partition{then}.",
        "Compare the log end offsets of the two directories, if there are two. If the other one has more records, copy "
        "it away before the broker starts.",
        "The broker was moving a replica between two of its log directories, and had already reported the move to the "
        "controller (LogManager.recoverAbandonedFutureLogs, since 3.7).",
        next_step="kafkalog dump {file} --stats",
    ),
    "dir.future-alone": FindingType(
        "error",
        "The partition is in none of the broker's log directories that were verified: there is only this unfinished "
        "copy.",
        "Creates an empty partition in the log directory that the metadata log assigns, and truncates this copy to "
        "match it. If the partition is in another log directory, continues to fill this copy.",
        "Verify all log directories of the broker together. If none has the partition, rename this directory to "
        "the name of the partition before the broker starts: the broker then serves every record of the copy.",
        "A broker fills a -future directory from the partition's own directory. Without that, it begins again with an "
        "empty one, unless the copy has the name of the partition.",
        next_step="kafkalog dump {file} --stats",
    ),
    "dir.stray": FindingType(
        "info",
        "A broker renamed this partition, because it was not assigned to the broker.",
        "Keeps the directory, and serves no record of it. It loads it at each start: after a crash it may truncate it.",
        "If you need the records, read them with kafkalog dump. Else delete the directory.",
        "The metadata did not assign the partition to this broker, so the broker renamed it: the topic was deleted or "
        "moved, or the directory lost its partition.metadata.",
    ),
    "dir.not-assigned": FindingType(
        "error",
        "The metadata log ({metadata_log}) {why}; its topic id is {topic_id}.",
        "Loads the partition, renames its directory to end in -stray, and serves no record of it, unless the "
        "controllers' metadata log continues after this copy and assigns it.",
        "If you need the records, copy the directory away before the broker starts. To serve it again, restore the "
        "metadata log that has the topic, or assign the partition to this node.",
        "A KRaft broker keeps only partitions that the metadata log assigns to it (LogManager.isStrayReplica). "
        "Releases before 3.7 delete the others.",
        next_step="kafkalog dump {file} --stats",
    ),
    "dir.metadata-elsewhere": FindingType(
        "error",
        "The metadata log is here, but the server.properties has {expected} as its log directory.",
        "Does not start.",
        "If disks are mounted in the place of each other, mount them as before. Else correct metadata.log.dir, or the "
        "order of log.dirs: without metadata.log.dir its first directory has the metadata log.",
        "A node looks for its metadata log in one log directory (metadata.log.dir), and refuses one in another.",
    ),
    "dir.unformatted": FindingType(
        "error",
        "The log directory is empty: it is new, or its disk is not mounted.",
        "Does not start: each log directory of a KRaft broker must have a meta.properties.",
        "If the disk of this directory is not mounted, mount it. If the directory is new, format it with "
        "kafka-storage.sh format --ignore-formatted.",
        "A new disk is empty, and so is the mount point of a disk that is not mounted.",
        next_step="findmnt --target {file}",
    ),
    "dir.partition-missing": FindingType(
        "warning",
        "The metadata log ({metadata_log}) assigns {names} to {where}, but no log directory has a directory of this "
        "name.",
        "Creates an empty partition, if the controllers have committed that. Where this node has the only replica, "
        "consumers get none of the old records.",
        "If the topic is not new, start no broker yet: look for the directory on other disks, in backups, and among "
        "directories that were renamed to end in -delete or -stray, and put it back.",
        "A broker creates each partition that the metadata log assigns to it, if it finds no directory. So a lost "
        "directory becomes an empty partition, without a warning in its log.",
    ),
    "dir.unreadable": FindingType(
        "error",
        "The directory cannot be listed: {reason}.",
        "Takes the whole log directory offline.",
        "Repair its permissions or its disk.",
        "The operating system refused to list the directory.",
    ),
    "file.misplaced": FindingType(
        "info",
        "A file of a partition is at the top of a log directory.",
        "Ignores it.",
        "Read the file by itself.",
        "A segment's file is at the top of a log directory, not in a partition.",
    ),
    "dir.unclean": FindingType(
        "info",
        "The log directory has no clean shutdown file.",
        "Reads the segments after each recovery point and truncates each log at its first bad batch.",
        "Nothing needs to be done after a crash. To see what recovery would truncate, run verify before the next "
        "start.",
        "There is no .kafka_cleanshutdown: the broker was killed, crashed, is running, or began to start (it deletes "
        "the file then).",
    ),
    "meta.missing": FindingType(
        "info",
        "The log directory has no meta.properties.",
        "Kafka 0.9 to 3.x with ZooKeeper creates one, with the ids of the broker that starts. 4.x does not start.",
        "Restore the file, with the cluster.id and broker.id of the broker's other log directories. If no ZooKeeper "
        "broker has ever started here, nothing needs to be done.",
        "Without meta.properties it is unknown which broker and cluster the directory belongs to. If files of 0.11 or "
        "later are next to it, the file was lost, and verify reports an error.",
    ),
    "meta.missing-kraft": FindingType(
        "warning",
        "The log directory belongs to a KRaft broker and has no meta.properties.",
        "Does not start.",
        "Restore the file, with the cluster.id and node.id of the broker's other log directories.",
        "A KRaft broker must find meta.properties in every log directory; an empty mount point has none.",
        next_step=RECOVER_WITH_OTHERS,
    ),
}


MISSING_METADATA: Final = "partition-metadata.missing"

_REPLICA: Final = "If other replicas exist, let them elect a leader before this broker starts."
_BEHIND: Final = (
    "The log ends before an offset that a broker checkpointed: records were lost, or the log belongs to another "
    "partition."
)

CHECKPOINTS: Final = {
    "checkpoint.repeated": FindingType(
        "error",
        "Line {line} is a second entry of {name}. Only the last entry counts.",
        "Uses the last entry. Releases 0.8.2 to 0.10.0 refuse the file.",
        "Stop the broker and run kafkalog recover, which drops the lines that do not count.",
        "A broker writes one entry for each partition: somebody edited the file or joined two files.",
        next_step=RECOVER,
    ),
    "checkpoint.negative-offset": FindingType(
        "error",
        "Line {line} gives {value} for {name}, but offsets and partition numbers are never negative.",
        "Raises a negative high watermark or log start offset to the start of the log. With a negative recovery point "
        "it recovers every segment after an unclean shutdown.",
        "Stop the broker and run kafkalog recover, which drops the line or gives it the offset of the log.",
        "A broker never writes a negative number into this file.",
        next_step=RECOVER,
    ),
    "checkpoint.no-partition": FindingType(
        "warning",
        "The log directory has no directory of {names}, which {lines}{elsewhere}.",
        "Ignores such entries and drops them when it next writes the file.",
        "Find out whether the directory was lost, moved to another log directory, or deleted on purpose.",
        "A checkpoint names partitions that are not in its log directory. This is normal shortly after a deletion or "
        "a move, and in a copy without some partitions. A partition that several checkpoints name is counted at the "
        "first one.",
    ),
    "checkpoint.missing": FindingType(
        "error",
        "The log directory has no {name}, which every broker of its release creates when it starts.",
        "Creates an empty one: {effect}.",
        "Restore it from a backup of the same time as the logs. If there is none, verify the partitions before the "
        "broker starts and creates an empty file.",
        "Every log directory of a broker has this file: it was deleted, or not copied.",
        next_step=RECOVER,
    ),
    "checkpoint.emptied": FindingType(
        "warning",
        "The file is empty, and the log directory has {partitions}.",
        "Reads it as an empty checkpoint: {effect}.",
        "If the broker was killed in its first minute, it left the file empty, and nothing needs to be done. Else "
        "restore it from a backup of the same time as the logs. If there is none, verify the partitions before the "
        "broker starts and writes a new file.",
        "A broker creates an empty file at its very first start. After a clean shutdown the file always has entries, "
        "so an empty file was truncated; the severity is then error.",
    ),
    "recovery-point.beyond-end": FindingType(
        "error",
        "The recovery point is {value}, but the log ends at {end}: it has lost {missing} that had been flushed.",
        "Lowers it to the log end offset and continues without these records. After a crash it recovers only the last "
        "segment.",
        f"Look for the missing records. {_REPLICA}",
        _BEHIND,
        next_step=RECOVER,
    ),
    "recovery-point.not-at-end": FindingType(
        "error",
        "The recovery point is {value}, but the log ends at {end}, and there is a clean shutdown file. A clean "
        "shutdown leaves both offsets equal.",
        "Trusts the clean shutdown file and recovers nothing, so that it does not notice damage in the log.",
        f"Stop the broker and run kafkalog recover. Or delete {CLEAN_MARK}: the next start then recovers from the "
        f"recovery point. {MARK_OF_ALL}",
        "A clean shutdown flushes every log and checkpoints its end. So the clean shutdown file does not belong to "
        "these files, or they were changed later.",
        next_step=RECOVER,
    ),
    "recovery-point.none": FindingType(
        "info",
        "The checkpoint has no recovery point for the partition.",
        "Uses 0: it recovers all segments after an unclean shutdown.",
        "Nothing needs to be done. Recovery may take long.",
        "The recovery-point checkpoint does not have the partition: it is new, or somebody moved it here. After a "
        "clean shutdown every partition is in the checkpoint; the severity is then warning.",
    ),
    "high-watermark.beyond-end": FindingType(
        "error",
        "The high watermark is {value}, but the log ends at {end}: it has lost {missing} that had been committed.",
        "Lowers it to the log end offset. As a leader it continues without these records, and followers truncate them "
        "too.",
        f"Look for the missing records. {_REPLICA}",
        _BEHIND,
        next_step=RECOVER,
    ),
    "high-watermark.maybe-beyond": FindingType(
        "warning",
        "The high watermark is {value}, but the log ends at {end}, and the shutdown was not clean: it has lost "
        "{missing} that had been committed, or this is a copy in which the log is older than the checkpoint.",
        "Lowers it to the log end offset. As a leader it continues without these records, and followers truncate them "
        "too.",
        "If the partition was copied from a running broker, copy it again, best from a stopped broker. Else look for "
        f"the missing records. {_REPLICA}",
        "All flushed records are there. A power loss loses unflushed records. A copy of a running broker may hold the "
        "log as it was before the checkpoint, which the broker writes every 5 seconds.",
    ),
    "high-watermark.below-end": FindingType(
        "info",
        "The high watermark is {value}, but the log ends at {end}: the rest, {missing}, may not be on all replicas.",
        "Shows consumers nothing above it until the replicas agree on another.",
        "Nothing needs to be done.",
        "This is normal for a partition with several replicas. With a single replica both offsets are equal after a "
        "stop.",
    ),
    "high-watermark.below-start": FindingType(
        "warning",
        "The high watermark is {value}, below the log start offset, {start}.",
        "Raises it to the log start offset.",
        "If the broker had just deleted old segments, nothing needs to be done. Else look for the missing segments.",
        "A high watermark is never below the log start offset, except for some seconds after old segments were "
        "deleted.",
    ),
    "log-start.beyond-end": FindingType(
        "error",
        "The log start offset is {value}, but the log ends at {end}.",
        "Deletes every segment of the partition at its next start, and starts an empty log at offset {value}.",
        "Do not start the broker. Run kafkalog recover, which drops the line from log-start-offset-checkpoint.",
        "A broker takes such a log for one that was truncated by mistake, and deletes all of it (2.2 and later).",
        next_step=RECOVER,
    ),
    "cleaner-offset.beyond-end": FindingType(
        "warning",
        "By the checkpoint the log is compacted up to offset {value}, but the log ends at {end}.",
        "Ignores the entry and compacts from the start of the log again.",
        "Check whether records are missing at the end of the log.",
        "Compaction never reaches the end of the log, so the log was truncated later.",
    ),
    "epochs.not-ascending": FindingType(
        "error",
        "Line {line} (epoch {epoch} from offset {offset}) does not come after epoch {before_epoch} from offset "
        "{before_offset}.",
        "Drops the earlier entries that contradict it, or the entry itself, from its memory. Followers may then "
        "truncate their logs at wrong offsets.",
        "Stop the broker and run kafkalog recover, which takes the leader epochs from the batches.",
        "Leader epochs and their first offsets both increase from line to line.",
        next_step=RECOVER,
    ),
    "epochs.missing": FindingType(
        "error",
        "The partition has no leader-epoch-checkpoint, but its batches have leader epochs.",
        "Creates one with the leader epochs of the segments that it recovers, which are none after a clean shutdown. A "
        "follower without leader epochs truncates its log at its high watermark.",
        "Stop the broker and run kafkalog recover, which creates the file from the leader epochs of the batches.",
        "Every broker since 0.11 creates this file with the partition.",
        next_step=RECOVER,
    ),
    "epochs.cut": FindingType(
        "error",
        "The leader-epoch-checkpoint ends after its version, but the log has leader epochs.",
        "Reads it as empty, and adds the leader epochs of the segments that it recovers, which are none after a clean "
        "shutdown. A follower without leader epochs truncates its log at its high watermark.",
        "Stop the broker and run kafkalog recover, which takes the leader epochs from the batches.",
        "The file that a broker writes always has a second line, the number of entries.",
    ),
    "epochs.remote-unknown": FindingType(
        "error",
        "The leader-epoch-checkpoint has no leader epoch of offsets {offset} to {last}, which only tiered storage has.",
        "Serves none of these offsets, and deletes the segments of leader epochs before the first one of the file from "
        "tiered storage.",
        "Start no broker on it yet: copy the file from another replica. If there is none, write it by hand, from the "
        "segmentLeaderEpochs that kafkalog dump --records shows of __remote_log_metadata.",
        "The file was lost, or made from the batches on this disk, which do not show the leader epochs of the segments "
        "in tiered storage.",
    ),
    "epochs.not-from-log": FindingType(
        "warning",
        "The leader epochs cannot be taken from the log: the log is damaged, or its batches contradict each other.",
        "Lets followers truncate their logs by the remaining lines.",
        "Repair the log first, then run the command again. Or copy the file from another replica.",
        "Lines of a leader-epoch-checkpoint were lost, and only an undamaged log has the epochs.",
    ),
    MISSING_METADATA: FindingType(
        "error",
        "The partition has no partition.metadata and so no topic id.",
        "Does not recognize the partition: it renames the directory to end in -stray. If the cluster assigns a "
        "partition of this name to the broker, it creates an empty one.",
        "Stop the broker and run kafkalog recover, which takes the id from the topic's other partitions or from "
        "the metadata log. If they do not have it, write the file by hand: `version: 0`, and in a second line "
        "`topic_id: ` with the id that kafka-topics.sh --describe shows.",
        "A KRaft broker knows partitions by the id of their topic. Releases before 3.7 write the file if it is "
        "missing.",
        variants=(
            Variant(
                "renames_strays",
                False,  # seen of 3.5.2 and 3.6.2
                "Assigns the partition to the topic of its name, and writes the file.",
                "Nothing needs to be done.",
                "info",
            ),
        ),
        next_step=RECOVER,
    ),
    "partition-metadata.odd-name": FindingType(
        "error",
        "Line {line} does not start with '{name}', as every broker writes it.",
        "Does not check the name, and reads only the text after the colon.",
        "Correct the name, or copy the file from another partition of the topic. kafkalog recover does it.",
        "The names in partition.metadata are always the same: the file was changed.",
        next_step=RECOVER,
    ),
    "partition-metadata.odd-version": FindingType(
        "error",
        "The version is {version}, but every broker writes 0.",
        "Kafka 2.8 refuses the file; 4.x accepts any number that is not negative.",
        "Stop the broker and write 0 after 'version: '. kafkalog recover does it.",
        "There is only one version of partition.metadata: the file was changed.",
        next_step=RECOVER,
    ),
    "partition-metadata.other-topic-id": FindingType(
        "error",
        "The topic id is {topic_id}, but {other}, a partition of the same topic, has {other_id}.",
        "Does not recognize the partition whose id is unknown to the cluster: it renames its directory to end in "
        "-stray. If the cluster assigns a partition of this name to the broker, it creates an empty one.",
        "Find the id with kafka-topics.sh --describe, or verify the log directory together with the one that has the "
        "metadata log. A directory with another id belongs to a topic that was deleted "
        "and created again, or somebody put it here.",
        "All partitions of a topic have its id.",
        next_step=VERIFY_WITH_OTHERS,
    ),
    "partition-metadata.not-assigned": FindingType(
        "error",
        "The topic id is {topic_id}, but the metadata log ({metadata_log}) has {expected} for the topic.",
        "Loads the partition, renames its directory to end in -stray, and serves an empty partition instead, unless "
        "the controllers' metadata log continues after this copy and has this topic id.",
        "Start no broker on it yet. Put the topic id of the metadata log into partition.metadata, unless the topic "
        "was deleted and created again: then the directory holds the records of the deleted topic.",
        "A KRaft broker finds a partition by its topic id, not by its name (LogManager.isStrayReplica). Releases "
        "before 3.7 delete the directory.",
        next_step="sed -i.before '/^topic_id:/s/:.*/: ID_OF_THE_METADATA_LOG/' {file}",
    ),
    "partition-metadata.shared-topic-id": FindingType(
        "error",
        "The topic id, {topic_id}, is also the id of {other}, a partition of another topic.",
        "Renames the directory to end in -stray if the id does not belong to the topic of its name.",
        "Find the ids with kafka-topics.sh --describe, or verify the log directory together with the one that has the "
        "metadata log: somebody renamed or copied one of the two directories.",
        "Each topic has its own id.",
        next_step=VERIFY_WITH_OTHERS,
    ),
    "partition-metadata.no-id": FindingType(
        "error",
        "The topic id is not on this disk: there is no other partition of the topic, and no metadata log.",
        "Does not start, or takes the log directory offline. Without the file it renames the directory to end in "
        "-stray.",
        "Name the broker's other log directories too, or give its server.properties with --config, or write the file "
        "by hand: `version: 0`, and in a second line `topic_id: ` with the id that kafka-topics.sh --describe "
        "shows.",
        "The cluster creates the topic id; the log does not contain it.",
        next_step=RECOVER_WITH_OTHERS,
    ),
    "partition-metadata.several-ids": FindingType(
        "error",
        "The topic has several ids here: {names}.",
        "Does not recognize a partition whose id is unknown to the cluster: it renames its directory to end in "
        "-stray. If the cluster assigns a partition of this name to the broker, it creates an empty one.",
        "Find the id with kafka-topics.sh --describe and write the file: `version: 0`, and in a second line "
        "`topic_id: ` and the id.",
        "Only one of the ids belongs to the topic; the others belong to a deleted topic.",
        next_step=WRITE_TOPIC_ID,
    ),
    "meta.directory-id-lost": FindingType(
        "error",
        "The directory.id is lost, and the metadata log that has it is not available.",
        "Creates a new one when it starts (3.7 and later). The cluster has the partitions in the old one, so they may "
        "remain without a leader.",
        "Name the broker's other log directories too, among them the one with __cluster_metadata-0. If the broker has "
        "only one log directory, nothing needs to be done.",
        "Since 3.7 the cluster stores the id of the log directory of each partition.",
        next_step=RECOVER_WITH_OTHERS,
    ),
    "meta.only-voter": FindingType(
        "error",
        "The directory.id is {value}, but the metadata log in this directory has node {node_id} as its only voter, "
        "with directory.id {expected}.",
        "Starts, but can serve no partition: no leader is elected, and the node waits forever.",
        "With the node stopped, set directory.id back to the id in the metadata log.",
        "A controller is a voter with its node.id and the directory.id of its metadata log (KIP-853). "
        "kafka-storage.sh format has written meta.properties again, or it was copied from another log directory.",
        next_step="sed -i.before s/^directory.id=.*/directory.id=ID_OF_THE_METADATA_LOG/ {file}",
    ),
    "meta.not-known": FindingType(
        "error",
        "The values of the file are not available: {problem}.",
        "Does not start, or takes the log directory offline.",
        "Name the broker's other log directories too, and its server.properties with --config; meta.properties of "
        "every broker of the cluster holds the cluster id.",
        "meta.properties is lost, and neither the broker's other log directories nor its configuration are available.",
        next_step=RECOVER_WITH_OTHERS,
    ),
    "meta.no-version": FindingType(
        "error",
        "The file has no version.",
        "Releases before 3.7 do not start, because they require the property. Later ones regard the file as one of a "
        "ZooKeeper broker.",
        "Restore the line version=1 (ZooKeeper broker: version=0), as in the broker's other log directories.",
        "Every broker writes a version into meta.properties: the line was lost, or its key changed.",
        next_step=RECOVER_WITH_OTHERS,
    ),
    "meta.no-broker-id": FindingType(
        "error",
        "The file belongs to a ZooKeeper broker and has no broker.id.",
        NO_NODE_ID,
        "Restore the line broker.id=N with the number of the broker, as in its other log directories.",
        "Every broker that writes version 0 of meta.properties writes its own number into the file.",
        next_step=RECOVER_WITH_OTHERS,
    ),
    "meta.no-directory-id": FindingType(
        "info",
        "The log directory has no directory.id.",
        "Creates one at its next start (3.7 and later).",
        "Nothing needs to be done, unless the line was deleted: then restore it, because the cluster finds partitions "
        "by this id.",
        "Releases before 3.7 do not have it.",
    ),
    "quorum-state.other-cluster": FindingType(
        "error",
        "The cluster id is {cluster_id}, but meta.properties has {other_id}.",
        "Does not start.",
        "Find out which cluster the directory belongs to, and restore the other file.",
        "The metadata log and its log directory belong to two clusters.",
    ),
    "file.too-large": FindingType(
        "error",
        "The file has {size_bytes} bytes, far more than any file of its kind; it was not read.",
        "Reads all of it into memory, and refuses it.",
        "Stop the broker and restore the file from a copy. Do not start a broker without the file.",
        "The file normally has some lines, but is far larger than any file of its kind.",
    ),
    "file.more-lines": FindingType(
        "warning",
        "The file has more bytes after those that a broker reads.",
        "Does not read them.",
        "Delete the lines that do not belong there.",
        "Kafka writes one or two lines into this file.",
    ),
}
