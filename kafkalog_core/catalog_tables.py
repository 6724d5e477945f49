"""Rows of the catalogue's making; `tables` has all of them."""

from __future__ import annotations

from typing import Final

from kafkalog_core.table_kinds import PLACE, Column, new_table

__all__ = ["CATALOG"]

CATALOG: Final = new_table(
    "catalog",
    *PLACE[:2],
    Column("path", "string", "of the partition's directory"),
    Column(
        "state",
        "string",
        "clean, warnings, unread (this user may not read a file of it) or damaged: the worst of its findings",
    ),
    Column("segments", "int64", "rows of segments, those that no broker reads included"),
    Column("batches", "int64", "rows of batches"),
    Column("records", "int64", "records in them, by their headers; compressed v07, v0 and v1 are opened"),
    Column("bytes", "int64", "bytes of log"),
    Column("read_bytes", "int64", "bytes of log that this run has read"),
    Column("unchanged_bytes", "int64", "bytes of log that an earlier run has read, and that are as they were"),
    Column("errors", "int64", "findings of severity error"),
    Column("warnings", "int64", "findings of severity warning"),
    Column("infos", "int64", "findings of severity info"),
)
