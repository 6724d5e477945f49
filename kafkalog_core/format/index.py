"""Entries of the offset, time and transaction index: runs of fixed-size entries without header or checksum.

The number of entries is the file's size divided by the entry's size. The remainder (`split_size`) is a partial entry,
which current brokers ignore and those before 2.0 treat as corruption. The `.index` and `.timeindex` of the active
segment are preallocated, so after a crash zeros follow the last entry (`used_entries`); a `.txnindex` is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_core.errors import TruncatedError
from kafkalog_core.format.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, TXN_INDEX_ENTRY, TXN_INDEX_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.layout import Layout

__all__ = [
    "OffsetEntry",
    "TimeEntry",
    "TxnEntry",
    "decode_offset_entry",
    "decode_time_entry",
    "decode_txn_entry",
    "encode_offset_entry",
    "encode_time_entry",
    "encode_txn_entry",
    "iter_offset_entries",
    "iter_time_entries",
    "iter_txn_entries",
    "split_size",
    "used_entries",
]

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetEntry:
    """`relative_offset` + base offset of the segment: an offset, usually the last, of the batch at `log_position`."""

    relative_offset: int
    log_position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeEntry:
    """No record up to `relative_offset` + base offset of the segment has a timestamp above `timestamp_ms`."""

    timestamp_ms: int
    relative_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnEntry:
    """An aborted transaction; all offsets are absolute; `last_offset` is that of its ABORT marker."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def decode_offset_entry(buffer: Buffer, position: int = 0) -> tuple[OffsetEntry, int]:
    """Return the entry at `position` and the position after it. Raises TruncatedError."""
    relative_offset, log_position = _unpack(OFFSET_INDEX_ENTRY, buffer, position)
    return OffsetEntry(relative_offset=relative_offset, log_position=log_position), position + OFFSET_INDEX_ENTRY.size


def decode_time_entry(buffer: Buffer, position: int = 0) -> tuple[TimeEntry, int]:
    """Return the entry at `position` and the position after it. Raises TruncatedError."""
    timestamp_ms, relative_offset = _unpack(TIME_INDEX_ENTRY, buffer, position)
    return TimeEntry(timestamp_ms=timestamp_ms, relative_offset=relative_offset), position + TIME_INDEX_ENTRY.size


def decode_txn_entry(buffer: Buffer, position: int = 0) -> tuple[TxnEntry, int]:
    """Return the entry at `position` and the position after it. Raises TruncatedError."""
    version, producer_id, first_offset, last_offset, last_stable_offset = _unpack(TXN_INDEX_ENTRY, buffer, position)
    entry = TxnEntry(
        version=version,
        producer_id=producer_id,
        first_offset=first_offset,
        last_offset=last_offset,
        last_stable_offset=last_stable_offset,
    )
    return entry, position + TXN_INDEX_ENTRY.size


def encode_offset_entry(relative_offset: int, log_position: int) -> bytes:
    """Return an entry of an offset index. Both numbers are cut to their low 32 bits, as by releases before 2.0."""
    return OFFSET_INDEX_ENTRY.struct.pack(_low_32_bits(relative_offset), _low_32_bits(log_position))


def encode_time_entry(timestamp_ms: int, relative_offset: int) -> bytes:
    """Return an entry of a time index. The offset is cut to its low 32 bits, as by releases before 2.0."""
    return TIME_INDEX_ENTRY.struct.pack(timestamp_ms, _low_32_bits(relative_offset))


def encode_txn_entry(producer_id: int, first_offset: int, last_offset: int, last_stable_offset: int) -> bytes:
    """Return an entry of a transaction index; all offsets are absolute."""
    return TXN_INDEX_ENTRY.struct.pack(TXN_INDEX_VERSION, producer_id, first_offset, last_offset, last_stable_offset)


def iter_offset_entries(buffer: Buffer) -> Iterator[tuple[int, int]]:
    """Iterate over the whole entries as `(relative_offset, log_position)`; a partial one at the end is ignored."""
    return OFFSET_INDEX_ENTRY.struct.iter_unpack(_whole(OFFSET_INDEX_ENTRY, buffer))


def iter_time_entries(buffer: Buffer) -> Iterator[tuple[int, int]]:
    """Iterate over the whole entries as `(timestamp_ms, relative_offset)`; a partial one at the end is ignored."""
    return TIME_INDEX_ENTRY.struct.iter_unpack(_whole(TIME_INDEX_ENTRY, buffer))


def iter_txn_entries(buffer: Buffer) -> Iterator[tuple[int, int, int, int, int]]:
    """Iterate over the whole entries: `(version, producer_id, first_offset, last_offset, last_stable_offset)`."""
    return TXN_INDEX_ENTRY.struct.iter_unpack(_whole(TXN_INDEX_ENTRY, buffer))


def split_size(layout: Layout, size_bytes: int) -> tuple[int, int]:
    """Return the number of whole entries in a file of this size, and the bytes of a partial one after them."""
    return divmod(size_bytes, layout.size)


def used_entries(layout: Layout, run: Buffer) -> int:
    """Return the number of entries of a run up to the last one that is not all zeros.

    The first batch of a segment is never indexed, so no broker writes an offset entry of zeros. A time entry of zeros
    is legal in slot 0 (records of 1970 at the base offset); if zeros follow, it cannot be distinguished from them.
    """
    return -(-len(bytes(run).rstrip(b"\0")) // layout.size)


def _low_32_bits(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _whole(layout: Layout, buffer: Buffer) -> memoryview:
    view = memoryview(buffer)
    return view[: len(view) - len(view) % layout.size]


def _unpack(layout: Layout, buffer: Buffer, position: int) -> tuple[int, ...]:
    if position < 0 or len(buffer) - position < layout.size:
        raise TruncatedError(
            f"{max(0, len(buffer) - position)} of {layout.size} bytes of an {layout.name}", position=position
        )
    return layout.struct.unpack_from(buffer, position)
