"""Journals on a disk: finding them, and the sentences and command lines of messages about them."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.command_lines import shell_line, shell_path
from kafkalog_core.errors import FieldError, NotFoundError, RefusedError, StorageError
from kafkalog_core.format.names import JOURNAL_PREFIX, journal_run
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.access import open_error
from kafkalog_core.storage.changing.journal import (
    FREED,
    INTENT,
    MOST_BYTES,
    OF_SEVERAL,
    Journal,
    parse_journal,
)
from kafkalog_core.storage.changing.space import STAT_BLOCK_BYTES
from kafkalog_core.storage.changing.trusted import LinkError, TrustedDirectories
from kafkalog_core.storage.locks import holder_at_work
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


__all__ = [
    "FoundJournals",
    "Remains",
    "UntrustedPlace",
    "at_work_refusal",
    "find_journals",
    "held_bytes",
    "interrupted_refusal",
    "leading_directory",
    "prune_command",
    "real_path",
    "remains_bytes",
    "resume_command",
    "trust_problem",
    "undo_command",
    "unreadable_refusal",
    "untrusted_places",
]


_OTHERS_WRITE: Final = 0o022
_NEW_CONTENT: Final = ("new-", OF_SEVERAL, f"{INTENT}.tmp")
_OLD_CONTENT: Final = ("old-", "tail-")
_WITHOUT_INTENT: Final = (
    "it holds old content of files but no intent: either the run ended while it saved that content, before it changed "
    "anything, or the intent was deleted"
)


class Remains(Struct, frozen=True):
    """Files with the name of a journal that are not one: left by a run that ended before it changed anything.

    Args:
        run: the name.
        paths: its files and directories, outer ones first.
        reason: why it is not a journal, one clause.
        trusted: the directories from which its files are reached.
        is_unreadable: whether there is a journal that cannot be read, whose content may be needed.
    """

    run: str
    paths: tuple[str, ...]
    reason: str
    trusted: TrustedDirectories
    is_unreadable: bool = False

    @property
    def is_new_content(self) -> bool:
        """Whether it holds only new content that was never put in place, which the next run may delete."""
        names = (os.path.basename(path) for path in self.paths)
        return not self.is_unreadable and all(name.startswith((self.run, *_NEW_CONTENT)) for name in names)


class FoundJournals(Struct, frozen=True):
    """Journals by name, which is the order of their times, and the remains of others."""

    journals: tuple[Journal, ...] = ()
    remains: tuple[Remains, ...] = ()


class UntrustedPlace(Struct, frozen=True):
    """A directory that a journal leads to and the user did not name; `target` is its real path if it is a link."""

    path: str
    target: str | None = None


class _Traces(Struct):
    """The files of one run.

    `trusted` is None if only the named directories are trusted. `is_begun`: a file shows that the run ended before its
    intent. `read`: the paths whose intent was looked for.
    """

    paths: list[str] = field(default_factory=list)
    read: set[str] = field(default_factory=set)
    journal: Journal | None = None
    problem: str | None = None
    trusted: TrustedDirectories | None = None
    is_begun: bool = False


def find_journals(root: str, also: Iterable[str] = ()) -> FoundJournals:
    """Return the journals in a directory and in those directly in it.

    Args:
        root: absolute path of the directory.
        also: absolute paths of other directories that the user named: the directory of a journal elsewhere, or the one
            that it changed, and the targets of partitions in `root` that are links.

    Raises:
        StorageError: the directory does not exist (NotFoundError) or cannot be listed (AccessError).
    """
    return _JournalSearch(root, tuple(dict.fromkeys((root, *also)))).found()


def untrusted_places(journal: Journal) -> list[UntrustedPlace]:
    """Return the directories that a journal leads to and that the user did not name, each once."""
    layout = journal.layout
    around = (os.path.dirname(journal.path_of(entry)) for entry in journal.entries)
    found = []
    for path in dict.fromkeys((layout.root, layout.home, *around, *journal.directories())):
        try:
            journal.trusted.directory(path)
        except LinkError as error:
            found.append(UntrustedPlace(error.path or path, error.target))
        except RefusedError:
            found.append(UntrustedPlace(path))
        except StorageError:
            continue  # a directory that was deleted: the caller that needs its files reports it
    return list(dict.fromkeys(found))


def _to_be_named(journal: Journal) -> tuple[str, ...]:
    """Return the directories that the user has to name in addition to the root to use a journal."""
    layout = journal.layout
    strict = TrustedDirectories((layout.root,))
    if layout.place == "elsewhere":
        both = TrustedDirectories((layout.root, layout.home))
        strict = both if _is_of_this_user(both, f"{layout.home}/{layout.run}") else strict
    places = untrusted_places(replace(journal, trusted=strict))
    return tuple(place.target or place.path for place in places if place.path != f"{layout.home}/{layout.run}")


def undo_command(root: str, journal: Journal, *options: str) -> str:
    """Return the command line that undoes a run. `root` is the directory that leads to its journal."""
    return f"kafkalog undo {_words(root, journal)} --run {shell_line((journal.run, *options, '--apply'))}"


def prune_command(root: str, journal: Journal) -> str:
    """Return the command line that frees a journal."""
    return f"kafkalog undo {_words(root, journal)} --prune --run {journal.run} --apply"


def resume_command(root: str, journal: Journal) -> str:
    """Return the command line that finishes a run."""
    return f"kafkalog apply --resume {_words(root, journal)}"


def _words(root: str, journal: Journal) -> str:
    """Return the directories to name on a command line: the one that leads to the journal, and all that it changes."""
    changed = journal.layout.root
    named = [root] if f"{changed}/".startswith(f"{root}/") else [root, changed]
    return shell_line(dict.fromkeys((*named, *_to_be_named(journal))))


def leading_directory(journal: Journal) -> str:
    """Return the directory that leads to a journal: the root of the run, or the journal's own without a pointer."""
    pointer = journal.pointer
    return journal.layout.root if pointer is None or os.path.lexists(pointer) else journal.layout.home


def held_bytes(journal: Journal) -> int:
    """Return the number of bytes that pruning a journal frees: its intent, copies, tails and unlinked old files."""
    paths = {path for path in (journal.layout.intent, journal.pointer) if path is not None}
    for directory in journal.directories():
        with suppress(StorageError):
            paths.update(f"{directory}/{name}" for name in journal.trusted.names(directory))
    total = 0
    for path in paths:
        with suppress(StorageError):
            status = journal.trusted.status(path)
            # A link to a file that is still in place frees nothing.
            total += status.st_size if status is not None and status.st_nlink == 1 else 0
    return total


def remains_bytes(found: FoundJournals) -> int:
    """Return the number of bytes that the next run frees: new content that earlier runs never put in place."""
    statuses = (
        remains.trusted.status(path) for remains in found.remains if remains.is_new_content for path in remains.paths
    )
    return sum(status.st_blocks * STAT_BLOCK_BYTES for status in statuses if status is not None)


def real_path(path: str) -> str:
    """Return the path of a file without links in its directory; the file itself is never a link."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


class _JournalSearch:
    """The search of one directory. Links to partitions are followed to read them, never to change anything.

    Args:
        root: the directory.
        named: that directory and all others that the user named.
    """

    def __init__(self, root: str, named: tuple[str, ...]) -> None:
        self._root = root
        self._named = named
        self._trusted = TrustedDirectories(named)
        # Read through the directory above too, because a partition of a link is listed there; changes use `_trusted`,
        # which follows no link.
        self._reader = TrustedDirectories((os.path.dirname(root), *named), follows_links=True)
        self._runs: dict[str, _Traces] = {}

    def found(self) -> FoundJournals:
        for directory in (self._root, *_directories(self._root)):
            for name in self._names(directory):
                run = journal_run(name)
                if run is not None:
                    self._see(run, directory, f"{directory}/{name}")
        journals = [traces.journal for traces in self._runs.values() if traces.journal is not None]
        remains = [self._remains(run, traces) for run, traces in sorted(self._runs.items()) if traces.journal is None]
        return FoundJournals(tuple(sorted(journals, key=lambda journal: journal.order)), tuple(remains))

    def _names(self, directory: str) -> list[str]:
        try:
            names = self._reader.names(directory)
        except StorageError:
            if directory == self._root:
                raise
            # A directory that cannot be listed is reported by the caller that reads it
            return []
        return [name for name in names if name.startswith(JOURNAL_PREFIX)]

    def _see(self, run: str, directory: str, path: str) -> None:
        traces = self._runs.setdefault(run, _Traces())
        traces.paths.append(path)
        path = path.removesuffix(FREED)
        if os.path.basename(path) != run:
            return
        try:
            self._read(traces, run, path)
            if not self._is_link(path) and self._reader.exists(f"{path}/{OF_SEVERAL}"):
                self._read_above(traces, run, directory)
        except (StorageError, FieldError) as error:
            traces.problem = f"{error.path or path}: {error.message}"

    def _is_link(self, path: str) -> bool:
        status = self._reader.status(path)
        return status is not None and stat.S_ISLNK(status.st_mode)

    def _read(self, traces: _Traces, run: str, path: str) -> None:
        """Read the intent that a path is, or holds, if there is one; once, although each partition leads to it."""
        # Every partition of a run leads to the same intent.
        if path in traces.read:
            return
        traces.read.add(path)
        if self._is_link(path):
            raise FieldError("is a symbolic link, which kafkalog does not create", path=path)
        is_directory = self._reader.is_directory(path)
        intent = _intent(self._reader, f"{path}/{INTENT}" if is_directory else path)
        if intent is None:
            return
        place: Literal["partition", "top"] = "partition" if is_directory else "top"
        journal = _parsed(self._reader, intent, run, os.path.dirname(path), place)
        if isinstance(journal, str):
            self._read_elsewhere(traces, run, journal, path, is_directory=is_directory)
        elif journal is not None:
            traces.journal = self._of_named(journal)
        else:
            traces.is_begun = True

    def _of_named(self, journal: Journal) -> Journal:
        """Return a journal with the directories that the user named.

        One from elsewhere changes the directory that was named for it.
        """
        layout = journal.layout
        if layout.place == "elsewhere":
            same = next((each for each in self._named if each != layout.home and _is_same(each, layout.root)), None)
            layout = replace(layout, root=same or layout.root)
        return replace(journal, layout=layout, trusted=self._trusted)

    def _read_above(self, traces: _Traces, run: str, partition: str) -> None:
        """Read the intent of a run that changed more than this partition; without it this part cannot be used."""
        above = f"{os.path.dirname(partition)}/{run}"
        if _intent(self._reader, above) is not None:
            self._read(traces, run, above)
        else:
            traces.problem = f"{above}, to which this part belongs, is missing"

    def _read_elsewhere(self, traces: _Traces, run: str, home: str, pointer: str, *, is_directory: bool) -> None:
        """Read the intent in another directory; if that exists without an intent, the run had not begun.

        The pointer may be in a copy of what was changed. While the original exists, the journal belongs to it; a
        directory that was moved since, or is mounted elsewhere now, keeps its journal.
        """
        home = next((each for each in self._named if _is_same(each, home)), home)
        reader = self._reader_of(home)
        directory, named = f"{home}/{run}", f"{home}/{run}/{INTENT}"
        # A home that the user named, or that only this user can write to, is trusted.
        is_ours = home in self._named or _is_of_this_user(reader, directory)
        traces.trusted = reader if is_ours else None
        journal, intent = None, _intent(reader, named)
        if not reader.is_directory(directory) or intent is not None:
            journal = _parsed(reader, intent or named, run, home, "partition")
        if journal is None:
            traces.paths += [directory] if is_ours else []
            return
        if isinstance(journal, str) or journal.layout.place != "elsewhere":
            raise FieldError("leads to a file that is not the journal of this run", path=pointer)
        if journal.pointer_is_directory != is_directory:
            raise FieldError(f"leads to a journal of another kind of directory, {directory}", path=pointer)
        root = os.path.dirname(pointer)
        # The original directory still exists, so this is a copy: to undo there would change the wrong files.
        if not _is_same(journal.layout.root, root) and os.path.lexists(journal.layout.root):
            message = (
                f"belongs to {journal.layout.root}, of which this directory is a copy; the journal is in {directory}"
            )
            raise FieldError(message, path=pointer)
        layout = replace(journal.layout, root=root)
        traces.journal = replace(journal, layout=layout, trusted=traces.trusted or self._trusted)

    def _reader_of(self, home: str) -> TrustedDirectories:
        try:
            return TrustedDirectories((*self._named, home))
        except NotFoundError as error:
            raise FieldError("does not exist; if it is on another disk, mount that disk", path=home) from error

    def _remains(self, run: str, traces: _Traces) -> Remains:
        trusted = traces.trusted or self._trusted
        paths = tuple(inner for path in traces.paths for inner in _with_content(trusted, path))
        if traces.problem is not None:
            reason = f"its journal cannot be read ({traces.problem})"
            return Remains(run, paths, reason, trusted, is_unreadable=True)
        holds_old = any(os.path.basename(path).startswith(_OLD_CONTENT) for path in paths)
        if holds_old and not traces.is_begun:
            return Remains(run, paths, _WITHOUT_INTENT, trusted)
        return Remains(run, paths, "the run ended before it changed anything", trusted)


def _directories(root: str) -> list[str]:
    """Return the directories directly in a directory, each once: by its own name rather than that of a link."""
    try:
        status = os.stat(root)
        with os.scandir(root) as entries:
            named = sorted((entry.is_symlink(), entry.path) for entry in entries if journal_run(entry.name) is None)
    except OSError as error:
        raise open_error(root, error) from error
    found: dict[tuple[int, int], str] = {}
    for _, path in named:
        # A link that leads nowhere, or to itself
        with suppress(OSError):
            inner = os.stat(path)
            if stat.S_ISDIR(inner.st_mode) and not os.path.samestat(inner, status):
                found.setdefault((inner.st_dev, inner.st_ino), path)
    return sorted(found.values())


def _parsed(
    reader: TrustedDirectories, path: str, run: str, home: str, place: Literal["partition", "top"]
) -> Journal | str | None:
    with reader.source(path) as source:
        # A size limit before the read: the name may have been given to any file.
        if source.size_bytes > MOST_BYTES:
            raise FieldError("is larger than any journal", path=path)
        content = source.read(0, source.size_bytes)
    try:
        journal = parse_journal(content, run, home, place)
    except FieldError as error:
        raise FieldError(error.message, path=path) from error
    if isinstance(journal, Journal) and path.endswith(FREED):
        return replace(journal, state="pruning", layout=replace(journal.layout, is_freed=True))
    return journal


def _intent(reader: TrustedDirectories, path: str) -> str | None:
    """Return the file of an intent, which has another name while it is freed; None: there is none."""
    # The intent has the suffix while it is being freed.
    return next((name for name in (path, f"{path}{FREED}") if reader.exists(name)), None)


def _is_of_this_user(reader: TrustedDirectories, directory: str) -> bool:
    """Return whether only this user can have written to a directory elsewhere, so that it need not be named."""
    try:
        status = os.fstat(reader.directory(directory))
    except StorageError:
        return False
    # Any other writer could have put a journal there that gives files away.
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _with_content(trusted: TrustedDirectories, path: str) -> Iterator[str]:
    yield path
    with suppress(StorageError):
        yield from (f"{path}/{name}" for name in trusted.names(path))


def trust_problem(journal: Journal) -> Refusal | None:
    """Return why a journal is not used: it leads to directories that the user did not name; None: it does not."""
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
        why = f"{journal.run} changed files in {root}, which you did not name: only the journal claims that"
    else:
        why = f"{journal.run} leads to {place.path}, which you did not name: anyone who can write there could change it"
    command = undo_command(leading_directory(journal), journal)
    return Refusal(why, (WayOut("if the journal is right, name all directories", command),))


def at_work_refusal(root: str, what: str) -> Refusal | None:
    """Return that another process may be at work in a directory; None: none holds its lock.

    `what` of that process may be at work, such as `the truncate of RUN`.
    """
    holder = holder_at_work(root)
    if holder is None:
        return None
    again = WayOut("when it has ended, run the same command again")
    return Refusal(f"{root}: {what} may be at work: {holder} holds the lock", (again,))


def interrupted_refusal(journal: Journal) -> Refusal:
    """Return that a run has not ended, and the commands that finish or undo it.

    The run was interrupted only if no other process holds the lock.
    """
    root, place = journal.layout.root, leading_directory(journal)
    at_work = at_work_refusal(root, f"the {journal.command} of {journal.run}")
    if at_work is not None:
        return at_work
    if not journal.keeps_old:
        reason = f"{root}: an earlier {journal.command} with --no-undo was interrupted between its files"
        return Refusal(reason, (WayOut("finish it first", resume_command(place, journal)),))
    undo = undo_command(place, journal)
    if journal.state == "undoing":
        return Refusal(f"{root}: the undo of an earlier run was interrupted", (WayOut("finish it first", undo),))
    return Refusal(
        f"{root}: an earlier {journal.command} was interrupted between its files",
        (WayOut("finish it first", resume_command(place, journal)), WayOut("undo it", undo)),
    )


def unreadable_refusal(root: str, remains: Remains) -> Refusal:
    """Return that a journal cannot be read, with the command that deletes it."""
    prune = f"kafkalog undo {shell_path(root)} --prune --run {remains.run} --apply"
    return Refusal(
        f"{remains.paths[0]}: {remains.reason}, so it is unknown whether an earlier run was interrupted",
        (WayOut("restore the file from a copy"), WayOut("delete the journal", prune)),
    )
