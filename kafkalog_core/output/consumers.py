"""The rows about consumers and producers: groups, transactions, what a change means for groups, and partitions."""

from __future__ import annotations

from typing import Final

from kafkalog_core.output.schema import Column, new_table

__all__ = [
    "GROUP",
    "GROUP_EVENT",
    "GROUP_MEMBER",
    "GROUP_OFFSET",
    "IMPACT",
    "STABLE_OFFSET",
    "TRANSACTION",
    "TRANSACTION_PART",
    "WHICH_PARTITION",
]

_GROUP: Final = Column("group", "string", "id of the group")

GROUP: Final = new_table(
    "group",
    _GROUP,
    Column("group_type", "string", "classic, consumer (KIP-848), share, streams, or zookeeper (of old consumers)"),
    Column(
        "state",
        "string",
        "as Kafka's tools show it once a coordinator has loaded the log: Empty, Stable, Assigning, Reconciling, "
        "NotReady or Dead",
    ),
    Column("protocol_type", "string", "consumer, connect and others; empty: nobody joined it"),
    Column("protocol", "string", "the assignor; empty: there is none"),
    Column("epoch", "int32", "generation of a classic group, epoch of the others; null: it has no record"),
    Column("members", "int64", "members"),
    Column("partitions", "int64", "partitions with a committed offset"),
    Column(
        "lag", "int64", "records after its offsets; null: the log of some partition is not on these disks, or no offset"
    ),
    Column("known_lag", "int64", "the same of the partitions whose log is on these disks; null: of none"),
    Column("last_commit_ms", "int64", "time of its last commit; null: none"),
    Column("problems", "map", "number of its offsets in each state of group_offset in which a consumer is reset"),
    Column("pending", "int64", "offsets in open transactions"),
    Column("expired", "int64", "offsets that a coordinator would delete now (--now)"),
    Column("expires_ms", "int64", "from when on it would delete the first one; null: not while the group is as it is"),
)
GROUP_OFFSET: Final = new_table(
    "group_offset",
    _GROUP,
    Column("topic", "string", "topic"),
    Column("partition", "int32", "partition number"),
    Column("offset", "int64", "the committed offset, the next to be read; share groups: the start offset; null: none"),
    Column("leader_epoch", "int32", "of the record before it; null: unknown"),
    Column("metadata", "string", "text that the consumer added"),
    Column("commit_timestamp_ms", "int64", "when it was committed; share groups: when the state was last changed"),
    Column("log_start_offset", "int64", "of the log of that partition; null: it is not on these disks"),
    Column("log_end_offset", "int64", "of that log"),
    Column(
        "lag", "int64", "records from the offset to the end; negative: it is past it; share groups: those not done with"
    ),
    Column("record_timestamp_ms", "int64", "timestamp of the record at the committed offset; null: none, or unknown"),
    Column("lag_ms", "int64", "from that timestamp to the largest of the last records; null: unknown"),
    Column(
        "state",
        "string",
        "ok, past-end, below-start, topic-deleted, topic-recreated, not-here (the log is not on these disks), "
        "not-committed (a member has the partition), or unknown-then (compaction has removed it)",
    ),
    Column("detail", "string", "what is wrong; null: nothing is"),
    Column("pending_offset", "int64", "an offset in an open transaction; null: none"),
    Column("pending_producer_id", "int64", "producer of that transaction"),
    Column("expires_ms", "int64", "from when on a coordinator would delete it; null: not while the group is as it is"),
    Column("member_id", "string", "who had the partition then, by the assignments (a commit names no member); --group"),
    Column("topic_id", "string", "in the record; null: unknown (before 4.1)"),
    Column("record_offset", "int64", "offset of the commit's record in __consumer_offsets"),
    Column(
        "share_batches",
        "json",
        "delivered after the start offset of a share group: first, last, state, deliveries; null: another group",
    ),
)
GROUP_MEMBER: Final = new_table(
    "group_member",
    _GROUP,
    Column("member_id", "string", "id of the member"),
    Column("instance_id", "string", "of a static member; null: it is dynamic"),
    Column("client_id", "string", "of its client"),
    Column("host", "string", "where its client was"),
    Column("epoch", "int32", "of the member; null: it has none"),
    Column("assignment", "map", "partition numbers by topic; a topic of an unknown name by its id"),
)
GROUP_EVENT: Final = new_table(
    "group_event",
    _GROUP,
    Column("record_offset", "int64", "offset of the record or marker in __consumer_offsets"),
    Column("timestamp_ms", "int64", "its timestamp"),
    Column(
        "event",
        "string",
        "commit, pending-commit (in a transaction), transaction-committed, transaction-aborted, offset-deleted, "
        "rebalance, empty, group-deleted, epoch, member, member-left, target, assignment, topology or unknown",
    ),
    Column("topic", "string", "of an offset"),
    Column("partition", "int32", "of an offset"),
    Column("offset", "int64", "the committed offset"),
    Column("epoch", "int32", "generation or epoch of the group or member"),
    Column("member_id", "string", "the member; of a commit who had the partition then, by the assignments"),
    Column("producer_id", "int64", "of a transaction"),
    Column("detail", "string", "what else the record says"),
)
_COPY: Final = (
    Column("topic", "string", ""),
    Column("partition", "int32", ""),
    Column("path", "string", "directory of the copy"),
    Column("is_chosen", "bool", "whether it is the copy with which a cluster would go on"),
)
_TRANSACTION_KIND: Final = Column(
    "kind",
    "string",
    "hanging, undecided, prepared, timed-out, ongoing, lagging (another copy has its marker), aborted, committed, "
    "empty or dead",
)
_TRANSACTION_ACTION: Final = Column("broker_action", "string", "what brokers do about it once they are started")
TRANSACTION: Final = new_table(
    "transaction",
    Column("transactional_id", "string", "null: no transactional id has this producer, or it is unknown"),
    Column("producer_id", "int64", ""),
    Column("producer_epoch", "int16", ""),
    _TRANSACTION_KIND,
    Column("state", "string", "of the coordinator, by Kafka's name; null: unknown"),
    Column("timeout_ms", "int32", "after which the coordinator aborts it"),
    Column("start_time_ms", "int64", "when it began, by the coordinator; null: none has begun"),
    Column("update_time_ms", "int64", "of the last change of the state"),
    Column("partitions", "string", "partitions that the coordinator has for it, comma separated"),
    Column("open_in", "string", "partitions in whose logs it is open, comma separated"),
    Column("absent", "string", "partitions of the coordinator that are not on these disks, comma separated"),
    Column("aborted", "int64", "aborted transactions of the producer in the transaction indexes"),
    _TRANSACTION_ACTION,
)
TRANSACTION_PART: Final = new_table(
    "transaction_part",
    *_COPY,
    Column("transactional_id", "string", "null: unknown"),
    Column("producer_id", "int64", ""),
    Column("producer_epoch", "int16", "of its last batch; null: it has ended"),
    Column("coordinator_epoch", "int32", "of the last marker of the producer; -1: none; null: it has ended"),
    _TRANSACTION_KIND,
    Column("first_offset", "int64", "of its first batch"),
    Column("last_offset", "int64", "of its marker; null: it is open"),
    Column("first_timestamp_ms", "int64", "of its first record, by the clock of the client; null: unknown"),
    Column("last_timestamp_ms", "int64", "of the last batch of the producer; null: it has ended"),
    Column("records", "int64", "records of it, by the headers of its batches; null: it has ended"),
    Column("is_listed", "bool", "aborted: whether a transaction index lists it; else null"),
    _TRANSACTION_ACTION,
    Column(
        "next_command",
        "string",
        "hanging: the command line that aborts it; undecided: that asks brokers for it; else null",
    ),
)
STABLE_OFFSET: Final = new_table(
    "stable_offset",
    *_COPY,
    Column("log_start_offset", "int64", ""),
    Column("last_stable_offset", "int64", "where read_committed consumers stop: first offset of an open transaction"),
    Column("log_end_offset", "int64", "offset after the last batch"),
    Column("high_watermark", "int64", "in the checkpoint; null: none"),
    Column("waiting_records", "int64", "records from the last stable offset on, by the headers of their batches"),
    Column("last_timestamp_ms", "int64", "largest timestamp of these; null: there are none"),
    Column("transactional_id", "string", "of the transaction that holds it back; null: unknown"),
    Column("producer_id", "int64", "of that transaction"),
    _TRANSACTION_KIND,
    Column("start_time_ms", "int64", "when that transaction began, by its coordinator; null: unknown"),
    Column("first_timestamp_ms", "int64", "of its first record, by the clock of the client; null: unknown"),
    Column("open_transactions", "int64", "open transactions in this copy"),
    Column("next_stable_offset", "int64", "the last stable offset once that transaction has ended"),
)
IMPACT: Final = new_table(
    "impact",
    Column("group", "string", "group of consumers"),
    Column("topic", "string", "topic"),
    Column("partition", "int32", "partition number"),
    Column(
        "effect",
        "string",
        "unchanged; repeats: it reads records again; skips: records that it has not read are gone; reset: "
        "auto.offset.reset decides; diverges: the log has other records than the ones that it read; stops: it comes to "
        "damage; unknown",
    ),
    Column("records", "int64", "records of the effect: read again, gone, or other ones; null: not one number"),
    Column("committed_offset", "int64", "the offset that the group has committed; null: none"),
    Column("leader_epoch", "int32", "leader epoch of that commit; -1: none"),
    Column("committed_offset_after", "int64", "what is left of its commits afterwards; null: none"),
    Column(
        "resume_offset", "int64", "the next offset that it reads; null: auto.offset.reset decides, or it is unknown"
    ),
    Column("log_start_offset", "int64", "log start offset afterwards"),
    Column("log_end_offset", "int64", "log end offset afterwards"),
    Column("unread_records", "int64", "records from the committed offset on, as the log is now"),
    Column("remaining_records", "int64", "records to read afterwards, from resume_offset on; null: there is none"),
    Column("repeated_records", "int64", "records that it reads again; null: auto.offset.reset decides"),
    Column("skipped_records", "int64", "records that it has not read and cannot read afterwards"),
    Column("first_skipped_timestamp_ms", "int64", "smallest timestamp of these, if they are at an end of the log"),
    Column("last_skipped_timestamp_ms", "int64", "largest timestamp of these"),
    Column("earliest_offset", "int64", "reset: where auto.offset.reset=earliest goes on"),
    Column("earliest_repeated", "int64", "records that it reads again then"),
    Column("earliest_skipped", "int64", "records that are gone then"),
    Column("latest_offset", "int64", "reset: where auto.offset.reset=latest goes on"),
    Column("latest_skipped", "int64", "records that are gone or skipped then"),
    Column("truncated_to", "int64", "where a client goes on that checks leader epochs (KIP-320); null: as all others"),
    Column("reused_offsets", "int64", "offsets below the committed one that new records get again"),
    Column("damage_offset", "int64", "offset of the first place that its consumers cannot read; null: none was found"),
    Column("reset_offset", "int64", "where the group should be: it repeats and skips as little as possible there"),
    Column("expires_ms", "int64", "when its offset expires, as the group is now; null: not while it is so"),
    Column("is_expired", "bool", "whether that is over: the coordinator deletes the offset at its next check"),
    Column("detail", "string", "the same in sentences"),
    Column("path", "string", "directory of the log; null: it is on none of the disks"),
)
WHICH_PARTITION: Final = new_table(
    "which_partition",
    Column("kind", "string", "group, transactional_id, share_state, remote_log or key"),
    Column("name", "string", "what is hashed: the group, the transactional id, GROUP:TOPIC_ID:PARTITION; null: a key"),
    Column("key", "bytes", "the key; null: a name"),
    Column("topic", "string", "Kafka's own topic that holds the records; null: a key"),
    Column("partition", "int32", "the partition of the name or the key"),
    Column("partitions", "int32", "the number of partitions that was given"),
    Column("partitioner", "string", "of a key: murmur2, java-hashcode or crc32; null: a name"),
    Column("hash", "int64", "the hash, with its sign; null: remote_log, which has several"),
)
