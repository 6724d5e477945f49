"""The progress bar on stderr."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["ProgressBar", "end_progress", "open_progress"]

QUIET_SECONDS: Final = 1.0
_SHOWN: Final[list[ProgressBar]] = []


class ProgressBar:
    """A progress listener (`expect`, `advance`) with a bar that appears after a second.

    There is no bar where stderr is not a terminal, nor where the rows appear on the same terminal.
    """

    def __init__(self, *, shares_terminal: bool) -> None:
        self._wanted = sys.__stderr__ is not None and sys.stderr.isatty() and not shares_terminal
        self._started_at = time.monotonic()
        self._bar: Progress | None = None
        self._expected_bytes = 0
        self._done_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Remove the bar from the terminal for good."""
        self._wanted = False
        if self._bar is not None:
            _SHOWN.remove(self)
            self._bar.stop()
            self._bar = None

    def expect(self, size_bytes: int) -> None:
        """Add bytes that are still to be read."""
        self._expected_bytes += size_bytes

    def advance(self, size_bytes: int) -> None:
        """Add bytes that have been read."""
        self._done_bytes += size_bytes
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done_bytes, total=self._expected_bytes or None)
        elif self._wanted and time.monotonic() - self._started_at > QUIET_SECONDS:
            self._start()

    def _start(self) -> None:
        from rich import console, progress  # noqa: PLC0415 - a command of less than a second never needs it

        self._bar = progress.Progress(
            progress.BarColumn(),
            progress.DownloadColumn(binary_units=True),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            console=console.Console(stderr=True),
            transient=True,
        )
        self._bar.add_task("read", total=self._expected_bytes or None, completed=self._done_bytes)
        self._bar.start()
        _SHOWN.append(self)


def open_progress(*, shares_terminal: bool) -> ProgressBar:
    """Return the bar on stderr.

    `shares_terminal`: the rows go to a terminal themselves and show how far the command is, so there is no bar.
    """
    return ProgressBar(shares_terminal=shares_terminal)


def end_progress() -> None:
    """Remove the bar from the terminal before the end of the output, which the bar would overwrite."""
    for bar in [*_SHOWN]:
        bar.stop()
