"""Clients of a server process that are sockets alone, and what the process takes: its memory and its open files."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer

from kafkalog_core.wire.frames import encode_request
from tests.support.live import QUIET, SECONDS

if TYPE_CHECKING:
    from tests.support.live import LiveServer

__all__ = ["API_VERSIONS", "connected", "memory_bytes", "open_files", "processor_s", "produced", "receive"]

API_VERSIONS: Final = b"".join(
    bytes(piece)  # type: ignore[call-overload]  # no file range in a request
    for piece in encode_request("ApiVersions", 0, {}, correlation_id=1, client_id="other")
)


def memory_bytes(pid: int, name: str) -> int:
    """The memory of a process: VmRSS, now; VmHWM, at most so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def processor_s(pid: int) -> float:
    """The time of processors that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
    data = bytearray()
    size = 4
    while len(data) < size:
        piece = connection.recv(1 << 16)
        if not piece:
            return b""
        data += piece
        if len(data) >= 4:
            size = 4 + struct.unpack(">i", data[:4])[0]
    return bytes(data[4:])


def produced(address: str, topic: str, first: int, count: int) -> list[bytes]:
    """Records that a client writes, all acknowledged."""
    values = [f"{number}".encode() for number in range(first, first + count)]
    producer = Producer({"bootstrap.servers": address, "acks": "all", **QUIET})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(SECONDS) == 0
    return values
