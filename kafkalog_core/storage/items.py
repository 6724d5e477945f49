"""What a scan gives out: runs of whole entries, and damage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.format.columns import BatchColumns, DamageColumns

__all__ = [
    "BATCHES_TO_JUDGE",
    "Damage",
    "Run",
    "batch_too_high",
    "crc_mismatch",
    "last_places",
    "offset_order",
    "one_by_one",
]

BATCHES_TO_JUDGE: Final = 3
"""How many of the last batches `batch_too_high` looks at: one with wrong offsets is seen when the next one has come."""


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

    `is_zeros`: every one of the bytes is zero, up to the end of the file, as preallocated space is.
    Reasons: torn-tail, zero-filled, bad-length, unknown-magic, crc-mismatch, over-limit, unreadable, offset-order.
    """

    position: int
    size_bytes: int
    reason: str
    detail: str
    next_offset: int | None
    is_zeros: bool = False

    @property
    def is_plain_tail(self) -> bool:
        """Whether a log that ends here ends as a crash or preallocation leaves it: in a torn append, or in zeros alone.

        If other bytes follow the zeros, there was data, and it is unknown which.
        """
        return self.reason == "torn-tail" or self.is_zeros


def crc_mismatch(stored: int, computed: int) -> str:
    """The detail of a wrong checksum."""
    return f"checksum stored {stored:#010x}, computed {computed:#010x}"


def offset_order(position: int, first: int, last: int, expected: int) -> Damage:
    """What is said of a whole batch whose offsets were there before; `first` is negative where nobody knows it."""
    offsets = f"offset {last}" if first < 0 else f"offsets {first} to {last}"
    detail = f"{offsets}, where {expected} or more was expected: offsets go back"
    return Damage(position, 0, "offset-order", detail, expected)


def last_places(batches: BatchColumns) -> Iterator[tuple[int, ...]]:
    """Yield position, first and last offset of the last batches of a run, as many as `batch_too_high` asks for."""
    columns = (batches.column(name)[-BATCHES_TO_JUDGE:] for name in ("position", "base_offset", "last_offset"))
    yield from zip(*columns, strict=True)


def batch_too_high(last: Sequence[tuple[int, ...]]) -> tuple[int, int] | None:
    """Return position and last offset of the batch whose offsets are too high, where offsets go back after it.

    Args:
        last: position, first and last offset of the last three batches before the place, of which the last one has
            the lower offsets; fewer, where there are none.

    Returns:
        None: it is the last batch itself that is out of place. The one before it is, where offsets rise without it, and
        where they leave room for it.
    """
    if len(last) < BATCHES_TO_JUDGE:
        return None
    (_, _, last_before), (position, first, end), (_, first_behind, last_behind) = last
    span = 0 if first < 0 else max(end - first, 0)
    lowest_behind = last_behind if first_behind < 0 else first_behind
    return (position, end) if lowest_behind > last_before + 1 + span else None


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
