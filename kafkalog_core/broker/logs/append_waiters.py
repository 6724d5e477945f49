"""Who waits for an append to a partition (Kafka's `DelayedOperationPurgatory`)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["AppendWaiters"]


class AppendWaiters:
    """Functions that are called after an append to one of their partitions, until they are removed. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, int], dict[Callable[[], None], None]] = {}
        self._lock = threading.Lock()

    def add(self, partitions: Iterable[tuple[str, int]], call: Callable[[], None]) -> None:
        """Call a function after each append to one of these partitions."""
        with self._lock:
            for each in partitions:
                self._waiting.setdefault(each, {})[call] = None

    def remove(self, partitions: Iterable[tuple[str, int]], call: Callable[[], None]) -> None:
        """Stop calling it; it need not be there any more."""
        with self._lock:
            for each in partitions:
                waiting = self._waiting.get(each)
                if waiting is not None:
                    waiting.pop(call, None)
                    if not waiting:
                        del self._waiting[each]

    def notify(self, topic: str, partition: int) -> None:
        """Call those who wait for a partition, on the thread that appended."""
        with self._lock:
            calls = list(self._waiting.get((topic, partition), ()))
        for call in calls:
            call()
