"""Findings about any file or directory entry: links, permissions, changes while it is read."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import DENIED, FindingType

__all__ = ["FILES"]

FILES: Final = {
    "file.vanished": FindingType(
        "info",
        "The file went away while the directory was listed.",
        meaning="What was listed was gone when it was to be read: a broker is at work, or somebody deletes files.",
        broker_action="Does this itself when it deletes segments.",
        cure="Run it again on a stopped broker, or on a copy.",
    ),
    "file.not-readable": FindingType(
        "error",
        "It was not read: {reason}.",
        "The whole log directory goes offline.",
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
        meaning="Without a high watermark nobody knows which records all replicas have, so --committed shows none.",
    ),
    "txn.open": FindingType(
        "warning",
        "Producer {producer} has had a transaction open since offset {offset}: read_committed consumers stop there.",
        "Waits for its marker; nothing behind it is read by read_committed consumers or cleaned.",
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
        "--records without --committed shows them; --resync may find the marker behind the damage.",
        meaning=(
            "Something of the log is missing behind the data of a transaction, before the next marker of its "
            "producer, and no transaction index tells whether a marker was in it. A marker that comes later may "
            "belong to another transaction."
        ),
    ),
    "txn.end-elsewhere": FindingType(
        "warning",
        "The file ends inside of a transaction of producer {producer}: what it wrote from offset {offset} on is not "
        "shown, as its marker is in a file that is not here.",
        "Reads the segments of a partition as one log.",
        "Name the partition directory, or put the segments that follow beside it.",
        meaning=(
            "A log file was named by itself, and neither it nor the segments behind it in its directory end the "
            "transaction."
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
        "It was cut while it was read: a broker is at work. Rows of what is gone may have been shown.",
        meaning=(
            "The log was truncated meanwhile, by a follower that follows its leader or by recovery; it may have grown "
            "again. dump --follow goes on from a batch that is still the same: all that was written anew is shown, and "
            "some rows before it may be shown again."
        ),
        broker_action="Is the one that cuts.",
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
        "A broker has closed it: the log goes on at offset {offset} in {following}, which is not followed.",
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
        "Cannot read it either: the whole log directory goes offline.",
        "Give its owner permission to read and write it.",
        meaning=(
            "The permission bits forbid reading. Every file of a partition directory must be readable for the broker, "
            "unknown ones too."
        ),
    ),
    "file.foreign-owner": FindingType(
        "warning",
        "It belongs to user {uid}, the directory that it is in to user {directory_uid}.",
        "Runs as one of the two and may not open it: the whole log directory goes offline.",
        "Give it the owner of the files beside it.",
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
            "A file that no release writes there. It does no harm unless its name ends like a broker's: *.deleted is "
            "removed, a number before the first dot may be taken for an offset."
        ),
        cure="Nothing needs to be done.",
    ),
}
