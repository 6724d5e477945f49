"""A client without a socket: a request is encoded, given to a dispatcher, and its response decoded."""

from __future__ import annotations

import math
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any, Self

from kafkalog_core.serve.network.answers import ConnectionFacts, PendingAnswer, Reply
from kafkalog_core.wire.codec import codec
from kafkalog_core.wire.frames import encode_request
from kafkalog_core.wire.schemas import apis

if TYPE_CHECKING:
    from kafkalog_core.serve.network.answers import Answer
    from kafkalog_core.serve.network.requests import RequestDispatcher

FROM = ConnectionFacts(1, "127.0.0.1", 50000, "PLAINTEXT", 0)
_CORRELATION = 7
_API_VERSIONS = 18
_SECONDS = 60


def send(
    dispatcher: RequestDispatcher, name: str, version: int, body: dict[str, Any], sender: ConnectionFacts = FROM
) -> Answer:
    """The answer to a request; another thread handles changes and long reads, and their answer is waited for."""
    pieces = encode_request(name, version, body, correlation_id=_CORRELATION, client_id="test")
    frame = b"".join(bytes(piece) for piece in pieces)  # type: ignore[call-overload]  # no file range in a request
    return settled(dispatcher.handle(memoryview(frame)[4:], sender))


def ask(
    dispatcher: RequestDispatcher, name: str, version: int, body: dict[str, Any], sender: ConnectionFacts = FROM
) -> dict[str, Any]:
    """The body of the response to a request that is answered at once."""
    answer = send(dispatcher, name, version, body, sender)
    assert isinstance(answer, Reply), answer
    return response(name, version, answer)


def settled(answer: Answer) -> Answer:
    """The answer itself, or the one that a thread of `RequestThreads` gives soon."""
    if isinstance(answer, PendingAnswer) and answer.deadline_s == math.inf:
        done = threading.Event()
        answer.attach(done.set)
        found = answer.take(0.0)
        if found is None:
            assert done.wait(_SECONDS)
            found = answer.take(0.0)
        assert found is not None
        return settled(found)
    return answer


def response(name: str, version: int, reply: Reply) -> dict[str, Any]:
    """The body of a reply without file ranges."""
    data = b"".join(bytes(piece) for piece in reply.pieces)  # type: ignore[arg-type]
    api = next(each for each in apis().values() if each.name == name)
    is_flexible = api.is_flexible(version) and api.key != _API_VERSIONS
    header, position = codec("ResponseHeader", int(is_flexible)).decode(data)
    assert header["correlation_id"] == _CORRELATION
    body, end = codec(f"{name}Response", version).decode(data, position)
    assert end == len(data)
    return body


class SocketClient:
    """A client with one connection, which sends a request and waits for its response."""

    def __init__(self, address: str, client_id: str = "test") -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), _SECONDS)
        self._file = self._socket.makefile("rb")
        self._client_id = client_id

    def ask(self, name: str, version: int, **body: Any) -> dict[str, Any]:
        """The body of the response."""
        pieces = encode_request(name, version, body, correlation_id=_CORRELATION, client_id=self._client_id)
        self._socket.sendall(b"".join(bytes(piece) for piece in pieces))  # type: ignore[call-overload]
        (size,) = struct.unpack(">i", self._file.read(4))
        return response(name, version, Reply([self._file.read(size)]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()
