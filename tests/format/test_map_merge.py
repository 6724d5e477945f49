"""Offset maps of parts of a log, put together, are the map of the whole."""

from __future__ import annotations

import random

import pytest

from kafkalog_core.errors import LimitError
from kafkalog_core.format import compression, decode, skimpy_offset_map
from kafkalog_core.format.skimpy_offset_map import ENTRY_BYTES, OffsetMap
from kafkalog_core.kernels import constants as n
from tests.support.build import Record, batch_v2
from tests.support.twins import TWINS, twin, walked

KEYS = [b"key-%d" % number for number in range(300)]


@pytest.fixture(params=TWINS, autouse=True)
def _each_twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (compression, decode, skimpy_offset_map):
        monkeypatch.setattr(module, "kernels", twin(request.param))


def put(offsets: OffsetMap, keys: list[bytes], first: int) -> OffsetMap:
    log = batch_v2([Record(offset=first + i, key=key, value=b"v") for i, key in enumerate(keys)])
    offsets.map_run(memoryview(log), walked(log), start=0)
    return offsets


def entries(offsets: OffsetMap) -> dict[tuple[int, int], int]:
    """Offsets by digests, with what they say of other records of the key."""
    table = offsets.table
    return {
        (table[at + n.ENTRY_LOW], table[at + n.ENTRY_HIGH]): table[at + n.ENTRY_OFFSET]
        for at in range(0, len(table), n.ENTRY_SIZE)
        if table[at + n.ENTRY_OFFSET]
    }


def test_parts_put_together_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of one part alone, keys of several, keys twice in one part; pieces smaller than the map."""
    monkeypatch.setattr(skimpy_offset_map, "_PACKED_SLOTS", 37)
    rng = random.Random(7)
    log = [rng.choice(KEYS[: 60 * (part + 1)]) for part in range(4) for _ in range(100)]
    whole, merged = put(OffsetMap(400 * ENTRY_BYTES), log, 0), OffsetMap(400 * ENTRY_BYTES)
    for first in range(0, 400, 100):
        for piece in put(OffsetMap(400 * ENTRY_BYTES), log[first : first + 100], first).packed():
            assert len(piece) <= 37 * ENTRY_BYTES
            merged.merge(piece)
    assert entries(merged) == entries(whole)
    assert merged.size == whole.size < len(log)
    assert all(merged.get(key) == whole.get(key) for key in KEYS)


def test_one_map_too_many_is_refused() -> None:
    """A key that is known needs no room."""
    merged = put(OffsetMap(5 * ENTRY_BYTES), [b"a", b"b", b"c", b"d"], 0)
    for piece in put(OffsetMap(50 * ENTRY_BYTES), [b"d", b"a"], 10).packed():
        merged.merge(piece)
    assert (merged.size, merged.get(b"a"), merged.get(b"b")) == (4, 11, 1)
    [piece] = put(OffsetMap(50 * ENTRY_BYTES), [b"e"], 20).packed()
    with pytest.raises(LimitError, match="4 keys"):
        merged.merge(piece)
    assert (merged.size, merged.get(b"e")) == (4, -1)


def test_a_map_that_is_taken_to_its_last_slot_takes_no_more() -> None:
    full = put(OffsetMap(3 * ENTRY_BYTES, 1.0), [b"a", b"b", b"c"], 0)
    [piece] = put(OffsetMap(9 * ENTRY_BYTES), [b"x"], 9).packed()
    with pytest.raises(LimitError):
        full.merge(piece)
    assert full.size == 3


def test_an_empty_map_has_no_pieces() -> None:
    assert list(OffsetMap(50 * ENTRY_BYTES).packed()) == []
    offsets = put(OffsetMap(5 * ENTRY_BYTES), [b"a"], 0)
    offsets.merge(b"")
    assert offsets.get(b"a") == 0
