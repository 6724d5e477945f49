"""Correction of sizes and checksums in mutated bytes, so that a fuzzer reaches the code after those checks.

If `compresses` is set, the records of an entry with a codec are not compressed in the input, and are compressed here:
otherwise each mutation would break the codec's stream before a record is read.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

import crc32c

from tests.support.framing import compress

__all__ = ["mended_log", "mended_snapshot", "mended_v07"]

_HEADER_BYTES: Final = 17
_MIN_SIZE: Final = 14
_CODECS: Final = (1, 2, 3, 4)
_V2_BYTES: Final = 61
_KEY_AT: Final = (18, 26)
_V07_BYTES: Final = 10
_V07_CODECS: Final = (1, 2)
_MAX_DEPTH: Final = 12


def mended_log(data: bytes, *, magics: tuple[int, ...] = (), compresses: bool = False) -> bytes:
    """Return entries of magic 0, 1 and 2, one after the other as their sizes lead; the last one takes the rest.

    With `magics` each entry has one of them.
    """
    out = bytearray()
    at = 0
    while len(data) - at >= _HEADER_BYTES:
        (size,) = struct.unpack_from(">i", data, at + 8)
        end = at + 12 + size if _MIN_SIZE <= size <= len(data) - at - 12 else len(data)
        out += _mended_entry(bytearray(data[at:end]), magics, compresses=compresses)
        at = end
    return bytes(out + data[at:])


def _mended_entry(entry: bytearray, magics: tuple[int, ...], *, compresses: bool) -> bytearray:
    if magics:
        entry[16] = magics[entry[16] % len(magics)]
    if entry[16] == 2:
        if compresses and len(entry) > _V2_BYTES and entry[22] & 7 in _CODECS:
            entry[_V2_BYTES:] = compress(entry[22] & 7, bytes(entry[_V2_BYTES:]))
        struct.pack_into(">i", entry, 8, len(entry) - 12)
        if len(entry) >= _V2_BYTES:
            struct.pack_into(">I", entry, 17, crc32c.crc32c(bytes(entry[21:])))
    elif entry[16] < 2:
        if compresses:
            _compress_value(entry, entry[16])
        struct.pack_into(">i", entry, 8, len(entry) - 12)
        struct.pack_into(">I", entry, 12, zlib.crc32(entry[16:]))
    return entry


def _compress_value(entry: bytearray, magic: int) -> None:
    at = _KEY_AT[magic]
    if len(entry) < at + 8 or entry[17] & 7 not in _CODECS[:3]:
        return
    (key_size,) = struct.unpack_from(">i", entry, at)
    at += 4 + max(0, key_size)
    if at + 4 <= len(entry):
        value = compress(entry[17] & 7, bytes(entry[at + 4 :]), magic=magic)
        entry[at:] = struct.pack(">i", len(value)) + value


def mended_v07(data: bytes, *, compresses: bool = False, depth: int = 0) -> bytes:
    """Messages of Kafka 0.7; with `compresses` those in wrappers too, however deep."""
    out = bytearray()
    at = 0
    while len(data) - at >= _V07_BYTES:
        magic = data[at + 4] % 2
        head = 5 + magic
        (size,) = struct.unpack_from(">i", data, at)
        end = at + 4 + size if head <= size <= len(data) - at - 4 else len(data)
        payload = data[at + head + 4 : end]
        if compresses and magic and data[at + 5] & 3 in _V07_CODECS and depth < _MAX_DEPTH:
            payload = compress(data[at + 5] & 3, mended_v07(payload, compresses=True, depth=depth + 1), magic=0)
        out += struct.pack(">ib", head + len(payload), magic) + data[at + 5 : at + head]
        out += struct.pack(">I", zlib.crc32(payload)) + payload
        at = end
    return bytes(out + data[at:])


def mended_snapshot(data: bytes) -> bytes:
    """A producer snapshot with the version, the checksum and, where whole entries follow, their number."""
    if len(data) < 10:
        return data
    covered = struct.pack(">i", (len(data) - 10) // 46) + data[10:]
    return struct.pack(">hI", 1, crc32c.crc32c(covered)) + covered
