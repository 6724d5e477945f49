"""From a run of batches to columns of records: bounded decompression, one kernel call for many batches.

Plain batches are decoded in the file's window; compressed ones are first decompressed one after the other into an
arena, so that a run of small batches also costs one kernel call. A batch that cannot be decoded is a value
(`PayloadDamage`), not an exception: the records before it are yielded first, and the next batch follows.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.format import kernels
from kafkalog_core.format.columns import BatchColumns, RecordColumns
from kafkalog_core.format.compression import Arena, PayloadDamage, codec_name, first_offset, lost_offsets
from kafkalog_core.format.layout import MAX_INT32, MAX_INT64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "Contradiction",
    "PayloadDamage",
    "RecordRun",
    "codec_name",
    "damage_at",
    "decode_backwards",
    "decode_run",
    "decode_some",
    "header_contradictions",
    "records_outside",
    "state_at",
]


GROUP_BYTES: Final = 64 * 1024  # of compressed batches that are decompressed together in `decode_backwards`
MAX_HEADERS: Final = 1024 * 1024  # of one record; each takes 32 bytes in the columns


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Decoded records; `records` refers to `memory` and to rows of `batches`. Valid until the next run is requested."""

    memory: memoryview
    batches: BatchColumns
    records: RecordColumns


def decode_run(
    memory: memoryview,
    batches: BatchColumns,
    *,
    max_bytes: int,
    wanted: Callable[[int], bool] | None = None,
    records: RecordColumns | None = None,
) -> Iterator[RecordRun | PayloadDamage]:
    """Yield the decoded records of a run in order.

    Args:
        memory: the buffer that the spans of `batches` refer to.
        batches: rows filled by a walk.
        max_bytes: the largest decompressed payload of one batch.
        wanted: returns for a row whether to decode the batch; other batches are not decompressed.
        records: columns to reuse.
    """
    columns = records or RecordColumns()
    codecs = batches.column("codec")
    arena: Arena | None = None
    for first, last in _spans(batches, wanted):
        if codecs[first] == 0:
            yield from _decode(memory, batches, first, last, columns)
            continue
        arena = arena or Arena(memory, batches, max_bytes)
        yield from _inflate_and_decode(arena, first, last, columns)


def _spans(batches: BatchColumns, wanted: Callable[[int], bool] | None) -> Iterator[tuple[int, int]]:
    """Yield runs (first row, row after the last) of wanted batches that are all plain or all compressed."""
    codecs = batches.column("codec")
    if wanted is None and batches.count and batches.holds_only("codec", codecs[0]):
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
    arena: Arena, first: int, last: int, columns: RecordColumns
) -> Iterator[RecordRun | PayloadDamage]:
    while first < last:
        end, damage = arena.fill(first, last)
        count = 0
        for item in _decode(arena.memory, arena.columns, first, end, columns):
            if damage is not None and isinstance(item, RecordRun):
                count += item.records.column("batch").tolist().count(damage.batch)
            yield item
        if damage is not None:
            yield replace(damage, records_before=count)
            end = damage.batch + 1
        first = end


def decode_backwards(
    memory: memoryview,
    batches: BatchColumns,
    *,
    max_bytes: int,
    wanted: Callable[[int], bool] | None = None,
    records: RecordColumns | None = None,
) -> Iterator[RecordRun | PayloadDamage]:
    """Yield the same as `decode_run`, from the last run to the first; the rows of each run are in ascending order."""
    columns = records or RecordColumns()
    codecs, sizes = batches.column("codec"), batches.column("size_bytes")
    arena: Arena | None = None
    for first, last in reversed(list(_spans(batches, wanted))):
        if codecs[first] == 0:
            yield from _decode_backwards(memory, batches, first, last, columns)
            continue
        arena = arena or Arena(memory, batches, max_bytes)
        for start, stop in _groups_backwards(sizes, first, last):
            yield from _inflate_backwards(arena, start, stop, columns)


def _groups_backwards(sizes: memoryview, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield groups of rows `first` to `last` (exclusive) from the end: at most GROUP_BYTES, but at least one row."""
    start = stop = last
    group_bytes = 0
    while start > first:
        start -= 1
        group_bytes += sizes[start]
        if start == first or group_bytes + sizes[start - 1] > GROUP_BYTES:
            yield start, stop
            stop, group_bytes = start, 0


def _inflate_backwards(
    arena: Arena, first: int, last: int, columns: RecordColumns
) -> Iterator[RecordRun | PayloadDamage]:
    """Decompress a group at once, or in halves if its content does not fit into the arena."""
    end, damage = arena.fill(first, last)
    if last - first > 1 and (end < last or damage is not None):
        middle = (first + last) // 2
        yield from _inflate_backwards(arena, middle, last, columns)
        yield from _inflate_backwards(arena, first, middle, columns)
        return
    if damage is not None:
        count = 0
        if end > first:
            items = _decode(arena.memory, arena.columns, first, last, columns)
            count = sum(item.records.count for item in items if isinstance(item, RecordRun))
        yield replace(damage, records_before=count)
    yield from _decode_backwards(arena.memory, arena.columns, first, end, columns)


def _decode_backwards(
    memory: memoryview, batches: BatchColumns, first: int, last: int, columns: RecordColumns
) -> Iterator[RecordRun | PayloadDamage]:
    """Decode the rows once and keep the state before each call; then repeat the calls, the last one first.

    The header columns may have grown after a state was kept, so that the repeated call decodes more records: the count
    is kept with the state.
    """
    stops: list[tuple[array[int], int] | PayloadDamage] = []
    state = state_at(first)
    next_offset: int | None = None
    while state[0] < last:
        before = state[:]
        result = decode_some(memory, batches, last, state, columns)
        if columns.count:
            stops.append((before, columns.count))
            next_offset = columns.column("next_offset")[-1]
        if result not in {kernels.DECODE_DONE, kernels.DECODE_FULL}:
            stops.append(damage_at(batches, state, result, next_offset))
            state = state_at(state[0] + 1)
    for stop in reversed(stops):
        if isinstance(stop, PayloadDamage):
            yield stop
            continue
        before, count = stop
        kernels.decode(memory, batches, last, before, columns)
        columns.count = count
        yield RecordRun(memory, batches, columns)


def _decode(
    memory: memoryview, batches: BatchColumns, first: int, last: int, columns: RecordColumns
) -> Iterator[RecordRun | PayloadDamage]:
    """Yield the records of rows `first` to `last` (exclusive), which all refer to `memory`."""
    state = state_at(first)
    next_offset: int | None = None
    while state[0] < last:
        result = decode_some(memory, batches, last, state, columns)
        if columns.count:
            next_offset = columns.column("next_offset")[-1]
            yield RecordRun(memory, batches, columns)
        if result not in {kernels.DECODE_DONE, kernels.DECODE_FULL}:
            yield damage_at(batches, state, result, next_offset)
            state = state_at(state[0] + 1)


def state_at(row: int) -> array[int]:
    """Return the kernel's state before the first record of a batch."""
    state = array("q", [0] * kernels.STATE_SIZE)
    state[0], state[1] = row, -1
    return state


def decode_some(memory: memoryview, batches: BatchColumns, last: int, state: array[int], columns: RecordColumns) -> int:
    """Call the kernel once, with room for the headers of its first record. Return its DECODE number."""
    while True:
        result = kernels.decode(memory, batches, last, state, columns)
        if result != kernels.DECODE_GROW or columns.headers.count > MAX_HEADERS:
            return result
        columns.grow_headers(columns.headers.count)


def damage_at(batches: BatchColumns, state: array[int], result: int, next_offset: int | None) -> PayloadDamage:
    """Return the damage of the batch in `state`. `next_offset`: the offset after the last decoded record, if any."""
    row, ordinal = state[0], state[2]
    reason = kernels.DECODE_ERRORS[result] if result > 0 else "headers-limit"
    count = batches.column("record_count")[row]
    if 0 <= count <= ordinal:
        detail = f"bytes follow the last of its {count} records"
    else:
        of_all = f" of {count}" if count >= 0 else ""
        detail = f"record {ordinal + 1}{of_all} cannot be read"
    lost_from = next_offset if ordinal else first_offset(batches, row)
    lost = lost_offsets(batches, row, lost_from)
    return PayloadDamage(row, reason, f"{detail}, although the checksum is correct{lost}", ordinal, lost_from)


class Contradiction(NamedTuple):
    """A header (row `batch`) with values that contradict each other; `reason`: a reason of damage."""

    batch: int
    reason: str
    detail: str


def header_contradictions(batches: BatchColumns) -> Iterator[Contradiction]:
    """Yield the contradictions within the headers, by row. Healthy batches cost one kernel call."""
    row = kernels.find_contradiction(batches, 0)
    while row < batches.count:
        base, last = batches.column("base_offset")[row], batches.column("last_offset")[row]
        yield Contradiction(row, "header-contradiction", _sentence(base, last, batches.column("record_count")[row]))
        row = kernels.find_contradiction(batches, row + 1)


def _sentence(base: int, last: int, count: int) -> str:
    if count < 0:
        return f"its header counts {count} records"
    if last < base and last + 2 * (MAX_INT64 + 1) - base <= MAX_INT32:
        return f"its offsets start at {base} and exceed 2^63-1, the largest offset"
    if last < base:
        return f"its header has base offset {base} and last offset {last}, which is lower"
    return f"its header counts {count} records in the {last - base + 1} offsets {base} to {last}"


def records_outside(batches: BatchColumns, records: RecordColumns) -> Iterator[Contradiction]:
    """Yield each batch that has a record outside the batch's offsets, once."""
    rows, offsets = records.column("batch"), records.column("offset")
    row = kernels.find_outside(batches, records, 0)
    while row < records.count:
        batch = rows[row]
        base, last = batches.column("base_offset")[batch], batches.column("last_offset")[batch]
        outside = f"a record in it has offset {offsets[row]}, outside the batch's offsets, {base} to {last}"
        yield Contradiction(batch, "record-offset", outside)
        while row < records.count and rows[row] == batch:
            row += 1
        row = kernels.find_outside(batches, records, row)
