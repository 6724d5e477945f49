"""Why a plan cannot be applied as things are: all that is known before the first write, a sentence each."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from kafkalog_core.storage.changing.journals import find_journals
from kafkalog_core.storage.changing.permission import place_problem, write_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.ops.plans.plan import Outcome, Plan
    from kafkalog_core.storage.changing.journal import Journal
    from kafkalog_core.storage.changing.space import Space

__all__ = ["interrupted_sentence", "obstacles_of", "resume_command", "space_sentence", "undo_command"]

_MIB: Final = 1024 * 1024
_SHOWN: Final = 10


def obstacles_of(plan: Plan) -> tuple[str, ...]:
    """The sentences; empty: it can be applied."""
    found = [*_interrupted(plan.request.site.root)]
    if plan.changes:
        found += _of_release(plan.outcome)
        found += _of_place(plan.undo_to)
        found += _of_space(plan.spaces, plan.undo_to)
        found += write_problems(plan.changes)
    more = len(found) - _SHOWN
    return tuple(found) if more <= 0 else (*found[:_SHOWN], f"and {more} more")


def undo_command(root: str, run: str) -> str:
    """The command line that takes a run back."""
    return f"kafkalog undo {shlex.quote(root)} --run {run} --apply"


def resume_command(root: str) -> str:
    """The command line that finishes a run."""
    return f"kafkalog apply --resume {shlex.quote(root)}"


def space_sentence(space: Space) -> str:
    """That there is too little of it."""
    return (
        f"{space.path}: {space.needed_bytes / _MIB:.1f} MiB are needed on its file system while this is done, and "
        f"{space.free_bytes / _MIB:.1f} MiB are free"
    )


def interrupted_sentence(journal: Journal) -> str:
    """What is the matter with a run that was interrupted, and both ways out of it."""
    root, run = journal.layout.root, journal.run
    if journal.state == "undoing":
        return f"{root}: the undo of an earlier run was interrupted; finish it first: {undo_command(root, run)}"
    return (
        f"{root}: an earlier {journal.command} was interrupted between its files; finish it first "
        f"({resume_command(root)}) or take it back ({undo_command(root, run)})"
    )


def _interrupted(root: str) -> Iterator[str]:
    found = find_journals(root)
    for journal in found.journals:
        if journal.is_interrupted:
            yield interrupted_sentence(journal)
    for remains in found.remains:
        if remains.is_unreadable:
            yield (
                f"{remains.paths[0]}: {remains.reason}, so that nobody knows whether an earlier run was interrupted; "
                f"if it is gone for good: kafkalog undo {shlex.quote(root)} --prune --run {remains.run} --apply"
            )


def _of_release(outcome: Outcome) -> Iterator[str]:
    if outcome.needs_release:
        evidence = "; ".join(outcome.release.evidence) if outcome.release is not None else "nothing"
        yield (
            "the release of the broker cannot be told for certain, and releases differ in this: say it with --kafka "
            f"VERSION (known: {evidence})"
        )


def _of_place(undo_to: str | None) -> Iterator[str]:
    problem = None if undo_to is None else place_problem(undo_to)
    if problem is not None:
        yield problem


def _of_space(spaces: Iterable[Space], undo_to: str | None) -> Iterator[str]:
    hint = "" if undo_to is not None else "; --undo-to DIR keeps the journal on another file system"
    for space in spaces:
        if not space.is_enough:
            yield f"{space_sentence(space)}{hint}"
