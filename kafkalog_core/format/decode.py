"""From a run of batches to columns of records: bounded decompression, one kernel call for many batches.

Plain batches are decoded where they lie in the window; compressed ones are inflated one behind the other into an
arena, so that a run of small batches costs one kernel call too. What cannot be decoded is a value
(`PayloadDamage`), not an exception: the records before it have been given out, and the next batch follows.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FormatError, LimitError, TruncatedError
from kafkalog_core.format import kernels
from kafkalog_core.format.columns import FORMAT_V07, BatchColumns, RecordColumns
from kafkalog_core.format.compression import decompress
from kafkalog_core.format.layout import (
    CODEC_NAMES,
    MAGIC_V0,
    MAGIC_V2,
    V07_MAX_DEPTH,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["PayloadDamage", "RecordRun", "codec_name", "decode_backwards", "decode_run"]

ARENA_BYTES: Final = 1024 * 1024
MAX_HEADERS: Final = 1024 * 1024  # of one record; 32 bytes each in the columns
_INFLATE_ERRORS: Final = (
    (LimitError, "payload-limit"),
    (TruncatedError, "payload-truncated"),
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
    """The batch in row `batch` has a good checksum, but not all of its records can be read; `records_before` were."""

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
        self.bytes = bytearray()
        self.columns = batches.copy()
        self._memory = memory
        self._max_bytes = max_bytes
        self._starts, self._ends = self.columns.column("payload_start"), self.columns.column("payload_end")
        self._formats, self._codecs = self.columns.column("format"), self.columns.column("codec")

    def clear(self) -> None:
        """Start anew; what was given out keeps the old bytes."""
        self.bytes = bytearray()

    def inflate(self, row: int) -> PayloadDamage | None:
        """Inflate the payload of a row, whose span points into the arena then."""
        start, end = self._starts[row], self._ends[row]
        codec, batch_format = self._codecs[row], self._formats[row]
        if start < 0:
            detail = "its key and value lengths do not fit, or it has no value to open"
            return PayloadDamage(row, "wrapper-value", detail, 0)
        payload: bytes | bytearray | memoryview = b""
        if start < end or batch_format != MAGIC_V2:  # a batch that compaction emptied holds nothing to inflate
            try:
                payload = _inflated(self._memory[start:end], codec, batch_format, self._max_bytes)
            except FormatError as error:
                reason = next(name for kind, name in _INFLATE_ERRORS if isinstance(error, kind))
                return PayloadDamage(row, reason, f"{codec_name(codec)}: {error}", 0)
        self._starts[row] = len(self.bytes)
        self.bytes += payload
        self._ends[row] = len(self.bytes)
        return None


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
    if wanted is None and batches.count and not any(codecs):
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
    arena.clear()
    for row in range(first, last):
        damage = arena.inflate(row)
        if damage is not None or len(arena.bytes) >= ARENA_BYTES:
            inflated = row if damage is not None else row + 1
            yield from _decode(memoryview(arena.bytes), arena.columns, first, inflated, columns)
            if damage is not None:
                yield damage
            arena.clear()
            first = row + 1
    yield from _decode(memoryview(arena.bytes), arena.columns, first, last, columns)


def _inflated(payload: memoryview, codec: int, batch_format: int, max_bytes: int) -> bytes | bytearray | memoryview:
    """The records of one compressed payload; of a 0.7 wrapper the flat set of all messages inside, however nested.

    Raises FormatError (LimitError, TruncatedError, UnsupportedError, FieldError).
    """
    if batch_format != FORMAT_V07:
        return decompress(codec, payload, magic=batch_format, limit_bytes=max_bytes)
    inflated = decompress(codec, payload, magic=MAGIC_V0, limit_bytes=max_bytes)
    return _flatten_v07(memoryview(inflated), max_bytes, depth=1)


def _flatten_v07(messages: memoryview, max_bytes: int, depth: int) -> bytes | bytearray | memoryview:
    """Messages of a 0.7 set with every wrapper replaced by what it holds. A cut message at the end stays as it is."""
    if depth > V07_MAX_DEPTH:
        raise LimitError(f"wrappers are nested more than {V07_MAX_DEPTH} deep")
    columns = BatchColumns(512)
    flat = bytearray()
    position = kept = 0
    while True:
        _, next_position = kernels.walk_v07(messages, position, len(messages), 0, 0, max_bytes, False, columns)
        if not columns.count:
            break
        for row, codec in enumerate(columns.column("codec")):
            if codec == 0:
                continue
            at = columns.column("position")[row]
            flat += messages[kept:at]
            kept = at + columns.column("size_bytes")[row]
            span = messages[columns.column("payload_start")[row] : columns.column("payload_end")[row]]
            inner = decompress(codec, span, magic=MAGIC_V0, limit_bytes=max_bytes - len(flat))
            flat += _flatten_v07(memoryview(inner), max_bytes - len(flat), depth + 1)
        position = next_position
    if not kept:
        return messages
    flat += messages[kept:]
    return flat


def decode_backwards(
    memory: memoryview, batches: BatchColumns, row: int, *, max_bytes: int, records: RecordColumns
) -> Iterator[RecordRun | PayloadDamage]:
    """Decode one batch from its last records to its first; rows of each `RecordRun` are still in ascending order.

    The kernel passes over the batch once and its states are kept; it is started again from each, the last one first.
    """
    if batches.column("codec")[row]:
        arena = _Arena(memory, batches, max_bytes)
        damage = arena.inflate(row)
        if damage is not None:
            yield damage
            return
        memory, batches = memoryview(arena.bytes), arena.columns
    state = _state_at(row)
    states = [state[:]]
    while (result := _decode_some(memory, batches, row + 1, state, records)) == kernels.DECODE_FULL:
        states.append(state[:])
    if result != kernels.DECODE_DONE:
        yield _payload_damage(batches, state, result)
    following = state[2]
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
