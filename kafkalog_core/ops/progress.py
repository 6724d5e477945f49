"""How a verb says how far it is, without knowing who listens and without a clock."""

from __future__ import annotations

from typing import Protocol

__all__ = ["NO_PROGRESS", "Progress"]


class Progress(Protocol):
    """A listener: first told how much there is, then, as often as convenient, how much of it has been done."""

    def expect(self, size_bytes: int) -> None:
        """So many more bytes are to be read; adds up over several calls."""

    def advance(self, size_bytes: int) -> None:
        """So many more bytes have been read."""


class _NoProgress:
    """Nobody listens."""

    def expect(self, size_bytes: int) -> None:
        """Ignore it."""

    def advance(self, size_bytes: int) -> None:
        """Ignore it."""


NO_PROGRESS: Progress = _NoProgress()
