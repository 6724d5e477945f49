"""How a command runs: the clock and the cores, progress, Ctrl-C between two rows, and results on their way to a writer.

A command that is interrupted, or that meets an error, ends with a whole line and its summary.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing, contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import click

from kafkalog_cli.command import ExitStatus, status_of
from kafkalog_cli.render.progress import end_progress, open_progress
from kafkalog_core import kernels
from kafkalog_core.errors import KafkalogError, WorkerLostError
from kafkalog_core.storage.object_paths import REACHING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from types import FrameType, TracebackType

    from kafkalog_cli.render.writers import ResultWriter
    from kafkalog_core.engine.report import Report
    from kafkalog_core.progress import Progress

__all__ = [
    "Interruption",
    "SignalFlag",
    "StoppableProgress",
    "Stopped",
    "clock_ms",
    "cores",
    "early_end",
    "interpreted_warning",
    "warn_of_interpreted",
    "watched",
    "write_results",
]

Item = TypeVar("Item")


def clock_ms() -> int:
    """Return the time of the clock, in milliseconds since 1970. No module of the core reads a clock."""
    return time.time_ns() // 1_000_000


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def warn_of_interpreted() -> None:
    """Warn on stderr that a command takes long, where the kernels are not compiled."""
    warning = interpreted_warning()
    if warning is not None:
        click.echo(f"kafkalog: {warning}", err=True)


def interpreted_warning() -> str | None:
    """Return what to know where the kernels are not compiled; None: they are."""
    if kernels.COMPILED:
        return None
    return "no compiled kernels here; the interpreted ones are about 100 times slower"


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------
class Stopped(KeyboardInterrupt):
    """An interrupt that was handled at a point where nothing is half written."""


class SignalFlag:
    """What a signal handler sets, and the main thread waits for.

    A `threading.Event` is not for that: a handler that runs where `Event.wait` holds the lock of the event waits for it
    for ever, since it is the same thread that would release it.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._lock = Lock()
        self._lock.acquire()

    def is_set(self) -> bool:
        """Return whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and end a wait."""
        self._is_set = True
        with suppress(RuntimeError):  # it was set before
            self._lock.release()

    def wait(self, seconds: float) -> bool:
        """Wait until it is set, at most for a time; return whether it is."""
        if not self._is_set and self._lock.acquire(timeout=max(0.0, seconds)):
            with suppress(RuntimeError):
                self._lock.release()
        return self._is_set


class Interruption:
    """A context in which the first SIGINT is only noted; a second one raises KeyboardInterrupt at once.

    Where the process ignores SIGINT (a background job of a script), it still ignores it.
    """

    def __init__(self) -> None:
        self._noted = SignalFlag()

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._note)
        self._checked_before, REACHING.check = REACHING.check, self.check
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)
        REACHING.check = self._checked_before

    def is_noted(self) -> bool:
        """Return whether a SIGINT has arrived."""
        return self._noted.is_set()

    def check(self) -> None:
        """Raise Stopped if a SIGINT has arrived."""
        if self._noted.is_set():
            raise Stopped

    def wait(self, seconds: float) -> bool:
        """Sleep until the time is over or a SIGINT arrives; return whether one has arrived."""
        return self._noted.wait(seconds)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._noted.is_set():
            raise KeyboardInterrupt
        self._noted.set()


class StoppableProgress:
    """A progress listener that stops the work after a SIGINT: where progress is reported nothing is half written."""

    def __init__(self, progress: Progress, interruption: Interruption, report: Report | None = None) -> None:
        """Pass progress on to `progress`; add the bytes read to `report`, for the summary of an interrupted run."""
        self._progress = progress
        self._interruption = interruption
        self._report = report

    def expect(self, size_bytes: int) -> None:
        """Add bytes that are still to be read."""
        self._progress.expect(size_bytes)

    def advance(self, size_bytes: int) -> None:
        """Add bytes that have been read. Raises Stopped."""
        self._progress.advance(size_bytes)
        if self._report is not None:
            self._report.advanced_bytes += size_bytes
        self._interruption.check()


@contextmanager
def watched(*, shares_terminal: bool = False) -> Iterator[Progress]:
    """Yield a progress listener: a bar on a terminal, and a SIGINT raises Stopped at the next report of progress."""
    with Interruption() as interruption, open_progress(shares_terminal=shares_terminal) as progress:
        yield StoppableProgress(progress, interruption)


# --- results ----------------------------------------------------------------------------------------------------------
class _Finishing(Protocol):
    """Any writer of results."""

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show the summary after all rows."""


@contextmanager
def early_end(writer: _Finishing, report: Report) -> Iterator[None]:
    """Write the summary of what is known so far where the body ends by Ctrl-C or a KafkalogError, then raise it again.

    There is no summary for an error before the first row, and none after rows of a worker process that was lost: they
    were not counted. After a body that ends normally the caller writes the summary of the whole result.
    """
    try:
        yield
    except Stopped:
        unfinished = {"unfinished_bytes": report.unfinished_bytes}  # not a column: only the last line shows it
        with suppress(BrokenPipeError):  # the interrupt is what ended it
            writer.finish(
                report.summary_row() | {"interrupted": True, "exit_status": int(ExitStatus.CRASH)} | unfinished
            )
        raise
    except KafkalogError as error:
        if report.rows and not (isinstance(error, WorkerLostError) and error.wrote_rows):
            with suppress(BrokenPipeError):
                writer.finish(report.summary_row() | {"exit_status": int(status_of(error))})
        raise


def write_results(writer: ResultWriter[Item], items: Generator[Item, None, None], report: Report) -> int:
    """Write every item, then the summary; return the exit status. An error is raised after what is known by then."""
    with early_end(writer, report), closing(items):
        for item in items:
            writer.write(item)
    end_progress()
    writer.finish(report.summary_row())
    return int(report.exit_status)
