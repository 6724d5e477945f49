"""`dump --follow`: what is there, then what is appended, over rolls, until the caller stops.

A tail that is not whole is held back, as the rest of it may be on its way; it is damage only once something stands
behind it. Between two looks the caller's `wait` is called: no clock is read here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.errors import NotFoundError, SelectionError
from kafkalog_core.format.layout import HEADER_SIZE_UP_TO_MAGIC
from kafkalog_core.format.names import LOG_KINDS
from kafkalog_core.ops.chunks import OUT_BYTES, Lines
from kafkalog_core.ops.logfiles import LogFile, Unit, unit_of_file, unit_of_partition
from kafkalog_core.ops.logreader import LogReader
from kafkalog_core.ops.progress import NO_PROGRESS
from kafkalog_core.ops.targets import FileTarget, LogDirTarget, PartitionTarget, Target
from kafkalog_core.storage.listing import stat_path
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.resync import count_zeros
from kafkalog_core.storage.scan import Damage, Run, scan
from kafkalog_core.storage.source import Change, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalog_core.ops.dump import DumpRequest
    from kafkalog_core.ops.report import Report
    from kafkalog_core.ops.rows import Chunk

__all__ = ["follow"]

_HELD_BACK = frozenset({"torn-tail", "zero-filled"})


def follow(request: DumpRequest, report: Report, wait: Callable[[], object]) -> Iterator[Chunk]:
    """Chunks as `dump` gives them, without end; `wait` is called between two looks, and ends it with True.

    Raises SelectionError where there is nothing to follow, or for --committed, which needs the end of a log.
    """
    if request.committed is not None or request.level == "segments":
        raise SelectionError("a log that grows can be followed by batches or records, without --committed")
    request.filters.check()
    reader = LogReader(request, report, NO_PROGRESS)
    out = bytearray(OUT_BYTES)  # one for all: a log directory may hold thousands of partitions
    tails = [_Tail(read, reader, report, out) for target in request.targets for read in _units(target)]
    if not tails:
        raise SelectionError("no log among the targets to follow")
    while True:
        for tail in tails:
            for chunk in tail.news():
                report.rows += chunk.count
                yield chunk
            if reader.is_full:
                return
        if wait():
            return


def _units(target: Target) -> Iterator[Callable[[], Unit]]:
    """For each partition of a target, how to list its files anew."""
    if isinstance(target, LogDirTarget):
        for place in target.partitions:
            yield lambda path=place.path: unit_of_partition(read_partition(path), None)  # type: ignore[misc]
    elif isinstance(target, PartitionTarget):
        yield lambda: unit_of_partition(target.read(), None)
    elif isinstance(target, FileTarget) and target.kind in LOG_KINDS:
        yield lambda: unit_of_file(target)


class _Tail:
    """How far one partition has been read: to a byte of a file, and to an offset, which outlives the file."""

    def __init__(self, list_files: Callable[[], Unit], reader: LogReader, report: Report, out: bytearray) -> None:
        self._list_files = list_files
        self._reader = reader
        self._report = report
        self._out = out
        self._file: LogFile | None = None
        self._directory: tuple[int, int] | None = None
        self._position = 0
        self._last_offset: int | None = None

    def news(self) -> Iterator[Chunk]:
        """What has come since the last call."""
        try:
            unit = self._list_files()
            directory = stat_path(unit.path)
        except NotFoundError:  # the topic was deleted; it may be made again
            return
        if self._directory not in {None, (directory.st_dev, directory.st_ino)} and self._file is not None:
            yield self._reader.changed(Change.REPLACED, self._file)
            self._file, self._last_offset = None, None
        self._directory = (directory.st_dev, directory.st_ino)
        for index in range(self._first(unit.files), len(unit.files)):
            file = unit.files[index]
            try:
                yield from self._look_at(file, is_last=index == len(unit.files) - 1)
            except NotFoundError:
                return  # renamed or deleted between listing and opening: the next look sees what is left
            if self._reader.is_full:
                return

    def _first(self, files: Sequence[LogFile]) -> int:
        """The file to go on with: the one read last; where compaction or retention took it, by the offset."""
        for index, file in enumerate(files):
            if self._is_same(file):
                return index
        last_offset = -1 if self._last_offset is None else self._last_offset
        return max((index for index, file in enumerate(files) if (file.base_offset or 0) <= last_offset), default=0)

    def _is_same(self, file: LogFile) -> bool:
        if self._file is None:
            return False
        was, now = self._file.file, file.file
        return (was.path, was.device, was.inode) == (now.path, now.device, now.inode)

    def _look_at(self, file: LogFile, *, is_last: bool) -> Iterator[Chunk]:
        with Source.open(file.path) as source:
            if not self._is_same(file):
                self._position = self._position_behind(source, file)
                self._report.files += self._file is None or self._file.path != file.path
                self._file = file
            if source.size_bytes < self._position:  # truncated: what a broker appends now starts at its end
                self._position = source.size_bytes
                yield self._reader.changed(Change.SHRANK, file)
            yield from self._read(source, file, is_last=is_last)

    def _position_behind(self, source: Source, file: LogFile) -> int:
        """Where what was not yet seen starts: behind the last offset, in a file that may hold some of it again."""
        if self._last_offset is None or (file.base_offset or 0) > self._last_offset:
            return 0
        position = 0
        for item in scan(source, base_offset=file.base_offset, is_v07=file.is_v07, options=self._reader.scan_options):
            if isinstance(item, Damage):
                continue
            for row, last_offset in enumerate(item.batches.column("last_offset")):
                if last_offset > self._last_offset:
                    return int(item.batches.column("position")[row])
            position = _end_of(item)
        return position

    def _read(self, source: Source, file: LogFile, *, is_last: bool) -> Iterator[Chunk]:
        lines = Lines(file.place, self._out)
        doubted: Damage | None = None
        while True:
            for item in self._scan(source, file):
                if isinstance(item, Run):
                    self._position = _end_of(item)
                    self._last_offset = item.batches.column("last_offset")[-1]
                    yield from self._reader.run(item, lines, None)
                    continue
                if is_last and _may_be_unfinished(source, item):
                    return
                if is_last and item.size_bytes and not _is_again(item, doubted):
                    doubted = item  # other bytes stand behind it now: an append that was going on has ended
                    break
                self._position = item.position + item.size_bytes
                yield self._reader.damage(item, file, "error")
            else:
                return

    def _scan(self, source: Source, file: LogFile) -> Iterator[Run | Damage]:
        # 0.7 makes addresses of the base; the order of others is checked from where the last look ended
        base_offset = file.base_offset if file.is_v07 or self._position == 0 else None
        options = self._reader.scan_options
        return scan(source, base_offset=base_offset, is_v07=file.is_v07, options=options, start=self._position)


def _may_be_unfinished(source: Source, damage: Damage) -> bool:
    """Whether it may be an append going on, in a file that grows or in one that was filled with zeros beforehand."""
    if damage.reason in _HELD_BACK:
        return True
    behind = damage.position + damage.size_bytes
    if behind >= source.size_bytes:  # the framing is lost: a header of which a part is there
        behind = damage.position + HEADER_SIZE_UP_TO_MAGIC
    zeros = source.size_bytes - behind
    return zeros > 0 and count_zeros(source, behind, source.size_bytes) == zeros


def _is_again(damage: Damage, before: Damage | None) -> bool:
    return before is not None and (damage.position, damage.detail) == (before.position, before.detail)


def _end_of(run: Run) -> int:
    return int(run.batches.column("position")[-1] + run.batches.column("size_bytes")[-1])
