"""The newest record of each key: the kernel keeps what a dictionary would, in parts and as a whole."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.format import compression, decode, newest_records, skimpy_offset_map
from kafkalog_core.format.columns import RecordColumns
from kafkalog_core.format.newest_records import NewestByKey, NewestRecord, NewestRecords
from tests.support.build import Record, batch_v2
from tests.support.twins import TWINS, state_at, twin, walked

if TYPE_CHECKING:
    from collections.abc import Iterator

Step = tuple[bytes | None, bytes | None]


@pytest.fixture(params=TWINS, autouse=True, scope="module")
def _each_twin(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (compression, decode, newest_records, skimpy_offset_map):
            patch.setattr(module, "kernels", twin(request.param))
        yield


def kept(steps: list[Step], first: int = 0, marks: bytes | None = None) -> NewestRecords:
    """What is kept of records with these keys and values, at the offsets from `first` on."""
    newest = NewestByKey()
    if steps:
        made = [
            Record(offset=first + i, key=key, value=value, timestamp_ms=1000 + first + i)
            for i, (key, value) in enumerate(steps)
        ]
        log = memoryview(batch_v2(made))
        records = RecordColumns(len(steps))
        assert newest_records.kernels.decode(log, walked(log), 1, state_at(0), records) == 0
        newest.keep(log, records, bytes([1]) * len(steps) if marks is None else marks)
    return newest.records()


def expected(steps: list[Step]) -> list[NewestRecord]:
    """The same by a dictionary."""
    found: dict[bytes, NewestRecord] = {}
    for offset, (key, value) in enumerate(steps):
        if key is None:
            continue
        before = found.get(key, NewestRecord(key, -1, -1, None, -1, -1))
        replaced = before.offset if value is None and before.value is not None else before.replaced
        tombstone = offset if value is None else before.tombstone
        found[key] = NewestRecord(key, offset, 1000 + offset, value, tombstone, replaced)
    return list(found.values())


def joined(parts: list[NewestRecords]) -> list[NewestRecord]:
    newest = NewestByKey()
    for part in parts:
        newest.join(part)
    return list(newest.records())


_KEY = st.one_of(st.none(), st.binary(max_size=2), st.sampled_from((b"k", b"a longer key " * 9)))
_VALUE = st.one_of(st.none(), st.binary(max_size=20))


@given(st.lists(st.tuples(_KEY, _VALUE), max_size=30), st.lists(st.integers(0, 30), max_size=3))
def test_what_is_kept_is_what_a_dictionary_keeps(steps: list[Step], cuts: list[int]) -> None:
    assert list(kept(steps)) == expected(steps)
    bounds = sorted({0, len(steps), *(cut for cut in cuts if cut < len(steps))})
    parts = [kept(steps[start:end], start) for start, end in pairwise(bounds)]
    assert joined(parts) == expected(steps)


def test_many_keys_and_growing_values_find_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest_records, "_FEW_KEYS", 4)
    monkeypatch.setattr(newest_records, "_DATA_BYTES", 16)
    chance = random.Random(45)
    steps: list[Step] = [
        (b"key-%d" % chance.randrange(150), None if chance.random() < 0.1 else bytes(chance.randrange(2 + number)))
        for number in range(600)
    ]
    assert list(kept(steps)) == expected(steps)
    halves = [kept(steps[:300]), kept(steps[300:], 300)]
    assert joined(halves) == expected(steps)
    # The rooms that values have outgrown are not more than those in use.
    in_use = sum(len(record.key) + 2 * 600 for record in expected(steps))
    assert len(kept(steps).data) <= 2 * in_use


def test_records_without_a_mark_are_left_out() -> None:
    steps: list[Step] = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]
    assert [(each.key, each.value) for each in kept(steps, marks=bytes([1, 1, 0]))] == [(b"a", b"1"), (b"b", b"2")]


def test_nothing_is_kept_of_nothing() -> None:
    assert kept([]) == NewestRecords()
    assert kept([(None, b"v")]).count == 0
    assert joined([NewestRecords(), kept([(b"a", b"")])]) == expected([(b"a", b"")])
    assert kept([(b"a", b"")]).keys() == {b"a"}
