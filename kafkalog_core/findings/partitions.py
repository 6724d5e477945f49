"""Findings about a partition directory: segments and companions, by names and sizes."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import (
    DUMP_BATCHES,
    MOVE_DIRECTORY,
    MOVE_FILE,
    RECOVER,
    RECOVER_WITH_OTHERS,
    UNLESS_RECOVERED,
    FindingType,
    Variant,
)

__all__ = ["AFTER_DAMAGE", "BROKER_DIRS", "GAP_LOST", "GAP_UNKNOWN", "LOST_CURE", "PARTITIONS"]


GAP_LOST: Final = "and the records before it show that no compaction removed them"
GAP_UNKNOWN: Final = "which is normal if the topic is or was compacted, and a loss if not"
AFTER_DAMAGE: Final = "Loads the log silently. What consumers get of these offsets depends on the damage before them."
"""What a broker does with a gap that damage leaves in what can be read."""
LOST_CURE: Final = (
    "Look for the missing records on other replicas, in backups, and in directories that were moved aside."
)
"""Of offsets of which it is known that they were lost."""

_RECOVERS: Final = (
    "Recovers each segment without an offset index: rebuilds its indexes, and truncates its log at the first bad batch."
)

_INDEX_MISSING: Final = (
    Variant(
        "missing_index",
        "fatal",
        "Does not start: Kafka 0.8.0 does not rebuild a missing offset index.",
        "With the broker stopped, rebuild it: kafkalog recover.",
        "error",
    ),
    Variant(
        "missing_index",
        "empty",
        "Creates an empty offset index for each segment that it does not recover, and trusts it: reads such a segment "
        "from its first byte.",
    ),
)
"""LogSegment and Log of each release (loadSegmentFiles): Kafka 0.8.0 throws, 0.9 to 0.10.0 trust an empty index."""

PARTITIONS: Final = {
    "record.not-decoded": FindingType(
        "warning",
        "Records do not decode because {what}{why}: {records}, the first at offset {offset}.",
        "A group coordinator of 4.x skips records of an unknown type, and loads nothing of the partition if the value "
        "of a known type does not decode. A transaction coordinator of 4.x skips records of an unknown type.",
        cure="Their bytes are in the columns key and value. If the file holds records of another topic, name it: "
        "kafkalog dump --decode TOPIC. If a later release of Kafka wrote them, update kafkalog. Else "
        "compare the log with another replica.",
        meaning="Records of one of Kafka's own topics have an unknown type or version, or bytes that do not follow the "
        "schema of their version. There is one finding for each kind of problem in a file.",
        next_step="kafkalog dump {file} --records --decode none",
    ),
    "segment.bad-name": FindingType(
        "error",
        "The name of a segment's file has no offset before its first dot.",
        "Does not start: it cannot read a number from the name.",
        "Move the file out of the partition directory. You may keep a .log if you rename it to its first offset in 20 "
        "digits. Nothing else is needed, because a broker rebuilds indexes and snapshots.",
        "The name ends in .log, .index, .timeindex, .txnindex, .snapshot, .cleaned or .swap, and does not start with "
        "a number. One such file prevents the broker from starting.",
        next_step=MOVE_FILE,
    ),
    "segment.misnamed": FindingType(
        "error",
        "The name of a log file ({size_bytes} bytes) is not its base offset in 20 digits.",
        "Reads offset {offset} from the name, creates an empty segment there, and never reads this file.",
        "Move the file out of the partition directory, or rename it to its first offset in 20 digits.",
        "Brokers read the number in the name but open the name with 20 digits. So they skip this file, and an empty "
        "segment may hide it.",
        next_step=MOVE_FILE,
    ),
    "segment.misnamed-empty": FindingType(
        "warning",
        "The name of an empty log file is not its base offset in 20 digits.",
        "Reads offset {offset} from the name and creates an empty segment there.",
        "Move it out of the partition directory.",
        "The same as segment.misnamed, for a file without records.",
        next_step=MOVE_FILE,
    ),
    "segment.duplicate": FindingType(
        "warning",
        "This is a second log file for base offset {offset}.",
        "Reads the file whose name has 20 digits, and never this one.",
        "Compare the two files and move this one out of the partition directory.",
        "Two file names have the same base offset, one with 20 digits and one without.",
    ),
    "segment.misnamed-companion": FindingType(
        "info",
        "The number in the file name does not have 20 digits.",
        "Never reads the file, and may delete it.",
        "Move it out of the partition directory.",
        "The number of an index or snapshot does not have 20 digits: somebody made a copy.",
    ),
    "segment.oversize": FindingType(
        "error",
        "The log file has {size_bytes} bytes, but positions in a log end at 2147483647.",
        "Does not start.",
        "Copy the partition from a healthy replica. kafkalog dump can read the file.",
        "A log file is larger than 2 GiB - 1 byte. No broker creates one: two files were joined, or something was "
        "appended.",
    ),
    "segment.index-missing": FindingType(
        "warning",
        "The segment has no offset index.",
        _RECOVERS,
        "With the broker stopped, kafkalog recover rebuilds it. If the log is not damaged, a broker can rebuild it "
        "too.",
        "Without .index a broker reads the whole segment at its start and truncates it at the first bad batch, even "
        "after a clean shutdown. It keeps later segments.",
        variants=_INDEX_MISSING,
        next_step=RECOVER,
    ),
    "segment.timeindex-missing": FindingType(
        "warning",
        "The segment has no time index, but other segments of the partition have one.",
        f"Creates an empty one{UNLESS_RECOVERED}. With an empty one searches by time miss this segment, and retention "
        "uses the modification time of the file.",
        "With the broker stopped, kafkalog recover rebuilds it. After a clean shutdown a broker rebuilds it only if "
        "the .index is missing too, and then truncates the log at its first bad batch.",
        "Searches by time and retention by time use the .timeindex, which is missing here.",
        next_step=RECOVER,
    ),
    "segment.index-orphan": FindingType(
        "warning",
        "There is an index at offset {offset}, but no log file.",
        "Deletes it.",
        "Look for the log file: if it was lost, its records were lost.",
        "An index is useless without its log. It shows that a segment existed at this offset.",
    ),
    "segment.deleted": FindingType(
        "info",
        "The file waits for deletion.",
        "Deletes it at its next start.",
        "If you need the file, copy it away before a broker starts.",
        "Retention, compaction or a truncation no longer needs the file. It is complete and can be read until a "
        "broker deletes it, about a minute later.",
    ),
    "segment.swap": FindingType(
        "info",
        "Compaction or a split finished this replacement, but it has not replaced the old segments yet.",
        "Completes the swap at its next start, and deletes the segments that the file replaces; if the partition has a "
        ".cleaned file of this offset or a lower one, it deletes this file.",
        "Verify it before a broker starts: if no error is found in the file, nothing needs to be done.",
        "Compaction or a split finished, but the broker stopped while it swapped the files.",
    ),
    "segment.swap-worse": FindingType(
        "error",
        "The replacement is worse than what it replaces: {why}.",
        "Does not compare them: it completes the swap at its next start and deletes the old segments, or does not "
        "start because of the replacement.",
        "Do not start the broker: once it has started, the originals are deleted. kafkalog recover deletes the "
        "replacement instead. Or move all .swap files of this offset out of the directory.",
        "A finished replacement (.swap) is empty, damaged, ends early or reaches too far, while its source segments "
        "still exist. Compaction can empty a segment too, so this is only a warning if the log is or may be compacted.",
        next_step=MOVE_FILE,
    ),
    "segment.swap-alone": FindingType(
        "warning",
        "Compaction or a split finished this replacement, and no segment is at its offset.",
        "Completes the swap at its next start; if the partition has a .cleaned file of this offset or a lower one, it "
        "deletes this file.",
        "Verify it before a broker starts: if no error is found in the file, and no such .cleaned file is there, "
        "nothing needs to be done. Else run kafkalog recover: it completes the swap if only this file has the records.",
        "The file that it replaces is already deleted, which is normal in the middle of the swap.",
    ),
    "segment.swap-index-missing": FindingType(
        "warning",
        "A finished replacement has no offset index.",
        "Completes the swap of the log, with an index of zeros.",
        "Run kafkalog recover, which rebuilds the indexes of that segment.",
        "The .swap of the log exists, but the .swap of its index does not.",
    ),
    "segment.swap-txnindex-missing": FindingType(
        "warning",
        "A finished replacement has no transaction index, but its log has the marker of an aborted transaction, at "
        "offset {offset}.",
        "Completes the swap without the index: read_committed consumers get the records of that transaction that "
        "compaction has left. Releases before 3.0 rebuild the index, as does each recovery of the segment.",
        "With the broker stopped, run kafkalog recover, which puts the replacement in place and makes the index.",
        "The .swap of the log exists, but the .swap of its transaction index does not.",
    ),
    "segment.cleaned": FindingType(
        "info",
        "This is an unfinished output of compaction or a split.",
        "Deletes it at its next start.",
        "Nothing needs to be done.",
        "The broker stopped while it wrote the file. All originals still exist.",
    ),
    "segment.gap": FindingType(
        "warning",
        "Offsets {offset} to {last} are missing: {previous}, the segment before this one, has none of them that can "
        "be read.",
        "Loads the log silently; consumers skip these offsets.",
        "If the topic is or was compacted, nothing needs to be done. Else look for the missing records on other "
        "replicas, in backups, and in directories that were moved aside.",
        "Offsets are missing between two segments. Retention deletes only from the start of the log, so in the middle "
        "a file was lost or a segment was truncated, unless the log was compacted here or on the leader that it was "
        "copied from. The severity is error if the log directory has not compacted the log and compaction would have "
        "removed records before the gap.",
    ),
    "segment.gap-compacted": FindingType(
        "info",
        "There are no offsets {offset} to {last} between {previous} and this segment. This is normal in a compacted "
        "log.",
        "Skips them.",
        "Nothing needs to be done.",
        "Compaction removes records, and whole segments with them, so offsets are missing.",
    ),
    "batch.gap": FindingType(
        "error",
        "Offsets {offset} to {last} are missing before the batch at byte {position}, {judged}.",
        "Loads the log silently; consumers skip these offsets.",
        "If the topic is or was compacted, nothing needs to be done. Else copy the partition from a healthy replica, "
        "or look there for the missing records.",
        "Offsets are missing between two batches of a segment. The severity is error if it is a loss: the log "
        "directory has not compacted the log, and before the gap there is a record without a key, or a second record "
        "with the same key, which compaction would have removed. Else it is warning: a replica of a compacted topic, "
        "copied from a leader, looks the same, and the topic's settings are not in its directory.",
        next_step=DUMP_BATCHES,
    ),
    "batch.gaps": FindingType(
        "warning",
        "Offsets are missing in {count} places, the first time {offset} to {last}, as in a compacted log.",
        "Loads the log; consumers skip these offsets.",
        "If the topic is compacted, nothing needs to be done. Else compare the partition with a replica.",
        "Offsets are missing between batches in many places, as compaction leaves them. The severity is warning if "
        "the log directory has not compacted the log itself: either the log is a copy of a compacted one, or many "
        "records were lost.",
    ),
    "segment.overlap": FindingType(
        "error",
        "The segment begins at offset {offset}, but {previous}, a segment before it, goes on to offset {last}.",
        "Loads both. A consumer that reads {previous} to its end gets nothing up to offset {last} from this file. A "
        "consumer that starts at offset {offset} or later gets nothing from {previous}.",
        "Dump each of the two files, and compare their records. Move one file out of the partition directory, or "
        "rename a file whose first offset is not that of its name.",
        "The ranges of two segments overlap, which no healthy broker leaves: a file was restored or renamed, or two "
        "copies were mixed.",
        next_step=DUMP_BATCHES,
    ),
    "segment.log-unreadable": FindingType(
        "error",
        "The entry has the name of a segment's log, but is not a file that can be read: {problem}.",
        "Skips it and loads the other segments. If it has to create or open this segment, it takes the whole log "
        "directory offline.",
        "Restore the log file, or move this entry out of the partition directory.",
        "A directory, a device or a broken link has the name of a segment's log.",
    ),
    "segment.gap-v07": FindingType(
        "error",
        "The file ends at byte address {end}, but the next one starts at {offset}: {size_bytes} bytes are missing.",
        "Kafka 0.7 does not start.",
        "Restore the missing file, or move all files before the gap away.",
        "Kafka 0.7 names files by byte addresses: each file starts where the file before it ends.",
    ),
    "segment.overlap-v07": FindingType(
        "error",
        "The file ends at byte address {end}, but the next one starts at {offset}: they overlap by {size_bytes} bytes.",
        "Kafka 0.7 does not start.",
        "Copy the directory. In the copy, truncate the first of the two files to the length that the name of the "
        "second one gives.",
        "Kafka 0.7 names files by byte addresses: each file starts where the file before it ends.",
        next_step=DUMP_BATCHES,
    ),
    "snapshot.bad-name": FindingType(
        "error",
        "The name of a metadata log snapshot has no end offset and epoch.",
        "Does not start: it cannot read the numbers from the name.",
        "Move it out of the directory.",
        "The name of a metadata snapshot is its end offset (20 digits), a dash, and its epoch (10 digits).",
        next_step=MOVE_FILE,
    ),
    "partition.empty": FindingType(
        "info",
        "The partition has no segment.",
        "Creates an empty one at the checkpointed log start offset.",
        "If the partition is new, nothing needs to be done. Else look for its files before a broker starts on it.",
        "The directory of a partition has no log file.",
    ),
    "partition.committed-past-end": FindingType(
        "warning",
        "The log ends at offset {offset}, but group {group} has committed offset {committed} (a lag of {lag}){more}.",
        "Answers a fetch at that offset with OFFSET_OUT_OF_RANGE. A Java consumer whose commit has a leader epoch then "
        "continues at the end of the log, and kafka-python follows auto.offset.reset: earliest reads the partition "
        "again from its start, latest skips what was written in the meantime.",
        LOST_CURE + " Do so before producers write to the partition: a group silently skips new records below its "
        "committed offset.",
        "The log lost its end after a group had committed: a crash, an unclean election, a truncation or an older "
        "copy. Or this disk is of a follower, and its copy of __consumer_offsets is newer than that of the partition. "
        "Or a client committed an offset that the log never had: a broker accepts any offset.",
        next_step="kafkalog dump {file} --stats",
    ),
    "partition.changing": FindingType(
        "warning",
        "The files changed while they were checked, so findings about changed files are not errors ({count}).",
        "Changes these files.",
        "Stop the broker and run the command again, or run it on a copy.",
        "A broker was running on the directory, so files that belong together were read at different times. Findings "
        "about files that have not changed are valid; the others have severity warning.",
    ),
    "partition.mixed-formats": FindingType(
        "warning",
        "A file of Kafka 0.7 is next to segments of a later release.",
        "Ignores it.",
        "Read the file by itself.",
        "A file of 0.7 ends in .kafka. No later release reads it or writes to the same directory.",
    ),
    "dir.journal": FindingType(
        "info",
        "The undo journal of an earlier repair.",
        "Ignores it, and deletes it with the partition.",
        "List it with kafkalog undo --list. When all is well, free it with kafkalog undo --prune --apply.",
        "The directory holds what is needed to undo a repair. No broker reads it.",
        next_step=MOVE_DIRECTORY,
    ),
    "dir.nested": FindingType(
        "info",
        "There is a directory inside a partition directory.",
        "Ignores it.",
        "Nothing needs to be done.",
        "No broker creates a directory in a partition directory.",
    ),
}


_OTHER_BROKERS: Final = (
    "Verify the directories of each broker separately. If they belong to one broker, restore the right meta.properties."
)

BROKER_DIRS: Final = {
    "dir.other-cluster": FindingType(
        "error",
        "The cluster.id is {value}, but {other} has {other_value}.",
        "Does not start with both.",
        _OTHER_BROKERS,
        "All log directories of a broker belong to one cluster.",
        next_step="sed -i.before s/^cluster.id=.*/cluster.id=CLUSTER_ID/ {file}",
    ),
    "dir.other-node": FindingType(
        "info",
        "The {key} is {value}, but {other} has {other_value}: the directories belong to two brokers, or one of the "
        "two ids is wrong. The disks do not show which. Each directory is checked as a separate broker.",
        "Starts with its own directories, if the directories belong to two brokers. A broker that has both in "
        "log.dirs does not start.",
        "If they belong to two brokers, nothing needs to be done. If both directories are in log.dirs of one broker, "
        "put the id of that broker into both meta.properties.",
        "Log directories of several brokers were given together, or the meta.properties of a broker has a wrong id.",
    ),
    "dir.same-directory-id": FindingType(
        "error",
        "The directory.id, {value}, is also the directory.id of {other}.",
        "Does not start with both.",
        "If one is a copy of the other, keep one of them. If only meta.properties was copied, delete the line "
        "directory.id in the copy: the broker creates a new id.",
        "Each log directory has its own id.",
        next_step="sed -i.before /^directory.id=/d {file}",
    ),
    "dir.without-directory-id": FindingType(
        "warning",
        "The log directory has no directory.id, but {other} has one.",
        "Creates an id at its next start. Its partitions are offline until they are assigned again.",
        "Restore the line: the cluster finds the directory of each partition by this id.",
        "A broker of 3.7 or later gives an id to all its log directories at the same start.",
    ),
    "dir.unclean-beside-clean": FindingType(
        "warning",
        "The log directory has no clean shutdown file, but {other} has one.",
        "Recovers only this directory.",
        "Read the broker's log to find out why the directory was not closed: the disk failed, or the file was deleted.",
        "A broker that stops cleanly marks all its log directories, except failed ones.",
    ),
    "dir.in-two-log-dirs": FindingType(
        "error",
        "The partition is also in {other}.",
        "Does not start: a partition may be in only one log directory.",
        "Run kafkalog recover on both log directories: it compares the copies, and names the one to move away.",
        "A broker has a partition twice, for example because somebody copied it from disk to disk.",
        next_step=RECOVER_WITH_OTHERS,
    ),
    "dir.interrupted": FindingType(
        "error",
        "An earlier run did not finish: {what} ({run}) has changed some of its files and not the others. Finish it or "
        "undo it before anything else: {ways}.",
        "Starts on the files as they are, some of them changed, and may delete or truncate what the run was meant to "
        "keep.",
        "Run the next command before the broker starts, and verify again: other findings here may only be effects of "
        "the unfinished run.",
        "A journal shows that a repair was interrupted by a kill, a full disk or a power loss. Every file is either "
        "old or new, and the journal holds what is needed to finish or undo the repair.",
        next_step="kafkalog apply --resume {file}",
    ),
    "dir.moving": FindingType(
        "info",
        "This is an unfinished copy of the partition in {other}.",
        "Continues to fill it, and then replaces the other one with it.",
        "Nothing needs to be done.",
        "The broker is moving a partition from one of its log directories to another.",
    ),
    "dir.second-metadata-log": FindingType(
        "error",
        "The metadata log is also in {other}.",
        "Does not start: the metadata log may be only in the metadata log directory.",
        "Move the copy that is not in metadata.log.dir (default: the first of log.dirs) out of its log directory.",
        "A KRaft broker has one metadata log.",
        next_step=MOVE_DIRECTORY,
    ),
    "dir.no-permission": FindingType(
        "error",
        "The directory permissions ({mode}) do not let its owner {refused}.",
        "Takes the whole log directory offline.",
        "Give the owner permission to read, write and enter the directory: chmod u+rwx.",
        "A broker creates, renames and deletes files in its directories.",
        next_step="chmod u+rwx -- {file}",
    ),
    "dir.foreign-owner": FindingType(
        "error",
        "The directory belongs to user {uid}, but most of its neighbours to user {broker_uid}, who may not {refused}.",
        "Runs as one of the two users: takes the whole log directory offline.",
        "Give the directory, and all files in it, the owner of the other directories: chown -R.",
        "Another user than the broker's created the directory, for example root with a copy or a restore.",
        next_step="chown -R --reference={parent} -- {file}",
    ),
    "file.not-writable": FindingType(
        "error",
        "The file permissions ({mode}) do not let its owner write to it.",
        "Cannot open the file for writing, and takes the whole log directory offline.",
        "Give the owner permission to write to the file: chmod u+w.",
        "A broker opens logs and indexes for writing, even closed ones. The superuser may do so in any case.",
        next_step="chmod u+w -- {file}",
    ),
    "file.no-access": FindingType(
        "error",
        "The file belongs to user {uid}, with permissions {mode}. User {broker_uid}, who owns the other files in the "
        "directory, may not {refused} it.",
        "Runs as one of the two users and may be unable to open the file: it then takes the whole log directory "
        "offline.",
        "Give the file the owner of the other files in the directory.",
        "Another user than the broker's created the file, for example a tool that root ran.",
        next_step="chown --reference={parent} -- {file}",
    ),
    "dir.read-only-mount": FindingType(
        "info",
        "The file system is mounted read-only.",
        "Does not start on it: it takes the whole log directory offline.",
        "If nobody mounted it read-only on purpose, check the system log: Linux remounts a file system read-only "
        "after disk errors.",
        "This is enough to read the disk, but a broker has to write.",
    ),
    "partition.at-risk": FindingType(
        "info",
        "A broker will recover {amount} in {segments}, from offset {offset} on (recovery point: {recovery_point}).",
        "Reads these segments at its next start, truncates the log at the first bad batch, and deletes every later "
        "segment.",
        "If nothing in these segments is damaged, nothing needs to be done.",
        "After an unclean shutdown a broker trusts only the segments below the segment that holds the recovery point.",
    ),
    "segment.redpanda": FindingType(
        "error",
        "The file is from Redpanda, whose log has another format than Kafka's.",
        "Does not start if it cannot read an offset from the name. It never reads the file.",
        "Move it out of the partition directory.",
        "Redpanda names its files offset-term-version. No release of Kafka reads them.",
        next_step=MOVE_FILE,
    ),
    "partition.no-companions": FindingType(
        "warning",
        "All of its {count} segments lack an offset index.",
        _RECOVERS,
        "Copy the indexes too. Else stop the broker and rebuild them: kafkalog reindex.",
        "The log files were copied without their indexes.",
        variants=_INDEX_MISSING,
    ),
}
