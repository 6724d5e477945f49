"""Logs of a real broker that are damaged in the middle, and what every client reads of them after the excision."""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
import warnings
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka as librdkafka
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import NewTopic

from tests.integration import clients
from tests.integration.broker import Broker
from tests.integration.repairing import recover_all, run, segments
from tests.support.live import QUIET

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas with importlib's old names
    import kafka

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

TOPIC: Final = "torn"  # whose recovery point `recover_all` sets to 0
COUNT: Final = 40
SECONDS: Final = 40
_HEADER: Final = 61
_CODEC, _TRANSACTIONAL, _CONTROL = 7, 0x10, 0x20


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of magic 2, or a message, by its header."""

    path: Path
    position: int
    size: int
    first: int
    last: int
    magic: int
    attributes: int
    producer_id: int

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC

    @property
    def is_transactional(self) -> bool:
        return self.magic == 2 and bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return self.magic == 2 and bool(self.attributes & _CONTROL)


def batches_of(path: Path) -> Iterator[Batch]:
    """The batches of a log, by the formats' description alone."""
    data, position, last = path.read_bytes(), 0, int(path.stem) - 1
    while position + 17 <= len(data):
        offset, size, magic = (
            int.from_bytes(data[position : position + 8], "big"),
            12 + int.from_bytes(data[position + 8 : position + 12], "big"),
            data[position + 16],
        )
        if magic == 2:
            attributes = int.from_bytes(data[position + 21 : position + 23], "big")
            end = offset + int.from_bytes(data[position + 23 : position + 27], "big")
            producer_id = int.from_bytes(data[position + 43 : position + 51], "big", signed=True)
            yield Batch(path, position, size, offset, end, magic, attributes, producer_id)
            last = end
        else:
            yield Batch(path, position, size, last + 1, offset, magic, data[position + 17], -1)
            last = offset
        position += size


def all_batches(broker: Broker, topic: str = TOPIC) -> list[Batch]:
    """Those of all segments."""
    return [batch for path in segments(broker, topic) for batch in batches_of(path)]


def spoil(batch: Batch, *, header: bool = False) -> None:
    """Turn a byte of the records round; or overwrite the header."""
    data = bytearray(batch.path.read_bytes())
    if header:
        data[batch.position : batch.position + _HEADER] = b"\xee" * _HEADER
    else:
        data[batch.position + batch.size - 2] ^= 0xFF
    batch.path.write_bytes(data)


def put(batch: Batch, position: int, content: bytes) -> None:
    """Write bytes at a position of a batch, as it is."""
    data = bytearray(batch.path.read_bytes())
    data[batch.position + position : batch.position + position + len(content)] = content
    batch.path.write_bytes(data)


def excise(broker: Broker, *offsets: int, topic: str = TOPIC) -> list[dict[str, object]]:
    """Run the command until it is done; the rows of it."""
    named = [word for offset in offsets for word in ("--offset", str(offset))]
    options = ("--config", str(broker.config), "--kafka", broker.release)
    done = run("excise", broker.partition_dir(topic), *named, *options, "--apply")
    assert done.status == 0, (done.rows, done.errors)
    return done.rows


def recover_from_start(broker: Broker) -> None:
    """Let the next start look at every segment."""
    recover_all(broker)


# --- who reads --------------------------------------------------------------------------------------------------------
def read_by_java(broker: Broker, count: int, topic: str = TOPIC, *, committed: bool = False) -> list[int]:
    """The offsets that the Java consumer reads, which waits a moment for more than `count`."""
    isolation = "read_committed" if committed else "read_uncommitted"
    is_old = broker.release.startswith("2")
    tool = "kafka.tools.ConsoleConsumer" if is_old else "org.apache.kafka.tools.consumer.ConsoleConsumer"
    option = "--property" if is_old else "--formatter-property"
    command = [*broker.java_command, tool, "--bootstrap-server", broker.bootstrap, "--topic", topic]
    command += ["--partition", "0", "--offset", "earliest", "--isolation-level", isolation, "--timeout-ms", "6000"]
    command += [option, "print.offset=true", option, "print.value=false", "--max-messages", str(count + 1)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return [int(line.partition(":")[2]) for line in done.stdout.splitlines() if line.startswith("Offset:")]


def read_by_librdkafka(broker: Broker, count: int, topic: str = TOPIC, *, committed: bool = False) -> list[int]:
    """The same of librdkafka."""
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": f"g-{committed}",
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        **QUIET,
    }
    with closing(librdkafka.Consumer(settings)) as consumer:
        consumer.assign([librdkafka.TopicPartition(topic, 0, librdkafka.OFFSET_BEGINNING)])
        found: list[int] = []
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is not None:
                assert message.error().code() == librdkafka.KafkaError._PARTITION_EOF, message.error()
                if len(found) >= count:
                    break
                continue
            found.append(message.offset())
    return found


def read_by_kafka_python(broker: Broker, count: int, topic: str = TOPIC, *, committed: bool = False) -> list[int]:
    """The same of kafka-python."""
    del count
    place = kafka.TopicPartition(topic, 0)
    with closing(
        kafka.KafkaConsumer(
            bootstrap_servers=broker.bootstrap,
            group_id=None,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if committed else "read_uncommitted",
        )
    ) as consumer:
        consumer.assign([place])
        end = consumer.end_offsets([place])[place]
        found: list[int] = []
        deadline = time.monotonic() + SECONDS
        while consumer.position(place) < end and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=500).values():
                found += [record.offset for record in records]
    return found


def read_by_aiokafka(broker: Broker, count: int, topic: str = TOPIC, *, committed: bool = False) -> list[int]:
    """The same of aiokafka."""
    del count
    return asyncio.run(_read(broker, topic, committed=committed))


async def _read(broker: Broker, topic: str, *, committed: bool) -> list[int]:
    place = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed" if committed else "read_uncommitted",
    )
    await consumer.start()
    try:
        consumer.assign([place])
        end = (await consumer.end_offsets([place]))[place]
        found: list[int] = []
        deadline = time.monotonic() + SECONDS
        while await consumer.position(place) < end and time.monotonic() < deadline:
            polled = await consumer.getmany(timeout_ms=200)
            found += [record.offset for records in polled.values() for record in records]
    finally:
        await consumer.stop()
    return found


READERS: Final = (read_by_java, read_by_librdkafka, read_by_kafka_python, read_by_aiokafka)


def check_readers(broker: Broker, expected: list[int], topic: str = TOPIC, *, committed: bool = False) -> None:
    """Every client reads these offsets and no others."""
    for read in READERS:
        assert read(broker, len(expected), topic, committed=committed) == expected, read.__name__


async def fill(broker: Broker, topic: str = TOPIC) -> None:
    """Each codec, an idempotent producer, and transactions of both ends."""
    await clients.create_topic(broker, topic, {broker.segment_bytes: broker.roll_bytes})
    await clients.send_everything(broker, random.Random(topic), topic, COUNT)
    await clients.settle_transactions(broker, topic)


async def fill_before_zstd(broker: Broker) -> None:
    """The codecs of releases before 2.1, an idempotent producer, and transactions of both ends."""
    await clients.create_topic(broker, TOPIC, {broker.segment_bytes: broker.roll_bytes})
    generator = random.Random(TOPIC)
    for codec in (None, "gzip", "snappy", "lz4"):
        async with clients.producer_of(broker, compression_type=codec) as producer:
            await clients.send(producer, generator, TOPIC, 2 * COUNT)
    async with clients.producer_of(broker, enable_idempotence=True) as producer:
        await clients.send(producer, generator, TOPIC, COUNT)
    await clients.send_transactions(broker, generator, TOPIC, COUNT // 4)
    await clients.settle_transactions(broker, TOPIC)


async def fill_old(broker: Broker, version: str) -> None:
    """Each codec of the old formats, converted by the broker to one of them."""
    settings = {broker.segment_bytes: broker.roll_bytes, "message.format.version": version}
    await clients.create_topic(broker, TOPIC, settings)
    # aiokafka reads no LZ4 of magic 0
    for codec in (None, "gzip", "snappy", *(() if version == "0.9.0" else ("lz4",))):
        async with clients.producer_of(broker, compression_type=codec) as producer:
            generator = random.Random(codec)
            for _ in range(3):  # without headers, which these formats do not have
                values = [generator.randbytes(generator.randrange(5, 90)) for _ in range(COUNT)]
                sent = [await producer.send(TOPIC, value, key=value[:3], partition=0) for value in values]
                await asyncio.gather(*sent)


def commit(broker: Broker, group: str, offset: int) -> None:
    """Commit an offset for a group."""
    place = librdkafka.TopicPartition(TOPIC, 0, offset)
    with closing(librdkafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, **QUIET})) as consumer:
        consumer.commit(offsets=[place], asynchronous=False)


def committed_offset(broker: Broker, group: str) -> int | None:
    """The committed offset of a group; None: there is none."""
    place = librdkafka.TopicPartition(TOPIC, 0)
    with closing(librdkafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, **QUIET})) as consumer:
        (found,) = consumer.committed([place], timeout=SECONDS)
    return None if found.offset < 0 else found.offset


# --- three brokers ----------------------------------------------------------------------------------------------------
class Node(Broker):
    """One of three brokers; the first one is the controller too.

    Args:
        number: of the node, from 1 on.
        first: the first one; None: it is this one.
    """

    def __init__(self, libs: Path, work_dir: Path, number: int, first: Node | None) -> None:
        self._number = number
        self._first = first
        self.controller = ""
        self.format_options = ("--standalone",) if first is None else ("--no-initial-controllers",)
        work_dir.mkdir()
        super().__init__(libs, work_dir)

    def _places(self, controller_port: int) -> dict[str, str]:
        places = super()._places(controller_port) | {"node.id": str(self._number)}
        self.controller = f"127.0.0.1:{controller_port}"
        if self._first is None:
            return places
        self.controller = self._first.controller
        return places | {
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.quorum.bootstrap.servers": self.controller,
        }


@contextmanager
def cluster_of_three(libs: Path, work_dir: Path) -> Iterator[list[Node]]:
    """Three brokers that are not started yet, and are ended."""
    nodes: list[Node] = []
    try:
        for number in (1, 2, 3):
            nodes.append(Node(libs, work_dir / str(number), number, nodes[0] if nodes else None))
        yield nodes
    finally:
        for node in nodes:
            node.close()


async def fill_replicated(leader: Broker) -> None:
    """A topic on all three brokers, with the first one as the leader."""
    async with clients.admin_of(leader) as admin:
        configs = {leader.segment_bytes: leader.roll_bytes}
        topic = NewTopic(TOPIC, -1, -1, replica_assignments={0: [1, 2, 3]}, topic_configs=configs)
        await admin.create_topics([topic])
    await clients.send_everything(leader, random.Random(TOPIC), TOPIC, COUNT)
    await clients.settle_transactions(leader, TOPIC)


def wait_until_same(nodes: Iterable[Broker]) -> None:
    """Until all have the same bytes of the topic."""
    deadline = time.monotonic() + SECONDS
    while True:
        logs = {b"".join(path.read_bytes() for path in segments(node, TOPIC)) for node in nodes}
        if len(logs) == 1 and logs != {b""}:
            return
        assert time.monotonic() < deadline, [len(log) for log in logs]
        time.sleep(0.2)
