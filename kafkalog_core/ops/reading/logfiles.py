"""The log files that a command reads, one partition after another, whatever kind of target they come from."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalog_core.errors import NotFoundError, StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.findings.partitions import LOST_CURE
from kafkalog_core.format.names import LOG_KINDS, FileKind, FileName, fixed_file_name
from kafkalog_core.kafka.logdir.bounds import log_bounds
from kafkalog_core.kafka.logdir.checkpoints import CheckpointFile, read_checkpoint
from kafkalog_core.kafka.logdir.top_files import PartitionContext
from kafkalog_core.kafka.releases import LATEST, Release
from kafkalog_core.kafka.rules import rules_of
from kafkalog_core.ops.reading.chunks import RowOrigin
from kafkalog_core.storage.scan import Damage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalog_core.ops.reading.selection import Range
    from kafkalog_core.ops.reading.targets import FileTarget
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import Run

__all__ = [
    "Checkpoints",
    "LogFile",
    "OffsetSpan",
    "Unit",
    "chain_findings",
    "files_in_range",
    "place_of",
    "unit_of_file",
    "unit_of_partition",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """One file of batches. `is_last`: nothing is known to follow it; `state` as in the `segment` row."""

    file: FileInfo
    place: RowOrigin
    state: str
    is_v07: bool
    is_last: bool

    @property
    def path(self) -> str:
        """Path of the file."""
        return self.file.path

    @property
    def base_offset(self) -> int | None:
        """The number in the file name that no offset may be below; None: it has none, or says something else."""
        name: FileName = self.file.name
        if name.kind is FileKind.KRAFT_SNAPSHOT or name.base_offset is None or name.base_offset < 0:
            return None
        return name.base_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The files of one partition in the order of their offsets, and the log directory around it, where it is one."""

    topic: str | None
    partition: int | None
    path: str
    log_dir: str | None
    files: tuple[LogFile, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of log."""
        return sum(file.file.size_bytes for file in self.files)


def place_of(file: FileInfo, topic: str | None, partition: int | None, *, with_path: bool) -> RowOrigin:
    """Return where the rows of a file come from."""
    return RowOrigin(topic, partition, file.name.raw, file.path if with_path else None)


def unit_of_partition(partition: Partition, log_dir: str | None, *, with_path: bool = False) -> Unit:
    """Return the live segments of a partition; `with_path`: rows of its files name them."""
    last = len(partition.segments) - 1
    return Unit(
        topic=partition.topic,
        partition=partition.partition,
        path=partition.path,
        log_dir=log_dir,
        files=tuple(
            LogFile(
                file=segment.log,
                place=place_of(segment.log, partition.topic, partition.partition, with_path=with_path),
                state=str(segment.state),
                is_v07=partition.format == "v07",
                is_last=index == last,
            )
            for index, segment in enumerate(partition.segments)
            if segment.log is not None
        ),
    )


def unit_of_file(target: FileTarget, *, with_path: bool = False) -> Unit:
    """Return a single file as a unit; other files are not read. `with_path`: its rows have its path."""
    place = place_of(target.file, target.topic, target.partition, with_path=with_path)
    is_log = target.kind in LOG_KINDS
    log = LogFile(
        file=target.file,
        place=place,
        state=str(target.file.name.state) if is_log else "closed",
        is_v07=target.kind is FileKind.LOG_V07,
        is_last=True,
    )
    return Unit(
        topic=target.topic,
        partition=target.partition,
        path=os.path.dirname(target.path) or ".",
        log_dir=None,
        files=(log,),
    )


def files_in_range(files: Sequence[LogFile], offsets: Range) -> tuple[LogFile, ...]:
    """Files without those that by their names end before the first wanted offset, or begin after the last."""
    low, high = offsets
    first = 0
    for index in range(1, len(files)):
        base = files[index].base_offset
        if low is not None and base is not None and base <= low:
            first = index
    return tuple(file for file in files[first:] if high is None or file.base_offset is None or file.base_offset <= high)


@dataclass(slots=True)
class OffsetSpan:
    """The offsets of one segment, from its base to its last batch; filled item by item of its scan, in any order."""

    path: str
    base_offset: int
    last_offset: int | None = None
    batches_end: int = 0
    damage_end: int = 0

    def add(self, item: Run | Damage) -> None:
        """Take an item of the scan. The last two batches of a run count: only the last one may go back."""
        if isinstance(item, Damage):
            if item.size_bytes:
                self.damage_end = max(self.damage_end, item.position + item.size_bytes)
            return
        batches = item.batches
        last = max(batches.column("last_offset")[-2:])
        self.last_offset = last if self.last_offset is None else max(self.last_offset, last)
        end = batches.column("position")[-1] + batches.column("size_bytes")[-1]
        self.batches_end = max(self.batches_end, end)

    @property
    def next_offset(self) -> int:
        """The offset after the last one, the base offset where there is none."""
        return self.base_offset if self.last_offset is None else max(self.base_offset, self.last_offset + 1)

    @property
    def ends_in_damage(self) -> bool:
        """Whether what could not be read is after its last batch."""
        return self.damage_end > self.batches_end


def chain_findings(
    spans: Iterable[OffsetSpan | None],
    *,
    is_compacted: Callable[[], bool],
    topic: str | None = None,
    partition: int | None = None,
) -> Iterator[Finding]:
    """Yield what is missing between the segments of a partition, and what is there twice.

    Args:
        spans: Its live segments in the order of their base offsets; None for one that was not read to its end.
        is_compacted: Asked, once, where offsets are missing for no other reason: whether the log is a compacted one.
        topic: Topic of the findings.
        partition: Partition number of the findings.
    """
    compacted: bool | None = None
    furthest: OffsetSpan | None = None
    for span in spans:
        if span is None:
            furthest = None
            continue
        if furthest is not None:
            previous, start, expected = os.path.basename(furthest.path), span.base_offset, furthest.next_offset
            code, offset, last = "segment.overlap", start, expected - 1
            if start > expected:
                if compacted is None and not furthest.ends_in_damage:
                    compacted = is_compacted()
                code = "segment.gap-compacted" if compacted and not furthest.ends_in_damage else "segment.gap"
                offset, last = expected, start - 1
            if start != expected:
                finding = found(
                    code, span.path, topic=topic, partition=partition, offset=offset, last=last, previous=previous
                )
                is_cut = code == "segment.gap" and furthest.ends_in_damage
                yield replace(finding, cure=LOST_CURE) if is_cut else finding
        if furthest is None or span.next_offset >= furthest.next_offset:
            furthest = span


class Checkpoints:
    """Offset checkpoints of log directories; each file is read once."""

    def __init__(self) -> None:
        self._files: dict[str, CheckpointFile | None] = {}

    def high_watermark(self, unit: Unit) -> int | None:
        """None where the checkpoint does not name the partition, or it is in no log directory."""
        return self._offset(unit, FileKind.HIGH_WATERMARK)

    def is_cleaned(self, unit: Unit) -> bool | None:
        """Return whether a broker has cleaned the partition before; None if no checkpoint shows that."""
        try:
            offset = self._offset(unit, FileKind.CLEANER_OFFSET)
            file = self._file(unit, FileKind.CLEANER_OFFSET)
        except StorageError:
            return None
        is_said = file is not None and file.lost is None and not file.is_refused
        return offset is not None if is_said else None

    def log_start_offset(self, unit: Unit, release: Release = LATEST) -> int:
        """Return the first offset of a log that a broker serves from this disk."""
        context = PartitionContext(log_start_offset=self._offset(unit, FileKind.LOG_START_OFFSET))
        first_base = (unit.files[0].base_offset or 0) if unit.files else 0
        return log_bounds(first_base, context, rules_of(release)).local_start

    def _offset(self, unit: Unit, kind: FileKind) -> int | None:
        file = self._file(unit, kind)
        return None if file is None or file.is_refused else file.offset(unit.topic, unit.partition)

    def _file(self, unit: Unit, kind: FileKind) -> CheckpointFile | None:
        if unit.log_dir is None or unit.topic is None or unit.partition is None:
            return None
        path = f"{unit.log_dir}/{fixed_file_name(kind)}"
        if path not in self._files:
            self._files[path] = _read(path, kind)
        return self._files[path]


def _read(path: str, kind: FileKind) -> CheckpointFile | None:
    try:
        return read_checkpoint(path, kind)
    except NotFoundError:
        return None
