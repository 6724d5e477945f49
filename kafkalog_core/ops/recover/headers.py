"""The header of a damaged batch: what it says, and which of it can be right between the batches around it.

The checksum of a batch does not cover its base offset, length, leader epoch and magic. So a batch whose checksum is
right has all of its records, whatever these four say, and the batches around it show what they have to be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.format.checksums import crc32, crc32c
from kafkalog_core.format.layout import (
    BATCH_V2,
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LEGACY_CRC,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V1,
    MAGIC_V2,
    MAX_BATCH_BYTES,
    MIN_ENTRY_SIZE,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    V2_ATTRIBUTES,
)

if TYPE_CHECKING:
    from kafkalog_core.storage.source import Source

__all__ = ["KEPT_BITS", "PlaceHeader", "is_whole_message", "read_header"]

KEPT_BITS: Final = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
"""The attributes that an emptied batch keeps (`DefaultRecordBatch.writeEmptyHeader`)."""
_KNOWN_BITS: Final = CODEC_MASK | KEPT_BITS | DELETE_HORIZON_BIT
_NONE: Final = -1
_UNSET: Final = frozenset({-1, 0})
"""What clients without idempotence write for the missing epoch and sequence."""


class PlaceHeader(NamedTuple):
    """The first 61 bytes of a damaged place, read as the header of a batch of magic 2.

    `is_whole`: its checksum is right, if it ends where the place does, so that only the four fields which no checksum
    covers can be wrong.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    is_whole: bool

    @property
    def last_offset(self) -> int:
        """The last offset of the batch."""
        return self.base_offset + self.last_offset_delta

    @property
    def first_timestamp_ms(self) -> int:
        """The timestamp of the first record; -1: a delete horizon has taken its place (KIP-534), or there is none."""
        return _NONE if self.attributes & DELETE_HORIZON_BIT else self.base_timestamp_ms

    @property
    def is_control(self) -> bool:
        """Whether it is a control batch."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def names_no_producer(self) -> bool:
        """Whether it is of no producer: at most one of the three fields that say so is damaged."""
        has_no_sequence = self.base_sequence in _UNSET
        if self.producer_id == _NONE:
            return self.producer_epoch == _NONE or has_no_sequence
        return self.producer_epoch == _NONE and has_no_sequence

    def is_framed(self, size_bytes: int) -> bool:
        """Return whether magic and length are those of a batch of this size."""
        return self.magic == MAGIC_V2 and self.length + LOG_OVERHEAD == size_bytes

    @property
    def has_valid_producer(self) -> bool:
        """Whether attributes, producer id, epoch and sequence can be those of one batch.

        Only the low byte of the attributes is used, and bit 7 of it is not (`DefaultRecordBatch.computeAttributes`). A
        transactional batch has a producer; a marker has no sequence (`MemoryRecords.withEndTransactionMarker`); a batch
        with a producer has an epoch.
        """
        flags = self.attributes
        if flags & ~_KNOWN_BITS:
            return False
        if self.producer_id < 0:
            has_none = self.producer_id == _NONE and {self.producer_epoch, self.base_sequence} <= _UNSET
            return has_none and not flags & TRANSACTIONAL_BIT
        if self.producer_epoch < 0:
            return False
        return self.base_sequence == _NONE if flags & CONTROL_BIT else self.base_sequence >= 0


def read_header(source: Source, start: int, end: int) -> PlaceHeader | None:
    """Return the header of the batch of magic 2 that may be in a place; None: it cannot hold one.

    Raises UnreadableError.
    """
    size_bytes = end - start
    if size_bytes < RECORD_BATCH_OVERHEAD:
        return None
    fields = BATCH_V2.struct.unpack(source.read(start, RECORD_BATCH_OVERHEAD))
    is_whole = size_bytes <= MAX_BATCH_BYTES and fields[12] >= 0
    if is_whole:
        is_whole = crc32c(memoryview(source.read(start, size_bytes))[V2_ATTRIBUTES:]) == fields[4]
    return PlaceHeader._make((*fields, is_whole))


def is_whole_message(source: Source, start: int, end: int) -> bool:
    """Return whether a place is a whole message of magic 0 or 1; no checksum covers its offset and its size.

    Raises UnreadableError.
    """
    size_bytes = end - start
    if not LOG_OVERHEAD + MIN_ENTRY_SIZE <= size_bytes <= MAX_BATCH_BYTES:
        return False
    entry = memoryview(source.read(start, size_bytes))
    if entry[MAGIC_POSITION] > MAGIC_V1:
        return False
    return crc32(entry[MAGIC_POSITION:]) == int.from_bytes(entry[LEGACY_CRC:MAGIC_POSITION], "big")
