"""A broker that is killed: its log directory as it lies there, and again after its recovery."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from tests.integration import clients
from tests.integration.records import Dump, Record, dump

if TYPE_CHECKING:
    from tests.integration.broker import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPICS = {"plain": "false", "preallocated": "true"}
COUNT = 60


async def _write(broker: Broker) -> dict[str, list[Record]]:
    consumed = {}
    for topic, preallocate in TOPICS.items():
        await clients.create_topic(broker, topic, {"internal.segment.bytes": "6000", "preallocate": preallocate})
        written = await clients.send_everything(broker, random.Random(topic), topic, COUNT)
        consumed[topic] = await clients.read(broker, topic, written)
    return consumed


def _by_topic(broker: Broker) -> dict[str, list[Record]]:
    return {topic: dump("--records", broker.partition_dir(topic)).records() for topic in TOPICS}


def _dump_all(broker: Broker) -> Dump:
    result = dump("--records", "--files", broker.log_dir)
    assert {row["severity"] for row in result.of_type("damage") + result.of_type("finding")} <= {"info"}
    assert {row["reason"] for row in result.of_type("damage")} <= {"zero-filled"}
    assert result.exit_status == 0
    return result


def test_records_of_a_killed_broker_and_after_its_recovery(own_broker: Broker) -> None:
    consumed = asyncio.run(_write(own_broker))
    own_broker.kill()
    active_index = max(own_broker.partition_dir("plain").glob("*.index"))
    assert active_index.stat().st_size > 1_000_000, "the active segment's index is not preallocated"
    killed = _dump_all(own_broker)
    assert "dir.unclean" in killed.codes()
    zeros = [row for row in killed.of_type("damage") if row["topic"] == "preallocated"]
    assert zeros, "no zeros behind the last batch of a preallocated segment"
    assert _by_topic(own_broker) == consumed

    own_broker.start()
    recovered = asyncio.run(_read_again(own_broker, consumed))
    assert recovered == consumed
    own_broker.stop()
    stopped = _dump_all(own_broker)
    assert stopped.of_type("damage") == []
    assert "dir.unclean" not in stopped.codes()
    assert _by_topic(own_broker) == consumed


async def _read_again(broker: Broker, consumed: dict[str, list[Record]]) -> dict[str, list[Record]]:
    return {topic: await clients.read(broker, topic, len(records)) for topic, records in consumed.items()}
