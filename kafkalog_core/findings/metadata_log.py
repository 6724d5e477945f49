"""Findings about the metadata log of a KRaft node, and its quorum-state."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["METADATA_LOG", "SNAPSHOT_ACTION", "SNAPSHOT_CURE"]


SNAPSHOT_ACTION: Final = "A KRaft node reads it when it starts, and may not start."
SNAPSHOT_CURE: Final = (
    "Restore a copy of the file. Another node of the quorum may have one of the same name. Keep the damaged file "
    "elsewhere."
)

METADATA_LOG: Final = {
    "metadata-log.no-snapshot": FindingType(
        "error",
        "The metadata log starts at offset {start}, and there is no snapshot of that offset or a later one: the "
        "metadata before it is lost.",
        "Does not start.",
        "Stop the node and restore a snapshot with its name: from a backup of this node, or the newest one of another "
        "node of the quorum. If segments are missing at the start of the log, restore those.",
        "A node deletes old segments of the metadata log only when a snapshot holds their content: the snapshot was "
        "deleted or renamed, or the first segments were.",
    ),
    "metadata-log.empty-batch": FindingType(
        "error",
        "The batch at offset {offset} has no record.",
        "Does not start: Kafka's raft client refuses a batch without records in this log.",
        "If other controllers are healthy, remove this one from the quorum and add it again. Otherwise restore a copy "
        "of this log, or end it before this batch: kafkalog truncate --to-offset. That loses all metadata after it.",
        "No broker leaves such a batch: the metadata log is not compacted. A tool replaced a damaged batch, as is "
        "right in the logs of topics.",
    ),
    "metadata-log.snapshot-ahead": FindingType(
        "warning",
        "The snapshot has offset {offset} and epoch {epoch}, but the log ends at offset {end} with epoch {last}.",
        "Loads the snapshot and deletes the whole metadata log, which starts again at offset {offset}.",
        "Copy the directory away before the start. Nothing is lost if the snapshot is undamaged, which verify checks, "
        "and belongs to this cluster.",
        "The newest snapshot of the metadata log is ahead of its log: the node stopped right after it fetched a "
        "snapshot from the leader, or the end of the log was lost. After a clean shutdown the severity is error.",
    ),
    "quorum-state.old-epoch": FindingType(
        "warning",
        "The leader epoch is {epoch}, but the metadata log has batches of leader epoch {last}.",
        "Starts in the epoch of the log, without the vote that this node gave in it.",
        "Restore a copy of this node's own file, if there is one. Do not invent values: the node may vote twice.",
        "A KRaft node writes the epoch into quorum-state before it appends the first batch of that epoch: the file is "
        "an older copy, or it was changed.",
    ),
    "quorum-state.no-voter": FindingType(
        "warning",
        "The value of {key} is {node}, which is not one of the voters: {voters}.",
        "Loads the value, but does not find that leader or vote among the voters.",
        "Restore a copy of this node's own file, if there is one. Do not invent values: the node may vote twice.",
        "The leader, and the node that a node votes for, is one of the voters, or -1: the file was changed. The "
        "voters are in the same file (version 0), or in the LeaderChange record of that epoch (version 1).",
    ),
    "quorum-state.other-leader": FindingType(
        "warning",
        "The leader of epoch {epoch} is node {node}, but the metadata log has node {leader} as the leader of that "
        "epoch.",
        "Starts as a follower of node {node}, and fetches from it until an election settles the leader.",
        "Restore a copy of this node's own file, if there is one. Do not invent values: the node may vote twice.",
        "An epoch has one leader, which begins it with a LeaderChange record: the file was changed, or belongs to "
        "another node.",
    ),
    "quorum-state.no-vote": FindingType(
        "warning",
        "The file names no node that this one voted for, but it names a log directory: {directory_id}.",
        "Reads the directory id, and ignores it because there is no node id.",
        "Restore a copy of this node's own file, if there is one. Do not invent values: the node may vote twice.",
        "A node writes the id and the directory of its vote together, and no directory id is sixteen zeros: a vote "
        "was lost, or the file was changed.",
    ),
    "quorum-state.other-directory": FindingType(
        "warning",
        "The vote is for directory {directory_id}, but by the metadata log that voter has directory {known}.",
        "Grants a vote for the same epoch only to that directory.",
        "Restore a copy of this node's own file, if there is one. Do not invent values: the node may vote twice.",
        "A voter is a node with one metadata log directory (KIP-853): the file was changed, or the voter lost its "
        "directory and joined again with another one.",
    ),
}
