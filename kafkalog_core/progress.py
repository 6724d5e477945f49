"""How a verb says how far it is, without knowing who listens and without a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NO_PROGRESS", "Advance", "Progress"]


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


class Advance:
    """Progress that only goes on, told to a function: what is to be expected has been said elsewhere."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance = advance

    def expect(self, size_bytes: int) -> None:
        """Nothing: that has been said."""

    def advance(self, size_bytes: int) -> None:
        """So many more bytes have been read."""
        self._advance(size_bytes)


NO_PROGRESS: Progress = _NoProgress()
