"""A live broker in this process whose requests are asked without sockets, with a clock of the test."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.broker.disks.live_disks import LiveDisks
from kafkalog_core.broker.disks.live_settings import LiveSettings
from kafkalog_core.broker.live_server import LiveBroker
from kafkalog_core.broker.network.answers import NO_OBSERVER, FileRange, PendingAnswer, Reply
from kafkalog_core.broker.network.socket_server import Listener
from kafkalog_core.broker.server import BrokerOptions
from kafkalog_core.format.batch_writer import BatchHeader, NewRecord, encode_batch
from tests.support.asking import ask, send

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalog_core.broker.logs.live_log import LiveLog
    from kafkalog_core.broker.metrics.traffic import Traffic
    from kafkalog_core.broker.network.answers import Answer, NetworkObserver

SETTINGS: Final = (
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
    "group.initial.rebalance.delay.ms=0",
    "log.retention.ms=-1",
)
NOW_MS: Final = 1_800_000_000_000
TRANSACTIONAL: Final = 0x10


@dataclass
class Clock:
    """The time of day, which only the test moves."""

    now_ms: int = NOW_MS

    def __call__(self) -> int:
        return self.now_ms

    def seconds(self) -> float:
        """The same as a monotonic clock."""
        return self.now_ms / 1000


@dataclass
class Live:
    """A live broker and what a client asks of it."""

    disks: LiveDisks
    broker: LiveBroker
    clock: Clock
    notes: list[str] = field(default_factory=list)

    def ask(self, name: str, version: int, **body: Any) -> dict[str, Any]:
        """The body of a response."""
        return ask(self.broker.dispatcher, name, version, body)

    def send(self, name: str, version: int, **body: Any) -> Answer:
        """The answer to a request, which may come later."""
        return send(self.broker.dispatcher, name, version, body)

    def log(self, topic: str, number: int = 0) -> LiveLog:
        """An open partition."""
        found = self.disks.partition(topic, number)
        assert found is not None
        return found

    def create(self, name: str, partitions: int = 1, **configs: str) -> dict[str, Any]:
        """Create a topic."""
        rows = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": rows,
        }
        answer = self.ask("CreateTopics", 5, topics=[topic], timeout_ms=1000, validate_only=False)
        (created,) = answer["topics"]
        return created

    def produce(self, topic: str, batch: bytes, number: int = 0, **fields: Any) -> dict[str, Any]:
        """Send a batch to a partition, and return the answer for it."""
        data = [{"name": topic, "partition_data": [{"index": number, "records": batch}]}]
        body = {"transactional_id": None, "acks": -1, "timeout_ms": 1000, "topic_data": data} | fields
        version = body.pop("version", 9)
        answer = self.ask("Produce", version, **body)
        return answer["responses"][0]["partition_responses"][0]

    def fetch(self, topic: str, offset: int = 0, number: int = 0, **fields: Any) -> Answer:
        """Fetch from an offset on."""
        partition = {
            "partition": number,
            "fetch_offset": offset,
            "log_start_offset": -1,
            "partition_max_bytes": 1 << 20,
        }
        body = {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": topic, "partitions": [partition]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        return self.send("Fetch", 11, **(body | fields))


@contextmanager
def living(
    directory: Path,
    clock: Clock | None = None,
    *settings: str,
    traffic: Traffic | None = None,
    observer: NetworkObserver = NO_OBSERVER,
) -> Iterator[Live]:
    """A live broker over a directory; it is stopped cleanly at the end."""
    clock = clock or Clock()
    ids = count(1)
    disks = LiveDisks(
        str(directory),
        LiveSettings.of((*SETTINGS, *settings)),
        clock_ms=clock,
        new_id=lambda: (next(ids) << 64 | clock.now_ms).to_bytes(16, "big"),
    )
    broker = LiveBroker(
        disks,
        BrokerOptions(listen=[Listener("PLAINTEXT", "127.0.0.1", 0)], advertised={"PLAINTEXT": ("127.0.0.1", 0)}),
        clock=clock.seconds,
        clock_ms=clock,
        new_member_id=lambda client: f"{client}-{next(ids)}",
        traffic=traffic,
        observer=observer,
    )
    try:
        yield Live(disks, broker, clock, disks.notes)
    finally:
        with broker:
            pass
        disks.close()


def batch_of(*values: bytes, key: bytes | None = b"k", time_ms: int = NOW_MS, **header: Any) -> bytes:
    """A batch as a producer sends it."""
    codec = header.pop("codec", 0)
    records = [NewRecord(key, value, time_ms) for value in values]
    return bytes(encode_batch(records, BatchHeader(**header), codec=codec))


def sent_bytes(answer: Answer) -> bytes:
    """The bytes of a fetch's response, ranges of files included, which are released."""
    if isinstance(answer, PendingAnswer):
        found = answer.take(0.0)
        assert found is not None, "the answer is not there yet"
        answer = found
    assert isinstance(answer, Reply)
    data = b""
    for piece in answer.pieces:
        if isinstance(piece, FileRange):
            data += os.pread(piece.file.descriptor, piece.size_bytes, piece.position)
            piece.file.release()
        else:
            data += bytes(piece)
    return data
