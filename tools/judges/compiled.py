"""Programs into which Go and Rust compile tests: each test is run in a process of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tools.judges.results import Result, Status
from tools.judges.running import Job, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from tools.judges.running import Judged

__all__ = ["Program", "tests_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A compiled test program of a suite.

    prefix: of the names of its tests. unfit: tests that are not run, with the reason. command: makes the arguments that
    run one test, of its name and the limit in seconds. has_skipped: whether the output of a test that ended with
    status 0 shows that it skipped itself. why: finds the reason of a failure or a skip in the output.
    """

    suite: str
    path: Path
    cwd: Path
    env: Mapping[str, str]
    prefix: str = ""
    unfit: Mapping[str, str] = field(default_factory=dict)
    command: Callable[[str, float], Iterable[str]]
    has_skipped: Callable[[str, str], bool]
    why: Callable[[str], str]


def tests_of(program: Program, names: Iterable[str], judged: Judged) -> list[Job]:
    """Return the tests of a program, by the names that it lists."""
    return [Job((program.prefix + name,), partial(_run, program, name, judged)) for name in names]


def _run(program: Program, name: str, judged: Judged) -> list[Result]:
    label = program.prefix + name
    if name in program.unfit or label in program.unfit:
        reason = program.unfit.get(name) or program.unfit[label]
        return [Result(program.suite, label, Status.NOT_APPLICABLE, 0.0, reason)]
    limit = judged.limit_seconds
    command = [str(program.path), *program.command(name, limit)]
    ended = run(command, judged.cache.log(f"{program.suite}/{label}.log"), limit, cwd=program.cwd, env=program.env)
    if ended.status is None:
        status, reason = Status.FAILED, f"over {limit:g}s: {program.why(ended.text)}"
    elif ended.status:
        status, reason = Status.FAILED, program.why(ended.text) or f"exit {ended.status}"
    elif program.has_skipped(ended.text, name):
        status, reason = Status.SKIPPED, program.why(ended.text)
    else:
        status, reason = Status.PASSED, ""
    return [Result(program.suite, label, status, ended.seconds, re.sub(r"\s+", " ", reason))]
