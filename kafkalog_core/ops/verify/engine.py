"""The run over all targets: which process checks which partition, and the order of the verdicts."""

from __future__ import annotations

import os
from collections import Counter, deque
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, cast

from kafkalog_core.engine.spool import outputs_in_memory, sent
from kafkalog_core.engine.targets import FileTarget, LogDirTarget, PartitionTarget
from kafkalog_core.errors import StorageError
from kafkalog_core.findings import DENIED, found
from kafkalog_core.format.names import LOG_KINDS, FileState, parse_file_name
from kafkalog_core.ops.verify.logdir import LogDirs, interrupted_runs
from kafkalog_core.ops.verify.request import Depth, VerifyRequest
from kafkalog_core.ops.verify.resume import decode
from kafkalog_core.ops.verify.segment import SCANS, check_file
from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict
from kafkalog_core.ops.verify.work import (
    SHARED_PARTITION_BYTES,
    PartitionWork,
    ResumableCheck,
    SharedPartition,
    WorkResult,
    check_all,
    check_partition,
    check_segments,
    finished,
    partition_key,
    replay_runs,
)
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.storage.listing import stat_path
from kafkalog_core.storage.paths import is_object
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from kafkalog_core.engine.pool import Workers
    from kafkalog_core.engine.processes import Pool
    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.spool import TaskOutput
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.verify.request import Keeper, Reader, Readers, SegmentCheck
    from kafkalog_core.ops.verify.verdict import SegmentVerdict
    from kafkalog_core.ops.verify.work import SentRun

__all__ = [
    "count",
    "log_bytes",
    "log_bytes_in",
    "partition_row",
    "rows_of_verdict",
    "state_of",
    "verify",
    "verify_across",
    "with_doubts",
]


_LOG_SUFFIXES = (".log", ".kafka")


def log_bytes(targets: Iterable[Target]) -> int:
    """Return the bytes of log in the targets; a directory that cannot be listed counts 0."""
    total = 0
    paths: list[str] = []
    for target in targets:
        if isinstance(target, FileTarget):
            total += target.file.size_bytes
        elif isinstance(target, PartitionTarget):
            paths.append(target.path)
        else:
            paths += (place.path for place in target.partitions)
    # All objects at once: a store has one listing for many directories.
    in_store = list(filter(is_object, paths))
    if in_store:
        from kafkalog_core.storage import objects  # noqa: PLC0415 -- for such paths alone

        total += objects.log_bytes(in_store)
    return total + sum(log_bytes_in(path) for path in paths if not is_object(path))


def log_bytes_in(path: str) -> int:
    """Return the size of the logs of a partition; 0 where its directory cannot be listed."""
    try:
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(_LOG_SUFFIXES))
    except OSError:
        return 0


Verdict = PartitionVerdict | PlaceVerdict
_Work = PartitionWork | FileTarget
_ALONE_WORK: Final = 100
"""Partitions and files that this process checks before it starts others: a start costs as much as 100 small ones."""
_ALONE_UNREAD: Final = 5000
"""The same for partitions that have not changed, of which nothing is read: each takes half a millisecond."""

_RECENT_WORK: Final = 50
_SMALL_AT_ONCE: Final = 8
_PER_JOB: Final = 4
"""Tasks of a large partition for each job, so that all jobs end at about the same time."""


def verify(
    request: VerifyRequest,
    progress: Progress = NO_PROGRESS,
    keeper: Keeper | None = None,
    *,
    workers: Workers | None = None,
    readers: Readers | None = None,
) -> Generator[Verdict, None, None]:
    """Yield the verdicts of each target's partitions, then of the target, last what all log directories show together.

    The errors of each are before its other findings. An interrupted run of kafkalog in a target comes first: it
    explains most of the findings after it.

    Args:
        request: what to verify.
        progress: gets the bytes that are read.
        keeper: keeps what is known of each segment for a later run; None: nothing is kept.
        workers: check what is large; None: processes of this run do, as many as the request has jobs.
        readers: read the segments; None: each segment is scanned.

    Raises StorageError for a target that cannot be opened, SettingError for a setting that no release accepts,
    StateError for lines of `keeper` that no run of this release writes, and WorkerLostError.
    """
    with ExitStack() as stack:
        yield from _Runner(request, progress, keeper, workers, readers, stack).verdicts()


def verify_across(targets: Sequence[Target]) -> Iterator[Verdict]:
    """Yield what only several log directories show together, after other calls verified them one by one."""
    log_dirs = LogDirs(targets)
    for target in targets:
        if not isinstance(target, FileTarget):
            for place in target.partitions if isinstance(target, LogDirTarget) else (target.place,):
                log_dirs.note(target, place)
    yield from map(_errors_first, log_dirs.across())


def _errors_first(verdict: Verdict) -> Verdict:
    """Return a verdict with its errors before its other findings, each in their order: a reader starts with them."""
    return replace(verdict, findings=tuple(sorted(verdict.findings, key=lambda finding: finding.severity != "error")))


class _Runner:
    def __init__(
        self,
        request: VerifyRequest,
        progress: Progress,
        keeper: Keeper | None,
        workers: Workers | None,
        readers: Readers | None,
        stack: ExitStack,
    ) -> None:
        self._request = request
        self._progress = progress
        self._keeper = keeper
        self._given = workers
        self._pool: Pool | None = None
        self._stack = stack
        self._jobs = request.jobs if workers is None else workers.jobs
        self._is_alone = workers is None and request.jobs == 1
        self._readers = readers
        self._min_bytes = self._fair_bytes()
        self._depth = Depth(level=request.level, now_ms=request.now_ms, max_batch_bytes=request.max_batch_bytes)
        self._log_dirs = LogDirs(request.targets, self._depth, others=request.others or (), kafka=request.kafka)
        self._log_dirs.check_settings()
        self._alone_bytes = 0
        self._recent: deque[int] = deque(maxlen=_RECENT_WORK)

    def verdicts(self) -> Iterator[Verdict]:
        """Yield all verdicts, as `verify` does."""
        results = self._results(self._all_work())
        for target in self._request.targets:
            yield from interrupted_runs(target)
            yield from map(self._finished, self._target_verdicts(target, results))
            if isinstance(target, LogDirTarget):
                yield self._finished(self._log_dirs.verdict(target))
        if self._request.others is None:
            yield from map(self._finished, self._log_dirs.across())

    def _finished(self, verdict: Verdict) -> Verdict:
        return _errors_first(self._log_dirs.with_commands(verdict))

    def _target_verdicts(self, target: Target, results: Iterator[Verdict]) -> Iterator[Verdict]:
        """Yield the verdicts of a target's partitions in order, but last those that depend on the other partitions.

        If the run is stopped, these are yielded without what the other partitions would show.
        """
        waiting: list[Verdict] = []
        try:
            for _ in range(len(target.partitions) if isinstance(target, LogDirTarget) else 1):
                verdict = self._log_dirs.with_findings(next(results))
                if isinstance(verdict, PartitionVerdict):
                    verdict = with_doubts(verdict)
                # What a partition's findings say may depend on copies in directories that are read later.
                if self._log_dirs.depends_on_others(target, verdict):
                    waiting.append(verdict)
                else:
                    yield self._log_dirs.with_warnings(target, verdict)
                self._progress.advance(0)  # the listener may end it here
        # A caller that stops wants nothing more, not even what waits.
        except GeneratorExit:
            raise
        except BaseException:
            yield from waiting
            raise
        for verdict in waiting:
            yield self._log_dirs.with_warnings(target, verdict)

    def _all_work(self) -> Iterator[_Work]:
        """Yield all partitions and files lazily, in the order of their verdicts."""
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
        """Return the size from which several processes share a partition; None: the default.

        Among many partitions, few need to be shared, and sharing one costs spools. Only for given workers: all
        directories are listed to find this size.
        """
        if self._given is None:
            return None
        return max(SHARED_PARTITION_BYTES, log_bytes(self._request.targets) // (self._jobs * _PER_JOB))

    def _lines(self, path: str) -> Sequence[str]:
        return () if self._keeper is None else self._keeper.lines_of(partition_key(path))

    # --- scheduling --------------------------------------------------------------------------------------------------
    def _results(self, all_work: Iterator[_Work]) -> Iterator[Verdict]:
        """Yield verdicts in the order of the work; shared partitions are collected, to be checked in parallel."""
        if self._is_alone:
            for work in all_work:
                yield self._whole_verdict(work, self._check_here(work))
            return
        # Bounded: what is collected for parallel work is memory, until it is checked.
        room = self._jobs * _PER_JOB * SHARED_PARTITION_BYTES
        done: list[tuple[_Work, WorkResult]] = []
        unread_bytes = 0
        for work, outcome in self._outcomes(all_work):
            done.append((work, outcome))
            unread_bytes += sum(outcome.result.sizes) if isinstance(outcome.result, SharedPartition) else 0
            # A partition without anything large has its verdict now, so that rows come while the run goes on.
            if not unread_bytes or unread_bytes > room or len(done) > _ALONE_WORK:
                yield from self._verdicts(done)
                done, unread_bytes = [], 0
        yield from self._verdicts(done)

    def _outcomes(self, all_work: Iterator[_Work]) -> Iterator[tuple[_Work, WorkResult]]:
        """Yield partitions and files with their results; this process checks the first small ones."""
        read = 0
        for count, work in enumerate(all_work):
            # Before other processes start, this one does a bounded amount of work: most runs end within it.
            if read >= _ALONE_WORK or count >= _ALONE_UNREAD or self._alone_bytes > SHARED_PARTITION_BYTES:
                yield from self._in_parallel(chain([work], all_work))
                return
            before = self._alone_bytes
            outcome = self._check_here(work, min_segments=1)
            read += self._alone_bytes > before
            fair = self._min_bytes
            if isinstance(outcome.result, SharedPartition) and fair is not None and sum(outcome.result.sizes) <= fair:
                yield from self._in_parallel(chain([work], all_work))
                return
            yield work, outcome

    def _check_here(self, work: _Work, min_segments: int | None = None) -> WorkResult:
        """Check a partition or file in this process."""
        if isinstance(work, FileTarget):
            return WorkResult(check_file(work, self._depth, self._advance))
        keep = partial(self._keep, partition_key(work.path))
        return check_partition(replace(work, min_segments=min_segments), self._advance, keep)

    def _in_parallel(self, all_work: Iterator[_Work]) -> Iterator[tuple[_Work, WorkResult]]:
        """Yield partitions and files with their results from other processes."""
        waiting: deque[_Work] = deque()

        def given() -> Iterator[tuple[tuple[_Work, ...], Depth]]:
            while some := tuple(islice(all_work, self._at_once())):
                waiting.extend(some)
                yield tuple(map(self._for_worker, some)), self._depth

        workers = self._start_pool() if self._given is None else self._given
        for outcomes in workers.map(check_all, given()):
            for outcome in outcomes:
                yield waiting.popleft(), outcome

    def _for_worker(self, work: _Work) -> _Work:
        """Return work for another process, which returns a large partition of several segments as `SharedPartition`."""
        return work if isinstance(work, FileTarget) else replace(work, min_segments=2, min_bytes=self._min_bytes)

    def _at_once(self) -> int:
        """Return how many partitions a task has: several if the last ones were small, which saves messages."""
        # By what the last ones read: a run of many empty partitions sends several with one message.
        is_small = len(self._recent) == _RECENT_WORK and sum(self._recent) < SHARED_PARTITION_BYTES
        return _SMALL_AT_ONCE if is_small else 1

    def _verdicts(self, done: Sequence[tuple[_Work, WorkResult]]) -> Iterator[Verdict]:
        """Yield the verdicts of some work; the segments of shared partitions are checked in parallel, and merged."""
        shared = [(work.path, outcome.result) for work, outcome in done if isinstance(outcome.result, SharedPartition)]
        # One group of segments has nothing to share.
        is_one = len(shared) == 1 and len(shared[0][1].tasks) == 1 and self._given is None
        segments = self._segments(shared) if shared and not is_one else iter(())
        for work, outcome in done:
            if isinstance(outcome.result, SharedPartition) and is_one:  # no process is worth its start
                yield self._whole_verdict(work, self._check_here(work))
            elif isinstance(outcome.result, SharedPartition):
                self._take_rest(work.path, outcome)
                self._recent.clear()
                yield self._merged(work, outcome.result, segments)
            else:
                yield self._whole_verdict(work, outcome)

    def _whole_verdict(self, work: _Work, outcome: WorkResult) -> Verdict:
        """Return the verdict of a partition or file that one process has checked."""
        result = cast("Verdict", outcome.result)
        self._take_rest(work.path, outcome)
        self._recent.append(_log_bytes(result))
        return result

    def _segments(self, shared: Sequence[tuple[str, SharedPartition]]) -> Iterator[SentRun | SegmentVerdict]:
        """Yield the runs and the verdict of each segment of all shared partitions, which are checked in parallel."""
        sizes = sum(sum(each.sizes) for _, each in shared)
        most_bytes = min(SHARED_PARTITION_BYTES, sizes // (self._jobs * _PER_JOB))
        paths: deque[str] = deque()

        def given() -> Iterator[tuple[tuple[SegmentCheck, ...], Reader]]:
            for path, each in shared:
                for tasks in each.groups(most_bytes):
                    paths.append(path)
                    yield tasks, each.reader

        for output in self._outputs(given()):
            items = sent(output)
            last: SentRun | SegmentVerdict = next(items)
            for item in items:
                yield last
                last = item
            self._received(paths.popleft(), output.result())  # before the last verdict, which may end the partition
            yield last

    def _outputs(self, tasks: Iterator[tuple[tuple[SegmentCheck, ...], Reader]]) -> Iterator[TaskOutput]:
        if self._given is not None:
            return outputs_in_memory(self._given.map, check_segments, tasks)
        return self._start_pool().outputs(check_segments, tasks)

    def _merged(
        self, work: _Work, shared: SharedPartition, segments: Iterator[SentRun | SegmentVerdict]
    ) -> PartitionVerdict:
        """Return the verdict of a shared partition, from its checked segments."""
        partition = shared.partition
        lines = work.lines if isinstance(work, PartitionWork) else ()
        # Segments that an earlier run has checked: their lines come first.
        records = [decode(line, partition.path) for line in lines[: shared.done]]
        keep = None if self._keeper is None else partial(self._keep, partition_key(partition.path))
        check = ResumableCheck(partition, shared.context, self._depth.now_ms, records, keep)
        self._skip(check.skipped_bytes)
        for task in shared.tasks:
            check.checker.begin(task.segment)
            check.end(cast("SegmentVerdict", replay_runs(segments, check.checker)))
        return finished(check.checker, partition, self._depth, self._progress.advance)

    def _start_pool(self) -> Pool:
        """Return the processes, started at the first call; they end with the run."""
        if self._pool is None:
            from kafkalog_core.engine.processes import Pool  # noqa: PLC0415 -- most runs start none

            self._pool = self._stack.enter_context(Pool(self._jobs, self._progress, may_fork=True))
        return self._pool

    # --- what is reported ---------------------------------------------------------------------------------------------
    def _take_rest(self, path: str, outcome: WorkResult) -> None:
        """Take the rest of a result, without its verdict: lines for a later run, skipped bytes, a reading."""
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
    """Yield the `finding` rows, then the `partition` row."""
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
    """Return `clean`, `warnings`, `unread` or `damaged`, after the worst of the findings."""
    severities = {finding.severity for finding in verdict.findings}
    if "error" in severities:
        return "damaged"
    if any(finding.code == DENIED for finding in verdict.findings):
        return "unread"
    return "warnings" if "warning" in severities else "clean"


def partition_row(verdict: PartitionVerdict) -> dict[str, object]:
    """Return the `partition` row."""
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


_OF_ONE_SEGMENT: Final = frozenset({"log", "batch", "record", "index", "timeindex"})
"""Subjects of findings that depend on one log and its indexes alone."""


_OF_ALL: Final = frozenset(
    {
        "txn",
        "txnindex",
        "producer",
        "snapshot",
        "epochs",
        "recovery-point",
        "high-watermark",
        "log-start",
        "cleaner-offset",
    }
)
"""Subjects of findings that compare files with each other."""


_OF_NEIGHBOURS: Final = frozenset(
    {"segment.gap", "segment.overlap", "segment.index-missing", "segment.timeindex-missing", "segment.index-orphan"}
)


def with_doubts(verdict: PartitionVerdict) -> PartitionVerdict:
    """Return a verdict with warnings instead of errors that changes since the listing may explain."""
    if all(finding.severity != "error" for finding in verdict.findings):
        return verdict
    still = {segment.path for segment in verdict.segments if _is_still(segment)}
    # Nothing has changed since the listing, so each error is true.
    if len(still) == len(verdict.segments) and not _has_new_logs(verdict):
        return verdict
    findings = [
        replace(finding, severity="warning") if _is_doubtful(finding, still) else finding
        for finding in verdict.findings
    ]
    doubtful = sum(finding is not other for finding, other in zip(findings, verdict.findings, strict=True))
    if not doubtful:
        return verdict
    findings.append(
        found("partition.changing", verdict.path, topic=verdict.topic, partition=verdict.partition, count=doubtful)
    )
    return replace(verdict, findings=tuple(findings))


def _is_doubtful(finding: Finding, still: set[str]) -> bool:
    """Return whether changed files may be the cause of an error."""
    if finding.severity != "error":
        return False
    subject = finding.code.partition(".")[0]
    if subject in _OF_ONE_SEGMENT:
        return f"{finding.path.rpartition('.')[0]}.log" not in still and finding.path not in still
    return subject in _OF_ALL or finding.code in _OF_NEIGHBOURS


def _is_still(segment: SegmentVerdict) -> bool:
    try:
        status = stat_path(segment.path)
    except StorageError:
        return False
    return (status.st_size, status.st_mtime_ns // 1_000_000) == (segment.size_bytes, segment.mtime_ms)


def _has_new_logs(verdict: PartitionVerdict) -> bool:
    """Return whether a segment was begun after the last one."""
    if is_object(verdict.path):  # no broker appends to objects
        return False
    last = verdict.segments[-1].base_offset if verdict.segments else -1
    try:
        with os.scandir(verdict.path) as entries:
            names = [parse_file_name(entry.name) for entry in entries if entry.is_file()]
    except NotADirectoryError:  # a file was named itself
        return False
    except OSError:
        return True
    # a file that waits for a deletion or a swap is not a segment, and may be there for long
    logs = [name for name in names if name.kind in LOG_KINDS and name.canonical and name.state is FileState.LIVE]
    return any((name.base_offset or 0) > last for name in logs)
