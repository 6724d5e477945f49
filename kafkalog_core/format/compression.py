"""Compression of a batch's records as Kafka's Java client and broker do it, each codec at its default level.

The framing is that of the Java clients. The bytes inside are the same too as far as the libraries find the same
matches: gzip, lz4 and zstd mostly do, snappy of older releases mostly does not.
"""

from __future__ import annotations

import zlib
from array import array
from functools import cache
from importlib import import_module
from threading import local
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core import kernels
from kafkalog_core.errors import UnsupportedError
from kafkalog_core.format import layout
from kafkalog_core.format.checksums import crc32, lz4_header_checksum
from kafkalog_core.kernels import constants as n

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.format.streams import Buffer

__all__ = ["GZIP_SYSTEM", "LZ4_JAVA", "compress"]

GZIP_SYSTEM: Final = 255
LZ4_JAVA: Final = "1.5"
_GZIP_START: Final = layout.GZIP_MAGIC + bytes(6)
_GZIP_LEVEL: Final = 6  # zlib's default
_ZSTD_LEVEL: Final = 3
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
    out = bytearray(layout.XERIAL_JAVA_HEADER)
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
    out.append(lz4_header_checksum(covered))
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
