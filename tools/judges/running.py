"""Tests of other projects in processes of their own: a panic, an abort or a hang costs only the test that it is in."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tools.judges.packages import Cache
    from tools.judges.results import Result

__all__ = ["Ended", "Job", "Judged", "run", "run_all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The broker that a suite judges.

    address: its HOST:PORT. sasl_address: that of a listener with the users of `brokers.USERS`, or None. limit_seconds:
    how long one test may take. is_brief: whether tests use fewer messages, where they let one choose their number.
    kafka_version: the release that the suites take the broker for.
    """

    address: str
    sasl_address: str | None
    cache: Cache
    limit_seconds: float
    is_brief: bool = False
    kafka_version: str = "4.3.1"

    @property
    def host(self) -> str:
        """The host of the address."""
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> str:
        """The port of the address."""
        return self.address.rpartition(":")[2]


class Job(NamedTuple):
    """One process: the names of the tests that it runs, and the function that runs it and returns their results."""

    names: tuple[str, ...]
    run: Callable[[], Iterable[Result]]


class Ended(NamedTuple):
    """How a process ended. status: its exit status; None: it was killed at its limit. text: all that it printed."""

    status: int | None
    seconds: float
    text: str


def run(
    command: Sequence[str],
    log: Path,
    limit_seconds: float,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    until: Callable[[str], bool] | None = None,
) -> Ended:
    """Run a program to its end, or kill it and its children at the limit. Its output is kept in a log.

    until: whether the text so far shows that a program that never ends has done its work; it is then ended with
    status 0.
    """
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **env} if env is not None else None,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    status = _wait(process, log, limit_seconds, until)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # its children
    return Ended(status, time.monotonic() - started, log.read_text(encoding="utf-8", errors="replace"))


def _wait(
    process: subprocess.Popen[bytes], log: Path, limit_seconds: float, until: Callable[[str], bool] | None
) -> int | None:
    ends = time.monotonic() + limit_seconds
    while (left := ends - time.monotonic()) > 0:
        try:
            return process.wait(left if until is None else 0.5)
        except subprocess.TimeoutExpired:
            if until is not None and until(log.read_text(encoding="utf-8", errors="replace")):
                _kill(process)
                return 0
    _kill(process)
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_all(tests: Sequence[Job], jobs: int) -> Iterator[Result]:
    """Run tests, N at a time and begun in their order. Yield results as they come."""
    with ThreadPoolExecutor(jobs) as pool:
        for each in as_completed([pool.submit(test.run) for test in tests]):
            yield from each.result()
