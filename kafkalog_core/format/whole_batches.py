"""Runs of batches decoded so that a call of the cleaner's kernels finds every record of a batch, as far as can be.

Batches that a caller passes over are not opened: what is wrong with them is nobody's trouble, as for a broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.format import kernels
from kafkalog_core.format.arena import Arena
from kafkalog_core.format.columns import RECORD_ROWS
from kafkalog_core.format.decode import damage_at, decode_some, state_at
from kafkalog_core.format.kernels.clean_numbers import BIT_DISCARD, BITS_REMOVED

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kafkalog_core.format.arena import PayloadDamage
    from kafkalog_core.format.columns import BatchColumns, RecordColumns

__all__ = ["CLEAN_ROWS", "Piece", "whole_batches"]

CLEAN_ROWS: Final = 2 * RECORD_ROWS
"""Records that are judged at a time. Larger batches are read twice, if something of them goes."""
TRAILING: Final = "payload-trailing"
"""What a broker reads over without a word: bytes behind those that hold the records."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Batches `first` to `last` (exclusive), whose records are in the columns.

    Attributes:
        memory: the buffer that the records refer to.
        batches: the batch columns, with the payloads of these batches in `memory`.
        first: row of the first batch.
        last: row behind the last one.
        is_whole: false: only a part of the records of one large batch; the others are in the next pieces.
    """

    memory: memoryview
    batches: BatchColumns
    first: int
    last: int
    is_whole: bool = True


def whole_batches(
    memory: memoryview, batches: BatchColumns, bits: bytes, records: RecordColumns, *, max_bytes: int, first: int = 0
) -> Iterator[Piece | PayloadDamage]:
    """All batches from row `first` on, piece by piece, or up to one that cannot be read, which ends it.

    Args:
        memory: the buffer that the spans of `batches` refer to.
        batches: rows filled by a walk.
        bits: the `BIT_*` of each, a byte each; those with BIT_DISCARD alone are passed over.
        records: columns to fill; no record is in them where batches are passed over.
        max_bytes: the largest inflated payload of one batch.
        first: row to start with.
    """
    codecs = batches.column("codec")
    arena: Arena | None = None
    while first < batches.count:
        last = kernels.take_rows(batches, bits, first, batches.count, records.capacity)
        if bits[first] & BITS_REMOVED == BIT_DISCARD:
            records.count = 0
            yield Piece(memory, batches, first, last)
        elif codecs[first] == 0:
            if (yield from _decoded(memory, batches, first, last, records)):
                return
        else:
            arena = arena or Arena(memory, batches, max_bytes)
            if (yield from _inflated(arena, first, last, records)):
                return
        first = last


def _inflated(
    arena: Arena, first: int, last: int, records: RecordColumns
) -> Generator[Piece | PayloadDamage, None, bool]:
    """Compressed batches; gives whether one of them ended it."""
    while first < last:
        behind, damage = arena.fill(first, last)
        if (yield from _decoded(arena.memory, arena.columns, first, behind, records)):
            return True
        if damage is not None and damage.reason != TRAILING:
            yield damage
            return True
        first = behind
    return False


def _decoded(
    memory: memoryview, batches: BatchColumns, first: int, last: int, records: RecordColumns
) -> Generator[Piece | PayloadDamage, None, bool]:
    """Batches that all refer to `memory`; gives whether one of them ended it."""
    state, behind = state_at(first), last
    while first < last:
        result = decode_some(memory, batches, behind, state, records)
        batch, ordinal = state[0], state[2]
        if result == kernels.DECODE_DONE:
            yield Piece(memory, batches, first, behind)
            first, behind = behind, last
            state = state_at(first)
        elif result == kernels.DECODE_FULL and batch == first:  # larger than the columns: by itself, in parts
            yield Piece(memory, batches, first, first + 1, is_whole=False)
            behind = first + 1
        else:
            if batch > first:
                records.count -= ordinal
                yield Piece(memory, batches, first, batch)
            if result != kernels.DECODE_FULL:
                yield damage_at(batches, state, result, None)
                return True
            first, state = batch, state_at(batch)
    return False
