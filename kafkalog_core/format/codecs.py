"""Bounded decompression of gzip, snappy and zstd. The rules: `compression.py`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from threading import local
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkalog_core.errors import FieldError, LimitError, TruncatedError, UnsupportedError
from kafkalog_core.format import layout
from kafkalog_core.format.checksums import ZLIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "MAX_PARTS",
    "PIECE_BYTES",
    "Buffer",
    "Content",
    "TrailingError",
    "append",
    "gather",
    "gunzip",
    "over_limit",
    "over_parts",
    "unsnappy",
    "unzstd",
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


class TrailingError(FieldError):
    """Bytes after the end of a whole stream, which Kafka ignores; `content` is the content of the stream."""

    def __init__(self, content: Content, trailing_bytes: int, *, position: int | None) -> None:
        noun = "byte" if trailing_bytes == 1 else "bytes"
        super().__init__(f"{trailing_bytes} {noun} after the end of the stream, which Kafka ignores", position=position)
        self.content = content
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


# Compressed bytes that zlib gets at a time. It copies the bytes that it does not use, so small pieces keep it linear.
_INPUT_BYTES: Final = 64 * 1024
_WBITS: Final = 31  # of zlib: a gzip header and any window size


def gunzip(payload: Buffer, _magic: int, limit_bytes: int) -> Buffer:
    """Return the content of all members of a gzip stream; see `compression.decompress`."""
    try:
        if len(payload) <= _INPUT_BYTES:  # nearly always one member of less than a piece
            inflater = ZLIB.decompressobj(_WBITS)
            inflated: bytes = inflater.decompress(payload, PIECE_BYTES)
            if inflater.eof and not inflater.unused_data and len(inflated) <= limit_bytes:
                return inflated
        return _members(memoryview(payload), limit_bytes)
    except ZLIB.error as error:
        raise FieldError(f"not a gzip stream: {error}") from error


def _members(payload: memoryview, limit_bytes: int) -> bytearray:
    """Return the content of all members, which GZIPInputStream reads as one stream."""
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
    """Return whether GZIPInputStream reads the bytes after a member; it ignores a tail too short for a member."""
    return len(tail) > layout.GZIP_MIN_MEMBER_BYTES and bytes(tail[: len(layout.GZIP_MAGIC)]) == layout.GZIP_MAGIC


def _member(payload: memoryview, position: int, gathered: bytearray, limit_bytes: int) -> int:
    """Decompress the member at `position` in pieces. Return the position of its end."""
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


_MAGIC_SIZE: Final = len(layout.XERIAL_MAGIC)
_SIZE_SIZE: Final = layout.XERIAL_BLOCK.size
_unpack_size: Final = layout.XERIAL_BLOCK.struct.unpack_from
_JAVA_HEADER: Final = layout.XERIAL_HEADER.struct.pack(layout.XERIAL_MAGIC, 1, 1)
_FIRST_BLOCK: Final = len(_JAVA_HEADER) + _SIZE_SIZE
_START_SIZE: Final = layout.XERIAL_START.size
_unpack_start: Final = layout.XERIAL_START.unpack_from
_THIRD_OF_PIECE: Final = PIECE_BYTES >> 14  # each byte of the preamble has 7 bits


@cache
def _snappy() -> Any:
    """Return the library of snappy, which is imported at the first use of the codec."""
    return import_module("snappy")


def unsnappy(payload: Buffer, _magic: int, limit_bytes: int) -> Content:
    """Return the content of a snappy block stream, or of a raw block; see `compression.decompress`."""
    if len(payload) >= _START_SIZE and limit_bytes >= PIECE_BYTES:
        header, size_bytes, first, second, third = _unpack_start(payload)
        if (  # nearly always one block that declares less than a piece
            header == _JAVA_HEADER
            and size_bytes == len(payload) - _FIRST_BLOCK
            and (first < 0x80 or second < 0x80 or third < _THIRD_OF_PIECE)
        ):
            try:
                whole: bytes = _snappy().uncompress(payload[_FIRST_BLOCK:])
            except _snappy().UncompressError:
                pass  # the careful decoder finds the reason
            else:
                return whole
    return _blocks(payload, limit_bytes)


def _blocks(payload: Buffer, limit_bytes: int) -> Content:
    if payload[:_MAGIC_SIZE] != layout.XERIAL_MAGIC:
        if 1 < len(payload) < _MAGIC_SIZE and payload == layout.XERIAL_MAGIC[: len(payload)]:
            raise TruncatedError("the snappy stream ends within a header", position=len(payload))
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
    """Return start and end of the raw block whose size is at `position`; for a header instead, twice its end."""
    start = position + _SIZE_SIZE
    (size_bytes,) = _unpack_size(view, position)
    end: int = start + size_bytes
    if size_bytes > 0:
        if end > len(view):
            raise TruncatedError("the snappy stream ends within a block", position=len(view))
        return start, end
    possible_magic = view[position : position + _MAGIC_SIZE]
    if possible_magic != layout.XERIAL_MAGIC[: len(possible_magic)]:
        raise FieldError(f"a snappy block of {size_bytes} bytes", position=position)
    end = _after_header(view, position)
    return end, end


def _after_header(view: memoryview, position: int) -> int:
    end = position + layout.XERIAL_HEADER.size
    if end > len(view):
        raise TruncatedError("the snappy stream ends within a header", position=len(view))
    version = layout.XERIAL_HEADER.struct.unpack_from(view, position)[1]
    if version < 1:  # SnappyInputStream refuses it too; it ignores the compatible version
        raise UnsupportedError(f"snappy block stream of version {version}", position=position)
    return end


def _inflated(block: Buffer, position: int, limit_bytes: int) -> Content:
    """Return the content of a raw block. `position`: of the block in the payload."""
    declared_bytes, body = _preamble(block, position)
    if declared_bytes > limit_bytes:
        raise over_limit(limit_bytes)
    if declared_bytes <= (len(block) - body) * layout.SNAPPY_MAX_RATIO:
        try:
            inflated: bytes = _snappy().uncompress(block)
        except _snappy().UncompressError as error:
            raise FieldError(f"not a snappy block: {error.__cause__}", position=position) from error
        return inflated
    raise FieldError(f"a snappy block of {len(block)} bytes declares {declared_bytes}", position=position)


def _preamble(block: Buffer, position: int) -> tuple[int, int]:
    """Return the size that a raw block declares (a varint of at most 5 bytes), and where its elements start."""
    declared_bytes = shift = 0
    for byte in block[: layout.MAX_VARINT_BYTES]:
        declared_bytes |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return declared_bytes, shift // 7
    if len(block) < layout.MAX_VARINT_BYTES:
        raise TruncatedError("the snappy block ends within its preamble", position=position + len(block))
    raise FieldError("the snappy block's preamble is not a valid size", position=position)


_SHARED_WINDOW_BYTES: Final = 8 * 1024 * 1024  # frames of larger windows get their own context, freed with the frame
_SHARED_WINDOW: Final = (_SHARED_WINDOW_BYTES // 1024).bit_length() - 1 << 3  # the same as a window descriptor
_ZSTD_MAGIC_SIZE: Final = len(layout.ZSTD_FRAME_MAGIC)
_zstd_unpack_start: Final = layout.ZSTD_START.unpack_from
_BLOCK_START: Final = layout.ZSTD_START.size  # where the first block starts in a frame without content size
_CHECKSUM_BYTES: Final = {
    0: 0,
    layout.ZSTD_DESCRIPTOR_CHECKSUM: layout.ZSTD_CHECKSUM_SIZE,
}  # by descriptor of such a frame
_LAST: Final = layout.ZSTD_BLOCK_LAST
_LAST_OR_RLE: Final = (
    layout.ZSTD_BLOCK_LAST | layout.ZSTD_BLOCK_TYPE_RLE
)  # the stored size of an RLE block is not its size in the frame
_SIZE_SHIFT: Final = layout.ZSTD_BLOCK_SIZE_SHIFT
_MAX_BLOCK_BYTES: Final = layout.ZSTD_MAX_BLOCK_BYTES


class _Codec:
    """The library of zstd, and the context of one thread."""

    def __init__(self) -> None:
        self.library = import_module("zstandard")
        self.unknown: int = self.library.CONTENTSIZE_UNKNOWN
        self.context = self.fresh()
        self.decompress = self.context.decompress

    def fresh(self) -> Any:
        return self.library.ZstdDecompressor(max_window_size=layout.ZSTD_MAX_WINDOW_BYTES)

    def pieces(self, frame: memoryview) -> Iterator[bytes]:
        """Yield the content of a frame that may exceed the limit in pieces."""
        with self.fresh().stream_reader(frame) as reader:
            while piece := reader.read(PIECE_BYTES):
                yield piece


class _Thread(local):
    def __init__(self) -> None:
        self.codec = _Codec()


@cache
def _thread() -> _Thread:
    return _Thread()


def unzstd(payload: Buffer, magic: int, limit_bytes: int) -> Buffer:
    """Return the content of all frames of a zstd stream; see `compression.decompress`."""
    if magic < layout.MAGIC_V2:
        raise UnsupportedError(f"zstd in a message of magic {magic}")
    codec = _thread().codec
    if len(payload) > _BLOCK_START and limit_bytes >= PIECE_BYTES:
        # Is the payload one frame of at most a piece? (Anything that is not a frame fails later.) The library refuses
        # bytes after a frame that declares its size, but not after one that does not, as Java's streams do not: such a
        # frame must be a single block that fills the payload, and not an RLE block.
        descriptor, window, low, high = _zstd_unpack_start(payload)
        header = low | high << 16
        checksum_bytes = _CHECKSUM_BYTES.get(descriptor)
        try:
            if checksum_bytes is None:
                is_small = 0 < codec.library.frame_content_size(payload) <= PIECE_BYTES
            else:
                end = _BLOCK_START + (header >> _SIZE_SHIFT) + checksum_bytes
                is_small = end == len(payload) and header & _LAST_OR_RLE == _LAST and window <= _SHARED_WINDOW
            if is_small:
                # Passing read_across_frames and allow_extra_data by name would be slower.
                whole: bytes = codec.decompress(payload, _MAX_BLOCK_BYTES, False, False)
                return whole
        except codec.library.ZstdError:
            pass
    return _frames(codec, payload, limit_bytes)


def _frames(codec: _Codec, payload: Buffer, limit_bytes: int) -> Buffer:
    view = memoryview(payload)
    size_bytes = len(view)
    gathered = bytearray()
    position = 0
    for _ in range(MAX_PARTS):
        end = _skippable_end(view, position)
        if end == position:
            try:
                end, content = _frame(codec, view, position, limit_bytes - len(gathered))
            except codec.library.ZstdError as error:
                raise FieldError(f"not a zstd frame: {error}", position=position) from error
            if end - position == size_bytes:  # nearly always a single frame: do not copy it
                return content
            append(gathered, content, limit_bytes)
        position = end
        if position == size_bytes:
            return gathered
    raise over_parts(position)


def _skippable_end(view: memoryview, position: int) -> int:
    """Return the end of the skippable frame at `position`, or `position` if there is none."""
    if position == len(view) or view[position] & layout.ZSTD_SKIPPABLE_MASK != layout.ZSTD_SKIPPABLE_FIRST:
        return position
    magic = bytes(view[position : position + _ZSTD_MAGIC_SIZE])
    if magic[1:] != layout.ZSTD_SKIPPABLE_MAGIC[: len(magic) - 1]:
        return position
    start = position + layout.ZSTD_SKIPPABLE_HEADER_SIZE
    end = start + int.from_bytes(view[position + _ZSTD_MAGIC_SIZE : start], "little")
    if max(start, end) > len(view):
        raise TruncatedError("the zstd stream ends within a skippable frame", position=len(view))
    return end


def _frame(codec: _Codec, view: memoryview, start: int, limit_bytes: int) -> tuple[int, Buffer]:
    """Return the end of the frame at `start`, and its content."""
    declared, position = _header(codec, view, start)
    end, bound_bytes = _zstd_blocks(view, position)
    if declared.has_checksum:
        end += layout.ZSTD_CHECKSUM_SIZE
    if end > len(view):
        raise TruncatedError("the zstd stream ends within a frame", position=len(view))
    frame = view[start:end]
    content_bytes, window_bytes = declared.content_size, declared.window_size
    if content_bytes != codec.unknown:
        if content_bytes > limit_bytes:
            raise over_limit(limit_bytes)
        if content_bytes > bound_bytes:
            raise FieldError(f"a zstd frame declares {content_bytes} bytes, more than it can hold", position=start)
    elif window_bytes > layout.ZSTD_MAX_WINDOW_BYTES:
        raise LimitError(f"a zstd frame asks for a window of {window_bytes} bytes", position=start)
    elif bound_bytes > limit_bytes:
        return end, gather(codec.pieces(frame), limit_bytes)
    context = codec.context if window_bytes <= _SHARED_WINDOW_BYTES else codec.fresh()
    # At least 1: with 0 the library requires the frame to declare its size.
    return end, context.decompress(frame, max(1, bound_bytes))


def _header(codec: _Codec, view: memoryview, start: int) -> tuple[Any, int]:
    """Return the parameters in the header of a frame, and the end of the header."""
    header = view[start : start + layout.ZSTD_MAX_HEADER_SIZE]
    try:
        return codec.library.get_frame_parameters(header), start + codec.library.frame_header_size(header)
    except codec.library.ZstdError:
        if bytes(header[:_ZSTD_MAGIC_SIZE]) != layout.ZSTD_FRAME_MAGIC[: len(header)]:
            raise
        completed = layout.ZSTD_FRAME_MAGIC + bytes(header[_ZSTD_MAGIC_SIZE:])
        codec.library.get_frame_parameters(completed.ljust(layout.ZSTD_MAX_HEADER_SIZE, b"\0"))  # bad ones raise again
        raise TruncatedError("the zstd stream ends within a frame header", position=len(view)) from None


def _zstd_blocks(view: memoryview, position: int) -> tuple[int, int]:
    """Return the end of the blocks of a frame, and an upper bound of the bytes in them."""
    bound_bytes = 0
    last_start = len(view) - layout.ZSTD_BLOCK_HEADER_SIZE
    for _ in range(MAX_PARTS):
        if position > last_start:
            raise TruncatedError("the zstd stream ends within a frame", position=len(view))
        header = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        kind, size_bytes = header & layout.ZSTD_BLOCK_TYPE_MASK, header >> layout.ZSTD_BLOCK_SIZE_SHIFT
        position += layout.ZSTD_BLOCK_HEADER_SIZE
        position += 1 if kind == layout.ZSTD_BLOCK_TYPE_RLE else size_bytes
        if kind == layout.ZSTD_BLOCK_TYPE_COMPRESSED or size_bytes > layout.ZSTD_MAX_BLOCK_BYTES:
            size_bytes = layout.ZSTD_MAX_BLOCK_BYTES
        bound_bytes += size_bytes
        if header & layout.ZSTD_BLOCK_LAST:
            return position, bound_bytes
    raise over_parts(position)
