"""Findings about any file or directory entry: links, permissions, changes while it is read."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["FILES"]

FILES: Final = {
    "file.vanished": FindingType("info", "The file went away while the directory was listed."),
    "file.not-readable": FindingType(
        "error",
        "It was not read: {reason}.",
        "The whole log directory goes offline.",
        "Mend its permissions, those of its directory, or its disk.",
    ),
    "high-watermark.unknown": FindingType(
        "warning",
        "None of its records are shown: no broker has checkpointed a high watermark for it.",
        "Takes 0 for the high watermark until the replicas have agreed on another.",
        "--committed without =high-watermark shows what is committed up to the end of the log.",
    ),
    "txn.open": FindingType(
        "warning",
        "Producer {producer} has had a transaction open since offset {offset}: read_committed consumers stop there.",
        "Waits for its marker; nothing behind it is read by read_committed consumers or cleaned.",
    ),
    "file.grew": FindingType("info", "It grew while it was read: a broker is writing. What came later is not shown."),
    "file.shrank": FindingType(
        "warning", "It was cut while it was read: a broker is at work. Rows of what is gone may have been shown."
    ),
    "file.replaced": FindingType(
        "warning", "Another file has its name now, or none: rows are of the one that was opened first."
    ),
    "file.modified": FindingType("info", "It was written to while it was read, without a change of size."),
    "file.broken-link": FindingType(
        "warning", "A symbolic link leads to nothing that can be read: {reason}.", "Passes over it."
    ),
    "file.not-regular": FindingType("info", "Neither a regular file nor a directory.", "Passes over it."),
    "file.unreadable": FindingType(
        "warning",
        "Its permissions ({mode}) let not even its owner read it.",
        "Cannot read it either: the whole log directory goes offline.",
        "Give its owner permission to read and write it.",
    ),
    "file.foreign-owner": FindingType(
        "warning",
        "It belongs to user {uid}, the directory that it is in to user {directory_uid}.",
        "Runs as one of the two and may not open it: the whole log directory goes offline.",
        "Give it the owner of the files beside it.",
    ),
    "file.leftover": FindingType(
        "info", "A temporary file of a write that was not finished.", "Overwrites or ignores it."
    ),
    "file.unknown": FindingType("info", "Not a name that a broker gives to a file here.", "Ignores it."),
}
