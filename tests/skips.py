"""CI's rule about skipped tests: with KAFKALOG_EXPECT_NO_SKIPS=1 a skip that nobody expects fails the run.

Expected ones are in `expected_skips.txt`, a line each: a pattern of node ids as of `fnmatch`, a colon and a blank,
and why such a test may be skipped where CI runs.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

VARIABLE = "KAFKALOG_EXPECT_NO_SKIPS"
EXPECTED = Path(__file__).with_name("expected_skips.txt")


class SkipGuard:
    """Collects skips; at the end those that were not expected are reported, and the run fails."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(patterns)
        self._unexpected: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._see(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._see(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self._unexpected and exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._unexpected:
            return
        terminalreporter.section(f"unexpected skips ({VARIABLE} is set)", red=True)
        for skip in self._unexpected:
            terminalreporter.line(skip)
        terminalreporter.line(f"A skip that is right where CI runs has a line in {EXPECTED.name}.")

    def _see(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        if not any(fnmatchcase(report.nodeid, pattern) for pattern in self._patterns):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self._unexpected.append(f"{report.nodeid}: {reason.removeprefix('Skipped: ')}")


def expected_skips(text: str) -> list[str]:
    """The patterns of the list; each line has to say why."""
    patterns = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        pattern, colon, reason = line.partition(": ")
        assert colon, f"{EXPECTED.name}: no reason in {line!r}"
        assert reason.strip(), f"{EXPECTED.name}: no reason in {line!r}"
        patterns.append(pattern)
    return patterns


def guard() -> SkipGuard | None:
    """The guard, where CI asks for it."""
    if os.environ.get(VARIABLE) != "1":
        return None
    return SkipGuard(expected_skips(EXPECTED.read_text()))
