"""Kafka's binary search over an index file, which reads only the pages that it looks at.

Entries are searched as a broker does (`AbstractIndex.indexSlotRangeFor`): first whether the key is in the warm section,
the last 8192 bytes of entries, then in that part or in the rest. Releases before 2.1 search all entries at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.index import split_size
from kafkalog_core.format.layout import DISK_BLOCK_BYTES

if TYPE_CHECKING:
    from kafkalog_core.format.layout import Layout
    from kafkalog_core.storage.source import Source

__all__ = ["WARM_BYTES", "IndexPages", "IndexSearch"]


WARM_BYTES: Final = 8192
"""Kafka's warm section: at most three pages of 4 KiB, all of which every search in it touches."""


@dataclass(slots=True)
class IndexSearch:
    """One search: `lower` is the last slot whose key is not above the searched one; None: there is none.

    `upper` is the first slot whose key is not below it, or, as in Kafka, the one after an equal key; None: there is
    none. `slots` are the slots that were looked at, in this order.
    """

    key: int
    lower: int | None = None
    upper: int | None = None
    slots: list[int] = field(default_factory=list)


class IndexPages:
    """The entries of one index file, read by pages of 4 KiB.

    A broker that opens the file takes all `capacity` entries as used. Zeros at its end, preallocated for later entries,
    are left out as soon as a search ends among them: `count` is the number of the others.
    """

    def __init__(self, source: Source, layout: Layout) -> None:
        self._source = source
        self._layout = layout
        self._pages: dict[int, bytes] = {}
        self.path = source.path
        self.capacity, self.partial_bytes = split_size(layout, source.size_bytes)
        self.count = self.capacity

    @property
    def pages(self) -> list[int]:
        """Numbers of the pages that were read, in ascending order."""
        return sorted(self._pages)

    @property
    def last(self) -> tuple[int, int] | None:
        """The last entry as a broker reads it, even if it is zeros; None: there is none. Raises UnreadableError."""
        return self.entry(self.capacity - 1) if self.capacity else None

    def entry(self, slot: int) -> tuple[int, int]:
        """Return the two fields of one entry. Raises UnreadableError."""
        first, second = self._layout.struct.unpack(self._bytes(slot))
        return first, second

    def search(self, key: int, *, column: int = 0, has_warm_section: bool = True) -> IndexSearch:
        """Search the entries in use by one of their fields. Raises UnreadableError."""
        found = self.search_all(key, column=column, has_warm_section=has_warm_section)
        edge = found.upper if found.lower is None else found.lower
        if edge is None or any(self._bytes(edge)):
            return found
        self.count = self._used()
        slots = found.slots
        found = self._search(key, self.count, column, has_warm_section=has_warm_section)
        found.slots[:0] = [slot for slot in slots if slot not in found.slots]
        return found

    def search_all(self, key: int, *, column: int = 0, has_warm_section: bool = True) -> IndexSearch:
        """Search all entries, as a broker does that has just opened the file. Raises UnreadableError."""
        return self._search(key, self.capacity, column, has_warm_section=has_warm_section)

    def _search(self, key: int, count: int, column: int, *, has_warm_section: bool) -> IndexSearch:
        found = IndexSearch(key)
        if not count:
            return found
        low, high = 0, count - 1
        warm = max(0, high - WARM_BYTES // self._layout.size)
        if has_warm_section and self._key(warm, column, found) < key:
            low = warm
        elif self._key(0, column, found) > key:
            found.upper = 0
            return found
        elif has_warm_section:
            high = warm
        self._bisect(found, low, high, column)
        if found.upper is None and found.lower is not None and found.lower < count - 1:
            found.upper = found.lower + 1
        return found

    def _bisect(self, found: IndexSearch, low: int, high: int, column: int) -> None:
        while low < high:
            middle = (low + high + 1) >> 1
            value = self._key(middle, column, found)
            if value > found.key:
                high = middle - 1
            elif value < found.key:
                low = middle
            else:
                found.lower = found.upper = middle
                return
        found.lower = low

    def _key(self, slot: int, column: int, found: IndexSearch) -> int:
        if slot not in found.slots:
            found.slots.append(slot)
        return self.entry(slot)[column]

    def _used(self) -> int:
        """Return the number of entries before the zeros at the end, by bisection.

        Entries ascend, so zeros can only be a tail.
        """
        low, high = 0, self.capacity - 1
        while low < high:
            middle = (low + high) >> 1
            if any(self._bytes(middle)):
                low = middle + 1
            else:
                high = middle
        return low

    def _bytes(self, slot: int) -> bytes:
        size = self._layout.size
        start = slot * size
        page, at = divmod(start, DISK_BLOCK_BYTES)
        data = self._page(page)[at : at + size]
        return data if len(data) == size else data + self._page(page + 1)[: size - len(data)]

    def _page(self, number: int) -> bytes:
        if number not in self._pages:
            self._pages[number] = self._source.read(number * DISK_BLOCK_BYTES, DISK_BLOCK_BYTES)
        return self._pages[number]
