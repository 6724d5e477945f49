"""Walk and decode: bytes that real brokers wrote, and the edges of every format. Each test runs on every twin."""

from __future__ import annotations

import struct
from unittest import mock

import pytest

from kafkalog_core import kernels
from kafkalog_core.format import decode as decode_module
from kafkalog_core.format.columns import FORMAT_V07, BatchColumns, RecordColumns
from kafkalog_core.format.decode import RecordRun, decode_run
from tests.support.build import Record, batch_v2, message_v0, message_v07, message_v1, record_v2
from tests.support.twins import Row, decode_all, decode_once, rows_of, state_at, twin, walked

LIMIT_BYTES = 1 << 20
MAX_INT64 = 2**63 - 1

# --- golden bytes -----------------------------------------------------------------------------------------------------
PLAIN_V0 = (  # written by Kafka 0.8.0 and 0.8.2.2 (the last two), case fmt, topic nulls: empty and null
    "00000000000000010000000ee38a687600000000000000000000"
    "00000000000000020000000e795748e00000ffffffff00000000"
    "00000000000000040000000e3d314895000000000000ffffffff"
    "00000000000000060000000ea7ec68030000ffffffffffffffff"
)
PLAIN_V1 = (  # written by Kafka 0.10.0.1, case fmt, topic nulls
    "000000000000000200000016968dbe6501000000015d5add1b2b0000000000000000"
    "0000000000000003000000169a9f62d701000000015d5add27a0ffffffff00000000"
    "0000000000000004000000165ea2e15901000000015d5add2d3400000000ffffffff"
)
GZIP_V0 = (  # written by Kafka 0.8.0, case fmt, topic nulls: inner offsets are absolute
    "00000000000000070000005d73c87c150001ffffffff0000004f1f8b0800000000000000636000031620e6bfc4b3ff2b03c37f2000f218cb20"
    "320cac40ccf7b82b03c6470036904c65b8c703b82618600762a1ff6c4c9e601e53b611882c330200b7c3524d6d000000"
)
GZIP_V1 = (  # written by Kafka 0.10.2.2, case fmt, topic nulls: inner offsets are 0 to 6
    "000000000000000d000000a400fadacb01010000015d652cc717ffffffff0000008e1f8b080000000000000063608003f19b6d114719810cc6"
    "d8549dbe53ff8100c429834a8364c41dd47a1fc3944cb805626443d5810013108bd5343a71c1944caf634005cc2015b3aee53e87a958b41b49"
    "3f08b0805454de668e87a9d82403124652c50ac452aa86825f612ab63781ecce360291654650556c20730a8d3f9f80a93a2efe1f0a00ab9c7b"
    "e1f4000000"
)
PLAIN_V2 = (  # written by Kafka 4.3.1 for aiokafka, case 01-plain, topic plain.aiokafka.none
    "0000000000000000000000890000000002a587f43e0000000000050000018bcfe568000000018bcfe56806ffffffffffffffffffff00000000"
    "0000000614000000046b31047631001c00020201106e756c6c206b6579001e0004040012656d707479206b65790024000606186b2d6e756c6c"
    "2d76616c75650100260008081a6b2d656d7074792d76616c756500000c000c0a000000"
)
MARKER_V2 = (  # written by Kafka 3.9.1, case 03-transactions, topic tx.aborts: an abort marker
    "000000000000000500000042000000000261c8f7d7003000000000000001a1fbf3721f000001a1fbf3721f00000000000000030000ffffffff"
    "000000012000000008000000000c00000000000000"
)
COMPACTED_V2 = (  # written by the cleaner of Kafka 2.8.2, case txn, topic txcompact: offset 78 is left of 70 to 81
    "0000000000000046000000a30000000002c401a88100100000000b000001a1fbf79d7a000001a1fbf79d7a0000000000000000000000000013"
    "00000001e0010000100a6b30303035be01726566756e64206d6561646f772076616c6c65792074756e64726120626173696e2064656c746120"
    "67726f7665206f72646572206a65747479206e6f72746820616d62657220706562626c6520666a6f726420736c61746520706562626c650204"
    "74780239"
)
PLAIN_V07 = "00000006010000000000" + "000000050000000000"  # written by Kafka 0.7.2, case k07: empty, magic 1 and 0
REFUND = b"refund meadow valley tundra basin delta grove order jetty north amber pebble fjord slate pebble"
GOLDEN = {
    "plain-v0": (
        PLAIN_V0,
        [(1, -1, b"", b"", ()), (2, -1, None, b"", ()), (4, -1, b"", None, ()), (6, -1, None, None, ())],
    ),
    "plain-v1": (
        PLAIN_V1,
        [
            (2, 1500468026155, b"", b"", ()),
            (3, 1500468029344, None, b"", ()),
            (4, 1500468030772, b"", None, ()),
        ],
    ),
    "gzip-v0": (
        GZIP_V0,
        [(4, -1, None, b"v", ()), (5, -1, b"", b"", ()), (6, -1, None, b"", ()), (7, -1, b"k2", b"v2", ())],
    ),
    "gzip-v1": (
        GZIP_V1,
        [
            (7, 1500641005258, None, b"v", ()),
            (8, 1500641005786, b"k", None, ()),
            (9, 1500641007486, b"", b"", ()),
            (10, 1500641010363, None, b"", ()),
            (11, 1500641014300, b"", None, ()),
            (12, 1500641015682, b"k2", b"v2", ()),
            (13, 1500641019671, None, None, ()),
        ],
    ),
    "plain-v2": (
        PLAIN_V2,
        [
            (0, 1700000000000, b"k1", b"v1", ()),
            (1, 1700000000001, None, b"null key", ()),
            (2, 1700000000002, b"", b"empty key", ()),
            (3, 1700000000003, b"k-null-value", None, ()),
            (4, 1700000000004, b"k-empty-value", b"", ()),
            (5, 1700000000006, b"", b"", ()),
        ],
    ),
    "marker-v2": (MARKER_V2, [(5, 1795228398111, bytes(4), bytes(6), ())]),
    "compacted-v2": (COMPACTED_V2, [(78, 1795228671354, b"k0005", REFUND, ((b"tx", b"9"),))]),
}
GOLDEN_LOGS = pytest.mark.parametrize(("text", "expected"), GOLDEN.values(), ids=GOLDEN)


def walk_with(name: str, data: bytes, **options: object) -> tuple[int, int, BatchColumns]:
    """A walk by that twin: why it stopped, where, and what it found."""
    batches = BatchColumns(16)
    walk = twin(name).walk_v07 if options.get("is_v07") else twin(name).walk
    stop, end = walk(data, 0, len(data), 0, options.get("previous", -1), LIMIT_BYTES, True, batches)
    return stop, end, batches


@GOLDEN_LOGS
def test_golden_records(twin_name, text, expected):
    data = memoryview(bytes.fromhex(text))
    stop, end, batches = walk_with(twin_name, data)
    assert (stop, end) == (kernels.STOP_END, len(data))
    assert batches.column("crc_stored").tolist() == batches.column("crc_computed").tolist()
    found = []
    with mock.patch.object(decode_module, "kernels", twin(twin_name)):
        for run in decode_run(data, batches, max_bytes=LIMIT_BYTES):
            assert isinstance(run, RecordRun)
            found += [row[1:6] for row in rows_of(run.memory, run.records)]
    assert found == expected


def test_golden_batch_row(twin_name):
    """Every column of a batch that the cleaner of Kafka 2.8.2 wrote."""
    _, _, batches = walk_with(twin_name, bytes.fromhex(COMPACTED_V2))
    assert batches.row(0) == {
        "position": 0,
        "size_bytes": 175,
        "format": 2,
        "attributes": 0x10,
        "codec": 0,
        "base_offset": 70,
        "last_offset": 81,
        "record_count": 1,
        "leader_epoch": 0,
        "base_timestamp_ms": 1795228671354,
        "max_timestamp_ms": 1795228671354,
        "producer_id": 0,
        "producer_epoch": 0,
        "base_sequence": 19,
        "crc_stored": 0xC401A881,
        "crc_computed": 0xC401A881,
        "payload_start": 61,
        "payload_end": 175,
    }


def test_golden_messages_of_07(twin_name):
    data = bytes.fromhex(PLAIN_V07)
    stop, end, batches = walk_with(twin_name, data, is_v07=True, previous=1000)
    assert (stop, end) == (kernels.STOP_END, len(data))
    assert batches.column("base_offset").tolist() == [1000, 1010]
    assert batches.column("last_offset").tolist() == [1010, 1019]
    assert batches.column("attributes").tolist() == [0, -1]
    calls, result = decode_all(twin_name, data, batches)
    assert result == kernels.DECODE_DONE
    assert calls == [
        [
            Row(batch=0, offset=1000, timestamp_ms=-1, key=None, value=b"", next_offset=1010),
            Row(batch=1, offset=1010, timestamp_ms=-1, key=None, value=b"", next_offset=1019),
        ]
    ]


@GOLDEN_LOGS
def test_a_log_without_its_last_byte(twin_name, text, expected):
    data = bytes.fromhex(text)
    whole = walked(data)
    stop, end, batches = walk_with(twin_name, data[:-1])
    assert stop == kernels.STOP_MORE
    assert batches.count == whole.count - 1
    assert end == whole.column("position")[-1]


@pytest.mark.parametrize("text", [PLAIN_V0, PLAIN_V1, PLAIN_V2, MARKER_V2, COMPACTED_V2])
def test_a_payload_without_its_last_byte(twin_name, text):
    data = bytes.fromhex(text)
    batches = walked(data)
    batches.column("payload_end")[-1] -= 1
    outcome = decode_once(twin_name, data[:-1], batches)
    assert outcome.result in kernels.DECODE_ERRORS
    assert outcome.counts[0] < max(batches.count, batches.column("record_count")[-1])


def test_a_flipped_byte_is_seen_by_the_checksum(twin_name):
    data = bytearray.fromhex(PLAIN_V2)
    data[-1] ^= 1
    stop, end, batches = walk_with(twin_name, data)
    assert (stop, end, batches.count) == (kernels.STOP_CHECKSUM, 0, 0)
    batches.count = 1
    assert batches.column("crc_stored")[0] != batches.column("crc_computed")[0]


# --- why a walk stops -------------------------------------------------------------------------------------------------
def edited(data: bytes, position: int, layout: str, value: int) -> bytes:
    """The bytes with one field changed."""
    out = bytearray(data)
    struct.pack_into(layout, out, position, value)
    return bytes(out)


@pytest.mark.parametrize(
    ("position", "layout", "value", "stop"),
    [
        (8, ">i", 13, kernels.STOP_LENGTH),
        (8, ">i", 48, kernels.STOP_LENGTH),  # too short for magic 2
        (8, ">i", -1, kernels.STOP_LENGTH),
        (8, ">i", -(2**31), kernels.STOP_LENGTH),
        (8, ">i", LIMIT_BYTES - 11, kernels.STOP_LIMIT),
        (8, ">i", LIMIT_BYTES - 12, kernels.STOP_MORE),
        (8, ">i", 2**31 - 1, kernels.STOP_LIMIT),
        (16, ">B", 3, kernels.STOP_MAGIC),
        (16, ">B", 255, kernels.STOP_MAGIC),
    ],
)
def test_a_header_that_stops_the_walk(twin_name, position, layout, value, stop):
    data = edited(bytes.fromhex(PLAIN_V2), position, layout, value)
    assert walk_with(twin_name, data)[:2] == (stop, 0)


@pytest.mark.parametrize("size", [13, 0, -1])
def test_an_envelope_too_small_for_any_message(twin_name, size):
    data = edited(bytes.fromhex(PLAIN_V0), 8, ">i", size)
    assert walk_with(twin_name, data)[:2] == (kernels.STOP_LENGTH, 0)


@pytest.mark.parametrize(
    ("position", "layout", "value", "stop"),
    [
        (0, ">i", 4, kernels.STOP_LENGTH),
        (0, ">i", 5, kernels.STOP_LENGTH),  # right for magic 0 alone
        (0, ">i", -1, kernels.STOP_LENGTH),
        (0, ">i", LIMIT_BYTES - 3, kernels.STOP_LIMIT),
        (0, ">i", LIMIT_BYTES - 4, kernels.STOP_MORE),
        (4, ">B", 2, kernels.STOP_MAGIC),
        (6, ">I", 1, kernels.STOP_CHECKSUM),
    ],
)
def test_a_header_of_07_that_stops_the_walk(twin_name, position, layout, value, stop):
    data = edited(bytes.fromhex(PLAIN_V07), position, layout, value)
    assert walk_with(twin_name, data, is_v07=True, previous=0)[:2] == (stop, 0)


def test_offsets_that_go_back(twin_name):
    data = batch_v2([Record(offset=7)]) + batch_v2([Record(offset=7)])
    stop, end, batches = walk_with(twin_name, data)
    assert (stop, end, batches.count) == (kernels.STOP_ORDER, len(data), 2)
    assert walk_with(twin_name, data, previous=7)[0] == kernels.STOP_ORDER


def test_a_walk_of_nothing(twin_name):
    for data in (b"", bytes.fromhex(PLAIN_V2)):
        for walk in (twin(twin_name).walk, twin(twin_name).walk_v07):
            batches = BatchColumns(1)
            batches.count = 1
            assert walk(data, len(data), len(data), 0, -1, LIMIT_BYTES, True, batches) == (kernels.STOP_END, len(data))
            assert batches.count == 0


def test_full_columns_end_a_walk(twin_name):
    data = bytes.fromhex(PLAIN_V0)
    batches = BatchColumns(3)
    assert twin(twin_name).walk(data, 0, len(data), 0, -1, LIMIT_BYTES, True, batches) == (kernels.STOP_END, 78)
    assert batches.column("base_offset").tolist() == [1, 2, 4]


# --- 64 bits ----------------------------------------------------------------------------------------------------------
def test_offsets_and_timestamps_wrap_as_in_java(twin_name):
    records = [Record(offset=MAX_INT64 + delta, timestamp_ms=MAX_INT64 + delta) for delta in (0, 1, 5)]
    data = batch_v2(
        records, last_offset=MAX_INT64, base_offset=MAX_INT64, base_timestamp_ms=MAX_INT64, max_timestamp_ms=0
    )
    calls, result = decode_all(twin_name, data, walked(data))
    assert result == kernels.DECODE_DONE
    assert [row.offset for row in calls[0]] == [MAX_INT64, -(2**63), 4 - 2**63]
    assert [row.timestamp_ms for row in calls[0]] == [MAX_INT64, -(2**63), 4 - 2**63]
    assert [row.next_offset for row in calls[0]] == [-(2**63), 1 - 2**63, 5 - 2**63]


def test_addresses_of_07_wrap_in_both_twins(twin_name):
    """A file name may hold any number below 2^63."""
    _, _, batches = walk_with(twin_name, bytes.fromhex(PLAIN_V07), is_v07=True, previous=MAX_INT64 - 10)
    assert batches.column("base_offset").tolist() == [MAX_INT64 - 10, MAX_INT64]
    assert batches.column("last_offset").tolist() == [MAX_INT64, -(2**63) + 8]


@pytest.mark.parametrize("delta", [2**31 - 1, -(2**31), -1])
def test_last_offset_wraps_as_in_java(twin_name, delta):
    for base in (MAX_INT64, -(2**63), 0):
        data = edited(batch_v2([], base_offset=base), 23, ">i", delta)
        batches = BatchColumns(1)
        twin(twin_name).walk(data, 0, len(data), 0, -(2**63), LIMIT_BYTES, False, batches)
        batches.count = 1
        assert batches.column("last_offset")[0] == (base + delta + 2**63) % 2**64 - 2**63


# --- capacity ---------------------------------------------------------------------------------------------------------
def mixed_log() -> bytes:
    """All formats that can follow each other in a log, stretches of one and of several entries."""
    runs = [Record(offset=20 + k, key=b"k%d" % k, headers=((b"h", b"%d" % k),) * (k % 4)) for k in range(7)]
    return (
        message_v0(Record(offset=1, value=b"a"))
        + message_v0(Record(offset=2, value=b"b"))
        + message_v1(Record(offset=3, timestamp_ms=5, value=b"c"))
        + batch_v2(runs)
        + batch_v2([], base_offset=30)
        + batch_v2([Record(offset=31, headers=((b"x", None),))])
        + message_v1(Record(offset=32, timestamp_ms=6, key=b"d"))
        + batch_v2([Record(offset=33)])
    )


@pytest.mark.parametrize("capacity", [1, 2, 3, 4])
def test_small_columns_hold_the_same_records(twin_name, capacity):
    data = mixed_log()
    batches = walked(data)
    (whole,), result = decode_all(twin_name, data, batches)
    assert result == kernels.DECODE_DONE
    assert [row.offset for row in whole] == [1, 2, 3, *range(20, 27), 31, 32, 33]
    calls, result = decode_all(twin_name, data, batches, capacity=capacity)
    assert result == kernels.DECODE_DONE
    assert [row for call in calls for row in call] == whole
    assert max(map(len, calls)) <= capacity


def test_headers_that_need_more_room(twin_name):
    few, many = ((b"a", b"1"),), tuple((b"h%d" % k, None) for k in range(5))
    data = batch_v2([Record(offset=0, headers=few), Record(offset=1, headers=many), Record(offset=2, headers=few)])
    batches, records, state = walked(data), RecordColumns(2), state_at(0)
    decode = twin(twin_name).decode
    assert decode(data, batches, 1, state, records) == kernels.DECODE_FULL
    assert (records.count, records.headers.count) == (1, 1)
    before = state[1:4]
    assert decode(data, batches, 1, state, records) == kernels.DECODE_GROW
    assert (records.count, records.headers.count) == (0, 5)
    assert state[1:4] == before
    records.grow_headers(5)
    assert decode(data, batches, 1, state, records) == kernels.DECODE_FULL
    assert (records.count, records.headers.count) == (1, 5)
    assert decode(data, batches, 1, state, records) == kernels.DECODE_DONE
    assert records.column("offset").tolist() == [2]


def test_a_header_count_that_the_bytes_cannot_hold_asks_for_no_room(twin_name):
    """Of a billion headers, none is there: an error, and no call for larger columns."""
    body = bytes.fromhex("0000000101") + bytes.fromhex("fe ff ff ff 07")
    data = batch_v2(payload=bytes([2 * len(body)]) + body, records_count=1)
    calls, result = decode_all(twin_name, data, walked(data))
    assert (calls, kernels.DECODE_ERRORS[result]) == ([[]], "record-headers")


# --- how much of the buffer one call spans ----------------------------------------------------------------------------
MIB = 1 << 20


@pytest.mark.parametrize("kind", ["v2", "v2-single", "v1", "v07"])
def test_one_call_spans_four_mebibytes(twin_name, kind):
    sizes = [MIB * 3 // 2, MIB * 3 // 2, MIB, MIB // 4, 5 * MIB, 10, 10, 4 * MIB]
    records = [Record(offset=k, timestamp_ms=0, value=bytes(size)) for k, size in enumerate(sizes)]
    if kind == "v2":
        data = batch_v2(records)
    elif kind == "v2-single":
        data = b"".join(batch_v2([record]) for record in records)
    elif kind == "v1":
        data = b"".join(message_v1(record) for record in records)
    else:
        data = b"".join(message_v07(record.value or b"") for record in records)
    batches = walked(data, check=False, is_v07=kind == "v07")
    calls, result = decode_all(twin_name, data, batches)
    assert result == kernels.DECODE_DONE
    values = [[len(row.value or b"") for row in call] for call in calls]
    assert values == [sizes[:2], sizes[2:4], sizes[4:5], sizes[5:7], sizes[7:]]


@pytest.mark.parametrize("over", [0, 1])
def test_exactly_four_mebibytes_are_one_call(twin_name, over):
    empty = len(record_v2(Record(value=bytes(2 * MIB)), base_offset=0, base_timestamp_ms=0)) - 2 * MIB
    sizes = [2 * MIB - empty, 2 * MIB - empty + over]
    data = batch_v2([Record(offset=k, value=bytes(size)) for k, size in enumerate(sizes)], base_timestamp_ms=0)
    assert [len(call) for call in decode_all(twin_name, data, walked(data))[0]] == ([1, 1] if over else [2])
    data = b"".join(message_v0(Record(offset=k, value=bytes(2 * MIB - 26 + over * k))) for k in range(2))
    assert [len(call) for call in decode_all(twin_name, data, walked(data))[0]] == ([1, 1] if over else [2])
    data = b"".join(message_v07(bytes(2 * MIB - 10 + over * k)) for k in range(2))
    batches = walked(data, is_v07=True)
    assert [len(call) for call in decode_all(twin_name, data, batches)[0]] == ([1, 1] if over else [2])


# --- records that cannot be read --------------------------------------------------------------------------------------
def v2_error(name: str, payload: bytes, count: int = 1) -> tuple[str, int]:
    """Word of the error, and records before it."""
    data = batch_v2(payload=payload, records_count=count)
    outcome = decode_once(name, data, walked(data))
    return kernels.DECODE_ERRORS.get(outcome.result, str(outcome.result)), outcome.counts[0]


GOOD = record_v2(Record(key=b"k", value=b"v", headers=((b"h", b"x"),)), base_offset=0, base_timestamp_ms=0)


@pytest.mark.parametrize(
    ("payload", "count", "word", "before"),
    [
        (GOOD, 1, "0", 1),
        (GOOD + GOOD, 2, "0", 2),
        (b"", 0, "0", 0),
        (GOOD, -1, "record-count", 0),
        (GOOD + GOOD, 1, "record-count", 1),
        (GOOD, 2, "record-varint", 1),
        (GOOD + b"\x80", 2, "record-varint", 1),
        (GOOD + b"\x01", 2, "record-length", 1),  # -1
        (GOOD + b"\x02", 2, "record-length", 1),  # 1 of 0 bytes
        (GOOD + b"\x00", 2, "record-trailing", 1),
        (bytes.fromhex("0200"), 1, "record-varint", 0),
        (bytes.fromhex("0c 00 00 00 04 01 00"), 1, "record-value", 0),  # nothing behind the key
        (bytes.fromhex("08 00 00 00 06"), 1, "record-key", 0),
        (bytes.fromhex("0c 00 00 00 01 06 00"), 1, "record-value", 0),
        (bytes.fromhex("0a 00 00 00 01 01"), 1, "record-headers", 0),  # no header count
        (bytes.fromhex("0c 00 00 00 01 01 01"), 1, "record-headers", 0),  # -1 headers
        (bytes.fromhex("0e 00 00 00 01 01 02 01"), 1, "record-headers", 0),  # a key of -1 bytes
        (bytes.fromhex("10 00 00 00 01 01 02 00 04"), 1, "record-headers", 0),  # a value of 2 bytes
        (bytes.fromhex("0e 00 00 00 01 01 00 00"), 1, "record-trailing", 0),
        (bytes.fromhex("12 00 00 00 01 01 02 00 01 00"), 1, "record-trailing", 0),  # behind the last header
    ],
)
def test_errors_of_magic_2(twin_name, payload, count, word, before):
    assert v2_error(twin_name, payload, count) == (word, before)


def inner_set(
    name: str, inner: bytes, *, batch_format: int, codec: int = 1, last_offset: int = 9
) -> tuple[str, list[Row]]:
    """What a wrapper of that format decodes to, whose inflated set is `inner`."""
    batches = BatchColumns(1)
    batches.count = 1
    fields = {
        "format": batch_format,
        "attributes": codec,
        "codec": codec,
        "last_offset": last_offset,
        "record_count": -1,
    }
    for field, value in {**fields, "payload_start": 0, "payload_end": len(inner)}.items():
        batches.column(field)[0] = value
    calls, result = decode_all(name, inner, batches)
    return kernels.DECODE_ERRORS.get(result, ""), [row for call in calls for row in call]


V1 = message_v1(Record(offset=0, timestamp_ms=3, key=b"k", value=b"v"))
V0 = message_v0(Record(offset=0, key=b"k", value=b"v"))


@pytest.mark.parametrize(
    ("inner", "word", "before"),
    [
        (V1, "", 1),
        (V1 + V0, "", 2),
        (b"", "message-empty", 0),
        (V1 + V1[:16], "message-cut", 1),
        (V1 + V1[:-1], "message-cut", 1),
        (V1 + edited(V1, 8, ">i", 13), "message-length", 1),
        (V1 + edited(V1, 8, ">i", -1), "message-length", 1),
        (V1 + edited(V1, 16, ">B", 2), "message-magic", 1),
        (V1 + edited(V1, 17, ">B", 1), "message-nested", 1),
        (V1 + edited(V1, 26, ">i", 10), "message-key", 1),
        (V1 + edited(V1, 26, ">i", 4), "message-value", 1),
        (V1 + edited(V1, 31, ">i", 2), "message-value", 1),
        (message_v1(Record(offset=10)), "message-offset", 0),
    ],
)
def test_errors_of_wrappers(twin_name, inner, word, before):
    found, rows = inner_set(twin_name, inner, batch_format=1)
    assert (found, len(rows)) == (word, before)


@pytest.mark.parametrize(
    ("batch_format", "last_offset", "stored", "absolute"),
    [
        (1, 9, (0, 1, 4), (5, 6, 9)),  # relative, one compacted away
        (1, 0, (0, 1, 2), (0, 1, 2)),  # librdkafka's wrapper of offset 0
        (0, 9, (7, 8, 9), (7, 8, 9)),  # absolute
        (0, 9, (17, 18, 19), (17, 18, 19)),
        (1, 9, (7, 8, 9), (7, 8, 9)),
    ],
)
def test_inner_offsets(twin_name, batch_format, last_offset, stored, absolute):
    build = message_v1 if batch_format else message_v0
    inner = b"".join(build(Record(offset=offset)) for offset in stored)
    word, rows = inner_set(twin_name, inner, batch_format=batch_format, last_offset=last_offset)
    assert (word, tuple(row.offset for row in rows)) == ("", absolute)


def test_append_time_of_a_wrapper_is_that_of_all_its_messages(twin_name):
    inner = V1 + V1
    word, rows = inner_set(twin_name, inner, batch_format=1, codec=1 | 8)
    assert (word, [row.timestamp_ms for row in rows]) == ("", [0, 0])  # the wrapper's
    word, rows = inner_set(twin_name, inner, batch_format=1)
    assert (word, [row.timestamp_ms for row in rows]) == ("", [3, 3])


@pytest.mark.parametrize(
    ("inner", "word", "before"),
    [
        (message_v07(b"a") + message_v07(b"", magic=0), "", 2),
        (b"", "", 0),  # a reader passes an empty set
        (message_v07(b"a") + bytes(4), "message-cut", 1),
        (message_v07(b"a") + message_v07(b"ab")[:-1], "message-cut", 1),
        (edited(message_v07(b"a"), 0, ">i", 5), "message-length", 0),
        (edited(message_v07(b"a"), 0, ">i", -1), "message-length", 0),
        (edited(message_v07(b"a"), 4, ">B", 2), "message-magic", 0),
    ],
)
def test_errors_of_sets_of_07(twin_name, inner, word, before):
    found, rows = inner_set(twin_name, inner, batch_format=FORMAT_V07)
    assert (found, len(rows)) == (word, before)


def test_a_checksum_inside_a_set_of_07_is_told_and_stops_nothing(twin_name):
    data = message_v07(b"a") + message_v07(b"b", crc=1)
    batches, records = walked(data, check=False, is_v07=True), RecordColumns(4)
    assert twin(twin_name).decode(data, batches, 2, state_at(0), records) == kernels.DECODE_DONE
    assert records.column("crc_ok").tolist() == [1, 0]
