"""How this process reads files: the page cache, a limit of the bytes in a second, and files that are open already."""

from __future__ import annotations

from collections import ChainMap, UserDict
from itertools import count
from posixpath import dirname
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["READING", "PlannedLayers", "PlannedPaths", "ReadLimit"]

_MOMENT_S: Final = 0.1
_STATES: Final = count(1)


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


class PlannedPaths(UserDict[str, Any]):
    """Files as a plan will leave them (`storage.planned.PlannedFile`), by their paths; None: deleted.

    Found by directory too, because a plan for many partitions has many files, and each directory is listed. No `dict`:
    its `pop` and `clear` would not come here.
    """

    def __init__(self, files: Mapping[str, Any] | None = None) -> None:
        self._by_directory: dict[str, dict[str, None]] = {}
        self._state = next(_STATES)
        super().__init__(files)

    def __setitem__(self, path: str, planned: Any) -> None:
        self._by_directory.setdefault(dirname(path), {})[path] = None
        self._state = next(_STATES)
        super().__setitem__(path, planned)

    def __delitem__(self, path: str) -> None:
        super().__delitem__(path)
        del self._by_directory[dirname(path)][path]
        self._state = next(_STATES)

    def __reduce__(self) -> tuple[object, ...]:
        return PlannedPaths, (dict(self),)

    @property
    def state(self) -> tuple[int, ...]:
        """What is another one after each change, and while other files are planned."""
        return (self._state,)

    def paths_in(self, directory: str) -> Iterable[str]:
        """Return the paths in a directory, not in those below it."""
        return self._by_directory.get(directory, ())


class PlannedLayers(ChainMap[str, Any]):
    """Planned files above others: those that a step plans while readers see what the steps before it have planned."""

    maps: list[PlannedPaths]  # type: ignore[assignment]  # of no other kind

    @property
    def state(self) -> tuple[int, ...]:
        """What is another one after each change, and while other files are planned."""
        return tuple(number for each in self.maps for number in each.state)

    def paths_in(self, directory: str) -> Iterable[str]:
        """Return the paths in a directory, not in those below it."""
        return dict.fromkeys(path for each in self.maps for path in each.paths_in(directory))


class _Reading(Struct):
    """How this process reads files.

    Args:
        keeps_cache: whether pages stay in the page cache that were not there before (`page_cache`).
        limit: of the bytes in a second; None: there is none.
        gives_way: whether it lets all other processes go first (`pool.give_way`).
        held: files that are open already, by their paths: descriptor, device, inode, and the thread that reads it. The
            pages are given back where they were opened (`reading_together`).
        planned: files that are read as a plan will leave them.
    """

    keeps_cache: bool = True
    limit: ReadLimit | None = None
    gives_way: bool = False
    held: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)
    planned: PlannedPaths | PlannedLayers = field(default_factory=PlannedPaths)


READING: Final = _Reading()
"""Of every `Source` that is opened from now on: a command sets it once, before it reads."""
