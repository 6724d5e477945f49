"""Where a partition's log starts and ends, found as a broker finds it: by its last segment alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.format.index import iter_offset_entries, used_entries
from kafkalog_core.format.layout import LOG_OVERHEAD, MAGIC_POSITION, MAGIC_V2, OFFSET_INDEX_ENTRY
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition

__all__ = ["Extent", "read_extent"]

_FRAMES: Final = ScanOptions(check=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The offsets of a log.

    Args:
        log: path of the last segment's log.
        start: base of the first segment.
        active: base of the last segment.
        end: behind the last record.
        is_sure: the last segment ends with a whole batch; else `end` is behind the last batch that was found, and
            recovery may cut before it.
        is_v2: there are batches of magic 2 at the end of the log, so that leader epochs and producers are kept.
        max_timestamp_ms: the largest in what was read, which is at least what no index tells of; -1: none.
    """

    log: str
    start: int
    active: int
    end: int
    is_sure: bool
    is_v2: bool
    max_timestamp_ms: int = -1


def read_extent(partition: Partition) -> Extent | None:
    """The extent of a partition; null: it has no segment, or its last one cannot be read."""
    filled = [segment for segment in partition.segments if segment.log is not None]
    if not filled or partition.format != "log":
        return None
    last = filled[-1]
    path = last.files[0].path
    try:
        with Source.open(path) as source:
            end, is_sure, max_timestamp_ms = _end(source, last)
            is_v2 = _magic(source, 0) == MAGIC_V2
        if not is_v2 and len(filled) > 1 and not last.size_bytes:
            with Source.open(filled[-2].files[0].path) as source:
                is_v2 = _magic(source, 0) == MAGIC_V2
    except StorageError:
        return None
    return Extent(
        log=path,
        start=filled[0].base_offset,
        active=last.base_offset,
        end=end,
        is_sure=is_sure,
        is_v2=is_v2,
        max_timestamp_ms=max_timestamp_ms,
    )


def _end(source: Source, segment: Segment) -> tuple[int, bool, int]:
    """The offset behind the last batch; from the last index entry on, where the index can be believed."""
    start = _last_indexed(source, segment)
    end, is_sure, max_timestamp_ms = _end_from(source, segment, start)
    if start and (end == segment.base_offset or not is_sure):
        end, is_sure, max_timestamp_ms = _end_from(source, segment, 0)
    return end, is_sure, max_timestamp_ms


def _end_from(source: Source, segment: Segment, start: int) -> tuple[int, bool, int]:
    end, is_sure, max_timestamp_ms = segment.base_offset, True, -1
    for item in scan(source, base_offset=segment.base_offset, options=_FRAMES, start=start):
        if not isinstance(item, Run):
            is_sure = False
            continue
        end = max(end, max(item.batches.column("last_offset")) + 1)
        max_timestamp_ms = max(max_timestamp_ms, *item.batches.column("max_timestamp_ms"))
    return end, is_sure, max_timestamp_ms


def _last_indexed(source: Source, segment: Segment) -> int:
    """Position of the last index entry, where a batch around its offset starts; 0: the index does not help."""
    if segment.index is None:
        return 0
    try:
        with Source.open(segment.index.path) as index:
            data = index.read(0, index.size_bytes)
    except StorageError:
        return 0
    count = used_entries(OFFSET_INDEX_ENTRY, data)
    entries = list(iter_offset_entries(data[(count - 1) * OFFSET_INDEX_ENTRY.size : count * OFFSET_INDEX_ENTRY.size]))
    if not count or not entries:
        return 0
    relative_offset, position = entries[0]
    if not 0 < position < source.size_bytes:
        return 0
    header = source.read(position, LOG_OVERHEAD)
    base = int.from_bytes(header[:8], "big", signed=True)
    is_there = segment.base_offset <= base <= segment.base_offset + relative_offset and _magic(source, position) >= 0
    return position if is_there else 0


def _magic(source: Source, position: int) -> int:
    """Magic of the entry at a position; -1: none that is known."""
    byte = source.read(position + MAGIC_POSITION, 1)
    return byte[0] if byte and byte[0] <= MAGIC_V2 else -1
