"""Findings about any file or directory entry: links, permissions, changes while it is read."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import DENIED, FindingType

__all__ = ["FILES", "INDEXES", "SMALL_FILES"]


FILES: Final = {
    "file.vanished": FindingType(
        "info",
        "The file was deleted while the directory was listed.",
        meaning="What was listed was gone when it was to be read: a broker is at work, or somebody deletes files.",
        broker_action="Does this itself when it deletes segments.",
        cure="Run it again on a stopped broker, or on a copy.",
    ),
    "file.not-readable": FindingType(
        "error",
        "It was not read: {reason}.",
        "Takes the whole log directory offline.",
        "Mend its permissions, those of its directory, or its disk.",
        meaning="The operating system refused to read it, or the disk failed.",
    ),
    DENIED: FindingType(
        "warning",
        "It was not read: {reason}.",
        "Reads the file, if the broker runs as a user with the right to read it.",
        "Run the same command again as the owner of the file (sudo -u), or as root.",
        meaning=(
            "This user has no right to read the file, to list the directory, or to enter a directory on the way to it. "
            "No other finding is derived from a file that was not read. The result does not cover this file, so the "
            "exit status is 3, whatever else was found."
        ),
    ),
    "high-watermark.unknown": FindingType(
        "warning",
        "None of its records are shown: no broker has checkpointed a high watermark for it.",
        "Takes 0 for the high watermark until the replicas have agreed on another.",
        "--committed without =high-watermark shows what is committed up to the end of the log.",
        meaning="Without a high watermark it is unknown which records all replicas have, so --committed shows none.",
    ),
    "txn.open": FindingType(
        "warning",
        "Producer {producer} has had a transaction open since offset {offset}: read_committed consumers stop there.",
        "Waits for its marker: read_committed consumers read nothing after it, and the log cleaner does not "
        "clean there.",
        meaning=(
            "A transaction that was neither committed nor aborted in this log. It may still be running, or hang for "
            "ever."
        ),
        cure="If no producer is at work on it any more: kafka-transactions.sh abort, once the broker runs.",
    ),
    "txn.undecided": FindingType(
        "error",
        "Whether the transaction of producer {producer} at offset {offset} was committed is not known: its marker "
        "may be in what is missing or cannot be read, {where}. Its records up to there are not shown.",
        "Gives out as committed what its transaction index does not list as aborted, if the damage lets it get that "
        "far.",
        "--records without --committed shows them; --resync may find the marker after the damage.",
        meaning=(
            "Part of the log is missing after the data of a transaction and before the next marker of its "
            "producer, and no transaction index shows whether a marker was in it. A marker that comes later "
            "may belong to another transaction."
        ),
    ),
    "txn.end-elsewhere": FindingType(
        "warning",
        "The file ends within a transaction of producer {producer}: what it wrote from offset {offset} on is "
        "not shown, as its marker is in a file that is not here.",
        "Reads the segments of a partition as one log.",
        "Name the partition directory, or put the segments that follow into the same directory.",
        meaning=(
            "A log file was named alone, and neither it nor the segments after it in its directory end the transaction."
        ),
    ),
    "file.grew": FindingType(
        "info",
        "It grew while it was read: a broker is writing. What came later is not shown.",
        meaning="The log is being appended to.",
        broker_action="Is the one that writes.",
        cure="Read a stopped broker's directory, or a copy, for all of it.",
    ),
    "file.shrank": FindingType(
        "warning",
        "It was truncated while it was read: a broker is running. Rows of deleted bytes may have been shown.",
        meaning=(
            "The log was truncated meanwhile, by a follower that follows its leader or by recovery; it may "
            "have grown again. dump --follow continues from a batch that has not changed: everything that was "
            "written again is shown, and some rows before it may be shown twice."
        ),
        broker_action="Is the one that truncates.",
        cure="Run it again when the broker is stopped.",
    ),
    "file.replaced": FindingType(
        "warning",
        "Another file has its name now, or none: rows are of the one that was opened first.",
        meaning=(
            "The name leads to another file than at the beginning: compaction put its result there, or retention "
            "removed it."
        ),
        broker_action="Is the one that replaces.",
        cure="Run it again when the broker is stopped.",
    ),
    "file.replaced-since": FindingType(
        "error",
        "Another file has its name since the work was divided: a part of it was not read.",
        meaning=(
            "Large files are read in parts, by several tasks. Between two of them compaction put its result in the "
            "file's place, or somebody restored it: parts of two files do not make one."
        ),
        broker_action="Is the one that replaces.",
        cure="Run it again when the broker is stopped, or on a snapshot of the disk.",
    ),
    "file.rolled": FindingType(
        "info",
        "A broker has closed it: the log continues at offset {offset} in {following}, which is not followed.",
        cure="Follow the partition's directory.",
        meaning="A file that is followed was closed, because a broker began the next segment.",
        broker_action="Appends to the next segment.",
    ),
    "file.modified": FindingType(
        "info",
        "It was written to while it was read, without a change of size.",
        meaning="The file's time of change moved while it was read; index files are written in place.",
        broker_action="Is the one that writes.",
        cure="Run it again when the broker is stopped, if a finding in the same file is in doubt.",
    ),
    "file.broken-link": FindingType(
        "warning",
        "A symbolic link leads to nothing that can be read: {reason}.",
        "Passes over it.",
        meaning="A symbolic link whose target is missing, or that leads in a circle.",
        cure="Mount what it leads to, or remove the link.",
    ),
    "file.not-regular": FindingType(
        "info",
        "Neither a regular file nor a directory.",
        "Passes over it.",
        meaning="A socket, a pipe or a device among the files of a log directory; no broker makes one.",
        cure="Move it out of the directory.",
    ),
    "file.unreadable": FindingType(
        "warning",
        "Its permissions ({mode}) let not even its owner read it.",
        "Cannot read it either: takes the whole log directory offline.",
        "Give its owner permission to read and write it.",
        meaning=(
            "The permission bits forbid reading. Every file of a partition directory must be readable for the broker, "
            "unknown ones too."
        ),
    ),
    "file.foreign-owner": FindingType(
        "warning",
        "It belongs to user {uid}, the directory that it is in to user {directory_uid}.",
        "Runs as one of the two users and may be unable to open it: takes the whole log directory offline.",
        "Give it the owner of the other files in the directory.",
        meaning="Files in a directory belong to different users, typically because a tool or a restore ran as root.",
    ),
    "file.leftover": FindingType(
        "info",
        "A temporary file of a write that was not finished.",
        "Overwrites or ignores it.",
        meaning="A file that ends in .tmp: brokers write such a one first and then rename it.",
        cure="Nothing needs to be done; it may be deleted on a stopped broker.",
    ),
    "file.journal": FindingType(
        "info",
        "The undo journal of an earlier repair.",
        "Ignores it.",
        meaning="A file that holds what it takes to undo a repair; no broker reads it.",
        cure="List it with kafkalog undo --list. When all is well, free it with kafkalog undo --prune --apply.",
    ),
    "file.unknown": FindingType(
        "info",
        "Not a name that a broker gives to a file here.",
        "Ignores it.",
        meaning=(
            "A file that no release writes there. It does no harm unless its name ends like a broker's: "
            "*.deleted is removed, and a number before the first dot may be read as an offset."
        ),
        cure="Nothing needs to be done.",
    ),
}


_REBUILT: Final = (
    "With the broker stopped, kafkalog reindex rebuilds the segment's indexes, or reports where its log is "
    "damaged. A broker that finds no .index rebuilds them too, and truncates the log at its first bad batch."
)
_DISK: Final = "Copy the disk (ddrescue) first, and work on the copy. "
_TRUSTED: Final = (
    "Checks only the end of it (2.0 and later: not even that) and trusts it, unless it recovers the segment, "
    "which rebuilds the index. "
)
_READS: Final = _TRUSTED + "Reads from offsets near the entry start at a wrong place: too early, or records are missed."
_SEEKS: Final = _TRUSTED + "Searches by time near the entry give a wrong offset."
_KEPT: Final = _TRUSTED + "Time retention takes the age of the segment from the last entry."
_CLOSED: Final = "When a segment is closed its largest timestamp becomes the last entry of its time index. "

INDEXES: Final = {
    "index.not-a-file": FindingType(
        "error",
        "It has the name of a segment's index, but it is not a file that can be read: {problem}.",
        "Fails to open it and takes the log directory offline: at the start for the last segment, later at the "
        "first read that needs it.",
        "Move it out of the partition directory. Then kafkalog reindex rebuilds the index.",
        "A pipe, a device or a directory has the name of an index.",
    ),
    "index.wrong-position": FindingType(
        "error",
        "An index entry names a byte where no batch starts: {problem}.",
        _READS,
        _REBUILT,
        "Each entry of an offset index names the byte where a batch starts. Here no batch starts.",
    ),
    "index.wrong-offset": FindingType(
        "error",
        "An index entry names an offset that does not go with its batch: {problem}.",
        _READS,
        _REBUILT,
        "Each entry of an offset index names an offset of what was appended at its byte: the first or the last of it. "
        "This one is neither.",
    ),
    "index.before-base": FindingType(
        "error",
        "An index entry names an offset below the segment's base offset: {problem}.",
        _READS,
        _REBUILT,
        "Offsets in an index are stored relative to the segment's base offset and are never negative.",
    ),
    "index.beyond-log": FindingType(
        "error",
        "An index entry points past the end of the log: {problem}.",
        _TRUSTED
        + (
            "Records may have been lost at the end of the log; after a clean shutdown the last segment may look "
            "empty to the broker."
        ),
        "Find out where the end of the log went: another replica may have it. " + _REBUILT,
        "The index has entries for bytes or offsets that the log does not have, or no longer has.",
    ),
    "index.unsorted": FindingType(
        "error",
        "An index entry is out of order: {problem}.",
        _READS,
        _REBUILT,
        "Offsets and positions in an offset index grow from entry to entry; lookups are binary searches.",
    ),
    "index.partial-entry": FindingType(
        "error",
        "The offset index ends within an entry: {problem}.",
        "Ignores the rest (before 2.0: deletes the index and rebuilds it, 0.8: does not start).",
        _REBUILT,
        "The file's size is not a multiple of an entry's 8 bytes, which no broker leaves behind.",
    ),
    "index.zero-entries": FindingType(
        "error",
        "The offset index of a closed segment ends with {size_bytes} bytes of zeros.",
        "Takes them for entries: reads from the segment start at its beginning, correct but slow.",
        _REBUILT,
        "Only the active segment's index has room for entries to come; the broker trims the index when it "
        "closes the segment.",
    ),
    "index.sparse": FindingType(
        "warning",
        "The offset index has far fewer entries than the log asks for: {problem}.",
        "Uses it as it is: reads from the segment are correct, but search through long stretches of the log.",
        _REBUILT,
        "A broker makes an entry for every index.interval.bytes of log, 4096 by default. Some may be gone.",
    ),
    "index.unreadable": FindingType(
        "error",
        "The disk cannot read {size_bytes} bytes of the offset index.",
        "Takes the whole log directory offline when it reads them.",
        _DISK + _REBUILT,
        "The disk gives an error for a part of the index file.",
    ),
    "timeindex.wrong-timestamp": FindingType(
        "error",
        "A time index entry has another timestamp than the log: {problem}.",
        _SEEKS + " If it is the last entry, time retention takes it for the segment's largest timestamp.",
        _REBUILT,
        "Each entry of a time index holds the largest timestamp of the log so far, and an offset of the batch that has "
        "it.",
    ),
    "timeindex.wrong-offset": FindingType(
        "error",
        "A time index entry names an offset that no batch holds: {problem}.",
        _SEEKS,
        _REBUILT,
        "Each entry of a time index names an offset of the batch that has its timestamp.",
    ),
    "timeindex.before-base": FindingType(
        "error",
        "A time index entry names an offset below the segment's base offset: {problem}.",
        _SEEKS,
        _REBUILT,
        "Offsets in an index are stored relative to the segment's base offset and are never negative.",
    ),
    "timeindex.beyond-log": FindingType(
        "error",
        "A time index entry names an offset past the end of the log: {problem}.",
        _SEEKS,
        "Find out where the end of the log went: another replica may have it. " + _REBUILT,
        "The index has entries for offsets that the log does not have, or no longer has.",
    ),
    "timeindex.unsorted": FindingType(
        "error",
        "A time index entry is out of order: {problem}.",
        _SEEKS,
        _REBUILT,
        "Timestamps in a time index grow from entry to entry and offsets never fall; lookups are binary searches.",
    ),
    "timeindex.partial-entry": FindingType(
        "error",
        "The time index ends within an entry: {problem}.",
        "Ignores the rest (before 2.0: deletes the index and rebuilds it).",
        _REBUILT,
        "The file's size is not a multiple of an entry's 12 bytes, which no broker leaves behind.",
    ),
    "timeindex.zero-entries": FindingType(
        "error",
        "The time index of a closed segment ends with {size_bytes} bytes of zeros.",
        "Takes the segment's largest timestamp for 1970: time retention deletes the segment at once.",
        _REBUILT,
        "Only the active segment's index has room for entries to come; the broker trims the index when it "
        "closes the segment.",
    ),
    "timeindex.incomplete": FindingType(
        "error",
        "The time index of a closed segment does not know its largest timestamp: {problem}.",
        "Takes the segment for older than it is: time retention deletes it too early; searches by time miss records.",
        _REBUILT,
        _CLOSED + "Segments of magic 1 from 0.10.0 have no time index, which is an info.",
    ),
    "timeindex.empty": FindingType(
        "error",
        "The time index of a closed segment is empty: {problem}.",
        "Takes the file's modification time for the age of its records; searches by time miss them.",
        _REBUILT,
        _CLOSED + "Segments of magic 1 from 0.10.0 have no time index, which is an info; where somebody deleted a "
        ".timeindex the broker makes an empty one.",
    ),
    "timeindex.unreadable": FindingType(
        "error",
        "The disk cannot read {size_bytes} bytes of the time index.",
        "Takes the whole log directory offline when it reads them.",
        _DISK + _REBUILT,
        "The disk gives an error for a part of the index file.",
    ),
}


_REFUSED: Final = "A broker refuses the file: {problem}."
_REBUILD: Final = (
    "with the broker stopped, kafkalog reindex rebuilds it from the log. So does a start that finds no .index; "
    "it also truncates the log at its first bad batch. No broker rebuilds a .timeindex alone."
)
_REBUILD_ALL: Final = (
    "With the broker stopped, kafkalog reindex rebuilds it from the log. Never delete the .txnindex alone: a "
    "broker rebuilds it only where the .index is missing too, and then truncates the log at its first bad "
    "batch."
)


def _checkpoint(meaning: str) -> FindingType:
    return FindingType(
        "error",
        _REFUSED,
        "From 1.0 on takes the log directory offline, earlier ones do not start; where only a number is bad, 4.x may "
        "go on or not start, by the file.",
        "With the broker stopped: kafkalog checkpoint repairs the bad lines and keeps the others. By hand: 0 "
        "in line 1, the number of entries in line 2, then one line for each entry.",
        meaning,
    )


def _meta(what: str) -> FindingType:
    return FindingType(
        "error",
        _REFUSED,
        "Does not start, or takes the log directory offline where it is not the only one.",
        "With the broker stopped: kafkalog checkpoint, with --beside and the broker's other log directories, "
        "whose meta.properties hold the values.",
        f"meta.properties is damaged: {what}",
    )


def _partition_metadata(what: str) -> FindingType:
    return FindingType(
        "error",
        _REFUSED,
        "Does not load the partition and takes the log directory offline; an empty file or an invalid id stops "
        "the broker.",
        "With the broker stopped: kafkalog checkpoint takes the id from the topic's other partitions, where there are "
        "any. By hand: two lines, version: 0 and topic_id: with the id that replicas have.",
        f"partition.metadata is damaged: {what}",
    )


def _quorum_state(what: str) -> FindingType:
    return FindingType(
        "error",
        _REFUSED,
        "Does not start: the metadata quorum cannot be joined without it.",
        "Correct it by hand, or put back a copy of this node's own file. Do not let the node make a new one: it would "
        "forget for whom it has voted, and may vote twice in one epoch.",
        f"quorum-state of the metadata log is damaged: {what}",
    )


SMALL_FILES: Final = {
    "index.zero-tail": FindingType(
        "info",
        "The index ends with {size_bytes} bytes of zeros: the room made for entries to come.",
        "Trims it when it recovers or closes the segment; after a clean shutdown it takes the zeros for entries.",
        meaning=(
            "Brokers make an index as large as it may grow and trim it when they close the segment; a crash "
            "leaves the zeros."
        ),
        cure=(
            "Nothing needs to be done after an unclean shutdown, as the start recovers the segment. After a clean "
            "one: " + _REBUILD
        ),
    ),
    "txnindex.zero-tail": FindingType(
        "warning",
        "The transaction index ends with {size_bytes} bytes of zeros, which no broker writes.",
        "Takes them for aborted transactions of producer 0.",
        meaning="Transaction indexes are never made larger than what is in them, so zeros are damage.",
        cure=_REBUILD_ALL,
    ),
    "txnindex.bad-version": FindingType(
        "error",
        "An entry of the transaction index has version {version}; only 0 exists.",
        "Does not start.",
        meaning="Each entry of a transaction index starts with version 0.",
        cure=_REBUILD_ALL,
    ),
    "clean-shutdown.malformed": FindingType(
        "info",
        "The clean shutdown file does not hold JSON: {problem}.",
        "Takes the shutdown for clean all the same; the broker epoch of that time is unknown to it.",
        meaning=(
            "Since 3.9 the clean shutdown file holds JSON with the broker's epoch; its existence alone shows "
            "that the shutdown was clean."
        ),
        cure="Nothing needs to be done.",
    ),
    "file.unfinished": FindingType(
        "info",
        "A temporary file that was not finished: {problem}.",
        "Overwrites it when it next writes the file.",
        meaning=(
            "A .tmp file that a crash left while a checkpoint was written; the checkpoint itself is the old one, whole."
        ),
        cure="Nothing needs to be done.",
    ),
    "checkpoint.count-mismatch": _checkpoint("Line 2 does not hold the number of the entries that follow."),
    "checkpoint.invalid-utf8": _checkpoint(
        "The file holds bytes that are not text: it is damaged, or it is another file."
    ),
    "checkpoint.malformed-line": _checkpoint("A line has not the numbers that it must have, or is blank."),
    "checkpoint.negative-count": _checkpoint("Line 2 is a negative number."),
    "checkpoint.negative-epoch": _checkpoint("Leader epochs and their offsets cannot be negative."),
    "checkpoint.unsupported-version": _checkpoint("Line 1 is not 0, the only version there is."),
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
        "With the broker stopped, change the line directory.id back to the id in the metadata log.",
        "meta.properties was written again, or copied from another log directory (KIP-858, 3.7 and later).",
    ),
    "meta.other-node-id": FindingType(
        "error",
        "The node.id is {value}, but the metadata log ({metadata_log}) has this directory, by its directory.id "
        "{directory_id}, as one of node {expected}.",
        "Does not start as node {expected}: meta.properties of each of its log directories must have its own node.id.",
        "With the broker stopped, put the id of the node that registered the directory back into the line node.id.",
        "meta.properties was written again, or copied from another broker (KIP-858, 3.7 and later).",
    ),
    "meta.no-voter": FindingType(
        "error",
        "The directory.id is {value}, but the metadata log in this directory has node {node_id} as a voter with "
        "directory.id {expected}.",
        "Does not count this node among the voters. If it is the only controller, no leader is elected: the node "
        "waits forever and serves nothing.",
        "With the node stopped, change the line directory.id back to the id in the metadata log.",
        "A controller is a voter by its node.id and the directory.id of its metadata log (KIP-853): meta.properties "
        "was written again, or copied from another log directory.",
    ),
    "meta.missing-key": _meta("a key is missing that this version must have."),
    "meta.unsupported-version": _meta("version is neither 0 nor 1."),
    "partition-metadata.bad-topic-id": _partition_metadata("the topic id is not a valid id of 22 characters."),
    "partition-metadata.malformed-line": _partition_metadata("a line is not a name and a value."),
    "partition-metadata.too-short": _partition_metadata("the file is empty or has one line."),
    "partition-metadata.zero-topic-id": _partition_metadata(
        "the topic id is all zeros, which means that there is none."
    ),
    "quorum-state.bad-value": _quorum_state("a value is of another type than it must be."),
    "quorum-state.empty": _quorum_state("it is empty."),
    "quorum-state.malformed-line": _quorum_state("it does not hold a JSON object."),
    "quorum-state.missing-key": _quorum_state("a key is missing that this version must have."),
    "quorum-state.unsupported-version": _quorum_state("data_version is neither 0 nor 1."),
}
