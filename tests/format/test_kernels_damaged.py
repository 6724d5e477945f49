"""The walk over damage, and rows of damage between those of batches: all twins alike, on any bytes."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core import kernels
from kafkalog_core.format.columns import BATCH_FIELDS, BatchColumns, DamageColumns
from kafkalog_core.kernels import constants as k
from tests.support.build import Record, batch_v2, message_v1
from tests.support.twins import TWINS, all_agree, twin


@pytest.fixture(scope="module", autouse=True)
def _twins() -> None:
    """Loading one takes longer than an example may."""
    for name in TWINS:
        twin(name)


def entry(offset: int, kind: int) -> bytes:
    inner = batch_v2([Record(offset=offset, value=b"inner")])
    data = [
        inner,
        batch_v2([Record(offset=offset, value=inner)]),
        message_v1(Record(offset=offset, value=b"v")),
        message_v1(Record(offset=offset, value=inner)),
    ][kind % 4]
    return data if kind < 4 else data[:-1] + bytes([data[-1] ^ 1])


ENTRIES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7)), max_size=8)


@given(
    ENTRIES,
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=3),
    st.sampled_from([0, 1, 100, 2**40]),
    st.sampled_from([0, 300, 2**40]),
    st.sampled_from([0, 200, 5000]),
    st.integers(1, 9),
)
def test_twins_agree_on_a_walk_over_damage(entries, flips, trusted, searched, more, capacity):
    data = bytearray(b"".join(entry(offset, kind) for offset, kind in entries))
    for at, value in flips:
        if at < len(data):
            data[at] = value
    state = array("q", bytes(8 * k.W_SIZE))
    state[k.W_FILE_END], state[k.W_PREVIOUS], state[k.W_MAX_BYTES] = len(data) + more, -1, 2**28
    state[k.W_TRUSTED], state[k.W_SEARCHED], state[k.W_HIGH] = trusted, searched, 2**40

    def outcome(name):
        cells, batches, damaged = state[:], BatchColumns(capacity), DamageColumns(capacity)
        result = twin(name).walk_over(bytes(data), cells, batches, damaged)
        columns = [batches.column(field).tolist() for field in BATCH_FIELDS]
        return result, columns, [damaged.column(field).tolist() for field in damaged.fields], cells.tolist()

    (stop, end), (positions, sizes, *_), (places, lengths, *_), _ = all_agree([outcome(name) for name in TWINS])
    assert 0 <= stop <= kernels.STOP_ORDER
    spans = sorted(zip((*positions, *places), (*sizes, *lengths), strict=True))
    at = 0
    for position, size in spans:
        assert position == at or size == 0
        at += size
    assert at == end


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 50)), max_size=8))
def test_damage_between_batches_is_a_row(places):
    batches = BatchColumns(9)
    batches.count = len(places)
    at, meant = 0, []
    for row, (gap, size) in enumerate(places):
        if gap and row:
            meant.append((at, gap, k.ROW_DAMAGE))
        at += gap
        meant.append((at, size, 2))
        batches.column("position")[row], batches.column("size_bytes")[row], batches.column("format")[row] = at, size, 2
        at += size

    def outcome(name):
        woven = BatchColumns(18)
        twin(name).weave(batches, woven)
        names = ("position", "size_bytes", "format")
        return [*zip(*(woven.column(field).tolist() for field in names), strict=True)]

    assert all_agree([outcome(name) for name in TWINS]) == meant
