"""The search for the next entry behind damage: where length, magic and checksum agree.

A candidate costs a checksum over all of its length, and garbage may be full of headers that look right: a value that
holds headers, or bytes made to keep a reader busy. So the work is bounded. Candidates that turned out wrong may have
cost, by their size class (a power of two), `CHECKED_PER_BYTE` bytes for each byte searched and `FREE_CHECKS` times the
class's largest size; one that would cost more is passed over and counted. No class takes from another: only wrong
headers of about the same size can hide an entry, and entries that are whole but for their checksum do not, as they cost
one byte a byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.kernels.constants import CHECKED_PER_BYTE, FREE_CHECKS, SIZE_CLASSES
from kafkalog_core.format.layout import DISK_BLOCK_BYTES
from kafkalog_core.storage.source import WINDOW_BYTES, UnreadableError

if TYPE_CHECKING:
    from kafkalog_core.storage.framing import Framing
    from kafkalog_core.storage.source import Source

__all__ = ["SMALL_WINDOW_BYTES", "Search", "count_zeros"]

SMALL_WINDOW_BYTES: Final = 64 * 1024
_WIDENING: Final = 16
_OVERLAP_BYTES: Final = 64  # a header that straddles two windows is seen whole in the second


class Search:
    """Searches one file. `passed_over` counts the candidates that were not checked."""

    def __init__(self, source: Source, framing: Framing, max_batch_bytes: int) -> None:
        self._source = source
        self._framing = framing
        self._max_batch_bytes = max_batch_bytes
        self._probe = BatchColumns(2)
        self._searched_bytes = 0
        self._wrong_bytes = [0] * SIZE_CLASSES
        self.passed_over = 0

    def find(self, position: int, end: int, *, before: int | None = None) -> int | None:
        """File position of the first entry from `position` on that is whole by `end`, and starts `before` there."""
        before = end if before is None else before
        wanted = DISK_BLOCK_BYTES  # it is usually near, and in dense damage each place starts a new search
        while position < before:
            size = min(wanted, end - position, before - position + _OVERLAP_BYTES)
            try:
                window = self._source.window(position, size)
            except UnreadableError as error:
                position += error.size_bytes
                continue
            if not window:  # cut under our hands
                return None
            # no entry goes on over a place that the disk cannot read
            found, searched = self._in_window(window, position, end - position if len(window) == size else len(window))
            if found is not None:
                return found if found < before else None
            position += searched
            self._searched_bytes += searched
            wanted = min(_WIDENING * wanted, WINDOW_BYTES)
        return None

    def _in_window(self, window: memoryview, position: int, rest: int) -> tuple[int | None, int]:
        """Where an entry stands, or how many bytes were searched in vain; `rest` is where the last entry may end."""
        begin = 0
        while True:
            at = self._framing.candidate(window, begin, rest, self._max_batch_bytes)
            if at < 0:
                return None, rest if len(window) >= rest else max(begin, len(window) - _OVERLAP_BYTES)
            begin = at + 1
            size = self._framing.entry_bytes(window[at:])
            if not self._affords(size, self._searched_bytes + at):
                self.passed_over += 1
                continue
            is_inside = at + size <= len(window)
            if self._is_entry(position + at, size, window[at : at + size] if is_inside else None):
                return position + at, 0
            self._wrong_bytes[size.bit_length()] += size
            if not is_inside:  # reading it has overwritten the window
                return None, begin

    def _affords(self, size: int, searched_bytes: int) -> bool:
        size_class = size.bit_length()
        budget = CHECKED_PER_BYTE * searched_bytes + (FREE_CHECKS << size_class)
        return self._wrong_bytes[size_class] + size <= budget

    def _is_entry(self, position: int, size: int, window: memoryview | None) -> bool:
        try:
            entry = self._source.window(position, size) if window is None else window
        except UnreadableError:
            return False
        self._framing.walk(entry, position, -1, self._max_batch_bytes, check=True, into=self._probe)
        return self._probe.count > 0


def count_zeros(source: Source, position: int, end: int) -> int:
    """Number of zero bytes from `position` on, before `end` or the first other or unreadable byte."""
    at = position
    wanted = DISK_BLOCK_BYTES  # mostly there are few
    while at < end:
        try:
            window = source.window(at, min(wanted, end - at))
        except UnreadableError:
            break
        if not window:
            break
        left = len(bytes(window).lstrip(b"\0"))
        at += len(window) - left
        if left:
            break
        wanted = SMALL_WINDOW_BYTES
    return at - position
