"""Columns that the kernels fill: one int64 buffer, column after column, that refers to one buffer of bytes.

A column is a contiguous memoryview; row `i` of all columns together is a batch or a record. The objects are made
once and filled many times: what they hold is valid until the next call of the kernel that fills them.
"""

from __future__ import annotations

from array import array
from typing import Final, Self

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
]

BATCH_FIELDS: Final = (
    "position",  # byte in the file where the batch starts
    "size_bytes",  # whole batch, envelope included
    "format",  # magic 0, 1, 2; FORMAT_V07
    "attributes",  # as stored; v07 magic 0: -1
    "codec",  # codec id, of the attributes
    "base_offset",  # legacy compressed: -1 (only the inner messages know); v07: byte address
    "last_offset",  # v07: byte address of what follows
    "record_count",  # as stored; legacy uncompressed: 1, compressed: -1
    "leader_epoch",
    "base_timestamp_ms",
    "max_timestamp_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "crc_stored",
    "crc_computed",  # -1 where it was not asked for
    "payload_start",  # span of the records (v2), the message (legacy, v07) or what is compressed, in the buffer
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
    "next_offset",  # v07 alone: the address a consumer stores; else offset + 1
    "attributes",  # of the message (legacy, v07: -1 for magic 0) or the record (v2)
    "crc_stored",  # v07 and legacy: of the (inner) message; v2: 0
    "crc_ok",  # v07 and messages inside of wrappers: 1 or 0; else 1
)
HEADER_FIELDS: Final = (
    "key_start",
    "key_size",
    "value_start",
    "value_size",  # -1: null
)
DAMAGE_FIELDS: Final = (
    "position",  # byte in the file where it starts
    "size_bytes",  # 0: not bytes, but a word about the whole batch there, whose offsets go back
    "row",  # how many rows of the batch columns stand before it
    "previous_offset",  # the last offset before it
    "first",  # checksum as stored; of a whole batch its first offset
    "second",  # checksum as computed; of a whole batch its last offset
)
BATCH_ROWS: Final = 4104  # no multiple of 4 KiB: columns a power of two apart would share one cache set
RECORD_ROWS: Final = 2056
FORMAT_V07: Final = 7
FORMAT_NAMES: Final = {0: "v0", 1: "v1", 2: "v2", FORMAT_V07: "v07"}


class _Columns:
    """`cells` holds all columns one after another, `capacity` rows each; `count` rows are filled."""

    __slots__ = ("capacity", "cells", "count", "view")
    fields: tuple[str, ...] = ()

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.count = 0
        self.cells: array[int] | memoryview = array("q", bytes(8 * capacity * len(self.fields)))
        self.view = memoryview(self.cells)

    def column(self, name: str) -> memoryview:
        """One column, contiguous int64, `count` rows long."""
        start = self.fields.index(name) * self.capacity
        return self.view[start : start + self.count]

    def has_any(self, name: str) -> bool:
        """Whether a column is not 0 in some row. To ask its rows one by one takes 20 times as long."""
        column = self.column(name)
        return column.tobytes() != bytes(column.nbytes)

    def holds_only(self, name: str, value: int) -> bool:
        """Whether a column has this value in every row. To ask its rows one by one takes 20 times as long."""
        return self.column(name).tobytes() == array("q", [value]).tobytes() * self.count

    def copy(self) -> Self:
        """The same rows in cells of their own, without room for more."""
        cells = array("q")
        for start in range(0, len(self.cells), self.capacity):
            cells.extend(self.cells[start : start + self.count])
        twin = type(self)(0)
        twin.cells, twin.view = cells, memoryview(cells)
        twin.capacity = twin.count = self.count
        return twin

    def reverse(self) -> None:
        """Turn the order of the rows round."""
        count = self.count
        for index in range(len(self.fields)):
            column = self.view[index * self.capacity : index * self.capacity + count]
            column[:] = array("q", column.tobytes())[::-1]

    def row(self, index: int) -> dict[str, int]:
        """All columns of one row by name."""
        return dict(zip(self.fields, self.view[index :: self.capacity], strict=True))


class BatchColumns(_Columns):
    """A run of batches, `BATCH_FIELDS`."""

    __slots__ = ()
    fields = BATCH_FIELDS

    def __init__(self, capacity: int = BATCH_ROWS) -> None:
        super().__init__(capacity)

    def part(self, first: int, last: int) -> Self:
        """Rows `first` to `last` (exclusive), in the same cells."""
        twin = object.__new__(type(self))
        twin.capacity, twin.count = self.capacity, last - first
        twin.cells = twin.view = self.view[first:]
        return twin


class DamageColumns(_Columns):
    """What a walk has passed over, `DAMAGE_FIELDS`."""

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

    def grow_headers(self, count: int) -> None:
        """Make room for `count` headers."""
        self.headers = HeaderColumns(count)
