"""`compact` on Spark: what the cleaner does to the logs of many disks, simulated, or written to a new directory.

A partition is the work of one task, from one end of its log to the other: that is what decides about tombstones,
transactions and batches that stay though they are empty. Of a giant partition the offset map, half of the work, is made
by several tasks before, each of which reads a range of the segments; their maps go through a shuffle to the task that
decides. (Buckets of keys would do too, but each of them would read the whole log.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkalog_core.ops.cleaning import to_dir
from kafkalog_core.ops.cleaning.map_parts import MapPart, PartHead, merged_map, packed_part, parts_of
from kafkalog_core.ops.cleaning.simulation import CompactTask
from kafkalog_core.ops.compact import compact as simulate_all
from kafkalog_core.ops.progress import NO_PROGRESS, Progress
from kafkalog_core.spark.workers import Raised, SparkWorkers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from pyspark import RDD

    from kafkalog_core.ops.cleaning.forecast import CompactForecast
    from kafkalog_core.ops.compact import CompactRequest
    from kafkalog_core.ops.pool import Workers
    from kafkalog_core.ops.report import Report

__all__ = ["DEFAULT_GIANT_BYTES", "compact", "compact_to"]

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
