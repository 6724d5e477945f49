"""Snappy: the block stream of xerial's snappy-java (Kafka's own), and raw bodies, as librdkafka and other C clients do.

The block stream has no end mark: a cut between two blocks leaves a legal stream, and SnappyInputStream ignores a tail
too short for a block's size. The batch's checksum and its record count tell.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.errors import FieldError, TruncatedError, UnsupportedError
from kafkalog_core.format import layout
from kafkalog_core.format.bounded import (
    MAX_PARTS,
    PIECE_BYTES,
    Buffer,
    Content,
    TrailingError,
    append,
    over_limit,
    over_parts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["unsnappy"]

_MAGIC_SIZE: Final = len(layout.XERIAL_MAGIC)
_SIZE_SIZE: Final = layout.XERIAL_BLOCK.size
_unpack_size: Final = layout.XERIAL_BLOCK.struct.unpack_from
_JAVA_HEADER: Final = layout.XERIAL_HEADER.struct.pack(layout.XERIAL_MAGIC, 1, 1)
_FIRST_BLOCK: Final = len(_JAVA_HEADER) + _SIZE_SIZE
_START_SIZE: Final = layout.XERIAL_START.size
_unpack_start: Final = layout.XERIAL_START.unpack_from
_THIRD_OF_PIECE: Final = PIECE_BYTES >> 14  # the preamble's bytes have 7 bits each


@cache
def _library() -> Any:
    return import_module("cramjam")


@cache
def _decompress_raw() -> Callable[[Buffer], Content]:
    function: Callable[[Buffer], Content] = _library().snappy.decompress_raw
    return function


def unsnappy(payload: Buffer, _magic: int, limit_bytes: int) -> Content:
    """The inflated content of all blocks, or of the one raw body; see `compression.decompress`."""
    if len(payload) >= _START_SIZE and limit_bytes >= PIECE_BYTES:
        header, size_bytes, first, second, third = _unpack_start(payload)
        if (  # nearly always one block that declares less than a piece
            header == _JAVA_HEADER
            and size_bytes == len(payload) - _FIRST_BLOCK
            and (first < 0x80 or second < 0x80 or third < _THIRD_OF_PIECE)
        ):
            try:
                return _decompress_raw()(payload[_FIRST_BLOCK:])
            except _library().DecompressionError:
                pass  # the careful way knows why
    return _blocks(payload, limit_bytes)


def _blocks(payload: Buffer, limit_bytes: int) -> Content:
    if payload[:_MAGIC_SIZE] != layout.XERIAL_MAGIC:
        if 1 < len(payload) < _MAGIC_SIZE and payload == layout.XERIAL_MAGIC[: len(payload)]:
            raise TruncatedError("the snappy stream ends inside of a header", position=len(payload))
        return _inflated(payload, 0, limit_bytes)
    view = memoryview(payload)
    last_start = len(view) - _SIZE_SIZE
    position = _after_header(view, 0)
    gathered = bytearray()
    for _ in range(MAX_PARTS):
        if position > last_start:
            break
        start, position = _block(view, position)
        if start != position:
            append(gathered, _inflated(view[start:position], start, limit_bytes - len(gathered)), limit_bytes)
    else:
        raise over_parts(position)
    if position < len(view):
        raise TrailingError(gathered, len(view) - position, position=position)
    return gathered


def _block(view: memoryview, position: int) -> tuple[int, int]:
    """Start and end of the raw block whose size stands here. Where a header stands instead: its end, twice."""
    start = position + _SIZE_SIZE
    (size_bytes,) = _unpack_size(view, position)
    end: int = start + size_bytes
    if size_bytes > 0:
        if end > len(view):
            raise TruncatedError("the snappy stream ends inside of a block", position=len(view))
        return start, end
    possible_magic = view[position : position + _MAGIC_SIZE]
    if possible_magic != layout.XERIAL_MAGIC[: len(possible_magic)]:
        raise FieldError(f"a snappy block of {size_bytes} bytes", position=position)
    end = _after_header(view, position)
    return end, end


def _after_header(view: memoryview, position: int) -> int:
    end = position + layout.XERIAL_HEADER.size
    if end > len(view):
        raise TruncatedError("the snappy stream ends inside of a header", position=len(view))
    version = layout.XERIAL_HEADER.struct.unpack_from(view, position)[1]
    if version < 1:  # what SnappyInputStream refuses too; it does not look at the compatible version
        raise UnsupportedError(f"snappy block stream of version {version}", position=position)
    return end


def _inflated(block: Buffer, position: int, limit_bytes: int) -> Content:
    """One raw block. `position` is its place in the payload."""
    declared_bytes, body = _preamble(block, position)
    if declared_bytes > limit_bytes:
        raise over_limit(limit_bytes)
    if declared_bytes <= (len(block) - body) * layout.SNAPPY_MAX_RATIO:
        try:
            return _decompress_raw()(block)
        except _library().DecompressionError as error:
            raise FieldError(f"not a snappy block: {error}", position=position) from error
    raise FieldError(f"a snappy block of {len(block)} bytes declares {declared_bytes}", position=position)


def _preamble(block: Buffer, position: int) -> tuple[int, int]:
    """The inflated size that a raw block declares (a varint of at most 5 bytes), and where its elements start."""
    declared_bytes = shift = 0
    for byte in block[: layout.MAX_VARINT_BYTES]:
        declared_bytes |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return declared_bytes, shift // 7
    if len(block) < layout.MAX_VARINT_BYTES:
        raise TruncatedError("the snappy block ends inside of its preamble", position=position + len(block))
    raise FieldError("the snappy block's preamble is no size", position=position)
