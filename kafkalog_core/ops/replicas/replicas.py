"""`kafkalog replicas`: the comparison of the copies of each partition, as rows and findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from kafkalog_core.engine.pool import run_all
from kafkalog_core.engine.targets import FileTarget, resolve
from kafkalog_core.errors import SelectionError, StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.kafka.sim.metadata_log import EVERYTHING
from kafkalog_core.ops.cluster.cluster import disks_of, read_newest, watch_leaders
from kafkalog_core.ops.cluster.request import ClusterRequest
from kafkalog_core.ops.copies.compare import Comparison, ReplicaTask, compare
from kafkalog_core.ops.copies.comparison import log_bytes
from kafkalog_core.ops.copies.verdict import (
    Assigned,
    places_of,
)
from kafkalog_core.ops.replicas.choices import group_costs
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.structs import Struct
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from kafkalog_core.engine.pool import Workers
    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.ops.cluster.image_rows import FormerLeaders
    from kafkalog_core.ops.copies.compare import PartitionChoice
    from kafkalog_core.ops.replicas.choices import GroupCosts
    from kafkalog_core.progress import Progress

__all__ = ["ReplicaWork", "ReplicasRequest", "replicas", "rows_of", "work_of"]

_Result = TypeVar("_Result")


class ReplicasRequest(Struct, frozen=True, kw_only=True):
    """What to compare: log directories or partition directories of several brokers, from `targets.resolve`."""

    targets: tuple[Target, ...]
    max_batch_bytes: int = MAX_BATCH_BYTES


class ReplicaWork(Struct, frozen=True):
    """The comparisons to do, one for each partition, and findings about directories that are not compared.

    `log_dirs`: paths of the log directories, in which the commits of groups are.
    """

    tasks: tuple[ReplicaTask, ...]
    findings: tuple[Finding, ...]
    log_dirs: tuple[str, ...] = ()


def work_of(request: ReplicasRequest) -> ReplicaWork:
    """Find the copies, without reading them.

    Raises SelectionError for single files, or if no partition has two copies; StorageError.
    """
    files = [target.path for target in request.targets if isinstance(target, FileTarget)]
    if files:
        raise SelectionError("copies are compared as whole partitions; name a directory", path=files[0])
    places, aside = places_of(request.targets)
    if not any(len(each) > 1 for each in places.values()):
        raise SelectionError(
            f"nothing to compare: none of {count_of(len(places), 'partition')} has two copies; name the log "
            "directories of several brokers"
        )
    # Those without a partition that is selected too: they may have the metadata log, and the commits of groups.
    log_dirs = tuple(dict.fromkeys(path for target in request.targets for path in target.named_dirs.paths))
    assigned = _assigned(log_dirs)
    tasks = tuple(
        ReplicaTask(
            topic=topic,
            partition=number,
            places=tuple(each),
            max_batch_bytes=request.max_batch_bytes,
            assigned=assigned.get((topic, number)),
        )
        for (topic, number), each in places.items()
    )
    findings = tuple(
        found("replicas.set-aside", path.path, topic=path.name.topic, partition=path.name.partition) for path in aside
    )
    return ReplicaWork(tasks, findings, log_dirs)


def _assigned(log_dirs: Sequence[str]) -> dict[TopicPartition, Assigned]:
    """Return what the newest metadata log in these directories says of each partition, if it is whole."""
    former: FormerLeaders = {}
    try:
        reading, _ = read_newest(
            disks_of(ClusterRequest(targets=tuple(resolve(log_dirs)))), EVERYTHING, watch_leaders(former)
        )
    except (SelectionError, StorageError):
        return {}
    return {
        (topic.name, number): Assigned(
            topic_id=topic.topic_id,
            leader=each.leader,
            last_leader=former.get((topic.topic_id, number), (None, 0))[0],
            leader_epoch=each.leader_epoch,
            isr=each.isr,
            elr=each.elr,
        )
        for topic in (reading.image.topics.values() if reading.is_whole else ())
        for number, each in topic.partitions.items()
    }


def replicas(
    work: ReplicaWork,
    report: Report,
    progress: Progress = NO_PROGRESS,
    workers: Workers | None = None,
    *,
    jobs: int = 1,
) -> Generator[Comparison | Finding | GroupCosts, None, None]:
    """Compare the copies of every partition, by topic and number; findings about other directories come first.

    The last item is what the choices cost the groups of consumers, if there is a choice.

    Args:
        work: the result of `work_of`.
        report: counts what was read and every row.
        progress: shows the bytes to read, and those that this process reads.
        workers: they compare, one partition at a time; None: processes of this machine do.
        jobs: number of these processes.
    """
    # Known before the work, so that progress has an end.
    report.expect(partitions=len(work.tasks))
    size = sum(log_bytes(place.path) for task in work.tasks if len(task.places) > 1 for place in task.places)
    progress.expect(size)
    for finding in work.findings:
        report.add_finding(finding.row())
        report.rows += 1
        yield finding

    def run(work_of: Callable[..., _Result], tasks: Sequence[tuple[Any, ...]], size_bytes: int) -> Iterator[_Result]:
        if workers is not None:
            return workers.map(work_of, tasks)
        return run_all(work_of, tasks, jobs, size_bytes, progress)

    choices: list[PartitionChoice] = []
    for comparison in run(compare, [(task,) for task in work.tasks], size):
        _count(comparison, report)
        yield comparison
        if comparison.choice is not None:
            choices.append(comparison.choice)
    if choices:
        costs = group_costs(choices, work.log_dirs, work.tasks[0].max_batch_bytes, run)
        report.rows += len(costs.impacts)
        yield costs


def _count(comparison: Comparison, report: Report) -> None:
    report.partitions += 1
    report.files += comparison.files
    report.bytes += comparison.size_bytes
    report.batches += comparison.batches
    report.records += comparison.records
    for finding in comparison.findings:
        report.add_finding(finding.row())
    report.rows += sum(chunk.count for chunk in comparison.chunks())


def rows_of(item: Comparison | Finding | GroupCosts) -> Iterator[RowChunk]:
    """Yield the rows of a comparison, of a finding outside the comparisons, or of what the choices cost groups."""
    if isinstance(item, Finding):
        yield RowChunk(tables.FINDING, [item.row()])
    else:
        yield from item.chunks()
