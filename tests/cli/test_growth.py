"""The work of every command grows in proportion to its input, whatever grows in it.

Work is counted, not timed: calls of functions, of Python's and of C's, and bytes that are read. Of a count, twice and
four times as much, the differences say how it grows, as what a command does for any input falls out of them.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.storage.source import Source
from tests.cli.terminals import run
from tests.support.growing import GROWING

if TYPE_CHECKING:
    from pathlib import Path

LARGEST_EXPONENT = 1.25  # n log n comes to 1.15 where n is some hundred
FREE_CALLS = 3000  # twice as much of the thing that costs less is no matter
FREE_BYTES = 256 * 1024
CASES = [(name, line) for name, growing in GROWING.items() for line in growing.commands]


class _Work:
    """Counts calls and bytes while it is entered."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls = self.read_bytes = 0
        pread = Source._pread

        def counted(source: Source, target: memoryview, position: int) -> int:
            count = pread(source, target, position)
            self.read_bytes += count
            return count

        patch.setattr(Source, "_pread", counted)

    def note(self, _frame: object, event: str, _argument: object) -> None:
        """Take an event of the profiler."""
        self.calls += event in {"call", "c_call"}


def _work(patch: pytest.MonkeyPatch, place: Path, name: str, line: str, count: int) -> tuple[int, int]:
    path = GROWING[name].make(place, count)
    arguments = [word.format(path=path) for word in line.split()]
    with patch.context() as inner:
        work = _Work(inner)
        sys.setprofile(work.note)
        try:
            ended = run(inner, arguments)
        finally:
            sys.setprofile(None)
    assert ended.status in {0, 3, 4}, ended.stderr
    return work.calls, work.read_bytes


@pytest.mark.slow
@pytest.mark.parametrize(("name", "line"), CASES, ids=[f"{line.format(path='')}of {name}" for name, line in CASES])
def test_work_grows_with_its_input(name, line, tmp_path, monkeypatch):
    count = GROWING[name].count
    _work(monkeypatch, tmp_path / "first", name, line, count)  # imports, and what else is done once in a process
    steps = [_work(monkeypatch, tmp_path / str(times), name, line, count * times) for times in (1, 2, 4)]
    for what, free, (one, two, four) in (
        ("calls", FREE_CALLS, tuple(calls for calls, _ in steps)),
        ("bytes", FREE_BYTES, tuple(read_bytes for _, read_bytes in steps)),
    ):
        grown = max(1, two - one), max(1, four - two)
        exponent = math.log2(grown[1] / grown[0])
        assert exponent <= LARGEST_EXPONENT or grown[1] <= free, (what, steps, exponent)
