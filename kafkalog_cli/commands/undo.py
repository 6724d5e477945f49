"""`kafkalog undo`: undo a run of kafkalog, list the runs, or delete their journals."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.repair import PlanOutput, locked, places_of_journal
from kafkalog_cli.commands.running import watched
from kafkalog_cli.options import common
from kafkalog_core.errors import RefusedError
from kafkalog_core.ops.repair.plan_rows import rows_of_list, rows_of_prune, rows_of_undo
from kafkalog_core.ops.repair.undo import apply_prune, apply_undo, plan_prune, plan_undo, refusal_of, scope_of
from kafkalog_core.storage.changing.journal_search import trust_problem
from kafkalog_core.storage.changing.writer import Disk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.ops.repair.undo import Scope
    from kafkalog_core.storage.changing.journal import Journal

__all__ = ["undo_command"]

EXAMPLES = (
    Example("kafkalog undo /var/lib/kafka", "Show what an undo of the last run would do"),
    Example("kafkalog undo /var/lib/kafka --apply", "Undo the last run"),
    Example("kafkalog undo /var/lib/kafka --list", "List the runs that can be undone"),
    Example("kafkalog undo /var/lib/kafka --prune --apply", "When all is well: free the space of the journals"),
)


@click.command(
    name="undo",
    cls=Command,
    own=("--apply",),
    examples=EXAMPLES,
    exit_statuses=(ExitStatus.CLEAN, ExitStatus.CRASH, ExitStatus.USAGE, ExitStatus.REFUSED),
)
@click.argument("directory", metavar="DIR", type=click.Path(readable=False))
@click.argument("also", metavar="[DIR]...", nargs=-1, type=click.Path(readable=False))
@click.option("--list", "is_list", is_flag=True, help="List the journals, and show whether a run was interrupted.")
@click.option("--prune", "is_prune", is_flag=True, help="Delete journals: their runs can no longer be undone.")
@click.option(
    "--run",
    metavar="NAME",
    help="The run, by its name in --list.  [default: the last run; with --prune: all runs that are finished or undone]",
)
@click.option(
    "--partial",
    "is_partial",
    is_flag=True,
    help=(
        "Restore the files that can be restored, and leave the others, and the files that belong to them, as they are. "
        "The message names them. The exit status is 3."
    ),
)
@click.option("--apply", "is_apply", is_flag=True, help="Apply the plan. Without this option nothing is changed.")
@common.output_option
def undo_command(
    directory: str,
    also: tuple[str, ...],
    is_list: bool,
    is_prune: bool,
    run: str | None,
    is_partial: bool,
    is_apply: bool,
    output: str,
) -> int:
    """Undo changes that kafkalog has made: bytes, owner, permissions and modification times.

    DIR is the log directory or a partition directory. A run is undone as a whole, and only if each of its files is as
    the run left it. Undo later runs on the same files first. After a broker has written to a file, the run can no
    longer be undone as a whole; --partial restores the other files. An interrupted run can be undone too. If a run can
    be neither finished nor undone, give it up with --prune and --run. The broker must be stopped.

    Anyone who can write to a log directory can write a journal there, so kafkalog changes files only below the
    directories that you name. Name more than one directory if a partition is a symbolic link (also name the directory
    that it leads to), or if --undo-to put the journal into a directory that other users can write to. The message of a
    refusal has the whole command.
    """
    if is_list and (is_prune or is_apply or is_partial or run is not None):
        raise click.UsageError("--list only lists journals; leave out --prune, --partial, --run and --apply")
    if is_prune and is_partial:
        raise click.UsageError("--prune only deletes journals; leave out --partial")
    plan_output = PlanOutput(output)
    if is_list:
        plan_output.show(rows_of_list(scope_of(directory, also)))
        return plan_output.finish()
    with ExitStack() as stack:
        if is_apply:
            scope = scope_of(directory, also)
            if not is_prune:
                journal = scope.journal(run)
                run = journal.run  # the same run, even if another one begins before the lock is held
                _check_trust(journal)
            stack.enter_context(locked(_places(scope, run)))
        stack.enter_context(watched())
        scope = scope_of(directory, also)
        if is_prune:
            _prune(scope, run, plan_output, is_apply=is_apply)
        else:
            return _undo(scope, run, plan_output, is_partial=is_partial, is_apply=is_apply)
    return plan_output.finish()


def _check_trust(journal: Journal) -> None:
    """Raise RefusedError before a lock is taken in a directory that only a journal names."""
    problem = trust_problem(journal)
    if problem is not None and journal.state not in {"undone", "pruning"}:
        raise RefusedError(problem.before_any_change())


def _undo(scope: Scope, run: str | None, plan_output: PlanOutput, *, is_partial: bool, is_apply: bool) -> int:
    plan = plan_undo(scope, run, is_partial=is_partial)
    is_done = is_apply and not plan.obstacles
    if is_done:
        apply_undo(plan, Disk())
    plan_output.show(rows_of_undo(plan, is_done=is_done))
    if plan.obstacles:
        plan_output.refuse(refusal_of(plan))
    return plan_output.finish(ExitStatus.REFUSED if is_done and plan.left else None)


def _prune(scope: Scope, run: str | None, plan_output: PlanOutput, *, is_apply: bool) -> None:
    plan = plan_prune(scope, run)
    sheet = rows_of_prune(plan, is_done=False)
    if is_apply:
        freed_bytes = sum(int(str(row["held_bytes"])) for row in sheet.journals)
        apply_prune(plan, Disk())
        sheet = rows_of_prune(plan, is_done=True, freed_bytes=freed_bytes)
    plan_output.show(sheet)


def _places(scope: Scope, run: str | None) -> Iterator[str]:
    """Yield the paths whose log directories must be locked: the named one, and those of a run (None: of every run)."""
    yield scope.root
    for journal in scope.found.journals:
        if run in {None, journal.run}:
            yield from places_of_journal(journal)
