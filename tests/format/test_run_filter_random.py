"""The cleaner's map and filter against a slow judge written from the description alone, over random logs."""

from __future__ import annotations

import random

import pytest

from kafkalog_core.format import compression, decode, run_filter, skimpy_offset_map
from kafkalog_core.format.decompression import decompress
from kafkalog_core.format.run_filter import (
    BIT_DISCARD,
    BIT_EMPTY_TXN,
    BIT_RETAIN_EMPTY,
    REASONS,
    FilterRules,
    RunFilter,
)
from kafkalog_core.format.skimpy_offset_map import ENTRY_BYTES, OffsetMap
from kafkalog_core.structs import replace
from tests.format.random_logs import NOW, RETENTION, RULES, Batch, a_log
from tests.support.build import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    Record,
)
from tests.support.twins import TWINS, twin, walked


class Judge:
    """The rules, one record at a time."""

    def __init__(self, rules: FilterRules, newest: dict[bytes, int], latest: int, *, retains_legacy: bool) -> None:
        self.rules, self.newest, self.latest, self.retains_legacy = rules, newest, latest, retains_legacy
        self.counts = dict.fromkeys(REASONS, 0)

    def reason(self, batch: Batch, record: Record) -> str:
        if batch.bits & BIT_DISCARD:
            return "marker-expired" if batch.is_control else "aborted"
        if batch.is_control and not self.rules.looks_up_control_keys:
            return "control"
        if self.rules.keeps_past_latest and record.offset > self.latest:
            return "control" if batch.is_control else "past-map"
        if record.key is None or record.offset < self.newest.get(record.key, -1):
            return "null-key" if record.key is None else "superseded"
        if record.value is not None:
            return "control" if batch.is_control else "latest"
        stays = self.retains_legacy
        if batch.magic == 2 and self.rules.uses_horizons:
            stays = batch.horizon is None or batch.horizon > NOW
        return "tombstone" if stays else "tombstone-expired"

    def outcome(self, batch: Batch) -> bytes | Batch | None:
        """The bytes that stay, or the batch that is written again; None: nothing."""
        reasons = [self.reason(batch, record) for record in batch.records]
        for why in reasons:
            self.counts[why] += 1
        kept = tuple(r for r, why in zip(batch.records, reasons, strict=True) if REASONS.index(why) < 4)
        if not kept:
            return batch.empty() if batch.bits & BIT_RETAIN_EMPTY else None
        converts = batch.magic < 2 and self.rules.converts_legacy
        horizon = batch.horizon if self.rules.uses_horizons else None
        needs = any(r.value is None for r in kept) or batch.bits & BIT_EMPTY_TXN
        gets = self.rules.uses_horizons and (batch.magic == 2 or converts) and horizon is None and needs
        if len(kept) == len(batch.records) and not gets and not converts:
            return batch.build()
        base, last = (batch.base, batch.last) if batch.magic == 2 else (kept[0].offset, kept[-1].offset)
        return replace(batch, records=kept, base=base, last=last, horizon=NOW + RETENTION if gets else horizon)


def newest_offsets(log: list[Batch], start: int, capacity: int) -> tuple[dict[bytes, int], int, bool]:
    """The map, the offset it reaches, whether it is full."""
    newest: dict[bytes, int] = {}
    latest = -1
    for batch in log:
        for record in batch.records:
            if record.key is None or record.offset < start or batch.is_control or batch.bits == BIT_DISCARD:
                continue
            if len(newest) >= capacity:
                return newest, latest, True
            newest[record.key] = latest = record.offset
        if batch.last >= start:
            latest = batch.last
    return newest, latest, False


@pytest.fixture(params=TWINS)
def each_twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for module in (compression, run_filter, decode, skimpy_offset_map):
        monkeypatch.setattr(module, "kernels", twin(request.param))
    return str(request.param)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("codecs", [(NONE,), (NONE, GZIP, SNAPPY, LZ4, ZSTD)], ids=["plain", "compressed"])
def test_map_and_filter_of_random_logs(each_twin: str, rules: str, codecs: tuple[int, ...]) -> None:
    for seed in range(12 if each_twin == "compiled" else 4):
        log = a_log(seed, codecs=codecs, magics=(2, 2, 1, 0))
        check(log, RULES[rules], random.Random(seed), seed)


def test_batches_larger_than_the_columns(each_twin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of few rows, so that small batches are large."""
    monkeypatch.setattr(run_filter, "CLEAN_ROWS", 5)
    monkeypatch.setattr(skimpy_offset_map, "CLEAN_ROWS", 5)
    for seed in range(100, 112 if each_twin == "compiled" else 103):
        log = a_log(seed, codecs=(NONE, LZ4), magics=(2, 1, 0), most=40)
        for rules in RULES.values():
            check(log, rules, random.Random(seed), seed)


def check(log: list[Batch], rules: FilterRules, rng: random.Random, seed: int) -> None:
    data = b"".join(batch.build() for batch in log)
    run = walked(data, capacity=64)
    start = rng.choice((0, log[len(log) // 2].base))
    slots = rng.choice((1000, 1000, 7))
    offsets = OffsetMap(slots * ENTRY_BYTES, 0.9)
    skips = bytes(batch.bits == BIT_DISCARD for batch in log)
    result = offsets.map_run(memoryview(data), run, start=start, skips=skips)
    newest, latest, is_full = newest_offsets(log, start, offsets.capacity)
    assert (result.damage, result.is_full, offsets.latest_offset, offsets.size) == (
        None,
        is_full,
        latest,
        len(newest),
    ), seed
    assert {key: offsets.get(key) for key in newest} == newest
    retains = rng.random() < 0.5
    judge = Judge(rules, newest, latest, retains_legacy=retains)
    filter_ = RunFilter(offsets, rules, now_ms=NOW, delete_retention_ms=RETENTION)
    bits = bytes(batch.bits for batch in log)
    left = filter_.filter(memoryview(data), run, bits, retains_legacy=retains, position=1000)
    assert left.damage is None, seed
    out = bytes(left.data)
    pieces = {row: size for row, size in enumerate(left.sizes) if size}
    at = 0
    for row, batch in enumerate(log):
        expected = judge.outcome(batch)
        if expected is None:
            assert row not in pieces, (seed, row)
            continue
        entry = out[at : at + pieces[row]]
        at += pieces[row]
        agrees(entry, expected, (seed, row), rules)
    assert at == len(out)
    assert dict(zip(REASONS, filter_.tally.records, strict=True)) == judge.counts, seed
    again = walked(out, capacity=64)
    assert left.batches.column("position").tolist() == [1000 + at for at in again.column("position")]
    for name in ("size_bytes", "format", "attributes", "base_offset", "last_offset", "max_timestamp_ms", "payload_end"):
        assert left.batches.column(name).tolist() == again.column(name).tolist(), name


def agrees(entry: bytes, expected: bytes | Batch, where: object, rules: FilterRules) -> None:
    """Byte for byte; what is compressed again, record for record and field for field."""
    if isinstance(expected, bytes):
        assert entry == expected, where
        return
    if expected.magic == 2 or not rules.converts_legacy:
        attributes = 0x08 if expected.magic == 1 and expected.append_time is not None else 0  # the builder's own
        made = replace(expected, records=tuple(replace(r, attributes=attributes) for r in expected.records)).build()
    else:
        made = as_v2(expected)
    if not expected.codec:
        assert entry == made, where
        return
    left, right = opened(entry), opened(made)
    assert left == right, where


def as_v2(batch: Batch) -> bytes:
    return batch.build_v2(batch.records, batch.base, batch.last, batch.horizon)


def opened(entry: bytes) -> tuple[dict[str, int], bytes]:
    """The header but for size and checksum, and the inflated payload."""
    run = walked(entry)
    row = run.row(0)
    payload = entry[row["payload_start"] : row["payload_end"]]
    for name in ("size_bytes", "crc_stored", "crc_computed", "payload_end"):
        del row[name]
    return row, bytes(decompress(row["codec"], payload, magic=row["format"], limit_bytes=2**24))
