"""Rows in buffers as Arrow lays them out: every twin gathers what the rows of the same chunk say."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.engine.chunks import BatchChunk, Lines, RecordChunk
from kafkalog_core.format.columns import RECORD_FIELDS, BatchColumns
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.kernels import programs as numbers
from kafkalog_core.output import tables
from kafkalog_core.output.templates import TEXT_COLUMNS, Cells, GatherPlan, Headers, Texts
from kafkalog_core.storage.scan import Run
from tests.support import build, strategies
from tests.support.build import Record, batch_v2, control_batch, message_v0, message_v1, txn_marker
from tests.support.logs import PLACE, record_chunks
from tests.support.twins import TWINS, all_agree, twin, walked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.output.tables import Column

ORIGIN = {"type", "topic", "partition", "segment", "resynced"}
MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1


def wanted(table: tables.Table, names: Sequence[str] | None = None) -> list[Column]:
    return [column for column in table.columns if column.name not in ORIGIN and (names is None or column.name in names)]


class Gathered:
    """What a twin gathers of chunks of one table: rows of the wanted columns, batch by batch."""

    def __init__(
        self, name: str, columns: Sequence[Column], *, is_record: bool, rows: int = 5, most: int = 200
    ) -> None:
        self._twin = twin(name)
        self._columns = columns
        self._rows, self._most = rows, most
        self._plan = GatherPlan(columns, is_record=is_record)
        self._names = {column.name for column in columns}
        self._renew()
        self.batches: list[list[dict[str, object]]] = []

    def _renew(self) -> None:
        self.cells = Cells(self._plan, self._rows, bytearray)
        self.texts = {name: Texts(self._rows, 1, bytearray) for name in ("key", "value") if name in self._names}
        self.headers = Headers(self._rows, 1, 1, bytearray) if "headers" in self._names else None
        self.done = array("q", [0] * numbers.DONE_SIZE)

    def add(self, chunk: RecordChunk | BatchChunk) -> None:
        memory, batches, records, selection, _, _ = chunk.columns()
        columns = batches if records is None else records
        picked = array("q", [-1] * columns.count)
        row = 0
        while True:
            before = self.done[:]
            left = self._rows - before[numbers.DONE_ROWS]
            row, count = self._twin.measure_rows(
                columns, selection, row, left, self._most, self._plan.wanted, self.done, picked
            )
            assert self.done[numbers.DONE_ROWS] == before[numbers.DONE_ROWS] + count
            self._gather(memory, batches, records, picked, count, before)
            if row == columns.count:
                return
            assert self.done[numbers.DONE_ROWS], "the first row fits in any case"
            self.flush()

    def _gather(self, memory, batches, records, picked, count, before) -> None:
        at = before[numbers.DONE_ROWS]
        if self._plan.slots:
            self._twin.gather_rows(memory, batches, records, picked, count, self._plan, self.cells, at)
        for total, (name, texts) in zip((numbers.DONE_KEYS, numbers.DONE_VALUES), self.texts.items(), strict=False):
            total = numbers.DONE_VALUES if name == "value" else total  # noqa: PLW2901 - values alone may be wanted
            texts.texts.reserve(self.done[total], before[total])
            field = RECORD_FIELDS.index(f"{name}_start")
            self._twin.gather_texts(memory, records, picked, count, field, texts, at)
            assert texts.starts.cells[at + count] == self.done[total]
        if self.headers is not None:
            self.headers.reserve(before, self.done)
            self._twin.gather_headers(memory, batches, records, picked, count, self.headers, at)
            assert self.headers.starts.cells[at + count] == self.done[numbers.DONE_HEADERS]

    def flush(self) -> None:
        count = self.done[numbers.DONE_ROWS]
        values = {column.name: self._values(column, count) for column in self._columns}
        self.batches.append([{name: held[row] for name, held in values.items()} for row in range(count)])
        self._renew()

    def _values(self, column: Column, count: int) -> list[object]:
        if column.name in self.texts:
            texts = self.texts[column.name]
            return spans(texts.starts, texts.bits, texts.texts, count, texts.nulls)
        if column.name == "headers":
            return self._headers_of(count)
        slot = next(slot for slot, one in enumerate(self._plan.columns) if one.name == column.name)
        (start, size), (bits, bits_size) = self.cells.spans(slot, count)
        assert (start % 64, bits % 64) == (0, 0)
        code = {1: "b", 2: "h", 4: "i", 8: "q"}[self._plan.width(slot)]
        cells = [*memoryview(self.cells.room.view[start : start + size]).cast(code)]
        found = [*map(bool, masked(self.cells.room.view[bits : bits + bits_size], count))]
        values = [cell if is_there else None for cell, is_there in zip(cells, found, strict=True)]
        assert self.cells.nulls(slot) == values.count(None)
        uniform = self.cells.uniform(slot)
        if column.kind in {"string", "bool"} and uniform is not None:
            assert set(cells) <= {uniform}
        if column.kind == "string":
            return [None if value is None else self._plan.names[slot][value] for value in values]
        if column.kind == "bool":
            assert set(values) <= {0, 1, None}
            return [None if value is None else bool(value) for value in values]
        return values

    def _headers_of(self, count: int) -> list[object]:
        headers = self.headers
        assert headers is not None
        total = headers.starts.cells[count]
        values = spans(
            headers.value_starts,
            headers.value_bits,
            headers.values,
            total,
            headers.summary[numbers.SUMMARY_NULL_VALUES],
        )
        starts = headers.key_starts.cells
        keys = [bytes(headers.keys.view[starts[one] : starts[one + 1]]) for one in range(total)]
        pairs = [*zip(keys, values, strict=True)]
        is_there = masked(headers.bits.view, count)
        assert headers.summary[numbers.SUMMARY_NULLS] == is_there.count(0)
        bounds = headers.starts.cells
        assert headers.summary[numbers.SUMMARY_NOT_TEXT] == sum(not is_utf8(key) for key in keys)
        return [pairs[bounds[row] : bounds[row + 1]] if is_there[row] else None for row in range(count)]


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def masked(bits: memoryview, count: int) -> list[int]:
    return [bits[row >> 3] >> (row & 7) & 1 for row in range(count)]


def spans(starts, bits, texts, count, nulls) -> list[object]:
    is_there = masked(bits.view, count)
    assert is_there.count(0) == nulls
    cells = starts.cells
    return [bytes(texts.view[cells[row] : cells[row + 1]]) if is_there[row] else None for row in range(count)]


def assert_gathered(chunks, table: tables.Table, names=None, *, rows: int = 5, most: int = 200) -> list[int]:
    """All twins gather what the rows say, in the same batches, none of which passes the bounds; returns their sizes."""
    columns = wanted(table, names)
    expected = [{one.name: row[one.name] for one in columns} for chunk in chunks for row in chunk.rows()]
    outcomes = []
    for name in TWINS:
        gathered = Gathered(name, columns, is_record="key" in table.names, rows=rows, most=most)
        for chunk in chunks:
            gathered.add(chunk)
        gathered.flush()
        outcomes.append(gathered.batches)
    batches = all_agree(outcomes)
    assert [row for batch in batches for row in batch] == expected
    for batch in batches:
        assert len(batch) <= rows
        assert len(batch) == 1 or sum(map(text_bytes, batch)) <= most
    return [len(batch) for batch in batches]


def text_bytes(row: dict[str, object]) -> int:
    texts = [row.get("key"), row.get("value"), *(text for pair in row.get("headers") or () for text in pair)]
    return sum(len(text) for text in texts if text is not None)


BOUNDS = {"rows": st.integers(1, 20), "most": st.integers(0, 300)}


@settings(max_examples=40)
@given(
    log=strategies.logs(strategies.batches_v2)
    | strategies.logs(strategies.messages_v1)
    | strategies.logs(strategies.messages_v0),
    **BOUNDS,
)
def test_records(log, rows, most):
    assert_gathered(record_chunks(b"".join(one.data for one in log)), tables.RECORD, rows=rows, most=most)


@settings(max_examples=40)
@given(strategies.sets_v07(), *BOUNDS.values())
def test_records_of_07(one, rows, most):
    assert_gathered(record_chunks(one[0], is_v07=True), tables.RECORD_V07, rows=rows, most=most)


@pytest.mark.parametrize("is_v07", [False, True])
@pytest.mark.parametrize("check", [False, True])
@settings(max_examples=30)
@given(data=st.data())
def test_batches(is_v07, check, data):
    if is_v07:
        log = data.draw(strategies.sets_v07())[0]
    else:
        kinds = [strategies.batches_v2, strategies.messages_v0, strategies.messages_v1]
        log = b"".join(one.data for one in data.draw(strategies.logs(data.draw(st.sampled_from(kinds)))))
    batches = walked(log, check=check, is_v07=is_v07)
    assert_gathered([BatchChunk(Lines(PLACE), Run(memoryview(log), batches, True))], tables.BATCH)


@settings(max_examples=30)
@given(st.data())
def test_wanted_columns_alone(data):
    log = b"".join(one.data for one in data.draw(strategies.logs(strategies.batches_v2)))
    names = data.draw(st.sets(st.sampled_from([one.name for one in wanted(tables.RECORD)]), min_size=1))
    assert_gathered(record_chunks(log), tables.RECORD, names)


@given(st.lists(st.booleans(), min_size=6, max_size=6), *BOUNDS.values())
def test_rows_that_are_left_out(selection, rows, most):
    data = batch_v2([Record(offset=k, value=b"%d" % k, headers=((b"h", None),) * k) for k in range(3)])
    data += batch_v2([Record(offset=k, key=b"%d" % k) for k in range(3, 6)], base_sequence=5, producer_id=1)
    (run,) = decode_run(memoryview(data), walked(data), max_bytes=1 << 20)
    assert isinstance(run, RecordRun)
    chunk = RecordChunk(Lines(PLACE), run, resynced=True, selection=bytearray(selection))
    assert_gathered([chunk], tables.RECORD, rows=rows, most=most)


def test_formats_side_by_side():
    data = message_v0(Record(offset=1, value=None)) + message_v1(Record(offset=2, timestamp_ms=7, key=None))
    data += batch_v2([Record(offset=3, headers=((b"k", b""), (b"k\xff", None)))], is_transactional=True, producer_id=4)
    data += txn_marker(build.ABORT, offset=4, producer_id=4) + control_batch(build.LEADER_CHANGE, b"", offset=5)
    chunks = record_chunks(data)
    assert assert_gathered(chunks, tables.RECORD, rows=100, most=10**6) == [5]


def test_control_types_and_sequences_differ_within_a_batch():
    data = batch_v2([Record(offset=4, key=bytes([0, 0, 0, kind]), value=b"") for kind in (1, 0, 9)], is_control=True)
    data += batch_v2([Record(offset=10 + delta) for delta in (0, 1, 2)], base_sequence=2**31 - 2, producer_id=1)
    assert_gathered(record_chunks(data), tables.RECORD, rows=100, most=10**6)


def test_a_record_above_the_bound_stands_alone():
    data = batch_v2([Record(offset=k, value=bytes(1000 if k == 2 else 10)) for k in range(5)])
    assert assert_gathered(record_chunks(data), tables.RECORD, rows=100, most=100) == [2, 1, 2]


@pytest.mark.parametrize("value", [MIN_INT64, -1, 0, 1, MAX_INT64])
def test_integers_of_every_size(value):
    batches = BatchColumns(3)
    batches.count = 3
    for row in range(3):
        for name in ("position", "size_bytes", "last_offset", "crc_stored", "base_offset"):
            batches.column(name)[row] = value + (row if value < 1 else -row)
    chunk = BatchChunk(Lines(PLACE), Run(memoryview(b"x"), batches, False))
    assert_gathered([chunk], tables.BATCH)


def test_text_columns_are_those_that_have_buffers_of_their_own():
    kinds = {column.name for column in tables.RECORD.columns if column.kind in {"bytes", "headers"}}
    assert kinds == TEXT_COLUMNS.keys()
