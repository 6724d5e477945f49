"""Decompression of a batch's records, with every codec that Kafka knows, in bounded memory.

`decompress` takes the whole compressed part: the value of a magic 0 or 1 wrapper, the payload of a 0.7 wrapper, the
bytes behind a magic 2 header. Rules that hold for every codec:

- **Bounded.** No more than the limit and one piece of 1 MiB is ever inflated, of no more than `bounded.MAX_PARTS`
  members, frames or blocks. What a stream declares (a content size, a
  block's preamble) is held against the limit, and against what so few bytes can hold at all, before memory is taken.
  Beside the result a zstd frame may use its window, at most `layout.ZSTD_MAX_WINDOW_BYTES`.
- **Whole.** A stream that ends early gives nothing: `TruncatedError`.
- **Nothing is dropped in silence.** What Kafka's readers read on through is read: further gzip members, a new header in
  a snappy block stream, further zstd frames. What they ignore behind the end is a `TrailingError`, which has the
  content: GZIPInputStream ignores a tail that is no member or is too short for one, KafkaLZ4BlockInputStream all that
  follows its first frame, SnappyInputStream a tail of 1 to 3 bytes.

Checksums inside of the streams are verified, but for lz4's header checksum in magic 0 (Kafka does not verify lz4's
content checksum either). The libraries are imported at the first use of their codec, and contexts are kept, one a
thread.

Single-record batches make millions of calls, which should cost little more than the library's own call. So each codec
asks its library first, where no more than one piece can come of it, and takes the answer if it is beyond doubt: the
whole payload was used, and the stream is complete. All else goes the careful way, which knows the reason too.
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
    """The inflated bytes of `payload`; for codec 0 the payload itself.

    Args:
        codec: codec id, the low bits of the batch's attributes.
        payload: the compressed part, whole and contiguous, as unsigned bytes.
        magic: of the batch (0.7: 0). Magic 0 excuses the header checksum of lz4 frames; below 2 there is no zstd.
        limit_bytes: the most that may be inflated.

    Raises:
        TruncatedError: the stream ends early.
        LimitError: it inflates to more than the limit, has too many parts, or a zstd frame asks for too large a window.
        UnsupportedError: a codec id that no release writes, or not with this magic.
        TrailingError: bytes stand behind the stream's end, which Kafka ignores. The error has the content.
        FieldError: anything else that the codec's reader refuses.
    """
    return inflater(codec)(payload, magic, limit_bytes)


def inflater(codec: int) -> Inflater:
    """What inflates payloads of one codec: `decompress` for many calls. Its arguments: payload, magic, limit in bytes.

    Raises:
        UnsupportedError: a codec id that no release writes.
    """
    if not 0 <= codec < len(_INFLATERS):
        raise UnsupportedError(f"codec id {codec} is none of Kafka's")
    return _INFLATERS[codec]


def _stored(payload: Buffer, _magic: int, _limit_bytes: int) -> Buffer:
    return payload


_INFLATERS: Final[tuple[Inflater, ...]] = (_stored, gunzip, unsnappy, unlz4, unzstd)


ARENA_BYTES: Final = 128 * 1024  # are inflated before their records are decoded: so much stays near to the processor
_ROOM: Final = 8  # times as much memory there is, as the last row may need some
_V07_ROWS: Final = 512  # messages that are walked at a time, in search of wrappers
_INFLATE_ERRORS: Final = (
    (LimitError, "payload-limit"),
    (TruncatedError, "payload-truncated"),
    (TrailingError, "payload-trailing"),
    (FormatError, "payload"),
)


@dataclass(frozen=True, slots=True)
class PayloadDamage:
    """The batch in row `batch` has a good checksum, but not all of its records can be read; `records_before` were.

    For the reason `payload-trailing` it is not records that are missing: bytes stand behind those that hold them.
    `next_offset` is the first offset that was not read; None where it is not known, or nothing is missing.
    """

    batch: int
    reason: str
    detail: str
    records_before: int
    next_offset: int | None = None


def codec_name(codec: int) -> str:
    """Kafka's name of a codec id; `unknown-5` and so on for ids without a name."""
    return CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"unknown-{codec}"


def first_offset(batches: BatchColumns, row: int) -> int | None:
    """Where a batch starts; None of a compressed message, as only its content knows."""
    first: int = batches.column("base_offset")[row]
    return None if first < 0 else first


def lost_offsets(batches: BatchColumns, row: int, lost_from: int | None) -> str:
    """Which offsets a batch holds from `lost_from` on, as the end of a sentence."""
    if batches.column("format")[row] == FORMAT_V07:
        return ""
    last = batches.column("last_offset")[row]
    if lost_from is None:
        return f"; what it holds up to offset {last} is not read"
    if lost_from > last:
        return ""
    return f"; offset {last} is not read" if lost_from == last else f"; offsets {lost_from} to {last} are not read"


class Arena:
    """Inflated payloads one behind the other, and a copy of the batch columns whose spans point into them."""

    def __init__(self, memory: memoryview, batches: BatchColumns, max_bytes: int) -> None:
        self.memory = memoryview(b"")
        self.columns = batches.copy()
        self._memory = memory
        self._batches = batches
        self._max_bytes = max_bytes
        self._codecs, self._formats = batches.column("codec"), batches.column("format")
        self._payloads = batches.column("payload_start"), batches.column("payload_end")
        self._starts, self._ends = self.columns.column("payload_start"), self.columns.column("payload_end")
        self._opener = _WrapperOpener() if self._formats[0] == FORMAT_V07 else None  # no file is so in part
        self._room = kernels.uncleared(_ROOM * ARENA_BYTES)
        self._row = self._size_bytes = 0  # the next row, and all that those before it hold
        self._held: tuple[int, Content] | None = None  # a row that was inflated when there was no more room for it

    def fill(self, first: int, last: int) -> tuple[int, PayloadDamage | None]:
        """Inflate payloads of rows `first` to `last` (exclusive) until the arena is full; their spans point into it.

        What was given out before is written over. Returns the first row that is not inflated, and the damage that
        ended it: that row's own, or of the row before it, which is inflated, but of which not all bytes are content.
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
        """Inflate rows until the arena is full. Return whether the last payload that was inflated had room in it.

        Many batches are small, so whatever is the same for all of them is looked up once.
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
                    raise FieldError("its key and value lengths do not fit, or it has no value to open")
                else:  # a batch that the cleaner emptied has no payload
                    content = b"" if batch_format == MAGIC_V2 else inflate(b"", batch_format, max_bytes)
                behind = size_bytes + len(content)
                if behind > len(arena):
                    break
                arena[size_bytes:behind] = content
                ends.append(behind)
                size_bytes, content = behind, None
        finally:
            self._starts[first : first + len(ends)] = (array("q", [self._size_bytes]) + ends)[: len(ends)]
            self._ends[first : first + len(ends)] = ends
            self._row, self._size_bytes = first + len(ends), size_bytes
        if content is not None and not self._put(content):
            self._held = self._row, content
            return False
        return True

    def _put(self, content: Content) -> bool:
        """The content of the next row; too large a one stands by itself. Returns whether there is room for it."""
        behind = self._size_bytes + len(content)
        if behind <= len(self._room):
            self.memory[self._size_bytes : behind] = content
        elif not self._size_bytes:
            self.memory = memoryview(content)
        else:
            return False
        self._starts[self._row], self._ends[self._row] = self._size_bytes, behind
        self._row, self._size_bytes = self._row + 1, behind
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
    """Opens wrappers of 0.7: what they hold, as a flat set of messages.

    All that is inflated on the way counts against the limit, not only what is left of it in the end: a level is held
    while those inside are read, and a hundred bytes can hold many wrappers of a megabyte of empty ones each.
    """

    def __init__(self) -> None:
        self._columns = BatchColumns(_V07_ROWS)
        self._left_bytes = 0
        self._trailing: TrailingError | None = None

    def inflate(self, codec: int, payload: Buffer, _format: int, max_bytes: int) -> Content:
        """All messages of one wrapper, however nested. An `Inflater` for its codec; raises what those raise."""
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
        """Messages with every wrapper replaced by what it holds. A cut message at the end stays as it is."""
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
        """Position, size, codec and payload of those messages in the columns that are wrappers themselves."""
        codecs = self._columns.column("codec")
        if not self._columns.has_any("codec"):
            return []
        names = ("position", "size_bytes", "codec", "payload_start", "payload_end")
        rows = zip(*map(self._columns.column, names), strict=True)
        return [row for row, codec in zip(rows, codecs, strict=True) if codec]


GZIP_SYSTEM: Final = 255
LZ4_JAVA: Final = "1.5"
_GZIP_START: Final = layout.GZIP_MAGIC + bytes(6)
_GZIP_LEVEL: Final = 6  # what zlib's default is
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
    """What one thread uses again: a context of zstd, what blocks of lz4 are made with."""

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
    """The compressed form of `data`.

    Args:
        codec: codec id, the low bits of the batch's attributes.
        data: records or messages.
        magic: of the batch: in magic 0 the header of an lz4 frame has another checksum.
        gzip_system: byte of a gzip stream that names the operating system: Java says 255 (unknown), before Java 16 it
            said 0.
        lz4_java: the version of lz4-java whose matches an lz4 frame has: "1.2", "1.3" (and 1.4), or "1.5" (and later).

    Raises:
        UnsupportedError: a codec id that no release writes.
    """
    if codec == layout.CODEC_GZIP:
        return _gzip(data, gzip_system)
    if codec == layout.CODEC_LZ4:
        return _lz4(data, magic, _LZ4_FORMS[lz4_java])
    if codec not in _COMPRESSORS:
        raise UnsupportedError(f"codec id {codec} is none of Kafka's")
    return _COMPRESSORS[codec](data)


def _gzip(data: Buffer, system: int) -> bytes:
    """One member without a name and a time."""
    stream = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = stream.compress(data) + stream.flush()
    size = memoryview(data).nbytes & 0xFFFFFFFF
    return _GZIP_START + bytes((system,)) + body + crc32(data).to_bytes(4, "little") + size.to_bytes(4, "little")


def _xerial(data: Buffer) -> bytes:
    """Blocks of raw snappy, each behind its size."""
    compress_raw: Callable[[Buffer], bytes] = _library("snappy").compress
    view = memoryview(data)
    out = bytearray(_XERIAL_START)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = compress_raw(view[start : start + _XERIAL_BLOCK_BYTES])
        out += layout.XERIAL_BLOCK.struct.pack(len(block)) + block
    return bytes(out)


def _lz4(data: Buffer, magic: int, form: int) -> bytes:
    """A frame of blocks of 64 KiB that know nothing of each other, with no checksum but the header's."""
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
    """A stream whose size is not known when it begins, and that is flushed before it ends: the last block is empty."""
    stream = _THREAD.zstd().compressobj()
    compressed: bytes = stream.compress(data) + stream.flush(_library("zstandard").COMPRESSOBJ_FLUSH_BLOCK)
    return compressed + bytes(stream.flush())


_COMPRESSORS: Final[dict[int, Callable[[Buffer], bytes]]] = {
    layout.CODEC_SNAPPY: _xerial,
    layout.CODEC_ZSTD: _zstd,
}
