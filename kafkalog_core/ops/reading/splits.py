"""The work of a dump in pieces that others can do, in any order and on other machines: log files, and parts of them.

All pieces together give the rows and the damage of a whole `dump`, whatever their size: see `file_part`. Planning lists
directories and reads nothing of the files in them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafkalog_core import tables
from kafkalog_core.errors import SelectionError, StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.names import LOG_KINDS, FileKind
from kafkalog_core.ops.progress import NO_PROGRESS
from kafkalog_core.ops.reading.file_part import WHOLE, FilePart
from kafkalog_core.ops.reading.logfiles import LogFile, Unit, files_in_range, unit_of_file, unit_of_partition
from kafkalog_core.ops.reading.logreader import LogReader
from kafkalog_core.ops.reading.rows import RowChunk
from kafkalog_core.ops.reading.segment_rows import segment_files, segment_row
from kafkalog_core.ops.selecting.targets import LogDirTarget, PartitionTarget
from kafkalog_core.storage.file_codes import code_of_error
from kafkalog_core.storage.logdir import not_listed
from kafkalog_core.storage.partition import read_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.ops.dump import DumpRequest
    from kafkalog_core.ops.progress import Progress
    from kafkalog_core.ops.reading.rows import Chunk
    from kafkalog_core.ops.report import Report
    from kafkalog_core.ops.selecting.targets import Target
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.segment import Segment

__all__ = ["SPLIT_BYTES", "Split", "SplitPlan", "cut", "plan_splits", "read_split", "task_request"]

SPLIT_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One piece: a part of one log file. `log_dir`: of a broker, null where there is none around it.

    `segment` is there for rows of segments: the files that stand beside the log.
    """

    file: LogFile
    log_dir: str | None = None
    part: FilePart = WHOLE
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
        """Its file alone, as a reader takes it."""
        return Unit(
            topic=self.topic, partition=self.partition, path=self.path, log_dir=self.log_dir, files=(self.file,)
        )

    @property
    def size_bytes(self) -> int:
        """Bytes of it, as the file was listed."""
        end = self.file.file.size_bytes if self.part.end is None else self.part.end
        return max(0, end - self.part.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    """The pieces in the order of a dump, and what it says of the directories."""

    splits: tuple[Split, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes of log to read."""
        return sum(split.size_bytes for split in self.splits)


def plan_splits(request: DumpRequest, split_bytes: int = SPLIT_BYTES) -> SplitPlan:
    """Divide a request's log files into pieces of about `split_bytes`.

    A file is one piece where it must be read as a whole: in 0.7's format, with `resync`, for rows of segments.

    Raises SelectionError where none of the targets is a log, for filters that are none, and for what needs a partition
    as a whole: `committed`, `limit`, `newest_first`, `stats`, `files`.
    """
    request.filters.check()
    if request.committed is not None or request.limit is not None or request.newest_first:
        raise SelectionError("only all of a log can be read in parts, oldest first")
    if request.stats or request.files:
        raise SelectionError("figures and entries of other files cannot be read in parts")
    splits: list[Split] = []
    findings: list[Finding] = []
    for target in request.targets:
        splits += _of_target(target, request, max(1, split_bytes), findings)
    if not splits and not findings and not any(isinstance(item, LogDirTarget) for item in request.targets):
        path = request.targets[0].path if request.targets else None
        raise SelectionError("no log to read: neither a log file nor a directory with one", path=path)
    return SplitPlan(splits=tuple(splits), findings=tuple(findings))


def cut(split: Split, split_bytes: int = SPLIT_BYTES) -> Iterator[Split]:
    """A piece in smaller ones of about `split_bytes`, as even as can be."""
    part, size_bytes = split.part, split.size_bytes
    count = -(-size_bytes // max(1, split_bytes))
    if count < 2 or split.file.is_v07:
        yield split
        return
    bounds = [part.start + size_bytes * number // count for number in range(count)]
    for start, end in zip(bounds, [*bounds[1:], part.end], strict=True):
        yield replace(split, part=replace(part, start=start, end=end))


def task_request(request: DumpRequest) -> DumpRequest:
    """The request as a piece of work needs it, without the targets."""
    return replace(request, targets=())


def read_split(split: Split, request: DumpRequest, report: Report, progress: Progress = NO_PROGRESS) -> Iterator[Chunk]:
    """Rows of the request's level of one piece, with its damage; counts go to `report`.

    A file that went away, that the system refuses, or that is another one by now, is a `finding` row.
    """
    reader = LogReader(request, report, progress)
    try:
        if request.level == "segments":
            yield from segment_row(reader, split.file, split.unit, split.segment)
        else:
            yield from reader.rows(split.file, split.unit, None, split.part)
    except StorageError as error:
        code = code_of_error(error)
        finding = found(code, split.path, reason=error.message, topic=split.topic, partition=split.partition)
        report.add_finding(finding.row())
        yield RowChunk(tables.FINDING, [finding.row()])


def _of_target(target: Target, request: DumpRequest, split_bytes: int, findings: list[Finding]) -> Iterator[Split]:
    if isinstance(target, LogDirTarget):
        findings += _shown(target.log_dir.findings, request)
        log_dir = target.log_dir.path if target.log_dir.is_broker_dir else None
        for place in target.partitions:
            try:
                partition = read_partition(place.path)
            except StorageError as error:
                findings.append(not_listed(place, error))
            else:
                yield from _of_partition(partition, log_dir, request, split_bytes, findings)
    elif isinstance(target, PartitionTarget):
        yield from _of_partition(target.read(), target.log_dir, request, split_bytes, findings)
    elif target.kind in LOG_KINDS or target.kind is FileKind.KRAFT_SNAPSHOT:
        yield from _of_unit(unit_of_file(target, with_path=request.path), request, split_bytes)


def _of_partition(
    partition: Partition, log_dir: str | None, request: DumpRequest, split_bytes: int, findings: list[Finding]
) -> Iterator[Split]:
    findings += _shown(partition.findings, request)
    unit = unit_of_partition(partition, log_dir, with_path=request.path)
    if request.level != "segments":
        yield from _of_unit(unit, request, split_bytes)
        return
    for file, segment in segment_files(partition, unit, with_path=request.path):
        yield Split(file=file, log_dir=log_dir, segment=segment)


def _of_unit(unit: Unit, request: DumpRequest, split_bytes: int) -> Iterator[Split]:
    is_census = request.level == "segments"
    for file in unit.files if is_census else files_in_range(unit.files, request.filters.offsets):
        split = Split(file=file, log_dir=unit.log_dir)
        if is_census or request.resync:
            yield split
        else:
            yield from cut(split, split_bytes)


def _shown(findings: Iterable[Finding], request: DumpRequest) -> list[Finding]:
    """As a dump shows them: harmless ones only where segments are listed."""
    is_census = request.level == "segments"
    return [item for item in findings if is_census or item.severity != "info" or item.hides_records]
