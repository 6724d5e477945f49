"""Requests and responses with their headers, and the frame of a request.

A frame is its length in four bytes, a header and a body. The header of a request names the API and the version of
header and body; that of a response holds the correlation id alone (`RequestHeader.parse`, `ResponseHeader`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from kafkalog_core.errors import ProtocolError
from kafkalog_core.structs import Struct
from kafkalog_core.wire.codec import MAX_ELEMENTS, ElementLimitError, codec
from kafkalog_core.wire.schemas import api_of, apis

if TYPE_CHECKING:
    from kafkalog_core.wire.codec import Codec, EncodedPart
    from kafkalog_core.wire.schemas import Api

__all__ = [
    "LargeRequestError",
    "Request",
    "UnsupportedVersionError",
    "decode_request",
    "encode_request",
    "encode_response",
]

_PREFIX_BYTES: Final = 8  # API key and version, correlation id: every header begins with them
_PREFIX_FIELDS: Final = ((0, 2), (2, 4), (4, 8))
_LENGTH_BYTES: Final = 4
_API_VERSIONS: Final = 18
_JOINED_BYTES: Final = 1 << 16
_BYTES_ALONE: Final = {bytes}


class UnsupportedVersionError(ProtocolError):
    """A request of a known API in a version that is not known; its body cannot be read.

    The answer to ApiVersions is version 0 of its response with the error 35, from which clients learn the range.
    """

    def __init__(self, api: Api, version: int, correlation_id: int) -> None:
        super().__init__(
            f"{api.name} has no version {version}; the known ones are {api.versions.first} to {api.versions.last}"
        )
        self.api = api
        self.version = version
        self.correlation_id = correlation_id


class LargeRequestError(ProtocolError):
    """A request whose arrays have more elements than are read; its header is known."""

    def __init__(self, api: Api, version: int, correlation_id: int, why: str) -> None:
        super().__init__(f"{api.name} of version {version}: {why}")
        self.api = api
        self.version = version
        self.correlation_id = correlation_id


class Request(Struct):
    """A request: its API, the version of its body, the header's values, and the decoded body."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    body: dict[str, Any]


def decode_request(data: bytes | memoryview, max_elements: int = MAX_ELEMENTS) -> Request:
    """Return the request in a frame, without the frame's length.

    Bytes after the body are ignored, as `AbstractRequest.parseRequest` does: librdkafka 2.16 sends three of them in
    Metadata of version 13. max_elements: of all arrays together. Raises UnsupportedVersionError, LargeRequestError for
    more elements, and ProtocolError if the bytes are not a request.
    """
    if len(data) < _PREFIX_BYTES:
        raise ProtocolError(f"a request has at least {_PREFIX_BYTES} bytes, not {len(data)}")
    key, version, correlation_id = (int.from_bytes(data[at:end], "big", signed=True) for at, end in _PREFIX_FIELDS)
    api = api_of(key)
    if version not in api.versions:
        raise UnsupportedVersionError(api, version, correlation_id)
    of_header, of_body = _request_codecs(key, version)
    header, position = of_header.decode(data)
    try:
        body, _ = of_body.decode(data, position, max_elements=max_elements)
    except ElementLimitError as error:
        raise LargeRequestError(api, version, correlation_id, str(error)) from error
    return Request(api, version, correlation_id, header["client_id"], body)


def encode_request(
    name: str, version: int, body: dict[str, Any], *, correlation_id: int, client_id: str | None
) -> list[EncodedPart]:
    """Return the pieces of a frame with a request. Raises ProtocolError."""
    api = _named(name)
    head = {
        "request_api_key": api.key,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    header = codec("RequestHeader", _header_version(api, version)).encode(head)
    pieces = header + codec(f"{name}Request", version).encode(body)
    return _joined([sum(map(len, pieces)).to_bytes(_LENGTH_BYTES, "big"), *pieces])


def encode_response(api: Api, version: int, correlation_id: int, body: dict[str, Any]) -> list[EncodedPart]:
    """Return the pieces of a response, header and body, without the length of its frame. Raises ProtocolError.

    Small pieces are joined. A range of a file remains a piece of its own.
    """
    of_header, of_body = _response_codecs(api.key, version)
    return _joined(of_header.encode({"correlation_id": correlation_id}) + of_body.encode(body))


@cache
def _request_codecs(key: int, version: int) -> tuple[Codec, Codec]:
    api = api_of(key)
    return codec("RequestHeader", _header_version(api, version)), codec(f"{api.name}Request", version)


@cache
def _response_codecs(key: int, version: int) -> tuple[Codec, Codec]:
    api = api_of(key)
    is_flexible = api.is_flexible(version) and api.key != _API_VERSIONS  # a client reads that one before it knows us
    return codec("ResponseHeader", int(is_flexible)), codec(f"{api.name}Response", version)


def _named(name: str) -> Api:
    for api in apis().values():
        if api.name == name:
            return api
    raise ProtocolError(f"no request of a client is named {name}")


def _header_version(api: Api, version: int) -> int:
    return 2 if api.is_flexible(version) else 1


def _joined(pieces: list[EncodedPart]) -> list[EncodedPart]:
    """Return pieces of which small neighbours are joined."""
    if set(map(type, pieces)) == _BYTES_ALONE and sum(map(len, pieces)) < _JOINED_BYTES:  # nearly every response
        return [b"".join(cast("list[bytes]", pieces))]
    joined: list[EncodedPart] = []
    small: list[bytes] = []
    for piece in pieces:
        if isinstance(piece, (bytes, memoryview)) and len(piece) < _JOINED_BYTES:
            small.append(bytes(piece))
            continue
        if small:
            joined.append(b"".join(small))
        joined.append(piece)
        small = []
    return [*joined, b"".join(small)] if small else joined
