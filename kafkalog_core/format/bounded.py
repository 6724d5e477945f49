"""What the codecs share: the buffers that they take and give, and what bounds memory and time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.errors import FieldError, LimitError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "MAX_PARTS",
    "PIECE_BYTES",
    "Buffer",
    "Content",
    "TrailingError",
    "append",
    "gather",
    "over_limit",
    "over_parts",
]

Buffer = bytes | bytearray | memoryview

PIECE_BYTES: Final = 1024 * 1024  # inflated at a time where the end is not known to be below the limit
# Members, frames and blocks of one payload: each takes time, and some hold nothing. Java's streams have blocks of
# 32 KiB and more, and the smallest that snappy-java can be set to are 1 KiB: 256 MiB of them.
MAX_PARTS: Final = 256 * 1024


class Content(Protocol):
    """Inflated bytes in whatever object the codec's library makes of them. A memoryview shows what is inside."""

    def __len__(self) -> int: ...

    def __buffer__(self, flags: int, /) -> memoryview: ...


class TrailingError(FieldError):
    """Bytes behind the end of a whole stream, which Kafka ignores; `content` is all that the stream holds."""

    def __init__(self, content: Content, trailing_bytes: int, *, position: int | None) -> None:
        noun = "byte" if trailing_bytes == 1 else "bytes"
        super().__init__(f"{trailing_bytes} {noun} behind the stream, which Kafka ignores", position=position)
        self.content = content
        self.trailing_bytes = trailing_bytes


def over_limit(limit_bytes: int) -> LimitError:
    """The error for a payload that inflates to more than the limit."""
    return LimitError(f"the payload inflates to more than the limit of {limit_bytes} bytes")


def over_parts(position: int) -> LimitError:
    """The error for a payload of more members, frames or blocks than anyone writes."""
    return LimitError(f"the payload has too many parts, {MAX_PARTS} or more", position=position)


def append(gathered: bytearray, content: Content, limit_bytes: int) -> None:
    """Add inflated bytes to those before them.

    Raises:
        LimitError: they are more than the limit together.
    """
    if len(gathered) + len(content) > limit_bytes:
        raise over_limit(limit_bytes)
    gathered += content


def gather(pieces: Iterable[bytes], limit_bytes: int) -> bytearray:
    """All pieces in one buffer. Each piece is bounded, so memory is bounded by the limit and one piece.

    Raises:
        LimitError: the pieces are more than the limit together.
    """
    gathered = bytearray()
    for piece in pieces:
        append(gathered, piece, limit_bytes)
    return gathered
