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
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import RefusedError, StorageError
from kafkalog_core.format.names import FileKind, FileState, segment_file_name
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.changing.changes import (
    SWAP,
    grouped,
    is_offset_index,
    may_delete_first,
    pieces,
    status_of,
    swap_name,
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
from kafkalog_core.storage.changing.space import free_bytes, rounded
from kafkalog_core.storage.changing.writer import Attributes
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.storage.changing.journal_search import Remains
    from kafkalog_core.storage.changing.writer import Disk

__all__ = [
    "Replacement",
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


_CLEANED: Final = ".cleaned"
_LOG: Final = ".log"
_SNAPSHOT: Final = ".snapshot"


def _in_groups(states: States) -> Iterator[tuple[bool, States]]:
    """Yield the changes of a run in groups (`changes.grouped`): whether one is a segment replacement, and its parts.

    Paths are relative to the root, which makes no difference to their groups.
    """
    state_of = {entry.number: state for entry, state in states}
    for group in grouped(entry for entry, _ in states):
        yield group[0].swap is not None, [(entry, state_of[entry.number]) for entry in group]


class Replacement:
    """One segment in place of several, or several in place of one: all at once, as the broker's cleaner does it.

    A cleaner writes one segment for a group of segments, and a broker may be started, by mistake or by a watchdog,
    between any two steps of kafkalog. If the files were replaced one by one, it would find indexes of another log,
    offsets twice, or records missing. So the new files are written next to the old ones under the names that every
    start looks for (`LogLoader.removeTempFilesAndCollectSwapFiles`), and each step leaves files that a start completes
    by itself:

    1. A guard, the empty file `<base>.log.cleaned`: while it exists, a start deletes every `.swap` from this base
       offset on (2.8 and later), and the guard. The log is the old one.
    2. The new files as second names `<base>.log.swap`, `.index.swap`, ... of the staged files in the journal, the log
       first: earlier releases do not know the guard, and take the first log that they find for the whole; they rebuild
       its indexes.
    3. The guard is deleted: the one point of no return. From here on a start deletes the segments in the offset range
       of the `.swap` logs and renames these. The log is the new one.
    4. The old files without a successor are deleted, and then each `.swap` is renamed, the log before its indexes: a
       start renames index swaps without their log too, while a log swap without its index would get an index of zeros.

    Everything is fsynced between these steps. If a broker has started in between, the next run of kafkalog finds either
    side whole, as the files show. An undo does the same with the old segments as the `.swap` files; producer snapshots,
    which no release swaps, follow after them.

    Some corner cases are those of the brokers' own cleaner. If the new log is empty or ends below the last base offset
    of the old ones, a start between 3 and 4 leaves the old segments after its end, with records that the replacement
    dropped. Releases before 3.9 complete a replacement without its indexes, so that these are not the planned ones
    then, and may leave index swaps, which later releases rename. Every start that completes a replacement also deletes
    the producer snapshot of the base offset, which it does not need.

    Args:
        disk: performs the steps.
        journal: the run.
        steps: all parts, each with the state of its file.
    """

    def __init__(self, disk: Disk, journal: Journal, steps: States) -> None:
        self._disk = disk
        self._journal = journal
        self._trusted = journal.trusted
        self._entries = [entry for entry, _ in steps]
        self._states = {entry.number: state for entry, state in steps if not entry.is_same or state == "halfway"}
        self._known = [(entry, state) for entry, state in steps if not entry.is_same and state != "halfway"]
        self._directory = os.path.dirname(journal.path_of(self._entries[0]))
        base = self._entries[0].swap or 0
        self._guard = f"{self._directory}/{segment_file_name(base, FileKind.LOG, FileState.CLEANED)}"

    @property
    def is_mixed(self) -> bool:
        """Whether some files are as before and others as after; a file that a start has rebuilt does not count."""
        return len({state for _, state in self._known}) > 1

    @property
    def _is_old(self) -> bool:
        """Whether no file is as after the change."""
        return all(state == "before" for _, state in self._known)

    # --- forward ------------------------------------------------------------------------------------------------------
    def make(self) -> None:
        """Put the new files in place of the old ones, or continue after an interrupted run."""
        new = sorted((entry for entry in self._entries if entry.after is not None), key=self._order)
        # Without parts that are in place and do not change
        waiting = [entry for entry in new if self._waits(entry)]
        # Only if nothing is as after the change: once the guard is gone, the steps go forward.
        if self._is_old and (waiting or self._known):
            self._write_swaps(waiting, is_back=False)
        for entry in self._entries:
            # Old files without a successor before the renames (step 4).
            if entry.after is None:
                self._delete(self._path(entry))
        self._put_in_place(new, is_back=False)
        for entry in new:
            self._delete(self._staged(entry))

    # --- and back -----------------------------------------------------------------------------------------------------
    def roll_back(self) -> None:
        """Put the old files in place of the new ones, or continue after an interrupted run."""
        old = sorted((entry for entry in self._entries if entry.before is not None), key=self._order)
        swapped = [entry for entry in old if not entry.path.endswith(_SNAPSHOT)]
        if self._is_old and self._known:
            self._delete_swaps()
            again = self._rebuilt()
            if again:
                for entry in again:
                    if entry.before is None:
                        self._delete(self._path(entry))
                self._put_in_place([entry for entry in old if entry in again], is_back=True)
            return
        if not self.is_mixed:
            self._write_swaps(swapped, is_back=True)
        for entry in self._entries:
            if entry.before is None:
                self._delete(self._path(entry))
        self._put_in_place(swapped, is_back=True)
        self._put_in_place([entry for entry in old if entry.path.endswith(_SNAPSHOT)], is_back=True)

    def _rebuilt(self) -> list[JournalEntry]:
        """Return the parts that a start has rebuilt, which are neither the old nor the new ones."""
        return [entry for entry in self._entries if self._states.get(entry.number) == "halfway"]

    def _delete_swaps(self) -> None:
        """Delete `.swap` files that were never renamed; the guard is written first if it is missing."""
        swaps = [self._swap(entry) for entry in self._entries if self._has_swap(entry)]
        if swaps:
            # Again with the guard: deleting the swaps one by one, a start in between would complete half of them.
            self._set_guard()
            for path in swaps:
                self._disk.unlink(path)
            self._sync()
        if self._trusted.exists(self._guard):
            self._disk.unlink(self._guard)
            self._sync()

    def _has_swap(self, entry: JournalEntry) -> bool:
        """Return whether this run wrote the `.swap` of a file; for one that it deletes: whether both are one file."""
        swap = self._swap(entry)
        return self._trusted.exists(swap) and (
            entry.after is not None or self._trusted.is_same(swap, self._path(entry))
        )

    # --- steps --------------------------------------------------------------------------------------------------------
    def _write_swaps(self, entries: Sequence[JournalEntry], *, is_back: bool) -> None:
        """Perform steps 1 to 3."""
        self._check_alone(is_back=is_back)
        self._set_guard()
        for entry in entries:
            self._write_swap(entry, is_back=is_back)
        # The swaps must be on disk before the guard is deleted: the deletion is the commit.
        self._sync()
        self._disk.unlink(self._guard)
        self._sync()

    def _put_in_place(self, entries: Iterable[JournalEntry], *, is_back: bool) -> None:
        """Perform the renames of step 4."""
        self._sync()
        wanted = "before" if is_back else "after"
        for entry in entries:
            swap = self._swap(entry)
            if not self._trusted.exists(swap):
                if self._states.get(entry.number, wanted) == wanted:
                    continue
                self._write_swap(entry, is_back=is_back)
            path = self._path(entry)
            # It is in place already: rename(2) of two names of one file does nothing and leaves both.
            if self._trusted.exists(path) and self._trusted.is_same(swap, path):
                self._disk.unlink(swap)  # it is in place already: a rename among names of one file would leave both
            else:
                self._disk.rename(swap, path)
        self._sync()

    def _write_swap(self, entry: JournalEntry, *, is_back: bool) -> None:
        """Create the `.swap` of a file: a second name of the journal's file, or a copy; the journal keeps its own."""
        swap = self._swap(entry)
        # A partial copy of an interrupted run.
        self._delete(swap)
        source = self._saved(entry) if is_back else self._staged(entry)
        device = self._trusted.device
        if device(os.path.dirname(source)) == device(self._directory) and self._disk.link(source, swap):
            return
        file, attributes = (entry.before, entry.old_attributes) if is_back else (entry.after, entry.new_attributes)
        self._copy(source, entry, swap, attributes, None if file is None else file.mtime_ns)

    def _copy(
        self, source: str, entry: JournalEntry, target: str, attributes: Attributes | None, mtime_ns: int | None
    ) -> None:
        temporary = self._journal.layout.temporary(self._path(entry), entry.number)
        self._delete(temporary)
        self._disk.write_file(temporary, pieces(source, trusted=self._trusted), attributes, mtime_ns)
        # Renamed into the `.swap` name when complete: a start must never see half a `.swap`.
        self._disk.rename(temporary, target)

    def _set_guard(self) -> None:
        if not self._trusted.exists(self._guard):
            attributes = next(
                each
                for entry in self._entries
                for each in (entry.new_attributes, entry.old_attributes)
                if each is not None
            )
            # Owner and mode of the other files: a start that may not read the guard takes the log directory offline.
            self._disk.write_file(self._guard, [], attributes, None)
            self._sync()

    def _check_alone(self, *, is_back: bool) -> None:
        """Raise RefusedError if an unfinished replacement of another program would be mixed with this one."""
        made = self._entries if is_back else [entry for entry in self._entries if entry.after is not None]
        ours = {self._guard, *map(self._swap, made)}
        for name in self._trusted.names(self._directory):
            path = f"{self._directory}/{name}"
            # Names of `.swap` and `.cleaned` files that are not ours belong to the cleaner of a broker or to another
            # run; LogLoader.completeSwapOperations would mix both.
            if name.endswith((SWAP, _CLEANED)) and path not in ours:
                see = f"kafkalog truncate --as-broker {shell_path(os.path.dirname(path))}"
                reason = "belongs to another replacement of segments, which is not finished"
                raise RefusedError(Refusal(reason, (WayOut("see what a broker does with it", see),)), path=path)

    def _delete(self, path: str) -> None:
        if self._trusted.exists(path):
            self._disk.unlink(path)

    def _sync(self) -> None:
        self._disk.sync_directory(self._directory)

    # --- names --------------------------------------------------------------------------------------------------------
    def _order(self, entry: JournalEntry) -> tuple[bool, str]:
        # The log before its indexes, for the reason in step 4.
        return not entry.path.endswith(_LOG), entry.path

    def _path(self, entry: JournalEntry) -> str:
        return self._journal.path_of(entry)

    def _swap(self, entry: JournalEntry) -> str:
        return swap_name(self._path(entry))

    def _staged(self, entry: JournalEntry) -> str:
        return self._journal.layout.staged(self._path(entry), entry.number)

    def _saved(self, entry: JournalEntry) -> str:
        return self._journal.layout.saved(self._path(entry), entry.number, entry.saved)

    def _waits(self, entry: JournalEntry) -> bool:
        return self._trusted.exists(self._staged(entry))
