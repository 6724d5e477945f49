"""From a plan to a changed disk: stage, intent, commit. The caller holds the locks.

Full disks are the usual case, and nothing can be staged on them. With the journal on another file system (`--undo-to`)
all of it, the intent, the new content and copies of the old content, is fsynced there before the first change; the
order of the plan then frees space before anything is written next to the files.

Without a journal of old content (`--no-undo`) the intent and the new content are staged next to the files, and a run
that dies is finished from them (`apply --resume`). Where they do not fit, the first changes of the plan are made
directly, before the intent is written: one by one, and as few as leave enough space for it, or all
(`storage.changing.staging.make_directly`). They are steps of the same plan in the same order, so that a broker that
starts in between loses no more than with an intent. The same command again plans what is left to do. What it does not
plan where nothing of a log is left to delete or cut, a start corrects: the checkpointed log start, leader epochs,
snapshots, and indexes whose log is gone (`ops.retain.staging`, `ops.truncate.staging`).
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import KafkalogError, RefusedError, UnfinishedError
from kafkalog_core.format.names import JOURNAL_PREFIX
from kafkalog_core.ops.repair.obstacles import trust_problem
from kafkalog_core.ops.repair.plan import Plan, PlanReport, StagedPlan, make_plan, obstacles_of, planner_of
from kafkalog_core.ops.repair.plan_rows import PlanRows, change_row, counted_changes
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.storage.changing.changes import Change, fingerprint
from kafkalog_core.storage.changing.commit import delete_remains, finish
from kafkalog_core.storage.changing.file_states import check_new, check_resumed
from kafkalog_core.storage.changing.journal import Journal, layout_for
from kafkalog_core.storage.changing.journal_search import (
    find_journals,
    leading_directory,
    real_path,
    resume_command,
    undo_command,
)
from kafkalog_core.storage.changing.space import direct_count, existing_directory, free_bytes, spaces_for
from kafkalog_core.storage.changing.staging import ContentStage, JournalStage, make_directly
from kafkalog_core.storage.changing.trusted import TrustedDirectories
from kafkalog_core.storage.changing.writer import WriteError
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.command_lines import CommandLine
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.ops.repair.plan_file import StoredPlan
    from kafkalog_core.storage.changing.file_states import States
    from kafkalog_core.storage.changing.journal import JournalEntry
    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["apply_plan", "check_drift", "is_of_plan", "replan_advice", "resume", "rows_of_resumed", "stage_plan"]


_MADE_ONCE: Final = {"compact": "kafkalog_core.ops.compact.planning:compacted_bytes"}
"""Commands that take long to make what they write, and the function for the bytes that they read for it."""
_ROOM: Final = 3
"""Times that size must be free if the size of the result is not known yet: v0 messages grow as v2."""
_SHOWN: Final = 10
_SPARE_BYTES: Final = 64 * 1024 * 1024


def stage_plan(
    command: str,
    request: PlanRequest,
    disk: Disk,
    *,
    undo_to: str | None,
    keeps_undo: bool = True,
    now_ms: int,
    progress: Progress,
) -> StagedPlan:
    """Return a plan that is about to be applied. The locks are held.

    What takes long to make is written next to the journal at once, where no broker looks, if there is room for it
    beyond doubt; else it is made twice, to be counted and hashed before anything is written. The caller applies the
    draft or discards it. Raises what `make_plan` raises.
    """
    if command in _MADE_ONCE and _has_room(command, request, undo_to):
        empty = Plan(
            command=command, request=request, changes=(), report=PlanReport(), undo_to=undo_to, keeps_undo=keeps_undo
        )
        draft = _staged(empty, disk, now_ms=now_ms, progress=progress)
        if draft is not None:
            return draft
    return make_plan(command, request, undo_to=undo_to, keeps_undo=keeps_undo, progress=progress)


def _has_room(command: str, request: PlanRequest, undo_to: str | None) -> bool:
    """Return whether there is room for whatever a command may make of the logs."""
    module, _, name = _MADE_ONCE[command].partition(":")
    wanted = _SPARE_BYTES + _ROOM * getattr(import_module(module), name)(request)
    return all(free_bytes(place) >= wanted for place in _places(request, undo_to))


def _places(request: PlanRequest, undo_to: str | None) -> list[str]:
    """Return a directory on each file system that a run writes to."""
    return [request.target.root, *([] if undo_to is None else [existing_directory(undo_to)])]


def _staged(empty: Plan, disk: Disk, *, now_ms: int, progress: Progress) -> StagedPlan | None:
    """Return a draft of an empty plan whose changes are staged; None: `make_plan` shows why it cannot be staged."""
    command, request, undo_to = empty.command, empty.request, empty.undo_to
    if obstacles_of(empty):
        return None
    free = {os.stat(place).st_dev: free_bytes(place) for place in _places(request, undo_to)}
    staging = _staging(empty, disk, now_ms)
    try:
        report = planner_of(command)(request, staging, progress)
        changes = tuple(staging.changes)
        spaces = (
            replace(space, free_bytes=free.get(os.stat(space.path).st_dev, space.free_bytes))
            for space in spaces_for(changes, undo_to, keeps_old=empty.keeps_undo)
        )
        plan = replace(empty, report=report, changes=changes, spaces=tuple(spaces))
        plan = replace(plan, obstacles=obstacles_of(plan))
    except WriteError:
        staging.discard()
        return None
    except BaseException:
        staging.discard()
        raise
    if plan.obstacles or not changes:
        staging.discard()
        return StagedPlan(plan, staging)
    return StagedPlan(plan, staging, staging)


def apply_plan(draft: StagedPlan, disk: Disk, *, now_ms: int, progress: Progress = NO_PROGRESS) -> Journal:
    """Make the changes of a plan; the journal of it.

    Raises RefusedError, WriteError and what the planner raises while nothing has been changed, UnfinishedError once
    something has.
    """
    plan = draft.plan
    if plan.obstacles:
        raise RefusedError(f"{plan.obstacles[0]}; nothing has been changed")
    if not plan.changes:
        raise RefusedError("has nothing to apply: leave --apply out to see the plan", path=plan.request.target.root)
    root = plan.request.target.root
    direct = 0
    if draft.staging is None:
        for remains in find_journals(root).remains:
            if remains.is_new_content:
                with suppress(KafkalogError):
                    delete_remains(disk, remains)
        direct = _made_directly(draft, disk, now_ms)
    staging = draft.staging or _staging(plan, disk, now_ms)
    if direct == len(plan.changes):
        return replace(staging.journal, state="complete")
    try:
        if draft.staging is None and not draft.dry_run.replay(staging, skip=direct):
            planner_of(plan.command)(plan.request, staging, progress)
        check_drift(plan.changes[direct:], staging.changes, plan.request.command_line, is_begun=direct > 0)
        journal = staging.prepare()
        states = check_new(journal)
    except BaseException as error:
        staging.discard()
        if direct and isinstance(error, (KafkalogError, KeyboardInterrupt)):
            raise _unfinished_direct(plan, error, plan.changes[:direct]) from error
        raise
    return _finish(journal, disk, states)


def _made_directly(draft: StagedPlan, disk: Disk, now_ms: int) -> int:
    """Make the first changes of a run that keeps nothing, as few as its intent needs room; how many."""
    plan = draft.plan
    if plan.keeps_undo or not draft.dry_run.is_kept or len(plan.spaces) != 1:
        return 0
    root, contents = plan.request.target.root, ContentStage()
    direct = plan.changes[: direct_count(plan.changes, free_bytes(plan.spaces[0].path))]
    draft.dry_run.replay(contents, most=len(direct))
    begun: list[Change] = []
    with disk.within(_trusted(root, None)):
        try:
            begun.extend(make_directly(disk, _free_run(plan, now_ms), direct, contents))
        except (KafkalogError, KeyboardInterrupt) as error:
            is_ours = not isinstance(error, RefusedError)  # else somebody else has changed the last one
            made = [*begun[:-1], *(each for each in begun[-1:] if is_ours and fingerprint(each.path) != each.before)]
            if not made:
                raise
            raise _unfinished_direct(plan, error, list(dict.fromkeys(made))) from error
    return len(direct)


def _unfinished_direct(plan: Plan, error: BaseException, made: Sequence[Change]) -> UnfinishedError:
    """Return the error of a run that ended after some direct changes, `made`; none of the others is made."""
    cause = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
    line = plan.request.command_line
    again = f"the same kafkalog {plan.command}" if line is None else line.with_options("--no-undo", "--apply")
    shown = ", ".join(f"{change.path} ({change.kind})" for change in made[:_SHOWN])
    more = f" and {len(made) - _SHOWN} more" if len(made) > _SHOWN else ""
    return UnfinishedError(
        f"{cause}. {len(made)} of the {count_of(len(plan.changes), 'change')} of the plan "
        f"{'has' if len(made) == 1 else 'have'} been made, to free space for the others: {shown}{more}; nothing else "
        f"has been changed. When the cause is mended, run this again to do what is left: {again}"
    )


def resume(journal: Journal, disk: Disk) -> Journal:
    """Make the changes of a run that have not been made. Raises RefusedError before the first, else UnfinishedError."""
    if journal.state != "prepared":
        raise RefusedError(
            f"{journal.run} is {journal.state} and cannot be resumed. To see every run: kafkalog undo "
            f"{shell_path(journal.layout.root)} --list",
            path=journal.layout.root,
        )
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
        back = f" or take it back ({undo_command(place, journal)})" if journal.keeps_old else ""
        raise UnfinishedError(
            f"{cause}. Some files of {root} have been changed and some not: when the cause is mended, finish it "
            f"({resume_command(place, journal)}){back}"
        ) from error


def check_drift(
    planned: Sequence[Change], now: Sequence[Change], command_line: CommandLine | None, *, is_begun: bool = False
) -> None:
    """Raise RefusedError where a plan is not what would be planned now.

    Args:
        planned: the changes of the plan.
        now: what would be planned now.
        command_line: what the plan was made with.
        is_begun: whether changes were made already, which the caller reports.
    """
    drift = _drift(planned, now)
    if drift is not None and is_begun:
        raise RefusedError(drift)
    if drift is not None:
        raise RefusedError(f"{drift}; nothing has been changed. {replan_advice(command_line)}")


def replan_advice(command_line: CommandLine | None) -> str:
    """Return the sentence that names the command which makes a plan again."""
    if command_line is None:
        return "Make a new plan with the same options"
    return f"Make a new plan: {command_line.without('--apply')}"


def _drift(planned: Sequence[Change], now: Sequence[Change]) -> str | None:
    for before, after in zip(planned, now, strict=False):
        if before.path != after.path:
            return f"{after.path} would be changed now, where {before.path} was planned"
        if before.before != after.before:
            return f"{before.path} is not the file any more that was planned with"
        if _result(before) != _result(after):
            return f"{before.path} would not become what was planned"
    if len(planned) != len(now):
        longer = planned if len(planned) > len(now) else now
        verb = "was to be changed and is not any more" if longer is planned else "would be changed now too"
        return f"{longer[min(len(planned), len(now))].path} {verb}"
    return None


def _result(change: Change) -> tuple[object, ...]:
    return change.kind, change.size_bytes, change.sha256, change.swap


def _staging(plan: Plan, disk: Disk, now_ms: int) -> JournalStage:
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
        trusted=_trusted(root, plan.undo_to),
        keeps_old=plan.keeps_undo,
    )


def _trusted(root: str, undo_to: str | None) -> TrustedDirectories:
    """Return what the user named: links in the log directory have been followed already when the plan was made."""
    named = [root]
    if undo_to is not None:
        while not os.path.isdir(undo_to):
            undo_to = os.path.dirname(undo_to)
        named.append(undo_to)
    return TrustedDirectories(named, follows_links=True)


def _free_run(plan: Plan, now_ms: int) -> str:
    """Return a name that no journal has yet, here or where this one is written."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    places = [place for place in (plan.request.target.root, plan.undo_to) if place is not None and os.path.isdir(place)]
    seen = [find_journals(place) for place in places]
    taken = {journal.run for found in seen for journal in found.journals}
    taken |= {remains.run for found in seen for remains in found.remains}
    names = (f"{JOURNAL_PREFIX}{moment:%Y%m%dT%H%M%SZ}-{number}" for number in count(1))
    return next(name for name in names if name not in taken)


def is_of_plan(journal: Journal, plan: StoredPlan) -> bool:
    """Return whether a run made, or began to make, exactly the changes of a plan."""
    made = [(entry.kind, real_path(journal.path_of(entry)), entry.before) for entry in journal.entries]
    planned = [(change.kind, real_path(change.path), change.before) for change in plan.changes]
    return journal.command == plan.command and made == planned and journal.state in {"prepared", "complete"}


def rows_of_resumed(root: str, journal: Journal | None) -> PlanRows:
    """Return a run that is complete now; None: there was none to be finished."""
    if journal is None:
        message = f"no run of kafkalog was interrupted in {root}"
        return PlanRows(plan={"command": "apply", "root": root, "state": "nothing", "message": message, "changes": 0})
    undo = undo_command(leading_directory(journal), journal) if journal.keeps_old else None
    back = "With --no-undo nothing is kept to take it back" if undo is None else f"Take it back: {undo}"
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
