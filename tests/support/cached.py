"""What of a file is in the page cache, for tests: they look, evict and read without reading ahead."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.storage.page_cache import absent_ranges

if TYPE_CHECKING:
    from pathlib import Path

PAGE: Final = os.sysconf("SC_PAGE_SIZE")
MIB: Final = 1024 * 1024


def evict(path: Path) -> None:
    """Leave no page of a file in memory; those that are not on the disk yet would stay."""
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def touch(path: Path, position: int, size_bytes: int) -> None:
    """Read a part, and no more: the system does not read ahead."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    os.pread(descriptor, size_bytes, position)
    os.close(descriptor)


def absent(path: Path) -> list[tuple[int, int]]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return absent_ranges(descriptor, 0, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def difference(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> int:
    """The bytes that are in some ranges and not in others."""

    def pages(ranges: list[tuple[int, int]]) -> set[int]:
        return {page for start, end in ranges for page in range(start // PAGE, -(-end // PAGE))}

    return len(pages(some) - pages(others)) * PAGE
