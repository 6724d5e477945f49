"""From a plan to a changed disk: stage, intent, commit. The caller holds the locks.

Full disks are the usual case, and nothing can be staged on them. With the journal on another file system (`--undo-to`)
the intent, the new content and copies of the old content are all fsynced there before the first change; the order of
the plan then frees space before anything is written next to the files.

Without old content in the journal (`--no-undo`) the intent and the new content are staged next to the files, and a run
that is interrupted is finished from them (`apply --resume`). If they do not fit, the first changes of the plan are made
directly, before the intent is written: one by one, and as few as leave enough space for the intent, or all
(`storage.changing.staging.make_directly`). They are steps of the same plan in the same order, so that a broker that
starts in between loses no more than with an intent. The same command again plans the remaining changes. It plans none
for a log that needs no deletion or truncation any more; a start then corrects the checkpointed log start offset, leader
epochs, producer snapshots, and indexes without a log (LogLoader.load).
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import KafkalogError, RefusedError, UnfinishedError
from kafkalog_core.format.names import JOURNAL_PREFIX
from kafkalog_core.ops.repair.plan import trusted_of
from kafkalog_core.ops.repair.plan_rows import ACTIONS, PlanRows, change_row, counted_changes
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.changing.changes import Change, fingerprint
from kafkalog_core.storage.changing.commit import delete_remains, finish
from kafkalog_core.storage.changing.file_states import check_new, check_resumed
from kafkalog_core.storage.changing.journal import Journal, layout_for
from kafkalog_core.storage.changing.journal_search import (
    find_journals,
    leading_directory,
    resume_command,
    trust_problem,
    undo_command,
)
from kafkalog_core.storage.changing.space import direct_count, free_bytes
from kafkalog_core.storage.changing.staging import ContentStage, JournalStage, make_directly
from kafkalog_core.structs import replace
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.command_lines import CommandLine
    from kafkalog_core.ops.repair.plan import Plan, PlanDraft
    from kafkalog_core.storage.changing.file_states import States
    from kafkalog_core.storage.changing.journal import JournalEntry
    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["apply_plan", "check_drift", "journal_stage", "replan", "resume", "rows_of_resumed"]


_SHOWN: Final = 10


def apply_plan(draft: PlanDraft, disk: Disk, *, now_ms: int, progress: Progress = NO_PROGRESS) -> Journal:
    """Make the changes of a plan, and return the journal of the run.

    Raises RefusedError, WriteError and what the planner raises while nothing has been changed, UnfinishedError after
    the first change.
    """
    plan = draft.plan
    if plan.obstacles:
        raise RefusedError(plan.obstacles[0].before_any_change())
    if not plan.changes:
        raise RefusedError("has nothing to apply; omit --apply to see the plan", path=plan.request.target.root)
    root = plan.request.target.root
    direct = 0
    if draft.staging is None:
        # Staged content that an interrupted run never put in place: nothing reads it, and its space may be needed now.
        for remains in find_journals(root).remains:
            if remains.is_new_content:
                with suppress(KafkalogError):
                    delete_remains(disk, remains)
        direct = _made_directly(draft, disk, now_ms)
    staging = draft.staging or journal_stage(plan, disk, now_ms)
    # All changes were made directly, so the journal has nothing left to do.
    if direct == len(plan.changes):
        return replace(staging.journal, state="complete")
    try:
        # Plan again if the dry run could not keep all new content in memory (KEPT_BYTES); check_drift compares the two.
        if draft.staging is None and not draft.dry_run.replay(staging, skip=direct):
            draft.planner(plan.request, staging, progress)
        check_drift(plan.changes[direct:], staging.changes, plan.request.command_line, is_begun=direct > 0)
        journal = staging.prepare()
        states = check_new(journal)
    except BaseException as error:
        # Nothing has been renamed yet, so the staged content can be dropped whole.
        staging.discard()
        if direct and isinstance(error, (KafkalogError, KeyboardInterrupt)):
            raise _unfinished_direct(plan, error, plan.changes[:direct]) from error
        raise
    return _finish(journal, disk, states)


def _made_directly(draft: PlanDraft, disk: Disk, now_ms: int) -> int:
    """Make the first changes of a run without undo, as few as free enough space for its intent. Return their number."""
    plan = draft.plan
    # Changes without a journal need their content in memory, and one file system, whose free space is then known.
    if plan.keeps_undo or not draft.dry_run.is_kept or len(plan.spaces) != 1:
        return 0
    contents = ContentStage()
    direct = plan.changes[: direct_count(plan.changes, free_bytes(plan.spaces[0].path))]
    draft.dry_run.replay(contents, most=len(direct))
    begun: list[Change] = []
    with disk.within(trusted_of(plan.request.target)):
        try:
            begun.extend(make_directly(disk, _free_run(plan, now_ms), direct, contents))
        except (KafkalogError, KeyboardInterrupt) as error:
            is_ours = not isinstance(error, RefusedError)  # otherwise another process has changed the last file
            made = [*begun[:-1], *(each for each in begun[-1:] if is_ours and fingerprint(each.path) != each.before)]
            if not made:
                raise
            raise _unfinished_direct(plan, error, list(dict.fromkeys(made))) from error
    return len(direct)


def _unfinished_direct(plan: Plan, error: BaseException, made: Sequence[Change]) -> UnfinishedError:
    """Return the error of a run that ended after some direct changes, `made`, and before any other change."""
    cause = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
    line = plan.request.command_line
    again = WayOut("when the cause is repaired, finish the plan with the same command", options="--no-undo --apply")
    if line is not None:
        again = again._replace(command=line.with_options("--no-undo", "--apply"), options=None)
    shown = ", ".join(f"{change.path} ({ACTIONS[change.kind][1]})" for change in made[:_SHOWN])
    more = f" and {len(made) - _SHOWN} more" if len(made) > _SHOWN else ""
    reason = (
        f"{cause}. {len(made)} of the {count_of(len(plan.changes), 'change')} of the plan "
        f"{'has' if len(made) == 1 else 'have'} been made, to free space for the others: {shown}{more}; nothing else "
        "has been changed"
    )
    return UnfinishedError(Refusal(reason, (again,)))


def resume(journal: Journal, disk: Disk) -> Journal:
    """Make the changes of a run that have not been made. Raises RefusedError before the first, else UnfinishedError."""
    if journal.state != "prepared":
        shown = WayOut("see every run", f"kafkalog undo {shell_path(journal.layout.root)} --list")
        reason = f"{journal.run} is {journal.state} and cannot be resumed"
        raise RefusedError(Refusal(reason, (shown,)), path=journal.layout.root)
    problem = trust_problem(journal)
    if problem is not None:
        raise RefusedError(problem)
    return _finish(journal, disk, check_resumed(journal))


def _finish(journal: Journal, disk: Disk, states: States) -> Journal:
    try:
        return finish(disk, journal, states)
    except (Exception, KeyboardInterrupt) as error:
        root, place = journal.layout.root, leading_directory(journal)
        cause = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        ways = [WayOut("when the cause is repaired, finish the run", resume_command(place, journal))]
        if journal.keeps_old:
            ways.append(WayOut("undo it", undo_command(place, journal)))
        reason = f"{cause}. Some files of {root} have been changed and others not"
        raise UnfinishedError(Refusal(reason, tuple(ways))) from error


def check_drift(
    planned: Sequence[Change], now: Sequence[Change], command_line: CommandLine | None, *, is_begun: bool = False
) -> None:
    """Raise RefusedError if a plan has other changes than the same command plans now.

    Args:
        planned: the changes of the plan.
        now: the changes that are planned now.
        command_line: the command line of the plan; None: unknown.
        is_begun: whether changes were made already, which the caller reports.
    """
    drift = _drift(planned, now)
    if drift is not None and is_begun:
        raise RefusedError(drift)
    if drift is not None:
        raise RefusedError(Refusal(drift, (replan(command_line),)).before_any_change())


def replan(command_line: CommandLine | None) -> WayOut:
    """Return the way out to plan again."""
    if command_line is None:
        return WayOut("plan again with the same options")
    return WayOut("plan again", command_line.without("--apply").with_options())


def _drift(planned: Sequence[Change], now: Sequence[Change]) -> str | None:
    for before, after in zip(planned, now, strict=False):
        if before.path != after.path:
            return f"the plan now changes {after.path} in place of {before.path}"
        if before.before != after.before:
            return f"{before.path} has changed since it was planned"
        if _result(before) != _result(after):
            return f"{before.path} would not get the planned content"
    if len(planned) != len(now):
        longer = planned if len(planned) > len(now) else now
        verb = "no longer changes" if longer is planned else "now also changes"
        return f"the plan {verb} {longer[min(len(planned), len(now))].path}"
    return None


def _result(change: Change) -> tuple[object, ...]:
    return change.kind, change.size_bytes, change.sha256, change.swap


def journal_stage(plan: Plan, disk: Disk, now_ms: int) -> JournalStage:
    """Return a stage that writes the changes of a plan into a new journal. The caller holds the locks."""
    root = plan.request.target.root
    is_log_dir = plan.request.target.log_dir is not None
    layout = layout_for(_free_run(plan, now_ms), root, plan.changes, is_log_dir=is_log_dir, undo_to=plan.undo_to)
    return JournalStage(
        layout,
        disk,
        command=plan.command,
        created_ms=now_ms,
        root=root,
        is_log_dir=is_log_dir,
        trusted=trusted_of(plan.request.target, plan.undo_to),
        keeps_old=plan.keeps_undo,
    )


def _free_run(plan: Plan, now_ms: int) -> str:
    """Return a name that no journal has yet, here or where this one is written."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    places = [place for place in (plan.request.target.root, plan.undo_to) if place is not None and os.path.isdir(place)]
    seen = [find_journals(place) for place in places]
    taken = {journal.run for found in seen for journal in found.journals}
    taken |= {remains.run for found in seen for remains in found.remains}
    names = (f"{JOURNAL_PREFIX}{moment:%Y%m%dT%H%M%SZ}-{number}" for number in count(1))
    return next(name for name in names if name not in taken)


def rows_of_resumed(root: str, journal: Journal | None) -> PlanRows:
    """Return the rows of a run that is complete now; None: there was no run to finish."""
    if journal is None:
        message = f"no run of kafkalog was interrupted in {root}"
        return PlanRows(plan={"command": "apply", "root": root, "state": "nothing", "message": message, "changes": 0})
    undo = undo_command(leading_directory(journal), journal) if journal.keeps_old else None
    back = "With --no-undo it cannot be undone" if undo is None else f"To undo it: {undo}"
    plan = {
        "command": journal.command,
        "root": root,
        "state": "applied",
        "message": f"{counted_changes([entry.kind for entry in journal.entries])} in {root}. {back}",
        "changes": len(journal.entries),
        "run": journal.run if journal.keeps_old else None,
        "undo": undo,
        "keeps_undo": journal.keeps_old,
    }
    changes = (_change(journal, entry) for entry in journal.entries)
    return PlanRows(plan=plan, changes=tuple(change_row(change, is_done=True) for change in changes))


def _change(journal: Journal, entry: JournalEntry) -> Change:
    return Change(
        kind=entry.kind,
        path=journal.path_of(entry),
        before=entry.before,
        size_bytes=None if entry.after is None else entry.after.size_bytes,
        sha256=None if entry.after is None or entry.kind == "cut" else entry.after.sha256,
        why=entry.why,
    )
