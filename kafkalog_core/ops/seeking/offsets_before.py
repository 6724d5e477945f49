"""Kafka's oldest request for offsets: segments by their modification times (Log.getOffsetsBefore, 0.7 to 3.x)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.ops.releases.release import Release
from kafkalog_core.ops.seeking.seek_answers import Answer

if TYPE_CHECKING:
    from kafkalog_core.storage.lookups.lookup import PartitionLookup
    from kafkalog_core.storage.lookups.trace import Trace

__all__ = ["EARLIEST", "LATEST", "offsets_before"]

LATEST: Final = -1
EARLIEST: Final = -2
_FIRST_LOG_START: Final = Release(0, 11)  # KIP-107: the log may start inside of its first segment


def offsets_before(
    lookup: PartitionLookup, time_ms: int, count: int, now_ms: int, release: Release, trace: Trace
) -> list[Answer]:
    """Up to `count` offsets, the largest first: base offsets of segments last written to at the time or before.

    The end of the log counts as one written now, if the last segment holds anything. `LATEST` starts there, `EARLIEST`
    at the first segment, so that it gives one offset. Raises StorageError.
    """
    entries: list[Answer] = []
    for segment in lookup.segments:
        log = segment.log
        base = segment.base_offset
        if release >= _FIRST_LOG_START:
            base = max(base, lookup.log_start_offset)
        if log is not None:
            written_ms = log.mtime_ns // 1_000_000
            answer = Answer(outcome="found", segment=log.name.raw, position=0, offset=base, timestamp_ms=written_ms)
            entries.append(answer)
    if lookup.segments and lookup.segments[-1].size_bytes:
        end, position = lookup.log_end(trace)
        name = entries[-1].segment
        entries.append(Answer(outcome="end", segment=name, position=position, offset=end, timestamp_ms=now_ms))
    trace.add(
        "before",
        f"{len(entries)} entries: each segment's base offset with its modification time, then the end of the log",
        entries=[[entry.offset, entry.timestamp_ms] for entry in entries],
    )
    last = len(entries) - 1
    if time_ms == EARLIEST:
        last = min(last, 0)
    elif time_ms != LATEST:
        while last >= 0 and (entries[last].timestamp_ms or 0) > time_ms:
            last -= 1
    chosen = [entries[index] for index in range(last, max(-1, last - count), -1)]
    return sorted(chosen, key=lambda entry: entry.offset or 0, reverse=True)
