"""`verify` on Spark: the same engine, findings and order; executors read what is not little.

A task has a few small partitions, a large one, or some segments of a giant one. The driver compares what only all of
them together can tell: it lists the directories and reads the small files, so it sees the disks too.
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
from kafkalog_core.ops.retain.forecaster import RetentionForecaster, ViewTask, read_view, totals
from kafkalog_core.ops.retain.retain import Retained, retained_of
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
    """Verdicts of all targets, as `ops.verify.engine.verify` has them; `request.jobs` counts for nothing here.

    Raises StorageError where a target cannot be opened, WorkerLostError where a task failed for good.
    """
    return engine.verify(request, progress, workers=workers)


def finding_rows(verdicts: Iterable[PartitionVerdict | PlaceVerdict]) -> Iterator[dict[str, object]]:
    """The `finding` rows of verdicts."""
    for verdict in verdicts:
        for finding in verdict.findings:
            yield finding.row()


_PARTITIONS_A_PIECE: Final = 32
"""A few reads at the ends of its files are all that a partition takes."""


def retain(
    workers: Workers, requests: Iterable[RetainRequest], progress: Progress = NO_PROGRESS
) -> Iterator[tuple[RetentionForecaster, Iterator[Retained | Finding]]]:
    """Log directory by log directory, and in each what is said of its partitions.

    Args:
        workers: who view_tasks at the partitions of all of them.
        requests: one for each log directory, from `ops.plans.sites.target_dirs`; their `jobs` count for nothing here.
        progress: asked for leave to go on after each log directory.

    Raises as `ops.retain.retain` does, where the log directory that is meant would come.
    """
    asking = _Asking(requests)
    seen = workers.map(look_at, ((piece,) for piece in asking.pieces()))
    results = (each for some in seen for each in some)
    while (asked := asking.next(results)) is not None:
        progress.advance(0)
        yield asked.forecaster, retained_of(asked.request, asked.forecaster, asked.forecaster.forecasts_of(asked.seen))
    if asking.error is not None:
        raise asking.error


def retain_rows(
    workers: Workers, requests: Iterable[RetainRequest], progress: Progress = NO_PROGRESS
) -> Iterator[RowChunk]:
    """The rows of `kafkalog retain`, and at their end what all scenarios come to. Raises as `retain` does."""
    outcomes: list[ScenarioResult] = []
    for _, said in retain(workers, requests, progress):
        for each in said:
            yield from retained_rows(each)
            if isinstance(each, Retained):
                outcomes += each.outcomes
    if outcomes:
        yield what_if_rows(totals(outcomes))


def look_at(view_tasks: tuple[ViewTask, ...], advance: Callable[[int], None]) -> list[PartitionView | Finding]:
    """The work of an executor: read_view at some partitions of one log directory."""
    seen = []
    for each in view_tasks:
        seen.append(read_view(each))
        advance(0)
    return seen


class _Asked(NamedTuple):
    request: RetainRequest
    forecaster: RetentionForecaster
    seen: list[PartitionView | Finding]


class _Asking:
    """What is asked of workers, and what of it waits for its results.

    `error` is what ended the asking: it is for when all that was asked before it has been told.
    """

    def __init__(self, requests: Iterable[RetainRequest]) -> None:
        self._requests = requests
        self._waiting: deque[tuple[RetainRequest, RetentionForecaster, int]] = deque()
        self._ahead: list[PartitionView | Finding] = []
        self.error: KafkalogError | None = None

    def pieces(self) -> Iterator[tuple[ViewTask, ...]]:
        """Partitions that are looked at in one go."""
        try:
            for request in self._requests:
                forecaster = RetentionForecaster(request.target, request.wanted)
                view_tasks = [each.light() for each in forecaster.view_tasks()]
                self._waiting.append((request, forecaster, len(view_tasks)))
                for first in range(0, len(view_tasks), _PARTITIONS_A_PIECE):
                    yield tuple(view_tasks[first : first + _PARTITIONS_A_PIECE])
        except KafkalogError as error:
            self.error = error

    def next(self, results: Iterator[PartitionView | Finding]) -> _Asked | None:
        """The next log directory with what came of its partitions; null: there is no more."""
        if not self._waiting:
            self._ahead += islice(results, 1)  # which asks for more
        if not self._waiting:
            return None
        request, forecaster, count = self._waiting.popleft()
        seen = self._ahead[:count]
        del self._ahead[:count]
        return _Asked(request, forecaster, [*seen, *islice(results, count - len(seen))])


def replicas(
    workers: Workers, work: ReplicaWork, report: Report, progress: Progress = NO_PROGRESS
) -> Generator[Comparison | Finding, None, None]:
    """The same as `kafkalog_core.ops.replicas.compare.replicas`, done by `workers`."""
    return compared(work, report, progress, workers)


DEFAULT_GIANT_BYTES: Final = 4 * 1024 * 1024 * 1024
"""Of a log with less than this, reading is over by the time the maps of its parts have gone through the shuffle."""

_Result = TypeVar("_Result")
_Piece = tuple[Any, ...]
_Key = tuple[int, int, int]  # which giant, which part of it, which piece of its map


def compact(
    workers: Workers,
    request: CompactRequest,
    report: Report,
    progress: Progress = NO_PROGRESS,
    *,
    giant_bytes: int = DEFAULT_GIANT_BYTES,
) -> Generator[CompactForecast, None, None]:
    """The forecast of each partition, as `ops.compact.compact` has it; `request.jobs` counts for nothing here.

    Args:
        workers: who reads: `SparkWorkers`, or others, for which no partition is a giant.
        request: what to simulate.
        report: counts what was read and every row.
        progress: told how much there is to be read.
        giant_bytes: the least log of a giant; it also must be more than a worker's share of all.

    Raises as `ops.compact.compact` does, and WorkerLostError.
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
    """Write what logs are after their cleans into a new log directory, which is there whole or not at all.

    Executors write each partition into a place of its own beside the directory, so they and the driver must see it
    under the same name. What those leave that died is taken away. Raises as `ops.cleaning.to_dir.compact_to` does, and
    WorkerLostError.

    Args:
        workers: see `compact`.
        request: what to clean.
        to: the directory.
        report: see `compact`.
        progress: see `compact`.
        giant_bytes: see `compact`.
    """
    sharing = _sharing(workers, giant_bytes, forced=request.force)
    return to_dir.compact_to(request, to, report, progress, workers=sharing)


def _sharing(workers: Workers, giant_bytes: int, *, forced: bool) -> Workers:
    return _GiantWorkers(workers, giant_bytes, forced=forced) if isinstance(workers, SparkWorkers) else workers


class _GiantWorkers:
    """Workers of whom several share a piece that begins with the `CompactTask` of a giant.

    There `work_of` is called as `work_of(*piece, advance, known)`, where `known` is the giant's map.
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
        """Places of giants, and the parts that their maps are made of."""
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
        """One job: the parts of the maps, then giants and all others side by side."""
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
    """Put the maps of a giant's parts together, and do its piece of work with that; without one where they are none."""
    task: CompactTask = piece[0]
    return work_of(*piece, advance, merged_map(task.config(), packed))


@dataclass(frozen=True, slots=True)
class _Pack:
    """Makes the map of a part."""

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
    """Does the work on a giant; a list with its result, which may be a `Raised`."""

    task: Callable[..., Any]
    work_of: Callable[..., Any]
    pieces: list[_Piece]

    def __call__(self, group: int, packed: Iterable[tuple[_Key, PartHead | bytes]]) -> Iterator[list[Any]]:
        yield [self.task(self.work_of, self.pieces[group], (piece for _, piece in packed))]


@dataclass(frozen=True, slots=True)
class _Plain:
    """Does the work on any other partition; a list with its result, which may be a `Raised`."""

    task: Callable[..., Any]

    def __call__(self, piece: _Piece) -> list[Any]:
        return [self.task(*piece)]
