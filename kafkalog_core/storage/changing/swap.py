"""One segment in the place of several, or several in that of one: at once, by the protocol that brokers have for it.

A cleaner makes one segment of a group, and a broker may be started, by mistake or by a watchdog, between any two of our
steps. Were the files replaced one by one, it would find indexes of another log, offsets twice, or records gone. So the
new files come beside the old ones under the names that every start looks for (`LogLoader`, spec of the start: sweep and
swap completion), and each step leaves what a start makes whole by itself:

1. A guard, the empty file `<base>.log.cleaned`: as long as it is there a start throws away every `.swap` from this base
   offset on (2.8 and later), and itself. What is there is the old log.
2. The new files as second names `<base>.log.swap`, `.index.swap`, ... of what waits in the journal, the log first:
   earlier releases know no guard, and take the first log that they find for the whole; they build its indexes anew.
3. The guard goes: the one point of no return. From here on a start deletes what lies in the offsets of the `.swap` logs
   and puts these in its place. What is there is the new log.
4. The old files that have no successor go, and then each `.swap` takes its name, the log before its indexes: a start
   puts index swaps without their log in place too, while a log swap without its index would get one of zeros.

All is brought to the disk between these steps. Where the log dir's start came in between, the next run of ours finds
either side whole: the files tell which. Taking it back is the same with the old segments as the `.swap` files; producer
snapshots, which no release swaps, follow behind.

Some corners are those of the brokers' own cleaner. Where the new log is empty or ends below the last base offset of the
old ones, a start between 3 and 4 leaves the old segments behind its end, with records that the replacement dropped.
Releases before 3.9 complete a replacement without its indexes, so that these are not the planned ones then, and may
leave index swaps behind, which later ones put in place. Every start that completes one also deletes the producer
snapshot of the base offset, which is of no use to it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import RefusedError
from kafkalog_core.format.names import FileKind, FileState, segment_file_name
from kafkalog_core.storage.changing.changes import grouped, pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.storage.changing.attributes import Attributes
    from kafkalog_core.storage.changing.file_states import FileState as State
    from kafkalog_core.storage.changing.file_states import States
    from kafkalog_core.storage.changing.journal import Journal, JournalEntry
    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["Replacement", "in_groups", "swap_name"]

_SWAP: Final = ".swap"
_CLEANED: Final = ".cleaned"
_LOG: Final = ".log"
_SNAPSHOT: Final = ".snapshot"


def in_groups(states: States) -> Iterator[tuple[bool, States]]:
    """The changes of a run in their order, in groups (`changes.grouped`): whether one is a replacement, and its parts.

    Paths are relative to the root, which makes no difference to their groups.
    """
    state_of = {entry.number: state for entry, state in states}
    for group in grouped(entry for entry, _ in states):
        yield group[0].swap is not None, [(entry, state_of[entry.number]) for entry in group]


def swap_name(path: str) -> str:
    """Return the name under which a file waits to take its place in a replacement."""
    return f"{path}{_SWAP}"


class Replacement:
    """The parts of one replacement.

    Args:
        disk: the door.
        journal: what they are of.
        steps: all of them, each with the state of its file.
    """

    def __init__(self, disk: Disk, journal: Journal, steps: Sequence[tuple[JournalEntry, State]]) -> None:
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
        """Whether some files are as before and others as afterwards; what a start has made again does not count."""
        return len({state for _, state in self._known}) > 1

    @property
    def _is_old(self) -> bool:
        """Whether no file tells that it is as afterwards."""
        return all(state == "before" for _, state in self._known)

    # --- there --------------------------------------------------------------------------------------------------------
    def make(self) -> None:
        """Put the new files in place of the old ones, or go on where an earlier run has stopped."""
        new = sorted((entry for entry in self._entries if entry.after is not None), key=self._order)
        waiting = [entry for entry in new if self._waits(entry)]  # without parts that are in place and stay as they are
        if self._is_old and (waiting or self._known):
            self._lay_down(waiting, is_back=False)
        for entry in self._entries:
            if entry.after is None:
                self._take_away(self._path(entry))
        self._put_in_place(new, is_back=False)
        for entry in new:
            self._take_away(self._staged(entry))

    # --- and back -----------------------------------------------------------------------------------------------------
    def take_back(self) -> None:
        """Put the old files in place of the new ones, or go on where an earlier run has stopped."""
        old = sorted((entry for entry in self._entries if entry.before is not None), key=self._order)
        swapped = [entry for entry in old if not entry.path.endswith(_SNAPSHOT)]
        if self._is_old and self._known:
            self._withdraw()
            again = self._made_again()
            if again:
                for entry in again:
                    if entry.before is None:
                        self._take_away(self._path(entry))
                self._put_in_place([entry for entry in old if entry in again], is_back=True)
            return
        if not self.is_mixed:
            self._lay_down(swapped, is_back=True)
        for entry in self._entries:
            if entry.before is None:
                self._take_away(self._path(entry))
        self._put_in_place(swapped, is_back=True)
        self._put_in_place([entry for entry in old if entry.path.endswith(_SNAPSHOT)], is_back=True)

    def _made_again(self) -> list[JournalEntry]:
        """The parts that a start has made again, which are neither the old nor the new ones."""
        return [entry for entry in self._entries if self._states.get(entry.number) == "halfway"]

    def _withdraw(self) -> None:
        """Take away what was laid down and never took a place; the guard first, if it has gone."""
        swaps = [path for path in map(self._swap, self._entries) if self._trusted.exists(path)]
        if swaps:
            self._set_guard()
            for path in swaps:
                self._disk.unlink(path)
            self._sync()
        if self._trusted.exists(self._guard):
            self._disk.unlink(self._guard)
            self._sync()

    # --- steps --------------------------------------------------------------------------------------------------------
    def _lay_down(self, entries: Sequence[JournalEntry], *, is_back: bool) -> None:
        """Steps 1 to 3."""
        self._check_alone()
        self._set_guard()
        for entry in entries:
            self._lay(entry, is_back=is_back)
        self._sync()
        self._disk.unlink(self._guard)
        self._sync()

    def _put_in_place(self, entries: Iterable[JournalEntry], *, is_back: bool) -> None:
        """The end of step 4."""
        self._sync()
        wanted = "before" if is_back else "after"
        for entry in entries:
            swap = self._swap(entry)
            if not self._trusted.exists(swap):
                if self._states.get(entry.number, wanted) == wanted:
                    continue
                self._lay(entry, is_back=is_back)
            path = self._path(entry)
            if self._trusted.exists(path) and self._trusted.is_same(swap, path):
                self._disk.unlink(swap)  # it is there already: a rename among names of one file would leave both
            else:
                self._disk.rename(swap, path)
        self._sync()

    def _lay(self, entry: JournalEntry, *, is_back: bool) -> None:
        """Make the `.swap` of a file: a second name of what the journal has, or a copy; the journal keeps its own."""
        swap = self._swap(entry)
        self._take_away(swap)
        source = self._saved(entry) if is_back else self._staged(entry)
        device = self._trusted.device
        if device(os.path.dirname(source)) == device(self._directory) and self._disk.link(source, swap):
            return
        file, attributes = (entry.before, entry.had) if is_back else (entry.after, entry.has)
        self._copy(source, entry, swap, attributes, None if file is None else file.mtime_ns)

    def _copy(
        self, source: str, entry: JournalEntry, target: str, attributes: Attributes | None, mtime_ns: int | None
    ) -> None:
        temporary = self._journal.layout.temporary(self._path(entry), entry.number)
        self._take_away(temporary)
        self._disk.write_file(temporary, pieces(source, trusted=self._trusted), attributes, mtime_ns)
        self._disk.rename(temporary, target)

    def _set_guard(self) -> None:
        if not self._trusted.exists(self._guard):
            attributes = next(each for entry in self._entries for each in (entry.has, entry.had) if each is not None)
            self._disk.write_file(self._guard, [], attributes, None)
            self._sync()

    def _check_alone(self) -> None:
        """Raises RefusedError where an unfinished replacement of somebody else would be mixed with this one."""
        ours = {self._guard, *map(self._swap, self._entries)}
        for name in self._trusted.names(self._directory):
            path = f"{self._directory}/{name}"
            if name.endswith((_SWAP, _CLEANED)) and path not in ours:
                raise RefusedError(
                    "belongs to another replacement of segments, which is not finished; kafkalog truncate "
                    "--as-broker shows "
                    "what a broker does with it",
                    path=path,
                )

    def _take_away(self, path: str) -> None:
        if self._trusted.exists(path):
            self._disk.unlink(path)

    def _sync(self) -> None:
        self._disk.sync_directory(self._directory)

    # --- names --------------------------------------------------------------------------------------------------------
    def _order(self, entry: JournalEntry) -> tuple[bool, str]:
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
