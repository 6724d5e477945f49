"""The walk of a broker's recovery: it takes what checksums allow, and stops where a broker cuts."""

from __future__ import annotations

import errno
import struct
import zlib
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.kafka.sim.broker_walk import ReadStop, stop_of_broker, walk_as_broker
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
from kafkalog_core.storage.source import WINDOW_BYTES, Source
from tests.support import strategies
from tests.support.build import Record, batch_v2, message_v0, message_v1

Rows = list[tuple[int, int]]


def walk(path: Path, **options: object) -> tuple[Rows, list[Damage]]:
    """Position and last offset of each batch, and the damage."""
    given = {"base_offset": 0, "max_batch_bytes": MAX_BATCH_BYTES, "takes_v2_magic": True} | options
    rows: Rows = []
    damage: list[Damage] = []
    with Source.open(path) as source:
        for item in walk_as_broker(source, **given):  # type: ignore[arg-type]
            if isinstance(item, Run):
                assert not damage or not damage[-1].size_bytes, "nothing comes behind damage"
                rows += zip(item.batches.column("position"), item.batches.column("last_offset"), strict=True)
            else:
                damage.append(item)
    return rows, damage


def walk_bytes(tmp_path: Path, data: bytes, **options: object) -> tuple[Rows, list[Damage]]:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    return walk(path, **options)


def batch(offset: int, size: int = 50) -> bytes:
    return batch_v2([Record(offset=offset, value=b"v" * size)])


def with_magic(data: bytes, magic: int) -> bytes:
    return data[:16] + struct.pack(">b", magic) + data[17:]


def test_whole_batches(tmp_path: Path) -> None:
    log = b"".join(batch(offset) for offset in range(30))
    size = len(batch(0))
    assert walk_bytes(tmp_path, log) == ([(offset * size, offset) for offset in range(30)], [])
    assert walk_bytes(tmp_path, b"") == ([], [])


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\0", "torn-tail"),
        (b"\1" * 17, "torn-tail"),
        (bytes(18), "zero-filled"),
        (batch(1)[:-1], "torn-tail"),
        (batch(1)[:30], "torn-tail"),
        (batch(1)[:-1] + b"x", "crc-mismatch"),
        (struct.pack(">qi", 1, 13) + bytes(40), "bad-length"),
        (struct.pack(">qi", 1, -1) + bytes(40), "bad-length"),
        (struct.pack(">qiib", 1, 20, 0, 2) + bytes(40), "bad-length"),
    ],
)
def test_where_it_stops(tmp_path: Path, tail: bytes, reason: str) -> None:
    rows, damage = walk_bytes(tmp_path, batch(0) + tail)
    assert rows == [(0, 0)]
    assert [(each.reason, each.position) for each in damage] == [(reason, len(batch(0)))]


# --- a magic that no release writes -----------------------------------------------------------------------------------
def test_magic_3_with_the_checksum_of_2_is_taken(tmp_path: Path) -> None:
    size = len(batch(0))
    log = batch(0) + with_magic(batch(1), 5) + with_magic(batch(2), 127) + batch(3)
    rows, damages = walk_bytes(tmp_path, log)
    assert rows == [(size * offset, offset) for offset in range(4)]
    assert [(each.position, each.size_bytes, each.reason) for each in damages] == [
        (size, 0, "unknown-magic"),
        (2 * size, 0, "unknown-magic"),
    ]
    rows, (damage,) = walk_bytes(tmp_path, log, takes_v2_magic=False)
    assert (rows, damage.reason, damage.position) == ([(0, 0)], "unknown-magic", size)


def test_its_checksum_must_be_good(tmp_path: Path) -> None:
    rows, damages = walk_bytes(tmp_path, batch(0) + with_magic(batch(1)[:-1] + b"x", 5) + batch(2))
    assert (rows, {each.position for each in damages}) == ([(0, 0)], {len(batch(0))})
    assert [each.size_bytes > 0 for each in damages] == [False, True]


@pytest.mark.parametrize("takes_v2_magic", [False, True])
def test_negative_magic_with_the_checksum_of_a_message_is_taken(tmp_path: Path, takes_v2_magic: bool) -> None:
    message = message_v1(Record(offset=1, timestamp_ms=7, value=b"abc"))
    strange = with_magic(message, -1)
    strange = strange[:12] + struct.pack(">I", zlib.crc32(strange[16:])) + strange[16:]
    log = batch(0) + strange + batch(2)
    rows, damage = walk_bytes(tmp_path, log, takes_v2_magic=takes_v2_magic)
    assert ([offset for _, offset in rows], damage) == ([0, 1, 2], [])
    rows, damage = walk_bytes(tmp_path, batch(0) + with_magic(message, -1))
    assert ([offset for _, offset in rows], [each.reason for each in damage]) == ([0], ["unknown-magic"])


def test_a_strange_magic_over_the_end_of_a_window(tmp_path: Path) -> None:
    large = batch(0, WINDOW_BYTES - 200)
    log = large + with_magic(batch(1, 5000), 3) + batch(2)
    assert [offset for _, offset in walk_bytes(tmp_path, log)[0]] == [0, 1, 2]
    cut = large + with_magic(batch(1, 5000), 3)[:-1]
    rows, (damage,) = walk_bytes(tmp_path, cut)
    assert ([offset for _, offset in rows], damage.position) == ([0], len(large))


# --- offsets, limits, parts -------------------------------------------------------------------------------------------
def test_offsets_that_go_back_are_told_and_passed(tmp_path: Path) -> None:
    size = len(batch(0))
    rows, damage = walk_bytes(tmp_path, batch(5) + batch(3) + batch(9) + batch(9))
    assert rows == [(0, 5), (size, 3), (2 * size, 9), (3 * size, 9)]
    assert [(each.position, each.size_bytes, each.next_offset) for each in damage] == [(size, 0, 6), (3 * size, 0, 10)]
    assert {each.reason for each in damage} == {"offset-order"}
    assert [each.position for each in walk_bytes(tmp_path, batch(5), base_offset=6)[1]] == [0]


def test_a_batch_over_the_limit(tmp_path: Path) -> None:
    log = batch(0) + batch(1, 500) + batch(2)
    rows, (damage,) = walk_bytes(tmp_path, log, max_batch_bytes=400)
    assert (rows, damage.reason) == ([(0, 0)], "over-limit")
    assert walk_bytes(tmp_path, with_magic(batch(0, 500), 3), max_batch_bytes=400)[0] == []


def test_a_batch_larger_than_a_window(tmp_path: Path) -> None:
    log = batch(0) + batch(1, 3 * WINDOW_BYTES) + batch(2)
    rows, damage = walk_bytes(tmp_path, log)
    assert ([offset for _, offset in rows], damage) == ([0, 1, 2], [])


def test_a_part_is_walked_as_if_it_were_the_file(tmp_path: Path) -> None:
    log = b"".join(batch(offset) for offset in range(6))
    size = len(batch(0))
    rows, damage = walk_bytes(tmp_path, log, base_offset=2, byte_range=(2 * size, 4 * size))
    assert (rows, damage) == ([(0, 2), (size, 3)], [])
    rows, (torn,) = walk_bytes(tmp_path, log, base_offset=2, byte_range=(2 * size, 4 * size - 1))
    assert (rows, torn.position, torn.size_bytes, torn.reason) == ([(0, 2)], size, size - 1, "torn-tail")


def test_what_the_disk_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(batch(0, 3000))
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(batch(offset, 3000) for offset in range(9)))
    whole = Source._pread

    def pread(self: Source, target: memoryview, position: int) -> int:
        if position < 8192 and position + len(target) > 4096:
            raise OSError(errno.EIO, "EIO")
        return whole(self, target, position)

    monkeypatch.setattr(Source, "_pread", pread)
    rows, (damage,) = walk(path)
    assert (rows, damage.reason, damage.position) == ([(0, 0)], "unreadable", size)


@given(strategies.logs(strategies.batches_v2), st.data())
def test_any_cut_and_any_flip(
    tmp_path_factory: pytest.TempPathFactory, log: list[strategies.Built], data: st.DataObject
) -> None:
    """Every whole batch before the place is given, and one damage from the first that is not whole."""
    content = bytearray(b"".join(one.data for one in log))
    at = data.draw(st.integers(0, len(content) - 1))
    is_cut = data.draw(st.booleans())
    if is_cut:
        del content[at:]
    else:
        content[at] ^= 0xFF
    path = Path(mkdtemp(dir=tmp_path_factory.getbasetemp())) / "0.log"
    path.write_bytes(content)
    rows, damage = walk(path)
    starts, start = [], 0
    for one in log:
        if start + len(one.data) <= at:
            starts.append(start)
        start += len(one.data)
    assert [position for position, _ in rows][: len(starts)] == starts
    last = [each for each in damage if each.size_bytes]
    assert len(last) <= 1
    if last:
        assert last[0].position <= at


def test_old_messages(tmp_path: Path) -> None:
    log = message_v0(Record(offset=3, value=b"a")) + message_v1(Record(offset=4, timestamp_ms=9, value=b"b"))
    assert [offset for _, offset in walk_bytes(tmp_path, log, base_offset=3)[0]] == [3, 4]


# --- where checksums are not computed ---------------------------------------------------------------------------------
SHORT = struct.pack(">qiib", 1, 30, 0, 2) + bytes(25)
"""42 bytes of magic 2, less than the header of a batch: a size that leads on all the same."""


@pytest.mark.parametrize(
    ("middle", "stop"),
    [
        (SHORT, None),
        (SHORT * 3, None),
        (SHORT + struct.pack(">qi", 1, 13) + bytes(30), (42, False)),
        (SHORT + struct.pack(">qi", 1, 10**6) + bytes(30), (42, True)),
        (struct.pack(">qi", 1, -1) + bytes(30), (0, False)),
        (bytes(50), (0, False)),
        (with_magic(batch(1), 9), None),
    ],
)
def test_a_broker_steps_from_size_to_size(tmp_path: Path, middle: bytes, stop: tuple[int, bool] | None) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(batch(0) + middle + batch(5))
    size = len(batch(0))
    with Source.open(path) as source:
        items = list(scan(source, base_offset=0, options=ScanOptions(check=False)))
        damage = [each for each in items if isinstance(each, Damage)]
        stops = [found for each in damage if (found := stop_of_broker(source, each, source.size_bytes)) is not None]
    assert damage
    assert stops[:1] == ([] if stop is None else [ReadStop(size + stop[0], stop[1])])


@pytest.mark.parametrize("tail", [b"\0", bytes(17), batch(1)[:-1]])
def test_a_tail_that_is_not_whole_is_the_end(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(batch(0) + tail)
    with Source.open(path) as source:
        damage = [
            each for each in scan(source, base_offset=0, options=ScanOptions(check=False)) if isinstance(each, Damage)
        ]
        assert stop_of_broker(source, damage[0], source.size_bytes) == ReadStop(len(batch(0)), is_end=True)
