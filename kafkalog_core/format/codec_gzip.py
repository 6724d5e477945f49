"""gzip streams (RFC 1952): one member, as Java's GZIPOutputStream and other clients write them, or several."""

from __future__ import annotations

from typing import Final

from kafkalog_core.errors import FieldError, TruncatedError
from kafkalog_core.format import layout
from kafkalog_core.format.bounded import MAX_PARTS, PIECE_BYTES, Buffer, TrailingError, append, over_parts
from kafkalog_core.format.checksums import ZLIB

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
        return _members(memoryview(payload), limit_bytes)
    except ZLIB.error as error:
        raise FieldError(f"not a gzip stream: {error}") from error


def _members(payload: memoryview, limit_bytes: int) -> bytearray:
    """All members, one behind the other."""
    gathered = bytearray()
    position = _member(payload, 0, gathered, limit_bytes)
    count = 1
    while position < len(payload):
        if not _is_member(payload[position:]):
            raise TrailingError(gathered, len(payload) - position, position=position)
        if count == MAX_PARTS:
            raise over_parts(position)
        position = _member(payload, position, gathered, limit_bytes)
        count += 1
    return gathered


def _is_member(tail: memoryview) -> bool:
    """Whether GZIPInputStream reads what stands behind a member; it has no look at a tail that cannot be whole."""
    return len(tail) > layout.GZIP_MIN_MEMBER_BYTES and bytes(tail[: len(layout.GZIP_MAGIC)]) == layout.GZIP_MAGIC


def _member(payload: memoryview, position: int, gathered: bytearray, limit_bytes: int) -> int:
    """Inflate the member that starts here, in pieces. Returns where it ends."""
    inflater = ZLIB.decompressobj(_WBITS)
    while True:
        handed = payload[position : position + _INPUT_BYTES]
        inflated: bytes = inflater.decompress(handed, PIECE_BYTES)
        append(gathered, inflated, limit_bytes)
        if inflater.eof:
            return position + len(handed) - len(inflater.unused_data)
        taken = len(handed) - len(inflater.unconsumed_tail)
        position += taken
        if not taken and not inflated:
            raise TruncatedError("the gzip stream ends early", position=position)
