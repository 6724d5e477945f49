"""Runs of batches to columns of records, forwards and backwards."""

from __future__ import annotations

import itertools
import random
import struct
from typing import Any

import pytest

from kafkalog_core import kernels
from kafkalog_core.format import decode as decode_module
from kafkalog_core.format.checksums import crc32, crc32c
from kafkalog_core.format.columns import BatchColumns, RecordColumns
from kafkalog_core.format.decode import PayloadDamage, RecordRun, decode_backwards, decode_run
from tests.support.build import GZIP, NONE, Record, batch_v2, empty_batch, message_v07, wrapper_v07
from tests.support.framing import FRAMINGS, LZ4, SNAPPY, ZSTD, compress

LIMIT_BYTES = 1024 * 1024


def walked(data: bytes) -> tuple[memoryview, BatchColumns]:
    memory, batches = memoryview(data), BatchColumns(16)
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
    runs = [offsets(run) for run in decode_backwards(memory, batches, max_bytes=LIMIT_BYTES, records=RecordColumns(4))]
    assert [offset for run in reversed(runs) for offset in run] == forwards


def values(memory: memoryview, batches: BatchColumns, **options: Any) -> list[bytes | str]:
    """Values of all records in order, and the reasons of damage between them."""
    found: list[bytes | str] = []
    for item in decode_run(memory, batches, max_bytes=LIMIT_BYTES, **options):
        if isinstance(item, PayloadDamage):
            found.append(f"{item.batch}: {item.reason}")
            continue
        spans = zip(item.records.column("value_start"), item.records.column("value_size"), strict=True)
        found += [bytes(item.memory[start : start + size]) for start, size in spans]
    return found


SMALL, LARGE = 40, 9000
CODECS = (GZIP, SNAPPY, LZ4, ZSTD)


@pytest.mark.parametrize("sizes", list(itertools.product((SMALL, LARGE), repeat=3)), ids=str)
def test_payloads_around_the_size_of_the_arena(sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A content too large for the arena stands alone: it is not copied behind others."""
    monkeypatch.setattr(decode_module, "ARENA_BYTES", 1000)
    wanted = [b"%d" % row * size for row, size in enumerate(sizes * 3)]
    data = b"".join(
        batch_v2([Record(offset=row, value=value)], codec=CODECS[row % 4]) for row, value in enumerate(wanted)
    )
    memory, batches = walked(data)
    assert values(memory, batches) == wanted
    assert values(memory, batches, wanted=lambda row: row % 3 != 1) == [
        v for row, v in enumerate(wanted) if row % 3 != 1
    ]
    for item in decode_run(memory, batches, max_bytes=LIMIT_BYTES):
        assert isinstance(item, RecordRun)
        assert len(item.memory) < 2000 or item.records.count == 1


def test_plain_empty_and_broken_batches_between_compressed_ones() -> None:
    """A batch that the cleaner emptied is not compressed: with a codec, its payload is missing."""

    def good(offset: int, codec: int) -> bytes:
        return batch_v2([Record(offset=offset, value=b"%d" % offset)], codec=codec)

    broken = bytearray(good(3, LZ4))
    broken[61] ^= 0xFF
    broken[17:21] = crc32c(broken[21:]).to_bytes(4, "big")
    emptied = bytearray(empty_batch(5, 5))
    emptied[22] = ZSTD
    emptied[17:21] = crc32c(emptied[21:]).to_bytes(4, "big")
    unknown = bytearray(good(6, NONE))
    unknown[22] = 5
    unknown[17:21] = crc32c(unknown[21:]).to_bytes(4, "big")
    parts = [good(0, GZIP), good(1, NONE), good(2, LZ4), broken, good(4, SNAPPY), emptied, unknown, good(7, ZSTD)]
    memory, batches = walked(b"".join(parts))
    assert values(memory, batches) == [b"0", b"1", b"2", "3: payload", b"4", "5: payload-truncated", "6: payload", b"7"]
    assert values(memory, batches, wanted=lambda row: row in {3, 6}) == ["3: payload", "6: payload"]
    over = next(item for item in decode_run(memory, batches, max_bytes=5) if isinstance(item, PayloadDamage))
    assert (over.batch, over.reason, over.records_before) == (0, "payload-limit", 0)


def test_wrappers_of_0_7_inside_of_wrappers() -> None:
    plain = [message_v07(b"%d" % n) for n in range(1200)]  # more than are walked at a time
    nested = wrapper_v07([*plain[:700], wrapper_v07([wrapper_v07(plain[700:702], codec=SNAPPY)]), *plain[702:]])
    data = nested + wrapper_v07(plain[:1], codec=SNAPPY) + plain[1]
    memory, batches = memoryview(data), BatchColumns(16)
    kernels.walk_v07(memory, 0, len(data), 0, 0, LIMIT_BYTES, True, batches)
    assert values(memory, batches) == [b"%d" % n for n in [*range(1200), 0, 1]]


def test_all_that_nested_wrappers_inflate_counts_against_the_limit() -> None:
    """A hundred bytes kept a reader busy for seconds: wrappers that hold nothing left no trace in what was counted."""
    level = wrapper_v07([])
    for count in (3000, 40):
        level = wrapper_v07([level] * count)
    data = level + wrapper_v07([message_v07(b"next")])
    memory, batches = memoryview(data), BatchColumns(16)
    kernels.walk_v07(memory, 0, len(data), 0, 0, LIMIT_BYTES, True, batches)
    assert values(memory, batches) == ["0: payload-limit", b"next"]


def with_tail(batch: bytes, tail: bytes) -> bytes:
    """A batch with bytes behind its payload, and a checksum over them."""
    longer = bytearray(batch + tail)
    longer[8:12] = (len(longer) - 12).to_bytes(4, "big")
    longer[17:21] = crc32c(longer[21:]).to_bytes(4, "big")
    return bytes(longer)


TAILS = {GZIP: b"\0", SNAPPY: b"\0\0\0", LZ4: b"a tail"}


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("codec", TAILS)
def test_bytes_behind_a_stream_do_not_cost_its_records(codec: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_module, "ARENA_BYTES", 1000)
    parts = [
        batch_v2([Record(offset=n, value=b"%d" % n * size) for n in (at, at + 1)], codec=codec) for at in (0, 2, 4)
    ]
    parts[1] = with_tail(parts[1], TAILS[codec])
    memory, batches = walked(b"".join(parts))
    contents = [b"%d" % n * size for n in range(6)]
    assert values(memory, batches) == [*contents[:4], "1: payload-trailing", *contents[4:]]
    assert values(memory, batches, wanted=lambda row: row == 1) == [*contents[2:4], "1: payload-trailing"]
    forwards = [item for item in decode_run(memory, batches, max_bytes=LIMIT_BYTES) if isinstance(item, PayloadDamage)]
    damage, *runs = decode_backwards(memory, batches, max_bytes=LIMIT_BYTES, wanted=lambda row: row == 1)
    assert [damage] == forwards
    assert (forwards[0].batch, forwards[0].records_before) == (1, 2)
    assert f": {len(TAILS[codec])} byte" in forwards[0].detail
    assert [offset for run in runs for offset in offsets(run)] == [2, 3]


def test_bytes_behind_the_stream_of_a_wrapper_of_0_7() -> None:
    def v07(payload: bytes, codec: int) -> bytes:
        return struct.pack(">ibbI", 6 + len(payload), 1, codec, crc32(payload)) + payload

    plain = message_v07(b"0") + message_v07(b"1")
    inner = v07(compress(GZIP, plain) + b"\0\0", GZIP)
    data = v07(compress(GZIP, inner), GZIP) + message_v07(b"next")
    memory, batches = memoryview(data), BatchColumns(16)
    kernels.walk_v07(memory, 0, len(data), 0, 0, LIMIT_BYTES, True, batches)
    assert values(memory, batches) == [b"0", b"1", "0: payload-trailing", b"next"]


def test_a_large_batch_before_a_broken_one_keeps_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was held back for the next turn was taken for the content of the row behind the damage."""
    monkeypatch.setattr(decode_module, "ARENA_BYTES", 1000)
    small, large, last = (batch_v2([Record(offset=n, value=b"x" * n)], codec=GZIP) for n in (1, 5000, 6000))
    broken = bytearray(batch_v2([Record(offset=5001, value=b"broken")], codec=GZIP))
    broken[61] ^= 0xFF
    broken[17:21] = crc32c(broken[21:]).to_bytes(4, "big")
    memory, batches = walked(small + large + broken + last)
    assert values(memory, batches) == [b"x", b"x" * 5000, "2: payload", b"x" * 6000]


def mixed_log(count: int) -> bytes:
    """Batches of all codecs and sizes, some of which the kernel does not vouch for, or are broken."""
    noise = random.Random(5)
    parts = []
    for offset in range(count):
        value = noise.randbytes(noise.randrange(60)) * noise.choice((1, 3, 70, 400))
        codec = noise.choice(CODECS)
        payload = memoryview(batch_v2([Record(offset=offset, value=value)]))[61:]
        part = bytearray(batch_v2([Record(offset=offset, value=value)], codec=codec)[:61])
        part += compress(codec, bytes(payload), framing=noise.choice(FRAMINGS[codec]))
        match noise.randrange(12):
            case 0:
                part += b"\0"
            case 1:
                part[-1 - noise.randrange(4)] ^= 0xFF
            case 2:
                del part[-1:]
        part[8:12] = (len(part) - 12).to_bytes(4, "big")
        part[17:21] = crc32c(part[21:]).to_bytes(4, "big")
        parts.append(bytes(part))
    return b"".join(parts)


def all_of(decode: Any, memory: memoryview, batches: BatchColumns, max_bytes: int) -> list[Any]:
    """Every record and damage as values, in the order of rows."""
    found: list[Any] = []
    for item in decode(memory, batches, max_bytes=max_bytes, records=RecordColumns(7)):
        if isinstance(item, PayloadDamage):
            found.append((item.batch, 1, item))
            continue
        columns = [item.records.column(name) for name in ("batch", "offset", "value_start", "value_size")]
        found += [
            (row, 0, offset, bytes(item.memory[at : at + n])) for row, offset, at, n in zip(*columns, strict=True)
        ]
    return sorted(found, key=lambda each: each[:2])


@pytest.mark.parametrize("decode", [decode_run, decode_backwards])
@pytest.mark.parametrize("arena_bytes", [100, 3000, decode_module.ARENA_BYTES])
@pytest.mark.parametrize("max_bytes", [LIMIT_BYTES, 5000])
def test_the_size_of_the_arena_changes_nothing(
    decode: Any, arena_bytes: int, max_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = mixed_log(400)
    memory, batches = memoryview(data), BatchColumns(500)
    kernels.walk(memory, 0, len(data), 0, -1, LIMIT_BYTES, True, batches)
    assert batches.count == 400
    expected = all_of(decode_run, memory, batches, max_bytes)
    monkeypatch.setattr(decode_module, "ARENA_BYTES", arena_bytes)
    assert all_of(decode, memory, batches, max_bytes) == expected
    assert {len(each) for each in expected} == {3, 4}


def test_the_limit_holds_for_each_batch() -> None:
    value = b"x" * 300
    memory, batches = walked(b"".join(batch_v2([Record(offset=n, value=value)], codec=CODECS[n]) for n in range(4)))
    (size,) = {batches.row(0)["record_count"] * len(batch_v2([Record(value=value)])[61:])}
    for limit_bytes, reasons in ((size, []), (size - 1, ["payload-limit"] * 4)):
        found = all_of(decode_run, memory, batches, limit_bytes)
        assert [item.reason for _, is_damage, item, *_ in found if is_damage] == reasons
