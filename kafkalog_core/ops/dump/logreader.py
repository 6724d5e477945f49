"""Reads log files forwards, in parts (`engine.parts`), and backwards, into rows.

Backwards, a first scan notes where the runs of batches are; each is then read again, the last one first. The memory is
that of one window or one batch.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.engine.chunks import LineBuffer, Lines, rows_at
from kafkalog_core.engine.decoded import DecodedLines, Undecoded, text_decoder
from kafkalog_core.engine.parts import WHOLE, LogPart, part_items
from kafkalog_core.findings import found
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.kafka.sim.logfiles import SegmentExtent, damage_severity
from kafkalog_core.ops.dump.runs import RunReader
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.storage.scan import REST_MISSING, Damage, Run, scan
from kafkalog_core.storage.source import CHANGE_CODES, FileChange, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.engine.chunks import LineRoom
    from kafkalog_core.engine.log_stats import LogStats
    from kafkalog_core.engine.report import Report
    from kafkalog_core.findings import Severity
    from kafkalog_core.kafka.sim.logfiles import LogFile, Unit
    from kafkalog_core.kafka.sim.read_committed import CommittedView
    from kafkalog_core.ops.dump.runs import DumpRequest
    from kafkalog_core.output.chunk import Chunk
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.scan import ScanOptions

__all__ = [
    "BatchMark",
    "LogReader",
    "identity_of",
    "mark_of",
    "runs_backwards",
]


_HEADER_BYTES: Final = 61
"""The header of a batch of magic 2; of other formats the checksum is within it too."""


Identity = tuple[int, int]
"""Device and inode of a file."""


class BatchMark(NamedTuple):
    """The place of one batch, and its header, by which the batch is recognized."""

    identity: Identity
    position: int
    size_bytes: int
    header: bytes
    last_offset: int

    @property
    def end(self) -> int:
        """The byte after the batch."""
        return self.position + self.size_bytes

    def is_in(self, source: Source) -> bool:
        """Return whether a file still has the batch."""
        if source.size_bytes < self.end:
            return False
        return source.read(self.position, len(self.header)) == self.header


def mark_of(file: LogFile, run: Run, row: int) -> BatchMark:
    """Return the mark of one row of a run, which is still in memory from its first batch on; -1: the last row."""
    position, size = run.batches.column("position")[row], run.batches.column("size_bytes")[row]
    start = run.start_of(row)
    header = bytes(run.memory[start : start + min(size, _HEADER_BYTES)])
    return BatchMark(identity_of(file), position, size, header, run.batches.column("last_offset")[row])


def identity_of(file: LogFile) -> Identity:
    """Return what identifies a file, whatever its name is."""
    return file.file.device, file.file.inode


_ANY_OFFSET: Final = -MAX_INT64


class _RunBytes(NamedTuple):
    """The bytes of a run, and whether a search after damage found it."""

    start: int
    end: int
    resynced: bool


def runs_backwards(
    source: Source,
    items: Iterable[Run | Damage],
    *,
    is_v07: bool,
    base_offset: int | None,
    options: ScanOptions,
) -> Iterator[Run | Damage]:
    """Yield the items of a scan in reverse; runs are read a second time."""
    noted: list[_RunBytes | Damage] = []
    for item in items:
        if isinstance(item, Damage):
            noted.append(item)
            continue
        positions, sizes = item.batches.column("position"), item.batches.column("size_bytes")
        noted.append(_RunBytes(positions[0], positions[-1] + sizes[-1], item.resynced))
    for place in reversed(noted):
        if isinstance(place, Damage):
            yield place
            continue
        base = base_offset if is_v07 else _ANY_OFFSET  # offsets of 0.7 count from it; the first scan checked the order
        for item in scan(source, base_offset=base, is_v07=is_v07, options=options, start=place.start, end=place.end):
            if isinstance(item, Run):
                yield item._replace(resynced=place.resynced)
            elif item.size_bytes:  # readable in the first scan, but not in the second
                yield item


CLOSED_CUT = "the file was truncated, because another segment follows it"


_TOGETHER: Final = 512
"""Adjacent damaged ranges in one chunk of rows."""


class LogReader:
    """Reads log files for one request and counts in its report; `is_full` once the limit is reached."""

    def __init__(self, request: DumpRequest, report: Report, progress: Progress, out: LineRoom | None = None) -> None:
        self._request = request
        self._report = report
        self._progress = progress
        self._runs = RunReader(request, report, progress)
        self._out = LineBuffer() if out is None else out
        self._extents: dict[str, SegmentExtent] = {}
        self._undecoded = Undecoded()
        self._last: BatchMark | None = None

    @property
    def is_full(self) -> bool:
        """Whether the request's limit of rows is reached."""
        return self._runs.is_full

    @property
    def is_done(self) -> bool:
        """Whether nothing more of the current log is shown."""
        return self._runs.is_done

    def begin_log(self) -> None:
        """Start to read another log, whose matching records have a context and a number of their own."""
        self._runs.begin_log()

    @property
    def scan_options(self) -> ScanOptions:
        """How files are scanned."""
        return self._request.scan_options

    def take(self, count: int) -> int:
        """Return how many of `count` more rows the limit allows, and count them."""
        return self._runs.take(count)

    def take_extents(self) -> dict[str, SegmentExtent]:
        """Return the offsets of each file that was read to its end since the last call, by path."""
        extents, self._extents = self._extents, {}
        return extents

    def take_undecoded(self) -> Undecoded:
        """Return the records that do not decode, of the rows that were written since the last call."""
        found, self._undecoded = self._undecoded, Undecoded()
        return found

    def lines_of(self, file: LogFile) -> Lines:
        """Return what the rows of a file are written with."""
        decode = None if file.is_v07 else text_decoder(self._request.decode, file.place.topic)
        if decode is None:
            return Lines(file.place, self._out)
        return DecodedLines(
            file.place, self._out, decode, lambda problem, offset: self._undecoded.note(file.path, problem, offset)
        )

    @property
    def last_batch(self) -> BatchMark | None:
        """The batch at the highest position of the last file that `rows` has read to its end; None: there is none."""
        return self._last

    def rows(
        self,
        file: LogFile,
        unit: Unit,
        view: CommittedView | None,
        part: LogPart = WHOLE,
    ) -> Iterator[Chunk]:
        """Yield rows of the request's level of a file or a part of it. Raises StorageError if it cannot be opened.

        Parts are read forwards, and only of files that are not of 0.7.
        """
        lines = self.lines_of(file)
        extent = SegmentExtent(file.path, file.base_offset or 0)
        self._last = last = None
        with Source.open(file.path) as source:
            # A file counts with its first part.
            self._report.files += part.start == 0
            # The parts were cut at batches of the file that was listed; in another file, these places mean nothing.
            if not part.is_whole and source.inode != file.file.inode:
                yield self._finding("file.replaced-since", file)
                return
            waiting = _Waiting()
            for item in self._items(source, file, part):
                extent.add(item)
                last = _last_of(last, item, file)
                if isinstance(item, Damage):
                    waiting.add(item, damage_severity(item, source, file, unit))
                    if waiting.are_many:
                        yield self.damages(waiting.take(), file)
                    continue
                for rest, damages in _in_order(item, waiting, is_forwards=not self._request.newest_first):
                    if damages:
                        yield self.damages(damages, file)
                    if rest is not None:
                        yield from self._runs.rows(rest, lines, view)
                if self.is_done:
                    return
            if damages := waiting.take():
                yield self.damages(damages, file)
            changes = [*self._changes(source, file, last, part)]
            source.require_same()  # before the extent says that the file was read
            self._extents[file.path], self._last = extent, last
            yield from changes

    def measure(self, file: LogFile, unit: Unit, stats: LogStats) -> Iterator[Chunk]:
        """Add the figures of a file to `stats`; yield its damage. Raises StorageError if it cannot be opened."""
        lines = Lines(file.place, self._out)
        extent = SegmentExtent(file.path, file.base_offset or 0)
        last: BatchMark | None = None
        with Source.open(file.path) as source:
            self._report.files += 1
            for item in self._scan(source, file):
                extent.add(item)
                last = _last_of(last, item, file)
                if isinstance(item, Damage):
                    stats.add_damage(item.size_bytes)
                    yield self.damage(item, file, damage_severity(item, source, file, unit))
                else:
                    yield from self._runs.measure(item, lines, stats)
            changes = [*self._changes(source, file, last)]
            self._extents[file.path] = extent
            yield from changes

    def run(self, run: Run, lines: Lines) -> Iterator[Chunk]:
        """Yield rows of the request's level of one run."""
        return self._runs.rows(run, lines, None)

    def damage(self, damage: Damage, file: LogFile, severity: Severity) -> RowChunk:
        """Return the `damage` row."""
        return self.damages([(damage, severity)], file)

    def damages(self, damages: Sequence[tuple[Damage, Severity]], file: LogFile) -> RowChunk:
        """Return the `damage` rows."""
        for damage, severity in damages:
            self._report.add_damage(damage.reason, damage.size_bytes, severity)
        size_bytes = sum(damage.size_bytes for damage, _ in damages)
        self._report.bytes += size_bytes
        self._progress.advance(size_bytes)
        rows = [
            {
                "position": damage.position,
                "size_bytes": damage.size_bytes,
                "reason": damage.reason,
                "detail": damage.detail if file.is_last else damage.detail.replace(REST_MISSING, CLOSED_CUT),
                "next_offset": damage.next_offset,
                "severity": severity,
            }
            for damage, severity in damages
        ]
        return rows_at(file.place, tables.DAMAGE, rows)

    def changed(self, change: FileChange, file: LogFile) -> RowChunk:
        """Return the `finding` row that reports what happened to a file while it was read."""
        return self._finding(CHANGE_CODES[change], file)

    def _finding(self, code: str, file: LogFile) -> RowChunk:
        finding = found(code, file.path, topic=file.place.topic, partition=file.place.partition)
        self._report.add_finding(finding.row())
        return RowChunk(tables.FINDING, [finding.row()])

    def _scan(self, source: Source, file: LogFile) -> Iterator[Run | Damage]:
        return scan(source, base_offset=file.base_offset, is_v07=file.is_v07, options=self._request.scan_options)

    def _items(self, source: Source, file: LogFile, part: LogPart) -> Iterator[Run | Damage]:
        options = self._request.scan_options
        if not part.is_whole:
            return part_items(source, part, base_offset=file.base_offset, options=options)
        items = self._scan(source, file)
        if not self._request.newest_first:
            return items
        return runs_backwards(source, items, is_v07=file.is_v07, base_offset=file.base_offset, options=options)

    def _changes(self, source: Source, file: LogFile, last: BatchMark | None, part: LogPart = WHOLE) -> Iterator[Chunk]:
        if part.end is not None:  # other changes are reported once for a file, after its last part
            if source.size_bytes < part.end:
                yield self.changed(FileChange.SHRANK, file)
            return
        change = source.refresh(data_end=None if last is None else last.end)
        if change not in {FileChange.NONE, FileChange.REPLACED} and last is not None and not last.is_in(source):
            change = FileChange.SHRANK  # and has grown again since
        if source.size_bytes < file.file.size_bytes and change is not FileChange.TRIMMED:
            change = FileChange.SHRANK  # since it was listed
        is_as_large = source.size_bytes == file.file.size_bytes
        if change is FileChange.NONE and not part.is_whole and is_as_large and source.mtime_ns != file.file.mtime_ns:
            change = FileChange.MODIFIED  # since it was listed: the parts before may have been read before that
        if change is not FileChange.NONE:
            yield self.changed(change, file)


class _Waiting:
    """Damage rows held back until the batches before them are written."""

    def __init__(self) -> None:
        self._damages: list[tuple[Damage, Severity]] = []
        self._has_places = False

    def add(self, damage: Damage, severity: Severity) -> None:
        """Add damage of any position."""
        self._damages.append((damage, severity))
        self._has_places = self._has_places or not damage.size_bytes

    @property
    def are_many(self) -> bool:
        """Whether there are enough for a chunk of rows, and no batch is before any of them."""
        return len(self._damages) >= _TOGETHER and not self._has_places

    def take(self, up_to: int = MAX_INT64) -> list[tuple[Damage, Severity]]:
        """Return the damage up to a position, in the order of the file, and forget it."""
        found = sorted((each for each in self._damages if each[0].position <= up_to), key=_position)
        self._damages = [each for each in self._damages if each[0].position > up_to]
        self._has_places = any(not damage.size_bytes for damage, _ in self._damages)
        return found


def _position(each: tuple[Damage, Severity]) -> int:
    return each[0].position


def _in_order(
    run: Run, waiting: _Waiting, *, is_forwards: bool
) -> Iterator[tuple[Run | None, list[tuple[Damage, Severity]]]]:
    """Yield damage and the batches of a run that follow it, in the order of their positions.

    A scan yields what is wrong with whole batches of a window before all of them. How far a window reaches depends on
    where the scan began, so that without this the rows of a part would have another order than those of its file.
    """
    positions, count, first = run.batches.column("position"), run.batches.count, 0
    found = waiting.take(positions[-1] if is_forwards else MAX_INT64)
    if not found or not is_forwards:
        yield run, found
        return
    before: list[tuple[Damage, Severity]] = []
    for position, group in groupby(found, lambda each: each[0].position):
        row = bisect_left(positions, position, first, count)
        if row > first:
            yield run.rows(first, row), before
            first, before = row, []
        before += group
    yield run.rows(first, count), before


def _last_of(before: BatchMark | None, item: Run | Damage, file: LogFile) -> BatchMark | None:
    """Return the batch at the highest position among those that were read up to this item."""
    if isinstance(item, Damage):
        return before
    mark = mark_of(file, item, -1)
    return mark if before is None or mark.position > before.position else before
