"""Broker messages about tiered storage (KIP-405), and about requests of administrators that a broker refuses."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import BrokerMessage

__all__ = ["REMOTE"]


_SEGMENTS: Final = ("kafkalog dump --segments {place}",)
_PLUGIN: Final = "The storage plugin or the metadata of tiered storage failed: the exception after this line shows how."

REMOTE: Final = (
    BrokerMessage(
        "broker.remote-copy-failed",
        "warning",
        ("Error occurred while copying log segments of partition: {partition}",),
        "Segments of {partition} were not copied to tiered storage.",
        "The storage plugin failed, or a file that is copied with the segment is missing, such as the producer "
        "snapshot at its end: the exception after this line shows which.",
        # RemoteLogManager.RLMCopyTask.copyLogSegment: updateHighestOffsetInRemoteStorage comes last, so that no segment
        # is deleted before it is copied
        "Retention does not delete a segment from the log directory before it is copied.",
        "Repair the cause. If a producer snapshot is missing, stop the broker and run kafkalog reindex, which makes "
        "it.",
        ("snapshot.missing",),
        (*_SEGMENTS, "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.remote-read-failed",
        "warning",
        (  # RemoteLogReader.call, RemoteLogOffsetReader.call
            "Error occurred while reading the remote data for {partition}",
            "Error occurred while reading the remote log offset for {partition}",
        ),
        "Records of {partition} could not be read from tiered storage.",
        _PLUGIN,
        "Answers with an error.",
        "Repair the cause in the exception. The log directory has only the newer segments.",
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.remote-state-failed",
        "warning",
        (  # AbstractFetcherThread.handleOffsetsMovedToTieredStorage, TierStateMachine.buildRemoteLogAuxState
            "Error building remote log auxiliary state for {partition}",
            "Could not build remote log auxiliary state for {partition} due to error: {reason}",
            "Couldn't build the state from remote store for partition: {partition}, currentLeaderEpoch",
        ),
        "{partition} is not fetched: its state could not be taken from tiered storage.",
        _PLUGIN,
        "Fetches the partition again after a pause, and others meanwhile.",
        "Repair the cause in the exception.",
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.remote-deleted",
        "info",
        (
            "About to delete remote log segment {other} due to {reason}",
            "Deleting remote log segment {other}",
            "Deleted remote log segment {other}",
        ),
        "Segments of a partition were deleted from tiered storage.",
        "Retention by time or size applied there, a client deleted their records, or the topic was deleted.",
        "Deletes the segments in tiered storage.",
        "If this was intended, nothing needs to be done. No file of a log directory has these records.",
        (),
    ),
    BrokerMessage(
        "broker.delete-records-failed",
        "warning",
        ("Error processing delete records operation on partition {partition}",),
        "A request to delete records of {partition} failed.",
        "The exception after this line shows the reason.",
        "Answers with an error.",
        "Read the exception in the next lines.",
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.move-refused",
        "warning",
        ("Unable to alter log dirs for {partition}",),
        "The broker did not begin to move {partition} to another log directory.",
        # ReplicaManager.alterReplicaLogDirs: LogDirNotFound, ReplicaNotAvailable, KafkaStorage, NotLeaderOrFollower
        "A log directory is offline, the target is not a log directory of this broker, or the partition is not here: "
        "the exception after this line shows which.",
        "Answers with an error.",
        "Repair the cause in the exception, and start the reassignment again.",
        ("dir.unclean",),
        ("kafkalog verify {log_dir}",),
    ),
)
