"""What a real broker deletes, or truncates, is whole in what was frozen before, and is served record for record."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.integration import clients
from tests.integration.records import Record, of_consumer
from tests.integration.repairing import run
from tests.support import serving

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.broker import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow]

COUNT = 300
DELETE_DELAY = {"file.delete.delay.ms": "3000"}
WAIT_SECONDS = 60


async def _write(broker: Broker, topic: str) -> list[Record]:
    configs = {broker.segment_bytes: broker.roll_bytes, **DELETE_DELAY}
    await clients.create_topic(broker, topic, configs)
    async with clients.producer_of(broker) as producer:
        await clients.send(producer, random.Random(topic), topic, COUNT)
    return await clients.read_all(broker, topic)


async def _delete_by_retention(broker: Broker, topic: str) -> None:
    async with clients.admin_of(broker) as admin:
        changes = {"retention.bytes": "10000", broker.segment_bytes: broker.roll_bytes, **DELETE_DELAY}
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=changes)])


def served(directory: Path, topic: str) -> list[Record]:
    """What a real client reads from what was frozen."""
    with serving.serving(directory) as dead:
        return asyncio.run(_read(serving.address(dead), topic))


async def _read(address: str, topic: str) -> list[Record]:
    place, records = TopicPartition(topic, 0), []
    consumer = AIOKafkaConsumer(bootstrap_servers=address, enable_auto_commit=False, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([place])
        end = (await consumer.end_offsets([place]))[place]
        await consumer.seek_to_beginning(place)
        while await consumer.position(place) < end:
            for each in (await consumer.getmany(place, timeout_ms=500)).values():
                records += map(of_consumer, each)
    finally:
        await consumer.stop()
    return records


def _wait_until(is_so: object) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    assert callable(is_so)
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_deleted_topic_is_served_after_the_broker_has_deleted_its_files(broker: Broker, tmp_path: Path) -> None:
    topic, to = "deleted-by-mistake", broker.work_dir / "frozen"
    records = asyncio.run(_write(broker, topic))
    assert len(records) == COUNT
    asyncio.run(clients.delete_topic(broker, topic))
    done = run("freeze", broker.log_dir, "--topic", topic, "--to", to)
    assert done.status == 0, (done.rows, done.errors)
    (row,) = (row for row in done.rows if row["type"] == "frozen")
    assert (row["copies"], row["topic"]) == (0, topic)
    _wait_until(lambda: not list(broker.log_dir.glob(f"{topic}-0*")))  # file.delete.delay.ms later
    assert served(to, topic) == records
    assert run("verify", to).status == 0


def test_the_broker_deletes_a_symbolic_link_and_not_the_file(broker: Broker, tmp_path: Path) -> None:
    topic = "moved-away"
    asyncio.run(_write(broker, topic))
    log = min(broker.partition_dir(topic).glob("*.log"))
    content = log.read_bytes()
    shutil.move(log, tmp_path / "moved")
    log.symlink_to(tmp_path / "moved")
    asyncio.run(clients.delete_topic(broker, topic))
    done = run("freeze", broker.log_dir, "--topic", topic, "--to", broker.work_dir / "frozen-link")
    assert done.status == 4
    assert [row["code"] for row in done.rows if row["type"] == "finding"] == ["freeze.symbolic-link"]
    _wait_until(lambda: not list(broker.log_dir.glob(f"{topic}-0*")))
    assert (tmp_path / "moved").read_bytes() == content


def test_what_retention_deletes_is_frozen_next_to_the_live_broker(broker: Broker) -> None:
    topic, to = "retained", broker.work_dir / "frozen-segments"
    records = asyncio.run(_write(broker, topic))
    directory = broker.partition_dir(topic)
    asyncio.run(_delete_by_retention(broker, topic))
    _wait_until(lambda: list(directory.glob("*.log.deleted")))
    done = run("freeze", directory, "--to", to)
    assert done.status == 0, (done.rows, done.errors)
    _wait_until(lambda: not list(directory.glob("*.deleted")))
    left = asyncio.run(clients.read_all(broker, topic))
    frozen = served(to, topic)
    assert 0 < len(left) < COUNT
    assert [*frozen, *left] == records


def test_a_recovery_that_truncates_the_log_leaves_the_frozen_one_whole(own_broker: Broker) -> None:
    topic, to = "truncated", own_broker.work_dir / "frozen"
    records = asyncio.run(_write(own_broker, topic))
    own_broker.kill()
    log = max(own_broker.partition_dir(topic).glob("*.log"))
    done = run("freeze", own_broker.partition_dir(topic), "--all", "--to", to)
    assert done.status == 0, (done.rows, done.errors)
    frozen = {path.name: path.read_bytes() for path in (to / f"{topic}-0").glob("*.log")}
    assert not (to / f"{topic}-0" / log.name).samefile(log)
    with log.open("r+b") as file:  # a bad checksum: the recovery truncates the log from here on
        file.seek(17)
        byte = file.read(1)
        file.seek(17)
        file.write(bytes([byte[0] ^ 1]))
    own_broker.start()
    assert len(asyncio.run(clients.read_all(own_broker, topic))) < COUNT
    assert {path.name: path.read_bytes() for path in (to / f"{topic}-0").glob("*.log")} == frozen
    assert served(to, topic) == records


def test_a_log_that_a_live_broker_appends_to_is_frozen_up_to_a_whole_batch(own_broker: Broker) -> None:
    topic = "growing"
    asyncio.run(_write(own_broker, topic))

    async def freeze_while_writing() -> list[int]:
        statuses = []
        async with clients.producer_of(own_broker) as producer:
            for number in range(4):
                writing = asyncio.create_task(clients.send(producer, random.Random(number), topic, 2000))
                command = ("freeze", own_broker.log_dir, "--all", "--to", own_broker.work_dir / f"frozen-{number}")
                statuses.append((await asyncio.to_thread(run, *command)).status)
                await writing
        return statuses

    assert asyncio.run(freeze_while_writing()) == [0, 0, 0, 0]
    everything = asyncio.run(clients.read_all(own_broker, topic))
    for number in range(4):
        to = own_broker.work_dir / f"frozen-{number}"
        found = served(to, topic)
        assert len(found) >= COUNT
        assert found == everything[: len(found)]
        assert os.path.isdir(to / "__cluster_metadata-0")
