"""What a scan gives out: runs of whole entries, and damage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.columns import BatchColumns, DamageColumns

__all__ = ["Damage", "Run", "crc_mismatch", "offset_order", "one_by_one"]


@dataclass(frozen=True, slots=True)
class Run:
    """Whole entries in a row; spans in `batches` refer to `memory`. Valid until the next item is asked for.

    `begins` is the byte of the file that `memory` starts with; null: the first batch does.
    With `ScanOptions.bulk_after` the run may have `damaged` entries between its whole ones, before and behind them, and
    even nothing else.
    """

    memory: memoryview
    batches: BatchColumns
    resynced: bool
    damaged: DamageColumns | None = None
    begins: int | None = None

    def start_of(self, row: int) -> int:
        """The byte of `memory` that a batch starts at."""
        positions = self.batches.column("position")
        start: int = positions[row] - (positions[0] if self.begins is None else self.begins)
        return start


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no batch. `reason` is a stable word; `next_offset` what would be expected here, where it is known.

    Reasons: torn-tail, zero-filled, bad-length, unknown-magic, crc-mismatch, over-limit, unreadable, offset-order.
    """

    position: int
    size_bytes: int
    reason: str
    detail: str
    next_offset: int | None


def crc_mismatch(stored: int, computed: int) -> str:
    """The detail of a wrong checksum."""
    return f"checksum stored {stored:#010x}, computed {computed:#010x}"


def offset_order(position: int, first: int, last: int, expected: int) -> Damage:
    """What is said of a whole batch whose offsets were there before; `first` is negative where nobody knows it."""
    offsets = f"offset {last}" if first < 0 else f"offsets {first} to {last}"
    detail = f"{offsets}, where {expected} or more was expected: offsets go back"
    return Damage(position, 0, "offset-order", detail, expected)


def one_by_one(run: Run, *, knows_offset: bool) -> Iterator[Run | Damage]:
    """A run with damaged entries as items without; `knows_offset`: whether what came before the run tells an offset."""
    damaged, begun = run.damaged, 0
    columns = () if damaged is None else [damaged.column(name) for name in damaged.fields]
    for position, size_bytes, row, previous, first, second in zip(*columns, strict=True):
        if row > begun:
            yield _part(run, begun, row)
            begun = row
        if size_bytes:
            next_offset = previous + 1 if row or knows_offset else None
            yield Damage(position, size_bytes, "crc-mismatch", crc_mismatch(first, second), next_offset)
        else:
            yield offset_order(position, first, second, previous + 1)
    if begun < run.batches.count:
        yield _part(run, begun, run.batches.count)


def _part(run: Run, first: int, last: int) -> Run:
    return Run(run.memory, run.batches.part(first, last), run.resynced, begins=run.begins)
