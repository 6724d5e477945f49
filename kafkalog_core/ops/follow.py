"""`dump --follow`: what is there, then what is appended, over rolls, until the caller stops.

Partitions that are made later are followed too, where the caller says how to look for them. Between two looks the
caller's `wait` is called: no clock is read here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.errors import KafkalogError, SelectionError
from kafkalog_core.format.names import LOG_KINDS
from kafkalog_core.ops.progress import NO_PROGRESS
from kafkalog_core.ops.reading.logfiles import Unit, unit_of_partition
from kafkalog_core.ops.reading.logreader import LogReader
from kafkalog_core.ops.reading.tail import Tail, unit_of_rolling_file
from kafkalog_core.ops.selecting.targets import FileTarget, LogDirTarget, PartitionTarget, Target
from kafkalog_core.storage.partition import read_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.ops.dump import DumpRequest
    from kafkalog_core.ops.reading.rows import Chunk
    from kafkalog_core.ops.report import Report

__all__ = ["follow"]


def follow(
    request: DumpRequest,
    report: Report,
    wait: Callable[[], object],
    *,
    is_over: Callable[[], bool] = lambda: False,
    targets: Callable[[], Iterable[Target]] | None = None,
) -> Iterator[Chunk]:
    """Chunks as `dump` gives them, without end; what was held back comes last, as damage.

    Args:
        request: What to follow.
        report: Counts.
        wait: Called between two looks; ends it with True.
        is_over: Asked behind every chunk; ends it with True.
        targets: The request's targets as they are now, asked at every look; None: none are added.

    Raises SelectionError where there is nothing to follow, or for --committed, which needs the end of a log, and
    StorageError for a file that was named itself and cannot be opened.
    """
    if request.committed is not None or request.level == "segments":
        raise SelectionError("a log that grows can be followed by batches or records, without --committed")
    request.filters.check()
    following = _Following(request, report)
    following.join(request.targets)
    if not following.tails:
        raise SelectionError("no log among the targets to follow")
    for chunk in following.looks(wait, targets):
        report.rows += chunk.count
        yield chunk
        if is_over():
            break
    for tail in following.tails.values():
        for chunk in tail.held_back():
            report.rows += chunk.count
            yield chunk


class _Place(NamedTuple):
    """One partition, or one file that was named itself."""

    path: str
    identity: tuple[int, int]
    list_files: Callable[[], Unit]
    is_file: bool


class _Following:
    """All that is followed, by path."""

    def __init__(self, request: DumpRequest, report: Report) -> None:
        self.tails: dict[str, Tail] = {}
        self._request = request
        self._report = report
        self._reader = LogReader(request, report, NO_PROGRESS)
        self._out = bytearray()  # one for all: a log directory may hold thousands of partitions
        self._identities: set[tuple[int, int]] = set()

    def join(self, targets: Iterable[Target]) -> None:
        """Follow what is not followed yet, under this name or under the one that it had before."""
        for target in targets:
            for place in _places(target, with_path=self._request.path):
                if place.path not in self.tails and place.identity not in self._identities:
                    self.tails[place.path] = Tail(
                        place.list_files,
                        self._reader,
                        self._report,
                        self._out,
                        is_followed=self.tails.__contains__ if place.is_file else None,
                    )
                    self._identities.add(place.identity)
                    self._report.partitions += not place.is_file

    def looks(self, wait: Callable[[], object], targets: Callable[[], Iterable[Target]] | None) -> Iterator[Chunk]:
        """Look after look, until the caller or the limit ends it."""
        while True:
            for tail in self.tails.values():
                yield from tail.news()
                if self._reader.is_full:
                    return
            if wait():
                return
            if targets is not None:
                self._join_new(targets)

    def _join_new(self, targets: Callable[[], Iterable[Target]]) -> None:
        try:
            self.join(targets())
        except KafkalogError:  # what was named is gone for now, or cannot be listed: what is followed already says so
            return


def _places(target: Target, *, with_path: bool) -> Iterator[_Place]:
    if isinstance(target, LogDirTarget):
        log_dir = target.log_dir.path if target.log_dir.is_broker_dir else None
        for place in target.partitions:
            list_files = partial(_unit_at, place.path, log_dir, with_path=with_path)
            yield _Place(place.path, place.identity, list_files, is_file=False)
    elif isinstance(target, PartitionTarget):
        list_files = partial(_unit_at, target.path, target.log_dir, with_path=with_path)
        yield _Place(target.path, target.place.identity, list_files, is_file=False)
    elif isinstance(target, FileTarget) and target.kind in LOG_KINDS:
        list_files = partial(unit_of_rolling_file, target, with_path=with_path)
        yield _Place(target.path, (target.file.device, target.file.inode), list_files, is_file=True)


def _unit_at(path: str, log_dir: str | None, *, with_path: bool) -> Unit:
    return unit_of_partition(read_partition(path), log_dir, with_path=with_path)
