"""`verify`: the verdict of every partition, file and log directory of the targets, in a stable order.

With one job everything happens in this process, a run of batches at a time. With several, partitions are checked side
by side, and the segments of a large one too; their verdicts are the same, whoever makes them.
"""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from kafkalog_core.ops.pool import Pool
from kafkalog_core.ops.progress import NO_PROGRESS, Progress
from kafkalog_core.ops.selecting.targets import FileTarget, LogDirTarget
from kafkalog_core.ops.verify.course import Course, partition_key
from kafkalog_core.ops.verify.logdir import LogDirs
from kafkalog_core.ops.verify.motion import settled
from kafkalog_core.ops.verify.single import check_file
from kafkalog_core.ops.verify.state import decode
from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict
from kafkalog_core.ops.verify.work import (
    SPLIT_BYTES,
    Depth,
    Outcome,
    PartitionWork,
    Split,
    check_partition,
    check_pieces,
    check_segment_apart,
    finished,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from kafkalog_core.ops.selecting.targets import Target
    from kafkalog_core.ops.verify.request import VerifyRequest
    from kafkalog_core.ops.verify.state import Keeper

__all__ = ["verify"]

Verdict = PartitionVerdict | PlaceVerdict
_Piece = PartitionWork | FileTarget
_ALONE_PIECES: Final = 100
"""Pieces of work that this process does before it starts others: those cost as much as so many small partitions."""

_RECENT_PIECES: Final = 50
_SMALL_AT_ONCE: Final = 8


def verify(
    request: VerifyRequest, progress: Progress = NO_PROGRESS, keeper: Keeper | None = None
) -> Generator[Verdict, None, None]:
    """Verdicts: of each target's partitions, then of the target itself; what needs all log directories comes last.

    Raises StorageError where a target itself cannot be opened, StateError where what `keeper` has kept is not what a
    run of this release leaves behind, and WorkerLostError.
    """
    with ExitStack() as stack:
        yield from _Runner(request, progress, keeper, stack).verdicts()


class _Runner:
    def __init__(self, request: VerifyRequest, progress: Progress, keeper: Keeper | None, stack: ExitStack) -> None:
        self._request = request
        self._progress = progress
        self._keeper = keeper
        self._stack = stack
        self._depth = Depth(level=request.level, now_ms=request.now_ms, max_batch_bytes=request.max_batch_bytes)
        self._log_dirs = LogDirs(request.targets, self._depth)
        self._pool: Pool | None = None
        self._alone_bytes = 0
        self._recent: deque[int] = deque(maxlen=_RECENT_PIECES)

    def verdicts(self) -> Iterator[Verdict]:
        """See `verify`."""
        results = self._results(self._pieces())
        for target in self._request.targets:
            yield from self._of_target(target, results)
            if isinstance(target, LogDirTarget):
                yield self._log_dirs.verdict(target)
        yield from self._log_dirs.across()

    def _of_target(self, target: Target, results: Iterator[Verdict]) -> Iterator[Verdict]:
        """Verdicts of its partitions in their order; of those that depend on the others, behind them.

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
                self._progress.advance(0)  # whoever listens may end it here
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
                )

    def _lines(self, path: str) -> Sequence[str]:
        return () if self._keeper is None else self._keeper.lines_of(partition_key(path))

    # --- by whom ------------------------------------------------------------------------------------------------------
    def _results(self, pieces: Iterator[_Piece]) -> Iterator[Verdict]:
        """Verdicts in the order of the pieces; what is little is done here, as other processes cost something too."""
        if self._request.jobs == 1:
            for piece in pieces:
                yield self._verdict(piece, self._alone(piece))
            return
        for count, piece in enumerate(pieces):
            if count >= _ALONE_PIECES or self._alone_bytes > SPLIT_BYTES:
                yield from self._side_by_side(chain([piece], pieces))
                return
            outcome = self._alone(piece, split=1)
            if isinstance(outcome.result, Split):
                following = next(pieces, None)
                if following is not None:
                    yield from self._side_by_side(chain([piece, following], pieces))
                    return
                if len(outcome.result.tasks) == 1:
                    outcome = self._alone(piece)
            yield self._verdict(piece, outcome)

    def _alone(self, piece: _Piece, split: int | None = None) -> Outcome:
        """Do a piece in this process."""
        if isinstance(piece, FileTarget):
            return Outcome(check_file(piece, self._depth, self._advance))
        keep = partial(self._keep, partition_key(piece.path))
        return check_partition(_with_split(piece, split), self._advance, keep)

    def _side_by_side(self, pieces: Iterator[_Piece]) -> Iterator[Verdict]:
        """Do all of them in other processes."""
        waiting: deque[_Piece] = deque()

        def given() -> Iterator[tuple[tuple[_Piece, ...], Depth]]:
            while some := tuple(islice(pieces, self._at_once())):
                waiting.extend(some)
                yield tuple(map(_splitting, some)), self._depth

        for outcomes in self._started_pool().map(check_pieces, given()):
            for outcome in outcomes:
                yield self._verdict(waiting.popleft(), outcome)

    def _at_once(self) -> int:
        """How many pieces a process gets at once: several where the last ones were small, which saves messages."""
        is_small = len(self._recent) == _RECENT_PIECES and sum(self._recent) < SPLIT_BYTES
        return _SMALL_AT_ONCE if is_small else 1

    def _verdict(self, piece: _Piece, outcome: Outcome) -> Verdict:
        """The verdict of a piece; a partition that is in pieces itself is put together."""
        for index, line in outcome.lines:
            self._keep(partition_key(piece.path), index, line)
        self._skip(outcome.skipped_bytes)
        if not isinstance(outcome.result, Split):
            self._recent.append(_log_bytes(outcome.result))
            return outcome.result
        self._recent.clear()
        lines = piece.lines if isinstance(piece, PartitionWork) else ()
        return self._merged(outcome.result, lines)

    def _merged(self, split: Split, lines: Sequence[str]) -> PartitionVerdict:
        """Put a large partition together out of its segments."""
        partition = split.partition
        records = [decode(line, partition.path) for line in lines[: split.done]]
        keep = None if self._keeper is None else partial(self._keep, partition_key(partition.path))
        course = Course(partition, split.context, self._depth.now_ms, records, keep)
        self._skip(course.skipped_bytes)
        pool = self._started_pool()
        results = pool.map(check_segment_apart, ((task, pool.scratch) for task in split.tasks))
        for task, result in zip(split.tasks, results, strict=True):
            course.checker.begin(task.segment)
            result.spooled.replay(course.checker)
            course.end(result.verdict)
        return finished(course.checker, partition, self._depth, self._progress.advance)

    def _started_pool(self) -> Pool:
        if self._pool is None:
            self._pool = self._stack.enter_context(Pool(self._request.jobs, self._progress))
        return self._pool

    # --- what is told -------------------------------------------------------------------------------------------------
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


def _with_split(work: PartitionWork, split: int | None) -> PartitionWork:
    return work if work.split == split else replace(work, split=split)


def _splitting(piece: _Piece) -> _Piece:
    """A piece as another process gets it: a large partition of several segments comes back."""
    return piece if isinstance(piece, FileTarget) else _with_split(piece, 2)


def _log_bytes(verdict: Verdict) -> int:
    return sum(segment.size_bytes for segment in verdict.segments) if isinstance(verdict, PartitionVerdict) else 0
