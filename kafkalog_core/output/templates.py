"""Programs of the kernels `write_rows` and `gather_rows`, made from `output/tables.py`: lines and Arrow buffers.

Column names and their order come from the tables; which columns a format lacks (null) is defined here, for JSON and CSV
lines, for the row dicts of `ops/dump`, and for buffers as Arrow lays them out. Arrow's libraries are not imported: a
buffer is any writable object that `allocate` returns.
"""

from __future__ import annotations

import json
from array import array
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Literal

from kafkalog_core.format.columns import BATCH_FIELDS, FORMAT_NAMES, FORMAT_V07, RECORD_FIELDS
from kafkalog_core.format.decode import codec_name
from kafkalog_core.format.layout import (
    CODEC_MASK,
    CONTROL_BIT,
    CONTROL_TYPE_NAMES,
    DELETE_HORIZON_BIT,
    MAGIC_V0,
    MAGIC_V1,
    MAGIC_V2,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from kafkalog_core.kernels import programs
from kafkalog_core.output import tables
from kafkalog_core.text import csv_field, json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalog_core.output.tables import Column, Kind

    Allocate = Callable[[int], Any]

__all__ = [
    "FORMATS",
    "PLACE",
    "TEXT_COLUMNS",
    "Cells",
    "CsvTemplate",
    "GatherPlan",
    "Headers",
    "Room",
    "Template",
    "Texts",
    "batch_template",
    "fits_header",
    "record_template",
]


PLACE: Final = ("topic", "partition", "segment")  # the first columns of both tables; a path may follow them
_PLACE_PIECE: Final = -1
FORMATS: Final = (MAGIC_V0, MAGIC_V1, MAGIC_V2, FORMAT_V07)
MODES: Final = {"auto": 0, "base64": 1, "hex": 2}
_V2: Final = (MAGIC_V2,)
_V1_V2: Final = (MAGIC_V1, MAGIC_V2)
_V07: Final = (FORMAT_V07,)
_MARKS: Final = {
    "offset": "head",
    "format": "tail",
}  # of a record; except in 0.7, all columns from the format on are of the batch
_NAMING: Final = frozenset({"record_name", "batch_name", "batch_bit"})
_Operation = tuple[str, int, int]

_SUFFIX: Final = ("", "", "_b64", "_hex")  # for null in auto mode, text, base64, hex


_BOOLEAN: Final = (False, True)
_CODECS: Final = tuple(codec_name(codec) for codec in range(CODEC_MASK + 1))
_CONTROL_TYPES: Final = (*CONTROL_TYPE_NAMES, "unknown")


def _record(name: str) -> int:
    return RECORD_FIELDS.index(name)


def _batch(name: str) -> int:
    return BATCH_FIELDS.index(name)


# For each column: the formats that have it, the operation of the kernel, its operands (texts become pieces).
_Rule = tuple[tuple[int, ...], str, int, int | tuple[object, ...]]
_SHARED_OPERATIONS: Final[dict[str, _Rule]] = {
    "position": (FORMATS, "batch_int", _batch("position"), 0),
    "codec": (FORMATS, "batch_name", _batch("codec"), _CODECS),
    "timestamp_type": (_V1_V2, "batch_bit", TIMESTAMP_TYPE_BIT, ("create", "append")),
    "leader_epoch": (_V2, "batch_int", _batch("leader_epoch"), 0),
    "producer_id": (_V2, "batch_int", _batch("producer_id"), 0),
    "producer_epoch": (_V2, "batch_int", _batch("producer_epoch"), 0),
    "is_transactional": (_V2, "batch_bit", TRANSACTIONAL_BIT, _BOOLEAN),
}
_RECORD_OPERATIONS: Final[dict[str, _Rule]] = {
    "offset": (FORMATS, "record_int", _record("offset"), 0),
    "timestamp_ms": (_V1_V2, "record_int", _record("timestamp_ms"), 0),
    "headers": (_V2, "headers", 0, 0),
    "sequence": (_V2, "sequence", 0, 0),
    "control_type": (_V2, "control", 0, _CONTROL_TYPES),
    "next_offset": (_V07, "record_int", _record("next_offset"), 0),
    "magic": (_V07, "v07_magic", 0, 0),
    "attributes": (_V07, "record_int_or_null", _record("attributes"), 0),
    "crc_stored": (_V07, "record_int", _record("crc_stored"), 0),
    "crc_ok": (_V07, "record_name", _record("crc_ok"), _BOOLEAN),
}
_BATCH_OPERATIONS: Final[dict[str, _Rule]] = {
    "size_bytes": (FORMATS, "batch_int", _batch("size_bytes"), 0),
    "base_offset": (FORMATS, "batch_int_unless_v2", _batch("base_offset"), 0),
    "last_offset": (FORMATS, "batch_int", _batch("last_offset"), 0),
    "record_count": (FORMATS, "batch_int_unless_v2", _batch("record_count"), 0),
    "base_timestamp_ms": (_V2, "batch_int", _batch("base_timestamp_ms"), 0),
    "max_timestamp_ms": (_V1_V2, "batch_int", _batch("max_timestamp_ms"), 0),
    "base_sequence": (_V2, "batch_int", _batch("base_sequence"), 0),
    "is_control": (_V2, "batch_bit", CONTROL_BIT, _BOOLEAN),
    "delete_horizon_ms": (_V2, "batch_int_if", _batch("base_timestamp_ms"), DELETE_HORIZON_BIT),
    "crc_stored": (FORMATS, "batch_int", _batch("crc_stored"), 0),
    "crc_computed": (FORMATS, "batch_int_or_null", _batch("crc_computed"), 0),
    "crc_ok": (FORMATS, "batch_crc_ok", 0, _BOOLEAN),
}


class _Pieces:
    """The literal pieces of programs, and the operations of columns."""

    null = programs.FIRST_PIECES[programs.PIECE_NULL]

    def __init__(self, bytes_mode: str) -> None:
        self.mode = MODES[bytes_mode]
        self.pieces: list[bytes] = [self.null, *programs.FIRST_PIECES[1:]]

    def literal(self, value: object) -> str:
        """Return a name or a constant as it is written in a line."""
        return json.dumps(value)

    def piece(self, *pieces: str) -> int:
        """Add pieces. Return the index of the first one; the others follow."""
        self.pieces += [piece.encode("utf-8", "backslashreplace") for piece in pieces]
        return len(self.pieces) - len(pieces)

    def _bytes_pieces(self, name: str) -> int:
        """Add the pieces of a bytes member for null, text, base64, hex. `name`: start of its name, with the quote."""
        null = f'{name}{_SUFFIX[self.mode + 1]}":null'
        return self.piece(null, *(f'{name}{suffix}":"' for suffix in _SUFFIX[1:]))

    def operation(self, name: str, batch_format: int, *, is_record: bool) -> _Operation | None:
        """Return the operation that writes a column for a format; `None`: the format lacks the column."""
        special = (_RECORD_OPERATIONS if is_record else _BATCH_OPERATIONS).get(name)
        formats, kind, a, b = special or _SHARED_OPERATIONS[name]
        if batch_format not in formats:
            return None
        if kind == "headers":
            return kind, a, self._header_pieces()
        if kind == "batch_int_unless_v2":  # -1 means "unknown" in old formats only
            kind = "batch_int" if batch_format == MAGIC_V2 else "batch_int_or_null"
        if name == "last_offset" and batch_format == FORMAT_V07 and not is_record:
            a = BATCH_FIELDS.index("base_offset")  # a fetch finds every record of the message at its address
        return kind, a, self.piece(*(self.literal(text) for text in b)) if isinstance(b, tuple) else b

    def _header_pieces(self) -> int:
        suffix = _SUFFIX[max(self.mode, 1) + 1]
        first = self.piece('{"key":"', f'{{"key{suffix}":"')
        self._bytes_pieces(',"value')
        self.piece("}")
        return first


class _Program(_Pieces):
    """The shared part of templates: programs, and all pieces but the one with topic, partition and segment."""

    def __init__(self, table_of: Mapping[int, tables.Table], constants: Mapping[str, object], bytes_mode: str) -> None:
        super().__init__(bytes_mode)
        self.columns: dict[int, list[tuple[str, str, int, object]]] = {}
        operations: list[int] = []
        self.entries = array("q", [0] * (FORMAT_V07 + 1))
        longest = 0
        for batch_format, table in table_of.items():
            self.entries[batch_format] = len(operations) // programs.OPERATION_SIZE
            program = self._program(table, batch_format, constants)
            operations += program
            longest = max(longest, len(program))
        place = len(self.pieces)  # the last piece, made by each template
        self.operations = array("q", [place if value == _PLACE_PIECE else value for value in operations])
        self.bound = _bound_of(self.pieces, longest)
        self.text = b"".join(self.pieces)
        self.starts = [0, *accumulate(map(len, self.pieces))]

    def _program(self, table: tables.Table, batch_format: int, constants: Mapping[str, object]) -> list[int]:
        """Return one operation for each column that varies between lines, each with the literal text before it."""
        program: list[int] = []
        literal = ""
        is_record = "key" in table.names
        columns = self.columns[batch_format] = []
        for name in table.names[1 + len(PLACE) :]:
            if is_record and name in _MARKS and (name, batch_format) != ("format", FORMAT_V07):
                program += [programs.OPERATIONS.index(_MARKS[name]), 0, 0, self.piece(literal)]
                literal = ""
            if name in constants or name == "format":
                value = FORMAT_NAMES[batch_format] if name == "format" else constants[name]
                columns.append((name, "constant", 0, value))
                literal += f",{json.dumps(name)}:{json.dumps(value)}"
            elif name in {"key", "value"}:
                columns.append((name, "text", _record(f"{name}_start"), None))
                lead = self.piece(literal)
                pieces = self._bytes_pieces(f',"{name}')
                program += [programs.OPERATIONS.index("text"), _record(f"{name}_start"), pieces, lead]
                literal = ""
            else:
                operation = self.operation(name, batch_format, is_record=is_record)
                literal += f",{json.dumps(name)}:"
                if operation is None:
                    columns.append((name, "constant", 0, None))
                    literal += "null"
                    continue
                kind, a, b = operation
                columns.append((name, kind, a, self._names(b) if kind in _NAMING else b))
                lead = self.piece(literal) if program else _PLACE_PIECE
                program += [programs.OPERATIONS.index(kind), a, b, lead]
                literal = ""
        program += [programs.OPERATIONS.index("end"), 0, 0, self.piece(literal + "}\n")]
        return program

    def _names(self, first: int) -> tuple[str, ...]:
        """Return the pieces from `first` on, for code that reads columns without the kernel."""
        return tuple(piece.decode() for piece in self.pieces[first:])


def _bound_of(pieces: Sequence[bytes], operations: int) -> int:
    """Return an upper bound of a line without its bytes members: each operation writes a piece and a value or name."""
    return 2 * sum(map(len, pieces)) + operations * 64 + programs.SLACK


class Template:
    """The input of `kernels.write_rows`: programs, pieces, and an upper bound of a line without its bytes members.

    `columns` has the same for code that reads columns without the kernel: for each format the columns after the place
    (topic, partition, segment) as (name, operation, a, b).
    """

    def __init__(self, program: _Program, table: tables.Table, place: dict[str, object]) -> None:
        head: dict[str, object] = {"type": table.name, **place}
        literal = json_text(head)[:-1] + f',"{table.names[1 + len(PLACE)]}":'
        piece = literal.encode("utf-8", "backslashreplace")
        self.mode = self.text_mode = program.mode
        self.columns = program.columns
        self.entries = program.entries
        self.operations = program.operations
        self.text = program.text + piece + bytes(programs.SLACK)
        self.starts = array("q", [*program.starts, program.starts[-1] + len(piece)])
        self.bound = program.bound + len(piece)


def record_template(place: dict[str, object], bytes_mode: str, *, resynced: bool) -> Template:
    """Return the template of record lines of one file. `place`: topic, partition, segment, perhaps path."""
    return Template(_record_program(bytes_mode, resynced), tables.RECORD, place)


def batch_template(place: dict[str, object], *, resynced: bool) -> Template:
    """Return the template of batch lines of one file. `place`: topic, partition, segment, perhaps path."""
    return Template(_batch_program(resynced), tables.BATCH, place)


@cache
def _record_program(bytes_mode: str, resynced: bool) -> _Program:
    table_of = {kind: tables.RECORD_V07 if kind == FORMAT_V07 else tables.RECORD for kind in FORMATS}
    return _Program(table_of, {"resynced": resynced}, bytes_mode)


@cache
def _batch_program(resynced: bool) -> _Program:
    return _Program(dict.fromkeys(FORMATS, tables.BATCH), {"resynced": resynced}, "auto")


_BYTES = ("key", "value")


def fits_header(header: Sequence[str]) -> bool:
    """Return whether the text and base64 columns of bytes are adjacent, as the kernel writes them."""
    places = {name: index for index, name in enumerate(header)}
    return all(places[f"{name}_b64"] == places[name] + 1 for name in _BYTES if {name, f"{name}_b64"} <= places.keys())


class CsvTemplate(_Pieces):
    """A `Template` of CSV lines. `place`: the first columns of rows of one file."""

    null = b""

    def __init__(
        self, header: Sequence[str], place: Mapping[str, object], bytes_mode: str, *, is_record: bool, resynced: bool
    ) -> None:
        super().__init__(bytes_mode)
        self.text_mode = (
            programs.MODE_BASE64 if self.mode == programs.MODE_TEXT else self.mode
        )  # twice the bytes suffice
        self._constants = {**place, "resynced": resynced}
        self._is_record = is_record
        operations: list[int] = []
        self.entries = array("q", [0] * (FORMAT_V07 + 1))
        longest = 0
        for batch_format in FORMATS:
            self.entries[batch_format] = len(operations) // programs.OPERATION_SIZE
            program = self._program(header, batch_format)
            operations += program
            longest = max(longest, len(program))
        self.operations = array("q", operations)
        self.text = b"".join(self.pieces) + bytes(programs.SLACK)
        self.starts = array("q", [0, *accumulate(map(len, self.pieces))])
        self.bound = _bound_of(self.pieces, longest)

    def literal(self, value: object) -> str:
        """Return a value as a field of CSV."""
        return csv_field(value)

    def _program(self, header: Sequence[str], batch_format: int) -> list[int]:
        """Return one operation for each column that varies between lines, each with the literal text before it."""
        table = tables.BATCH if not self._is_record else tables.RECORD
        if self._is_record and batch_format == FORMAT_V07:
            table = tables.RECORD_V07
        program: list[int] = []
        columns = set(table.names)
        literal, separator = "", ""
        for name in header:
            literal += separator
            separator = ","
            member = next((one for one in _BYTES if name in {one, f"{one}_b64", f"{one}_hex"}), None)
            if self._is_record and member is not None:
                if name == f"{member}_b64" and self.mode == programs.MODE_TEXT:  # written with the column before it
                    literal = literal.removesuffix(",")
                    continue
                start = RECORD_FIELDS.index(f"{member}_start")
                program += [programs.OPERATIONS.index("csv_text"), start, 0, self.piece(literal)]
                literal = ""
            elif name in columns or name in self._constants:
                constant = self._constant(name, table, batch_format)
                operation = (
                    None if constant is not None else self.operation(name, batch_format, is_record=self._is_record)
                )
                if operation is None:
                    literal += constant or ""
                    continue
                kind, a, b = operation
                kind = "csv_headers" if kind == "headers" else kind
                program += [programs.OPERATIONS.index(kind), a, b, self.piece(literal)]
                literal = ""
        return [*program, programs.OP_END, 0, 0, self.piece(literal + "\r\n")]

    def _constant(self, name: str, table: tables.Table, batch_format: int) -> str | None:
        """Return the value of a column that is the same in all rows of a format, else `None`."""
        if name == "type":
            return csv_field(table.name)
        if name == "format":
            return FORMAT_NAMES[batch_format]
        return csv_field(self._constants[name]) if name in self._constants else None


# --- buffers of Arrow -------------------------------------------------------------------------------------------------
TEXT_COLUMNS: Final = {"key": programs.WANTS_KEY, "value": programs.WANTS_VALUE, "headers": programs.WANTS_HEADERS}
"""Columns that have their own buffers, and the kernel's bits for them."""
ALIGNMENT: Final = 64  # of each column in its buffer, as Arrow advises
_WIDTHS: Final[dict[Kind, int]] = {"string": 1, "bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint32": 8}


class GatherPlan(_Pieces):
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
            self.entries[batch_format] = len(operations) // programs.GATHER_SIZE
            for slot, column in enumerate(self.columns):
                self._slot = slot
                operations += self._program(column, batch_format, is_record=is_record)
        self.operations = array("q", operations or [0])

    def literal(self, value: object) -> str:
        """Return a name or a constant as text."""
        return str(value)

    def piece(self, *pieces: str) -> int:
        """Return the number of the first of these names, which get consecutive programs."""
        names = self.names[self._slot]
        for first in range(len(names)):
            if names[first : first + len(pieces)] == [*pieces]:
                return first
        names += pieces
        return len(names) - len(pieces)

    def _program(self, column: Column, batch_format: int, *, is_record: bool) -> tuple[int, int, int]:
        if column.name == "format":
            return programs.G_CONSTANT, 0, self.piece(FORMAT_NAMES[batch_format])
        operation = self.operation(column.name, batch_format, is_record=is_record)
        if operation is None:
            return programs.G_NULL, 0, 0
        kind, a, b = operation
        if column.kind == "bool" and kind in _NAMING | {"batch_crc_ok"}:
            b = 0
        return programs.GATHERS.index(kind), a, b

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
        self.slots = array("q", [0] * max(1, plan.slots * programs.SLOT_SIZE))
        at = 0
        for slot, width in enumerate(self._widths):
            first = slot * programs.SLOT_SIZE
            self.slots[first + programs.SLOT_WIDTH] = width
            self.slots[first + programs.SLOT_START] = at // width
            at += _aligned(rows * width)
        self._bits_start = at
        for slot in range(plan.slots):
            self.slots[slot * programs.SLOT_SIZE + programs.SLOT_VALID] = at
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
            first = slot * programs.SLOT_SIZE + programs.SLOT_NULLS
            self.slots[first : first + 3] = array("q", [0, 0, 0])

    def nulls(self, slot: int) -> int:
        """Return the number of null rows of a slot."""
        return self.slots[slot * programs.SLOT_SIZE + programs.SLOT_NULLS]

    def uniform(self, slot: int) -> int | None:
        """Return the value of all rows of a slot (0 for null), or `None` if they differ."""
        first = slot * programs.SLOT_SIZE
        return None if self.slots[first + programs.SLOT_MIXED] else self.slots[first + programs.SLOT_FIRST]

    def spans(self, slot: int, rows: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return (byte, size) of the values, and of the validity bits, of the first `rows` rows of a slot."""
        first, width = slot * programs.SLOT_SIZE, self._widths[slot]
        start, valid = self.slots[first + programs.SLOT_START] * width, self.slots[first + programs.SLOT_VALID]
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
        _set_bits(self.bits)


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
        self.summary = array("q", [0] * programs.SUMMARY_SIZE)
        self.clear()

    def clear(self) -> None:
        """Remove all rows."""
        self.summary[:] = array("q", [0] * programs.SUMMARY_SIZE)
        for room in (self.starts, self.key_starts, self.value_starts):
            room.cells[0] = 0
        _set_bits(self.bits)
        _set_bits(self.value_bits)

    def reserve(self, before: Sequence[int], after: Sequence[int]) -> None:
        """Make room: `before` and `after` are the `DONE_*` cells before and after the next rows."""
        held, wanted = before[programs.DONE_HEADERS], after[programs.DONE_HEADERS]
        self.key_starts.reserve(4 * (wanted + 1), 4 * (held + 1))
        self.value_starts.reserve(4 * (wanted + 1), 4 * (held + 1))
        size = len(self.value_bits.view)
        self.value_bits.reserve(-(-wanted // 8), size)
        _set_bits(self.value_bits, size)
        self.keys.reserve(after[programs.DONE_HEADER_KEYS], before[programs.DONE_HEADER_KEYS])
        self.values.reserve(after[programs.DONE_HEADER_VALUES], before[programs.DONE_HEADER_VALUES])


def _set_bits(room: Room, first: int = 0) -> None:
    """Set all bits from a byte on: no row is null."""
    room.view[first:] = b"\xff" * (len(room.view) - first)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
