"""Every fsync of `storage/changing` left out, one at a time: the checker has to find a state that this breaks.

`python -m tests.power.mutants` tries each call in each of its scenarios until one finds it, and lists what survives.
"""

from __future__ import annotations

import ast
import os
import random
import shutil
import stat
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog_core.storage.changing import writer
from tests.power.checker import Checker, Problem
from tests.power.models import MODELS
from tests.power.scenarios import SCENARIOS, Place, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["Site", "found", "lost", "sites"]

CHANGING = Path(writer.__file__).parent
CALLS = frozenset({"_sync", "_sync_parts", "sync", "sync_directory", "sync_file", "write_file", "cut", "extend"})
"""`write_file`, `cut` and `extend` end with an fsync of the file."""
SHM = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108 -- a quick file system, and another one


@dataclass(frozen=True)
class Site:
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


def sites() -> tuple[Site, ...]:
    """Return the calls of every module."""
    return tuple(site for path in sorted(CHANGING.glob("*.py")) for site in _sites(path))


def _sites(path: Path) -> Iterator[Site]:
    module = ast.parse(path.read_text(encoding="utf-8"))
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    for around in (module, *classes):
        for function in around.body:
            if isinstance(function, ast.FunctionDef):
                prefix = f"{around.name}." if isinstance(around, ast.ClassDef) else ""
                calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and _name(node) in CALLS]
                for number, call in enumerate(sorted(calls, key=lambda node: node.lineno), 1):
                    lines = call.lineno, call.end_lineno or call.lineno
                    yield Site(path.name, prefix + function.name, number, lines)


def _name(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


@contextmanager
def lost(*, site: Site | None = None, kind: str | None = None) -> Iterator[None]:
    """Leave out what one call brings to the disk, or every fsync of a `file` or a `directory`, while entered."""
    really = writer._sync

    def sync(number: int) -> None:
        is_directory = stat.S_ISDIR(os.fstat(number).st_mode)
        if kind is not None and (kind == "directory") == is_directory:
            return
        if site is not None and _is_called_at(site):
            return
        really(number)

    writer._sync = sync
    try:
        yield
    finally:
        writer._sync = really


def _is_called_at(site: Site) -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if code.co_filename == f"{CHANGING}/{site.module}" and site.lines[0] <= frame.f_lineno <= site.lines[1]:
            return True
        frame = frame.f_back
    return False


def found(
    scenario: Scenario,
    place: Place,
    *,
    site: Site | None = None,
    kind: str | None = None,
    models: Iterable[str] = MODELS,
    most: int = 10**6,
) -> Problem | None:
    """Return the first problem that the checker finds where fsyncs are left out; `None`: none in any state.

    `most`: how many states of each model are checked.
    """
    with lost(site=site, kind=kind):
        checker = Checker(scenario, place)
    for model in models:
        states = list(checker.states(model))
        random.Random(1).shuffle(states)
        for state in states[:most]:
            problems = checker.check(model, state)
            if problems:
                return problems[0]
    return None


def main(names: Sequence[str]) -> None:
    """Try each call; `names`: only these."""
    chosen = [each for each in SCENARIOS if each.journal in {"next", "other"}]
    top, other = Path(tempfile.mkdtemp(dir=SHM)), Path(tempfile.mkdtemp())
    for site in sites():
        if names and str(site) not in names:
            continue
        problem, tried = None, 0
        for scenario in chosen:
            if problem is None and _uses(scenario, Place(top, other), site):
                tried += 1
                problem = found(scenario, Place(top, other), site=site)
        sys.stdout.write(f"{site}: {problem or f'survives {tried} scenarios'}\n")
        sys.stdout.flush()
    shutil.rmtree(top)
    shutil.rmtree(other)


def _uses(scenario: Scenario, place: Place, site: Site) -> bool:
    """Whether anything is synced there: else nothing can be missing."""
    whole = Checker(scenario, place).recording.operations
    with lost(site=site):
        return len(Checker(scenario, place).recording.operations) < len(whole)


if __name__ == "__main__":
    main(sys.argv[1:])
