"""The codec: values and back for every message and version, damage, and bytes that real brokers wrote."""

from __future__ import annotations

import random
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.errors import ProtocolError
from kafkalog_core.wire.codec import ElementLimitError, codec
from kafkalog_core.wire.schemas import schema_of
from tests.support.build import unsigned_varint
from tests.support.messages import all_versions, complete, message

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSIONS = list(all_versions())
PARTITION: dict[str, Any] = {
    "partition_index": 0,
    "error_code": 0,
    "high_watermark": 5,
    "aborted_transactions": None,
    "records": b"",
}


def joined(pieces: Iterable[Any]) -> bytes:
    return b"".join(map(bytes, pieces))


@pytest.mark.parametrize("name", sorted({name for name, _ in VERSIONS}))
def test_every_version_of_a_message_comes_back(name: str) -> None:
    dice = random.Random(name)
    for version in (version for other, version in VERSIONS if other == name):
        fields, one = schema_of(name, version).fields, codec(name, version)
        for _ in range(2):
            value = message(fields, version, dice)
            data = joined(one.encode(value))
            assert one.decode_whole(data) == complete(fields, version, value), version
            for end in dice.sample(range(len(data)), min(len(data), 5)):
                with pytest.raises(ProtocolError):
                    one.decode_whole(data[:end])
            with pytest.raises(ProtocolError):
                one.decode_whole(data + b"\x00")


@settings(max_examples=300)
@given(st.sampled_from(VERSIONS), st.randoms(use_true_random=False))
def test_any_bytes_give_a_message_or_our_error(which: tuple[str, int], dice: random.Random) -> None:
    name, version = which
    one = codec(name, version)
    data = bytearray(joined(one.encode(message(schema_of(name, version).fields, version, dice))))
    for _ in range(dice.choice((1, 1, 2, 5))):
        if data:
            data[dice.randrange(len(data))] = dice.randrange(256)
    if dice.random() < 0.3:
        del data[dice.randrange(len(data) + 1) :]
    try:
        value = one.decode_whole(bytes(data))
    except ProtocolError:
        return
    assert one.decode_whole(joined(one.encode(value))) == value


@pytest.mark.parametrize(
    ("name", "version", "data"),
    [
        ("MetadataRequest", 1, b"\x7f\xff\xff\xff"),
        ("MetadataRequest", 9, b"\xff\xff\xff\xff\x0f"),
        ("FetchRequest", 4, bytes(4) + bytes(8) + bytes(5) + b"\x7f\xff\xff\xff" + bytes(100)),
        ("ApiVersionsRequest", 3, b"\xff\xff\xff\xff\x0f" + bytes(100)),
        ("ProduceRequest", 3, b"\xff\xff" + bytes(6) + b"\x00\x00\x00\x01" + b"\x7f\xff" + bytes(100)),
    ],
)
def test_a_huge_length_is_refused_before_anything_is_allocated(name: str, version: int, data: bytes) -> None:
    one = codec(name, version)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="bytes are left"):
            one.decode(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "version", "data"),
    [
        ("MetadataRequest", 1, (2_000_000).to_bytes(4, "big") + bytes(4_000_000)),
        (
            "FetchRequest",
            4,
            bytes(17) + (4).to_bytes(4, "big") + 4 * (bytes(2) + (300_000).to_bytes(4, "big") + bytes(4_800_000)),
        ),
        ("ApiVersionsRequest", 3, b"\x02a\x02b" + b"\x91\x4e" + b"\x7f\x00" * 10_001),
        ("DeleteTopicsRequest", 0, (1_000_001).to_bytes(4, "big") + bytes(3_000_000)),
    ],
)
def test_more_elements_than_a_reader_takes_are_refused(name: str, version: int, data: bytes) -> None:
    """The readers of Kafka 4.2.2 and 4.4.0 refuse 1,000,001 elements, and 10,001 tagged fields; here of all arrays."""
    with pytest.raises(ElementLimitError, match="elements, and at most"):
        codec(name, version).decode(data)


def test_the_elements_of_all_arrays_are_counted() -> None:
    partitions = [{"partition": at, "fetch_offset": 0, "partition_max_bytes": 1} for at in range(9)]
    topics = [{"topic": "t", "partitions": partitions}] * 10
    body = {"replica_id": -1, "max_wait_ms": 1, "min_bytes": 1, "topics": topics}
    data = joined(codec("FetchRequest", 3).encode(body))
    assert len(codec("FetchRequest", 3).decode(data, max_elements=100)[0]["topics"]) == 10
    with pytest.raises(ElementLimitError):
        codec("FetchRequest", 3).decode(data, max_elements=99)


def test_a_string_has_at_most_32767_bytes_in_flexible_versions_too() -> None:
    """`MessageDataGenerator`: the readers of Kafka refuse a longer one, and no older version could answer with it."""
    one = codec("DeleteGroupsRequest", 2)
    for size in (32_767, 32_768):
        data = b"\x02" + unsigned_varint(size + 1) + b"g" * size + b"\0"
        if size == 32_767:
            assert one.decode_whole(data) == {"groups_names": ["g" * size]}
        else:
            with pytest.raises(ProtocolError, match="length 32768"):
                one.decode(data)


@pytest.mark.parametrize("data", [b"\x80" * 5 + b"\x01", b"\xff\xff\xff\xff\x1f"])
def test_a_varint_has_at_most_32_bits(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="varint"):
        codec("MetadataRequest", 9).decode(data)


def test_records_are_a_view_of_the_request() -> None:
    one = codec("ProduceRequest", 9)
    partition = {"index": 0, "records": b"x" * 100_000}
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 1}
    data = joined(one.encode({**body, "topic_data": [{"name": "t", "partition_data": [partition]}]}))
    records = one.decode_whole(data)["topic_data"][0]["partition_data"][0]["records"]
    assert isinstance(records, memoryview)
    assert records.obj is data


class Range:
    """What has a length and no bytes, as a range of a file."""

    def __len__(self) -> int:
        return 1 << 30


def test_a_range_of_a_file_takes_the_place_of_records() -> None:
    place = Range()
    partition = {**PARTITION, "records": place}
    pieces = codec("FetchResponse", 12).encode({"responses": [{"topic": "t", "partitions": [partition]}]})
    assert [piece for piece in pieces if piece is place] == [place]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"error_code": 1 << 15}, "error"),
        ({"high_watermark": None}, "error"),
        ({"records": "text"}, "partition_index"),
    ],
)
def test_a_value_that_a_message_cannot_hold(change: dict[str, Any], problem: str) -> None:
    partition = PARTITION | change
    if problem == "partition_index":
        del partition["partition_index"]
    with pytest.raises(ProtocolError, match="FetchResponse version 12 cannot be encoded"):
        codec("FetchResponse", 12).encode({"responses": [{"topic": "t", "partitions": [partition]}]})


def test_a_version_without_a_field_refuses_its_value_unless_it_may_be_ignored() -> None:
    body = {"replica_id": -1, "max_wait_ms": 1, "min_bytes": 1, "topics": []}
    codec("FetchRequest", 3).encode({**body, "forgotten_topics_data": [], "rack_id": "ignored"})
    with pytest.raises(ProtocolError, match="the version has no forgotten_topics_data"):
        codec("FetchRequest", 3).encode({**body, "forgotten_topics_data": [{"topic": "t", "partitions": [1]}]})


@pytest.mark.parametrize(("name", "version"), [("NoMessage", 0), ("FetchRequest", 19), ("FetchRequest", -1)])
def test_a_message_or_a_version_that_does_not_exist(name: str, version: int) -> None:
    with pytest.raises(ProtocolError, match=name):
        codec(name, version)
