"""Decompression of a batch's records, with every codec that Kafka knows, in bounded memory.

`decompress` takes the whole compressed part: the value of a magic 0 or 1 wrapper, the payload of a 0.7 wrapper, the
bytes after a magic 2 header. Rules for every codec:

- **Bounded.** At most the limit and one piece of 1 MiB is decompressed, from at most `codecs.MAX_PARTS` members, frames
  or blocks. A declared size (a content size, a block's preamble) is compared with the limit, and with the most that
  the compressed bytes can hold, before memory is allocated. In addition to the result a zstd frame may use its window,
  at most `layout.ZSTD_MAX_WINDOW_BYTES`.
- **Whole.** A stream that ends early is a `TruncatedError`, without content.
- **Nothing is dropped silently.** Everything that Kafka's readers read is read: further gzip members, a new header in
  a snappy block stream, further zstd frames. Bytes at the end that they ignore are a `TrailingError`, which has the
  content: GZIPInputStream ignores a tail that is not a member or is too short for one, KafkaLZ4BlockInputStream
  everything after its first frame, SnappyInputStream a tail of 1 to 3 bytes.

Checksums in the streams are verified, except lz4's header checksum in magic 0 (Kafka does not verify lz4's content
checksum either). The libraries are imported at the first use of their codec, and each thread keeps its contexts.

Single-record batches cause millions of calls, which should cost little more than the library's own call. So each codec
first calls its library if the content cannot exceed one piece, and uses the result if the whole payload was consumed
and the stream is complete. Everything else is decoded carefully, which also finds the reason of a failure.
"""

from __future__ import annotations

import zlib
from array import array
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from threading import local
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.errors import FieldError, FormatError, LimitError, TruncatedError, UnsupportedError
from kafkalog_core.format import kernels, layout
from kafkalog_core.format.checksums import crc32
from kafkalog_core.format.codec_lz4 import header_checksum, unlz4
from kafkalog_core.format.codecs import TrailingError, gunzip, unsnappy, unzstd
from kafkalog_core.format.columns import FORMAT_V07, BatchColumns
from kafkalog_core.format.kernels import constants as n
from kafkalog_core.format.layout import (
    CODEC_NAMES,
    MAGIC_V0,
    MAGIC_V2,
    V07_MAX_DEPTH,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.format.codecs import Buffer, Content

    Inflater = Callable[[Buffer, int, int], Content]

__all__ = [
    "GZIP_SYSTEM",
    "LZ4_JAVA",
    "Arena",
    "PayloadDamage",
    "codec_name",
    "compress",
    "decompress",
    "first_offset",
    "inflater",
    "lost_offsets",
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
        TrailingError: bytes follow the end of the stream, which Kafka ignores. The error has the content.
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


def _stored(payload: Buffer, _magic: int, _limit_bytes: int) -> Buffer:
    return payload


_INFLATERS: Final[tuple[Inflater, ...]] = (_stored, gunzip, unsnappy, unlz4, unzstd)


ARENA_BYTES: Final = 128 * 1024  # decompressed before the records are decoded: small enough for the processor's cache
_ROOM: Final = 8  # the arena has this many times ARENA_BYTES, because the last row may be large
_V07_ROWS: Final = 512  # messages that are searched for wrappers at a time
_INFLATE_ERRORS: Final = (
    (LimitError, "payload-limit"),
    (TruncatedError, "payload-truncated"),
    (TrailingError, "payload-trailing"),
    (FormatError, "payload"),
)


@dataclass(frozen=True, slots=True)
class PayloadDamage:
    """A batch (row `batch`) whose checksum is correct, but whose records cannot all be decoded.

    `records_before` records were decoded. For the reason `payload-trailing` no record is missing: other bytes follow
    the records. `next_offset`: the first offset that was not decoded; `None` if unknown or if none is missing.
    """

    batch: int
    reason: str
    detail: str
    records_before: int
    next_offset: int | None = None


def codec_name(codec: int) -> str:
    """Return Kafka's name of a codec id, or `unknown-5` and so on."""
    return CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"unknown-{codec}"


def first_offset(batches: BatchColumns, row: int) -> int | None:
    """Return the first offset of a batch; `None` for a compressed message of magic 0 or 1, whose header lacks it."""
    first: int = batches.column("base_offset")[row]
    return None if first < 0 else first


def lost_offsets(batches: BatchColumns, row: int, lost_from: int | None) -> str:
    """Return the offsets of a batch from `lost_from` on, as the end of a sentence."""
    if batches.column("format")[row] == FORMAT_V07:
        return ""
    last = batches.column("last_offset")[row]
    if lost_from is None:
        return f"; its records up to offset {last} are not read"
    if lost_from > last:
        return ""
    return f"; offset {last} is not read" if lost_from == last else f"; offsets {lost_from} to {last} are not read"


class Arena:
    """Decompressed payloads one after the other, and a copy of the batch columns with spans of them."""

    def __init__(self, memory: memoryview, batches: BatchColumns, max_bytes: int) -> None:
        self.memory = memoryview(b"")
        self.columns = batches.copy()
        self._memory = memory
        self._batches = batches
        self._max_bytes = max_bytes
        self._codecs, self._formats = batches.column("codec"), batches.column("format")
        self._payloads = batches.column("payload_start"), batches.column("payload_end")
        self._starts, self._ends = self.columns.column("payload_start"), self.columns.column("payload_end")
        self._opener = _WrapperOpener() if self._formats[0] == FORMAT_V07 else None  # a 0.7 file has 0.7 messages only
        self._room = kernels.uncleared(_ROOM * ARENA_BYTES)
        self._row = self._size_bytes = 0  # the next row, and the bytes of those before it
        self._held: tuple[int, Content] | None = None  # a row that was decompressed when there was no room left

    def fill(self, first: int, last: int) -> tuple[int, PayloadDamage | None]:
        """Decompress the payloads of rows `first` to `last` (exclusive) until the arena is full.

        The previous content is overwritten. Return the first row that is not decompressed, and the damage that ended
        the call: of that row, or trailing bytes of the row before it.
        """
        self._row, self._size_bytes, self.memory = first, 0, memoryview(self._room)
        held, self._held = self._held, None
        damage = None
        try:
            if held is not None and held[0] == first:
                self._put(held[1])
            while self._row < last and self._size_bytes < ARENA_BYTES:
                if not self._fill_rows(last):
                    break
        except TrailingError as error:
            if self._put(error.content):
                damage = self._damage(self._row - 1, error)
        except FormatError as error:
            damage = self._damage(self._row, error)
        self.memory = self.memory[: self._size_bytes]
        return self._row, damage

    def _fill_rows(self, last: int) -> bool:
        """Decompress rows until the arena is full. Return whether the last content had room in it.

        Many batches are small, so everything that is the same for all of them is looked up once.
        """
        memory, max_bytes, arena = self._memory, self._max_bytes, self.memory
        first, size_bytes = self._row, self._size_bytes
        ends = array("q")
        content: Content | None = None
        inflate_codec = -1
        columns = (column[first:last] for column in (self._codecs, self._formats, *self._payloads))
        try:
            for codec, batch_format, start, end in zip(*columns, strict=True):
                if size_bytes >= ARENA_BYTES:
                    break
                if codec != inflate_codec:
                    inflate = inflater(codec) if self._opener is None else partial(self._opener.inflate, codec)
                    inflate_codec = codec
                if start < end:
                    content = inflate(memory[start:end], batch_format, max_bytes)
                elif start < 0:
                    raise FieldError("its key and value lengths do not fit, or it has no value")
                else:  # a batch that the cleaner emptied has no payload
                    content = b"" if batch_format == MAGIC_V2 else inflate(b"", batch_format, max_bytes)
                filled = size_bytes + len(content)
                if filled > len(arena):
                    break
                arena[size_bytes:filled] = content
                ends.append(filled)
                size_bytes, content = filled, None
        finally:
            self._starts[first : first + len(ends)] = (array("q", [self._size_bytes]) + ends)[: len(ends)]
            self._ends[first : first + len(ends)] = ends
            self._row, self._size_bytes = first + len(ends), size_bytes
        if content is not None and not self._put(content):
            self._held = self._row, content
            return False
        return True

    def _put(self, content: Content) -> bool:
        """Add the content of the next row; too large a one becomes the whole arena. Return whether there is room."""
        filled = self._size_bytes + len(content)
        if filled <= len(self._room):
            self.memory[self._size_bytes : filled] = content
        elif not self._size_bytes:
            self.memory = memoryview(content)
        else:
            return False
        self._starts[self._row], self._ends[self._row] = self._size_bytes, filled
        self._row, self._size_bytes = self._row + 1, filled
        return True

    def _damage(self, row: int, error: FormatError) -> PayloadDamage:
        if self._payloads[0][row] < 0:
            reason, detail = "wrapper-value", str(error)
        else:
            reason = next(name for kind, name in _INFLATE_ERRORS if isinstance(error, kind))
            detail = f"{codec_name(self._codecs[row])}: {error}"
        if isinstance(error, TrailingError):
            return PayloadDamage(row, reason, detail, 0)
        lost_from = first_offset(self._batches, row)
        return PayloadDamage(row, reason, detail + lost_offsets(self._batches, row, lost_from), 0, lost_from)


class _WrapperOpener:
    """Decompresses wrappers of 0.7 into a flat set of messages.

    The content of every level counts against the limit, not only the result: a level is in memory while the levels
    inside it are read, and a hundred bytes can hold many wrappers of a megabyte of empty ones each.
    """

    def __init__(self) -> None:
        self._columns = BatchColumns(_V07_ROWS)
        self._left_bytes = 0
        self._trailing: TrailingError | None = None

    def inflate(self, codec: int, payload: Buffer, _format: int, max_bytes: int) -> Content:
        """Return all messages of one wrapper, nested ones included. An `Inflater` of its codec, with its errors."""
        self._left_bytes = max_bytes
        self._trailing = None
        content = self._flat(self._opened(codec, payload), depth=1)
        if self._trailing is not None:
            raise TrailingError(content, self._trailing.trailing_bytes, position=self._trailing.position)
        return content

    def _opened(self, codec: int, payload: Buffer) -> Content:
        content: Content
        try:
            content = inflater(codec)(payload, MAGIC_V0, self._left_bytes)
        except TrailingError as error:
            content, self._trailing = error.content, error
        self._left_bytes -= len(content)
        return content

    def _flat(self, content: Content, depth: int) -> Content:
        """Return messages with every wrapper replaced by its messages. A cut message at the end is kept."""
        if depth > V07_MAX_DEPTH:
            raise LimitError(f"wrappers are nested more than {V07_MAX_DEPTH} deep")
        messages = memoryview(content)
        end = len(messages)
        flat = bytearray()
        position = kept = 0
        columns = self._columns
        while True:
            _, position = kernels.walk_v07(messages, position, end, 0, 0, end, False, columns)
            if not columns.count:
                break
            for at, size_bytes, codec, start, stop in self._wrappers():
                flat += messages[kept:at]
                kept = at + size_bytes
                flat += memoryview(self._flat(self._opened(codec, messages[start:stop]), depth + 1))
        if not kept:
            return content
        flat += messages[kept:]
        return flat

    def _wrappers(self) -> list[tuple[int, ...]]:
        """Return position, size, codec and payload of the messages in the columns that are wrappers."""
        codecs = self._columns.column("codec")
        if not self._columns.has_any("codec"):
            return []
        names = ("position", "size_bytes", "codec", "payload_start", "payload_end")
        rows = zip(*map(self._columns.column, names), strict=True)
        return [row for row, codec in zip(rows, codecs, strict=True) if codec]


GZIP_SYSTEM: Final = 255
LZ4_JAVA: Final = "1.5"
_GZIP_START: Final = layout.GZIP_MAGIC + bytes(6)
_GZIP_LEVEL: Final = 6  # zlib's default
_ZSTD_LEVEL: Final = 3
_XERIAL_START: Final = layout.XERIAL_HEADER.struct.pack(layout.XERIAL_MAGIC, 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_LZ4_DESCRIPTOR: Final = bytes((layout.LZ4_FLG_VERSION | layout.LZ4_FLG_INDEPENDENT, layout.LZ4_BD_64_KIB))
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_ROOM_BYTES: Final = _LZ4_BLOCK_BYTES + _LZ4_BLOCK_BYTES // 255 + 16
_LZ4_FORMS: Final = {"1.2": n.LZ4_FORM_1_2, "1.3": n.LZ4_FORM_1_3, LZ4_JAVA: n.LZ4_FORM_1_5}
_pack_size: Final = layout.LZ4_BLOCK_SIZE.pack


@cache
def _library(name: str) -> Any:
    return import_module(name)


class _Thread(local):
    """Objects that a thread reuses: a context of zstd, the hash table and output of lz4 blocks."""

    def __init__(self) -> None:
        self.table = array("q", bytes(8 * n.LZ4_HASHES))
        self.room = bytearray(_LZ4_ROOM_BYTES)
        self._zstd: Any = None

    def zstd(self) -> Any:
        self._zstd = self._zstd or _library("zstandard").ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=False)
        return self._zstd


_THREAD: Final = _Thread()


def compress(
    codec: int, data: Buffer, *, magic: int, gzip_system: int = GZIP_SYSTEM, lz4_java: str = LZ4_JAVA
) -> bytes:
    """Return `data` compressed as Kafka's Java client and broker do.

    Args:
        codec: codec id, the low bits of the batch's attributes.
        data: records or messages.
        magic: of the batch; with magic 0 the header checksum of an lz4 frame covers its magic too (KAFKA-3160).
        gzip_system: byte of a gzip stream for the operating system: 255 (unknown) since Java 16, before that 0.
        lz4_java: version of lz4-java, whose search finds these matches: "1.2", "1.3" (and 1.4), or "1.5" (and later).

    Raises:
        UnsupportedError: no release writes this codec id.
    """
    if codec == layout.CODEC_GZIP:
        return _gzip(data, gzip_system)
    if codec == layout.CODEC_LZ4:
        return _lz4(data, magic, _LZ4_FORMS[lz4_java])
    if codec not in _COMPRESSORS:
        raise UnsupportedError(f"codec id {codec} is not one of Kafka's")
    return _COMPRESSORS[codec](data)


def _gzip(data: Buffer, system: int) -> bytes:
    """Return one member without a file name and a time, as Java's GZIPOutputStream writes it."""
    stream = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = stream.compress(data) + stream.flush()
    size = memoryview(data).nbytes & 0xFFFFFFFF
    return _GZIP_START + bytes((system,)) + body + crc32(data).to_bytes(4, "little") + size.to_bytes(4, "little")


def _xerial(data: Buffer) -> bytes:
    """Return a block stream: raw snappy blocks, each after its size (SnappyOutputStream)."""
    compress_raw: Callable[[Buffer], bytes] = _library("snappy").compress
    view = memoryview(data)
    out = bytearray(_XERIAL_START)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = compress_raw(view[start : start + _XERIAL_BLOCK_BYTES])
        out += layout.XERIAL_BLOCK.struct.pack(len(block)) + block
    return bytes(out)


def _lz4(data: Buffer, magic: int, form: int) -> bytes:
    """Return a frame of independent 64 KiB blocks, with the header checksum only (KafkaLZ4BlockOutputStream)."""
    table, room = _THREAD.table, _THREAD.room
    view = memoryview(data)
    covered = layout.LZ4_FRAME_MAGIC + _LZ4_DESCRIPTOR if magic == layout.MAGIC_V0 else _LZ4_DESCRIPTOR
    out = bytearray(layout.LZ4_FRAME_MAGIC + _LZ4_DESCRIPTOR)
    out.append(header_checksum(covered))
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        block = view[start : start + _LZ4_BLOCK_BYTES]
        size = kernels.pack_lz4(block, table, room, form)
        if size >= len(block):
            out += _pack_size(len(block) | layout.LZ4_BLOCK_STORED)
            out += block
        else:
            out += _pack_size(size) + room[:size]
    return bytes(out + _pack_size(0))


def _zstd(data: Buffer) -> bytes:
    """Return a frame without content size that is flushed before its end, as Java does: the last block is empty."""
    stream = _THREAD.zstd().compressobj()
    compressed: bytes = stream.compress(data) + stream.flush(_library("zstandard").COMPRESSOBJ_FLUSH_BLOCK)
    return compressed + bytes(stream.flush())


_COMPRESSORS: Final[dict[int, Callable[[Buffer], bytes]]] = {
    layout.CODEC_SNAPPY: _xerial,
    layout.CODEC_ZSTD: _zstd,
}
