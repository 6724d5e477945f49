"""The first half of an apply: new content and old content are written into the journal, which no broker reads.

A broker sees no change when this is done. If it fails, all of it is deleted.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import KafkalogError, RefusedError, StorageError
from kafkalog_core.storage.changing.changes import (
    DryRunStage,
    Fingerprint,
    fingerprint,
    fingerprint_start,
    grouped,
    is_hashed_whole,
    is_offset_index,
    may_delete_first,
    pieces,
    saved_tail_end,
)
from kafkalog_core.storage.changing.derived import (
    checkpoints_next_to_clean_shutdown,
    logs_of_derived,
    recovery_markers,
)
from kafkalog_core.storage.changing.journal import (
    OF_SEVERAL,
    Journal,
    JournalEntry,
    JournalLayout,
    Saved,
    ensure_pointer,
    ensure_pointer_if_space,
    remove_pointer,
    write_beginning,
    write_intent,
)
from kafkalog_core.storage.changing.space import free_bytes, rounded
from kafkalog_core.storage.changing.writer import Attributes
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.storage.changing.changes import Change
    from kafkalog_core.storage.changing.trusted import TrustedDirectories
    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["ContentStage", "JournalStage", "make_directly"]


_SPARE_BYTES: Final = 64 * 1024 * 1024
"""With this many free bytes, the changes do not need the space of a pointer to a journal elsewhere."""
_OWNER_ONLY: Final = 0o700
"""Permissions of a directory of journals: only users who can read the files may read the journal."""


class JournalStage(DryRunStage):
    """A `Stage` that writes.

    Args:
        layout: where the journal is.
        disk: performs the steps.
        command: name of the run's command in the journal.
        created_ms: time of the run, in ms since 1970.
        root: absolute path of the directory that the plan is for.
        is_log_dir: whether that is a log directory.
        trusted: the directories from which all files are reached.
        keeps_old: whether old content is kept, so that the run can be undone.

    Its attribute `journal` is the journal, without entries.
    """

    def __init__(
        self,
        layout: JournalLayout,
        disk: Disk,
        *,
        command: str,
        created_ms: int,
        root: str,
        is_log_dir: bool,
        trusted: TrustedDirectories,
        keeps_old: bool = True,
    ) -> None:
        super().__init__(root, kept_bytes=-1)
        self._trusted = disk.trusted = trusted
        self._layout = layout
        self._disk = disk
        self._entries: list[JournalEntry] = []
        self._created_files: list[str] = []
        self._created_directories: dict[str, None] = {}
        self._new_attributes: Attributes | None = None
        self.journal = Journal(
            layout=layout,
            command=command,
            created_ms=created_ms,
            state="prepared",
            entries=(),
            pointer_is_directory=not is_log_dir,
            trusted=trusted,
            keeps_old=keeps_old,
        )

    def prepare(self) -> Journal:
        """Fsync the staged files and the intent.

        Return the journal: from here on the changes can be made and undone.
        """
        # What a start may rebuild, and what shows that one has happened, is recorded before anything changes.
        entries = tuple(self._entries)
        known = logs_of_derived((change.path for change in self.changes), self._trusted)
        made = [change.path for change in self.changes if change.size_bytes is not None]
        known |= checkpoints_next_to_clean_shutdown(made, self._trusted)
        known |= recovery_markers(self.changes, self._layout.root, self._trusted)
        logs = {os.path.relpath(path, self._layout.root): log for path, log in known.items()}
        journal = replace(self.journal, entries=entries, logs=logs)
        if entries and self._layout.place != "top":
            self._directory_for(journal.path_of(entries[0]))
        # Names first, the intent last: an intent that names missing files would be damage.
        like = self._own_attributes()
        self._sync_directories()
        # New content of files at the top is next to the intent
        if entries and self._layout.place == "top":
            self._disk.sync_directory(self._layout.home)
        ensure_pointer_if_space(self._disk, journal, entries)
        return write_intent(self._disk, journal, "prepared", like)

    def discard(self) -> None:
        """Delete what was staged, as far as possible."""
        intent = self._layout.intent
        is_own = self._layout.place != "elsewhere" or os.path.dirname(intent) in self._created_directories
        made = [*self._created_files, f"{intent}.tmp", intent] if is_own else self._created_files
        if self._layout.place == "top" and self._trusted.exists(
            intent
        ):  # it is deleted last, and is not an intent any more
            with suppress(StorageError):
                write_beginning(self._disk, self._layout, self._own_attributes())
                made = [intent, f"{intent}.tmp", *self._created_files]
        for path in reversed(made):
            with suppress(StorageError):
                if self._trusted.exists(path):
                    self._disk.unlink(path)
        # From the innermost directory outwards.
        for directory in reversed(list(self._created_directories)):
            with suppress(StorageError):
                self._disk.remove_directory(directory)
        with suppress(StorageError):
            remove_pointer(self._disk, self.journal)

    # --- a Stage ------------------------------------------------------------------------------------------------------
    def _receive(
        self, path: str, content: Iterable[bytes | memoryview], like: str, mtime_ns: int | None
    ) -> tuple[int, str]:
        self._directory_for(path)
        staged = self._layout.staged(path, self._number)
        is_there = self._trusted.exists(path)
        # An existing file keeps its own attributes; a new one gets those of its neighbours.
        self._new_attributes = (
            Attributes.of(path, self._trusted) if is_there else Attributes.of_new_file(like, self._trusted)
        )
        self._created_files.append(staged)
        attributes = self._new_attributes if self._is_same_device(path) else None
        return self._disk.write_file(staged, content, attributes, mtime_ns)

    def _discard(self, path: str) -> None:
        self._disk.unlink(self._layout.staged(path, self._number))
        self._created_files.pop()

    def _add(self, change: Change) -> Change:
        super()._add(change)
        # A broker that was killed may have left bytes that were never fsynced: undo must restore what is really on
        # disk.
        if change.before is not None:
            self._disk.sync_file(change.path)
        entry = JournalEntry(
            number=self._number,
            kind=change.kind,
            path=os.path.relpath(change.path, self._layout.root),
            why=change.why,
            before=change.before,
            after=self._after(change),
            old_attributes=None if change.before is None else Attributes.of(change.path, self._trusted),
            new_attributes=None if change.kind in {"cut", "remove"} else self._new_attributes,
            new_sha256=change.sha256,
            swap=change.swap,
        )
        self._entries.append(self._with_old(entry, change))
        return change

    @property
    def _number(self) -> int:
        return len(self._entries) + 1

    def _after(self, change: Change) -> Fingerprint | None:
        if change.size_bytes is None:
            return None
        if change.kind == "cut":
            mtime_ns = change.before.mtime_ns if change.before else 0
            return fingerprint_start(change.path, change.size_bytes, mtime_ns, self._trusted)
        staged = self._layout.staged(change.path, self._number)
        status = self._trusted.status(staged)
        mtime_ns = 0 if status is None else status.st_mtime_ns
        # It was read back when it was written
        if change.sha256 is not None and is_hashed_whole(change.size_bytes):
            return Fingerprint(change.size_bytes, mtime_ns, change.sha256)
        return fingerprint_start(staged, change.size_bytes, mtime_ns, self._trusted)

    # --- old content --------------------------------------------------------------------------------------------------
    def _with_old(self, entry: JournalEntry, change: Change) -> JournalEntry:
        if change.before is None or not self.journal.keeps_old:
            return entry
        directory = self._directory_for(change.path)
        if change.kind == "cut":
            if directory is None:
                raise RefusedError("a file at the top of a log directory is replaced, not truncated", path=change.path)
            end = saved_tail_end(change, self._trusted)
            tail = pieces(change.path, change.size_bytes or 0, end, trusted=self._trusted)
            return replace(entry, saved="tail", saved_sha256=self._save(entry, change, "tail", tail))
        # At the top there is no directory of the journal: a directory there would stop a broker.
        if directory is None:
            return replace(entry, saved="inline", inline=b"".join(bytes(piece) for piece in self._pieces(change)))
        # A link costs no space and keeps inode, owner and times; a copy is the fallback of file systems without links.
        if self._disk.link(change.path, self._saved(entry, change, "link")):
            return replace(entry, saved="link")
        return replace(entry, saved="copy", saved_sha256=self._save(entry, change, "copy", self._pieces(change)))

    def _pieces(self, change: Change) -> Iterator[bytes | memoryview]:
        return pieces(change.path, trusted=self._trusted)

    def _save(self, entry: JournalEntry, change: Change, saved: Saved, content: Iterable[bytes | memoryview]) -> str:
        mtime_ns = change.before.mtime_ns if change.before else None
        attributes = entry.old_attributes if self._is_same_device(change.path) else None
        return self._disk.write_file(self._saved(entry, change, saved), content, attributes, mtime_ns)[1]

    def _saved(self, entry: JournalEntry, change: Change, saved: Saved) -> str:
        path = self._layout.saved(change.path, entry.number, saved)
        self._created_files.append(path)
        return path

    # --- directories --------------------------------------------------------------------------------------------------
    def _directory_for(self, path: str) -> str | None:
        """Return the journal's directory for a file, which is created if it does not exist."""
        directory = self._layout.directory(path)
        if directory is not None and directory not in self._created_directories:
            around = os.path.dirname(directory)
            if self._layout.place == "elsewhere":
                self._make_home()
            attributes = Attributes.of(around, self._trusted)
            # Before the first directory: leftovers without this mark would look like a journal that lost its intent.
            if self._layout.place == "top" and not self._created_directories:
                write_beginning(self._disk, self._layout, self._own_attributes())
            # Never into an existing directory: it may hold another run's old content.
            if self._trusted.exists(directory):
                raise RefusedError("another run has just taken this name; run the same command again", path=directory)
            self._created_directories[directory] = None
            self._disk.make_directory(directory, replace(attributes, mode=0o700 | attributes.mode & 0o777, extended={}))
            if self._layout.place == "top":
                marker = f"{directory}/{OF_SEVERAL}"
                self._created_files.append(marker)
                self._disk.write_file(marker, (), self._own_attributes(), None)
            elif self._layout.place == "elsewhere" and free_bytes(self._layout.root) >= _SPARE_BYTES:
                # A pointer to a directory that a loss of power took away stops every command
                self._sync_directories()
                ensure_pointer(self._disk, self.journal)  # should this be killed, what it left is found from the root
        return directory

    def _sync_directories(self) -> None:
        """Fsync every directory that was created, and its name."""
        for directory in self._created_directories:
            self._disk.sync_directory(directory)
            self._disk.sync_directory(os.path.dirname(directory))

    def _is_same_device(self, path: str) -> bool:
        """Return whether the journal is on the file system of a file; its copy then gets the file's attributes too."""
        directory = self._layout.directory(path) or self._layout.home
        return self._trusted.device(directory) == self._trusted.device(os.path.dirname(path))

    def _own_attributes(self) -> Attributes:
        """Return the attributes of the journal's own files: the owner of the directory may read and delete them."""
        return Attributes.of_new_file(self._layout.home, self._trusted)

    def _make_home(self) -> None:
        """Create the directory of journals elsewhere, and those above it, if they do not exist."""
        missing = []
        path = self._layout.home
        while not self._trusted.exists(path):
            missing.append(path)
            path = os.path.dirname(path)
        own = Attributes(uid=os.geteuid(), gid=os.getegid(), mode=_OWNER_ONLY)
        for directory in reversed(missing):
            self._created_directories[directory] = None
            self._disk.make_directory(directory, own)


_WRITTEN: Final = frozenset({"replace", "create"})
Content = tuple[list[bytes | memoryview], str, int | None]


class ContentStage:
    """A `Stage` that collects new content by its path: the pieces, `like` and `mtime_ns`."""

    def __init__(self) -> None:
        self.found: dict[str, Content] = {}

    def write(
        self,
        path: str,
        content: Iterable[bytes | memoryview],
        *,
        why: str,
        like: str,
        mtime_ns: int | None = None,
        swap: int | None = None,
    ) -> None:
        """Keep the content of a file."""
        del why, swap
        self.found[path] = (list(content), like, mtime_ns)

    def cut(self, path: str, size_bytes: int, *, why: str) -> None:
        """Ignore a truncation: the file holds its content."""

    def remove(self, path: str, *, why: str, swap: int | None = None) -> None:
        """Ignore a deletion."""


def make_directly(disk: Disk, run: str, changes: Sequence[Change], contents: ContentStage) -> Iterator[Change]:
    """Make changes one by one, without an intent, and yield each before it is made. The directories are locked.

    Args:
        disk: performs the steps.
        run: name of the run, which temporary files begin with.
        changes: whole groups from the first change of the plan on, none of them part of a segment replacement.
        contents: the new content of their files.

    Raises:
        StorageError: a file is not the planned one (RefusedError), or the system refuses a step (WriteError).
    """
    number = 0
    for group in grouped(changes):
        has = {change.path: _attributes(disk, change, contents) for change in group if change.kind in _WRITTEN}
        ordered, deleted = list(group), set[str]()
        # As in the journalled way (`commit._deleted_first`).
        if may_delete_first(group) and free_bytes(os.path.dirname(group[0].path)) < _written(group):
            ordered.sort(key=lambda change: is_offset_index(change.path))
            for change in reversed([each for each in ordered if each.before is not None]):
                yield change
                _check(disk, change.path, change.before)
                disk.unlink(change.path)
                deleted.add(change.path)
                disk.sync_directory(os.path.dirname(change.path))
        for change in ordered:
            number += 1
            yield change
            directory = os.path.dirname(change.path)
            _check(disk, change.path, None if change.path in deleted else change.before)
            if change.kind == "cut":
                disk.cut(change.path, change.size_bytes or 0, change.before.mtime_ns if change.before else 0)
                continue
            if change.kind == "remove":
                disk.unlink(change.path)
            else:
                content, _, mtime_ns = _content(disk, change, contents)
                _write(disk, change.path, f"{directory}/{run}.{number:04d}.tmp", content, has[change.path], mtime_ns)
            disk.sync_directory(directory)


def _write(
    disk: Disk,
    path: str,
    temporary: str,
    content: Iterable[bytes | memoryview],
    attributes: Attributes,
    mtime_ns: int | None,
) -> None:
    try:
        disk.write_file(temporary, content, attributes, mtime_ns)
        disk.rename(temporary, path)
    # What this attempt wrote is removed: nothing else would find it, because there is no journal.
    except (KafkalogError, KeyboardInterrupt):
        with suppress(StorageError):
            disk.unlink(temporary)
        raise


def _written(group: Sequence[Change]) -> int:
    return sum(rounded(change.size_bytes or 0) for change in group)


def _check(disk: Disk, path: str, before: Fingerprint | None) -> None:
    if fingerprint(path, disk.trusted) != before:
        raise RefusedError("has changed since it was planned; run the same command again", path=path)


def _attributes(disk: Disk, change: Change, contents: ContentStage) -> Attributes:
    if change.before is not None:
        return Attributes.of(change.path, disk.trusted)
    return Attributes.of_new_file(_content(disk, change, contents)[1], disk.trusted)


def _content(disk: Disk, change: Change, contents: ContentStage) -> Content:
    """Return new content; for a file with another hard link, which keeps its bytes, the bytes of the shorter copy."""
    found = contents.found.get(change.path)
    if found is not None:
        return found
    start = [bytes(piece) for piece in pieces(change.path, 0, change.size_bytes or 0, trusted=disk.trusted)]
    return [*start], change.path, change.before.mtime_ns if change.before else None
