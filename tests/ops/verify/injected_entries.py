"""Entries of indexes and snapshots, asked by another hand whether a healthy broker may have written them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import crc32c

if TYPE_CHECKING:
    from tests.ops.verify.injected_log import Batch

__all__ = ["is_like_meant", "is_offset_index", "is_time_index", "snapshot_entries"]

_BEHIND: Final = 1 << 40


def _entries(data: bytes, layout: str) -> list[tuple[int, int]] | None:
    """Entries without the zeros that an open index ends with; null where the file ends in the middle of one."""
    size = struct.calcsize(layout)
    if len(data) % size:
        return None
    entries = list(struct.iter_unpack(layout, data))
    while entries and entries[-1] == (0, 0):
        entries.pop()
    return entries


def is_offset_index(data: bytes, base: int, batches: list[tuple[Batch, int]], *, is_last: bool) -> bool:
    """Whether each entry names the start of a batch and an offset of it, or of those before the next entry."""
    entries = _entries(data, ">ii")
    if entries is None or (not is_last and 8 * len(entries) < len(data)):
        return False
    places = [place for _, place in entries]
    for row, (offset, place) in enumerate(entries):
        behind = entries[row + 1] if row + 1 < len(entries) else (_BEHIND, _BEHIND)
        here = [batch for batch, position in batches if place <= position < behind[1]]
        if place <= 0 or offset >= behind[0] or place >= behind[1] or place not in {at for _, at in batches}:
            return False
        if base + offset not in {number for batch in here for number in (batch.base, batch.last)}:
            return False
    return places == sorted(places)


def is_time_index(data: bytes, base: int, batches: list[tuple[Batch, int]], *, is_last: bool) -> bool:
    """Whether each entry holds the largest timestamp so far, and an offset of the batch that has it."""
    entries = _entries(data, ">qi")
    if entries is None or (not is_last and 12 * len(entries) < len(data)):
        return False
    before = (-1, -1)
    for time, offset in entries:
        tops = [batch.timestamp_ms for batch, _ in batches if batch.base <= base + offset]
        holders = [batch for batch, _ in batches if batch.base <= base + offset <= batch.last]
        if time <= before[0] or offset < before[1] or not holders:
            return False
        if holders[0].timestamp_ms != time or max(tops) > time:
            return False
        before = (time, offset)
    top = max((batch for batch, _ in batches), key=lambda batch: batch.timestamp_ms, default=None)
    return is_last or top is None or top.is_v1 or before[0] == top.timestamp_ms


def is_like_meant(data: bytes, meant: list[tuple[int, int, int, int]]) -> bool:
    """Whether the entries of a transaction index are what they should be, but for the last stable offsets."""
    if len(data) % 34:
        return False
    entries = list(struct.iter_unpack(">hqqqq", data))
    return [entry[:4] for entry in entries] == [(0, *entry[:3]) for entry in meant]


def snapshot_entries(data: bytes) -> list[tuple[int, ...]] | None:
    """The producers of a snapshot; null where a broker cannot read it."""
    if len(data) < 10 or (len(data) - 10) % 46:
        return None
    version, crc, count = struct.unpack_from(">hIi", data)
    if version != 1 or crc != crc32c.crc32c(data[6:]) or count != (len(data) - 10) // 46:
        return None
    return list(struct.iter_unpack(">qhiqiqiq", data[10:]))
