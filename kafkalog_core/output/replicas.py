"""The rows of a comparison of replicas: a partition, each copy of it, and where copies differ."""

from __future__ import annotations

from typing import Final

from kafkalog_core.output.schema import DAMAGE_COUNTS, PLACE, Column, new_table

__all__ = ["REPLICA", "REPLICA_COPY", "REPLICA_RANGE"]

REPLICA: Final = new_table(
    "replica",
    *PLACE[:2],
    Column(
        "state",
        "string",
        "the worst that is true of any copy: another-topic (topic ids differ), divergent, damaged, missing (records "
        "are missing that no compaction removed), behind, compacted (cleaned to different points), trimmed (old "
        "segments are deleted in some), identical, or alone (one copy)",
    ),
    Column("copies", "int64", "directories that were compared"),
    Column("keep", "string", "the copy to keep; null: the disks do not show it"),
    Column(
        "basis",
        "string",
        "what shows which history is the true one: leader-epoch, high-watermark, length, or null: they do not differ",
    ),
    Column("reason", "string", "why that copy, and what to do first, in plain sentences"),
    Column("divergent_offset", "int64", "first offset at which copies hold different histories; null: none"),
    Column("log_start_offset", "int64", "the earliest of all copies"),
    Column("log_end_offset", "int64", "the farthest of all copies"),
    Column("records_at_risk", "int64", "records that only copies have which are not to be kept"),
    Column("at_risk_first_offset", "int64", "first offset of these records; null: there are none"),
    Column("at_risk_last_offset", "int64", "their last offset"),
    Column("at_risk_first_timestamp_ms", "int64", "their earliest timestamp; null: they have none"),
    Column("at_risk_last_timestamp_ms", "int64", "their latest timestamp"),
    Column("at_risk_in", "map", "paths of the copies that have them"),
    Column("leader", "int32", "node id of the leader by the metadata log; -1: none, null: no such log is known"),
    Column("isr", "map", "node ids of the in-sync replicas by the metadata log"),
)
REPLICA_COPY: Final = new_table(
    "replica_copy",
    *PLACE[:2],
    Column("path", "string", "of the directory"),
    Column("node_id", "string", "of the broker, by the log directory's meta.properties; null: none"),
    Column("state", "string", "as in replica, of this copy compared with the one to keep; keep: this is the one"),
    Column("advice", "string", "what to do with it, in one sentence"),
    Column("topic_id", "string", "of partition.metadata; null: none"),
    Column("log_start_offset", "int64", "first offset that a broker serves"),
    Column("log_end_offset", "int64", "offset after the last whole batch"),
    Column("high_watermark", "int64", "as checkpointed; null: not known"),
    Column("leader_epoch", "int32", "the latest that the log or its leader-epoch-checkpoint knows; null: none"),
    Column(
        "truncation_offset",
        "int64",
        "where a follower truncates it when it fetches from the copy to keep; null: nowhere",
    ),
    Column("divergent_offset", "int64", "first offset at which it differs from the copy to keep; null: none"),
    Column("segments", "int64", "log files"),
    Column("bytes", "int64", "bytes of log"),
    Column("batches", "int64", "whole batches"),
    Column("records", "int64", "records in them, by their headers"),
    *DAMAGE_COUNTS,
    Column("lacks_damaged", "int64", "records that another copy has where this one is damaged"),
    Column("lacks_missing", "int64", "records that another copy has, and this one has lost without damage"),
    Column("lacks_behind", "int64", "records of another copy after the end of this one"),
    Column("lacks_compacted", "int64", "records of another copy that compaction removed here"),
    Column("lacks_trimmed", "int64", "records of another copy before the start of this one"),
    Column("only_here", "int64", "records that no other copy has"),
)
REPLICA_RANGE: Final = new_table(
    "replica_range",
    *PLACE[:2],
    Column("kind", "string", "divergent, epoch (the same records under other leader epochs), or a state of replica"),
    Column("first_offset", "int64", "where the difference starts"),
    Column("last_offset", "int64", "where it ends; if kind is compacted, parts between may agree"),
    Column("records", "int64", "records there, in the copy that has most"),
    Column("first_timestamp_ms", "int64", "the earliest timestamp there, in all copies; null: none"),
    Column("last_timestamp_ms", "int64", "the latest timestamp there"),
    Column("has", "map", "what each copy has there, by its path"),
)
