"""A small reader of Kafka's files with nothing of kafkalog in it: what figures in results are compared with.

Written from Kafka's own description of the formats, plainly and slowly: every batch is opened, every checksum computed.
Whatever is not as described is an error here.
"""

from __future__ import annotations

import re
import struct
import zlib
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import lz4.block
import snappy
import zstandard

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Batch",
    "Record",
    "batches_of",
    "crc32c",
    "log_of",
    "offset_entries",
    "producers",
    "properties",
    "segments",
    "text_entries",
    "time_entries",
    "txn_entries",
]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONTROL_TYPES = (
    "abort",
    "commit",
    "leader_change",
    "snapshot_header",
    "snapshot_footer",
    "kraft_version",
    "kraft_voters",
)
_XERIAL = bytes.fromhex("82534e41505059000000000100000001")
_HEADER = struct.Struct(">qiibIhiqqqhii")


class Record(NamedTuple):
    """A record; `timestamp_ms` is None where its format has none."""

    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Batch(NamedTuple):
    """A batch of magic 2, or a message of magic 0 or 1 in the log, with its records."""

    segment: str
    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    magic: int
    attributes: int
    base_timestamp_ms: int | None
    max_timestamp_ms: int | None
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    header_count: int
    crc: int
    records: tuple[Record, ...]

    @property
    def codec(self) -> str:
        return CODECS[self.attributes & 7]

    @property
    def format(self) -> str:
        return f"v{self.magic}"

    @property
    def timestamp_type(self) -> str | None:
        return ("create", "append")[self.attributes >> 3 & 1] if self.magic else None

    @property
    def is_transactional(self) -> bool:
        return bool(self.magic == 2 and self.attributes & 16)

    @property
    def is_control(self) -> bool:
        return bool(self.magic == 2 and self.attributes & 32)

    @property
    def has_horizon(self) -> bool:
        return bool(self.magic == 2 and self.attributes & 64)

    def control_type(self, record: Record) -> str | None:
        """The type of a control record; None: the batch holds data."""
        if not self.is_control:
            return None
        assert record.key is not None
        return CONTROL_TYPES[int.from_bytes(record.key[2:4], "big")]


@cache
def segments(directory: Path) -> dict[int, Path]:
    """The log files that a broker serves, by their base offsets."""
    return {int(path.stem): path for path in sorted(directory.glob("*.log")) if re.fullmatch(r"\d{20}", path.stem)}


def log_of(directory: Path) -> tuple[Batch, ...]:
    """All batches of a partition."""
    return tuple(batch for path in segments(directory).values() for batch in batches_of(path))


@cache
def batches_of(path: Path) -> tuple[Batch, ...]:
    """All batches of a log file; zeros at its end, which a broker has preallocated, are none."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data) and any(data[at:]):
        size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
        one = data[at : at + size]
        assert len(one) == size, path
        found.append(_v2(path.name, at, one) if one[16] == 2 else _message(path.name, at, one))
        at += size
    return tuple(found)


def _v2(segment: str, at: int, data: bytes) -> Batch:
    fields = _HEADER.unpack_from(data)
    base, _, epoch, magic, crc, attributes, delta, first_ms, max_ms, producer, producer_epoch, sequence, count = fields
    assert crc == crc32c(data[21:])
    place, records = 0, []
    body = _inflated(attributes & 7, data[_HEADER.size :])
    for _ in range(count):
        size, place = _varint(body, place)
        record = body[place : place + size]
        place += size
        time, inner = _varint(record, 1)
        relative, inner = _varint(record, inner)
        key, inner = _sized(record, inner)
        value, inner = _sized(record, inner)
        headers, inner = _headers(record, inner)
        assert inner == size
        records.append(Record(base + relative, max_ms if attributes & 8 else first_ms + time, key, value, headers))
    assert place == len(body)
    return Batch(
        *(segment, at, len(data), base, base + delta, magic, attributes, first_ms, max_ms),
        *(epoch, producer, producer_epoch, sequence, count, crc, tuple(records)),
    )


def _headers(record: bytes, at: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    found = []
    count, at = _varint(record, at)
    for _ in range(count):
        key, at = _sized(record, at)
        value, at = _sized(record, at)
        assert key is not None
        found.append((key.decode(), value))
    return tuple(found), at


def _message(segment: str, at: int, data: bytes) -> Batch:
    """A message of magic 0 or 1 with what it wraps."""
    offset, _, crc, magic, attributes = struct.unpack_from(">qiIbb", data)
    assert crc == zlib.crc32(data[16:])
    time_ms = int.from_bytes(data[18:26], "big", signed=True) if magic else None
    key, place = _field(data, 26 if magic else 18)
    value, place = _field(data, place)
    assert place == len(data)
    if not attributes & 7:
        records = [Record(offset, time_ms, key, value, ())]
    else:
        assert value is not None
        content, inner = _inflated(attributes & 7, value), []
        place = 0
        while place < len(content):
            size = int.from_bytes(content[place + 8 : place + 12], "big") + 12
            inner += _message(segment, 0, content[place : place + size]).records
            place += size
        shift = offset - inner[-1].offset if magic else 0  # of magic 1 from 0 on, of magic 0 as they are in the log
        records = [
            each._replace(offset=each.offset + shift, timestamp_ms=time_ms if attributes & 8 else each.timestamp_ms)
            for each in inner
        ]
    return Batch(
        *(segment, at, len(data), records[0].offset, offset, magic, attributes, None, time_ms),
        *(-1, -1, -1, -1, len(records), crc, tuple(records)),
    )


# --- small forms ------------------------------------------------------------------------------------------------------
def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value >> 1 ^ -(value & 1), at


def _sized(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _field(data: bytes, at: int) -> tuple[bytes | None, int]:
    size = int.from_bytes(data[at : at + 4], "big", signed=True)
    return (None, at + 4) if size < 0 else (data[at + 4 : at + 4 + size], at + 4 + size)


def _inflated(codec: int, data: bytes) -> bytes:
    if codec == 0 or not data:
        return data
    if codec == 1:
        return zlib.decompress(data, 31)
    if codec == 2:
        return _snappy(data)
    return _lz4(data) if codec == 3 else zstandard.ZstdDecompressor().decompressobj().decompress(data)


def _snappy(data: bytes) -> bytes:
    """Blocks behind their sizes, as Java writes them, or one body."""
    if not data.startswith(_XERIAL[:8]):
        body: bytes = snappy.decompress(data)
        return body
    at, out = len(_XERIAL), b""
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        out += snappy.decompress(data[at + 4 : at + 4 + size])
        at += 4 + size
    return out


def _lz4(data: bytes) -> bytes:
    """A frame, block by block: the checksum of its header is wrong in what old clients wrote."""
    flags, largest = data[4], 1 << 8 + 2 * (data[5] >> 4)
    at, out = 15 if flags & 8 else 7, b""
    while size := int.from_bytes(data[at : at + 4], "little"):
        block = data[at + 4 : at + 4 + (size & 0x7FFFFFFF)]
        history = out[-65536:] if not flags & 32 else b""
        out += block if size >> 31 else lz4.block.decompress(block, uncompressed_size=largest, dict=history)
        at += 4 + len(block) + (4 if flags & 16 else 0)
    return out


@cache
def _crc32c_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        rest = byte
        for _ in range(8):
            rest = rest >> 1 ^ (0x82F63B78 if rest & 1 else 0)
        table.append(rest)
    return tuple(table)


def crc32c(data: bytes) -> int:
    """The checksum of RFC 3720."""
    table, crc = _crc32c_table(), 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


# --- what is in the same directory ------------------------------------------------------------------------------------
def offset_entries(path: Path) -> list[tuple[int, int]]:
    """Relative offset and position of each entry."""
    return list(struct.iter_unpack(">ii", path.read_bytes()))


def time_entries(path: Path) -> list[tuple[int, int]]:
    """Timestamp and relative offset of each entry."""
    return list(struct.iter_unpack(">qi", path.read_bytes()))


def txn_entries(path: Path) -> list[tuple[int, ...]]:
    """Version, producer, first and last offset, last stable offset of each entry."""
    return list(struct.iter_unpack(">hqqqq", path.read_bytes()))


def producers(path: Path) -> list[tuple[int, ...]]:
    """The entries of a producer snapshot, as they are stored."""
    data = path.read_bytes()
    version, crc, count = struct.unpack_from(">hIi", data)
    assert (version, crc) == (1, crc32c(data[6:]))
    found = list(struct.iter_unpack(">qhiqiqiq", data[10:]))
    assert len(found) == count
    return found


def text_entries(path: Path) -> list[list[str]]:
    """The entries of a checkpoint file, each split at its blanks."""
    lines = path.read_text().splitlines()
    entries = [line.split(" ") for line in lines[2:]]
    assert len(entries) == (int(lines[1]) if lines else 0)
    return entries


def properties(path: Path) -> dict[str, str]:
    """Names and values of a file of properties."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    pairs = [re.split(r"[=:] ?", line, maxsplit=1) for line in lines]
    return {name: value.replace("\\", "") for name, value in pairs}
