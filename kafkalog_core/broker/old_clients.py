"""Fetches of clients that cannot read the format of the log: before 0.10 (magic 0) and before 0.11 (magic 0 and 1).

Their records are converted in memory. A range that holds no record for them, because all of it is transaction markers
or batches that compaction emptied, is a trap: these clients move on by the offsets of the messages that they get. A
broker of 0.11 to 3.9 fills the response with a message that is too large for it
(`LazyDownConversionRecordsSend.buildOverflowBatch`). The client then reports a record that is larger than its fetch
size, or asks for the same offset again, for ever. Here the reader goes on to the next range with a message, and
answers with that: its offset is higher than the one that was asked for, as after compaction, which clients accept.
Only after the last message of the log there is none, so such a client stops before the log end offset.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.format.down_conversion import down_convert
from kafkalog_core.format.layout import MAGIC_V0, MAGIC_V1

if TYPE_CHECKING:
    from kafkalog_core.broker.answers import FileRange
    from kafkalog_core.broker.partition_access import PartitionRange, ReadablePartition

__all__ = ["ConvertedRange", "OldClientReader", "magic_of_client"]

CONVERTED_BYTES: Final = 4 * 1024 * 1024
"""What is read and converted at a time, and the most that a partition sends; one batch or one message may be larger."""

SKIPPED_BYTES: Final = 64 * 1024 * 1024
"""How much is read in one request in search of the next message; the next request goes on there."""

_PLACES: Final = 1024
_LAST_V0_VERSION: Final = 1
_LAST_V1_VERSION: Final = 3


def magic_of_client(fetch_version: int) -> int | None:
    """Return the highest magic that a client reads, by its version of Fetch; None: every magic.

    `KafkaApis.maybeConvertFetchedData`: magic 1 came with version 2 (KIP-31, KIP-32), magic 2 with version 4 (KIP-98).
    """
    if fetch_version <= _LAST_V0_VERSION:
        return MAGIC_V0
    return MAGIC_V1 if fetch_version <= _LAST_V1_VERSION else None


@dataclass(frozen=True, slots=True)
class ConvertedRange:
    """Messages; `is_end`: there are none, and no later request will find one."""

    data: bytes
    is_end: bool


class OldClientReader:
    """Reads for old clients, and remembers up to where it searched for a message in vain. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._searched: OrderedDict[tuple[str, int, int, int], int] = OrderedDict()

    def read(
        self,
        partition: ReadablePartition,
        topic: str,
        number: int,
        *,
        offset: int,
        magic: int,
        max_bytes: int,
        minimum_one: bool,
    ) -> ConvertedRange | PartitionRange:
        """Return what such a client gets from an offset on: a range as it is, if the client reads its format.

        Args:
            partition: the partition to read.
            topic: its name.
            number: its number.
            offset: the offset that the client asks for.
            magic: the highest one that it reads.
            max_bytes: of the answer.
            minimum_one: whether the answer may be larger, to hold one message or batch.

        Raises StorageError and OSError; FormatError if the next batch cannot be decoded.
        """
        place = topic, number, magic, offset
        position, searched_bytes = max(offset, self._searched_to(place)), 0
        while True:
            limit = min(max_bytes, CONVERTED_BYTES) if not searched_bytes else CONVERTED_BYTES
            # A search that has begun must not end at a batch that is larger than the limit.
            found = partition.read(position, limit, is_committed=False, minimum_one=minimum_one or searched_bytes > 0)
            if not found.size_bytes or found.magic <= magic:
                return found
            searched_bytes += found.size_bytes
            converted = down_convert(_content(found.pieces), magic, offset, max_bytes=min(max_bytes, CONVERTED_BYTES))
            if converted.data:
                # One message may be larger than its compressed batch, and than what is left of the response.
                has_room = minimum_one or len(converted.data) <= max_bytes
                return ConvertedRange(converted.data if has_room else b"", is_end=False)
            if converted.next_offset <= position or converted.next_offset > partition.log_end_offset:
                return ConvertedRange(b"", is_end=True)
            position = converted.next_offset
            if searched_bytes > SKIPPED_BYTES:
                self._note(place, position)
                return ConvertedRange(b"", is_end=False)

    def _searched_to(self, place: tuple[str, int, int, int]) -> int:
        with self._lock:
            return self._searched.get(place, -1)

    def _note(self, place: tuple[str, int, int, int], position: int) -> None:
        with self._lock:
            self._searched[place] = position
            self._searched.move_to_end(place)
            if len(self._searched) > _PLACES:
                self._searched.popitem(last=False)


def _content(pieces: tuple[FileRange, ...]) -> memoryview:
    """Return the bytes of ranges, and release their files. Raises OSError, and StorageError if a file has shrunk."""
    content = bytearray(sum(map(len, pieces)))
    try:
        end = 0
        for piece in pieces:
            start, end = end, end + piece.size_bytes
            filled = _fill(memoryview(content)[start:end], piece)
            if filled < piece.size_bytes:
                raise StorageError(f"the log ends {piece.size_bytes - filled} bytes before the end of a batch")
    finally:
        for piece in pieces:
            piece.file.release()
    return memoryview(content)


def _fill(room: memoryview, piece: FileRange) -> int:
    """Read a range, and return the number of bytes; a file may end before it."""
    filled = 0
    while filled < len(room):
        count = os.preadv(piece.file.descriptor, [room[filled:]], piece.position + filled)
        if count == 0:
            break
        filled += count
    return filled
