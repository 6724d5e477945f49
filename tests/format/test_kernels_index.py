"""The kernels that check indexes: all twins agree, and the longest ordered chain of entries is what is kept."""

from __future__ import annotations

import struct
from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.kernels import constants as c
from tests.support.build import offset_index, time_index
from tests.support.twins import TWINS, all_agree, twin

SMALL = st.integers(-3, 12)
INT32 = st.one_of(SMALL, SMALL, st.integers(-(2**31), 2**31 - 1))
INT64 = st.one_of(SMALL, SMALL, st.integers(-(2**63), 2**63 - 1))
FORMATS = st.sampled_from([c.ROW_DAMAGE, c.ROW_END, 0, 1, 2, 2, 2])
COLUMNS = {
    "format": FORMATS,
    "base_offset": INT64,
    "last_offset": INT64,
    "record_count": INT32,
    "max_timestamp_ms": INT64,
}


@st.composite
def batches(draw: st.DrawFn) -> BatchColumns:
    """Rows one behind the other, whatever they hold."""
    columns = BatchColumns(6)
    columns.count = draw(st.integers(0, 6))
    position = 0
    for row in range(columns.count):
        size = draw(st.integers(1, 3))
        columns.column("position")[row], columns.column("size_bytes")[row] = position, size
        position += size
        for name, values in COLUMNS.items():
            columns.column(name)[row] = draw(values)
    return columns


def fresh(base: int = 0, *, is_time: bool) -> array[int]:
    state = array("q", bytes(8 * c.INDEX_STATE))
    state[c.I_BASE], state[c.I_LAST], state[c.I_GOOD] = base, base - 1, -1
    state[c.I_LEAST], state[c.I_LIMIT] = 0 if is_time else 1, 2**31
    if not is_time:
        state[c.I_OPEN] = -1
    return state


def marked(name: str, data: bytes, count: int, *, is_time: bool) -> tuple[bool, bytes, list[int]]:
    """What a twin marks, and its state behind that."""
    state, marks, links = fresh(is_time=is_time), bytearray(count), array("q", bytes(16 * count))
    is_ordered = twin(name).is_ordered(data, count, is_time, state)
    if not is_ordered:
        twin(name).mark_disorder(data, count, is_time, state, marks, links)
    return is_ordered, bytes(marks), state.tolist()


def checked(name: str, data: bytes, marks: bytes, columns: BatchColumns, base: int, *, is_time: bool) -> list[object]:
    """What a twin says of entries in two windows against the same batches, until they are done."""
    kernels = twin(name)
    size = 12 if is_time else 8
    state, rows = fresh(base, is_time=is_time), array("q", bytes(8 * c.FAULT_ROWS * c.FAULT_SIZE))
    half = len(marks) // 2
    said: list[object] = []
    for first, last in ((0, half), (half, len(marks))):
        state[c.I_SLOT], state[c.I_ENTRY] = first, 0
        window, has_more = data[first * size : last * size] or bytes(size), last == half
        result = kernels.INDEX_FULL
        while result == kernels.INDEX_FULL:
            entries = (window, last - first, has_more, is_time, marks[first:last] or b"\0")
            result = kernels.check_entries(*entries, columns, state, rows)
            said.append((result, state.tolist(), rows.tolist()))
            state[c.I_FAULTS] = 0
    return said


@given(entries=st.lists(st.tuples(INT32, INT32), max_size=80), columns=batches(), base=INT64, data=st.data())
@pytest.mark.parametrize("is_time", [False, True])
def test_twins_agree(
    is_time: bool, entries: list[tuple[int, int]], columns: BatchColumns, base: int, data: st.DataObject
) -> None:
    times = [(data.draw(INT64), relative) for relative, _ in entries] if is_time else []
    text = time_index(times) if is_time else offset_index(entries)
    outcome = all_agree([marked(name, text or bytes(12), len(entries), is_time=is_time) for name in TWINS])
    assert isinstance(outcome, tuple)
    base = max(base, -(2**63) + 1)
    for marks in (outcome[1], bytes(len(entries))):
        all_agree([checked(name, text, marks, columns, base, is_time=is_time) for name in TWINS])


@given(keys=st.lists(st.integers(-1, 30), min_size=1, max_size=20))
@pytest.mark.parametrize("is_time", [False, True])
@pytest.mark.parametrize("name", TWINS)
def test_longest_chain_is_kept(name: str, is_time: bool, keys: list[int]) -> None:
    text = b"".join(struct.pack(">qi", 5, key) if is_time else struct.pack(">ii", 5, key) for key in keys)
    is_ordered, marks, state = marked(name, text, len(keys), is_time=is_time)
    kept = [key for key, mark in zip(keys, marks, strict=True) if not mark]
    step = 0 if is_time else 1
    assert all(behind - before >= step for before, behind in pairwise(kept))
    assert all(key >= step for key in kept)
    assert len(kept) == longest(keys, step)
    assert is_ordered is (len(kept) == len(keys))
    assert state[c.I_LEAST] == (kept[-1] + step if kept else step)


def longest(keys: list[int], step: int) -> int:
    """Length of the longest chain, by trying each key behind all before it."""
    best: list[int] = []
    for i, key in enumerate(keys):
        before = [best[j] for j in range(i) if keys[j] >= step and key - keys[j] >= step]
        best.append(1 + max(before, default=0) if key >= step else 0)
    return max(best)
