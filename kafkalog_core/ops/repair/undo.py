"""The undo of runs, and the deletion of their journals.

A run can be undone as long as each of its files is as the run left it. Later runs that changed the same files have to
be undone first.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import NotFoundError, RefusedError, UnfinishedError
from kafkalog_core.format.names import journal_run
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.changing.changes import Change, fingerprint, grouped, may_delete_first, swap_name
from kafkalog_core.storage.changing.commit import delete_remains, prune, roll_back, unfinished_files
from kafkalog_core.storage.changing.derived import left_out, unrecovered_ends
from kafkalog_core.storage.changing.file_states import check_old, giving_up, is_stuck, old_problems, state_of
from kafkalog_core.storage.changing.journal import freed_by_pointer
from kafkalog_core.storage.changing.journal_search import (
    FoundJournals,
    Remains,
    at_work_refusal,
    find_journals,
    interrupted_refusal,
    leading_directory,
    prune_command,
    real_path,
    resume_command,
    trust_problem,
    undo_command,
    unreadable_refusal,
    untrusted_places,
)
from kafkalog_core.storage.changing.space import STAT_BLOCK_BYTES, Move, freed_bytes, rounded, spaces_of, write_problems
from kafkalog_core.storage.listing import stat_path
from kafkalog_core.storage.locks import holder_at_work
from kafkalog_core.storage.logdir import is_broker_dir
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_core.storage.changing.changes import ChangeKind, Fingerprint
    from kafkalog_core.storage.changing.file_states import FileState, States
    from kafkalog_core.storage.changing.journal import Journal, JournalEntry
    from kafkalog_core.storage.changing.space import Space
    from kafkalog_core.storage.changing.writer import Disk

__all__ = [
    "GivenUp",
    "PrunePlan",
    "Scope",
    "UndoPlan",
    "apply_prune",
    "apply_undo",
    "plan_prune",
    "plan_undo",
    "refusal_of",
    "scope_of",
]

_SHOWN: Final = 10
_LEFT: Final = "was left as it is when this undo began; it can be restored afterwards"
_MAKE_ROOM: Final = WayOut("move other files away first, and run the same command again")


class Scope(Struct, frozen=True):
    """The journals that a directory leads to.

    Args:
        root: the log directory, the partition directory outside of any, or a directory that `--undo-to` named.
        found: its journals, those alone that changed something in `partition` if one was named.
        partition: the partition directory that was named in a log directory.
    """

    root: str
    found: FoundJournals
    partition: str | None = None

    def journal(self, run: str | None) -> Journal:
        """Return the journal of a run; `None` for the last run that is not undone.

        Raises NotFoundError, and RefusedError if that journal, or one that may be it, cannot be read.
        """
        # A journal that cannot be read may be the last run's: to undo an older one instead would be wrong.
        self.check_readable(run)
        if run is not None:
            for journal in self.found.journals:
                if journal.run == run:
                    return journal
            raise NotFoundError(_no_journal(self.root, run), path=self.root)
        # The last run first: later changes of a file have to be undone before earlier ones.
        for journal in reversed(self.found.journals):
            if journal.state not in {"undone", "pruning"}:
                return journal
        raise NotFoundError(self._nothing_to_undo(), path=self.root)

    def _nothing_to_undo(self) -> Refusal:
        """Return that no run can be undone, with what runs left that were killed before their intent."""
        nothing = "there is no kafkalog run to undo here"
        if not self.found.remains:
            return Refusal(nothing)
        # Files without an intent may belong to a run that is writing it at this moment.
        at_work = at_work_refusal(self.root, "a run")
        if at_work is not None:
            return at_work.after(f"{nothing}. ")
        left = "; ".join(
            f"{each.run}, {count_of(len(each.paths), 'path')}: {each.reason}" for each in self.found.remains
        )
        prune = f"kafkalog undo {shell_path(self.root)} --prune --apply"
        return Refusal(f"{nothing}, but files of a run are left ({left})", (WayOut("delete them", prune),))

    def check_readable(self, run: str | None = None) -> None:
        """Raise RefusedError if the journal of a run cannot be read; `None`: if any journal cannot."""
        for remains in self.found.remains:
            if remains.is_unreadable and run in {None, remains.run}:
                raise RefusedError(unreadable_refusal(self.root, remains))

    def interrupted(self) -> list[Journal]:
        """Return the journals of interrupted runs."""
        return [journal for journal in self.found.journals if journal.is_interrupted]


class UndoPlan(Struct, frozen=True, kw_only=True):
    """The undo of one run, as a value.

    Args:
        scope: the directory and its journals.
        journal: the journal of the run; `Journal.left` are the entries whose files are left as they are.
        changes: the changes in their order; `before` is the present file.
        kinds: the kind of each change in rows; `extend` restores the end of a truncated file.
        spaces: the space that each file system needs and has.
        obstacles: why the undo cannot be applied, with the ways out.
        left: the files that are left as they are: path, present size in bytes (None: deleted) and the reason.
    """

    scope: Scope
    journal: Journal
    changes: tuple[Change, ...]
    kinds: tuple[str, ...]
    spaces: tuple[Space, ...]
    obstacles: tuple[Refusal, ...]
    left: tuple[tuple[str, int | None, str], ...] = ()


class GivenUp(Struct, frozen=True, kw_only=True):
    """An interrupted run whose journal is deleted although it was neither finished nor undone.

    Args:
        journal: its journal.
        left: its files, which are left as they are: path, size in bytes (None: deleted) and state.
        deleted: saved content, which is deleted: its path, its size in bytes, and the path of the saved file.
    """

    journal: Journal
    left: tuple[tuple[str, int | None, FileState], ...]
    deleted: tuple[tuple[str, int, str], ...]


class PrunePlan(Struct, frozen=True, kw_only=True):
    """The deletion of journals, as a value.

    Args:
        scope: the directory and its journals.
        journals: the journals that are deleted.
        remains: files of runs without a journal, which are deleted.
        kept: why other journals are kept, a sentence each.
        given_up: those of `journals` whose run was interrupted and can be neither finished nor undone.
    """

    scope: Scope
    journals: tuple[Journal, ...]
    remains: tuple[Remains, ...]
    kept: tuple[str, ...]
    given_up: tuple[GivenUp, ...] = ()


def scope_of(path: str, also: Iterable[str] = ()) -> Scope:
    """Return the journals that a directory leads to. `also`: other directories that the user named (`find_journals`).

    Raises NotFoundError or AccessError.
    """
    directory, others = _directory(path), [_directory(each) for each in also]
    # The directory of a journal itself was named.
    if journal_run(os.path.basename(directory)) is not None:
        directory = os.path.dirname(directory)
    # A partition that is a link is in two log directories: try the name as it was given, then its target.
    for spelling in dict.fromkeys((directory, os.path.realpath(directory))):
        around = os.path.dirname(spelling)
        if not is_broker_dir(directory) and is_broker_dir(around):
            found = find_journals(around, (directory, *others))
            return Scope(around, _touching(found, around, spelling), spelling)
    return Scope(directory, find_journals(directory, others))


def plan_undo(scope: Scope, run: str | None = None, *, is_partial: bool = False) -> UndoPlan:
    """Plan the undo of a run. Raises NotFoundError if there is no such run.

    `is_partial`: leave files that cannot be restored, and those that belong to them, as they are.
    """
    journal = scope.journal(run)
    changes: list[Change] = []
    kinds: list[str] = []
    left: dict[int, str] = {}
    problem = trust_problem(journal)
    obstacles = list(_state_obstacles(journal)) or [each for each in (problem,) if each is not None]
    if not obstacles:
        states = [(entry, state_of(journal, entry)) for entry in reversed(journal.entries)]
        # A later run of kafkalog explains a changed file best, and its undo is the way out.
        later = [_changed_later(scope, journal, path) for path in _written_since(journal, states)]
        obstacles = [each for each in later if each is not None]
        problems = {} if obstacles else _problems(journal, states)
        left = dict.fromkeys(journal.left, _LEFT) | (left_out(journal, problems) if is_partial else {})
        obstacles += map(Refusal, dict.fromkeys(text for number, text in problems.items() if number not in left))
        if obstacles and problems:
            obstacles.append(_no_undo(journal, problems))
        elif len(left) == len(journal.entries):
            obstacles += [*map(Refusal, dict.fromkeys(problems.values())), _no_undo(journal, problems)]
        journal = replace(journal, left=frozenset(left))
        for entry, state in states:
            if state not in {"before", "neither"} and entry.number not in left:
                # Only a run that has ended vouches for its files without a second look at them.
                is_known = state == "after" and not journal.is_interrupted
                now = entry.after if is_known else fingerprint(journal.path_of(entry), journal.trusted)
                change = _reverse(journal, entry, now)
                changes.append(change)
                kinds.append("extend" if entry.kind == "cut" else change.kind)
        obstacles += map(Refusal, write_problems(changes))
    spaces = _spaces(journal, changes)
    obstacles += [Refusal(space.shortage, (_MAKE_ROOM,)) for space in spaces if not space.is_enough]
    return UndoPlan(
        scope=scope,
        journal=journal,
        changes=tuple(changes),
        kinds=tuple(kinds),
        spaces=spaces,
        obstacles=tuple(obstacles),
        left=tuple(_left_files(journal, left)),
    )


def apply_undo(plan: UndoPlan, disk: Disk) -> Journal:
    """Undo a run. Raises RefusedError while nothing has been changed, UnfinishedError after the first change."""
    if plan.obstacles:
        raise RefusedError(refusal_of(plan))
    # Again, since files may have changed after the plan was made.
    states = check_old(plan.journal)
    try:
        pointer_bytes = freed_by_pointer(plan.journal)
        is_tight = any(space.free_bytes - space.needed_bytes < pointer_bytes for space in plan.spaces)
        return roll_back(disk, plan.journal, states, gives_up_pointer=pointer_bytes > 0 and is_tight)
    except (Exception, KeyboardInterrupt) as error:
        root = plan.scope.root
        cause = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        again = WayOut("when the cause is repaired, run it again", undo_command(root, plan.journal))
        raise UnfinishedError(Refusal(f"{cause}. The undo is not finished", (again,))) from error


def refusal_of(plan: UndoPlan) -> Refusal:
    """Return one refusal of a plan: all its obstacles, or the first and the last one of many."""
    shown = plan.obstacles
    if len(shown) > _SHOWN:
        more = Refusal(f"and {count_of(len(shown) - _SHOWN, 'more file')}")
        shown = (*shown[: _SHOWN - 1], more, shown[-1])
    reasons = "; ".join(each.reason for each in shown)
    return Refusal(reasons, tuple(way for each in shown for way in each.ways)).before_any_change()


def plan_prune(scope: Scope, run: str | None = None) -> PrunePlan:
    """Plan the deletion of journals of complete or undone runs, and of remains of runs that changed nothing.

    A journal that cannot be read is deleted only if `run` names it, and so is that of an interrupted run that can be
    neither finished nor undone.
    """
    chosen = [journal for journal in scope.found.journals if run in {None, journal.run}]
    remains = [each for each in scope.found.remains if run in {None, each.run}]
    # Files without a journal may belong to a run that is writing its journal at this moment.
    at_work = at_work_refusal(scope.root, "its run") if remains else None
    if run is not None and not chosen and not remains:
        raise NotFoundError(_no_journal(scope.root, run), path=scope.root)
    # Only by its name: saved content of an interrupted run is the last copy of what it replaced.
    given_up = [journal for journal in chosen if run is not None and _is_given_up(journal)]
    kept = [
        f"{journal.run} is kept: {interrupted_refusal(journal)}"
        for journal in chosen
        if journal.is_interrupted and journal not in given_up
    ]
    kept += [
        f"{each.run} is kept: {unreadable_refusal(scope.root, each)}"
        for each in remains
        if each.is_unreadable and run is None
    ]
    kept += [f"{each.run} is kept: {at_work}" for each in remains if at_work and not each.is_unreadable]
    free = [journal for journal in chosen if not journal.is_interrupted or journal in given_up]
    kept += [
        f"{journal.run} is kept: it leads to directories that you did not name, and only the journal claims that they "
        f"are its own. If they are: {prune_command(leading_directory(journal), journal)}"
        for journal in free
        if _leads_away(journal)
    ]
    return PrunePlan(
        scope=scope,
        journals=tuple(journal for journal in free if not _leads_away(journal)),
        remains=() if at_work else tuple(each for each in remains if run is not None or not each.is_unreadable),
        kept=tuple(kept),
        given_up=tuple(_given_up(journal) for journal in given_up),
    )


def apply_prune(plan: PrunePlan, disk: Disk) -> None:
    """Delete the planned journals. Raises WriteError; what is then left can be deleted later."""
    for journal in plan.journals:
        prune(disk, journal)
    for remains in plan.remains:
        delete_remains(disk, remains)


def _is_given_up(journal: Journal) -> bool:
    """Return whether no process works on an interrupted run, and it can be neither finished nor undone."""
    if not journal.is_interrupted or holder_at_work(journal.layout.root) is not None:
        return False
    return not _leads_away(journal) and is_stuck(journal)


def _given_up(journal: Journal) -> GivenUp:
    left: list[tuple[str, int | None, FileState]] = []
    deleted: list[tuple[str, int, str]] = []
    status, layout = journal.trusted.status, journal.layout
    for entry in journal.entries:
        path = journal.path_of(entry)
        now = status(path)
        left.append((path, None if now is None else now.st_size, state_of(journal, entry)))
        if entry.saved == "inline":
            deleted.append((layout.intent, len(entry.inline or b""), path))
        elif entry.saved != "nothing":
            saved = layout.saved(path, entry.number, entry.saved)
            there = status(saved)
            if there is not None:
                deleted.append((saved, there.st_size, path))
    return GivenUp(journal=journal, left=tuple(left), deleted=tuple(deleted))


def _leads_away(journal: Journal) -> bool:
    """Return whether a journal leads to existing directories that the user did not name."""
    return any(os.path.lexists(place.path) for place in untrusted_places(journal))


def _no_journal(root: str, run: str) -> Refusal:
    listed = WayOut("list the journals", f"kafkalog undo {shell_path(root)} --list")
    return Refusal(f"there is no journal {run}", (listed,))


def _directory(path: str) -> str:
    directory = os.path.abspath(path)
    stat_path(directory)
    if not os.path.isdir(directory):
        raise NotFoundError("is not a directory; name the log directory or the partition", path=path)
    return directory


def _touching(found: FoundJournals, root: str, partition: str) -> FoundJournals:
    """Return the journals that changed files in a partition, by its real path, and remains that may belong to it.

    A run that ended before its first change may have left only a file at the top of the log directory (its beginning,
    or the pointer to a journal elsewhere), which names no partition.
    """
    real = os.path.realpath(partition)
    journals = [
        journal
        for journal in found.journals
        if any(os.path.dirname(real_path(journal.path_of(entry))) == real for entry in journal.entries)
    ]
    remains = [
        each
        for each in found.remains
        if any(real_path(path).startswith(f"{real}/") for path in each.paths)
        or not any(os.path.dirname(path).startswith(f"{root}/") for path in each.paths)
    ]
    return FoundJournals(tuple(journals), tuple(remains))


def _state_obstacles(journal: Journal) -> Iterator[Refusal]:
    if journal.state == "undone":
        yield Refusal(f"{journal.run} has been undone already")
    elif journal.state == "pruning":
        yield Refusal(f"{journal.run} is being deleted: its saved content is missing, in part or completely")
    # Nothing was saved, so an interrupted run can only be finished.
    elif not journal.keeps_old:
        yield interrupted_refusal(journal).after(f"{journal.run} ran with --no-undo and cannot be undone; ")
    elif journal.is_interrupted:
        at_work = at_work_refusal(journal.layout.root, f"the {journal.command} of {journal.run}")
        if at_work is not None:
            yield at_work


def _written_since(journal: Journal, states: States) -> list[str]:
    """Return the paths of files that something else has written since a run, where that stops its undo."""
    changed = [journal.path_of(entry) for entry, state in states if state == "neither"]
    _, markers = unrecovered_ends(journal, (entry for entry, state in states if state not in {"before", "neither"}))
    return [*changed, *markers]


def _changed_later(scope: Scope, journal: Journal, path: str) -> Refusal | None:
    """Return that a later run changed the same file, with the command that undoes it; None: there is none."""
    for other in reversed(scope.found.journals):
        # A run that was undone has left the files as the run before it did.
        if other.order > journal.order and other.state not in {"undone", "pruning"}:
            for later in other.entries:
                if real_path(other.path_of(later)) == real_path(path):
                    undo = WayOut("undo that run first", undo_command(scope.root, other))
                    return Refusal(f"{path}: a later run of kafkalog {other.command} changed it again", (undo,))
    return None


def _problems(journal: Journal, states: States) -> dict[int, str]:
    """Return why files of a run cannot be restored, by the numbers of their entries."""
    found = old_problems(journal, [each for each in states if each[1] != "neither"])
    for entry, state in states:
        path = journal.path_of(entry)
        if state != "neither":
            continue
        if not os.path.isdir(os.path.dirname(path)):
            found[entry.number] = f"{path}: its directory no longer exists: a broker deleted or moved the partition"
        else:
            found[entry.number] = f"{path}: has changed since this run, most likely by a broker that was started"
    return found


def _no_undo(journal: Journal, problems: Mapping[int, str]) -> Refusal:
    """Return that a run cannot be undone as a whole, with what can be done with it."""
    root = leading_directory(journal)
    ways = []
    if len(left_out(journal, problems)) < len(journal.entries):
        ways.append(WayOut("restore the other files", undo_command(root, journal, "--partial")))
    if journal.state == "prepared":
        ways.append(WayOut("finish the run", resume_command(root, journal)))
    ways.append(giving_up(journal))
    return Refusal("it cannot be undone as a whole", tuple(ways))


def _left_files(journal: Journal, left: Mapping[int, str]) -> Iterator[tuple[str, int | None, str]]:
    for entry in journal.entries:
        if entry.number in left:
            path = journal.path_of(entry)
            status = journal.trusted.status(path)
            reason = left[entry.number].removeprefix(f"{path}: ")
            yield path, None if status is None else status.st_size, reason


def _reverse(journal: Journal, entry: JournalEntry, now: Fingerprint | None) -> Change:
    """Return the change that restores the old file of an entry in place of the present one, `now`."""
    before = entry.before
    kind: ChangeKind = "remove" if before is None else "create" if now is None else "replace"
    return Change(
        kind=kind,
        path=journal.path_of(entry),
        before=now,
        size_bytes=None if before is None else before.size_bytes,
        sha256=None if before is None else before.sha256,
        why=f"undo of: {entry.why}",
        swap=entry.swap,
    )


def _spaces(journal: Journal, changes: list[Change]) -> tuple[Space, ...]:
    """Return the space that an undo needs: for copies and tails of old content, and none for hard links to old files.

    The pointer to a journal elsewhere frees space if nothing else does, and so do unfinished files of the run. Staged
    files of a segment replacement are used, or written again.
    """
    if not changes:
        return ()
    reversed_by = {change.path: change for change in changes}
    entries = (entry for entry in reversed(journal.entries) if journal.path_of(entry) in reversed_by)
    intent_bytes = os.stat(journal.layout.intent).st_size
    moves = [Move(os.path.dirname(journal.layout.intent), intent_bytes, intent_bytes, "intent")]
    for number, group in enumerate(grouped(entries)):
        frees_first = may_delete_first(group, is_back=True)
        for entry in group:
            change = reversed_by[journal.path_of(entry)]
            freed = 0 if entry.saved == "tail" else freed_bytes(change)
            moves.append(Move(os.path.dirname(change.path), _written(journal, entry), freed, number, frees_first))
    spaces = spaces_of(moves)
    swaps = (swap_name(journal.path_of(entry)) for entry in journal.entries if entry.swap is not None)
    unfinished = (journal.trusted.status(path) for path in (*unfinished_files(journal), *swaps))
    freed = freed_by_pointer(journal) + sum(
        each.st_blocks * STAT_BLOCK_BYTES for each in unfinished if each is not None
    )
    device = os.stat(journal.layout.root).st_dev
    return tuple(
        replace(space, needed_bytes=max(0, space.needed_bytes - freed))
        if os.stat(space.path).st_dev == device
        else space
        for space in spaces
    )


def _written(journal: Journal, entry: JournalEntry) -> int:
    """Return the bytes that restoring a file writes; for a tail that is restored in part, the missing bytes."""
    path = journal.path_of(entry)
    if entry.saved == "tail" and not journal.trusted.has_other_names(path):
        now, saved = (
            journal.trusted.status(each) for each in (path, journal.layout.saved(path, entry.number, entry.saved))
        )
        start = _size(entry.after)
        end = start + (0 if saved is None else saved.st_size)  # what follows in the file is a hole
        return max(0, rounded(end) - rounded(start if now is None else now.st_size))
    return _size(entry.before) if entry.saved in {"copy", "inline", "tail"} else 0


def _size(file: Fingerprint | None) -> int:
    return 0 if file is None else file.size_bytes
