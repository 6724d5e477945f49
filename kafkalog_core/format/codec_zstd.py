"""Zstandard (RFC 8878): one frame or several. Kafka's Java streams declare no content size, C clients do.

The headers of a frame and of its blocks are walked before anything is inflated: they tell where the frame ends and how
much it can hold at most, so that a buffer of that size can be taken, and a cut stream is told from a bad one.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from threading import local
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.errors import FieldError, LimitError, TruncatedError, UnsupportedError
from kafkalog_core.format import layout
from kafkalog_core.format.bounded import MAX_PARTS, PIECE_BYTES, Buffer, append, gather, over_limit, over_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["unzstd"]

_SHARED_WINDOW_BYTES: Final = 8 * 1024 * 1024  # larger windows get a context of their own, freed with the frame
_SHARED_WINDOW: Final = (_SHARED_WINDOW_BYTES // 1024).bit_length() - 1 << 3  # the same as a window descriptor
_MAGIC_SIZE: Final = len(layout.ZSTD_FRAME_MAGIC)
_unpack_start: Final = layout.ZSTD_START.unpack_from
_BLOCK_START: Final = layout.ZSTD_START.size  # of the first one, in a frame without content size
_CHECKSUM_BYTES: Final = {0: 0, layout.ZSTD_DESCRIPTOR_CHECKSUM: layout.ZSTD_CHECKSUM_SIZE}  # by such a descriptor
_LAST: Final = layout.ZSTD_BLOCK_LAST
_LAST_OR_RLE: Final = layout.ZSTD_BLOCK_LAST | layout.ZSTD_BLOCK_TYPE_RLE  # whose size is not the one that it takes
_SIZE_SHIFT: Final = layout.ZSTD_BLOCK_SIZE_SHIFT
_MAX_BLOCK_BYTES: Final = layout.ZSTD_MAX_BLOCK_BYTES


class _Codec:
    """The library, and one thread's context."""

    def __init__(self) -> None:
        self.library = import_module("zstandard")
        self.unknown: int = self.library.CONTENTSIZE_UNKNOWN
        self.context = self.fresh()
        self.decompress = self.context.decompress

    def fresh(self) -> Any:
        return self.library.ZstdDecompressor(max_window_size=layout.ZSTD_MAX_WINDOW_BYTES)

    def pieces(self, frame: memoryview) -> Iterator[bytes]:
        """A frame in pieces, for one that may hold more than the limit."""
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
    """The inflated content of all frames; see `compression.decompress`."""
    if magic < layout.MAGIC_V2:
        raise UnsupportedError(f"zstd in a message of magic {magic}")
    codec = _thread().codec
    if len(payload) > _BLOCK_START and limit_bytes >= PIECE_BYTES:
        # Whether the payload can be but one frame of no more than a piece; what is no frame at all fails later. The
        # library refuses bytes behind a frame that declares its size, but not behind one that does not: such a frame
        # (so Java's streams are) must be one block that fills it, then, and none of RLE.
        descriptor, window, low, high = _unpack_start(payload)
        header = low | high << 16
        checksum_bytes = _CHECKSUM_BYTES.get(descriptor)
        try:
            if checksum_bytes is None:
                is_small = 0 < codec.library.frame_content_size(payload) <= PIECE_BYTES
            else:
                end = _BLOCK_START + (header >> _SIZE_SHIFT) + checksum_bytes
                is_small = end == len(payload) and header & _LAST_OR_RLE == _LAST and window <= _SHARED_WINDOW
            if is_small:
                # Its read_across_frames and allow_extra_data are dearer by name.
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
            if end - position == size_bytes:  # nearly always one frame, which is not copied
                return content
            append(gathered, content, limit_bytes)
        position = end
        if position == size_bytes:
            return gathered
    raise over_parts(position)


def _skippable_end(view: memoryview, position: int) -> int:
    """Where the skippable frame that starts here ends; `position` itself if none does."""
    if position == len(view) or view[position] & layout.ZSTD_SKIPPABLE_MASK != layout.ZSTD_SKIPPABLE_FIRST:
        return position
    magic = bytes(view[position : position + _MAGIC_SIZE])
    if magic[1:] != layout.ZSTD_SKIPPABLE_MAGIC[: len(magic) - 1]:
        return position
    start = position + layout.ZSTD_SKIPPABLE_HEADER_SIZE
    end = start + int.from_bytes(view[position + _MAGIC_SIZE : start], "little")
    if max(start, end) > len(view):
        raise TruncatedError("the zstd stream ends inside of a skippable frame", position=len(view))
    return end


def _frame(codec: _Codec, view: memoryview, start: int, limit_bytes: int) -> tuple[int, Buffer]:
    """Where the frame that starts here ends, and its content."""
    declared, position = _header(codec, view, start)
    end, bound_bytes = _blocks(view, position)
    if declared.has_checksum:
        end += layout.ZSTD_CHECKSUM_SIZE
    if end > len(view):
        raise TruncatedError("the zstd stream ends inside of a frame", position=len(view))
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
    # At least 1: a bound of 0 would mean that the frame must declare its size.
    return end, context.decompress(frame, max(1, bound_bytes))


def _header(codec: _Codec, view: memoryview, start: int) -> tuple[Any, int]:
    """What the frame's header declares, and where it ends."""
    header = view[start : start + layout.ZSTD_MAX_HEADER_SIZE]
    try:
        return codec.library.get_frame_parameters(header), start + codec.library.frame_header_size(header)
    except codec.library.ZstdError:
        if bytes(header[:_MAGIC_SIZE]) != layout.ZSTD_FRAME_MAGIC[: len(header)]:
            raise
        completed = layout.ZSTD_FRAME_MAGIC + bytes(header[_MAGIC_SIZE:])
        codec.library.get_frame_parameters(completed.ljust(layout.ZSTD_MAX_HEADER_SIZE, b"\0"))  # bad ones raise again
        raise TruncatedError("the zstd stream ends inside of a frame header", position=len(view)) from None


def _blocks(view: memoryview, position: int) -> tuple[int, int]:
    """Where the blocks of a frame end, and the most bytes that they can hold."""
    bound_bytes = 0
    last_start = len(view) - layout.ZSTD_BLOCK_HEADER_SIZE
    for _ in range(MAX_PARTS):
        if position > last_start:
            raise TruncatedError("the zstd stream ends inside of a frame", position=len(view))
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
