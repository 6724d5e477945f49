"""Real clients: topics are made, records of many kinds written, and what consumers of both kinds get is read."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.errors import NodeNotReadyError

from tests.integration.records import Record, of_consumer

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Mapping
    from typing import Any

    from tests.integration.broker import Broker

CODECS: Final = (None, "gzip", "snappy", "lz4", "zstd")
NEVER_COMMITTED: Final = b"never committed"
READ_SECONDS: Final = 30
_CONTROLLERS: Final = {1}  # the one broker's number
_START_MS: Final = 1_760_000_000_000


@asynccontextmanager
async def admin_of(broker: Broker) -> AsyncIterator[AIOKafkaAdminClient]:
    """An administration client, once there is a controller that it could talk to."""
    client = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await client.start()
    try:
        deadline = time.monotonic() + READ_SECONDS
        while not await _has_controller(client):
            assert time.monotonic() < deadline, "no controller"
            await asyncio.sleep(0.1)
        yield client
    finally:
        await client.close()


async def _has_controller(client: AIOKafkaAdminClient) -> bool:
    with suppress(NodeNotReadyError):
        return (await client.describe_cluster())["controller_id"] in _CONTROLLERS
    return False


async def create_topic(broker: Broker, name: str, configs: Mapping[str, str], partitions: int = 1) -> None:
    """Make a topic and wait for its directories."""
    async with admin_of(broker) as admin:
        await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=dict(configs))])
    deadline = time.monotonic() + READ_SECONDS
    while not all(broker.partition_dir(name, number).is_dir() for number in range(partitions)):
        assert time.monotonic() < deadline, f"no directory of {name}"
        await asyncio.sleep(0.05)


async def delete_topic(broker: Broker, name: str) -> None:
    """Delete a topic of one partition and wait until its directory has another name."""
    async with admin_of(broker) as admin:
        await admin.delete_topics([name])
    while broker.partition_dir(name).is_dir():  # noqa: ASYNC110 - a directory gives no event
        await asyncio.sleep(0.05)


async def delete_records(broker: Broker, topic: str, before_offset: int) -> None:
    """Move the log start offset of partition 0; the broker deletes the segments before it."""
    async with admin_of(broker) as admin:
        await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=before_offset)})


@asynccontextmanager
async def producer_of(broker: Broker, **options: Any) -> AsyncIterator[AIOKafkaProducer]:
    """A producer."""
    settings = {"linger_ms": 5, "acks": "all", "max_batch_size": 2000} | options
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, **settings)
    try:
        await producer.start()
        yield producer
    finally:
        await producer.stop()


async def send(
    producer: AIOKafkaProducer, generator: random.Random, topic: str, count: int, partitions: int = 1
) -> None:
    """Records with and without keys, values and headers, in batches as the producer makes them."""
    sent = []
    for number in range(count):
        key = None if number % 7 == 0 else generator.randbytes(generator.randrange(12))
        value = None if number % 7 == 1 else generator.randbytes(generator.randrange(60)) * generator.randrange(1, 5)
        headers = [(f"h{index}", generator.randbytes(index)) for index in range(number % 3)]
        if number % 11 == 0:
            headers.append(("é", b""))
        sent.append(
            await producer.send(
                topic,
                value,
                key=key,
                partition=number % partitions,
                timestamp_ms=_START_MS + generator.randrange(10_000),
                headers=headers,
            )
        )
    await asyncio.gather(*sent)


async def send_everything(broker: Broker, generator: random.Random, topic: str, count: int, partitions: int = 1) -> int:
    """Each codec, an idempotent producer, and transactions of both ends; how many records that was."""
    written = 0
    for codec in CODECS:
        async with producer_of(broker, compression_type=codec) as producer:
            await send(producer, generator, topic, count, partitions)
            written += count
    async with producer_of(broker, enable_idempotence=True) as producer:
        await send(producer, generator, topic, count, partitions)
        written += count
    return written + await send_transactions(broker, generator, topic, count // 4, partitions)


async def send_transactions(
    broker: Broker, generator: random.Random, topic: str, count: int, partitions: int = 1
) -> int:
    """Two transactional producers whose batches stand between each other's; every second transaction is aborted."""
    written = 0
    async with (
        producer_of(broker, transactional_id=f"{topic}-1", compression_type="lz4") as first,
        producer_of(broker, transactional_id=f"{topic}-2") as second,
    ):
        for number in range(4):
            await first.begin_transaction()
            await second.begin_transaction()
            for producer in (first, second, first):
                await send(producer, generator, topic, count, partitions)
                written += count
            await (first.commit_transaction() if number % 2 else first.abort_transaction())
            await (second.commit_transaction() if number < 2 else second.abort_transaction())
    return written


async def settle_transactions(broker: Broker, topic: str) -> None:
    """Wait until the ends of transactions are in the logs of data and of the coordinator: their producers come back.

    A broker that is killed before writes the last markers once more at its next start.
    """
    for number in (1, 2):
        async with producer_of(broker, transactional_id=f"{topic}-{number}"):
            pass


async def read(broker: Broker, topic: str, count: int, partitions: int = 1, *, committed: bool = False) -> list[Record]:
    """The `count` records that a consumer gets, by partition and offset; more than that is a failure."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed" if committed else "read_uncommitted",
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        records: list[Record] = []
        deadline = time.monotonic() + READ_SECONDS
        while len(records) < count and time.monotonic() < deadline:
            records += await _poll(consumer, 500)
        records += await _poll(consumer, 300)
    finally:
        await consumer.stop()
    assert len(records) == count
    return sorted(records, key=lambda record: record[:2])


async def read_all(broker: Broker, topic: str, *, committed: bool = False) -> list[Record]:
    """All records of partition 0 that a consumer gets, from the log's start to its end."""
    place = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed" if committed else "read_uncommitted",
    )
    await consumer.start()
    try:
        consumer.assign([place])
        end_offset = (await consumer.end_offsets([place]))[place]
        records: list[Record] = []
        deadline = time.monotonic() + READ_SECONDS
        while await consumer.position(place) < end_offset:
            assert time.monotonic() < deadline, f"{topic}: no more after {len(records)} records, of {end_offset}"
            records += await _poll(consumer, 200)
    finally:
        await consumer.stop()
    return records


async def end_offsets(broker: Broker, topic: str, partitions: int = 1) -> dict[int, int]:
    """The offset behind the last record of each partition, control records included."""
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        found = await consumer.end_offsets([TopicPartition(topic, number) for number in range(partitions)])
    finally:
        await consumer.stop()
    return {place.partition: offset for place, offset in found.items()}


async def _poll(consumer: AIOKafkaConsumer, timeout_ms: int) -> list[Record]:
    polled = await consumer.getmany(timeout_ms=timeout_ms)
    return [of_consumer(record) for records in polled.values() for record in records]


def abandon_transaction(broker: Broker, topic: str, count: int) -> None:
    """A client that dies with a transaction open."""
    command = [sys.executable, "-m", "tests.integration.clients", broker.bootstrap, topic, str(count)]
    subprocess.run(command, check=True, timeout=READ_SECONDS)


async def _abandon(bootstrap: str, topic: str, count: int) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=f"{topic}-abandoned", transaction_timeout_ms=600_000
    )
    await producer.start()
    await producer.begin_transaction()
    for number in range(count):
        await producer.send_and_wait(topic, NEVER_COMMITTED, key=b"%d" % number, partition=0)
    os._exit(0)  # without a stop, which would end the transaction


if __name__ == "__main__":
    asyncio.run(_abandon(sys.argv[1], sys.argv[2], int(sys.argv[3])))
