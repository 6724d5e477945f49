"""A verify of everything next to a live broker: what the broker serves from memory is kept there."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.integration import clients
from tests.integration.records import KAFKALOG
from tests.support.cached import MIB, absent, difference, evict

if TYPE_CHECKING:
    from tests.integration.broker import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow]
TOPIC = "cached"
VALUE_BYTES = 100_000
COUNT = 600


async def _write(broker: Broker) -> None:
    await clients.create_topic(broker, TOPIC, {"internal.segment.bytes": str(4 * MIB)})
    async with clients.producer_of(broker, max_request_size=1_000_000) as producer:
        for number in range(COUNT):
            await producer.send(TOPIC, bytes([number % 256]) * VALUE_BYTES, partition=0)
        await producer.flush()


def _bytes_read(pid: int) -> int:
    """What a process has read from disks."""
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(fields["read_bytes"])


def test_a_verify_leaves_the_tail_in_memory(broker: Broker) -> None:
    asyncio.run(_write(broker))
    asyncio.run(_read_last(broker, 10))  # it has loaded what it needs for that
    *sealed, active = sorted(broker.partition_dir(TOPIC).glob("*.log"))
    for path in sealed:
        evict(path)
    assert active.read_bytes()
    before = {path: absent(path) for path in (*sealed, active)}
    assert before[active] == []
    assert sum(path.stat().st_size for path in sealed) > 10 * active.stat().st_size
    subprocess.run([*KAFKALOG, "verify", str(broker.log_dir)], capture_output=True, check=False)
    assert absent(active) == []
    assert sum(difference(before[path], absent(path)) for path in sealed) == 0
    read_before = _bytes_read(broker.pid)
    last = asyncio.run(_read_last(broker, 10))
    assert [value[0] for value in last] == [number % 256 for number in range(COUNT - 10, COUNT)]
    assert _bytes_read(broker.pid) == read_before


async def _read_last(broker: Broker, count: int) -> list[bytes]:
    """The values of the last records of the topic."""
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap)
    await consumer.start()
    try:
        place = TopicPartition(TOPIC, 0)
        consumer.assign([place])
        consumer.seek(place, COUNT - count)
        return [(await consumer.getone()).value for _ in range(count)]
    finally:
        await consumer.stop()
