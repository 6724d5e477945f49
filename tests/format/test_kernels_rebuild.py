"""What recovery makes of batches: every twin against the rules by the book, for any cells of the batch columns."""

from __future__ import annotations

import struct
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core import kernels
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.kernels import constants as k
from tests.support.build import ABORT, COMMIT, Record, batch_v2, control_batch, empty_batch, txn_marker, varint
from tests.support.twins import TWINS, all_agree, twin

EXTREMES = st.sampled_from([-(2**63), -1, 0, 2**31 - 1, 2**31, 2**63 - 1])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "size_bytes": st.integers(60, 900),
            "format": st.sampled_from([0, 1, 2]),
            "base_offset": st.integers(95, 130) | EXTREMES,
            "last_offset": st.integers(95, 130) | EXTREMES,
            "record_count": st.sampled_from([-1, 0, 1, 5]),
            "leader_epoch": st.integers(-1, 4) | EXTREMES,
            "max_timestamp_ms": st.integers(-2, 50) | EXTREMES,
        }
    ),
    min_size=1,
    max_size=12,
)


def columns_of(rows: list[dict[str, int]]) -> BatchColumns:
    columns = BatchColumns(len(rows) + 3)
    columns.count = len(rows)
    position = 0
    for row, cells in enumerate(rows):
        columns.column("position")[row] = position
        position += cells["size_bytes"]
        for name, value in cells.items():
            columns.column(name)[row] = value
    return columns


def first_state(*, interval: int, room: int, time_room: int) -> array[int]:
    state = array("q", bytes(8 * k.X_SIZE))
    state[k.X_BASE], state[k.X_INTERVAL], state[k.X_ROOM], state[k.X_TIME_ROOM] = 100, interval, room, time_room
    state[k.X_TIME_LAST] = state[k.X_MAX_TIME] = state[k.X_EPOCH] = -1
    state[k.X_MAX_OFFSET], state[k.X_FIRST] = 100, k.LEAST
    return state


def call(name: str, columns: BatchColumns, last: int, rules: int, state: array[int]) -> tuple[object, ...]:
    entries, times = bytearray(8 * columns.capacity), bytearray(12 * columns.capacity)
    epochs = array("q", bytes(16 * columns.capacity))
    stop = twin(name).rebuild(columns, last, rules, state, entries, times, epochs)
    return stop, state.tolist(), bytes(entries), bytes(times), epochs.tolist()


def to_int32(value: int) -> bytes:
    return struct.pack(">I", value % 2**32)


class Book:
    """LogSegment.recover up to where it stops."""

    def __init__(self, rules: int, interval: int, room: int, time_room: int) -> None:
        self.rules, self.interval, self.room, self.time_room = rules, interval, room, time_room
        self.index = self.times = b""
        self.epochs: list[tuple[int, int]] = []
        self.indexed = self.position = 0
        self.top, self.top_offset = -1, 100
        self.last_entry: int | None = None
        self.last_time = (-1, 0)

    def read(self, rows: list[dict[str, int]]) -> tuple[int, int]:
        """Why it stopped, and at which row."""
        for number, row in enumerate(rows):
            stop = self.batch(row)
            if stop != k.REBUILD_DONE:
                return stop, number
            latest = self.epochs[-1][0] if self.epochs else -1
            if self.rules & k.REBUILD_EPOCHS and row["format"] == 2 and row["leader_epoch"] > latest:
                self.epochs.append((row["leader_epoch"], row["base_offset"]))
            self.position += row["size_bytes"]
        return k.REBUILD_DONE, len(rows)

    def batch(self, row: dict[str, int]) -> int:
        last = row["last_offset"]
        if self.rules & k.REBUILD_RANGE and not 0 <= last - 100 <= 2**31 - 1:
            return k.REBUILD_OVERFLOW
        if row["max_timestamp_ms"] > self.top:
            self.top, self.top_offset = row["max_timestamp_ms"], last
        if self.position - self.indexed <= self.interval:
            return k.REBUILD_DONE
        return self.entry(last if self.rules & k.REBUILD_LAST else first_of(row))

    def entry(self, offset: int) -> int:
        if len(self.index) // 8 >= self.room:
            return k.REBUILD_FULL
        if self.last_entry is not None and offset <= self.last_entry:
            return k.REBUILD_DISORDER
        if self.rules & k.REBUILD_TIMES:
            stop = self.time_entry()
            if stop != k.REBUILD_DONE:
                return stop
        self.index += to_int32(offset - 100) + to_int32(self.position)
        self.indexed, self.last_entry = self.position, offset
        return k.REBUILD_DONE

    def time_entry(self) -> int:
        if len(self.times) // 12 >= self.time_room:
            return k.REBUILD_FULL
        if self.times and self.top_offset < self.last_time[1]:
            return k.REBUILD_DISORDER
        if self.top > self.last_time[0]:
            self.times += struct.pack(">q", self.top) + to_int32(self.top_offset - 100)
            self.last_time = (self.top, self.top_offset)
        return k.REBUILD_DONE


def first_of(row: dict[str, int]) -> int:
    """The first offset of a batch; of a compressed message what the test says is in it."""
    if row["format"] == 2 or row["record_count"] >= 0:
        return row["base_offset"]
    return max(row["last_offset"] - 1, 1 - 2**63)


@given(ROWS, st.integers(0, 15), st.integers(0, 1500), st.integers(0, 4), st.integers(-1, 4))
def test_rebuild(rows, rules, interval, room, time_room):
    columns = columns_of(rows)
    states = [first_state(interval=interval, room=room, time_room=time_room) for _ in TWINS]
    index, times, epochs = b"", b"", []
    while True:
        results = [call(name, columns, len(rows), rules, state) for name, state in zip(TWINS, states, strict=True)]
        stop, _, entries, new_times, new_epochs = all_agree(results)
        state = states[0]
        index += entries[: 8 * state[k.X_NEW_ENTRIES]]
        times += new_times[: 12 * state[k.X_NEW_TIMES]]
        cells = new_epochs[: 2 * state[k.X_EPOCHS]]
        epochs += zip(cells[::2], cells[1::2], strict=True)
        if stop != k.REBUILD_FIRST:
            break
        for each in states:
            each[k.X_FIRST] = first_of(rows[state[k.X_ROW]])
    book = Book(rules, interval, room, time_room)
    assert (stop, state[k.X_ROW]) == book.read(rows)
    assert (index, times, epochs) == (book.index, book.times, book.epochs)


@pytest.mark.parametrize("name", TWINS)
def test_the_interval_is_exceeded_and_not_met(name):
    """Batches of 1000 bytes: the first is never indexed, and one that starts at the interval is not."""
    rows = [{"size_bytes": 1000, "format": 2, "last_offset": 100 + row, "max_timestamp_ms": 0} for row in range(18)]
    for interval, expected in ((4096, [5000, 10000, 15000]), (4999, [5000, 10000, 15000]), (5000, [6000, 12000])):
        state = first_state(interval=interval, room=99, time_room=99)
        entries = call(name, columns_of(rows), 18, k.REBUILD_LAST | k.REBUILD_TIMES, state)[2]
        found = list(struct.iter_unpack(">ii", entries[: 8 * state[k.X_NEW_ENTRIES]]))
        assert found == [(position // 1000, position) for position in expected]


# --- markers ----------------------------------------------------------------------------------------------------------
def odd_rows(data: bytes) -> list[int]:
    """Every row that is not one plain marker, as all twins say."""
    columns = BatchColumns(8)
    kernels.walk(data, 0, len(data), 0, -(2**63), 2**40, True, columns)
    rows, row = [], 0
    while row < columns.count:
        row = all_agree([twin(name).find_odd_marker(memoryview(data), columns, row) for name in TWINS])
        rows.append(row)
        row += 1
    return rows[:-1] if rows and rows[-1] == columns.count else rows


KEY, VALUE = b"\0\0\0\1", b"\0\0\0\0\0\7"


def control(payload: bytes, count: int = 1) -> bytes:
    fields = {"attributes": 0x30, "producer_id": 7, "base_offset": 0, "last_offset": 0}
    return batch_v2(payload=payload, records_count=count, **fields)


def marker(key: bytes | None = KEY, value: bytes | None = VALUE, *, behind: bytes = b"", headers=()) -> bytes:
    return control(batch_v2([Record(offset=0, key=key, value=value, headers=headers)])[61:] + behind)


def test_plain_markers_are_not_odd():
    log = txn_marker(ABORT, offset=0, producer_id=1, producer_epoch=0)
    log += txn_marker(COMMIT, offset=1, producer_id=1, producer_epoch=0)
    log += (
        struct.pack(">q", 2)
        + marker(KEY + b"more", VALUE + b"more")[8:]
        + empty_batch(5, 5, attributes=0x30, producer_id=1)
    )
    log += batch_v2([Record(offset=9, key=b"", value=b"")], producer_id=3)
    log += control_batch(2, b"no producer", offset=12)
    assert odd_rows(log) == []


@pytest.mark.parametrize(
    "data",
    [
        marker(None),
        marker(b"\0\0\0"),
        marker(b"\xff\xff\0\1"),
        marker(b"\0\0\0\2"),
        marker(KEY, None),
        marker(KEY, b"\0\0\0\0\0"),
        marker(KEY, b"\xff\xff\0\0\0\7"),
        marker(behind=b"\0"),
        marker(headers=((b"h", b"v"),)),
        control(varint(60)),
        control(b""),
        control(b"", -1),
    ],
)
def test_what_is_not_one_plain_marker_is_odd(data):
    log = data + struct.pack(">q", 1) + marker()[8:] + struct.pack(">q", 2) + data[8:]
    assert odd_rows(log) == [0, 2]


@given(st.binary(max_size=40), st.integers(-1, 2))
def test_any_payload(payload, count):
    odd_rows(control(payload, count))
