"""A progress bar on stderr, for what takes more than a second, on a terminal only."""

from __future__ import annotations

import sys
import time
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TimeRemainingColumn, TransferSpeedColumn

__all__ = ["ProgressBar"]

QUIET_SECONDS: Final = 1.0


class ProgressBar:
    """Listens to an operation (`expect`, `advance`) and shows how far it is.

    Nothing appears where stderr is no terminal, nor where rows go to the same terminal and say it themselves.
    """

    def __init__(self, *, shares_terminal: bool) -> None:
        self._wanted = sys.stderr.isatty() and not shares_terminal
        self._started_at = time.monotonic()
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._expected_bytes = 0
        self._done_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def expect(self, size_bytes: int) -> None:
        """So many more bytes are to be read."""
        self._expected_bytes += size_bytes

    def advance(self, size_bytes: int) -> None:
        """So many more bytes have been read."""
        self._done_bytes += size_bytes
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done_bytes, total=self._expected_bytes or None)
        elif self._wanted and time.monotonic() - self._started_at > QUIET_SECONDS:
            self._start()

    def _start(self) -> None:
        self._bar = Progress(
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("read", total=self._expected_bytes or None, completed=self._done_bytes)
        self._bar.start()
