"""What is to be verified, and how deep."""

from __future__ import annotations

import os
from collections import Counter, deque
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, cast

from kafkalog_core.findings import DENIED
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.ops.pool import Pool
from kafkalog_core.ops.reading.targets import FileTarget, LogDirTarget, PartitionTarget
from kafkalog_core.ops.verify.across import settled
from kafkalog_core.ops.verify.logdir import LogDirs, interrupted_runs
from kafkalog_core.ops.verify.resume import decode
from kafkalog_core.ops.verify.segment import SCANS, check_file
from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict
from kafkalog_core.ops.verify.work import (
    SPLIT_BYTES,
    Course,
    Depth,
    Outcome,
    PartitionWork,
    SegmentResult,
    Split,
    check_partition,
    check_pieces,
    check_segments,
    finished,
    partition_key,
)
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.rows import tables
from kafkalog_core.rows.chunk import RowChunk

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from kafkalog_core.kafka.releases import Release
    from kafkalog_core.ops.pool import Workers
    from kafkalog_core.ops.reading.report import Report
    from kafkalog_core.ops.reading.targets import Target
    from kafkalog_core.ops.verify.check import Level, SegmentTask
    from kafkalog_core.ops.verify.resume import Keeper
    from kafkalog_core.ops.verify.segment import Reader, Readers

__all__ = [
    "VerifyRequest",
    "count",
    "log_bytes",
    "partition_row",
    "rows_of_verdict",
    "state_of",
    "verify",
    "verify_across",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """What to verify.

    Args:
        targets: files, partitions and log directories, from `targets.resolve`.
        now_ms: time of the check, ms since 1970: later timestamps are in the future.
        level: `headers` reads batch headers alone, `checksums` every byte, `records` also decodes every record.
        max_batch_bytes: the largest batch that is read, inflated too.
        jobs: number of processes; 1: only this one.
        others: what somebody else verifies at the same time, and then `verify_across` all of it: their partitions are
            named where some are missing here. `None`: this is all that is verified.
        kafka: the release whose broker would start on the directories; None: the one that left each of them.
    """

    targets: tuple[Target, ...]
    now_ms: int
    level: Level = "records"
    max_batch_bytes: int = MAX_BATCH_BYTES
    jobs: int = 1
    others: tuple[Target, ...] | None = None
    kafka: Release | None = None


_LOG_SUFFIXES = (".log", ".kafka")


def log_bytes(targets: Iterable[Target]) -> int:
    """Bytes of log in the targets; what cannot be listed counts as nothing."""
    total = 0
    for target in targets:
        if isinstance(target, FileTarget):
            total += target.file.size_bytes
        elif isinstance(target, PartitionTarget):
            total += _log_bytes_in(target.path)
        else:
            total += sum(_log_bytes_in(place.path) for place in target.partitions)
    return total


def _log_bytes_in(path: str) -> int:
    try:
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(_LOG_SUFFIXES))
    except OSError:
        return 0


Verdict = PartitionVerdict | PlaceVerdict
_Piece = PartitionWork | FileTarget
_ALONE_PIECES: Final = 100
"""Pieces of work that this process does before it starts others: their start costs as much as these small ones."""

_RECENT_PIECES: Final = 50
_SMALL_AT_ONCE: Final = 8
_PER_JOB: Final = 4
"""Pieces that a large partition is cut into for each job, so that all of them end at about the same time."""


def verify(
    request: VerifyRequest,
    progress: Progress = NO_PROGRESS,
    keeper: Keeper | None = None,
    *,
    workers: Workers | None = None,
    readers: Readers | None = None,
) -> Generator[Verdict, None, None]:
    """Verdicts: of each target's partitions, then of the target itself; what needs all log directories comes last.

    A run of kafkalog that was interrupted in a target comes first: it explains most of what is found after it.

    `workers` do what is not little, where there are any, else as many processes as the request has jobs. `readers` read
    the segments, where there are any.

    Raises StorageError where a target itself cannot be opened, StateError where what `keeper` has kept is not what a
    run of this release leaves behind, and WorkerLostError.
    """
    with ExitStack() as stack:
        yield from _Runner(request, progress, keeper, _Hands(workers, stack), readers).verdicts()


def verify_across(targets: Sequence[Target]) -> Iterator[Verdict]:
    """What only several log directories together can tell, where others verify them one by one."""
    log_dirs = LogDirs(targets)
    for target in targets:
        if not isinstance(target, FileTarget):
            for place in target.partitions if isinstance(target, LogDirTarget) else (target.place,):
                log_dirs.note(target, place)
    yield from log_dirs.across()


class _Hands:
    """Who does the work: workers that were given, or processes that are started when they are needed, and end here."""

    def __init__(self, workers: Workers | None, stack: ExitStack) -> None:
        self.workers = workers
        self._stack = stack

    def started(self, jobs: int, progress: Progress) -> Workers:
        """Whom to give work to."""
        if self.workers is None:
            self.workers = self._stack.enter_context(Pool(jobs, progress))
        return self.workers


class _Runner:
    def __init__(
        self,
        request: VerifyRequest,
        progress: Progress,
        keeper: Keeper | None,
        hands: _Hands,
        readers: Readers | None,
    ) -> None:
        self._request = request
        self._progress = progress
        self._keeper = keeper
        self._hands = hands
        self._jobs = request.jobs if hands.workers is None else hands.workers.jobs
        self._is_alone = hands.workers is None and request.jobs == 1
        self._readers = readers
        self._split_bytes = self._fair_bytes()
        self._depth = Depth(level=request.level, now_ms=request.now_ms, max_batch_bytes=request.max_batch_bytes)
        self._log_dirs = LogDirs(request.targets, self._depth, others=request.others or (), kafka=request.kafka)
        self._alone_bytes = 0
        self._recent: deque[int] = deque(maxlen=_RECENT_PIECES)

    def verdicts(self) -> Iterator[Verdict]:
        """See `verify`."""
        results = self._results(self._pieces())
        for target in self._request.targets:
            yield from interrupted_runs(target)
            yield from self._of_target(target, results)
            if isinstance(target, LogDirTarget):
                yield self._log_dirs.verdict(target)
        if self._request.others is None:
            yield from self._log_dirs.across()

    def _of_target(self, target: Target, results: Iterator[Verdict]) -> Iterator[Verdict]:
        """Yield verdicts of its partitions in their order; of those that depend on the others, after them.

        Where the work is stopped, those come out as they are: what is known is not lost.
        """
        waiting: list[Verdict] = []
        try:
            for _ in range(len(target.partitions) if isinstance(target, LogDirTarget) else 1):
                verdict = self._log_dirs.refined(next(results))
                if isinstance(verdict, PartitionVerdict):
                    verdict = settled(verdict)
                if self._log_dirs.waits(target, verdict):
                    waiting.append(verdict)
                else:
                    yield self._log_dirs.decided(target, verdict)
                self._progress.advance(0)  # the listener may end it here
        except GeneratorExit:
            raise
        except BaseException:
            yield from waiting
            raise
        for verdict in waiting:
            yield self._log_dirs.decided(target, verdict)

    def _pieces(self) -> Iterator[_Piece]:
        """All work in the order of its verdicts, made as it is asked for."""
        for target in self._request.targets:
            if isinstance(target, FileTarget):
                yield target
                continue
            for place in target.partitions if isinstance(target, LogDirTarget) else (target.place,):
                yield PartitionWork(
                    path=place.path,
                    context=self._log_dirs.context(target, place),
                    depth=self._depth,
                    lines=self._lines(place.path),
                    wants_lines=self._keeper is not None,
                    reader=SCANS if self._readers is None else self._readers.reader_of(place.path),
                )

    def _fair_bytes(self) -> int | None:
        """What makes a partition a large one: among many others it is done whole, as spools do not come for nothing.

        For workers of somebody else's alone, as all directories are listed to know it.
        """
        if self._hands.workers is None:
            return None
        return max(SPLIT_BYTES, log_bytes(self._request.targets) // (self._jobs * _PER_JOB))

    def _lines(self, path: str) -> Sequence[str]:
        return () if self._keeper is None else self._keeper.lines_of(partition_key(path))

    # --- by whom ------------------------------------------------------------------------------------------------------
    def _results(self, pieces: Iterator[_Piece]) -> Iterator[Verdict]:
        """Verdicts in the order of the pieces; large partitions wait for each other, to be checked side by side."""
        if self._is_alone:
            for piece in pieces:
                yield self._whole(piece, self._alone(piece))
            return
        room = self._jobs * _PER_JOB * SPLIT_BYTES
        done: list[tuple[_Piece, Outcome]] = []
        unread_bytes = 0
        for piece, outcome in self._outcomes(pieces):
            done.append((piece, outcome))
            unread_bytes += sum(outcome.result.sizes) if isinstance(outcome.result, Split) else 0
            if not unread_bytes or unread_bytes > room or len(done) > _ALONE_PIECES:
                yield from self._verdicts(done)
                done, unread_bytes = [], 0
        yield from self._verdicts(done)

    def _outcomes(self, pieces: Iterator[_Piece]) -> Iterator[tuple[_Piece, Outcome]]:
        """What comes of each piece; what is little is done here, as other processes cost something too."""
        for count, piece in enumerate(pieces):
            if count >= _ALONE_PIECES or self._alone_bytes > SPLIT_BYTES:
                yield from self._side_by_side(chain([piece], pieces))
                return
            outcome = self._alone(piece, split=1)
            fair = self._split_bytes
            if isinstance(outcome.result, Split) and fair is not None and sum(outcome.result.sizes) <= fair:
                yield from self._side_by_side(chain([piece], pieces))
                return
            yield piece, outcome

    def _alone(self, piece: _Piece, split: int | None = None) -> Outcome:
        """Do a piece in this process."""
        if isinstance(piece, FileTarget):
            return Outcome(check_file(piece, self._depth, self._advance))
        keep = partial(self._keep, partition_key(piece.path))
        return check_partition(replace(piece, split=split), self._advance, keep)

    def _side_by_side(self, pieces: Iterator[_Piece]) -> Iterator[tuple[_Piece, Outcome]]:
        """Do all of them elsewhere."""
        waiting: deque[_Piece] = deque()

        def given() -> Iterator[tuple[tuple[_Piece, ...], Depth]]:
            while some := tuple(islice(pieces, self._at_once())):
                waiting.extend(some)
                yield tuple(map(self._given, some)), self._depth

        for outcomes in self._started().map(check_pieces, given()):
            for outcome in outcomes:
                yield waiting.popleft(), outcome

    def _given(self, piece: _Piece) -> _Piece:
        """A piece as another process gets it: a large partition of several segments comes back."""
        return piece if isinstance(piece, FileTarget) else replace(piece, split=2, split_bytes=self._split_bytes)

    def _at_once(self) -> int:
        """How many pieces a process gets at once: several where the last ones were small, which saves messages."""
        is_small = len(self._recent) == _RECENT_PIECES and sum(self._recent) < SPLIT_BYTES
        return _SMALL_AT_ONCE if is_small else 1

    def _verdicts(self, done: Sequence[tuple[_Piece, Outcome]]) -> Iterator[Verdict]:
        """The verdicts of some pieces; partitions that are in pieces themselves are put together."""
        splits = [(piece.path, outcome.result) for piece, outcome in done if isinstance(outcome.result, Split)]
        is_one = len(splits) == 1 and len(splits[0][1].tasks) == 1 and self._hands.workers is None
        segments = self._segments(splits) if splits and not is_one else iter(())
        for piece, outcome in done:
            if isinstance(outcome.result, Split) and is_one:  # no process is worth its start
                yield self._whole(piece, self._alone(piece))
            elif isinstance(outcome.result, Split):
                self._take(piece.path, outcome)
                self._recent.clear()
                yield self._merged(piece, outcome.result, segments)
            else:
                yield self._whole(piece, outcome)

    def _whole(self, piece: _Piece, outcome: Outcome) -> Verdict:
        """The verdict of a piece that was done at once."""
        result = cast("Verdict", outcome.result)
        self._take(piece.path, outcome)
        self._recent.append(_log_bytes(result))
        return result

    def _segments(self, splits: Sequence[tuple[str, Split]]) -> Iterator[SegmentResult]:
        """The segments of large partitions, all of them checked side by side, in order."""
        workers = self._started()
        sizes = sum(sum(split.sizes) for _, split in splits)
        most_bytes = min(SPLIT_BYTES, sizes // (workers.jobs * _PER_JOB))
        paths: deque[str] = deque()

        def given() -> Iterator[tuple[tuple[SegmentTask, ...], Reader, str | None]]:
            for path, split in splits:
                for tasks in split.groups(most_bytes):
                    paths.append(path)
                    yield tasks, split.reader, workers.scratch

        for segments in workers.map(check_segments, given()):
            self._received(paths.popleft(), segments.made)
            yield from segments.results

    def _merged(self, piece: _Piece, split: Split, segments: Iterator[SegmentResult]) -> PartitionVerdict:
        """Put a large partition together out of its segments."""
        partition = split.partition
        lines = piece.lines if isinstance(piece, PartitionWork) else ()
        records = [decode(line, partition.path) for line in lines[: split.done]]
        keep = None if self._keeper is None else partial(self._keep, partition_key(partition.path))
        course = Course(partition, split.context, self._depth.now_ms, records, keep)
        self._skip(course.skipped_bytes)
        for task in split.tasks:
            result = next(segments)
            course.checker.begin(task.segment)
            result.spooled.replay(course.checker)
            course.end(result.verdict)
        return finished(course.checker, partition, self._depth, self._progress.advance)

    def _started(self) -> Workers:
        return self._hands.started(self._request.jobs, self._progress)

    # --- what is reported ---------------------------------------------------------------------------------------------
    def _take(self, path: str, outcome: Outcome) -> None:
        """Take what a piece has given apart from its verdict."""
        for index, line in outcome.lines:
            self._keep(partition_key(path), index, line)
        self._skip(outcome.skipped_bytes)
        self._received(path, outcome.made)

    def _received(self, path: str, made: object) -> None:
        if self._readers is not None:
            self._readers.received(path, made)

    def _advance(self, size_bytes: int) -> None:
        self._alone_bytes += size_bytes
        self._progress.advance(size_bytes)

    def _keep(self, partition: str, index: int, line: str) -> None:
        if self._keeper is not None:
            self._keeper.keep(partition, index, line)

    def _skip(self, size_bytes: int) -> None:
        if self._keeper is not None and size_bytes:
            self._keeper.skipped(size_bytes)
            self._progress.expect(-size_bytes)


def _log_bytes(verdict: Verdict) -> int:
    return sum(segment.size_bytes for segment in verdict.segments) if isinstance(verdict, PartitionVerdict) else 0


def rows_of_verdict(verdict: PartitionVerdict | PlaceVerdict) -> Iterator[RowChunk]:
    """`finding` rows in the order of the files, then the `partition` row."""
    if verdict.findings:
        yield RowChunk(tables.FINDING, [finding.row() for finding in verdict.findings])
    if isinstance(verdict, PartitionVerdict):
        yield RowChunk(tables.PARTITION, [partition_row(verdict)])


def count(verdict: PartitionVerdict | PlaceVerdict, report: Report) -> None:
    """Add a verdict to the report."""
    for finding in verdict.findings:
        report.add_finding(finding.row(), count=1 + finding.more)
    report.rows += len(verdict.findings) + isinstance(verdict, PartitionVerdict)
    if not isinstance(verdict, PartitionVerdict):
        return
    report.partitions += 1
    for segment in verdict.segments:
        report.expect(files=1, size_bytes=segment.size_bytes)
        if segment.is_unread:
            continue
        report.files += 1
        report.bytes += segment.size_bytes
        report.batches += segment.batches
        report.unopened_batches += segment.unopened_batches
        report.records += segment.records
        report.uncounted_batches += segment.uncounted_batches
        report.damage_count += segment.damage_count
        report.damage_bytes += segment.damage_bytes


def state_of(verdict: PartitionVerdict | PlaceVerdict) -> str:
    """Return `clean`, `warnings`, `unread` or `damaged`: the worst of its findings."""
    severities = {finding.severity for finding in verdict.findings}
    if "error" in severities:
        return "damaged"
    if any(finding.code == DENIED for finding in verdict.findings):
        return "unread"
    return "warnings" if "warning" in severities else "clean"


def partition_row(verdict: PartitionVerdict) -> dict[str, object]:
    """The `partition` row."""
    segments = verdict.segments
    severities = Counter(finding.severity for finding in verdict.findings)
    first_times = [segment.first_timestamp_ms for segment in segments if segment.first_timestamp_ms is not None]
    max_times = [segment.max_timestamp_ms for segment in segments if segment.max_timestamp_ms is not None]
    return {
        "topic": verdict.topic,
        "partition": verdict.partition,
        "path": verdict.path,
        "state": state_of(verdict),
        "segments": len(segments),
        "bytes": sum(segment.size_bytes for segment in segments),
        "batches": sum(segment.batches for segment in segments),
        "records": sum(segment.records for segment in segments),
        "log_start_offset": verdict.log_start_offset,
        "log_end_offset": verdict.log_end_offset,
        "first_timestamp_ms": first_times[0] if first_times else None,
        "max_timestamp_ms": max(max_times, default=None),
        "damage_count": sum(segment.damage_count for segment in segments),
        "damage_bytes": sum(segment.damage_bytes for segment in segments),
        "at_risk_bytes": verdict.at_risk_bytes,
        "errors": severities["error"],
        "warnings": severities["warning"],
        "infos": severities["info"],
    }
