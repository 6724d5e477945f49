"""Cells made from columns are those made from rows; and a table costs little more than its lines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kafkalog_cli.render.columns import SHOWN, column_cells, row_style
from kafkalog_core import kernels
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.filters.expression import Filters
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest
from tests.cli.terminals import run
from tests.support.build import (
    ABORT,
    COMMIT,
    GZIP,
    Record,
    batch_v2,
    message_v0,
    message_v1,
    txn_marker,
    wrapper_v0,
    wrapper_v1,
)

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
TEXTS = [
    *(b"plain", b"", b"null", b"nullify", b'"quoted"', b"x'00'", b"xylophone", b" blank", b"blank ", b"\xff\x00", None),
    *("Straße \N{SNOWMAN}".encode(), b"a\\b", b"\x1b[2J", b"a\nb", "\u202e".encode(), b"y" * 5000, b"\xe2\x98" * 3),
]
TIMES = [0, -1, -2, 1_760_000_000_123, 1_760_000_000_124, 253_402_300_800_000, 2**62, 999, 1000]


def _records(start: int) -> list[Record]:
    number = max(len(TEXTS), len(TIMES))
    return [
        Record(
            offset=start + at,
            key=TEXTS[at % len(TEXTS)],
            value=TEXTS[(at + 1) % len(TEXTS)],
            timestamp_ms=TIMES[at % len(TIMES)],
            headers=((b"h", TEXTS[at % len(TEXTS)]),) * (at % 3) + ((b"many", b"1"),) * (25 if at == 4 else 0),
        )
        for at in range(number)
    ]


def _log() -> bytes:
    """Batches of magic 2, plain, compressed, transactional and with markers, of several producers."""
    parts = [
        batch_v2(_records(0)),
        batch_v2(_records(100), codec=GZIP, leader_epoch=7),
        batch_v2(_records(200), producer_id=9, producer_epoch=3, base_sequence=5, is_transactional=True),
        txn_marker(COMMIT, offset=300, producer_id=9, producer_epoch=3),
        txn_marker(ABORT, offset=301, producer_id=9, producer_epoch=4),
        batch_v2(_records(400), producer_id=9, producer_epoch=3, base_sequence=50),
        batch_v2(_records(500), delete_horizon_ms=1_760_000_000_000),
    ]
    return b"".join(parts)


def _old_log() -> bytes:
    records = [Record(offset=at, key=TEXTS[at], value=b"v", timestamp_ms=1000 + at) for at in range(5)]
    later = [Record(offset=5 + at, key=b"k", value=b"v", timestamp_ms=1000 + at) for at in range(5)]
    return b"".join(
        [
            *(message_v0(record) for record in records),
            wrapper_v0(later, codec=GZIP),
            *(message_v1(Record(offset=10 + at, key=b"k", value=TEXTS[at], timestamp_ms=at)) for at in range(5)),
            wrapper_v1([Record(offset=15, key=b"k", value=b"v", timestamp_ms=7)], codec=GZIP),
        ]
    )


@pytest.mark.parametrize("level", ["batches", "records"])
@pytest.mark.parametrize("options", [{}, {"resync": True}, {"offsets": (3, 420)}, {"newest_first": True}], ids=str)
@pytest.mark.parametrize("log", ["new", "old", "demo"])
def test_cells_of_columns_are_those_of_rows(log, level, options, tmp_path):
    place = FIXTURES / "demo"
    if log != "demo":
        place = tmp_path / "orders-0"
        place.mkdir()
        data = _log() if log == "new" else _old_log()
        (place / f"{0:020}.log").write_bytes(data[:100] * ("resync" in options) + data)
    seen = 0
    for chunk in _chunks(place, level, **options):
        cells = column_cells(chunk)
        if cells is not None:
            made = list(cells)
            rows = list(chunk.rows())
            shown = SHOWN["batch" if level == "batches" else "record"]
            assert made == [(tuple(each.cell(row) for each in shown), row_style(row)) for row in rows]
            seen += len(made)
    assert seen > 4 or (log, level) == ("old", "batches")


def _chunks(place: Path, level: str, **options):
    filters = Filters(offsets=options.pop("offsets")) if "offsets" in options else Filters()
    request = DumpRequest(targets=tuple(resolve([str(place)])), level=level, filters=filters, **options)
    yield from dump(request, Report())


def test_a_table_of_records_takes_few_calls_a_row(tmp_path, monkeypatch):
    """By rows as dicts and a library's texts a row took 300 of them."""
    calls = []
    for count in (1000, 3000):
        place = tmp_path / str(count) / "orders-0"
        place.mkdir(parents=True)
        records = [Record(offset=at, key=b"key", value=b"value", timestamp_ms=at) for at in range(count)]
        (place / f"{0:020}.log").write_bytes(batch_v2(records))
        calls.append(_calls(monkeypatch, ["dump", "--records", "--output", "table", str(place)]))
    assert (calls[1] - calls[0]) / 2000 < (50 if kernels.COMPILED else 80)  # an interpreted kernel calls, too


def _calls(monkeypatch, arguments: list[str]) -> int:
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        ended = run(monkeypatch, arguments)
    finally:
        sys.setprofile(None)
    assert ended.status == 0
    return count
