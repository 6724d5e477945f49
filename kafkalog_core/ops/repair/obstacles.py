"""Why a plan cannot be applied as things are: all that is known before the first write, a sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.command_lines import shell_path
from kafkalog_core.storage.changing.journal_search import (
    leading_directory,
    resume_command,
    undo_command,
    untrusted_places,
)
from kafkalog_core.storage.changing.lock import holder_at_work
from kafkalog_core.text import sizes

if TYPE_CHECKING:
    from kafkalog_core.storage.changing.journal import Journal
    from kafkalog_core.storage.changing.journal_search import Remains
    from kafkalog_core.storage.changing.space import Space

__all__ = ["at_work_sentence", "interrupted_sentence", "space_sentence", "trust_problem", "unreadable_sentence"]


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


def unreadable_sentence(root: str, remains: Remains) -> str:
    """Return that a journal cannot be read, and the command that gives it up."""
    return (
        f"{remains.paths[0]}: {remains.reason}, so it is unknown whether an earlier run was interrupted; restore the "
        f"file from a copy, or delete the journal: kafkalog undo {shell_path(root)} --prune --run {remains.run} --apply"
    )
