"""`kafkalog reindex`: offset, time and transaction indexes, producer snapshots and leader epochs, rebuilt from logs.

Each partition's logs are read once, and the files of their segments are compared on the way. What is missing or wrong
is written as the broker's recovery would write it, with the settings in force. What is correct is kept, even if a
recovery would write it differently, unless all files are requested.

`partition` replays one partition; this module is the planner of all of them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.pool import wants_processes
from kafkalog_core.engine.spool import sent
from kafkalog_core.errors import AccessError, NotFoundError
from kafkalog_core.findings import found
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.format.names import SEGMENT_KINDS, DirectoryState, FileKind
from kafkalog_core.ops.reindex.partition import PartitionReindex, rebuild, rules_of_indexes, with_repaired
from kafkalog_core.ops.reindex.steps import (
    ReindexReport,
    ReindexTask,
    Step,
    stage_step,
)
from kafkalog_core.ops.repair.context import distinct_settings
from kafkalog_core.ops.repair.plan import PlanReport
from kafkalog_core.storage.partition import partition_name, read_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.engine.targets import FileTarget
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.rules.setting_table import Setting
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Stage

__all__ = ["plan_reindex"]


_USED: Final = ("index.interval.bytes", "segment.index.bytes", "max.message.bytes")


def plan_reindex(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """Plan `kafkalog reindex`: stage the changes and return the report.

    Options, each optional: `kafka` (of a SettingsRequest), `all`, `as_broker` and `max_batch_bytes`.
    """
    return _Planner(request, stage, progress).plan()


class _Planner:
    def __init__(self, request: PlanRequest, stage: Stage, progress: Progress) -> None:
        self._request = request
        self._stage = stage
        self._progress = progress
        self._context = request.context()
        self._rules = rules_of_indexes(self._context.release)
        self._used: list[Setting] = []
        self._other_files: list[Finding] = []
        self._refusals: list[Finding] = []

    def plan(self) -> PlanReport:
        """Stage the steps of all partitions, in their order."""
        changes = 0
        reports: list[ReindexReport] = []
        tasks = list(self._tasks())
        for steps, report_of in self._results(tasks):
            written: set[str] = set()
            for step in steps:
                is_taken = self._take(step)
                changes += is_taken
                # A cut removes bytes and repairs no finding about the file.
                if is_taken and step.kind != "cut":
                    written.add(step.path)
            reports.append(with_repaired(report_of(), written))
        return PlanReport(
            findings=(
                *self._other_files,
                *self._strays(tasks),
                *(finding for each in reports for finding in each.findings),
            ),
            refusals=(*self._refusals, *(finding for each in reports for finding in each.refusals)),
            losses=tuple(loss for each in reports for loss in each.losses),
            settings=distinct_settings(self._used) if tasks else (),
            release=self._context.guess if tasks else None,
            needs_release=changes > 0 and not self._context.guess.agree(rules_of_indexes),
        )

    def _strays(self, tasks: list[ReindexTask]) -> Iterator[Finding]:
        """Yield a finding for each partition that the broker does not keep at its next start."""
        strays = self._context.assigned_elsewhere if tasks else {}
        yield from (strays[task.path] for task in tasks if task.path in strays)

    def _take(self, step: Step) -> bool:
        """Stage a step; return whether that is possible: a symbolic link to an index is not changed."""
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
        """Yield the steps of each partition, and a function that returns its report once they are staged."""
        size_bytes = sum(_log_bytes(task) for task in tasks)
        self._progress.expect(size_bytes)
        jobs = min(self._request.jobs, len(tasks))
        if not wants_processes(jobs, len(tasks), size_bytes):
            for task in tasks:
                # `work` by default argument: the lambda is called after the loop has gone on.
                work = PartitionReindex(task, self._progress.advance)
                yield work.steps(), lambda work=work: work.report  # type: ignore[misc]  # mypy knows no such default
            return
        from kafkalog_core.engine.processes import Pool  # noqa: PLC0415 -- most runs start none

        with Pool(jobs, self._progress) as pool:
            for output in pool.outputs(rebuild, [(task,) for task in tasks]):
                yield sent(output), output.result

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
        """Return the base offset of the segment of a single file; None, with a finding, if it belongs to no segment."""
        name = target.file.name
        if target.kind in SEGMENT_KINDS - {FileKind.SNAPSHOT} and name.base_offset is not None:
            # Resolved through the partition: a `.index` without its `.log` has no segment that could be indexed
            # (LogLoader.loadSegmentFiles deletes it).
            segments = read_partition(os.path.dirname(target.path)).segments
            if any(segment.base_offset == name.base_offset for segment in segments):
                return name.base_offset
        self._other_files.append(found("reindex.no-log", target.path, topic=target.topic, partition=target.partition))
        return None

    def _task(self, path: str, bases: frozenset[int] | None) -> ReindexTask:
        name, options = partition_name(path), self._request.options
        facts, rules = self._context.facts(name), self._rules
        # max.message.bytes limits a recovery up to 0.10.2 only.
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


def _log_bytes(task: ReindexTask) -> int:
    return sum(segment.size_bytes for segment in read_partition(task.path).segments)
