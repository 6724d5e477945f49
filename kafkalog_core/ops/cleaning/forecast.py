"""What a simulation of the cleaner says of one partition, as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_core import compact_tables, tables
from kafkalog_core.ops.reading.rows import RowChunk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.releases.assumptions import Assumption

__all__ = ["CompactForecast"]

Row = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactForecast:
    """Rows of one partition by the tables in `compact_tables`; columns that a row lacks are null.

    Args:
        partition: the `compaction` row.
        passes: a `cleaning_pass` row for each clean.
        segments: a `cleaned_segment` row for each segment of the log as it is.
        keys: `big_key` rows, the biggest first.
        findings: what stands in the way of a clean, and what was wrong with what was read.
        assumptions: assumed values because of which records would be dropped.
    """

    partition: Row
    passes: tuple[Row, ...] = ()
    segments: tuple[Row, ...] = ()
    keys: tuple[Row, ...] = ()
    findings: tuple[Finding, ...] = ()
    assumptions: tuple[Assumption, ...] = ()

    def chunks(self) -> Iterator[RowChunk]:
        """All rows, that of the partition first."""
        yield RowChunk(compact_tables.COMPACTION, [self.partition])
        for table, rows in (
            (compact_tables.CLEANING_PASS, self.passes),
            (compact_tables.CLEANED_SEGMENT, self.segments),
            (compact_tables.BIG_KEY, self.keys),
            (tables.FINDING, tuple(finding.row() for finding in self.findings)),
        ):
            if rows:
                yield RowChunk(table, rows)
