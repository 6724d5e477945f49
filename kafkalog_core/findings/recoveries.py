"""Findings of `kafkalog recover`: what it chose for a partition, and what it cannot bring back."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import AS_BROKER, FindingType

__all__ = ["RECOVERIES"]

RECOVERIES: Final = {
    "recover.refetched": FindingType(
        "warning",
        "The log ends at offset {offset} afterwards, before its first damage: {what}. Other replicas are in sync, "
        "{evidence}.",
        "Fetches the records from the leader, as a follower.",
        "Start this broker only while one of these replicas is the leader: a leader that has lost records makes "
        "its followers truncate theirs.",
        "An in-sync replica has every committed record. A follower fetches what is after the end of its own log, and "
        "never what is missing before it.",
    ),
    "recover.left": FindingType(
        "warning",
        "This place cannot be excised, because {why}: {what}.",
        "Does with this place what kafkalog verify shows, which depends on the damage.",
        "Copy the partition from a healthy replica, if there is one.",
        "Only whole batches between readable ones can be replaced. The segment ends before such a place; later "
        "segments are kept.",
    ),
    "recover.replacement-given-up": FindingType(
        "warning",
        "The replacement {names} lacks records of the segments that it replaces, and these have all of its records: "
        "the plan deletes the replacement, and keeps the segments.",
        "Puts a replacement in place when it starts, and deletes the segments in its range.",
        "Nothing needs to be done: the cleaner compacts the log again.",
        "Compaction and the split of a segment write a .swap file from segments that exist until it is in place.",
    ),
    "recover.replacement-refused": FindingType(
        "warning",
        "A start ends at the replacement {name}, and the segments have all of its records: the plan deletes the "
        "replacement, and keeps the segments: {problem}.",
        "Does not start.",
        "Nothing needs to be done: the cleaner compacts the log again.",
        "Compaction and the split of a segment write a .swap file from segments that exist until it is in place.",
    ),
    "recover.renamed": FindingType(
        "warning",
        "The segment starts with offset {offset}, below its base offset: it becomes {name}.",
        "Stops when it recovers the segment, because no index of it can hold a lower offset.",
        "Nothing needs to be done.",
        "The base offset of a segment is at most its first offset: the file was renamed.",
    ),
    "recover.copy-deleted": FindingType(
        "warning",
        "The segment starts with offset {offset}, below its base offset, and other segments have every batch of it: "
        "the plan deletes it.",
        "Stops when it recovers the segment, because no index of it can hold a lower offset.",
        "Nothing needs to be done.",
        "The base offset of a segment is at most its first offset: the file is a copy under another name.",
    ),
    "recover.not-started": FindingType(
        "error",
        "A broker would not start on this partition after the plan: {problem}.",
        "Does not start, or takes the log directory offline.",
        "Copy the partition from a healthy replica. If there is none, kafkalog truncate --as-broker names the command "
        "that truncates the log before this place.",
        "The simulated start of a broker on the files as the plan leaves them.",
        next_step=AS_BROKER,
    ),
    "recover.not-simulated": FindingType(
        "error",
        "Whether a broker starts on this partition after the plan is unknown: {problem}.",
        "May start: what it does after this place is not simulated.",
        "Follow what verify says of this file, then plan again.",
        "The simulated start of a broker on the files as the plan leaves them.",
        next_step="kafkalog verify {parent}",
    ),
    "recover.truncated-again": FindingType(
        "error",
        "A broker that starts after an unclean shutdown would still truncate {size_bytes} bytes of this log after the "
        "plan.",
        "Truncates the log when it recovers it.",
        "See which records that are: kafkalog truncate --as-broker.",
        "The simulated start of a broker on the files as the plan leaves them.",
        next_step="kafkalog truncate {file} --as-broker",
    ),
}
