"""The catalog of messages in a broker's own log.

A wording is the text of the message as a release writes it, with `{name}` for each value; `broker_lines` finds it in a
line. All wordings of one message, from 0.8 to the newest known release, are together. A wording that ends in a value is
complete: nothing follows the value in the text that Kafka writes, except punctuation. Of several messages that match a
line the first one counts, so special messages come before general ones. The messages about a log in use, and those that
are not about a log directory, are in this module.
"""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import BrokerMessage
from kafkalog_core.findings.messages_coordinators import CANNOT_READ, COORDINATORS
from kafkalog_core.findings.messages_directories import DIRECTORIES
from kafkalog_core.findings.messages_metadata import METADATA
from kafkalog_core.findings.messages_remote import REMOTE
from kafkalog_core.findings.messages_replication import REPLICATION
from kafkalog_core.findings.messages_start import FILES, RECOVERY
from kafkalog_core.findings.messages_tasks import TASKS
from kafkalog_core.findings.messages_zookeeper import ZOOKEEPER_MESSAGES

__all__ = ["BROKER_MESSAGES", "ELSEWHERE", "RUNNING"]


_NOTHING: Final = "Nothing needs to be done."
_SEGMENTS: Final = ("kafkalog dump --segments {place}",)
_TXN: Final = "The client aborts and tries again."

RUNNING: Final = (
    BrokerMessage(
        "broker.high-watermark-back",
        "warning",
        ("Non-monotonic update of high watermark from {reason}",),
        "The high watermark of {partition} went back or was corrected: from {reason}.",
        "replication-offset-checkpoint has a value outside the log, or the log was truncated.",
        "Uses the new value.",
        "Nothing needs to be done, if no line about a truncation comes with it.",
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
        "leader-epoch-checkpoint of {partition} had epochs that contradict the log; the broker dropped them.",
        "The file belongs to an older or a damaged copy, or the leader epoch of a batch is wrong (no checksum "
        "protects it).",
        "Continues with the remaining epochs.",
        "Compare the epochs with those of the other replicas.",
        ("checkpoint",),
        ("kafkalog dump --files {place}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.epochs-deleted",
        "warning",
        ("Deleting non-empty leader epoch cache due to incompatible message format {reason}",),
        "The broker deleted the leader epochs of {partition}, because its message format is older than that of 0.11.",
        "message.format.version of the topic is below 0.11.",
        "Continues without epochs. A follower without leader epochs truncates its log at its high watermark.",
        "Raise message.format.version when all clients can read it.",
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.format-downgraded",
        "warning",
        ("Record format version has been downgraded from {reason}",),
        "The broker writes new records of {partition} in an older format.",
        "message.format.version of the topic was lowered.",
        "Converts what producers send.",
        "Raise message.format.version, if nobody lowered it on purpose.",
        ("partition.mixed-formats",),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.out-of-order-sequence",
        "warning",
        (
            (
                "Out of order sequence number for producer {producer} at offset {offset} in partition {partition}: "
                "{reason}"
            ),
            "Out of order sequence number for producerId {producer}",
            "Out of order sequence number for producer {producer}",
        ),
        "The sequence number of a batch of producer {producer} does not follow that of its last batch.",
        "Batches were lost (the log was truncated, or acks=0 was used), or the broker forgot the producer. In "
        "recovery: a batch before it is missing in the log.",
        "Refuses the append. At its start it only logs this line.",
        "If the line comes at the start, look for a gap at that offset. Else restart the producer.",
        ("snapshot-crc-mismatch",),
        ("kafkalog dump --batches --producer-id {producer} {place}",),
    ),
    BrokerMessage(
        "broker.invalid-txn-state",
        "error",
        (
            "Expected transactional write from producer {producer} at offset {offset} in partition {partition}",
            "Expected transactional write from producer {producer}",
        ),
        "Producer {producer} wrote a non-transactional batch while its transaction was open.",
        "At the start: a record in the log contradicts the transaction before it. Its marker may have been truncated, "
        "or two logs were joined. While the broker runs: an error of the client.",
        "At the start it does not start. While it runs, it refuses the append.",
        "At the start: copy the partition from a healthy replica. If a replica is in sync and leads, you may move the "
        "directory out of the log directory instead: the broker fetches the partition again.",
        ("txn.open",),
        ("kafkalog recover {log_dir}", "kafkalog dump --batches --producer-id {producer} {place}"),
    ),
    BrokerMessage(
        "broker.txn-refused",
        "info",
        ("Record was not part of an ongoing transaction", "InvalidTxnStateException"),
        "The broker refused a request of a producer, because it does not fit the state of its transaction.",
        "The transaction had ended, or had timed out, when the request came.",
        "Refuses the append.",
        _TXN,
        ("txn.open",),
        ("kafkalog transactions {log_dir}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.producer-fenced",
        "info",
        (
            "ProducerFencedException",
            "InvalidProducerEpochException",
            "TransactionCoordinatorFencedException",
            "Invalid coordinator epoch: {reason}",
        ),
        "The broker refused a producer, or a transaction coordinator, of an older epoch.",
        "A newer instance with the same transactional id is running.",
        "Refuses the append.",
        _TXN,
        ("txn.open",),
    ),
    BrokerMessage(
        "broker.fetch-failed",
        "error",
        (
            "Error processing fetch with max size {count} from {reason} on partition {partition}: PartitionData",
            "Error processing fetch operation on partition {partition}, offset {offset}",
            "Error processing fetch operation on partition {partition} offset {offset}",
            "Error processing fetch with max size",
        ),
        "A consumer or a follower could not read {partition}.",
        "A batch is damaged, or an index points into the middle of a batch, at the requested offset.",
        "Answers with an error.",
        "Verify the partition on the leader.",
        ("crc-mismatch", "bad-length", "index"),
        ("kafkalog recover {log_dir}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.append-failed",
        "error",
        ("Error processing append operation on partition {partition}",),
        "A write to {partition} failed.",
        "The lines after this one show the reason: a full disk, a batch that is too large or damaged, or the state of "
        "a client.",
        "Answers with an error.",
        "Read the exception in the next lines.",
        (),
    ),
    BrokerMessage(
        "broker.cleaner-partition",
        "error",
        (
            "Unexpected exception thrown when cleaning log {other}. Marking its partition ({partition}) as uncleanable",
            "Failed to clean up log for {partition} in dir {dir} due to IOException",
        ),
        "Compaction of {partition} failed. The broker does not try again until its next start.",
        "The exception after this line shows which: a batch in the dirty part is damaged, an offset is out of range, "
        'the disk fails, or ("Kafka scheduler is not running") the broker stopped while it cleaned.',
        "Stops cleaning the partition, and tries again only after a restart; it grows until then.",
        "If the broker was stopping, nothing needs to be done. Else find the damaged batch, copy the partition from a "
        "healthy replica, and start the broker again.",
        ("crc-mismatch", "payload", "offset-order"),
        ("kafkalog recover {log_dir}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.cleaner-died",
        "error",
        ("[kafka-log-cleaner-thread-{number}]: Error due to", "[kafka-log-cleaner-thread-{number}], Error due to"),
        "A thread of the log cleaner died: it compacts nothing until a restart.",
        "Before 2.1 a damaged batch, or a segment whose keys do not fit into the buffer, stops the thread; "
        "__consumer_offsets then grows.",
        "Releases before 2.1 stop cleaning all partitions.",
        "The exception after this line names the partition. Repair it, and start the broker again.",
        ("crc-mismatch", "payload-limit"),
        ("kafkalog recover {log_dir}", "kafkalog verify {log_dir}"),
    ),
    BrokerMessage(
        "broker.cleaner-map-full",
        "error",
        (
            "{count} messages in segment {partition}/{file} but offset map can fit only {number}. You can increase",
            "Unable to build the offset map for segment {partition}/{file}. You can increase",
        ),
        "The log cleaner could not clean {partition}: {file} does not fit into its offset map.",
        "Before 0.10.1 the cleaner maps whole segments only (KAFKA-3894). Its map is log.cleaner.dedupe.buffer.size, "
        "divided by log.cleaner.threads, and has an entry of 24 bytes for each key. Up to 0.9 the number of offsets in "
        "the segment counts, not the number of its keys.",
        "Does not clean the partition.",
        "Raise log.cleaner.dedupe.buffer.size, or lower log.cleaner.threads, and start the broker again. Releases "
        "0.10.1 and later clean a part of such a segment.",
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.cleaner-keyless",
        "warning",
        ("Found {count} invalid messages during compaction.",),
        "Compaction of a partition removed {count} records without a key.",
        "Somebody turned compaction on for a topic that had records without keys.",
        "Removes them: compaction keeps no record without a key.",
        "Nothing needs to be done, if these records are not needed. Else set cleanup.policy=delete, and look for them "
        "on a replica that has not compacted them yet.",
        (),
    ),
    BrokerMessage(
        "broker.cleaner-offset-reset",
        "info",
        (
            (
                "Resetting first dirty offset of {partition} to log start offset {start} since the checkpointed "
                "offset {offset} is invalid"
            ),
            (
                "Resetting first dirty offset to log start offset {start} since the checkpointed offset {offset} is "
                "invalid"
            ),
            (
                "The last checkpoint dirty offset for partition {partition} is {offset}, which is larger than the log "
                "end offset {end}. Resetting to the log start offset {start}"
            ),
        ),
        "cleaner-offset-checkpoint had an offset outside the log; compaction starts at {start}.",
        "Segments were deleted by retention, or the log was truncated.",
        "Ignores the entry and compacts from the start of the log again.",
        _NOTHING,
        (),
        ("kafkalog dump --files {log_dir}/cleaner-offset-checkpoint",),
    ),
    BrokerMessage(
        "broker.roll-existing",
        "error",
        (
            (
                "Trying to roll a new log segment for topic partition {partition} with start offset {offset} "
                "=max(provided offset = {reason}, LEO = {end}) while it already exists. Existing segment is {other}"
            ),
            (
                "Trying to roll a new log segment for topic partition {partition} with start offset {offset} "
                "=max(provided offset = {reason}, LEO = {end}) lower than start offset of the active segment {other}"
            ),
            (
                "Trying to roll a new log segment for topic partition {partition} with start offset {offset} while it "
                "already exists"
            ),
        ),
        "{partition} needs a new segment at offset {offset}, but has a segment with this base offset, or with a higher "
        "one, that is not empty.",
        "The log end offset is not above the base offset of the last segment: its batches have offsets below its "
        "name. The file was renamed or copied from another place, or the base offset of a batch is damaged (no "
        "checksum protects it).",
        "Refuses the append, and every later one that needs a new segment. The partition accepts no records; the log "
        "directory remains online.",
        "Verify the partition: the findings name the segment. If a replica is in sync and leads, stop this broker and "
        "move the partition directory out of the log directory: the broker fetches the partition again.",
        ("segment.misnamed", "offset-order"),
        ("kafkalog recover {log_dir}", "kafkalog dump --segments {place}"),
    ),
    BrokerMessage(
        "broker.roll-empty",
        "warning",
        (
            (
                "Trying to roll a new log segment with start offset {offset}=max(provided offset = {reason}, LEO = "
                "{end}) while it already exists and is active with size 0"
            ),
            (
                "Trying to roll a new log segment with start offset {offset} =max(provided offset = {reason}, LEO = "
                "{end}) while it already exists and is active with size 0"
            ),
            "Deleting segments as part of log roll",
        ),
        "The active segment of {partition} is empty, but one of its indexes has no room for an entry, so the broker "
        "replaced the segment.",
        "An index file was created with a size of 0 (KAFKA-6388), or segment.index.bytes is smaller than an entry.",
        "Deletes the empty segment and creates it again. No record is lost.",
        "Nothing needs to be done, unless the line comes again and again: then raise segment.index.bytes.",
        ("segment.deleted",),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.roll-leftover",
        "warning",
        ("Newly rolled segment file {path} already exists; deleting it first",),
        "{path} existed before the broker rolled a segment of that name, and the broker deleted it.",
        "An earlier roll failed halfway, or somebody put the file there while the broker ran.",
        "Deletes the file and creates an empty one. What a .log of that name held is lost.",
        "Nothing needs to be done, unless somebody put the file there on purpose: then restore it from its origin.",
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.future-timestamp",
        "warning",
        (
            (
                "LogSegment(baseOffset={segment}, {reason}) contains future timestamp(s), making it ineligible to be "
                "deleted"
            ),
            "contains future timestamp(s), making it ineligible to be deleted",
        ),
        "The segment {segment} of {partition} has a record whose timestamp is later than the broker's clock.",
        "The timestamp is of a wrong clock, or its unit is not milliseconds; or the broker's own clock is slow. "
        "Retention by time compares the largest timestamp of a segment with the clock.",
        "Keeps the segment, and every later one, until that timestamp is older than retention.ms. Retention by size "
        "still applies.",
        "Look at the timestamps. If they are wrong, limit retention.bytes, or delete records up to an offset "
        "(kafka-delete-records.sh). message.timestamp.after.max.ms refuses such records from now on.",
        ("batch.future-timestamp", "retain.future-timestamp"),
        ("kafkalog dump --segments {place}", "kafkalog retain {place}"),
    ),
    BrokerMessage(
        "broker.records-deleted",
        "info",
        (
            "Found deletable segments with base offsets {reason} due to log start offset {start} breach",
            "Deleting segments due to log start offset {start} breach",
        ),
        "Segments of {partition} were deleted, because all of their records are below its log start offset, {start}.",
        "A client deleted the records (kafka-delete-records.sh, or an application that no longer needs them), or the "
        "leader's log starts there.",
        "Renames the files to .deleted and deletes them after file.delete.delay.ms.",
        "If this was intended, nothing needs to be done. Else copy the .deleted files within a minute, and find the "
        "client.",
        ("segment.deleted",),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.segments-truncated",
        "warning",
        (
            "Deleting segments as part of log truncation: {reason}",
            "Deleting segments as part of log recovery: {reason}",
        ),
        "Segments of {partition} were deleted, because the log was truncated before them.",
        "Recovery truncated the log at its first bad batch, or a follower truncated it where its leader's log ends: a "
        "line near this one shows which.",
        "Renames the files to .deleted and deletes them after file.delete.delay.ms.",
        "If no other replica has the records, stop the broker within a minute and copy the .deleted files.",
        ("segment.deleted",),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.retention",
        "info",
        (
            "Found deletable segments with base offsets {reason} due to {other} breach",
            "Deleting segment {segment} from log {partition}.",
            "Deleting segment LogSegment(baseOffset={segment}",
            "Deleting segments due to {reason}",
            "Deleting segments as the log has been deleted",
            "Deleting segment files {reason}",
            "Scheduling log segment {segment} for log {partition} for deletion",
            "Scheduling segments for deletion {reason}",
            "Deleted log {path}.",
            "Deleted offset index {path}.",
            "Deleted time index {path}.",
            "Deleted transaction index {path}.",
            "Deleting index {path}",
        ),
        "Segments were deleted.",
        "Retention by time or size applied, compaction had replaced them, a client deleted their records, the log was "
        "truncated, or the topic was deleted: a line before this one may show which.",
        "Renames the files to .deleted and deletes them after file.delete.delay.ms.",
        "If this was intended, nothing needs to be done. Else copy the .deleted files within a minute, and raise "
        "retention.ms or retention.bytes if it was retention.",
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
        "Retention deleted segments, or a client deleted records.",
        "Serves no offset below it.",
        _NOTHING,
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.dir-deleted",
        "info",
        (
            "Deleted log for partition {other} in {entry}.",
            "Log for partition {partition} is renamed to {partition_dir} and is scheduled for deletion",
        ),
        "{path} was deleted from this broker.",
        "Its topic was deleted, or the replica was moved away.",
        "Renames the directory to end in -delete, and deletes it a minute later.",
        "If this was intended, nothing needs to be done. Else stop the broker and copy the -delete directory at once.",
        ("dir.delete",),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.load-stopped",
        "info",
        ("Failed to load metadata from {partition} with epoch {number} due to Stopped loading records from {reason}",),
        "A coordinator stopped loading {partition}, because the broker no longer leads it, or it is offline.",
        "The leader changed while the partition was loaded, as it does after an unclean stop.",
        "Stops loading it.",
        "Nothing needs to be done, if no line about a failed log directory comes with it.",
        (),
        ("kafkalog groups {log_dir}",),
    ),
    BrokerMessage(
        "broker.load-from-topic",
        "warning",
        ("Failed to load metadata from {partition} with epoch {number} due to {reason}.",),
        "A coordinator could not load {partition}: {reason}.",
        "The partition is not online here, or its records cannot be read.",
        "Has no coordinator for the groups or transactions of that partition.",
        "Look for errors about this partition in the lines before.",
        ("groups.unread", "groups.undecoded"),
        ("kafkalog groups {log_dir}", "kafkalog dump --records {place}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.coordinator-write-failed",
        "warning",
        (
            "Failed to flush the pending records to {partition}: {reason}.",
            "Failed to write records to {partition} due to an unexpected error: {reason}.",
            "The state machine of the coordinator {partition} is out of sync with the underlying log",
        ),
        "The coordinator of groups, shares or transactions could not append its records to {partition}: {reason}.",
        "The append failed: the log directory is offline, the broker no longer leads the partition, or the log "
        "refuses the batch. A line before this one may have the exception.",
        "Does not append them.",
        "Nothing needs to be done if clients continue. Else look for errors about this partition in the lines before, "
        "and verify it.",
        ("file.not-readable",),
    ),
    BrokerMessage(
        "broker.move-failed",
        "warning",
        (
            "[ReplicaAlterLogDirsThread-{number}]: Partition {partition} marked as failed",
            "Partition {partition} marked as failed",
        ),
        "The broker stopped copying {partition}, from its leader or to another log directory.",
        "The exception in the lines before shows the reason.",
        "Stops copying it.",
        "Repair the cause in the exception, then start the broker again.",
        ("dir.future",),
    ),
)


def _elsewhere(name: str, happened: str, *wordings: str, why: str = "") -> BrokerMessage:
    return BrokerMessage(
        name=f"broker.{name}",
        severity="info",
        wordings=wordings,
        happened=happened,
        why=why or "Starts, stops and elections cause this message.",
        broker_action="Does nothing to a log directory.",
        cure="Nothing needs to be done on the disk.",
        commands=(),
        is_elsewhere=True,
    )


_FILE_OF_SETTINGS: Final = _elsewhere(
    "elsewhere-settings-file",
    "A file that a setting refers to could not be read.",
    "Could not read file {other} for property",
    why="DirectoryConfigProvider reads secrets and other settings from files.",
)
"""It comes before the message about a file of a partition, which begins with the same words."""

ELSEWHERE: Final = (
    _FILE_OF_SETTINGS,
    _elsewhere(
        "elsewhere-controller",
        "The controller changed, a registration was out of date, or no broker led a partition for a moment.",
        "Performing controller activation",
        "NotControllerException",
        "The active controller appears to be node",
        "initiated state change for partition {partition} from OfflinePartition to OnlinePartition failed",
        "NoReplicaOnlineException",
        "STALE_BROKER_EPOCH",
        "StaleBrokerEpochException",
        "handleResponse: unexpected callback exception",
        "Renouncing the leadership due to a metadata log event",
        "controller event queue overloaded. Timed out heartbeat from broker {broker}",
        "channel manager timed out before sending the request",
    ),
    _elsewhere(
        "elsewhere-shutdown",
        "Something was closed twice, or was already closed, during a stop.",
        "Attempting to close NetworkClient that has already been closed",
        "event unable to start processing because of RejectedExecutionException",
        "Exception while execution the action",
        "ClosedChannelException",
    ),
    _elsewhere(
        "elsewhere-network",
        "A connection was lost or refused.",
        "Closing socket for {other} because of error",
        "Connection to node {number} ({other}) could not be established",
        "Error in response for fetch request",
        "for server {other}, unexpected error, closing socket connection and attempting reconnect",
        "Broken pipe",
        "Connection reset by peer",
        "Connection refused",
    ),
    # Partition.shrinkIsr, appendRecordsToLeader
    _elsewhere(
        "elsewhere-isr",
        "Replicas of {partition} are not in sync with its leader.",
        "The size of the current ISR {reason} is insufficient to satisfy the min.isr requirement of {number} for "
        "partition {partition}",
        "[Partition {partition} broker={broker}] Shrinking ISR from {reason}",
        why="Their brokers are stopped or slow, or refuse what the leader sends: their own logs show why. Below "
        "min.insync.replicas, requests with acks=all are refused.",
    ),
    # NetworkClient.DefaultMetadataUpdater.handleSuccessfulResponse
    _elsewhere(
        "elsewhere-topic-unknown",
        "A client asked for a topic that does not exist, or of which no replica leads now.",
        "Error while fetching metadata with correlation id {number}",
        "The metadata response from the cluster reported a recoverable issue with correlation id {number}",
        why="The topic is new, is misspelled, or its brokers are stopped. The client asks again.",
    ),
    _elsewhere(
        "elsewhere-controller-late",
        "The controller began a task of its own too late, and dropped it.",
        "unable to start processing because of TimeoutException",
        why="It was starting, or the machine is too busy. The controller plans such a task again.",
    ),
    _elsewhere(
        "elsewhere-not-kafka",
        "Something connected to the broker, and what it sent cannot be read as a request.",
        "Invalid receive (size = {number} larger than {count})",
        "Error parsing request header. Our best guess of the apiKey",
        "Unexpected error from {other}closing connection",
        "Exception while processing request from",
        why="A port scanner, a health check or an HTTP client did, or a client with TLS at a listener without it (its "
        "size is 369295616 or a little more; that of HTTP's GET is 1195725856).",
    ),
    _elsewhere(
        "elsewhere-configuration",
        "A setting is unknown, invalid or unwise.",
        "Property {other} is not valid",
        "It is smaller than message.timestamp.difference.max.ms's value",
        why="The broker writes this remark about settings at each start.",
    ),
)


BROKER_MESSAGES: Final = {
    message.name: message
    for message in (
        _FILE_OF_SETTINGS,
        CANNOT_READ,
        *RECOVERY,
        *FILES,
        *METADATA,
        *DIRECTORIES,
        *REPLICATION,
        *COORDINATORS,
        *ZOOKEEPER_MESSAGES,
        *REMOTE,
        *RUNNING,
        *TASKS,
        *ELSEWHERE,
    )
}
"""By name, in the order in which they are tried."""
