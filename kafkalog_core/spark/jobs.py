"""The jobs `verify`, `retain`, `replicas` and `compact` on Spark: the commands' own engines, with executors as workers.

A task of `verify` has a few small partitions, one large partition, or some segments of a very large one. The driver
lists the directories, reads the small files and compares partitions and disks, so it must see all disks too.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kafkalog_core.errors import KafkalogError
from kafkalog_core.ops.compact import to_dir
from kafkalog_core.ops.compact.compact import compact as simulate_all
from kafkalog_core.ops.compact.simulation import MapPart, PartHead, merged_map, packed_part, parts_of
from kafkalog_core.ops.compact.task import CompactTask
from kafkalog_core.ops.replicas.compare import replicas as compared
from kafkalog_core.ops.retain.forecaster import Retained, RetentionForecaster, ViewTask, read_view, totals
from kafkalog_core.ops.retain.retain import retained_of
from kafkalog_core.ops.retain.rows import retained_rows, what_if_rows
from kafkalog_core.ops.verify import engine
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.spark.session.workers import Raised, SparkWorkers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from pyspark import RDD

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.logdir.segment_views import PartitionView
    from kafkalog_core.ops.compact.forecast import CompactForecast
    from kafkalog_core.ops.compact.task import CompactRequest
    from kafkalog_core.ops.pool import Workers
    from kafkalog_core.ops.reading.report import Report
    from kafkalog_core.ops.replicas.compare import Comparison, ReplicaWork
    from kafkalog_core.ops.retain.forecaster import ScenarioResult
    from kafkalog_core.ops.retain.retain import RetainRequest
    from kafkalog_core.ops.verify.engine import VerifyRequest
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict
    from kafkalog_core.rows.chunk import RowChunk

__all__ = [
    "DEFAULT_GIANT_BYTES",
    "compact",
    "compact_to",
    "finding_rows",
    "replicas",
    "retain",
    "retain_rows",
    "verify",
]


def verify(
    workers: Workers, request: VerifyRequest, progress: Progress = NO_PROGRESS
) -> Generator[PartitionVerdict | PlaceVerdict, None, None]:
    """Yield the verdicts of all targets, as `ops.verify.engine.verify` does; `request.jobs` is ignored.

    Raises StorageError if a target cannot be opened, WorkerLostError if a task failed in every attempt.
    """
    return engine.verify(request, progress, workers=workers)


def finding_rows(verdicts: Iterable[PartitionVerdict | PlaceVerdict]) -> Iterator[dict[str, object]]:
    """Yield the `finding` rows of verdicts."""
    for verdict in verdicts:
        for finding in verdict.findings:
            yield finding.row()


_PARTITIONS_A_PIECE: Final = 32
"""Partitions of one task: each costs only a few reads at the ends of its files."""


def retain(
    workers: Workers, requests: Iterable[RetainRequest], progress: Progress = NO_PROGRESS
) -> Iterator[tuple[RetentionForecaster, Iterator[Retained | Finding]]]:
    """Yield each log directory with the forecasts of its partitions.

    Args:
        workers: read the partitions of all log directories.
        requests: one for each log directory, from `target_dirs`; their `jobs` are ignored.
        progress: called after each log directory, so that it can stop the job.

    Raises what `ops.retain.retain` raises, in place of the log directory that it is about.
    """
    views = _ViewRequests(requests)
    seen = workers.map(read_views, ((piece,) for piece in views.pieces()))
    results = (each for some in seen for each in some)
    while (one := views.next(results)) is not None:
        progress.advance(0)
        yield one.forecaster, retained_of(one.request, one.forecaster, one.forecaster.forecasts_of(one.seen))
    if views.error is not None:
        raise views.error


def retain_rows(
    workers: Workers, requests: Iterable[RetainRequest], progress: Progress = NO_PROGRESS
) -> Iterator[RowChunk]:
    """Yield the rows of `kafkalog retain`, then the totals of all scenarios. Raises what `retain` raises."""
    outcomes: list[ScenarioResult] = []
    for _, forecasts in retain(workers, requests, progress):
        for each in forecasts:
            yield from retained_rows(each)
            if isinstance(each, Retained):
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


class _LogDirViews(NamedTuple):
    request: RetainRequest
    forecaster: RetentionForecaster
    seen: list[PartitionView | Finding]


class _ViewRequests:
    """The log directories whose partitions are being read, in order.

    `error` is the error that ended the requests: it is raised after the results of all earlier log directories.
    """

    def __init__(self, requests: Iterable[RetainRequest]) -> None:
        self._requests = requests
        self._waiting: deque[tuple[RetainRequest, RetentionForecaster, int]] = deque()
        self._ahead: list[PartitionView | Finding] = []
        self.error: KafkalogError | None = None

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
            self.error = error

    def next(self, results: Iterator[PartitionView | Finding]) -> _LogDirViews | None:
        """Return the next log directory with the results of its partitions; None: there are no more."""
        if not self._waiting:
            self._ahead += islice(results, 1)  # this makes the workers take further pieces
        if not self._waiting:
            return None
        request, forecaster, count = self._waiting.popleft()
        seen = self._ahead[:count]
        del self._ahead[:count]
        return _LogDirViews(request, forecaster, [*seen, *islice(results, count - len(seen))])


def replicas(
    workers: Workers, work: ReplicaWork, report: Report, progress: Progress = NO_PROGRESS
) -> Generator[Comparison | Finding, None, None]:
    """Yield what `kafkalog_core.ops.replicas.compare.replicas` yields; `workers` read the copies."""
    return compared(work, report, progress, workers)


DEFAULT_GIANT_BYTES: Final = 4 * 1024 * 1024 * 1024
"""The size from which a log is a giant: a smaller log is read before the shuffle has moved the maps of its parts."""

_Result = TypeVar("_Result")
_Piece = tuple[Any, ...]
_Key = tuple[int, int, int]  # number of the giant, of its part, of the piece of that part's map


def compact(
    workers: Workers,
    request: CompactRequest,
    report: Report,
    progress: Progress = NO_PROGRESS,
    *,
    giant_bytes: int = DEFAULT_GIANT_BYTES,
) -> Generator[CompactForecast, None, None]:
    """Yield the forecast of each partition, as `ops.compact.compact` does; `request.jobs` is ignored.

    Args:
        workers: read the logs: `SparkWorkers`, or others, for which no partition is a giant.
        request: what to simulate.
        report: counts the bytes read and every row.
        progress: receives the bytes of log to read and read.
        giant_bytes: minimum size of a giant's log, which must also be more than one core's share of all logs.

    Raises what `ops.compact.compact` raises, and WorkerLostError.
    """
    return simulate_all(request, report, progress, workers=_sharing(workers, giant_bytes, forced=True))


def compact_to(
    workers: Workers,
    request: CompactRequest,
    to: str,
    report: Report,
    progress: Progress = NO_PROGRESS,
    *,
    giant_bytes: int = DEFAULT_GIANT_BYTES,
) -> Generator[CompactForecast, None, None]:
    """Write the cleaned logs into a new log directory, which appears as a whole or not at all.

    Executors write each partition into a directory of its own next to the new one, so they and the driver must see that
    place under the same name. What failed attempts leave is deleted. Raises what `ops.compact.to_dir.compact_to`
    raises, and WorkerLostError.

    Args:
        workers: see `compact`.
        request: what to clean.
        to: path of the new log directory.
        report: see `compact`.
        progress: see `compact`.
        giant_bytes: see `compact`.
    """
    sharing = _sharing(workers, giant_bytes, forced=request.force)
    return to_dir.compact_to(request, to, report, progress, workers=sharing)


def _sharing(workers: Workers, giant_bytes: int, *, forced: bool) -> Workers:
    return _GiantWorkers(workers, giant_bytes, forced=forced) if isinstance(workers, SparkWorkers) else workers


class _GiantWorkers:
    """Workers that share the pieces of giants: pieces that begin with the `CompactTask` of a very large log.

    Several tasks build the offset map of a giant. Then `work_of(*piece, advance, known)` is called, where `known` is
    that map.
    """

    scratch: None = None

    def __init__(self, workers: SparkWorkers, giant_bytes: int, *, forced: bool) -> None:
        self._workers = workers
        self._giant_bytes = giant_bytes
        self._forced = forced

    @property
    def jobs(self) -> int:
        """See `Workers`."""
        return self._workers.jobs

    def map(self, work_of: Callable[..., _Result], pieces: Iterable[_Piece]) -> Iterator[_Result]:
        """See `Workers`."""
        known = list(pieces)
        giants = self._giants(
            {number: each[0] for number, each in enumerate(known) if isinstance(each[0], CompactTask)}
        )
        if not giants:
            return self._workers.map(work_of, known)
        return self._map_shared(work_of, known, giants)

    def _giants(self, tasks: Mapping[int, CompactTask]) -> dict[int, tuple[MapPart, ...]]:
        """Return the parts from which the map of each giant is built, by the number of the giant's piece."""
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
        self, work_of: Callable[..., _Result], pieces: Sequence[_Piece], giants: dict[int, tuple[MapPart, ...]]
    ) -> Iterator[_Result]:
        """Run one Spark job: first the maps of the giants' parts, then the giants next to all other pieces."""
        context = self._workers.spark.sparkContext
        places = list(giants)
        others = [number for number in range(len(pieces)) if number not in giants]
        parts = [(group, part) for group, number in enumerate(places) for part in giants[number]]
        packed = context.parallelize(parts, len(parts)).flatMap(_Pack(self._workers.task_of(packed_part)))
        decide = _Decide(self._workers.task_of(decide_with), work_of, [pieces[number] for number in places])
        shuffled = packed.repartitionAndSortWithinPartitions(len(places), _group_of)
        results: RDD[Any] = shuffled.mapPartitionsWithIndex(decide)
        if others:
            plain = _Plain(self._workers.task_of(work_of))
            results = results.union(context.parallelize([pieces[number] for number in others], len(others)).map(plain))
        found = dict(zip([*places, *others], self._workers.collect(results), strict=True))
        for number in range(len(pieces)):
            [result] = found[number]
            if isinstance(result, Raised):
                raise result.error
            yield result


# --- on the executors -------------------------------------------------------------------------------------------------
def _parts_of(task: CompactTask, most: int, forced: bool, advance: Callable[[int], None]) -> tuple[MapPart, ...]:
    return parts_of(task, most, advance, forced=forced)


def _group_of(key: _Key) -> int:
    return key[0]


def decide_with(
    work_of: Callable[..., _Result],
    piece: _Piece,
    packed: Iterable[PartHead | bytes],
    advance: Callable[[int], None],
) -> _Result:
    """Merge the maps of a giant's parts and do its piece of work with the merged map; None: there is no map."""
    task: CompactTask = piece[0]
    return work_of(*piece, advance, merged_map(task.config(), packed))


@dataclass(frozen=True, slots=True)
class _Pack:
    """Builds the offset map of a part."""

    task: Callable[..., Any]

    def __call__(self, one: tuple[int, MapPart]) -> Iterator[tuple[_Key, PartHead | bytes]]:
        group, part = one
        packed = self.task(part)
        if isinstance(packed, Raised):
            raise packed.error
        for number, piece in enumerate(packed):
            yield (group, part.number, number), piece


@dataclass(frozen=True, slots=True)
class _Decide:
    """Does the work on a giant and yields a list with its result, which may be a `Raised`."""

    task: Callable[..., Any]
    work_of: Callable[..., Any]
    pieces: list[_Piece]

    def __call__(self, group: int, packed: Iterable[tuple[_Key, PartHead | bytes]]) -> Iterator[list[Any]]:
        yield [self.task(self.work_of, self.pieces[group], (piece for _, piece in packed))]


@dataclass(frozen=True, slots=True)
class _Plain:
    """Does the work on any other partition and returns a list with its result, which may be a `Raised`."""

    task: Callable[..., Any]

    def __call__(self, piece: _Piece) -> list[Any]:
        return [self.task(*piece)]
