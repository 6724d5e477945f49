"""Arrow record batches from the rows and chunks of kafkalog, with the columns of `schema`."""

from __future__ import annotations

from array import array
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog_core import kernels
from kafkalog_core.engine.decoded import DecodedChunk
from kafkalog_core.findings import found
from kafkalog_core.format.columns import RECORD_FIELDS
from kafkalog_core.kernels import programs as numbers
from kafkalog_core.output.templates import Cells, GatherPlan, Headers, Texts
from kafkalog_core.spark.session.schema import columns_of, spark_text, time_name
from kafkalog_core.text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.engine.chunks import BatchChunk, ChunkColumns, RecordChunk, RowOrigin
    from kafkalog_core.findings import Finding
    from kafkalog_core.output.tables import Column, Kind, Table
    from kafkalog_core.output.templates import Room

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
    "completed",
    "header_key_finding",
    "moments",
    "rows_to_arrow",
]


def arrow_schema(table: Table, names: Sequence[str] | None = None) -> pa.Schema:
    """Return the Arrow schema of a table: exactly the one that Spark derives from `struct_type`."""
    return pa.schema([(column.name, arrow_type(column.kind)) for column in columns_of(table, names)])


@cache
def arrow_type(kind: Kind) -> pa.DataType:
    """Return the Arrow type of a kind of column."""
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
        "json": pa.string(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }[kind]


_NO_TIME: Final = -1
"""What Kafka stores for a record without a timestamp (`RecordBatch.NO_TIMESTAMP`)."""
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, which programs that read the tables can show; records may have any number."""


def moments(times_ms: pa.Array) -> pa.Array:
    """Return milliseconds since 1970 as timestamps; those that are none, or of no year from 1 to 9999, are null."""
    is_moment = pc.and_(
        pc.not_equal(times_ms, _NO_TIME),
        pc.and_(pc.greater_equal(times_ms, _FIRST_MS), pc.less_equal(times_ms, _LAST_MS)),
    )
    known = pc.if_else(is_moment, times_ms, pa.scalar(None, pa.int64()))
    return known.cast(pa.timestamp("ms", tz="UTC")).cast(arrow_type("timestamp"))


def completed(batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    """Return a batch with exactly these columns: timestamps come from their milliseconds, others are null."""
    names, there = [column.name for column in columns], batch.schema.names
    if there == names:
        return batch
    times = {time_name(column): column.name for column in columns}
    arrays = []
    for column in columns:
        if column.name in there:
            arrays.append(batch.column(column.name))
        elif column.name in times and times[column.name] in there:
            arrays.append(moments(batch.column(times[column.name])))
        else:
            arrays.append(pa.nulls(batch.num_rows, arrow_type(column.kind)))
    return pa.RecordBatch.from_arrays(arrays, names=names)


class Constants:
    """A cache of arrays of one repeated value. With `dictionary`, strings are dictionary-encoded."""

    def __init__(self, *, dictionary: bool) -> None:
        self._dictionary = dictionary
        self._made: dict[str, tuple[object, pa.Array]] = {}
        self._names: dict[str, pa.Array] = {}

    def array(self, column: Column, value: object, rows: int, names: Sequence[str] | None = None) -> pa.Array:
        """Return an array with the value in every row.

        Args:
            column: the column.
            value: its value; None for null.
            rows: length of the array.
            names: every string that the column may hold; None: unknown.
        """
        held, made = self._made.get(column.name, (None, None))
        if made is None or held != value or len(made) < rows:
            made = self._repeat(column, value, rows, names)
            self._made[column.name] = value, made
        return made[:rows]

    def named(self, column: Column, numbered: pa.Array, names: Sequence[str]) -> pa.Array:
        """Return a string or boolean column from the indexes of its values in `names`."""
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
    """Return rows, given as dicts by column name, as one batch.

    A column that a row lacks is null there; a timestamp comes from its milliseconds. `names`: the columns of the batch,
    in this order; None: all.
    """
    held = [*rows]
    columns = columns_of(table, names)
    given = [column for column in columns if column.kind != "timestamp"]
    arrays = [arrow_column(column, [row.get(column.name) for row in held]) for column in given]
    batch = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in given])
    return completed(batch, columns).cast(arrow_schema(table, names))


def arrow_column(column: Column, values: Sequence[object]) -> pa.Array:
    """Return the values of one column as an Arrow array."""
    if column.kind == "string":
        values = [None if value is None else spark_text(str(value)) for value in values]
    elif column.kind == "headers":
        values = [None if value is None else [*map(_header, cast("Iterable[object]", value))] for value in values]
    elif column.kind == "json":
        values = [None if value is None else json_text(value) for value in values]
    elif column.kind == "map":
        values = [None if value is None else [*cast("Mapping[str, int]", value).items()] for value in values]
    return pa.array(values, type=arrow_type(column.kind))


def _header(header: object) -> dict[str, object]:
    """Return a header as a Java client reads it: its key is text, with U+FFFD in place of bytes that are not UTF-8."""
    key, value = cast("tuple[bytes, bytes | None]", header)
    return {"key": key.decode("utf-8", "replace"), "value": value}


FIRST_BYTES: Final = 1024 * 1024  # of each buffer of texts; it grows with what comes
FIRST_HEADERS: Final = 16 * 1024
_NAMED: Final = frozenset({"string", "bool"})


class Buffers:
    """Buffers that the gather kernels fill, for at most `rows` rows of some columns.

    Args:
        columns: of records or batches, without the columns whose value is the same in all rows of a file.
        rows: capacity, in rows.
        constants: makes the arrays of strings and booleans.
        is_record: whether the rows are records; else they are batches.
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
        """The variable-length parts of a record that are wanted: a bit set of `WANTS_*`."""
        return self._plan.wanted

    @property
    def replaced(self) -> tuple[int, int]:
        """The number of header keys that are not UTF-8, and the offset of the first record that has one (-1: none)."""
        if self._headers is None:
            return 0, -1
        return self._headers.summary[numbers.SUMMARY_NOT_TEXT], self._headers.summary[numbers.SUMMARY_OFFSET]

    def gather(
        self, parts: ChunkColumns, picked: array[int], count: int, before: array[int], after: array[int]
    ) -> None:
        """Append the picked rows of a chunk.

        Args:
            parts: the columns of the chunk.
            picked: numbers of the rows; the first `count` of them count.
            count: number of rows.
            before: rows and bytes gathered before this call (`DONE_*`).
            after: rows and bytes gathered after it (`DONE_*`).
        """
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
        """Return the gathered rows as one array a column, and forget them."""
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
    nulls, null_values, not_text, _ = headers.summary
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
    """Return the three Arrow buffers of a binary column: validity bits, starts, bytes."""
    size = starts.cells[rows]
    valid = _give(bits, -(-rows // 8)) if bits is not None and nulls else None
    return [valid, _give(starts, 4 * (rows + 1)), _give(texts, size)]


def _allocate(size: int) -> pa.Buffer:
    """Return a buffer from the system's allocator.

    It hands out the pages of the last batch again; Arrow's own pool returns fresh pages, which the kernel must zero.
    """
    return pa.allocate_buffer(size, memory_pool=pa.system_memory_pool())


def _give(room: Room, size: int) -> pa.Buffer:
    """Return the first bytes of a room as a buffer.

    If the room is at least half full, return its own buffer and give it a new one; else copy the bytes.
    """
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
    """Header keys of one file that are not UTF-8: as in a Java client, U+FFFD replaces those bytes."""

    place: RowOrigin
    keys: int
    offset: int  # of the first record with such a key


class ArrowRows:
    """A gatherer of the rows of chunks into Arrow batches; each batch holds rows of one file.

    Args:
        table: of records or of batches, with or without the column `path`.
        names: the wanted columns, in this order; None: all.
        batch_rows: maximum number of rows in a batch.
        batch_bytes: maximum bytes of keys, values and headers in a batch, unless one row alone has more.
        dictionary: whether strings are dictionary-encoded, for Parquet files; Spark's data sources do not accept that.
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
        self._gathered = [column for column in self._columns if column.name not in _ORIGIN and column.kind != "json"]
        self._decoded: dict[str, list[str | None]] = {each.name: [] for each in self._columns if each.kind == "json"}
        self._is_record = "headers" in table.names
        self._batch_rows = max(1, batch_rows)
        self._batch_bytes = min(batch_bytes, MOST_BYTES)
        self._constants = Constants(dictionary=dictionary)
        self._buffers: Buffers | None = None
        self._done = array("q", [0] * numbers.DONE_SIZE)
        self._picked = array("q")
        self._origin: tuple[RowOrigin, bool] | None = None
        self.replaced: list[ReplacedKeys] = []

    def add(self, chunk: RecordChunk | BatchChunk) -> Iterator[pa.RecordBatch]:
        """Take the rows of a chunk and yield the batches that are full. The chunk may be reused afterwards."""
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
                if self._decoded and isinstance(chunk, DecodedChunk):
                    self._decode(chunk, self._picked[:count])
            if row >= columns.count:
                return
            yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining rows as a batch."""
        rows = self._done[numbers.DONE_ROWS]
        if not rows or self._origin is None or self._buffers is None:
            return
        place, resynced = self._origin
        self._note_replaced(place, *self._buffers.replaced)
        origin = {**place._asdict(), "resynced": resynced}
        gathered = iter(self._buffers.take(self._gathered, rows))
        self._done = array("q", [0] * numbers.DONE_SIZE)
        arrays = [
            self._constants.array(column, origin[column.name], rows)
            if column.name in _ORIGIN
            else self._decoded_array(column, rows)
            if column.name in self._decoded
            else next(gathered)
            for column in self._columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=[column.name for column in self._columns])

    def _decode(self, chunk: DecodedChunk, rows: Iterable[int]) -> None:
        """Append what the picked records of a chunk say, as JSON text."""
        keys, values = self._decoded.get("decoded_key"), self._decoded.get("decoded_value")
        for text in chunk.texts(rows):
            if keys is not None:
                keys.append(text.key)
            if values is not None:
                values.append(text.value)

    def _decoded_array(self, column: Column, rows: int) -> pa.Array:
        """Return a column of JSON text; all of it is null in a file whose records are not decoded."""
        texts, self._decoded[column.name] = self._decoded[column.name], []
        return pa.array(texts, pa.string()) if texts else self._constants.array(column, None, rows)

    def _note_replaced(self, place: RowOrigin, keys: int, offset: int) -> None:
        if not keys:
            return
        if self.replaced and self.replaced[-1].place == place:
            last = self.replaced.pop()
            keys, offset = keys + last.keys, last.offset
        self.replaced.append(ReplacedKeys(place, keys, offset))


def header_key_finding(replaced: Sequence[ReplacedKeys]) -> Finding | None:
    """Return the finding about header keys that are not UTF-8, which names the first such file; None: there is none."""
    if not replaced:
        return None
    place, _, offset = replaced[0]
    return found(
        "export.header-keys",
        place.path or place.segment,
        topic=place.topic,
        partition=place.partition,
        offset=offset,
        keys=sum(one.keys for one in replaced),
    )
