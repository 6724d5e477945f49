"""Batches of magic 2 under a good checksum that lie: headers that contradict themselves, records outside of them.

A whole batch with such a header is read all the same. What is normal is not told: a batch that compaction has thinned
out holds fewer records than its offsets span, or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.format import kernels
from kafkalog_core.format.layout import MAX_INT32, MAX_INT64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.columns import BatchColumns, RecordColumns

__all__ = ["Contradiction", "header_contradictions", "records_outside"]


class Contradiction(NamedTuple):
    """The batch in row `batch` says what cannot be true; `reason` is a word of the catalogue of damage."""

    batch: int
    reason: str
    detail: str


def header_contradictions(batches: BatchColumns) -> Iterator[Contradiction]:
    """Those that the headers alone show, by row. Healthy batches cost one pass of a kernel."""
    row = kernels.find_contradiction(batches, 0)
    while row < batches.count:
        base, last = batches.column("base_offset")[row], batches.column("last_offset")[row]
        yield Contradiction(row, "header-contradiction", _sentence(base, last, batches.column("record_count")[row]))
        row = kernels.find_contradiction(batches, row + 1)


def _sentence(base: int, last: int, count: int) -> str:
    if count < 0:
        return f"its header counts {count} records"
    if last < base and last + 2 * (MAX_INT64 + 1) - base <= MAX_INT32:
        return f"its offsets start at {base} and pass 2^63-1, the largest that there is"
    if last < base:
        return f"its header says that it starts at offset {base} and ends before it, at {last}"
    return f"its header counts {count} records in the {last - base + 1} offsets {base} to {last}"


def records_outside(batches: BatchColumns, records: RecordColumns) -> Iterator[Contradiction]:
    """Batches with records at offsets that are not theirs, each once."""
    rows, offsets = records.column("batch"), records.column("offset")
    row = kernels.find_outside(batches, records, 0)
    while row < records.count:
        batch = rows[row]
        base, last = batches.column("base_offset")[batch], batches.column("last_offset")[batch]
        outside = f"a record in it says offset {offsets[row]}, outside of the batch's own, {base} to {last}"
        yield Contradiction(batch, "record-offset", outside)
        while row < records.count and rows[row] == batch:
            row += 1
        row = kernels.find_outside(batches, records, row)
