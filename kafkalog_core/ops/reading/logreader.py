"""A log file's rows from its end to its start, in the memory of one window or one batch.

A first scan notes where its runs lie; each is then read again, the last one first.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.findings import found
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.ops.reading.chunks import Lines, rows_at
from kafkalog_core.ops.reading.file_part import WHOLE, mark_of, part_items
from kafkalog_core.ops.reading.logfiles import OffsetSpan
from kafkalog_core.ops.reading.runs import RunReader
from kafkalog_core.rows import tables
from kafkalog_core.rows.chunk import RowChunk
from kafkalog_core.storage.framing import count_zeros
from kafkalog_core.storage.scan import APPEND_CUT, Damage, Run, scan
from kafkalog_core.storage.source import CHANGE_CODES, FileChange, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.findings import Severity
    from kafkalog_core.ops.reading.committed import CommittedView
    from kafkalog_core.ops.reading.file_part import BatchMark, FilePart
    from kafkalog_core.ops.reading.logfiles import LogFile, Unit
    from kafkalog_core.ops.reading.report import Report
    from kafkalog_core.ops.reading.runs import DumpRequest
    from kafkalog_core.ops.reading.stats import LogStats
    from kafkalog_core.progress import Progress
    from kafkalog_core.rows.chunk import Chunk
    from kafkalog_core.storage.scan import ScanOptions

__all__ = ["LogReader", "damage_severity", "runs_backwards"]


_ANY_OFFSET: Final = -MAX_INT64


class _Span(NamedTuple):
    """Where a run is, and whether it was found by a search."""

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
    noted: list[_Span | Damage] = []
    for item in items:
        if isinstance(item, Damage):
            noted.append(item)
            continue
        positions, sizes = item.batches.column("position"), item.batches.column("size_bytes")
        noted.append(_Span(positions[0], positions[-1] + sizes[-1], item.resynced))
    for span in reversed(noted):
        if isinstance(span, Damage):
            yield span
            continue
        base = base_offset if is_v07 else _ANY_OFFSET  # of 0.7 it makes the addresses; order was checked the first time
        for item in scan(source, base_offset=base, is_v07=is_v07, options=options, start=span.start, end=span.end):
            if isinstance(item, Run):
                yield replace(item, resynced=span.resynced)
            elif item.size_bytes:  # could be read the first time, not the second
                yield item


CLOSED_CUT = "the file was cut, as another segment follows it"


_TOGETHER: Final = 512
"""Damaged places without anything whole between them that are given out at a time."""


class LogReader:
    """Reads log files for one request and counts in its report; `is_full` once the limit is reached."""

    def __init__(self, request: DumpRequest, report: Report, progress: Progress) -> None:
        self._request = request
        self._report = report
        self._progress = progress
        self._runs = RunReader(request, report, progress)
        self._out = bytearray()
        self._spans: dict[str, OffsetSpan] = {}
        self._last: BatchMark | None = None

    @property
    def is_full(self) -> bool:
        """Whether as many rows were given out as were asked for."""
        return self._runs.is_full

    @property
    def scan_options(self) -> ScanOptions:
        """How files are scanned."""
        return self._request.scan_options

    def take(self, count: int) -> int:
        """Return how many of `count` more rows may still be given out."""
        return self._runs.take(count)

    def take_spans(self) -> dict[str, OffsetSpan]:
        """Return the offsets of each file that was read to its end since the last call, by path."""
        spans, self._spans = self._spans, {}
        return spans

    @property
    def last_batch(self) -> BatchMark | None:
        """The batch at the highest position that `rows` has read last; None: it has not finished."""
        return self._last

    def rows(self, file: LogFile, unit: Unit, view: CommittedView | None, part: FilePart = WHOLE) -> Iterator[Chunk]:
        """Yield rows of the request's level of a file or a part of it. Raises StorageError if it cannot be opened.

        Parts are read forwards, of files that are not of 0.7, without a search after damage.
        """
        lines = Lines(file.place, self._out)
        span = OffsetSpan(file.path, file.base_offset or 0)
        self._last = last = None
        with Source.open(file.path) as source:
            self._report.files += 1
            if not part.is_whole and source.inode != file.file.inode:
                yield self._finding("file.replaced-since", file)
                return
            waiting: list[tuple[Damage, Severity]] = []
            for item in self._items(source, file, part):
                span.add(item)
                last = _last_of(last, item, file)
                if isinstance(item, Damage):
                    waiting.append((item, self.severity(item, source, file, unit)))
                    if len(waiting) < _TOGETHER:
                        continue
                if waiting:
                    yield self.damages(waiting, file)
                    waiting = []
                if isinstance(item, Run):
                    yield from self._runs.rows(item, lines, view)
                if self.is_full:
                    return
            if waiting:
                yield self.damages(waiting, file)
            self._spans[file.path], self._last = span, last
            yield from self._changes(source, file, last, part)

    def measure(self, file: LogFile, unit: Unit, stats: LogStats) -> Iterator[Chunk]:
        """Add the figures of a file to `stats`; yield its damage. Raises StorageError if it cannot be opened."""
        lines = Lines(file.place, self._out)
        span = OffsetSpan(file.path, file.base_offset or 0)
        last: BatchMark | None = None
        with Source.open(file.path) as source:
            self._report.files += 1
            for item in scan(
                source, base_offset=file.base_offset, is_v07=file.is_v07, options=self._request.scan_options
            ):
                span.add(item)
                last = _last_of(last, item, file)
                if isinstance(item, Damage):
                    stats.add_damage(item.size_bytes)
                    yield self.damage(item, file, self.severity(item, source, file, unit))
                else:
                    yield from self._runs.measure(item, lines, stats)
            self._spans[file.path] = span
            yield from self._changes(source, file, last)

    def run(self, run: Run, lines: Lines) -> Iterator[Chunk]:
        """Return rows of the request's level of one run."""
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
                "detail": damage.detail if file.is_last else damage.detail.replace(APPEND_CUT, CLOSED_CUT),
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

    def _items(self, source: Source, file: LogFile, part: FilePart) -> Iterator[Run | Damage]:
        options = self._request.scan_options
        if not part.is_whole:
            return part_items(source, part, base_offset=file.base_offset, options=options)
        items = scan(source, base_offset=file.base_offset, is_v07=file.is_v07, options=options)
        if not self._request.newest_first:
            return items
        return runs_backwards(source, items, is_v07=file.is_v07, base_offset=file.base_offset, options=options)

    def severity(self, damage: Damage, source: Source, file: LogFile, unit: Unit) -> Severity:
        """See `damage_severity`."""
        return damage_severity(damage, source, file, unit)

    def _changes(
        self, source: Source, file: LogFile, last: BatchMark | None, part: FilePart = WHOLE
    ) -> Iterator[Chunk]:
        if part.end is not None:  # the rest is reported once for a file, after its last part
            if source.size_bytes < part.end:
                yield self.changed(FileChange.SHRANK, file)
            return
        change = source.refresh()
        if change in {FileChange.GREW, FileChange.MODIFIED} and last is not None and not last.stands_in(source):
            change = FileChange.SHRANK  # and has grown again since
        if source.size_bytes < file.file.size_bytes:
            change = FileChange.SHRANK  # since it was listed
        if change is not FileChange.NONE:
            yield self.changed(change, file)


def damage_severity(damage: Damage, source: Source, file: LogFile, unit: Unit) -> Severity:
    """Return what is not a loss: a batch that a broker is writing, and preallocated space that it will cut off."""
    if not file.is_last or damage.reason not in {"torn-tail", "zero-filled"}:
        return "error"
    if damage.reason == "torn-tail" and source.refresh() is FileChange.GREW:
        return "info"
    end = damage.position + damage.size_bytes  # a preallocated file may have room for less than a header
    is_zeros = damage.is_zeros or (
        damage.reason == "torn-tail" and count_zeros(source, damage.position, end) == damage.size_bytes
    )
    if not is_zeros or unit.log_dir is None:
        return "error"
    return "error" if Path(unit.log_dir, fixed_file_name(FileKind.CLEAN_SHUTDOWN)).exists() else "info"


def _last_of(before: BatchMark | None, item: Run | Damage, file: LogFile) -> BatchMark | None:
    """Return the batch at the highest position among those that were read up to this item."""
    if isinstance(item, Damage):
        return before
    mark = mark_of(file, item, -1)
    return mark if before is None or mark.position > before.position else before
