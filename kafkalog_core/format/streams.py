"""What the decompressors of all codecs share: their results and errors, and the bounds of a payload."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from kafkalog_core.errors import FieldError, LimitError

__all__ = [
    "MAX_PARTS",
    "PIECE_BYTES",
    "Buffer",
    "Content",
    "Inflater",
    "OddStreamError",
    "TrailingError",
    "append",
    "gather",
    "over_limit",
    "over_parts",
]


Buffer = bytes | bytearray | memoryview

PIECE_BYTES: Final = 1024 * 1024  # decompressed at a time if the size is not known to be below the limit
# Members, frames and blocks of one payload: each takes time, and some are empty. Java's streams have blocks of
# 32 KiB and more, and the smallest that snappy-java can be set to are 1 KiB: 256 MiB of them.
MAX_PARTS: Final = 256 * 1024


class Content(Protocol):
    """Decompressed bytes, in the type that the codec's library returns; a memoryview can be made of it."""

    def __len__(self) -> int: ...

    def __buffer__(self, flags: int, /) -> memoryview: ...


Inflater = Callable[[Buffer, int, int], "Content"]


class OddStreamError(FieldError):
    """Something odd about a stream that is read all the same; `content` is its content, `reason` that of the damage."""

    def __init__(self, content: Content, reason: str, detail: str, *, position: int | None) -> None:
        super().__init__(detail, position=position)
        self.content = content
        self.reason = reason
        self.detail = detail


class TrailingError(OddStreamError):
    """Bytes after the end of a whole stream, which Kafka ignores."""

    def __init__(self, content: Content, trailing_bytes: int, *, position: int | None) -> None:
        noun = "byte" if trailing_bytes == 1 else "bytes"
        detail = f"{trailing_bytes} {noun} after the end of the stream, which Kafka ignores"
        super().__init__(content, "payload-trailing", detail, position=position)
        self.trailing_bytes = trailing_bytes


def over_limit(limit_bytes: int) -> LimitError:
    """Return the error for a payload that decompresses to more than the limit."""
    return LimitError(f"the payload inflates to more than the limit of {limit_bytes} bytes")


def over_parts(position: int) -> LimitError:
    """Return the error for a payload of more members, frames or blocks than any client writes."""
    return LimitError(f"the payload has too many parts, {MAX_PARTS} or more", position=position)


def append(gathered: bytearray, content: Content, limit_bytes: int) -> None:
    """Append decompressed bytes.

    Raises:
        LimitError: there are more than the limit in all.
    """
    if len(gathered) + len(content) > limit_bytes:
        raise over_limit(limit_bytes)
    gathered += content


def gather(pieces: Iterable[bytes], limit_bytes: int) -> bytearray:
    """Return all pieces in one buffer. Each piece is bounded, so memory is bounded by the limit and one piece.

    Raises:
        LimitError: the pieces have more bytes than the limit.
    """
    gathered = bytearray()
    for piece in pieces:
        append(gathered, piece, limit_bytes)
    return gathered
