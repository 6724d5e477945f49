"""Findings of the forecast of compaction, and of carrying it out."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["COMPACTIONS"]

COMPACTIONS: Final = {
    "compaction.clean-fails": FindingType(
        "warning",
        "A clean of this log stops here: {problem}.",
        "Stops cleaning the partition, and tries again only after a restart; it grows until then. Releases before 2.1 "
        "stop cleaning all partitions.",
        "Look at what stands there: kafkalog verify says whether it is damage, and what mends it.",
        "The cleaner reads every batch of the dirty part, and gives a partition up at the first one that it cannot "
        "take.",
    ),
    "compaction.not-foreseen": FindingType(
        "warning",
        "What a cleaner would make of this log is not foreseen: {problem}.",
        "Is not known.",
        "See what is there: kafkalog verify.",
        "A clean can be foreseen for logs since Kafka 0.8 whose last segment can be read.",
    ),
    "compaction.over-damage": FindingType(
        "warning",
        "There is damage in this log: {problem}. It is not cleaned over that here.",
        "Goes on: its cleaner looks at neither checksums nor the order of offsets. It copies such a batch as it is, or "
        "writes its records anew with a checksum that agrees, and then nothing tells any more that they were damaged.",
        "Mend the log first, from a replica where there is one: kafkalog verify names all that is wrong, and the cure.",
        "A clean would turn damage that can be seen into records that look sound.",
    ),
    "compaction.never-ends": FindingType(
        "info",
        "A clean ends at offset {offset}, before offset {bound}: what lies between has no offsets or no keys.",
        "Cleans the log again at every look of its cleaner while its dirty ratio is above the setting, though nothing "
        "is left to be cleaned (KAFKA-8764, up to 2.3).",
        "Upgrade to 2.4 or later; until then records with keys that are appended and rolled end it.",
        "Cleaners before 2.4 take the last offset, or key, that they have seen for the end of what is clean.",
    ),
    "compaction.no-watermark": FindingType(
        "warning",
        "No checkpoint has a high watermark of this log; the log end offset, {offset}, is used instead.",
        "Learns its high watermark from the other replicas when it starts, and cleans nothing above it.",
        "Name the log directory that has replication-offset-checkpoint. If every replica has all records, accept the "
        "log end offset: kafkalog compact with --apply and --assume-defaults. Without --assume-defaults, --apply "
        "refuses.",
        "The cleaner would drop older records in favour of newer ones that may still be truncated.",
    ),
    "compaction.no-room": FindingType(
        "warning",
        "The cleans that follow are not in the figures: {problem}.",
        "Cleans on in place.",
        "Give the simulation more memory (--memory), or room: the environment's TMPDIR says where temporary files are.",
        "Where the offset map is full before the bound the next clean reads what this one leaves.",
    ),
    "compaction.replacement": FindingType(
        "error",
        "The replacement {name} waits to take the place of segments: this log is not cleaned beside it.",
        "Puts it in its place at its next start.",
        "Let a broker start on a copy of the directory first, or move the file away if it is not wanted.",
        "An interrupted compaction left a finished replacement, and a start would put it over what a clean has made.",
    ),
    "compaction.retention-follows": FindingType(
        "info",
        "Its cleanup.policy is compact,delete: retention follows the clean, and is not part of this.",
        "Deletes segments by retention.ms, retention.bytes and the log start behind each look of its cleaner.",
        "See what it would delete, and carry it out: kafkalog retain.",
        "With both policies a broker's cleaner thread deletes old segments too, cleaned ones by what is left in them.",
    ),
}
