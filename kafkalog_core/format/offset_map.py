"""The cleaner's offset map: the latest offset of every key of a stretch of the log, in memory of a stated size.

As in Kafka (SkimpyOffsetMap) an entry is 24 bytes, keys are known by their MD5 alone, and the map is full when a part
of its slots, the load factor, is taken. Memory is touched as entries come.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import LimitError
from kafkalog_core.format import kernels
from kafkalog_core.format.arena import PayloadDamage
from kafkalog_core.format.columns import RecordColumns
from kafkalog_core.format.kernels import clean_numbers as n
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.format.whole_batches import CLEAN_ROWS, whole_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.columns import BatchColumns

__all__ = ["DEFAULT_LOAD_FACTOR", "DEFAULT_MEMORY_BYTES", "ENTRY_BYTES", "Mapped", "OffsetMap"]

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
