"""Rows of a simulated start of a broker."""

from __future__ import annotations

from typing import Final

from kafkalog_core.output.schema import PLACE, Column, new_table

__all__ = ["PARTITION_START", "PREFLIGHT", "START_EVENT", "START_STEP"]

PREFLIGHT: Final = new_table(
    "preflight",
    Column("verdict", "string", "one sentence: whether the broker starts, and what is lost"),
    Column("release", "string", "release of Kafka whose rules are used"),
    Column("release_evidence", "string", "the evidence for the release, one item per line"),
    Column("is_release_certain", "bool", "whether no other release fits, or the user named it"),
    Column("starts", "bool", "whether the process starts"),
    Column("stopped_by", "string", "file or directory because of which it does not start; null: it starts"),
    Column("offline", "string", "log directories that go offline, one per line; null: none"),
    Column("partitions", "int64", "directories of partitions"),
    Column("touched", "int64", "those with a partition_start row"),
    Column("lost_records", "int64", "records that the start deletes; null: they cannot be counted"),
    Column("lost_committed_records", "int64", "those below a checkpointed high watermark, at least this number"),
    Column("lost_bytes", "int64", "bytes of log that it deletes"),
    Column("unserved_records", "int64", "records of partitions that it does not serve, as far as headers count them"),
    Column("recovery_bytes", "int64", "bytes of log that recovery reads"),
    Column("read_bytes", "int64", "bytes that this run read to verify the logs"),
    Column("read_ms", "int64", "how long that took; null: it was not measured"),
    Column("recovery_ms", "int64", "how long recovery takes at that rate; null: unknown"),
)
START_EVENT: Final = new_table(
    "start_event",
    Column(
        "effect",
        "string",
        "stops (the broker does not start), offline (it takes the log directory offline), unserved (it serves no "
        "partition of it) or stray (it renames the directory of the partition to end in -stray)",
    ),
    Column("log_dir", "string", "path of the log directory"),
    Column("file", "string", "path of the file or directory"),
    Column("position", "int64", "byte in the file; null: the whole file"),
    Column("sentence", "string", "what is wrong"),
    Column("code", "string", "of the finding that says it; null: the load of a partition does"),
    Column("log_line", "string", "what the broker's own log says then, with ... for values; null: unknown"),
    Column("next_command", "string", "command line to run next; null: no command helps"),
)
PARTITION_START: Final = new_table(
    "partition_start",
    *PLACE[:2],
    Column("path", "string", "of the directory"),
    Column(
        "fate",
        "string",
        "loaded, refused (because of it the broker does not start, or takes the log directory offline), not-loaded, "
        "offline, unserved, stray, set-aside (renamed to -stray before), deleted (the directory waits for that) or "
        "unknown (the start is not simulated so far)",
    ),
    Column("what", "string", "what happens to it"),
    Column("why", "string", "where and why"),
    Column("log_start_offset", "int64", "first offset that is served; null: it is not loaded"),
    Column("log_end_offset", "int64", "log end offset after the start; null: it is not loaded"),
    Column("lost_records", "int64", "records that are deleted; null: they cannot be counted"),
    Column("lost_committed_records", "int64", "those below the checkpointed high watermark; null: unknown"),
    Column("lost_bytes", "int64", "bytes of log that are deleted"),
    Column("hidden_offsets", "int64", "offsets from the log end offset on that are assigned again"),
    Column("silent", "int64", "error findings about what the start neither repairs nor notices"),
    Column("recovery_bytes", "int64", "bytes of log that recovery reads"),
    Column("next_command", "string", "command line that avoids the loss; null: there is none, or none is needed"),
)
START_STEP: Final = new_table(
    "start_step",
    *PLACE[:2],
    Column("file", "string", "path of the file"),
    Column(
        "step",
        "string",
        "recovered (indexes built again), truncated, emptied, deleted, renamed, created, written or rewritten",
    ),
    Column("position", "int64", "byte from which on a log is truncated"),
    Column("offset", "int64", "offset of that byte, or of the file"),
    Column("bytes", "int64", "bytes of a log that are deleted"),
    Column("reason", "string", "reason of the damage at which a log is truncated; null: there is none"),
    Column("why", "string", "a clause; null: that is normal"),
)
