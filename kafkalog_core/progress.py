"""Progress of a verb, without a clock and without knowledge of who displays it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NO_PROGRESS", "Advance", "Progress"]


class Progress(Protocol):
    """Receives first the amount of work, and then, repeatedly, the part that has been done."""

    def expect(self, size_bytes: int) -> None:
        """Add bytes that are still to be read; several calls add up."""

    def advance(self, size_bytes: int) -> None:
        """Add bytes that have been read."""


class _NoProgress:
    """Progress that is not displayed."""

    def expect(self, size_bytes: int) -> None:
        """Ignore it."""

    def advance(self, size_bytes: int) -> None:
        """Ignore it."""


class Advance:
    """Progress that only passes advances to a function: the amount of work is known elsewhere."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance = advance

    def expect(self, size_bytes: int) -> None:
        """Ignore it: the amount of work is known."""

    def advance(self, size_bytes: int) -> None:
        """Pass on bytes that have been read."""
        self._advance(size_bytes)


NO_PROGRESS: Progress = _NoProgress()
