"""Two logs compared, byte for byte; where they differ batch by batch, without what only a compressor made."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.decompression import decompress

if TYPE_CHECKING:
    from collections.abc import Iterator

_V2: Final = struct.Struct(">qiibIhiqqqhii")
_V2_NAMES: Final = (
    "base offset",
    "length",
    "leader epoch",
    "magic",
    "crc",
    "attributes",
    "last offset delta",
    "base timestamp",
    "max timestamp",
    "producer id",
    "producer epoch",
    "base sequence",
    "count",
)
_OF_BYTES: Final = frozenset({"length", "crc"})
_CODEC: Final = 7
_LIMIT_BYTES: Final = 1 << 28
SAME_RECORDS: Final = "codec"
"""The same batches with the same headers and records; only what a compressor made of them is other."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of magic 2, or a message of magic 0 or 1.

    Args:
        position: in its file.
        head: all that stands before the records, by name.
        content: the records, inflated.
        is_compressed: they stood compressed.
    """

    position: int
    head: dict[str, int | bytes | None]
    content: bytes
    is_compressed: bool

    @property
    def records(self) -> int:
        """How many it holds."""
        if "count" in self.head:
            return int(self.head["count"] or 0)
        return sum(1 for _ in _messages(self.content)) if self.is_compressed else 1

    def shape(self) -> dict[str, int | bytes | None]:
        """What is the same whatever compressed it."""
        without = _OF_BYTES if self.is_compressed else frozenset()
        return {name: value for name, value in self.head.items() if name not in without}


def batches(log: bytes) -> Iterator[Batch]:
    """All batches of a sound log."""
    at = 0
    while at < len(log):
        size = int.from_bytes(log[at + 8 : at + 12], "big") + 12
        data = log[at : at + size]
        assert len(data) == size
        yield _v2(at, data) if data[16] == 2 else _legacy(at, data)
        at += size


def _v2(at: int, data: bytes) -> Batch:
    head: dict[str, int | bytes | None] = dict(zip(_V2_NAMES, _V2.unpack_from(data), strict=True))
    codec = int(data[22]) & _CODEC
    payload = data[_V2.size :]
    content = bytes(decompress(codec, payload, magic=2, limit_bytes=_LIMIT_BYTES)) if codec and payload else payload
    return Batch(at, head, content, is_compressed=bool(codec))


def _legacy(at: int, data: bytes) -> Batch:
    offset, length, crc, magic, attributes = struct.unpack_from(">qiIbb", data)
    head: dict[str, int | bytes | None] = {
        "base offset": offset,
        "length": length,
        "magic": magic,
        "crc": crc,
        "attributes": attributes,
    }
    place = 18
    if magic:
        head["timestamp"] = int.from_bytes(data[place : place + 8], "big", signed=True)
        place += 8
    head["key"], place = _field(data, place)
    value, _ = _field(data, place)
    codec = attributes & _CODEC
    head["value is null"] = value is None
    payload = value or b""
    content = bytes(decompress(codec, payload, magic=magic, limit_bytes=_LIMIT_BYTES)) if codec else payload
    return Batch(at, head, content, is_compressed=bool(codec))


def _messages(content: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        size = int.from_bytes(content[at + 8 : at + 12], "big") + 12
        yield content[at : at + size]
        at += size


def _field(data: bytes, place: int) -> tuple[bytes | None, int]:
    size = int.from_bytes(data[place : place + 4], "big", signed=True)
    return (None, place + 4) if size < 0 else (data[place + 4 : place + 4 + size], place + 4 + size)


def difference(mine: bytes, theirs: bytes) -> str | None:
    """How a log differs: null, `SAME_RECORDS`, or the first thing that is other, in words."""
    if mine == theirs:
        return None
    ours, others = list(batches(mine)), list(batches(theirs))
    for number, (one, other) in enumerate(zip(ours, others, strict=False)):
        where = f"batch {number} at {one.position}, theirs at {other.position}"
        if one.shape() != other.shape():
            names = [name for name, value in other.shape().items() if one.shape().get(name) != value]
            parts = [f"{name} {one.head.get(name)!r}, not {other.head[name]!r}" for name in names]
            return f"{where}: {'; '.join(parts) or 'magic'}"
        if one.content != other.content:
            return f"{where}: records of {len(one.content)} bytes, not {len(other.content)}"
    if len(ours) != len(others):
        return f"{len(ours)} batches, not {len(others)}"
    return SAME_RECORDS


def entries(index: bytes, form: str, log: bytes) -> list[tuple[int, ...]]:
    """The entries of an offset index (`>ii`), with the batch's number in place of its position, or of a time index."""
    found = list(struct.iter_unpack(form, index))
    if form != ">ii":
        return found
    numbers = {batch.position: number for number, batch in enumerate(batches(log))}
    return [(relative, numbers.get(position, -1)) for relative, position in found]
