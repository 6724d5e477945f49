"""`dump`: every segment, batch or record of the targets, in order, with a row in the place of every damage.

The stream never ends at damage. What cannot be opened inside a partition or log directory is a finding and the rest
goes on; what was named itself and cannot be opened is an error.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, cast

from kafkalog_core.errors import SelectionError, StorageError
from kafkalog_core.findings import Finding, for_rules, found
from kafkalog_core.format.names import LOG_KINDS, FileKind, FileState
from kafkalog_core.kafka.rules import rules_of
from kafkalog_core.ops.dump.entries import ENTRY_KINDS, entries
from kafkalog_core.ops.reading.chunks import RowOrigin, rows_at
from kafkalog_core.ops.reading.committed import CommittedView, committed_findings, read_committed_view, segments_behind
from kafkalog_core.ops.reading.compaction import Compaction
from kafkalog_core.ops.reading.logfiles import (
    Checkpoints,
    Unit,
    chain_findings,
    files_in_range,
    unit_of_file,
    unit_of_partition,
)
from kafkalog_core.ops.reading.logreader import LogReader
from kafkalog_core.ops.reading.splits import segment_files, segment_row
from kafkalog_core.ops.reading.stats import LogStats
from kafkalog_core.ops.reading.targets import FileTarget, LogDirTarget, PartitionTarget, Target
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.rows import tables
from kafkalog_core.rows.chunk import RowChunk
from kafkalog_core.storage.logdir import not_listed
from kafkalog_core.storage.partition import Partition, read_partition
from kafkalog_core.storage.source import code_of_error

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from kafkalog_core.findings import Severity
    from kafkalog_core.ops.reading.logfiles import LogFile
    from kafkalog_core.ops.reading.report import Report
    from kafkalog_core.ops.reading.runs import DumpRequest
    from kafkalog_core.rows.chunk import Chunk
    from kafkalog_core.storage.listing import FileInfo

__all__ = ["Dumper", "dump"]


def dump(request: DumpRequest, report: Report, progress: Progress = NO_PROGRESS) -> Iterator[Chunk]:
    """Chunks of rows; `report` is complete when the iterator is exhausted.

    Raises StorageError where a target itself cannot be opened, SelectionError for a filter that is none.
    """
    dumper = Dumper(request, report, progress)
    for target in request.targets:
        _expect(target, report)
    for target in request.targets:
        for chunk in dumper.target(target):
            report.rows += chunk.count
            yield chunk
        if dumper.is_full:
            return


def _expect(target: Target, report: Report) -> None:
    """What there is to read of a target, as far as it is known before partitions are listed."""
    if isinstance(target, FileTarget):
        is_log = target.kind in LOG_KINDS or target.kind is FileKind.KRAFT_SNAPSHOT
        report.expect(files=1, size_bytes=target.file.size_bytes if is_log else 0)
    else:
        report.expect(partitions=len(target.partitions) if isinstance(target, LogDirTarget) else 1)


class Dumper:
    """One dump; `is_full` once the limit is reached."""

    def __init__(self, request: DumpRequest, report: Report, progress: Progress) -> None:
        request.filters.check()
        self._request = request
        self._report = report
        self._progress = progress
        self._reader = LogReader(request, report, progress)
        self._checkpoints = Checkpoints()

    @property
    def is_full(self) -> bool:
        """Whether as many rows were given out as were asked for."""
        return self._reader.is_full

    def target(self, target: Target) -> Iterator[Chunk]:
        """Rows of one target."""
        if isinstance(target, LogDirTarget):
            yield from self._log_dir(target)
        elif isinstance(target, PartitionTarget):
            yield from self._partition(target.read(), target.log_dir)
        elif target.kind in LOG_KINDS or target.kind is FileKind.KRAFT_SNAPSHOT:
            yield from self._unit(unit_of_file(target, with_path=self._request.path), target.path)
        else:
            yield from self._entries(target)

    def _log_dir(self, target: LogDirTarget) -> Iterator[Chunk]:
        yield from self._findings(target.log_dir.findings)
        if target.is_whole and self._request.files and not self._request.stats:
            for file in target.log_dir.files:
                yield from self._file_entries(file, None, None)
        for place in target.partitions:
            if self.is_full:
                return
            try:
                partition = read_partition(place.path)
            except StorageError as error:
                finding = not_listed(place, error)
                yield from self._findings([finding])
                continue
            log_dir = target.log_dir.path if target.log_dir.is_broker_dir else None
            yield from self._partition(partition, log_dir)

    def _partition(self, partition: Partition, log_dir: str | None) -> Iterator[Chunk]:
        self._report.partitions += 1
        yield from self._findings(partition.findings)
        unit = unit_of_partition(partition, log_dir, with_path=self._request.path)
        self._progress.expect(unit.size_bytes)
        self._report.expect(files=len(unit.files), size_bytes=unit.size_bytes)
        if self._request.stats:
            yield from self._stats(unit, partition.path)
        elif self._request.level == "segments":
            yield from self._segments(partition, unit)
        else:
            yield from self._logs(unit)
        yield from self._findings(self._chain(unit))
        if self._request.files and not self._request.stats:
            for file in partition.files:
                yield from self._file_entries(file, partition.topic, partition.partition)

    def _chain(self, unit: Unit) -> Iterable[Finding]:
        """Offsets that are in none of the segments that were just read, or in two."""
        spans = self._reader.take_spans()
        if any(file.is_v07 for file in unit.files):  # their names tell already
            return ()
        compaction = Compaction(unit, self._checkpoints, self._request.scan_options)
        return chain_findings(
            [spans.get(file.path) for file in unit.files],
            is_compacted=lambda: compaction.explains_lost_segments,
            topic=unit.topic,
            partition=unit.partition,
        )

    def _unit(self, unit: Unit, path: str) -> Iterator[Chunk]:
        """A log file that was named itself."""
        self._progress.expect(unit.size_bytes)
        if self._request.stats:
            yield from self._stats(unit, path)
        elif self._request.level == "segments":
            yield from segment_row(self._reader, unit.files[0], unit, None)
        else:
            yield from self._logs(unit)

    def _logs(self, unit: Unit) -> Iterator[Chunk]:
        view = None
        if self._request.committed is not None and unit.files:
            view, findings = self._committed(unit)
            yield from self._findings(findings)
            if view is None:
                return
        files = files_in_range(unit.files, self._request.filters.offsets)
        for file in reversed(files) if self._request.newest_first else files:
            if self.is_full:
                return
            yield from self._guarded(self._reader.rows(file, unit, view), file.path, unit)

    def _committed(self, unit: Unit) -> tuple[CommittedView | None, list[Finding]]:
        """What a read_committed consumer gets of a partition, and where it would wait; None: that cannot be known."""
        high_watermark = None
        if self._request.committed == "high-watermark":
            high_watermark = self._checkpoints.high_watermark(unit)
            if high_watermark is None:
                if not any(isinstance(target, LogDirTarget) for target in self._request.targets):
                    raise SelectionError("no broker has checkpointed a high watermark for it", path=unit.path)
                code = "high-watermark.unknown"
                return None, [found(code, unit.path, topic=unit.topic, partition=unit.partition)]
        options = self._request.scan_options
        following: tuple[LogFile, ...] = ()
        is_whole = True
        if any(
            isinstance(target, FileTarget) and target.path == unit.files[0].path for target in self._request.targets
        ):
            following, is_whole = segments_behind(unit.files[0])
        view = read_committed_view(
            unit.files,
            options,
            high_watermark,
            self._checkpoints.log_start_offset(unit),
            following=following,
            is_whole=is_whole,
            compaction=Compaction(unit, self._checkpoints, options),
        )
        return view, committed_findings(view, unit)

    def _guarded(self, chunks: Iterator[Chunk], path: str, unit: Unit) -> Generator[Chunk, None, bool]:
        """Yield the chunks; an error of one file of a partition is a finding, of a file that was named itself an error.

        Returns whether the file could be read.
        """
        try:
            yield from chunks
        except StorageError as error:
            if any(isinstance(target, FileTarget) and target.path == path for target in self._request.targets):
                raise
            code = code_of_error(error)
            finding = found(code, path, reason=error.message, topic=unit.topic, partition=unit.partition)
            yield self._finding_rows([finding])  # a harmless one too, as rows are missing
            return False
        return True

    def _segments(self, partition: Partition, unit: Unit) -> Iterator[Chunk]:
        files = segment_files(partition, unit, with_path=self._request.path)
        live = {file.path for file in unit.files}
        for file, segment in reversed(files) if self._request.newest_first else files:
            if file.path not in live:
                self._report.expect(files=1, size_bytes=file.file.size_bytes)
            yield from self._guarded(segment_row(self._reader, file, unit, segment), file.path, unit)
            if self.is_full:
                return

    def _stats(self, unit: Unit, path: str) -> Iterator[Chunk]:
        stats = LogStats()
        for file in unit.files:
            stats.segments += 1
            is_read = yield from self._guarded(self._reader.measure(file, unit, stats), file.path, unit)
            stats.unread_segments += not is_read
        if self._reader.take(1):
            place = RowOrigin(unit.topic, unit.partition, "", path if self._request.path else None)
            yield rows_at(place, tables.STATS, [stats.row(unit.topic, unit.partition)])

    def _file_entries(self, file: FileInfo, topic: str | None, partition: int | None) -> Iterator[Chunk]:
        """Rows of a companion file; a KRaft snapshot is a log."""
        is_snapshot = file.name.kind is FileKind.KRAFT_SNAPSHOT and file.name.state is FileState.LIVE
        if not (is_snapshot or file.name.kind in ENTRY_KINDS):
            return
        self._report.expect(files=1, size_bytes=file.size_bytes if is_snapshot else 0)
        if self.is_full:
            return
        target = FileTarget(file=file, kind=file.name.kind, topic=topic, partition=partition)
        unit = unit_of_file(target, with_path=self._request.path)
        if is_snapshot:
            is_census = self._request.level == "segments"
            snapshot = unit.files[0]
            rows = (
                segment_row(self._reader, snapshot, unit, None)
                if is_census
                else self._reader.rows(snapshot, unit, None)
            )
            yield from self._guarded(rows, file.path, unit)
        else:
            yield from self._guarded(self._entries(target), file.path, unit)

    def _entries(self, target: FileTarget) -> Iterator[Chunk]:
        self._report.files += 1
        name = target.file.name
        for chunk in entries(
            target.path,
            target.kind,
            state=name.state,
            topic=target.topic,
            partition=target.partition,
            base_offset=name.base_offset,
        ):
            self._count(chunk)
            yield from self._limited(chunk, target.path)
            if self.is_full:
                return

    def _limited(self, chunk: RowChunk, path: str) -> Iterator[RowChunk]:
        """Entries up to the limit; damage and findings do not count."""
        is_limited = chunk.table not in {tables.DAMAGE, tables.FINDING}
        taken = self._reader.take(chunk.count) if is_limited else chunk.count
        table = tables.with_path(chunk.table) if self._request.path else chunk.table
        if taken == chunk.count and table is chunk.table:
            yield chunk
        elif taken:
            yield RowChunk(table, [row | {"path": path} for row in islice(chunk.rows(), taken)])

    def _count(self, chunk: Chunk) -> None:
        if chunk.table is tables.DAMAGE:
            for row in chunk.rows():
                severity = cast("Severity", row["severity"])
                self._report.add_damage(str(row["reason"]), int(str(row["size_bytes"] or 0)), severity)
        elif chunk.table is tables.FINDING:
            for row in chunk.rows():
                self._report.add_finding(row)

    def _findings(self, findings: Iterable[Finding]) -> Iterator[Chunk]:
        """Yield findings; harmless ones only where segments or files are listed."""
        kafka = self._request.kafka
        if kafka is not None:
            findings = [for_rules(finding, rules_of(kafka)) for finding in findings]
        is_census = self._request.files or self._request.level == "segments"
        shown = [item for item in findings if is_census or item.severity != "info" or item.hides_records]
        if shown:
            yield self._finding_rows(shown)

    def _finding_rows(self, findings: Iterable[Finding]) -> Chunk:
        chunk = RowChunk(tables.FINDING, [finding.row() for finding in findings])
        self._count(chunk)
        return chunk
