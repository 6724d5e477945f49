"""Findings about a partition directory: segments and companions, by names and sizes."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType, Variant

__all__ = ["BROKER_DIRS", "GAP_LOST", "GAP_UNKNOWN", "LOST_CURE", "PARTITIONS"]


GAP_LOST: Final = "and the records before it show that no compaction removed them"
GAP_UNKNOWN: Final = "which is normal if the topic is or was a compacted one, and a loss if not"
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
        "Does not start: Kafka 0.8.0 does not build an offset index that is missing.",
        "With the broker stopped, rebuild it: kafkalog reindex.",
        "error",
    ),
    Variant(
        "missing_index",
        "empty",
        "Makes an empty offset index and trusts it: recovers nothing, and reads each such segment from its first byte.",
    ),
)
"""LogSegment and Log of each release (loadSegmentFiles): Kafka 0.8.0 throws, 0.9 to 0.10.0 trust an empty index."""

PARTITIONS: Final = {
    "segment.bad-name": FindingType(
        "error",
        "A file of a segment whose name has no offset before its first dot.",
        "Does not start: it cannot read a number from the name.",
        "Move it out of the partition directory. A .log may be kept under the name of its first offset, 20 "
        "digits; anything else is of no use there, as a broker rebuilds indexes and snapshots.",
        meaning=(
            "The name ends in .log, .index, .timeindex, .txnindex, .snapshot, .cleaned or .swap, and does not "
            "start with a number. One such file keeps the broker from starting."
        ),
    ),
    "segment.misnamed": FindingType(
        "error",
        "A log file of {size_bytes} bytes whose name is not its base offset in 20 digits.",
        "Takes offset {offset} from the name, makes an empty segment there, and never reads this file.",
        "Move it out of the partition directory, or give it the name of its first offset, 20 digits.",
        meaning=(
            "Brokers read the number in a name but open the name with 20 digits, so the file is passed over, and an "
            "empty segment may hide it."
        ),
    ),
    "segment.misnamed-empty": FindingType(
        "warning",
        "An empty log file whose name is not its base offset in 20 digits.",
        "Takes offset {offset} from the name and makes an empty segment there.",
        "Move it out of the partition directory.",
        meaning="The same as segment.misnamed, of a file without records.",
    ),
    "segment.duplicate": FindingType(
        "warning",
        "A second log file for base offset {offset}.",
        "Reads the one whose name has 20 digits and never this one.",
        "Compare the two and move this one out of the partition directory.",
        meaning="Two names mean the same base offset, one with 20 digits and one without.",
    ),
    "segment.misnamed-companion": FindingType(
        "info",
        "The number in its name is not written with 20 digits.",
        "Never reads it, and may delete it.",
        meaning="An index or snapshot whose number has not 20 digits: a copy that somebody made.",
        cure="Move it out of the partition directory.",
    ),
    "segment.oversize": FindingType(
        "error",
        "The log file has {size_bytes} bytes; positions in it end at 2147483647.",
        "Does not start.",
        meaning="A log file above 2 GiB - 1 byte; no broker makes one, two were joined or something was appended.",
        cure="Copy the partition from a healthy replica; kafkalog dump reads the file as it is.",
    ),
    "segment.index-missing": FindingType(
        "warning",
        "The segment has no offset index.",
        _RECOVERS,
        meaning=(
            "Without .index a broker reads the whole segment at its start and truncates it at the first bad "
            "batch, after a clean shutdown too; later segments are kept."
        ),
        cure="With the broker stopped, kafkalog reindex builds it; where the log is whole a broker may do so as well.",
        variants=_INDEX_MISSING,
    ),
    "segment.timeindex-missing": FindingType(
        "warning",
        "The segment has no time index while others of the partition have one.",
        "Makes an empty one: searches by time miss this segment, and retention uses the file's modification time.",
        meaning="Searches by time and retention by time go by the .timeindex; here it is gone.",
        cure=(
            "With the broker stopped, kafkalog reindex rebuilds it. A broker does so only where the .index is "
            "missing too, and then truncates the log at its first bad batch, after a clean shutdown too."
        ),
    ),
    "segment.index-orphan": FindingType(
        "warning",
        "An index at offset {offset} without its log file.",
        "Deletes it.",
        "Look for the log file: if it was lost, its records are.",
        meaning="An index is worthless without its log. It shows that there was a segment at this offset.",
    ),
    "segment.deleted": FindingType(
        "info",
        "The file waits for its deletion.",
        "Removes it at its next start.",
        meaning=(
            "A file that retention, compaction or a truncation gave up. It is whole and can be read until it is "
            "removed, about a minute later."
        ),
        cure="If it is needed, copy it away before a broker starts.",
    ),
    "segment.swap": FindingType(
        "info",
        "A finished replacement, from compaction or a split, that did not replace the old segments yet.",
        "Puts it in its place at its next start and deletes what it replaces.",
        meaning="Compaction or a split was finished, but the broker stopped while it exchanged the files.",
        cure="Verify it before a broker starts: if no error is found in the file, nothing needs to be done.",
    ),
    "segment.swap-worse": FindingType(
        "error",
        "The replacement is worse than what it replaces: {why}.",
        "Does not compare them: puts it in its place at its next start and deletes what it replaces, or does not "
        "start because of it.",
        "Do not start the broker. Copy the partition directory, then move all .swap files of this offset out of it: "
        "once a broker has started, the originals are deleted.",
        meaning=(
            "A finished replacement (.swap) that is empty, damaged, ends early or reaches too far, while the segments "
            "that it was made from are still there. Compaction empties a segment too: only a warning where the log is "
            "or may be compacted."
        ),
    ),
    "segment.swap-alone": FindingType(
        "warning",
        "A finished replacement, from compaction or a split, at an offset where no segment is.",
        "Puts it in its place at its next start.",
        meaning="The file that it replaces is already gone, which is normal in the middle of the exchange.",
        cure="Verify it before a broker starts: if no error is found in the file, nothing needs to be done.",
    ),
    "segment.swap-index-missing": FindingType(
        "warning",
        "A finished replacement that has no offset index.",
        "Puts the log in its place with an index of zeros.",
        meaning="The .swap of the log came through without that of its index.",
        cure=("After the next clean shutdown kafkalog reindex rebuilds the indexes of that segment."),
    ),
    "segment.cleaned": FindingType(
        "info",
        "An unfinished output of compaction or a split.",
        "Removes it at its next start.",
        meaning="The broker stopped while it wrote the file. The originals are all still there.",
        cure="Nothing needs to be done.",
    ),
    "segment.gap": FindingType(
        "warning",
        "Offsets {offset} to {last} are missing: {previous}, the segment before this one, holds none of them that can "
        "be read.",
        "Loads the log silently; consumers skip these offsets.",
        "If the topic is or was compacted, nothing needs to be done. Else look for the missing records on "
        "other replicas, in backups, and in directories that were moved aside.",
        meaning=(
            "Offsets are missing between two segments. Retention deletes from the start only, so in the middle "
            "a file was lost or a segment truncated, unless the log was compacted, here or on the leader that "
            "it was copied from. An error where the log directory has not compacted it, and there are records "
            "before the gap that compaction would have removed."
        ),
    ),
    "segment.gap-compacted": FindingType(
        "info",
        "No offsets {offset} to {last} between {previous} and this segment, as is normal on a log that is compacted.",
        meaning="Compaction removes records, and whole segments with them, so offsets are missing on purpose.",
        broker_action="Passes over them.",
        cure="Nothing needs to be done.",
    ),
    "batch.gap": FindingType(
        "error",
        "Offsets {offset} to {last} are missing before the batch at byte {position}, {judged}.",
        "Loads the log silently; consumers skip these offsets.",
        "If the topic is or was a compacted one, nothing needs to be done. Else copy the partition from a healthy "
        "replica, or look there for the missing records.",
        meaning=(
            "Offsets are missing between two batches of a segment. An error where it is a loss: the log "
            "directory has not compacted the log, and before the gap there is a record without a key, or a "
            "second one of the same key, which compaction would have removed. Else a warning: a replica that "
            "was copied from a leader looks like that if the topic is compacted, and the settings of a topic "
            "are not in its directory."
        ),
    ),
    "batch.gaps": FindingType(
        "warning",
        "Offsets are missing in {count} places, the first time {offset} to {last}, as in a log that was compacted.",
        "Loads the log; consumers skip these offsets.",
        "Nothing needs to be done if the topic is a compacted one. If it is not, compare the partition with a replica.",
        meaning=(
            "Offsets are missing between batches in many places, which is what compaction leaves. A warning where the "
            "log directory has not compacted the log itself: then it is a copy of a leader's that was, or much is lost."
        ),
    ),
    "segment.overlap": FindingType(
        "error",
        "Offsets {offset} to {last} are in this segment's range and in {previous}, the segment before it.",
        "Loads both. Consumers that come from before get these offsets from {previous} and skip those in this "
        "file; those that start within the range get the ones in this file.",
        "Dump both files by themselves, compare what they hold, and move one out of the partition directory.",
        meaning=(
            "Two segments hold the same offsets, which no healthy broker leaves: a file was put back, or two copies "
            "were mixed."
        ),
    ),
    "segment.log-unreadable": FindingType(
        "error",
        "It has the name of a segment's log and is not a file that can be read: {problem}.",
        "Skips it and loads the other segments; if it has to create or open this one itself, it takes the "
        "whole log directory offline.",
        "Put the log file in its place, or move this out of the partition directory.",
        meaning="A directory, a device or a broken link has the name of a segment's log.",
    ),
    "segment.gap-v07": FindingType(
        "error",
        "The file ends at byte address {end}, the next one starts at {offset}: {size_bytes} bytes are missing.",
        "Kafka 0.7 does not start.",
        meaning="Kafka 0.7 names files by byte addresses; each must begin where the one before ends.",
        cure="Put the missing file back, or move all files before the hole away.",
    ),
    "segment.overlap-v07": FindingType(
        "error",
        "The file ends at byte address {end}, the next one starts at {offset}: they overlap by {size_bytes} bytes.",
        "Kafka 0.7 does not start.",
        meaning="Kafka 0.7 names files by byte addresses; each must begin where the one before ends.",
        cure="Cut the first of the two, on a copy, to the length that its neighbour's name gives.",
    ),
    "snapshot.bad-name": FindingType(
        "error",
        "A snapshot of the metadata log whose name has no end offset and epoch.",
        "Does not start: it cannot read the numbers from the name.",
        "Move it out of the directory.",
        meaning="The name of a metadata snapshot is its end offset, 20 digits, a dash, and its epoch, 10 digits.",
    ),
    "partition.empty": FindingType(
        "info",
        "The partition has no segment.",
        "Makes an empty one at the checkpointed log start offset.",
        meaning="A directory of a partition without a log file.",
        cure="Nothing needs to be done if it is new; else look for its files before a broker starts on it.",
    ),
    "partition.changing": FindingType(
        "warning",
        "Its files changed while they were checked: findings about files that changed are not errors for that "
        "reason ({count}).",
        "Is the one that changes them.",
        "Run it again when the broker is stopped, or on a copy.",
        meaning=(
            "A broker was running on the directory: files that belong together were read at different times. "
            "Findings about files that have not changed meanwhile hold, the others have severity warning."
        ),
    ),
    "partition.mixed-formats": FindingType(
        "warning",
        "A file of Kafka 0.7 next to segments of a later release.",
        "Ignores it.",
        "Read it by itself.",
        meaning="A file of 0.7 ends in .kafka; no later release reads it, and none writes in the same directory.",
    ),
    "dir.journal": FindingType(
        "info",
        "The undo journal of an earlier repair.",
        "Ignores it, and deletes it with the partition.",
        "List it with kafkalog undo --list. When all is well, free it with kafkalog undo --prune --apply.",
        "A directory that holds what it takes to undo a repair; no broker looks into it.",
    ),
    "dir.nested": FindingType(
        "info",
        "A directory inside a partition directory.",
        "Ignores it.",
        meaning="A directory that is not a broker's, in a partition.",
        cure="Nothing needs to be done.",
    ),
}


_OTHER_BROKERS: Final = (
    "Verify the directories of each broker by themselves. If they are of one, put back the right meta.properties."
)

BROKER_DIRS: Final = {
    "dir.other-cluster": FindingType(
        "error",
        "Its cluster.id is {value}, that of {other} is {other_value}.",
        "Does not start with both.",
        _OTHER_BROKERS,
        "All log directories of a broker are of one cluster.",
    ),
    "dir.other-node": FindingType(
        "info",
        "Its {key} is {value}, but that of {other} is {other_value}: the directories belong to two brokers, or one "
        "of the two ids is wrong. The disks do not show which. Each is checked as a separate broker.",
        "Starts with its own directories, if the directories belong to two brokers. A broker that has both in "
        "log.dirs does not start.",
        "Nothing needs to be done for two brokers. If both directories are in log.dirs of one broker, put the id of "
        "that broker into both meta.properties.",
        "Log directories of several brokers were named together, or a broker's meta.properties has a wrong id.",
    ),
    "dir.same-directory-id": FindingType(
        "error",
        "Its directory.id, {value}, is that of {other} too.",
        "Does not start with both.",
        "If one is a copy of the other, keep one of them. If only meta.properties was copied, delete the line "
        "directory.id "
        "in the copy: the broker makes a new one.",
        "Each log directory has an id of its own.",
    ),
    "dir.without-directory-id": FindingType(
        "warning",
        "It has no directory.id, and {other} has one.",
        "Makes one at its next start; its partitions are offline until they are assigned again.",
        "Put the line back: the cluster knows where partitions are by this id.",
        "A broker of 3.7 or later gives all its log directories an id at the same start.",
    ),
    "dir.unclean-beside-clean": FindingType(
        "warning",
        "It has no clean shutdown file, but {other} has one.",
        "Recovers this directory alone.",
        "Look into the broker's log why it could not be closed: a disk that failed, or the file was deleted.",
        "A broker that is stopped marks all its log directories, but those that had failed.",
    ),
    "dir.in-two-log-dirs": FindingType(
        "error",
        "The partition is in {other} too.",
        "Does not start: a partition may be in one log directory alone.",
        "Compare the two, and move one out of the log directory.",
        "One broker has a partition twice, e.g. after it was copied from disk to disk by hand.",
    ),
    "dir.interrupted": FindingType(
        "error",
        "An earlier run stopped in the middle: {what} ({run}) has changed some of its files and not the "
        "others. Finish it or undo it before anything else: {ways}.",
        "Starts on the files as they are, half of them changed, and may delete or truncate what the run was to keep.",
        "Run the next command before the broker starts, and verify again: other findings here may only show that the "
        "run did not end.",
        "A journal shows that a repair was interrupted, by a kill, a full disk or a loss of power. Every file "
        "is either as before or as afterwards, and the journal holds what is needed to finish the repair or to "
        "undo it.",
    ),
    "dir.moving": FindingType(
        "info",
        "A copy of the partition in {other} that is being filled here.",
        "Goes on with it, and puts it in the place of the other.",
        "Nothing has to be done.",
        "A partition moves from one log directory of the broker to another.",
    ),
    "dir.second-metadata-log": FindingType(
        "error",
        "The metadata log is in {other} too.",
        "Does not start: it may be in the one metadata log directory alone.",
        "Move the one that is not in metadata.log.dir (else the first of log.dirs) out of its log directory.",
        "A KRaft broker has one metadata log.",
    ),
    "dir.no-permission": FindingType(
        "error",
        "Its permissions ({mode}) do not let its owner {refused}.",
        "Takes the whole log directory offline.",
        "Give its owner the permissions to read, write and enter it: chmod u+rwx.",
        "A broker makes, renames and deletes files in its directories.",
    ),
    "dir.foreign-owner": FindingType(
        "error",
        "It belongs to user {uid}, and most of what is around it to user {broker_uid}, who may not {refused}.",
        "Runs as one of the two users: takes the whole log directory offline.",
        "Give it, and all in it, the owner of the other directories: chown -R.",
        "A directory that somebody else than the broker's user has made, e.g. root with a copy or a restore.",
    ),
    "file.not-writable": FindingType(
        "error",
        "Its permissions ({mode}) do not let its owner write it.",
        "Has to open it for writing and cannot: takes the whole log directory offline.",
        "Give its owner the permission to write it: chmod u+w.",
        "A broker opens logs and indexes to write, closed ones too. The superuser may all the same.",
    ),
    "file.no-access": FindingType(
        "error",
        "It belongs to user {uid}, with permissions {mode}: user {broker_uid}, who owns the other files in the "
        "directory, may not {refused} it.",
        "Runs as one of the two users and may be unable to open it: takes the whole log directory offline.",
        "Give it the owner of the other files in the directory.",
        "A file that somebody else than the broker's user has made, e.g. a tool that was run as root.",
    ),
    "dir.read-only-mount": FindingType(
        "info",
        "The file system is mounted read-only.",
        "Does not start on it: takes the whole log directory offline.",
        "If it was not mounted this way on purpose, check the system's log: Linux does so after errors of the disk.",
        "Fine for looking at; a broker has to write.",
    ),
    "partition.at-risk": FindingType(
        "info",
        "A broker will recover {amount} in {segments}, from offset {offset} on (recovery point: {recovery_point}).",
        "Reads all of it at its next start and truncates it at the first bad batch, with every later segment.",
        "Nothing has to be done if nothing in it is damaged.",
        "After an unclean shutdown a broker trusts only the segments below the one that holds the recovery point.",
    ),
    "segment.redpanda": FindingType(
        "error",
        "A file of Redpanda, whose log is another format than Kafka's.",
        "Does not start where it cannot read an offset from the name; never reads the file.",
        "Move it out of the partition directory.",
        "Redpanda names its files offset-term-version; no release of Kafka reads them.",
    ),
    "partition.no-companions": FindingType(
        "warning",
        "All of its {count} segments are without an offset index.",
        _RECOVERS,
        "Copy the indexes too. Else rebuild them with the broker stopped: kafkalog reindex.",
        "Log files that were copied without their indexes.",
        _INDEX_MISSING,
    ),
}
