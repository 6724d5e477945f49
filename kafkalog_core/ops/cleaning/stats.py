"""What a clean kept and dropped, counted by reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["Counts"]


@dataclass(slots=True)
class Counts:
    """Figures of a segment, a group or a whole clean; `next_horizon_ms`: the earliest of delete horizons that stay."""

    batches_before: int = 0
    batches_after: int = 0
    records_before: int = 0
    records_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    kept_records: Counter[str] = field(default_factory=Counter)
    kept_bytes: Counter[str] = field(default_factory=Counter)
    dropped_records: Counter[str] = field(default_factory=Counter)
    dropped_bytes: Counter[str] = field(default_factory=Counter)
    tombstones_after: int = 0
    next_horizon_ms: int | None = None

    def add(self, other: Counts) -> None:
        """Count what another one has counted too."""
        self.batches_before += other.batches_before
        self.batches_after += other.batches_after
        self.records_before += other.records_before
        self.records_after += other.records_after
        self.bytes_before += other.bytes_before
        self.bytes_after += other.bytes_after
        self.kept_records.update(other.kept_records)
        self.kept_bytes.update(other.kept_bytes)
        self.dropped_records.update(other.dropped_records)
        self.dropped_bytes.update(other.dropped_bytes)
        self.tombstones_after += other.tombstones_after
        if other.next_horizon_ms is not None:
            self.see_horizon(other.next_horizon_ms)

    def see_horizon(self, horizon_ms: int) -> None:
        """A delete horizon that stays."""
        known = self.next_horizon_ms
        self.next_horizon_ms = horizon_ms if known is None else min(known, horizon_ms)
