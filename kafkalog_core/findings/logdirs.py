"""Findings about a log directory: directories in it, its own files."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["LOG_DIRS"]

LOG_DIRS: Final = {
    "dir.not-a-partition": FindingType(
        "error",
        "A directory in a broker's log directory whose name is not of a partition: {problem}.",
        "Does not start.",
        "Move it out of the log directory.",
    ),
    "dir.not-a-partition-here": FindingType(
        "warning",
        "A directory beside partitions whose name is not of a partition: {problem}.",
        "Would not start on it.",
    ),
    "dir.duplicate-partition": FindingType(
        "error",
        "A second directory of partition {partition}, beside {other}.",
        "Does not start: a partition may be in a log directory once.",
        "Compare the two and move one out of the log directory.",
    ),
    "dir.future-beside-current": FindingType(
        "warning",
        "A copy to be filled in the same log directory as the partition itself, {other}.",
        "Cannot put it in the partition's place: the log directory goes offline when it tries.",
        "Move one of the two out of the log directory.",
    ),
    "dir.odd-name": FindingType(
        "info", "The partition number is not written as a broker writes it.", "Reads it as partition {partition}."
    ),
    "dir.illegal-topic": FindingType("info", "No broker creates a topic of this name: {problem}.", "Loads it."),
    "dir.delete": FindingType(
        "info", "The partition waits for its deletion.", "Removes it about a minute after its next start."
    ),
    "dir.future": FindingType(
        "info", "A copy that was being moved here from another log directory.", "Goes on filling it."
    ),
    "dir.stray": FindingType(
        "info", "A partition that a broker found not to be its own and set aside.", "Keeps it and never reads it."
    ),
    "dir.unreadable": FindingType(
        "error", "The directory cannot be listed: {reason}.", "The whole log directory goes offline."
    ),
    "file.misplaced": FindingType(
        "info", "A file of a partition at the top of a log directory.", "Ignores it.", "Read it by itself."
    ),
    "dir.unclean": FindingType(
        "info",
        "The log directory has no mark of a clean stop.",
        "Recovers: reads the segments behind each recovery point and cuts them at the first bad batch.",
    ),
    "meta.missing": FindingType(
        "info", "The log directory has no meta.properties.", "Kafka 0.9 to 3.x with ZooKeeper makes one."
    ),
    "meta.missing-kraft": FindingType(
        "warning",
        "The log directory is one of a KRaft broker and has no meta.properties.",
        "Does not start and asks to format the directory.",
        "Put back the file, with the cluster.id and node.id of the broker's other log directories.",
    ),
}
