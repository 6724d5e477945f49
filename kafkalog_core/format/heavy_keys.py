"""The biggest keys of what a cleaner reads, in memory that does not grow with their number."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.format import kernels
from kafkalog_core.format.kernels import clean_numbers as n

if TYPE_CHECKING:
    from kafkalog_core.format.columns import RecordColumns

__all__ = ["HeavyKey", "HeavyKeys"]


class HeavyKey(NamedTuple):
    """A key: its first 64 bytes, its records and bytes (keys and values) at least, and its bytes at most."""

    key: bytes
    records: int
    bytes: int
    most_bytes: int


class HeavyKeys:
    """Weighs keys in two thousand counters: any with a thousandth of all bytes is surely among them."""

    def __init__(self) -> None:
        counters = n.Y_SETS * n.Y_WAYS
        self._counters = array("q", bytes(8 * n.Y_SIZE * counters))
        self._names = bytearray(n.Y_NAME * counters)

    def weigh(
        self, memory: bytes | memoryview, records: RecordColumns, reasons: bytes | bytearray, digests: array[int]
    ) -> None:
        """Take the records of a piece that the filter has judged."""
        kernels.weigh_keys(memory, records, reasons, digests, self._counters, self._names)

    def biggest(self, count: int) -> list[HeavyKey]:
        """The keys with most bytes, at most so many; none of which more bytes are doubtful than known."""
        cells, found = self._counters, []
        for number in range(len(cells) // n.Y_SIZE):
            at = number * n.Y_SIZE
            known, before = cells[at + n.Y_BYTES], cells[at + n.Y_BEFORE]
            if not cells[at + n.Y_RECORDS] or before > known:
                continue
            start = number * n.Y_NAME
            key = bytes(self._names[start : start + min(cells[at + n.Y_KEY_SIZE], n.Y_NAME)])
            found.append(HeavyKey(key, cells[at + n.Y_RECORDS], known, known + before))
        return sorted(found, key=lambda each: (-each.bytes, each.key))[:count]
