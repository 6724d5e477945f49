"""Ctrl-C between two rows: a dump ends with a whole line and its summary."""

from __future__ import annotations

import signal
from threading import Event
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from kafkalog_core.ops.progress import Progress
    from kafkalog_core.ops.report import Report

__all__ = ["Interruption", "StoppableProgress", "Stopped"]


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
