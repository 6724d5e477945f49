"""Producer snapshots: the state of every producer of a partition before the offset that the file is named after.

There has been one version, 1, from 0.11 on. Nothing is decoded before version, size and checksum agree, so a wrong
entry count costs no memory. Entries are decoded and encoded one at a time: as objects, all of them take five times the
size of the file. A snapshot of any size can be read in windows: `decode_snapshot_header`,
`check_snapshot_size`, a CRC-32C of everything behind the crc (`check_snapshot_crc`), then `iter_producer_entries` over
runs of entries.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.errors import ChecksumError, FieldError, TruncatedError, UnsupportedError
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.hashorder import java_order, scala_order
from kafkalog_core.format.layout import MAX_INT32, SNAPSHOT_ENTRY, SNAPSHOT_HEADER, SNAPSHOT_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
    "repeated_producers",
]

Buffer = bytes | bytearray | memoryview
SnapshotOrder = Literal["java", "scala"]
"""Whose hash map the broker has its producers in, which is the order of the file."""

CRC_START: Final = SNAPSHOT_HEADER.at("numEntries")
ENTRIES_START: Final = SNAPSHOT_HEADER.size
_CRC_POSITION: Final = SNAPSHOT_HEADER.at("crc")
_ID_PARTS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHeader:
    """`crc` as stored; `entry_count` as stored, not checked yet."""

    version: int
    crc: int
    entry_count: int

    @property
    def size_bytes(self) -> int:
        """Size of a file with this many entries."""
        return ENTRIES_START + SNAPSHOT_ENTRY.size * self.entry_count


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerEntry:
    """What a broker knew of one producer; all values as stored, -1 where there is none.

    `last_sequence`, `last_offset` and `offset_delta` (last - first offset) are those of the last batch; a producer of
    whom only a marker is known has -1, -1 and 0.
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
        """First offset of the last batch; null: no batch."""
        return self.last_offset - self.offset_delta if self.has_batch else None

    @property
    def first_sequence(self) -> int | None:
        """First sequence number of the last batch, by `DefaultRecordBatch.decrementSequence`; null: no batch."""
        if not self.has_batch:
            return None
        first = self.last_sequence - self.offset_delta
        return first if self.last_sequence >= self.offset_delta else first + MAX_INT32 + 1


_fields: Final = attrgetter(*ProducerEntry.__dataclass_fields__)


def decode_snapshot(buffer: Buffer) -> Iterator[ProducerEntry]:
    """Check a whole file, and return an iterator of its entries in the order of the file.

    Raises:
        TruncatedError: The file is shorter than its entries.
        UnsupportedError: The version is not 1.
        FieldError: The count is negative, or bytes are left behind the entries.
        ChecksumError: The stored CRC-32C is not that of the bytes.
    """
    header, position = decode_snapshot_header(buffer)
    check_snapshot_size(header, len(buffer))
    check_snapshot_crc(header, crc32c(memoryview(buffer)[CRC_START:]))
    return map(_entry, iter_producer_entries(memoryview(buffer)[position:]))


def decode_snapshot_header(buffer: Buffer, position: int = 0) -> tuple[SnapshotHeader, int]:
    """The header at `position` and the position behind it. Raises TruncatedError and UnsupportedError."""
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
        raise FieldError(f"{left} bytes behind the last of {header.entry_count} producers", position=header.size_bytes)


def check_snapshot_crc(header: SnapshotHeader, computed: int) -> None:
    """Compare the stored checksum with the CRC-32C of everything from `CRC_START` on. Raises ChecksumError."""
    if header.crc != computed:
        raise ChecksumError(
            "producer snapshot's CRC-32C differs", stored=header.crc, computed=computed, position=_CRC_POSITION
        )


def decode_producer_entry(buffer: Buffer, position: int) -> tuple[ProducerEntry, int]:
    """The entry at `position` and the position behind it. Raises TruncatedError."""
    _check_room(buffer, position, SNAPSHOT_ENTRY.size, "a producer snapshot's entry")
    return _entry(SNAPSHOT_ENTRY.struct.unpack_from(buffer, position)), position + SNAPSHOT_ENTRY.size


def iter_producer_entries(buffer: Buffer) -> Iterator[tuple[int, ...]]:
    """All whole entries of a run as tuples in the order of `ProducerEntry`'s fields."""
    view = memoryview(buffer)
    return SNAPSHOT_ENTRY.struct.iter_unpack(view[: len(view) - len(view) % SNAPSHOT_ENTRY.size])


def encode_snapshot(producers: Iterable[ProducerEntry], *, order: SnapshotOrder) -> bytes:
    """All bytes of a snapshot, `ProducerStateManager.writeSnapshot`.

    Args:
        producers: as a broker came to know them, one after another.
        order: of the release that is to have written it.
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

    Takes 8 bytes for each producer, as one set of all of them would take a hundred.
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
    return ProducerEntry(**dict(zip(ProducerEntry.__dataclass_fields__, fields, strict=True)))


def _check_room(buffer: Buffer, position: int, size_bytes: int, what: str) -> None:
    left = max(0, len(buffer) - position)
    if position < 0 or left < size_bytes:
        raise TruncatedError(f"{left} of {size_bytes} bytes of {what}", position=position)
