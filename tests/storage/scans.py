"""A scan as plain values, for tests: what was found where; batches to scan, and a file that cannot be read."""

from __future__ import annotations

import errno
import os
import struct
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source
from tests.support.build import Record, batch_v2

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.storage.scan import Run

__all__ = [
    "BLOCK",
    "A",
    "B",
    "C",
    "D",
    "DyingSource",
    "Found",
    "N",
    "bad_crc",
    "batch",
    "batches_of",
    "damages_of",
    "found_in",
    "scan_file",
    "scan_source",
    "with_size",
]

BLOCK = 4096


class Found(NamedTuple):
    """One batch that a scan has given out."""

    position: int
    size_bytes: int
    last_offset: int
    resynced: bool


def found_in(run: Run) -> list[Found]:
    """The batches of a run."""
    names = ("position", "size_bytes", "last_offset")
    rows = zip(*(run.batches.column(name).tolist() for name in names), strict=True)
    return [Found(at, size, last, run.resynced) for at, size, last in rows]


def scan_source(
    source: Source,
    *,
    base_offset: int | None = 0,
    is_v07: bool = False,
    resync: bool = False,
    max_batch_bytes: int = 2**28,
) -> list[Found | Damage]:
    """Everything in an open file; it must follow on each other without a gap."""
    options = ScanOptions(resync=resync, max_batch_bytes=max_batch_bytes)
    items: list[Found | Damage] = []
    for item in scan(source, base_offset=base_offset, is_v07=is_v07, options=options):
        items += [item] if isinstance(item, Damage) else found_in(item)
    at = 0
    for piece in items:
        if isinstance(piece, Damage) and piece.reason == "offset-order":
            assert piece.size_bytes == 0
            continue
        assert piece.position == at
        assert piece.size_bytes > 0
        at += piece.size_bytes
    assert at == source.size_bytes
    return items


def scan_file(path: Path, data: bytes, **options: object) -> list[Found | Damage]:
    """Everything in a file of these bytes."""
    path.write_bytes(data)
    with Source.open(path) as source:
        items = scan_source(source, **options)  # type: ignore[arg-type]
        assert source.size_bytes == len(data)
    return items


def batches_of(items: list[Found | Damage]) -> list[Found]:
    """The batches among the items."""
    return [item for item in items if isinstance(item, Found)]


def damages_of(items: list[Found | Damage]) -> list[tuple[str, int, int, int | None]]:
    """Reason, position, size and next offset of each damage."""
    return [
        (item.reason, item.position, item.size_bytes, item.next_offset) for item in items if isinstance(item, Damage)
    ]


def batch(first: int, count: int = 3, size: int = 20) -> bytes:
    """A batch of `count` records with values of `size` bytes."""
    return batch_v2([Record(offset=first + n, key=b"key", value=b"v" * size) for n in range(count)])


def bad_crc(data: bytes) -> bytes:
    """The same batch with its last byte changed."""
    return data[:-1] + bytes([data[-1] ^ 0xFF])


def with_size(data: bytes, size: int) -> bytes:
    """The same batch with another length field."""
    return data[:8] + struct.pack(">i", size) + data[12:]


A, B, C, D = (batch(first) for first in (0, 3, 6, 9))
N = len(A)
"""Size of each of these batches, in bytes."""


class DyingSource(Source):
    """A file whose blocks in `bad` cannot be read; `error` is what the system says."""

    bad: frozenset[int] = frozenset()
    error = errno.EIO

    def _pread(self, target: memoryview, position: int) -> int:
        first, last = position // BLOCK, (position + max(1, len(target)) - 1) // BLOCK
        if any(block in self.bad for block in range(first, last + 1)):
            raise OSError(self.error, os.strerror(self.error))
        return super()._pread(target, position)
