"""Findings about a log directory: directories in it, its own files."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["LOG_DIRS", "STRAY_DELETED"]

STRAY_DELETED: Final = (
    "Loads the partition, renames its directory to end in -delete, and deletes it with all its records after "
    "file.delete.delay.ms (log.segment.delete.delay.ms, 1 minute)."
)
"""What releases before 3.7 do with a partition that the metadata log does not assign to them (seen of 3.5.2, 3.6.2)."""

LOG_DIRS: Final = {
    "dir.not-a-partition": FindingType(
        "error",
        "A directory in a broker's log directory whose name is not of a partition: {problem}.",
        "Does not start.",
        "Move it out of the log directory.",
        meaning=(
            "Each directory at the top of a log directory must be named topic-number; one that is not keeps the broker "
            "from starting. lost+found is the usual one."
        ),
    ),
    "dir.not-a-partition-here": FindingType(
        "warning",
        "A directory beside partitions whose name is not of a partition: {problem}.",
        "Would not start on it.",
        meaning="The same as dir.not-a-partition, in a directory that is perhaps not a broker's log directory.",
        cure="Move it away before a broker starts here.",
    ),
    "dir.duplicate-partition": FindingType(
        "error",
        "A second directory of partition {partition}, beside {other}.",
        "Does not start: a partition may be in a log directory once.",
        "Compare the two and move one out of the log directory.",
        meaning="Two directories are of one partition: a copy, an interrupted move, or numbers like 0 and 00.",
    ),
    "dir.future-beside-current": FindingType(
        "warning",
        "A copy to be filled in the same log directory as the partition itself, {other}.",
        "Cannot put it in the partition's place: the log directory goes offline when it tries.",
        "Move one of the two out of the log directory.",
        meaning="A -future directory is made in another log directory than the partition's own.",
    ),
    "dir.no-directory": FindingType(
        "error",
        "It has the name of a partition and is no directory: {problem}.",
        "Passes over it and over the partition's records. Where the partition is one of its own, it fails to make the "
        "directory, and the whole log directory goes offline.",
        "Put the partition's directory in its place, or move this out of the log directory.",
        meaning="A link that leads to nothing, a pipe or a device has the name of a partition's directory.",
    ),
    "dir.odd-name": FindingType(
        "info",
        "The partition number is not written as a broker writes it.",
        "Reads it as partition {partition}.",
        meaning="A number such as 007 or +7 is read as 7, but no broker writes it so: a person made the directory.",
        cure="Nothing, unless the partition is also there under its plain name.",
    ),
    "dir.illegal-topic": FindingType(
        "info",
        "No broker creates a topic of this name: {problem}.",
        "Loads it.",
        meaning="Characters or a length that the tools refuse. Brokers do not look at that when they load.",
        cure="Nothing needs to be done.",
    ),
    "dir.delete": FindingType(
        "info",
        "The partition waits for its deletion.",
        "Removes it about a minute after its next start.",
        meaning=(
            "The topic was deleted or the replica moved away, and the directory waits for its removal. Its segments "
            "are whole until then."
        ),
        cure="If it is needed, copy it away before a broker starts.",
    ),
    "dir.future": FindingType(
        "info",
        "A copy that was being moved here from another log directory.",
        "Goes on filling it.",
        meaning="A replica that was being moved between two log directories of the broker.",
        cure="Nothing needs to be done.",
    ),
    "dir.stray": FindingType(
        "info",
        "A partition that a broker found not to be its own and set aside.",
        "Keeps it and never reads it.",
        meaning=(
            "The metadata did not name this broker for the partition, so it was set aside: the topic is gone, was "
            "moved, or lost its partition.metadata."
        ),
        cure="If the records are wanted, read it with kafkalog dump; else remove it.",
    ),
    "dir.not-assigned": FindingType(
        "error",
        "The metadata log ({metadata_log}) {why}; its topic id is {topic_id}.",
        "Loads the partition, renames its directory to end in -stray, and never reads it again.",
        "If the records are wanted, copy the directory away before the broker starts. To serve it again, restore the "
        "metadata log that has the topic, or assign the partition to this node.",
        "A KRaft broker keeps only partitions that the metadata log assigns to it (LogManager.isStrayReplica). "
        "Releases before 3.7 delete the others.",
    ),
    "dir.unreadable": FindingType(
        "error",
        "The directory cannot be listed: {reason}.",
        "The whole log directory goes offline.",
        meaning="The operating system refused to list the directory.",
        cure="Mend its permissions, or its disk.",
    ),
    "file.misplaced": FindingType(
        "info",
        "A file of a partition at the top of a log directory.",
        "Ignores it.",
        "Read it by itself.",
        meaning="A segment's file lies at the top of a log directory, outside of any partition.",
    ),
    "dir.unclean": FindingType(
        "info",
        "The log directory has no mark of a clean stop.",
        "Recovers: reads the segments behind each recovery point and cuts them at the first bad batch.",
        meaning=(
            "No .kafka_cleanshutdown: the broker was killed, crashed, is running, or began to start (it removes the "
            "mark then)."
        ),
        cure="Nothing, after a crash. Verify before the next start shows what recovery would cut.",
    ),
    "meta.missing": FindingType(
        "info",
        "The log directory has no meta.properties.",
        "Kafka 0.9 to 3.x with ZooKeeper makes one, with the ids of the broker that starts. 4.x does not start.",
        meaning=(
            "Without meta.properties nobody knows of which broker and cluster the directory is. What 0.11 or later "
            "has written is beside it, so that it was there once: verify calls it an error."
        ),
        cure=(
            "Put it back, with the cluster.id and broker.id of the broker's other log directories. Nothing, on a "
            "ZooKeeper broker that has not been started here."
        ),
    ),
    "meta.missing-kraft": FindingType(
        "warning",
        "The log directory is one of a KRaft broker and has no meta.properties.",
        "Does not start and asks to format the directory.",
        "Put back the file, with the cluster.id and node.id of the broker's other log directories.",
        meaning="A KRaft broker must find meta.properties in every log directory; an empty mount point has none.",
    ),
}
