"""A seeded partition for the cleaner: records of 90 bytes whose keys come again and again, in segments with indexes.

Every record has one of so many keys, drawn evenly, so that a log of ten times as many records as keys shrinks to a
tenth. Batches hold 180 records (16 KiB, a producer's default), segments are of 100 MiB; behind them stands a small
active one, which no cleaner touches. Kept directories are used again when seed and numbers agree.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, BinaryIO, Final

from kafkalog_core.format import layout
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.names import FileKind, fixed_file_name, segment_file_name
from kafkalog_core.ops.bench import FIRST_TIMESTAMP_MS
from kafkalog_core.structs import Struct, asdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["KeyedLog", "NewBatch", "SegmentFiles", "batch_bytes", "varint", "write_keyed"]

RECORDS_A_BATCH: Final = 180
SEGMENT_BYTES: Final = 100 * 1024 * 1024
_SEED: Final = 20_261_121
_VALUE_BYTES: Final = 72
_TOPIC: Final = "keyed-0"


class KeyedLog(Struct, frozen=True, kw_only=True):
    """A partition directory, and what a cleaner reads of it: all but the active segment."""

    path: str
    size_bytes: int
    records: int
    keys: int


def write_keyed(directory: Path, records: int, keys: int) -> KeyedLog:
    """A partition of so many records in closed segments, or the one that is there."""
    home = directory / f"keyed-{records}-{keys}"
    note = home / "note.json"
    if note.exists():
        return KeyedLog(**json.loads(note.read_text()))
    place = home / _TOPIC
    place.mkdir(parents=True, exist_ok=True)
    size_bytes, end = _write_segments(place, records, keys)
    SegmentFiles(place, end).close(next(_batches(end, RECORDS_A_BATCH, keys)))  # the active one
    (place / fixed_file_name(FileKind.LEADER_EPOCH)).write_bytes(b"0\n1\n0 0\n")
    log = KeyedLog(path=str(place), size_bytes=size_bytes, records=records, keys=keys)
    note.write_text(json.dumps(asdict(log)))
    return log


def _write_segments(place: Path, records: int, keys: int) -> tuple[int, int]:
    """Bytes of the closed segments, and the offset behind them."""
    segment, size_bytes, offset = SegmentFiles(place, 0), 0, 0
    for batch in _batches(0, records, keys):
        if segment.size_bytes + len(batch.data) > SEGMENT_BYTES:
            size_bytes += segment.close()
            segment = SegmentFiles(place, offset)
        segment.add(batch)
        offset = batch.last_offset + 1
    return size_bytes + segment.close(), offset


class NewBatch(Struct, frozen=True):
    """A batch to be written, with what an index tells of it."""

    data: bytes
    last_offset: int
    timestamp_ms: int


def _batches(base_offset: int, records: int, keys: int) -> Iterator[NewBatch]:
    chance = random.Random(_SEED + base_offset)
    value = bytes(33 + (7 * number) % 90 for number in range(_VALUE_BYTES))
    ends = varint(_VALUE_BYTES) + value + b"\0"
    heads = [_head(delta, len(ends)) for delta in range(RECORDS_A_BATCH)]
    names = [b"%08d" % number for number in range(keys)]
    for first in range(base_offset, base_offset + records, RECORDS_A_BATCH):
        count = min(RECORDS_A_BATCH, base_offset + records - first)
        chosen = chance.choices(names, k=count)
        body = b"".join([head + key + ends for head, key in zip(heads, chosen, strict=False)])
        time_ms = FIRST_TIMESTAMP_MS + first // 100
        yield NewBatch(batch_bytes(first, count, time_ms, body), first + count - 1, time_ms)


def _head(delta: int, rest_bytes: int) -> bytes:
    """A record up to its key of eight bytes."""
    start = b"\0\0" + varint(delta) + varint(8)
    return varint(len(start) + 8 + rest_bytes) + start


def varint(number: int) -> bytes:
    """A positive number as records have it: zigzag, seven bits a byte."""
    rest, out = number << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def batch_bytes(base_offset: int, count: int, time_ms: int, body: bytes) -> bytes:
    """A v2 batch without compression and without a producer, its checksum included."""
    length = layout.RECORD_BATCH_OVERHEAD - layout.LOG_OVERHEAD + len(body)
    fields = [base_offset, length, 0, layout.MAGIC_V2, 0, 0, count - 1, time_ms, time_ms, -1, -1, -1, count]
    pack = layout.BATCH_V2.struct.pack
    fields[4] = crc32c(pack(*fields)[layout.V2_ATTRIBUTES :] + body)
    return pack(*fields) + body


class SegmentFiles:
    """A segment as a 4.x broker writes it: an entry of both indexes for every batch but the first."""

    def __init__(self, place: Path, base_offset: int) -> None:
        self.size_bytes = 0
        self._base_offset = base_offset
        self._files: Sequence[BinaryIO] = [
            (place / segment_file_name(base_offset, kind)).open("wb")
            for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
        ]
        self._last: bytes = b""

    def add(self, batch: NewBatch) -> None:
        """Append a batch."""
        relative = batch.last_offset - self._base_offset
        time_entry = layout.TIME_INDEX_ENTRY.struct.pack(batch.timestamp_ms, relative)
        if self.size_bytes:
            self._files[1].write(layout.OFFSET_INDEX_ENTRY.struct.pack(relative, self.size_bytes))
            self._files[2].write(time_entry)
        self._last = b"" if self.size_bytes else time_entry
        self.size_bytes += self._files[0].write(batch.data)

    def close(self, batch: NewBatch | None = None) -> int:
        """Close the files, after a last batch perhaps; bytes of the log."""
        if batch is not None:
            self.add(batch)
        self._files[2].write(self._last)
        for file in self._files:
            file.close()
        return self.size_bytes
