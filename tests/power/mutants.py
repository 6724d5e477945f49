"""Every fsync of `storage/changing` left out, one at a time: the checker has to find a state that this breaks.

`python -m tests.power.mutants` looks for a scenario that finds each, and lists those that none finds. A state that the
whole recording allows too is passed over: the long run checks it.
"""

from __future__ import annotations

import ast
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog_core.structs import Struct, replace
from tests.power.checker import Checker, Problem
from tests.power.models import MODELS
from tests.power.recorder import CHANGING, Recording
from tests.support.power_scenarios import SCENARIOS, Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.power.models import State
    from tests.power.tree import Operation

__all__ = ["EQUIVALENT", "KILLED", "Mutants", "SyncCall", "sync_calls"]

CALLS = frozenset(
    {
        *("_sync", "_sync_directories", "_sync_parts", "sync", "sync_directory", "sync_file"),
        *("complete", "cut", "extend", "finish", "write_file"),
        *("write_beginning", "write_intent", "write_pointer", "_write_temporary", "_write_whole"),
    }
)
"""Methods of the door that end with an fsync, and functions that do little else."""
NOT_OF_THE_DOOR = frozenset({"DryRunStage"})
"""The dry run counts and hashes what would be written."""
KILLED = {
    "staging.py:make_directly:1": "reindex of wrong indexes --no-undo, 0 bytes free",
    "staging.py:make_directly:2": "truncate --no-undo, 0 bytes free",
    "staging.py:make_directly:3": "truncate --no-undo, 0 bytes free",
    "staging.py:_write:1": "reindex of wrong indexes --no-undo, 0 bytes free",
    "commit.py:finish:2": "truncate",
    "commit.py:roll_back:1": "truncate, undo",
    "commit.py:roll_back:3": "truncate, undo",
    "commit.py:_remove:1": "truncate, prune",
    "commit.py:_deleted_first:1": "reindex of wrong indexes --undo-to another file system, 0 bytes free",
    "commit.py:_make:1": "truncate",
    "commit.py:_make:2": "retain without leader epochs",
    "commit.py:_undo:1": "truncate, undo",
    "commit.py:_undo:3": "truncate, undo",
    "commit.py:_undo:4": "truncate, undo, u-0/00000000000000000020.log linked since",
    "commit.py:_undo:5": "truncate, undo",
    "commit.py:_make_hole:1": "truncate a hole, undo",
    "commit.py:_put:1": "truncate --undo-to another file system",
    "commit.py:_put:2": "truncate",
    "commit.py:_write_temporary:1": "truncate, undo",
    "commit.py:_clear:1": "truncate, prune",
    "commit.py:_sync_parts:1": "truncate, prune",
    "journal.py:write_beginning:1": "truncate",
    "journal.py:write_intent:1": "truncate",
    "journal.py:write_pointer:1": "truncate --undo-to the same file system",
    "journal.py:_write_whole:1": "truncate",
    "journal.py:_write_whole:2": "truncate",
    "lock.py:_BrokerLock._make:1": "truncate without a lock file",
    "new_dir.py:NewTree.end:1": "compact --to",
    "new_dir.py:NewTree.sync:1": "compact --to",
    "new_dir.py:NewDir.commit:1": "compact --to",
    "new_dir.py:NewDir.commit:2": "compact --to",
    "journal.py:ensure_pointer:1": "truncate --undo-to the same file system",
    "journal.py:ensure_pointer:2": "truncate a partition --undo-to the same file system",
    "journal.py:remove_pointer:1": "truncate --undo-to the same file system, prune",
    "staging.py:JournalStage.prepare:1": "truncate",
    "staging.py:JournalStage.prepare:2": "truncate",
    "staging.py:JournalStage.prepare:3": "truncate",
    "staging.py:JournalStage._receive:1": "truncate",
    "staging.py:JournalStage._add:1": "truncate, u-0/00000000000000000020.log not synced by the broker",
    "staging.py:JournalStage._save:1": "truncate",
    "staging.py:JournalStage._directory_for:1": "truncate",
    "staging.py:JournalStage._directory_for:3": "truncate --undo-to the same file system",
    "staging.py:JournalStage._sync_directories:1": "truncate",
    "staging.py:JournalStage._sync_directories:2": "truncate",
    "replacement.py:Replacement._delete_swaps:1": "compact, undo of a run that was killed after 72%",
    "replacement.py:Replacement._delete_swaps:2": "compact, undo of a run that was killed after 72%",
    "replacement.py:Replacement._write_swaps:1": "compact, undo",
    "replacement.py:Replacement._write_swaps:2": "compact",
    "replacement.py:Replacement._put_in_place:1": "compact",
    "replacement.py:Replacement._put_in_place:2": "compact",
    "replacement.py:Replacement._copy:1": "compact --undo-to another file system",
    "replacement.py:Replacement._set_guard:2": "compact, undo",
    "replacement.py:Replacement._sync:1": "compact",
    "writer.py:Disk.write_file:1": "truncate",
    "writer.py:Disk.extend:1": "truncate, undo, large files",
    "writer.py:Disk.extend:2": "truncate, undo",
    "writer.py:Disk.cut:1": "truncate",
    "writer.py:Disk.sync_file:1": "truncate, u-0/00000000000000000020.log not synced by the broker",
    "writer.py:Disk.sync_directory:1": "truncate",
    "writer.py:Disk.complete:1": "truncate",
    "writer.py:NewFile.finish:1": "truncate",
}
"""A call that is left out, and a scenario in which the checker finds it."""
EQUIVALENT = {
    "commit.py:finish:1": "the journal's name of new content that is in place may come back: prune deletes it",
    "commit.py:roll_back:2": "the same as the third, of undo --partial, which no scenario plays",
    "commit.py:_prune:1": "without the new name undo refuses for what is missing, and prune goes on",
    "commit.py:_undo:2": "extend fsyncs the same file next, and without either it is as a start has left it",
    "lock.py:_BrokerLock._make:2": "the name of a lock file, which nobody needs after a loss of power",
    "lock.py:_BrokerLock._put:1": "as the first of `_make`, on a file system without hard links",
    "lock.py:_OwnLock._make:1": "an empty file that no broker opens",
    "staging.py:JournalStage.discard:1": "nothing has been changed: undo and prune accept the intent that comes back",
    "staging.py:JournalStage._directory_for:2": "an empty file; its name is fsynced with the directory",
    "writer.py:Disk.sync:1": "a log that a live broker appends to, which no scenario of a repair plays",
    "writer.py:Disk.replace_file:1": "as the first of `sync`: an index, a snapshot or a checkpoint that it writes",
    "writer.py:Disk.replace_file:2": "as the first of `sync`: its name",
    "replacement.py:Replacement._set_guard:1": "an empty file that nobody opens, and that a start deletes",
}
"""A call that could be left out, or that no scenario reaches, and why."""
QUICK = 300
"""States of each model in which a scenario is looked for."""
SHM = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108 -- a quick file system, and another one


class SyncCall(Struct, frozen=True, dict=True):
    """A call that brings something to the disk.

    Args:
        module: the file's name.
        function: the one that calls.
        number: which of its calls, from 1.
        lines: of the file, first and last.
    """

    module: str
    function: str
    number: int
    lines: tuple[int, int]

    def __str__(self) -> str:
        """Without the line, which every change above moves."""
        return f"{self.module}:{self.function}:{self.number}"

    def leads_to(self, operation: Operation) -> bool:
        """Whether an fsync was asked for here."""
        first, last = self.lines
        return any(name == self.module and first <= line <= last for name, line in operation.callers)


def sync_calls() -> tuple[SyncCall, ...]:
    """Return the calls of every module."""
    return tuple(site for path in sorted(Path(CHANGING).glob("*.py")) for site in _sync_calls(path))


def _sync_calls(path: Path) -> Iterator[SyncCall]:
    module = ast.parse(path.read_text(encoding="utf-8"))
    classes = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name not in NOT_OF_THE_DOOR]
    for around in (module, *classes):
        for function in around.body:
            if isinstance(function, ast.FunctionDef):
                prefix = f"{around.name}." if isinstance(around, ast.ClassDef) else ""
                calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and _name(node) in CALLS]
                for number, call in enumerate(sorted(calls, key=lambda node: node.lineno), 1):
                    lines = call.lineno, call.end_lineno or call.lineno
                    yield SyncCall(path.name, prefix + function.name, number, lines)


def _name(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


class Mutants:
    """A scenario in which fsyncs are left out.

    Args:
        checker: of the scenario.
    """

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._whole = checker.recording
        self._known: set[tuple[int, bool]] = set()

    def uses(self, site: SyncCall) -> bool:
        """Whether anything is fsynced there: else nothing can be missing."""
        return any(site.leads_to(operation) for operation in self._whole.operations)

    def without(self, site: SyncCall, most: int | None = None) -> Problem | None:
        """Leave out what one call brings to the disk, and return the first problem; `None`: none in any state.

        `most`: how many states of each model are looked at.
        """
        return self._found([each for each in self._whole.operations if site.leads_to(each)], most)

    def without_all(self, *, directories: bool) -> Problem | None:
        """Leave out every fsync of a directory, or of a file."""
        of_directories = {number for number, inode in self._whole.before.inodes.items() if inode.is_directory}
        of_directories |= {each.inode for each in self._whole.operations if each.kind == "mkdir"}
        syncs = (each for each in self._whole.operations if each.kind == "fsync")
        return self._found([each for each in syncs if (each.inode in of_directories) is directories])

    def _found(self, lost: Sequence[Operation], most: int | None = None) -> Problem | None:
        checker, gone = self._checker, {id(each) for each in lost}
        if not self._known:
            self._known = {_key(state) for model in MODELS for state in checker.states(model)}
        operations = [replace(each, kind="lost") if id(each) in gone else each for each in self._whole.operations]
        checker.recording = Recording(self._whole.before, operations)
        try:
            for model in reversed(MODELS):
                states = [state for state in checker.states(model) if _key(state) not in self._known]
                random.Random(model).shuffle(states)  # those of the last moments tell most
                for state in states[:most]:
                    problems = checker.check(model, state)
                    if problems:
                        return problems[0]
        finally:
            checker.recording = self._whole
        return None


def _key(state: State) -> tuple[int, bool]:
    return state.tree.key(), state.is_last


def main(names: Sequence[str]) -> None:
    """Look for a scenario that finds each call; `names`: only these, in all their states."""
    most = None if names else QUICK
    left = [site for site in sync_calls() if not names or str(site) in names]
    tried = dict.fromkeys(map(str, left), 0)
    top, other = Path(tempfile.mkdtemp(dir=SHM)), Path(tempfile.mkdtemp())
    for scenario in SCENARIOS:
        try:
            mutants = Mutants(Checker(scenario, Place(top, other)))
        except AssertionError:
            sys.stdout.write(f"{scenario} cannot be recorded\n")
            continue
        for site in [site for site in left if mutants.uses(site)]:
            tried[str(site)] += 1
            problem = mutants.without(site, most)
            if problem is not None:
                left.remove(site)
                sys.stdout.write(f'    "{site}": "{scenario}",  # {problem.state}: {problem.message[:150]}\n')
                sys.stdout.flush()
    sys.stdout.writelines(f"{site} survives {tried[str(site)]} scenarios\n" for site in left)
    shutil.rmtree(top)
    shutil.rmtree(other)


if __name__ == "__main__":
    main(sys.argv[1:])
