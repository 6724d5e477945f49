"""Findings about the metadata log of a KRaft node and its snapshots, which its start compares before it reads them."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["METADATA_LOG", "SNAPSHOT_ACTION", "SNAPSHOT_CURE"]

SNAPSHOT_ACTION: Final = "A KRaft node reads it when it starts, and may not start."
SNAPSHOT_CURE: Final = (
    "Put back a copy of the file. Another node of the quorum may have one of the same name; keep the damaged one aside."
)

METADATA_LOG: Final = {
    "metadata-log.no-snapshot": FindingType(
        "error",
        "The metadata log starts at offset {start}, and there is no snapshot of that offset or a later one: what was "
        "before is nowhere in it.",
        "Does not start.",
        "Stop the node and put a snapshot back: from a backup of this node, or the newest one of another node of the "
        "quorum, with its name. If segments are missing at the start of the log, put those back.",
        "Old segments of the metadata log are deleted only when a snapshot holds what was in them: it was deleted, "
        "renamed, or the first segments were.",
    ),
    "metadata-log.snapshot-ahead": FindingType(
        "warning",
        "The snapshot is of offset {offset} and epoch {epoch}, the log ends at offset {end} with epoch {last}.",
        "Takes the snapshot and throws all of the metadata log away: it begins anew at offset {offset}.",
        "Copy the directory away before the start. Nothing is lost if the snapshot is whole, which verify checks, and "
        "of this cluster.",
        "The newest snapshot of the metadata log is ahead of its log: the node stopped right after it had fetched a "
        "snapshot from the leader, or the end of the log was lost. After a clean stop it is an error.",
    ),
    "quorum-state.old-epoch": FindingType(
        "warning",
        "The leader epoch is {epoch}, but the metadata log has batches of leader epoch {last}.",
        "Starts in the epoch of the log, without the vote that this node gave in it.",
        "Restore a copy of this node's own file, if there is one. Do not invent values: the node may vote twice.",
        "A KRaft node writes the epoch into quorum-state before it appends the first batch of that epoch: the file "
        "is an older copy, or it was changed.",
    ),
    "quorum-state.no-voter": FindingType(
        "warning",
        "The value of {key} is {node}, which is none of the voters: {voters}.",
        "Loads the value, and does not find that leader or vote among the voters.",
        "Restore a copy of this node's own file, if there is one. Do not invent values: the node may vote twice.",
        "The leader, and the node that a node votes for, is one of the voters, or -1: the file was changed. The voters "
        "are those in the same file (version 0), or in the LeaderChange record of that epoch (version 1).",
    ),
    "quorum-state.other-leader": FindingType(
        "warning",
        "The leader of epoch {epoch} is node {node}; the metadata log has node {leader} as the leader of that epoch.",
        "Starts as a follower of node {node}, and fetches from it until an election settles the leader.",
        "Restore a copy of this node's own file, if there is one. Do not invent values: the node may vote twice.",
        "An epoch has one leader, which begins it with a LeaderChange record: the file was changed, or is that of "
        "another node.",
    ),
    "quorum-state.no-vote": FindingType(
        "warning",
        "The file names no node that this one voted for, but a log directory of one: {directory_id}.",
        "Reads the directory id, and ignores it without a node id.",
        "Restore a copy of this node's own file, if there is one. Do not invent values: the node may vote twice.",
        "A node writes id and directory of its vote together, and no directory is sixteen zeros: a vote was lost, or "
        "the file was changed.",
    ),
    "quorum-state.other-directory": FindingType(
        "warning",
        "The vote is for directory {directory_id}; by the metadata log that voter has directory {known}.",
        "Grants a vote for the same epoch to that directory alone.",
        "Restore a copy of this node's own file, if there is one. Do not invent values: the node may vote twice.",
        "A voter is a node with one metadata log directory (KIP-853): the file was changed, or the voter lost its "
        "directory and joined again with another one.",
    ),
}
