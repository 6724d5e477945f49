"""Findings about files: permissions, links, changes while they are read; small files and their damage."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.broker_actions import BEFORE_OFFLINE
from kafkalog_core.findings.kinds import (
    DENIED,
    MOVE_DIRECTORY,
    MOVE_FILE,
    RECOVER,
    RECOVER_WITH_OTHERS,
    FindingType,
)

__all__ = ["FILES", "SMALL_FILES"]


FILES: Final = {
    "file.vanished": FindingType(
        "info",
        "The file was deleted while its directory was listed.",
        "Deletes files in this way when it deletes segments.",
        "Run it again on a stopped broker, or on a copy.",
        "The file was in the listing of the directory, but no longer there when it was opened: a broker is running, "
        "or somebody deletes files.",
    ),
    "file.not-readable": FindingType(
        "error",
        "It was not read: {reason}.",
        "Takes the whole log directory offline.",
        "Repair the permissions of the file or of its directory. If the disk fails, copy it (ddrescue) first.",
        "The operating system refused to read it, the disk failed, or the object was deleted while it was read.",
    ),
    DENIED: FindingType(
        "warning",
        "It was not read: {reason}.",
        "Reads the file, if the broker runs as a user with the right to read it.",
        "Run the same command again as the owner of the file (sudo -u), or as root.",
        "This user has no right to read the file, to list the directory, or to enter a directory on the way to it. No "
        "other finding is derived from a file that was not read. The result does not cover this file, so the exit "
        "status is 3, whatever else was found.",
        next_step="sudo kafkalog verify {file}",
    ),
    "high-watermark.unknown": FindingType(
        "warning",
        "None of its records are shown: no broker has checkpointed a high watermark for it.",
        "Uses 0 as the high watermark until the replicas agree on another.",
        "Use --committed instead of --committed=high-watermark to show what is committed up to the log end offset.",
        "Without a high watermark it is unknown which records all replicas have, so --committed shows none.",
    ),
    "txn.open": FindingType(
        "warning",
        "Producer {producer} has had a transaction open since offset {offset}.",
        "Waits for its marker: read_committed consumers read nothing after it, and the log cleaner does not clean "
        "there.",
        "Run kafkalog transactions on the log directories of all brokers: it shows who ends the transaction and when "
        "or, if it hangs, the command that aborts it.",
        "A transaction that is neither committed nor aborted in this log. It may still be running, or it hangs.",
    ),
    "txn.undecided": FindingType(
        "error",
        "It is unknown whether the transaction of producer {producer} at offset {offset} was committed: its marker "
        "may be in the bytes that are missing or cannot be read, {where}. Its records up to there are not shown.",
        "Returns records as committed if its transaction index does not list them as aborted, where the damage lets "
        "it read so far.",
        "Run the command with --records and without --committed to see these records. --resync may find the marker "
        "after the damage.",
        "Part of the log is missing after the data of a transaction and before the next marker of its producer, and "
        "no transaction index shows whether a marker was in it. A marker that comes later may belong to another "
        "transaction.",
    ),
    "txn.end-elsewhere": FindingType(
        "warning",
        "The file ends within a transaction of producer {producer}: the records that it wrote from offset {offset} on "
        "are not shown, because the marker is in a file that is not here.",
        "Reads the segments of a partition as one log.",
        "Name the partition directory, or put the segments that follow into the same directory.",
        "Only this log file was named. Neither the file nor the segments after it in its directory end the "
        "transaction.",
    ),
    "file.grew": FindingType(
        "info",
        "The file grew while it was read: a broker is writing to it. Records that were appended later are not shown.",
        "Writes to this file.",
        "To read all of it, stop the broker, or read a copy of the directory.",
        "A broker appends to the log.",
    ),
    "file.shrank": FindingType(
        "warning",
        "The file was truncated while it was read: a broker is running. Some rows may show bytes that are deleted now.",
        "Truncates the log in recovery, or when it follows a leader.",
        "Run it again when the broker is stopped.",
        "A follower that follows its leader, or recovery, truncated the log; it may have grown again. dump --follow "
        "continues from a batch that has not changed: it shows everything that was written again, and may show some "
        "rows before it twice.",
    ),
    "file.trimmed": FindingType(
        "info",
        "The file ended with unused space, which was cut off while it was read: all records in it are still there.",
        "Has begun a new segment, and cuts off the preallocated space of the one before.",
        "To read the records that came later, run the command again.",
        "The topic has preallocate=true, and its broker rolled the segment.",
    ),
    "file.replaced": FindingType(
        "warning",
        "The file was deleted or replaced while it was read: the rows are of the file that was opened first.",
        "Replaces the file.",
        "Run it again when the broker is stopped.",
        "Compaction replaced the file, or retention deleted it.",
    ),
    "object.replaced": FindingType(
        "error",
        "The object was replaced or deleted while it was read: rows of two objects may be mixed.",
        "Is not concerned: no broker reads the log from an object store.",
        "Run the command again. Use no row of this run that is of this object.",
        "An object is read in ranges, and each range is of the object that has the name at that moment. Its size, time "
        "or entity tag differed after the last range.",
    ),
    "file.replaced-since": FindingType(
        "error",
        "The file was replaced after the work was divided: a part of it was not read.",
        "Replaces the file.",
        "Run it again when the broker is stopped, or on a snapshot of the disk.",
        "Large files are read in parts, by several tasks. Between two tasks compaction replaced the file, or somebody "
        "restored it. Parts of two files do not form one log.",
    ),
    "file.rolled": FindingType(
        "info",
        "A broker has closed the file: the log continues at offset {offset} in {following}, which is not followed.",
        "Appends to the next segment.",
        "Follow the partition directory instead of the file.",
        "The broker rolled a new segment, so this file no longer grows.",
    ),
    "file.modified": FindingType(
        "info",
        "The file was modified while it was read; its size did not change.",
        "Writes to this file.",
        "Stop the broker and run the command again, if you doubt another finding in this file.",
        "The modification time of the file changed while it was read. Brokers write index files in place.",
    ),
    "file.broken-link": FindingType(
        "warning",
        "A symbolic link cannot be followed: {reason}.",
        "Ignores it.",
        "Mount the target of the link, or remove the link.",
        "The target of a symbolic link is missing, or the links form a circle.",
    ),
    "file.not-a-file": FindingType(
        "error",
        "The entry has the name of a file that a broker opens, but it is not a file that can be read: {problem}.",
        "Takes the whole log directory offline if it opens it, or may truncate the log after an unclean shutdown.",
        "Move it out of the partition directory, and verify again.",
        "A pipe, a device or a directory has the name of a snapshot, leader-epoch-checkpoint or partition.metadata.",
        next_step=MOVE_FILE,
    ),
    "file.not-regular": FindingType(
        "info",
        "The entry is neither a regular file nor a directory.",
        "Ignores it.",
        "Move it out of the directory.",
        "A socket, a pipe or a device is among the files of a log directory. No broker creates one.",
    ),
    "file.unreadable": FindingType(
        "warning",
        "The file permissions ({mode}) do not let its owner read it.",
        "Cannot read it, and takes the whole log directory offline.",
        "Give the owner of the file permission to read and write it.",
        "The permission bits forbid reading. A broker must be able to read every file of a partition directory, "
        "unknown files too.",
    ),
    "file.foreign-owner": FindingType(
        "warning",
        "The file belongs to user {uid}, but its directory to user {directory_uid}.",
        "Runs as one of the two users and may be unable to open the file: it then takes the whole log directory "
        "offline.",
        "Give the file the owner of the other files in the directory.",
        "Files in a directory belong to different users, typically because a tool or a restore ran as root.",
    ),
    "file.leftover": FindingType(
        "info",
        "A temporary file of an unfinished write.",
        "Overwrites or ignores it.",
        "Nothing needs to be done. You may delete the file while the broker is stopped.",
        "The file name ends in .tmp: a broker writes such a file first and then renames it.",
    ),
    "file.journal": FindingType(
        "info",
        "The undo journal of an earlier repair.",
        "Ignores it.",
        "List it with kafkalog undo --list. When all is well, free it with kafkalog undo --prune --apply.",
        "The file holds what is needed to undo a repair. No broker reads it.",
    ),
    "file.unknown": FindingType(
        "info",
        "No broker creates a file with this name here.",
        "Ignores it.",
        "Nothing needs to be done.",
        "No release writes a file of this name. It does no harm unless its name ends like a broker's file: a broker "
        "deletes *.deleted, and may read a number before the first dot as an offset.",
    ),
}


_REFUSED: Final = "A broker refuses the file: {problem}."
_REBUILD: Final = (
    "with the broker stopped, kafkalog recover rebuilds it from the log. A start without the .index rebuilds it too, "
    "but also truncates the log at its first bad batch. No broker rebuilds only a .timeindex."
)
_REBUILD_ALL: Final = (
    "With the broker stopped, kafkalog recover rebuilds it from the log. Never delete only the .txnindex: a broker "
    "rebuilds it only if the .index is missing too, and then truncates the log at its first bad batch."
)


def _checkpoint(meaning: str) -> FindingType:
    return FindingType(
        "error",
        _REFUSED,
        f"Takes the log directory offline. {BEFORE_OFFLINE} If only a number is bad, 4.x may continue or not start, "
        "depending on the file.",
        "Stop the broker and run kafkalog recover, which repairs the bad lines and keeps the others. By hand: line "
        "1 is 0, line 2 is the number of entries, and each entry has a line.",
        meaning,
        next_step=RECOVER,
    )


def _meta(what: str) -> FindingType:
    return FindingType(
        "error",
        _REFUSED,
        "Does not start. If the broker has other log directories, it takes this one offline.",
        "Stop the broker and run kafkalog recover with all log directories of the broker: the other meta.properties "
        "have the values.",
        f"meta.properties is damaged: {what}",
        next_step=RECOVER_WITH_OTHERS,
    )


def _partition_metadata(what: str) -> FindingType:
    return FindingType(
        "error",
        _REFUSED,
        "Does not load the partition and takes the log directory offline; releases before 3.2 do not start. An empty "
        "file or an invalid id stops the broker.",
        "Stop the broker and run kafkalog recover, which takes the id from the topic's other partitions, if there "
        "are any. By hand: line 1 is `version: 0`, line 2 is `topic_id: ` and the id that the replicas have.",
        f"partition.metadata is damaged: {what}",
        next_step=RECOVER,
    )


def _quorum_state(what: str) -> FindingType:
    return FindingType(
        "error",
        _REFUSED,
        "Does not start, because it cannot join the metadata quorum without this file.",
        "Correct the file by hand, or restore a copy of this node's own file. Do not let the node create a new one: "
        "it would forget its vote, and may vote twice in one epoch.",
        f"quorum-state of the metadata log is damaged: {what}",
    )


SMALL_FILES: Final = {
    "index.zero-tail": FindingType(
        "info",
        "The index ends with {size_bytes} bytes of zeros: space for later entries.",
        "Trims the index when it recovers or closes the segment. After a clean shutdown it reads the zeros as entries.",
        "Nothing needs to be done after an unclean shutdown, because the next start recovers the segment. After a "
        "clean shutdown: " + _REBUILD,
        "A broker creates an index in its largest size and trims it when it closes the segment. A crash leaves the "
        "zeros.",
        next_step=RECOVER,
    ),
    "txnindex.zero-tail": FindingType(
        "warning",
        "The transaction index ends with {size_bytes} bytes of zeros, which no broker writes.",
        "Reads them as aborted transactions of producer 0.",
        _REBUILD_ALL,
        "A transaction index is never larger than its entries, so zeros are damage.",
    ),
    "txnindex.bad-version": FindingType(
        "error",
        "An entry of the transaction index has version {version}, but only version 0 exists.",
        "Does not start.",
        _REBUILD_ALL,
        "Each entry of a transaction index starts with version 0.",
        next_step=RECOVER,
    ),
    "clean-shutdown.malformed": FindingType(
        "info",
        "The clean shutdown file does not hold JSON: {problem}.",
        "Regards the shutdown as clean, but does not know the broker epoch of that time.",
        "Nothing needs to be done.",
        "Since 3.9 the clean shutdown file holds JSON with the broker's epoch. The shutdown was clean if the file "
        "exists.",
    ),
    "clean-shutdown.directory": FindingType(
        "warning",
        "The clean shutdown file is an empty directory.",
        "Deletes it, and starts as after a clean shutdown. Releases before 2.8 do not start.",
        "If the last shutdown was not clean, or the release is before 2.8, move it out of the log directory.",
        "A broker only looks whether the entry exists. No broker makes a directory of this name.",
        next_step=MOVE_DIRECTORY,
    ),
    "clean-shutdown.not-empty": FindingType(
        "error",
        "The clean shutdown file is a directory that is not empty.",
        "Cannot delete it, and takes the whole log directory offline. Releases before 2.8 do not start.",
        "Move it out of the log directory, and put an empty file in its place if the last shutdown was clean.",
        "A broker deletes the clean shutdown file before it loads the partitions.",
        next_step=MOVE_DIRECTORY,
    ),
    "file.unfinished": FindingType(
        "info",
        "An unfinished temporary file: {problem}.",
        "Overwrites it when it next writes the file.",
        "Nothing needs to be done.",
        "A crash left this .tmp file while a checkpoint was written. The checkpoint itself is the old one and is "
        "complete.",
    ),
    "checkpoint.count-mismatch": _checkpoint("Line 2 does not hold the number of the entries that follow."),
    "checkpoint.invalid-utf8": _checkpoint(
        "The file holds bytes that are not text: it is damaged, or it is another file."
    ),
    "checkpoint.malformed-line": _checkpoint("A line lacks a number, has too many, or is blank."),
    "checkpoint.negative-count": _checkpoint("Line 2 is a negative number."),
    "checkpoint.negative-epoch": _checkpoint("Leader epochs and their offsets cannot be negative."),
    "checkpoint.unsupported-version": _checkpoint("Line 1 is not 0, the only version."),
    "meta.bad-directory-id": _meta("directory.id is not a valid id of 22 characters, or it is a reserved one."),
    "meta.bad-node-id": _meta("node.id or broker.id is not a number."),
    "meta.malformed-line": _meta("a line is not a key and a value."),
    "meta.other-directory-id": FindingType(
        "error",
        "The directory.id is {value}, which this node never registered. The metadata log has {partitions} of this "
        "directory in log directory {expected}.",
        "Starts and registers a new log directory. The controller regards the partitions as offline, so this node "
        "leads none of them: a partition without another replica may not be served until the node starts a second "
        "time.",
        "With the broker stopped, set directory.id back to the id in the metadata log.",
        "meta.properties was written again, or copied from another log directory (KIP-858, 3.7 and later).",
        next_step="sed -i.before s/^directory.id=.*/directory.id=ID_OF_THE_METADATA_LOG/ {file}",
    ),
    "meta.other-node-id": FindingType(
        "error",
        "The node.id is {value}, but the metadata log ({metadata_log}) has this directory (directory.id "
        "{directory_id}) as a directory of node {expected}.",
        "Does not start as node {expected}, because meta.properties of each of its log directories must have its own "
        "node.id.",
        "With the broker stopped, set node.id back to the id of the node that registered the directory.",
        "meta.properties was written again, or copied from another broker (KIP-858, 3.7 and later).",
        next_step="sed -i.before s/^node.id=.*/node.id=NODE_ID/ {file}",
    ),
    "meta.other-node-of-config": FindingType(
        "error",
        "The {key} is {value}, but {config} has {expected}.",
        "Does not start with this server.properties: the id in meta.properties of each of its log directories must be "
        "its own.",
        "Start the log directory with the server.properties of its own broker. If the id in meta.properties was "
        "changed by mistake, set it back with the broker stopped.",
        "The server.properties is another broker's, or the disk is.",
    ),
    "meta.no-voter": FindingType(
        "error",
        "The directory.id is {value}, but the metadata log in this directory has node {node_id} as a voter with "
        "directory.id {expected}.",
        "Does not count this node among the voters.",
        "With the node stopped, set directory.id back to the id in the metadata log.",
        "A controller is a voter with its node.id and the directory.id of its metadata log (KIP-853). meta.properties "
        "was written again, or copied from another log directory.",
        next_step="sed -i.before s/^directory.id=.*/directory.id=ID_OF_THE_METADATA_LOG/ {file}",
    ),
    "meta.missing-key": _meta("a key is missing that this version requires."),
    "meta.unsupported-version": _meta("version is neither 0 nor 1."),
    "partition-metadata.bad-topic-id": _partition_metadata("the topic id is not a valid id of 22 characters."),
    "partition-metadata.malformed-line": _partition_metadata("a line is not a name and a value."),
    "partition-metadata.too-short": _partition_metadata("the file is empty or has one line."),
    "partition-metadata.zero-topic-id": _partition_metadata("the topic id is all zeros, which means no id."),
    "quorum-state.bad-value": _quorum_state("a value has the wrong type."),
    "quorum-state.empty": _quorum_state("it is empty."),
    "quorum-state.malformed-line": _quorum_state("it does not hold a JSON object."),
    "quorum-state.missing-key": _quorum_state("a key is missing that this version requires."),
    "quorum-state.unsupported-version": _quorum_state("data_version is neither 0 nor 1."),
}
