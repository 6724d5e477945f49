"""What tests of the sentences about brokers do with a real one: records, committed offsets, lines of its log."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.integration import clients
from tests.support.asking import SocketClient

if TYPE_CHECKING:
    from tests.integration.broker import Broker

__all__ = ["SECONDS", "TOPIC", "commit", "committed", "produce", "until"]

TOPIC: Final = "orders"
SECONDS: Final = 60
LOADING: Final = {14}
"""COORDINATOR_LOAD_IN_PROGRESS."""


async def until(broker: Broker, text: str) -> None:
    """Wait for a line of the broker's log."""
    async with asyncio.timeout(SECONDS):
        while text not in broker.output:  # noqa: ASYNC110 - a file gives no event
            await asyncio.sleep(0.1)


async def produce(broker: Broker, topic: str, *values: bytes) -> None:
    """A batch for each value."""
    async with clients.producer_of(broker) as producer:
        for value in values:
            await producer.send_and_wait(topic, value, partition=0)


def committed(broker: Broker, group: str) -> tuple[int, int]:
    """The error and the offset that the coordinator of a group answers; -1: the group has no offset."""
    with SocketClient(broker.bootstrap) as client:
        asked = [{"name": TOPIC, "partition_indexes": [0]}]
        deadline = time.monotonic() + SECONDS
        while True:
            answer = client.ask("OffsetFetch", 5, group_id=group, topics=asked)
            (partition,) = answer["topics"][0]["partitions"] if answer["topics"] else ({"committed_offset": -1},)
            if answer["error_code"] not in LOADING or time.monotonic() > deadline:
                return answer["error_code"], partition["committed_offset"]
            time.sleep(0.2)


async def commit(broker: Broker, group: str, offset: int) -> None:
    """Commit an offset without a membership."""
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False)
    await consumer.start()
    consumer.assign([TopicPartition(TOPIC, 0)])
    await consumer.commit({TopicPartition(TOPIC, 0): offset})
    await consumer.stop()
