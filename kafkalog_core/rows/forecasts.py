"""Rows of the forecasts of compaction, retention and segment rolls; `tables` has all of them."""

from __future__ import annotations

from typing import Final

from kafkalog_core.rows.schema import PLACE, Column, new_table

__all__ = [
    "BIG_KEY",
    "CLEANED_SEGMENT",
    "CLEANING_PASS",
    "COMPACTION",
    "RETAINED_SEGMENT",
    "RETENTION",
    "RETENTION_EVENT",
    "RETENTION_WHAT_IF",
    "ROLLED_SEGMENT",
    "ROLLING",
]


_REASONS_KEPT: Final = "latest-of-key, past-map (after the end of the offset map), control, tombstone"
_REASONS_DROPPED: Final = "superseded, tombstone-expired, null-key, aborted, marker-expired"
_COUNTS: Final = (
    Column("batches_before", "int64", "batches in what is cleaned; null: nothing is"),
    Column("batches_after", "int64", "those afterwards, emptied ones included"),
    Column("records_before", "int64", "records in what is cleaned, control records included"),
    Column("records_after", "int64", "those afterwards"),
    Column("bytes_before", "int64", "bytes of log"),
    Column("bytes_after", "int64", "bytes of log afterwards"),
)
_REASONS: Final = (
    Column("kept_records", "map", f"records that are kept, by reason: {_REASONS_KEPT}"),
    Column("kept_bytes", "map", "bytes of their keys and values, by reason"),
    Column("dropped_records", "map", f"records that are dropped, by reason: {_REASONS_DROPPED}"),
    Column("dropped_bytes", "map", "bytes of their keys and values, by reason"),
)

COMPACTION: Final = new_table(
    "compaction",
    *PLACE[:2],
    Column("path", "string", "of the directory"),
    Column(
        "state",
        "string",
        "cleanable (a broker's cleaner would take it now), not-dirty-enough, nothing-cleanable (no dirty segment below "
        "the bound), not-compacted (its cleanup.policy, or it is not a current log), cleaner-off, or fails (a clean "
        "would stop with an error)",
    ),
    Column("reason", "string", "one sentence: why it is in that state"),
    Column("would_run", "bool", "whether a cleaner takes it now; false: figures are those of one clean all the same"),
    Column(
        "held_back_by",
        "string",
        "what ends the part that may be cleaned: active-segment, open-transaction, high-watermark, "
        "min-compaction-lag, or null",
    ),
    Column("held_back_detail", "string", "one sentence: which segment, transaction or time, and what ends that"),
    Column("held_back_until_ms", "int64", "time from which that does not hold any more; null: not known"),
    Column("release", "string", "release of Kafka whose cleaner it is"),
    Column("release_evidence", "string", "the evidence for the release, one item per line"),
    Column("settings", "map", "settings in effect, by Kafka's names: each with its value and its origin"),
    Column(
        "assumptions",
        "string",
        "assumed values because of which records would be dropped, one per line: --apply is refused without "
        "--assume-defaults; null: none",
    ),
    Column("now_ms", "int64", "the time that is used as now"),
    Column("first_dirty_offset", "int64", "first offset that no clean has seen"),
    Column("first_dirty_origin", "string", "its origin: the cleaner's checkpoint or the log start, and why"),
    Column("first_uncleanable_offset", "int64", "a clean ends before this offset"),
    Column("log_start_offset", "int64", "first offset that a broker serves"),
    Column("last_stable_offset", "int64", "first offset of an open transaction, else the high watermark"),
    Column(
        "high_watermark", "int64", "as checkpointed; null: there is no checkpoint of it, and the log end offset is used"
    ),
    Column("log_end_offset", "int64", "offset after the last batch"),
    Column("clean_bytes", "int64", "bytes below the first dirty offset, by whole segments"),
    Column("cleanable_bytes", "int64", "dirty bytes below the bound, by whole segments"),
    Column("uncleanable_bytes", "int64", "bytes after the bound, the active segment included"),
    Column("dirty_ratio", "double", "cleanable bytes divided by clean and cleanable bytes; null: there are none"),
    Column("min_cleanable_dirty_ratio", "double", "a cleaner takes a log whose dirty ratio is above this"),
    Column("passes", "int64", "cleans until nothing more is cleanable, each a cleaning_pass row"),
    Column("segments_before", "int64", "segments of the log"),
    Column("segments_after", "int64", "segments afterwards"),
    *_COUNTS,
    *_REASONS,
    Column("keys", "int64", "distinct keys in the offset maps of all passes"),
    Column("lone_tombstone_keys", "int64", "those of the first pass whose only record there is a tombstone"),
    Column("tombstones_after", "int64", "tombstones that are kept"),
    Column("next_horizon_ms", "int64", "earliest time at which one of them, or a marker, may be removed; null: none"),
    Column("memory_bytes", "int64", "memory of the offset map"),
    Column("map_keys", "int64", "keys that fit into it"),
    Column("checkpoint_offset", "int64", "entry of the cleaner's checkpoint afterwards; null: no clean"),
)
CLEANING_PASS: Final = new_table(
    "cleaning_pass",
    *PLACE[:2],
    Column("pass", "int64", "number of the clean, from 1"),
    Column("first_dirty_offset", "int64", "where its dirty part starts"),
    Column("first_uncleanable_offset", "int64", "where the part that may be cleaned ends"),
    Column("end_offset", "int64", "where it ended: the checkpoint afterwards"),
    Column("is_map_full", "bool", "it ended before the bound, as the offset map was full"),
    Column("keys", "int64", "distinct keys in the map"),
    Column("dirty_ratio", "double", "cleanable bytes divided by clean and cleanable bytes; null: there are none"),
    Column("groups", "int64", "segments that it writes"),
    Column("sources", "int64", "segments that it reads for them"),
    *_COUNTS,
    *_REASONS,
)
CLEANED_SEGMENT: Final = new_table(
    "cleaned_segment",
    *PLACE,
    Column("base_offset", "int64", "of the file name"),
    Column("state", "string", "clean, dirty, mixed (the first dirty offset is inside), uncleanable, or active"),
    Column("group", "int64", "base offset of the segment that it is cleaned into; null: it does not change"),
    Column("max_timestamp_ms", "int64", "largest timestamp; null: none"),
    *_COUNTS,
    *_REASONS,
    Column("tombstones_after", "int64", "tombstones that are kept"),
    Column("next_horizon_ms", "int64", "earliest time at which one of them, or a marker, may be removed; null: none"),
)
BIG_KEY: Final = new_table(
    "big_key",
    *PLACE[:2],
    Column("rank", "int64", "1: the key with most bytes in what is cleaned"),
    Column("key", "bytes", "the key; of one of more than 64 bytes its start"),
    Column("records", "int64", "its records, at least; records after the end of the offset map are not counted"),
    Column("bytes", "int64", "bytes of its key and values in them, at least"),
    Column("most_bytes", "int64", "the same at most; another number than bytes only where keys are many"),
)


_PATH: Final = Column("path", "string", "of the directory")
_MOST: Final = "offsets, which are its records at most: compaction and markers of transactions leave fewer"

RETENTION: Final = new_table(
    "retention",
    *PLACE[:2],
    _PATH,
    Column(
        "state",
        "string",
        "deletes (at the next check), waits (for a later time), held (the high watermark, remote storage or the "
        "size keep the segments), never (no rule runs or has a limit) or empty",
    ),
    Column("message", "string", "one sentence: what is deleted and when"),
    Column("now_ms", "int64", "the time that is used as now"),
    Column("cleanup_policy", "string", "of the topic"),
    Column("passes", "string", "rules that run over it, in their order: start-offset, size, time, and others"),
    Column(
        "runner", "string", "retention (the log retention thread), cleaner (of compacted topics) or nobody (no thread)"
    ),
    Column("segments", "int64", "existing segments"),
    Column("deleted_segments", "int64", "those that the next check deletes"),
    Column("bytes", "int64", "bytes of log"),
    Column("deleted_bytes", "int64", "of log that the next check deletes"),
    Column("deleted_offsets", "int64", f"from the log start to the new one: {_MOST}"),
    Column("kept_bytes", "int64", "of log that are kept"),
    Column("kept_offsets", "int64", f"from the new log start to the end: {_MOST}"),
    Column("log_start_offset", "int64", "first offset that a broker serves now"),
    Column("log_start_origin", "string", "its origin"),
    Column("new_log_start_offset", "int64", "afterwards"),
    Column("high_watermark", "int64", "nothing at or above it is deleted, from 0.11 on"),
    Column("high_watermark_origin", "string", "its origin"),
    Column("log_end_offset", "int64", "after the last record"),
    Column("new_segment", "bool", "whether all segments are deleted, so that a new empty one is created first"),
    Column("next_due_ms", "int64", "when the first kept segment is due by its time; null: not by time"),
    Column(
        "assumptions",
        "string",
        "assumed values because of which records would be deleted, one per line: --apply is refused without "
        "--assume-defaults; null: none",
    ),
    Column("settings", "map", "Kafka's settings in effect, by name, each with value and origin"),
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
        "what decided: start-offset, size, time or another policy; for kept segments also held (by an older segment), "
        "high-watermark, empty-active, remote or none",
    ),
    Column("reason", "string", "one sentence: the figures that were compared"),
    Column("largest_timestamp_ms", "int64", "the timestamp that the time rule uses"),
    Column("is_record_timestamp", "bool", "whether that is a record's; else it is the file's modification time"),
    Column("timestamp_origin", "string", "its origin, and why"),
    Column("is_future", "bool", "whether it is after now"),
    Column(
        "due_ms",
        "int64",
        "from when on it is deleted if nothing is appended, all segments before it too; null: not by the time alone",
    ),
)
RETENTION_WHAT_IF: Final = new_table(
    "retention_what_if",
    *PLACE[:2],
    Column("scenario", "string", "settings that are changed; null: none"),
    Column("kept_segments", "int64", "segments that are kept"),
    Column("kept_bytes", "int64", "of log that are kept"),
    Column("kept_offsets", "int64", f"that are kept: {_MOST}"),
    Column("deleted_segments", "int64", "segments that are deleted"),
    Column("deleted_bytes", "int64", "of log that are deleted"),
    Column("new_log_start_offset", "int64", "afterwards; null: of several partitions"),
)
RETENTION_EVENT: Final = new_table(
    "retention_event",
    *PLACE,
    Column("time_ms", "int64", "when"),
    Column(
        "event",
        "string",
        "new-segment (all others are deleted), renamed (to .deleted: no longer read) or removed (its space is free)",
    ),
    Column("rule", "string", "what decided; null: it follows from another event"),
    Column("size_bytes", "int64", "of the log"),
    Column("log_start_offset", "int64", "of the partition then"),
    Column("log_bytes", "int64", "of the partition then, without what has been renamed"),
)


ROLLING: Final = new_table(
    "rolling",
    *PLACE[:2],
    Column("path", "string", "of the directory"),
    Column(
        "state",
        "string",
        "predicted; written (with --apply); damaged (only the log before the damage, or before the file that cannot be "
        "read, is predicted); empty (no segment)",
    ),
    Column("reason", "string", "one sentence: the result, and its basis"),
    Column("release", "string", "release of Kafka whose rules are used"),
    Column("release_evidence", "string", "the evidence for the release, one item per line"),
    Column("settings", "map", "settings in effect, by Kafka's names: each with its value and its origin"),
    Column("segments_before", "int64", "existing segments"),
    Column("segments_after", "int64", "segments after the rolls"),
    Column(
        "segments_at_most",
        "int64",
        "segments if each roll came earlier by all of segment.jitter.ms; null: there is no jitter",
    ),
    Column("same_bases", "int64", "segments that would start where one starts now"),
    Column("rolls", "map", "new segments by reason: bytes, time, offset-index, time-index, offset-range"),
    Column("bytes", "int64", "bytes of log"),
    Column("batches", "int64", "batches, each taken as one append (magic 0 and 1: each outer message)"),
    Column("records", "int64", "records, counted by the batch headers"),
    Column("uncounted_batches", "int64", "compressed batches of magic 0 and 1, whose headers have no record count"),
    Column("log_start_offset", "int64", "base offset of the first segment"),
    Column("log_end_offset", "int64", "offset after the last batch"),
    Column("smallest_bytes", "int64", "the smallest segment but the last"),
    Column("largest_bytes", "int64", "the largest segment"),
    Column("oversized_batches", "int64", "batches larger than segment.bytes, each in a segment of its own"),
    Column("to", "string", "directory that was written; null: none"),
)
ROLLED_SEGMENT: Final = new_table(
    "rolled_segment",
    *PLACE[:2],
    Column("base_offset", "int64", "of the segment"),
    Column("next_offset", "int64", "base offset of the next one; of the last one the end of the log"),
    Column("is_there", "bool", "whether a segment starts here now"),
    Column("bytes", "int64", "bytes of log"),
    Column("batches", "int64", "batches"),
    Column(
        "first_timestamp_ms",
        "int64",
        "largest timestamp of the first batch, from which its age is measured; null: none",
    ),
    Column("max_timestamp_ms", "int64", "largest timestamp; null: none"),
    Column("offset_entries", "int64", "entries of the offset index"),
    Column("time_entries", "int64", "entries of the time index; null: the release has none"),
    Column("jitter_ms", "int64", "the milliseconds subtracted from segment.ms"),
    Column(
        "roll_reason",
        "string",
        "why the next one starts: bytes, time, offset-index, time-index, offset-range; null: the log ends",
    ),
    Column("detail", "string", "the figures that were compared"),
)
