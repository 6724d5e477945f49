"""The census of a partition: one row a log file, what is deleted, swapped or misnamed included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core import tables
from kafkalog_core.format.names import FileKind
from kafkalog_core.ops.reading.chunks import rows_at
from kafkalog_core.ops.reading.logfiles import LogFile, place_of
from kafkalog_core.ops.reading.stats import LogStats

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.ops.reading.logfiles import Unit
    from kafkalog_core.ops.reading.logreader import LogReader
    from kafkalog_core.ops.reading.rows import Chunk
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.segment import Segment

__all__ = ["census_row", "segment_files", "segment_row"]


def segment_files(partition: Partition, unit: Unit, *, with_path: bool) -> list[tuple[LogFile, Segment]]:
    """The log files of a partition with their segments: those of the unit first, then those that no broker reads."""
    by_path = {file.path: file for file in unit.files}
    files = []
    for segment in (*partition.segments, *partition.other_segments):
        if segment.log is None:
            continue
        file = by_path.get(segment.log.path) or LogFile(
            file=segment.log,
            place=place_of(segment.log, partition.topic, partition.partition, with_path=with_path),
            state=str(segment.state),
            is_v07=segment.log.name.kind is FileKind.LOG_V07,
            is_last=True,
        )
        files.append((file, segment))
    return files


def segment_row(reader: LogReader, file: LogFile, unit: Unit, segment: Segment | None) -> Iterator[Chunk]:
    """The `segment` row of a file, behind rows of its damage; `segment`: null for a file that was named itself.

    Raises StorageError where it cannot be opened.
    """
    stats = LogStats()
    yield from reader.measure(file, unit, stats)
    if reader.take(1):
        yield rows_at(file.place, tables.SEGMENT, [census_row(file, segment, stats.segment_row())])


def census_row(file: LogFile, segment: Segment | None, figures: Mapping[str, object]) -> dict[str, object]:
    """The `segment` row of a file without its place; `figures`: of its log, `LogStats.segment_row`."""
    row: dict[str, object] = {
        "base_offset": file.base_offset,
        "state": file.state,
        "size_bytes": file.file.size_bytes,
        "mtime_ms": file.file.mtime_ns // 1_000_000,
        **figures,
    }
    if segment is not None:
        for name in ("index", "timeindex", "txnindex", "snapshot"):
            companion: FileInfo | None = getattr(segment, name)
            row[f"{name}_bytes"] = None if companion is None else companion.size_bytes
    return row
