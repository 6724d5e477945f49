"""Decompression with every codec, in bounded memory."""

from __future__ import annotations

from typing import Final

from kafkalog_core.errors import FormatError
from kafkalog_core.format.compression import decompress
from tools.fuzz.memory import check

__all__ = ["codecs"]

LIMITS_BYTES: Final = (1024 * 1024, 1024 * 1024, 64 * 1024, 10)


def codecs(data: bytes) -> object:
    """The first byte: codec (3 bits), magic (2 bits), limit (2 bits), kind of buffer (1 bit)."""
    switches, payload = data[:1].ljust(1, b"\0")[0], data[1:]
    limit_bytes = LIMITS_BYTES[switches >> 5 & 3]
    codec = switches & 7
    try:
        inflated = decompress(
            codec,
            memoryview(payload) if switches & 128 else payload,
            magic=(switches >> 3 & 3) % 3,
            limit_bytes=limit_bytes,
        )
    except FormatError as error:
        return type(error).__name__, str(error)
    check(codec == 0 or len(inflated) <= limit_bytes, f"{len(inflated)} bytes over a limit of {limit_bytes}")
    return bytes(inflated)
