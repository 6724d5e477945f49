"""What a command has seen so far: counts, and the exit status that follows from them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkalog_core.findings import DENIED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.findings import Severity

__all__ = ["Report"]

CLEAN = 0
REFUSED = 3
DAMAGED = 4


class Report:
    """Counts that grow while a command runs; `summary_row` and `exit_status` are derived from them."""

    def __init__(self, *, fail_on: Severity = "error") -> None:
        self._fail_on = fail_on
        self.files = 0
        self.partitions = 0
        self.bytes = 0
        self.expected_files = 0
        self.expected_partitions = 0
        self.expected_bytes = 0
        self.unchanged_bytes = 0
        self.advanced_bytes = 0
        self.unopened_batches = 0
        self.uncounted_batches = 0
        self.batches = 0
        self.records = 0
        self.rows = 0
        self.damage_count = 0
        self.damage_bytes = 0
        self.refusals: list[str] = []
        self.severities: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of log that were read of what was not finished, as far as progress was reported."""
        return max(0, self.advanced_bytes - (self.bytes - self.unchanged_bytes))

    def expect(self, *, files: int = 0, partitions: int = 0, size_bytes: int = 0) -> None:
        """So much more is there to be read; what is left of it in the end was not."""
        self.expected_files += files
        self.expected_partitions += partitions
        self.expected_bytes += size_bytes

    def add_damage(self, reason: str, size_bytes: int, severity: Severity = "error") -> None:
        """Count one damaged place."""
        self.damage_count += 1
        self.damage_bytes += size_bytes
        self.severities[severity] += 1
        self.codes[reason] += 1

    def add_finding(self, row: Mapping[str, object], *, count: int = 1) -> None:
        """Count a `finding` row, which may represent several."""
        self.severities[str(row["severity"])] += count
        self.codes[str(row["code"])] += count

    @property
    def is_partial(self) -> bool:
        """Whether a target, or a file in one, was not read because this user may not."""
        return bool(self.refusals) or self.codes[DENIED] > 0

    @property
    def exit_status(self) -> int:
        """0, or 4 where something of severity error was found, or a warning where that is to count.

        3 where a target could not be read, or this user may not read a file in one, whatever was found in the rest: a
        result that lacks something must not look like one that does not, and what was found is in its rows.
        """
        if self.is_partial:
            return REFUSED
        is_bad = self.severities["error"] or (self._fail_on == "warning" and self.severities["warning"])
        return DAMAGED if is_bad else CLEAN

    def summary_row(self) -> dict[str, object]:
        """Return the `summary` row."""
        return {
            "files": self.files,
            "files_total": max(self.files, self.expected_files),
            "partitions": self.partitions,
            "partitions_total": max(self.partitions, self.expected_partitions),
            "bytes": self.bytes,
            "bytes_total": max(self.bytes, self.expected_bytes),
            "unchanged_bytes": self.unchanged_bytes,
            "batches": self.batches,
            "unopened_batches": self.unopened_batches,
            "records": self.records,
            "uncounted_batches": self.uncounted_batches,
            "rows": self.rows,
            "damage_count": self.damage_count,
            "damage_bytes": self.damage_bytes,
            "severities": {
                name: self.severities[name] for name in ("info", "warning", "error") if self.severities[name]
            },
            "codes": dict(sorted(self.codes.items())),
            "interrupted": False,
            "exit_status": self.exit_status,
        }
