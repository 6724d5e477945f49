"""`dump --follow` next to a broker at work: every record once, in order, over rolls, and no damage but real damage."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.integration import clients
from tests.integration.follower import Follower
from tests.integration.records import dump

if TYPE_CHECKING:
    from tests.integration.broker import Broker
    from tests.integration.records import Dump, Record, Row

pytestmark = [pytest.mark.java, pytest.mark.slow]

PARTITIONS = 2


def _by_partition(records: list[Record]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        found[record.partition].append(record)
    return found


def _assert_each_offset_once(result: Dump, end_offsets: dict[int, int]) -> None:
    """Data and control records together leave no hole and come in order."""
    for partition, end in end_offsets.items():
        offsets = [row["offset"] for row in result.of_type("record") if row["partition"] == partition]
        assert offsets == list(range(end))


def _assert_clean(result: Dump) -> None:
    assert {row["severity"] for row in result.of_type("damage")} <= {"info"}  # preallocated zeros
    assert result.of_type("finding") == []
    assert result.exit_status == 0
    assert result.rows[-1]["type"] == "summary"
    assert result.rows[-1]["rows"] == len(result.rows) - 1


@pytest.mark.parametrize("preallocate", ["false", "true"])
@pytest.mark.parametrize("poll_ms", ["10", "200"])
def test_each_record_once_and_in_order_over_rolls(broker: Broker, poll_ms: str, preallocate: str) -> None:
    async def run() -> None:
        topic = f"followed-{poll_ms}-{preallocate}"
        generator = random.Random(topic)
        configs = {"internal.segment.bytes": "6000", "preallocate": preallocate}
        await clients.create_topic(broker, topic, configs, PARTITIONS)
        with Follower("--records", "--poll-ms", poll_ms, "--topic", topic, broker.log_dir) as follower:
            written = await clients.send_everything(broker, generator, topic, 120, PARTITIONS)
            ends = await clients.end_offsets(broker, topic, PARTITIONS)
            await asyncio.to_thread(follower.wait_for_offsets, ends)
            result = follower.stop()
        consumed = await clients.read(broker, topic, written, PARTITIONS)
        assert len(list(broker.partition_dir(topic).glob("*.log"))) > 3
        _assert_clean(result)
        _assert_each_offset_once(result, ends)
        assert _by_partition(result.records()) == _by_partition(consumed)

    asyncio.run(run())


@pytest.mark.parametrize("preallocate", ["false", "true"])
def test_half_written_batches_are_held_back(broker: Broker, preallocate: str) -> None:
    """Batches of a megabyte, which a reader that looks every 10 ms sees before they are whole."""

    async def run() -> None:
        topic = f"large-{preallocate}"
        generator = random.Random(topic)
        configs = {"segment.bytes": "3000000", "max.message.bytes": "1100000", "preallocate": preallocate}
        await clients.create_topic(broker, topic, configs)
        with Follower("--batches", "--poll-ms", "10", broker.partition_dir(topic)) as follower:
            async with clients.producer_of(broker, max_request_size=1_100_000, linger_ms=0) as producer:
                for _ in range(60):
                    await producer.send_and_wait(topic, generator.randbytes(1_000_000), partition=0)
            await asyncio.to_thread(follower.wait_for, lambda rows: len(rows) >= 60)
            result = follower.stop()
        _assert_clean(result)
        assert [row["base_offset"] for row in result.of_type("batch")] == list(range(60))

    asyncio.run(run())


def test_goes_on_where_segments_behind_it_are_deleted(broker: Broker) -> None:
    async def run() -> None:
        topic = "retained"
        configs = {"internal.segment.bytes": "4000", "file.delete.delay.ms": "100"}
        await clients.create_topic(broker, topic, configs)
        directory = broker.partition_dir(topic)
        with Follower("--records", "--poll-ms", "20", directory) as follower:
            for _ in range(4):
                await _write(broker, topic, 150)
                ends = await clients.end_offsets(broker, topic)
                await asyncio.to_thread(follower.wait_for_offsets, ends)
                oldest = min(directory.glob("*.log"))
                await clients.delete_records(broker, topic, ends[0])
                while oldest.exists():  # noqa: ASYNC110 - a file gives no event
                    await asyncio.sleep(0.05)
            result = follower.stop()
        _assert_clean(result)
        _assert_each_offset_once(result, ends)

    asyncio.run(run())


def test_goes_on_where_compaction_replaces_the_segments(broker: Broker) -> None:
    """What the last look has not seen may lie in a file that was rewritten, or was put into the one before it."""

    async def run() -> None:
        topic = "compacted"
        configs = {
            "internal.segment.bytes": "3000",
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.001",
            "file.delete.delay.ms": "100",
        }
        await clients.create_topic(broker, topic, configs)
        directory = broker.partition_dir(topic)
        with Follower("--records", "--poll-ms", "2000", directory) as follower:
            async with clients.producer_of(broker, linger_ms=0) as producer:
                for number in range(400):
                    await producer.send_and_wait(topic, b"%d" % number, key=b"%d" % (number % 7), partition=0)
                    await asyncio.sleep(0.01)
            ends = await clients.end_offsets(broker, topic)
            await asyncio.to_thread(follower.wait_for_offsets, ends)
            result = follower.stop()
        _assert_clean(result)
        offsets = [record.offset for record in result.records()]
        assert offsets == sorted(set(offsets)), "a record was seen twice"
        kept = dump("--records", directory).records()
        assert set(kept) <= set(result.records()), "a record that compaction has kept was not seen"
        assert len(kept) < len(offsets), "nothing was compacted"

    asyncio.run(run())


async def _write(broker: Broker, topic: str, count: int) -> None:
    async with clients.producer_of(broker) as producer:
        await clients.send(producer, random.Random(count), topic, count)


def _are_there(count: int, rows: list[Row]) -> bool:
    return sum(row["type"] == "record" for row in rows) >= count


def test_a_topic_that_is_made_again_is_read_from_its_start(broker: Broker) -> None:
    async def run() -> None:
        topic = "recreated"
        await clients.create_topic(broker, topic, {})
        with Follower("--records", "--poll-ms", "20", broker.partition_dir(topic)) as follower:
            await _write(broker, topic, 30)
            await asyncio.to_thread(follower.wait_for, partial(_are_there, 30))
            await clients.delete_topic(broker, topic)
            await asyncio.sleep(0.2)  # a few looks at nothing
            await clients.create_topic(broker, topic, {})
            await _write(broker, topic, 20)
            await asyncio.to_thread(follower.wait_for, partial(_are_there, 50))
            result = follower.stop()
        assert [record.offset for record in result.records()] == [*range(30), *range(20)]
        assert result.codes() == {"file.replaced"}
        assert result.exit_status == 0

    asyncio.run(run())
