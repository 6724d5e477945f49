"""How far a run came, read from the files themselves, and whether it can be finished or undone."""

from __future__ import annotations

import os
import stat
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from kafkalog_core.command_lines import shell_path, shell_word
from kafkalog_core.errors import DeniedError, NotFoundError, RefusedError, StorageError
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.changing.changes import (
    INDEXES,
    SWAP,
    fingerprint,
    fingerprint_of_bytes,
    fingerprint_start,
    pieces,
    status_of,
    swap_name,
    whole_hash,
)
from kafkalog_core.storage.changing.derived import (
    CLEAN_SHUTDOWN_FILE,
    has_broker_run,
    is_rebuilt,
    unrecovered_ends,
)
from kafkalog_core.storage.changing.journal_search import leading_directory, prune_command, resume_command, undo_command
from kafkalog_core.storage.changing.writer import SUPERUSER, Attributes
from kafkalog_core.storage.framing import count_zeros
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalog_core.storage.changing.changes import Fingerprint
    from kafkalog_core.storage.changing.journal import Journal, JournalEntry
    from kafkalog_core.storage.changing.trusted import TrustedDirectories

__all__ = [
    "FileState",
    "States",
    "check_new",
    "check_old",
    "check_owners",
    "check_resumed",
    "giving_up",
    "is_stuck",
    "old_problems",
    "state_of",
]


FileState = Literal["before", "after", "halfway", "neither"]


States: TypeAlias = "list[tuple[JournalEntry, FileState]]"


_SECTOR_BYTES: Final = 512
"""The smallest unit that a disk writes atomically: a loss of power may tear a write at any multiple of it."""


def state_of(journal: Journal, entry: JournalEntry) -> FileState:
    """Return whether a file is as it was before its change or as it is after it.

    `halfway` is a truncation that is being undone, or whose modification time is not restored yet, or an index that was
    deleted before its successor is written, or a file that a start has rebuilt from the log (`derived`). A rebuilt file
    counts as `before` if the run had not changed it yet, and as `after` if it had.
    """
    state = _state_of_ours(journal, entry)
    if state == "neither" and is_rebuilt(journal, entry, lambda log: _state_of_ours(journal, log) != "neither"):
        return _side_of(journal, entry)
    return state


def _side_of(journal: Journal, entry: JournalEntry) -> FileState:
    """Return which file a broker has continued with.

    It writes indexes in place, so that other names of the file show it too.
    """
    trusted, path = journal.trusted, journal.path_of(entry)
    # A staged name that has gone, or is the file itself, shows that the rename has happened.
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


def _state_of_ours(journal: Journal, entry: JournalEntry) -> FileState:
    """Return the state of a file that no other process has written."""
    path = journal.path_of(entry)
    trusted = journal.trusted
    now = fingerprint(path, trusted)
    # The directory too: a partition that was deleted meanwhile has neither state.
    if now in {entry.before, entry.after} and trusted.is_directory(os.path.dirname(path)):
        return "before" if now == entry.before and not _is_of_replacement(journal, entry) else "after"
    if entry.kind != "cut" or now is None or entry.before is None or entry.after is None:
        is_deleted = now is None and _may_be_deleted(journal, entry)
        of_replacement = now is not None and _is_of_replacement(journal, entry, now)
        return "halfway" if is_deleted else "after" if of_replacement else "neither"
    size_bytes = entry.after.size_bytes
    # In between: an interrupted extension of an undo, or the writes of a broker.
    if not size_bytes <= now.size_bytes <= entry.before.size_bytes:
        return "neither"
    if fingerprint_start(path, size_bytes, entry.after.mtime_ns, trusted) != entry.after:
        return "neither"
    if now.size_bytes == size_bytes:
        return "halfway"
    is_ours = journal.state == "undoing" and _is_prefix_of_tail(journal, entry, now.size_bytes)
    return "halfway" if is_ours else "neither"


def _is_of_replacement(journal: Journal, entry: JournalEntry, now: Fingerprint | None = None) -> bool:
    """Return whether the `.swap` file that a run deletes is gone, and a file of this name is of the same run.

    A replacement that the run makes afterwards uses the name for a new or an old file, which may have the same bytes.

    Args:
        journal: the run.
        entry: of the file.
        now: the file of this name; None: it has the bytes of the deleted one.
    """
    path, trusted = journal.path_of(entry), journal.trusted
    if entry.kind != "remove" or not path.endswith(SWAP):
        return False
    if now is None:
        saved = journal.layout.saved(path, entry.number, entry.saved)
        return entry.saved == "link" and trusted.exists(saved) and not trusted.is_same(saved, path)
    others = (other for other in journal.entries if other.swap is not None)
    return any(swap_name(journal.path_of(other)) == path and now in {other.before, other.after} for other in others)


def check_new(journal: Journal) -> States:
    """Return the state of each file of a run that is about to be made.

    Raises RefusedError if one is neither as before nor as after, or if new content that is still needed is not whole.
    """
    return _checked_new(journal, _states(journal, journal.entries, _state_of_ours))


def check_resumed(journal: Journal) -> States:
    """Return the same for a journal that was read from a file, whose owners and permissions are checked too.

    A broker may have started since.
    """
    states = _checked_new(journal, _states(journal, journal.entries))
    for entry, state in states:
        is_mark = os.path.basename(entry.path) == CLEAN_SHUTDOWN_FILE and entry.after is not None
        if is_mark and state != "after" and has_broker_run(journal):
            problem = "would declare all logs whole, but a broker has run since kafkalog was interrupted"
            raise RefusedError(_undo_first(journal, problem), path=journal.path_of(entry))
    copied = [entry for entry, state in states if state != "after" and _is_copied(journal, entry)]
    check_owners(journal, [(entry, entry.new_attributes) for entry in copied])
    return states


def _checked_new(journal: Journal, states: States) -> States:
    for entry, state in states:
        is_needed = state == "halfway" or (state == "before" and _is_needed(journal, entry))
        if is_needed and entry.after is not None and entry.kind != "cut":
            _check_staged(journal, entry)
    return states


def check_old(journal: Journal) -> States:
    """Return the state of each file of a run that is to be undone, the last first, without entries that are left.

    Raises RefusedError if one is neither as before nor as after, or if its old content is missing.
    """
    states = _states(journal, (entry for entry in reversed(journal.entries) if entry.number not in journal.left))
    for problem in old_problems(journal, states).values():
        raise RefusedError(_finish_instead(journal, problem))
    check_owners(
        journal,
        [(entry, entry.old_attributes) for entry, state in states if state != "before" and _is_copied(journal, entry)],
    )
    return states


def old_problems(journal: Journal, states: States) -> dict[int, str]:
    """Return why the old content of files must not or cannot be restored, by the numbers of their entries.

    The ends of logs that a start would not recover have one text together.
    """
    ends, markers = unrecovered_ends(journal, (entry for entry, state in states if state != "before"))
    logs = count_of(len({os.path.dirname(entry.path) for entry in ends}), "log")
    text = (
        f"{' and '.join(markers)}: written after this run, most likely by a broker that was started. The next start "
        f"would therefore serve the old end of {logs} without a check, damage too. To restore it, first move "
        f"{'this file' if len(markers) == 1 else 'these files'} out of the log directory: the next start then recovers "
        "the logs, which takes longer"
    )
    found = dict.fromkeys((entry.number for entry in ends), text)
    for entry, state in states:
        if entry.number not in found:
            problem = _saved_problem(journal, entry, state)
            if problem is not None:
                found[entry.number] = problem
    return found


def _saved_problem(journal: Journal, entry: JournalEntry, state: FileState) -> str | None:
    """Return why the old content of a file cannot be restored; None: it can, or need not be."""
    if entry.before is None or (state == "before" and not entry.is_same):
        return None
    path, layout = journal.path_of(entry), journal.layout
    if entry.saved == "nothing":
        return f"{path}: the journal holds no old content of it"
    saved = layout.intent if entry.saved == "inline" else layout.saved(path, entry.number, entry.saved)
    try:
        is_whole = _is_whole(journal.trusted, saved, entry)
    # What is missing is reported by its reader; what may not be read needs another user.
    except DeniedError:
        raise
    except StorageError as error:
        return f"{path}: its old content in the journal cannot be read: {saved}: {error.message}"
    return None if is_whole else f"{path}: its old content in the journal has changed: {saved}"


def is_stuck(journal: Journal) -> bool:
    """Return whether a run that was interrupted can be neither finished nor undone."""
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
    # An interrupted run that can go neither way: a person decides, with `--prune`.
    return journal.is_interrupted


def _states(
    journal: Journal, entries: Iterable[JournalEntry], state_of: Callable[[Journal, JournalEntry], FileState] = state_of
) -> States:
    states = [(entry, state_of(journal, entry)) for entry in entries]
    for entry, state in states:
        if state == "neither":
            problem = f"has changed since {journal.run} was written"
            raise RefusedError(_give_up(journal, problem), path=journal.path_of(entry))
    return states


def _is_copied(journal: Journal, entry: JournalEntry) -> bool:
    """Return whether a file gets the attributes in the journal; other files are renamed and keep their own."""
    path, trusted = journal.path_of(entry), journal.trusted
    # Copies get owner and mode from the journal; a journal that someone else wrote could hand out files
    # (`check_owners`).
    home, around = journal.layout.directory(path), os.path.dirname(path)
    if home is None or entry.saved == "inline" or entry.swap is not None or trusted.has_other_names(path):
        return True
    return trusted.is_directory(home) and trusted.device(home) != trusted.device(around)


def _is_needed(journal: Journal, entry: JournalEntry) -> bool:
    """Return whether new content is not in place yet, as the journal shows for a file that does not change."""
    return not entry.is_same or journal.trusted.exists(journal.layout.staged(journal.path_of(entry), entry.number))


def _may_be_deleted(journal: Journal, entry: JournalEntry) -> bool:
    """Return whether an interrupted run may have deleted the file of an entry before it wrote the new one."""
    is_index = entry.kind == "replace" and entry.swap is None and entry.path.endswith(INDEXES)
    return is_index and journal.is_interrupted and journal.trusted.is_directory(os.path.dirname(journal.path_of(entry)))


def _undo_first(journal: Journal, problem: str) -> Refusal:
    """Return the refusal of a run whose new content is lost, with the command that undoes it."""
    if not journal.keeps_old:
        return _give_up(journal, problem)
    return Refusal(problem, (WayOut("undo the run", undo_command(leading_directory(journal), journal)),))


def _give_up(journal: Journal, problem: str) -> Refusal:
    """Return the refusal of a run that can be neither finished nor undone as it is."""
    return Refusal(problem, (giving_up(journal),)).before_any_change()


def giving_up(journal: Journal) -> WayOut:
    """Return the way out that keeps the files as they are, with what only the journal still has."""
    saved = ", which has the only copy of what this run deleted or replaced" if journal.keeps_old else ""
    command = prune_command(leading_directory(journal), journal)
    return WayOut(f"keep the files as they are and delete the journal{saved}", command)


def _finish_instead(journal: Journal, problem: str) -> Refusal:
    """Return the refusal of a run whose old content is lost."""
    if journal.state != "prepared":
        return _give_up(journal, problem)
    finish = WayOut("finish the run instead", resume_command(leading_directory(journal), journal))
    return Refusal(problem, (finish,)).before_any_change()


def _check_staged(journal: Journal, entry: JournalEntry) -> None:
    staged = journal.layout.staged(journal.path_of(entry), entry.number)
    try:
        is_same = fingerprint(staged, journal.trusted) == entry.after
        is_whole = is_same and whole_hash(staged, journal.trusted) == entry.new_sha256
    except StorageError as error:
        problem = f"the new content of {entry.path} cannot be read: {error.message}"
        raise RefusedError(_undo_first(journal, problem), path=staged) from error
    if not is_whole:
        raise RefusedError(_undo_first(journal, f"the new content of {entry.path} has changed"), path=staged)


def _is_whole(trusted: TrustedDirectories, path: str, entry: JournalEntry) -> bool:
    """Return whether saved content is unchanged: a copy to its last byte, a linked file by its fingerprint."""
    before = entry.before
    if before is None:
        return False
    if entry.saved == "inline":
        return fingerprint_of_bytes(entry.inline or b"", before.mtime_ns) == before
    now = status_of(path, trusted)
    start = entry.after.size_bytes if entry.saved == "tail" and entry.after else 0
    if now is None:
        raise NotFoundError("no such file or directory", path=path)
    lacking = before.size_bytes - start - now.st_size
    # A tail is saved without the hole at its end
    if lacking < 0 or (lacking and entry.saved != "tail"):
        return False
    if entry.saved in {"copy", "tail"}:
        return whole_hash(path, trusted) == entry.saved_sha256
    found = fingerprint(path, trusted)
    return found is not None and found.sha256 == before.sha256


def _is_prefix_of_tail(journal: Journal, entry: JournalEntry, size_bytes: int) -> bool:
    """Return whether the bytes after a truncation are those of an interrupted undo: its tail, or zeros, by sector.

    After the end of the saved tail there are zeros up to the old size (`saved_tail_end`).

    A loss of power can leave the new size with zeros in place of the bytes, also within a page of 4096 bytes: ext4
    orders only newly allocated blocks before the size (`data=ordered`), and an append to a partly filled block
    allocates none.
    """
    path = journal.path_of(entry)
    start = entry.after.size_bytes if entry.after else 0
    saved = journal.layout.saved(path, entry.number, "tail")
    status = status_of(saved, journal.trusted)
    if status is None:
        return False
    position, kept_end = 0, min(size_bytes, start + status.st_size)
    with journal.trusted.source(path) as source:
        # Bytes after the saved tail must be the zeros of the hole.
        if count_zeros(source, kept_end, size_bytes) < size_bytes - kept_end:
            return False
    for piece in pieces(path, start, kept_end, trusted=journal.trusted):
        there = bytes(piece)
        expected = pieces(saved, position, position + len(there), trusted=journal.trusted)
        kept = b"".join(bytes(part) for part in expected)
        if there != kept and not _is_torn(there, kept, start + position):
            return False
        position += len(there)
    return True


def _is_torn(there: bytes, kept: bytes, position: int) -> bool:
    """Return whether each sector holds the intended bytes, or zeros because the write never reached the disk."""
    # At file positions, not buffer positions: sectors are aligned to the disk.
    bounds = [0, *range(-position % _SECTOR_BYTES, len(there), _SECTOR_BYTES), len(there)]
    return all(there[begin:end] in {kept[begin:end], bytes(end - begin)} for begin, end in pairwise(bounds))


_HARMLESS: Final = ("user.", "system.posix_acl_access")
"""Extended attributes that the owner of a file may set; `security.capability` is not one of them."""


def check_owners(journal: Journal, wanted: Iterable[tuple[JournalEntry, Attributes | None]]) -> None:
    """Raise RefusedError if a journal would give a file an owner or a label that is not found in its directory.

    Root is checked alone: the system keeps other users from doing so.
    """
    # Only root can give files away.
    if os.geteuid() != SUPERUSER:
        return
    known: dict[str, _Known] = {}
    for entry, attributes in wanted:
        if attributes is not None:
            path = journal.path_of(entry)
            directory = os.path.dirname(path)
            there = known.setdefault(directory, _Known(journal.trusted, directory))
            problem = there.problem(attributes)
            if problem is not None:
                raise RefusedError(
                    f"{journal.run} would give it {problem}; run kafkalog undo as the owner of the directory instead",
                    path=path,
                )


class _Known:
    """Owners and labels of a directory and its files. A file of root with other hard links may not belong there."""

    def __init__(self, trusted: TrustedDirectories, directory: str) -> None:
        self._trusted = trusted
        self._directory = directory
        self._owners: set[tuple[int, int]] = set()
        self._labels: set[tuple[str, bytes]] = set()
        self._add(directory)

    def problem(self, attributes: Attributes) -> str | None:
        """Return which of some attributes no file here has; None: files here have all of them."""
        problem = self._missing(attributes)
        if problem is not None:
            for name in self._trusted.names(self._directory):
                path = f"{self._directory}/{name}"
                status = self._trusted.status(path)
                if status is None or not stat.S_ISREG(status.st_mode):
                    continue
                if status.st_nlink == 1:
                    self._add(path)
                # A backup of hard links
                elif status.st_uid != SUPERUSER:
                    self._owners.add((status.st_uid, status.st_gid))
            problem = self._missing(attributes)
        return problem

    def _add(self, path: str) -> None:
        attributes = Attributes.of(path, self._trusted)
        self._owners.add((attributes.uid, attributes.gid))
        self._labels.update(_guarded(attributes))

    def _missing(self, attributes: Attributes) -> str | None:
        if (attributes.uid, attributes.gid) not in self._owners:
            return (
                f"to user {attributes.uid}, group {attributes.gid}, who own neither {self._directory} nor a file in "
                f"it. If that is right, give the directory to them first: "
                f"chown {attributes.uid}:{attributes.gid} {shell_path(self._directory)}"
            )
        for name, value in _guarded(attributes):
            if (name, value) not in self._labels:
                return (
                    f"the extended attribute {name}, which no file there has with this value. If that is right, give "
                    f"it to the directory first: "
                    f"setfattr -n {shell_word(name)} -v 0x{value.hex()} {shell_path(self._directory)}"
                )
        return None


def _guarded(attributes: Attributes) -> list[tuple[str, bytes]]:
    return [each for each in attributes.extended.items() if not each[0].startswith(_HARMLESS)]
