"""Findings about a log directory: directories in it, its own files."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import CLEAN_MARK, MARK_OF_ALL, FindingType, Variant

__all__ = [
    "CHECKPOINTS",
    "LOG_DIRS",
    "METADATA_LOG",
    "MISSING_METADATA",
    "SNAPSHOT_ACTION",
    "SNAPSHOT_CURE",
    "STRAY_DELETED",
]


STRAY_DELETED: Final = (
    "Loads the partition, renames its directory to end in -delete, and deletes it with all its records after "
    "file.delete.delay.ms (log.segment.delete.delay.ms, 1 minute)."
)
"""What releases before 3.7 do with a partition that the metadata log does not assign to them (seen of 3.5.2, 3.6.2)."""

LOG_DIRS: Final = {
    "dir.not-a-partition": FindingType(
        "error",
        "A directory in a broker's log directory whose name is not of a partition: {problem}.",
        "Does not start.",
        "Move it out of the log directory.",
        meaning=(
            "Each directory at the top of a log directory must be named topic-number; one that is not keeps the broker "
            "from starting. lost+found is the usual one."
        ),
    ),
    "dir.not-a-partition-here": FindingType(
        "warning",
        "A directory next to partitions whose name is not of a partition: {problem}.",
        "Would not start on it.",
        meaning="The same as dir.not-a-partition, in a directory that is perhaps not a broker's log directory.",
        cure="Move it away before a broker starts here.",
    ),
    "dir.duplicate-partition": FindingType(
        "error",
        "A second directory of partition {partition}; the other one is {other}.",
        "Does not start: a partition may be in a log directory once.",
        "Compare the two and move one out of the log directory.",
        meaning="Two directories are of one partition: a copy, an interrupted move, or numbers like 0 and 00.",
    ),
    "dir.future-beside-current": FindingType(
        "warning",
        "A copy to be filled in the same log directory as the partition itself, {other}.",
        "Cannot put it in the partition's place: takes the log directory offline when it tries.",
        "Move one of the two out of the log directory.",
        meaning="A -future directory is made in another log directory than the partition's own.",
    ),
    "dir.no-directory": FindingType(
        "error",
        "It has the name of a partition and is not a directory: {problem}.",
        "Skips it and the partition's records. If the partition is assigned to the broker, it fails to make "
        "the directory and takes the whole log directory offline.",
        "Put the partition's directory in its place, or move this out of the log directory.",
        meaning="A link that leads to nothing, a pipe or a device has the name of a partition's directory.",
    ),
    "dir.odd-name": FindingType(
        "info",
        "The partition number is not written as a broker writes it.",
        "Reads it as partition {partition}.",
        meaning="A number such as 007 or +7 is read as 7, but no broker writes it so: a person made the directory.",
        cure="Nothing, unless the partition is also there under its plain name.",
    ),
    "dir.illegal-topic": FindingType(
        "info",
        "No broker creates a topic of this name: {problem}.",
        "Loads it.",
        meaning="Characters or a length that the tools refuse. Brokers do not check that when they load.",
        cure="Nothing needs to be done.",
    ),
    "dir.delete": FindingType(
        "info",
        "The partition waits for its deletion.",
        "Removes it about a minute after its next start.",
        meaning=(
            "The topic was deleted or the replica moved away, and the directory waits for its removal. Its segments "
            "are whole until then."
        ),
        cure="If it is needed, copy it away before a broker starts.",
    ),
    "dir.future": FindingType(
        "info",
        "A copy that was being moved here from another log directory.",
        "Goes on filling it.",
        meaning="A replica that was being moved between two log directories of the broker.",
        cure="Nothing needs to be done.",
    ),
    "dir.stray": FindingType(
        "info",
        "A partition that a broker found not to be its own and renamed.",
        "Keeps it and never reads it.",
        meaning=(
            "The metadata did not assign the partition to this broker, so it was renamed: the topic was "
            "deleted or moved, or it lost its partition.metadata."
        ),
        cure="If the records are wanted, read it with kafkalog dump; else remove it.",
    ),
    "dir.not-assigned": FindingType(
        "error",
        "The metadata log ({metadata_log}) {why}; its topic id is {topic_id}.",
        "Loads the partition, renames its directory to end in -stray, and never reads it again.",
        "If the records are wanted, copy the directory away before the broker starts. To serve it again, restore the "
        "metadata log that has the topic, or assign the partition to this node.",
        "A KRaft broker keeps only partitions that the metadata log assigns to it (LogManager.isStrayReplica). "
        "Releases before 3.7 delete the others.",
    ),
    "dir.unreadable": FindingType(
        "error",
        "The directory cannot be listed: {reason}.",
        "Takes the whole log directory offline.",
        meaning="The operating system refused to list the directory.",
        cure="Mend its permissions, or its disk.",
    ),
    "file.misplaced": FindingType(
        "info",
        "A file of a partition at the top of a log directory.",
        "Ignores it.",
        "Read it by itself.",
        meaning="A segment's file is at the top of a log directory, outside of any partition.",
    ),
    "dir.unclean": FindingType(
        "info",
        "The log directory has no clean shutdown file.",
        "Recovers: reads the segments after each recovery point and truncates them at the first bad batch.",
        meaning=(
            "No .kafka_cleanshutdown: the broker was killed, crashed, is running, or began to start (it removes the "
            "mark then)."
        ),
        cure=(
            "Nothing needs to be done after a crash. To see what recovery would truncate, verify before the next start."
        ),
    ),
    "meta.missing": FindingType(
        "info",
        "The log directory has no meta.properties.",
        "Kafka 0.9 to 3.x with ZooKeeper makes one, with the ids of the broker that starts. 4.x does not start.",
        meaning=(
            "Without meta.properties it is unknown to which broker and cluster the directory belongs. Where "
            "files of 0.11 or later are next to it, the file was lost, and verify reports an error."
        ),
        cure=(
            "Put it back, with the cluster.id and broker.id of the broker's other log directories. Nothing, on a "
            "ZooKeeper broker that has not been started here."
        ),
    ),
    "meta.missing-kraft": FindingType(
        "warning",
        "The log directory is one of a KRaft broker and has no meta.properties.",
        "Does not start and asks to format the directory.",
        "Put back the file, with the cluster.id and node.id of the broker's other log directories.",
        meaning="A KRaft broker must find meta.properties in every log directory; an empty mount point has none.",
    ),
}


MISSING_METADATA: Final = "partition-metadata.missing"

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
        "segment after an unclean shutdown for a negative recovery point.",
        "With the broker stopped: kafkalog checkpoint drops the line, or gives it the offset of the log.",
        "A broker never writes a negative number into this file.",
    ),
    "checkpoint.no-partition": FindingType(
        "warning",
        "The log directory has no directory of {names}, which {lines}{elsewhere}.",
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
        "The file is empty, and there are {count} partitions in the log directory.",
        "Takes it for empty: {effect}.",
        "Restore it from a backup of the same time as the logs. Without one, verify the partitions before the broker "
        "starts and writes a new one.",
        "A broker makes an empty file at its very first start. After a clean shutdown the file always has "
        "entries, so an empty one was truncated: an error then.",
    ),
    "recovery-point.beyond-end": FindingType(
        "error",
        "The recovery point is {value}, the log ends at {end}: {missing} that had been flushed to disk went missing.",
        "Lowers it to the log end offset and continues without them; after a crash it recovers the last segment alone.",
        f"Look for the missing records. {_REPLICA}",
        _BEHIND,
    ),
    "recovery-point.not-at-end": FindingType(
        "error",
        "The recovery point is {value}, the log ends at {end}, and there is a clean shutdown file, although a "
        "clean shutdown leaves both the same.",
        "Trusts the clean shutdown file and recovers nothing: damage in the log is not noticed.",
        f"With the broker stopped, delete {CLEAN_MARK}: the next start recovers from the recovery point. {MARK_OF_ALL}",
        "A clean shutdown flushes every log and checkpoints its end. So the clean shutdown file is not of "
        "these files, or they were changed after it.",
    ),
    "recovery-point.none": FindingType(
        "info",
        "The checkpoint has no recovery point for the partition.",
        "Takes 0: recovers all segments after an unclean shutdown.",
        "Nothing has to be done; recovery may take long.",
        "The checkpoint of recovery points does not name the partition: it is new, or it was moved here by "
        "hand. After a clean shutdown every partition is named: a warning then.",
    ),
    "high-watermark.beyond-end": FindingType(
        "error",
        "The high watermark is {value}, the log ends at {end}: {missing} that had been committed went missing.",
        "Lowers it to the log end offset. As a leader it continues without them, and followers truncate them too.",
        f"Look for the missing records. {_REPLICA}",
        _BEHIND,
    ),
    "high-watermark.maybe-beyond": FindingType(
        "warning",
        "The high watermark is {value}, the log ends at {end}, and the broker was not stopped cleanly: {missing} that "
        "had been committed were lost, or this is a copy in which the log is older than the checkpoint.",
        "Lowers it to the log end offset. As a leader it continues without them, and followers truncate them too.",
        "If it was copied from a running broker: copy the partition again, or from a stopped one. Else look for the "
        f"missing records. {_REPLICA}",
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
        "Nothing needs to be done if the broker had just deleted old segments; else look for the missing ones.",
        "A high watermark is never below the start of the log, except for some seconds after old segments were "
        "deleted.",
    ),
    "log-start.beyond-end": FindingType(
        "error",
        "The log start offset is {value}, the log ends at {end}.",
        "Deletes every segment of the partition at its next start, and starts an empty log at offset {value}.",
        "Do not start the broker: kafkalog checkpoint drops the line from log-start-offset-checkpoint.",
        "A broker takes this for a log that was truncated by mistake and deletes all of it (2.8 and later).",
    ),
    "cleaner-offset.beyond-end": FindingType(
        "warning",
        "The checkpoint has the log compacted up to offset {value}, but the log ends at {end}.",
        "Ignores the entry and compacts from the start of the log again.",
        "Look whether records are missing at the end of the log.",
        "Compaction never reaches the end of the log, so the log was truncated afterwards.",
    ),
    "epochs.not-ascending": FindingType(
        "error",
        "Line {line} (epoch {epoch} from offset {offset}) does not come after epoch {before_epoch} from offset "
        "{before_offset}.",
        "Drops the earlier entries that contradict it, or the entry itself, from its memory; followers may "
        "then truncate their logs at wrong offsets.",
        "With the broker stopped: kafkalog checkpoint takes the leader epochs from the batches.",
        "Leader epochs and their first offsets both go up from line to line.",
    ),
    "epochs.missing": FindingType(
        "error",
        "The partition has no leader-epoch-checkpoint, though its batches have leader epochs.",
        "Makes an empty one: followers truncate their logs at the high watermark, which may lose records.",
        "With the broker stopped: kafkalog checkpoint makes it from the leader epochs of the batches.",
        "Every broker since 0.11 makes this file with the partition.",
    ),
    "epochs.cut": FindingType(
        "error",
        "The leader-epoch-checkpoint ends after its version, and the log has leader epochs.",
        "Takes it for empty: followers truncate their logs at the high watermark, which may lose records.",
        "With the broker stopped: kafkalog checkpoint takes the leader epochs from the batches.",
        "Whatever a broker writes into this file has a second line, the number of entries.",
    ),
    "epochs.not-from-log": FindingType(
        "warning",
        "The leader epochs cannot be taken from the log: it is damaged, or its batches contradict each other.",
        "Lets followers truncate their logs by the lines that are left.",
        "Mend the log first, then run kafkalog checkpoint again; or copy the file from another replica.",
        "Lines of a leader-epoch-checkpoint were lost, and only a whole log shows what was in them.",
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
        variants=(
            Variant(
                "renames_strays",
                False,  # seen of 3.5.2 and 3.6.2
                "Takes the partition for the one of the topic of its name, and writes the file.",
                "Nothing needs to be done.",
                "info",
            ),
        ),
    ),
    "partition-metadata.odd-name": FindingType(
        "error",
        "Line {line} does not start with '{name}', as every broker writes it.",
        "Does not check the name, and reads only what follows the colon.",
        "Write the name as it should be, or copy the file from another partition of the topic.",
        "The names in partition.metadata are always the same: the file was changed.",
    ),
    "partition-metadata.odd-version": FindingType(
        "error",
        "Its version is {version}; every broker writes 0.",
        "Kafka 2.8 refuses the file; 4.x takes any number that is not negative.",
        "With the broker stopped, write 0 after 'version: '.",
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
        "The directory.id is lost, and the metadata log that has it is not available.",
        "Makes a new one when it starts (3.7 and later). The cluster has the partitions in the old one, so "
        "they may remain without a leader.",
        "Name the broker's other log directories with --beside, the one with __cluster_metadata-0 among them. "
        "With one log directory nothing needs to be done.",
        "Since 3.7 the cluster keeps for each partition the id of the log directory that it is in.",
    ),
    "meta.not-known": FindingType(
        "error",
        "What the file must say is nowhere to be had: {problem}.",
        "Does not start, or takes the log directory offline where it is not the only one.",
        "Name the broker's other log directories with --beside and its server.properties with --config; "
        "meta.properties of every broker of the cluster holds the cluster id.",
        "meta.properties is lost, and neither the broker's other log directories nor its configuration are available.",
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
        "Requires the property and does not start (0.9 to 3.x); 4.x uses the other properties.",
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
        "The file has more bytes after those that a broker reads.",
        "Does not read it.",
        "Delete what does not belong there.",
        "Kafka writes one or two lines into this file.",
    ),
}


SNAPSHOT_ACTION: Final = "A KRaft node reads it when it starts, and may not start."
SNAPSHOT_CURE: Final = (
    "Put back a copy of the file. Another node of the quorum may have one of the same name; keep the damaged "
    "one elsewhere."
)

METADATA_LOG: Final = {
    "metadata-log.no-snapshot": FindingType(
        "error",
        "The metadata log starts at offset {start}, and there is no snapshot of that offset or a later one: "
        "the metadata before it is lost.",
        "Does not start.",
        "Stop the node and put a snapshot back: from a backup of this node, or the newest one of another node of the "
        "quorum, with its name. If segments are missing at the start of the log, put those back.",
        "Old segments of the metadata log are deleted only when a snapshot holds what was in them: it was deleted, "
        "renamed, or the first segments were.",
    ),
    "metadata-log.snapshot-ahead": FindingType(
        "warning",
        "The snapshot is of offset {offset} and epoch {epoch}, the log ends at offset {end} with epoch {last}.",
        "Takes the snapshot and deletes all of the metadata log: it starts again at offset {offset}.",
        "Copy the directory away before the start. Nothing is lost if the snapshot is whole, which verify checks, and "
        "of this cluster.",
        "The newest snapshot of the metadata log is ahead of its log: the node stopped right after it had "
        "fetched a snapshot from the leader, or the end of the log was lost. After a clean shutdown it is an "
        "error.",
    ),
    "quorum-state.old-epoch": FindingType(
        "warning",
        "The leader epoch is {epoch}, but the metadata log has batches of leader epoch {last}.",
        "Starts in the epoch of the log, without the vote that this node gave in it.",
        "Restore a copy of this node's own file, if there is one. Do not invent values: the node may vote twice.",
        "A KRaft node writes the epoch into quorum-state before it appends the first batch of that epoch: the file "
        "is an older copy, or it was changed.",
    ),
    "quorum-state.no-voter": FindingType(
        "warning",
        "The value of {key} is {node}, which is none of the voters: {voters}.",
        "Loads the value, and does not find that leader or vote among the voters.",
        "Restore a copy of this node's own file, if there is one. Do not invent values: the node may vote twice.",
        "The leader, and the node that a node votes for, is one of the voters, or -1: the file was changed. The voters "
        "are those in the same file (version 0), or in the LeaderChange record of that epoch (version 1).",
    ),
    "quorum-state.other-leader": FindingType(
        "warning",
        "The leader of epoch {epoch} is node {node}; the metadata log has node {leader} as the leader of that epoch.",
        "Starts as a follower of node {node}, and fetches from it until an election settles the leader.",
        "Restore a copy of this node's own file, if there is one. Do not invent values: the node may vote twice.",
        "An epoch has one leader, which begins it with a LeaderChange record: the file was changed, or is that of "
        "another node.",
    ),
    "quorum-state.no-vote": FindingType(
        "warning",
        "The file names no node that this one voted for, but a log directory of one: {directory_id}.",
        "Reads the directory id, and ignores it without a node id.",
        "Restore a copy of this node's own file, if there is one. Do not invent values: the node may vote twice.",
        "A node writes id and directory of its vote together, and no directory is sixteen zeros: a vote was lost, or "
        "the file was changed.",
    ),
    "quorum-state.other-directory": FindingType(
        "warning",
        "The vote is for directory {directory_id}; by the metadata log that voter has directory {known}.",
        "Grants a vote for the same epoch to that directory alone.",
        "Restore a copy of this node's own file, if there is one. Do not invent values: the node may vote twice.",
        "A voter is a node with one metadata log directory (KIP-853): the file was changed, or the voter lost its "
        "directory and joined again with another one.",
    ),
}
