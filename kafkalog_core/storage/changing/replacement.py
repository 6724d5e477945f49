"""The replacement of segments: a change of several files, made all at once, as the broker's cleaner does it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import RefusedError
from kafkalog_core.format.names import FileKind, FileState, segment_file_name
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.changing.changes import SWAP, pieces, swap_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_core.storage.changing.file_states import States
    from kafkalog_core.storage.changing.journal import Journal, JournalEntry
    from kafkalog_core.storage.changing.writer import Attributes, Disk

__all__ = ["Replacement"]

_CLEANED: Final = ".cleaned"
_LOG: Final = ".log"
_SNAPSHOT: Final = ".snapshot"


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
