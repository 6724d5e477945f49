"""Batches in the wrong order, or with offsets that their records or neighbours contradict: nothing else is wrong.

- Two neighbouring batches in the wrong order, such as after a copy by hand. Where each continues the other, and both
  together continue the batches around them, they are put in order.
- A run of batches of which each continues the one before, but the first does not continue what is before the run. If
  the whole run fits exactly between the batches around it, or begins below the end of the log before it and nothing
  follows, its offsets are moved. One such batch alone is not of this kind: `replacements` mends its header.

A broker takes them as they are, or empties the segment at an index entry that would not ascend. A consumer skips what
is below the offset that it expects: its next fetch starts after the highest one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.decode import RecordRun, decode_batch
from kafkalog_core.format.layout import (
    LOG_OVERHEAD,
    MAGIC_V2,
    MAX_BATCH_BYTES,
    MAX_INT32,
    MAX_INT64,
    RECORD_BATCH_OVERHEAD,
    V2_ATTRIBUTES,
    V2_BASE_TIMESTAMP,
    V2_CRC,
    V2_LAST_OFFSET_DELTA,
    V2_RECORDS_COUNT,
)
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.kafka.sim.batch_places import PlaceBounds

__all__ = [
    "ExchangedBatches",
    "exchanged_batches",
    "in_order",
    "moved_batches",
    "offsets_in",
    "with_offsets_from",
    "with_right_end",
    "wrong_ends",
]

_MOST_MOVED_BYTES: Final = 64 << 20
"""The bytes of a run are in memory until the plan is made."""
_DELTA: Final = slice(V2_LAST_OFFSET_DELTA, V2_BASE_TIMESTAMP)
_COUNT: Final = slice(V2_RECORDS_COUNT, RECORD_BATCH_OVERHEAD)


class _Batch(NamedTuple):
    start: int
    end: int
    first_offset: int
    last_offset: int
    format: int
    crc: int
    record_count: int

    @property
    def has_first_offset(self) -> bool:
        """Whether its header shows its first offset: that of a compressed message of magic 0 and 1 does not."""
        return self.format >= MAGIC_V2 or self.first_offset == self.last_offset

    @property
    def highest_first(self) -> int:
        """Its first offset, or the highest one that it can have."""
        return self.first_offset if self.has_first_offset else self.last_offset


class _Run(NamedTuple):
    """Rows of batches, the second number exclusive, and what has to be added to their offsets."""

    begin: int
    end: int
    shift: int


class ExchangedBatches(NamedTuple):
    """The place of two exchanged batches, and the offsets of both together."""

    start: int
    end: int
    first_offset: int
    last_offset: int


def exchanged_batches(path: str, base_offset: int, start: int) -> ExchangedBatches | None:
    """Return the place of the batch at a byte and of the neighbour that it was exchanged with; None: it was not.

    Raises StorageError.
    """
    batches = _batches(path, base_offset)
    for number, (one, other) in enumerate(pairwise(batches)):
        if start not in {one.start, other.start} or one.end != other.start:
            continue
        before = batches[number - 1].last_offset if number else None
        after = batches[number + 2].first_offset if number + 2 < len(batches) else None
        # The first offset of a compressed message of magic 0 and 1 is not in its header (-1): it continues nothing
        follows = other.first_offset >= 0 and (before is None or before + 1 == other.first_offset)
        is_followed = after is None or one.last_offset + 1 == after
        if follows and other.last_offset + 1 == one.first_offset and is_followed:
            return ExchangedBatches(one.start, other.end, other.first_offset, one.last_offset)
    return None


def in_order(path: str, base_offset: int, start: int, end: int) -> bytes:
    """Return the two batches between two bytes in the order of their offsets. Raises StorageError."""
    own = [each for each in _batches(path, base_offset) if start <= each.start < end]
    with Source.open(path) as source:
        return b"".join(bytes(source.read(each.start, each.end - each.start)) for each in reversed(own))


def moved_batches(path: str, bounds: PlaceBounds, end_before: int | None) -> dict[int, str]:
    """Return the batches of runs whose offsets are moved, by position, each with the offset that its run begins at.

    Empty: no such runs explain all offsets of the segment that do not ascend. Raises StorageError.

    Args:
        path: of the log of the segment.
        bounds: what bounds its offsets.
        end_before: the offset after the last batch of the segment before it; None: there is none.
    """
    batches = _batches(path, bounds.base_offset)
    runs = [*_runs(batches, bounds, end_before)] if all(each.has_first_offset for each in batches) else []
    if not any(run.end - run.begin > 1 for run in runs) or not _ascend(batches, runs, bounds):
        return {}
    own = [batches[row] for run in runs for row in range(run.begin, run.end)]
    identities = {each[2:6] for each in own}
    # Such as an append that was written twice: with other offsets its records would be in the log twice
    if len(identities) < len(own) or sum(each[2:6] in identities for each in batches) > len(own):
        return {}
    if any(batches[run.end - 1].end - batches[run.begin].start > _MOST_MOVED_BYTES for run in runs):
        return {}
    found = {}
    for run in runs:
        first = batches[run.begin].first_offset
        what = f"the offsets of {run.end - run.begin} batches begin at {first}, where {first + run.shift} was expected"
        found.update({batches[row].start: what for row in range(run.begin, run.end)})
    return found


def _runs(batches: Sequence[_Batch], bounds: PlaceBounds, end_before: int | None) -> Iterator[_Run]:
    """Yield the runs between two steps of the offsets that are equal and opposite, and the one that ends the log."""
    steps, expected = [], bounds.base_offset
    for row, batch in enumerate(batches):
        steps.append((row, batch.first_offset - expected))
        expected = batch.last_offset + 1
    if bounds.next_base is not None:
        steps.append((len(batches), bounds.next_base - expected))
    odd = [each for each in steps if each[1]]
    while odd:
        (row, step), *odd = odd
        if odd and odd[0][1] == -step:
            yield _Run(row, odd.pop(0)[0], -step)
        # A last segment that begins below its name may have the wrong one, unless the segment before it ends there
        elif not odd and step < 0 and bounds.next_base is None and (row or end_before == bounds.base_offset):
            yield _Run(row, len(batches), -step)


def _ascend(batches: Sequence[_Batch], runs: Sequence[_Run], bounds: PlaceBounds) -> bool:
    """Return whether all offsets ascend within the segment when those of the runs are corrected."""
    shifts = {row: run.shift for run in runs for row in range(run.begin, run.end)}
    end = bounds.base_offset
    for row, batch in enumerate(batches):
        if batch.highest_first + shifts.get(row, 0) < end:
            return False
        end = batch.last_offset + shifts.get(row, 0) + 1
    return end <= bounds.end


def wrong_ends(path: str, bounds: PlaceBounds) -> dict[int, str]:
    """Return the batches of magic 2 whose last offset is wrong, by position, each with what is wrong.

    Empty: none is, or the offsets of the segment do not ascend for another reason. Raises StorageError.
    """
    found, batches = {}, _batches(path, bounds.base_offset)
    with Source.open(path) as source:
        for row, batch in enumerate(batches):
            following = batches[row + 1].highest_first if row + 1 < len(batches) else bounds.end
            if batch.format < MAGIC_V2 or batch.first_offset <= batch.last_offset < following:
                continue
            # The records that the header counts, unless the next batch leaves no room for them
            room = following - batch.first_offset
            count = batch.record_count if 0 < batch.record_count <= room else room
            content = with_right_end(source.read(batch.start, batch.end - batch.start), count)
            if content is not None:
                right = batch.first_offset + int.from_bytes(content[_DELTA], "big")
                found[batch.start] = f"its header says that it ends at offset {batch.last_offset}, not {right}"
                batches[row] = batch._replace(last_offset=right)
    return found if found and _ascend(batches, (), bounds) else {}


def with_right_end(content: bytes, count: int) -> bytes | None:
    """Return a batch of magic 2 that ends where its records do; None: where that is cannot be read.

    Its records are `count` consecutive ones, or as many as its header counts, with the gaps that compaction leaves.
    """
    first = int.from_bytes(content[:8], "big", signed=True)
    if 0 < count <= MAX_INT32:
        batch = _with_header(content, count - 1, count)
        if offsets_in(batch) == [*range(first, first + count)]:
            return bytes(batch)
    counted = int.from_bytes(content[_COUNT], "big")
    offsets = offsets_in(_with_header(content, MAX_INT32, counted)) if counted <= MAX_INT32 else []
    ascends = all(one < other for one, other in pairwise([first - 1, *offsets]))
    is_right = 0 < len(offsets) == counted and ascends
    return bytes(_with_header(content, offsets[-1] - first, counted)) if is_right else None


def _with_header(content: bytes, last_offset_delta: int, record_count: int) -> bytearray:
    batch = bytearray(content)
    batch[_DELTA], batch[_COUNT] = last_offset_delta.to_bytes(4, "big"), record_count.to_bytes(4, "big")
    batch[V2_CRC:V2_ATTRIBUTES] = crc32c(memoryview(batch)[V2_ATTRIBUTES:]).to_bytes(4, "big")
    return batch


def offsets_in(entry: bytearray) -> list[int]:
    """Return the offsets of the records of a batch or message; none: not all of it can be read."""
    batches, memory = BatchColumns(2), memoryview(entry)
    kernels.walk(memory, 0, len(entry), 0, -MAX_INT64, MAX_BATCH_BYTES, False, batches)
    offsets: list[int] = []
    for item in decode_batch(memory, batches, 0, max_bytes=MAX_BATCH_BYTES) if batches.count else ():
        if not isinstance(item, RecordRun):
            return []
        offsets += item.records.column("offset")
    return offsets


def with_offsets_from(first_offset: int, batches: bytes) -> bytes:
    """Return whole batches with offsets that begin at another one: no checksum covers the base offset."""
    content, position = bytearray(batches), 0
    shift = first_offset - int.from_bytes(content[:8], "big", signed=True)
    while position < len(content):
        offset = int.from_bytes(content[position : position + 8], "big", signed=True)
        content[position : position + 8] = (offset + shift).to_bytes(8, "big", signed=True)
        position += LOG_OVERHEAD + int.from_bytes(content[position + 8 : position + LOG_OVERHEAD], "big")
    return bytes(content)


def _batches(path: str, base_offset: int) -> list[_Batch]:
    """Return the readable batches of a log."""
    names = ("position", "size_bytes", "base_offset", "last_offset", "format", "crc_stored", "record_count")
    found: list[_Batch] = []
    with Source.open(path) as source:
        for item in scan(source, base_offset=base_offset, options=ScanOptions(resync=True)):
            if isinstance(item, Run):
                rows = zip(*map(item.batches.column, names), strict=True)
                found += [_Batch(at, at + size, *rest) for at, size, *rest in rows]
    return found
