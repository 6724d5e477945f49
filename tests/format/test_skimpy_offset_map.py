"""The cleaner's offset map: MD5 of keys, what is full, what cannot be read."""

from __future__ import annotations

import random
from array import array
from hashlib import md5
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import LimitError
from kafkalog_core.format import compression, decode, skimpy_offset_map
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.skimpy_offset_map import ENTRY_BYTES, OffsetMap
from kafkalog_core.kernels import constants as n
from tests.support.build import GZIP, Record, batch_v2, txn_marker, wrapper_v1
from tests.support.twins import TWINS, twin, walked

if TYPE_CHECKING:
    from collections.abc import Sequence

# Two messages with one MD5 (Wang, Feng, Lai and Yu, 2004).
ONE = bytes.fromhex(
    "d131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f8955ad340609f4b30283e488832571415a"
    "085125e8f7cdc99fd91dbdf280373c5bd8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0"
    "e99f33420f577ee8ce54b67080a80d1ec69821bcb6a8839396f9652b6ff72a70"
)
OTHER = bytes.fromhex(
    "d131dd02c5e6eec4693d9a0698aff95c2fcab50712467eab4004583eb8fb7f8955ad340609f4b30283e4888325f1415a"
    "085125e8f7cdc99fd91dbd7280373c5bd8823e3156348f5bae6dacd436c919c6dd53e23487da03fd02396306d248cda0"
    "e99f33420f577ee8ce54b67080280d1ec69821bcb6a8839396f965ab6ff72a70"
)


@pytest.fixture(params=TWINS)
def each_twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for module in (compression, decode, skimpy_offset_map):
        monkeypatch.setattr(module, "kernels", twin(request.param))
    return str(request.param)


def a_map(slots: int, load_factor: float = 0.9) -> OffsetMap:
    return OffsetMap(slots * ENTRY_BYTES, load_factor)


def a_batch(keys: Sequence[bytes | None], first: int = 0, **fields: int) -> bytes:
    records = [Record(offset=first + i, key=key, value=b"v") for i, key in enumerate(keys)]
    return batch_v2(records, **fields)  # type: ignore[arg-type]


def test_memory_is_as_kafka_divides_it() -> None:
    default = OffsetMap()
    assert (default.slots, default.capacity) == (5_592_405, 5_033_164)
    assert (a_map(5).slots, a_map(5).capacity) == (5, 4)


def test_a_map_without_room_for_a_key_is_refused() -> None:
    for memory, load_factor in ((0, 0.9), (24, 0.9), (2400, 0.0), (24 * 2**32, 0.9), (-24, 0.9)):
        with pytest.raises(LimitError):
            OffsetMap(memory, load_factor)


def test_memory_that_is_not_given_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_args: int) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(skimpy_offset_map, "fresh_memory", no_memory)
    with pytest.raises(LimitError, match="cannot allocate 2400 bytes"):
        OffsetMap(2400)


def test_digests_are_md5_whatever_the_size_of_a_key(each_twin: str) -> None:
    rng = random.Random(5)
    keys = [rng.randbytes(size) for size in (*range(140), 1000, *range(50, 70), 3, 0, 200)]
    keys += [rng.randbytes(rng.randrange(12)) for _ in range(200)]
    log = a_batch(keys)
    offsets = a_map(5000)
    assert offsets.map_run(memoryview(log), walked(log), start=0).rows == 1
    newest = {key: offset for offset, key in enumerate(keys)}
    assert offsets.size == len(newest)
    found = {}
    for at in range(0, len(offsets.table), 3):
        if offsets.table[at + n.ENTRY_OFFSET]:
            low, high, offset = offsets.table[at : at + 3]
            found[array("q", [low, high | 1]).tobytes()] = offset - 1
    expected = {}
    for key, offset in newest.items():
        halves = array("q", md5(key, usedforsecurity=False).digest())
        halves[1] |= 1  # this bit tells of further records
        expected[halves.tobytes()] = offset
    assert found == expected


def test_keys_of_one_digest_are_one_key(each_twin: str) -> None:
    assert md5(ONE, usedforsecurity=False).digest() == md5(OTHER, usedforsecurity=False).digest()
    log = a_batch([ONE, OTHER])
    offsets = a_map(10)
    offsets.map_run(memoryview(log), walked(log), start=0)
    assert (offsets.size, offsets.get(ONE), offsets.get(OTHER)) == (1, 1, 1)


def test_one_key_at_a_time(each_twin: str) -> None:
    offsets = a_map(3, 1.0)
    assert (offsets.get(b"a"), offsets.latest_offset) == (-1, -1)
    for offset, key in enumerate((b"a", b"b", b"a", b"c")):
        offsets.put(key, offset)
    assert [offsets.get(key) for key in (b"a", b"b", b"c", b"d")] == [2, 1, 3, -1]
    with pytest.raises(LimitError):
        offsets.put(b"a", 9)
    offsets.clear()
    assert (offsets.size, offsets.latest_offset, offsets.get(b"a")) == (0, -1, -1)
    offsets.put(b"a", 2**63 - 1)
    assert offsets.get(b"a") == 2**63 - 1


def test_a_full_map_stops_even_at_a_key_that_it_knows(each_twin: str) -> None:
    log = a_batch([b"a", b"b"]) + a_batch([b"c", None, b"d", b"a", b"e"], first=2) + a_batch([b"f"], first=7)
    offsets = a_map(5)
    result = offsets.map_run(memoryview(log), walked(log), start=0)
    assert (result.rows, result.is_full, result.damage) == (1, True, None)
    assert (offsets.latest_offset, offsets.size, offsets.get(b"a")) == (4, 4, 0)


def test_what_does_not_enter_moves_the_latest_offset(each_twin: str) -> None:
    log = a_batch([b"a", b"b"]) + a_batch([None, None], first=2) + txn_marker(1, offset=4, producer_id=1)
    log += a_batch([b"gone"], first=5, last_offset=9)
    for follows, latest in ((True, 9), (False, 1)):
        offsets = a_map(10)
        result = offsets.map_run(
            memoryview(log), walked(log), start=0, skips=bytes([0, 0, 0, 7]), follows_batches=follows
        )
        assert (result.rows, offsets.latest_offset, offsets.size) == (4, latest, 2)


def test_records_before_the_start_do_not_enter(each_twin: str) -> None:
    log = a_batch([b"a", b"b", b"c"]) + a_batch([], first=3, base_offset=3, last_offset=5)
    offsets = a_map(10)
    offsets.map_run(memoryview(log), walked(log), start=2)
    assert (offsets.size, offsets.get(b"c"), offsets.latest_offset) == (1, 2, 5)
    offsets = a_map(10)
    offsets.map_run(memoryview(log), walked(log), start=6)
    assert (offsets.size, offsets.latest_offset) == (0, -1)


def test_a_batch_that_cannot_be_read_ends_it(each_twin: str) -> None:
    good, bad = a_batch([b"a"]), batch_v2([Record(offset=1)], payload=b"\x02\x00", records_count=1)
    broken = wrapper_v1([Record(offset=2, key=b"k")], codec=GZIP, inner=b"")
    for second, reason in ((bad, "record-varint"), (broken, "message-empty")):
        log = good + second + good
        columns = BatchColumns(8)
        kernel = twin("interpreted")
        kernel.walk(log, 0, len(log), 0, -1, 2**40, False, columns)
        offsets = a_map(10)
        result = offsets.map_run(memoryview(log), columns, start=0)
        assert result.damage is not None
        assert (result.rows, result.is_full, result.damage.batch, result.damage.reason) == (1, False, 1, reason)
        assert offsets.latest_offset == 0
        skipped = offsets.map_run(memoryview(log), columns, start=0, skips=bytes([0, 1, 0]))
        assert skipped.damage is None


def test_runs_go_on_from_one_another(each_twin: str) -> None:
    offsets = a_map(100)
    for first in range(0, 40, 4):
        log = a_batch([b"k%d" % (i % 7) for i in range(first, first + 4)], first=first)
        assert offsets.map_run(memoryview(log), walked(log), start=0).records == 4
    assert [offsets.get(b"k%d" % i) for i in range(7)] == [35, 36, 37, 38, 39, 33, 34]
