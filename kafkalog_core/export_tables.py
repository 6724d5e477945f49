"""Rows of the export to Parquet; `tables` has all of them."""

from __future__ import annotations

from typing import Final

from kafkalog_core.table_kinds import PLACE, Column, new_table

__all__ = ["EXPORT"]

EXPORT: Final = new_table(
    "export",
    *PLACE[:2],
    Column("path", "string", "of the partition's directory"),
    Column(
        "state",
        "string",
        "exported; unchanged (nothing new); stopped (its log is not the one that was exported: see the finding)",
    ),
    Column("from_offset", "int64", "first offset that was looked for"),
    Column("next_offset", "int64", "where the next run goes on"),
    Column("log_start_offset", "int64", "base offset of the first segment; null: no segment"),
    Column("records", "int64", "records written"),
    Column("files", "int64", "Parquet files written"),
    Column("file_bytes", "int64", "bytes in them"),
    Column("log_bytes", "int64", "bytes of log read"),
    Column("removed_files", "int64", "files of earlier runs that went away: reloaded"),
    Column("removed_records", "int64", "records in them"),
    Column("unread_segments", "int64", "segments that could not be opened: the next run tries them again"),
    Column("errors", "int64", "findings of severity error"),
    Column("warnings", "int64", "findings of severity warning"),
    Column("infos", "int64", "findings of severity info"),
)
