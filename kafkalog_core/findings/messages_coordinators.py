"""Messages about groups and transactions: of the coordinators, and of consumers that were refused an offset.

The lines of consumers are in the logs of applications. They are here because the disks of the brokers answer them.
"""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import BrokerMessage

__all__ = ["CANNOT_READ", "COORDINATORS"]


_GROUPS: Final = "kafkalog groups {log_dir}"
_IMPACT: Final = "kafkalog impact {log_dir}"
_TRANSACTIONS: Final = "kafkalog transactions {log_dir}"
_RECORDS: Final = "kafkalog dump --records {place}"
_UPGRADE: Final = "A later release wrote the record, before the broker was downgraded; or its key is damaged."
_WITHOUT_OFFSETS: Final = "Answers for its groups as if they had no offsets, except for those that it could load."
_IGNORED: Final = "Ignores the record, and loads the rest of the partition."

# Fetcher.CompletedFetch up to 3.4, then CompletedFetch, of the Java consumer
CANNOT_READ: Final = BrokerMessage(
    "broker.consumer-cannot-read",
    "error",
    (
        "Received exception when fetching the next record from {partition}. If needed",
        "Record batch for partition {partition} at offset {offset} is invalid, cause: {reason}",
        "Record for partition {partition} at offset {offset} is invalid, cause: {reason}",
    ),
    "A Java consumer cannot read a batch of {partition}.",
    "The batch is damaged on the disk of the leader. The exception after the line has its offset and the reason.",
    "Serves the batch again at each fetch.",
    "Verify the partition on the disk of the leader, and run kafkalog recover there before consumers seek past the "
    "batch, which skips what they have not read of it.",
    ("crc-mismatch",),
    ("kafkalog verify LEADER_LOG_DIR/{partition}",),
)
"""It comes before the message about a checksum, which its second line has too."""

COORDINATORS: Final = (
    # GroupMetadataManager.loadGroupsAndOffsets of 0.10 to 3.9 caches the groups after the last record was read, and
    # answers for the partition even if that failed.
    BrokerMessage(
        "broker.groups-not-loaded",
        "error",
        ("Error loading offsets from {partition}", "Error in loading offsets from {partition}"),
        "The group coordinator could not load the groups in {partition}.",
        "A batch or a record of the partition cannot be read; the exception in the lines after shows the reason.",
        _WITHOUT_OFFSETS,
        "Stop the consumers of these groups. Save their offsets before you repair the partition: groups reads what is "
        "left of them.",
        ("groups.unread", "groups.undecoded"),
        (_GROUPS, "kafkalog recover {log_dir}"),
    ),
    # GroupMetadataManager.doLoadGroupsAndOffsets of 0.10 to 3.3 throws an IllegalStateException, readMessageKey of
    # 2.8 too.
    BrokerMessage(
        "broker.group-key-refused",
        "error",
        (
            "Unexpected message key {reason} while loading offsets and group metadata",
            "Unknown group metadata message version: {reason}",
        ),
        "A record of __consumer_offsets has a key that this release does not know: {reason}.",
        _UPGRADE,
        _WITHOUT_OFFSETS,
        "Start the release that wrote the record, or a later one. groups reads all versions.",
        ("groups.undecoded",),
        (_GROUPS,),
    ),
    # TransactionStateManager.loadTransactionMetadata of 3.9 and later
    BrokerMessage(
        "broker.transaction-key-ignored",
        "warning",
        (
            (
                "Unknown message key with version {version} while loading transaction state from {partition}. Ignoring "
                "it. It could be a left over from an aborted upgrade"
            ),
            (
                "Unknown message value with version {version} while loading transaction state from {partition}. "
                "Ignoring it. It could be a left over from an aborted upgrade"
            ),
        ),
        "A record of {partition} has a key or a value of version {version}, which this release does not know.",
        _UPGRADE,
        _IGNORED,
        "Look at the record, if the broker was not downgraded.",
        (),
        (_TRANSACTIONS, _RECORDS),
    ),
    # GroupMetadataManager.doLoadGroupsAndOffsets of 3.9, CoordinatorLoaderImpl.doLoad of 3.9 and later
    BrokerMessage(
        "broker.group-key-ignored",
        "warning",
        (
            (
                "Unknown message key with version {version} while loading offsets and group metadata from {partition}. "
                "Ignoring it. It could be a left over from an aborted upgrade"
            ),
            (
                "Unknown record type {version} while loading offsets and group metadata from {partition}. Ignoring it. "
                "It could be a left over from an aborted upgrade"
            ),
        ),
        "A record of {partition} has a key of version {version}, which this release does not know.",
        _UPGRADE,
        _IGNORED,
        "Look at the record, if the broker was not downgraded.",
        ("groups.undecoded",),
        (_GROUPS, _RECORDS),
    ),
    # GroupMetadata.computeSubscribedTopics, since 4.0 ClassicGroup.computeSubscribedTopics
    BrokerMessage(
        "broker.subscription-undecoded",
        "warning",
        (
            (
                "Failed to parse Consumer Protocol {reason} of group {other}. Consumer group coordinator is not aware "
                "of the subscribed topics"
            ),
        ),
        "The coordinator does not know the topics that the members of group {other} subscribe to.",
        "A client sends a subscription of its own form under the protocol type consumer.",
        "Continues.",
        "Nothing needs to be done, if the client is known to send its own form.",
        ("groups.undecoded",),
        ("kafkalog groups --group {other} {log_dir}",),
    ),
    # TransactionStateManager.loadTransactionMetadata returns what it has read up to the error.
    BrokerMessage(
        "broker.transactions-not-loaded",
        "error",
        ("Error loading transactions from transaction log {partition}",),
        "The transaction coordinator could not read {partition} to its end.",
        "A batch or a record of the partition cannot be read; the exception in the lines after shows the reason.",
        "Continues with the transactions as they were before that record.",
        "Look for transactions that hold a partition back, before you repair the transaction log.",
        ("crc-mismatch",),
        (_TRANSACTIONS, "kafkalog recover {log_dir}"),
    ),
    # TransactionCoordinator.endTransaction, onEndTransactionComplete
    BrokerMessage(
        "broker.transaction-not-aborted",
        "warning",
        (
            (
                "The coordinator failed to write an epoch fence transition for producer {other} to the transaction log "
                "with error {reason}. The epoch was increased to {number} but not returned to the client"
            ),
            (
                "The coordinator failed to write an epoch fence transition for producer {other} to the transaction log "
                "with error {reason}"
            ),
            "Rollback of ongoing transaction for transactionalId {other} failed due to error {reason}",
        ),
        "The transaction of {other} is to be aborted, but the coordinator could not write this to __transaction_state: "
        "{reason}.",
        "The error is that of the append to __transaction_state.",
        "Leaves the transaction open, and tries again when it next looks for transactions that have timed out.",
        "Look for errors about __transaction_state in the lines before.",
        ("txn.open",),
        (_TRANSACTIONS,),
    ),
    # TransactionStateManager.loadTransactionMetadata: it adds to the cache what it has read, nothing here
    BrokerMessage(
        "broker.transactions-no-log",
        "warning",
        ("Attempted to load transaction metadata from {partition}, but found no log",),
        "The broker is to coordinate the transactions of {partition}, and has no log of it.",
        "The log directory of the partition is offline, or the partition has moved away meanwhile.",
        "Answers for it as if it had no transactional id.",
        "Look for errors about __transaction_state and its log directory in the lines before.",
        ("dir.partition-missing",),
        (_TRANSACTIONS,),
    ),
    # TransactionStateManager.loadTransactionMetadata, CoordinatorLoaderImpl.doLoad
    BrokerMessage(
        "broker.load-buffer-larger",
        "info",
        (
            (
                "Loaded transaction metadata from {partition} with buffer larger ({size_bytes} bytes) than configured "
                "transaction.state.log.load.buffer.size ({number} bytes)"
            ),
            (
                "Loaded metadata from {partition} with buffer larger ({size_bytes} bytes) than configured buffer size "
                "({number} bytes)"
            ),
        ),
        "{partition} has a batch of {size_bytes} bytes, more than the buffer with which a coordinator loads it.",
        "A large group or many records in one batch, or the size of a batch is damaged.",
        "Loads the partition with a larger buffer.",
        "Nothing needs to be done, if the topic may have batches of this size.",
        ("bad-length",),
        ("kafkalog verify {place}",),
    ),
    # TransactionStateManager.removeExpiredTransactionalIds
    BrokerMessage(
        "broker.transactions-not-expired",
        "info",
        ("Transaction expiration for partition {number} failed because the log config was not available",),
        "The coordinator could not delete the transactional ids that have expired in __transaction_state-{number}.",
        "The partition is not online here, or has moved to another broker.",
        "Tries again at its next check.",
        "Nothing needs to be done, if the partition has moved.",
        (),
        (_TRANSACTIONS,),
    ),
    # CoordinatorRuntime.CoordinatorContext.completeTransaction
    BrokerMessage(
        "broker.marker-not-written",
        "error",
        (
            "Failed to write the transaction marker to {partition} because it is too large to be persisted",
            "Failed to write the transaction marker to {partition} due to an unexpected error: {reason}.",
        ),
        "A coordinator could not append the marker of a transaction to {partition}.",
        "The append failed: an exception in the lines after shows why.",
        "Does not write the marker: the offsets of the transaction are not committed yet.",
        "Look for errors about {partition} in the lines before, and for transactions that are open.",
        ("txn.open",),
        (_TRANSACTIONS, "kafkalog verify {place}"),
    ),
    # CoordinatorRuntime.CoordinatorContext.append, failCurrentBatch
    BrokerMessage(
        "broker.record-not-replayed",
        "error",
        ("Replaying record {other} to {partition} failed due to: {reason}.",),
        "A coordinator could not apply a record that it was about to write to {partition}: {reason}.",
        "The state of the coordinator does not fit the record: a bug of the release, or a partition that was changed.",
        "Writes no record of that batch, and answers its requests with an error.",
        "Look for the exception among the bugs of the release, and compare the groups on the disk.",
        ("groups.undecoded",),
        (_GROUPS,),
    ),
    # GroupCoordinatorService.handleTopicsDeletion
    BrokerMessage(
        "broker.offsets-not-deleted",
        "warning",
        ("Could not delete offsets for deleted topics {other} due to: {reason}.",),
        "Topics were deleted, and their committed offsets could not be deleted: {reason}.",
        "The group coordinator could not write to a partition of __consumer_offsets.",
        "Deletes the topics, and keeps the offsets that groups have committed for them.",
        "Look for errors about __consumer_offsets in the lines before. kafka-consumer-groups.sh --delete-offsets "
        "deletes such offsets.",
        (),
        (_GROUPS,),
    ),
    # CoordinatorRuntime.CoordinatorContext.flushCurrentBatch
    BrokerMessage(
        "broker.coordinator-batch-too-large",
        "error",
        (
            (
                "Failed to write a batch of {count} record(s) to {partition} because it is larger than the maximum "
                "batch size of {number} bytes"
            ),
        ),
        "A coordinator could not append a batch to {partition}: it is larger than {number} bytes.",
        "max.message.bytes of the topic is {number}.",
        "Does not append it.",
        "Raise max.message.bytes of the topic.",
        (),
        ("kafkalog dump --segments {place}",),
    ),
    BrokerMessage(
        "broker.consumer-out-of-range",
        "warning",
        (
            "Fetch position {reason} is out of range for partition {partition}, resetting offset",
            (
                "Fetch position {reason} is out of range for partition {partition}, raising error to the application "
                "since no reset policy is configured"
            ),
            "Fetch position {reason} is out of range for partition {partition}",
            "Fetch offset {offset} is out of range for partition {partition}, resetting offset",
            "Fetch offset {offset} is out of range, resetting offset",
            "Offsets out of range with no configured reset policy for partitions: {reason}",
        ),
        "A consumer is at an offset that the log of {partition} does not have.",
        "The log was truncated below this offset, or retention deleted the records before the consumer read them.",
        "Answers the fetch with OFFSET_OUT_OF_RANGE. The consumer resets to what auto.offset.reset says, or stops with "
        "an error if that is none.",
        "Compare the committed offsets with the logs before the consumer commits a new one.",
        (),
        (_GROUPS, _IMPACT),
    ),
    BrokerMessage(
        "broker.consumer-diverged",
        "warning",
        (
            (
                "Truncation detected for partition {partition} at offset {reason}, resetting offset to the first "
                "offset known to diverge {other}"
            ),
            "Truncation detected for partition {partition} at offset {reason}, resetting offset",
            (
                "Truncation detected for partition {partition} at offset {reason} (the end offset from the broker is "
                "{other}), but no reset policy is set"
            ),
            "Truncation detected for partition {partition} at offset {reason}, but no reset policy is set",
        ),
        "A consumer has read records of {partition} that the leader does not have.",
        "The leader was elected uncleanly, or lost the end of its log.",
        "The consumer continues there, or stops with an error if auto.offset.reset is none.",
        "Look for the missing records on other replicas, and see which groups read others instead.",
        (),
        (_GROUPS, _IMPACT),
    ),
)
