"""A broker that dies of a full disk, and does not start on it; after a repair at 0 bytes free it serves the rest."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.integration import clients
from tests.integration.broker import Broker
from tests.integration.repairing import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPIC = "filling"
SIZE = "32m"
SEGMENT_BYTES = 500_000
KEPT_BYTES = 1_000_000
VALUE = bytes(100_000)
COUNT = 60
COMMITTED = 30
WAIT_SECONDS = 150


@pytest.fixture
def on_tmpfs(libs: Path, tmp_path: Path) -> Iterator[Broker]:
    """A broker that does not run yet, its log directory on a file system of its own."""
    place = tmp_path / "log-dir"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no tmpfs can be mounted here, which takes root")
    broker = Broker(libs, tmp_path)
    try:
        yield broker
    finally:
        broker.close()
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def full(on_tmpfs: Broker) -> Broker:
    """A broker that died while it wrote, its log directory on a file system with 0 bytes free."""
    broker = on_tmpfs
    broker.start()
    asyncio.run(_write(broker, COUNT))
    asyncio.run(_commit(broker))
    broker.stop()
    broker.start()
    _fill(broker.log_dir)
    asyncio.run(_until_dead(broker))
    assert not broker.is_running
    _fill(broker.log_dir)
    return broker


def _fill(place: Path) -> None:
    number = os.open(place / "filler", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with suppress(OSError):
        while True:
            os.write(number, bytes(4096))
    os.close(number)
    assert os.statvfs(place).f_bfree == 0


async def _write(broker: Broker, count: int) -> None:
    configs = {broker.segment_bytes: str(SEGMENT_BYTES), "index.interval.bytes": "4096"}
    await clients.create_topic(broker, TOPIC, configs)
    async with clients.producer_of(broker, acks="all", max_request_size=2_000_000) as producer:
        for number in range(count):
            await producer.send_and_wait(TOPIC, VALUE + b"%d" % number)


async def _commit(broker: Broker) -> None:
    """A group that has read a half of the records."""
    place = TopicPartition(TOPIC, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="slow-group", enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign([place])
        await consumer.commit({place: COMMITTED})
    finally:
        await consumer.stop()


async def _until_dead(broker: Broker) -> None:
    """Send until the broker has ended."""
    deadline = time.monotonic() + WAIT_SECONDS
    with suppress(Exception):
        async with clients.producer_of(broker, acks="all", max_request_size=2_000_000) as producer:
            while broker.is_running and time.monotonic() < deadline:
                with suppress(Exception):
                    await asyncio.wait_for(producer.send_and_wait(TOPIC, VALUE), 2)


@pytest.mark.parametrize("way", ["--undo-to", "--no-undo"])
def test_a_broker_starts_again_on_the_disk_that_was_full(full: Broker, tmp_path: Path, way: str) -> None:
    with pytest.raises(AssertionError, match="the broker did not start"):
        full.start()
    _fill(full.log_dir)
    settings = ("cleanup.policy=delete", f"retention.bytes={KEPT_BYTES}")
    options = [each for setting in settings for each in ("--topic-config", f"{TOPIC}:{setting}")]
    command = ("retain", full.partition_dir(TOPIC), "--config", full.config, "--kafka", full.release, *options)
    refused = run(*command, "--apply")
    assert refused.status == 3
    assert "--undo-to DIR" in refused.errors
    assert "--no-undo" in refused.errors
    where = (way, tmp_path / "not" / "there") if way == "--undo-to" else (way,)
    done = run(*command, *where, "--apply")
    assert done.status == 0, (done.rows, done.errors)
    bases = sorted(int(path.stem) for path in full.partition_dir(TOPIC).glob("*.log"))
    assert 0 < bases[0] < COUNT
    _start_and_read(full, bases[0])


def _settings(full: Broker) -> tuple[str | Path, ...]:
    """What the metadata log of a broker that died while it wrote may not have."""
    return "--config", full.config, "--kafka", full.release, "--topic-config", f"{TOPIC}:cleanup.policy=delete"


def _trim_indexes(log_dir: Path) -> None:
    """Remove the preallocated space of the indexes, so that a plan needs more than that."""
    for path in (*log_dir.glob("*/*.index"), *log_dir.glob("*/*.timeindex")):
        path.write_bytes(path.read_bytes().rstrip(b"\0"))


def _start_and_read(full: Broker, first: int) -> None:
    """The broker starts, and a consumer gets every record that was acknowledged, from an offset on."""
    full.start()
    records = asyncio.run(clients.read_all(full, TOPIC))
    offsets = [record.offset for record in records]
    assert offsets[0] == first
    assert set(range(first, COUNT)) <= set(offsets)


@pytest.mark.parametrize(
    ("way", "step"),
    [
        (("--topic-config", f"{TOPIC}:retention.bytes={KEPT_BYTES}"), "3. What retention"),
        (("--topic", TOPIC), "5. The oldest"),
    ],
    ids=["retention", "oldest"],
)
def test_free_gives_the_broker_the_space_that_it_needs(full: Broker, way: tuple[str, ...], step: str) -> None:
    with pytest.raises(AssertionError, match="the broker did not start"):
        full.start()
    _trim_indexes(full.log_dir)
    _fill(full.log_dir)
    need = (8 if "--topic" in way else 4) * SEGMENT_BYTES  # more than the group has read
    command = ("free", full.log_dir, "--need", str(need), *_settings(full), *way)
    planned = run(*command, "--no-undo")
    (plan,) = (row for row in planned.rows if row["type"] == "plan")
    assert planned.status == (4 if "--topic" in way else 0), (planned.errors, planned.rows)
    assert step in str(plan["message"])
    refused = run(*command, "--apply")
    assert refused.status == 3
    assert "--no-undo" in refused.errors
    done = run(*command, "--no-undo", "--apply")
    assert done.status == 0, (done.rows, done.errors)
    free = os.statvfs(full.log_dir)
    assert free.f_bfree * free.f_frsize >= need
    bases = sorted(int(path.stem) for path in full.partition_dir(TOPIC).glob("*.log"))
    assert 0 < bases[0] < COUNT
    _start_and_read(full, bases[0])


def test_what_every_group_has_read_is_freed_without_naming_a_topic(full: Broker, tmp_path: Path) -> None:
    """The groups are on the full disk itself; a segment that one of them has not read to its end is kept."""
    with pytest.raises(AssertionError, match="the broker did not start"):
        full.start()
    _trim_indexes(full.log_dir)
    _fill(full.log_dir)
    command = ("free", full.log_dir, *_settings(full))
    done = run(*command, "--need", str(2 * SEGMENT_BYTES), "--undo-to", tmp_path / "undo", "--apply")
    assert done.status == 0, (done.rows, done.errors)
    (plan,) = (row for row in done.rows if row["type"] == "plan")
    assert "(slow-group)" in str(plan["message"])
    bases = sorted(int(path.stem) for path in full.partition_dir(TOPIC).glob("*.log"))
    assert 0 < bases[0] <= COMMITTED
    _start_and_read(full, bases[0])
    refused = run(*command, "--need", str(20 * SEGMENT_BYTES))
    assert refused.status == 3


def test_a_broker_has_all_records_after_the_undo_and_the_rest_without_it(on_tmpfs: Broker, tmp_path: Path) -> None:
    """The indexes of a killed broker are preallocated; a copy has filled their holes, and no broker needs that."""
    broker = on_tmpfs
    broker.start()
    asyncio.run(_write(broker, COUNT))
    for number, is_undone in enumerate((True, False)):
        broker.kill()
        indexes = [*broker.log_dir.glob("*/*.index"), *broker.log_dir.glob("*/*.timeindex")]
        for path in indexes:
            path.write_bytes(path.read_bytes())
        space = os.statvfs(broker.log_dir)
        slack = sum(path.stat().st_blocks * 512 for path in indexes)
        need = str(space.f_bfree * space.f_frsize + slack + 2 * SEGMENT_BYTES)
        command = ("free", broker.log_dir, "--need", need, *_settings(broker), "--topic", TOPIC, "--assume-defaults")
        done = run(*command, "--undo-to", tmp_path / f"undo-{number}", "--apply")
        assert done.status == 0, (done.rows, done.errors)
        (plan,) = (row for row in done.rows if row["type"] == "plan")
        assert "no record is lost" in str(plan["message"])  # of the space of the indexes
        first = min(int(path.stem) for path in broker.partition_dir(TOPIC).glob("*.log"))
        assert 0 < first < COUNT
        if is_undone:
            assert run("undo", broker.log_dir, "--apply").status == 0
        _start_and_read(broker, 0 if is_undone else first)


def test_a_memory_map_without_a_page_on_the_disk(on_tmpfs: Broker) -> None:
    """`explain` says of this line: if it was loading a log, it does not start."""
    broker = on_tmpfs
    broker.start()
    broker.kill()
    _fill(broker.log_dir)
    with pytest.raises(AssertionError, match="the broker did not start"):
        broker.start()
    assert "java.lang.InternalError: a fault occurred in" in broker.output
    assert not broker.is_running
