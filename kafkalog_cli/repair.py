"""The way of a repair: from a command line to a plan, and from a plan to a changed disk."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from kafkalog_cli.command import ExitStatus, command_line
from kafkalog_cli.options.common import resolve_all
from kafkalog_cli.output_file import OutputFile
from kafkalog_cli.render.writers import PLANS, open_results
from kafkalog_cli.running import clock_ms, watched
from kafkalog_core.errors import RefusedError
from kafkalog_core.kafka.settings import SettingsRequest
from kafkalog_core.ops.reading.report import Report
from kafkalog_core.ops.reading.targets import check_topics, resolve
from kafkalog_core.ops.repair.apply import apply_plan, stage_plan
from kafkalog_core.ops.repair.context import target_dirs
from kafkalog_core.ops.repair.plan import PlanRequest, make_plan
from kafkalog_core.ops.repair.plan_file import is_plan_file, plan_file
from kafkalog_core.ops.repair.plan_rows import rows_of_plan
from kafkalog_core.storage.changing.journal_search import untrusted_places
from kafkalog_core.storage.changing.lock import LogDirLocks, lock_holder, locked_dirs, unlocked_dirs
from kafkalog_core.storage.changing.writer import Disk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_cli.options.repair import RepairOptions
    from kafkalog_core.ops.reading.selection import Selection
    from kafkalog_core.ops.repair.context import TargetDir
    from kafkalog_core.ops.repair.plan import Json, Plan, StagedPlan
    from kafkalog_core.ops.repair.plan_rows import PlanRows
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.journal import Journal

__all__ = [
    "PlanOutput",
    "apply_all",
    "locked",
    "places_of_journal",
    "run_repair",
]

_HELD_BACK: Final = "not applied, because another plan of this command is refused: kafkalog applies all of them or none"


def run_repair(
    command: str,
    paths: Sequence[str],
    selection: Selection,
    options: Mapping[str, Json],
    repair: RepairOptions,
    *,
    now_ms: int | None = None,
) -> int:
    """Plan a command for all paths, one plan for each log directory; show the plans or apply them.

    With `--apply` everything that a plan depends on is read after the locks are taken; reading before that only finds
    the log directories to lock. Nothing is written unless every plan can be applied.

    Args:
        command: the name of the command.
        paths: as the user gave them.
        selection: topics and partitions.
        options: options of the planner, as values that JSON has.
        repair: how the repair is done.
        now_ms: the time that the plans assume, in milliseconds since 1970; None: that of the clock. Journals are
            always dated by the clock.

    Returns the exit status.
    """
    targets = resolve_all(paths, selection)
    check_topics(SettingsRequest.from_json(options.get("kafka")).topics, targets)
    plan_out = None if repair.plan_out is None else OutputFile(repair.plan_out, targets, is_ours=is_plan_file)
    plan_output = PlanOutput(repair.output)
    with ExitStack() as stack:
        log_dirs = target_dirs(targets)
        places = [path for target in log_dirs for path in places_of(target)]
        if repair.apply:
            stack.enter_context(locked(places))
            log_dirs = target_dirs(resolve(paths, selection))
            _check_locked(places, log_dirs)
        else:
            _warn_of_brokers(places)
        progress = stack.enter_context(watched())
        started_ms = clock_ms()
        staged_plans: list[StagedPlan] = []
        requests = [
            PlanRequest(
                target=target,
                options=options,
                now_ms=started_ms if now_ms is None else now_ms,
                jobs=repair.jobs,
                command_line=command_line(),
            )
            for target in log_dirs
        ]
        stack.callback(_discard, staged_plans)
        staged_plans.extend(_stage(command, request, repair, started_ms, progress) for request in requests)
        if plan_out is not None:
            plan_out.write(plan_file(staged.plan for staged in staged_plans))
        if repair.apply:
            apply_all(staged_plans, plan_output, started_ms, progress)
        else:
            for staged in staged_plans:
                plan_output.show_plan(staged.plan)
    return plan_output.finish()


def _stage(command: str, request: PlanRequest, repair: RepairOptions, now_ms: int, progress: Progress) -> StagedPlan:
    where, keeps_undo = repair.undo_to, repair.keeps_undo
    if repair.apply:
        return stage_plan(
            command, request, Disk(), undo_to=where, keeps_undo=keeps_undo, now_ms=now_ms, progress=progress
        )
    return make_plan(command, request, undo_to=where, keeps_undo=keeps_undo, progress=progress)


def _discard(staged_plans: Iterable[StagedPlan]) -> None:
    """Delete the staged files of plans that were not applied."""
    for staged in staged_plans:
        staged.discard()


def apply_all(staged_plans: list[StagedPlan], plan_output: PlanOutput, now_ms: int, progress: Progress) -> None:
    """Apply all plans, or none if one is refused. The caller holds the locks.

    A plan leaves the list when its turn comes; plans that are still in the list were not applied.
    """
    refused = [staged.plan for staged in staged_plans if staged.plan.obstacles]
    if refused:
        for staged in staged_plans:
            is_held_back = staged.plan.changes and not staged.plan.obstacles
            plan_output.show_plan(replace(staged.plan, obstacles=(_HELD_BACK,)) if is_held_back else staged.plan)
        plan_output.finish(ExitStatus.REFUSED)
        raise RefusedError(f"{refused[0].obstacles[0]}; nothing has been changed")
    while staged_plans:
        staged = staged_plans.pop(0)
        if staged.plan.changes:
            journal = apply_plan(staged, Disk(), now_ms=now_ms, progress=progress)
            plan_output.show(rows_of_plan(staged.plan, journal), is_alarming=bool(staged.plan.report.refusals))
        else:
            plan_output.show_plan(staged.plan)


class PlanOutput:
    """The writer of plans, with the exit status and the summary of all of them."""

    def __init__(self, output: str) -> None:
        self._writer = open_results(PLANS, output)
        self._report = Report()
        self._is_alarming = False

    def show_plan(self, plan: Plan) -> None:
        """Show a plan that is not applied."""
        self.show(rows_of_plan(plan), is_alarming=plan.is_alarming)

    def show(self, rows: PlanRows, *, is_alarming: bool = False) -> None:
        """Show the rows of a plan. `is_alarming`: it loses data, so the exit status is 4."""
        self._is_alarming |= is_alarming
        if rows.plan["state"] == "planned":
            line = command_line()
            rows.plan["next_command"] = None if line is None else line.with_options("--apply")
        for row in rows.findings:
            self._report.add_finding(row)
        self._report.files += len(rows.changes)
        self._report.partitions += len({(row["topic"], row["partition"]) for row in rows.changes} - {(None, None)})
        self._report.rows += sum(chunk.count for chunk in rows.chunks())
        self._writer.write(rows)

    def finish(self, status: ExitStatus | None = None) -> int:
        """Show the summary; return the exit status."""
        known = ExitStatus.DAMAGE if self._is_alarming else ExitStatus.CLEAN
        result = int(known if status is None else status)
        self._writer.finish(self._report.summary_row() | {"exit_status": result})
        return result


def _warn_of_brokers(places: Iterable[str]) -> None:
    """Warn on stderr of log directories whose lock another process holds."""
    for directory in locked_dirs(places):
        holder = lock_holder(directory)
        if holder is not None:
            click.echo(
                f"kafkalog: {directory}: {holder.sentence}, holds the lock of this directory. Its files may change; "
                "this plan cannot be applied until that process has ended",
                err=True,
            )


def _check_locked(places: Iterable[str], log_dirs: Iterable[TargetDir]) -> None:
    """Raise RefusedError if a partition is now in a log directory that is not locked."""
    missing = set(locked_dirs(path for target in log_dirs for path in places_of(target))) - set(locked_dirs(places))
    if missing:
        raise RefusedError(
            "appeared while the locks were taken, so it is not locked; nothing has been changed. Run the same command "
            "again",
            path=min(missing),
        )


def places_of(target: TargetDir) -> Iterator[str]:
    """Yield the paths whose log directories must be locked."""
    yield target.root
    yield from (place.path for place in target.partitions)


def places_of_journal(journal: Journal) -> Iterator[str]:
    """Yield the paths whose log directories must be locked: where files are changed, which may be far from the journal.

    A directory that only the journal names, and that the user did not, is not locked: nothing is changed there either.
    """
    if not untrusted_places(journal):
        yield journal.layout.root
        yield from {os.path.dirname(journal.path_of(entry)) for entry in journal.entries}


@contextmanager
def locked(paths: Iterable[str]) -> Iterator[None]:
    """Hold the locks of the log directories that contain the paths, and of paths outside log directories.

    Raises LockedError or AccessError.
    """
    places = list(paths)
    with LogDirLocks(locked_dirs(places), Disk(), unlocked_dirs(places)):
        yield
