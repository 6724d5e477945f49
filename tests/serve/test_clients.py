"""Real clients read the demo's disk from the broker: what its brokers' own consumers would have got.

The truth is what the demo's records say about themselves, and what the real broker's consumer committed.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import TopicAuthorizationFailedError

from kafkalog_core.kafka.sim.group_states import read_groups
from kafkalog_core.serve.logs.partition_view import ViewOptions
from tests.support.log_dirs import tree_hash
from tests.support.serving import address, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.serve.server import ReadOnlyBroker

confluent = pytest.importorskip("confluent_kafka")
pytest.importorskip("confluent_kafka.admin")

pytestmark = pytest.mark.live
kafka = pytest.importorskip("kafka")

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
COUNTS = {("customers", 0): 30, ("orders", 0): 92, ("orders", 1): 108}
BILLING = read_groups(map(str, (FIXTURES / "demo").glob("__consumer_offsets-*")))[0].offsets.offsets["billing"]
PAYMENTS = {
    "read_uncommitted": [*range(5), *range(6, 11), *range(12, 17), 18, 19],
    "read_committed": [*range(5), *range(12, 17)],
}
"""The producer committed five records, aborted five, committed five, and left a transaction open (make_demo)."""


@pytest.fixture(scope="module")
def broker() -> Iterator[ReadOnlyBroker]:
    with serving(FIXTURES / "demo") as running:
        yield running


# --- librdkafka -------------------------------------------------------------------------------------------------------
def librdkafka(broker: ReadOnlyBroker, **options: Any) -> Any:
    given = {"bootstrap.servers": address(broker), "group.id": "test", "enable.partition.eof": True} | {
        name.replace("_", "."): value for name, value in options.items()
    }
    return confluent.Consumer(given | {"enable.auto.commit": False})


def read_all(consumer: Any, topic: str, partition: int, offset: int = 0) -> list[Any]:
    """All messages of a partition from an offset on."""
    consumer.assign([confluent.TopicPartition(topic, partition, offset)])
    found = []
    while True:
        message = consumer.poll(20)
        assert message is not None, "nothing for 20 s"
        if message.error() is None:
            found.append(message)
        elif message.error().code() == confluent.KafkaError._PARTITION_EOF:
            return found
        else:
            raise AssertionError(message.error())


def test_librdkafka_lists_the_topics(broker: ReadOnlyBroker) -> None:
    admin = confluent.admin.AdminClient({"bootstrap.servers": address(broker)})
    found = admin.list_topics(timeout=20)
    counts = {name: len(topic.partitions) for name, topic in found.topics.items() if not name.startswith("__")}
    assert counts == {"customers": 1, "orders": 2, "payments": 1}
    assert found.cluster_id == "ZGVtby1rYWZrYWxvZy0wMQ"


@pytest.mark.parametrize(("topic", "partition"), COUNTS)
def test_librdkafka_reads_every_record(broker: ReadOnlyBroker, topic: str, partition: int) -> None:
    consumer = librdkafka(broker)
    found = read_all(consumer, topic, partition)
    consumer.close()
    assert [message.offset() for message in found] == list(range(COUNTS[topic, partition]))


@pytest.mark.parametrize("isolation", PAYMENTS)
def test_librdkafka_reads_what_was_committed(broker: ReadOnlyBroker, isolation: str) -> None:
    consumer = librdkafka(broker, isolation_level=isolation)
    found = [message.offset() for message in read_all(consumer, "payments", 0)]
    consumer.close()
    assert found == PAYMENTS[isolation]


def test_librdkafka_starts_in_the_middle_and_at_a_time(broker: ReadOnlyBroker) -> None:
    consumer = librdkafka(broker)
    assert [each.offset() for each in read_all(consumer, "orders", 0, 60)] == list(range(60, 92))
    (found,) = consumer.offsets_for_times([confluent.TopicPartition("customers", 0, 1760000000010)], timeout=20)
    assert found.offset == 10
    assert consumer.get_watermark_offsets(confluent.TopicPartition("orders", 1), timeout=20) == (0, 108)
    consumer.close()


def test_librdkafka_finds_what_a_group_committed_on_the_live_cluster(broker: ReadOnlyBroker) -> None:
    consumer = librdkafka(broker, group_id="billing")
    asked = [confluent.TopicPartition("orders", number) for number in (0, 1)]
    assert [each.offset for each in consumer.committed(asked, timeout=20)] == [17, 23]
    consumer.close()


def test_librdkafka_reads_the_disk_as_it_stood_at_a_time() -> None:
    (time_ms,) = {each.commit_timestamp_ms for each in BILLING.values()}
    with serving(FIXTURES / "demo", view=ViewOptions(until_ms=1760000000009)) as then:
        consumer = librdkafka(then, group_id="billing")
        customers, orders = confluent.TopicPartition("customers", 0), confluent.TopicPartition("orders", 0)
        assert [each.offset() for each in read_all(consumer, "customers", 0)] == list(range(10))
        assert consumer.get_watermark_offsets(customers, timeout=20) == (0, 10)
        assert [each.offset for each in consumer.committed([orders], timeout=20)] == [-1001], "none yet"
        consumer.close()
    with serving(FIXTURES / "demo", view=ViewOptions(until_ms=time_ms + 1000)) as later:
        consumer = librdkafka(later, group_id="billing")
        assert [each.offset for each in consumer.committed([orders], timeout=20)] == [17]
        assert len(read_all(consumer, "customers", 0)) == 30
        consumer.close()


def test_librdkafka_reads_with_a_group_and_commits_to_memory(broker: ReadOnlyBroker) -> None:
    offsets: dict[int, list[int]] = {0: [], 1: []}
    consumer = librdkafka(broker, group_id="again", auto_offset_reset="earliest")
    consumer.subscribe(["orders"])
    ended: set[int] = set()
    while len(ended) < len(offsets):
        message = consumer.poll(20)
        assert message is not None
        if message.error() is None:
            offsets[message.partition()].append(message.offset())
        else:
            ended.add(message.partition())
    consumer.commit(asynchronous=False)
    consumer.close()
    assert offsets == {0: list(range(92)), 1: list(range(108))}
    later = librdkafka(broker, group_id="again")
    asked = [confluent.TopicPartition("orders", number) for number in (0, 1)]
    assert [each.offset for each in later.committed(asked, timeout=20)] == [92, 108]
    later.close()


def test_librdkafka_is_refused_at_once_when_it_produces(broker: ReadOnlyBroker) -> None:
    errors = []
    producer = confluent.Producer({"bootstrap.servers": address(broker)})
    producer.produce("orders", b"v", partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    assert [error.code() for error in errors] == [confluent.KafkaError.TOPIC_AUTHORIZATION_FAILED]


# --- aiokafka ---------------------------------------------------------------------------------------------------------
async def aio_read(broker: ReadOnlyBroker, topic: str, partition: int, **options: Any) -> list[int]:
    consumer = AIOKafkaConsumer(bootstrap_servers=address(broker), enable_auto_commit=False, **options)
    await consumer.start()
    try:
        place = TopicPartition(topic, partition)
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        offsets: list[int] = []
        for _ in range(40):
            batch = await consumer.getmany(timeout_ms=500)
            offsets += [record.offset for records in batch.values() for record in records]
            end = consumer.last_stable_offset(place) if "isolation_level" in options else consumer.highwater(place)
            if end is not None and await consumer.position(place) >= end:
                break
        return offsets
    finally:
        await consumer.stop()


@pytest.mark.parametrize(("topic", "partition"), COUNTS)
def test_aiokafka_reads_every_record(broker: ReadOnlyBroker, topic: str, partition: int) -> None:
    assert asyncio.run(aio_read(broker, topic, partition)) == list(range(COUNTS[topic, partition]))


def test_aiokafka_reads_what_was_committed(broker: ReadOnlyBroker) -> None:
    found = asyncio.run(aio_read(broker, "payments", 0, isolation_level="read_committed"))
    assert found == PAYMENTS["read_committed"]


def test_aiokafka_shares_a_topic_in_a_group(broker: ReadOnlyBroker) -> None:
    """Two members, one leaves: the other gets what it had."""

    async def run() -> list[set[int]]:
        options: dict[str, Any] = {"group_id": "two", "heartbeat_interval_ms": 200, "session_timeout_ms": 6000}
        members = [AIOKafkaConsumer("orders", bootstrap_servers=address(broker), **options) for _ in range(2)]
        await asyncio.gather(*(member.start() for member in members))
        try:
            shares = await settled(lambda: [parts(member) for member in members], [{0}, {1}])
            await members[0].stop()
            return [*shares, (await settled(lambda: [parts(members[1])], [{0, 1}]))[0]]
        finally:
            await members[1].stop()

    def parts(member: AIOKafkaConsumer) -> set[int]:
        return {each.partition for each in member.assignment()}

    async def settled(look: Callable[[], list[set[int]]], wanted: list[set[int]]) -> list[set[int]]:
        for _ in range(150):
            if sorted(map(sorted, look())) == sorted(map(sorted, wanted)):
                break
            await asyncio.sleep(0.1)
        return look()

    shares = asyncio.run(run())
    assert sorted(map(sorted, shares[:2])) == [[0], [1]]
    assert shares[2] == {0, 1}


def test_aiokafka_is_refused_when_it_produces(broker: ReadOnlyBroker) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=address(broker))
        await producer.start()
        try:
            await producer.send_and_wait("orders", b"v", partition=0)
        finally:
            await producer.stop()

    with pytest.raises(TopicAuthorizationFailedError):
        asyncio.run(run())


# --- kafka-python -----------------------------------------------------------------------------------------------------
def python_read(broker: ReadOnlyBroker, topic: str, partition: int, count: int, **options: Any) -> list[int]:
    """The offsets that a consumer gets: it waits for that many, and a moment for more."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=address(broker), enable_auto_commit=False, **options)
    place = kafka.TopicPartition(topic, partition)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    offsets: list[int] = []
    for _ in range(40):
        is_last = len(offsets) >= count
        batch = consumer.poll(timeout_ms=300 if is_last else 500)
        offsets += [record.offset for records in batch.values() for record in records]
        if is_last:
            break
    consumer.close()
    return offsets


@pytest.mark.parametrize(("topic", "partition"), COUNTS)
def test_kafka_python_reads_every_record(broker: ReadOnlyBroker, topic: str, partition: int) -> None:
    count = COUNTS[topic, partition]
    assert python_read(broker, topic, partition, count) == list(range(count))


def test_kafka_python_reads_what_was_committed(broker: ReadOnlyBroker) -> None:
    wanted = PAYMENTS["read_committed"]
    assert python_read(broker, "payments", 0, len(wanted), isolation_level="read_committed") == wanted


def test_kafka_python_lists_and_describes(broker: ReadOnlyBroker) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=address(broker))
    assert consumer.topics() >= {"customers", "orders", "payments"}
    found = consumer.offsets_for_times({kafka.TopicPartition("customers", 0): 1760000000010})
    assert [each.offset for each in found.values()] == [10]
    assert consumer.end_offsets([kafka.TopicPartition("orders", 1)]) == {kafka.TopicPartition("orders", 1): 108}
    consumer.close()


# --- the disk ---------------------------------------------------------------------------------------------------------
def test_nothing_on_the_disk_changes(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    shutil.copytree(FIXTURES / "demo", disk)
    before = tree_hash(disk)
    with serving(disk) as broker:
        consumer = librdkafka(broker, group_id="billing")
        read_all(consumer, "orders", 0)
        consumer.commit(offsets=[confluent.TopicPartition("orders", 0, 50)], asynchronous=False)
        consumer.close()
    assert tree_hash(disk) == before
