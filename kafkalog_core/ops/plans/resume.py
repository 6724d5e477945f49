"""Runs that were interrupted: which plan they are of, and how it is shown that they are finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.ops.plans.sheet import Sheet, change_row, counted_changes
from kafkalog_core.storage.changing.changes import Change
from kafkalog_core.storage.changing.journals import leading_directory, real_path, undo_command

if TYPE_CHECKING:
    from kafkalog_core.ops.plans.plan_file import StoredPlan
    from kafkalog_core.storage.changing.journal import Entry, Journal

__all__ = ["is_of_plan", "resumed_sheet"]


def is_of_plan(journal: Journal, plan: StoredPlan) -> bool:
    """Whether a run made, or began to make, exactly the changes of a plan."""
    made = [(entry.kind, real_path(journal.path_of(entry)), entry.before) for entry in journal.entries]
    planned = [(change.kind, real_path(change.path), change.before) for change in plan.changes]
    return journal.command == plan.command and made == planned and journal.state in {"prepared", "complete"}


def resumed_sheet(root: str, journal: Journal | None) -> Sheet:
    """A run that is complete now; null: there was none to be finished."""
    if journal is None:
        message = f"no run of kafkalog was interrupted in {root}"
        return Sheet(plan={"command": "apply", "root": root, "state": "nothing", "message": message, "changes": 0})
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
    return Sheet(plan=plan, changes=tuple(change_row(change, is_done=True) for change in changes))


def _change(journal: Journal, entry: Entry) -> Change:
    return Change(
        kind=entry.kind,
        path=journal.path_of(entry),
        before=entry.before,
        size_bytes=None if entry.after is None else entry.after.size_bytes,
        sha256=None if entry.after is None or entry.kind == "cut" else entry.after.sha256,
        why=entry.why,
    )
