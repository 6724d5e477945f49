"""`dump --follow`: what is there, then what is appended, over rolls, until the caller stops.

A tail that is not whole is held back, as the rest of it may be on its way; it is damage only once a later segment
stands behind it. Between two looks the caller's `wait` is called: no clock is read here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.errors import NotFoundError, SelectionError
from kafkalog_core.format.names import LOG_KINDS
from kafkalog_core.ops.chunks import OUT_BYTES, Lines
from kafkalog_core.ops.logfiles import LogFile, Unit, unit_of_file, unit_of_partition
from kafkalog_core.ops.logreader import LogReader
from kafkalog_core.ops.progress import NO_PROGRESS
from kafkalog_core.ops.targets import FileTarget, LogDirTarget, PartitionTarget, Target
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.ops.dump import DumpRequest
    from kafkalog_core.ops.report import Report
    from kafkalog_core.ops.rows import Chunk

__all__ = ["follow"]

_HELD_BACK = frozenset({"torn-tail", "zero-filled"})


def follow(request: DumpRequest, report: Report, wait: Callable[[], object]) -> Iterator[Chunk]:
    """Chunks as `dump` gives them, without end; `wait` is called between two looks and may raise to end it.

    Raises SelectionError where there is nothing to follow, or for --committed, which needs the end of a log.
    """
    if request.committed is not None or request.level == "segments":
        raise SelectionError("a log that grows can be followed by batches or records, without --committed")
    request.filters.check()
    reader = LogReader(request, report, NO_PROGRESS)
    tails = [_Tail(read, reader, report) for target in request.targets for read in _units(target)]
    if not tails:
        raise SelectionError("no log among the targets to follow")
    while True:
        for tail in tails:
            for chunk in tail.news():
                report.rows += chunk.count
                yield chunk
            if reader.is_full:
                return
        wait()


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
    """How far one partition has been read."""

    def __init__(self, list_files: Callable[[], Unit], reader: LogReader, report: Report) -> None:
        self._list_files = list_files
        self._reader = reader
        self._report = report
        self._out = bytearray(OUT_BYTES)
        self._name = ""
        self._position = 0

    def news(self) -> Iterator[Chunk]:
        """What has come since the last call."""
        files = list(self._list_files().files)
        names = [file.place.segment for file in files]
        at = names.index(self._name) if self._name in names else 0
        if self._name and self._name not in names:  # deleted by retention: what has followed it
            base = int(self._name.partition(".")[0])
            at = next((index for index, file in enumerate(files) if (file.base_offset or 0) > base), len(files))
        for index in range(at, len(files)):
            file = files[index]
            if file.place.segment != self._name:
                self._name, self._position = file.place.segment, 0
                self._report.files += 1
            try:
                yield from self._read(file, is_last=index == len(files) - 1)
            except NotFoundError:
                return  # renamed or deleted between listing and opening: the next look sees what is left
            if self._reader.is_full:
                return

    def _read(self, file: LogFile, *, is_last: bool) -> Iterator[Chunk]:
        lines = Lines(file.place, self._out)
        with Source.open(file.path) as source:
            # 0.7 makes addresses of the base; the order of others is checked from where the last look ended
            base_offset = file.base_offset if file.is_v07 or self._position == 0 else None
            options = self._reader.scan_options
            for item in scan(
                source, base_offset=base_offset, is_v07=file.is_v07, options=options, start=self._position
            ):
                if isinstance(item, Damage):
                    if is_last and item.reason in _HELD_BACK:
                        return
                    self._position = item.position + item.size_bytes
                    yield self._reader.damage(item, file, "error")
                    continue
                self._position = item.batches.column("position")[-1] + item.batches.column("size_bytes")[-1]
                yield from self._reader.run(item, lines, None)
