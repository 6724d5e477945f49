"""gzip streams (RFC 1952): one member, as Java's GZIPOutputStream and other clients write them, or several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FieldError, TruncatedError
from kafkalog_core.format.bounded import PIECE_BYTES, Buffer, gather
from kafkalog_core.format.checksums import ZLIB

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["gunzip"]

_INPUT_BYTES: Final = (
    64 * 1024
)  # deflated bytes handed over at a time: zlib copies what it leaves, so this keeps it linear
_WBITS: Final = 31  # zlib's interface: a gzip wrapper of any window


def gunzip(payload: Buffer, _magic: int, limit_bytes: int) -> Buffer:
    """The inflated content of all members; see `compression.decompress`."""
    try:
        if len(payload) <= _INPUT_BYTES:  # nearly always one member that inflates to less than a piece
            inflater = ZLIB.decompressobj(_WBITS)
            inflated: bytes = inflater.decompress(payload, PIECE_BYTES)
            if inflater.eof and not inflater.unused_data and len(inflated) <= limit_bytes:
                return inflated
        return gather(_pieces(memoryview(payload)), limit_bytes)
    except ZLIB.error as error:
        raise FieldError(f"not a gzip stream: {error}") from error


def _pieces(payload: memoryview) -> Iterator[bytes]:
    """All members, inflated in pieces."""
    inflater = ZLIB.decompressobj(_WBITS)
    position = 0
    while True:
        handed = payload[position : position + _INPUT_BYTES]
        inflated: bytes = inflater.decompress(handed, PIECE_BYTES)
        yield inflated
        if inflater.eof:
            position += len(handed) - len(inflater.unused_data)
            if position == len(payload):
                return
            inflater = ZLIB.decompressobj(_WBITS)
            continue
        taken = len(handed) - len(inflater.unconsumed_tail)
        position += taken
        if not taken and not inflated:
            raise TruncatedError("the gzip stream ends early", position=position)
