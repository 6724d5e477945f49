"""Which columns of a forecast of retention a person sees."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_cli.render.cells import NONE, human_bytes, plain, safe_text, time_cell
from kafkalog_cli.render.columns import Shown
from kafkalog_core.words import duration

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EVENTS", "PARTITIONS", "SEGMENTS", "directory_of", "word"]


def _number(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: f"{row[name]:,}" if isinstance(row.get(name), int) else NONE, right=True, rank=rank)


def word(title: str, name: str, rank: int = 0) -> Shown:
    """A column of a word."""
    return Shown(title, lambda row: plain(row.get(name)), rank=rank)


def _size(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: human_bytes(row.get(name)), right=True, rank=rank)


def _time(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: time_cell(row.get(name)), rank=rank)


def directory_of(row: Mapping[str, object]) -> str:
    """`orders-0`, or `orders-0.<uuid>-future`: the directory's own name, as it is."""
    return os.path.basename(str(row["path"]))


def _partition_of(row: Mapping[str, object]) -> str:
    return safe_text(f"{row.get('topic')}-{row.get('partition')}") if row.get("topic") else plain(row.get("path"))


def _largest(row: Mapping[str, object]) -> str:
    text = time_cell(row.get("largest_timestamp_ms")).replace(".000Z", "Z")
    return text if row.get("is_record_timestamp") else f"{text} (file)"


def _due(row: Mapping[str, object]) -> str:
    due_ms, now_ms = row.get("due_ms"), row.get("now_ms")
    if row.get("verdict") == "delete":
        return "now"
    if not isinstance(due_ms, int) or not isinstance(now_ms, int):
        return NONE
    return f"in {duration(due_ms - now_ms)}"


PARTITIONS: Final = (
    Shown("partition", lambda row: safe_text(directory_of(row))),
    word("state", "state"),
    _number("segments", "segments", 2),
    _number("go", "deleted_segments"),
    _size("log", "bytes", 1),
    _size("goes", "deleted_bytes"),
    _time("next due", "next_due_ms", 3),
    Shown("what", lambda row: plain(row.get("message")), flexible=True),
)
SEGMENTS: Final = (
    word("verdict", "verdict"),
    word("segment", "segment"),
    _size("log", "size_bytes", 2),
    Shown("largest time", _largest, rank=3),
    word("rule", "rule"),
    Shown("due", _due, rank=1),
    word("why", "reason"),
)
EVENTS: Final = (
    _time("time", "time_ms"),
    word("event", "event"),
    Shown("segment", lambda row: f"{_partition_of(row)}/{plain(row.get('segment'))}"),
    _size("size", "size_bytes"),
    word("rule", "rule"),
    _number("log start", "log_start_offset", 1),
    _size("log then", "log_bytes", 2),
)
