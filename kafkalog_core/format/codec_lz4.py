"""LZ4 frames (little-endian), with the faulty header checksum that magic 0 has.

The sizes of a frame's blocks are read before anything is decompressed: they show where the frame ends and bound its
content. So a buffer of that size can be allocated, and a cut stream is distinguished from a damaged one.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import import_module
from threading import local
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import FieldError, TruncatedError, UnsupportedError
from kafkalog_core.format import layout
from kafkalog_core.format.codecs import MAX_PARTS, PIECE_BYTES, Buffer, TrailingError, gather, over_limit, over_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["header_checksum", "unlz4"]

_FLG: Final = layout.LZ4_FLG_POSITION
_SIZE_SIZE: Final = layout.LZ4_BLOCK_SIZE.size
_INPUT_BYTES: Final = 64 * 1024  # larger frames are rarely below a piece
_WHOLE_BYTES: Final = 8 * PIECE_BYTES
_SIZE_MASK: Final = ~layout.LZ4_BLOCK_STORED
_unpack_size: Final = layout.LZ4_BLOCK_SIZE.unpack_from


class _Header(NamedTuple):
    """The header of a frame, from its descriptor; `size_bytes`: of the header, with magic and checksum."""

    size_bytes: int
    block_max_bytes: int
    block_checksum_bytes: int
    content_checksum_bytes: int
    has_content_size: bool


class _Codec:
    """The library of lz4, and the context of one thread, which is always at the start of a frame."""

    def __init__(self) -> None:
        self.library = import_module("lz4.frame")
        self.decompress_chunk = self.library.decompress_chunk
        self.context = self.library.create_decompression_context()

    def renew(self) -> None:
        """Replace the context after a frame that did not end.

        The library keeps the content size of such a frame through a reset, and compares the next frame with it.
        """
        self.context = self.library.create_decompression_context()

    def whole(self, frame: Buffer, bound_bytes: int) -> bytes:
        """Return the content of a frame that is known to be within the bound."""
        at_end = False
        try:
            inflated: bytes
            # One byte more than the bound: with a full buffer the library does not read the end mark.
            inflated, _, at_end = self.decompress_chunk(self.context, frame, bound_bytes + 1)
        finally:
            if not at_end:
                self.renew()
        if not at_end:
            raise FieldError("the lz4 frame does not end where its blocks end")
        return inflated

    def pieces(self, frame: memoryview) -> Iterator[bytes]:
        """Yield the content of a frame that is large or may exceed the limit in pieces."""
        context = self.library.create_decompression_context()
        at_end = False
        while not at_end:
            inflated, taken, at_end = self.decompress_chunk(context, frame, PIECE_BYTES)
            if not (inflated or taken or at_end):
                raise FieldError("the lz4 frame does not end where its blocks end")
            frame = frame[taken:]
            yield inflated


class _Thread(local):
    def __init__(self) -> None:
        self.codec = _Codec()


@cache
def _thread() -> _Thread:
    return _Thread()


def unlz4(payload: Buffer, magic: int, limit_bytes: int) -> Buffer:
    """Return the content of the one frame; see `compression.decompress`."""
    if len(payload) <= _INPUT_BYTES and limit_bytes >= PIECE_BYTES:
        frame = payload if magic != layout.MAGIC_V0 else _mended(payload, _header(payload))
        codec = _thread().codec
        inflated: bytes
        try:
            inflated, taken, at_end = codec.decompress_chunk(codec.context, frame, PIECE_BYTES)
        except RuntimeError:
            at_end = False
        if not at_end:
            codec.renew()
        # The library skips a skippable frame (no content) and the id of a dictionary.
        elif inflated and taken == len(payload) and not payload[_FLG] & layout.LZ4_FLG_DICTIONARY:
            return inflated
    return _frame(payload, magic, limit_bytes)


def _frame(payload: Buffer, magic: int, limit_bytes: int) -> Buffer:
    """Return the content of any frame, or raise the reason why there is none."""
    header = _header(payload)
    if header.has_content_size:
        size_field = payload[layout.LZ4_BD_POSITION + 1 : header.size_bytes - 1]
        if int.from_bytes(size_field, "little") > limit_bytes:
            raise over_limit(limit_bytes)
    end, bound_bytes = _bound(payload, header)
    frame: Buffer = memoryview(payload)[:end]
    if magic == layout.MAGIC_V0:
        frame = _mended(frame, header)
    content: Buffer
    try:
        # The library copies the whole content once more, so large frames are decompressed in pieces.
        if bound_bytes > min(limit_bytes, _WHOLE_BYTES):
            content = gather(_thread().codec.pieces(memoryview(frame)), limit_bytes)
        else:
            content = _thread().codec.whole(frame, bound_bytes)
    except RuntimeError as error:
        raise FieldError(f"not an lz4 frame: {error}") from error
    if end < len(payload):
        raise TrailingError(content, len(payload) - end, position=end)
    return content


def _bound(payload: Buffer, header: _Header) -> tuple[int, int]:
    """Return the end of the frame, and an upper bound of its content, in bytes."""
    position, block_max_bytes, end = header.size_bytes, header.block_max_bytes, len(payload)
    bound_bytes = 0
    for _ in range(MAX_PARTS):
        start = position + _SIZE_SIZE
        if start > end:
            raise TruncatedError("the lz4 frame ends before its end mark", position=end)
        (size,) = _unpack_size(payload, position)
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


def _header(payload: Buffer) -> _Header:
    magic = payload[: layout.LZ4_FLG_POSITION]
    if magic != layout.LZ4_FRAME_MAGIC[: len(magic)]:
        raise FieldError("no lz4 frame: the magic is missing", position=0)
    if len(payload) <= layout.LZ4_BD_POSITION:
        raise TruncatedError("the lz4 frame ends within its header", position=len(payload))
    header = _descriptor(payload[layout.LZ4_FLG_POSITION], payload[layout.LZ4_BD_POSITION])
    if header.size_bytes > len(payload):
        raise TruncatedError("the lz4 frame ends within its header", position=len(payload))
    return header


@cache
def _descriptor(flags: int, block_descriptor: int) -> _Header:
    """Return the header that the bytes FLG and BD describe."""
    if flags & (layout.LZ4_FLG_VERSION_MASK | layout.LZ4_FLG_RESERVED) != layout.LZ4_FLG_VERSION:
        raise FieldError(f"lz4 frame flags {flags:#04x}", position=layout.LZ4_FLG_POSITION)
    if flags & layout.LZ4_FLG_DICTIONARY:
        raise UnsupportedError("an lz4 frame with a dictionary", position=layout.LZ4_FLG_POSITION)
    size_code = block_descriptor >> layout.LZ4_BD_SIZE_SHIFT
    if block_descriptor & layout.LZ4_BD_RESERVED or size_code < layout.LZ4_BD_MIN_SIZE_CODE:
        raise FieldError(f"lz4 block descriptor {block_descriptor:#04x}", position=layout.LZ4_BD_POSITION)
    has_content_size = bool(flags & layout.LZ4_FLG_CONTENT_SIZE)
    return _Header(
        size_bytes=layout.LZ4_BD_POSITION + 2 + (layout.LZ4_CONTENT_SIZE_SIZE if has_content_size else 0),
        block_max_bytes=1 << (2 * size_code + 8),
        block_checksum_bytes=layout.LZ4_CHECKSUM_SIZE if flags & layout.LZ4_FLG_BLOCK_CHECKSUM else 0,
        content_checksum_bytes=layout.LZ4_CHECKSUM_SIZE if flags & layout.LZ4_FLG_CONTENT_CHECKSUM else 0,
        has_content_size=has_content_size,
    )


def _mended(frame: Buffer, header: _Header) -> Buffer:
    """Return the frame, or a copy of it with the correct header checksum, the last byte of the header.

    Writers of magic 0 hash the frame's magic too (KAFKA-3160). Kafka ignores that checksum, the library does not.
    """
    position = header.size_bytes - 1
    checksum = header_checksum(bytes(frame[layout.LZ4_FLG_POSITION : position]))
    if frame[position] == checksum:
        return frame
    mended = bytearray(frame)
    mended[position] = checksum
    return mended


@lru_cache(maxsize=64)
def header_checksum(descriptor: bytes) -> int:
    """Return the second byte of xxHash32 (seed 0) of a descriptor, which is shorter than the hash's 16-byte stripes."""
    prime_1, prime_2, prime_3, prime_4, prime_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    mask = 0xFFFFFFFF
    value = prime_5 + len(descriptor)
    words_end = len(descriptor) & ~3
    for i in range(0, words_end, 4):
        value = value + int.from_bytes(descriptor[i : i + 4], "little") * prime_3 & mask
        value = (value << 17 | value >> 15) * prime_4 & mask
    for byte in descriptor[words_end:]:
        value = value + byte * prime_5 & mask
        value = (value << 11 | value >> 21) * prime_1 & mask
    value = (value ^ value >> 15) * prime_2 & mask
    value = (value ^ value >> 13) * prime_3 & mask
    return (value ^ value >> 16) >> 8 & 0xFF
