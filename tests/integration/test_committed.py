"""`--committed` against a real read_committed consumer."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from tests.integration import clients
from tests.integration.records import Record, dump

if TYPE_CHECKING:
    from tests.integration.broker import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow]


async def _write_and_read(broker: Broker, topic: str) -> list[Record]:
    """Transactions of both ends, one that stays open, and records behind it; what a read_committed consumer gets."""
    generator = random.Random(topic)
    await clients.create_topic(broker, topic, {"internal.segment.bytes": "5000"})
    async with clients.producer_of(broker, transactional_id=topic) as producer:
        kept = 0
        for is_committed in (True, False, True, True, False):
            await producer.begin_transaction()
            await clients.send(producer, generator, topic, 25)
            await (producer.commit_transaction() if is_committed else producer.abort_transaction())
            kept += 25 if is_committed else 0
            async with clients.producer_of(broker) as plain:
                await clients.send(plain, generator, topic, 10)
            kept += 10
    await clients.send_transactions(broker, generator, topic, 20)
    kept += 2 * 40 + 2 * 20  # of each four, two were committed: two batches of the one, one of the other
    await asyncio.to_thread(clients.abandon_transaction, broker, topic, 3)
    async with clients.producer_of(broker) as plain:
        await clients.send(plain, generator, topic, 10)
    return await clients.read(broker, topic, kept, committed=True)


def test_committed_is_what_a_read_committed_consumer_gets(broker: Broker) -> None:
    topic = "committed"
    consumed = asyncio.run(_write_and_read(broker, topic))
    result = dump("--records", "--committed", broker.partition_dir(topic))
    assert result.records() == consumed
    assert result.codes() == {"txn.open"}
    everything = dump("--records", broker.partition_dir(topic)).records()
    open_offsets = [record.offset for record in everything if record.value == clients.NEVER_COMMITTED]
    assert [row["offset"] for row in result.of_type("finding")] == open_offsets[:1]
    assert result.exit_status == 0


def test_up_to_the_high_watermark_after_a_clean_stop(own_broker: Broker) -> None:
    topic = "stopped"
    consumed = asyncio.run(_write_and_read(own_broker, topic))
    ends = asyncio.run(clients.end_offsets(own_broker, topic))
    own_broker.stop()
    checkpoint = (own_broker.log_dir / "replication-offset-checkpoint").read_text().splitlines()
    assert f"{topic} 0 {ends[0]}" in checkpoint
    result = dump("--records", "--committed=high-watermark", own_broker.partition_dir(topic))
    assert result.records() == consumed
    assert result.exit_status == 0
    assert len(dump("--batches", own_broker.log_dir).of_type("damage")) == 0
