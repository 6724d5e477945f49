"""`kafkalog apply`: apply a plan from a file, or finish a run that was interrupted."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.repair import PlanOutput, apply_all, locked, places_of_journal
from kafkalog_cli.commands.running import clock_ms, cores, watched
from kafkalog_cli.options import common
from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import FieldError, RefusedError
from kafkalog_core.ops.planners import is_of_plan, make_plan, parse_plans
from kafkalog_core.ops.repair.apply import check_drift, replan, resume, rows_of_resumed
from kafkalog_core.ops.repair.undo import scope_of
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.access import open_error
from kafkalog_core.storage.changing.journal_search import leading_directory, undo_command
from kafkalog_core.storage.changing.writer import SUPERUSER, Disk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.ops.planners import StoredPlan
    from kafkalog_core.ops.repair.plan import PlanDraft
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.journal import Journal

__all__ = ["apply_command"]

EXAMPLES = (
    Example("kafkalog apply plan.json", "Apply the plan that kafkalog reindex --plan-out plan.json has written"),
    Example("kafkalog apply --resume /var/lib/kafka", "Finish a run that was interrupted"),
)


@click.command(
    name="apply",
    cls=Command,
    examples=EXAMPLES,
    exit_statuses=tuple(ExitStatus),
)
@click.argument("path", metavar="FILE", type=click.Path(readable=False))
@click.argument("also", metavar="[DIR]...", nargs=-1, type=click.Path(readable=False))
@click.option(
    "--resume",
    "is_resume",
    is_flag=True,
    help=(
        "Finish a run that was interrupted, from its journal. FILE may then be a plan, the log directory or the "
        "partition directory, followed by more directories as for kafkalog undo. A plan whose run had not begun is "
        "applied."
    ),
)
@common.jobs_option
@common.output_option
def apply_command(path: str, also: tuple[str, ...], is_resume: bool, jobs: int | None, output: str) -> int:
    """Apply a plan.

    FILE is a plan that a repair command wrote with --plan-out. kafkalog reads the disk and makes the plan again; it
    changes nothing unless the new plan has the same changes, to the hash of each file. The broker must be stopped.
    kafkalog undo can undo the changes.
    """
    if also and not is_resume:
        raise click.UsageError("give one FILE; several directories are only for --resume")
    plan_output = PlanOutput(output)
    if os.path.isdir(path):
        if not is_resume:
            raise click.UsageError(f"{path} is a directory; name a plan, or add --resume to finish an interrupted run")
        _resume_directory(path, also, plan_output)
        return plan_output.finish()
    plans = _read(path)
    with ExitStack() as stack:
        stack.enter_context(locked(place for plan in plans for place in (plan.root, *plan.paths)))
        progress = stack.enter_context(watched())
        if is_resume:
            plans = [plan for plan in plans if not _resume_plan(plan, also, plan_output)]
        _carry_out(plans, plan_output, progress, jobs or cores())
    return plan_output.finish()


def _read(path: str) -> list[StoredPlan]:
    try:
        with open(path, "rb") as file:
            _check_owner(path, os.fstat(file.fileno()).st_uid)
            return parse_plans(file.read())
    except OSError as error:
        raise open_error(path, error) from error
    except FieldError as error:
        raise FieldError(error.message, path=path) from error


def _check_owner(path: str, owner: int) -> None:
    """Raise RefusedError if root would apply a plan that another user wrote, unless that user ran sudo."""
    trusted = {str(SUPERUSER), os.environ.get("SUDO_UID")}
    if os.geteuid() == SUPERUSER and str(owner) not in trusted:
        name = shell_path(path)
        take = WayOut("read the plan, and if it is right, take it", f"chown root {name} && kafkalog apply {name}")
        reason = f"belongs to user {owner}, who would decide what root changes"
        raise RefusedError(Refusal(reason, (take,)).before_any_change(), path=path)


def _planned(stored: StoredPlan, jobs: int, progress: Progress) -> PlanDraft:
    """Plan the command of a stored plan again. Options that no command line gives mean that the file was edited."""
    try:
        return make_plan(
            stored.command,
            stored.request(jobs),
            undo_to=stored.undo_to,
            keeps_undo=stored.keeps_undo,
            progress=progress,
        )
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        reason = f"the plan has options that kafkalog {stored.command} does not have"
        refusal = Refusal(reason, (replan(stored.command_line),)).before_any_change()
        raise RefusedError(refusal, path=stored.root) from error


def _carry_out(plans: Sequence[StoredPlan], plan_output: PlanOutput, progress: Progress, jobs: int) -> None:
    drafts = []
    for stored in plans:
        draft = _planned(stored, jobs, progress)
        check_drift(stored.changes, draft.plan.changes, stored.command_line)
        drafts.append(draft)
    apply_all(drafts, plan_output, clock_ms(), progress)


def _resume_directory(path: str, also: Sequence[str], plan_output: PlanOutput) -> None:
    with ExitStack() as stack:
        scope = scope_of(path, also)
        runs = {journal.run for journal in scope.interrupted()}
        places = [place for journal in scope.interrupted() for place in places_of_journal(journal)]
        stack.enter_context(locked([scope.root, *places]))
        stack.enter_context(watched())
        journals = [journal for journal in scope_of(path, also).interrupted() if journal.run in runs]
        for journal in journals:
            _finish(journal, plan_output)
        if not journals:
            scope.check_readable()
            plan_output.show(rows_of_resumed(scope.root, None))


def _resume_plan(plan: StoredPlan, also: Sequence[str], plan_output: PlanOutput) -> bool:
    """Finish the run of a plan if it was interrupted. Return whether the plan has a run, finished or not."""
    for journal in reversed(scope_of(plan.root, also).found.journals):
        if is_of_plan(journal, plan):
            if journal.state == "complete":
                plan_output.show(rows_of_resumed(plan.root, journal))
                return True
            if journal.is_interrupted:
                _finish(journal, plan_output)
                return True
    return False


def _finish(journal: Journal, plan_output: PlanOutput) -> None:
    if journal.state == "undoing":
        finish = WayOut("finish it", undo_command(leading_directory(journal), journal))
        reason = f"the undo of {journal.run} was interrupted"
        raise RefusedError(Refusal(reason, (finish,)), path=journal.layout.root)
    plan_output.show(rows_of_resumed(journal.layout.root, resume(journal, Disk())))
