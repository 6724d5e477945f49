"""The `segment` rows of a partition, for which each log file is read whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.engine.chunks import rows_at
from kafkalog_core.engine.log_stats import LogStats
from kafkalog_core.format.names import FileKind
from kafkalog_core.kafka.sim.logfiles import LogFile, Unit, place_of
from kafkalog_core.output import tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.ops.dump.logreader import LogReader
    from kafkalog_core.output.chunk import Chunk
    from kafkalog_core.storage.listing import FileInfo, Segment
    from kafkalog_core.storage.partition import Partition


__all__ = ["segment_columns", "segment_files", "segment_row"]


def segment_files(partition: Partition, unit: Unit, *, with_path: bool) -> list[tuple[LogFile, Segment]]:
    """Return the log files of a partition with their segments: live ones first, then those that no broker reads."""
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
    """Yield the `segment` row of a file, after rows of its damage; `segment` is None for a named file.

    Raises StorageError if the file cannot be opened.
    """
    stats = LogStats()
    yield from reader.measure(file, unit, stats)
    if reader.take(1):
        yield rows_at(file.place, tables.SEGMENT, [segment_columns(file, segment, stats.segment_row())])


def segment_columns(file: LogFile, segment: Segment | None, figures: Mapping[str, object]) -> dict[str, object]:
    """Return the columns of a `segment` row, without its place; `figures` are those of `LogStats.segment_row`."""
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
