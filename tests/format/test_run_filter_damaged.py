"""The cleaner's map and filter on damaged bytes: a value that says so, the same from all twins."""

from __future__ import annotations

import random

import pytest

from kafkalog_core import kernels
from kafkalog_core.format import compression, decode, run_filter, skimpy_offset_map
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.run_filter import Filtered, FilterRules, RunFilter
from kafkalog_core.format.skimpy_offset_map import ENTRY_BYTES, OffsetMap
from tests.format.random_logs import NOW, RULES, a_log
from tests.support.build import GZIP, LZ4, NONE, SNAPPY, ZSTD
from tests.support.twins import TWINS, all_agree, twin

OLD = {"converts_legacy": False, "uses_horizons": False}
ALL_RULES = (
    *RULES.values(),
    FilterRules(wrappers="relative", **OLD),
    FilterRules(wrappers="absolute", keeps_past_latest=False, **OLD),
    FilterRules(wrappers="flat", keeps_past_latest=False, **OLD),
)


def a_damaged_log(rng: random.Random) -> tuple[bytes, BatchColumns]:
    """A log in which bytes behind the envelopes were changed; checksums are not looked at."""
    batches = a_log(rng.randrange(2**30), codecs=(NONE, GZIP, SNAPPY, LZ4, ZSTD), magics=(2, 2, 1, 0), most=15)
    data = bytearray(b"".join(batch.build() for batch in batches))
    columns = BatchColumns(64)
    kernels.walk(data, 0, len(data), 0, -(2**63), 2**40, False, columns)
    positions, sizes = columns.column("position"), columns.column("size_bytes")
    for _ in range(rng.choice((1, 2, 10))):
        row = rng.randrange(columns.count)
        if sizes[row] > 17:
            data[positions[row] + rng.randrange(17, sizes[row])] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    kernels.walk(data, 0, len(data), 0, -(2**63), 2**40, False, columns)
    return bytes(data), columns


def outcome(data: bytes, columns: BatchColumns, rules: FilterRules, bits: bytes, slots: int) -> tuple[object, ...]:
    """All that comes of a run."""
    offsets = OffsetMap(slots * ENTRY_BYTES)
    mapped = offsets.map_run(memoryview(data), columns, start=0, max_bytes=2**20)
    runs = RunFilter(offsets, rules, now_ms=NOW, delete_retention_ms=10)
    left = runs.filter(memoryview(data), columns, bits, retains_legacy=True, max_bytes=2**20)
    check(left)
    found = (left.rows, bytes(left.data), left.cells.tobytes(), left.damage)
    return (mapped, offsets.size, offsets.latest_offset, *found, runs.tally.cells.tobytes())


def check(left: Filtered) -> None:
    """What is written is a log, and all of it is accounted for."""
    data = bytes(left.data)
    assert sum(left.sizes) == len(data)
    assert left.damage is None or left.rows == left.damage.batch
    at = 0
    for position, size in zip(left.batches.column("position"), left.batches.column("size_bytes"), strict=True):
        assert position == at
        assert int.from_bytes(data[at + 8 : at + 12], "big") == size - 12
        at += size
    assert at == len(data)


@pytest.mark.parametrize("seed", range(30))
def test_twins_agree_on_damaged_bytes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    data, columns = a_damaged_log(rng)
    rules = rng.choice(ALL_RULES)
    bits = bytes(rng.choice((0, 0, 0, *range(8))) for _ in range(columns.count))
    slots = rng.choice((1000, 5))
    outcomes = []
    for name in TWINS:
        for module in (compression, run_filter, decode, skimpy_offset_map):
            monkeypatch.setattr(module, "kernels", twin(name))
        outcomes.append(outcome(data, columns, rules, bits, slots))
    all_agree(outcomes)


def test_no_damaged_byte_is_too_much() -> None:
    """Many more, on the twin that the product runs."""
    rng = random.Random(17)
    for _ in range(400 if kernels.COMPILED else 20):
        data, columns = a_damaged_log(rng)
        bits = bytes(rng.choice((0, 0, 0, *range(8))) for _ in range(columns.count))
        outcome(data, columns, rng.choice(ALL_RULES), bits, rng.choice((1000, 5)))
