"""The biggest keys that the cleaner's filter meets, next to exact counts, on both twins of the kernels."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.format import compression, decode, run_filter, skimpy_offset_map
from kafkalog_core.format.run_filter import BIT_DISCARD, HeavyKey, HeavyKeys, RunFilter
from kafkalog_core.format.skimpy_offset_map import ENTRY_BYTES, OffsetMap
from tests.support.build import COMMIT, Record, batch_v2, txn_marker
from tests.support.twins import TWINS, twin, walked

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.usefixtures("each_twin")


@pytest.fixture(params=TWINS)
def each_twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The modules under test run on one twin of the kernels after another."""
    for module in (compression, run_filter, decode, skimpy_offset_map):
        monkeypatch.setattr(module, "kernels", twin(request.param))
    return str(request.param)


def weighed(log: bytes, *, slots: int = 10_000, bits: bytes | None = None) -> HeavyKeys:
    batches = walked(log, capacity=max(64, len(log) // 60))
    offsets = OffsetMap(slots * ENTRY_BYTES)
    offsets.map_run(memoryview(log), batches, start=0)
    heavy = HeavyKeys()
    run_filter = RunFilter(offsets, now_ms=0, delete_retention_ms=0, heavy=heavy)
    assert run_filter.filter(memoryview(log), batches, bits, retains_legacy=True).damage is None
    return heavy


def batch(records: Sequence[tuple[bytes | None, bytes | None]], first: int = 0) -> bytes:
    return batch_v2([Record(offset=first + n, key=key, value=value) for n, (key, value) in enumerate(records)])


def test_few_keys_are_counted_exactly() -> None:
    log = batch([(b"a", b"x" * 10), (b"b", b"y"), (b"a", b"z" * 5), (None, b"w" * 99), (b"b", None), (b"", b"e")])
    assert weighed(log).biggest(10) == [
        HeavyKey(b"a", 2, 17, 17),
        HeavyKey(b"b", 2, 3, 3),
        HeavyKey(b"", 1, 1, 1),
    ]
    assert weighed(log).biggest(1) == [HeavyKey(b"a", 2, 17, 17)]


def test_of_a_long_key_the_start_is_kept() -> None:
    key = bytes(range(256))
    assert weighed(batch([(key, b"v")])).biggest(1) == [HeavyKey(key[:64], 1, 257, 257)]


def test_what_the_map_does_not_know_is_left_out() -> None:
    log = batch([(b"a", b"x"), (b"b", b"y"), (b"c", b"z")])
    assert [each.key for each in weighed(log, slots=3).biggest(9)] == [b"a", b"b"]
    marker = txn_marker(COMMIT, offset=3, producer_id=1)
    assert [each.key for each in weighed(log + marker).biggest(9)] == [b"a", b"b", b"c"]


def test_what_is_dropped_unread_is_left_out() -> None:
    log = batch([(b"a", b"x")]) + batch([(b"b", b"y")], first=1)
    assert [each.key for each in weighed(log, bits=bytes([BIT_DISCARD, 0])).biggest(9)] == [b"b"]


def test_many_keys_hide_no_big_one() -> None:
    chance = random.Random(5)
    big = {b"big-%d" % number: 40 * (number + 1) for number in range(8)}
    records = [(key, bytes(50)) for key, count in big.items() for _ in range(count)]
    records += [(b"small-%05d" % number, bytes(chance.randrange(20))) for number in range(6000)]
    chance.shuffle(records)
    log = b"".join(batch(records[first : first + 500], first) for first in range(0, len(records), 500))
    exact = Counter[bytes]()
    for key, value in records:
        exact[key] += len(key) + len(value)
    found = weighed(log).biggest(8)
    assert {each.key for each in found} == set(big)
    for each in found:
        assert each.bytes <= exact[each.key] <= each.most_bytes
        assert each.records <= big[each.key]


def test_nothing_stands_out_where_all_are_alike() -> None:
    records = [(b"%06d" % number, b"v") for number in range(20_000)]
    log = b"".join(batch(records[first : first + 1000], first) for first in range(0, len(records), 1000))
    found = weighed(log, slots=40_000).biggest(10_000)
    assert all(each.most_bytes <= 2 * each.bytes for each in found)
    assert all(each.records <= 1 for each in found)
