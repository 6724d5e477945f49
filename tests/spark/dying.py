"""A disk that ends the process before a step, or that is full from a step on."""

from __future__ import annotations

import os

from kafkalog_core.storage.changing.writer import Disk


class KilledError(BaseException):
    """The process is gone: no step happens any more."""


class DyingDisk(Disk):
    """Ends the process before a step; or the system refuses this step, and those after it while it is full."""

    def __init__(self, at: int, number: int | None = None, *, for_ever: bool = True) -> None:
        self.steps: list[str] = []
        self._at = at
        self._number = number
        self._for_ever = for_ever

    def step(self, what: str, path: str) -> None:
        """Count, and die."""
        self.steps.append(f"{what} {path}")
        if len(self.steps) <= self._at or (len(self.steps) > self._at + 1 and not self._for_ever):
            return
        if self._number is None:
            raise KilledError
        if what in {"create", "write", "mkdir", "commit"}:
            raise OSError(self._number, os.strerror(self._number))
