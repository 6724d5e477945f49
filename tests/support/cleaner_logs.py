"""Logs as a cleaner sees them, made of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_core.kafka.cleaner.log import CleanLog, CleanSegment
from kafkalog_core.kafka.cleaner.rules import CleanConfig

if TYPE_CHECKING:
    from collections.abc import Iterable

NS_PER_MS = 1_000_000


def segment(base_offset: int, size_bytes: int = 100, **fields: Any) -> CleanSegment:
    known: dict[str, Any] = {
        "path": f"{base_offset:020d}.log",
        "mtime_ns": 5000 * NS_PER_MS,
        "largest_timestamp_ms": 1000,
    }
    return CleanSegment(base_offset=base_offset, size_bytes=size_bytes, **(known | fields))


def log(segments: Iterable[CleanSegment | int], end_offset: int, **fields: Any) -> CleanLog:
    made = tuple(segment(each) if isinstance(each, int) else each for each in segments)
    known: dict[str, Any] = {
        "topic": "t",
        "partition": 0,
        "path": "t-0",
        "log_start_offset": made[0].base_offset,
        "high_watermark": end_offset,
        "producers": {},
    }
    return CleanLog(segments=made, end_offset=end_offset, **(known | fields))


def config(**fields: Any) -> CleanConfig:
    known: dict[str, Any] = {
        "is_compacted": True,
        "is_deleted": False,
        "is_cleaner_on": True,
        "segment_bytes": 2**30,
        "segment_index_bytes": 10 * 2**20,
        "index_interval_bytes": 4096,
        "max_message_bytes": 1048588,
        "max_record_bytes": 2**31 - 9,
        "delete_retention_ms": 86_400_000,
        "min_lag_ms": 0,
        "max_lag_ms": 2**63 - 1,
        "min_dirty_ratio": 0.5,
        "memory_bytes": 24 * 1000,
        "load_factor": 0.9,
        "io_buffer_bytes": 262_144,
        "expiration_ms": 86_400_000,
    }
    return CleanConfig(**(known | fields))
