"""`verify` on Spark: the same engine, findings and order; executors read what is not little.

A task has a few small partitions, a large one, or some segments of a giant one. The driver compares what only all of
them together can tell: it lists the directories and reads the small files, so it sees the disks too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.ops.progress import NO_PROGRESS, Progress
from kafkalog_core.ops.verify import engine

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from kafkalog_core.ops.pool import Workers
    from kafkalog_core.ops.verify.request import VerifyRequest
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict

__all__ = ["finding_rows", "verify"]


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
