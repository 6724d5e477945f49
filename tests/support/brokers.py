"""Index files as brokers write them, for logs that a test has built: by the rules of an append, not by our code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.build import offset_index, time_index

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["Appended", "indexes", "write_segment"]


@dataclass(frozen=True, slots=True)
class Appended:
    """One batch: its bytes, its last offset, its largest timestamp (-1: none)."""

    data: bytes
    last_offset: int
    max_timestamp_ms: int


def indexes(batches: Sequence[Appended], base_offset: int, interval_bytes: int) -> tuple[bytes, bytes]:
    """Offset and time index of a closed segment as a 4.x broker leaves them."""
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    position = since = 0
    newest, newest_offset = -1, base_offset
    for batch in batches:
        if batch.max_timestamp_ms > newest:
            newest, newest_offset = batch.max_timestamp_ms, batch.last_offset
        if since > interval_bytes:
            offsets.append((batch.last_offset - base_offset, position))
            _append_time(times, newest, newest_offset - base_offset)
            since = 0
        position += len(batch.data)
        since += len(batch.data)
    _append_time(times, newest, newest_offset - base_offset)
    return offset_index(offsets), time_index(times)


def _append_time(times: list[tuple[int, int]], timestamp_ms: int, relative: int) -> None:
    if timestamp_ms > (times[-1][0] if times else -1):
        times.append((timestamp_ms, relative))


def write_segment(directory: Path, base_offset: int, batches: Sequence[Appended], *, interval_bytes: int = 64) -> Path:
    """Log and indexes of one segment; gives the log's path."""
    directory.mkdir(parents=True, exist_ok=True)
    offsets, times = indexes(batches, base_offset, interval_bytes)
    log = directory / f"{base_offset:020d}.log"
    log.write_bytes(b"".join(batch.data for batch in batches))
    log.with_suffix(".index").write_bytes(offsets)
    log.with_suffix(".timeindex").write_bytes(times)
    return log
