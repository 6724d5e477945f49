"""The offset, time and transaction index: fixed-size entries without header or checksum, and `IndexBuilder`.

The number of entries is the file's size divided by the entry's size. The remainder (`split_size`) is a partial entry,
which current brokers ignore and those before 2.3 treat as corruption. The `.index` and `.timeindex` of the active
segment are preallocated, so after a crash zeros follow the last entry (`used_entries`); a `.txnindex` is not.

`IndexBuilder` builds offset and time index from the columns of batches, for recovery, appends and the cleaner. Recovery
and appends of one batch at a time write the same entries: one for each batch that starts more than index.interval.bytes
after the last batch with an entry. Brokers before 3.9 treat a whole append call as one batch (`add_set`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from kafkalog_core import kernels
from kafkalog_core.errors import FieldError, LimitError, TruncatedError
from kafkalog_core.format.columns import BATCH_ROWS
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.layout import (
    MAGIC_V2,
    MAX_BATCH_BYTES,
    MAX_INT32,
    OFFSET_INDEX_ENTRY,
    TIME_INDEX_ENTRY,
    TIMESTAMP_TYPE_BIT,
    TXN_INDEX_ENTRY,
    TXN_INDEX_VERSION,
)
from kafkalog_core.kernels import constants as k
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.format.layout import Layout

__all__ = [
    "MAX_TXN_INDEX_BYTES",
    "IndexBuilder",
    "OffsetEntry",
    "TimeEntry",
    "TxnEntry",
    "decode_offset_entry",
    "decode_time_entry",
    "decode_txn_entry",
    "encode_offset_entry",
    "encode_time_entry",
    "encode_txn_entry",
    "first_offset_inside",
    "iter_offset_entries",
    "iter_time_entries",
    "iter_txn_entries",
    "name_records",
    "offset_of_time",
    "split_size",
    "used_entries",
]

MAX_TXN_INDEX_BYTES: Final = 512 * 1024 * 1024
"""No transaction index is larger: for each entry of 34 bytes a log of 2 GiB has a marker, and a batch that it ends."""


Buffer = bytes | bytearray | memoryview


class OffsetEntry(Struct, frozen=True, kw_only=True):
    """`relative_offset` + base offset of the segment: an offset, usually the last, of the batch at `log_position`."""

    relative_offset: int
    log_position: int


class TimeEntry(Struct, frozen=True, kw_only=True):
    """No record up to `relative_offset` + base offset of the segment has a timestamp above `timestamp_ms`."""

    timestamp_ms: int
    relative_offset: int


class TxnEntry(Struct, frozen=True, kw_only=True):
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


_STOPPED = {
    k.REBUILD_OVERFLOW: "no index of a segment that starts at {base} can hold offset {last}",
    k.REBUILD_FULL: "the index is full: segment.index.bytes has room for no more entries",
    k.REBUILD_DISORDER: "offset {last} is not above the offset of the previous index entry",
}


class IndexBuilder:
    """Both indexes of one segment as they grow; `offset_index` and `time_index` are the contents of the files, trimmed.

    Args:
        base_offset: of the segment.
        bits: rules of the release, REBUILD_LAST to REBUILD_EPOCHS.
        interval_bytes: index.interval.bytes.
        max_index_bytes: segment.index.bytes.
        rows: batches that are added at a time, which take 36 bytes of memory each.
    """

    def __init__(
        self, base_offset: int, *, bits: int, interval_bytes: int, max_index_bytes: int, rows: int = BATCH_ROWS
    ) -> None:
        self.offset_index, self.time_index = bytearray(), bytearray()
        self.epochs: list[tuple[int, int]] = []
        self._base_offset = base_offset
        self._bits = bits
        self._state = array("q", bytes(8 * k.X_SIZE))
        self._state[k.X_BASE] = base_offset
        self._state[k.X_INTERVAL] = interval_bytes
        self._state[k.X_ROOM] = max_index_bytes // OFFSET_INDEX_ENTRY.size
        self._state[k.X_TIME_ROOM] = max_index_bytes // TIME_INDEX_ENTRY.size - 1
        self._state[k.X_TIME_LAST] = self._state[k.X_MAX_TIME] = self._state[k.X_EPOCH] = -1
        self._state[k.X_MAX_OFFSET] = base_offset
        self._state[k.X_FIRST] = k.LEAST
        self._rows = rows
        self._new_entries = bytearray(rows * OFFSET_INDEX_ENTRY.size)
        self._new_times = bytearray(rows * TIME_INDEX_ENTRY.size)
        self._new_epochs = array("q", bytes(2 * 8 * rows))

    # --- what is known ------------------------------------------------------------------------------------------------
    @property
    def max_timestamp_ms(self) -> int:
        """Largest timestamp of a batch so far; -1: none."""
        return self._state[k.X_MAX_TIME]

    @property
    def room(self) -> int:
        """Entries that fit into both indexes; the last slot of the time index is kept for `close`."""
        state = self._state
        entries = state[k.X_ROOM] - state[k.X_ENTRIES]
        return min(entries, state[k.X_TIME_ROOM] - state[k.X_TIMES]) if self._bits & k.REBUILD_TIMES else entries

    @property
    def is_full(self) -> bool:
        """Whether a broker starts a new segment rather than append here (`AbstractIndex.isFull`)."""
        return self.room <= 0

    @property
    def is_offset_index_full(self) -> bool:
        """Whether the offset index is full."""
        return self._state[k.X_ENTRIES] >= self._state[k.X_ROOM]

    @property
    def entries(self) -> tuple[int, int]:
        """Number of entries of the offset index and of the time index."""
        return self._state[k.X_ENTRIES], self._state[k.X_TIMES]

    # --- batch by batch -----------------------------------------------------------------------------------------------
    def add_batches(self, batches: BatchColumns, first: int = 0, last: int | None = None) -> None:
        """Append rows, each as one append call. Raises LimitError or FieldError if a broker's append would fail.

        Read are `position` (in this segment), `last_offset` and `max_timestamp_ms`, and if entries have first offsets,
        `base_offset`. That is -1 for a compressed message: use `advance` for these.
        """
        last = batches.count if last is None else last
        row, stop = self.advance(batches, first, last)
        self.check(stop, batches, row)

    def check(self, stop: int, batches: BatchColumns, row: int) -> None:
        """Raise the reason why `advance` stopped as LimitError or FieldError, unless it reached the end."""
        if stop != k.REBUILD_DONE:
            raise self._error(stop, batches.column("last_offset")[row])

    def advance(
        self, batches: BatchColumns, first: int, last: int, *, first_offset: int | None = None
    ) -> tuple[int, int]:
        """Append rows up to the first that fails. Return that row and the reason, a REBUILD number.

        After REBUILD_FIRST, continue from that row with the first offset in the compressed message.
        """
        state = self._state
        state[k.X_ROW] = first
        if first_offset is not None:
            state[k.X_FIRST] = first_offset
        new = (self._new_entries, self._new_times, self._new_epochs)
        while True:
            end = min(last, state[k.X_ROW] + self._rows)
            stop = kernels.rebuild(batches, end, self._bits, state, *new)
            if state[k.X_NEW_ENTRIES] or state[k.X_NEW_TIMES]:
                self.offset_index += self._new_entries[: state[k.X_NEW_ENTRIES] * OFFSET_INDEX_ENTRY.size]
                self.time_index += self._new_times[: state[k.X_NEW_TIMES] * TIME_INDEX_ENTRY.size]
            if state[k.X_EPOCHS]:
                pairs = self._new_epochs[: 2 * state[k.X_EPOCHS]]
                self.epochs += zip(pairs[::2], pairs[1::2], strict=True)
            if stop != k.REBUILD_DONE or end >= last:
                return state[k.X_ROW], stop

    def rename_times(self, start: int, own: Callable[[int], int]) -> None:
        """Replace the offsets of the time entries from byte `start` on, and of the next entry, by `own(offset)`."""
        for position in range(start, len(self.time_index), TIME_INDEX_ENTRY.size):
            entry, _ = decode_time_entry(self.time_index, position)
            offset = own(self._base_offset + entry.relative_offset)
            renamed = encode_time_entry(entry.timestamp_ms, offset - self._base_offset)
            self.time_index[position : position + TIME_INDEX_ENTRY.size] = renamed
            self._state[k.X_TIME_LAST_OFFSET] = offset
        self._state[k.X_MAX_OFFSET] = own(self._state[k.X_MAX_OFFSET])

    # --- call by call -------------------------------------------------------------------------------------------------
    def add_set(
        self,
        *,
        position: int,
        first_offset: int,
        last_offset: int,
        max_timestamp_ms: int,
        offset_of_max: int,
    ) -> None:
        """Append several batches in one call, as brokers before 3.9 do; `offset_of_max` has the largest timestamp.

        Raises LimitError or FieldError if a broker's append would fail.
        """
        state, named = self._state, last_offset if self._bits & k.REBUILD_LAST else first_offset
        if self._bits & k.REBUILD_RANGE and not 0 <= last_offset - self._base_offset <= MAX_INT32:
            raise self._error(k.REBUILD_OVERFLOW, last_offset)
        if max_timestamp_ms > state[k.X_MAX_TIME]:
            state[k.X_MAX_TIME], state[k.X_MAX_OFFSET] = max_timestamp_ms, offset_of_max
        if position - state[k.X_INDEXED] <= state[k.X_INTERVAL]:
            return
        if self.is_full:
            raise self._error(k.REBUILD_FULL, named)
        if state[k.X_ENTRIES] and named <= state[k.X_LAST_OFFSET]:
            raise self._error(k.REBUILD_DISORDER, named)
        if self._bits & k.REBUILD_TIMES:
            self._add_time()
        self.offset_index += encode_offset_entry(named - self._base_offset, position)
        state[k.X_ENTRIES] += 1
        state[k.X_LAST_OFFSET], state[k.X_INDEXED] = named, position

    def close(self) -> None:
        """Add the last time entry of a closed segment, for which a slot is kept. Raises FieldError."""
        if self._bits & k.REBUILD_TIMES:
            self._add_time()

    # --- below --------------------------------------------------------------------------------------------------------
    def _add_time(self) -> None:
        """Add a time entry, as TimeIndex.maybeAppend does."""
        state = self._state
        timestamp, offset = state[k.X_MAX_TIME], state[k.X_MAX_OFFSET]
        if state[k.X_TIMES] and offset < state[k.X_TIME_LAST_OFFSET]:
            raise FieldError(
                f"offset {offset} of the largest timestamp is below the offset of the previous time index entry"
            )
        if timestamp <= state[k.X_TIME_LAST]:
            return
        self.time_index += encode_time_entry(timestamp, offset - self._base_offset)
        state[k.X_TIMES] += 1
        state[k.X_TIME_LAST], state[k.X_TIME_LAST_OFFSET] = timestamp, offset

    def _error(self, stop: int, offset: int) -> FieldError | LimitError:
        kind = LimitError if stop == k.REBUILD_FULL else FieldError
        return kind(self.why(stop, offset))

    def why(self, stop: int, offset: int) -> str:
        """Return a failure (REBUILD number) as part of a sentence; `offset`: the last offset of the batch."""
        return _STOPPED[stop].format(base=self._base_offset, last=offset)


def first_offset_inside(memory: memoryview, batches: BatchColumns, row: int) -> int:
    """Return the first offset of a batch; a compressed message is decompressed. Raises FieldError if it cannot be."""
    known: int = batches.column("base_offset")[row]
    if known >= 0:
        return known
    for run in _records(memory, batches, row):
        first: int = run.records.column("offset")[0]
        return first
    raise FieldError("a compressed message cannot be decompressed")


def offset_of_time(memory: memoryview, batches: BatchColumns, row: int) -> int:
    """Return the offset that leaders before 3.9 index for the largest timestamp of a batch.

    In an uncompressed batch of magic 2 with CreateTime it is the offset of that record; else the batch's last offset.
    Raises FieldError if the records cannot be read.
    """
    last: int = batches.column("last_offset")[row]
    is_plain = batches.column("format")[row] == MAGIC_V2 and batches.column("codec")[row] == 0
    if not is_plain or batches.column("attributes")[row] & TIMESTAMP_TYPE_BIT:
        return last
    latest = batches.column("max_timestamp_ms")[row]
    for run in _records(memory, batches, row):
        times = run.records.column("timestamp_ms").tolist()
        if latest in times:
            offset: int = run.records.column("offset")[times.index(latest)]
            return offset
    return last


def name_records(
    indexes: IndexBuilder, memory: memoryview, batches: BatchColumns, first: int, last: int, *, times_before: int
) -> None:
    """Replace the offsets in the time entries of these rows by the offsets of the records with these timestamps.

    Args:
        indexes: the indexes, after the rows were appended, each as one call.
        memory: the buffer that the spans of `batches` refer to.
        batches: batch columns.
        first: the first row.
        last: the row after the last one.
        times_before: size of the time index before these rows, in bytes.
    """

    def own(offset: int) -> int:
        row = bisect_left(lasts, offset, first, last)
        return offset_of_time(memory, batches, row) if row < last and lasts[row] == offset else offset

    lasts = batches.column("last_offset")
    indexes.rename_times(times_before, own)


def _records(memory: memoryview, batches: BatchColumns, row: int) -> Iterator[RecordRun]:
    for item in decode_run(memory, batches.part(row, row + 1), max_bytes=MAX_BATCH_BYTES):
        if not isinstance(item, RecordRun):
            raise FieldError(item.detail)
        yield item
