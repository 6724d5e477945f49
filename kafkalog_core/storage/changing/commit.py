"""The second half of an apply, and its reverse: one step a file, each whole or not at all, each repeatable.

How far a run came is read from the files themselves: a file is as it was before, or as it is afterwards; where it is
neither, somebody else has changed it, and it is left alone.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from kafkalog_core.errors import RefusedError, StorageError
from kafkalog_core.storage.changing.attributes import Attributes
from kafkalog_core.storage.changing.fingerprint import fingerprint, fingerprint_start, pieces, status_of, whole_hash
from kafkalog_core.storage.changing.journal import OF_SEVERAL, Entry, Journal, write_intent
from kafkalog_core.storage.changing.swap import Replacement, in_groups

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.storage.changing.writer import Disk

__all__ = [
    "FileState",
    "States",
    "check_new",
    "check_old",
    "check_saved",
    "finish",
    "prune",
    "roll_back",
    "state_of",
]

FileState = Literal["before", "after", "halfway", "neither"]
States: TypeAlias = "list[tuple[Entry, FileState]]"

_PAGE_BYTES: Final = 4096


def state_of(journal: Journal, entry: Entry) -> FileState:
    """Whether a file is as it was before its change or as it is afterwards.

    `halfway` is a cut that is being taken back, or one whose modification time has not been put back yet.
    """
    path = journal.path_of(entry)
    now = fingerprint(path)
    if now in {entry.before, entry.after} and os.path.isdir(os.path.dirname(path)):
        return "before" if now == entry.before else "after"
    if entry.kind != "cut" or now is None or entry.before is None or entry.after is None:
        return "neither"
    size_bytes = entry.after.size_bytes
    if not size_bytes <= now.size_bytes <= entry.before.size_bytes:
        return "neither"
    if fingerprint_start(path, size_bytes, entry.after.mtime_ns) != entry.after:
        return "neither"
    if now.size_bytes == size_bytes:
        return "halfway"
    is_ours = journal.state == "undoing" and _is_prefix_of_tail(journal, entry, now.size_bytes)
    return "halfway" if is_ours else "neither"


def check_new(journal: Journal) -> States:
    """The state of each file of a run that is to be finished.

    Raises RefusedError where one is neither, and where new content that is still to be put in place is not whole.
    """
    states = _states(journal, journal.entries)
    for entry, state in states:
        if state == "before" and entry.after is not None and entry.kind != "cut" and _is_needed(journal, entry):
            _check_staged(journal, entry)
    return states


def finish(disk: Disk, journal: Journal, states: States) -> Journal:
    """Make the changes that have not been made; `states` is what `check_new` gave under the same lock."""
    for is_swap, steps in in_groups(journal, states):
        if is_swap:
            Replacement(disk, journal, steps).make()
        elif steps[0][1] != "after":
            _make(disk, journal, steps[0][0])
    return write_intent(disk, journal, "complete", _like(journal))


def check_old(journal: Journal) -> States:
    """The state of each file of a run that is to be taken back, the last first.

    Raises RefusedError where one is neither, and where its old content is not there.
    """
    states = _states(journal, reversed(journal.entries))
    check_saved(journal, states)
    return states


def roll_back(disk: Disk, journal: Journal, states: States) -> Journal:
    """Take back the changes that have been made; `states` is what `check_old` gave under the same lock."""
    if journal.state != "undoing":
        states = _halfway_made(disk, journal, states)
        journal = write_intent(disk, journal, "undoing", _like(journal))
    for is_swap, steps in in_groups(journal, states):
        if is_swap:
            Replacement(disk, journal, steps).take_back()
        elif steps[0][1] != "before":
            _take_back(disk, journal, steps[0][0])
    journal = write_intent(disk, journal, "undone", _like(journal))
    _clear(disk, journal)
    return journal


def check_saved(journal: Journal, states: States) -> None:
    """Check that the old content of every change that has been made is there. Raises RefusedError."""
    for entry, state in states:
        if entry.saved in {"inline", "nothing"} or state == "before" or entry.before is None:
            continue
        path = journal.layout.saved(journal.path_of(entry), entry.number, entry.saved)
        try:
            is_whole = _is_whole(path, entry)
        except StorageError as error:
            raise RefusedError(f"what was saved of {entry.path} cannot be read: {error.message}", path=path) from error
        if not is_whole:
            raise RefusedError(f"what was saved of {entry.path} is not what it was", path=path)


def prune(disk: Disk, journal: Journal) -> None:
    """Free what a journal holds; its run cannot be undone any more."""
    if journal.state not in {"undone", "pruning"}:
        journal = write_intent(disk, journal, "pruning", _like(journal))
    _clear(disk, journal)
    layout = journal.layout
    if os.path.lexists(f"{layout.intent}.tmp"):
        disk.unlink(f"{layout.intent}.tmp")
    pointer = journal.pointer
    if pointer is not None and os.path.lexists(pointer):
        disk.unlink(pointer)
        if journal.pointer_is_directory:
            disk.remove_directory(os.path.dirname(pointer))
        disk.sync_directory(layout.root)
    disk.unlink(layout.intent)
    if layout.place != "top":
        disk.remove_directory(os.path.dirname(layout.intent))
    disk.sync_directory(layout.home)


# --- one change -------------------------------------------------------------------------------------------------------
def _states(journal: Journal, entries: Iterable[Entry]) -> States:
    states = [(entry, state_of(journal, entry)) for entry in entries]
    for entry, state in states:
        if state == "neither":
            raise RefusedError(f"has changed since {journal.run} was written", path=journal.path_of(entry))
    return states


def _halfway_made(disk: Disk, journal: Journal, states: States) -> States:
    """Finish a replacement that was interrupted: its way back begins at its end."""
    known: States = []
    for is_swap, steps in in_groups(journal, states):
        replacement = Replacement(disk, journal, steps) if is_swap else None
        if replacement is not None and replacement.extent == "mixed":
            replacement.make()
            known += [(entry, state_of(journal, entry)) for entry, _ in steps]
        else:
            known += steps
    return known


def _is_needed(journal: Journal, entry: Entry) -> bool:
    """Whether new content is still to be put in place; of what is the same before and after nothing else tells."""
    return not entry.is_same or os.path.lexists(journal.layout.staged(journal.path_of(entry), entry.number))


def _make(disk: Disk, journal: Journal, entry: Entry) -> None:
    path = journal.path_of(entry)
    if entry.kind == "remove":
        disk.unlink(path)
    elif entry.after is None:
        raise AssertionError("a file without an end")
    elif entry.kind == "cut":
        disk.cut(path, entry.after.size_bytes, entry.after.mtime_ns)
        return
    else:
        staged = journal.layout.staged(path, entry.number)
        _put(disk, journal, entry, staged, entry.has, entry.after.mtime_ns)
    disk.sync_directory(os.path.dirname(path))


def _take_back(disk: Disk, journal: Journal, entry: Entry) -> None:
    path = journal.path_of(entry)
    if entry.before is None:
        disk.unlink(path)
    elif entry.saved == "inline":
        _write_beside(disk, journal, entry, [entry.inline or b""])
    else:
        saved = journal.layout.saved(path, entry.number, entry.saved)
        if entry.saved == "tail":
            size_bytes = entry.after.size_bytes if entry.after else 0
            disk.extend(path, size_bytes, pieces(saved), entry.before.mtime_ns)
            return
        _put(disk, journal, entry, saved, entry.had, entry.before.mtime_ns)
    disk.sync_directory(os.path.dirname(path))


def _put(disk: Disk, journal: Journal, entry: Entry, source: str, attributes: Attributes | None, mtime_ns: int) -> None:
    """Put a file of the journal in its place; from another file system as a copy that is whole before it is there."""
    path = journal.path_of(entry)
    if os.stat(source).st_dev == os.stat(os.path.dirname(path)).st_dev:
        disk.rename(source, path)
        return
    temporary = _free_temporary(disk, journal, entry)
    disk.write_file(temporary, pieces(source), attributes, mtime_ns)
    disk.rename(temporary, path)


def _write_beside(disk: Disk, journal: Journal, entry: Entry, content: Iterable[bytes]) -> None:
    temporary = _free_temporary(disk, journal, entry)
    mtime_ns = entry.before.mtime_ns if entry.before else None
    disk.write_file(temporary, content, entry.had, mtime_ns)
    disk.rename(temporary, journal.path_of(entry))


def _free_temporary(disk: Disk, journal: Journal, entry: Entry) -> str:
    """A name beside the file; what an earlier try has left there is taken away."""
    temporary = journal.layout.temporary(journal.path_of(entry), entry.number)
    if os.path.lexists(temporary):
        disk.unlink(temporary)
    return temporary


# --- what is in the journal -------------------------------------------------------------------------------------------
def _check_staged(journal: Journal, entry: Entry) -> None:
    staged = journal.layout.staged(journal.path_of(entry), entry.number)
    try:
        is_whole = fingerprint(staged) == entry.after and whole_hash(staged) == entry.new_sha256
    except StorageError as error:
        raise RefusedError(f"the new content of {entry.path} cannot be read: {error.message}", path=staged) from error
    if not is_whole:
        raise RefusedError(f"the new content of {entry.path} is not what it was", path=staged)


def _is_whole(path: str, entry: Entry) -> bool:
    """Whether old content is what it was: to the last byte where it is a copy, else as files in their place are."""
    if entry.saved in {"copy", "tail"}:
        return whole_hash(path) == entry.saved_sha256
    now = fingerprint(path)
    return now is not None and entry.before is not None and now.sha256 == entry.before.sha256


def _is_prefix_of_tail(journal: Journal, entry: Entry, size_bytes: int) -> bool:
    """Whether what stands behind a cut is what an undo that was stopped wrote: page by page its tail, or zeros."""
    path = journal.path_of(entry)
    start = entry.after.size_bytes if entry.after else 0
    saved = journal.layout.saved(path, entry.number, "tail")
    status = status_of(saved)
    if status is None or start + status.st_size < size_bytes:
        return False
    position = 0
    for piece in pieces(path, start, size_bytes):
        there = bytes(piece)
        kept = b"".join(bytes(part) for part in pieces(saved, position, position + len(there)))
        if there != kept and not _is_torn(there, kept, start + position):
            return False
        position += len(there)
    return True


def _is_torn(there: bytes, kept: bytes, position: int) -> bool:
    """Whether each page of a file is as it was to be written, or has not come to the disk and is zeros."""
    bounds = [0, *range(-position % _PAGE_BYTES, len(there), _PAGE_BYTES), len(there)]
    return all(there[begin:end] in {kept[begin:end], bytes(end - begin)} for begin, end in pairwise(bounds))


def _clear(disk: Disk, journal: Journal) -> None:
    """Take away all that a journal holds but its intent."""
    for entry in journal.entries:
        path = journal.path_of(entry)
        names = [journal.layout.staged(path, entry.number), journal.layout.temporary(path, entry.number)]
        if entry.saved in {"link", "copy", "tail"}:
            names.append(journal.layout.saved(path, entry.number, entry.saved))
        for name in names:
            if os.path.lexists(name):
                disk.unlink(name)
    for directory in journal.directories():
        if os.path.lexists(f"{directory}/{OF_SEVERAL}"):
            disk.unlink(f"{directory}/{OF_SEVERAL}")
        if directory != os.path.dirname(journal.layout.intent) and os.path.isdir(directory):
            with suppress(StorageError):  # somebody has put something into it
                disk.remove_directory(directory)


def _like(journal: Journal) -> Attributes:
    attributes = Attributes.of(journal.layout.intent)
    return Attributes(uid=attributes.uid, gid=attributes.gid, mode=attributes.mode)
