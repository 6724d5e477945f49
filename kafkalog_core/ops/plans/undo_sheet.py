"""Undo, prune and the list of journals as they are shown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.names import journal_run, parse_directory_name
from kafkalog_core.ops.plans.obstacles import interrupted_sentence
from kafkalog_core.ops.plans.sheet import Sheet, change_row, counted_changes
from kafkalog_core.storage.changing.journals import Remains, held_bytes, undo_command
from kafkalog_core.words import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.ops.undo import GivenUp, PrunePlan, Scope, UndoPlan
    from kafkalog_core.storage.changing.journal import Journal

__all__ = ["list_sheet", "prune_sheet", "undo_sheet"]

Row = dict[str, object]

_UNDO: Final = "undo"
_PRUNE: Final = "prune"


def undo_sheet(plan: UndoPlan, *, is_done: bool) -> Sheet:
    """What taking a run back would do, or has done."""
    journal, root = plan.journal, plan.scope.root
    counts = counted_changes(plan.kinds, "" if is_done else "would be ")
    what = f"{counts}, so that {root} is as it was before {journal.command} ({journal.run})"
    if plan.left:
        files = count_of(len(plan.left), "file")
        what = f"{counts} of {journal.command} ({journal.run}) in {root}; {files} cannot be put back and "
        is_one = len(plan.left) == 1
        what += f"{'is' if is_one else 'are'} left as {'it is' if is_one else 'they are'}"
    if is_done and plan.left:
        state, message = "applied", f"{what}. What is saved of them is kept until kafkalog undo --prune deletes it"
    elif is_done:
        state, message = "applied", f"{what}. Its record is kept until kafkalog undo --prune deletes it"
    elif plan.obstacles:
        state, message = "refused", f"{journal.run} cannot be taken back as things are. Nothing has been changed"
    else:
        command = undo_command(root, journal, *(["--partial"] if plan.left else []))
        state, message = "planned", f"{what}. Nothing has been changed yet. To apply it: {command}"
    row = _plan_row(_UNDO, root, state, message, len(plan.changes), plan.obstacles)
    row["needed_bytes"] = sum(space.needed_bytes for space in plan.spaces)
    row["run"] = journal.run
    rows = (change_row(change, is_done=is_done) for change in plan.changes)
    kinds = zip(rows, plan.kinds, strict=True)
    changes = tuple(change | {"kind": kind} for change, kind in kinds)
    left = tuple(_kept_row(path, size_bytes, why, is_done=is_done) for path, size_bytes, why in plan.left)
    return Sheet(plan=row, changes=(*changes, *left), spaces=plan.spaces)


def prune_sheet(plan: PrunePlan, *, is_done: bool, freed_bytes: int | None = None) -> Sheet:
    """What would be freed, or has been. `freed_bytes`: what it was, where it is gone already."""
    root = plan.scope.root
    journals = (*(_journal_row(journal) for journal in plan.journals), *(_remains_row(each) for each in plan.remains))
    held = sum(int(str(row["held_bytes"])) for row in journals) if freed_bytes is None else freed_bytes
    count = len(journals)
    what = f"{count} {'journal' if count == 1 else 'journals'} in {root}, {held:,} bytes"
    if not count:
        state, message = "nothing", f"nothing to free in {root}"
    elif is_done:
        state, message = "applied", f"freed {what}. These runs cannot be taken back any more"
    else:
        state, message = "planned", f"would free {what}; these runs could not be taken back any more. Nothing has been "
        message += "changed yet: --apply does it"
    for each in plan.given_up:
        message += f". {_given_up_sentence(each, is_done=is_done)}"
    if plan.kept:
        message += ". " + "; ".join(plan.kept)
    return Sheet(
        plan=_plan_row(_PRUNE, root, state, message, count, ()),
        journals=() if is_done else journals,
        changes=tuple(row for each in plan.given_up for row in _given_up_rows(each, is_done=is_done)),
    )


def _given_up_sentence(given_up: GivenUp, *, is_done: bool) -> str:
    """What is lost with a run that was interrupted."""
    journal, left, deleted = given_up.journal, len(given_up.left), len(given_up.deleted)
    are = ("has been" if left == 1 else "have been") if is_done else ("is" if left == 1 else "are")
    were = ("was" if deleted == 1 else "were") if is_done else "would be"
    return (
        f"The {journal.command} of {journal.run} was interrupted, and can be neither finished nor taken back: "
        f"{count_of(left, 'file')} {are} left as {'it is' if left == 1 else 'they are'}, and "
        f"{count_of(deleted, 'saved file')} {were} deleted"
    )


def _given_up_rows(given_up: GivenUp, *, is_done: bool) -> Iterator[Row]:
    command = given_up.journal.command
    how = {
        "before": f"as it was before {command}",
        "after": f"as {command} was to leave it",
        "halfway": f"as {command} or a broker has left it halfway; the broker makes it again from the log",
        "neither": f"neither as it was before {command} nor as that was to leave it",
    }
    state = "done" if is_done else "planned"
    for path, size_bytes, is_now in given_up.left:
        yield _kept_row(path, size_bytes, how[is_now], is_done=is_done)
    for path, size_bytes, of in given_up.deleted:
        row = _file_row(path) | {"kind": "remove", "state": state, "why": f"what was saved of {os.path.basename(of)}"}
        yield row | {"bytes_before": size_bytes}


def _kept_row(path: str, size_bytes: int | None, why: str, *, is_done: bool) -> Row:
    row = _file_row(path) | {"kind": "keep", "state": "done" if is_done else "planned", "why": why}
    return row | {"bytes_before": size_bytes, "bytes_after": size_bytes}


def _file_row(path: str) -> Row:
    directory = os.path.dirname(path)
    if journal_run(os.path.basename(directory)) is not None:  # a file of the journal is of the partition that holds it
        directory = os.path.dirname(directory)
    around = parse_directory_name(os.path.basename(directory))
    return {"file": path, "topic": around.topic, "partition": around.partition}


def list_sheet(scope: Scope) -> Sheet:
    """The journals that there are."""
    root = scope.root if scope.partition is None else scope.partition
    rows = [_journal_row(journal) for journal in scope.found.journals]
    rows += [_remains_row(each) for each in scope.found.remains]
    rows.sort(key=lambda row: str(row["run"]))
    count = len(rows)
    message = f"{count} {'journal' if count == 1 else 'journals'} in {root}" if count else f"no journal in {root}"
    obstacles = tuple(interrupted_sentence(journal) for journal in scope.interrupted())
    return Sheet(plan=_plan_row("list", root, "listed", message, 0, obstacles), journals=tuple(rows))


def _plan_row(command: str, root: str, state: str, message: str, changes: int, obstacles: tuple[str, ...]) -> Row:
    return {
        "command": command,
        "root": root,
        "state": state,
        "message": message,
        "changes": changes,
        "obstacles": "\n".join(obstacles) or None,
    }


def _journal_row(journal: Journal) -> Row:
    state = "interrupted" if journal.is_interrupted else journal.state
    messages = {
        "complete": "Can be taken back as long as its files have not changed since.",
        "undone": "Has been taken back.",
        "pruning": "Is half freed; prune it once more.",
        "interrupted": interrupted_sentence(journal),
    }
    return {
        "run": journal.run,
        "root": journal.layout.root,
        "command": journal.command,
        "created_ms": journal.created_ms,
        "state": state,
        "files": len(journal.entries),
        "held_bytes": held_bytes(journal),
        "path": journal.layout.intent,
        "message": messages[state],
    }


def _remains_row(remains: Remains) -> Row:
    sizes = [os.lstat(path) for path in remains.paths if os.path.isfile(path)]
    return {
        "run": remains.run,
        "root": os.path.dirname(remains.paths[0]),
        "state": "unreadable" if remains.is_unreadable else "nothing",
        "files": 0,
        "held_bytes": sum(status.st_size for status in sizes if status.st_nlink == 1),
        "path": remains.paths[0],
        "message": f"{remains.reason[:1].upper()}{remains.reason[1:]}.",
    }
