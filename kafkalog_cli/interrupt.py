"""Ctrl-C between two rows: a following dump ends with a whole line and its summary."""

from __future__ import annotations

import signal
from threading import Event
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType

__all__ = ["Interruption"]


class Interruption:
    """While entered, the first SIGINT is only noted; a second one raises KeyboardInterrupt at once."""

    def __init__(self) -> None:
        self._noted = Event()

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def is_noted(self) -> bool:
        """Whether somebody has asked for the end."""
        return self._noted.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep, or wake up at the signal; whether somebody has asked for the end."""
        return self._noted.wait(seconds)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._noted.is_set():
            raise KeyboardInterrupt
        self._noted.set()
