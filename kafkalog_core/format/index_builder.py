"""Offset and time index of a segment, made of the columns of its batches: by recovery, by appends, by a cleaner.

Recovery, and a broker that is appended to one batch at a time, write the same entries: one where more than the interval
lies behind the start of the last batch that has one. Brokers before 3.9 look at a whole append call as if it were one
batch (`add_set`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from kafkalog_core.errors import FieldError, LimitError
from kafkalog_core.format import kernels
from kafkalog_core.format.columns import BATCH_ROWS
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.index import decode_time_entry, encode_offset_entry, encode_time_entry
from kafkalog_core.format.kernels import constants as k
from kafkalog_core.format.layout import (
    MAGIC_V2,
    MAX_BATCH_BYTES,
    MAX_INT32,
    OFFSET_INDEX_ENTRY,
    TIME_INDEX_ENTRY,
    TIMESTAMP_TYPE_BIT,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.format.columns import BatchColumns

__all__ = ["IndexBuilder", "first_offset_inside", "name_records", "offset_of_time"]


_STOPPED = {
    k.REBUILD_OVERFLOW: "no index of a segment that starts at {base} can hold offset {last}",
    k.REBUILD_FULL: "the index is full: segment.index.bytes has room for no more entries",
    k.REBUILD_DISORDER: "offset {last} is not above that of the index entry before",
}


class IndexBuilder:
    """Both indexes of one segment as they grow; `offset_index` and `time_index` are the bytes of the files, trimmed.

    Args:
        base_offset: of the segment.
        bits: what the release does, REBUILD_LAST to REBUILD_EPOCHS.
        interval_bytes: index.interval.bytes.
        max_index_bytes: segment.index.bytes.
    """

    def __init__(self, base_offset: int, *, bits: int, interval_bytes: int, max_index_bytes: int) -> None:
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
        self._new_entries = bytearray(BATCH_ROWS * OFFSET_INDEX_ENTRY.size)
        self._new_times = bytearray(BATCH_ROWS * TIME_INDEX_ENTRY.size)
        self._new_epochs = array("q", bytes(2 * 8 * BATCH_ROWS))

    # --- what is known ------------------------------------------------------------------------------------------------
    @property
    def max_timestamp_ms(self) -> int:
        """Largest timestamp of a batch so far; -1: none."""
        return self._state[k.X_MAX_TIME]

    @property
    def room(self) -> int:
        """Entries that go into both indexes before one is full, the last slot of the time index kept for `close`."""
        state = self._state
        entries = state[k.X_ROOM] - state[k.X_ENTRIES]
        return min(entries, state[k.X_TIME_ROOM] - state[k.X_TIMES]) if self._bits & k.REBUILD_TIMES else entries

    @property
    def is_full(self) -> bool:
        """Whether a broker starts a new segment rather than append here (`AbstractIndex.isFull`)."""
        return self.room <= 0

    @property
    def is_offset_index_full(self) -> bool:
        """Whether it is the offset index that is."""
        return self._state[k.X_ENTRIES] >= self._state[k.X_ROOM]

    @property
    def entries(self) -> tuple[int, int]:
        """How many each index has."""
        return self._state[k.X_ENTRIES], self._state[k.X_TIMES]

    # --- batch by batch -----------------------------------------------------------------------------------------------
    def add_batches(self, batches: BatchColumns, first: int = 0, last: int | None = None) -> None:
        """Append rows, each as one append call. Raises LimitError or FieldError where a broker's append would fail.

        Counted are `position`, which is the place in this segment, `last_offset` and `max_timestamp_ms`; where entries
        name first offsets, `base_offset`, which is -1 for a compressed message: then its first offset must be in
        what `advance` is given, and this is no method for it.
        """
        last = batches.count if last is None else last
        row, stop = self.advance(batches, first, last)
        self.check(stop, batches, row)

    def check(self, stop: int, batches: BatchColumns, row: int) -> None:
        """What `advance` stopped for, as an error: LimitError or FieldError; none where it came to the end."""
        if stop != k.REBUILD_DONE:
            raise self._error(stop, batches.column("last_offset")[row])

    def advance(
        self, batches: BatchColumns, first: int, last: int, *, first_offset: int | None = None
    ) -> tuple[int, int]:
        """The same up to the first row that cannot be carried out: that row, and why, a REBUILD number.

        Where it stops for REBUILD_FIRST, go on from that row with the first offset inside of the compressed message.
        """
        state = self._state
        state[k.X_ROW] = first
        if first_offset is not None:
            state[k.X_FIRST] = first_offset
        new = (self._new_entries, self._new_times, self._new_epochs)
        while True:
            end = min(last, state[k.X_ROW] + BATCH_ROWS)
            stop = kernels.rebuild(batches, end, self._bits, state, *new)
            self.offset_index += self._new_entries[: state[k.X_NEW_ENTRIES] * OFFSET_INDEX_ENTRY.size]
            self.time_index += self._new_times[: state[k.X_NEW_TIMES] * TIME_INDEX_ENTRY.size]
            pairs = self._new_epochs[: 2 * state[k.X_EPOCHS]]
            self.epochs += zip(pairs[::2], pairs[1::2], strict=True)
            if stop != k.REBUILD_DONE or end >= last:
                return state[k.X_ROW], stop

    def rename_times(self, start: int, own: Callable[[int], int]) -> None:
        """Give time entries from a byte on, and the one to come, other offsets: those that `own` says for theirs."""
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
        """Append several batches in one call, as brokers before 3.9 do it; `offset_of_max` has the largest timestamp.

        Raises LimitError or FieldError where a broker's append would fail.
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
        """The time entry with which a segment is closed, for which a slot is kept. Raises FieldError."""
        if self._bits & k.REBUILD_TIMES:
            self._add_time()

    # --- below --------------------------------------------------------------------------------------------------------
    def _add_time(self) -> None:
        """TimeIndex.maybeAppend."""
        state = self._state
        timestamp, offset = state[k.X_MAX_TIME], state[k.X_MAX_OFFSET]
        if state[k.X_TIMES] and offset < state[k.X_TIME_LAST_OFFSET]:
            raise FieldError(f"offset {offset} of the largest timestamp is below that of the time index entry before")
        if timestamp <= state[k.X_TIME_LAST]:
            return
        self.time_index += encode_time_entry(timestamp, offset - self._base_offset)
        state[k.X_TIMES] += 1
        state[k.X_TIME_LAST], state[k.X_TIME_LAST_OFFSET] = timestamp, offset

    def _error(self, stop: int, offset: int) -> FieldError | LimitError:
        kind = LimitError if stop == k.REBUILD_FULL else FieldError
        return kind(self.why(stop, offset))

    def why(self, stop: int, offset: int) -> str:
        """A REBUILD number that is a failure, as a part of a sentence about the batch that ends with an offset."""
        return _STOPPED[stop].format(base=self._base_offset, last=offset)


def first_offset_inside(memory: memoryview, batches: BatchColumns, row: int) -> int:
    """First offset of a batch; a compressed message is opened for it. Raises FieldError where it does not open."""
    known: int = batches.column("base_offset")[row]
    if known >= 0:
        return known
    for run in _records(memory, batches, row):
        first: int = run.records.column("offset")[0]
        return first
    raise FieldError("a compressed message that does not open")


def offset_of_time(memory: memoryview, batches: BatchColumns, row: int) -> int:
    """Where brokers before 3.9 that give offsets themselves find the largest timestamp of a batch.

    That is the record's own offset in an uncompressed batch of magic 2 whose producer gave the times; else its last.
    Raises FieldError where the records cannot be read.
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
    """Give the time entries that rows have just made the offsets of the very records.

    Args:
        indexes: with the rows appended, each as one call.
        memory: what the spans of `batches` refer to.
        batches: the rows.
        first: of them.
        last: behind the last of them.
        times_before: bytes that the time index had before them.
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
