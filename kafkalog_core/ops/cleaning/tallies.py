"""Counting what the filter does with one segment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.format.clean_terms import REASONS
from kafkalog_core.format.layout import DELETE_HORIZON_BIT
from kafkalog_core.ops.cleaning.stats import Counts

if TYPE_CHECKING:
    from kafkalog_core.format.clean import RunFilter
    from kafkalog_core.format.clean_terms import Filtered
    from kafkalog_core.format.columns import BatchColumns

__all__ = ["Tallies"]

_KEPT: Final = frozenset(("latest", "past-map", "control", "tombstone"))
_NAMES: Final = {"latest": "latest-of-key"}


class Tallies:
    """What a filter counts from now on."""

    def __init__(self, run_filter: RunFilter) -> None:
        self._filter = run_filter
        self._before = run_filter.tally.copy()
        self._counts = Counts()

    def take(self, sources: BatchColumns, filtered: Filtered) -> None:
        """A run that was filtered."""
        counts, written = self._counts, filtered.batches
        counts.batches_before += sources.count
        counts.batches_after += written.count
        counts.bytes_before += sum(sources.column("size_bytes"))
        counts.bytes_after += len(filtered.data)
        if written.has_any("attributes"):
            for row, bits in enumerate(written.column("attributes").tolist()):
                if bits & DELETE_HORIZON_BIT:
                    counts.see_horizon(written.column("base_timestamp_ms")[row])

    def counts(self) -> Counts:
        """All of it, with the reasons for which records stayed or went."""
        counts, tally = self._counts, self._filter.tally.since(self._before)
        for reason, records, size_bytes in zip(REASONS, tally.records, tally.bytes, strict=True):
            if not records:
                continue
            is_kept = reason in _KEPT
            name = _NAMES.get(reason, reason)
            (counts.kept_records if is_kept else counts.dropped_records)[name] += records
            (counts.kept_bytes if is_kept else counts.dropped_bytes)[name] += size_bytes
        counts.records_after = counts.kept_records.total()
        counts.records_before = counts.records_after + counts.dropped_records.total()
        counts.tombstones_after = counts.kept_records["tombstone"]
        return counts
