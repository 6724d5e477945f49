"""The second half of an apply, and its reverse: one step a file, each whole or not at all, each repeatable.

The order of the steps is the plan's: deletions and cuts come first, as far as a broker that starts in between allows,
so that a full disk has room for what is written after them. Where the journal is on another file system nothing else
is written before the first step.

How far a run came is read from the files themselves: a file is as it was before, or as it is afterwards; where it is
neither, somebody else has changed it, and it is left alone.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from kafkalog_core.errors import DeniedError, NotFoundError, RefusedError, StorageError
from kafkalog_core.storage.changing.attributes import Attributes, check_owners
from kafkalog_core.storage.changing.changes import (
    INDEXES,
    fingerprint,
    fingerprint_of_bytes,
    fingerprint_start,
    is_offset_index,
    makes_way,
    pieces,
    status_of,
    whole_hash,
)
from kafkalog_core.storage.changing.derived import CLEAN_MARK, is_broker_seen, is_made_again
from kafkalog_core.storage.changing.journal import OF_SEVERAL, Entry, Journal, write_intent
from kafkalog_core.storage.changing.journals import (
    leading_directory,
    leave_pointer_if_room,
    prune_command,
    remove_pointer,
    resume_command,
    undo_command,
)
from kafkalog_core.storage.changing.space import free_bytes, rounded
from kafkalog_core.storage.changing.swap import Replacement, in_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalog_core.storage.changing.journals import Remains
    from kafkalog_core.storage.changing.trusted import TrustedDirectories
    from kafkalog_core.storage.changing.writer import Disk

__all__ = [
    "FileState",
    "States",
    "check_new",
    "check_old",
    "check_resumed",
    "delete_remains",
    "finish",
    "is_stuck",
    "prune",
    "roll_back",
    "saved_problem",
    "state_of",
    "unfinished_files",
]

FileState = Literal["before", "after", "halfway", "neither"]
States: TypeAlias = "list[tuple[Entry, FileState]]"

_SECTOR_BYTES: Final = 512
"""The least that a disk writes whole: a write that a loss of power ends may be torn at any multiple of it."""


def state_of(journal: Journal, entry: Entry) -> FileState:
    """Whether a file is as it was before its change or as it is afterwards.

    `halfway` is a cut that is being taken back, or one whose modification time has not been put back yet, or an index
    that has made way for its successor, or a file that a start has made again from the log (`derived`). Of the latter
    one that the run had not changed yet counts as `before`, and one that it had as `after`.
    """
    state = _state_of_ours(journal, entry)
    if state == "neither" and is_made_again(journal, entry, lambda log: _state_of_ours(journal, log) != "neither"):
        return _side_of(journal, entry)
    return state


def _side_of(journal: Journal, entry: Entry) -> FileState:
    """Which file a broker has gone on with: it writes indexes in place, so that other names of the file show it too."""
    trusted, path = journal.trusted, journal.path_of(entry)
    if journal.state == "prepared" and entry.kind in {"replace", "create"}:
        staged = journal.layout.staged(path, entry.number)
        if not trusted.exists(staged) or trusted.is_same(staged, path):
            return "after"
    if entry.saved == "link":
        saved = journal.layout.saved(path, entry.number, entry.saved)
        is_back = journal.state == "undoing" and not trusted.exists(saved)
        if is_back or trusted.is_same(saved, path):
            return "before"
    return "halfway"


def _state_of_ours(journal: Journal, entry: Entry) -> FileState:
    """As `state_of`, where nobody else has written the file."""
    path = journal.path_of(entry)
    trusted = journal.trusted
    now = fingerprint(path, trusted)
    if now in {entry.before, entry.after} and trusted.is_directory(os.path.dirname(path)):
        return "before" if now == entry.before else "after"
    if entry.kind != "cut" or now is None or entry.before is None or entry.after is None:
        return "halfway" if now is None and _may_make_way(journal, entry) else "neither"
    size_bytes = entry.after.size_bytes
    if not size_bytes <= now.size_bytes <= entry.before.size_bytes:
        return "neither"
    if fingerprint_start(path, size_bytes, entry.after.mtime_ns, trusted) != entry.after:
        return "neither"
    if now.size_bytes == size_bytes:
        return "halfway"
    is_ours = journal.state == "undoing" and _is_prefix_of_tail(journal, entry, now.size_bytes)
    return "halfway" if is_ours else "neither"


def check_new(journal: Journal) -> States:
    """The state of each file of a run that is about to be made.

    Raises RefusedError where one is neither, and where new content that is still to be put in place is not whole.
    """
    return _checked_new(journal, _states(journal, journal.entries, _state_of_ours))


def check_resumed(journal: Journal) -> States:
    """As `check_new`, for a journal that was read from a file: what it would give to files is checked too.

    A broker may have started since.
    """
    states = _checked_new(journal, _states(journal, journal.entries))
    for entry, state in states:
        is_mark = os.path.basename(entry.path) == CLEAN_MARK and entry.after is not None
        if is_mark and state != "after" and is_broker_seen(journal):
            problem = "would say that all logs are whole, and a broker has been at work since the run was interrupted"
            raise RefusedError(f"{problem}; {_undo_first(journal)}", path=journal.path_of(entry))
    copied = [entry for entry, state in states if state != "after" and _is_copied(journal, entry)]
    check_owners(journal, [(entry, entry.has) for entry in copied])
    return states


def _checked_new(journal: Journal, states: States) -> States:
    for entry, state in states:
        is_needed = state == "halfway" or (state == "before" and _is_needed(journal, entry))
        if is_needed and entry.after is not None and entry.kind != "cut":
            _check_staged(journal, entry)
    return states


def finish(disk: Disk, journal: Journal, states: States) -> Journal:
    """Make the changes that have not been made; `states` is what `check_new` gave under the same lock."""
    with disk.within(journal.trusted):
        for is_swap, steps in in_groups(states):
            first = steps[0][0]
            rest = (entry for entry in journal.entries if entry.number >= first.number)
            leave_pointer_if_room(disk, journal, rest)
            if is_swap:
                Replacement(disk, journal, steps).make()
                continue
            for entry in _made_way(disk, journal, steps, "after"):
                _make(disk, journal, entry)
            for entry, state in steps:
                if state == "after":
                    _drop_name(disk, journal, entry)
        leave_pointer_if_room(disk, journal, ())
        if journal.keeps_old:
            _sync_parts(disk, journal)
            return write_intent(disk, journal, "complete", _like(journal))
        _remove(disk, journal)
    return replace(journal, state="complete")


def check_old(journal: Journal) -> States:
    """The state of each file of a run that is to be taken back, the last first, but for those that are left.

    Raises RefusedError where one is neither, and where its old content is not there.
    """
    states = _states(journal, (entry for entry in reversed(journal.entries) if entry.number not in journal.left))
    for entry, state in states:
        problem = saved_problem(journal, entry, state)
        if problem is not None:
            raise RefusedError(f"{problem}; {_finish_instead(journal)}")
    check_owners(
        journal, [(entry, entry.had) for entry, state in states if state != "before" and _is_copied(journal, entry)]
    )
    return states


def roll_back(disk: Disk, journal: Journal, states: States, *, gives_up_pointer: bool) -> Journal:
    """Take back the changes that have been made; `states` is what `check_old` gave under the same lock.

    What the journal says is left stays in it, so that it can be taken back later.

    `gives_up_pointer`: what leads to a journal elsewhere makes room for what comes back.
    """
    with disk.within(journal.trusted):
        if journal.state != "undoing":
            states = _halfway_made(disk, journal, states)
            journal = write_intent(disk, journal, "undoing", _like(journal))
        for path in unfinished_files(journal):
            disk.unlink(path)
        if gives_up_pointer:
            remove_pointer(disk, journal)
        for is_swap, steps in in_groups(states):
            if is_swap:
                Replacement(disk, journal, steps).take_back()
                continue
            for entry in _made_way(disk, journal, steps, "before"):
                _take_back(disk, journal, entry)
        leave_pointer_if_room(disk, journal, ())
        if journal.left:
            _clear(disk, journal)
            rest = tuple(entry for entry in journal.entries if entry.number in journal.left)
            return write_intent(disk, replace(journal, entries=rest, left=frozenset()), "complete", _like(journal))
        journal = write_intent(disk, journal, "undone", _like(journal))
        _clear(disk, journal)
    return journal


def unfinished_files(journal: Journal) -> list[str]:
    """Files next to others that were to take their places when the run ended; they take room and nothing else."""
    named = (journal.layout.temporary(journal.path_of(entry), entry.number) for entry in journal.entries)
    return [path for path in named if journal.trusted.exists(path)]


def saved_problem(journal: Journal, entry: Entry, state: FileState) -> str | None:
    """Return why the old content of a change that has been made cannot be put back; None: it can, or need not be."""
    if entry.before is None or (state == "before" and not entry.is_same):
        return None
    path, layout = journal.path_of(entry), journal.layout
    if entry.saved == "nothing":
        return f"{path}: nothing was saved of it"
    saved = layout.intent if entry.saved == "inline" else layout.saved(path, entry.number, entry.saved)
    try:
        is_whole = _is_whole(journal.trusted, saved, entry)
    except DeniedError:
        raise
    except StorageError as error:
        return f"{path}: what was saved of it cannot be read: {saved}: {error.message}"
    return None if is_whole else f"{path}: what was saved of it is not what it was: {saved}"


def is_stuck(journal: Journal) -> bool:
    """Whether a run that was interrupted can be neither finished nor taken back, as things are."""
    ways = [check_resumed] if journal.state == "prepared" else []
    ways += [check_old] if journal.keeps_old else []
    for check in ways:
        try:
            check(journal)
        except DeniedError:
            raise
        except StorageError:
            continue
        return False
    return journal.is_interrupted


def prune(disk: Disk, journal: Journal) -> None:
    """Free what a journal holds; its run cannot be undone any more."""
    with disk.within(journal.trusted):
        _prune(disk, journal)


def delete_remains(disk: Disk, remains: Remains) -> None:
    """Delete what a run left that ended before it had changed anything. Raises WriteError."""
    with disk.within(remains.trusted):
        for path in reversed(remains.paths):
            status = remains.trusted.status(path)
            if status is not None and stat.S_ISDIR(status.st_mode):
                disk.remove_directory(path)
            elif status is not None:
                disk.unlink(path)


def _prune(disk: Disk, journal: Journal) -> None:
    if journal.state not in {"undone", "pruning"}:
        freed = replace(journal.layout, is_freed=True)
        disk.rename(journal.layout.intent, freed.intent)
        disk.sync_directory(os.path.dirname(freed.intent))
        journal = replace(journal, layout=freed, state="pruning")
    _remove(disk, replace(journal, left=frozenset()))


def _remove(disk: Disk, journal: Journal) -> None:
    """Delete all that belongs to a journal, its intent last."""
    _clear(disk, journal)
    layout, exists = journal.layout, journal.trusted.exists
    if exists(layout.unfinished_intent):
        disk.unlink(layout.unfinished_intent)
    remove_pointer(disk, journal)
    disk.unlink(layout.intent)
    if layout.place != "top":
        disk.remove_directory(os.path.dirname(layout.intent))
    disk.sync_directory(layout.home)


# --- one change -------------------------------------------------------------------------------------------------------
def _states(
    journal: Journal, entries: Iterable[Entry], state_of: Callable[[Journal, Entry], FileState] = state_of
) -> States:
    states = [(entry, state_of(journal, entry)) for entry in entries]
    for entry, state in states:
        if state == "neither":
            problem = f"has changed since {journal.run} was written; {_give_up(journal)}"
            raise RefusedError(problem, path=journal.path_of(entry))
    return states


def _halfway_made(disk: Disk, journal: Journal, states: States) -> States:
    """Finish a replacement that was interrupted: its way back begins at its end."""
    known: States = []
    for is_swap, steps in in_groups(states):
        replacement = Replacement(disk, journal, steps) if is_swap else None
        if replacement is not None and replacement.is_mixed:
            replacement.make()
            known += [(entry, state_of(journal, entry)) for entry, _ in steps]
        else:
            known += steps
    return known


def _is_copied(journal: Journal, entry: Entry) -> bool:
    """Whether a file is made that takes the attributes from the journal: others are renamed as they are."""
    path, trusted = journal.path_of(entry), journal.trusted
    home, around = journal.layout.directory(path), os.path.dirname(path)
    if home is None or entry.saved == "inline" or entry.swap is not None or trusted.has_other_names(path):
        return True
    return trusted.is_directory(home) and trusted.device(home) != trusted.device(around)


def _is_needed(journal: Journal, entry: Entry) -> bool:
    """Whether new content is still to be put in place; of what is the same before and after nothing else tells."""
    return not entry.is_same or journal.trusted.exists(journal.layout.staged(journal.path_of(entry), entry.number))


def _may_make_way(journal: Journal, entry: Entry) -> bool:
    """Whether a run that was interrupted may have deleted the file of an entry before it wrote it."""
    is_index = entry.kind == "replace" and entry.swap is None and entry.path.endswith(INDEXES)
    return is_index and journal.is_interrupted and journal.trusted.is_directory(os.path.dirname(journal.path_of(entry)))


def _made_way(disk: Disk, journal: Journal, steps: States, wanted: Literal["before", "after"]) -> list[Entry]:
    """The entries of a group whose files are still to be written, in that order.

    The indexes of a segment are deleted here where there is no room for both the old and the new ones (`grouped`).
    """
    entries = [entry for entry, state in steps if state != wanted]
    if not makes_way(entries, is_back=wanted == "before"):
        return entries
    paths = [journal.path_of(entry) for entry in entries]
    directory, trusted = os.path.dirname(paths[0]), journal.trusted
    is_copied = trusted.device(journal.layout.directory(paths[0]) or directory) != trusted.device(directory)
    files = [entry.after if wanted == "after" else entry.before for entry in entries]
    needed = sum(rounded(file.size_bytes) for file in files if file is not None)
    if all(state != "halfway" for _, state in steps) and (not is_copied or needed <= free_bytes(directory)):
        return entries
    entries.sort(key=lambda entry: is_offset_index(entry.path))
    for path in reversed([journal.path_of(entry) for entry in entries if entry.kind == "replace"]):
        if trusted.exists(path):
            disk.unlink(path)
            disk.sync_directory(directory)
    return entries


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
        _drop_name(disk, journal, entry)
        return
    disk.sync_directory(os.path.dirname(path))


def _drop_name(disk: Disk, journal: Journal, entry: Entry) -> None:
    """Delete the journal's name of a new file that is in place, which an interrupted run has left."""
    path, trusted = journal.path_of(entry), journal.trusted
    staged = journal.layout.staged(path, entry.number)
    if entry.after is not None and entry.kind != "cut" and trusted.exists(staged) and trusted.is_same(staged, path):
        disk.unlink(staged)


def _take_back(disk: Disk, journal: Journal, entry: Entry) -> None:
    path = journal.path_of(entry)
    if entry.before is None:
        disk.unlink(path)
    elif entry.saved == "inline":
        _write_beside(disk, journal, entry, [entry.inline or b""])
    else:
        saved = journal.layout.saved(path, entry.number, entry.saved)
        if entry.saved != "tail":
            _put(disk, journal, entry, saved, entry.had, entry.before.mtime_ns)
            return
        size_bytes = entry.after.size_bytes if entry.after else 0
        content = pieces(saved, trusted=journal.trusted)
        if not journal.trusted.has_other_names(path):
            now = status_of(path, journal.trusted)
            if now is not None and now.st_size > entry.before.size_bytes:  # a start has made it longer
                disk.cut(path, size_bytes, entry.before.mtime_ns)
            disk.extend(path, size_bytes, content, entry.before.mtime_ns)
            return
        start = pieces(path, 0, size_bytes, trusted=journal.trusted)  # it was linked to a backup, which keeps its bytes
        _write_beside(disk, journal, entry, chain(start, content))
    disk.sync_directory(os.path.dirname(path))


def _put(disk: Disk, journal: Journal, entry: Entry, source: str, attributes: Attributes | None, mtime_ns: int) -> None:
    """Put a file of the journal in its place, and fsync the directory; from another file system as a whole copy.

    A second name is put in place, and the journal keeps its own: not every file system makes a rename across
    directories atomic, a loss of power could leave the file without any name, and a broker that starts before the run
    is at its end may delete it.
    """
    path = journal.path_of(entry)
    trusted = journal.trusted
    temporary = _free_temporary(disk, journal, entry)
    is_near = trusted.device(os.path.dirname(source)) == trusted.device(os.path.dirname(path))
    is_linked = is_near and disk.link(source, temporary)
    if is_near and not is_linked:
        disk.rename(source, path)
    else:
        if not is_linked:
            disk.write_file(temporary, pieces(source, trusted=trusted), attributes, mtime_ns)
        disk.rename(temporary, path)
    disk.sync_directory(os.path.dirname(path))


def _write_beside(disk: Disk, journal: Journal, entry: Entry, content: Iterable[bytes | memoryview]) -> None:
    temporary = _free_temporary(disk, journal, entry)
    mtime_ns = entry.before.mtime_ns if entry.before else None
    disk.write_file(temporary, content, entry.had, mtime_ns)
    disk.rename(temporary, journal.path_of(entry))


def _free_temporary(disk: Disk, journal: Journal, entry: Entry) -> str:
    """A name beside the file; what an earlier try has left there is taken away."""
    temporary = journal.layout.temporary(journal.path_of(entry), entry.number)
    if journal.trusted.exists(temporary):
        disk.unlink(temporary)
    return temporary


def _undo_first(journal: Journal) -> str:
    """Return the command that takes back a run whose new content is lost."""
    if not journal.keeps_old:
        return _give_up(journal)
    return f"take the run back: {undo_command(leading_directory(journal), journal)}"


def _give_up(journal: Journal) -> str:
    """Return what is left to do with a run that can be neither finished nor taken back as it is."""
    command = prune_command(leading_directory(journal), journal)
    return f"nothing has been changed. To keep the files as they are and free the journal: {command}"


def _finish_instead(journal: Journal) -> str:
    """Return what is left to do with a run whose old content is lost."""
    if journal.state != "prepared":
        return _give_up(journal)
    return f"nothing has been changed. To finish the run instead: {resume_command(leading_directory(journal), journal)}"


# --- what is in the journal -------------------------------------------------------------------------------------------
def _check_staged(journal: Journal, entry: Entry) -> None:
    staged = journal.layout.staged(journal.path_of(entry), entry.number)
    try:
        is_same = fingerprint(staged, journal.trusted) == entry.after
        is_whole = is_same and whole_hash(staged, journal.trusted) == entry.new_sha256
    except StorageError as error:
        problem = f"the new content of {entry.path} cannot be read: {error.message}; {_undo_first(journal)}"
        raise RefusedError(problem, path=staged) from error
    if not is_whole:
        raise RefusedError(f"the new content of {entry.path} is not what it was; {_undo_first(journal)}", path=staged)


def _is_whole(trusted: TrustedDirectories, path: str, entry: Entry) -> bool:
    """Whether old content is what it was: to the last byte where it is a copy, else as files in their place are."""
    before = entry.before
    if before is None:
        return False
    if entry.saved == "inline":
        return fingerprint_of_bytes(entry.inline or b"", before.mtime_ns) == before
    now = status_of(path, trusted)
    start = entry.after.size_bytes if entry.saved == "tail" and entry.after else 0
    if now is None:
        raise NotFoundError("no such file or directory", path=path)
    if now.st_size != before.size_bytes - start:
        return False
    if entry.saved in {"copy", "tail"}:
        return whole_hash(path, trusted) == entry.saved_sha256
    found = fingerprint(path, trusted)
    return found is not None and found.sha256 == before.sha256


def _is_prefix_of_tail(journal: Journal, entry: Entry, size_bytes: int) -> bool:
    """Whether the bytes after a cut are those that an interrupted undo wrote: sector by sector its tail, or zeros.

    A loss of power can leave the new size with zeros in place of the bytes, also within a page of 4096 bytes: ext4
    orders only newly allocated blocks before the size (`data=ordered`), and an append into a partly filled block
    allocates none.
    """
    path = journal.path_of(entry)
    start = entry.after.size_bytes if entry.after else 0
    saved = journal.layout.saved(path, entry.number, "tail")
    status = status_of(saved, journal.trusted)
    if status is None or start + status.st_size < size_bytes:
        return False
    position = 0
    for piece in pieces(path, start, size_bytes, trusted=journal.trusted):
        there = bytes(piece)
        expected = pieces(saved, position, position + len(there), trusted=journal.trusted)
        kept = b"".join(bytes(part) for part in expected)
        if there != kept and not _is_torn(there, kept, start + position):
            return False
        position += len(there)
    return True


def _is_torn(there: bytes, kept: bytes, position: int) -> bool:
    """Whether each sector of a file holds what was to be written, or zeros because the write never reached the disk."""
    bounds = [0, *range(-position % _SECTOR_BYTES, len(there), _SECTOR_BYTES), len(there)]
    return all(there[begin:end] in {kept[begin:end], bytes(end - begin)} for begin, end in pairwise(bounds))


def _clear(disk: Disk, journal: Journal) -> None:
    """Take away all that a journal holds but its intent and what is left as it is."""
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
            if trusted.holds(name) and trusted.exists(name):
                disk.unlink(name)
    for directory in journal.directories():
        if directory in kept:
            continue
        if trusted.exists(f"{directory}/{OF_SEVERAL}"):
            disk.unlink(f"{directory}/{OF_SEVERAL}")
        if directory != os.path.dirname(journal.layout.intent) and trusted.is_directory(directory):
            with suppress(StorageError):  # somebody has put something into it
                disk.remove_directory(directory)
    _sync_parts(disk, journal)


def _sync_parts(disk: Disk, journal: Journal) -> None:
    """Fsync the names of what a journal holds, or the directories that held it, before the intent changes or goes.

    A partition can be a file system of its own, which the fsync of the directory with the intent does not reach.
    """
    for directory in journal.directories():
        for place in (directory, os.path.dirname(directory)):
            if journal.trusted.is_directory(place):
                disk.sync_directory(place)
                break


def _like(journal: Journal) -> Attributes:
    attributes = Attributes.of(journal.layout.intent, journal.trusted)
    return Attributes(uid=attributes.uid, gid=attributes.gid, mode=attributes.mode)
