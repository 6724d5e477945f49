"""Runs of batches to columns of records, forwards and backwards."""

from __future__ import annotations

import pytest

from kafkalog_core.format import kernels
from kafkalog_core.format.columns import BatchColumns, RecordColumns
from kafkalog_core.format.decode import PayloadDamage, RecordRun, decode_backwards, decode_run
from tests.build import GZIP, NONE, Record, batch_v2

LIMIT_BYTES = 1024 * 1024


def walked(data: bytes) -> tuple[memoryview, BatchColumns]:
    memory, batches = memoryview(data), BatchColumns(8)
    stop, end = kernels.walk(memory, 0, len(data), 0, -1, LIMIT_BYTES, True, batches)
    assert (stop, end) == (kernels.STOP_END, len(data))
    return memory, batches


def offsets(item: RecordRun | PayloadDamage) -> list[int]:
    assert isinstance(item, RecordRun)
    return item.records.column("offset").tolist()


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("counts", [(0, 9), (3, 9, 30), (9, 0, 0, 9), (2, 2, 2, 30, 1)])
def test_header_columns_that_grow_do_not_repeat_records_backwards(codec: int, counts: tuple[int, ...]) -> None:
    """Found by fuzzing: a record with more headers than there was room for was given out twice."""
    records = [
        Record(offset=offset, headers=tuple((b"h", b"%d" % n) for n in range(count)))
        for offset, count in enumerate(counts)
    ]
    memory, batches = walked(batch_v2(records, codec=codec))
    forwards = [
        offset
        for run in decode_run(memory, batches, max_bytes=LIMIT_BYTES, records=RecordColumns(4))
        for offset in offsets(run)
    ]
    assert forwards == list(range(len(counts)))
    runs = [
        offsets(run) for run in decode_backwards(memory, batches, 0, max_bytes=LIMIT_BYTES, records=RecordColumns(4))
    ]
    assert [offset for run in reversed(runs) for offset in run] == forwards
