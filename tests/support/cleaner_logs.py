"""Logs as a cleaner sees them, made of numbers; and batches, markers and segments for it, made of bytes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.kafka.rules.cleaner_rules import CleanConfig
from kafkalog_core.kafka.sim.cleaner.log import CleanLog, CleanSegment
from kafkalog_core.storage.scan import Run, scan
from kafkalog_core.storage.source import Source
from tests.support import build

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NS_PER_MS = 1_000_000
EPOCH = {"leader_epoch": 3}


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


def record(offset: int, key: bytes | None, value: bytes | None) -> build.Record:
    """A record whose time is its offset, from 1000 on."""
    return build.Record(offset=offset, key=key, value=value, timestamp_ms=1000 + offset)


def batch(*records: tuple[int, bytes | None, bytes | None], **fields: object) -> bytes:
    """A batch of records, each with offset, key and value."""
    return build.batch_v2([record(*each) for each in records], **(EPOCH | fields))  # type: ignore[arg-type]


def of(producer_id: int, epoch: int, sequence: int, *, txn: bool = False) -> dict[str, object]:
    """The fields of a batch of a producer."""
    return {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "base_sequence": sequence,
        "is_transactional": txn,
    }


def marker(kind: int, offset: int, producer_id: int, epoch: int) -> bytes:
    """A transaction marker."""
    return build.txn_marker(
        kind, offset=offset, producer_id=producer_id, producer_epoch=epoch, timestamp_ms=1000 + offset, **EPOCH
    )


def lay(directory: Path, base_offset: int, content: bytes, mtime_s: int = 4000) -> None:
    """Write a segment's log."""
    path = directory / f"{base_offset:020d}.log"
    path.write_bytes(content)
    os.utime(path, (mtime_s, mtime_s))


def content(directory: Path, base_offset: int = 0) -> bytes:
    """The bytes of a segment's log."""
    return (directory / f"{base_offset:020d}.log").read_bytes()


def shapes(directory: Path, base_offset: int = 0) -> list[tuple[int, int, int]]:
    """First and last offset and count of each batch."""
    found = []
    with Source.open(directory / f"{base_offset:020d}.log") as source:
        for run in scan(source, base_offset=base_offset, batches=BatchColumns()):
            assert isinstance(run, Run)
            columns = (run.batches.column(name) for name in ("base_offset", "last_offset", "record_count"))
            found += list(zip(*columns, strict=True))
    return found


def marker_with_horizon(kind: int, offset: int, producer_id: int, epoch: int, horizon_ms: int) -> bytes:
    """A transaction marker whose batch has a delete horizon."""
    return build.txn_marker(
        kind,
        offset=offset,
        producer_id=producer_id,
        producer_epoch=epoch,
        timestamp_ms=1000 + offset,
        delete_horizon_ms=horizon_ms,
        **EPOCH,
    )
