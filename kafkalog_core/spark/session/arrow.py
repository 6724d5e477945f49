"""Columns of Spark and Arrow, made from `tables.py` and from nothing else: one declaration of every row.

The column `type` is left out, as a table holds rows of one type. Every column may be null. Times stay what they are in
all other outputs, integers of milliseconds (`timestamp_millis(timestamp_ms)` in SQL), as -1 is a time that is stored.
Nothing here imports pyspark or pyarrow before it is asked for one of their schemas.
"""

from __future__ import annotations

from array import array
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import pyarrow as pa

from kafkalog_core.findings import found
from kafkalog_core.format import kernels
from kafkalog_core.format.columns import RECORD_FIELDS
from kafkalog_core.format.gather import Cells, GatherPlan, Headers, Texts
from kafkalog_core.format.kernels import programs as numbers
from kafkalog_core.spark.session.schema import columns_of, spark_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.gather import Room
    from kafkalog_core.ops.reading.chunks import BatchChunk, ChunkColumns, Place, RecordChunk
    from kafkalog_core.rows.tables import Column, Kind, Table

__all__ = [
    "BATCH_BYTES",
    "BATCH_ROWS",
    "ArrowRows",
    "Buffers",
    "Constants",
    "ReplacedKeys",
    "arrow_column",
    "arrow_schema",
    "arrow_type",
    "header_key_finding",
    "rows_to_arrow",
]


def arrow_schema(table: Table, names: Sequence[str] | None = None) -> pa.Schema:
    """The schema as Arrow has it, exactly the one that Spark makes of `struct_type`."""
    import pyarrow as pa  # noqa: PLC0415 - heavy

    return pa.schema([(column.name, arrow_type(column.kind)) for column in columns_of(table, names)])


@cache
def arrow_type(kind: Kind) -> pa.DataType:
    """The Arrow type of a kind of column."""
    import pyarrow as pa  # noqa: PLC0415 - heavy

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    return {
        "string": pa.string(),
        "int8": pa.int8(),
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "uint32": pa.int64(),
        "double": pa.float64(),
        "bool": pa.bool_(),
        "bytes": pa.binary(),
        "headers": pa.list_(pa.field("element", header)),
        "map": pa.map_(pa.string(), pa.int64()),
    }[kind]


class Constants:
    """Arrays of equal values. With `dictionary`, texts are numbers into a dictionary of their column."""

    def __init__(self, *, dictionary: bool) -> None:
        self._dictionary = dictionary
        self._made: dict[str, tuple[object, pa.Array]] = {}
        self._names: dict[str, pa.Array] = {}

    def array(self, column: Column, value: object, rows: int, names: Sequence[str] | None = None) -> pa.Array:
        """The value in every row. `names`: what the column may hold, where that is known."""
        held, made = self._made.get(column.name, (None, None))
        if made is None or held != value or len(made) < rows:
            made = self._repeat(column, value, rows, names)
            self._made[column.name] = value, made
        return made[:rows]

    def named(self, column: Column, numbered: pa.Array, names: Sequence[str]) -> pa.Array:
        """A column of names, or truths, by their numbers."""
        if column.kind == "bool":
            return numbered.cast(pa.bool_())
        dictionary = self._dictionary_of(column, names)
        if self._dictionary:
            return pa.DictionaryArray.from_arrays(numbered, dictionary)
        return dictionary.take(numbered)

    def _dictionary_of(self, column: Column, names: Sequence[str]) -> pa.Array:
        if column.name not in self._names:
            self._names[column.name] = pa.array(names, pa.string())
        return self._names[column.name]

    def _repeat(self, column: Column, value: object, rows: int, names: Sequence[str] | None) -> pa.Array:
        kind = arrow_type(column.kind)
        if column.kind != "string":
            return pa.nulls(rows, kind) if value is None else pa.repeat(pa.scalar(value, kind), rows)
        if not self._dictionary:
            return pa.nulls(rows, kind) if value is None else pa.repeat(pa.scalar(spark_text(str(value)), kind), rows)
        if names is not None:
            number = None if value is None else names.index(str(value))
            dictionary, width = self._dictionary_of(column, names), pa.int8()
        else:
            number = None if value is None else 0
            dictionary, width = pa.array([] if value is None else [spark_text(str(value))], pa.string()), pa.int32()
        numbered = pa.nulls(rows, width) if number is None else pa.repeat(pa.scalar(number, width), rows)
        return pa.DictionaryArray.from_arrays(numbered, dictionary)


def rows_to_arrow(
    table: Table, rows: Iterable[Mapping[str, object]], names: Sequence[str] | None = None
) -> pa.RecordBatch:
    """Rows by column name as one batch. What a row lacks is null; what is not asked for is left out."""
    held = [*rows]
    columns = columns_of(table, names)
    arrays = [arrow_column(column, [row.get(column.name) for row in held]) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(table, names))


def arrow_column(column: Column, values: Sequence[object]) -> pa.Array:
    """Values of one column."""
    if column.kind == "string":
        values = [None if value is None else spark_text(str(value)) for value in values]
    elif column.kind == "headers":
        values = [None if value is None else [*map(_header, cast("Iterable[object]", value))] for value in values]
    elif column.kind == "map":
        values = [None if value is None else [*cast("Mapping[str, int]", value).items()] for value in values]
    return pa.array(values, type=arrow_type(column.kind))


def _header(header: object) -> dict[str, object]:
    """A header as a Java client reads it: its key is text, with U+FFFD for what is no UTF-8."""
    key, value = cast("tuple[bytes, bytes | None]", header)
    return {"key": key.decode("utf-8", "replace"), "value": value}


FIRST_BYTES: Final = 1024 * 1024  # of each buffer of texts; it grows with what comes
FIRST_HEADERS: Final = 16 * 1024
_NAMED: Final = frozenset({"string", "bool"})


class Buffers:
    """Room for so many rows of these columns.

    Args:
        columns: of records or batches; none of those that all rows of a file have alike.
        rows: the most there will be.
        constants: what makes the arrays of names.
        is_record: rows are records.
    """

    def __init__(self, columns: Sequence[Column], rows: int, constants: Constants, *, is_record: bool) -> None:
        self._rows = rows
        self._constants = constants
        self._plan = GatherPlan(columns, is_record=is_record)
        self._slots = {column.name: slot for slot, column in enumerate(self._plan.columns)}
        self._cells = Cells(self._plan, rows, _allocate)
        self._texts = {column.name: Texts(rows, FIRST_BYTES, _allocate) for column in columns if column.kind == "bytes"}
        self._headers: Headers | None = None
        if self._plan.wanted & numbers.WANTS_HEADERS:
            self._headers = Headers(rows, FIRST_HEADERS, FIRST_BYTES, _allocate)

    @property
    def wanted(self) -> int:
        """What of a record takes room of its own (`WANTS_*`)."""
        return self._plan.wanted

    @property
    def replaced(self) -> tuple[int, int]:
        """How many keys of headers are no UTF-8, and the offset of the first record with one."""
        if self._headers is None:
            return 0, -1
        return self._headers.told[numbers.TOLD_NOT_TEXT], self._headers.told[numbers.TOLD_OFFSET]

    def gather(
        self, parts: ChunkColumns, picked: array[int], count: int, before: array[int], after: array[int]
    ) -> None:
        """Append picked rows; `before` and `after` say how much there was and will be (`DONE_*`)."""
        memory, batches, records = parts[:3]
        at = before[numbers.DONE_ROWS]
        if self._plan.slots:
            kernels.gather_rows(memory, batches, records, picked, count, self._plan, self._cells, at)
        if records is None:
            return
        for name, texts in self._texts.items():
            total = numbers.DONE_KEYS if name == "key" else numbers.DONE_VALUES
            texts.texts.reserve(after[total], before[total])
            field = RECORD_FIELDS.index(f"{name}_start")
            kernels.gather_texts(memory, records, picked, count, field, texts, at)
        if self._headers is not None:
            self._headers.reserve(before, after)
            kernels.gather_headers(memory, batches, records, picked, count, self._headers, at)

    def take(self, columns: Sequence[Column], rows: int) -> list[pa.Array]:
        """The rows, column by column; there are none afterwards."""
        is_full = 2 * rows >= self._rows
        arrays = [self._array(column, rows, is_full=is_full) for column in columns]
        self._cells.clear(renewed=is_full)
        for texts in self._texts.values():
            texts.clear()
        if self._headers is not None:
            self._headers.clear()
        return arrays

    def _array(self, column: Column, rows: int, *, is_full: bool) -> pa.Array:
        if column.name in self._texts:
            texts = self._texts[column.name]
            buffers = _binary(texts.starts, texts.bits, texts.texts, rows, texts.nulls)
            return pa.Array.from_buffers(pa.binary(), rows, buffers, texts.nulls)
        if column.kind == "headers" and self._headers is not None:
            return _headers_array(self._headers, column, rows)
        return self._slot_array(column, rows, is_full=is_full)

    def _slot_array(self, column: Column, rows: int, *, is_full: bool) -> pa.Array:
        slot, cells = self._slots[column.name], self._cells
        nulls, uniform, names = cells.nulls(slot), cells.uniform(slot), self._plan.names[slot]
        if column.kind in _NAMED and uniform is not None and nulls in {0, rows}:
            value = None if nulls else names[uniform] if column.kind == "string" else bool(uniform)
            return self._constants.array(column, value, rows, names)
        room = cells.room
        values, bits = (
            room.owner.slice(start, size) if is_full else pa.py_buffer(bytes(room.view[start : start + size]))
            for start, size in cells.spans(slot, rows)
        )
        buffers = [bits if nulls else None, values]
        if column.kind in _NAMED:
            return self._constants.named(column, pa.Array.from_buffers(pa.int8(), rows, buffers, nulls), names)
        return pa.Array.from_buffers(arrow_type(column.kind), rows, buffers, nulls)


def _headers_array(headers: Headers, column: Column, rows: int) -> pa.Array:
    count = headers.starts.cells[rows]
    nulls, null_values, not_text, _ = headers.told
    buffers = _binary(headers.value_starts, headers.value_bits, headers.values, count, null_values)
    values = pa.Array.from_buffers(pa.binary(), count, buffers, null_values)
    buffers = _binary(headers.key_starts, None, headers.keys, count, 0)
    if not_text:
        raw = pa.Array.from_buffers(pa.binary(), count, buffers, 0).to_pylist()
        keys = pa.array([str(key, "utf-8", "replace") for key in raw], pa.string())
    else:
        keys = pa.Array.from_buffers(pa.string(), count, buffers, 0)
    kind = arrow_type(column.kind)
    pairs = pa.Array.from_buffers(kind.value_type, count, [None], 0, children=[keys, values])
    bits = _give(headers.bits, -(-rows // 8)) if nulls else None
    return pa.Array.from_buffers(kind, rows, [bits, _give(headers.starts, 4 * (rows + 1))], nulls, children=[pairs])


def _binary(starts: Room, bits: Room | None, texts: Room, rows: int, nulls: int) -> list[pa.Buffer | None]:
    """Validity, starts and bytes of a column of bytes."""
    size = starts.cells[rows]
    valid = _give(bits, -(-rows // 8)) if bits is not None and nulls else None
    return [valid, _give(starts, 4 * (rows + 1)), _give(texts, size)]


def _allocate(size: int) -> pa.Buffer:
    """From the system's allocator, which gives the pages of the last batch again; Arrow's own gives fresh ones."""
    return pa.allocate_buffer(size, memory_pool=pa.system_memory_pool())


def _give(room: Room, size: int) -> pa.Buffer:
    """The first bytes of a room: its own buffer where that is well filled, which is replaced then; else a copy."""
    if 2 * size < len(room.view):
        return pa.py_buffer(bytes(room.view[:size]))
    owner = room.owner
    room.renew()
    return owner.slice(0, size)


BATCH_ROWS: Final = 50_000
BATCH_BYTES: Final = 64 * 1024 * 1024
MOST_BYTES: Final = 1 << 30  # Arrow counts the bytes of a column with 31 bits
_ORIGIN: Final = frozenset({"topic", "partition", "segment", "path", "resynced"})  # of all rows of a batch


class ReplacedKeys(NamedTuple):
    """Keys of headers of one file that are no UTF-8: Arrow has them as a Java client does, with U+FFFD."""

    place: Place
    keys: int
    offset: int  # of the first record with such a key


class ArrowRows:
    """Gathers rows of chunks into Arrow batches; each holds rows of one file.

    Args:
        table: of records or of batches, with or without their path.
        names: the columns that are wanted, in this order; None: all.
        batch_rows: the most rows of a batch.
        batch_bytes: the most bytes of keys, values and headers in a batch, unless one row alone has more.
        dictionary: names and places as dictionaries, for Parquet files; a data source must not have them.
    """

    def __init__(
        self,
        table: Table,
        names: Sequence[str] | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
        batch_bytes: int = BATCH_BYTES,
        dictionary: bool = False,
    ) -> None:
        self._columns = columns_of(table, names)
        self._gathered = [column for column in self._columns if column.name not in _ORIGIN]
        self._is_record = "headers" in table.names
        self._batch_rows = max(1, batch_rows)
        self._batch_bytes = min(batch_bytes, MOST_BYTES)
        self._constants = Constants(dictionary=dictionary)
        self._buffers: Buffers | None = None
        self._done = array("q", [0] * numbers.DONE_SIZE)
        self._picked = array("q")
        self._origin: tuple[Place, bool] | None = None
        self.replaced: list[ReplacedKeys] = []

    @property
    def replaced_header_keys(self) -> int:
        """How many header keys were no UTF-8, in the batches that have come out."""
        return sum(one.keys for one in self.replaced)

    def add(self, chunk: RecordChunk | BatchChunk) -> Iterator[pa.RecordBatch]:
        """Take the rows of a chunk, which may be reused afterwards; batches that are full come out."""
        parts = chunk.columns()
        origin = (parts.place, parts.resynced)
        if origin != self._origin:
            yield from self.flush()
            self._origin = origin
        buffers = self._buffers
        if buffers is None:
            buffers = Buffers(self._gathered, self._batch_rows, self._constants, is_record=self._is_record)
            self._buffers = buffers
        columns = parts.batches if parts.records is None else parts.records
        if len(self._picked) < columns.count:
            self._picked = array("q", [0] * columns.count)
        row = 0
        while True:
            before = self._done[:]
            left = self._batch_rows - before[numbers.DONE_ROWS]
            row, count = kernels.measure_rows(
                columns, parts.selection, row, left, self._batch_bytes, buffers.wanted, self._done, self._picked
            )
            if count:
                buffers.gather(parts, self._picked, count, before, self._done)
            if row >= columns.count:
                return
            yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """What is left, as a batch."""
        rows = self._done[numbers.DONE_ROWS]
        if not rows or self._origin is None or self._buffers is None:
            return
        place, resynced = self._origin
        self._note_replaced(place, *self._buffers.replaced)
        origin = {**place._asdict(), "resynced": resynced}
        gathered = iter(self._buffers.take(self._gathered, rows))
        self._done = array("q", [0] * numbers.DONE_SIZE)
        arrays = [
            self._constants.array(column, origin[column.name], rows) if column.name in _ORIGIN else next(gathered)
            for column in self._columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=[column.name for column in self._columns])

    def _note_replaced(self, place: Place, keys: int, offset: int) -> None:
        if not keys:
            return
        if self.replaced and self.replaced[-1].place == place:
            last = self.replaced.pop()
            keys, offset = keys + last.keys, last.offset
        self.replaced.append(ReplacedKeys(place, keys, offset))


def header_key_finding(rows: ArrowRows) -> Finding | None:
    """What there is to tell of header keys that are no UTF-8; it names the first file that has some."""
    if not rows.replaced:
        return None
    place, _, offset = rows.replaced[0]
    return found(
        "export.header-keys",
        place.path or place.segment,
        topic=place.topic,
        partition=place.partition,
        offset=offset,
        keys=rows.replaced_header_keys,
    )
