"""From a plan to a changed disk: stage, intent, commit. The locks are held by whoever calls this."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import RefusedError, UnfinishedError
from kafkalog_core.format.names import JOURNAL_PREFIX
from kafkalog_core.ops.plans.obstacles import obstacles_of, resume_command, undo_command
from kafkalog_core.ops.plans.plan import Draft, Outcome, Plan, make_plan, planner_of
from kafkalog_core.ops.progress import NO_PROGRESS, Progress
from kafkalog_core.storage.changing.commit import check_new, finish
from kafkalog_core.storage.changing.journal import Journal, layout_for
from kafkalog_core.storage.changing.journals import find_journals
from kafkalog_core.storage.changing.space import free_bytes, spaces_for
from kafkalog_core.storage.changing.staging import Staging
from kafkalog_core.storage.changing.writer import WriteError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.ops.plans.plan import PlanRequest
    from kafkalog_core.storage.changing.changes import Change
    from kafkalog_core.storage.changing.commit import States
    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["apply_draft", "check_drift", "draft_to_apply", "resume"]

_MADE_ONCE: Final = {"compact": "kafkalog_core.ops.cleaning.planning:compacted_bytes"}
"""Commands that take long to make what they write, and what tells the bytes that they make it of."""
_ROOM: Final = 3
"""So many times that must be free where it is not known yet how much comes of it: v0 messages grow as v2."""
_SPARE_BYTES: Final = 64 * 1024 * 1024


def draft_to_apply(
    command: str, request: PlanRequest, disk: Disk, *, undo_to: str | None, now_ms: int, progress: Progress
) -> Draft:
    """A plan that is about to be applied. The locks are held.

    What takes long to be made is laid down beside the journal at once, where no broker looks, if there is room for it
    beyond doubt; else it is made twice, to be counted and hashed before anything is written. The caller applies the
    draft or discards it. Raises what `make_plan` raises.
    """
    if command in _MADE_ONCE and _has_room(command, request, undo_to):
        draft = _staged(command, request, disk, undo_to=undo_to, now_ms=now_ms, progress=progress)
        if draft is not None:
            return draft
    return make_plan(command, request, undo_to=undo_to, progress=progress)


def _has_room(command: str, request: PlanRequest, undo_to: str | None) -> bool:
    """Whether there is room for whatever a command may make of the logs."""
    if undo_to is not None and not os.path.isdir(undo_to):
        return False
    module, _, name = _MADE_ONCE[command].partition(":")
    wanted = _SPARE_BYTES + _ROOM * getattr(import_module(module), name)(request)
    return all(free_bytes(place) >= wanted for place in (request.site.root, undo_to) if place is not None)


def _staged(
    command: str, request: PlanRequest, disk: Disk, *, undo_to: str | None, now_ms: int, progress: Progress
) -> Draft | None:
    """A draft whose changes are staged; null: that cannot be done, and making a plan tells why."""
    empty = Plan(command=command, request=request, changes=(), outcome=Outcome(), undo_to=undo_to)
    if obstacles_of(empty):
        return None
    free = {os.stat(place).st_dev: free_bytes(place) for place in (request.site.root, undo_to) if place is not None}
    staging = _staging(empty, disk, now_ms)
    try:
        outcome = planner_of(command)(request, staging, progress)
        changes = tuple(staging.changes)
        spaces = (
            replace(space, free_bytes=free.get(os.stat(space.path).st_dev, space.free_bytes))
            for space in spaces_for(changes, undo_to)
        )
        plan = replace(empty, outcome=outcome, changes=changes, spaces=tuple(spaces))
        plan = replace(plan, obstacles=obstacles_of(plan))
    except WriteError:
        staging.discard()
        return None
    except BaseException:
        staging.discard()
        raise
    if plan.obstacles or not changes:
        staging.discard()
        return Draft(plan, staging)
    return Draft(plan, staging, staging)


def apply_draft(draft: Draft, disk: Disk, *, now_ms: int, progress: Progress = NO_PROGRESS) -> Journal:
    """Make the changes of a plan; the journal of it.

    Raises RefusedError, WriteError and what the planner raises while nothing has been changed, UnfinishedError once
    something has.
    """
    plan = draft.plan
    if plan.obstacles:
        raise RefusedError(f"{plan.obstacles[0]}; nothing has been changed")
    if not plan.changes:
        raise RefusedError("there is nothing to be done", path=plan.request.site.root)
    staging = draft.staging or _staging(plan, disk, now_ms)
    try:
        if draft.staging is None and not draft.outline.replay(staging):
            planner_of(plan.command)(plan.request, staging, progress)
        check_drift(plan.changes, staging.changes)
        journal = staging.prepare()
        states = check_new(journal)
    except BaseException:
        staging.discard()
        raise
    return _finish(journal, disk, states)


def resume(journal: Journal, disk: Disk) -> Journal:
    """Make the changes of a run that have not been made. Raises RefusedError before the first, else UnfinishedError."""
    if journal.state != "prepared":
        raise RefusedError(f"{journal.run} is {journal.state}, and cannot be resumed", path=journal.layout.root)
    return _finish(journal, disk, check_new(journal))


def _finish(journal: Journal, disk: Disk, states: States) -> Journal:
    try:
        return finish(disk, journal, states)
    except (Exception, KeyboardInterrupt) as error:
        root = journal.layout.root
        cause = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        raise UnfinishedError(
            f"{cause}. Some files of {root} have been changed and some not: when the cause is mended, finish it "
            f"({resume_command(root)}) or take it back ({undo_command(root, journal.run)})"
        ) from error


def check_drift(planned: Sequence[Change], now: Sequence[Change]) -> None:
    """Raises RefusedError where something of a plan is no longer so."""
    drift = _drift(planned, now)
    if drift is not None:
        raise RefusedError(f"{drift}; nothing has been changed. Make the plan anew")


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


def _staging(plan: Plan, disk: Disk, now_ms: int) -> Staging:
    root = plan.request.site.root
    is_log_dir = plan.request.site.log_dir is not None
    layout = layout_for(_free_run(plan, now_ms), root, plan.changes, is_log_dir=is_log_dir, undo_to=plan.undo_to)
    return Staging(layout, disk, command=plan.command, created_ms=now_ms, site_root=root, is_log_dir=is_log_dir)


def _free_run(plan: Plan, now_ms: int) -> str:
    """A name that no journal has yet, here or where this one goes."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    places = [plan.request.site.root, *([] if plan.undo_to is None else [plan.undo_to])]
    seen = [find_journals(place) for place in places]
    taken = {journal.run for found in seen for journal in found.journals}
    taken |= {remains.run for found in seen for remains in found.remains}
    names = (f"{JOURNAL_PREFIX}{moment:%Y%m%dT%H%M%SZ}-{number}" for number in count(1))
    return next(name for name in names if name not in taken)
