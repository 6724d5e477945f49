"""Fetches of clients that cannot read the format of the log: before 0.10 (magic 0) and before 0.11 (magic 0 and 1).

Their records are converted in memory. A range may hold no record for them: only transaction markers, or batches that
compaction emptied. That is a trap, because these clients move on by the offsets of the messages that they get. A broker
of 0.11 to 3.9 fills the response with a message that is too large for it
(`LazyDownConversionRecordsSend.buildOverflowBatch`). The client then reports a record that is larger than its fetch
size, or asks for the same offset again and again. Here the reader answers with the next range that holds a message.
Its offset is higher than the requested one, as after compaction, which clients accept. After the last message of the
log there is no such range, so the client stops before the log end offset.

Clients of 0.11 to 2.0 read magic 2, but not zstd: they fail at the first such batch. A broker of 2.1 to 3.9 refuses
their fetch if the topic's compression.type is zstd (KIP-110), and any broker sends them a batch that a producer
compressed with it. Here they get such batches without compression.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from kafkalog_core import kernels
from kafkalog_core.errors import FormatError, StorageError
from kafkalog_core.format.batch_writer import recompressed
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.down_conversion import down_convert
from kafkalog_core.format.layout import LOG_OVERHEAD, MAGIC_V0, MAGIC_V1, MAGIC_V2, MAX_BATCH_BYTES
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.serve.logs.file_ranges import FileRange
    from kafkalog_core.serve.logs.partition_access import PartitionRange, ReadablePartition

__all__ = ["ConvertedRange", "OldClientReader", "knows_zstd", "magic_of_client", "without_zstd"]

CONVERTED_BYTES: Final = 4 * 1024 * 1024
"""What is read and converted at a time, and the most that a partition sends; one batch or one message may be larger."""

SKIPPED_BYTES: Final = 64 * 1024 * 1024
"""How much is read in one request in search of the next message; the next request goes on there."""

_PLACES: Final = 1024
_LAST_V0_VERSION: Final = 1
_LAST_V1_VERSION: Final = 3
_FIRST_WITH_ZSTD: Final = 10
_ZSTD: Final = 4


def magic_of_client(fetch_version: int) -> int | None:
    """Return the highest magic that a client reads, by its version of Fetch; None: every magic.

    `KafkaApis.maybeConvertFetchedData`: magic 1 came with version 2 (KIP-31, KIP-32), magic 2 with version 4 (KIP-98).
    """
    if fetch_version <= _LAST_V0_VERSION:
        return MAGIC_V0
    return MAGIC_V1 if fetch_version <= _LAST_V1_VERSION else None


def knows_zstd(fetch_version: int) -> bool:
    """Return whether a client reads batches of zstd, by its version of Fetch (KIP-110)."""
    return fetch_version >= _FIRST_WITH_ZSTD


class ConvertedRange(Struct, frozen=True):
    """Messages or batches.

    Args:
        data: their bytes.
        is_end: whether there are none, and no later request will find one.
        aborted: producer id and first offset of each aborted transaction; None for isolation level read_uncommitted.
    """

    data: bytes
    is_end: bool
    aborted: Sequence[tuple[int, int]] | None = None


def without_zstd(found: PartitionRange, max_bytes: int, *, minimum_one: bool) -> ConvertedRange | PartitionRange:
    """Return a range with its batches of zstd decompressed, for clients of 0.11 to 2.0; the same range if it has none.

    Args:
        found: the range; its files are released if another one is returned.
        max_bytes: of the result.
        minimum_one: whether the first batch is sent even if it is larger.

    Raises OSError; StorageError and FormatError if the first batch cannot be read.
    """
    data = bytearray()
    has_zstd = False
    try:
        content = _content(found.pieces)
        for start, size_bytes, magic, codec in _batches(content):
            batch: bytes | bytearray | memoryview = content[start : start + size_bytes]
            if magic == MAGIC_V2 and codec == _ZSTD:
                has_zstd = True
                batch = _decompressed(content[start : start + size_bytes])
            if len(data) + len(batch) > max_bytes and (data or not minimum_one):
                break
            data += batch
    except FormatError:
        if not data:
            _release(found.pieces)
            raise  # the client gets what precedes the damage, and the error when it asks for the rest
    except BaseException:
        _release(found.pieces)
        raise
    if not has_zstd:
        return found
    _release(found.pieces)
    return ConvertedRange(bytes(data), is_end=False, aborted=found.aborted)


def _batches(content: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Yield position, size, magic and codec of each whole batch, up to one whose checksum is wrong."""
    batches = BatchColumns.for_bytes(len(content), LOG_OVERHEAD)
    position, stop = 0, kernels.STOP_END
    while position < len(content) and stop in {kernels.STOP_END, kernels.STOP_ORDER}:
        stop, position = kernels.walk(content, position, len(content), 0, -1, MAX_BATCH_BYTES, True, batches)
        columns = (batches.column(name) for name in ("position", "size_bytes", "format", "codec"))
        yield from list(zip(*columns, strict=True))


def _decompressed(batch: memoryview) -> bytearray:
    only = BatchColumns(1)
    kernels.walk(batch, 0, len(batch), 0, -1, MAX_BATCH_BYTES, False, only)
    return recompressed(batch, only, 0, max_bytes=MAX_BATCH_BYTES)


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
            magic: the highest magic that it reads.
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
            try:
                content = _content(found.pieces)
            finally:
                _release(found.pieces)
            converted = down_convert(content, magic, offset, max_bytes=min(max_bytes, CONVERTED_BYTES))
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
    """Return the bytes of ranges. Raises OSError, and StorageError if a file has shrunk."""
    content = bytearray(sum(map(len, pieces)))
    end = 0
    for piece in pieces:
        start, end = end, end + piece.size_bytes
        filled = _fill(memoryview(content)[start:end], piece)
        if filled < piece.size_bytes:
            raise StorageError(f"the log ends {piece.size_bytes - filled} bytes before the end of a batch")
    return memoryview(content)


def _release(pieces: tuple[FileRange, ...]) -> None:
    for piece in pieces:
        piece.file.release()


def _fill(room: memoryview, piece: FileRange) -> int:
    """Read a range, and return the number of bytes; a file may end before it."""
    filled = 0
    while filled < len(room):
        count = os.preadv(piece.file.descriptor, [room[filled:]], piece.position + filled)
        if count == 0:
            break
        filled += count
    return filled
