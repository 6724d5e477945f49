"""`dump`: every segment, batch, record or entry of the targets, in order, with a row for each damaged range.

The stream never ends at damage. A file inside a partition or log directory that cannot be opened is a finding, and the
dump continues; a named target that cannot be opened is an error.

A dump is a series of steps. Those that only read a part of a log, and depend on nothing else, are values (`DumpTask`),
so that another process can carry them out (`parallel`).
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from kafkalog_core.engine.chunks import RowOrigin, rows_at
from kafkalog_core.engine.decoded import Undecoded, decoding_findings
from kafkalog_core.engine.log_stats import LogStats
from kafkalog_core.engine.targets import FileTarget, LogDirTarget, PartitionTarget, Target
from kafkalog_core.errors import (
    SelectionError,
    StorageError,
)
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.names import LOG_KINDS, FileKind, FileState
from kafkalog_core.kafka.sim.logfiles import (
    Checkpoints,
    Compaction,
    SegmentExtent,
    Unit,
    chain_findings,
    files_in_range,
    unit_of_file,
    unit_of_partition,
)
from kafkalog_core.ops.dump.entries import ENTRY_KINDS, entries
from kafkalog_core.ops.dump.file_parts import FilePart, divide_file, growth_of
from kafkalog_core.ops.dump.logreader import LogReader
from kafkalog_core.ops.dump.segment_rows import segment_files, segment_row
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.storage.logdir import not_listed
from kafkalog_core.storage.partition import Partition, read_partition
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from kafkalog_core.engine.chunks import LineRoom
    from kafkalog_core.engine.report import Report
    from kafkalog_core.findings import Severity
    from kafkalog_core.kafka.sim.read_committed import CommittedView
    from kafkalog_core.ops.dump.runs import DumpRequest
    from kafkalog_core.output.chunk import Chunk
    from kafkalog_core.storage.listing import FileInfo

__all__ = ["DumpTask", "Dumper", "Step", "dump"]


class DumpTask(Struct, frozen=True):
    """Parts of a log that are read together: some small files, or one part of a large one.

    targets: its file, if that is itself a target. growth: how many times it grows when it is decompressed, about.
    """

    file_parts: tuple[FilePart, ...]
    targets: tuple[FileTarget, ...] = ()
    growth: int = 1

    @property
    def size_bytes(self) -> int:
        """Bytes of log to read."""
        return sum(file_part.size_bytes for file_part in self.file_parts)

    @property
    def work_bytes(self) -> int:
        """Bytes of log after decompression, about, which say how long it takes."""
        return self.size_bytes * self.growth


Step: TypeAlias = "DumpTask | Callable[[], Iterator[Chunk]]"
"""What yields the next rows of a dump."""
_MOST_GROWTH: Final = 16
"""A log that grows more is divided as if it grew so: its parts would be tiny."""


def dump(request: DumpRequest, report: Report, progress: Progress = NO_PROGRESS) -> Iterator[Chunk]:
    """Yield chunks of rows; `report` is complete when the iterator is exhausted.

    Raises StorageError if a target itself cannot be opened, SelectionError for a filter that is not valid.
    """
    dumper = Dumper(request, report, progress)
    for step in dumper.steps():
        for chunk in dumper.rows_of(step):
            report.rows += chunk.count
            yield chunk


def _expect(target: Target, report: Report) -> None:
    """Report the files and bytes of a target, as far as they are known before partitions are listed."""
    if isinstance(target, FileTarget):
        is_log = target.kind in LOG_KINDS or target.kind is FileKind.KRAFT_SNAPSHOT
        report.expect(files=1, size_bytes=target.file.size_bytes if is_log else 0)
    else:
        report.expect(partitions=len(target.partitions) if isinstance(target, LogDirTarget) else 1)


class Dumper:
    """One dump: its steps, and the rows of each of them.

    `matches` are the matching records of the current log, where a request only counts them. `extents` are its files as
    they were read, by path; None for a file that was not read to its end. `undecoded`: its records that do not decode.
    """

    def __init__(
        self,
        request: DumpRequest,
        report: Report,
        progress: Progress,
        *,
        task_bytes: int | None = None,
        out: LineRoom | None = None,
    ) -> None:
        """Take the request.

        task_bytes: of the log files that are a `DumpTask` together, and the most of one that is not large; None: none
        is. out: memory for lines; None: a buffer of its own.
        """
        request.filters.check()
        self._request = request
        self._report = report
        self._progress = progress
        self._task_bytes = task_bytes
        self._reader = LogReader(request, report, progress, out)
        self._checkpoints = Checkpoints()
        self.matches = 0
        self.extents: dict[str, SegmentExtent | None] = {}
        self.undecoded = Undecoded()

    def steps(self) -> Iterator[Step]:
        """Yield what yields the rows, in order; a step is taken before the next one, or is a `DumpTask`.

        Raises StorageError if a target itself cannot be opened.
        """
        for target in self._request.targets:
            _expect(target, self._report)
        for target in self._request.targets:
            yield from self._of_target(target)
            if self._reader.is_full:
                return

    def rows_of(self, step: Step) -> Iterator[Chunk]:
        """Yield the rows of a step."""
        if not isinstance(step, DumpTask):
            yield from step()
            return
        for file_part in step.file_parts:
            rows = self._reader.rows(file_part.file, file_part.unit, None, file_part.part)
            yield from self._uncounted(self._guarded(rows, file_part.path, file_part.unit))
            self.add_extent(file_part.path, self._reader.take_extents().get(file_part.path))
            self.undecoded.add(self._reader.take_undecoded())

    def add_extent(self, path: str, extent: SegmentExtent | None) -> None:
        """Add the offsets of a file, or of the next part of it; None: it was not read to its end."""
        before = self.extents.get(path, extent)
        self.extents[path] = None if before is None or extent is None else before.joined(extent)

    # --- steps --------------------------------------------------------------------------------------------------------
    def _of_target(self, target: Target) -> Iterator[Step]:
        if isinstance(target, LogDirTarget):
            yield from self._of_log_dir(target)
        elif isinstance(target, PartitionTarget):
            yield from self._of_partition(target.read(), target.log_dir)
        elif target.kind in LOG_KINDS or target.kind is FileKind.KRAFT_SNAPSHOT:
            unit = unit_of_file(target, with_path=self._request.path)
            self._progress.expect(unit.size_bytes)
            yield from self._of_unit(unit, target.path, lambda: segment_row(self._reader, unit.files[0], unit, None))
        else:
            yield partial(self._entries, target)

    def _of_log_dir(self, target: LogDirTarget) -> Iterator[Step]:
        yield partial(self._findings, target.log_dir.findings)
        if target.is_whole and self._request.files and not self._request.stats:
            for file in target.log_dir.files:
                yield partial(self._file_entries, file, None, None)
        for place in target.partitions:
            if self._reader.is_full:
                return
            try:
                partition = read_partition(place.path)
            except StorageError as error:
                yield partial(self._findings, [not_listed(place, error)])
                continue
            yield from self._of_partition(partition, target.broker_path)

    def _of_partition(self, partition: Partition, log_dir: str | None) -> Iterator[Step]:
        unit = unit_of_partition(partition, log_dir, with_path=self._request.path)
        self._progress.expect(unit.size_bytes)
        self._report.expect(files=len(unit.files), size_bytes=unit.size_bytes)
        yield partial(self._begun, partition)
        yield from self._of_unit(unit, partition.path, partial(self._segments, partition, unit))
        yield lambda: self._findings(self._chain(unit))
        if self._request.files and not self._request.stats:
            for file in partition.files:
                yield partial(self._file_entries, file, partition.topic, partition.partition)

    def _of_unit(self, unit: Unit, path: str, segments: Callable[[], Iterator[Chunk]]) -> Iterator[Step]:
        """Yield the steps of the figures, the segments, batches or records of a partition or a named log file."""
        if self._request.stats:
            yield partial(self._stats, unit, path)
        elif self._request.level == "segments":
            yield segments
        else:
            if self._request.needs_whole_logs:
                yield lambda: self._uncounted(self._logs(unit))
            else:
                yield from self._tasks(unit)
            yield lambda: self._findings(self._not_decoded(unit))
            if self._request.counts:
                yield partial(self._count_row, unit, path)

    def _tasks(self, unit: Unit) -> Iterator[DumpTask]:
        """Yield the files of a log; small ones together, as many as are read by one process, large ones in parts."""
        most, waiting, waiting_bytes, growth = self._task_bytes, list[FilePart](), 0, 1
        targets = tuple(each for file in unit.files[:1] for each in self._named(file.path))
        for file in files_in_range(unit.files, self._request.filters.offsets):
            whole, growth = FilePart(file=file, log_dir=unit.log_dir), 1
            if most is not None and file.file.size_bytes > most // _MOST_GROWTH:
                growth = min(growth_of(file), _MOST_GROWTH)  # its rows need room
            work_bytes = whole.size_bytes * growth
            if waiting and (most is None or waiting_bytes + work_bytes > most):
                yield DumpTask(tuple(waiting), targets, growth)
                waiting, waiting_bytes = [], 0
            if most is not None and work_bytes > most:
                for part in divide_file(whole, most // growth, resync=self._request.resync):
                    yield DumpTask((part,), targets, growth)
                continue
            waiting.append(whole)
            waiting_bytes += work_bytes
        if waiting:
            yield DumpTask(tuple(waiting), targets, growth)

    def _begun(self, partition: Partition) -> Iterator[Chunk]:
        self._report.partitions += 1
        yield from self._findings(partition.findings)

    def _not_decoded(self, unit: Unit) -> Iterable[Finding]:
        """Return findings about the records of a log that do not decode, which was just read."""
        undecoded, self.undecoded = self.undecoded, Undecoded()
        undecoded.add(self._reader.take_undecoded())
        return decoding_findings(undecoded, unit.topic, unit.partition).values()

    # --- their rows ---------------------------------------------------------------------------------------------------
    def _chain(self, unit: Unit) -> Iterable[Finding]:
        """Return findings about offsets that are in none of the segments that were just read, or in two."""
        extents, self.extents = self.extents | self._reader.take_extents(), {}
        if any(file.is_v07 for file in unit.files):  # partition.findings has them: 0.7 names files by byte positions
            return ()
        compaction = Compaction(unit, self._checkpoints, self._request.scan_options)
        return chain_findings(
            [extents.get(file.path) for file in unit.files],
            is_compacted=lambda: compaction.explains_lost_segments,
            held=compaction.held,
            is_lost=compaction.is_lost,
            topic=unit.topic,
            partition=unit.partition,
        )

    def _logs(self, unit: Unit) -> Iterator[Chunk]:
        view = None
        if self._request.committed is not None and unit.files:
            view, findings = self._committed(unit)
            yield from self._findings(findings)
            if view is None:
                return
        self._reader.begin_log()
        files = files_in_range(unit.files, self._request.filters.offsets)
        for file in reversed(files) if self._request.newest_first else files:
            if self._reader.is_done:
                return
            yield from self._guarded(self._reader.rows(file, unit, view), file.path, unit)

    def _uncounted(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """Yield the chunks; where the request only counts matching records, not those of records."""
        for chunk in chunks:
            if self._request.counts and chunk.table.name == tables.RECORD.name:
                self.matches += chunk.count
            else:
                yield chunk

    def _count_row(self, unit: Unit, path: str) -> Iterator[Chunk]:
        """Yield one row with the number of the log's matching records, after what is wrong with it."""
        records, self.matches = self.matches, 0
        if self._reader.take(1):
            place = RowOrigin(unit.topic, unit.partition, "", path if self._request.path else None)
            yield rows_at(place, tables.COUNT, [{"records": records}])

    def _committed(self, unit: Unit) -> tuple[CommittedView | None, list[Finding]]:
        """Return what a read_committed consumer gets, and findings on where it waits; None: no high watermark is known.

        Raises SelectionError in that case if no log directory is a target.
        """
        from kafkalog_core.kafka.sim import read_committed  # noqa: PLC0415 -- the rules of transactions, on request
        from kafkalog_core.kafka.sim.committed_findings import committed_findings  # noqa: PLC0415 -- as above

        high_watermark = None
        if self._request.committed == "high-watermark":
            high_watermark = self._checkpoints.high_watermark(unit)
            if high_watermark is None:
                if not any(isinstance(target, LogDirTarget) for target in self._request.targets):
                    raise SelectionError("no broker has checkpointed a high watermark for it", path=unit.path)
                code = "high-watermark.unknown"
                return None, [found(code, unit.path, topic=unit.topic, partition=unit.partition)]
        options = self._request.scan_options
        first = unit.files[0]
        following, is_whole = read_committed.segments_after(first) if self._named(first.path) else ((), True)
        view = read_committed.read_committed_view(
            unit.files,
            options,
            high_watermark,
            self._checkpoints.bounds(unit).local_start,
            following=following,
            is_whole=is_whole,
            compaction=Compaction(unit, self._checkpoints, options),
        )
        return view, committed_findings(view, unit)

    def _named(self, path: str) -> list[FileTarget]:
        """Return the targets that are a file itself."""
        return [each for each in self._request.targets if isinstance(each, FileTarget) and each.path == path]

    def _guarded(self, chunks: Iterator[Chunk], path: str, unit: Unit) -> Generator[Chunk, None, bool]:
        """Yield the chunks, and a finding if the file cannot be read; return whether it could be read.

        Raises StorageError if the file is itself a target.
        """
        try:
            yield from chunks
        except StorageError as error:
            if self._named(path):
                raise
            code = code_of_error(error)
            finding = found(code, path, reason=error.message, topic=unit.topic, partition=unit.partition)
            yield self._finding_rows([finding])  # of any severity, because rows are missing
            return False
        return True

    def _segments(self, partition: Partition, unit: Unit) -> Iterator[Chunk]:
        files = segment_files(partition, unit, with_path=self._request.path)
        live = {file.path for file in unit.files}
        for file, segment in reversed(files) if self._request.newest_first else files:
            if file.path not in live:
                self._report.expect(files=1, size_bytes=file.file.size_bytes)
            yield from self._guarded(segment_row(self._reader, file, unit, segment), file.path, unit)
            if self._reader.is_full:
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
        """Yield the rows of a file that is not a segment's log; those of a KRaft snapshot are batches or records."""
        is_snapshot = file.name.kind is FileKind.KRAFT_SNAPSHOT and file.name.state is FileState.LIVE
        if not (is_snapshot or file.name.kind in ENTRY_KINDS):
            return
        self._report.expect(files=1, size_bytes=file.size_bytes if is_snapshot else 0)
        if self._reader.is_full:
            return
        target = FileTarget(file=file, kind=file.name.kind, topic=topic, partition=partition)
        unit = unit_of_file(target, with_path=self._request.path)
        if is_snapshot:
            as_segment = self._request.level == "segments"
            log, reader = unit.files[0], self._reader
            reader.begin_log()
            rows = segment_row(reader, log, unit, None) if as_segment else reader.rows(log, unit, None)
            yield from self._guarded(rows, file.path, unit)
            yield from self._findings(self._not_decoded(unit))
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
            if self._reader.is_full:
                return

    def _limited(self, chunk: RowChunk, path: str) -> Iterator[RowChunk]:
        """Yield the entries up to the limit, to which damage and findings do not count."""
        is_limited = chunk.table not in {tables.DAMAGE, tables.FINDING}
        taken = self._reader.take(chunk.count) if is_limited else chunk.count
        table = tables.with_path(chunk.table) if self._request.path else chunk.table
        if taken == chunk.count and table is chunk.table:
            yield chunk
        elif taken:
            yield RowChunk(table, [row | {"path": path} for row in itertools.islice(chunk.rows(), taken)])

    def _count(self, chunk: Chunk) -> None:
        if chunk.table is tables.DAMAGE:
            for row in chunk.rows():
                severity = cast("Severity", row["severity"])
                self._report.add_damage(str(row["reason"]), int(str(row["size_bytes"] or 0)), severity)
        elif chunk.table is tables.FINDING:
            for row in chunk.rows():
                self._report.add_finding(row)

    def _findings(self, findings: Iterable[Finding]) -> Iterator[Chunk]:
        """Yield the findings that the request shows."""
        shown = self._request.shown(findings)
        if shown:
            yield self._finding_rows(shown)

    def _finding_rows(self, findings: Iterable[Finding]) -> Chunk:
        chunk = RowChunk(tables.FINDING, [finding.row() for finding in findings])
        self._count(chunk)
        return chunk
