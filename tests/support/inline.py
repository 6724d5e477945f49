"""Workers that are this process: what other processes would do, where a test can look at it."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Inline:
    """Does one piece after another. Pieces and results travel as between processes."""

    jobs = 1
    scratch: None = None

    def __init__(self) -> None:
        self.pieces = 0
        self.read_bytes = 0

    def map(self, work_of: Callable[..., Any], pieces: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """See `kafkalog_core.engine.pool.Workers`."""
        for piece in pieces:
            self.pieces += 1
            yield _travelled(work_of(*_travelled(piece), self._advance))

    def _advance(self, size_bytes: int) -> None:
        self.read_bytes += size_bytes


def _travelled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 -- our own


class Meanwhile(Inline):
    """Workers that do something else after the first piece of work."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self._act = act

    def map(self, work_of: Callable[..., Any], pieces: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        for number, result in enumerate(super().map(work_of, pieces)):
            if number == 0:
                self._act()
            yield result
