"""Ctrl-C between two rows: a dump ends with a whole line and its summary."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Protocol, Self

from kafkalog_cli.exits import ExitStatus, status_of
from kafkalog_core.errors import KafkalogError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType, TracebackType

    from kafkalog_core.ops.reading.report import Report
    from kafkalog_core.progress import Progress

__all__ = ["Interruption", "StoppableProgress", "Stopped", "early_end"]


class Stopped(KeyboardInterrupt):
    """Somebody asked for the end, and it has come at a place where nothing is half written."""


class Interruption:
    """While entered, the first SIGINT is only noted; a second one raises KeyboardInterrupt at once.

    Where signals of this kind are ignored (a job in the background of a script), they stay so.
    """

    def __init__(self) -> None:
        self._noted = Event()

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def is_noted(self) -> bool:
        """Whether somebody has asked for the end."""
        return self._noted.is_set()

    def check(self) -> None:
        """Raise Stopped where somebody has asked for the end."""
        if self._noted.is_set():
            raise Stopped

    def wait(self, seconds: float) -> bool:
        """Sleep, or wake up at the signal; whether somebody has asked for the end."""
        return self._noted.wait(seconds)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._noted.is_set():
            raise KeyboardInterrupt
        self._noted.set()


class StoppableProgress:
    """Passes progress on, and ends the work where it says how far it is: there nothing is half written."""

    def __init__(self, progress: Progress, interruption: Interruption, report: Report | None = None) -> None:
        """`report` counts what has been read, for the summary of an interrupted run; None: nothing is counted."""
        self._progress = progress
        self._interruption = interruption
        self._report = report

    def expect(self, size_bytes: int) -> None:
        """So many more bytes are to be read."""
        self._progress.expect(size_bytes)

    def advance(self, size_bytes: int) -> None:
        """So many more bytes have been read. Raises Stopped."""
        self._progress.advance(size_bytes)
        if self._report is not None:
            self._report.advanced_bytes += size_bytes
        self._interruption.check()


class Finishing(Protocol):
    """Any writer of rows."""

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show the summary behind all rows."""


@contextmanager
def early_end(writer: Finishing, report: Report) -> Iterator[None]:
    """Where the body ends by Ctrl-C or an error of ours, what is known by then gets its summary before that is said.

    An error before the first row has none: there is nothing to sum up. Behind the body the caller writes the summary of
    a whole result.
    """
    try:
        yield
    except Stopped:
        unfinished = {"unfinished_bytes": report.unfinished_bytes}  # not a column: only the last line shows it
        writer.finish(report.summary_row() | {"interrupted": True, "exit_status": int(ExitStatus.CRASH)} | unfinished)
        raise
    except KafkalogError as error:
        if report.rows:
            writer.finish(report.summary_row() | {"exit_status": int(status_of(error))})
        raise
