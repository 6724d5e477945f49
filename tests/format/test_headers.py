"""Batches of magic 2 under a good checksum whose headers cannot be true, or whose records are elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core import kernels
from kafkalog_core.format.columns import BatchColumns, RecordColumns
from kafkalog_core.format.decode import RecordRun, decode_run, header_contradictions, records_outside
from tests.support import strategies
from tests.support.build import GZIP, Record, batch_v2, empty_batch, wrapper_v1
from tests.support.logs import records
from tests.support.twins import TWINS, all_agree, twin

LIMIT_BYTES = 1024 * 1024
MAX_INT64 = 2**63 - 1


def walked(data: bytes) -> tuple[memoryview, BatchColumns]:
    memory, batches = memoryview(data), BatchColumns()
    kernels.walk(memory, 0, len(data), 0, -(2**63), LIMIT_BYTES, True, batches)
    return memory, batches


def contradictions(data: bytes) -> list[tuple[int, str, str]]:
    return [tuple(wrong) for wrong in header_contradictions(walked(data)[1])]


def outside(data: bytes, rows: int = 1032) -> list[tuple[int, str, str]]:
    memory, batches = walked(data)
    found = []
    for item in decode_run(memory, batches, max_bytes=LIMIT_BYTES, records=RecordColumns(rows)):
        if isinstance(item, RecordRun):
            found += [tuple(wrong) for wrong in records_outside(item.batches, item.records)]
    return found


GOOD = batch_v2(records(0, 3))


@pytest.mark.parametrize(
    ("batch", "sentence"),
    [
        (batch_v2(records(5, 3), last_offset=4), "its header has base offset 5 and last offset 4, which is lower"),
        (batch_v2(records(5, 3), records_count=-1), "its header counts -1 records"),
        (batch_v2(records(5, 3), last_offset=6), "counts 3 records in the 2 offsets 5 to 6"),
        (batch_v2(records(5, 3), records_count=4), "counts 4 records in the 3 offsets 5 to 7"),
    ],
)
def test_headers_that_cannot_be_true(batch: bytes, sentence: str) -> None:
    ((row, reason, detail),) = contradictions(GOOD + batch)
    assert (row, reason) == (1, "header-contradiction")
    assert sentence in detail


def test_offsets_behind_the_largest() -> None:
    columns = BatchColumns(4)
    columns.count = 1
    for name, value in (("format", 2), ("base_offset", MAX_INT64 - 1), ("last_offset", -(2**63)), ("record_count", 3)):
        columns.column(name)[0] = value
    ((_, reason, detail),) = header_contradictions(columns)
    assert (reason, "exceed 2^63-1" in detail) == ("header-contradiction", True)


@pytest.mark.parametrize(
    "data",
    [
        GOOD,
        empty_batch(0, 9),
        batch_v2([Record(offset=2), Record(offset=7)], base_offset=0, last_offset=9),
        batch_v2(records(0, 9), codec=GZIP),
        wrapper_v1(records(0, 9)),
        b"",
    ],
)
def test_what_compaction_leaves_is_normal(data: bytes) -> None:
    assert contradictions(data) == outside(data) == []


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("rows", [2, 1032])
def test_records_at_offsets_that_are_not_theirs(codec: int, rows: int) -> None:
    late = batch_v2([Record(offset=3), Record(offset=4), Record(offset=99)], last_offset=5, codec=codec)
    early = batch_v2([Record(offset=5), Record(offset=6)], base_offset=6, last_offset=8, codec=codec)
    (one, other) = outside(GOOD + late + early, rows)
    assert one == (1, "record-offset", "a record in it has offset 99, outside the batch's offsets, 3 to 5")
    assert other == (2, "record-offset", "a record in it has offset 5, outside the batch's offsets, 6 to 8")


def test_a_header_that_holds_no_offsets_is_told_alone() -> None:
    data = batch_v2(records(5, 3), last_offset=4)
    assert len(contradictions(data)) == 1
    assert outside(data) == []


def test_twins_agree_on_records_that_are_elsewhere() -> None:
    batch = batch_v2([Record(offset=3), Record(offset=99), Record(offset=4), Record(offset=98)], last_offset=5)
    memory, batches = walked(GOOD + batch)
    (run,) = [item for item in decode_run(memory, batches, max_bytes=LIMIT_BYTES) if isinstance(item, RecordRun)]
    for first, expected in ((0, 4), (4, 4), (5, 6), (7, 7)):
        assert all_agree([twin(name).find_outside(batches, run.records, first) for name in TWINS]) == expected


@given(built=strategies.logs(strategies.batches_v2))
def test_nothing_is_said_of_any_healthy_log(built: list[strategies.Built]) -> None:
    data = b"".join(one.data for one in built)
    assert contradictions(data) == outside(data) == []


@given(cells=st.lists(st.tuples(*[st.integers(-(2**63), MAX_INT64)] * 2, st.integers(-(2**31), 2**31 - 1)), max_size=9))
def test_the_interpreted_twin_says_the_same(cells: list[tuple[int, int, int]]) -> None:
    columns = BatchColumns(10)
    columns.count = len(cells)
    for row, (base, last, count) in enumerate(cells):
        for name, value in (("format", 2), ("base_offset", base), ("last_offset", last), ("record_count", count)):
            columns.column(name)[row] = value
    for first in range(len(cells) + 1):
        all_agree([twin(name).find_contradiction(columns, first) for name in TWINS])
    assert all(wrong.detail for wrong in header_contradictions(columns))
