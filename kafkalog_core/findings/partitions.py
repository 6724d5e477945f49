"""Findings about a partition directory: segments and companions, by names and sizes."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["PARTITIONS"]

PARTITIONS: Final = {
    "segment.bad-name": FindingType(
        "error",
        "A file of a segment whose name has no offset before its first dot.",
        "Does not start: it cannot read a number from the name.",
        "Move it out of the partition directory, or give it the name of its first offset, 20 digits.",
    ),
    "segment.misnamed": FindingType(
        "error",
        "A log file of {size_bytes} bytes whose name is not its base offset in 20 digits.",
        "Takes offset {offset} from the name, makes an empty segment there, and never reads this file.",
        "Move it out of the partition directory, or give it the name of its first offset, 20 digits.",
    ),
    "segment.misnamed-empty": FindingType(
        "warning",
        "An empty log file whose name is not its base offset in 20 digits.",
        "Takes offset {offset} from the name and makes an empty segment there.",
        "Move it out of the partition directory.",
    ),
    "segment.duplicate": FindingType(
        "warning",
        "A second log file for base offset {offset}.",
        "Reads the one whose name has 20 digits and never this one.",
        "Compare the two and move this one out of the partition directory.",
    ),
    "segment.misnamed-companion": FindingType(
        "info", "The number in its name is not written with 20 digits.", "Never reads it, and may delete it."
    ),
    "segment.oversize": FindingType(
        "error", "The log file has {size_bytes} bytes; positions in it end at 2147483647.", "Does not start."
    ),
    "segment.index-missing": FindingType(
        "warning",
        "The segment has no offset index.",
        "Recovers the segment: builds its indexes anew, cuts its log at the first bad batch (0.8.0: does not start).",
    ),
    "segment.timeindex-missing": FindingType(
        "warning",
        "The segment has no time index while others of the partition have one.",
        "Makes an empty one: searches by time miss this segment, retention goes by the file's modification time.",
    ),
    "segment.index-orphan": FindingType(
        "warning",
        "An index at offset {offset} without its log file.",
        "Deletes it.",
        "Look for the log file: if it was lost, its records are.",
    ),
    "segment.deleted": FindingType("info", "The file waits for its deletion.", "Removes it at its next start."),
    "segment.swap": FindingType(
        "info",
        "A finished replacement, from compaction or a split, that was not yet put in its place.",
        "Puts it in its place at its next start and deletes what it replaces.",
    ),
    "segment.swap-alone": FindingType(
        "warning",
        "A finished replacement, from compaction or a split, at an offset where no segment is.",
        "Puts it in its place at its next start.",
    ),
    "segment.swap-index-missing": FindingType(
        "warning",
        "A finished replacement that has no offset index.",
        "Puts the log in its place with an index of zeros.",
    ),
    "segment.cleaned": FindingType(
        "info", "An unfinished output of compaction or a split.", "Removes it at its next start."
    ),
    "segment.gap": FindingType(
        "error",
        "The file ends at byte address {end}, the next one starts at {offset}: {size_bytes} bytes are missing.",
        "Kafka 0.7 does not start.",
    ),
    "segment.overlap": FindingType(
        "error",
        "The file ends at byte address {end}, the next one starts at {offset}: they overlap by {size_bytes} bytes.",
        "Kafka 0.7 does not start.",
    ),
    "snapshot.bad-name": FindingType(
        "error",
        "A snapshot of the metadata log whose name has no end offset and epoch.",
        "Does not start: it cannot read the numbers from the name.",
        "Move it out of the directory.",
    ),
    "partition.empty": FindingType(
        "info", "The partition has no segment.", "Makes an empty one at the checkpointed log start offset."
    ),
    "partition.mixed-formats": FindingType(
        "warning",
        "A file of Kafka 0.7 beside segments of a later release.",
        "Ignores it.",
        "Read it by itself.",
    ),
    "dir.nested": FindingType("info", "A directory inside a partition directory.", "Ignores it."),
}
