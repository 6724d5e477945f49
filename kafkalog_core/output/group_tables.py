"""The rows of `kafkalog groups`: groups, their members and offsets, and what happened to them."""

from __future__ import annotations

from typing import Final

from kafkalog_core.output.schema import Column, new_table

__all__ = ["GROUP", "GROUP_EVENT", "GROUP_MEMBER", "GROUP_OFFSET"]

_GROUP: Final = Column("group", "string", "id of the group")

GROUP: Final = new_table(
    "group",
    _GROUP,
    Column("group_type", "string", "classic, consumer (KIP-848), share or streams"),
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
    Column("offset", "int64", "the committed offset, the next to be read; null: none"),
    Column("leader_epoch", "int32", "of the record before it; null: unknown"),
    Column("metadata", "string", "text that the consumer added"),
    Column("commit_timestamp_ms", "int64", "when it was committed"),
    Column("log_start_offset", "int64", "of the log of that partition; null: it is not on these disks"),
    Column("log_end_offset", "int64", "of that log"),
    Column("lag", "int64", "records from the committed offset to the end; negative: it is past the end"),
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
        "rebalance, empty, group-deleted, epoch, member, member-left, target, assignment or unknown",
    ),
    Column("topic", "string", "of an offset"),
    Column("partition", "int32", "of an offset"),
    Column("offset", "int64", "the committed offset"),
    Column("epoch", "int32", "generation or epoch of the group or member"),
    Column("member_id", "string", "the member; of a commit who had the partition then, by the assignments"),
    Column("producer_id", "int64", "of a transaction"),
    Column("detail", "string", "what else the record says"),
)
