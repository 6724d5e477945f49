"""Rows of the forecast of compaction; `tables` has all of them."""

from __future__ import annotations

from typing import Final

from kafkalog_core.rows.kinds import PLACE, Column, new_table

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


_REASONS_KEPT: Final = "latest-of-key, past-map (behind what the offset map knows), control, tombstone"
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
    Column("kept_records", "map", f"records that stay, by reason: {_REASONS_KEPT}"),
    Column("kept_bytes", "map", "bytes of their keys and values, by reason"),
    Column("dropped_records", "map", f"records that go, by reason: {_REASONS_DROPPED}"),
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
        "the bound), not-compacted (its cleanup.policy, or it is no current log), cleaner-off, or fails (a clean would "
        "stop with an error)",
    ),
    Column("reason", "string", "one sentence: why it is in that state"),
    Column("would_run", "bool", "whether a cleaner takes it now; false: figures are those of one clean all the same"),
    Column(
        "held_back_by",
        "string",
        "what ends the part that may be cleaned: active-segment, open-transaction, high-watermark, "
        "min-compaction-lag, or null",
    ),
    Column("held_back_detail", "string", "one sentence: which segment, transaction or time, and what lets it go"),
    Column("held_back_until_ms", "int64", "time from which that does not hold any more; null: not known"),
    Column("release", "string", "release of Kafka whose cleaner it is"),
    Column("release_evidence", "string", "what tells the release, one a line"),
    Column("settings", "map", "settings that count, by Kafka's names: each with its value and where it comes from"),
    Column(
        "assumptions",
        "string",
        "assumed values because of which records would be dropped, one a line: --apply is refused without "
        "--assume-defaults; null: none",
    ),
    Column("now_ms", "int64", "the time that counts as now"),
    Column("first_dirty_offset", "int64", "first offset that no clean has seen"),
    Column("first_dirty_origin", "string", "where that comes from: the cleaner's checkpoint, the log start, and why"),
    Column("first_uncleanable_offset", "int64", "a clean ends before this offset"),
    Column("log_start_offset", "int64", "first offset that a broker serves"),
    Column("last_stable_offset", "int64", "first offset of an open transaction, else the high watermark"),
    Column("high_watermark", "int64", "as checkpointed; null: no checkpoint of it, the log end counts"),
    Column("log_end_offset", "int64", "offset behind the last batch"),
    Column("clean_bytes", "int64", "bytes below the first dirty offset, by whole segments"),
    Column("cleanable_bytes", "int64", "dirty bytes below the bound, by whole segments"),
    Column("uncleanable_bytes", "int64", "bytes behind the bound, the active segment among them"),
    Column("dirty_ratio", "double", "cleanable bytes to clean and cleanable bytes; null: there are none"),
    Column("min_cleanable_dirty_ratio", "double", "a cleaner takes a log whose dirty ratio is above this"),
    Column("passes", "int64", "cleans until nothing more is cleanable, each a cleaning_pass row"),
    Column("segments_before", "int64", "segments of the log"),
    Column("segments_after", "int64", "segments afterwards"),
    *_COUNTS,
    *_REASONS,
    Column("keys", "int64", "distinct keys in the offset maps of all passes"),
    Column("lone_tombstone_keys", "int64", "those of the first pass whose only record there is a tombstone"),
    Column("tombstones_after", "int64", "tombstones that stay"),
    Column("next_horizon_ms", "int64", "earliest time at which one of them, or a marker, may go; null: none"),
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
    Column("dirty_ratio", "double", "cleanable bytes to clean and cleanable bytes; null: there are none"),
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
    Column("group", "int64", "base offset of the segment that it is cleaned into; null: it stays as it is"),
    Column("max_timestamp_ms", "int64", "largest timestamp; null: none"),
    *_COUNTS,
    *_REASONS,
    Column("tombstones_after", "int64", "tombstones that stay"),
    Column("next_horizon_ms", "int64", "earliest time at which one of them, or a marker, may go; null: none"),
)
BIG_KEY: Final = new_table(
    "big_key",
    *PLACE[:2],
    Column("rank", "int64", "1: the key with most bytes in what is cleaned"),
    Column("key", "bytes", "the key; of one of more than 64 bytes its start"),
    Column("records", "int64", "its records, at least; records behind what the offset map knows do not count"),
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


ROLLING: Final = new_table(
    "rolling",
    *PLACE[:2],
    Column("path", "string", "of the directory"),
    Column(
        "state",
        "string",
        "predicted; written (with --apply); damaged (only what stands before the damage, or the file that cannot be "
        "read, is told); empty (no segment)",
    ),
    Column("reason", "string", "one sentence: what came out, and what it rests on"),
    Column("release", "string", "release of Kafka whose rules count"),
    Column("release_evidence", "string", "what tells the release, one a line"),
    Column("settings", "map", "settings that count, by Kafka's names: each with its value and where it comes from"),
    Column("segments_before", "int64", "segments that there are"),
    Column("segments_after", "int64", "segments that there would be"),
    Column("segments_at_most", "int64", "segments if each took off all of segment.jitter.ms; null: there is no jitter"),
    Column("same_bases", "int64", "segments that would begin where one begins now"),
    Column("rolls", "map", "new segments by reason: bytes, time, offset-index, time-index, offset-range"),
    Column("bytes", "int64", "bytes of log"),
    Column("batches", "int64", "batches, each of which counts as one append (magic 0 and 1: each outer message)"),
    Column("records", "int64", "records, counted by the batch headers"),
    Column("uncounted_batches", "int64", "batches of magic 0 and 1 whose records only their content counts"),
    Column("log_start_offset", "int64", "base offset of the first segment"),
    Column("log_end_offset", "int64", "offset behind the last batch"),
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
    Column("is_there", "bool", "whether a segment begins here now"),
    Column("bytes", "int64", "bytes of log"),
    Column("batches", "int64", "batches"),
    Column(
        "first_timestamp_ms", "int64", "largest timestamp of the first batch, from which its age counts; null: none"
    ),
    Column("max_timestamp_ms", "int64", "largest timestamp; null: none"),
    Column("offset_entries", "int64", "entries of the offset index"),
    Column("time_entries", "int64", "entries of the time index; null: the release has none"),
    Column("jitter_ms", "int64", "what is taken off segment.ms"),
    Column(
        "roll_reason",
        "string",
        "why the next one begins: bytes, time, offset-index, time-index, offset-range; null: the log ends",
    ),
    Column("detail", "string", "the figures that were compared"),
)
