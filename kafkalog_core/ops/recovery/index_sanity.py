"""What brokers look at in the indexes of a segment before they trust them, in the releases that do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.errors import StorageError
from kafkalog_core.format.index import decode_offset_entry, decode_time_entry, iter_txn_entries
from kafkalog_core.format.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, TXN_INDEX_ENTRY
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from kafkalog_core.format.layout import Layout
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.segment import Segment

__all__ = ["is_odd_index", "txn_index_fault"]


def is_odd_index(segment: Segment) -> bool:
    """Whether a release before 2.0 takes an offset or time index for corrupt; the zero tail of a crash looks so.

    It looks at the sizes, at the last entry, which must be above the base offset, and at the first time.
    """
    last = _entry(segment.index, OFFSET_INDEX_ENTRY, -1)
    if last is not None and (not last or decode_offset_entry(last)[0].relative_offset <= 0):
        return True
    first_time, last_time = (_entry(segment.timeindex, TIME_INDEX_ENTRY, which) for which in (0, -1))
    if first_time is None or last_time is None:
        return False
    if not first_time or not last_time:
        return True
    first, final = decode_time_entry(first_time)[0], decode_time_entry(last_time)[0]
    return final.timestamp_ms < first.timestamp_ms or final.relative_offset < 0


def txn_index_fault(path: str, base_offset: int) -> str | None:
    """What a broker from 0.11 on finds wrong with a transaction index: `stray` (recovers) or `version` (stops)."""
    try:
        with Source.open(path) as source:
            position = 0
            while window := source.window(position):
                whole = len(window) - len(window) % TXN_INDEX_ENTRY.size
                for version, _, _, last_offset, _ in iter_txn_entries(window[:whole]):
                    if version >= 256:  # the first byte alone is looked at, as a signed one
                        return "version"
                    if last_offset < base_offset:
                        return "stray"
                if not whole:
                    return None
                position += whole
    except StorageError:
        return None
    return None


def _entry(file: FileInfo | None, layout: Layout, which: int) -> bytes | None:
    """The first or last entry; null: there is none; nothing: the file ends in the middle of one."""
    if file is None:
        return None
    try:
        with Source.open(file.path) as source:
            count, rest = divmod(source.size_bytes, layout.size)
            if rest:
                return b""
            return source.read(0 if which == 0 else (count - 1) * layout.size, layout.size) if count else None
    except StorageError:
        return None
