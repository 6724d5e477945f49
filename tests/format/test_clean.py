"""The cleaner's map and filter: Kafka's own results, and a slow judge beside them, on both twins of the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.format import arena, clean, decode, offset_map, whole_batches
from kafkalog_core.format.clean import (
    BIT_DISCARD,
    BIT_RETAIN_EMPTY,
    OUTCOME_EMPTIED,
    OUTCOME_REBUILT,
    OUTCOME_REMOVED,
    OUTCOME_VERBATIM,
    REASONS,
    FilterRules,
    RunFilter,
)
from kafkalog_core.format.offset_map import ENTRY_BYTES, OffsetMap
from tests.build import (
    ABORT,
    COMMIT,
    GZIP,
    Record,
    batch_v2,
    empty_batch,
    txn_marker,
    wrapper_v1,
)
from tests.twins import TWINS, twin, walked

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = 5_000_000
RETENTION = 100_000


@pytest.fixture(params=TWINS)
def each_twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The modules under test run on one twin of the kernels after another."""
    for module in (arena, clean, decode, offset_map, whole_batches):
        monkeypatch.setattr(module, "kernels", twin(request.param))
    return str(request.param)


def a_map(slots: int = 1000, load_factor: float = 0.9) -> OffsetMap:
    return OffsetMap(slots * ENTRY_BYTES, load_factor)


def mapped(log: bytes, *, start: int = 0, slots: int = 1000, **options: object) -> OffsetMap:
    offsets = a_map(slots)
    run = walked(log, capacity=max(64, len(log) // 20))
    result = offsets.map_run(memoryview(log), run, start=start, **options)  # type: ignore[arg-type]
    assert result.damage is None
    return offsets


def filtered(
    log: bytes,
    offsets: OffsetMap,
    bits: Sequence[int] | None = None,
    rules: FilterRules | None = None,
    *,
    now_ms: int = NOW,
    retains_legacy: bool = True,
) -> tuple[bytes, clean.Filtered, clean.Tally]:
    runs = RunFilter(offsets, rules, now_ms=now_ms, delete_retention_ms=RETENTION)
    run = walked(log, capacity=max(64, len(log) // 20))
    result = runs.filter(memoryview(log), run, None if bits is None else bytes(bits), retains_legacy=retains_legacy)
    return bytes(result.data), result, runs.tally


def entries(log: bytes) -> list[bytes]:
    """The batches one by one."""
    columns = walked(log, capacity=max(64, len(log) // 20))
    positions, sizes = columns.column("position"), columns.column("size_bytes")
    return [log[at : at + size] for at, size in zip(positions, sizes, strict=True)]


# --- the worked trace: run on the real cleaner of 4.3.1, leader epoch 3 -----------------------------------------------
def a_record(offset: int, key: str | None, value: str | None) -> Record:
    return Record(
        offset=offset,
        timestamp_ms=1000 + offset,
        key=None if key is None else key.encode(),
        value=None if value is None else value.encode(),
    )


TRACE = (
    batch_v2(
        [a_record(0, "a", "1"), a_record(1, "b", "1"), a_record(2, None, "n")],
        leader_epoch=3,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
    ),
    wrapper_v1([a_record(3, "c", "1"), a_record(4, "d", "1"), a_record(5, "c", "2")], codec=GZIP),
    batch_v2(
        [a_record(6, "x", "1"), a_record(7, "a", "9")],
        leader_epoch=3,
        producer_id=9,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    ),
    txn_marker(ABORT, offset=8, timestamp_ms=1008, producer_id=9, leader_epoch=3),
    batch_v2(
        [a_record(9, "y", "1")],
        leader_epoch=3,
        producer_id=11,
        producer_epoch=4,
        base_sequence=0,
        is_transactional=True,
    ),
    txn_marker(COMMIT, offset=10, timestamp_ms=1010, producer_id=11, producer_epoch=5, leader_epoch=3),
    batch_v2([a_record(11, "b", None), a_record(12, "e", "1")], leader_epoch=3),
    batch_v2([a_record(13, "y", "2"), a_record(14, "z", "1")], leader_epoch=3),
    batch_v2([a_record(15, "a", "3")], leader_epoch=3, producer_id=8, producer_epoch=0, base_sequence=0),
    batch_v2([a_record(16, "z", "3")], leader_epoch=3),
)


def test_first_pass_of_the_worked_trace(each_twin: str) -> None:
    log = b"".join(TRACE)
    skips = bytes([0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
    offsets = mapped(log, skips=skips)
    assert (offsets.latest_offset, offsets.size) == (16, 7)
    assert {key: offsets.get(key.encode()) for key in "abcdexyz"} == dict(
        zip("abcdexyz", (15, 11, 5, 4, 12, -1, 13, 16), strict=True)
    )
    bits = [BIT_RETAIN_EMPTY, 0, BIT_DISCARD | BIT_RETAIN_EMPTY, 0, 0, 0, 0, 0, BIT_RETAIN_EMPTY, 0]
    data, result, tally = filtered(log, offsets, bits)
    out = entries(data)
    assert [len(entry) for entry in out[:1] + out[2:3]] == [61, 61]
    assert out[0] == empty_batch(
        0, 2, leader_epoch=3, producer_id=7, producer_epoch=0, base_sequence=0, max_timestamp_ms=1002
    )
    assert out[2] == empty_batch(
        6,
        7,
        leader_epoch=3,
        producer_id=9,
        producer_epoch=0,
        base_sequence=0,
        max_timestamp_ms=1007,
        is_transactional=True,
    )
    converted = walked(out[1])
    assert converted.row(0)["leader_epoch"] == -1
    assert (converted.row(0)["base_offset"], converted.row(0)["last_offset"]) == (4, 5)
    assert out[3] == TRACE[3]
    assert out[4] == TRACE[5]
    assert out[5] == batch_v2(
        [a_record(11, "b", None), a_record(12, "e", "1")], leader_epoch=3, delete_horizon_ms=5_100_000
    )
    assert (len(TRACE[6]), len(out[5])) == (78, 84)
    assert out[6] == batch_v2([a_record(13, "y", "2")], leader_epoch=3, last_offset=14)
    assert out[7:] == list(TRACE[8:])
    assert list(result.outcomes) == [
        OUTCOME_EMPTIED,
        OUTCOME_REBUILT,
        OUTCOME_EMPTIED,
        OUTCOME_VERBATIM,
        OUTCOME_REMOVED,
        OUTCOME_VERBATIM,
        OUTCOME_REBUILT,
        OUTCOME_REBUILT,
        OUTCOME_VERBATIM,
        OUTCOME_VERBATIM,
    ]
    assert dict(zip(REASONS, tally.records, strict=True)) == {
        "latest": 6,
        "past-map": 0,
        "control": 2,
        "tombstone": 1,
        "superseded": 5,
        "tombstone-expired": 0,
        "null-key": 1,
        "aborted": 2,
        "marker-expired": 0,
    }
