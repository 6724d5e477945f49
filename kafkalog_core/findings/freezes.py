"""Findings of `kafkalog freeze`: what could not be kept, or not as it was asked for."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["FREEZES"]

_OF_RUN: Final = "Nothing: this is about the plan."

FREEZES: Final = {
    "freeze.vanished": FindingType(
        "warning",
        "Files that were here when the directory was listed ({count}) are gone: {names}. They are not frozen.",
        "Deletes the files of a deleted partition file.delete.delay.ms after it has renamed the directory.",
        "Look at the other replicas of the partition: each broker deletes at a time of its own.",
        "It is an error if a log is among them: its records are not in the frozen partition. Links that were made "
        "before keep their files.",
    ),
    "freeze.still-linked": FindingType(
        "warning",
        "This file is frozen by a hard link, not by a copy: {why}.",
        "Changes the frozen file with its own one when it appends, or when it truncates the log in place.",
        "Free space, and run the same command again: it copies what is still a link.",
        "A copy is made only if it leaves as many bytes free as it takes, because a full disk stops the broker.",
    ),
    "freeze.older-copy": FindingType(
        "warning",
        "This file is an earlier copy of a file that has changed since, and is not copied again: {why}.",
        _OF_RUN,
        "Free space, and run the same command again.",
        "The earlier copy is kept until a new one is complete.",
    ),
    "freeze.cut": FindingType(
        "info",
        "The log changed while it was copied. The copy ends with its last whole batch, at byte {position}; the "
        "{size_bytes} bytes after that were a part of a batch.",
        _OF_RUN,
        "Nothing needs to be done. To have the newer records too, run the same command again.",
        "A live broker appends to the active segment.",
    ),
    "freeze.symbolic-link": FindingType(
        "warning",
        "This file is a symbolic link to {target}, and is not frozen: a hard link to it would be one more name of the "
        "link, and not of the file.",
        "Deletes the link, and keeps the file that it leads to.",
        "Copy that file (cp -p) into the directory of the frozen partition, with the name of the link.",
        "It is an error if it is a log: its records are not in the frozen partition. Kafka makes no symbolic links.",
    ),
    "freeze.name-taken": FindingType(
        "warning",
        "Files here ({count}) have the names of other frozen files of this partition, so they are in a directory of "
        "their own: {names}.",
        _OF_RUN,
        "Read both: kafkalog dump shows each directory as a partition.",
        "The names are the same where a topic was created again, a log was cleaned or truncated between two runs, or "
        "the broker deletes a segment that it has cleaned.",
    ),
}
