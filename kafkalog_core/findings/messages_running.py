"""Broker messages about a log in use: epochs, high watermark, producers, compaction, truncation, retention."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import BrokerMessage

__all__ = ["RUNNING"]

_NOTHING: Final = "Nothing needs to be done."
_SEGMENTS: Final = ("kafkalog dump --segments {place}",)
_TXN: Final = "The client aborts and tries again."

RUNNING: Final = (
    BrokerMessage(
        "broker.high-watermark-back",
        "warning",
        ("Non-monotonic update of high watermark from {reason}",),
        "The high watermark of {partition} went back or was corrected: from {reason}.",
        "replication-offset-checkpoint holds a value outside of the log, or the log was truncated.",
        "Takes the new one. Consumers that had read further may see an offset out of range.",
        "Nothing needs to be done, if no truncation came with it.",
        ("checkpoint",),
        ("kafkalog dump --files {log_dir}/replication-offset-checkpoint", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.epochs-truncated",
        "warning",
        (
            (
                "New epoch entry {reason} caused truncation of conflicting entries {other}. Cache now contains "
                "{number} entries"
            ),
        ),
        "leader-epoch-checkpoint of {partition} had epochs that contradict the log; they were dropped.",
        "The file is of an older or a damaged copy, or a batch's leader epoch is wrong (no checksum covers it).",
        "Continues with the epochs that are left. A follower may then truncate at a wrong offset.",
        "Compare the epochs with those of the other replicas.",
        ("checkpoint",),
        ("kafkalog dump --files {place}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.epochs-deleted",
        "warning",
        ("Deleting non-empty leader epoch cache due to incompatible message format {reason}",),
        "The leader epochs of {partition} were deleted, because its message format is older than 0.11's.",
        "message.format.version of the topic is below 0.11.",
        "Continues without epochs; followers truncate at the high watermark.",
        "Raise message.format.version when all clients can read it.",
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.format-downgraded",
        "warning",
        ("Record format version has been downgraded from {reason}",),
        "New records of {partition} are written in an older format.",
        "message.format.version of the topic was lowered.",
        "Converts what producers send: headers, and before 0.10 times, are lost of new records.",
        "Raise message.format.version, if that was not meant.",
        ("partition.mixed-formats",),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.out-of-order-sequence",
        "warning",
        (
            "Out of order sequence number for producer {producer} at offset {offset} in partition {partition}:",
            "Out of order sequence number for producerId {producer}",
            "Out of order sequence number for producer {producer}",
        ),
        "A batch of producer {producer} did not follow its last one.",
        "Batches were lost (a log that was truncated, acks=0 before), or the broker forgot the producer. In "
        "recovery: a batch in between is missing from the log.",
        "Refuses the append; while loading it only logs this. Nothing on the disk changes.",
        "Look for a gap at that offset if it comes while loading; else restart the producer.",
        ("snapshot-crc-mismatch",),
        ("kafkalog dump --batches --producer-id {producer} {place}",),
    ),
    BrokerMessage(
        "broker.invalid-txn-state",
        "error",
        ("Expected transactional write from producer {producer}", "InvalidTxnStateException"),
        "Producer {producer} wrote outside of its open transaction.",
        "While loading: a record in the log contradicts the transaction before it; its marker may have been "
        "truncated, or two logs were joined. At run time: a client's fault.",
        "While loading: does not start. At run time: refuses the append.",
        "While loading: copy the partition from a healthy replica. Where one is in sync and leads, the "
        "directory may be moved out of the log directory instead: the broker fetches the partition again.",
        ("txn.open",),
        ("kafkalog dump --batches --producer-id {producer} {place}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.producer-fenced",
        "info",
        (
            "ProducerFencedException",
            "InvalidProducerEpochException",
            "TransactionCoordinatorFencedException",
            "Invalid coordinator epoch: ",
        ),
        "A producer, or a transaction coordinator, of an older epoch was refused.",
        "A newer instance with the same transactional id is at work.",
        "Refuses the append. Nothing on the disk changes.",
        _TXN,
        ("txn.open",),
    ),
    BrokerMessage(
        "broker.offsets-out-of-order",
        "error",
        (
            "Out of order offsets found in append to {partition}:",
            "Unexpected offset in append to {partition}.",
            "Attempt to append an offset ({offset}) to position {number} no larger than the last offset appended",
            "Attempt to append an offset {offset} to position {number} no larger than the last offset appended",
        ),
        "Offsets of {partition} do not rise.",
        "The leader's log has offsets in disorder, or this replica's end is not what it thinks.",
        "Refuses the append: the follower stops fetching the partition, or the segment is emptied in recovery.",
        "Verify leader and follower; copy the partition from the one that is whole.",
        ("offset-order",),
    ),
    BrokerMessage(
        "broker.fetch-failed",
        "error",
        (
            (
                "Error processing fetch with max size {count} from consumer on partition {reason}:{partition}: "
                "PartitionData"
            ),
            "Error processing fetch operation on partition {partition}",
            "Error processing fetch with max size",
            "Found invalid messages during fetch for partition {partition}",
        ),
        "Reading {partition} for a consumer or follower failed.",
        "A damaged batch, or an index that leads into the middle of one, at the offset that was asked for.",
        "Answers with an error; the reader does not get past that offset.",
        "Verify the partition where the leader is; consumers get past a damaged batch only if they seek after it.",
        ("crc-mismatch", "bad-length", "index"),
    ),
    BrokerMessage(
        "broker.append-failed",
        "error",
        ("Error processing append operation on partition {partition}",),
        "A write to {partition} failed.",
        "The lines after this one name the reason: a full disk, a batch that is too large or damaged, or a "
        "client's state.",
        "Answers with an error. Nothing was written, or it takes the log directory offline.",
        "Look at the exception in the next lines.",
        (),
    ),
    BrokerMessage(
        "broker.cleaner-partition",
        "error",
        (
            "Unexpected exception thrown when cleaning log {other}. Marking its partition ({partition}) as uncleanable",
            "Failed to clean up log for {partition} in dir {dir} due to IOException",
            "Failed to access checkpoint file {path}",
        ),
        "Compaction of {partition} failed, and is not tried again until the next start.",
        "A damaged batch in the part that is not yet compacted, an offset out of range, or the disk.",
        "Leaves the log as it is: it grows from now on.",
        "Find the damaged batch; copy the partition from a healthy replica, then start the broker again.",
        ("crc-mismatch", "payload", "offset-order"),
    ),
    BrokerMessage(
        "broker.cleaner-died",
        "error",
        ("[kafka-log-cleaner-thread-{number}]: Error due to", "[kafka-log-cleaner-thread-{number}], Error due to"),
        "A thread of the log cleaner died: until a restart nothing is compacted by it.",
        "Before 1.1 one damaged batch, or a segment whose keys do not fit the buffer, ends it; __consumer_offsets "
        "then grows.",
        "Goes on without it, in silence.",
        "The exception below names the partition: repair that, and start the broker again.",
        ("crc-mismatch", "payload-limit"),
        ("kafkalog verify {log_dir}",),
    ),
    BrokerMessage(
        "broker.cleaner-offset-reset",
        "info",
        (
            (
                "Resetting first dirty offset of {partition} to log start offset {start} since the checkpointed offset "
                "{offset} is invalid"
            ),
            (
                "Resetting first dirty offset to log start offset {start} since the checkpointed offset {offset} is "
                "invalid"
            ),
            (
                "The last checkpoint dirty offset for partition {partition} is {offset}, which is larger than the log "
                "end offset {end}"
            ),
        ),
        "cleaner-offset-checkpoint had an offset outside of the log; compaction begins at {start}.",
        "Segments were deleted by retention, or the log was truncated.",
        "Compacts once more from the start.",
        _NOTHING,
        (),
        ("kafkalog dump --files {log_dir}/cleaner-offset-checkpoint",),
    ),
    BrokerMessage(
        "broker.truncated-to-leader",
        "warning",
        (
            "Truncating partition {partition} to local high watermark {offset}",
            "Truncating partition {partition} with {reason} due to",
            "Truncating to offset {offset}",
            "Truncating log {partition} to offset {offset}",
            "Truncate and start at offset {offset}",
            "Truncate and start log '{partition}' to {offset}",
            "Truncate and start log '{partition}' at offset {offset}",
        ),
        "{partition} was truncated at offset {offset}, to be the same as its leader's.",
        "A follower gives up what its leader does not have: normal after a change of the leader, a loss after an "
        "unclean election.",
        "Truncated the log at that offset and fetches from there. The records after it are not kept.",
        "If the leader is the one that lost records, stop this broker at once and copy its directory.",
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.retention",
        "info",
        (
            "Found deletable segments with base offsets {reason} due to {other} breach",
            "Deleting segment {segment} from log {partition}",
            "Deleting segment LogSegment(baseOffset={segment}",
            "Deleting segments due to {reason}",
            "Deleting segment files {reason}",
            "Scheduling log segment {segment} for log {partition} for deletion",
            "Scheduling segments for deletion {reason}",
            "Deleted log {path}.deleted",
            "Deleted offset index {path}",
            "Deleted time index {path}",
            "Deleted transaction index {path}",
            "Deleting index {path}",
        ),
        "Segments were deleted, by retention, compaction or with their topic.",
        "Their time or size was over, compaction had replaced them, or the topic was deleted.",
        "Renames the files to .deleted and removes them after file.delete.delay.ms.",
        "Nothing, if that was meant; else raise retention.ms or retention.bytes, and copy the .deleted files within "
        "a minute.",
        ("segment.deleted",),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.log-start-moved",
        "info",
        (
            "Incremented log start offset to {start} due to",
            "Incrementing log start offset of partition {partition} to {start} in dir {dir}",
            "Incrementing log start offset to {start}",
        ),
        "{partition} starts at offset {start} now.",
        "Retention, or a request to delete records.",
        "Serves nothing below it.",
        _NOTHING,
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.dir-deleted",
        "info",
        (
            "Deleted log for partition {partition} in {path}",
            "Log for partition {partition} is renamed to {path} and is scheduled for deletion",
        ),
        "{partition} was deleted from this broker.",
        "Its topic was deleted, or the replica was moved away.",
        "Renames the directory to -delete, and removes it a minute later.",
        "Nothing, if that was meant; else stop the broker and copy the -delete directory at once.",
        ("dir.delete",),
        ("kafkalog dump --segments {path}",),
    ),
    BrokerMessage(
        "broker.load-from-topic",
        "warning",
        ("Failed to load metadata from {partition} with epoch {number} due to {reason}",),
        "A coordinator could not load {partition}: {reason}.",
        "The partition is not online here, or its records cannot be read.",
        "Groups or transactions of that partition have no coordinator here.",
        "Look for errors about the partition itself in the lines before.",
        (),
    ),
    BrokerMessage(
        "broker.move-failed",
        "warning",
        (
            "[ReplicaAlterLogDirsThread-{number}]: Partition {partition} marked as failed",
            "Partition {partition} marked as failed",
        ),
        "Copying {partition}, from its leader or to another log directory, was given up.",
        "The exception in the lines before names the reason.",
        "Leaves both copies as they are and does not try again until the next start or election.",
        "Mend what the exception names, then start the broker again.",
        ("dir.future",),
    ),
)
