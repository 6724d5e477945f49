"""What a hostile log may not do: take memory or time that its size does not earn."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.format.layout import V07_MAX_DEPTH
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest
from tests.support.build import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    Record,
    batch_v2,
    compress,
    message_v0,
    message_v07,
    record_v2,
    unsigned_varint,
    varint,
    wrapper_v0,
    wrapper_v07,
)
from tests.support.framing import lz4_frame
from tests.support.logs import Row, dump_rows, offsets_of, records, write_segments

if TYPE_CHECKING:
    from pathlib import Path

MEBIBYTE = 1024 * 1024
LIMIT_BYTES = 8 * MEBIBYTE


def gzip_bomb() -> bytes:
    """2 GiB of zeros in 2 MB: the same member again and again."""
    return zlib.compress(bytes(16 * MEBIBYTE), 9, 31) * 128


def zstd_bomb(blocks: int = 16_384) -> bytes:
    """128 KiB of zeros in each block of 4 bytes (RFC 8878): 2 GiB in 64 KB. The frame has no content size."""
    header = bytes.fromhex("28b52ffd") + b"\x00" + b"\x38"
    block_bytes = 128 * 1024
    block = struct.pack("<I", block_bytes << 3 | 1 << 1)[:3] + b"\0"
    last = struct.pack("<I", block_bytes << 3 | 1 << 1 | 1)[:3] + b"\0"
    return header + block * (blocks - 1) + last


def snappy_bomb() -> bytes:
    """A raw body that says it is 2 GiB long."""
    return unsigned_varint(2**31 - 1) + b"\x00a"


def lz4_bomb() -> bytes:
    """Blocks of 4 MiB that are one long match, 255 bytes for each byte: 1 GiB in 4 MB."""
    block = lz4_frame(bytes(4 * MEBIBYTE), "large-blocks")
    return block[:7] + block[7:-4] * 256 + block[-4:]


BOMBS = {"gzip": (GZIP, gzip_bomb), "zstd": (ZSTD, zstd_bomb), "snappy": (SNAPPY, snappy_bomb), "lz4": (LZ4, lz4_bomb)}


def damage_of(path: Path) -> list[Row]:
    rows = dump_rows(path, level="records", max_batch_bytes=LIMIT_BYTES)
    return [row for row in rows if row["type"] == "damage"]


# --- bombs ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_damage(tmp_path: Path, name: str) -> None:
    codec, make = BOMBS[name]
    data = batch_v2(records(0, 2), codec=codec, payload=make()) + batch_v2(records(2, 2))
    log = write_segments(tmp_path / "topic-0", {0: data})
    for newest_first in (False, True):
        rows = dump_rows(log, level="records", max_batch_bytes=LIMIT_BYTES, newest_first=newest_first)
        (damage,) = [row for row in rows if row["type"] == "damage"]
        assert damage["reason"] in {"payload-limit", "payload"}
        assert (damage["position"], damage["size_bytes"]) == (0, 0)
        assert sorted(offsets_of(rows)) == [2, 3]


def test_a_kilobyte_that_inflates_to_megabytes(tmp_path: Path) -> None:
    payload = zstd_bomb(blocks=240)
    assert len(payload) < 1024
    log = write_segments(tmp_path / "topic-0", {0: batch_v2(records(0, 2), codec=ZSTD, payload=payload)})
    (damage,) = damage_of(log)
    assert damage["reason"] == "payload-limit"
    assert f"limit of {LIMIT_BYTES} bytes" in damage["detail"]


def test_bombs_take_bounded_memory(tmp_path: Path) -> None:
    """Measured from outside, as codecs take their memory where Python does not see it."""
    bombs = [batch_v2(records(2 * n, 2), codec=codec, payload=make()) for n, (codec, make) in enumerate(BOMBS.values())]
    bombs.append(wrapper_v0(records(8, 2), codec=GZIP, inner=bytes(64 * MEBIBYTE)))
    log = write_segments(tmp_path / "topic-0", {0: b"".join(bombs)})
    plain = write_segments(tmp_path / "other-0", {0: batch_v2(records(0, 2))})
    assert peak_bytes(log) - peak_bytes(plain) < 5 * LIMIT_BYTES


def peak_bytes(path: Path) -> int:
    """Peak resident memory of a dump in a process of its own."""
    program = f"""
import resource, sys
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.engine.report import Report
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.engine.targets import resolve
request = DumpRequest(targets=tuple(resolve([sys.argv[1]])), level="records", max_batch_bytes={LIMIT_BYTES})
for chunk in dump(request, Report()):
    chunk.ndjson("auto")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=True, capture_output=True, text=True)
    return int(done.stdout)


# --- numbers that cannot be -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("codec", [0, GZIP, ZSTD])
def test_a_record_that_claims_two_billion_headers(tmp_path: Path, codec: int) -> None:
    good = record_v2(Record(offset=0, key=b"k", value=b"v"), base_offset=0, base_timestamp_ms=0)
    body = b"\0" + varint(0) + varint(1) + varint(-1) + varint(-1) + varint(2**31 - 1)
    payload = compress(codec, good + varint(len(body)) + body)
    data = batch_v2([Record(offset=0), Record(offset=1)], codec=codec, payload=payload)
    rows = dump_rows(write_segments(tmp_path / "topic-0", {0: data}), level="records")
    assert offsets_of(rows) == [0]
    (damage,) = [row for row in rows if row["type"] == "damage"]
    assert damage["reason"] == "record-headers"
    assert "record 2 of 2" in damage["detail"]


def test_headers_as_many_as_the_bytes_allow(tmp_path: Path) -> None:
    """Two bytes a header: what they take in columns is 16 times that, and bounded."""
    for count, reason in ((500_000, None), (1_200_000, "headers-limit")):
        body = b"\0" + varint(0) + varint(0) + varint(-1) + varint(-1) + varint(count) + b"\x00\x01" * count
        data = batch_v2([Record()], payload=varint(len(body)) + body)
        path = write_segments(tmp_path / f"topic-{count}", {0: data})
        rows = [row for row in dump_rows_plain(path) if row["type"] != "finding"]
        if reason is None:
            assert [len(row["headers"]) for row in rows] == [count]
        else:
            assert [row["reason"] for row in rows] == [reason]


def dump_rows_plain(path: Path) -> list[Row]:
    request = DumpRequest(targets=tuple(resolve([str(path)])), level="records")
    return [row for chunk in dump(request, Report()) for row in chunk.rows()]


@pytest.mark.parametrize("count", [2**31 - 1, -1, -(2**31), 4, 2])
def test_a_record_count_that_cannot_be(tmp_path: Path, count: int) -> None:
    data = batch_v2(records(0, 3), records_count=count) + batch_v2(records(3, 2))
    for newest_first in (False, True):
        path = write_segments(tmp_path / f"topic-{int(newest_first)}", {0: data})
        rows = dump_rows(path, level="records", newest_first=newest_first)
        readable = min(max(count, 0), 3)
        assert sorted(offsets_of(rows)) == [*range(readable), 3, 4]
        reasons = ["header-contradiction"] if not 0 <= count <= 3 else []
        reasons.append("record-varint" if count > 3 else "record-count")
        shown = [row["reason"] for row in rows if row["type"] == "damage"]
        assert shown == (reasons[::-1] if newest_first else reasons)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (varint(2**31 - 1), "record-length"),
        (varint(-1), "record-length"),
        (b"\x80\x80\x80\x80\x80\x01", "record-varint"),
        (varint(3) + b"\0" + b"\x80\x80", "record-varint"),
        (varint(5) + b"\0\0\0" + varint(1000), "record-key"),
        (varint(6) + b"\0\0\0\x01" + varint(1000), "record-value"),
        (varint(6) + b"\0\0\0\x01\x01\x01", "record-headers"),
        (varint(8) + b"\0\0\0\x01\x01\x00??", "record-trailing"),
    ],
)
def test_a_record_whose_lengths_cannot_be(tmp_path: Path, body: bytes, reason: str) -> None:
    path = write_segments(tmp_path / "topic-0", {0: batch_v2([Record()], payload=body) + batch_v2(records(1, 1))})
    rows = dump_rows(path, level="records")
    assert [row["reason"] for row in rows if row["type"] == "damage"] == [reason]
    assert offsets_of(rows) == [1]


def test_inner_messages_whose_lengths_cannot_be(tmp_path: Path) -> None:
    good = message_v0(Record(offset=0, value=b"x"))
    cases = {
        good + struct.pack(">qi", 1, 2**31 - 1) + bytes(30): "message-cut",
        good + struct.pack(">qi", 1, -5) + bytes(30): "message-length",
        good + good[:20]: "message-cut",
        b"": "message-empty",
        message_v0(Record(offset=0, value=good), attributes=GZIP): "message-nested",
    }
    for inner, reason in cases.items():
        path = write_segments(tmp_path / f"topic-{len(inner)}", {0: wrapper_v0(inner=inner, offset=5)})
        assert [row["reason"] for row in damage_of(path)] == [reason]


# --- nested wrappers of 0.7 -------------------------------------------------------------------------------------------
def nested(depth: int) -> bytes:
    message = message_v07(b"deep")
    for _ in range(depth):
        message = wrapper_v07([message])
    return message


@pytest.mark.parametrize("newest_first", [False, True])
def test_nested_as_deep_as_allowed(tmp_path: Path, newest_first: bool) -> None:
    data = nested(V07_MAX_DEPTH) + nested(V07_MAX_DEPTH + 1) + nested(200) + message_v07(b"plain")
    path = write_segments(tmp_path / "topic-0", {0: data}, suffix="kafka")
    rows = dump_rows(path, level="records", newest_first=newest_first)
    assert {row["value"] for row in rows if row["type"] == "record"} == {b"deep", b"plain"}
    damage = [row for row in rows if row["type"] == "damage"]
    assert [row["reason"] for row in damage] == ["payload-limit"] * 2
    assert f"more than {V07_MAX_DEPTH} deep" in damage[0]["detail"]


def test_many_wrappers_that_are_bombs_together(tmp_path: Path) -> None:
    """Each alone stays below the limit."""
    one = wrapper_v07([message_v07(bytes(3 * MEBIBYTE))])
    path = write_segments(tmp_path / "topic-0", {0: wrapper_v07([one] * 10) + message_v07(b"plain")}, suffix="kafka")
    (damage,) = damage_of(path)
    assert damage["reason"] == "payload-limit"


def test_nested_wrappers_take_bounded_memory(tmp_path: Path) -> None:
    """Four kilobytes whose every level is almost as large as allowed, all held at once while the innermost is read."""
    message = message_v07(bytes(6 * MEBIBYTE))
    for _ in range(60):
        message = wrapper_v07([message], framing="stored")
    path = write_segments(tmp_path / "topic-0", {0: wrapper_v07([wrapper_v07([message])])}, suffix="kafka")
    plain = write_segments(tmp_path / "other-0", {0: message_v07(b"plain")}, suffix="kafka")
    assert peak_bytes(path) - peak_bytes(plain) < 5 * LIMIT_BYTES
