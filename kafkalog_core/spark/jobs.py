"""The jobs `retain` and `compact` on Spark: the commands' own engines, with executors as workers.

The jobs `verify`, `replicas`, `groups` and `transactions` need nothing of their own: their engines take `SparkWorkers`
as they are. The driver lists the directories, reads the small files and compares partitions and disks, so it must see
all disks too.
"""

from __future__ import annotations

from collections import deque
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkalog_core.errors import KafkalogError
from kafkalog_core.ops.compact.compact import compact as simulate_all
from kafkalog_core.ops.compact.forecast import CompactTask
from kafkalog_core.ops.compact.new_log_dir import compact_to
from kafkalog_core.ops.compact.simulation import MapShare, PartHead, merged_map, packed_part, parts_of
from kafkalog_core.ops.retain.forecaster import RetainForecast, RetentionForecaster, ViewTask, read_view, totals
from kafkalog_core.ops.retain.retain import retained_of
from kafkalog_core.ops.retain.rows import retained_rows, what_if_rows
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.spark.session.workers import Raised, SparkWorkers
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from pyspark import RDD

    from kafkalog_core.engine.pool import Workers
    from kafkalog_core.engine.report import Report
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.start.segment_views import PartitionView
    from kafkalog_core.ops.compact.forecast import CompactForecast, CompactRequest
    from kafkalog_core.ops.retain.forecaster import ScenarioResult
    from kafkalog_core.ops.retain.retain import RetainRequest
    from kafkalog_core.output.chunk import RowChunk

__all__ = ["DEFAULT_GIANT_BYTES", "compact", "retain", "retain_rows"]


_PARTITIONS_A_PIECE: Final = 32
"""Partitions of one task: each costs only a few reads at the ends of its files."""


def retain(
    workers: Workers, requests: Iterable[RetainRequest], progress: Progress = NO_PROGRESS
) -> Generator[tuple[RetentionForecaster, Iterator[RetainForecast | Finding]], None, None]:
    """Yield each log directory with the forecasts of its partitions.

    Args:
        workers: read the partitions of all log directories.
        requests: one for each log directory, from `target_dirs`; their `jobs` are ignored.
        progress: called after each log directory, so that it can stop the job.

    Raises what `ops.retain.retain` raises, in place of the log directory that it is about.
    """
    views = _ViewRequests(requests)
    seen = workers.map(read_views, ((piece,) for piece in views.pieces()))
    results = chain.from_iterable(seen)
    for request, forecaster, some in views.log_dirs(results):
        progress.advance(0)
        yield forecaster, retained_of(request, forecaster, forecaster.forecasts_of(some))


def retain_rows(
    workers: Workers, requests: Iterable[RetainRequest], progress: Progress = NO_PROGRESS
) -> Iterator[RowChunk]:
    """Yield the rows of `kafkalog retain`, then the totals of all scenarios. Raises what `retain` raises."""
    outcomes: list[ScenarioResult] = []
    for _, forecasts in retain(workers, requests, progress):
        for each in forecasts:
            yield from retained_rows(each)
            if isinstance(each, RetainForecast):
                outcomes += each.outcomes
    if outcomes:
        yield what_if_rows(totals(outcomes))


def read_views(view_tasks: tuple[ViewTask, ...], advance: Callable[[int], None]) -> list[PartitionView | Finding]:
    """Return what retention needs to know of some partitions of one log directory: the work of an executor."""
    seen = []
    for each in view_tasks:
        seen.append(read_view(each))
        advance(0)
    return seen


class _ViewRequests:
    """The log directories whose partitions are being read, in order."""

    def __init__(self, requests: Iterable[RetainRequest]) -> None:
        self._requests = requests
        self._waiting: deque[tuple[RetainRequest, RetentionForecaster, int]] = deque()
        self._error: KafkalogError | None = None

    def pieces(self) -> Iterator[tuple[ViewTask, ...]]:
        """Yield the partitions of each task."""
        try:
            for request in self._requests:
                forecaster = RetentionForecaster(request.target, request.wanted)
                view_tasks = [each.light() for each in forecaster.view_tasks()]
                self._waiting.append((request, forecaster, len(view_tasks)))
                for first in range(0, len(view_tasks), _PARTITIONS_A_PIECE):
                    yield tuple(view_tasks[first : first + _PARTITIONS_A_PIECE])
        except KafkalogError as error:
            self._error = error

    def log_dirs(
        self, results: Iterator[PartitionView | Finding]
    ) -> Iterator[tuple[RetainRequest, RetentionForecaster, list[PartitionView | Finding]]]:
        """Yield each log directory with the results of its partitions; raise the error that ended the requests."""
        ahead: list[PartitionView | Finding] = []
        while True:
            if not self._waiting:
                ahead += islice(results, 1)  # this makes the workers take more pieces
            if not self._waiting:
                break
            request, forecaster, count = self._waiting.popleft()
            seen, ahead = [*ahead[:count], *islice(results, max(0, count - len(ahead)))], ahead[count:]
            yield request, forecaster, seen
        if self._error is not None:
            raise self._error


DEFAULT_GIANT_BYTES: Final = 4 * 1024 * 1024 * 1024
"""The size from which a log is a giant: a smaller log is read before the shuffle has moved the maps of its parts."""

_Result = TypeVar("_Result")
_Task = tuple[Any, ...]
_Key = tuple[int, int, int]  # number of the giant, of its part, of the piece of that part's map


def compact(
    workers: Workers,
    request: CompactRequest,
    report: Report,
    progress: Progress = NO_PROGRESS,
    *,
    to: str | None = None,
    giant_bytes: int = DEFAULT_GIANT_BYTES,
) -> Generator[CompactForecast, None, None]:
    """Yield the forecast of each partition, as `ops.compact.compact` does, or clean into a new log directory.

    With `to`, executors write each partition into a directory of its own next to the new one, so they and the driver
    must see that place under the same name. What failed attempts leave is deleted.

    Args:
        workers: read the logs: `SparkWorkers`, or others, for which no partition is a giant.
        request: what to simulate or clean; its `jobs` are ignored.
        report: counts the bytes read and every row.
        progress: receives the bytes of log to read and read.
        to: path of a new log directory for the cleaned logs, which appears as a whole or not at all; None: no file is
            written.
        giant_bytes: minimum size of a giant's log, which must also be more than one core's share of all logs.

    Raises what `ops.compact` raises, and WorkerLostError.
    """
    if isinstance(workers, SparkWorkers):
        workers = _GiantWorkers(workers, giant_bytes, forced=to is None or request.force)
    if to is None:
        return simulate_all(request, report, progress, workers=workers)
    return compact_to(request, to, report, progress, workers=workers)


class _GiantWorkers:
    """Workers that share the work on giants: tasks whose first argument is the `CompactTask` of a very large log.

    Several Spark tasks build the offset map of a giant. Then `work_of(*task, advance, known)` is called, where `known`
    is that map.
    """

    def __init__(self, workers: SparkWorkers, giant_bytes: int, *, forced: bool) -> None:
        self._workers = workers
        self._giant_bytes = giant_bytes
        self._forced = forced

    @property
    def jobs(self) -> int:
        """See `Workers`."""
        return self._workers.jobs

    def map(self, work_of: Callable[..., _Result], tasks: Iterable[_Task]) -> Iterator[_Result]:
        """See `Workers`."""
        known = list(tasks)
        giants = self._giants(
            {number: each[0] for number, each in enumerate(known) if isinstance(each[0], CompactTask)}
        )
        if not giants:
            return self._workers.map(work_of, known)
        return self._map_shared(work_of, known, giants)

    def _giants(self, tasks: Mapping[int, CompactTask]) -> dict[int, tuple[MapShare, ...]]:
        """Return the parts from which the map of each giant is built, by the number of the giant's task."""
        share = sum(task.expected_bytes for task in tasks.values()) / self.jobs
        large = [
            number
            for number, task in tasks.items()
            if task.size_bytes >= self._giant_bytes and task.expected_bytes > share
        ]
        most = max(2, self.jobs // max(1, len(large)))
        parts = self._workers.map(_parts_of, ((tasks[number], most, self._forced) for number in large))
        return {number: some for number, some in zip(large, parts, strict=True) if some}

    def _map_shared(
        self, work_of: Callable[..., _Result], tasks: Sequence[_Task], giants: dict[int, tuple[MapShare, ...]]
    ) -> Iterator[_Result]:
        """Run one Spark job: first the maps of the giants' parts, then the giants next to all other tasks."""
        context = self._workers.spark.sparkContext
        places = list(giants)
        others = [number for number in range(len(tasks)) if number not in giants]
        parts = [(group, part) for group, number in enumerate(places) for part in giants[number]]
        packed = context.parallelize(parts, len(parts)).flatMap(_Pack(self._workers.task_of(packed_part)))
        decide = _Decide(self._workers.task_of(decide_with), work_of, [tasks[number] for number in places])
        shuffled = packed.repartitionAndSortWithinPartitions(len(places), _group_of)
        results: RDD[Any] = shuffled.mapPartitionsWithIndex(decide)
        if others:
            plain = _Plain(self._workers.task_of(work_of))
            results = results.union(context.parallelize([tasks[number] for number in others], len(others)).map(plain))
        found = dict(zip([*places, *others], self._workers.collect(results), strict=True))
        for number in range(len(tasks)):
            [result] = found[number]
            if isinstance(result, Raised):
                raise result.error
            yield result


# --- on the executors -------------------------------------------------------------------------------------------------
def _parts_of(task: CompactTask, most: int, forced: bool, advance: Callable[[int], None]) -> tuple[MapShare, ...]:
    return parts_of(task, most, advance, forced=forced)


def _group_of(key: _Key) -> int:
    return key[0]


def decide_with(
    work_of: Callable[..., _Result],
    arguments: _Task,
    packed: Iterable[PartHead | bytes],
    advance: Callable[[int], None],
) -> _Result:
    """Merge the maps of a giant's parts and do its task with the merged map; None: there is no map."""
    task: CompactTask = arguments[0]
    return work_of(*arguments, advance, merged_map(task.config(), packed))


class _Pack(Struct, frozen=True):
    """The work on a part of a giant: it yields the part's offset map, in pieces."""

    task: Callable[..., Any]

    def __call__(self, one: tuple[int, MapShare]) -> Iterator[tuple[_Key, PartHead | bytes]]:
        group, part = one
        packed = self.task(part)
        if isinstance(packed, Raised):
            raise packed.error
        for number, piece in enumerate(packed):
            yield (group, part.number, number), piece


class _Decide(Struct, frozen=True):
    """The work on a giant: it yields a list with the result, which may be a `Raised`."""

    task: Callable[..., Any]
    work_of: Callable[..., Any]
    tasks: list[_Task]

    def __call__(self, group: int, packed: Iterable[tuple[_Key, PartHead | bytes]]) -> Iterator[list[Any]]:
        yield [self.task(self.work_of, self.tasks[group], (piece for _, piece in packed))]


class _Plain(Struct, frozen=True):
    """The work on any other partition: it returns a list with the result, which may be a `Raised`."""

    task: Callable[..., Any]

    def __call__(self, arguments: _Task) -> list[Any]:
        return [self.task(*arguments)]
