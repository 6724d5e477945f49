"""Rows of the forecast of retention; `tables` has all of them."""

from __future__ import annotations

from typing import Final

from kafkalog_core.table_kinds import PLACE, Column, new_table

__all__ = ["RETAINED_SEGMENT", "RETENTION", "RETENTION_EVENT", "RETENTION_WHAT_IF"]

_PATH: Final = Column("path", "string", "of the directory")
_MOST: Final = "offsets, which are its records at most: compaction and markers of transactions leave fewer"

RETENTION: Final = new_table(
    "retention",
    *PLACE[:2],
    _PATH,
    Column(
        "state",
        "string",
        "deletes (the next check does), waits (the time will come), held (the high watermark, remote storage or the "
        "size keep what is there), never (no rule runs or has a limit) or empty",
    ),
    Column("message", "string", "one sentence: what goes and when"),
    Column("now_ms", "int64", "the time that counts as now"),
    Column("cleanup_policy", "string", "of the topic"),
    Column("passes", "string", "rules that run over it, in their order: start-offset, size, time, and others"),
    Column("runner", "string", "retention (the log retention thread), cleaner (of compacted topics) or nobody"),
    Column("segments", "int64", "segments that are there"),
    Column("deleted_segments", "int64", "those that the next check deletes"),
    Column("bytes", "int64", "of log that are there"),
    Column("deleted_bytes", "int64", "of log that the next check deletes"),
    Column("deleted_offsets", "int64", f"from the log start to the new one: {_MOST}"),
    Column("kept_bytes", "int64", "of log that stay"),
    Column("kept_offsets", "int64", f"from the new log start to the end: {_MOST}"),
    Column("log_start_offset", "int64", "from where on the log is served now"),
    Column("log_start_origin", "string", "where that comes from"),
    Column("new_log_start_offset", "int64", "afterwards"),
    Column("high_watermark", "int64", "nothing at or above it is deleted, from 0.11 on"),
    Column("high_watermark_origin", "string", "where that comes from"),
    Column("log_end_offset", "int64", "behind the last record"),
    Column("new_segment", "bool", "whether all segments go, so that a new empty one is made first"),
    Column("next_due_ms", "int64", "when the first segment that stays falls due by its time; null: not by the time"),
    Column(
        "assumptions",
        "string",
        "assumed values because of which records would be deleted, one a line: --apply is refused without "
        "--assume-defaults; null: none",
    ),
    Column("settings", "map", "Kafka's settings that count, by name, each with value and origin"),
)
RETAINED_SEGMENT: Final = new_table(
    "retained_segment",
    *PLACE,
    Column("base_offset", "int64", "of its name"),
    Column("next_offset", "int64", "base offset of the next segment, of the last one the end of the log"),
    Column("size_bytes", "int64", "of the log"),
    Column("is_active", "bool", "whether it is the last one"),
    Column("verdict", "string", "delete, keep, or unknown (remote storage decides)"),
    Column(
        "rule",
        "string",
        "what decided: start-offset, size, time or another policy; of what stays also held (by an older segment), "
        "high-watermark, empty-active, remote or none",
    ),
    Column("reason", "string", "one sentence: the figures that were compared"),
    Column("largest_timestamp_ms", "int64", "what the time is told by"),
    Column("is_record_timestamp", "bool", "whether that is a record's; else it is the file's modification time"),
    Column("timestamp_origin", "string", "where it comes from, and why"),
    Column("is_future", "bool", "whether it lies after now"),
    Column(
        "due_ms",
        "int64",
        "from when on it is deleted if nothing is appended, all segments before it too; null: not by the time alone",
    ),
)
RETENTION_WHAT_IF: Final = new_table(
    "retention_what_if",
    *PLACE[:2],
    Column("scenario", "string", "settings that are other than they are; null: as they are"),
    Column("kept_segments", "int64", "segments that stay"),
    Column("kept_bytes", "int64", "of log that stay"),
    Column("kept_offsets", "int64", f"that stay: {_MOST}"),
    Column("deleted_segments", "int64", "segments that go"),
    Column("deleted_bytes", "int64", "of log that go"),
    Column("new_log_start_offset", "int64", "afterwards; null: of several partitions"),
)
RETENTION_EVENT: Final = new_table(
    "retention_event",
    *PLACE,
    Column("time_ms", "int64", "when"),
    Column(
        "event",
        "string",
        "new-segment (all others go), renamed (to .deleted: nobody reads it any more) or removed (its space is free)",
    ),
    Column("rule", "string", "what decided; null: it follows from another event"),
    Column("size_bytes", "int64", "of the log"),
    Column("log_start_offset", "int64", "of the partition then"),
    Column("log_bytes", "int64", "of the partition then, without what has been renamed"),
)
