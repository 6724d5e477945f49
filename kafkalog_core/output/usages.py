"""The declarations of the rows of `usage`."""

from __future__ import annotations

from typing import Final

from kafkalog_core.output.schema import Column, new_table

__all__ = ["USAGE", "USAGE_DIRECTORY"]

_PATH: Final = Column("path", "string", "the log directory")
_SUMS: Final = (
    Column("files", "int64", "files and directories, each name once"),
    Column("bytes", "int64", "their sizes, as du --apparent-size: a file with several names counts once"),
    Column("allocated_bytes", "int64", "what they take of the file system, as du"),
    Column("sparse_files", "int64", "files that take at least 4 KiB less than their size"),
    Column("linked_files", "int64", "names of files with several hard links: deleting one of the names frees nothing"),
    Column("linked_bytes", "int64", "allocated to these"),
    Column("slack_bytes", "int64", "of offset and time indexes after their entries: preallocated by a broker"),
    Column("slack_allocated_bytes", "int64", "whole blocks among these, which are free if the index is truncated"),
)
_PARTS: Final = (
    Column("active_bytes", "int64", "allocated to the logs of active segments"),
    Column("closed_bytes", "int64", "allocated to the logs of other segments that a broker reads"),
    Column("index_bytes", "int64", "allocated to their indexes"),
    Column(
        "leftover_bytes",
        "int64",
        "allocated to what a broker deletes by itself: .deleted, .cleaned and .tmp files, -delete directories; without "
        "files that have other hard links",
    ),
    Column("moving_bytes", "int64", "allocated to -future directories and .swap files, which a broker goes on with"),
    Column("stray_bytes", "int64", "allocated to -stray directories, which brokers keep and do not serve"),
    Column("journal_bytes", "int64", "allocated to undo journals of kafkalog"),
    Column("foreign_bytes", "int64", "allocated to files that are not Kafka's, or that no broker reads by their names"),
    Column(
        "other_bytes",
        "int64",
        "allocated to the rest: snapshots, checkpoints, directories, links, unknown files, leftovers with other links",
    ),
    Column(
        "retention_bytes", "int64", "bytes of log that the next retention check deletes; null: unknown, or not asked"
    ),
    Column("retention_segments", "int64", "segments of these"),
    Column("next_due_ms", "int64", "when retention deletes the next other segment; null: the time alone deletes none"),
    Column("unforeseen_partitions", "int64", "partitions of which retention cannot be predicted"),
    Column("compaction_bytes", "int64", "bytes of log that a clean would save; null: none, or --compaction not given"),
)
USAGE: Final = new_table(
    "usage",
    _PATH,
    Column("topic", "string", "the topic; null: files of no topic, or the row is of a kind"),
    Column("partition", "int32", "the partition number, with --by partition"),
    Column(
        "kind",
        "string",
        "with --by kind: active and closed (logs), offset_index, time_index, txn_index, remote_index, snapshot, "
        "checkpoint, deleted, cleaned, swap, temporary (by their suffixes), delete_directory, future_directory, "
        "stray_directory (all that is in them), journal, foreign, link, directory, unknown",
    ),
    *_SUMS,
    *_PARTS,
)
USAGE_DIRECTORY: Final = new_table(
    "usage_directory",
    _PATH,
    Column("is_whole", "bool", "whether all of it was counted; false: only selected partitions"),
    Column("file_system_bytes", "int64", "size of its file system"),
    Column(
        "free_bytes", "int64", "free in it for the owner of the directory: only root may write into reserved blocks"
    ),
    *_SUMS,
    *_PARTS,
    Column("now_ms", "int64", "the time that counts as now for retention, in ms since 1970; null: not asked"),
    Column("retention_problem", "string", "why nothing of retention is known; null: it is, or not asked"),
    Column("assumptions", "string", "assumed values because of which retention deletes; null: none"),
)
