"""A live broker under load: a thousand connections."""

from __future__ import annotations

import os
import socket
import struct
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from kafkalog_core.wire.frames import encode_request
from tests.support.live import QUIET, SECONDS, LiveServer, create_topics

pytestmark = pytest.mark.slow

HELD: Final = 1_000
ACTIVE: Final = 200
MEMORY_BYTES: Final = 64 * 1024 * 1024
"""What a thousand connections, 200 of them active, may add to the memory of the process."""
API_VERSIONS: Final = b"".join(
    bytes(piece)  # type: ignore[call-overload]  # no file range in a request
    for piece in encode_request("ApiVersions", 0, {}, correlation_id=1, client_id="held")
)


def resident_bytes(pid: int) -> int:
    """The memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_files(pid: int) -> int:
    """The number of open descriptors of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def connected(server: LiveServer) -> socket.socket:
    """A connection of a client that gives up after some seconds."""
    host, _, port = server.address.rpartition(":")
    found = socket.create_connection((host, int(port)), SECONDS)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def receive(connection: socket.socket) -> bytes:
    """One response; empty: the connection was closed."""
    data = b""
    size = 4
    while len(data) < size:
        piece = connection.recv(1 << 16)
        if not piece:
            return b""
        data += piece
        if len(data) >= 4:
            size = 4 + struct.unpack(">i", data[:4])[0]
    return data[4:]


def produced(address: str, topic: str, first: int, count: int) -> list[bytes]:
    """Records that a client writes, all acknowledged."""
    values = [f"{number}".encode() for number in range(first, first + count)]
    producer = Producer({"bootstrap.servers": address, "acks": "all", **QUIET})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(SECONDS) == 0
    return values


def test_a_thousand_connections_are_held_and_200_of_them_served(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data") as server, ExitStack() as stack:
        create_topics(server.address, ["t"], 1)
        produced(server.address, "t", 0, 10)
        before = resident_bytes(server.pid)
        held = [stack.enter_context(closing(connected(server))) for _ in range(HELD)]
        for each in held:
            each.sendall(API_VERSIONS)
        assert all(receive(each) for each in held)
        until_s = time.monotonic() + 5
        rounds = 0
        while time.monotonic() < until_s:
            for each in held[:ACTIVE]:
                each.sendall(API_VERSIONS)
            assert all(receive(each) for each in held[:ACTIVE])
            rounds += 1
        assert rounds > 10
        assert resident_bytes(server.pid) - before < MEMORY_BYTES
        produced(server.address, "t", 10, 10)
        held[-1].sendall(API_VERSIONS)
        assert receive(held[-1]), "one that was silent all the time"
