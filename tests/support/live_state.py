"""A live broker in this process whose requests are asked without sockets, with a clock of the test."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.format.batch_writer import BatchHeader, NewRecord, encode_batch
from kafkalog_core.livebroker.disks.live_disks import LiveDisks
from kafkalog_core.livebroker.disks.live_settings import LiveSettings
from kafkalog_core.livebroker.live_server import LiveBroker
from kafkalog_core.serve.logs.file_ranges import FileRange
from kafkalog_core.serve.network.answers import NO_OBSERVER, PendingAnswer, Reply
from kafkalog_core.serve.network.socket_server import Listener
from kafkalog_core.serve.server import BrokerOptions
from kafkalog_core.storage.changing.writer import Disk
from tests.support.asking import ask, send

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalog_core.livebroker.logs.live_log import LiveLog
    from kafkalog_core.serve.network.answers import Answer, NetworkObserver
    from kafkalog_core.serve.topics.traffic import Traffic

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
    failures: list[str] = field(default_factory=list)  # what stderr gets: what failed, and why

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
    disk: Disk | None = None,
) -> Iterator[Live]:
    """A live broker over a directory; it is stopped cleanly at the end."""
    clock = clock or Clock()
    ids = count(1)
    failures: list[str] = []
    disks = LiveDisks(
        str(directory),
        LiveSettings.of((*SETTINGS, *settings)),
        clock_ms=clock,
        new_id=lambda: (next(ids) << 64 | clock.now_ms).to_bytes(16, "big"),
        failed=lambda what, error: failures.append(f"{what}: {error}"),
        disk=disk,
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
        yield Live(disks, broker, clock, disks.notes, failures)
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


class Payer:
    """A transactional producer."""

    def __init__(self, live: Live, name: str = "payer", **init: Any) -> None:
        self.live, self.name = live, name
        body = {"transactional_id": name, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
        self.answer = live.ask("InitProducerId", 4, **(body | init))
        self.id, self.epoch = self.answer["producer_id"], self.answer["producer_epoch"]
        self.sequence = 0

    @property
    def identity(self) -> dict[str, Any]:
        """How it names itself."""
        return {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}

    def add(self, *topics: str) -> int:
        """Add partition 0 of some topics."""
        fields = {f"v3_and_below_{key}": value for key, value in self.identity.items()}
        rows = [{"name": topic, "partitions": [0]} for topic in topics]
        answer = self.live.ask("AddPartitionsToTxn", 3, v3_and_below_topics=rows, **fields)
        code: int = answer["results_by_topic_v3_and_below"][0]["results_by_partition"][0]["partition_error_code"]
        return code

    def send(self, topic: str, *values: bytes) -> int:
        """Send a batch."""
        batch = batch_of(
            *values,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            attributes=TRANSACTIONAL,
        )
        code: int = self.live.produce(topic, batch, transactional_id=self.name)["error_code"]
        self.sequence += len(values) if not code else 0
        return code

    def end(self, *, is_commit: bool) -> int:
        """End the transaction."""
        code: int = self.live.ask("EndTxn", 3, committed=is_commit, **self.identity)["error_code"]
        return code

    def commit_offsets(self, group: str, topic: str, offset: int) -> int:
        """Send the offset of a group as part of the transaction."""
        self.live.ask("AddOffsetsToTxn", 3, group_id=group, **self.identity)
        partition = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        answer = self.live.ask(
            "TxnOffsetCommit",
            3,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": topic, "partitions": [partition]}],
            **self.identity,
        )
        code: int = answer["topics"][0]["partitions"][0]["error_code"]
        return code


class LimitedDisk(Disk):
    """A disk that is full after some writes."""

    left: int | None = None

    def _put(self, descriptor: int, data: memoryview) -> int:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
        return super()._put(descriptor, data)


class Machine:
    """A live broker that is stopped cleanly, or dropped as if it were killed."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.clock, self.disk = directory, Clock(), LimitedDisk()
        self._ids = count(1)
        self.live = self._opened()

    def _opened(self) -> Live:
        disks = LiveDisks(
            str(self.directory),
            LiveSettings.of(SETTINGS),
            clock_ms=self.clock,
            new_id=lambda: (next(self._ids) << 64 | self.clock.now_ms).to_bytes(16, "big"),
            disk=self.disk,
        )
        broker = LiveBroker(
            disks,
            BrokerOptions(listen=[Listener("PLAINTEXT", "127.0.0.1", 0)], advertised={"PLAINTEXT": ("127.0.0.1", 0)}),
            clock=self.clock.seconds,
            clock_ms=self.clock,
            new_member_id=lambda client: f"{client}-{next(self._ids)}",
        )
        return Live(disks, broker, self.clock, disks.notes)

    def close(self, *, is_crash: bool = False) -> None:
        """Stop the broker; after a crash the lock alone is gone."""
        with self.live.broker:
            pass
        if is_crash:
            self.live.disks._at_end.close()
        else:
            self.live.disks.close()

    def restart(self, *, is_crash: bool) -> None:
        """Stop and open again."""
        self.close(is_crash=is_crash)
        self.live = self._opened()
