"""What a fetch from a place on returns: its whole batches, then the slice itself with the cut batch at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core import tables
from kafkalog_core.ops.reading.chunks import BatchChunk, Lines, rows_at
from kafkalog_core.storage.scan import Damage, ScanOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.ops.reading.chunks import Place
    from kafkalog_core.ops.reading.rows import Chunk
    from kafkalog_core.storage.lookups.lookup import PartitionLookup
    from kafkalog_core.storage.lookups.segment_lookup import BatchPlace
    from kafkalog_core.storage.lookups.trace import Trace

__all__ = ["fetch_chunks"]


def fetch_chunks(
    lookup: PartitionLookup,
    batch: BatchPlace,
    place: Place,
    size_bytes: int,
    *,
    max_bytes: int,
    has_whole_first: bool,
    trace: Trace,
) -> Iterator[Chunk]:
    """Rows of the whole batches of a fetch that starts at a batch, then its `fetch` row. Raises StorageError."""
    cut = lookup.fetch(batch, size_bytes, max_bytes=max_bytes, has_whole_first=has_whole_first, trace=trace)
    end = cut.position + cut.size_bytes
    segment = lookup.segment_of(batch)
    lines = Lines(place)
    batches, whole_end, last_offset = 0, cut.position, None
    for item in segment.scan(cut.position, ScanOptions(), end=end):
        if isinstance(item, Damage):
            if item.position + item.size_bytes < end:  # else it is the cut batch, or whatever stands at the end
                trace.met(segment.path, item)
                whole_end = max(whole_end, item.position + item.size_bytes)
            continue
        columns = item.batches
        batches += columns.count
        last_offset = columns.column("base_offset" if lookup.is_v07 else "last_offset")[-1]
        whole_end = columns.column("position")[-1] + columns.column("size_bytes")[-1]
        yield BatchChunk(lines, item)
    partial_bytes = end - whole_end
    row = {
        "position": cut.position,
        "size_bytes": cut.size_bytes,
        "asked_bytes": cut.asked[-1],
        "tries": len(cut.asked),
        "outcome": "too-large" if cut.is_too_large else "partial" if partial_bytes else "whole",
        "batches": batches,
        "first_offset": batch.base_offset,
        "last_offset": last_offset,
        "partial_position": whole_end if partial_bytes else None,
        "partial_bytes": partial_bytes,
    }
    yield rows_at(place, tables.FETCH, [row])
