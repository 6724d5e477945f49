"""Rows of the commands that search, plan, change and undo; `tables` has all of them."""

from __future__ import annotations

from typing import Final

from kafkalog_core.rows.schema import PLACE, Column, new_table

__all__ = ["CHANGE", "FETCH", "JOURNAL", "LOSS", "PLAN", "SEEK", "SETTING", "TEXT_FILE", "TEXT_LINE"]

PLAN: Final = new_table(
    "plan",
    Column("command", "string", "reindex, truncate, checkpoint, undo, prune or list"),
    Column("root", "string", "log directory or partition directory of the plan"),
    Column(
        "state", "string", "planned, refused (cannot be applied as things are), applied, nothing (to be done) or listed"
    ),
    Column("message", "string", "one sentence: what would be done or has been done, and how to undo it"),
    Column("changes", "int64", "files that are changed"),
    Column("needed_bytes", "int64", "bytes that are needed meanwhile, on all file systems together"),
    Column("free_bytes", "int64", "free bytes of the file system that has the least left over"),
    Column("release", "string", "release of Kafka whose rules are used; null: it makes no difference"),
    Column("is_release_certain", "bool", "whether the evidence leaves no other"),
    Column("release_evidence", "string", "the evidence for the release, one item per line"),
    Column(
        "assumptions",
        "string",
        "assumed values because of which records would be lost, one per line: applied only with "
        "--assume-defaults; null: none",
    ),
    Column("obstacles", "string", "why it cannot be applied as things are, one per line; null: it can"),
    Column("run", "string", "name of the journal; null: not applied"),
    Column("undo", "string", "command line that undoes it; null: not applied, or nothing to undo"),
    Column("undo_to", "string", "directory of the journal; null: next to the files"),
    Column("next_command", "string", "command line to run next: the same with --apply, or what a refusal names"),
    Column("keeps_undo", "bool", "whether old content is kept for an undo; false: --no-undo"),
)
CHANGE: Final = new_table(
    "change",
    Column("file", "string", "path"),
    Column("topic", "string", "of the directory"),
    Column("partition", "int32", "of the directory"),
    Column("kind", "string", "replace, create, cut, remove, extend (a cut that is undone) or keep (left as it is)"),
    Column("state", "string", "planned or done"),
    Column("bytes_before", "int64", "size of the old file; null: none"),
    Column("mtime_before_ms", "int64", "its modification time"),
    Column("sha256_before", "string", "its hash; for a file above 16 MiB that of its first and last MiB"),
    Column("bytes_after", "int64", "size afterwards; null: deleted"),
    Column("sha256_after", "string", "hash of the whole content afterwards; null: nothing new is written"),
    Column("why", "string", "one sentence"),
)
LOSS: Final = new_table(
    "loss",
    *PLACE[:2],
    Column("file", "string", "log file in which it starts"),
    Column("first_offset", "int64", "first offset that is lost; null: nothing that could be read as a batch"),
    Column("next_offset", "int64", "offset after the last one that is lost"),
    Column("records", "int64", "records; null: they cannot be counted"),
    Column("bytes", "int64", "bytes of log"),
    Column(
        "committed_records", "int64", "those below the checkpointed high watermark, at least this number; null: unknown"
    ),
    Column("first_timestamp_ms", "int64", "first timestamp of a batch that is lost; null: none"),
    Column("max_timestamp_ms", "int64", "largest timestamp; null: none"),
    Column("transactions", "int64", "transactions that had records there"),
    Column("producers", "int64", "producer ids that wrote there"),
    Column("cure", "string", "what would lose less"),
)
SETTING: Final = new_table(
    "setting",
    Column("name", "string", "as Kafka spells it"),
    Column("value", "string", "in the setting's own unit"),
    Column("origin", "string", "the origin of the value, and the reason if it is only assumed"),
)
JOURNAL: Final = new_table(
    "journal",
    Column("run", "string", "its name, which holds the time of the run"),
    Column("root", "string", "directory that was changed"),
    Column("command", "string", "command that changed it; null: not known"),
    Column("created_ms", "int64", "time of the run; null: not known"),
    Column("state", "string", "complete, interrupted, undone, pruning (being freed), unreadable, or nothing (done)"),
    Column("files", "int64", "files that it changed"),
    Column("held_bytes", "int64", "what kafkalog undo --prune frees"),
    Column("path", "string", "file or directory of the journal"),
    Column("message", "string", "one sentence: what it is, and what can be done about it"),
)
TEXT_FILE: Final = new_table(
    "text_file",
    Column("file", "string", "path"),
    Column("topic", "string", "of the directory; null at the top of a log directory"),
    Column("partition", "int32", "of the directory"),
    Column("kind", "string", "recovery_point, high_watermark, log_start_offset, cleaner_offset, leader_epoch, ..."),
    Column("entries", "int64", "entries or keys that a broker reads from it; null: there is no such file"),
    Column("verdict", "string", "good; mended: the plan corrects it; left: wrong, and left as it is; missing"),
    Column("lines", "int64", "lines that the plan changes"),
    Column("problem", "string", "the worst problem, one sentence; null: none"),
    Column("broker_action", "string", "what a broker does about that"),
)
TEXT_LINE: Final = new_table(
    "text_line",
    Column("file", "string", "path"),
    Column("topic", "string", "of the directory; null at the top of a log directory"),
    Column("partition", "int32", "of the directory"),
    Column("line", "int64", "number of the line in the file as it is, from 1; null: a new one"),
    Column("old", "string", "the line as it is; null: a new one"),
    Column("new", "string", "the line as it will be; null: deleted"),
    Column("problem", "string", "why"),
)
SEEK: Final = new_table(
    "seek",
    *PLACE,
    Column("query", "string", "offset, timestamp, position, earliest, latest or before"),
    Column("asked", "int64", "the offset, time in ms or byte that was asked for; before: -1 latest, -2 earliest"),
    Column(
        "outcome",
        "string",
        "found; end: the offset after the last record, where a fetch waits; none: no record there or later; "
        "out-of-range: a fetch of the offset is refused",
    ),
    Column("position", "int64", "byte in the file where the batch of the record starts; latest: where the log ends"),
    Column("offset", "int64", "of the record found, v07: byte address; latest, before: the answer; null: none"),
    Column("timestamp_ms", "int64", "of the record found; before: modification time of the segment; null: none"),
    Column("size_bytes", "int64", "of its batch"),
    Column("base_offset", "int64", "first offset of its batch; null for a compressed v0 or v1 message"),
    Column("last_offset", "int64", "last offset of its batch"),
    Column(
        "fetch_position",
        "int64",
        "byte where a fetch of the offset starts: an earlier batch where compaction has emptied its end",
    ),
    Column("log_start_offset", "int64", "first offset that a broker serves"),
    Column("log_end_offset", "int64", "offset after the last whole batch; null: was not needed"),
    Column("detail", "string", "one sentence; null: nothing to add"),
    Column("steps", "map", "--explain: list of the steps, each with step, text and its figures"),
)
FETCH: Final = new_table(
    "fetch",
    *PLACE,
    Column("position", "int64", "byte in the file where the slice starts"),
    Column("size_bytes", "int64", "of the slice"),
    Column("asked_bytes", "int64", "size of the fetch that gives it, after all doublings"),
    Column("tries", "int64", "fetches that it takes: a client of 0.8 to 0.10.0 doubles the size for a larger message"),
    Column(
        "outcome",
        "string",
        "whole: ends with a batch; partial: ends inside one; too-large: does not even hold its first batch",
    ),
    Column("batches", "int64", "whole batches in it, each a row before this one"),
    Column("first_offset", "int64", "first offset in the slice; null for a compressed v0 or v1 message"),
    Column("last_offset", "int64", "last offset of its whole batches; null: none"),
    Column("partial_position", "int64", "byte in the file where the cut batch at its end starts; null: none"),
    Column("partial_bytes", "int64", "bytes of that batch in the slice"),
)
