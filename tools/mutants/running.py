"""Run tests against mutants: one pytest process collects all tests once and forks for each mutant.

The process runs in a copy of the checkout. For each mutant it writes the mutated module into the copy, so that
processes that a test starts see it, and forks. The child gives the functions of the module that differ their new code,
and runs the tests until one fails. Where code outside a function differs, or where the function has run while the tests
were collected, the child collects the chosen tests in a new interpreter in place of that.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import stat
import sys
import time
import types
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from _pytest.runner import runtestprotocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pytest

    Functions = Mapping[tuple[str, str, int], Sequence[types.FunctionType]]
    """What a module's code objects belong to: by file, qualified name and line."""

_SHARED: Final = tuple(path for path in ("/dev/shm", "/tmp", "/var/tmp") if os.path.isdir(path))  # noqa: S108 -- as named
"""Directories of the machine next to which tests make their own: a mutant may give one other permissions."""
_LATER_NS: Final = 10**10
_TEST_SECONDS: Final = 15
_IMPORT_SECONDS: Final = 30
_KILLED: Final = 1
_FRESH: Final = 2


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Take the jobs one by one in place of running all tests."""
    place = Path(os.environ["MUTANTS_JOBS"])
    runner = Runner(session, place)
    runner.warm()
    for number in count():
        job = _next(place, number)
        if job is None:
            return True
        with contextlib.suppress(FileExistsError):
            os.close(os.open(place / f"{number}.taken", os.O_CREAT | os.O_EXCL))
            temporary = place / f"{number}.running"
            temporary.write_text(json.dumps(runner.run(job)), encoding="utf-8")
            temporary.rename(place / f"{number}.json")
    return True


def _next(place: Path, number: int) -> dict[str, Any] | None:
    """Wait for a job; return `None` when there is none any more, or no time."""
    while time.time() < float(os.environ["MUTANTS_ENDS"]):
        if (place / f"{number}.job").exists():
            return json.loads((place / f"{number}.job").read_text(encoding="utf-8"))
        if (place / "end").exists() and number >= int((place / "end").read_text(encoding="utf-8") or number + 1):
            return None
        time.sleep(0.1)
    return None


class Runner:
    """The collected tests, and how a mutant is run against some of them."""

    def __init__(self, session: pytest.Session, place: Path) -> None:
        self._items = {item.nodeid: item for item in session.items}
        self._config = session.config
        self._root = Path.cwd()
        self._scratch = place / f"tmp{os.getpid()}"
        self._sound: set[str] = set()
        self._broken: set[str] = set()
        self._functions: dict[tuple[str, str, int], list[types.FunctionType]] = {}
        self._shared = {path: _rights(path) for path in _SHARED}
        self._killers: dict[tuple[str, str], dict[str, None]] = {}

    def warm(self) -> None:
        """Set up what all tests of a session share, once."""
        items = [item for item in self._items.values() if "tree" in getattr(item, "fixturenames", ())]
        if items:
            runtestprotocol(items[0], log=False, nextitem=next(iter(self._items.values())))
        for each in gc.get_objects(generation=None):
            if type(each) is types.FunctionType and each.__code__.co_filename.startswith(f"{self._root}/kafkalog_"):
                self._functions.setdefault(_key(each.__code__), []).append(each)
        gc.freeze()

    def run(self, job: dict[str, Any]) -> dict[str, Any]:
        """Return the outcome of one mutant: killed (by which test), survived, or uncovered.

        The tests that killed other mutants of the function, then those of the module, run first.
        """
        began = time.monotonic()
        path, function = job["mutant"]["path"], job["mutant"]["function"]
        of_function, of_module = self._killers.get((path, function), {}), self._killers.get((path, ""), {})
        first = [*of_function, *of_module]
        tests = [name for name in job["tests"] if name in self._items and name not in self._broken]
        tests.sort(key=lambda name: first.index(name) if name in first else len(first))
        outcome, killer = "uncovered", ""
        while tests:
            outcome, killer = self._mutated(job, tests)
            if outcome != "killed" or self._passes(killer):
                break
            tests = [name for name in tests if name not in self._broken]
        if outcome == "killed" and killer in self._items:
            for place in ((path, function), (path, "")):
                self._killers.setdefault(place, {})[killer] = None
        return {
            **job["mutant"],
            "outcome": outcome,
            "killer": killer,
            "tests": len(tests),
            "seconds": round(time.monotonic() - began, 1),
        }

    def _mutated(self, job: dict[str, Any], tests: Sequence[str]) -> tuple[str, str]:
        path = self._root / job["mutant"]["path"]
        original, times = path.read_bytes(), os.stat(path).st_mtime_ns
        path.write_text(job["text"], encoding="utf-8")
        os.utime(path, ns=(times + _LATER_NS, times + _LATER_NS))
        try:
            limit = _TEST_SECONDS + 5 * job["slowest"]
            if not job["fresh"]:
                code, report = self._forked(
                    lambda report: self._patched(path, original, job["text"], tests, report), limit
                )
                if code != _FRESH:
                    return _outcome(code, report)
            return _outcome(*self._forked(lambda _: _anew(tests, self._scratch), limit + _IMPORT_SECONDS))
        finally:
            path.write_bytes(original)
            os.utime(path, ns=(times, times))

    def _passes(self, name: str) -> bool:
        """Whether a test that failed passes without the mutant: else it says nothing."""
        if name not in self._sound and name in self._items:
            code, _ = self._forked(lambda report: self._tests([name], report), 300)
            (self._broken if code else self._sound).add(name)
        return name not in self._broken

    def _forked(self, work: Callable[[Callable[[str], None]], int], limit: float) -> tuple[int | None, str]:
        """Run something in a child; return its exit status, `None` after the limit, and what it reported last.

        The limit, in seconds, is of each test: a report begins one.
        """
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir()
        said = self._scratch / "report"
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            status = _KILLED
            try:
                os.setsid()
                null = os.open(os.devnull, os.O_RDWR)
                for number in (0, 1, 2):
                    os.dup2(null, number)
                status = work(lambda text: said.write_text(text, encoding="utf-8") and None)
            finally:
                os._exit(status)
        code = _wait(pid, limit, said)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        self._restore()
        if code is None:
            os.waitpid(pid, 0)
        report = said.read_text(encoding="utf-8") if said.exists() else ""
        shutil.rmtree(self._scratch, ignore_errors=True)
        return code, report

    def _restore(self) -> None:
        """Give directories that are not ours alone their permissions and owners back."""
        for path, before in self._shared.items():
            if os.geteuid() == 0 and _rights(path) != before:
                mode, user, group = before
                os.chown(path, user, group)
                os.chmod(path, mode)

    def _patched(
        self, path: Path, original: bytes, text: str, tests: Sequence[str], report: Callable[[str], None]
    ) -> int:
        patched = _patch(self._functions, str(path), original.decode(), text)
        return self._tests(tests, report) if patched else _FRESH

    def _tests(self, tests: Sequence[str], report: Callable[[str], None]) -> int:
        factory = self._config._tmp_path_factory  # type: ignore[attr-defined]  # noqa: SLF001 -- as its fixtures do
        base = self._scratch / "t"
        base.mkdir()
        factory._basetemp = base  # noqa: SLF001 -- each child has a place of its own
        items = [self._items[name] for name in tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            report(item.nodeid)
            if any(each.failed for each in runtestprotocol(item, log=False, nextitem=following)):
                return self._ended(item, _KILLED)
        return 0

    @staticmethod
    def _ended(item: pytest.Item, status: int) -> int:
        """Let fixtures end what they began, mounts and processes."""
        with contextlib.suppress(BaseException):
            item.session._setupstate.teardown_exact(None)  # noqa: SLF001 -- the test that would do so comes no more
        return status


def _rights(path: str) -> tuple[int, int, int]:
    status = os.stat(path)
    return stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid


def _outcome(code: int | None, report: str) -> tuple[str, str]:
    if code is None:
        return "killed", f"timeout: {report}"
    return ("killed", report) if code else ("survived", "")


def _wait(pid: int, limit: float, report: Path) -> int | None:
    began, pause = time.time(), 0.005
    while time.time() < began + limit:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(pause * 1.3, 0.2)
        with contextlib.suppress(FileNotFoundError):
            began = max(began, report.stat().st_mtime)
    return None


def _anew(tests: Sequence[str], scratch: Path) -> int:
    """Run tests in a new interpreter that collects only them."""
    names = scratch / "tests"
    names.write_text("\n".join(tests), encoding="utf-8")
    os.environ.update(MUTANTS_ONLY=str(names), MUTANTS_REPORT=str(scratch / "report"))
    files = sorted({name.partition("::")[0] for name in tests})
    options = [
        "-x",
        "-q",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
        "-p",
        "tools.mutants.only",
        f"--basetemp={scratch}/t",
    ]
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *options, *files])  # noqa: S606 -- a child that was forked
    return _KILLED


def _key(code: types.CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _patch(functions: Functions, path: str, original: str, mutated: str) -> bool:
    """Give the functions that differ their new code; return whether that is the whole change."""
    pairs = [*_pairs(compile(original, path, "exec"), compile(mutated, path, "exec"))]
    if any(old is None or not old.co_flags & 2 for old, _ in pairs):  # CO_NEWLOCALS: a function
        return False
    for old, new in pairs:
        for function in functions.get(_key(old), []):
            if len(function.__code__.co_freevars) != len(new.co_freevars):
                return False
            function.__code__ = new
    return True


def _pairs(old: types.CodeType, new: types.CodeType) -> Iterator[tuple[types.CodeType, types.CodeType]]:
    """Yield the code objects that differ in themselves, and those around them that are functions."""
    olds, news = _inner(old), _inner(new)
    inner = [pair for a, b in zip(olds, news, strict=False) for pair in _pairs(a, b)]
    differs = len(olds) != len(news) or _own(old) != _own(new)
    if differs or (inner and old.co_flags & 2):
        yield old, new
    yield from inner


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [each for each in code.co_consts if isinstance(each, types.CodeType)]


def _own(code: types.CodeType) -> tuple[Any, ...]:
    constants = tuple(repr(each) for each in code.co_consts if not isinstance(each, types.CodeType))
    return (
        code.co_code,
        constants,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_exceptiontable,
        code.co_flags,
    )
