"""`verify`: the verdict of every partition, file and log directory of the targets, in a stable order.

With one job everything happens in this process, a run of batches at a time. With several, partitions are checked side
by side, and the segments of a large one too; their verdicts are the same, whoever makes them.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING, Final

from kafkalog_core.ops.progress import NO_PROGRESS, Progress
from kafkalog_core.ops.targets import FileTarget, LogDirTarget, PartitionTarget
from kafkalog_core.ops.verify.logdir import LogDirs
from kafkalog_core.ops.verify.partition import PartitionChecker
from kafkalog_core.ops.verify.pool import Pool
from kafkalog_core.ops.verify.single import check_file
from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict
from kafkalog_core.ops.verify.work import Depth, PartitionWork, Split, check_partition, check_split_segment, finished

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.ops.verify.request import VerifyRequest

__all__ = ["verify"]

Verdict = PartitionVerdict | PlaceVerdict
_SERIAL_PARTITIONS: Final = 16
"""Partitions that this process checks before it starts others: a process costs as much as some small partitions."""


def verify(request: VerifyRequest, progress: Progress = NO_PROGRESS) -> Iterator[Verdict]:
    """Verdicts: of each target's partitions, then of the target itself; what needs all log directories comes last.

    Raises StorageError where a target itself cannot be opened, and WorkerLostError.
    """
    with ExitStack() as stack:
        runner = _Runner(request, progress, stack)
        yield from runner.verdicts()


class _Runner:
    def __init__(self, request: VerifyRequest, progress: Progress, stack: ExitStack) -> None:
        self._request = request
        self._progress = progress
        self._stack = stack
        self._depth = Depth(level=request.level, now_ms=request.now_ms, max_batch_bytes=request.max_batch_bytes)
        self._log_dirs = LogDirs(request.targets)
        self._pool: Pool | None = None
        self._scratch = ""
        self._serial_left = _SERIAL_PARTITIONS

    def verdicts(self) -> Iterator[Verdict]:
        """See `verify`."""
        for target in self._request.targets:
            if isinstance(target, FileTarget):
                yield check_file(target, self._depth, self._progress.advance)
                continue
            for verdict in self._partitions(target):
                yield self._log_dirs.refined(verdict)
            if isinstance(target, LogDirTarget):
                yield self._log_dirs.verdict(target)
        yield from self._log_dirs.across()

    def _partitions(self, target: PartitionTarget | LogDirTarget) -> Iterator[Verdict]:
        works = self._works(target)
        for work in works:
            result = check_partition(work, self._progress.advance)
            if isinstance(result, Split):
                yield self._merged(result)
            else:
                yield result
            self._serial_left -= 1
            if self._request.jobs > 1 and (self._pool is not None or self._serial_left <= 0):
                break
        if self._request.jobs > 1:
            yield from self._pooled(works)

    def _pooled(self, works: Iterator[PartitionWork]) -> Iterator[Verdict]:
        first = next(works, None)
        if first is None:  # nothing is left: no process has to be started
            return
        for result in self._started_pool().map(check_partition, ((work,) for work in chain([first], works))):
            yield self._merged(result) if isinstance(result, Split) else result

    def _works(self, target: PartitionTarget | LogDirTarget) -> Iterator[PartitionWork]:
        places = (target.place,) if isinstance(target, PartitionTarget) else target.partitions
        for place in places:
            yield PartitionWork(
                path=place.path,
                context=self._log_dirs.context(target, place),
                depth=self._depth,
                may_split=self._request.jobs > 1,
            )

    def _merged(self, split: Split) -> PartitionVerdict:
        """Put a large partition together out of its segments."""
        checker = PartitionChecker(split.partition, split.context)
        pool = self._started_pool()
        results = pool.map(check_split_segment, ((task, self._scratch) for task in split.tasks))
        for task, result in zip(split.tasks, results, strict=True):
            checker.begin(task.segment)
            result.spooled.replay(checker)
            checker.end(result.verdict)
        return finished(checker, split.partition, self._depth, self._progress.advance)

    def _started_pool(self) -> Pool:
        if self._pool is None:
            self._scratch = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="kafkalog-verify-"))
            self._pool = self._stack.enter_context(Pool(self._request.jobs, self._progress))
        return self._pool
