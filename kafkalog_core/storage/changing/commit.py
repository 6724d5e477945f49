"""The second half of an apply, and its reverse: one step per file, each atomic and each repeatable.

The steps have the order of the plan: deletions and truncations come first, as far as is safe for a broker that starts
in between, so that a full disk has space for what is written after them. If the journal is on another file system,
nothing is written next to the files before the first step.

How far a run came is read from the files themselves (`file_states`). A file that is neither as before nor as after its
change was changed by another process, and is left as it is.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Literal

from kafkalog_core.errors import StorageError
from kafkalog_core.storage.changing.changes import (
    grouped,
    is_offset_index,
    may_delete_first,
    pieces,
    status_of,
)
from kafkalog_core.storage.changing.file_states import States, state_of
from kafkalog_core.storage.changing.journal import (
    OF_SEVERAL,
    Journal,
    JournalEntry,
    ensure_pointer_if_space,
    remove_pointer,
    write_intent,
)
from kafkalog_core.storage.changing.replacement import Replacement
from kafkalog_core.storage.changing.space import free_bytes, rounded
from kafkalog_core.storage.changing.writer import Attributes
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.storage.changing.journal_search import Remains
    from kafkalog_core.storage.changing.writer import Disk

__all__ = [
    "delete_remains",
    "finish",
    "prune",
    "roll_back",
    "unfinished_files",
]


def finish(disk: Disk, journal: Journal, states: States) -> Journal:
    """Make the changes that have not been made yet; `states` comes from `check_new` under the same lock."""
    with disk.within(journal.trusted):
        for is_swap, steps in _in_groups(states):
            first = steps[0][0]
            rest = (entry for entry in journal.entries if entry.number >= first.number)
            # Before each group: what the earlier groups have freed may be enough for the pointer now.
            ensure_pointer_if_space(disk, journal, rest)
            if is_swap:
                Replacement(disk, journal, steps).make()
                continue
            # Entries that an interrupted run has made are left out, so a repeated run ends in the same state.
            for entry in _deleted_first(disk, journal, steps, "after"):
                _make(disk, journal, entry)
            # A hard link in the journal to a file that is in place keeps its blocks after a later deletion.
            for entry, state in steps:
                if state == "after":
                    _drop_name(disk, journal, entry)
        ensure_pointer_if_space(disk, journal, ())
        # Parts first, then the intent: a state "complete" on disk must not be older than what it claims.
        if journal.keeps_old:
            _sync_parts(disk, journal)
            return write_intent(disk, journal, "complete", _like(journal))
        _remove(disk, journal)
    return replace(journal, state="complete")


def roll_back(disk: Disk, journal: Journal, states: States, *, gives_up_pointer: bool) -> Journal:
    """Undo the changes that have been made; `states` comes from `check_old` under the same lock.

    Entries that the journal leaves (`Journal.left`) are kept in it, so that they can be undone later.

    Args:
        disk: performs the steps.
        journal: the run.
        states: the state of each file.
        gives_up_pointer: delete the pointer to a journal elsewhere first, because the old content needs its space.
    """
    with disk.within(journal.trusted):
        # A replacement can be undone only from its end: from its middle, a start could complete it.
        if journal.state != "undoing":
            states = _replacements_finished(disk, journal, states)
            # The state is written before the first file goes back: from here on `apply --resume` must refuse.
            journal = write_intent(disk, journal, "undoing", _like(journal))
        # Temporary files of the interrupted run hold space that the old content needs.
        for path in unfinished_files(journal):
            disk.unlink(path)
        if gives_up_pointer:
            remove_pointer(disk, journal)
        for is_swap, steps in _in_groups(states):
            if is_swap:
                Replacement(disk, journal, steps).roll_back()
                continue
            for entry in _deleted_first(disk, journal, _with_lost_swaps(journal, steps), "before"):
                _undo(disk, journal, entry)
        ensure_pointer_if_space(disk, journal, ())
        if journal.left:
            # What cannot be restored is kept in a journal of its own.
            _clear(disk, journal)
            rest = tuple(entry for entry in journal.entries if entry.number in journal.left)
            return write_intent(disk, replace(journal, entries=rest, left=frozenset()), "complete", _like(journal))
        # "undone" before the content is deleted: without the mark, a crash in between would look like a damaged
        # journal.
        journal = write_intent(disk, journal, "undone", _like(journal))
        _clear(disk, journal)
    return journal


def unfinished_files(journal: Journal) -> list[str]:
    """Return the temporary files of a run that was interrupted, which only use space."""
    named = (journal.layout.temporary(journal.path_of(entry), entry.number) for entry in journal.entries)
    return [path for path in named if journal.trusted.exists(path)]


def prune(disk: Disk, journal: Journal) -> None:
    """Free what a journal holds; its run cannot be undone any more."""
    with disk.within(journal.trusted):
        _prune(disk, journal)


def delete_remains(disk: Disk, remains: Remains) -> None:
    """Delete what a run left that ended before it had changed anything. Raises WriteError."""
    with disk.within(remains.trusted):
        # Inner ones first.
        for path in reversed(remains.paths):
            status = remains.trusted.status(path)
            if status is not None and stat.S_ISDIR(status.st_mode):
                disk.remove_directory(path)
            elif status is not None:
                disk.unlink(path)


def _prune(disk: Disk, journal: Journal) -> None:
    if journal.state not in {"undone", "pruning"}:
        # A rename needs no free block, as a new intent would: a full disk is the usual reason to prune.
        freed = replace(journal.layout, is_freed=True)
        disk.rename(journal.layout.intent, freed.intent)
        disk.sync_directory(os.path.dirname(freed.intent))
        journal = replace(journal, layout=freed, state="pruning")
    _remove(disk, replace(journal, left=frozenset()))


def _remove(disk: Disk, journal: Journal) -> None:
    """Delete all files of a journal, its intent last."""
    _clear(disk, journal)
    layout, exists = journal.layout, journal.trusted.exists
    if exists(layout.unfinished_intent):
        disk.unlink(layout.unfinished_intent)
    remove_pointer(disk, journal)
    # The intent last: as long as it exists, what is left of the journal can be found and deleted.
    disk.unlink(layout.intent)
    if layout.place != "top":
        disk.remove_directory(os.path.dirname(layout.intent))
    disk.sync_directory(layout.home)


# --- one change -------------------------------------------------------------------------------------------------------


def _replacements_finished(disk: Disk, journal: Journal, states: States) -> States:
    """Finish a segment replacement that was interrupted: it can be undone only from its end."""
    known: States = []
    for is_swap, steps in _in_groups(states):
        replacement = Replacement(disk, journal, steps) if is_swap else None
        if replacement is not None and replacement.is_mixed:
            replacement.make()
            known += [(entry, state_of(journal, entry)) for entry, _ in steps]
        else:
            known += steps
    return known


def _deleted_first(
    disk: Disk, journal: Journal, steps: States, wanted: Literal["before", "after"]
) -> list[JournalEntry]:
    """Return the entries of a group whose files are still to be written, in that order.

    Delete the indexes of a segment first if there is no space for both the old and the new ones (`changes.grouped`).
    """
    entries = [entry for entry, state in steps if state != wanted]
    if not may_delete_first(entries, is_back=wanted == "before"):
        return entries
    paths = [journal.path_of(entry) for entry in entries]
    directory, trusted = os.path.dirname(paths[0]), journal.trusted
    is_copied = trusted.device(journal.layout.directory(paths[0]) or directory) != trusted.device(directory)
    files = [entry.after if wanted == "after" else entry.before for entry in entries]
    needed = sum(rounded(file.size_bytes) for file in files if file is not None)
    # An index that is missing already shows that an interrupted run began to delete first: it continues in that order.
    if all(state != "halfway" for _, state in steps) and (not is_copied or needed <= free_bytes(directory)):
        return entries
    # The offset index is written last and deleted first: while it is missing, a start rebuilds the others.
    entries.sort(key=lambda entry: is_offset_index(entry.path))
    for path in reversed([journal.path_of(entry) for entry in entries if entry.kind == "replace"]):
        if trusted.exists(path):
            disk.unlink(path)
            # After each deletion: a loss of power must not keep the offset index and lose the others.
            disk.sync_directory(directory)
    return entries


def _make(disk: Disk, journal: Journal, entry: JournalEntry) -> None:
    path = journal.path_of(entry)
    if entry.kind == "remove":
        disk.unlink(path)
    elif entry.after is None:
        raise AssertionError("an entry without a file after the change")
    elif entry.kind == "cut":
        # Truncations are in place and need no directory fsync: no name changes.
        disk.cut(path, entry.after.size_bytes, entry.after.mtime_ns)
        return
    else:
        staged = journal.layout.staged(path, entry.number)
        _put(disk, journal, entry, staged, entry.new_attributes, entry.after.mtime_ns)
        _drop_name(disk, journal, entry)
        return
    disk.sync_directory(os.path.dirname(path))


def _drop_name(disk: Disk, journal: Journal, entry: JournalEntry) -> None:
    """Delete the journal's name of a new file that is in place, which an interrupted run has left."""
    path, trusted = journal.path_of(entry), journal.trusted
    staged = journal.layout.staged(path, entry.number)
    if entry.after is not None and entry.kind != "cut" and trusted.exists(staged) and trusted.is_same(staged, path):
        disk.unlink(staged)


def _with_lost_swaps(journal: Journal, steps: States) -> States:
    """Return the states after the replacements before them were undone.

    What had the name and the content of a deleted `.swap` file may have been a part of a replacement.
    """
    exists = journal.trusted.exists
    return [
        (entry, "after" if entry.kind == "remove" and not exists(journal.path_of(entry)) else state)
        for entry, state in steps
    ]


def _undo(disk: Disk, journal: Journal, entry: JournalEntry) -> None:
    path = journal.path_of(entry)
    if entry.before is None:
        disk.unlink(path)
    elif entry.saved == "inline":
        _write_temporary(disk, journal, entry, [entry.inline or b""])
    else:
        saved = journal.layout.saved(path, entry.number, entry.saved)
        # A tail is appended to the shorter file; everything else replaces the file.
        if entry.saved != "tail":
            _put(disk, journal, entry, saved, entry.old_attributes, entry.before.mtime_ns)
            return
        size_bytes = entry.after.size_bytes if entry.after else 0
        content = pieces(saved, trusted=journal.trusted)
        if not journal.trusted.has_other_names(path):
            now = status_of(path, journal.trusted)
            # A start has made it longer
            if now is not None and now.st_size > entry.before.size_bytes:
                disk.cut(path, size_bytes, entry.before.mtime_ns)
            disk.extend(path, size_bytes, content, entry.before.mtime_ns)
            _make_hole(disk, journal, entry)
            return
        # It was linked to a backup, which keeps its bytes
        start = pieces(path, 0, size_bytes, trusted=journal.trusted)
        _write_temporary(disk, journal, entry, chain(start, content))
        _make_hole(disk, journal, entry)
    disk.sync_directory(os.path.dirname(path))


def _make_hole(disk: Disk, journal: Journal, entry: JournalEntry) -> None:
    """Give a file its old size, if the tail that the journal has saved ends before it (`saved_tail_end`)."""
    path = journal.path_of(entry)
    now = status_of(path, journal.trusted)
    if now is not None and entry.before is not None and now.st_size < entry.before.size_bytes:
        disk.cut(path, entry.before.size_bytes, entry.before.mtime_ns)


def _put(
    disk: Disk, journal: Journal, entry: JournalEntry, source: str, attributes: Attributes | None, mtime_ns: int
) -> None:
    """Put a file of the journal in place and fsync the directory; from another file system it is copied.

    The file gets a second name, and the journal keeps its own: not every file system renames atomically across
    directories, a loss of power could leave the file without any name, and a broker that starts before the run ends may
    delete it.
    """
    path = journal.path_of(entry)
    trusted = journal.trusted
    # A leftover of an earlier attempt may be incomplete, and its name is needed.
    temporary = _free_temporary(disk, journal, entry)
    is_near = trusted.device(os.path.dirname(source)) == trusted.device(os.path.dirname(path))
    # A link is a second name: until the rename, the journal still has the first one.
    is_linked = is_near and disk.link(source, temporary)
    if is_near and not is_linked:
        # A file system without hard links: the rename takes the journal's only name, so it must be the last step.
        disk.rename(source, path)
    else:
        if not is_linked:
            disk.write_file(temporary, pieces(source, trusted=trusted), attributes, mtime_ns)
        disk.rename(temporary, path)
    # The rename is durable only with its directory (fsync(2)).
    disk.sync_directory(os.path.dirname(path))


def _write_temporary(disk: Disk, journal: Journal, entry: JournalEntry, content: Iterable[bytes | memoryview]) -> None:
    temporary = _free_temporary(disk, journal, entry)
    mtime_ns = entry.before.mtime_ns if entry.before else None
    disk.write_file(temporary, content, entry.old_attributes, mtime_ns)
    disk.rename(temporary, journal.path_of(entry))


def _free_temporary(disk: Disk, journal: Journal, entry: JournalEntry) -> str:
    """Return a temporary name in the file's directory; delete what an earlier attempt has left there."""
    temporary = journal.layout.temporary(journal.path_of(entry), entry.number)
    if journal.trusted.exists(temporary):
        disk.unlink(temporary)
    return temporary


# --- what is in the journal -------------------------------------------------------------------------------------------


def _clear(disk: Disk, journal: Journal) -> None:
    """Delete all files of a journal except its intent and those of entries that are left."""
    trusted = journal.trusted
    kept = set()
    for entry in journal.entries:
        path = journal.path_of(entry)
        if entry.number in journal.left:
            kept.add(journal.layout.directory(path))
            continue
        names = [journal.layout.staged(path, entry.number), journal.layout.temporary(path, entry.number)]
        if entry.saved in {"link", "copy", "tail"}:
            names.append(journal.layout.saved(path, entry.number, entry.saved))
        for name in names:
            # A name outside the trusted directories was never written by this run.
            if trusted.holds(name) and trusted.exists(name):
                disk.unlink(name)
    for directory in journal.directories():
        if directory in kept:
            continue
        if trusted.exists(f"{directory}/{OF_SEVERAL}"):
            disk.unlink(f"{directory}/{OF_SEVERAL}")
        if directory != os.path.dirname(journal.layout.intent) and trusted.is_directory(directory):
            # Another process has put a file into it
            with suppress(StorageError):
                disk.remove_directory(directory)
    _sync_parts(disk, journal)


def _sync_parts(disk: Disk, journal: Journal) -> None:
    """Fsync the directories of a journal, or those above deleted ones, before the intent changes or is deleted.

    A partition can be a file system of its own, which the fsync of the directory of the intent does not reach.
    """
    for directory in journal.directories():
        for place in (directory, os.path.dirname(directory)):
            if journal.trusted.is_directory(place):
                disk.sync_directory(place)
                # One fsync at the nearest existing directory: it covers the names below that were deleted.
                break


def _like(journal: Journal) -> Attributes:
    attributes = Attributes.of(journal.layout.intent, journal.trusted)
    return Attributes(uid=attributes.uid, gid=attributes.gid, mode=attributes.mode)


def _in_groups(states: States) -> Iterator[tuple[bool, States]]:
    """Yield the changes of a run in groups (`changes.grouped`): whether one is a segment replacement, and its parts.

    Paths are relative to the root, which makes no difference to their groups.
    """
    state_of = {entry.number: state for entry, state in states}
    for group in grouped(entry for entry, _ in states):
        yield group[0].swap is not None, [(entry, state_of[entry.number]) for entry in group]
