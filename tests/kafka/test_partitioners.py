"""Partitions of names and keys: values that real brokers and clients gave."""

from __future__ import annotations

from typing import Final

import pytest

from kafkalog_core.kafka.rules.partitioners import PARTITIONERS, java_hash, murmur2, partition_of_name

KEYS: Final = (b"", b"a", b"customer-17", "Grüße".encode(), "\U0001f600".encode(), b"polygenelubricants", b"\xff\0\xfe")


def test_groups_and_transactions_are_where_a_real_broker_put_them() -> None:
    names = ("g1", "g2", "tx1", "tx2", "polygenelubricants")
    assert [partition_of_name(name, 50) for name in names] == [42, 43, 45, 46, 0]


def test_the_hash_is_over_utf_16() -> None:
    # two surrogates, of which Java hashes each
    assert java_hash("\U0001f600") == 31 * 0xD83D + 0xDE00
    assert java_hash("polygenelubricants") == -(1 << 31)


@pytest.mark.parametrize(
    ("key", "expected"),
    [  # UtilsTest.testMurmur2 of Kafka
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_the_java_client(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


@pytest.mark.parametrize(
    ("partitioner", "expected"),
    [("crc32", [0, 3, 3, 1, 0, 1, 0]), ("murmur2", [1, 0, 0, 3, 1, 2, 0])],
)
def test_keys_are_where_librdkafka_put_them(partitioner: str, expected: list[int]) -> None:
    # librdkafka 2.16.1 with its mock cluster, partitioner consistent and murmur2, 4 partitions
    assert [PARTITIONERS[partitioner](key, 4)[1] for key in KEYS] == expected


@pytest.mark.live
@pytest.mark.parametrize(("name", "partitioner"), [("consistent", "crc32"), ("murmur2", "murmur2")])
def test_keys_are_where_librdkafka_puts_them(name: str, partitioner: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    keys = [*KEYS, *(number.to_bytes(1 + number % 9, "little") for number in range(200))]
    found: list[tuple[bytes, int]] = []
    settings = {"test.mock.num.brokers": 1, "partitioner": name, "bootstrap.servers": "", "log_level": 3}
    producer = confluent_kafka.Producer(settings)
    for key in keys:
        producer.produce(
            "t", key=key, on_delivery=lambda _, message: found.append((message.key(), message.partition()))
        )
    assert producer.flush(30) == 0
    assert {(key or b"", partition) for key, partition in found} == {
        (key, PARTITIONERS[partitioner](key, 4)[1]) for key in keys
    }


def test_the_scala_producer_hashed_the_text() -> None:
    hashed, partition = PARTITIONERS["java-hashcode"](b"polygenelubricants", 7)
    assert (hashed, partition) == (-(1 << 31), 0)
