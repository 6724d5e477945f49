"""What is said of the leader epochs of a tiered log, next to a real 4.3.1 broker with `LocalTieredStorage`."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.integration import clients
from tests.integration.broker import Broker
from tests.integration.repairing import run
from tests.support import jars
from tests.support.live import QUIET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPIC: Final = "orders"
_SECONDS: Final = 120
_TIER: Final = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "remote.log.manager.task.interval.ms": "300",
}
_CONFIGS: Final = {"remote.storage.enable": "true", "local.retention.bytes": "5000", "retention.ms": "-1"}


@pytest.fixture
def tiered(tmp_path: Path) -> Iterator[Broker]:
    """A broker whose topic has its first segments in tiered storage alone; it has stopped cleanly."""
    libs = jars.fetch()
    broker = Broker(libs, tmp_path)
    broker.configure(_TIER | {"rsm.config.dir": str(tmp_path / "tier")})
    place = broker.java_command.index("-cp") + 1
    broker.java_command[place] += f":{jars.fetch_tier()}/*"
    try:
        broker.start()
        asyncio.run(clients.create_topic(broker, TOPIC, _CONFIGS | {broker.segment_bytes: broker.roll_bytes}))
        asyncio.run(_write(broker))
        _wait_for(lambda: local_start(broker) > 0)
        broker.stop()
        yield broker
    finally:
        broker.close()


async def _write(broker: Broker) -> None:
    async with clients.producer_of(broker) as producer:
        await clients.send(producer, random.Random(0), TOPIC, 400)


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def local_start(broker: Broker) -> int:
    """The base offset of the first segment on the disk."""
    return min(int(path.stem) for path in broker.partition_dir(TOPIC).glob("*.log"))


def remote_segments(broker: Broker) -> int:
    """How many segments of the topic tiered storage has."""
    return len(list((broker.work_dir / "tier").glob(f"*/{TOPIC}-0-*/*.log")))


def first_offset_by_time(broker: Broker) -> int:
    """The offset that a search by time from the earliest time on finds, once the broker answers it."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": TOPIC, **QUIET})
    answers: list[int] = []

    def asked() -> bool:
        with suppress(KafkaException):  # it has not yet read __remote_log_metadata
            answers.extend(each.offset for each in consumer.offsets_for_times([TopicPartition(TOPIC, 0, 0)], timeout=9))
        return bool(answers)

    _wait_for(asked)
    consumer.close()
    return answers[0]


def codes(broker: Broker, command: str) -> list[str]:
    """The codes of errors that a command finds."""
    rows = run(command, broker.log_dir).rows
    return [str(row["code"]) for row in rows if row.get("severity") == "error" and "code" in row]


def test_leader_epochs_of_what_only_tiered_storage_has(tiered: Broker) -> None:
    """Without them the broker deletes the segments; with a file made from the batches here, it does not serve them."""
    epochs = tiered.partition_dir(TOPIC) / "leader-epoch-checkpoint"
    kept, start, segments = epochs.read_bytes(), local_start(tiered), remote_segments(tiered)
    assert codes(tiered, "verify") == codes(tiered, "recover") == []
    assert segments > 1
    epochs.write_bytes(f"0\n1\n0 {start}\n".encode())
    assert codes(tiered, "verify") == ["epochs.remote-unknown"]
    tiered.start()
    assert first_offset_by_time(tiered) == start
    tiered.stop()
    epochs.write_bytes(kept)
    tiered.start()
    assert first_offset_by_time(tiered) == 0
    assert len(asyncio.run(clients.read_all(tiered, TOPIC))) == 400
    tiered.stop()
    epochs.unlink()
    for command in ("verify", "recover", "checkpoint", "reindex"):
        assert codes(tiered, command) == ["epochs.remote-unknown"]
    assert run("recover", tiered.log_dir, "--apply").status == 4
    assert not epochs.exists()
    tiered.start()
    _wait_for(lambda: remote_segments(tiered) == 0)


def test_a_lost_log_start_offset_takes_no_leader_epoch_away(tiered: Broker) -> None:
    """The metadata log shows that the topic is tiered; the broker asks tiered storage where the log starts."""
    (tiered.log_dir / "log-start-offset-checkpoint").unlink()
    epochs = tiered.partition_dir(TOPIC) / "leader-epoch-checkpoint"
    kept = epochs.read_bytes()
    assert "epochs.before-start" in codes(tiered, "verify")
    run("recover", tiered.log_dir, "--apply")
    run("reindex", tiered.log_dir, "--apply")
    assert epochs.read_bytes() == kept
    tiered.start()
    assert len(asyncio.run(clients.read_all(tiered, TOPIC))) == 400
