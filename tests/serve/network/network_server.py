"""A network server over sockets on loopback, an observer that keeps its events, and its clients."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from kafkalog_core.serve.network.answers import NetworkLimits, Reply
from kafkalog_core.serve.network.socket_server import Listener, NetworkServer, PlainTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE_S = 120.0
MIB = 1024 * 1024


class Events:
    """An observer that keeps every event, and lets a test wait for one."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []
        self._changed = threading.Condition()

    def __getattr__(self, name: str) -> Callable[..., None]:
        def note(*facts: object) -> None:
            with self._changed:
                self.seen.append((name, *facts))
                self._changed.notify_all()

        return note

    def of(self, name: str) -> list[tuple[object, ...]]:
        with self._changed:
            return [each[1:] for each in self.seen if each[0] == name]

    def wait(self, name: str, count: int = 1) -> list[tuple[object, ...]]:
        def found() -> bool:
            return sum(each[0] == name for each in self.seen) >= count

        with self._changed:
            assert self._changed.wait_for(found, PATIENCE_S), (name, self.seen[-10:])
        return self.of(name)

    def reasons(self, count: int = 1) -> list[object]:
        return [each[1] for each in self.wait("connection_closed", count)]


class Handler:
    """A handler from a function of the request's bytes; the request is echoed where there is none."""

    def __init__(self, answer: Callable[[bytes], object] | None = None) -> None:
        self.requests: list[bytes] = []
        self._answer = answer or (lambda request: Reply([request]))

    def handle(self, request, connection):
        self.requests.append(bytes(request))
        return self._answer(bytes(request))


@contextmanager
def serving(
    answer=None,
    *,
    clock=time.monotonic,
    processors=2,
    limits=None,
    host="127.0.0.1",
    transport=PlainTransport,
    max_frame_bytes=None,
):
    """A running server with its events; afterwards no thread and no descriptor of it is left."""
    before, running = descriptors(), set(threading.enumerate())
    events = Events()
    handler = answer if isinstance(answer, Handler) else Handler(answer)
    server = NetworkServer(
        [Listener("PLAIN", host, 0, transport)],
        handler,
        clock,
        observer=events,
        limits=limits or NetworkLimits(),
        processors=processors,
        max_frame_bytes=max_frame_bytes,
    )
    server.start()
    try:
        yield server, events
    finally:
        assert server.close(grace_s=0 if clock is not time.monotonic else 5)
        assert not [each for each in threading.enumerate() if each not in running and each.name.startswith("kafkalog-")]
    left = descriptors() - before
    assert not left, left


def descriptors() -> set[str]:
    """The open descriptors, with what they are of."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}').removesuffix(' (deleted)')}")
    return found


@contextmanager
def connected(server: NetworkServer, receive_buffer: int | None = None) -> Iterator[socket.socket]:
    address = server.addresses[0]
    with socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET) as client:
        if receive_buffer is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(PATIENCE_S)
        client.connect((address.host, address.port))
        yield client


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def take(client: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes, or what came before the end."""
    found = bytearray()
    while len(found) < size and (more := client.recv(min(size - len(found), 4 * MIB))):
        found += more
    return bytes(found)


def answer_of(client: socket.socket) -> bytes:
    return take(client, int.from_bytes(take(client, 4), "big"))
