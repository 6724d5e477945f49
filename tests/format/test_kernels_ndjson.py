"""Lines of JSON and CSV: every twin writes, byte for byte, what `json_line` and `csv_row` make of the same rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkalog_core.engine import chunks
from kafkalog_core.engine.chunks import BatchChunk, LineBuffer, Lines, RecordChunk, RowOrigin
from kafkalog_core.format import decode as decode_module
from kafkalog_core.format.columns import BatchColumns, RecordColumns
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import csv_columns, csv_row, json_line
from kafkalog_core.storage.scan import Run
from tests.support import build, strategies
from tests.support.build import Record, batch_v2, control_batch, message_v0, txn_marker
from tests.support.strategies import record_runs
from tests.support.twins import TWINS, all_agree, twin, walked

if TYPE_CHECKING:
    from kafkalog_core.output.templates import Template

MODES = ("auto", "base64", "hex")
PLACE = RowOrigin('a"b\\c\udcff\té', 3, "00000000000000000007.log")
MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1

AWKWARD = [
    b"",
    bytes(range(0x20)),
    bytes(range(0x20, 0x80)),
    b'"\\/\x7f',
    b'say "hi", you',
    b'"',
    b",",
    b"a\r\nb\tc",
    b"[]",
    b"\xc2\x9b1m",
    b"x" * 17 + b"\n",
    b"\x00",
    "é€😀\u2028\ufeff\uffff\U0010ffff".encode(),
    "ЖЖЖЖЖЖЖЖЖЖЖЖЖЖЖЖЖ".encode(),
    b"\x80",
    b"\xc3",  # cut
    b"abcdefgh\xe2\x82",
    b"\xf0\x9f\x98",
    b"\xc0\x80",  # overlong
    b"\xe0\x80\x80",
    b"\xe0\x9f\xbf",
    b"\xe0\xa0\x80",
    b"\xf0\x8f\xbf\xbf",
    b"\xf0\x90\x80\x80",
    b"\xf0\x80\x80\x80",
    b"\xed\xa0\x80",  # a surrogate
    b"\xed\x9f\xbf",
    b"\xf4\x90\x80\x80",  # above U+10FFFF
    b"\xf4\x8f\xbf\xbf",
    b"\xf5\x80\x80\x80",
    b"\xff\xfe",
    b"a\xc3\xa9\xa9",
    b"\xe2\x28\xa1",
    b"\xf8\x88\x80\x80\x80",
]
BYTES = st.one_of(
    st.sampled_from(AWKWARD),
    st.binary(max_size=40),
    st.text(max_size=30).map(lambda text: text.encode()),
    st.text(st.characters(max_codepoint=0x7F), max_size=40).map(str.encode),
    st.text(st.characters(categories=None), max_size=8).map(lambda text: text.encode("utf-8", "surrogatepass")),
)


@st.composite
def records_of_any_bytes(draw: st.DrawFn) -> list[Record]:
    """Records whose times, keys, values and headers are anything that a batch can hold."""
    nullable = st.none() | BYTES
    headers = st.lists(st.tuples(BYTES, nullable), max_size=4).map(tuple)
    base = draw(st.sampled_from([0, 2**62, MAX_INT64 - 9]))
    times = st.sampled_from([-1, 0, 1700000000000, MAX_INT64, MIN_INT64]) | st.integers(MIN_INT64, MAX_INT64)
    first = draw(times)
    return [
        Record(
            offset=base + index,
            timestamp_ms=max(MIN_INT64, min(MAX_INT64, first + draw(st.integers(-(2**31), 2**31)))),
            key=draw(nullable),
            value=draw(nullable),
            headers=draw(headers),
        )
        for index in range(draw(st.integers(1, 4)))
    ]


def record_chunks(data: bytes, lines: Lines, *, is_v07: bool = False) -> list[RecordChunk]:
    """Chunks of all records, each with columns of its own."""
    memory = memoryview(data)
    batches = walked(memory, is_v07=is_v07)
    found = []
    for run in decode_run(memory, batches, max_bytes=1 << 20, records=RecordColumns(3)):
        assert isinstance(run, RecordRun)
        kept = RecordRun(run.memory, run.batches.copy(), run.records.copy())
        kept.records.headers = run.records.headers.copy()
        found.append(RecordChunk(lines, kept, resynced=False))
    return found


def assert_lines(chunk: RecordChunk | BatchChunk, mode: str) -> bytes:
    """All twins write what `json_line` makes of the rows; returns the lines."""
    lines = []
    for name in TWINS:
        with mock.patch.object(chunks, "kernels", twin(name)):
            lines.append(chunk.ndjson(mode))
    with mock.patch.object(chunks, "LONG_BYTES", 0):
        assert chunk.ndjson(mode) == lines[0], "long lines are made in another way"
    expected = b"".join(json_line(chunk.table, row, mode) for row in chunk.rows())
    assert all_agree(lines) == expected
    for line in expected.splitlines():
        json.loads(line)
    assert_csv(chunk, mode)
    return expected


def assert_csv(chunk: RecordChunk | BatchChunk, mode: str) -> None:
    """All twins write what `csv_row` makes of the rows, under the columns of their own type and of others too."""
    for tables_ in ((chunk.table,), (tables.DAMAGE, chunk.table, tables.FINDING)):
        header = tuple(csv_columns(tables_, mode))
        lines = []
        for name in TWINS:
            with mock.patch.object(chunks, "kernels", twin(name)):
                lines.append(b"".join([bytes(part) for part in chunk.csv(header, mode)]))
        assert all_agree(lines) == b"".join(csv_row(chunk.table, row, header, mode) for row in chunk.rows())


@pytest.mark.parametrize("mode", MODES)
@given(
    run=records_of_any_bytes(), base_sequence=st.sampled_from([-1, 0, 2**31 - 2, 2**31 - 1]), out=st.integers(1, 900)
)
def test_records_of_magic_2(mode, run, base_sequence, out):
    data = batch_v2(run, base_sequence=base_sequence, producer_id=MAX_INT64, producer_epoch=-1, leader_epoch=-(2**31))
    for chunk in record_chunks(data, Lines(PLACE, LineBuffer(out))):
        assert_lines(chunk, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", AWKWARD, ids=lambda value: value[:8].hex() or "empty")
def test_awkward_bytes(mode, value):
    run = [Record(key=value, value=b"12345678" + value, headers=((value, value), (b"k", None), (b"", b"")))]
    (chunk,) = record_chunks(batch_v2(run), Lines(PLACE, LineBuffer(4096)))
    assert_lines(chunk, mode)


@given(BYTES | st.binary(max_size=5000), st.sampled_from(MODES))
@example(b"a" * 4999 + b"\xff", "auto")
def test_a_value_stands_behind_and_before_others(value, mode):
    """What stands around a value in the buffer must not leak into its line, nor what the line leaves behind it."""
    run = [Record(key=b"\xff\xff\xff", value=value), Record(offset=1, key=b"\xbf\x80", value=value[::-1])]
    for chunk in record_chunks(batch_v2(run), Lines(PLACE, LineBuffer(64))):
        assert_lines(chunk, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=40)
@given(log=strategies.logs(strategies.batches_v2) | strategies.logs(strategies.messages_v1))
def test_logs(mode, log):
    data = b"".join(one.data for one in log)
    for chunk in record_chunks(data, Lines(PLACE, LineBuffer(1024))):
        assert_lines(chunk, mode)


@settings(max_examples=40)
@given(strategies.logs(strategies.messages_v0), st.sampled_from(MODES))
def test_logs_of_magic_0(log, mode):
    for chunk in record_chunks(b"".join(one.data for one in log), Lines(PLACE, LineBuffer(1024))):
        assert_lines(chunk, mode)


@given(strategies.sets_v07(), st.sampled_from(MODES))
def test_logs_of_07(one, mode):
    for chunk in record_chunks(one[0], Lines(PLACE, LineBuffer(1024)), is_v07=True):
        assert_lines(chunk, mode)


@pytest.mark.parametrize("is_v07", [False, True])
@pytest.mark.parametrize("check", [False, True])
@settings(max_examples=40)
@given(data=st.data())
def test_batches(is_v07, check, data):
    if is_v07:
        log = data.draw(strategies.sets_v07())[0]
    else:
        kinds = [strategies.batches_v2, strategies.messages_v0, strategies.messages_v1]
        log = b"".join(one.data for one in data.draw(strategies.logs(data.draw(st.sampled_from(kinds)))))
    memory = memoryview(log)
    batches = walked(memory, check=check, is_v07=is_v07)
    chunk = BatchChunk(Lines(PLACE, LineBuffer(data.draw(st.integers(1, 2000)))), Run(memory, batches, True))
    assert_lines(chunk, "auto")


@pytest.mark.parametrize(
    ("key", "word"),
    [
        (bytes([0, 0, 0, 0]), "abort"),
        (bytes([0, 0, 0, 1]), "commit"),
        (bytes([0, 9, 0, 1]), "commit"),
        (bytes([0x7F, 0, 0, 1]), "commit"),
        (bytes([0, 0, 0, 6]), "kraft_voters"),
        (bytes([0, 0, 0, 7]), "unknown"),
        (bytes([0, 0, 1, 1]), "unknown"),
        (bytes([0x80, 0, 0, 1]), "unknown"),
        (bytes([0, 0, 0]), "unknown"),
        (b"", "unknown"),
        (None, "unknown"),
    ],
)
def test_control_types(key, word):
    data = batch_v2([Record(offset=4, key=key, value=b"")], is_control=True)
    (chunk,) = record_chunks(data, Lines(PLACE))
    line = assert_lines(chunk, "auto")
    assert json.loads(line)["control_type"] == word


def test_control_types_differ_within_a_run():
    data = txn_marker(build.COMMIT, offset=1, producer_id=1) + txn_marker(build.ABORT, offset=2, producer_id=1)
    data += control_batch(build.LEADER_CHANGE, b"", offset=3) + batch_v2([Record(offset=4), Record(offset=5)])
    (*chunks_, last) = record_chunks(data, Lines(PLACE))
    lines = b"".join(assert_lines(chunk, "auto") for chunk in (*chunks_, last)).splitlines()
    assert [json.loads(line)["control_type"] for line in lines] == ["commit", "abort", "leader_change", None, None]


def test_sequences_wrap_at_31_bits():
    run = [Record(offset=10 + delta) for delta in (0, 1, 2, 5)]
    lines = b"".join(
        assert_lines(chunk, "auto") for chunk in record_chunks(batch_v2(run, base_sequence=2**31 - 2), Lines(PLACE))
    ).splitlines()
    assert [json.loads(line)["sequence"] for line in lines] == [2**31 - 2, 2**31 - 1, 0, 3]


@given(
    st.lists(
        st.sampled_from([MIN_INT64, MAX_INT64, 0, -1, 9, 10, 99, 100]) | st.integers(MIN_INT64, MAX_INT64), min_size=1
    )
)
@example([sign * 10**power + more for power in range(19) for more in (-1, 0, 1) for sign in (1, -1)])
def test_integers_of_every_size(values):
    memory = memoryview(message_v0(Record(offset=1)))
    batches = BatchColumns(len(values))
    batches.count = len(values)
    batches.column("format")[:] = memoryview(batches.cells)[: len(values)]
    for row, value in enumerate(values):
        for name in ("position", "size_bytes", "last_offset", "crc_stored"):
            batches.column(name)[row] = value
        batches.column("record_count")[row] = -1
    assert_lines(BatchChunk(Lines(PLACE), Run(memory, batches, False)), "auto")


# --- room -------------------------------------------------------------------------------------------------------------
def written_to(name: str, chunk: RecordChunk, template: Template, size: int) -> tuple[int, int, bytes]:
    """What a twin returns and writes for a buffer of that size; nothing around it may change."""
    room = bytearray(b"\xaa" * (size + 128))
    columns = (chunk._memory, chunk._batches, chunk._records)
    row, written = twin(name).write_rows(*columns, None, 0, template, memoryview(room)[64 : 64 + size])
    assert written <= size
    assert (room[:64], room[64 + size :]) == (b"\xaa" * 64, b"\xaa" * 64)
    return row, written, bytes(room[64 : 64 + max(0, written)])


@given(records_of_any_bytes(), st.integers(0, 3000), st.sampled_from(MODES), st.booleans())
def test_nothing_is_written_outside_of_the_buffer(run, size, mode, is_csv):
    """Where a line does not fit, the size that is reported is enough."""
    lines = Lines(PLACE)
    template = lines.template(is_record=True, resynced=False, bytes_mode=mode)
    if is_csv:
        header = tuple(csv_columns([tables.RECORD], mode))
        template = lines.csv_template(header, is_record=True, resynced=False, bytes_mode=mode)
    for chunk in record_chunks(batch_v2(run), lines):
        row, written, _ = all_agree([written_to(name, chunk, template, size) for name in TWINS])
        if written > 0:
            assert row > 0
            continue
        assert row == 0
        assert -written > size
        row, written, _ = all_agree([written_to(name, chunk, template, -written) for name in TWINS])
        assert row > 0
        assert written > 0


@given(st.lists(st.integers(0, 1), min_size=5, max_size=5), st.integers(1, 2500), st.sampled_from([-1, 5]))
def test_rows_that_are_left_out(selection, size, base_sequence):
    data = batch_v2([Record(offset=k, value=b"%d" % k) for k in range(3)], base_sequence=base_sequence)
    data += batch_v2([Record(offset=k, value=b"%d" % k) for k in range(3, 5)], base_sequence=base_sequence)
    memory = memoryview(data)
    (run,) = decode_run(memory, walked(memory), max_bytes=1 << 20)
    assert isinstance(run, RecordRun)
    chunk = RecordChunk(Lines(PLACE, LineBuffer(size)), run, resynced=True, selection=bytearray(selection))
    lines = assert_lines(chunk, "auto").splitlines()
    assert [json.loads(line)["offset"] for line in lines] == [k for k in range(5) if selection[k]]
    assert len(lines) == chunk.count


@given(record_runs(0, max_size=5), st.integers(1, 700))
def test_small_buffers_give_the_same_lines(run, size):
    data = batch_v2(run)
    for name in TWINS:
        with mock.patch.object(chunks, "kernels", twin(name)), mock.patch.object(decode_module, "kernels", twin(name)):
            small = [bytes(chunk.ndjson("auto")) for chunk in record_chunks(data, Lines(PLACE, LineBuffer(size)))]
            large = [bytes(chunk.ndjson("auto")) for chunk in record_chunks(data, Lines(PLACE))]
        assert small == large
