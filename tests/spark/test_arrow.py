"""Rows as Arrow: the batches hold exactly what the rows of the same chunks say, and stay what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.engine.chunks import BatchChunk, Lines, RecordChunk, RowOrigin
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.filters.expression import Filters
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.output import tables
from kafkalog_core.spark.session.arrow import ArrowRows, arrow_schema, header_key_finding, rows_to_arrow
from kafkalog_core.spark.session.schema import BATCHES, FINDINGS, RECORDS, SEGMENTS
from kafkalog_core.storage.scan import Run
from kafkalog_core.text import json_text
from kafkalog_core.topics.group_offsets import CommittedOffset
from kafkalog_core.topics.group_records import encode_offset
from tests.support import strategies
from tests.support.build import ABORT, GZIP, Record, batch_v2, message_v0, message_v07, message_v1, txn_marker
from tests.support.logs import dump_rows, record_chunks, records, write_segments
from tests.support.twins import walked

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

HEADERS = ((b"trace", b"1"), (b"", None), ("é€".encode(), b"\xff"))


def chunks_of(path: Path, level: str, **request):
    targets = tuple(resolve([str(path)]))
    wanted = {"records": "record", "batches": "batch"}[level]
    for chunk in dump(DumpRequest(targets=targets, level=level, path=True, **request), Report()):
        if chunk.table.name == wanted:
            yield chunk


def gathered(rows: ArrowRows, chunks: Iterable[RecordChunk | BatchChunk]) -> list[pa.RecordBatch]:
    """All batches, looked at only when all are there: what they hold must not be used again."""
    found = []
    for chunk in chunks:
        found += rows.add(chunk)
    found += rows.flush()
    assert [*rows.flush()] == []
    for batch in found:
        batch.validate(full=True)
    return found


def values(batches: Sequence[pa.RecordBatch]) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]


def as_arrow(row: dict[str, object], table: tables.Table) -> dict[str, object]:
    """A row of a dump as Arrow gives it back."""
    wanted = {name: row.get(name) for name in table.names if name != "type"}
    for name in ("decoded_key", "decoded_value"):
        if wanted.get(name) is not None:
            wanted[name] = json_text(wanted[name])
    if wanted.get("headers") is not None:
        wanted["headers"] = [
            {"key": key.decode("utf-8", "replace"), "value": value} for key, value in wanted["headers"]
        ]
    return wanted


@pytest.fixture(scope="module")
def partition(tmp_path_factory) -> Path:
    """Segments of all formats, with damage, control records, headers, nulls, compressed and not."""
    odd = [Record(offset=n, timestamp_ms=n - 1, key=None, value=b"v" * n, headers=HEADERS) for n in range(200, 210)]
    last = [Record(offset=300 + n, key=b"k", value=None) for n in range(5)]
    data = batch_v2(odd, codec=GZIP) + batch_v2(odd, base_offset=200)[:-7]
    return write_segments(
        tmp_path_factory.mktemp("kafka") / "orders-3",
        {
            0: b"".join(batch_v2(records(n * 10, 10)) for n in range(20)),
            200: data,
            300: batch_v2(last, producer_id=7, base_sequence=2**31 - 2, is_transactional=True)
            + txn_marker(ABORT, offset=305, producer_id=7),
            310: message_v0(Record(offset=310)) + message_v1(Record(offset=311, key=b"k")),
        },
    )


@pytest.mark.parametrize("bounds", [{}, {"batch_rows": 7}, {"batch_bytes": 100}, {"batch_rows": 1, "batch_bytes": 0}])
@pytest.mark.parametrize(("level", "table"), [("records", RECORDS), ("batches", BATCHES)])
def test_rows_are_those_of_a_dump(partition, level, table, bounds):
    expected = [
        as_arrow(row, table)
        for row in dump_rows(partition, level=level, path=True)
        if row["type"] == level[:-1].removesuffix("e")
    ]
    batches = gathered(ArrowRows(table, **bounds), chunks_of(partition, level))
    assert expected
    assert values(batches) == expected
    assert {batch.schema for batch in batches} == {arrow_schema(table)}
    dictionaries = gathered(ArrowRows(table, dictionary=True, **bounds), chunks_of(partition, level))
    assert [batch.cast(arrow_schema(table)) for batch in dictionaries] == batches
    assert len({*(batch.column("segment")[0].as_py() for batch in batches)}) == 4


@pytest.mark.parametrize("bounds", [{}, {"batch_rows": 3}, {"batch_bytes": 50}])
def test_records_of_own_topics_are_decoded_as_json_text(tmp_path, partition, bounds):
    """One schema for all files; the columns are null where records are not decoded."""
    where = [CommittedOffset(offset=at, leader_epoch=1, metadata="é") for at in range(5)]
    some = [encode_offset("g", "orders", 3, each) for each in where] + [encode_offset("g", "orders", 3, None)]
    data = batch_v2([Record(offset=at, key=key, value=value) for at, (key, value) in enumerate(some)])
    data += txn_marker(ABORT, offset=6, producer_id=7) + batch_v2([Record(offset=7, key=b"\0\x63", value=b"")])
    log = write_segments(tmp_path / "__consumer_offsets-0", {0: data})
    expected = [
        as_arrow(row, RECORDS)
        for path in (log, partition)
        for row in dump_rows(path, level="records", path=True, decode="auto")
        if row["type"] == "record"
    ]
    assert sum(row["decoded_value"] is not None for row in expected) == 5
    for dictionary in (False, True):
        rows = ArrowRows(RECORDS, dictionary=dictionary, **bounds)
        chunks = (chunk for path in (log, partition) for chunk in chunks_of(path, "records", decode="auto"))
        batches = [batch.cast(arrow_schema(RECORDS)) for batch in gathered(rows, chunks)]
        assert values(batches) == expected
    names = ["decoded_value", "offset"]
    batches = gathered(ArrowRows(RECORDS, names), chunks_of(log, "records", decode="auto"))
    assert values(batches) == [{name: row[name] for name in names} for row in expected[:8]]
    assert values(gathered(ArrowRows(RECORDS, names), chunks_of(log, "records")))[0] == {
        "decoded_value": None,
        "offset": 0,
    }


def test_selected_rows_and_wanted_columns(partition):
    filters = Filters(offsets=(17, 203))
    names = ["value", "offset", "topic", "headers"]
    batches = gathered(ArrowRows(RECORDS, names), chunks_of(partition, "records", filters=filters))
    assert [batch.schema for batch in batches] == [arrow_schema(RECORDS, names)] * 2
    assert [row["offset"] for row in values(batches)] == [*range(17, 204)]
    for names in (["resynced"], ["path", "partition"], ["key"], ["is_transactional"]):
        batches = gathered(ArrowRows(RECORDS, names), chunks_of(partition, "records"))
        assert sum(batch.num_rows for batch in batches) == 218
        assert batches[0].schema == arrow_schema(RECORDS, names)


@settings(max_examples=40, deadline=None)
@given(
    log=strategies.logs(strategies.batches_v2)
    | strategies.logs(strategies.messages_v1)
    | strategies.logs(strategies.messages_v0),
    rows=st.integers(1, 8),
    most=st.integers(0, 200),
)
def test_any_log(log, rows, most):
    data = b"".join(one.data for one in log)
    chunks = record_chunks(data)
    batches = gathered(ArrowRows(tables.RECORD, batch_rows=rows, batch_bytes=most), chunks)
    assert values(batches) == [as_arrow(row, tables.RECORD) for chunk in chunks for row in chunk.rows()]
    assert all(batch.num_rows <= rows for batch in batches)
    chunk = BatchChunk(Lines(RowOrigin(None, None, "0.log")), Run(memoryview(data), walked(data), True))
    assert values(gathered(ArrowRows(tables.BATCH, batch_rows=rows), [chunk])) == [
        as_arrow(row, tables.BATCH) for row in chunk.rows()
    ]


def test_records_of_07_have_the_columns_of_all():
    data = message_v07(b"one", magic=0) + message_v07(b"two")
    batches = gathered(ArrowRows(tables.RECORD), record_chunks(data, is_v07=True))
    (first, second) = values(batches)
    assert (first["value"], second["value"]) == (b"one", b"two")
    assert (first["format"], first["headers"], first["timestamp_ms"]) == ("v07", None, None)
    more = values(gathered(ArrowRows(tables.RECORD_V07), record_chunks(data, is_v07=True)))
    assert [(row["magic"], row["crc_ok"], row["next_offset"]) for row in more] == [(0, True, 12), (1, True, 25)]


def test_a_large_record_stands_alone():
    """Buffers grow with it, and what came before it is not held back for it."""
    big = bytes(range(256)) * (40 * 4096)
    data = batch_v2([Record(offset=0, value=b"a"), Record(offset=1, value=big), Record(offset=2, value=b"b")])
    batches = gathered(ArrowRows(tables.RECORD, batch_bytes=1 << 20), record_chunks(data))
    assert [batch.num_rows for batch in batches] == [1, 1, 1]
    assert batches[1].column("value")[0].as_py() == big
    assert batches[2].column("value").nbytes < 1 << 20, "what little there is does not hold on to much memory"


def test_batches_of_few_rows_take_little_memory():
    rows = ArrowRows(tables.RECORD, ["offset", "key"], batch_rows=100_000)
    before = pa.total_allocated_bytes()
    batches = [batch for n in range(50) for batch in gathered(rows, record_chunks(batch_v2(records(n, 2))))]
    assert sum(batch.num_rows for batch in batches) == 100
    assert pa.total_allocated_bytes() - before < 8 << 20


def test_header_keys_that_are_no_text():
    bad = Record(offset=4, headers=((b"ok", b"\xff"), (b"a\xffb", b""), (b"\xe2\x82", None)))
    data = batch_v2([Record(offset=3, headers=((b"ok", b""),)), bad, Record(offset=5, headers=((b"\xc0\x80", b""),))])
    rows = ArrowRows(tables.RECORD)
    assert header_key_finding(rows.replaced) is None
    found = values(gathered(rows, record_chunks(data, capacity=1)))
    assert found[1]["headers"] == [
        {"key": "ok", "value": b"\xff"},
        {"key": "a\ufffdb", "value": b""},
        {"key": "\ufffd", "value": None},
    ]
    assert found[2]["headers"][0]["key"] == "\ufffd\ufffd", "as Java has it"
    finding = header_key_finding(rows.replaced)
    assert finding is not None
    assert (finding.code, finding.severity, finding.offset) == ("export.header-keys", "info", 4)
    assert "(3, the first at offset 4)" in finding.message


def test_names_of_files_that_are_no_text():
    """As in JSON lines: the bytes can be had back."""
    place = RowOrigin("t\udcff", 1, "0.log", "/mnt/\udce9/t-1/0.log")
    chunks = [RecordChunk(Lines(place), chunk_run, resynced=True) for chunk_run in runs(batch_v2(records(0, 3)))]
    for dictionary in (False, True):
        row = values(gathered(ArrowRows(RECORDS, dictionary=dictionary), chunks))[0]
        assert (row["topic"], row["path"], row["resynced"]) == ("t\\udcff", "/mnt/\\udce9/t-1/0.log", True)


def runs(data: bytes):
    from kafkalog_core.format.decode import decode_run  # noqa: PLC0415 -- of this one test

    return decode_run(memoryview(data), walked(data), max_bytes=1 << 20)


def test_rows_that_are_dicts():
    rows = [{"code": "a", "severity": "error", "file": "/x\udcff", "offset": 1, "unknown": 5}, {"code": "b"}]
    batch = rows_to_arrow(FINDINGS, rows)
    assert batch.schema == arrow_schema(FINDINGS)
    assert batch.column("file").to_pylist() == ["/x\\udcff", None]
    assert rows_to_arrow(FINDINGS, rows, ["offset", "code"]).to_pylist() == [
        {"offset": 1, "code": "a"},
        {"offset": None, "code": "b"},
    ]
    assert rows_to_arrow(SEGMENTS, []).num_rows == 0
    figures = rows_to_arrow(tables.STATS, [{"topic": "t", "codecs": {"none": 3, "gzip": 1}}, {}])
    assert figures.column("codecs").to_pylist() == [[("none", 3), ("gzip", 1)], None]
