"""Rows of one log file: scan, filter, decode, and the damage in its place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog_core import tables
from kafkalog_core.findings import found
from kafkalog_core.format.columns import RecordColumns
from kafkalog_core.format.decode import PayloadDamage, RecordRun, decode_backwards, decode_run
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.ops.backwards import runs_backwards
from kafkalog_core.ops.chunks import OUT_BYTES, BatchChunk, Lines, RecordChunk
from kafkalog_core.ops.rows import RowChunk
from kafkalog_core.ops.select import batch_filter, record_selection
from kafkalog_core.storage.resync import count_zeros
from kafkalog_core.storage.scan import Damage, Run, scan
from kafkalog_core.storage.source import Change, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.findings import Severity
    from kafkalog_core.ops.committed import CommittedView
    from kafkalog_core.ops.dump import DumpRequest
    from kafkalog_core.ops.logfiles import LogFile, Unit
    from kafkalog_core.ops.progress import Progress
    from kafkalog_core.ops.report import Report
    from kafkalog_core.ops.rows import Chunk
    from kafkalog_core.ops.stats import LogStats
    from kafkalog_core.storage.scan import ScanOptions

__all__ = ["LogReader"]

_CHANGE_CODES = {
    Change.GREW: "file.grew",
    Change.SHRANK: "file.shrank",
    Change.REPLACED: "file.replaced",
    Change.MODIFIED: "file.modified",
}


class LogReader:
    """Reads log files for one request and counts in its report; `is_full` once the limit is reached."""

    def __init__(self, request: DumpRequest, report: Report, progress: Progress) -> None:
        self._request = request
        self._report = report
        self._progress = progress
        self._left = request.limit
        self._out = bytearray(OUT_BYTES)
        self._records = RecordColumns()

    @property
    def is_full(self) -> bool:
        """Whether as many rows were given out as were asked for."""
        return self._left is not None and self._left <= 0

    @property
    def scan_options(self) -> ScanOptions:
        """How files are scanned."""
        return self._request.scan_options

    def take(self, count: int) -> int:
        """How many of `count` more rows may still be given out."""
        if self._left is None:
            return count
        taken = min(count, max(0, self._left))
        self._left -= taken
        return taken

    def rows(self, file: LogFile, unit: Unit, view: CommittedView | None) -> Iterator[Chunk]:
        """Rows of the request's level of one file. Raises StorageError where it cannot be opened."""
        self._report.files += 1
        lines = Lines(file.place, self._out)
        with Source.open(file.path) as source:
            for item in self._items(source, file):
                if isinstance(item, Damage):
                    yield self.damage(item, file, self._severity(item, source, file, unit))
                elif self._request.newest_first:
                    yield from self._run_backwards(item, lines, view)
                else:
                    yield from self.run(item, lines, view)
                if self.is_full:
                    return
            yield from self._changes(source, file)

    def measure(self, file: LogFile, unit: Unit, stats: LogStats) -> Iterator[Chunk]:
        """Figures of one file into `stats`; rows of its damage alone. Raises StorageError where it cannot be opened."""
        self._report.files += 1
        with Source.open(file.path) as source:
            for item in scan(
                source, base_offset=file.base_offset, is_v07=file.is_v07, options=self._request.scan_options
            ):
                if isinstance(item, Damage):
                    stats.add_damage(item.size_bytes)
                    yield self.damage(item, file, self._severity(item, source, file, unit))
                    continue
                self._count(item)
                self._report.records += _known_records(item, None)
                stats.add_run(item.batches)
                yield from self._measure_wrapped(item, file, stats)
            yield from self._changes(source, file)

    def run(self, run: Run, lines: Lines, view: CommittedView | None) -> Iterator[Chunk]:
        """Rows of the request's level of one run."""
        self._count(run)
        wanted = self._wanted(run, view)
        if self._request.level == "batches":
            selection = None if wanted is None else bytearray(map(wanted, range(run.batches.count)))
            self._report.records += _known_records(run, selection)
            chunk = BatchChunk(lines, run, self._limited(selection, run.batches.count))
            if chunk.count:
                yield chunk
            return
        options = self._request
        for item in decode_run(
            run.memory, run.batches, max_bytes=options.max_batch_bytes, wanted=wanted, records=self._records
        ):
            if isinstance(item, PayloadDamage):
                yield self._payload_damage(item, run, lines)
                continue
            yield from self.records(item, lines, view, resynced=run.resynced)
            yield from self._wrong_messages(item, lines)
            if self.is_full:
                return

    def records(self, run: RecordRun, lines: Lines, view: CommittedView | None, *, resynced: bool) -> Iterator[Chunk]:
        """Those of decoded records that are wanted."""
        selection = self._limited(self._record_selection(run, view), run.records.count)
        chunk = RecordChunk(lines, run, resynced=resynced, selection=selection)
        self._report.records += chunk.count
        if chunk.count:
            yield chunk

    def _record_selection(self, run: RecordRun, view: CommittedView | None) -> bytearray | None:
        selection = record_selection(self._request.filters, run)
        offsets = run.records.column("offset")
        if view is None or (view.is_readable(min(offsets)) and view.is_readable(max(offsets))):
            return selection
        selection = selection or bytearray(b"\x01") * run.records.count
        for row, offset in enumerate(offsets):
            if not view.is_readable(offset):
                selection[row] = 0
        return selection

    def damage(self, damage: Damage, file: LogFile, severity: Severity) -> RowChunk:
        """The `damage` row."""
        self._report.add_damage(damage.reason, damage.size_bytes, severity)
        self._report.bytes += damage.size_bytes
        self._progress.advance(damage.size_bytes)
        row = {
            **file.place._asdict(),
            "position": damage.position,
            "size_bytes": damage.size_bytes,
            "reason": damage.reason,
            "detail": damage.detail,
            "next_offset": damage.next_offset,
            "severity": severity,
        }
        return RowChunk(tables.DAMAGE, [row])

    def changed(self, change: Change, file: LogFile) -> RowChunk:
        """The `finding` row that says what has happened to a file while it was read."""
        finding = found(_CHANGE_CODES[change], file.path, topic=file.place.topic, partition=file.place.partition)
        self._report.add_finding(finding.row())
        return RowChunk(tables.FINDING, [finding.row()])

    def _items(self, source: Source, file: LogFile) -> Iterator[Run | Damage]:
        options = self._request.scan_options
        items = scan(source, base_offset=file.base_offset, is_v07=file.is_v07, options=options)
        if not self._request.newest_first:
            return items
        return runs_backwards(source, items, is_v07=file.is_v07, base_offset=file.base_offset, options=options)

    def _run_backwards(self, run: Run, lines: Lines, view: CommittedView | None) -> Iterator[Chunk]:
        """As `run`, the last row first."""
        self._count(run)
        wanted = self._wanted(run, view)
        if self._request.level == "batches":
            selection = None if wanted is None else bytearray(map(wanted, range(run.batches.count)))
            self._report.records += _known_records(run, selection)
            yield from self._reversed(BatchChunk(lines, run, selection))
            return
        for row in range(run.batches.count - 1, -1, -1):
            if wanted is not None and not wanted(row):
                continue
            for item in decode_backwards(
                run.memory, run.batches, row, max_bytes=self._request.max_batch_bytes, records=self._records
            ):
                if isinstance(item, PayloadDamage):
                    yield self._payload_damage(item, run, lines)
                    continue
                selection = self._record_selection(item, view)
                chunk = RecordChunk(lines, item, resynced=run.resynced, selection=selection)
                for part in self._reversed(chunk):
                    self._report.records += part.count
                    yield part
                if self.is_full:
                    return

    def _reversed(self, chunk: BatchChunk | RecordChunk) -> Iterator[RowChunk]:
        rows = list(chunk.rows())[::-1]
        taken = self.take(len(rows))
        if taken:
            yield RowChunk(chunk.table, rows[:taken])

    def _count(self, run: Run) -> None:
        size_bytes = sum(run.batches.column("size_bytes"))
        self._report.bytes += size_bytes
        self._report.batches += run.batches.count
        self._progress.advance(size_bytes)

    def _wanted(self, run: Run, view: CommittedView | None) -> Callable[[int], bool] | None:
        by_filters = batch_filter(self._request.filters, run.batches)
        if view is None:
            return by_filters
        is_committed = view.batch_filter(run.batches)
        if by_filters is None:
            return is_committed
        return lambda row: by_filters(row) and is_committed(row)

    def _limited(self, selection: bytearray | None, count: int) -> bytearray | None:
        """The selection without what passes the limit."""
        if self._left is None:
            return selection
        chosen = selection if selection is not None else bytearray(b"\x01") * count
        left = self.take(chosen.count(1))
        for row, is_chosen in enumerate(chosen):
            if is_chosen:
                if left <= 0:
                    chosen[row] = 0
                left -= 1
        return chosen

    def _wrong_messages(self, run: RecordRun, lines: Lines) -> Iterator[Chunk]:
        """Messages inside wrappers of 0.7 whose own checksum is wrong, under a good one of the wrapper."""
        if 0 not in run.records.column("crc_ok"):
            return
        for row, is_right in enumerate(run.records.column("crc_ok")):
            if not is_right:
                batch = run.records.column("batch")[row]
                detail = f"the checksum of message {row + 1} in this run is not that of its payload; 0.7 refuses it"
                yield self._batch_damage("message-crc", detail, run.batches.column("position")[batch], lines)

    def _payload_damage(self, damage: PayloadDamage, run: Run, lines: Lines) -> RowChunk:
        position = run.batches.column("position")[damage.batch]
        return self._batch_damage(damage.reason, damage.detail, position, lines)

    def _batch_damage(self, reason: str, detail: str, position: int, lines: Lines) -> RowChunk:
        """Damage inside of a batch that is whole: its bytes are counted with the batch."""
        self._report.add_damage(reason, 0)
        row = {
            **lines.place._asdict(),
            "position": position,
            "size_bytes": 0,
            "reason": reason,
            "detail": detail,
            "next_offset": None,
            "severity": "error",
        }
        return RowChunk(tables.DAMAGE, [row])

    def _measure_wrapped(self, run: Run, file: LogFile, stats: LogStats) -> Iterator[Chunk]:
        """Records inside wrappers, which only their content counts."""
        counts = run.batches.column("record_count")
        formats = run.batches.column("format")
        rows = {row for row in range(run.batches.count) if counts[row] < 0 and formats[row] != 2}
        if not rows:
            return
        lines = Lines(file.place, self._out)
        for item in decode_run(
            run.memory,
            run.batches,
            max_bytes=self._request.max_batch_bytes,
            wanted=rows.__contains__,
            records=self._records,
        ):
            if isinstance(item, PayloadDamage):
                stats.add_damage(0)
                yield self._payload_damage(item, run, lines)
            else:
                self._report.records += item.records.count
                stats.add_wrapped(item.records.count, min(item.records.column("offset")))

    def _severity(self, damage: Damage, source: Source, file: LogFile, unit: Unit) -> Severity:
        """What is no loss: a batch that a broker is writing, and preallocated space that it will cut off."""
        if not file.is_last or damage.reason not in {"torn-tail", "zero-filled"}:
            return "error"
        if damage.reason == "torn-tail" and source.refresh() is Change.GREW:
            return "info"
        end = damage.position + damage.size_bytes
        is_zero_tail = end >= source.size_bytes and count_zeros(source, damage.position, end) == damage.size_bytes
        if not is_zero_tail or unit.log_dir is None:
            return "error"
        return "error" if Path(unit.log_dir, fixed_file_name(FileKind.CLEAN_SHUTDOWN)).exists() else "info"

    def _changes(self, source: Source, file: LogFile) -> Iterator[Chunk]:
        change = source.refresh()
        if change is not Change.NONE:
            yield self.changed(change, file)


def _known_records(run: Run, selection: bytearray | None) -> int:
    counts = run.batches.column("record_count")
    if selection is None:
        return sum(count for count in counts if count > 0)
    return sum(count for count, is_chosen in zip(counts, selection, strict=True) if is_chosen and count > 0)
