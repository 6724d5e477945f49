"""`kafkalog reindex`: offset, time and transaction indexes, producer snapshots and leader epochs, rebuilt from logs.

Each partition's logs are read once. What is missing or wrong is written as the broker's recovery would write it, with
the settings in force. What is correct is kept, even if a recovery would write it differently, unless all files are
requested.
"""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import AccessError, NotFoundError
from kafkalog_core.findings import found
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.format.names import SEGMENT_KINDS, DirectoryState, FileKind
from kafkalog_core.kafka.releases import Release, with_log_files
from kafkalog_core.kafka.rules import RecoveryRules, recovery_rules
from kafkalog_core.ops.pool import Pool, wants_processes
from kafkalog_core.ops.reindex.partition import PartitionReindex
from kafkalog_core.ops.reindex.steps import ReindexTask, StepSpool, stage_step
from kafkalog_core.ops.repair.context import distinct_settings
from kafkalog_core.ops.repair.plan import PlanReport
from kafkalog_core.ops.repair.plan_rows import MENDED_BY_PLAN
from kafkalog_core.storage.partition import partition_name, read_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.setting_table import Setting
    from kafkalog_core.ops.reading.targets import FileTarget
    from kafkalog_core.ops.reindex.steps import ReindexReport, Step
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Stage

__all__ = ["plan_reindex", "rebuild"]

_USED: Final = ("index.interval.bytes", "segment.index.bytes", "max.message.bytes")
_MISSING: Final = {"segment.index-missing": ".index", "segment.timeindex-missing": ".timeindex"}


def plan_reindex(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """Return the planner; see `plan.Planner`. Options: `kafka`, `all`, `as_broker` and `max_batch_bytes`, or none."""
    return _Planner(request, stage, progress).plan()


class _Planner:
    def __init__(self, request: PlanRequest, stage: Stage, progress: Progress) -> None:
        self._request = request
        self._stage = stage
        self._progress = progress
        self._context = request.context()
        self._rules = _rules(self._context.release)
        self._used: list[Setting] = []
        self._other_files: list[Finding] = []
        self._refusals: list[Finding] = []

    def plan(self) -> PlanReport:
        """Stage the steps of all partitions, in their order."""
        changes = 0
        said: list[ReindexReport] = []
        tasks = list(self._tasks())
        for steps, partition_said in self._results(tasks):
            written: set[str] = set()
            for step in steps:
                is_taken = self._take(step)
                changes += is_taken
                if is_taken and step.kind != "cut":
                    written.add(step.path)
            said.append(_with_mended(partition_said(), written))
        return PlanReport(
            findings=(
                *self._other_files,
                *self._strays(tasks),
                *(finding for each in said for finding in each.findings),
            ),
            refusals=(*self._refusals, *(finding for each in said for finding in each.refusals)),
            losses=tuple(loss for each in said for loss in each.losses),
            settings=distinct_settings(self._used) if tasks else (),
            release=self._context.guess if tasks else None,
            needs_release=changes > 0 and not self._context.guess.agree(_rules),
        )

    def _strays(self, tasks: list[ReindexTask]) -> Iterator[Finding]:
        """Yield which of the partitions the broker does not keep at its next start."""
        strays = self._context.assigned_elsewhere if tasks else {}
        yield from (strays[task.path] for task in tasks if task.path in strays)

    def _take(self, step: Step) -> bool:
        """Return whether a step can be staged: a link to an index, say, is not changed."""
        try:
            stage_step(step, self._stage)
        except (AccessError, NotFoundError) as error:
            name = partition_name(os.path.dirname(step.path))
            self._refusals.append(
                found("reindex.unread", step.path, topic=name.topic, partition=name.partition, problem=error.message)
            )
            return False
        return True

    def _results(self, tasks: list[ReindexTask]) -> Iterator[tuple[Iterator[Step], Callable[[], ReindexReport]]]:
        """Yield the steps of each partition, and its report when they have been taken."""
        size_bytes = sum(_log_bytes(task) for task in tasks)
        self._progress.expect(size_bytes)
        jobs = min(self._request.jobs, len(tasks))
        if not wants_processes(jobs, len(tasks), size_bytes):
            for task in tasks:
                work = PartitionReindex(task, self._progress.advance)
                yield work.steps(), lambda work=work: work.said  # type: ignore[misc]  # mypy knows no such default
            return
        with ExitStack() as stack:
            pool = stack.enter_context(Pool(jobs, self._progress))
            for steps, said in pool.map(rebuild, [(task, pool.scratch) for task in tasks]):
                yield iter(steps), lambda said=said: said  # type: ignore[misc]

    # --- what is meant ------------------------------------------------------------------------------------------------
    def _tasks(self) -> Iterator[ReindexTask]:
        target_dir = self._request.target
        for place in target_dir.partitions:
            if place.name.state is not DirectoryState.DELETE:
                yield self._task(place.path, None)
        bases: dict[str, set[int]] = defaultdict(set)
        for target in target_dir.files:
            base_offset = self._base_offset(target)
            if base_offset is not None:
                bases[os.path.dirname(target.path)].add(base_offset)
        for path, offsets in bases.items():
            yield self._task(path, frozenset(offsets))

    def _base_offset(self, target: FileTarget) -> int | None:
        """Return that of the segment of a single file; None, with a finding, if it belongs to none."""
        name = target.file.name
        if target.kind in SEGMENT_KINDS - {FileKind.SNAPSHOT} and name.base_offset is not None:
            segments = read_partition(os.path.dirname(target.path)).segments
            if any(segment.base_offset == name.base_offset for segment in segments):
                return name.base_offset
        self._other_files.append(found("reindex.no-log", target.path, topic=target.topic, partition=target.partition))
        return None

    def _task(self, path: str, bases: frozenset[int] | None) -> ReindexTask:
        name, options = partition_name(path), self._request.options
        facts, rules = self._context.facts(name), self._rules
        names = _USED[: 2 + rules.limits_message]
        self._used += [setting for setting in facts.settings.settings if setting.name in names]
        limit = options.get("max_batch_bytes")
        return ReindexTask(
            path=path,
            bases=bases,
            facts=facts,
            rules=rules,
            writes_all=bool(options.get("all")),
            as_broker=bool(options.get("as_broker")),
            max_batch_bytes=limit if isinstance(limit, int) else MAX_BATCH_BYTES,
        )


def _with_mended(said: ReindexReport, written: set[str]) -> ReindexReport:
    """Return the report of a partition, with the plan as the cure of what is wrong with files that it writes."""
    findings = tuple(
        replace(each, cure=MENDED_BY_PLAN, next_step=None)
        if each.severity != "info" and (each.path in written or _missing_index(each) in written)
        else each
        for each in said.findings
    )
    return replace(said, findings=findings)


def _missing_index(finding: Finding) -> str | None:
    """Return the path of the index that a finding about a segment's log says is missing; None: none."""
    suffix = _MISSING.get(finding.code)
    return None if suffix is None else f"{os.path.splitext(finding.path)[0]}{suffix}"


def rebuild(task: ReindexTask, scratch: str, advance: Callable[[int], None]) -> tuple[list[Step], ReindexReport]:
    """Return the work on one partition in a process of its own; what is much goes to files in `scratch`."""
    work, spool = PartitionReindex(task, advance), StepSpool(scratch)
    steps = [spool.keep(step) for step in work.steps()]
    return steps, work.said


def _rules(release: Release) -> RecoveryRules:
    """Return the rules of a release, which can be written by; 0.7 has no indexes, as its partitions show when read.

    A control batch that the cleaner has emptied does not prevent an index, although releases before 2.0 die of it.
    """
    return replace(recovery_rules(with_log_files(release)), reads_empty_markers=True)


def _log_bytes(task: ReindexTask) -> int:
    return sum(segment.size_bytes for segment in read_partition(task.path).segments)
