"""Chunks of record and batch rows, kept as columns: kernels write their JSON and CSV lines, without Python objects.

A chunk is valid until the next one is asked for.
"""

from __future__ import annotations

import base64
import codecs
import json
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

from kafkalog_core import kernels
from kafkalog_core.format.columns import BATCH_FIELDS, FORMAT_V07, RECORD_FIELDS, fresh_memory
from kafkalog_core.format.control import control_type_name
from kafkalog_core.format.decode import record_sequence
from kafkalog_core.format.layout import CONTROL_BIT
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk, csv_fields, csv_row, json_object
from kafkalog_core.output.templates import CsvTemplate, Template, batch_template, fits_header, record_template
from kafkalog_core.text import csv_field, csv_text, has_controls, json_text, needs_quotes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkalog_core.format.columns import BatchColumns, RecordColumns
    from kafkalog_core.format.decode import RecordRun
    from kafkalog_core.output.chunk import BytesMode
    from kafkalog_core.output.tables import Table
    from kafkalog_core.storage.scan import Run

__all__ = [
    "BatchChunk",
    "ChunkColumns",
    "Lines",
    "RecordChunk",
    "RowOrigin",
    "long_csv_row",
    "long_line",
    "rows_at",
]


OUT_BYTES: Final = 4 * 1024 * 1024
LONG_BYTES: Final = 32 * 1024 * 1024
"""A line that may be longer is written in pieces, more slowly."""


class RowOrigin(NamedTuple):
    """The origin of rows: topic and partition of the directory, name of the file, and its path if rows show it."""

    topic: str | None
    partition: int | None
    segment: str
    path: str | None = None

    @property
    def columns(self) -> dict[str, object]:
        """The first columns of all rows of this origin."""
        found: dict[str, object] = self._asdict()
        if self.path is None:
            del found["path"]
        return found

    def table(self, table: tables.Table) -> tables.Table:
        """Return the row type of this origin: with a path column if rows show the path."""
        return table if self.path is None else tables.with_path(table)


def rows_at(place: RowOrigin, table: tables.Table, rows: Sequence[Mapping[str, object]]) -> RowChunk:
    """Return a chunk of rows, to which the columns of their origin are added."""
    return RowChunk(place.table(table), [{**place.columns, **row} for row in rows])


class LineRoom(Protocol):
    """Memory for lines."""

    def room(self) -> memoryview:
        """Return room for many lines. Lines that were yielded before may be lost."""


class LineBuffer:
    """A buffer for lines, which is allocated for the first line. New lines overwrite the earlier ones."""

    def __init__(self, size_bytes: int = OUT_BYTES) -> None:
        self._size_bytes = size_bytes
        self._memory: memoryview | None = None

    def room(self) -> memoryview:
        """Return the buffer."""
        if self._memory is None:
            self._memory = memoryview(fresh_memory(self._size_bytes, is_filled=True))
        return self._memory


class Lines:
    """Templates of one file's rows, and the memory for their lines."""

    def __init__(self, place: RowOrigin, out: LineRoom | None = None) -> None:
        self.place = place
        self._out = LineBuffer() if out is None else out
        self._templates: dict[tuple[bool, bool, str], Template] = {}
        self._csv_templates: dict[tuple[object, ...], CsvTemplate] = {}

    def records(self, run: RecordRun, *, resynced: bool, selection: bytearray | None = None) -> RecordChunk:
        """Return the chunk of a run of records."""
        return RecordChunk(self, run, resynced=resynced, selection=selection)

    def template(self, *, is_record: bool, resynced: bool, bytes_mode: str) -> Template:
        """Return the template of record or batch lines."""
        key = (is_record, resynced, bytes_mode)
        if key not in self._templates:
            self._templates[key] = (
                record_template(self.place.columns, bytes_mode, resynced=resynced)
                if is_record
                else batch_template(self.place.columns, resynced=resynced)
            )
        return self._templates[key]

    def csv_template(self, header: tuple[str, ...], *, is_record: bool, resynced: bool, bytes_mode: str) -> CsvTemplate:
        """Return the template of CSV lines with these columns."""
        key = (header, is_record, resynced, bytes_mode)
        if key not in self._csv_templates:
            self._csv_templates[key] = CsvTemplate(
                header, self.place.columns, bytes_mode, is_record=is_record, resynced=resynced
            )
        return self._csv_templates[key]

    def write(
        self,
        memory: memoryview,
        batches: BatchColumns,
        records: RecordColumns | None,
        selection: bytearray | None,
        template: Template | CsvTemplate,
        most: int,
    ) -> Iterator[memoryview | int]:
        """Yield all lines of a chunk, as many as fit into the buffer at a time: they are valid until the next ones.

        For a row whose line may be longer than `most` bytes, the number of the row is yielded instead.
        """
        total = batches.count if records is None else records.count
        out: bytearray | memoryview = self._out.room()
        row = 0
        while True:
            row, size = kernels.write_rows(memory, batches, records, selection, row, template, out)
            if size >= 0:
                # Negative: the row did not fit, and would need that many bytes.
                yield memoryview(out)[:size]
                if row >= total:
                    return
                out = self._out.room()
            # One line is larger than the room: it gets a buffer of its size
            elif -size <= most:
                out = bytearray(-size)
            else:
                yield row
                row += 1


class ChunkColumns(NamedTuple):
    """The columns of a chunk, valid as long as it; `selection` has a byte for each row, 0 for one that is left out."""

    memory: memoryview
    batches: BatchColumns
    records: RecordColumns | None
    selection: bytearray | None
    resynced: bool
    place: RowOrigin


class _ColumnChunk:
    """Rows of columns; `selection` has a byte for each row, 0 for a row that is left out."""

    is_record = False

    def __init__(
        self,
        lines: Lines,
        memory: memoryview,
        batches: BatchColumns,
        records: RecordColumns | None,
        *,
        resynced: bool,
        selection: bytearray | None,
    ) -> None:
        self._lines = lines
        self._memory = memory
        self._batches = batches
        self._records = records
        self._resynced = resynced
        self._selection = selection
        total = batches.count if records is None else records.count
        self.count = total if selection is None else selection.count(1)

    def columns(self) -> ChunkColumns:
        """Return the columns that its rows come from."""
        return ChunkColumns(
            self._memory, self._batches, self._records, self._selection, self._resynced, self._lines.place
        )

    def ndjson(self, bytes_mode: BytesMode) -> bytes:
        r"""Return all rows as JSON lines, each ending in `\n`."""
        return b"".join([bytes(part) for part in self.parts(bytes_mode)])

    def parts(self, bytes_mode: BytesMode) -> Iterator[bytes | memoryview]:
        """Yield all rows as JSON lines, in pieces, each valid until the next one."""
        for part in self._written(self._template(bytes_mode), LONG_BYTES):
            # A row of tens of megabytes is written in pieces, by Python: a line buffer of its size would double the
            # memory.
            if isinstance(part, int):
                yield from long_line(self.table, self._row(part, self._template("auto")), bytes_mode)
            else:
                yield part

    def csv(self, header: tuple[str, ...], bytes_mode: BytesMode) -> Iterator[bytes | memoryview]:
        r"""Yield all rows as CSV lines under these columns, each ending in `\r\n`, piece by piece as in `parts`."""
        # A header with other columns than the kernels know.
        if not fits_header(header):
            for row in self.rows():
                yield csv_row(self.table, row, header, bytes_mode)
            return
        template = self._lines.csv_template(
            header, is_record=self.is_record, resynced=self._resynced, bytes_mode=bytes_mode
        )
        for part in self._written(template, LONG_BYTES):
            if isinstance(part, int):
                yield from long_csv_row(self.table, self._row(part, self._template("auto")), header, bytes_mode)
            else:
                yield part

    def _written(self, template: Template | CsvTemplate, most: int) -> Iterator[memoryview | int]:
        return self._lines.write(self._memory, self._batches, self._records, self._selection, template, most)

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield rows as dicts by column name."""
        for row in self.row_views():
            # Copies: a row that is kept must not change with the next chunk.
            yield {name: bytes(value) if isinstance(value, memoryview) else value for name, value in row.items()}

    def row_views(self) -> Iterator[dict[str, object]]:
        """Yield rows as dicts by column name; key and value refer to memory."""
        columns = self._batches if self._records is None else self._records
        template = self._template("auto")
        for index in range(columns.count):
            if self._selection is None or self._selection[index]:
                yield self._row(index, template)

    def row_view(self, index: int) -> dict[str, object]:
        """Return the row with this number, counting rows that are left out."""
        return self._row(index, self._template("auto"))

    def _template(self, bytes_mode: str) -> Template:
        return self._lines.template(is_record=self.is_record, resynced=self._resynced, bytes_mode=bytes_mode)

    def _row(self, index: int, template: Template) -> dict[str, object]:
        """Return one row; key and value refer to memory."""
        row = self._records.row(index) if self._records is not None else {}
        batch = self._batches.row(row["batch"] if row else index)
        values: dict[str, object] = {"type": self.table.name, **self._lines.place.columns}
        for name, kind, a, b in template.columns[batch["format"]]:
            values[name] = self._value(kind, a, b, row, batch) if kind != "constant" else b
        return values

    @property
    def table(self) -> tables.Table:
        """The row type."""
        return self._lines.place.table(tables.BATCH)

    def _value(self, kind: str, a: int, b: object, row: dict[str, int], batch: dict[str, int]) -> object:
        """Return one column of one row, as the kernel writes it into a line."""
        if kind == "text":
            start, size = row[RECORD_FIELDS[a]], row[RECORD_FIELDS[a + 1]]
            return None if size < 0 else self._memory[start : start + size]
        if kind == "headers":
            return self._headers(row["first_header"], row["header_count"])
        if kind == "control":
            key = self._bytes(row["key_start"], row["key_size"])
            # Records of control batches have a key of 4 bytes: version and type (ControlRecordType.parseTypeId).
            return control_type_name(key) if batch["attributes"] & CONTROL_BIT else None
        if kind in _OF_BATCH:
            return _OF_BATCH[kind](batch, a, b)
        return _OF_RECORD[kind](row, batch, a, b)

    def _bytes(self, start: int, size: int) -> bytes | None:
        return None if size < 0 else bytes(self._memory[start : start + size])

    def _headers(self, first: int, count: int) -> list[tuple[bytes | None, bytes | None]]:
        if self._records is None or not count:
            return []
        found = []
        for index in range(first, first + count):
            header = self._records.headers.row(index)
            key = self._bytes(header["key_start"], header["key_size"])
            found.append((key, self._bytes(header["value_start"], header["value_size"])))
        return found


def _name(names: object, value: int) -> object:
    return _name_value(cast("tuple[str, ...]", names)[value])


_name_value: Final = cache(json.loads)
"""Parse a JSON name; there are only a few."""


def _or_null(value: int) -> int | None:
    return None if value < 0 else value


_OF_BATCH: Final[dict[str, Callable[[dict[str, int], int, object], object]]] = {
    "batch_int": lambda batch, a, _: batch[BATCH_FIELDS[a]],
    "batch_int_or_null": lambda batch, a, _: _or_null(batch[BATCH_FIELDS[a]]),
    "batch_int_if": lambda batch, a, b: batch[BATCH_FIELDS[a]] if batch["attributes"] & cast("int", b) else None,
    "batch_bit": lambda batch, a, b: _name(b, batch["attributes"] & a != 0),
    "batch_name": lambda batch, a, b: _name(b, batch[BATCH_FIELDS[a]]),
    "batch_crc_ok": lambda batch, _a, _b: (
        None if batch["crc_computed"] < 0 else batch["crc_computed"] == batch["crc_stored"]
    ),
}
_OF_RECORD: Final[dict[str, Callable[[dict[str, int], dict[str, int], int, object], object]]] = {
    "record_int": lambda row, _batch, a, _b: row[RECORD_FIELDS[a]],
    "record_int_or_null": lambda row, _batch, a, _b: _or_null(row[RECORD_FIELDS[a]]),
    "record_name": lambda row, _batch, a, b: _name(b, row[RECORD_FIELDS[a]]),
    "sequence": lambda row, batch, _a, _b: record_sequence(
        batch["base_sequence"], row["offset"] - batch["base_offset"]
    ),
    "v07_magic": lambda row, _batch, _a, _b: int(row["attributes"] >= 0),
}


class BatchChunk(_ColumnChunk):
    """A chunk of batch rows."""

    def __init__(self, lines: Lines, run: Run, selection: bytearray | None = None) -> None:
        super().__init__(lines, run.memory, run.batches, None, resynced=run.resynced, selection=selection)


class RecordChunk(_ColumnChunk):
    """A chunk of record rows."""

    is_record = True

    def __init__(self, lines: Lines, run: RecordRun, *, resynced: bool, selection: bytearray | None = None) -> None:
        super().__init__(lines, run.memory, run.batches, run.records, resynced=resynced, selection=selection)
        self._is_v07 = bool(run.batches.count) and run.batches.column("format")[0] == FORMAT_V07

    @property
    def table(self) -> tables.Table:
        """The row type; rows of 0.7 have further columns."""
        return self._lines.place.table(tables.RECORD_V07 if self._is_v07 else tables.RECORD)


_SUFFIXES: Final = {"auto": "", "base64": "_b64", "hex": "_hex"}
# A multiple of 3, because 3 bytes are 4 letters of base64
_PIECE_BYTES: Final = 3 * 256 * 1024


def long_line(table: Table, row: Mapping[str, object], bytes_mode: BytesMode) -> Iterator[bytes]:
    r"""Yield the line that `json_line` returns for a row, in pieces; the row's bytes are memoryviews."""
    spans = {name: value for name, value in row.items() if isinstance(value, memoryview)}
    nulls = json_object(table, {**row, **dict.fromkeys(spans)}, bytes_mode)
    opening = "{"
    for name, (member, value) in zip(table.names, nulls.items(), strict=True):
        if name in spans:
            yield from _member(opening, name, spans[name], bytes_mode)
        else:
            yield f"{opening}{json_text(member)}:{json_text(value)}".encode("utf-8", "backslashreplace")
        opening = ","
    yield b"}\n"


def long_csv_row(
    table: Table, row: Mapping[str, object], header: Sequence[str], bytes_mode: BytesMode
) -> Iterator[bytes]:
    r"""Yield the line that `csv_row` returns for a row, in pieces; the row's bytes are memoryviews."""
    spans = {name: value for name, value in row.items() if isinstance(value, memoryview)}
    fields = csv_fields(table, {**row, **dict.fromkeys(spans)}, bytes_mode)
    of_column = {}
    for name, span in spans.items():
        mode = bytes_mode
        # The choice between text and base64 needs the whole value, before the first byte is written.
        if mode == "auto" and not _is_clean_text(span):
            mode = "base64"
        of_column[f"{name}{_SUFFIXES[mode]}"] = span, mode
    for number, name in enumerate(header):
        if number:
            yield b","
        if name in of_column:
            yield from _field(*of_column[name])
        else:
            yield csv_field(fields.get(name)).encode("utf-8", "backslashreplace")
    yield b"\r\n"


def _field(span: memoryview, mode: BytesMode) -> Iterator[bytes]:
    """Yield a key or value as a CSV field."""
    if mode != "auto":
        yield from _encoded(span, mode) if len(span) else (b'""',)
        return
    # One quote decides for the whole field.
    is_quoted = not len(span) or any(needs_quotes(text) for text in _texts(span))
    yield b'"' if is_quoted else b""
    for text in _texts(span):
        yield csv_text(text).encode()
    yield b'"' if is_quoted else b""


def _member(opening: str, name: str, span: memoryview, bytes_mode: BytesMode) -> Iterator[bytes]:
    mode = bytes_mode
    if mode == "auto":
        mode = "auto" if _is_utf8(span) else "base64"
    yield f'{opening}"{name}{_SUFFIXES[mode]}":"'.encode()
    if mode == "auto":
        for text in _texts(span):
            yield json_text(text)[1:-1].encode()
    else:
        yield from _encoded(span, mode)
    yield b'"'


def _encoded(span: memoryview, mode: BytesMode) -> Iterator[bytes]:
    """Yield bytes in hexadecimal or base64."""
    for piece in _pieces(span):
        yield piece.hex().encode() if mode == "hex" else base64.b64encode(piece)


def _texts(span: memoryview) -> Iterator[str]:
    """Yield the text of UTF-8 bytes. Raises UnicodeDecodeError if they are not valid."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for piece in _pieces(span):
        yield decoder.decode(piece)
    decoder.decode(b"", final=True)


def _is_utf8(span: memoryview) -> bool:
    try:
        for _ in _texts(span):
            pass
    except UnicodeDecodeError:
        return False
    return True


def _is_clean_text(span: memoryview) -> bool:
    """Return whether bytes are UTF-8 without control characters, which a terminal would execute."""
    try:
        return not any(has_controls(text) for text in _texts(span))
    except UnicodeDecodeError:
        return False


def _pieces(span: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(span), _PIECE_BYTES):
        yield span[start : start + _PIECE_BYTES]
