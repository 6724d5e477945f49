"""Parts of log files, which several tasks read: which files may be divided, and the parts of all logs of a request."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kafkalog_core.engine import parts
from kafkalog_core.engine.parts import PART_BYTES, WHOLE, LogPart
from kafkalog_core.engine.targets import LogDirTarget, PartitionTarget
from kafkalog_core.errors import SelectionError, StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.columns import BATCH_ROWS, BatchColumns
from kafkalog_core.format.decode import RecordRun, decode_batch
from kafkalog_core.format.layout import CODEC_NONE, MAX_BATCH_BYTES
from kafkalog_core.format.names import LOG_KINDS, FileKind
from kafkalog_core.kafka.sim.logfiles import LogFile, Unit, files_in_range, unit_of_file, unit_of_partition
from kafkalog_core.ops.dump.logreader import LogReader
from kafkalog_core.ops.dump.segment_rows import segment_files, segment_row
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.storage.framing import LogFraming
from kafkalog_core.storage.logdir import not_listed
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.paths import is_object
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.ops.dump.runs import DumpRequest
    from kafkalog_core.output.chunk import Chunk
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "FilePart",
    "PartPlan",
    "can_be_divided",
    "divide_file",
    "growth_of",
    "plan_file_parts",
    "read_file_part",
]


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


def growth_of(file: LogFile) -> int:
    """Return how many times a log grows when it is decompressed, about, at least 1; 1 if that cannot be found out."""
    batches = BatchColumns(BATCH_ROWS)
    with suppress(StorageError), Source.open(file.path) as source:
        source.read_up_to(0)  # what the system reads ahead would come after it was given back
        window = source.window(0)
        LogFraming(0).walk(window, 0, -1, MAX_BATCH_BYTES, check=False, into=batches)
        if batches.count and batches.cell("codec", 0) != CODEC_NONE:
            sizes = batches.column("size_bytes")
            # The largest one near the start: a batch of one record grows less than others.
            row = max(range(batches.count), key=sizes.__getitem__)
            decoded = next(decode_batch(window, batches, row, max_bytes=MAX_BATCH_BYTES), None)
            if isinstance(decoded, RecordRun):
                return max(1, -(-len(decoded.memory) // sizes[row]))
    return 1


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
