"""The log files that a command reads, one partition after another, whatever kind of target they come from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_core.format.names import LOG_KINDS, FileKind, FileName
from kafkalog_core.ops.reading.chunks import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.ops.selecting.select import Range
    from kafkalog_core.ops.selecting.targets import FileTarget
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.partition import Partition

__all__ = ["LogFile", "Unit", "files_in_range", "place_of", "unit_of_file", "unit_of_partition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """One file of batches. `is_last`: nothing is known to follow it; `state` as in the `segment` row."""

    file: FileInfo
    place: Place
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


def place_of(file: FileInfo, topic: str | None, partition: int | None, *, with_path: bool) -> Place:
    """Where the rows of a file come from."""
    return Place(topic, partition, file.name.raw, file.path if with_path else None)


def unit_of_partition(partition: Partition, log_dir: str | None, *, with_path: bool = False) -> Unit:
    """The live segments of a partition; `with_path`: rows of its files name them."""
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
    """A file by itself: what stands beside it is not looked at; `with_path`: rows of it name it."""
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
