"""What a command counts: the report, from which the exit status follows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import DENIED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.findings import Severity

__all__ = ["Report"]


CLEAN = 0
REFUSED = 3
DAMAGED = 4


_SUMS: Final = (
    "files", "partitions", "bytes", "unchanged_bytes", "unopened_batches", "uncounted_batches", "batches", "records",
    "rows", "damage_count", "damage_bytes",
)  # fmt: skip


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
        self._written_status: int | None = None

    def note_written(self) -> None:
        """Note that rows were written, for `written_status`."""
        self._written_status = self.exit_status

    @property
    def written_status(self) -> int:
        """The exit status of a command whose output has lost its reader, by what was read when rows were last written.

        Before the first rows it counts everything so far. So the status does not depend on whether the reader ended
        before or after the first rows.
        """
        return self.exit_status if self._written_status is None else self._written_status

    @property
    def unfinished_bytes(self) -> int:
        """Bytes that were read of unfinished files, as far as progress was reported."""
        # Progress counts what was read; files that were not finished are in no other figure.
        return max(0, self.advanced_bytes - (self.bytes - self.unchanged_bytes))

    def expect(self, *, files: int = 0, partitions: int = 0, size_bytes: int = 0) -> None:
        """Add what is to be read; what of it is not counted as read in the end was not read."""
        self.expected_files += files
        self.expected_partitions += partitions
        self.expected_bytes += size_bytes

    def add(self, other: Report) -> None:
        """Add what was read elsewhere, of what is expected here."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.severities.update(other.severities)
        self.codes.update(other.codes)

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

    def forget_finding(self, row: Mapping[str, object]) -> None:
        """Undo `add_finding`: the row is not shown, because another one says the same."""
        for counts, key in ((self.severities, row["severity"]), (self.codes, row["code"])):
            counts[str(key)] -= 1
            if not counts[str(key)]:
                del counts[str(key)]

    @property
    def is_partial(self) -> bool:
        """Whether a target, or a file in one, was not read because the user has no permission."""
        return bool(self.refusals) or self.codes[DENIED] > 0

    @property
    def exit_status(self) -> int:
        """The exit status: 4 if a finding has severity error, or warning with `fail_on`; else 0.

        It is 3 if a target could not be read, or the user may not read a file in one, whatever else was found: an
        incomplete result must not look like a complete one. The findings are in the rows.
        """
        if self.is_partial:
            return REFUSED
        is_bad = self.severities["error"] or (self._fail_on == "warning" and self.severities["warning"])
        return DAMAGED if is_bad else CLEAN

    def summary_row(self) -> dict[str, object]:
        """Return the `summary` row."""
        return {
            # The larger one: a log may grow while it is read.
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
