"""Runs of batches decoded so that a call of the cleaner's kernels finds every record of a batch, as far as can be.

Batches that a caller passes over are not opened: what is wrong with them is nobody's trouble, as for a broker.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import LimitError
from kafkalog_core.format import kernels
from kafkalog_core.format.columns import RECORD_ROWS, RecordColumns
from kafkalog_core.format.compression import Arena, PayloadDamage
from kafkalog_core.format.decode import damage_at, decode_some, state_at
from kafkalog_core.format.kernels import constants as n
from kafkalog_core.format.kernels.constants import BIT_DISCARD, BITS_REMOVED
from kafkalog_core.format.layout import MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kafkalog_core.format.columns import BatchColumns

__all__ = [
    "CLEAN_ROWS",
    "DEFAULT_LOAD_FACTOR",
    "DEFAULT_MEMORY_BYTES",
    "ENTRY_BYTES",
    "Mapped",
    "OffsetMap",
    "Piece",
    "whole_batches",
]


CLEAN_ROWS: Final = 2 * RECORD_ROWS
"""Records that are judged at a time. Larger batches are read twice, if something of them goes."""
TRAILING: Final = "payload-trailing"
"""What a broker reads over without a word: bytes behind those that hold the records."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Batches `first` to `last` (exclusive), whose records are in the columns.

    Attributes:
        memory: the buffer that the records refer to.
        batches: the batch columns, with the payloads of these batches in `memory`.
        first: row of the first batch.
        last: row behind the last one.
        is_whole: false: only a part of the records of one large batch; the others are in the next pieces.
    """

    memory: memoryview
    batches: BatchColumns
    first: int
    last: int
    is_whole: bool = True


def whole_batches(
    memory: memoryview, batches: BatchColumns, bits: bytes, records: RecordColumns, *, max_bytes: int, first: int = 0
) -> Iterator[Piece | PayloadDamage]:
    """All batches from row `first` on, piece by piece, or up to one that cannot be read, which ends it.

    Args:
        memory: the buffer that the spans of `batches` refer to.
        batches: rows filled by a walk.
        bits: the `BIT_*` of each, a byte each; those with BIT_DISCARD alone are passed over.
        records: columns to fill; no record is in them where batches are passed over.
        max_bytes: the largest inflated payload of one batch.
        first: row to start with.
    """
    codecs = batches.column("codec")
    arena: Arena | None = None
    while first < batches.count:
        last = kernels.take_rows(batches, bits, first, batches.count, records.capacity)
        if bits[first] & BITS_REMOVED == BIT_DISCARD:
            records.count = 0
            yield Piece(memory, batches, first, last)
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
) -> Generator[Piece | PayloadDamage, None, bool]:
    """Compressed batches; gives whether one of them ended it."""
    while first < last:
        behind, damage = arena.fill(first, last)
        if (yield from _decoded(arena.memory, arena.columns, first, behind, records)):
            return True
        if damage is not None and damage.reason != TRAILING:
            yield damage
            return True
        first = behind
    return False


def _decoded(
    memory: memoryview, batches: BatchColumns, first: int, last: int, records: RecordColumns
) -> Generator[Piece | PayloadDamage, None, bool]:
    """Batches that all refer to `memory`; gives whether one of them ended it."""
    state, behind = state_at(first), last
    while first < last:
        result = decode_some(memory, batches, behind, state, records)
        batch, ordinal = state[0], state[2]
        if result == kernels.DECODE_DONE:
            yield Piece(memory, batches, first, behind)
            first, behind = behind, last
            state = state_at(first)
        elif result == kernels.DECODE_FULL and batch == first:  # larger than the columns: by itself, in parts
            yield Piece(memory, batches, first, first + 1, is_whole=False)
            behind = first + 1
        else:
            if batch > first:
                records.count -= ordinal
                yield Piece(memory, batches, first, batch)
            if result != kernels.DECODE_FULL:
                yield damage_at(batches, state, result, None)
                return True
            first, state = batch, state_at(batch)
    return False


DEFAULT_MEMORY_BYTES: Final = 128 * 1024 * 1024
DEFAULT_LOAD_FACTOR: Final = 0.9
ENTRY_BYTES: Final = 24
_MAX_SLOTS: Final = 2**31  # places are told by 32 bits of a digest
_PACKED_SLOTS: Final = 128 * 1024


@dataclass(frozen=True, slots=True)
class Mapped:
    """What came of a run of batches.

    Attributes:
        rows: batches that entered wholly.
        is_full: the map had no room for a record of the batch in row `rows`.
        damage: why the batch in row `rows` cannot be read.
        records: that were looked at, those of passed-over batches not among them.
    """

    rows: int
    is_full: bool
    damage: PayloadDamage | None
    records: int


class OffsetMap:
    """A map of keys to offsets.

    Attributes:
        memory_bytes: that were stated.
        slots: entries that the memory has room for.
        capacity: keys that may enter.
    """

    def __init__(self, memory_bytes: int = DEFAULT_MEMORY_BYTES, load_factor: float = DEFAULT_LOAD_FACTOR) -> None:
        """Raises LimitError where not one key would fit, more than can be told apart, or there is no such memory."""
        self.memory_bytes = memory_bytes
        self.slots = memory_bytes // ENTRY_BYTES
        self.capacity = min(int(self.slots * load_factor), self.slots)
        if self.capacity < 1 or self.slots > _MAX_SLOTS:
            raise LimitError(f"an offset map of {memory_bytes} bytes, of which a part of {load_factor} may be taken")
        self.state = array("q", bytes(8 * n.Q_SIZE))
        self.state[n.Q_SLOTS], self.state[n.Q_CAPACITY], self.state[n.Q_LATEST] = self.slots, self.capacity, -1
        self.table = self._fresh()
        self._records = RecordColumns(CLEAN_ROWS)
        self._digests = array("q", bytes(16 * CLEAN_ROWS))

    def _fresh(self) -> memoryview:
        """Memory that the system gives when it is touched."""
        try:
            return memoryview(mmap(-1, self.slots * ENTRY_BYTES, MAP_PRIVATE | MAP_ANONYMOUS)).cast("q")
        except OSError as error:
            raise LimitError(f"the system does not give {self.memory_bytes} bytes for an offset map") from error

    @property
    def size(self) -> int:
        """Keys that are in the map."""
        return self.state[n.Q_KEYS]

    @property
    def latest_offset(self) -> int:
        """Offset up to which the map knows the log; -1: it knows nothing."""
        return self.state[n.Q_LATEST]

    @latest_offset.setter
    def latest_offset(self, offset: int) -> None:
        self.state[n.Q_LATEST] = offset

    def clear(self) -> None:
        """Forget all keys."""
        if self.size:
            self.table = self._fresh()
        self.state[n.Q_KEYS], self.state[n.Q_LATEST] = 0, -1

    def get(self, key: bytes) -> int:
        """The offset of a key; -1: it is not in the map."""
        return kernels.find_key(key, self.state, self.table)

    def put(self, key: bytes, offset: int) -> None:
        """Put one key into the map.

        Raises:
            LimitError: there is no room.
        """
        if self.size >= self.capacity:
            raise LimitError(f"the offset map is full: {self.capacity} keys")
        kernels.put_key(key, offset, self.state, self.table)

    def packed(self) -> Iterator[bytes]:
        """The entries in pieces of a few MB, for `merge`."""
        room = array("q", bytes(ENTRY_BYTES * min(_PACKED_SLOTS, self.slots)))
        for first in range(0, self.slots if self.size else 0, _PACKED_SLOTS):
            last = min(first + _PACKED_SLOTS, self.slots)
            count = kernels.pack_entries(self.table, first, last, room)
            if count:
                yield memoryview(room)[: count * n.ENTRY_SIZE].tobytes()

    def merge(self, piece: bytes) -> None:
        """Put packed entries of a later part of the log into the map; its `latest_offset` is for the caller to move.

        Raises:
            LimitError: there is no room.
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
        """Put the keys of a run of batches into the map, up to a record that there is no room for.

        Args:
            memory: the buffer that the spans of `batches` refer to.
            batches: rows filled by a walk.
            start: offset of the first record that enters.
            skips: a byte a batch, not 0 where nothing of it enters; control batches need none.
            follows_batches: `latest_offset` is that of every batch, whether anything of it entered or not (0.11 and
                later); else that of the last record that entered.
            max_bytes: the largest inflated payload of one batch.
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
