"""A log as a broker walks it outside of recovery: headers of batches, no checksums (`FileLogInputStream.nextBatch`).

This walk uses sizes alone. It takes the bytes after each batch for a header, whatever they are, ends silently at a
batch that is not whole, and fails at a size that is too small for any message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.format.layout import (
    ENVELOPE,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V1,
    MAGIC_V2,
    MIN_ENTRY_SIZE,
    RECORD_BATCH_OVERHEAD,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.storage.source import Source

__all__ = ["HeaderWalk", "Unwalkable", "WalkedBatch"]

_LAST_OFFSET_DELTA: Final = slice(23, 27)
_LEGACY_ATTRIBUTES: Final = 17
_CODEC_BITS: Final = 7
_FIRST_NEGATIVE_MAGIC: Final = 0x80


class Unwalkable(NamedTuple):
    """A place where the walk throws an exception, and why, as a part of a sentence."""

    position: int
    reason: str


class WalkedBatch(NamedTuple):
    """What the first 17 bytes of a batch or message hold.

    Args:
        position: byte in the log.
        size_bytes: of the whole entry.
        offset: base offset of a batch, last offset of a message.
        magic: 0 to 255.
    """

    position: int
    size_bytes: int
    offset: int
    magic: int

    @property
    def is_legacy(self) -> bool:
        """Whether a broker takes it for a message of magic 0 or 1; it reads the magic as a signed byte."""
        return self.magic < MAGIC_V2 or self.magic >= _FIRST_NEGATIVE_MAGIC

    @property
    def has_known_legacy_magic(self) -> bool:
        """Whether its magic is 0 or 1."""
        return self.magic <= MAGIC_V1


class HeaderWalk:
    """Headers of one log.

    Args:
        source: the log.
        end: where it ends, at most the size of the file.
    """

    def __init__(self, source: Source, end: int) -> None:
        self._source = source
        self.end = min(end, source.size_bytes)

    def batches(self, position: int) -> Iterator[WalkedBatch | Unwalkable]:
        """Yield batches from a position on; an `Unwalkable` is the last item. Raises UnreadableError."""
        while 0 <= position < self.end - HEADER_SIZE_UP_TO_MAGIC:
            header = self._source.read(position, HEADER_SIZE_UP_TO_MAGIC)
            if len(header) < HEADER_SIZE_UP_TO_MAGIC:  # the file has become shorter
                return
            offset, size = ENVELOPE.struct.unpack_from(header)
            if size < MIN_ENTRY_SIZE:
                yield Unwalkable(position, f"a record size of {size}, below the minimum of {MIN_ENTRY_SIZE}")
                return
            if position > self.end - LOG_OVERHEAD - size:
                return
            yield WalkedBatch(position, LOG_OVERHEAD + size, offset, header[MAGIC_POSITION])
            position += LOG_OVERHEAD + size

    def last_offset(self, batch: WalkedBatch) -> int | Unwalkable:
        """Return the last offset of a batch: that of a message is in its first field."""
        if batch.is_legacy:
            return batch.offset
        header = self._source.read(batch.position, RECORD_BATCH_OVERHEAD)
        if len(header) < RECORD_BATCH_OVERHEAD:
            return Unwalkable(batch.position, "the file ends within the header of a batch")
        return batch.offset + int.from_bytes(header[_LAST_OFFSET_DELTA], "big", signed=True)

    def codec_bits(self, batch: WalkedBatch) -> int:
        """Return the codec in the attributes of a message of magic 0 or 1; 0 is none."""
        return self._source.read(batch.position + _LEGACY_ATTRIBUTES, 1)[0] & _CODEC_BITS
