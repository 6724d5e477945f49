"""`retain` on Spark: what retention deletes of all logs of many disks.

Executors look at the files of the partitions, some at a time; the forecasts, and other settings to try, need no file
any more and are made on the driver, by the same code as on one machine.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import KafkalogError
from kafkalog_core.ops.progress import NO_PROGRESS, Progress
from kafkalog_core.ops.retain import Retained, told
from kafkalog_core.ops.retention.rows import retained_rows, what_if_rows
from kafkalog_core.ops.retention.survey import Look, Survey, look
from kafkalog_core.ops.retention.what_if import totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.logdirs.segment_views import PartitionView
    from kafkalog_core.ops.pool import Workers
    from kafkalog_core.ops.reading.rows import RowChunk
    from kafkalog_core.ops.retain import RetainRequest
    from kafkalog_core.ops.retention.what_if import Outcome

__all__ = ["retain", "retain_rows"]

_PARTITIONS_A_PIECE: Final = 32
"""A few reads at the ends of its files are all that a partition takes."""


def retain(
    workers: Workers, requests: Iterable[RetainRequest], progress: Progress = NO_PROGRESS
) -> Iterator[tuple[Survey, Iterator[Retained | Finding]]]:
    """Log directory by log directory, and in each what is said of its partitions.

    Args:
        workers: who looks at the partitions of all of them.
        requests: one for each log directory, from `ops.plans.sites.sites_of`; their `jobs` count for nothing here.
        progress: asked for leave to go on after each log directory.

    Raises as `ops.retain.retain` does, where the log directory that is meant would come.
    """
    asking = _Asking(requests)
    seen = workers.map(look_at, ((piece,) for piece in asking.pieces()))
    results = (each for some in seen for each in some)
    while (asked := asking.next(results)) is not None:
        progress.advance(0)
        yield asked.survey, told(asked.request, asked.survey, asked.survey.foreseen(asked.seen))
    if asking.error is not None:
        raise asking.error


def retain_rows(
    workers: Workers, requests: Iterable[RetainRequest], progress: Progress = NO_PROGRESS
) -> Iterator[RowChunk]:
    """The rows of `kafkalog retain`, and at their end what all scenarios come to. Raises as `retain` does."""
    outcomes: list[Outcome] = []
    for _, said in retain(workers, requests, progress):
        for each in said:
            yield from retained_rows(each)
            if isinstance(each, Retained):
                outcomes += each.outcomes
    if outcomes:
        yield what_if_rows(totals(outcomes))


def look_at(looks: tuple[Look, ...], advance: Callable[[int], None]) -> list[PartitionView | Finding]:
    """The work of an executor: look at some partitions of one log directory."""
    seen = []
    for each in looks:
        seen.append(look(each))
        advance(0)
    return seen


class _Asked(NamedTuple):
    request: RetainRequest
    survey: Survey
    seen: list[PartitionView | Finding]


class _Asking:
    """What is asked of workers, and what of it waits for its results.

    `error` is what ended the asking: it is for when all that was asked before it has been told.
    """

    def __init__(self, requests: Iterable[RetainRequest]) -> None:
        self._requests = requests
        self._waiting: deque[tuple[RetainRequest, Survey, int]] = deque()
        self._ahead: list[PartitionView | Finding] = []
        self.error: KafkalogError | None = None

    def pieces(self) -> Iterator[tuple[Look, ...]]:
        """Partitions that are looked at in one go."""
        try:
            for request in self._requests:
                survey = Survey(request.site, request.wanted)
                looks = [each.light() for each in survey.looks()]
                self._waiting.append((request, survey, len(looks)))
                for first in range(0, len(looks), _PARTITIONS_A_PIECE):
                    yield tuple(looks[first : first + _PARTITIONS_A_PIECE])
        except KafkalogError as error:
            self.error = error

    def next(self, results: Iterator[PartitionView | Finding]) -> _Asked | None:
        """The next log directory with what came of its partitions; null: there is no more."""
        if not self._waiting:
            self._ahead += islice(results, 1)  # which asks for more
        if not self._waiting:
            return None
        request, survey, count = self._waiting.popleft()
        seen = self._ahead[:count]
        del self._ahead[:count]
        return _Asked(request, survey, [*seen, *islice(results, count - len(seen))])
