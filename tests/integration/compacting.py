"""A compacted topic that no cleaner has touched yet, and what can be seen of what readers get of it."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Final

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.integration import clients
from tests.integration.records import Record, dump
from tests.integration.repairing import Done, run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from aiokafka import AIOKafkaProducer

    from tests.integration.broker import Broker

TOPIC: Final = "compacted"
KEYS: Final = 23
COUNT: Final = 60
GROUP_BYTES: Final = "20000"
_SECONDS: Final = 30
CLEANER: Final = "cleaner-offset-checkpoint"


def configs(broker: Broker, *, ratio: str = "1.0") -> dict[str, str]:
    """Of the topic: nothing is dirtier than 1.0, so that the broker's own cleaner waits."""
    return {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": ratio,
        "delete.retention.ms": "0",
        "file.delete.delay.ms": "100",
        broker.segment_bytes: broker.roll_bytes,
    }


def fill(broker: Broker) -> None:
    """Keys again and again in every codec, tombstones, an idempotent producer, transactions of both ends."""
    asyncio.run(_fill(broker))


async def _fill(broker: Broker) -> None:
    await clients.create_topic(broker, TOPIC, configs(broker))
    generator = random.Random(TOPIC)
    for codec in clients.CODECS:
        async with clients.producer_of(broker, compression_type=codec) as producer:
            await _send(producer, generator)
    async with clients.producer_of(broker, enable_idempotence=True) as producer:
        await _send(producer, generator)
    for number in (1, 2):
        async with clients.producer_of(broker, transactional_id=f"{TOPIC}-{number}") as producer:
            for is_kept in (True, False):
                await producer.begin_transaction()
                await _send(producer, generator)
                await (producer.commit_transaction() if is_kept else producer.abort_transaction())
    await clients.settle_transactions(broker, TOPIC)


async def _send(producer: AIOKafkaProducer, generator: random.Random) -> None:
    sent = []
    for _ in range(COUNT):
        value = None if generator.random() < 0.1 else generator.randbytes(generator.randrange(5, 90))
        key = b"key-%d" % generator.randrange(KEYS)
        sent.append(await producer.send(TOPIC, value, key=key, partition=0))
    await asyncio.gather(*sent)


def compact(broker: Broker, *more: str | Path) -> Done:
    """Compact the broker's log directory with the command; it must come to its end."""
    done = run("compact", broker.log_dir, *options(broker), "--force", "--apply", *more)
    assert done.status == 0, (done.rows, done.errors)
    return done


def options(broker: Broker) -> tuple[str, ...]:
    """What a command has to be told: a broker of the ZooKeeper era has no settings of topics on its disk."""
    return (
        "--config",
        str(broker.config),
        "--kafka",
        broker.release,
        *(f"--topic-config={each}" for each in told(broker)),
        "--assume-defaults",  # of a broker with ZooKeeper; the topic was created with these values and no others
    )


def told(broker: Broker) -> list[str]:
    """Settings of the topic, with segments that take several of those that there are."""
    values = configs(broker) | {broker.segment_bytes: GROUP_BYTES}
    return [f"{TOPIC}:{name}={value}" for name, value in values.items()]


def promised(broker: Broker, *, committed: bool = False) -> list[Record]:
    """The records that a dump of the log shows."""
    return dump("--records", *(("--committed",) if committed else ()), broker.partition_dir(TOPIC)).records()


def consumed(broker: Broker, *, committed: bool = False) -> list[Record]:
    """The records that a consumer gets."""
    return asyncio.run(clients.read_all(broker, TOPIC, committed=committed))


def last_values(records: Iterable[Record]) -> dict[bytes | None, bytes]:
    """What a reader of the whole topic knows in the end."""
    last = {record.key: record.value for record in records}
    return {key: value for key, value in last.items() if value is not None}


def set_ratio(broker: Broker, ratio: str) -> None:
    """Let the broker's own cleaner go on."""
    asyncio.run(_set(broker, configs(broker, ratio=ratio)))


async def _set(broker: Broker, values: dict[str, str]) -> None:
    async with clients.admin_of(broker) as admin:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC, values)])


def more(broker: Broker) -> None:
    """More records of the same keys."""
    asyncio.run(_more(broker))


async def _more(broker: Broker) -> None:
    async with clients.producer_of(broker, enable_idempotence=True) as producer:
        for number in range(4):
            await _send(producer, random.Random(number))


def checkpoint(broker: Broker) -> int | None:
    """How far the topic was cleaned."""
    path = broker.log_dir / CLEANER
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return next((int(line.split()[2]) for line in lines if line.startswith(f"{TOPIC} 0 ")), None)


def wait_for_cleaner(broker: Broker, beyond: int) -> int:
    """Until the broker's own cleaner has come farther."""
    deadline = time.monotonic() + _SECONDS
    while (now := checkpoint(broker)) is None or now <= beyond:
        assert time.monotonic() < deadline, f"still at {now}"
        time.sleep(0.1)
    return now
