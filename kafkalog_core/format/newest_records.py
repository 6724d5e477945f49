"""The newest record of each key of a log, with all that later records leave of the earlier ones.

Records are superseded without a Python object for any of them. What is kept of a part of a log is a few MB of cells and
bytes, which a process sends to another one, and which is added to that of the part before it.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.format.columns import RECORD_ROWS
from kafkalog_core.kernels import constants as n
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.columns import RecordColumns

__all__ = ["NewestByKey", "NewestRecord", "NewestRecords"]

_CELL_BYTES: Final = 8
_FEW_KEYS: Final = 512
_DATA_BYTES: Final = 64 * 1024


class NewestRecord(NamedTuple):
    """The newest record of a key.

    Args:
        key: of the record.
        offset: of the record.
        timestamp_ms: of the record.
        value: None: a tombstone.
        tombstone: offset of the last tombstone of this key; -1: there is none.
        replaced: offset of the last record with a value that a tombstone followed; -1: there is none.
    """

    key: bytes
    offset: int
    timestamp_ms: int
    value: bytes | None
    tombstone: int
    replaced: int


class NewestRecords(Struct, frozen=True):
    """The newest records of the keys of a part of a log, in the order in which the keys came first.

    Args:
        rows: the cells of the kernel `newest`.
        data: the keys and values.
    """

    rows: bytes = b""
    data: bytes = b""

    @property
    def count(self) -> int:
        """Number of keys."""
        return len(self.rows) // (n.N_SIZE * _CELL_BYTES)

    def __iter__(self) -> Iterator[NewestRecord]:
        """Yield each record."""
        data, cells = self.data, memoryview(self.rows).cast("q")
        columns = (cells[cell :: n.N_SIZE].tolist() for cell in _CELLS)
        for offset, time, at, size, tombstone, replaced, key, key_size in zip(*columns, strict=True):
            value = None if size < 0 else data[at : at + size]
            yield NewestRecord(data[key : key + key_size], offset, time, value, tombstone, replaced)

    def keys(self) -> set[bytes]:
        """Return the keys."""
        return {record.key for record in self}


_CELLS: Final = (
    n.N_OFFSET,
    n.N_TIME,
    n.N_VALUE,
    n.N_VALUE_SIZE,
    n.N_TOMBSTONE,
    n.N_REPLACED,
    n.N_KEY,
    n.N_KEY_SIZE,
)


class NewestByKey:
    """Keeps the newest record of each key. A key is known by its digest, as to the cleaner (`SkimpyOffsetMap`)."""

    def __init__(self) -> None:
        self._state = array("q", bytes(_CELL_BYTES * n.N_STATE))
        self._digests = array("q", bytes(2 * _CELL_BYTES * RECORD_ROWS))
        self._table = self._rows = memoryview(bytearray()).cast("q")
        self._data = bytearray(_DATA_BYTES)
        self._enlarge_table(_FEW_KEYS)

    def keep(self, memory: memoryview, records: RecordColumns, marks: bytes | bytearray) -> None:
        """Keep the marked records that have a key; they follow all that were kept before.

        Args:
            memory: the buffer that the records refer to.
            records: record columns.
            marks: a byte for each record; those with 0 are left out.
        """
        if records.count * 2 > len(self._digests):
            self._digests = array("q", bytes(2 * _CELL_BYTES * records.count))
        self._state[n.N_NEXT] = 0
        while not kernels.keep_newest(
            memory, records, marks, self._digests, self._state, self._table, self._rows, self._data
        ):
            self._enlarge()

    def join(self, later: NewestRecords) -> None:
        """Add what a later part of the log says."""
        cells = memoryview(later.rows).cast("q")
        self._state[n.N_NEXT] = 0
        while not kernels.join_newest(cells, later.count, later.data, self._state, self._table, self._rows, self._data):
            self._enlarge()

    def records(self) -> NewestRecords:
        """Return the newest records up to here."""
        used = self._state[n.Q_KEYS] * n.N_SIZE
        return NewestRecords(self._rows[:used].tobytes(), bytes(memoryview(self._data)[: self._state[n.N_BYTES]]))

    def _enlarge(self) -> None:
        if self._state[n.Q_KEYS] >= self._state[n.Q_CAPACITY]:
            self._enlarge_table(2 * self._state[n.Q_CAPACITY])
        else:
            self._data += bytes(len(self._data))

    def _enlarge_table(self, keys: int) -> None:
        """Make room for that many keys. Half of the table is kept empty, so that entries are near their places."""
        state, slots = self._state, self._state[n.Q_SLOTS]
        entries = array("q", bytes(n.ENTRY_SIZE * _CELL_BYTES * slots))
        count = kernels.pack_entries(self._table, 0, slots, entries)
        state[n.Q_SLOTS], state[n.Q_CAPACITY], state[n.Q_KEYS] = 2 * keys, keys, 0
        self._table = memoryview(bytearray(n.ENTRY_SIZE * _CELL_BYTES * 2 * keys)).cast("q")
        kernels.merge_entries(memoryview(entries), count, state, self._table)
        rows = memoryview(bytearray(n.N_SIZE * _CELL_BYTES * keys)).cast("q")
        rows[: len(self._rows)] = self._rows
        self._rows = rows
