"""What the codecs share: the buffers that they take and give, and inflating piece by piece under a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.errors import LimitError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PIECE_BYTES", "Buffer", "Content", "gather", "over_limit"]

Buffer = bytes | bytearray | memoryview

PIECE_BYTES: Final = 1024 * 1024  # inflated at a time where the end is not known to be below the limit


class Content(Protocol):
    """Inflated bytes in whatever object the codec's library makes of them. A memoryview shows what is inside."""

    def __len__(self) -> int: ...

    def __buffer__(self, flags: int, /) -> memoryview: ...


def over_limit(limit_bytes: int) -> LimitError:
    """The error for a payload that inflates to more than the limit."""
    return LimitError(f"the payload inflates to more than the limit of {limit_bytes} bytes")


def gather(pieces: Iterable[bytes], limit_bytes: int) -> bytearray:
    """All pieces in one buffer. Each piece is bounded, so memory is bounded by the limit and one piece.

    Raises:
        LimitError: the pieces are more than the limit together.
    """
    gathered = bytearray()
    for piece in pieces:
        gathered += piece
        if len(gathered) > limit_bytes:
            raise over_limit(limit_bytes)
    return gathered
