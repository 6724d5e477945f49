"""How this process reads files: the page cache, a limit of the bytes in a second, and files that are open already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["READING", "ReadLimit"]

_MOMENT_S: Final = 0.1


class ReadLimit:
    """The most bytes that are read in a second, on average over a moment."""

    def __init__(self, bytes_per_s: float, clock: Callable[[], float], sleep: Callable[[float], object]) -> None:
        """Set the limit; `clock` and `sleep` are in seconds."""
        self.bytes_per_s = bytes_per_s
        self._clock = clock
        self._sleep = sleep
        # When all that was read so far may have been read
        self._due_s = 0.0

    def share(self, number: int) -> ReadLimit:
        """Return the limit of each of some processes that keep to this one together."""
        return ReadLimit(self.bytes_per_s / number, self._clock, self._sleep)

    def count(self, size_bytes: int) -> None:
        """Count bytes that were read, and sleep until that many may have been read."""
        now_s = self._clock()
        # The credit of one moment: after a pause a reader must not catch up at full speed.
        self._due_s = max(self._due_s, now_s - _MOMENT_S) + size_bytes / self.bytes_per_s
        if self._due_s > now_s:
            self._sleep(self._due_s - now_s)


class _Reading(Struct):
    """How this process reads files.

    Args:
        keeps_cache: whether pages stay in the page cache that were not there before (`page_cache`).
        limit: of the bytes in a second; None: there is none.
        gives_way: whether it lets all other processes go first (`pool.give_way`).
        held: files that are open already, by their paths: descriptor, device, inode, and the thread that reads it. The
            pages are given back where they were opened (`reading_together`).
        planned: files that are read as a plan will leave them (`storage.planned.PlannedFile`), by their paths; None:
            deleted.
    """

    keeps_cache: bool = True
    limit: ReadLimit | None = None
    gives_way: bool = False
    held: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)
    planned: Mapping[str, Any] = field(default_factory=dict)


READING: Final = _Reading()
"""Of every `Source` that is opened from now on: a command sets it once, before it reads."""
