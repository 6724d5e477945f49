"""Rows of the commands that search, plan, forecast, change and undo; `tables` has all of them."""

from __future__ import annotations

from typing import Final

from kafkalog_core.output.schema import MAX_TIMESTAMP, PLACE, Column, new_table

__all__ = [
    "BIG_KEY",
    "CHANGE",
    "CLEANED_SEGMENT",
    "CLEANING_PASS",
    "COMPACTION",
    "FETCH",
    "FROZEN",
    "JOURNAL",
    "LOSS",
    "PLAN",
    "RETAINED_SEGMENT",
    "RETENTION",
    "RETENTION_EVENT",
    "RETENTION_WHAT_IF",
    "ROLLED_SEGMENT",
    "ROLLING",
    "SEEK",
    "SETTING",
    "TEXT_FILE",
    "TEXT_LINE",
]


_PATH: Final = Column("path", "string", "of the directory")
_DIRECTORY: Final = (
    Column("topic", "string", "of the directory; null at the top of a log directory"),
    Column("partition", "int32", "of the directory"),
)
_IS_RELEASE_CERTAIN: Final = Column("is_release_certain", "bool", "whether no other release fits, or the user named it")
_RELEASE_EVIDENCE: Final = Column("release_evidence", "string", "the evidence for the release, one item per line")
_SETTINGS: Final = Column("settings", "map", "settings in effect, by Kafka's names: each with its value and its origin")
_NOW: Final = Column("now_ms", "int64", "the time that is used as now")
_DIRTY_RATIO: Final = Column(
    "dirty_ratio", "double", "cleanable bytes divided by clean and cleanable bytes; null: there are none"
)
_TOMBSTONES: Final = (
    Column("tombstones_after", "int64", "tombstones that are kept"),
    Column("next_horizon_ms", "int64", "earliest time at which one of them, or a marker, may be removed; null: none"),
)


def _assumptions(verb: str) -> Column:
    return Column(
        "assumptions",
        "string",
        f"assumed values because of which records would be {verb}, one per line: --apply is refused without "
        "--assume-defaults; null: none",
    )


PLAN: Final = new_table(
    "plan",
    Column("command", "string", "recover, reindex, truncate, checkpoint, compact, retain, quorum, undo, prune or list"),
    Column("root", "string", "log directory or partition directory of the plan"),
    Column(
        "state",
        "string",
        "planned, refused (cannot be applied as things are), applied, nothing (to be done), shown or listed",
    ),
    Column("message", "string", "one sentence: what would be done or has been done, and how to undo it"),
    Column("changes", "int64", "files that are changed"),
    Column("needed_bytes", "int64", "bytes that are needed meanwhile, on all file systems together"),
    Column("free_bytes", "int64", "free bytes of the file system that has the least left over"),
    Column("release", "string", "release of Kafka whose rules are used; null: it makes no difference"),
    _IS_RELEASE_CERTAIN,
    _RELEASE_EVIDENCE,
    _assumptions("lost"),
    Column("obstacles", "string", "why it cannot be applied as things are, one per line; null: it can"),
    Column("ways_out", "string", "the commands of its obstacles that lead on, one per line; null: there are none"),
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
    Column("first_offset", "int64", "lowest offset that is lost; null: no batch has one that can be read"),
    Column("next_offset", "int64", "offset after the last one that is lost"),
    Column("records", "int64", "records; null: they cannot be counted"),
    Column("bytes", "int64", "bytes of log"),
    Column(
        "committed_records", "int64", "those below the checkpointed high watermark, at least this number; null: unknown"
    ),
    Column("first_timestamp_ms", "int64", "first timestamp of a batch that is lost; null: none"),
    MAX_TIMESTAMP,
    Column("transactions", "int64", "transactions that had records there"),
    Column("producers", "int64", "producer ids that wrote there"),
    Column("cure", "string", "what would lose less"),
    Column("why", "string", "why it is lost; null: the plan has one reason for all"),
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
    *_DIRECTORY,
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
    *_DIRECTORY,
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
        "found; next: no record has the offset that was asked for, and this is the next one; end: the offset after the "
        "last record, where a fetch waits; none: no record there or later; out-of-range: a fetch of the offset is "
        "refused",
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
    _PATH,
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
    _IS_RELEASE_CERTAIN,
    _RELEASE_EVIDENCE,
    _SETTINGS,
    _assumptions("dropped"),
    _NOW,
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
    _DIRTY_RATIO,
    Column("min_cleanable_dirty_ratio", "double", "a cleaner takes a log whose dirty ratio is above this"),
    Column("passes", "int64", "cleans until nothing more is cleanable, each a cleaning_pass row"),
    Column("segments_before", "int64", "segments of the log"),
    Column("segments_after", "int64", "segments afterwards"),
    *_COUNTS,
    *_REASONS,
    Column("keys", "int64", "distinct keys in the offset maps of all passes"),
    Column("lone_tombstone_keys", "int64", "those of the first pass whose only record there is a tombstone"),
    *_TOMBSTONES,
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
    _DIRTY_RATIO,
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
    MAX_TIMESTAMP,
    *_COUNTS,
    *_REASONS,
    *_TOMBSTONES,
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
    _NOW,
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
    _assumptions("deleted"),
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
    _PATH,
    Column(
        "state",
        "string",
        "predicted; written (with --apply); damaged (only the log before the damage, or before the file that cannot be "
        "read, is predicted); empty (no segment)",
    ),
    Column("reason", "string", "one sentence: the result, and its basis"),
    Column("release", "string", "release of Kafka whose rules are used"),
    _IS_RELEASE_CERTAIN,
    _RELEASE_EVIDENCE,
    _SETTINGS,
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
    MAX_TIMESTAMP,
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
FROZEN: Final = new_table(
    "frozen",
    Column("topic", "string", "topic of the directory"),
    Column("partition", "int32", "partition number of the directory"),
    Column("path", "string", "the directory whose files are kept"),
    Column("state", "string", "frozen, or planned (--dry-run)"),
    Column("to", "string", "where they are, one directory per line; the first one has the log"),
    Column("links", "int64", "files that this run keeps by a hard link"),
    Column("link_bytes", "int64", "their size; they take no space as long as the broker has them too"),
    Column("copies", "int64", "files that this run has copied, because the broker may still change them"),
    Column("copy_bytes", "int64", "the space that the copies take; planned: that they would take"),
    Column("here_before", "int64", "files that an earlier run has frozen"),
)
