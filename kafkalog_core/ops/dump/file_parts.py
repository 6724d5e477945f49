"""Parts of logs that are read on their own: by several tasks, or from the position where the last read ended.

Also the `segment` rows of a partition, for which each log file is read whole.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.engine import parts
from kafkalog_core.engine.chunks import rows_at
from kafkalog_core.engine.parts import PART_BYTES, WHOLE, LogPart, last_good, walk_lengths
from kafkalog_core.engine.report import LogStats
from kafkalog_core.engine.targets import LogDirTarget, PartitionTarget
from kafkalog_core.errors import SelectionError, StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.checksums import crc32
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.layout import CODEC_NONE, HEADER_SIZE_UP_TO_MAGIC, MAX_BATCH_BYTES, RECORD_BATCH_OVERHEAD
from kafkalog_core.format.names import LOG_KINDS, FileKind
from kafkalog_core.kafka.sim.logfiles import LogFile, Unit, files_in_range, place_of, unit_of_file, unit_of_partition
from kafkalog_core.ops.dump.logreader import LogReader
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.storage.framing import LogFraming, count_zeros
from kafkalog_core.storage.logdir import not_listed
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.paths import is_object
from kafkalog_core.storage.scan import Damage, scan
from kafkalog_core.storage.source import Source, UnreadableError
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkalog_core.engine.parts import Walk
    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.ops.dump.runs import DumpRequest
    from kafkalog_core.output.chunk import Chunk
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.listing import FileInfo, Segment
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "FilePart",
    "PartPlan",
    "Position",
    "UnreadRecords",
    "can_be_divided",
    "divide_file",
    "end_of",
    "go_on",
    "is_compressed",
    "may_be_unfinished",
    "parts_between",
    "plan_file_parts",
    "read_file_part",
    "segment_columns",
    "segment_files",
    "segment_row",
]


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


class FilePart(Struct, frozen=True, kw_only=True):
    """A part of one log file. `log_dir` is the broker's log directory that it is in, None: it is in none.

    `segment` is the log's segment with its other files, for rows of segments; else None.
    """

    file: LogFile
    log_dir: str | None = None
    part: LogPart = WHOLE
    segment: Segment | None = None

    @property
    def topic(self) -> str | None:
        """Topic of the directory's name."""
        return self.file.place.topic

    @property
    def partition(self) -> int | None:
        """Partition number of the directory's name."""
        return self.file.place.partition

    @property
    def path(self) -> str:
        """Path of the file."""
        return self.file.path

    @property
    def unit(self) -> Unit:
        """The unit of its file only."""
        return Unit(
            topic=self.topic, partition=self.partition, path=self.path, log_dir=self.log_dir, files=(self.file,)
        )

    @property
    def size_bytes(self) -> int:
        """Size of the part, in bytes, when the file was listed."""
        end = self.file.file.size_bytes if self.part.end is None else self.part.end
        return max(0, end - self.part.start)


class PartPlan(Struct, frozen=True, kw_only=True):
    """The parts of files in the order of a dump, and the findings about the directories."""

    file_parts: tuple[FilePart, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes of log to read."""
        return sum(file_part.size_bytes for file_part in self.file_parts)


def plan_file_parts(request: DumpRequest, part_bytes: int = PART_BYTES) -> PartPlan:
    """Divide a request's log files into parts of about `part_bytes`.

    A file that must be read whole is one part: if it must not be divided (`can_be_divided`), and for rows of segments.

    Raises SelectionError if no target is a log, for filters that are not valid, and for options that need a whole
    partition: `committed`, `limit`, `newest_first`, `stats`, `files`, context and numbers of matching records.
    """
    request.filters.check()
    if request.needs_whole_logs or request.counts:
        raise SelectionError("only all of a log can be read in parts, oldest first")
    if request.stats or request.files:
        raise SelectionError("figures and entries of other files cannot be read in parts")
    file_parts: list[FilePart] = []
    findings: list[Finding] = []
    for target in request.targets:
        file_parts += _of_target(target, request, max(1, part_bytes), findings)
    if not file_parts and not findings and not any(isinstance(item, LogDirTarget) for item in request.targets):
        path = request.targets[0].path if request.targets else None
        raise SelectionError("no log to read: neither a log file nor a directory with one", path=path)
    return PartPlan(file_parts=tuple(file_parts), findings=tuple(findings))


def is_compressed(file: LogFile) -> bool:
    """Return whether the first batch of a log is compressed, and probably all; false: that cannot be found out."""
    batches = BatchColumns(1)
    with suppress(StorageError), Source.open(file.path) as source:
        source.read_up_to(0)  # what the system reads ahead would come after it was given back
        LogFraming(0).walk(source.window(0), 0, -1, MAX_BATCH_BYTES, check=False, into=batches)
    return batches.count > 0 and batches.cell("codec", 0) != CODEC_NONE


def can_be_divided(file_part: FilePart, *, resync: bool = False) -> bool:
    """Return whether a file may be read in parts.

    - Not in 0.7's format.
    - Not of an object store: the reader of a part looks for its first batch from the start of the file on, and would
      transfer all of that.
    - Not with `resync`, where the same input must give the same rows to the last column: parts may lack the mark
      `resynced` (see `engine.parts`). An export and a stream do not ask for that: they divide such files too.
    """
    return not (file_part.file.is_v07 or is_object(file_part.path) or resync)


def divide_file(file_part: FilePart, part_bytes: int = PART_BYTES, *, resync: bool = False) -> Iterator[FilePart]:
    """Cut a part of a file into parts of nearly equal size, at most `part_bytes` each, if it can be divided."""
    if file_part.size_bytes <= part_bytes or not can_be_divided(file_part, resync=resync):
        yield file_part
        return
    for part in parts.divide(file_part.part, file_part.size_bytes, part_bytes):
        yield replace(file_part, part=part)


def read_file_part(
    file_part: FilePart, request: DumpRequest, report: Report, progress: Progress = NO_PROGRESS
) -> Iterator[Chunk]:
    """Yield rows of the request's level of one part, with its damage; `report` counts them.

    A file that was deleted or replaced, or that cannot be opened, is a `finding` row.
    """
    reader = LogReader(request, report, progress)
    try:
        if request.level == "segments":
            yield from segment_row(reader, file_part.file, file_part.unit, file_part.segment)
        else:
            yield from reader.rows(file_part.file, file_part.unit, None, file_part.part)
    except StorageError as error:
        finding = found(
            code_of_error(error),
            file_part.path,
            reason=error.message,
            topic=file_part.topic,
            partition=file_part.partition,
        )
        report.add_finding(finding.row())
        yield RowChunk(tables.FINDING, [finding.row()])


def _of_target(target: Target, request: DumpRequest, part_bytes: int, findings: list[Finding]) -> Iterator[FilePart]:
    if isinstance(target, LogDirTarget):
        findings += request.shown(target.log_dir.findings)
        for place in target.partitions:
            try:
                partition = read_partition(place.path)
            except StorageError as error:
                findings.append(not_listed(place, error))
            else:
                yield from _of_partition(partition, target.broker_path, request, part_bytes, findings)
    elif isinstance(target, PartitionTarget):
        yield from _of_partition(target.read(), target.log_dir, request, part_bytes, findings)
    elif target.kind in LOG_KINDS or target.kind is FileKind.KRAFT_SNAPSHOT:
        yield from _of_unit(unit_of_file(target, with_path=request.path), request, part_bytes)


def _of_partition(
    partition: Partition, log_dir: str | None, request: DumpRequest, part_bytes: int, findings: list[Finding]
) -> Iterator[FilePart]:
    findings += request.shown(partition.findings)
    unit = unit_of_partition(partition, log_dir, with_path=request.path)
    if request.level != "segments":
        yield from _of_unit(unit, request, part_bytes)
        return
    for file, segment in segment_files(partition, unit, with_path=request.path):
        yield FilePart(file=file, log_dir=log_dir, segment=segment)


def _of_unit(unit: Unit, request: DumpRequest, part_bytes: int) -> Iterator[FilePart]:
    reads_whole = request.level == "segments"
    for file in unit.files if reads_whole else files_in_range(unit.files, request.filters.offsets):
        file_part = FilePart(file=file, log_dir=unit.log_dir)
        if reads_whole:
            yield file_part
        else:
            yield from divide_file(file_part, part_bytes, resync=request.resync)


class Position(NamedTuple):
    """The position in a partition at which the next read starts.

    Args:
        segment: base offset of the segment.
        byte: byte of its file at which an entry ends or the file begins.
        offset: the next offset that is expected there.
        mark_byte: byte at which the last entry before it starts; -1: there is none, or it is unknown.
        mark: checksum over that entry's header.
    """

    segment: int
    byte: int
    offset: int
    mark_byte: int = -1
    mark: int = 0


class UnreadRecords(Struct, frozen=True):
    """Records that are not read: a sentence, and the file or directory that it is about."""

    message: str
    path: str


def go_on(
    unit: Unit,
    start: Position | None,
    *,
    max_bytes: int | None = None,
    until: Position | None = None,
    on_loss: Callable[[UnreadRecords], None],
) -> Position | None:
    """Return the position up to which a partition can be read; None: it has no segment.

    An incomplete batch at the end is left for the next read, and so is a last batch whose checksum is wrong.

    Args:
        unit: the partition as it is now.
        start: position where the last read ended; None: the log's start.
        max_bytes: most bytes to read, but at least a whole batch; None: all.
        until: position at which to stop; None: the log's end.
        on_loss: called for records that are missing, or that are after damage in the last segment.

    Raises StorageError if a segment cannot be opened.
    """
    if not unit.files:
        return start
    here = _found_again(unit, start, on_loss)
    left = max_bytes
    for file, following in zip(unit.files, (*unit.files[1:], None), strict=True):
        if _base(file) < here.segment:
            continue
        if until is not None and (here.segment, here.byte) >= (until.segment, until.byte):
            return here
        bound = until.byte if until is not None and until.segment == here.segment else None
        if following is None:
            return _end_in_last(file, here, bound, left, on_loss)
        end = _end_in_closed(file, here, bound, left)
        if end is not None:
            return end
        left = None if left is None else left - (file.file.size_bytes - here.byte)
        here = _start_of(following)
        if left is not None and left <= 0:
            return here
    return here


def end_of(unit: Unit, on_loss: Callable[[UnreadRecords], None]) -> Position | None:
    """Return the end of a partition; None: it has no segment. Raises StorageError if the last one cannot be opened."""
    return go_on(unit, _start_of(unit.files[-1]), on_loss=on_loss) if unit.files else None


def parts_between(
    unit: Unit, start: Position | None, end: Position, on_loss: Callable[[UnreadRecords], None]
) -> Iterator[FilePart]:
    """Yield the parts from one position to another, which `go_on` has returned. Raises StorageError."""
    files = [file for file in unit.files if _base(file) <= end.segment]
    if not files or _base(files[-1]) != end.segment:
        on_loss(UnreadRecords(f"some records below offset {end.offset} were deleted before they were read", unit.path))
    if not files:
        return
    here = _found_again(unit, start, on_loss)
    for file in files:
        if _base(file) < here.segment:
            continue
        begin = here if _base(file) == here.segment else _start_of(file)
        last = end.byte if _base(file) == end.segment else None
        if last is None or last > begin.byte:
            part = LogPart(start=begin.byte, end=last, begin=begin.byte, next_offset=begin.offset)
            yield FilePart(file=file, log_dir=unit.log_dir, part=part)


def _base(file: LogFile) -> int:
    return file.base_offset or 0


def _start_of(file: LogFile) -> Position:
    return Position(segment=_base(file), byte=0, offset=_base(file))


# --- where the last read ended ----------------------------------------------------------------------------------------
def _found_again(unit: Unit, start: Position | None, on_loss: Callable[[UnreadRecords], None]) -> Position:
    """Return where to continue: the same position, or the same offset in the files that exist now."""
    first = _start_of(unit.files[0])
    if start is None:
        return first
    file = next((file for file in unit.files if _base(file) == start.segment), None)
    if file is not None:
        with Source.open(file.path) as source:
            if _is_unchanged(source, start):
                return start
    if start.offset < first.offset:
        deleted = _offsets(start.offset, first.offset - 1)
        were = "was" if first.offset - start.offset == 1 else "were"
        on_loss(UnreadRecords(f"{deleted} {were} deleted from the log's start before they were read", unit.path))
        return first
    return _by_offset(unit, start, on_loss)


def _is_unchanged(source: Source, start: Position) -> bool:
    """Return whether a file still has what was read of it."""
    if source.size_bytes < start.byte:
        return False
    return start.mark_byte < 0 or _mark(source, start.mark_byte, start.byte) == start.mark


def _mark(source: Source, position: int, end: int) -> int:
    try:
        return crc32(source.read(position, min(RECORD_BATCH_OVERHEAD, end - position)))
    except UnreadableError:
        return 0


def _by_offset(unit: Unit, start: Position, on_loss: Callable[[UnreadRecords], None]) -> Position:
    """Return the position of an offset whose segment was cleaned, or was truncated and perhaps written again.

    A cleaner never cleans the active segment (`LogCleanerManager.cleanableOffsets`), so a change there is a truncation.
    """
    file = [file for file in unit.files if _base(file) <= start.offset][-1]
    if file is unit.files[-1] and _base(file) <= start.segment:
        message = (
            f"the log was read up to offset {start.offset}, then it was truncated to a lower one: records that were "
            "read are no longer in the log, and other records may have their offsets"
        )
        on_loss(UnreadRecords(message, file.path))
    end = _base(file)
    with Source.open(file.path) as source:
        for item in scan(source, base_offset=file.base_offset):
            if isinstance(item, Damage):
                continue
            for row, last in enumerate(item.batches.column("last_offset")):
                if last >= start.offset:
                    return Position(_base(file), item.batches.column("position")[row], start.offset)
                end = last + 1
        return Position(_base(file), walk_lengths(source, 0, source.size_bytes).position, end)


# --- where the next read ends------------------------------------------------------------------------------------------
def _end_in_closed(file: LogFile, here: Position, bound: int | None, max_bytes: int | None) -> Position | None:
    """Return where to stop in a segment that another one follows; None: after all of it, damage included."""
    rest = file.file.size_bytes - here.byte
    if bound is None and (max_bytes is None or rest <= max_bytes):
        return None
    with Source.open(file.path) as source:
        walk = _walk(source, here, bound, max_bytes)
        if walk.is_broken or walk.position >= source.size_bytes:
            return None
        return _position_after(source, here, walk)


def _end_in_last(
    file: LogFile, here: Position, bound: int | None, max_bytes: int | None, on_loss: Callable[[UnreadRecords], None]
) -> Position:
    """Return where to stop in the active segment."""
    with Source.open(file.path) as source:
        walk = _walk(source, here, bound, max_bytes)
        if walk.is_broken and _is_damaged(source, walk.position):
            message = f"byte {walk.position} does not start a batch: nothing after it is read"
            on_loss(UnreadRecords(message, file.path))
        if walk.before and walk.position >= source.size_bytes and _is_wrong(source, walk.before[-1]):
            walk = walk._replace(position=walk.before.pop()[0])  # a broker may be writing it now
        return _position_after(source, here, walk)


def _walk(source: Source, here: Position, bound: int | None, max_bytes: int | None) -> Walk:
    end = source.size_bytes if bound is None else min(bound, source.size_bytes)
    if max_bytes is not None:
        end = min(end, here.byte + max_bytes)
    return walk_lengths(source, here.byte, end)


def _is_wrong(source: Source, place: tuple[int, int]) -> bool:
    return place[1] <= MAX_BATCH_BYTES and last_good(source, [place], MAX_BATCH_BYTES) is None


def _is_damaged(source: Source, position: int) -> bool:
    """Return whether the bytes after the whole batches cannot be an append in progress."""
    item = next(scan(source, base_offset=None, start=position), None)
    return isinstance(item, Damage) and not may_be_unfinished(source, item)


def _position_after(source: Source, here: Position, walk: Walk) -> Position:
    """Return the position after the entries that a walk has passed."""
    if not walk.before:
        return here
    last = walk.before[-1][0]
    good = last_good(source, walk.before, MAX_BATCH_BYTES)
    offset = here.offset if good is None else max(here.offset, good[1].column("last_offset")[0] + 1)
    return Position(here.segment, walk.position, offset, last, _mark(source, last, walk.position))


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


_HELD_BACK = frozenset({"torn-tail", "zero-filled"})


def may_be_unfinished(source: Source, damage: Damage) -> bool:
    """Return whether damage may be an append in progress, in a growing or in a preallocated file."""
    if damage.reason in _HELD_BACK:
        return True
    rest = damage.position + damage.size_bytes
    if rest >= source.size_bytes:  # the framing is lost: a part of a header, followed by preallocated zeros
        rest = damage.position + HEADER_SIZE_UP_TO_MAGIC
    zeros = source.size_bytes - rest
    return zeros > 0 and count_zeros(source, rest, source.size_bytes) == zeros
