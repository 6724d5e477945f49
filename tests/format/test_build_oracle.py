"""The builders of `tests.support.build` against aiokafka's reader, which is not ours: they build what clients read.

aiokafka reads fewer framings of compressed payloads than Kafka does; those are left out by name.
"""

from __future__ import annotations

import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given

from tests.support import build, strategies
from tests.support.build import FRAMINGS, Record
from tests.support.framing import lz4_frame

# aiokafka reads one header in a snappy block stream, and verifies the header checksum of lz4 frames in magic 0 as well.
UNREAD = {(2, build.SNAPPY, "restarted"), (1, build.SNAPPY, "restarted"), (0, build.SNAPPY, "restarted")} | {
    (0, build.LZ4, name) for name in FRAMINGS[build.LZ4]
}

RECORDS = [
    Record(offset=40, timestamp_ms=1_700_000_000_000, key=b"k", value=b"v" * 200),
    Record(offset=41, timestamp_ms=1_700_000_000_007, key=None, value="naïve".encode()),
    Record(offset=42, timestamp_ms=1_699_999_999_990, key=b"", value=None),
]


def framed(magic: int) -> list[tuple[int, str]]:
    """Codecs and framings of this magic that aiokafka reads."""
    codecs = [codec for codec in FRAMINGS if magic == 2 or 0 < codec < build.ZSTD]
    return [(c, name) for c in codecs for name in FRAMINGS[c] if (magic, c, name) not in UNREAD]


def read(data: bytes) -> list[tuple]:
    rows = []
    memory = MemoryRecords(data)
    while memory.has_next():
        batch = memory.next_batch()
        assert batch.validate_crc()
        rows.extend(
            (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, tuple((k.encode(), v) for k, v in r.headers))
            for r in batch
        )
    return rows


def expected(records: list[Record] | tuple[Record, ...], timestamp_type: str | None, *, magic: int) -> list[tuple]:
    """The rows that aiokafka must give. It shows -1 as it is in magic 2, as no timestamp in magic 1."""
    kind = {None: None, "create": 0, "append": 1}[timestamp_type]
    rows = []
    for r in records:
        timed = magic == 2 or (magic == 1 and r.timestamp_ms != -1)
        time = (r.timestamp_ms, kind) if timed else (None, None)
        rows.append((r.offset, *time, r.key, r.value, r.headers))
    return rows


def assert_read(magic: int, logs: list[strategies.Built]) -> None:
    logs = [built for built in logs if (magic, built.codec, built.framing) not in UNREAD]
    rows = [row for b in logs for row in expected(b.records, b.timestamp_type, magic=magic)]
    assert read(b"".join(b.data for b in logs)) == rows


@pytest.mark.parametrize(("codec", "framing"), framed(2))
def test_batches_of_magic_2(codec, framing):
    headers = ((b"h", b"1"), (b"h", None), (b"", b""))
    records = [Record(offset=r.offset, timestamp_ms=r.timestamp_ms, value=r.value, headers=headers) for r in RECORDS]
    assert read(build.batch_v2(records, codec=codec, framing=framing)) == expected(records, "create", magic=2)


@pytest.mark.parametrize(("codec", "framing"), framed(1))
def test_wrappers_of_magic_1(codec, framing):
    for first_inner_offset in (0, 3):
        data = build.wrapper_v1(RECORDS, codec=codec, framing=framing, first_inner_offset=first_inner_offset)
        assert read(data) == expected(RECORDS, "create", magic=1)


@pytest.mark.parametrize(("codec", "framing"), framed(0))
def test_wrappers_of_magic_0(codec, framing):
    assert read(build.wrapper_v0(RECORDS, codec=codec, framing=framing)) == expected(RECORDS, None, magic=0)


def test_a_transaction_and_its_marker():
    log = build.batch_v2(
        RECORDS, producer_id=1000, producer_epoch=3, base_sequence=7, is_transactional=True, leader_epoch=5
    )
    log += build.txn_marker(build.COMMIT, offset=43, producer_id=1000, producer_epoch=3, coordinator_epoch=9)
    memory = MemoryRecords(log)
    batch, marker = memory.next_batch(), memory.next_batch()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (1000, 3, 7)
    assert (batch.is_transactional, batch.is_control_batch, batch.next_offset) == (True, False, 43)
    assert (marker.is_transactional, marker.is_control_batch, marker.producer_id) == (True, True, 1000)
    assert next(iter(marker)).key == b"\0\0\0\1"


def test_sizes_that_are_known():
    """Sizes of Kafka's own: a marker as a leader writes it, an emptied batch, empty messages of magic 0 and 1."""
    assert len(build.txn_marker(build.ABORT, offset=0, producer_id=1)) == 78
    assert len(build.empty_batch(0, 9)) == 61
    assert (len(build.message_v0(Record())), len(build.message_v1(Record()))) == (26, 34)
    assert lz4_frame(b"x")[:7].hex() == "04224d18604082"


@given(strategies.logs(strategies.batches_v2))
def test_any_log_of_magic_2(logs):
    assert_read(2, logs)


@given(strategies.logs(strategies.messages_v1))
def test_any_log_of_magic_1(logs):
    assert_read(1, logs)


@given(strategies.logs(strategies.messages_v0))
def test_any_log_of_magic_0(logs):
    assert_read(0, logs)
