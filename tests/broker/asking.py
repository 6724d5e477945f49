"""A client without a socket: a request is encoded, given to a dispatcher, and its response decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_core.broker.answers import ConnectionFacts, Reply
from kafkalog_core.wire.codec import codec
from kafkalog_core.wire.frames import encode_request
from kafkalog_core.wire.schemas import apis

if TYPE_CHECKING:
    from kafkalog_core.broker.answers import Answer
    from kafkalog_core.broker.requests import RequestDispatcher

FROM = ConnectionFacts(1, "127.0.0.1", 50000, "PLAINTEXT", 0)
_CORRELATION = 7
_API_VERSIONS = 18


def send(
    dispatcher: RequestDispatcher, name: str, version: int, body: dict[str, Any], sender: ConnectionFacts = FROM
) -> Answer:
    """The answer to a request."""
    pieces = encode_request(name, version, body, correlation_id=_CORRELATION, client_id="test")
    frame = b"".join(bytes(piece) for piece in pieces)  # type: ignore[call-overload]  # no file range in a request
    return dispatcher.handle(memoryview(frame)[4:], sender)


def ask(
    dispatcher: RequestDispatcher, name: str, version: int, body: dict[str, Any], sender: ConnectionFacts = FROM
) -> dict[str, Any]:
    """The body of the response to a request that is answered at once."""
    answer = send(dispatcher, name, version, body, sender)
    assert isinstance(answer, Reply), answer
    return response(name, version, answer)


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
