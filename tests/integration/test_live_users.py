"""SCRAM users and quotas that clients give `kafkalog serve --read-write`: a real broker goes on with them, and back."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from tests.integration.successor import Successor
from tests.support import jars
from tests.support.live import LiveServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOOL: Final = "kafka.admin.ConfigCommand"
LOGIN: Final = "SCRAM-SHA-{}=[iterations=8192,password=secret]"
ENTITIES: Final = (
    ("--entity-type", "users", "--entity-name", "anna"),
    ("--entity-type", "users", "--entity-default"),
    ("--entity-type", "clients", "--entity-name", "c"),
    ("--entity-type", "users", "--entity-name", "anna", "--entity-type", "clients", "--entity-default"),
    ("--entity-type", "ips", "--entity-name", "127.0.0.9"),
)
KINDS: Final = (
    ("--entity-type", "users"),
    ("--entity-type", "clients"),
    ("--entity-type", "users", "--entity-type", "clients"),
    ("--entity-type", "ips"),
)


@pytest.fixture
def successor(libs: Path, tmp_path: Path) -> Iterator[Successor]:
    """A real broker over the directory `data`."""
    (tmp_path / "data").mkdir()
    broker = Successor(libs, tmp_path / "real", tmp_path / "data")
    yield broker
    broker.close()


def configs(address: str, *arguments: str) -> list[str]:
    """What Kafka's own tool writes."""
    version = jars.KAFKA_VERSION
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command = [str(jars.runtime(version)), *options, "-cp", f"{jars.fetch(version)}/*", TOOL]
    command += ["--bootstrap-server", address, *arguments]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(map(_in_order, done.stdout.splitlines()))


def _in_order(line: str) -> str:
    """A line with its values in order: a broker lists mechanisms as a hash map has them, which is new in each start."""
    what, are, values = line.partition(" are ")
    return what + are + ", ".join(sorted(values.split(", ")))


def described(address: str) -> list[str]:
    """All users and quotas."""
    return [line for kind in KINDS for line in configs(address, "--describe", *kind)]


def settled(address: str, is_wanted: Callable[[list[str]], bool]) -> list[str]:
    """The same once a real broker has applied what its metadata log holds, which it does a moment later."""
    for _ in range(10):
        found = described(address)
        if is_wanted(found):
            break
    return found


def alter(address: str, entity: tuple[str, ...], change: str) -> None:
    configs(address, "--alter", *entity, "--add-config", change)


def test_a_real_broker_describes_the_same_users_and_quotas(successor: Successor) -> None:
    with LiveServer(successor.log_dir) as server:
        for size in (256, 512):  # a controller refuses both in one request
            alter(server.address, ENTITIES[0], LOGIN.format(size))
        for number, entity in enumerate(ENTITIES, 1):
            is_ip = "ips" in entity
            rate = f"connection_creation_rate={number}00"
            alter(server.address, entity, rate if is_ip else f"producer_byte_rate={number}000,request_percentage=12.5")
        for key in ("SCRAM-SHA-256", "request_percentage"):
            configs(server.address, "--alter", *ENTITIES[0], "--delete-config", key)
        before = described(server.address)
        text = "\n".join(before)
        assert "SCRAM-SHA-512=iterations=8192" in text
        assert "SCRAM-SHA-256" not in text
        assert text.count("producer_byte_rate") == 4
        assert "connection_creation_rate=500.0" in text
        server.stop()
    successor.start()
    try:
        assert settled(successor.bootstrap, lambda found: found == before) == before
        alter(successor.bootstrap, ENTITIES[0], LOGIN.format(256))
        alter(successor.bootstrap, ENTITIES[2], "consumer_byte_rate=77")
        after = settled(successor.bootstrap, lambda found: "SCRAM-SHA-256" in str(found) and "=77" in str(found))
        assert after != before
    finally:
        successor.stop()
    with LiveServer(successor.log_dir) as server:
        assert described(server.address) == after
        server.stop()
