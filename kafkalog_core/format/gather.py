"""Rows of records and batches in buffers as Arrow lays them out: which columns, and the room for them.

Arrow's libraries are not imported: a buffer is any writable object that `allocate` returns. The source of each column
for each format is that of the JSON lines (`templates.py`), so that all outputs agree.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final, Literal

from kafkalog_core.format.columns import FORMAT_NAMES, FORMAT_V07
from kafkalog_core.format.kernels import programs as numbers
from kafkalog_core.format.templates import FORMATS, NAMING, Pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_core.rows.tables import Column, Kind

    Allocate = Callable[[int], Any]

__all__ = ["TEXT_COLUMNS", "Cells", "GatherPlan", "Headers", "Room", "Texts"]

TEXT_COLUMNS: Final = {"key": numbers.WANTS_KEY, "value": numbers.WANTS_VALUE, "headers": numbers.WANTS_HEADERS}
"""Columns that have their own buffers, and the kernel's bits for them."""
ALIGNMENT: Final = 64  # of each column in its buffer, as Arrow advises
_WIDTHS: Final[dict[Kind, int]] = {"string": 1, "bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint32": 8}


class GatherPlan(Pieces):
    """The value of each slot (column), for each format: a program for the kernel `gather_rows`.

    `names[slot]` are the strings that the numbers of a string slot represent; a bool slot has 0 and 1.
    """

    def __init__(self, columns: Sequence[Column], *, is_record: bool) -> None:
        super().__init__("auto")
        self.columns = tuple(column for column in columns if column.name not in TEXT_COLUMNS)
        self.wanted = sum(TEXT_COLUMNS.get(column.name, 0) for column in columns)
        self.slots = len(self.columns)
        self.names: list[list[str]] = [[] for _ in self.columns]
        self.entries = array("q", [0] * (FORMAT_V07 + 1))
        operations: list[int] = []
        for batch_format in FORMATS:
            self.entries[batch_format] = len(operations) // numbers.GATHER_SIZE
            for slot, column in enumerate(self.columns):
                self._slot = slot
                operations += self._program(column, batch_format, is_record=is_record)
        self.operations = array("q", operations or [0])

    def literal(self, value: object) -> str:
        """Return a name or a constant as text."""
        return str(value)

    def piece(self, *pieces: str) -> int:
        """Return the number of the first of these names, which get consecutive numbers."""
        names = self.names[self._slot]
        for first in range(len(names)):
            if names[first : first + len(pieces)] == [*pieces]:
                return first
        names += pieces
        return len(names) - len(pieces)

    def _program(self, column: Column, batch_format: int, *, is_record: bool) -> tuple[int, int, int]:
        if column.name == "format":
            return numbers.G_CONSTANT, 0, self.piece(FORMAT_NAMES[batch_format])
        operation = self.operation(column.name, batch_format, is_record=is_record)
        if operation is None:
            return numbers.G_NULL, 0, 0
        kind, a, b = operation
        if column.kind == "bool" and kind in NAMING | {"batch_crc_ok"}:
            b = 0
        return numbers.GATHERS.index(kind), a, b

    def width(self, slot: int) -> int:
        """Return the bytes of a value of a slot."""
        return _WIDTHS[self.columns[slot].kind]


class Room:
    """A writable buffer; `cells` are its bytes as integers of one width."""

    __slots__ = ("_allocate", "_code", "cells", "owner", "view")
    view: memoryview

    def __init__(self, size: int, allocate: Allocate, code: Literal["B", "i"] = "B") -> None:
        self._allocate = allocate
        self._code = code
        self.renew(size)

    def renew(self, size: int | None = None) -> None:
        """Allocate another buffer, by default of the same size; the old one belongs to its users."""
        size = len(self.view) if size is None else _aligned(max(1, size))
        self.owner = self._allocate(size)
        self.view = memoryview(self.owner).cast("B")
        self.cells = self.view.cast(self._code)

    def reserve(self, size: int, used: int) -> None:
        """Make room for `size` bytes; the first `used` bytes are kept."""
        if size <= len(self.view):
            return
        before = self.view
        self.renew(max(size, 2 * len(before)))
        self.view[:used] = before[:used]


class Cells:
    """The slots of a plan and their validity bits, all in one buffer."""

    def __init__(self, plan: GatherPlan, rows: int, allocate: Allocate) -> None:
        self._widths = [plan.width(slot) for slot in range(plan.slots)]
        self.rows = rows
        self.slots = array("q", [0] * max(1, plan.slots * numbers.SLOT_SIZE))
        at = 0
        for slot, width in enumerate(self._widths):
            first = slot * numbers.SLOT_SIZE
            self.slots[first + numbers.SLOT_WIDTH] = width
            self.slots[first + numbers.SLOT_START] = at // width
            at += _aligned(rows * width)
        self._bits_start = at
        for slot in range(plan.slots):
            self.slots[slot * numbers.SLOT_SIZE + numbers.SLOT_VALID] = at
            at += _aligned(-(-rows // 8))
        self.room = Room(at, allocate)
        self.clear()

    def clear(self, *, renewed: bool = False) -> None:
        """Remove all rows; `renewed`: allocate a new buffer."""
        if renewed:
            self.room.renew()
        view = self.by_1 = self.room.view
        self.by_2, self.by_4, self.by_8 = view.cast("h"), view.cast("i"), view.cast("q")
        view[self._bits_start :] = b"\xff" * (len(view) - self._bits_start)
        for slot in range(len(self._widths)):
            first = slot * numbers.SLOT_SIZE + numbers.SLOT_NULLS
            self.slots[first : first + 3] = array("q", [0, 0, 0])

    def nulls(self, slot: int) -> int:
        """Return the number of null rows of a slot."""
        return self.slots[slot * numbers.SLOT_SIZE + numbers.SLOT_NULLS]

    def uniform(self, slot: int) -> int | None:
        """Return the value of all rows of a slot (0 for null), or `None` if they differ."""
        first = slot * numbers.SLOT_SIZE
        return None if self.slots[first + numbers.SLOT_MIXED] else self.slots[first + numbers.SLOT_FIRST]

    def spans(self, slot: int, rows: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return (byte, size) of the values, and of the validity bits, of the first `rows` rows of a slot."""
        first, width = slot * numbers.SLOT_SIZE, self._widths[slot]
        start, valid = self.slots[first + numbers.SLOT_START] * width, self.slots[first + numbers.SLOT_VALID]
        return (start, rows * width), (valid, -(-rows // 8))


class Texts:
    """The bytes of a column, the start of each row's bytes, and the validity bits."""

    def __init__(self, rows: int, size: int, allocate: Allocate) -> None:
        self.starts = Room(4 * (rows + 1), allocate, "i")
        self.bits = Room(-(-rows // 8), allocate)
        self.texts = Room(size, allocate)
        self.nulls = 0
        self.clear()

    def clear(self) -> None:
        """Remove all rows."""
        self.nulls = 0
        self.starts.cells[0] = 0
        set_bits(self.bits)


class Headers:
    """The headers of records: the start of each record's headers, and the same of their keys and values."""

    def __init__(self, rows: int, headers: int, size: int, allocate: Allocate) -> None:
        self.starts = Room(4 * (rows + 1), allocate, "i")
        self.bits = Room(-(-rows // 8), allocate)
        self.key_starts = Room(4 * (headers + 1), allocate, "i")
        self.value_starts = Room(4 * (headers + 1), allocate, "i")
        self.value_bits = Room(-(-headers // 8), allocate)
        self.keys = Room(size, allocate)
        self.values = Room(size, allocate)
        self.summary = array("q", [0] * numbers.SUMMARY_SIZE)
        self.clear()

    def clear(self) -> None:
        """Remove all rows."""
        self.summary[:] = array("q", [0] * numbers.SUMMARY_SIZE)
        for room in (self.starts, self.key_starts, self.value_starts):
            room.cells[0] = 0
        set_bits(self.bits)
        set_bits(self.value_bits)

    def reserve(self, before: Sequence[int], after: Sequence[int]) -> None:
        """Make room: `before` and `after` are the `DONE_*` cells before and after the next rows."""
        held, wanted = before[numbers.DONE_HEADERS], after[numbers.DONE_HEADERS]
        self.key_starts.reserve(4 * (wanted + 1), 4 * (held + 1))
        self.value_starts.reserve(4 * (wanted + 1), 4 * (held + 1))
        size = len(self.value_bits.view)
        self.value_bits.reserve(-(-wanted // 8), size)
        set_bits(self.value_bits, size)
        self.keys.reserve(after[numbers.DONE_HEADER_KEYS], before[numbers.DONE_HEADER_KEYS])
        self.values.reserve(after[numbers.DONE_HEADER_VALUES], before[numbers.DONE_HEADER_VALUES])


def set_bits(room: Room, first: int = 0) -> None:
    """Set all bits from a byte on: no row is null."""
    room.view[first:] = b"\xff" * (len(room.view) - first)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
