"""The row of what changed between two copies of a log directory."""

from __future__ import annotations

from typing import Final

from kafkalog_core.output.schema import Column, new_table

__all__ = ["DIFFERENCE"]

DIFFERENCE: Final = new_table(
    "difference",
    Column(
        "kind",
        "string",
        "topic, partition, config, feature, acl, quota, user, token, group, offset (a committed one), transaction, or "
        "broker (its meta.properties)",
    ),
    Column(
        "change",
        "string",
        "topic and partition: new, gone, being-deleted, stray, deleted, recreated, moved; logs: added, truncated, "
        "missing, damaged, repaired, tail, log-start, deleted, cleaned, rewritten, restored; offset: moved, backwards, "
        "new, gone; transaction: opened, ended, hanging; others: new, gone, added, removed, changed",
    ),
    Column("what", "string", "what it is about: orders-0, topic orders retention.ms, billing orders-0"),
    Column("topic", "string", "null: it is about none"),
    Column("partition", "int32", "null: it is about none"),
    Column("group", "string", "id of the group; null: it is about none"),
    Column("column", "string", "the value that changed, of what has several; null: the thing itself"),
    Column(
        "before", "string", "in OLD: setting, committed offset, log start offset, log end offset, topic id; null: none"
    ),
    Column("after", "string", "the same in NEW; truncated: the offset from which on OLD's records are gone"),
    Column(
        "records",
        "int64",
        "records that were added, or are gone, by the headers of their batches; null: unknown, as where a log has "
        "compressed batches of magic 0 or 1, or where the log start offset is within a segment",
    ),
    Column("first_offset", "int64", "of these records"),
    Column("last_offset", "int64", "of these records; records between may be the same in both"),
    Column("segments", "int64", "segments that were deleted or written again; null: it is not about segments"),
    Column("bytes", "int64", "bytes of log that are gone with it; damage: its size"),
    Column(
        "leader_epoch",
        "int32",
        "truncated: the first leader epoch of NEW that OLD did not know, else that of NEW's records there; null: none",
    ),
    Column("path", "string", "the directory in NEW; in OLD of what NEW does not have; null: it is about none"),
    Column("detail", "string", "what is known of its cause; null: nothing more"),
    Column("next_command", "string", "the command line that shows more; null: none"),
)
