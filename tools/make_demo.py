"""Make `fixtures/demo/` with a real broker: `python tools/make_demo.py LIBS WORK_DIR [DESTINATION]`.

LIBS is a directory with the jars of `org.apache.kafka:kafka_2.13:4.3.1` and what they depend on. WORK_DIR must not
exist; the broker's log directory is made in it, on loopback. What is written is seeded; ids, times of control records
and the like differ from run to run, so the result is kept in the repository.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

_PORT: Final = 19392
_BOOTSTRAP: Final = f"127.0.0.1:{_PORT}"
_CLUSTER_ID: Final = "ZGVtby1rYWZrYWxvZy0wMQ"
_START_MS: Final = 1_760_000_000_000
_SERVER: Final = f"""process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{_PORT},CONTROLLER://127.0.0.1:{_PORT + 1}
advertised.listeners=PLAINTEXT://127.0.0.1:{_PORT}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{_PORT + 1}
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.index.size.max.bytes=10240
log.index.interval.bytes=512
log.retention.ms=-1
"""
_TOPICS: Final = {"orders": 2, "payments": 1, "customers": 1}
_CODECS: Final = (None, "gzip", "snappy", "lz4", "zstd")
_WORDS: Final = ("tea", "lamp", "rope", "café", "paper", "chair", "Straße", "bell", "stone", "pen")


def main() -> None:
    """Run the broker, write, stop it cleanly and copy its log directory."""
    if len(sys.argv) not in {3, 4}:
        sys.exit(__doc__)
    libs, work_dir = Path(sys.argv[1]), Path(sys.argv[2])
    destination = Path(sys.argv[3]) if len(sys.argv) == 4 else Path(__file__).resolve().parents[1] / "fixtures" / "demo"
    work_dir.mkdir(parents=True)
    log_dir = work_dir / "log-dir"
    config = work_dir / "server.properties"
    config.write_text(f"{_SERVER}log.dirs={log_dir}\n")
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*"]
    format_options = ["format", "-t", _CLUSTER_ID, "-c", str(config), "--standalone"]
    subprocess.run([*java, "kafka.tools.StorageTool", *format_options], check=True)
    with (work_dir / "broker.log").open("wb") as output:
        broker = subprocess.Popen([*java, "kafka.Kafka", str(config)], stdout=output, stderr=subprocess.STDOUT)
        try:
            asyncio.run(_write())
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.wait(timeout=60)
    shutil.rmtree(destination, ignore_errors=True)
    shutil.copytree(log_dir, destination, ignore=shutil.ignore_patterns(".lock"))


async def _write() -> None:
    await _create_topics()
    generator = random.Random(431)  # noqa: S311 - the same records in every run
    for codec in _CODECS:
        await _write_orders(generator, codec)
    await _write_customers(generator)
    await _write_payments(generator)
    await _commit_offsets()


async def _create_topics() -> None:
    deadline = time.monotonic() + 60
    while True:
        admin = AIOKafkaAdminClient(bootstrap_servers=_BOOTSTRAP)
        try:
            await admin.start()
            configs = {"internal.segment.bytes": "3000"}
            compact = {"cleanup.policy": "compact"}
            await admin.create_topics(
                [
                    NewTopic(name, count, 1, topic_configs=configs | (compact if name == "customers" else {}))
                    for name, count in _TOPICS.items()
                ]
            )
        except KafkaError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.5)
        else:
            return
        finally:
            await admin.close()


async def _write_orders(generator: random.Random, codec: str | None) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=_BOOTSTRAP, compression_type=codec, linger_ms=20, acks="all")
    await producer.start()
    sends = []
    for _ in range(40):
        number = generator.randrange(10_000)
        text = f'{{"order":{number},"item":"{generator.choice(_WORDS)}","count":{generator.randrange(1, 9)}}}'
        sends.append(
            await producer.send(
                "orders",
                text.encode(),
                key=f"customer-{number % 50}".encode(),
                partition=number % 2,
                timestamp_ms=_START_MS + number * 100,
                headers=[("trace", generator.randbytes(6)), ("client", (codec or "plain").encode())],
            )
        )
    await asyncio.gather(*sends)
    await producer.stop()


async def _write_customers(generator: random.Random) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=_BOOTSTRAP, enable_idempotence=True)
    await producer.start()
    for number in range(30):
        gone = number % 7 == 6
        name = f"{generator.choice(_WORDS)} {generator.choice(_WORDS)}".encode()
        key = f"customer-{number % 12}".encode()
        await producer.send_and_wait("customers", None if gone else name, key=key, timestamp_ms=_START_MS + number)
    await producer.stop()


async def _write_payments(generator: random.Random) -> None:
    """Three transactions that end, the second one by an abort, and one that is left open."""
    producer = AIOKafkaProducer(bootstrap_servers=_BOOTSTRAP, transactional_id="payments-1")
    await producer.start()
    for commits in (True, False, True):
        await producer.begin_transaction()
        await _pay(producer, generator, 5)
        await (producer.commit_transaction() if commits else producer.abort_transaction())
    await producer.begin_transaction()
    await _pay(producer, generator, 2)
    # No stop: that would end the transaction. The process's end closes the connection.


async def _pay(producer: AIOKafkaProducer, generator: random.Random, count: int) -> None:
    for number in range(count):
        cents = generator.randrange(100, 99_999)
        await producer.send_and_wait(
            "payments", cents.to_bytes(8, "big"), key=f"order-{number}".encode(), timestamp_ms=_START_MS + cents
        )


async def _commit_offsets() -> None:
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=_BOOTSTRAP,
        group_id="billing",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    await consumer.getone()
    await consumer.commit({TopicPartition("orders", 0): 17, TopicPartition("orders", 1): 23})
    await consumer.stop()


if __name__ == "__main__":
    main()
