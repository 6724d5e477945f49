"""Which tests reach a kernel: they run once more on the interpreted twin. The other ones cannot tell the twins apart.

A test that asks for the interpreted twin by name (`tests.twins.twin`) has called it already, and need not run again.
KAFKALOG_REACHED names a file. A run with the compiled twin writes to it of every test whether it has reached a kernel,
or only begun a process, which may have; a run with the interpreted twin leaves out those of which the file says that
they have done neither. A test of which it says nothing runs, and one that has reached a kernel and is not there fails
the run. Of those that only begin processes the part runs that the commit draws (`sharing`): each starts Python again.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalog_core.format import kernels
from kafkalog_core.format.kernels import loops
from tests import sharing, twins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["VARIABLE", "Chosen", "Watch", "chooses", "plugin"]

VARIABLE: Final = "KAFKALOG_REACHED"
_PROPERTY: Final = "reached a kernel"
_PROCESS: Final = "process"
_CHILDREN: Final = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"})
"""Audit events of processes that begin. What they do is not seen from here, so all of them count."""


class Watch:
    """Writes the file. It has to be made before any module of the product takes a kernel from the package."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._has_called = self._has_begun_process = False
        self._calls_before = 0
        self._found: dict[str, bool | str] = {}
        watched = {name: self._watched(getattr(loops, name)) for name in loops.__all__}
        for name, decoder in kernels._DECODERS.items():
            kernels._DECODERS[name] = watched[decoder.__name__]
        for module in (loops, kernels):
            vars(module).update(watched)
        BaseProcess.start = self._noting_start(BaseProcess.start)  # type: ignore[method-assign]
        sys.addaudithook(self._hear)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        self._has_called = self._has_begun_process = False
        self._calls_before = twins.interpreted_calls()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        report = yield
        if call.when == "teardown":
            has_compared = _is_of_compiled(item) or twins.interpreted_calls() > self._calls_before
            reached = self._has_called or (_PROCESS if self._has_begun_process else False)
            report.user_properties.append((_PROPERTY, False if has_compared else reached))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of all workers, where there are any."""
        properties = dict(report.user_properties)
        if _PROPERTY in properties:
            self._found[report.nodeid] = properties[_PROPERTY]

    def pytest_sessionfinish(self) -> None:
        if "PYTEST_XDIST_WORKER" not in os.environ:
            self._path.write_text(json.dumps(self._found, indent=0), encoding="utf-8")

    def pytest_report_header(self) -> str:
        return f"tests that reach a kernel are written to {self._path}"

    def _watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def noting(*arguments: Any, **named: Any) -> Any:
            self._has_called = True
            return function(*arguments, **named)

        return noting

    def _noting_start(self, start: Callable[[BaseProcess], None]) -> Callable[[BaseProcess], None]:
        """Of a process that a server forks, which nothing here is told of."""

        @functools.wraps(start)
        def noting(process: BaseProcess) -> None:
            self._has_begun_process = True
            start(process)

        return noting

    def _hear(self, event: str, _: tuple[Any, ...]) -> None:
        if event in _CHILDREN:
            self._has_begun_process = True


class Chosen:
    """Reads the file, and keeps the tests that have reached a kernel, and those that are new to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        found: dict[str, bool | str] = json.loads(path.read_text(encoding="utf-8"))
        part = sharing.share()
        drawn = found.keys() if part is None else part.of(found)
        self._runs = {
            name: bool(reached) and name in drawn and (part is None or reached != _PROCESS or part.has(name))
            for name, reached in found.items()
        }
        self._missing = {name for name, runs in self._runs.items() if runs}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left_out = [item for item in items if not self._runs.get(item.nodeid, True)]
        items[:] = [item for item in items if self._runs.get(item.nodeid, True)]
        config.hook.pytest_deselected(items=left_out)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._missing.discard(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self._missing and exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._missing:
            terminalreporter.section("tests that reach a kernel and have not run with the interpreted twin", red=True)
            for name in sorted(self._missing):
                terminalreporter.line(name)

    def pytest_report_header(self) -> str:
        return f"tests that reach a kernel, as of {self._path}, with the interpreted twin"


def _is_of_compiled(item: pytest.Item) -> bool:
    """Whether the test is that of the compiled twin, by its parameters: with the interpreted one it does not exist."""
    callspec = getattr(item, "callspec", None)
    return callspec is not None and "compiled" in callspec.params.values()


def chooses() -> bool:
    """Whether this run chooses its tests by the file."""
    return bool(os.environ.get(VARIABLE)) and not kernels.COMPILED


def plugin() -> Watch | Chosen | None:
    """What the environment asks for."""
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    return Watch(Path(path)) if kernels.COMPILED else Chosen(Path(path))
