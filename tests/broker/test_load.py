"""A live broker under load and under garbage: a thousand connections, and frames that no client sends.

The garbage goes on for 20 s, or as many seconds as KAFKALOG_FUZZ_SECONDS says.
"""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Producer

from kafkalog_core.errors import ProtocolError
from kafkalog_core.wire.frames import encode_request
from kafkalog_core.wire.schemas import apis, schema_of
from tests.support.live import QUIET, SECONDS, LiveServer, create_topics, read_all
from tests.support.messages import message as random_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.wire.schemas import Api

pytestmark = pytest.mark.slow

FUZZ_SECONDS: Final = float(os.environ.get("KAFKALOG_FUZZ_SECONDS", "20"))
HELD: Final = 1_000
ACTIVE: Final = 200
MEMORY_BYTES: Final = 64 * 1024 * 1024
"""What a thousand connections, 200 of them active, may add to the memory of the process."""
API_VERSIONS: Final = b"".join(
    bytes(piece)  # type: ignore[call-overload]  # no file range in a request
    for piece in encode_request("ApiVersions", 0, {}, correlation_id=1, client_id="held")
)
UNSAFE: Final = frozenset(
    {"CreateTopics", "CreatePartitions", "DeleteTopics", "IncrementalAlterConfigs", "AlterConfigs"}
)
"""Requests that a random one of which may make thousands of partitions, or delete the topic that the test reads."""


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


class Garbage(threading.Thread):
    """A client that sends requests of random content, broken ones, and what is no request at all."""

    def __init__(self, server: LiveServer, seed: int, until_s: float) -> None:
        super().__init__(daemon=True)
        self.sent = self.answered = 0
        self._server = server
        self._dice = random.Random(seed)
        self._until_s = until_s

    def run(self) -> None:
        while time.monotonic() < self._until_s:
            with closing(connected(self._server)) as connection:
                connection.settimeout(0.03)
                for frame in self._frames():
                    try:
                        connection.sendall(frame)
                        self.sent += 1
                        if not receive(connection):
                            break
                        self.answered += 1
                    except TimeoutError:
                        break
                    except (BrokenPipeError, ConnectionResetError):
                        break

    def _frames(self) -> Iterator[bytes]:
        dice = self._dice
        for _ in range(dice.randint(1, 12)):
            yield self._frame()

    def _frame(self) -> bytes:
        dice = self._dice
        if dice.random() < 0.1:
            return dice.randbytes(dice.randint(1, 300))
        if dice.random() < 0.1:
            size = dice.choice((0, 1, 7, 8, 100, 1 << 20, 1 << 27, (1 << 31) - 1, (1 << 32) - 1))
            return struct.pack(">I", size) + dice.randbytes(dice.randint(0, 100))
        data = bytearray(self._request(dice.choice([each for each in apis().values() if each.name not in UNSAFE])))
        if dice.random() < 0.6:
            for _ in range(dice.randint(1, 6)):
                data[dice.randrange(4, len(data))] = dice.randrange(256)
        if dice.random() < 0.2:
            del data[dice.randrange(4, len(data)) :]
            data[:4] = struct.pack(">I", len(data) - 4)
        return bytes(data)

    def _request(self, api: Api) -> bytes:
        dice = self._dice
        version = dice.randint(api.versions.first, api.versions.last)
        fields = schema_of(f"{api.name}Request", version).fields
        body = random_message(fields, version, dice, dice.choice((2, 8, 31)))
        try:
            pieces = encode_request(api.name, version, body, correlation_id=7, client_id="garbage")
        except ProtocolError:
            return API_VERSIONS
        return b"".join(bytes(piece) for piece in pieces)  # type: ignore[call-overload]


def test_no_frame_ends_the_broker_or_makes_it_leak(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data", "auto.create.topics.enable=false") as server:
        create_topics(server.address, ["t", "a", "topic-1"], 1)  # the last two are named in random requests
        values = produced(server.address, "t", 0, 100)
        warm = Garbage(server, 0, time.monotonic() + FUZZ_SECONDS / 4)
        warm.start()
        warm.join()
        time.sleep(1)
        memory, files = resident_bytes(server.pid), open_files(server.pid)
        until_s = time.monotonic() + FUZZ_SECONDS
        clients = [Garbage(server, seed, until_s) for seed in range(1, 9)]
        for each in clients:
            each.start()
        for each in clients:
            each.join(FUZZ_SECONDS + 2 * SECONDS)
            assert not each.is_alive()
        sent, answered = sum(each.sent for each in clients), sum(each.answered for each in clients)
        assert sent > 20 * FUZZ_SECONDS
        assert answered > sent / 20
        values += produced(server.address, "t", 100, 100)
        found = read_all(server.address, ["t"], "read_uncommitted")["t", 0]
        assert [value for _, _, value in found if value in set(values)] == values
        time.sleep(1)
        grown = resident_bytes(server.pid) - memory
        assert grown < MEMORY_BYTES, f"after {sent} frames and {answered} answers"
        assert open_files(server.pid) <= files + 32
        server.stop()
