"""Rows of the catalogue's making; `tables` has all of them."""

from __future__ import annotations

from typing import Final

from kafkalog_core.rows.kinds import PLACE, Column, new_table

__all__ = ["CATALOG", "EXPORT", "REPLICA", "REPLICA_COPY", "REPLICA_RANGE"]


CATALOG: Final = new_table(
    "catalog",
    *PLACE[:2],
    Column("path", "string", "of the partition's directory"),
    Column(
        "state",
        "string",
        "clean, warnings, unread (this user may not read a file of it) or damaged: the worst of its findings",
    ),
    Column("segments", "int64", "rows of segments, those that no broker reads included"),
    Column("batches", "int64", "rows of batches"),
    Column("records", "int64", "records in them, by their headers; compressed v07, v0 and v1 are opened"),
    Column("bytes", "int64", "bytes of log"),
    Column("read_bytes", "int64", "bytes of log that this run has read"),
    Column("unchanged_bytes", "int64", "bytes of log that an earlier run has read, and that are as they were"),
    Column("errors", "int64", "findings of severity error"),
    Column("warnings", "int64", "findings of severity warning"),
    Column("infos", "int64", "findings of severity info"),
)


EXPORT: Final = new_table(
    "export",
    *PLACE[:2],
    Column("path", "string", "of the partition's directory"),
    Column(
        "state",
        "string",
        "exported; unchanged (nothing new); stopped (its log is not the one that was exported: see the finding)",
    ),
    Column("from_offset", "int64", "first offset that was looked for"),
    Column("next_offset", "int64", "where the next run goes on"),
    Column("log_start_offset", "int64", "base offset of the first segment; null: no segment"),
    Column("records", "int64", "records written"),
    Column("files", "int64", "Parquet files written"),
    Column("file_bytes", "int64", "bytes in them"),
    Column("log_bytes", "int64", "bytes of log read"),
    Column("removed_files", "int64", "files of earlier runs that went away: reloaded"),
    Column("removed_records", "int64", "records in them"),
    Column("unread_segments", "int64", "segments that could not be opened: the next run tries them again"),
    Column("errors", "int64", "findings of severity error"),
    Column("warnings", "int64", "findings of severity warning"),
    Column("infos", "int64", "findings of severity info"),
)


REPLICA: Final = new_table(
    "replica",
    *PLACE[:2],
    Column(
        "state",
        "string",
        "the worst that is true of any copy: another-topic (topic ids differ), divergent, damaged, missing (records "
        "are gone that no compaction took), behind, compacted (cleaned to different points), trimmed (old segments are "
        "deleted in some), identical, or alone (one copy)",
    ),
    Column("copies", "int64", "directories that were compared"),
    Column("keep", "string", "the copy to keep; null: the disks do not tell"),
    Column(
        "basis",
        "string",
        "what tells which history is the true one: leader-epoch, high-watermark, length, or null: they do not differ",
    ),
    Column("reason", "string", "why that copy, and what to do first, in plain sentences"),
    Column("divergent_offset", "int64", "first offset at which copies hold different histories; null: none"),
    Column("log_start_offset", "int64", "the earliest of all copies"),
    Column("log_end_offset", "int64", "the farthest of all copies"),
    Column("records_at_risk", "int64", "records that only copies have which are not to be kept"),
)
REPLICA_COPY: Final = new_table(
    "replica_copy",
    *PLACE[:2],
    Column("path", "string", "of the directory"),
    Column("node_id", "string", "of the broker, by the log directory's meta.properties; null: none"),
    Column("state", "string", "as in replica, of this copy beside the one to keep; keep: it is the one"),
    Column("advice", "string", "what to do with it, in one sentence"),
    Column("topic_id", "string", "of partition.metadata; null: none"),
    Column("log_start_offset", "int64", "first offset that a broker serves"),
    Column("log_end_offset", "int64", "offset behind the last whole batch"),
    Column("high_watermark", "int64", "as checkpointed; null: not known"),
    Column("leader_epoch", "int32", "the latest that the log or its leader-epoch-checkpoint knows; null: none"),
    Column("truncation_offset", "int64", "where a broker cuts it when it follows the copy to keep; null: nowhere"),
    Column("divergent_offset", "int64", "first offset at which it differs from the copy to keep; null: none"),
    Column("segments", "int64", "log files"),
    Column("bytes", "int64", "bytes of log"),
    Column("batches", "int64", "whole batches"),
    Column("records", "int64", "records in them, by their headers"),
    Column("damage_count", "int64", "damaged places"),
    Column("damage_bytes", "int64", "bytes in them"),
    Column("lacks_damaged", "int64", "records that another copy has where this one is damaged"),
    Column("lacks_missing", "int64", "records that another copy has, and this one has lost without damage"),
    Column("lacks_behind", "int64", "records of another copy behind the end of this one"),
    Column("lacks_compacted", "int64", "records of another copy that compaction took here"),
    Column("lacks_trimmed", "int64", "records of another copy before the start of this one"),
    Column("only_here", "int64", "records that no other copy has"),
)
REPLICA_RANGE: Final = new_table(
    "replica_range",
    *PLACE[:2],
    Column("kind", "string", "divergent, epoch (the same records under other leader epochs), or a state of replica"),
    Column("first_offset", "int64", "where the difference starts"),
    Column("last_offset", "int64", "where it ends; what lies between may agree in places where kind is compacted"),
    Column("records", "int64", "records there, in the copy that has most"),
    Column("has", "map", "what each copy has there, by its path"),
)
