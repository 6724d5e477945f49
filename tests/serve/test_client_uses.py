"""Each Python client does every use that it has, on the live broker and on a dead disk."""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.serve.python_clients import CLIENTS
from tests.support.live import LiveServer
from tests.support.serving import address, serving, serving_the_floor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.serve.server import ReadOnlyBroker
    from tests.serve.python_clients import PythonClient

pytestmark = pytest.mark.slow  # clients of their own, each for a second or two

DEMO = Path(__file__).resolve().parents[2] / "fixtures" / "demo"
REFUSED_SECONDS = 30  # a producer that tries again does so for 60 s or more


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A live broker; each client has a topic of its own."""
    with LiveServer(tmp_path_factory.mktemp("live") / "data") as found:
        yield found
        found.stop()


@contextmanager
def client_of(name: str, server: str) -> Iterator[PythonClient]:
    """A client, which is closed after the test."""
    client = CLIENTS[name](server)
    try:
        yield client
    finally:
        client.close()


@pytest.fixture(scope="module")
def dead() -> Iterator[ReadOnlyBroker]:
    with serving(DEMO) as found:
        yield found


def values(name: str, count: int) -> list[bytes]:
    return [f"{name} {number:03}".encode() for number in range(count)]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_does_every_use_on_the_live_broker(name: str, server: LiveServer) -> None:
    with client_of(name, server.address) as client:
        use_live(client, name, f"{name}-group")


def use_live(client: PythonClient, topic: str, group: str) -> None:
    client.create(topic)
    assert topic in client.topics()
    start_ms = time.time_ns() // 1_000_000
    plain = [value for acks in (0, 1, "all") for value in values(f"acks {acks}", 10)]
    for acks in (0, 1, "all"):
        client.produce(topic, values(f"acks {acks}", 10), acks=acks)
    client.produce(topic, values("idempotent", 10), is_idempotent=True)
    client.transact(topic, values("committed", 10), group, 3, is_commit=True)
    client.transact(topic, values("aborted", 10), group, 7, is_commit=False)
    assert client.committed(topic, group) == [3, None], "the offset of the aborted transaction is not there"
    committed = sorted(plain + values("idempotent", 10) + values("committed", 10))
    everything = sorted(committed + values("aborted", 10))
    assert client.read(topic, "read_uncommitted", 60) == everything
    assert client.read(topic, "read_committed", 50) == committed
    assert client.share(topic, f"{topic}-other", 50) == committed
    start, end = client.ends(topic)
    assert (start, end) == (0, 32), "30 records and 2 markers"
    assert all(offset is not None and offset >= 25 for offset in client.committed(topic, f"{topic}-other"))
    assert client.offset_at(topic, start_ms - 1000) == 0
    assert client.offset_at(topic, start_ms + 3_600_000) is None
    assert client.set_config(topic, "100000") == "100000"
    assert group in client.groups()
    assert client.state_of(group) == "Empty"
    if client.delete_group(group):
        assert group not in client.groups()
    client.delete_records(topic, 4)
    assert client.ends(topic) == (4, 32)
    client.delete(topic)
    assert topic not in client.topics()


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_does_every_use_on_a_dead_disk(name: str, dead: ReadOnlyBroker) -> None:
    with client_of(name, address(dead)) as client:
        use_dead(client, f"{name}-group")


def use_dead(client: PythonClient, group: str) -> None:
    assert client.topics() >= {"customers", "orders", "payments"}
    assert len(client.read("orders", "read_uncommitted", 200)) == 200
    assert client.committed("orders", "billing") == [17, 23]
    assert len(client.share("orders", group, 200)) == 200
    assert client.committed("orders", group) == [92, 108]
    assert client.ends("orders") == (0, 92)
    assert client.offset_at("customers", 1760000000010) == 10
    assert client.groups() >= {"billing", group}
    assert client.state_of("billing") == "Empty"
    start_s = time.monotonic()
    with pytest.raises(Exception, match=r"(?i)authoriz"):
        client.produce("orders", [b"v"])
    assert time.monotonic() - start_s < REFUSED_SECONDS


@pytest.mark.parametrize("name", [name for name in CLIENTS if name != "librdkafka-848"])
def test_a_client_reads_from_a_broker_that_knows_old_versions_alone(name: str) -> None:
    with serving_the_floor(DEMO) as broker, client_of(name, address(broker)) as client:
        assert client.topics() >= {"customers", "orders", "payments"}
        assert len(client.read("orders", "read_uncommitted", 200)) == 200
        assert len(client.share("orders", "floor", 200, "read_uncommitted")) == 200
        assert client.committed("orders", "floor") == [92, 108]
        assert client.ends("orders") == (0, 92)
