"""Rows of the forecast of rolling; `tables` has all of them."""

from __future__ import annotations

from typing import Final

from kafkalog_core.table_kinds import PLACE, Column, new_table

__all__ = ["ROLLED_SEGMENT", "ROLLING"]

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
