"""Real clients write through `kafkalog serve --read-write`, which is stopped and killed."""

from __future__ import annotations

import asyncio
import random
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from tests.support.live import QUIET, SECONDS, LiveServer, committed, create_topics, read_all, work

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.live

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas with importlib's old names
    from kafka import KafkaConsumer, KafkaProducer

TOPICS = ["plain", "money"]
ISOLATIONS = ("read_uncommitted", "read_committed")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    """A live broker over an empty directory."""
    with LiveServer(tmp_path / "data") as found:
        yield found


def state_of(address: str) -> tuple[Any, ...]:
    """What clients see."""
    return *(read_all(address, TOPICS, isolation) for isolation in ISOLATIONS), committed(address, "billing")


@pytest.mark.parametrize("is_crash", [False, True])
def test_what_was_written_is_there_after_a_stop_and_after_a_crash(server: LiveServer, is_crash: bool) -> None:
    work(server.address, 11)
    before = state_of(server.address)
    assert before[0] != before[1], "some transactions were aborted"
    if is_crash:
        server.kill()
    else:
        server.stop()
        request = VerifyRequest(
            targets=tuple(resolve([str(server.directory)])), now_ms=time.time_ns() // 1_000_000, level="records"
        )
        assert [each for verdict in verify(request) for each in verdict.findings if each.severity != "info"] == []
    server.start()
    assert state_of(server.address) == before


def crashes(server: LiveServer, times: int, seed: int) -> None:
    """Kill a server while an idempotent producer writes with acks=all; every acknowledged record is there, once."""
    chance = random.Random(seed)
    create_topics(server.address, ["plain"])
    acknowledged: set[bytes] = set()
    ended = threading.Event()

    def note(error: object, message: Any) -> None:
        if error is None:
            acknowledged.add(message.value())

    def produce() -> None:
        producer = Producer(
            {
                "bootstrap.servers": server.address,
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": 60_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
            }
            | QUIET
        )
        number = 0
        while not ended.is_set():
            producer.produce("plain", str(number).encode(), partition=number % 2, on_delivery=note)
            producer.poll(0)
            time.sleep(0.0005)  # so that no queue of the client is ever full
            number += 1
        assert producer.flush(SECONDS) == 0

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        for _ in range(times):
            time.sleep(0.2 + 0.5 * chance.random())
            server.kill()
            server.start()
    finally:
        time.sleep(0.5)
        ended.set()
        thread.join()
    found = [value for rows in read_all(server.address, ["plain"], "read_committed").values() for _, _, value in rows]
    assert len(found) == len(set(found)), "a record is there twice"
    assert acknowledged <= set(found)
    assert len(acknowledged) > 100


def test_no_acknowledged_record_is_lost_or_twice_when_the_server_is_killed(server: LiveServer) -> None:
    crashes(server, 3, 1)


@pytest.mark.slow
def test_no_acknowledged_record_is_lost_or_twice_in_twenty_crashes(server: LiveServer) -> None:
    crashes(server, 20, 2)


@pytest.mark.parametrize("version", [None, (0, 10, 2), (0, 9)])
def test_kafka_python_writes_and_reads_in_the_formats_of_its_versions(
    server: LiveServer, version: tuple[int, ...] | None
) -> None:
    create_topics(server.address, ["plain"], 1)
    options = {"bootstrap_servers": server.address} | ({} if version is None else {"api_version": version})
    producer = KafkaProducer(compression_type="gzip", enable_idempotence=False, **options)
    sent = [producer.send("plain", f"{number}".encode(), key=b"k") for number in range(50)]
    assert [each.get(SECONDS).offset for each in sent] == list(range(50))
    producer.close()
    consumer = KafkaConsumer("plain", group_id="g", auto_offset_reset="earliest", consumer_timeout_ms=4000, **options)
    values = []
    for message in consumer:
        values.append(message.value)
        if len(values) == 50:
            break
    assert values == [str(number).encode() for number in range(50)]
    consumer.close()


def test_consumers_of_the_new_protocol_share_a_topic(server: LiveServer) -> None:
    create_topics(server.address, ["plain"], 4)
    producer = Producer({"bootstrap.servers": server.address, **QUIET})
    for number in range(40):
        producer.produce("plain", str(number).encode(), partition=number % 4)
    assert producer.flush(SECONDS) == 0
    options = {"bootstrap.servers": server.address, "group.id": "new", "group.protocol": "consumer"}
    options |= {"auto.offset.reset": "earliest", "enable.auto.commit": False} | QUIET
    consumers = [Consumer(options) for _ in range(2)]
    values: set[bytes | None] = set()
    end = time.monotonic() + 2 * SECONDS
    for each in consumers:
        each.subscribe(["plain"])
    while time.monotonic() < end and [len(each.assignment()) for each in consumers] != [2, 2]:
        for each in consumers:
            message = each.poll(0.1)
            if message is not None and message.error() is None:
                values.add(message.value())
    assert [len(each.assignment()) for each in consumers] == [2, 2]
    while time.monotonic() < end and len(values) < 40:
        for each in consumers:
            message = each.poll(0.1)
            if message is not None and message.error() is None:
                values.add(message.value())
    assert len(values) == 40
    for each in consumers:
        each.close()


def test_aiokafka_writes_transactions_and_reads_them(server: LiveServer) -> None:
    create_topics(server.address, ["plain"], 1)

    async def run() -> list[bytes | None]:
        producer = AIOKafkaProducer(bootstrap_servers=server.address, transactional_id="aio")
        await producer.start()
        for number in range(4):
            await producer.begin_transaction()
            await producer.send_and_wait("plain", str(number).encode())
            await (producer.commit_transaction() if number % 2 else producer.abort_transaction())
        await producer.stop()
        consumer = AIOKafkaConsumer(
            "plain", bootstrap_servers=server.address, auto_offset_reset="earliest", isolation_level="read_committed"
        )
        await consumer.start()
        try:
            return [(await asyncio.wait_for(consumer.getone(), SECONDS)).value for _ in range(2)]
        finally:
            await consumer.stop()

    assert asyncio.run(run()) == [b"1", b"3"]
