"""Which tests run against a mutant: those that ran its lines, the quickest first, by a coverage run made beforehand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from coverage import CoverageData

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tools.mutants.making import Mutant

_MOST_TESTS: Final = 120


class Tests:
    """The lines that each test ran, and how long it took.

    Args:
        directory: `.coverage` and `.durations.json` of a run of `pytest -p tools.mutants.timing --cov-context=test`.
        most_seconds: how long the tests of a mutant may take.
    """

    def __init__(self, directory: Path, most_seconds: float) -> None:
        self._most_seconds = most_seconds
        self._data = CoverageData(str(directory / ".coverage"))
        self._data.read()
        self._durations: dict[str, float] = json.loads((directory / ".durations.json").read_text(encoding="utf-8"))
        self._files = sorted(self._data.measured_files())
        self._lines: dict[str, dict[int, set[str]]] = {}

    def of(self, mutant: Mutant) -> tuple[list[str], bool]:
        """Return the tests, and whether the code runs while modules are imported, too."""
        lines = self._of_module(mutant.site.path)
        first, last = mutant.lines
        names = set().union(*(lines.get(line, set()) for line in range(first, last + 1)))
        imported = "" in names or not mutant.function
        if not names - {""}:  # a default, a constant: what uses it may run anywhere in the module
            names = set().union(*lines.values())
        folder = _folder(mutant.site.path)
        if not names - {""}:  # all of it runs while modules are imported
            names = {name for name in self._durations if name.startswith(folder)}
        return self._ordered(names - {""}, folder), imported

    def slowest(self, names: Iterable[str]) -> float:
        """Return how long the slowest of these tests takes, in seconds."""
        return max((self._durations.get(name, 0.1) for name in names), default=0.0)

    def _of_module(self, path: str) -> dict[int, set[str]]:
        if path not in self._lines:
            files = [name for name in self._files if name.endswith(path)]
            contexts = self._data.contexts_by_lineno(files[0]) if files else {}
            self._lines[path] = {line: {name.partition("|")[0] for name in names} for line, names in contexts.items()}
        return self._lines[path]

    def _ordered(self, names: set[str], folder: str) -> list[str]:
        """Return the tests within the limits.

        Those of the room come first: they are about what they run. Of each test function one case comes before a second
        one of any.
        """
        cases: dict[str, int] = {}
        ranked = []
        for name in sorted(names, key=lambda each: (self._durations.get(each, 1.0), each)):
            function = name.partition("[")[0]
            cases[function] = cases.get(function, -1) + 1
            ranked.append((not name.startswith(folder), cases[function], self._durations.get(name, 1.0), name))
        chosen, seconds = [], 0.0
        for _, _, duration, name in sorted(ranked):
            if len(chosen) == _MOST_TESTS:
                break
            if chosen and seconds + duration > self._most_seconds:
                continue
            chosen.append(name)
            seconds += duration
        return chosen


def _folder(path: str) -> str:
    """The tests of a room: `tests/storage/` for kafkalog_core/storage, `tests/cli/` for kafkalog_cli."""
    package, room = path.split("/")[:2]
    return f"tests/{room if package == 'kafkalog_core' else 'cli'}/"
