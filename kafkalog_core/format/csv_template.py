"""What a CSV line of a record or a batch looks like: programs for the kernel in `ndjson`, made from `tables.py`.

The columns are those of the header, which may be of several row types; what a row's own type lacks stays empty.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING

from kafkalog_core import tables
from kafkalog_core.format.columns import FORMAT_NAMES, FORMAT_V07, RECORD_FIELDS
from kafkalog_core.format.csv_form import csv_field
from kafkalog_core.format.kernels import programs
from kafkalog_core.format.template import FORMATS, Pieces, bound_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["CsvTemplate", "fits_header"]

_BYTES = ("key", "value")


def fits_header(header: Sequence[str]) -> bool:
    """Whether text and base64 of bytes stand side by side, as the kernel writes them."""
    places = {name: index for index, name in enumerate(header)}
    return all(places[f"{name}_b64"] == places[name] + 1 for name in _BYTES if {name, f"{name}_b64"} <= places.keys())


class CsvTemplate(Pieces):
    """See `Template`, which it stands in for. `place` are the first columns of rows of one file."""

    null = b""

    def __init__(
        self, header: Sequence[str], place: Mapping[str, object], bytes_mode: str, *, is_record: bool, resynced: bool
    ) -> None:
        super().__init__(bytes_mode)
        self.text_mode = programs.MODE_BASE64 if self.mode == programs.MODE_TEXT else self.mode  # twice the bytes do
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
        self.bound = bound_of(self.pieces, longest)

    def spelled(self, value: object) -> str:
        """See Pieces."""
        return csv_field(value)

    def _program(self, header: Sequence[str], batch_format: int) -> list[int]:
        """One operation a column that is not the same for all lines, each with the literal text before it."""
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
                if name == f"{member}_b64" and self.mode == programs.MODE_TEXT:  # written with the one before it
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
        """A column that is the same in all rows of a format; null: it is not."""
        if name == "type":
            return csv_field(table.name)
        if name == "format":
            return FORMAT_NAMES[batch_format]
        return csv_field(self._constants[name]) if name in self._constants else None
