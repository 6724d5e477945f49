"""Compressed payloads that are wrong, by codec: what takes the place of a batch's compressed records."""

from __future__ import annotations

import struct
import zlib
from functools import partial
from typing import TYPE_CHECKING, Final

import lz4.block
import lz4.frame
import snappy

from kafkalog_core.format.checksums import lz4_header_checksum
from tests.support.build import GZIP, LZ4, SNAPPY, ZSTD
from tests.support.framing import XERIAL_HEADER, compress, zstd_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    Change = Callable[[bytes], bytes]

_TWO_BLOCKS: Final = 70_000
"""Bytes that do not fit into one block of an lz4 frame."""
_GARBAGE: Final = b"these bytes are no compressed records"


# --- of any codec -----------------------------------------------------------------------------------------------------
def _garbage(plain: bytes) -> bytes:
    del plain
    return _GARBAGE


def _half(plain: bytes, codec: int) -> bytes:
    payload = compress(codec, plain)
    return payload[: len(payload) // 2]


def _shorter(plain: bytes, codec: int, by: int, framing: str | None = None) -> bytes:
    return compress(codec, plain, framing=framing)[:-by]


def _followed(plain: bytes, codec: int, by: bytes, framing: str | None = None) -> bytes:
    return compress(codec, plain, framing=framing) + by


def _flipped(plain: bytes, codec: int, at: int, framing: str | None = None) -> bytes:
    """A compressed payload with one byte changed, counted from the end if negative."""
    payload = bytearray(compress(codec, plain, framing=framing))
    payload[at] ^= 0xFF
    return bytes(payload)


def _of_other(plain: bytes, codec: int) -> bytes:
    return compress(codec, plain)


# --- gzip -------------------------------------------------------------------------------------------------------------
def _zlib(plain: bytes) -> bytes:
    return zlib.compress(plain)


def _gzip_flags(plain: bytes, flags: int) -> bytes:
    payload = bytearray(compress(GZIP, plain))
    payload[3] = flags
    return bytes(payload)


def _gzip_checked(plain: bytes) -> bytes:
    """A member whose header has a checksum (FHCRC), which is wrong."""
    payload = _gzip_flags(plain, 2)
    return payload[:10] + b"\x12\x34" + payload[10:]


def _gzip_members(plain: bytes, first: int) -> bytes:
    return compress(GZIP, plain[:first]) + compress(GZIP, plain[first:])


# --- snappy -----------------------------------------------------------------------------------------------------------
def _blocks(*blocks: bytes) -> bytes:
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def _snappy_empty_block(plain: bytes) -> bytes:
    return _blocks(b"", snappy.compress(plain))


def _snappy_sized(plain: bytes, size: int) -> bytes:
    return XERIAL_HEADER + struct.pack(">i", size) + bytes(snappy.compress(plain))


def _snappy_version(plain: bytes) -> bytes:
    payload = bytearray(compress(SNAPPY, plain))
    payload[8:12] = bytes(4)
    return bytes(payload)


def _snappy_two(plain: bytes) -> bytes:
    return compress(SNAPPY, plain[:9]) + compress(SNAPPY, plain[9:])


# --- lz4 --------------------------------------------------------------------------------------------------------------
def _lz4_content_size(plain: bytes) -> bytes:
    frame = bytearray(compress(LZ4, plain, framing="sized"))
    frame[6] ^= 0xFF
    frame[14] = lz4_header_checksum(bytes(frame[4:14]))
    return bytes(frame)


def _lz4_flags(plain: bytes, flags: int) -> bytes:
    frame = bytearray(compress(LZ4, plain))
    frame[4] = flags
    frame[6] = lz4_header_checksum(bytes(frame[4:6]))
    return bytes(frame)


def _lz4_legacy(plain: bytes) -> bytes:
    block = bytes(lz4.block.compress(plain, store_size=False))
    return struct.pack("<II", 0x184C2102, len(block)) + block


def _lz4_skippable(plain: bytes) -> bytes:
    return struct.pack("<II", 0x184D2A50, 4) + b"skip" + compress(LZ4, plain)


def _lz4_two(plain: bytes) -> bytes:
    half = len(plain) // 2
    return compress(LZ4, plain[:half]) + compress(LZ4, plain[half:])


def lz4_dependent(plain: bytes) -> bytes:
    """An lz4 frame of two blocks, of which the second refers to bytes of the first: for more than 64 KiB."""
    return bytes(lz4.frame.compress(plain, block_linked=True))


# --- zstd -------------------------------------------------------------------------------------------------------------
def _zstd_frame(plain: bytes, descriptor: int, fields: bytes) -> bytes:
    """A frame of one stored block."""
    block = struct.pack("<I", len(plain) << 3 | 1)[:3]
    return struct.pack("<I", 0xFD2FB528) + bytes([descriptor]) + fields + block + plain


def _zstd_window(plain: bytes, window: int) -> bytes:
    return _zstd_frame(plain, 0, bytes([window]))


def _zstd_sized(plain: bytes, window: int, off_by: int = 0) -> bytes:
    """A frame that declares the size of its content too, in 4 bytes."""
    return _zstd_frame(plain, 0x80, bytes([window]) + struct.pack("<I", len(plain) + off_by))


def zstd_large_window(plain: bytes) -> bytes:
    """A frame that declares the size of its content, and asks for a window of 256 MiB all the same."""
    return _zstd_sized(plain, 18 << 3)


def _zstd_dictionary(plain: bytes) -> bytes:
    return _zstd_frame(plain, 1, bytes([10 << 3, 77]))


def _zstd_skippable_cut(plain: bytes) -> bytes:
    return zstd_stream(plain) + struct.pack("<II", 0x184D2A50, 400) + b"skip"


_BEFORE: Final = "batch.payload"
_CUT: Final = "batch.payload-truncated"
_AFTER: Final = "batch.payload-trailing"
_IGNORED: Final = "batch.payload-checksum"
_WINDOW: Final = "batch.payload-window"
WINDOW_128: Final = 17 << 3
"""The descriptor of a window of 128 MiB in a zstd frame; each unit above it is an eighth more."""

PAYLOADS: Final[dict[str, dict[str, tuple[Change, str]]]] = {
    "gzip": {
        "bytes after the payload": (partial(_followed, codec=GZIP, by=b"more"), _AFTER),
        "many bytes after the payload": (partial(_followed, codec=GZIP, by=_GARBAGE), _AFTER),
        "zeros after the payload": (partial(_followed, codec=GZIP, by=bytes(40)), _AFTER),
        "a broken member after the payload": (partial(_followed, codec=GZIP, by=b"\x1f\x8b\x08" + _GARBAGE), _AFTER),
        "payload without its checksum": (partial(_shorter, codec=GZIP, by=8), _CUT),
        "payload without its last byte": (partial(_shorter, codec=GZIP, by=1), _CUT),
        "checksum of the content wrong": (partial(_flipped, codec=GZIP, at=-5), _BEFORE),
        "length wrong": (partial(_flipped, codec=GZIP, at=-1), _BEFORE),
        "data wrong": (partial(_flipped, codec=GZIP, at=14), _BEFORE),
        "compression method wrong": (partial(_flipped, codec=GZIP, at=2), _BEFORE),
        "reserved flags": (partial(_gzip_flags, flags=0xE0), "batch.payload-flags"),
        "checksum of the gzip header wrong": (_gzip_checked, "batch.payload"),
        "two members": (partial(_gzip_members, first=20), ""),
        "an empty member first": (partial(_gzip_members, first=0), ""),
        "a zlib stream": (_zlib, _BEFORE),
        "a snappy stream": (partial(_of_other, codec=SNAPPY), _BEFORE),
    },
    "snappy": {
        "bytes after the payload": (partial(_followed, codec=SNAPPY, by=b"more"), _CUT),
        "2 bytes after the payload": (partial(_followed, codec=SNAPPY, by=b"mo"), _AFTER),
        "zeros after the payload": (partial(_followed, codec=SNAPPY, by=bytes(8)), _BEFORE),
        "bytes after a block without framing": (partial(_followed, codec=SNAPPY, by=b"more", framing="raw"), _BEFORE),
        "block without framing, cut": (partial(_shorter, codec=SNAPPY, by=4, framing="raw"), _BEFORE),
        "block without framing, data wrong": (partial(_flipped, codec=SNAPPY, at=1, framing="raw"), _BEFORE),
        "payload without its last byte": (partial(_shorter, codec=SNAPPY, by=1), _CUT),
        "data wrong": (partial(_flipped, codec=SNAPPY, at=21), _BEFORE),
        "header cut": (lambda _: XERIAL_HEADER[:12], _CUT),
        "version 0": (_snappy_version, ""),
        "two streams": (_snappy_two, ""),
        "an empty block": (_snappy_empty_block, _BEFORE),
        "block size too large": (partial(_snappy_sized, size=500), _CUT),
        "block size negative": (partial(_snappy_sized, size=-7), _BEFORE),
        "a gzip stream": (partial(_of_other, codec=GZIP), _BEFORE),
    },
    "lz4": {
        "bytes after the payload": (partial(_followed, codec=LZ4, by=b"more"), _AFTER),
        "many bytes after the payload": (partial(_followed, codec=LZ4, by=_GARBAGE), _AFTER),
        "zeros after the payload": (partial(_followed, codec=LZ4, by=bytes(40)), _AFTER),
        "a second frame after the payload": (_lz4_two, f"{_AFTER} record.length"),
        "payload without end mark": (partial(_shorter, codec=LZ4, by=4), _CUT),
        "payload without its last byte": (partial(_shorter, codec=LZ4, by=1), _CUT),
        "header cut": (lambda plain: compress(LZ4, plain)[:5], _CUT),
        "first literal wrong": (partial(_flipped, codec=LZ4, at=11), "record.length"),
        "content checksum wrong": (partial(_flipped, codec=LZ4, at=-1, framing="content-checksum"), _IGNORED),
        "content checksum missing": (partial(_shorter, codec=LZ4, by=4, framing="content-checksum"), _CUT),
        "header checksum wrong": (partial(_flipped, codec=LZ4, at=6), _BEFORE),
        "block checksum wrong": (partial(_flipped, codec=LZ4, at=-5, framing="block-checksum"), _BEFORE),
        "content size and header checksum wrong": (partial(_flipped, codec=LZ4, at=6, framing="sized"), _BEFORE),
        "content size wrong": (_lz4_content_size, _IGNORED),
        "version 2": (partial(_lz4_flags, flags=0xA0), _BEFORE),
        "reserved flag": (partial(_lz4_flags, flags=0x62), _BEFORE),
        "legacy frame": (_lz4_legacy, _BEFORE),
        "skippable frame first": (_lz4_skippable, _BEFORE),
        "a gzip stream": (partial(_of_other, codec=GZIP), _BEFORE),
    },
    "zstd": {
        "bytes after the payload": (partial(_followed, codec=ZSTD, by=b"more"), _BEFORE),
        "zeros after the payload": (partial(_followed, codec=ZSTD, by=bytes(40)), _BEFORE),
        "payload without its last byte": (partial(_shorter, codec=ZSTD, by=1), _CUT),
        "payload without its checksum": (partial(_shorter, codec=ZSTD, by=4, framing="checksum"), _CUT),
        "header cut": (lambda plain: compress(ZSTD, plain)[:5], _CUT),
        "skippable frame after the payload, cut": (_zstd_skippable_cut, _AFTER),
        "a literal wrong": (partial(_flipped, codec=ZSTD, at=12), "record.headers"),
        "content checksum wrong": (partial(_flipped, codec=ZSTD, at=-1, framing="checksum"), _BEFORE),
        "content size wrong": (partial(_zstd_sized, window=0, off_by=5), _BEFORE),
        "dictionary": (_zstd_dictionary, _BEFORE),
        "window of 144 MiB": (partial(_zstd_window, window=WINDOW_128 + 1), _WINDOW),
        "window of 256 MiB": (partial(_zstd_window, window=18 << 3), _WINDOW),
        "window of 3.75 TiB": (partial(_zstd_window, window=0xFF), _BEFORE),
        "window of 256 MiB, sized": (zstd_large_window, ""),  # a buffer of Java's is larger than the content
        "window of 128 MiB": (partial(_zstd_window, window=WINDOW_128), ""),
        "a gzip stream": (partial(_of_other, codec=GZIP), _BEFORE),
    },
}
for _name, _codec in (("gzip", GZIP), ("snappy", SNAPPY), ("lz4", LZ4), ("zstd", ZSTD)):
    PAYLOADS[_name] |= {
        "payload not compressed": (_garbage, _BEFORE),
        "payload cut in half": (partial(_half, codec=_codec), _CUT),
    }
