"""What a catalogue makes of a scan: rows of batches, and the figures of a segment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_core.ops.progress import NO_PROGRESS
from kafkalog_core.ops.reading.chunks import BatchChunk, Lines
from kafkalog_core.ops.reading.logreader import LogReader
from kafkalog_core.ops.reading.runs import RunReader
from kafkalog_core.ops.reading.stats import LogStats
from kafkalog_core.ops.report import Report
from kafkalog_core.spark.census.notes import Figures

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.format.columns import DamageColumns
    from kafkalog_core.ops.dump import DumpRequest
    from kafkalog_core.ops.reading.logfiles import LogFile, Unit
    from kafkalog_core.spark.arrow import ArrowRows
    from kafkalog_core.spark.parquet import ParquetFile
    from kafkalog_core.storage.scan import Damage, Run

__all__ = ["BatchWatch", "measured"]


class BatchWatch:
    """Sees the scan of one segment, see `ops.verify.check.Watch`: batches go into `batches` by way of `rows`."""

    def __init__(self, file: LogFile, request: DumpRequest, batches: ParquetFile, rows: ArrowRows) -> None:
        self._stats = LogStats()
        self._reader = RunReader(request, Report(), NO_PROGRESS)
        self._lines = Lines(file.place, bytearray())
        self._batches = batches
        self._rows = rows

    @property
    def figures(self) -> Figures:
        """Of all that was seen."""
        return _figures(self._stats)

    def run(self, run: Run) -> None:
        """Whole batches."""
        if not run.batches.count:
            return
        for _ in self._reader.measure(run, self._lines, self._stats):  # rows of damage: findings tell of it
            pass
        for batch in self._rows.add(BatchChunk(self._lines, run)):
            self._batches.write(batch)

    def damage(self, damage: Damage) -> None:
        """One damaged place."""
        self._stats.add_damage(damage.size_bytes)

    def bulk(self, damaged: DamageColumns) -> None:
        """Many of them."""
        for size_bytes in damaged.column("size_bytes"):
            self._stats.add_damage(size_bytes)


def measured(file: LogFile, unit: Unit, request: DumpRequest, advance: Callable[[int], None]) -> Figures:
    """Figures of a log file that no broker reads. Raises StorageError where it cannot be opened."""
    stats = LogStats()
    for _ in LogReader(request, Report(), _Advancing(advance)).measure(file, unit, stats):
        pass
    return _figures(stats)


class _Advancing:
    """Progress that is only told what was read."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self.advance = advance

    def expect(self, size_bytes: int) -> None:
        """Whoever waits knows what there is."""


def _figures(stats: LogStats) -> Figures:
    row: dict[str, Any] = stats.segment_row()
    return Figures(**row)
