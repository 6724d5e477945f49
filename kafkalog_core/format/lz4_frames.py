"""The lz4 frames of a batch, as Kafka's `Lz4BlockInputStream` reads them, and what it reads although it is odd."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalog_core.errors import FieldError, TruncatedError, UnsupportedError
from kafkalog_core.format import layout
from kafkalog_core.format.checksums import lz4_header_checksum
from kafkalog_core.format.streams import MAX_PARTS, PIECE_BYTES, OddStreamError, TrailingError, gather, over_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.streams import Buffer

__all__ = ["inflate_lz4"]


_WHOLE_BYTES: Final = 8 * PIECE_BYTES
_SIZE_MASK: Final = ~layout.LZ4_BLOCK_STORED


class _Lz4Header(NamedTuple):
    """The header of a frame, from its descriptor; `size_bytes`: of the header, with magic and checksum."""

    size_bytes: int
    block_max_bytes: int
    block_checksum_bytes: int
    content_checksum_bytes: int
    has_content_size: bool
    is_dependent: bool


@cache
def _lz4() -> Any:
    """Return the library of lz4 frames, which is imported at the first use of the codec."""
    return import_module("lz4.frame")


def inflate_lz4(payload: Buffer, magic: int, limit_bytes: int) -> Buffer:
    """Return the content of the one frame; see `decompression.decompress`."""
    header = _lz4_header(payload)
    end, bound_bytes = _lz4_bound(payload, header)
    frame: Buffer = memoryview(payload)[:end]
    if magic == layout.MAGIC_V0:
        frame = _repaired(frame, header)
    try:
        content = _lz4_content(frame, bound_bytes, limit_bytes)
    except FieldError as error:
        unverified = _lz4_unverified(frame, header, bound_bytes, limit_bytes)
        if unverified is None:
            raise
        detail = "the lz4 frame's checksum or size of its content is wrong, which Kafka does not verify"
        raise OddStreamError(unverified, "payload-checksum", detail, position=end) from error
    if header.is_dependent:
        detail = "the lz4 frame has dependent blocks, which Kafka's Java code refuses"
        raise OddStreamError(content, "payload-dependent", detail, position=layout.LZ4_FLG_POSITION)
    if end < len(payload):
        raise TrailingError(content, len(payload) - end, position=end)
    return content


def _lz4_content(frame: Buffer, bound_bytes: int, limit_bytes: int) -> bytearray:
    """Return the content of a frame as the library reads it."""
    try:
        # The library copies the whole content once more, so large frames are decompressed in pieces. Otherwise one byte
        # more than the bound is asked for: with a full buffer the library does not read the end mark.
        is_large = bound_bytes > min(limit_bytes, _WHOLE_BYTES)
        return gather(_lz4_pieces(memoryview(frame), PIECE_BYTES if is_large else bound_bytes + 1), limit_bytes)
    except RuntimeError as error:
        raise FieldError(f"not an lz4 frame: {error}") from error


def _lz4_unverified(frame: Buffer, header: _Lz4Header, bound_bytes: int, limit_bytes: int) -> bytearray | None:
    """Return the content of a frame that the library refuses, without its checksum and size; None: it refuses that too.

    Kafka's `Lz4BlockInputStream` steps over both. It verifies the checksum of the header, and refuses dependent blocks.
    """
    flags = frame[layout.LZ4_FLG_POSITION]
    position = header.size_bytes - 1
    is_header_right = frame[position] == lz4_header_checksum(bytes(frame[layout.LZ4_FLG_POSITION : position]))
    if header.is_dependent or not is_header_right or not (header.content_checksum_bytes or header.has_content_size):
        return None
    flags &= ~(layout.LZ4_FLG_CONTENT_CHECKSUM | layout.LZ4_FLG_CONTENT_SIZE)
    descriptor = bytes([flags, frame[layout.LZ4_BD_POSITION]])
    blocks = frame[header.size_bytes : len(frame) - header.content_checksum_bytes]
    plain = bytes(layout.LZ4_FRAME_MAGIC) + descriptor + bytes([lz4_header_checksum(descriptor)]) + bytes(blocks)
    try:
        return _lz4_content(plain, bound_bytes, limit_bytes)
    except FieldError:
        return None


def _lz4_pieces(frame: memoryview, piece_bytes: int) -> Iterator[bytes]:
    """Yield the content of a frame in pieces.

    Each frame has its own context: the library keeps the content size of a frame that did not end through a reset, and
    compares the next frame with it.
    """
    context = _lz4().create_decompression_context()
    at_end = False
    while not at_end:
        inflated, taken, at_end = _lz4().decompress_chunk(context, frame, piece_bytes)
        if not (inflated or taken or at_end):
            raise FieldError("the lz4 frame does not end where its blocks end")
        frame = frame[taken:]
        yield inflated


def _lz4_bound(payload: Buffer, header: _Lz4Header) -> tuple[int, int]:
    """Return the end of the frame, and an upper bound of its content, in bytes."""
    position, block_max_bytes, end = header.size_bytes, header.block_max_bytes, len(payload)
    bound_bytes = 0
    for _ in range(MAX_PARTS):
        start = position + layout.LZ4_BLOCK_SIZE.size
        if start > end:
            raise TruncatedError("the lz4 frame ends before its end mark", position=end)
        (size,) = layout.LZ4_BLOCK_SIZE.unpack_from(payload, position)
        if size == 0:
            break
        size_bytes = size & _SIZE_MASK
        if size_bytes > block_max_bytes:
            raise FieldError(f"an lz4 block of {size_bytes} bytes in a frame of {block_max_bytes}", position=position)
        bound_bytes += size_bytes if size != size_bytes else min(block_max_bytes, size_bytes * layout.LZ4_MAX_RATIO)
        position = start + size_bytes + header.block_checksum_bytes
    else:
        raise over_parts(position)
    position = start + header.content_checksum_bytes
    if position > end:
        raise TruncatedError("the lz4 frame ends within its checksum", position=end)
    return position, bound_bytes


def _lz4_header(payload: Buffer) -> _Lz4Header:
    magic = payload[: layout.LZ4_FLG_POSITION]
    if magic != layout.LZ4_FRAME_MAGIC[: len(magic)]:
        raise FieldError("no lz4 frame: the magic is missing", position=0)
    if len(payload) <= layout.LZ4_BD_POSITION:
        raise TruncatedError("the lz4 frame ends within its header", position=len(payload))
    header = _lz4_descriptor(payload[layout.LZ4_FLG_POSITION], payload[layout.LZ4_BD_POSITION])
    if header.size_bytes > len(payload):
        raise TruncatedError("the lz4 frame ends within its header", position=len(payload))
    return header


@cache
def _lz4_descriptor(flags: int, block_descriptor: int) -> _Lz4Header:
    """Return the header that the bytes FLG and BD describe."""
    if flags & (layout.LZ4_FLG_VERSION_MASK | layout.LZ4_FLG_RESERVED) != layout.LZ4_FLG_VERSION:
        raise FieldError(f"lz4 frame flags {flags:#04x}", position=layout.LZ4_FLG_POSITION)
    if flags & layout.LZ4_FLG_DICTIONARY:
        raise UnsupportedError("an lz4 frame with a dictionary", position=layout.LZ4_FLG_POSITION)
    size_code = block_descriptor >> layout.LZ4_BD_SIZE_SHIFT
    if block_descriptor & layout.LZ4_BD_RESERVED or size_code < layout.LZ4_BD_MIN_SIZE_CODE:
        raise FieldError(f"lz4 block descriptor {block_descriptor:#04x}", position=layout.LZ4_BD_POSITION)
    has_content_size = bool(flags & layout.LZ4_FLG_CONTENT_SIZE)
    return _Lz4Header(
        size_bytes=layout.LZ4_BD_POSITION + 2 + (layout.LZ4_CONTENT_SIZE_SIZE if has_content_size else 0),
        block_max_bytes=1 << (2 * size_code + 8),
        block_checksum_bytes=layout.LZ4_CHECKSUM_SIZE if flags & layout.LZ4_FLG_BLOCK_CHECKSUM else 0,
        content_checksum_bytes=layout.LZ4_CHECKSUM_SIZE if flags & layout.LZ4_FLG_CONTENT_CHECKSUM else 0,
        has_content_size=has_content_size,
        is_dependent=not flags & layout.LZ4_FLG_INDEPENDENT,
    )


def _repaired(frame: Buffer, header: _Lz4Header) -> Buffer:
    """Return the frame, or a copy of it with the correct header checksum, the last byte of the header.

    Writers of magic 0 hash the frame's magic too (KAFKA-3160). Kafka ignores that checksum, the library does not.
    """
    position = header.size_bytes - 1
    checksum = lz4_header_checksum(bytes(frame[layout.LZ4_FLG_POSITION : position]))
    if frame[position] == checksum:
        return frame
    repaired = bytearray(frame)
    repaired[position] = checksum
    return repaired
