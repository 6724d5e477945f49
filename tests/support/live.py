"""`kafkalog serve` in a process of its own, with `--read-write` or without it, and what real clients do with it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

SETTINGS: Final = (
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
    "share.coordinator.state.topic.num.partitions=3",
    "group.initial.rebalance.delay.ms=0",
    "log.retention.ms=-1",
)
QUIET: Final[dict[str, Any]] = {"log_level": 0}
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS: Final = 30

Place = tuple[str, int]
Record = tuple[int, bytes | None, bytes | None]


class LiveServer:
    """A live broker over a directory; it is stopped, killed and started again at will."""

    def __init__(
        self,
        directory: Path,
        *settings: str,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        is_read_only: bool = False,
    ) -> None:
        self.directory = directory
        self.environment = dict(environment or {})
        self._options = options
        self._settings = (*SETTINGS, *settings)
        self._is_read_only = is_read_only
        self._process: subprocess.Popen[str] | None = None
        self._port = 0
        self._log = directory.with_name(f"{directory.name}.log")
        directory.mkdir(exist_ok=True)

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, at the port that it had before, and wait until it serves."""
        command = [sys.executable, "-m", "kafkalog_cli", "serve", str(self.directory)]
        command += ["--listen", f"127.0.0.1:{self._port}", *self._options]
        if not self._is_read_only:
            command.append("--read-write")
            for each in self._settings:
                command += ["--set", each]
        with self._log.open("w") as log:  # not a pipe, which would fill and hold the server up
            variables = {**os.environ, **self.environment}
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=variables)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("serving "), self._end(signal.SIGKILL)
        self._port = int(line.rpartition(":")[2])

    def errors(self) -> str:
        """What it has written to stderr since its start."""
        return self._log.read_text()

    def stop(self) -> None:
        """A clean stop."""
        status, errors = self._end(signal.SIGTERM)
        assert status == 0, errors

    def end(self) -> int:
        """A stop that need not be a clean one; its exit status."""
        return self._end(signal.SIGTERM)[0]

    def kill(self) -> None:
        """A crash."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> tuple[int, str]:
        process, self._process = self._process, None
        if process is None:
            return 0, ""
        process.send_signal(number)
        process.communicate(timeout=SECONDS)
        errors = self._log.read_text()
        assert "Traceback" not in errors
        return process.returncode, errors

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end(signal.SIGKILL)


def create_topics(address: str, names: Sequence[str], partitions: int = 2, **config: str) -> None:
    """Create topics."""
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    new = [
        NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()})
        for name in names
    ]
    for each in admin.create_topics(new).values():
        each.result(SECONDS)


def work(address: str, seed: int) -> None:
    """Random work of real clients: plain and idempotent producers in every codec, transactions, a group."""
    chance = random.Random(seed)
    create_topics(address, ["plain", "money"])
    for number in range(6):
        producer = Producer(
            {
                "bootstrap.servers": address,
                "compression.type": chance.choice(CODECS),
                "enable.idempotence": chance.random() < 0.5,
                "linger.ms": chance.choice((0, 5)),
                **QUIET,
            }
        )
        for row in range(chance.randint(1, 200)):
            key = None if chance.random() < 0.2 else f"k{chance.randint(0, 20)}".encode()
            headers = [("h", b"1")] if chance.random() < 0.3 else None
            producer.produce("plain", f"{seed}-{number}-{row}".encode(), key, chance.randint(0, 1), headers=headers)
            if chance.random() < 0.05:
                producer.flush(SECONDS)
        assert producer.flush(SECONDS) == 0
    _transact(address, chance)


def _transact(address: str, chance: random.Random) -> None:
    producer = Producer({"bootstrap.servers": address, "transactional.id": "payer", **QUIET})
    producer.init_transactions(SECONDS)
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "billing",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        | QUIET
    )
    consumer.subscribe(["plain"])
    while not consumer.assignment():
        consumer.poll(0.1)
    for number in range(8):
        producer.begin_transaction()
        for row in range(chance.randint(1, 30)):
            producer.produce("money", f"{number}-{row}".encode(), b"k", chance.randint(0, 1))
        if chance.random() < 0.5:
            offset = TopicPartition("plain", chance.randint(0, 1), chance.randint(0, 50))
            producer.send_offsets_to_transaction([offset], consumer.consumer_group_metadata(), SECONDS)
        assert producer.flush(SECONDS) == 0  # what was not sent yet is not sent before an abort
        if number % 3 != 1:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)
    consumer.commit(offsets=[TopicPartition("plain", 0, chance.randint(0, 50), metadata="note")], asynchronous=False)
    consumer.close()


@contextmanager
def modern_members(address: str, topics: Sequence[str]) -> Iterator[list[Consumer]]:
    """Two members of a group of KIP-848, one by names and one by a regular expression, that have all partitions.

    The group was a classic one before.
    """
    former = Consumer({"bootstrap.servers": address, "group.id": "modern", "enable.auto.commit": False, **QUIET})
    former.subscribe(list(topics))
    while not former.assignment():
        former.poll(0.1)
    former.close()
    found: list[Consumer] = []
    try:
        for wanted in (list(topics), [f"^({'|'.join(topics)})$"]):
            consumer = Consumer(
                {
                    "bootstrap.servers": address,
                    "group.id": "modern",
                    "group.protocol": "consumer",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    **QUIET,
                }
            )
            found.append(consumer)
            consumer.subscribe(wanted)
        while not all(each.assignment() for each in found):
            for each in found:
                each.poll(0.1)
        for each in found:
            offsets = [TopicPartition(place.topic, place.partition, 3) for place in each.assignment()]
            each.commit(offsets=offsets, asynchronous=False)
        yield found
    finally:
        for each in found:
            each.close()


def group_types(address: str) -> dict[str, str]:
    """The protocol of each group."""
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    listing = admin.list_consumer_groups().result(SECONDS)
    assert not listing.errors
    return {each.group_id: each.type.name for each in listing.valid}


def read_all(address: str, topics: Sequence[str], isolation: str) -> dict[Place, list[Record]]:
    """What a consumer reads of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            **QUIET,
        }
    )
    known = consumer.list_topics(timeout=SECONDS).topics
    places = [(name, number) for name in topics for number in known[name].partitions]
    consumer.assign([TopicPartition(*place, 0) for place in places])
    found: dict[Place, list[Record]] = {place: [] for place in places}
    ended: set[Place] = set()
    while len(ended) < len(places):
        message = consumer.poll(SECONDS)
        assert message is not None, (
            f"nothing came; read so far: { {place: len(rows) for place, rows in found.items()} }"
        )
        place = message.topic(), message.partition()
        if message.error() is None:
            found[place].append((message.offset(), message.key(), message.value()))
        elif message.error().code() == -191:
            ended.add(place)
        else:
            raise KafkaException(message.error())
    consumer.close()
    return found


def committed(address: str, group: str) -> dict[Place, tuple[int, str | None]]:
    """The committed offsets of a group, with their metadata."""
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    (answer,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {
        (each.topic, each.partition): (each.offset, each.metadata or "")
        for each in answer.result(SECONDS).topic_partitions
    }
