"""Broker messages about tiered storage (KIP-405), and about requests of administrators that a broker refuses.

Of tiered storage a text has what the line has, and no more: no broker was run with it.
"""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import BrokerMessage

__all__ = ["REMOTE"]


_SEGMENTS: Final = ("kafkalog dump --segments {place}",)
_EXCEPTION: Final = "The exception after this line shows the reason."
_NOT_KNOWN: Final = "What it does next is unknown: kafkalog reads no tiered storage."

REMOTE: Final = (
    BrokerMessage(
        "broker.remote-copy-failed",
        "warning",
        ("Error occurred while copying log segments of partition: {partition}",),
        "Segments of {partition} were not copied to tiered storage.",
        _EXCEPTION,
        _NOT_KNOWN,
        "Read the exception. If it names a producer snapshot that is missing, stop the broker and run kafkalog "
        "reindex, which makes it.",
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
        _EXCEPTION,
        _NOT_KNOWN,
        "Repair the cause in the exception.",
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
        "The state of {partition} could not be taken from tiered storage.",
        _EXCEPTION,
        _NOT_KNOWN,
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
        "The line may show the reason.",
        _NOT_KNOWN,
        "If this was intended, nothing needs to be done.",
        (),
    ),
    BrokerMessage(
        "broker.delete-records-failed",
        "warning",
        ("Error processing delete records operation on partition {partition}",),
        "A request to delete records of {partition} failed.",
        _EXCEPTION,
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
