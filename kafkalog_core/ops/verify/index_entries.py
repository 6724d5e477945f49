"""The entries of one index file, window by window, and the zeros behind them."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from kafkalog_core.format import kernels
from kafkalog_core.format.kernels.constants import I_ENTRY, I_SLOT
from kafkalog_core.storage.source import WINDOW_BYTES, Source, UnreadableError

if TYPE_CHECKING:
    from kafkalog_core.format.layout import Layout

__all__ = ["WINDOW_ENTRIES", "EntryWindows"]

WINDOW_ENTRIES: Final = 32768
"""Entries that are read at a time."""
_CLEAN: Final = bytes(WINDOW_ENTRIES)


class EntryWindows:
    """Windows over the entries of one index. Nothing stays open between two of them.

    `count` entries are in the file, `used` of them before the zeros at its end; `partial_bytes` are left over. Of those
    `used`, `window` entries stand in `data` with their `marks`, and `next_slot` is the number of the one behind them.
    """

    def __init__(self, path: str, layout: Layout, *, is_time: bool) -> None:
        self.path = path
        self.layout = layout
        self.count = self.used = self.window = self.next_slot = 0
        self.partial_bytes = 0
        self.data = bytes(layout.size)
        self.marks: bytes | bytearray = _CLEAN
        self.unreadable: list[tuple[int, int]] = []
        self._is_time = is_time
        self._links = array("q")

    @property
    def has_more(self) -> bool:
        """Whether entries stand behind the window."""
        return self.next_slot < self.used

    def open(self, state: array[int]) -> None:
        """Measure the file and read its first window. Raises NotFoundError or AccessError."""
        with Source.open(self.path) as source:
            self.count, self.partial_bytes = divmod(source.size_bytes, self.layout.size)
            self.used = self._used_entries(source)
            if self.used:
                self._read(source, state)

    def advance(self, state: array[int]) -> None:
        """Read the next window. Raises NotFoundError or AccessError."""
        with Source.open(self.path) as source:
            self._read(source, state)

    def is_zero(self, slot: int) -> bool:
        """Whether an entry is all zeros, or not there. Raises NotFoundError or AccessError."""
        with Source.open(self.path) as source:
            try:
                return not any(source.read(slot * self.layout.size, self.layout.size))
            except UnreadableError:
                return True

    def _read(self, source: Source, state: array[int]) -> None:
        size = self.layout.size
        position = self.next_slot * size
        state[I_SLOT], state[I_ENTRY] = self.next_slot, 0
        try:
            data = source.read(position, min(WINDOW_ENTRIES, self.used - self.next_slot) * size)
            if len(data) < size:
                source.window(position + len(data), 1)  # of an entry that can be read in part
        except UnreadableError as error:
            self.unreadable.append((error.position, error.size_bytes))
            self.next_slot = min(-(-(error.position + error.size_bytes) // size), self.used)
            self.window = 0
            return
        self.window = len(data) // size
        if self.window == 0:  # cut under our hands
            self.used = self.next_slot
            return
        self.data = data
        self.next_slot += self.window
        self.marks = _CLEAN
        if not kernels.is_ordered(data, self.window, self._is_time, state):
            self.marks = bytearray(self.window)
            if not self._links:
                self._links = array("q", bytes(16 * WINDOW_ENTRIES))
            kernels.mark_disorder(data, self.window, self._is_time, state, self.marks, self._links)

    def _used_entries(self, source: Source) -> int:
        """Entries up to the last one that is not all zeros; a single one of zeros may be true."""
        size = self.layout.size
        end = self.count * size
        wanted = size
        while end > 0:
            start = max(0, end - wanted)
            try:
                used = len(source.read(start, end - start).rstrip(b"\0"))
            except UnreadableError:
                break
            if used:
                end = start + used
                break
            end, wanted = start, WINDOW_BYTES
        return -(-end // size) or int(self.count == 1 and self._is_time)
