"""`kafkalog apply`: carry out a plan that was made before, or finish a run that was interrupted."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.options import common
from kafkalog_cli.repair import Showing, apply_all, locked, places_of_journal
from kafkalog_cli.running import clock_ms, cores, watched
from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import FieldError, RefusedError
from kafkalog_core.ops.repair.apply import check_drift, is_of_plan, replan_advice, resume, rows_of_resumed
from kafkalog_core.ops.repair.plan import make_plan
from kafkalog_core.ops.repair.plan_file import parse_plans
from kafkalog_core.ops.repair.undo import scope_of
from kafkalog_core.storage.changing.journal_search import leading_directory, undo_command
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.source import open_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.ops.repair.plan import StagedPlan
    from kafkalog_core.ops.repair.plan_file import StoredPlan
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.journal import Journal

__all__ = ["apply_command"]

_SUPERUSER = 0

EXAMPLES = (
    Example("kafkalog apply plan.json", "Do what kafkalog reindex --plan-out plan.json has planned"),
    Example("kafkalog apply --resume /var/lib/kafka", "Finish what was interrupted"),
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
        "Finish a run that was interrupted, from its journal. FILE may then also be the log directory or the "
        "partition, and more directories after it as for kafkalog undo; with a plan whose run had not begun, it is "
        "carried out."
    ),
)
@common.jobs_option
@common.output_option
def apply_command(path: str, also: tuple[str, ...], is_resume: bool, jobs: int | None, output: str | None) -> int:
    """Carry out a plan.

    FILE is what --plan-out of a repairing command wrote. The disk is read and planned anew, and nothing is changed
    unless the very same changes come out, to the hash. The broker must be stopped. What was done can be taken back with
    kafkalog undo.
    """
    if also and not is_resume:
        raise click.UsageError("name one FILE; directories are named with --resume")
    showing = Showing(common.chosen_output(output))
    if os.path.isdir(path):
        if not is_resume:
            raise click.UsageError(f"{path} is a directory; name a plan, or say --resume to finish an interrupted run")
        _resume_directory(path, also, showing)
        return showing.finish()
    plans = _read(path)
    with ExitStack() as stack:
        stack.enter_context(locked(place for plan in plans for place in (plan.root, *plan.paths)))
        progress = stack.enter_context(watched())
        if is_resume:
            plans = [plan for plan in plans if not _resume_plan(plan, also, showing)]
        _carry_out(plans, showing, progress, jobs or cores())
    return showing.finish()


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
    """Raises RefusedError where root would carry out what another user has written, who is not the one at work here."""
    trusted = {str(_SUPERUSER), os.environ.get("SUDO_UID")}
    if os.geteuid() == _SUPERUSER and str(owner) not in trusted:
        name = shell_path(path)
        raise RefusedError(
            f"belongs to user {owner}, who would decide what root changes; nothing has been changed. Read the plan, "
            f"and if it is right: chown root {name} && kafkalog apply {name}",
            path=path,
        )


def _planned(stored: StoredPlan, jobs: int, progress: Progress) -> StagedPlan:
    """The plan made again; options that no command line gives are those of a file that somebody has changed."""
    try:
        return make_plan(
            stored.command,
            stored.request(jobs),
            undo_to=stored.undo_to,
            keeps_undo=stored.keeps_undo,
            progress=progress,
        )
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise RefusedError(
            f"the options of the plan are not those of kafkalog {stored.command}; nothing has been changed. "
            f"{replan_advice(stored.command_line)}",
            path=stored.root,
        ) from error


def _carry_out(plans: Sequence[StoredPlan], showing: Showing, progress: Progress, jobs: int) -> None:
    drafts = []
    for stored in plans:
        draft = _planned(stored, jobs, progress)
        check_drift(stored.changes, draft.plan.changes, stored.command_line)
        drafts.append(draft)
    apply_all(drafts, showing, clock_ms(), progress)


def _resume_directory(path: str, also: Sequence[str], showing: Showing) -> None:
    with ExitStack() as stack:
        scope = scope_of(path, also)
        runs = {journal.run for journal in scope.interrupted()}
        places = [place for journal in scope.interrupted() for place in places_of_journal(journal)]
        stack.enter_context(locked([scope.root, *places]))
        stack.enter_context(watched())
        journals = [journal for journal in scope_of(path, also).interrupted() if journal.run in runs]
        for journal in journals:
            _finish(journal, showing)
        if not journals:
            scope.check_readable()
            showing.show(rows_of_resumed(scope.root, None))


def _resume_plan(plan: StoredPlan, also: Sequence[str], showing: Showing) -> bool:
    """Whether a run of the plan was there: finished by now, or finished here."""
    for journal in reversed(scope_of(plan.root, also).found.journals):
        if is_of_plan(journal, plan):
            if journal.state == "complete":
                showing.show(rows_of_resumed(plan.root, journal))
                return True
            if journal.is_interrupted:
                _finish(journal, showing)
                return True
    return False


def _finish(journal: Journal, showing: Showing) -> None:
    if journal.state == "undoing":
        raise RefusedError(
            f"the undo of {journal.run} was interrupted. To finish it: "
            f"{undo_command(leading_directory(journal), journal)}",
            path=journal.layout.root,
        )
    showing.show(rows_of_resumed(journal.layout.root, resume(journal, Disk())))
