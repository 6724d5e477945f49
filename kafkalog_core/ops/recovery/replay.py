"""What a broker reads of a log beside recovery: its end, and the batches of producers. Headers alone, no checksums."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.format.layout import HEADER_SIZE_UP_TO_MAGIC, MAX_BATCH_BYTES, OFFSET_INDEX_ENTRY
from kafkalog_core.ops.producing.producer_markers import markers_of
from kafkalog_core.storage.lookups.broker_walk import stop_of_broker
from kafkalog_core.storage.lookups.index_search import IndexPages
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from kafkalog_core.ops.producing.producers import ProducerStates
    from kafkalog_core.storage.listing import FileInfo

__all__ = ["Obstacle", "end_of_log", "replay_producers"]

_HEADERS: Final = ScanOptions(check=False)


class Obstacle(NamedTuple):
    """A place that a broker cannot read past; `is_end` where it takes it for the end of the segment."""

    position: int
    reason: str
    is_end: bool


def replay_producers(
    path: str, size_bytes: int, states: ProducerStates, *, from_offset: int = 0, base_offset: int | None = None
) -> Obstacle | None:
    """Carry the batches of a segment on into the states of producers, from the one that holds an offset on.

    Args:
        path: of the log.
        size_bytes: where it ends.
        states: are changed.
        from_offset: batches that end below are passed over.
        base_offset: of the segment.
    """
    with Source.open(path) as source:
        for item in scan(source, base_offset=base_offset, options=_HEADERS, end=min(size_bytes, source.size_bytes)):
            if isinstance(item, Damage):
                obstacle = _obstacle(item, source, size_bytes)
                if obstacle is not None:
                    return obstacle
                continue
            first = bisect_left(item.batches.column("last_offset"), from_offset)
            if item.batches.has_any("attributes") or not item.batches.holds_only("producer_id", -1):
                markers = markers_of(item.memory, item.batches, max_bytes=MAX_BATCH_BYTES)
                states.replay(item.batches, markers, first=first)
    return None


def end_of_log(path: str, size_bytes: int, base_offset: int, index: FileInfo | None) -> tuple[int, Obstacle | None]:
    """Where a broker that trusts an offset index takes the log to end: behind the last batch from its last entry on.

    A last entry that leads behind the file makes it the base offset, whatever is in the log.
    """
    position, least = _last_entry(None if index is None else index.path, base_offset)
    end_offset = base_offset
    is_reached = False
    with Source.open(path) as source:
        size_bytes = min(size_bytes, source.size_bytes)
        if position > size_bytes - HEADER_SIZE_UP_TO_MAGIC:
            return base_offset, None
        for item in scan(source, base_offset=None, options=_HEADERS, start=position, end=size_bytes):
            if isinstance(item, Damage):
                obstacle = _obstacle(item, source, size_bytes)
                if obstacle is not None:
                    return end_offset, obstacle
                continue
            lasts = item.batches.column("last_offset")
            is_reached = is_reached or max(lasts) >= least
            if is_reached:
                end_offset = lasts[-1] + 1
    return end_offset, None


def _last_entry(index_path: str | None, base_offset: int) -> tuple[int, int]:
    """Position and offset of the last entry, found as brokers search: the zero tail of a crash counts too."""
    if index_path is None:
        return 0, base_offset
    try:
        with Source.open(index_path) as source:
            pages = IndexPages(source, OFFSET_INDEX_ENTRY)
            last = pages.last
            if last is None:
                return 0, base_offset
            slot = pages.search_all(last[0]).lower
            return (0 if slot is None else max(0, pages.entry(slot)[1])), base_offset + last[0]
    except StorageError:
        return 0, base_offset


def _obstacle(damage: Damage, source: Source, size_bytes: int) -> Obstacle | None:
    """Where the broker stops in damage; null: it steps over it."""
    if damage.reason == "unreadable":
        return Obstacle(damage.position, damage.reason, is_end=False)
    stop = stop_of_broker(source, damage, size_bytes)
    return None if stop is None else Obstacle(stop.position, damage.reason, is_end=stop.is_end)
