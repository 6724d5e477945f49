"""Which pages of a file the system has in memory, and letting go of those that were read for us alone.

A broker serves consumers at the end of its logs from the page cache. A command that reads a whole disk next to it fills
that cache with pages that nobody asks for again, and the broker's own go. So before a part of a file is read, the
system is asked which of its pages are there already (mincore(2)); those that were not are given back after that
(posix_fadvise(2), POSIX_FADV_DONTNEED). Only Linux answers; since Linux 5.2 only for files that the user owns or may
write to. For other users every page counts as there before, and nothing is given back.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import sys
from collections import deque
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["AHEAD_BYTES", "ReadPages", "absent_ranges", "give_back", "opened"]

LOOK_BYTES: Final = 8 * 1024 * 1024
"""A file is looked at in parts of this size: a look takes some microseconds."""
AHEAD_BYTES: Final = 16 * 1024 * 1024
"""How far the system reads ahead of us: two windows of up to 8 MiB (read_ahead_kb)."""
_LATE_PARTS: Final = 4
_ABSENT: Final = re.compile(rb"\0+")  # of mincore, with a byte for each page
_FAILED: Final = ctypes.c_void_p(-1).value


@cache
def _calls() -> tuple[ctypes._NamedFuncPointer, ...] | None:
    """Return mmap, mincore and munmap of the C library; None: not on this system.

    Python's own mmap does not tell the address of a file that is open for reading.
    """
    if sys.platform != "linux" or not hasattr(os, "posix_fadvise"):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
        ctypes.c_int64,
    )
    library.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return library.mmap, library.mincore, library.munmap


def absent_ranges(descriptor: int, position: int, size_bytes: int) -> list[tuple[int, int]]:
    """Return the ranges of a part of a file, first byte and byte after the last, that are not in the page cache.

    position: the start of a page. Nothing is read. What is unknown counts as there.
    """
    calls = _calls()
    if calls is None or size_bytes <= 0:
        return []
    map_memory, mincore, unmap = calls
    # Mapped, not read: mincore answers about a mapping, and the mapping loads no page.
    address = map_memory(None, size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, position)
    if address == _FAILED:
        return []
    pages = ctypes.create_string_buffer(_pages(size_bytes))
    try:
        if mincore(address, size_bytes, pages) != 0:
            return []
    finally:
        unmap(address, size_bytes)
    runs = (found.span() for found in _ABSENT.finditer(pages.raw))
    end = position + size_bytes
    return [(position + first * mmap.PAGESIZE, min(position + last * mmap.PAGESIZE, end)) for first, last in runs]


class ReadPages:
    """The pages of one open file that are in memory because it is read here."""

    def __init__(self, descriptor: int, size_bytes: int) -> None:
        """Take a file of this size: what is appended later belongs to its writer."""
        self._descriptor = descriptor
        self._parts = -(-size_bytes // LOOK_BYTES)
        self._size_bytes = size_bytes
        self._absent: dict[int, list[tuple[int, int]]] = {}  # by the number of the part
        self._looked = 0
        self._late: deque[list[tuple[int, int]]] = deque(maxlen=_LATE_PARTS)  # given back, before they were all there

    def about_to_read(self, position: int, size_bytes: int, wanted_to: int) -> None:
        """Look at what is about to be read, and give back what is neither that nor near it.

        wanted_to: where reading will end; what follows may be what another process reads.
        """
        first = position // LOOK_BYTES
        last = min(position + size_bytes + AHEAD_BYTES, max(position + size_bytes, wanted_to)) - 1
        last = min(last // LOOK_BYTES, self._parts - 1)
        # Nothing new since the last look: small reads of one part cost one comparison.
        if first in self._absent and last in self._absent and len(self._absent) == last - first + 1:
            return
        for number in [each for each in self._absent if not first <= each <= last]:
            self._give_back(number)
        for number in range(first, last + 1):
            if number not in self._absent:
                start = number * LOOK_BYTES
                size = min(LOOK_BYTES, self._size_bytes - start)
                self._absent[number] = absent_ranges(self._descriptor, start, size)

    def look_to(self, end: int) -> None:
        """Look at all up to a byte, and at what the system may read ahead of it, before other processes read it."""
        last = min(-(-(end + AHEAD_BYTES) // LOOK_BYTES), self._parts)
        for number in range(self._looked, last):
            start = number * LOOK_BYTES
            self._absent[number] = absent_ranges(self._descriptor, start, min(LOOK_BYTES, self._size_bytes - start))
        self._looked = max(self._looked, last)

    def give_back_to(self, end: int) -> None:
        """Give back what other processes have read before a byte."""
        for number in [each for each in self._absent if (each + 1) * LOOK_BYTES <= end]:
            self._give_back(number)

    def give_back(self) -> None:
        """Give back all that is left, before the file is closed."""
        ranges = [each for part in (*self._late, *self._absent.values()) for each in part]
        self._absent.clear()
        self._late.clear()
        give_back(self._descriptor, ranges)

    def _give_back(self, number: int) -> None:
        # A few parts later once more: readahead may have loaded their last pages after they were given back.
        self._late.append(self._absent.pop(number))
        for ranges in self._late:
            give_back(self._descriptor, ranges)


def give_back(descriptor: int, ranges: Iterable[tuple[int, int]]) -> None:
    """Let go of ranges of a file that were not in the page cache before."""
    # Only clean pages are dropped (posix_fadvise(2)).
    for start, end in ranges:
        os.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_DONTNEED)


def _pages(size_bytes: int) -> int:
    return -(-size_bytes // mmap.PAGESIZE)


@contextmanager
def opened(path: str) -> Iterator[int]:
    """Yield a descriptor of a file. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
