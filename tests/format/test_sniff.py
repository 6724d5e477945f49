"""What a file is by its content, whatever its name says."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.sniff import SNIFF_BYTES, ContentKind, sniff
from tests.support import build

RECORDS = [build.Record(offset=5, timestamp_ms=1700000000000, key=b"k", value=b"v" * 50)]
LARGE = [build.Record(offset=5, timestamp_ms=1700000000000, key=b"k", value=b"v" * 2 * SNIFF_BYTES)]
# Written by Kafka 3.9.1: the first batch of the snapshot that formatting makes.
KRAFT_SNAPSHOT = bytes.fromhex(
    "00000000000000000000009a00000000025d3d07ce002000000002000001a1fbd5c58e000001a1fbd5c58effffffffffffffffffffffffff"
    "ff000000032a0000000800000003160000000001a1fbd5c58200001e00000208000000050a000000010000820100000408000000066e0000"
    "02000000010a424584469e493c94af20df60668f30020b434f4e54524f4c4c45520a3132372e302e302e314aa1000000000100000000"
)
LOGS = [
    (build.batch_v2(RECORDS), ContentKind.LOG_V2),
    (build.batch_v2(LARGE), ContentKind.LOG_V2),
    (build.batch_v2(LARGE, codec=build.GZIP), ContentKind.LOG_V2),
    (build.message_v1(RECORDS[0]), ContentKind.LOG_V1),
    (build.message_v1(LARGE[0]), ContentKind.LOG_V1),
    (build.message_v0(RECORDS[0]), ContentKind.LOG_V0),
    (build.message_v0(LARGE[0]), ContentKind.LOG_V0),
    (build.message_v07(b"payload"), ContentKind.LOG_V07),
    (build.message_v07(b"", magic=0), ContentKind.LOG_V07),
    (build.message_v07(b"p" * 2 * SNIFF_BYTES), ContentKind.LOG_V07),
]


def redpanda(records: bytes) -> bytes:
    """A batch as Redpanda frames it: little-endian, its header with a checksum of its own."""
    header = struct.pack(
        "<iqbihiqqqhii", 61 + len(records), 7, 1, 0x1234567, 0, 0, 1700000000000, 1700000000000, -1, -1, -1, 1
    )
    return struct.pack("<I", crc32c(header)) + header + records


def of(data: bytes):
    return sniff(data[:SNIFF_BYTES], len(data))


@pytest.mark.parametrize(("data", "kind"), LOGS, ids=lambda value: getattr(value, "value", ""))
def test_logs(data: bytes, kind: ContentKind) -> None:
    content = of(data + data)
    assert content.kind is kind
    assert content.proven == (len(data) <= SNIFF_BYTES)


def test_a_batch_with_a_wrong_checksum_is_one_by_its_fields() -> None:
    content = of(build.batch_v2(RECORDS, crc=1))
    assert (content.kind, content.proven) == (ContentKind.LOG_V2, False)
    assert of(build.message_v0(RECORDS[0], crc=1)).kind is ContentKind.UNKNOWN  # so few fields prove nothing


def test_a_log_that_is_torn_in_its_first_batch() -> None:
    data = build.batch_v2(RECORDS)
    content = of(data[:-1])
    assert (content.kind, content.proven) == (ContentKind.LOG_V2, False)
    assert content.what == "a Kafka log of magic 2, its first batch cut short"
    for length in range(1, len(data)):
        assert of(data[:length]).kind in {ContentKind.LOG_V2, ContentKind.UNKNOWN, ContentKind.ZEROS}
        assert of(data[:length]).kind is not ContentKind.LOG_V2 or length >= 61


def test_a_kraft_snapshot_is_a_log() -> None:
    assert of(KRAFT_SNAPSHOT).kind is ContentKind.LOG_V2
    assert of(KRAFT_SNAPSHOT).proven


def test_producer_snapshots() -> None:
    data = build.snapshot([build.Producer(producer_id=number) for number in range(3)])
    assert of(data) == of(build.snapshot([]))
    assert (of(data).kind, of(data).proven) == (ContentKind.PRODUCER_SNAPSHOT, True)
    assert not of(data[:-1] + b"\1").proven
    assert of(data[:-1]).kind is ContentKind.UNKNOWN
    many = build.snapshot([build.Producer(producer_id=number) for number in range(2000)])
    assert (of(many).kind, of(many).proven) == (ContentKind.PRODUCER_SNAPSHOT, False)


def test_redpanda() -> None:
    data = redpanda(b"records")
    assert of(data).kind is ContentKind.REDPANDA_LOG
    assert of(data).what == "a log segment of Redpanda, whose batches are not Kafka's"
    assert of(data[:61]).kind is ContentKind.REDPANDA_LOG
    assert of(data[:60]).kind is not ContentKind.REDPANDA_LOG
    for position in range(61):
        changed = bytearray(data)
        changed[position] ^= 0xFF
        assert of(bytes(changed)).kind is not ContentKind.REDPANDA_LOG


@pytest.mark.parametrize(
    ("data", "kind", "what"),
    [
        (b"", ContentKind.EMPTY, "an empty file"),
        (bytes(4096), ContentKind.ZEROS, "a file of zeros"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", ContentKind.FOREIGN, "a JPEG image"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ContentKind.FOREIGN, "a PNG image"),
        (b"\x1f\x8b\x08\0\0\0\0\0", ContentKind.FOREIGN, "gzip data"),
        (b"PK\x03\x04\x14\0", ContentKind.FOREIGN, "a zip or jar archive"),
        (b"\x7fELF\2\1\1\0", ContentKind.FOREIGN, "an ELF program"),
        (b"name" + bytes(253) + b"ustar\x0000", ContentKind.FOREIGN, "a tar archive"),
        (b"0\n1\norders 0 140\n", ContentKind.OFFSET_CHECKPOINT, "an offset checkpoint"),
        (b"0\r\n1\r\norders 0 140", ContentKind.OFFSET_CHECKPOINT, "an offset checkpoint"),
        (b"0\n0\n", ContentKind.OFFSET_CHECKPOINT, "an offset checkpoint"),
        (b"0\n1\n0 140\n", ContentKind.EPOCH_CHECKPOINT, "a leader epoch checkpoint"),
        (b"version=0\nbroker.id=1\n", ContentKind.TEXT, "text"),
        ("caf\u00e9".encode(), ContentKind.TEXT, "text"),
        (b"\xff\xfe\xfd\x01", ContentKind.UNKNOWN, "bytes of an unknown kind"),
        (b"text\0", ContentKind.UNKNOWN, "bytes of an unknown kind"),
    ],
)
def test_other_files(data: bytes, kind: ContentKind, what: str) -> None:
    content = of(data)
    assert (content.kind, content.what) == (kind, what)
    assert content.proven == (kind is not ContentKind.UNKNOWN)


def test_text_that_is_cut_inside_a_character() -> None:
    data = ("\u20ac" * SNIFF_BYTES).encode()
    assert of(data).kind is ContentKind.TEXT
    assert sniff(data[:SNIFF_BYTES], SNIFF_BYTES).kind is ContentKind.UNKNOWN  # it ends there


@given(st.binary(max_size=120), st.integers(0, 2**40))
def test_any_bytes(data: bytes, more: int) -> None:
    for head in (data, bytes(7) + data, b"\0\x01" + data, b"0\n" + data):
        assert isinstance(sniff(head, len(head) + more).kind, ContentKind)


@given(st.sampled_from([data for data, _ in LOGS if len(data) < 200]), st.data())
def test_any_change_of_a_log(log: bytes, data: st.DataObject) -> None:
    changed = bytearray(log)
    changed[data.draw(st.integers(0, len(log) - 1))] = data.draw(st.integers(0, 255))
    sniff(bytes(changed), len(changed))
