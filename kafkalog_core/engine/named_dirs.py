"""The paths of the log directories that a command names together, and what was read of them: each is read once.

Which of them are of one broker or cluster is decided in `kafka.sim.named_dirs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

__all__ = ["NamedDirs"]

T = TypeVar("T")


class NamedDirs:
    """The log directories that a command names together. Each is read once, however many others ask about it.

    Args:
        paths: their absolute paths.
    """

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self.paths = tuple(dict.fromkeys(paths))
        self._kept: dict[Hashable, Any] = {}
        self._latest: dict[str, tuple[Hashable, Any]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedDirs) and self.paths == other.paths

    def __hash__(self) -> int:
        return hash(self.paths)

    def __reduce__(self) -> tuple[type[NamedDirs], tuple[tuple[str, ...]]]:
        # Sent without what was read: a worker reads for itself what it needs.
        return NamedDirs, (self.paths,)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key, which the first call for it creates."""
        if key not in self._kept:
            self._kept[key] = make()
        return cast("T", self._kept[key])

    def latest(self, kind: str, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key, which is kept until another key of this kind is asked for: it may be large."""
        kept = self._latest.get(kind)
        if kept is None or kept[0] != key:
            self._latest.pop(kind, None)  # before the next one is in memory too
            self._latest[kind] = kept = key, make()
        return cast("T", kept[1])
