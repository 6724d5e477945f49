"""Broker messages about a replica and its leader: what a follower truncates, refuses, and fetches again."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import BrokerMessage

__all__ = ["REPLICATION"]


_SEGMENTS: Final = ("kafkalog dump --segments {place}",)
_LEADER_LOST: Final = "If the leader is the one that lost records, stop this broker at once and copy its directory."

_OF_THE_LEADER: Final = ("kafkalog verify LEADER_LOG_DIR/{partition}",)
"""The log directory in the line, or in the log, is that of the follower."""

REPLICATION: Final = (
    BrokerMessage(
        "broker.log-restarted",
        "warning",
        (
            (
                "Unexpected offset in append to {partition}. First offset {number} is less than log start offset "
                "{start}. Since this is the first record to be appended to the {other}'s log, will start the log "
                "from offset {offset}"
            ),
            "Truncate and start at offset {offset}",
            (  # AbstractFetcherThread.fetchOffsetAndApplyFun
                "Truncate fully and reset fetch offset for partition {partition} from {old} to the current leader's "
                "start offset {offset} because the local replica's end offset is smaller"
            ),
            "Truncate and start log '{partition}' to {offset}",
            "Truncate and start log '{partition}' at offset {offset}",
        ),
        "The broker deleted the whole log of {partition} and starts it again at offset {offset}.",
        "No offset of this log is in the log of its leader, for example after a time that was longer than retention. "
        "A log that is still empty starts at the first offset that its leader has.",
        "Deletes every segment and fetches from that offset on.",
        _LEADER_LOST,
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.fetch-out-of-range",
        "warning",
        (
            "Reset fetch offset for partition {partition} from {old} to current leader's latest offset {offset}",
            "Reset fetch offset for partition {partition} from {old} to current leader's start offset {offset}",
            (
                "for partition {partition} reset its fetch offset from {old} to current leader {broker}'s latest "
                "offset {offset}"
            ),
            (
                "for partition {partition} reset its fetch offset from {old} to current leader {broker}'s start "
                "offset {offset}"
            ),
            "Current offset {number} for partition {partition} out of range; reset offset to {offset}",
            (
                "Current offset {number} for partition {partition} is out of range, which typically implies a leader "
                "change. Reset fetch offset to {offset}"
            ),
        ),
        "The leader of {partition} has no records at the offset that this follower needs next.",
        "The leader's log ends before that offset, because the leader lost records (an unclean election, a damaged or "
        "deleted log). Or it starts after that offset, because retention was faster than this follower.",
        "Truncates its log at the end of the leader's log. If the leader's log starts after the end of this log, "
        "deletes the whole log and starts it again there.",
        _LEADER_LOST,
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.truncated-below-high-watermark",
        "error",
        (
            "Truncating future {partition} to offset {offset} below high watermark {number}",
            "Truncating {partition} to offset {offset} below high watermark {number}",
        ),
        "The broker truncated {partition} at offset {offset}, below its high watermark, {number}.",
        "The leader does not have these records, although every in-sync replica once had them: it was elected "
        "uncleanly, or lost the end of its log.",
        "Truncates the log at that offset and fetches from there.",
        "Other replicas may still have the records: stop their brokers before they truncate too, and copy their "
        "directories.",
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.truncated-to-leader",
        "warning",
        (
            "Truncating partition {partition} to local high watermark {offset}",
            "Truncating partition {partition} with TruncationState(offset={offset}, {reason}) due to",
            "Truncating partition {partition} with {reason} due to",
            (
                "Based on replica's leader epoch, leader replied with epoch {number} unknown to the replica for "
                "{partition}. Will truncate to {offset} and send another leader epoch request"
            ),
            (
                "Based on replica's leader epoch, leader replied with epoch {number} below any replica's tracked "
                "epochs for {partition}. The leader's offset only {offset} will be used for truncation"
            ),
            (
                "Leader or replica is on protocol version where leader epoch is not considered in the "
                "OffsetsForLeaderEpoch response. The leader's offset {offset} will be used for truncation in "
                "{partition}"
            ),
            "Truncating to offset {offset}",
            "Truncating log {partition} to offset {offset}",
        ),
        "The broker truncates a log of {partition} at offset {offset}, if it is longer, to match the log that it "
        "fetches from.",
        "A follower truncates what its leader does not have. This is normal after a change of the leader, and a loss "
        "after an unclean election. A copy that moves between log directories truncates what the partition's own "
        "directory does not have.",
        "Truncates the log at that offset and fetches from there.",
        "If the leader is the one that lost records, stop this broker at once and copy its directory.",
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.truncation-no-effect",
        "info",
        ("Truncating to {offset} has no effect as the largest offset in the log is {number}",),
        "The log of {partition} ends before offset {offset}, at which it was to be truncated.",
        "A follower, or a copy that moves between log directories, has nothing that the other log does not have.",
        "Truncates nothing.",
        "Nothing needs to be done.",
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.leader-epoch-unknown",
        "warning",
        (  # AbstractFetcherThread.getOffsetTruncationState
            (
                "Based on replica's leader epoch, leader replied with an unknown offset in {partition}. The initial "
                "fetch offset {offset} will be used for truncation"
            ),
            (
                "Based on follower's leader epoch, leader replied with an unknown offset in {partition}. The initial "
                "fetch offset {offset} will be used for truncation"
            ),
        ),
        "The leader of {partition} has no offset for the last leader epoch of this follower.",
        "The leader has no leader epochs of this log: its leader-epoch-checkpoint was empty, or the message format of "
        "the topic is older than that of 0.11.",
        "Truncates the log at offset {offset}, if it is longer.",
        "Look at the leader epochs of both replicas, before another broker restarts.",
        ("epochs.missing", "epochs.cut"),
        ("kafkalog dump --files {place}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.follower-refuses",
        "error",
        ("Found invalid messages during fetch for partition {partition} offset {offset}",),
        "A follower does not take what its leader sent of {partition} from offset {offset} on.",
        "A batch is damaged on the disk of the leader, or was damaged on its way.",
        "Fetches the partition again after a pause, and others meanwhile.",
        "Verify the partition on the disk of the leader.",
        ("crc-mismatch", "bad-length"),
        _OF_THE_LEADER,
    ),
    # AbstractFetcherThread.doTruncate, processFetchRequest: markPartitionFailed, until addPartitions
    BrokerMessage(
        "broker.replica-failed",
        "error",
        (
            "Failed to truncate {partition} at offset {offset}",
            "Unexpected error occurred during truncation for {partition} at offset {offset}",
            "Error while processing data for partition {partition} at offset {offset}",
            "Unexpected error occurred while processing data for partition {partition} at offset {offset}",
        ),
        "A follower could not truncate {partition} at offset {offset}, or not append there what its leader sent.",
        "The exception in the lines after shows the reason: the log directory has failed, or the offsets of the leader "
        "do not follow those of this log.",
        "Stops fetching the partition until its leader changes, or until the broker starts again.",
        "If the disk is good, compare the copies of the partition.",
        ("offset-order", "epochs.missing"),
        ("kafkalog verify {place}", "kafkalog replicas {log_dir} OTHER_LOG_DIR"),
    ),
    # AbstractFetcherThread.processFetchRequest, delayPartitions
    BrokerMessage(
        "broker.leader-lacks-partition",
        "warning",
        (
            (
                "Received {reason} from the leader for partition {partition}. This error may be returned transiently "
                "when the partition is being created or deleted"
            ),
        ),
        "The leader of {partition} does not have it, or has it with another topic id: {reason}.",
        "UNKNOWN_TOPIC_OR_PARTITION and UNKNOWN_TOPIC_ID: the leader has not created the partition yet, or has deleted "
        "it. INCONSISTENT_TOPIC_ID: the two brokers have directories of two topics of that name.",
        "Fetches the partition again after a pause.",
        "Nothing needs to be done if the lines end soon. Else compare the topic ids in partition.metadata on both "
        "brokers.",
        ("partition-metadata", "dir.not-assigned"),
        ("kafkalog dump --files {place}",),
    ),
    # ReplicaManager.applyDelta
    BrokerMessage(
        "broker.replica-not-deleted",
        "warning",
        ("Unable to delete replica {partition} because {reason}",),
        "The broker was to delete {partition}, and could not: {reason}.",
        "The log directory is offline, or a file could not be renamed.",
        "Leaves the directory as it is.",
        "Repair the disk. A later start renames the directory to end in -stray, and its space remains taken.",
        ("dir.stray", "dir.not-assigned"),
        ("kafkalog usage {log_dir}",),
    ),
    BrokerMessage(
        "broker.offsets-out-of-order",
        "error",
        (
            "Out of order offsets found in append to {partition}: {reason}",
            "Unexpected offset in append to {partition}. {reason}",
            "Attempt to append an offset ({offset}) to position {number} no larger than the last offset appended",
            "Attempt to append an offset {offset} to position {number} no larger than the last offset appended",
            "Attempt to append an offset ({offset}) to slot {number} no larger than the last offset appended",
        ),
        "Offsets of {partition} do not increase.",
        "The leader's log has offsets in a wrong order, or this replica has a wrong log end offset.",
        "Refuses the append. In recovery it empties the segment.",
        "Verify the leader and the follower, and copy the partition from the healthy one.",
        ("offset-order",),
    ),
)
