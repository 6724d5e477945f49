"""`dump`: every segment, batch, record or entry of the targets, in order, with a row for each damaged range.

The stream never ends at damage. A file inside a partition or log directory that cannot be opened is a finding, and the
dump continues; a named target that cannot be opened is an error. Indexes and snapshots are read in runs of some
thousand entries; the zeros at the end of a preallocated index are one finding, zeros before another entry are rows.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kafkalog_core.errors import (
    ChecksumError,
    FieldError,
    FormatError,
    SelectionError,
    StorageError,
    TruncatedError,
    UnsupportedError,
)
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.index import (
    iter_offset_entries,
    iter_time_entries,
    iter_txn_entries,
    split_size,
    used_entries,
)
from kafkalog_core.format.layout import (
    OFFSET_INDEX_ENTRY,
    SNAPSHOT_ENTRY,
    SNAPSHOT_HEADER,
    TIME_INDEX_ENTRY,
    TXN_INDEX_ENTRY,
)
from kafkalog_core.format.names import CHECKPOINT_KINDS, LOG_KINDS, FileKind, FileState
from kafkalog_core.format.snapshot import (
    CRC_START,
    ENTRIES_START,
    check_snapshot_crc,
    check_snapshot_size,
    decode_snapshot_header,
    iter_producer_entries,
)
from kafkalog_core.kafka.logdir.faults import EntryFile, damage_row, fault_row, place_of_rows, unreadable_row
from kafkalog_core.kafka.logdir.text_files import checkpoint_rows, property_rows
from kafkalog_core.ops.reading.chunks import RowOrigin, rows_at
from kafkalog_core.ops.reading.committed import CommittedView, committed_findings, read_committed_view, segments_after
from kafkalog_core.ops.reading.logfiles import (
    Checkpoints,
    Compaction,
    Unit,
    chain_findings,
    files_in_range,
    unit_of_file,
    unit_of_partition,
)
from kafkalog_core.ops.reading.logreader import LogReader
from kafkalog_core.ops.reading.report import LogStats
from kafkalog_core.ops.reading.splits import segment_files, segment_row
from kafkalog_core.ops.reading.targets import FileTarget, LogDirTarget, PartitionTarget, Target
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.rows import tables
from kafkalog_core.rows.chunk import RowChunk
from kafkalog_core.rows.tables import INDEX_ENTRY, PRODUCER
from kafkalog_core.storage.logdir import not_listed
from kafkalog_core.storage.partition import Partition, read_partition
from kafkalog_core.storage.source import Source, UnreadableError, code_of_error

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from kafkalog_core.findings import Severity
    from kafkalog_core.format.layout import Layout
    from kafkalog_core.ops.reading.report import Report
    from kafkalog_core.ops.reading.runs import DumpRequest
    from kafkalog_core.rows.chunk import Chunk
    from kafkalog_core.storage.listing import FileInfo

__all__ = ["ENTRY_KINDS", "Dumper", "dump", "entries", "index_rows", "snapshot_rows"]


def dump(request: DumpRequest, report: Report, progress: Progress = NO_PROGRESS) -> Iterator[Chunk]:
    """Yield chunks of rows; `report` is complete when the iterator is exhausted.

    Raises StorageError if a target itself cannot be opened, SelectionError for a filter that is not valid.
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
    """Report the files and bytes of a target, as far as they are known before partitions are listed."""
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
        """Whether the request's limit of rows is reached."""
        return self._reader.is_full

    def target(self, target: Target) -> Iterator[Chunk]:
        """Yield the rows of one target."""
        if isinstance(target, LogDirTarget):
            yield from self._log_dir(target)
        elif isinstance(target, PartitionTarget):
            yield from self._partition(target.read(), target.log_dir)
        elif target.kind in LOG_KINDS or target.kind is FileKind.KRAFT_SNAPSHOT:
            unit = unit_of_file(target, with_path=self._request.path)
            self._progress.expect(unit.size_bytes)
            yield from self._unit(unit, target.path, lambda: segment_row(self._reader, unit.files[0], unit, None))
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
                yield from self._findings([not_listed(place, error)])
                continue
            yield from self._partition(partition, target.broker_path)

    def _partition(self, partition: Partition, log_dir: str | None) -> Iterator[Chunk]:
        self._report.partitions += 1
        yield from self._findings(partition.findings)
        unit = unit_of_partition(partition, log_dir, with_path=self._request.path)
        self._progress.expect(unit.size_bytes)
        self._report.expect(files=len(unit.files), size_bytes=unit.size_bytes)
        yield from self._unit(unit, partition.path, lambda: self._segments(partition, unit))
        yield from self._findings(self._chain(unit))
        if self._request.files and not self._request.stats:
            for file in partition.files:
                yield from self._file_entries(file, partition.topic, partition.partition)

    def _chain(self, unit: Unit) -> Iterable[Finding]:
        """Return findings about offsets that are in none of the segments that were just read, or in two."""
        spans = self._reader.take_spans()
        if any(file.is_v07 for file in unit.files):  # partition.findings has them: 0.7 names files by byte positions
            return ()
        compaction = Compaction(unit, self._checkpoints, self._request.scan_options)
        return chain_findings(
            [spans.get(file.path) for file in unit.files],
            is_compacted=lambda: compaction.explains_lost_segments,
            topic=unit.topic,
            partition=unit.partition,
        )

    def _unit(self, unit: Unit, path: str, segments: Callable[[], Iterator[Chunk]]) -> Iterator[Chunk]:
        """Yield the figures, the segments, or the batches or records of a partition or of a named log file."""
        if self._request.stats:
            yield from self._stats(unit, path)
        elif self._request.level == "segments":
            yield from segments()
        elif self._request.counts:
            yield from self._counted(unit, path)
        else:
            yield from self._logs(unit)

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

    def _counted(self, unit: Unit, path: str) -> Iterator[Chunk]:
        """Yield one row with the number of the log's matching records, after what is wrong with it."""
        count = 0
        for chunk in self._logs(unit):
            if chunk.table.name == tables.RECORD.name:
                count += chunk.count
            else:
                yield chunk
        if self._reader.take(1):
            place = RowOrigin(unit.topic, unit.partition, "", path if self._request.path else None)
            yield rows_at(place, tables.COUNT, [{"records": count}])

    def _committed(self, unit: Unit) -> tuple[CommittedView | None, list[Finding]]:
        """Return what a read_committed consumer gets, and findings on where it waits; None: no high watermark is known.

        Raises SelectionError in that case if no log directory is a target.
        """
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
        following, is_whole = segments_after(first) if self._is_named(first.path) else ((), True)
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

    def _is_named(self, path: str) -> bool:
        """Return whether a file is itself a target."""
        return any(isinstance(target, FileTarget) and target.path == path for target in self._request.targets)

    def _guarded(self, chunks: Iterator[Chunk], path: str, unit: Unit) -> Generator[Chunk, None, bool]:
        """Yield the chunks, and a finding if the file cannot be read; return whether it could be read.

        Raises StorageError if the file is itself a target.
        """
        try:
            yield from chunks
        except StorageError as error:
            if self._is_named(path):
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
        """Yield the rows of a file that is not a segment's log; those of a KRaft snapshot are batches or records."""
        is_snapshot = file.name.kind is FileKind.KRAFT_SNAPSHOT and file.name.state is FileState.LIVE
        if not (is_snapshot or file.name.kind in ENTRY_KINDS):
            return
        self._report.expect(files=1, size_bytes=file.size_bytes if is_snapshot else 0)
        if self.is_full:
            return
        target = FileTarget(file=file, kind=file.name.kind, topic=topic, partition=partition)
        unit = unit_of_file(target, with_path=self._request.path)
        if is_snapshot:
            as_segment = self._request.level == "segments"
            log, reader = unit.files[0], self._reader
            reader.begin_log()
            rows = segment_row(reader, log, unit, None) if as_segment else reader.rows(log, unit, None)
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


# --- entries of indexes, producer snapshots, checkpoints and property files -------------------------------------------
_ROWS: Final = 4096
_SNAPSHOT_REASONS: Final[dict[type[FormatError], str]] = {
    TruncatedError: "snapshot-truncated",
    UnsupportedError: "snapshot-version",
    FieldError: "snapshot-entry-count",
    ChecksumError: "snapshot-crc-mismatch",
}


class _Entries(NamedTuple):
    """Whole entries from a position on, valid until the next ones; `data` is None if the disk cannot read them."""

    position: int
    size_bytes: int
    data: memoryview | None


def index_rows(file: EntryFile, source: Source) -> Iterator[RowChunk]:
    """Yield every entry of an index, then a finding or damage for what is after the last one."""
    layout = _INDEXES[file.kind].layout
    count, partial_bytes = split_size(layout, source.size_bytes)
    end = count * layout.size
    zeros_position: int | None = None  # where the current zeros start, as long as nothing else follows them
    for position, size_bytes, data in _runs(source, layout, 0, end):
        if data is None:
            yield from _zero_tail(file, zeros_position, position)
            yield unreadable_row(file, position, size_bytes)
            zeros_position = None
            continue
        used_bytes = used_entries(layout, data) * layout.size
        if used_bytes:
            if zeros_position is not None:
                yield from _zero_rows(file, zeros_position, position)
            zeros_position = None
            yield from _rows(file, position, data[:used_bytes])
        if used_bytes < size_bytes and zeros_position is None:
            zeros_position = position + used_bytes
    if _INDEXES[file.kind] is _TIMES and zeros_position == 0 and end == layout.size:
        yield from _zero_rows(file, 0, end)  # one entry of zeros: records of 1970
    else:
        yield from _zero_tail(file, zeros_position, min(end, source.size_bytes))
    if source.size_bytes < end + partial_bytes:
        yield fault_row(file, file.finding("file.shrank", position=source.size_bytes))
    elif partial_bytes:
        detail = f"{partial_bytes} bytes after entry {count - 1}, where an entry has {layout.size}"
        yield damage_row(file, end, partial_bytes, "partial-entry", detail)


def snapshot_rows(file: EntryFile, source: Source) -> Iterator[RowChunk]:
    """Yield every producer of a snapshot whose version, size and checksum are correct, else one damage row for it."""
    size_bytes = source.size_bytes
    try:
        _check_snapshot(source)
    except FormatError as error:
        yield damage_row(file, 0, size_bytes, _SNAPSHOT_REASONS[type(error)], str(error))
        return
    except UnreadableError as error:
        yield damage_row(file, 0, size_bytes, "unreadable", f"{error.message}, so its checksum cannot be checked")
        return
    place, columns = place_of_rows(file), PRODUCER.names[-len(SNAPSHOT_ENTRY.fields) :]
    for position, run_bytes, data in _runs(source, SNAPSHOT_ENTRY, ENTRIES_START, size_bytes):
        if data is None:
            yield unreadable_row(file, position, run_bytes)
            continue
        positions = itertools.count(position, SNAPSHOT_ENTRY.size)
        producers = zip(positions, iter_producer_entries(data), strict=False)
        rows = [place | {"position": at} | dict(zip(columns, each, strict=True)) for at, each in producers]
        yield RowChunk(PRODUCER, rows)


def _check_snapshot(source: Source) -> None:
    header, position = decode_snapshot_header(source.window(0, SNAPSHOT_HEADER.size))
    check_snapshot_size(header, source.size_bytes)
    computed, position = 0, CRC_START
    while position < header.size_bytes:
        window = source.window(position)
        if not window:
            raise TruncatedError("the file became shorter while it was read", position=position)
        computed = crc32c(window, computed)
        position += len(window)
    check_snapshot_crc(header, computed)


def _runs(source: Source, layout: Layout, start: int, end: int) -> Iterator[_Entries]:
    """Yield the entries between two entry boundaries, some thousand at a time; fewer if the file becomes shorter."""
    position = start
    while position < end:
        try:
            window = source.window(position, min(_ROWS * layout.size, end - position))
        except UnreadableError as error:
            entries = -(-(error.position + error.size_bytes - position) // layout.size)
            lost = _Entries(position, min(entries * layout.size, end - position), None)
            yield lost
            position += lost.size_bytes
            continue
        size_bytes = len(window) - len(window) % layout.size
        if size_bytes:
            yield _Entries(position, size_bytes, window[:size_bytes])
        elif position + layout.size > source.size_bytes:
            return
        else:  # the disk cannot read the rest of this entry
            size_bytes = layout.size
            yield _Entries(position, size_bytes, None)
        position += size_bytes


def _rows(file: EntryFile, position: int, run: memoryview) -> Iterator[RowChunk]:
    """Yield the rows of entries, and a finding for each transaction whose version no broker reads."""
    index, rows = _INDEXES[file.kind], []
    common, size = place_of_rows(file) | {"kind": index.name}, index.layout.size
    for slot, fields in enumerate(index.entries(run), position // size):
        row = common | {"slot": slot, "position": slot * size} | dict(zip(index.columns, fields, strict=True))
        relative_offset = row.get("relative_offset")
        if isinstance(relative_offset, int) and file.base_offset is not None:
            row["offset"] = file.base_offset + relative_offset
        rows.append(row)
    yield RowChunk(INDEX_ENTRY, rows)
    for slot, (version, *_) in enumerate(index.entries(run) if index is _TRANSACTIONS else ()):
        if version > _MAX_TXN_VERSION:
            at = position + slot * size
            yield fault_row(file, file.finding("txnindex.bad-version", position=at, size_bytes=size, version=version))


def _zero_rows(file: EntryFile, position: int, end: int) -> Iterator[RowChunk]:
    """Yield rows of entries of zeros, which another entry follows."""
    zeros = memoryview(bytes(_ROWS * _INDEXES[file.kind].layout.size))
    while position < end:
        run = zeros[: end - position]
        yield from _rows(file, position, run)
        position += len(run)


def _zero_tail(file: EntryFile, position: int | None, end: int) -> Iterator[RowChunk]:
    if position is not None and position < end:
        code = "txnindex.zero-tail" if _INDEXES[file.kind] is _TRANSACTIONS else "index.zero-tail"
        yield fault_row(file, file.finding(code, position=position, size_bytes=end - position))


_MAX_TXN_VERSION: Final = 0x00FF  # AbortedTxn reads the first of the two bytes alone, as a signed number


class _Index(NamedTuple):
    """The entries of one kind of index, and the columns that their fields fill."""

    name: str
    layout: Layout
    entries: Callable[[memoryview], Iterator[tuple[int, ...]]]
    columns: tuple[str, ...]


_OFFSETS: Final = _Index("offset", OFFSET_INDEX_ENTRY, iter_offset_entries, ("relative_offset", "log_position"))
_TIMES: Final = _Index("time", TIME_INDEX_ENTRY, iter_time_entries, ("timestamp_ms", "relative_offset"))
_TRANSACTIONS: Final = _Index(
    "txn",
    TXN_INDEX_ENTRY,
    iter_txn_entries,
    ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset"),
)
_INDEXES: Final = {
    FileKind.OFFSET_INDEX: _OFFSETS,
    FileKind.REMOTE_OFFSET_INDEX: _OFFSETS,
    FileKind.TIME_INDEX: _TIMES,
    FileKind.REMOTE_TIME_INDEX: _TIMES,
    FileKind.TXN_INDEX: _TRANSACTIONS,
    FileKind.REMOTE_TXN_INDEX: _TRANSACTIONS,
}
_PROPERTY_KINDS: Final = frozenset(
    {FileKind.META_PROPERTIES, FileKind.PARTITION_METADATA, FileKind.CLEAN_SHUTDOWN, FileKind.QUORUM_STATE}
)
_READERS: Final[dict[FileKind, Callable[[EntryFile, Source], Iterator[RowChunk]]]] = {
    **dict.fromkeys(_INDEXES, index_rows),
    **dict.fromkeys(CHECKPOINT_KINDS, checkpoint_rows),
    **dict.fromkeys(_PROPERTY_KINDS, property_rows),
    FileKind.SNAPSHOT: snapshot_rows,
}
ENTRY_KINDS: Final = frozenset(_READERS)
"""The kinds that `entries` reads."""


def entries(
    path: str,
    kind: FileKind,
    *,
    state: FileState = FileState.LIVE,
    topic: str | None = None,
    partition: int | None = None,
    base_offset: int | None = None,
) -> Iterator[RowChunk]:
    """Yield rows of one file, in its order: `index_entry`, `producer`, `checkpoint`, `property`, `damage`, `finding`.

    Args:
        path: path of the file.
        kind: the kind to read it as, one of `ENTRY_KINDS`.
        state: that of the file's name; a broker never refuses a temporary file, it overwrites it.
        topic: topic of the file's directory; None: the directory is not that of a partition.
        partition: partition number of that directory.
        base_offset: offset in the file's name, for the offsets of an offset or time index; None: it has none.

    Raises NotFoundError, AccessError, and UnsupportedError for a kind that is not one of `ENTRY_KINDS`.
    """
    read = _READERS.get(kind)
    if read is None:
        raise UnsupportedError(f"a file of kind {kind} holds no entries", path=path)
    file = EntryFile(path=path, kind=kind, state=state, topic=topic, partition=partition, base_offset=base_offset)
    with Source.open(path) as source:
        yield from read(file, source)
