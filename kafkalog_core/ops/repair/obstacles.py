"""Why a plan cannot be applied as things are: all that is known before the first write, a sentence each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path
from kafkalog_core.kafka.assumptions import refusal, with_options
from kafkalog_core.kafka.releases import LATEST
from kafkalog_core.storage.changing.journal_search import (
    find_journals,
    leading_directory,
    resume_command,
    undo_command,
    untrusted_places,
)
from kafkalog_core.storage.changing.lock import holder_at_work
from kafkalog_core.storage.changing.space import place_problem, spaces_for, write_problems
from kafkalog_core.text import size, sizes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kafkalog_core.ops.repair.plan import Plan
    from kafkalog_core.storage.changing.journal import Journal
    from kafkalog_core.storage.changing.journal_search import Remains
    from kafkalog_core.storage.changing.space import Space

__all__ = [
    "at_work_sentence",
    "interrupted_sentence",
    "obstacles_of",
    "space_sentence",
    "trust_problem",
    "unreadable_sentence",
]

_SHOWN: Final = 10
_WHOLE_FIRST: Final = "a new file is whole before it takes the place of the old one"
_WHY_ROOM: Final = {"compact": "the cleaned segments are whole before the old ones are deleted"}


def obstacles_of(plan: Plan) -> tuple[str, ...]:
    """The sentences; empty: it can be applied."""
    root = plan.request.target.root
    touched = {root, *(place.path for place in plan.request.target.partitions)}
    found = [*_interrupted(root, touched | {os.path.dirname(change.path) for change in plan.changes})]
    if plan.undo_to is not None and os.path.isdir(plan.undo_to):
        found += [each for each in _interrupted(plan.undo_to, of=root) if each not in found]
    if plan.changes:
        found += _of_release(plan)
        found += _of_assumptions(plan)
        found += _of_place(plan.undo_to)
        found += _of_space(plan)
        found += write_problems(plan.changes)
    more = len(found) - _SHOWN
    return tuple(found) if more <= 0 else (*found[:_SHOWN], f"and {more} more")


def trust_problem(journal: Journal) -> str | None:
    """Return why a journal that leads to directories which were not named is not used; None: it leads to none."""
    places = untrusted_places(journal)
    if not places:
        return None
    place, root = places[0], journal.layout.root
    if place.target is not None:
        why = (
            f"{place.path} is a symbolic link to {place.target}, and anyone who can write there could have made it. "
            "kafkalog follows a link that a journal leads to only if you name its target"
        )
    elif place.path == root:
        why = f"{journal.run} changed files in {root}, which was not named: only the journal claims it"
    else:
        why = f"{journal.run} leads to {place.path}, which was not named: anyone who can write there could change it"
    return f"{why}. If the journal is right, name all directories: {undo_command(leading_directory(journal), journal)}"


def space_sentence(space: Space) -> str:
    """That there is too little of it."""
    needed, free = sizes(space.needed_bytes, space.free_bytes)
    return f"{space.path}: this needs {needed} on its file system, and {free} are free"


def at_work_sentence(root: str, what: str) -> str | None:
    """Return that `what` in a directory may be of a run that is at work; None: no other process holds the lock."""
    holder = holder_at_work(root)
    if holder is None:
        return None
    return f"{root}: {what} may be at work: {holder} holds the lock. When it has ended, run the same command again"


def interrupted_sentence(journal: Journal) -> str:
    """Return what is wrong with a run that has not ended, and the ways out of it.

    It was interrupted only if no other process holds the lock.
    """
    root, place = journal.layout.root, leading_directory(journal)
    at_work = at_work_sentence(root, f"the {journal.command} of {journal.run}")
    if at_work is not None:
        return at_work
    if not journal.keeps_old:
        return (
            f"{root}: an earlier {journal.command} with --no-undo was interrupted between its files; finish it first: "
            f"{resume_command(place, journal)}"
        )
    if journal.state == "undoing":
        return f"{root}: the undo of an earlier run was interrupted; finish it first: {undo_command(place, journal)}"
    return (
        f"{root}: an earlier {journal.command} was interrupted between its files; finish it first "
        f"({resume_command(place, journal)}) or take it back ({undo_command(place, journal)})"
    )


def _interrupted(root: str, touched: Collection[str] = (), of: str | None = None) -> Iterator[str]:
    """Runs in a directory that are in the way.

    Args:
        root: the directory.
        touched: directories of the plan; a journal that cannot be read in another directory does not concern them.
        of: the root of the runs that count; None: all.
    """
    found = find_journals(root)
    for journal in found.journals:
        if journal.is_interrupted and of in {None, journal.layout.root}:
            yield interrupted_sentence(journal)
    for remains in found.remains:
        if remains.is_unreadable and os.path.dirname(remains.paths[0]) in touched:
            yield unreadable_sentence(root, remains)


def unreadable_sentence(root: str, remains: Remains) -> str:
    """Return that a journal cannot be read, and the command that gives it up."""
    return (
        f"{remains.paths[0]}: {remains.reason}, so it is unknown whether an earlier run was interrupted; restore the "
        f"file from a copy, or delete the journal: kafkalog undo {shell_path(root)} --prune --run {remains.run} --apply"
    )


def _of_release(plan: Plan) -> Iterator[str]:
    report, line = plan.report, plan.request.command_line
    evidence = "; ".join(report.release.evidence) if report.release is not None else "nothing"
    if report.release is not None and report.release.is_newer:
        yield (
            f"the release of the broker is unknown: {evidence}. To apply this plan by the rules of {LATEST} "
            f"nevertheless: {with_options(line, f'--kafka {LATEST}')}"
        )
    elif report.needs_release:
        yield (
            f"the release of the broker is not certain ({evidence}), and this plan depends on it. State the release: "
            f"{with_options(line, '--kafka VERSION')}"
        )


def _of_assumptions(plan: Plan) -> Iterator[str]:
    if plan.report.assumptions and not plan.request.settings.assume_defaults:
        yield refusal(plan.report.assumptions, plan.request.command_line)


def _of_place(undo_to: str | None) -> Iterator[str]:
    problem = None if undo_to is None else place_problem(undo_to)
    if problem is not None:
        yield problem


def _of_space(plan: Plan) -> Iterator[str]:
    for space in plan.spaces:
        if not space.is_enough:
            yield f"{space_sentence(space)}{_way_out(plan, space)}"


def _way_out(plan: Plan, space: Space) -> str:
    """The options with which the same plan fits; where none does, how many bytes are to be freed, and how."""
    ways = []
    copies = sum(change.before.size_bytes for change in plan.changes if change.before and change.kind != "cut")
    elsewhere = spaces_for(plan.changes, None, keeps_old=True, is_other_device=True)
    without = spaces_for(plan.changes, None, keeps_old=False)
    if all(each.is_enough for each in elsewhere):
        other = "another file system" if plan.undo_to is None else "a third file system"
        ways.append(f"--undo-to DIR (a directory on {other}, which takes {size(copies)})")
    if plan.keeps_undo and all(each.is_enough for each in without):
        ways.append("--no-undo (the run cannot be undone then)")
    to_dir = "; or --to DIR in their place writes the cleaned logs elsewhere" if plan.command == "compact" else ""
    if ways:
        return f"; the same command fits with {' or with '.join(ways)}{to_dir}"
    missing = [each.needed_bytes - each.free_bytes for each in (*elsewhere, *without) if each.path == space.path]
    if not missing:
        return ": move something else away there first, or name another directory with --undo-to"
    root, why = shell_path(plan.request.target.root), _WHY_ROOM.get(plan.command, _WHOLE_FIRST)
    retain = f", or let retention make room, which needs none: kafkalog retain {root} --undo-to DIR --apply"
    return (
        f"; with --undo-to DIR on another file system, or with --no-undo, {min(missing):,} bytes have to be freed "
        f"there first, as {why}: delete or move something else{'' if plan.command == 'retain' else retain}{to_dir}"
    )
