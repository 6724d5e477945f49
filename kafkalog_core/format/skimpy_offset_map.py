"""The cleaner's offset map (SkimpyOffsetMap), and runs of batches decoded for it and for the filter.

A piece has every record of its batches, unless one batch is larger than the columns. Batches that the caller skips are
not decompressed, so damage in them remains unnoticed, as in a broker.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from kafkalog_core import kernels
from kafkalog_core.errors import LimitError
from kafkalog_core.format.columns import RECORD_ROWS, RecordColumns, fresh_memory
from kafkalog_core.format.decode import Arena, PayloadDamage, damage_at, decode_some, state_at
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.kernels import constants as n
from kafkalog_core.kernels.constants import BIT_DISCARD, BITS_REMOVED
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kafkalog_core.format.columns import BatchColumns

__all__ = [
    "CLEAN_ROWS",
    "DEFAULT_LOAD_FACTOR",
    "DEFAULT_MEMORY_BYTES",
    "ENTRY_BYTES",
    "DecodedBatches",
    "Mapped",
    "OffsetMap",
    "whole_batches",
]


CLEAN_ROWS: Final = 2 * RECORD_ROWS
"""Records that are judged at a time. A larger batch is decoded twice if some of its records are removed."""


class DecodedBatches(Struct, frozen=True):
    """Batches in rows `first` to `last` (exclusive), whose records are in the record columns.

    Attributes:
        memory: the buffer that the records refer to.
        batches: the batch columns, with the payloads of these batches in `memory`.
        first: row of the first batch.
        last: row after the last one.
        is_whole: false: these are some of the records of one large batch; the next pieces have the others.
    """

    memory: memoryview
    batches: BatchColumns
    first: int
    last: int
    is_whole: bool = True


def whole_batches(
    memory: memoryview, batches: BatchColumns, bits: bytes, records: RecordColumns, *, max_bytes: int, first: int = 0
) -> Iterator[DecodedBatches | PayloadDamage]:
    """Yield all batches from row `first` on in pieces, up to the first damage.

    Args:
        memory: the buffer that the spans of `batches` refer to.
        batches: rows filled by a walk.
        bits: the `BIT_*` of each batch, one byte each; batches with only BIT_DISCARD are skipped.
        records: columns to fill; a piece of skipped batches has no records.
        max_bytes: the largest decompressed payload of one batch.
        first: the row to start with.
    """
    codecs = batches.column("codec")
    arena: Arena | None = None
    while first < batches.count:
        last = kernels.take_rows(batches, bits, first, batches.count, records.capacity)
        if bits[first] & BITS_REMOVED == BIT_DISCARD:
            records.count = 0
            yield DecodedBatches(memory, batches, first, last)
        elif codecs[first] == 0:
            if (yield from _decoded(memory, batches, first, last, records)):
                return
        else:
            arena = arena or Arena(memory, batches, max_bytes)
            if (yield from _inflated(arena, first, last, records)):
                return
        first = last


def _inflated(
    arena: Arena, first: int, last: int, records: RecordColumns
) -> Generator[DecodedBatches | PayloadDamage, None, bool]:
    """Yield compressed batches. Return whether damage ended the run."""
    while first < last:
        end, damage = arena.fill(first, last)
        if (yield from _decoded(arena.memory, arena.columns, first, end, records)):
            return True
        if damage is not None and not damage.is_ignored:
            yield damage
            return True
        first = end
    return False


def _decoded(
    memory: memoryview, batches: BatchColumns, first: int, last: int, records: RecordColumns
) -> Generator[DecodedBatches | PayloadDamage, None, bool]:
    """Yield batches that all refer to `memory`. Return whether damage ended the run."""
    state, end = state_at(first), last
    while first < last:
        result = decode_some(memory, batches, end, state, records)
        batch, ordinal = state[0], state[2]
        if result == kernels.DECODE_DONE:
            yield DecodedBatches(memory, batches, first, end)
            first, end = end, last
            state = state_at(first)
        elif result == kernels.DECODE_FULL and batch == first:  # larger than the columns: in parts
            yield DecodedBatches(memory, batches, first, first + 1, is_whole=False)
            end = first + 1
        else:
            if batch > first:
                records.count -= ordinal
                yield DecodedBatches(memory, batches, first, batch)
            if result != kernels.DECODE_FULL:
                yield damage_at(batches, state, result, None)
                return True
            first, state = batch, state_at(batch)
    return False


DEFAULT_MEMORY_BYTES: Final = 128 * 1024 * 1024
DEFAULT_LOAD_FACTOR: Final = 0.9
ENTRY_BYTES: Final = 24
_MAX_SLOTS: Final = 2**31  # the slot of a key comes from 32 bits of its digest
_PACKED_SLOTS: Final = 128 * 1024


class Mapped(Struct, frozen=True):
    """The result of mapping a run of batches.

    Attributes:
        rows: number of batches whose keys are all in the map.
        is_full: the map had no room for a record of the batch in row `rows`.
        damage: why the batch in row `rows` cannot be read.
        records: number of records that were read, without those of skipped batches.
    """

    rows: int
    is_full: bool
    damage: PayloadDamage | None
    records: int


class OffsetMap:
    """A map of key digests (MD5) to offsets, of bounded memory, as SkimpyOffsetMap.

    Attributes:
        memory_bytes: size of the table, as requested.
        slots: entries that the table has room for.
        capacity: keys that may be put into the map.
    """

    def __init__(self, memory_bytes: int = DEFAULT_MEMORY_BYTES, load_factor: float = DEFAULT_LOAD_FACTOR) -> None:
        """Raise LimitError if the table has room for no key, has too many slots, or cannot be allocated."""
        self.memory_bytes = memory_bytes
        self.slots = memory_bytes // ENTRY_BYTES
        self.capacity = min(int(self.slots * load_factor), self.slots)
        if self.capacity < 1 or self.slots > _MAX_SLOTS:
            raise LimitError(f"an offset map of {memory_bytes} bytes with a load factor of {load_factor}")
        self.state = array("q", bytes(8 * n.Q_SIZE))
        self.state[n.Q_SLOTS], self.state[n.Q_CAPACITY], self.state[n.Q_LATEST] = self.slots, self.capacity, -1
        self.table = self._fresh()
        self._records = RecordColumns(CLEAN_ROWS)
        self._digests = array("q", bytes(16 * CLEAN_ROWS))

    def _fresh(self) -> memoryview:
        """Return zeroed memory, which the system allocates page by page at the first access."""
        try:
            return memoryview(fresh_memory(self.slots * ENTRY_BYTES)).cast("q")
        except OSError as error:
            raise LimitError(f"the system cannot allocate {self.memory_bytes} bytes for an offset map") from error

    @property
    def size(self) -> int:
        """Number of keys in the map."""
        return self.state[n.Q_KEYS]

    @property
    def latest_offset(self) -> int:
        """Offset up to which the map covers the log; -1: nothing."""
        return self.state[n.Q_LATEST]

    @latest_offset.setter
    def latest_offset(self, offset: int) -> None:
        self.state[n.Q_LATEST] = offset

    def clear(self) -> None:
        """Remove all keys."""
        if self.size:
            self.table = self._fresh()
        self.state[n.Q_KEYS], self.state[n.Q_LATEST] = 0, -1

    def get(self, key: bytes) -> int:
        """Return the offset of a key; -1: it is not in the map."""
        return kernels.find_key(key, self.state, self.table)

    def put(self, key: bytes, offset: int) -> None:
        """Put one key into the map.

        Raises:
            LimitError: the map is full.
        """
        if self.size >= self.capacity:
            raise LimitError(f"the offset map is full: {self.capacity} keys")
        kernels.put_key(key, offset, self.state, self.table)

    def packed(self) -> Iterator[bytes]:
        """Yield the entries in pieces of a few MB, for `merge`."""
        room = array("q", bytes(ENTRY_BYTES * min(_PACKED_SLOTS, self.slots)))
        for first in range(0, self.slots if self.size else 0, _PACKED_SLOTS):
            last = min(first + _PACKED_SLOTS, self.slots)
            count = kernels.pack_entries(self.table, first, last, room)
            if count:
                yield memoryview(room)[: count * n.ENTRY_SIZE].tobytes()

    def merge(self, piece: bytes) -> None:
        """Put packed entries of a later part of the log into the map; the caller sets `latest_offset`.

        Raises:
            LimitError: the map is full.
        """
        entries = memoryview(piece).cast("q")
        if kernels.merge_entries(entries, len(entries) // n.ENTRY_SIZE, self.state, self.table) == n.MAP_FULL:
            raise LimitError(f"the offset map is full: {self.capacity} keys")

    def map_run(
        self,
        memory: memoryview,
        batches: BatchColumns,
        *,
        start: int,
        skips: bytes | None = None,
        follows_batches: bool = True,
        max_bytes: int = MAX_BATCH_BYTES,
    ) -> Mapped:
        """Put the keys of a run of batches into the map, until it is full.

        Args:
            memory: the buffer that the spans of `batches` refer to.
            batches: rows filled by a walk.
            start: offset of the first record to put into the map.
            skips: one byte for each batch, not 0 for batches to skip; control batches are always skipped.
            follows_batches: `latest_offset` is the last offset of every batch, skipped ones included (0.11 and later);
                else that of the last record in the map.
            max_bytes: the largest decompressed payload of one batch.
        """
        state, bits = self.state, bytes(batches.count) if skips is None else skips.translate(_SKIPS)
        state[n.Q_START], state[n.Q_FOLLOWS], state[n.Q_BATCH], state[n.Q_RECORDS] = start, follows_batches, 0, 0
        for piece in whole_batches(memory, batches, bits, self._records, max_bytes=max_bytes):
            if isinstance(piece, PayloadDamage):
                return Mapped(piece.batch, is_full=False, damage=piece, records=state[n.Q_RECORDS])
            last = piece.last if piece.is_whole else piece.first
            result = kernels.map_records(
                piece.memory, piece.batches, bits, self._records, last, state, self.table, self._digests
            )
            if result == n.MAP_FULL:
                return Mapped(state[n.Q_BATCH], is_full=True, damage=None, records=state[n.Q_RECORDS])
        return Mapped(batches.count, is_full=False, damage=None, records=state[n.Q_RECORDS])


_SKIPS: Final = bytes((0, *([n.BIT_DISCARD] * 255)))
