"""The verb: partition by partition, here or by other workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_core.errors import SelectionError, StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.ops.progress import NO_PROGRESS
from kafkalog_core.ops.replicas.comparison import ReplicaTask, compare
from kafkalog_core.ops.replicas.copies import places_of
from kafkalog_core.ops.selecting.targets import FileTarget
from kafkalog_core.storage.listing import list_directory

if TYPE_CHECKING:
    from collections.abc import Generator

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.pool import Workers
    from kafkalog_core.ops.progress import Progress
    from kafkalog_core.ops.replicas.comparison import Comparison
    from kafkalog_core.ops.replicas.copies import Place
    from kafkalog_core.ops.report import Report
    from kafkalog_core.ops.selecting.targets import Target

__all__ = ["ReplicaWork", "ReplicasRequest", "replicas", "work_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasRequest:
    """What to compare: log directories or partition directories of several brokers, from `targets.resolve`."""

    targets: tuple[Target, ...]
    max_batch_bytes: int = MAX_BATCH_BYTES


@dataclass(frozen=True, slots=True)
class ReplicaWork:
    """The comparisons to be made, one a partition, and what is not compared."""

    tasks: tuple[ReplicaTask, ...]
    findings: tuple[Finding, ...]


def work_of(request: ReplicasRequest) -> ReplicaWork:
    """Find the copies; nothing of them is read.

    Raises SelectionError for files by themselves, or where no partition has two copies; StorageError.
    """
    files = [target.path for target in request.targets if isinstance(target, FileTarget)]
    if files:
        raise SelectionError("copies are compared as whole partitions; name a directory", path=files[0])
    places, aside = places_of(request.targets)
    if not any(len(each) > 1 for each in places.values()):
        raise SelectionError(
            f"nothing to compare: of {len(places)} partitions none is there twice; name the log directories of several "
            "brokers"
        )
    tasks = tuple(
        ReplicaTask(topic=topic, partition=number, places=tuple(each), max_batch_bytes=request.max_batch_bytes)
        for (topic, number), each in places.items()
    )
    findings = tuple(
        found("replicas.set-aside", path.path, topic=path.name.topic, partition=path.name.partition) for path in aside
    )
    return ReplicaWork(tasks, findings)


def replicas(
    work: ReplicaWork, report: Report, progress: Progress = NO_PROGRESS, workers: Workers | None = None
) -> Generator[Comparison | Finding, None, None]:
    """Compare the copies of every partition, by topic and number; findings that are of no comparison come first.

    Args:
        work: of `work_of`.
        report: counts every row.
        progress: told how much there is to be read.
        workers: who does it, one piece of work a partition; null: this process.
    """
    report.expect(partitions=len(work.tasks))
    progress.expect(sum(_size_of(place) for task in work.tasks if len(task.places) > 1 for place in task.places))
    for finding in work.findings:
        report.add_finding(finding.row())
        report.rows += 1
        yield finding
    results = (
        (compare(task, progress.advance) for task in work.tasks)
        if workers is None
        else workers.map(compare, ((task,) for task in work.tasks))
    )
    for comparison in results:
        _count(comparison, report)
        yield comparison


def _size_of(place: Place) -> int:
    try:
        listing = list_directory(place.path)
    except StorageError:
        return 0
    return sum(file.size_bytes for file in listing.files if file.name.raw.endswith(".log"))


def _count(comparison: Comparison, report: Report) -> None:
    report.partitions += 1
    report.files += comparison.files
    report.bytes += comparison.size_bytes
    report.batches += comparison.batches
    report.records += comparison.records
    for finding in comparison.findings:
        report.add_finding(finding.row())
    report.rows += sum(chunk.count for chunk in comparison.chunks())
