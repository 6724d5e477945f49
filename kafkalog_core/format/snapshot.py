"""Producer snapshots, and the order of their entries: that of the hash map of producers in the broker.

The table of a hash map has 16 buckets at first; it doubles when it is three quarters full and never shrinks. The
entries of one bucket are in the order of their insertion (java.util.HashMap), or in the reverse order, which each
doubling reverses again (scala.collection.mutable.HashMap up to Scala 2.12).
"""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.errors import ChecksumError, FieldError, TruncatedError, UnsupportedError
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.layout import MAX_INT32, SNAPSHOT_ENTRY, SNAPSHOT_HEADER, SNAPSHOT_VERSION
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "CRC_START",
    "ENTRIES_START",
    "ProducerEntry",
    "SnapshotHeader",
    "SnapshotOrder",
    "check_snapshot_crc",
    "check_snapshot_size",
    "decode_producer_entry",
    "decode_snapshot",
    "decode_snapshot_header",
    "encode_snapshot",
    "iter_producer_entries",
    "java_order",
    "repeated_producers",
    "scala_order",
]


_FIRST_SIZE: Final = 16
_NONE: Final = -1
_MASK32: Final = 0xFFFFFFFF
_SWAP: Final = 0x9E3775CD  # scala.util.hashing.byteswap32


def java_order(ids: Sequence[int]) -> Sequence[int]:
    """Return the indices of `ids`, which are in the order of insertion, in the order of a java.util.HashMap."""
    size = _FIRST_SIZE
    while 4 * len(ids) > 3 * size:
        size *= 2

    def bucket(each: int) -> int:
        value = _hash(each)
        return (value ^ value >> 16) & (size - 1)

    # A counting sort: the first index of each bucket, then its next free one.
    free = array("q", bytes(8 * (size + 1)))
    for each in ids:
        free[bucket(each) + 1] += 1
    free = array("q", accumulate(free))
    places = array("q", bytes(8 * len(ids)))
    for place, each in enumerate(ids):
        at = bucket(each)
        places[free[at]] = place
        free[at] += 1
    return places


def scala_order(ids: Sequence[int]) -> Sequence[int]:
    """Return the indices of `ids`, in insertion order, in the order of mutable.HashMap of Scala 2.11 and 2.12."""
    firsts = array("q", [_NONE]) * _FIRST_SIZE  # of each bucket; a new entry becomes the first
    following = array("q", [_NONE]) * len(ids)
    for place, each in enumerate(ids):
        _put_first(place, _scala_bucket(each, len(firsts)), firsts, following)
        if 4 * (place + 1) > 3 * len(firsts):
            doubled = array("q", [_NONE]) * (2 * len(firsts))
            for moved in _walk(firsts, following):
                _put_first(moved, _scala_bucket(ids[moved], len(doubled)), doubled, following)
            firsts = doubled
    return array("q", _walk(firsts, following))


def _put_first(place: int, bucket: int, firsts: array[int], following: array[int]) -> None:
    following[place] = firsts[bucket]
    firsts[bucket] = place


def _walk(firsts: array[int], following: array[int]) -> Iterator[int]:
    """Yield every index, the last bucket first; the caller may move an index after it was yielded."""
    for first in reversed(firsts):
        place = first
        while place != _NONE:
            after = following[place]
            yield place
            place = after


def _scala_bucket(each: int, size: int) -> int:
    value = _hash(each) * _SWAP & _MASK32
    value = int.from_bytes(value.to_bytes(4, "big"), "little") * _SWAP & _MASK32
    turn = (size - 1).bit_count()
    value = (value >> turn | value << (32 - turn)) & _MASK32
    return value >> (32 - turn)


def _hash(each: int) -> int:
    """Return `Long.hashCode` as unsigned; Scala's is the same for values that are not negative."""
    return (each ^ each >> 32) & _MASK32


Buffer = bytes | bytearray | memoryview
SnapshotOrder = Literal["java", "scala"]
"""The hash map of producers in the broker, which determines the order of the file."""

CRC_START: Final = SNAPSHOT_HEADER.at("numEntries")
ENTRIES_START: Final = SNAPSHOT_HEADER.size
_CRC_POSITION: Final = SNAPSHOT_HEADER.at("crc")
_ID_PARTS: Final = 64


class SnapshotHeader(Struct, frozen=True, kw_only=True):
    """The header of a producer snapshot, as stored: nothing is checked."""

    version: int
    crc: int
    entry_count: int

    @property
    def size_bytes(self) -> int:
        """Size of a file with this many entries."""
        return ENTRIES_START + SNAPSHOT_ENTRY.size * self.entry_count


class ProducerEntry(Struct, frozen=True, kw_only=True):
    """The state of one producer; all values as stored, -1 for none.

    `last_sequence`, `last_offset` and `offset_delta` (last - first offset) are those of the last batch; they are -1, -1
    and 0 for a producer with only a marker.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    current_txn_first_offset: int

    @property
    def has_batch(self) -> bool:
        """Whether a last batch is known (`ProducerStateManager.readSnapshot`)."""
        return self.last_offset >= 0

    @property
    def first_offset(self) -> int | None:
        """First offset of the last batch; `None`: no batch."""
        return self.last_offset - self.offset_delta if self.has_batch else None

    @property
    def first_sequence(self) -> int | None:
        """First sequence number of the last batch, by `DefaultRecordBatch.decrementSequence`; `None`: no batch."""
        if not self.has_batch:
            return None
        first = self.last_sequence - self.offset_delta
        return first if self.last_sequence >= self.offset_delta else first + MAX_INT32 + 1


_fields: Final = attrgetter(*ProducerEntry.__struct_fields__)


def decode_snapshot(buffer: Buffer) -> Iterator[ProducerEntry]:
    """Check a whole file, and return an iterator of its entries in the order of the file.

    Raises:
        TruncatedError: The file is shorter than its entries.
        UnsupportedError: The version is not 1.
        FieldError: The count is negative, or bytes follow the entries.
        ChecksumError: The stored CRC-32C is not that of the bytes.
    """
    header, position = decode_snapshot_header(buffer)
    check_snapshot_size(header, len(buffer))
    check_snapshot_crc(header, crc32c(memoryview(buffer)[CRC_START:]))
    return map(_entry, iter_producer_entries(memoryview(buffer)[position:]))


def decode_snapshot_header(buffer: Buffer, position: int = 0) -> tuple[SnapshotHeader, int]:
    """Return the header at `position` and the position after it. Raises TruncatedError and UnsupportedError."""
    _check_room(buffer, position, SNAPSHOT_HEADER.size, "a producer snapshot's header")
    version, crc, entry_count = SNAPSHOT_HEADER.struct.unpack_from(buffer, position)
    if version != SNAPSHOT_VERSION:
        raise UnsupportedError(
            f"producer snapshot version {version}; only {SNAPSHOT_VERSION} exists", position=position
        )
    return SnapshotHeader(version=version, crc=crc, entry_count=entry_count), position + SNAPSHOT_HEADER.size


def check_snapshot_size(header: SnapshotHeader, size_bytes: int) -> None:
    """Compare the count with the file's size. Raises FieldError and TruncatedError."""
    if header.entry_count < 0:
        raise FieldError(f"producer snapshot of {header.entry_count} entries", position=CRC_START)
    if size_bytes < header.size_bytes:
        raise TruncatedError(
            f"{header.entry_count} producers take {header.size_bytes} bytes, the file has {size_bytes}",
            position=size_bytes,
        )
    if size_bytes > header.size_bytes:
        left = size_bytes - header.size_bytes
        raise FieldError(f"{left} bytes follow the last of {header.entry_count} producers", position=header.size_bytes)


def check_snapshot_crc(header: SnapshotHeader, computed: int) -> None:
    """Compare the stored checksum with the CRC-32C of everything from `CRC_START` on. Raises ChecksumError."""
    if header.crc != computed:
        raise ChecksumError(
            "producer snapshot's CRC-32C differs", stored=header.crc, computed=computed, position=_CRC_POSITION
        )


def decode_producer_entry(buffer: Buffer, position: int) -> tuple[ProducerEntry, int]:
    """Return the entry at `position` and the position after it. Raises TruncatedError."""
    _check_room(buffer, position, SNAPSHOT_ENTRY.size, "a producer snapshot's entry")
    return _entry(SNAPSHOT_ENTRY.struct.unpack_from(buffer, position)), position + SNAPSHOT_ENTRY.size


def iter_producer_entries(buffer: Buffer) -> Iterator[tuple[int, ...]]:
    """Iterate over the whole entries of a run as tuples in the order of `ProducerEntry`'s fields."""
    view = memoryview(buffer)
    return SNAPSHOT_ENTRY.struct.iter_unpack(view[: len(view) - len(view) % SNAPSHOT_ENTRY.size])


def encode_snapshot(producers: Iterable[ProducerEntry], *, order: SnapshotOrder) -> bytes:
    """Return the content of a snapshot, as `ProducerStateManager.writeSnapshot` writes it.

    Args:
        producers: in the order in which the broker first saw them.
        order: of the hash map of the release.
    """
    ids, known, size = array("q"), bytearray(), SNAPSHOT_ENTRY.size
    for producer in producers:
        ids.append(producer.producer_id)
        known += SNAPSHOT_ENTRY.struct.pack(*_fields(producer))
    content = bytearray(ENTRIES_START)
    for place in java_order(ids) if order == "java" else scala_order(ids):
        content += known[place * size : (place + 1) * size]
    SNAPSHOT_HEADER.struct.pack_into(content, 0, SNAPSHOT_VERSION, 0, len(ids))
    crc = crc32c(memoryview(content)[CRC_START:])
    SNAPSHOT_HEADER.struct.pack_into(content, 0, SNAPSHOT_VERSION, crc, len(ids))
    return bytes(content)


def repeated_producers(buffer: Buffer) -> frozenset[int]:
    """Return the producer ids that a whole file has more than once.

    It takes 8 bytes for each producer; a set of all would take a hundred.
    """
    parts = [array("q") for _ in range(_ID_PARTS)]
    for producer_id, *_ in iter_producer_entries(memoryview(buffer)[ENTRIES_START:]):
        parts[producer_id % _ID_PARTS].append(producer_id)
    repeated: set[int] = set()
    for part in parts:
        if len(set(part)) < len(part):
            repeated.update(producer_id for producer_id, count in Counter(part).items() if count > 1)
    return frozenset(repeated)


def _entry(fields: tuple[int, ...]) -> ProducerEntry:
    return ProducerEntry(**dict(zip(ProducerEntry.__struct_fields__, fields, strict=True)))


def _check_room(buffer: Buffer, position: int, size_bytes: int, what: str) -> None:
    left = max(0, len(buffer) - position)
    if position < 0 or left < size_bytes:
        raise TruncatedError(f"{left} of {size_bytes} bytes of {what}", position=position)
