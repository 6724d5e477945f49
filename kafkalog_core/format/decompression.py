"""Decompression of a batch's records, with every codec that Kafka knows, in bounded memory.

`decompress` takes the whole compressed part: the value of a magic 0 or 1 wrapper, the payload of a 0.7 wrapper, the
bytes after a magic 2 header. Rules for every codec:

- **Bounded.** At most the limit and one piece of 1 MiB is decompressed, from at most `MAX_PARTS` members, frames
  or blocks. A declared size (a content size, a block's preamble) is compared with the limit, and with the most that
  the compressed bytes can hold, before memory is allocated. In addition to the result a zstd frame may use its window,
  at most `layout.ZSTD_MAX_WINDOW_BYTES`.
- **Whole.** A stream that ends early is a `TruncatedError`, without content.
- **Nothing is dropped silently.** Everything that Kafka's readers read is read: further gzip members, a new header in
  a snappy block stream, further zstd frames. Bytes at the end that they ignore are a `TrailingError`, which has the
  content: GZIPInputStream ignores a tail that is not a member or is too short for one, KafkaLZ4BlockInputStream
  everything after its first frame, SnappyInputStream a tail of 1 to 3 bytes, and the stream of zstd-jni a skippable
  frame that is cut.

Checksums in the streams are verified, except lz4's header checksum in magic 0; a wrong checksum or size of the content
of an lz4 frame, which Kafka does not verify, is an `OddStreamError` with the content. The libraries are imported at the
first use of their codec, and each thread keeps its contexts.

Single-record batches cause millions of calls, which should cost little more than the library's own call. So gzip and
zstd first call their library if the content cannot exceed one piece, and use the result if the whole payload was
consumed and the stream is complete; lz4 and snappy as Java's clients write them are blocks in a plain framing, which
`kernels.unpack_rows` reads. Everything else is decoded carefully, which also finds the reason of a failure.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from threading import local
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.errors import FieldError, LimitError, TruncatedError, UnsupportedError
from kafkalog_core.format import layout
from kafkalog_core.format.checksums import ZLIB, crc32
from kafkalog_core.format.lz4_frames import inflate_lz4
from kafkalog_core.format.streams import (
    MAX_PARTS,
    PIECE_BYTES,
    OddStreamError,
    TrailingError,
    append,
    gather,
    over_limit,
    over_parts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.format.streams import Buffer, Content, Inflater

__all__ = [
    "FRAMED_CODECS",
    "block_decompressor",
    "decompress",
    "inflater",
]


def decompress(codec: int, payload: Buffer, *, magic: int, limit_bytes: int) -> Content:
    """Return the decompressed bytes of `payload`; for codec 0 the payload itself.

    Args:
        codec: codec id, the low bits of the batch's attributes.
        payload: the compressed part, whole and contiguous, as unsigned bytes.
        magic: of the batch (0.7: 0). Magic 0: the header checksum of lz4 frames is ignored; below 2: no zstd.
        limit_bytes: the largest allowed content.

    Raises:
        TruncatedError: the stream ends early.
        LimitError: the content exceeds the limit, there are too many parts, or the window of a zstd frame is too large.
        UnsupportedError: no release writes this codec id, or not with this magic.
        OddStreamError: the content was read, but bytes follow the stream, a gzip header has reserved flags, an lz4
            frame has a checksum or a size of its content that is wrong (Kafka ignores all of these), or has blocks that
            depend on each other, or a zstd frame asks for a large window (Java refuses these). The error has the
            content.
        FieldError: any other damage.
    """
    return inflater(codec)(payload, magic, limit_bytes)


def inflater(codec: int) -> Inflater:
    """Return the decompressor of one codec, for many calls. Its arguments: payload, magic, limit in bytes.

    Raises:
        UnsupportedError: no release writes this codec id.
    """
    if not 0 <= codec < len(_INFLATERS):
        raise UnsupportedError(f"codec id {codec} is not one of Kafka's")
    return _INFLATERS[codec]


# --- gzip -------------------------------------------------------------------------------------------------------------
# Compressed bytes that zlib gets at a time. It copies the bytes that it does not use, so small pieces keep it linear.
_INPUT_BYTES: Final = 64 * 1024
_WBITS: Final = 31  # of zlib: a gzip header and any window size
_GZIP_FLAGS: Final = 3  # where they are in a member
_GZIP_RESERVED: Final = 0xE0
_GZIP_HEADER_BYTES: Final = 10  # before the fields that flags announce
_GZIP_HEADER_CRC, _GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT = 0x02, 0x04, 0x08, 0x10


def _gunzip(payload: Buffer, _magic: int, limit_bytes: int) -> Buffer:
    """Return the content of all members of a gzip stream; see `decompress`."""
    try:
        # Nearly always one member of less than a piece. Some libraries do not see flags that are reserved.
        if _GZIP_FLAGS < len(payload) <= _INPUT_BYTES and not payload[_GZIP_FLAGS] & _GZIP_RESERVED:
            inflater = ZLIB.decompressobj(_WBITS)
            inflated: bytes = inflater.decompress(payload, PIECE_BYTES)
            if inflater.eof and not inflater.unused_data and len(inflated) <= limit_bytes:
                return inflated
        return _members(memoryview(payload), limit_bytes)
    except ZLIB.error as error:
        raise FieldError(f"damaged stream: {error}") from error


def _members(payload: memoryview, limit_bytes: int) -> bytearray:
    """Return the content of all members, which GZIPInputStream reads as one stream."""
    gathered = bytearray()
    position = 0
    odd_at: int | None = None
    for _ in range(MAX_PARTS):
        if _has_reserved_flags(payload, position):  # GZIPInputStream does not look at them
            payload = _without_reserved_flags(payload, position)
            odd_at = odd_at or position + _GZIP_FLAGS
        position = _member(payload, position, gathered, limit_bytes)
        if position == len(payload):
            break
        if not _is_member(bytes(payload[position:])):
            raise TrailingError(gathered, len(payload) - position, position=position)
    else:
        raise over_parts(position)
    if odd_at is not None:
        detail = "the gzip header has reserved flags, which Kafka ignores"
        raise OddStreamError(gathered, "payload-flags", detail, position=odd_at)
    return gathered


def _has_reserved_flags(payload: memoryview, position: int) -> bool:
    at = position + _GZIP_FLAGS
    return at < len(payload) and bytes(payload[position:at]) == layout.GZIP_MAGIC and payload[at] & _GZIP_RESERVED > 0


def _without_reserved_flags(payload: memoryview, position: int) -> memoryview:
    copy = bytearray(payload)
    copy[position + _GZIP_FLAGS] &= ~_GZIP_RESERVED
    return memoryview(copy)


def _is_member(tail: bytes) -> bool:
    """Return whether GZIPInputStream reads the bytes after a member.

    It ignores a tail that is too short for a member, and one whose header it cannot read (readHeader).
    """
    if len(tail) <= layout.GZIP_MIN_MEMBER_BYTES or not tail.startswith(layout.GZIP_MAGIC):
        return False
    flags, position = tail[_GZIP_FLAGS], _GZIP_HEADER_BYTES
    if flags & _GZIP_EXTRA:
        position += 2 + int.from_bytes(tail[position : position + 2], "little")
    for each in (_GZIP_NAME, _GZIP_COMMENT):
        if flags & each:
            end = tail.find(b"\0", position)
            if end < 0:
                return False
            position = end + 1
    if flags & _GZIP_HEADER_CRC:
        stored = int.from_bytes(tail[position : position + 2], "little")
        if stored != crc32(tail[:position]) & 0xFFFF:
            return False
        position += 2
    return position <= len(tail)


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


# --- snappy -----------------------------------------------------------------------------------------------------------
_MAGIC_SIZE: Final = len(layout.XERIAL_MAGIC)
_SIZE_SIZE: Final = layout.XERIAL_BLOCK.size


@cache
def _snappy() -> Any:
    """Return the library of snappy, which is imported at the first use of the codec."""
    return import_module("snappy")


def _unsnappy(payload: Buffer, _magic: int, limit_bytes: int) -> Content:
    """Return the content of a snappy block stream, or of a raw block; see `decompress`."""
    if payload[:_MAGIC_SIZE] != layout.XERIAL_MAGIC:
        if 1 < len(payload) < _MAGIC_SIZE and payload == layout.XERIAL_MAGIC[: len(payload)]:
            raise TruncatedError("the snappy stream ends within a header", position=len(payload))
        return _unsnappy_block(payload, 0, limit_bytes)
    view = memoryview(payload)
    last_start = len(view) - _SIZE_SIZE
    position = _after_snappy_header(view, 0)
    gathered = bytearray()
    for _ in range(MAX_PARTS):
        if position > last_start:
            break
        start, position = _snappy_block(view, position)
        if start != position:
            append(gathered, _unsnappy_block(view[start:position], start, limit_bytes - len(gathered)), limit_bytes)
    else:
        raise over_parts(position)
    if position < len(view):
        raise TrailingError(gathered, len(view) - position, position=position)
    return gathered


def _snappy_block(view: memoryview, position: int) -> tuple[int, int]:
    """Return start and end of the raw block whose size is at `position`; for a header instead, twice its end."""
    start = position + _SIZE_SIZE
    (size_bytes,) = layout.XERIAL_BLOCK.struct.unpack_from(view, position)
    end: int = start + size_bytes
    if size_bytes > 0:
        if end > len(view):
            raise TruncatedError("the snappy stream ends within a block", position=len(view))
        return start, end
    possible_magic = view[position : position + _MAGIC_SIZE]
    if possible_magic != layout.XERIAL_MAGIC[: len(possible_magic)]:
        raise FieldError(f"a snappy block of {size_bytes} bytes", position=position)
    end = _after_snappy_header(view, position)
    return end, end


def _after_snappy_header(view: memoryview, position: int) -> int:
    """Return the end of the header at `position`. SnappyInputStream looks at its versions up to Kafka 0.9 only."""
    end = position + layout.XERIAL_HEADER.size
    if end > len(view):
        raise TruncatedError("the snappy stream ends within a header", position=len(view))
    return end


def _unsnappy_block(block: Buffer, position: int, limit_bytes: int) -> Content:
    """Return the content of a raw block. `position`: of the block in the payload."""
    declared_bytes, body = _snappy_preamble(block, position)
    if declared_bytes > limit_bytes:
        raise over_limit(limit_bytes)
    if declared_bytes <= (len(block) - body) * layout.SNAPPY_MAX_RATIO:
        try:
            inflated: bytes = _snappy().uncompress(block)
        except _snappy().UncompressError as error:
            raise FieldError(f"not a snappy block: {error.__cause__}", position=position) from error
        return inflated
    raise FieldError(f"a snappy block of {len(block)} bytes declares {declared_bytes}", position=position)


def _snappy_preamble(block: Buffer, position: int) -> tuple[int, int]:
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


# --- zstd -------------------------------------------------------------------------------------------------------------
_SHARED_WINDOW_BYTES: Final = 8 * 1024 * 1024  # frames of larger windows get their own context, freed with the frame
_SHARED_WINDOW: Final = (_SHARED_WINDOW_BYTES // 1024).bit_length() - 1 << 3  # the same as a window descriptor
_MAX_WINDOW: Final = (layout.ZSTD_MAX_WINDOW_BYTES // 1024).bit_length() - 1 << 3
_ZSTD_MAGIC_SIZE: Final = len(layout.ZSTD_FRAME_MAGIC)
_JAVA_PIECE_BYTES: Final = 16 * 1024  # ZstdCompression reads a frame into such buffers: one that fits needs no window
_WINDOW_AT: Final = 5  # where the descriptor of the window is in a frame
_SINGLE_SEGMENT: Final = 0x20  # of a frame's descriptor: it has no window, but the size of its content
_zstd_unpack_start: Final = layout.ZSTD_START.unpack_from
_BLOCK_START: Final = layout.ZSTD_START.size  # where the first block starts in a frame without content size
# By descriptor of such a frame.
_CHECKSUM_BYTES: Final = {0: 0, layout.ZSTD_DESCRIPTOR_CHECKSUM: layout.ZSTD_CHECKSUM_SIZE}
_LAST: Final = layout.ZSTD_BLOCK_LAST
# The stored size of an RLE block is not its size in the frame.
_LAST_OR_RLE: Final = layout.ZSTD_BLOCK_LAST | layout.ZSTD_BLOCK_TYPE_RLE
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


def _unzstd(payload: Buffer, magic: int, limit_bytes: int) -> Buffer:
    """Return the content of all frames of a zstd stream; see `decompress`."""
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
                is_small = is_small and (window <= _MAX_WINDOW or descriptor & _SINGLE_SEGMENT)
            else:
                end = _BLOCK_START + (header >> _SIZE_SHIFT) + checksum_bytes
                is_small = end == len(payload) and header & _LAST_OR_RLE == _LAST and window <= _SHARED_WINDOW
            if is_small:
                # Passing read_across_frames and allow_extra_data by name would be slower.
                whole: bytes = codec.decompress(payload, _MAX_BLOCK_BYTES, False, False)
                return whole
        except codec.library.ZstdError:
            pass
    return _zstd_frames(codec, payload, limit_bytes)


def _zstd_frames(codec: _Codec, payload: Buffer, limit_bytes: int) -> Buffer:
    view = memoryview(payload)
    size_bytes = len(view)
    gathered = bytearray()
    position = 0
    large: tuple[int, int] | None = None
    for _ in range(MAX_PARTS):
        end = _skippable_end(view, position)
        if end > size_bytes:
            if position:  # Java's stream has ended with the frame before it
                raise TrailingError(gathered, size_bytes - position, position=position)
            raise TruncatedError("the zstd stream ends within a skippable frame", position=size_bytes)
        if end == position:
            try:
                end, content, needed_bytes = _zstd_frame(codec, view, position, limit_bytes - len(gathered))
            except codec.library.ZstdError as error:
                raise FieldError(f"not a zstd frame: {error}", position=position) from error
            if needed_bytes > layout.ZSTD_MAX_WINDOW_BYTES:
                large = large or (needed_bytes, position)
            elif end - position == size_bytes:  # nearly always a single frame: do not copy it
                return content
            append(gathered, content, limit_bytes)
        position = end
        if position == size_bytes:
            if large is not None:
                detail = f"a zstd frame asks for a window of {large[0]} bytes, which Kafka's Java code refuses"
                raise OddStreamError(gathered, "payload-window", detail, position=large[1])
            return gathered
    raise over_parts(position)


def _skippable_end(view: memoryview, position: int) -> int:
    """Return the end of the skippable frame at `position`, also if that is missing, or `position` if there is none."""
    if position == len(view) or view[position] & layout.ZSTD_SKIPPABLE_MASK != layout.ZSTD_SKIPPABLE_FIRST:
        return position
    magic = bytes(view[position : position + _ZSTD_MAGIC_SIZE])
    if magic[1:] != layout.ZSTD_SKIPPABLE_MAGIC[: len(magic) - 1]:
        return position
    start = position + layout.ZSTD_SKIPPABLE_HEADER_SIZE
    end = start + int.from_bytes(view[position + _ZSTD_MAGIC_SIZE : start], "little")
    return max(start, end)


def _zstd_frame(codec: _Codec, view: memoryview, start: int, limit_bytes: int) -> tuple[int, Buffer, int]:
    """Return the end of the frame at `start`, its content, and the size of the window that a reader in pieces needs.

    The content of a frame of a large window is only read in one piece, which needs no window.
    """
    declared, position = _zstd_header(codec, view, start)
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
        if content_bytes <= _JAVA_PIECE_BYTES:
            window_bytes = 0
    elif window_bytes > layout.ZSTD_MAX_WINDOW_BYTES:
        if bound_bytes > min(limit_bytes, layout.ZSTD_MAX_WINDOW_BYTES):
            raise LimitError(f"a zstd frame asks for a window of {window_bytes} bytes", position=start)
        frame = _narrowed(frame, bound_bytes)
    elif bound_bytes > limit_bytes:
        return end, gather(codec.pieces(frame), limit_bytes), window_bytes
    context = codec.context if window_bytes <= _SHARED_WINDOW_BYTES else codec.fresh()
    # At least 1: with 0 the library requires the frame to declare its size.
    return end, context.decompress(frame, max(1, bound_bytes)), window_bytes


def _narrowed(frame: memoryview, bound_bytes: int) -> memoryview:
    """Return a frame with a window that its content fits into: nothing in it refers to bytes farther away."""
    kibibytes = -(-max(bound_bytes, layout.ZSTD_MAX_BLOCK_BYTES) // 1024)
    copy = bytearray(frame)
    copy[_WINDOW_AT] = (kibibytes - 1).bit_length() << 3
    return memoryview(copy)


def _zstd_header(codec: _Codec, view: memoryview, start: int) -> tuple[Any, int]:
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


def _stored(payload: Buffer, _magic: int, _limit_bytes: int) -> Buffer:
    return payload


_INFLATERS: Final[tuple[Inflater, ...]] = (_stored, _gunzip, _unsnappy, inflate_lz4, _unzstd)


FRAMED_CODECS: Final = (layout.CODEC_SNAPPY, layout.CODEC_LZ4)
"""Codecs whose streams, as Java's clients write them, are blocks in a framing that `kernels.unpack_rows` reads."""


@cache
def block_decompressor(codec: int) -> Callable[..., Any] | None:
    """Return the library's function for one block of such a codec; else `None`."""
    if codec not in FRAMED_CODECS:
        return None
    # cramjam is python-snappy's engine. Its functions fill a buffer, those of python-snappy and lz4 allocate one.
    library = import_module("cramjam")
    is_lz4 = codec == layout.CODEC_LZ4
    function: Callable[..., Any] = library.lz4.decompress_block_into if is_lz4 else library.snappy.decompress_raw_into
    return function
