"""Rows of the forecast of compaction; `tables` has all of them."""

from __future__ import annotations

from typing import Final

from kafkalog_core.table_kinds import PLACE, Column, new_table

__all__ = ["BIG_KEY", "CLEANED_SEGMENT", "CLEANING_PASS", "COMPACTION"]

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
