"""From a run of batches to columns of records: bounded decompression, one kernel call for many batches.

Plain batches are decoded where they lie in the window; compressed ones are inflated one behind the other into an
arena, so that a run of small batches costs one kernel call too. What cannot be decoded is a value
(`PayloadDamage`), not an exception: the records before it have been given out, and the next batch follows.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FieldError, FormatError, LimitError, TruncatedError
from kafkalog_core.format import kernels
from kafkalog_core.format.bounded import TrailingError
from kafkalog_core.format.columns import FORMAT_V07, BatchColumns, RecordColumns
from kafkalog_core.format.compression import inflater
from kafkalog_core.format.layout import (
    CODEC_NAMES,
    MAGIC_V0,
    MAGIC_V2,
    V07_MAX_DEPTH,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.format.bounded import Buffer, Content

__all__ = ["PayloadDamage", "RecordRun", "codec_name", "decode_backwards", "decode_run"]

ARENA_BYTES: Final = 1024 * 1024
_V07_ROWS: Final = 512  # messages that are walked at a time, in search of wrappers
MAX_HEADERS: Final = 1024 * 1024  # of one record; 32 bytes each in the columns
_INFLATE_ERRORS: Final = (
    (LimitError, "payload-limit"),
    (TruncatedError, "payload-truncated"),
    (TrailingError, "payload-trailing"),
    (FormatError, "payload"),
)


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Decoded records; `records` refers to `memory` and to rows of `batches`. Valid until the next one is asked for."""

    memory: memoryview
    batches: BatchColumns
    records: RecordColumns


@dataclass(frozen=True, slots=True)
class PayloadDamage:
    """The batch in row `batch` has a good checksum, but not all of its records can be read; `records_before` were.

    For the reason `payload-trailing` it is not records that are missing: bytes stand behind those that hold them.
    """

    batch: int
    reason: str
    detail: str
    records_before: int


def codec_name(codec: int) -> str:
    """Kafka's name of a codec id; `unknown-5` and so on for ids without a name."""
    return CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"unknown-{codec}"


class _Arena:
    """Inflated payloads one behind the other, and a copy of the batch columns whose spans point into them."""

    def __init__(self, memory: memoryview, batches: BatchColumns, max_bytes: int) -> None:
        self.memory = memoryview(b"")
        self.columns = batches.copy()
        self._memory = memory
        self._max_bytes = max_bytes
        self._starts, self._ends = self.columns.column("payload_start"), self.columns.column("payload_end")
        self._codecs, self._formats = self.columns.column("codec"), self.columns.column("format")
        self._opener = _WrapperOpener() if FORMAT_V07 in self._formats else None
        self._held: list[Content] = []  # of the next row, where it is large: behind others it would have to be copied

    def fill(self, first: int, last: int) -> tuple[int, PayloadDamage | None]:
        """Inflate payloads of rows `first` to `last` (exclusive) until the arena is full; their spans point into it.

        What was given out before keeps the old bytes. Returns the first row that is not inflated, and the damage that
        ended it: that row's own, or of the row before it, which is inflated, but of which not all bytes are content.
        """
        contents, self._held = self._held, []
        ends = array("q", map(len, contents))
        damage = None
        try:
            self._inflate(first + len(contents), last, contents, ends)
        except TrailingError as error:
            damage = self._damage(first + len(contents), error)
            contents.append(error.content)
            ends.append((ends[-1] if ends else 0) + len(error.content))
        except FormatError as error:
            damage = self._damage(first + len(contents), error)
        if damage is None and len(contents) > 1 and len(contents[-1]) > ARENA_BYTES:
            self._held.append(contents.pop())
        count = len(contents)
        behind = first + count
        self._starts[first:behind] = (array("q", [0]) + ends)[:count]
        self._ends[first:behind] = ends[:count]
        self.memory = memoryview(contents[0] if count == 1 else b"".join(contents))
        return behind, damage

    def _inflate(self, first: int, last: int, contents: list[Content], ends: array[int]) -> None:
        """Append the content of each row, and its end. What stays the same for many small batches is looked up once."""
        memory, max_bytes = self._memory, self._max_bytes
        size_bytes = ends[-1] if ends else 0
        inflate_codec = -1
        columns = (column[first:last] for column in (self._codecs, self._formats, self._starts, self._ends))
        for codec, batch_format, start, end in zip(*columns, strict=True):
            if size_bytes >= ARENA_BYTES:
                return
            if codec != inflate_codec:
                inflate = inflater(codec) if self._opener is None else partial(self._opener.inflate, codec)
                inflate_codec = codec
            if start < end:
                content = inflate(memory[start:end], batch_format, max_bytes)
            elif start < 0:
                raise FieldError("its key and value lengths do not fit, or it has no value to open")
            else:  # a batch that compaction emptied holds nothing to inflate
                content = b"" if batch_format == MAGIC_V2 else inflate(b"", batch_format, max_bytes)
            contents.append(content)
            size_bytes += len(content)
            ends.append(size_bytes)

    def _damage(self, row: int, error: FormatError) -> PayloadDamage:
        if self._starts[row] < 0:
            return PayloadDamage(row, "wrapper-value", str(error), 0)
        reason = next(name for kind, name in _INFLATE_ERRORS if isinstance(error, kind))
        return PayloadDamage(row, reason, f"{codec_name(self._codecs[row])}: {error}", 0)


class _WrapperOpener:
    """Opens wrappers of 0.7: what they hold, as a flat set of messages.

    All that is inflated on the way counts against the limit, not only what is left of it in the end: a level is held
    while those inside are read, and a hundred bytes can hold many wrappers of a megabyte of empty ones each.
    """

    def __init__(self) -> None:
        self._columns = BatchColumns(_V07_ROWS)
        self._left_bytes = 0
        self._trailing: TrailingError | None = None

    def inflate(self, codec: int, payload: Buffer, _format: int, max_bytes: int) -> Content:
        """All messages of one wrapper, however nested. An `Inflater` for its codec; raises what those raise."""
        self._left_bytes = max_bytes
        self._trailing = None
        content = self._flat(self._opened(codec, payload), depth=1)
        if self._trailing is not None:
            raise TrailingError(content, self._trailing.trailing_bytes, position=self._trailing.position)
        return content

    def _opened(self, codec: int, payload: Buffer) -> Content:
        content: Content
        try:
            content = inflater(codec)(payload, MAGIC_V0, self._left_bytes)
        except TrailingError as error:
            content, self._trailing = error.content, error
        self._left_bytes -= len(content)
        return content

    def _flat(self, content: Content, depth: int) -> Content:
        """Messages with every wrapper replaced by what it holds. A cut message at the end stays as it is."""
        if depth > V07_MAX_DEPTH:
            raise LimitError(f"wrappers are nested more than {V07_MAX_DEPTH} deep")
        messages = memoryview(content)
        end = len(messages)
        flat = bytearray()
        position = kept = 0
        columns = self._columns
        while True:
            _, position = kernels.walk_v07(messages, position, end, 0, 0, end, False, columns)
            if not columns.count:
                break
            for at, size_bytes, codec, start, stop in self._wrappers():
                flat += messages[kept:at]
                kept = at + size_bytes
                flat += memoryview(self._flat(self._opened(codec, messages[start:stop]), depth + 1))
        if not kept:
            return content
        flat += messages[kept:]
        return flat

    def _wrappers(self) -> list[tuple[int, ...]]:
        """Position, size, codec and payload of those messages in the columns that are wrappers themselves."""
        codecs = self._columns.column("codec")
        if not self._columns.has_any("codec"):
            return []
        names = ("position", "size_bytes", "codec", "payload_start", "payload_end")
        rows = zip(*map(self._columns.column, names), strict=True)
        return [row for row, codec in zip(rows, codecs, strict=True) if codec]


def decode_run(
    memory: memoryview,
    batches: BatchColumns,
    *,
    max_bytes: int,
    wanted: Callable[[int], bool] | None = None,
    records: RecordColumns | None = None,
) -> Iterator[RecordRun | PayloadDamage]:
    """Decode the records of a run in order.

    Args:
        memory: the buffer that the spans of `batches` refer to.
        batches: rows filled by a walk.
        max_bytes: the largest inflated payload of one batch.
        wanted: tells by row which batches to decode; the others are not even inflated.
        records: columns to use again.
    """
    columns = records or RecordColumns()
    codecs = batches.column("codec")
    arena: _Arena | None = None
    for first, last in _spans(batches, wanted):
        if codecs[first] == 0:
            yield from _decode(memory, batches, first, last, columns)
            continue
        arena = arena or _Arena(memory, batches, max_bytes)
        yield from _inflate_and_decode(arena, first, last, columns)


def _spans(batches: BatchColumns, wanted: Callable[[int], bool] | None) -> Iterator[tuple[int, int]]:
    """Runs of wanted rows that are all plain or all compressed."""
    codecs = batches.column("codec")
    if wanted is None and batches.count and not batches.has_any("codec"):
        yield 0, batches.count
        return
    first = 0
    is_open = False
    for row, codec in enumerate(codecs):
        is_wanted = wanted is None or wanted(row)
        if is_open and (not is_wanted or (codec == 0) != (codecs[first] == 0)):
            yield first, row
            is_open = False
        if is_wanted and not is_open:
            first, is_open = row, True
    if is_open:
        yield first, batches.count


def _inflate_and_decode(
    arena: _Arena, first: int, last: int, columns: RecordColumns
) -> Iterator[RecordRun | PayloadDamage]:
    while first < last:
        behind, damage = arena.fill(first, last)
        count = 0
        for item in _decode(arena.memory, arena.columns, first, behind, columns):
            if damage is not None and isinstance(item, RecordRun):
                count += item.records.column("batch").tolist().count(damage.batch)
            yield item
        if damage is not None:
            yield replace(damage, records_before=count)
            behind = damage.batch + 1
        first = behind


def decode_backwards(
    memory: memoryview, batches: BatchColumns, row: int, *, max_bytes: int, records: RecordColumns
) -> Iterator[RecordRun | PayloadDamage]:
    """Decode one batch from its last records to its first; rows of each `RecordRun` are still in ascending order.

    The kernel passes over the batch once and its states are kept; it is started again from each, the last one first.
    """
    damage = None
    if batches.column("codec")[row]:
        arena = _Arena(memory, batches, max_bytes)
        behind, damage = arena.fill(row, row + 1)
        if damage is not None and behind == row:
            yield damage
            return
        memory, batches = arena.memory, arena.columns
    state = _state_at(row)
    states = [state[:]]
    while (result := _decode_some(memory, batches, row + 1, state, records)) == kernels.DECODE_FULL:
        states.append(state[:])
    if result != kernels.DECODE_DONE:
        yield _payload_damage(batches, state, result)
    following = state[2]
    if damage is not None:
        yield replace(damage, records_before=following)
    for state in reversed(states):
        first = state[2]
        kernels.decode(memory, batches, row + 1, state, records)
        # the header columns may have grown behind this state: then the same call takes more records than before
        records.count = min(records.count, following - first)
        following = first
        if records.count:
            yield RecordRun(memory, batches, records)


def _decode(
    memory: memoryview, batches: BatchColumns, first: int, last: int, columns: RecordColumns
) -> Iterator[RecordRun | PayloadDamage]:
    """Rows `first` to `last` (exclusive), which all refer to `memory`."""
    state = _state_at(first)
    while state[0] < last:
        result = _decode_some(memory, batches, last, state, columns)
        if columns.count:
            yield RecordRun(memory, batches, columns)
        if result not in {kernels.DECODE_DONE, kernels.DECODE_FULL}:
            yield _payload_damage(batches, state, result)
            state = _state_at(state[0] + 1)


def _state_at(row: int) -> array[int]:
    """The kernel's state before the first record of a batch."""
    state = array("q", [0] * kernels.STATE_SIZE)
    state[0], state[1] = row, -1
    return state


def _decode_some(
    memory: memoryview, batches: BatchColumns, last: int, state: array[int], columns: RecordColumns
) -> int:
    """One call of the kernel, with room for the headers of its first record."""
    while True:
        result = kernels.decode(memory, batches, last, state, columns)
        if result != kernels.DECODE_GROW or columns.headers.count > MAX_HEADERS:
            return result
        columns.grow_headers(columns.headers.count)


def _payload_damage(batches: BatchColumns, state: array[int], result: int) -> PayloadDamage:
    row, ordinal = state[0], state[2]
    reason = kernels.DECODE_ERRORS[result] if result > 0 else "headers-limit"
    count = batches.column("record_count")[row]
    of_all = f" of {count}" if count >= 0 else ""
    detail = f"record {ordinal + 1}{of_all} cannot be read, though the checksum agrees"
    return PayloadDamage(row, reason, detail, ordinal)
