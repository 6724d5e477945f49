"""What `explain` and findings say of ids, settings, levels and internal topics, next to real brokers."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import pytest
from aiokafka import AIOKafkaProducer

from tests.integration import clients
from tests.integration.broker import Broker
from tests.integration.said_of import TOPIC, commit, committed, produce, until
from tests.integration.zookeeper_broker import ZooKeeperBroker
from tests.support import jars
from tests.support.asking import SocketClient

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.slow]

SECONDS: Final = 90
DEFAULT_BYTES: Final = "1048588"
LATER_RELEASE: Final = "4.4.0"
INVALID_CONFIG: Final = 40
OF_ANOTHER: Final = "QW5vdGhlci1jbHVzdGVyIQ"
"""A cluster id."""


def output_of_a_failed_start(broker: Broker) -> str:
    """What a broker writes that ends by itself."""
    broker.start_without_waiting()
    deadline = time.monotonic() + SECONDS
    while broker.is_running:
        assert time.monotonic() < deadline, broker.output[-4000:]
        time.sleep(0.1)
    return broker.output


def fetched(version: str) -> Path:
    """The jars of a release."""
    try:
        return jars.fetch(version)
    except jars.MissingError as missing:
        pytest.skip(str(missing))


# --- ids and levels ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (None, "No readable meta.properties files found."),
        ({"cluster.id": ""}, "No readable meta.properties files found."),
        ({"version": "9"}, "No readable meta.properties files found."),
        ({"node.id": "x"}, "No readable meta.properties files found."),
        ({"version": ""}, "Error: node ID not found in "),
        ({"node.id": ""}, "No readable meta.properties files found."),
        ({"version": "", "node.id": "", "cluster.id": "", "directory.id": ""}, "Error: node ID not found in "),
    ],
)
def test_the_only_meta_properties(libs: Path, tmp_path: Path, lines: Mapping[str, str] | None, text: str) -> None:
    """With other values of some lines, without those whose value is empty here, or missing as a whole."""
    broker = Broker(libs, tmp_path)
    path = broker.log_dir / "meta.properties"
    if lines is None:
        path.unlink()
    else:
        _change(path, lines)
    assert text in output_of_a_failed_start(broker)


def _change(path: Path, lines: Mapping[str, str]) -> None:
    values = dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line) | lines
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items() if value))


def test_the_cluster_id_of_another_zookeeper(tmp_path: Path) -> None:
    """The broker refuses it."""
    broker = ZooKeeperBroker(fetched(jars.ZOOKEEPER_ERA), tmp_path)
    try:
        broker.start()
        broker.stop()
        _change(broker.log_dir / "meta.properties", {"cluster.id": OF_ANOTHER})
        assert f"doesn't match stored clusterId Some({OF_ANOTHER}) in meta.prop" in output_of_a_failed_start(broker)
    finally:
        broker.close()


def test_a_level_of_a_later_release(libs: Path, tmp_path: Path) -> None:
    """The controller and the broker each refuse the record that sets it; the first of them ends the process."""
    later = Broker(fetched(LATER_RELEASE), tmp_path)
    later.start()
    later.stop()
    later.java_command[-1] = f"{libs}/*"
    output = output_of_a_failed_start(later)
    assert (
        "but this controller only supports versions " in output
        or "No MetadataVersion with feature level 33. Valid feature levels are from 7 to " in output
    )


# --- settings ---------------------------------------------------------------------------------------------------------
def test_a_setting_that_is_refused(libs: Path, tmp_path: Path) -> None:
    """A client gets an error; with such a line in its server.properties the broker does not start."""
    broker = Broker(libs, tmp_path)
    try:
        broker.start()
        topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "assignments": []}
        topic["configs"] = [{"name": "segment.bytes", "value": "4000"}]
        with SocketClient(broker.bootstrap) as client:
            answer = client.ask("CreateTopics", 4, topics=[topic], timeout_ms=9000, validate_only=False)
        assert answer["topics"][0]["error_code"] == INVALID_CONFIG
    finally:
        broker.close()
    broker.configure({"log.segment.bytes": "4000"})
    text = "Invalid value 4000 for configuration log.segment.bytes: Value must be at least 1048576"
    assert text in output_of_a_failed_start(broker)


# --- internal topics that take no records -----------------------------------------------------------------------------
def limit(broker: Broker, size_bytes: str, *topics: str) -> None:
    """Set the largest batch of topics."""
    with SocketClient(broker.bootstrap) as client:
        change = {"name": "max.message.bytes", "config_operation": 0, "value": size_bytes}
        resources = [{"resource_type": 2, "resource_name": topic, "configs": [change]} for topic in topics]
        client.ask("IncrementalAlterConfigs", 0, resources=resources, validate_only=False)


def test_internal_topics_that_take_no_records(libs: Path, tmp_path: Path) -> None:
    """The offsets of a deleted topic remain; a transaction that timed out is aborted when its record can be written."""
    broker = Broker(libs, tmp_path)
    broker.configure({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"})
    internal = ("__consumer_offsets", "__transaction_state")
    try:
        broker.start()
        for topic in (TOPIC, "txn"):
            asyncio.run(clients.create_topic(broker, topic, {}))
        asyncio.run(produce(broker, TOPIC, b"a", b"b", b"c"))
        asyncio.run(commit(broker, "first", 2))
        asyncio.run(_begin_transaction(broker, "txn"))
        limit(broker, "1", *internal)
        asyncio.run(clients.delete_topic(broker, TOPIC))
        for text in (
            "Failed to write a batch of 1 record(s) to __consumer_offsets-0 because it is larger than the maximum",
            "Could not delete offsets for deleted topics",
            "The coordinator failed to write an epoch fence transition for producer a to the transaction log",
            "Rollback of ongoing transaction for transactionalId a failed due to error",
        ):
            asyncio.run(until(broker, text))
        limit(broker, DEFAULT_BYTES, *internal)
        asyncio.run(until(broker, "Completed rollback of ongoing transaction for transactionalId a"))
        assert committed(broker, "first") == (0, 2)
    finally:
        broker.close()


async def _begin_transaction(broker: Broker, topic: str) -> None:
    """A transaction whose producer is gone."""
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="a", transaction_timeout_ms=6000)
    await producer.start()
    await producer.begin_transaction()
    await producer.send_and_wait(topic, b"x", partition=0)
    await producer.client.close()
    producer._closed = True  # else it warns that nobody has stopped it
