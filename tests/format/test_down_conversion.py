"""Batches as message sets of magic 0 and 1, read back by readers of other projects, and by our own."""

from __future__ import annotations

import io
import random
import tarfile
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalog_core import kernels
from kafkalog_core.errors import ChecksumError, FormatError
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.down_conversion import down_convert
from tests.support import plain_log
from tests.support.build import (
    GZIP,
    NONE,
    Record,
    batch_v2,
    empty_batch,
    message_v0,
    message_v1,
    txn_marker,
    wrapper_v1,
)
from tests.support.framing import LZ4, SNAPPY, ZSTD

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
APPEND_MS = 77


class Message(NamedTuple):
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None


def read_back(data: bytes, reader: str) -> list[Message]:
    """The messages of a set as another project's legacy reader has them; every checksum is right."""
    if not data:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python loads its schemas in an old way
        records = import_module(f"{reader}.record.memory_records")
    batches, found = records.MemoryRecords(data), []
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        found += [Message(each.offset, each.timestamp, each.key, each.value) for each in batch]
    return found


def decoded(data: bytes) -> list[Message]:
    """The messages of a set as kafkalog reads them; every checksum is right, and nothing follows the last one."""
    memory, batches = memoryview(data), BatchColumns(len(data) // 26 + 1)
    stop, end = kernels.walk(memory, 0, len(data), 0, -1, len(data), True, batches)
    assert (stop, end) == (kernels.STOP_END, len(data))
    found = []
    for run in decode_run(memory, batches, max_bytes=1 << 24):
        assert isinstance(run, RecordRun)
        names = ("offset", "timestamp_ms", "key_start", "key_size", "value_start", "value_size")
        for offset, time_ms, *spans in zip(*map(run.records.column, names), strict=True):
            key, value = (
                None if size < 0 else bytes(run.memory[start : start + size]) for start, size in (spans[:2], spans[2:])
            )
            found.append(Message(offset, time_ms, key, value))
    return found


def three(first: int, codec: int = NONE, **fields: int) -> bytes:
    records = [
        Record(offset=first + at, key=b"key", value=b"value" * at, timestamp_ms=10 + at, headers=((b"h", b"x"),))
        for at in range(3)
    ]
    return batch_v2(records, codec=codec, **fields)  # type: ignore[arg-type]


def logs(archive: str) -> Iterator[tuple[str, bytes]]:
    """The log files of an archive in the fixtures."""
    with tarfile.open(FIXTURES / archive) as tar:
        for member in tar:
            if member.name.endswith(".log"):
                file = tar.extractfile(member)
                assert isinstance(file, io.BufferedReader)
                yield member.name, file.read()


@pytest.mark.parametrize(
    "archive",
    ["old/fmt-0.10.2.2.tar.gz", "old/fmt-2.8.2.tar.gz", "old/mixfmt-2.8.2.tar.gz", "modern/01-plain-4.3.1.tar.gz"],
)
def test_every_record_of_real_logs_is_in_the_messages(archive: str, tmp_path: Path) -> None:
    codecs, formats, count = set(), set(), 0
    for name, data in logs(archive):
        path = tmp_path / name.replace("/", "_")
        path.write_bytes(data)
        batches = [each for each in plain_log.batches_of(path) if not each.is_control]
        count += len(batches)
        codecs |= {each.codec for each in batches}
        formats |= {each.magic for each in batches}
        for magic in (0, 1):
            found = decoded(down_convert(memoryview(data), magic, 0).data)
            real = [(each, record) for each in batches for record in each.records]
            assert [(m.offset, m.key, m.value) for m in found] == [(r.offset, r.key, r.value) for _, r in real], name
            if magic == 1:
                assert [m.timestamp_ms for m in found] == [
                    -1 if r.timestamp_ms is None else r.timestamp_ms for _, r in real
                ]
    assert count > 30
    assert {"none", "gzip", "snappy"} | ({"lz4"} if "mixfmt" not in archive else set()) <= codecs
    assert max(formats) == (1 if "0.10" in archive else 2)


@pytest.mark.parametrize("reader", ["kafka", "aiokafka"])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_other_readers_read_them(reader: str, magic: int, codec: int) -> None:
    nulls = batch_v2([Record(offset=3, key=None, value=b"v"), Record(offset=4, key=b"k", value=None)], codec=codec)
    found = read_back(down_convert(memoryview(three(0, codec) + nulls), magic, 0).data, reader)
    times = [10, 11, 12, 0, 0] if magic else [None] * 5
    pairs = [(b"key", b""), (b"key", b"value"), (b"key", b"valuevalue"), (None, b"v"), (b"k", None)]
    assert found == [Message(at, times[at], *pair) for at, pair in enumerate(pairs)]


def test_the_type_of_timestamps_is_kept() -> None:
    data = three(0, log_append_time_ms=APPEND_MS) + wrapper_v1([Record(offset=3, value=b"v", timestamp_ms=5)])
    converted = down_convert(memoryview(data), 1, 0).data
    batches = BatchColumns(8)
    kernels.walk(memoryview(converted), 0, len(converted), 0, -1, len(converted), True, batches)
    assert [value & 8 for value in batches.column("attributes")] == [8, 8, 8, 0]
    assert [each.timestamp_ms for each in decoded(converted)] == [APPEND_MS, APPEND_MS, APPEND_MS, 5]


def test_what_the_client_reads_is_copied() -> None:
    old = message_v0(Record(offset=0, value=b"0")) + wrapper_v1(
        [Record(offset=1, value=b"1"), Record(offset=2, value=b"2")]
    )
    converted = down_convert(memoryview(old + three(3)), 1, 2)
    assert converted.data.startswith(old)
    assert converted.next_offset == 6
    assert [each.offset for each in decoded(down_convert(memoryview(old), 0, 2).data)] == [0, 2]


def test_records_below_the_first_offset_and_control_batches_are_dropped() -> None:
    data = three(0, GZIP) + txn_marker(1, offset=3, producer_id=5) + empty_batch(4, 8)
    converted = down_convert(memoryview(data), 1, 2)
    assert [each.offset for each in decoded(converted.data)] == [2]
    assert (converted.next_offset, converted.is_full) == (9, False)
    assert down_convert(memoryview(data), 1, 3).data == b""
    assert down_convert(memoryview(data), 1, 3).next_offset == 9


def test_the_limit_ends_the_set_at_a_whole_message_but_not_before_the_first() -> None:
    data = memoryview(three(0) + three(3))
    whole = down_convert(data, 1, 0)
    assert (len(decoded(whole.data)), whole.next_offset, whole.is_full) == (6, 6, False)
    for limit in range(len(whole.data) + 1):
        part = down_convert(data, 1, 0, max_bytes=limit)
        messages = decoded(part.data)
        assert len(part.data) <= limit or len(messages) == 1
        assert [each.offset for each in messages] == list(range(part.next_offset))
        assert part.is_full == (part.data != whole.data)


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_a_cut_batch_at_the_end_is_ignored(codec: int) -> None:
    data = memoryview(three(0, codec) + three(3, codec))
    for end in range(len(data)):
        converted = down_convert(data[:end], 0, 0)
        first = len(three(0, codec))
        assert [each.offset for each in decoded(converted.data)] == ([0, 1, 2] if end >= first else [])


def test_messages_before_damage_are_returned_and_then_the_error() -> None:
    broken = bytearray(three(3))
    broken[-1] ^= 1
    data = memoryview(three(0) + bytes(broken))
    assert down_convert(data, 1, 0).next_offset == 3
    with pytest.raises(ChecksumError):
        down_convert(data, 1, 3)
    with pytest.raises(FormatError, match="decoded"):
        down_convert(memoryview(three(0, payload=b"\xff")), 1, 0)  # type: ignore[arg-type]
    wrapper = memoryview(wrapper_v1(inner=message_v1(Record(offset=0, value=b"v"), crc=1), offset=0))
    with pytest.raises(FormatError, match="wrapper"):
        down_convert(wrapper, 0, 0)


def test_other_bytes_raise_format_errors_alone() -> None:
    """Random bytes, and batches with a wrong bit whose checksum may not cover it."""
    chance = random.Random(5)
    whole = three(0, GZIP) + three(3) + wrapper_v1([Record(offset=6, value=b"v")])
    for _ in range(2000):
        if chance.random() < 0.3:
            data = bytearray(chance.randbytes(chance.randrange(200)))
        else:
            data = bytearray(whole)
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        try:
            converted = down_convert(memoryview(data), chance.randrange(2), 0, max_bytes=1000, max_batch_bytes=1 << 20)
        except FormatError:
            continue
        assert len(converted.data) <= 1000
