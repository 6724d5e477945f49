"""Columns that the kernels fill: one int64 buffer, column after column, that refers to one buffer of bytes.

A column is a contiguous memoryview; row `i` of all columns is a batch or a record. The objects are created once and
filled many times: their content is valid until the next call of the kernel that fills them.
"""

from __future__ import annotations

import mmap
import sys
from array import array
from contextlib import suppress
from typing import ClassVar, Final, Self

__all__ = [
    "BATCH_FIELDS",
    "BATCH_ROWS",
    "DAMAGE_FIELDS",
    "FORMAT_NAMES",
    "FORMAT_V07",
    "HEADER_FIELDS",
    "RECORD_FIELDS",
    "RECORD_ROWS",
    "BatchColumns",
    "DamageColumns",
    "HeaderColumns",
    "RecordColumns",
    "fresh_memory",
]

BATCH_FIELDS: Final = (
    "position",  # byte in the file where the batch starts
    "size_bytes",  # whole batch, envelope included
    "format",  # magic 0, 1, 2; FORMAT_V07
    "attributes",  # as stored; v07 magic 0: -1
    "codec",  # codec id, of the attributes
    "base_offset",  # legacy compressed: -1 (it follows from the inner messages); v07: byte address
    "last_offset",  # v07: byte address of the next message
    "record_count",  # as stored; legacy uncompressed: 1, compressed: -1
    "leader_epoch",
    "base_timestamp_ms",
    "max_timestamp_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "crc_stored",
    "crc_computed",  # -1: not computed
    "payload_start",  # span in the buffer: records (v2), message (legacy, v07), or the compressed part
    "payload_end",
)
RECORD_FIELDS: Final = (
    "batch",  # row of its batch in the batch columns
    "offset",
    "timestamp_ms",
    "key_start",
    "key_size",  # -1: null
    "value_start",
    "value_size",  # -1: null
    "first_header",  # row of its first header in the header columns
    "header_count",
    "next_offset",  # v07: the address that a consumer stores; else offset + 1
    "attributes",  # of the message (legacy, v07: -1 for magic 0) or the record (v2)
    "crc_stored",  # v07 and legacy: of the (inner) message; v2: 0
    "crc_ok",  # v07 and messages in wrappers: 1 or 0; else 1
)
HEADER_FIELDS: Final = (
    "key_start",
    "key_size",
    "value_start",
    "value_size",  # -1: null
)
DAMAGE_FIELDS: Final = (
    "position",  # byte in the file where the damage starts
    "size_bytes",  # 0: no bytes are damaged, but the offsets of the batch at this position decrease
    "row",  # number of rows of the batch columns before it
    "previous_offset",  # the last offset before it
    "first",  # stored checksum; of a batch whose offsets decrease its first offset
    "second",  # computed checksum; of a batch whose offsets decrease its last offset
)
BATCH_ROWS: Final = 4104  # not a multiple of 4 KiB: columns a power of two apart would share one cache set
RECORD_ROWS: Final = 2056
FORMAT_V07: Final = 7
FORMAT_NAMES: Final = {0: "v0", 1: "v1", 2: "v2", FORMAT_V07: "v07"}


def fresh_memory(size_bytes: int, *, is_filled: bool = False) -> mmap.mmap:
    """Return zeroed memory, of which the system gives a page when it is first used.

    A bytearray is cleared as a whole: 0.6 ms a MiB, because each page of it takes 2 microseconds. Raises OSError if
    the system has not so much.

    is_filled: most of it will be used, so the system is asked for large pages.
    """
    if sys.platform == "win32":
        return mmap.mmap(-1, size_bytes)
    memory = mmap.mmap(-1, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if is_filled and sys.platform == "linux":
        with suppress(OSError):  # a system without large pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


class _Columns:
    """`cells` holds all columns one after another, `capacity` rows each; `count` rows are filled."""

    __slots__ = ("capacity", "cells", "count", "view")
    fields: tuple[str, ...] = ()
    _numbers: ClassVar[dict[str, int]] = {}

    def __init_subclass__(cls) -> None:
        cls._numbers = {name: number for number, name in enumerate(cls.fields)}

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.count = 0
        self.cells: array[int] | memoryview = memoryview(bytearray(8 * capacity * len(self.fields))).cast("q")
        self.view = memoryview(self.cells)

    def column(self, name: str) -> memoryview:
        """Return one column, contiguous int64, `count` rows long."""
        start = self._numbers[name] * self.capacity
        return self.view[start : start + self.count]

    def cell(self, name: str, row: int) -> int:
        """Return one field of one row; three times as fast as its column."""
        return self.view[self._numbers[name] * self.capacity + row]

    def has_any(self, name: str) -> bool:
        """Return whether a column is not 0 in some row; 20 times as fast as a loop over the rows."""
        column = self.column(name)
        return column.tobytes() != bytes(column.nbytes)

    def holds_only(self, name: str, value: int) -> bool:
        """Return whether a column has this value in every row; 20 times as fast as a loop over the rows."""
        return self.column(name).tobytes() == array("q", [value]).tobytes() * self.count

    def copy(self) -> Self:
        """Return a copy of the filled rows, without room for more."""
        cells = array("q")
        for start in range(0, len(self.cells), self.capacity):
            cells.extend(self.cells[start : start + self.count])
        twin = type(self)(0)
        twin.cells, twin.view = cells, memoryview(cells)
        twin.capacity = twin.count = self.count
        return twin

    def part(self, first: int, last: int) -> Self:
        """Return rows `first` to `last` (exclusive), in the same memory."""
        twin = object.__new__(type(self))
        twin.capacity, twin.count = self.capacity, last - first
        twin.cells = twin.view = self.view[first:]
        return twin

    def reverse(self) -> None:
        """Reverse the order of the rows."""
        count = self.count
        for index in range(len(self.fields)):
            column = self.view[index * self.capacity : index * self.capacity + count]
            column[:] = array("q", column.tobytes())[::-1]

    def row(self, index: int) -> dict[str, int]:
        """Return the fields of one row by name."""
        return dict(zip(self.fields, self.view[index :: self.capacity], strict=True))


class BatchColumns(_Columns):
    """A run of batches, `BATCH_FIELDS`."""

    __slots__ = ()
    fields = BATCH_FIELDS

    def __init__(self, capacity: int = BATCH_ROWS) -> None:
        super().__init__(capacity)

    @classmethod
    def for_bytes(cls, size_bytes: int, least_bytes: int) -> Self:
        """Return columns for all entries of a log of `size_bytes`, of which each has at least `least_bytes`."""
        return cls(min(BATCH_ROWS, max(0, size_bytes) // least_bytes + 1))


class DamageColumns(_Columns):
    """Damage that a walk continued past, `DAMAGE_FIELDS`."""

    __slots__ = ()
    fields = DAMAGE_FIELDS

    def __init__(self, capacity: int = BATCH_ROWS) -> None:
        super().__init__(capacity)


class HeaderColumns(_Columns):
    """Headers of all records in the record columns, `HEADER_FIELDS`."""

    __slots__ = ()
    fields = HEADER_FIELDS


class RecordColumns(_Columns):
    """Records of a run of batches, `RECORD_FIELDS`, and their headers."""

    __slots__ = ("headers",)
    fields = RECORD_FIELDS

    def __init__(self, capacity: int = RECORD_ROWS) -> None:
        super().__init__(capacity)
        self.headers = HeaderColumns(capacity)

    def part(self, first: int, last: int) -> Self:
        """Return rows `first` to `last` (exclusive), in the same memory, with all headers."""
        twin = super().part(first, last)
        twin.headers = self.headers
        return twin

    def grow_headers(self, count: int) -> None:
        """Make room for `count` headers."""
        self.headers = HeaderColumns(count)
