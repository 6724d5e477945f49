"""Decompression with every codec, in bounded memory."""

from __future__ import annotations

from typing import Final

from kafkalog_core.errors import FormatError
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.decode import Arena
from kafkalog_core.format.decompression import decompress
from kafkalog_core.format.streams import OddStreamError
from tools.fuzz.memory import check

__all__ = ["codecs"]

LIMITS_BYTES: Final = (1024 * 1024, 1024 * 1024, 64 * 1024, 10)


def codecs(data: bytes) -> object:
    """The first byte: codec (3 bits), magic (2 bits), limit (2 bits), kind of buffer (1 bit)."""
    switches, payload = data[:1].ljust(1, b"\0")[0], data[1:]
    limit_bytes = LIMITS_BYTES[switches >> 5 & 3]
    codec, magic = switches & 7, (switches >> 3 & 3) % 3
    error: FormatError | None = None
    try:
        memory = memoryview(payload) if switches & 128 else payload
        inflated = bytes(decompress(codec, memory, magic=magic, limit_bytes=limit_bytes))
    except OddStreamError as caught:
        inflated, error = bytes(caught.content), caught
    except FormatError as caught:
        inflated, error = b"", caught
    check(codec == 0 or len(inflated) <= limit_bytes, f"{len(inflated)} bytes over a limit of {limit_bytes}")
    if codec and payload:
        _check_rows(codec, payload, magic, limit_bytes, inflated if error is None else error)
    return inflated if error is None else (inflated, type(error).__name__, str(error))


def _check_rows(codec: int, payload: bytes, magic: int, limit_bytes: int, outcome: bytes | FormatError) -> None:
    """Rows of the same payload in an arena have the same outcome."""
    memory, batches = memoryview(payload * 3), BatchColumns(3)
    batches.count = 3
    cells = {"format": magic, "codec": codec}
    for row in range(3):
        cells |= {"payload_start": row * len(payload), "payload_end": (row + 1) * len(payload)}
        for name, value in cells.items():
            batches.column(name)[row] = value
    arena = Arena(memory, batches, limit_bytes)
    behind, damage = arena.fill(0, 3)
    check((damage is None) == isinstance(outcome, bytes), f"{damage} instead of {outcome!r}")
    if isinstance(outcome, bytes):
        check(bytes(arena.memory) == outcome * behind, "other content")
