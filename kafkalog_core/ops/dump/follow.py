"""`dump --follow`: logs as they grow, read again and again from where the last read ended.

An incomplete batch at the end is held back, because a broker may be writing the rest of it; it is damage only once
something follows it, or when the caller no longer waits for it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.engine.decoded import decoding_findings
from kafkalog_core.engine.targets import FileTarget, LogDirTarget, PartitionTarget, Target
from kafkalog_core.errors import KafkalogError, NotFoundError, SelectionError, StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.layout import HEADER_SIZE_UP_TO_MAGIC
from kafkalog_core.format.names import LOG_KINDS
from kafkalog_core.kafka.sim.logfiles import LogFile, Unit, damage_severity, unit_of_file, unit_of_partition
from kafkalog_core.ops.dump.logreader import BatchMark, Identity, LogReader, identity_of, mark_of
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage.access import code_of_dir_error, code_of_error
from kafkalog_core.storage.framing import count_zeros
from kafkalog_core.storage.listing import FileInfo, list_directory, stat_path
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, Run, scan
from kafkalog_core.storage.source import FileChange, Source
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from kafkalog_core.engine.report import Report
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.logfiles import LogFile
    from kafkalog_core.ops.dump.runs import DumpRequest
    from kafkalog_core.output.chunk import Chunk

__all__ = ["ReadHistory", "Tail", "follow", "unit_of_rolling_file"]


def unit_of_rolling_file(target: FileTarget, *, with_path: bool) -> Unit:
    """Return a log file that is itself a target; it is the last one as long as its directory has no later segment.

    Raises NotFoundError or AccessError for its directory.
    """
    unit = unit_of_file(target, with_path=with_path)
    if target.file.name.base_offset is None:
        return unit
    return replace(unit, files=(replace(unit.files[0], is_last=_next_segment(unit.path, target.file) is None),))


def _next_segment(directory: str, file: FileInfo) -> FileInfo | None:
    """Return the segment of a directory that follows a file."""
    base_offset = -1 if file.name.base_offset is None else file.name.base_offset
    later = [
        other
        for other in list_directory(directory).files
        if other.name.kind is file.name.kind
        and other.name.canonical
        and other.name.state == file.name.state
        and (other.name.base_offset or 0) > base_offset
    ]
    return min(later, key=lambda other: other.name.base_offset or 0, default=None)


class Tail:
    """How far one partition has been read: to a byte of a file, and to an offset, which outlives the file.

    `is_followed` is None for a partition; for a named file it tests whether another file is followed too.
    """

    def __init__(
        self,
        list_files: Callable[[], Unit],
        reader: LogReader,
        report: Report,
        *,
        is_followed: Callable[[str], bool] | None = None,
    ) -> None:
        self._list_files = list_files
        self._reader = reader
        self._report = report
        self._is_followed = is_followed
        self._reported: set[tuple[str, str]] = set()
        self._held: tuple[LogFile, Unit] | None = None
        self._file: LogFile | None = None
        self._directory: tuple[int, int] | None = None
        self._position = 0
        self._last_offset: int | None = None
        self._history = ReadHistory()
        self._goes_back = False

    def news(self) -> Iterator[Chunk]:
        """Yield the rows since the last call. Raises StorageError for a named file that could never be opened."""
        try:
            unit = self._list_files()
            directory = stat_path(unit.path)
        except NotFoundError:  # the topic was deleted; it may be created again
            return
        except StorageError as error:
            yield from self._refused(code_of_dir_error(error), error)
            return
        # A topic that was deleted and created again has the same path but another inode: old positions mean nothing in
        # it.
        if self._directory not in {None, (directory.st_dev, directory.st_ino)} and self._file is not None:
            yield self._reader.changed(FileChange.REPLACED, self._file)
            self._file, self._last_offset = None, None
        self._directory = (directory.st_dev, directory.st_ino)
        for file in unit.files[self._first(unit.files) :]:
            try:
                yield from self._look_at(file, unit)
            except NotFoundError:
                return  # renamed or deleted after the listing: the next call lists the remaining files
            except StorageError as error:
                yield from self._refused(code_of_error(error), error)
            if self._reader.is_full:
                return
        yield from self._rolled(unit)

    def held_back(self) -> Iterator[Chunk]:
        """Yield the incomplete batch at the end as damage, when the caller no longer waits for the rest of it."""
        if self._held is None:
            return
        file, unit = self._held
        try:
            with Source.open(file.path) as source:
                item = next(self._scan(source, file), None)
                if isinstance(item, Damage):
                    severity = damage_severity(item, source, file, unit)
                    yield self._reader.damage(self._placed(item, file), file, severity)
        except NotFoundError:
            return
        except StorageError as error:
            yield from self._refused(code_of_error(error), error)

    def _refused(self, code: str, error: StorageError) -> Iterator[Chunk]:
        """Report once that a file cannot be read; each call tries it again."""
        if self._is_followed is not None and self._file is None:
            raise error
        event = (error.path or "", error.message)
        # By path and message: a disk that fails says the same at each poll.
        if event not in self._reported:
            self._reported.add(event)
            yield self._finding(found(code, error.path or "", reason=error.message))

    def _rolled(self, unit: Unit) -> Iterator[Chunk]:
        """Report once that a named file is closed, if the segment after it is not followed."""
        if self._is_followed is None or unit.files[0].is_last:
            return
        file = unit.files[0].file
        following = _next_segment(unit.path, file)
        event = (file.path, "")
        if following is not None and event not in self._reported and not self._is_followed(following.path):
            self._reported.add(event)
            offset = following.name.base_offset
            yield self._finding(found("file.rolled", file.path, offset=offset, following=following.name.raw))

    def _finding(self, finding: Finding) -> RowChunk:
        if self._file is not None:
            place = self._file.place
            finding = replace(finding, topic=place.topic, partition=place.partition)
        self._report.add_finding(finding.row())
        return RowChunk(tables.FINDING, [finding.row()])

    def _first(self, files: Sequence[LogFile]) -> int:
        """Return the index of the file to go on with: the one read last, or, if it is deleted, that of its offset."""
        for index, file in enumerate(files):
            if self._is_same(file):
                return index
        if self._is_truncated(files):
            self._goes_back = True
            identities = [identity_of(file) for file in files]
            left = self._history.back_into(identities)
            return len(files) - 1 if left is None else identities.index(left)
        last_offset = -1 if self._last_offset is None else self._last_offset
        return max((index for index, file in enumerate(files) if (file.base_offset or 0) <= last_offset), default=0)

    def _is_truncated(self, files: Sequence[LogFile]) -> bool:
        """Return whether the log was truncated before the file that was read last; retention deletes from the start.

        The log then ends in a file that was read before, or in a new one.
        """
        was = None if self._file is None else self._file.base_offset
        now = files[-1].base_offset if files else None
        return was is not None and now is not None and now < was

    def _is_same(self, file: LogFile) -> bool:
        if self._file is None:
            return False
        was, now = self._file.file, file.file
        return (was.path, was.device, was.inode) == (now.path, now.device, now.inode)

    def _look_at(self, file: LogFile, unit: Unit) -> Iterator[Chunk]:
        with Source.open(file.path) as source:
            if self._goes_back or (self._is_same(file) and not self._is_kept(source, file)):
                self._go_back(source, file)
                yield self._reader.changed(FileChange.SHRANK, file)
            elif not self._is_same(file):
                self._position = self._position_after(source, file)
                self._report.files += self._file is None or self._file.path != file.path
                self._file = file
            yield from self._read(source, file, unit)

    def _is_kept(self, source: Source, file: LogFile) -> bool:
        """Return whether a file still has what was read of it: it may be truncated, and have grown again."""
        return source.size_bytes >= self._position and self._history.is_kept(source, identity_of(file))

    def _go_back(self, source: Source, file: LogFile) -> None:
        """Continue after the last batch that is still the same, so that everything newly written is read."""
        mark = self._history.back_to(source, identity_of(file))
        before = None if file.base_offset is None else file.base_offset - 1
        self._position, self._last_offset = (0, before) if mark is None else (mark.end, mark.last_offset)
        self._file, self._goes_back = file, False

    def _position_after(self, source: Source, file: LogFile) -> int:
        """Return the byte where the unread part starts: after the last offset, which the file may contain too."""
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

    def _read(self, source: Source, file: LogFile, unit: Unit) -> Iterator[Chunk]:
        self._held = None
        lines = self._reader.lines_of(file)
        doubted: Damage | None = None
        while True:
            for item in self._scan(source, file):
                if isinstance(item, Run):
                    self._position = _end_of(item)
                    self._last_offset = item.batches.column("last_offset")[-1]
                    self._history.add(file, item)
                    yield from self._reader.run(item, lines)
                    yield from self._undecoded(file)
                    continue
                # An append may be running: what looks cut off now may be whole at the next poll.
                if file.is_last and may_be_unfinished(source, item):
                    self._held = (file, unit)
                    return
                if file.is_last and item.size_bytes and not _is_again(item, doubted):
                    doubted = item  # other bytes follow it now: an append that was running has ended
                    break
                self._position = item.position + item.size_bytes
                yield self._reader.damage(self._placed(item, file), file, "error")
            else:
                return

    def _undecoded(self, file: LogFile) -> Iterator[Chunk]:
        """Report each kind of problem of the records that do not decode once for a file, when it is first met."""
        undecoded = self._reader.take_undecoded()
        for kind, finding in decoding_findings(undecoded, file.place.topic, file.place.partition).items():
            if (kind, finding.code) not in self._reported:
                self._reported.add((kind, finding.code))
                yield self._finding(finding)

    def _placed(self, damage: Damage, file: LogFile) -> Damage:
        """Return damage with the offset expected there, which a scan from the middle of a file does not know."""
        if damage.next_offset is not None or file.is_v07 or self._last_offset is None:
            return damage
        return replace(damage, next_offset=self._last_offset + 1)

    def _scan(self, source: Source, file: LogFile) -> Iterator[Run | Damage]:
        # offsets of 0.7 count from the base; the order of others is checked from where the last read ended
        base_offset = file.base_offset if file.is_v07 or self._position == 0 else None
        options = self._reader.scan_options
        return scan(source, base_offset=base_offset, is_v07=file.is_v07, options=options, start=self._position)


def _is_again(damage: Damage, before: Damage | None) -> bool:
    return before is not None and (damage.position, damage.detail) == (before.position, before.detail)


def _end_of(run: Run) -> int:
    return int(run.batches.column("position")[-1] + run.batches.column("size_bytes")[-1])


def follow(
    request: DumpRequest,
    report: Report,
    wait: Callable[[], object],
    *,
    is_over: Callable[[], bool] = lambda: False,
    targets: Callable[[], Iterable[Target]] | None = None,
) -> Iterator[Chunk]:
    """Yield chunks as `dump` does, without end; incomplete batches that were held back come last, as damage.

    Args:
        request: what to follow.
        report: counts what is read and every row.
        wait: called between two passes over the targets; True ends the stream.
        is_over: called after every chunk; True ends the stream.
        targets: returns the request's targets as they are now, called before every pass; None: none are added.

    Raises SelectionError if no target is a log, or for --committed, which needs the end of a log, and StorageError for
    a named file that cannot be opened.
    """
    if request.committed is not None or request.level == "segments":
        raise SelectionError("a log that grows can be followed by batches or records, without --committed")
    if request.before or request.after or request.max_count is not None or request.counts:
        raise SelectionError("a log that grows is followed record by record, without context or a number of matches")
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
    """One partition, or one named file."""

    path: str
    identity: tuple[int, int]
    list_files: Callable[[], Unit]
    is_file: bool


class _Following:
    """The tails of all followed partitions and files, by path."""

    def __init__(self, request: DumpRequest, report: Report) -> None:
        self.tails: dict[str, Tail] = {}
        self._request = request
        self._report = report
        self._reader = LogReader(request, report, NO_PROGRESS)  # one for all: there may be thousands of partitions
        self._identities: set[tuple[int, int]] = set()

    def join(self, targets: Iterable[Target]) -> None:
        """Follow the partitions and files that are not followed yet, under this name or an earlier one."""
        for target in targets:
            for place in _places(target, with_path=self._request.path):
                if place.path not in self.tails and place.identity not in self._identities:
                    self.tails[place.path] = Tail(
                        place.list_files,
                        self._reader,
                        self._report,
                        is_followed=self.tails.__contains__ if place.is_file else None,
                    )
                    self._identities.add(place.identity)
                    self._report.partitions += not place.is_file

    def looks(self, wait: Callable[[], object], targets: Callable[[], Iterable[Target]] | None) -> Iterator[Chunk]:
        """Yield the rows of pass after pass, until the caller or the limit ends it."""
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
        except KafkalogError:  # a target is missing for now, or cannot be listed: its tail reports that
            return


def _places(target: Target, *, with_path: bool) -> Iterator[_Place]:
    if isinstance(target, LogDirTarget):
        for place in target.partitions:
            list_files = partial(_unit_at, place.path, target.broker_path, with_path=with_path)
            yield _Place(place.path, place.identity, list_files, is_file=False)
    elif isinstance(target, PartitionTarget):
        list_files = partial(_unit_at, target.path, target.log_dir, with_path=with_path)
        yield _Place(target.path, target.place.identity, list_files, is_file=False)
    elif isinstance(target, FileTarget) and target.kind in LOG_KINDS:
        list_files = partial(unit_of_rolling_file, target, with_path=with_path)
        yield _Place(target.path, (target.file.device, target.file.inode), list_files, is_file=True)


def _unit_at(path: str, log_dir: str | None, *, with_path: bool) -> Unit:
    return unit_of_partition(read_partition(path), log_dir, with_path=with_path)


_RECENT: Final = 64
"""Number of latest batches that are kept one by one; of older ones every second, every fourth and so on."""


_STEP: Final = 16
"""Of a long run, only every N-th batch before those is kept."""


_MOST: Final = 4 * _RECENT


class ReadHistory:
    """The batches that were read, in order: the last ones one by one, of older ones a part."""

    def __init__(self) -> None:
        self._marks: list[BatchMark] = []

    def add(self, file: LogFile, run: Run) -> None:
        """Note a run of a file, which is still in memory from its first batch on."""
        count = run.batches.count
        recent = max(0, count - _RECENT)
        self._marks += (mark_of(file, run, row) for row in (*range(0, recent, _STEP), *range(recent, count)))
        if len(self._marks) > _MOST:
            self._marks = [*self._marks[:-_RECENT:2], *self._marks[-_RECENT:]]

    def is_kept(self, source: Source, identity: Identity) -> bool:
        """Return whether a file still has the batch that was read last, if that batch was in this file."""
        last = self._marks[-1] if self._marks else None
        return last is None or last.identity != identity or last.is_in(source)

    def back_to(self, source: Source, identity: Identity) -> BatchMark | None:
        """Return the last batch that a file still has, and forget those after it; None: the file has none of them."""
        while self._marks and self._marks[-1].identity == identity:
            if self._marks[-1].is_in(source):
                return self._marks[-1]
            self._marks.pop()
        return None

    def back_into(self, identities: Collection[Identity]) -> Identity | None:
        """Return the file that has the batch that was read last, and forget the batches after it; None: no file."""
        while self._marks:
            if self._marks[-1].identity in identities:
                return self._marks[-1].identity
            self._marks.pop()
        return None


_HELD_BACK: Final = frozenset({"torn-tail", "zero-filled"})


def may_be_unfinished(source: Source, damage: Damage) -> bool:
    """Return whether damage may be an append in progress, in a growing or in a preallocated file."""
    if damage.reason in _HELD_BACK:
        return True
    rest = damage.position + damage.size_bytes
    if rest >= source.size_bytes:  # the framing is lost: a part of a header, followed by preallocated zeros
        rest = damage.position + HEADER_SIZE_UP_TO_MAGIC
    zeros = source.size_bytes - rest
    return zeros > 0 and count_zeros(source, rest, source.size_bytes) == zeros
