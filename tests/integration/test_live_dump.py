"""Dumps of a log directory that a broker writes to: whole batches only, and nothing of it is damage."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from tests.integration import clients
from tests.integration.records import Dump, Row, dump

if TYPE_CHECKING:
    from tests.integration.broker import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow]

DUMPS = 10
OF_A_LIVE_BROKER = {"file.grew", "file.modified", "file.vanished"}


def _assert_no_damage(result: Dump) -> None:
    """Zeros behind the last batch are how preallocated segments look; a batch may be on its way into a file."""
    damage = {(row["reason"], row["severity"]) for row in result.of_type("damage")}
    assert damage <= {("zero-filled", "info"), ("torn-tail", "info")}
    assert [row for row in result.of_type("finding") if row["severity"] != "info"] == []
    assert result.exit_status == 0


def _assert_whole_batches(batches: list[Row]) -> None:
    """Each behind the other, in bytes and in offsets."""
    by_file: dict[object, list[Row]] = defaultdict(list)
    next_offset = 0
    for batch in batches:
        by_file[batch["segment"]].append(batch)
        assert batch["crc_ok"]
        assert batch["base_offset"] == next_offset
        next_offset = int(str(batch["last_offset"])) + 1
    for rows in by_file.values():
        ends = [int(str(row["position"])) + int(str(row["size_bytes"])) for row in rows]
        assert [row["position"] for row in rows] == [0, *ends[:-1]]


@pytest.mark.parametrize("value_bytes", [100, 900_000])
def test_dumps_while_batches_are_written(broker: Broker, value_bytes: int) -> None:
    async def write(topic: str, stop: asyncio.Event) -> int:
        generator = random.Random(topic)
        written = 0
        async with clients.producer_of(broker, max_request_size=1_000_000, linger_ms=0) as producer:
            while not stop.is_set():
                await producer.send_and_wait(topic, generator.randbytes(value_bytes), partition=0)
                written += 1
                await asyncio.sleep(0.01)
        return written

    async def run() -> None:
        topic = f"live-{value_bytes}"
        await clients.create_topic(broker, topic, {"internal.segment.bytes": str(20 * value_bytes)})
        stop = asyncio.Event()
        writing = asyncio.create_task(write(topic, stop))
        try:
            counts = []
            for _ in range(DUMPS):
                result = await asyncio.to_thread(dump, "--batches", broker.log_dir)
                _assert_no_damage(result)
                assert result.codes() <= OF_A_LIVE_BROKER
                batches = [row for row in result.of_type("batch") if row["topic"] == topic]
                _assert_whole_batches(batches)
                counts.append(len(batches))
        finally:
            stop.set()
            written = await writing
        assert counts == sorted(counts)
        assert counts[0] < counts[-1] <= written

    asyncio.run(run())


@pytest.mark.parametrize("level", ["--records", "--segments", "--stats"])
def test_every_file_of_a_live_log_directory(broker: Broker, level: str) -> None:
    """Those of the broker's own topics, of its cluster metadata and of its checkpoints too."""

    async def run() -> None:
        for preallocate in ("false", "true"):
            topic = f"beside{level}-{preallocate}"
            await clients.create_topic(broker, topic, {"internal.segment.bytes": "6000", "preallocate": preallocate})
            await clients.send_everything(broker, random.Random(topic), topic, 40)

    asyncio.run(run())
    result = dump(level, "--files", broker.log_dir)
    _assert_no_damage(result)
