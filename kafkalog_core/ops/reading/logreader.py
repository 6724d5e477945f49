"""Reads log files forwards, in parts, and backwards, into rows.

A part of a file is read exactly as a scan of the whole file would read it. It owns the entries that start in it. The
position of its first entry follows from all lengths before it, so the lengths are walked from the file's start: headers
only, a small share of the bytes of large batches. That walk trusts every length, but a scan does not: so the scan
begins at the last batch before the part whose checksum is correct. A chain of lengths that leads to a good batch is one
that a scan follows too, whatever else is wrong on the way; if the chain ends before the part, the framing is lost, and
the part in which that happens reports the damage up to the file's end. With a search after damage, the walk goes on at
the next whole batch, as that scan does.

Backwards, a first scan notes where the runs of batches are; each is then read again, the last one first. The memory is
that of one window or one batch.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.findings import found
from kafkalog_core.format.columns import BATCH_ROWS, BatchColumns
from kafkalog_core.format.layout import ENVELOPE, LOG_OVERHEAD, MAX_INT32, MAX_INT64
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.ops.reading.chunks import LineBuffer, Lines, rows_at
from kafkalog_core.ops.reading.logfiles import OffsetSpan
from kafkalog_core.ops.reading.runs import RunReader
from kafkalog_core.rows import tables
from kafkalog_core.rows.chunk import RowChunk
from kafkalog_core.storage.framing import EntrySearch, LogFraming, count_zeros
from kafkalog_core.storage.locks import is_being_written
from kafkalog_core.storage.paths import is_there
from kafkalog_core.storage.scan import APPEND_CUT, Damage, Run, Scanner, scan
from kafkalog_core.storage.source import CHANGE_CODES, FileChange, Source, UnreadableError
from kafkalog_core.structs import NamedTuple, Struct, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.findings import Severity
    from kafkalog_core.ops.reading.chunks import LineRoom
    from kafkalog_core.ops.reading.committed import CommittedView
    from kafkalog_core.ops.reading.logfiles import LogFile, Unit
    from kafkalog_core.ops.reading.report import LogStats, Report
    from kafkalog_core.ops.reading.runs import DumpRequest
    from kafkalog_core.progress import Progress
    from kafkalog_core.rows.chunk import Chunk
    from kafkalog_core.storage.scan import ScanOptions, ScanPlace

__all__ = [
    "WHOLE",
    "BatchMark",
    "FilePart",
    "LogReader",
    "Relay",
    "Walk",
    "damage_severity",
    "identity_of",
    "last_good",
    "mark_of",
    "part_items",
    "runs_backwards",
    "walk_lengths",
]


_JUMP_BYTES: Final = 2048
"""Entries of at least this size are skipped by their headers; smaller ones are walked in windows."""
_DENSE_BYTES: Final = 256 * 1024
_LOOKED_AT: Final = 64
"""Number of batches before a part that are searched for one with a correct checksum; else the scan starts earlier."""


class FilePart(Struct, frozen=True):
    """The entries of a file that start in bytes `start` to `end` (exclusive; None: to the file's end).

    The walk to the start begins at `begin`, where an entry starts that an earlier scan has reached. `next_offset` is
    the offset expected there; None: not known.
    """

    start: int = 0
    end: int | None = None
    begin: int = 0
    next_offset: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the part is all of the file."""
        return self.start == 0 and self.end is None


WHOLE: Final = FilePart()


def part_items(
    source: Source, part: FilePart, *, base_offset: int | None, options: ScanOptions
) -> Iterator[Run | Damage]:
    """Yield the items of a scan of a `.log` file that belong to a part of it.

    Damage belongs to the part that it starts in; damage of size 0, about a whole batch, to the part of that batch.
    """
    start = _scan_start(source, part, options)
    if start is None:
        return
    if start.position == part.begin > 0:
        base_offset = part.next_offset
    until = MAX_INT64 if part.end is None else part.end
    source.wanted_to = until
    for item in scan(source, base_offset=base_offset, options=options, start=start.position, until=until):
        position = item.position if isinstance(item, Damage) else item.batches.column("position")[0]
        if part.end is not None and position >= part.end:
            return
        kept = _kept(item, part)
        if kept is not None:
            if start.resynced and isinstance(kept, Run):
                kept = kept._replace(resynced=True)
            yield kept


class Relay(Protocol):
    """One of several readers of a file: each reads the next range from where the one before it stopped.

    A reader begins a range, gives the place where it ends to the next reader, and has done with it after its rows.
    """

    @property
    def range_bytes(self) -> int:
        """Size of a range, at most: that of the batches in a window."""

    @property
    def place(self) -> ScanPlace | None:
        """Where the range begins; None: at the start of the file."""

    @property
    def has_begun(self) -> bool:
        """Whether a range of this reader has begun and not ended."""

    def begin(self) -> bool:
        """Wait for the next range; false: there is none, the others have read the rest."""

    def give(self, place: ScanPlace) -> None:
        """Give the place where the next range begins to its reader."""

    def end(self) -> None:
        """Let the rows of the range be followed by those of the next one."""


def _relayed_items(
    source: Source, relay: Relay, *, base_offset: int | None, options: ScanOptions
) -> Iterator[Run | Damage]:
    """Yield the items of the ranges that this reader gets, of which the first one has begun.

    A range ends with the first run of a window in which nothing is wrong. The last one, which ends with the file, is
    left to the caller to end.
    """
    framing, options = LogFraming(max(base_offset or 0, 0)), replace(options, first_window_bytes=relay.range_bytes)
    scanner = Scanner(source, base_offset, framing, options, (0, None, MAX_INT64), None)
    while True:
        if relay.place is not None:
            scanner.go_to(relay.place._replace(wanted=min(relay.place.wanted, relay.range_bytes)))
        for item in scanner:
            place = scanner.place if isinstance(item, Run) else None
            if place is not None:
                relay.give(place)
            yield item
            if place is not None:
                break
        else:
            return
        relay.end()
        if not relay.begin():
            return


def _kept(item: Run | Damage, part: FilePart) -> Run | Damage | None:
    """Return the part of an item that is in a part of the file; None: nothing is."""
    if isinstance(item, Damage):
        return item if item.position >= part.start else None
    positions = item.batches.column("position")
    first, last = 0, item.batches.count
    if positions[0] < part.start:
        first = sum(position < part.start for position in positions)
    if part.end is not None and positions[-1] >= part.end:
        last = sum(position < part.end for position in positions)
    if (first, last) == (0, item.batches.count):
        return item
    if first == last:
        return None
    begins = positions[0] if item.begins is None else item.begins
    return Run(item.memory, item.batches.part(first, last), item.resynced, begins=begins)


class _Start(NamedTuple):
    """Where a scan begins, and whether a search after damage has found that place."""

    position: int
    resynced: bool = False


def _scan_start(source: Source, part: FilePart, options: ScanOptions) -> _Start | None:
    """Return where a scan must begin to read the part as a scan of the whole file does; None: no scan reaches it."""
    if part.start <= part.begin:
        return _Start(part.begin)
    walk = _last_walk.to(source, part, options)
    if walk.is_broken and not options.resync:
        return None
    found = last_good(source, walk.before, options.max_batch_bytes)
    return _Start(part.begin if found is None else found[0], walk.resynced)


class Walk(NamedTuple):
    """The end of a walk over lengths.

    `before` are the last entries passed, as (position, size), from the last search on; `is_broken`: no whole entry is
    at `position`, which is before the requested byte; `resynced`: whether a search has found the way.
    """

    position: int
    before: deque[tuple[int, int]]
    is_broken: bool = False
    resynced: bool = False


class _LastWalk:
    """The last walk: a caller that reads the parts of a file one by one walks the file once."""

    def __init__(self) -> None:
        self._version: tuple[int, ...] = ()
        self._begin = 0
        self._walk = Walk(0, deque())

    def to(self, source: Source, part: FilePart, options: ScanOptions) -> Walk:
        """Return the walk to a part's start; it continues the last walk if the file is the same and did not change."""
        is_known = (self._version, self._begin) == (source.version, part.begin) and self._walk.position <= part.start
        walk = self._walk if is_known else Walk(part.begin, deque())
        search = EntrySearch(source, LogFraming(0), options.max_batch_bytes)
        while True:
            resynced = walk.resynced
            walk = walk_lengths(source, walk.position, part.start, walk.before)._replace(resynced=resynced)
            if not walk.is_broken:
                self._version, self._begin, self._walk = source.version, part.begin, walk
                return walk
            found = None
            if options.resync:
                found = search.find(walk.position + 1, source.size_bytes, before=part.start)
            if found is None:
                return walk
            walk = Walk(found, deque(), resynced=True)


_last_walk: Final = _LastWalk()


def walk_lengths(source: Source, position: int, end: int, passed_before: Iterable[tuple[int, int]] = ()) -> Walk:
    """Follow the lengths of a `.log` file's entries from one of them to the first that starts at `end` or after it.

    `passed_before` are entries that an earlier walk has passed.
    """
    framing, columns = LogFraming(0), None
    file_end, min_bytes = source.size_bytes, framing.min_entry_bytes
    reads, peeked, envelope_of = source.peeks(), source.peeked, ENVELOPE.struct.unpack_from
    before = deque(passed_before, maxlen=_LOOKED_AT)
    while position < end:
        size = LOG_OVERHEAD + envelope_of(peeked)[1] if reads(position) else 0
        if not min_bytes <= size <= file_end - position:
            return Walk(position, before, is_broken=True)
        passed = 0
        if size < _JUMP_BYTES:
            columns = columns or BatchColumns(BATCH_ROWS)
            passed = _walk_window(source, framing, position, end, columns)
        if columns is not None and passed:
            places = zip(columns.column("position"), columns.column("size_bytes"), strict=True)
            before.extend([*places][-_LOOKED_AT:])
        else:
            before.append((position, size))
        position += passed or size
    return Walk(position, before)


def last_good(
    source: Source, places: Iterable[tuple[int, int]], max_batch_bytes: int
) -> tuple[int, BatchColumns] | None:
    """Return position and row of the last of some entries whose checksum is correct; None: there is none."""
    framing, probe = LogFraming(0), BatchColumns(2)
    for position, size in reversed([*places]):
        if size > max_batch_bytes:
            continue
        try:
            entry = source.window(position, size)
        except UnreadableError:
            continue
        framing.walk(entry, position, -1, max_batch_bytes, check=True, into=probe)
        if probe.count:
            return position, probe
    return None


def _walk_window(source: Source, framing: LogFraming, position: int, end: int, columns: BatchColumns) -> int:
    """Return the size of the small entries walked at a position, in bytes; 0 if the first of them is not valid."""
    try:
        window = source.window(position, min(_DENSE_BYTES, end - position))
    except UnreadableError:
        return 0
    _, passed = framing.walk(window, position, -1, MAX_INT32, check=False, into=columns)
    return passed if columns.count else 0


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


class _Span(NamedTuple):
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
        base = base_offset if is_v07 else _ANY_OFFSET  # offsets of 0.7 count from it; the first scan checked the order
        for item in scan(source, base_offset=base, is_v07=is_v07, options=options, start=span.start, end=span.end):
            if isinstance(item, Run):
                yield item._replace(resynced=span.resynced)
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
        self._spans: dict[str, OffsetSpan] = {}
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

    def take_spans(self) -> dict[str, OffsetSpan]:
        """Return the offsets of each file that was read to its end since the last call, by path."""
        spans, self._spans = self._spans, {}
        return spans

    @property
    def last_batch(self) -> BatchMark | None:
        """The batch at the highest position of the last file that `rows` has read to its end; None: there is none."""
        return self._last

    def rows(
        self,
        file: LogFile,
        unit: Unit,
        view: CommittedView | None,
        part: FilePart = WHOLE,
        relay: Relay | None = None,
    ) -> Iterator[Chunk]:
        """Yield rows of the request's level of a file or a part of it. Raises StorageError if it cannot be opened.

        Parts are read forwards, and only of files that are not of 0.7; and so is a whole file by several readers, each
        of which has a `relay`, without a search after damage.
        """
        if relay is not None and not relay.begin():
            return
        lines = Lines(file.place, self._out)
        span = OffsetSpan(file.path, file.base_offset or 0)
        self._last = last = None
        with Source.open(file.path) as source:
            self._report.files += part.start == 0 and (relay is None or relay.place is None)
            if not (part.is_whole and relay is None) and source.inode != file.file.inode:
                yield self._finding("file.replaced-since", file)
                return
            waiting: list[tuple[Damage, Severity]] = []
            for item in self._items(source, file, part, relay):
                span.add(item)
                last = _last_of(last, item, file)
                if isinstance(item, Damage):
                    waiting.append((item, damage_severity(item, source, file, unit)))
                    if len(waiting) < _TOGETHER:
                        continue
                if waiting:
                    yield self.damages(waiting, file)
                    waiting = []
                if isinstance(item, Run):
                    yield from self._runs.rows(item, lines, view)
                if self.is_done:
                    return
            if waiting:
                yield self.damages(waiting, file)
            is_at_end = relay is None or relay.has_begun
            changes = [*self._changes(source, file, last, part)] if is_at_end else []
            source.require_same()  # before the span says that the file was read
            self._spans[file.path], self._last = span, last
            yield from changes

    def measure(self, file: LogFile, unit: Unit, stats: LogStats) -> Iterator[Chunk]:
        """Add the figures of a file to `stats`; yield its damage. Raises StorageError if it cannot be opened."""
        lines = Lines(file.place, self._out)
        span = OffsetSpan(file.path, file.base_offset or 0)
        last: BatchMark | None = None
        with Source.open(file.path) as source:
            self._report.files += 1
            for item in self._scan(source, file):
                span.add(item)
                last = _last_of(last, item, file)
                if isinstance(item, Damage):
                    stats.add_damage(item.size_bytes)
                    yield self.damage(item, file, damage_severity(item, source, file, unit))
                else:
                    yield from self._runs.measure(item, lines, stats)
            changes = [*self._changes(source, file, last)]
            self._spans[file.path] = span
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

    def _scan(self, source: Source, file: LogFile) -> Iterator[Run | Damage]:
        return scan(source, base_offset=file.base_offset, is_v07=file.is_v07, options=self._request.scan_options)

    def _items(self, source: Source, file: LogFile, part: FilePart, relay: Relay | None) -> Iterator[Run | Damage]:
        options = self._request.scan_options
        if relay is not None:
            return _relayed_items(source, relay, base_offset=file.base_offset, options=options)
        if not part.is_whole:
            return part_items(source, part, base_offset=file.base_offset, options=options)
        items = self._scan(source, file)
        if not self._request.newest_first:
            return items
        return runs_backwards(source, items, is_v07=file.is_v07, base_offset=file.base_offset, options=options)

    def _changes(
        self, source: Source, file: LogFile, last: BatchMark | None, part: FilePart = WHOLE
    ) -> Iterator[Chunk]:
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


def damage_severity(damage: Damage, source: Source, file: LogFile, unit: Unit) -> Severity:
    """Return `info` for a batch that a broker is writing and preallocated space, which it truncates; else `error`."""
    if not file.is_last or damage.reason not in {"torn-tail", "zero-filled"}:
        return "error"
    end = damage.position + damage.size_bytes  # a preallocated file may have room for less than a header
    is_zeros = damage.is_zeros or (
        damage.reason == "torn-tail" and count_zeros(source, damage.position, end) == damage.size_bytes
    )
    clean_shutdown = f"{unit.log_dir}/{fixed_file_name(FileKind.CLEAN_SHUTDOWN)}"
    if is_zeros and unit.log_dir is not None and not is_there(clean_shutdown):
        return "info"
    return "info" if damage.reason == "torn-tail" and is_being_written(source, damage.position) else "error"


def _last_of(before: BatchMark | None, item: Run | Damage, file: LogFile) -> BatchMark | None:
    """Return the batch at the highest position among those that were read up to this item."""
    if isinstance(item, Damage):
        return before
    mark = mark_of(file, item, -1)
    return mark if before is None or mark.position > before.position else before
